#include "compiler-core/task/fill.h"

#include "compiler-core/passes/pass.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/graph/support.h"

/* The fills of the arguments of the only kernel: "x0 uniform, x1 positive". */
static void expect_fills(kiln_arena *arena, const char *body, const char *expected) {
    kiln_graph *graph = graph_of(arena, kiln_arena_printf(arena,
                                                          "graph g\n"
                                                          "input x: f32[2,4]\n"
                                                          "input v: f32[2,4]\n"
                                                          "input i: i64[2]\n"
                                                          "%s\n"
                                                          "output y\n",
                                                          body));
    kiln_tasks tasks;
    kiln_strbuf text = {0};
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_tasks_extract(graph, arena, &tasks));
    assert_int_equal(tasks.count, 1);
    const kiln_program *te = tasks.task[0].te;
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        const kiln_buffer_info *buffer = &te->buffer.data[b];
        if (buffer->role != KILN_ROLE_INPUT && buffer->role != KILN_ROLE_CONSTANT) continue;
        kiln_strbuf_printf(&text, "%s%.*s %s", text.size ? ", " : "", KILN_STR_ARG(buffer->name),
                           buffer->fill == KILN_FILL_POSITIVE ? "positive" : "uniform");
    }
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void divisors_roots_and_logarithms_are_positive(void **state) {
    expect_fills(*state, "y: f32[2,4] = div(x, v)", "x0 uniform, x1 positive");
    expect_fills(*state, "y: f32[2,4] = sqrt(x)", "x0 positive");
    expect_fills(*state, "y: f32[2,4] = pow(x, v)", "x0 positive, x1 uniform");
    expect_fills(*state, "y: f32[2,4] = mod(x, v) fmod=1", "x0 uniform, x1 positive");
    expect_fills(*state, "y: f32[2,4] = add(x, v)", "x0 uniform, x1 uniform");
}

static void signs_are_followed_through_temps(void **state) {
    expect_fills(*state, "y: f32[2,1] = reduce_log_sum(x) axes=[1]", "x0 positive");
    expect_fills(*state, "a: f32[2,4] = mul(x, v)\nb: f32[2,4] = add(a, v)\ny: f32[2,4] = log(b)",
                 "x0 positive, x1 positive");
}

static void what_is_positive_anyway_stays_free(void **state) {
    expect_fills(*state, "y: f32[2,4] = softmax(x)", "x0 uniform");
    expect_fills(*state, "y: f32[2,4] = softplus(x)", "x0 uniform");
    expect_fills(*state, "y: f32[2,4] = softsign(x)", "x0 uniform");
    expect_fills(*state, "y: f32[2,1] = reduce_l2(x) axes=[1]", "x0 uniform");
}

static void indices_are_small_and_positive(void **state) {
    expect_fills(*state, "y: f32[2,4] = gather(x, i)", "x0 uniform, x1 positive");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(divisors_roots_and_logarithms_are_positive),
        test_with_arena(signs_are_followed_through_temps),
        test_with_arena(what_is_positive_anyway_stays_free),
        test_with_arena(indices_are_small_and_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
