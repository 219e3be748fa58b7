#include "vta/csim.h"

#include <string.h>

#include "vta/core.h"
#include "vta/queue.h"

#define NEVER UINT64_MAX
#define FETCH KILN_VTA_ENGINE_COUNT /* fetch as an agent, numbered behind the engines */
#define AGENT_COUNT (KILN_VTA_ENGINE_COUNT + 1u)
#define CHANNELS_MAX 4u

/* Data movement of an agent: rows of bursts, and for engines tiles of zeros around them. */
typedef struct mover {
    bool is_active;
    uint32_t channel;
    uint64_t asked;     /* when the next burst is requested; NEVER: not known yet */
    uint64_t taken[64]; /* the cycle in which the last beat of burst n was taken, at n % req */
    uint64_t burst;     /* the number of the next one, from the beginning of the instruction */
    /* Of an engine: */
    bool is_store;
    uint32_t row, rows;
    uint64_t row_begin, row_step, row_bytes; /* in main memory: where a row begins, to the next */
    uint32_t beats_left;                     /* of the row that is being moved */
    uint32_t zeros_before, zeros_behind, zeros_end; /* cycles before and behind a row; at the end */
    uint64_t walk;                                  /* the next cycle in which it takes a beat */
    uint64_t busy;                                  /* cycles of beats and zeros */
} mover;

typedef enum phase { PHASE_TAKE, PHASE_TOKENS, PHASE_CHAIN, PHASE_MOVE, PHASE_GIVE } phase;

typedef struct engine {
    phase phase;
    uint64_t next;  /* the cycle in which it can continue, as far as known */
    uint32_t done;  /* steps */
    uint32_t links; /* instructions of a chain taken so far */
    /* Instructions that fetch issued and the engine has not taken; each of a chain counts. */
    uint32_t waiting;
    /* Without a queue: from this cycle on fetch can issue the next; NEVER: not known yet. */
    uint64_t vacant;
    uint64_t taken, started, ran; /* of the step */
    uint64_t free;                /* from this cycle on it takes its next instruction */
    bool waits;                   /* for a token, since wait_from */
    kiln_vta_activity wait;
    uint64_t wait_from;
} engine;

typedef struct tokens {
    uint64_t given[1024]; /* ring: the cycles in which they were given */
    uint32_t begin, count;
    uint64_t popped; /* the cycle of the last pop, whose place is free in the next */
    bool was_popped;
} tokens;

typedef struct channel {
    uint64_t next, free;
    uint32_t last; /* the agent that was served last */
} channel;

typedef struct simulation {
    const kiln_vta_program *program;
    const kiln_vta_config *config;
    const kiln_vta_csim_options *options;
    kiln_vta_sizes sizes;
    kiln_vta_queues queues;
    const uint64_t *place;
    kiln_vta_core core;
    uint32_t beat_bytes;
    engine engine[KILN_VTA_ENGINE_COUNT];
    tokens tokens[KILN_VTA_ENGINE_COUNT][2]; /* that an engine's neighbours gave it */
    mover mover[AGENT_COUNT];
    channel channel[CHANNELS_MAX];
    uint32_t channel_count;
    /* Fetch. */
    uint64_t fetch_next;
    uint64_t fetch_turn;   /* from this cycle on it can issue the next instruction */
    uint32_t fetched;      /* instructions issued */
    uint64_t burst_at[64]; /* when the first byte of burst n can be taken, at n % req */
    bool is_finished;
    kiln_vta_timing timing;
    kiln_vta_fault *out_fault;
} simulation;

static const char *const activity_table[] = {
    [KILN_VTA_IDLE] = "idle",
    [KILN_VTA_WAIT_BEFORE] = "wait_before",
    [KILN_VTA_WAIT_BEHIND] = "wait_behind",
    [KILN_VTA_WAIT_PLACE] = "wait_place",
    [KILN_VTA_WAIT_MEMORY] = "wait_memory",
    [KILN_VTA_BUSY_TAKE] = "take",
    [KILN_VTA_BUSY_MOVE] = "move",
    [KILN_VTA_BUSY_GEMM] = "gemm",
    [KILN_VTA_BUSY_RESET] = "reset",
    [KILN_VTA_BUSY_ALU] = "alu",
    [KILN_VTA_BUSY_DRAIN] = "drain",
};

