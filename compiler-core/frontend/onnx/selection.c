/* Operators whose number of results depends on data. Each is a loop that runs once for each result
 * and stacks it: the module reports the number of rows, at most the number for which the graph has
 * room (docs/decisions/0100-results-of-unknown-number.md). */
#include <math.h>
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

static kiln_value binary(kiln_composer *c, kiln_op op, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, op, a, b);
}

static kiln_value reduced(kiln_composer *c, kiln_op op, kiln_value x, int64_t axis) {
    const kiln_attr attr[] = {kiln_attr_ints("axes", &axis, 1), kiln_attr_int("keepdims", 0)};
    kiln_value y = 0;
    kiln_compose_node(c, op, &x, 1, attr, 2, &y, 1);
    return y;
}

/* Numbers 0 to count - 1 in that shape. */
static kiln_value numbers(kiln_composer *c, int64_t count, const kiln_shape *shape) {
    kiln_compose_fail(c, kiln_import_take_memory(c->im, (size_t)count * sizeof(int64_t)));
    if (c->st) return 0;
    kiln_tensor tensor = kiln_tensor_create(c->im->graph->arena, KILN_I64, shape);
    for (int64_t i = 0; i < count; i++) ((int64_t *)tensor.data)[i] = i;
    return kiln_compose_constant(c, &tensor);
}

static kiln_value integer(kiln_composer *c, int64_t value) {
    kiln_tensor tensor = kiln_tensor_create(c->im->graph->arena, KILN_I64, &(kiln_shape){0});
    *(int64_t *)tensor.data = value;
    return kiln_compose_constant(c, &tensor);
}

/* ---- selection of rows ---------------------------------------------------------------------- */

/* The order of a vector of truth values with the true ones first, in their order. */
static kiln_value order_of(kiln_composer *c, kiln_value chosen, bool largest) {
    if (c->st) return 0;
    const int64_t count = kiln_compose_shape(c, chosen)->dim[0];
    const kiln_attr attr[] = {kiln_attr_ints("k", &count, 1), kiln_attr_int("axis", 0),
                              kiln_attr_int("largest", largest)};
    kiln_value output[2] = {0};
    kiln_compose_node(c, KILN_OP_TOP_K, &chosen, 1, attr, 3, output, 2);
    return output[1];
}

/* Keeps the first `count` rows of each value, in a loop. */
static void keep_rows(kiln_composer *c, kiln_value *value, uint32_t values, kiln_value count) {
    kiln_value stack[4] = {0};
    if (c->st) return;
    kiln_compose_loop loop = {.trips = kiln_compose_shape(c, value[0])->dim[0],
                              .count = count,
                              .row_count = values,
                              .stack_count = values,
                              .row = value,
                              .stack = stack};
    kiln_compose_loop_begin(c, &loop);
    for (uint32_t i = 0; i < values; i++)
        stack[i] = kiln_compose_unary(c, KILN_OP_IDENTITY, value[i]);
    kiln_compose_loop_end(c, &loop);
    memcpy(value, stack, values * sizeof *value);
}

/* The number of true elements in a vector of truth values. */
static kiln_value count_of(kiln_composer *c, kiln_value chosen) {
    return reduced(c, KILN_OP_REDUCE_SUM, kiln_compose_cast(c, chosen, KILN_I64), 0);
}

/* ---- Compress -------------------------------------------------------------------------------- */

static kiln_status keep_known(kiln_importer *im, kiln_value x, uint32_t axis,
                              const kiln_tensor *condition) {
    kiln_composer c = {.im = im};
    const int64_t length = kiln_shape_count(&condition->shape);
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++) count += ((const uint8_t *)condition->data)[i] != 0;
    kiln_tensor index = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){1, {count}});
    for (int64_t i = 0, at = 0; i < length; i++)
        if (((const uint8_t *)condition->data)[i]) ((int64_t *)index.data)[at++] = i;
    kiln_compose_define(&c, 0, kiln_compose_gather(&c, x, kiln_compose_constant(&c, &index), axis));
    return c.st;
}

