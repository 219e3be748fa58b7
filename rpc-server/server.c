#include "rpc-server/server.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"

#define ENTRY_ARENA_BYTES ((size_t)2 << 10)
#define FETCH_RETRY_NS UINT64_C(500000000)
#define DEADLINE_MAX_MS UINT64_C(600000) /* no trial may hold a slot for longer per phase */

typedef enum entry_state {
    ENTRY_FETCHING, /* blobs are missing */
    ENTRY_READY,    /* waits for its slot */
    ENTRY_RUNNING,
    ENTRY_KILLING, /* its child was told to die and is not gone yet */
    ENTRY_JUDGING, /* its child is gone; how it ended is being found out */
    ENTRY_KEPT,    /* has its result, which nobody acknowledged */
} entry_state;

/* Blobs of a trial: the reference, its artefact, those of its rivals. */
#define BLOBS_MAX (2u + KILN_MESSAGES_RIVALS)

/* A trial that we have heard of and may not forget. */
typedef struct entry {
    entry_state state;
    kiln_arena arena; /* of trial and result */
    kiln_msg_trial trial;
    bool is_void; /* its lease is over: nobody wants to know how it ends */
    bool have[BLOBS_MAX], fetching[BLOBS_MAX];
    uint32_t fetch_failures;
    uint64_t fetch_again_ns; /* 0: not due */
    uint64_t run;
    kiln_phase phase;
    uint64_t phase_since_ns, phase_until_ns; /* deadline of phase; of dying, when killing */
    uint64_t began_ns;                       /* when it came */
    kiln_msg_phases spent_ns;
    kiln_outcome kill_outcome; /* what the kill makes of it */
    const char *kill_text;
    kiln_msg_trial_result result;
    uint64_t resend_ns;
} entry;

struct kiln_server {
    kiln_link link;
    kiln_arena arena; /* of board */
    kiln_msg_board_up board;
    uint64_t slot_lease[KILN_SERVER_SLOTS_MAX]; /* newest lease each slot has seen */
    KILN_VEC(entry *) entry;                    /* in order of arrival */
    uint64_t last_run;
    kiln_msg_env env;
    bool stray;     /* a child did not die in time */
    char *unwell;   /* what the last reading said; NULL: well */
    bool told_sick; /* what the tracker knows */
    /* Of the step under way. */
    uint64_t now_ns;
    kiln_server_actions *actions;
};

/* ---- Actions ---- */

static kiln_server_action *add_action(kiln_server *s, kiln_server_action_kind kind) {
    kiln_server_action action = {.kind = kind};
    kiln_vec_push(&s->actions->list, action);
    return &kiln_vec_last(&s->actions->list);
}

static void send(kiln_server *s, const kiln_message *message) {
    if (s->link.state != KILN_LINK_UP) return;
    add_action(s, KILN_SERVER_SEND)->message = kiln_message_copy(message, &s->actions->arena);
}

void kiln_server_actions_reset(kiln_server_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_server_actions_deinit(kiln_server_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}

/* ---- Entries ---- */

static void remove_entry(kiln_server *s, entry *e) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        if (s->entry.data[i] != e) continue;
        memmove(&s->entry.data[i], &s->entry.data[i + 1], (--s->entry.count - i) * sizeof e);
        break;
    }
    kiln_arena_deinit(&e->arena);
    kiln_free(e);
}

static bool is_attempt(const entry *e, kiln_str trial, uint32_t attempt, uint64_t lease) {
    return e->trial.lease == lease && e->trial.attempt == attempt &&
           kiln_str_equal(e->trial.trial, trial);
}

static entry *find_entry(kiln_server *s, kiln_str trial, uint32_t attempt, uint64_t lease) {
    for (uint32_t i = 0; i < s->entry.count; i++)
        if (is_attempt(s->entry.data[i], trial, attempt, lease)) return s->entry.data[i];
    return NULL;
}

static bool has_child(const entry *e) {
    return e->state == ENTRY_RUNNING || e->state == ENTRY_KILLING;
}

static entry *find_run(kiln_server *s, uint32_t slot, uint64_t run) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        entry *e = s->entry.data[i];
        bool waits = has_child(e) || e->state == ENTRY_JUDGING;
        if (waits && e->trial.slot == slot && e->run == run) return e;
    }
    return NULL;
}

