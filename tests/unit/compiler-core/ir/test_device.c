/* Axes, scopes and attributes: what they say, and the rules of programs that use them. */
#include "compiler-core/ir/device.h"

#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

#define HEAD "program p\ninput x: f32[4]\noutput y: f32[4]\n"

static void every_axis_and_scope_is_found_by_its_word(void **state) {
    (void)state;
    for (uint32_t i = 1; i < KILN_AXIS_COUNT; i++) {
        kiln_loop_axis axis;
        assert_true(kiln_loop_axis_find(kiln_str_from(kiln_axes[i].text), &axis));
        assert_int_equal(axis, i);
        assert_true(kiln_axes[i].dimension < 3);
    }
    for (uint32_t i = 0; i < KILN_SCOPE_COUNT; i++) {
        kiln_scope scope;
        assert_true(kiln_scope_find(kiln_str_from(kiln_scopes[i].text), &scope));
        assert_int_equal(scope, i);
        assert_int_equal(kiln_scopes[i].alignment & (kiln_scopes[i].alignment - 1), 0);
    }
    kiln_loop_axis axis;
    assert_false(kiln_loop_axis_find(KILN_STR("thread"), &axis));
}

static void numbers_of_attributes_are_unique(void **state) {
    (void)state;
    static const uint32_t number[] = {
#define X(name, text, number, value) number,
#include "compiler-core/ir/attributes.def"
#undef X
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++)
        for (size_t k = 0; k < i; k++) assert_int_not_equal(number[i], number[k]);
}

static void keys_of_rows_are_typed_and_others_are_remarks(void **state) {
    kiln_program *p = parse(*state, HEAD);
    kiln_attribute a = kiln_attribute_from(p, KILN_STR("prefetch=x"));
    assert_int_equal(a.id, KILN_ATTRIBUTE_PREFETCH);
    assert_int_equal(a.row, kiln_program_find_buffer(p, KILN_STR("x")));
    static const char *const remark[] = {"prefetch=z", "note=fuzz", "tensorize=none", "unit",
                                         "remark=a=b"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(remark); i++) {
        a = kiln_attribute_from(p, kiln_str_from(remark[i]));
        assert_int_equal(a.id, KILN_ATTRIBUTE_REMARK);
        expect_str(kiln_attribute_value(p, &a), remark[i]);
    }
}

static void a_statement_is_on_the_unit_around_it(void **state) {
    kiln_program *p = parse(*state, HEAD "loops:\n"
                                         "  for i in 4 @unit(load):\n"
                                         "    for j in 1:\n"
                                         "      y[i] = x[i]\n"
                                         "  for k in 4:\n"
                                         "    y[k] = x[k]\n");
    assert_int_equal(kiln_stmt_unit(p, kiln_program_find_loop(p, KILN_STR("j"))), KILN_UNIT_LOAD);
    assert_int_equal(kiln_stmt_unit(p, kiln_program_find_loop(p, KILN_STR("k"))),
                     KILN_UNIT_COMPUTE);
}

static void expect_good(void **state, const char *loops) {
    const kiln_program *test = *state;
    parse(test, kiln_arena_printf(test->arena, "%s%s",
                                  HEAD "temp s: f32[4] scope(shared)\n"
                                       "temp l: f32[4] scope(local)\n"
                                       "temp g: f32[4]\nloops:\n",
                                  loops));
}

static void expect_bad(void **state, const char *loops, const char *why) {
    const kiln_program *test = *state;
    kiln_program *p;
    const char *text = kiln_arena_printf(test->arena, "%s%s",
                                         HEAD "temp s: f32[4] scope(shared)\n"
                                              "temp l: f32[4] scope(local)\n"
                                              "temp g: f32[4]\nloops:\n",
                                         loops);
    expect_error(kiln_program_parse(kiln_str_from(text), test->arena, &p), INVALID_ARGUMENT, why);
}

static void grid_loops_stand_outermost_and_fill_each_other(void **state) {
    expect_good(state, "  alloc g:\n"
                       "    bind(block.y) a in 2:\n"
                       "      bind(block.x) b in 2:\n"
                       "        for k in 2:\n"
                       "          y[a*2 + b] = 1.0\n"
                       "          barrier\n"
                       "  bind(block.y) c in 3:\n"
                       "    y[0] = 1.0\n");
    expect_bad(state, "  for k in 2:\n    bind(block.x) a in 2:\n      y[a] = 1.0\n",
               "is not directly inside grid loops");
    expect_bad(state, "  bind(thread.x) k in 2:\n    bind(block.x) a in 2:\n      y[a] = 1.0\n",
               "is not directly inside grid loops");
    expect_bad(state,
               "  bind(block.x) a in 2:\n    y[a] = 1.0\n    bind(block.y) b in 2:\n"
               "      y[b] = 1.0\n",
               "loop b is not directly inside a");
    expect_bad(state, "  bind(block.x) a in 2:\n    bind(block.x) b in 2:\n      y[b] = 1.0\n",
               "another loop over block.x");
    expect_bad(state, "  bind(block.y) a in 65536:\n    y[0] = 1.0\n",
               "block.y starts at 0 and takes");
}

