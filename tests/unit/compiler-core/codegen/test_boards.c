/* test-core-codegen-boards TARGET EMULATOR RUNNER: scheduled programs, compiled for another
 * processor and run under its emulator, compute what their tensor expression says. */
#include <stdlib.h>

#include "compiler-core/ir/ir_text.h"
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/board.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/small_floats.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define SEEDS 40
#define UNARY_ELEMENTS 8

static const char *target_text; /* from the command line, set once in main */
static board other;

typedef kiln_program *(*scheduler)(const kiln_program *te, const kiln_target *target,
                                   kiln_rand *rand);

static kiln_program *draw_primitives(const kiln_program *te, const kiln_target *target,
                                     kiln_rand *rand) {
    (void)target;
    return draw_schedule(te, rand, 12 + (uint32_t)kiln_rand_below(rand, 30));
}

static void compare_all(const char *suffix, scheduler draw) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    uint64_t refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_arena_reset(&arena);
        kiln_target target =
            target_of(&arena, kiln_arena_printf(&arena, "%s%s", target_text, suffix));
        const kiln_generate_options options = {
            .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled = draw(te, &target, &rand);
        if (!schedule_is_sound(te, scheduled, seed)) continue;
        kiln_status st = expect_runs_equal(te, scheduled, &target, NULL, seed % 3 == 0 ? 0 : 2,
                                           seed, run_on_board, &other);
        refused += st != NULL;
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(refused < SEEDS / 2);
}

static void random_primitives_keep_the_meaning(void **state) {
    (void)state;
    compare_all("", draw_primitives);
}

static void samples_of_spaces_keep_the_meaning(void **state) {
    (void)state;
    compare_all("", draw_sample);
}

static void both_do_with_threads(void **state) {
    (void)state;
    compare_all(",threads=2", draw_primitives);
    compare_all(",threads=2", draw_sample);
}

static void products_in_tensor_intrinsics_keep_the_meaning(void **state) {
    (void)state;
    uint32_t rows = 0;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++)
        for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
            kiln_arena_reset(&arena);
            kiln_target target = target_of(&arena, target_text);
            if (!kiln_intrinsic_runs_on(&kiln_intrinsics[i], &target)) continue;
            rows++;
            kiln_rand rand;
            kiln_rand_init(&rand, seed);
            kiln_program *te,
                *scheduled = draw_product(&arena, &kiln_intrinsics[i], &rand, seed == 1, &te);
            kiln_status st = expect_runs_equal(te, scheduled, &target, NULL, seed % 3 == 0 ? 0 : 2,
                                               seed, run_on_board, &other);
            if (st)
                fail_msg("%s, seed %u: %s", kiln_intrinsics[i].name, (unsigned)seed,
                         kiln_status_text(st));
        }
    kiln_arena_deinit(&arena);
    if (rows > 0) return;
    skip_because("%s has no tensor intrinsics", target_text);
}

/* FMLAL where the processor has it, of elements of registers and of whole ones. */
static void products_of_f16_keep_the_meaning(void **state) {
    (void)state;
    uint64_t refused = 0;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, target_text);
        kiln_program *te = f16_product_program(&arena, 1 + (int64_t)kiln_rand_below(&rand, 20),
                                               1 + (int64_t)kiln_rand_below(&rand, 40),
                                               1 + (int64_t)kiln_rand_below(&rand, 40));
        kiln_status st = expect_runs_equal(te, draw_sample(te, &target, &rand), &target, NULL, 2,
                                           seed, run_on_board, &other);
        refused += st != NULL; /* register buffers that do not fit */
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(refused < SEEDS / 4);
}

static void quantised_convolutions_keep_the_meaning(void **state) {
    (void)state;
    uint64_t refused = 0;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, target_text);
        kiln_program *te = quantised_program(
            &arena, seed % 2 ? KILN_U8 : KILN_I8, 4 + 4 * (int64_t)kiln_rand_below(&rand, 5),
            3 + (int64_t)kiln_rand_below(&rand, 4), 1 + (int64_t)kiln_rand_below(&rand, 20));
        kiln_status st = expect_runs_equal(te, draw_sample(te, &target, &rand), &target, NULL, 2,
                                           seed, run_on_board, &other);
        refused += st != NULL; /* register buffers that do not fit */
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(refused < SEEDS / 4);
}

