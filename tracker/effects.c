#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "tracker/state.h"

void kiln_tracker_effects_init(kiln_tracker *t, uint64_t now_ns) {
    t->effects.now_ns = t->effects.wake_ns = now_ns;
    t->effects.change = t->effects.first_change = now_ns + 1; /* 0 is before all changes */
}

void kiln_tracker_effects_begin(kiln_tracker *t, uint64_t now_ns, kiln_tracker_actions *actions) {
    KILN_CHECK(now_ns >= t->effects.now_ns);
    t->effects.now_ns = now_ns;
    t->effects.actions = actions;
}

void kiln_tracker_effects_end(kiln_tracker *t) { t->effects.actions = NULL; }

/* ---- Time and numbers ---- */

void kiln_tracker_set_wall(kiln_tracker *t, uint64_t wall_ns) {
    t->effects.wall_offset_ns = wall_ns - t->effects.now_ns;
}

uint64_t kiln_tracker_wall_ns(const kiln_tracker *t) {
    return t->effects.now_ns + t->effects.wall_offset_ns;
}

uint64_t kiln_tracker_wall_ms(const kiln_tracker *t) {
    return kiln_tracker_wall_ns(t) / KILN_NS_PER_MS;
}

uint64_t kiln_tracker_next_change(kiln_tracker *t) { return ++t->effects.change; }

uint64_t kiln_tracker_next_row(kiln_tracker *t) { return ++t->effects.last_row; }

void kiln_tracker_wake_at(kiln_tracker *t, uint64_t at_ns) {
    t->effects.wake_ns = KILN_MIN(t->effects.wake_ns, at_ns);
}

uint64_t kiln_tracker_next_ns(const kiln_tracker *t) { return t->effects.wake_ns; }

bool kiln_tracker_take_tick(kiln_tracker *t) {
    if (t->effects.now_ns < t->effects.wake_ns) return false;
    t->effects.wake_ns = t->effects.now_ns + KILN_TRACKER_TICK_NS;
    return true;
}

void kiln_tracker_set_fleet_changed(kiln_tracker *t) { t->effects.fleet_changed = true; }

bool kiln_tracker_take_fleet_changed(kiln_tracker *t) {
    const bool changed = t->effects.fleet_changed;
    t->effects.fleet_changed = false;
    return changed;
}

void kiln_tracker_copy_text(char *out, size_t size, kiln_str text) {
    const size_t bytes = KILN_MIN(text.size, size - 1);
    if (bytes) memcpy(out, text.data, bytes);
    out[bytes] = 0;
}

void kiln_tracker_set_text(kiln_tracker_text out, kiln_str text) {
    kiln_tracker_copy_text(out, sizeof(kiln_tracker_text), text);
}

void *kiln_tracker_find(const kiln_map *map, kiln_str key) {
    uint64_t value = 0;
    return kiln_map_find(map, key, &value) ? (void *)(uintptr_t)value : NULL;
}

kiln_str kiln_tracker_number_key(const uint64_t *number) {
    return (kiln_str){(const char *)number, sizeof *number};
}

/* ---- Actions ---- */

kiln_tracker_action *kiln_tracker_add_action(kiln_tracker *t, kiln_tracker_action_kind kind) {
    kiln_tracker_action action = {.kind = kind};
    kiln_vec_push(&t->effects.actions->list, action);
    return &kiln_vec_last(&t->effects.actions->list);
}

kiln_tracker_row kiln_tracker_row_copy(const kiln_tracker_row *row, kiln_arena *arena) {
    kiln_tracker_row copy = *row;
    kiln_str *text[] = {&copy.id,    &copy.state, &copy.body, &copy.board,
                        &copy.tuner, &copy.node,  &copy.job};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        text[i]->data = kiln_arena_copy(arena, text[i]->data, text[i]->size);
    return copy;
}

uint64_t kiln_tracker_persist(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count) {
    kiln_arena *arena = &t->effects.actions->arena;
    kiln_tracker_row *copy = KILN_ARENA_ARRAY(arena, kiln_tracker_row, count);
    for (uint32_t i = 0; i < count; i++) copy[i] = kiln_tracker_row_copy(&row[i], arena);
    kiln_tracker_action *action = kiln_tracker_add_action(t, KILN_TRACKER_PERSIST);
    action->row = copy;
    action->row_count = count;
    action->persist = ++t->effects.persist;
    return action->persist;
}

void kiln_tracker_may_wait(kiln_tracker *t) {
    kiln_vec_last(&t->effects.actions->list).may_wait = true;
}

void kiln_tracker_persist_later(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count) {
    kiln_tracker_persist(t, row, count);
    kiln_tracker_may_wait(t);
}

void kiln_tracker_row_fill(kiln_tracker_row *row, kiln_record_type type, const void *record,
                           kiln_strbuf *body) {
    kiln_status st = kiln_record_encode(type, record, body);
    KILN_CHECK(st == NULL);
    row->body = kiln_strbuf_view(body);
}

uint64_t kiln_tracker_persist_record(kiln_tracker *t, kiln_tracker_row row, kiln_record_type type,
                                     const void *record) {
    kiln_strbuf body = {0};
    kiln_tracker_row_fill(&row, type, record, &body);
    const uint64_t persist = kiln_tracker_persist(t, &row, 1);
    kiln_strbuf_deinit(&body);
    return persist;
}

void kiln_tracker_drop_blob(kiln_tracker *t, const kiln_digest *digest) {
    kiln_tracker_add_action(t, KILN_TRACKER_DROP_BLOB)->blob = *digest;
}

void kiln_tracker_log(kiln_tracker *t, const kiln_tracker_note *note) {
    kiln_arena *arena = &t->effects.actions->arena;
    kiln_tracker_note *copy = kiln_arena_copy(arena, note, sizeof *note);
    kiln_str *text[] = {&copy->job, &copy->board, &copy->trial, &copy->tuner, &copy->text};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        text[i]->data = kiln_arena_copy(arena, text[i]->data, text[i]->size);
    kiln_tracker_add_action(t, KILN_TRACKER_LOG)->note = copy;
}

void kiln_tracker_actions_reset(kiln_tracker_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_tracker_actions_deinit(kiln_tracker_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}
