/* Blocks whose value depends on which of a few cases an iterator is in: transforms of tiles. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/rules.h"

#define CASES_MAX 9

typedef struct search {
    kiln_block block;
    kiln_picks picks;
} search;

/* Notes an iterator, or its remainder. */
static void note_pick(kiln_program *p, kiln_block block, kiln_expr what, kiln_picks *picks) {
    int64_t by = 0;
    if (kiln_expr_get(p, what)->op == KILN_EXPR_FLOORMOD &&
        kiln_expr_as_int(p, kiln_expr_operand(p, what, 1), &by))
        what = kiln_expr_operand(p, what, 0);
    int i = kiln_block_iter_of(p, block, what);
    if (i < 0 || p->block.data[block].iter[i].reduce) return;
    int64_t cases = by ? by : p->block.data[block].iter[i].extent;
    if (cases > CASES_MAX) return;
    picks->iters |= 1u << i;
    picks->by[i] = by;
}

/* Notes a comparison of one with a constant. */
static kiln_expr look_at(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    search *s = context;
    if (kiln_expr_get(p, e)->op == KILN_EXPR_EQ &&
        kiln_expr_is_const(p, kiln_expr_operand(p, e, 1)))
        note_pick(p, s->block, kiln_expr_operand(p, e, 0), &s->picks);
    return rebuilt;
}

bool kiln_sketch_picks(kiln_program *p, kiln_block block, kiln_picks *out) {
    search s = {.block = block};
    if (p->block.data[block].combiner == KILN_COMBINE_NONE)
        kiln_expr_rewrite(p, p->block.data[block].value, 0, look_at, &s);
    if (out) *out = s.picks;
    return s.picks.iters != 0;
}

/* The longest iterator that runs along one dimension of everything that it indexes. */
static int common_iter(const kiln_program *p, const kiln_pattern *pattern, uint32_t picked) {
    const kiln_block_info *b = &p->block.data[pattern->block];
    int best = -1;
    for (int i = 0; i < (int)b->iter_count; i++) {
        bool common =
            (pattern->spatial >> i & 1) && !(picked >> i & 1) && pattern->to.dim_of[i] >= 0;
        for (uint32_t a = 0; a < pattern->from_count; a++)
            common &= !(pattern->from[a].iters >> i & 1) || pattern->from[a].dim_of[i] >= 0;
        if (common && (best < 0 || b->iter[i].extent > b->iter[best].extent)) best = i;
    }
    return best;
}

/* Blocks of `lanes` along the iterator innermost in `access`'s buffer, if it has no layout yet. */
static void block_along(kiln_sched *s, const kiln_block_access *access, int iter, int64_t lanes) {
    if (kiln_layout_is_identity(&s->program->buffer.data[access->buffer].layout))
        kiln_sketch_block_buffer(s, access->buffer, access->dim_of[iter], kiln_sched_const(lanes));
}

/* Loops around lanes that run over the cases: those of `straight` are unrolled. */
typedef struct case_loops {
    kiln_sched_loops serial, straight;
} case_loops;

/* The block's iterators, or their remainders, that select the case in the block that writes the
 * temp.
 */
static kiln_picks picked_before(kiln_program *p, kiln_block block, kiln_block maker) {
    kiln_picks by, found = {0};
    const kiln_block_info *m = &p->block.data[maker];
    const kiln_loads loads = kiln_block_loads(p, block);
    if (!maker || !kiln_sketch_picks(p, maker, &by)) return found;
    for (uint32_t k = 0; k < loads.count; k++)
        for (uint32_t d = 0; d < m->index_count; d++) {
            if (kiln_load_buffer(p, loads.load[k]) != m->buffer) break;
            const int from = kiln_block_iter_of(p, maker, m->index[d]);
            if (from < 0 || !(by.iters >> from & 1)) continue;
            note_pick(p, block, kiln_expr_operand(p, loads.load[k], d), &found);
        }
    return found;
}

/* Whether iterator `iter` runs across constants. Constants keep their layout until they are read
 * the first time: vectors would have to be gathered, which takes more code than it saves time.
 */
