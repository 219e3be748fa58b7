/* Branches and loops. A graph has neither: a branch is taken when compiling where its condition is
 * known then, and otherwise both sides are computed and one result chosen; loops of known length
 * are unrolled. */
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/ops/op.h"

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

/* Whether a value is known now, and true. What cannot be known is no error. */
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

kiln_status kiln_import_if(kiln_importer *im, const kiln_import_row *row) {
    (void)row;
    const Onnx__GraphProto *branch[2] = {body_of(im, "else_branch"), body_of(im, "then_branch")};
    kiln_value result[2][CARRIED_MAX], condition = kiln_import_input(im, 0);
    bool known = false, taken = false;
    if (kiln_import_reads_poison(im)) return KILN_OK;
    kiln_status st = check_body(branch[0], 0, im->node->n_output);
    if (!st) st = check_body(branch[1], 0, im->node->n_output);
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

/* Each a new element along `axis`. */
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

/* ---- Loop ------------------------------------------------------------------------------------ */

typedef struct loop {
    const Onnx__GraphProto *body;
    uint32_t carried, results; /* results: values of every iteration, stacked at the end */
    int64_t trips;             /* at most */
    uint32_t done;
    bool is_true; /* the condition */
    kiln_value state[CARRIED_MAX];
    KILN_VEC(kiln_value) item[CARRIED_MAX]; /* [results] of [done] */
} loop;

static kiln_status read_trips(kiln_importer *im, loop *l) {
    kiln_tensor count;
    l->trips = INT64_MAX;
    if (!kiln_import_input(im, 0)) return KILN_OK;
    kiln_status st = kiln_import_demand(im, 0, &count);
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

kiln_status kiln_import_loop(kiln_importer *im, const kiln_import_row *row) {
    (void)row;
    loop l = {.body = body_of(im, "body"), .is_true = true};
    kiln_composer c = {.im = im};
    if (kiln_import_reads_poison(im)) return KILN_OK;
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
    if (!st && kiln_import_input(im, 1)) st = read_condition(im, kiln_import_input(im, 1), &l);
    uint32_t problems = im->problem_count; /* one iteration lists them all */
    while (!st && l.is_true && l.done < l.trips && problems == im->problem_count)
        st = l.done < TRIPS_MAX ? run_iteration(im, &c, &l)
                                : KILN_ERROR(UNIMPLEMENTED, "more than %d iterations", TRIPS_MAX);
    return st || problems != im->problem_count ? st : define_loop(im, &c, &l);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

typedef struct scan {
    const Onnx__GraphProto *body;
    uint32_t carried, inputs, results, length;
    kiln_value state[CARRIED_MAX], *slice[CARRIED_MAX], *item[CARRIED_MAX];
} scan;

static int64_t item_of(const kiln_importer *im, const char *name, uint32_t index) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a && index < a->n_ints ? a->ints[index] : 0;
}

/* What each iteration sees of a scanned input. */
static void cut_input(kiln_composer *c, const kiln_importer *im, scan *s, uint32_t index) {
    kiln_value value = kiln_import_input(im, s->carried + index);
    int64_t axis = item_of(im, "scan_input_axes", index);
    if (c->st) return;
    const kiln_shape *shape = kiln_compose_shape(c, value);
    if (axis < 0) axis += shape->rank;
    if (axis < 0 || axis >= shape->rank || (index && shape->dim[axis] != s->length)) {
        kiln_compose_fail(c, KILN_ERROR(INVALID_ARGUMENT, "scanned inputs differ in length"));
        return;
    }
    int64_t length = shape->dim[axis];
    if (length < 1 || length > TRIPS_MAX) {
        kiln_compose_fail(c, KILN_ERROR(UNIMPLEMENTED, "%lld iterations; 1 to %d are supported",
                                        (long long)length, TRIPS_MAX));
        return;
    }
    s->length = (uint32_t)length;
    s->slice[index] = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, length);
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
    uint32_t problems = im->problem_count;
    for (uint32_t i = 0; !st && i < s->length && problems == im->problem_count; i++) {
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

kiln_status kiln_import_scan(kiln_importer *im, const kiln_import_row *row) {
    (void)row;
    kiln_composer c = {.im = im};
    scan s = {.body = body_of(im, "body")};
    int64_t inputs = kiln_import_int(im, "num_scan_inputs", 0);
    if (kiln_import_reads_poison(im)) return KILN_OK;
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
    uint32_t problems = im->problem_count;
    st = run_scan(im, &c, &s);
    if (!st && problems == im->problem_count) define_scan(im, &c, &s);
    return st ? st : c.st;
}
