/* Sessions that were signed out: their cookies, which nothing else can recall, count no more. Used
 * by web/session.c. The file `signed-out` of the state folder has them until they would expire, so
 * that they stay signed out after a restart. A person's list is short; when it is full, all
 * sessions of that person that expire no later than the last of them end with it. Everything runs
 * on the loop's thread. */
#ifndef KILN_WEB_SIGN_OUTS_H
#define KILN_WEB_SIGN_OUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/loop.h"

#define KILN_SIGN_OUT_ID 33u         /* longest identity of a session, and its NUL */
#define KILN_SIGN_OUTS_OF_PERSON 32u /* listed one by one */
#define KILN_SIGN_OUTS_MAX 4096u     /* of all; then those that expire first are forgotten */

typedef struct kiln_sign_outs kiln_sign_outs;

/* What identifies a session. Texts are the caller's. */
typedef struct kiln_sign_out {
    const char *person, *id;
    uint64_t expires_s; /* since 1970 */
} kiln_sign_out;

/* Reads the file. Errors of kiln_file_read; DATA_LOSS: it is damaged. */
KILN_MUST_USE kiln_status kiln_sign_outs_create(kiln_loop *loop, const char *state_folder,
                                                kiln_sign_outs **out_sign_outs);
/* Nobody is told any more. NULL is fine. */
void kiln_sign_outs_destroy(kiln_sign_outs *sign_outs);

bool kiln_sign_outs_has(const kiln_sign_outs *sign_outs, const kiln_sign_out *session);
/* From now on the session is signed out. `done` is called once, from the loop and never from
 * inside, when that is on the disk. `st` is owned: errors of kiln_file_write, in which case it is
 * signed out until the server ends. */
void kiln_sign_outs_add(kiln_sign_outs *sign_outs, const kiln_sign_out *session, uint64_t now_s,
                        void (*done)(void *context, kiln_status st), void *context);

#endif
