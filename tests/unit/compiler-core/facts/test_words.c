/* Loop programs in words: what is said is what the program does. */
#include "compiler-core/facts/words.h"

#include "compiler-core/ir/ir_text.h"
#include "tests/support/test.h"

static kiln_program *parsed(const char *text, kiln_arena *arena) {
    kiln_program *p = NULL;
    expect_ok(kiln_program_parse(kiln_str_from(text), arena, &p));
    return p;
}

static void expect_words(const char *program, kiln_arena *arena, const char *expected) {
    kiln_strbuf text = {0};
    kiln_program_words(parsed(program, arena), &text);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void expect_tile(const char *program, kiln_arena *arena, const char *expected) {
    kiln_strbuf text = {0};
    kiln_program_tile_words(parsed(program, arena), &text);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static const char tiled[] =
    "program mm\n"
    "input a: f32[8,6]\n"
    "constant b: f32[6,16]\n"
    "output y: f32[8,16]\n"
    "temp y.acc: f32[8,16] scope(register)\n"
    "temp b.read: f32[6,16] layout(d1/8,d0,d1%8)\n"
    "block b.read(i:6, j:16): b.read[i, j] = b[i, j]\n"
    "block mm(i:8, j:16 | k:6): y.acc[i, j] sum= a[i, k]*b.read[k, j] without init\n"
    "block mm.write(i:8, j:16): y[i, j] = y.acc[i, j]\n"
    "block mm.init(i:8, j:16) of mm: y.acc[i, j] = 0.0\n"
    "loops:\n"
    "  for b.read.i in 6:\n"
    "    for b.read.j in 16:\n"
    "      block b.read(i=b.read.i, j=b.read.j)\n"
    "  parallel mm.j.0 in 2:\n"
    "    for mm.i.0 in 3:\n"
    "      unroll mm.init.i in 3:\n"
    "        vectorize mm.init.j in 8:\n"
    "          block mm.init(i=mm.i.0*3 + mm.init.i, j=mm.j.0*8 + mm.init.j) if mm.i.0*3 + "
    "mm.init.i < 8\n"
    "      for mm.k in 6:\n"
    "        unroll mm.i.1 in 3:\n"
    "          vectorize mm.j.1 in 8:\n"
    "            block mm(i=mm.i.0*3 + mm.i.1, j=mm.j.0*8 + mm.j.1, k=mm.k) if mm.i.0*3 + mm.i.1 < "
    "8\n"
    "      unroll mm.write.i in 3:\n"
    "        vectorize mm.write.j in 8:\n"
    "          block mm.write(i=mm.i.0*3 + mm.write.i, j=mm.j.0*8 + mm.write.j) if mm.i.0*3 + "
    "mm.write.i < 8\n";

static void tiles_registers_packing_and_masks_are_told(void **state) {
    expect_words(
        tiled, *state,
        "mm computes 8 i 16 j, reduced over 6 k:\n"
        "  for 2 tiles of 8 j, shared by the threads\n"
        "    for 3 tiles of 3 i, the last one partly masked\n"
        "      for 6 k one by one\n"
        "        as straight code: 3 i x 8 j, 8 at a time, 3 accumulators in registers\n"
        "b.read makes a copy of b once, before the first run\n"
        "mm.write makes y from y.acc inside the 3 tiles of 3 i, the last one partly masked; "
        "8 elements at a time\n"
        "b.read lies in memory as d1/8,d0,d1%8: 8 of d1 side by side\n");
    expect_tile(tiled, *state, "3 i x 8 j, 8 at a time, 3 accumulators in registers");
}

static void an_instruction_is_named(void **state) {
    expect_tile("program dot\n"
                "input a: i8[3,8]\n"
                "constant b: i8[4,8]\n"
                "output y: i32[3,4]\n"
                "block dot(m:3, n:4 | k:8): y[m, n] sum= i32(a[m, k])*i32(b[n, k]) without init\n"
                "block dot.init(m:3, n:4) of dot: y[m, n] = 0i32\n"
                "loops:\n"
                "  for dot.m in 3:\n"
                "    for dot.init.n in 4:\n"
                "      block dot.init(m=dot.m, n=dot.init.n)\n"
                "    for dot.k.0 in 2:\n"
                "      vectorize dot.n in 4:\n"
                "        unroll dot.k.1 in 4 @\"tensorize=sdot\":\n"
                "          block dot(m=dot.m, n=dot.n, k=dot.k.0*4 + dot.k.1)\n",
                *state, "4 k x 4 n, 4 at a time by sdot, 4 steps each");
}

static const char plain[] = "program sum\n"
                            "input a: f32[4,6]\n"
                            "output y: f32[4]\n"
                            "block sum(i:4 | k:6): y[i] sum= a[i, k] init 0.0\n"
                            "loops:\n"
                            "  for sum.i in 4:\n"
                            "    for sum.k in 6:\n"
                            "      block sum(i=sum.i, k=sum.k)\n";

static void plain_loops_are_plain(void **state) {
    expect_words(plain, *state,
                 "sum computes 4 i, reduced over 6 k:\n"
                 "  for 4 i one by one\n"
                 "    for 6 k one by one\n"
                 "      as straight code: one element\n");
    expect_tile(plain, *state, "one element");
}

static const char fused[] = "program copy\n"
                            "input a: f32[4,6]\n"
                            "output y: f32[4,6]\n"
                            "block copy(i:4, j:6): y[i, j] = a[i, j]\n"
                            "loops:\n"
                            "  for copy.i.f in 24:\n"
                            "    block copy(i=floordiv(copy.i.f, 6), j=floormod(copy.i.f, 6))\n";

static void a_fused_loop_is_called_one(void **state) {
    expect_words(fused, *state,
                 "copy computes 4 i 6 j:\n"
                 "  for 24 steps of several at once (copy.i.f)\n"
                 "    as straight code: one element\n");
}

static void nothing_placed_is_nothing_said(void **state) {
    kiln_strbuf text = {0};
    kiln_program *te = parsed("program t\ninput a: f32[4]\noutput y: f32[4]\n"
                              "block c(i:4): y[i] = a[i]\n",
                              *state);
    kiln_program_words(te, &text);
    kiln_program_tile_words(te, &text);
    assert_int_equal(text.size, 0);
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(tiles_registers_packing_and_masks_are_told),
        test_with_arena(an_instruction_is_named),
        test_with_arena(plain_loops_are_plain),
        test_with_arena(a_fused_loop_is_called_one),
        test_with_arena(nothing_placed_is_nothing_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
