/* Layers with a state: LSTM, one step or a sequence of them, and SVDF. Their states are variables.
 *
 * Sources: the comments on kernels and tensors of tensorflow/lite/kernels/lstm.cc,
 * unidirectional_sequence_lstm.cc and svdf.cc list the inputs. */
#include "compiler-core/frontend/tflite/import.h"

/* ---- LSTM ------------------------------------------------------------------------------------ */

/* Numbers of inputs. Of four gates in a row: input, forget, cell, output. */
enum { X = 0, OF_X = 1, OF_H = 5, PEEPHOLE = 9, BIAS = 12, PROJECTION = 16, PROJECTION_BIAS = 17 };
enum { H = 18, C = 19, NORMS = 20 };
enum { INPUT_GATE, FORGET_GATE, CELL_GATE, OUTPUT_GATE, GATES };

typedef struct lstm {
    bool coupled; /* the input gate is 1 - the forget gate */
    int64_t cells;
    kiln_value x;          /* [...][in] */
    kiln_value of_x, of_h; /* [in][gates * cells], [out][gates * cells] */
    kiln_value bias;       /* [gates * cells] */
    kiln_value peephole[GATES], projection, projection_bias; /* 0: none */
    kiln_op activation;                                      /* NONE: the identity */
    double cell_clip, projection_clip;                       /* 0: none */
    kiln_tflite_tensor *h, *c;
} lstm;

static kiln_value real_input(kiln_tflite *t, uint32_t index) {
    kiln_tflite_tensor *tensor = kiln_tflite_input(t, index);
    return tensor ? kiln_tflite_real(t, tensor, KILN_TFLITE_LAST) : 0;
}

static kiln_value swapped(kiln_tflite *t, kiln_value a) {
    static const int64_t order[] = {1, 0, 2};
    return kiln_tflite_transposed(t, a, order);
}

/* Inputs `first` + gate, joined along their first dimension; of matrices the transpose. */
static kiln_value join_gates(kiln_tflite *t, const lstm *l, uint32_t first, uint32_t rank) {
    kiln_value part[GATES];
    uint32_t count = 0;
    for (uint32_t gate = l->coupled; gate < GATES; gate++) {
        const kiln_tflite_tensor *tensor = kiln_tflite_needed(t, first + gate);
        if (tensor && tensor->shape.rank != rank)
            kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "input %u has %u dimensions",
                                           first + gate, tensor->shape.rank));
        if (t->st) return 0;
        part[count++] = real_input(t, first + gate);
    }
    const kiln_attr attr = kiln_attr_int("axis", 0);
    const kiln_value all = kiln_tflite_node(t, KILN_OP_CONCAT, part, count, &attr, 1);
    return rank == 2 ? swapped(t, all) : all;
}

static void read_activation(kiln_tflite *t, lstm *l) {
    static const kiln_op op[] = {KILN_OP_NONE, KILN_OP_RELU, KILN_OP_NONE, KILN_OP_NONE,
                                 KILN_OP_TANH};
    const int64_t number = kiln_tflite_option(t, KILN_TFLITE_LSTM_ACTIVATION, 0);
    if (number != 0 && number != 1 && number != 4)
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "activation number %lld", (long long)number));
    else
        l->activation = op[number];
}

static bool read_lstm(kiln_tflite *t, lstm *l) {
    l->h = kiln_tflite_variable(t, H);
    l->c = kiln_tflite_variable(t, C);
    if (t->st) return false;
    for (uint32_t i = NORMS; i < t->input.count; i++)
        if (kiln_tflite_input(t, i))
            kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "normalised gates"));
    l->coupled = !kiln_tflite_input(t, OF_X);
    l->cells = l->c->shape.rank == 2 ? l->c->shape.dim[1] : 0;
    l->of_x = join_gates(t, l, OF_X, 2);
    l->of_h = join_gates(t, l, OF_H, 2);
    l->bias = join_gates(t, l, BIAS, 1);
    for (uint32_t gate = l->coupled; gate < GATES; gate++)
        if (gate != CELL_GATE) /* the cell gate has none, so three in a row */
            l->peephole[gate] = real_input(t, PEEPHOLE + gate - (gate == OUTPUT_GATE));
    l->projection = real_input(t, PROJECTION);
    l->projection_bias = real_input(t, PROJECTION_BIAS);
    l->cell_clip = kiln_tflite_float(&t->options_table, KILN_TFLITE_LSTM_CELL_CLIP, 0);
    l->projection_clip = kiln_tflite_float(&t->options_table, KILN_TFLITE_LSTM_PROJECTION_CLIP, 0);
    read_activation(t, l);
    return !t->st;
}

