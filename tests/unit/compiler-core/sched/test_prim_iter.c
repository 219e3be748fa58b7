/* merge and gather: what they make, and what they refuse. */
#include "tests/unit/compiler-core/sched/support.h"

static const conv_shape two_images = {2, 3, 6, 5, 4, 3, 3, 1, 0, true};

/* Points of images, which are of the data alone, and steps. */
static const char as_product[] = "merge(conv, \"n,oh,ow\")\n"
                                 "merge(conv, \"kh,kw,ic\")\n";

static void iterators_become_one_and_indices_its_digits(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 6, 10, 8), "merge(matmul, \"n,m\")\n",
                 "  for matmul.m.m in 60:\n"
                 "    for matmul.k in 8:\n"
                 "      block matmul(m.m=matmul.m.m, k=matmul.k)\n");
    expect_line(matmul_program(arena, 6, 10, 8), "merge(matmul, \"n,m\")\n",
                "block matmul(m.m:60 | k:8): y[floormod(m.m, 6), floordiv(m.m, 6)] sum= "
                "x[floormod(m.m, 6), k]*w[k, floordiv(m.m, 6)] init 0.0");
}

/* A temp has one dimension then, and its reader counts as the merged iterator does. */
static void so_do_the_dimensions_of_a_temp(void **state) {
    kiln_arena *arena = *state;
    const char *text = "cache_write(matmul, \"global\")\n"
                       "merge(matmul, \"m,n\")\n";
    expect_line(matmul_program(arena, 6, 10, 8), text, "temp y.acc.m: f32[60]");
    expect_line(matmul_program(arena, 6, 10, 8), text,
                "block matmul.write(m:6, n:10): y[m, n] = y.acc.m[m*10 + n]");
    text = "cache_write(matmul, \"global\")\n"
           "merge(matmul, \"m,n\")\n"
           "merge(matmul.write, \"m,n\")\n";
    expect_line(
        matmul_program(arena, 6, 10, 8), text,
        "block matmul.write(n.m:60): y[floordiv(n.m, 10), floormod(n.m, 10)] = y.acc.m[n.m]");
}

static void a_convolution_becomes_a_product(void **state) {
    kiln_arena *arena = *state;
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s%s", as_product, "gather(conv, x, \"global\")\n");
    const char *lines = kiln_strbuf_end(&text, arena).data;
    expect_line(conv_program(arena, &two_images), lines, "temp x.gather: f32[24,27]");
    expect_line(conv_program(arena, &two_images), lines,
                "block x.gather(ow.m:24, ic.m:27): x.gather[ow.m, ic.m] = "
                "x[floordiv(ow.m, 12), floormod(ic.m, 3), floormod(floordiv(ow.m, 3), 4) + "
                "floordiv(ic.m, 9), floormod(ow.m, 3) + floormod(floordiv(ic.m, 3), 3)]");
}

static void what_no_program_allows_is_refused(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 8), "merge(matmul, \"m,j\")\n",
                   "matmul has no iterator j");
    expect_illegal(matmul_program(arena, 6, 10, 8), "merge(matmul, \"m,m\")\n", "m is named twice");
    expect_illegal(matmul_program(arena, 6, 10, 8), "merge(matmul, \"m,k\")\n",
                   "k reduces, or those before it do, and not both");
    expect_illegal(matmul_program(arena, 6, 10, 8), "merge(matmul, \"m\")\n",
                   "merge needs two or more iterators");
    expect_illegal(matmul_program(arena, 6, 10, 8), "merge(matmul, \"\")\n",
                   "merge needs two or more iterators");
    expect_illegal(matmul_program(arena, 6, 10, 8),
                   "split(matmul.m, -1, 2)\nmerge(matmul, \"m,n\")\n",
                   "m no longer has a separate loop");
    expect_illegal(matmul_program(arena, 6, 10, 8),
                   "decompose_reduction(matmul, matmul.k)\nmerge(matmul, \"m,n\")\n",
                   "the reduction of matmul has been decomposed");
    expect_illegal(matmul_program(arena, 6, 10, 8), "gather(matmul, y, \"global\")\n",
                   "matmul does not read y");
    expect_illegal(matmul_program(arena, 6, 10, 8), "gather(matmul, x, \"attic\")\n",
                   "\"attic\" is not a memory scope");
}

static void what_is_not_there_is_not_gathered(void **state) {
    const char *text = "program p\ninput x: f32[4]\noutput y: f32[6]\n"
                       "block b(i:6): y[i] = select(i < 4, x[i], 0.0)\n";
    expect_illegal(parsed(*state, text), "gather(b, x, \"global\")\n", "b may read outside of x");
    text = "program p\ninput x: f32[5]\noutput y: f32[4]\nblock b(i:4): y[i] = x[i] + x[i + 1]\n";
    expect_illegal(parsed(*state, text), "gather(b, x, \"global\")\n",
                   "b reads several elements of x at a time");
    text = "program p\ninput x: i8[1]\noutput y: i8[65536,65536]\n"
           "block b(i:65536, j:65536): y[i, j] = x[0]\n";
    expect_illegal(parsed(*state, text), "merge(b, \"i,j\")\n",
                   "the merged iterator would have no values, or too many");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(iterators_become_one_and_indices_its_digits),
        test_with_arena(so_do_the_dimensions_of_a_temp),
        test_with_arena(a_convolution_becomes_a_product),
        test_with_arena(what_no_program_allows_is_refused),
        test_with_arena(what_is_not_there_is_not_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
