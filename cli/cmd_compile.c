#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "deploy/pack/pack.h"
#include "deploy/pack/static_c.h"

/* Static C is for other machines than this one: vectors of 16 bytes, which every compiler can take
 * apart. */
#define STATIC_C_TARGET "x86-64"

/* "model.onnx" -> "model.kiln" beside it. */
static const char *default_output(kiln_arena *process, const char *model, const char *ending) {
    kiln_str name = kiln_str_from(model);
    if (kiln_str_ends(name, ".onnx")) name.size -= strlen(".onnx");
    return kiln_arena_printf(process, "%.*s%s", KILN_STR_ARG(name), ending);
}

static void report(const kiln_pack_report *r, const char *output, size_t size, bool json) {
    uint32_t measured = 0;
    for (uint32_t i = 0; i < r->task_count; i++) measured += r->task[i].median_ns > 0;
    if (json) {
        kiln_json_line(json_pack(
            "{s:s, s:s, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "event", "compiled", "module",
            output, "bytes", (json_int_t)size, "tasks", (int)r->task_count, "tuned", (int)measured,
            "conversions", (int)r->conversion_count, "arena_bytes", (json_int_t)r->arena_bytes,
            "live_bytes", (json_int_t)r->live_bytes, "value_bytes", (json_int_t)r->value_bytes,
            "window_bytes", (json_int_t)r->window_bytes));
        return;
    }
    printf(
        "%s: %zu bytes, %u tasks (%u from stored records, %u default schedules), %u layout "
        "conversions,\n"
        "  %.1f KB of activations (at least %.1f KB are alive at once, all together are %.1f KB), "
        "%.1f KB lie inside of others\n",
        output, size, r->task_count, measured, r->task_count - measured, r->conversion_count,
        (double)r->arena_bytes / 1024, (double)r->live_bytes / 1024, (double)r->value_bytes / 1024,
        (double)r->window_bytes / 1024);
}

/* What `--without a,b` leaves out: bits of passes and of planners. */
typedef struct omissions {
    uint32_t passes, planners;
} omissions;

