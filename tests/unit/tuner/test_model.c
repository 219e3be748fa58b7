/* The learned model: what it learns, and that nothing but the sequence of calls decides. */
#include "tuner/model/model.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"

#define ROWS 240

/* Candidates whose latency the analytic feature tells in part, and two features tell the rest. */
typedef struct candidates {
    float row[ROWS][KILN_FEATURE_COUNT];
    double ns[ROWS];
} candidates;

static candidates *make_candidates(kiln_arena *arena, uint64_t seed) {
    candidates *c = KILN_ARENA_NEW(arena, candidates);
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t f = 0; f < KILN_FEATURE_COUNT; f++)
            c->row[i][f] = (float)kiln_rand_unit(&rand);
        c->row[i][KILN_FEATURE_NS] = 14 + (float)kiln_rand_unit(&rand);
        double hidden = (c->row[i][KILN_FEATURE_TILE_LOADS] > 0.5f ? 1.5 : 0) +
                        (double)c->row[i][KILN_FEATURE_VECTOR_L1];
        c->ns[i] = exp2((double)c->row[i][KILN_FEATURE_NS] + hidden);
    }
    return c;
}

static void add(kiln_cost_model *m, const candidates *c, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        kiln_cost_model_add(m, KILN_STR("task"), c->row[i], c->ns[i]);
}

static void train(kiln_cost_model *m) {
    kiln_cost_model_train_begin(m);
    expect_ok(kiln_cost_model_train_wait(m));
}

/* Share of pairs of rows [from, ROWS) that are ranked right. */
static double pairs_right(kiln_cost_model *m, const candidates *c, uint32_t from) {
    float score[ROWS];
    double right = 0, pairs = 0;
    expect_ok(kiln_cost_model_predict(m, c->row[0], ROWS, score));
    for (uint32_t i = from; i < ROWS; i++)
        for (uint32_t k = from; k < i; k++) {
            pairs++;
            right += (score[i] > score[k]) == (c->ns[i] < c->ns[k]);
        }
    return right / pairs;
}

static void samples_teach_what_the_analytic_model_does_not_know(void **state) {
    candidates *c = make_candidates(*state, 1);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    double cold = pairs_right(m, c, 120);
    assert_true(cold > 0.55); /* the analytic feature alone */
    assert_int_equal(kiln_cost_model_trained_on(m), 0);
    add(m, c, 0, 120);
    train(m);
    assert_int_equal(kiln_cost_model_trained_on(m), 120);
    assert_true(pairs_right(m, c, 120) > 0.85);
    kiln_cost_model_destroy(m);
}

static void learn(kiln_cost_model *m, const candidates *c, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        kiln_cost_model_learn(m, KILN_STR("other task"), c->row[i], c->ns[i]);
}

static void other_tasks_teach_once_the_task_itself_has_spoken(void **state) {
    candidates *other = make_candidates(*state, 3), *c = make_candidates(*state, 4);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    double cold = pairs_right(m, c, 8);
    learn(m, other, 0, 120);
    train(m);
    assert_int_equal(kiln_cost_model_trained_on(m), 0);
    add(m, c, 0, 8);
    assert_int_equal(kiln_cost_model_own_count(m), 8);
    train(m);
    assert_int_equal(kiln_cost_model_trained_on(m), 128);
    assert_true(pairs_right(m, c, 8) > cold + 0.1);
    kiln_cost_model_destroy(m);
}

/* Tasks on which the opposite holds. */
static void what_other_tasks_teach_wrongly_is_soon_unlearnt(void **state) {
    candidates *other = make_candidates(*state, 5), *c = make_candidates(*state, 6);
    for (uint32_t i = 0; i < ROWS; i++)
        other->ns[i] = exp2(2 * (double)other->row[i][KILN_FEATURE_NS]) / other->ns[i];
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    double cold = pairs_right(m, c, 80);
    learn(m, other, 0, 120);
    add(m, c, 0, 80);
    train(m);
    assert_true(pairs_right(m, c, 80) > cold + 0.05);
    kiln_cost_model_destroy(m);
}

static void shuffled_labels_teach_nothing(void **state) {
    candidates *c = make_candidates(*state, 2);
    const kiln_cost_model_options options = {
        .features = KILN_FEATURES_EXACT, .seed = 1, .shuffle_labels = true};
    kiln_cost_model *learner = kiln_cost_model_create(NULL);
    kiln_cost_model *fooled = kiln_cost_model_create(&options);
    add(learner, c, 0, 120);
    add(fooled, c, 0, 120);
    train(learner);
    train(fooled);
    assert_true(pairs_right(fooled, c, 120) < pairs_right(learner, c, 120) - 0.1);
    kiln_cost_model_destroy(learner);
    kiln_cost_model_destroy(fooled);
}

