/* What blocks read, however much that is. */
#include "compiler-core/facts/loads.h"

#include "compiler-core/sched/prim.h"
#include "tests/unit/compiler-core/sched/support.h"

/* "c": y[i] = x[i, 0] + ... + x[i, columns - 1] + t[7 - i], where "a" makes t. */
static kiln_program *wide_program(kiln_arena *arena, uint32_t columns) {
    char *sum = kiln_str_dup(arena, KILN_STR("x[i, 0]"));
    for (uint32_t k = 1; k < columns; k++) sum = kiln_arena_printf(arena, "%s + x[i, %u]", sum, k);
    return parsed(arena, kiln_arena_printf(arena,
                                           "program wide\ninput x: f32[8,%u]\ntemp t: f32[8]\n"
                                           "output y: f32[8]\nblock a(i:8): t[i] = x[i, 0]*2.0\n"
                                           "block c(i:8): y[i] = %s + t[7 - i]\n",
                                           columns, sum));
}

static void every_load_is_listed_once_in_order(void **state) {
    kiln_program *p = wide_program(*state, 200);
    kiln_block c = kiln_program_find_block(p, KILN_STR("c"));
    kiln_loads loads = kiln_block_loads(p, c);
    assert_int_equal(loads.count, 201);
    for (uint32_t k = 0; k < 200; k++) {
        kiln_expr index[KILN_RANK_MAX];
        int64_t column;
        assert_int_equal(kiln_load_index(p, loads.load[k], index), 2);
        assert_true(kiln_expr_as_int(p, index[1], &column));
        assert_int_equal(column, k);
    }
    assert_int_equal(kiln_load_buffer(p, loads.load[200]),
                     kiln_program_find_buffer(p, KILN_STR("t")));
}

static void readers_are_found_whatever_else_they_read(void **state) {
    kiln_program *p = wide_program(*state, 200);
    kiln_block a = kiln_program_find_block(p, KILN_STR("a")),
               c = kiln_program_find_block(p, KILN_STR("c")), reader[3];
    kiln_buffer t = kiln_program_find_buffer(p, KILN_STR("t")),
                x = kiln_program_find_buffer(p, KILN_STR("x"));
    assert_int_equal(kiln_buffer_readers(p, t, reader), 1);
    assert_int_equal(reader[0], c);
    assert_int_equal(kiln_buffer_readers(p, x, reader), 2);
    assert_int_equal(reader[0], a);
    assert_false(kiln_block_reads(p, a, t));
}

static void loads_of_the_initial_value_follow(void **state) {
    kiln_program *p = parsed(*state, "program p\ninput x: f32[4,6]\nconstant b: f32[4]\n"
                                     "output y: f32[4]\n"
                                     "block s(i:4 | k:6): y[i] sum= x[i, k]*b[i] init b[i]\n");
    kiln_block s = kiln_program_find_block(p, KILN_STR("s"));
    assert_int_equal(kiln_block_loads(p, s).count, 2);
    kiln_block_info *info = &p->block.data[s];
    info->value = kiln_block_loads(p, s).load[0]; /* x alone: b is read by the initial value only */
    kiln_loads loads = kiln_block_loads(p, s);
    assert_int_equal(loads.count, 2);
    assert_int_equal(loads.load[0], info->value);
    assert_int_equal(loads.load[1], info->init);
}

static void lists_follow_the_block_s_expressions(void **state) {
    kiln_program *p = wide_program(*state, 3);
    kiln_block c = kiln_program_find_block(p, KILN_STR("c"));
    assert_int_equal(kiln_block_loads(p, c).count, 4);
    p->block.data[c].value = kiln_block_loads(p, c).load[1];
    assert_int_equal(kiln_block_loads(p, c).count, 1);
}

static void a_step_that_is_undone_leaves_no_list_behind(void **state) {
    /* The refused step's expressions get the ids of the next one's. */
    kiln_program *te = chain_program(*state, 4, 6);
    kiln_program *p = schedule(te, "");
    kiln_block a = kiln_program_find_block(p, KILN_STR("a")),
               c = kiln_program_find_block(p, KILN_STR("c"));
    kiln_buffer x = kiln_program_find_buffer(p, KILN_STR("x")),
                t = kiln_program_find_buffer(p, KILN_STR("t"));
    kiln_prim_args read = {.block = a, .buffer = x, .text = KILN_STR("global")};
    kiln_prim_args inline_c = {.block = c}; /* refused: it writes the output */
    uint32_t expr_count = p->expr.count;
    kiln_status st = kiln_prim_apply(p, KILN_PRIM_INLINE, &inline_c);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    kiln_status_free(st);
    assert_int_equal(p->expr.count, expr_count);
    expect_ok(kiln_prim_apply(p, KILN_PRIM_CACHE_READ, &read));
    assert_false(kiln_block_reads(p, a, x));
    assert_true(kiln_block_reads(p, c, t));
}

static void what_reads_constants_alone_is_told(void **state) {
    kiln_program *p = parsed(*state, "program p\nconstant w: f32[4]\ninput x: f32[4]\n"
                                     "temp t: f32[4]\ntemp z: f32[4]\noutput y: f32[4]\n"
                                     "block pack(i:4): t[i] = w[i]*2.0\n"
                                     "block zero(i:4): z[i] = 0.0\n"
                                     "block add(i:4): y[i] = w[i] + x[i]\n");
    assert_true(kiln_block_reads_only_constants(p, kiln_program_find_block(p, KILN_STR("pack"))));
    assert_false(kiln_block_reads_only_constants(p, kiln_program_find_block(p, KILN_STR("zero"))));
    assert_false(kiln_block_reads_only_constants(p, kiln_program_find_block(p, KILN_STR("add"))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_load_is_listed_once_in_order),
        test_with_arena(readers_are_found_whatever_else_they_read),
        test_with_arena(loads_of_the_initial_value_follow),
        test_with_arena(lists_follow_the_block_s_expressions),
        test_with_arena(a_step_that_is_undone_leaves_no_list_behind),
        test_with_arena(what_reads_constants_alone_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
