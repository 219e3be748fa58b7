/* Shared by the definitions of operators: contexts, helpers, and the functions that ops.def names.
 * Private to compiler-core/ops. */
#ifndef KILN_COMPILER_CORE_OPS_RULES_H
#define KILN_COMPILER_CORE_OPS_RULES_H

#include "compiler-core/graph/op.h"

/* ---- attributes ------------------------------------------------------------------------------ */
/* The node's own value, else the default of ops.def. Asking for a name or kind that ops.def does
 * not list is a bug; a missing attribute without default gives 0, the empty text or the empty list.
 */
int64_t kiln_node_int(const kiln_node_info *node, const char *name);
double kiln_node_float(const kiln_node_info *node, const char *name);
kiln_str kiln_node_text(const kiln_node_info *node, const char *name);
bool kiln_node_has(const kiln_node_info *node, const char *name);
/* [*out_count]; NULL when not given. */
const int64_t *kiln_node_ints(const kiln_node_info *node, const char *name, uint32_t *out_count);
const double *kiln_node_floats(const kiln_node_info *node, const char *name, uint32_t *out_count);

/* The range that a quantize_linear with results of `dtype` clamps to: that of its `bits`, or of the
 * type. */
void kiln_quantize_range(const kiln_node_info *node, kiln_dtype dtype, int64_t *out_low,
                         int64_t *out_high);

/* ---- shape rules ----------------------------------------------------------------------------- */
typedef struct kiln_infer {
    const kiln_graph *graph;
    const kiln_node_info *node;
    kiln_dtype *dtype; /* [output_count] input 0's, unless the rule says otherwise */
    kiln_shape *shape; /* [output_count] likewise */
} kiln_infer;

static inline const kiln_value_info *kiln_node_input(const kiln_graph *graph,
                                                     const kiln_node_info *node, uint32_t index) {
    return index < node->input_count && node->input[index] ? &graph->value.data[node->input[index]]
                                                           : NULL;
}
static inline const kiln_value_info *kiln_infer_input(const kiln_infer *infer, uint32_t index) {
    return kiln_node_input(infer->graph, infer->node, index);
}
/* Checks that a tensor can have `rank` dimensions; UNIMPLEMENTED: the result cannot. */
KILN_MUST_USE kiln_status kiln_infer_check_rank(uint32_t rank);
/* Dimension number `axis` (may be negative) of `rank`; INVALID_ARGUMENT naming the attribute. */
KILN_MUST_USE kiln_status kiln_axis_resolve(int64_t axis, uint32_t rank, const char *name,
                                            uint32_t *out_axis);
/* Item `index` of a list of dimensions (NULL: 0, 1, ...), which must not be in `*seen` yet. */
KILN_MUST_USE kiln_status kiln_axis_take(const int64_t *axes, uint32_t index, uint32_t rank,
                                         const char *name, uint32_t *seen, uint32_t *out_axis);
/* Attribute `axis` as a dimension of input 0. */
KILN_MUST_USE kiln_status kiln_infer_axis(const kiln_infer *infer, uint32_t *out_axis);
/* Bit mask of the dimensions in attribute `name`; not given: `otherwise`. Duplicates are refused.
 */
KILN_MUST_USE kiln_status kiln_axes_resolve(const kiln_node_info *node, const char *name,
                                            uint32_t rank, uint32_t otherwise, uint32_t *out_mask);
/* NumPy's broadcasting, in place on `shape`. */
KILN_MUST_USE kiln_status kiln_shape_broadcast(kiln_shape *shape, const kiln_shape *other);
static inline uint32_t kiln_mask_all(uint32_t rank) { return rank ? ~0u >> (32u - rank) : 0u; }

/* ---- tensor expressions ---------------------------------------------------------------------- */
typedef struct kiln_te {
    kiln_program *p;
    const kiln_graph *graph;
    const kiln_node_info *node;
    const kiln_buffer *input, *output;
} kiln_te;

/* The node alone as a program in `arena`, whose arguments are all its operands but literals; in:
 * [input_count] their buffers, 0 for literals and what is left out. */
kiln_program *kiln_node_program(const kiln_graph *graph, kiln_node node, kiln_arena *arena,
                                kiln_buffer *in);

/* A block under construction: iterators of the spatial dimensions, then of the reduced ones. */
typedef struct kiln_te_block {
    kiln_block id;
    kiln_buffer to; /* the buffer that it computes; 0: given with the store */
    uint32_t rank;
    kiln_expr i[KILN_BLOCK_ITERS_MAX];
} kiln_te_block;

