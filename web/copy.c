#include "web/copy.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"

#define ACK_NS                                                                                  \
    (UINT64_C(200) * KILN_NS_PER_MS)           /* rows that change often come once in that time \
                                                */
#define PASS_NS (UINT64_C(30) * KILN_NS_PER_S) /* between two looks for rows that are gone */
#define RETRY_NS KILN_NS_PER_S

typedef struct waiter {
    struct waiter *next;
    kiln_copy_ready ready;
    void *context;
} waiter;

/* A topic. It asks for all rows, and then for changes since the first of these answers. Later
 * passes over all rows only find those that are gone. */
typedef struct part {
    struct copy *copy;
    kiln_rows rows;
    bool is_passing;              /* QUERY is sent */
    bool is_watching;             /* WATCH is sent, or soon will be */
    bool is_complete;             /* all rows are here, as long as it is watching */
    uint32_t offset;              /* of the pass */
    uint64_t first_seq, seen_seq; /* the tracker's */
    uint32_t stream;              /* of WATCH */
    kiln_timer *ack, *pass;
    waiter *waiters;
    kiln_copy_listener *listeners;
} part;

typedef struct copy {
    kiln_loop *loop;
    kiln_person *person;
    uint64_t epoch;
    part part[KILN_ROWS_KINDS];
} copy;

static uint64_t now_ns(const part *p) { return kiln_loop_now_ns(p->copy->loop); }

/* ---- Telling ---- */

static void tell_waiters(part *p, kiln_status st) {
    while (p->waiters) {
        waiter *w = p->waiters;
        p->waiters = w->next;
        kiln_status own = st ? kiln_status_make(kiln_status_code(st), __FILE__, __LINE__, "%s",
                                                kiln_status_text(st))
                             : KILN_OK;
        w->ready(w->context, st ? NULL : &p->rows, own);
        kiln_free(w);
    }
}

static void tell_listeners(part *p) {
    for (kiln_copy_listener *l = p->listeners, *next = NULL; l; l = next) {
        next = l->next;
        l->changed(l->context, p->rows.kind);
    }
}

/* ---- Rows ---- */

static kiln_status put_rows(part *p, const kiln_msg_board_row *board, uint32_t board_count,
                            const kiln_msg_job_row *job, uint32_t job_count, bool is_change) {
    const uint64_t at_ns = now_ns(p);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < board_count; i++)
        st = kiln_rows_put(&p->rows, &board[i], is_change, at_ns);
    for (uint32_t i = 0; !st && i < job_count; i++)
        st = kiln_rows_put(&p->rows, &job[i], is_change, at_ns);
    return st;
}

static void on_change(void *context, const kiln_message *message, kiln_status st);

static void ask_for_changes(part *p) {
    const kiln_message question = {
        .type = KILN_MSG_WATCH,
        .stream = p->stream,
        .watch = {.topic = p->rows.kind == KILN_ROWS_BOARDS ? KILN_TOPIC_FLEET : KILN_TOPIC_JOBS,
                  .since = p->seen_seq}};
    p->is_watching = true;
    kiln_person_watch(p->copy->person, &question, on_change, p);
}

static void on_ack(void *context) { ask_for_changes(context); }

/* The connection is lost, or the tracker knows the changes no more. */
static void on_change(void *context, const kiln_message *message, kiln_status st) {
    part *p = context;
    if (!st && message->type != KILN_MSG_CHANGE)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(message->type));
    if (!st) {
        const kiln_msg_change *change = &message->change;
        p->seen_seq = change->seq;
        st = put_rows(p, change->boards.item, change->boards.count, change->jobs.item,
                      change->jobs.count, true);
    }
    if (!st) {
        kiln_timer_start(p->ack, ACK_NS);
        tell_listeners(p);
        return;
    }
    kiln_status_free(st); /* the next pass says it, too */
    p->is_watching = p->is_complete = false;
    if (p->listeners && !p->is_passing) kiln_timer_start(p->pass, RETRY_NS);
}

static void ask_for_rows(part *p);

static void end_pass(part *p) {
    const bool was_complete = p->is_complete;
    const uint64_t before = p->rows.seq;
    kiln_rows_end_pass(&p->rows);
    p->is_passing = false;
    p->is_complete = true;
    kiln_timer_start(p->pass, PASS_NS);
    if (!p->is_watching) {
        p->seen_seq = p->first_seq;
        p->stream = kiln_person_stream(p->copy->person);
        ask_for_changes(p);
    }
    tell_waiters(p, KILN_OK);
    if (!was_complete || p->rows.seq != before) tell_listeners(p);
}

