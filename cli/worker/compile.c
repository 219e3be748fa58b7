/* Serves `kiln compile`. */
#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "cli/common/compile_options.h"
#include "cli/common/json.h"
#include "cli/common/model_work.h"
#include "cli/common/names.h"
#include "cli/common/options.h"
#include "cli/common/records.h"
#include "cli/common/sizes.h"
#include "cli/common/stage.h"
#include "cli/worker/schedules.h"
#include "cli/worker/serve.h"
#include "deploy/pack/library.h"
#include "deploy/pack/pack.h"

/* Static C is for other machines than this one: vectors of 16 bytes, which every compiler can take
 * apart. */
#define STATIC_C_TARGET "x86-64"

/* "model.onnx" -> "model.kiln" beside it. */
static const char *default_output(kiln_arena *process, const char *model, const char *ending) {
    static const char *const known[] = {".onnx", ".tflite", ".graph"};
    kiln_str name = kiln_str_from(model);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(known); i++)
        if (kiln_str_ends(name, known[i])) name.size -= strlen(known[i]);
    return kiln_arena_printf(process, "%.*s%s", KILN_STR_ARG(name), ending);
}

/* What a module is made of: before its bytes, when they come from the process that packed them. */
typedef struct module_head {
    uint32_t task_count, measured_count, conversion_count;
    uint64_t arena_bytes, live_bytes, value_bytes, window_bytes;
} module_head;

static module_head head_of(const kiln_pack_report *r) {
    module_head head = {
        r->task_count,  0, r->conversion_count, r->arena_bytes, r->live_bytes, r->value_bytes,
        r->window_bytes};
    for (uint32_t i = 0; i < r->task_count; i++) head.measured_count += r->task[i].median_ns > 0;
    return head;
}

static void say_module(kiln_events *events, const module_head *r, const char *output, size_t size) {
    kiln_events_result(
        events, json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "event", "compiled",
                          "module", output, "bytes", (json_int_t)size, "tasks", (int)r->task_count,
                          "tuned", (int)r->measured_count, "conversions", (int)r->conversion_count,
                          "arena_bytes", (json_int_t)r->arena_bytes, "live_bytes",
                          (json_int_t)r->live_bytes, "value_bytes", (json_int_t)r->value_bytes,
                          "window_bytes", (json_int_t)r->window_bytes));
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

/* What is compiled, and what is left out of it. */
typedef struct source {
    const char *path, *model_name;
    kiln_import_options onnx;
    omissions without;
    const kiln_target *target;
    const char *db_path; /* NULL: without one */
    kiln_accuracy accuracy;
    bool is_part, as_c; /* of a module of several sizes; of static C */
    kiln_pack_provenance provenance;
    kiln_schedules schedules;
    const kiln_sizes *sizes; /* of which `dim` lists several; count 0: one */
    const kiln_opt_list *dim;
    kiln_str name; /* C: of its functions */
    kiln_events *events;
    /* What the process without rights makes of C; without one (KILN_NO_ISOLATION) it is here. */
    kiln_strbuf file[KILN_LIBRARY_FILES];
} source;

