/* What the verifier finds in programs that no text could say: each test breaks one rule of a good
 * program. */
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static kiln_program *good(void **state) {
    return parse(*state, "program sum\n"
                         "input x: f32[4,6]\n"
                         "output y: f32[4]\n"
                         "temp t: f32[4]\n"
                         "block sum(i:4 | j:6): t[i] sum= x[i, j] init 0.0\n"
                         "block neg(i:4): y[i] = neg(t[i])\n"
                         "loops:\n"
                         "  for i in 4:\n"
                         "    for j in 6:\n"
                         "      block sum(i=i, j=j)\n"
                         "    block neg(i=i)\n");
}

static kiln_stmt loop(const kiln_program *p, const char *name) {
    return kiln_program_find_loop(p, kiln_str_from(name));
}

static void a_good_program_passes(void **state) { expect_ok(kiln_program_verify(good(state))); }

static void a_range_that_its_buffer_cannot_have_is_found(void **state) {
    kiln_program *p = good(state);
    p->buffer.data[1].range = (kiln_range){0, 3, 1};
    expect_error(kiln_program_verify(p), INTERNAL, "f32 cannot have this range");
    p = good(state);
    p->buffer.data[2].range = (kiln_range){0, 3, 1};
    expect_error(kiln_program_verify(p), INTERNAL, "only inputs and constants have a range");
}

static void a_child_that_knows_another_parent_is_found(void **state) {
    kiln_program *p = good(state);
    p->stmt.data[loop(p, "j")].parent = p->root;
    expect_error(kiln_program_verify(p), INTERNAL, "does not know its parent");
}

static void a_statement_inside_itself_is_found(void **state) {
    kiln_program *p = good(state);
    kiln_stmt inner = loop(p, "j");
    p->stmt.data[inner].child.data[0] = inner;
    p->stmt.data[inner].parent = inner;
    expect_error(kiln_program_verify(p), INTERNAL, "");
}

static void a_loop_beyond_its_variables_range_is_found(void **state) {
    kiln_program *p = good(state);
    p->stmt.data[loop(p, "j")].extent = 7;
    expect_error(kiln_program_verify(p), INTERNAL,
                 "j: the variable's range does not cover the loop");
}

static void a_binding_beyond_the_domain_is_found(void **state) {
    kiln_program *p = good(state);
    kiln_stmt j = loop(p, "j");
    p->stmt.data[j].extent = 7;
    p->var.data[p->stmt.data[j].var].high = 6;
    expect_error(kiln_program_verify(p), INTERNAL, "sum:j is bound to [0, 6], outside its domain");
}

static void a_consumer_before_its_producer_is_found(void **state) {
    kiln_program *p = good(state);
    kiln_stmt i = loop(p, "i");
    kiln_stmt *pair = p->stmt.data[p->stmt.data[i].child.data[0]].child.data;
    kiln_stmt first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
    expect_error(kiln_program_verify(p), INTERNAL, "neg: t is read before it is written");
}

static void a_block_placed_twice_or_nowhere_is_found(void **state) {
    kiln_program *p = good(state);
    kiln_stmt again = kiln_stmt_create(p, KILN_STMT_BLOCK);
    p->stmt.data[again].block = 2;
    kiln_stmt_append(p, loop(p, "i"), again);
    expect_error(kiln_program_verify(p), INTERNAL, "neg: the block is placed twice");
    kiln_stmt_remove(p, again);
    expect_ok(kiln_program_verify(p));
    kiln_stmt_remove(p, kiln_program_block_stmt(p, 2));
    expect_error(kiln_program_verify(p), INTERNAL, "neg: the block is placed nowhere");
}

static void a_removed_block_in_the_tree_is_found(void **state) {
    kiln_program *p = good(state);
    p->block.data[2].removed = true;
    expect_error(kiln_program_verify(p), INTERNAL, "a removed block is placed");
}

static void a_reduction_without_any_start_is_found(void **state) {
    kiln_program *p = good(state);
    p->block.data[1].init = 0;
    expect_error(kiln_program_verify(p), INTERNAL, "sum: the reduction has no init");
}

static void foreign_iterators_and_loops_in_a_value_are_found(void **state) {
    kiln_program *p = good(state);
    kiln_expr outside = kiln_expr_var(p, p->stmt.data[loop(p, "i")].var);
    p->block.data[2].value = kiln_expr_cast(p, KILN_F32, outside);
    expect_error(kiln_program_verify(p), INTERNAL, "neg: variable i is not in scope");
}

static void a_value_of_another_dtype_is_found(void **state) {
    kiln_program *p = good(state);
    p->block.data[2].value = kiln_expr_index(p, 3);
    expect_error(kiln_program_verify(p), INTERNAL, "neg: the value should be f32");
}

static void two_writers_of_one_buffer_are_found(void **state) {
    kiln_program *p = good(state);
    p->block.data[2].buffer = p->block.data[1].buffer;
    expect_error(kiln_program_verify(p), INTERNAL, "two blocks write one buffer");
}

static void an_argument_outside_global_memory_is_found(void **state) {
    kiln_program *p = good(state);
    p->buffer.data[1].scope = KILN_SCOPE_REGISTER;
    expect_error(kiln_program_verify(p), INTERNAL, "x: an argument lies in global memory");
}

static void blocks_and_stores_do_not_mix(void **state) {
    kiln_program *p = good(state);
    kiln_stmt store = kiln_stmt_create(p, KILN_STMT_STORE);
    p->stmt.data[store].buffer = 2;
    p->stmt.data[store].index_count = 1;
    p->stmt.data[store].index[0] = kiln_expr_index(p, 0);
    p->stmt.data[store].value = kiln_expr_float(p, KILN_F32, 1);
    kiln_stmt_append(p, p->root, store);
    expect_error(kiln_program_verify(p), INTERNAL, "blocks and stores are mixed");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_good_program_passes),
        PROGRAM_TEST(a_range_that_its_buffer_cannot_have_is_found),
        PROGRAM_TEST(a_child_that_knows_another_parent_is_found),
        PROGRAM_TEST(a_statement_inside_itself_is_found),
        PROGRAM_TEST(a_loop_beyond_its_variables_range_is_found),
        PROGRAM_TEST(a_binding_beyond_the_domain_is_found),
        PROGRAM_TEST(a_consumer_before_its_producer_is_found),
        PROGRAM_TEST(a_block_placed_twice_or_nowhere_is_found),
        PROGRAM_TEST(a_removed_block_in_the_tree_is_found),
        PROGRAM_TEST(a_reduction_without_any_start_is_found),
        PROGRAM_TEST(foreign_iterators_and_loops_in_a_value_are_found),
        PROGRAM_TEST(a_value_of_another_dtype_is_found),
        PROGRAM_TEST(two_writers_of_one_buffer_are_found),
        PROGRAM_TEST(an_argument_outside_global_memory_is_found),
        PROGRAM_TEST(blocks_and_stores_do_not_mix),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/verify", tests, NULL, NULL);
}
