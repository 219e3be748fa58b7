/* Primitives on buffers: what they make, and what they refuse. */
#include "tests/unit/compiler-core/sched/support.h"

static void cache_read_copies_before_the_reader(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "cache_read(c, t, \"global\")\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for t.read.d0 in 6:\n"
                 "    for t.read.d1 in 10:\n"
                 "      block t.read(d0=t.read.d0, d1=t.read.d1)\n"
                 "  for c.i in 6:\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void cache_read_redirects_the_reader(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4), "cache_read(matmul, w, \"global\")\n",
                "block matmul(m:6, n:10 | k:4): y[m, n] sum= x[m, k]*w.read[k, n] init 0.0");
}

static void cache_read_refuses_what_is_not_read(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "cache_read(c, x, \"global\")\n",
                   "c does not read x");
    expect_illegal(chain_program(arena, 6, 10), "cache_read(c, t, \"heap\")\n",
                   "\"heap\" is not a memory scope");
    expect_illegal(chain_program(arena, 6, 10),
                   "compute_at(a, c.i)\n"
                   "cache_read(c, t, \"global\")\n",
                   "it would be read before it is written");
}

static void cache_write_copies_after_the_writer(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "cache_write(c, \"register\")\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 10:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6:\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n"
                 "  for c.write.i in 6:\n"
                 "    for c.write.j in 10:\n"
                 "      block c.write(i=c.write.i, j=c.write.j)\n");
}

static void cache_write_redirects_the_writer(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4), "cache_write(matmul, \"register\")\n",
                "block matmul(m:6, n:10 | k:4): y.acc[m, n] sum= x[m, k]*w[k, n] init 0.0");
}

static void cache_write_refuses_initialisers(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 4),
                   "decompose_reduction(matmul, matmul.m)\n"
                   "cache_write(matmul.init, \"global\")\n",
                   "matmul.init initialises a reduction");
    expect_illegal(chain_program(arena, 6, 10), "cache_write(c, \"disk\")\n",
                   "\"disk\" is not a memory scope");
    expect_illegal(chain_program(arena, 6, 10),
                   "reverse_compute_at(c, a.i)\n"
                   "cache_write(a, \"global\")\n",
                   "it would be read before it is written");
}

static void set_scope_moves_a_temp(void **state) {
    kiln_arena *arena = *state;
    expect_line(chain_program(arena, 6, 10), "set_scope(t, \"register\")\n",
                "temp t: f32[6,10] scope(register)");
}

static void set_scope_refuses_arguments(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "set_scope(x, \"register\")\n",
                   "x is an argument; arguments are global");
}

static void transform_layout_fills_in_the_sizes(void **state) {
    kiln_arena *arena = *state;
    expect_line(chain_program(arena, 6, 10), "transform_layout(x, \"d0/{0},d1,d0%{0}\", 2)\n",
                "input x: f32[6,10] layout(d0/2,d1,d0%2)");
}

static void transform_layout_may_pad_a_temp(void **state) {
    kiln_arena *arena = *state;
    expect_line(chain_program(arena, 6, 10), "transform_layout(t, \"d0,d1/{0},d1%{0}\", 4)\n",
                "temp t: f32[6,10] layout(d0,d1/4,d1%4)");
}

/* Whole tiles are copied, so what pads them is nobody's. */
static void transform_layout_may_pad_what_a_core_copies(void **state) {
    expect_line(chain_program(*state, 6, 10),
                "cache_read(a, x, \"inp\")\ntransform_layout(x, \"d0,d1/4,d1%4\")\n",
                "input x: f32[6,10] layout(d0,d1/4,d1%4)");
}

static void transform_layout_refuses_padded_arguments_and_constants(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "transform_layout(x, \"d0,d1/4,d1%4\")\n",
                   "x is an argument and this layout would pad it");
    expect_illegal(matmul_program(arena, 6, 10, 4), "transform_layout(w, \"d1,d0\")\n",
                   "w is a constant; a copy made by cache_read can have a layout");
    expect_illegal(chain_program(arena, 6, 10), "transform_layout(t, \"d0,d2\")\n",
                   "t cannot have this layout");
    expect_illegal(chain_program(arena, 6, 10), "transform_layout(t, \"d0,d1/{1},d1%{1}\", 2)\n",
                   "names an integer that is not given");
    expect_illegal(chain_program(arena, 6, 10), "transform_layout(t, \"d0,d1+1\")\n",
                   "a layout has no pitch and no XOR; swizzle gives them to t");
}

