#include "cli/common/model_work.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/mpack.h"
#include "base/opt.h"
#include "cli/common/names.h"
#include "compiler-core/frontend/isolated.h"

#define STORED_MAX (1u << 20) /* records of one task and target */

kiln_status kiln_model_read(const char *path, const kiln_import_options *options,
                            kiln_arena *process, kiln_model *out_model) {
    static const kiln_import_options nothing;
    kiln_model model = {.path = path};
    if (!options) options = &nothing;
    kiln_status st = kiln_memory_limit(options, &model.memory_bytes);
    if (!st) st = kiln_read_isolated(path, options, process, &model.bytes, &model.graph);
    if (!st) *out_model = model;
    return st;
}

void kiln_model_deinit(kiln_model *model) { kiln_file_unmap(&model->bytes); }

static kiln_str join_dims(const kiln_opt_list *dim, kiln_arena *process) {
    kiln_strbuf text = {0};
    for (size_t i = 0; dim && i < dim->count; i++)
        kiln_strbuf_printf(&text, "%s%s", i ? ";" : "", dim->item[i]);
    return kiln_strbuf_end(&text, process);
}

kiln_status kiln_model_provenance(const char *path, const kiln_opt_list *dim, const char *db_path,
                                  kiln_arena *process, kiln_pack_provenance *out_provenance) {
    kiln_mapping file = {0};
    kiln_digest digest;
    char text[KILN_DIGEST_TEXT];
    kiln_strbuf place = {0}; /* without what it says of passwords */
    kiln_status st = kiln_file_map(path, &file);
    if (st) return st;
    if (db_path) kiln_db_print_path(db_path, &place);
    kiln_digest_of(file.data, file.size, &digest);
    kiln_file_unmap(&file);
    kiln_digest_print(&digest, text);
    *out_provenance = (kiln_pack_provenance){
        .model_sha256 = kiln_str_copy(process, kiln_str_from(text)),
        .dims = join_dims(dim, process),
        .database =
            kiln_str_copy(process, kiln_str_from(kiln_file_name(place.data ? place.data : ""))),
        .software = KILN_STR("kiln " KILN_VERSION)};
    kiln_strbuf_deinit(&place);
    return KILN_OK;
}

/* ---- records, asked for ---------------------------------------------------------------------- */

/* What packing looks at, in the order of the rows. */
static void code_records(kiln_mpack_coder *m, kiln_arena *arena, kiln_db_record **record,
                         uint32_t *count) {
    kiln_mpack_code_count(m, STORED_MAX, "records", count);
    if (!m->out && !m->st) *record = KILN_ARENA_ARRAY(arena, kiln_db_record, *count);
    for (uint32_t i = 0; !m->st && i < *count; i++) {
        kiln_db_record *r = &(*record)[i];
        kiln_mpack_code_fields(m, 6);
        kiln_mpack_code_bin(m, &r->trace);
        kiln_mpack_code_str(m, &r->layout_in);
        kiln_mpack_code_str(m, &r->layout_out);
        kiln_mpack_code_str(m, &r->searcher);
        kiln_mpack_code_f64(m, &r->median_ns);
        kiln_mpack_code_f64(m, &r->relative_error);
    }
}

/* kiln_pack_stored.find in the child. */
static kiln_status ask(void *context, const kiln_db_filter *filter, kiln_arena *arena,
                       kiln_db_record **out_records, uint32_t *out_count) {
    const kiln_model_call *call = context;
    const char *question = kiln_arena_printf(
        arena, "%u\n%.17g\n%.*s\n%.*s\n%.*s\n%.*s", filter->limit, filter->allowed.error_max,
        KILN_STR_ARG(filter->allowed.algorithms), KILN_STR_ARG(filter->task_key),
        KILN_STR_ARG(filter->target), KILN_STR_ARG(filter->codegen_version));
    kiln_str bytes = {0};
    kiln_status st = kiln_isolated_ask(&call->isolated_work, question, arena, &bytes);
    if (st) return st;
    kiln_mpack_coder m = {0};
    kiln_mpack_reader_init(&m.in, bytes.data, bytes.size);
    code_records(&m, arena, out_records, out_count);
    return m.st;
}

static void keep_judged(kiln_db_record *record, uint32_t *count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++)
        if (record[i].final || kiln_str_is(record[i].searcher, "default"))
            record[kept++] = record[i];
    *count = kept;
}

/* kiln_isolated_work.answer, in the command. */
static kiln_status answer(void *context, kiln_str question, kiln_strbuf *out) {
    const kiln_model_call *call = context;
    uint64_t limit = 0;
    double error_max = 0;
    if (!call->db || !kiln_str_to_u64(kiln_str_cut(&question, '\n'), &limit) ||
        !kiln_str_to_f64(kiln_str_cut(&question, '\n'), &error_max))
        return KILN_ERROR(INVALID_ARGUMENT, "there is no such record");
    kiln_db_filter filter = {.order = KILN_DB_FASTEST,
                             .limit = (uint32_t)KILN_MIN(limit, STORED_MAX)};
    filter.allowed = (kiln_db_allowed){kiln_str_cut(&question, '\n'), error_max};
    filter.task_key = kiln_str_cut(&question, '\n');
    filter.target = kiln_str_cut(&question, '\n');
    filter.codegen_version = question;
    kiln_arena arena;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_mpack_coder m = {.out = out};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_db_records(call->db, &filter, &arena, &record, &count);
    count = KILN_MIN(count, STORED_MAX);
    if (!st && call->work->judged) keep_judged(record, &count);
    if (!st) code_records(&m, &arena, &record, &count);
    kiln_arena_deinit(&arena);
    return st ? st : m.st;
}

