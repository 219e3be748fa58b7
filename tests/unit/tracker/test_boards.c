#include <string.h>

#include "base/fence.h"
#include "tests/unit/tracker/fleet.h"

static const char *state_of_board(fleet *f, const char *node) {
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_BOARD, .id = kiln_str_from(node)}};
    fleet_connect(f, 90, KILN_PEER_CLIENT, "asker", "a");
    fleet_say(f, 90, &query);
    const kiln_message *answer = fleet_take(f, 90, KILN_MSG_ANSWER);
    fleet_disconnect(f, 90);
    return answer ? kiln_str_dup(&f->arena, answer->answer.boards.item[0].state) : "unknown";
}

static void a_board_is_free_leased_sick_and_lost(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    assert_string_equal(state_of_board(f, "board"), "free");
    fleet_lease(f, 1);
    assert_string_equal(state_of_board(f, "board"), "leased");
    kiln_message sick = {.type = KILN_MSG_BOARD_STATE,
                         .board_state = {.sick = true, .text = KILN_STR("too hot")}};
    fleet_say(f, 10, &sick);
    assert_string_equal(state_of_board(f, "board"), "sick");
    fleet_disconnect(f, 10);
    assert_string_equal(state_of_board(f, "board"), "lost");
    assert_string_equal(state_of_board(f, "stranger"), "unknown");
}

static void a_sick_board_loses_its_lease_and_gets_none_until_it_is_well(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message health = {.type = KILN_MSG_BOARD_STATE, .board_state = {.sick = true}};
    fleet_say(f, 10, &health);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_LOST)->lease_lost.lease, lease);
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    health.board_state.sick = false;
    fleet_say(f, 10, &health);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
}

static void a_board_that_says_goodbye_gets_no_lease(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message away = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = KILN_STR("stopping")}};
    fleet_say(f, 10, &away);
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    assert_string_equal(state_of_board(f, "board"), "leaving");
}

static void a_board_without_sense_is_turned_away(void **state) {
    fleet *f = *state;
    fleet_connect(f, 10, KILN_PEER_BOARD, "board", "b");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("b"), .target = KILN_STR("nonsense"), .slots = 1}};
    fleet_say(f, 10, &up);
    assert_int_equal(f->dropped, 10);
    assert_int_equal(f->drop_code, KILN_INVALID_ARGUMENT);
    fleet_connect(f, 11, KILN_PEER_BOARD, "other", "b");
    up.board_up.target = KILN_STR(FLEET_TARGET);
    up.board_up.slots = 0;
    fleet_say(f, 11, &up);
    assert_int_equal(f->dropped, 11);
}

