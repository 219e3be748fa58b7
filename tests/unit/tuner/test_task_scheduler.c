/* Which task gets the next trial: what nothing is known of, then what promises most time saved. */
#include "tuner/task_scheduler.h"

#include <math.h>

#include "tests/support/test.h"

static kiln_tuner_stats stats_of(double weight, double best_ns, uint32_t tried) {
    return (kiln_tuner_stats){
        .op = KILN_STR("conv"), .weight = weight, .best_ns = best_ns, .tried = tried};
}

static uint32_t choose(const kiln_tuner_stats *a, const kiln_tuner_stats *b) {
    return kiln_tuner_choose((const kiln_tuner_stats *[]){a, b}, 2);
}

static void a_task_without_results_goes_first(void **state) {
    (void)state;
    kiln_tuner_stats known = stats_of(9, 1e9, 1), unknown = stats_of(1, 0, 0);
    assert_int_equal(choose(&known, &unknown), 1);
    kiln_tuner_stats waiting = stats_of(1, 0, 0);
    waiting.under_way = 1;
    assert_int_equal(choose(&waiting, &unknown), 1);
}

static void of_tasks_that_promise_as_much_the_first_goes_first(void **state) {
    (void)state;
    const kiln_tuner_stats one = stats_of(1, 1e6, 10), other = stats_of(1, 1e6, 10);
    assert_int_equal(choose(&one, &other), 0);
}

static void time_per_inference_counts_not_time_per_call(void **state) {
    (void)state;
    kiln_tuner_stats once = stats_of(1, 1e6, 10), often = stats_of(5, 4e5, 10);
    assert_int_equal(choose(&once, &often), 1);
}

static void a_task_that_had_many_trials_waits_for_the_others(void **state) {
    (void)state;
    kiln_tuner_stats worn = stats_of(1, 1e6, 100), fresh = stats_of(1, 5e5, 5);
    assert_int_equal(choose(&worn, &fresh), 1);
    fresh.under_way = 60; /* and those under way count */
    assert_int_equal(choose(&worn, &fresh), 0);
}

static void progress_asks_for_more(void **state) {
    (void)state;
    kiln_tuner_stats still = stats_of(1, 0, 40), moving = stats_of(1, 0, 40);
    for (int i = 0; i < 20; i++) {
        kiln_tuner_stats_add(&still, 1e6);
        kiln_tuner_stats_add(&moving, 2e6 - 5e4 * i);
    }
    assert_true(still.best_ns < moving.best_ns);
    assert_int_equal(choose(&still, &moving), 1);
}

static void failures_are_no_progress(void **state) {
    (void)state;
    kiln_tuner_stats c = stats_of(1, 0, 0);
    kiln_tuner_stats_add(&c, 0);
    assert_true(c.best_ns == 0);
    kiln_tuner_stats_add(&c, 500);
    kiln_tuner_stats_add(&c, 0);
    assert_true(c.best_ns == 500);
    assert_int_equal(c.tried, 3);
}

/* The same operator ran far faster elsewhere: there is much to gain here. */
static void what_lags_behind_its_like_is_tried(void **state) {
    (void)state;
    kiln_tuner_stats fast = stats_of(1, 1e6, 30), slow = stats_of(1, 1e6, 30);
    fast.flops = 1e8;
    slow.flops = 1e6;
    assert_int_equal(choose(&fast, &slow), 1);
    kiln_tuner_stats unknown = stats_of(1, 0, 0); /* which says nothing of its like */
    unknown.flops = 1e9;
    unknown.waits = true;
    assert_int_equal(kiln_tuner_choose((const kiln_tuner_stats *[]){&fast, &slow, &unknown}, 3), 1);
    slow.op = KILN_STR("softmax");
    assert_int_equal(choose(&fast, &slow), 0);
}

static void what_is_far_from_its_floor_is_not_at_the_peak(void **state) {
    (void)state;
    kiln_tuner_stats s = stats_of(1, 100, 5);
    assert_false(kiln_tuner_is_at_peak(&s)); /* no floor is known */
    s.floor_ns = 80;
    assert_false(kiln_tuner_is_at_peak(&s));
    s.floor_ns = 95;
    assert_true(kiln_tuner_is_at_peak(&s));
}

static void a_trial_that_takes_long_must_promise_more(void **state) {
    (void)state;
    kiln_tuner_stats quick = stats_of(1000, 1e6, 10), slow = stats_of(1, 1e9, 10);
    assert_int_equal(choose(&quick, &slow), 0);
}

static void what_is_near_the_peak_waits_for_what_is_not(void **state) {
    (void)state;
    kiln_tuner_stats near = stats_of(2, 1e6, 10), far = stats_of(1, 1e6, 10);
    assert_int_equal(choose(&near, &far), 0);
    near.least_flops = far.least_flops = 9.6e7;
    near.op = KILN_STR("gemm");          /* its like are no faster */
    kiln_tuner_stats_limit(&near, 1e11); /* 0.96 ms at least */
    assert_int_equal(choose(&near, &far), 1);
    kiln_tuner_stats_limit(&near, 5e10); /* of a slower board */
    kiln_tuner_stats_limit(&near, 0);
    assert_true(near.floor_ns == 9.6e5);
}