/* Why nothing of an emulated board's records is in the module, to who looks for them. */
static kiln_status note_emulated(const source *in, kiln_arena *process) {
    kiln_target emulated;
    kiln_strbuf name = {0};
    kiln_db *db = NULL;
    kiln_db_record *row = NULL;
    uint32_t count = 0;
    if (!in->db_path || in->target->emulated) return KILN_OK;
    kiln_status st = kiln_target_emulated(in->target, process, &emulated);
    if (st) {
        kiln_status_free(st); /* the kind has no such boards */
        return KILN_OK;
    }
    kiln_target_print(&emulated, &name);
    const kiln_db_filter filter = {.target = kiln_strbuf_view(&name), .limit = 1};
    st = kiln_db_open(in->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_db_records(db, &filter, process, &row, &count);
    kiln_db_close(db);
    if (!st && count > 0)
        kiln_events_text(in->events,
                         "records of an emulated board are not used, because its times say nothing "
                         "about the processor; --target %s uses them",
                         name.data);
    kiln_strbuf_deinit(&name);
    return st;
}

static kiln_pack_options pack_options(const kiln_model_call *call, const kiln_pack_stored *stored,
                                      kiln_arena *arena) {
    const source *in = call->work->context;
    return (kiln_pack_options){.stored = stored->find ? stored : NULL,
                               .model_name = kiln_model_title(in->model_name, in->path, arena),
                               .provenance = in->provenance,
                               .without = in->without.planners,
                               .accuracy = in->accuracy,
                               .is_part = in->is_part,
                               .as_c = in->as_c,
                               .step = kiln_model_step,
                               .step_context = (void *)(uintptr_t)call};
}

/* In a process without rights. */
static kiln_status make_module(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                               kiln_isolated_result *out_result) {
    const source *in = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    kiln_pack_options options = pack_options(call, &stored, arena);
    kiln_pack_report packed;
    kiln_module_bytes module = {0};
    kiln_compilation *compilation = NULL;
    kiln_status st =
        kiln_schedules_parse(&in->schedules, arena, &options.given, &options.given_count);
    if (!st) st = kiln_passes_run_without(graph, in->without.passes);
    if (!st) st = kiln_compilation_narrow(graph, in->target, &in->accuracy);
    if (!st) st = kiln_compilation_create(graph, in->target, arena, &compilation);
    if (!st) st = kiln_pack_parts(compilation, &options, arena, &module, &packed);
    if (st) return st;
    module_head *head = KILN_ARENA_NEW(arena, module_head);
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 1 + (size_t)module.part_count);
    *head = head_of(&packed);
    part[0] = (kiln_str){(const char *)head, sizeof *head};
    memcpy(part + 1, module.part, module.part_count * sizeof *part);
    *out_result = (kiln_isolated_result){1 + module.part_count, part};
    return KILN_OK;
}

/* A module on its way. */
typedef struct making {
    source source; /* a copy for this one */
    kiln_model model;
    kiln_model_work work;
    kiln_model_call call;
    kiln_mapping result; /* until the program ends */
    module_head head;
    kiln_str bytes;
} making;

/* Reads the model and starts a process that waits; before there is a database. */
static kiln_status begin(making *m, kiln_arena *process) {
    source *in = &m->source;
    m->work = (kiln_model_work){.model = &m->model,
                                .doing = "compiling",
                                .run = make_module,
                                .context = in,
                                .precision = in->accuracy.precision,
                                .has_db = in->db_path != NULL};
    kiln_status st = kiln_model_read(in->path, &in->onnx, process, &m->model);
    if (!st) st = kiln_model_provenance(in->path, in->dim, in->db_path, process, &in->provenance);
    return st ? st : kiln_model_start(&m->work, process, &m->call);
}

static kiln_status finish(making *m, kiln_db *db) {
    kiln_status st = kiln_model_finish(&m->call, db, &m->result);
    if (st) return st;
    memcpy(&m->head, m->result.data, sizeof m->head);
    m->bytes =
        (kiln_str){(const char *)m->result.data + sizeof m->head, m->result.size - sizeof m->head};
    return KILN_OK;
}

/* Makes all of them. */
static kiln_status make(making *m, uint32_t count, kiln_arena *process) {
    const char *db_path = m->source.db_path;
    kiln_db *db = NULL;
    uint32_t begun = 0;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count; i++) {
        st = begin(&m[i], process);
        begun += !st;
    }
    if (!st && db_path) st = kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    for (uint32_t i = 0; i < begun; i++) {
        if (!st)
            st = finish(&m[i], db);
        else
            kiln_model_cancel(&m[i].call);
    }
    kiln_db_close(db);
    return st;
}

static kiln_status compile_module(kiln_arena *process, source *in, const char *output) {
    making m = {.source = *in};
    kiln_status st = kiln_file_check_writable(output);
    if (!st) st = make(&m, 1, process);
    if (!st) st = kiln_file_write(output, m.bytes, KILN_MODULE_FILE_MODE);
    if (!st) say_module(in->events, &m.head, output, m.bytes.size);
    if (!st) st = note_emulated(in, process);
    return st;
}

