/* The operator table and functions for any operator: inference, building, evaluation. */
#include "compiler-core/graph/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "compiler-core/graph/attr.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ops/rules.h"

/* For a model without constants: less than a second. Points of merges and of interpolation have
 * hundreds of expressions, those of most operators five to fifteen. */
#define EFFORT_POINTS 2e7
#define EFFORT_EXPRS 2e8
#define EFFORT_EXPRS_OF_BYTE 10.0
#define EFFORT_BYTES ((uint64_t)64 << 20)

#define MANY KILN_OP_MANY
static const kiln_op_info op_table[] = {
    [KILN_OP_NONE] = {.name = "none", .dtypes = "", .attrs = ""},
#define X(id, name, least, most, results, dtypes, attrs, rule, te, element) \
    [KILN_OP_##id] = {name,                                                 \
                      least,                                                \
                      most,                                                 \
                      results,                                              \
                      dtypes,                                               \
                      attrs,                                                \
                      kiln_rule_##rule,                                     \
                      kiln_te_##te,                                         \
                      kiln_element_##element},
#include "compiler-core/graph/ops.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(op_table) == KILN_OP_COUNT, "one row per operator");

/* The functions of "alias" and "none" in ops.def; never called. */
void kiln_te_alias(kiln_te *context) { KILN_CHECK(context == NULL); }
void kiln_te_loop(kiln_te *context) { KILN_CHECK(context == NULL); }
kiln_expr kiln_element_none(kiln_te *context, const kiln_expr *x) {
    KILN_CHECK(context == NULL);
    return x[0];
}

const kiln_op_info *kiln_op_get(kiln_op op) {
    KILN_CHECK((unsigned)op < KILN_OP_COUNT);
    return &op_table[op];
}

bool kiln_op_find(kiln_str name, kiln_op *out_op) {
    for (uint32_t op = 1; op < KILN_OP_COUNT; op++) {
        if (!kiln_str_is(name, op_table[op].name)) continue;
        *out_op = (kiln_op)op;
        return true;
    }
    return false;
}

bool kiln_op_is_alias(kiln_op op) { return kiln_op_get(op)->build == kiln_te_alias; }
bool kiln_op_keeps_elements(kiln_op op) {
    switch ((int)op) {
    case KILN_OP_CONCAT:
    case KILN_OP_DEPTH_TO_SPACE:
    case KILN_OP_EXPAND:
    case KILN_OP_GLOBAL_MAX_POOL:
    case KILN_OP_MAX_POOL:
    case KILN_OP_REDUCE_MAX:
    case KILN_OP_REDUCE_MIN:
    case KILN_OP_SLICE:
    case KILN_OP_SPACE_TO_DEPTH:
    case KILN_OP_SPLIT:
    case KILN_OP_TILE:
    case KILN_OP_TRANSPOSE: return true;
    default: return kiln_op_is_alias(op) && op != KILN_OP_BIT_CAST;
    }
}
bool kiln_op_is_loop(kiln_op op) { return kiln_op_get(op)->build == kiln_te_loop; }

/* ---- inference ------------------------------------------------------------------------------- */

static char dtype_letter(kiln_dtype dtype) {
    switch (kiln_dtype_kind_of(dtype)) {
    case KILN_KIND_FLOAT: return 'f';
    case KILN_KIND_INT: return 'i';
    case KILN_KIND_UINT: return 'u';
    case KILN_KIND_BOOL: return 'b';
    }
    return '?';
}

static kiln_status check_operands(const kiln_graph *graph, const kiln_node_info *node,
                                  const kiln_op_info *op) {
    uint32_t most = op->inputs_max == MANY ? KILN_NODE_OPERANDS_MAX : op->inputs_max;
    uint32_t results = op->outputs_max == MANY ? KILN_NODE_OPERANDS_MAX : op->outputs_max;
    if (node->input_count < op->inputs_min || node->input_count > most)
        return KILN_ERROR(INVALID_ARGUMENT, "%u inputs; %u to %u are allowed", node->input_count,
                          op->inputs_min, most);
    if (node->output_count == 0 || node->output_count > results)
        return KILN_ERROR(INVALID_ARGUMENT, "%u outputs; 1 to %u are allowed", node->output_count,
                          results);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!node->input[i]) {
            if (i < op->inputs_min || op->inputs_max == MANY)
                return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", i);
        } else if (graph->value.data[node->input[i]].dtype == KILN_DTYPE_NONE) {
            return KILN_ERROR(INVALID_ARGUMENT, "input %u has no type", i);
        }
    }
    kiln_dtype first = graph->value.data[node->input[0]].dtype;
    if (!strchr(op->dtypes, dtype_letter(first)))
        return KILN_ERROR(UNIMPLEMENTED, "is not supported on elements of type %s",
                          kiln_dtype_name(first));
    return KILN_OK;
}

