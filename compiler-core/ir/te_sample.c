/* Elements on demand: a load of a temp computes the loaded element, once. */
#include "compiler-core/ir/te_sample.h"

#include <math.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/reference.h"
#include "base/vec.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/interp.h"

#define DEPTH_MAX 64 /* blocks between an element and the inputs */
#define RELATIVE_MAX 1e-3

struct kiln_te_sample {
    const kiln_program *p;
    kiln_arg_buffers args;
    kiln_tensor *tensor; /* [buffer count] of arguments */
    kiln_block *maker;   /* [buffer count] that writes it; 0: none */
    kiln_map known;      /* buffer and offset -> index into value */
    KILN_VEC(kiln_scalar) value;
    uint64_t points_left;
    kiln_interp at[DEPTH_MAX]; /* a walk over one block's points each, one within the other */
    uint32_t depth, made;      /* in use; initialised */
};

static kiln_status find_element(kiln_te_sample *s, kiln_buffer buffer, const int64_t *index,
                                kiln_scalar *out_value);

static kiln_status load_element(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                                kiln_scalar *out_value) {
    kiln_te_sample *s = in->context;
    if (s->maker[buffer]) return find_element(s, buffer, index, out_value);
    const kiln_buffer_info *b = &s->p->buffer.data[buffer];
    int64_t offset = kiln_interp_offset(&b->shape, index);
    if (offset < 0)
        return KILN_ERROR(OUT_OF_RANGE, "%.*s is read outside of it", KILN_STR_ARG(b->name));
    *out_value = kiln_scalar_load(s->tensor[buffer].dtype, s->tensor[buffer].data, (size_t)offset);
    return KILN_OK;
}

/* Sets the spatial iterators so that the block writes `index`. False: the block's form does not
 * give them. */
static bool place_iters(const kiln_program *p, const kiln_block_info *b, const int64_t *index,
                        int64_t *var) {
    bool set[KILN_BLOCK_ITERS_MAX] = {0};
    for (uint32_t d = 0; d < b->index_count; d++) {
        int64_t constant = 0;
        if (kiln_expr_as_int(p, b->index[d], &constant)) {
            if (constant != index[d]) return false;
            continue;
        }
        const kiln_expr_node *node = kiln_expr_get(p, b->index[d]);
        if (node->op != KILN_EXPR_VAR) return false;
        for (uint32_t i = 0; i < b->iter_count; i++) {
            if (b->iter[i].var != node->payload.id) continue;
            if (index[d] < 0 || index[d] >= b->iter[i].extent) return false;
            var[b->iter[i].var] = index[d];
            set[i] = true;
        }
    }
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce || b->iter[i].extent == 1)
            var[b->iter[i].var] = 0;
        else if (!set[i])
            return false;
    }
    return true;
}

static bool take_point(kiln_te_sample *s, kiln_interp *in) {
    if (!in->status && s->points_left == 0)
        in->status = KILN_ERROR(RESOURCE_EXHAUSTED, "the element takes too many points");
    s->points_left -= !in->status;
    return !in->status;
}

static kiln_scalar compute(kiln_te_sample *s, kiln_interp *in, const kiln_block_info *b) {
    kiln_dtype dtype = s->p->buffer.data[b->buffer].dtype;
    kiln_scalar result = {.i = 0};
    kiln_interp_moved(in);
    if (!take_point(s, in)) return result;
    if (b->combiner == KILN_COMBINE_NONE) return kiln_interp_eval(in, b->value);
    result = kiln_interp_eval(in, b->init);
    if (!kiln_interp_has_points(b, true)) return result;
    do {
        result = kiln_interp_combine(b->combiner, dtype, result, kiln_interp_eval(in, b->value));
    } while (kiln_interp_step(in, b, true) && take_point(s, in));
    return result;
}

static kiln_status find_element(kiln_te_sample *s, kiln_buffer buffer, const int64_t *index,
                                kiln_scalar *out_value) {
    const kiln_buffer_info *info = &s->p->buffer.data[buffer];
    const kiln_block_info *b = &s->p->block.data[s->maker[buffer]];
    const int64_t place[2] = {(int64_t)buffer, kiln_interp_offset(&info->shape, index)};
    const kiln_str key = {(const char *)place, sizeof place};
    uint64_t known = 0;
    if (place[1] < 0)
        return KILN_ERROR(OUT_OF_RANGE, "%.*s is read outside of it", KILN_STR_ARG(info->name));
    if (kiln_map_find(&s->known, key, &known)) {
        *out_value = s->value.data[known];
        return KILN_OK;
    }
    if (s->depth == DEPTH_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "more than %d blocks in a row", DEPTH_MAX);
    kiln_interp *in = &s->at[s->depth];
    if (s->depth == s->made) {
        kiln_interp_init(in, s->p, load_element, s);
        s->made++;
    }
    if (!place_iters(s->p, b, index, in->var))
        return KILN_ERROR(UNIMPLEMENTED, "block %.*s does not write element by element",
                          KILN_STR_ARG(b->name));
    s->depth++;
    kiln_scalar value = compute(s, in, b);
    s->depth--;
    kiln_status st = in->status;
    in->status = NULL;
    if (st) return st;
    *out_value = kiln_scalar_round(info->dtype, value);
    kiln_map_put(&s->known, key, s->value.count);
    kiln_vec_push(&s->value, *out_value);
    return KILN_OK;
}