static uint64_t *spent(entry *e, kiln_phase phase) {
    switch (phase) {
    case KILN_PHASE_FETCH: return &e->spent_ns.fetch;
    case KILN_PHASE_LOAD: return &e->spent_ns.load;
    case KILN_PHASE_WARM: return &e->spent_ns.warm;
    case KILN_PHASE_RUN: return &e->spent_ns.run;
    case KILN_PHASE_CHECK: return &e->spent_ns.check;
    case KILN_PHASE_NONE:
    case KILN_PHASE_COUNT: break;
    }
    return NULL;
}

static uint64_t deadline_ns(const kiln_msg_phases *asked, kiln_phase phase) {
    const uint64_t asked_ms[] = {0,           asked->fetch, asked->load,
                                 asked->warm, asked->run,   asked->check};
    static const uint64_t default_ms[] = {0,
                                          KILN_SERVER_FETCH_MS,
                                          KILN_SERVER_LOAD_MS,
                                          KILN_SERVER_WARM_MS,
                                          KILN_SERVER_RUN_MS,
                                          KILN_SERVER_CHECK_MS};
    uint64_t ms = asked_ms[phase] ? asked_ms[phase] : default_ms[phase];
    return KILN_MIN(ms, DEADLINE_MAX_MS) * UINT64_C(1000000);
}

static void leave_phase(kiln_server *s, entry *e) {
    uint64_t *total = spent(e, e->phase);
    if (total) *total += s->now_ns - e->phase_since_ns;
}

static void enter_phase(kiln_server *s, entry *e, kiln_phase phase) {
    leave_phase(s, e);
    e->phase = phase;
    e->phase_since_ns = s->now_ns;
    e->phase_until_ns = s->now_ns + deadline_ns(&e->trial.deadlines_ms, phase);
    kiln_message event = {
        .type = KILN_MSG_TRIAL_EVENT,
        .trial_event = {.trial = e->trial.trial,
                        .attempt = e->trial.attempt,
                        .lease = e->trial.lease,
                        .phase = phase,
                        .elapsed_ns = s->now_ns - e->began_ns},
    };
    send(s, &event);
}

/* ---- Results ---- */

static void send_result(kiln_server *s, entry *e) {
    kiln_message message = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = e->result};
    send(s, &message);
    e->resend_ns = s->now_ns + KILN_SERVER_RESEND_NS;
}

/* The end of a trial, whatever it was. `result` need not be filled beyond its outcome and what was
 * measured. */
static void keep_result(kiln_server *s, entry *e, const kiln_msg_trial_result *result) {
    leave_phase(s, e);
    kiln_message message = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result};
    kiln_msg_trial_result *kept = &message.trial_result;
    kept->trial = e->trial.trial;
    kept->attempt = e->trial.attempt;
    kept->lease = e->trial.lease;
    kept->phase = e->phase;
    if (kept->text.size > KILN_MESSAGES_PROSE) kept->text.size = KILN_MESSAGES_PROSE;
    if (!kept->blame) kept->blame = kiln_outcome_blame((kiln_outcome)kept->outcome);
    /* The child times its phases better than we do; fetching is ours, and what it did not live to
     * tell. */
    kiln_msg_phases told = kept->times_ns;
    kept->times_ns = (kiln_msg_phases){
        .fetch = e->spent_ns.fetch,
        .load = told.load ? told.load : e->spent_ns.load,
        .warm = told.warm ? told.warm : e->spent_ns.warm,
        .run = told.run ? told.run : e->spent_ns.run,
        .check = told.check ? told.check : e->spent_ns.check,
    };
    e->result = kiln_message_copy(&message, &e->arena).trial_result;
    e->state = ENTRY_KEPT;
    send_result(s, e);
}

static void keep_failure(kiln_server *s, entry *e, kiln_outcome outcome, const char *text) {
    kiln_msg_trial_result result = {.outcome = outcome, .text = kiln_str_from(text)};
    keep_result(s, e, &result);
}

/* ---- Blobs ---- */

static uint32_t blob_count(const entry *e) { return 2 + e->trial.rivals.count; }

static const kiln_msg_blob_ref *blob_of(const entry *e, uint32_t which) {
    if (which == 0) return &e->trial.reference;
    return which == 1 ? &e->trial.artefact : &e->trial.rivals.item[which - 2];
}

