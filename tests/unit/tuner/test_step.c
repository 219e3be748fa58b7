#include "tests/unit/tuner/shop.h"

static void it_dials_pings_and_gives_a_silent_tracker_up(void **state) {
    shop *s = *state;
    shop_tick(s, 0);
    assert_non_null(shop_take(s, KILN_TUNER_DIAL));
    shop_open(s);
    bool pinged = false, hung_up = false;
    uint64_t begin = s->now_ns;
    while (!hung_up) {
        shop_skip(s);
        shop_tick(s, kiln_tuner_next_ns(s->t) - s->now_ns);
        pinged |= shop_count_sent(s, KILN_MSG_PING) > 0;
        hung_up = shop_count(s, KILN_TUNER_HANG_UP) > 0;
    }
    assert_true(pinged);
    assert_true(s->now_ns - begin <= 7 * SHOP_S);
    shop_tick(s, kiln_tuner_next_ns(s->t) - s->now_ns);
    assert_non_null(shop_take(s, KILN_TUNER_DIAL));
}

static void a_ping_is_answered(void **state) {
    shop *s = *state;
    shop_open(s);
    shop_say(s, &(kiln_message){.type = KILN_MSG_PING, .stream = 4, .ping = {.t_ns = 9}});
    const kiln_message *pong = shop_take_sent(s, KILN_MSG_PONG);
    assert_int_equal(pong->stream, 4);
    assert_int_equal(pong->pong.t_ns, 9);
}

static void events_of_forgotten_jobs_are_ignored(void **state) {
    shop *s = *state;
    shop_open(s);
    for (kiln_tuner_event_kind kind = KILN_TUNER_PREPARED; kind <= KILN_TUNER_TICK; kind++)
        shop_step(s, &(kiln_tuner_event){.kind = kind, .job = 55, .task = 3, .index = 4});
    assert_int_equal(s->t->job.count, 0);
}

/* Whatever the tracker sends, also nonsense, the tuner goes on. */
static void every_message_of_the_table_is_survived(void **state) {
    shop *s = *state;
    shop_begin(s, 4, 1);
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        kiln_message empty = {.type = type};
        shop_say(s, &empty);
    }
    assert_int_equal(s->t->job.count, 1); /* "" was opened by JOB_ASSIGN, closed by JOB_CLOSE */
}

static void trial_identities_depend_on_job_task_and_index_only(void **state) {
    (void)state;
    char a[KILN_HASH128_TEXT], b[KILN_HASH128_TEXT];
    kiln_trial_identity(KILN_STR("j"), KILN_STR("t"), 0, a);
    assert_string_equal(a, "cc682166d2a685b42347373441186edc");
    kiln_trial_identity(KILN_STR("j"), KILN_STR("t"), 1, b);
    assert_string_not_equal(a, b);
    kiln_trial_identity(KILN_STR("j"), KILN_STR("u"), 0, b);
    assert_string_not_equal(a, b);
    kiln_trial_identity(KILN_STR("k"), KILN_STR("t"), 0, b);
    assert_string_not_equal(a, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(it_dials_pings_and_gives_a_silent_tracker_up),
        test_with_shop(a_ping_is_answered),
        test_with_shop(events_of_forgotten_jobs_are_ignored),
        test_with_shop(every_message_of_the_table_is_survived),
        cmocka_unit_test(trial_identities_depend_on_job_task_and_index_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
