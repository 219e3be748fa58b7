#include "tests/unit/tracker/fleet.h"

enum { BOARD = 10, TUNER = 20, OWNER = 30, ANN = 31 };
static const uint64_t all[] = {BOARD, BOARD + 1, TUNER, OWNER, ANN, 0};

static void connect_ann(fleet *f) {
    const kiln_tracker_who owner = f->who;
    f->who = (kiln_tracker_who){.is_proven = true, .person = "ann"};
    fleet_connect(f, ANN, KILN_PEER_CLIENT, "ann", "ann");
    f->who = owner;
}

/* Two boards of two slots, and ann, whose job "j" of project "p" runs. */
static void begin(fleet *f) {
    fleet_board(f, BOARD, "b0", 2);
    fleet_board(f, BOARD + 1, "b1", 2);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    fleet_connect(f, OWNER, KILN_PEER_CLIENT, "owner", "owner");
    connect_ann(f);
}

static void order(fleet *f, kiln_project_act act, kiln_setting setting, uint64_t value) {
    kiln_msg_setting item = {kiln_str_from(kiln_setting_name(setting)), value};
    kiln_message message = {.type = KILN_MSG_PROJECT_ORDER,
                            .project_order = {.project = KILN_STR("p"),
                                              .act = act,
                                              .person = KILN_STR("ann"),
                                              .role = KILN_MEMBER_MEMBER}};
    if (act == KILN_PROJECT_SET) message.project_order.settings.item = &item;
    if (act == KILN_PROJECT_SET) message.project_order.settings.count = 1;
    fleet_say(f, OWNER, &message);
    assert_non_null(fleet_take(f, OWNER, KILN_MSG_PROJECTS));
}

static kiln_code open_job(fleet *f, const char *id, bool detach) {
    kiln_message open = fleet_job(id, detach);
    open.job_open.spec.project = KILN_STR("p");
    fleet_forget_sent(f);
    fleet_say(f, ANN, &open);
    const kiln_message *error = fleet_take(f, ANN, KILN_MSG_ERROR);
    if (!error) return KILN_OK;
    assert_int_equal(error->error.lease, 0); /* about none */
    return (kiln_code)error->error.code;
}

static void run_job(fleet *f, kiln_setting setting, uint64_t value) {
    begin(f);
    order(f, KILN_PROJECT_NEW, 0, 0);
    order(f, KILN_PROJECT_ADD, 0, 0);
    order(f, KILN_PROJECT_SET, setting, value);
    assert_int_equal(open_job(f, "j", true), KILN_OK);
}

static uint64_t ask(fleet *f, uint64_t request) {
    kiln_message want = fleet_request("j", request);
    want.lease_req.ttl_ms = 60000;
    fleet_forget_sent(f);
    fleet_say(f, TUNER, &want);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    return grant ? grant->lease_grant.lease : 0;
}

static void release(fleet *f, uint64_t lease) {
    fleet_say(f, TUNER,
              &(kiln_message){.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}});
}

static kiln_tracker_project *project(fleet *f) {
    return kiln_tracker_project_find(f->t, KILN_STR("p"));
}

static double used_s(fleet *f) { return kiln_tracker_project_day_ns(f->t, project(f)) / 1e9; }

static void a_project_holds_no_more_boards_than_it_may(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARDS, 2);
    const uint64_t first = ask(f, 1);
    assert_true(first && ask(f, 2));
    assert_int_equal(ask(f, 3), 0); /* two slots are free */
    assert_int_equal(project(f)->slots, 2);
    release(f, first); /* what waited has it at once */
    assert_int_equal(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.request, 3);
    assert_int_equal(ask(f, 4), 0);
    order(f, KILN_PROJECT_SET, KILN_SETTING_BOARDS, 3);
    assert_int_equal(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.request, 4);
}

