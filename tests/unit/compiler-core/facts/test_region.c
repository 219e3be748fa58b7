/* What blocks touch while loops run. */
#include "compiler-core/facts/region.h"

#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/sched/support.h"

static void regions_follow_the_loops_that_move(void **state) {
    kiln_arena *arena = *state;
    const conv_shape shape = {1, 2, 9, 9, 4, 3, 3, 2, 0, false};
    kiln_program *p = schedule(conv_program(arena, &shape), "split(conv.oh, -1, 2)\n");
    kiln_block conv = kiln_program_find_block(p, KILN_STR("conv"));
    kiln_expr index[KILN_RANK_MAX];
    kiln_loads loads = kiln_block_loads(p, conv);
    assert_int_equal(loads.count, 2);
    assert_int_equal(kiln_load_index(p, loads.load[0], index), 4);
    kiln_stmt outer = kiln_program_find_loop(p, KILN_STR("conv.oh.0"));
    kiln_region region = kiln_region_of(p, conv, index, 4, outer);
    /* Two output rows of stride 2 under a window of 3: rows 0 to 4 from oh.0 * 4 on. */
    assert_int_equal(region.dim[2].low, 0);
    assert_int_equal(region.dim[2].high, 4);
    assert_true(region.dim[2].dense);
    kiln_strbuf text = {0};
    kiln_expr_print(p, region.dim[2].base, &text);
    assert_string_equal(text.data, "conv.oh.0*4");
    kiln_strbuf_deinit(&text);
    assert_int_equal(region.dim[1].base, 0);
    assert_int_equal(region.dim[1].high, 1);
}

static void strided_writes_leave_holes(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p =
        schedule(chain_program(arena, 4, 12), "split(a.j, 3, 4)\nreorder(a.j.1, a.j.0)\n");
    kiln_block a = kiln_program_find_block(p, KILN_STR("a"));
    kiln_region inner = kiln_region_of(p, a, p->block.data[a].index, 2,
                                       kiln_program_find_loop(p, KILN_STR("a.j.1")));
    assert_false(inner.dim[1].dense); /* j.0 * 4 for j.0 in 3 */
    kiln_region all = kiln_region_of(p, a, p->block.data[a].index, 2, 0);
    assert_true(all.dim[1].dense);
    assert_int_equal(all.dim[1].high, 11);
}

static void unions_reach_around_both(void **state) {
    kiln_program *p = chain_program(*state, 4, 12);
    const kiln_shape shape = {.rank = 1, .dim = {100}};
    kiln_region a = {.rank = 1, .dim = {{.low = 0, .high = 3, .dense = true}}},
                b = {.rank = 1, .dim = {{.low = 4, .high = 6, .dense = true}}};
    kiln_region both = kiln_region_union(p, &a, &b, &shape);
    assert_int_equal(both.dim[0].low, 0);
    assert_int_equal(both.dim[0].high, 6);
    assert_true(both.dim[0].dense);
    b.dim[0].low = 5; /* 4 lies in neither */
    assert_false(kiln_region_union(p, &a, &b, &shape).dim[0].dense);
    b.dim[0].base = kiln_expr_index(p, 1);
    both = kiln_region_union(p, &a, &b, &shape);
    assert_int_equal(both.dim[0].high, 99);
    assert_false(both.dim[0].dense);
}

static void predicates_of_split_loops_clip_the_domain_alone(void **state) {
    kiln_program *p = schedule(chain_program(*state, 4, 12), "split(a.j, 3, 5)\n");
    kiln_block a = kiln_program_find_block(p, KILN_STR("a"));
    assert_true(kiln_predicate_clips_domain(p, a));
    kiln_expr j = p->block.data[a].iter[1].binding;
    p->block.data[a].predicate = kiln_expr_binary(p, KILN_EXPR_LT, j, kiln_expr_index(p, 11));
    assert_false(kiln_predicate_clips_domain(p, a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(regions_follow_the_loops_that_move),
        test_with_arena(strided_writes_leave_holes),
        test_with_arena(unions_reach_around_both),
        test_with_arena(predicates_of_split_loops_clip_the_domain_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
