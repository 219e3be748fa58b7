/* Searchers: deterministic, without repetition, and honest about the end of a space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "compiler-core/ir/ir_text.h"
#include "tuner/search/searcher.h"

#define PROPOSALS 40u

typedef struct fixture {
    kiln_arena arena;
    kiln_target target;
    kiln_program *te;
} fixture;

static fixture the_fixture;

/* A matrix product, or with extents of 1 something with hardly any freedom. */
static kiln_program *matmul(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("matmul"));
    kiln_shape a_shape = {2, {m, k}}, b_shape = {2, {k, n}}, c_shape = {2, {m, n}};
    kiln_buffer a = kiln_buffer_create(p, KILN_STR("a"), KILN_F32, KILN_ROLE_INPUT, &a_shape);
    kiln_buffer b = kiln_buffer_create(p, KILN_STR("b"), KILN_F32, KILN_ROLE_CONSTANT, &b_shape);
    kiln_buffer c = kiln_buffer_create(p, KILN_STR("c"), KILN_F32, KILN_ROLE_OUTPUT, &c_shape);
    kiln_block block = kiln_block_create(p, KILN_STR("matmul"));
    kiln_expr i = kiln_block_add_iter(p, block, "i", m, false),
              j = kiln_block_add_iter(p, block, "j", n, false);
    kiln_expr r = kiln_block_add_iter(p, block, "k", k, true);
    kiln_expr value =
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_load(p, a, (kiln_expr[]){i, r}, 2),
                         kiln_expr_load(p, b, (kiln_expr[]){r, j}, 2));
    kiln_block_set(p, block, c, (kiln_expr[]){i, j}, 2, KILN_COMBINE_SUM, value, 0);
    return p;
}

static int set_up(void **state) {
    fixture *f = &the_fixture;
    kiln_arena_init(&f->arena, 0);
    kiln_status st = kiln_target_parse(KILN_STR("x86-64-v3"), &f->arena, &f->target);
    assert_null(st);
    f->te = matmul(&f->arena, 48, 64, 32);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_arena_deinit(&f->arena);
    return 0;
}

/* A searcher with a model of its own. */
typedef struct seeker {
    kiln_cost_model *model;
    kiln_searcher *searcher;
} seeker;

static seeker seek(fixture *f, const char *name, const kiln_program *te, uint64_t seed) {
    seeker s = {kiln_cost_model_create(NULL), NULL};
    kiln_searcher_options options = {.seed = seed, .task = KILN_STR("task"), .model = s.model};
    kiln_points *points = NULL;
    assert_null(kiln_searcher_find(kiln_str_from(name), &options.kind));
    assert_null(kiln_points_of_space(te, &f->target, &(kiln_space_options){0}, KILN_MODEL_XGBOOST,
                                     &points));
    assert_null(kiln_searcher_create(&options, points, &s.searcher));
    return s;
}

static void part(seeker *s) {
    kiln_searcher_destroy(s->searcher);
    kiln_cost_model_destroy(s->model);
}

/* A kernel that likes its trace's hash: something to learn, the same in every run. */
static double latency_of(const kiln_point *point) {
    return 1000 + (double)(kiln_hash64(point->hash, KILN_HASH128_TEXT - 1, 0) % 1000);
}

