/* Recurrent layers: a loop over time, or a few unrolled steps.
 *
 * The products with the inputs do not depend on earlier steps, so they are one matrix product over
 * all steps. A step has only the product with the hidden state, a task that all steps share, and
 * arithmetic on vectors. */
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define GATES_MAX 4
#define ACTIVATIONS_MAX 3

/* ---- activations ----------------------------------------------------------------------------- */

typedef struct activation_row {
    const char *name;
    kiln_op op;
    const char *alpha, *beta; /* attributes of the operator; NULL: it has none */
    double alpha_default, beta_default;
} activation_row;

/* Affine and ScaledTanh are arithmetic around another operator. */
static const activation_row activation_table[] = {
    {"Relu", KILN_OP_RELU, NULL, NULL, 0, 0},
    {"Tanh", KILN_OP_TANH, NULL, NULL, 0, 0},
    {"Sigmoid", KILN_OP_SIGMOID, NULL, NULL, 0, 0},
    {"Softsign", KILN_OP_SOFTSIGN, NULL, NULL, 0, 0},
    {"Softplus", KILN_OP_SOFTPLUS, NULL, NULL, 0, 0},
    {"LeakyRelu", KILN_OP_LEAKY_RELU, "alpha", NULL, 0.01, 0},
    {"ThresholdedRelu", KILN_OP_THRESHOLDED_RELU, "alpha", NULL, 1, 0},
    {"Elu", KILN_OP_ELU, "alpha", NULL, 1, 0},
    {"HardSigmoid", KILN_OP_HARD_SIGMOID, "alpha", "beta", 0.2, 0.5},
    {"Affine", KILN_OP_NONE, "", "", 1, 0},
    {"ScaledTanh", KILN_OP_TANH, "", "", 1, 1},
};

typedef struct activation {
    const activation_row *row;
    double alpha, beta;
} activation;

static kiln_value scaled(kiln_composer *c, kiln_value x, double factor) {
    return kiln_compose_binary(c, KILN_OP_MUL, x,
                               kiln_compose_scalar(c, kiln_compose_dtype(c, x), factor));
}

static kiln_value activate(kiln_composer *c, const activation *a, kiln_value x) {
    const activation_row *row = a->row;
    if (c->st) return 0;
    if (row->op == KILN_OP_NONE)
        return kiln_compose_binary(c, KILN_OP_ADD, scaled(c, x, a->alpha),
                                   kiln_compose_scalar(c, kiln_compose_dtype(c, x), a->beta));
    if (row->alpha && !*row->alpha)
        return scaled(c, kiln_compose_unary(c, row->op, scaled(c, x, a->beta)), a->alpha);
    kiln_attr attr[2];
    uint32_t count = 0;
    if (row->alpha) attr[count++] = kiln_attr_float(row->alpha, a->alpha);
    if (row->beta) attr[count++] = kiln_attr_float(row->beta, a->beta);
    kiln_value result = 0;
    kiln_compose_node(c, row->op, &x, 1, attr, count, &result, 1);
    return result;
}

static const activation_row *find_activation(kiln_str name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(activation_table); i++)
        if (kiln_str_is(name, activation_table[i].name)) return &activation_table[i];
    return NULL;
}

/* ---- the layer ------------------------------------------------------------------------------- */

struct layer;
/* One step of one direction: from `product` ([batch][gates * hidden], the inputs' part with its
 * bias) and the state before to the state after. `state`: [0] hidden, [1] cell; 0 means zeros.
 */
typedef struct direction {
    const struct layer *layer;
    kiln_value recurrence; /* [gates * hidden][hidden]; GRU: of the first two gates unless
                              linear_before_reset */
    kiln_value candidate;  /* GRU without linear_before_reset: [hidden][hidden] of the third gate */
    kiln_value late_bias;  /* [gates * hidden]; GRU with linear_before_reset, otherwise 0 */
    kiln_value peephole[3];
    activation act[ACTIVATIONS_MAX];
} direction;
typedef void (*step_function)(kiln_composer *c, const direction *d, kiln_value product,
                              kiln_value *state);

typedef struct layer_kind {
    uint32_t gates, activations, states;
    const char *activation[ACTIVATIONS_MAX]; /* by default */
    step_function step;
} layer_kind;

