/* Sums whose steps are divided among threads of a group, on GPUs: reductions of few results and
 * many steps that no tile fits, such as products of one row with a matrix, means over images, and
 * sums of everything. Each thread adds up some steps, in a register. The parts of a sum are in
 * shared memory, where the group's threads add them up in halves (lower/crossthread.c).
 *
 * Neighbouring threads read neighbouring elements: they belong to neighbouring results, or to
 * neighbouring steps of one result. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/gpu.h"

#define THREADS_MAX 512
#define PARTS_MAX 256 /* what rfactor takes */
#define SHAPES_MAX 48
#define SECTOR_BYTES 32 /* that memory transfers at a time */
#define STEPS_UNROLLED 4
#define STEPS_MIN 32 /* of a sum that is worth barriers */

/* Threads of a group: results, and parts of each along one or two iterators. */
enum { RESULTS, PARTS, MORE_PARTS, COLUMNS };

typedef struct sums {
    kiln_sched *s;
    kiln_gpu_limits limits;
    kiln_block block;
    kiln_pattern pattern;
    int across;            /* iterator of which a group computes some results; -1: none */
    int along[2];          /* iterators whose steps threads share; the second one may be -1 */
    bool by_result;        /* neighbouring threads have neighbouring results */
    double bytes;          /* of the operand that is read most */
    int64_t element;       /* its bytes */
    double results, steps; /* all */
    uint32_t count, preferred;
    int64_t shape[SHAPES_MAX][COLUMNS];
    kiln_sched_sample threads;
} sums;

/* ---- roles ----------------------------------------------------------------------------------- */

static int64_t extent_of(const sums *m, int i) {
    return i < 0 ? 1 : m->s->program->block.data[m->block].iter[i].extent;
}

static int longest(const sums *m, uint32_t iters, int but) {
    int found = -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (i != but && (iters >> i & 1) && extent_of(m, i) > extent_of(m, found)) found = i;
    return found;
}

/* The operand of most elements. */
static const kiln_block_access *find_main(sums *m) {
    const kiln_block_access *found = NULL;
    for (uint32_t a = 0; a < m->pattern.from_count; a++) {
        const kiln_block_access *from = &m->pattern.from[a];
        const int64_t size =
            (int64_t)kiln_dtype_size(m->s->program->buffer.data[from->buffer].dtype);
        double elements = 1;
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (from->iters >> i & 1) elements *= (double)extent_of(m, i);
        if (!(from->iters & m->pattern.reduce) || elements * (double)size <= m->bytes) continue;
        m->bytes = elements * (double)size;
        m->element = size;
        found = from;
    }
    return found;
}

bool kiln_gpu_has_plain_result(const kiln_program *p, const kiln_pattern *pattern) {
    uint32_t dims = 0;
    const kiln_block_info *b = &p->block.data[pattern->block];
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce) continue;
        const int dim = pattern->to.dim_of[i];
        if (dim < 0 ? b->iter[i].extent > 1 : dims >> dim & 1) return false;
        if (dim >= 0) dims |= 1u << dim;
    }
    return true;
}

static bool choose_roles(sums *m) {
    const kiln_program *p = m->s->program;
    if (!kiln_pattern_of(m->s->program, m->block, &m->pattern) || !m->pattern.reduce ||
        kiln_block_packs_bits(p, m->block) || !kiln_gpu_has_plain_result(p, &m->pattern))
        return false;
    const kiln_block_access *main = find_main(m);
    if (!main) return false;
    const int last = (int)p->buffer.data[main->buffer].shape.rank - 1;
    m->across = kiln_sketch_contiguous_iter(p, &m->pattern);
    if (m->across < 0) m->across = longest(m, m->pattern.spatial, -1);
    m->along[0] = longest(m, m->pattern.reduce, -1);
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (main->dim_of[i] != last) continue;
        m->by_result |= m->pattern.spatial >> i & 1;
        if (m->pattern.spatial >> i & 1) m->across = i;
        if (m->pattern.reduce >> i & 1) m->along[0] = i;
    }
    m->along[1] = longest(m, m->pattern.reduce, m->along[0]);
    m->results = m->steps = 1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (m->pattern.spatial >> i & 1) m->results *= (double)extent_of(m, i);
        if (m->pattern.reduce >> i & 1) m->steps *= (double)extent_of(m, i);
    }
    const double threads = m->results * (double)extent_of(m, m->along[0]);
    if (extent_of(m, m->along[0]) >= m->limits.warp && threads >= m->limits.warp * m->limits.units)
        m->along[1] = -1;
    return m->steps >= STEPS_MIN;
}

