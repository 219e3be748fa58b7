/* Puts boards out of service and back: by orders of people, and by quarantine of boards that fail
 * repeatedly. Both are kept on disk. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/reading.h"
#include "tracker/state.h"

#define LATELY 0.1        /* weight of the newest trial in the mean noise of a board */
#define NOISE_SAMPLES 64u /* samples used of a trial */
#define NOISE_SAMPLES_MIN 4u

/* Adds the change of service to the board's history: by whom, and why. */
static void add_history(kiln_tracker *t, kiln_tracker_board *board, const char *by,
                        const char *text) {
    static const kiln_tracker_board_event event[] = {
        [KILN_BOARD_IN_SERVICE] = KILN_TRACKER_PAST_RELEASED,
        [KILN_BOARD_DRAINED] = KILN_TRACKER_PAST_DRAINED,
        [KILN_BOARD_QUARANTINED] = KILN_TRACKER_PAST_QUARANTINED,
    };
    _Static_assert(KILN_ARRAY_COUNT(event) == KILN_BOARD_SERVICE_COUNT, "one per service");
    char line[sizeof board->past[0].text];
    snprintf(line, sizeof line, "by %s%s%s", by, *text ? ": " : "", text);
    kiln_tracker_board_happened(t, board, event[board->service], line);
}

static void set_service(kiln_tracker *t, kiln_tracker_board *board, kiln_board_service service,
                        const char *by, const char *text) {
    board->service = service;
    add_history(t, board, by, text);
    snprintf(board->text, sizeof board->text, "%s", text);
    kiln_tracker_log(t,
                     &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_DUTY,
                                          .board = kiln_str_from(board->node),
                                          .text = kiln_str_from(kiln_board_service_name(service))});
    kiln_tracker_board_refresh(t, board);
    if (service == KILN_BOARD_QUARANTINED) kiln_tracker_leases_end_of_board(t, board, board->text);
    if (service == KILN_BOARD_DRAINED) kiln_tracker_board_wind_down(t, board);
}

void kiln_tracker_board_fault(kiln_tracker *t, kiln_tracker_board *board, const char *why) {
    board->faults++;
    board->fault_run++;
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_FAULTY, why);
    kiln_tracker_log(t, &(kiln_tracker_note){.what = KILN_TRACKER_BOARD_FAULT,
                                             .board = kiln_str_from(board->node),
                                             .text = kiln_str_from(why)});
    if (board->fault_run >= KILN_TRACKER_FAULTS_MAX && board->service == KILN_BOARD_IN_SERVICE) {
        char text[KILN_MESSAGES_NAME];
        snprintf(text, sizeof text, "%u faults in a row, the last: %.180s", board->fault_run, why);
        board->probation_ns = t->effects.now_ns + KILN_TRACKER_PROBATION_NS;
        t->board_service.quarantines++;
        set_service(t, board, KILN_BOARD_QUARANTINED, "the tracker", text);
    }
    kiln_tracker_board_persist(t, board);
}

/* Puts the board back into service; one more fault quarantines it again. */
static void end_probation(kiln_tracker *t, kiln_tracker_board *board) {
    board->probation_ns = 0;
    board->fault_run = KILN_TRACKER_FAULTS_MAX - 1;
    set_service(t, board, KILN_BOARD_IN_SERVICE, "the tracker", "");
    kiln_tracker_board_persist(t, board);
}

void kiln_tracker_board_service_tick(kiln_tracker *t) {
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        if (board->probation_ns && t->effects.now_ns >= board->probation_ns)
            end_probation(t, board);
    }
}

/* ---- Results ---- */

/* The relative uncertainty of the trial's figure; negative when there are too few samples. */
static double noise_of(const kiln_msg_trial_result *result) {
    double ns[NOISE_SAMPLES];
    const kiln_samples samples = {.ns = ns,
                                  .count = KILN_MIN(result->samples_ns.count, NOISE_SAMPLES),
                                  .again = result->again};
    if (samples.count < NOISE_SAMPLES_MIN) return -1;
    for (uint32_t i = 0; i < samples.count; i++) ns[i] = (double)result->samples_ns.item[i];
    const double doubt = kiln_reading_of(&samples).doubt;
    return isfinite(doubt) ? doubt : -1;
}