typedef struct layer {
    const layer_kind *kind;
    kiln_importer *im;
    int64_t steps, batch, hidden;
    uint32_t directions;
    bool reverse_only, batch_first, input_forget, linear_before_reset;
    double clip; /* 0: none */
    kiln_value input, weight, recurrence, bias, lengths, initial[2], peephole;
    kiln_value zeros; /* [batch][hidden], where sequences end early */
} layer;

/* One direction's part of an operand: [directions][rows][columns...] to [rows][columns...]. */
static kiln_value part_of(kiln_composer *c, kiln_value value, uint32_t index) {
    if (!value || c->st) return 0;
    kiln_shape shape = *kiln_compose_shape(c, value);
    kiln_value part = kiln_compose_slice(c, value, 0, index, index + 1);
    memmove(shape.dim, shape.dim + 1, sizeof shape.dim[0] * --shape.rank);
    return kiln_compose_reshape(c, part, &shape);
}

static kiln_value clipped(kiln_composer *c, const layer *l, kiln_value x) {
    if (l->clip <= 0 || c->st) return x;
    kiln_dtype dtype = kiln_compose_dtype(c, x);
    kiln_value operand[] = {x, kiln_compose_scalar(c, dtype, -l->clip),
                            kiln_compose_scalar(c, dtype, l->clip)};
    kiln_value result = 0;
    kiln_compose_node(c, KILN_OP_CLIP, operand, 3, NULL, 0, &result, 1);
    return result;
}

/* Columns of gate number `gate`. */
static kiln_value gate_of(kiln_composer *c, const layer *l, kiln_value gates, uint32_t gate) {
    return kiln_compose_slice(c, gates, 1, gate * l->hidden, (gate + 1) * l->hidden);
}

static kiln_value add(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_ADD, a, b);
}

static kiln_value mul(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_MUL, a, b);
}

/* a + state * weight^T, or `a` alone where the state is zero. */
static kiln_value plus_product(kiln_composer *c, kiln_value a, kiln_value state,
                               kiln_value weight) {
    return state ? add(c, kiln_compose_gemm(c, state, weight, 0, true), a) : a;
}

static void rnn_step(kiln_composer *c, const direction *d, kiln_value product, kiln_value *state) {
    kiln_value sum = plus_product(c, product, state[0], d->recurrence);
    state[0] = activate(c, &d->act[0], clipped(c, d->layer, sum));
}

static kiln_value with_peephole(kiln_composer *c, kiln_value gate, kiln_value weight,
                                kiln_value cell) {
    return weight && cell ? add(c, gate, mul(c, weight, cell)) : gate;
}

/* The order of gates is input, output, forget, cell. */
static void lstm_step(kiln_composer *c, const direction *d, kiln_value product, kiln_value *state) {
    const layer *l = d->layer;
    kiln_value before = state[1], gates = plus_product(c, product, state[0], d->recurrence);
    kiln_value in = with_peephole(c, gate_of(c, l, gates, 0), d->peephole[0], before);
    in = activate(c, &d->act[0], clipped(c, l, in));
    kiln_value new_cell = activate(c, &d->act[1], clipped(c, l, gate_of(c, l, gates, 3)));
    kiln_value cell = mul(c, in, new_cell);
    if (before) {
        kiln_value forget = with_peephole(c, gate_of(c, l, gates, 2), d->peephole[2], before);
        forget =
            l->input_forget
                ? kiln_compose_binary(c, KILN_OP_SUB,
                                      kiln_compose_scalar(c, kiln_compose_dtype(c, gates), 1), in)
                : activate(c, &d->act[0], clipped(c, l, forget));
        cell = add(c, mul(c, forget, before), cell);
    }
    kiln_value out = with_peephole(c, gate_of(c, l, gates, 1), d->peephole[1], cell);
    out = activate(c, &d->act[0], clipped(c, l, out));
    state[0] = mul(c, out, activate(c, &d->act[2], cell));
    state[1] = cell;
}