/* ---- how long it takes, about ---------------------------------------------------------------- */

#define STEP 100.0      /* cycles from load to load when several are in flight */
#define HALVING 60.0    /* barrier, load and store of threads that add others' parts */
#define BEGINNING 800.0 /* as in gpu_sizes.c */
#define STEP_ISSUED 4.0 /* instructions */

/* Cycles of a unit that has its share of the groups. */
static double cycles_of(const sums *m, double results, double parts, double more_parts) {
    const kiln_gpu_limits *l = &m->limits;
    const double threads = results * parts * more_parts, groups = ceil(m->results / results),
                 steps = ceil((double)extent_of(m, m->along[0]) / parts) *
                         ceil((double)extent_of(m, m->along[1]) / more_parts) * m->steps /
                         (double)(extent_of(m, m->along[0]) * extent_of(m, m->along[1]));
    const double resident =
                     KILN_MIN((double)l->unit_groups, floor((double)l->unit_threads / threads)),
                 units = (double)l->units, rounds = ceil(groups / (units * KILN_MAX(resident, 1))),
                 together = (m->by_result ? results : parts) * (double)m->element,
                 waste = parts > 1 ? KILN_MAX(SECTOR_BYTES / together, 1) : 1;
    const double latency =
        rounds * (steps * STEP + HALVING * (log2(parts) + log2(more_parts)) + BEGINNING);
    const double issued =
        groups / units * ceil(threads / (double)l->warp) * steps * STEP_ISSUED / l->issue;
    const double traffic = m->bytes * waste / (l->copy_rate * KILN_MIN(units, groups));
    return KILN_MAX(latency, KILN_MAX(issued, traffic));
}

/* All shapes of groups within the limits, and the one with the best estimate. False: none is better
 * than a thread for each result. */
static bool choose_shapes(sums *m) {
    const int64_t part_bytes =
        (int64_t)kiln_dtype_size(m->s->program->buffer.data[m->pattern.to.buffer].dtype);
    /* Sums of parts need at most as much again as the parts. */
    const int64_t most = KILN_MIN(KILN_MIN(m->limits.threads, THREADS_MAX),
                                  m->limits.shared_bytes / (2 * part_bytes));
    double least = cycles_of(m, (double)most / 2, 1, 1); /* a thread for each result */
    bool better = false;
    for (int64_t results = 1; results < 2 * extent_of(m, m->across) && results <= 64; results *= 2)
        for (int64_t parts = 2; parts < 2 * extent_of(m, m->along[0]) && parts <= PARTS_MAX;
             parts *= 2)
            for (int64_t more = m->along[1] < 0 ? 1 : 2;
                 more < 2 * extent_of(m, m->along[1]) && more <= 64; more *= 2) {
                const int64_t threads = results * parts * more;
                if (threads > most || threads % m->limits.warp != 0 || m->count == SHAPES_MAX)
                    continue;
                const double cycles = cycles_of(m, (double)results, (double)parts, (double)more);
                int64_t *row = m->shape[m->count];
                row[RESULTS] = results, row[PARTS] = parts, row[MORE_PARTS] = more;
                if (cycles < least) least = cycles, better = true, m->preferred = m->count;
                m->count++;
            }
    return better;
}

/* ---- nests ----------------------------------------------------------------------------------- */

