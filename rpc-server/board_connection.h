/* The board's connection to its tracker, and the blobs that it carries. Credentials are read at
 * each dial, because a user's first tracker makes the token and keys are replaced. Belongs to the
 * loop's thread. */
#ifndef KILN_RPC_SERVER_BOARD_CONNECTION_H
#define KILN_RPC_SERVER_BOARD_CONNECTION_H

#include <stdbool.h>

#include "proto/net.h"
#include "rpc-server/helper.h"

typedef struct kiln_board_connection kiln_board_connection;

/* All required. Pointers given to them are valid until they return. */
typedef struct kiln_board_connection_handler {
    void (*opened)(void *context);
    void (*message)(void *context, const kiln_message *message);
    /* The connection closed or could not be made. Not called after kiln_board_connection_hang_up.
     */
    void (*closed)(void *context);
    /* `failure`: NULL when the blob is in the store. */
    void (*fetched)(void *context, const kiln_digest *digest, const char *failure);
} kiln_board_connection_handler;

typedef struct kiln_board_connection_options {
    kiln_loop *loop;
    kiln_addresses tracker;
    kiln_helper *helper;            /* knows the same addresses and their credentials */
    const char *node, *boot, *name; /* identities, and the name for messages */
    kiln_blob_store *store;
    const kiln_board_connection_handler *handler;
    void *context;
} kiln_board_connection_options;

/* What this program calls itself to trackers: "kiln-rpc-server VERSION". */
const char *kiln_board_software(void);

/* Asks the helper for what dialling one of its addresses needs: credentials for TCP, a connected
 * socket for a Unix path (0: none). */
KILN_MUST_USE kiln_status kiln_board_connection_prepare(kiln_helper *helper,
                                                        const kiln_addresses *addresses,
                                                        const kiln_address *address,
                                                        kiln_credentials *out_credentials,
                                                        int *out_socket_fd);
/* What `options` points to must outlive it. Does not dial. */
kiln_board_connection *kiln_board_connection_create(const kiln_board_connection_options *options);
/* Call it after hanging up and destroying the loop, because a closing connection still calls back.
 * NULL is fine. */
void kiln_board_connection_destroy(kiln_board_connection *connection);

/* Does nothing while a connection is open or being made. */
void kiln_board_connection_dial(kiln_board_connection *connection);
void kiln_board_connection_hang_up(kiln_board_connection *connection);
bool kiln_board_connection_is_open(const kiln_board_connection *connection);
/* Also writes phases and results of trials to the trace. Without a connection nothing is sent. */
void kiln_board_connection_send(kiln_board_connection *connection, const kiln_message *message);
/* `fetched` follows, perhaps before this returns. */
void kiln_board_connection_fetch(kiln_board_connection *connection, const kiln_digest *digest);
/* Uploads a blob of the store to the tracker. `done` follows, perhaps before this returns, and owns
 * its status. UNAVAILABLE: there is no connection, or it closed meanwhile. */
void kiln_board_connection_upload(kiln_board_connection *connection, const kiln_digest *digest,
                                  kiln_blobs_done done, void *context);

#endif