kiln_status kiln_te_sample_create(const kiln_program *p, const kiln_tensor *args,
                                  uint32_t arg_count, uint64_t points_max,
                                  kiln_te_sample **out_sample) {
    kiln_status st = kiln_interp_check_args(p, args, arg_count);
    if (st) return st;
    kiln_te_sample *s = kiln_alloc(sizeof *s);
    s->p = p;
    s->points_left = points_max;
    kiln_map_init(&s->known);
    s->args = kiln_program_args(p);
    s->tensor = kiln_alloc(p->buffer.count * sizeof *s->tensor);
    s->maker = kiln_alloc(p->buffer.count * sizeof *s->maker);
    for (uint32_t i = 0; i < arg_count; i++) s->tensor[s->args.buffer[i]] = args[i];
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed) s->maker[p->block.data[b].buffer] = b;
    *out_sample = s;
    return KILN_OK;
}

void kiln_te_sample_destroy(kiln_te_sample *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->made; i++) kiln_interp_deinit(&s->at[i]);
    kiln_map_deinit(&s->known);
    kiln_vec_deinit(&s->value);
    kiln_free(s->tensor);
    kiln_free(s->maker);
    kiln_free(s);
}

kiln_status kiln_te_sample_get(kiln_te_sample *s, kiln_buffer buffer, const int64_t *index,
                               void *out_element) {
    kiln_scalar value;
    kiln_status st = find_element(s, buffer, index, &value);
    if (!st) kiln_scalar_store(s->p->buffer.data[buffer].dtype, out_element, 0, value);
    return st;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static kiln_status compare_one(kiln_te_sample *s, kiln_buffer buffer, int64_t offset,
                               const float *bound) {
    const kiln_buffer_info *info = &s->p->buffer.data[buffer];
    int64_t index[KILN_RANK_MAX] = {0}, rest = offset;
    const uint8_t *got =
        (const uint8_t *)s->tensor[buffer].data + (size_t)offset * kiln_dtype_size(info->dtype);
    double wanted[1]; /* room for any element */
    for (uint32_t d = info->shape.rank; d-- > 0; rest /= info->shape.dim[d])
        index[d] = rest % info->shape.dim[d];
    kiln_status st = kiln_te_sample_get(s, buffer, index, wanted);
    if (st) return st;
    const float usual = (float)(RELATIVE_MAX * fabs(kiln_dtype_load_f64(info->dtype, wanted, 0)));
    const bool real = kiln_dtype_is_float(info->dtype);
    const kiln_reference_output expected = {.dtype = info->dtype,
                                            .value = wanted,
                                            .bound = !real   ? NULL
                                                     : bound ? bound + offset
                                                             : &usual};
    kiln_reference_check check = kiln_reference_compare(&expected, got, 1);
    if (check.mismatch_count == 0) return KILN_OK;
    kiln_strbuf text = {0};
    kiln_interp_print_index(index, info->shape.rank, &text);
    st = KILN_ERROR(DATA_LOSS, "element %s of %.*s is %.9g, and %.9g by the interpreter", text.data,
                    KILN_STR_ARG(info->name), kiln_dtype_load_f64(info->dtype, got, 0),
                    kiln_dtype_load_f64(info->dtype, wanted, 0));
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_te_sample_compare(kiln_te_sample *s, kiln_rand *rand, uint32_t count,
                                   const float *const *bound, uint32_t *out_compared) {
    *out_compared = 0;
    for (uint32_t n = 0; n < count; n++) {
        for (uint32_t i = 0; i < s->args.count; i++) {
            kiln_buffer output = s->args.buffer[i];
            int64_t elements = kiln_shape_count(&s->p->buffer.data[output].shape);
            if (s->p->buffer.data[output].role != KILN_ROLE_OUTPUT || elements == 0) continue;
            int64_t offset = (int64_t)kiln_rand_below(rand, (uint64_t)elements);
            kiln_status st = compare_one(s, output, offset, bound ? bound[i] : NULL);
            kiln_code code = kiln_status_code(st);
            if (code == KILN_RESOURCE_EXHAUSTED || code == KILN_UNIMPLEMENTED) {
                kiln_status_free(st); /* as many elements as time allows, and only where it is
                                       * possible */
                if (code == KILN_RESOURCE_EXHAUSTED) return KILN_OK;
                continue;
            }
            if (st) return st;
            ++*out_compared;
        }
    }
    return KILN_OK;
}
