/* A server without a compiler. */
#include "rpc-server/workshop.h"

const char *kiln_workshop_codegen(void) { return NULL; }

kiln_workshop *kiln_workshop_create(const kiln_workshop_options *options) {
    (void)options;
    return NULL;
}

void kiln_workshop_destroy(kiln_workshop *shop) { (void)shop; }

void kiln_workshop_build(kiln_workshop *shop, const kiln_server_action *action) {
    (void)shop, (void)action;
}

bool kiln_workshop_is_asked(int argc, char **argv) {
    (void)argc, (void)argv;
    return false;
}

int kiln_workshop_main(int argc, char **argv) {
    (void)argc, (void)argv;
    return 1;
}