static bool is_worth(const kiln_tuner_stats *a, const kiln_tuner_stats *b) {
    return kiln_tuner_is_worth((const kiln_tuner_stats *[]){a, b}, 2, 0);
}

static void what_is_a_small_part_of_an_inference_is_soon_not_worth_a_trial(void **state) {
    (void)state;
    kiln_tuner_stats small = stats_of(1, 1e4, 20), rest = stats_of(1, 1e8, 20);
    small.op = KILN_STR("relu");
    assert_false(is_worth(&small, &rest));
    assert_true(is_worth(&rest, &small));
    small.best_ns = 0; /* nobody knows */
    assert_true(is_worth(&small, &rest));
}

static void when_all_wait_none_is_chosen(void **state) {
    (void)state;
    kiln_tuner_stats a = stats_of(1, 1, 1), b = stats_of(1, 1, 1);
    a.waits = b.waits = true;
    assert_int_equal(choose(&a, &b), 2);
}

/* ---- tasks that may stand in place of others ---------------------------------------------------
 */

typedef struct row {
    kiln_tuner_stats joined, apart[2];
    kiln_tuner_substitute rivals;
    const kiln_tuner_substitute *list;
} row;

/* Two tasks of one call each, and one that may stand for both. */
static void row_of(row *r, double joined_ns, uint32_t tried, double one_ns, double other_ns) {
    *r = (row){.joined = stats_of(0, joined_ns, tried),
               .apart = {stats_of(1, one_ns, 10), stats_of(1, other_ns, 10)}};
    r->rivals = (kiln_tuner_substitute){&r->joined, 2, {&r->apart[0], &r->apart[1]}, 1};
    r->list = &r->rivals;
    kiln_tuner_stats *const all[] = {&r->joined, &r->apart[0], &r->apart[1]};
    for (size_t i = 0; i < 3; i++) {
        all[i]->substitutes = &r->list;
        all[i]->substitute_count = 1;
    }
}

static void a_joined_task_far_behind_gets_no_trials(void **state) {
    (void)state;
    row r;
    row_of(&r, 3e6, 1, 5e5, 5e5); /* the next trial may halve it */
    assert_true(kiln_tuner_stats_gain(&r.joined, 0) == 0);
    row_of(&r, 1.2e6, 1, 5e5, 5e5);
    assert_true(kiln_tuner_stats_gain(&r.joined, 0) > 0);
    row_of(&r, 1.2e6, 20, 5e5, 5e5);
    assert_true(kiln_tuner_stats_gain(&r.joined, 0) == 0);
}

static void what_a_joined_task_replaces_gets_no_trials(void **state) {
    (void)state;
    row r;
    kiln_tuner_stats alone = stats_of(1, 5e5, 10);
    row_of(&r, 1e6, 10, 6e5, 6e5);
    assert_true(kiln_tuner_stats_gain(&r.apart[0], 0) == 0);
    assert_true(kiln_tuner_stats_gain(&r.joined, 0) > kiln_tuner_stats_gain(&alone, 0));
    r.apart[1].tried = 2; /* its time may be one that something disturbed */
    assert_true(kiln_tuner_stats_gain(&r.apart[0], 0) > 0);
    assert_true(kiln_tuner_stats_gain(&r.apart[1], 0) > 0);
    r.apart[1].tried = 10;
    r.apart[0].weight = 2; /* once more, where it cannot be replaced */
    assert_true(kiln_tuner_stats_gain(&r.apart[0], 0) > 0);
    row_of(&r, 1.3e6, 10, 6e5, 6e5);
    kiln_tuner_stats free = stats_of(1, 6e5, 10);
    assert_true(kiln_tuner_stats_gain(&r.apart[0], 0) == kiln_tuner_stats_gain(&free, 0));
}

static void nothing_is_known_of_a_row_that_was_measured_in_part(void **state) {
    (void)state;
    row r;
    row_of(&r, 3e6, 1, 5e5, 0);
    assert_true(kiln_tuner_stats_gain(&r.joined, 0) > 0);
    assert_true(isinf(kiln_tuner_stats_gain(&r.apart[1], 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_without_results_goes_first),
        cmocka_unit_test(of_tasks_that_promise_as_much_the_first_goes_first),
        cmocka_unit_test(time_per_inference_counts_not_time_per_call),
        cmocka_unit_test(a_task_that_had_many_trials_waits_for_the_others),
        cmocka_unit_test(progress_asks_for_more),
        cmocka_unit_test(failures_are_no_progress),
        cmocka_unit_test(what_lags_behind_its_like_is_tried),
        cmocka_unit_test(what_is_far_from_its_floor_is_not_at_the_peak),
        cmocka_unit_test(a_trial_that_takes_long_must_promise_more),
        cmocka_unit_test(what_is_near_the_peak_waits_for_what_is_not),
        cmocka_unit_test(what_is_a_small_part_of_an_inference_is_soon_not_worth_a_trial),
        cmocka_unit_test(when_all_wait_none_is_chosen),
        cmocka_unit_test(a_joined_task_far_behind_gets_no_trials),
        cmocka_unit_test(what_a_joined_task_replaces_gets_no_trials),
        cmocka_unit_test(nothing_is_known_of_a_row_that_was_measured_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
