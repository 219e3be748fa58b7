/* Branches and loops. If the condition of a branch is known, only one side is imported; otherwise
 * both sides are computed and one result is chosen. Loops of a few iterations, and those whose
 * values change their shapes, are unrolled; the others stay loops. */
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define TRIPS_MAX 4096
#define CARRIED_MAX 64 /* values from one iteration to the next, or results of one node */

static const Onnx__GraphProto *body_of(const kiln_importer *im, const char *name) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a ? a->g : NULL;
}

static kiln_status check_body(const Onnx__GraphProto *body, size_t inputs, size_t outputs) {
    if (!body) return KILN_ERROR(INVALID_ARGUMENT, "it has no body");
    if (body->n_input != inputs || body->n_output != outputs)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "its body has %zu inputs and %zu outputs, not %zu and %zu", body->n_input,
                          body->n_output, inputs, outputs);
    return inputs <= CARRIED_MAX && outputs <= CARRIED_MAX
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "its body has more than %d operands", CARRIED_MAX);
}

/* Whether a value is known while importing, and true. An unknown value is no error. */
static kiln_status known_truth(kiln_importer *im, kiln_value value, bool *out_known,
                               bool *out_true) {
    kiln_tensor tensor;
    kiln_status st = kiln_import_evaluate(im, value, &tensor);
    *out_known = st == NULL;
    if (st && kiln_status_code(st) == KILN_UNIMPLEMENTED) {
        kiln_status_free(st); /* known at run time only */
        return KILN_OK;
    }
    if (st) return st;
    if (tensor.dtype != KILN_BOOL || kiln_shape_count(&tensor.shape) != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "its condition is no truth value");
    *out_true = kiln_dtype_load_i64(tensor.dtype, tensor.data, 0) != 0;
    return KILN_OK;
}

/* ---- If -------------------------------------------------------------------------------------- */

/* Results of both branches, chosen element by element. */
static kiln_status choose(kiln_importer *im, kiln_value condition, const kiln_value *then_value,
                          const kiln_value *else_value) {
    kiln_composer c = {.im = im};
    kiln_value scalar = kiln_compose_reshape(&c, condition, &(kiln_shape){0});
    for (uint32_t i = 0; !c.st && i < im->node->n_output; i++) {
        if (!then_value[i] || !else_value[i]) {
            kiln_import_define(im, i, 0);
            continue;
        }
        if (kiln_compose_dtype(&c, then_value[i]) != kiln_compose_dtype(&c, else_value[i]) ||
            !kiln_shape_equal(kiln_compose_shape(&c, then_value[i]),
                              kiln_compose_shape(&c, else_value[i])))
            return KILN_ERROR(UNIMPLEMENTED,
                              "its condition is known only at run time, and its branches' results "
                              "differ in type or shape");
        kiln_compose_define(&c, i, kiln_compose_where(&c, scalar, then_value[i], else_value[i]));
    }
    return c.st;
}

kiln_status kiln_import_if(kiln_importer *im) {
    const Onnx__GraphProto *branch[2] = {body_of(im, "else_branch"), body_of(im, "then_branch")};
    kiln_value result[2][CARRIED_MAX], condition = kiln_import_input(im, 0);
    bool known = false, taken = false;
    kiln_status st = check_body(branch[0], 0, im->node->n_output);
    if (!st) st = check_body(branch[1], 0, im->node->n_output);
    if (!st && !condition) st = KILN_ERROR(INVALID_ARGUMENT, "it has no condition");
    if (!st) st = known_truth(im, condition, &known, &taken);
    for (uint32_t side = 0; !st && side < 2; side++)
        if (!known || taken == (side == 1))
            st = kiln_import_body(im, branch[side], NULL, result[side]);
    if (st) return st;
    if (!known) return choose(im, condition, result[1], result[0]);
    for (uint32_t i = 0; i < im->node->n_output; i++) kiln_import_define(im, i, result[taken][i]);
    return KILN_OK;
}

/* ---- results of every iteration -------------------------------------------------------------- */