/* The rule's result becomes the outputs' type, after a check of its sizes. */
static kiln_status set_outputs(kiln_graph *graph, const kiln_node_info *node,
                               const kiln_infer *infer) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->output[i]) continue;
        size_t size_bytes;
        kiln_status st = kiln_shape_bytes(&infer->shape[i], infer->dtype[i], &size_bytes);
        if (st) return kiln_status_note(st, "output %u", i);
        kiln_value_info *out = &graph->value.data[node->output[i]];
        out->dtype = infer->dtype[i];
        out->shape = infer->shape[i];
    }
    return KILN_OK;
}

kiln_status kiln_node_infer(kiln_graph *graph, kiln_node node) {
    const kiln_node_info *info = &graph->node.data[node];
    const kiln_op_info *op = kiln_op_get(info->op);
    kiln_dtype dtype[KILN_NODE_OPERANDS_MAX];
    kiln_shape shape[KILN_NODE_OPERANDS_MAX];
    kiln_infer infer = {graph, info, dtype, shape};
    kiln_status st = check_operands(graph, info, op);
    if (st) return st;
    for (uint32_t i = 0; i < info->output_count; i++) {
        dtype[i] = graph->value.data[info->input[0]].dtype;
        shape[i] = graph->value.data[info->input[0]].shape;
    }
    st = kiln_node_check_attrs(info);
    if (!st) st = op->shape(&infer);
    if (!st) st = set_outputs(graph, info, &infer);
    return st;
}

/* ---- building and evaluating ----------------------------------------------------------------- */

bool kiln_value_is_literal(const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    return info->data != NULL && kiln_shape_count(&info->shape) == 1;
}

void kiln_node_build(const kiln_graph *graph, kiln_node node, kiln_program *program,
                     const kiln_buffer *input, const kiln_buffer *output) {
    const kiln_node_info *info = &graph->node.data[node];
    kiln_te te = {program, graph, info, input, output};
    kiln_op_get(info->op)->build(&te);
}

kiln_program *kiln_node_program(const kiln_graph *graph, kiln_node node, kiln_arena *arena,
                                kiln_buffer *in) {
    const kiln_node_info *info = &graph->node.data[node];
    kiln_program *p = kiln_program_create(arena, kiln_str_from(kiln_op_get(info->op)->name));
    kiln_buffer out[KILN_NODE_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < info->input_count; i++) {
        const kiln_value_info *v = &graph->value.data[info->input[i]];
        in[i] = info->input[i] && !kiln_value_is_literal(graph, info->input[i])
                    ? kiln_buffer_create(p, KILN_STR("in"), v->dtype, KILN_ROLE_INPUT, &v->shape)
                    : 0;
    }
    for (uint32_t i = 0; i < info->output_count; i++) {
        const kiln_value_info *v = &graph->value.data[info->output[i]];
        if (info->output[i])
            out[i] = kiln_buffer_create(p, KILN_STR("out"), v->dtype, KILN_ROLE_OUTPUT, &v->shape);
    }
    kiln_node_build(graph, node, p, in, out);
    return p;
}

static void make_outputs(const kiln_graph *graph, const kiln_node_info *info, kiln_arena *arena,
                         kiln_tensor *output) {
    for (uint32_t i = 0; i < info->output_count; i++) {
        const kiln_value_info *v = &graph->value.data[info->output[i]];
        if (info->output[i]) output[i] = kiln_tensor_create(arena, v->dtype, &v->shape);
    }
}

/* Expressions that `e` is computed from, itself included, that are not in `seen` ([expressions]) as
 * of `block`. */
static uint32_t count_exprs(const kiln_program *p, kiln_expr e, kiln_block block,
                            kiln_block *seen) {
    if (e == 0 || seen[e] == block) return 0;
    const uint32_t operand_count = kiln_expr_get(p, e)->operand_count;
    uint32_t count = 1;
    seen[e] = block;
    for (uint32_t i = 0; i < operand_count; i++)
        count += count_exprs(p, kiln_expr_operand(p, e, i), block, seen);
    return count;
}

/* The effort of interpreting; of a select both sides count. Bytes are of its temporary buffers. */
static kiln_effort effort_of(const kiln_program *p, kiln_arena *scratch) {
    kiln_effort effort = {0};
    kiln_block *seen = KILN_ARENA_ARRAY(scratch, kiln_block, p->expr.count);
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_block_info *block = &p->block.data[b];
        double own = 1;
        uint32_t exprs = count_exprs(p, block->value, b, seen);
        for (uint32_t i = 0; i < block->iter_count; i++) own *= (double)block->iter[i].extent;
        for (uint32_t i = 0; i < block->index_count; i++)
            exprs += count_exprs(p, block->index[i], b, seen);
        effort.points += own;
        effort.exprs += own * exprs;
    }
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *buffer = &p->buffer.data[b];
        if (buffer->role == KILN_ROLE_TEMP)
            effort.bytes +=
                (uint64_t)kiln_shape_count(&buffer->shape) * kiln_dtype_size(buffer->dtype);
    }
    return effort;
}

