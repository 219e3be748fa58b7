/* The statement tree: wrapping, replacing, removing, finding. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static const char copy_text[] = "program copy\n"
                                "input x: f32[4,6]\n"
                                "output y: f32[4,6]\n"
                                "block copy(i:4, j:6): y[i, j] = x[i, j]\n"
                                "loops:\n"
                                "  for i in 4:\n"
                                "    for j in 6:\n"
                                "      block copy(i=i, j=j)\n";

/* Compares what stands after "loops:". */
static void expect_loops(const kiln_program *p, const char *wanted) {
    kiln_strbuf text = {0};
    kiln_program_print(p, &text);
    char *loops = strstr(text.data, "loops:\n");
    assert_non_null(loops);
    assert_string_equal(loops + strlen("loops:\n"), wanted);
    kiln_status st = kiln_program_verify(p);
    if (st) fail_msg("%s", kiln_status_text(st));
    kiln_strbuf_deinit(&text);
}

static kiln_stmt loop(const kiln_program *p, const char *name) {
    kiln_stmt found = kiln_program_find_loop(p, kiln_str_from(name));
    assert_int_not_equal(found, 0);
    return found;
}

static void make_loops_places_each_block_in_its_own_nest(void **state) {
    kiln_program *p = parse(*state, "program two\n"
                                    "input x: f32[4,6]\n"
                                    "output y: f32[4]\n"
                                    "temp t: f32[4,6]\n"
                                    "block map(i:4, j:6): t[i, j] = neg(x[i, j])\n"
                                    "block sum(i:4 | j:6): y[i] sum= t[i, j] init 0.0\n");
    kiln_program_make_loops(p);
    expect_loops(p, "  for map.i in 4:\n"
                    "    for map.j in 6:\n"
                    "      block map(i=map.i, j=map.j)\n"
                    "  for sum.i in 4:\n"
                    "    for sum.j in 6:\n"
                    "      block sum(i=sum.i, j=sum.j)\n");
}

static void a_reduction_over_nothing_stores_its_initial_value(void **state) {
    kiln_program *p = parse(*state, "program most\n"
                                    "input x: f32[4,0,6]\n"
                                    "output y: f32[4]\n"
                                    "block most(i:4 | j:0, k:6): y[i] max= x[i, j, k] init -inf\n");
    kiln_program_make_loops(p);
    expect_loops(p, "  for most.i in 4:\n"
                    "    block most(i=most.i)\n");
    assert_false(kiln_block_is_reduction(p, 1));
    expect_text(p, p->block.data[1].value, "-inf");
}

static void a_loop_made_around_a_placed_body_takes_its_place(void **state) {
    kiln_program *p = parse(*state, copy_text);
    kiln_var n = kiln_var_create(p, KILN_STR("n"), 0, 0);
    kiln_stmt inner = loop(p, "j");
    kiln_stmt made = kiln_stmt_for(p, n, 0, 1, KILN_LOOP_PARALLEL, inner);
    assert_int_equal(p->stmt.data[inner].parent, made);
    expect_loops(p, "  for i in 4:\n"
                    "    parallel n in 1:\n"
                    "      for j in 6:\n"
                    "        block copy(i=i, j=j)\n");
}

/* How split is done: new loops inside the old one, which they then replace. */
static void a_loop_can_be_replaced_by_what_is_inside_it(void **state) {
    kiln_program *p = parse(*state, copy_text);
    kiln_stmt old = loop(p, "j");
    kiln_var j0 = kiln_var_create(p, KILN_STR("j.0"), 0, 0);
    kiln_var j1 = kiln_var_create(p, KILN_STR("j.1"), 0, 0);
    kiln_stmt body = p->stmt.data[old].child.data[0];
    kiln_stmt inner = kiln_stmt_for(p, j1, 0, 3, KILN_LOOP_UNROLL, body);
    kiln_stmt outer = kiln_stmt_for(p, j0, 0, 2, KILN_LOOP_SERIAL, inner);
    kiln_stmt_replace(p, old, outer);
    p->block.data[1].iter[1].binding =
        add(p, times(p, kiln_expr_var(p, j0), 3), kiln_expr_var(p, j1));
    expect_loops(p, "  for i in 4:\n"
                    "    for j.0 in 2:\n"
                    "      unroll j.1 in 3:\n"
                    "        block copy(i=i, j=j.0*3 + j.1)\n");
    assert_int_equal(kiln_program_find_loop(p, KILN_STR("j")), 0);
    assert_false(kiln_stmt_is_inside(p, old, p->root));
}

static void a_second_child_makes_the_body_a_sequence(void **state) {
    kiln_program *p = parse(*state, copy_text);
    kiln_stmt_append(p, loop(p, "i"), kiln_stmt_create(p, KILN_STMT_BARRIER));
    expect_loops(p, "  for i in 4:\n"
                    "    for j in 6:\n"
                    "      block copy(i=i, j=j)\n"
                    "    barrier\n");
}

static void removing_the_last_child_removes_what_became_empty(void **state) {
    kiln_program *p = parse(*state, copy_text);
    kiln_stmt_append(p, p->root, kiln_stmt_create(p, KILN_STMT_BARRIER));
    kiln_stmt placed = kiln_program_block_stmt(p, 1);
    kiln_stmt_remove(p, placed);
    p->block.data[1].removed = true;
    assert_int_equal(kiln_program_find_loop(p, KILN_STR("i")), 0);
    assert_int_equal(kiln_program_block_stmt(p, 1), 0);
    expect_loops(p, "  barrier\n");
}

static void a_copy_is_independent_and_keeps_ids(void **state) {
    kiln_program *p = parse(*state, copy_text);
    kiln_arena other;
    kiln_arena_init(&other, 0);
    kiln_program *copy = kiln_program_copy(p, &other);
    kiln_hash128 before = kiln_program_hash(p);
    assert_int_equal(loop(copy, "j"), loop(p, "j"));
    kiln_stmt_append(copy, loop(copy, "i"), kiln_stmt_create(copy, KILN_STMT_BARRIER));
    copy->stmt.data[loop(copy, "j")].loop_kind = KILN_LOOP_VECTORIZE;
    kiln_expr made = plus(copy, kiln_expr_var(copy, 1), 12345);
    assert_int_equal(made, plus(copy, kiln_expr_var(copy, 1), 12345));
    kiln_hash128 after = kiln_program_hash(p);
    assert_memory_equal(&before, &after, sizeof before);
    kiln_arena_deinit(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_reduction_over_nothing_stores_its_initial_value),
        PROGRAM_TEST(make_loops_places_each_block_in_its_own_nest),
        PROGRAM_TEST(a_loop_made_around_a_placed_body_takes_its_place),
        PROGRAM_TEST(a_loop_can_be_replaced_by_what_is_inside_it),
        PROGRAM_TEST(a_second_child_makes_the_body_a_sequence),
        PROGRAM_TEST(removing_the_last_child_removes_what_became_empty),
        PROGRAM_TEST(a_copy_is_independent_and_keeps_ids),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/stmt", tests, NULL, NULL);
}
