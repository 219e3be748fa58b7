/* Scattering, computed per output element: a block computes each element of its output once, so
 * every output element searches the updates for those that name it. Indices out of range name no
 * element.
 *
 * Each element compares all updates. To find the last of many, the updates are sorted by the
 * element that they name, and each element finds its own by bisection: (n + m log m) log m steps.
 * Updates are combined one after the other, as floats round; their number for an element depends on
 * data, and no block reduces over such a range, so all of them are compared there. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

typedef struct reduction_row {
    const char *name;
    kiln_combiner combiner;
} reduction_row;

/* "none": the last update wins: the maximum of the positions. */
static const reduction_row reduction_table[] = {
    {"none", KILN_COMBINE_NONE}, {"add", KILN_COMBINE_SUM}, {"mul", KILN_COMBINE_PROD},
    {"max", KILN_COMBINE_MAX},   {"min", KILN_COMBINE_MIN},
};

static const reduction_row *find_reduction(const kiln_node_info *node) {
    kiln_str name = kiln_node_text(node, "reduction");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(reduction_table); i++)
        if (kiln_str_is(name, reduction_table[i].name)) return &reduction_table[i];
    return NULL;
}

static kiln_status start(kiln_infer *infer) {
    const kiln_value_info *data = kiln_node_input(infer->graph, infer->node, 0),
                          *index = kiln_node_input(infer->graph, infer->node, 1),
                          *update = kiln_node_input(infer->graph, infer->node, 2);
    kiln_str reduction = kiln_node_text(infer->node, "reduction");
    infer->dtype[0] = data->dtype;
    infer->shape[0] = data->shape;
    kiln_dtype_kind kind = kiln_dtype_kind_of(index->dtype);
    if (kind != KILN_KIND_INT && kind != KILN_KIND_UINT)
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold integers");
    if (update->dtype != data->dtype)
        return KILN_ERROR(INVALID_ARGUMENT, "inputs 0 and 2 differ in type");
    const reduction_row *row = find_reduction(infer->node);
    if (!row)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute reduction: \"%.*s\" is not known",
                          KILN_STR_ARG(reduction));
    return row->combiner == KILN_COMBINE_NONE || data->dtype != KILN_BOOL
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "attribute reduction: %s of truth values", row->name);
}

/* Resolves an index: negative ones count from the end. */
static kiln_expr meant_index(kiln_te *te, kiln_expr value, int64_t extent) {
    kiln_expr i = kiln_expr_cast(te->p, KILN_INDEX_DTYPE, value);
    return kiln_select(te, kiln_less(te, i, kiln_index(te, 0)), kiln_index_affine(te, i, 1, extent),
                       i);
}

/* Measured by the default schedules of 4,000 f32 updates of as many elements with AVX-512: 0.1 ns a
 * candidate, 0.8 ns a row, 4 ns a step of a bisection, which counts as KILN_BISECTION_STEP. */
#define ASK_ELEMENT 0.4
#define ASK_ROW 3

/* One operator's updates. */
typedef struct scatter {
    kiln_te_order order; /* of the updates by named element; `wanted`: candidates of one */
    double ask;          /* time of testing one candidate, in comparisons on all lanes */
    uint32_t named_rank; /* the number of the data's first dimensions that indices name */
    /* The number of the element that update `r` names along `i`'s line, or a number of no
     * element. */
    kiln_expr (*target)(kiln_te *te, const kiln_expr *i, kiln_expr r);
    kiln_expr (*number)(kiln_te *te, const kiln_expr *i); /* of element `i` */
    /* Whether update number `r` lands on element `i`. */
    kiln_expr (*lands)(kiln_te *te, const kiln_expr *i, kiln_expr r);
    /* That update's value at element `i`. */
    kiln_expr (*value)(kiln_te *te, const kiln_expr *i, kiln_expr r);
} scatter;

/* Number of the last update of each element, or -1, by testing all. */
static kiln_buffer ask_all(kiln_te *te, const scatter *s) {
    kiln_te_block find = kiln_te_temp_begin(te, "last", KILN_INDEX_DTYPE, kiln_te_in_shape(te, 0));
    kiln_expr r = kiln_te_block_axis(te, &find, "r", s->order.wanted, true);
    kiln_expr none = kiln_index(te, -1);
    kiln_te_combine(te, &find, KILN_COMBINE_MAX, kiln_select(te, s->lands(te, find.i, r), r, none));
    return find.to;
}

