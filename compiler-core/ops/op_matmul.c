/* Matrix products: Gemm, batched MatMul, Einsum. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* ---- Gemm ------------------------------------------------------------------------------------ */

static kiln_status gemm_sizes(const kiln_node_info *node, const kiln_shape *a, const kiln_shape *b,
                              int64_t *m, int64_t *n, int64_t *k) {
    if (a->rank != 2 || b->rank != 2)
        return KILN_ERROR(INVALID_ARGUMENT, "inputs 0 and 1 must be matrices");
    bool trans_a = kiln_node_int(node, "transA") != 0, trans_b = kiln_node_int(node, "transB") != 0;
    *m = a->dim[trans_a];
    *k = a->dim[!trans_a];
    *n = b->dim[!trans_b];
    if (b->dim[trans_b] != *k)
        return KILN_ERROR(INVALID_ARGUMENT, "inner dimensions %lld and %lld differ", (long long)*k,
                          (long long)b->dim[trans_b]);
    return KILN_OK;
}

kiln_status kiln_rule_gemm(kiln_infer *infer) {
    const kiln_value_info *a = kiln_infer_input(infer, 0), *b = kiln_infer_input(infer, 1);
    const kiln_value_info *c = kiln_infer_input(infer, 2);
    int64_t m, n, k;
    kiln_status st = gemm_sizes(infer->node, &a->shape, &b->shape, &m, &n, &k);
    if (st) return st;
    if (a->dtype != b->dtype || (c && c->dtype != a->dtype))
        return KILN_ERROR(INVALID_ARGUMENT, "inputs differ in type");
    infer->shape[0] = (kiln_shape){.rank = 2, .dim = {m, n}};
    kiln_shape with_c = infer->shape[0];
    if (c) st = kiln_shape_broadcast(&with_c, &c->shape);
    if (!st && !kiln_shape_equal(&with_c, &infer->shape[0]))
        st = KILN_ERROR(INVALID_ARGUMENT, "it is larger than the product");
    return kiln_status_note(st, "input 2");
}

/* y = alpha * sum + beta * c */
static void gemm_finish(kiln_te *te, kiln_buffer sum) {
    double alpha = kiln_node_float(te->node, "alpha"), beta = kiln_node_float(te->node, "beta");
    kiln_te_block block = kiln_te_output_begin(te, "bias");
    kiln_expr value = kiln_te_at(te, sum, block.i);
    value = kiln_mul(te, kiln_te_const(te, value, alpha), value);
    if (kiln_te_has(te, 2)) {
        kiln_expr c = kiln_te_load_broadcast(te, 2, block.i, 2);
        value = kiln_add(te, value, kiln_mul(te, kiln_te_const(te, c, beta), c));
    }
    kiln_te_put(te, &block, value);
}

