/* Moves that can be windows. */
#include "compiler-core/layout/parts.h"

#include "base/kernel_abi.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/eval.h"

typedef struct finder {
    kiln_program *p; /* a copy: simplifying adds expressions */
    kiln_arg_buffers arg;
    KILN_VEC(kiln_part) part;
} finder;

static uint32_t arg_of(const finder *f, kiln_buffer buffer) {
    uint32_t i = 0;
    while (i < f->arg.count && f->arg.buffer[i] != buffer) i++;
    return i;
}

static const kiln_shape *shape_of(const finder *f, kiln_buffer buffer) {
    return &f->p->buffer.data[buffer].shape;
}

/* The block writes its whole buffer, an argument, in order. */
static bool writes_all(const finder *f, const kiln_block_info *b) {
    const kiln_shape *shape = shape_of(f, b->buffer);
    if (b->combiner != KILN_COMBINE_NONE || f->p->buffer.data[b->buffer].role != KILN_ROLE_OUTPUT ||
        b->index_count != shape->rank || b->iter_count != shape->rank)
        return false;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (b->index[d] != kiln_expr_var(f->p, b->iter[d].var) ||
            b->iter[d].extent != shape->dim[d])
            return false;
    return true;
}

/* Whether index `d` of a load is the block's iterator `d` plus `out_shift`. */
static bool follows(const finder *f, const kiln_block_info *b, kiln_expr load, uint32_t d,
                    int64_t *out_shift) {
    kiln_affine a;
    if (!kiln_affine_of(f->p, kiln_expr_operand(f->p, load, d), NULL, &a)) return false;
    *out_shift = a.constant;
    if (b->iter[d].extent == 1 && a.term_count == 0) return true;
    return a.term_count == 1 && kiln_affine_coefficient(f->p, &a, b->iter[d].var) == 1;
}

/* A load that follows the block's iterators, shifted by `out_shift` along at most the one axis in
 * which the shapes of input and result differ. */
static bool is_window(const finder *f, const kiln_block_info *b, kiln_expr load, uint32_t *out_axis,
                      int64_t *out_shift) {
    const kiln_expr_node *node = kiln_expr_get(f->p, load);
    if (node->op != KILN_EXPR_LOAD || node->operand_count != b->iter_count) return false;
    const kiln_shape *from = shape_of(f, (kiln_buffer)node->payload.id),
                     *to = shape_of(f, b->buffer);
    uint32_t moved = 0;
    for (uint32_t d = 0; d < b->iter_count; d++) {
        int64_t shift = 0;
        if (!follows(f, b, load, d, &shift)) return false;
        if (shift == 0 && from->dim[d] == to->dim[d]) continue;
        *out_axis = d;
        *out_shift = shift;
        moved++;
    }
    return moved == 1;
}

/* `condition` is "iterator of `axis` < out_end". */
static bool ends_at(const finder *f, const kiln_block_info *b, kiln_expr condition, uint32_t axis,
                    int64_t *out_end) {
    const kiln_expr_node *node = kiln_expr_get(f->p, condition);
    return node->op == KILN_EXPR_LT &&
           kiln_expr_operand(f->p, condition, 0) == kiln_expr_var(f->p, b->iter[axis].var) &&
           kiln_expr_as_int(f->p, kiln_expr_operand(f->p, condition, 1), out_end);
}

/* select(i < end, x[i - begin], the rest): input after input along one axis, each of them whole. */
static bool find_joined(finder *f, kiln_arena *arena, const kiln_block_info *b) {
    int64_t begin = 0;
    uint32_t first_axis = 0;
    kiln_expr rest = b->value;
    for (bool more = true; more;) {
        more = kiln_expr_get(f->p, rest)->op == KILN_EXPR_SELECT;
        kiln_expr load = more ? kiln_expr_operand(f->p, rest, 1) : rest;
        kiln_part part = {.whole = arg_of(f, b->buffer)};
        int64_t shift = 0, end = 0;
        if (!is_window(f, b, load, &part.axis, &shift) || shift != -begin) return false;
        kiln_buffer from = (kiln_buffer)kiln_expr_get(f->p, load)->payload.id;
        if (f->part.count == 0) first_axis = part.axis;
        if (part.axis != first_axis) return false;
        int64_t extent = shape_of(f, from)->dim[part.axis];
        if (more && (!ends_at(f, b, kiln_expr_operand(f->p, rest, 0), part.axis, &end) ||
                     end != begin + extent))
            return false;
        part.arg = arg_of(f, from);
        part.begin = begin;
        kiln_vec_push_in(arena, &f->part, part);
        begin += extent;
        if (more) rest = kiln_expr_operand(f->p, rest, 2);
    }
    return begin == shape_of(f, b->buffer)->dim[first_axis];
}

