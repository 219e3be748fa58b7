#include "compiler-core/codegen/vta_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { ENGINES = KILN_VTA_ENGINE_COUNT };

/* For each engine, the number of a call before which all its calls are done. */
typedef struct clock {
    uint32_t over[ENGINES];
} clock;

/* The last call of each engine that wrote or read it, plus 1; 0: none. */
typedef struct usage {
    uint32_t written[ENGINES], read[ENGINES];
} usage;

/* The place of a step at its call, in this order. */
typedef enum place {
    RELAY_OF_OTHERS, /* engines that the call's own engine waits for */
    WAITS,
    RELAY, /* the call's engine passes tokens on before its own work */
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
    usage *buffer;                      /* [1 + buffers, made ones too] of main memory */
    clock known[ENGINES];               /* calls that each engine knows to be done */
    clock *behind;                      /* [calls] what its engine knows after it */
    uint32_t waited[ENGINES][ENGINES];  /* [engine][on] the last call in front of which it waits */
    KILN_VEC(placed) placed;
    uint32_t now; /* the call in hand */
    kiln_vta_engine engine;
    clock wanted; /* calls that it needs to be done */
} ordering;

/* ---- needs of a call ----------------------------------------------------------------------- */

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

/* The first call of the engine after which it knows that `call` of `of` is done; the current call:
 * there is none. */
static uint32_t first_that_knows(const ordering *o, kiln_vta_engine engine, kiln_vta_engine of,
                                 uint32_t call) {
    uint32_t c = first_call(o, engine, call, o->now);
    while (c < o->now && o->behind[c].over[of] <= call) c = first_call(o, engine, c + 1, o->now);
    return c;
}

/* Makes `engine` wait, at a place before call `at`, until `call` of `of` is done. Returns what it
 * learns. */
static clock wait_for(ordering *o, kiln_vta_engine engine, uint32_t at, place where,
                      kiln_vta_engine of, uint32_t call) {
    const kiln_vta_engine near = towards(o, engine, of);
    const uint32_t signal = near == of ? call : first_that_knows(o, near, of, call);
    if (signal < at) {
        if (o->known[engine].over[near] <= signal) { /* else an earlier token implies it */
            put_signal(o, signal, SIGNALS, near, engine);
            put_wait(o, at, where, engine, near);
        }
        return o->behind[signal];
    }
    /* `near` passes it on, before its first possible call: tokens keep their order */
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

/* Whether another call that it waits for implies this one. */
static bool is_said_by_another(const ordering *o, uint32_t engine) {
    bool said = false;
    for (uint32_t e = 0; e < ENGINES; e++) {
        const uint32_t call = e == engine ? 0 : o->wanted.over[e];
        said |= call > o->known[o->engine].over[e] &&
                o->behind[call - 1].over[engine] >= o->wanted.over[engine];
    }
    return said;
}

/* Distant engines first: a token that is passed on orders more. */
static void wait_for_all(ordering *o) {
    clock *known = &o->known[o->engine];
    for (uint32_t distance = ENGINES; distance-- > 1;)
        for (uint32_t e = 0; e < ENGINES; e++) {
            const uint32_t apart = e > o->engine ? e - o->engine : o->engine - e;
            if (apart != distance || o->wanted.over[e] <= known->over[e] ||
                is_said_by_another(o, e))
                continue;
            const clock learnt =
                wait_for(o, o->engine, o->now, WAITS, (kiln_vta_engine)e, o->wanted.over[e] - 1);
            learn(known, &learnt);
        }
}

/* Splits one round of the longest loop off the call, as a short call. */
static bool split_call(const ordering *o, kiln_vta_call *call, kiln_vta_call *out_first) {
    uint32_t longest = 0;
    kiln_vta_nest *nest = &call->nest;
    if (call->kind != KILN_VTA_CALL_ALU ||
        kiln_vta_call_reads_results(call, &o->calls->sizes, o->arena))
        return false;
    for (uint32_t i = 1; i < nest->loop_count; i++)
        if (nest->loop[i].extent > nest->loop[longest].extent) longest = i;
    kiln_vta_loop *loop = &nest->loop[longest];
    if (nest->loop_count == 0 || loop->extent == 1) return false;
    *out_first = *call;
    out_first->nest.loop[longest].extent = 1;
    nest->base.dst += loop->step.dst;
    nest->base.src += loop->step.src;
    loop->extent--;
    return true;
}

/* A token that an engine passes on is attached to a piece of its next work, which saves an
 * instruction for the token alone. */
static void put_piece(const ordering *o, kiln_vta_calls *calls, const placed *at,
                      kiln_vta_steps *steps) {
    kiln_vta_call first;
    if (at->place != RELAY || at->step.kind != KILN_VTA_STEP_SIGNAL ||
        !split_call(o, &calls->call.data[at->call], &first))
        return;
    const kiln_vta_step step = {KILN_VTA_STEP_CALL, first.engine, first.engine, calls->call.count};
    kiln_vec_push_in(o->arena, &calls->call, first);
    kiln_vec_push_in(o->arena, &steps->step, step);
}

static int compare(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void kiln_vta_order(kiln_vta_calls *calls, kiln_arena *arena, kiln_vta_steps *out_steps) {
    const uint32_t buffers = calls->buffer.count + calls->made.count;
    ordering o = {.calls = calls,
                  .arena = arena,
                  .buffer = KILN_ARENA_ARRAY(arena, usage, 1 + buffers),
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
    for (uint32_t i = 0; i < o.placed.count; i++) {
        put_piece(&o, calls, &o.placed.data[i], out_steps);
        kiln_vec_push_in(arena, &out_steps->step, o.placed.data[i].step);
    }
}
