/* Tables of tiles for a group of a GPU. A trace decides on a row of the table of tiles and on one
 * of the table of steps, each for itself; so the tables hold only what goes together in every
 * combination: nothing that a limit forbids is ever drawn. */
#include <math.h>
#include <stdlib.h>

#include "base/integer.h"
#include "base/macros.h"
#include "compiler-core/rules/gpu.h"

#define THREADS_MAX 512      /* of a group */
#define ACCUMULATORS_MAX 128 /* of a thread */
#define TILE_MAX 256         /* rows, or columns */
#define POINTS_MAX 16        /* of a thread along one iterator */
#define STEPS_MAX 64
#define TILES_MAX 8192 /* that are looked at */
#define UNROLLED_MAX \
    2048 /* multiply-adds in a loop body: more do not stay in the instruction cache */
/* Registers of addresses, counters and what ptxas keeps: counts of fp32 tiles of the machine code
 * of sm_80 and sm_90 lie within 13 % of what they give (../shared/reference/gpu.md says how). */
#define REGISTERS_BESIDE 22
#define WARPS_WANTED 8.0 /* of a unit, so that it always has one that need not wait */

/* ---- what a tile takes ----------------------------------------------------------------------- */

int64_t kiln_gpu_group_threads(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    int64_t threads = t->together;
    for (uint32_t n = 0; n < t->tiled; n++) threads *= tile->threads[n];
    return threads;
}

static int64_t points_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    int64_t points = 1;
    for (uint32_t n = 0; n < t->tiled; n++) points *= tile->points[n];
    return points;
}

/* How many elements of iterator `i` a group takes at a time. */
static int64_t size_of(const kiln_gpu_tiling *t, int i, const kiln_gpu_tile *tile, int64_t steps) {
    for (uint32_t n = 0; n < t->tiled; n++)
        if (t->iter[n] == i) return tile->threads[n] * tile->points[n];
    if (i == t->k) return steps;
    return t->s->program->block.data[t->block].iter[i].reduce ? kiln_gpu_extent(t, i) : 1;
}

int64_t kiln_gpu_region(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, uint32_t d,
                        const kiln_gpu_tile *tile, int64_t steps) {
    int64_t size = 1;
    for (int i = 0; o->iters[d] >> i; i++) /* most of what choosing sizes costs */
        if (o->iters[d] >> i & 1) size += o->coefficient[d][i] * (size_of(t, i, tile, steps) - 1);
    return size;
}

static int64_t elements_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                           const kiln_gpu_tile *tile, int64_t steps) {
    int64_t elements = 1;
    for (uint32_t d = 0; d < o->rank; d++) elements *= kiln_gpu_region(t, o, d, tile, steps);
    return elements;
}

int64_t kiln_gpu_rounds(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                        const kiln_gpu_tile *tile, int64_t steps) {
    const int64_t at_once = kiln_gpu_group_threads(t, tile) * KILN_MAX(o->fetch, 1);
    return (elements_of(t, o, tile, steps) + at_once - 1) / at_once;
}

/* The threads copy whole rounds: where the last one is not full, lowering leaves room for what it
 * would copy, which is whole slices of the outermost dimension. */
int64_t kiln_gpu_copied_elements(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                                 const kiln_gpu_tile *tile, int64_t steps) {
    const int64_t elements = elements_of(t, o, tile, steps),
                  copied = kiln_gpu_rounds(t, o, tile, steps) * kiln_gpu_group_threads(t, tile) *
                           KILN_MAX(o->fetch, 1);
    int64_t outermost = 1, inner = elements;
    for (uint32_t d = 0; d < o->rank && outermost == 1; d++) {
        outermost = kiln_gpu_region(t, o, d, tile, steps);
        inner /= outermost;
    }
    const int64_t slices = (copied + inner - 1) / inner;
    return KILN_MAX(slices, outermost) * inner;
}

