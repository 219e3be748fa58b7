/* Roles of a reduction's iterators on a GPU: rows and columns of the tile that a group computes,
 * blocks of steps; and the operands that its threads share. */
#include <stdlib.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/gpu.h"

int64_t kiln_gpu_extent(const kiln_gpu_tiling *t, int i) {
    return i < 0 ? 1 : t->s->program->block.data[t->block].iter[i].extent;
}

static bool has(uint32_t mask, int i) { return i >= 0 && (mask >> i & 1); }

bool kiln_gpu_moves(const kiln_gpu_tiling *t, int i) {
    bool moves = has(t->pattern.reduce, i);
    for (uint32_t n = 0; n < t->tiled; n++) moves |= t->iter[n] == i;
    return moves;
}

/* The operands that the iterator indexes: bit a for from[a]. */
static uint32_t operands_of(const kiln_gpu_tiling *t, int i) {
    uint32_t mask = 0;
    for (uint32_t a = 0; a < t->pattern.from_count && a < 32; a++)
        if (has(t->pattern.from[a].iters, i)) mask |= 1u << a;
    return mask;
}

static bool can_be_tiled(const kiln_gpu_tiling *t, int i) {
    return has(t->pattern.spatial, i) && t->pattern.to.dim_of[i] >= 0;
}

/* The largest iterator that indexes an operand which column `c` does not, while `c` indexes one
 * that it does not: so elements are used by all columns, and by all rows. */
static int find_row(const kiln_gpu_tiling *t, int c) {
    const uint32_t of_column = operands_of(t, c);
    int row = -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (i == c || !can_be_tiled(t, i)) continue;
        const uint32_t of_row = operands_of(t, i);
        if ((of_row & ~of_column) && (of_column & ~of_row) &&
            kiln_gpu_extent(t, i) > kiln_gpu_extent(t, row))
            row = i;
    }
    return row;
}

/* Columns in a second dimension, if one has too few of them, or windows overlap along both: the
 * last iterator before `c` that indexes the same operands. */
static int find_second(const kiln_gpu_tiling *t, int c, int row) {
    int second = -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (i != c && i != row && can_be_tiled(t, i) && operands_of(t, i) == operands_of(t, c))
            second = i;
    return second;
}

/* Reads indices as sums of multiples of iterators; false when one is no such sum. */
static bool learn_indices(kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    kiln_program *p = t->s->program;
    const kiln_loads loads = kiln_block_loads(p, t->block);
    bool found = false;
    for (uint32_t k = 0; k < loads.count; k++) {
        kiln_expr index[KILN_RANK_MAX];
        if (kiln_load_buffer(p, loads.load[k]) != o->buffer) continue;
        if (found) return false; /* read at several places */
        found = true;
        o->rank = kiln_load_index(p, loads.load[k], index);
        for (uint32_t d = 0; d < o->rank; d++) {
            kiln_affine sum;
            if (!kiln_affine_of(p, index[d], NULL, &sum) || sum.constant < 0) return false;
            for (uint32_t n = 0; n < sum.term_count; n++) {
                const int i = kiln_block_iter_of(p, t->block, sum.term[n]);
                if (i < 0 || sum.coefficient[n] < 0) return false;
                o->coefficient[d][i] = sum.coefficient[n];
            }
        }
    }
    return found;
}

/* The dimension that iterator `i` alone steps along, one by one; -1: there is none. */
static int plain_dim(const kiln_gpu_operand *o, int i) {
    for (uint32_t d = 0; d < o->rank; d++) {
        uint32_t others = 0;
        for (int n = 0; n < KILN_BLOCK_ITERS_MAX; n++) others += n != i && o->coefficient[d][n];
        if (i >= 0 && o->coefficient[d][i] == 1 && !others) return (int)d;
    }
    return -1;
}

/* Lanes run along an iterator that is contiguous in all operands: the columns, or the rows if
 * windows make columns overlap. */
static void choose_vector(kiln_gpu_tiling *t) {
    const int candidate[] = {(int)t->tiled - 1, 0};
    t->vector = -1;
    for (size_t c = 0; c < KILN_ARRAY_COUNT(candidate) && t->vector < 0; c++) {
        bool plain = true;
        for (uint32_t a = 0; a < t->operand_count; a++) {
            const kiln_gpu_operand *o = &t->operand[a];
            bool reads = false;
            for (uint32_t d = 0; d < o->rank; d++)
                reads |= o->coefficient[d][t->iter[candidate[c]]] != 0;
            plain &= !reads || plain_dim(o, t->iter[candidate[c]]) >= 0;
        }
        if (plain) t->vector = candidate[c];
    }
}

