/* Which nests run once. */
#include "compiler-core/facts/prepare.h"

#include "tests/unit/compiler-core/sched/support.h"

/* Letters by nest: p for those that depend on constants alone, r for the others. */
static const char *nests(kiln_arena *arena, const char *text, const char *trace) {
    kiln_program *p = schedule(parsed(arena, text), trace);
    kiln_nests n = kiln_nests_of(p, arena);
    char *letters = kiln_arena_alloc(arena, n.count + 1);
    for (uint32_t i = 0; i < n.count; i++) letters[i] = n.prepare[i] ? 'p' : 'r';
    return letters;
}

static void chains_of_constants_run_once(void **state) {
    assert_string_equal(
        nests(*state,
              "program p\ninput x: f32[4]\nconstant w: f32[4]\ntemp s: f32[4]\ntemp t: f32[4]\n"
              "temp u: f32[4]\noutput y: f32[4]\n"
              "block a(i:4): s[i] = w[i]*2.0\nblock b(i:4): t[i] = s[i] + 1.0\n"
              "block c(i:4): u[i] = x[i] + t[i]\nblock d(i:4): y[i] = u[i] + s[i]\n",
              ""),
        "pprr");
}

static void results_are_made_in_every_run(void **state) {
    assert_string_equal(nests(*state,
                              "program p\nconstant w: f32[4]\noutput y: f32[4]\n"
                              "block a(i:4): y[i] = w[i]*2.0\n",
                              ""),
                        "r");
}

static void a_nest_with_one_block_that_reads_data_runs_whole(void **state) {
    const char *text = "program p\ninput x: f32[4]\nconstant w: f32[4]\ntemp t: f32[4]\n"
                       "output y: f32[4]\nblock a(i:4): t[i] = w[i]*2.0\n"
                       "block c(i:4): y[i] = x[i] + t[i]\n";
    assert_string_equal(nests(*state, text, ""), "pr");
    assert_string_equal(nests(*state, text, "compute_at(a, c.i)\n"), "r");
}

/* The index is data, though what it chooses from is constant. */
static void data_in_an_index_is_data(void **state) {
    assert_string_equal(nests(*state,
                              "program p\ninput idx: i64[4]\nconstant w: f32[16]\n"
                              "temp t: f32[4]\noutput y: f32[4]\n"
                              "block a(i:4): t[i] = w[idx[i] + 8]\n"
                              "block c(i:4): y[i] = t[i] + 1.0\n",
                              ""),
                        "rr");
}

static void registers_do_not_outlive_a_run(void **state) {
    assert_string_equal(nests(*state,
                              "program p\ninput x: f32[4]\nconstant w: f32[4]\ntemp t: f32[4]\n"
                              "output y: f32[4]\nblock a(i:4): t[i] = w[i]*2.0\n"
                              "block c(i:4): y[i] = x[i] + t[i]\n",
                              "set_scope(t, \"register\")\n"),
                        "rr");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(chains_of_constants_run_once),
        test_with_arena(results_are_made_in_every_run),
        test_with_arena(a_nest_with_one_block_that_reads_data_runs_whole),
        test_with_arena(data_in_an_index_is_data),
        test_with_arena(registers_do_not_outlive_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