int64_t kiln_gpu_shared_bytes(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    int64_t bytes = 0;
    for (uint32_t a = 0; a < t->operand_count; a++)
        bytes += kiln_gpu_copied_elements(t, &t->operand[a], tile, steps) * t->operand[a].bytes;
    return bytes;
}

int64_t kiln_gpu_registers(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    int64_t columns = 1, fetched = 0;
    for (uint32_t n = 1; n < t->tiled; n++) columns *= tile->points[n];
    for (uint32_t a = 0; a < t->operand_count; a++)
        fetched += kiln_gpu_rounds(t, &t->operand[a], tile, steps) *
                   KILN_MAX(t->operand[a].fetch, 1) * t->operand[a].bytes / 4;
    const int64_t bytes = (int64_t)kiln_dtype_size(
                      t->s->program->buffer.data[t->pattern.to.buffer].dtype),
                  words = (bytes + 3) / 4;
    return (points_of(t, tile) + 2 * (tile->points[0] + columns)) * words + KILN_MIN(fetched, 16) +
           REGISTERS_BESIDE;
}

/* ---- how long it takes, about ---------------------------------------------------------------- */

static double parts_of(int64_t extent, int64_t size) {
    return (double)((extent + size - 1) / size);
}

double kiln_gpu_groups(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    double groups = 1;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce) groups *= parts_of(b->iter[i].extent, size_of(t, i, tile, 1));
    return groups;
}

#define LATENCY                                                                      \
    800.0 /* cycles from a block's first fetch to its last barrier, without the sums \
           */
#define FETCH_ISSUED 8.0 /* instructions of a fetch: indices, conditions, the store */
#define LOOP_ISSUED 8.0  /* of a turn of the loop over blocks of steps */

/* Instructions of a warp for one step of the reduction: sums, and loads of what they add up. Whole
 * vectors of neighbouring points; vectors of the lanes' iterator that belong to one thread lie so
 * that several threads ask the same banks. */
static double issued_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    double columns = 1, taps = 1;
    for (uint32_t n = 1; n < t->tiled; n++) columns *= (double)tile->points[n];
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k) taps *= (double)b->iter[i].extent;
    const double rows = (double)tile->points[0], lanes = (double)tile->lanes;
    const double vectors = (t->vector == 0 ? rows : columns) / lanes,
                 others = t->vector == 0 ? columns : ceil(rows / 4);
    return taps * (rows * columns + vectors * KILN_MIN(vectors, 4) + others);
}

/* Groups on a unit at once, as far as there are so many. */
static double resident_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    const kiln_gpu_limits *l = &t->limits;
    const int64_t threads = kiln_gpu_group_threads(t, tile),
                  shared = kiln_gpu_shared_bytes(t, tile, steps) + l->reserved_bytes,
                  registers = KILN_MIN(kiln_gpu_registers(t, tile, steps), l->registers);
    int64_t most = KILN_MIN(l->unit_groups, l->unit_threads / threads);
    most = KILN_MIN(most, l->unit_registers / (registers * threads));
    if (shared > 0) most = KILN_MIN(most, l->unit_shared_bytes / shared);
    return (double)KILN_MAX(most, 1);
}

/* Cycles of a unit that has its share of the groups. */
static double cycles_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    const kiln_gpu_limits *l = &t->limits;
    const double warps = ceil((double)kiln_gpu_group_threads(t, tile) / (double)l->warp);
    double bytes = 0, fetches = 0;
    for (uint32_t a = 0; a < t->operand_count; a++) {
        bytes += (double)(elements_of(t, &t->operand[a], tile, steps) * t->operand[a].bytes);
        fetches += (double)kiln_gpu_rounds(t, &t->operand[a], tile, steps);
    }
    const double groups = ceil(kiln_gpu_groups(t, tile) / (double)l->units),
                 resident = KILN_MIN(resident_of(t, tile, steps), groups),
                 blocks = parts_of(kiln_gpu_extent(t, t->k), steps);
    const double busy = KILN_MIN(resident * warps / WARPS_WANTED, 1);
    const double issued =
        warps / l->issue *
        ((double)steps * issued_of(t, tile) + fetches * FETCH_ISSUED + LOOP_ISSUED);
    const double together = resident * KILN_MAX(issued / busy, bytes / l->copy_rate);
    const double first = LATENCY + resident * bytes / l->copy_rate;
    return groups / resident * (blocks * KILN_MAX(together, issued + LATENCY) + first);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Sizes of a thread along an iterator: powers of two, and what divides the extent. */
