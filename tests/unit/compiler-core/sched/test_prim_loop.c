/* Primitives on loops: what they make, and what they refuse. */
#include <string.h>

#include "compiler-core/sched/prim.h"
#include "tests/unit/compiler-core/sched/support.h"

static void split_makes_tiles_and_cuts_the_tail(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "split(c.j, -1, 4)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6:\n"
                 "    for c.j.0 in 3:\n"
                 "      for c.j.1 in 4:\n"
                 "        block c(i=c.i, j=c.j.0*4 + c.j.1) if c.j.0*4 + c.j.1 < 10\n");
}

static void split_that_divides_needs_no_predicate(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "split(c.i, 2, 3)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i.0 in 2:\n"
                 "    for c.i.1 in 3:\n"
                 "      for c.j in 10:\n"
                 "        block c(i=c.i.0*3 + c.i.1, j=c.j)\n");
}

static void split_refuses_factors_that_do_not_cover(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "split(c.j, 2, 4)\n",
                   "the factors of c.j make 8 iterations of its 10");
    expect_illegal(chain_program(arena, 6, 10), "split(c.j, 0, 4)\n",
                   "factor 0 of c.j is not a positive extent");
    expect_illegal(chain_program(arena, 6, 10), "split(c.j, -1, -1)\n",
                   "factor -1 of c.j is not a positive extent");
    expect_illegal(chain_program(arena, 6, 10), "split(c.j, 10)\n",
                   "split of c.j needs two or more factors");
    expect_illegal(chain_program(arena, 6, 10),
                   "vectorize(c.j)\n"
                   "split(c.j, -1, 2)\n",
                   "loop c.j is already vectorized");
}

static void fuse_makes_one_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "fuse(c.i, c.j)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i.f in 60:\n"
                 "    block c(i=floordiv(c.i.f, 10), j=floormod(c.i.f, 10))\n");
}

/* The simplifier recombines quotient and remainder. */
static void divide_makes_two_iterators_of_one(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "divide(c, \"i\", 2)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i.0 in 3:\n"
                 "    for c.i.1 in 2:\n"
                 "      for c.j in 10:\n"
                 "        block c(i.0=c.i.0, i.1=c.i.1, j=c.j)\n");
    expect_line(chain_program(arena, 6, 10), "divide(c, \"i\", 2)\n",
                "block c(i.0:3, i.1:2, j:10): y[i.0*2 + i.1, j] = t[i.0*2 + i.1, j] + 1.0");
}

static void divide_keeps_a_reduction_one(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4), "divide(matmul, \"k\", 2)\n",
                "block matmul(m:6, n:10 | k.0:2, k.1:2): y[m, n] sum= x[m, k.0*2 + k.1]*w[k.0*2 + "
                "k.1, n] init 0.0");
}

static void divide_refuses_what_has_no_two_parts(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "divide(c, \"i\", 4)\n", "4 does not divide i");
    expect_illegal(chain_program(arena, 6, 10), "divide(c, \"k\", 2)\n", "c has no iterator k");
    expect_illegal(chain_program(arena, 6, 10),
                   "split(c.i, -1, 2)\n"
                   "divide(c, \"i\", 2)\n",
                   "i no longer has a separate loop");
}

static void fuse_after_split_goes_back(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10),
                 "split(c.j, 5, 2)\n"
                 "fuse(c.j.0, c.j.1)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6:\n"
                 "    for c.j.0.f in 10:\n"
                 "      block c(i=c.i, j=c.j.0.f)\n");
}

static void fuse_refuses_loops_that_are_not_nested(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "fuse(c.j, c.i)\n",
                   "c.i is not the only thing directly inside c.j");
    expect_illegal(chain_program(arena, 6, 10), "fuse(a.i, c.i)\n",
                   "c.i is not the only thing directly inside a.i");
    expect_illegal(chain_program(arena, 6, 10), "fuse(c.i)\n", "fuse needs two or more loops");
    expect_illegal(chain_program(arena, 6, 10),
                   "compute_at(a, c.i)\n"
                   "fuse(c.i, c.j)\n",
                   "c.j is not the only thing directly inside c.i");
    expect_illegal(chain_program(arena, 6, 10),
                   "parallel(c.i)\n"
                   "fuse(c.i, c.j)\n",
                   "loop c.i is already parallel");
}

