/* Tables of a program: names, blocks, producers, work. */
#include "tests/unit/compiler-core/ir/support.h"

static const char fused[] =
    "program conv_relu\n"
    "input x: f32[8,10]\n"
    "constant w: f32[4,8,3]\n"
    "output y: f32[4,8]\n"
    "temp t: f32[4,8]\n"
    "block conv(o:4, i:8 | c:8, k:3): t[o, i] sum= x[c, i + k]*w[o, c, k] init 0.0\n"
    "block relu(o:4, i:8): y[o, i] = max(t[o, i], 0.0)\n";

static void taken_names_get_a_number(void **state) {
    kiln_program *p = *state;
    const kiln_shape scalar = {.rank = 0};
    kiln_buffer first = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &scalar);
    kiln_buffer second = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &scalar);
    kiln_buffer third = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &scalar);
    assert_true(kiln_str_is(p->buffer.data[first].name, "x"));
    assert_true(kiln_str_is(p->buffer.data[second].name, "x'2"));
    assert_true(kiln_str_is(p->buffer.data[third].name, "x'3"));
    assert_int_equal(kiln_program_find_buffer(p, KILN_STR("x'2")), second);
    assert_int_equal(kiln_program_find_buffer(p, KILN_STR("y")), 0);
}

static bool is_named(const kiln_program *p, kiln_var var, const char *name) {
    return kiln_str_is(p->var.data[var].name, name);
}

static void the_first_free_suffix_is_taken_also_after_some_were_retired(void **state) {
    kiln_program *p = *state;
    kiln_var var[6];
    for (uint32_t i = 0; i < 6; i++) var[i] = kiln_var_create(p, KILN_STR("i"), 0, 7);
    assert_true(is_named(p, var[0], "i") && is_named(p, var[1], "i'2") &&
                is_named(p, var[5], "i'6"));
    kiln_var_retire(p, var[2]);
    kiln_var_retire(p, var[4]);
    assert_true(is_named(p, kiln_var_create(p, KILN_STR("i"), 0, 7), "i'3"));
    kiln_program *copy = kiln_program_copy(p, p->arena);
    assert_true(is_named(copy, kiln_var_create(copy, KILN_STR("i"), 0, 7), "i'5"));
    assert_true(is_named(copy, kiln_var_create(copy, KILN_STR("i"), 0, 7), "i'7"));
    kiln_var_retire(p, var[0]);
    assert_true(is_named(p, kiln_var_create(p, KILN_STR("i"), 0, 7), "i"));
    assert_true(is_named(p, kiln_var_create(p, KILN_STR("i"), 0, 7), "i'5"));
    assert_true(is_named(p, kiln_var_create(p, KILN_STR("i'2"), 0, 7), "i'2'2"));
}

/* Passes copy loops by the thousand. A search through all names for each would take minutes here.
 */
static void many_variables_of_one_name_are_made_in_no_time(void **state) {
    kiln_program *p = *state;
    uint32_t most = 200000;
    for (uint32_t i = 1; i < most; i++) kiln_var_create(p, KILN_STR("loop"), 0, 7);
    assert_true(is_named(p, kiln_var_create(p, KILN_STR("loop"), 0, 7), "loop'200000"));
}

static void iterators_are_named_within_their_block(void **state) {
    kiln_program *p = *state;
    kiln_block b = kiln_block_create(p, KILN_STR("a:b"));
    kiln_block_add_iter(p, b, "oc", 8, false);
    kiln_block_add_iter(p, b, "kh", 0, true);
    const kiln_block_info *info = &p->block.data[b];
    assert_true(kiln_str_is(kiln_iter_name(p, &info->iter[0]), "oc"));
    assert_int_equal(p->var.data[info->iter[0].var].high, 7);
    assert_int_equal(p->var.data[info->iter[1].var].high, 0);
}

static void the_producer_is_the_block_that_computes_not_the_initialiser(void **state) {
    kiln_program *p = parse(*state, fused);
    kiln_buffer t = kiln_program_find_buffer(p, KILN_STR("t"));
    assert_int_equal(kiln_program_producer(p, t), kiln_program_find_block(p, KILN_STR("conv")));
    assert_int_equal(kiln_program_producer(p, kiln_program_find_buffer(p, KILN_STR("x"))), 0);
    assert_true(kiln_block_is_reduction(p, 1));
    assert_false(kiln_block_is_reduction(p, 2));
}

static void work_counts_two_per_multiply_add_and_one_per_node(void **state) {
    const kiln_program *p = parse(*state, fused);
    assert_true(kiln_program_flops(p) == 2 * 4 * 8 * 8 * 3 + 4 * 8);
}

static void indices_and_conditions_are_not_work(void **state) {
    const kiln_program *p =
        parse(*state, "program pad\n"
                      "input x: f32[4]\n"
                      "output y: f32[6]\n"
                      "block pad(i:6): y[i] = select(and(1 <= i, i < 5), x[i - 1], 0.0)\n");
    assert_true(kiln_program_flops(p) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(taken_names_get_a_number),
        PROGRAM_TEST(the_first_free_suffix_is_taken_also_after_some_were_retired),
        PROGRAM_TEST(many_variables_of_one_name_are_made_in_no_time),
        PROGRAM_TEST(iterators_are_named_within_their_block),
        PROGRAM_TEST(the_producer_is_the_block_that_computes_not_the_initialiser),
        PROGRAM_TEST(work_counts_two_per_multiply_add_and_one_per_node),
        PROGRAM_TEST(indices_and_conditions_are_not_work),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/ir", tests, NULL, NULL);
}
