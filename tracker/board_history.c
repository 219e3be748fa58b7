#include <string.h>

#include "base/check.h"
#include "tracker/state.h"

static const char *const name_of[] = {
#define X(NAME, name) [KILN_TRACKER_PAST_##NAME] = name,
    KILN_TRACKER_PASTS(X)
#undef X
};

static void append(kiln_tracker_board *board, uint64_t at_ms, kiln_tracker_board_event what,
                   kiln_str text) {
    if (board->past_count == KILN_TRACKER_PAST_MAX)
        memmove(&board->past[0], &board->past[1], --board->past_count * sizeof board->past[0]);
    kiln_tracker_past *past = &board->past[board->past_count++];
    past->wall_ms = at_ms;
    past->what = what;
    kiln_tracker_copy_text(past->text, sizeof past->text, text);
}

void kiln_tracker_board_happened(kiln_tracker *t, kiln_tracker_board *board,
                                 kiln_tracker_board_event what, const char *text) {
    append(board, kiln_tracker_wall_ms(t), what, kiln_str_from(text));
    if (!board->unkept) kiln_vec_push(&t->boards.unkept, board);
    board->unkept = true;
}

void kiln_tracker_history_forget(kiln_tracker *t, kiln_tracker_board *board) {
    if (board->unkept) kiln_tracker_remove(&t->boards.unkept, board);
    board->unkept = false;
}

uint64_t kiln_tracker_history_lost_ns(const kiln_tracker *t, const kiln_tracker_board *board) {
    const kiln_tracker_past *last = board->past_count ? &board->past[board->past_count - 1] : NULL;
    uint64_t lost_ns = t->effects.now_ns - board->lost_ns, wall = kiln_tracker_wall_ms(t);
    if (!last || last->what != KILN_TRACKER_PAST_LOST || last->wall_ms >= wall) return lost_ns;
    return KILN_MAX(lost_ns, (wall - last->wall_ms) * UINT64_C(1000000));
}

void kiln_tracker_history_list(const kiln_tracker_board *board,
                               kiln_msg_board_event out_event[KILN_TRACKER_PAST_MAX]) {
    for (uint32_t i = 0; i < board->past_count; i++)
        out_event[i] = (kiln_msg_board_event){.wall_ms = board->past[i].wall_ms,
                                              .what = kiln_str_from(name_of[board->past[i].what]),
                                              .text = kiln_str_from(board->past[i].text)};
}

void kiln_tracker_history_restore(kiln_tracker_board *board, const kiln_msg_kept_board *kept) {
    for (uint32_t i = 0; i < kept->history.count; i++)
        for (size_t what = 0; what < KILN_ARRAY_COUNT(name_of); what++)
            if (kiln_str_is(kept->history.item[i].what, name_of[what]))
                append(board, kept->history.item[i].wall_ms, (kiln_tracker_board_event)what,
                       kept->history.item[i].text);
}
