/* Tables of tiles for a group of a GPU. A trace chooses a row of the table of tiles and one of the
 * table of steps independently; so the tables hold only rows of which every combination is within
 * the limits. */
#include <math.h>
#include <stdlib.h>

#include "base/integer.h"
#include "base/macros.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/rules/gpu.h"

#define THREADS_MAX 512      /* of a group */
#define ACCUMULATORS_MAX 128 /* of a thread */
#define TILE_MAX 256         /* rows, or columns */
#define POINTS_MAX 16        /* of a thread along one iterator */
#define PARTS_MAX 4
#define STEPS_MAX 64
#define BLOCKS_MAX 8 /* of steps, that are considered */
#define STAGES_MAX 4 /* of a pipeline */
#define STEPS_USUAL 16
#define TILES_MAX 16384 /* that are considered */
#define TILES_NEAR 256  /* of these, with steps of every length */
/* Multiply-adds in a loop body: 16 KiB of machine code, and the most that lowering leaves
 * unrolled. */
#define UNROLLED_MAX 1024
/* Terms of one point's sum in unrolled code: of more, compilers load operands ahead into more
 * registers than there are. */
#define SUMS_MAX 36
#define STRAIGHT_STEPS_MAX 16 /* as well */

static int64_t taps_of(const kiln_gpu_tiling *t) {
    int64_t taps = 1;
    for (int i = 0; i < (int)t->s->program->block.data[t->block].iter_count; i++)
        if (t->pattern.reduce >> i & 1 && i != t->k) taps *= kiln_gpu_extent(t, i);
    return taps;
}

/* The largest divisor of `n` that is at most `most`; 0: there is none. */
static int64_t divisor_below(int64_t n, int64_t most) {
    while (most > 0 && n % most != 0) most--;
    return most;
}

/* The most of `steps` that can be unrolled with so many points each; of larger tiles lowering
 * unrolls fewer. */
int64_t kiln_gpu_unrolled(const kiln_gpu_tiling *t, int64_t steps, int64_t points) {
    const int64_t sums = KILN_MIN(STRAIGHT_STEPS_MAX, SUMS_MAX / taps_of(t)),
                  most = KILN_MIN(UNROLLED_MAX / (taps_of(t) * points), sums);
    return divisor_below(steps, KILN_MAX(KILN_MIN(most, steps), 1));
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Sizes of a thread along an iterator: powers of two, and divisors of the extent. */
static uint32_t list_points(int64_t extent, int64_t *out) {
    uint32_t count = 0;
    for (int64_t p = 1; p <= POINTS_MAX; p++)
        if (p < 2 * extent && ((p & (p - 1)) == 0 || (extent % p == 0 && p >= 3))) out[count++] = p;
    return count;
}

/* The dimension whose elements are contiguous when they are copied. */
static uint32_t last_dim(const kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    const kiln_shape *shape = &t->s->program->buffer.data[o->buffer].shape;
    uint32_t last = o->packed ? (uint32_t)o->along : o->rank - 1;
    while (!o->packed && last > 0 && shape->dim[last] == 1) last--;
    return last;
}

/* The limit that the tile exceeds. */
typedef enum fault { FITS, BY_THREADS, BY_REGISTERS, BY_SHARED, FAULTS } fault;

/* Without the copies. */
static fault fault_of_threads(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    const kiln_gpu_limits *l = &t->limits;
    const int64_t threads = kiln_gpu_group_threads(t, tile);
    if (threads > KILN_MIN(l->threads, THREADS_MAX) || threads % l->warp != 0) return BY_THREADS;
    return kiln_gpu_points(t, tile) > ACCUMULATORS_MAX ? BY_REGISTERS : FITS;
}

/* Of tiles that are within those limits. */
static fault fault_of_needs(const kiln_gpu_tiling *t, const kiln_gpu_needs *needs, int64_t stages) {
    const kiln_gpu_limits *l = &t->limits;
    const int64_t registers = kiln_gpu_tile_registers(needs, stages);
    if (registers > l->registers || registers * needs->threads > l->unit_registers ||
        (stages == 2 && needs->holds_too_many))
        return BY_REGISTERS;
    const int64_t bytes = KILN_MAX(needs->stage_bytes, needs->exchanged_bytes);
    return stages * bytes > l->shared_bytes ? BY_SHARED : FITS;
}

/* Elements that a thread can copy at once: they must be contiguous, in the operand and in the
 * region that a tile reads. */
static int64_t widest_fetch(const kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    const kiln_program *p = t->s->program;
    const kiln_shape *shape = &p->buffer.data[o->buffer].shape;
    const kiln_block producer = kiln_program_producer(p, o->buffer);
    const uint32_t last = last_dim(t, o);
    int64_t most = t->limits.fetch_bytes / o->bytes;
    uint32_t iters = 0;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        const int64_t coefficient = o->coefficient[last][i];
        if (coefficient && !kiln_gpu_moves(t, i)) /* where a group begins */
            most = kiln_gcd(most, coefficient);
        else
            iters += (uint32_t)(coefficient != 0) + (coefficient > 1);
    }
    const bool computed = producer && !p->block.data[producer].removed &&
                          kiln_expr_get(p, p->block.data[producer].value)->op == KILN_EXPR_SELECT;
    return o->packed || (iters == 1 && !computed) ? kiln_gcd(most, shape->dim[last]) : 1;
}

