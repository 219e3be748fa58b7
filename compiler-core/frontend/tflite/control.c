/* Operators that name subgraphs: calls, branches and loops. Their operands are stored values, which
 * pass unchanged. */
#include "compiler-core/frontend/tflite/import.h"

#define CARRIED_MAX 64u /* operands of a branch, a loop or a call */

/* Operands from `first` on, as stored. */
static uint32_t operands(kiln_tflite *t, uint32_t first, kiln_value *out) {
    const uint32_t count = t->input.count - KILN_MIN(first, t->input.count);
    if (count > CARRIED_MAX || t->output.count > CARRIED_MAX)
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "more than %u operands", CARRIED_MAX));
    for (uint32_t i = 0; !t->st && i < count; i++)
        out[i] = kiln_tflite_stored(t, kiln_tflite_needed(t, first + i), KILN_TFLITE_LAST);
    return count;
}

static void define_all(kiln_tflite *t, const kiln_value *value) {
    t->keeps = true; /* quantised operands are stored values already */
    for (uint32_t i = 0; !t->st && i < t->output.count; i++)
        kiln_tflite_define(t, i, value[i], KILN_TFLITE_LAST);
}

void kiln_tflite_call(kiln_tflite *t) {
    kiln_value input[CARRIED_MAX], output[CARRIED_MAX];
    const uint32_t count = operands(t, 0, input);
    kiln_tflite_body(t, kiln_tflite_option(t, KILN_TFLITE_CALL_GRAPH, 0), input, count, output,
                     t->st ? 0 : t->output.count);
    define_all(t, output);
}

/* ---- IF -------------------------------------------------------------------------------------- */

/* Whether a value is known while importing, and true. */
static bool known_truth(kiln_tflite *t, kiln_value value, bool *out_true) {
    kiln_tensor known;
    if (t->st) return false;
    kiln_status st = kiln_value_evaluate(t->graph, value, &t->evaluation, &known);
    if (kiln_status_code(st) == KILN_UNIMPLEMENTED) {
        kiln_status_free(st); /* known at run time only */
        return false;
    }
    if (!st && (known.dtype != KILN_BOOL || kiln_shape_count(&known.shape) != 1))
        st = KILN_ERROR(INVALID_ARGUMENT, "its condition is no truth value");
    if (st)
        kiln_tflite_fail(t, st);
    else
        *out_true = kiln_dtype_load_i64(known.dtype, known.data, 0) != 0;
    return !t->st;
}

/* One of two values. */
static kiln_value chosen(kiln_tflite *t, kiln_value condition, kiln_value yes, kiln_value no) {
    if (t->st) return 0;
    if (kiln_tflite_dtype(t, yes) != kiln_tflite_dtype(t, no) ||
        !kiln_shape_equal(kiln_tflite_shape(t, yes), kiln_tflite_shape(t, no))) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED,
                                       "its condition is known only at run time, and its "
                                       "branches' results differ in type or shape"));
        return 0;
    }
    return kiln_tflite_node(t, KILN_OP_WHERE, (kiln_value[]){condition, yes, no}, 3, NULL, 0);
}

/* If the condition is known one side is imported, else both are computed. */
void kiln_tflite_branch(kiln_tflite *t) {
    const int64_t graph[2] = {kiln_tflite_option(t, KILN_TFLITE_IF_ELSE, 0),
                              kiln_tflite_option(t, KILN_TFLITE_IF_THEN, 0)};
    kiln_value input[CARRIED_MAX], result[2][CARRIED_MAX];
    kiln_value condition = kiln_tflite_stored(t, kiln_tflite_needed(t, 0), KILN_TFLITE_LAST);
    const uint32_t count = operands(t, 1, input);
    bool taken = false;
    const bool known = known_truth(t, condition, &taken);
    for (uint32_t side = 0; !t->st && side < 2; side++)
        if (!known || taken == (side == 1))
            kiln_tflite_body(t, graph[side], input, count, result[side], t->output.count);
    if (!known) condition = kiln_tflite_reshaped(t, condition, &(kiln_shape){0});
    for (uint32_t i = 0; !t->st && !known && i < t->output.count; i++)
        result[1][i] = chosen(t, condition, result[1][i], result[0][i]);
    define_all(t, result[known ? taken : 1]);
}

/* ---- WHILE ----------------------------------------------------------------------------------- */

/* A loop of the graph (graph/loops.h): the condition is computed before it, and at the end of each
 * iteration. */
void kiln_tflite_loop(kiln_tflite *t) {
    const int64_t condition = kiln_tflite_option(t, KILN_TFLITE_WHILE_CONDITION, 0),
                  body = kiln_tflite_option(t, KILN_TFLITE_WHILE_BODY, 0),
                  trips = t->options->loop_max ? (int64_t)KILN_MIN(t->options->loop_max,
                                                                   (uint64_t)KILN_LOOP_TRIPS_MAX)
                                               : KILN_LOOP_TRIPS_MAX;
    kiln_value begin[2 + CARRIED_MAX], state[1 + CARRIED_MAX], end[2 + CARRIED_MAX];
    const uint32_t count = operands(t, 0, begin + 2);
    if (!t->st && count != t->output.count)
        kiln_tflite_fail(
            t, KILN_ERROR(INVALID_ARGUMENT, "%u inputs and %u outputs", count, t->output.count));
    kiln_tflite_body(t, condition, begin + 2, count, &begin[1], 1);
    begin[0] = kiln_tflite_scalar(t, KILN_I64, (double)trips);
    const kiln_attr attr[] = {kiln_attr_int("trips", trips), kiln_attr_int("carried", count),
                              kiln_attr_int("guarded", 1)};
    kiln_tflite_nodes(t, KILN_OP_LOOP_BEGIN, begin, 2 + count, attr, 3, state, 1 + count);
    kiln_tflite_body(t, body, state + 1, count, end + 2, count);
    kiln_tflite_body(t, condition, end + 2, count, &end[1], 1);
    end[0] = state[0];
    kiln_tflite_nodes(t, KILN_OP_LOOP_END, end, 2 + count, NULL, 0, state, count);
    define_all(t, state);
}
