#include "cli/common/records.h"
#include "cli/common/task_names.h"
#include "cli/plot.h"

static void add_record(kiln_plot_task *task, const kiln_db_record *r, double peak_flops,
                       kiln_arena *arena) {
    bool ok = kiln_str_is(r->outcome, "ok") && r->checked;
    task->search_ns += r->search_ns;
    task->build_ns += r->build_ns;
    task->board_ns += r->board_ns;
    task->train_ns += r->train_ns;
    task->peak_flops = KILN_MAX(task->peak_flops, peak_flops);
    if (r->final) return;
    task->trial[task->trial_count++] = (kiln_plot_trial){ok ? r->median_ns : 0};
    task->failed_count += !ok;
    task->raced_count += r->raced != 0;
    kiln_curve_add(&task->curve, arena, task->trial_count, ok && !r->raced ? r->median_ns : 0);
}

/* The label, the bytes and the operations come from the task's text; of one that this version
 * cannot read, the operations as they were recorded, and NULL. */
static kiln_program *describe(kiln_plot_task *task, kiln_str canonical, kiln_arena *arena) {
    kiln_program *te = NULL;
    task->label = kiln_str_dup(arena, task->op);
    kiln_status st = kiln_program_parse(canonical, arena, &te);
    if (!st) {
        kiln_task with_program = {.op = task->op, .te = te};
        task->label = kiln_task_label(&with_program, arena);
        task->bytes = kiln_program_argument_bytes(te);
        task->flops = kiln_program_flops(te);
    }
    kiln_status_free(st);
    return te;
}

static kiln_status read_task(kiln_db *db, const kiln_db_stat *stat, const kiln_db_allowed *allowed,
                             kiln_arena *arena, kiln_plot_task *out) {
    const kiln_db_filter filter = {
        .task_key = stat->task_key, .target = stat->target, .allowed = *allowed};
    kiln_db_record *record = NULL, *best = NULL;
    kiln_db_task task;
    uint32_t count = 0, best_count = 0;
    bool found = false;
    *out = (kiln_plot_task){.key = stat->task_key, .op = stat->op, .target = stat->target};
    kiln_status st = kiln_db_records(db, &filter, arena, &record, &count);
    if (!st) st = kiln_db_best(db, &filter, arena, &best, &best_count);
    if (!st) st = kiln_db_find_task(db, stat->task_key, arena, &task, &found);
    if (st) return st;
    kiln_target target = {0};
    kiln_status_free(kiln_target_parse(stat->target, arena, &target)); /* of another version */
    if (found) out->flops = task.flops;
    const kiln_program *te = describe(out, found ? task.canonical : KILN_STR(""), arena);
    out->trial = KILN_ARENA_ARRAY(arena, kiln_plot_trial, count);
    for (uint32_t i = 0; i < count; i++)
        add_record(out, &record[i], kiln_roofline_peak_of(&record[i], &target, te), arena);
    const kiln_db_record *base = kiln_record_default(record, count, best_count ? best : NULL);
    if (base) out->default_ns = base->median_ns;
    if (best_count) {
        out->best_ns = best->median_ns;
        out->found_by = best->searcher;
    }
    return KILN_OK;
}

static bool matches(const kiln_db_filter *filter, const kiln_db_stat *stat) {
    return (!filter->task_key.size || kiln_str_equal(filter->task_key, stat->task_key)) &&
           (!filter->target.size || kiln_str_equal(filter->target, stat->target));
}

/* Whether every task is of one device that has a row of its own. */
static bool is_of_one_device(const kiln_plot *plot, const kiln_target *first) {
    bool one = plot->task_count > 0 && first->gpu && !first->gpu->is_cpu;
    for (uint32_t i = 0; one && i < plot->task_count; i++)
        one = kiln_str_equal(plot->task[i].target, plot->task[0].target);
    return one;
}

/* The slope of memory is that of the device's row, or measured here and now, so it is shown when
 * every task is of one device or of this machine. */
static kiln_status measure_machine(kiln_plot *plot, kiln_arena *arena) {
    kiln_target native, target = {0};
    kiln_strbuf reason = {0};
    bool ours = true;
    kiln_status st = kiln_target_native(arena, &native);
    for (uint32_t i = 0; !st && i < plot->task_count; i++) {
        st = kiln_target_parse(plot->task[i].target, arena, &target);
        ours = !st && ours && kiln_target_runs_on(&target, &native, &reason);
    }
    kiln_strbuf_deinit(&reason);
    if (!st && is_of_one_device(plot, &target))
        return kiln_roofline_of(&target, NULL, arena, &plot->machine);
    return !st && ours ? kiln_roofline_measure(arena, &plot->machine) : st;
}

kiln_status kiln_plot_read(kiln_db *db, const kiln_db_filter *filter, kiln_arena *arena,
                           kiln_plot *out) {
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_stats(db, arena, &stat, &count);
    if (st) return st;
    out->task = KILN_ARENA_ARRAY(arena, kiln_plot_task, count);
    out->task_count = 0;
    for (uint32_t i = 0; !st && i < count; i++)
        if (matches(filter, &stat[i]))
            st = read_task(db, &stat[i], &filter->allowed, arena, &out->task[out->task_count++]);
    return st ? st : measure_machine(out, arena);
}