static void board_up(fleet *f, uint64_t peer, const char *node, const char *name, bool has_key) {
    f->who = has_key ? (kiln_tracker_who){.is_proven = true, .has_key = true}
                     : (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    f->dropped = 0;
    fleet_connect(f, peer, KILN_PEER_BOARD, node, "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = kiln_str_from(name), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    if (f->dropped != peer) fleet_say(f, peer, &up);
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
}

static void expect_impostor(fleet *f, uint64_t peer, const char *node, const char *name,
                            bool has_key) {
    board_up(f, peer, node, name, has_key);
    assert_int_equal(f->dropped, peer);
    assert_int_equal(f->drop_code, KILN_PERMISSION_DENIED);
    fleet_disconnect(f, peer);
}

static void the_names_of_boards_with_keys_are_nobody_elses(void **state) {
    fleet *f = *state;
    board_up(f, 10, "rpi-1", "shelf", true);
    for (int restarted = 0; restarted < 2; restarted++) {
        expect_impostor(f, 11, "eve", "shelf", true);
        expect_impostor(f, 11, "eve", "rpi-1", true);
        expect_impostor(f, 11, "local", "shelf", false);
        expect_impostor(f, 11, "local", "rpi-1", false);
        expect_impostor(f, 11, "rpi-1", "other", false); /* its node, without its key */
        if (!restarted) assert_string_equal(state_of_board(f, "rpi-1"), "free");
        fleet_restart(f);
    }
    board_up(f, 12, "rpi-1", "shelf", true); /* the one that it is */
    assert_int_equal(f->dropped, 0);
    assert_string_equal(state_of_board(f, "eve"), "unknown");
    board_up(f, 13, "eve", "cellar", true);
    board_up(f, 14, "rpi-1", "attic", true); /* it changes its name, and the old one is free */
    assert_int_equal(f->dropped, 12);        /* a newer connection */
    board_up(f, 15, "ann", "shelf", true);
    assert_int_equal(f->dropped, 0);
    expect_impostor(f, 16, "bob", "attic", true);
}

static void boards_without_keys_may_share_a_name_that_no_key_has(void **state) {
    fleet *f = *state;
    board_up(f, 10, "a", "shelf", false);
    board_up(f, 11, "b", "shelf", false);
    assert_int_equal(f->dropped, 0);
    expect_impostor(f, 12, "eve", "shelf", true);
    assert_string_equal(state_of_board(f, "a"), "free");
    assert_string_equal(state_of_board(f, "b"), "free");
}

static void an_impostor_is_one_line_of_the_history_however_often_it_tries(void **state) {
    fleet *f = *state;
    board_up(f, 10, "rpi-1", "shelf", true);
    for (int i = 0; i < 3; i++) expect_impostor(f, 11, "eve", "shelf", true);
    const kiln_tracker_board *board = kiln_tracker_board_find(f->t, KILN_STR("rpi-1"));
    assert_int_equal(board->past_count, 2);
    assert_int_equal(board->past[1].what, KILN_TRACKER_PAST_IMPOSTOR);
}

static void an_impostor_that_was_another_board_is_that_no_more(void **state) {
    fleet *f = *state;
    board_up(f, 10, "rpi-1", "shelf", true);
    board_up(f, 11, "eve", "cellar", true);
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("shelf"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    fleet_say(f, 11, &up);
    assert_int_equal(f->dropped, 11);
    assert_string_equal(state_of_board(f, "eve"), "lost");
    assert_string_equal(state_of_board(f, "rpi-1"), "free");
}

/* A node's name is nobody else's key. */
static void a_board_is_found_by_its_node_before_any_name(void **state) {
    fleet *f = *state;
    board_up(f, 10, "one", "two", false);
    board_up(f, 11, "two", "shelf", false);
    assert_ptr_equal(kiln_tracker_board_named(f->t, KILN_STR("two")),
                     kiln_tracker_board_find(f->t, KILN_STR("two")));
    assert_ptr_equal(kiln_tracker_board_named(f->t, KILN_STR("shelf")),
                     kiln_tracker_board_find(f->t, KILN_STR("two")));
}

static void say_labels(fleet *f, uint64_t peer, kiln_msg_label *label, uint32_t count) {
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = KILN_STR("b"),
                                    .target = KILN_STR(FLEET_TARGET),
                                    .slots = 1,
                                    .labels = {label, count}}};
    fleet_say(f, peer, &up);
}

static void labels_that_changed_are_on_disk(void **state) {
    fleet *f = *state;
    kiln_msg_label label[] = {{KILN_STR("rack"), KILN_STR("7")}, {KILN_STR("fan"), KILN_STR("no")}};
    fleet_connect(f, 10, KILN_PEER_BOARD, "b", "boot");
    say_labels(f, 10, label, 1);
    uint32_t writes = f->writes[KILN_TRACKER_ROW_BOARD];
    say_labels(f, 10, label, 1);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BOARD], writes);
    say_labels(f, 10, label, 2);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BOARD], ++writes);
    label[1].key = KILN_STR("lid");
    say_labels(f, 10, label, 2);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BOARD], ++writes);
    label[1].value = KILN_STR("yes");
    say_labels(f, 10, label, 2);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BOARD], ++writes);
    say_labels(f, 10, label, 1);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BOARD], ++writes);
}