/* The shape of an input that is given, and whether it is given. */
const kiln_shape *kiln_te_in_shape(const kiln_te *te, uint32_t input);
kiln_dtype kiln_te_in_dtype(const kiln_te *te, uint32_t input);
bool kiln_te_has(const kiln_te *te, uint32_t input);
/* The shape of output 0, even if the output is unused. */
const kiln_shape *kiln_te_out_shape(const kiln_te *te);
/* Attribute `axis` as a dimension of input 0. */
uint32_t kiln_te_axis(const kiln_te *te);
/* The dtype that arithmetic on `dtype` is done in: halves in f32. */
kiln_dtype kiln_te_compute_dtype(kiln_dtype dtype);
/* The compute dtype of input 0, and of output 0. */
kiln_dtype kiln_te_wide(const kiln_te *te);
kiln_dtype kiln_te_out_wide(const kiln_te *te);

/* A block named after the operator plus `suffix` with one spatial iterator per dimension of
 * `shape`. */
kiln_te_block kiln_te_block_begin(kiln_te *te, const char *suffix, const kiln_shape *shape);
/* The same for output 0, and for a new temp of that name, which the block computes. */
kiln_te_block kiln_te_output_begin(kiln_te *te, const char *suffix);
kiln_te_block kiln_te_temp_begin(kiln_te *te, const char *suffix, kiln_dtype dtype,
                                 const kiln_shape *shape);
/* A block without iterators that computes `to`. */
kiln_te_block kiln_te_block_for(kiln_te *te, kiln_buffer to);
/* Another iterator; reduce ones are kept in `i` as well. */
kiln_expr kiln_te_block_axis(kiln_te *te, kiln_te_block *block, const char *name, int64_t extent,
                             bool reduce);
/* One element of an input as it is stored; a literal for one-element constants. `index` has its
 * rank. */
kiln_expr kiln_te_load_raw(kiln_te *te, uint32_t input, const kiln_expr *index);
/* The same at the block's own indices, but at `at` along dimension `axis`. */
kiln_expr kiln_te_load_moved(kiln_te *te, uint32_t input, const kiln_te_block *block, uint32_t axis,
                             kiln_expr at);
/* The same in its compute dtype. */
kiln_expr kiln_te_load(kiln_te *te, uint32_t input, const kiln_expr *index);
/* Element of an input broadcast (aligned right) to `rank` dimensions with indices `i`; compute
 * dtype. */
kiln_expr kiln_te_load_broadcast(kiln_te *te, uint32_t input, const kiln_expr *i, uint32_t rank);
/* The only element of an input as `dtype`. */
kiln_expr kiln_te_load_scalar(kiln_te *te, uint32_t input, kiln_dtype dtype);
/* Element of any buffer in its compute dtype; `index` has the buffer's rank. */
kiln_expr kiln_te_at(kiln_te *te, kiln_buffer buffer, const kiln_expr *index);
kiln_expr kiln_te_read(kiln_te *te, kiln_buffer buffer, const kiln_expr *index, uint32_t rank);
/* A new temp, named after the operator plus `suffix`. */
kiln_buffer kiln_te_temp(kiln_te *te, const char *suffix, kiln_dtype dtype,
                         const kiln_shape *shape);
/* block->to = value (cast to its dtype) at the block's own indices; combine of value over the
 * reduce iterators. */
void kiln_te_put(kiln_te *te, const kiln_te_block *block, kiln_expr value);
void kiln_te_combine(kiln_te *te, const kiln_te_block *block, kiln_combiner combiner,
                     kiln_expr value);
/* The buffer for sums: output 0 itself, or a temp in its compute dtype if that differs or with
 * `apart`. A temp must be stored to output 0 in the end: by kiln_te_round, if nothing else does it.
 */
kiln_buffer kiln_te_sums(kiln_te *te, bool apart);
void kiln_te_round(kiln_te *te, kiln_buffer sums);
/* buffer[index] = value (cast to the buffer's dtype). */
void kiln_te_store(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                   const kiln_expr *index, uint32_t rank, kiln_expr value);
/* buffer[index] = combine of value over the reduce iterators. The buffer has the value's dtype. */
void kiln_te_accumulate(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                        const kiln_expr *index, uint32_t rank, kiln_combiner combiner,
                        kiln_expr value);

