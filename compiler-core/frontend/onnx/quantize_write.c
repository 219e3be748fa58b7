/* Inserts QuantizeLinear and DequantizeLinear into a model: activations as bytes or fewer bits,
 * weights as signed integers around 0, biases in units of the sums. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/frontend/onnx/quantize.h"

typedef struct writer {
    kiln_onnx_edit *edit;
    const kiln_sites *sites;
    const kiln_quantize_plan *plan;
    const kiln_quantize_found *found;
    const kiln_quantize_options *options;
    uint32_t *observed; /* [values] their index, or NONE */
    char **integers;    /* [values] name of a value's integers; NULL: not quantised */
    char **read_as;     /* [values] name that readers of a quantised value read; NULL: its own */
    char **read_as_few; /* [values] the same for readers that compute on fewer bits; NULL: the same
                         * name */
    float *unit;        /* [values] power of two of which all elements are multiples; 0: unknown */
    bool *dropped;      /* [nodes] clamps that the conversion to bytes implies */
    KILN_VEC(Onnx__NodeProto *) node;
} writer;

static void emit(writer *w, Onnx__NodeProto *node) {
    kiln_vec_push_in(w->edit->arena, &w->node, node);
}

static kiln_quantization quantization_at(const writer *w, uint32_t value) {
    return w->found->group[w->plan->observed[w->observed[value]].group];
}

/* The quantisation of `value` for a layer, which may compute on fewer bits. */
static kiln_quantization quantization_for(const writer *w, uint32_t value, bool few) {
    const uint32_t group = w->plan->observed[w->observed[value]].few_group;
    return few && group != KILN_GROUP_NONE ? w->found->group[group] : quantization_at(w, value);
}

/* A scalar of f32, or a zero point of so many bits. */
static char *add_float(kiln_onnx_edit *edit, const char *name, const char *suffix, float value) {
    const kiln_tensor tensor = {.dtype = KILN_F32, .data = &value};
    return kiln_onnx_edit_add_constant(edit, name, suffix, &tensor);
}

/* Bits of the integers in a file: ONNX has none of one bit. */
static uint32_t packed_bits(uint32_t bits) { return bits == 8 ? 0 : KILN_MAX(bits, 2); }

/* ---- activations ----------------------------------------------------------------------------- */

/* Numbers of one bit are clamped before they become integers of two bits. */
static char *emit_cut(writer *w, const char *name, const char *source, kiln_quantization q) {
    kiln_onnx_edit *edit = w->edit;
    char *cut = kiln_onnx_edit_name(edit, name, "_cut");
    char *const limits[] = {kiln_str_dup(edit->arena, kiln_str_from(source)),
                            add_float(edit, name, "_low", (float)kiln_quantization_low(q)),
                            add_float(edit, name, "_high", (float)kiln_quantization_high(q))};
    emit(w, kiln_onnx_edit_make_node(edit, "Clip", 3, limits, cut));
    return cut;
}

/* The quantised form of a value. */
typedef struct pair {
    char *integers, *zero_point, *numbers; /* the last: what readers get */
} pair;

/* QuantizeLinear of `source`, whose step is `unit`, and DequantizeLinear by the value's own step.
 */
static pair emit_pair(writer *w, const char *name, const char *source, kiln_quantization q,
                      float unit) {
    kiln_onnx_edit *edit = w->edit;
    const bool is_unsigned = w->options->is_unsigned;
    const uint8_t zero = (uint8_t)(q.zero + (is_unsigned ? 1 << (q.bits - 1) : 0)); /* or the bits
                                                                                     of an i8 */
    const kiln_tensor zeros = {.dtype = is_unsigned ? KILN_U8 : KILN_I8,
                               .data = (void *)(uintptr_t)&zero};
    if (q.bits == 1) source = emit_cut(w, name, source, (kiln_quantization){unit, q.zero, q.bits});
    char *scale = add_float(edit, name, "_scale", q.scale),
         *step = unit == q.scale ? scale : add_float(edit, name, "_unit", unit);
    const pair made = {
        kiln_onnx_edit_name(edit, name, "_quantized"),
        kiln_onnx_edit_add_packed(edit, name, "_zero_point", &zeros, packed_bits(q.bits)),
        kiln_onnx_edit_name(edit, name, "_dequantized")};
    char *const to[] = {kiln_str_dup(edit->arena, kiln_str_from(source)), step, made.zero_point};
    char *const from[] = {made.integers, scale, made.zero_point};
    emit(w, kiln_onnx_edit_make_node(edit, "QuantizeLinear", 3, to, made.integers));
    emit(w, kiln_onnx_edit_make_node(edit, "DequantizeLinear", 3, from, made.numbers));
    return made;
}