void kiln_te_gemm(kiln_te *te) {
    int64_t m, n, k;
    KILN_CHECK(!gemm_sizes(te->node, kiln_te_in_shape(te, 0), kiln_te_in_shape(te, 1), &m, &n, &k));
    bool plain = kiln_node_float(te->node, "alpha") == 1 && !kiln_te_has(te, 2);
    kiln_buffer sum = kiln_te_sums(te, !plain);

    kiln_te_block block = kiln_te_block_for(te, sum);
    kiln_expr i = kiln_te_block_axis(te, &block, "m", m, false),
              j = kiln_te_block_axis(te, &block, "n", n, false);
    kiln_expr r = kiln_te_block_axis(te, &block, "k", k, true);
    kiln_expr a[2] = {i, r}, a_transposed[2] = {r, i}, b[2] = {r, j}, b_transposed[2] = {j, r};
    kiln_expr x = kiln_te_load(te, 0, kiln_node_int(te->node, "transA") ? a_transposed : a);
    kiln_expr y = kiln_te_load(te, 1, kiln_node_int(te->node, "transB") ? b_transposed : b);
    kiln_te_combine(te, &block, KILN_COMBINE_SUM, kiln_mul(te, x, y));
    if (sum != te->output[0]) gemm_finish(te, sum);
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

/* NumPy's matmul: vectors become a row or a column, whose dimension is dropped from the result. */
typedef struct matmul_shape {
    kiln_shape batch; /* broadcast */
    int64_t m, n, k;
    bool row, column; /* input 0, input 1 is a vector */
} matmul_shape;

static kiln_status matmul_resolve(const kiln_shape *a, const kiln_shape *b, matmul_shape *out) {
    if (a->rank == 0 || b->rank == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "scalars cannot be multiplied as matrices");
    matmul_shape s = {.row = a->rank == 1, .column = b->rank == 1};
    s.m = s.row ? 1 : a->dim[a->rank - 2];
    s.k = a->dim[a->rank - 1];
    s.n = s.column ? 1 : b->dim[b->rank - 1];
    int64_t inner = s.column ? b->dim[0] : b->dim[b->rank - 2];
    if (inner != s.k)
        return KILN_ERROR(INVALID_ARGUMENT, "inner dimensions %lld and %lld differ", (long long)s.k,
                          (long long)inner);
    kiln_shape other = *b;
    s.batch = *a;
    s.batch.rank = s.row ? 0 : a->rank - 2;
    other.rank = s.column ? 0 : b->rank - 2;
    kiln_status st = kiln_shape_broadcast(&s.batch, &other);
    if (!st) *out = s;
    return st;
}

kiln_status kiln_rule_matmul(kiln_infer *infer) {
    const kiln_value_info *a = kiln_infer_input(infer, 0), *b = kiln_infer_input(infer, 1);
    bool integer = infer->node->op == KILN_OP_MATMUL_INTEGER;
    matmul_shape s;
    kiln_status st = matmul_resolve(&a->shape, &b->shape, &s);
    if (st) return st;
    if (!integer && a->dtype != b->dtype)
        return KILN_ERROR(INVALID_ARGUMENT, "inputs differ in type");
    for (uint32_t i = 2; i < infer->node->input_count; i++) {
        const kiln_value_info *zero = kiln_infer_input(infer, i);
        if (zero && kiln_shape_count(&zero->shape) != 1)
            return KILN_ERROR(UNIMPLEMENTED, "input %u: zero points that are no scalar", i);
    }
    if (integer) infer->dtype[0] = KILN_I32;
    infer->shape[0] = s.batch;
    if (!s.row) infer->shape[0].dim[infer->shape[0].rank++] = s.m;
    if (!s.column) infer->shape[0].dim[infer->shape[0].rank++] = s.n;
    return KILN_OK;
}

/* Index into an operand: its own batch dimensions (broadcast ones at 0), then the matrix. */
static void matmul_index(kiln_te *te, uint32_t input, const kiln_te_block *batch, kiln_expr row,
                         kiln_expr column, bool vector, kiln_expr *out_index) {
    const kiln_shape *shape = kiln_te_in_shape(te, input);
    uint32_t own = vector ? 0 : shape->rank - 2;
    for (uint32_t d = 0; d < own; d++)
        out_index[d] = shape->dim[d] == 1 ? kiln_index(te, 0) : batch->i[batch->rank - own + d];
    out_index[own] = vector && input == 0 ? column : row;
    if (!vector) out_index[own + 1] = column;
}

/* Input 1 is [batch..][k][n], batch dimensions aligned right and those of 1 broadcast: the
 * dimension of the output with the index of each; -1: none. */
static void output_dims(kiln_te *te, const matmul_shape *s, int *out_dim_of) {
    const kiln_shape *shape = kiln_te_in_shape(te, 1);
    uint32_t own = s->column ? 0 : shape->rank - 2;
    for (uint32_t d = 0; d < shape->rank; d++) out_dim_of[d] = -1;
    for (uint32_t d = 0; d < own; d++)
        if (shape->dim[d] != 1) out_dim_of[d] = (int)(s->batch.rank - own + d);
    if (!s->column) out_dim_of[shape->rank - 1] = (int)kiln_te_out_shape(te)->rank - 1;
}

void kiln_te_matmul(kiln_te *te) {
    matmul_shape s;
    KILN_CHECK(!matmul_resolve(kiln_te_in_shape(te, 0), kiln_te_in_shape(te, 1), &s));
    kiln_dtype wide = kiln_te_out_wide(te);
    bool integer = te->node->op == KILN_OP_MATMUL_INTEGER;
    int dim_of[KILN_RANK_MAX];
    output_dims(te, &s, dim_of);
    kiln_te_bytes bytes = integer ? kiln_te_bytes_begin(te, dim_of) : (kiln_te_bytes){0};
    kiln_buffer sum = kiln_te_sums(te, bytes.zero != 0);

    kiln_te_block block = kiln_te_block_begin(te, "", &s.batch), batch = block;
    block.to = sum;
    kiln_expr m = kiln_index(te, 0), n = kiln_index(te, 0), a[KILN_RANK_MAX] = {0},
              b[KILN_RANK_MAX] = {0};
    if (!s.row) m = kiln_te_block_axis(te, &block, "m", s.m, false);
    if (!s.column) n = kiln_te_block_axis(te, &block, "n", s.n, false);
    kiln_expr k = kiln_te_block_axis(te, &block, "k", s.k, true);
    matmul_index(te, 0, &batch, m, k, s.row, a);
    matmul_index(te, 1, &batch, k, n, s.column, b);
    kiln_expr x = kiln_cast(te, wide, kiln_te_load(te, 0, a)),
              y = kiln_cast(te, wide, kiln_te_load(te, 1, b));
    if (kiln_te_has(te, 2) && !bytes.applies) x = kiln_sub(te, x, kiln_te_load_scalar(te, 2, wide));
    if (kiln_te_has(te, 3)) y = kiln_sub(te, y, kiln_te_load_scalar(te, 3, wide));
    kiln_te_combine(te, &block, KILN_COMBINE_SUM, kiln_mul(te, x, y));
    if (bytes.zero)
        kiln_te_bytes_finish(te, &bytes, sum);
    else
        kiln_te_round(te, sum);
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

#define EINSUM_LABELS                                                          \
    64 /* letters; 52.. stand for the dimensions of an ellipsis, aligned right \
        */
#define EINSUM_ELLIPSIS 52

typedef struct einsum_plan {
    uint32_t input_rank[KILN_NODE_OPERANDS_MAX];
    uint8_t input[KILN_NODE_OPERANDS_MAX][KILN_RANK_MAX]; /* label of each dimension */
    uint32_t output_rank;
    uint8_t output[KILN_RANK_MAX];
    int64_t extent[EINSUM_LABELS]; /* -1: label not used */
} einsum_plan;

static int label_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Labels of one term; an ellipsis takes `ellipsis` dimensions. */
static kiln_status einsum_term(kiln_str term, uint32_t ellipsis, uint8_t *out_label,
                               uint32_t *out_rank) {
    uint32_t rank = 0;
    for (size_t i = 0; i < term.size; i++) {
        if (term.data[i] == ' ') continue;
        bool dots = term.size - i >= 3 && memcmp(term.data + i, "...", 3) == 0;
        uint32_t more = dots ? ellipsis : 1;
        if (!dots && label_of(term.data[i]) < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute equation: unexpected '%c'",
                              term.data[i]);
        if (rank + more > KILN_RANK_MAX)
            return KILN_ERROR(UNIMPLEMENTED, "attribute equation: more than %u dimensions",
                              KILN_RANK_MAX);
        for (uint32_t d = 0; d < more; d++)
            out_label[rank + d] = dots ? (uint8_t)(EINSUM_ELLIPSIS + KILN_RANK_MAX - ellipsis + d)
                                       : (uint8_t)label_of(term.data[i]);
        rank += more;
        if (dots) i += 2;
    }
    *out_rank = rank;
    return KILN_OK;
}

static bool has_dots(kiln_str term) {
    for (size_t i = 0; i + 2 < term.size; i++)
        if (memcmp(term.data + i, "...", 3) == 0) return true;
    return false;
}

static uint32_t letters_in(kiln_str term) {
    uint32_t count = 0;
    for (size_t i = 0; i < term.size; i++) count += label_of(term.data[i]) >= 0;
    return count;
}

static kiln_status einsum_input(kiln_str term, const kiln_shape *shape, uint32_t index,
                                einsum_plan *plan, uint32_t *ellipsis) {
    uint32_t letters = letters_in(term), rest = shape->rank > letters ? shape->rank - letters : 0;
    if (has_dots(term)) *ellipsis = KILN_MAX(*ellipsis, rest);
    kiln_status st = einsum_term(term, rest, plan->input[index], &plan->input_rank[index]);
    if (!st && plan->input_rank[index] != shape->rank)
        st = KILN_ERROR(INVALID_ARGUMENT, "attribute equation: input %u has rank %u", index,
                        shape->rank);
    for (uint32_t d = 0; !st && d < shape->rank; d++) {
        int64_t *extent = &plan->extent[plan->input[index][d]];
        if (*extent >= 0 && *extent != shape->dim[d] && *extent != 1 && shape->dim[d] != 1)
            st = KILN_ERROR(
                INVALID_ARGUMENT,
                "attribute equation: dimension %u of input %u does not agree with the others", d,
                index);
        *extent = KILN_MAX(*extent, shape->dim[d]);
    }
    return st;
}

/* Without "->", the output has the ellipsis and then every letter that occurs once, in order. */
static void einsum_implicit(kiln_str inputs, kiln_strbuf *out) {
    if (has_dots(inputs)) kiln_strbuf_text(out, "...");
    for (char c = 'A'; c <= 'z'; c++) {
        uint32_t count = 0;
        for (size_t i = 0; i < inputs.size; i++) count += inputs.data[i] == c;
        if (count == 1 && label_of(c) >= 0) kiln_strbuf_char(out, c);
    }
}

static kiln_status einsum_resolve(const kiln_graph *graph, const kiln_node_info *node,
                                  einsum_plan *plan) {
    kiln_str equation = kiln_node_text(node, "equation"), inputs = equation, output = {0};
    bool explicit_output = false;
    for (size_t i = 0; i + 1 < equation.size; i++) {
        if (memcmp(equation.data + i, "->", 2) != 0) continue;
        inputs = kiln_str_slice(equation, 0, i);
        output = kiln_str_slice(equation, i + 2, equation.size);
        explicit_output = true;
        break;
    }
    memset(plan, 0, sizeof *plan);
    for (uint32_t l = 0; l < EINSUM_LABELS; l++) plan->extent[l] = -1;
    uint32_t ellipsis = 0;
    kiln_status st = KILN_OK;
    kiln_str rest = inputs;
    for (uint32_t i = 0; !st && i < node->input_count; i++) {
        const kiln_value_info *in = kiln_node_input(graph, node, i);
        if (in->dtype != kiln_node_input(graph, node, 0)->dtype)
            return KILN_ERROR(INVALID_ARGUMENT, "inputs differ in type");
        st = einsum_input(kiln_str_cut(&rest, ','), &in->shape, i, plan, &ellipsis);
    }
    if (!st && rest.size)
        st =
            KILN_ERROR(INVALID_ARGUMENT, "attribute equation has more terms than there are inputs");
    kiln_strbuf implicit = {0};
    if (!explicit_output) einsum_implicit(inputs, &implicit);
    if (!st)
        st = einsum_term(explicit_output ? output : kiln_strbuf_view(&implicit), ellipsis,
                         plan->output, &plan->output_rank);
    kiln_strbuf_deinit(&implicit);
    for (uint32_t d = 0; !st && d < plan->output_rank; d++)
        if (plan->extent[plan->output[d]] < 0)
            st = KILN_ERROR(INVALID_ARGUMENT, "attribute equation: an output label is in no input");
    return st;
}

kiln_status kiln_rule_einsum(kiln_infer *infer) {
    einsum_plan plan;
    kiln_status st = einsum_resolve(infer->graph, infer->node, &plan);
    if (st) return st;

    infer->shape[0].rank = plan.output_rank;
    uint64_t seen = 0;
    for (uint32_t d = 0; d < plan.output_rank; d++) {
        if (seen >> plan.output[d] & 1)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute equation: an output label occurs twice");
        seen |= (uint64_t)1 << plan.output[d];
        infer->shape[0].dim[d] = plan.extent[plan.output[d]];
    }
    uint32_t labels = 0;
    for (uint32_t l = 0; l < EINSUM_LABELS; l++) labels += plan.extent[l] >= 0;
    return labels <= KILN_BLOCK_ITERS_MAX
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "attribute equation has %u labels", labels);
}

void kiln_te_einsum(kiln_te *te) {
    einsum_plan plan;
    KILN_CHECK(!einsum_resolve(te->graph, te->node, &plan));
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr label[EINSUM_LABELS] = {0};
    for (uint32_t d = 0; d < plan.output_rank; d++) label[plan.output[d]] = block.i[d];
    bool reduces = false;
    for (uint32_t l = 0; l < EINSUM_LABELS; l++) {
        if (plan.extent[l] < 0 || label[l]) continue;
        label[l] = kiln_te_block_axis(te, &block, "r", plan.extent[l], true);
        reduces = true;
    }
    kiln_expr product = 0;
    for (uint32_t i = 0; i < te->node->input_count; i++) {
        kiln_expr index[KILN_RANK_MAX] = {0};
        for (uint32_t d = 0; d < plan.input_rank[i]; d++)
            index[d] =
                kiln_te_in_shape(te, i)->dim[d] == 1 ? kiln_index(te, 0) : label[plan.input[i][d]];
        kiln_expr x = kiln_te_load(te, i, index);
        product = product ? kiln_mul(te, product, x) : x;
    }
    if (!reduces) {
        kiln_te_put(te, &block, product);
        return;
    }
    block.to = kiln_te_sums(te, false);
    kiln_te_combine(te, &block, KILN_COMBINE_SUM, product);
    kiln_te_round(te, block.to);
}
