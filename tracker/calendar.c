#include "tracker/calendar.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "tracker/state.h"

#define ID_BOARD "board/"
#define ID_WINDOW "window/"

void kiln_tracker_calendar_init(kiln_tracker *t) { kiln_map_init(&t->calendar.hold_of_node); }

static void free_window(kiln_tracker_window *window) {
    kiln_arena_deinit(&window->arena);
    kiln_free(window);
}

void kiln_tracker_calendar_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->calendar.holds.count; i++) kiln_free(t->calendar.holds.data[i]);
    for (uint32_t i = 0; i < t->calendar.windows.count; i++)
        free_window(t->calendar.windows.data[i]);
    kiln_vec_deinit(&t->calendar.holds);
    kiln_vec_deinit(&t->calendar.windows);
    kiln_map_deinit(&t->calendar.hold_of_node);
}

/* ---- Questions ---- */

const kiln_tracker_hold *kiln_tracker_hold_of(const kiln_tracker *t,
                                              const kiln_tracker_board *board) {
    if (t->calendar.holds.count == 0) return NULL;
    return kiln_tracker_find(&t->calendar.hold_of_node, kiln_str_from(board->node));
}

bool kiln_tracker_window_has(const kiln_tracker_window *window, const kiln_tracker_board *board) {
    const kiln_msg_maintenance_row *row = &window->row;
    if (row->board.size && !kiln_str_is(row->board, board->node) &&
        !kiln_str_equal(row->board, board->up.key))
        return false;
    return kiln_tracker_board_has_labels(board, row->labels.item, row->labels.count);
}

const kiln_tracker_window *kiln_tracker_window_of(const kiln_tracker *t,
                                                  const kiln_tracker_board *board) {
    const kiln_tracker_window *first = NULL;
    for (uint32_t i = 0; i < t->calendar.windows.count; i++) {
        const kiln_tracker_window *window = t->calendar.windows.data[i];
        if (!window->row.begin_ms || !kiln_tracker_window_has(window, board)) continue;
        if (!first || window->row.begin_ms < first->row.begin_ms) first = window;
    }
    return first;
}

/* How long a lease may last on the board. */
static uint64_t lease_ms(const kiln_tracker_board *board, uint32_t trials) {
    return (uint64_t)KILN_MAX(KILN_TRACKER_SLICE_NS, board->trial_ns * trials) / KILN_NS_PER_MS;
}

bool kiln_tracker_calendar_allows(const kiln_tracker *t, const kiln_tracker_board *board,
                                  const char *owner, uint32_t trials) {
    const kiln_tracker_hold *hold = kiln_tracker_hold_of(t, board);
    if (hold && strcmp(hold->person, owner) != 0) return false;
    const uint64_t end_ms = kiln_tracker_wall_ms(t) + lease_ms(board, trials);
    for (uint32_t i = 0; i < t->calendar.windows.count; i++) {
        const kiln_tracker_window *window = t->calendar.windows.data[i];
        if (window->row.begin_ms && window->row.begin_ms < end_ms &&
            kiln_tracker_window_has(window, board))
            return false;
    }
    return true;
}

