/* A listening and a dialling end on one loop, which note what happens to them. No sleeps: tests run
 * the loop until what they wait for is there, or a deadline says that it never comes. */
#ifndef KILN_TESTS_PROTO_PAIR_H
#define KILN_TESTS_PROTO_PAIR_H

#include "base/clock.h"
#include "proto/net.h"

#define PAIR_MESSAGES_MAX 4096u
#define PAIR_DEADLINE_NS (300 * KILN_NS_PER_S) /* only what is broken reaches it */

typedef struct pair_end {
    kiln_conn *conn; /* NULL before opened and after closed */
    bool opened, closed;
    kiln_code why;
    char why_text[512];
    char peer_node[65];
    uint32_t message_count;
    kiln_message_type type[PAIR_MESSAGES_MAX];
    uint64_t t_ns[PAIR_MESSAGES_MAX]; /* of PINGs */
    kiln_code last_error;
    kiln_blob_store *store; /* attached when opened; may be NULL */
    kiln_blobs *blobs;
} pair_end;

typedef struct pair {
    kiln_loop *loop;
    bool has_own_loop;
    kiln_listener *listener;
    pair_end server, client;
    kiln_timer *deadline;
    bool late;
    kiln_listen_options listen;   /* change before pair_listen */
    kiln_dial_options dial;       /* change before pair_dial */
    kiln_credentials credentials; /* of dial; change before pair_dial */
    kiln_credentials shown;       /* its copy, which dialling takes */
    kiln_peer refused;            /* the last one turned away */
    char refused_why[512];
    uint32_t refused_count;
} pair;

/* TCP on loopback with a token that both know. */
void pair_init(pair *p);
/* The same on a loop that others use, too. */
void pair_init_on(pair *p, kiln_loop *loop);
void pair_deinit(pair *p);
/* For both ends: "127.0.0.1:0", "unix:..." */
void pair_set_address(pair *p, const char *text);
void pair_listen(pair *p);
kiln_conn *pair_dial(pair *p);
/* Runs until `*flag`; fails the test after PAIR_DEADLINE_NS. */
void pair_run_until(pair *p, const bool *flag);
void pair_run_until_count(pair *p, const uint32_t *count, uint32_t at_least);
/* Listens, dials, and runs until both are open. */
void pair_open(pair *p);

#endif
