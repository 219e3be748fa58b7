#include "tests/unit/tracker/fleet.h"

static const kiln_message *ask(fleet *f, kiln_topic topic, const char *id, uint32_t offset) {
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .stream = 11,
                          .query = {.topic = topic, .id = kiln_str_from(id), .offset = offset}};
    fleet_forget_sent(f);
    fleet_say(f, 30, &query);
    const kiln_message *answer = fleet_take(f, 30, KILN_MSG_ANSWER);
    return answer ? answer : fleet_take(f, 30, KILN_MSG_ERROR);
}

static void a_large_fleet_comes_in_pages_that_fit_a_frame(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    for (uint64_t i = 0; i < 100; i++)
        fleet_board(f, 1000 + i, kiln_arena_printf(&f->arena, "b%llu", (unsigned long long)i), 1);
    uint32_t seen = 0;
    for (uint32_t offset = 0; offset < 100; offset += KILN_MESSAGES_PAGE) {
        const kiln_message *answer = ask(f, KILN_TOPIC_FLEET, "", offset);
        assert_int_equal(answer->stream, 11);
        assert_int_equal(answer->answer.total, 100);
        for (uint32_t i = 0; i < answer->answer.boards.count; i++, seen++)
            expect_str(answer->answer.boards.item[i].node,
                       kiln_arena_printf(&f->arena, "b%u", seen));
        kiln_strbuf frame = {0};
        expect_ok(kiln_frame_write_message(&frame, answer));
        kiln_strbuf_deinit(&frame);
    }
    assert_int_equal(seen, 100);
    assert_int_equal(ask(f, KILN_TOPIC_FLEET, "", 100)->answer.boards.count, 0);
}

static void a_row_says_who_holds_the_board(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_lease(f, 1);
    const kiln_message *answer = ask(f, KILN_TOPIC_BOARD, "board", 0);
    assert_int_equal(answer->answer.boards.count, 1);
    const kiln_msg_board_row *row = &answer->answer.boards.item[0];
    expect_str(row->state, "leased");
    expect_str(row->job, "j");
    expect_str(row->target, FLEET_TARGET);
    assert_int_equal(row->busy, 1);
    assert_int_equal(row->slots, 1);
    assert_int_equal(answer->answer.tuners, 1);
}

static uint64_t eta_ms(fleet *f) {
    return ask(f, KILN_TOPIC_JOBS, "", 0)->answer.jobs.item[0].eta_ms;
}

/* By the time that the trials so far took, while the job goes on. */
static void a_row_says_when_a_job_will_be_done(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    kiln_msg_task_state task = {.key = KILN_STR("t"), .op = KILN_STR("o"), .planned = 8};
    const kiln_message event = {.type = KILN_MSG_JOB_EVENT,
                                .job_event = {.job = KILN_STR("j"), .tasks = {&task, 1}}};
    fleet_running_job(f);
    fleet_wait(f, 10 * FLEET_S, alive);
    fleet_say(f, 20, &event);
    assert_int_equal(eta_ms(f), 0); /* nothing is done yet */
    task.done = 2;
    fleet_say(f, 20, &event);
    assert_in_range(eta_ms(f), 29000, 31000);
    task.done = 8;
    fleet_say(f, 20, &event);
    assert_int_equal(eta_ms(f), 0);
    task.done = 2;
    fleet_say(f, 20, &event);
    fleet_say(f, 30,
              &(kiln_message){.type = KILN_MSG_CANCEL,
                              .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}});
    assert_int_equal(eta_ms(f), 0); /* it stops */
}

static void jobs_are_listed_with_their_state(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_open_job(f, 30, "k", true);
    const kiln_message *answer = ask(f, KILN_TOPIC_JOBS, "", 0);
    assert_int_equal(answer->answer.total, 2);
    expect_str(answer->answer.jobs.item[0].job, "j");
    expect_str(answer->answer.jobs.item[0].state, "running");
    expect_str(answer->answer.jobs.item[0].tuner, "tuner");
    assert_true(answer->answer.jobs.item[1].detach);
}

static void what_is_not_there_is_not_found(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    assert_int_equal(ask(f, KILN_TOPIC_BOARD, "nobody", 0)->error.code, KILN_NOT_FOUND);
    assert_int_equal(ask(f, KILN_TOPIC_JOB, "nothing", 0)->error.code, KILN_NOT_FOUND);
    assert_int_equal(ask(f, KILN_TOPIC_JOBS, "", 0)->answer.total, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_large_fleet_comes_in_pages_that_fit_a_frame),
        test_with_fleet(a_row_says_who_holds_the_board),
        test_with_fleet(a_row_says_when_a_job_will_be_done),
        test_with_fleet(jobs_are_listed_with_their_state),
        test_with_fleet(what_is_not_there_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
