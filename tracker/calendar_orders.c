#include "tracker/calendar_orders.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tracker/state.h"

void kiln_tracker_calendar_orders_free(kiln_tracker *t) {
    kiln_vec_deinit(&t->calendar_orders.waiting);
}

/* ---- Answers ---- */

static void answer_windows(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                           uint32_t offset, uint32_t count) {
    kiln_msg_maintenance_row row[KILN_MESSAGES_PAGE];
    const uint32_t total = t->calendar.windows.count, begin = KILN_MIN(offset, total);
    count = KILN_MIN(count, total - begin);
    for (uint32_t i = 0; i < count; i++) row[i] = t->calendar.windows.data[begin + i]->row;
    const kiln_message message = {.type = KILN_MSG_MAINTENANCE,
                                  .stream = stream,
                                  .maintenance = {.total = total, .windows = {row, count}}};
    kiln_tracker_send(t, client, &message);
}

void kiln_tracker_maintenance_query(kiln_tracker *t, kiln_tracker_peer *client,
                                    const kiln_message *message) {
    answer_windows(t, client, message->stream, message->maintenance_query.offset,
                   KILN_MESSAGES_PAGE);
}

static uint32_t index_of(const kiln_tracker *t, uint64_t number) {
    uint32_t at = 0;
    while (at < t->calendar.windows.count && t->calendar.windows.data[at]->row.number != number)
        at++;
    return at;
}

static void answer(kiln_tracker *t, const kiln_tracker_calendar_order *order, const char *failure) {
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, order->peer);
    const kiln_tracker_board *board =
        order->node[0] ? kiln_tracker_board_find(t, kiln_str_from(order->node)) : NULL;
    if (failure)
        kiln_tracker_send_error(
            t, client, order->stream, KILN_RESOURCE_EXHAUSTED, (kiln_str){0}, 0,
            "the order holds until the tracker is started anew, as it cannot be kept: %s", failure);
    else if (board)
        kiln_tracker_answer_board(t, client, order->stream, board);
    else if (order->node[0])
        kiln_tracker_send_error(t, client, order->stream, KILN_NOT_FOUND, (kiln_str){0}, 0,
                                "board %s is forgotten", order->node);
    else /* no row when it was removed */
        answer_windows(t, client, order->stream, index_of(t, order->number), 1);
}

void kiln_tracker_calendar_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->calendar_orders.waiting.count; i++) {
        const kiln_tracker_calendar_order order = t->calendar_orders.waiting.data[i];
        if (order.persist == persist)
            answer(t, &order, failure);
        else
            t->calendar_orders.waiting.data[kept++] = order;
    }
    t->calendar_orders.waiting.count = kept;
}

/* ---- Reservations ---- */

static uint32_t reserved_by(const kiln_tracker *t, const char *person) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->calendar.holds.count; i++)
        count += strcmp(t->calendar.holds.data[i]->person, person) == 0;
    return count;
}

static bool rules(kiln_tracker *t, const kiln_tracker_peer *client) {
    return kiln_tracker_may(t, client, KILN_RIGHT_RULE, (kiln_str){0}, NULL);
}

/* Whether the person may do that to the board, which `hold` has; NULL: nobody has reserved it. */
static kiln_status check_reserve(kiln_tracker *t, const kiln_tracker_peer *client,
                                 const kiln_msg_reserve *order, const kiln_tracker_hold *hold) {
    const bool is_own = hold && strcmp(hold->person, client->person) == 0;
    if (!client->person[0] || !client->is_proven)
        return KILN_ERROR(PERMISSION_DENIED,
                          "a reservation is for the jobs of a person, and this connection has not "
                          "proven whose it is");
    if (!kiln_tracker_may_anywhere(t, client, KILN_RIGHT_OPEN)) {
        kiln_tracker_count_refusal(t);
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s may open jobs in no project, so there is nothing to reserve boards "
                          "for: the right \"open\" is missing",
                          client->person);
    }
    if (order->seconds == 0 && !hold)
        return KILN_ERROR(FAILED_PRECONDITION, "board %.*s is not reserved",
                          KILN_STR_ARG(order->board));
    if (hold && !is_own && (order->seconds || !rules(t, client)))
        return KILN_ERROR(FAILED_PRECONDITION,
                          "board %.*s is reserved by %s: that person, or an administrator, ends it "
                          "with kiln fleet reserve %.*s --end",
                          KILN_STR_ARG(order->board), hold->person, KILN_STR_ARG(order->board));
    if (order->seconds && !hold && !rules(t, client) &&
        reserved_by(t, client->person) >= KILN_TRACKER_RESERVED_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s has reserved %u boards already", client->person,
                          KILN_TRACKER_RESERVED_MAX);
    return KILN_OK;
}

/* The board is offered to all again. */
static void returned(kiln_tracker *t, kiln_tracker_board *board, const char *by) {
    char text[KILN_MESSAGES_NAME];
    snprintf(text, sizeof text, "by %s", by);
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_RETURNED, text);
    kiln_tracker_board_refresh(t, board);
}