static void learn_noise(kiln_tracker_board *board, const kiln_msg_trial_result *result) {
    double noise = noise_of(result);
    if (noise >= 0) board->noise += board->ok > 1 ? LATELY * (noise - board->noise) : noise;
    if (result->drift > 0) board->drift = result->drift;
}

void kiln_tracker_board_judge(kiln_tracker *t, kiln_tracker_board *board,
                              const kiln_msg_trial_result *result) {
    board->results++;
    board->changed = kiln_tracker_next_change(t);
    kiln_blame blame = result->blame ? (kiln_blame)result->blame
                                     : kiln_outcome_blame((kiln_outcome)result->outcome);
    if (blame == KILN_BLAME_BOARD) {
        char why[KILN_MESSAGES_NAME];
        kiln_tracker_copy_text(why, sizeof why, result->text);
        kiln_tracker_board_fault(t, board, why);
    } else if (result->outcome == KILN_OUTCOME_OK) {
        bool forgiven = board->fault_run > 0;
        board->fault_run = 0;
        board->ok++;
        learn_noise(board, result);
        if (forgiven) kiln_tracker_board_persist(t, board);
    }
}

/* ---- Orders ---- */

/* The name for people: the node, or, where that is a random number because there is no key, the
 * name that the peer gave. */
static const char *name_of(const kiln_tracker_peer *client) {
    bool by_key = strlen(client->node) != KILN_HASH128_TEXT - 1;
    return by_key || !client->name[0] ? client->node : client->name;
}

static void give_order(kiln_tracker *t, const kiln_tracker_peer *client,
                       const kiln_msg_board_order *order, kiln_tracker_board *board) {
    char text[KILN_MESSAGES_NAME + 1];
    kiln_tracker_copy_text(text, sizeof text, order->text);
    board->probation_ns = 0;
    board->fault_run = 0;
    set_service(t, board, (kiln_board_service)order->service, name_of(client), text);
    board->order.persist = kiln_tracker_board_persist(t, board);
}

void kiln_tracker_board_order(kiln_tracker *t, kiln_tracker_peer *client,
                              const kiln_message *message) {
    const kiln_msg_board_order *order = &message->board_order;
    kiln_tracker_board *board = kiln_tracker_board_named(t, order->board);
    if (!board || board->order.persist) {
        kiln_tracker_send_error(t, client, message->stream, board ? KILN_ABORTED : KILN_NOT_FOUND,
                                (kiln_str){0}, 0,
                                board ? "another order for %.*s is under way"
                                      : "there is no board %.*s, or several have this name: kiln "
                                        "fleet list shows them",
                                KILN_STR_ARG(order->board));
        return;
    }
    if (order->forget && (board->peer || board->busy)) {
        kiln_tracker_send_error(
            t, client, message->stream, KILN_FAILED_PRECONDITION, (kiln_str){0}, 0,
            "board %.*s is connected and would register again: stop its kiln-rpc-server first, or "
            "put it out of service with kiln fleet drain",
            KILN_STR_ARG(order->board));
        return;
    }
    if (order->forget)
        board->order.persist = kiln_tracker_board_forget(t, board);
    else
        give_order(t, client, order, board);
    t->board_service.orders++;
    board->order.peer = client->id;
    board->order.stream = message->stream;
}

void kiln_tracker_order_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    uint32_t at = t->board_service.orders ? 0 : t->boards.all.count;
    while (at < t->boards.all.count && t->boards.all.data[at]->order.persist != persist) at++;
    if (at == t->boards.all.count) return;
    kiln_tracker_board *board = t->boards.all.data[at];
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, board->order.peer);
    board->order.persist = 0;
    t->board_service.orders--;
    if (failure)
        kiln_tracker_send_error(
            t, client, board->order.stream, KILN_RESOURCE_EXHAUSTED, (kiln_str){0}, 0,
            "the order holds until the tracker is started anew, as it cannot be kept: %s", failure);
    else
        kiln_tracker_answer_board(t, client, board->order.stream, board);
    kiln_tracker_board_forgotten(t, board, failure != NULL);
}