/* Quantises bytes once more, to fewer bits. They are dequantised in units of the larger step, by a
 * separate node: so the conversion is from integers to integers, and no floats are stored. */
static char *emit_fewer(writer *w, const char *name, const pair *bytes, float scale,
                        kiln_quantization q) {
    kiln_onnx_edit *edit = w->edit;
    const char *few = kiln_arena_printf(edit->arena, "%s_few", name);
    char *units = kiln_onnx_edit_name(edit, few, "_units");
    char *const from[] = {bytes->integers, add_float(edit, few, "_ratio", scale / q.scale),
                          bytes->zero_point};
    emit(w, kiln_onnx_edit_make_node(edit, "DequantizeLinear", 3, from, units));
    return emit_pair(w, few, units, q, 1).numbers;
}

/* Multiples of a unit plus half a unit: none of them lies in the middle of two steps, so that every
 * rounding to nearest equals (x + step / 2) >> shift of integers
 * (docs/decisions/0131-requantisation-by-shifts.md). */
static const char *emit_half(writer *w, const char *name, const char *source, float unit) {
    kiln_onnx_edit *edit = w->edit;
    char *sum = kiln_onnx_edit_name(edit, name, "_between");
    char *const operand[] = {kiln_str_dup(edit->arena, kiln_str_from(source)),
                             add_float(edit, name, "_half_unit", unit / 2)};
    emit(w, kiln_onnx_edit_make_node(edit, "Add", 2, operand, sum));
    return sum;
}

/* `source` is `value`, or the operand of a dropped clamp that makes `value`. */
static void emit_pairs(writer *w, uint32_t value, const char *source) {
    const char *name = w->sites->value.data[value].name;
    const uint32_t few = w->plan->observed[w->observed[value]].few_group;
    const kiln_quantization q = quantization_at(w, value);
    if (w->unit[value] > 0 && w->unit[value] < q.scale)
        source = emit_half(w, name, source, w->unit[value]);
    const pair bytes = emit_pair(w, name, source, q, q.scale);
    w->integers[value] = bytes.integers;
    w->read_as[value] = bytes.numbers;
    if (few != KILN_GROUP_NONE)
        w->read_as_few[value] = emit_fewer(w, name, &bytes, q.scale, w->found->group[few]);
}

/* Limits of Relu and Clip, whose newer form has them as inputs. False: they are unknown. */
static bool clamp_limits(kiln_onnx_edit *edit, const Onnx__NodeProto *node, double *low,
                         double *high) {
    if (kiln_onnx_node_is(node, "Relu")) {
        *low = 0;
        *high = HUGE_VAL;
        return true;
    }
    if (!kiln_onnx_node_is(node, "Clip")) return false;
    double *const limit[] = {low, high};
    *low = kiln_onnx_node_float(node, "min", -HUGE_VAL);
    *high = kiln_onnx_node_float(node, "max", HUGE_VAL);
    for (size_t i = 0; i < 2; i++) {
        kiln_tensor t;
        const char *name = kiln_onnx_node_input(node, i + 1);
        if (!*name) continue;
        if (!kiln_onnx_edit_floats(edit, name, &t) || kiln_shape_count(&t.shape) != 1) return false;
        *limit[i] = (double)*(const float *)t.data;
    }
    return true;
}

/* Whether the conversion to bytes implies the clamp that makes `value`, so that the clamp can be
 * dropped. */