static bool gathers_constants(const kiln_program *p, const kiln_pattern *pattern, int iter) {
    for (uint32_t a = 0; a < pattern->from_count; a++) {
        const kiln_block_access *x = &pattern->from[a];
        const kiln_buffer_info *b = &p->buffer.data[x->buffer];
        if (b->role == KILN_ROLE_CONSTANT && (x->iters >> iter & 1) &&
            x->dim_of[iter] + 1 != (int)b->shape.rank)
            return true;
    }
    return false;
}

/* A nest in a loop over groups of rows of tiles. */
typedef struct grouping {
    bool makes_loop; /* this nest has the loop, with so many rows in a group */
    kiln_sched_int rows;
    bool shared;          /* by threads; else the loops inside of it */
    kiln_sched_loop loop; /* over groups; none: there are none, or it is not made yet */
} grouping;

/* Splits `tile_rows`, a loop of the block. */
static void make_groups(kiln_sched *s, kiln_block block, kiln_sched_loop tile_rows,
                        grouping *groups) {
    if (kiln_sched_loop_is_none(tile_rows)) return;
    groups->loop =
        kiln_sched_split(s, tile_rows, KILN_SCHED_INTS(kiln_sched_rest(), groups->rows)).loop[0];
    const uint32_t depth = kiln_sketch_depth(s, block, groups->loop);
    const uint32_t inside = kiln_sched_loops_around(s, block).count - depth;
    if (!groups->shared || !kiln_sketch_share(s, block, depth)) return;
    const kiln_sched_loops around = kiln_sched_loops_around(s, block); /* some are fused */
    groups->loop = around.loop[around.count - inside - 1];
}

/* Lanes innermost, around them the cases, and outside the other loops; without vectors the cases
 * are innermost. Groups divide the first loop of tiles or, if the block's iterators are split
 * already, the first of more than one value. Returns the innermost of the other loops.
 */
static kiln_sched_loop order_cases(kiln_sched *s, const kiln_pattern *pattern,
                                   const kiln_picks *serial, const kiln_picks *straight, int iter,
                                   int64_t lanes, grouping *groups) {
    const kiln_block block = pattern->block;
    const kiln_block_info *b = &s->program->block.data[block];
    const uint32_t iters = b->iter_count;
    kiln_sched_loops order = {0};
    case_loops cases = {0};
    kiln_sched_loop loop = kiln_sched_loop_of(s, block, (uint32_t)iter), tile_rows = {0},
                    rows = {0};
    const kiln_sched_loops vector = kiln_sketch_split_lanes(s, loop, lanes);
    if (!vector.count) return (kiln_sched_loop){0};
    for (uint32_t i = 0; i < iters; i++) {
        loop = kiln_sched_loop_of(s, block, i);
        if ((int)i == iter) continue;
        const bool is_straight = straight->iters >> i & 1, is_serial = serial->iters >> i & 1;
        const int64_t by = is_straight ? straight->by[i] : serial->by[i];
        kiln_sched_loops *into = is_straight ? &cases.straight : &cases.serial;
        if (!is_straight && !is_serial) {
            if (kiln_sched_loop_is_none(rows) && b->iter[i].extent > 1) rows = loop;
            kiln_sched_loops_add(&order, loop);
        } else if (!by) {
            kiln_sched_loops_add(into, loop);
        } else {
            const kiln_sched_loops part = kiln_sketch_split_lanes(s, loop, by);
            if (kiln_sched_loop_is_none(tile_rows)) tile_rows = part.loop[0];
            kiln_sched_loops_add(&order, part.loop[0]);
            kiln_sched_loops_add(into, part.loop[1]);
        }
    }
    const kiln_sched_loops outside = order;
    const bool in_vectors = !gathers_constants(s->program, pattern, iter);
    kiln_sched_loops_add(&order, vector.loop[0]);
    if (!in_vectors) kiln_sched_loops_add(&order, vector.loop[1]);
    for (uint32_t i = 0; i < cases.serial.count; i++)
        kiln_sched_loops_add(&order, cases.serial.loop[i]);
    for (uint32_t i = 0; i < cases.straight.count; i++)
        kiln_sched_loops_add(&order, cases.straight.loop[i]);
    if (in_vectors) kiln_sched_loops_add(&order, vector.loop[1]);
    kiln_sched_reorder(kiln_sched_try(s), &order);
    if (in_vectors) kiln_sched_vectorize(kiln_sched_try(s), vector.loop[1]);
    for (uint32_t i = cases.straight.count; i-- > 0;)
        kiln_sched_unroll(kiln_sched_try(s), cases.straight.loop[i]);
    if (groups->makes_loop)
        make_groups(s, block, kiln_sched_loop_is_none(tile_rows) ? rows : tile_rows, groups);
    kiln_sketch_share_inside(s, block, groups->loop, outside.count + 1);
    return vector.loop[0];
}