/* Hashes of the next proposals, as one text; results follow eight proposals later. */
static char *propose(fixture *f, seeker *s, uint32_t count, kiln_map *seen) {
    kiln_strbuf text = {0};
    const kiln_point *point[256];
    for (uint32_t i = 0; i < count; i++) {
        if (i >= 8)
            kiln_searcher_observe(s->searcher, i - 8,
                                  i % 5 ? KILN_OUTCOME_OK : KILN_OUTCOME_WRONG_RESULT, NULL,
                                  latency_of(point[i - 8]));
        assert_null(kiln_searcher_propose(s->searcher, &point[i]));
        if (seen) assert_true(kiln_map_put(seen, kiln_str_from(point[i]->hash), 1));
        kiln_strbuf_printf(&text, "%s ", point[i]->hash);
    }
    char *copy = kiln_str_dup(&f->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static const char *const searcher_names[] = {
#define X(id, text, function, learns, doc) text,
#include "tuner/search/searchers.def"
#undef X
};

static void the_same_seed_gives_the_same_proposals_and_none_twice(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++) {
        seeker a = seek(f, searcher_names[i], f->te, 5), b = seek(f, searcher_names[i], f->te, 5);
        kiln_map seen;
        kiln_map_init(&seen);
        assert_string_equal(propose(f, &a, PROPOSALS, &seen), propose(f, &b, PROPOSALS, NULL));
        kiln_map_deinit(&seen);
        assert_int_equal(kiln_searcher_proposed(a.searcher), PROPOSALS);
        part(&a);
        part(&b);
    }
}

static void another_seed_gives_other_random_proposals(void **state) {
    fixture *f = *state;
    seeker a = seek(f, "random", f->te, 5), b = seek(f, "random", f->te, 6);
    assert_string_not_equal(propose(f, &a, 12, NULL), propose(f, &b, 12, NULL));
    part(&a);
    part(&b);
}

/* Results change what follows them, for those that learn from results. */
static void results_steer_those_that_learn(void **state) {
    fixture *f = *state;
    static const struct {
        const char *name;
        bool steered;
    } row[] = {{"random", false}, {"grid", false}, {"sa", true}, {"evolution", true}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        seeker a = seek(f, row[i].name, f->te, 5), b = seek(f, row[i].name, f->te, 5);
        const kiln_point *p = NULL, *q = NULL;
        bool same = true;
        for (uint32_t k = 0; k < 32; k++) {
            assert_null(kiln_searcher_propose(a.searcher, &p));
            assert_null(kiln_searcher_propose(b.searcher, &q));
            same &= kiln_str_is(kiln_str_from(p->hash), q->hash);
            double latency = latency_of(p);
            kiln_searcher_observe(a.searcher, k, KILN_OUTCOME_OK, NULL, latency);
            kiln_searcher_observe(b.searcher, k, KILN_OUTCOME_OK, NULL, 3000 - latency_of(q));
        }
        assert_int_equal(same, !row[i].steered);
        part(&a);
        part(&b);
    }
}

static void the_first_proposal_is_the_default_schedule(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++) {
        seeker s = seek(f, searcher_names[i], f->te, 1);
        assert_memory_equal(propose(f, &s, 1, NULL), kiln_searcher_default_hash(s.searcher),
                            KILN_HASH128_TEXT - 1);
        part(&s);
    }
}

static void known_records_are_not_proposed_again(void **state) {
    fixture *f = *state;
    seeker first = seek(f, "random", f->te, 1), second = seek(f, "random", f->te, 1);
    kiln_map seen;
    kiln_map_init(&seen);
    for (uint32_t i = 0; i < 12; i++) {
        const kiln_point *point = NULL;
        assert_null(kiln_searcher_propose(first.searcher, &point));
        kiln_searcher_know(second.searcher, point->trace, kiln_str_from(point->hash), NULL, 1000);
        kiln_map_put(&seen, kiln_str_from(point->hash), 1);
    }
    propose(f, &second, 12, &seen);
    part(&first);
    part(&second);
    kiln_map_deinit(&seen);
}

/* Thousands of known records must not look like the end of the space. */
static void many_known_records_do_not_end_the_space(void **state) {
    fixture *f = *state;
    seeker first = seek(f, "random", f->te, 1), second = seek(f, "random", f->te, 1);
    const kiln_point *point = NULL;
    for (uint32_t i = 0; i < 700; i++) {
        assert_null(kiln_searcher_propose(first.searcher, &point));
        kiln_searcher_know(second.searcher, point->trace, kiln_str_from(point->hash), NULL, 1000);
    }
    assert_null(kiln_searcher_propose(second.searcher, &point));
    part(&first);
    part(&second);
}

/* Traces of another core's space. */
static kiln_points *points_elsewhere(fixture *f) {
    kiln_target *target = KILN_ARENA_NEW(&f->arena, kiln_target);
    kiln_points *points = NULL;
    assert_null(kiln_target_parse(KILN_STR("x86-64"), &f->arena, target));
    assert_null(
        kiln_points_of_space(f->te, target, &(kiln_space_options){0}, KILN_MODEL_XGBOOST, &points));
    return points;
}

