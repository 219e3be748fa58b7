/* Random programs: valid, the same for the same seed, and one meaning in every form. */
#include "tests/support/program_generate.h"

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/ir/support.h"

#define SEEDS 400

static kiln_program *generate(kiln_arena *arena, uint64_t seed) {
    const kiln_generate_options options = {
        .blocks_max = 5, .points_max = 600, .floats_only = seed % 2 == 0};
    kiln_rand r;
    kiln_rand_init(&r, seed);
    return kiln_program_generate(&r, &options, arena);
}

static void expect_ok_with_seed(kiln_status st, uint64_t seed) {
    if (st) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
}

static void programs_are_valid(void **state) {
    kiln_program *p = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        expect_ok_with_seed(kiln_program_verify(generate(p->arena, seed)), seed);
}

static void the_same_seed_gives_the_same_program(void **state) {
    kiln_program *p = *state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        kiln_hash128 a = kiln_program_hash(generate(p->arena, seed));
        kiln_hash128 b = kiln_program_hash(generate(p->arena, seed));
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void expect_same_text(kiln_program *p, uint64_t seed) {
    kiln_strbuf text = {0};
    kiln_strbuf again = {0};
    kiln_program *parsed = NULL;
    kiln_program_print(p, &text);
    expect_ok_with_seed(kiln_program_parse(kiln_strbuf_view(&text), p->arena, &parsed), seed);
    kiln_program_print(parsed, &again);
    assert_string_equal(text.data, again.data);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&again);
}

static void text_comes_back_as_it_was(void **state) {
    kiln_program *p = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_program *q = generate(p->arena, seed);
        expect_same_text(q, seed);
        kiln_program_make_loops(q);
        expect_same_text(q, seed);
    }
}

/* The loops of a tensor expression, run serially, are within the bound that the reference states.
 */
static void loops_compute_what_the_expression_says(void **state) {
    kiln_program *p = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_program *te = generate(p->arena, seed);
        kiln_program *loops = kiln_program_copy(te, p->arena);
        kiln_tensor wanted[64];
        kiln_tensor got[64];
        kiln_tensor bound[64];
        uint32_t count = make_args(te, seed, wanted);
        make_args(te, seed, got);
        kiln_program_make_loops(loops);
        expect_ok_with_seed(kiln_program_verify(loops), seed);
        expect_ok_with_seed(kiln_te_eval_bounds(te, wanted, count, p->arena, bound), seed);
        expect_ok_with_seed(kiln_loop_eval(loops, got, count), seed);
        expect_within_bounds(te, got, wanted, bound, count, seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(programs_are_valid),
        PROGRAM_TEST(the_same_seed_gives_the_same_program),
        PROGRAM_TEST(text_comes_back_as_it_was),
        PROGRAM_TEST(loops_compute_what_the_expression_says),
    };
    return cmocka_run_group_tests_name("tests/support/program_generate", tests, NULL, NULL);
}
