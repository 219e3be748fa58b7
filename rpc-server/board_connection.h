/* The board's line to its tracker: one connection at a time, and the blobs that come over it.
 * Credentials are read at each dial: the first tracker of a user makes the token, and keys are
 * replaced. Belongs to the loop's thread. */
#ifndef KILN_RPC_SERVER_BOARD_CONNECTION_H
#define KILN_RPC_SERVER_BOARD_CONNECTION_H

#include <stdbool.h>

#include "proto/net.h"
#include "rpc-server/helper.h"

typedef struct kiln_board_connection kiln_board_connection;

/* All required; what they are given lasts until they return. */
typedef struct kiln_board_connection_handler {
    void (*opened)(void *context);
    void (*message)(void *context, const kiln_message *message);
    /* It closed, or could not be made; never after kiln_board_connection_hang_up. */
    void (*closed)(void *context);
    /* `failure`: NULL when the blob is in the store. */
    void (*fetched)(void *context, const kiln_digest *digest, const char *failure);
} kiln_board_connection_handler;

typedef struct kiln_board_connection_options {
    kiln_loop *loop;
    kiln_addresses tracker;
    kiln_helper *helper;            /* which knows the same addresses, and what to show there */
    const char *node, *boot, *name; /* who we are, and for people */
    kiln_blob_store *store;
    const kiln_board_connection_handler *handler;
    void *context;
} kiln_board_connection_options;

/* What it takes to dial address `index` of those that the helper was told: what to show there, and
 * for a Unix socket a connection (0: none). Without credentials dialling says why not. */
KILN_MUST_USE kiln_status kiln_board_connection_prepare(kiln_helper *helper,
                                                        const kiln_addresses *addresses,
                                                        const kiln_address *address,
                                                        kiln_credentials *out_credentials,
                                                        int *out_socket_fd);
/* What `options` points to must outlive it. Does not dial. */
kiln_board_connection *kiln_board_connection_create(const kiln_board_connection_options *options);
/* After it was hung up and the loop destroyed: a connection that closes still calls back. NULL is
 * fine. */
void kiln_board_connection_destroy(kiln_board_connection *connection);

/* Nothing happens while a connection is there or being made. */
void kiln_board_connection_dial(kiln_board_connection *connection);
void kiln_board_connection_hang_up(kiln_board_connection *connection);
bool kiln_board_connection_is_open(const kiln_board_connection *connection);
/* Also notes in the trace what a trial does. Without a connection that is all. */
void kiln_board_connection_send(kiln_board_connection *connection, const kiln_message *message);
/* `fetched` follows, perhaps at once. */
void kiln_board_connection_fetch(kiln_board_connection *connection, const kiln_digest *digest);
/* Has the tracker get a blob of the store; `done` follows, perhaps at once, with an owned status.
 * UNAVAILABLE: there is no connection, or it was lost meanwhile. */
void kiln_board_connection_give(kiln_board_connection *connection, const kiln_digest *digest,
                                kiln_blobs_done done, void *context);

#endif
