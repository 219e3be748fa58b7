/* The rule "tile" of devices with groups of threads: one large reduction. A group computes a tile
 * of rows and columns of the result; each of its threads the sums of some neighbouring points, in
 * its own memory. Block by block of the reduction, the threads copy elements that several of them
 * read into shared memory, and read them there. The block that follows the reduction takes the sums
 * from the threads' memory. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/rules/group.h"

typedef enum axis { ROW, COLUMN, AXES } axis;

typedef struct tile_sizes {
    int64_t threads[AXES], points[AXES], steps;
} tile_sizes;

typedef struct group_tiling {
    kiln_sched *s;
    kiln_block block;
    kiln_pattern pattern;
    int iter[AXES]; /* of rows, -1 if there are none, and of columns: the contiguous one */
    int k;          /* reduced in blocks */
    bool direct;    /* nothing is copied */
    /* [pattern.from_count]: that the operand is copied. */
    bool *copies;
    kiln_sched_sample threads, points, steps; /* (rows, columns), (rows, columns), (of k) */
} group_tiling;

static int64_t extent_of(const group_tiling *t, int iter) {
    return iter < 0 ? 1 : t->s->program->block.data[t->block].iter[iter].extent;
}

/* ---- roles ----------------------------------------------------------------------------------- */

static bool choose_roles(group_tiling *t) {
    kiln_program *p = t->s->program;
    if (!kiln_pattern_of(p, t->block, &t->pattern)) return false;
    t->iter[COLUMN] = kiln_sketch_contiguous_iter(p, &t->pattern);
    t->iter[ROW] = t->k = -1;
    for (int i = 0; i < (int)p->block.data[t->block].iter_count; i++) {
        bool is_row =
            (t->pattern.spatial >> i & 1) && i != t->iter[COLUMN] && t->pattern.to.dim_of[i] >= 0;
        if (is_row && extent_of(t, i) > extent_of(t, t->iter[ROW])) t->iter[ROW] = i;
        if ((t->pattern.reduce >> i & 1) && extent_of(t, i) > extent_of(t, t->k)) t->k = i;
    }
    return t->iter[COLUMN] >= 0 && t->k >= 0;
}

/* Whether several threads of a group read one element: it does not depend on rows or columns, or
 * their windows overlap. */
static bool is_shared(const group_tiling *t, const kiln_block_access *a) {
    return a->window || !(a->iters >> t->iter[COLUMN] & 1) ||
           (t->iter[ROW] >= 0 && !(a->iters >> t->iter[ROW] & 1));
}

