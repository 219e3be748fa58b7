/* What is inlined, and which reduction is left. */
#include "tests/unit/compiler-core/rules/support.h"

static kiln_sched inlined(kiln_arena *arena, const char *text) {
    kiln_sched s = kiln_sched_begin(parsed(arena, text), &avx2, arena);
    kiln_sketch_inline(&s);
    return s;
}

static void cheap_blocks_disappear_into_all_their_readers(void **state) {
    kiln_sched s = inlined(*state, "program p\ninput x: f32[8]\ntemp a: f32[8]\noutput y: f32[8]\n"
                                   "output z: f32[8]\n"
                                   "block a(i:8): a[i] = x[i] + 1.0\n"
                                   "block y(i:8): y[i] = a[i]*2.0\n"
                                   "block z(i:8): z[i] = a[i]*3.0\n");
    expect_lines(&s, 0, "inline(a)\n");
}

/* A division is worth storing where it would be done twice, by two readers or by one that reads
 * each element several times. */
static void costly_blocks_are_computed_once(void **state) {
    static const char head[] = "program p\ninput x: f32[8]\ntemp a: f32[8]\noutput y: f32[8,4]\n"
                               "output z: f32[8]\nblock a(i:8): a[i] = 1.0/x[i]\n";
    kiln_sched s = inlined(*state, kiln_arena_printf(*state, "%s%s", head,
                                                     "block y(i:8, j:4): y[i, j] = a[i]\n"
                                                     "block z(i:8): z[i] = x[i]\n"));
    expect_lines(&s, 0, "");
    s = inlined(*state, kiln_arena_printf(*state, "%s%s", head,
                                          "block y(i:8, j:4): y[i, j] = x[i]\n"
                                          "block z(i:8): z[i] = a[i]\n"));
    expect_lines(&s, 0, "inline(a)\n");
}

/* What a reduction reads is read many times, so only copies disappear. */
static void only_copies_are_inlined_into_reductions(void **state) {
    kiln_sched s =
        inlined(*state, "program p\ninput x: f32[8,8]\ntemp a: f32[8,8]\ntemp b: f32[8,8]\n"
                        "output y: f32[8]\noutput z: f32[8]\n"
                        "block a(i:8, j:8): a[i, j] = x[j, i]\n"
                        "block b(i:8, j:8): b[i, j] = x[i, j] + 1.0\n"
                        "block y(i:8 | k:8): y[i] sum= a[i, k] init 0.0\n"
                        "block z(i:8 | k:8): z[i] sum= b[i, k] init 0.0\n");
    expect_lines(&s, 0, "inline(a)\n");
}

/* A gather reads one place; a search compares several, and would compute each of them anew. */
static void what_is_searched_is_not_computed_anew(void **state) {
    static const char head[] = "program p\ninput x: f32[8]\ninput k: i64[8]\ntemp a: f32[8]\n"
                               "output y: f32[8]\nblock a(i:8): a[i] = x[i] + 1.0\n";
    const char *at = "a[max(min(k[i], 7), 0)]";
    kiln_sched s =
        inlined(*state, kiln_arena_printf(*state, "%sblock y(i:8): y[i] = %s\n", head, at));
    expect_lines(&s, 0, "inline(a)\n");
    s = inlined(*state, kiln_arena_printf(*state, "%sblock y(i:8): y[i] = %s + a[i]\n", head, at));
    expect_lines(&s, 0, "");
    s = inlined(*state,
                kiln_arena_printf(*state, "%sblock y(i:8): y[i] = a[7 - i] + a[i]\n", head));
    expect_lines(&s, 0, "inline(a)\n");
}

/* A transform picks among cases by the remainder of an iterator, which rules find only where it is
 * read at iterators. */
static void transforms_disappear_into_what_reads_them_in_place(void **state) {
    static const char head[] = "program p\ninput x: f32[8]\ntemp a: f32[8]\noutput y: f32[16]\n"
                               "block a(i:8): a[i] = select(floormod(i, 2) == 0, x[i], x[i]*2.0)\n";
    kiln_sched s =
        inlined(*state, kiln_arena_printf(*state, "%sblock y(i:8): y[i] = a[i] + 1.0\n", head));
    expect_lines(&s, 0, "inline(a)\n");
    s = inlined(*state, kiln_arena_printf(
                            *state, "%sblock y(i:16): y[i] = a[floordiv(i, 2)] + 1.0\n", head));
    expect_lines(&s, 0, "");
}

/* Where it is taken out of registers, not in each place where the transform reads it. */
static void what_follows_a_sum_is_not_computed_in_a_transform(void **state) {
    static const char text[] =
        "program p\ninput x: f32[8,8]\ntemp t: f32[8]\ntemp a: f32[8]\noutput y: f32[8]\n"
        "block t(i:8 | k:8): t[i] sum= x[i, k] init 0.0\n"
        "block a(i:8): a[i] = t[i]*3.0\n"
        "block y(i:8): y[i] = %s\n";
    kiln_sched s = inlined(*state, kiln_arena_printf(*state, text, "a[i] + 1.0"));
    expect_lines(&s, 0, "inline(a)\n");
    s = inlined(*state,
                kiln_arena_printf(*state, text, "select(floormod(i, 2) == 0, a[i], 0.0 - a[i])"));
    expect_lines(&s, 0, "");
}

static void the_main_reduction_has_most_work_and_reads_more_than_constants(void **state) {
    kiln_program *p = parsed(*state, "program p\ninput x: f32[8,8]\nconstant w: f32[8,64]\n"
                                     "output y: f32[8]\noutput z: f32[8]\noutput u: f32[8]\n"
                                     "block w(i:8 | k:64): u[i] sum= w[i, k] init 0.0\n"
                                     "block y(i:8 | k:4): y[i] sum= x[i, k] init 0.0\n"
                                     "block z(i:8 | k:8): z[i] sum= x[i, k] init 0.0\n");
    uint32_t count = 0;
    assert_int_equal(kiln_sketch_main_reduction(p, &count), 3);
    assert_int_equal(count, 2);
    assert_int_equal(kiln_sketch_main_reduction(chain_program(*state, 4, 4), &count), 0);
    assert_int_equal(count, 0);
}

/* Each block adds the one before to itself: forty additions, 2^40 leaves when written out. */
static void shared_operands_are_looked_at_once(void **state) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "program p\ninput t0: f32[8]\n");
    for (int i = 1; i < 40; i++) kiln_strbuf_printf(&text, "temp t%d: f32[8]\n", i);
    kiln_strbuf_text(&text, "output t40: f32[8]\n");
    for (int i = 1; i <= 40; i++)
        kiln_strbuf_printf(&text, "block b%d(i:8): t%d[i] = t%d[i] + t%d[i]\n", i, i, i - 1, i - 1);
    kiln_sched s = inlined(*state, text.data);
    kiln_strbuf_deinit(&text);
    assert_int_equal(kiln_sched_trace(&s)->count, 39);
    expect_legal(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(cheap_blocks_disappear_into_all_their_readers),
        test_with_arena(costly_blocks_are_computed_once),
        test_with_arena(only_copies_are_inlined_into_reductions),
        test_with_arena(shared_operands_are_looked_at_once),
        test_with_arena(transforms_disappear_into_what_reads_them_in_place),
        test_with_arena(what_follows_a_sum_is_not_computed_in_a_transform),
        test_with_arena(what_is_searched_is_not_computed_anew),
        test_with_arena(the_main_reduction_has_most_work_and_reads_more_than_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
