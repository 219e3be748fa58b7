/* Samples that a model is calibrated on: inputs of a module from files, or made up. */
#ifndef KILN_CLI_SAMPLES_H
#define KILN_CLI_SAMPLES_H

#include "base/opt.h"
#include "deploy/run/run.h"

typedef struct kiln_samples_source {
    const char *folder;   /* --data; NULL: none */
    kiln_opt_list given;  /* --input NAME=FILE */
    uint64_t synthetic;   /* --synthetic: so many of seeded random data; 0: none */
    uint64_t seed;        /* of those */
    const char *labels;   /* --labels; NULL: labels.npy of the folder, where it is */
    uint64_t samples_max; /* the first so many; 0: all */
} kiln_samples_source;

typedef struct kiln_samples {
    size_t count;
    uint32_t batch_count;
    kiln_run *batch;      /* inputs only */
    const int64_t *label; /* [label_count] the right class of each row of the first output; NULL:
                             not known */
    size_t label_count;
    bool is_part; /* there are more, beyond samples_max: labels, too */
} kiln_samples;

/* Samples of seeded random data where no kind of data is named. */
#define KILN_SAMPLES_SYNTHETIC 4

/* Whether one kind of data is named at most, and is there, before a module is made for it. Without
 * one `source` becomes KILN_SAMPLES_SYNTHETIC of random data. INVALID_ARGUMENT, NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_samples_check(kiln_samples_source *source, kiln_arena *arena);
/* What a folder may hold: test_data_set_K/input_N.pb as in ONNX's backend tests; .npy and .pb files
 * of the only input; or NAME.npy (.pb) for each of several inputs. A file holds one sample or a
 * stack of them. INVALID_ARGUMENT: a tensor that does not fit, or with an element that is infinite
 * or NaN; an input without data. Errors of reading tensors. */
KILN_MUST_USE kiln_status kiln_samples_read(const kiln_samples_source *source, kiln_module *module,
                                            kiln_arena *arena, kiln_samples *out_samples);
/* The inputs of a sample, in the order of the module's; valid until the next call. */
const void *const *kiln_samples_at(const kiln_samples *samples, size_t sample);

#endif