static void print_utc(uint64_t wall_ms, kiln_strbuf *out) {
    const time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    kiln_strbuf_printf(out, "%04d-%02d-%02d %02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                       utc.tm_mday, utc.tm_hour, utc.tm_min);
}

void kiln_tracker_calendar_say_why(const kiln_tracker *t, const kiln_tracker_board *board,
                                   const char *owner, kiln_strbuf *out) {
    const kiln_tracker_hold *hold = kiln_tracker_hold_of(t, board);
    const kiln_tracker_window *window = kiln_tracker_window_of(t, board);
    kiln_strbuf_str(out, board->up.key.size ? board->up.key : kiln_str_from(board->node));
    if (hold && strcmp(hold->person, owner) != 0) {
        kiln_strbuf_printf(out, " is reserved by %s until ", hold->person);
        print_utc(hold->until_ms, out);
        if (hold->text[0]) kiln_strbuf_printf(out, ": %s", hold->text);
    } else if (window) {
        kiln_strbuf_text(out, window->is_open ? " is in maintenance until "
                                              : " is kept free for maintenance, from ");
        print_utc(window->is_open ? window->row.end_ms : window->row.begin_ms, out);
        kiln_strbuf_printf(out, " (%.*s)", KILN_STR_ARG(window->shown));
    }
}

kiln_tracker_window *kiln_tracker_window_find(kiln_tracker *t, uint64_t number) {
    for (uint32_t i = 0; i < t->calendar.windows.count; i++)
        if (t->calendar.windows.data[i]->row.number == number) return t->calendar.windows.data[i];
    return NULL;
}

/* ---- Reservations ---- */

static kiln_tracker_hold *hold_get(kiln_tracker *t, kiln_str node) {
    kiln_tracker_hold *hold = kiln_tracker_find(&t->calendar.hold_of_node, node);
    if (hold) return hold;
    hold = kiln_alloc(sizeof *hold);
    kiln_tracker_set_text(hold->node, node);
    kiln_vec_push(&t->calendar.holds, hold);
    kiln_map_put(&t->calendar.hold_of_node, kiln_str_from(hold->node), (uintptr_t)hold);
    return hold;
}

static void set_hold(kiln_tracker_hold *hold, const kiln_msg_kept_reservation *kept) {
    kiln_tracker_set_text(hold->person, kept->person);
    kiln_tracker_copy_text(hold->text, sizeof hold->text, kept->text);
    hold->until_ms = kept->until_ms;
}

/* The row of a reserved board; its name lies in `id`. */
static kiln_tracker_row row_of_board(const char *node, kiln_strbuf *id) {
    kiln_strbuf_printf(id, ID_BOARD "%s", node);
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_CALENDAR, .id = kiln_strbuf_view(id)};
}

uint64_t kiln_tracker_hold_put(kiln_tracker *t, const kiln_tracker_board *board, kiln_str person,
                               uint64_t until_ms, kiln_str text) {
    const kiln_msg_kept_reservation kept = {.person = person, .until_ms = until_ms, .text = text};
    kiln_tracker_hold *hold = hold_get(t, kiln_str_from(board->node));
    kiln_strbuf id = {0};
    set_hold(hold, &kept);
    const uint64_t persist = kiln_tracker_persist_record(t, row_of_board(hold->node, &id),
                                                         KILN_RECORD_kept_reservation, &kept);
    kiln_strbuf_deinit(&id);
    return persist;
}

uint64_t kiln_tracker_hold_remove(kiln_tracker *t, const kiln_tracker_hold *hold) {
    kiln_tracker_hold *own =
        kiln_tracker_find(&t->calendar.hold_of_node, kiln_str_from(hold->node));
    kiln_strbuf id = {0};
    kiln_tracker_row row = row_of_board(own->node, &id);
    row.removed = true;
    const uint64_t persist = kiln_tracker_persist(t, &row, 1);
    kiln_strbuf_deinit(&id);
    kiln_map_remove(&t->calendar.hold_of_node, kiln_str_from(own->node));
    kiln_tracker_remove(&t->calendar.holds, own);
    kiln_free(own);
    return persist;
}

/* ---- Windows ---- */

static kiln_tracker_row row_of_window(uint64_t number, kiln_strbuf *id) {
    kiln_strbuf_printf(id, ID_WINDOW "%llu", (unsigned long long)number);
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_CALENDAR, .id = kiln_strbuf_view(id)};
}

bool kiln_tracker_window_look(kiln_tracker *t, kiln_tracker_window *window) {
    const uint64_t now_ms = kiln_tracker_wall_ms(t);
    const bool was_open = window->is_open;
    uint64_t begin_s = 0, end_s = 0;
    const bool is_any = kiln_week_time_next(&window->when, now_ms / 1000, &begin_s, &end_s);
    window->row.begin_ms = is_any ? begin_s * 1000 : 0;
    window->row.end_ms = is_any ? end_s * 1000 : 0;
    window->is_open = is_any && window->row.begin_ms <= now_ms;
    return window->is_open != was_open;
}

