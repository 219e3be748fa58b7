/* Graph text from strangers: it parses or is refused; what parses prints, parses again and prints
 * the same; every pass keeps it whole, and small graphs mean the same before and after the passes.
 */
#include <string.h>

#include "base/check.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/task/task.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/graph_parse.h"
#include "tests/support/interpreter.h"

#define POINTS_MAX 20000.0 /* work that one input may ask for */
#define PORTS_MAX 8

/* Elements of all values, and points of all kernels. */
static double work_of(const kiln_graph *graph, kiln_arena *arena) {
    double work = 0;
    kiln_tasks tasks = {0};
    for (kiln_value v = 1; v < graph->value.count; v++)
        work += (double)kiln_shape_count(&graph->value.data[v].shape);
    if (work > POINTS_MAX) return work;
    kiln_status_free(
        kiln_tasks_extract(graph, arena, &tasks)); /* too many arguments: nothing to run */
    for (uint32_t t = 0; t < tasks.count; t++) {
        const kiln_program *te = tasks.task[t].te;
        for (kiln_block b = 1; b < te->block.count; b++) {
            double own = 1;
            for (uint32_t i = 0; i < te->block.data[b].iter_count; i++)
                own *= (double)te->block.data[b].iter[i].extent;
            work += own;
        }
    }
    return work;
}

static bool evaluate(const kiln_graph *graph, kiln_arena *arena, kiln_tensor *output) {
    kiln_tensor input[PORTS_MAX];
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        kiln_fill_data(input[i].data, info->dtype, (size_t)kiln_shape_count(&info->shape), i,
                       KILN_FILL_POSITIVE);
    }
    kiln_status st = kiln_graph_eval(graph, input, arena, output);
    bool good = !st;
    KILN_CHECK(!st || kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED);
    kiln_status_free(st);
    return good;
}

/* Folding may round differently, so floats are compared loosely and only where they are numbers. */
static void compare(const kiln_tensor *before, const kiln_tensor *after) {
    KILN_CHECK(before->dtype == after->dtype);
    KILN_CHECK(kiln_shape_equal(&before->shape, &after->shape));
    if (!kiln_dtype_is_float(before->dtype)) return;
    for (int64_t i = 0; i < kiln_shape_count(&before->shape); i++) {
        double a = kiln_dtype_load_f64(before->dtype, before->data, (size_t)i);
        double b = kiln_dtype_load_f64(after->dtype, after->data, (size_t)i);
        if (a > -1e3 && a < 1e3 && b > -1e3 && b < 1e3) KILN_CHECK(a - b < 1 && b - a < 1);
    }
}

static void run_passes(kiln_graph *graph, kiln_arena *arena) {
    bool small = graph->input.count <= PORTS_MAX && graph->output.count <= PORTS_MAX &&
                 work_of(graph, arena) <= POINTS_MAX;
    kiln_tensor before[PORTS_MAX], after[PORTS_MAX];
    if (!small || !evaluate(graph, arena, before)) return;
    kiln_status st = kiln_passes_run(graph, (kiln_str){0});
    KILN_CHECK(!st);
    if (!evaluate(graph, arena, after)) return;
    for (uint32_t i = 0; i < graph->output.count; i++) compare(&before[i], &after[i]);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_graph *graph = NULL, *again = NULL;
    kiln_strbuf text = {0}, text_again = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_graph_parse((kiln_str){(const char *)data, size}, &arena, &graph);
    if (!st) {
        kiln_graph_print(graph, &text);
        kiln_status reparsed = kiln_graph_parse(kiln_strbuf_view(&text), &arena, &again);
        KILN_CHECK(!reparsed);
        kiln_graph_print(again, &text_again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&text_again)));
        for (kiln_node n = 1; n < graph->node.count; n++)
            graph->node.data[n].group = 0; /* fusion sets them */
        run_passes(graph, &arena);
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
    kiln_arena_deinit(&arena);
    return 0;
}