/* Stacks the items as elements along a new `axis`. */
static kiln_value stack(kiln_composer *c, kiln_value *item, uint32_t count, int64_t axis,
                        bool backward) {
    for (uint32_t i = 0; i < count; i++) {
        if (!item[i]) return 0;
        item[i] = kiln_compose_ints(c, KILN_OP_UNSQUEEZE, item[i], "axes", &axis, 1);
    }
    for (uint32_t i = 0; backward && i < count / 2; i++) {
        kiln_value other = item[count - 1 - i];
        item[count - 1 - i] = item[i];
        item[i] = other;
    }
    if (c->st) return 0;
    uint32_t rank = kiln_compose_shape(c, item[0])->rank;
    return kiln_compose_concat(c, item, count, (uint32_t)(axis < 0 ? axis + rank : axis));
}

/* ---- loops that stay loops ------------------------------------------------------------------- */

/* The state before an attempt at a loop, to undo a failed one. */
typedef struct attempt {
    kiln_node first; /* the first node that it made */
    uint32_t problem_count;
    size_t problem_bytes;
} attempt;

static attempt begin_attempt(const kiln_importer *im) {
    return (attempt){im->graph->node.count, im->problems.count, im->problems.text.size};
}

static bool has_problems(const kiln_importer *im, const attempt *a) {
    return im->problems.count != a->problem_count;
}

static void take_back(kiln_importer *im, const attempt *a) {
    for (kiln_node n = im->graph->node.count; n-- > a->first;)
        if (im->graph->node.data[n].op != KILN_OP_NONE) kiln_graph_remove_node(im->graph, n);
    kiln_problems_cut(&im->problems, a->problem_count, a->problem_bytes);
}

/* ---- Loop ------------------------------------------------------------------------------------ */

typedef struct loop {
    const Onnx__GraphProto *body;
    uint32_t carried, results; /* results: values of every iteration, stacked at the end */
    int64_t trips;             /* at most; INT64_MAX where the model gives no bound */
    kiln_value count;          /* the trip count if it is known at run time only; else 0 */
    kiln_value condition;      /* condition of the first iteration, likewise */
    uint32_t done;
    bool is_true; /* value of a known condition */
    kiln_value state[CARRIED_MAX];
    KILN_VEC(kiln_value) item[CARRIED_MAX]; /* [results] of [done] */
} loop;

static kiln_status read_trips(kiln_importer *im, loop *l) {
    kiln_tensor count;
    kiln_value value = kiln_import_input(im, 0);
    l->trips = INT64_MAX;
    if (!value) return KILN_OK;
    kiln_status st = kiln_import_evaluate(im, value, &count);
    if (kiln_status_code(st) == KILN_UNIMPLEMENTED) {
        kiln_status_free(st); /* known at run time only */
        l->count = value;
        return KILN_OK;
    }
    if (st) return st;
    if (kiln_shape_count(&count.shape) != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "its trip count is no number");
    l->trips = kiln_dtype_load_i64(count.dtype, count.data, 0);
    return KILN_OK;
}

static kiln_status read_condition(kiln_importer *im, kiln_value condition, loop *l) {
    bool known = false;
    kiln_status st = known_truth(im, condition, &known, &l->is_true);
    return st || known ? st : KILN_ERROR(UNIMPLEMENTED, "its condition is known only at run time");
}

static kiln_status run_iteration(kiln_importer *im, kiln_composer *c, loop *l) {
    kiln_value input[CARRIED_MAX], output[CARRIED_MAX];
    kiln_tensor number = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){0});
    kiln_dtype_store_i64(KILN_I64, number.data, 0, l->done);
    input[0] = kiln_compose_constant(c, &number);
    input[1] = kiln_compose_scalar(c, KILN_BOOL, 1);
    memcpy(input + 2, l->state, l->carried * sizeof *input);
    kiln_status st = c->st ? c->st : kiln_import_body(im, l->body, input, output);
    if (st) return st;
    memcpy(l->state, output + 1, l->carried * sizeof *input);
    for (uint32_t i = 0; i < l->results; i++)
        kiln_vec_push_in(im->graph->arena, &l->item[i], output[1 + l->carried + i]);
    l->done++;
    return output[0] ? read_condition(im, output[0], l) : KILN_OK;
}