/* Elements behind the condition's end are left out. */
kiln_status kiln_import_compress(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0), condition = kiln_import_input(im, 1);
    if (!x || !condition) return KILN_ERROR(INVALID_ARGUMENT, "it needs data and a condition");
    const kiln_shape *chosen = kiln_compose_shape(&c, condition);
    if (!kiln_import_attribute(im, "axis"))
        x = kiln_compose_reshape(&c, x,
                                 &(kiln_shape){1, {kiln_shape_count(kiln_compose_shape(&c, x))}});
    if (c.st) return c.st;
    const kiln_shape shape = *kiln_compose_shape(&c, x);
    int64_t axis = kiln_import_int(im, "axis", 0);
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis >= shape.rank || chosen->rank != 1 || chosen->dim[0] > shape.dim[axis] ||
        kiln_compose_dtype(&c, condition) != KILN_BOOL)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "its condition is no vector of truth values for its axis");
    const int64_t length = chosen->dim[0];
    const bool is_known = kiln_value_awaits(im->graph, condition, &im->evaluation) == 0;
    if (axis > 0 || is_known || length == 0) {
        kiln_tensor known;
        kiln_status st = kiln_import_demand(im, 1, &known);
        return st ? kiln_status_note(st, "only rows can be chosen at run time")
                  : keep_known(im, x, (uint32_t)axis, &known);
    }
    kiln_value kept = kiln_compose_gather(
        &c, x, order_of(&c, kiln_compose_cast(&c, condition, KILN_I32), true), 0);
    keep_rows(&c, &kept, 1, count_of(&c, condition));
    kiln_compose_define(&c, 0, kept);
    return c.st;
}

/* ---- NonZero --------------------------------------------------------------------------------- */

/* Its results are columns, whose number cannot depend on data, so they are made as rows. */
kiln_status kiln_import_non_zero(kiln_importer *im) {
    kiln_tensor x;
    kiln_status st = kiln_import_demand(im, 0, &x);
    if (st) return st;
    const int64_t count = kiln_shape_count(&x.shape);
    kiln_shape shape = {2, {x.shape.rank, 0}};
    for (int64_t i = 0; i < count; i++)
        shape.dim[1] += kiln_dtype_load_f64(x.dtype, x.data, (size_t)i) != 0;
    st = kiln_import_take_memory(im, (size_t)(shape.dim[0] * shape.dim[1]) * sizeof(int64_t));
    if (st) return st;
    kiln_tensor place = kiln_tensor_create(im->graph->arena, KILN_I64, &shape);
    for (int64_t i = 0, at = 0; i < count; i++) {
        if (kiln_dtype_load_f64(x.dtype, x.data, (size_t)i) == 0) continue;
        int64_t rest = i;
        for (uint32_t d = x.shape.rank; d-- > 0; rest /= x.shape.dim[d])
            ((int64_t *)place.data)[d * shape.dim[1] + at] = rest % x.shape.dim[d];
        at++;
    }
    kiln_import_define_constant(im, &place);
    return KILN_OK;
}

/* ---- Unique ---------------------------------------------------------------------------------- */

/* Sorted elements, and the runs of equal ones. All are vectors of `count`. */
typedef struct runs {
    int64_t count;
    kiln_value place;   /* place of each element in the input */
    kiln_value element; /* in order */
    kiln_value begins;  /* whether it differs from the previous one */
    kiln_value number;  /* number of its run, from 0 */
} runs;

static runs find_runs(kiln_composer *c, kiln_value x, int64_t count) {
    runs r = {.count = count, .place = order_of(c, x, false)};
    r.element = kiln_compose_gather(c, x, r.place, 0);
    kiln_value begins = kiln_compose_filled(c, KILN_BOOL, &(kiln_shape){1, {1}}, 1);
    if (count > 1) {
        const kiln_value other =
            binary(c, KILN_OP_EQUAL, kiln_compose_slice(c, r.element, 0, 1, count),
                   kiln_compose_slice(c, r.element, 0, 0, count - 1));
        begins = kiln_compose_concat(
            c, (kiln_value[]){begins, kiln_compose_unary(c, KILN_OP_NOT, other)}, 2, 0);
    }
    r.begins = begins;
    r.number = kiln_compose_ints(c, KILN_OP_CUM_SUM, kiln_compose_cast(c, begins, KILN_I64), "axis",
                                 &(int64_t){0}, 1);
    r.number = binary(c, KILN_OP_SUB, r.number, integer(c, 1));
    return r;
}

