/* kiln batch: candidates of a model for a device that no tracker reaches, as a folder that
 * `kiln-rpc-server --batch` measures (rpc-server/batch_plan.h) and whose results `kiln db import`
 * takes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "cli/common/model_work.h"
#include "cli/common/names.h"
#include "cli/common/options.h"
#include "cli/common/records.h"
#include "cli/rows_json.h"
#include "deploy/pack/limits.h"
#include "tuner/offline_candidates.h"
#include "tuner/tuner.h"

#define TRIALS_MAX 4096u /* of one folder, as of one lease */
#define CANDIDATES_DEFAULT 32u

static const char searchers_help[] = "one of:"
#define X(name, text, plan, learns, doc) " " text
#include "tuner/search/searchers.def"
#undef X
                                     " (default random: the default schedule, then draws)";

/* What the server measures, and writes itself. */
static const char *const measured[] = {
    "attempt",    "device_id", "fingerprint_id",  "outcome",       "blame",
    "detail",     "checked",   "error",           "fences",        "max_abs_error",
    "samples_ns", "median_ns", "runs_per_sample", "min_ns",        "stop_reason",
    "throttled",  "raced",     "drift",           "peak_flops",    "drift_memory",
    "again",      "board_ns",  "stored_wall_ns",  "relative_error"};

typedef struct batch {
    kiln_arena *process;
    kiln_target target;
    const char *target_text, *folder, *part; /* part: where it is written before it is whole */
    kiln_accuracy accuracy;
    kiln_offline_candidates_options drawing;
    char job[KILN_HASH128_TEXT];
    kiln_strbuf trials, records, rows;
    kiln_msg_blob_ref reference; /* of the task under way */
    uint32_t trial_count, failed_count, task_count;
    bool json;
} batch;

/* ---- the folder ---- */

static kiln_status write_blob(batch *b, kiln_str bytes, kiln_msg_blob_ref *out_ref) {
    char name[KILN_DIGEST_TEXT];
    kiln_digest_of(bytes.data, bytes.size, &out_ref->digest);
    out_ref->size = bytes.size;
    kiln_digest_print(&out_ref->digest, name);
    return kiln_file_write(kiln_arena_printf(b->process, "%s/blobs/%s", b->part, name), bytes,
                           0644);
}

static int append_text(const char *text, size_t size, void *out) {
    kiln_strbuf_append(out, text, size);
    return 0;
}

static void print_line(json_t *object, kiln_strbuf *out) {
    json_dump_callback(object, append_text, out,
                       JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));
    kiln_strbuf_char(out, '\n');
    json_decref(object);
}

static kiln_status begin_folder(batch *b) {
    if (kiln_file_exists(b->folder))
        return KILN_ERROR(ALREADY_EXISTS, "%s exists already; name a new folder with -o",
                          b->folder);
    kiln_status st = kiln_file_is_folder(b->part) ? kiln_folder_remove(b->part) : NULL;
    if (!st) st = kiln_folder_create(kiln_arena_printf(b->process, "%s/blobs", b->part), 0755);
    return st ? st : kiln_identity_create(b->job);
}

static kiln_status write_part(const batch *b, const char *name, const kiln_strbuf *content) {
    return kiln_file_write(kiln_arena_printf(b->process, "%s/%s", b->part, name),
                           kiln_strbuf_view(content), 0644);
}

static kiln_status end_folder(batch *b) {
    kiln_strbuf frames = {0};
    const kiln_message lease = {.type = KILN_MSG_LEASE_REQ,
                                .lease_req = {.request = 1,
                                              .job = kiln_str_from(b->job),
                                              .target = kiln_str_from(b->target_text),
                                              .trials = b->trial_count}};
    if (b->trial_count == 0)
        return KILN_ERROR(NOT_FOUND, "there is no candidate to measure: %u could not be built",
                          b->failed_count);
    kiln_status st = kiln_frame_write_message(&frames, &lease);
    kiln_strbuf_str(&frames, kiln_strbuf_view(&b->trials));
    if (!st) st = write_part(b, "trials", &frames);
    if (!st) st = write_part(b, "records.jsonl", &b->records);
    if (!st) st = write_part(b, "rows.jsonl", &b->rows);
    kiln_strbuf_deinit(&frames);
    if (!st && rename(b->part, b->folder) != 0)
        st = KILN_ERROR(PERMISSION_DENIED, "%s: %s", b->folder, strerror(errno));
    return st;
}

/* ---- what is drawn ---- */

static kiln_status take_reference(void *context, const kiln_task *task, kiln_str reference) {
    batch *b = context;
    kiln_strbuf text = {0};
    kiln_program_print(task->te, &text);
    const kiln_db_task row = {.key = task->key,
                              .op = task->op,
                              .canonical = kiln_strbuf_view(&text),
                              .flops = kiln_program_flops_with_zeros(task->te)};
    print_line(kiln_row_to_json(KILN_DB_TABLE_TASK, &row), &b->rows);
    kiln_strbuf_deinit(&text);
    b->task_count++;
    return write_blob(b, reference, &b->reference);
}

