/* Sequences and optional values. They do not exist at run time: a sequence is a list of values
 * known while importing, and an optional value is one value or none. Operators on them choose among
 * the values, or join them. */
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define ITEMS_MAX 4096u

/* ---- lists ----------------------------------------------------------------------------------- */

const kiln_import_list *kiln_import_list_of(const kiln_importer *im, kiln_value value) {
    uint32_t place = value && value < im->list_of.count ? im->list_of.data[value] : 0;
    return place ? &im->list.data[place - 1] : NULL;
}

bool kiln_import_reads_list(const kiln_importer *im) {
    for (uint32_t i = 0; i < im->node->n_input; i++)
        if (kiln_import_list_of(im, kiln_import_input(im, i))) return true;
    return false;
}

/* Defines output `index` as a list of these. It occupies a value that must not be read. */
static kiln_status define_list(kiln_importer *im, uint32_t index, const kiln_value *item,
                               uint32_t count, bool is_none) {
    kiln_composer c = {.im = im};
    kiln_arena *arena = im->graph->arena;
    if (count > ITEMS_MAX) return KILN_ERROR(UNIMPLEMENTED, "a sequence of %u tensors", count);
    kiln_import_list list = {.count = count, .is_none = is_none};
    list.item = KILN_ARENA_ARRAY(arena, kiln_value, count);
    for (uint32_t i = 0; i < count; i++) list.item[i] = item[i];
    const kiln_value value = kiln_compose_scalar(&c, KILN_BOOL, 0);
    if (c.st) return c.st;
    kiln_vec_push_in(arena, &im->list, list);
    while (im->list_of.count <= value) kiln_vec_push_in(arena, &im->list_of, 0);
    im->list_of.data[value] = im->list.count;
    kiln_import_define(im, index, value);
    return KILN_OK;
}

/* Input `index` as a list. */
static kiln_status read_list(const kiln_importer *im, uint32_t index,
                             const kiln_import_list **out_list) {
    *out_list = kiln_import_list_of(im, kiln_import_input(im, index));
    return *out_list && !(*out_list)->is_none
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "input %u is no sequence", index);
}

/* Input `index`, a position in a list of `count` items; negative: from the end. */
static kiln_status demand_place(kiln_importer *im, uint32_t index, uint32_t count,
                                uint32_t *out_place) {
    int64_t place = 0;
    kiln_status st = kiln_import_demand_int(im, index, &place);
    if (st) return st;
    if (place < 0) place += count;
    if (place < 0 || place >= count)
        return KILN_ERROR(INVALID_ARGUMENT, "input %u is no place in a sequence of %u", index,
                          count);
    *out_place = (uint32_t)place;
    return KILN_OK;
}

kiln_status kiln_import_identity(kiln_importer *im) {
    if (!kiln_import_reads_list(im)) return kiln_import_node(im);
    kiln_import_define(im, 0, kiln_import_input(im, 0));
    return KILN_OK;
}

/* ---- sequences ------------------------------------------------------------------------------- */

kiln_status kiln_import_sequence_empty(kiln_importer *im) {
    return define_list(im, 0, NULL, 0, false);
}

kiln_status kiln_import_sequence_construct(kiln_importer *im) {
    const uint32_t count = (uint32_t)KILN_MIN(im->node->n_input, ITEMS_MAX + 1);
    kiln_value *item = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, count);
    for (uint32_t i = 0; i < count; i++)
        if (!(item[i] = kiln_import_input(im, i)) || kiln_import_list_of(im, item[i]))
            return KILN_ERROR(INVALID_ARGUMENT, "input %u is no tensor", i);
    return define_list(im, 0, item, count, false);
}

kiln_status kiln_import_sequence_insert(kiln_importer *im) {
    const kiln_import_list *from = NULL;
    const kiln_value item = kiln_import_input(im, 1);
    kiln_status st = read_list(im, 0, &from);
    if (st) return st;
    uint32_t place = from->count;
    if (!item) return KILN_ERROR(INVALID_ARGUMENT, "it has no tensor");
    if (kiln_import_input(im, 2)) {
        int64_t wanted = 0;
        st = kiln_import_demand_int(im, 2, &wanted);
        if (st) return st;
        if (wanted < 0) wanted += from->count;
        if (wanted < 0 || wanted > from->count)
            return KILN_ERROR(INVALID_ARGUMENT, "input 2 is no place in a sequence of %u",
                              from->count);
        place = (uint32_t)wanted;
    }
    kiln_value *to = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, from->count + 1);
    for (uint32_t i = 0; i <= from->count; i++)
        to[i] = i < place ? from->item[i] : i == place ? item : from->item[i - 1];
    return define_list(im, 0, to, from->count + 1, false);
}

