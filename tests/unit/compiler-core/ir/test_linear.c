/* Division and remainder of split and fused loops. */
#include "compiler-core/ir/affine.h"
#include "tests/unit/compiler-core/ir/support.h"

static void expect_simplified(kiln_program *p, kiln_expr e, const char *text) {
    expect_text(p, kiln_expr_simplify(p, e, NULL), text);
}

static void split_loops_divide_into_their_parts(void **state) {
    kiln_program *p = *state;
    kiln_expr oc0 = var(p, "oc.0", 4);
    kiln_expr oc1 = var(p, "oc.1", 2);
    kiln_expr oc2 = var(p, "oc.2", 8);
    kiln_expr oc = add(p, add(p, times(p, oc0, 16), times(p, oc1, 8)), oc2);
    expect_simplified(p, floordiv(p, oc, 16), "oc.0");
    expect_simplified(p, floormod(p, oc, 16), "oc.1*8 + oc.2");
    expect_simplified(p, floordiv(p, oc, 8), "oc.0*2 + oc.1");
    expect_simplified(p, floormod(p, oc, 8), "oc.2");
    expect_simplified(p, floordiv(p, floormod(p, oc, 16), 8), "oc.1");
    expect_simplified(p, floordiv(p, floordiv(p, oc, 8), 2), "oc.0");
    expect_simplified(p, floordiv(p, oc, 64), "0");
    expect_simplified(p, floormod(p, oc, 64), "oc.0*16 + oc.1*8 + oc.2");
}

static void fused_loops_come_together_again(void **state) {
    kiln_program *p = *state;
    kiln_expr f = var(p, "f", 343);
    kiln_expr high = times(p, floordiv(p, f, 7), 7);
    expect_simplified(p, add(p, high, floormod(p, f, 7)), "f");
    expect_simplified(p, sub(p, f, high), "floormod(f, 7)");
    kiln_expr middle = times(p, floormod(p, floordiv(p, f, 7), 7), 7);
    kiln_expr all = add(p, add(p, times(p, floordiv(p, f, 49), 49), middle), floormod(p, f, 7));
    expect_simplified(p, all, "f");
    expect_simplified(p, floormod(p, all, 49), "floormod(f, 49)");
}

static void multiples_of_the_divisor_leave_the_division(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 10);
    expect_simplified(p, floordiv(p, add(p, times(p, x, 6), y), 3), "x*2 + floordiv(y, 3)");
    expect_simplified(p, floordiv(p, plus(p, y, 7), 3), "floordiv(y + 1, 3) + 2");
    expect_simplified(p, floormod(p, add(p, times(p, x, 6), y), 3), "floormod(y, 3)");
    expect_simplified(p, floordiv(p, times(p, x, 2), 4), "floordiv(x, 2)");
    expect_simplified(p, floormod(p, times(p, x, 2), 4), "floormod(x, 2)*2");
    expect_simplified(p, floordiv(p, floordiv(p, x, 2), 3), "floordiv(x, 6)");
    expect_simplified(p, floormod(p, floormod(p, x, 8), 4), "floormod(x, 4)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(split_loops_divide_into_their_parts),
        PROGRAM_TEST(fused_loops_come_together_again),
        PROGRAM_TEST(multiples_of_the_divisor_leave_the_division),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/linear", tests, NULL, NULL);
}
