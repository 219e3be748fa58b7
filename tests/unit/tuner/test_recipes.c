#include <stdio.h>

#include "tests/unit/tuner/shop.h"

/* A tuner whose builders take work and never end it, a job, and a board for it. */
static uint64_t begin(shop *s, uint32_t builders, const char *builds, uint32_t trials) {
    shop_hire(s, builders);
    s->builders_hang = true;
    s->builds = builds;
    shop_begin(s, trials, 1);
    return shop_grant(s);
}

static void expect_recipe(const kiln_msg_trial *trial, uint32_t index) {
    char trace[32];
    snprintf(trace, sizeof trace, "trace %u of t0", index);
    assert_int_equal(trial->artefact.size, 0);
    assert_int_equal(trial->reference.size, 10);
    assert_int_equal(trial->recipe.program.size, 20);
    assert_int_equal(trial->recipe.program.digest.byte[0], 6);
    expect_str(trial->recipe.trace, trace);
    expect_str(trial->recipe.task, "t0");
    expect_str(trial->recipe.target, "cpu:x");
    expect_str(trial->recipe.codegen, SHOP_CODEGEN);
}

static void built(shop *s, uint32_t index) {
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_BUILT,
                                     .job = s->job,
                                     .index = index,
                                     .artefact = {{{9, 0, (uint8_t)index}}, 100}});
}

static void a_board_that_would_wait_builds_what_no_builder_has_time_for(void **state) {
    shop *s = *state;
    begin(s, 2, SHOP_CODEGEN, 16);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), KILN_TUNER_BOARD_BUILDS);
    const kiln_msg_trial *trial = shop_next_trial(s); /* 0 and 1 are with the builders */
    expect_recipe(trial, 2);
    expect_recipe(shop_next_trial(s), 3);
    shop_answer(s, trial, KILN_OUTCOME_OK);
    expect_recipe(shop_next_trial(s), 4);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 2);
}

static void what_is_built_here_goes_first(void **state) {
    shop *s = *state;
    begin(s, 2, SHOP_CODEGEN, 16);
    shop_skip(s);
    built(s, 0); /* and the builder takes the next */
    const kiln_msg_trial *trial = shop_next_trial(s);
    assert_int_equal(trial->artefact.size, 100);
    assert_int_equal(trial->recipe.trace.size, 0);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
}

static void builders_that_have_time_build_everything(void **state) {
    shop *s = *state;
    begin(s, KILN_TUNER_WINDOW, SHOP_CODEGEN, 16);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
    s->seen = 0;
    assert_true(shop_count(s, KILN_TUNER_BUILD) > 1);
}

static void boards_without_our_compiler_get_artefacts_only(void **state) {
    static const char *const other[] = {NULL, "2-llvm0"};
    for (uint32_t i = 0; i < 2; i++) {
        shop *s = *state;
        begin(s, 1, other[i], 16);
        assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
        s->seen = 0;
        /* Nobody needs the program. */
        while (shop_count(s, KILN_TUNER_UPLOAD))
            assert_int_not_equal(shop_take(s, KILN_TUNER_UPLOAD)->digest.byte[0], 6);
        shop_tear_down(state);
        shop_set_up(state);
    }
}

static void without_builders_boards_build_all(void **state) {
    shop *s = *state;
    shop_hire(s, 0);
    s->builds = SHOP_CODEGEN;
    shop_begin(s, 20, 2);
    const kiln_message *ask = shop_take_sent(s, KILN_MSG_LEASE_REQ);
    assert_int_equal(ask->lease_req.labels.count, 1);
    expect_str(ask->lease_req.labels.item[0].key, KILN_LABEL_BUILDS);
    expect_str(ask->lease_req.labels.item[0].value, SHOP_CODEGEN);
    s->seen = 0;
    shop_grant(s);
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), KILN_TUNER_BOARD_DEPTH);
    shop_run_dry(s);
    s->seen = 0;
    assert_int_equal(shop_count(s, KILN_TUNER_BUILD), 0);
    assert_int_equal(shop_count(s, KILN_TUNER_REFERENCE), 2);
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 20);
    assert_int_equal(shop_done(s)->code, KILN_OK);
}

static void without_builders_a_board_that_does_not_build_ends_the_job(void **state) {
    shop *s = *state;
    begin(s, 0, NULL, 4); /* a tracker that does not know the label */
    const kiln_msg_job_done *done = shop_done(s);
    assert_int_equal(done->code, KILN_FAILED_PRECONDITION);
    expect_contains(kiln_str_dup(&s->arena, done->text), "--builders");
}