static void the_loop_over_a_cluster_is_the_innermost_of_the_grid(void **state) {
    expect_good(state, "  bind(block.x) b in 3:\n    alloc s:\n      bind(cluster) c in 4:\n"
                       "        bind(thread.x) a in 2:\n          y[a] = 1.0\n");
    expect_good(state, "  bind(cluster) c in 8:\n    y[0] = 1.0\n");
    expect_bad(state, "  bind(cluster) c in 2:\n    bind(block.y) b in 2:\n      y[b] = 1.0\n",
               "loop b over block.y is inside c, which runs over the groups of a cluster");
    expect_bad(state, "  bind(cluster) c in 2:\n    bind(cluster) b in 2:\n      y[b] = 1.0\n",
               "another loop over cluster");
    expect_bad(state, "  for k in 2:\n    bind(cluster) c in 2:\n      y[c] = 1.0\n",
               "is not directly inside grid loops");
    expect_bad(state, "  bind(thread.x) k in 2:\n    bind(cluster) c in 2:\n      y[c] = 1.0\n",
               "is not directly inside grid loops");
    expect_bad(state, "  bind(cluster) c in 6:\n    y[0] = 1.0\n",
               "loop c has 6 groups; a cluster has a power of two");
    expect_bad(state, "  bind(cluster) c in 16:\n    y[0] = 1.0\n",
               "cluster starts at 0 and takes 8");
}

static void thread_loops_of_a_nest_stand_in_one_another(void **state) {
    expect_good(state, "  bind(thread.y) a in 2:\n    bind(thread.x) b in 2:\n"
                       "      y[a*2 + b] = 1.0\n");
    expect_good(state, "  bind(block.x) g in 1:\n"
                       "    for k in 2:\n"
                       "      bind(thread.x) a in 2:\n        y[a] = 1.0\n"
                       "      bind(thread.x) b in 4:\n        y[b] = 1.0\n");
    expect_bad(state,
               "  bind(thread.y) a in 2:\n    for k in 2:\n      bind(thread.x) b in 2:\n"
               "        y[a*2 + b] = 1.0\n",
               "loop b is not directly inside a");
    expect_bad(state,
               "  bind(thread.y) a in 2:\n    y[a] = 1.0\n    bind(thread.x) b in 2:\n"
               "      y[a*2 + b] = 1.0\n",
               "loop b is not directly inside a");
    expect_bad(state, "  bind(thread.y) a in 64:\n    bind(thread.x) b in 32:\n      y[0] = 1.0\n",
               "has 2048 threads");
    expect_bad(state, "  parallel a in 2:\n    bind(thread.x) b in 2:\n      y[b] = 1.0\n",
               "inside parallel loop a");
    expect_bad(state, "  bind(thread.x) b in 2:\n    parallel a in 2:\n      y[b] = 1.0\n",
               "parallel loop a is inside a bound loop");
    expect_bad(state, "  vectorize a in 2:\n    bind(thread.x) b in 2:\n      y[b] = 1.0\n",
               "is in lanes");
}

static void barriers_stand_where_all_threads_come(void **state) {
    expect_good(state, "  bind(thread.x) a in 2:\n    for k in 2:\n      if k < 1:\n"
                       "        barrier\n");
    expect_bad(state, "  bind(thread.x) a in 2:\n    if a < 1:\n      barrier\n",
               "a condition on thread loop a");
    expect_bad(state, "  bind(thread.x) a in 2:\n    vectorize k in 2:\n      barrier\n",
               "a barrier is in lanes");
}

static void allocations_stand_where_their_scope_is_seen(void **state) {
    expect_good(state, "  alloc g:\n    bind(block.x) b in 2:\n      alloc s:\n"
                       "        bind(thread.x) a in 2:\n          alloc l:\n"
                       "            y[a] = 1.0\n");
    expect_bad(state, "  bind(block.x) b in 2:\n    alloc g:\n      y[b] = 1.0\n",
               "g has scope global and is allocated inside a launch");
    expect_bad(state, "  bind(thread.x) b in 2:\n    alloc s:\n      y[b] = 1.0\n",
               "s has scope shared and is allocated inside a thread loop");
    expect_bad(state, "  alloc l:\n    bind(thread.x) b in 2:\n      y[b] = 1.0\n",
               "l has scope local and is allocated around thread loops");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(every_axis_and_scope_is_found_by_its_word),
        PROGRAM_TEST(numbers_of_attributes_are_unique),
        PROGRAM_TEST(keys_of_rows_are_typed_and_others_are_remarks),
        PROGRAM_TEST(a_statement_is_on_the_unit_around_it),
        PROGRAM_TEST(grid_loops_stand_outermost_and_fill_each_other),
        PROGRAM_TEST(the_loop_over_a_cluster_is_the_innermost_of_the_grid),
        PROGRAM_TEST(thread_loops_of_a_nest_stand_in_one_another),
        PROGRAM_TEST(barriers_stand_where_all_threads_come),
        PROGRAM_TEST(allocations_stand_where_their_scope_is_seen),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/device", tests, NULL, NULL);
}