static void a_board_that_says_other_slots_loses_its_leases(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    const uint64_t lease = fleet_lease(f, 1);
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("board"), .target = KILN_STR(FLEET_TARGET), .slots = 3}};
    fleet_say(f, 10, &up);
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
}

static void a_board_that_loses_its_sense_is_lost_and_may_come_back(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message tail = {.type = KILN_MSG_TAIL,
                         .tail = {.board = KILN_STR("board"), .follow = true}};
    fleet_connect(f, 40, KILN_PEER_ADMIN, "admin", "a");
    fleet_say(f, 40, &tail);
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("b"), .target = KILN_STR("nonsense"), .slots = 1}};
    fleet_say(f, 10, &up);
    assert_int_equal(f->dropped, 10);
    assert_non_null(fleet_take(f, 40, KILN_MSG_ERROR)); /* no line will come any more */
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
    fleet_board(f, 11, "board", 1);
    fleet_disconnect(f, 10); /* its former end does no harm to the newer connection */
    assert_string_equal(state_of_board(f, "board"), "free");
    assert_true(fleet_lease(f, 2) > lease);
}

static void trials_that_are_over_are_ended_when_a_board_returns(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_disconnect(f, 10);
    fleet_connect(f, 11, KILN_PEER_BOARD, "board", "b");
    kiln_msg_running running = {KILN_STR("t"), 1, lease};
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("b"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    up.board_up.running.item = &running;
    up.board_up.running.count = 1;
    fleet_say(f, 11, &up);
    assert_int_equal(fleet_take(f, 11, KILN_MSG_LEASE_LOST)->lease_lost.lease, lease);
}

/* ---- Several targets ---- */

#define OTHER_TARGET "opencl:pocl"

/* A board of two slots of a processor and one of another device. */
static void bring_twofold(fleet *f, uint64_t peer, uint32_t other_slots) {
    kiln_msg_board_target other = {.target = KILN_STR(OTHER_TARGET),
                                   .slots = other_slots,
                                   .device = KILN_STR("a card"),
                                   .firmware = KILN_STR("driver 7")};
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("both"), .target = KILN_STR(FLEET_TARGET), .slots = 2}};
    up.board_up.targets.item = &other;
    up.board_up.targets.count = 1;
    fleet_connect(f, peer, KILN_PEER_BOARD, "both", "boot");
    fleet_say(f, peer, &up);
}

static const kiln_msg_lease_grant *ask_for(fleet *f, uint64_t request, const char *target,
                                           bool exclusive) {
    kiln_message ask = fleet_request("j", request);
    ask.lease_req.target = kiln_str_from(target);
    ask.lease_req.exclusive = exclusive;
    fleet_say(f, 20, &ask);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    return grant ? &grant->lease_grant : NULL;
}

static void each_target_of_a_board_has_slots_and_leases_of_its_own(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    bring_twofold(f, 11, 1);
    const kiln_msg_lease_grant *whole = ask_for(f, 1, FLEET_TARGET, true);
    assert_non_null(whole); /* all slots of the processor, and only of it */
    assert_int_equal(whole->slot, 0);
    const kiln_msg_lease_grant *other = ask_for(f, 2, OTHER_TARGET, false);
    assert_non_null(other);
    assert_int_equal(other->slot, 2);
    expect_str(other->target, OTHER_TARGET);
    expect_str(other->device, "a card");
    expect_str(other->firmware, "driver 7");
    assert_null(ask_for(f, 3, FLEET_TARGET, false));
    assert_null(ask_for(f, 4, OTHER_TARGET, false));
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                            .lease_release = {.lease = whole->lease}};
    fleet_say(f, 20, &release);
    expect_str(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.target, FLEET_TARGET);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* the other device is still taken */
}