const char *kiln_vta_activity_name(kiln_vta_activity activity) { return activity_table[activity]; }

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void wake(uint64_t *next, uint64_t cycle) { *next = sooner(*next, cycle); }

static void spend(simulation *s, uint32_t e, kiln_vta_activity activity, uint64_t cycles) {
    s->timing.activity[e][activity] += cycles;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint32_t beats_of(const simulation *s, uint64_t bytes) {
    return (uint32_t)((bytes + s->beat_bytes - 1) / s->beat_bytes);
}

/* Buffers begin at pages, so their address does not matter. */
static uint32_t row_beats(const simulation *s, const mover *m) {
    return beats_of(s, m->row_begin % s->beat_bytes + m->row_bytes);
}

/* When the next burst is requested, if the one before it was requested in cycle `before`. */
static void ask_next(simulation *s, mover *m, uint64_t before) {
    const uint32_t req = s->config->requests;
    m->burst++;
    m->asked = before + 1;
    if (m->burst < req) return;
    const uint64_t taken = m->taken[m->burst % req];
    m->asked = taken == NEVER ? NEVER : later(m->asked, taken + 1);
}

static void wake_channel(simulation *s, const mover *m) {
    channel *c = &s->channel[m->channel];
    if (m->asked != NEVER) wake(&c->next, later(m->asked + 1, c->free));
}

/* An engine begins an instruction that moves tiles; its first running cycle is `cycle`. */
static void move_begin(simulation *s, uint32_t e, const kiln_vta_instruction *in, uint64_t cycle) {
    mover *m = &s->mover[e];
    const uint32_t columns = in->x_pad_0 + in->x_size + in->x_pad_1;
    m->is_active = in->y_size > 0;
    m->is_store = in->opcode == KILN_VTA_STORE;
    m->asked = cycle;
    m->burst = 0;
    m->row = 0;
    m->rows = in->y_size;
    m->row_begin = (uint64_t)in->dram_base * s->sizes.tile_bytes[in->memory];
    m->row_step = (uint64_t)in->x_stride * s->sizes.tile_bytes[in->memory];
    m->row_bytes = (uint64_t)in->x_size * s->sizes.tile_bytes[in->memory];
    m->beats_left = row_beats(s, m);
    m->zeros_before = in->x_pad_0;
    m->zeros_behind = in->x_pad_1;
    m->zeros_end = in->y_pad_1 * columns;
    const uint64_t zeros = (uint64_t)in->y_pad_0 * columns;
    m->walk = cycle + zeros + (m->is_active ? m->zeros_before : 0);
    m->busy = zeros + (uint64_t)m->rows * (in->x_pad_0 + in->x_pad_1) + m->zeros_end;
    if (m->is_active) {
        s->engine[e].next = NEVER;
        wake_channel(s, m);
    } else {
        s->engine[e].ran = later(cycle, m->walk + m->zeros_end - 1);
        s->engine[e].next = s->engine[e].ran;
    }
}

/* Cycles of a channel before a burst's first beat. A written beat follows its request. */
static uint32_t row_cycles(const simulation *s, const mover *m) {
    return s->config->row_cycles + (m->is_store && s->config->row_cycles == 0);
}

/* A channel begins the next burst of an engine in cycle `begin`. Returns its beats. */
static uint32_t move_burst(simulation *s, uint32_t e, uint64_t begin) {
    mover *m = &s->mover[e];
    const uint32_t beats =
        m->beats_left < KILN_VTA_BURST_BEATS ? m->beats_left : KILN_VTA_BURST_BEATS;
    uint64_t first = begin + row_cycles(s, m); /* beat */
    if (!m->is_store) first = later(first + s->config->latency, m->walk);
    m->walk = first + beats;
    m->taken[m->burst % s->config->requests] = m->walk - 1;
    m->busy += beats;
    m->beats_left -= beats;
    const uint64_t asked = m->asked;
    if (m->beats_left == 0) {
        m->walk += m->zeros_behind;
        m->row_begin += m->row_step;
        m->beats_left = row_beats(s, m);
        if (++m->row == m->rows) {
            m->walk += m->zeros_end;
            m->is_active = false;
            s->engine[e].ran = m->walk - 1;
            wake(&s->engine[e].next, m->walk - 1);
            return beats;
        }
        m->walk += m->zeros_before;
    }
    ask_next(s, m, asked);
    return beats;
}

static uint32_t fetch_burst(simulation *s, uint64_t begin) {
    mover *m = &s->mover[FETCH];
    const uint32_t first = (uint32_t)(m->burst * KILN_VTA_FETCH_INSTRUCTIONS);
    const uint32_t left = s->program->instruction_count - first;
    const uint32_t count = left < KILN_VTA_FETCH_INSTRUCTIONS ? left : KILN_VTA_FETCH_INSTRUCTIONS;
    s->burst_at[m->burst % s->config->requests] = begin + row_cycles(s, m) + s->config->latency;
    m->taken[m->burst % s->config->requests] = NEVER;
    m->is_active = left > count;
    if (s->fetched == first) wake(&s->fetch_next, begin);
    const uint64_t asked = m->asked;
    ask_next(s, m, asked);
    return beats_of(s, (uint64_t)count * KILN_VTA_INSTRUCTION_BYTES);
}

static void channel_act(simulation *s, uint32_t number, uint64_t cycle) {
    static const uint32_t order[] = {KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE,
                                     KILN_VTA_ENGINE_STORE, FETCH};
    channel *c = &s->channel[number];
    uint32_t chosen = KILN_ARRAY_COUNT(order);
    for (uint32_t i = 1; i <= KILN_ARRAY_COUNT(order) && chosen == KILN_ARRAY_COUNT(order); i++) {
        const uint32_t at = (c->last + i) % KILN_ARRAY_COUNT(order);
        const mover *m = &s->mover[order[at]];
        if (m->is_active && m->channel == number && m->asked < cycle) chosen = at;
    }
    if (chosen < KILN_ARRAY_COUNT(order)) {
        const uint32_t agent = order[chosen];
        const uint32_t beats = agent == FETCH ? fetch_burst(s, cycle) : move_burst(s, agent, cycle);
        const uint32_t busy = row_cycles(s, &s->mover[agent]) + beats;
        c->last = chosen;
        c->free = cycle + busy;
        s->timing.channel_busy[number] += busy;
    }
    c->next = NEVER;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(order); i++) {
        const mover *m = &s->mover[order[i]];
        if (m->is_active && m->channel == number) wake_channel(s, m);
    }
}