/* A reduction over some dimensions of an operand. Gives the value of one element of the operand
 * (`i`: [rank]) to be combined. */
typedef kiln_expr (*kiln_te_operand)(kiln_te *te, const void *context, const kiln_expr *i);
typedef struct kiln_te_reduction {
    const kiln_shape *shape; /* of the operand; NULL: input 0's */
    uint32_t mask;           /* dimensions that are reduced */
    kiln_dtype dtype;        /* of the result; NONE: kiln_te_wide */
    kiln_combiner combiner;
    kiln_te_operand operand; /* NULL: input 0 */
    const void *context;
} kiln_te_reduction;
/* A temp in which the dimensions of `mask` are 1. */
typedef struct kiln_te_reduced {
    kiln_buffer buffer;
    uint32_t mask;
} kiln_te_reduced;
kiln_te_reduced kiln_te_reduce(kiln_te *te, const char *suffix, kiln_te_reduction reduction);
/* The same into output 0, whose reduced dimensions are 1 with `keep` and dropped without. At least
 * one dimension is reduced. */
void kiln_te_reduce_output(kiln_te *te, kiln_te_reduction reduction, bool keep);
/* Its element for element `i` of the operand: reduced dimensions read index 0. */
kiln_expr kiln_te_reduced_at(kiln_te *te, const kiln_te_reduced *reduced, const kiln_expr *i);
/* Number of elements that are reduced to one. */
double kiln_shape_count_of(const kiln_shape *shape, uint32_t mask);
/* The elements along one dimension of input 0 from which a result element is interpolated. */
#define KILN_TAPS_MAX 32
typedef struct kiln_taps {
    uint32_t count;
    kiln_expr index[KILN_TAPS_MAX], weight[KILN_TAPS_MAX]; /* weight 0: 1 */
} kiln_taps;
/* Sum over the taps of dimensions d.. ; `index` fixes those before d. */
kiln_expr kiln_te_sum_taps(kiln_te *te, const kiln_taps *t, uint32_t d, uint32_t rank,
                           kiln_expr *index);
/* Keys' cubic convolution with coefficient `a` at distance `t` >= 0: the piece below 1 (`inner`),
 * or that from 1 to 2. */
kiln_expr kiln_te_cubic_weight(kiln_te *te, double a, kiln_expr t, bool inner);
/* A constant of the dtype of `like`. */
kiln_expr kiln_te_const(kiln_te *te, kiln_expr like, double value);

/* Shorthands of expressions. */
static inline kiln_expr kiln_unary(kiln_te *te, kiln_expr_op op, kiln_expr a) {
    return kiln_expr_unary(te->p, op, a);
}
static inline kiln_expr kiln_binary(kiln_te *te, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(te->p, op, a, b);
}
#define X(name, op)                                                              \
    static inline kiln_expr kiln_##name(kiln_te *te, kiln_expr a, kiln_expr b) { \
        return kiln_expr_binary(te->p, KILN_EXPR_##op, a, b);                    \
    }
X(add, ADD)
X(sub, SUB)
X(mul, MUL)
X(div, DIV)
X(min, MIN)
X(max, MAX)
X(and, AND)
X(less, LT)
X(less_equal, LE)
X(equal, EQ)
#undef X
static inline kiln_expr kiln_cast(kiln_te *te, kiln_dtype dtype, kiln_expr a) {
    return kiln_expr_cast(te->p, dtype, a);
}
static inline kiln_expr kiln_select(kiln_te *te, kiln_expr c, kiln_expr a, kiln_expr b) {
    return kiln_expr_select(te->p, c, a, b);
}
static inline kiln_expr kiln_index(kiln_te *te, int64_t value) {
    return kiln_expr_index(te->p, value);
}
/* i * scale + offset, in index arithmetic. */
kiln_expr kiln_index_affine(kiln_te *te, kiln_expr i, int64_t scale, int64_t offset);
/* i / by rounded down, and the rest. */
kiln_expr kiln_index_floordiv(kiln_te *te, kiln_expr i, int64_t by);
kiln_expr kiln_index_floormod(kiln_te *te, kiln_expr i, int64_t by);
/* low <= i < high. */
kiln_expr kiln_index_inside(kiln_te *te, kiln_expr i, int64_t low, int64_t high);
/* i, or the nearest index of a dimension of `extent`. */
kiln_expr kiln_index_clamp(kiln_te *te, kiln_expr i, int64_t extent);
/* An integer element as an index into a dimension of `extent`: negatives count from the end, and
 * values out of range are clamped, so that no data makes a kernel read outside. */