static uint32_t list_points(int64_t extent, int64_t *out) {
    uint32_t count = 0;
    for (int64_t p = 1; p <= POINTS_MAX; p++)
        if (p < 2 * extent && ((p & (p - 1)) == 0 || (extent % p == 0 && p >= 3))) out[count++] = p;
    return count;
}

/* The limit that the tile exceeds. */
typedef enum fault { FITS, BY_THREADS, BY_REGISTERS, BY_SHARED, FAULTS } fault;

static fault fault_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    const kiln_gpu_limits *l = &t->limits;
    const int64_t threads = kiln_gpu_group_threads(t, tile);
    if (threads > KILN_MIN(l->threads, THREADS_MAX) || threads % l->warp != 0) return BY_THREADS;
    if (points_of(t, tile) > ACCUMULATORS_MAX) return BY_REGISTERS;
    const int64_t registers = kiln_gpu_registers(t, tile, steps);
    if (registers > l->registers || registers * threads > l->unit_registers) return BY_REGISTERS;
    return kiln_gpu_shared_bytes(t, tile, steps) > l->shared_bytes ? BY_SHARED : FITS;
}

typedef struct search {
    kiln_gpu_tiling *t;
    int64_t steps;
    uint32_t count;
    kiln_gpu_tile *found; /* [TILES_MAX] */
    kiln_gpu_tile at;
    uint32_t by[FAULTS]; /* how many each limit leaves out */
} search;

static void consider(search *f) {
    kiln_gpu_tiling *t = f->t;
    f->at.lanes = t->vector < 0 ? 1 : kiln_gcd(f->at.points[t->vector], 4);
    const fault found = fault_of(t, &f->at, f->steps);
    f->by[found]++;
    if (found == FITS && f->count < TILES_MAX) f->found[f->count++] = f->at;
}

static void search_iter(search *f, uint32_t n) {
    if (n == f->t->tiled) {
        consider(f);
        return;
    }
    int64_t points[POINTS_MAX];
    const int64_t extent = kiln_gpu_extent(f->t, f->t->iter[n]);
    const uint32_t count = list_points(extent, points);
    for (int64_t threads = 1; threads <= 32; threads *= 2)
        for (uint32_t i = 0; i < count; i++) {
            const int64_t size = threads * points[i];
            if (size > TILE_MAX || (threads > 1 && size / 2 >= extent)) continue;
            f->at.threads[n] = threads;
            f->at.points[n] = points[i];
            search_iter(f, n + 1);
        }
}

static int64_t taps_of(const kiln_gpu_tiling *t) {
    int64_t taps = 1;
    for (int i = 0; i < (int)t->s->program->block.data[t->block].iter_count; i++)
        if (t->pattern.reduce >> i & 1 && i != t->k) taps *= kiln_gpu_extent(t, i);
    return taps;
}

/* The most of `steps` that can be straight code with so many points each; of larger tiles lowering
 * leaves fewer. */
static int64_t unrolled_of(const kiln_gpu_tiling *t, int64_t steps, int64_t points) {
    int64_t unrolled = steps;
    while (unrolled > 1 && (steps % unrolled != 0 || unrolled * taps_of(t) * points > UNROLLED_MAX))
        unrolled--;
    return unrolled;
}

/* Blocks of k: what divides it; where that is too little, the last block is not full. */
static uint32_t list_steps(const kiln_gpu_tiling *t, int64_t *out) {
    const int64_t all = kiln_gpu_extent(t, t->k);
    uint32_t count = 0;
    for (int64_t steps = 1; steps <= KILN_MIN(STEPS_MAX, all); steps++)
        if (all % steps == 0 && (steps >= 4 || steps == all || all % 2 != 0)) {
            if (count == KILN_GPU_STEPS_MAX) break;
            out[count++] = steps;
        }
    if (all > STEPS_MAX && (count == 0 || out[count - 1] < 4))
        out[count++] = 8; /* the last block is not full */
    return count;
}

