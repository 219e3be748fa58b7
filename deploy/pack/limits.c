#include "deploy/pack/limits.h"

#include <string.h>

#include "deploy/format.h"

static kiln_status too_many(const char *what, uint64_t count, uint64_t most) {
    return KILN_ERROR(RESOURCE_EXHAUSTED, "the model needs %llu %s; a module has at most %llu",
                      (unsigned long long)count, what, (unsigned long long)most);
}

static kiln_status check_name(const char *of, kiln_str name) {
    if (name.size > KILN_MODULE_NAME_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "the name of %s has %zu bytes; in a module it has at most %u", of,
                          name.size, KILN_MODULE_NAME_MAX);
    if (name.size && memchr(name.data, 0, name.size))
        return KILN_ERROR(INVALID_ARGUMENT, "the name of %s has a NUL in it", of);
    return KILN_OK;
}

static kiln_status check_names(const kiln_compilation *c) {
    const kiln_value_info *value = c->graph->value.data;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < c->graph->input.count; i++)
        st = check_name("an input", value[c->graph->input.data[i]].name);
    for (uint32_t i = 0; !st && i < c->graph->output.count; i++)
        st = check_name("an output", value[c->graph->output.data[i]].name);
    for (uint32_t s = 0; !st && s < c->plan.step_count; s++) {
        st = check_name("a node", c->plan.step[s].name);
        if (!st) st = check_name("a kernel", c->plan.step[s].op);
    }
    return st;
}

/* A kernel is a pair of task and way; conversions are kernels, too, and run once per use. */
static kiln_status check_counts(const kiln_compilation *c, kiln_arena *scratch) {
    const kiln_graph *g = c->graph;
    uint64_t kernels = 0, conversions = 0, steps = c->plan.step_count;
    bool **seen = KILN_ARENA_ARRAY(scratch, bool *, c->plan.tasks.count);
    for (uint32_t t = 0; t < c->plan.tasks.count; t++)
        seen[t] = KILN_ARENA_ARRAY(scratch, bool, c->list[t].way.count);
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        if (step->kind != KILN_STEP_KERNEL || c->windows.step[s]) continue;
        bool *known = &seen[step->task][c->way[s] - c->list[step->task].way.data];
        kernels += !*known;
        *known = true;
    }
    for (uint32_t i = 0; i < c->searched.count; i++) {
        if (!kiln_str_is(c->searched.task[i].op, "convert")) continue;
        kernels++;
        conversions += (uint64_t)c->searched.task[i].weight;
    }
    steps += conversions + g->output.count; /* outputs may need a copy */
    const struct {
        const char *what;
        uint64_t count, most;
    } limit[] = {{"inputs", g->input.count, KILN_MODULE_PORTS_MAX},
                 {"outputs", g->output.count, KILN_MODULE_PORTS_MAX},
                 {"kernels", kernels, KILN_MODULE_KERNELS_MAX},
                 {"steps", steps, KILN_MODULE_STEPS_MAX},
                 {"buffers", g->value.count + conversions, KILN_MODULE_BUFFERS_MAX}};
    for (size_t i = 0; i < sizeof limit / sizeof limit[0]; i++)
        if (limit[i].count > limit[i].most)
            return too_many(limit[i].what, limit[i].count, limit[i].most);
    return KILN_OK;
}

kiln_status kiln_limits_check(const kiln_compilation *c) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = check_counts(c, &scratch);
    if (!st) st = check_names(c);
    kiln_arena_deinit(&scratch);
    return st;
}
