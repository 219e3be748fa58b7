/* Tables of tiles of warps and of steps: every row of the one is legal with every row of the other,
 * so no drawn combination exceeds a limit. */
#include <math.h>

#include "base/integer.h"
#include "base/macros.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/launch.h"
#include "compiler-core/rules/gpu_warp.h"

#define WARPS_MAX 8   /* of a group */
#define TILE_MAX 256  /* rows, or columns */
#define PIECES_MAX 16 /* of a warp along one iterator */
#define COLUMNS_MAX \
    (TILE_MAX / KILN_GROUP_COLUMNS) /* of an instruction of warp groups, in eights */
#define COLUMNS_MIN (KILN_GROUP_COLUMNS_MIN / KILN_GROUP_COLUMNS)
#define PIECES_ALL_MAX 32   /* and of all: 4 sums of a thread each */
#define BLOCK_BYTES_MAX 128 /* steps of a row: ldmatrix then finds 8 rows in different banks */
#define BLOCK_BYTES_MIN 32
#define STAGES_MAX 4 /* of a pipeline */
#define TILES_MAX 8192
/* Registers of addresses, counters and operands of the next instructions, besides those that are
 * counted: ptxas 12.9 gives default tiles at most this many more on sm_80. */
#define REGISTERS_BESIDE 40
#define REGISTERS_LOWERED 22 /* lower/registers.c reserves for the same */
/* 64 bits of address, and the terms of a condition (decision 87). Default tiles of warp groups,
 * which hold no fragments, spill nothing with less. */
#define PLACE_WORDS 4
#define PLACE_WORDS_OF_GROUPS 2
/* Of a thread that only fetches, and the granularity in which others get the registers it releases
 * (setmaxnreg). */
#define REGISTERS_FETCHING 40
#define REGISTERS_STEP 8
#define BANK_BYTES 128   /* of shared memory, a cycle */
#define MATRIX_BYTES 512 /* that ldmatrix.x4 reads */

void kiln_gpu_warp_exchange(int64_t row_bytes, int64_t *out_ways, int64_t *out_step) {
    const int64_t units = row_bytes / (BANK_BYTES / 8);
    *out_ways = 1;
    while (*out_ways < 8 && units % (2 * *out_ways) == 0) *out_ways *= 2;
    *out_step = row_bytes < BANK_BYTES ? 8 / *out_ways : 1;
}

/* ---- what a tile takes ----------------------------------------------------------------------- */

/* Pieces of a warp: instructions per step. Of a warp group, whose instruction has all its columns,
 * eights of those. */
static int64_t pieces_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile, uint32_t from,
                         uint32_t to) {
    int64_t pieces = 1;
    for (uint32_t n = from; n < to; n++) pieces *= tile->points[n] / w->unit[n];
    return pieces;
}

static int64_t fetched_words(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                             int64_t steps) {
    int64_t words = 0;
    for (uint32_t a = 0; a < w->t.operand_count; a++) {
        const kiln_gpu_operand *o = &w->t.operand[a];
        words += kiln_gpu_rounds(&w->t, o, tile, steps) * ((o->fetch * o->bytes + 3) / 4);
    }
    return words;
}

/* Whether the device copies all operands asynchronously, ahead of threads and without their
 * registers. */
static bool copies_ahead(const kiln_gpu_warp_tiling *w) {
    bool copies = w->t.s->target->gpu->capability >= KILN_COPIES_CAPABILITY;
    for (uint32_t a = 0; a < w->t.operand_count; a++)
        copies &= w->t.operand[a].fetch * w->t.operand[a].bytes >= KILN_COPY_BYTES_MIN;
    return copies;
}

/* Threads of the group with those that only fetch, which are as many as execute an instruction
 * together. */
static int64_t all_threads(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                           const int64_t *step) {
    return kiln_gpu_group_threads(&w->t, tile) + (step[KILN_GPU_WARP_PRODUCER] ? w->t.together : 0);
}

/* Element-by-element fetches have an address and conditions each, which compilers move out of the
 * loop over blocks. */
static int64_t places_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile, int64_t block) {
    const int64_t words = kiln_gpu_warp_is_grouped(w) ? PLACE_WORDS_OF_GROUPS : PLACE_WORDS;
    int64_t places = 0;
    for (uint32_t a = 0; a < w->t.operand_count; a++)
        if (w->t.operand[a].fetch == 1)
            places += words * kiln_gpu_rounds(&w->t, &w->t.operand[a], tile, block);
    return places;
}