static kiln_status define_loop(kiln_importer *im, kiln_composer *c, loop *l) {
    for (uint32_t i = 0; i < l->carried; i++) kiln_import_define(im, i, l->state[i]);
    for (uint32_t i = 0; i < l->results; i++) {
        if (l->done == 0) return KILN_ERROR(UNIMPLEMENTED, "results of a loop that never runs");
        kiln_compose_define(c, l->carried + i, stack(c, l->item[i].data, l->done, 0, false));
    }
    return c->st;
}

/* Finds the bound of a loop's length. */
static kiln_status bound_trips(kiln_importer *im, kiln_composer *c, const loop *l, bool open,
                               kiln_compose_loop *made) {
    const uint64_t given = im->options->loop_max;
    made->trips = KILN_MIN(l->trips, KILN_LOOP_TRIPS_MAX);
    if (open && given && given < (uint64_t)made->trips) made->trips = (int64_t)given;
    made->count = l->count;
    if (open && l->results && made->trips == KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(UNIMPLEMENTED,
                          "results of every iteration, and the model gives no limit of their "
                          "number: give one with --loop-max");
    if (!open || l->count || l->trips == made->trips) return KILN_OK;
    kiln_tensor count = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){0});
    kiln_dtype_store_i64(KILN_I64, count.data, 0, l->trips);
    made->count = kiln_compose_constant(c, &count);
    return KILN_OK;
}

/* Imports the loop with one copy of its body. Whether its condition changes is known only after the
 * body: `guarded` assumes that it does; `*out_changes`: whether it does. */
static kiln_status try_loop(kiln_importer *im, kiln_composer *c, const loop *l, bool guarded,
                            kiln_value *carry, kiln_value *stack, bool *out_changes) {
    kiln_value input[CARRIED_MAX], output[CARRIED_MAX];
    bool known = true, is_true = true;
    memcpy(carry, l->state, l->carried * sizeof *carry);
    kiln_compose_loop made = {
        .carried = l->carried, .stack_count = l->results, .carry = carry, .stack = stack};
    kiln_status st = bound_trips(im, c, l, guarded || l->count, &made);
    if (st) return st;
    if (guarded)
        made.condition = l->condition ? l->condition : kiln_compose_scalar(c, KILN_BOOL, 1);
    kiln_compose_loop_begin(c, &made);
    input[0] = made.number;
    input[1] = kiln_compose_scalar(c, KILN_BOOL, 1);
    memcpy(input + 2, carry, l->carried * sizeof *input);
    st = c->st ? c->st : kiln_import_body(im, l->body, input, output);
    if (!st && output[0]) st = known_truth(im, output[0], &known, &is_true);
    *out_changes = !known || !is_true;
    if (st || (*out_changes && !guarded)) return st;
    if (!guarded && !l->count && l->trips > KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "more than %lld iterations",
                          (long long)KILN_LOOP_TRIPS_MAX);
    for (uint32_t i = 0; i <= l->carried + l->results; i++)
        if (i > 0 && !output[i]) return KILN_ERROR(UNIMPLEMENTED, "its body has no output %u", i);
    if (guarded) made.condition = output[0] ? output[0] : kiln_compose_scalar(c, KILN_BOOL, 1);
    memcpy(carry, output + 1, l->carried * sizeof *carry);
    memcpy(stack, output + 1 + l->carried, l->results * sizeof *stack);
    kiln_compose_loop_end(c, &made);
    return c->st;
}

