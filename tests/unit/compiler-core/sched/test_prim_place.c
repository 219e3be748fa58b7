/* Primitives that move computation: what they make, and what they refuse. */
#include "tests/unit/compiler-core/sched/support.h"

static const conv_shape small_conv = {1, 2, 5, 5, 4, 3, 3, 1, 1, true};

static void compute_at_computes_what_is_read_there(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "compute_at(a, c.i)\n",
                 "  for c.i in 6:\n"
                 "    for a.i in 1:\n"
                 "      for a.j in 10:\n"
                 "        block a(i=c.i, j=a.j)\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void compute_at_follows_a_sliding_window(void **state) {
    kiln_arena *arena = *state;
    expect_loops(conv_program(arena, &small_conv),
                 "inline(bias)\n"
                 "compute_at(pad, conv.oh)\n",
                 "  for conv.n in 1:\n"
                 "    for conv.oc in 4:\n"
                 "      for conv.oh in 5:\n"
                 "        for pad.n in 1:\n"
                 "          for pad.c in 2:\n"
                 "            for pad.h in 3:\n"
                 "              for pad.w in 7:\n"
                 "                block pad(n=0, c=pad.c, h=conv.oh + pad.h, w=pad.w)\n"
                 "        for conv.ow in 5:\n"
                 "          for conv.ic in 2:\n"
                 "            for conv.kh in 3:\n"
                 "              for conv.kw in 3:\n"
                 "                block conv(n=conv.n, oc=conv.oc, oh=conv.oh, ow=conv.ow, "
                 "ic=conv.ic, kh=conv.kh, kw=conv.kw)\n"
                 "  for relu.n in 1:\n"
                 "    for relu.c in 4:\n"
                 "      for relu.h in 5:\n"
                 "        for relu.w in 5:\n"
                 "          block relu(n=relu.n, c=relu.c, h=relu.h, w=relu.w)\n");
}

/* Rows of the last tile end where the padded image ends. */
static void compute_at_cuts_what_lies_outside_the_buffer(void **state) {
    kiln_arena *arena = *state;
    expect_loops(conv_program(arena, &small_conv),
                 "inline(bias)\n"
                 "split(conv.oh, -1, 3)\n"
                 "compute_at(pad, conv.oh.0)\n",
                 "  for conv.n in 1:\n"
                 "    for conv.oc in 4:\n"
                 "      for conv.oh.0 in 2:\n"
                 "        for pad.n in 1:\n"
                 "          for pad.c in 2:\n"
                 "            for pad.h in 5:\n"
                 "              for pad.w in 7:\n"
                 "                block pad(n=0, c=pad.c, h=conv.oh.0*3 + pad.h, w=pad.w) if "
                 "conv.oh.0*3 + pad.h < 7\n"
                 "        for conv.oh.1 in 3:\n"
                 "          for conv.ow in 5:\n"
                 "            for conv.ic in 2:\n"
                 "              for conv.kh in 3:\n"
                 "                for conv.kw in 3:\n"
                 "                  block conv(n=conv.n, oc=conv.oc, oh=conv.oh.0*3 + conv.oh.1, "
                 "ow=conv.ow, ic=conv.ic, kh=conv.kh, kw=conv.kw) if conv.oh.0*3 + conv.oh.1 < 5\n"
                 "  for relu.n in 1:\n"
                 "    for relu.c in 4:\n"
                 "      for relu.h in 5:\n"
                 "        for relu.w in 5:\n"
                 "          block relu(n=relu.n, c=relu.c, h=relu.h, w=relu.w)\n");
}

static void compute_at_computes_a_whole_sum(void **state) {
    kiln_arena *arena = *state;
    expect_loops(conv_program(arena, &small_conv),
                 "inline(bias)\n"
                 "compute_at(conv, relu.h)\n",
                 "  for pad.n in 1:\n"
                 "    for pad.c in 2:\n"
                 "      for pad.h in 7:\n"
                 "        for pad.w in 7:\n"
                 "          block pad(n=pad.n, c=pad.c, h=pad.h, w=pad.w)\n"
                 "  for relu.n in 1:\n"
                 "    for relu.c in 4:\n"
                 "      for relu.h in 5:\n"
                 "        for conv.n in 1:\n"
                 "          for conv.oc in 1:\n"
                 "            for conv.oh in 1:\n"
                 "              for conv.ow in 5:\n"
                 "                for conv.ic in 2:\n"
                 "                  for conv.kh in 3:\n"
                 "                    for conv.kw in 3:\n"
                 "                      block conv(n=0, oc=relu.c, oh=relu.h, ow=conv.ow, "
                 "ic=conv.ic, kh=conv.kh, kw=conv.kw)\n"
                 "        for relu.w in 5:\n"
                 "          block relu(n=relu.n, c=relu.c, h=relu.h, w=relu.w)\n");
}