/* A part for each size, joined; `said` names them for people. */
static kiln_status make_sizes(kiln_arena *process, source *in, const char *said,
                              kiln_module_sizes *out_made) {
    const kiln_sizes *sizes = in->sizes;
    making *m = KILN_ARENA_ARRAY(process, making, sizes->count);
    kiln_str module[KILN_MODULE_BUCKETS_MAX];
    const kiln_sizes_model model = {in->path, sizes, in->dim, &in->onnx};
    const bool has_rows = kiln_sizes_have_rows(&model, process);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < sizes->count; i++) {
        const kiln_opt_list one = kiln_sizes_dim(in->dim, sizes, i, process);
        m[i].source = *in;
        m[i].source.is_part = true;
        st = kiln_dim_option(&one, process, &m[i].source.onnx);
    }
    if (!st) st = make(m, sizes->count, process);
    for (uint32_t i = 0; !st && i < sizes->count; i++) {
        module[i] = m[i].bytes;
        say_module(in->events, &m[i].head,
                   kiln_arena_printf(process, "%s, %.*s=%lld", said, KILN_STR_ARG(sizes->dim),
                                     (long long)sizes->size[i]),
                   module[i].size);
    }
    return st ? st : kiln_sizes_join(sizes, has_rows, module, process, out_made);
}

static kiln_status compile_sizes(kiln_arena *process, source *in, const char *output) {
    kiln_module_sizes made;
    size_t bytes;
    kiln_status st = kiln_file_check_writable(output);
    if (!st) st = make_sizes(process, in, output, &made);
    if (!st) st = kiln_sizes_write(&made, in->target, output, process, &bytes);
    if (!st) kiln_events_result(in->events, kiln_sizes_json(&made, "compiled", output, bytes));
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

static void say_static_c(kiln_events *events, const kiln_static_c_sizes *sizes, const char *path) {
    kiln_events_result(events,
                       json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "event", "compiled", "source",
                                 path, "constant_bytes", (json_int_t)sizes->constant_bytes,
                                 "arena_bytes", (json_int_t)sizes->arena_bytes, "packed_bytes",
                                 (json_int_t)sizes->packed_bytes, "scratch_bytes",
                                 (json_int_t)sizes->scratch_bytes));
}

/* Before the texts of a library's files; of static C the source and the header alone are wanted. */
typedef struct library_head {
    kiln_static_c_sizes sizes;
    size_t bytes[KILN_LIBRARY_FILES];
} library_head;

/* In a process without rights. */
static kiln_status make_library(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                                kiln_isolated_result *out_result) {
    source *in = call->work->context;
    const kiln_pack_stored stored = kiln_model_stored(call);
    kiln_pack_options options = pack_options(call, &stored, arena);
    kiln_module_bucket only = {0};
    const kiln_module_sizes module = {.bucket_count = 1, .bucket = &only};
    kiln_compilation *compilation = NULL;
    library_head *head = KILN_ARENA_NEW(arena, library_head);
    kiln_status st =
        kiln_schedules_parse(&in->schedules, arena, &options.given, &options.given_count);
    if (!st) st = kiln_passes_run_without(graph, in->without.passes);
    if (!st) st = kiln_compilation_narrow(graph, in->target, &in->accuracy);
    if (!st) st = kiln_compilation_create(graph, in->target, arena, &compilation);
    if (!st) st = kiln_pack_plan(compilation, &options, arena, &only.plan, NULL);
    if (!st) st = kiln_library(&module, in->name, arena, in->file, &head->sizes);
    if (st) return st;
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 1 + KILN_LIBRARY_FILES);
    part[0] = (kiln_str){(const char *)head, sizeof *head};
    for (uint32_t i = 0; i < KILN_LIBRARY_FILES; i++) {
        head->bytes[i] = in->file[i].size;
        part[1 + i] = kiln_strbuf_view(&in->file[i]);
    }
    *out_result = (kiln_isolated_result){1 + KILN_LIBRARY_FILES, part};
    return KILN_OK;
}

/* With the folders that lie between; `whole` is theirs and the file's. */
static kiln_status write_below(kiln_arena *process, const char *output, const char *whole,
                               kiln_str text) {
    kiln_status st = KILN_OK;
    for (const char *slash = strchr(whole + strlen(output), '/'); !st && slash;
         slash = strchr(slash + 1, '/'))
        st = kiln_folder_create(kiln_arena_printf(process, "%.*s", (int)(slash - whole), whole),
                                0777);
    return st ? st : kiln_file_write(whole, text, 0666);
}

