#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "cli/common/records.h"
#include "cli/common/sizes.h"
#include "cli/common/stage.h"
#include "cli/plan.h"
#include "cli/why.h"

typedef struct explain {
    const char *model, *stage, *task, *after, *target_text, *db_path, *why;
    kiln_opt_list dim;
    kiln_import_options onnx;
    bool json, refused, helpers;
    kiln_accuracy_options accuracy_options;
    kiln_accuracy accuracy;
    kiln_arena *process;
} explain;

/* Which schedule won: asked of the database; what launches do is counted without one. */
static kiln_status explain_why(const explain *e, const kiln_target *target) {
    const char *path = NULL;
    kiln_strbuf text = {0};
    kiln_status st = kiln_db_path(e->db_path, e->process, &path);
    if (!st && !e->db_path && kiln_features_of(target)->describe && !kiln_db_is_there(path))
        path = NULL;
    if (!st && path) st = kiln_db_check_there(path);
    kiln_why_options options = {e->why, target, path, e->json, &e->onnx, e->accuracy};
    if (!st) st = kiln_why_print(e->model, &options, e->process, &text);
    if (!st && !e->json) kiln_print_text(kiln_strbuf_view(&text), KILN_TEXT_PAGE, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

/* What the user's own records make of it, where there are any. */
static kiln_status explain_plan(const explain *e, kiln_stage_options *options) {
    kiln_strbuf text = {0};
    const char *own = NULL;
    if (e->after || e->task || e->refused)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "the stage plan is of the whole model: without --task, --after, --refused");
    kiln_status st = options->db_path ? KILN_OK : kiln_db_path(NULL, e->process, &own);
    if (own && kiln_db_is_there(own)) options->db_path = own;
    if (!st) st = kiln_plan_print(e->model, options, e->json, e->process, &text);
    if (!st && !e->json) kiln_print_text(kiln_strbuf_view(&text), KILN_TEXT_PAGE, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status explain_stage(const explain *e, const kiln_target *target) {
    kiln_str text = {0};
    kiln_status st = e->db_path ? kiln_db_check_there(e->db_path) : KILN_OK;
    kiln_stage_options options = {e->stage, e->after,   target,      e->db_path, &e->onnx,
                                  e->task,  e->refused, e->accuracy, !e->helpers};
    if (!st && strcmp(e->stage, "plan") == 0) return explain_plan(e, &options);
    if (!st) st = kiln_stage_make(e->model, &options, e->process, &text);
    if (!st && e->json)
        kiln_json_line(json_pack("{s:s, s:s, s:o}", "event", "explain", "stage", e->stage, "text",
                                 kiln_json_str(text)));
    else if (!st)
        kiln_print_text(text, KILN_TEXT_PAGE, stdout);
    return st;
}

/* The stage of each size. What asks a database is of one: the processes that look at a model start
 * before it is open. */
static kiln_status explain_sizes(explain *e, const kiln_target *target, const kiln_sizes *sizes) {
    kiln_status st = KILN_OK;
    if (e->why || e->db_path || strcmp(e->stage, "plan") == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "--%s is of one size of %.*s",
                          e->why       ? "why"
                          : e->db_path ? "db"
                                       : "stage plan",
                          KILN_STR_ARG(sizes->dim));
    for (uint32_t i = 0; !st && i < sizes->count; i++) {
        const kiln_opt_list one = kiln_sizes_dim(&e->dim, sizes, i, e->process);
        if (e->json)
            kiln_json_line(json_pack("{s:s, s:o, s:I}", "event", "size", "dim",
                                     kiln_json_str(sizes->dim), "size",
                                     (json_int_t)sizes->size[i]));
        else
            printf("%s%s:\n", i ? "\n" : "", one.item[sizes->option]);
        st = kiln_dim_option(&one, e->process, &e->onnx);
        if (!st) st = explain_stage(e, target);
    }
    return st;
}

kiln_status kiln_cmd_explain(kiln_arena *process, int argc, char **argv) {
    explain e = {.stage = "graph", .process = process};
    uint64_t threads = 0;
    const kiln_opt option[] = {
        {"stage", KILN_OPT_TEXT, &e.stage, "STAGE",
         "graph, tasks, plan (each layer's algorithm, precision and error), space, loops, llvm, "
         "asm, c, opencl, cuda, ptx, sass or tokens (what engines of an accelerator wait for; "
         "default "
         "graph)"},
        {"task", KILN_OPT_TEXT, &e.task, "K",
         "only this task: its number or the beginning of its key"},
        {"after", KILN_OPT_TEXT, &e.after, "PASS", "stop after this pass (graph and loops)"},
        {"refused", KILN_OPT_FLAG, &e.refused, NULL,
         "also print refused schedule steps and missing sketches, with reasons (space)"},
        {"helpers", KILN_OPT_FLAG, &e.helpers, NULL,
         "also print types and helper functions, so that the text compiles (c, opencl, cuda)"},
        {"why", KILN_OPT_TEXT, &e.why, "K",
         "instead of a stage: which stored schedule of this task won, and why"},
        {"target", KILN_OPT_TEXT, &e.target_text, "T", "device to compile for (default native)"},
        KILN_THREADS_OPTION(&threads),
        {"db", KILN_OPT_TEXT, &e.db_path, "PATH",
         "use the best stored schedules of this database (default: default schedules; with --why "
         "and --stage plan those in $KILN_HOME/kiln.db)"},
        KILN_ACCURACY_OPTIONS(&e.accuracy_options),
        KILN_MODEL_OPTIONS(&e.dim, kiln_sizes_help, &e.onnx),
        {"json", KILN_OPT_FLAG, &e.json, NULL,
         "print one object with the text, or of the stage plan with a list of layers"},
    };
    const kiln_opt_table table = {
        "kiln explain MODEL [--stage STAGE | --why K] [options]",
        "Prints a stage of compilation as text, or why a schedule was chosen.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_target target;
    kiln_sizes sizes;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    e.model = args.positional[0];
    st = kiln_target_option(e.target_text, threads, process, &target);
    if (!st) st = kiln_accuracy_option(&e.accuracy_options, &e.accuracy);
    if (!st) st = kiln_sizes_option(&e.dim, &sizes);
    if (!st && !sizes.count) st = kiln_dim_option(&e.dim, process, &e.onnx);
    if (st) return st;
    if (sizes.count) return explain_sizes(&e, &target, &sizes);
    return e.why ? explain_why(&e, &target) : explain_stage(&e, &target);
}
