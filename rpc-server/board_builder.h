/* Building candidates from recipes on the board itself, in processes of their own. A server that
 * was made with -Dserver_build=enabled has a compiler and can (rpc-server/build/board_builder.c);
 * any other has none, and no library of one (workshop_none.c). */
#ifndef KILN_RPC_SERVER_BOARD_BUILDER_H
#define KILN_RPC_SERVER_BOARD_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/server.h"

/* Data of one builder: a kernel takes less than a tenth of it. */
#define KILN_BOARD_BUILDER_MEMORY_BYTES ((uint64_t)2 << 30)
#define KILN_BOARD_BUILDER_BUILDERS_MAX 64u

typedef struct kiln_board_builder kiln_board_builder;

typedef struct kiln_board_builder_options {
    kiln_loop *loop;
    const char *program; /* path of this one: builders are copies of it */
    uint32_t builders;   /* processes; 0: none */
    kiln_blob_store *store;
    /* What an event points to lasts until it returns. */
    void (*post)(void *context, const kiln_server_event *event);
    void *context;
} kiln_board_builder_options;

/* Codegen version with which this server builds; NULL: it has no compiler. */
const char *kiln_board_builder_codegen(void);

/* What `options` points to must outlive it. NULL: it has no compiler, or no builders. Builders are
 * started when there is work. */
kiln_board_builder *kiln_board_builder_create(const kiln_board_builder_options *options);
/* Kills its builders, without an event. NULL is fine. */
void kiln_board_builder_destroy(kiln_board_builder *shop);
/* The action BUILD; BUILT follows, perhaps at once, with the outcomes that the tuner's own builders
 * have. INFRA: the recipe is for another codegen version, or its program is not in the store. */
void kiln_board_builder_build(kiln_board_builder *shop, const kiln_server_action *action);

/* Whether this process was started as a builder, and its main loop: returns the exit code. */
bool kiln_board_builder_is_asked(int argc, char **argv);
int kiln_board_builder_main(int argc, char **argv);

#endif
