#include "compiler-core/cost/core_time.h"

#include <math.h>

/* Constants of vta/csim.h. */
#define BURST_BEATS 256.0 /* a longer row needs several requests */
#define ALU_PIPELINE 4.0
#define TAKE_CYCLES 2.0 /* an instruction is taken, and begins in the next cycle */
#define CHAIN_MAX 4     /* operations in a pass */
#define INSTRUCTION_BITS 128.0
#define UOP_BITS 32.0
#define SHARPNESS 16.0 /* fitted to csim: C2 to C12 on four machines */

static const char *const term_name[] = {
    [KILN_CORE_GEMM] = "gemm",   [KILN_CORE_ALU] = "alu",   [KILN_CORE_PORT] = "port",
    [KILN_CORE_WAITS] = "waits", [KILN_CORE_ENDS] = "ends",
};
const char *kiln_core_term_name(kiln_core_term term) { return term_name[term]; }

void kiln_core_block_add(kiln_core_block *b, double count, double all) {
    b->elements *= count;
    if (b->extends_row) {
        b->extends_row = count >= all;
        return;
    }
    b->rows *= count;
    if (count == 1) {
        b->extends_plane = b->extends_plane && all == 1;
    } else if (!b->is_plane) {
        b->is_plane = true;
        b->extends_plane = count >= all;
    } else if (b->extends_plane) {
        b->extends_plane = count >= all;
    } else {
        b->calls *= count;
    }
}

static double beats_of(const kiln_vta_config *m, const kiln_core_copies *c) {
    return c->rows > 0 ? ceil(c->bytes / c->rows * 8 / m->bus_bits) : 0;
}

/* Cycles of a memory channel. */
static double channel_cycles(const kiln_vta_config *m, const kiln_core_copies *c) {
    const double beats = beats_of(m, c);
    return c->rows * (ceil(beats / BURST_BEATS) * m->row_cycles + beats);
}

/* Cycles of the engine that reads: the first row of an instruction comes after the latency, and it
 * asks for `requests` rows at most before the first has come. */
static double engine_cycles(const kiln_vta_config *m, const kiln_core_copies *c) {
    return fmax(channel_cycles(m, c), c->rows * (m->latency + beats_of(m, c)) / m->requests) +
           c->calls * (m->latency + TAKE_CYCLES);
}

static double per_call(double all, double calls) { return calls > 0 ? all / calls : 0; }

double kiln_core_uops(const double *extent, uint32_t count) {
    double all = 1, most = 1, second = 1;
    for (uint32_t i = 0; i < count; i++) {
        all *= extent[i];
        second = fmax(second, fmin(most, extent[i]));
        most = fmax(most, extent[i]);
    }
    return all / (most * second);
}

/* Calls with different places have different micro-ops. COMPUTE loads them at their first use,
 * together with others, as many as the port moves in a latency (vta/emit.c). */
static double uop_waits(const kiln_vta_config *m, const kiln_core_work *w) {
    const double kernels = fmin(w->gemm_calls, w->result_places * w->load_places);
    const double together = m->latency * (double)m->bus_bits / UOP_BITS / fmax(1, w->gemm_uops);
    return ceil(kernels / fmax(1, together)) * (m->latency + m->row_cycles) +
           kernels * w->gemm_uops * UOP_BITS / m->bus_bits;
}

/* The work at both ends of a program is cut into pieces (codegen/vta_ends.h): n of them take
 * further * n + hidden / n cycles. */
static double in_pieces(double hidden, double further) {
    return fmin(hidden, 2 * sqrt(hidden * further));
}

/* An operand that stays for several steps is loaded in one burst. It can start only as many steps
 * ahead as there are places, so only those steps hide it. */
static double burst_waits(const kiln_core_work *w, const kiln_core_copies *c, double cycles,
                          double other_cycles, double compute) {
    const kiln_core_copies *other = c == &w->inp ? &w->wgt : &w->inp;
    if (c->blocks >= other->blocks || c->blocks <= 1) return 0;
    const double burst = cycles / c->blocks + other_cycles / other->blocks;
    return c->blocks * fmax(0, burst - (w->load_places - 1) * compute / other->blocks);
}

/* Time of two concurrent parts: a little more than the longer one, because they wait for each other
 * if both have much to do. */
static double beside(double a, double b) {
    return fmax(a, b) * pow(1 + pow(fmin(a, b) / fmax(1, fmax(a, b)), SHARPNESS), 1 / SHARPNESS);
}

/* While COMPUTE itself makes results, LOAD runs ahead as far as there are places, and then waits
 * for a GEMM to end. Cycles of the port in parallel to the ALU. */