/* Vectors with one item per run: the items at the beginnings of runs are scattered to the run's
 * number, others are dropped. */
static kiln_value by_run(kiln_composer *c, const runs *r, kiln_value item, kiln_value otherwise) {
    const kiln_value nowhere = integer(c, r->count);
    const kiln_value operand[] = {otherwise, kiln_compose_where(c, r->begins, r->number, nowhere),
                                  item};
    kiln_value result = 0;
    kiln_compose_node(c, KILN_OP_SCATTER_ELEMENTS, operand, 3, NULL, 0, &result, 1);
    return result;
}

/* index: the places of elements in the input, for each run; sizes: of runs. */
static void define_unique(kiln_composer *c, const runs *r, kiln_value x, bool sorted) {
    const kiln_shape shape = {1, {r->count}};
    const kiln_value end = kiln_compose_filled(c, KILN_I64, &shape, (double)r->count),
                     all = numbers(c, r->count, &shape), total = count_of(c, r->begins);
    kiln_value index = by_run(c, r, r->place, end), start = by_run(c, r, all, end);
    kiln_value next = kiln_compose_filled(c, KILN_I64, &(kiln_shape){1, {1}}, (double)r->count);
    if (r->count > 1)
        next = kiln_compose_concat(
            c, (kiln_value[]){kiln_compose_slice(c, start, 0, 1, r->count), next}, 2, 0);
    kiln_value size = binary(c, KILN_OP_SUB, next, start), number = r->number;
    if (!sorted) { /* runs in the order of their first places; empty ones come last */
        const kiln_value order = order_of(c, index, false);
        const kiln_value rank[] = {all, order, all};
        kiln_value of_run = 0;
        kiln_compose_node(c, KILN_OP_SCATTER_ELEMENTS, rank, 3, NULL, 0, &of_run, 1);
        index = kiln_compose_gather(c, index, order, 0);
        size = kiln_compose_gather(c, size, order, 0);
        number = kiln_compose_gather(c, of_run, number, 0);
    }
    const kiln_value back[] = {all, r->place, number};
    kiln_value inverse = 0;
    kiln_compose_node(c, KILN_OP_SCATTER_ELEMENTS, back, 3, NULL, 0, &inverse, 1);
    const kiln_value last = integer(c, r->count - 1);
    kiln_value kept[] = {kiln_compose_gather(c, x, binary(c, KILN_OP_MIN, index, last), 0), index,
                         size};
    keep_rows(c, kept, 3, total);
    kiln_compose_define(c, 0, kept[0]);
    kiln_compose_define(c, 1, kept[1]);
    kiln_compose_define(c, 2, inverse);
    kiln_compose_define(c, 3, kept[2]);
}

/* For each row the number of rows that sort before it: equal rows have equal numbers, so that the
 * numbers can replace the rows. Rows are compared at their first difference. */
static kiln_value row_ranks(kiln_composer *c, kiln_value rows) {
    const kiln_value own = kiln_compose_unsqueeze(c, rows, 1),
                     other = kiln_compose_unsqueeze(c, rows, 0);
    const kiln_attr attr[] = {kiln_attr_int("axis", 2), kiln_attr_int("keepdims", 1)};
    const kiln_value differs = kiln_compose_cast(
        c, kiln_compose_unary(c, KILN_OP_NOT, binary(c, KILN_OP_EQUAL, own, other)), KILN_I32);
    const kiln_value less = kiln_compose_cast(c, binary(c, KILN_OP_LESS, other, own), KILN_I64);
    kiln_value before[2] = {less, 0}, count = 0;
    kiln_compose_node(c, KILN_OP_ARG_MAX, &differs, 1, attr, 2, &before[1], 1);
    kiln_compose_node(c, KILN_OP_GATHER_ELEMENTS, before, 2, attr, 1, &count, 1);
    return reduced(c, KILN_OP_REDUCE_SUM, reduced(c, KILN_OP_REDUCE_SUM, count, 2), 1);
}