static int by_cycles(const void *a, const void *b) {
    const kiln_gpu_tile *x = a, *y = b;
    return x->cycles < y->cycles ? -1 : x->cycles > y->cycles;
}

/* In the order of their sizes, so that neighbours in the table are alike. */
static int by_sizes(const void *a, const void *b) {
    const kiln_gpu_tile *x = a, *y = b;
    for (uint32_t n = 0; n < KILN_GPU_TILED_MAX; n++) {
        const int64_t one = x->threads[n] * x->points[n], other = y->threads[n] * y->points[n];
        if (one != other) return one < other ? -1 : 1;
        if (x->points[n] != y->points[n]) return x->points[n] < y->points[n] ? -1 : 1;
    }
    return 0;
}

/* Half of the table are the tiles that seem best, the others are spread over the rest. */
void kiln_gpu_fill_table(kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count) {
    const uint32_t best = KILN_GPU_ROWS_MAX / 2;
    qsort(tile, count, sizeof *tile, by_cycles);
    const kiln_gpu_tile preferred = tile[0];
    t->row_count = KILN_MIN(count, KILN_GPU_ROWS_MAX);
    for (uint32_t i = 0; i < t->row_count; i++) {
        const bool spread = count > KILN_GPU_ROWS_MAX && i >= best;
        t->row[i] =
            tile[spread ? best + (i - best) * (count - best) / (KILN_GPU_ROWS_MAX - best) : i];
    }
    qsort(t->row, t->row_count, sizeof *t->row, by_sizes);
    for (uint32_t i = 0; i < t->row_count; i++)
        if (by_sizes(&t->row[i], &preferred) == 0) t->preferred = i;
}

/* Keeps the tiles that blocks of so many steps leave legal. */
static uint32_t keep_legal(const kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count,
                           int64_t steps) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (fault_of(t, &tile[i], steps) == FITS) tile[kept++] = tile[i];
    return kept;
}

/* Elements that a thread can copy at once, whatever is drawn: they must lie behind one another, and
 * so must those of every row of the operand. */
static void choose_fetch(kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    const kiln_program *p = t->s->program;
    const kiln_shape *shape = &p->buffer.data[o->buffer].shape;
    const kiln_block producer = kiln_program_producer(p, o->buffer);
    uint32_t last = o->rank - 1, iters = 0;
    while (last > 0 && shape->dim[last] == 1) last--;
    int64_t width = t->limits.fetch_bytes / o->bytes;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (!o->coefficient[last][i]) continue;
        if (kiln_gpu_moves(t, i))
            iters++;
        else /* where a group begins */
            width = kiln_gcd(width, o->coefficient[last][i]);
    }
    const bool computed = producer && !p->block.data[producer].removed &&
                          kiln_expr_get(p, p->block.data[producer].value)->op == KILN_EXPR_SELECT;
    if (iters != 1 || computed) width = 1;
    width = kiln_gcd(width, shape->dim[last]);
    for (uint32_t k = 0; k < t->step_count; k++)
        for (uint32_t i = 0; i < t->row_count; i++)
            width = kiln_gcd(width, kiln_gpu_region(t, o, last, &t->row[i], t->step[k][0]));
    o->fetch = width;
}

/* How far the tiles of the table reach. */
void kiln_gpu_note_reach(const kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    for (uint32_t d = 0; d < o->rank; d++) {
        o->most[d] = t->s->program->buffer.data[o->buffer].shape.dim[d];
        for (uint32_t r = 0; r < t->row_count; r++) {
            int64_t reach = 1;
            for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
                int64_t extent = kiln_gpu_extent(t, o->coefficient[d][i] ? i : -1);
                if (i == t->k && o->coefficient[d][i]) extent = KILN_MAX(extent, t->steps_most);
                for (uint32_t n = 0; n < t->tiled; n++) {
                    const int64_t size = t->row[r].threads[n] * t->row[r].points[n];
                    if (t->iter[n] == i) extent = (extent + size - 1) / size * size;
                }
                reach += o->coefficient[d][i] * (extent - 1);
            }
            o->most[d] = KILN_MAX(o->most[d], reach);
        }
    }
}