/* Sums, fragments of one step and of the next one's columns if they are in registers, and fetched
 * elements in flight, unless a producer fetches. */
static int64_t registers_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                            const int64_t *step) {
    const int64_t rows = pieces_of(w, tile, 0, 1), columns = pieces_of(w, tile, 1, w->t.tiled),
                  words = fetched_words(w, tile, step[KILN_GPU_WARP_BLOCK]),
                  stages = step[KILN_GPU_WARP_STAGES];
    const int64_t fragments = kiln_gpu_warp_is_grouped(w) ? 0 : 4 * rows + 2 * columns;
    const int64_t own = KILN_WARP_REGISTERS * rows * columns + fragments + REGISTERS_BESIDE;
    if (step[KILN_GPU_WARP_PRODUCER]) return own;
    const int64_t staged = stages == 2 ? words : KILN_MIN(words, stages == 1 ? 16 : 0);
    return own + staged + places_of(w, tile, step[KILN_GPU_WARP_BLOCK]);
}

static bool stages_in_registers(const int64_t *step) {
    return step[KILN_GPU_WARP_STAGES] == 2 && !step[KILN_GPU_WARP_PRODUCER];
}

/* Registers as lowering counts them: sums, and the fetched elements of two stages, halves as the
 * f32 that they become. */
static int64_t lowered_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                          const int64_t *step) {
    const bool halves = kiln_dtype_is_float(w->mma->operand[0]);
    int64_t bytes = 0;
    for (uint32_t a = 0; a < w->t.operand_count; a++) {
        const kiln_gpu_operand *o = &w->t.operand[a];
        bytes += kiln_gpu_rounds(&w->t, o, tile, step[KILN_GPU_WARP_BLOCK]) * o->fetch *
                 (halves ? (int64_t)sizeof(float) : o->bytes);
    }
    return KILN_WARP_REGISTERS * pieces_of(w, tile, 0, w->t.tiled) +
           (stages_in_registers(step) ? (bytes + 3) / 4 : 0) + REGISTERS_LOWERED;
}

/* Whether pipelines of two stages hold more of an operand than fits in registers. */
static bool stages_too_many(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                            const int64_t *step) {
    bool more = false;
    for (uint32_t a = 0; a < w->t.operand_count; a++) {
        const kiln_gpu_operand *o = &w->t.operand[a];
        more |= kiln_gpu_rounds(&w->t, o, tile, step[KILN_GPU_WARP_BLOCK]) * o->fetch >
                KILN_PIPELINE_STAGED_MAX;
    }
    return more && stages_in_registers(step);
}

static int64_t shared_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                         const int64_t *step) {
    const int64_t block = step[KILN_GPU_WARP_BLOCK];
    int64_t bytes = kiln_gpu_shared_bytes(&w->t, tile, block);
    for (uint32_t a = 0; a < w->t.operand_count; a++)
        if (w->slides[a])
            bytes += kiln_gpu_copied_elements(&w->t, &w->t.operand[a], tile, block) / block *
                     KILN_GPU_WARP_UNIT_BYTES;
    if (step[KILN_GPU_WARP_PRODUCER]) bytes += 2 * KILN_TOKEN_PLACE_BYTES; /* full, empty */
    return step[KILN_GPU_WARP_STAGES] * bytes;
}

typedef enum fault { FITS, BY_THREADS, BY_REGISTERS, BY_SHARED, FAULTS } fault;

/* The most registers that a thread of the group can have. With a producer, whose threads need few,
 * the others can have more than an equal share. */
static int64_t registers_most(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                              const int64_t *step) {
    const kiln_gpu_limits *l = &w->t.limits;
    const int64_t working = kiln_gpu_group_threads(&w->t, tile), all = all_threads(w, tile, step);
    const int64_t share = l->unit_registers / all / REGISTERS_STEP * REGISTERS_STEP;
    if (all == working) return KILN_MIN(l->unit_registers / all, l->registers);
    const int64_t left = (share - REGISTERS_FETCHING) * (all - working) / working;
    return KILN_MIN(KILN_MAX(share + left / REGISTERS_STEP * REGISTERS_STEP, share), l->registers);
}

