/* A server's end of the socket to its launcher (rpc-server/launcher.h). Belongs to the loop's
 * thread. */
#ifndef KILN_RPC_SERVER_LAUNCHED_H
#define KILN_RPC_SERVER_LAUNCHED_H

#include "proto/net.h"
#include "rpc-server/server.h"

typedef struct kiln_launched kiln_launched;

typedef struct kiln_launched_options {
    kiln_loop *loop;
    int socket;
    kiln_blob_store *store;
    void (*confirmed)(void *context); /* the launcher has put this version into its place */
    void (*gone)(void *context);      /* the launcher has ended */
    void *context;
} kiln_launched_options;

/* Waits for what the launcher says first. `out_launch->failure` lies in `process`. UNAVAILABLE: it
 * has ended. */
KILN_MUST_USE kiln_status kiln_launched_begin(int socket, kiln_arena *process,
                                              kiln_server_launch *out_launch);

kiln_launched *kiln_launched_create(const kiln_launched_options *options);
void kiln_launched_destroy(kiln_launched *launched); /* NULL is fine */
/* Carries out RESTART; afterwards this process has to end. NOT_FOUND: the store has no such archive
 * any more; UNAVAILABLE: the launcher has ended. */
KILN_MUST_USE kiln_status kiln_launched_restart(kiln_launched *launched,
                                                const kiln_server_action *action);
/* CONFIRM; GIVE_UP, after which the launcher kills this process. */
void kiln_launched_confirm(kiln_launched *launched);
void kiln_launched_give_up(kiln_launched *launched, const char *why);

#endif