static kiln_status unknown_omission(kiln_str word) {
    kiln_strbuf list = {0};
    for (uint32_t i = 0; i < KILN_PASS_COUNT; i++)
        kiln_strbuf_printf(&list, "%s, ", kiln_pass_get((kiln_pass)i)->name);
    for (uint32_t i = 0; i < KILN_PLANNER_COUNT; i++)
        kiln_strbuf_printf(&list, "%s%s", i ? ", " : "", kiln_planner_name((kiln_planner)i));
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "--without: nothing is called '%.*s'; there are %s",
                   KILN_STR_ARG(word), list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

static kiln_status parse_omissions(const char *text, omissions *out) {
    kiln_str rest = kiln_str_from(text ? text : "");
    *out = (omissions){0};
    while (rest.size) {
        kiln_str word = kiln_str_trim(kiln_str_cut(&rest, ','));
        kiln_pass pass;
        bool known = kiln_pass_find(word, &pass);
        if (known) out->passes |= 1u << pass;
        for (uint32_t i = 0; i < KILN_PLANNER_COUNT; i++) {
            if (!kiln_str_is(word, kiln_planner_name((kiln_planner)i))) continue;
            out->planners |= 1u << i;
            known = true;
        }
        if (!known) return unknown_omission(word);
    }
    return KILN_OK;
}

/* The file, its open dimensions, and what is left out of its compilation. */
typedef struct source {
    const char *path;
    kiln_import_options onnx;
    omissions without;
} source;

/* Why nothing of an emulated board's records is in the module, to who looks for them. */
static kiln_status note_emulated(kiln_db *db, const kiln_target *target, kiln_arena *process) {
    kiln_target emulated = *target;
    kiln_strbuf name = {0};
    kiln_db_record *row = NULL;
    uint32_t count = 0;
    if (!db || target->emulated) return KILN_OK;
    emulated.emulated = true;
    kiln_target_print(&emulated, &name);
    const kiln_db_filter filter = {.target = kiln_strbuf_view(&name), .limit = 1};
    kiln_status st = kiln_db_records(db, &filter, process, &row, &count);
    if (!st && count > 0)
        printf("  records of an emulated board are not used, as its times say nothing of the "
               "processor; --target %s uses them\n",
               name.data);
    kiln_strbuf_deinit(&name);
    return st;
}

static kiln_status compile_module(kiln_arena *process, const source *model,
                                  const kiln_target *target, kiln_db *db, const char *output,
                                  bool json) {
    kiln_graph *graph = NULL;
    kiln_strbuf bytes = {0};
    kiln_pack_report packed;
    kiln_compilation *compilation = NULL;
    kiln_pack_options options = {
        .db = db, .model_name = kiln_str_from(model->path), .without = model->without.planners};
    kiln_status st = kiln_file_check_writable(output);
    if (!st)
        st = kiln_model_load(model->path, &model->onnx, model->without.passes, process, &graph);
    if (!st) st = kiln_compilation_create(graph, target, process, &compilation);
    if (!st) st = kiln_pack(compilation, &options, process, &bytes, &packed);
    if (!st) st = kiln_file_write(output, kiln_strbuf_view(&bytes), KILN_MODULE_FILE_MODE);
    if (!st) report(&packed, output, bytes.size, json);
    if (!st && !json) st = note_emulated(db, target, process);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* "out/my-net.c" -> "my_net", an identifier. */
static kiln_str identifier_of(kiln_arena *process, const char *path) {
    const char *slash = strrchr(path, '/');
    kiln_str base = kiln_str_from(slash ? slash + 1 : path);
    size_t end = kiln_str_find_char(base, '.');
    kiln_strbuf text = {0};
    base = kiln_str_slice(base, 0, KILN_MIN(end, base.size));
    if (base.size == 0 || isdigit((unsigned char)base.data[0])) kiln_strbuf_text(&text, "net_");
    for (size_t i = 0; i < base.size; i++)
        kiln_strbuf_char(&text, isalnum((unsigned char)base.data[i]) ? base.data[i] : '_');
    kiln_str name = kiln_str_from(kiln_str_dup(process, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return name;
}

static void report_static_c(const kiln_static_c_sizes *sizes, const char *path, bool json) {
    if (json) {
        kiln_json_line(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "event", "compiled", "source",
                                 path, "constant_bytes", (json_int_t)sizes->constant_bytes,
                                 "arena_bytes", (json_int_t)sizes->arena_bytes, "packed_bytes",
                                 (json_int_t)sizes->packed_bytes, "scratch_bytes",
                                 (json_int_t)sizes->scratch_bytes));
        return;
    }
    printf("%s: %llu bytes of constants; static buffers: %llu of activations, %llu of packed "
           "weights, %llu of scratch\n",
           path, (unsigned long long)sizes->constant_bytes, (unsigned long long)sizes->arena_bytes,
           (unsigned long long)sizes->packed_bytes, (unsigned long long)sizes->scratch_bytes);
}

/* OUTPUT.c and OUTPUT.h beside it; `output` ends with .c. */
static kiln_status compile_static_c(kiln_arena *process, const source *model,
                                    const kiln_target *target, kiln_db *db, const char *output,
                                    bool json) {
    kiln_graph *graph = NULL;
    kiln_strbuf text = {0}, header = {0};
    kiln_module_plan plan;
    kiln_static_c_sizes sizes;
    kiln_target alone = *target;
    alone.threads = 1;
    const char *path = output ? output : default_output(process, model->path, ".c");
    if (!kiln_str_ends(kiln_str_from(path), ".c"))
        return KILN_ERROR(INVALID_ARGUMENT, "--output %s: static C is written to NAME.c", path);
    kiln_compilation *compilation = NULL;
    kiln_pack_options options = {.db = db,
                                 .model_name = kiln_str_from(model->path),
                                 .as_c = true,
                                 .without = model->without.planners};
    kiln_status st = kiln_file_check_writable(path);
    if (!st)
        st = kiln_model_load(model->path, &model->onnx, model->without.passes, process, &graph);
    if (!st) st = kiln_compilation_create(graph, &alone, process, &compilation);
    if (!st) st = kiln_pack_plan(compilation, &options, process, &plan, NULL);
    if (!st)
        st = kiln_static_c(&plan, identifier_of(process, path), process, &text, &header, &sizes);
    if (!st) st = kiln_file_write(path, kiln_strbuf_view(&text), 0666);
    char *header_path = kiln_arena_printf(process, "%s", path);
    header_path[strlen(header_path) - 1] = 'h';
    if (!st) st = kiln_file_write(header_path, kiln_strbuf_view(&header), 0666);
    if (!st) report_static_c(&sizes, path, json);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&header);
    return st;
}

static kiln_status emit_text(kiln_arena *process, const source *model, const kiln_target *target,
                             kiln_db *db, const char *emit, const char *output) {
    kiln_strbuf text = {0};
    kiln_stage_options options = {.stage = emit, .target = target, .db = db, .onnx = &model->onnx};
    kiln_status st = output ? kiln_file_check_writable(output) : KILN_OK;
    if (!st) st = kiln_stage_print(model->path, &options, process, &text);
    if (!st && output)
        st = kiln_file_write(output, kiln_strbuf_view(&text), 0666);
    else if (!st)
        kiln_print_text(kiln_strbuf_view(&text), KILN_TEXT_PAGE, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_cmd_compile(kiln_arena *process, int argc, char **argv) {
    const char *target_text = NULL, *db_option = NULL, *output = NULL, *emit = "module",
               *db_path = NULL, *without_text = NULL;
    kiln_opt_list dim = {0};
    source model = {0};
    bool json = false;
    uint64_t threads = 0;
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &target_text, "T",
         "device to compile for (default native; of static-c x86-64)"},
        {"threads", KILN_OPT_COUNT, &threads, "N", kiln_threads_help},
        {"dim", KILN_OPT_LIST, &dim, "NAME=N", kiln_dim_help},
        {"db", KILN_OPT_TEXT, &db_option, "PATH",
         "records database (default $KILN_HOME/kiln.db); none: default schedules"},
        {"output|o", KILN_OPT_TEXT, &output, "MODULE",
         "file to write (default: the model's name with .kiln or .c)"},
        {"emit", KILN_OPT_TEXT, &emit, "WHAT",
         "module, static-c (NAME.c and NAME.h), llvm, asm, loops or graph (default module)"},
        {"without", KILN_OPT_TEXT, &without_text, "NAME,...",
         "leave out passes or parts of planning, to see what each is worth"},
        {"loop-max", KILN_OPT_COUNT, &model.onnx.loop_max, "N", kiln_loop_help},
        {"model-memory", KILN_OPT_COUNT, &model.onnx.memory_mib, "MIB", kiln_memory_help},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object"},
    };
    const kiln_opt_table table = {
        "kiln compile MODEL.onnx [options]",
        "Makes a deployable module from a model and the best stored schedules; tasks without "
        "records get their default schedule.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_target target;
    kiln_db *db = NULL;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    model.path = args.positional[0];
    st = parse_omissions(without_text, &model.without);
    if (!st) st = kiln_dim_option(&dim, process, &model.onnx);
    if (!target_text && strcmp(emit, "static-c") == 0) target_text = STATIC_C_TARGET;
    if (!st) st = kiln_target_option(target_text, threads, process, &target);
    if (!st) st = kiln_db_path(db_option, process, &db_path);
    const bool without_db = db_option && strcmp(db_option, "none") == 0;
    /* A database that is named must be there: a misspelt one would pack default schedules. */
    if (!st && !without_db)
        st = db_option ? kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_READ, &db)
                       : kiln_db_open_if_there(db_path, &db);
    if (!st && strcmp(emit, "module") == 0)
        st = kiln_target_check_modules(&target, target_text, model.path);
    if (!st && strcmp(emit, "module") == 0)
        st = compile_module(process, &model, &target, db,
                            output ? output : default_output(process, model.path, ".kiln"), json);
    else if (!st && strcmp(emit, "static-c") == 0)
        st = compile_static_c(process, &model, &target, db, output, json);
    else if (!st)
        st = emit_text(process, &model, &target, db, emit, output);
    kiln_db_close(db);
    return st;
}