/* `*out_ends`, if not NULL: the condition changes, and no loop was made. */
static kiln_status keep_loop(kiln_importer *im, const loop *l, bool *out_ends) {
    kiln_value carry[CARRIED_MAX], stack[CARRIED_MAX];
    kiln_composer c = {.im = im};
    bool guarded = l->condition != 0, changes = false;
    const attempt a = begin_attempt(im);
    kiln_status st = try_loop(im, &c, l, guarded, carry, stack, &changes);
    if (!st && changes && !guarded && !has_problems(im, &a)) {
        take_back(im, &a);
        if (out_ends) {
            *out_ends = true;
            return KILN_OK;
        }
        st = try_loop(im, &c, l, true, carry, stack, &changes);
    }
    if (st || has_problems(im, &a)) return st;
    for (uint32_t i = 0; i < l->carried; i++) kiln_compose_define(&c, i, carry[i]);
    for (uint32_t i = 0; i < l->results; i++) kiln_compose_define(&c, l->carried + i, stack[i]);
    return c.st;
}

static kiln_status unroll(kiln_importer *im, loop *l) {
    kiln_composer c = {.im = im};
    kiln_status st = KILN_OK;
    uint32_t problems = im->problems.count; /* one iteration reports them all */
    while (!st && l->is_true && l->done < l->trips && problems == im->problems.count)
        st = l->done < TRIPS_MAX ? run_iteration(im, &c, l)
                                 : KILN_ERROR(UNIMPLEMENTED, "more than %d iterations", TRIPS_MAX);
    return st || problems != im->problems.count ? st : define_loop(im, &c, l);
}

static bool is_unsupported(kiln_status st) {
    return st && kiln_status_code(st) == KILN_UNIMPLEMENTED;
}

/* Imports a loop, unless it is short. A loop whose shapes change, or whose body needs the
 * iteration's number as a constant, is unrolled if possible. A loop that ends by a condition and is
 * short, or has results of every iteration, is unrolled first, because the number of results may
 * then be known. */
static kiln_status import_any_loop(kiln_importer *im, const loop *l) {
    const kiln_composer c = {.im = im};
    const bool open = l->count || l->condition;
    bool may_stay = !open && l->trips <= kiln_compose_unroll_max(&c);
    loop unrolled = *l;
    if (!l->is_true || l->trips <= 0) return unroll(im, &unrolled);
    const attempt a = begin_attempt(im);
    if (!may_stay) {
        kiln_status st = keep_loop(im, l, l->results && !open ? &may_stay : NULL);
        if (open || (!may_stay && !has_problems(im, &a) && !is_unsupported(st))) return st;
        kiln_status_free(st); /* the other way reports the error */
        take_back(im, &a);
    }
    kiln_status st = unroll(im, &unrolled);
    if (!may_stay || has_problems(im, &a) || !is_unsupported(st)) return st;
    kiln_status_free(st);
    take_back(im, &a);
    return keep_loop(im, l, NULL);
}

kiln_status kiln_import_loop(kiln_importer *im) {
    loop l = {.body = body_of(im, "body"), .is_true = true};
    size_t operands = im->node->n_input;
    if (operands < 2) return KILN_ERROR(INVALID_ARGUMENT, "it needs a trip count and a condition");
    size_t carried = operands - 2, outputs = im->node->n_output;
    if (outputs < carried) return KILN_ERROR(INVALID_ARGUMENT, "it has too few outputs");
    kiln_status st = check_body(l.body, operands, outputs + 1);
    if (st) return st;
    l.carried = (uint32_t)carried;
    l.results = (uint32_t)(outputs - carried);
    for (uint32_t i = 0; i < l.carried; i++) l.state[i] = kiln_import_input(im, i + 2);
    st = read_trips(im, &l);
    kiln_value condition = kiln_import_input(im, 1);
    bool known = true;
    if (!st && condition) st = known_truth(im, condition, &known, &l.is_true);
    if (!known) l.condition = condition;
    return st ? st : import_any_loop(im, &l);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

typedef struct scan {
    const Onnx__GraphProto *body;
    uint32_t carried, inputs, results, length;
    int64_t axis[CARRIED_MAX]; /* [inputs] */
    kiln_value state[CARRIED_MAX], *slice[CARRIED_MAX], *item[CARRIED_MAX];
} scan;

static int64_t item_of(const kiln_importer *im, const char *name, uint32_t index) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a && index < a->n_ints ? a->ints[index] : 0;
}

