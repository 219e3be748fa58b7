/* Routes that other processes answer: the text of a trial, how good the cost model is, what is in a
 * module. The first two replay stored schedules, which may be a stranger's. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "web/compile.h"
#include "web/records.h"
#include "web/workers.h"

#define OK 200u
#define ANSWER_NS (UINT64_C(300) * KILN_NS_PER_S)
#define INSPECT_NS (UINT64_C(60) * KILN_NS_PER_S)
#define INSPECT_BYTES_MAX ((size_t)64 << 20)
#define STAGE_SEGMENT 4u /* of /api/v1/trials/ID/STAGE */
#define SETTINGS_MAX (2u + KILN_DB_PROJECTS_MAX)

/* A request for a worker on behalf of a call. */
typedef struct asked {
    kiln_call *call;
    kiln_arena arena;
    kiln_strbuf text, trials, others;
    kiln_str target; /* of a cost model */
} asked;

static asked *begin(kiln_call *call) {
    asked *a = kiln_alloc(sizeof *a);
    *a = (asked){.call = call};
    kiln_arena_init(&a->arena, 0);
    kiln_http_set_deadline(call->request, ANSWER_NS);
    return a;
}

static void finish(asked *a, kiln_status st, const char *type, const char *keep) {
    kiln_http_request *r = a->call->request;
    if (st) {
        kiln_http_answer_error(r, st);
    } else {
        kiln_http_add_header(r, "Cache-Control", keep);
        kiln_http_answer(r, OK, type, &a->text);
    }
    kiln_strbuf_deinit(&a->text);
    kiln_strbuf_deinit(&a->trials);
    kiln_strbuf_deinit(&a->others);
    kiln_arena_deinit(&a->arena);
    kiln_free(a);
}

/* ---- /trials/ID/STAGE ------------------------------------------------------------------------ */

static void on_text(void *context, uint32_t kind, kiln_str text) {
    asked *a = context;
    if (kind != KILN_REQUEST_RESULT) return;
    json_t *event = json_loadb(text.data, text.size, 0, NULL);
    const json_t *value = json_object_get(event, "text");
    kiln_strbuf_append(&a->text, json_string_value(value), json_string_length(value));
    json_decref(event);
}

/* What a recorded trial is does not change. */
static void on_text_ended(void *context, kiln_status st) {
    finish(context, st, "text/plain; charset=utf-8", "private, max-age=86400");
}

static const char *stage_of(const kiln_call *call) {
    const kiln_str last = call->uri.segment[STAGE_SEGMENT];
    if (kiln_str_is(last, "assembly")) return "asm";
    if (kiln_str_is(last, "words")) return "words";
    return kiln_str_is(last, "loops") ? "loops" : "trace";
}

static kiln_status find_trial(kiln_db *db, kiln_question *q) {
    const kiln_db_filter filter = {.trial_id = kiln_call_text(q->call, "id"),
                                   .whose = KILN_DB_ANY,
                                   .limit = 1,
                                   .projects = q->projects};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_records(db, &filter, &q->arena, &record, &count);
    return !st && !count ? KILN_ERROR(NOT_FOUND, "there is no such trial") : st;
}

static void on_trial_found(kiln_question *q, kiln_status st) {
    kiln_call *call = q->call;
    kiln_worker *worker = NULL;
    asked *a = begin(call);
    const kiln_request_setting setting[] = {
        {"db", kiln_records_path(call->web->records)},
        {"stage", stage_of(call)},
    };
    const kiln_worker_order order = {.kind = KILN_WORKER_SHORT,
                                     .what = KILN_REQUEST_EXPLAIN,
                                     .subject = kiln_str_dup(&a->arena, kiln_call_text(call, "id")),
                                     .setting = setting,
                                     .setting_count = KILN_ARRAY_COUNT(setting),
                                     .heard = on_text,
                                     .ended = on_text_ended,
                                     .context = a};
    if (!st) st = kiln_workers_start(call->web->workers, &order, &worker);
    if (st) on_text_ended(a, st);
}

/* Which records a person may read is checked here: the worker may read all. */
void kiln_web_trial_text(kiln_call *call) {
    kiln_records_ask_for(call, find_trial, on_trial_found, NULL);
}

/* ---- /cost-model ----------------------------------------------------------------------------- */

/* Each is text of one object; the worker says what it is. */
static void on_object(void *context, uint32_t kind, kiln_str text) {
    asked *a = context;
    if (kind != KILN_REQUEST_RESULT) return;
    json_t *event = json_loadb(text.data, text.size, 0, NULL);
    const char *name = json_string_value(json_object_get(event, "event"));
    const bool is_trials = name && strcmp(name, "trials") == 0;
    kiln_strbuf *out = is_trials ? &a->trials : &a->text;
    if (!is_trials) kiln_strbuf_text(out, "{\"items\":[");
    kiln_strbuf_str(out, text);
    json_decref(event);
}

/* New records change little within minutes, and an answer takes seconds of a processor. */
static void on_objects_ended(void *context, kiln_status st) {
    asked *a = context;
    if (!st) {
        kiln_strbuf_str(&a->text, kiln_strbuf_view(&a->others));
        kiln_strbuf_text(&a->text, "],\"trials\":");
        kiln_strbuf_text(&a->text, a->trials.size ? a->trials.data : "null");
        kiln_strbuf_char(&a->text, '}');
    }
    finish(a, st, "application/json", "private, max-age=300");
}

