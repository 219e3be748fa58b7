/* Which values get a place inside of others. Everything is row-major here. */
#include "compiler-core/layout/windows.h"

#include "tests/unit/compiler-core/graph/support.h"

typedef struct found {
    kiln_graph *graph;
    kiln_plan plan;
    kiln_windows windows;
} found;

static found find(kiln_arena *arena, const char *body, bool on) {
    found f = {.graph =
                   graph_of(arena, kiln_arena_printf(arena,
                                                     "graph g\ninput x: f32[4,32]\n"
                                                     "a: f32[4,32] = softmax(x)\n"
                                                     "b: f32[1,32] = reduce_sum(x) axes=[0]\n%s",
                                                     body))};
    expect_ok(kiln_plan_create(f.graph, arena, &f.plan));
    const kiln_way **way = KILN_ARENA_ARRAY(arena, const kiln_way *, f.plan.step_count);
    for (uint32_t s = 0; s < f.plan.step_count; s++) {
        kiln_way *row = KILN_ARENA_NEW(arena, kiln_way);
        row->layout = KILN_ARENA_ARRAY(arena, kiln_layout, KILN_PROGRAM_BUFFERS_MAX);
        way[s] = row;
    }
    kiln_layout *layout = KILN_ARENA_ARRAY(arena, kiln_layout, f.graph->value.count);
    kiln_windows_find(f.graph, &f.plan, way, layout, on, arena, &f.windows);
    return f;
}

static void expect_window(const found *f, const char *value, const char *whole, uint64_t offset) {
    const kiln_window *window =
        &f->windows.of[kiln_graph_find_value(f->graph, kiln_str_from(value))];
    assert_int_equal(window->whole,
                     whole ? kiln_graph_find_value(f->graph, kiln_str_from(whole)) : 0);
    assert_int_equal(window->offset_bytes, offset);
}

static uint32_t left_out(const found *f) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < f->plan.step_count; s++) count += f->windows.step[s] != NULL;
    return count;
}

#define JOIN "j: f32[5,32] = concat(a, b) axis=0\n"

static void operands_lie_in_the_result(void **state) {
    found f = find(*state, JOIN "y: f32[5,32] = softmax(j)\noutput y\n", true);
    expect_window(&f, "a", "j", 0);
    expect_window(&f, "b", "j", 4 * 128);
    assert_int_equal(left_out(&f), 1);
}

static void without_windows_there_are_none(void **state) {
    found f = find(*state, JOIN "y: f32[5,32] = softmax(j)\noutput y\n", false);
    expect_window(&f, "a", NULL, 0);
    assert_int_equal(left_out(&f), 0);
}

/* j is made first; a can be in one of them only. */
static void of_two_results_the_later_one_has_the_operand(void **state) {
    found f = find(*state,
                   JOIN "k: f32[9,32] = concat(j, a) axis=0\ny: f32[9,32] = softmax(k)\noutput y\n",
                   true);
    expect_window(&f, "j", "k", 0);
    expect_window(&f, "a", "k", 5 * 128);
    expect_window(&f, "b", "j", 4 * 128);
    assert_int_equal(left_out(&f), 2);
}

/* Outputs are the caller's memory, inputs are there already. */
static void what_stands_elsewhere_has_no_place(void **state) {
    found f = find(
        *state,
        "j: f32[9,32] = concat(x, a, b) axis=0\ny: f32[9,32] = softmax(j)\noutput y\noutput a\n",
        true);
    expect_window(&f, "x", NULL, 0);
    expect_window(&f, "a", NULL, 0);
    expect_window(&f, "b", "j", 8 * 128);
    assert_int_equal(left_out(&f), 1);
}

static void a_kernel_stays_when_nothing_has_a_place(void **state) {
    found f = find(*state,
                   "j: f32[5,32] = concat(a, b) axis=0\ny: f32[5,32] = softmax(j)\n"
                   "output y\noutput a\noutput b\n",
                   true);
    assert_int_equal(left_out(&f), 0);
    f = find(*state,
             "p: f32[1,32], q: f32[3,32] = split(a) axis=0 split=[1,3]\n"
             "y: f32[3,32] = softmax(q)\noutput y\noutput p\noutput b\n",
             true);
    assert_int_equal(left_out(&f), 0);
}

static void slices_lie_in_what_they_are_cut_from(void **state) {
    found f =
        find(*state,
             "p: f32[1,32], q: f32[3,32] = split(a) axis=0 split=[1,3]\n"
             "y: f32[3,32] = softmax(q)\nz: f32[1,32] = softmax(p)\noutput y\noutput z\noutput b\n",
             true);
    expect_window(&f, "p", "a", 0);
    expect_window(&f, "q", "a", 128);
    assert_int_equal(left_out(&f), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(operands_lie_in_the_result),
        test_with_arena(without_windows_there_are_none),
        test_with_arena(of_two_results_the_later_one_has_the_operand),
        test_with_arena(what_stands_elsewhere_has_no_place),
        test_with_arena(a_kernel_stays_when_nothing_has_a_place),
        test_with_arena(slices_lie_in_what_they_are_cut_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