static fault fault_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                      const int64_t *step) {
    const kiln_gpu_limits *l = &w->t.limits;
    const int64_t threads = kiln_gpu_group_threads(&w->t, tile);
    if (threads > WARPS_MAX * KILN_WARP_LANES || all_threads(w, tile, step) > l->threads)
        return BY_THREADS;
    const int64_t registers = KILN_MAX(registers_of(w, tile, step), lowered_of(w, tile, step));
    const bool many =
        !kiln_gpu_warp_is_grouped(w) && pieces_of(w, tile, 0, w->t.tiled) > PIECES_ALL_MAX;
    if (many || registers > registers_most(w, tile, step) || stages_too_many(w, tile, step))
        return BY_REGISTERS;
    return shared_of(w, tile, step) > l->shared_bytes ? BY_SHARED : FITS;
}

/* ---- how long it takes, about ---------------------------------------------------------------- */

/* As in gpu_sizes.c. */
#define LATENCY 800.0
#define FETCH_ISSUED 8.0
#define COPY_ISSUED 4.0 /* an address, its copy, and their increments */
#define LOOP_ISSUED 8.0
#define NOT_HIDDEN 0.1 /* share of the shorter terms' time that the longest one does not hide */
/* Share of the tensor cores' rate that instructions of single warps reach where warp groups have
 * their own: an assumption, to be measured on a device. */
#define SINGLE_WARPS 0.63
/* Cycles in which a warp group multiplies nothing, from the end of a block's last instruction, for
 * which its threads wait, to the next block's first: a guess. If dedicated threads fetch, groups
 * wait for no barrier of all threads, so that one multiplies while another waits. */
#define DRAINED 64.0

static int64_t taps_of(const kiln_gpu_tiling *t) {
    int64_t taps = 1;
    for (int i = 0; i < (int)t->s->program->block.data[t->block].iter_count; i++)
        if (t->pattern.reduce >> i & 1 && i != t->k) taps *= kiln_gpu_extent(t, i);
    return taps;
}

/* Groups on a unit at once, as limits allow. */
static double resident_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                          const int64_t *step) {
    const kiln_gpu_limits *l = &w->t.limits;
    const int64_t threads = all_threads(w, tile, step);
    int64_t most = KILN_MIN(l->unit_groups, l->unit_threads / threads);
    most = KILN_MIN(most, l->unit_registers / (registers_of(w, tile, step) * threads));
    most = KILN_MIN(most, l->unit_shared_bytes / (shared_of(w, tile, step) + l->reserved_bytes));
    return (double)KILN_MAX(most, 1);
}

/* The cost of a group's instructions for one step. */
typedef struct step_cost {
    double products, issued, shared_bytes;
} step_cost;

static step_cost cost_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile) {
    const uint32_t last = w->t.tiled - 1;
    const double rows = (double)pieces_of(w, tile, 0, 1),
                 columns = (double)pieces_of(w, tile, 1, w->t.tiled),
                 warps = (double)kiln_gpu_group_threads(&w->t, tile) / KILN_WARP_LANES,
                 owners = warps * KILN_WARP_LANES / (double)w->t.together;
    step_cost cost = {.products = owners * rows * columns * (double)w->unit[0] *
                                  (double)w->unit[last] * w->mma->steps};
    if (kiln_gpu_warp_is_grouped(w)) {
        const double instructions = rows * (double)pieces_of(w, tile, 1, last),
                     outer = (double)(w->unit[0] + tile->points[last]);
        cost.issued = warps * instructions;
        cost.shared_bytes =
            owners * instructions * outer * w->mma->steps * (double)w->t.operand[0].bytes;
    } else {
        const double words = kiln_intrinsic_rounds(w->mma) ? 4 * rows + 2 * columns : 0;
        cost.issued =
            warps * (rows * columns + rows + columns + words * KILN_ROUNDING_INSTRUCTIONS);
        cost.shared_bytes = warps * (rows + columns / 2) * MATRIX_BYTES;
    }
    return cost;
}

/* Multiply-adds of a unit a cycle by that instruction. */
static double rate_of(const kiln_gpu_warp_tiling *w) {
    const kiln_target *target = w->t.s->target;
    double rate = target->gpu->tensor_multiply_adds[w->mma->operand[0]];
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++)
        if (!kiln_gpu_warp_is_grouped(w) && kiln_intrinsics[i].owner == KILN_INTRINSIC_GROUP &&
            kiln_intrinsic_runs_on(&kiln_intrinsics[i], target))
            return KILN_MAX(rate * SINGLE_WARPS, 1);
    return KILN_MAX(rate, 1);
}

