#include "compiler-core/codegen/vta_improve.h"

#include <string.h>

/* ---- operations ------------------------------------------------------------------------------ */

/* The loops over results alone, with mergeable ones joined. */
static kiln_vta_nest results_of(const kiln_vta_nest *nest) {
    kiln_vta_nest joined = {.base.dst = nest->base.dst};
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        const uint32_t extent = nest->loop[i].extent, step = nest->loop[i].step.dst;
        kiln_vta_loop *last = joined.loop_count ? &joined.loop[joined.loop_count - 1] : NULL;
        if (last && last->step.dst == step * extent)
            *last = (kiln_vta_loop){last->extent * extent, {.dst = step}};
        else
            joined.loop[joined.loop_count++] = (kiln_vta_loop){extent, {.dst = step}};
    }
    return joined;
}

static bool has_same_results(const kiln_vta_nest *a, const kiln_vta_nest *b) {
    const kiln_vta_nest of_a = results_of(a), of_b = results_of(b);
    return memcmp(&of_a, &of_b, sizeof of_a) == 0;
}

static bool joins(const kiln_vta_calls *calls, const kiln_vta_call *call, const kiln_vta_call *next,
                  kiln_arena *arena) {
    return call->kind == KILN_VTA_CALL_ALU && next->kind == KILN_VTA_CALL_ALU &&
           !kiln_vta_call_has_sources(next) && has_same_results(&call->nest, &next->nest) &&
           !kiln_vta_call_reads_results(call, &calls->sizes, arena);
}

void kiln_vta_join_operations(kiln_vta_calls *calls, kiln_arena *arena) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < calls->call.count; i++) {
        const kiln_vta_call *next = &calls->call.data[i];
        kiln_vta_call *call = kept ? &calls->call.data[kept - 1] : NULL;
        if (!call || !joins(calls, call, next, arena)) {
            calls->call.data[kept++] = *next;
            continue;
        }
        const uint32_t count = call->operation_count + next->operation_count;
        kiln_vta_operation *all = KILN_ARENA_ARRAY(arena, kiln_vta_operation, count);
        memcpy(all, call->operation, call->operation_count * sizeof *all);
        memcpy(all + call->operation_count, next->operation, next->operation_count * sizeof *all);
        call->operation = all;
        call->operation_count = count;
    }
    calls->call.count = kept;
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

/* Finds the calls that need each reset. */
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

/* A GEMM that cannot overwrite because its reset is kept needs the reset, too. */
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