/* The loop between the two keeps its place. */
static void reorder_changes_the_order(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 6, 10, 4), "reorder(matmul.k, matmul.m)\n",
                 "  for matmul.k in 4:\n"
                 "    for matmul.n in 10:\n"
                 "      for matmul.m in 6:\n"
                 "        block matmul(m=matmul.m, n=matmul.n, k=matmul.k)\n");
}

static void reorder_refuses_what_is_no_perfect_nest(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "reorder(a.i, c.i)\n",
                   "do not form one perfect nest");
    expect_illegal(chain_program(arena, 6, 10), "reorder(c.i, c.i)\n", "loop c.i is named twice");
    expect_illegal(chain_program(arena, 6, 10),
                   "compute_at(a, c.i)\n"
                   "reorder(c.j, c.i)\n",
                   "do not form one perfect nest");
    expect_illegal(chain_program(arena, 6, 10),
                   "vectorize(c.j)\n"
                   "reorder(c.j, c.i)\n",
                   "vectorized loop c.j would not be innermost");
}

static void reorder_refuses_to_move_the_start_of_a_sum(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "fuse(matmul.n, matmul.k)\n"
                   "reorder(matmul.n.f, matmul.m)\n",
                   "matmul.n.f mixes spatial and reduce iterators of matmul");
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "fuse(matmul.n, matmul.k)\n"
                   "split(matmul.n.f, -1, 3)\n"
                   "reorder(matmul.n.f.1, matmul.n.f.0)\n",
                   "matmul.n.f.1 mixes spatial and reduce iterators of matmul");
}

/* Every order of `count` loops named in `loop` after `before`: counts those that apply, which must
 * compute the same, and those that are refused. */
static void try_orders(kiln_program *te, const char *before, const char *const *loop,
                       uint32_t count, uint32_t *applied, uint32_t *refused) {
    uint32_t orders = 1;
    for (uint32_t i = 2; i <= count; i++) orders *= i;
    for (uint32_t order = 0; order < orders; order++) {
        const char *left[4] = {0};
        memcpy(left, loop, count * sizeof *loop);
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text, "%sreorder(", before);
        for (uint32_t i = count, digits = order; i > 0; digits /= i--) {
            uint32_t pick = digits % i;
            kiln_strbuf_printf(&text, "%s%s", left[pick], i > 1 ? ", " : ")\n");
            left[pick] = left[i - 1];
        }
        kiln_trace trace;
        kiln_program *p = NULL;
        assert_null(kiln_trace_parse(kiln_strbuf_view(&text), te->arena, &trace));
        kiln_status st = kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL);
        if (!st) {
            st = same_result(te, p, te->arena);
            if (st) fail_msg("%s\n%s", kiln_status_text(st), text.data);
            ++*applied;
        } else {
            assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
            kiln_status_free(st);
            ++*refused;
        }
        kiln_strbuf_deinit(&text);
    }
}

/* Loops fused from spatial and reduce iterators, in either order, and split at every factor. */
static void no_order_updates_a_sum_before_its_start(void **state) {
    static const char *const fused[][4] = {
        {"matmul.m", "", "fuse(matmul.n, matmul.k)\n", "matmul.n.f"},
        {"matmul.n", "reorder(matmul.n, matmul.m, matmul.k)\n", "fuse(matmul.m, matmul.k)\n",
         "matmul.m.f"},
        {"matmul.m", "reorder(matmul.m, matmul.k, matmul.n)\n", "fuse(matmul.k, matmul.n)\n",
         "matmul.k.f"},
        {"matmul.k", "", "fuse(matmul.m, matmul.n)\n", "matmul.m.f"},
    };
    uint32_t applied = 0, refused = 0;
    for (size_t i = 0; i < sizeof fused / sizeof fused[0]; i++)
        for (uint32_t factor = 2; factor <= 13; factor++) {
            kiln_program *te = matmul_program(*state, 3, 4, 3);
            const char *name = fused[i][3];
            char *before = kiln_arena_printf(te->arena, "%s%ssplit(%s, -1, %u)\n", fused[i][1],
                                             fused[i][2], name, factor);
            const char *loop[3] = {fused[i][0], kiln_arena_printf(te->arena, "%s.0", name),
                                   kiln_arena_printf(te->arena, "%s.1", name)};
            try_orders(te, before, loop, 3, &applied, &refused);
        }
    assert_true(applied > 50 && refused > 50);
}

