/* Quantises a model for `kiln quantize`: reads a file and writes another, in two steps. Both run in
 * processes without rights (base/isolated).
 *
 *     kiln_quantize_read ─> prepared model, its graph, what to observe
 *         ─ (the command runs it on data: quantize/quantize.h) ─> a quantisation per group
 *     kiln_quantize_write ─> the quantised model, its graph
 *
 * Before values are observed, batch normalisations are folded into the convolutions before them,
 * and external data becomes part of the model. The result is the file's own model with
 * QuantizeLinear and DequantizeLinear around the operators of quantize.def (the QDQ form), all
 * other nodes, names and attributes as they were; a file of another kind is written as ONNX first,
 * from its graph. docs/decisions/0028-quantised-models.md. */
#ifndef KILN_COMPILER_CORE_FRONTEND_QUANTIZE_H
#define KILN_COMPILER_CORE_FRONTEND_QUANTIZE_H

#include "base/file.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/quantize/quantize.h"

#define KILN_OBSERVED_MAX 4096u /* values of a model */

typedef struct kiln_quantize_options {
    bool per_channel; /* a scale per output channel of weights */
    bool shift;       /* scales are powers of two */
    bool is_unsigned; /* activations are u8, not i8: the same numbers, 128 further up */
    /* 1, 2, 4 or 8; fewer than 8 are those of layers with weights, whose scales are per channel
     * then. The first and the last of them, and depthwise convolutions, keep 8 of both. */
    uint32_t weight_bits, activation_bits;
    bool all_layers;    /* the first and the last as well */
    bool bytes_outside; /* inputs and outputs are bytes where the model computes on bytes */
    const kiln_import_options *import;
} kiln_quantize_options;

#define KILN_GROUP_NONE UINT32_MAX

/* A value that is quantised, or the result of a layer that is not. */
typedef struct kiln_observed {
    kiln_str name;
    bool quantised;
    uint32_t group;     /* quantised: values of a group share scale and zero point */
    uint32_t few_group; /* its group of fewer bits, quantised so for some readers; or NONE */
    uint32_t mean_axis; /* of the channels whose means are wanted; 0: none are */
} kiln_observed;

/* An operator that computes on bytes; not one that only chooses or moves bytes. */
typedef struct kiln_quantize_layer {
    kiln_str name, op;
    uint32_t result; /* index of the observed value that holds its result, activation included */
    uint32_t weight_bits, activation_bits; /* weights: 0 without weights */
} kiln_quantize_layer;

/* Result of reading a model. Views of `bytes`, and lists in the caller's arena. */
typedef struct kiln_quantize_plan {
    kiln_mapping bytes; /* the caller ends it */
    kiln_str model;     /* ONNX, for kiln_quantize_write */
    kiln_str graph; /* canonical bytes; outputs: the model's own, then further observed values */
    uint32_t output_count; /* the model's own */
    uint32_t observed_count, layer_count, group_count;
    kiln_observed *observed;
    kiln_quantize_layer *layer;
    uint32_t *group_bits; /* [group_count] */
} kiln_quantize_plan;

/* FAILED_PRECONDITION: the model is quantised already, or has nothing to quantise. UNIMPLEMENTED:
 * its operator set lacks a type in the options, or kiln_import_file does not support it. Errors of
 * kiln_read_isolated. */
KILN_MUST_USE kiln_status kiln_quantize_read(const char *path, const kiln_quantize_options *options,
                                             kiln_arena *arena, kiln_quantize_plan *out_plan);

/* A quantisation for each group, [group_count] in `arena`, from the observations of each value,
 * [observed_count]. */
kiln_quantization *kiln_quantize_choose(const kiln_quantize_plan *plan, const kiln_histogram *seen,
                                        kiln_quantize_method method, bool shift, kiln_arena *arena);

/* Results of running the model on data. */
typedef struct kiln_quantize_found {
    const kiln_quantization *group; /* [group_count] */
    const double *const *mean;      /* [observed_count] of each channel; NULL: not wanted */
    const uint32_t *mean_count;     /* [observed_count] channels */
} kiln_quantize_found;

typedef struct kiln_quantised_model {
    kiln_mapping bytes; /* the caller ends it */
    kiln_str model;     /* ONNX */
    kiln_str graph; /* canonical bytes; outputs: the model's own, then further observed values */
    kiln_observed *observed; /* in the plan's order, by their names as floats in this model */
} kiln_quantised_model;

/* Errors as above. OUT_OF_RANGE: the model would have more bytes than a file of its kind can. */
KILN_MUST_USE kiln_status kiln_quantize_write(const char *path, const kiln_quantize_plan *plan,
                                              const kiln_quantize_found *found,
                                              const kiln_quantize_options *options,
                                              kiln_arena *arena, kiln_quantised_model *out_model);

/* Quantises a model that this program made, in this process: `expect` provides the expected values
 * instead of observations. `*out_model` in `arena`. */
KILN_MUST_USE kiln_status
kiln_quantize_expected(kiln_str model, const kiln_quantize_options *options,
                       void (*expect)(void *context, kiln_str name, kiln_histogram *out),
                       void *context, kiln_arena *arena, kiln_str *out_model);

#endif