/* ---- fetch ----------------------------------------------------------------------------------- */

/* From `cycle` on the engine, which has no queue, has no instruction. */
static void vacate(simulation *s, engine *g, uint64_t cycle) {
    if (s->config->commands) return;
    g->vacant = cycle;
    wake(&s->fetch_next, cycle);
}

/* Cycles to issue an instruction. */
static uint32_t handing_cycles(const simulation *s) {
    return s->config->commands ? 1 : beats_of(s, KILN_VTA_INSTRUCTION_BYTES);
}

static void fetch_act(simulation *s, uint64_t cycle) {
    mover *m = &s->mover[FETCH];
    const uint32_t index = s->fetched, in_burst = index % KILN_VTA_FETCH_INSTRUCTIONS;
    const uint32_t burst = index / KILN_VTA_FETCH_INSTRUCTIONS, req = s->config->requests;
    s->fetch_next = NEVER;
    if (index == s->program->instruction_count || burst >= m->burst) return;
    const uint64_t there = s->burst_at[burst % req] +
                           beats_of(s, (uint64_t)(in_burst + 1) * KILN_VTA_INSTRUCTION_BYTES) - 1;
    const uint32_t e = kiln_vta_engine_of(s->config, &s->program->instruction[index]);
    engine *to = &s->engine[e];
    const bool is_queue = s->config->commands > 0;
    if (is_queue ? to->waiting == s->config->commands : to->vacant == NEVER)
        return; /* the engine wakes it */
    const uint64_t begin = later(s->fetch_turn, to->vacant);
    const uint64_t handed = later(there, begin + handing_cycles(s) - 1);
    if (cycle < handed) {
        s->fetch_next = handed;
        return;
    }
    to->waiting++;
    if (!is_queue) to->vacant = NEVER;
    if (to->phase == PHASE_TAKE || to->phase == PHASE_CHAIN)
        wake(&to->next, later(cycle + 1, to->free));
    s->fetched++;
    s->fetch_next = s->fetch_turn = cycle + 1;
    if (in_burst + 1 == KILN_VTA_FETCH_INSTRUCTIONS) {
        m->taken[burst % req] = cycle;
        if (m->is_active && m->asked == NEVER) {
            m->asked = cycle + 1;
            wake_channel(s, m);
        }
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool token_is_there(const tokens *t, uint64_t cycle) {
    return t->count > 0 && t->given[t->begin] < cycle;
}

static bool place_is_there(const simulation *s, const tokens *t, uint64_t cycle) {
    const bool just_popped = t->was_popped && t->popped == cycle;
    return t->count + just_popped < s->config->tokens;
}

static tokens *tokens_to(simulation *s, uint32_t e, uint32_t side) {
    return &s->tokens[s->queues.neighbour[e][side]][1 - side];
}

static void pop(simulation *s, uint32_t e, uint32_t side, uint64_t cycle) {
    tokens *t = &s->tokens[e][side];
    engine *giver = &s->engine[s->queues.neighbour[e][side]];
    t->begin = (t->begin + 1) % KILN_ARRAY_COUNT(t->given);
    t->count--;
    t->popped = cycle;
    t->was_popped = true;
    if (giver->phase == PHASE_GIVE && giver->next == NEVER) giver->next = cycle + 1;
}

static void push(simulation *s, uint32_t e, uint32_t side, uint64_t cycle) {
    tokens *t = tokens_to(s, e, side);
    engine *taker = &s->engine[s->queues.neighbour[e][side]];
    t->given[(t->begin + t->count++) % KILN_ARRAY_COUNT(t->given)] = cycle;
    if (taker->phase == PHASE_TOKENS) wake(&taker->next, cycle + 1);
}

/* ---- engines --------------------------------------------------------------------------------- */

static uint64_t tiles_of(const kiln_vta_instruction *in) {
    return (uint64_t)in->iter_out * in->iter_in * (in->uop_end - in->uop_bgn);
}

static void run_gemm(simulation *s, uint32_t e, const kiln_vta_instruction *in, uint64_t cycle) {
    const uint64_t cycles = tiles_of(in);
    spend(s, e, in->reset ? KILN_VTA_BUSY_RESET : KILN_VTA_BUSY_GEMM, cycles);
    spend(s, e, KILN_VTA_BUSY_DRAIN, s->config->pipeline);
    s->engine[e].ran = cycle + cycles + s->config->pipeline;
    if (!in->reset && s->options->timing_only)
        s->timing.counts.multiply_adds +=
            cycles * s->config->batch * s->config->block_in * s->config->block_out;
}

static void run_alu(simulation *s, uint32_t e, const kiln_vta_step *step, uint64_t cycle) {
    const kiln_vta_instruction *in = &s->program->instruction[step->first];
    const uint32_t elements = s->config->batch * s->config->block_out;
    const uint32_t passes = (elements + s->config->alu_lanes - 1) / s->config->alu_lanes;
    const uint64_t cycles = tiles_of(in) * passes * s->config->alu_cycles;
    const uint64_t drain = KILN_VTA_ALU_PIPELINE + step->count - 1;
    spend(s, e, KILN_VTA_BUSY_ALU, cycles);
    spend(s, e, KILN_VTA_BUSY_DRAIN, drain);
    s->engine[e].ran = cycle + cycles + drain;
}

static const kiln_vta_step *step_of(const simulation *s, uint32_t e) {
    return &s->queues.step[e][s->engine[e].done];
}

static void run_begin(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    const kiln_vta_step *step = step_of(s, e);
    const kiln_vta_instruction *in = &s->program->instruction[step->first];
    const bool moves = (in->opcode == KILN_VTA_LOAD || in->opcode == KILN_VTA_STORE) && in->x_size;
    g->started = cycle;
    g->phase = moves ? PHASE_MOVE : PHASE_GIVE;
    spend(s, e, KILN_VTA_BUSY_TAKE, 1);
    if (moves) {
        move_begin(s, e, in, cycle + 1);
        return;
    }
    if (step->count > 1) {
        g->phase = PHASE_CHAIN;
        g->next = g->free = cycle + 2;
        vacate(s, g, cycle + 2);
        return;
    }
    if (in->opcode == KILN_VTA_GEMM) {
        run_gemm(s, e, in, cycle);
    } else if (in->opcode == KILN_VTA_ALU) {
        run_alu(s, e, step, cycle);
    } else {
        spend(s, e, KILN_VTA_BUSY_TAKE, 1);
        g->ran = cycle + 1;
    }
    g->next = g->ran;
}

/* Takes an instruction that was issued in an earlier cycle. False: fetch wakes the engine. */
static bool take(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    g->next = NEVER;
    if (g->waiting == 0) return false;
    spend(s, e, KILN_VTA_IDLE, cycle - g->free);
    g->waiting--;
    wake(&s->fetch_next, cycle);
    return true;
}

static void act_take(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    if (!take(s, e, cycle)) return;
    g->taken = cycle;
    g->links = 1;
    g->phase = PHASE_TOKENS;
    g->next = cycle;
}

static void act_tokens(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    const kiln_vta_step *step = step_of(s, e);
    if (g->waits) spend(s, e, g->wait, cycle - g->wait_from);
    g->waits = false;
    for (uint32_t side = 0; side < 2; side++) {
        const tokens *t = &s->tokens[e][side];
        if (!step->pop[side] || token_is_there(t, cycle)) continue;
        g->waits = true;
        g->wait = side == KILN_VTA_BEFORE ? KILN_VTA_WAIT_BEFORE : KILN_VTA_WAIT_BEHIND;
        g->wait_from = cycle;
        g->next = t->count ? t->given[t->begin] + 1 : NEVER; /* its neighbour wakes it */
        return;
    }
    for (uint32_t side = 0; side < 2; side++)
        if (step->pop[side]) pop(s, e, side, cycle);
    run_begin(s, e, cycle);
}

/* Takes a further instruction of a chain; with the last one it runs. */
static void act_chain(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    const kiln_vta_step *step = step_of(s, e);
    if (!take(s, e, cycle)) return;
    spend(s, e, KILN_VTA_BUSY_TAKE, 1);
    g->next = g->free = cycle + 1;
    if (++g->links < step->count) {
        vacate(s, g, cycle + 1);
        return;
    }
    g->phase = PHASE_GIVE;
    run_alu(s, e, step, cycle - 1);
    g->next = g->ran;
}

/* Whether everything except compute's FINISH is done. */
static bool is_alone(const simulation *s) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        if (s->queues.count[e] - s->engine[e].done > (e == KILN_VTA_ENGINE_COMPUTE)) return false;
    return true;
}

/* Applies the instruction's effect, once it has run. */
static bool execute(simulation *s, const kiln_vta_step *step) {
    kiln_vta_instruction placed[KILN_VTA_CHAIN_MAX];
    for (uint32_t i = 0; i < step->count; i++) {
        placed[i] = kiln_vta_program_placed(s->program, &s->sizes, s->place, step->first + i);
        kiln_vta_counts_add(&s->timing.counts, &s->sizes, &placed[i]);
    }
    if (placed[0].opcode == KILN_VTA_FINISH && !is_alone(s))
        return kiln_vta_fault_set(s->out_fault, KILN_VTA_FAULT_FINISH_EARLY, step->first,
                                  "nothing makes it wait for all of them");
    return s->options->timing_only ||
           kiln_vta_core_run(&s->core, placed, step->count, step->first, s->out_fault);
}

static bool act_give(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    const kiln_vta_step *step = step_of(s, e);
    if (g->phase == PHASE_MOVE) {
        spend(s, e, KILN_VTA_BUSY_MOVE, s->mover[e].busy);
        spend(s, e, KILN_VTA_WAIT_MEMORY, g->ran - g->started - s->mover[e].busy);
        g->phase = PHASE_GIVE;
    }
    for (uint32_t side = 0; side < 2; side++) {
        if (!step->push[side] || place_is_there(s, tokens_to(s, e, side), cycle)) continue;
        const tokens *t = tokens_to(s, e, side);
        g->next = t->was_popped && t->popped == cycle ? cycle + 1 : NEVER;
        return true;
    }
    spend(s, e, KILN_VTA_WAIT_PLACE, cycle - g->ran);
    if (!execute(s, step)) return false;
    for (uint32_t side = 0; side < 2; side++)
        if (step->push[side]) push(s, e, side, cycle);
    for (uint32_t i = 0; s->options->spans && i < step->count; i++)
        s->timing.span[step->first + i] =
            (kiln_vta_span){step->first + i, e, g->taken, g->started, cycle};
    if (s->program->instruction[step->first].opcode == KILN_VTA_FINISH) {
        s->is_finished = true;
        s->timing.cycles = cycle + 1;
    }
    g->done++;
    g->phase = PHASE_TAKE;
    g->next = g->free = cycle + 1;
    vacate(s, g, cycle + 1);
    return true;
}

static bool engine_act(simulation *s, uint32_t e, uint64_t cycle) {
    engine *g = &s->engine[e];
    if (g->phase == PHASE_TAKE) act_take(s, e, cycle);
    if (g->phase == PHASE_TOKENS && g->next == cycle) act_tokens(s, e, cycle);
    if (g->phase == PHASE_CHAIN && g->next == cycle) act_chain(s, e, cycle);
    if ((g->phase == PHASE_MOVE || g->phase == PHASE_GIVE) && g->next == cycle)
        return act_give(s, e, cycle);
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void start(simulation *s) {
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) s->engine[e].next = NEVER;
    s->mover[KILN_VTA_ENGINE_LOAD].channel = 0;
    s->mover[KILN_VTA_ENGINE_COMPUTE].channel = 1 % s->config->channels;
    s->mover[KILN_VTA_ENGINE_STORE].channel = 2 % s->config->channels;
    s->mover[FETCH] = (mover){.is_active = true, .channel = 3 % s->config->channels};
    s->fetch_next = NEVER;
    for (uint32_t i = 0; i < s->config->channels; i++)
        s->channel[i] = (channel){.next = NEVER, .last = CHANNELS_MAX - 1};
    wake_channel(s, &s->mover[FETCH]);
}

static bool run_all(simulation *s) {
    const uint32_t channels = s->config->channels;
    while (!s->is_finished) {
        uint64_t cycle = s->fetch_next;
        for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) wake(&cycle, s->engine[e].next);
        for (uint32_t i = 0; i < channels; i++) wake(&cycle, s->channel[i].next);
        uint32_t done[KILN_VTA_ENGINE_COUNT];
        for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) done[e] = s->engine[e].done;
        if (cycle == NEVER) return kiln_vta_deadlock(&s->queues, done, s->out_fault);
        for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
            if (s->engine[e].next == cycle && !engine_act(s, e, cycle)) return false;
        if (s->fetch_next == cycle) fetch_act(s, cycle);
        for (uint32_t i = 0; i < channels; i++)
            if (s->channel[i].next == cycle) channel_act(s, i, cycle);
    }
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        spend(s, e, KILN_VTA_IDLE, s->timing.cycles - s->engine[e].free);
        for (uint32_t side = 0; side < 2; side++)
            if (s->tokens[e][side].count)
                return kiln_vta_tokens_left(&s->queues, e, side, s->tokens[e][side].count,
                                            s->out_fault);
    }
    return true;
}