static kiln_value activated(kiln_tflite *t, const lstm *l, kiln_value a) {
    return l->activation == KILN_OP_NONE ? a : kiln_tflite_unary(t, l->activation, a);
}

static kiln_value clipped(kiln_tflite *t, kiln_value a, double most) {
    return most > 0 ? kiln_tflite_clipped(t, a, -most, most) : a;
}

static kiln_value add(kiln_tflite *t, kiln_value a, kiln_value b) {
    return kiln_tflite_binary(t, KILN_OP_ADD, a, b);
}

static kiln_value mul(kiln_tflite *t, kiln_value a, kiln_value b) {
    return kiln_tflite_binary(t, KILN_OP_MUL, a, b);
}

/* sigmoid(sum + peephole * c) */
static kiln_value gate_of(kiln_tflite *t, const lstm *l, uint32_t gate, kiln_value sum,
                          kiln_value c) {
    if (l->peephole[gate]) sum = add(t, sum, mul(t, l->peephole[gate], c));
    return kiln_tflite_unary(t, KILN_OP_SIGMOID, sum);
}

/* One step. `of_x`: the input's part of the gates, [batch][gates * cells]; `h` and `c` as stored,
 * before and after; *out_y: the step's result. */
static void step(kiln_tflite *t, const lstm *l, kiln_value of_x, kiln_value *h, kiln_value *c,
                 kiln_value *out_y) {
    kiln_value sum[GATES] = {0};
    const kiln_value before = kiln_tflite_as_real(t, l->c, *c),
                     of_h = kiln_tflite_binary(t, KILN_OP_MATMUL, kiln_tflite_as_real(t, l->h, *h),
                                               l->of_h),
                     all = add(t, of_x, of_h);
    for (uint32_t gate = l->coupled; gate < GATES; gate++) {
        const int64_t at = (int64_t)(gate - l->coupled) * l->cells;
        sum[gate] = kiln_tflite_cut_out(t, all, 1, at, at + l->cells);
    }
    const kiln_value forget = gate_of(t, l, FORGET_GATE, sum[FORGET_GATE], before);
    const kiln_value take =
        l->coupled ? kiln_tflite_binary(t, KILN_OP_SUB, kiln_tflite_scalar(t, KILN_F32, 1), forget)
                   : gate_of(t, l, INPUT_GATE, sum[INPUT_GATE], before);
    const kiln_value kept = mul(t, forget, before),
                     fresh = mul(t, take, activated(t, l, sum[CELL_GATE]));
    kiln_value cell = clipped(t, add(t, kept, fresh), l->cell_clip);
    const kiln_value give = gate_of(t, l, OUTPUT_GATE, sum[OUTPUT_GATE], cell);
    kiln_value y = mul(t, give, activated(t, l, cell));
    if (l->projection) {
        y = kiln_tflite_binary(t, KILN_OP_MATMUL, y, swapped(t, l->projection));
        if (l->projection_bias) y = add(t, y, l->projection_bias);
        y = clipped(t, y, l->projection_clip);
    }
    *c = kiln_tflite_as_stored(t, l->c, cell);
    *h = kiln_tflite_as_stored(t, l->h, y);
    *out_y = y;
}

/* The inputs' part of the gates, in one product. */
static kiln_value of_inputs(kiln_tflite *t, const lstm *l, kiln_value x) {
    return add(t, kiln_tflite_binary(t, KILN_OP_MATMUL, x, l->of_x), l->bias);
}

void kiln_tflite_lstm(kiln_tflite *t) {
    lstm l = {0};
    if (kiln_tflite_option(t, KILN_TFLITE_LSTM_KERNEL, 0)) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "the basic kernel, whose gates are joined"));
        return;
    }
    if (!read_lstm(t, &l)) return;
    kiln_value h = kiln_tflite_stored(t, l.h, KILN_TFLITE_LAST),
               c = kiln_tflite_stored(t, l.c, KILN_TFLITE_LAST), y = 0;
    step(t, &l, of_inputs(t, &l, real_input(t, X)), &h, &c, &y);
    kiln_tflite_write(t, l.h, h);
    kiln_tflite_write(t, l.c, c);
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}

