#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "rpc-server/state.h"

#define ENTRY_ARENA_BYTES ((size_t)2 << 10)
#define FETCH_RETRY_NS UINT64_C(500000000)
#define DEADLINE_MAX_MS UINT64_C(600000) /* no trial may hold a slot for longer per phase */

/* ---- Entries ---- */

void kiln_server_forget(kiln_server *s, kiln_server_entry *e) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        if (s->entry.data[i] != e) continue;
        memmove(&s->entry.data[i], &s->entry.data[i + 1], (--s->entry.count - i) * sizeof e);
        break;
    }
    kiln_arena_deinit(&e->arena);
    kiln_free(e);
}

static bool is_attempt(const kiln_server_entry *e, kiln_str trial, uint32_t attempt,
                       uint64_t lease) {
    return e->trial.lease == lease && e->trial.attempt == attempt &&
           kiln_str_equal(e->trial.trial, trial);
}

kiln_server_entry *kiln_server_find(kiln_server *s, kiln_str trial, uint32_t attempt,
                                    uint64_t lease) {
    for (uint32_t i = 0; i < s->entry.count; i++)
        if (is_attempt(s->entry.data[i], trial, attempt, lease)) return s->entry.data[i];
    return NULL;
}

bool kiln_server_has_child(const kiln_server_entry *e) {
    return e->state == KILN_ENTRY_RUNNING || e->state == KILN_ENTRY_KILLING;
}

static kiln_server_entry *find_run(kiln_server *s, uint32_t slot, uint64_t run) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        kiln_server_entry *e = s->entry.data[i];
        bool waits = kiln_server_has_child(e) || e->state == KILN_ENTRY_JUDGING;
        if (waits && e->trial.slot == slot && e->run == run) return e;
    }
    return NULL;
}

static uint64_t *spent(kiln_server_entry *e, kiln_phase phase) {
    switch (phase) {
    case KILN_PHASE_FETCH: return &e->spent_ns.fetch;
    case KILN_PHASE_LOAD: return &e->spent_ns.load;
    case KILN_PHASE_WARM: return &e->spent_ns.warm;
    case KILN_PHASE_RUN: return &e->spent_ns.run;
    case KILN_PHASE_CHECK: return &e->spent_ns.check;
    case KILN_PHASE_BUILD: return &e->spent_ns.build;
    case KILN_PHASE_NONE:
    case KILN_PHASE_COUNT: break;
    }
    return NULL;
}

static uint64_t deadline_ns(const kiln_msg_phases *asked, kiln_phase phase) {
    const uint64_t asked_ms[] = {0,          asked->fetch, asked->load, asked->warm,
                                 asked->run, asked->check, asked->build};
    static const uint64_t default_ms[] = {0,
                                          KILN_SERVER_FETCH_MS,
                                          KILN_SERVER_LOAD_MS,
                                          KILN_SERVER_WARM_MS,
                                          KILN_SERVER_RUN_MS,
                                          KILN_SERVER_CHECK_MS,
                                          KILN_SERVER_BUILD_MS};
    uint64_t ms = asked_ms[phase] ? asked_ms[phase] : default_ms[phase];
    return KILN_MIN(ms, DEADLINE_MAX_MS) * UINT64_C(1000000);
}

static void leave_phase(kiln_server *s, kiln_server_entry *e) {
    uint64_t *total = spent(e, e->phase);
    if (total) *total += s->now_ns - e->phase_since_ns;
}

static void enter_phase(kiln_server *s, kiln_server_entry *e, kiln_phase phase) {
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
    kiln_server_send(s, &event);
}

/* ---- Results ---- */

void kiln_server_send_result(kiln_server *s, kiln_server_entry *e) {
    kiln_message message = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = e->result};
    kiln_server_send(s, &message);
    e->resend_ns = s->now_ns + KILN_SERVER_RESEND_NS;
}