/* The update at `place` in the order of its line; the index `line` gets it. */
static kiln_expr pick(kiln_te *te, const kiln_te_order *order, kiln_buffer position,
                      kiln_expr *line, kiln_expr place) {
    line[order->axis] = kiln_index_clamp(te, place, order->wanted);
    return line[order->axis] = kiln_index_clamp(te, kiln_te_at(te, position, line), order->wanted);
}

/* Number of the last update of each element of `named`, or -1, by bisection. */
static kiln_buffer search(kiln_te *te, const scatter *s, const kiln_shape *named) {
    kiln_te_order order = s->order;
    kiln_te_block block = kiln_te_temp_begin(te, "target", KILN_INDEX_DTYPE, &order.shape);
    kiln_te_put(te, &block, s->target(te, block.i, block.i[order.axis]));
    order.keys = block.to;
    kiln_buffer position = kiln_te_order_merge(te, &order);
    block = kiln_te_temp_begin(te, "last", KILN_INDEX_DTYPE, named);
    kiln_expr own = s->number(te, block.i), taken = kiln_index(te, 0), line[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < order.shape.rank; d++)
        if (d != order.axis) line[d] = kiln_index_clamp(te, block.i[d], order.shape.dim[d]);
    /* Beyond the end, `pick` reads the last update. */
    int64_t step = 1;
    while (2 * step <= order.wanted) step *= 2;
    for (; step > 0; step /= 2) {
        kiln_expr more = kiln_index_affine(te, taken, 1, step);
        pick(te, &order, position, line, kiln_index_affine(te, more, 1, -1));
        kiln_expr fits = kiln_less_equal(te, kiln_te_at(te, order.keys, line), own);
        taken = kiln_select(te, fits, more, taken);
    }
    kiln_expr last = pick(te, &order, position, line, kiln_index_affine(te, taken, 1, -1));
    kiln_te_put(te, &block, kiln_select(te, s->lands(te, block.i, last), last, kiln_index(te, -1)));
    return block.to;
}

/* Whether bisection takes fewer steps. */
static bool is_searched_sooner(const kiln_te *te, const scatter *s, const kiln_shape *named) {
    const int64_t count = s->order.wanted;
    if (count < 2) return false;
    double bits = 1, of_order = (double)kiln_te_order_steps(&s->order);
    for (int64_t rest = count; rest > 1; rest /= 2) bits++;
    return of_order * (double)kiln_shape_count(&s->order.shape) +
               bits * KILN_BISECTION_STEP * (double)kiln_shape_count(named) <
           s->ask * (double)count * (double)kiln_shape_count(kiln_te_in_shape(te, 0));
}

/* The last update of each element, or the element itself. */
static void replace(kiln_te *te, const scatter *s) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_shape named = *shape;
    named.rank = s->named_rank;
    kiln_buffer last = is_searched_sooner(te, s, &named) ? search(te, s, &named) : ask_all(te, s);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr at = kiln_te_at(te, last, block.i), zero = kiln_index(te, 0);
    kiln_expr update = s->value(te, block.i, kiln_max(te, at, zero));
    kiln_te_store(
        te, &block, te->output[0], block.i, block.rank,
        kiln_select(te, kiln_less(te, at, zero), kiln_te_load_raw(te, 0, block.i), update));
}

/* All updates of an element combined, then combined with the element. */
static void combine(kiln_te *te, const scatter *s, kiln_combiner combiner) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_buffer all = kiln_te_temp(te, "all", wide, shape);
    kiln_te_block find = kiln_te_block_begin(te, "all", shape), block;
    kiln_expr r = kiln_te_block_axis(te, &find, "r", s->order.wanted, true);
    kiln_expr update = kiln_expr_cast(te->p, wide, s->value(te, find.i, r));
    kiln_te_accumulate(te, &find, all, find.i, shape->rank, combiner,
                       kiln_select(te, s->lands(te, find.i, r), update,
                                   kiln_expr_identity(te->p, combiner, wide)));
    block = kiln_te_block_begin(te, "", shape);
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_expr_combine(te->p, combiner, kiln_te_load(te, 0, block.i),
                                    kiln_te_read(te, all, block.i, block.rank)));
}

