#include "cli/autotvm_import.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/outcome.h"
#include "cli/autotvm_log.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/common/model_work.h"
#include "cli/common/names.h"
#include "db/import.h"
#include "proto/proto.h"
#include "tuner/plausible.h"

#define LOG_BYTES_MAX ((size_t)1 << 30)

/* A tile for a task of the model: the fastest of the lines that have it. */
typedef struct wish {
    uint32_t task;
    kiln_foreign_tile tile;
    uint32_t cost_count;
    const double *cost_ns;
    double least_ns;
} wish;

typedef struct importer {
    const kiln_autotvm_options *options;
    kiln_arena *process;
    kiln_compilation *compilation;
    kiln_db_import *import;
    kiln_str target;
    char job[KILN_HASH128_TEXT];
    KILN_VEC(wish) wishes;
    kiln_map wish_of; /* bytes of task and tile -> index + 1 */
    uint32_t lines, used[KILN_AUTOTVM_USE_COUNT], of_no_task;
    uint32_t repeated; /* the same schedule as another line's, for the same task */
    uint32_t no_tiles; /* wishes for tasks without schedules in tiles */
    uint32_t tasks, records;
} importer;

static void print_identity(const char *text, char out[KILN_HASH128_TEXT]) {
    kiln_hash128_print(kiln_hash128_of(text, strlen(text)), out);
}

/* ---- reading the log ---- */

static double least_of(const kiln_autotvm_line *line) {
    double least = line->cost_ns[0];
    for (uint32_t i = 1; i < line->cost_count; i++) least = KILN_MIN(least, line->cost_ns[i]);
    return least;
}

static void add_wish(importer *m, uint32_t task, const kiln_autotvm_line *line) {
    const int64_t key[] = {task, line->tile.rows, line->tile.columns, line->tile.lanes,
                           line->tile.steps};
    const kiln_str bytes = {(const char *)key, sizeof key};
    const double least = least_of(line);
    uint64_t at = 0;
    const bool known = kiln_map_find(&m->wish_of, bytes, &at);
    m->repeated += known;
    if (known && m->wishes.data[at].least_ns <= least) return;
    const wish one = {
        task, line->tile, line->cost_count,
        kiln_arena_copy(m->process, line->cost_ns, line->cost_count * sizeof line->cost_ns[0]),
        least};
    if (known) {
        m->wishes.data[at] = one;
        return;
    }
    kiln_map_put(&m->wish_of, bytes, m->wishes.count);
    kiln_vec_push_in(m->process, &m->wishes, one);
}

static void take_line(importer *m, const kiln_autotvm_line *line) {
    const kiln_tasks *tasks = &m->compilation->searched;
    bool found = false;
    m->used[line->use]++;
    if (line->use != KILN_AUTOTVM_TAKEN) return;
    for (uint32_t i = 0; i < tasks->count; i++) {
        if (!kiln_foreign_is(&line->work, tasks->task[i].te)) continue;
        found = true;
        add_wish(m, i, line);
    }
    m->of_no_task += !found;
}

static kiln_status read_log(importer *m, kiln_str rest) {
    uint64_t number = 0;
    while (rest.size) {
        const kiln_str text = kiln_str_trim(kiln_str_cut(&rest, '\n'));
        kiln_autotvm_line line;
        number++;
        if (!text.size) continue;
        kiln_status st = kiln_autotvm_parse(text, &line);
        if (st)
            return kiln_status_note(st, "%s:%llu (nothing was imported)", m->options->log,
                                    (unsigned long long)number);
        m->lines++;
        take_line(m, &line);
    }
    return KILN_OK;
}

/* ---- rows ---- */

static kiln_status put_job(importer *m, kiln_str log) {
    char digest[KILN_DIGEST_TEXT];
    kiln_digest of_log;
    kiln_digest_of(log.data, log.size, &of_log);
    kiln_digest_print(&of_log, digest);
    print_identity(
        kiln_arena_printf(m->process, "autotvm 1\n%.*s\n%s\n", KILN_STR_ARG(m->target), digest),
        m->job);
    kiln_db_target target = {.target = m->target};
    kiln_db_job job = {.id = kiln_str_from(m->job),
                       .model = kiln_str_from(kiln_file_name(m->options->model)),
                       .target = m->target,
                       .searcher = KILN_STR("autotvm"),
                       .user = kiln_str_from(kiln_user_name(m->process)),
                       .state = KILN_STR("done"),
                       .opened_wall_ns = (int64_t)kiln_clock_wall_ns()};
    kiln_status st = kiln_db_import_row(m->import, KILN_DB_TABLE_TARGET, &target);
    return st ? st : kiln_db_import_row(m->import, KILN_DB_TABLE_JOB, &job);
}

