/* ONNX's own backend tests (libonnx-testdata) through import, passes, task extraction and the
 * interpreter. With arguments: prints what becomes of those cases. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "compiler-core/frontend/data_set.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/graph/support.h"

#define DATA "/usr/share/libonnx-testdata/data"
#define FLOPS_MAX 4e6 /* the interpreter is slow; larger cases are the business of kiln verify */
#define PASSED_MIN 900

typedef enum outcome { PASSED, FAILED, UNSUPPORTED, SKIPPED } outcome;

static outcome report(kiln_status st, char *text, size_t size) {
    bool unsupported = kiln_status_code(st) == KILN_UNIMPLEMENTED;
    snprintf(text, size, "%s", kiln_status_text(st));
    kiln_status_free(st);
    return unsupported ? UNSUPPORTED : FAILED;
}

static const kiln_named_tensor *find_tensor(const kiln_data_set *set, kiln_str name) {
    for (uint32_t i = 0; i < set->input_count; i++)
        if (kiln_str_equal(set->input[i].name, name)) return &set->input[i];
    return NULL;
}

/* Single operators: rtol 1e-3, atol 1e-7; halves 2e-2; integers exact. */
static bool is_right(const kiln_tensor *actual, const kiln_tensor *expected) {
    if (actual->dtype != expected->dtype || !kiln_shape_equal(&actual->shape, &expected->shape))
        return false;
    bool half = expected->dtype == KILN_F16 || expected->dtype == KILN_BF16;
    kiln_compare c = kiln_tensor_compare(actual, expected, half ? 2e-2 : 1e-3, 1e-7);
    return c.mismatches == 0;
}

/* The rows that there are, where only the run knows how many: behind them are zeros. */
static kiln_tensor without_empty_rows(const kiln_graph *graph, kiln_value value,
                                      const kiln_tensor *actual, const kiln_tensor *expected) {
    kiln_tensor rows = *actual;
    if (!kiln_loop_grows(graph, value) || expected->shape.rank == 0 ||
        expected->shape.dim[0] > actual->shape.dim[0])
        return rows;
    rows.shape.dim[0] = expected->shape.dim[0];
    const uint8_t *byte = actual->data;
    for (size_t i = kiln_tensor_bytes(&rows); i < kiln_tensor_bytes(actual); i++)
        if (byte[i]) return *actual;
    return rows;
}

static double work_of(const kiln_graph *graph, kiln_arena *arena) {
    kiln_tasks tasks;
    double flops = 0;
    kiln_status st = kiln_tasks_extract(graph, arena, &tasks);
    if (st) {
        kiln_status_free(st); /* evaluation reports it */
        return 0;
    }
    for (uint32_t i = 0; i < tasks.count; i++) flops += tasks.task[i].flops * tasks.task[i].weight;
    return flops;
}

static outcome run_case(const char *folder, kiln_arena *arena, char *text, size_t size) {
    kiln_data_set set = {0};
    kiln_graph *graph = NULL;
    const char *model = kiln_arena_printf(arena, "%s/model.onnx", folder);
    kiln_status data = kiln_onnx_data_set_load(folder, 0, arena, &set);
    kiln_import_options options = {.known_count = set.input_count, .known = set.input};
    kiln_status st = kiln_import_file(model, &options, arena, &graph);
    if (st) { /* whatever the data holds, the model is not supported */
        kiln_status_free(data);
        return report(st, text, size);
    }
    graph = sent_and_read(arena, graph);
    if (!data) data = kiln_passes_run(graph, (kiln_str){0});
    if (data) return report(data, text, size);
    if (work_of(graph, arena) > FLOPS_MAX) return SKIPPED;
    kiln_tensor *input = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->input.count);
    kiln_tensor *output = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->output.count);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_named_tensor *known =
            find_tensor(&set, graph->value.data[graph->input.data[i]].name);
        if (known) input[i] = known->tensor;
    }
    st = kiln_graph_eval(graph, input, arena, output);
    if (st) return report(st, text, size);
    for (uint32_t i = 0; i < set.output_count; i++) {
        const kiln_tensor *expected = &set.output[i].tensor,
                          rows = without_empty_rows(graph, graph->output.data[i], &output[i],
                                                    expected);
        if (is_right(&rows, expected)) continue;
        snprintf(text, size, "output %u is wrong", i);
        return FAILED;
    }
    return PASSED;
}

static const char *const outcome_word[] = {"passed", "failed", "unsupported", "skipped"};

static void run_folder(const char *folder, bool verbose, uint32_t count[4]) {
    kiln_arena arena;
    char text[4096] = "";
    kiln_arena_init(&arena, 0);
    outcome result = run_case(folder, &arena, text, sizeof text);
    count[result]++;
    if (verbose || result == FAILED) printf("# %s %s %s\n", outcome_word[result], folder, text);
    kiln_arena_deinit(&arena);
}

static void backend_cases_pass_or_are_unsupported(void **state) {
    static const char *const group[] = {"node", "pytorch-converted", "pytorch-operator", "simple"};
    kiln_arena *arena = *state;
    uint32_t count[4] = {0};
    if (!kiln_file_is_folder(DATA)) skip_because("no cases in %s: install libonnx-testdata", DATA);
    for (uint32_t g = 0; g < KILN_ARRAY_COUNT(group); g++) {
        char **names;
        size_t name_count;
        const char *folder = kiln_arena_printf(arena, "%s/%s", DATA, group[g]);
        expect_ok(kiln_folder_list(folder, arena, &names, &name_count));
        for (size_t i = 0; i < name_count; i++)
            run_folder(kiln_arena_printf(arena, "%s/%s", folder, names[i]), false, count);
    }
    printf("# %u passed, %u failed, %u unsupported, %u skipped\n", count[PASSED], count[FAILED],
           count[UNSUPPORTED], count[SKIPPED]);
    assert_int_equal(count[FAILED], 0);
    assert_true(count[PASSED] >= PASSED_MIN);
}

static void missing_data_set_is_not_found(void **state) {
    kiln_data_set set;
    char *folder = make_folder(*state);
    expect_error(kiln_onnx_data_set_load(folder, 0, *state, &set), NOT_FOUND, "data set 0");
    remove_folder(folder);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(missing_data_set_is_not_found),
        test_with_arena(backend_cases_pass_or_are_unsupported),
    };
    uint32_t count[4] = {0};
    for (int i = 1; i < argc; i++) run_folder(argv[i], true, count);
    if (argc > 1) return count[FAILED] != 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