/* The order of gates is update, reset, hidden. */
static void gru_step(kiln_composer *c, const direction *d, kiln_value product, kiln_value *state) {
    const layer *l = d->layer;
    kiln_value before = state[0];
    kiln_value own[3], from_state[3] = {0};
    for (uint32_t g = 0; g < 3; g++) own[g] = gate_of(c, l, product, g);
    if (before && l->linear_before_reset) {
        kiln_value all = kiln_compose_gemm(c, before, d->recurrence, d->late_bias, true);
        for (uint32_t g = 0; g < 3; g++) from_state[g] = gate_of(c, l, all, g);
    } else if (before) {
        kiln_value both = kiln_compose_gemm(c, before, d->recurrence, 0, true);
        for (uint32_t g = 0; g < 2; g++) from_state[g] = gate_of(c, l, both, g);
    } else if (d->late_bias) {
        for (uint32_t g = 0; g < 3; g++)
            from_state[g] =
                kiln_compose_slice(c, d->late_bias, 0, g * l->hidden, (g + 1) * l->hidden);
    }
    kiln_value gate[2];
    for (uint32_t g = 0; g < 2; g++) {
        gate[g] = from_state[g] ? add(c, own[g], from_state[g]) : own[g];
        gate[g] = activate(c, &d->act[0], clipped(c, l, gate[g]));
    }
    kiln_value hidden = own[2];
    if (from_state[2]) {
        hidden = add(c, hidden, mul(c, gate[1], from_state[2]));
    } else if (before) {
        hidden = plus_product(c, hidden, mul(c, gate[1], before), d->candidate);
    }
    hidden = activate(c, &d->act[1], clipped(c, l, hidden));
    /* (1 - z) * h + z * before = h + z * (before - h) */
    kiln_value difference = before ? kiln_compose_binary(c, KILN_OP_SUB, before, hidden)
                                   : kiln_compose_unary(c, KILN_OP_NEG, hidden);
    state[0] = add(c, hidden, mul(c, gate[0], difference));
}

/* ---- one direction --------------------------------------------------------------------------- */

/* The steps of each sequence: [steps][batch][1] booleans, or 0: all sequences have all steps. */
static kiln_value masks_of(kiln_composer *c, layer *l) {
    if (!l->lengths || c->st) return 0;
    kiln_shape state = {.rank = 2, .dim = {l->batch, l->hidden}};
    l->zeros = kiln_compose_filled(c, kiln_compose_dtype(c, l->input), &state, 0);
    kiln_shape steps = {.rank = 3, .dim = {l->steps, 1, 1}},
               each = {.rank = 2, .dim = {l->batch, 1}};
    kiln_tensor number =
        kiln_tensor_create(l->im->graph->arena, kiln_compose_dtype(c, l->lengths), &steps);
    for (int64_t t = 0; t < l->steps; t++)
        kiln_dtype_store_i64(number.dtype, number.data, (size_t)t, t);
    kiln_value lengths = kiln_compose_reshape(c, l->lengths, &each);
    return kiln_compose_binary(c, KILN_OP_LESS, kiln_compose_constant(c, &number), lengths);
}

/* The bias of the inputs' part. The state's bias is added to it unless another operation comes
 * between the two. */
static kiln_value bias_of(kiln_composer *c, const layer *l, uint32_t index, kiln_value *late) {
    int64_t rows = l->kind->gates * l->hidden;
    kiln_value both = part_of(c, l->bias, index);
    if (!both) return 0;
    kiln_value first = kiln_compose_slice(c, both, 0, 0, rows);
    kiln_value second = kiln_compose_slice(c, both, 0, rows, 2 * rows);
    if (!l->linear_before_reset) return add(c, first, second);
    *late = second;
    return first;
}

/* The inputs' part of every step: x * weight^T + bias as one product: [steps * batch][gates *
 * hidden]. */
static kiln_value products_of(kiln_composer *c, const layer *l, uint32_t index,
                              kiln_value *late_bias) {
    if (c->st) return 0;
    int64_t features = kiln_compose_shape(c, l->input)->dim[2];
    kiln_value bias = bias_of(c, l, index, late_bias);
    kiln_shape flat = {.rank = 2, .dim = {l->steps * l->batch, features}};
    kiln_value x = kiln_compose_reshape(c, l->input, &flat);
    return kiln_compose_gemm(c, x, part_of(c, l->weight, index), bias, true);
}