static void what_was_fast_elsewhere_follows_the_default(void **state) {
    fixture *f = *state;
    kiln_points *other = points_elsewhere(f);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++) {
        seeker s = seek(f, searcher_names[i], f->te, 1);
        kiln_points *own = NULL;
        kiln_point wanted[8];
        kiln_rand rand;
        uint32_t count = 0, adopted = 0;
        kiln_rand_init(&rand, 7);
        assert_null(kiln_points_of_space(f->te, &f->target, &(kiln_space_options){0},
                                         KILN_MODEL_XGBOOST, &own));
        while (count < 8) { /* some twice: they are proposed once */
            kiln_point point;
            kiln_status st = other->draw(other, &rand, &f->arena, &point);
            if (!st) st = own->adopt(own, point.trace, &f->arena, &wanted[count]);
            count += !st;
            if (!st) kiln_searcher_adopt(s.searcher, point.trace);
            if (!st && count == 1) kiln_searcher_adopt(s.searcher, point.trace);
            kiln_status_free(st);
        }
        const kiln_point *point = NULL;
        assert_null(kiln_searcher_propose(s.searcher, &point));
        assert_string_equal(point->hash, kiln_searcher_default_hash(s.searcher));
        assert_false(point->adopted);
        for (uint32_t k = 0; k < 24; k++) {
            assert_null(kiln_searcher_propose(s.searcher, &point));
            if (!point->adopted) continue;
            assert_int_equal(adopted, k); /* none after another */
            adopted++;
            bool known = false;
            for (uint32_t n = 0; n < count; n++) known |= strcmp(wanted[n].hash, point->hash) == 0;
            assert_true(known);
            if (k == 0) assert_string_equal(point->hash, wanted[0].hash);
        }
        assert_true(adopted > 2 && adopted <= count);
        own->destroy(own);
        part(&s);
    }
    other->destroy(other);
}

/* A trace of `lines`, in binary form. */
static kiln_str trace_of(fixture *f, const char *lines) {
    kiln_trace trace;
    kiln_strbuf bytes = {0};
    assert_null(kiln_trace_parse(kiln_str_from(lines), &f->arena, &trace));
    kiln_trace_encode(&trace, &bytes);
    return kiln_strbuf_end(&bytes, &f->arena);
}

/* Also one that the space does not hold: no search may move from that. */
static void what_a_person_wrote_comes_first(void **state) {
    fixture *f = *state;
    const kiln_str trace = trace_of(f, "split(matmul.j, -1, 8)\nreorder(matmul.k, matmul.j.1)\n"
                                       "vectorize(matmul.j.1)\n");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++) {
        seeker s = seek(f, searcher_names[i], f->te, 1);
        const kiln_point *point = NULL;
        assert_null(kiln_searcher_begin_with(s.searcher, trace));
        assert_null(kiln_searcher_propose(s.searcher, &point));
        assert_true(point->by_hand && point->outside && kiln_str_equal(point->trace, trace));
        kiln_searcher_observe(s.searcher, 0, KILN_OUTCOME_OK, NULL, 1); /* by far the fastest */
        for (uint32_t k = 1; k < PROPOSALS; k++) {
            assert_null(kiln_searcher_propose(s.searcher, &point));
            assert_false(point->by_hand || kiln_str_equal(point->trace, trace));
            if (k == 1) assert_string_equal(point->hash, kiln_searcher_default_hash(s.searcher));
            kiln_searcher_observe(s.searcher, k, KILN_OUTCOME_OK, NULL, latency_of(point));
        }
        part(&s);
    }
}

static void a_member_that_a_person_names_is_searched_from(void **state) {
    fixture *f = *state;
    seeker other = seek(f, "random", f->te, 9), s = seek(f, "random", f->te, 1);
    const kiln_point *point = NULL, *drawn = NULL;
    for (uint32_t i = 0; i < 3; i++) assert_null(kiln_searcher_propose(other.searcher, &drawn));
    assert_null(kiln_searcher_begin_with(s.searcher, drawn->trace));
    assert_null(kiln_searcher_propose(s.searcher, &point));
    assert_true(point->by_hand && !point->outside);
    assert_string_equal(point->hash, drawn->hash);
    part(&s);
    part(&other);
}

static void what_a_person_wrote_is_not_measured_twice(void **state) {
    fixture *f = *state;
    const kiln_str trace = trace_of(f, "unroll(matmul.k)\n");
    char hash[KILN_HASH128_TEXT];
    kiln_hash128_print(kiln_hash128_of(trace.data, trace.size), hash);
    seeker s = seek(f, "random", f->te, 1);
    const kiln_point *point = NULL;
    kiln_searcher_know(s.searcher, trace, kiln_str_from(hash), NULL, 1000);
    assert_null(kiln_searcher_begin_with(s.searcher, trace));
    assert_null(kiln_searcher_propose(s.searcher, &point));
    assert_string_equal(point->hash, kiln_searcher_default_hash(s.searcher));
    part(&s);
    s = seek(f, "random", f->te, 1);
    kiln_status st = kiln_searcher_begin_with(s.searcher, trace_of(f, "unroll(matmul.zz)\n"));
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    kiln_status_free(st);
    part(&s);
}