/* x[i + begin]: a part of the one input. */
static bool find_cut(finder *f, kiln_arena *arena, const kiln_block_info *b) {
    kiln_part part = {.arg = arg_of(f, b->buffer)};
    if (!is_window(f, b, b->value, &part.axis, &part.begin) || part.begin < 0) return false;
    kiln_buffer from = (kiln_buffer)kiln_expr_get(f->p, b->value)->payload.id;
    part.whole = arg_of(f, from);
    if (f->part.count && f->part.data[0].whole != part.whole) return false;
    kiln_vec_push_in(arena, &f->part, part);
    return part.begin + shape_of(f, b->buffer)->dim[part.axis] <= shape_of(f, from)->dim[part.axis];
}

kiln_parts kiln_parts_of(const kiln_program *te, kiln_arena *arena) {
    finder f = {.p = kiln_program_copy(te, arena)};
    f.arg = kiln_program_args(f.p);
    uint32_t blocks = f.p->block.count - 1;
    bool joins =
             blocks == 1 && kiln_expr_get(f.p, f.p->block.data[1].value)->op == KILN_EXPR_SELECT,
         fits = blocks > 0;
    for (kiln_block b = 1; fits && b <= blocks; b++)
        fits = writes_all(&f, &f.p->block.data[b]) &&
               (joins ? find_joined : find_cut)(&f, arena, &f.p->block.data[b]);
    return fits ? (kiln_parts){f.part.count, joins, f.part.data} : (kiln_parts){0};
}

/* ---- in memory ------------------------------------------------------------------------------- */

/* The outermost piece of `axis` is first apart from pieces of one element, and the part begins and
 * ends at its blocks; every other piece is the same for the part as for the whole. */
static bool is_run(const kiln_part *part, const kiln_shape *whole, int64_t extent,
                   const kiln_layout *layout) {
    kiln_shape physical = kiln_layout_physical(layout, whole);
    if (!kiln_layout_is_plain(layout)) return false;
    for (uint32_t j = 0; j < physical.rank; j++) {
        kiln_layout_piece piece =
            layout->piece_count ? layout->piece[j] : (kiln_layout_piece){.dim = j, .divisor = 1};
        if (piece.dim != part->axis) {
            if (physical.dim[j] != 1) return false;
            continue;
        }
        return part->begin % piece.divisor == 0 &&
               (extent % piece.divisor == 0 || part->begin + extent == whole->dim[part->axis]);
    }
    return false;
}

bool kiln_part_offset(const kiln_part *part, const kiln_shape *whole, int64_t extent,
                      kiln_dtype dtype, const kiln_layout *layout, uint64_t *out_bytes) {
    int64_t index[KILN_RANK_MAX] = {0};
    if (!is_run(part, whole, extent, layout)) return false;
    index[part->axis] = part->begin;
    *out_bytes = (uint64_t)kiln_layout_offset(layout, whole, index) * kiln_dtype_size(dtype);
    return *out_bytes % KILN_KERNEL_ALIGNMENT == 0;
}

bool kiln_parts_are_windows(const kiln_parts *parts, const kiln_program *te,
                            const kiln_layout *layout) {
    kiln_arg_buffers arg = kiln_program_args(te);
    for (uint32_t i = 0; i < parts->count; i++) {
        const kiln_part *part = &parts->part[i];
        const kiln_buffer_info *inner = &te->buffer.data[arg.buffer[part->arg]],
                               *whole = &te->buffer.data[arg.buffer[part->whole]];
        uint64_t offset = 0;
        bool agree = inner->role == KILN_ROLE_CONSTANT ||
                     kiln_layout_equal(&layout[part->arg], &layout[part->whole]);
        if (!agree || !kiln_part_offset(part, &whole->shape, inner->shape.dim[part->axis],
                                        whole->dtype, &layout[part->whole], &offset))
            return false;
    }
    return parts->count > 0;
}