static kiln_loop_axis axis_of(const sums *m, int column) {
    static const kiln_loop_axis by_result[] = {KILN_AXIS_THREAD_X, KILN_AXIS_THREAD_Y,
                                               KILN_AXIS_THREAD_Z},
                                by_step[] = {KILN_AXIS_THREAD_Z, KILN_AXIS_THREAD_X,
                                             KILN_AXIS_THREAD_Y};
    return m->by_result ? by_result[column] : by_step[column];
}

/* Loops of a nest by the column of its threads; none: it has none of these. */
typedef struct threads {
    kiln_sched_loop loop[COLUMNS];
} threads;

/* The loops of threads outermost, then `rest`. `*out_inner`: the innermost of them. */
static bool bind_threads(sums *m, const threads *t, const kiln_sched_loops *rest,
                         kiln_sched_loop *out_inner) {
    static const kiln_loop_axis axis[] = {KILN_AXIS_THREAD_Z, KILN_AXIS_THREAD_Y,
                                          KILN_AXIS_THREAD_X};
    kiln_sched_loops order = {0};
    kiln_loop_axis bound[KILN_ARRAY_COUNT(axis)];
    for (uint32_t n = 0; n < KILN_ARRAY_COUNT(axis); n++)
        for (int c = 0; c < COLUMNS; c++) {
            if (axis_of(m, c) != axis[n] || kiln_sched_loop_is_none(t->loop[c])) continue;
            bound[order.count] = axis[n];
            kiln_sched_loops_add(&order, t->loop[c]);
        }
    const kiln_sched_loops all = order;
    for (uint32_t i = 0; i < rest->count; i++) kiln_sched_loops_add(&order, rest->loop[i]);
    bool fits = order.count < 2 || kiln_sched_reorder(kiln_sched_try(m->s), &order);
    for (uint32_t i = 0; i < all.count && fits; i++)
        fits = kiln_sched_bind(kiln_sched_try(m->s), all.loop[i], bound[i]);
    if (all.count) *out_inner = all.loop[all.count - 1];
    return fits && all.count;
}

/* Blocks of the reduction: `part[0]` adds up the results of `part[1]` and so on; the last one adds
 * up the operands in a register, and `copy` stores that where the others read it. */
typedef struct chain {
    kiln_block part[3], copy;
    uint32_t count;
    int across;     /* iterator of all of them; -1: there is none */
    uint32_t first; /* iterators of results that they have: lanes follow */
    uint32_t rank;  /* dimensions of results */
} chain;

static bool make_parts(sums *m, chain *c) {
    kiln_sched *s = m->s;
    const kiln_block_info b = s->program->block.data[m->block];
    *c = (chain){.part = {m->block}, .count = 1, .across = -1, .rank = b.index_count};
    uint32_t reduced = 0, place = 0; /* of along[0] among those that reduce */
    for (int i = 0; i < (int)b.iter_count; i++) {
        if (i == m->across) c->across = (int)c->first;
        if (i == m->along[0]) place = reduced;
        c->first += !b.iter[i].reduce;
        reduced += b.iter[i].reduce;
    }
    /* The second one first: lanes of the first one then lie innermost. */
    for (int n = 1; n >= 0; n--) {
        if (m->along[n] < 0) continue;
        const uint32_t iter = n == 1            ? (uint32_t)m->along[1]
                              : m->along[1] < 0 ? (uint32_t)m->along[0]
                                                : c->first + 1 + place;
        const kiln_block part =
            kiln_sched_rfactor(kiln_sched_try(s), c->part[c->count - 1], iter,
                               kiln_sched_element(m->threads, n == 0 ? PARTS : MORE_PARTS));
        if (!part) return false;
        c->part[c->count++] = part;
    }
    c->copy = kiln_sched_cache_write(kiln_sched_try(s), c->part[c->count - 1], KILN_SCOPE_REGISTER);
    return c->copy != 0;
}