/* The targets that have records, and how many; the one that is asked for, or has most, is kept. */
static kiln_status find_targets(kiln_db *db, kiln_question *q) {
    asked *a = q->user;
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    int64_t most = 0;
    const kiln_str wanted = kiln_call_text(q->call, "target");
    kiln_status st = kiln_db_stats_of(db, q->projects, &q->arena, &stat, &count);
    for (uint32_t i = 0; !st && i < count; i++) { /* each target once, with all its records */
        for (uint32_t k = i + 1; k < count; k++) {
            if (!stat[k].record_count || !kiln_str_equal(stat[i].target, stat[k].target)) continue;
            stat[i].record_count += stat[k].record_count;
            stat[k].record_count = 0;
        }
        if (!wanted.size && stat[i].record_count > most) {
            most = stat[i].record_count;
            a->target = kiln_str_copy(&a->arena, stat[i].target);
        }
    }
    if (wanted.size) a->target = kiln_str_copy(&a->arena, wanted);
    for (uint32_t i = 0; !st && i < count; i++) {
        if (!stat[i].record_count || kiln_str_equal(stat[i].target, a->target)) continue;
        kiln_strbuf_text(&a->others, ",{\"target\":");
        kiln_db_text_print_json(stat[i].target, &a->others);
        kiln_strbuf_printf(&a->others, ",\"records\":%lld}", (long long)stat[i].record_count);
    }
    return st;
}

static void start_judging(asked *a, const kiln_db_projects *projects) {
    kiln_call *call = a->call;
    kiln_worker *worker = NULL;
    const kiln_str task = kiln_call_text(call, "task");
    kiln_request_setting *setting = KILN_ARENA_ARRAY(&a->arena, kiln_request_setting, SETTINGS_MAX);
    uint32_t count = 0;
    setting[count++] = (kiln_request_setting){"db", kiln_records_path(call->web->records)};
    if (task.size) setting[count++] = (kiln_request_setting){"task", kiln_str_dup(&a->arena, task)};
    for (uint32_t i = 0; projects && i < projects->count; i++)
        setting[count++] =
            (kiln_request_setting){"project", kiln_str_dup(&a->arena, projects->name[i])};
    const kiln_worker_order order = {.kind = KILN_WORKER_SHORT,
                                     .what = KILN_REQUEST_COST_MODEL,
                                     .subject = kiln_str_dup(&a->arena, a->target),
                                     .setting = setting,
                                     .setting_count = count,
                                     .heard = on_object,
                                     .ended = on_objects_ended,
                                     .context = a};
    kiln_status st = projects && !projects->count
                         ? KILN_ERROR(PERMISSION_DENIED, "you are a member of no project")
                         : kiln_workers_start(call->web->workers, &order, &worker);
    if (st) on_objects_ended(a, st);
}

static void on_targets(kiln_question *q, kiln_status st) {
    asked *a = q->user;
    if (st) {
        on_objects_ended(a, st);
    } else if (!a->target.size) { /* there are no records */
        kiln_strbuf_text(&a->text, "{\"items\":[");
        on_objects_ended(a, KILN_OK);
    } else {
        start_judging(a, q->projects);
    }
}

void kiln_web_cost_model(kiln_call *call) {
    kiln_records_ask_for(call, find_targets, on_targets, begin(call));
}

/* ---- /modules/DIGEST/inspect ----------------------------------------------------------------- */

/* The command reads the module in a process of its own: it may be broken. */
typedef struct inspecting {
    kiln_call *call;
    kiln_arena arena;
    const char *path;
    kiln_strbuf text;
    kiln_status st;
} inspecting;

static void run_inspect(void *context) {
    inspecting *i = context;
    char *program = NULL;
    kiln_proc_result result = {0};
    i->st = kiln_proc_sibling("kiln", &i->arena, &program);
    if (i->st) return;
    const char *const argv[] = {program, "inspect", i->path, "--steps", "--json", NULL};
    const kiln_proc_options options = {
        .argv = argv, .deadline_ns = INSPECT_NS, .output_max = INSPECT_BYTES_MAX};
    i->st = kiln_proc_run(&options, &i->arena, &result);
    if (!i->st && (result.exit_code != 0 || result.out.size >= INSPECT_BYTES_MAX))
        i->st = KILN_ERROR(DATA_LOSS, "the module cannot be read");
    kiln_strbuf_char(&i->text, '[');
    for (kiln_str rest = i->st ? KILN_STR("") : result.out; rest.size;) {
        const kiln_str line = kiln_str_cut(&rest, '\n');
        if (i->text.size > 1) kiln_strbuf_char(&i->text, ',');
        kiln_strbuf_str(&i->text, line);
    }
    kiln_strbuf_char(&i->text, ']');
}

static void on_inspected(void *context) {
    inspecting *i = context;
    json_t *lines = i->st ? NULL : json_loadb(i->text.data, i->text.size, 0, NULL);
    json_object_del(json_array_get(lines, 0), "file"); /* a path of this machine */
    if (!i->st && !lines) i->st = KILN_ERROR(DATA_LOSS, "the module cannot be read");
    if (i->st)
        kiln_http_answer_error(i->call->request, i->st);
    else
        kiln_http_answer_json(i->call->request, OK, json_pack("{s:o}", "items", lines));
    kiln_strbuf_deinit(&i->text);
    kiln_arena_deinit(&i->arena);
    kiln_free(i);
}

void kiln_web_module_inspect(kiln_call *call) {
    const char *path = kiln_compile_module_of(call);
    if (!path) return;
    inspecting *i = kiln_alloc(sizeof *i);
    *i = (inspecting){.call = call};
    kiln_arena_init(&i->arena, 0);
    i->path = kiln_str_dup(&i->arena, kiln_str_from(path));
    kiln_http_set_deadline(call->request, ANSWER_NS);
    kiln_loop_work(call->web->loop, run_inspect, on_inspected, i);
}