bool kiln_gpu_is_constant(kiln_program *p, kiln_buffer buffer) {
    const kiln_block producer = kiln_program_producer(p, buffer);
    return p->buffer.data[buffer].role == KILN_ROLE_CONSTANT ||
           (producer && kiln_block_reads_only_constants(p, producer));
}

/* Innermost in shared memory are the elements that neighbouring points of a thread, or neighbouring
 * threads, read: rows of an operand of rows, else the columns. */
static void choose_layouts(kiln_gpu_tiling *t) {
    for (uint32_t a = 0; a < t->operand_count; a++) {
        kiln_gpu_operand *o = &t->operand[a];
        o->along = (int)o->rank - 1;
        for (uint32_t n = 0; n < t->tiled; n++)
            if (plain_dim(o, t->iter[n]) >= 0) o->along = plain_dim(o, t->iter[n]);
        o->packed = o->along + 1 != (int)o->rank && kiln_gpu_is_constant(t->s->program, o->buffer);
        const int k = plain_dim(o, t->k);
        o->block_dim = o->packed || k + 1 == (int)o->rank ? -1 : k;
    }
}

static bool choose_operands(kiln_gpu_tiling *t) {
    const kiln_program *p = t->s->program;
    for (uint32_t a = 0; a < t->pattern.from_count; a++) {
        const kiln_block_access *from = &t->pattern.from[a];
        uint32_t missing = 0;
        for (uint32_t n = 0; n < t->tiled; n++) missing += !has(from->iters, t->iter[n]);
        kiln_gpu_operand o = {.buffer = from->buffer,
                              .bytes =
                                  (int64_t)kiln_dtype_size(p->buffer.data[from->buffer].dtype)};
        if (!missing && !from->window) continue; /* each element is read once */
        if (t->operand_count == KILN_GPU_COPIES_MAX || !learn_indices(t, &o)) continue;
        t->operand[t->operand_count++] = o;
    }
    return t->operand_count > 0;
}

/* How far a group reads along each dimension; choosing sizes needs it often. */
static void learn_regions(const kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    for (uint32_t d = 0; d < o->rank; d++) {
        o->fixed[d] = o->taps[d] = 1;
        o->along_k[d] = o->coefficient[d][t->k];
        for (uint32_t n = 0; n < t->tiled; n++) o->along_tile[d][n] = o->coefficient[d][t->iter[n]];
        for (int i = 0; i < (int)b->iter_count; i++)
            if (b->iter[i].reduce && i != t->k && o->coefficient[d][i]) {
                o->fixed[d] += o->coefficient[d][i] * (b->iter[i].extent - 1);
                o->taps[d] *= b->iter[i].extent;
            }
    }
}

static int64_t pitch_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    const int64_t vector = KILN_MAX(KILN_GPU_PITCH_BYTES / o->bytes, 1);
    int64_t row = 1; /* of a tile of whole vectors */
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        bool tiled = false;
        for (uint32_t n = 0; n < t->tiled; n++) tiled |= t->iter[n] == i;
        const int64_t size = tiled ? vector : i == t->k ? 1 : kiln_gpu_extent(t, i);
        if (o->coefficient[o->along][i]) row += o->coefficient[o->along][i] * (size - 1);
    }
    return vector - row % vector;
}

bool kiln_gpu_choose_roles(kiln_gpu_tiling *t) {
    kiln_program *p = t->s->program;
    t->tiled = t->operand_count = 0;
    t->k = -1;
    t->together = 1;
    if (!kiln_pattern_of(p, t->block, &t->pattern)) return false;
    const int column = kiln_sketch_contiguous_iter(p, &t->pattern);
    const int row = column < 0 ? -1 : find_row(t, column);
    if (row < 0) return false;
    const int second = find_second(t, column, row);
    t->iter[t->tiled++] = row;
    if (second >= 0) t->iter[t->tiled++] = second;
    t->iter[t->tiled++] = column;
    for (int pass = 0; pass < 2 && t->k < 0; pass++) /* of windows only where there is no other */
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
            if (!has(t->pattern.reduce, i)) continue;
            bool slides = false;
            for (uint32_t a = 0; a < t->pattern.from_count; a++)
                slides |= has(t->pattern.from[a].iters, i) && t->pattern.from[a].dim_of[i] < 0;
            if ((!slides || pass) && kiln_gpu_extent(t, i) > kiln_gpu_extent(t, t->k)) t->k = i;
        }
    if (t->k < 0 || !choose_operands(t)) return false;
    choose_vector(t);
    choose_layouts(t);
    for (uint32_t a = 0; a < t->operand_count; a++) {
        learn_regions(t, &t->operand[a]);
        t->operand[a].pitch = pitch_of(t, &t->operand[a]);
    }
    return true;
}
