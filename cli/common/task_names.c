#include "cli/common/task_names.h"

static void append_extents(const kiln_block_info *block, bool reduce, kiln_strbuf *out) {
    uint32_t shown = 0;
    for (uint32_t i = 0; i < block->iter_count; i++)
        if (block->iter[i].reduce == reduce && block->iter[i].extent > 1)
            kiln_strbuf_printf(out, "%s%lld",
                               shown++  ? "x"
                               : reduce ? " over "
                                        : " ",
                               (long long)block->iter[i].extent);
}

static double points_of(const kiln_block_info *block) {
    double points = 1;
    for (uint32_t i = 0; i < block->iter_count; i++) points *= (double)block->iter[i].extent;
    return points;
}

const char *kiln_task_label(const kiln_task *task, kiln_arena *arena) {
    const kiln_block_info *largest = NULL;
    for (uint32_t i = 1; i < task->te->block.count; i++) {
        const kiln_block_info *block = &task->te->block.data[i];
        if (!block->removed && (!largest || points_of(block) > points_of(largest))) largest = block;
    }
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, task->op);
    if (largest) append_extents(largest, false, &text);
    if (largest) append_extents(largest, true, &text);
    const char *label = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return label;
}

bool kiln_task_is(const kiln_task *task, uint32_t number, const char *wanted) {
    uint64_t value = 0;
    if (!wanted) return true;
    if (kiln_str_to_u64(kiln_str_from(wanted), &value)) return value == number;
    return kiln_str_starts(task->key, wanted);
}

kiln_status kiln_no_such_task(const kiln_tasks *tasks, const char *wanted) {
    if (tasks->count == 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "task %s: the model has no tasks for this target (see --stage plan)",
                          wanted ? wanted : "");
    return KILN_ERROR(INVALID_ARGUMENT, "task %s: the model has tasks 0 to %u (see --stage tasks)",
                      wanted ? wanted : "", tasks->count - 1);
}