kiln_status kiln_import_sequence_erase(kiln_importer *im) {
    const kiln_import_list *from = NULL;
    kiln_status st = read_list(im, 0, &from);
    if (st) return st;
    uint32_t place = from->count - 1, kept = 0;
    if (kiln_import_input(im, 1)) st = demand_place(im, 1, from->count, &place);
    if (!st && from->count == 0) st = KILN_ERROR(INVALID_ARGUMENT, "the sequence is empty");
    if (st) return st;
    kiln_value *to = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, from->count);
    for (uint32_t i = 0; i < from->count; i++)
        if (i != place) to[kept++] = from->item[i];
    return define_list(im, 0, to, kept, false);
}

kiln_status kiln_import_sequence_at(kiln_importer *im) {
    const kiln_import_list *from = NULL;
    uint32_t place = 0;
    kiln_status st = read_list(im, 0, &from);
    if (!st) st = demand_place(im, 1, from->count, &place);
    if (!st) kiln_import_define(im, 0, from->item[place]);
    return st;
}

kiln_status kiln_import_sequence_length(kiln_importer *im) {
    const kiln_import_list *from = NULL;
    kiln_status st = read_list(im, 0, &from);
    if (st) return st;
    kiln_tensor count = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){0});
    *(int64_t *)count.data = from->count;
    kiln_import_define_constant(im, &count);
    return KILN_OK;
}

static kiln_status read_axis(const kiln_importer *im, uint32_t rank, int64_t otherwise,
                             uint32_t *out_axis) {
    int64_t axis = kiln_import_int(im, "axis", otherwise);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axis is out of range");
    *out_axis = (uint32_t)axis;
    return KILN_OK;
}

kiln_status kiln_import_concat_sequence(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_import_list *from = NULL;
    const bool is_new = kiln_import_int(im, "new_axis", 0) != 0;
    uint32_t axis = 0;
    kiln_status st = read_list(im, 0, &from);
    if (!st && from->count == 0) st = KILN_ERROR(INVALID_ARGUMENT, "the sequence is empty");
    if (!st && !kiln_import_attribute(im, "axis"))
        st = KILN_ERROR(INVALID_ARGUMENT, "attribute axis is missing");
    if (!st) st = read_axis(im, kiln_compose_shape(&c, from->item[0])->rank + is_new, 0, &axis);
    if (st) return st;
    kiln_value *item = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, from->count);
    const int64_t at = axis;
    for (uint32_t i = 0; i < from->count; i++)
        item[i] = is_new ? kiln_compose_ints(&c, KILN_OP_UNSQUEEZE, from->item[i], "axes", &at, 1)
                         : from->item[i];
    const kiln_value whole = kiln_compose_concat(&c, item, from->count, axis);
    kiln_compose_define(&c, 0,
                        whole == item[0] ? kiln_compose_unary(&c, KILN_OP_IDENTITY, whole) : whole);
    return c.st;
}

/* Lengths of the parts: one for all, one for each, or 1. */
static kiln_status read_lengths(kiln_importer *im, int64_t extent, int64_t **out_length,
                                uint32_t *out_count) {
    kiln_tensor split = {0};
    int64_t each = 1, sum = 0;
    const bool given = kiln_import_input(im, 1) != 0;
    kiln_status st = given ? kiln_import_demand(im, 1, &split) : KILN_OK;
    if (st) return st;
    const bool is_list = given && split.shape.rank == 1;
    if (given && !is_list) st = kiln_import_demand_int(im, 1, &each);
    if (!st && is_list && split.dtype != KILN_I64 && split.dtype != KILN_I32)
        st = KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold integers");
    if (!st && (each < 1 || split.shape.rank > 1))
        st = KILN_ERROR(INVALID_ARGUMENT, "input 1: parts of %lld", (long long)each);
    if (st) return st;
    const int64_t count = is_list ? split.shape.dim[0] : extent / each + (extent % each != 0);
    if (count > ITEMS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "a sequence of %lld tensors", (long long)count);
    *out_length = KILN_ARENA_ARRAY(im->graph->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = is_list ? kiln_dtype_load_i64(split.dtype, split.data, (size_t)i)
                                       : KILN_MIN(each, extent - sum);
        if (length < 0 || length > extent - sum)
            return KILN_ERROR(INVALID_ARGUMENT, "input 1: parts of more than there is");
        (*out_length)[i] = length;
        sum += length;
    }
    *out_count = (uint32_t)count;
    return sum == extent ? KILN_OK
                         : KILN_ERROR(INVALID_ARGUMENT, "input 1: parts of less than there is");
}

