/* interpret MODEL.onnx INPUTS OUTPUTS: makes inputs of a model and what the interpreter computes of
 * them, as .npy files in two folders that are there: what modules are compared with that ran
 * elsewhere. */
#include <stdio.h>

#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "tests/support/interpreter.h"

static kiln_status write(const char *folder, const kiln_value_info *value,
                         const kiln_tensor *tensor, kiln_arena *arena) {
    return kiln_tensor_write_npy(
        kiln_arena_printf(arena, "%s/%.*s.npy", folder, KILN_STR_ARG(value->name)), tensor);
}

static void make_input(const kiln_value_info *value, uint64_t seed, kiln_arena *arena,
                       kiln_tensor *out) {
    const size_t count = (size_t)kiln_shape_count(&value->shape);
    *out = (kiln_tensor){value->dtype, value->shape,
                         kiln_arena_alloc(arena, count * kiln_dtype_size(value->dtype))};
    kiln_fill_data(out->data, out->dtype, count, seed, KILN_FILL_UNIFORM);
}

static kiln_status interpret(char **argv, kiln_arena *arena) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_import_file(argv[1], NULL, arena, &graph);
    if (!st) st = kiln_passes_run(graph, KILN_STR(""));
    if (st) return st;
    kiln_tensor *input = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->input.count);
    kiln_tensor *output = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->output.count);
    for (uint32_t i = 0; !st && i < graph->input.count; i++) {
        const kiln_value_info *value = &graph->value.data[graph->input.data[i]];
        make_input(value, i + 1, arena, &input[i]);
        st = write(argv[2], value, &input[i], arena);
    }
    if (!st) st = kiln_graph_eval(graph, input, arena, output);
    for (uint32_t i = 0; !st && i < graph->output.count; i++)
        st = write(argv[3], &graph->value.data[graph->output.data[i]], &output[i], arena);
    return st;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = interpret(argv, &arena);
    if (st) fprintf(stderr, "interpret: %s\n", kiln_status_text(st));
    const int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
