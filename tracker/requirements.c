#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

enum { UNKNOWN, FITS, FITS_NOT };

/* ---- The table ---- */

static uint32_t free_place(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.requirements.count; i++)
        if (!t->boards.requirements.data[i]) return i;
    kiln_vec_push(&t->boards.requirements, NULL);
    return t->boards.requirements.count - 1;
}

static kiln_status fill(kiln_tracker_requirement *required, kiln_str text, kiln_str target,
                        kiln_str key, const kiln_msg_label *label, uint32_t label_count) {
    required->text = kiln_str_dup(&required->arena, text);
    required->key = kiln_str_copy(&required->arena, key);
    kiln_msg_label *labels = KILN_ARENA_ARRAY(&required->arena, kiln_msg_label, label_count);
    for (uint32_t i = 0; i < label_count; i++)
        labels[i] = (kiln_msg_label){kiln_str_copy(&required->arena, label[i].key),
                                     kiln_str_copy(&required->arena, label[i].value)};
    required->label = labels;
    required->label_count = label_count;
    return kiln_target_parse(kiln_str_copy(&required->arena, target), &required->arena,
                             &required->target);
}

static void free_requirement(kiln_tracker_requirement *required) {
    if (!required) return;
    kiln_arena_deinit(&required->arena);
    kiln_free(required);
}

static void add_requirement(kiln_tracker *t, kiln_tracker_requirement *required) {
    required->number = free_place(t);
    t->boards.requirements.data[required->number] = required;
    kiln_map_put(&t->boards.requirement_of_text, kiln_str_from(required->text),
                 (uintptr_t)required);
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        for (uint32_t d = 0; d < board->device_count; d++) {
            kiln_tracker_device *device = &board->device[d];
            if (required->number < device->fits.count)
                device->fits.data[required->number] = UNKNOWN;
            if (!board->available || !kiln_tracker_requirement_fits(required, device)) continue;
            required->devices++;
            required->slots += device->reported->slots;
        }
    }
}

kiln_status kiln_tracker_requirement_get(kiln_tracker *t, kiln_str target, kiln_str key,
                                         const kiln_msg_label *label, uint32_t label_count,
                                         bool exclusive, kiln_tracker_requirement **out_required) {
    kiln_strbuf text = {0};
    kiln_status st = KILN_OK;
    /* Lengths distinguish texts that contain the separators. */
    kiln_strbuf_printf(&text, "%d|%zu:%.*s|%.*s", exclusive, key.size, KILN_STR_ARG(key),
                       KILN_STR_ARG(target));
    for (uint32_t i = 0; i < label_count; i++)
        kiln_strbuf_printf(&text, "|%zu:%.*s=%zu:%.*s", label[i].key.size,
                           KILN_STR_ARG(label[i].key), label[i].value.size,
                           KILN_STR_ARG(label[i].value));
    kiln_tracker_requirement *required =
        kiln_tracker_find(&t->boards.requirement_of_text, kiln_strbuf_view(&text));
    if (!required) {
        required = kiln_alloc(sizeof *required);
        kiln_arena_init(&required->arena, KILN_TRACKER_ARENA_BYTES);
        required->exclusive = exclusive;
        st = fill(required, kiln_strbuf_view(&text), target, key, label, label_count);
        if (!st) add_requirement(t, required);
    }
    kiln_strbuf_deinit(&text);
    if (st) {
        free_requirement(required);
        return st;
    }
    required->users++;
    *out_required = required;
    return KILN_OK;
}

void kiln_tracker_requirement_unref(kiln_tracker *t, kiln_tracker_requirement *required) {
    if (!required || --required->users) return;
    kiln_map_remove(&t->boards.requirement_of_text, kiln_str_from(required->text));
    t->boards.requirements.data[required->number] = NULL;
    free_requirement(required);
}

void kiln_tracker_requirements_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->boards.requirements.count; i++)
        free_requirement(t->boards.requirements.data[i]);
    kiln_vec_deinit(&t->boards.requirements);
    kiln_map_deinit(&t->boards.requirement_of_text);
}

/* ---- Which boards ---- */

static bool has_label(const kiln_msg_board_up *up, const kiln_msg_label *label) {
    for (uint32_t i = 0; i < up->labels.count; i++)
        if (kiln_str_equal(up->labels.item[i].key, label->key) &&
            kiln_str_equal(up->labels.item[i].value, label->value))
            return true;
    return false;
}

bool kiln_tracker_board_has_labels(const kiln_tracker_board *board, const kiln_msg_label *label,
                                   uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!has_label(&board->up, &label[i])) return false;
    return true;
}

static bool compare(const kiln_tracker_requirement *required, const kiln_tracker_device *device) {
    const kiln_tracker_board *board = device->board;
    if (!board->known) return false;
    if (required->key.size && !kiln_str_equal(required->key, board->up.key) &&
        !kiln_str_is(required->key, board->node))
        return false;
    if (!kiln_tracker_board_has_labels(board, required->label, required->label_count)) return false;
    kiln_strbuf reason = {0};
    bool fits = kiln_target_serves(&required->target, &device->target, &reason);
    kiln_strbuf_deinit(&reason);
    return fits;
}

bool kiln_tracker_requirement_fits(kiln_tracker_requirement *required,
                                   kiln_tracker_device *device) {
    while (device->fits.count <= required->number) kiln_vec_push(&device->fits, UNKNOWN);
    uint8_t *fits = &device->fits.data[required->number];
    if (*fits == UNKNOWN) *fits = compare(required, device) ? FITS : FITS_NOT;
    return *fits == FITS;
}

bool kiln_tracker_requirement_is_whole(const kiln_tracker_requirement *required,
                                       const kiln_tracker_device *device) {
    uint32_t threads = required->target.threads, cores = device->target.cores; /* 1: not known */
    return required->exclusive ||
           (threads > 1 && (uint64_t)threads * device->reported->slots > cores);
}

static void count_device(kiln_tracker *t, kiln_tracker_device *device, bool available) {
    for (uint32_t i = 0; i < t->boards.requirements.count; i++) {
        kiln_tracker_requirement *required = t->boards.requirements.data[i];
        if (!required || !kiln_tracker_requirement_fits(required, device)) continue;
        if (available && required->devices == 0) kiln_tracker_set_fleet_changed(t);
        required->devices += available ? 1u : UINT32_MAX; /* minus one */
        required->slots += available ? device->reported->slots : 0u - device->reported->slots;
        if (required->devices == 0) kiln_tracker_set_fleet_changed(t);
    }
}

void kiln_tracker_requirements_count(kiln_tracker *t, kiln_tracker_board *board, bool available) {
    for (uint32_t i = 0; i < board->device_count; i++)
        count_device(t, &board->device[i], available);
}