static void vectorize_takes_an_innermost_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10),
                 "split(c.j, -1, 4)\n"
                 "vectorize(c.j.1)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6:\n"
                 "    for c.j.0 in 3:\n"
                 "      vectorize c.j.1 in 4:\n"
                 "        block c(i=c.i, j=c.j.0*4 + c.j.1) if c.j.0*4 + c.j.1 < 10\n");
}

static void vectorize_refuses_what_lanes_cannot_do(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "vectorize(c.i)\n", "c.i is not innermost");
    expect_illegal(chain_program(arena, 6, 10),
                   "split(c.i, -1, 100)\n"
                   "reorder(c.i.0, c.j, c.i.1)\n"
                   "vectorize(c.i.1)\n",
                   "c.i.1 has 100 iterations; a vector has at most 64 lanes");
    expect_illegal(
        matmul_program(arena, 6, 10, 4), "vectorize(matmul.k)\n",
        "iterations of matmul.k add to the same elements of y (reduce iterator k of matmul)");
    expect_illegal(chain_program(arena, 6, 10),
                   "vectorize(c.j)\n"
                   "vectorize(c.j)\n",
                   "loop c.j is already vectorized");
}

static void vectorize_combines_the_lanes_of_a_reduction(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 2, 3, 4),
                 "decompose_reduction(matmul, matmul.k)\n"
                 "vectorize(matmul.k)\n",
                 "  for matmul.m in 2:\n"
                 "    for matmul.n in 3:\n"
                 "      block matmul.init(m=matmul.m, n=matmul.n)\n"
                 "      vectorize matmul.k in 4:\n"
                 "        block matmul(m=matmul.m, n=matmul.n, k=matmul.k)\n");
    const char reason[] = "iterations of matmul.k add to the same elements of y";
    expect_illegal(matmul_program(arena, 2, 3, 4), "vectorize(matmul.k)\n", reason);
    expect_illegal(matmul_program(arena, 2, 3, 6), /* halves of 6 lanes have no halves */
                   "decompose_reduction(matmul, matmul.k)\n"
                   "vectorize(matmul.k)\n",
                   reason);
    expect_illegal(matmul_program(arena, 2, 3, 4), /* two elements */
                   "decompose_reduction(matmul, matmul.n)\n"
                   "reorder(matmul.k, matmul.n)\n"
                   "fuse(matmul.k, matmul.n)\n"
                   "split(matmul.k.f, -1, 4)\n"
                   "vectorize(matmul.k.f.1)\n",
                   "add to the same elements of y");
}

static void unroll_marks_the_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "unroll(c.i)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  unroll c.i in 6:\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void unroll_refuses_long_loops(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10),
                   "split(c.i, -1, 300)\n"
                   "unroll(c.i.1)\n",
                   "c.i.1 has 300 iterations; at most 256 are unrolled");
}

/* The pieces of a fused loop still tell which element they write. */
static void parallel_marks_the_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10),
                 "fuse(c.i, c.j)\n"
                 "split(c.i.f, -1, 7)\n"
                 "parallel(c.i.f.0)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  parallel c.i.f.0 in 9:\n"
                 "    for c.i.f.1 in 7:\n"
                 "      block c(i=floordiv(c.i.f.0*7 + c.i.f.1, 10), j=floormod(c.i.f.0*7 + "
                 "c.i.f.1, 10)) if c.i.f.0*7 + c.i.f.1 < 60\n");
}

static void parallel_refuses_races_and_nesting(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10),
                   "parallel(c.i)\n"
                   "parallel(c.j)\n",
                   "c.j lies inside parallel loop c.i");
    expect_illegal(chain_program(arena, 6, 10),
                   "parallel(c.j)\n"
                   "parallel(c.i)\n",
                   "parallel loop c.j lies inside c.i");
    expect_illegal(matmul_program(arena, 6, 10, 4), "parallel(matmul.k)\n",
                   "iterations of matmul.k add to the same elements of y");
}