static bool is_cut_anyway(const writer *w, uint32_t value) {
    const kiln_site_value *v = &w->sites->value.data[value];
    if (v->producer == KILN_SITE_NONE || v->pinned) return false;
    const Onnx__NodeProto *clamp = w->edit->node.data[v->producer];
    const uint32_t input = kiln_sites_find(w->sites, kiln_onnx_node_input(clamp, 0));
    double low, high;
    if (input == KILN_SITE_NONE || w->sites->value.data[input].quantised ||
        !clamp_limits(w->edit, clamp, &low, &high))
        return false;
    const kiln_quantization q = quantization_at(w, value);
    const double half = (double)q.scale / 2;
    return kiln_quantization_low(q) >= low - half && kiln_quantization_high(q) <= high + half;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The channels of the result and of the input of each weight. */
typedef struct weights {
    kiln_tensor data;
    uint32_t axis;           /* of the result's channels */
    int64_t channels, inner; /* element i is of channel i / inner % channels */
    int64_t inputs;          /* channels of the input that one channel of the result reads */
    int64_t input_inner; /* element i is multiplied by the i / input_inner % inputs-th of them */
    int64_t group;       /* channels of the result that read the same ones */
    uint32_t bits;       /* of the integers that they become */
    bool per_channel;    /* a scale for each channel of the result */
} weights;

static bool read_weights(kiln_onnx_edit *edit, const Onnx__NodeProto *node, weights *out) {
    *out = (weights){0};
    if (!kiln_onnx_edit_floats(edit, kiln_onnx_node_input(node, 1), &out->data)) return false;
    const kiln_shape *shape = &out->data.shape;
    const int64_t count = kiln_shape_count(shape);
    bool conv = kiln_onnx_node_is(node, "Conv"),
         rows = conv ||
                (kiln_onnx_node_is(node, "Gemm") && kiln_onnx_node_int(node, "transB", 0) != 0);
    out->axis = rows ? 0 : 1;
    out->channels = shape->dim[out->axis];
    out->inner = rows ? count / out->channels : 1;
    out->inputs = conv || rows ? shape->dim[1] : shape->dim[0];
    out->input_inner = conv ? count / (out->channels * out->inputs) : rows ? 1 : out->channels;
    const int64_t groups = conv ? kiln_onnx_node_int(node, "group", 1) : 1;
    out->group = groups > 0 && out->channels % groups == 0 ? out->channels / groups : out->channels;
    return true;
}

static int64_t channel_of(const weights *x, int64_t i) { return i / x->inner % x->channels; }

/* A bias with an element per channel; false: there is none of that kind. */
static bool read_bias(kiln_onnx_edit *edit, const Onnx__NodeProto *node, const weights *of,
                      kiln_tensor *out) {
    const char *name = kiln_onnx_node_input(node, 2);
    return *name && kiln_onnx_edit_floats(edit, name, out) && out->shape.rank == 1 &&
           out->shape.dim[0] == of->channels;
}

/* A scale per channel, or the same for all: [channels]. */
static float *find_scales(const writer *w, const weights *x, const kiln_tensor *bias,
                          kiln_quantization input) {
    double *largest = KILN_ARENA_ARRAY(w->edit->arena, double, x->channels),
           *most = KILN_ARENA_ARRAY(w->edit->arena, double, x->channels), all = 0, all_bias = 0;
    float *scale = KILN_ARENA_ARRAY(w->edit->arena, float, x->channels);
    const float *data = x->data.data;
    for (int64_t i = 0; i < kiln_shape_count(&x->data.shape); i++) {
        double *of = &largest[channel_of(x, i)];
        *of = KILN_MAX(*of, fabs((double)data[i]));
    }
    for (int64_t c = 0; c < x->channels; c++) {
        if (bias) most[c] = fabs((double)((const float *)bias->data)[c]);
        all = KILN_MAX(all, largest[c]);
        all_bias = KILN_MAX(all_bias, most[c]);
    }
    for (int64_t c = 0; c < x->channels; c++)
        scale[c] =
            x->per_channel
                ? kiln_quantize_weights(largest[c], most[c], (double)input.scale, w->options->shift)
                : kiln_quantize_weights(all, all_bias, (double)input.scale, w->options->shift);
    return scale;
}

/* The change of each result channel's mean by the rounding of weights is added to the bias (Nagel
 * et al. 2019, section 4.2; the input's means are measured). */
static void correct_bias(const weights *x, const int8_t *byte, const float *scale,
                         const double *mean, uint32_t mean_count, double *bias) {
    const int64_t groups = x->channels / x->group;
    if (!mean || x->inputs * groups != mean_count) return;
    const float *data = x->data.data;
    for (int64_t i = 0; i < kiln_shape_count(&x->data.shape); i++) {
        const int64_t c = channel_of(x, i),
                      input = c / x->group * x->inputs + i / x->input_inner % x->inputs;
        bias[c] += ((double)data[i] - byte[i] * (double)scale[c]) * mean[input];
    }
}

/* Scales of one number, or of one per channel. */
static kiln_tensor scales_tensor(const weights *x, float *scale) {
    kiln_tensor tensor = {.dtype = KILN_F32, .data = scale};
    if (x->per_channel) tensor.shape = (kiln_shape){1, {x->channels}};
    return tensor;
}

static void set_axis(const writer *w, const weights *x, Onnx__NodeProto *node, uint32_t axis) {
    if (x->per_channel) kiln_onnx_edit_set_int(w->edit, node, "axis", axis);
}

/* Levels of weights of fewer than 8 bits, and a scale per channel. */
static float *find_levels(const writer *w, const weights *x, int8_t *level) {
    kiln_arena *arena = w->edit->arena;
    const kiln_quantize_form form = {x->bits, w->options->shift};
    const size_t each = (size_t)(kiln_shape_count(&x->data.shape) / x->channels);
    float *scale = KILN_ARENA_ARRAY(arena, float, x->channels),
          *own = KILN_ARENA_ARRAY(arena, float, each);
    int8_t *own_level = KILN_ARENA_ARRAY(arena, int8_t, each);
    for (int64_t c = 0; c < x->channels; c++) {
        const int64_t first = c * x->inner, step = x->inner * x->channels;
        for (size_t i = 0; i < each; i++)
            own[i] =
                ((const float *)
                     x->data.data)[first + (int64_t)i / x->inner * step + (int64_t)i % x->inner];
        scale[c] = kiln_quantize_weights_few(own, each, form, own_level);
        for (size_t i = 0; i < each; i++)
            level[first + (int64_t)i / x->inner * step + (int64_t)i % x->inner] = own_level[i];
    }
    return scale;
}

/* DequantizeLinear of constant integers; returns its result. */
static char *emit_weights(writer *w, const char *name, const weights *x, int8_t *byte,
                          float *scale) {
    kiln_onnx_edit *edit = w->edit;
    const kiln_tensor bytes = {KILN_I8, x->data.shape, byte}, scales = scales_tensor(x, scale);
    const kiln_tensor zeros = kiln_tensor_create(edit->arena, KILN_I8, &scales.shape);
    const uint32_t bits = packed_bits(x->bits);
    char *const input[] = {kiln_onnx_edit_add_packed(edit, name, "_quantized", &bytes, bits),
                           kiln_onnx_edit_add_constant(edit, name, "_scale", &scales),
                           kiln_onnx_edit_add_packed(edit, name, "_zero_point", &zeros, bits)};
    char *made = kiln_onnx_edit_name(edit, name, "_dequantized");
    Onnx__NodeProto *node = kiln_onnx_edit_make_node(edit, "DequantizeLinear", 3, input, made);
    set_axis(w, x, node, x->axis);
    emit(w, node);
    return made;
}

/* The same of a bias in units of input scale * weight scale, without a zero point, which is 0. */
static char *emit_bias(writer *w, const char *name, const weights *x, const double *bias,
                       const float *scale, kiln_quantization input) {
    kiln_onnx_edit *edit = w->edit;
    const kiln_shape shape = {1, {x->channels}};
    kiln_tensor sums = kiln_tensor_create(edit->arena, KILN_I32, &shape);
    float *unit = KILN_ARENA_ARRAY(edit->arena, float, x->channels);
    for (int64_t c = 0; c < x->channels; c++) {
        unit[c] = (float)((double)input.scale * (double)scale[c]);
        const double level = nearbyint(bias[c] / (double)unit[c]);
        ((int32_t *)sums.data)[c] =
            (int32_t)KILN_MIN(KILN_MAX(level, (double)-INT32_MAX), (double)INT32_MAX);
    }
    const kiln_tensor units = scales_tensor(x, unit);
    char *const operand[] = {kiln_onnx_edit_add_constant(edit, name, "_quantized", &sums),
                             kiln_onnx_edit_add_constant(edit, name, "_scale", &units)};
    char *made = kiln_onnx_edit_name(edit, name, "_dequantized");
    Onnx__NodeProto *node = kiln_onnx_edit_make_node(edit, "DequantizeLinear", 2, operand, made);
    set_axis(w, x, node, 0);
    emit(w, node);
    return made;
}

/* With few bits the unit of the sums is too coarse for a bias, which stays in floats. */
static char *add_bias(const writer *w, const char *name, const weights *x, const double *bias) {
    const kiln_shape shape = {1, {x->channels}};
    kiln_tensor tensor = kiln_tensor_create(w->edit->arena, KILN_F32, &shape);
    for (int64_t c = 0; c < x->channels; c++) ((float *)tensor.data)[c] = (float)bias[c];
    return kiln_onnx_edit_add_constant(w->edit, name, "_corrected", &tensor);
}

/* Returns the unit of the sums, one for all channels; 0: they have none. */
static float quantize_weights(writer *w, Onnx__NodeProto *node, uint32_t input_value, bool few) {
    const kiln_quantization input = quantization_for(w, input_value, few);
    const uint32_t observed = w->observed[input_value];
    kiln_arena *arena = w->edit->arena;
    weights x;
    kiln_tensor bias;
    if (!read_weights(w->edit, node, &x)) return 0;
    x.bits = few ? w->options->weight_bits : 8;
    x.per_channel = w->options->per_channel || x.bits < 8;
    const bool biased = read_bias(w->edit, node, &x, &bias);
    const int64_t count = kiln_shape_count(&x.data.shape);
    int8_t *byte = KILN_ARENA_ARRAY(arena, int8_t, count);
    float *scale =
        x.bits < 8 ? find_levels(w, &x, byte) : find_scales(w, &x, biased ? &bias : NULL, input);
    for (int64_t i = 0; x.bits == 8 && i < count; i++)
        byte[i] = kiln_quantize_byte((double)((const float *)x.data.data)[i],
                                     (kiln_quantization){scale[channel_of(&x, i)], 0, 8}, -127);
    if (biased) {
        double *corrected = KILN_ARENA_ARRAY(arena, double, x.channels);
        for (int64_t c = 0; c < x.channels; c++)
            corrected[c] = (double)((const float *)bias.data)[c];
        correct_bias(&x, byte, scale, w->found->mean[observed], w->found->mean_count[observed],
                     corrected);
        node->input[2] = few ? add_bias(w, node->input[2], &x, corrected)
                             : emit_bias(w, node->input[2], &x, corrected, scale, input);
    }
    const bool integers = !x.per_channel && (biased || !*kiln_onnx_node_input(node, 2));
    node->input[1] = emit_weights(w, node->input[1], &x, byte, scale);
    return w->options->shift && integers ? input.scale * scale[0] : 0;
}

/* ---- units -----------------------------------------------------------------------------------
 */

/* The unit of an input of a node. */
static float unit_at(const writer *w, const char *name) {
    const uint32_t v = kiln_sites_find(w->sites, name);
    if (v == KILN_SITE_NONE) return 0;
    return w->sites->value.data[v].quantised ? quantization_at(w, v).scale : w->unit[v];
}

/* The unit of the result of a node with quantised inputs, except products with weights. */
static float unit_behind(const writer *w, const Onnx__NodeProto *node) {
    if (kiln_onnx_node_is(node, "Relu") || kiln_onnx_node_is(node, "Clip"))
        return unit_at(w, kiln_onnx_node_input(node, 0));
    if (!kiln_onnx_node_is(node, "Add")) return 0;
    return KILN_MIN(unit_at(w, kiln_onnx_node_input(node, 0)),
                    unit_at(w, kiln_onnx_node_input(node, 1)));
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void write_node(writer *w, uint32_t index) {
    const kiln_sites *sites = w->sites;
    Onnx__NodeProto *node = w->edit->node.data[index];
    const uint32_t first = kiln_sites_find(sites, kiln_onnx_node_input(node, 0));
    const bool few = sites->node[index].few;
    float unit = w->options->shift ? unit_behind(w, node) : 0;
    if (!w->dropped[index]) {
        node = kiln_onnx_edit_copy_node(w->edit, node, 0);
        for (size_t k = 0; k < node->n_input; k++) {
            const uint32_t v = kiln_sites_find(sites, node->input[k]);
            if (v == KILN_SITE_NONE || !w->read_as[v]) continue;
            node->input[k] = few && w->read_as_few[v] ? w->read_as_few[v] : w->read_as[v];
        }
        if (sites->node[index].kind == KILN_QUANTIZE_KIND_WEIGHTS)
            unit = quantize_weights(w, node, first, few);
        emit(w, node);
    }
    for (size_t k = 0; k < node->n_output; k++) {
        const uint32_t v = kiln_sites_find(sites, node->output[k]);
        if (v == KILN_SITE_NONE) continue;
        w->unit[v] = unit;
        if (sites->value.data[v].quantised)
            emit_pairs(w, v, w->dropped[index] ? sites->value.data[first].name : node->output[k]);
    }
}

/* ---- inputs and outputs as bytes
 * ---------------------------------------------------------------------------
 */

/* Renames a node's result `from` to `to`, also where it is read. */
static void rename_value(writer *w, const char *from, const char *to) {
    for (uint32_t i = 0; i < w->node.count; i++) {
        Onnx__NodeProto *node = w->node.data[i];
        for (size_t k = 0; k < node->n_input; k++)
            if (strcmp(node->input[k], from) == 0)
                node->input[k] = kiln_str_dup(w->edit->arena, kiln_str_from(to));
        for (size_t k = 0; k < node->n_output; k++)
            if (strcmp(node->output[k], from) == 0)
                node->output[k] = kiln_str_dup(w->edit->arena, kiln_str_from(to));
    }
}

static void remove_node(writer *w, uint32_t index) {
    memmove(&w->node.data[index], &w->node.data[index + 1],
            (w->node.count - index - 1) * sizeof *w->node.data);
    w->node.count--;
}

/* Makes an input or output of the model its quantised integers, under the same name. */
static void give_bytes(writer *w, uint32_t value) {
    const kiln_site_value *v = &w->sites->value.data[value];
    uint32_t quantize = 0; /* its node, before the one that dequantises */
    while (strcmp(w->node.data[quantize]->output[0], w->integers[value]) != 0) quantize++;
    if (v->producer != KILN_SITE_NONE) {
        rename_value(w, v->name, kiln_onnx_edit_name(w->edit, v->name, "_floats"));
        if (v->readers == 0) remove_node(w, quantize + 1);
    } else {
        remove_node(w, quantize);
    }
    rename_value(w, w->integers[value], v->name);
    kiln_onnx_edit_set_type(w->edit, v->name, w->options->is_unsigned ? KILN_U8 : KILN_I8);
}

static void give_all_bytes(writer *w) {
    const kiln_onnx_edit *edit = w->edit;
    for (uint32_t i = 0; i < edit->input.count; i++) {
        const uint32_t v = kiln_sites_find(w->sites, edit->input.data[i]->name);
        if (v != KILN_SITE_NONE && w->sites->value.data[v].quantised) give_bytes(w, v);
    }
    for (uint32_t i = 0; i < edit->output.count; i++) {
        const uint32_t v = kiln_sites_find(w->sites, edit->output.data[i]->name);
        if (v == KILN_SITE_NONE || w->sites->value.data[v].producer == KILN_SITE_NONE) continue;
        if (w->sites->value.data[v].quantised) give_bytes(w, v);
    }
}

void kiln_onnx_quantize(kiln_onnx_edit *edit, const kiln_sites *sites,
                        const kiln_quantize_plan *plan, const kiln_quantize_found *found,
                        const kiln_quantize_options *options, char ***out_names) {
    const uint32_t values = sites->value.count;
    writer w = {.edit = edit,
                .sites = sites,
                .plan = plan,
                .found = found,
                .options = options,
                .observed = KILN_ARENA_ARRAY(edit->arena, uint32_t, values),
                .integers = KILN_ARENA_ARRAY(edit->arena, char *, values),
                .read_as = KILN_ARENA_ARRAY(edit->arena, char *, values),
                .read_as_few = KILN_ARENA_ARRAY(edit->arena, char *, values),
                .unit = KILN_ARENA_ARRAY(edit->arena, float, values),
                .dropped = KILN_ARENA_ARRAY(edit->arena, bool, edit->node.count)};
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        const uint32_t v =
            kiln_sites_find(sites, kiln_str_dup(edit->arena, plan->observed[i].name));
        KILN_CHECK(v != KILN_SITE_NONE);
        w.observed[v] = i;
    }
    for (uint32_t v = 0; v < values; v++)
        if (sites->value.data[v].quantised && is_cut_anyway(&w, v))
            w.dropped[sites->value.data[v].producer] = true;
    for (uint32_t v = 0; v < values; v++)
        if (sites->value.data[v].quantised && sites->value.data[v].producer == KILN_SITE_NONE)
            emit_pairs(&w, v, sites->value.data[v].name);
    for (uint32_t i = 0; i < edit->node.count; i++) write_node(&w, i);
    if (options->bytes_outside) give_all_bytes(&w);
    edit->node.data = w.node.data;
    edit->node.count = w.node.count;
    edit->node.capacity = w.node.capacity;
    *out_names = KILN_ARENA_ARRAY(edit->arena, char *, plan->observed_count);
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        char *name = kiln_str_dup(edit->arena, plan->observed[i].name);
        char *read_as = w.read_as[kiln_sites_find(sites, name)];
        (*out_names)[i] = read_as ? read_as : name;
    }
}