/* The dimension along which an input is scanned, and how long it is. */
static kiln_status measure_input(const kiln_composer *c, const kiln_importer *im, scan *s,
                                 uint32_t index) {
    int64_t axis = item_of(im, "scan_input_axes", index);
    const kiln_shape *shape = kiln_compose_shape(c, kiln_import_input(im, s->carried + index));
    if (axis < 0) axis += shape->rank;
    if (axis < 0 || axis >= shape->rank || (index && shape->dim[axis] != s->length))
        return KILN_ERROR(INVALID_ARGUMENT, "scanned inputs differ in length");
    int64_t length = shape->dim[axis];
    if (length < 1 || length > KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%lld iterations; 1 to %lld are supported",
                          (long long)length, (long long)KILN_LOOP_TRIPS_MAX);
    s->length = (uint32_t)length;
    s->axis[index] = axis;
    return KILN_OK;
}

/* Makes each iteration's part of a scanned input. */
static void cut_input(kiln_composer *c, const kiln_importer *im, scan *s, uint32_t index) {
    kiln_value value = kiln_import_input(im, s->carried + index);
    int64_t axis = s->axis[index];
    if (c->st) return;
    s->slice[index] = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, s->length);
    kiln_compose_split(c, value, (uint32_t)axis, s->length, s->slice[index]);
    for (uint32_t i = 0; i < s->length; i++)
        s->slice[index][i] =
            kiln_compose_ints(c, KILN_OP_SQUEEZE, s->slice[index][i], "axes", &axis, 1);
}

static kiln_status run_scan(kiln_importer *im, kiln_composer *c, scan *s) {
    kiln_value input[CARRIED_MAX], output[CARRIED_MAX];
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < s->inputs; i++) cut_input(c, im, s, i);
    if (c->st) return c->st;
    for (uint32_t k = 0; k < s->results; k++)
        s->item[k] = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, s->length);
    uint32_t problems = im->problems.count;
    for (uint32_t i = 0; !st && i < s->length && problems == im->problems.count; i++) {
        memcpy(input, s->state, s->carried * sizeof *input);
        for (uint32_t k = 0; k < s->inputs; k++) {
            bool backward = item_of(im, "scan_input_directions", k) != 0;
            input[s->carried + k] = s->slice[k][backward ? s->length - 1 - i : i];
        }
        st = kiln_import_body(im, s->body, input, output);
        if (st) break;
        memcpy(s->state, output, s->carried * sizeof *input);
        for (uint32_t k = 0; k < s->results; k++) s->item[k][i] = output[s->carried + k];
    }
    return st;
}

static void define_scan(kiln_importer *im, kiln_composer *c, scan *s) {
    for (uint32_t i = 0; i < s->carried; i++) kiln_import_define(im, i, s->state[i]);
    for (uint32_t k = 0; k < s->results; k++) {
        bool backward = item_of(im, "scan_output_directions", k) != 0;
        int64_t axis = item_of(im, "scan_output_axes", k);
        kiln_import_define(im, s->carried + k, stack(c, s->item[k], s->length, axis, backward));
    }
}

/* Dimension `from` becomes dimension `to`, the others keep their order. */
static kiln_value move_axis(kiln_composer *c, kiln_value value, int64_t from, int64_t to) {
    int64_t perm[KILN_RANK_MAX], next = 0;
    if (c->st || from == to) return value;
    uint32_t rank = kiln_compose_shape(c, value)->rank;
    for (int64_t d = 0; d < rank; d++) {
        if (next == from) next++;
        perm[d] = d == to ? from : next++;
    }
    return kiln_compose_ints(c, KILN_OP_TRANSPOSE, value, "perm", perm, rank);
}