typedef struct search {
    kiln_gpu_tiling *t;
    int64_t step[(BLOCKS_MAX + 1) * STAGES_MAX][KILN_GPU_STEP_COLUMNS];
    uint32_t step_count;
    uint32_t count;
    kiln_gpu_tile *found; /* [TILES_MAX] */
    kiln_gpu_tile at;
    uint32_t by[FAULTS]; /* tiles that each limit excludes */
} search;

/* Copies are of whole vectors, so rows of a tile must be. */
static bool is_whole(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    bool whole = true;
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        const uint32_t last = last_dim(t, o);
        const bool is_block = o->coefficient[last][t->k] != 0;
        whole &= is_block || kiln_gpu_region(t, o, last, tile, 1) % o->fetch == 0;
    }
    return whole;
}

/* Adds the tile with every number of parts that a thread's points may be in, which costs
 * nothing. */
static void consider(search *f) {
    kiln_gpu_tiling *t = f->t;
    const int64_t *step = f->step[0];
    const int64_t points = t->vector < 0 ? 1 : f->at.points[t->vector],
                  usual = KILN_MIN(STEPS_USUAL, kiln_gpu_extent(t, t->k));
    f->at.lanes = kiln_gcd(points, 4);
    if (!is_whole(t, &f->at)) return;
    fault found = fault_of_threads(t, &f->at);
    if (found == FITS) {
        f->at.live = kiln_gpu_live(t, &f->at);
        f->at.plane = kiln_gpu_choose_plane(t, &f->at, usual);
        const kiln_gpu_needs needs = kiln_gpu_needs_of(t, &f->at, step[KILN_GPU_BLOCK]);
        found = fault_of_needs(t, &needs, step[KILN_GPU_STAGES]);
    }
    for (f->at.parts = 1; f->at.parts <= PARTS_MAX; f->at.parts *= 2) {
        if (points / f->at.lanes % f->at.parts != 0) break;
        f->by[found]++;
        if (found == FITS && f->count < TILES_MAX) f->found[f->count++] = f->at;
    }
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

/* Blocks of k: its divisors; if these are too small, the last block is not full. */
static uint32_t list_blocks(const kiln_gpu_tiling *t, int64_t *out) {
    const int64_t all = kiln_gpu_extent(t, t->k);
    uint32_t count = 0;
    for (int64_t steps = 1; steps <= KILN_MIN(STEPS_MAX, all); steps++)
        if (all % steps == 0 && (steps >= 4 || steps == all || all % 2 != 0)) {
            if (count == BLOCKS_MAX) break;
            out[count++] = steps;
        }
    if (all > STEPS_MAX && (count == 0 || out[count - 1] < 4))
        out[count++] = 8; /* the last block is not full */
    return count;
}

/* Whether the device copies all operands asynchronously, ahead of threads and without their
 * registers. */
static bool copies_ahead(const kiln_gpu_tiling *t) {
    const kiln_gpu *gpu = t->s->target->gpu;
    bool copies = gpu && gpu->capability >= KILN_COPIES_CAPABILITY;
    for (uint32_t a = 0; a < t->operand_count; a++)
        copies &= t->operand[a].bytes >= KILN_COPY_BYTES_MIN;
    return copies;
}

/* Blocks with every number of stages. */
static void list_steps(search *f) {
    const kiln_gpu_tiling *t = f->t;
    const int64_t all = kiln_gpu_extent(t, t->k), most = copies_ahead(t) ? STAGES_MAX : 2;
    int64_t block[BLOCKS_MAX + 1];
    const uint32_t blocks = list_blocks(t, block);
    for (uint32_t k = 0; k < blocks; k++)
        for (int64_t stages = 1; stages <= KILN_MIN(most, all / block[k]); stages++) {
            int64_t *step = f->step[f->step_count++];
            step[KILN_GPU_BLOCK] = step[KILN_GPU_UNROLLED] = block[k];
            step[KILN_GPU_STAGES] = stages;
        }
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
    if (x->parts != y->parts) return x->parts < y->parts ? -1 : 1;
    return 0;
}

/* Half of the table are the tiles with the best estimates, the others are spread over the rest. */
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

/* Elements that a thread can copy at once, whatever block of steps is drawn. */
static void narrow_fetch(kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    const uint32_t last = last_dim(t, o);
    if (o->coefficient[last][t->k])
        for (uint32_t k = 0; k < t->step_count; k++)
            o->fetch = kiln_gcd(o->fetch, t->step[k][KILN_GPU_BLOCK]);
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

/* Sets the tile's estimated time with the steps; false: the combination is not legal. */
static bool rate_tile(const kiln_gpu_tiling *t, kiln_gpu_tile *tile, const int64_t *step) {
    const kiln_gpu_needs needs = kiln_gpu_needs_of(t, tile, step[KILN_GPU_BLOCK]);
    const bool fits = fault_of_needs(t, &needs, step[KILN_GPU_STAGES]) == FITS;
    if (fits) tile->cycles = kiln_gpu_cycles(t, tile, &needs, step[KILN_GPU_STAGES]);
    return fits;
}

/* Sorts the tiles by their estimated time with steps of usual length. */
static void rate(const search *f) {
    uint32_t usual = 0;
    for (uint32_t k = 0; k < f->step_count; k++)
        if (f->step[k][KILN_GPU_BLOCK] <= STEPS_USUAL) usual = k;
    for (uint32_t i = 0; i < f->count; i++) {
        if (!rate_tile(f->t, &f->found[i], f->step[usual]))
            rate_tile(f->t, &f->found[i], f->step[0]);
    }
    qsort(f->found, f->count, sizeof *f->found, by_cycles);
}

/* The steps with the best estimate, and in *out the best tile with them; NULL: none is legal. */
static const int64_t *best_of(const search *f, kiln_gpu_tile *out) {
    const int64_t *best = NULL;
    double least = INFINITY;
    for (uint32_t k = 0; k < f->step_count; k++)
        for (uint32_t i = 0; i < KILN_MIN(f->count, TILES_NEAR); i++) {
            kiln_gpu_tile tile = f->found[i];
            if (!rate_tile(f->t, &tile, f->step[k]) || tile.cycles >= least) continue;
            least = tile.cycles, best = f->step[k], *out = f->found[i];
        }
    return best;
}

/* Steps that the preferred tile can have; much longer ones would leave room for small tiles only.
 * Each unrolled as far as possible, and less. */
static void fill_steps(const search *f, const int64_t *best, const kiln_gpu_tile *preferred) {
    kiln_gpu_tiling *t = f->t;
    const int64_t points = kiln_gpu_points(t, preferred), most_block = 2 * best[KILN_GPU_BLOCK],
                  most = most_block * best[KILN_GPU_STAGES];
    t->step_count = 0;
    for (uint32_t k = 0; k < f->step_count; k++) {
        const int64_t *step = f->step[k];
        const int64_t block = step[KILN_GPU_BLOCK], stages = step[KILN_GPU_STAGES],
                      whole = kiln_gpu_unrolled(t, block, points),
                      unrolled[] = {whole, divisor_below(block, whole / 4)};
        const kiln_gpu_needs needs = kiln_gpu_needs_of(t, preferred, block);
        if (fault_of_needs(t, &needs, stages) != FITS || block > most_block ||
            block * stages > most || 4 * block < best[KILN_GPU_BLOCK])
            continue;
        if (step == best) t->preferred_step = t->step_count;
        for (uint32_t u = 0; u < KILN_ARRAY_COUNT(unrolled); u++) {
            if (unrolled[u] == 0) break;
            int64_t *to = t->step[t->step_count++];
            to[KILN_GPU_BLOCK] = block;
            to[KILN_GPU_UNROLLED] = unrolled[u];
            to[KILN_GPU_STAGES] = stages;
        }
    }
}

/* Whether the tile is legal with all steps of the table, in which those of one block are
 * adjacent. */
static bool goes_with_all(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    kiln_gpu_needs needs = {0};
    for (uint32_t k = 0; k < t->step_count; k++) {
        const int64_t *step = t->step[k];
        if (needs.block != step[KILN_GPU_BLOCK])
            needs = kiln_gpu_needs_of(t, tile, step[KILN_GPU_BLOCK]);
        if (fault_of_needs(t, &needs, step[KILN_GPU_STAGES]) != FITS) return false;
    }
    return true;
}

/* Keeps the tiles that are legal with all steps of the table. */
static uint32_t keep_legal(const kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!goes_with_all(t, &tile[i])) continue;
        tile[kept] = tile[i];
        rate_tile(t, &tile[kept++], t->step[t->preferred_step]);
    }
    return kept;
}

