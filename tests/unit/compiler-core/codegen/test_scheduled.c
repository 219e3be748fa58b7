/* Scheduled programs, lowered and compiled, compute what their tensor expression says: random
 * primitives on random programs, and what the rules of a target's space draw. */
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

#define SEEDS 400
#define AVX2 "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"

static kiln_program *generate(kiln_arena *arena, kiln_rand *rand, uint64_t seed) {
    const kiln_generate_options options = {
        .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
    return kiln_program_generate(rand, &options, arena);
}

typedef kiln_program *(*scheduler)(const kiln_program *te, const kiln_target *target,
                                   kiln_rand *rand);

static uint64_t compare_one(const char *target_text, scheduler draw, uint64_t seed,
                            kiln_arena *arena) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    kiln_target target = target_of(arena, target_text);
    kiln_program *te = generate(arena, &rand, seed);
    kiln_program *scheduled = draw(te, &target, &rand);
    if (!schedule_is_sound(te, scheduled, seed)) return 1;
    kiln_status st = expect_compiled_equals(te, scheduled, &target, seed % 3 == 0 ? 0 : 2, seed);
    uint64_t refused = st != NULL;
    kiln_status_free(
        st); /* register buffers that cannot be promoted are found here, not by a primitive */
    return refused;
}

static void compare_all(const char *target_text, scheduler draw) {
    kiln_arena arena;
    skip_unless_runs_here(target_text);
    kiln_arena_init(&arena, 0);
    uint64_t refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_arena_reset(&arena);
        refused += compare_one(target_text, draw, seed, &arena);
    }
    kiln_arena_deinit(&arena);
    assert_true(refused < SEEDS / 2); /* most schedules must get as far as running */
}

static kiln_program *draw_primitives(const kiln_program *te, const kiln_target *target,
                                     kiln_rand *rand) {
    (void)target;
    return draw_schedule(te, rand, 12 + (uint32_t)kiln_rand_below(rand, 30));
}

static void random_primitives_keep_the_meaning_on_avx2(void **state) {
    (void)state;
    compare_all(AVX2, draw_primitives);
}

static void random_primitives_keep_the_meaning_on_sse2(void **state) {
    (void)state;
    compare_all("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64", draw_primitives);
}

static void random_primitives_keep_the_meaning_on_avx512(void **state) {
    (void)state;
    compare_all("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4", draw_primitives);
}

static void random_primitives_keep_the_meaning_with_threads(void **state) {
    (void)state;
    compare_all(AVX2 ",cores=2,threads=2", draw_primitives);
}

static void samples_of_spaces_keep_the_meaning(void **state) {
    (void)state;
    compare_all(AVX2, draw_sample);
}

static void samples_of_spaces_keep_the_meaning_with_threads(void **state) {
    (void)state;
    compare_all(AVX2 ",cores=2,threads=2", draw_sample);
}

/* test-core-codegen-scheduled SEED: that seed alone, in every form, for debugging. */
static int run_seed(uint64_t seed) {
    static const char *const target[] = {AVX2, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64",
                                         AVX2 ",cores=2,threads=2"};
    static const scheduler draw[] = {draw_primitives, draw_sample};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t i = 0; i < 6; i++) {
        kiln_arena_reset(&arena);
        print_message("seed %llu, form %u\n", (unsigned long long)seed, i);
        compare_one(target[i / 2], draw[i % 2], seed, &arena);
    }
    kiln_arena_deinit(&arena);
    return 0;
}

