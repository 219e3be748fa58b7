#include "web/events.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "web/copy.h"
#include "web/routes.h"

#define TICK_NS (KILN_NS_PER_S / KILN_EVENTS_PER_S)
#define FIRST_BYTES ((size_t)256 << 10) /* of the events that bring all rows: without a pause */
#define CACHED 16u
#define OK 200u

static const char *const kind_name[KILN_ROWS_KINDS] = {"boards", "jobs"};

/* A job whose tasks the reader wants. */
typedef struct watched_job {
    char id[KILN_MESSAGES_TEXT + 1];
    uint64_t seq;    /* of the row when the tracker was asked last */
    bool is_asked;   /* no answer yet */
    kiln_strbuf row; /* to be sent */
} watched_job;

typedef struct reader {
    struct reader *next;
    kiln_events *events;
    kiln_call *call;
    uint64_t epoch, begun_ns, sent_ns;
    bool wants[KILN_ROWS_KINDS]; /* its rows are sent */
    bool listens[KILN_ROWS_KINDS];
    bool is_dirty;                        /* something may have changed */
    bool is_catching_up[KILN_ROWS_KINDS]; /* all rows are sent, without pauses */
    kiln_event_cursor cursor[KILN_ROWS_KINDS];
    kiln_copy_listener listener[KILN_ROWS_KINDS];
    watched_job job[KILN_EVENTS_JOBS_MAX];
    uint32_t job_count;
    uint32_t asked_count; /* questions that refer to it */
    bool is_ended;        /* freed with the last of them */
} reader;

/* Readers of one person that have the same rows get the same event: it is printed once. */
typedef struct cached_event {
    uint64_t epoch, from, to;
    uint64_t newest; /* the rows' `seq` when it was printed; 0: unused */
    kiln_rows_kind kind;
    bool is_all; /* for readers without any row */
    bool more;
    kiln_strbuf text;
} cached_event;

struct kiln_events {
    kiln_loop *loop;
    kiln_timer *timer;
    reader *readers;
    cached_event cache[CACHED];
    uint32_t cache_next;
};

/* ---- Events ---- */

static void begin_event(const reader *r, const char *name, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "event: %s\nid: %llu-%llu-%llu\ndata: {", name,
                       (unsigned long long)r->epoch,
                       (unsigned long long)r->cursor[KILN_ROWS_BOARDS].seq,
                       (unsigned long long)r->cursor[KILN_ROWS_JOBS].seq);
}

static cached_event *find_cached(kiln_events *e, uint64_t epoch, const kiln_rows *rows,
                                 const kiln_event_cursor *cursor) {
    for (uint32_t i = 0; i < CACHED; i++) {
        cached_event *c = &e->cache[i];
        if (c->newest && c->newest == rows->seq && c->epoch == epoch && c->kind == rows->kind &&
            c->from == cursor->seq && c->is_all == !cursor->is_known)
            return c;
    }
    return NULL;
}

/* The members of the next event; NULL: there is none. */
static const cached_event *next_event(reader *r, kiln_rows_kind kind, const kiln_rows *rows) {
    kiln_events *e = r->events;
    kiln_event_cursor *cursor = &r->cursor[kind];
    cached_event *c = find_cached(e, r->epoch, rows, cursor);
    r->is_catching_up[kind] |= !cursor->is_known;
    if (c) {
        *cursor = (kiln_event_cursor){true, c->to};
        r->is_catching_up[kind] &= c->more;
        return c;
    }
    c = &e->cache[e->cache_next++ % CACHED];
    kiln_strbuf_reset(&c->text);
    c->newest = rows->seq;
    c->is_all = !cursor->is_known;
    c->epoch = r->epoch;
    c->kind = kind;
    c->from = cursor->seq;
    const size_t bytes_max = r->is_catching_up[kind] ? FIRST_BYTES : KILN_EVENT_BYTES;
    if (!kiln_event_print(rows, bytes_max, kiln_loop_now_ns(e->loop), cursor, &c->text, &c->more)) {
        c->newest = 0;
        return NULL;
    }
    c->to = cursor->seq;
    r->is_catching_up[kind] &= c->more;
    return c;
}

