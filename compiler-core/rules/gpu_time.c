/* Estimated time of a tile of threads, by which legal tiles and steps are ranked. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/rules/gpu.h"

/* Cycles from a block's first fetch to its last barrier, without the sums. */
#define LATENCY 800.0
#define FETCH_ISSUED 10.0   /* instructions of a fetch: indices, conditions, the load, the store */
#define WIDE_ISSUED 5.0     /* of one with contiguous elements: no index for each */
#define COPY_SAVED 1.0      /* fewer of these if the device copies asynchronously, */
#define COPY_BRANCHED 5.0   /* and more if it does so under a condition */
#define LOOP_ISSUED 8.0     /* of a turn of the loop over blocks of steps */
#define BARRIER_ISSUED 30.0 /* lost in a group at a barrier, in slots of a warp */
/* Slots that a warp waits for the first loads of unrolled code; later ones are issued ahead of the
 * sums. */
#define STALL 60.0
/* Rounds up to which compilers unroll a copying loop without stages, so that its loads begin
 * together; in longer ones threads wait for each of them, as in cost/estimate_gpu.c. */
#define COPIED_ROUNDS_MAX 32
#define BANKS 32 /* of shared memory */
#define BANK_BYTES 4
#define PORT_BYTES 128 /* of shared memory, or of the device's, a cycle of a unit */

static double parts_of(int64_t extent, int64_t size) {
    return (double)((extent + size - 1) / size);
}

double kiln_gpu_groups(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    double groups = 1;
    for (int i = 0; i < (int)b->iter_count; i++) {
        int64_t size = 1;
        for (uint32_t n = 0; n < t->tiled; n++)
            if (t->iter[n] == i) size = tile->threads[n] * tile->points[n];
        if (!b->iter[i].reduce) groups *= parts_of(b->iter[i].extent, size);
    }
    return groups;
}

/* Loads of the operand by a thread for one step of k: whole vectors along the innermost dimension.
 * Taps that read the same element load it once. */
static double loads_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                       const kiln_gpu_tile *tile) {
    double hull = 1, each = 1;
    for (uint32_t d = 0; d < o->rank; d++) {
        int64_t reach = o->fixed[d], uses = o->taps[d];
        bool whole = true; /* threads begin where vectors do */
        for (uint32_t n = 0; n < t->tiled; n++) {
            const int64_t size = tile->points[n], further = o->along_tile[d][n];
            if (!further || size == 1) continue;
            reach += further * (size - 1);
            uses *= size;
            whole &= further * size % 4 == 0;
        }
        const double vector = (int)d == o->along && whole ? 4 : 1;
        hull *= ceil((double)reach / vector);
        each *= ceil((double)uses / vector);
    }
    return KILN_MIN(hull, each);
}

/* Turns of a warp's load because threads read different words of the same bank. With vectors, which
 * windows hardly allow, each quarter of the threads has a separate turn anyway. */
static double bank_turns_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                            const kiln_gpu_tile *tile) {
    int64_t apart[KILN_GPU_TILED_MAX] = {0}, stride = 1;
    bool vectors = o->fixed[o->along] == 1;
    for (uint32_t k = 0; k < o->rank; k++) { /* dimensions as they lie, innermost first */
        const uint32_t along = (uint32_t)o->along, behind = o->rank - k,
                       d = k == 0           ? along
                           : behind > along ? behind
                                            : behind - 1;
        for (uint32_t n = 0; n < t->tiled; n++)
            apart[n] += o->along_tile[d][n] * tile->points[n] * stride;
        for (uint32_t n = 0; k == 0 && n < t->tiled; n++) vectors &= apart[n] % 4 == 0;
        stride *= kiln_gpu_region(t, o, d, tile, 1);
        if (k == 0 && kiln_gpu_is_pitched(o)) stride += o->pitch;
    }
    int64_t words[BANKS] = {0}, most = 1;
    for (int64_t thread = 0; thread < t->limits.warp; thread++) {
        int64_t at = 0, rest = thread;
        bool other = true; /* than the words of threads before it */
        for (uint32_t n = t->tiled; n-- > 0; rest /= tile->threads[n]) {
            at += rest % tile->threads[n] * apart[n];
            other &= apart[n] != 0 || rest % tile->threads[n] == 0;
        }
        int64_t *in = &words[at * o->bytes / BANK_BYTES % BANKS];
        *in += other;
        most = KILN_MAX(most, *in);
    }
    return (double)KILN_MAX(vectors ? most / 4 : most, 1);
}

/* Slots of a warp for one step of the reduction. */
typedef struct step_slots {
    double sums, loads; /* of their operands, */
    double addresses;   /* and of loads whose place is no distance from another one's */
} step_slots;

/* Adjacent vectors of one thread make several threads read the same banks. */
static step_slots slots_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                           const kiln_gpu_needs *needs) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    step_slots slots = {.sums = (double)needs->points};
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k) slots.sums *= (double)b->iter[i].extent;
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        if (t->vector >= 0 && o->coefficient[o->along][t->iter[t->vector]]) {
            const double same = (double)(tile->points[t->vector] / tile->lanes / tile->parts);
            slots.loads += loads_of(t, o, tile) * KILN_MIN(same, 4);
        } else {
            slots.loads += loads_of(t, o, tile) * bank_turns_of(t, o, tile);
        }
        if (needs->exchanged && kiln_gpu_exchange_ways(o) > 1)
            slots.addresses += loads_of(t, o, tile);
    }
    return slots;
}

