#include "deploy/pack/choose.h"

#include <string.h>

#include "base/vec.h"

/* Bytes per second that a conversion moves, read and write together: a cautious share of the 14.7 GB/s that one
 * core of a 2-core AVX-512 virtual machine read from memory. Only ranks alternatives. */
#define CONVERSION_BYTES_PER_S 5e9
#define OPTIONS_MAX 64u /* records per task that are looked at: the fastest of each pair of layouts */
#define ROUNDS_MAX 4u   /* of improvement over all tasks */

typedef struct option_list {
    KILN_VEC(kiln_choice) option;
} option_list;

void kiln_choice_layouts(const kiln_graph *graph, const kiln_plan *plan, const kiln_choice *choice, kiln_layout *out_layout) {
    memset(out_layout, 0, graph->value.count * sizeof *out_layout);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_step *step = &plan->step[s];
        if (step->kind != KILN_STEP_KERNEL) continue;
        const kiln_program *te = plan->tasks.task[step->task].te;
        kiln_buffer args[KILN_PROGRAM_BUFFERS_MAX];
        uint32_t count = kiln_program_args(te, args);
        for (uint32_t i = 0; i < count && i < step->arg_count; i++)
            if (te->buffer.data[args[i]].role == KILN_ROLE_OUTPUT) out_layout[step->arg[i]] = choice[step->task].layout[i];
    }
}

static double value_bytes(const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    return (double)kiln_shape_count(&info->shape) * (double)kiln_dtype_size(info->dtype);
}

static double conversion_ns(const kiln_graph *graph, kiln_value value, const kiln_layout *from, const kiln_layout *to) {
    if (kiln_layout_equal(from, to)) return 0;
    return 2 * value_bytes(graph, value) / CONVERSION_BYTES_PER_S * 1e9;
}

/* Time of one inference under the choices. A conversion that two consumers share is counted twice; pack makes it
 * once. `layout` is room for [value count]. */
static double inference_ns(const kiln_graph *graph, const kiln_plan *plan, const kiln_choice *choice, kiln_layout *layout) {
    static const kiln_layout row;
    double total = 0;
    kiln_choice_layouts(graph, plan, choice, layout);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_step *step = &plan->step[s];
        if (step->kind != KILN_STEP_KERNEL) {
            total += conversion_ns(graph, step->arg[0], &layout[step->arg[0]], &row);
            continue;
        }
        const kiln_choice *c = &choice[step->task];
        const kiln_program *te = plan->tasks.task[step->task].te;
        kiln_buffer args[KILN_PROGRAM_BUFFERS_MAX];
        uint32_t count = kiln_program_args(te, args);
        total += c->median_ns;
        for (uint32_t i = 0; i < count && i < step->arg_count; i++)
            if (te->buffer.data[args[i]].role == KILN_ROLE_INPUT)
                total += conversion_ns(graph, step->arg[i], &layout[step->arg[i]], &c->layout[i]);
    }
    for (uint32_t i = 0; i < graph->output.count; i++)
        total += conversion_ns(graph, graph->output.data[i], &layout[graph->output.data[i]], &row);
    return total;
}

/* The layouts of one role from a record's text ("row;d0,d1/8,d2,d3,d1%8"), into their places. */
static kiln_status parse_layouts(kiln_str text, const kiln_program *te, kiln_role role, kiln_layout *layout) {
    kiln_buffer args[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t count = kiln_program_args(te, args);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count; i++) {
        const kiln_buffer_info *buffer = &te->buffer.data[args[i]];
        if (buffer->role == role) st = kiln_layout_parse(kiln_str_cut(&text, ';'), buffer->shape.rank, &layout[i]);
    }
    return st;
}

static bool has_layouts(const option_list *list, const kiln_choice *choice, uint32_t arg_count) {
    for (uint32_t i = 0; i < list->option.count; i++) {
        uint32_t same = 0;
        while (same < arg_count && kiln_layout_equal(&list->option.data[i].layout[same], &choice->layout[same])) same++;
        if (same == arg_count) return true;
    }
    return false;
}