/* How many operands there are to copy. */
static uint32_t choose_copies(group_tiling *t) {
    uint32_t count = 0;
    t->copies = KILN_ARENA_ARRAY(t->s->arena, bool, t->pattern.from_count);
    for (uint32_t a = 0; a < t->pattern.from_count; a++) {
        bool again = false; /* the same buffer at another index */
        for (uint32_t b = 0; b < a; b++)
            again |= t->pattern.from[b].buffer == t->pattern.from[a].buffer;
        if (again || !is_shared(t, &t->pattern.from[a])) continue;
        t->copies[a] = !t->direct;
        count++;
    }
    return count;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Relative costs, to prefer one tile to others before anything is measured. GPUs have the same
 * order; the null device has these numbers (base/null_code.h). */
#define STATEMENT 1.0
#define DEVICE_ACCESS 4.0
#define SHARED_ACCESS 1.0
#define BARRIER 4.0
#define GROUPS_AT_ONCE 4

#define POINTS_MAX 4
#define STEPS_MAX 32
#define GROUP_HALVINGS 2 /* fewer threads than a quarter of the limit leave units idle */
#define ROWS_MAX 64

static double parts(int64_t extent, int64_t size) { return ceil((double)extent / (double)size); }

/* Approximate elements of an operand that one block of the reduction reads for a tile: windows
 * reach beyond the tile by the extents of the sliding iterators. */
static double elements_of(const group_tiling *t, const kiln_block_access *a, const tile_sizes *z) {
    double elements = 1, sliding = 0;
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    for (int i = 0; i < (int)b->iter_count; i++)
        if ((a->iters >> i & 1) && b->iter[i].reduce && i != t->k && a->window)
            sliding = fmax(sliding, (double)extent_of(t, i) - 1);
        else if ((a->iters >> i & 1) && b->iter[i].reduce)
            elements *= (double)(i == t->k ? z->steps : extent_of(t, i));
    for (axis x = ROW; x < AXES; x++)
        if (t->iter[x] >= 0 && (a->iters >> t->iter[x] & 1))
            elements *=
                (double)KILN_MIN(z->threads[x] * z->points[x], extent_of(t, t->iter[x])) + sliding;
    return elements;
}

/* Approximate ticks of all groups; INFINITY if the copies exceed the shared memory, and for a
 * single group. */
static double estimate(const group_tiling *t, const tile_sizes *z) {
    const kiln_program *p = t->s->program;
    const kiln_block_info *b = &p->block.data[t->block];
    double threads = (double)(z->threads[ROW] * z->threads[COLUMN]), shared_bytes = 0, copying = 0;
    double groups = 1, sums = (double)(z->points[ROW] * z->points[COLUMN]), loading = 0;
    for (int i = 0; i < (int)b->iter_count; i++) {
        if (b->iter[i].reduce && i != t->k) sums *= (double)extent_of(t, i);
        if (!b->iter[i].reduce && i != t->iter[ROW] && i != t->iter[COLUMN])
            groups *= (double)extent_of(t, i);
    }
    for (axis x = ROW; x < AXES; x++)
        groups *= parts(extent_of(t, t->iter[x]), z->threads[x] * z->points[x]);
    for (uint32_t a = 0; a < t->pattern.from_count; a++) {
        const kiln_block_access *from = &t->pattern.from[a];
        loading += t->copies[a] ? SHARED_ACCESS : DEVICE_ACCESS;
        if (!t->copies[a]) continue;
        double elements = elements_of(t, from, z), rounds = ceil(elements / threads);
        /* If the last round is not full, lowering allocates room for the whole rows of a full
         * one. */
        double room = rounds * threads > elements ? rounds * threads + elements / 2 : elements;
        shared_bytes += room * (double)kiln_dtype_size(p->buffer.data[from->buffer].dtype);
        copying += rounds * (STATEMENT + DEVICE_ACCESS + SHARED_ACCESS) + BARRIER;
    }
    /* Lowering removes loops of one iteration, but the nests of a group need their common loop. */
    if (shared_bytes > t->s->target->shared_bytes || groups < 2) return INFINITY;
    return ceil(groups / GROUPS_AT_ONCE) * parts(extent_of(t, t->k), z->steps) *
           (copying + sums * (double)z->steps * (STATEMENT + loading));
}

typedef struct choices {
    uint32_t threads_count, points_count, steps_count;
    int64_t threads[ROWS_MAX][AXES], points[ROWS_MAX][AXES], steps[ROWS_MAX];
} choices;

/* At most the extent, rounded up to a power of two. */
static bool is_within(const group_tiling *t, axis x, int64_t size) {
    return size < 2 * extent_of(t, t->iter[x]);
}

static void add_pair(int64_t (*row)[AXES], uint32_t *count, int64_t rows, int64_t columns) {
    row[*count][ROW] = rows;
    row[(*count)++][COLUMN] = columns;
}

static void list_choices(const group_tiling *t, choices *c) {
    const int64_t limit = t->s->target->group_threads;
    for (int64_t all = limit; all >= KILN_MAX(limit >> GROUP_HALVINGS, 1); all /= 2)
        for (int64_t rows = 1; rows <= all && c->threads_count < ROWS_MAX - 1; rows *= 2)
            if (is_within(t, ROW, rows) && is_within(t, COLUMN, all / rows))
                add_pair(c->threads, &c->threads_count, rows, all / rows);
    if (c->threads_count == 0) { /* a small result is one group */
        int64_t most[AXES] = {1, 1};
        for (axis x = ROW; x < AXES; x++)
            while (is_within(t, x, 2 * most[x]) && 2 * most[ROW] * most[COLUMN] <= limit)
                most[x] *= 2;
        add_pair(c->threads, &c->threads_count, most[ROW], most[COLUMN]);
    }
    for (int64_t rows = 1; rows <= POINTS_MAX; rows *= 2)
        for (int64_t columns = 1; columns <= POINTS_MAX; columns *= 2)
            if (is_within(t, ROW, rows) && is_within(t, COLUMN, columns))
                add_pair(c->points, &c->points_count, rows, columns);
    const int64_t all = extent_of(t, t->k);
    for (int64_t steps = STEPS_MAX; steps > 0; steps /= 2)
        if (steps < all) c->steps[c->steps_count++] = steps;
    if (all <= STEPS_MAX) c->steps[c->steps_count++] = all;
}

/* False: no tile's copies fit. */
static bool sample_sizes(group_tiling *t) {
    choices c = {0};
    uint32_t best[3] = {0};
    double least = INFINITY;
    list_choices(t, &c);
    for (uint32_t i = 0; i < c.threads_count; i++)
        for (uint32_t k = 0; k < c.points_count; k++)
            for (uint32_t n = 0; n < c.steps_count; n++) {
                const tile_sizes z = {{c.threads[i][ROW], c.threads[i][COLUMN]},
                                      {c.points[k][ROW], c.points[k][COLUMN]},
                                      c.steps[n]};
                double ticks = estimate(t, &z);
                if (!(ticks < least)) continue;
                least = ticks;
                best[0] = i, best[1] = k, best[2] = n;
            }
    if (isinf(least)) return false;
    t->threads = kiln_sched_choice(t->s, AXES, c.threads[0], c.threads_count, best[0]);
    t->points = kiln_sched_choice(t->s, AXES, c.points[0], c.points_count, best[1]);
    t->steps = kiln_sched_categorical(t->s, c.steps, c.steps_count, best[2]);
    return true;
}

/* ---- the nest -------------------------------------------------------------------------------- */

static const kiln_loop_axis thread_axis[AXES] = {KILN_AXIS_THREAD_Y, KILN_AXIS_THREAD_X},
                            grid_axis[AXES] = {KILN_AXIS_BLOCK_Y, KILN_AXIS_BLOCK_X};

/* The loops of a tile, from the outside; none along rows where there are no rows. */
typedef struct nest {
    kiln_sched_loop others; /* results that are no rows or columns: fused */
    kiln_sched_loop grid[AXES], threads[AXES];
    kiln_sched_loop blocks; /* of the reduction */
} nest;

static bool make_nest(group_tiling *t, nest *out) {
    kiln_sched *s = t->s;
    const kiln_block_info *b = &s->program->block.data[t->block];
    kiln_sched_loops order = {0}, others = {0}, points = {0};
    kiln_sched_loops k =
        kiln_sched_split(s, kiln_sched_loop_of(s, t->block, (uint32_t)t->k),
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, 0)));
    for (axis x = ROW; x < AXES; x++) {
        if (t->iter[x] < 0) continue;
        kiln_sched_loops part =
            kiln_sched_split(s, kiln_sched_loop_of(s, t->block, (uint32_t)t->iter[x]),
                             KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->threads, x),
                                             kiln_sched_element(t->points, x)));
        out->grid[x] = part.loop[0];
        out->threads[x] = part.loop[1];
        kiln_sched_loops_add(&points, part.loop[2]);
    }
    out->blocks = k.loop[0];
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && i != t->iter[ROW] && i != t->iter[COLUMN])
            kiln_sched_loops_add(&others, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    order = others;
    for (axis x = ROW; x < AXES; x++) kiln_sched_loops_add(&order, out->grid[x]);
    kiln_sched_loops_add(&order, out->blocks);
    for (axis x = ROW; x < AXES; x++) kiln_sched_loops_add(&order, out->threads[x]);
    kiln_sched_loops_add(&order, k.loop[1]);
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k)
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (uint32_t i = 0; i < points.count; i++) kiln_sched_loops_add(&order, points.loop[i]);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    out->others = others.count > 1   ? kiln_sched_fuse(kiln_sched_try(s), &others)
                  : others.count > 0 ? others.loop[0]
                                     : (kiln_sched_loop){0};
    return others.count == 0 || !kiln_sched_loop_is_none(out->others);
}