/* A window from a row, which is copied. */
static kiln_status make_window(kiln_tracker *t, const kiln_msg_maintenance_row *row,
                               kiln_tracker_window **out_window) {
    kiln_week_time when;
    kiln_status st = kiln_week_time_parse(row->when, &when);
    if (st) return st;
    kiln_tracker_window *window = kiln_alloc(sizeof *window);
    kiln_arena_init(&window->arena, 512);
    window->row = *row;
    kiln_record_copy(KILN_RECORD_maintenance_row, &window->row, &window->arena);
    window->when = when;
    window->shown = window->row.text.size
                        ? kiln_str_printf(&window->arena, "%.*s: %.*s", KILN_STR_ARG(row->when),
                                          KILN_STR_ARG(row->text))
                        : window->row.when;
    window->shown = kiln_str_slice(window->shown, 0, KILN_MESSAGES_NAME);
    kiln_vec_push(&t->calendar.windows, window);
    *out_window = window;
    return KILN_OK;
}

kiln_status kiln_tracker_window_add(kiln_tracker *t, const kiln_msg_maintenance_row *row,
                                    kiln_str by, kiln_tracker_window **out_window,
                                    uint64_t *out_persist) {
    kiln_msg_maintenance_row kept = *row;
    kiln_strbuf id = {0};
    kept.begin_ms = kept.end_ms = 0;
    kept.by = by;
    kept.number = t->calendar.last_number + 1;
    kiln_status st = make_window(t, &kept, out_window);
    if (st) return st;
    t->calendar.last_number = kept.number;
    *out_persist = kiln_tracker_persist_record(t, row_of_window(kept.number, &id),
                                               KILN_RECORD_maintenance_row, &kept);
    kiln_strbuf_deinit(&id);
    return KILN_OK;
}

uint64_t kiln_tracker_window_remove(kiln_tracker *t, kiln_tracker_window *window) {
    kiln_strbuf id = {0};
    kiln_tracker_row row = row_of_window(window->row.number, &id);
    row.removed = true;
    const uint64_t persist = kiln_tracker_persist(t, &row, 1);
    kiln_strbuf_deinit(&id);
    kiln_tracker_remove(&t->calendar.windows, window);
    free_window(window);
    return persist;
}

/* ---- Restoring ---- */

static kiln_status restore_hold(kiln_tracker *t, kiln_str node, const kiln_tracker_row *row,
                                kiln_arena *scratch) {
    kiln_msg_kept_reservation kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_reservation, row->body, scratch, &kept);
    if (!st) set_hold(hold_get(t, node), &kept);
    return st;
}

static kiln_status restore_window(kiln_tracker *t, const kiln_tracker_row *row,
                                  kiln_arena *scratch) {
    kiln_msg_maintenance_row kept = {0};
    kiln_tracker_window *window = NULL;
    kiln_status st = kiln_record_decode(KILN_RECORD_maintenance_row, row->body, scratch, &kept);
    if (!st) st = make_window(t, &kept, &window);
    if (!st) t->calendar.last_number = KILN_MAX(t->calendar.last_number, kept.number);
    return st;
}

kiln_status kiln_tracker_calendar_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_arena scratch = {0};
    const size_t skip = strlen(ID_BOARD);
    kiln_status st = KILN_OK;
    if (kiln_str_starts(row->id, ID_BOARD) && row->id.size - skip <= KILN_MESSAGES_TEXT)
        st = restore_hold(t, kiln_str_slice(row->id, skip, row->id.size), row, &scratch);
    else if (kiln_str_starts(row->id, ID_WINDOW))
        st = restore_window(t, row, &scratch);
    else
        st = KILN_ERROR(DATA_LOSS, "a row of the calendar with an unknown name");
    kiln_arena_deinit(&scratch);
    return st ? kiln_status_note(st, "stored calendar row %.*s", KILN_STR_ARG(row->id)) : KILN_OK;
}

/* ---- Invariants ---- */

void kiln_tracker_calendar_check(const kiln_tracker *t) {
    KILN_CHECK(kiln_map_count(&t->calendar.hold_of_node) == t->calendar.holds.count);
    for (uint32_t i = 0; i < t->calendar.holds.count; i++) {
        const kiln_tracker_hold *hold = t->calendar.holds.data[i];
        KILN_CHECK(hold->person[0] != 0);
        KILN_CHECK(kiln_tracker_find(&t->calendar.hold_of_node, kiln_str_from(hold->node)) == hold);
    }
    for (uint32_t i = 0; i < t->calendar.windows.count; i++) {
        const kiln_tracker_window *window = t->calendar.windows.data[i];
        KILN_CHECK(window->row.number && window->row.number <= t->calendar.last_number);
        KILN_CHECK(!window->is_open || window->row.begin_ms);
    }
}