/* After the end of a sequence its state stays and its output is zero. */
static kiln_value run_step(kiln_composer *c, const direction *d, kiln_value product,
                           kiln_value mask, kiln_value *state) {
    kiln_value before[2] = {state[0], state[1]};
    d->layer->kind->step(c, d, product, state);
    if (!mask) return state[0];
    kiln_value zeros = d->layer->zeros;
    kiln_value output = kiln_compose_where(c, mask, state[0], zeros);
    for (uint32_t s = 0; s < d->layer->kind->states; s++)
        state[s] = kiln_compose_where(c, mask, state[s], before[s] ? before[s] : zeros);
    return output;
}

/* Unrolls the steps: [steps][1][batch][hidden]; `state` gets the last ones. */
static kiln_value unroll(kiln_composer *c, const direction *d, kiln_value products,
                         kiln_value masks, bool backward, kiln_value *state) {
    const layer *l = d->layer;
    const kiln_shape one = {.rank = 4, .dim = {1, 1, l->batch, l->hidden}},
                     each = {.rank = 2, .dim = {l->batch, 1}};
    kiln_value *product = KILN_ARENA_ARRAY(l->im->graph->arena, kiln_value, l->steps),
               *mask = KILN_ARENA_ARRAY(l->im->graph->arena, kiln_value, l->steps),
               *output = KILN_ARENA_ARRAY(l->im->graph->arena, kiln_value, l->steps);
    kiln_compose_split(c, products, 0, (uint32_t)l->steps, product);
    if (masks) kiln_compose_split(c, masks, 0, (uint32_t)l->steps, mask);
    for (int64_t i = 0; !c->st && i < l->steps; i++) {
        int64_t t = backward ? l->steps - 1 - i : i;
        if (masks) mask[t] = kiln_compose_reshape(c, mask[t], &each);
        output[t] = kiln_compose_reshape(c, run_step(c, d, product[t], mask[t], state), &one);
    }
    return c->st ? 0 : kiln_compose_concat(c, output, (uint32_t)l->steps, 0);
}

/* The same as a loop. */
static kiln_value roll(kiln_composer *c, const direction *d, kiln_value products, kiln_value masks,
                       bool backward, kiln_value *state) {
    const layer *l = d->layer;
    const int64_t reversed[2] = {backward, backward};
    const kiln_shape zeros = {.rank = 2, .dim = {l->batch, l->hidden}},
                     by_step = {.rank = 3, .dim = {l->steps, l->batch, l->kind->gates * l->hidden}},
                     joined = {.rank = 4, .dim = {l->steps, 1, l->batch, l->hidden}};
    kiln_value row[2] = {kiln_compose_reshape(c, products, &by_step), masks}, output = 0;
    for (uint32_t s = 0; s < l->kind->states; s++)
        if (!state[s])
            state[s] = kiln_compose_filled(c, kiln_compose_dtype(c, l->input), &zeros, 0);
    kiln_compose_loop loop = {.trips = l->steps,
                              .carried = l->kind->states,
                              .row_count = masks ? 2 : 1,
                              .stack_count = 1,
                              .carry = state,
                              .row = row,
                              .stack = &output,
                              .row_reversed = reversed,
                              .stack_reversed = reversed};
    kiln_compose_loop_begin(c, &loop);
    if (!c->st) output = run_step(c, d, row[0], row[1], state);
    kiln_compose_loop_end(c, &loop);
    return kiln_compose_reshape(c, output, &joined);
}

/* [steps][1][batch][hidden]; `state` gets the last ones. */
static kiln_value run_direction(kiln_composer *c, const layer *l, const activation *act,
                                uint32_t index, kiln_value masks, kiln_value *state) {
    bool backward = l->reverse_only || index == 1;
    direction d = {.layer = l};
    memcpy(d.act, act, sizeof d.act);
    kiln_value products = products_of(c, l, index, &d.late_bias);
    d.recurrence = part_of(c, l->recurrence, index);
    if (l->kind->step == gru_step && !l->linear_before_reset) {
        d.candidate = kiln_compose_slice(c, d.recurrence, 0, 2 * l->hidden, 3 * l->hidden);
        d.recurrence = kiln_compose_slice(c, d.recurrence, 0, 0, 2 * l->hidden);
    }
    kiln_value peepholes = part_of(c, l->peephole, index);
    for (uint32_t g = 0; peepholes && g < 3; g++)
        d.peephole[g] = kiln_compose_slice(c, peepholes, 0, g * l->hidden, (g + 1) * l->hidden);
    for (uint32_t s = 0; s < l->kind->states; s++) state[s] = part_of(c, l->initial[s], index);
    return l->steps > kiln_compose_unroll_max(c) ? roll(c, &d, products, masks, backward, state)
                                                 : unroll(c, &d, products, masks, backward, state);
}

