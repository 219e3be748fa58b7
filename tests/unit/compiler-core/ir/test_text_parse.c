/* Program text that is wrong is refused where it stands. */
#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static void comments_and_blank_lines_count_for_nothing(void **state) {
    kiln_program *p = parse(*state, "# a comment\n\nprogram p # more\n"
                                    "input \"x#1\": f32[2]\n\n"
                                    "output y: f32[2]\n"
                                    "block b(i:2): y[i] = \"x#1\"[i] # \"quoted\n");
    assert_int_equal(kiln_program_find_buffer(p, KILN_STR("x#1")), 1);
}

#define HEAD "program p\ninput x: f32[4]\ninput n: i64[4]\noutput y: f32[4]\n"

static void wrong_text_is_refused_where_it_stands(void **state) {
    static const struct {
        const char *text, *error;
    } row[] = {
        {"", "1:1: 'program' is expected"},
        {"program\n", "1:8: a name is expected"},
        {"program p q\n", "1:11: the line should end here"},
        {"program p\nglobal x\n", "2:1: 'loops' is expected"},
        {"program p\ninput x: f33[1]\n", "'f33' is no dtype"},
        {"program p\ninput x: f32[-1]\n", "2:15: the number must be from 0"},
        {"program p\ninput x: f32[1099511627776,1099511627776]\n", "2:42:"},
        {"program p\ninput x: f32[1,1,1,1,1,1,1,1,1]\n", "more than 8 dimensions"},
        {"program p\ninput x: f32[8] layout(d0/0)\n", "2:2"},
        {"program p\ninput x: f32[8] scope(heap)\n", "2:23: a memory scope is expected"},
        {"program p\ninput x: f32[8] scale(1e999, 0)\n", "a number is expected"},
        {"program p\ninput x: f32[8] range(0, 3)\n", "f32 cannot have this range"},
        {"program p\ninput x: u8[8] range(0, 256)\n", "u8 cannot have this range"},
        {"program p\ninput x: i8[8] range(-2, 1, 2)\n", "i8 cannot have this range"},
        {"program p\ninput x: i8[8] range(1, -1)\n", "i8 cannot have this range"},
        {"program p\ninput x: i8[8] range(0, 1, 0)\n", "the number must be from 1"},
        {"program p\ninput x: f32[8]\ninput x: f32[8]\n", "two buffers named 'x'"},
        {"program p\ninput \"x\\q\": f32[8]\n", "a name is expected"},
        {HEAD "block b(i:4): y[i] = z[i]\n", "no buffer named 'z'"},
        {HEAD "block b(i:4): y[i] = x[i, i]\n", "the buffer has 1 dimensions"},
        {HEAD "block b(i:4): y[i] = x[j]\n", "no iterator or loop named 'j'"},
        {HEAD "block b(i:4): y[i] = x[x[i]]\n", "index 0 is not i64"},
        {HEAD "block b(i:4): y[i] = x[i] + n[i]\n", "+: operands differ in dtype"},
        {HEAD "block b(i:4): y[i] = n[i]\n", "the expression should be f32"},
        {HEAD "block b(i:4): y[i] = foo(x[i])\n", "no operator named 'foo'"},
        {HEAD "block b(i:4): y[i] = max(x[i])\n", "max: wrong number of operands"},
        {HEAD "block b(i:4): y[i] = f32(300u8)\n", "does not fit its dtype"},
        {HEAD "block b(i:4): y[i] = f32(9223372036854775808)\n", "does not fit its dtype"},
        {HEAD "block b(i:4): y[i] = f32(3q7)\n", "'q7' is no dtype"},
        {HEAD "block b(i:4): y[i] = -x[i]\n", "negation is neg(x)"},
        {HEAD "block b(i:4, i:4): y[i] = x[i]\n", "two iterators are named 'i'"},
        {HEAD "block b(i:4) of c: y[i] = x[i]\n", "no block named 'c' comes before"},
        {HEAD "block b(i:4): y[i] = x[i] init 0.0\n", "the line should end here"},
        {HEAD "block b(i:4): x[i] = x[i]\n", "x may not be written"},
        {HEAD "block b(i:4): y[i] = x[i + 1]\n", "index 0 of x is in [1, 4], the dimension is 4"},
        {HEAD "block b(i:4): y[i] = y[i]\n", "y is read before it is written"},
        {HEAD "block b(i:4 | k:2): y[i] = x[i]\n", "only reductions have reduce iterators"},
        {HEAD "block b(i:4 | k:2): y[i + k] sum= x[i] init 0.0\n", "is not in scope"},
        {HEAD "block b(i:4, j:2): y[i] = x[i]\n", "no index uses iterator b:j"},
        {HEAD "loops:\n  for i in 4:\n", "an indented body is expected"},
        {HEAD "loops:\n   for i in 4:\n     barrier\n", "indented by 2 spaces"},
        {HEAD "loops:\n  for i in 4..2:\n    barrier\n", "the number must be from 4"},
        {HEAD "loops:\n  for i in 4:\n    for i in 4:\n      barrier\n",
         "loop 'i' is inside itself"},
        {HEAD "loops:\n  while x:\n", "a statement is expected"},
        {HEAD "loops:\n  if n[0]:\n    barrier\n", "the expression should be bool"},
        {HEAD "loops:\n  block b()\n", "no block named 'b'"},
        {HEAD "block b(i:4): y[i] = x[i]\nloops:\n  barrier\n", "the block is placed nowhere"},
        {HEAD "block b(i:4): y[i] = x[i]\nloops:\n  for i in 4:\n    block b(j=i)\n",
         "has no iterator 'j'"},
        {HEAD "block b(i:4): y[i] = x[i]\nloops:\n  for i in 4:\n    block b()\n", "is not bound"},
        {HEAD "block b(i:4): y[i] = x[i]\nloops:\n  for i in 5:\n    block b(i=i)\n",
         "outside its domain"},
        {HEAD
         "block b(i:4): y[i] = x[i]\nloops:\n  for i in 4:\n    block b(i=i)\n    block b(i=i)\n",
         "iterator 'i' is bound twice"},
        {HEAD "loops:\n  alloc x:\n    barrier\n", "an argument is allocated"},
        {HEAD "loops:\n  token push load gpu\n", "a unit is expected here"},
        {HEAD "loops:\n  token push load store\n", "no queue of tokens from load to store"},
        {HEAD "loops:\n  for i in 4 @a:\n    barrier\n", "'(' is expected here"},
        {HEAD "loops:\n  for i in 4 @unit(x):\n    barrier\n", "no attribute 'unit' of 'x'"},
        {HEAD "loops:\n  for i in 4 @remark(x):\n    barrier\n", "no attribute 'remark'"},
        {HEAD "loops:\n  bind i in 4:\n    barrier\n", "'(' is expected here"},
        {HEAD "loops:\n  bind(warp.x) i in 4:\n    barrier\n", "'warp.x' is no axis"},
        {HEAD "loops:\n  bind(thread.x) i in 2..4:\n    barrier\n", "thread.x starts at 0"},
        {HEAD "loops:\n  wait(9, 1)\n", "the number must be from 0 to 7"},
        {HEAD "loops:\n  copy(0) y[0] = x[0] + x[0]\n", "no element of another buffer"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_program *test = *state;
        kiln_program *p = NULL;
        kiln_status st = kiln_program_parse(kiln_str_from(row[i].text), test->arena, &p);
        if (!st) fail_msg("'%s' is accepted", row[i].text);
        expect_error(st, INVALID_ARGUMENT, row[i].error);
        assert_null(p);
    }
}

static void symbolic_dimensions_are_reserved(void **state) {
    const kiln_program *test = *state;
    kiln_program *p = NULL;
    kiln_status st =
        kiln_program_parse(KILN_STR("program p\ninput x: f32[$n,3]\n"), test->arena, &p);
    expect_error(st, UNIMPLEMENTED, "2:14: symbolic dimensions");
}

static void repeat(kiln_strbuf *out, const char *text, int times_) {
    for (int i = 0; i < times_; i++) kiln_strbuf_text(out, text);
}

static void expect_refused(const kiln_program *test, kiln_strbuf *text, const char *error) {
    kiln_program *p = NULL;
    expect_error(kiln_program_parse(kiln_strbuf_view(text), test->arena, &p), INVALID_ARGUMENT,
                 error);
    kiln_strbuf_reset(text);
}

static void nesting_and_length_are_bounded(void **state) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, HEAD "block b(i:4): y[i] = ");
    repeat(&text, "(", 100000);
    expect_refused(*state, &text, "nested more than 128 deep");

    kiln_strbuf_text(&text, HEAD "block b(i:4): y[i] = x[i]");
    repeat(&text, " + x[i]", 100000);
    expect_refused(*state, &text, "more than 2048 parts");

    kiln_strbuf_text(&text, HEAD "loops:\n");
    for (int depth = 1; depth < 80; depth++)
        kiln_strbuf_printf(&text, "%*sfor i%d in 1:\n", 2 * depth, "", depth);
    expect_refused(*state, &text, "nested more than 64 deep");

    kiln_strbuf_text(&text, HEAD "loops:\n");
    repeat(&text, "  barrier\n", 10000);
    expect_refused(*state, &text, "more than 8192 statements");

    kiln_strbuf_text(&text, "program p\n");
    for (int i = 0; i < 600; i++) kiln_strbuf_printf(&text, "input x%d: f32[1]\n", i);
    expect_refused(*state, &text, "more than 511 buffers");
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(comments_and_blank_lines_count_for_nothing),
        PROGRAM_TEST(wrong_text_is_refused_where_it_stands),
        PROGRAM_TEST(symbolic_dimensions_are_reserved),
        PROGRAM_TEST(nesting_and_length_are_bounded),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/text_parse", tests, NULL, NULL);
}