/* The fastest record of each combination of layouts, fastest first. */
static kiln_status find_records(const kiln_task *task, const kiln_pack_options *options, kiln_str target, kiln_arena *arena,
                                option_list *out) {
    kiln_buffer args[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t arg_count = kiln_program_args(task->te, args), count = 0;
    kiln_db_record *record = NULL;
    kiln_db_filter filter = {.task_key = task->key, .target = target, .order = KILN_DB_FASTEST,
                             .codegen_version = kiln_str_from(kiln_codegen_version())};
    kiln_status st = kiln_db_records(options->db, &filter, arena, &record, &count);
    for (uint32_t i = 0; !st && i < count && out->option.count < OPTIONS_MAX; i++) {
        kiln_choice choice = {.trace = record[i].trace, .median_ns = record[i].median_ns,
                              .is_default = kiln_str_is(record[i].searcher, "default"),
                              .layout = KILN_ARENA_ARRAY(arena, kiln_layout, arg_count)};
        st = parse_layouts(record[i].layout_in, task->te, KILN_ROLE_INPUT, choice.layout);
        if (!st) st = parse_layouts(record[i].layout_out, task->te, KILN_ROLE_OUTPUT, choice.layout);
        if (!st && !has_layouts(out, &choice, arg_count)) kiln_vec_push_in(arena, &out->option, choice);
    }
    return st;
}

/* The default schedule, with its layouts. */
static kiln_status make_default(const kiln_task *task, const kiln_pack_options *options, kiln_arena *arena, option_list *out) {
    kiln_space space;
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_status st = kiln_space_create(task->te, options->target, arena, &space);
    if (!st) st = kiln_space_default(&space, arena, &trace, &program);
    if (st) return st;
    kiln_strbuf bytes = {0};
    kiln_trace_encode(&trace, &bytes);
    kiln_buffer args[KILN_PROGRAM_BUFFERS_MAX], scheduled[KILN_PROGRAM_BUFFERS_MAX];
    uint32_t count = kiln_program_args(task->te, args);
    kiln_program_args(program, scheduled);
    kiln_choice choice = {.trace = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size}, .is_default = true,
                          .layout = KILN_ARENA_ARRAY(arena, kiln_layout, count)};
    for (uint32_t i = 0; i < count; i++)
        if (task->te->buffer.data[args[i]].role != KILN_ROLE_CONSTANT)
            choice.layout[i] = program->buffer.data[scheduled[i]].layout;
    kiln_strbuf_deinit(&bytes);
    kiln_vec_push_in(arena, &out->option, choice);
    return KILN_OK;
}

static void improve(const kiln_graph *graph, const kiln_plan *plan, const option_list *list, kiln_arena *arena,
                    kiln_choice *choice) {
    kiln_layout *layout = KILN_ARENA_ARRAY(arena, kiln_layout, graph->value.count);
    double best_ns = inference_ns(graph, plan, choice, layout);
    bool better = true;
    for (uint32_t round = 0; better && round < ROUNDS_MAX; round++) {
        better = false;
        for (uint32_t t = 0; t < plan->tasks.count; t++) {
            for (uint32_t i = 0; i < list[t].option.count; i++) {
                kiln_choice before = choice[t];
                choice[t] = list[t].option.data[i];
                double now_ns = inference_ns(graph, plan, choice, layout);
                if (now_ns < best_ns) best_ns = now_ns, better = true;
                else choice[t] = before;
            }
        }
    }
}

kiln_status kiln_choose(const kiln_graph *graph, const kiln_plan *plan, const kiln_pack_options *options, kiln_arena *arena,
                        kiln_choice *out_choice) {
    option_list *list = KILN_ARENA_ARRAY(arena, option_list, plan->tasks.count);
    kiln_strbuf target = {0};
    kiln_target_print(options->target, &target);
    kiln_status st = KILN_OK;
    for (uint32_t t = 0; !st && t < plan->tasks.count; t++) {
        const kiln_task *task = &plan->tasks.task[t];
        if (options->db) st = find_records(task, options, kiln_strbuf_view(&target), arena, &list[t]);
        if (!st && list[t].option.count == 0) st = make_default(task, options, arena, &list[t]);
        if (!st) out_choice[t] = list[t].option.data[0];
        st = kiln_status_note(st, "choosing a schedule for %.*s", KILN_STR_ARG(task->op));
    }
    if (!st && options->db) improve(graph, plan, list, arena, out_choice);
    kiln_strbuf_deinit(&target);
    return st;
}
