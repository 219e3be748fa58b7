#include "compiler-core/codegen/vta_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { ENGINES = KILN_VTA_ENGINE_COUNT };

/* Of each engine, below which number of a call of the program all its calls are over. */
typedef struct clock {
    uint32_t over[ENGINES];
} clock;

/* The last call of each engine that wrote or read it, plus 1; 0: none. */
typedef struct usage {
    uint32_t written[ENGINES], read[ENGINES];
} usage;

/* Where a step stands at its call, in this order. */
typedef enum place {
    RELAY_OF_OTHERS, /* engines that the call's own engine waits for */
    WAITS,
    RELAY, /* the call's own engine passes on what it waits for before it has work of its own */
    CALL,
    SIGNALS,
} place;

typedef struct placed {
    uint32_t call;
    place place;
    uint32_t number; /* of the step, as made */
    kiln_vta_step step;
} placed;

typedef struct ordering {
    const kiln_vta_calls *calls;
    kiln_arena *arena;
    usage *tile[KILN_VTA_MEMORY_COUNT]; /* [tiles] of INP, WGT, ACC */
    usage *buffer;                      /* [buffers + 1] of main memory */
    clock known[ENGINES];               /* what each engine knows to be over */
    clock *behind;                      /* [calls] what its engine knows behind it */
    uint32_t waited[ENGINES][ENGINES];  /* [engine][on] the last call in front of which it waits */
    KILN_VEC(placed) placed;
    uint32_t now; /* the call in hand */
    kiln_vta_engine engine;
    clock wanted; /* what it needs to be over */
} ordering;

/* ---- what a call needs ----------------------------------------------------------------------- */

static void want(ordering *o, const uint32_t *call) {
    for (uint32_t e = 0; e < ENGINES; e++)
        if (e != o->engine) o->wanted.over[e] = KILN_MAX(o->wanted.over[e], call[e]);
}

static void use(ordering *o, const usage *u, bool writes) {
    want(o, u->written);
    if (writes) want(o, u->read);
}

static void mark(ordering *o, usage *u, bool writes) {
    (writes ? u->written : u->read)[o->engine] = o->now + 1;
}

static void use_tile(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    ordering *o = context;
    if (tile < o->calls->sizes.tile_count[memory]) use(o, &o->tile[memory][tile], writes);
}

static void mark_tile(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    ordering *o = context;
    if (tile < o->calls->sizes.tile_count[memory]) mark(o, &o->tile[memory][tile], writes);
}