static void without_builders_and_boards_that_build_people_are_told_once(void **state) {
    shop *s = *state;
    shop_hire(s, 0);
    shop_begin(s, 1, 1);
    uint32_t told = 0;
    for (uint32_t i = 0; i < 10; i++) {
        shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
        shop_tick(s, 2 * SHOP_S);
    }
    s->seen = 0;
    for (const kiln_message *event; (event = shop_take_sent(s, KILN_MSG_JOB_EVENT));) {
        if (event->job_event.text.size == 0) continue;
        told++;
        expect_contains(kiln_str_dup(&s->arena, event->job_event.text), SHOP_CODEGEN);
    }
    assert_int_equal(told, 1);
    assert_true(kiln_tuner_next_ns(s->t) > s->now_ns);
}

static void missing_builders_are_told_when_the_tracker_is_back(void **state) {
    shop *s = *state;
    shop_hire(s, 0);
    shop_begin(s, 1, 1);
    shop_close(s);
    for (uint32_t i = 0; i < 10; i++) shop_tick(s, 2 * SHOP_S);
    shop_skip(s);
    shop_open(s);
    shop_tick(s, SHOP_MS);
    uint32_t told = 0;
    for (const kiln_message *event; (event = shop_take_sent(s, KILN_MSG_JOB_EVENT));)
        told += event->job_event.text.size > 0;
    assert_int_equal(told, 1);
}

static void nobody_is_told_of_missing_builders_while_a_board_builds(void **state) {
    shop *s = *state;
    begin(s, 0, SHOP_CODEGEN, 16);
    for (uint32_t i = 0; i < 10; i++) {
        shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
        shop_tick(s, 2 * SHOP_S);
    }
    s->seen = 0;
    for (const kiln_message *event; (event = shop_take_sent(s, KILN_MSG_JOB_EVENT));)
        assert_int_equal(event->job_event.text.size, 0);
}

static void a_recipe_whose_lease_is_lost_is_built_by_who_has_time(void **state) {
    shop *s = *state;
    uint64_t lease = begin(s, 1, SHOP_CODEGEN, 16);
    expect_recipe(shop_next_trial(s), 1);
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                         .lease_lost = {.lease = lease, .code = KILN_ABORTED}};
    shop_say(s, &lost);
    s->seen = 0;
    const uint32_t sent_before = shop_count_sent(s, KILN_MSG_TRIAL);
    s->builds = NULL;
    s->seen = s->asked;
    shop_grant(s); /* of a board that builds nothing */
    s->seen = 0;
    assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), sent_before);
    shop_skip(s);
    built(s, 0);
    assert_int_equal(shop_take(s, KILN_TUNER_BUILD)->index, 1);
    built(s, 1);
    s->seen = 0;
    const kiln_message *sent = NULL;
    while (shop_count_sent(s, KILN_MSG_TRIAL)) sent = shop_take_sent(s, KILN_MSG_TRIAL);
    assert_int_equal(sent->trial.artefact.size, 100);
    assert_int_equal(sent->trial.artefact.digest.byte[2], 1);
}

static void building_does_nothing_to_a_board(void **state) {
    shop *s = *state;
    for (uint32_t i = 0; i <= KILN_TUNER_ATTEMPTS_MAX; i++) {
        uint64_t lease = i ? shop_grant(s) : begin(s, 0, SHOP_CODEGEN, 1);
        const kiln_msg_trial *trial = shop_next_trial(s);
        assert_int_equal(trial->attempt, 1);
        kiln_message event = {.type = KILN_MSG_TRIAL_EVENT,
                              .trial_event = {.trial = trial->trial,
                                              .attempt = trial->attempt,
                                              .lease = trial->lease,
                                              .phase = KILN_PHASE_BUILD}};
        shop_say(s, &event);
        kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                             .lease_lost = {.lease = lease, .code = KILN_UNAVAILABLE}};
        shop_say(s, &lost);
    }
    assert_int_equal(shop_count(s, KILN_TUNER_RECORD), 0);
}

static void after_a_reconnect_the_recipe_goes_again(void **state) {
    shop *s = *state;
    begin(s, 0, SHOP_CODEGEN, 1);
    expect_recipe(shop_next_trial(s), 0);
    shop_close(s);
    shop_tick(s, SHOP_S);
    shop_open(s);
    expect_recipe(shop_next_trial(s), 0);
}