static void run(kiln_te *te, const scatter *s) {
    kiln_combiner combiner = find_reduction(te->node)->combiner;
    if (combiner != KILN_COMBINE_NONE && s->order.wanted > 0) {
        combine(te, s, combiner);
    } else if (s->order.wanted > 0) {
        replace(te, s);
    } else {
        kiln_te_block block = kiln_te_block_begin(te, "", kiln_te_in_shape(te, 0));
        kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                      kiln_te_load_raw(te, 0, block.i));
    }
}

/* ---- by one dimension ------------------------------------------------------------------------ */

kiln_status kiln_rule_scatter_elements(kiln_infer *infer) {
    const kiln_value_info *index = kiln_node_input(infer->graph, infer->node, 1),
                          *update = kiln_node_input(infer->graph, infer->node, 2);
    uint32_t axis = 0;
    kiln_status st = start(infer);
    const kiln_shape *data = &infer->shape[0];
    if (!st) st = kiln_axis_resolve(kiln_node_int(infer->node, "axis"), data->rank, "axis", &axis);
    if (st) return st;
    if (index->shape.rank != data->rank || !kiln_shape_equal(&index->shape, &update->shape))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "inputs 1 and 2 must have one shape, of input 0's rank");
    for (uint32_t d = 0; d < data->rank; d++)
        if (d != axis && index->shape.dim[d] > data->dim[d])
            return KILN_ERROR(INVALID_ARGUMENT, "input 1 is larger than input 0 in dimension %u",
                              d);
    return KILN_OK;
}

static uint32_t axis_of(const kiln_te *te) {
    int64_t axis = kiln_node_int(te->node, "axis");
    return (uint32_t)(axis < 0 ? axis + kiln_te_in_shape(te, 0)->rank : axis);
}

/* Element `i` with its position along the axis replaced. */
static void element_at(kiln_te *te, const kiln_expr *i, kiln_expr r, kiln_expr *out_index) {
    uint32_t rank = kiln_te_in_shape(te, 0)->rank;
    for (uint32_t d = 0; d < rank; d++) out_index[d] = i[d];
    out_index[axis_of(te)] = r;
}

static kiln_expr element_target(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    kiln_expr at[KILN_RANK_MAX] = {0};
    element_at(te, i, r, at);
    return meant_index(te, kiln_te_load(te, 1, at), kiln_te_in_shape(te, 0)->dim[axis_of(te)]);
}

static kiln_expr element_number(kiln_te *te, const kiln_expr *i) { return i[axis_of(te)]; }

static kiln_expr element_lands(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    const kiln_shape *data = kiln_te_in_shape(te, 0), *index = kiln_te_in_shape(te, 1);
    kiln_expr no = kiln_expr_zero(te->p, KILN_BOOL);
    kiln_expr lands = kiln_equal(te, element_target(te, i, r), element_number(te, i));
    for (uint32_t d = 0; d < data->rank; d++)
        if (d != axis_of(te) && index->dim[d] < data->dim[d])
            lands = kiln_select(te, kiln_less(te, i[d], kiln_index(te, index->dim[d])), lands, no);
    return lands;
}

static kiln_expr element_value(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    const kiln_shape *update = kiln_te_in_shape(te, 2);
    kiln_expr at[KILN_RANK_MAX] = {0};
    element_at(te, i, r, at);
    for (uint32_t d = 0; d < update->rank; d++)
        at[d] = kiln_min(te, at[d], kiln_index(te, update->dim[d] - 1));
    return kiln_te_load_raw(te, 2, at);
}

void kiln_te_scatter_elements(kiln_te *te) {
    const kiln_shape *index = kiln_te_in_shape(te, 1);
    const uint32_t axis = axis_of(te);
    scatter s = {.order = {.shape = *index,
                           .axis = axis,
                           .wanted = kiln_shape_count(index) ? index->dim[axis] : 0},
                 .ask = ASK_ELEMENT,
                 .named_rank = index->rank,
                 .target = element_target,
                 .number = element_number,
                 .lands = element_lands,
                 .value = element_value};
    run(te, &s);
}

