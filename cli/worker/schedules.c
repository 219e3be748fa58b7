#include "cli/worker/schedules.h"

#include "base/file.h"
#include "tuner/search/points.h"

#define SCHEDULES_BYTES_MAX ((size_t)4 << 20)

kiln_status kiln_schedules_read(const char *path, kiln_arena *arena, kiln_schedules *out) {
    *out = (kiln_schedules){.path = path};
    return path ? kiln_file_read(path, SCHEDULES_BYTES_MAX, arena, &out->text) : KILN_OK;
}

kiln_status kiln_schedules_parse(const kiln_schedules *schedules, kiln_arena *arena,
                                 const kiln_pack_given **out_list, uint32_t *out_count) {
    KILN_VEC(kiln_pack_given) list = {0};
    kiln_str rest = schedules->text;
    while (kiln_str_trim(rest).size) {
        const kiln_str head = kiln_str_trim(kiln_str_cut(&rest, '\n'));
        kiln_str lines = rest;
        if (head.size == 0 || head.data[0] == '#') continue;
        if (!kiln_str_starts(head, "task "))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "--schedule %s: expected \"task KEY\" and the lines of its trace; "
                              "found \"%.*s\"",
                              schedules->path, KILN_STR_ARG(head));
        while (rest.size && !kiln_str_starts(rest, "task ")) kiln_str_cut(&rest, '\n');
        lines.size -= rest.size;
        kiln_pack_given given = {.task_key = kiln_str_trim(kiln_str_slice(head, 5, head.size))};
        kiln_status st = kiln_trace_parse(lines, arena, &given.trace);
        if (st)
            return kiln_status_note(st, "--schedule %s, task %.*s", schedules->path,
                                    KILN_STR_ARG(given.task_key));
        kiln_vec_push_in(arena, &list, given);
    }
    *out_list = list.data;
    *out_count = list.count;
    return KILN_OK;
}

/* As the tuner will look at it (kiln_searcher_begin_with). */
static kiln_status check(const kiln_program *te, const kiln_layout *const *layout,
                         const kiln_target *target, const kiln_accuracy *accuracy, kiln_str trace,
                         kiln_arena *arena) {
    const kiln_space_options space = {.layout = layout, .accuracy = *accuracy};
    kiln_points *points = NULL;
    kiln_point point;
    kiln_status st = kiln_points_of_space(te, target, &space, KILN_MODEL_ANALYTIC, &points);
    if (st) return st;
    st = points->find(points, trace, arena, &point);
    if (kiln_status_code(st) == KILN_NOT_FOUND) {
        kiln_status_free(st); /* it need not be a member of the space */
        st = KILN_OK;
    }
    if (!st) st = points->check(points, &point);
    points->destroy(points);
    return st;
}

static kiln_status check_one(const kiln_pack_given *given, const kiln_compilation *compilation,
                             const kiln_target *target, const kiln_accuracy *accuracy,
                             kiln_arena *arena, kiln_msg_hand_schedule *out) {
    const kiln_tasks *tasks = &compilation->searched;
    kiln_strbuf bytes = {0};
    uint32_t at = 0;
    while (at < tasks->count && !kiln_str_equal(tasks->task[at].key, given->task_key)) at++;
    if (at == tasks->count)
        return KILN_ERROR(NOT_FOUND,
                          "the model has no such task to tune (kiln explain MODEL --stage tasks "
                          "lists them)");
    kiln_trace_encode(&given->trace, &bytes);
    *out = (kiln_msg_hand_schedule){given->task_key, kiln_strbuf_end(&bytes, arena)};
    if (out->trace.size > KILN_MESSAGES_HAND_TRACE)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "it has %zu bytes: at most %u can be tuned from",
                          out->trace.size, KILN_MESSAGES_HAND_TRACE);
    return check(tasks->task[at].te, compilation->agreed[at], target, accuracy, out->trace, arena);
}

kiln_status kiln_schedules_check(const kiln_schedules *schedules,
                                 const kiln_compilation *compilation, const kiln_target *target,
                                 const kiln_accuracy *accuracy, kiln_arena *arena,
                                 kiln_msg_hand_schedules *out) {
    const kiln_pack_given *given = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_schedules_parse(schedules, arena, &given, &count);
    if (!st && count > KILN_MESSAGES_BY_HAND)
        st = KILN_ERROR(RESOURCE_EXHAUSTED,
                        "--schedule %s has %u schedules: at most %u can be "
                        "tuned from",
                        schedules->path, count, KILN_MESSAGES_BY_HAND);
    if (st) return st;
    kiln_msg_hand_schedule *list = KILN_ARENA_ARRAY(arena, kiln_msg_hand_schedule, count);
    for (uint32_t i = 0; !st && i < count; i++)
        st = kiln_status_note(check_one(&given[i], compilation, target, accuracy, arena, &list[i]),
                              "--schedule %s, task %.*s", schedules->path,
                              KILN_STR_ARG(given[i].task_key));
    if (st) return st;
    out->items.item = list;
    out->items.count = count;
    return KILN_OK;
}