static void rate(const kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count, int64_t steps) {
    for (uint32_t i = 0; i < count; i++) tile[i].cycles = cycles_of(t, &tile[i], steps);
}

/* The tile that seems best with blocks of so many steps; NULL: none is legal. */
static const kiln_gpu_tile *best_of(const search *f, int64_t steps, double *out_cycles) {
    const kiln_gpu_tile *best = NULL;
    for (uint32_t i = 0; i < f->count; i++) {
        if (fault_of(f->t, &f->found[i], steps) != FITS) continue;
        const double cycles = cycles_of(f->t, &f->found[i], steps);
        if (!best || cycles < *out_cycles) best = &f->found[i], *out_cycles = cycles;
    }
    return best;
}

static void fill_steps(kiln_gpu_tiling *t, const int64_t *steps, uint32_t count,
                       uint32_t preferred) {
    int64_t points = 1;
    for (uint32_t i = 0; i < t->row_count; i++) points = KILN_MAX(points, points_of(t, &t->row[i]));
    t->preferred_step = preferred;
    t->step_count = count;
    for (uint32_t k = 0; k < count; k++) {
        t->step[k][0] = steps[k];
        t->step[k][1] = unrolled_of(t, steps[k], points);
    }
}

static const char *say_empty(const search *f) {
    const kiln_gpu_limits *l = &f->t->limits;
    const char *last = f->by[BY_SHARED]      ? "the shared bytes of a group"
                       : f->by[BY_REGISTERS] ? "the registers of a thread"
                                             : "the threads of a group";
    return kiln_arena_printf(
        f->t->s->arena,
        "no tile keeps to %s: of those tried %u are no whole warps of %lld or exceed %lld threads, "
        "%u exceed %lld registers of a thread, %u exceed %lld shared bytes",
        last, f->by[BY_THREADS], (long long)l->warp, (long long)l->threads, f->by[BY_REGISTERS],
        (long long)l->registers, f->by[BY_SHARED], (long long)l->shared_bytes);
}

const char *kiln_gpu_choose_sizes(kiln_gpu_tiling *t) {
    int64_t steps[KILN_GPU_STEPS_MAX] = {0};
    const uint32_t choices = list_steps(t, steps);
    search f = {.t = t, .steps = steps[0]};
    f.found = KILN_ARENA_ARRAY(t->s->arena, kiln_gpu_tile, TILES_MAX);
    search_iter(&f, 0);
    if (f.count == 0) return say_empty(&f);
    uint32_t best = 0;
    double least = INFINITY, cycles;
    kiln_gpu_tile preferred = f.found[0];
    for (uint32_t k = 0; k < choices; k++) {
        const kiln_gpu_tile *tile = best_of(&f, steps[k], &cycles);
        if (!tile || cycles >= least) continue;
        least = cycles, best = k, preferred = *tile;
    }
    /* Longer blocks than twice the preferred one would leave room for small tiles only. */
    uint32_t last = best;
    while (last + 1 < choices && steps[last + 1] <= 2 * steps[best] &&
           fault_of(t, &preferred, steps[last + 1]) == FITS)
        last++;
    f.count = keep_legal(t, f.found, f.count, steps[last]);
    rate(t, f.found, f.count, steps[best]);
    kiln_gpu_fill_table(t, f.found, f.count);
    fill_steps(t, steps, last + 1, best);
    for (uint32_t a = 0; a < t->operand_count; a++) {
        choose_fetch(t, &t->operand[a]);
        kiln_gpu_note_reach(t, &t->operand[a]);
    }
    return NULL;
}
