/* Slices whose position is known at run time only, and lists one row of which is replaced: used by
 * loops over the steps of a sequence. */
#include <string.h>

#include "compiler-core/frontend/tflite/import.h"

/* Integers of which some are known at run time only. */
typedef struct partly {
    uint32_t count;
    int64_t item[KILN_RANK_MAX];
    kiln_value value[KILN_RANK_MAX]; /* the value of one element, if `item` is unknown; 0: it is
                                      * known */
} partly;

/* Appends the elements of `value`; false if there are too many, or they cannot be separated. */
static bool append(kiln_tflite *t, kiln_value value, partly *out) {
    const int64_t count = kiln_shape_count(kiln_tflite_shape(t, value));
    kiln_tensor known;
    if (count > KILN_RANK_MAX - (int64_t)out->count) return false;
    kiln_status st = kiln_value_evaluate(t->graph, value, &t->evaluation, &known);
    const bool is_known = st == NULL;
    kiln_status_free(st); /* known at run time only, or depends on an error that will be reported */
    if (!is_known && count != 1) return false;
    for (int64_t i = 0; i < count; i++) {
        if (is_known)
            out->item[out->count] = kiln_dtype_load_i64(known.dtype, known.data, (size_t)i);
        else
            out->value[out->count] = value;
        out->count++;
    }
    return true;
}

/* Input `index`, with one item per dimension of `x`: a value, or a concatenation. */
static bool read_partly(kiln_tflite *t, uint32_t index, const kiln_tflite_tensor *x, partly *out) {
    const kiln_value value = kiln_tflite_stored(t, kiln_tflite_needed(t, index), KILN_TFLITE_LAST);
    *out = (partly){0};
    if (t->st) return false;
    bool all = append(t, value, out);
    const kiln_node_info *join = &t->graph->node.data[t->graph->value.data[value].producer];
    if (!all && join->op == KILN_OP_CONCAT) {
        *out = (partly){0};
        all = true;
        for (uint32_t i = 0; all && i < join->input_count; i++)
            all = append(t, join->input[i], out);
    }
    return all && out->count == x->shape.rank;
}

static bool is_whole(const kiln_tflite_tensor *x, const partly *begin, const partly *size,
                     uint32_t d) {
    return !begin->value[d] && !size->value[d] && begin->item[d] == 0 &&
           (size->item[d] == -1 || size->item[d] == x->shape.dim[d]);
}

/* 0, 1, 2, ... along the first of `rank` dimensions, of the type of `like`. */
static kiln_value numbers(kiln_tflite *t, kiln_value like, int64_t count, uint32_t rank) {
    kiln_shape shape = {.rank = rank, .dim = {count}};
    for (uint32_t d = 1; d < rank; d++) shape.dim[d] = 1;
    if (t->st) return 0;
    kiln_tensor all = kiln_tensor_create(t->graph->arena, kiln_tflite_dtype(t, like), &shape);
    for (int64_t i = 0; i < count; i++) kiln_dtype_store_i64(all.dtype, all.data, (size_t)i, i);
    return kiln_tflite_constant(t, &all);
}

/* Takes `count` elements along dimension `d` from a position known at run time. */
static void take_rows(kiln_tflite *t, uint32_t d, kiln_value first, int64_t count) {
    const kiln_attr attr = kiln_attr_int("axis", d);
    const kiln_value data = kiln_tflite_data(t, 0, KILN_TFLITE_LAST),
                     from = kiln_tflite_reshaped(t, first, &(kiln_shape){0}),
                     index = kiln_tflite_binary(t, KILN_OP_ADD, numbers(t, from, count, 1), from);
    kiln_tflite_define(
        t, 0, kiln_tflite_node(t, KILN_OP_GATHER, (kiln_value[]){data, index}, 2, &attr, 1),
        KILN_TFLITE_LAST);
}

/* Defines the result as the rows of `x` before `at`, or from there on. */
static void leave_open(kiln_tflite *t, kiln_tflite_tensor *x, kiln_value at, bool is_behind) {
    kiln_tflite_tensor *result = kiln_tflite_output(t, 0);
    const kiln_value list = kiln_tflite_stored(t, x, KILN_TFLITE_LAST);
    if (result && !t->st) result->part = (kiln_tflite_part){list, at, is_behind};
}

bool kiln_tflite_slice_in_run(kiln_tflite *t, kiln_tflite_tensor *x) {
    partly begin, size;
    uint32_t open = x->shape.rank;
    if (!read_partly(t, 1, x, &begin) || !read_partly(t, 2, x, &size)) return false;
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        if (is_whole(x, &begin, &size, d)) continue;
        if (open < x->shape.rank) return false; /* two dimensions */
        open = d;
    }
    if (open == x->shape.rank) return false;
    const kiln_value from = begin.value[open], count = size.value[open];
    if (from && !count && size.item[open] > 0 && size.item[open] <= x->shape.dim[open])
        take_rows(t, open, from, size.item[open]);
    else if (open == 0 && t->depth && from && !count && size.item[0] == -1)
        leave_open(t, x, from, true);
    else if (open == 0 && t->depth && count && !from && begin.item[0] == 0)
        leave_open(t, x, count, false);
    else
        return false;
    return true;
}

/* In the file the result has a fixed number of rows, that of the list: so the rows behind the new
 * one are those behind its position. */
bool kiln_tflite_set_row(kiln_tflite *t) {
    const kiln_tflite_tensor *front = kiln_tflite_input(t, 0), *item = kiln_tflite_input(t, 1),
                             *back = kiln_tflite_input(t, 2), *result = kiln_tflite_output(t, 0);
    if (t->input.count != 3 || !front || !item || !back || !result || !front->part.list ||
        front->part.is_behind || back->part.list != front->part.list || !back->part.is_behind)
        return false;
    const kiln_shape list = *kiln_tflite_shape(t, front->part.list);
    kiln_shape row = list;
    row.dim[0] = 1;
    if (kiln_tflite_option(t, KILN_TFLITE_CONCATENATION_AXIS, 0) != 0 || result->open[0] ||
        !kiln_shape_equal(&result->shape, &list) || !kiln_shape_equal(&item->shape, &row) ||
        (result->quantised && !t->keeps))
        return false;
    const kiln_value at = kiln_tflite_reshaped(t, front->part.at, &(kiln_shape){0}),
                     place = numbers(t, at, list.dim[0], list.rank),
                     is_here = kiln_tflite_binary(t, KILN_OP_EQUAL, place, at),
                     value = kiln_tflite_data(t, 1, KILN_TFLITE_LAST);
    const kiln_value operand[] = {is_here, value, front->part.list};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_WHERE, operand, 3, NULL, 0),
                       KILN_TFLITE_LAST);
    return true;
}