/* Lanes that make less than a register and several registers, of floats and integers. */
static void lanes_of_a_reduction_are_combined(void **state) {
    (void)state;
    static const struct {
        const char *name, *init;
    } type[] = {{"f32", "3.0"}, {"i8", "3i8"}};
    static const char *const combiner[] = {"sum", "min", "max"};
    static const char *const target_text[] = {AVX2, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64"};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t at = 0; at < 2 * 2 * 3 * 3; at++) {
        kiln_arena_reset(&arena);
        const kiln_target target = target_of(&arena, target_text[at % 2]);
        if (!runs_here(&target, &arena)) continue;
        const char *t = type[at / 2 % 2].name;
        const int lanes = 2 << (at / 12 * 2); /* 2, 8, 32 */
        const char *text = kiln_arena_printf(&arena,
                                             "program p\ninput x: %s[5,%d]\noutput y: %s[5]\n"
                                             "block r(i:5 | j:%d): y[i] %s= x[i, j] init %s\n",
                                             t, 2 * lanes, t, 2 * lanes, combiner[at / 4 % 3],
                                             type[at / 2 % 2].init);
        const kiln_program *te = parsed(&arena, text);
        const char *trace = kiln_arena_printf(&arena,
                                              "split(r.j, -1, %d)\n"
                                              "decompose_reduction(r, r.j.0)\n"
                                              "vectorize(r.j.1)\n",
                                              lanes);
        expect_ok(expect_compiled_equals(te, schedule(te, trace), &target, 2, at));
    }
    kiln_arena_deinit(&arena);
}

/* Lanes that are read from apart, copy by copy of an unrolled loop: squares that are transposed in
 * registers, of several types; and what only looks like one: beyond the ends of what is read, in
 * steps of two, along a diagonal, where what is read is written in between. */
static void squares_are_read_by_rows(void **state) {
    (void)state;
    static const char *const body[] = {
        "block t(i:16, j:24): y[i, j] = x[j, i]\n",
        "block t(i:16, j:24): y[i, j] = x[j + 3, i + 5] + x[i, j]\n",
        "block t(i:16, j:24): y[i, j] = select(i < 4, x[j, i], select(j < 20, x[j + 8, i + 8], "
        "x[0, 0]))\n",
        "block t(i:16, j:24): y[i, j] = select(13 < i + j, x[i + j - 14, i], x[j, i])\n",
        "block t(i:16, j:24): y[i, j] = x[j, 2*i]\n",
    };
    static const char *const type[] = {"f32", "i64", "i8", "bf16", "f16"};
    static const char *const target_text[] = {AVX2, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64",
                                              "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4"};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t at = 0; at < 3 * 5 * 5 * 2; at++) {
        kiln_arena_reset(&arena);
        const kiln_target target = target_of(&arena, target_text[at % 3]);
        if (!runs_here(&target, &arena)) continue;
        const char *t = type[at / 3 % 5];
        const int lanes = at / 75 ? 8 : 4;
        const char *text =
            kiln_arena_printf(&arena, "program p\ninput x: %s[40,32]\noutput y: %s[16,24]\n%s", t,
                              t, body[at / 15 % 5]);
        const char *trace = kiln_arena_printf(&arena,
                                              "split(t.j, -1, %d)\nsplit(t.i, -1, %d)\n"
                                              "reorder(t.i.0, t.j.0, t.i.1, t.j.1)\n"
                                              "unroll(t.i.1)\nvectorize(t.j.1)\n",
                                              lanes, lanes);
        const kiln_program *te = parsed(&arena, text);
        expect_ok(expect_compiled_equals(te, schedule(te, trace), &target, 2, at));
    }
    kiln_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_of_a_reduction_are_combined),
        cmocka_unit_test(squares_are_read_by_rows),
        cmocka_unit_test(random_primitives_keep_the_meaning_on_avx2),
        cmocka_unit_test(random_primitives_keep_the_meaning_on_sse2),
        cmocka_unit_test(random_primitives_keep_the_meaning_on_avx512),
        cmocka_unit_test(random_primitives_keep_the_meaning_with_threads),
        cmocka_unit_test(samples_of_spaces_keep_the_meaning),
        cmocka_unit_test(samples_of_spaces_keep_the_meaning_with_threads),
    };
    uint64_t seed;
    if (argc > 1 && kiln_str_to_u64(kiln_str_from(argv[1]), &seed)) return run_seed(seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
