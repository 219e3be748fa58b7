/* What is printed is read again. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static void expect_round_trip(const kiln_program *test, const char *text) {
    kiln_strbuf out = {0};
    kiln_program_print(parse(test, text), &out);
    assert_string_equal(out.data, text);
    kiln_strbuf_deinit(&out);
}

static void everything_that_is_reserved_or_rare_comes_back(void **state) {
    expect_round_trip(*state, "program \"a \\\"b\\\" \\x01\"\n"
                              "input \"/conv/x:0\": u8[2,3] fill(positive) scale(0.0078125, -128)\n"
                              "constant \"true\": f64[2] fill(zero)\n"
                              "constant c: i8[2] range(-1, 1, 2)\n"
                              "constant d: u8[2] fill(positive) range(0, 3)\n"
                              "packed w: bf16[16,8] layout(d0/8,d1,d0%8)\n"
                              "output y: bool[2,3]\n"
                              "temp t: f32[2] scope(shared)\n"
                              "temp \"a b\": f64[2] scope(acc)\n"
                              "loops:\n"
                              "  alloc t:\n"
                              "    bind(thread.x) i in 2:\n"
                              "      t[i] = f32(\"true\"[i])\n"
                              "    barrier\n"
                              "    token push load compute\n"
                              "    vthread i in -1..2 @\"a=\\\\b\" @\"c=d\":\n"
                              "      if and(0 <= i, i < 2):\n"
                              "        unroll j in 3:\n"
                              "          y[i, j] = 3u8 < \"/conv/x:0\"[i, j]\n"
                              "    token pop load compute\n"
                              "  alloc \"a b\":\n"
                              "    copy(3) \"a b\"[0] = \"true\"[1] @unit(store)\n"
                              "    commit(3)\n"
                              "    wait(3, 1)\n"
                              "    for k in 2 @prefetch(\"a b\") @tensorize(sdot):\n"
                              "      barrier\n");
}

static void inlined_blocks_and_their_buffers_are_not_printed(void **state) {
    kiln_program *p = parse(*state, "program p\n"
                                    "input x: f32[4]\n"
                                    "output y: f32[4]\n"
                                    "temp t: f32[4]\n"
                                    "block a(i:4): t[i] = x[i]\n"
                                    "block b(i:4): y[i] = x[i]\n");
    p->block.data[1].removed = true;
    kiln_strbuf out = {0};
    kiln_program_print(p, &out);
    assert_null(strstr(out.data, "temp"));
    assert_null(strstr(out.data, "block a"));
    kiln_strbuf_deinit(&out);
}

/* Each of `count` parts uses the one before twice: a tree of 2^count leaves. */
static kiln_program *doubling(const kiln_program *test, int count) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "program p\ninput x: f32[4]\noutput y: f32[4]\n"
                            "block b(i:4): y[i] = [$1 = x[i] + 1.0");
    for (int i = 2; i <= count; i++)
        kiln_strbuf_printf(&text, ", $%d = max($%d*0.5, $%d)", i, i - 1, i - 1);
    kiln_strbuf_printf(&text, "] $%d\n", count);
    kiln_program *p = parse(test, text.data);
    kiln_strbuf_deinit(&text);
    return p;
}

/* Written out in full it would never end, nor be read again. */
static void parts_that_are_used_over_and_over_are_printed_once(void **state) {
    const kiln_program *p = doubling(*state, 60);
    kiln_strbuf out = {0}, again = {0};
    kiln_program_print(p, &out);
    expect_contains(out.data, "y[i] = [$1 = x[i] + 1.0, $2 = max($1*0.5, $1), ");
    expect_contains(out.data, ", $59 = max($58*0.5, $58)] max($59*0.5, $59)\n");
    kiln_program_print(parse(*state, out.data), &again);
    assert_string_equal(out.data, again.data);
    kiln_strbuf_deinit(&out);
    kiln_strbuf_deinit(&again);
}

/* Texts, and the task keys that are made of them, stay as they are. */
static void small_expressions_are_printed_in_full(void **state) {
    kiln_strbuf out = {0};
    kiln_program_print(doubling(*state, 3), &out);
    expect_contains(out.data, "y[i] = max(max((x[i] + 1.0)*0.5, x[i] + 1.0)*0.5, "
                              "max((x[i] + 1.0)*0.5, x[i] + 1.0))\n");
    kiln_strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(everything_that_is_reserved_or_rare_comes_back),
        PROGRAM_TEST(inlined_blocks_and_their_buffers_are_not_printed),
        PROGRAM_TEST(parts_that_are_used_over_and_over_are_printed_once),
        PROGRAM_TEST(small_expressions_are_printed_in_full),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/text_print", tests, NULL, NULL);
}