static void rows_say_every_target_and_what_is_leased_of_it(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    bring_twofold(f, 11, 1);
    assert_non_null(ask_for(f, 1, OTHER_TARGET, false));
    kiln_msg_board_row row =
        kiln_tracker_board_row(f->t, kiln_tracker_board_find(f->t, KILN_STR("both")), NULL);
    assert_int_equal(row.slots, 2);
    assert_int_equal(row.busy, 0);
    assert_int_equal(row.targets.count, 1);
    expect_str(row.targets.item[0].target, OTHER_TARGET);
    assert_int_equal(row.targets.item[0].busy, 1);
    assert_int_equal(row.eta_ms, 0); /* it has a free slot */
    kiln_strbuf text = {0};
    fleet_print(f, KILN_TRACKER_PAGE_METRICS, &text);
    expect_contains(text.data, "kiln_target_busy{node=\"both\",target=\"" OTHER_TARGET "\"} 1\n");
    expect_contains(text.data, "kiln_target_slots{node=\"both\",target=\"" FLEET_TARGET "\"} 2\n");
    kiln_strbuf_deinit(&text);
}

static void targets_and_their_leases_survive_a_restart_of_the_tracker(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    bring_twofold(f, 11, 1);
    const kiln_msg_lease_grant *other = ask_for(f, 1, OTHER_TARGET, false);
    assert_non_null(other);
    fleet_restart(f);
    const kiln_tracker_board *board = kiln_tracker_board_find(f->t, KILN_STR("both"));
    assert_int_equal(board->device_count, 2);
    expect_str(board->device[1].reported->target, OTHER_TARGET);
    assert_int_equal(board->slot[2], other->lease);
    assert_int_equal(board->device[1].reported->busy, 1);
    assert_int_equal(board->device[0].reported->busy, 0);
    bring_twofold(f, 12, 1);
    assert_int_equal(board->slot[2], other->lease); /* it came back as it was */
    assert_int_equal(board->device[1].reported->busy, 1);
}

static void a_board_whose_targets_got_other_slots_loses_its_leases(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    bring_twofold(f, 11, 1);
    const kiln_msg_lease_grant *other = ask_for(f, 1, OTHER_TARGET, false);
    bring_twofold(f, 12, 2);
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, other->lease);
    assert_non_null(ask_for(f, 2, OTHER_TARGET, false));
    assert_non_null(ask_for(f, 3, OTHER_TARGET, false));
    assert_null(ask_for(f, 4, OTHER_TARGET, false));
}

static void targets_without_slots_or_with_too_many_are_refused(void **state) {
    fleet *f = *state;
    static const uint32_t slots[] = {0, 15};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(slots); i++) {
        f->dropped = 0;
        bring_twofold(f, 30 + i, slots[i]);
        assert_int_equal(f->dropped, 30 + i);
        assert_int_equal(f->drop_code, KILN_INVALID_ARGUMENT);
    }
}

static void a_newer_connection_of_a_board_replaces_the_older(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_lease(f, 1);
    fleet_board(f, 11, "board", 1);
    assert_int_equal(f->dropped, 10);
    assert_int_equal(f->drop_code, KILN_ABORTED);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    fleet_disconnect(f, 10); /* and its end does no harm to the newer one */
    assert_int_equal(kiln_tracker_counts_of(f->t).boards_connected, 1);
}

static void the_board_that_is_lost_for_longest_makes_room(void **state) {
    fleet *f = *state;
    for (uint64_t i = 0; i < KILN_TRACKER_BOARDS_MAX; i++) {
        char *node = kiln_arena_printf(&f->arena, "b%llu", (unsigned long long)i);
        fleet_board(f, 1000 + i, node, 1);
        f->now_ns += FLEET_MS;
        if (i < 2) fleet_disconnect(f, 1000 + i);
    }
    fleet_board(f, 10, "newcomer", 1);
    assert_string_equal(state_of_board(f, "newcomer"), "free");
    assert_string_equal(state_of_board(f, "b0"), "unknown");
    assert_string_equal(state_of_board(f, "b1"), "lost");
    fleet_board(f, 11, "another", 1);
    fleet_board(f, 12, "too-many", 1);
    assert_int_equal(f->dropped, 12);
    assert_int_equal(f->drop_code, KILN_RESOURCE_EXHAUSTED);
}