static void a_whole_board_counts_as_all_its_slots(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARDS, 3);
    kiln_message want = fleet_request("j", 1);
    want.lease_req.exclusive = true;
    fleet_say(f, TUNER, &want);
    assert_int_equal(project(f)->slots, 2);
    want.lease_req.request = 2;
    fleet_say(f, TUNER, &want);
    assert_int_equal(project(f)->slots, 2);
    assert_true(ask(f, 3));
    assert_int_equal(ask(f, 4), 0);
}

static void the_time_of_a_day_is_used_to_the_end_and_no_further(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARD_SECONDS, 10);
    const uint64_t first = ask(f, 1), second = ask(f, 2);
    assert_true(first && second);
    fleet_wait(f, 3 * FLEET_S, all);
    release(f, first);
    assert_true(used_s(f) == 6);
    fleet_wait(f, 5 * FLEET_S, all);
    const kiln_message *lost = fleet_take(f, TUNER, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(ask(f, 3), 0);
    assert_int_equal(open_job(f, "k", false), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(open_job(f, "k", true), KILN_OK);
    assert_true(project(f)->refused > 0 && kiln_tracker_counts_of(f->t).quota_refused > 0);
    /* The next day it has boards again. */
    f->now_ns += 86400 * FLEET_S - f->now_ns % (86400 * FLEET_S);
    fleet_wait(f, FLEET_S, all);
    assert_non_null(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT));
}

static void each_job_of_a_project_hears_that_its_time_is_used(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARD_SECONDS, 1);
    assert_int_equal(open_job(f, "k", true), KILN_OK);
    assert_true(ask(f, 1));
    fleet_forget_sent(f);
    fleet_wait(f, 2 * FLEET_S, all);
    const kiln_message *told = NULL;
    bool first = false, last = false;
    while ((told = fleet_take(f, ANN, KILN_MSG_JOB_STATE))) {
        expect_contains(kiln_str_dup(&f->arena, told->job_state.text), "has used its time");
        first |= kiln_str_is(told->job_state.job, "j");
        last |= kiln_str_is(told->job_state.job, "k");
    }
    assert_true(first && last);
}

static void the_end_of_the_time_is_a_tick_of_its_own(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARD_SECONDS, 1);
    fleet_wait(f, FLEET_MS, all);
    for (uint64_t request = 1; request <= 3; request++) assert_true(ask(f, request));
    for (int i = 0; i < 8 && project(f)->slots; i++) {
        assert_true(kiln_tracker_next_ns(f->t) <= f->now_ns + 250 * FLEET_MS);
        fleet_wait(f, kiln_tracker_next_ns(f->t) - f->now_ns, all);
    }
    assert_int_equal(project(f)->slots, 0);
    assert_true(used_s(f) > 0.999 && used_s(f) < 1.000001);
}

static void what_was_used_survives_a_restart_and_ends_at_midnight(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_BOARD_SECONDS, 100);
    assert_true(ask(f, 1));
    fleet_wait(f, 12 * FLEET_S, all);
    fleet_restart(f);
    assert_true(used_s(f) >= 10 && used_s(f) <= 12);
    f->now_ns = 86400 * FLEET_S + 5 * FLEET_S;
    fleet_say(f, TUNER, &(kiln_message){.type = KILN_MSG_PING}); /* time passes in steps only */
    fleet_connect(f, OWNER, KILN_PEER_CLIENT, "owner", "owner");
    assert_true(used_s(f) <= 5);
}

static void a_lease_is_held_no_longer_than_its_project_may(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_HOLD, 2);
    const uint64_t lease = ask(f, 1);
    assert_true(lease);
    fleet_wait(f, 1900 * FLEET_MS, all);
    assert_null(fleet_take(f, TUNER, KILN_MSG_LEASE_LOST));
    assert_true(kiln_tracker_next_ns(f->t) <= f->now_ns + 100 * FLEET_MS);
    fleet_wait(f, 100 * FLEET_MS, all);
    const kiln_message *lost = fleet_take(f, TUNER, KILN_MSG_LEASE_LOST);
    assert_int_equal(lost->lease_lost.lease, lease);
    assert_int_equal(lost->lease_lost.code, KILN_DEADLINE_EXCEEDED);
}

