/* `kiln vta search`: which accelerator of the VTA class to build for a model on a chip.
 *
 * vta_search.c  the command: enumerates, ranks by bounds, simulates, has the model tuned for the
 *               best, writes the winner
 * vta_tune.c    the model tuned for machines over fleets
 * vta_layers.c  layers of a model, or of ResNet-18 by name
 * vta_page.c    the page with what was found */
#ifndef KILN_CLI_VTA_SEARCH_H
#define KILN_CLI_VTA_SEARCH_H

#include "cli/cli.h"
#include "cli/vta_tune.h"
#include "vta/search/space.h"

#define KILN_VTA_CANDIDATES_MAX 10u

/* What machines are judged by. */
typedef struct kiln_vta_layers {
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    uint32_t count;
    uint32_t batch;  /* images at once */
    bool adds_bytes; /* as in kiln_vta_wanted */
    uint32_t left;   /* convolutions of the model that no machine runs */
} kiln_vta_layers;

/* A machine with its time by cuts, and what tuning came to. */
typedef struct kiln_vta_candidate {
    kiln_vta_machine machine;
    kiln_vta_tuned tuned;
} kiln_vta_candidate;

/* What a search found. */
typedef struct kiln_vta_found {
    kiln_vta_wanted wanted;
    const char *source; /* the model's path, or the names of layers */
    uint64_t looked_at; /* configurations */
    uint32_t evaluated; /* of machine, the first so many, the fastest first */
    kiln_vta_machines machine;
    double rank_correlation; /* Spearman's, of bounds and simulated times */
    uint32_t sample_count;   /* of that many machines from all over the space */
    uint32_t candidate_count;
    kiln_vta_candidate candidate[KILN_VTA_CANDIDATES_MAX + 1]; /* the fastest first; behind them
                                                                  the preset pynq, for comparison */
    const kiln_vta_candidate *equal; /* the fastest with no more block RAM than pynq, at its clock;
                                        NULL: none is evaluated */
} kiln_vta_found;

/* `argv[0]` is KILN_VTA_SEARCH. */
kiln_status kiln_vta_search_command(kiln_arena *process, int argc, char **argv);
/* The convolutions of a model on bytes that machines run, equal ones once; names lie in `process`.
 * Left out are those on floats, with groups, dilations, other kernels than squares, or fewer than 8
 * input channels. NOT_FOUND: none is left; errors of reading a model. */
KILN_MUST_USE kiln_status kiln_vta_layers_of_model(const char *path, kiln_arena *process,
                                                   kiln_vta_layers *out_layers);
/* "C2..C12", or one name. NOT_FOUND: no such layer. */
KILN_MUST_USE kiln_status kiln_vta_layers_named(const char *names, kiln_vta_layers *out_layers);
/* Milliseconds of the layers: tuned, or else by cuts, as the name of its schedules says. */
static inline double kiln_vta_candidate_ms(const kiln_vta_candidate *c) {
    return c->tuned.ms > 0 ? c->tuned.ms : c->machine.ms;
}
static inline double kiln_vta_candidate_gops(const kiln_vta_candidate *c) {
    return c->machine.gops * c->machine.ms / kiln_vta_candidate_ms(c);
}
static inline const char *kiln_vta_schedules_name(const kiln_vta_candidate *c) {
    return c->tuned.ms > 0 ? "tuned" : "cuts";
}
/* Writes the page: HTML that is XML too, with its style and figures inside and nothing from
 * elsewhere. */
void kiln_vta_page_print(const kiln_vta_found *found, kiln_strbuf *out);

#endif
