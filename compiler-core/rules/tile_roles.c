/* Roles of a reduction's iterators: lanes, rows and columns of the tile, blocks of steps.
 */
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/tile.h"

#define TAPS_UNROLLED_MAX 8

/* Whether blocks of the output iterator are blocks of one dimension in everything that it
 * indexes. */
static bool can_be_lanes(const kiln_tiling *t, int i) {
    if (t->given_v >= 0 && i != t->given_v) return false;
    if (!kiln_tile_has(t->pattern.spatial, i) || t->pattern.to.dim_of[i] < 0) return false;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (kiln_tile_has(t->pattern.from[a].iters, i) && t->pattern.from[a].dim_of[i] < 0)
            return false;
    return true;
}

/* A constant, or a value computed once from constants only. */
static bool is_constant(const kiln_tiling *t, const kiln_block_access *a) {
    kiln_program *p = t->s->program;
    kiln_block producer = kiln_program_producer(p, a->buffer);
    return kiln_tile_role(t, a) == KILN_ROLE_CONSTANT ||
           (producer && kiln_block_reads_only_constants(p, producer));
}

/* Weights and data: lanes over an iterator that indexes only one of two operands; constants are
 * preferred, as packing them costs nothing, then the innermost output dimension. */
static bool choose_packed(kiln_tiling *t) {
    if (!t->pattern.contracts || t->pattern.from[0].buffer == t->pattern.from[1].buffer)
        return false;
    double best = 0;
    for (int side = 0; side < 2; side++) {
        const kiln_block_access *w = &t->pattern.from[side], *x = &t->pattern.from[1 - side];
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
            if (!can_be_lanes(t, i) || !kiln_tile_has(w->iters, i) || kiln_tile_has(x->iters, i))
                continue;
            bool innermost = t->pattern.to.dim_of[i] + 1 == (int)kiln_tile_rank(t, &t->pattern.to);
            double score = (double)kiln_tile_extent(t, i) * (is_constant(t, w) ? 1e6
                                                             : innermost       ? 1e3
                                                                               : 1);
            if (score <= best) continue;
            best = score;
            t->v = i;
            t->weights = side;
            t->data = 1 - side;
        }
    }
    return best > 0;
}

/* Lanes over an iterator that all operands share. Making it contiguous, if it is not, costs a
 * conversion, which pays for images but not for rows of a matrix. */
static bool choose_shared(kiln_tiling *t) {
    t->data = -1;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (!is_constant(t, &t->pattern.from[a])) {
            if (t->data >= 0) return false;
            t->data = (int)a;
        } else {
            t->weights = (int)a;
        }
    if (t->data < 0 || t->pattern.from_count > 2) return false;
    const kiln_block_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (!can_be_lanes(t, i) || !kiln_tile_has(x->iters, i)) continue;
        if (kiln_tile_rank(t, x) < 4 && x->dim_of[i] + 1 != (int)kiln_tile_rank(t, x)) continue;
        if (t->v < 0 || kiln_tile_extent(t, i) > kiln_tile_extent(t, t->v)) t->v = i;
    }
    return t->v >= 0;
}

/* With data in vectors, neighbouring columns of a window read the same vectors: the window's
 * columns are unrolled inside the tile, so that each vector is loaded once. Broadcast data has no
 * such gain. The last iterator before `end` that does so. */
static int find_tap(const kiln_tiling *t, int end) {
    const kiln_block_access *x = &t->pattern.from[t->data];
    int tap = -1;
    if (t->packs || t->mw < 0 || x->window == 0) return -1;
    for (int i = 0; i < end; i++)
        if (kiln_tile_has(t->pattern.reduce, i) && kiln_tile_has(x->iters, i) && x->dim_of[i] < 0 &&
            kiln_tile_extent(t, i) <= TAPS_UNROLLED_MAX)
            tap = i;
    return tap;
}

/* Reduce iterators of one operand only: in products of bits these are its planes. */
static uint32_t find_planes(const kiln_tiling *t) {
    if (!t->packs || !t->pattern.counts_ones) return 0;
    return t->pattern.reduce & (t->pattern.from[0].iters ^ t->pattern.from[1].iters);
}

bool kiln_tile_can_pad(const kiln_tiling *t) {
    const kiln_buffer_info *to = &t->s->program->buffer.data[t->pattern.to.buffer];
    return to->shape.dim[t->pattern.to.dim_of[t->v]] == kiln_tile_extent(t, t->v);
}

/* Whether the operands have the instruction's element types, in either order: a quick check before
 * comparing expressions, which needs a parser. Rows are the data's. */
static bool has_operands_of(const kiln_tiling *t, const kiln_intrinsic *dot) {
    const kiln_buffer_info *buffer = t->s->program->buffer.data;
    kiln_dtype a = buffer[t->pattern.from[0].buffer].dtype,
               b = buffer[t->pattern.from[1].buffer].dtype;
    if (dot->rows > 1)
        return buffer[t->pattern.from[t->data].buffer].dtype == dot->operand[0] &&
               buffer[t->pattern.from[t->weights].buffer].dtype == dot->operand[1];
    return (a == dot->operand[0] && b == dot->operand[1]) ||
           (a == dot->operand[1] && b == dot->operand[0]);
}

/* The reduce iterator that an instruction may take steps of: k, or the tap where it runs along a
 * dimension of the weights; -1: none. */