/* The threads' loops of a block of the chain, with so many lanes. */
static threads threads_of(const sums *m, const chain *c, kiln_block block, uint32_t lanes) {
    /* The copy has an iterator for each dimension; others may lack some of extent 1. */
    const bool copies = block == c->copy;
    const int across = copies && m->across >= 0 ? m->pattern.to.dim_of[m->across] : c->across;
    const uint32_t first = copies ? c->rank : c->first;
    const bool both = m->along[1] >= 0;
    threads t = {0};
    if (across >= 0) t.loop[RESULTS] = kiln_sched_loop_of(m->s, block, (uint32_t)across);
    for (uint32_t n = 0; n < lanes; n++)
        t.loop[both && n == 0 ? MORE_PARTS : PARTS] = kiln_sched_loop_of(m->s, block, first + n);
    return t;
}

static kiln_sched_loops reduce_loops(const kiln_sched *s, kiln_block block) {
    const kiln_block_info *b = &s->program->block.data[block];
    kiln_sched_loops list = {0};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce) kiln_sched_loops_add(&list, kiln_sched_loop_of(s, block, i));
    return list;
}

/* Steps of one thread. */
static bool sum_in_thread(sums *m, kiln_block block, kiln_sched_loop thread) {
    kiln_sched *s = m->s;
    if (!kiln_sched_compute_at(kiln_sched_try(s), block, thread)) return false;
    const kiln_sched_loops steps = reduce_loops(s, block);
    const kiln_sched_loop last = steps.loop[steps.count - 1];
    if (!kiln_sched_decompose_reduction(kiln_sched_try(s), block, steps.loop[0])) return false;
    if (kiln_sched_extent(s, last) % STEPS_UNROLLED != 0) return true;
    const kiln_sched_loops part =
        kiln_sched_split(kiln_sched_try(s), last,
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(STEPS_UNROLLED)));
    if (part.count) kiln_sched_unroll(kiln_sched_try(s), part.loop[1]);
    return true;
}

/* Parts and their sums in the loop over groups. */
static bool place_chain(sums *m, const chain *c, kiln_sched_loop grid, uint32_t from) {
    kiln_sched *s = m->s;
    kiln_sched_loop inner;
    for (uint32_t n = from; n + 1 < c->count; n++) {
        if (!kiln_sched_compute_at(kiln_sched_try(s), c->part[n], grid)) return false;
        const threads t = threads_of(m, c, c->part[n], n);
        const kiln_sched_loops lanes = reduce_loops(s, c->part[n]);
        if (!bind_threads(m, &t, &lanes, &inner)) return false;
    }
    if (!kiln_sched_compute_at(kiln_sched_try(s), c->copy, grid)) return false;
    const threads t = threads_of(m, c, c->copy, c->count - 1);
    const kiln_sched_loops none = {0};
    return bind_threads(m, &t, &none, &inner) && sum_in_thread(m, c->part[c->count - 1], inner);
}