static kiln_status add_trial(batch *b, const kiln_db_record *record, kiln_str artefact) {
    const kiln_search_measure *measure = kiln_search_measure_of(b->target.emulated);
    kiln_message message = {.type = KILN_MSG_TRIAL,
                            .trial = {.trial = record->trial_id,
                                      .attempt = 1,
                                      .lease = 1,
                                      .job = kiln_str_from(b->job),
                                      .reference = b->reference,
                                      .seed = b->drawing.seed,
                                      .policy = measure->policy,
                                      .deadlines_ms = measure->deadlines_ms}};
    if (b->trial_count == TRIALS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "more than %u trials: ask for fewer --candidates, or for some --tasks",
                          TRIALS_MAX);
    kiln_status st = write_blob(b, artefact, &message.trial.artefact);
    if (!st) st = kiln_frame_write_message(&b->trials, &message);
    if (st) return st;
    json_t *object = kiln_row_to_json(KILN_DB_TABLE_RECORD, record);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(measured); i++) json_object_del(object, measured[i]);
    print_line(object, &b->records);
    b->trial_count++;
    return NULL;
}

static kiln_status take_candidate(void *context, const kiln_task *task, const kiln_db_record *drawn,
                                  kiln_str artefact) {
    batch *b = context;
    char trial[KILN_HASH128_TEXT];
    kiln_db_record record = *drawn;
    kiln_trial_identity(kiln_str_from(b->job), task->key, (uint32_t)record.trial_index, trial);
    record.trial_id = kiln_str_from(trial);
    record.job_id = kiln_str_from(b->job);
    record.project = KILN_STR(KILN_PROJECT_DEFAULT);
    record.user = kiln_str_from(kiln_user_name(b->process));
    if (artefact.size) return add_trial(b, &record, artefact);
    b->failed_count++;
    print_line(kiln_row_to_json(KILN_DB_TABLE_RECORD, &record), &b->rows);
    return NULL;
}

static void take_refusal(void *context, const kiln_task *task, const char *why) {
    (void)context;
    fprintf(stderr, "%.*s is left out: %s\n", KILN_STR_ARG(task->op), why);
}

/* Rows that the records refer to. */
static void print_job(batch *b, const kiln_model *model) {
    char digest[KILN_DIGEST_TEXT];
    kiln_digest of_graph;
    kiln_digest_of(model->graph.data, model->graph.size, &of_graph);
    kiln_digest_print(&of_graph, digest);
    const kiln_db_target target = {.target = kiln_str_from(b->target_text)};
    const kiln_db_job job = {.id = kiln_str_from(b->job),
                             .model = kiln_str_from(kiln_file_name(model->path)),
                             .model_digest = kiln_str_from(digest),
                             .target = kiln_str_from(b->target_text),
                             .searcher = KILN_STR("batch"),
                             .trials_max = b->drawing.candidates,
                             .seed = (int64_t)b->drawing.seed,
                             .project = KILN_STR(KILN_PROJECT_DEFAULT),
                             .user = kiln_str_from(kiln_user_name(b->process)),
                             .state = KILN_STR("done"),
                             .opened_wall_ns = (int64_t)kiln_clock_wall_ns()};
    print_line(kiln_row_to_json(KILN_DB_TABLE_TARGET, &target), &b->rows);
    print_line(kiln_row_to_json(KILN_DB_TABLE_JOB, &job), &b->rows);
}

/* ---- the command ---- */

/* In a process without rights. */
static kiln_status find_tasks(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                              kiln_isolated_result *out_result) {
    const batch *b = call->work->context;
    kiln_compilation *c = NULL;
    kiln_status st = kiln_compilation_of_model(graph, &b->target, &b->accuracy, arena, &c);
    if (!st) st = kiln_limits_check(c);
    return st ? st : kiln_model_give_tasks(c, arena, out_result);
}

static void report(const batch *b) {
    if (b->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:s, s:i, s:i, s:i}", "event", "batch", "folder",
                                 b->folder, "target", b->target_text, "tasks", (int)b->task_count,
                                 "trials", (int)b->trial_count, "failed", (int)b->failed_count));
        return;
    }
    const char *executor = kiln_target_kind_executor(b->target.kind);
    const bool has_driver =
        !kiln_str_is(kiln_str_from(executor), "cpu") && !kiln_target_is_software(&b->target);
    printf("%s: %u candidates of %u tasks for %s; %u more could not be built\nmeasure them beside "
           "the device: kiln-rpc-server%s%s%s%s --batch %s\nthen import the results:        kiln "
           "db import --own %s/results.jsonl\n",
           b->folder, b->trial_count, b->task_count, b->target_text, b->failed_count,
           has_driver ? " --executor " : "", has_driver ? executor : "",
           kiln_target_is_software(&b->target) ? " --also " : "",
           kiln_target_is_software(&b->target) ? b->target_text : "", b->folder, b->folder);
}