/* Whether the preferred tile is expected to be faster with vectors exchanged: without a pitch more
 * groups may fit on a unit, but each load has an address of its own. */
static bool exchange_pays(const kiln_gpu_tiling *t) {
    const kiln_gpu_tile *tile = &t->row[t->preferred];
    const int64_t *step = t->step[t->preferred_step];
    kiln_gpu_needs needs = kiln_gpu_needs_of(t, tile, step[KILN_GPU_BLOCK]);
    const double pitched = kiln_gpu_cycles(t, tile, &needs, step[KILN_GPU_STAGES]);
    needs.stage_bytes = needs.exchanged_bytes;
    needs.exchanged = true;
    return kiln_gpu_cycles(t, tile, &needs, step[KILN_GPU_STAGES]) < pitched;
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
    search f = {.t = t};
    for (uint32_t a = 0; a < t->operand_count; a++)
        t->operand[a].fetch = widest_fetch(t, &t->operand[a]);
    list_steps(&f);
    f.found = KILN_ARENA_ARRAY(t->s->arena, kiln_gpu_tile, TILES_MAX);
    search_iter(&f, 0);
    if (f.count == 0) return say_empty(&f);
    rate(&f);
    kiln_gpu_tile preferred = f.found[0];
    const int64_t *best = best_of(&f, &preferred);
    fill_steps(&f, best, &preferred);
    kiln_gpu_fill_table(t, f.found, keep_legal(t, f.found, f.count));
    for (uint32_t a = 0; a < t->operand_count; a++) {
        narrow_fetch(t, &t->operand[a]);
        kiln_gpu_note_reach(t, &t->operand[a]);
        t->operand[a].ways = kiln_gpu_exchange_ways(&t->operand[a]);
    }
    t->exchanged = exchange_pays(t);
    return NULL;
}