/* The texts of one size, made without rights; they lie in `*out_result`. */
static kiln_status make_texts(kiln_arena *process, source *in, kiln_mapping *out_result,
                              kiln_str text[KILN_LIBRARY_FILES], kiln_static_c_sizes *out_sizes) {
    kiln_model model = {0};
    library_head head;
    kiln_model_work work = {.model = &model,
                            .doing = "compiling",
                            .run = make_library,
                            .context = in,
                            .precision = in->accuracy.precision};
    kiln_status st = kiln_model_read(in->path, &in->onnx, process, &model);
    if (!st) st = kiln_model_run(&work, in->db_path, process, out_result);
    if (st) return st;
    memcpy(&head, out_result->data, sizeof head);
    kiln_str rest = {(const char *)out_result->data + sizeof head, out_result->size - sizeof head};
    for (uint32_t i = 0; i < KILN_LIBRARY_FILES; i++) {
        text[i] = kiln_str_slice(rest, 0, head.bytes[i]);
        rest = kiln_str_slice(rest, head.bytes[i], rest.size);
    }
    *out_sizes = head.sizes;
    return KILN_OK;
}

/* The same of several sizes, joined here; they lie in `in->file`. */
static kiln_status join_texts(kiln_arena *process, source *in, const char *output,
                              kiln_str text[KILN_LIBRARY_FILES], kiln_static_c_sizes *out_sizes) {
    kiln_module_sizes made;
    kiln_status st = make_sizes(process, in, output, &made);
    if (!st) st = kiln_library(&made, in->name, process, in->file, out_sizes);
    for (uint32_t i = 0; i < KILN_LIBRARY_FILES; i++) text[i] = kiln_strbuf_view(&in->file[i]);
    return st;
}

/* Writes the files whose `path` is not NULL: `output` is one of them, or the folder of all. */
static kiln_status compile_library(kiln_arena *process, source *in, const char *output,
                                   const char *const path[KILN_LIBRARY_FILES]) {
    kiln_target alone = *in->target;
    kiln_mapping result = {0};
    kiln_str text[KILN_LIBRARY_FILES];
    kiln_static_c_sizes sizes;
    alone.threads = 1;
    in->target = &alone;
    in->as_c = true;
    kiln_status st = in->sizes->count ? join_texts(process, in, output, text, &sizes)
                                      : make_texts(process, in, &result, text, &sizes);
    for (uint32_t i = 0; !st && i < KILN_LIBRARY_FILES; i++)
        if (path[i]) st = write_below(process, output, path[i], text[i]);
    for (uint32_t i = 0; i < KILN_LIBRARY_FILES; i++) kiln_strbuf_deinit(&in->file[i]);
    if (!st) say_static_c(in->events, &sizes, output);
    if (!st && kiln_target_has(in->target, KILN_STR("amx-tile")))
        kiln_events_text(in->events, "tiles of AMX are left out: products are loops, for the C "
                                     "compiler's vectors");
    return st;
}

/* OUTPUT.c and OUTPUT.h beside it; `output` ends with .c. */
static kiln_status compile_static_c(kiln_arena *process, source *in, const char *output) {
    const char *path[KILN_LIBRARY_FILES] = {0};
    if (!output) output = default_output(process, in->path, ".c");
    if (!kiln_str_ends(kiln_str_from(output), ".c"))
        return KILN_ERROR(INVALID_ARGUMENT, "--output %s: static C is written to NAME.c", output);
    char *header = kiln_arena_printf(process, "%s", output);
    header[strlen(header) - 1] = 'h';
    path[KILN_LIBRARY_SOURCE] = output;
    path[KILN_LIBRARY_HEADER] = header;
    in->name = identifier_of(process, output);
    kiln_status st = kiln_file_check_writable(output);
    return st ? st : compile_library(process, in, output, path);
}

