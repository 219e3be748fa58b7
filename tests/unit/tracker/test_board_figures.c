/* Figures of processors: those of the first board of a target hold. */
#include "tests/unit/tracker/fleet.h"

#define V4 "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4"

static kiln_str bytes_of(kiln_arena *arena, double latency) {
    kiln_strbuf bytes = {0};
    kiln_figures figures = {0};
    figures.figure[KILN_FIGURE_LATENCY] = latency;
    kiln_figures_encode(&figures, &bytes);
    return kiln_strbuf_end(&bytes, arena);
}

static void come(fleet *f, uint64_t peer, const char *node, const char *target, kiln_str figures,
                 bool remeasured) {
    fleet_connect(f, peer, KILN_PEER_BOARD, node, node);
    const kiln_message up = {.type = KILN_MSG_BOARD_UP,
                             .board_up = {.key = kiln_str_from(node),
                                          .target = kiln_str_from(target),
                                          .slots = 1,
                                          .figures = figures,
                                          .remeasured = remeasured}};
    fleet_say(f, peer, &up);
    assert_int_equal(f->dropped, 0);
}

/* Of the board's target; 0: none are kept. */
static double latency_of(fleet *f, const char *node) {
    const uint64_t client = f->sent.count + 1000; /* a peer that was not there yet */
    fleet_connect(f, client, KILN_PEER_CLIENT, "client", "client");
    const kiln_message ask = {
        .type = KILN_MSG_QUERY, .stream = 1, .query = {.topic = KILN_TOPIC_FLEET}};
    fleet_say(f, client, &ask);
    const kiln_message *answer = fleet_take(f, client, KILN_MSG_ANSWER);
    assert_non_null(answer);
    for (uint32_t i = 0; i < answer->answer.boards.count; i++) {
        const kiln_msg_board_row *row = &answer->answer.boards.item[i];
        kiln_figures figures;
        if (!kiln_str_is(row->key, node)) continue;
        expect_ok(kiln_figures_decode(row->figures, &figures));
        return figures.figure[KILN_FIGURE_LATENCY];
    }
    fail_msg("no board %s", node);
    return 0;
}

static void the_first_boards_figures_hold_for_its_target(void **state) {
    fleet *f = *state;
    come(f, 10, "none", FLEET_TARGET, (kiln_str){0}, false);
    assert_true(latency_of(f, "none") == 0);
    come(f, 11, "first", FLEET_TARGET ",cores=4,threads=4", bytes_of(&f->arena, 4), false);
    come(f, 12, "second", FLEET_TARGET ",cores=2,threads=2", bytes_of(&f->arena, 5), false);
    come(f, 13, "other", V4, bytes_of(&f->arena, 6), false);
    assert_true(latency_of(f, "first") == 4 && latency_of(f, "second") == 4);
    assert_true(latency_of(f, "none") == 4 && latency_of(f, "other") == 6);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_FIGURES], 2);
}

static void a_restart_keeps_them(void **state) {
    fleet *f = *state;
    come(f, 10, "first", FLEET_TARGET, bytes_of(&f->arena, 4), false);
    fleet_restart(f);
    assert_true(latency_of(f, "first") == 4);
    come(f, 11, "second", FLEET_TARGET, bytes_of(&f->arena, 5), false);
    assert_true(latency_of(f, "second") == 4);
}

static void a_person_has_them_measured_anew(void **state) {
    fleet *f = *state;
    come(f, 10, "first", FLEET_TARGET, bytes_of(&f->arena, 4), false);
    come(f, 11, "second", FLEET_TARGET, bytes_of(&f->arena, 5), true);
    assert_true(latency_of(f, "first") == 5);
    fleet_restart(f);
    assert_true(latency_of(f, "first") == 5);
}

static void what_cannot_be_is_not_kept(void **state) {
    fleet *f = *state;
    come(f, 10, "broken", FLEET_TARGET, KILN_STR("\xff\xff"), false);
    come(f, 11, "wild", FLEET_TARGET, bytes_of(&f->arena, 1e6), true);
    come(f, 12, "emulated", FLEET_TARGET ",emulated", bytes_of(&f->arena, 4), false);
    assert_true(latency_of(f, "broken") == 0 && latency_of(f, "wild") == 0 &&
                latency_of(f, "emulated") == 0);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_FIGURES], 0);
    come(f, 13, "right", FLEET_TARGET, bytes_of(&f->arena, 4), false);
    assert_true(latency_of(f, "broken") == 4);
}

static void targets_beyond_the_limit_have_none(void **state) {
    fleet *f = *state;
    for (uint32_t i = 0; i < KILN_TRACKER_FIGURES_MAX; i++)
        kiln_vec_push(&f->rows, ((kiln_tracker_row){
                                    .kind = KILN_TRACKER_ROW_FIGURES,
                                    .id = kiln_str_from(kiln_arena_printf(&f->arena, "cpu:%u", i)),
                                    .body = bytes_of(&f->arena, 4)}));
    fleet_restart(f);
    come(f, 10, "late", FLEET_TARGET, bytes_of(&f->arena, 4), false);
    assert_true(latency_of(f, "late") == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(the_first_boards_figures_hold_for_its_target),
        test_with_fleet(a_restart_keeps_them),
        test_with_fleet(a_person_has_them_measured_anew),
        test_with_fleet(what_cannot_be_is_not_kept),
        test_with_fleet(targets_beyond_the_limit_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
