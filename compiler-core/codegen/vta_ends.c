#include "compiler-core/codegen/vta_ends.h"

#include <math.h>

#include "base/macros.h"
#include "vta/csim.h"

#define TAKE_CYCLES 2u /* an instruction is taken, and begins in the next cycle (vta/csim.h) */

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* ---- pieces of a call ------------------------------------------------------------------------ */

/* Tiles of the core that a call goes through in rounds of one loop. */
typedef struct rounds {
    uint32_t first, count; /* its first tile, and rounds */
    uint32_t tiles;        /* tiles from a round to the next */
    uint32_t loop;         /* of the nest, or dimension of the copy */
} rounds;

/* Rounds of the outermost loop over accumulators. False: its rounds are not contiguous. */
static bool rounds_of_nest(const kiln_vta_nest *nest, rounds *out) {
    uint32_t inside = 1; /* tiles from the first to the last of a round */
    *out = (rounds){.first = nest->base.dst};
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (nest->loop[i].extent > 1 && nest->loop[i].step.dst > out->tiles)
            *out = (rounds){nest->base.dst, nest->loop[i].extent, nest->loop[i].step.dst, i};
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (i != out->loop) inside += (nest->loop[i].extent - 1) * nest->loop[i].step.dst;
    return out->count > 0 && inside <= out->tiles;
}

/* The outermost dimension. False: there is none, or zeros are around it. */
static bool rounds_of_copy(const kiln_vta_copy *copy, rounds *out) {
    uint32_t tiles = 1;
    *out = (rounds){.first = copy->sram_base};
    for (uint32_t d = copy->dim_count; d-- > 0;) {
        const kiln_vta_copy_dim *dim = &copy->dim[d];
        const uint32_t all = dim->before + dim->extent + dim->behind;
        if (all > 1) *out = (rounds){copy->sram_base, dim->extent, tiles, d};
        tiles *= all;
    }
    return out->count * out->tiles == tiles && out->count > 0;
}

static bool rounds_of(const kiln_vta_call *call, rounds *out) {
    return call->kind == KILN_VTA_CALL_COPY ? rounds_of_copy(&call->copy, out)
                                            : rounds_of_nest(&call->nest, out);
}

/* The call's rounds [begin, end) only. */
static kiln_vta_call piece_of(const kiln_vta_call *call, const rounds *r, uint32_t begin,
                              uint32_t end) {
    kiln_vta_call piece = *call;
    if (call->kind == KILN_VTA_CALL_COPY) {
        piece.copy.sram_base += begin * r->tiles;
        piece.copy.dram_base += begin * piece.copy.dim[r->loop].stride;
        piece.copy.dim[r->loop].extent = end - begin;
        return piece;
    }
    kiln_vta_loop *loop = &piece.nest.loop[r->loop];
    piece.nest.base.dst += begin * loop->step.dst;
    piece.nest.base.src += begin * loop->step.src;
    piece.nest.base.wgt += begin * loop->step.wgt;
    loop->extent = end - begin;
    return piece;
}

/* The number of pieces n with the least time, further * n + hidden / n cycles. */
static uint32_t pieces_of(double hidden, double further, uint32_t most) {
    const double best = sqrt(hidden / further);
    return best < 1 ? 1 : (uint32_t)fmin(best, most);
}

/* ---- the begin ------------------------------------------------------------------------------- */

/* The first GEMM, in rounds of a loop that moves only one operand, and that operand's load.
 */
typedef struct beginning {
    uint32_t gemm, load;
    rounds sums, loaded;
    uint32_t first, step, reach; /* tiles of the operand: of the first round; to the next; of one */
    uint32_t vectors;            /* results of a round */
    double cycles;               /* of the load; 0: there is no such loop or load */
} beginning;

static uint32_t step_through(const kiln_vta_loop *loop, kiln_vta_memory memory) {
    return memory == KILN_VTA_WGT ? loop->step.wgt : loop->step.src;
}