static void say_up(fleet *f, uint64_t peer, const char *node, const char *fences) {
    fleet_connect(f, peer, KILN_PEER_BOARD, node, "boot");
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = kiln_str_from(node),
                                    .target = KILN_STR(FLEET_TARGET),
                                    .slots = 1,
                                    .fences = kiln_str_from(fences)}};
    fleet_say(f, peer, &up);
}

static void a_grant_says_what_contains_candidates_there(void **state) {
    fleet *f = *state;
    say_up(f, 10, "board", "uid,moat,seccomp"); /* what is unknown here may be known to a tuner */
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", false);
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 20, &ask);
    expect_str(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.fences, "uid,moat,seccomp");
}

static void a_board_without_the_fences_that_are_required_gets_no_work(void **state) {
    fleet *f = *state;
    kiln_tracker_require_fences(f->t, 1U << KILN_FENCE_UID | 1U << KILN_FENCE_SECCOMP);
    say_up(f, 10, "board", "pids,uid");
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", false);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)); /* no board would serve it */
    assert_string_equal(state_of_board(f, "board"), "unfenced");
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_BOARD, .id = KILN_STR("board")}};
    fleet_say(f, 30, &query);
    const kiln_str why = fleet_take(f, 30, KILN_MSG_ANSWER)->answer.boards.item[0].text;
    assert_non_null(strstr(kiln_str_dup(&f->arena, why), "without the fences seccomp ("));
    say_up(f, 11, "board", "uid,seccomp"); /* its owner mended it */
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 20, &ask);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    assert_string_equal(state_of_board(f, "board"), "leased");
    say_up(f, 12, "board", ""); /* and broke it again: as one of an earlier version */
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_board_is_free_leased_sick_and_lost),
        test_with_fleet(a_sick_board_loses_its_lease_and_gets_none_until_it_is_well),
        test_with_fleet(a_board_that_says_goodbye_gets_no_lease),
        test_with_fleet(a_board_without_sense_is_turned_away),
        test_with_fleet(the_names_of_boards_with_keys_are_nobody_elses),
        test_with_fleet(boards_without_keys_may_share_a_name_that_no_key_has),
        test_with_fleet(an_impostor_is_one_line_of_the_history_however_often_it_tries),
        test_with_fleet(an_impostor_that_was_another_board_is_that_no_more),
        test_with_fleet(a_board_is_found_by_its_node_before_any_name),
        test_with_fleet(labels_that_changed_are_on_disk),
        test_with_fleet(a_board_that_says_other_slots_loses_its_leases),
        test_with_fleet(a_board_that_loses_its_sense_is_lost_and_may_come_back),
        test_with_fleet(trials_that_are_over_are_ended_when_a_board_returns),
        test_with_fleet(a_newer_connection_of_a_board_replaces_the_older),
        test_with_fleet(the_board_that_is_lost_for_longest_makes_room),
        test_with_fleet(each_target_of_a_board_has_slots_and_leases_of_its_own),
        test_with_fleet(rows_say_every_target_and_what_is_leased_of_it),
        test_with_fleet(targets_and_their_leases_survive_a_restart_of_the_tracker),
        test_with_fleet(a_board_whose_targets_got_other_slots_loses_its_leases),
        test_with_fleet(targets_without_slots_or_with_too_many_are_refused),
        test_with_fleet(a_grant_says_what_contains_candidates_there),
        test_with_fleet(a_board_without_the_fences_that_are_required_gets_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
