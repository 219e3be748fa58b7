/* A server without a compiler. */
#include "rpc-server/board_builder.h"

const char *kiln_board_builder_codegen(void) { return NULL; }

kiln_board_builder *kiln_board_builder_create(const kiln_board_builder_options *options) {
    (void)options;
    return NULL;
}

void kiln_board_builder_destroy(kiln_board_builder *builder) { (void)builder; }

void kiln_board_builder_build(kiln_board_builder *builder, const kiln_server_action *action) {
    (void)builder, (void)action;
}

bool kiln_board_builder_is_asked(int argc, char **argv) {
    (void)argc, (void)argv;
    return false;
}

int kiln_board_builder_main(int argc, char **argv) {
    (void)argc, (void)argv;
    return 1;
}