/* The loop of the nest that moves only `memory` and results, with the longest steps. */
static bool find_loop(const kiln_vta_nest *nest, kiln_vta_memory memory, beginning *b) {
    const kiln_vta_memory other = memory == KILN_VTA_WGT ? KILN_VTA_INP : KILN_VTA_WGT;
    kiln_vta_nest results = {.loop_count = 0};
    b->step = 0;
    b->reach = b->vectors = 1;
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        const kiln_vta_loop *loop = &nest->loop[i];
        const uint32_t step = step_through(loop, memory);
        if (loop->step.dst) results.loop[results.loop_count++] = *loop;
        if (loop->extent == 1 || step <= b->step || loop->step.dst == 0 ||
            step_through(loop, other) != 0)
            continue;
        b->sums = (rounds){nest->base.dst, loop->extent, loop->step.dst, i};
        b->step = step;
    }
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        if (i == b->sums.loop) continue;
        b->reach += (nest->loop[i].extent - 1) * step_through(&nest->loop[i], memory);
        if (nest->loop[i].step.dst) b->vectors *= nest->loop[i].extent;
    }
    b->first = memory == KILN_VTA_WGT ? nest->base.wgt : nest->base.src;
    return b->step > 0 && kiln_vta_nest_is_injective(&results);
}

/* The load before the GEMM that alone fills all tiles that the rounds read. */
static bool find_load(const kiln_vta_calls *calls, kiln_vta_memory memory, beginning *b) {
    const uint32_t end = b->first + (b->sums.count - 1) * b->step + b->reach;
    for (uint32_t i = 0; i < b->gemm; i++) {
        const kiln_vta_call *call = &calls->call.data[i];
        if (call->kind != KILN_VTA_CALL_COPY || call->copy.memory != memory ||
            !rounds_of_copy(&call->copy, &b->loaded) || call->copy.sram_base > b->first ||
            call->copy.sram_base + b->loaded.count * b->loaded.tiles < end)
            continue;
        b->load = i;
        return true;
    }
    return false;
}

static double copy_cycles(const kiln_vta_config *c, kiln_vta_memory memory, double tiles) {
    return tiles * kiln_vta_tile_bytes(c, memory) * 8 / c->bus_bits;
}

/* The operand whose load takes longer, if both can be cut. */
static beginning find_begin(const kiln_vta_calls *calls) {
    static const kiln_vta_memory memory[] = {KILN_VTA_WGT, KILN_VTA_INP};
    beginning b = {.gemm = 0}, best = {.cycles = 0};
    const kiln_vta_call *call = calls->call.data;
    while (b.gemm < calls->call.count &&
           (call[b.gemm].kind == KILN_VTA_CALL_COPY || call[b.gemm].gemm == KILN_VTA_GEMM_RESET))
        b.gemm++;
    if (b.gemm == calls->call.count || call[b.gemm].kind != KILN_VTA_CALL_GEMM) return best;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(memory); i++) {
        if (!find_loop(&call[b.gemm].nest, memory[i], &b) || !find_load(calls, memory[i], &b))
            continue;
        b.cycles = copy_cycles(&calls->config, memory[i], b.sums.count * b.step);
        if (b.cycles > best.cycles) best = b;
    }
    return best;
}

/* The time is the longer of the loads of all pieces plus the last product, and the first load plus
 * all products: each piece costs LOAD a latency, or GEMM a drain of its pipeline. */
static uint32_t begin_pieces(const kiln_vta_calls *calls, const beginning *b) {
    const kiln_vta_config *c = &calls->config;
    const kiln_vta_nest *nest = &calls->call.data[b->gemm].nest;
    const uint32_t most = b->sums.count / divide_up(c->pipeline, b->vectors);
    const uint32_t drain = c->pipeline + TAKE_CYCLES, latency = c->latency + TAKE_CYCLES;
    double products = 1;
    for (uint32_t i = 0; i < nest->loop_count; i++) products *= nest->loop[i].extent;
    return KILN_MIN(pieces_of(b->cycles, drain, most), pieces_of(products, latency, most));
}

