/* Routes about jobs and their queue. */
#include <stdlib.h>

#include "base/alloc.h"
#include "web/lists.h"

#define OK 200u

/* ---- The list ---- */

static bool is_or_any(const kiln_call *call, const char *name, kiln_str text) {
    const kiln_param *param = kiln_call_param(call, name);
    return !param->is_given || kiln_str_equal(param->text, text);
}

static bool mentions(const kiln_msg_job_row *job, kiln_str part) {
    const kiln_str text[] = {job->job,  job->model_name, job->target,    job->user,
                             job->text, job->project,    job->tuner_name};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        if (kiln_text_contains(text[i], part)) return true;
    return false;
}

static bool fits(const kiln_call *call, const kiln_msg_job_row *job) {
    return is_or_any(call, "state", job->state) && is_or_any(call, "project", job->project) &&
           is_or_any(call, "user", job->user) &&
           kiln_text_contains(job->target, kiln_call_text(call, "target")) &&
           mentions(job, kiln_call_text(call, "q"));
}

/* Decoded rows of all jobs, in `arena`. */
static kiln_msg_job_row *decode_all(const kiln_rows *rows, uint64_t now_ns, kiln_arena *arena,
                                    uint32_t *out_count) {
    kiln_msg_job_row *job = KILN_ARENA_ARRAY(arena, kiln_msg_job_row, kiln_rows_count(rows));
    uint32_t cursor = 0, count = 0;
    uint64_t at = 0;
    kiln_str id;
    while (kiln_map_next(&rows->by_id, &cursor, &id, &at))
        kiln_row_job((const kiln_row *)(uintptr_t)at, now_ns, arena, &job[count++]);
    *out_count = count;
    return job;
}

static int compare_ages(const void *a, const void *b) {
    const kiln_msg_job_row *left = a, *right = b;
    if (left->age_ms != right->age_ms) return left->age_ms < right->age_ms ? -1 : 1;
    return kiln_str_compare(left->job, right->job);
}

static void on_jobs(void *context, const kiln_rows *rows, kiln_status st) {
    kiln_call *call = context;
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    kiln_list list = kiln_list_of(call);
    kiln_arena scratch;
    uint32_t count = 0;
    kiln_arena_init(&scratch, 0);
    kiln_msg_job_row *job = decode_all(rows, kiln_loop_now_ns(call->web->loop), &scratch, &count);
    if (count) qsort(job, count, sizeof *job, compare_ages);
    for (uint32_t i = 0; i < count; i++)
        if (fits(call, &job[i]) && kiln_list_add(&list))
            kiln_record_print_json(KILN_RECORD_job_row, &job[i], &list.body);
    kiln_arena_deinit(&scratch);
    kiln_list_answer(&list, call);
}

void kiln_web_list_jobs(kiln_call *call) {
    kiln_copy_get(call->web->loop, call->person, KILN_ROWS_JOBS, on_jobs, call);
}

/* ---- One job ---- */

static kiln_message question_of(kiln_call *call) {
    return (kiln_message){.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_JOB, .id = kiln_call_text(call, "id")}};
}

void kiln_web_show_job(kiln_call *call) {
    const kiln_message question = question_of(call);
    kiln_web_answer_row(call, &question);
}

/* The row afterwards. */
static void on_done(kiln_call *call, const kiln_message *answer, kiln_status st) {
    (void)answer;
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        kiln_web_show_job(call);
}

void kiln_web_cancel_job(kiln_call *call) {
    const kiln_message question = {.type = KILN_MSG_CANCEL,
                                   .cancel = {.scope = KILN_CANCEL_JOB,
                                              .id = kiln_call_text(call, "id"),
                                              .reason = kiln_call_text(call, "reason")}};
    kiln_web_ask(call, &question, on_done);
}

void kiln_web_job_priority(kiln_call *call) {
    const kiln_message question = {
        .type = KILN_MSG_JOB_ORDER,
        .job_order = {.job = kiln_call_text(call, "id"),
                      .priority = (uint32_t)kiln_call_u64(call, "priority", 0)}};
    kiln_web_ask(call, &question, on_done);
}

/* ---- The queue ---- */

typedef struct queue {
    kiln_call *call;
    kiln_message question;
    kiln_strbuf jobs;                        /* items of the answer */
    KILN_VEC(kiln_msg_project_row) projects; /* in the call's arena */
} queue;

static void answer_queue(queue *q, kiln_status st);

/* Within a project the higher priority is first, then the older job. */
static int compare_turns(const void *a, const void *b) {
    const kiln_msg_job_row *left = a, *right = b;
    const int order = kiln_str_compare(left->project, right->project);
    if (order) return order;
    if (left->priority != right->priority) return left->priority > right->priority ? -1 : 1;
    return compare_ages(right, left);
}