/* Cycles of a unit that has its share of the groups. */
static double cycles_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                        const int64_t *step) {
    const kiln_gpu_tiling *t = &w->t;
    const kiln_gpu_limits *l = &t->limits;
    const int64_t block = step[KILN_GPU_WARP_BLOCK];
    const step_cost one = cost_of(w, tile);
    const double warps = (double)kiln_gpu_group_threads(t, tile) / KILN_WARP_LANES,
                 times = (double)(block / w->mma->steps * taps_of(t));
    double bytes = 0, fetches = 0;
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        const int64_t rounds = kiln_gpu_rounds(t, o, tile, block);
        bytes += (double)(rounds * kiln_gpu_group_threads(t, tile) * o->fetch * o->bytes);
        fetches += (double)rounds;
    }
    const double issued = step[KILN_GPU_WARP_STAGES] > 2 ? COPY_ISSUED : FETCH_ISSUED;
    const double busy[] = {
        times * one.products / rate_of(w),
        (times * one.issued + warps * (fetches * issued + LOOP_ISSUED)) / l->issue,
        (times * one.shared_bytes + bytes) / BANK_BYTES,
        bytes / l->copy_rate,
    };
    double most = 0, sum = 0;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(busy); i++) {
        most = KILN_MAX(most, busy[i]);
        sum += busy[i];
    }
    most += NOT_HIDDEN * (sum - most);
    const double groups = ceil(kiln_gpu_groups(t, tile) / (double)l->units),
                 resident = KILN_MIN(resident_of(w, tile, step), groups),
                 blocks = ceil((double)kiln_gpu_extent(t, t->k) / (double)block),
                 ahead = (double)(step[KILN_GPU_WARP_STAGES] - 1) * most * resident,
                 owners = (double)(kiln_gpu_group_threads(t, tile) / t->together) * resident,
                 drained = !kiln_gpu_warp_is_grouped(w)                  ? 0
                           : step[KILN_GPU_WARP_PRODUCER] && owners >= 2 ? 0
                                                                         : DRAINED,
                 waits = KILN_MAX(LATENCY - ahead, drained),
                 alone = most * KILN_MAX(l->issue / warps, 1); /* a warp has a part of the unit */
    return groups / resident * (blocks * KILN_MAX(resident * most, alone + waits) + LATENCY);
}

/* Turns of a copying loop that compilers unroll; in longer ones threads wait for each load, as in
 * estimate_gpu.c. */
#define COPIED_TURNS_MAX 32

/* Cycles that groups wait for such loads. Tiles are chosen without them, because the tiles with
 * stages that would be preferred then spill 16 bytes (64 channels of 56x56, 3x3, ptxas 12.9). */
static double turns_of(const kiln_gpu_warp_tiling *w, const kiln_gpu_tile *tile,
                       const int64_t *step) {
    const kiln_gpu_tiling *t = &w->t;
    const int64_t block = step[KILN_GPU_WARP_BLOCK];
    double turns = 0;
    for (uint32_t a = 0; a < t->operand_count && step[KILN_GPU_WARP_STAGES] == 1; a++) {
        const int64_t rounds = kiln_gpu_rounds(t, &t->operand[a], tile, block);
        if (rounds > COPIED_TURNS_MAX) turns += (double)(rounds - 1);
    }
    const double groups = ceil(kiln_gpu_groups(t, tile) / (double)t->limits.units),
                 resident = KILN_MIN(resident_of(w, tile, step), groups),
                 blocks = ceil((double)kiln_gpu_extent(t, t->k) / (double)block);
    return groups / resident * blocks * turns * LATENCY;
}

/* ---- the tables ------------------------------------------------------------------------------ */

typedef struct search {
    kiln_gpu_warp_tiling *w;
    const int64_t *step;
    uint32_t count;
    kiln_gpu_tile *found; /* [TILES_MAX] */
    kiln_gpu_tile at;
    uint32_t by[FAULTS]; /* tiles that each limit excludes */
} search;

static void search_iter(search *f, uint32_t n);

static void search_further(search *f, uint32_t n, int64_t warps, int64_t pieces) {
    f->at.threads[n] = warps;
    f->at.points[n] = pieces * f->w->unit[n];
    search_iter(f, n + 1);
}

/* Columns of an instruction of warp groups, in eights: powers of two, or divisors of their number;
 * whole stretches if the layout has them. Not so many that half of them would be enough. */
