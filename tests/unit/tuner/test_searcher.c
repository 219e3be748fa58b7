/* Searchers: deterministic, without repetition, and honest about the end of a space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "tuner/search/searcher.h"

#define PROPOSALS 12u

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

static kiln_searcher *open_searcher(fixture *f, const char *name, const kiln_program *te,
                                    uint64_t seed) {
    kiln_searcher_kind kind;
    kiln_searcher *searcher = NULL;
    assert_null(kiln_searcher_find(kiln_str_from(name), &kind));
    assert_null(kiln_searcher_create(kind, te, &f->target, seed, &searcher));
    return searcher;
}

/* Hashes of the next proposals, as one text. */
static char *propose(fixture *f, kiln_searcher *searcher, uint32_t count, kiln_map *seen) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < count; i++) {
        kiln_trace trace;
        char hash[KILN_HASH128_TEXT];
        kiln_status st = kiln_searcher_propose(searcher, &f->arena, &trace);
        assert_null(st);
        kiln_hash128_print(kiln_trace_hash(&trace), hash);
        if (seen) assert_true(kiln_map_put(seen, kiln_str_from(hash), 1));
        kiln_strbuf_printf(&text, "%s ", hash);
    }
    char *copy = kiln_str_dup(&f->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static const struct {
    const char *name;
    kiln_draw_function draw; /* NULL: reserved */
} searcher_rows[] = {
#define X(id, text, function, doc) {text, function},
#include "tuner/search/searchers.def"
#undef X
};

static void the_same_seed_gives_the_same_proposals_and_none_twice(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(searcher_rows); i++) {
        if (!searcher_rows[i].draw) continue;
        const char *name = searcher_rows[i].name;
        kiln_searcher *a = open_searcher(f, name, f->te, 5), *b = open_searcher(f, name, f->te, 5);
        kiln_map seen;
        kiln_map_init(&seen);
        assert_string_equal(propose(f, a, PROPOSALS, &seen), propose(f, b, PROPOSALS, NULL));
        kiln_map_deinit(&seen);
        assert_int_equal(kiln_searcher_proposed(a), PROPOSALS);
        kiln_searcher_destroy(a);
        kiln_searcher_destroy(b);
    }
}

static void another_seed_gives_other_random_proposals(void **state) {
    fixture *f = *state;
    kiln_searcher *a = open_searcher(f, "random", f->te, 5),
                  *b = open_searcher(f, "random", f->te, 6);
    assert_string_not_equal(propose(f, a, PROPOSALS, NULL), propose(f, b, PROPOSALS, NULL));
    kiln_searcher_destroy(a);
    kiln_searcher_destroy(b);
}

static void no_trace_is_proposed_twice(void **state) {
    fixture *f = *state;
    kiln_map seen;
    kiln_map_init(&seen);
    kiln_searcher *s = open_searcher(f, "random", f->te, 1);
    propose(f, s, 4 * PROPOSALS, &seen);
    kiln_searcher_destroy(s);
    kiln_map_deinit(&seen);
}

static void the_first_proposal_is_the_default_schedule(void **state) {
    fixture *f = *state;
    kiln_searcher *s = open_searcher(f, "random", f->te, 1);
    assert_memory_equal(propose(f, s, 1, NULL), kiln_searcher_default_hash(s),
                        KILN_HASH128_TEXT - 1);
    kiln_searcher_destroy(s);
}

static void excluded_traces_are_not_proposed(void **state) {
    fixture *f = *state;
    kiln_searcher *s = open_searcher(f, "random", f->te, 1);
    char *first = propose(f, s, PROPOSALS, NULL);
    kiln_searcher_destroy(s);
    kiln_map seen;
    kiln_map_init(&seen);
    s = open_searcher(f, "random", f->te, 1);
    for (kiln_str rest = kiln_str_from(first); rest.size;) {
        kiln_str hash = kiln_str_cut(&rest, ' ');
        if (hash.size == 0) continue;
        kiln_searcher_exclude(s, hash);
        kiln_map_put(&seen, hash, 1);
    }
    propose(f, s, PROPOSALS, &seen);
    kiln_searcher_destroy(s);
    kiln_map_deinit(&seen);
}

static void a_tiny_space_ends(void **state) {
    fixture *f = *state;
    kiln_searcher *s = open_searcher(f, "random", matmul(&f->arena, 1, 1, 1), 1);
    kiln_status st = KILN_OK;
    uint32_t proposals = 0;
    for (; !st && proposals < 5000; proposals++) {
        kiln_trace trace;
        st = kiln_searcher_propose(s, &f->arena, &trace);
    }
    assert_int_equal(kiln_status_code(st), KILN_OUT_OF_RANGE);
    assert_true(proposals > 1);
    kiln_status_free(st);
    kiln_searcher_destroy(s);
}

static void unknown_and_reserved_names_are_told_apart(void **state) {
    (void)state;
    kiln_searcher_kind kind;
    kiln_status st = kiln_searcher_find(KILN_STR("oracle"), &kind);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    kiln_status_free(st);
    st = kiln_searcher_find(KILN_STR("sa"), &kind);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_proposals_and_none_twice,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_seed_gives_other_random_proposals, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_trace_is_proposed_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_proposal_is_the_default_schedule, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(excluded_traces_are_not_proposed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tiny_space_ends, set_up, tear_down),
        cmocka_unit_test(unknown_and_reserved_names_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