/* A loop over steps: rows of `of_x` [steps][batch][gates * cells] in, rows of the result out. */
static kiln_value run_steps(kiln_tflite *t, const lstm *l, int64_t steps, kiln_value of_x,
                            kiln_value *h, kiln_value *c) {
    const kiln_attr attr[] = {kiln_attr_int("trips", steps), kiln_attr_int("carried", 2)};
    const kiln_value begin[] = {kiln_tflite_scalar(t, KILN_I64, (double)steps), *h, *c, of_x};
    kiln_value in[4], out[3];
    kiln_tflite_nodes(t, KILN_OP_LOOP_BEGIN, begin, 4, attr, 2, in, 4);
    kiln_value y = 0;
    step(t, l, in[3], &in[1], &in[2], &y);
    in[3] = y;
    kiln_tflite_nodes(t, KILN_OP_LOOP_END, in, 4, NULL, 0, out, 3);
    *h = out[0];
    *c = out[1];
    return out[2];
}

void kiln_tflite_sequence_lstm(kiln_tflite *t) {
    const bool by_time = kiln_tflite_option(t, KILN_TFLITE_SEQUENCE_LSTM_TIME_MAJOR, 0) != 0;
    lstm l = {0};
    if (kiln_tflite_option(t, KILN_TFLITE_SEQUENCE_LSTM_DIAGONAL, 0))
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "diagonal weights"));
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, X);
    if (x && x->shape.rank != 3)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its input has %u dimensions instead of 3",
                                       x->shape.rank));
    if (t->st || !read_lstm(t, &l)) return;
    kiln_value data = real_input(t, X);
    if (!by_time) data = swapped(t, data);
    kiln_value h = kiln_tflite_stored(t, l.h, KILN_TFLITE_LAST),
               c = kiln_tflite_stored(t, l.c, KILN_TFLITE_LAST);
    kiln_value y = run_steps(t, &l, x->shape.dim[!by_time], of_inputs(t, &l, data), &h, &c);
    kiln_tflite_write(t, l.h, h);
    kiln_tflite_write(t, l.c, c);
    if (!by_time) y = swapped(t, y);
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}

/* ---- SVDF ------------------------------------------------------------------------------------ */

static kiln_value summed(kiln_tflite *t, kiln_value a, int64_t axis) {
    const kiln_attr attr[] = {kiln_attr_ints("axes", &axis, 1), kiln_attr_int("keepdims", 0)};
    return kiln_tflite_node(t, KILN_OP_REDUCE_SUM, &a, 1, attr, 2);
}

/* A filter per row of weights over the features of the last steps: the state holds those,
 * [batch][filters * steps], the newest last. */
void kiln_tflite_svdf(kiln_tflite *t) {
    const int64_t rank = kiln_tflite_option(t, KILN_TFLITE_SVDF_RANK, 0);
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0), *weights = kiln_tflite_needed(t, 2);
    kiln_tflite_tensor *state = kiln_tflite_variable(t, 4);
    if (t->st) return;
    if (weights->shape.rank != 2 || x->shape.rank != 2 || rank < 1 ||
        weights->shape.dim[0] % rank != 0 || weights->shape.dim[1] < 1) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its rank %lld does not fit its shapes",
                                       (long long)rank));
        return;
    }
    const int64_t batch = x->shape.dim[0], filters = weights->shape.dim[0],
                  steps = weights->shape.dim[1];
    const kiln_shape by_step = {3, {batch, filters, steps}}, newest = {3, {batch, filters, 1}},
                     by_unit = {3, {batch, filters / rank, rank}};
    const kiln_value feature =
        kiln_tflite_binary(t, KILN_OP_MATMUL, real_input(t, 0), swapped(t, real_input(t, 1)));
    kiln_value part[2] = {
        0, kiln_tflite_as_stored(t, state, kiln_tflite_reshaped(t, feature, &newest))};
    const kiln_value before =
        kiln_tflite_reshaped(t, kiln_tflite_stored(t, state, KILN_TFLITE_LAST), &by_step);
    if (steps > 1) part[0] = kiln_tflite_cut_out(t, before, 2, 1, steps);
    const kiln_attr axis = kiln_attr_int("axis", 2);
    const kiln_value now =
        steps > 1 ? kiln_tflite_node(t, KILN_OP_CONCAT, part, 2, &axis, 1) : part[1];
    kiln_tflite_write(t, state, kiln_tflite_reshaped(t, now, &state->shape));
    kiln_value y = summed(t, mul(t, kiln_tflite_as_real(t, state, now), real_input(t, 2)), 2);
    y = summed(t, kiln_tflite_reshaped(t, y, &by_unit), 2);
    if (kiln_tflite_input(t, 3)) y = add(t, y, real_input(t, 3));
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}
