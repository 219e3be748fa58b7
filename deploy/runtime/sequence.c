#include "deploy/runtime/sequence.h"

/* Whether the step needs no host and has the same arguments each time. */
static bool is_recordable(const kiln_module_plan *plan, const kiln_plan_step *step) {
    if (step->device == 0 ||
        (step->action != KILN_ACTION_KERNEL && step->action != KILN_ACTION_COPY &&
         step->action != KILN_ACTION_CARRY))
        return false;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[step->arg[i]];
        if (b->device != step->device || b->stride != 0) return false;
    }
    return true;
}

/* Steps behind which a sequence must end: the last of a body, and those with an event. */
static bool *find_ends(const kiln_module_plan *plan, const bool *has_event, kiln_arena *arena) {
    bool *ends = KILN_ARENA_ARRAY(arena, bool, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (has_event[i]) ends[i] = true;
        if (step->action == KILN_ACTION_LOOP) ends[i + step->body_count] = true;
    }
    return ends;
}

/* The end of the sequence that starts at `begin`; `*out_launches` in it. Aliases do nothing and may
 * be anywhere. */
static uint32_t find_end(const kiln_module_plan *plan, const uint32_t *launches, const bool *ends,
                         uint32_t begin, uint32_t *out_launches) {
    uint32_t at = begin;
    *out_launches = 0;
    while (at < plan->step_count) {
        const kiln_plan_step *step = &plan->step[at];
        if (step->action != KILN_ACTION_ALIAS) {
            if (!is_recordable(plan, step) || step->device != plan->step[begin].device) break;
            *out_launches += step->action == KILN_ACTION_KERNEL ? launches[step->kernel] : 1;
        }
        if (ends[at++]) break;
    }
    return at;
}

uint32_t kiln_sequences_find(const kiln_module_plan *plan, const uint32_t *launches,
                             const bool *has_event, kiln_arena *arena,
                             kiln_sequence **out_sequence) {
    const bool *ends = find_ends(plan, has_event, arena);
    kiln_sequence *found = KILN_ARENA_ARRAY(arena, kiln_sequence, plan->step_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count;) {
        uint32_t of_all = 0;
        if (!is_recordable(plan, &plan->step[i])) {
            i++;
            continue;
        }
        const uint32_t end = find_end(plan, launches, ends, i, &of_all);
        if (of_all >= 2) found[count++] = (kiln_sequence){plan->step[i].device, i, end};
        i = end;
    }
    *out_sequence = found;
    return count;
}