/* Another copy: what the reader has of the one before counts no more. */
static void check_epoch(reader *r) {
    const uint64_t epoch = kiln_copy_epoch(r->call->person);
    if (r->epoch == epoch) return;
    r->epoch = epoch;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) r->cursor[i] = (kiln_event_cursor){0};
}

static void print_rows(reader *r, kiln_rows_kind kind, kiln_strbuf *out) {
    const kiln_rows *rows = kiln_copy_rows(r->call->person, kind);
    if (!r->wants[kind] || !rows) return;
    const cached_event *event = next_event(r, kind, rows);
    if (!event) return;
    begin_event(r, kind_name[kind], out);
    kiln_strbuf_str(out, kiln_strbuf_view(&event->text));
    kiln_strbuf_text(out, "}\n\n");
    r->is_dirty |= event->more;
}

/* ---- Jobs with their tasks ---- */

static void free_reader(reader *r) {
    if (!r->is_ended || r->asked_count) return;
    for (uint32_t i = 0; i < r->job_count; i++) kiln_strbuf_deinit(&r->job[i].row);
    kiln_free(r);
}

typedef struct job_question {
    reader *reader;
    watched_job *job;
} job_question;

static void on_job(void *context, const kiln_message *answer, kiln_status st) {
    job_question *q = context;
    reader *r = q->reader;
    r->asked_count--;
    q->job->is_asked = false;
    kiln_strbuf_reset(&q->job->row);
    if (!st && answer->type == KILN_MSG_ANSWER && answer->answer.jobs.count == 1) {
        kiln_record_print_json(KILN_RECORD_job_row, answer->answer.jobs.item, &q->job->row);
        r->is_dirty = true;
    }
    kiln_status_free(st); /* the next change of the job asks again */
    kiln_free(q);
    free_reader(r);
}

static void ask_for_job(reader *r, watched_job *job) {
    const kiln_rows *rows = kiln_copy_rows(r->call->person, KILN_ROWS_JOBS);
    const kiln_row *row = rows ? kiln_rows_find(rows, kiln_str_from(job->id)) : NULL;
    if (!row || row->seq == job->seq || job->is_asked) return;
    const kiln_message question = {
        .type = KILN_MSG_QUERY, .query = {.topic = KILN_TOPIC_JOB, .id = kiln_str_from(job->id)}};
    job_question *q = kiln_alloc(sizeof *q);
    *q = (job_question){r, job};
    job->seq = row->seq;
    job->is_asked = true;
    r->asked_count++;
    kiln_person_ask(r->call->person, &question, on_job, q);
}

static void print_job(reader *r, watched_job *job, kiln_strbuf *out) {
    if (job->row.size) {
        begin_event(r, "job", out);
        kiln_strbuf_text(out, "\"row\":");
        kiln_strbuf_str(out, kiln_strbuf_view(&job->row));
        kiln_strbuf_text(out, "}\n\n");
        kiln_strbuf_reset(&job->row);
    }
    ask_for_job(r, job);
}

/* ---- kiln_http_stream ---- */

static kiln_http_step step(void *state, kiln_strbuf *out) {
    reader *r = state;
    const uint64_t now_ns = kiln_loop_now_ns(r->events->loop);
    if (now_ns - r->begun_ns >= KILN_EVENTS_LIFE_NS || kiln_person_is_refused(r->call->person))
        return KILN_HTTP_END;
    const bool is_first = r->sent_ns == 0;
    r->is_dirty = false;
    check_epoch(r);
    if (is_first) kiln_strbuf_text(out, "retry: 2000\n\n");
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) print_rows(r, (kiln_rows_kind)i, out);
    for (uint32_t i = 0; i < r->job_count; i++) print_job(r, &r->job[i], out);
    if (!out->size && now_ns - r->sent_ns >= KILN_EVENTS_QUIET_NS) kiln_strbuf_text(out, ":\n\n");
    if (out->size) r->sent_ns = now_ns;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++)
        if (r->is_catching_up[i] && out->size) return KILN_HTTP_MORE;
    return KILN_HTTP_WAIT;
}

static void end(void *state) {
    reader *r = state;
    reader **at = &r->events->readers;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++)
        if (r->listens[i]) kiln_copy_unlisten(r->call->person, (kiln_rows_kind)i, &r->listener[i]);
    r->is_ended = true;
    free_reader(r);
}