static kiln_status keep_scan(kiln_importer *im, kiln_composer *c, scan *s) {
    kiln_value carry[CARRIED_MAX], row[CARRIED_MAX], stack[CARRIED_MAX], input[CARRIED_MAX],
        output[CARRIED_MAX];
    int64_t row_reversed[CARRIED_MAX], stack_reversed[CARRIED_MAX];
    uint32_t problems = im->problems.count;
    memcpy(carry, s->state, s->carried * sizeof *carry);
    for (uint32_t k = 0; k < s->inputs; k++) {
        row[k] = move_axis(c, kiln_import_input(im, s->carried + k), s->axis[k], 0);
        row_reversed[k] = item_of(im, "scan_input_directions", k) != 0;
    }
    for (uint32_t k = 0; k < s->results; k++)
        stack_reversed[k] = item_of(im, "scan_output_directions", k) != 0;
    kiln_compose_loop made = {.trips = s->length,
                              .carried = s->carried,
                              .row_count = s->inputs,
                              .stack_count = s->results,
                              .carry = carry,
                              .row = row,
                              .stack = stack,
                              .row_reversed = row_reversed,
                              .stack_reversed = stack_reversed};
    kiln_compose_loop_begin(c, &made);
    memcpy(input, carry, s->carried * sizeof *input);
    memcpy(input + s->carried, row, s->inputs * sizeof *input);
    kiln_status st = c->st ? c->st : kiln_import_body(im, s->body, input, output);
    if (st || problems != im->problems.count) return st;
    for (uint32_t i = 0; i < s->carried + s->results; i++)
        if (!output[i]) return KILN_ERROR(UNIMPLEMENTED, "its body has no output %u", i);
    memcpy(carry, output, s->carried * sizeof *carry);
    memcpy(stack, output + s->carried, s->results * sizeof *stack);
    kiln_compose_loop_end(c, &made);
    for (uint32_t i = 0; i < s->carried; i++) kiln_compose_define(c, i, carry[i]);
    for (uint32_t k = 0; !c->st && k < s->results; k++) {
        int64_t axis = item_of(im, "scan_output_axes", k),
                rank = kiln_compose_shape(c, stack[k])->rank;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute scan_output_axes is out of range");
        kiln_compose_define(c, s->carried + k, move_axis(c, stack[k], 0, axis));
    }
    return c->st;
}

kiln_status kiln_import_scan(kiln_importer *im) {
    kiln_composer c = {.im = im};
    scan s = {.body = body_of(im, "body")};
    int64_t inputs = kiln_import_int(im, "num_scan_inputs", 0);
    if (inputs < 1 || inputs > (int64_t)im->node->n_input)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute num_scan_inputs does not fit the inputs");
    kiln_status st = check_body(s.body, im->node->n_input, im->node->n_output);
    if (st) return st;
    s.inputs = (uint32_t)inputs;
    s.carried = (uint32_t)(im->node->n_input - s.inputs);
    if (s.carried > im->node->n_output)
        return KILN_ERROR(INVALID_ARGUMENT, "it has too few outputs");
    s.results = (uint32_t)(im->node->n_output - s.carried);
    for (uint32_t i = 0; i < s.carried; i++) s.state[i] = kiln_import_input(im, i);
    for (uint32_t k = 0; !st && k < s.inputs; k++) st = measure_input(&c, im, &s, k);
    if (st) return st;
    if (s.length > kiln_compose_unroll_max(&c)) return keep_scan(im, &c, &s);
    uint32_t problems = im->problems.count;
    st = run_scan(im, &c, &s);
    if (!st && problems == im->problems.count) define_scan(im, &c, &s);
    return st ? st : c.st;
}

/* ---- Scan before opset 9 --------------------------------------------------------------------- */

/* Element `index` of dimension 0. */
static kiln_value element(kiln_composer *c, kiln_value value, int64_t index) {
    static const int64_t first = 0;
    if (c->st) return 0;
    const kiln_value part = kiln_compose_slice(c, value, 0, index, index + 1);
    return kiln_compose_ints(c, KILN_OP_SQUEEZE, part, "axes", &first, 1);
}