bool kiln_vta_csim_run(const kiln_vta_program *program, uint8_t *dram, uint64_t dram_bytes,
                       const kiln_vta_csim_options *options, kiln_arena *arena,
                       kiln_vta_timing *out_timing, kiln_vta_fault *out_fault) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    uint64_t *place = KILN_ARENA_ARRAY(&scratch, uint64_t, program->buffer_count);
    kiln_vta_program_place(program, place);
    simulation *s = KILN_ARENA_NEW(&scratch, simulation);
    s->program = program;
    s->config = &program->config;
    s->options = options;
    s->sizes = kiln_vta_sizes_of(&program->config);
    s->queues = kiln_vta_queues_of(program, &scratch);
    s->place = place;
    s->beat_bytes = program->config.bus_bits / 8;
    s->out_fault = out_fault;
    if (!options->timing_only)
        kiln_vta_core_init(&s->core, &program->config, dram, dram_bytes, &scratch);
    if (options->spans) {
        s->timing.span_count = program->instruction_count;
        s->timing.span = KILN_ARENA_ARRAY(arena, kiln_vta_span, program->instruction_count);
    }
    start(s);
    const bool ok = run_all(s);
    if (!options->timing_only) s->timing.counts.multiply_adds = s->core.multiply_adds;
    if (ok) *out_timing = s->timing;
    kiln_arena_deinit(&scratch);
    return ok;
}