kiln_expr kiln_index_from(kiln_te *te, kiln_expr value, int64_t extent);

/* ---- windows (conv, pooling) ----------------------------------------------------------------- */
typedef struct kiln_sliding_window {
    uint32_t rank; /* spatial dimensions: those after the first two */
    int64_t in[KILN_RANK_MAX], out[KILN_RANK_MAX], kernel[KILN_RANK_MAX];
    int64_t stride[KILN_RANK_MAX], dilation[KILN_RANK_MAX], pad_low[KILN_RANK_MAX],
        pad_high[KILN_RANK_MAX];
    bool padded; /* any pad or any window that ends beyond the input */
} kiln_sliding_window;
/* From the attributes; `kernel` (OIHW or NULL) overrides kernel_shape. */
KILN_MUST_USE kiln_status kiln_sliding_window_resolve(const kiln_node_info *node,
                                                      const kiln_shape *input,
                                                      const kiln_shape *kernel,
                                                      kiln_sliding_window *out_window);
/* A temp that holds input 0 with its border filled with `fill` (of input 0's dtype) as far as the
 * windows reach; 0 when nothing is padded. */
kiln_buffer kiln_te_pad_window(kiln_te *te, const kiln_sliding_window *window, kiln_expr fill);
/* Element of that temp, or of input 0 when there is none; compute dtype. */
kiln_expr kiln_te_read_window(kiln_te *te, kiln_buffer padded, const kiln_expr *index);

/* ---- sums of products of bytes (op_bytes.c) -------------------------------------------------- */
/* Sums over (x - zero) * w with constant signed bytes w are split into a sum of products of bytes,
 * for which processors have instructions, and a term without x:
 *
 *     sum (x - zero) * w  =  sum x * w  -  zero * sum w
 *
 * Exact, as integers wrap. Inputs: 0 is x, 1 is w, 2 the zero point. */
typedef struct kiln_te_bytes {
    bool applies;           /* false: the operator is not split */
    kiln_expr zero;         /* an i32; 0: none, and nothing is subtracted */
    const int *dim_of;      /* [rank of w] */
    kiln_buffer of_weights; /* sum w, times the zero point if that is known */
} kiln_te_bytes;
/* Also sums up w, where that is needed. `dim_of`: per dimension of w the dimension of the output
 * that has the same index; -1: it is summed up. */
kiln_te_bytes kiln_te_bytes_begin(kiln_te *te, const int *dim_of);
/* Output 0 = sums - zero * (sum of w). */
void kiln_te_bytes_finish(kiln_te *te, const kiln_te_bytes *bytes, kiln_buffer sums);

/* ---- order (op_sort.c) ----------------------------------------------------------------------- */
/* The first `wanted` elements along a dimension in order; equal elements keep their order. */
typedef struct kiln_te_order {
    kiln_shape shape;
    uint32_t axis;
    int64_t wanted;
    bool largest;
    kiln_buffer keys; /* what is compared, of `shape`; 0: input 0 */
} kiln_te_order;
/* Cost of a bisection step, in comparisons on all lanes. */
#define KILN_BISECTION_STEP 16
/* Comparisons for each element of a dimension, which has some, if runs are merged. */
int64_t kiln_te_order_steps(const kiln_te_order *order);
/* A temp of their positions. The dimension has more than one element, and `wanted` is not 0. */
kiln_buffer kiln_te_order_merge(kiln_te *te, const kiln_te_order *order);

/* Dimensions that softmax and related operators combine: one, or with `flatten` all from `axis`
 * on. */
uint32_t kiln_te_softmax_mask(const kiln_te *te);
/* Checks that input `input` of a convolution, if given, holds one number per output channel. */
KILN_MUST_USE kiln_status kiln_conv_check_bias(const kiln_infer *infer, uint32_t input,
                                               int64_t channels);

/* ---- functions named in ops.def
 * ---------------------------------------------------------------------- */
#define X(id, name, least, most, results, dtypes, attrs, rule, te, element) \
    KILN_MUST_USE kiln_status kiln_rule_##rule(kiln_infer *infer);          \
    void kiln_te_##te(kiln_te *context);                                    \
    kiln_expr kiln_element_##element(kiln_te *context, const kiln_expr *x);
#include "compiler-core/graph/ops.def"
#undef X

#endif