/* The groups' loop of the block that takes the results, which the same threads execute. */
static bool make_grid(sums *m, kiln_block follower, kiln_buffer results, kiln_sched_loop *out) {
    kiln_sched *s = m->s;
    kiln_pattern pattern;
    kiln_sched_loops grid = {0}, rest = {0}, order;
    threads t = {0};
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    uint32_t rows = ~pattern.spatial; /* iterators that index the results */
    int across = -1;
    for (uint32_t a = 0; a < pattern.from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && pattern.from[a].buffer == results; i++) {
            if (pattern.from[a].dim_of[i] < 0) continue;
            rows |= 1u << i;
            if (pattern.from[a].dim_of[i] == m->pattern.to.dim_of[m->across]) across = i;
        }
    if (across < 0) return false;
    for (int i = 0; i < (int)s->program->block.data[follower].iter_count; i++)
        if (i != across)
            kiln_sched_loops_add(rows >> i & 1 ? &grid : &rest,
                                 kiln_sched_loop_of(s, follower, (uint32_t)i));
    const kiln_sched_loop loop = kiln_sched_loop_of(s, follower, (uint32_t)across);
    const kiln_sched_loops part = kiln_sched_split(
        kiln_sched_try(s), loop,
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(m->threads, RESULTS)));
    if (part.count == 0) return false; /* it has a nest already */
    kiln_sched_loops_add(&grid, part.loop[0]);
    t.loop[RESULTS] = part.loop[1];
    order = grid;
    kiln_sched_loops_add(&order, part.loop[1]);
    for (uint32_t i = 0; i < rest.count; i++) kiln_sched_loops_add(&order, rest.loop[i]);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    *out = grid.count > 1 ? kiln_sched_fuse(kiln_sched_try(s), &grid) : grid.loop[0];
    if (kiln_sched_loop_is_none(*out) ||
        !kiln_sched_bind(kiln_sched_try(s), *out, KILN_AXIS_BLOCK_X))
        return false;
    if (rest.count) { /* the block's work for each result is distributed to its threads */
        const kiln_sched_loop all =
            rest.count > 1 ? kiln_sched_fuse(kiln_sched_try(s), &rest) : rest.loop[0];
        const kiln_sched_int part_of[] = {kiln_sched_rest(),
                                          kiln_sched_element(m->threads, MORE_PARTS),
                                          kiln_sched_element(m->threads, PARTS)};
        const kiln_sched_loops dealt = kiln_sched_split(kiln_sched_try(s), all, part_of, 3);
        if (dealt.count == 0) return false;
        t.loop[MORE_PARTS] = dealt.loop[1];
        t.loop[PARTS] = dealt.loop[2];
        rest = (kiln_sched_loops){1, {dealt.loop[0]}};
    }
    kiln_sched_loop inner;
    return bind_threads(m, &t, &rest, &inner);
}

/* One result: one group, whose loop is around the last sum. */
static bool make_single(sums *m, const chain *c, kiln_sched_loop *out) {
    kiln_sched *s = m->s;
    const kiln_sched_loops lanes = reduce_loops(s, c->part[0]);
    const kiln_sched_loops part = kiln_sched_split(
        kiln_sched_try(s), lanes.loop[0], KILN_SCHED_INTS(kiln_sched_const(1), kiln_sched_rest()));
    *out = part.count ? part.loop[0] : (kiln_sched_loop){0};
    return part.count && kiln_sched_bind(kiln_sched_try(s), *out, KILN_AXIS_BLOCK_X);
}

/* Moves the only block that reads the result there, if it also has one result. */
static void take_single(sums *m, kiln_sched_loop grid) {
    kiln_program *p = m->s->program;
    kiln_block *reader = KILN_ARENA_ARRAY(m->s->arena, kiln_block, p->block.count);
    if (kiln_buffer_readers(p, p->block.data[m->block].buffer, reader) == 1 &&
        p->block.data[reader[0]].iter_count == 0)
        kiln_sched_reverse_compute_at(kiln_sched_try(m->s), reader[0], grid);
}

/* False: the loops do not allow it, and the schedule is left half-changed. */
static bool share(sums *m) {
    kiln_sched *s = m->s;
    chain c;
    kiln_sched_loop grid;
    m->threads = kiln_sched_choice(s, COLUMNS, m->shape[0], m->count, m->preferred);
    if (m->across < 0) {
        if (!make_parts(m, &c) || !make_single(m, &c, &grid) || !place_chain(m, &c, grid, 1))
            return false;
        take_single(m, grid);
        return true;
    }
    const kiln_block follower = kiln_sketch_separate_result(s, m->block, KILN_SCOPE_GLOBAL);
    return follower && make_grid(m, follower, s->program->block.data[m->block].buffer, &grid) &&
           make_parts(m, &c) && place_chain(m, &c, grid, 0);
}

bool kiln_gpu_share_sums(kiln_sched *s, kiln_block block) {
    sums m = {.s = s, .block = block, .limits = kiln_gpu_limits_of(s->target)};
    if (!choose_roles(&m) || !choose_shapes(&m)) return false;
    kiln_sched fork = kiln_sched_fork(s);
    sums tried = m;
    tried.s = &fork;
    bool works = share(&tried);
    kiln_status st = kiln_sched_end(&fork);
    works = works && !st;
    kiln_status_free(st); /* a step that it relies on is refused: the same as one of a try */
    return works && share(&m);
}
