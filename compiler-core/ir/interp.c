#include "compiler-core/ir/interp.h"

#include "base/alloc.h"
#include "base/check.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/text.h"

void kiln_interp_init(kiln_interp *in, const kiln_program *p, kiln_interp_load load,
                      void *context) {
    *in = (kiln_interp){.p = p, .load = load, .context = context, .stamp = 1};
    in->var = kiln_alloc(sizeof *in->var * p->var.count);
    in->stamped = kiln_alloc(sizeof *in->stamped * p->expr.count);
    in->value = kiln_alloc(sizeof *in->value * p->expr.count);
}

void kiln_interp_deinit(kiln_interp *in) {
    kiln_free(in->var);
    kiln_free(in->stamped);
    kiln_free(in->value);
    kiln_status_free(in->status);
    *in = (kiln_interp){0};
}

void kiln_interp_moved(kiln_interp *in) { in->stamp++; }

static kiln_scalar load_at(kiln_interp *in, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(in->p, e);
    int64_t index[KILN_RANK_MAX] = {0};
    kiln_scalar value = {.i = 0};
    for (uint32_t i = 0; i < node->operand_count; i++)
        index[i] = kiln_interp_eval(in, kiln_expr_operand(in->p, e, i)).i;
    KILN_CHECK(in->load != NULL);
    if (!in->status) in->status = in->load(in, node->payload.id, index, &value);
    return value;
}

static kiln_scalar compute(kiln_interp *in, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(in->p, e);
    if (node->op == KILN_EXPR_LOAD) return load_at(in, e);
    if (node->op == KILN_EXPR_SELECT) {
        bool first = kiln_interp_eval(in, kiln_expr_operand(in->p, e, 0)).i != 0;
        return kiln_interp_eval(in, kiln_expr_operand(in->p, e, first ? 1 : 2));
    }
    kiln_scalar operand[2];
    for (uint32_t i = 0; i < node->operand_count; i++)
        operand[i] = kiln_interp_eval(in, kiln_expr_operand(in->p, e, i));
    kiln_dtype from = (kiln_dtype)kiln_expr_get(in->p, kiln_expr_operand(in->p, e, 0))->dtype;
    return kiln_scalar_apply((kiln_expr_op)node->op, from, (kiln_dtype)node->dtype, operand);
}

kiln_scalar kiln_interp_eval(kiln_interp *in, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(in->p, e);
    if (node->op == KILN_EXPR_VAR) return (kiln_scalar){.i = in->var[node->payload.id]};
    if (kiln_expr_is_const(in->p, e)) return (kiln_scalar){.i = node->payload.i};
    if (in->stamped[e] != in->stamp) {
        in->value[e] = compute(in, e);
        in->stamped[e] = in->stamp;
    }
    return in->value[e];
}

kiln_scalar kiln_interp_combine(kiln_combiner combiner, kiln_dtype dtype, kiln_scalar a,
                                kiln_scalar b) {
    const kiln_scalar operand[] = {a, b};
    return kiln_scalar_apply(kiln_combiner_op[combiner], dtype, dtype, operand);
}

bool kiln_interp_has_points(const kiln_block_info *b, bool reduce) {
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce == reduce && b->iter[i].extent <= 0) return false;
    return true;
}

bool kiln_interp_step(kiln_interp *in, const kiln_block_info *b, bool reduce) {
    kiln_interp_moved(in);
    for (uint32_t i = b->iter_count; i-- > 0;) {
        if (b->iter[i].reduce != reduce) continue;
        if (++in->var[b->iter[i].var] < b->iter[i].extent) return true;
        in->var[b->iter[i].var] = 0;
    }
    return false;
}

int64_t kiln_interp_offset(const kiln_shape *shape, const int64_t *index) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (index[i] < 0 || index[i] >= shape->dim[i]) return -1;
        offset = offset * shape->dim[i] + index[i];
    }
    return offset;
}

void kiln_interp_print_index(const int64_t *index, uint32_t count, kiln_strbuf *out) {
    kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)index[i]);
    kiln_strbuf_char(out, ']');
}

kiln_arg_buffers kiln_program_args(const kiln_program *p) {
    struct kiln_arg_list *list = p->args;
    list->buffer.count = 0;
    for (int packed = 0; packed < 2; packed++) {
        for (kiln_buffer b = 1; b < p->buffer.count; b++) {
            kiln_role role = p->buffer.data[b].role;
            if (role != KILN_ROLE_TEMP && (role == KILN_ROLE_PACKED) == packed)
                kiln_vec_push_in(p->arena, &list->buffer, b);
        }
    }
    return (kiln_arg_buffers){list->buffer.count, list->buffer.data};
}

kiln_status kiln_interp_check_args(const kiln_program *p, const kiln_tensor *args,
                                   uint32_t arg_count) {
    kiln_arg_buffers buffer = kiln_program_args(p);
    if (buffer.count != arg_count)
        return KILN_ERROR(INVALID_ARGUMENT, "the program has %u arguments, %u tensors are given",
                          buffer.count, arg_count);
    for (uint32_t i = 0; i < buffer.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[buffer.buffer[i]];
        if (args[i].dtype == b->dtype && kiln_shape_equal(&args[i].shape, &b->shape)) continue;
        return KILN_ERROR(INVALID_ARGUMENT,
                          "tensor %u does not have the dtype and shape of argument %.*s", i,
                          KILN_STR_ARG(b->name));
    }
    return KILN_OK;
}