static bool bind_nest(kiln_sched *s, const nest *n) {
    bool bound = kiln_sched_loop_is_none(n->others) ||
                 kiln_sched_bind(kiln_sched_try(s), n->others, KILN_AXIS_BLOCK_Z);
    for (axis x = ROW; x < AXES && bound; x++)
        bound = kiln_sched_loop_is_none(n->grid[x]) ||
                kiln_sched_bind(kiln_sched_try(s), n->grid[x], grid_axis[x]);
    for (axis x = ROW; x < AXES && bound; x++)
        bound = kiln_sched_loop_is_none(n->threads[x]) ||
                kiln_sched_bind(kiln_sched_try(s), n->threads[x], thread_axis[x]);
    return bound;
}

/* ---- around the reduction -------------------------------------------------------------------- */

/* Rows and columns, or columns alone. */
static bool bind_threads(kiln_sched *s, const kiln_sched_loops *threads) {
    bool bound = true;
    for (uint32_t i = 0; i < threads->count && bound; i++)
        bound = kiln_sched_bind(kiln_sched_try(s), threads->loop[i],
                                thread_axis[threads->count == 1 ? COLUMN : (axis)i]);
    return bound;
}

/* Distributes the two loops with most iterations to the threads, the inner one along columns. */
static bool place_copy(group_tiling *t, kiln_block copy, const nest *n) {
    kiln_sched *s = t->s;
    kiln_sched_loop dealt[AXES] = {{0}, {0}};
    if (!kiln_sched_compute_at(kiln_sched_try(s), copy, n->blocks)) return false;
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++) {
        kiln_sched_loop loop = kiln_sched_loop_of(s, copy, i);
        int64_t extent = kiln_sched_extent(s, loop);
        if (extent <= kiln_sched_extent(s, dealt[ROW]) &&
            extent <= kiln_sched_extent(s, dealt[COLUMN]))
            continue;
        if (kiln_sched_extent(s, dealt[COLUMN]) > kiln_sched_extent(s, dealt[ROW]))
            dealt[ROW] = dealt[COLUMN];
        dealt[COLUMN] = loop;
    }
    kiln_sched_loops order = {0}, threads = {0};
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++) {
        kiln_sched_loop loop = kiln_sched_loop_of(s, copy, i);
        if (loop.var != dealt[ROW].var && loop.var != dealt[COLUMN].var)
            kiln_sched_loops_add(&order, loop);
    }
    for (axis x = ROW; x < AXES; x++) {
        if (kiln_sched_loop_is_none(dealt[x])) continue;
        kiln_sched_loops part = kiln_sched_split(
            s, dealt[x], KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->threads, x)));
        kiln_sched_loops_add(&order, part.loop[0]);
        kiln_sched_loops_add(&threads, part.loop[1]);
    }
    for (uint32_t i = 0; i < threads.count; i++) kiln_sched_loops_add(&order, threads.loop[i]);
    return kiln_sched_reorder(kiln_sched_try(s), &order) && bind_threads(s, &threads);
}