static void bind_puts_loops_on_axes(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10),
                 "compute_at(a, c.i)\n"
                 "bind(c.i, \"block.y\")\n"
                 "bind(c.j, \"thread.x\")\n"
                 "split(a.j, 2, 5)\n"
                 "bind(a.j.1, \"thread.x\")\n",
                 "  bind(block.y) c.i in 6:\n"
                 "    for a.i in 1:\n"
                 "      for a.j.0 in 2:\n"
                 "        bind(thread.x) a.j.1 in 5:\n"
                 "          block a(i=c.i, j=a.j.0*5 + a.j.1)\n"
                 "    bind(thread.x) c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
    expect_line(matmul_program(arena, 6, 16, 4),
                "split(matmul.n, 4, 4)\nbind(matmul.m, \"block.x\")\n"
                "bind(matmul.n.0, \"cluster\")\n",
                "    bind(cluster) matmul.n.0 in 4:");
}

static void vthread_marks_loops_and_refuses_races(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4), "vthread(matmul.n)\n",
                "    vthread matmul.n in 10:");
    expect_line(matmul_program(arena, 6, 10, 4),
                "vthread(matmul.n)\ndecompose_reduction(matmul, matmul.n)\n",
                "    vthread matmul.init.n in 10:");
    static const struct {
        const char *trace, *why;
    } row[] = {
        {"vthread(matmul.k)\n", "iterations of matmul.k add to the same elements of y"},
        {"vthread(matmul.m)\nvthread(matmul.m)\n", "loop matmul.m is already a virtual thread"},
        {"bind(matmul.m, \"thread.y\")\nvthread(matmul.n)\nbind(matmul.k, \"thread.x\")\n",
         "iterations of matmul.k add to the same elements of y"},
        {"vthread(matmul.m)\nbind(matmul.n, \"block.x\")\n", "is not directly inside grid loops"},
        {"split(matmul.n, 1, 17)\nvthread(matmul.n.1)\n",
         "matmul.n.1 has 17 iterations; a thread has at most 16 virtual threads"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_illegal(matmul_program(arena, 6, 10, 4), row[i].trace, row[i].why);
}

static void initialisations_are_bound_as_their_reductions(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4),
                "bind(matmul.m, \"block.x\")\n"
                "bind(matmul.n, \"thread.x\")\n"
                "decompose_reduction(matmul, matmul.n)\n",
                "    bind(thread.x) matmul.init.n in 10:");
}

