#include "compiler-core/cost/core_time.h"

#include <math.h>

/* Of vta/csim.h. */
#define BURST_BEATS 256.0 /* a longer row is several requests */
#define ALU_PIPELINE 4.0
#define TAKE_CYCLES 2.0 /* an instruction is taken, and begins in the next cycle */
#define CHAIN_MAX 4     /* operations in a pass */
#define INSTRUCTION_BITS 128.0

static const char *const term_name[] = {
    [KILN_CORE_GEMM] = "gemm",   [KILN_CORE_ALU] = "alu",   [KILN_CORE_PORT] = "port",
    [KILN_CORE_WAITS] = "waits", [KILN_CORE_ENDS] = "ends",
};
const char *kiln_core_term_name(kiln_core_term term) { return term_name[term]; }

/* Cycles of a memory channel. */
static double channel_cycles(const kiln_vta_config *m, const kiln_core_copies *c) {
    if (c->rows == 0) return 0;
    const double beats = ceil(c->bytes / c->rows * 8 / m->bus_bits);
    return c->rows * (ceil(beats / BURST_BEATS) * m->row_cycles + beats);
}

static double per_call(double all, double calls) { return calls > 0 ? all / calls : 0; }

kiln_core_time kiln_core_time_of(const kiln_vta_config *m, const kiln_core_work *w) {
    const bool first = kiln_vta_config_has(m, KILN_VTA_FIRST),
               chains = kiln_vta_config_has(m, KILN_VTA_CHAIN),
               engine = kiln_vta_config_has(m, KILN_VTA_ENGINE);
    const double drain = TAKE_CYCLES + m->pipeline;
    const double lanes = ceil((double)m->batch * m->block_out / m->alu_lanes) * m->alu_cycles;
    const double passes = chains ? ceil(w->alu_operations / CHAIN_MAX) : w->alu_operations;
    const double inp = channel_cycles(m, &w->inp), wgt = channel_cycles(m, &w->wgt),
                 acc = channel_cycles(m, &w->acc), out = channel_cycles(m, &w->out);
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
        m->channels > 1 ? fmax(inp + wgt + acc, out) : inp + wgt + acc + out + fetch;
    if (!hides_loads)
        t.term[KILN_CORE_WAITS] += inp + wgt + (w->inp.calls + w->wgt.calls) * m->latency;
    if (!hides_results) t.term[KILN_CORE_WAITS] += out + w->out.calls * m->latency;
    t.term[KILN_CORE_WAITS] += acc + w->acc.calls * m->latency; /* COMPUTE itself loads these */
    t.term[KILN_CORE_ENDS] = per_call(inp, w->inp.calls) + per_call(wgt, w->wgt.calls) +
                             per_call(out, w->out.calls) +
                             per_call(t.term[KILN_CORE_ALU], w->alu_calls) + 2.0 * m->latency;
    const double compute = engine && hides_results
                               ? fmax(t.term[KILN_CORE_GEMM], t.term[KILN_CORE_ALU])
                               : t.term[KILN_CORE_GEMM] + t.term[KILN_CORE_ALU];
    t.cycles =
        fmax(compute + t.term[KILN_CORE_WAITS], t.term[KILN_CORE_PORT]) + t.term[KILN_CORE_ENDS];
    for (int i = 0; i < KILN_CORE_TERMS; i++)
        if (t.term[i] > t.term[t.bound]) t.bound = (kiln_core_term)i;
    return t;
}