static clock wanted_by(ordering *o, const kiln_vta_call *call) {
    o->wanted = (clock){{0}};
    kiln_vta_call_visit(call, use_tile, o);
    kiln_vta_call_visit(call, mark_tile, o);
    if (call->kind == KILN_VTA_CALL_COPY) {
        const bool writes = call->copy.memory == KILN_VTA_OUT;
        use(o, &o->buffer[call->copy.buffer], writes);
        mark(o, &o->buffer[call->copy.buffer], writes);
    }
    return o->wanted;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void learn(clock *known, const clock *other) {
    for (uint32_t e = 0; e < ENGINES; e++)
        known->over[e] = KILN_MAX(known->over[e], other->over[e]);
}

/* The neighbour of `from` on the way to `to`. */
static kiln_vta_engine towards(const ordering *o, kiln_vta_engine from, kiln_vta_engine to) {
    kiln_vta_engine next;
    const bool found = from < to ? kiln_vta_engine_behind(&o->calls->config, from, &next)
                                 : kiln_vta_engine_before(&o->calls->config, from, &next);
    KILN_CHECK(found);
    return next;
}

static void put(ordering *o, uint32_t call, place at, kiln_vta_step step) {
    const placed p = {call, at, o->placed.count, step};
    kiln_vec_push_in(o->arena, &o->placed, p);
}

static void put_wait(ordering *o, uint32_t call, place at, kiln_vta_engine engine,
                     kiln_vta_engine on) {
    o->waited[engine][on] = call;
    put(o, call, at, (kiln_vta_step){KILN_VTA_STEP_WAIT, engine, on, 0});
}

static void put_signal(ordering *o, uint32_t call, place at, kiln_vta_engine engine,
                       kiln_vta_engine to) {
    put(o, call, at, (kiln_vta_step){KILN_VTA_STEP_SIGNAL, engine, to, 0});
}

/* The first call of the engine from `from` on, below `end`; else `end`. */
static uint32_t first_call(const ordering *o, kiln_vta_engine engine, uint32_t from, uint32_t end) {
    while (from < end && o->calls->call.data[from].engine != engine) from++;
    return from;
}

/* The first call of the engine behind which it knows that `call` of `of` is over; the call in hand:
 * there is none. */
static uint32_t first_that_knows(const ordering *o, kiln_vta_engine engine, kiln_vta_engine of,
                                 uint32_t call) {
    uint32_t c = first_call(o, engine, call, o->now);
    while (c < o->now && o->behind[c].over[of] <= call) c = first_call(o, engine, c + 1, o->now);
    return c;
}

/* `engine` waits, at a place in front of call `at`, until `call` of `of` is over. Returns what it
 * learns. */
static clock wait_for(ordering *o, kiln_vta_engine engine, uint32_t at, place where,
                      kiln_vta_engine of, uint32_t call) {
    const kiln_vta_engine near = towards(o, engine, of);
    const uint32_t signal = near == of ? call : first_that_knows(o, near, of, call);
    if (signal < at) {
        if (o->known[engine].over[near] <= signal) { /* else a token that it has says so */
            put_signal(o, signal, SIGNALS, near, engine);
            put_wait(o, at, where, engine, near);
        }
        return o->behind[signal];
    }
    /* `near` passes it on, in front of its first call that may: tokens keep their order */
    uint32_t from = KILN_MAX(call + 1, o->waited[near][towards(o, near, of)]);
    from = KILN_MAX(from, o->known[engine].over[near]);
    const uint32_t relay = first_call(o, near, from, at);
    const place relay_place = relay < o->now ? RELAY : RELAY_OF_OTHERS;
    clock learnt = wait_for(o, near, relay, relay_place, of, call);
    for (uint32_t c = first_call(o, near, relay, o->now); c < o->now;
         c = first_call(o, near, c + 1, o->now))
        learn(&o->behind[c], &learnt);
    learn(&o->known[near], &learnt);
    put_signal(o, relay, relay_place, near, engine);
    put_wait(o, at, where, engine, near);
    for (uint32_t c = relay; c-- > 0;)
        if (o->calls->call.data[c].engine == near) {
            learn(&learnt, &o->behind[c]);
            break;
        }
    return learnt;
}

/* What is further away first: that may be known of engines on the way, too. */
static void wait_for_all(ordering *o) {
    for (uint32_t distance = ENGINES; distance-- > 1;)
        for (uint32_t e = 0; e < ENGINES; e++) {
            const uint32_t apart = e > o->engine ? e - o->engine : o->engine - e;
            clock *known = &o->known[o->engine];
            if (apart != distance || o->wanted.over[e] <= known->over[e]) continue;
            const clock learnt =
                wait_for(o, o->engine, o->now, WAITS, (kiln_vta_engine)e, o->wanted.over[e] - 1);
            learn(known, &learnt);
        }
}

static int compare(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void kiln_vta_order(const kiln_vta_calls *calls, kiln_arena *arena, kiln_vta_steps *out_steps) {
    ordering o = {.calls = calls,
                  .arena = arena,
                  .buffer = KILN_ARENA_ARRAY(arena, usage, calls->buffer.count + 1),
                  .behind = KILN_ARENA_ARRAY(arena, clock, calls->call.count)};
    static const kiln_vta_memory memory[] = {KILN_VTA_INP, KILN_VTA_WGT, KILN_VTA_ACC};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(memory); i++)
        o.tile[memory[i]] = KILN_ARENA_ARRAY(arena, usage, calls->sizes.tile_count[memory[i]]);
    for (o.now = 0; o.now < calls->call.count; o.now++) {
        const kiln_vta_call *call = &calls->call.data[o.now];
        o.engine = call->engine;
        o.wanted = wanted_by(&o, call);
        wait_for_all(&o);
        o.known[o.engine].over[o.engine] = o.now + 1;
        o.behind[o.now] = o.known[o.engine];
        put(&o, o.now, CALL, (kiln_vta_step){KILN_VTA_STEP_CALL, o.engine, o.engine, o.now});
    }
    *out_steps = (kiln_vta_steps){0};
    if (o.placed.count) qsort(o.placed.data, o.placed.count, sizeof o.placed.data[0], compare);
    for (uint32_t i = 0; i < o.placed.count; i++)
        kiln_vec_push_in(arena, &out_steps->step, o.placed.data[i].step);
}

/* ---- resets ---------------------------------------------------------------------------------- */

typedef struct settling {
    uint32_t *reset; /* [accumulators] the call that made it 0 last, plus 1; 0: it was used */
    uint32_t now;
    uint32_t first_of_call; /* the reset of its first tile, plus 1 */
    bool differs;           /* tiles have several resets, or one has none */
    uint32_t *used_by;      /* [calls] of a reset: the first call that needs it, plus 1 */
    uint32_t *overwrites;   /* [calls] of a GEMM: the reset in whose place it can be, plus 1 */
} settling;

static void look_at_reset(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    settling *s = context;
    if (memory != KILN_VTA_ACC || !writes) return;
    const uint32_t reset = s->reset[tile];
    if (!s->first_of_call) s->first_of_call = reset;
    s->differs |= !reset || reset != s->first_of_call;
}

static void use_reset(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    settling *s = context;
    const uint32_t reset = memory == KILN_VTA_ACC ? s->reset[tile] : 0;
    (void)writes;
    if (!reset) return;
    s->reset[tile] = 0;
    if (!s->overwrites[s->now] && !s->used_by[reset - 1]) s->used_by[reset - 1] = s->now + 1;
}

static void begin_reset(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    settling *s = context;
    if (memory == KILN_VTA_ACC && writes) s->reset[tile] = s->now + 1;
}

static bool is_reset(const kiln_vta_call *call) {
    return call->kind == KILN_VTA_CALL_GEMM && call->gemm == KILN_VTA_GEMM_RESET;
}

/* Finds who needs what of each reset. */
static void find_uses(const kiln_vta_calls *calls, settling *s) {
    const bool has_first = kiln_vta_config_has(&calls->config, KILN_VTA_FIRST);
    for (s->now = 0; s->now < calls->call.count; s->now++) {
        const kiln_vta_call *call = &calls->call.data[s->now];
        s->first_of_call = 0;
        s->differs = false;
        if (has_first && call->kind == KILN_VTA_CALL_GEMM && !is_reset(call)) {
            kiln_vta_call_visit(call, look_at_reset, s);
            if (!s->differs) s->overwrites[s->now] = s->first_of_call;
        }
        kiln_vta_call_visit(call, is_reset(call) ? begin_reset : use_reset, s);
    }
}

/* A GEMM that cannot overwrite because its reset stays needs it, too. */
static void settle_uses(const kiln_vta_calls *calls, settling *s) {
    for (uint32_t i = 0; i < calls->call.count; i++) {
        uint32_t *reset = &s->overwrites[i];
        if (!*reset || !s->used_by[*reset - 1]) continue;
        s->used_by[*reset - 1] = KILN_MIN(s->used_by[*reset - 1], i + 1);
        *reset = 0;
    }
}

void kiln_vta_place_resets(kiln_vta_calls *calls, kiln_arena *arena) {
    const uint32_t count = calls->call.count;
    settling s = {.reset = KILN_ARENA_ARRAY(arena, uint32_t, calls->sizes.tile_count[KILN_VTA_ACC]),
                  .used_by = KILN_ARENA_ARRAY(arena, uint32_t, count),
                  .overwrites = KILN_ARENA_ARRAY(arena, uint32_t, count)};
    uint32_t *next =
                 KILN_ARENA_ARRAY(arena, uint32_t, count), /* resets in front of one call, + 1 */
        *first = KILN_ARENA_ARRAY(arena, uint32_t, count);
    kiln_vta_calls settled = {.call = {0}};
    find_uses(calls, &s);
    settle_uses(calls, &s);
    for (uint32_t i = count; i-- > 0;)
        if (s.used_by[i]) {
            next[i] = first[s.used_by[i] - 1];
            first[s.used_by[i] - 1] = i + 1;
        }
    for (uint32_t i = 0; i < count; i++) {
        kiln_vta_call call = calls->call.data[i];
        if (is_reset(&call)) continue;
        if (s.overwrites[i]) call.gemm = KILN_VTA_GEMM_OVERWRITE;
        for (uint32_t r = first[i]; r; r = next[r - 1])
            kiln_vec_push_in(arena, &settled.call, calls->call.data[r - 1]);
        kiln_vec_push_in(arena, &settled.call, call);
    }
    calls->call.data = settled.call.data;
    calls->call.count = settled.call.count;
    calls->call.capacity = settled.call.capacity;
}