static void search_columns(search *f, uint32_t n) {
    const kiln_gpu_warp_tiling *w = f->w;
    const int64_t all = kiln_gpu_extent(&w->t, w->t.iter[n]);
    for (int64_t groups = 1; groups <= WARPS_MAX / KILN_GROUP_WARPS; groups++)
        for (int64_t eights = COLUMNS_MIN; eights * groups <= COLUMNS_MAX; eights++) {
            const int64_t columns = eights * KILN_GROUP_COLUMNS;
            const bool fits = (eights & (eights - 1)) == 0 ||
                              (all % columns == 0 && (!w->stretches || eights % COLUMNS_MIN == 0));
            const bool half = groups * eights > COLUMNS_MIN && groups * columns >= 2 * all;
            if (fits && !half) search_further(f, n, groups, eights);
        }
}

static void search_iter(search *f, uint32_t n) {
    const kiln_gpu_tiling *t = &f->w->t;
    if (n == t->tiled) {
        const fault found = fault_of(f->w, &f->at, f->step);
        f->by[found]++;
        if (found == FITS && f->count < TILES_MAX) f->found[f->count++] = f->at;
        return;
    }
    if (n + 1 == t->tiled && kiln_gpu_warp_is_grouped(f->w)) {
        search_columns(f, n);
        return;
    }
    const int64_t unit = f->w->unit[n], units = (kiln_gpu_extent(t, t->iter[n]) + unit - 1) / unit;
    for (int64_t warps = 1; warps <= WARPS_MAX; warps *= 2)
        for (int64_t pieces = 1; pieces <= PIECES_MAX; pieces++) {
            const bool fits = (pieces & (pieces - 1)) == 0 || units % pieces == 0;
            const int64_t size = warps * pieces;
            if (!fits || size * unit > TILE_MAX || (size > 1 && size >= 2 * units)) continue;
            search_further(f, n, warps, pieces);
        }
}

int64_t kiln_gpu_warp_unit_steps(const kiln_intrinsic *in) {
    const int64_t row = KILN_GROUP_ROW_BYTES / (int64_t)kiln_dtype_size(in->operand[0]);
    return in->owner == KILN_INTRINSIC_GROUP ? row : in->steps;
}

/* k rounded up to whole blocks. */
static int64_t padded_steps(const kiln_gpu_warp_tiling *w, int64_t block) {
    const int64_t all = kiln_gpu_extent(&w->t, w->t.k);
    return (all + block - 1) / block * block;
}

/* Blocks of k, in whole instructions, each with every number of stages, which for warp groups
 * dedicated threads may fetch: divisors of k, or, if k is no multiple of an instruction's steps,
 * blocks that add at most a third. */
static uint32_t list_steps(const kiln_gpu_warp_tiling *w,
                           int64_t out[KILN_GPU_WARP_STEPS_MAX][KILN_GPU_WARP_STEP_COLUMNS]) {
    const int64_t unit = kiln_gpu_warp_unit_steps(w->mma), all = padded_steps(w, unit),
                  bytes = w->t.operand[0].bytes, most = copies_ahead(w) ? STAGES_MAX : 2;
    const bool whole = all == kiln_gpu_extent(&w->t, w->t.k);
    const bool produces = kiln_gpu_warp_is_grouped(w) && copies_ahead(w);
    uint32_t count = 0;
    for (int64_t block = unit; block <= all; block += unit) {
        const int64_t padded = padded_steps(w, block);
        if (whole ? padded != all : block > unit && 3 * (padded - all) > all) continue;
        if (block * bytes < BLOCK_BYTES_MIN && block != all) continue;
        if (block * bytes > BLOCK_BYTES_MAX) break;
        for (int64_t stages = 1; stages <= KILN_MIN(most, padded / block); stages++)
            for (int64_t by = 0; by <= (!produces || stages == 1 ? 0 : w->boxes ? 2 : 1); by++) {
                if (count == KILN_GPU_WARP_STEPS_MAX) break;
                int64_t *step = out[count++];
                step[KILN_GPU_WARP_BLOCK] = block;
                step[KILN_GPU_WARP_STAGES] = stages;
                step[KILN_GPU_WARP_PRODUCER] = by;
                kiln_gpu_warp_exchange(block * bytes, &step[KILN_GPU_WARP_K_WAYS],
                                       &step[KILN_GPU_WARP_K_STEP]);
            }
    }
    return count;
}

