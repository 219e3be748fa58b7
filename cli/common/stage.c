#include "cli/common/stage.h"

#include <string.h>

#include "cli/common/model_work.h"
#include "cli/common/records.h"
#include "cli/common/sass.h"
#include "cli/common/task_names.h"

/* Of PTX, and made of it outside of the process without rights, which starts no program. */
#define SASS "sass"

typedef struct stage_context {
    const kiln_stage_options *options;
    const kiln_model_call *call;
    kiln_arena *arena;
    kiln_strbuf *out;
} stage_context;

typedef kiln_status (*task_printer)(const stage_context *c, const kiln_task *task);

/* The best stored trace of a task, or the default schedule. */
static kiln_status find_trace(const stage_context *c, const kiln_task *task, kiln_trace *out_trace,
                              kiln_program **out_program) {
    kiln_space space;
    const kiln_pack_stored stored = kiln_model_stored(c->call);
    if (stored.find) {
        kiln_strbuf target = {0};
        kiln_target_print(c->options->target, &target);
        kiln_db_filter filter = {.task_key = task->key,
                                 .target = kiln_strbuf_view(&target),
                                 .allowed = kiln_allowed_by(&c->options->accuracy, c->arena),
                                 .order = KILN_DB_FASTEST,
                                 .limit = 1};
        kiln_db_record *record = NULL;
        uint32_t count = 0;
        kiln_status st = stored.find(stored.context, &filter, c->arena, &record, &count);
        kiln_strbuf_deinit(&target);
        if (!st && count) st = kiln_trace_decode(record[0].trace, c->arena, out_trace);
        if (!st && count)
            st = kiln_trace_replay(out_trace, task->te, NULL, c->arena, out_program, NULL);
        if (st || count) return st;
    }
    const kiln_space_options options = {.accuracy = c->options->accuracy};
    kiln_status st =
        kiln_space_create_with(task->te, c->options->target, &options, c->arena, &space);
    if (!st) st = kiln_space_default(&space, c->arena, out_trace, out_program);
    return st;
}

static kiln_status print_space(const stage_context *c, const kiln_task *task) {
    kiln_space space;
    const kiln_space_options options = {.keeps_refused = c->options->refused,
                                        .accuracy = c->options->accuracy};
    kiln_status st =
        kiln_space_create_with(task->te, c->options->target, &options, c->arena, &space);
    if (!st) kiln_space_print(&space, c->out);
    if (!st && c->options->refused) {
        kiln_strbuf_text(c->out, "\nrefused\n");
        kiln_space_print_refused(&space, c->out);
    }
    return st;
}

static kiln_status print_loops(const stage_context *c, const kiln_task *task) {
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_status st = find_trace(c, task, &trace, &program);
    if (st) return st;
    kiln_strbuf_text(c->out, "# trace\n");
    kiln_trace_print(&trace, c->out);
    kiln_strbuf_text(c->out, "\n");
    return kiln_lower_explain(program, c->options->target,
                              kiln_str_from(c->options->after ? c->options->after : ""), c->arena,
                              c->out);
}

/* The code behind types and helpers that all kernels have. */
static kiln_str without_helpers(kiln_str text, kiln_strbuf *out) {
    const char *split = strstr(text.data, kiln_c_text_split);
    if (!split) return text;
    kiln_strbuf_text(out, "/* without types and helper functions; --helpers prints them */\n");
    return kiln_str_slice(text, (size_t)(split - text.data) + strlen(kiln_c_text_split), text.size);
}

static kiln_status print_code(const stage_context *c, const kiln_task *task,
                              const kiln_codegen_options *options) {
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_lowered lowered;
    kiln_str text = {0};
    uint64_t scratch = 0, worker_scratch = 0;
    kiln_status st = find_trace(c, task, &trace, &program);
    if (!st) st = kiln_lower(program, c->options->target, c->arena, &lowered);
    if (!st)
        st = kiln_codegen(&lowered, c->options->target, options, c->arena, &text, &scratch,
                          &worker_scratch);
    if (!st && options->backend && c->options->omits_helpers) text = without_helpers(text, c->out);
    if (!st) kiln_strbuf_str(c->out, text);
    return st;
}

static kiln_status print_llvm(const stage_context *c, const kiln_task *task) {
    return print_code(c, task, &(kiln_codegen_options){.emit = KILN_EMIT_LLVM, .optimise = 2});
}
static kiln_status print_asm(const stage_context *c, const kiln_task *task) {
    return print_code(c, task, &(kiln_codegen_options){.emit = KILN_EMIT_ASM, .optimise = 2});
}
/* Text of the back end with the stage's name. */
static kiln_status print_source(const stage_context *c, const kiln_task *task) {
    return print_code(c, task, &(kiln_codegen_options){.backend = c->options->stage});
}

static kiln_status print_ptx(const stage_context *c, const kiln_task *task) {
    return print_code(c, task, &(kiln_codegen_options){.emit = KILN_EMIT_OBJECT, .optimise = 2});
}

/* backend: of compiler-core/codegen/backends.def, which must make code for the target; NULL: any
 * target has the stage. example: a target that has it. */
static const struct {
    const char *name;
    task_printer print;
    const char *backend, *example;
} task_stages[] = {{"space", print_space, NULL, NULL},
                   {"loops", print_loops, NULL, NULL},
                   {"llvm", print_llvm, NULL, NULL},
                   {"asm", print_asm, NULL, NULL},
                   {"c", print_source, "c", "x86-64"},
                   {"opencl", print_source, "opencl", "opencl"},
                   {"cuda", print_source, "cuda", "cuda:sm_90"},
                   {"ptx", print_ptx, "cuda", "cuda:sm_90"},
                   {SASS, print_ptx, "cuda", "cuda:sm_90"},
                   {"tokens", print_source, "tokens", "pynq-vta"}};