/* The iterator of `follower` that corresponds to an iterator of the reduction; -1: none. */
static int follower_iter(const group_tiling *t, const kiln_pattern *follower, kiln_buffer sums,
                         int iter) {
    const int dim = t->pattern.to.dim_of[iter];
    for (uint32_t a = 0; a < follower->from_count && dim >= 0; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (follower->from[a].buffer == sums && follower->from[a].dim_of[i] == dim) return i;
    return -1;
}

/* Each thread takes its own sums. */
static bool place_follower(group_tiling *t, kiln_block follower, const nest *n) {
    kiln_sched *s = t->s;
    const kiln_buffer sums = s->program->block.data[t->block].buffer;
    kiln_pattern pattern;
    kiln_sched_loops order = {0}, points = {0}, threads = {0};
    int iter[AXES];
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    for (axis x = ROW; x < AXES; x++) {
        iter[x] = t->iter[x] < 0 ? -1 : follower_iter(t, &pattern, sums, t->iter[x]);
        if (iter[x] < 0 && t->iter[x] >= 0) return false;
    }
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, n->grid[COLUMN])) return false;
    for (axis x = ROW; x < AXES; x++) {
        if (iter[x] < 0) continue;
        kiln_sched_loops part = kiln_sched_split(
            s, kiln_sched_loop_of(s, follower, (uint32_t)iter[x]),
            KILN_SCHED_INTS(kiln_sched_element(t->threads, x), kiln_sched_element(t->points, x)));
        kiln_sched_loops_add(&threads, part.loop[0]);
        kiln_sched_loops_add(&points, part.loop[1]);
    }
    order = threads;
    for (int i = 0; i < (int)s->program->block.data[follower].iter_count; i++)
        if (i != iter[ROW] && i != iter[COLUMN])
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, follower, (uint32_t)i));
    for (uint32_t i = 0; i < points.count; i++) kiln_sched_loops_add(&order, points.loop[i]);
    return kiln_sched_reorder(kiln_sched_try(s), &order) && bind_threads(s, &threads);
}

