/* Where statements stand in a tree of loops. */
#include "compiler-core/facts/nest.h"

#include "tests/unit/compiler-core/sched/support.h"

static void loops_are_listed_from_the_outside_in_however_deep(void **state) {
    kiln_program *p = schedule(chain_program(*state, 4, 6), deep_split(*state, "a.i", 4, 100));
    kiln_loops loops = kiln_block_loops(p, kiln_program_find_block(p, KILN_STR("a")));
    assert_true(loops.count > 100);
    kiln_stmt at = p->root;
    for (uint32_t i = 0; i < loops.count; i++) {
        assert_int_equal(p->stmt.data[loops.loop[i]].kind, KILN_STMT_FOR);
        assert_true(loops.loop[i] != at && kiln_stmt_is_inside(p, loops.loop[i], at));
        at = loops.loop[i];
    }
    assert_int_equal(kiln_nest_loops(p, loops.loop[7]).count, 7);
    assert_int_equal(kiln_nest_loops(p, p->root).count, 0);
}

static void order_and_ancestors_are_told(void **state) {
    kiln_program *p = schedule(chain_program(*state, 4, 6), "compute_at(a, c.i)\n");
    kiln_block a = kiln_program_find_block(p, KILN_STR("a")),
               c = kiln_program_find_block(p, KILN_STR("c"));
    kiln_stmt at_a = kiln_program_block_stmt(p, a), at_c = kiln_program_block_stmt(p, c),
              loop = kiln_program_find_loop(p, KILN_STR("c.i"));
    assert_true(kiln_nest_before(p, at_a, at_c));
    assert_false(kiln_nest_before(p, at_c, at_a));
    assert_false(kiln_nest_before(p, loop, at_c));
    kiln_stmt common = kiln_nest_common(p, at_a, at_c);
    assert_int_equal(p->stmt.data[common].parent, loop);
    assert_int_equal(kiln_nest_position(p, common, kiln_nest_child_towards(p, common, at_c)), 1);
    assert_int_equal(kiln_nest_only_child(p, loop), 0);
    assert_int_equal(kiln_nest_only_child(p, kiln_program_find_loop(p, KILN_STR("c.j"))), at_c);
}

static void iterators_and_their_loops_are_found(void **state) {
    kiln_program *p = schedule(matmul_program(*state, 4, 6, 8),
                               "split(matmul.k, 2, 4)\nfuse(matmul.m, matmul.n)\n");
    kiln_block b = kiln_program_find_block(p, KILN_STR("matmul"));
    int k = kiln_block_find_iter(p, b, KILN_STR("k"));
    assert_int_equal(k, 2);
    assert_int_equal(kiln_block_find_iter(p, b, KILN_STR("q")), -1);
    kiln_expr var = kiln_expr_var(p, p->block.data[b].iter[k].var);
    assert_int_equal(kiln_block_iter_of(p, b, var), k);
    assert_int_equal(kiln_block_iter_of(p, b, kiln_expr_index(p, 0)), -1);
    assert_int_equal(kiln_block_own_loop(p, b, (uint32_t)k), 0);
    kiln_stmt inner = kiln_program_find_loop(p, KILN_STR("matmul.k.1")),
              fused = kiln_program_find_loop(p, KILN_STR("matmul.m.f"));
    kiln_reach of_inner = kiln_block_reach(p, b, p->stmt.data[inner].var),
               of_fused = kiln_block_reach(p, b, p->stmt.data[fused].var);
    assert_true(of_inner.reduce && !of_inner.spatial);
    assert_true(of_fused.spatial && !of_fused.reduce);
}

/* The producer's place and the consumer's, then what is around both; never within lanes. */
static void temps_live_around_all_their_accesses(void **state) {
    kiln_program *p = schedule(chain_program(*state, 4, 8), "compute_at(a, c.i)\nvectorize(c.j)\n");
    kiln_stmt a = kiln_program_block_stmt(p, kiln_program_find_block(p, KILN_STR("a"))),
              c = kiln_program_block_stmt(p, kiln_program_find_block(p, KILN_STR("c")));
    kiln_stmt home = kiln_home_add(p, 0, a);
    assert_int_equal(home, a);
    home = kiln_home_add(p, home, c);
    assert_int_equal(p->stmt.data[home].parent, kiln_program_find_loop(p, KILN_STR("c.i")));
    assert_int_equal(kiln_home_outside_vectors(p, home), home);
    assert_int_equal(kiln_home_outside_vectors(p, c), kiln_program_find_loop(p, KILN_STR("c.j")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(loops_are_listed_from_the_outside_in_however_deep),
        test_with_arena(order_and_ancestors_are_told),
        test_with_arena(iterators_and_their_loops_are_found),
        test_with_arena(temps_live_around_all_their_accesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