/* The block that transforms the operand of `block` along another dimension; 0: none. */
static kiln_block half_of(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    for (kiln_block half = 1; half < p->block.count; half++) {
        const kiln_block_info *b = &p->block.data[half];
        if (!b->removed && p->buffer.data[b->buffer].role == KILN_ROLE_TEMP &&
            kiln_sketch_picks(p, half, NULL) && kiln_block_reads(p, block, b->buffer) &&
            kiln_buffer_readers(p, b->buffer, reader) == 1)
            return half;
    }
    return 0;
}

/* Whether it is placed together with another block (place_half). */
static bool is_half(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    const kiln_buffer buffer = p->block.data[block].buffer;
    return p->buffer.data[buffer].role == KILN_ROLE_TEMP &&
           kiln_buffer_readers(p, buffer, reader) == 1 && kiln_sketch_picks(p, reader[0], NULL);
}

static kiln_expr look_at_border(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const uint8_t op = kiln_expr_get(p, e)->op;
    *(bool *)context |= op == KILN_EXPR_LT || op == KILN_EXPR_LE;
    return rebuilt;
}

bool kiln_sketch_has_borders(kiln_program *p, kiln_block block) {
    bool found = false;
    kiln_expr_rewrite(p, p->block.data[block].value, 0, look_at_border, &found);
    return found;
}

/* The first loop around the block of more than one iteration that is inside of the loop divided
 * among threads, or is that, counted from 1 at the outside. */
static uint32_t first_loop(kiln_sched *s, kiln_block block) {
    const kiln_sched_loops around = kiln_sched_loops_around(s, block);
    const uint32_t shared = kiln_sketch_shared_depth(s, block);
    uint32_t i = shared ? shared - 1 : 0;
    while (i + 1 < around.count && kiln_sched_extent(s, around.loop[i]) == 1) i++;
    return i + 1;
}

/* The half's iterator that corresponds to iterator `iter` of its reader, or -1. */
static int same_iter(const kiln_pattern *half, const kiln_pattern *reader, int iter) {
    int dim = -1;
    for (uint32_t a = 0; a < reader->from_count; a++)
        if (reader->from[a].buffer == half->to.buffer) dim = reader->from[a].dim_of[iter];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (dim >= 0 && half->to.dim_of[i] == dim) return i;
    return -1;
}

static void block_all_along(kiln_sched *s, const kiln_pattern *pattern, int iter, int64_t lanes) {
    block_along(s, &pattern->to, iter, lanes);
    for (uint32_t a = 0; a < pattern->from_count; a++)
        block_along(s, &pattern->from[a], iter, lanes);
}

/* A transform that is being placed. */
typedef struct placing {
    kiln_pattern pattern;
    kiln_picks picks;
    int iter; /* lanes run over it */
    int64_t lanes;
} placing;

/* Places the half in a loop around its reader, from the root to `innermost`, the one around the
 * reader's cases. Some rows of it are preferred if borders would duplicate code, else only the part
 * that the lanes of one tile need. */