kiln_status kiln_import_split_to_sequence(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0);
    uint32_t axis = 0, count = 0;
    int64_t *length = NULL, from = 0;
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    const bool dropped = !kiln_import_input(im, 1) && !kiln_import_int(im, "keepdims", 1);
    kiln_status st = read_axis(im, kiln_compose_shape(&c, x)->rank, 0, &axis);
    if (!st) st = read_lengths(im, kiln_compose_shape(&c, x)->dim[axis], &length, &count);
    if (st) return st;
    kiln_value *item = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, count);
    const int64_t at = axis;
    for (uint32_t i = 0; i < count; from += length[i++]) {
        item[i] = kiln_compose_slice(&c, x, axis, from, from + length[i]);
        if (dropped) item[i] = kiln_compose_ints(&c, KILN_OP_SQUEEZE, item[i], "axes", &at, 1);
    }
    return c.st ? c.st : define_list(im, 0, item, count, false);
}

/* Imports the body for each item of the sequences; tensors are the same for all. */
kiln_status kiln_import_sequence_map(kiln_importer *im) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, "body");
    const Onnx__GraphProto *body = a ? a->g : NULL;
    const uint32_t inputs = (uint32_t)im->node->n_input, outputs = (uint32_t)im->node->n_output;
    const kiln_import_list *first = NULL;
    kiln_status st = read_list(im, 0, &first);
    if (!st && (!body || body->n_input != inputs || body->n_output != outputs))
        st = KILN_ERROR(INVALID_ARGUMENT, "its body does not have its inputs and outputs");
    if (st) return st;
    const uint32_t count = first->count, problems = im->problems.count;
    kiln_value *input = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, inputs),
               *output = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, outputs),
               *item = KILN_ARENA_ARRAY(im->graph->arena, kiln_value, (size_t)outputs * count);
    for (uint32_t i = 0; !st && i < count && problems == im->problems.count; i++) {
        for (uint32_t k = 0; k < inputs; k++) {
            const kiln_import_list *list = kiln_import_list_of(im, kiln_import_input(im, k));
            if (list && list->count != count)
                return KILN_ERROR(INVALID_ARGUMENT, "its sequences differ in length");
            input[k] = list ? list->item[i] : kiln_import_input(im, k);
        }
        st = kiln_import_body(im, body, input, output);
        for (uint32_t k = 0; !st && k < outputs; k++) item[k * count + i] = output[k];
    }
    for (uint32_t k = 0; !st && k < outputs && problems == im->problems.count; k++)
        st = define_list(im, k, item + (size_t)k * count, count, false);
    return st;
}

/* ---- optional values ------------------------------------------------------------------------- */

kiln_status kiln_import_optional(kiln_importer *im) {
    const kiln_value value = kiln_import_input(im, 0);
    if (!value) return define_list(im, 0, NULL, 0, true);
    kiln_import_define(im, 0, value);
    return KILN_OK;
}

kiln_status kiln_import_optional_has(kiln_importer *im) {
    const kiln_value value = kiln_import_input(im, 0);
    const kiln_import_list *list = kiln_import_list_of(im, value);
    kiln_tensor has = kiln_tensor_create(im->graph->arena, KILN_BOOL, &(kiln_shape){0});
    *(uint8_t *)has.data = value && !(list && list->is_none);
    kiln_import_define_constant(im, &has);
    return KILN_OK;
}

kiln_status kiln_import_optional_get(kiln_importer *im) {
    const kiln_value value = kiln_import_input(im, 0);
    const kiln_import_list *list = kiln_import_list_of(im, value);
    if (!value || (list && list->is_none))
        return KILN_ERROR(INVALID_ARGUMENT, "there is no value to get");
    kiln_import_define(im, 0, value);
    return KILN_OK;
}