static void what_the_board_built_is_told_with_the_record(void **state) {
    shop *s = *state;
    begin(s, 0, SHOP_CODEGEN, 1);
    kiln_msg_trial_result how = {.built = {.artefact = {{{5}}, 50},
                                           .algorithm = KILN_STR("direct"),
                                           .layout_in = KILN_STR("NCHW"),
                                           .layout_out = KILN_STR("NCHW8c")},
                                 .assembled = {.registers = 168, .shared_bytes = 4096},
                                 .times_ns = {.build = 7}};
    shop_answer_with(s, shop_next_trial(s), 1000, &how);
    const kiln_tuner_action *record = shop_take(s, KILN_TUNER_RECORD);
    const kiln_msg_trial_result *told = record->result;
    assert_int_equal(record->assembled.registers, 168);
    assert_int_equal(record->assembled.shared_bytes, 4096);
    assert_int_equal(told->built.artefact.digest.byte[0], 5);
    expect_str(told->built.layout_out, "NCHW8c");
    assert_int_equal(told->times_ns.build, 7);
}

static void a_builders_trouble_is_tried_again_with_fresh_blobs(void **state) {
    shop *s = *state;
    begin(s, 0, SHOP_CODEGEN, 1);
    const kiln_msg_trial *trial = shop_next_trial(s);
    shop_skip(s);
    shop_answer(s, trial, KILN_OUTCOME_INFRA);
    assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 2); /* reference, program */
    trial = shop_next_trial(s);
    expect_recipe(trial, 0);
    assert_int_equal(trial->attempt, 2);
    shop_answer(s, trial, KILN_OUTCOME_BUILD_ERROR);
    assert_int_equal(shop_take(s, KILN_TUNER_RECORD)->outcome, KILN_OUTCOME_BUILD_ERROR);
}

static void a_program_that_cannot_be_uploaded_is_tried_again_and_given_up(void **state) {
    shop *s = *state;
    shop_hire(s, 0);
    s->builds = SHOP_CODEGEN;
    s->by_hand = true;
    shop_begin(s, 1, 1);
    shop_step(s, &(kiln_tuner_event){
                     .kind = KILN_TUNER_PROPOSED, .job = s->job, .trace = KILN_STR("trace")});
    shop_grant(s);
    for (uint32_t i = 0; i < KILN_TUNER_UPLOADS_MAX; i++) {
        for (const kiln_tuner_action *up; (up = shop_take(s, KILN_TUNER_UPLOAD));) {
            const bool fails = up->digest.byte[0] == 6;
            shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_UPLOADED,
                                             .digest = up->digest,
                                             .code = fails ? KILN_RESOURCE_EXHAUSTED : KILN_OK,
                                             .failure = fails ? "the disk is full" : NULL});
        }
        assert_true(kiln_tuner_next_ns(s->t) > s->now_ns);
        assert_int_equal(shop_count_sent(s, KILN_MSG_TRIAL), 0);
        assert_int_equal(shop_count(s, KILN_TUNER_UPLOAD), 0);
        shop_say(s, &(kiln_message){.type = KILN_MSG_PONG});
        if (i + 1 < KILN_TUNER_UPLOADS_MAX) shop_tick(s, KILN_TUNER_RETRY_NS);
    }
    s->seen = 0;
    assert_int_equal(shop_take(s, KILN_TUNER_RECORD)->outcome, KILN_OUTCOME_INFRA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(a_board_that_would_wait_builds_what_no_builder_has_time_for),
        test_with_shop(what_is_built_here_goes_first),
        test_with_shop(builders_that_have_time_build_everything),
        test_with_shop(boards_without_our_compiler_get_artefacts_only),
        test_with_shop(without_builders_boards_build_all),
        test_with_shop(without_builders_a_board_that_does_not_build_ends_the_job),
        test_with_shop(without_builders_and_boards_that_build_people_are_told_once),
        test_with_shop(missing_builders_are_told_when_the_tracker_is_back),
        test_with_shop(nobody_is_told_of_missing_builders_while_a_board_builds),
        test_with_shop(a_recipe_whose_lease_is_lost_is_built_by_who_has_time),
        test_with_shop(building_does_nothing_to_a_board),
        test_with_shop(after_a_reconnect_the_recipe_goes_again),
        test_with_shop(what_the_board_built_is_told_with_the_record),
        test_with_shop(a_builders_trouble_is_tried_again_with_fresh_blobs),
        test_with_shop(a_program_that_cannot_be_uploaded_is_tried_again_and_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
