/* The error of a whole network: a module's outputs beside those of the same graph in double
 * precision (passes/widen.h), on seeded inputs. Used by `kiln tune`:
 *
 *     kiln_network_run(module in doubles, ...)           once
 *     kiln_network_error_of(&network, module, outputs)   for each module that may be shipped
 *     while (error > budget && kiln_network_take_back(...))   without its worst alternatives */
#ifndef KILN_CLI_WORKER_NETWORK_ERROR_H
#define KILN_CLI_WORKER_NETWORK_ERROR_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/module.h"

typedef struct kiln_network {
    uint32_t output_count;
    double **output; /* [output_count] elements in double precision; NULL: of integers */
} kiln_network;

/* Runs `in_double`, a module of the graph in double precision, on the inputs that `module` (the
 * same graph in its own types) is given at random. INTERNAL: a kernel failed, or ports differ. */
KILN_MUST_USE kiln_status kiln_network_run(kiln_module *in_double, kiln_module *module,
                                           kiln_arena *arena, kiln_network *out_network);
/* What `module` made of the same inputs: the largest difference over the largest magnitude of an
 * output, the largest of all outputs. Elements that double precision makes no finite number are
 * left out. */
double kiln_network_error_of(const kiln_network *network, const kiln_module *module,
                             void *const *outputs);

/* A task that a module computes by another algorithm than the direct one. */
typedef struct kiln_network_part {
    kiln_str task, op, algorithm; /* key, its operators, name */
    double error;                 /* measured alone, over the largest magnitude; else stated */
    bool taken_back;
} kiln_network_part;

/* Marks the parts with the largest errors until those left are expected to make no more than
 * `error_max`: errors of parts add up like the lengths of random steps, to the `error` that the
 * network has with all that were not taken back. At least one; false: there is none left. */
bool kiln_network_take_back(kiln_network_part *part, uint32_t count, double error,
                            double error_max);

#endif