kiln_status kiln_import_unique(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    const kiln_shape shape = *kiln_compose_shape(&c, x);
    const bool by_axis = kiln_import_attribute(im, "axis") != NULL;
    const int64_t axis = kiln_import_int(im, "axis", 0), size = kiln_shape_count(&shape);
    if (by_axis && (axis < -(int64_t)shape.rank || axis >= shape.rank))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axis: %lld is out of range",
                          (long long)axis);
    if (by_axis && axis != 0 && axis != -(int64_t)shape.rank)
        return KILN_ERROR(UNIMPLEMENTED,
                          "attribute axis: %lld, of which only the first is "
                          "supported",
                          (long long)axis);
    if (size == 0) return KILN_ERROR(UNIMPLEMENTED, "an empty input");
    const int64_t count = by_axis ? shape.dim[0] : size;
    kiln_value key = kiln_compose_reshape(&c, x, &(kiln_shape){1, {size}});
    if (size > count)
        key = row_ranks(&c, kiln_compose_reshape(&c, x, &(kiln_shape){2, {count, size / count}}));
    if (!by_axis) x = key;
    const runs r = find_runs(&c, key, count);
    define_unique(&c, &r, x, kiln_import_int(im, "sorted", 1) != 0);
    return c.st;
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

/* The classes of all batches are groups in sequence; each iteration takes a group's best box, and
 * continues with the next group that has boxes when none is left in this one. */
typedef struct suppression {
    int64_t batch, classes, boxes, most; /* most: boxes of a group */
    kiln_value side[4];                  /* low y, low x, high y, high x: [batch][boxes] */
    kiln_value area;                     /* likewise */
    kiln_value score;                    /* [groups][boxes], -infinity for dropped boxes */
    kiln_value next;                     /* [groups + 1]: the next group with boxes, after the
                                          * previous group */
    kiln_value limit;                    /* of the overlap of two boxes */
    kiln_value none, zero;               /* -infinity; 0 */
} suppression;

static kiln_value part(kiln_composer *c, kiln_value boxes, int64_t index) {
    static const int64_t last = 2;
    return kiln_compose_ints(c, KILN_OP_SQUEEZE, kiln_compose_slice(c, boxes, 2, index, index + 1),
                             "axes", &last, 1);
}

static void find_sides(kiln_composer *c, suppression *s, kiln_value boxes, bool by_center) {
    kiln_value given[4];
    for (uint32_t i = 0; i < 4; i++) given[i] = part(c, boxes, i);
    for (uint32_t i = 0; i < 2; i++) {
        if (by_center) { /* x, y, width, height */
            const kiln_value half =
                binary(c, KILN_OP_MUL, given[3 - i], kiln_compose_scalar(c, KILN_F32, 0.5));
            s->side[i] = binary(c, KILN_OP_SUB, given[1 - i], half);
            s->side[i + 2] = binary(c, KILN_OP_ADD, given[1 - i], half);
        } else { /* any two opposite corners */
            s->side[i] = binary(c, KILN_OP_MIN, given[i], given[i + 2]);
            s->side[i + 2] = binary(c, KILN_OP_MAX, given[i], given[i + 2]);
        }
    }
    s->area = binary(c, KILN_OP_MUL, binary(c, KILN_OP_SUB, s->side[2], s->side[0]),
                     binary(c, KILN_OP_SUB, s->side[3], s->side[1]));
}

/* next[g]: the first group from g on that has a box, or the number of groups. */
static void find_groups(kiln_composer *c, suppression *s) {
    const int64_t groups = s->batch * s->classes;
    const kiln_value best = reduced(c, KILN_OP_REDUCE_MAX, s->score, 1),
                     has = binary(c, KILN_OP_GREATER, best, s->none);
    const kiln_value number = numbers(c, groups, &(kiln_shape){1, {groups}}),
                     from = numbers(c, groups + 1, &(kiln_shape){2, {groups + 1, 1}});
    const kiln_value end = integer(c, groups);
    const kiln_value with_box = kiln_compose_where(c, has, number, end);
    const kiln_value behind = kiln_compose_where(c, binary(c, KILN_OP_GREATER_EQUAL, number, from),
                                                 kiln_compose_unsqueeze(c, with_box, 0), end);
    s->next = reduced(c, KILN_OP_REDUCE_MIN, behind, 1);
}

