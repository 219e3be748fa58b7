/* Roles of a byte product's iterators on an accelerator: axes of tiles, or loops around all of
 * them. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/rules/vta.h"

int64_t kiln_vta_extent(const kiln_vta_tiling *t, int iter) {
    return iter < 0 ? 1 : t->s->program->block.data[t->sums].iter[iter].extent;
}

int64_t kiln_vta_tiles(const kiln_vta_tiling *t, kiln_vta_axis axis) {
    int64_t elements = 1;
    if (axis == KILN_VTA_AXIS_OUT) elements = t->machine->block_out;
    if (axis == KILN_VTA_AXIS_IN) elements = t->machine->block_in;
    if (t->iter[axis] == t->batch) elements = t->machine->batch;
    return (kiln_vta_extent(t, t->iter[axis]) + elements - 1) / elements;
}

int64_t kiln_vta_bias_tiles(const kiln_vta_tiling *t) {
    const int dim = t->pattern.to.dim_of[t->iter[KILN_VTA_AXIS_OUT]];
    const int64_t elements = t->s->program->buffer.data[t->pattern.to.buffer].shape.dim[dim];
    return (elements + t->machine->block_out - 1) / t->machine->block_out;
}

/* Reads indices as sums of multiples of iterators; false when one is no such sum. */
static bool learn_indices(kiln_vta_tiling *t, uint32_t from, kiln_vta_operand *out) {
    kiln_program *p = t->s->program;
    const kiln_loads loads = kiln_block_loads(p, t->sums);
    *out = (kiln_vta_operand){.buffer = t->pattern.from[from].buffer};
    for (uint32_t k = 0; k < loads.count; k++) {
        kiln_expr index[KILN_RANK_MAX];
        if (kiln_load_buffer(p, loads.load[k]) != out->buffer) continue;
        out->rank = kiln_load_index(p, loads.load[k], index);
        for (uint32_t d = 0; d < out->rank; d++) {
            kiln_affine sum;
            if (!kiln_affine_of(p, index[d], NULL, &sum) || sum.constant != 0) return false;
            for (uint32_t n = 0; n < sum.term_count; n++) {
                const int i = kiln_block_iter_of(p, t->sums, sum.term[n]);
                if (i < 0 || sum.coefficient[n] < 0) return false;
                out->coefficient[d][i] = sum.coefficient[n];
            }
        }
    }
    return true;
}

static bool reads(const kiln_vta_operand *o, int iter) {
    for (uint32_t d = 0; d < o->rank; d++)
        if (o->coefficient[d][iter]) return true;
    return false;
}

/* Whether the iterator steps along a dimension in blocks of `size`, the last of which may be a part
 * where it runs over all of the dimension. */
static bool is_blocked(const kiln_vta_tiling *t, const kiln_block_access *a, int iter,
                       int64_t size) {
    const int dim = a->dim_of[iter];
    const int64_t extent = kiln_vta_extent(t, iter);
    return dim >= 0 &&
           (extent % size == 0 || extent == t->s->program->buffer.data[a->buffer].shape.dim[dim]);
}

/* Whether tiles are contiguous along the iterator in the result and in its readers.
 */
static bool has_tiles(const kiln_vta_tiling *t, int iter, int64_t size) {
    bool fits = t->s->program->block.data[t->sums].iter[iter].reduce ||
                is_blocked(t, &t->pattern.to, iter, size);
    for (uint32_t a = 0; a < t->pattern.from_count && size > 1; a++)
        if (t->pattern.from[a].iters >> iter & 1)
            fits &= is_blocked(t, &t->pattern.from[a], iter, size);
    return fits;
}

/* The largest iterator that indexes weights and, if it reduces, data as well. */
static int find_tiled(const kiln_vta_tiling *t, bool reduce, int64_t size) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    int found = -1;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce == reduce && reads(&t->weights, i) && reads(&t->data, i) == reduce &&
            has_tiles(t, i, size) &&
            (found < 0 || kiln_vta_extent(t, i) > kiln_vta_extent(t, found)))
            found = i;
    return found;
}

/* The first iterator of positions is rows of a tile, and the last two are axes; one alone is both.
 */