double kiln_vta_utilisation(const kiln_vta_config *config, const kiln_vta_timing *timing) {
    const double a_cycle = (double)config->batch * config->block_in * config->block_out;
    return (double)timing->counts.multiply_adds / (a_cycle * (double)timing->cycles);
}

void kiln_vta_trace_print(const kiln_vta_program *program, const kiln_vta_timing *timing,
                          kiln_strbuf *out) {
    const double us = 1.0 / program->config.clock_mhz; /* of a cycle */
    kiln_strbuf_text(out, "{\"traceEvents\":[");
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++)
        kiln_strbuf_printf(out,
                           "%s\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%u,"
                           "\"args\":{\"name\":\"%s\"}}",
                           e ? "," : "", e + 1, kiln_vta_engine_name((kiln_vta_engine)e));
    for (uint32_t i = 0; i < timing->span_count; i++) {
        const kiln_vta_span *span = &timing->span[i];
        const kiln_vta_instruction *in = &program->instruction[i];
        const uint32_t buffer = program->instruction_buffer[i];
        kiln_strbuf_printf(
            out,
            ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%.9g,\"dur\":%.9g,"
            "\"args\":{\"instruction\":%u,\"waited_cycles\":%llu,\"text\":\"",
            kiln_vta_opcode_name(in->opcode), span->engine + 1, (double)span->started * us,
            (double)(span->ended - span->started + 1) * us, i,
            (unsigned long long)(span->started - span->taken));
        kiln_vta_instruction_print(in, buffer ? program->buffer[buffer].name : (kiln_str){0}, out);
        kiln_strbuf_text(out, "\"}}");
    }
    kiln_strbuf_text(out, "\n]}\n");
}
