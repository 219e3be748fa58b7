#include "deploy/runtime/port_link.h"

#include <stdbool.h>

typedef struct roots {
    const kiln_module_plan *plan;
    uint32_t *writers;  /* [buffer_count] steps that write bytes of the root */
    bool *is_divided;   /* [buffer_count] an alias begins inside of it, or moves */
    bool *is_taken;     /* [buffer_count] linked to a port */
    bool *is_of_a_loop; /* [step_count] the step is in a body */
} roots;

static uint32_t root_of(const kiln_module_plan *plan, uint32_t buffer) {
    return kiln_module_plan_root(plan, buffer);
}

static roots look_at_roots(const kiln_module_plan *plan, kiln_arena *arena) {
    roots r = {.plan = plan,
               .writers = KILN_ARENA_ARRAY(arena, uint32_t, plan->buffer_count),
               .is_divided = KILN_ARENA_ARRAY(arena, bool, plan->buffer_count),
               .is_taken = KILN_ARENA_ARRAY(arena, bool, plan->buffer_count),
               .is_of_a_loop = KILN_ARENA_ARRAY(arena, bool, plan->step_count)};
    for (uint32_t i = 0; i < plan->buffer_count; i++)
        if (kiln_module_plan_offset(plan, i) != 0 || plan->buffer[i].stride != 0)
            r.is_divided[root_of(plan, i)] = true;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (step->action == KILN_ACTION_LOOP)
            for (uint32_t k = i + 1; k <= i + step->body_count; k++) r.is_of_a_loop[k] = true;
        if (step->action == KILN_ACTION_ALIAS) continue;
        for (uint32_t k = step->arg_count - step->output_count; k < step->arg_count; k++)
            r.writers[root_of(plan, step->arg[k])]++;
    }
    return r;
}

static bool uses(const kiln_module_plan *plan, const kiln_plan_step *step, uint32_t root) {
    if (step->action == KILN_ACTION_LOOP) {
        const uint32_t of_loop[] = {step->count, step->condition, step->index};
        for (uint32_t i = 0; i < 3; i++)
            if (of_loop[i] != KILN_PLAN_NONE && root_of(plan, of_loop[i]) == root) return true;
        return false;
    }
    for (uint32_t i = 0; step->action != KILN_ACTION_ALIAS && i < step->arg_count; i++)
        if (root_of(plan, step->arg[i]) == root) return true;
    return false;
}

/* The only device that copies from `root` or to it; 0: it is unused, or has other users. */
static uint32_t find_device(const kiln_module_plan *plan, uint32_t root) {
    uint32_t device = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (!uses(plan, step, root)) continue;
        if (step->action != KILN_ACTION_COPY || step->device == 0 ||
            (device != 0 && device != step->device))
            return 0;
        device = step->device;
    }
    return device;
}

/* Whether the buffer covers all of its root. */
static bool is_whole(const kiln_module_plan *plan, uint32_t buffer) {
    const uint32_t root = root_of(plan, buffer);
    return plan->buffer[buffer].stride == 0 && kiln_module_plan_offset(plan, buffer) == 0 &&
           plan->buffer[buffer].size_bytes == plan->buffer[root].size_bytes;
}

static bool can_stand_in(const roots *r, uint32_t root, uint32_t device) {
    const kiln_plan_buffer *b = &r->plan->buffer[root];
    return b->storage == KILN_STORAGE_ARENA && b->device == device && r->writers[root] == 1 &&
           !r->is_divided[root] && !r->is_taken[root];
}

/* `mine`: the index of the port in a copy's arguments. */
static kiln_port_link link_port(roots *r, uint32_t port, uint32_t mine) {
    const kiln_module_plan *plan = r->plan;
    kiln_port_link link = {
        .device = find_device(plan, port), .stand_in = KILN_PLAN_NONE, .copy = KILN_PLAN_NONE};
    for (uint32_t i = 0; link.device > 0 && i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (!uses(plan, step, port) || r->is_of_a_loop[i] || !is_whole(plan, step->arg[0]) ||
            !is_whole(plan, step->arg[1]))
            continue;
        const uint32_t root = root_of(plan, step->arg[1 - mine]);
        if (!can_stand_in(r, root, link.device)) continue;
        r->is_taken[root] = true;
        link.stand_in = root;
        link.copy = i;
        break;
    }
    return link;
}

void kiln_port_links_find(const kiln_module_plan *plan, kiln_arena *arena,
                          kiln_port_link **out_input, kiln_port_link **out_output) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    roots r = look_at_roots(plan, &scratch);
    *out_input = KILN_ARENA_ARRAY(arena, kiln_port_link, plan->input_count);
    *out_output = KILN_ARENA_ARRAY(arena, kiln_port_link, plan->output_count);
    for (uint32_t i = 0; i < plan->input_count; i++)
        (*out_input)[i] = link_port(&r, plan->input[i].buffer, 0);
    for (uint32_t i = 0; i < plan->output_count; i++)
        (*out_output)[i] = link_port(&r, plan->output[i].buffer, 1);
    kiln_arena_deinit(&scratch);
}