static kiln_status put_task(importer *m, const kiln_task *task) {
    kiln_strbuf text = {0};
    kiln_program_print(task->te, &text);
    kiln_db_task row = {.key = task->key,
                        .op = task->op,
                        .canonical = kiln_strbuf_view(&text),
                        .flops = kiln_program_flops_with_zeros(task->te)};
    kiln_status st = kiln_db_import_row(m->import, KILN_DB_TABLE_TASK, &row);
    kiln_strbuf_deinit(&text);
    m->tasks += !st;
    return st;
}

/* What no other field says stays empty: it ran on no board here, and nobody compared its output. */
static kiln_status put_record(importer *m, const wish *one, const kiln_trace *trace) {
    const kiln_task *task = &m->compilation->searched.task[one->task];
    const kiln_target *target = &m->options->target;
    char hash[KILN_HASH128_TEXT], trial[KILN_HASH128_TEXT];
    kiln_strbuf bytes = {0};
    kiln_trace_encode(trace, &bytes);
    kiln_hash128_print(kiln_trace_hash(trace), hash);
    print_identity(kiln_arena_printf(m->process, "autotvm 1\n%.*s\n%.*s\n%s\n%s\n%.17g\n",
                                     KILN_STR_ARG(task->key), KILN_STR_ARG(m->target), hash,
                                     kiln_codegen_version(), one->least_ns),
                   trial);
    kiln_db_record row = {.trial_id = kiln_str_from(trial),
                          .attempt = 1,
                          .job_id = kiln_str_from(m->job),
                          .task_key = task->key,
                          .target = m->target,
                          .trace = kiln_strbuf_view(&bytes),
                          .trace_hash = kiln_str_from(hash),
                          .codegen_version = kiln_str_from(kiln_codegen_version()),
                          .artefact_kind =
                              kiln_str_from(kiln_payload_name(kiln_payload_of(target->kind))),
                          .algorithm = KILN_STR("direct"),
                          .threads = target->threads,
                          .searcher = KILN_STR("autotvm"),
                          .outcome = kiln_str_from(kiln_outcome_name(KILN_OUTCOME_OK)),
                          .blame = kiln_str_from(kiln_blame_name(KILN_BLAME_NONE)),
                          .samples_ns = {one->cost_ns, one->cost_count},
                          .flops = kiln_program_flops_with_zeros(task->te),
                          .user = kiln_str_from(kiln_user_name(m->process)),
                          .stored_wall_ns = (int64_t)kiln_clock_wall_ns(),
                          .origin = kiln_str_from(kiln_db_origin_name(KILN_DB_ORIGIN_AUTOTVM))};
    kiln_status st = kiln_db_import_row(m->import, KILN_DB_TABLE_RECORD, &row);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* ---- schedules ---- */

typedef struct chosen {
    uint32_t wish;
    kiln_trace trace;
} chosen;

/* Of several wishes with one schedule the fastest stays. */
static kiln_status choose(importer *m, uint32_t task, const kiln_space *space, chosen *list,
                          uint32_t *count) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->wishes.count; i++) {
        const wish *one = &m->wishes.data[i];
        kiln_trace trace;
        uint32_t at = 0;
        if (one->task != task) continue;
        st = kiln_foreign_adopt(space, &one->tile, m->process, &trace);
        if (kiln_status_code(st) == KILN_UNIMPLEMENTED ||
            kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE) {
            kiln_status_free(st);
            st = KILN_OK;
            m->no_tiles++;
            continue;
        }
        if (st) break;
        const kiln_hash128 hash = kiln_trace_hash(&trace);
        for (; at < *count; at++) {
            const kiln_hash128 other = kiln_trace_hash(&list[at].trace);
            if (memcmp(&hash, &other, sizeof hash) == 0) break;
        }
        if (at == *count)
            list[(*count)++] = (chosen){i, trace};
        else
            m->repeated++;
        if (one->least_ns < m->wishes.data[list[at].wish].least_ns) list[at].wish = i;
    }
    return st;
}

static bool is_wished(const importer *m, uint32_t task) {
    for (uint32_t i = 0; i < m->wishes.count; i++)
        if (m->wishes.data[i].task == task) return true;
    return false;
}

