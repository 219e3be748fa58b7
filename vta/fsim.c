#include "vta/fsim.h"

#include "base/rand.h"
#include "vta/core.h"
#include "vta/queue.h"

typedef struct running {
    const kiln_vta_program *program;
    kiln_vta_sizes sizes;
    const uint64_t *place;
    kiln_vta_queues queues;
    kiln_vta_core core;
    uint32_t done[KILN_VTA_ENGINE_COUNT];      /* steps */
    bool ran[KILN_VTA_ENGINE_COUNT];           /* the next step has run, its tokens are pending */
    uint32_t tokens[KILN_VTA_ENGINE_COUNT][2]; /* that an engine's neighbours gave it */
    kiln_vta_counts counts;
    kiln_vta_fault *out_fault;
} running;

static bool tokens_are_there(const running *r, uint32_t engine, const kiln_vta_step *step) {
    return (!step->pop[KILN_VTA_BEFORE] || r->tokens[engine][KILN_VTA_BEFORE]) &&
           (!step->pop[KILN_VTA_BEHIND] || r->tokens[engine][KILN_VTA_BEHIND]);
}

/* The tokens that this engine has given to its neighbour on `side`. */
static uint32_t *given(running *r, uint32_t engine, uint32_t side) {
    return &r->tokens[r->queues.neighbour[engine][side]][1 - side];
}

static bool places_are_there(running *r, uint32_t engine, const kiln_vta_step *step) {
    for (uint32_t side = 0; side < 2; side++)
        if (step->push[side] && *given(r, engine, side) >= r->program->config.tokens) return false;
    return true;
}

static bool can_go_on(running *r, uint32_t engine) {
    if (r->done[engine] == r->queues.count[engine]) return false;
    const kiln_vta_step *step = &r->queues.step[engine][r->done[engine]];
    return r->ran[engine] ? places_are_there(r, engine, step) : tokens_are_there(r, engine, step);
}

static bool is_alone(const running *r) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        const uint32_t left = r->queues.count[e] - r->done[e];
        if (left > (e == KILN_VTA_ENGINE_COMPUTE)) return false;
    }
    return true;
}

static bool run_step(running *r, uint32_t engine) {
    const kiln_vta_step *step = &r->queues.step[engine][r->done[engine]];
    kiln_vta_instruction placed[KILN_VTA_CHAIN_MAX];
    for (uint32_t side = 0; side < 2; side++) r->tokens[engine][side] -= step->pop[side];
    for (uint32_t i = 0; i < step->count; i++) {
        placed[i] = kiln_vta_program_placed(r->program, &r->sizes, r->place, step->first + i);
        kiln_vta_counts_add(&r->counts, &r->sizes, &placed[i]);
    }
    if (placed[0].opcode == KILN_VTA_FINISH && !is_alone(r))
        return kiln_vta_fault_set(r->out_fault, KILN_VTA_FAULT_FINISH_EARLY, step->first,
                                  "nothing makes it wait for all of them");
    r->ran[engine] = true;
    return kiln_vta_core_run(&r->core, placed, step->count, step->first, r->out_fault);
}

static void give_tokens(running *r, uint32_t engine) {
    const kiln_vta_step *step = &r->queues.step[engine][r->done[engine]];
    for (uint32_t side = 0; side < 2; side++)
        if (step->push[side]) ++*given(r, engine, side);
    r->ran[engine] = false;
    r->done[engine]++;
}

/* Runs one engine by one move; false if none can run. */
static bool choose(running *r, kiln_rand *random, uint64_t seed, uint32_t *out_engine) {
    uint32_t able[KILN_VTA_ENGINE_COUNT], able_count = 0;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (can_go_on(r, e)) able[able_count++] = e;
    if (able_count == 0) return false;
    *out_engine = able[seed ? kiln_rand_below(random, able_count) : 0];
    return true;
}

static bool run_all(running *r, uint64_t seed) {
    kiln_rand random;
    kiln_rand_init(&random, seed);
    for (uint32_t engine; choose(r, &random, seed, &engine);) {
        if (r->ran[engine])
            give_tokens(r, engine);
        else if (!run_step(r, engine))
            return false;
    }
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (r->done[e] < r->queues.count[e])
            return kiln_vta_deadlock(&r->queues, r->done, r->out_fault);
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        for (uint32_t side = 0; side < 2; side++)
            if (r->tokens[e][side])
                return kiln_vta_tokens_left(&r->queues, e, side, r->tokens[e][side], r->out_fault);
    return true;
}

bool kiln_vta_fsim_run(const kiln_vta_program *program, uint8_t *dram, uint64_t dram_bytes,
                       uint64_t seed, kiln_vta_counts *out_counts, kiln_vta_fault *out_fault) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    uint64_t *place = KILN_ARENA_ARRAY(&scratch, uint64_t, program->buffer_count);
    kiln_vta_program_place(program, place);
    running r = {.program = program,
                 .sizes = kiln_vta_sizes_of(&program->config),
                 .place = place,
                 .queues = kiln_vta_queues_of(program, &scratch),
                 .out_fault = out_fault};
    kiln_vta_core_init(&r.core, &program->config, dram, dram_bytes, &scratch);
    const bool ok = run_all(&r, seed);
    r.counts.multiply_adds = r.core.multiply_adds;
    if (ok) *out_counts = r.counts;
    kiln_arena_deinit(&scratch);
    return ok;
}
