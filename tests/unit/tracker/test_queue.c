#include "tests/unit/tracker/fleet.h"

static void one_slot_has_one_lease_and_the_next_request_waits(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t first = fleet_lease(f, 1);
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = first}};
    fleet_say(f, 20, &release);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_true(grant->lease_grant.lease > first);
}

static void two_slots_are_leased_apart(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "large", 2);
    uint64_t lease[3];
    for (uint64_t i = 0; i < 3; i++) lease[i] = fleet_lease(f, i + 1);
    assert_true(lease[0] != lease[1] && lease[1] != lease[2]);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 3);
}

static void a_repeated_request_gets_the_same_grant(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    uint64_t first = fleet_lease(f, 1);
    assert_int_equal(fleet_lease(f, 1), first);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
}

static void a_request_for_a_foreign_job_is_refused(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_tuner(f, 21, "other", "other-1");
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 21, &ask);
    const kiln_message *error = fleet_take(f, 21, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_NOT_FOUND);
    assert_int_equal(error->stream, 3);
}

static void a_bad_request_is_refused_with_its_reason(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.ttl_ms = 3600000;
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    ask = fleet_request("j", 2);
    ask.lease_req.target = KILN_STR("cpu:");
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

static void labels_and_targets_choose_the_board(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_msg_label want = {KILN_STR("room"), KILN_STR("lab")};
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.labels.item = &want;
    ask.lease_req.labels.count = 1;
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    fleet_connect(f, 11, KILN_PEER_BOARD, "lab-board", "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("lab-board"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    up.board_up.labels.item = &want;
    up.board_up.labels.count = 1;
    fleet_say(f, 11, &up);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    expect_str(grant->lease_grant.board, "lab-board");
}

static void the_job_with_fewer_leases_is_served_first(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_open_job(f, 30, "k", false);
    fleet_lease(f, 1);
    kiln_message more = fleet_request("j", 2), other = fleet_request("k", 3);
    fleet_say(f, 20, &more); /* older, but its job has a board already */
    fleet_say(f, 20, &other);
    fleet_board(f, 11, "second", 1);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.request, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(one_slot_has_one_lease_and_the_next_request_waits),
        test_with_fleet(two_slots_are_leased_apart),
        test_with_fleet(a_repeated_request_gets_the_same_grant),
        test_with_fleet(a_request_for_a_foreign_job_is_refused),
        test_with_fleet(a_bad_request_is_refused_with_its_reason),
        test_with_fleet(labels_and_targets_choose_the_board),
        test_with_fleet(the_job_with_fewer_leases_is_served_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