/* Whether maps can have both operands: as they lie in memory, in rows of whole units. */
static bool may_be_boxes(const kiln_gpu_warp_tiling *w) {
    const kiln_gpu_tiling *t = &w->t;
    bool all = kiln_gpu_warp_is_grouped(w);
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_shape *shape = &t->s->program->buffer.data[t->operand[a].buffer].shape;
        all &= !w->gathered[a] && (w->lies_so[a] || w->packed[a]) &&
               shape->rank <= KILN_MAP_RANK_MAX &&
               shape->dim[shape->rank - 1] * t->operand[a].bytes % KILN_GROUP_UNIT_BYTES == 0;
    }
    return all;
}

/* Elements that a thread copies at once, with any tile and block. */
static int64_t fetch_of(const kiln_gpu_warp_tiling *w, uint32_t a) {
    const kiln_gpu_tiling *t = &w->t;
    const kiln_gpu_operand *o = &t->operand[a];
    if (!w->lies_so[a] && !w->packed[a]) return 1;
    return kiln_gcd(t->limits.fetch_bytes / o->bytes, o->run);
}

static const char *say_empty(const search *f) {
    const kiln_gpu_limits *l = &f->w->t.limits;
    const char *last = f->by[BY_SHARED]      ? "the shared bytes of a group"
                       : f->by[BY_REGISTERS] ? "the registers of a thread"
                                             : "the threads of a group";
    return kiln_arena_printf(
        f->w->t.s->arena,
        "no tile of warps keeps to %s: of those tried %u exceed %lld threads, %u exceed %lld "
        "registers of a thread, %u exceed %lld shared bytes",
        last, f->by[BY_THREADS], (long long)l->threads, f->by[BY_REGISTERS],
        (long long)l->registers, f->by[BY_SHARED], (long long)l->shared_bytes);
}

const char *kiln_gpu_warp_choose_sizes(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    int64_t step[KILN_GPU_WARP_STEPS_MAX][KILN_GPU_WARP_STEP_COLUMNS];
    for (uint32_t a = 0; a < t->operand_count; a++) t->operand[a].fetch = fetch_of(w, a);
    w->boxes = may_be_boxes(w);
    const uint32_t choices = list_steps(w, step);
    search f = {.w = w, .step = step[0]};
    f.found = KILN_ARENA_ARRAY(t->s->arena, kiln_gpu_tile, TILES_MAX);
    search_iter(&f, 0);
    if (f.count == 0) return say_empty(&f);
    double least = INFINITY;
    kiln_gpu_tile preferred = f.found[0];
    uint32_t best = 0;
    for (uint32_t k = 0; k < choices; k++)
        for (uint32_t i = 0; i < f.count; i++) {
            if (fault_of(w, &f.found[i], step[k]) != FITS) continue;
            const double cycles = cycles_of(w, &f.found[i], step[k]);
            if (cycles < least) least = cycles, best = k, preferred = f.found[i];
        }
    /* Steps that the preferred tile can have, then the tiles that can have all of these. */
    w->cycles = least;
    w->resident = resident_of(w, &preferred, step[best]);
    w->turns = turns_of(w, &preferred, step[best]);
    w->step_count = 0;
    for (uint32_t k = 0; k < choices; k++) {
        if (fault_of(w, &preferred, step[k]) != FITS) continue;
        if (k == best) w->preferred_step = w->step_count;
        for (uint32_t c = 0; c < KILN_GPU_WARP_STEP_COLUMNS; c++)
            w->step[w->step_count][c] = step[k][c];
        w->step_count++;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f.count; i++) {
        bool legal = true;
        for (uint32_t k = 0; k < w->step_count && legal; k++)
            legal = fault_of(w, &f.found[i], w->step[k]) == FITS;
        if (!legal) continue;
        f.found[kept] = f.found[i];
        f.found[kept].cycles = cycles_of(w, &f.found[kept], step[best]);
        kept++;
    }
    kiln_gpu_fill_table(t, f.found, kept);
    for (uint32_t k = 0; k < w->step_count; k++)
        t->steps_most = KILN_MAX(t->steps_most, padded_steps(w, w->step[k][KILN_GPU_WARP_BLOCK]));
    for (uint32_t a = 0; a < t->operand_count; a++) kiln_gpu_note_reach(t, &t->operand[a]);
    return NULL;
}