static void compute_at_refuses_places_without_the_readers(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "compute_at(a, a.i)\n",
                   "nothing inside a.i reads what a writes");
    expect_illegal(chain_program(arena, 6, 10), "compute_at(c, a.i)\n",
                   "c writes y, which is an output");
    expect_illegal(chain_program(arena, 6, 10), "compute_at(a, c.k)\n", "there is no loop c.k");
    expect_illegal(chain_program(arena, 6, 10),
                   "vectorize(c.j)\n"
                   "compute_at(a, c.j)\n",
                   "c.j is vectorized; nothing can be placed in it");
    expect_illegal(conv_program(arena, &small_conv),
                   "decompose_reduction(conv, conv.ic)\n"
                   "compute_at(conv, bias.h)\n",
                   "the reduction conv has been decomposed");
    expect_illegal(conv_program(arena, &small_conv),
                   "decompose_reduction(conv, conv.ic)\n"
                   "compute_at(conv.init, bias.h)\n",
                   "conv.init initialises a reduction");
    expect_illegal(chain_program(arena, 6, 10),
                   "compute_at(a, c.i)\n"
                   "parallel(c.j)\n"
                   "compute_at(a, c.j)\n"
                   "inline(a)\n"
                   "compute_at(a, c.j)\n",
                   "there is no block a");
}

/* c reads rows of a that d, behind it, reads as a whole. */
static kiln_program *two_readers(kiln_arena *arena, int rows_of_c) {
    return parsed(arena, kiln_arena_printf(arena,
                                           "program p\ninput x: f32[6,10]\ntemp a: f32[6,10]\n"
                                           "output y: f32[%d,10]\noutput z: f32[6,10]\n"
                                           "block a(i:6, j:10): a[i, j] = x[i, j]*2.0\n"
                                           "block c(i:%d, j:10): y[i, j] = a[i, j] + 1.0\n"
                                           "block d(i:6, j:10): z[i, j] = a[5 - i, j] + 2.0\n",
                                           rows_of_c, rows_of_c));
}

static void compute_at_leaves_the_whole_to_readers_behind_the_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(two_readers(arena, 6), "compute_at(a, c.i)\n",
                 "  for c.i in 6:\n"
                 "    for a.i in 1:\n"
                 "      for a.j in 10:\n"
                 "        block a(i=c.i, j=a.j)\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n"
                 "  for d.i in 6:\n"
                 "    for d.j in 10:\n"
                 "      block d(i=d.i, j=d.j)\n");
    expect_illegal(two_readers(arena, 5), "compute_at(a, c.i)\n",
                   "d reads a from a, but more of it is read there than the same iteration wrote");
    expect_illegal(two_readers(arena, 6), "compute_at(a, d.i)\n",
                   "c reads a from a, but it would be read before it is written");
}

static void reverse_compute_at_follows_the_producer(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "reverse_compute_at(c, a.i)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "    for c.i in 1:\n"
                 "      for c.j in 10:\n"
                 "        block c(i=a.i, j=c.j)\n");
}

static void reverse_compute_at_wants_the_producer_in_every_iteration(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 1, 10),
                   "split(a.i, 3, -1)\n"
                   "reverse_compute_at(c, a.i.0)\n",
                   "not every iteration of a.i.0 runs a");
}

static void reverse_compute_at_takes_a_tile(void **state) {
    kiln_arena *arena = *state;
    expect_loops(conv_program(arena, &small_conv),
                 "inline(bias)\n"
                 "split(conv.ow, -1, 2)\n"
                 "reorder(conv.ow.0, conv.ic, conv.kh, conv.kw, conv.ow.1)\n"
                 "reverse_compute_at(relu, conv.ow.0)\n",
                 "  for pad.n in 1:\n"
                 "    for pad.c in 2:\n"
                 "      for pad.h in 7:\n"
                 "        for pad.w in 7:\n"
                 "          block pad(n=pad.n, c=pad.c, h=pad.h, w=pad.w)\n"
                 "  for conv.n in 1:\n"
                 "    for conv.oc in 4:\n"
                 "      for conv.oh in 5:\n"
                 "        for conv.ow.0 in 3:\n"
                 "          for conv.ic in 2:\n"
                 "            for conv.kh in 3:\n"
                 "              for conv.kw in 3:\n"
                 "                for conv.ow.1 in 2:\n"
                 "                  block conv(n=conv.n, oc=conv.oc, oh=conv.oh, ow=conv.ow.0*2 + "
                 "conv.ow.1, ic=conv.ic, kh=conv.kh, kw=conv.kw) if conv.ow.0*2 + conv.ow.1 < 5\n"
                 "          for relu.n in 1:\n"
                 "            for relu.c in 1:\n"
                 "              for relu.h in 1:\n"
                 "                for relu.w in 2:\n"
                 "                  block relu(n=0, c=conv.oc, h=conv.oh, w=conv.ow.0*2 + relu.w) "
                 "if conv.ow.0*2 + relu.w < 5\n");
}

