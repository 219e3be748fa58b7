#include <string.h>

#include "tracker/state.h"

#define SHOWN_AHEAD_MS                                                        \
    (UINT64_C(7) * 24 * 3600 * 1000) /* maintenance that boards' rows mention \
                                      */

static uint64_t ms_since(const kiln_tracker *t, uint64_t then_ns) {
    return (t->effects.now_ns - then_ns) / UINT64_C(1000000);
}

static const char *state_of(const kiln_tracker *t, const kiln_tracker_board *board) {
    const kiln_tracker_window *window = kiln_tracker_window_of(t, board);
    if (board->service == KILN_BOARD_QUARANTINED) return "quarantined";
    if (board->service == KILN_BOARD_DRAINED) return board->busy ? "draining" : "drained";
    if (!board->peer) return "lost";
    if (board->sick) return "sick";
    if (board->lacking) return "unfenced";
    if (board->upgrading) return "upgrading";
    if (board->leaving) return "leaving";
    if (board->busy) return "leased";
    if (window && window->is_open) return "maintenance";
    return kiln_tracker_hold_of(t, board) ? "reserved" : "free";
}

/* For whom it is reserved, and its maintenance. */
static void say_calendar(const kiln_tracker *t, const kiln_tracker_board *board,
                         kiln_msg_board_row *row) {
    const uint64_t now_ms = kiln_tracker_wall_ms(t);
    const kiln_tracker_hold *hold = kiln_tracker_hold_of(t, board);
    const kiln_tracker_window *window = kiln_tracker_window_of(t, board);
    if (hold) {
        row->reserved_by = kiln_str_from(hold->person);
        row->reserved_ms = hold->until_ms > now_ms ? hold->until_ms - now_ms : 1;
        row->reserved_why = kiln_str_from(hold->text);
    }
    if (!window || window->row.begin_ms > now_ms + SHOWN_AHEAD_MS) return;
    row->maintenance = window->shown;
    row->maintenance_ms = window->is_open ? 0 : window->row.begin_ms - now_ms;
}

/* Shows the job that has the board and about how long it keeps it, from the recent duration of
 * leases. */
static void say_holder(kiln_tracker *t, const kiln_tracker_lease *lease,
                       const kiln_tracker_peer *reader, kiln_msg_board_row *row) {
    uint64_t held_ms = ms_since(t, lease->granted_ns),
             usual_ms = (uint64_t)(t->projects.lease_ns / 1e6);
    uint64_t left_ms = usual_ms > held_ms ? usual_ms - held_ms : 1;
    row->held_ms = KILN_MAX(row->held_ms, held_ms);
    row->eta_ms = row->eta_ms ? KILN_MIN(row->eta_ms, left_ms) : left_ms;
    if (!lease->job || !kiln_tracker_sees(t, reader, lease->job)) return;
    row->job = kiln_str_from(lease->job->id);
    row->user = lease->job->spec.user;
    row->project = lease->job->spec.project;
}

kiln_msg_board_row kiln_tracker_board_row(kiln_tracker *t, const kiln_tracker_board *board,
                                          const kiln_tracker_peer *reader) {
    kiln_msg_board_row row = {
        .node = kiln_str_from(board->node),
        .key = board->up.key,
        .target = board->up.target,
        .state = kiln_str_from(state_of(t, board)),
        .device = board->up.device,
        .slots = board->up.slots,
        .busy = board->device[0].reported->busy,
        .trials = board->results,
        .memory_bytes = board->up.memory_bytes,
        .env = board->env,
        .silent_ms = ms_since(t, board->peer ? board->peer->heard_ns : board->lost_ns),
        .ok = board->ok,
        .faults = board->faults,
        .fault_run = board->fault_run,
        .noise = board->noise,
        .drift = board->drift,
        .upgrade = kiln_str_from(board->upgrade),
    };
    if (board->peer) row.software = kiln_str_from(board->peer->software);
    say_calendar(t, board, &row);
    row.labels.item = board->up.labels.item;
    row.labels.count = board->up.labels.count;
    row.missing = board->up.missing;
    row.figures = kiln_tracker_figures_of(t, board);
    row.targets.item = &board->device[0].reported[1];
    row.targets.count = board->device_count - 1;
    if (board->sick || board->lacking || board->service != KILN_BOARD_IN_SERVICE)
        row.text = kiln_str_from(board->text);
    for (uint32_t i = 0; i < KILN_TRACKER_SLOTS_MAX; i++) {
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[i]);
        if (lease) say_holder(t, lease, reader, &row);
    }
    if (board->busy < kiln_tracker_board_slots(board)) row.eta_ms = 0;
    return row;
}

