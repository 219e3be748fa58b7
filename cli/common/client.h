/* A client of the tracker: one connection on a loop, for commands that ask and wait. Texts of all
 * messages that it hands on are in their printable form (base/text.h). */
#ifndef KILN_CLI_COMMON_CLIENT_H
#define KILN_CLI_COMMON_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/opt.h"
#include "base/status.h"
#include "proto/loop.h"
#include "proto/net.h"
#include "proto/proto.h"

#define KILN_CLIENT_PATIENCE_NS \
    UINT64_C(10000000000) /* how long a lost or absent tracker is tried again */

typedef struct kiln_client kiln_client;

typedef struct kiln_client_options {
    const char *tracker;  /* ADDR; NULL: $KILN_TRACKER, else where this user's tracker listens */
    const char *key_file; /* NULL: $KILN_HOME/key, where one is needed */
    const char *person;   /* with the key of a web server: for whom it speaks; NULL: nobody */
    bool insecure;
    bool admin; /* speaks as administrator, not as client */
    bool quiet; /* the tracker was just started: nothing is said while it does not answer yet */
    /* Called again and again while there is no tracker, with what it waits for and how long yet;
     * with "" when that is over. May be NULL. */
    void (*waits)(void *context, const char *text);
    void *waits_context;
    /* Called for each message that is no answer to kiln_client_ask, and after each reconnect
     * (message NULL). The message lasts until it returns. May be NULL. */
    void (*message)(void *context, const kiln_message *message);
    void *context;
} kiln_client_options;

/* Rows of tables of options: --tracker, --key-file, --person and --insecure. Where --tracker means
 * something of its own, the last three alone; `options` is any struct with these members. */
#define KILN_CLIENT_OPTIONS(options)                                                          \
    {"tracker|$KILN_TRACKER", KILN_OPT_TEXT, &(options)->tracker, "ADDR", kiln_tracker_help}, \
        KILN_CLIENT_KEY_OPTIONS(options)
#define KILN_CLIENT_KEY_OPTIONS(options)                                           \
    {"key-file", KILN_OPT_TEXT, &(options)->key_file, "F", kiln_key_file_help},    \
        {"person", KILN_OPT_TEXT, &(options)->person, "NAME", kiln_person_help}, { \
        "insecure", KILN_OPT_FLAG, &(options)->insecure, NULL, kiln_insecure_help  \
    }
extern const char kiln_tracker_help[], kiln_key_file_help[], kiln_person_help[],
    kiln_insecure_help[];

/* Dials and waits until the connection is open. INVALID_ARGUMENT: the address; UNAVAILABLE: nobody
 * answers for KILN_CLIENT_PATIENCE_NS; UNAUTHENTICATED: another user's tracker. */
KILN_MUST_USE kiln_status kiln_client_open(const kiln_client_options *options, kiln_arena *process,
                                           kiln_client **out_client);
void kiln_client_close(kiln_client *client); /* NULL is fine */

/* Sends and waits for the answer on the same stream, which lives in `arena`. Asks again when the
 * tracker goes away before it answers: what is asked twice must mean the same. An ERROR becomes a
 * status. */
KILN_MUST_USE kiln_status kiln_client_ask(kiln_client *client, const kiln_message *question,
                                          kiln_arena *arena, kiln_message *out_answer);
/* Sends without waiting; lost when there is no connection. */
void kiln_client_send(kiln_client *client, const kiln_message *message);
/* For messages that are answered more than once: a stream of the connection that is open, and the
 * version of the protocol that it speaks; 0 when there is none. */
uint32_t kiln_client_stream(kiln_client *client);
uint32_t kiln_client_version(const kiln_client *client);
/* Gives the tracker a blob, or gets one: content in `arena`. CANCELLED: kiln_client_stop. */
KILN_MUST_USE kiln_status kiln_client_put(kiln_client *client, kiln_str content,
                                          kiln_digest *out_digest);
/* The same of parts one after the other. OUT_OF_RANGE: more than KILN_BLOB_BYTES_MAX. */
KILN_MUST_USE kiln_status kiln_client_put_parts(kiln_client *client, const kiln_str *part,
                                                uint32_t count, kiln_digest *out_digest);
KILN_MUST_USE kiln_status kiln_client_get(kiln_client *client, const kiln_digest *digest,
                                          kiln_arena *arena, kiln_str *out_content);
/* Handles what comes, for at most `wait_ns`. UNAVAILABLE: the tracker is gone for
 * KILN_CLIENT_PATIENCE_NS. */
KILN_MUST_USE kiln_status kiln_client_wait(kiln_client *client, uint64_t wait_ns);
/* Ends a wait early; from a callback or a signal's. */
void kiln_client_wake(kiln_client *client);
/* The person wants no more: questions and transfers end with CANCELLED, this one and any later;
 * wakes, too. */
void kiln_client_stop(kiln_client *client);
kiln_loop *kiln_client_loop(kiln_client *client);

#endif