static int steps_iter(const kiln_tiling *t) {
    if (t->packs || t->tap < 0 || t->weights < 0) return t->packs ? t->k : -1;
    const kiln_block_access *w = &t->pattern.from[t->weights];
    return w->dim_of[t->tap] >= 0 && w->dim_of[t->v] >= 0 ? t->tap : -1;
}

#define TILE_ROWS_MIN 4
#define TILE_WORDS_MIN 4 /* of a row: fewer leave most of a tile empty */

/* Steps that an instruction takes: all of them. In tiles also fewer: a divisor of the blocks that
 * other kernels prefer, unless that is at most half of the possible steps. */
static int64_t steps_of(const kiln_tiling *t, const kiln_intrinsic *dot, int64_t extent) {
    const int64_t word = kiln_intrinsic_word(dot);
    int64_t steps = dot->steps, half = dot->steps;
    if (!kiln_intrinsic_in_tiles(dot)) return extent % steps == 0 ? steps : 0;
    while (steps > 0 && extent % steps != 0) steps -= word;
    while (half >= word && extent % half != 0) half /= 2;
    if (2 * half > steps) steps = half;
    return !t->options.no_tiles && steps >= TILE_WORDS_MIN * word ? steps : 0;
}

/* Whether there are as many points and lanes as it takes at once. Tiles are those of one nest. */
static bool has_shape_of(const kiln_tiling *t, const kiln_intrinsic *dot) {
    if (!kiln_intrinsic_in_tiles(dot))
        return dot->lanes == t->lanes &&
               (dot->rows == 1 || (t->packs && kiln_tile_extent(t, t->mw) >= dot->rows));
    return t->packs && !t->within && !t->carries && t->mw >= 0 &&
           kiln_tile_extent(t, t->mw) >= TILE_ROWS_MIN;
}

/* The first instruction of the target that computes the reduction, for whole vectors of weights and
 * whole blocks of steps. One with a bias pays for it in each use; an exact algorithm that changes
 * the data's signedness pays once (algorithm/bytes.c). */
static const kiln_intrinsic *find_dot(const kiln_tiling *t, bool in_tiles) {
    const kiln_program *p = t->s->program;
    const int steps = steps_iter(t);
    bool whole = (t->packs && kiln_tile_can_pad(t)) || kiln_tile_extent(t, t->v) % t->lanes == 0;
    if (t->options.plain || steps < 0 || !whole) return NULL;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *dot = &kiln_intrinsics[i];
        kiln_expr load[KILN_INTRINSIC_OPERANDS];
        if (!dot->bias && !kiln_intrinsic_of_threads(dot) &&
            kiln_intrinsic_in_tiles(dot) == in_tiles && kiln_intrinsic_runs_on(dot, t->s->target) &&
            has_shape_of(t, dot) && steps_of(t, dot, kiln_tile_extent(t, steps)) &&
            has_operands_of(t, dot) &&
            kiln_intrinsic_matches(kiln_intrinsic_program(dot, t->s->arena), p,
                                   p->block.data[t->block].value, load))
            return dot;
    }
    return NULL;
}

bool kiln_tile_choose_roles(kiln_tiling *t) {
    t->weights = t->data = t->v = t->mh = t->mw = t->k = -1;
    if (!kiln_pattern_of(t->s->program, t->block, &t->pattern)) return false;
    t->packs = choose_packed(t);
    if (!t->packs && !choose_shared(t)) return false;
    const kiln_block_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (i != t->v && kiln_tile_has(t->pattern.spatial, i) && kiln_tile_has(x->iters, i) &&
            t->pattern.to.dim_of[i] >= 0 &&
            (!t->packs || !kiln_tile_has(t->pattern.from[t->weights].iters, i))) {
            t->mh = t->mw;
            t->mw = i;
        }
        bool blocks = t->packs && kiln_tile_has(t->pattern.reduce, i) && x->dim_of[i] >= 0 &&
                      t->pattern.from[t->weights].dim_of[i] >= 0;
        if (blocks && (t->k < 0 || kiln_tile_extent(t, i) > kiln_tile_extent(t, t->k))) t->k = i;
    }
    t->tap = find_tap(t, KILN_BLOCK_ITERS_MAX);
    t->planes = find_planes(t);
    t->lanes =
        kiln_sketch_lanes(t->s->target, t->s->program->buffer.data[t->pattern.to.buffer].dtype,
                          kiln_tile_extent(t, t->v));
    t->dot = find_dot(t, true);
    if (t->dot) t->lanes = t->dot->lanes;
    if (!t->dot) t->dot = find_dot(t, false);
    t->dot_steps = t->dot ? steps_of(t, t->dot, kiln_tile_extent(t, steps_iter(t))) : 1;
    t->row_tap = t->dot && !t->packs ? find_tap(t, t->tap) : -1;
    return t->lanes > 1;
}

int kiln_tile_lanes_of(const kiln_tiling *t, const kiln_pattern *follower) {
    const kiln_block last = t->stored ? t->stored : t->block;
    kiln_buffer result = t->s->program->block.data[last].buffer;
    for (uint32_t a = 0; a < follower->from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && follower->from[a].buffer == result; i++)
            if (follower->from[a].dim_of[i] == t->pattern.to.dim_of[t->v] &&
                kiln_tile_has(follower->spatial, i))
                return i;
    return -1;
}