/* Takes the status. */
static void fail_pass(part *p, kiln_status st) {
    p->is_passing = false;
    if (p->listeners || p->is_complete) kiln_timer_start(p->pass, RETRY_NS);
    tell_waiters(p, st);
    kiln_status_free(st);
}

/* A page of QUERY. While changes are watched a row that is known is not replaced. */
static void on_answer(void *context, const kiln_message *message, kiln_status st) {
    part *p = context;
    if (!st && message->type != KILN_MSG_ANSWER)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(message->type));
    if (st) {
        fail_pass(p, st);
        return;
    }
    const kiln_msg_answer *page = &message->answer;
    const uint32_t count = page->boards.count + page->jobs.count;
    const bool is_last = count == 0 || p->offset + count >= page->total;
    if (p->offset == 0) p->first_seq = page->seq;
    p->offset += count;
    st = put_rows(p, page->boards.item, page->boards.count, page->jobs.item, page->jobs.count,
                  !p->is_complete);
    if (st)
        fail_pass(p, st);
    else if (is_last)
        end_pass(p);
    else
        ask_for_rows(p);
}

static void ask_for_rows(part *p) {
    const kiln_message question = {
        .type = KILN_MSG_QUERY,
        .query = {.topic = p->rows.kind == KILN_ROWS_BOARDS ? KILN_TOPIC_FLEET : KILN_TOPIC_JOBS,
                  .offset = p->offset}};
    kiln_person_ask(p->copy->person, &question, on_answer, p);
}

static void begin_pass(part *p) {
    if (p->is_passing) return;
    p->is_passing = true;
    p->offset = 0;
    kiln_rows_begin_pass(&p->rows);
    ask_for_rows(p);
}

static void on_pass(void *context) { begin_pass(context); }

/* ---- Life ---- */

static void destroy(void *extra) {
    copy *c = extra;
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) {
        part *p = &c->part[i];
        KILN_CHECK(p->listeners == NULL);
        kiln_status st = KILN_ERROR(CANCELLED, "the server ends");
        tell_waiters(p, st);
        kiln_status_free(st);
        kiln_timer_destroy(p->ack);
        kiln_timer_destroy(p->pass);
        kiln_rows_deinit(&p->rows);
    }
    kiln_free(c);
}

static copy *copy_of(kiln_loop *loop, kiln_person *person) {
    copy *c = kiln_person_extra(person);
    if (c) return c;
    c = kiln_alloc(sizeof *c);
    c->loop = loop;
    c->person = person;
    kiln_status st = kiln_rand_system(&c->epoch, sizeof c->epoch);
    if (st) c->epoch = kiln_clock_wall_ns();
    kiln_status_free(st); /* the time differs, too */
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) {
        c->part[i].copy = c;
        c->part[i].rows.kind = (kiln_rows_kind)i;
        c->part[i].ack = kiln_timer_create(loop, on_ack, &c->part[i]);
        c->part[i].pass = kiln_timer_create(loop, on_pass, &c->part[i]);
    }
    kiln_person_set_extra(person, c, destroy);
    return c;
}

static void begin(part *p) {
    if (!p->is_complete) begin_pass(p);
}

void kiln_copy_get(kiln_loop *loop, kiln_person *person, kiln_rows_kind kind, kiln_copy_ready ready,
                   void *context) {
    part *p = &copy_of(loop, person)->part[kind];
    if (p->is_complete) {
        ready(context, &p->rows, KILN_OK);
        return;
    }
    waiter *w = kiln_alloc(sizeof *w);
    *w = (waiter){p->waiters, ready, context};
    p->waiters = w;
    begin(p);
}

void kiln_copy_listen(kiln_loop *loop, kiln_person *person, kiln_rows_kind kind,
                      kiln_copy_listener *listener) {
    part *p = &copy_of(loop, person)->part[kind];
    listener->next = p->listeners;
    p->listeners = listener;
    begin(p);
}

void kiln_copy_unlisten(kiln_person *person, kiln_rows_kind kind, kiln_copy_listener *listener) {
    copy *c = kiln_person_extra(person);
    kiln_copy_listener **at = &c->part[kind].listeners;
    while (*at != listener) at = &(*at)->next;
    *at = listener->next;
}

const kiln_rows *kiln_copy_rows(kiln_person *person, kiln_rows_kind kind) {
    copy *c = kiln_person_extra(person);
    return c && c->part[kind].is_complete ? &c->part[kind].rows : NULL;
}

uint64_t kiln_copy_epoch(kiln_person *person) {
    copy *c = kiln_person_extra(person);
    return c ? c->epoch : 0;
}
