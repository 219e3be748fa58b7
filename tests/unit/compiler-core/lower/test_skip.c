/* Products with zeros of a padding are not added: conditions in place of them, as far outside as
 * they can be asked. */
#include "compiler-core/lower/pass.h"

#include <string.h>

#include "base/macros.h"
#include "tests/unit/compiler-core/lower/support.h"

static const char head[] = "program t\ninput x: f32[4,6]\nconstant w: f32[3,3]\n"
                           "output y: f32[4,6]\n";
static const char window[] =
    "block c(h:4, v:6 | kh:3, kw:3): y[h, v] sum= "
    "select(and(and(1 <= h + kh, h + kh < 5), and(1 <= v + kw, v + kw < 7)), "
    "x[h + kh - 1, v + kw - 1], 0.0)*w[kh, kw]\n";

static const char *joined(kiln_arena *arena, const char *const *part) {
    kiln_strbuf text = {0};
    for (; *part; part++) kiln_strbuf_text(&text, *part);
    const char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}
#define JOINED(arena, ...) joined(arena, (const char *const[]){__VA_ARGS__, NULL})

static void expect_contains_text(const char *text, const char *wanted) {
    if (!strstr(text, wanted)) fail_msg("%s\ndoes not contain\n%s", text, wanted);
}

static kiln_program *scheduled(kiln_arena *arena, const char *block, const char *trace) {
    return replay_text(parse_in(arena, JOINED(arena, head, block)), trace);
}

/* The schedules of the window; each keeps its meaning. */
#define OUTSIDE                       \
    "reorder(c.h, c.kh, c.kw, c.v)\n" \
    "decompose_reduction(c, c.kh)\nvectorize(c.v)\n"
#define REGISTERS                                                            \
    "cache_write(c, register)\nreorder(c.h, c.kh, c.kw, c.v)\nunroll(c.v)\n" \
    "decompose_reduction(c, c.kh)\nreverse_compute_at(c.write, c.h)\n"       \
    "unroll(c.write.v)\n"

/* The row's test stands around both loops that do not change it, the column's at the sum itself;
 * what starts the sum is not part of it. */
static void a_condition_is_asked_outside_of_what_does_not_change_it(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    const char *text = lowered_text(scheduled(*state, window,
                                              "reorder(c.h, c.kh, c.kw, c.v)\n"
                                              "decompose_reduction(c, c.kh)\n"),
                                    &target, "skip");
    expect_contains_text(text, "    for c.kh in 3:\n"
                               "      if and(1 <= c.h + c.kh, c.h + c.kh < 5):\n"
                               "        for c.kw in 3:\n"
                               "          for c.v in 6:\n"
                               "            if and(1 <= c.v + c.kw, c.v + c.kw < 7):\n"
                               "              y[c.h, c.v] = y[c.h, c.v] + "
                               "x[c.h + c.kh - 1, c.v + c.kw - 1]*w[c.kh, c.kw]\n");
}

/* An initial value inside of the reduction keeps the loops together. */
static void what_starts_the_sum_runs_all_the_same(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    const char *text = lowered_text(scheduled(*state, window, ""), &target, "skip");
    expect_contains_text(text, "          if and(c.kh == 0, c.kw == 0):\n"
                               "            y[c.h, c.v] = 0.0\n"
                               "          if and(");
    assert_null(strstr(text, "select"));
}

/* Lanes that differ stay in one instruction. */
static void conditions_of_lanes_stay_in_the_value(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    const char *text = lowered_text(scheduled(*state, window, OUTSIDE), &target, "skip");
    expect_contains_text(text, "if and(1 <= c.h + c.kh, c.h + c.kh < 5):\n"
                               "        for c.kw in 3:\n"
                               "          vectorize c.v in 6:\n"
                               "            y[c.h, c.v] = y[c.h, c.v] + "
                               "select(and(1 <= c.v + c.kw, c.v + c.kw < 7), "
                               "x[c.h + c.kh - 1, c.v + c.kw - 1], 0.0)*w[c.kh, c.kw]");
}

static void data_and_other_values_are_left_alone(void **state) {
    static const char *const block[] = {
        "block c(h:4, v:6 | kh:3): y[h, v] sum= select(x[h, v] < 0.0, x[h, v], 0.0)*w[kh, 0]\n",
        "block c(h:4, v:6 | kh:3): y[h, v] sum= select(1 <= v, x[h, v], 1.0)*w[kh, 0]\n",
        "block c(h:4, v:6 | kh:3): y[h, v] max= select(1 <= v, x[h, v], 0.0)*w[kh, 0]\n",
        "block c(h:4, v:6 | kh:3): y[h, v] sum= select(1 <= v, x[h, v], 0.0) + w[kh, 0]\n"};
    kiln_target target = x86_target(*state, 3, 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(block); i++) {
        const kiln_program *p = scheduled(*state, block[i], "");
        assert_string_equal(lowered_text(p, &target, "skip"), lowered_text(p, &target, "simplify"));
    }
}

/* Copies of an unrolled loop are decided by cutting the taps: of no sum is asked at run time. */
static void taps_are_cut_where_unrolled_columns_begin_to_count(void **state) {
    static const char wide[] =
        "block c(h:4, v:3 | kh:3, kw:5): y[h, v] sum= "
        "select(and(2 <= v*2 + kw, v*2 + kw < 8), x[h, v*2 + kw - 2], 0.0)*w[kh, 0]\n";
    kiln_target target = x86_target(*state, 3, 1);
    const char *text = lowered_text(scheduled(*state, wide,
                                              "reorder(c.h, c.kh, c.kw, c.v)\n"
                                              "decompose_reduction(c, c.kh)\n"
                                              "unroll(c.v)\n"),
                                    &target, "partition");
    for (const char *at = text; (at = strstr(at, "if ")); at++)
        if (memmem(at, (size_t)(strchr(at, '\n') - at), "kw", 2))
            fail_msg("asks for a tap: %s", at);
    expect_contains_text(text, "if 1 <= c.v");
    expect_contains_text(text, "if c.v'");
}

static void every_schedule_keeps_the_meaning(void **state) {
    static const char *const trace[] = {
        "",
        OUTSIDE,
        REGISTERS,
        "parallel(c.h)\n",
        "reorder(c.h, c.kh, c.kw, c.v)\nsplit(c.v, -1, 4)\nvectorize(c.v.1)\n",
        "split(c.h, -1, 3)\nsplit(c.v, 2, 3)\nunroll(c.v.1)\nunroll(c.kw)\nparallel(c.h.0)\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(trace); i++) {
        kiln_target target = x86_target(*state, 3, i % 2 ? 4 : 1);
        const kiln_program *te = parse_in(*state, JOINED(*state, head, window));
        expect_ok(lowered_equals(te, replay_text(te, trace[i]), &target, i));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_condition_is_asked_outside_of_what_does_not_change_it),
        test_with_arena(what_starts_the_sum_runs_all_the_same),
        test_with_arena(conditions_of_lanes_stay_in_the_value),
        test_with_arena(data_and_other_values_are_left_alone),
        test_with_arena(taps_are_cut_where_unrolled_columns_begin_to_count),
        test_with_arena(every_schedule_keeps_the_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