/* The boxes of one batch that overlap box `best` by more than the limit. */
static kiln_value overlaps(kiln_composer *c, const suppression *s, kiln_value batch,
                           kiln_value best) {
    kiln_value length[2];
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_value low = kiln_compose_gather(c, s->side[i], batch, 0),
                         high = kiln_compose_gather(c, s->side[i + 2], batch, 0);
        const kiln_value from = binary(c, KILN_OP_MAX, low, kiln_compose_gather(c, low, best, 0)),
                         to = binary(c, KILN_OP_MIN, high, kiln_compose_gather(c, high, best, 0));
        length[i] = binary(c, KILN_OP_MAX, binary(c, KILN_OP_SUB, to, from), s->zero);
    }
    const kiln_value area = kiln_compose_gather(c, s->area, batch, 0),
                     shared = binary(c, KILN_OP_MUL, length[0], length[1]);
    const kiln_value sum = binary(c, KILN_OP_ADD, area, kiln_compose_gather(c, area, best, 0)),
                     all = binary(c, KILN_OP_SUB, sum, shared);
    return binary(c, KILN_OP_AND, binary(c, KILN_OP_GREATER, shared, s->zero),
                  binary(c, KILN_OP_GREATER, binary(c, KILN_OP_DIV, shared, all), s->limit));
}

enum { STATE_GROUP, STATE_SCORES, STATE_TAKEN, STATES };

static void take_box(kiln_composer *c, const suppression *s, kiln_compose_loop *loop) {
    const kiln_value group = loop->carry[STATE_GROUP], score = loop->carry[STATE_SCORES],
                     count = integer(c, s->classes), one = integer(c, 1);
    const kiln_attr attr[] = {kiln_attr_int("axis", 0), kiln_attr_int("keepdims", 0)};
    kiln_value best = 0;
    kiln_compose_node(c, KILN_OP_ARG_MAX, &score, 1, attr, 2, &best, 1);
    const kiln_value batch = binary(c, KILN_OP_DIV, group, count);
    const kiln_value row[] = {kiln_compose_unsqueeze(c, batch, 0),
                              kiln_compose_unsqueeze(c, binary(c, KILN_OP_MOD, group, count), 0),
                              kiln_compose_unsqueeze(c, best, 0)};
    const kiln_value is_best =
        binary(c, KILN_OP_EQUAL, numbers(c, s->boxes, &(kiln_shape){1, {s->boxes}}), best);
    const kiln_value out = binary(c, KILN_OP_OR, is_best, overlaps(c, s, batch, best));
    const kiln_value left = kiln_compose_where(c, out, s->none, score);
    const kiln_value taken = binary(c, KILN_OP_ADD, loop->carry[STATE_TAKEN], one);
    const kiln_value is_done = binary(
        c, KILN_OP_OR, binary(c, KILN_OP_EQUAL, reduced(c, KILN_OP_REDUCE_MAX, left, 0), s->none),
        binary(c, KILN_OP_GREATER_EQUAL, taken, integer(c, s->most)));
    const kiln_value end = integer(c, s->batch * s->classes);
    const kiln_value then = kiln_compose_where(
        c, is_done, kiln_compose_gather(c, s->next, binary(c, KILN_OP_ADD, group, one), 0), group);
    loop->condition = binary(c, KILN_OP_LESS, then, end);
    const kiln_value there = binary(c, KILN_OP_MIN, then, binary(c, KILN_OP_SUB, end, one));
    loop->carry[STATE_GROUP] = there;
    loop->carry[STATE_SCORES] =
        kiln_compose_where(c, is_done, kiln_compose_gather(c, s->score, there, 0), left);
    loop->carry[STATE_TAKEN] = kiln_compose_where(c, is_done, integer(c, 0), taken);
    loop->stack[0] = kiln_compose_concat(c, row, 3, 0);
}

