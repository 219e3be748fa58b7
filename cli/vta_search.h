/* `kiln vta search`: which accelerator of the VTA class to build for a model on a chip.
 *
 * vta_search.c  the command: enumerates, ranks by bounds, simulates the best, compiles for the best
 *               of these, writes the winner
 * vta_compile.c what the compiler makes of a layer
 * vta_layers.c  layers of a model, or of ResNet-18 by name
 * vta_page.c    the page with what was found */
#ifndef KILN_CLI_VTA_SEARCH_H
#define KILN_CLI_VTA_SEARCH_H

#include "cli/cli.h"
#include "vta/search/space.h"

#define KILN_VTA_CANDIDATES_MAX 10u

/* What a search found. */
typedef struct kiln_vta_found {
    kiln_vta_wanted wanted;
    const char *source; /* the model's path, or the names of layers */
    uint64_t looked_at; /* configurations */
    uint32_t evaluated; /* of machine, the first so many, the fastest first */
    kiln_vta_machines machine;
    double rank_correlation; /* Spearman's, of bounds and simulated times of machines from all over
                                the space */
    uint32_t candidate_count;
    kiln_vta_machine candidate[KILN_VTA_CANDIDATES_MAX]; /* the fastest first */
    uint32_t compiled_each;  /* schedules of each layer that were simulated of each of them */
    kiln_vta_machine preset; /* pynq, for comparison */
} kiln_vta_found;

/* `argv[0]` is the action's name. */
kiln_status kiln_vta_search_command(kiln_arena *process, int argc, char **argv);
/* The convolutions of a model that machines run, equal ones once; names lie in `process`. Others
 * are counted in `*out_left`: with groups, dilations, other kernels than squares, or fewer than 8
 * input channels. NOT_FOUND: none is left; errors of reading a model. */
KILN_MUST_USE kiln_status kiln_vta_layers_of_model(const char *path, kiln_arena *process,
                                                   kiln_vta_layer *out_layer, uint32_t *out_count,
                                                   uint32_t *out_left);
/* "C2..C12", or one name. NOT_FOUND: no such layer. */
KILN_MUST_USE kiln_status kiln_vta_layers_named(const char *names, kiln_vta_layer *out_layer,
                                                uint32_t *out_count);
/* Where the machine's times come from: "compiler" or "cuts". */
static inline const char *kiln_vta_schedules_name(const kiln_vta_machine *machine) {
    return machine->compiled ? "compiler" : "cuts";
}
/* Writes the page: HTML that is XML too, with its style and figures inside and nothing from
 * elsewhere. */
void kiln_vta_page_print(const kiln_vta_found *found, kiln_strbuf *out);

#endif