/* Ends a trial. The caller fills the outcome and the measurements of `result`. */
static void keep_result(kiln_server *s, kiln_server_entry *e, const kiln_msg_trial_result *result) {
    leave_phase(s, e);
    kiln_message message = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result};
    kiln_msg_trial_result *kept = &message.trial_result;
    kept->trial = e->trial.trial;
    kept->attempt = e->trial.attempt;
    kept->lease = e->trial.lease;
    kept->phase = e->phase;
    kept->built = e->built;
    kept->assembled = e->assembled;
    if (kept->text.size > KILN_MESSAGES_PROSE) kept->text.size = KILN_MESSAGES_PROSE;
    if (!kept->blame) kept->blame = kiln_outcome_blame((kiln_outcome)kept->outcome);
    /* The child's own times of its phases are more exact. Ours serve for fetching, building and
     * phases that it did not report. */
    kiln_msg_phases told = kept->times_ns;
    kept->times_ns = (kiln_msg_phases){
        .fetch = e->spent_ns.fetch,
        .build = e->spent_ns.build,
        .load = told.load ? told.load : e->spent_ns.load,
        .warm = told.warm ? told.warm : e->spent_ns.warm,
        .run = told.run ? told.run : e->spent_ns.run,
        .check = told.check ? told.check : e->spent_ns.check,
    };
    if (e->phase != KILN_PHASE_BUILD) /* a failed build says nothing about the board's health */
        kiln_health_ended(&s->health, (kiln_outcome)kept->outcome, (kiln_blame)kept->blame,
                          s->now_ns);
    e->result = kiln_message_copy(&message, &e->arena).trial_result;
    e->state = KILN_ENTRY_KEPT;
    kiln_server_send_result(s, e);
}

void kiln_server_fail(kiln_server *s, kiln_server_entry *e, kiln_outcome outcome,
                      const char *text) {
    kiln_msg_trial_result result = {.outcome = outcome, .text = kiln_str_from(text)};
    keep_result(s, e, &result);
}

/* ---- Blobs ---- */

static uint32_t blob_count(const kiln_server_entry *e) { return 2 + e->trial.rivals.count; }

static bool has_recipe(const kiln_server_entry *e) { return e->trial.recipe.trace.size > 0; }

static const kiln_msg_blob_ref *blob_of(const kiln_server_entry *e, uint32_t which) {
    if (which == 0) return &e->trial.reference;
    if (which > 1) return &e->trial.rivals.item[which - 2];
    return has_recipe(e) ? &e->trial.recipe.program : &e->trial.artefact;
}

static bool have_blobs(const kiln_server_entry *e) {
    uint32_t which = 0;
    while (which < blob_count(e) && e->have[which]) which++;
    return which == blob_count(e);
}

void kiln_server_fetch(kiln_server *s, kiln_server_entry *e) {
    e->fetch_again_ns = 0;
    for (uint32_t which = 0; which < blob_count(e); which++) {
        if (e->have[which] || e->fetching[which]) continue;
        kiln_server_act(s, KILN_SERVER_FETCH)->digest = blob_of(e, which)->digest;
        e->fetching[which] = true;
    }
}

void kiln_server_excuse_fetches(kiln_server_entry *e) {
    memset(e->fetch_failures, 0, sizeof e->fetch_failures);
}

static kiln_msg_trial *copy_trial(kiln_server *s, const kiln_server_entry *e) {
    kiln_message message = {.type = KILN_MSG_TRIAL, .trial = e->trial};
    kiln_msg_trial *trial = KILN_ARENA_NEW(&s->actions->arena, kiln_msg_trial);
    *trial = kiln_message_copy(&message, &s->actions->arena).trial;
    return trial;
}

/* Continues a trial whose blobs are all in the store. */
static void go_on(kiln_server *s, kiln_server_entry *e) {
    if (!has_recipe(e)) {
        e->state = KILN_ENTRY_READY;
        return;
    }
    e->state = KILN_ENTRY_BUILDING;
    e->run = ++s->last_run;
    enter_phase(s, e, KILN_PHASE_BUILD);
    kiln_server_action *action = kiln_server_act(s, KILN_SERVER_BUILD);
    action->run = e->run;
    action->trial = copy_trial(s, e);
    action->deadline_ns = deadline_ns(&e->trial.deadlines_ms, KILN_PHASE_BUILD);
}

