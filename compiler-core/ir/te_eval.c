/* Tensor expressions, evaluated point by point. */
#include "base/alloc.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/interp.h"

typedef struct evaluation {
    kiln_interp in;
    kiln_tensor *tensor; /* [buffer count] */
    kiln_block block;    /* being evaluated, for messages */
} evaluation;

static kiln_status out_of_range(const evaluation *ev, const char *access, kiln_buffer buffer,
                                const int64_t *index) {
    const kiln_buffer_info *b = &ev->in.p->buffer.data[buffer];
    kiln_strbuf text = {0};
    kiln_interp_print_index(index, b->shape.rank, &text);
    kiln_status st = KILN_ERROR(OUT_OF_RANGE, "block %.*s %s %.*s%s, which is outside",
                                KILN_STR_ARG(ev->in.p->block.data[ev->block].name), access,
                                KILN_STR_ARG(b->name), text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status load_element(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                                kiln_scalar *out_value) {
    const evaluation *ev = in->context;
    int64_t offset = kiln_interp_offset(&in->p->buffer.data[buffer].shape, index);
    if (offset < 0) return out_of_range(ev, "reads", buffer, index);
    *out_value =
        kiln_scalar_load(ev->tensor[buffer].dtype, ev->tensor[buffer].data, (size_t)offset);
    return KILN_OK;
}

static void start_iters(evaluation *ev, const kiln_block_info *b, bool reduce) {
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce == reduce) ev->in.var[b->iter[i].var] = 0;
}

/* All reduce points of the current spatial point, without rounding in between. */
static kiln_scalar point_value(evaluation *ev, const kiln_block_info *b) {
    if (b->combiner == KILN_COMBINE_NONE) return kiln_interp_eval(&ev->in, b->value);
    kiln_dtype dtype = ev->in.p->buffer.data[b->buffer].dtype;
    kiln_scalar sum = kiln_interp_eval(&ev->in, b->init);
    if (!kiln_interp_has_points(b, true)) return sum;
    start_iters(ev, b, true);
    do {
        sum = kiln_interp_combine(b->combiner, dtype, sum, kiln_interp_eval(&ev->in, b->value));
    } while (kiln_interp_step(&ev->in, b, true));
    return sum;
}

static kiln_status eval_block(evaluation *ev, kiln_block block) {
    const kiln_block_info *b = &ev->in.p->block.data[block];
    const kiln_tensor *out = &ev->tensor[b->buffer];
    ev->block = block;
    if (!kiln_interp_has_points(b, false)) return KILN_OK;
    start_iters(ev, b, false);
    start_iters(ev, b, true);
    kiln_interp_moved(&ev->in);
    do {
        int64_t index[KILN_RANK_MAX] = {0};
        for (uint32_t i = 0; i < b->index_count; i++)
            index[i] = kiln_interp_eval(&ev->in, b->index[i]).i;
        int64_t offset = kiln_interp_offset(&out->shape, index);
        if (offset < 0) return out_of_range(ev, "writes", b->buffer, index);
        kiln_scalar value = point_value(ev, b);
        if (ev->in.status) break;
        kiln_scalar_store(out->dtype, out->data, (size_t)offset, value);
    } while (kiln_interp_step(&ev->in, b, false));
    kiln_status st = ev->in.status;
    ev->in.status = NULL;
    return st;
}

static kiln_status make_temps(evaluation *ev, kiln_arena *arena) {
    const kiln_program *p = ev->in.p;
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        size_t bytes;
        if (p->buffer.data[b].role != KILN_ROLE_TEMP) continue;
        kiln_status st =
            kiln_shape_bytes(&p->buffer.data[b].shape, p->buffer.data[b].dtype, &bytes);
        if (st) return kiln_status_note(st, "buffer %.*s", KILN_STR_ARG(p->buffer.data[b].name));
        ev->tensor[b] =
            kiln_tensor_create(arena, p->buffer.data[b].dtype, &p->buffer.data[b].shape);
    }
    return KILN_OK;
}

kiln_status kiln_te_eval(const kiln_program *p, const kiln_tensor *args, uint32_t arg_count) {
    kiln_status st = kiln_interp_check_args(p, args, arg_count);
    if (st) return st;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    evaluation *ev = kiln_alloc(sizeof *ev);
    ev->tensor = KILN_ARENA_ARRAY(&scratch, kiln_tensor, p->buffer.count);
    kiln_interp_init(&ev->in, p, load_element, ev);

    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg_count; i++) ev->tensor[arg.buffer[i]] = args[i];
    st = make_temps(ev, &scratch);
    for (kiln_block b = 1; !st && b < p->block.count; b++)
        if (!p->block.data[b].removed) st = eval_block(ev, b);

    kiln_interp_deinit(&ev->in);
    kiln_free(ev);
    kiln_arena_deinit(&scratch);
    return st;
}