void kiln_vta_cut_begin(kiln_vta_calls *calls, kiln_arena *arena) {
    const beginning b = find_begin(calls);
    if (b.cycles == 0) return;
    const uint32_t pieces = begin_pieces(calls, &b), count = calls->call.count;
    if (pieces < 2) return;
    const kiln_vta_call *whole = kiln_arena_copy(arena, calls->call.data, count * sizeof *whole);
    calls->call.count = b.load;
    for (uint32_t i = b.load + 1; i < b.gemm; i++) kiln_vec_push_in(arena, &calls->call, whole[i]);
    for (uint32_t i = 0, loaded = 0; i < pieces; i++) {
        const uint32_t begin = b.sums.count * i / pieces, end = b.sums.count * (i + 1) / pieces;
        const uint32_t needed = b.first + (end - 1) * b.step + b.reach - b.loaded.first;
        const uint32_t until = i + 1 < pieces ? divide_up(needed, b.loaded.tiles) : b.loaded.count;
        if (until > loaded) {
            const kiln_vta_call load = piece_of(&whole[b.load], &b.loaded, loaded, until);
            kiln_vec_push_in(arena, &calls->call, load);
            loaded = until;
        }
        const kiln_vta_call gemm = piece_of(&whole[b.gemm], &b.sums, begin, end);
        kiln_vec_push_in(arena, &calls->call, gemm);
    }
    for (uint32_t i = b.gemm + 1; i < count; i++) kiln_vec_push_in(arena, &calls->call, whole[i]);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Calls of the end: the store, and operations of the ALU from `alu` up to it. */
typedef struct ending {
    uint32_t alu, store;
    uint32_t tiles, unit; /* of all results; the unit of pieces */
} ending;

/* Whether the call covers the stored results; pieces then fit its rounds. */
static bool belongs(const kiln_vta_call *call, ending *e, uint32_t first) {
    rounds r;
    if (!rounds_of(call, &r) || r.first != first || r.count * r.tiles != e->tiles) return false;
    const uint32_t more = KILN_MAX(e->unit, r.tiles), less = KILN_MIN(e->unit, r.tiles);
    if (more % less != 0) return false;
    e->unit = more;
    return true;
}

static bool find_end(const kiln_vta_calls *calls, ending *out) {
    rounds r;
    ending e = {.store = calls->call.count - 1};
    const kiln_vta_call *call = calls->call.data;
    if (calls->call.count == 0 || call[e.store].kind != KILN_VTA_CALL_COPY ||
        call[e.store].copy.memory != KILN_VTA_OUT || !rounds_of(&call[e.store], &r))
        return false;
    e.tiles = r.count * r.tiles;
    e.unit = r.tiles;
    e.alu = e.store;
    while (e.alu > 0 && call[e.alu - 1].kind == KILN_VTA_CALL_ALU &&
           belongs(&call[e.alu - 1], &e, r.first))
        e.alu--;
    *out = e;
    return e.alu < e.store;
}

/* Each piece costs the ALU its instructions, and drains of its pipeline. */
static uint32_t end_pieces(const kiln_vta_calls *calls, const ending *e) {
    const kiln_vta_config *c = &calls->config;
    const uint32_t chain = kiln_vta_config_has(c, KILN_VTA_CHAIN) ? KILN_VTA_CHAIN_MAX : 1;
    uint32_t further = 0;
    for (uint32_t i = e->alu; i < e->store; i++) {
        const uint32_t operations = calls->call.data[i].operation_count;
        further += operations * TAKE_CYCLES + divide_up(operations, chain) * KILN_VTA_ALU_PIPELINE;
    }
    return pieces_of(copy_cycles(c, KILN_VTA_OUT, e->tiles), further, e->tiles / e->unit);
}

void kiln_vta_cut_end(kiln_vta_calls *calls, kiln_arena *arena) {
    ending e;
    if (!find_end(calls, &e)) return;
    const uint32_t pieces = end_pieces(calls, &e), units = e.tiles / e.unit,
                   count = e.store + 1 - e.alu;
    if (pieces < 2) return;
    const kiln_vta_call *whole =
        kiln_arena_copy(arena, &calls->call.data[e.alu], count * sizeof *whole);
    calls->call.count = e.alu;
    for (uint32_t i = 0; i < pieces; i++)
        for (uint32_t k = 0; k < count; k++) {
            const uint32_t begin = units * i / pieces * e.unit,
                           end = units * (i + 1) / pieces * e.unit;
            rounds r = {0};
            if (!rounds_of(&whole[k], &r)) continue; /* cannot happen: it belongs to the end */
            const kiln_vta_call piece = piece_of(&whole[k], &r, begin / r.tiles, end / r.tiles);
            kiln_vec_push_in(arena, &calls->call, piece);
        }
}