static double loads_beside_alu(const kiln_core_work *w, double alu, double port) {
    const double phases = per_call(w->alu_calls, w->threads); /* parts of all threads together */
    const double ahead = (w->load_places - 1) * per_call(port, w->gemm_calls);
    return fmax(0, phases - 1) * fmin(per_call(alu, phases), ahead);
}

kiln_core_time kiln_core_time_of(const kiln_vta_config *m, const kiln_core_work *w) {
    const bool first = kiln_vta_config_has(m, KILN_VTA_FIRST),
               chains = kiln_vta_config_has(m, KILN_VTA_CHAIN),
               engine = kiln_vta_config_has(m, KILN_VTA_ENGINE);
    const double drain = TAKE_CYCLES + m->pipeline;
    const double lanes = ceil((double)m->batch * m->block_out / m->alu_lanes) * m->alu_cycles;
    const double passes = chains ? ceil(w->alu_operations / CHAIN_MAX) : w->alu_operations;
    const double inp = channel_cycles(m, &w->inp), wgt = channel_cycles(m, &w->wgt),
                 acc = channel_cycles(m, &w->acc), out = channel_cycles(m, &w->out);
    const double loads = engine_cycles(m, &w->inp), weights = engine_cycles(m, &w->wgt);
    const double copies = w->inp.calls + w->wgt.calls + w->acc.calls + w->out.calls;
    const double instructions =
        copies + w->gemm_calls + w->reset_calls + w->alu_calls * w->alu_operations;
    const double fetch = instructions * ceil(INSTRUCTION_BITS / m->bus_bits);
    kiln_core_time t = {{0}, 0, KILN_CORE_GEMM};
    t.term[KILN_CORE_GEMM] = w->gemm_tiles + w->gemm_calls * drain;
    if (!first) t.term[KILN_CORE_GEMM] += w->reset_tiles + w->reset_calls * drain;
    t.term[KILN_CORE_ALU] = passes * (w->alu_tiles * lanes + w->alu_calls * ALU_PIPELINE) +
                            w->alu_calls * w->alu_operations * TAKE_CYCLES;
    const bool hides_loads = w->load_places > 1, hides_results = w->result_places > 1;
    t.term[KILN_CORE_PORT] =
        fmax(m->channels > 1 ? fmax(inp + wgt + acc, out) : inp + wgt + acc + out + fetch,
             loads + weights);
    if (!hides_loads) t.term[KILN_CORE_WAITS] += loads + weights;
    if (!hides_results) t.term[KILN_CORE_WAITS] += out + w->out.calls * m->latency;
    t.term[KILN_CORE_WAITS] += uop_waits(m, w);
    t.term[KILN_CORE_WAITS] += acc + w->acc.calls * m->latency; /* COMPUTE itself loads these */
    const double part_weights = per_call(weights, w->wgt.blocks),
                 cut_weights = fmin(part_weights, per_call(w->gemm_tiles, w->gemm_calls));
    const double part_out = per_call(out, w->out.blocks),
                 part_alu = per_call(t.term[KILN_CORE_ALU], w->alu_calls);
    const double part_calls = w->alu_operations * TAKE_CYCLES + passes * ALU_PIPELINE;
    t.term[KILN_CORE_ENDS] =
        2.0 * m->latency + per_call(loads, w->inp.blocks) + part_weights - cut_weights +
        in_pieces(cut_weights, cut_weights < part_weights ? m->latency : drain) +
        (engine ? part_alu : 0) + in_pieces(part_out, part_calls);
    const double gemm = t.term[KILN_CORE_GEMM], alu = t.term[KILN_CORE_ALU];
    double compute = gemm + alu;
    if (engine && w->result_places > w->threads)
        compute = fmax(gemm, alu);
    else if (engine && hides_results) /* the first thread's next sums wait for its results */
        compute = gemm + (alu + out) / w->threads;
    if (hides_loads) {
        t.term[KILN_CORE_WAITS] += burst_waits(w, &w->inp, loads, weights, compute);
        t.term[KILN_CORE_WAITS] += burst_waits(w, &w->wgt, weights, loads, compute);
    }
    const double waits = t.term[KILN_CORE_WAITS], port = t.term[KILN_CORE_PORT];
    t.cycles = beside(compute + waits, port);
    if (!engine && hides_loads)
        t.cycles =
            fmax(t.cycles, alu + beside(gemm + waits, port - loads_beside_alu(w, alu, port)));
    t.cycles += t.term[KILN_CORE_ENDS];
    for (int i = 0; i < KILN_CORE_TERMS; i++)
        if (t.term[i] > t.term[t.bound]) t.bound = (kiln_core_term)i;
    return t;
}
