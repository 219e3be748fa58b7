/* The learned model: what it learns, and that nothing but the sequence of calls decides. */
#include "tuner/model/model_row.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/cost/features_cpu.h"
#include "compiler-core/cost/features_gpu.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tuner/search/searcher.h"

#define ROWS 240

/* Candidates whose latency the analytic feature tells in part, and two features tell the rest. */
typedef struct candidates {
    float row[ROWS][KILN_FEATURE_COUNT];
    kiln_encoding encoding[ROWS]; /* of the rows */
    double ns[ROWS];
} candidates;

static kiln_encoding encoding_of(const float *row) {
    return (kiln_encoding){row, KILN_FEATURE_COUNT * sizeof *row, true, &kiln_features_cpu};
}

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
        c->encoding[i] = encoding_of(c->row[i]);
    }
    return c;
}

static void add(kiln_cost_model *m, const candidates *c, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        kiln_cost_model_add(m, KILN_STR("task"), &c->encoding[i], NULL, c->ns[i]);
}

static void train(kiln_cost_model *m) {
    kiln_cost_model_train_begin(m);
    expect_ok(kiln_cost_model_train_wait(m));
}

/* Share of pairs of rows [from, ROWS) that are ranked right. */
static double pairs_right(kiln_cost_model *m, const candidates *c, uint32_t from) {
    float score[ROWS];
    double right = 0, pairs = 0;
    expect_ok(kiln_cost_model_predict(m, &c->encoding[0], ROWS, score));
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

/* ---- what an assembler says ------------------------------------------------------------------ */

#define GPU_ROWS 160u

/* Candidates for a GPU that differ in their registers alone, and are twice as slow with many. */
typedef struct assembled_candidates {
    float row[GPU_ROWS][KILN_GPU_FEATURE_COUNT];
    kiln_encoding encoding[GPU_ROWS];
    kiln_assembled said[GPU_ROWS];
    double ns[GPU_ROWS];
} assembled_candidates;

/* Expected of all is the same, but of those that are not built yet, from `taught` on. */
static assembled_candidates *make_assembled(kiln_arena *arena, uint32_t taught) {
    assembled_candidates *c = KILN_ARENA_NEW(arena, assembled_candidates);
    for (uint32_t i = 0; i < GPU_ROWS; i++) {
        float *row = c->row[i];
        for (uint32_t f = 0; f < KILN_GPU_FEATURE_COUNT; f++) row[f] = 1;
        c->said[i] = (kiln_assembled){.registers = i % 2 ? 64 : 128, .shared_bytes = 4096};
        if (i >= taught)
            row[KILN_GPU_FEATURE_ASSEMBLED_REGISTERS] = log2f(1 + (float)c->said[i].registers);
        c->ns[i] = i % 2 ? 1000 : 2000;
        c->encoding[i] = (kiln_encoding){row, sizeof c->row[i], true, &kiln_features_gpu};
    }
    return c;
}

/* Score of those with few registers over those with many. `every`: of so many samples one has the
 * assembler's numbers; 0: none. */
static double learnt_from(const assembled_candidates *c, uint32_t taught, uint32_t every) {
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    float score[2];
    for (uint32_t i = 0; i < taught; i++)
        kiln_cost_model_add(m, KILN_STR("task"), &c->encoding[i],
                            every && i / 8 % every == 0 ? &c->said[i] : NULL, c->ns[i]);
    train(m);
    expect_ok(kiln_cost_model_predict(m, &c->encoding[taught], 2, score));
    kiln_cost_model_destroy(m);
    return (double)(score[1] - score[0]);
}

static void numbers_of_an_assembler_teach_where_they_are_known(void **state) {
    const uint32_t taught = 128;
    assembled_candidates *c = make_assembled(*state, taught);
    assert_true(learnt_from(c, taught, 1) > 0.8); /* half the time */
    assert_true(learnt_from(c, taught, 2) > 0.7); /* known of half of them */
    assert_true(learnt_from(c, taught, 0) == 0);  /* what is missing tells nothing */
    for (uint32_t i = 0; i < taught; i++) c->said[i].registers = 192 - c->said[i].registers;
    assert_true(learnt_from(c, taught, 1) < -0.8);
}

static void learn(kiln_cost_model *m, const candidates *c, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        kiln_cost_model_learn(m, KILN_STR("other task"), &c->encoding[i], NULL, c->ns[i]);
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
    const kiln_cost_model_options options = {.seed = 1, .shuffle_labels = true};
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
        expect_ok(kiln_cost_model_predict(m, &c->encoding[0], pass ? ROWS : 1, during));
        assert_true(during[0] == -c->row[0][KILN_FEATURE_NS]); /* trees before: none */
        expect_ok(kiln_cost_model_train_wait(m));
        assert_int_equal(kiln_cost_model_trained_on(m), 60);
        train(m);
        assert_int_equal(kiln_cost_model_trained_on(m), 90);
        expect_ok(kiln_cost_model_predict(m, &c->encoding[0], ROWS, score[pass]));
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
    expect_ok(kiln_cost_model_predict(m, &c->encoding[0], ROWS, batch));
    for (uint32_t i = 0; i < ROWS; i += 37) {
        expect_ok(kiln_cost_model_predict(m, &c->encoding[i], 1, &one));
        assert_true(one == batch[i]);
    }
    kiln_cost_model_destroy(m);
}

static void reasons_add_up_to_the_score(void **state) {
    candidates *c = make_candidates(*state, 5);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    kiln_reason *reason = NULL;
    uint32_t count = 0;
    float score;
    for (uint32_t trained = 0; trained < 2; trained++) {
        expect_ok(kiln_cost_model_predict(m, &c->encoding[200], 1, &score));
        expect_ok(kiln_cost_model_explain(m, &c->encoding[200], *state, &reason, &count));
        assert_int_equal(count, KILN_FEATURE_COUNT + 1);
        assert_string_equal(reason[count - 1].name, "");
        double sum = 0;
        for (uint32_t i = 0; i < count; i++) sum += (double)reason[i].part;
        assert_true(fabs(sum - (double)score) < 1e-3);
        add(m, c, 0, 200);
        train(m);
    }
    expect_ok(kiln_cost_model_explain(m, &c->encoding[200], *state, &reason, &count));
    float hidden = fabsf(reason[KILN_FEATURE_TILE_LOADS].part),
          other = fabsf(reason[KILN_FEATURE_OPS_CASTS].part);
    assert_true(hidden > 10 * other); /* what matters stands out */
    kiln_cost_model_destroy(m);
}

static void candidates_that_failed_rank_below_those_that_ran(void **state) {
    candidates *c = make_candidates(*state, 6);
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    for (uint32_t i = 0; i < 160; i++) {
        bool fails = c->row[i][KILN_FEATURE_TILE_CODE] > 0.7f;
        kiln_cost_model_add(m, KILN_STR("task"), &c->encoding[i], NULL, fails ? 0 : c->ns[i]);
    }
    train(m);
    float good[KILN_FEATURE_COUNT], bad[KILN_FEATURE_COUNT], score[2];
    memcpy(good, c->row[170], sizeof good);
    memcpy(bad, c->row[170], sizeof bad);
    good[KILN_FEATURE_TILE_CODE] = 0.2f;
    bad[KILN_FEATURE_TILE_CODE] = 0.9f;
    const kiln_encoding both[] = {encoding_of(good), encoding_of(bad)};
    expect_ok(kiln_cost_model_predict(m, both, 2, score));
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

/* ---- every row of models.def: docs/how-to/model.md ------------------------------------------- */

static const char product_text[] =
    "program matmul\n"
    "input a: f32[32,32]\n"
    "input b: f32[32,32]\n"
    "output y: f32[32,32]\n"
    "block matmul(m:32, n:32 | k:32): y[m, n] sum= a[m, k]*b[k, n] init 0.0\n";

typedef struct space {
    kiln_target target;
    kiln_program *te;
    kiln_points *points;
} space;

static space *space_for(kiln_model_kind kind, kiln_arena *arena) {
    space *s = KILN_ARENA_NEW(arena, space);
    s->target = target_of(arena, "x86-64-v3");
    expect_ok(kiln_program_parse(kiln_str_from(product_text), arena, &s->te));
    expect_ok(kiln_points_of_space(s->te, &s->target, &(kiln_space_options){0}, kind, &s->points));
    return s;
}

static void every_row_is_found_by_its_name(void **state) {
    (void)state;
    for (unsigned k = 0; k < KILN_MODEL_COUNT; k++) {
        kiln_model_kind found = KILN_MODEL_COUNT;
        expect_ok(kiln_model_find(kiln_str_from(kiln_model_name((kiln_model_kind)k)), &found));
        assert_int_equal(found, k);
    }
    kiln_model_kind unused;
    expect_error(kiln_model_find(KILN_STR("oracle"), &unused), NOT_FOUND, "analytic");
}

/* Encodings are pure, and a copy is as good; a candidate is like itself. */
static void every_row_encodes_a_candidate_the_same_way_twice(void **state) {
    for (unsigned k = 0; k < KILN_MODEL_COUNT; k++) {
        space *s = space_for((kiln_model_kind)k, *state);
        kiln_point first, again;
        expect_ok(s->points->first(s->points, 0, *state, &first));
        expect_ok(s->points->first(s->points, 0, *state, &again));
        assert_int_equal(first.encoding.size_bytes, again.encoding.size_bytes);
        assert_memory_equal(first.encoding.data, again.encoding.data, first.encoding.size_bytes);
        kiln_point copy = kiln_point_copy(&first, *state);
        assert_true(kiln_model_distance((kiln_model_kind)k, &first.encoding, &copy.encoding) == 0);
        assert_true(first.encoding.fits);
        s->points->destroy(s->points);
    }
}

/* Scores before any sample, after training, from a batch and one by one, and what they consist of.
 */
static void every_row_learns_predicts_and_explains(void **state) {
    for (unsigned k = 0; k < KILN_MODEL_COUNT; k++) {
        space *s = space_for((kiln_model_kind)k, *state);
        kiln_cost_model *model[2];
        kiln_encoding candidate[40];
        float score[2][40], one;
        kiln_rand rand;
        kiln_rand_init(&rand, 1);
        for (uint32_t i = 0; i < 40; i++) {
            kiln_point point;
            kiln_status st = s->points->draw(s->points, &rand, *state, &point);
            i -= st != NULL;
            kiln_status_free(st);
            if (!st) candidate[i] = point.encoding;
        }
        for (uint32_t pass = 0; pass < 2; pass++) {
            const kiln_cost_model_options options = {.kind = (kiln_model_kind)k, .seed = 7};
            model[pass] = kiln_cost_model_create(&options);
            expect_ok(kiln_cost_model_predict(model[pass], candidate, 40, score[pass]));
            for (uint32_t i = 0; i < 30; i++)
                kiln_cost_model_add(model[pass], KILN_STR("task"), &candidate[i], NULL,
                                    i % 7 ? 1000 + 10 * i : 0);
            train(model[pass]);
            assert_int_equal(kiln_cost_model_trained_on(model[pass]), 30);
            expect_ok(kiln_cost_model_predict(model[pass], candidate, 40, score[pass]));
        }
        assert_memory_equal(score[0], score[1], sizeof score[0]);
        for (uint32_t i = 0; i < 40; i += 13) {
            kiln_reason *reason = NULL;
            uint32_t count = 0;
            double sum = 0;
            expect_ok(kiln_cost_model_predict(model[0], &candidate[i], 1, &one));
            assert_true(one == score[0][i]);
            expect_ok(kiln_cost_model_explain(model[0], &candidate[i], *state, &reason, &count));
            assert_string_equal(reason[count - 1].name, "");
            for (uint32_t r = 0; r < count; r++) sum += (double)reason[r].part;
            assert_true(fabs(sum - (double)one) < 1e-3);
        }
        kiln_cost_model_destroy(model[0]);
        kiln_cost_model_destroy(model[1]);
        s->points->destroy(s->points);
    }
}

/* Searches ask whatever model they are given. */
static void every_row_guides_a_search(void **state) {
    for (unsigned k = 0; k < KILN_MODEL_COUNT; k++) {
        space *s = space_for((kiln_model_kind)k, *state);
        kiln_cost_model *model =
            kiln_cost_model_create(&(kiln_cost_model_options){.kind = (kiln_model_kind)k});
        kiln_searcher_options options = {.seed = 3, .task = KILN_STR("task"), .model = model};
        kiln_searcher *searcher = NULL;
        expect_ok(kiln_searcher_find(KILN_STR("sa"), &options.kind));
        expect_ok(kiln_searcher_create(&options, s->points, &searcher));
        for (uint32_t i = 0; i < 24; i++) {
            const kiln_point *point = NULL;
            expect_ok(kiln_searcher_propose(searcher, &point));
            kiln_searcher_observe(searcher, i, KILN_OUTCOME_OK, NULL, 1000 + i);
        }
        assert_true(kiln_cost_model_trained_on(model) >= 16);
        kiln_searcher_destroy(searcher);
        kiln_cost_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(samples_teach_what_the_analytic_model_does_not_know),
        test_with_arena(numbers_of_an_assembler_teach_where_they_are_known),
        test_with_arena(other_tasks_teach_once_the_task_itself_has_spoken),
        test_with_arena(what_other_tasks_teach_wrongly_is_soon_unlearnt),
        test_with_arena(shuffled_labels_teach_nothing),
        test_with_arena(same_calls_give_the_same_scores_whatever_the_timing),
        test_with_arena(one_row_scores_as_in_a_batch),
        test_with_arena(reasons_add_up_to_the_score),
        test_with_arena(candidates_that_failed_rank_below_those_that_ran),
        test_with_arena(destroying_waits_for_a_training_that_is_under_way),
        test_with_arena(every_row_is_found_by_its_name),
        test_with_arena(every_row_encodes_a_candidate_the_same_way_twice),
        test_with_arena(every_row_learns_predicts_and_explains),
        test_with_arena(every_row_guides_a_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
