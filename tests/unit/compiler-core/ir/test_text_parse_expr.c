/* Expressions of program text. */
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static void precedence_and_order_of_operands_survive(void **state) {
    static const char *const value[] = {
        "x[] - (x[] - x[]) - x[]",
        "x[]*(x[] + x[])/(x[]*x[])",
        "x[] + (x[] + x[])",
        "neg(x[]) - -1.5",
        "select(x[] < (select(x[] < 0.0, 1.0, x[])), inf, nan)",
        "pow(x[], floormod(x[], 2.0))",
        "f32(f64(x[])*1e-300f64) - 3.40282347e+38",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(value); i++) {
        const kiln_program *test = *state;
        kiln_strbuf out = {0};
        char *text = kiln_arena_printf(
            test->arena, "program p\ninput x: f32[]\noutput y: f32[]\nblock b(): y[] = %s\n",
            value[i]);
        kiln_program *p = parse(test, text);
        kiln_program_print(p, &out);
        kiln_program *again = parse(test, out.data);
        kiln_hash128 a = kiln_program_hash(p);
        kiln_hash128 b = kiln_program_hash(again);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(kiln_expr_get(p, p->block.data[1].value)->op,
                         kiln_expr_get(again, again->block.data[1].value)->op);
        kiln_strbuf_deinit(&out);
    }
}

static void parts_are_numbered_before_they_are_used(void **state) {
    static const struct {
        const char *value, *error;
    } bad[] = {
        {"$1 + 1.0", "before they are used"},
        {"[$1 = x[] + $1] $1", "before they are used"},
        {"[$2 = x[]] $2", "before they are used"},
        {"[$0 = x[]] x[]", "before they are used"},
        {"[$1 = x[], $1 = x[]] $1", "part $2 comes next"},
        {"[$1 = x[] $1", "']' is expected"},
        {"[] x[]", "'$' is expected"},
        {"x[] + [$1 = x[]] $1", ""},
        {"[$1 = x[]] $", "before they are used"},
    };
    const kiln_program *test = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        char *text = kiln_arena_printf(
            test->arena, "program p\ninput x: f32[]\noutput y: f32[]\nblock b(): y[] = %s\n",
            bad[i].value);
        kiln_program *p = NULL;
        expect_error(kiln_program_parse(kiln_str_from(text), test->arena, &p), INVALID_ARGUMENT,
                     bad[i].error);
    }
    kiln_program *p = parse(test, "program p\ninput x: f32[]\noutput y: f32[]\n"
                                  "block b(): y[] = [$1 = x[] + 1.0, $2 = $1*$1] $2 - $1\n");
    kiln_strbuf out = {0};
    kiln_expr_print(p, p->block.data[1].value, &out);
    expect_str(kiln_strbuf_view(&out), "(x[] + 1.0)*(x[] + 1.0) - (x[] + 1.0)");
    kiln_strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(precedence_and_order_of_operands_survive),
        PROGRAM_TEST(parts_are_numbered_before_they_are_used),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/text_parse_expr", tests, NULL, NULL);
}