/* Makes the results and computes them, unless that exceeds the remaining effort. */
static kiln_status interpret(const kiln_graph *graph, kiln_node node, const kiln_tensor *input,
                             kiln_effort *effort, kiln_arena *arena, kiln_tensor *output) {
    const kiln_node_info *info = &graph->node.data[node];
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_buffer in[KILN_NODE_OPERANDS_MAX];
    const kiln_program *p = kiln_node_program(graph, node, &scratch, in);
    const kiln_effort own = effort_of(p, &scratch);
    kiln_status st = own.points <= effort->points && own.exprs <= effort->exprs
                         ? KILN_OK
                         : KILN_ERROR(RESOURCE_EXHAUSTED,
                                      "too much work for the compiler: %.3g points of %.3g "
                                      "expressions in all, where %.3g and %.3g are left",
                                      own.points, own.exprs, effort->points, effort->exprs);
    if (!st && own.bytes > effort->bytes)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "too much data for the compiler");
    if (!st) {
        kiln_tensor *args =
            KILN_ARENA_ARRAY(&scratch, kiln_tensor, info->input_count + info->output_count);
        uint32_t count = 0;
        make_outputs(graph, info, arena, output);
        for (uint32_t i = 0; i < info->input_count; i++)
            if (in[i]) args[count++] = input[i];
        for (uint32_t i = 0; i < info->output_count; i++)
            if (output[i].data) args[count++] = output[i];
        st = kiln_te_eval(p, args, count);
        effort->points -= own.points;
        effort->exprs -= own.exprs;
    }
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_effort kiln_effort_for(uint64_t given_bytes) {
    return (kiln_effort){.points = EFFORT_POINTS + (double)given_bytes,
                         .exprs = EFFORT_EXPRS + EFFORT_EXPRS_OF_BYTE * (double)given_bytes,
                         .bytes = EFFORT_BYTES + 4 * given_bytes};
}

kiln_status kiln_node_eval(const kiln_graph *graph, kiln_node node, const kiln_tensor *input,
                           kiln_effort *effort, kiln_arena *arena, kiln_tensor *output) {
    const kiln_node_info *info = &graph->node.data[node];
    uint64_t size_bytes = 0;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < info->output_count; i++) {
        output[i] = (kiln_tensor){0};
        if (!info->output[i]) continue;
        const kiln_value_info *v = &graph->value.data[info->output[i]];
        size_bytes += (uint64_t)kiln_shape_count(&v->shape) * kiln_dtype_size(v->dtype);
    }
    if (kiln_op_is_loop(info->op)) {
        st = KILN_ERROR(UNIMPLEMENTED, "what a loop computes is known at run time only");
    } else if (size_bytes > effort->bytes) {
        st = KILN_ERROR(RESOURCE_EXHAUSTED,
                        "too much data for the compiler: %llu bytes where %llu are left",
                        (unsigned long long)size_bytes, (unsigned long long)effort->bytes);
    } else if (kiln_op_is_alias(info->op)) {
        make_outputs(graph, info, arena, output);
        memcpy(output[0].data, input[0].data, kiln_tensor_bytes(&output[0]));
    } else {
        st = interpret(graph, node, input, effort, arena, output);
    }
    if (!st) effort->bytes -= size_bytes;
    return kiln_status_note(st, "evaluating %s \"%.*s\"", kiln_op_get(info->op)->name,
                            KILN_STR_ARG(info->name));
}

/* ---- evaluating values ----------------------------------------------------------------------- */

void kiln_evaluation_init(kiln_evaluation *evaluation, kiln_effort effort) {
    *evaluation = (kiln_evaluation){.effort = effort};
    kiln_map_init(&evaluation->place);
}

void kiln_evaluation_deinit(kiln_evaluation *evaluation) {
    kiln_map_deinit(&evaluation->place);
    kiln_vec_deinit(&evaluation->tensor);
    kiln_vec_deinit(&evaluation->awaited);
}

static kiln_str key_of(const uint32_t *id) { return (kiln_str){(const char *)id, sizeof *id}; }

static bool find_result(const kiln_evaluation *evaluation, kiln_value value,
                        kiln_tensor *out_tensor) {
    uint64_t place;
    if (!kiln_map_find(&evaluation->place, key_of(&value), &place)) return false;
    *out_tensor = evaluation->tensor.data[place];
    return true;
}

