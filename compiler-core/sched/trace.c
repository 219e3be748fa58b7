/* Traces as data: building, copying, hashing. */
#include "compiler-core/sched/trace.h"

#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "compiler-core/sched/prim.h"

bool kiln_instruction_samples(const kiln_instruction *in) { return kiln_prim_is_sampler(in->prim); }

uint32_t kiln_trace_add(kiln_trace *trace, kiln_arena *arena, kiln_prim prim,
                        const kiln_operand *operand, uint32_t operand_count) {
    KILN_CHECK(trace->count < KILN_TRACE_INSTRUCTIONS_MAX);
    if (trace->count == trace->capacity)
        trace->instruction = kiln_vec_grow_in(arena, trace->instruction, sizeof *trace->instruction,
                                              &trace->capacity, trace->count + 1);
    kiln_instruction *added = &trace->instruction[trace->count++];
    memset(added, 0, sizeof *added);
    added->prim = prim;
    added->operand_count = operand_count;
    added->operand =
        operand_count ? kiln_arena_copy(arena, operand, operand_count * sizeof *operand) : NULL;
    return trace->count;
}

kiln_operand kiln_operand_name(const char *text) {
    return (kiln_operand){.text = kiln_str_from(text)};
}

kiln_operand kiln_operand_int(int64_t value) {
    return (kiln_operand){.factor_count = 1, .factor = {{.value = value}}};
}

kiln_operand kiln_operand_ref(uint32_t sampler, uint32_t element) {
    return (kiln_operand){.factor_count = 1, .factor = {{.sampler = sampler, .value = element}}};
}

kiln_operand kiln_operand_times(kiln_operand a, kiln_operand b) {
    KILN_CHECK(a.factor_count + b.factor_count <= KILN_OPERAND_FACTORS_MAX);
    for (uint32_t i = 0; i < b.factor_count; i++) a.factor[a.factor_count++] = b.factor[i];
    return a;
}

static kiln_str copy_text(kiln_str text, kiln_arena *arena) {
    return text.size ? kiln_str_copy(arena, text) : (kiln_str){0};
}

kiln_trace kiln_trace_copy(const kiln_trace *trace, kiln_arena *arena) {
    kiln_trace copy = {trace->count, trace->count, NULL};
    if (trace->count == 0) return copy;
    copy.instruction =
        kiln_arena_copy(arena, trace->instruction, trace->count * sizeof *trace->instruction);
    for (uint32_t i = 0; i < copy.count; i++) {
        kiln_instruction *in = &copy.instruction[i];
        if (in->operand_count == 0) continue;
        in->operand = kiln_arena_copy(arena, in->operand, in->operand_count * sizeof *in->operand);
        for (uint32_t k = 0; k < in->operand_count; k++)
            in->operand[k].text = copy_text(in->operand[k].text, arena);
    }
    return copy;
}

kiln_hash128 kiln_trace_hash(const kiln_trace *trace) {
    kiln_strbuf bytes = {0};
    kiln_trace_encode(trace, &bytes);
    kiln_hash128 hash = kiln_hash128_of(bytes.data, bytes.size);
    kiln_strbuf_deinit(&bytes);
    return hash;
}

kiln_algorithm kiln_trace_algorithm(const kiln_trace *trace) {
    if (trace->count == 0 || trace->instruction[0].prim != KILN_PRIM_ALGORITHM)
        return KILN_ALGORITHM_DIRECT;
    const kiln_instruction *in = &trace->instruction[0];
    return in->operand_count ? kiln_algorithm_find(in->operand[0].text) : KILN_ALGORITHM_COUNT;
}
