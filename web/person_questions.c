/* Questions of persons to the tracker: they wait for the connection, are sent, and end with an
 * answer, an error or their time. */
#include "base/alloc.h"
#include "base/check.h"
#include "web/people_state.h"

static kiln_person_question *take_out(kiln_person *p, kiln_person_question **at) {
    kiln_person_question *q = *at;
    *at = q->next;
    if (!*at) p->last = at;
    p->question_count--;
    p->watch_count -= q->is_watch;
    return q;
}

static void free_question(kiln_person_question *q) {
    kiln_arena_deinit(&q->arena);
    kiln_free(q);
}

/* Takes the question, which is in no list, and the status. */
static void tell(kiln_person_question *q, const kiln_message *answer, kiln_status st) {
    if (q->answered)
        q->answered(q->context, answer, st);
    else
        q->done(q->context, &q->digest, st);
    free_question(q);
}

static void on_transferred(void *context, const kiln_digest *digest, kiln_status st) {
    (void)digest;
    kiln_person_question *q = context;
    if (!q->person) { /* it was told before, when its time was over */
        kiln_status_free(st);
        free_question(q);
        return;
    }
    kiln_person_question **at = &q->person->first;
    while (*at != q) at = &(*at)->next;
    tell(take_out(q->person, at), NULL, st);
}

/* The question is sent, and stays in the list until it is answered. */
static void send_question(kiln_person *p, kiln_person_question *q) {
    q->is_sent = true;
    if (q->is_upload) {
        kiln_blobs_upload(p->blobs, &q->digest, on_transferred, q);
    } else if (q->is_fetch) {
        kiln_blobs_fetch(p->blobs, &q->digest, on_transferred, q);
    } else {
        if (!q->message.stream) q->message.stream = kiln_conn_stream(p->conn);
        q->stream = q->message.stream;
        kiln_status st = kiln_conn_send(p->conn, &q->message);
        if (!st) return;
        kiln_person_question **at = &p->first;
        while (*at != q) at = &(*at)->next;
        tell(take_out(p, at), NULL, st);
    }
}

void kiln_person_send_all(kiln_person *p) {
    for (kiln_person_question *q = p->first, *next = NULL; q && p->is_open; q = next) {
        next = q->next;
        if (!q->is_sent && !q->is_refused) send_question(p, q);
    }
}

static kiln_status why_lost(const kiln_person *p) {
    if (kiln_person_is_refused(p))
        return kiln_status_make(kiln_status_code(p->why), __FILE__, __LINE__, "%s",
                                kiln_status_text(p->why));
    return KILN_ERROR(UNAVAILABLE, "the tracker cannot be reached: %s",
                      p->why ? kiln_status_text(p->why) : "no answer yet");
}

/* Ends those that were sent over a connection that is lost: the tracker may have acted on them.
 * Their transfers end by themselves. */
void kiln_person_end_sent(kiln_person *p) {
    for (kiln_person_question **at = &p->first; *at;) {
        kiln_person_question *q = *at;
        if (q->is_sent && q->answered) {
            tell(take_out(p, at), NULL,
                 KILN_ERROR(UNAVAILABLE,
                            "the connection to the tracker was lost before it answered"));
            at = &p->first; /* the list may have changed */
        } else {
            at = &q->next;
        }
    }
}

static kiln_status why_unanswered(const kiln_person *p, const kiln_person_question *q) {
    if (q->is_refused)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u requests of this person wait for the tracker",
                          KILN_PERSON_ASKED_MAX);
    return p->is_open ? KILN_ERROR(DEADLINE_EXCEEDED, "the tracker did not answer") : why_lost(p);
}

void kiln_person_end_overdue(kiln_person *p, uint64_t now_ns) {
    for (kiln_person_question **at = &p->first; *at;) {
        kiln_person_question *q = *at;
        const bool is_over = now_ns >= q->deadline_ns && !(q->is_sent && (q->done || q->is_watch));
        if (!is_over && !q->is_refused) {
            at = &q->next;
            continue;
        }
        tell(take_out(p, at), NULL, why_unanswered(p, q));
        at = &p->first;
    }
}

void kiln_person_answer(kiln_person *p, const kiln_message *message) {
    kiln_person_question **at = &p->first;
    while (*at && (!(*at)->is_sent || !(*at)->answered || (*at)->stream != message->stream))
        at = &(*at)->next;
    if (!*at) return;
    kiln_person_question *q = take_out(p, at);
    if (message->type == KILN_MSG_ERROR) {
        tell(q, NULL, kiln_status_from_error(&message->error));
        return;
    }
    const kiln_message printable = kiln_message_printable(message, &p->people->message);
    tell(q, &printable, KILN_OK);
    kiln_arena_reset(&p->people->message);
}

void kiln_person_end_all(kiln_person *p) {
    while (p->first) {
        kiln_person_question *q = take_out(p, &p->first);
        if (q->is_sent && q->done) { /* the transfer holds it until it ends */
            q->person = NULL;
            q->done(q->context, &q->digest, KILN_ERROR(CANCELLED, "the server ends"));
        } else {
            tell(q, NULL, KILN_ERROR(CANCELLED, "the server ends"));
        }
    }
}

/* Waits for its turn, so that nothing is told from inside. */
static void append_question(kiln_person *p, kiln_person_question *q) {
    if (p->is_dropped) {
        tell(q, NULL, KILN_ERROR(CANCELLED, "the server ends"));
        return;
    }
    q->person = p;
    q->deadline_ns = kiln_loop_now_ns(p->people->loop) + KILN_PERSON_WAIT_NS;
    q->is_refused = p->question_count >= KILN_PERSON_ASKED_MAX;
    *p->last = q;
    p->last = &q->next;
    p->question_count++;
    p->watch_count += q->is_watch;
    kiln_timer_start(p->people->soon, 0);
}

static void append_message(kiln_person *person, const kiln_message *message, bool is_watch,
                           kiln_person_answered answered, void *context) {
    kiln_person_question *q = kiln_alloc(sizeof *q);
    kiln_arena_init(&q->arena, 512);
    q->message = kiln_message_copy(message, &q->arena);
    if (!is_watch) q->message.stream = 0;
    q->is_watch = is_watch;
    q->answered = answered;
    q->context = context;
    append_question(person, q);
}

void kiln_person_ask(kiln_person *person, const kiln_message *message,
                     kiln_person_answered answered, void *context) {
    append_message(person, message, false, answered, context);
}

void kiln_person_watch(kiln_person *person, const kiln_message *message,
                       kiln_person_answered answered, void *context) {
    append_message(person, message, true, answered, context);
}

static void transfer(kiln_person *p, const kiln_digest *digest, bool up, kiln_blobs_done done,
                     void *context) {
    kiln_person_question *q = kiln_alloc(sizeof *q);
    q->digest = *digest;
    q->is_upload = up;
    q->is_fetch = !up;
    q->done = done;
    q->context = context;
    append_question(p, q);
}

void kiln_person_put_blob(kiln_person *person, const kiln_digest *digest, kiln_blobs_done done,
                          void *context) {
    transfer(person, digest, true, done, context);
}

void kiln_person_get_blob(kiln_person *person, const kiln_digest *digest, kiln_blobs_done done,
                          void *context) {
    transfer(person, digest, false, done, context);
}