/* `trips`: room for so many rows; more are an error of the run. */
static kiln_value suppressed(kiln_composer *c, suppression *s, int64_t trips, int64_t most) {
    const kiln_value end = integer(c, s->batch * s->classes), one = integer(c, 1);
    const kiln_value first = kiln_compose_gather(c, s->next, integer(c, 0), 0);
    kiln_value stack = 0, carry[STATES];
    carry[STATE_GROUP] = binary(c, KILN_OP_MIN, first, binary(c, KILN_OP_SUB, end, one));
    carry[STATE_SCORES] = kiln_compose_gather(c, s->score, carry[STATE_GROUP], 0);
    carry[STATE_TAKEN] = integer(c, 0);
    kiln_compose_loop loop = {.trips = trips,
                              .count = integer(c, most),
                              .condition = binary(c, KILN_OP_LESS, first, end),
                              .carried = STATES,
                              .stack_count = 1,
                              .carry = carry,
                              .stack = &stack};
    kiln_compose_loop_begin(c, &loop);
    take_box(c, s, &loop);
    kiln_compose_loop_end(c, &loop);
    return stack;
}

/* Input `index` as a scalar f32, or `otherwise`. */
static kiln_value scalar_input(kiln_composer *c, uint32_t index, double otherwise) {
    const kiln_value value = kiln_import_input(c->im, index);
    if (!value) return kiln_compose_scalar(c, KILN_F32, otherwise);
    return kiln_compose_cast(c, kiln_compose_reshape(c, value, &(kiln_shape){0}), KILN_F32);
}

static kiln_status measure(kiln_importer *im, const kiln_composer *c, suppression *s) {
    const kiln_value boxes = kiln_import_input(im, 0), scores = kiln_import_input(im, 1);
    if (!boxes || !scores) return KILN_ERROR(INVALID_ARGUMENT, "it needs boxes and scores");
    const kiln_shape *b = kiln_compose_shape(c, boxes), *p = kiln_compose_shape(c, scores);
    if (b->rank != 3 || p->rank != 3 || b->dim[2] != 4 || b->dim[0] != p->dim[0] ||
        b->dim[1] != p->dim[2])
        return KILN_ERROR(INVALID_ARGUMENT, "its boxes must be [batch, boxes, 4] and its scores "
                                            "[batch, classes, boxes]");
    if (kiln_compose_dtype(c, boxes) != KILN_F32 || kiln_compose_dtype(c, scores) != KILN_F32)
        return KILN_ERROR(UNIMPLEMENTED, "boxes or scores that are no f32");
    *s = (suppression){.batch = p->dim[0], .classes = p->dim[1], .boxes = p->dim[2]};
    kiln_status st = kiln_import_input(im, 2) ? kiln_import_demand_int(im, 2, &s->most) : KILN_OK;
    s->most = KILN_MIN(KILN_MAX(s->most, 0), s->boxes);
    return kiln_status_note(st, "max_output_boxes_per_class");
}

kiln_status kiln_import_non_max_suppression(kiln_importer *im) {
    kiln_composer c = {.im = im};
    suppression s;
    int64_t most = 0;
    kiln_status st = measure(im, &c, &s);
    if (st) return st;
    if (__builtin_mul_overflow(s.batch * s.classes, s.most, &most) || most > INT32_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "more than %d boxes", INT32_MAX);
    const uint64_t given = im->options->loop_max;
    const int64_t trips = given && given < (uint64_t)most ? (int64_t)given : most;
    if (trips == 0) {
        kiln_tensor empty =
            kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){2, {0, 3}});
        kiln_import_define_constant(im, &empty);
        return KILN_OK;
    }
    const kiln_shape groups = {2, {s.batch * s.classes, s.boxes}};
    s.none = kiln_compose_scalar(&c, KILN_F32, (double)-INFINITY);
    s.zero = kiln_compose_scalar(&c, KILN_F32, 0);
    s.limit = scalar_input(&c, 3, 0);
    s.score = kiln_compose_reshape(&c, kiln_import_input(im, 1), &groups);
    s.score = kiln_compose_where(
        &c, binary(&c, KILN_OP_LESS, s.score, scalar_input(&c, 4, (double)-INFINITY)), s.none,
        s.score);
    find_sides(&c, &s, kiln_import_input(im, 0), kiln_import_int(im, "center_point_box", 0) != 0);
    find_groups(&c, &s);
    kiln_compose_define(&c, 0, suppressed(&c, &s, trips, most));
    return c.st;
}
