/* Builds candidates from recipes on the board itself, in child processes. Only a server configured
 * with -Dserver_build=enabled has a compiler (rpc-server/build/board_builder.c); others link
 * rpc-server/board_builder_none.c and no compiler library. */
#ifndef KILN_RPC_SERVER_BOARD_BUILDER_H
#define KILN_RPC_SERVER_BOARD_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/server.h"

/* Memory limit of one builder; building a kernel takes less than a tenth of it. */
#define KILN_BOARD_BUILDER_MEMORY_BYTES ((uint64_t)2 << 30)
#define KILN_BOARD_BUILDER_BUILDERS_MAX 64u

typedef struct kiln_board_builder kiln_board_builder;

typedef struct kiln_board_builder_options {
    kiln_loop *loop;
    const char *program; /* path of this program; builders run it, too */
    uint32_t builders;   /* processes; 0: none */
    kiln_blob_store *store;
    /* Must copy what it keeps of an event. */
    void (*post)(void *context, const kiln_server_event *event);
    void *context;
} kiln_board_builder_options;

/* Codegen version of this server's compiler; NULL: none. */
const char *kiln_board_builder_codegen(void);

/* What `options` points to must outlive it. Returns NULL without a compiler or builders. Builders
 * start when the first work comes. */
kiln_board_builder *kiln_board_builder_create(const kiln_board_builder_options *options);
/* Kills its builders, without an event. NULL is fine. */
void kiln_board_builder_destroy(kiln_board_builder *builder);
/* Carries out the action BUILD. BUILT follows, perhaps before this returns, with the same outcomes
 * as from the tuner's builders. INFRA: the recipe is for another codegen version, or its program is
 * not in the store. */
void kiln_board_builder_build(kiln_board_builder *builder, const kiln_server_action *action);

/* Whether this process was started as a builder; the builder's main function, which returns the
 * exit code. */
bool kiln_board_builder_is_asked(int argc, char **argv);
int kiln_board_builder_main(int argc, char **argv);

#endif