static kiln_status import_task(importer *m, uint32_t index) {
    const kiln_compilation *compilation = m->compilation;
    const kiln_space_options options = {.layout = compilation->agreed[index]};
    const kiln_task *task = &compilation->searched.task[index];
    kiln_space space;
    uint32_t count = 0;
    kiln_status st =
        kiln_space_create_with(task->te, &m->options->target, &options, m->process, &space);
    if (st) return st;
    chosen *list = KILN_ARENA_ARRAY(m->process, chosen, m->wishes.count);
    st = choose(m, index, &space, list, &count);
    if (!st && count) st = put_task(m, task);
    for (uint32_t i = 0; !st && i < count; i++)
        st = put_record(m, &m->wishes.data[list[i].wish], &list[i].trace);
    m->records += count;
    return st;
}

/* ---- the whole ---- */

/* In a process without rights. */
static kiln_status find_tasks(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                              kiln_isolated_result *out_result) {
    const kiln_autotvm_options *options = call->work->context;
    const kiln_accuracy accuracy = {0};
    kiln_compilation *c = NULL;
    kiln_status st = kiln_compilation_of_model(graph, &options->target, &accuracy, arena, &c);
    return st ? st : kiln_model_give_tasks(c, arena, out_result);
}

static kiln_status compile(importer *m) {
    kiln_model model = {0};
    kiln_autotvm_options own = *m->options;
    kiln_model_work work = {
        .model = &model, .doing = "compiling", .run = find_tasks, .context = &own};
    kiln_status st = kiln_model_read(own.model, &own.import, m->process, &model);
    if (!st) st = kiln_model_take_tasks(&work, m->process, &m->compilation);
    kiln_model_deinit(&model);
    return st;
}

static kiln_status store(importer *m, kiln_str log, kiln_db_import_counts *counts) {
    kiln_db *db = NULL;
    kiln_db_import_options options = {.now_wall_ns = (int64_t)kiln_clock_wall_ns(),
                                      .implausible = kiln_plausible_why_not};
    kiln_status st = kiln_db_open(m->options->db, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (st) return st;
    options.context = kiln_plausible_create();
    kiln_db_import_begin(db, &options, &m->import);
    st = put_job(m, log);
    for (uint32_t i = 0; !st && i < m->compilation->searched.count; i++)
        if (is_wished(m, i)) st = import_task(m, i);
    st = kiln_db_import_end(m->import, st, counts);
    kiln_plausible_destroy(options.context);
    kiln_db_close(db);
    return st;
}

static void print(const importer *m, const kiln_db_import_counts *counts) {
    static const char *const use[] = {
#define X(NAME, text) text,
        KILN_AUTOTVM_USES(X)
#undef X
    };
    if (m->options->json) {
        kiln_json_line(
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "event", "autotvm",
                      "lines", (int)m->lines, "hints", (int)counts->hints, "tasks", (int)m->tasks,
                      "repeated", (int)m->repeated, "failed", (int)m->used[KILN_AUTOTVM_FAILED],
                      "no_template", (int)m->used[KILN_AUTOTVM_NO_TEMPLATE], "no_workload",
                      (int)m->used[KILN_AUTOTVM_NO_WORKLOAD], "no_task", (int)m->of_no_task,
                      "no_tiles", (int)m->no_tiles, "refused", (int)counts->refused));
        return;
    }
    printf("%u lines: %u hints for %u tasks of %s\n", m->lines, counts->hints, m->tasks,
           kiln_file_name(m->options->model));
    for (unsigned i = KILN_AUTOTVM_TAKEN + 1; i < KILN_AUTOTVM_USE_COUNT; i++)
        if (m->used[i]) printf("%u left out: %s\n", m->used[i], use[i]);
    if (m->of_no_task) printf("%u left out: of no task of the model\n", m->of_no_task);
    if (m->no_tiles)
        printf("%u left out: for kernels that have no such schedule here\n", m->no_tiles);
    if (m->repeated) printf("%u repeat a schedule: the fastest of them counts\n", m->repeated);
    if (counts->refused)
        printf("%u cannot be true and were left out (%s)\n", counts->refused, counts->refusal);
}

kiln_status kiln_autotvm_import(const kiln_autotvm_options *options, kiln_arena *process) {
    importer m = {.options = options, .process = process};
    kiln_db_import_counts counts = {0};
    kiln_strbuf target = {0};
    kiln_str log = {0};
    kiln_target_print(&options->target, &target);
    m.target = kiln_strbuf_end(&target, process);
    kiln_status st = kiln_file_read(options->log, LOG_BYTES_MAX, process, &log);
    if (!st) st = compile(&m);
    kiln_map_init(&m.wish_of);
    if (!st) st = read_log(&m, log);
    kiln_map_deinit(&m.wish_of);
    if (!st) st = store(&m, log, &counts);
    if (!st) print(&m, &counts);
    return st;
}