/* ---- by rows of indices ---------------------------------------------------------------------- */

/* indices: [count][depth], updates: [count][the data's dimensions from `depth` on]. */
kiln_status kiln_rule_scatter_nd(kiln_infer *infer) {
    const kiln_value_info *index = kiln_node_input(infer->graph, infer->node, 1),
                          *update = kiln_node_input(infer->graph, infer->node, 2);
    kiln_status st = start(infer);
    if (st) return st;
    const kiln_shape *data = &infer->shape[0];
    if (index->shape.rank != 2 || index->shape.dim[1] < 1 || index->shape.dim[1] > data->rank)
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold rows of at most %u indices",
                          data->rank);
    uint32_t depth = (uint32_t)index->shape.dim[1];
    bool fits =
        update->shape.rank == 1 + data->rank - depth && update->shape.dim[0] == index->shape.dim[0];
    for (uint32_t d = depth; fits && d < data->rank; d++)
        fits = update->shape.dim[d - depth + 1] == data->dim[d];
    return fits ? KILN_OK : KILN_ERROR(INVALID_ARGUMENT, "input 2 does not fit inputs 0 and 1");
}

/* Index `d` of row `r`. */
static kiln_expr row_index(kiln_te *te, kiln_expr r, uint32_t d) {
    kiln_expr at[2] = {r, kiln_index(te, d)};
    return meant_index(te, kiln_te_load(te, 1, at), kiln_te_in_shape(te, 0)->dim[d]);
}

static kiln_expr row_target(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    const kiln_shape *data = kiln_te_in_shape(te, 0);
    kiln_expr number = 0, inside = 0;
    (void)i;
    for (uint32_t d = 0; d < kiln_te_in_shape(te, 1)->dim[1]; d++) {
        kiln_expr index = row_index(te, r, d), one = kiln_index_inside(te, index, 0, data->dim[d]);
        index = kiln_index_clamp(te, index, data->dim[d]);
        inside = d ? kiln_and(te, inside, one) : one;
        number = d ? kiln_add(te, kiln_index_affine(te, number, data->dim[d], 0), index) : index;
    }
    return kiln_select(te, inside, number, kiln_index(te, -1));
}

static kiln_expr row_number(kiln_te *te, const kiln_expr *i) {
    const kiln_shape *data = kiln_te_in_shape(te, 0);
    kiln_expr number = i[0];
    for (uint32_t d = 1; d < kiln_te_in_shape(te, 1)->dim[1]; d++)
        number = kiln_add(te, kiln_index_affine(te, number, data->dim[d], 0), i[d]);
    return number;
}

static kiln_expr row_lands(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    kiln_expr lands = 0;
    for (uint32_t d = 0; d < kiln_te_in_shape(te, 1)->dim[1]; d++) {
        kiln_expr same = kiln_equal(te, row_index(te, r, d), i[d]);
        lands = lands ? kiln_and(te, lands, same) : same;
    }
    return lands;
}

static kiln_expr row_value(kiln_te *te, const kiln_expr *i, kiln_expr r) {
    const kiln_shape *data = kiln_te_in_shape(te, 0);
    uint32_t depth = (uint32_t)kiln_te_in_shape(te, 1)->dim[1];
    kiln_expr at[KILN_RANK_MAX] = {r};
    for (uint32_t d = depth; d < data->rank; d++) at[d - depth + 1] = i[d];
    return kiln_te_load_raw(te, 2, at);
}

void kiln_te_scatter_nd(kiln_te *te) {
    const kiln_shape *index = kiln_te_in_shape(te, 1);
    const int64_t count = index->dim[0];
    scatter s = {.order = {.shape = {.rank = 1, .dim = {count}}, .wanted = count},
                 .ask = ASK_ROW,
                 .named_rank = (uint32_t)index->dim[1],
                 .target = row_target,
                 .number = row_number,
                 .lands = row_lands,
                 .value = row_value};
    run(te, &s);
}
