#include "tests/unit/tuner/shop.h"

#include <signal.h>
#include <sys/wait.h>

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

/* What one owner holds contradicts itself, or what another holds. */
static void nothing(kiln_tuner_job *job) { (void)job; }
static void two_trials_of_one_index(kiln_tuner_job *job) { job->trial.data[1]->index = 0; }
static void a_proposal_without_a_trial(kiln_tuner_job *job) { job->task[0].next_propose++; }
static void a_trial_under_a_lost_lease(kiln_tuner_job *job) { job->trial.data[0]->lease = 999; }
static void a_final_that_nobody_began(kiln_tuner_job *job) {
    kiln_tuner_trial_add(job, 0, KILN_TUNER_FINAL, job->trial.data[0]->id);
}
static void an_export_with_trials(kiln_tuner_job *job) { job->state = KILN_TUNER_JOB_EXPORTING; }

/* run_in_child passes nothing on. */
static kiln_tuner_job *job_of_child;
static void (*harm_of_child)(kiln_tuner_job *job);

static void harm_and_check(void) {
    harm_of_child(job_of_child);
    kiln_tuner_check(job_of_child->tuner);
}

static bool check_aborts(kiln_tuner *t, void (*harm)(kiln_tuner_job *job)) {
    job_of_child = t->job.data[0];
    harm_of_child = harm;
    const int how = run_in_child(harm_and_check);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

static void the_check_finds_contradictions(void **state) {
    shop *s = *state;
    shop_begin(s, 4, 1);
    assert_non_null(shop_next_trial(s));
    assert_int_equal(s->t->job.data[0]->trial.data[0]->state, KILN_TRIAL_SENT);
    assert_false(check_aborts(s->t, nothing));
    assert_true(check_aborts(s->t, two_trials_of_one_index));
    assert_true(check_aborts(s->t, a_proposal_without_a_trial));
    assert_true(check_aborts(s->t, a_trial_under_a_lost_lease));
    assert_true(check_aborts(s->t, a_final_that_nobody_began));
    assert_true(check_aborts(s->t, an_export_with_trials));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shop(it_dials_pings_and_gives_a_silent_tracker_up),
        test_with_shop(a_ping_is_answered),
        test_with_shop(events_of_forgotten_jobs_are_ignored),
        test_with_shop(every_message_of_the_table_is_survived),
        test_with_shop(the_check_finds_contradictions),
        cmocka_unit_test(trial_identities_depend_on_job_task_and_index_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
