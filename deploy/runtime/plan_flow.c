#include "deploy/runtime/plan_flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/macros.h"
#include "deploy/runtime/plan_walk.h"

/* A source of a step. */
typedef struct source {
    uint32_t from;
    struct source *next;
} source;

struct kiln_flow_recorder {
    const kiln_module_plan *plan;
    kiln_arena *arena, *scratch;
    kiln_plan_flow flow;
    source **of; /* [step_count] the newest first */
    uint32_t source_count;
    bool *is_named; /* [buffer_count] a step has it among its arguments */
    uint64_t in_use[KILN_MODULE_DEVICES_MAX + 1];
};

/* The results of alias steps: arguments that no step before names and that nobody gives. A constant
 * or input is given by its own buffer. */
static void find_renamed(kiln_flow_recorder *r) {
    const kiln_module_plan *plan = r->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        for (uint32_t k = 0; k < step->arg_count; k++) {
            const uint32_t b = step->arg[k];
            const kiln_module_storage storage = plan->buffer[b].storage;
            const bool given = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_CONSTANT;
            if (step->action == KILN_ACTION_ALIAS && !given && !r->is_named[b])
                r->flow.buffer[b].renamed_by = i;
            r->is_named[b] = true;
        }
    }
}

static void name_elements(kiln_flow_recorder *r) {
    for (uint32_t i = 0; i < r->plan->step_count; i++) {
        const kiln_plan_step *step = &r->plan->step[i];
        if (step->action != KILN_ACTION_LOOP) continue;
        const uint32_t element[] = {step->count, step->condition, step->index};
        for (size_t k = 0; k < KILN_ARRAY_COUNT(element); k++)
            if (element[k] != KILN_PLAN_NONE) r->is_named[element[k]] = true;
    }
}

/* A root is used where one of its parts is. */
static void name_roots(kiln_flow_recorder *r) {
    for (uint32_t i = 0; i < r->plan->buffer_count; i++)
        if (r->is_named[i]) r->is_named[kiln_module_plan_root(r->plan, i)] = true;
}

kiln_flow_recorder *kiln_flow_begin(const kiln_module_plan *plan, kiln_arena *arena,
                                    kiln_arena *scratch) {
    kiln_flow_recorder *r = KILN_ARENA_NEW(scratch, kiln_flow_recorder);
    *r = (kiln_flow_recorder){
        .plan = plan,
        .arena = arena,
        .scratch = scratch,
        .flow = {.step = KILN_ARENA_ARRAY(arena, kiln_plan_step_flow, plan->step_count),
                 .buffer = KILN_ARENA_ARRAY(arena, kiln_plan_buffer_flow, plan->buffer_count)},
        .of = KILN_ARENA_ARRAY(scratch, source *, plan->step_count),
        .is_named = KILN_ARENA_ARRAY(scratch, bool, plan->buffer_count)};
    for (uint32_t i = 0; i < plan->buffer_count; i++)
        r->flow.buffer[i] = (kiln_plan_buffer_flow){KILN_PLAN_NONE, KILN_PLAN_NONE, KILN_PLAN_NONE};
    find_renamed(r);
    name_elements(r);
    name_roots(r);
    return r;
}

bool kiln_flow_reads(kiln_flow_recorder *r, uint32_t buffer, uint32_t index) {
    const uint32_t by = r->flow.buffer[buffer].renamed_by;
    if (by != KILN_PLAN_NONE && by != index) kiln_flow_add(r, by, index);
    return by != KILN_PLAN_NONE;
}

void kiln_flow_add(kiln_flow_recorder *r, uint32_t from, uint32_t to) {
    kiln_plan_step_flow *step = &r->flow.step[to];
    if (step->source_count == KILN_PLAN_NONE) return;
    if (r->source_count == KILN_PLAN_SOURCES_MAX) {
        step->source_count = KILN_PLAN_NONE;
        return;
    }
    source *s = KILN_ARENA_NEW(r->scratch, source);
    *s = (source){from, r->of[to]};
    r->of[to] = s;
    r->source_count++;
    step->source_count++;
}

void kiln_flow_lives(kiln_flow_recorder *r, uint32_t root, uint32_t first, uint32_t last) {
    if (!r->is_named[root]) return;
    r->flow.buffer[root].first = first;
    r->flow.buffer[root].last = last;
}

void kiln_flow_count(kiln_flow_recorder *r, uint32_t root, bool alive) {
    const kiln_plan_buffer *b = &r->plan->buffer[root];
    const uint64_t alignment = kiln_plan_alignment(r->plan, b->device),
                   bytes = KILN_ALIGN_UP(b->size_bytes, alignment);
    r->in_use[b->device] += alive ? bytes : 0 - bytes;
}

void kiln_flow_end_step(kiln_flow_recorder *r, uint32_t index) {
    r->flow.step[index].in_use =
        kiln_arena_copy(r->arena, r->in_use, (r->plan->device_count + 1) * sizeof r->in_use[0]);
}

static int ascending(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Each source once. */
static void settle(kiln_flow_recorder *r, uint32_t index) {
    kiln_plan_step_flow *step = &r->flow.step[index];
    uint32_t count = 0, kept = 0;
    if (step->source_count == KILN_PLAN_NONE || step->source_count == 0) return;
    uint32_t *all = KILN_ARENA_ARRAY(r->arena, uint32_t, step->source_count);
    for (const source *s = r->of[index]; s; s = s->next) all[count++] = s->from;
    qsort(all, count, sizeof *all, ascending);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || all[i] != all[i - 1]) all[kept++] = all[i];
    step->source = all;
    step->source_count = kept;
}

kiln_plan_flow kiln_flow_end(kiln_flow_recorder *r, const uint32_t *loop_of) {
    for (uint32_t i = 0; i < r->plan->step_count; i++) {
        settle(r, i);
        r->flow.step[i].loop = loop_of[i];
    }
    for (uint32_t i = 0; i < r->plan->buffer_count; i++) {
        const uint32_t root = kiln_module_plan_root(r->plan, i);
        r->flow.buffer[i].first = r->flow.buffer[root].first;
        r->flow.buffer[i].last = r->flow.buffer[root].last;
    }
    return r->flow;
}