static void print_waiting(const kiln_msg_job_row *job, uint32_t position, kiln_strbuf *out) {
    if (out->size) kiln_strbuf_char(out, ',');
    kiln_strbuf_text(out, "{\"job\":");
    kiln_json_print_text(job->job, out);
    kiln_strbuf_text(out, ",\"project\":");
    kiln_json_print_text(job->project, out);
    kiln_strbuf_text(out, ",\"user\":");
    kiln_json_print_text(job->user, out);
    kiln_strbuf_printf(out, ",\"position\":%u,\"priority\":%u,\"age_ms\":%llu,\"why\":", position,
                       job->priority, (unsigned long long)job->age_ms);
    kiln_json_print_text(job->text.size ? job->text : KILN_STR("waits for a tuner"), out);
    kiln_strbuf_char(out, '}');
}

/* A job waits for a tuner, or, once it runs, for boards. */
static bool waits(const kiln_msg_job_row *job) {
    return kiln_str_is(job->state, "waiting") ||
           (kiln_str_is(job->state, "running") && job->boards == 0 && job->text.size);
}

static void print_jobs(queue *q, const kiln_rows *rows) {
    kiln_arena scratch;
    uint32_t count = 0, position = 0;
    kiln_arena_init(&scratch, 0);
    kiln_msg_job_row *job =
        decode_all(rows, kiln_loop_now_ns(q->call->web->loop), &scratch, &count);
    if (count) qsort(job, count, sizeof *job, compare_turns);
    for (uint32_t i = 0; i < count; i++) {
        if (i && !kiln_str_equal(job[i].project, job[i - 1].project)) position = 0;
        if (waits(&job[i])) print_waiting(&job[i], ++position, &q->jobs);
    }
    kiln_arena_deinit(&scratch);
}

static uint64_t weight_of(const kiln_msg_project_row *project) {
    for (uint32_t i = 0; i < project->settings.count; i++)
        if (kiln_str_is(project->settings.item[i].name, kiln_setting_name(KILN_SETTING_WEIGHT)))
            return KILN_MAX(project->settings.item[i].value, UINT64_C(1));
    return 1;
}

/* Of boards held now, and of what a project with open jobs may have by its weight. */
static void print_projects(const queue *q, kiln_strbuf *out) {
    double weights = 0, boards = 0;
    for (uint32_t i = 0; i < q->projects.count; i++) {
        const kiln_msg_project_row *project = &q->projects.data[i];
        if (project->jobs) weights += (double)weight_of(project);
        boards += project->boards;
    }
    for (uint32_t i = 0; i < q->projects.count; i++) {
        const kiln_msg_project_row *project = &q->projects.data[i];
        const double weight = (double)weight_of(project);
        kiln_strbuf_printf(out, "%s{\"project\":", i ? "," : "");
        kiln_json_print_text(project->project, out);
        kiln_strbuf_printf(out,
                           ",\"weight\":%.0f,\"share\":%.6g,\"fair_share\":%.6g,\"boards\":%u,"
                           "\"jobs\":%u,\"queue\":%u,\"board_seconds\":%.6g}",
                           weight, boards > 0 ? project->boards / boards : 0.0,
                           project->jobs ? weight / weights : 0.0, project->boards, project->jobs,
                           project->queue, project->board_seconds);
    }
}

static void answer_queue(queue *q, kiln_status st) {
    kiln_strbuf body = {0};
    if (st) {
        kiln_strbuf_deinit(&q->jobs);
        kiln_http_answer_error(q->call->request, st);
        return;
    }
    kiln_strbuf_text(&body, "{\"jobs\":[");
    kiln_strbuf_str(&body, kiln_strbuf_view(&q->jobs));
    kiln_strbuf_text(&body, "],\"projects\":[");
    print_projects(q, &body);
    kiln_strbuf_text(&body, "]}");
    kiln_strbuf_deinit(&q->jobs);
    kiln_http_answer(q->call->request, OK, "application/json", &body);
}

static void on_projects(void *context, const kiln_message *answer, kiln_status st) {
    queue *q = context;
    kiln_arena *arena = kiln_call_arena(q->call);
    if (!st && answer->type != KILN_MSG_PROJECTS)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer->type));
    if (st) {
        answer_queue(q, st);
        return;
    }
    const kiln_msg_projects *page = &answer->projects;
    for (uint32_t i = 0; i < page->projects.count; i++) {
        kiln_msg_project_row row = page->projects.item[i];
        kiln_record_copy(KILN_RECORD_project_row, &row, arena);
        kiln_vec_push_in(arena, &q->projects, row);
    }
    q->question.project_query.offset += page->projects.count;
    if (page->projects.count && q->question.project_query.offset < page->total)
        kiln_person_ask(q->call->person, &q->question, on_projects, q);
    else
        answer_queue(q, KILN_OK);
}

static void on_queue(void *context, const kiln_rows *rows, kiln_status st) {
    queue *q = context;
    if (st) {
        answer_queue(q, st);
        return;
    }
    print_jobs(q, rows);
    kiln_person_ask(q->call->person, &q->question, on_projects, q);
}

void kiln_web_queue(kiln_call *call) {
    queue *q = kiln_arena_alloc(kiln_call_arena(call), sizeof *q);
    *q = (queue){.call = call, .question = {.type = KILN_MSG_PROJECT_QUERY}};
    kiln_copy_get(call->web->loop, call->person, KILN_ROWS_JOBS, on_queue, q);
}