static void same_calls_give_the_same_scores_whatever_the_timing(void **state) {
    candidates *c = make_candidates(*state, 3);
    float score[2][ROWS];
    for (uint32_t pass = 0; pass < 2; pass++) {
        kiln_cost_model *m = kiln_cost_model_create(NULL);
        add(m, c, 0, 60);
        kiln_cost_model_train_begin(m);
        add(m, c, 60, 90); /* arrives while it trains: not part of that training */
        float during[ROWS];
        expect_ok(kiln_cost_model_predict(m, c->row[0], pass ? ROWS : 1, during));
        assert_true(during[0] == -c->row[0][KILN_FEATURE_NS]); /* trees before: none */
        expect_ok(kiln_cost_model_train_wait(m));
        assert_int_equal(kiln_cost_model_trained_on(m), 60);
        train(m);
        assert_int_equal(kiln_cost_model_trained_on(m), 90);
        expect_ok(kiln_cost_model_predict(m, c->row[0], ROWS, score[pass]));
        kiln_cost_model_destroy(m);
    }
    assert_memory_equal(score[0], score[1], sizeof score[0]);
}

static void one_row_scores_as_in_a_batch(void **state) {
    candidates *c = make_candidates(*state, 4);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    add(m, c, 0, 100);
    train(m);
    float batch[ROWS], one;
    expect_ok(kiln_cost_model_predict(m, c->row[0], ROWS, batch));
    for (uint32_t i = 0; i < ROWS; i += 37) {
        expect_ok(kiln_cost_model_predict(m, c->row[i], 1, &one));
        assert_true(one == batch[i]);
    }
    kiln_cost_model_destroy(m);
}

static void contributions_add_up_to_the_score(void **state) {
    candidates *c = make_candidates(*state, 5);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    float part[KILN_FEATURE_COUNT + 1], score;
    for (uint32_t trained = 0; trained < 2; trained++) {
        expect_ok(kiln_cost_model_predict(m, c->row[200], 1, &score));
        expect_ok(kiln_cost_model_contributions(m, c->row[200], part));
        double sum = 0;
        for (uint32_t i = 0; i <= KILN_FEATURE_COUNT; i++) sum += (double)part[i];
        assert_true(fabs(sum - (double)score) < 1e-3);
        add(m, c, 0, 200);
        train(m);
    }
    expect_ok(kiln_cost_model_contributions(m, c->row[200], part));
    float hidden = fabsf(part[KILN_FEATURE_TILE_LOADS]),
          other = fabsf(part[KILN_FEATURE_OPS_CASTS]);
    assert_true(hidden > 10 * other); /* what matters stands out */
    kiln_cost_model_destroy(m);
}

static void candidates_that_failed_rank_below_those_that_ran(void **state) {
    candidates *c = make_candidates(*state, 6);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    for (uint32_t i = 0; i < 160; i++) {
        bool fails = c->row[i][KILN_FEATURE_TILE_CODE] > 0.7f;
        kiln_cost_model_add(m, KILN_STR("task"), c->row[i], fails ? 0 : c->ns[i]);
    }
    train(m);
    float good[KILN_FEATURE_COUNT], bad[KILN_FEATURE_COUNT], score[2];
    memcpy(good, c->row[170], sizeof good);
    memcpy(bad, c->row[170], sizeof bad);
    good[KILN_FEATURE_TILE_CODE] = 0.2f;
    bad[KILN_FEATURE_TILE_CODE] = 0.9f;
    expect_ok(kiln_cost_model_predict(m, good, 1, &score[0]));
    expect_ok(kiln_cost_model_predict(m, bad, 1, &score[1]));
    assert_true(score[0] > score[1] + 0.5f);
    kiln_cost_model_destroy(m);
}

static void destroying_waits_for_a_training_that_is_under_way(void **state) {
    candidates *c = make_candidates(*state, 9);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    add(m, c, 0, 100);
    kiln_cost_model_train_begin(m);
    kiln_cost_model_train_begin(m); /* one at a time: ignored */
    kiln_cost_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(samples_teach_what_the_analytic_model_does_not_know),
        test_with_arena(other_tasks_teach_once_the_task_itself_has_spoken),
        test_with_arena(what_other_tasks_teach_wrongly_is_soon_unlearnt),
        test_with_arena(shuffled_labels_teach_nothing),
        test_with_arena(same_calls_give_the_same_scores_whatever_the_timing),
        test_with_arena(one_row_scores_as_in_a_batch),
        test_with_arena(contributions_add_up_to_the_score),
        test_with_arena(candidates_that_failed_rank_below_those_that_ran),
        test_with_arena(destroying_waits_for_a_training_that_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
