#include <stdio.h>

#include "tests/unit/tracker/fleet.h"

static void watch(fleet *f, uint32_t stream, kiln_topic topic, const char *id, uint64_t since) {
    kiln_message message = {.type = KILN_MSG_WATCH,
                            .stream = stream,
                            .watch = {.topic = topic, .id = kiln_str_from(id), .since = since}};
    fleet_say(f, 30, &message);
}

static const kiln_msg_change *change_on(fleet *f, uint32_t stream) {
    const kiln_message *message = fleet_take(f, 30, KILN_MSG_CHANGE);
    if (!message) return NULL;
    assert_int_equal(message->stream, stream);
    return &message->change;
}

static void tick(fleet *f) {
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_wait(f, 250 * FLEET_MS, alive);
}

static void who_watches_gets_all_rows_and_then_those_that_change(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    watch(f, 5, KILN_TOPIC_FLEET, "", 0);
    const kiln_msg_change *change = change_on(f, 5);
    assert_int_equal(change->boards.count, 2);
    watch(f, 5, KILN_TOPIC_FLEET, "", change->seq);
    tick(f);
    assert_null(change_on(f, 5)); /* nothing changed */
    fleet_disconnect(f, 11);
    tick(f);
    change = change_on(f, 5);
    assert_int_equal(change->boards.count, 1);
    expect_str(change->boards.item[0].node, "second");
    expect_str(change->boards.item[0].state, "lost");
}

static void a_slow_reader_costs_one_page_and_misses_what_lay_between(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    watch(f, 5, KILN_TOPIC_FLEET, "", 0);
    const kiln_msg_change *change = change_on(f, 5);
    uint64_t seq = change->seq;
    for (uint64_t i = 1; i <= 20; i++) {
        kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                                .lease_release = {.lease = fleet_lease(f, i)}};
        fleet_say(f, 20, &release);
        tick(f);
        assert_null(change_on(f, 5)); /* it has not said that it has the first */
    }
    watch(f, 5, KILN_TOPIC_FLEET, "", seq);
    tick(f);
    change = change_on(f, 5);
    assert_int_equal(change->boards.count, 1);
    assert_true(change->seq > seq);
}

static void many_rows_come_page_by_page_each_once(void **state) {
    fleet *f = *state;
    char name[16];
    uint32_t rows = 0, pages = 0;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    for (uint64_t i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "b%u", (unsigned)i);
        fleet_board(f, 1000 + i, name, 1);
    }
    /* Their change is the newest, though they were the first to register. */
    for (uint64_t i = 0; i < 50; i++) fleet_disconnect(f, 1000 + i);
    watch(f, 5, KILN_TOPIC_FLEET, "", 0);
    for (const kiln_msg_change *change; (change = change_on(f, 5)); pages++) {
        rows += change->boards.count;
        watch(f, 5, KILN_TOPIC_FLEET, "", change->seq);
    }
    assert_int_equal(rows, 100);
    assert_int_equal(pages, 3);
}

static void one_job_is_told_with_its_tasks_and_its_end(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    watch(f, 7, KILN_TOPIC_JOB, "j", 0);
    const kiln_msg_change *change = change_on(f, 7);
    assert_int_equal(change->jobs.count, 1);
    watch(f, 7, KILN_TOPIC_JOB, "j", change->seq);
    kiln_msg_task_state task = {.key = KILN_STR("k"), .planned = 8, .done = 3};
    kiln_message event = {.type = KILN_MSG_JOB_EVENT,
                          .job_event = {.job = KILN_STR("j"), .tasks = {&task, 1}}};
    fleet_say(f, 20, &event);
    tick(f);
    change = change_on(f, 7);
    assert_int_equal(change->jobs.item[0].tasks.item[0].done, 3);
    watch(f, 7, KILN_TOPIC_JOB, "j", change->seq);
    kiln_message done = {.type = KILN_MSG_JOB_DONE, .job_done = {.job = KILN_STR("j")}};
    fleet_say(f, 20, &done);
    tick(f);
    expect_str(change_on(f, 7)->jobs.item[0].state, "done");
}

static void who_stops_or_goes_is_told_nothing_more(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    watch(f, 5, KILN_TOPIC_FLEET, "", 0);
    uint64_t seq = change_on(f, 5)->seq;
    watch(f, 5, KILN_TOPIC_FLEET, "", seq);
    fleet_say(f, 30, &(kiln_message){.type = KILN_MSG_WATCH, .stream = 5, .watch = {.stop = true}});
    fleet_lease(f, 1);
    tick(f);
    assert_null(change_on(f, 5));
    watch(f, 9, KILN_TOPIC_FLEET, "", seq); /* goes on where it stopped */
    assert_int_equal(change_on(f, 9)->boards.count, 1);
    fleet_disconnect(f, 30);
    fleet_board(f, 11, "second", 1);
    tick(f);
    assert_null(fleet_take(f, 30, KILN_MSG_CHANGE));
}

static void expect_refusal(fleet *f, kiln_code code) {
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->stream, 5);
    assert_int_equal(error->error.code, code);
}

static void what_cannot_be_watched_is_refused(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    watch(f, 5, KILN_TOPIC_JOB, "other", 0);
    expect_refusal(f, KILN_NOT_FOUND);
    watch(f, 5, KILN_TOPIC_BOARD, "other", 0);
    expect_refusal(f, KILN_NOT_FOUND);
    watch(f, 5, KILN_TOPIC_JOB, "", 0);
    expect_refusal(f, KILN_INVALID_ARGUMENT);
    watch(f, 5, KILN_TOPIC_FLEET, "", 1); /* of a tracker before this one */
    expect_refusal(f, KILN_OUT_OF_RANGE);
    watch(f, 5, KILN_TOPIC_FLEET, "", UINT64_MAX);
    expect_refusal(f, KILN_OUT_OF_RANGE);
    for (uint32_t i = 0; i <= 256; i++) watch(f, 100 + 2 * i, KILN_TOPIC_FLEET, "", 0);
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(who_watches_gets_all_rows_and_then_those_that_change),
        test_with_fleet(a_slow_reader_costs_one_page_and_misses_what_lay_between),
        test_with_fleet(many_rows_come_page_by_page_each_once),
        test_with_fleet(one_job_is_told_with_its_tasks_and_its_end),
        test_with_fleet(who_stops_or_goes_is_told_nothing_more),
        test_with_fleet(what_cannot_be_watched_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