/* kiln_isolated_work.look, in the command. */
static kiln_status look(void *context, kiln_str bytes, kiln_strbuf *out_answer) {
    const kiln_model_work *work = ((const kiln_model_call *)context)->work;
    return work->look(work->context, bytes, out_answer);
}

kiln_status kiln_model_show(const kiln_model_call *call, const kiln_isolated_result *what,
                            kiln_arena *arena, kiln_str *out_answer) {
    return kiln_isolated_show(&call->isolated_work, what, arena, out_answer);
}

kiln_pack_stored kiln_model_stored(const kiln_model_call *call) {
    return (kiln_pack_stored){call->work->has_db ? ask : NULL, (void *)(uintptr_t)call};
}

/* ---- processes ------------------------------------------------------------------------------- */

kiln_status kiln_model_step(void *call, const char *name) {
    kiln_isolated_step(&((kiln_model_call *)call)->isolated_work, name);
    return kiln_fail_at(KILN_FAIL_COMPILE_KERNEL);
}

kiln_isolated_result kiln_model_result(kiln_str bytes, kiln_arena *arena) {
    return (kiln_isolated_result){1, kiln_arena_copy(arena, &bytes, sizeof bytes)};
}

static bool is_quantised(const kiln_graph *graph) {
    for (uint32_t n = 1; n < graph->node.count; n++) switch (graph->node.data[n].op) {
        case KILN_OP_QUANTIZE_LINEAR:
        case KILN_OP_DEQUANTIZE_LINEAR:
        case KILN_OP_CONV_INTEGER:
        case KILN_OP_MATMUL_INTEGER: return true;
        default: break;
        }
    return false;
}

static kiln_status check_precision(const kiln_model_work *work, const kiln_graph *graph) {
    if (work->precision != KILN_PRECISION_INT8 || is_quantised(graph)) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT,
                      "--precision int8: nothing of %s is quantised; kiln quantize %s -o OUT.onnx "
                      "makes a model that is",
                      work->model->path, work->model->path);
}

static kiln_status run(void *context, kiln_arena *arena, kiln_isolated_result *out_result) {
    const kiln_model_call *call = context;
    const kiln_model *model = call->work->model;
    kiln_graph *graph = NULL;
    kiln_status st = kiln_status_note(kiln_graph_decode(model->graph, arena, &graph),
                                      "the graph of %s", model->path);
    if (!st) st = check_precision(call->work, graph);
    return st ? st : call->work->run(call, graph, arena, out_result);
}

kiln_status kiln_model_start(const kiln_model_work *work, kiln_arena *process,
                             kiln_model_call *out_call) {
    *out_call = (kiln_model_call){
        .work = work,
        .isolated_work = {
            .what = kiln_arena_printf(process, "%s %s", work->doing, work->model->path),
            .run = run,
            .context = out_call,
            .answer = answer,
            .look = work->look ? look : NULL,
            .step_s = KILN_MODEL_STEP_S,
            .in_process = kiln_env("KILN_NO_ISOLATION") != NULL,
            .limits = {.memory_bytes = work->model->memory_bytes, .cpu_s = KILN_MODEL_CPU_S}}};
    return kiln_isolated_start(&out_call->isolated_work, &out_call->process);
}

kiln_status kiln_model_finish(kiln_model_call *call, kiln_db *db, kiln_mapping *out_result) {
    kiln_isolated_process *process = call->process;
    call->process = NULL;
    call->db = db;
    return kiln_isolated_finish(process, out_result);
}

void kiln_model_cancel(kiln_model_call *call) {
    kiln_isolated_cancel(call->process);
    call->process = NULL;
}

kiln_status kiln_model_run(kiln_model_work *work, const char *db_path, kiln_arena *process,
                           kiln_mapping *out_result) {
    kiln_model_call call;
    kiln_db *db = NULL;
    work->has_db = db_path != NULL;
    kiln_status st = kiln_model_start(work, process, &call);
    if (st) return st;
    if (db_path) st = kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st)
        st = kiln_model_finish(&call, db, out_result);
    else
        kiln_model_cancel(&call);
    kiln_db_close(db);
    return st;
}

kiln_status kiln_model_explain(const char *path, const kiln_stage_options *options,
                               kiln_model_function explain, kiln_arena *process,
                               kiln_mapping *out_result) {
    kiln_stage_options own = *options;
    kiln_model model = {0};
    kiln_model_work work = {.model = &model,
                            .doing = "compiling",
                            .run = explain,
                            .context = &own,
                            .precision = own.accuracy.precision};
    kiln_status st = kiln_model_read(path, options->onnx, process, &model);
    return st ? st : kiln_model_run(&work, options->db_path, process, out_result);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

kiln_status kiln_model_give_tasks(const kiln_compilation *c, kiln_arena *arena,
                                  kiln_isolated_result *out_result) {
    const uint32_t count = c->plan.tasks.count + c->searched.count;
    kiln_strbuf bytes = {0};
    if (count > KILN_COMPILATION_TASKS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the model has %u tasks, at most %u are tuned", count,
                          KILN_COMPILATION_TASKS_MAX);
    kiln_compilation_encode(c, false, &bytes);
    *out_result = kiln_model_result(kiln_strbuf_end(&bytes, arena), arena);
    return KILN_OK;
}

kiln_status kiln_model_take_tasks(kiln_model_work *work, kiln_arena *process,
                                  kiln_compilation **out_compilation) {
    kiln_mapping bytes = {0}; /* of the compilation, which is used until the program ends */
    kiln_status st = kiln_model_run(work, NULL, process, &bytes);
    return st ? st
              : kiln_compilation_decode((kiln_str){bytes.data, bytes.size}, process,
                                        out_compilation);
}