static kiln_server_entry *find_build(kiln_server *s, uint64_t run) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        kiln_server_entry *e = s->entry.data[i];
        if (e->state == KILN_ENTRY_BUILDING && e->run == run) return e;
    }
    return NULL;
}

/* The time of the build is the builder's, because waiting for a builder or a slot is no part of it.
 */
void kiln_server_on_built(kiln_server *s, const kiln_server_event *event) {
    kiln_server_entry *e = find_build(s, event->run);
    if (!e) return; /* the trial was cancelled or its lease ended */
    e->phase_since_ns = s->now_ns;
    e->spent_ns.build = event->spent_ns;
    e->assembled = event->assembled;
    if (event->outcome != KILN_OUTCOME_OK) {
        kiln_server_fail(s, e, event->outcome, event->text ? event->text : "");
        return;
    }
    kiln_message told = {.type = KILN_MSG_TRIAL_RESULT, .trial_result.built = *event->built};
    e->built = kiln_message_copy(&told, &e->arena).trial_result.built;
    e->trial.artefact = e->built.artefact;
    e->phase = KILN_PHASE_NONE;
    e->state = KILN_ENTRY_READY;
}

/* The first failure of a fetch may be a lost connection, of which CLOSED tells only afterwards. A
 * second failure on the same connection is final. */
void kiln_server_on_fetched(kiln_server *s, const kiln_server_event *event) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        kiln_server_entry *e = s->entry.data[i];
        for (uint32_t which = 0; which < blob_count(e) && e->state == KILN_ENTRY_FETCHING;
             which++) {
            if (!e->fetching[which] ||
                !kiln_digest_equal(&blob_of(e, which)->digest, &event->digest))
                continue;
            e->fetching[which] = false;
            e->have[which] = !event->failure;
            if (!event->failure) continue;
            if (++e->fetch_failures[which] >= 2)
                kiln_server_fail(s, e, KILN_OUTCOME_INFRA, event->failure);
            else
                e->fetch_again_ns = s->now_ns + FETCH_RETRY_NS;
        }
        if (e->state == KILN_ENTRY_FETCHING && have_blobs(e)) go_on(s, e);
    }
}

void kiln_server_take(kiln_server *s, const kiln_message *message, const char *why) {
    kiln_server_entry *e = kiln_alloc(sizeof *e);
    kiln_arena_init(&e->arena, ENTRY_ARENA_BYTES);
    e->trial = kiln_message_copy(message, &e->arena).trial;
    e->began_ns = e->phase_since_ns = s->now_ns;
    e->phase = KILN_PHASE_FETCH;
    e->phase_until_ns = s->now_ns + deadline_ns(&e->trial.deadlines_ms, KILN_PHASE_FETCH);
    kiln_vec_push(&s->entry, e);
    if (why)
        kiln_server_fail(s, e, KILN_OUTCOME_INFRA, why);
    else
        kiln_server_fetch(s, e);
}

/* ---- Children ---- */

void kiln_server_kill(kiln_server *s, kiln_server_entry *e, kiln_outcome outcome,
                      const char *text) {
    if (e->state == KILN_ENTRY_KILLING) return;
    e->state = KILN_ENTRY_KILLING;
    e->kill_outcome = outcome;
    e->kill_text = text;
    e->phase_until_ns = s->now_ns + KILN_SERVER_KILL_NS;
    kiln_server_action *action = kiln_server_act(s, KILN_SERVER_KILL);
    action->slot = e->trial.slot;
    action->run = e->run;
}

void kiln_server_void(kiln_server *s, kiln_server_entry *e) {
    e->is_void = true;
    if (kiln_server_has_child(e))
        kiln_server_kill(s, e, KILN_OUTCOME_INFRA, "its lease is over");
    else
        kiln_server_forget(s, e);
}

