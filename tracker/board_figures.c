/* Figures of processors. The figures of the first board of a target are used for all boards of it,
 * so that a job chooses the same schedules whichever boards are connected. */
#include <string.h>

#include "base/check.h"
#include "tracker/state.h"

/* The text of the processor, whatever share of its cores the board offers. */
static kiln_str key_of(const kiln_target *target, kiln_strbuf *text) {
    kiln_target_print_processor(target, text);
    return kiln_strbuf_view(text);
}

static kiln_tracker_figures *find(const kiln_tracker *t, kiln_str key) {
    for (uint32_t i = 0; i < t->boards.figures.count; i++)
        if (kiln_str_is(key, t->boards.figures.data[i].target)) return &t->boards.figures.data[i];
    return NULL;
}

/* Keeps copies. NULL: there are too many, or the text is too long. */
static kiln_tracker_figures *put(kiln_tracker *t, kiln_str key, kiln_str bytes) {
    kiln_tracker_figures *kept = find(t, key);
    if (!kept) {
        if (t->boards.figures.count == KILN_TRACKER_FIGURES_MAX ||
            key.size > KILN_TRACKER_ROW_ID_MAX)
            return NULL;
        kiln_vec_push(&t->boards.figures, ((kiln_tracker_figures){0}));
        kept = &t->boards.figures.data[t->boards.figures.count - 1];
        memcpy(kept->target, key.data, key.size);
    }
    KILN_CHECK(bytes.size <= sizeof kept->bytes);
    memcpy(kept->bytes, bytes.data, bytes.size);
    kept->size = (uint32_t)bytes.size;
    return kept;
}

void kiln_tracker_figures_hear(kiln_tracker *t, const kiln_tracker_board *board) {
    const kiln_msg_board_up *up = &board->up;
    kiln_figures figures;
    kiln_strbuf text = {0};
    const kiln_str key = key_of(&board->device[0].target, &text);
    kiln_status st = kiln_figures_decode(up->figures, &figures);
    const bool wanted = !st && up->figures.size > 0 && !board->device[0].target.emulated &&
                        (up->remeasured || !find(t, key));
    if (wanted && put(t, key, up->figures)) {
        const kiln_tracker_row row = {
            .kind = KILN_TRACKER_ROW_FIGURES, .id = key, .body = up->figures};
        kiln_tracker_persist(t, &row, 1);
    }
    kiln_status_free(st); /* figures that do not decode are ignored */
    kiln_strbuf_deinit(&text);
}

kiln_str kiln_tracker_figures_of(const kiln_tracker *t, const kiln_tracker_board *board) {
    kiln_strbuf text = {0};
    const kiln_tracker_figures *kept = find(t, key_of(&board->device[0].target, &text));
    kiln_strbuf_deinit(&text);
    return kept ? (kiln_str){kept->bytes, kept->size} : (kiln_str){0};
}

kiln_status kiln_tracker_figures_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_figures figures;
    kiln_status st = kiln_figures_decode(row->body, &figures);
    if (!st && !put(t, row->id, row->body))
        st = KILN_ERROR(DATA_LOSS, "there are too many, or the target's text is too long");
    return kiln_status_note(st, "stored figures of %.*s", KILN_STR_ARG(row->id));
}
