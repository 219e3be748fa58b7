/* The board's line to its tracker: one connection at a time, and the blobs that come over it.
 * Credentials are read at each dial: the first tracker of a user makes the token, and keys are
 * replaced. Belongs to the loop's thread. */
#ifndef KILN_RPC_SERVER_UPLINK_H
#define KILN_RPC_SERVER_UPLINK_H

#include <stdbool.h>

#include "proto/net.h"
#include "rpc-server/helper.h"

typedef struct kiln_uplink kiln_uplink;

/* All required; what they are given lasts until they return. */
typedef struct kiln_uplink_handler {
    void (*opened)(void *context);
    void (*message)(void *context, const kiln_message *message);
    /* It closed, or could not be made; never after kiln_uplink_hang_up. */
    void (*closed)(void *context);
    /* `failure`: NULL when the blob is in the store. */
    void (*fetched)(void *context, const kiln_digest *digest, const char *failure);
} kiln_uplink_handler;

typedef struct kiln_uplink_options {
    kiln_loop *loop;
    kiln_addresses tracker;
    kiln_helper *helper;            /* which knows the same addresses, and what to show there */
    const char *node, *boot, *name; /* who we are, and for people */
    kiln_blob_store *store;
    const kiln_uplink_handler *handler;
    void *context;
} kiln_uplink_options;

/* What it takes to dial address `index` of those that the helper was told: what to show there, and
 * for a Unix socket a connection (0: none). Without credentials dialling says why not. */
KILN_MUST_USE kiln_status kiln_uplink_prepare(kiln_helper *helper, const kiln_addresses *addresses,
                                              const kiln_address *address,
                                              kiln_credentials *out_credentials,
                                              int *out_socket_fd);
/* What `options` points to must outlive it. Does not dial. */
kiln_uplink *kiln_uplink_create(const kiln_uplink_options *options);
/* After it was hung up and the loop destroyed: a connection that closes still calls back. NULL is
 * fine. */
void kiln_uplink_destroy(kiln_uplink *uplink);

/* Nothing happens while a connection is there or being made. */
void kiln_uplink_dial(kiln_uplink *uplink);
void kiln_uplink_hang_up(kiln_uplink *uplink);
bool kiln_uplink_is_open(const kiln_uplink *uplink);
/* Also notes in the trace what a trial does. Without a connection that is all. */
void kiln_uplink_send(kiln_uplink *uplink, const kiln_message *message);
/* `fetched` follows, perhaps at once. */
void kiln_uplink_fetch(kiln_uplink *uplink, const kiln_digest *digest);
/* Has the tracker get a blob of the store; `done` follows, perhaps at once, with an owned status.
 * UNAVAILABLE: there is no connection, or it was lost meanwhile. */
void kiln_uplink_give(kiln_uplink *uplink, const kiln_digest *digest, kiln_blobs_done done,
                      void *context);

#endif
