/* What the legality analysis can prove, and what it must not. */
#include "compiler-core/sched/dependence.h"

#include "compiler-core/facts/region.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/nest.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Groups of 5 channels: tails inside a dimension that no single iterator owns. */
static kiln_program *grouped_program(kiln_arena *arena) {
    static const char text[] = "program grouped\n"
                               "input x: f32[15,4]\n"
                               "temp t: f32[15]\n"
                               "output y: f32[15]\n"
                               "block sum(g:3, c:5 | k:4): t[g*5 + c] sum= x[g*5 + c, k] init 0.0\n"
                               "block out(i:15): y[i] = t[i] + 1.0\n";
    return parsed(arena, text);
}

static void a_follower_of_groups_keeps_their_tails_out(void **state) {
    expect_loops(
        grouped_program(*state),
        "split(sum.c, -1, 2)\n"
        "reverse_compute_at(out, sum.c.0)\n",
        "  for sum.g in 3:\n"
        "    for sum.c.0 in 3:\n"
        "      for sum.c.1 in 2:\n"
        "        for sum.k in 4:\n"
        "          block sum(g=sum.g, c=sum.c.0*2 + sum.c.1, k=sum.k) if sum.c.0*2 + sum.c.1 < 5\n"
        "      for out.i in 2:\n"
        "        block out(i=sum.g*5 + sum.c.0*2 + out.i) if sum.c.0*2 + out.i < 5\n");
}

static void a_copy_of_groups_does_not_read_their_tails(void **state) {
    expect_illegal(
        grouped_program(*state),
        "split(sum.c, -1, 2)\nreorder(sum.c.0, sum.g)\nreverse_compute_at(out, sum.c.0)\n",
        "out reads t from sum, but more of it is read there than the same iteration wrote");
}

static void fused_and_split_loops_tell_what_they_write(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p =
        schedule(chain_program(arena, 6, 10), "fuse(c.i, c.j)\nsplit(c.i.f, -1, 4, 2)\n");
    kiln_block c = kiln_program_find_block(p, KILN_STR("c"));
    assert_true(kiln_element_determines(p, c, kiln_program_find_loop(p, KILN_STR("c.i.f.0"))));
    assert_true(kiln_element_determines(p, c, kiln_program_find_loop(p, KILN_STR("c.i.f.1"))));
    assert_true(kiln_element_determines(p, c, kiln_program_find_loop(p, KILN_STR("c.i.f.2"))));
}

static void any_number_of_fused_loops_tell_what_they_write(void **state) {
    kiln_arena *arena = *state;
    const conv_shape shape = {2, 2, 4, 5, 3, 1, 1, 1, 0, false};
    kiln_program *p =
        schedule(conv_program(arena, &shape), "fuse(conv.n, conv.oc, conv.oh, conv.ow)\n");
    kiln_block conv = kiln_program_find_block(p, KILN_STR("conv"));
    kiln_stmt fused = kiln_program_find_loop(p, KILN_STR("conv.n.f"));
    assert_true(kiln_element_determines(p, conv, fused));
    p->block.data[conv].index[1] = kiln_expr_index(p, 0); /* all channels write the first one */
    assert_false(kiln_element_determines(p, conv, fused));
}

/* Rows of a padded image overlap between tiles: they may be copied in parallel only where each tile
 * has its own copy. */
static void overlapping_copies_are_private_or_serial(void **state) {
    kiln_arena *arena = *state;
    const conv_shape shape = {1, 2, 6, 6, 3, 3, 3, 1, 1, false};
    kiln_program *te = conv_program(arena, &shape);
    schedule(te, "compute_at(pad, conv.oh)\nreorder(conv.n, conv.oc)\nparallel(conv.oc)\n");
    kiln_program *p = schedule(te, "compute_at(pad, conv.oh)\n");
    kiln_block pad = kiln_program_find_block(p, KILN_STR("pad"));
    assert_false(kiln_element_determines(p, pad, kiln_program_find_loop(p, KILN_STR("conv.oh"))));
}