static void jobs_and_requests_over_a_quota_are_refused(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_JOBS, 1);
    assert_int_equal(open_job(f, "k", true), KILN_RESOURCE_EXHAUSTED);
    order(f, KILN_PROJECT_SET, KILN_SETTING_QUEUE, 1);
    for (uint64_t request = 1; request <= 4; request++) assert_true(ask(f, request));
    assert_int_equal(ask(f, 5), 0);
    assert_null(fleet_take(f, TUNER, KILN_MSG_ERROR)); /* it waits */
    assert_int_equal(ask(f, 6), 0);
    const kiln_message *error = fleet_take(f, TUNER, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(error->error.lease, 6);
    expect_contains(kiln_str_dup(&f->arena, error->error.text), "project p");
}

/* The job of ann, who left, is given up; her project may have one job, and has another. */
static void give_up_job(fleet *f) {
    static const uint64_t others[] = {BOARD, BOARD + 1, TUNER, OWNER, 0};
    fleet_disconnect(f, ANN);
    fleet_wait(f, 60 * FLEET_S, others);
    assert_int_equal(project(f)->jobs, 1);
    connect_ann(f);
}

static void open_two_jobs(fleet *f) {
    run_job(f, KILN_SETTING_JOBS, 2);
    assert_int_equal(open_job(f, "left", false), KILN_OK);
    order(f, KILN_PROJECT_SET, KILN_SETTING_JOBS, 1);
}

static void a_job_that_was_given_up_comes_back_within_the_quota(void **state) {
    fleet *f = *state;
    open_two_jobs(f);
    give_up_job(f);
    assert_int_equal(open_job(f, "left", false), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(project(f)->jobs, 1);
    order(f, KILN_PROJECT_SET, KILN_SETTING_JOBS, 2);
    assert_int_equal(open_job(f, "left", false), KILN_OK);
    assert_int_equal(project(f)->jobs, 2);
}

static void a_job_whose_end_is_being_written_comes_back_within_the_quota(void **state) {
    fleet *f = *state;
    open_two_jobs(f);
    f->hold_disk = true;
    give_up_job(f);
    assert_int_equal(open_job(f, "left", false), KILN_OK); /* it waits for the disk */
    while (f->persists.count) fleet_persist(f, NULL);
    const kiln_message *error = fleet_take(f, ANN, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(project(f)->jobs, 1);
}

static void one_person_asks_so_often_and_another_is_not_held_up(void **state) {
    fleet *f = *state;
    begin(f);
    kiln_message list = {.type = KILN_MSG_QUERY, .stream = 5, .query = {.topic = KILN_TOPIC_JOBS}};
    const double burst = KILN_TRACKER_RATE_OF_PERSON * KILN_TRACKER_BURST_S;
    for (uint32_t i = 0; i < (uint32_t)burst; i++) {
        fleet_say(f, ANN, &list);
        assert_non_null(fleet_take(f, ANN, KILN_MSG_ANSWER));
        fleet_forget_sent(f);
    }
    fleet_say(f, ANN, &list);
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    fleet_say(f, OWNER, &list);
    assert_non_null(fleet_take(f, OWNER, KILN_MSG_ANSWER));
    fleet_say(f, ANN, &(kiln_message){.type = KILN_MSG_PING});
    assert_non_null(fleet_take(f, ANN, KILN_MSG_PONG));
    fleet_wait(f, FLEET_S, all);
    fleet_say(f, ANN, &list);
    assert_non_null(fleet_take(f, ANN, KILN_MSG_ANSWER));
}

static void a_project_is_asked_about_as_often_as_its_quota_says(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_REQUESTS, 2);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 20; i++) refused += open_job(f, "j", true) != KILN_OK;
    assert_int_equal(refused, 11); /* a burst of five seconds, and its first one was the job's */
}

