/* Keeps the last lines of this program's log for remote readers (TAIL). Each TAIL is answered with
 * one page. A reader that follows the log waits here until there is a new line. The oldest lines
 * are overwritten. Lines may come from any thread; all else belongs to the loop's. */
#ifndef KILN_RPC_SERVER_LOG_TAIL_H
#define KILN_RPC_SERVER_LOG_TAIL_H

#include "proto/loop.h"
#include "proto/proto.h"

#define KILN_LOG_TAIL_LINES 256u      /* kept */
#define KILN_LOG_TAIL_LINE_BYTES 512u /* per line; the rest is cut off */
#define KILN_LOG_TAIL_READERS_MAX 64u /* that wait; more get an empty page at once */

typedef struct kiln_log_tail kiln_log_tail;

/* `send`: sends LINES to the tracker; must not keep the message. Uses the loop's wake callback. */
kiln_log_tail *kiln_log_tail_create(kiln_loop *loop,
                                    void (*send)(void *context, const kiln_message *message),
                                    void *context);
void kiln_log_tail_destroy(kiln_log_tail *tail); /* NULL is fine */
/* Adds a line (base/log.h). Any thread. */
void kiln_log_tail_put(void *tail, kiln_str line);
void kiln_log_tail_ask(kiln_log_tail *tail, const kiln_msg_tail *question);
/* The connection closed: forgets all waiting readers. */
void kiln_log_tail_forget(kiln_log_tail *tail);

#endif
