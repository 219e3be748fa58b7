/* Orders about open jobs: another priority. */
#include "tests/unit/tracker/fleet.h"

enum { BOARD = 10, TUNER = 20, OWNER = 30, ANN = 31, BOB = 32 };

static kiln_code order(fleet *f, uint64_t peer, const char *job, uint32_t priority) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_JOB_ORDER,
                              .stream = 9,
                              .job_order = {.job = kiln_str_from(job), .priority = priority}});
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    if (error) return (kiln_code)error->error.code;
    const kiln_message *state = fleet_take(f, peer, KILN_MSG_JOB_STATE);
    assert_non_null(state);
    assert_int_equal(state->stream, 9);
    return KILN_OK;
}

static uint32_t priority_of(fleet *f, const char *job) {
    return kiln_tracker_job_find(f->t, kiln_str_from(job))->spec.priority;
}

static void two_jobs_of_one_project(fleet *f) {
    fleet_board(f, BOARD, "board", 1);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    fleet_connect(f, OWNER, KILN_PEER_CLIENT, "owner", "c1");
    fleet_open_job(f, OWNER, "a", true);
    fleet_open_job(f, OWNER, "b", true);
}

static void request(fleet *f, const char *job, uint64_t number) {
    const kiln_message ask = fleet_request(job, number);
    fleet_say(f, TUNER, &ask);
}

static void a_waiting_job_goes_first_with_a_higher_priority(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    request(f, "a", 1);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    assert_int_equal(grant->lease_grant.request, 1);
    request(f, "a", 2);
    request(f, "b", 3);
    assert_int_equal(order(f, OWNER, "b", 50), KILN_OK);
    fleet_say(f, TUNER,
              &(kiln_message){.type = KILN_MSG_LEASE_RELEASE,
                              .lease_release = {.lease = grant->lease_grant.lease}});
    assert_int_equal(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.request, 3);
}

static void a_priority_is_kept_over_a_restart(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    assert_int_equal(order(f, OWNER, "a", 70), KILN_OK);
    assert_int_equal(order(f, OWNER, "b", 0), KILN_OK);
    fleet_restart(f);
    assert_int_equal(priority_of(f, "a"), 70);
    assert_int_equal(priority_of(f, "b"), 0);
}

static void it_is_answered_when_it_is_on_disk(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    const kiln_message message = {.type = KILN_MSG_JOB_ORDER,
                                  .stream = 9,
                                  .job_order = {.job = KILN_STR("a"), .priority = 1}};
    f->hold_disk = true;
    fleet_forget_sent(f);
    fleet_say(f, OWNER, &message);
    assert_null(fleet_take(f, OWNER, KILN_MSG_JOB_STATE));
    fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, OWNER, KILN_MSG_JOB_STATE));
    fleet_say(f, OWNER, &message);
    fleet_persist(f, "the disk is full");
    const kiln_message *error = fleet_take(f, OWNER, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    expect_contains(error->error.text.data, "priority");
}

static void the_same_command_still_attaches_to_the_job(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    assert_int_equal(order(f, OWNER, "a", 70), KILN_OK);
    const kiln_message again = fleet_job("a", true);
    fleet_say(f, OWNER, &again);
    assert_null(fleet_take(f, OWNER, KILN_MSG_ERROR));
    assert_int_equal(priority_of(f, "a"), 70);
}

static void what_cannot_be_ordered_is_refused(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    assert_int_equal(order(f, OWNER, "c", 1), KILN_NOT_FOUND);
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER,
                              .project_order = {
                                  .project = KILN_STR("default"),
                                  .act = KILN_PROJECT_SET,
                                  .settings = {&(kiln_msg_setting){KILN_STR("priority"), 10}, 1}}});
    assert_int_equal(order(f, OWNER, "a", 11), KILN_OUT_OF_RANGE);
    assert_int_equal(order(f, OWNER, "a", 10), KILN_OK);
    fleet_disconnect(f, TUNER);
    fleet_wait(f, 6 * FLEET_S, (const uint64_t[]){BOARD, OWNER, 0});
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_CANCEL,
                              .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("a")}});
    assert_int_equal(order(f, OWNER, "a", 5), KILN_FAILED_PRECONDITION);
}

static void only_who_may_stop_a_job_changes_its_priority(void **state) {
    fleet *f = *state;
    two_jobs_of_one_project(f);
    f->who = (kiln_tracker_who){.is_proven = true, .person = "ann"};
    fleet_connect(f, ANN, KILN_PEER_CLIENT, "ann", "c2");
    f->who.person = "bob";
    fleet_connect(f, BOB, KILN_PEER_CLIENT, "bob", "c3");
    fleet_open_job(f, ANN, "of-ann", true);
    assert_int_equal(order(f, ANN, "of-ann", 5), KILN_OK);
    assert_int_equal(order(f, BOB, "of-ann", 6), KILN_PERMISSION_DENIED);
    assert_int_equal(order(f, ANN, "a", 6), KILN_PERMISSION_DENIED);
    assert_int_equal(order(f, OWNER, "of-ann", 7), KILN_OK);
    assert_int_equal(priority_of(f, "of-ann"), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_waiting_job_goes_first_with_a_higher_priority),
        test_with_fleet(a_priority_is_kept_over_a_restart),
        test_with_fleet(it_is_answered_when_it_is_on_disk),
        test_with_fleet(the_same_command_still_attaches_to_the_job),
        test_with_fleet(what_cannot_be_ordered_is_refused),
        test_with_fleet(only_who_may_stop_a_job_changes_its_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