/* Groups on a unit at once, as room allows. */
static double resident_of(const kiln_gpu_tiling *t, const kiln_gpu_needs *needs, int64_t stages) {
    const kiln_gpu_limits *l = &t->limits;
    const int64_t threads = needs->threads,
                  shared = stages * needs->stage_bytes + l->reserved_bytes,
                  registers = KILN_MIN(kiln_gpu_tile_registers(needs, stages), l->registers);
    int64_t most = KILN_MIN(l->unit_groups, l->unit_threads / threads);
    most = KILN_MIN(most, l->unit_registers / (registers * threads));
    if (shared > 0) most = KILN_MIN(most, l->unit_shared_bytes / shared);
    return (double)KILN_MAX(most, 1);
}

/* Whether the tiles read beyond the operand. */
static bool reaches_beyond(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                           const kiln_gpu_tile *tile) {
    const kiln_program *p = t->s->program;
    const kiln_block producer = kiln_program_producer(p, o->buffer);
    bool beyond = producer && !p->block.data[producer].removed &&
                  kiln_expr_get(p, p->block.data[producer].value)->op == KILN_EXPR_SELECT;
    for (uint32_t n = 0; n < t->tiled; n++)
        for (uint32_t d = 0; d < o->rank; d++)
            beyond |= o->coefficient[d][t->iter[n]] &&
                      kiln_gpu_extent(t, t->iter[n]) % (tile->threads[n] * tile->points[n]) != 0;
    return beyond;
}

/* Slots of a warp for its threads' fetches for a block. */
static double fetching_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                          const kiln_gpu_needs *needs, int64_t stages) {
    double slots = 0;
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        const double each = o->packed || o->fetch > 1 ? WIDE_ISSUED : FETCH_ISSUED,
                     saved = stages <= 2                  ? 0
                             : reaches_beyond(t, o, tile) ? -COPY_BRANCHED
                                                          : COPY_SAVED;
        slots += (double)needs->rounds[a] * (each - saved);
    }
    return slots;
}

/* Cycles of a unit's port for a block of one warp: loads of shared memory, and what it fetches,
 * once from the device and once to shared memory unless the device copies it. */
static double port_of(const kiln_gpu_tiling *t, const kiln_gpu_needs *needs, double loads,
                      int64_t stages) {
    for (uint32_t a = 0; a < t->operand_count; a++) {
        const kiln_gpu_operand *o = &t->operand[a];
        const double once = (double)(t->limits.warp * o->fetch * o->bytes) / PORT_BYTES;
        loads += (double)needs->rounds[a] * KILN_MAX(once, 1) * (stages > 2 ? 1 : 2);
    }
    return loads;
}

/* Cycles in which a group waits for the second and later loads of such loops, for a block. */
static double looping_of(const kiln_gpu_tiling *t, const kiln_gpu_needs *needs, int64_t stages) {
    double rounds = 0;
    for (uint32_t a = 0; a < t->operand_count && stages == 1; a++)
        if (needs->rounds[a] > COPIED_ROUNDS_MAX) rounds += (double)(needs->rounds[a] - 1);
    return rounds * LATENCY;
}

double kiln_gpu_cycles(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                       const kiln_gpu_needs *needs, int64_t stages) {
    const kiln_gpu_limits *l = &t->limits;
    const step_slots step = slots_of(t, tile, needs);
    const double block = (double)needs->block, bytes = (double)needs->copied_bytes,
                 warps = ceil((double)needs->threads / (double)l->warp),
                 unrolled = (double)kiln_gpu_unrolled(t, needs->block, needs->points),
                 issued = step.sums + step.loads + step.addresses;
    const double groups = ceil(kiln_gpu_groups(t, tile) / (double)l->units),
                 resident = KILN_MIN(resident_of(t, needs, stages), groups),
                 blocks = parts_of(kiln_gpu_extent(t, t->k), needs->block),
                 turns = block / unrolled;
    const double slots = block * issued + fetching_of(t, tile, needs, stages) +
                         (turns + 1) * LOOP_ISSUED + BARRIER_ISSUED,
                 straight = unrolled * issued;
    const double wanted = l->issue * (1 + STALL / straight),
                 busy = KILN_MIN(resident * warps / wanted, 1),
                 together = resident *
                            KILN_MAX(slots * warps / l->issue / busy,
                                     KILN_MAX(port_of(t, needs, block * step.loads, stages) * warps,
                                              bytes / l->copy_rate));
    const double ahead = (double)(stages - 1) * together,
                 waits = KILN_MAX(LATENCY - ahead, 0) + looping_of(t, needs, stages),
                 alone = slots * KILN_MAX(warps / l->issue, 1);
    const double first = LATENCY + resident * bytes / l->copy_rate;
    return groups / resident * (blocks * KILN_MAX(together, alone + waits) + first);
}
