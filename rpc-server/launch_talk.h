/* The messages between the launcher (rpc-server/launcher.h) and the server that it started, over a
 * SOCK_SEQPACKET socket, which is the server's standard input. They are text, because the ends are
 * of different versions: a word, two numbers, a line feed, text to the end. Words and numbers that
 * exist keep their meaning; unknown words are ignored. */
#ifndef KILN_RPC_SERVER_LAUNCH_TALK_H
#define KILN_RPC_SERVER_LAUNCH_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define KILN_LAUNCH_MESSAGE_BYTES 2048u

#define KILN_LAUNCH_SAYINGS(X)                                                               \
    X(RUN, "run")             /* launcher, first: this is the usual program; number */       \
    X(TRIAL, "trial")         /* launcher, first: this is a new version of upgrade number */ \
    X(FAILED, "failed")       /* launcher, first: as RUN; upgrade number failed, text */     \
    X(CONFIRMED, "confirmed") /* launcher: the new version is in its place */                \
    X(TRY, "try")             /* server: upgrade number; its seconds; the statement; the     \
                                 archive as descriptor. It ends after this */                \
    X(CONFIRM, "confirm")     /* server: this version is good */                             \
    X(FAIL, "fail")           /* server: this version is not good, text */
typedef enum kiln_launch_saying {
#define X(NAME, word) KILN_LAUNCH_SAYS_##NAME,
    KILN_LAUNCH_SAYINGS(X)
#undef X
        KILN_LAUNCH_SAYING_COUNT /* a word that this version does not know */
} kiln_launch_saying;

typedef struct kiln_launch_message {
    kiln_launch_saying saying;
    uint64_t number, seconds;
    kiln_str text;
    int fd; /* -1: none */
} kiln_launch_message;

/* Longer texts are cut. False: the other end is closed. */
bool kiln_launch_say(int socket, const kiln_launch_message *message);
/* Waits for a message; its text lies in `buffer`, its descriptor is the caller's. False: the other
 * end is closed. */
bool kiln_launch_hear(int socket, char buffer[KILN_LAUNCH_MESSAGE_BYTES],
                      kiln_launch_message *out_message);

#endif