enum { OPTION_DIRECT };
const char *const kiln_group_tile_option[1] = {[OPTION_DIRECT] = "direct"};

kiln_sketch_result kiln_sketch_group_tile(kiln_sched *s, uint32_t options) {
    uint32_t reductions, copied = 0;
    nest n = {0};
    kiln_sketch_inline(s);
    group_tiling t = {.s = s,
                      .block = kiln_sketch_main_reduction(s->program, &reductions),
                      .direct = options >> OPTION_DIRECT & 1};
    if (!t.block || reductions != 1)
        return kiln_sketch_never(t.block ? "there are several reductions"
                                         : "there is no reduction");
    if (!choose_roles(&t)) return kiln_sketch_never("nothing is contiguous in the result");
    kiln_block follower = kiln_sketch_separate_result(s, t.block, KILN_SCOPE_LOCAL);
    if (!follower) return kiln_sketch_never("the sums cannot be in a separate buffer");
    kiln_sched_set_scope(kiln_sched_try(s), s->program->block.data[t.block].buffer,
                         KILN_SCOPE_LOCAL);
    if (!choose_roles(&t)) return kiln_sketch_never("nothing is contiguous in the result");
    if (choose_copies(&t) == 0 && t.direct)
        return (kiln_sketch_result){
            .end = KILN_SKETCH_SAME, .option = OPTION_DIRECT, .reason = "threads share nothing"};
    if (!sample_sizes(&t)) return kiln_sketch_none("no tile fits into shared memory");
    kiln_block *copy = KILN_ARENA_ARRAY(s->arena, kiln_block, t.pattern.from_count);
    for (uint32_t a = 0; a < t.pattern.from_count; a++)
        if (t.copies[a])
            copy[copied++] = kiln_sched_cache_read(kiln_sched_try(s), t.block,
                                                   t.pattern.from[a].buffer, KILN_SCOPE_SHARED);
    if (!make_nest(&t, &n) || !bind_nest(s, &n))
        return kiln_sketch_none("its loops cannot be groups and threads");
    kiln_sched_decompose_reduction(kiln_sched_try(s), t.block, n.blocks);
    for (uint32_t i = 0; i < copied; i++)
        if (!copy[i] || !place_copy(&t, copy[i], &n))
            return kiln_sketch_none("threads cannot copy the shared operands");
    if (!place_follower(&t, follower, &n))
        return kiln_sketch_none("the reader of the sums cannot be in the tile's loops");
    kiln_sketch_visit_alone(s, kiln_group_spread_block);
    return kiln_sketch_made();
}