static bool have_blobs(const entry *e) {
    uint32_t which = 0;
    while (which < blob_count(e) && e->have[which]) which++;
    return which == blob_count(e);
}

static void fetch_missing(kiln_server *s, entry *e) {
    e->fetch_again_ns = 0;
    for (uint32_t which = 0; which < blob_count(e); which++) {
        if (e->have[which] || e->fetching[which]) continue;
        kiln_server_action *action = add_action(s, KILN_SERVER_FETCH);
        action->digest = blob_of(e, which)->digest;
        action->size = blob_of(e, which)->size;
        e->fetching[which] = true;
    }
}

/* A fetch that fails once may have lost its connection, which we hear of only next; one that fails
 * on a connection that stays is final. */
static void on_fetched(kiln_server *s, const kiln_server_event *event) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        entry *e = s->entry.data[i];
        for (uint32_t which = 0; which < blob_count(e) && e->state == ENTRY_FETCHING; which++) {
            if (!e->fetching[which] ||
                !kiln_digest_equal(&blob_of(e, which)->digest, &event->digest))
                continue;
            e->fetching[which] = false;
            e->have[which] = !event->failure;
            if (!event->failure) continue;
            if (++e->fetch_failures >= 2)
                keep_failure(s, e, KILN_OUTCOME_INFRA, event->failure);
            else
                e->fetch_again_ns = s->now_ns + FETCH_RETRY_NS;
        }
        if (e->state == ENTRY_FETCHING && have_blobs(e)) e->state = ENTRY_READY;
    }
}

/* ---- Children ---- */

static void kill_child(kiln_server *s, entry *e, kiln_outcome outcome, const char *text) {
    if (e->state == ENTRY_KILLING) return;
    e->state = ENTRY_KILLING;
    e->kill_outcome = outcome;
    e->kill_text = text;
    e->phase_until_ns = s->now_ns + KILN_SERVER_KILL_NS;
    kiln_server_action *action = add_action(s, KILN_SERVER_KILL);
    action->slot = e->trial.slot;
    action->run = e->run;
}

/* Its lease is over: a child must die first, everything else is forgotten now. */
static void make_void(kiln_server *s, entry *e) {
    e->is_void = true;
    if (has_child(e))
        kill_child(s, e, KILN_OUTCOME_INFRA, "its lease is over");
    else
        remove_entry(s, e);
}

static void void_lease(kiln_server *s, uint64_t lease) {
    for (uint32_t i = s->entry.count; i-- > 0;)
        if (s->entry.data[i]->trial.lease == lease) make_void(s, s->entry.data[i]);
}

static bool is_sick(const kiln_server *s) { return s->stray || s->unwell; }

static void start(kiln_server *s, entry *e) {
    e->state = ENTRY_RUNNING;
    e->run = ++s->last_run;
    enter_phase(s, e, KILN_PHASE_LOAD);
    kiln_server_action *action = add_action(s, KILN_SERVER_START);
    kiln_message message = {.type = KILN_MSG_TRIAL, .trial = e->trial};
    kiln_msg_trial *trial = KILN_ARENA_NEW(&s->actions->arena, kiln_msg_trial);
    *trial = kiln_message_copy(&message, &s->actions->arena).trial;
    action->slot = e->trial.slot;
    action->run = e->run;
    action->trial = trial;
}

static void start_what_can(kiln_server *s) {
    bool taken[KILN_SERVER_SLOTS_MAX] = {false};
    for (uint32_t i = 0; i < s->entry.count; i++)
        if (has_child(s->entry.data[i])) taken[s->entry.data[i]->trial.slot] = true;
    for (uint32_t i = 0; i < s->entry.count && !is_sick(s); i++) {
        entry *e = s->entry.data[i];
        if (e->state != ENTRY_READY || taken[e->trial.slot]) continue;
        taken[e->trial.slot] = true;
        start(s, e);
    }
}

static void on_phase(kiln_server *s, const kiln_server_event *event) {
    entry *e = find_run(s, event->slot, event->run);
    if (!e || e->state != ENTRY_RUNNING) return;
    if (event->phase > e->phase && event->phase < KILN_PHASE_COUNT) enter_phase(s, e, event->phase);
}