static void on_changed(void *context, kiln_rows_kind kind) {
    (void)kind;
    ((reader *)context)->is_dirty = true;
}

static void on_tick(void *context) {
    kiln_events *e = context;
    const uint64_t now_ns = kiln_loop_now_ns(e->loop);
    for (reader *r = e->readers, *next = NULL; r; r = next) {
        next = r->next;
        if (r->is_dirty || kiln_person_is_refused(r->call->person) ||
            now_ns - r->sent_ns >= KILN_EVENTS_QUIET_NS)
            kiln_http_wake(r->call->request);
    }
    if (e->readers) kiln_timer_start(e->timer, TICK_NS);
}

/* ---- GET /api/v1/events ---- */

static kiln_status add_topic(reader *r, kiln_str topic) {
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) {
        if (!kiln_str_is(topic, kind_name[i])) continue;
        r->wants[i] = r->listens[i] = true;
        return KILN_OK;
    }
    kiln_str id = topic;
    const kiln_str name = kiln_str_cut(&id, ':');
    if (!kiln_str_is(name, "job") || !id.size || id.size > KILN_MESSAGES_TEXT)
        return KILN_ERROR(INVALID_ARGUMENT, "topics are boards, jobs, and job:ID");
    if (r->job_count == KILN_EVENTS_JOBS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "more than %u topics job:ID", KILN_EVENTS_JOBS_MAX);
    r->listens[KILN_ROWS_JOBS] = true;
    memcpy(r->job[r->job_count++].id, id.data, id.size);
    return KILN_OK;
}

static kiln_status check_count(const kiln_events *e, const kiln_person *person) {
    uint32_t all = 0, of_person = 0;
    for (const reader *r = e->readers; r; r = r->next) {
        all++;
        of_person += r->call->person == person;
    }
    if (all < KILN_EVENTS_READERS_MAX && of_person < KILN_EVENTS_READERS_OF_PERSON) return KILN_OK;
    return KILN_ERROR(RESOURCE_EXHAUSTED, "too many open pages read events; close some");
}

/* Continues where the last connection of this reader ended. */
static void resume(reader *r, kiln_str id) {
    uint64_t epoch = 0, seq[KILN_ROWS_KINDS];
    if (!kiln_event_id_parse(id, &epoch, seq)) return;
    r->epoch = epoch;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) r->cursor[i] = (kiln_event_cursor){true, seq[i]};
}

static void begin(reader *r, kiln_events *e, kiln_call *call) {
    r->events = e;
    r->call = call;
    r->begun_ns = kiln_loop_now_ns(e->loop);
    r->next = e->readers;
    e->readers = r;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) {
        r->listener[i] = (kiln_copy_listener){.changed = on_changed, .context = r};
        if (r->listens[i])
            kiln_copy_listen(e->loop, call->person, (kiln_rows_kind)i, &r->listener[i]);
    }
    kiln_timer_start(e->timer, TICK_NS);
    const kiln_http_stream stream = {"text/event-stream", r, step, end};
    kiln_http_answer_stream(call->request, OK, &stream);
}

void kiln_web_events(kiln_call *call) {
    kiln_events *e = call->web->events;
    reader *r = kiln_alloc(sizeof *r);
    kiln_str topics = kiln_call_text(call, "topics");
    kiln_status st = check_count(e, call->person);
    while (!st && topics.size) st = add_topic(r, kiln_str_cut(&topics, ','));
    if (st) {
        kiln_free(r);
        kiln_http_answer_error(call->request, st);
        return;
    }
    resume(r, kiln_call_text(call, "Last-Event-ID"));
    begin(r, e, call);
}

/* ---- Life ---- */

kiln_events *kiln_events_create(kiln_loop *loop) {
    kiln_events *e = kiln_alloc(sizeof *e);
    e->loop = loop;
    e->timer = kiln_timer_create(loop, on_tick, e);
    return e;
}

void kiln_events_destroy(kiln_events *events) {
    if (!events) return;
    KILN_CHECK(events->readers == NULL);
    for (uint32_t i = 0; i < CACHED; i++) kiln_strbuf_deinit(&events->cache[i].text);
    kiln_timer_destroy(events->timer);
    kiln_free(events);
}