static kiln_status print_tasks(const stage_context *c, const kiln_tasks *tasks,
                               task_printer print) {
    uint32_t printed = 0;
    for (uint32_t i = 0; i < tasks->count; i++) {
        const kiln_task *task = &tasks->task[i];
        if (!kiln_task_is(task, i, c->options->task)) continue;
        kiln_strbuf_printf(c->out, "%s# task %u %.*s %.*s\n", printed++ ? "\n" : "", i,
                           KILN_STR_ARG(task->key), KILN_STR_ARG(task->op));
        const char *step = kiln_arena_printf(c->arena, "task %u %.*s", i, KILN_STR_ARG(task->op));
        kiln_status st = kiln_model_step((void *)(uintptr_t)c->call, step);
        if (!st) st = print(c, task);
        if (st) return kiln_status_note(st, "%s", step);
    }
    return printed || !c->options->task ? KILN_OK : kiln_no_such_task(tasks, c->options->task);
}

/* Kernels of a partial target that its host runs, each once, and why. */
static void print_hosted(const stage_context *c, const kiln_compilation *compilation) {
    const kiln_plan *plan = &compilation->plan;
    bool *is_printed = KILN_ARENA_ARRAY(c->arena, bool, plan->tasks.count);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const kiln_way *way = compilation->way[s];
        const uint32_t t = plan->step[s].task;
        kiln_space space;
        if (!way || !way->on_host || is_printed[t]) continue;
        is_printed[t] = true;
        const kiln_task *task = &plan->tasks.task[t];
        kiln_status st = kiln_space_create(task->te, c->options->target, c->arena, &space);
        kiln_strbuf_printf(c->out, "# on the host: %s: %s\n", kiln_task_label(task, c->arena),
                           st ? kiln_status_text(st) : "expected to take less time there");
        kiln_status_free(st);
    }
}

static kiln_status print_stage(const stage_context *c, kiln_graph *graph) {
    const kiln_stage_options *o = c->options;
    kiln_compilation *compilation = NULL;
    kiln_status st = KILN_OK;
    if (strcmp(o->stage, "graph") == 0) {
        st = kiln_passes_run(graph, kiln_str_from(o->after ? o->after : ""));
        if (!st) kiln_graph_print(graph, c->out);
        return st;
    }
    st = kiln_compilation_of_model(graph, o->target, &o->accuracy, c->arena, &compilation);
    if (st) return st;
    const kiln_tasks tasks = compilation->searched; /* numbered as kiln tune does */
    if (!o->task) print_hosted(c, compilation);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(task_stages); i++)
        if (strcmp(o->stage, task_stages[i].name) == 0)
            return print_tasks(c, &tasks, task_stages[i].print);
    kiln_tasks_print(&tasks, true, c->out);
    if (compilation->joins.count) kiln_strbuf_char(c->out, '\n');
    kiln_joins_print(&compilation->joins, &compilation->base, c->out);
    return KILN_OK;
}

/* In a process without rights. */
static kiln_status run(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                       kiln_isolated_result *out_result) {
    kiln_strbuf text = {0};
    const stage_context c = {call->work->context, call, arena, &text};
    kiln_status st = print_stage(&c, graph);
    const kiln_str all = kiln_strbuf_end(&text, arena);
    if (!st) *out_result = kiln_model_result(all, arena);
    return st;
}

static kiln_status check_options(const kiln_stage_options *o) {
    bool known = strcmp(o->stage, "graph") == 0 || strcmp(o->stage, "tasks") == 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(task_stages); i++) {
        if (strcmp(o->stage, task_stages[i].name) != 0) continue;
        known = true;
        if (task_stages[i].backend && !kiln_codegen_makes(task_stages[i].backend, o->target))
            return KILN_ERROR(INVALID_ARGUMENT, "the stage %s is of targets such as %s, not %s",
                              o->stage, task_stages[i].example,
                              kiln_target_kind_name(o->target->kind));
    }
    if (!known)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "no stage is called '%s'; there are graph, tasks, plan, space, loops, "
                          "llvm, asm, c, opencl, cuda, ptx, sass, tokens",
                          o->stage);
    if (o->refused && strcmp(o->stage, "space") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "only the stage space has what was refused, not %s",
                          o->stage);
    if (o->after && strcmp(o->stage, "graph") != 0 && strcmp(o->stage, "loops") != 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--after: the stage %s has no passes; graph and loops "
                          "have",
                          o->stage);
    return KILN_OK;
}

kiln_status kiln_stage_make(const char *model_path, const kiln_stage_options *options,
                            kiln_arena *process, kiln_str *out_text) {
    kiln_mapping result = {0};
    kiln_sass_tools tools;
    kiln_strbuf sass = {0};
    const bool is_sass = strcmp(options->stage, SASS) == 0;
    kiln_status st = check_options(options);
    if (!st && is_sass) st = kiln_sass_find(process, &tools);
    if (!st) st = kiln_model_explain(model_path, options, run, process, &result);
    if (st) return st;
    *out_text = (kiln_str){result.data, result.size};
    if (is_sass) {
        st = kiln_sass_print(&tools, options->target->triple, *out_text, process, &sass);
        *out_text = kiln_strbuf_end(&sass, process);
    }
    return st;
}