static uint64_t reserve(kiln_tracker *t, const kiln_tracker_peer *client,
                        const kiln_msg_reserve *order, kiln_tracker_board *board,
                        const kiln_tracker_hold *hold) {
    char text[KILN_MESSAGES_NAME];
    const uint64_t until_ms = kiln_tracker_wall_ms(t) + order->seconds * UINT64_C(1000);
    const bool is_new = !hold;
    const uint64_t persist =
        kiln_tracker_hold_put(t, board, kiln_str_from(client->person), until_ms, order->text);
    snprintf(text, sizeof text, "by %s for %u min%s%.*s", client->person,
             (order->seconds + 59) / 60, order->text.size ? ": " : "",
             (int)KILN_MIN(order->text.size, 100u), order->text.size ? order->text.data : "");
    kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_RESERVED, text);
    kiln_tracker_board_refresh(t, board);
    if (is_new) kiln_tracker_board_wind_down(t, board);
    return persist;
}

void kiln_tracker_reserve(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message) {
    const kiln_msg_reserve *order = &message->reserve;
    kiln_tracker_board *board = kiln_tracker_board_named(t, order->board);
    const kiln_tracker_hold *hold = board ? kiln_tracker_hold_of(t, board) : NULL;
    kiln_status st =
        board ? check_reserve(t, client, order, hold)
              : KILN_ERROR(NOT_FOUND,
                           "there is no board %.*s, or several have this name: kiln fleet list "
                           "shows them",
                           KILN_STR_ARG(order->board));
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    kiln_tracker_calendar_order waiting = {.peer = client->id, .stream = message->stream};
    kiln_tracker_set_text(waiting.node, kiln_str_from(board->node));
    if (order->seconds) {
        waiting.persist = reserve(t, client, order, board, hold);
    } else {
        waiting.persist = kiln_tracker_hold_remove(t, hold);
        returned(t, board, client->person);
    }
    kiln_vec_push(&t->calendar_orders.waiting, waiting);
}

static void end_holds(kiln_tracker *t) {
    const uint64_t now_ms = kiln_tracker_wall_ms(t);
    for (uint32_t i = t->calendar.holds.count; i-- > 0;) {
        const kiln_tracker_hold *hold = t->calendar.holds.data[i];
        if (hold->until_ms > now_ms) continue;
        kiln_tracker_board *board = kiln_tracker_board_find(t, kiln_str_from(hold->node));
        kiln_tracker_hold_remove(t, hold);
        if (board) returned(t, board, "the clock");
    }
}

/* ---- Maintenance windows ---- */

/* Takes the boards of a window that opens from their jobs, and offers them again when it closes. */
static void turn_window(kiln_tracker *t, const kiln_tracker_window *window) {
    char text[KILN_MESSAGES_NAME];
    snprintf(text, sizeof text, "%s, window %llu", window->is_open ? "begins" : "is over",
             (unsigned long long)window->row.number);
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        if (!kiln_tracker_window_has(window, board)) continue;
        kiln_tracker_board_happened(t, board, KILN_TRACKER_PAST_MAINTENANCE, text);
        kiln_tracker_board_refresh(t, board);
        if (window->is_open)
            kiln_tracker_leases_end_of_board(t, board, "its board's maintenance window has begun");
    }
}

static void look(kiln_tracker *t, kiln_tracker_window *window) {
    if (kiln_tracker_window_look(t, window)) turn_window(t, window);
}

void kiln_tracker_calendar_tick(kiln_tracker *t) {
    end_holds(t);
    for (uint32_t i = 0; i < t->calendar.windows.count; i++) look(t, t->calendar.windows.data[i]);
}

/* Their rows show the windows, and they are offered where one was removed. */
static void refresh_boards(kiln_tracker *t) {
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++)
        kiln_tracker_board_refresh(t, t->boards.all.data[i]);
}

static kiln_status add_window(kiln_tracker *t, const kiln_tracker_peer *client,
                              const kiln_msg_maintenance_row *row,
                              kiln_tracker_calendar_order *order) {
    kiln_tracker_window *window = NULL;
    const char *by = client->person[0] ? client->person : client->node;
    if (!row->board.size && !row->labels.count)
        return KILN_ERROR(INVALID_ARGUMENT, "a maintenance window is of a board, or of labels");
    if (row->board.size && !kiln_tracker_board_named(t, row->board))
        return KILN_ERROR(
            NOT_FOUND,
            "there is no board %.*s, or several have this name: kiln fleet list shows "
            "them",
            KILN_STR_ARG(row->board));
    if (t->calendar.windows.count >= KILN_TRACKER_WINDOWS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "there are %u maintenance windows already",
                          KILN_TRACKER_WINDOWS_MAX);
    kiln_status st = kiln_tracker_window_add(t, row, kiln_str_from(by), &window, &order->persist);
    if (st) return st;
    order->number = window->row.number;
    look(t, window);
    refresh_boards(t);
    return KILN_OK;
}

static kiln_status remove_window(kiln_tracker *t, uint64_t number,
                                 kiln_tracker_calendar_order *order) {
    kiln_tracker_window *window = kiln_tracker_window_find(t, number);
    if (!window)
        return KILN_ERROR(NOT_FOUND, "there is no maintenance window %llu",
                          (unsigned long long)number);
    order->persist = kiln_tracker_window_remove(t, window);
    refresh_boards(t);
    return KILN_OK;
}

void kiln_tracker_maintenance_order(kiln_tracker *t, kiln_tracker_peer *client,
                                    const kiln_message *message) {
    const kiln_msg_maintenance_order *order = &message->maintenance_order;
    kiln_tracker_calendar_order waiting = {.peer = client->id, .stream = message->stream};
    kiln_status st = order->remove ? remove_window(t, order->remove, &waiting)
                                   : add_window(t, client, &order->window, &waiting);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    kiln_vec_push(&t->calendar_orders.waiting, waiting);
}