kiln_msg_board_row kiln_tracker_long_board_row(kiln_tracker *t, const kiln_tracker_board *board,
                                               const kiln_tracker_peer *reader,
                                               kiln_msg_board_event event[KILN_TRACKER_PAST_MAX]) {
    kiln_msg_board_row row = kiln_tracker_board_row(t, board, reader);
    kiln_tracker_history_list(board, event);
    row.history.item = event;
    row.history.count = board->past_count;
    row.facts.item = board->up.facts.item;
    row.facts.count = board->up.facts.count;
    return row;
}

/* Estimated from the trials that are done and the time that they took. */
static uint64_t eta_ms(const kiln_tracker *t, const kiln_tracker_job *job) {
    uint64_t done = 0, planned = 0;
    for (uint32_t i = 0; i < job->done.tasks.count; i++) {
        done += job->done.tasks.item[i].done;
        planned += job->done.tasks.item[i].planned;
    }
    if (job->state != KILN_JOB_RUNNING || job->ending_ns || done == 0 || planned <= done) return 0;
    return ms_since(t, job->assigned_ns) * (planned - done) / done;
}

kiln_msg_job_row kiln_tracker_job_row(const kiln_tracker *t, const kiln_tracker_job *job,
                                      bool with_tasks) {
    kiln_msg_job_row row = {
        .job = kiln_str_from(job->id),
        .state = kiln_str_from(kiln_job_state_name(job->state)),
        .model_name = job->spec.model_name,
        .target = job->spec.target,
        .searcher = job->spec.searcher,
        .trials = job->spec.trials,
        .tuner = kiln_str_from(job->tuner),
        .user = job->spec.user,
        .text = job->done.text,
        .age_ms = ms_since(t, job->opened_ns),
        .detach = job->spec.detach,
        .records = job->done.records,
        .eta_ms = eta_ms(t, job),
        .project = job->spec.project,
        .priority = job->spec.priority,
        .boards = job->leases,
        .code = job->done.code,
        .signers = job->done.signers,
    };
    if (job->held) row.text = kiln_tracker_prose(job->held);
    const bool is_stopping = kiln_tracker_job_is_open(job) && job->ending_ns;
    if (is_stopping) row.text = kiln_str_from(job->ending_text); /* it waits for its tuner */
    const kiln_tracker_peer *tuner = kiln_tracker_tuner_by_node(t, job->tuner);
    if (tuner && !tuner->has_key) row.tuner_name = kiln_str_from(tuner->name);
    for (uint32_t i = 0; i < job->done.tasks.count; i++) row.done += job->done.tasks.item[i].done;
    if (with_tasks) {
        row.tasks.item = job->done.tasks.item;
        row.tasks.count = job->done.tasks.count;
        row.faults.item = job->done.faults.item;
        row.faults.count = job->done.faults.count;
    }
    return row;
}

kiln_msg_job_row kiln_tracker_long_job_row(kiln_tracker *t, const kiln_tracker_job *job,
                                           kiln_sign_public trusted[KILN_MESSAGES_TRUSTED]) {
    kiln_msg_job_row row = kiln_tracker_job_row(t, job, true);
    row.trusted =
        kiln_tracker_trusted_of(t, kiln_tracker_project_find(t, job->spec.project), trusted);
    return row;
}

bool kiln_tracker_is_named(kiln_str wanted, kiln_str identity, kiln_str name) {
    return kiln_str_equal(wanted, identity) || (name.size && kiln_str_equal(wanted, name));
}

void kiln_tracker_answer_board(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                               const kiln_tracker_board *board) {
    kiln_msg_board_event event[KILN_TRACKER_PAST_MAX];
    kiln_msg_board_row row = kiln_tracker_long_board_row(t, board, client, event);
    kiln_message reply = {.type = KILN_MSG_ANSWER,
                          .stream = stream,
                          .answer = {.topic = KILN_TOPIC_BOARD, .total = 1}};
    reply.answer.boards.item = &row;
    reply.answer.boards.count = 1;
    kiln_tracker_send(t, client, &reply);
}