/* The child is gone; nothing of it is left beside the next measurement. */
static void child_gone(kiln_server *s, entry *e) {
    s->stray = false;
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const entry *other = s->entry.data[i];
        if (other != e && other->state == ENTRY_KILLING && s->now_ns >= other->phase_until_ns)
            s->stray = true;
    }
}

/* The slot is free for the next one. A child that was killed has its end already. */
static void on_vacated(kiln_server *s, const kiln_server_event *event) {
    entry *e = find_run(s, event->slot, event->run);
    if (!e || e->state == ENTRY_JUDGING) return;
    child_gone(s, e);
    if (e->is_void)
        remove_entry(s, e);
    else if (e->state == ENTRY_KILLING)
        keep_failure(s, e, e->kill_outcome, e->kill_text);
    else
        e->state = ENTRY_JUDGING;
}

static void on_finished(kiln_server *s, const kiln_server_event *event) {
    entry *e = find_run(s, event->slot, event->run);
    if (!e) return;
    child_gone(s, e);
    if (e->is_void)
        remove_entry(s, e);
    else
        keep_result(s, e, event->result);
}

static void on_died(kiln_server *s, const kiln_server_event *event) {
    entry *e = find_run(s, event->slot, event->run);
    if (!e) return;
    child_gone(s, e);
    if (e->is_void)
        remove_entry(s, e);
    else if (e->state == ENTRY_KILLING)
        keep_failure(s, e, e->kill_outcome, e->kill_text);
    else
        keep_failure(s, e, KILN_OUTCOME_CRASH, event->text ? event->text : "the child died");
}

/* ---- The board's health ---- */

static void tell_state(kiln_server *s) {
    s->told_sick = is_sick(s);
    kiln_message message = {
        .type = KILN_MSG_BOARD_STATE,
        .board_state = {.env = s->env,
                        .sick = s->told_sick,
                        .text =
                            kiln_str_from(s->stray ? "a killed child does not die" : s->unwell)},
    };
    send(s, &message);
}

static void on_reading(kiln_server *s, const kiln_server_event *event) {
    kiln_free(s->unwell);
    s->unwell = NULL;
    if (event->failure) {
        size_t size = strlen(event->failure) + 1;
        s->unwell = memcpy(kiln_alloc(size), event->failure, size);
    }
    if (event->env) s->env = *event->env;
    s->env.governor = (kiln_str){0}; /* a view of the caller's; BOARD_UP said it once */
    tell_state(s);
}

/* ---- Messages ---- */

static void refuse(kiln_server *s, const kiln_msg_trial *trial, kiln_code code, const char *text) {
    kiln_message error = kiln_message_error(code, 0, text);
    error.error.about = trial->trial;
    error.error.lease = trial->lease;
    send(s, &error);
}

/* The fence. A newer lease than the slot has seen ends all that came under older ones. */
static bool pass_fence(kiln_server *s, const kiln_msg_trial *trial) {
    uint64_t *newest = &s->slot_lease[trial->slot];
    if (trial->lease < *newest) return false;
    *newest = trial->lease;
    for (uint32_t i = s->entry.count; i-- > 0;) {
        entry *e = s->entry.data[i];
        if (e->trial.slot == trial->slot && e->trial.lease < trial->lease && !e->is_void)
            make_void(s, e);
    }
    return true;
}

static void on_trial(kiln_server *s, const kiln_message *message) {
    const kiln_msg_trial *trial = &message->trial;
    if (trial->slot >= s->board.slots) {
        refuse(s, trial, KILN_INVALID_ARGUMENT, "the board has no such slot");
        return;
    }
    entry *known = find_entry(s, trial->trial, trial->attempt, trial->lease);
    if (known) { /* a repeated message; the answer may have been lost */
        if (known->state == ENTRY_KEPT) send_result(s, known);
        return;
    }
    if (!pass_fence(s, trial)) {
        refuse(s, trial, KILN_ABORTED, "the slot has seen a newer lease");
        return;
    }
    if (s->entry.count >= KILN_SERVER_TRIALS_MAX) {
        refuse(s, trial, KILN_RESOURCE_EXHAUSTED, "too many trials on this board");
        return;
    }
    entry *e = kiln_alloc(sizeof *e);
    kiln_arena_init(&e->arena, ENTRY_ARENA_BYTES);
    e->trial = kiln_message_copy(message, &e->arena).trial;
    e->began_ns = e->phase_since_ns = s->now_ns;
    e->phase = KILN_PHASE_FETCH;
    e->phase_until_ns = s->now_ns + deadline_ns(&e->trial.deadlines_ms, KILN_PHASE_FETCH);
    kiln_vec_push(&s->entry, e);
    fetch_missing(s, e);
}