/* A folder, which is made; the files of an earlier call are replaced. */
static kiln_status compile_folder(kiln_arena *process, source *in, const char *output) {
    const char *path[KILN_LIBRARY_FILES];
    if (!output) output = default_output(process, in->path, "");
    in->name = identifier_of(process, output);
    for (uint32_t i = 0; i < KILN_LIBRARY_FILES; i++)
        path[i] = kiln_arena_printf(process, "%s/%s", output,
                                    kiln_library_path((kiln_library_file)i, in->name, process));
    return compile_library(process, in, output, path);
}

static kiln_status emit_text(kiln_arena *process, const source *in, const char *emit,
                             const char *output) {
    kiln_str text = {0};
    kiln_stage_options options = {.stage = emit,
                                  .target = in->target,
                                  .db_path = in->db_path,
                                  .onnx = &in->onnx,
                                  .accuracy = in->accuracy};
    kiln_status st = output ? kiln_file_check_writable(output) : KILN_OK;
    if (!st) st = kiln_stage_make(in->path, &options, process, &text);
    if (!st && output)
        st = kiln_file_write(output, text, 0666);
    else if (!st)
        kiln_events_result(in->events, json_pack("{s:s, s:s, s:o}", "event", "emitted", "what",
                                                 emit, "text", kiln_json_str(text)));
    return st;
}

/* A database that is named must be there: a misspelt one would pack default schedules. */
static kiln_status find_db(const char *option, kiln_arena *process, const char **out_path) {
    const char *path = NULL;
    *out_path = NULL;
    if (option && strcmp(option, "none") == 0) return KILN_OK;
    kiln_status st = kiln_db_path(option, process, &path);
    if (!st && option) st = kiln_db_check_there(path);
    if (!st && (option || kiln_db_is_there(path))) *out_path = path;
    return st;
}

static kiln_status compile(const kiln_compile_options *o, kiln_events *events,
                           kiln_arena *process) {
    source model = {
        .path = o->model, .model_name = o->model_name, .events = events, .onnx = o->import};
    const bool is_module = strcmp(o->emit, "module") == 0;
    const bool is_static_c = strcmp(o->emit, "static-c") == 0;
    const bool is_library = strcmp(o->emit, "library") == 0;
    const char *target_text =
        !o->target && (is_static_c || is_library) ? STATIC_C_TARGET : o->target;
    kiln_target target;
    kiln_sizes sizes = {0};
    model.target = &target;
    model.sizes = &sizes;
    model.dim = &o->dim;
    kiln_status st = parse_omissions(o->without, &model.without);
    if (!st) st = kiln_accuracy_option(&o->accuracy, &model.accuracy);
    if (!st) st = kiln_sizes_option(&o->dim, &sizes);
    if (!st && sizes.count && !is_module && !is_static_c && !is_library)
        st = KILN_ERROR(INVALID_ARGUMENT, "--emit %s takes one size of %.*s", o->emit,
                        KILN_STR_ARG(sizes.dim));
    if (!st && !sizes.count) st = kiln_dim_option(&o->dim, process, &model.onnx);
    if (!st) st = kiln_target_option(target_text, o->threads, process, &target);
    if (!st) st = find_db(o->db, process, &model.db_path);
    if (!st) st = kiln_schedules_read(o->schedule, process, &model.schedules);
    if (!st && o->db && !model.db_path) /* by what every machine knows */
        kiln_target_calibrate(&target, &(kiln_figures){0});
    if (!st && is_module) st = kiln_target_check_modules(&target, target_text, model.path);
    if (st) return st;
    if (is_module) {
        const char *ending = target.arch == KILN_ARCH_WASM32 ? ".wasm" : ".kiln";
        const char *output = o->output ? o->output : default_output(process, model.path, ending);
        return sizes.count ? compile_sizes(process, &model, output)
                           : compile_module(process, &model, output);
    }
    if (is_static_c) return compile_static_c(process, &model, o->output);
    if (is_library) return compile_folder(process, &model, o->output);
    if (o->schedule)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--schedule goes with --emit module, static-c or library");
    return emit_text(process, &model, o->emit, o->output);
}

kiln_status kiln_serve_compile(const kiln_served *served) {
    kiln_compile_options o;
    const kiln_opt_table table = kiln_compile_options_init(&o, served->process);
    kiln_status st = kiln_served_options(served, &table);
    o.model = served->subject;
    return st ? st : compile(&o, served->events, served->process);
}
