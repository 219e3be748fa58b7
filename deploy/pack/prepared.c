#include "deploy/pack/prepared.h"

#include "base/map.h"

uint32_t *kiln_prepared_find(const kiln_module_plan *plan, const kiln_artefact *kernel,
                             kiln_arena *arena) {
    kiln_map first;
    kiln_strbuf key = {0};
    kiln_map_init(&first);
    uint32_t *packer = KILN_ARENA_ARRAY(arena, uint32_t, plan->step_count + 1);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_plan_step *step = &plan->step[s];
        uint64_t found = s;
        if (step->action != KILN_ACTION_KERNEL) continue;
        kiln_strbuf_reset(&key);
        kiln_strbuf_printf(&key, "%u", step->kernel);
        for (uint32_t i = 0; i < step->arg_count; i++)
            if (kernel[step->kernel].manifest.arg[i].role == KILN_ROLE_CONSTANT)
                kiln_strbuf_printf(&key, " %u", step->arg[i]);
        kiln_str text = kiln_str_copy(arena, kiln_strbuf_view(&key));
        if (!kiln_map_find(&first, text, &found)) kiln_map_put(&first, text, s);
        packer[s] = (uint32_t)found;
    }
    kiln_strbuf_deinit(&key);
    kiln_map_deinit(&first);
    return packer;
}