/* y[i] = t[i] + 64 more loads + t[7 - i]: the last one is not what the same iteration wrote. */
static void a_read_behind_64_others_is_seen(void **state) {
    kiln_arena *arena = *state;
    char *sum = kiln_str_dup(arena, KILN_STR("t[i]"));
    for (uint32_t k = 0; k < 64; k++) sum = kiln_arena_printf(arena, "%s + x[i, %u]", sum, k);
    kiln_program *te =
        parsed(arena, kiln_arena_printf(arena,
                                        "program wide\ninput x: f32[8,64]\ntemp t: f32[8]\n"
                                        "output y: f32[8]\nblock a(i:8): t[i] = x[i, 0]*2.0\n"
                                        "block c(i:8): y[i] = %s + t[7 - i]\n",
                                        sum));
    expect_illegal(te, "reverse_compute_at(c, a.i)\n", "more of it is read there");
    expect_loops(te, "compute_at(a, c.i)\n",
                 "  for c.i in 8:\n    for a.i in 8:\n      block a(i=a.i)\n    block c(i=c.i)\n");
}

/* The reduce loop is the outermost of many: the sum is complete only after it. */
static void a_reduction_far_outside_is_seen(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = parsed(arena, "program far\ninput x: f32[4,6]\ntemp t: f32[4]\n"
                                     "output y: f32[4]\n"
                                     "block sum(i:4 | k:6): t[i] sum= x[i, k]\n"
                                     "block out(i:4): y[i] = t[i] + 1.0\n");
    const char *deep = deep_split(arena, "sum.i", 4, 70);
    expect_illegal(te,
                   kiln_arena_printf(arena,
                                     "reorder(sum.k, sum.i)\n%sreverse_compute_at(out, "
                                     "sum.i.15.15.15.15.15)\n",
                                     deep),
                   "its reduction is not complete there");
}

static kiln_program *gather_program(kiln_arena *arena) {
    return parsed(arena, "program gather\ninput idx: i64[8]\ninput x: f32[64]\n"
                         "temp t: f32[64]\noutput y: f32[8,10]\n"
                         "block a(j:64): t[j] = x[j]*2.0\n"
                         "block c(i:8, k:10): y[i, k] = t[idx[i]*2 + k + 20]\n");
}

/* Data says where to compute only where it can be loaded whatever the reader's predicate says. */
static void data_places_producers_where_it_can_be_loaded(void **state) {
    kiln_program *te = gather_program(*state);
    expect_loops(te, "compute_at(a, c.i)\n",
                 "  for c.i in 8:\n    for a.j in 10:\n"
                 "      block a(j=idx[c.i]*2 + 20 + a.j) if and(0 <= idx[c.i]*2 + a.j + 20, "
                 "idx[c.i]*2 + a.j + 20 < 64)\n"
                 "    for c.k in 10:\n      block c(i=c.i, k=c.k)\n");
    expect_loops(te, "split(c.i, 3, 3)\ncompute_at(a, c.i.1)\n",
                 "  for c.i.0 in 3:\n    for c.i.1 in 3:\n      for a.j in 64:\n"
                 "        block a(j=a.j)\n      for c.k in 10:\n"
                 "        block c(i=c.i.0*3 + c.i.1, k=c.k) if c.i.0*3 + c.i.1 < 8\n");
}

/* Indices that are loaded lie anywhere in 64 bits: twice that range is no number, and least and
 * greatest index must not come out as neighbours. */
static void loaded_indices_may_be_anywhere(void **state) {
    kiln_program *te = gather_program(*state);
    expect_loops(te, "split(c.i, 4, 2)\ncompute_at(a, c.i.0)\n",
                 "  for c.i.0 in 4:\n    for a.j in 64:\n      block a(j=a.j)\n"
                 "    for c.i.1 in 2:\n      for c.k in 10:\n"
                 "        block c(i=c.i.0*2 + c.i.1, k=c.k)\n");
    kiln_program *p = schedule(te, "split(c.i, 4, 2)\n");
    kiln_block c = kiln_program_find_block(p, KILN_STR("c"));
    kiln_loads loads = kiln_block_loads(p, c);
    kiln_expr index = kiln_expr_operand(p, loads.load[loads.count - 1], 0);
    kiln_region all = kiln_region_of(p, c, &index, 1, 0);
    assert_int_equal(all.dim[0].low, INT64_MIN);
    assert_int_equal(all.dim[0].high, INT64_MAX);
    assert_false(all.dim[0].dense);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_follower_of_groups_keeps_their_tails_out),
        test_with_arena(a_copy_of_groups_does_not_read_their_tails),
        test_with_arena(fused_and_split_loops_tell_what_they_write),
        test_with_arena(any_number_of_fused_loops_tell_what_they_write),
        test_with_arena(overlapping_copies_are_private_or_serial),
        test_with_arena(a_read_behind_64_others_is_seen),
        test_with_arena(a_reduction_far_outside_is_seen),
        test_with_arena(data_places_producers_where_it_can_be_loaded),
        test_with_arena(loaded_indices_may_be_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
