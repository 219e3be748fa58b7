/* The calendar of the boards: which person has reserved a board, and when boards are in
 * maintenance. Both are rows on disk. The scheduler asks here before it grants a lease. */
#ifndef KILN_TRACKER_CALENDAR_H
#define KILN_TRACKER_CALENDAR_H

#include "tracker/boards.h"
#include "tracker/week_time.h"

#define KILN_TRACKER_WINDOWS_MAX 256u
#define KILN_TRACKER_RESERVED_MAX 8u /* boards of one person, except administrators */

/* A board that is reserved for a person's jobs. The board need not be known any more. */
typedef struct kiln_tracker_hold {
    kiln_tracker_text node, person;
    uint64_t until_ms;                 /* of the wall clock */
    char text[KILN_MESSAGES_NAME + 1]; /* why */
} kiln_tracker_hold;

/* A maintenance window. */
typedef struct kiln_tracker_window {
    kiln_arena arena;
    kiln_msg_maintenance_row row; /* in `arena`; `begin_ms` and `end_ms` as of the last look */
    kiln_str shown;               /* its time and reason, for rows of boards */
    kiln_week_time when;
    bool is_open;
} kiln_tracker_window;

typedef struct kiln_tracker_calendar {
    KILN_VEC(kiln_tracker_hold *) holds;
    kiln_map hold_of_node;
    KILN_VEC(kiln_tracker_window *) windows; /* by ascending number */
    uint64_t last_number;                    /* of a window */
} kiln_tracker_calendar;

void kiln_tracker_calendar_init(kiln_tracker *t);
void kiln_tracker_calendar_free(kiln_tracker *t);

/* ---- Questions ---- */
/* NULL: nobody has reserved it. */
const kiln_tracker_hold *kiln_tracker_hold_of(const kiln_tracker *t,
                                              const kiln_tracker_board *board);
/* The board's window that is open, else the one that opens first; NULL: there is none. */
const kiln_tracker_window *kiln_tracker_window_of(const kiln_tracker *t,
                                                  const kiln_tracker_board *board);
/* Whether a job of this owner may have the board for a lease of so many trials: it is not reserved
 * for another person, and no maintenance window is open or begins meanwhile. O(windows). */
bool kiln_tracker_calendar_allows(const kiln_tracker *t, const kiln_tracker_board *board,
                                  const char *owner, uint32_t trials);
/* Why not, for people, with the board's name and the end in UTC: "pi-1 is reserved by ann until
 * 2023-11-13 15:40 UTC: a paper". */
void kiln_tracker_calendar_say_why(const kiln_tracker *t, const kiln_tracker_board *board,
                                   const char *owner, kiln_strbuf *out);
bool kiln_tracker_window_has(const kiln_tracker_window *window, const kiln_tracker_board *board);

/* ---- Changes; each returns its PERSIST ---- */
uint64_t kiln_tracker_hold_put(kiln_tracker *t, const kiln_tracker_board *board, kiln_str person,
                               uint64_t until_ms, kiln_str text);
/* `hold` is freed. */
uint64_t kiln_tracker_hold_remove(kiln_tracker *t, const kiln_tracker_hold *hold);
/* A copy of `row`, with a number and `by`. INVALID_ARGUMENT: its `when`. */
KILN_MUST_USE kiln_status kiln_tracker_window_add(kiln_tracker *t,
                                                  const kiln_msg_maintenance_row *row, kiln_str by,
                                                  kiln_tracker_window **out_window,
                                                  uint64_t *out_persist);
/* Frees it. */
uint64_t kiln_tracker_window_remove(kiln_tracker *t, kiln_tracker_window *window);
/* NULL: there is no window of this number. */
kiln_tracker_window *kiln_tracker_window_find(kiln_tracker *t, uint64_t number);
/* Sets when the window is open next. Returns whether it has opened or closed. */
bool kiln_tracker_window_look(kiln_tracker *t, kiln_tracker_window *window);

KILN_MUST_USE kiln_status kiln_tracker_calendar_restore(kiln_tracker *t,
                                                        const kiln_tracker_row *row);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_calendar_check(const kiln_tracker *t);

#endif
