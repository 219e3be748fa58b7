/* Operators defined in the graph itself: the attribute `program` is the text of a tensor expression
 * (docs/reference/loop-text.md). Its inputs and constants, in order, are the node's inputs, its
 * outputs the node's outputs. */
#include "base/check.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ops/rules.h"

/* Constants of the program are inputs of the node: the graph says which of them are constant. */
static bool is_input(const kiln_buffer_info *buffer) {
    return buffer->role == KILN_ROLE_INPUT || buffer->role == KILN_ROLE_CONSTANT;
}

/* The node's type for a type of the program. */
static kiln_dtype dtype_of(const kiln_node_info *node, kiln_dtype dtype) {
    return kiln_dtype_is_float(dtype) && kiln_node_int(node, "wide") ? KILN_F64 : dtype;
}

/* ---- rule ------------------------------------------------------------------------------------ */

static kiln_status check_buffer(const kiln_buffer_info *b) {
    if (b->role == KILN_ROLE_PACKED || b->scope != KILN_SCOPE_GLOBAL || b->pinned ||
        b->scale != 0 || b->is_placed || b->range.step != 0 || b->fill != KILN_FILL_UNIFORM ||
        !kiln_layout_is_identity(&b->layout))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "'%.*s' is more than a type and a shape: leave its attributes out",
                          KILN_STR_ARG(b->name));
    return KILN_OK;
}

/* It is a tensor expression that computes every output and has no schedule. */
static kiln_status check_program(const kiln_program *p) {
    if (p->root) return KILN_ERROR(INVALID_ARGUMENT, "it has loops: they belong to a schedule");
    for (kiln_block b = 1; b < p->block.count; b++)
        if (p->block.data[b].init_of || p->block.data[b].predicate)
            return KILN_ERROR(INVALID_ARGUMENT, "block '%.*s' is a part of another one",
                              KILN_STR_ARG(p->block.data[b].name));
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        kiln_status st = check_buffer(info);
        if (st) return st;
        if (!is_input(info) && !kiln_program_producer(p, b))
            return KILN_ERROR(INVALID_ARGUMENT, "no block computes '%.*s'",
                              KILN_STR_ARG(info->name));
    }
    return KILN_OK;
}

static kiln_status check_input(const kiln_infer *infer, uint32_t index,
                               const kiln_buffer_info *buffer) {
    const kiln_value_info *value = kiln_infer_input(infer, index);
    const kiln_dtype dtype = dtype_of(infer->node, buffer->dtype);
    if (value && value->dtype == dtype && kiln_shape_equal(&value->shape, &buffer->shape))
        return KILN_OK;
    kiln_strbuf shape = {0};
    kiln_shape_print(&buffer->shape, &shape);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "input %u is not '%.*s', a %s%s", index,
                                KILN_STR_ARG(buffer->name), kiln_dtype_name(dtype), shape.data);
    kiln_strbuf_deinit(&shape);
    return st;
}

static kiln_status infer_operands(const kiln_program *p, kiln_infer *infer) {
    uint32_t inputs = 0, outputs = 0;
    kiln_status st = KILN_OK;
    for (kiln_buffer b = 1; !st && b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        if (is_input(info)) {
            st = check_input(infer, inputs++, info);
        } else if (info->role == KILN_ROLE_OUTPUT) {
            if (outputs < infer->node->output_count) {
                infer->dtype[outputs] = dtype_of(infer->node, info->dtype);
                infer->shape[outputs] = info->shape;
            }
            outputs++;
        }
    }
    if (!st && (inputs != infer->node->input_count || outputs != infer->node->output_count))
        st = KILN_ERROR(INVALID_ARGUMENT, "it has %u inputs and %u outputs, the node %u and %u",
                        inputs, outputs, infer->node->input_count, infer->node->output_count);
    return st;
}

kiln_status kiln_rule_expression(kiln_infer *infer) {
    kiln_arena scratch;
    kiln_program *p = NULL;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_program_parse(kiln_node_text(infer->node, "program"), &scratch, &p);
    if (!st) st = check_program(p);
    if (!st) st = infer_operands(p, infer);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "attribute program");
}

/* ---- tensor expression ----------------------------------------------------------------------- */

