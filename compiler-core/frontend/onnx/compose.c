/* Appends nodes without a counterpart in ONNX. */
#include "compiler-core/frontend/onnx/compose.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/graph/op.h"

/* Limit of one filled constant: larger ones are broadcast at run time, as passes would not fold
 * them. */
#define STORED_BYTES_MAX ((size_t)16 << 20)

/* ---- attributes of the ONNX node ------------------------------------------------------------- */

int64_t kiln_import_int(const kiln_importer *im, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a ? a->i : otherwise;
}

double kiln_import_float(const kiln_importer *im, const char *name, double otherwise) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a ? (double)a->f : otherwise;
}

kiln_str kiln_import_text(const kiln_importer *im, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    return a ? kiln_proto_bytes(a->s) : kiln_str_from(otherwise);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void kiln_compose_fail(kiln_composer *c, kiln_status st) {
    if (c->st)
        kiln_status_free(st); /* errors caused by the first one are dropped */
    else
        c->st = st;
}

void kiln_compose_node(kiln_composer *c, kiln_op op, const kiln_value *input, uint32_t input_count,
                       const kiln_attr *attr, uint32_t attr_count, kiln_value *output,
                       uint32_t output_count) {
    kiln_graph *graph = c->im->graph;
    memset(output, 0, sizeof *output * output_count);
    if (!c->st && (graph->node.count == KILN_GRAPH_NODES_MAX ||
                   graph->value.count + output_count >= KILN_GRAPH_VALUES_MAX))
        c->st = KILN_ERROR(UNIMPLEMENTED, "so many nodes");
    for (uint32_t i = 0; i < input_count && !c->st; i++)
        if (kiln_import_list_of(c->im, input[i]))
            c->st = KILN_ERROR(UNIMPLEMENTED, "a sequence that is known at run time only");
    if (c->st) return;
    kiln_str name = kiln_import_fresh_name(c->im);
    kiln_node node = kiln_graph_add_node(graph, op, name, input_count, output_count);
    for (uint32_t i = 0; i < input_count; i++) kiln_graph_set_input(graph, node, i, input[i]);
    for (uint32_t i = 0; i < attr_count; i++) kiln_graph_set_attr(graph, node, &attr[i]);
    for (uint32_t i = 0; i < output_count; i++) {
        output[i] = kiln_graph_add_named_value(graph, i ? kiln_import_fresh_name(c->im) : name);
        kiln_graph_set_output(graph, node, i, output[i]);
    }
    c->st = kiln_status_note(kiln_node_infer(graph, node), "its part %s", kiln_op_get(op)->name);
}

static kiln_value one_result(kiln_composer *c, kiln_op op, const kiln_value *input,
                             uint32_t input_count, const kiln_attr *attr, uint32_t attr_count) {
    kiln_value output = 0;
    kiln_compose_node(c, op, input, input_count, attr, attr_count, &output, 1);
    return output;
}

kiln_value kiln_compose_unary(kiln_composer *c, kiln_op op, kiln_value a) {
    return one_result(c, op, &a, 1, NULL, 0);
}

kiln_value kiln_compose_binary(kiln_composer *c, kiln_op op, kiln_value a, kiln_value b) {
    return one_result(c, op, (kiln_value[]){a, b}, 2, NULL, 0);
}

kiln_value kiln_compose_gather(kiln_composer *c, kiln_value a, kiln_value index, int64_t axis) {
    const kiln_attr attr = kiln_attr_int("axis", axis);
    return one_result(c, KILN_OP_GATHER, (kiln_value[]){a, index}, 2, &attr, 1);
}

kiln_value kiln_compose_unsqueeze(kiln_composer *c, kiln_value a, int64_t axis) {
    return kiln_compose_ints(c, KILN_OP_UNSQUEEZE, a, "axes", &axis, 1);
}

kiln_value kiln_compose_where(kiln_composer *c, kiln_value condition, kiln_value a, kiln_value b) {
    return one_result(c, KILN_OP_WHERE, (kiln_value[]){condition, a, b}, 3, NULL, 0);
}

kiln_value kiln_compose_ints(kiln_composer *c, kiln_op op, kiln_value a, const char *name,
                             const int64_t *item, uint32_t count) {
    kiln_attr attr = kiln_attr_ints(name, item, count);
    return one_result(c, op, &a, 1, &attr, 1);
}

kiln_value kiln_compose_int(kiln_composer *c, kiln_op op, kiln_value a, const char *name,
                            int64_t value) {
    kiln_attr attr = kiln_attr_int(name, value);
    return one_result(c, op, &a, 1, &attr, 1);
}

kiln_value kiln_compose_reshape(kiln_composer *c, kiln_value a, const kiln_shape *shape) {
    kiln_attr attr[] = {kiln_attr_ints("shape", shape->dim, shape->rank),
                        kiln_attr_int("allowzero", 1)};
    return one_result(c, KILN_OP_RESHAPE, &a, 1, attr, 2);
}

kiln_value kiln_compose_slice(kiln_composer *c, kiln_value a, uint32_t axis, int64_t start,
                              int64_t end) {
    int64_t axes = axis;
    kiln_attr attr[] = {kiln_attr_ints("axes", &axes, 1), kiln_attr_ints("starts", &start, 1),
                        kiln_attr_ints("ends", &end, 1)};
    return one_result(c, KILN_OP_SLICE, &a, 1, attr, 3);
}

kiln_value kiln_compose_gemm(kiln_composer *c, kiln_value a, kiln_value b, kiln_value bias,
                             bool transpose_b) {
    kiln_attr attr = kiln_attr_int("transB", transpose_b);
    return one_result(c, KILN_OP_GEMM, (kiln_value[]){a, b, bias}, bias ? 3 : 2, &attr, 1);
}

kiln_value kiln_compose_cast(kiln_composer *c, kiln_value a, kiln_dtype dtype) {
    if (c->st || kiln_compose_dtype(c, a) == dtype) return a;
    kiln_attr attr = {.name = KILN_STR("to"),
                      .kind = KILN_ATTR_TEXT,
                      .text = kiln_str_from(kiln_dtype_name(dtype))};
    return one_result(c, KILN_OP_CAST, &a, 1, &attr, 1);
}

/* ---- many parts ------------------------------------------------------------------------------ */

/* As few steps as KILN_COMPOSE_FAN allows, each splitting into parts that are multiples of the next
 * step's. */
void kiln_compose_split(kiln_composer *c, kiln_value a, uint32_t axis, uint32_t count,
                        kiln_value *output) {
    memset(output, 0, sizeof *output * count);
    if (c->st) return;
    if (count == 1) {
        output[0] = a;
        return;
    }
    int64_t each = count ? kiln_compose_shape(c, a)->dim[axis] / count : 0;
    uint32_t group = 1; /* parts of the result in one part of this step */
    while ((count + group - 1) / group > KILN_COMPOSE_FAN) group *= KILN_COMPOSE_FAN;
    uint32_t parts = (count + group - 1) / group;
    int64_t size[KILN_COMPOSE_FAN];
    kiln_value part[KILN_COMPOSE_FAN];
    for (uint32_t i = 0; i < parts; i++) size[i] = each * KILN_MIN(group, count - i * group);
    kiln_attr attr[] = {kiln_attr_int("axis", axis), kiln_attr_ints("split", size, parts)};
    kiln_compose_node(c, KILN_OP_SPLIT, &a, 1, attr, 2, part, parts);
    for (uint32_t i = 0; i < parts; i++)
        kiln_compose_split(c, part[i], axis, KILN_MIN(group, count - i * group),
                           output + i * group);
}

kiln_value kiln_compose_concat(kiln_composer *c, const kiln_value *input, uint32_t count,
                               uint32_t axis) {
    KILN_CHECK(count > 0);
    if (count == 1) return input[0];
    uint32_t group = 1;
    while ((count + group - 1) / group > KILN_COMPOSE_FAN) group *= KILN_COMPOSE_FAN;
    uint32_t parts = (count + group - 1) / group;
    kiln_value part[KILN_COMPOSE_FAN];
    for (uint32_t i = 0; i < parts; i++)
        part[i] =
            kiln_compose_concat(c, input + i * group, KILN_MIN(group, count - i * group), axis);
    kiln_attr attr = kiln_attr_int("axis", axis);
    return one_result(c, KILN_OP_CONCAT, part, parts, &attr, 1);
}

/* ---- loops ----------------------------------------------------------------------------------- */

#define LOOP_OPERANDS_MAX KILN_NODE_OPERANDS_MAX

static bool too_many(kiln_composer *c, const kiln_compose_loop *loop) {
    if (!c->st &&
        (uint64_t)loop->carried + loop->row_count + loop->stack_count + 2 > LOOP_OPERANDS_MAX)
        c->st = KILN_ERROR(UNIMPLEMENTED, "a loop with so many operands");
    return c->st != NULL;
}

void kiln_compose_loop_begin(kiln_composer *c, kiln_compose_loop *loop) {
    kiln_value input[LOOP_OPERANDS_MAX], output[LOOP_OPERANDS_MAX];
    uint32_t inputs = 0;
    if (too_many(c, loop)) return;
    input[inputs++] =
        loop->count ? loop->count : kiln_compose_scalar(c, KILN_I64, (double)loop->trips);
    if (loop->condition) input[inputs++] = loop->condition;
    for (uint32_t i = 0; i < loop->carried; i++) input[inputs++] = loop->carry[i];
    for (uint32_t i = 0; i < loop->row_count; i++) input[inputs++] = loop->row[i];
    const kiln_attr attr[] = {kiln_attr_int("trips", loop->trips),
                              kiln_attr_int("carried", loop->carried),
                              kiln_attr_int("guarded", loop->condition != 0),
                              kiln_attr_ints("reversed", loop->row_reversed, loop->row_count)};
    kiln_compose_node(c, KILN_OP_LOOP_BEGIN, input, inputs, attr, loop->row_reversed ? 4 : 3,
                      output, 1 + loop->carried + loop->row_count);
    if (c->st) return;
    loop->number = output[0];
    for (uint32_t i = 0; i < loop->carried; i++) loop->carry[i] = output[1 + i];
    for (uint32_t i = 0; i < loop->row_count; i++) loop->row[i] = output[1 + loop->carried + i];
}

void kiln_compose_loop_end(kiln_composer *c, kiln_compose_loop *loop) {
    kiln_value input[LOOP_OPERANDS_MAX], output[LOOP_OPERANDS_MAX];
    uint32_t inputs = 0;
    if (too_many(c, loop)) return;
    input[inputs++] = loop->number;
    if (loop->condition) input[inputs++] = loop->condition;
    for (uint32_t i = 0; i < loop->carried; i++) input[inputs++] = loop->carry[i];
    for (uint32_t i = 0; i < loop->stack_count; i++) input[inputs++] = loop->stack[i];
    const kiln_attr attr = kiln_attr_ints("reversed", loop->stack_reversed, loop->stack_count);
    kiln_compose_node(c, KILN_OP_LOOP_END, input, inputs, &attr, loop->stack_reversed ? 1 : 0,
                      output, loop->carried + loop->stack_count);
    if (c->st) return;
    for (uint32_t i = 0; i < loop->carried; i++) loop->carry[i] = output[i];
    for (uint32_t i = 0; i < loop->stack_count; i++) loop->stack[i] = output[loop->carried + i];
}

/* [trips][...] to the rows of the iterations. */
static kiln_value *cut_rows(kiln_composer *c, kiln_value rows, int64_t trips) {
    static const int64_t first = 0;
    kiln_value *row = KILN_ARENA_ARRAY(c->im->graph->arena, kiln_value, trips);
    kiln_compose_split(c, rows, 0, (uint32_t)trips, row);
    for (int64_t i = 0; i < trips; i++)
        row[i] = kiln_compose_ints(c, KILN_OP_SQUEEZE, row[i], "axes", &first, 1);
    return row;
}

/* The inverse. */
static kiln_value stack_rows(kiln_composer *c, kiln_value *row, int64_t trips) {
    static const int64_t first = 0;
    for (int64_t i = 0; i < trips; i++)
        row[i] = kiln_compose_ints(c, KILN_OP_UNSQUEEZE, row[i], "axes", &first, 1);
    return kiln_compose_concat(c, row, (uint32_t)trips, 0);
}

static void unroll(kiln_composer *c, kiln_compose_loop *loop, kiln_compose_iteration iteration,
                   void *context) {
    kiln_arena *arena = c->im->graph->arena;
    kiln_value **row = KILN_ARENA_ARRAY(arena, kiln_value *, loop->row_count),
               **item = KILN_ARENA_ARRAY(arena, kiln_value *, loop->stack_count);
    for (uint32_t k = 0; k < loop->row_count; k++) row[k] = cut_rows(c, loop->row[k], loop->trips);
    for (uint32_t k = 0; k < loop->stack_count; k++)
        item[k] = KILN_ARENA_ARRAY(arena, kiln_value, loop->trips);
    for (int64_t i = 0; i < loop->trips && !c->st; i++) {
        loop->number = kiln_compose_scalar(c, KILN_I64, (double)i);
        for (uint32_t k = 0; k < loop->row_count; k++) loop->row[k] = row[k][i];
        iteration(c, context, loop);
        for (uint32_t k = 0; k < loop->stack_count; k++) item[k][i] = loop->stack[k];
    }
    for (uint32_t k = 0; k < loop->stack_count && !c->st; k++)
        loop->stack[k] = stack_rows(c, item[k], loop->trips);
}

void kiln_compose_repeat(kiln_composer *c, kiln_compose_loop *loop,
                         kiln_compose_iteration iteration, void *context) {
    if (c->st) return;
    if (loop->trips <= kiln_compose_unroll_max(c)) {
        unroll(c, loop, iteration, context);
        return;
    }
    kiln_compose_loop_begin(c, loop);
    iteration(c, context, loop);
    kiln_compose_loop_end(c, loop);
}

int64_t kiln_compose_unroll_max(const kiln_composer *c) {
    uint32_t given = c->im->options->unroll_max;
    return given ? given : KILN_UNROLL_MAX;
}

/* ---- constants ------------------------------------------------------------------------------- */

kiln_value kiln_compose_constant(kiln_composer *c, const kiln_tensor *tensor) {
    if (c->st) return 0;
    if (c->im->graph->value.count >= KILN_GRAPH_VALUES_MAX) {
        c->st = KILN_ERROR(UNIMPLEMENTED, "so many tensors");
        return 0;
    }
    kiln_value value = kiln_graph_add_named_value(c->im->graph, kiln_import_fresh_name(c->im));
    kiln_graph_set_constant(c->im->graph, value, tensor);
    return value;
}

/* A constant of a few bytes is cheap, and may be needed as a value. */
static bool is_stored(const kiln_composer *c, size_t size_bytes) {
    return size_bytes <= STORED_BYTES_MAX && size_bytes <= KILN_MADE_BYTES_MAX - c->im->made_bytes;
}

kiln_value kiln_compose_spread(kiln_composer *c, const kiln_tensor *item, const kiln_shape *shape) {
    size_t size_bytes = 0, each = kiln_dtype_size(item->dtype);
    if (!c->st) c->st = kiln_shape_bytes(shape, item->dtype, &size_bytes);
    if (c->st) return 0;
    if (!is_stored(c, size_bytes)) {
        const kiln_tensor scalar = {item->dtype, {0}, item->data};
        return kiln_compose_ints(c, KILN_OP_EXPAND, kiln_compose_constant(c, &scalar), "shape",
                                 shape->dim, shape->rank);
    }
    c->st = kiln_import_take_memory(c->im, size_bytes);
    if (c->st) return 0;
    kiln_tensor tensor = kiln_tensor_create(c->im->graph->arena, item->dtype, shape);
    for (size_t at = 0; at < size_bytes; at += each)
        memcpy((char *)tensor.data + at, item->data, each);
    return kiln_compose_constant(c, &tensor);
}

kiln_value kiln_compose_filled(kiln_composer *c, kiln_dtype dtype, const kiln_shape *shape,
                               double value) {
    kiln_tensor item = kiln_tensor_create(c->im->graph->arena, dtype, &(kiln_shape){0});
    kiln_dtype_store_f64(dtype, item.data, 0, value);
    return kiln_compose_spread(c, &item, shape);
}

kiln_value kiln_compose_scalar(kiln_composer *c, kiln_dtype dtype, double value) {
    return kiln_compose_filled(c, dtype, &(kiln_shape){0}, value);
}

/* ---- values ---------------------------------------------------------------------------------- */

kiln_dtype kiln_compose_dtype(const kiln_composer *c, kiln_value value) {
    return c->im->graph->value.data[value].dtype;
}

const kiln_shape *kiln_compose_shape(const kiln_composer *c, kiln_value value) {
    return &c->im->graph->value.data[value].shape;
}

void kiln_compose_define(kiln_composer *c, uint32_t index, kiln_value value) {
    if (c->st || index >= c->im->node->n_output || !*c->im->node->output[index]) return;
    kiln_value before = kiln_import_defined(c->im, index);
    if (before && value) { /* a part has the output's name already */
        kiln_value_info *part = &c->im->graph->value.data[before],
                        *whole = &c->im->graph->value.data[value];
        kiln_str name = part->name;
        part->name = whole->name;
        whole->name = name;
    }
    kiln_import_define(c->im, index, value);
}