static void place_half(kiln_sched *s, kiln_block half, const placing *reader,
                       kiln_sched_loop innermost) {
    kiln_program *p = s->program;
    kiln_pattern pattern;
    kiln_picks picks;
    const kiln_picks none = {0};
    if (!kiln_sketch_picks(p, half, &picks) || !kiln_pattern_of(p, half, &pattern)) return;
    const int iter = same_iter(&pattern, &reader->pattern, reader->iter);
    if (iter < 0) return;
    block_all_along(s, &pattern, iter, reader->lanes);
    const kiln_block block = reader->pattern.block;
    const uint32_t depth =
                       kiln_sketch_depth(s, block, innermost), /* 0: shared, fused with others */
        places = depth ? depth : kiln_sched_loops_around(s, block).count;
    const uint32_t preferred = kiln_sketch_has_borders(p, half) ? first_loop(s, block) : places;
    const kiln_sched_loop place = kiln_sched_location(kiln_sched_try(s), half, places, preferred);
    if (kiln_sched_loop_is_none(place)) return;
    kiln_sched_compute_at(s, half, place);
    const kiln_sched_loops placed = kiln_sched_loops_around(s, half); /* its own are the last */
    grouping inside = {.loop = placed.loop[placed.count - p->block.data[half].iter_count - 1]};
    order_cases(s, &pattern, &none, &picks, iter, reader->lanes, &inside);
}

kiln_block kiln_sketch_transform_of(kiln_program *p, kiln_buffer buffer) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    while (kiln_buffer_readers(p, buffer, reader) == 1 && kiln_sketch_picks(p, reader[0], NULL)) {
        if (!is_half(p, reader[0])) return reader[0];
        buffer = p->block.data[reader[0]].buffer;
    }
    return 0;
}

/* A reader that moves the results (interleaves phases of a transposed convolution) gets the same
 * blocks. */
static void block_reader(kiln_sched *s, const placing *it) {
    kiln_program *p = s->program;
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    const kiln_buffer results = it->pattern.to.buffer;
    kiln_pattern pattern;
    if (p->buffer.data[results].role != KILN_ROLE_TEMP ||
        kiln_buffer_readers(p, results, reader) != 1 || kiln_block_is_reduction(p, reader[0]) ||
        kiln_sketch_picks(p, reader[0], NULL) || !kiln_pattern_of(p, reader[0], &pattern))
        return;
    const int dim = it->pattern.to.dim_of[it->iter];
    for (uint32_t a = 0; a < pattern.from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (pattern.from[a].buffer == results && pattern.from[a].dim_of[i] == dim)
                block_all_along(s, &pattern, i, it->lanes);
}

static bool transform(kiln_sched *s, kiln_block block, grouping *groups) {
    kiln_program *p = s->program;
    placing it = {.iter = -1};
    if (!kiln_sketch_picks(p, block, &it.picks) || !kiln_pattern_of(p, block, &it.pattern))
        return false;
    if (is_half(p, block)) return true;
    const kiln_block half = half_of(p, block);
    const kiln_picks serial = picked_before(p, block, half);
    it.iter = common_iter(p, &it.pattern, it.picks.iters | serial.iters);
    if (it.iter < 0) return false;
    const kiln_block_info *b = &p->block.data[block];
    it.lanes =
        kiln_sketch_lanes(s->target, p->buffer.data[b->buffer].dtype, b->iter[it.iter].extent);
    if (it.lanes < 2) return false;
    block_all_along(s, &it.pattern, it.iter, it.lanes);
    block_reader(s, &it);
    const kiln_sched_loop at =
        order_cases(s, &it.pattern, &serial, &it.picks, it.iter, it.lanes, groups);
    if (half && !kiln_sched_loop_is_none(at)) place_half(s, half, &it, at);
    return true;
}

bool kiln_sketch_transform(kiln_sched *s, kiln_block block, kiln_sched_loop outer) {
    grouping groups = {.loop = outer};
    return transform(s, block, &groups);
}

kiln_sched_loop kiln_sketch_transform_in_groups(kiln_sched *s, kiln_block block,
                                                kiln_sched_int rows, bool shares_groups) {
    grouping groups = {.makes_loop = true, .rows = rows, .shared = shares_groups};
    transform(s, block, &groups);
    return groups.loop;
}