static kiln_status draw(batch *b, const char *path, const kiln_import_options *import,
                        const char *db_path) {
    const kiln_offline_candidates_sink sink = {take_reference, take_candidate, take_refusal, b};
    kiln_model model = {0};
    kiln_compilation *compilation = NULL;
    kiln_model_work work = {.model = &model,
                            .doing = "compiling",
                            .run = find_tasks,
                            .context = b,
                            .precision = b->accuracy.precision};
    kiln_status st = kiln_model_read(path, import, b->process, &model);
    if (!st) st = kiln_model_take_tasks(&work, b->process, &compilation);
    if (!st && db_path) st = kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_READ, &b->drawing.db);
    if (!st) st = begin_folder(b);
    if (!st) print_job(b, &model);
    b->drawing.compilation = compilation;
    if (!st) st = kiln_offline_candidates_make(&b->drawing, &sink);
    if (!st) st = end_folder(b);
    if (st && kiln_file_is_folder(b->part)) kiln_status_free(kiln_folder_remove(b->part));
    kiln_db_close(b->drawing.db);
    kiln_model_deinit(&model);
    return st;
}

static const char *canonical(const kiln_target *target, kiln_arena *process) {
    kiln_strbuf text = {0};
    kiln_target_print(target, &text);
    const char *kept = kiln_str_dup(process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return kept;
}

/* A database that is named must be there. */
static kiln_status find_db(const char *option, kiln_arena *process, const char **out_path) {
    const char *path = NULL;
    kiln_status st = kiln_db_path(option, process, &path);
    if (!st && option) st = kiln_db_check_there(path);
    *out_path = !st && kiln_db_is_there(path) ? path : NULL;
    return st;
}

kiln_status kiln_cmd_batch(kiln_arena *process, int argc, char **argv) {
    const char *target = NULL, *db_option = NULL, *db_path = NULL, *search = "random";
    uint64_t threads = 0, candidates = CANDIDATES_DEFAULT;
    kiln_opt_list dim = {0};
    kiln_import_options import = {0};
    kiln_accuracy_options accuracy = {0};
    char *program = NULL;
    batch b = {.process = process};
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &target, "T", "device of the candidates (default native)"},
        KILN_THREADS_OPTION(&threads),
        {"candidates", KILN_OPT_COUNT, &candidates, "N",
         "candidates per task at most (default 32)"},
        {"tasks", KILN_OPT_TEXT, &b.drawing.tasks, "PART",
         "only tasks with this in their key or their operators"},
        {"search", KILN_OPT_TEXT, &search, "NAME", searchers_help},
        {"seed", KILN_OPT_COUNT, &b.drawing.seed, "N", "seed of draws and inputs (default 0)"},
        {"dim", KILN_OPT_LIST, &dim, "NAME=N", kiln_dim_help},
        {"db", KILN_OPT_TEXT, &db_option, "PATH",
         "records database: measured candidates are not drawn again, and the search learns from "
         "them (default $KILN_HOME/kiln.db)"},
        KILN_ACCURACY_OPTIONS(&accuracy),
        {"output|o", KILN_OPT_TEXT, &b.folder, "FOLDER", "folder to write; it must not exist"},
        {"json", KILN_OPT_FLAG, &b.json, NULL, "print one object"},
    };
    const kiln_opt_table table = {
        "kiln batch MODEL --target T -o FOLDER [options]",
        "Builds candidates of a model's kernels for a device without a connection to a tracker. "
        "Copy the folder to its machine, measure it there with kiln-rpc-server --batch FOLDER, and "
        "import FOLDER/results.jsonl here with kiln db import --own.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    if (!b.folder) return KILN_ERROR(INVALID_ARGUMENT, "-o FOLDER is missing");
    if (candidates == 0 || candidates > TRIALS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--candidates is 1 to %u", TRIALS_MAX);
    st = kiln_target_option(target, threads, process, &b.target);
    if (!st) st = kiln_dim_option(&dim, process, &import);
    if (!st) st = kiln_accuracy_option(&accuracy, &b.accuracy);
    if (!st) st = kiln_searcher_find(kiln_str_from(search), &b.drawing.searcher);
    if (!st) st = find_db(db_option, process, &db_path);
    if (!st) st = kiln_proc_sibling("kiln-tuner", process, &program);
    if (st) return st;
    b.target_text = canonical(&b.target, process);
    b.part = kiln_arena_printf(process, "%s.part", b.folder);
    b.drawing.target = &b.target;
    b.drawing.accuracy = b.accuracy;
    b.drawing.candidates = (uint32_t)candidates;
    b.drawing.program = program;
    b.drawing.builder_count = (uint32_t)KILN_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    st = draw(&b, args.positional[0], &import, db_path);
    if (!st) report(&b);
    kiln_strbuf_deinit(&b.trials);
    kiln_strbuf_deinit(&b.records);
    kiln_strbuf_deinit(&b.rows);
    return st;
}
