/* What the legality analysis can prove, and what it must not. */
#include "compiler-core/sched/dependence.h"

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/region.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Groups of 5 channels: tails inside a dimension that no single iterator owns. */
static kiln_program *grouped_program(kiln_arena *arena) {
    static const char text[] = "program grouped\n"
                               "input x: f32[15,4]\n"
                               "temp t: f32[15]\n"
                               "output y: f32[15]\n"
                               "block sum(g:3, c:5 | k:4): t[g*5 + c] sum= x[g*5 + c, k] init 0.0\n"
                               "block out(i:15): y[i] = t[i] + 1.0\n";
    kiln_program *te;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &te);
    if (st) fail_msg("%s", kiln_status_text(st));
    return te;
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

static void regions_follow_the_loops_that_move(void **state) {
    kiln_arena *arena = *state;
    const conv_shape shape = {1, 2, 9, 9, 4, 3, 3, 2, 0, false};
    kiln_program *p = schedule(conv_program(arena, &shape), "split(conv.oh, -1, 2)\n");
    kiln_block conv = kiln_program_find_block(p, KILN_STR("conv"));
    kiln_expr load[KILN_LOADS_MAX], index[4];
    assert_int_equal(kiln_block_loads(p, conv, load), 2);
    for (uint32_t d = 0; d < 4; d++) index[d] = kiln_expr_operand(p, load[0], d);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_follower_of_groups_keeps_their_tails_out),
        test_with_arena(a_copy_of_groups_does_not_read_their_tails),
        test_with_arena(regions_follow_the_loops_that_move),
        test_with_arena(strided_writes_leave_holes),
        test_with_arena(fused_and_split_loops_tell_what_they_write),
        test_with_arena(any_number_of_fused_loops_tell_what_they_write),
        test_with_arena(overlapping_copies_are_private_or_serial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