static void bind_refuses_races_and_places_that_cannot_be(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *trace, *why;
    } row[] = {
        {"bind(matmul.k, \"thread.x\")\n", "iterations of matmul.k add to the same elements of y"},
        {"bind(matmul.n, \"warp\")\n", "\"warp\" is no axis"},
        {"bind(matmul.n, \"block.x\")\n", "is not directly inside grid loops"},
        {"bind(matmul.m, \"block.x\")\nbind(matmul.n, \"block.x\")\n", "another loop over block.x"},
        {"bind(matmul.m, \"thread.x\")\nsplit(matmul.m, 2, 3)\n", "already bound to an axis"},
        {"bind(matmul.m, \"thread.y\")\nsplit(matmul.n, 2, 5)\nbind(matmul.n.1, \"thread.x\")\n",
         "loop matmul.n.1 is not directly inside matmul.m"},
        {"bind(matmul.m, \"thread.z\")\nparallel(matmul.n)\n",
         "parallel loop matmul.n is inside a bound loop"},
        {"bind(matmul.m, \"block.y\")\nreorder(matmul.n, matmul.m)\n",
         "is not directly inside grid loops"},
        {"bind(matmul.m, \"block.x\")\nbind(matmul.n, \"cluster\")\n",
         "cluster starts at 0 and takes 8"},
        {"bind(matmul.m, \"cluster\")\n", "has 6 groups; a cluster has a power of two"},
        {"split(matmul.m, 2, 3)\nbind(matmul.m.0, \"cluster\")\nbind(matmul.m.1, \"block.x\")\n",
         "is inside matmul.m.0, which runs over the groups of a cluster"},
        {"bind(matmul.k, \"cluster\")\n", "iterations of matmul.k add to the same elements of y"},
        {"split(matmul.n, 2, 1000)\nbind(matmul.n.1, \"thread.z\")\n", "thread.z starts at 0"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_illegal(matmul_program(arena, 6, 10, 4), row[i].trace, row[i].why);
    /* A consumer moved between grid loops would run in each of the inner one's groups. */
    expect_illegal(chain_program(arena, 6, 10),
                   "bind(c.i, \"block.y\")\n"
                   "bind(c.j, \"block.x\")\n"
                   "compute_at(a, c.i)\n",
                   "loop c.j is not directly inside c.i");
    expect_illegal(chain_program(arena, 6, 10),
                   "bind(c.i, \"thread.y\")\n"
                   "bind(c.j, \"thread.x\")\n"
                   "compute_at(a, c.i)\n",
                   "loop c.j is not directly inside c.i");
}

/* Names of loops that were made and taken back are free again. */
static void a_refused_primitive_leaves_no_names(void **state) {
    kiln_program *p = kiln_program_copy(chain_program(*state, 6, 10), *state);
    kiln_program_make_loops(p);
    kiln_prim_args bind = {.loop = {kiln_program_find_loop(p, KILN_STR("c.i"))},
                           .loop_count = 1,
                           .text = KILN_STR("block.y")};
    kiln_prim_args at = {.block = kiln_program_find_block(p, KILN_STR("a")),
                         .loop = {bind.loop[0]},
                         .loop_count = 1};
    expect_ok(kiln_prim_apply(p, KILN_PRIM_BIND, &bind));
    bind.loop[0] = kiln_program_find_loop(p, KILN_STR("c.j"));
    bind.text = KILN_STR("block.x");
    expect_ok(kiln_prim_apply(p, KILN_PRIM_BIND, &bind));
    expect_error(kiln_prim_apply(p, KILN_PRIM_COMPUTE_AT, &at), ILLEGAL_SCHEDULE, "c.j");
    for (uint32_t i = 0; i < p->var_slot.count; i++)
        assert_true(p->var_slot.data[i] < p->var.count);
    kiln_var made = kiln_var_create(p, KILN_STR("a.i"), 0, 1);
    expect_str(p->var.data[made].name, "a.i'2"); /* a.i is a loop still */
}

static void annotate_keeps_the_text(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "annotate(c.i, \"prefetch=2\")\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6 @\"prefetch=2\":\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void annotate_refuses_what_is_no_pair(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "annotate(c.i, \"fast\")\n",
                   "annotation \"fast\" of c.i is not key=value");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(split_makes_tiles_and_cuts_the_tail),
        test_with_arena(split_that_divides_needs_no_predicate),
        test_with_arena(split_refuses_factors_that_do_not_cover),
        test_with_arena(fuse_makes_one_loop),
        test_with_arena(divide_makes_two_iterators_of_one),
        test_with_arena(divide_keeps_a_reduction_one),
        test_with_arena(divide_refuses_what_has_no_two_parts),
        test_with_arena(fuse_after_split_goes_back),
        test_with_arena(fuse_refuses_loops_that_are_not_nested),
        test_with_arena(reorder_changes_the_order),
        test_with_arena(reorder_refuses_what_is_no_perfect_nest),
        test_with_arena(reorder_refuses_to_move_the_start_of_a_sum),
        test_with_arena(no_order_updates_a_sum_before_its_start),
        test_with_arena(vectorize_takes_an_innermost_loop),
        test_with_arena(vectorize_refuses_what_lanes_cannot_do),
        test_with_arena(vectorize_combines_the_lanes_of_a_reduction),
        test_with_arena(unroll_marks_the_loop),
        test_with_arena(unroll_refuses_long_loops),
        test_with_arena(parallel_marks_the_loop),
        test_with_arena(parallel_refuses_races_and_nesting),
        test_with_arena(a_refused_primitive_leaves_no_names),
        test_with_arena(bind_puts_loops_on_axes),
        test_with_arena(vthread_marks_loops_and_refuses_races),
        test_with_arena(initialisations_are_bound_as_their_reductions),
        test_with_arena(bind_refuses_races_and_places_that_cannot_be),
        test_with_arena(annotate_keeps_the_text),
        test_with_arena(annotate_refuses_what_is_no_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