void kiln_server_void_lease(kiln_server *s, uint64_t lease) {
    for (uint32_t i = s->entry.count; i-- > 0;)
        if (s->entry.data[i]->trial.lease == lease) kiln_server_void(s, s->entry.data[i]);
}

static void start(kiln_server *s, kiln_server_entry *e) {
    e->state = KILN_ENTRY_RUNNING;
    e->run = ++s->last_run;
    enter_phase(s, e, KILN_PHASE_LOAD);
    kiln_server_action *action = kiln_server_act(s, KILN_SERVER_START);
    action->slot = e->trial.slot;
    action->run = e->run;
    action->trial = copy_trial(s, e);
    action->waits = s->disturbs[e->trial.slot] != 0;
}

static void start_check(kiln_server *s) {
    s->check_run = ++s->last_run;
    kiln_health_check_begun(&s->health, s->now_ns);
    kiln_server_act(s, KILN_SERVER_CHECK)->run = s->check_run;
}

/* Whether its child may be linking or timing now. A child that was sent a kill counts until it has
 * ended. */
static bool is_loud(const kiln_server_entry *e) {
    return kiln_server_has_child(e) && !(e->state == KILN_ENTRY_RUNNING && e->waits);
}

/* A bit per slot with an entry for which `is` is true. */
static uint32_t slots_where(const kiln_server *s, bool (*is)(const kiln_server_entry *)) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < s->entry.count; i++)
        if (is(s->entry.data[i])) slots |= 1U << s->entry.data[i]->trial.slot;
    return slots;
}

static bool is_waiting(const kiln_server_entry *e) {
    return e->state == KILN_ENTRY_RUNNING && e->waits;
}

/* Whether the candidate's code may be running, whatever phase its child reports. */
static bool is_timing(const kiln_server_entry *e) {
    return is_loud(e) && !(e->state == KILN_ENTRY_RUNNING && e->phase == KILN_PHASE_LOAD);
}

static void let_time(kiln_server *s, kiln_server_entry *e) {
    e->waits = false;
    e->phase_since_ns = s->now_ns; /* the wait belongs to no phase */
    enter_phase(s, e, KILN_PHASE_WARM);
    kiln_server_action *action = kiln_server_act(s, KILN_SERVER_TIME);
    action->slot = e->trial.slot;
    action->run = e->run;
}

/* Lets waiting children time, in order of arrival, if no slot that they disturb links or times. */
static void take_turns(kiln_server *s) {
    for (uint32_t i = 0; i < s->entry.count; i++) {
        kiln_server_entry *e = s->entry.data[i];
        if (is_waiting(e) && !(s->disturbs[e->trial.slot] & slots_where(s, is_loud)))
            let_time(s, e);
    }
}

void kiln_server_start(kiln_server *s) {
    uint32_t taken = slots_where(s, kiln_server_has_child);
    take_turns(s);
    if (kiln_health_wants_check(&s->health, s->now_ns) && !kiln_server_upgrade_is_ending(s)) {
        if (!taken) start_check(s);
        return;
    }
    const uint32_t quiet = slots_where(s, is_timing) | slots_where(s, is_waiting);
    for (uint32_t i = 0; i < s->entry.count && kiln_health_may_start(&s->health); i++) {
        kiln_server_entry *e = s->entry.data[i];
        if (e->state != KILN_ENTRY_READY || taken & 1U << e->trial.slot ||
            s->disturbs[e->trial.slot] & quiet)
            continue;
        taken |= 1U << e->trial.slot;
        start(s, e);
    }
}

/* From here the child waits for its turn, without a deadline. */
void kiln_server_on_loaded(kiln_server *s, const kiln_server_event *event) {
    kiln_server_entry *e = find_run(s, event->slot, event->run);
    if (!e || e->state != KILN_ENTRY_RUNNING || e->phase != KILN_PHASE_LOAD) return;
    leave_phase(s, e);
    e->phase_since_ns = s->now_ns;
    e->phase_until_ns = UINT64_MAX;
    e->waits = true;
}

