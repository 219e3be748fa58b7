/* The route that opens a job: POST /jobs. A worker reads the model and asks the tracker, as the
 * person, so that the tracker applies rights and quotas. */
#include <string.h>

#include "base/clock.h"
#include "web/compile.h"
#include "web/lists.h"

#define OPEN_NS (UINT64_C(300) * KILN_NS_PER_S) /* reading a large model takes minutes */

/* In the call's arena: the request lives until it is answered. */
typedef struct opening {
    kiln_call *call;
    kiln_compile_ask ask;
    kiln_str job;
} opening;

static const char *copy_text(const kiln_call *call, const char *name) {
    return kiln_str_dup(kiln_http_arena(call->request), kiln_call_text(call, name));
}

static kiln_status read_ask(kiln_call *call, kiln_compile_ask *out) {
    *out = (kiln_compile_ask){.person = call->session.who.name,
                              .project = copy_text(call, "project"),
                              .trials = kiln_call_u64(call, "trials", 0),
                              .seconds = kiln_call_u64(call, "seconds", 0)};
    const bool has_trials = kiln_call_param(call, "trials")->is_given;
    const bool has_seconds = kiln_call_param(call, "seconds")->is_given;
    if (has_trials && has_seconds)
        return KILN_ERROR(INVALID_ARGUMENT, "name trials or seconds, not both");
    if ((has_trials && !out->trials) || (has_seconds && !out->seconds))
        return KILN_ERROR(INVALID_ARGUMENT, "trials and seconds are at least 1");
    return kiln_uploads_resolve(call->web->uploads, out->person, kiln_call_text(call, "model"),
                                &out->model);
}

static void set_given(const kiln_call *call, const char *name, kiln_worker_settings *settings) {
    const char *text = copy_text(call, name);
    if (*text) kiln_worker_set(settings, name, text);
}

static void collect(const opening *o, kiln_worker_settings *settings) {
    kiln_call *call = o->call;
    kiln_arena *arena = kiln_call_arena(call);
    const kiln_param *dims = kiln_call_param(call, "dims");
    kiln_compile_set_job(call->web->compile, &o->ask, settings, arena);
    kiln_worker_set(settings, "detach", NULL);
    const char *name = copy_text(call, "name");
    if (*name) kiln_worker_set(settings, "model-name", name);
    set_given(call, "target", settings);
    set_given(call, "job", settings);
    set_given(call, "precision", settings);
    set_given(call, "accuracy", settings);
    for (uint32_t i = 0; i < dims->text_count; i++)
        kiln_worker_set(settings, "dim", kiln_str_dup(arena, dims->texts[i]));
    if (kiln_call_param(call, "priority")->is_given)
        kiln_worker_set(settings, "priority",
                        kiln_arena_printf(arena, "%llu",
                                          (unsigned long long)kiln_call_u64(call, "priority", 0)));
}

/* {"event":"detached","job":"..."} */
static void on_heard(void *context, uint32_t kind, kiln_str text) {
    opening *o = context;
    if (kind != KILN_REQUEST_RESULT) return;
    json_t *event = json_loadb(text.data, text.size, 0, NULL);
    const char *job = json_string_value(json_object_get(event, "job"));
    if (job) o->job = kiln_str_copy(kiln_call_arena(o->call), kiln_str_from(job));
    json_decref(event);
}

static void on_opened(void *context, kiln_status st) {
    opening *o = context;
    if (st) st = kiln_status_hide_path(st, kiln_model_file_path(o->ask.model), "model");
    kiln_model_file_release(o->ask.model);
    if (!st && !o->job.size) st = KILN_ERROR(INTERNAL, "the job has no identity");
    if (st) {
        kiln_http_answer_error(o->call->request, st);
        return;
    }
    const kiln_message question = {.type = KILN_MSG_QUERY,
                                   .query = {.topic = KILN_TOPIC_JOB, .id = o->job}};
    kiln_web_answer_row(o->call, &question);
}

void kiln_web_open_job(kiln_call *call) {
    opening *o = KILN_ARENA_NEW(kiln_call_arena(call), opening);
    kiln_worker_settings settings = {.count = 0};
    kiln_worker *worker = NULL;
    *o = (opening){.call = call};
    kiln_status st = read_ask(call, &o->ask);
    if (!st) {
        collect(o, &settings);
        const kiln_worker_order order = {.kind = KILN_WORKER_SHORT,
                                         .what = KILN_REQUEST_TUNE,
                                         .subject = kiln_model_file_path(o->ask.model),
                                         .setting = settings.item,
                                         .setting_count = settings.count,
                                         .heard = on_heard,
                                         .ended = on_opened,
                                         .context = o};
        st = kiln_workers_start(call->web->workers, &order, &worker);
    }
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    kiln_model_file_hold(o->ask.model);
    kiln_http_set_deadline(call->request, OPEN_NS);
}
