/* unit_product: what it makes, and what it refuses. */
#include "tests/unit/compiler-core/sched/support.h"

#define BYTES                                              \
    "program p\ninput x: i8[2,6,3]\ninput s: i32[2,6,3]\n" \
    "output y: i8[2,6,3]\n"                                \
    "block b(n:2, c:6, i:3): y[n, c, i] = i8(s[n, c, i] + shl(i32(x[n, c, i]), 3i32))\n"

static void shifted_bytes_are_a_product(void **state) {
    kiln_arena *arena = *state;
    const char *lines = "unit_product(b, x, \"c\", 2)\n";
    expect_line(parsed(arena, BYTES), lines, "temp x.unit: i32[2,6,3]");
    expect_line(parsed(arena, BYTES), lines,
                "block x.ones(i:2, j:2): x.ones[i, j] = select(i == j, 8i8, 0i8)");
    expect_line(
        parsed(arena, BYTES), lines,
        "block x.unit(n:2, c:6, i:3 | unit:2): x.unit[n, c, i] sum= "
        "i32(x[n, floordiv(c, 2)*2 + unit, i])*i32(x.ones[floormod(c, 2), unit]) init 0i32");
    expect_line(parsed(arena, BYTES), lines,
                "block b(n:2, c:6, i:3): y[n, c, i] = i8(s[n, c, i] + x.unit[n, c, i])");
    (void)schedule(parsed(arena, BYTES), lines);
    (void)schedule(parsed(arena, BYTES), "unit_product(b, x, \"c\", 6)\n"
                                         "compute_at(x.unit, b.n)\n");
}

/* A shift that no byte holds stays, and so does what else is done with the words. */
static void what_is_no_small_shift_stays(void **state) {
    kiln_arena *arena = *state;
    const char *text = "program p\ninput x: i8[4]\noutput y: i32[4]\n"
                       "block b(i:4): y[i] = shl(i32(x[i]), 7i32) + 5i32\n";
    expect_line(parsed(arena, text), "unit_product(b, x, \"i\", 4)\n",
                "block b(i:4): y[i] = shl(x.unit[i], 7i32) + 5i32");
    expect_line(parsed(arena, text), "unit_product(b, x, \"i\", 4)\n",
                "block x.ones(i:4, j:4): x.ones[i, j] = select(i == j, 1i8, 0i8)");
    (void)schedule(parsed(arena, text), "unit_product(b, x, \"i\", 2)\n");
}

static void what_is_no_widening_is_refused(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(parsed(arena, BYTES), "unit_product(b, x, \"k\", 2)\n", "b has no iterator k");
    expect_illegal(parsed(arena, BYTES), "unit_product(b, y, \"c\", 2)\n", "b does not read y");
    expect_illegal(parsed(arena, BYTES), "unit_product(b, s, \"c\", 2)\n",
                   "b does not widen bytes of s to i32");
    expect_illegal(parsed(arena, BYTES), "unit_product(b, x, \"c\", 4)\n",
                   "4 is no size of a unit matrix for the 6 elements along c");
    expect_illegal(parsed(arena, BYTES), "unit_product(b, x, \"c\", 0)\n", "is no size");
    const char *text = "program p\ninput x: i8[4]\noutput y: i32[3]\n"
                       "block b(i:3): y[i] = i32(x[i]) + i32(x[i + 1])\n";
    expect_illegal(parsed(arena, text), "unit_product(b, x, \"i\", 3)\n",
                   "b reads several elements of x at a time");
    text = "program p\ninput x: i8[8]\noutput y: i32[4]\nblock b(i:4): y[i] = i32(x[i*2])\n";
    expect_illegal(parsed(arena, text), "unit_product(b, x, \"i\", 2)\n",
                   "i is no plain index of x");
    text = "program p\ninput x: i8[4]\noutput y: i32[6]\n"
           "block b(i:6): y[i] = select(i < 4, i32(x[i]), 0i32)\n";
    expect_illegal(parsed(arena, text), "unit_product(b, x, \"i\", 2)\n",
                   "b may read outside of x");
    text = "program p\ninput x: i8[4,2]\noutput y: i32[4]\n"
           "block b(i:4 | k:2): y[i] sum= i32(x[i, k]) init 0i32\n";
    expect_illegal(parsed(arena, text), "unit_product(b, x, \"i\", 2)\n",
                   "by an iterator that reduces");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(shifted_bytes_are_a_product),
        test_with_arena(what_is_no_small_shift_stays),
        test_with_arena(what_is_no_widening_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