static void reverse_compute_at_refuses_what_is_not_complete(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(conv_program(arena, &small_conv), "reverse_compute_at(bias, conv.ic)\n",
                   "bias reads sum from conv, but its reduction is not complete there");
    expect_illegal(
        conv_program(arena, &small_conv), "reverse_compute_at(conv, pad.h)\n",
        "conv reads xp from pad, but more of it is read there than the same iteration wrote");
    expect_illegal(chain_program(arena, 6, 10), "reverse_compute_at(a, c.i)\n",
                   "a reads nothing that is computed in c.i");
    expect_illegal(chain_program(arena, 6, 10), "reverse_compute_at(c, c.i)\n",
                   "c is inside c.i already");
    expect_illegal(conv_program(arena, &small_conv), "reverse_compute_at(bias, pad.h)\n",
                   "bias reads nothing that is computed in pad.h");
}

static void inline_puts_the_value_into_its_readers(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "inline(a)\n",
                 "  for c.i in 6:\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void inline_rewrites_the_expression(void **state) {
    kiln_arena *arena = *state;
    expect_line(chain_program(arena, 6, 10), "inline(a)\n",
                "block c(i:6, j:10): y[i, j] = x[i, j]*2.0 + 1.0");
}

static void inline_refuses_sums_and_outputs(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 4), "inline(matmul)\n", "matmul is a reduction");
    expect_illegal(chain_program(arena, 6, 10), "inline(c)\n", "c writes y, which is an output");
    expect_illegal(conv_program(arena, &small_conv), "inline(conv)\n", "conv is a reduction");
}

static void decompose_reduction_starts_before_the_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 6, 10, 4),
                 "reorder(matmul.m, matmul.k, matmul.n)\n"
                 "decompose_reduction(matmul, matmul.k)\n",
                 "  for matmul.m in 6:\n"
                 "    for matmul.init.n in 10:\n"
                 "      block matmul.init(m=matmul.m, n=matmul.init.n)\n"
                 "    for matmul.k in 4:\n"
                 "      for matmul.n in 10:\n"
                 "        block matmul(m=matmul.m, n=matmul.n, k=matmul.k)\n");
}

static void decompose_reduction_keeps_kinds_and_tails(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 6, 10, 4),
                 "split(matmul.n, -1, 4)\n"
                 "reorder(matmul.n.0, matmul.k, matmul.n.1)\n"
                 "vectorize(matmul.n.1)\n"
                 "decompose_reduction(matmul, matmul.k)\n",
                 "  for matmul.m in 6:\n"
                 "    for matmul.n.0 in 3:\n"
                 "      vectorize matmul.init.n.1 in 4:\n"
                 "        block matmul.init(m=matmul.m, n=matmul.n.0*4 + matmul.init.n.1) if "
                 "matmul.n.0*4 + matmul.init.n.1 < 10\n"
                 "      for matmul.k in 4:\n"
                 "        vectorize matmul.n.1 in 4:\n"
                 "          block matmul(m=matmul.m, n=matmul.n.0*4 + matmul.n.1, k=matmul.k) if "
                 "matmul.n.0*4 + matmul.n.1 < 10\n");
}

static void decompose_reduction_refuses_a_start_inside_the_sum(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "reorder(matmul.k, matmul.m)\n"
                   "decompose_reduction(matmul, matmul.m)\n",
                   "reduce loop matmul.k lies outside matmul.m");
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "decompose_reduction(matmul, matmul.m)\n"
                   "decompose_reduction(matmul, matmul.m)\n",
                   "matmul is no reduction with its initialisation inside");
    expect_illegal(chain_program(arena, 6, 10), "decompose_reduction(a, a.i)\n",
                   "a is no reduction with its initialisation inside");
    expect_illegal(chain_program(arena, 6, 10), "decompose_reduction(a, c.i)\n",
                   "a is no reduction");
    expect_illegal(conv_program(arena, &small_conv), "decompose_reduction(conv, pad.h)\n",
                   "the loop is not around conv");
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "fuse(matmul.n, matmul.k)\n"
                   "decompose_reduction(matmul, matmul.n.f)\n",
                   "matmul.n.f mixes spatial and reduce iterators");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(compute_at_computes_what_is_read_there),
        test_with_arena(compute_at_follows_a_sliding_window),
        test_with_arena(compute_at_cuts_what_lies_outside_the_buffer),
        test_with_arena(compute_at_computes_a_whole_sum),
        test_with_arena(compute_at_refuses_places_without_the_readers),
        test_with_arena(compute_at_leaves_the_whole_to_readers_behind_the_loop),
        test_with_arena(reverse_compute_at_follows_the_producer),
        test_with_arena(reverse_compute_at_wants_the_producer_in_every_iteration),
        test_with_arena(reverse_compute_at_takes_a_tile),
        test_with_arena(reverse_compute_at_refuses_what_is_not_complete),
        test_with_arena(inline_puts_the_value_into_its_readers),
        test_with_arena(inline_rewrites_the_expression),
        test_with_arena(inline_refuses_sums_and_outputs),
        test_with_arena(decompose_reduction_starts_before_the_loop),
        test_with_arena(decompose_reduction_keeps_kinds_and_tails),
        test_with_arena(decompose_reduction_refuses_a_start_inside_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