/* ---- attributes and operands ----------------------------------------------------------------- */

static kiln_status read_activations(const kiln_importer *im, const layer *l, activation *out) {
    const Onnx__AttributeProto *names = kiln_import_attribute(im, "activations"),
                               *alpha = kiln_import_attribute(im, "activation_alpha"),
                               *beta = kiln_import_attribute(im, "activation_beta");
    size_t count = (size_t)l->directions * l->kind->activations, alphas = 0, betas = 0;
    if (names && names->n_strings != count)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute activations needs %zu items", count);
    for (size_t i = 0; i < count; i++) {
        size_t within = i % l->kind->activations;
        kiln_str name = names ? kiln_proto_bytes(names->strings[i])
                              : kiln_str_from(l->kind->activation[within]);
        const activation_row *row = find_activation(name);
        if (!row)
            return KILN_ERROR(UNIMPLEMENTED, "attribute activations: \"%.*s\"", KILN_STR_ARG(name));
        activation *a = &out[i / l->kind->activations * ACTIVATIONS_MAX + within];
        *a = (activation){row, row->alpha_default, row->beta_default};
        if (row->alpha && alpha && alphas < alpha->n_floats)
            a->alpha = (double)alpha->floats[alphas++];
        if (row->beta && beta && betas < beta->n_floats) a->beta = (double)beta->floats[betas++];
    }
    return KILN_OK;
}

static kiln_status check_operand(const kiln_importer *im, kiln_value value, const char *name,
                                 const kiln_shape *wanted) {
    if (!value || kiln_shape_equal(&im->graph->value.data[value].shape, wanted)) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "%s has another shape than the layer needs", name);
}

static kiln_status check_operands(const kiln_importer *im, const layer *l) {
    int64_t d = l->directions, h = l->hidden, rows = l->kind->gates * h;
    int64_t features = im->graph->value.data[l->input].shape.dim[2];
    kiln_status st = check_operand(im, l->weight, "W", &(kiln_shape){3, {d, rows, features}});
    if (!st) st = check_operand(im, l->recurrence, "R", &(kiln_shape){3, {d, rows, h}});
    if (!st) st = check_operand(im, l->bias, "B", &(kiln_shape){2, {d, 2 * rows}});
    if (!st) st = check_operand(im, l->lengths, "sequence_lens", &(kiln_shape){1, {l->batch}});
    if (!st) st = check_operand(im, l->peephole, "P", &(kiln_shape){2, {d, 3 * h}});
    for (uint32_t s = 0; !st && s < 2; s++)
        st = check_operand(im, l->initial[s], s ? "initial_c" : "initial_h",
                           &(kiln_shape){3, {d, l->batch, h}});
    return st;
}

/* With layout 1 the batch comes first; internally the steps do. */
static kiln_value swap_leading(kiln_composer *c, kiln_value value) {
    static const int64_t perm[] = {1, 0, 2};
    return value ? kiln_compose_ints(c, KILN_OP_TRANSPOSE, value, "perm", perm, 3) : 0;
}

static kiln_status read_direction(const kiln_importer *im, layer *l) {
    kiln_str text = kiln_import_text(im, "direction", "forward");
    bool both = kiln_str_is(text, "bidirectional");
    l->reverse_only = kiln_str_is(text, "reverse");
    l->directions = both ? 2 : 1;
    return both || l->reverse_only || kiln_str_is(text, "forward")
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "attribute direction: \"%.*s\" is not known",
                            KILN_STR_ARG(text));
}