static void sums_of_bits_keep_the_meaning(void **state) {
    (void)state;
    static const kiln_range data[] = {{0, 3, 1}, {-2, 1, 1}}, weights[] = {{-1, 1, 2}, {-2, 1, 1}};
    uint32_t refused = 0, counting = 0;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, target_text);
        kiln_program *te = bits_program(&arena, data[seed % 2], weights[seed / 2 % 2],
                                        20 + 4 * (int64_t)kiln_rand_below(&rand, 12),
                                        3 + (int64_t)kiln_rand_below(&rand, 3),
                                        1 + (int64_t)kiln_rand_below(&rand, 20));
        kiln_program *scheduled = draw_sample(te, &target, &rand);
        counting += kiln_program_find_buffer(scheduled, KILN_STR("conv.bits")) != 0;
        kiln_status st =
            expect_runs_equal(te, scheduled, &target, NULL, 2, seed, run_on_board, &other);
        refused += st != NULL; /* register buffers that do not fit */
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(counting >= 2);
    assert_true(refused < SEEDS / 4);
}

static kiln_program *unary(kiln_arena *arena, kiln_expr_op op, kiln_dtype dtype) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("unary"));
    const kiln_shape shape = {.rank = 1, .dim = {UNARY_ELEMENTS}};
    kiln_buffer x = kiln_buffer_create(p, KILN_STR("x"), dtype, KILN_ROLE_INPUT, &shape);
    kiln_buffer y = kiln_buffer_create(p, KILN_STR("y"), dtype, KILN_ROLE_OUTPUT, &shape);
    kiln_block b = kiln_block_create(p, KILN_STR("f"));
    kiln_expr i = kiln_block_add_iter(p, b, "i", UNARY_ELEMENTS, false);
    kiln_expr nine = kiln_expr_float(p, dtype, 9); /* so that there is something to round */
    kiln_expr value = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_load(p, x, &i, 1), nine);
    kiln_block_set(p, b, y, &i, 1, KILN_COMBINE_NONE, kiln_expr_unary(p, op, value), 0);
    return p;
}

/* Instructions differ between processors, and some have none. */
static void whole_numbers_are_found_in_scalars_and_vectors(void **state) {
    static const kiln_expr_op op[] = {KILN_EXPR_ROUND, KILN_EXPR_FLOOR, KILN_EXPR_CEIL,
                                      KILN_EXPR_ABS, KILN_EXPR_SQRT};
    static const kiln_dtype dtype[] = {KILN_F32, KILN_F64, KILN_F16};
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, target_text);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(op) * KILN_ARRAY_COUNT(dtype) * 2; i++) {
        kiln_program *te = unary(arena, op[i / 6], dtype[i / 2 % 3]);
        kiln_program *p = kiln_program_copy(te, arena);
        kiln_program_make_loops(p);
        if (i % 2)
            p->stmt.data[kiln_program_find_loop(p, KILN_STR("f.i"))].loop_kind =
                KILN_LOOP_VECTORIZE;
        expect_ok(expect_runs_equal(te, p, &target, NULL, 2, i + 1, run_on_board, &other));
    }
}

/* Optimised, because LLVM 19 takes BFCVTN for halves of either kind where it does not. */
static void floats_become_halves_in_scalars_and_vectors(void **state) {
    static const char *const dtype[] = {"bf16", "f16"};
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, target_text);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(dtype) * 2; i++) {
        const char *text = kiln_arena_printf(arena,
                                             "program narrow\ninput x: f32[16]\noutput y: "
                                             "%s[16]\nblock f(i:16): y[i] = %s(x[i]*9.0)\n",
                                             dtype[i / 2], dtype[i / 2]);
        kiln_program *te = NULL;
        expect_ok(kiln_program_parse(kiln_str_from(text), arena, &te));
        kiln_program *p = kiln_program_copy(te, arena);
        kiln_program_make_loops(p);
        if (i % 2)
            p->stmt.data[kiln_program_find_loop(p, KILN_STR("f.i"))].loop_kind =
                KILN_LOOP_VECTORIZE;
        expect_ok(expect_runs_equal(te, p, &target, NULL, 2, i + 1, run_on_board, &other));
    }
}

static void small_floats_are_rounded_as_here(void **state) {
    const kiln_target target = target_of(*state, target_text);
    expect_small_compiled(*state, &target, NULL, SMALL_SCALARS, run_on_board, &other);
    expect_small_compiled(*state, &target, NULL, SMALL_VECTORS, run_on_board, &other);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_primitives_keep_the_meaning),
        cmocka_unit_test(samples_of_spaces_keep_the_meaning),
        cmocka_unit_test(both_do_with_threads),
        test_with_arena(whole_numbers_are_found_in_scalars_and_vectors),
        test_with_arena(floats_become_halves_in_scalars_and_vectors),
        test_with_arena(small_floats_are_rounded_as_here),
        cmocka_unit_test(products_in_tensor_intrinsics_keep_the_meaning),
        cmocka_unit_test(products_of_f16_keep_the_meaning),
        cmocka_unit_test(quantised_convolutions_keep_the_meaning),
        cmocka_unit_test(sums_of_bits_keep_the_meaning),
    };
    if (argc != 4) return 2;
    target_text = argv[1];
    other = (board){.emulator = argv[2], .runner = argv[3]};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    board_stop(&other);
    return failed;
}
