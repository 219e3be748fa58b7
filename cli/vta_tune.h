/* A model tuned for machines of the VTA class, each a target of its own, some of them side by side:
 * requests of `kiln tune` (libkiln/tune/tune.h), which search over a private fleet with that
 * machine simulated, or over the fleet that is named. For `kiln vta search`. */
#ifndef KILN_CLI_VTA_TUNE_H
#define KILN_CLI_VTA_TUNE_H

#include "base/vta_config.h"
#include "cli/curve.h"

typedef struct kiln_vta_tune_options {
    const char *model;
    double operations; /* of the layers in it that a machine has to run, two a multiply-add */
    const char *db;    /* gets the records */
    const char *tracker, *key_file; /* NULL: a private fleet for each; the usual one */
    const char *person;             /* NULL: oneself */
    bool insecure;
    uint64_t trials; /* of each machine, at most */
    double seconds;  /* for all of it, about */
    uint32_t jobs;   /* requests at once, at least 1 */
} kiln_vta_tune_options;

/* What tuning for a machine came to. */
typedef struct kiln_vta_tuned {
    kiln_curve curve; /* over its trials, what the layers of one run take together */
    uint32_t trials;
    double ms;           /* of one run, by the best schedules; 0: not tuned */
    const char *why_not; /* one line; NULL where it is tuned, or was not tried */
} kiln_vta_tuned;

/* Fills `out_tuned`, one for each machine; its data lie in `arena`. A machine that cannot be tuned
 * for, or that leaves layers to its host, says why; that is no error. CANCELLED: the person stopped
 * it (SIGINT, SIGTERM); errors of kiln_request_start. */
KILN_MUST_USE kiln_status kiln_vta_tune(const kiln_vta_tune_options *options,
                                        const kiln_vta_config *machine, uint32_t count,
                                        kiln_arena *arena, kiln_vta_tuned *out_tuned);
/* Packs the model with the best schedules of the database. Errors of `kiln compile`. */
KILN_MUST_USE kiln_status kiln_vta_pack(const kiln_vta_tune_options *options,
                                        const kiln_vta_config *machine, const char *output,
                                        kiln_arena *arena);

#endif