static void what_cannot_be_adopted_is_ignored(void **state) {
    fixture *f = *state;
    seeker s = seek(f, "sa", f->te, 1), plain = seek(f, "sa", f->te, 1);
    kiln_target target;
    kiln_points *other = NULL;
    kiln_point point;
    assert_null(kiln_target_parse(KILN_STR("x86-64"), &f->arena, &target));
    assert_null(kiln_points_of_space(matmul(&f->arena, 1, 1, 1), &target, &(kiln_space_options){0},
                                     KILN_MODEL_XGBOOST, &other));
    assert_null(other->first(other, 0, &f->arena, &point));
    kiln_searcher_adopt(s.searcher, KILN_STR("no trace"));
    kiln_searcher_adopt(s.searcher, point.trace); /* of another task: asks nothing alike */
    assert_string_equal(propose(f, &s, 12, NULL), propose(f, &plain, 12, NULL));
    other->destroy(other);
    part(&s);
    part(&plain);
}

/* Its vectors are kept as bytes: features count as many registers as lowering does. */
static void a_maximum_of_bytes_has_candidates_on_a_microcontroller(void **state) {
    fixture *f = *state;
    kiln_program *te = NULL;
    kiln_points *points = NULL;
    kiln_point point;
    assert_null(kiln_target_parse(KILN_STR("cortex-m4"), &f->arena, &f->target));
    assert_null(kiln_program_parse(KILN_STR("program max_pool\ninput x: u8[1,32,8,8]\n"
                                            "output y: u8[1,32,4,4]\n"
                                            "block max_pool(i:1, j:32, k:4, l:4 | kh:2, kw:2): "
                                            "y[i, j, k, l] max= x[i, j, k*2 + kh, l*2 + kw] "
                                            "init 0u8\n"),
                                   &f->arena, &te));
    assert_null(kiln_points_of_space(te, &f->target, &(kiln_space_options){0}, KILN_MODEL_XGBOOST,
                                     &points));
    assert_null(points->first(points, 0, &f->arena, &point));
    assert_null(points->check(points, &point));
    points->destroy(points);
}

static void a_tiny_space_ends(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++) {
        seeker s = seek(f, searcher_names[i], matmul(&f->arena, 1, 1, 1), 1);
        kiln_status st = KILN_OK;
        uint32_t proposals = 0;
        for (const kiln_point *point; !st && proposals < 5000; proposals++) {
            st = kiln_searcher_propose(s.searcher, &point);
            if (!st) kiln_searcher_observe(s.searcher, proposals, KILN_OUTCOME_OK, NULL, 1000);
        }
        assert_int_equal(kiln_status_code(st), KILN_OUT_OF_RANGE);
        assert_true(proposals > 1);
        kiln_status_free(st);
        part(&s);
    }
}

static void an_unknown_name_is_told_what_there_is(void **state) {
    (void)state;
    kiln_searcher_kind kind;
    kiln_status st = kiln_searcher_find(KILN_STR("oracle"), &kind);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_names); i++)
        assert_non_null(strstr(kiln_status_text(st), searcher_names[i]));
    kiln_status_free(st);
}

static void one_that_learns_needs_a_model(void **state) {
    fixture *f = *state;
    kiln_points *points = NULL;
    kiln_searcher *searcher = NULL;
    kiln_searcher_options options = {.kind = KILN_SEARCHER_SA, .task = KILN_STR("task")};
    assert_null(kiln_points_of_space(f->te, &f->target, &(kiln_space_options){0},
                                     KILN_MODEL_XGBOOST, &points));
    kiln_status st = kiln_searcher_create(&options, points, &searcher);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_proposals_and_none_twice,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_seed_gives_other_random_proposals, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(results_steer_those_that_learn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_proposal_is_the_default_schedule, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(known_records_are_not_proposed_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_known_records_do_not_end_the_space, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_maximum_of_bytes_has_candidates_on_a_microcontroller,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tiny_space_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_fast_elsewhere_follows_the_default, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_person_wrote_comes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_a_person_names_is_searched_from, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_person_wrote_is_not_measured_twice, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_adopted_is_ignored, set_up, tear_down),
        cmocka_unit_test(an_unknown_name_is_told_what_there_is),
        cmocka_unit_test_setup_teardown(one_that_learns_needs_a_model, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