/* One sample: its states and stacked results into `output`, [outputs of the body]. */
static kiln_status scan_sample(kiln_importer *im, kiln_composer *c, scan *s, int64_t sample,
                               kiln_value *output) {
    kiln_value input[CARRIED_MAX], rows[CARRIED_MAX], *item[CARRIED_MAX];
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < s->carried; i++)
        output[i] = element(c, kiln_import_input(im, 1 + i), sample);
    for (uint32_t k = 0; k < s->inputs; k++)
        rows[k] = element(c, kiln_import_input(im, 1 + s->carried + k), sample);
    for (uint32_t k = 0; k < s->results; k++)
        item[k] = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, s->length);
    for (uint32_t t = 0; !st && !c->st && t < s->length; t++) {
        memcpy(input, output, s->carried * sizeof *input);
        for (uint32_t k = 0; k < s->inputs; k++)
            input[s->carried + k] =
                element(c, rows[k], item_of(im, "directions", k) ? s->length - 1 - t : t);
        if (!c->st) st = kiln_import_body(im, s->body, input, output);
        for (uint32_t k = 0; !st && k < s->results; k++) item[k][t] = output[s->carried + k];
    }
    for (uint32_t k = 0; !st && !c->st && k < s->results; k++)
        output[s->carried + k] = stack(c, item[k], s->length, 0, false);
    return st ? st : c->st;
}

/* Dimension 0 of all operands is the batch, dimension 1 of the scanned ones is scanned; the body
 * has neither. */
static kiln_status measure_batch(kiln_importer *im, const kiln_composer *c, scan *s,
                                 int64_t *out_batch) {
    const uint32_t operands = s->carried + s->inputs;
    for (uint32_t i = 0; i < operands; i++) {
        const kiln_value value = kiln_import_input(im, 1 + i);
        const uint32_t least = i < s->carried ? 1 : 2;
        const kiln_shape *shape = value ? kiln_compose_shape(c, value) : NULL;
        if (!shape || shape->rank < least || (i > 0 && shape->dim[0] != *out_batch) ||
            (i > s->carried && shape->dim[1] != s->length))
            return KILN_ERROR(INVALID_ARGUMENT, "input %u does not fit the others", 1 + i);
        *out_batch = shape->dim[0];
        if (i < s->carried) continue;
        if (shape->dim[1] < 1 || shape->dim[1] > TRIPS_MAX)
            return KILN_ERROR(UNIMPLEMENTED, "%lld iterations; 1 to %d are supported",
                              (long long)shape->dim[1], TRIPS_MAX);
        s->length = (uint32_t)shape->dim[1];
    }
    return *out_batch >= 1 && *out_batch <= TRIPS_MAX
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "a batch of %lld", (long long)*out_batch);
}

kiln_status kiln_import_batched_scan(kiln_importer *im) {
    kiln_composer c = {.im = im};
    scan s = {.body = body_of(im, "body")};
    const int64_t inputs = kiln_import_int(im, "num_scan_inputs", 0);
    const size_t operands = im->node->n_input ? im->node->n_input - 1 : 0,
                 outputs = im->node->n_output;
    int64_t batch = 0;
    if (kiln_import_input(im, 0)) return KILN_ERROR(UNIMPLEMENTED, "sequence_lens (input 0)");
    if (inputs < 1 || inputs > (int64_t)operands || operands - (size_t)inputs > outputs)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute num_scan_inputs does not fit the operands");
    kiln_status st = check_body(s.body, operands, outputs);
    if (st) return st;
    s.inputs = (uint32_t)inputs;
    s.carried = (uint32_t)(operands - s.inputs);
    s.results = (uint32_t)(outputs - s.carried);
    st = measure_batch(im, &c, &s, &batch);
    if (st) return st;
    kiln_value *all = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, outputs * (size_t)batch),
               output[CARRIED_MAX];
    const uint32_t problems = im->problems.count;
    for (int64_t b = 0; !st && b < batch && problems == im->problems.count; b++) {
        st = scan_sample(im, &c, &s, b, output);
        for (size_t i = 0; !st && i < outputs; i++) all[i * (size_t)batch + (size_t)b] = output[i];
    }
    for (uint32_t i = 0; !st && i < outputs && problems == im->problems.count; i++)
        kiln_compose_define(&c, i, stack(&c, all + i * (size_t)batch, (uint32_t)batch, 0, false));
    return st ? st : c.st;
}
