/* The last lines of this program's log, and who reads them from afar (TAIL). A reader gets one page
 * per question; where it follows and there is nothing new it waits here, and costs nothing
 * meanwhile: what nobody takes is written over. Lines come from any thread, everything else is the
 * loop's. */
#ifndef KILN_RPC_SERVER_LOG_TAIL_H
#define KILN_RPC_SERVER_LOG_TAIL_H

#include "proto/loop.h"
#include "proto/proto.h"

#define KILN_LOG_TAIL_LINES 256u      /* that are kept */
#define KILN_LOG_TAIL_LINE_BYTES 512u /* of each; the rest is cut off */
#define KILN_LOG_TAIL_READERS_MAX 64u /* that wait; more are told that there is nothing */

typedef struct kiln_log_tail kiln_log_tail;

/* `send`: LINES to the tracker; what it is given lasts until it returns. Takes the loop's wake. */
kiln_log_tail *kiln_log_tail_create(kiln_loop *loop,
                                    void (*send)(void *context, const kiln_message *message),
                                    void *context);
void kiln_log_tail_destroy(kiln_log_tail *tail); /* NULL is fine */
/* A line of the log (base/log.h). Any thread. */
void kiln_log_tail_put(void *tail, kiln_str line);
void kiln_log_tail_ask(kiln_log_tail *tail, const kiln_msg_tail *question);
/* The connection is gone, and with it all who wait. */
void kiln_log_tail_forget(kiln_log_tail *tail);

#endif