static void pipeline_marks_loops_that_fetch(void **state) {
    expect_line(chain_program(*state, 8, 16), "compute_at(a, c.i)\npipeline(c.i, 2)\n",
                "  for c.i in 8 @pipeline(\"2\"):");
    expect_line(chain_program(*state, 8, 16),
                "compute_at(a, c.i)\npipeline(c.i, 2)\nproducer(c.i, 1)\n",
                "  for c.i in 8 @pipeline(\"2\") @producer(load):");
    expect_line(chain_program(*state, 8, 16),
                "compute_at(a, c.i)\npipeline(c.i, 2)\nproducer(c.i, 2)\n",
                "  for c.i in 8 @pipeline(\"2\") @producer(load) @box(load):");
    expect_line(chain_program(*state, 8, 16), "compute_at(a, c.i)\npipeline(c.i, 1)\n",
                "  for c.i in 8:");
    static const char *const row[][2] = {
        {"pipeline(c.i, 2)\n", "nothing inside c.i copies into memory"},
        {"compute_at(a, c.i)\npipeline(c.i, 9)\n", "9 stages; a pipeline has 1 to 8"},
        {"compute_at(a, c.i)\npipeline(c.i, 0)\n", "0 stages"},
        {"compute_at(a, c.i)\nparallel(c.i)\npipeline(c.i, 2)\n",
         "the iterations of c.i do not follow one another"},
        {"compute_at(a, c.i)\npipeline(c.i, 2)\npipeline(c.i, 2)\n", "c.i is a pipeline already"},
        {"annotate(c.i, \"pipeline=2\")\n", "stages of c.i are set by pipeline"},
        {"annotate(c.i, \"producer=load\")\n", "stages of c.i are set by pipeline"},
        {"annotate(c.i, \"box=load\")\n", "stages of c.i are set by pipeline"},
        {"producer(c.i, 1)\n", "c.i is no pipeline"},
        {"compute_at(a, c.i)\npipeline(c.i, 2)\nproducer(c.i, 3)\n", "3 is not 0, 1 or 2"},
        {"compute_at(a, c.i)\npipeline(c.i, 2)\nproducer(c.i, 1)\nproducer(c.i, 1)\n",
         "c.i has a producer already"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_illegal(chain_program(*state, 8, 16), row[i][0], row[i][1]);
}

static void resident_marks_grid_loops(void **state) {
    expect_line(chain_program(*state, 8, 16), "bind(c.i, \"block.x\")\nresident(c.i, 2)\n",
                "  bind(block.x) c.i in 8 @resident(\"2\"):");
    expect_line(chain_program(*state, 8, 16), "bind(c.i, \"block.x\")\nresident(c.i, 0)\n",
                "  bind(block.x) c.i in 8:");
    static const char *const row[][2] = {
        {"resident(c.i, 2)\n", "c.i does not run over the groups of a launch"},
        {"bind(c.i, \"thread.x\")\nresident(c.i, 2)\n", "c.i does not run over the groups"},
        {"bind(c.i, \"block.x\")\nresident(c.i, 9)\n", "9 groups on a unit"},
        {"bind(c.i, \"block.x\")\nresident(c.i, 1)\nresident(c.i, 1)\n", "c.i has its number"},
        {"annotate(c.i, \"resident=2\")\n", "groups of c.i on a unit are given by resident"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_illegal(chain_program(*state, 8, 16), row[i][0], row[i][1]);
}

static void swizzle_lengthens_rows_and_moves_units(void **state) {
    static const char *const row[][2] = {
        {"swizzle(t, 4, 1, 1, 1)\n", "temp t: f32[8,16] layout(d0,d1+4) scope(shared)"},
        {"swizzle(t, 0, 4, 8, 1)\n", "temp t: f32[8,16] layout(d0,d1/4^d0%8,d1%4) scope(shared)"},
        {"swizzle(t, 0, 4, 4, 2)\n", "temp t: f32[8,16] layout(d0,d1/4^d0/2%4,d1%4) scope(shared)"},
        {"swizzle(t, 1, 1, 2, 1)\n", "temp t: f32[8,16] layout(d0,d1^d0%2+1) scope(shared)"},
        {"swizzle(t, 0, 4, 1, 1)\n", "temp t: f32[8,16] scope(shared)"},
        {"transform_layout(t, \"d1,d0\")\nswizzle(t, 4, 2, 2, 1)\n",
         "temp t: f32[8,16] layout(d1,d0/2^d1%2,d0%2+4) scope(shared)"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_line(chain_program(*state, 8, 16),
                    kiln_arena_printf(*state, "set_scope(t, \"shared\")\n%s", row[i][0]),
                    row[i][1]);
}

static void swizzle_refuses_what_has_no_banks_and_what_is_no_swizzle(void **state) {
    static const char *const row[][2] = {
        {"swizzle(t, 4, 1, 1, 1)\n", "t is no temp in the memory of a group"},
        {"swizzle(x, 4, 1, 1, 1)\n", "x is no temp in the memory of a group"},
        {"set_scope(t, \"shared\")\nswizzle(t, -1, 1, 1, 1)\n", "a pitch of -1; it is 0 to 1024"},
        {"set_scope(t, \"shared\")\nswizzle(t, 0, 4, 3, 1)\n", "3 ways; they are a power of two"},
        {"set_scope(t, \"shared\")\nswizzle(t, 0, 0, 2, 1)\n", "units of 0 elements"},
        {"set_scope(t, \"shared\")\nswizzle(t, 0, 1, 2, 0)\n", "every 0 rows"},
        {"set_scope(t, \"shared\")\nswizzle(t, 4, 1, 1, 1)\nswizzle(t, 4, 1, 1, 1)\n",
         "t is swizzled already"},
        {"set_scope(t, \"shared\")\ntransform_layout(t, \"d0,d1/4,d1%4\")\n"
         "swizzle(t, 0, 2, 2, 1)\n",
         "the two innermost dimensions in memory are no whole ones"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_illegal(chain_program(*state, 8, 16), row[i][0], row[i][1]);
}

static void pad_lengthens_the_loop(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 6, 10), "pad(a, \"j\", 4)\n",
                 "  for a.i in 6:\n"
                 "    for a.j in 12:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 6:\n"
                 "    for c.j in 10:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void pad_gives_zero_beyond_the_end(void **state) {
    kiln_arena *arena = *state;
    expect_line(chain_program(arena, 6, 10), "pad(a, \"j\", 4)\n",
                "block a(i:6, j:12): t[i, j] = select(j < 10, x[i, j], 0.0)*2.0");
}

static void pad_reads_a_padded_copy_without_a_guard(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 4),
                "cache_read(matmul, w, \"global\")\n"
                "pad(w.read, \"d1\", 8)\n"
                "cache_write(matmul, \"global\")\n"
                "pad(matmul, \"n\", 8)\n",
                "block matmul(m:6, n:16 | k:4): y.acc[m, n] sum= x[m, k]*w.read[k, n] init 0.0");
}

static void pad_adds_zeros_of_copies(void **state) {
    kiln_arena *arena = *state;
    static const char copies[] = "cache_read(matmul, x, \"global\")\npad(x.read, \"d1\", 8)\n"
                                 "cache_read(matmul, w, \"global\")\npad(w.read, \"d0\", 8)\n"
                                 "cache_write(matmul, \"global\")\n";
    expect_line(matmul_program(arena, 6, 10, 6),
                kiln_arena_printf(arena, "%spad(matmul, \"k\", 8)\n", copies),
                "block matmul(m:6, n:10 | k:8): y.acc[m, n] sum= x.read[m, k]*w.read[k, n] init "
                "0.0");
    expect_illegal(matmul_program(arena, 6, 10, 6),
                   kiln_arena_printf(arena, "%spad(matmul, \"k\", 16)\n", copies),
                   "matmul would add more"); /* than the copies have */
}

static void pad_refuses_outputs_sums_and_split_loops(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 6, 10), "pad(a, \"k\", 4)\n", "a has no iterator k");
    expect_illegal(chain_program(arena, 6, 10), "pad(c, \"j\", 4)\n",
                   "c writes y, which is an output");
    expect_illegal(matmul_program(arena, 6, 10, 6), "pad(matmul, \"k\", 4)\n",
                   "matmul would add more than products of a padding's zeros along k");
    expect_illegal(matmul_program(arena, 6, 10, 6),
                   "cache_read(matmul, x, \"global\")\npad(x.read, \"d1\", 8)\n"
                   "pad(matmul, \"k\", 8)\n",
                   "matmul would add more"); /* zero times what the other factor has */
    expect_illegal(chain_program(arena, 6, 10),
                   "split(a.j, -1, 2)\n"
                   "pad(a, \"j\", 4)\n",
                   "j no longer has a separate loop");
    expect_illegal(chain_program(arena, 6, 10), "pad(a, \"j\", 0)\n",
                   "0 is not a multiple to pad to");
    expect_illegal(chain_program(arena, 6, 10),
                   "transform_layout(t, \"d1,d0\")\n"
                   "pad(a, \"j\", 4)\n",
                   "t has a layout already; pad first");
    expect_illegal(chain_program(arena, 6, 10),
                   "reverse_compute_at(c, a.j)\n"
                   "pad(a, \"j\", 4)\n",
                   "other blocks share loop a.j");
}

static void prefetch_marks_the_loop(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = matmul_program(arena, 6, 10, 4);
    expect_line(te, "prefetch(w, matmul.k, 1)\n", "      for matmul.k in 4 @prefetch(w):");
    expect_line(te, "prefetch(w, matmul.k, 0)\n", "      for matmul.k in 4:");
}

static void prefetch_refuses_what_the_loop_does_not_stream(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = matmul_program(arena, 6, 10, 4);
    expect_illegal(te, "prefetch(y, matmul.k, 1)\n", "nothing inside matmul.k reads y");
    expect_illegal(te, "prefetch(w, matmul.k, 2)\n", "2 is neither 0 nor 1");
    expect_illegal(te,
                   "unroll(matmul.k)\n"
                   "prefetch(w, matmul.k, 1)\n",
                   "the iterations of matmul.k do not follow one another");
    expect_illegal(chain_program(arena, 6, 10),
                   "set_scope(t, \"register\")\n"
                   "prefetch(t, c.i, 1)\n",
                   "t is not in memory");
}

/* 2^62 elements of 4 bytes are 0 bytes to a product that wraps. */
static void sizes_beyond_memory_are_refused(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(chain_program(arena, 4, 6),
                   "transform_layout(t, \"d0/{0},d1/{0},d0%{0},d1%{0}\", 2147483648)\n",
                   "t would be too large");
    kiln_program *te =
        parsed(arena, "program p\ninput x: f32[2,2,2,2]\ntemp t: f32[2,2,2,2]\n"
                      "output y: f32[2,2,2,2]\n"
                      "block a(i:2, j:2, k:2, l:2): t[i, j, k, l] = x[i, j, k, l]\n"
                      "block c(i:2, j:2, k:2, l:2): y[i, j, k, l] = t[i, j, k, l]\n");
    expect_illegal(te,
                   "pad(a, \"i\", 1048576)\npad(a, \"j\", 1048576)\npad(a, \"k\", 1048576)\n"
                   "pad(a, \"l\", 4)\n",
                   "t would be too large");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(prefetch_marks_the_loop),
        test_with_arena(prefetch_refuses_what_the_loop_does_not_stream),
        test_with_arena(cache_read_copies_before_the_reader),
        test_with_arena(cache_read_redirects_the_reader),
        test_with_arena(cache_read_refuses_what_is_not_read),
        test_with_arena(cache_write_copies_after_the_writer),
        test_with_arena(cache_write_redirects_the_writer),
        test_with_arena(cache_write_refuses_initialisers),
        test_with_arena(set_scope_moves_a_temp),
        test_with_arena(set_scope_refuses_arguments),
        test_with_arena(transform_layout_fills_in_the_sizes),
        test_with_arena(transform_layout_may_pad_a_temp),
        test_with_arena(transform_layout_may_pad_what_a_core_copies),
        test_with_arena(transform_layout_refuses_padded_arguments_and_constants),
        test_with_arena(pipeline_marks_loops_that_fetch),
        test_with_arena(resident_marks_grid_loops),
        test_with_arena(swizzle_lengthens_rows_and_moves_units),
        test_with_arena(swizzle_refuses_what_has_no_banks_and_what_is_no_swizzle),
        test_with_arena(pad_lengthens_the_loop),
        test_with_arena(pad_gives_zero_beyond_the_end),
        test_with_arena(pad_reads_a_padded_copy_without_a_guard),
        test_with_arena(pad_adds_zeros_of_copies),
        test_with_arena(pad_refuses_outputs_sums_and_split_loops),
        test_with_arena(sizes_beyond_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