static void no_job_has_more_priority_than_its_project(void **state) {
    fleet *f = *state;
    run_job(f, KILN_SETTING_PRIORITY, 1);
    for (const char *id = "b\0a\0"; *id; id += 2) {
        kiln_message open = fleet_job(id, true);
        open.job_open.spec.project = KILN_STR("p");
        open.job_open.spec.priority = *id == 'a' ? 100 : 1;
        fleet_say(f, ANN, &open);
    }
    const uint64_t lease = ask(f, 1);
    for (uint64_t request = 2; request <= 4; request++) assert_true(ask(f, request));
    const kiln_message first = fleet_request("b", 10), second = fleet_request("a", 11);
    fleet_say(f, TUNER, &first);
    fleet_say(f, TUNER, &second);
    release(f, lease);
    assert_int_equal(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.request, 10);
}

static void one_person_watches_so_often(void **state) {
    fleet *f = *state;
    begin(f);
    kiln_message watch = {.type = KILN_MSG_WATCH, .watch = {.topic = KILN_TOPIC_FLEET}};
    for (watch.stream = 1; watch.stream <= KILN_TRACKER_WATCHERS_OF_PERSON_MAX; watch.stream++) {
        fleet_say(f, ANN, &watch);
        assert_non_null(fleet_take(f, ANN, KILN_MSG_CHANGE));
    }
    fleet_say(f, ANN, &watch);
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    fleet_say(f, OWNER, &watch);
    assert_non_null(fleet_take(f, OWNER, KILN_MSG_CHANGE));
}

static void jobs_of_one_project_are_watched_so_often(void **state) {
    fleet *f = *state;
    begin(f);
    fleet_open_job(f, OWNER, "j", true);
    const uint32_t people =
        KILN_TRACKER_WATCHERS_OF_PROJECT_MAX / KILN_TRACKER_WATCHERS_OF_PERSON_MAX;
    kiln_message watch = {.type = KILN_MSG_WATCH,
                          .watch = {.topic = KILN_TOPIC_JOB, .id = KILN_STR("j")}};
    f->who = (kiln_tracker_who){.is_admin = true, .is_proven = true};
    for (uint32_t person = 0; person <= people; person++) {
        f->who.person = kiln_arena_printf(&f->arena, "person-%u", person);
        fleet_connect(f, 50 + person, KILN_PEER_CLIENT, f->who.person, f->who.person);
        fleet_forget_sent(f);
        for (watch.stream = 1;
             person < people && watch.stream <= KILN_TRACKER_WATCHERS_OF_PERSON_MAX; watch.stream++)
            fleet_say(f, 50 + person, &watch);
        assert_null(fleet_take(f, 50 + person, KILN_MSG_ERROR));
    }
    fleet_say(f, 50 + people, &watch);
    assert_int_equal(fleet_take(f, 50 + people, KILN_MSG_ERROR)->error.code,
                     KILN_RESOURCE_EXHAUSTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_project_holds_no_more_boards_than_it_may),
        test_with_fleet(a_whole_board_counts_as_all_its_slots),
        test_with_fleet(the_time_of_a_day_is_used_to_the_end_and_no_further),
        test_with_fleet(each_job_of_a_project_hears_that_its_time_is_used),
        test_with_fleet(the_end_of_the_time_is_a_tick_of_its_own),
        test_with_fleet(what_was_used_survives_a_restart_and_ends_at_midnight),
        test_with_fleet(a_lease_is_held_no_longer_than_its_project_may),
        test_with_fleet(jobs_and_requests_over_a_quota_are_refused),
        test_with_fleet(a_job_that_was_given_up_comes_back_within_the_quota),
        test_with_fleet(a_job_whose_end_is_being_written_comes_back_within_the_quota),
        test_with_fleet(one_person_asks_so_often_and_another_is_not_held_up),
        test_with_fleet(a_project_is_asked_about_as_often_as_its_quota_says),
        test_with_fleet(no_job_has_more_priority_than_its_project),
        test_with_fleet(one_person_watches_so_often),
        test_with_fleet(jobs_of_one_project_are_watched_so_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