typedef struct copier {
    kiln_te *te;
    const kiln_program *from;
    kiln_buffer *buffer; /* [from's buffers] the same of te->p; 0: a literal */
    uint32_t *input;     /* [from's buffers] of the node */
    kiln_var *var;       /* [from's variables] likewise */
    kiln_expr *done;     /* [from's expressions] the copy, made in block `done_in` */
    kiln_block *done_in; /* likewise; 0: of none yet */
    kiln_block block;    /* that is copied */
} copier;

static void map_buffers(copier *c) {
    uint32_t inputs = 0, outputs = 0;
    for (kiln_buffer b = 1; b < c->from->buffer.count; b++) {
        const kiln_buffer_info *info = &c->from->buffer.data[b];
        if (is_input(info)) {
            c->input[b] = inputs;
            c->buffer[b] = c->te->input[inputs++];
            continue;
        }
        kiln_buffer wanted = info->role == KILN_ROLE_OUTPUT ? c->te->output[outputs++] : 0;
        kiln_str name = kiln_str_copy(c->te->p->arena, info->name);
        c->buffer[b] = wanted
                           ? wanted
                           : kiln_buffer_create(c->te->p, name, dtype_of(c->te->node, info->dtype),
                                                KILN_ROLE_TEMP, &info->shape);
    }
}

static kiln_expr copy_expr(copier *c, kiln_expr e) {
    if (!e || c->done_in[e] == c->block) return e ? c->done[e] : 0;
    const kiln_expr_node *node = kiln_expr_get(c->from, e);
    kiln_expr operand[KILN_RANK_MAX] = {0};
    for (uint32_t i = 0; i < node->operand_count; i++)
        operand[i] = copy_expr(c, kiln_expr_operand(c->from, e, i));
    if (node->op == KILN_EXPR_VAR) {
        c->done[e] = kiln_expr_var(c->te->p, c->var[node->payload.id]);
    } else if (node->op == KILN_EXPR_TF32 && kiln_node_int(c->te->node, "wide")) {
        c->done[e] = operand[0];
    } else if (node->op != KILN_EXPR_LOAD) {
        kiln_expr_node like = *node;
        like.dtype = (uint8_t)dtype_of(c->te->node, (kiln_dtype)node->dtype);
        c->done[e] = kiln_expr_make(c->te->p, &like, operand, node->operand_count);
    } else if (is_input(&c->from->buffer.data[node->payload.id])) {
        c->done[e] = kiln_te_load_raw(c->te, c->input[node->payload.id], operand);
    } else {
        c->done[e] =
            kiln_expr_load(c->te->p, c->buffer[node->payload.id], operand, node->operand_count);
    }
    c->done_in[e] = c->block;
    return c->done[e];
}

static void copy_block(copier *c, kiln_block block) {
    const kiln_block_info *b = &c->from->block.data[block];
    kiln_program *p = c->te->p;
    kiln_block made = kiln_block_create(p, kiln_str_copy(p->arena, b->name));
    kiln_expr index[KILN_RANK_MAX];
    c->block = block;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const char *name = kiln_str_dup(p->arena, kiln_iter_name(c->from, &b->iter[i]));
        kiln_expr iter = kiln_block_add_iter(p, made, name, b->iter[i].extent, b->iter[i].reduce);
        c->var[b->iter[i].var] = kiln_expr_get(p, iter)->payload.id;
    }
    for (uint32_t i = 0; i < b->index_count; i++) index[i] = copy_expr(c, b->index[i]);
    kiln_expr value = copy_expr(c, b->value), init = copy_expr(c, b->init);
    kiln_block_set(p, made, c->buffer[b->buffer], index, b->index_count, b->combiner, value, init);
}

void kiln_te_expression(kiln_te *te) {
    kiln_arena scratch;
    kiln_program *from = NULL;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_program_parse(kiln_node_text(te->node, "program"), &scratch, &from);
    KILN_CHECK(st == NULL); /* the rule has read it */
    copier c = {.te = te, .from = from};
    c.buffer = KILN_ARENA_ARRAY(&scratch, kiln_buffer, from->buffer.count);
    c.input = KILN_ARENA_ARRAY(&scratch, uint32_t, from->buffer.count);
    c.var = KILN_ARENA_ARRAY(&scratch, kiln_var, from->var.count);
    c.done = KILN_ARENA_ARRAY(&scratch, kiln_expr, from->expr.count);
    c.done_in = KILN_ARENA_ARRAY(&scratch, kiln_block, from->expr.count);
    map_buffers(&c);
    for (kiln_block b = 1; b < from->block.count; b++) copy_block(&c, b);
    kiln_arena_deinit(&scratch);
}
