/* What jobs and requests require of a board, and which boards meet that. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

enum { UNKNOWN, FITS, FITS_NOT };

/* ---- The table ---- */

static uint32_t free_place(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.wants.count; i++)
        if (!t->boards.wants.data[i]) return i;
    kiln_vec_push(&t->boards.wants, NULL);
    return t->boards.wants.count - 1;
}

static kiln_str copy_text(kiln_arena *arena, kiln_str text) {
    return (kiln_str){kiln_str_dup(arena, text), text.size};
}

static kiln_status fill(kiln_tracker_want *want, kiln_str text, kiln_str target, kiln_str key,
                        const kiln_msg_label *label, uint32_t label_count) {
    want->text = kiln_str_dup(&want->arena, text);
    want->key = copy_text(&want->arena, key);
    kiln_msg_label *labels = KILN_ARENA_ARRAY(&want->arena, kiln_msg_label, label_count);
    for (uint32_t i = 0; i < label_count; i++)
        labels[i] = (kiln_msg_label){copy_text(&want->arena, label[i].key),
                                     copy_text(&want->arena, label[i].value)};
    want->label = labels;
    want->label_count = label_count;
    return kiln_target_parse(copy_text(&want->arena, target), &want->arena, &want->target);
}

static void free_want(kiln_tracker_want *want) {
    if (!want) return;
    kiln_arena_deinit(&want->arena);
    kiln_free(want);
}

static void add_want(kiln_tracker *t, kiln_tracker_want *want) {
    want->number = free_place(t);
    t->boards.wants.data[want->number] = want;
    kiln_map_put(&t->boards.want_of_text, kiln_str_from(want->text), (uintptr_t)want);
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        for (uint32_t d = 0; d < board->device_count; d++) {
            kiln_tracker_device *device = &board->device[d];
            if (want->number < device->fits.count) device->fits.data[want->number] = UNKNOWN;
            if (!board->available || !kiln_tracker_want_fits(want, device)) continue;
            want->devices++;
            want->slots += device->said->slots;
        }
    }
}

kiln_status kiln_tracker_want_get(kiln_tracker *t, kiln_str target, kiln_str key,
                                  const kiln_msg_label *label, uint32_t label_count, bool exclusive,
                                  kiln_tracker_want **out_want) {
    kiln_strbuf text = {0};
    uint64_t value = 0;
    kiln_status st = KILN_OK;
    /* Lengths keep apart what contains the separators. */
    kiln_strbuf_printf(&text, "%d|%zu:%.*s|%.*s", exclusive, key.size, KILN_STR_ARG(key),
                       KILN_STR_ARG(target));
    for (uint32_t i = 0; i < label_count; i++)
        kiln_strbuf_printf(&text, "|%zu:%.*s=%zu:%.*s", label[i].key.size,
                           KILN_STR_ARG(label[i].key), label[i].value.size,
                           KILN_STR_ARG(label[i].value));
    kiln_tracker_want *want = NULL;
    if (kiln_map_find(&t->boards.want_of_text, kiln_strbuf_view(&text), &value)) {
        want = (kiln_tracker_want *)(uintptr_t)value;
    } else {
        want = kiln_alloc(sizeof *want);
        kiln_arena_init(&want->arena, KILN_TRACKER_ARENA_BYTES);
        want->exclusive = exclusive;
        st = fill(want, kiln_strbuf_view(&text), target, key, label, label_count);
        if (!st) add_want(t, want);
    }
    kiln_strbuf_deinit(&text);
    if (st) {
        free_want(want);
        return st;
    }
    want->users++;
    *out_want = want;
    return KILN_OK;
}

void kiln_tracker_want_unref(kiln_tracker *t, kiln_tracker_want *want) {
    if (!want || --want->users) return;
    kiln_map_remove(&t->boards.want_of_text, kiln_str_from(want->text));
    t->boards.wants.data[want->number] = NULL;
    free_want(want);
}

void kiln_tracker_wants_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.wants.count; i++) free_want(t->boards.wants.data[i]);
    kiln_vec_deinit(&t->boards.wants);
    kiln_map_deinit(&t->boards.want_of_text);
}

/* ---- Which boards ---- */

static bool has_label(const kiln_msg_board_up *up, const kiln_msg_label *label) {
    for (uint32_t i = 0; i < up->labels.count; i++)
        if (kiln_str_equal(up->labels.item[i].key, label->key) &&
            kiln_str_equal(up->labels.item[i].value, label->value))
            return true;
    return false;
}

static bool compare(const kiln_tracker_want *want, const kiln_tracker_device *device) {
    const kiln_tracker_board *board = device->board;
    if (!board->known) return false;
    if (want->key.size && !kiln_str_equal(want->key, board->up.key) &&
        !kiln_str_is(want->key, board->node))
        return false;
    for (uint32_t i = 0; i < want->label_count; i++)
        if (!has_label(&board->up, &want->label[i])) return false;
    kiln_strbuf reason = {0};
    bool fits = kiln_target_serves(&want->target, &device->target, &reason);
    kiln_strbuf_deinit(&reason);
    return fits;
}

bool kiln_tracker_want_fits(kiln_tracker_want *want, kiln_tracker_device *device) {
    while (device->fits.count <= want->number) kiln_vec_push(&device->fits, UNKNOWN);
    uint8_t *fits = &device->fits.data[want->number];
    if (*fits == UNKNOWN) *fits = compare(want, device) ? FITS : FITS_NOT;
    return *fits == FITS;
}

bool kiln_tracker_want_is_whole(const kiln_tracker_want *want, const kiln_tracker_device *device) {
    uint32_t threads = want->target.threads, cores = device->target.cores; /* 1: unknown */
    return want->exclusive || (threads > 1 && (uint64_t)threads * device->said->slots > cores);
}

static void count_device(kiln_tracker *t, kiln_tracker_device *device, bool available) {
    for (uint32_t i = 0; i < t->boards.wants.count; i++) {
        kiln_tracker_want *want = t->boards.wants.data[i];
        if (!want || !kiln_tracker_want_fits(want, device)) continue;
        if (available && want->devices == 0) kiln_tracker_set_fleet_changed(t);
        want->devices += available ? 1u : UINT32_MAX; /* minus one */
        want->slots += available ? device->said->slots : 0u - device->said->slots;
        if (want->devices == 0) kiln_tracker_set_fleet_changed(t);
    }
}

void kiln_tracker_wants_count(kiln_tracker *t, kiln_tracker_board *board, bool available) {
    for (uint32_t i = 0; i < board->device_count; i++)
        count_device(t, &board->device[i], available);
}
