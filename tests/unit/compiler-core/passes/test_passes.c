/* The table of graph passes: each row has its golden text, and none changes what a graph computes.
 */
#include "compiler-core/passes/pass.h"

#include <string.h>

#include "base/file.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

#define PORTS_MAX 8

/* The graph of a pass's golden text (tests/golden/main.c): what stands between "$" and "=>". */
static kiln_graph *golden_graph(kiln_arena *arena, kiln_pass pass) {
    char *path =
        kiln_arena_printf(arena, "tests/golden/graph_%s.golden", kiln_pass_get(pass)->name);
    kiln_str file = {0};
    for (char *c = path; *c; c++)
        if (*c == '-') *c = '_';
    expect_ok(kiln_file_read(path, 1 << 20, arena, &file));
    const char *command = strstr(file.data, "\n$ graph "), *end = strstr(file.data, "\n=>\n");
    if (!command || !end) fail_msg("%s shows no graph", path);
    const char *start = strchr(command + 1, '\n') + 1;
    kiln_str name = {command + 9, (size_t)(start - 1 - (command + 9))};
    expect_str(name, kiln_pass_get(pass)->name);
    char *text = kiln_str_dup(arena, (kiln_str){start, (size_t)(end + 1 - start)});
    return graph_of(arena, text);
}

static void eval(const kiln_graph *graph, kiln_arena *arena, kiln_tensor *output) {
    kiln_tensor input[PORTS_MAX];
    assert_true(graph->input.count <= PORTS_MAX && graph->output.count <= PORTS_MAX);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        kiln_fill_data(input[i].data, info->dtype, (size_t)kiln_shape_count(&info->shape), i + 1,
                       KILN_FILL_POSITIVE);
    }
    expect_ok(kiln_graph_eval(graph, input, arena, output));
}

static void expect_same_outputs(const kiln_graph *graph, const kiln_tensor *before,
                                const kiln_tensor *after, const char *pass) {
    for (uint32_t i = 0; i < graph->output.count; i++) {
        assert_int_equal(before[i].dtype, after[i].dtype);
        assert_int_equal(kiln_shape_count(&before[i].shape), kiln_shape_count(&after[i].shape));
        for (int64_t k = 0; k < kiln_shape_count(&before[i].shape); k++) {
            double a = kiln_dtype_load_f64(before[i].dtype, before[i].data, (size_t)k);
            double b = kiln_dtype_load_f64(after[i].dtype, after[i].data, (size_t)k);
            double difference = a > b ? a - b : b - a, size = a > 0 ? a : -a;
            if (a == b || (a != a && b != b)) continue;
            if (!(difference <= 1e-5 * (1 + size)))
                fail_msg("%s: output %u element %lld is %.9g, not %.9g", pass, i, (long long)k, b,
                         a);
        }
    }
}

static void every_pass_has_a_golden_text_in_which_it_does_something(void **state) {
    for (uint32_t p = 0; p < KILN_PASS_COUNT; p++) {
        kiln_graph *graph = golden_graph(*state, (kiln_pass)p);
        kiln_strbuf before = {0}, after = {0};
        kiln_graph_print(graph, &before);
        expect_ok(kiln_pass_run((kiln_pass)p, graph));
        kiln_graph_print(graph, &after);
        if (strcmp(before.data, after.data) == 0)
            fail_msg("%s changes nothing there", kiln_pass_get((kiln_pass)p)->name);
        kiln_strbuf_deinit(&before);
        kiln_strbuf_deinit(&after);
    }
}

static void every_pass_keeps_what_a_graph_computes(void **state) {
    for (uint32_t shown = 0; shown < KILN_PASS_COUNT; shown++) {
        for (uint32_t p = 0; p < KILN_PASS_COUNT; p++) {
            kiln_graph *graph = golden_graph(*state, (kiln_pass)shown);
            kiln_tensor before[PORTS_MAX], after[PORTS_MAX];
            eval(graph, *state, before);
            expect_ok(kiln_pass_run((kiln_pass)p, graph));
            eval(graph, *state, after);
            expect_same_outputs(graph, before, after, kiln_pass_get((kiln_pass)p)->name);
        }
    }
}

static void all_passes_together_keep_it_as_well(void **state) {
    for (uint32_t shown = 0; shown < KILN_PASS_COUNT; shown++) {
        kiln_graph *graph = golden_graph(*state, (kiln_pass)shown);
        kiln_tensor before[PORTS_MAX], after[PORTS_MAX];
        eval(graph, *state, before);
        expect_ok(kiln_passes_run(graph, KILN_STR("")));
        eval(graph, *state, after);
        expect_same_outputs(graph, before, after, "all passes");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_pass_has_a_golden_text_in_which_it_does_something),
        test_with_arena(every_pass_keeps_what_a_graph_computes),
        test_with_arena(all_passes_together_keep_it_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