static void find_positions(kiln_vta_tiling *t) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    int *row = &t->iter[KILN_VTA_AXIS_ROW], *column = &t->iter[KILN_VTA_AXIS_COLUMN];
    t->batch = *row = *column = -1;
    for (int i = 0; i < (int)b->iter_count; i++) {
        const bool one = b->iter[i].extent == 1 && t->machine->batch == 1;
        if (b->iter[i].reduce || reads(&t->weights, i)) continue;
        const bool rows = kiln_vta_extent(t, i) % t->machine->batch == 0;
        if (t->batch < 0 && (one || (rows && has_tiles(t, i, t->machine->batch)))) {
            t->batch = i;
        } else if (t->pattern.to.dim_of[i] >= 0) {
            *row = *column;
            *column = i;
        }
    }
    if (*column < 0) *column = t->batch;
}

/* Whether some results use different weights for the same data. */
static bool shares_data(const kiln_vta_tiling *t) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    bool found = false;
    for (int i = 0; i < (int)b->iter_count; i++)
        found |= !b->iter[i].reduce && reads(&t->weights, i) && !reads(&t->data, i);
    return found;
}

/* With from[data] as data and the other operand as weights. */
static const char *choose_axes(kiln_vta_tiling *t, uint32_t data) {
    if (!learn_indices(t, data, &t->data) || !learn_indices(t, 1 - data, &t->weights))
        return "an index of the product is no sum of iterators";
    if (!shares_data(t))
        return "each channel has data of its own (depthwise), and the machine sums "
               "over tiles of channels";
    t->iter[KILN_VTA_AXIS_OUT] = find_tiled(t, false, t->machine->block_out);
    if (t->iter[KILN_VTA_AXIS_OUT] < 0)
        return "its results do not divide into tiles of the machine";
    t->iter[KILN_VTA_AXIS_IN] = find_tiled(t, true, t->machine->block_in);
    if (t->iter[KILN_VTA_AXIS_IN] < 0)
        return "the summed dimension does not divide into tiles of the machine";
    find_positions(t);
    return t->batch < 0 ? "it has no rows for the machine's tiles" : NULL;
}

/* The quotient of an iterator of results that an index has; 0: there is none. */
static kiln_expr find_quotient(kiln_vta_tiling *t, kiln_expr load, int *out_iter) {
    kiln_program *p = t->s->program;
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_load_index(p, load, index);
    for (uint32_t d = 0; d < rank; d++) {
        kiln_affine sum;
        if (!kiln_affine_of(p, index[d], NULL, &sum)) continue;
        for (uint32_t n = 0; n < sum.term_count; n++) {
            if (kiln_expr_get(p, sum.term[n])->op != KILN_EXPR_FLOORDIV) continue;
            *out_iter = kiln_block_iter_of(p, t->sums, kiln_expr_operand(p, sum.term[n], 0));
            if (*out_iter >= 0 && !p->block.data[t->sums].iter[*out_iter].reduce)
                return sum.term[n];
        }
    }
    return 0;
}

void kiln_vta_divide_groups(kiln_vta_tiling *t) {
    const kiln_loads loads = kiln_block_loads(t->s->program, t->sums);
    int iter;
    int64_t size;
    for (uint32_t k = 0; k < loads.count; k++) {
        const kiln_expr quotient = find_quotient(t, loads.load[k], &iter);
        if (!quotient ||
            !kiln_expr_as_int(t->s->program, kiln_expr_operand(t->s->program, quotient, 1), &size))
            continue;
        kiln_sched_divide(kiln_sched_try(t->s), t->sums, (uint32_t)iter, kiln_sched_const(size));
        return;
    }
}

const char *kiln_vta_choose_roles(kiln_vta_tiling *t) {
    kiln_program *p = t->s->program;
    if (!kiln_pattern_of(p, t->sums, &t->pattern) || !t->pattern.multiplies)
        return "its reduction is no sum of products";
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (p->buffer.data[t->pattern.from[a].buffer].dtype != KILN_I8)
            return "it does not multiply bytes with signs";
    if (t->pattern.from[0].buffer == t->pattern.from[1].buffer)
        return "it multiplies a buffer with itself";
    const uint32_t data =
        p->buffer.data[t->pattern.from[0].buffer].role == KILN_ROLE_CONSTANT ? 1 : 0;
    const char *reason = choose_axes(t, data);
    return reason && choose_axes(t, 1 - data) == NULL ? NULL : reason;
}
