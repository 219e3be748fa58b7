#include "vta/queue.h"

kiln_vta_queues kiln_vta_queues_of(const kiln_vta_program *program, kiln_arena *arena) {
    kiln_vta_queues queues = {0};
    const kiln_vta_config *config = &program->config;
    uint32_t total[KILN_VTA_ENGINE_COUNT] = {0};
    for (uint32_t i = 0; i < program->instruction_count; i++)
        total[kiln_vta_engine_of(config, &program->instruction[i])]++;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        kiln_vta_engine other;
        queues.step[e] = KILN_ARENA_ARRAY(arena, kiln_vta_step, total[e]);
        queues.neighbour[e][KILN_VTA_BEFORE] =
            kiln_vta_engine_before(config, (kiln_vta_engine)e, &other) ? other
                                                                       : KILN_VTA_ENGINE_COUNT;
        queues.neighbour[e][KILN_VTA_BEHIND] =
            kiln_vta_engine_behind(config, (kiln_vta_engine)e, &other) ? other
                                                                       : KILN_VTA_ENGINE_COUNT;
    }
    for (uint32_t i = 0, count; i < program->instruction_count; i += count) {
        const kiln_vta_instruction *first = &program->instruction[i];
        const kiln_vta_engine engine = kiln_vta_engine_of(config, first);
        count = kiln_vta_program_run_length(program, i);
        const kiln_vta_instruction *last = first + count - 1;
        queues.step[engine][queues.count[engine]++] = (kiln_vta_step){
            i, count, {first->pop_prev, first->pop_next}, {last->push_prev, last->push_next}};
    }
    return queues;
}

void kiln_vta_counts_add(kiln_vta_counts *counts, const kiln_vta_sizes *sizes,
                         const kiln_vta_instruction *in) {
    counts->instructions[in->opcode]++;
    if (in->opcode != KILN_VTA_LOAD && in->opcode != KILN_VTA_STORE) return;
    counts->no_ops += in->x_size == 0;
    counts->bytes[in->memory] += (uint64_t)in->x_size * in->y_size * sizes->tile_bytes[in->memory];
}

bool kiln_vta_deadlock(const kiln_vta_queues *queues, const uint32_t *done,
                       kiln_vta_fault *out_fault) {
    uint32_t waiting = KILN_VTA_ENGINE_COUNT;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (done[e] < queues->count[e] &&
            (waiting == KILN_VTA_ENGINE_COUNT ||
             queues->step[e][done[e]].first < queues->step[waiting][done[waiting]].first))
            waiting = e;
    return kiln_vta_fault_set(out_fault, KILN_VTA_FAULT_DEADLOCK,
                              queues->step[waiting][done[waiting]].first,
                              "the engine %s waits for a token, or a place for its own",
                              kiln_vta_engine_name((kiln_vta_engine)waiting));
}

bool kiln_vta_tokens_left(const kiln_vta_queues *queues, uint32_t engine, uint32_t side,
                          uint32_t count, kiln_vta_fault *out_fault) {
    const uint32_t giver = queues->neighbour[engine][side];
    return kiln_vta_fault_set(
        out_fault, KILN_VTA_FAULT_TOKENS_LEFT, queues->step[giver][queues->count[giver] - 1].first,
        "%u for %s from %s", count, kiln_vta_engine_name((kiln_vta_engine)engine),
        kiln_vta_engine_name((kiln_vta_engine)giver));
}
