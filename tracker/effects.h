/* What all owners share in a step: the actions that it leaves for the shell, the time, numbers that
 * only grow, when the next tick is due, and small helpers. */
#ifndef KILN_TRACKER_EFFECTS_H
#define KILN_TRACKER_EFFECTS_H

#include "base/map.h"
#include "tracker/tracker.h"

#define KILN_TRACKER_TICK_NS UINT64_C(250000000)

typedef char kiln_tracker_text[KILN_MESSAGES_TEXT + 1]; /* an identity, NUL-terminated */

/* Removes `item`, which the vector of pointers contains; the others keep their order. */
#define kiln_tracker_remove(v, item)                                                             \
    do {                                                                                         \
        uint32_t at_ = 0;                                                                        \
        while ((v)->data[at_] != (item)) at_++;                                                  \
        memmove(&(v)->data[at_], &(v)->data[at_ + 1], (--(v)->count - at_) * sizeof *(v)->data); \
    } while (0)

typedef struct kiln_tracker_effects {
    uint64_t now_ns;               /* of the step under way */
    uint64_t wall_offset_ns;       /* of the wall clock, from the time of steps */
    kiln_tracker_actions *actions; /* of the step under way; NULL: none is */
    uint64_t persist;              /* last PERSIST */
    uint64_t change; /* grows with each change of a row; begins at the time of creation, so that
                        numbers of a former run are recognised as such */
    uint64_t first_change;
    uint64_t last_row;  /* number of the newest board, job or project */
    uint64_t wake_ns;   /* when the next tick is due */
    bool fleet_changed; /* a tuner came or went, or a board that fits a job: all jobs are checked
                           again */
} kiln_tracker_effects;

void kiln_tracker_effects_init(kiln_tracker *t, uint64_t now_ns);
/* Begins a step whose actions are appended to `actions`. */
void kiln_tracker_effects_begin(kiln_tracker *t, uint64_t now_ns, kiln_tracker_actions *actions);
void kiln_tracker_effects_end(kiln_tracker *t);

/* The wall clock (kiln_tracker_set_wall). */
uint64_t kiln_tracker_wall_ns(const kiln_tracker *t);
uint64_t kiln_tracker_wall_ms(const kiln_tracker *t);
/* The numbers of the next change of a row and of the next new row. */
uint64_t kiln_tracker_next_change(kiln_tracker *t);
uint64_t kiln_tracker_next_row(kiln_tracker *t);
/* Asks for a tick at `at_ns` at the latest. `take`: whether a tick is due, once. */
void kiln_tracker_wake_at(kiln_tracker *t, uint64_t at_ns);
bool kiln_tracker_take_tick(kiln_tracker *t);
/* Asks that all jobs are checked at the end of the step. `take`: whether that was asked, once. */
void kiln_tracker_set_fleet_changed(kiln_tracker *t);
bool kiln_tracker_take_fleet_changed(kiln_tracker *t);

/* The pointer that the map has for a key; NULL: it has none. */
void *kiln_tracker_find(const kiln_map *map, kiln_str key);
/* A number as a key; `number` lasts as long. */
kiln_str kiln_tracker_number_key(const uint64_t *number);

/* Appends an empty action. */
kiln_tracker_action *kiln_tracker_add_action(kiln_tracker *t, kiln_tracker_action_kind kind);
/* Copies as much of the text as fits `out`, which has `size` bytes, and a NUL. */
void kiln_tracker_copy_text(char *out, size_t size, kiln_str text);
void kiln_tracker_set_text(kiln_tracker_text out, kiln_str text);
/* Makes `record` the body of the row; it lies in `body`, which must last as long. */
void kiln_tracker_row_fill(kiln_tracker_row *row, kiln_record_type type, const void *record,
                           kiln_strbuf *body);

/* Appends a PERSIST of the rows, which are copied, and returns its number. */
uint64_t kiln_tracker_persist(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count);
/* Nobody waits for the last PERSIST, and its loss costs little: a later one may take it along. */
void kiln_tracker_may_wait(kiln_tracker *t);
/* Both. */
void kiln_tracker_persist_later(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count);
/* kiln_tracker_persist of one row whose body is `record`. Every part of the record came through the
 * decoder or is shorter, so that it can be encoded. */
uint64_t kiln_tracker_persist_record(kiln_tracker *t, kiln_tracker_row row, kiln_record_type type,
                                     const void *record);
/* Appends a DROP_BLOB. */
void kiln_tracker_drop_blob(kiln_tracker *t, const kiln_digest *digest);
/* Appends a LOG of the note, which is copied. */
void kiln_tracker_log(kiln_tracker *t, const kiln_tracker_note *note);

#endif