static void on_ack(kiln_server *s, const kiln_msg_trial_ack *ack) {
    entry *e = find_entry(s, ack->trial, ack->attempt, ack->lease);
    if (e && e->state == ENTRY_KEPT) remove_entry(s, e);
}

static void on_cancel(kiln_server *s, const kiln_msg_cancel *cancel) {
    if (cancel->scope != KILN_CANCEL_TRIAL) return;
    for (uint32_t i = s->entry.count; i-- > 0;) {
        entry *e = s->entry.data[i];
        if (e->trial.lease != cancel->lease || !kiln_str_equal(e->trial.trial, cancel->id))
            continue;
        if (e->state == ENTRY_RUNNING)
            kill_child(s, e, KILN_OUTCOME_INFRA, "cancelled");
        else if (e->state == ENTRY_FETCHING || e->state == ENTRY_READY)
            keep_failure(s, e, KILN_OUTCOME_INFRA, "cancelled");
    }
}

static void on_message(kiln_server *s, const kiln_message *message) {
    kiln_link_heard(&s->link, s->now_ns);
    switch ((int)message->type) {
    case KILN_MSG_TRIAL: on_trial(s, message); break;
    case KILN_MSG_TRIAL_ACK: on_ack(s, &message->trial_ack); break;
    case KILN_MSG_CANCEL: on_cancel(s, &message->cancel); break;
    case KILN_MSG_LEASE_LOST: void_lease(s, message->lease_lost.lease); break;
    case KILN_MSG_PING: {
        kiln_message pong = {
            .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
        send(s, &pong);
        break;
    }
    default: break; /* PONG, ERROR, GOAWAY: that it came is all there is to know */
    }
}

/* ---- The connection ---- */

static void introduce(kiln_server *s) {
    kiln_message up = {.type = KILN_MSG_BOARD_UP, .board_up = s->board};
    kiln_msg_running *running =
        KILN_ARENA_ARRAY(&s->actions->arena, kiln_msg_running, s->entry.count);
    up.board_up.running.item = running;
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const kiln_msg_trial *trial = &s->entry.data[i]->trial;
        if (s->entry.data[i]->is_void) continue;
        running[up.board_up.running.count++] =
            (kiln_msg_running){trial->trial, trial->attempt, trial->lease};
    }
    send(s, &up);
    if (is_sick(s)) tell_state(s);
    for (uint32_t i = 0; i < s->entry.count; i++) {
        entry *e = s->entry.data[i];
        if (e->state == ENTRY_KEPT) send_result(s, e);
        if (e->state != ENTRY_FETCHING) continue;
        e->fetch_failures = 0;
        fetch_missing(s, e);
    }
}

static void on_closed(kiln_server *s) {
    kiln_link_closed(&s->link, s->now_ns);
    for (uint32_t i = 0; i < s->entry.count; i++) s->entry.data[i]->fetch_failures = 0;
}

static void tick_link(kiln_server *s) {
    kiln_link_want want = kiln_link_tick(&s->link, s->now_ns);
    if (want == KILN_LINK_DIAL) add_action(s, KILN_SERVER_DIAL);
    if (want == KILN_LINK_HANG_UP) add_action(s, KILN_SERVER_HANG_UP);
    if (want == KILN_LINK_PING) {
        kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = s->now_ns}};
        send(s, &ping);
    }
}

/* ---- Time ---- */

static void tick_entry(kiln_server *s, entry *e) {
    bool over = s->now_ns >= e->phase_until_ns;
    switch (e->state) {
    case ENTRY_FETCHING:
        if (over)
            keep_failure(s, e, KILN_OUTCOME_INFRA, "its blobs did not come in time");
        else if (e->fetch_again_ns && s->now_ns >= e->fetch_again_ns &&
                 s->link.state == KILN_LINK_UP)
            fetch_missing(s, e);
        break;
    case ENTRY_READY:
    case ENTRY_JUDGING: break;
    case ENTRY_RUNNING:
        if (over)
            kill_child(s, e, KILN_OUTCOME_TIMEOUT,
                       kiln_arena_printf(&e->arena, "still in phase %s at its deadline",
                                         kiln_phase_name(e->phase)));
        break;
    case ENTRY_KILLING:
        if (over) s->stray = true;
        break;
    case ENTRY_KEPT:
        if (s->now_ns >= e->resend_ns) send_result(s, e);
        break;
    }
}