void kiln_server_on_phase(kiln_server *s, const kiln_server_event *event) {
    kiln_server_entry *e = find_run(s, event->slot, event->run);
    if (!e || e->state != KILN_ENTRY_RUNNING) return;
    if (event->phase > e->phase && event->phase <= KILN_PHASE_CHECK)
        enter_phase(s, e, event->phase);
}

/* The board is free of strays unless another child is still alive after its kill's deadline. */
static void note_gone(kiln_server *s, const kiln_server_entry *e) {
    bool stray = false;
    for (uint32_t i = 0; i < s->entry.count; i++) {
        const kiln_server_entry *other = s->entry.data[i];
        if (other != e && other->state == KILN_ENTRY_KILLING && s->now_ns >= other->phase_until_ns)
            stray = true;
    }
    kiln_health_stray(&s->health, stray, s->now_ns);
    if (e->state == KILN_ENTRY_KILLING) kiln_health_killed(&s->health, s->now_ns);
}

/* A killed child's outcome is the one given to the kill, unless its result was complete before. */
void kiln_server_on_gone(kiln_server *s, const kiln_server_event *event) {
    kiln_server_entry *e = find_run(s, event->slot, event->run);
    if (!e) return;
    if (e->state != KILN_ENTRY_JUDGING) note_gone(s, e);
    if (e->is_void)
        kiln_server_forget(s, e);
    else if (event->kind == KILN_SERVER_FINISHED)
        keep_result(s, e, event->result);
    else if (e->state == KILN_ENTRY_KILLING)
        kiln_server_fail(s, e, e->kill_outcome, e->kill_text);
    else if (event->kind == KILN_SERVER_DIED)
        kiln_server_fail(s, e, KILN_OUTCOME_CRASH, event->text ? event->text : "the child died");
    else
        e->state = KILN_ENTRY_JUDGING;
}

/* ---- Time ---- */

void kiln_server_tick_entry(kiln_server *s, kiln_server_entry *e) {
    bool over = s->now_ns >= e->phase_until_ns;
    switch (e->state) {
    case KILN_ENTRY_FETCHING:
        if (over)
            kiln_server_fail(s, e, KILN_OUTCOME_INFRA, "its blobs did not come in time");
        else if (e->fetch_again_ns && s->now_ns >= e->fetch_again_ns &&
                 s->link.state == KILN_LINK_UP)
            kiln_server_fetch(s, e);
        break;
    case KILN_ENTRY_BUILDING: /* its builder has a deadline */
    case KILN_ENTRY_READY:
    case KILN_ENTRY_JUDGING: break;
    case KILN_ENTRY_RUNNING:
        if (over)
            kiln_server_kill(s, e, KILN_OUTCOME_TIMEOUT,
                             kiln_arena_printf(&e->arena, "still in phase %s at its deadline",
                                               kiln_phase_name(e->phase)));
        break;
    case KILN_ENTRY_KILLING:
        if (over) kiln_health_stray(&s->health, true, s->now_ns);
        break;
    case KILN_ENTRY_KEPT:
        if (s->now_ns >= e->resend_ns) kiln_server_send_result(s, e);
        break;
    }
}

uint64_t kiln_server_entry_next_ns(const kiln_server *s, const kiln_server_entry *e) {
    bool linked = s->link.state == KILN_LINK_UP;
    switch (e->state) {
    case KILN_ENTRY_FETCHING:
        return e->fetch_again_ns && linked ? KILN_MIN(e->fetch_again_ns, e->phase_until_ns)
                                           : e->phase_until_ns;
    case KILN_ENTRY_RUNNING: return e->phase_until_ns;
    case KILN_ENTRY_KILLING: return s->health.stray ? UINT64_MAX : e->phase_until_ns;
    case KILN_ENTRY_KEPT: return linked ? e->resend_ns : UINT64_MAX;
    case KILN_ENTRY_BUILDING:
    case KILN_ENTRY_READY:
    case KILN_ENTRY_JUDGING: break;
    }
    return UINT64_MAX;
}