typedef KILN_VEC(kiln_node) node_list;

/* Values come after those that they are computed from. */
static kiln_value find_awaited(const kiln_graph *graph, kiln_value value,
                               const kiln_evaluation *evaluation) {
    const kiln_value_info *info = &graph->value.data[value];
    if (!value || info->data) return 0;
    if (!info->producer) return value;
    const kiln_node_info *node = &graph->node.data[info->producer];
    for (uint32_t i = 0; i < node->input_count; i++) {
        kiln_value input = evaluation->awaited.data[node->input[i]];
        if (input) return input;
    }
    return 0;
}

kiln_value kiln_value_awaits(const kiln_graph *graph, kiln_value value,
                             kiln_evaluation *evaluation) {
    for (;;) {
        for (kiln_value v = evaluation->awaited.count; v <= value; v++)
            kiln_vec_push(&evaluation->awaited, find_awaited(graph, v, evaluation));
        kiln_value input = evaluation->awaited.data[value];
        if (!input || !graph->value.data[input].data) return input;
        evaluation->awaited.count = 0; /* the input is bound to data */
    }
}

/* The nodes that `value` is computed by and that were not evaluated yet, in no order. */
static void find_needed(const kiln_graph *graph, kiln_value value,
                        const kiln_evaluation *evaluation, node_list *out) {
    kiln_map seen;
    kiln_tensor ignored;
    kiln_map_init(&seen);
    kiln_vec_push(out, graph->value.data[value].producer);
    for (uint32_t at = 0; at < out->count; at++) {
        const kiln_node_info *node = &graph->node.data[out->data[at]];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const kiln_value v = node->input[i];
            const kiln_value_info *in = &graph->value.data[v];
            if (!v || in->data || find_result(evaluation, v, &ignored)) continue;
            if (kiln_map_put(&seen, key_of(&in->producer), 0)) kiln_vec_push(out, in->producer);
        }
    }
    kiln_map_deinit(&seen);
}

static int by_place(const void *a, const void *b) {
    const kiln_node x = *(const kiln_node *)a, y = *(const kiln_node *)b;
    return (x > y) - (x < y);
}

static kiln_status evaluate_node(const kiln_graph *graph, kiln_node n, kiln_evaluation *evaluation,
                                 kiln_arena *scratch) {
    const kiln_node_info *node = &graph->node.data[n];
    kiln_tensor *input = KILN_ARENA_ARRAY(scratch, kiln_tensor, node->input_count);
    kiln_tensor *output = KILN_ARENA_ARRAY(scratch, kiln_tensor, node->output_count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const kiln_value v = node->input[i];
        if (!v) continue;
        if (kiln_value_is_constant(graph, v))
            input[i] = kiln_value_tensor(graph, v);
        else
            KILN_CHECK(find_result(evaluation, v, &input[i]));
    }
    kiln_status st = kiln_node_eval(graph, n, input, &evaluation->effort, graph->arena, output);
    for (uint32_t i = 0; !st && i < node->output_count; i++) {
        if (!node->output[i]) continue;
        kiln_map_put(&evaluation->place, key_of(&node->output[i]), evaluation->tensor.count);
        kiln_vec_push(&evaluation->tensor, output[i]);
    }
    return st;
}

kiln_status kiln_value_evaluate(const kiln_graph *graph, kiln_value value,
                                kiln_evaluation *evaluation, kiln_tensor *out_tensor) {
    if (kiln_value_is_constant(graph, value)) {
        *out_tensor = kiln_value_tensor(graph, value);
        return KILN_OK;
    }
    if (find_result(evaluation, value, out_tensor)) return KILN_OK;
    const kiln_value input = kiln_value_awaits(graph, value, evaluation);
    if (input)
        return KILN_ERROR(UNIMPLEMENTED, "%s input %.*s%s is known only at run time",
                          input == value ? "the" : "it depends on the",
                          KILN_STR_ARG(graph->value.data[input].name),
                          input == value ? "" : ", which");
    kiln_arena scratch;
    node_list needed = {0};
    kiln_status st = KILN_OK;
    kiln_arena_init(&scratch, 0);
    find_needed(graph, value, evaluation, &needed);
    qsort(needed.data, needed.count, sizeof *needed.data, by_place);
    for (uint32_t i = 0; !st && i < needed.count; i++)
        st = evaluate_node(graph, needed.data[i], evaluation, &scratch);
    if (!st) KILN_CHECK(find_result(evaluation, value, out_tensor));
    kiln_vec_deinit(&needed);
    kiln_arena_deinit(&scratch);
    return st;
}