static uint64_t entry_next_ns(const kiln_server *s, const entry *e) {
    bool linked = s->link.state == KILN_LINK_UP;
    switch (e->state) {
    case ENTRY_FETCHING:
        return e->fetch_again_ns && linked ? KILN_MIN(e->fetch_again_ns, e->phase_until_ns)
                                           : e->phase_until_ns;
    case ENTRY_RUNNING: return e->phase_until_ns;
    case ENTRY_KILLING: return s->stray ? UINT64_MAX : e->phase_until_ns;
    case ENTRY_KEPT: return linked ? e->resend_ns : UINT64_MAX;
    case ENTRY_READY:
    case ENTRY_JUDGING: break;
    }
    return UINT64_MAX;
}

uint64_t kiln_server_next_ns(const kiln_server *s) {
    uint64_t next = kiln_link_next_ns(&s->link);
    for (uint32_t i = 0; i < s->entry.count; i++)
        next = KILN_MIN(next, entry_next_ns(s, s->entry.data[i]));
    return next;
}

void kiln_server_step(kiln_server *s, uint64_t now_ns, const kiln_server_event *event,
                      kiln_server_actions *actions) {
    KILN_CHECK(now_ns >= s->now_ns);
    s->now_ns = now_ns;
    s->actions = actions;
    switch (event->kind) {
    case KILN_SERVER_OPENED:
        kiln_link_opened(&s->link, now_ns);
        introduce(s);
        break;
    case KILN_SERVER_CLOSED: on_closed(s); break;
    case KILN_SERVER_MESSAGE: on_message(s, event->message); break;
    case KILN_SERVER_FETCHED: on_fetched(s, event); break;
    case KILN_SERVER_PHASE: on_phase(s, event); break;
    case KILN_SERVER_VACATED: on_vacated(s, event); break;
    case KILN_SERVER_FINISHED: on_finished(s, event); break;
    case KILN_SERVER_DIED: on_died(s, event); break;
    case KILN_SERVER_READING: on_reading(s, event); break;
    case KILN_SERVER_TICK: break;
    }
    tick_link(s);
    for (uint32_t i = 0; i < s->entry.count; i++) tick_entry(s, s->entry.data[i]);
    start_what_can(s);
    if (is_sick(s) != s->told_sick) tell_state(s);
    s->actions = NULL;
}

/* ---- Life ---- */

kiln_server *kiln_server_create(const kiln_server_options *options, uint64_t now_ns) {
    kiln_server *s = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 1024);
    kiln_message up = {.type = KILN_MSG_BOARD_UP, .board_up = *options->board};
    s->board = kiln_message_copy(&up, &s->arena).board_up;
    s->board.running.count = 0;
    KILN_CHECK(s->board.slots > 0);
    KILN_CHECK(s->board.slots <= KILN_SERVER_SLOTS_MAX);
    s->env = s->board.env;
    s->env.governor = (kiln_str){0};
    s->now_ns = now_ns;
    kiln_link_init(&s->link, now_ns, options->seed);
    return s;
}

void kiln_server_destroy(kiln_server *s) {
    if (!s) return;
    while (s->entry.count) remove_entry(s, s->entry.data[0]);
    kiln_vec_deinit(&s->entry);
    kiln_arena_deinit(&s->arena);
    kiln_free(s->unwell);
    kiln_free(s);
}

kiln_server_counts kiln_server_counts_of(const kiln_server *s) {
    kiln_server_counts counts = {.sick = is_sick(s)};
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const entry *e = s->entry.data[i];
        counts.waiting += e->state == ENTRY_FETCHING || e->state == ENTRY_READY;
        counts.running += has_child(e) || e->state == ENTRY_JUDGING;
        counts.kept += e->state == ENTRY_KEPT;
    }
    return counts;
}
