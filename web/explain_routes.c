/* Routes that worker processes answer: the text of a trial, and how good the cost model is. Both
 * replay stored schedules, which may be a stranger's. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "web/records.h"
#include "web/workers.h"

#define OK 200u
#define ANSWER_NS (UINT64_C(300) * KILN_NS_PER_S)
#define STAGE_SEGMENT 4u /* of /api/v1/trials/ID/STAGE */
#define SETTINGS_MAX (2u + KILN_DB_PROJECTS_MAX)

/* A request for a worker on behalf of a call. */
typedef struct asked {
    kiln_call *call;
    kiln_arena arena;
    kiln_strbuf text;
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

static void on_object(void *context, uint32_t kind, kiln_str text) {
    asked *a = context;
    if (kind != KILN_REQUEST_RESULT) return;
    kiln_strbuf_text(&a->text, a->text.size ? "," : "{\"items\":[");
    kiln_strbuf_str(&a->text, text);
}

/* New records change little within minutes, and an answer takes seconds of a processor. */
static void on_objects_ended(void *context, kiln_status st) {
    asked *a = context;
    if (!st) kiln_strbuf_text(&a->text, a->text.size ? "]}" : "{\"items\":[]}");
    finish(a, st, "application/json", "private, max-age=300");
}

static void on_readable(void *context, const kiln_db_projects *projects, kiln_status st) {
    asked *a = context;
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
                                     .subject =
                                         kiln_str_dup(&a->arena, kiln_call_text(call, "target")),
                                     .setting = setting,
                                     .setting_count = count,
                                     .heard = on_object,
                                     .ended = on_objects_ended,
                                     .context = a};
    if (!st && projects && !projects->count)
        st = KILN_ERROR(PERMISSION_DENIED, "you are a member of no project");
    if (!st) st = kiln_workers_start(call->web->workers, &order, &worker);
    if (st) on_objects_ended(a, st);
}

void kiln_web_cost_model(kiln_call *call) {
    asked *a = begin(call);
    kiln_records_find_projects(call, &a->arena, on_readable, a);
}