static kiln_status read_layer(kiln_composer *c, layer *l) {
    kiln_importer *im = c->im;
    kiln_value *operand[] = {&l->input,   &l->weight,     &l->recurrence, &l->bias,
                             &l->lengths, &l->initial[0], &l->initial[1], &l->peephole};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(operand); i++) *operand[i] = kiln_import_input(im, i);
    if (!l->input || !l->weight || !l->recurrence)
        return KILN_ERROR(INVALID_ARGUMENT, "X, W and R must be given");
    l->batch_first = kiln_import_int(im, "layout", 0) != 0;
    l->clip = kiln_import_float(im, "clip", 0);
    l->input_forget = kiln_import_int(im, "input_forget", 0) != 0;
    l->linear_before_reset = kiln_import_int(im, "linear_before_reset", 0) != 0;
    if (im->graph->value.data[l->input].shape.rank != 3 ||
        im->graph->value.data[l->recurrence].shape.rank != 3)
        return KILN_ERROR(INVALID_ARGUMENT, "X, W and R need 3 dimensions");
    kiln_status st = read_direction(im, l);
    for (uint32_t s = 0; !st && s < 2 && l->batch_first; s++)
        l->initial[s] = swap_leading(c, l->initial[s]);
    if (!st && l->batch_first) l->input = swap_leading(c, l->input);
    if (st || c->st) return st;
    l->steps = im->graph->value.data[l->input].shape.dim[0];
    l->batch = im->graph->value.data[l->input].shape.dim[1];
    l->hidden = im->graph->value.data[l->recurrence].shape.dim[2];
    if (l->steps < 1 || l->steps > KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%lld steps; 1 to %lld are supported", (long long)l->steps,
                          (long long)KILN_LOOP_TRIPS_MAX);
    return check_operands(im, l);
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* [steps][1][batch][hidden] each to [steps][directions][batch][hidden], or batch first. */
static kiln_value join_outputs(kiln_composer *c, const layer *l, const kiln_value *side) {
    static const int64_t batch_first[] = {2, 0, 1, 3};
    if (c->st) return 0;
    kiln_value all = kiln_compose_concat(c, side, l->directions, 1);
    return l->batch_first ? kiln_compose_ints(c, KILN_OP_TRANSPOSE, all, "perm", batch_first, 4)
                          : all;
}

static kiln_value join_states(kiln_composer *c, const layer *l, const kiln_value *state) {
    kiln_shape one = {.rank = 3, .dim = {1, l->batch, l->hidden}};
    kiln_value side[2];
    for (uint32_t d = 0; d < l->directions; d++) side[d] = kiln_compose_reshape(c, state[d], &one);
    kiln_value all = kiln_compose_concat(c, side, l->directions, 0);
    return l->batch_first ? swap_leading(c, all) : all;
}

static bool wanted(const kiln_importer *im, uint32_t index) {
    return index < im->node->n_output && *im->node->output[index];
}

static void compose_layer(kiln_composer *c, layer *l, const activation *act) {
    kiln_value masks = masks_of(c, l), output[2] = {0}, last[2][2] = {{0}};
    for (uint32_t d = 0; d < l->directions; d++) {
        kiln_value state[2] = {0};
        output[d] = run_direction(c, l, act + (size_t)d * ACTIVATIONS_MAX, d, masks, state);
        for (uint32_t s = 0; s < 2; s++) last[s][d] = state[s];
    }
    if (wanted(l->im, 0)) kiln_compose_define(c, 0, join_outputs(c, l, output));
    for (uint32_t s = 0; s < l->kind->states; s++)
        if (wanted(l->im, s + 1)) kiln_compose_define(c, s + 1, join_states(c, l, last[s]));
}

static kiln_status import_layer(kiln_importer *im, const layer_kind *kind) {
    activation act[2 * ACTIVATIONS_MAX];
    layer l = {.kind = kind, .im = im};
    kiln_composer c = {.im = im};
    kiln_compose_fail(&c, read_layer(&c, &l));
    if (!c.st) c.st = read_activations(im, &l, act);
    if (!c.st) compose_layer(&c, &l, act);
    return c.st;
}

kiln_status kiln_import_rnn(kiln_importer *im) {
    static const layer_kind kind = {1, 1, 1, {"Tanh"}, rnn_step};
    return import_layer(im, &kind);
}

kiln_status kiln_import_gru(kiln_importer *im) {
    static const layer_kind kind = {3, 2, 1, {"Sigmoid", "Tanh"}, gru_step};
    return import_layer(im, &kind);
}

kiln_status kiln_import_lstm(kiln_importer *im) {
    static const layer_kind kind = {4, 3, 2, {"Sigmoid", "Tanh", "Tanh"}, lstm_step};
    return import_layer(im, &kind);
}
