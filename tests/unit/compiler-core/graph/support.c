#include "tests/unit/compiler-core/graph/support.h"

#include <string.h>

#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/task/task.h"
#include "tests/support/graph_parse.h"
#include "tests/support/interpreter.h"

kiln_graph *graph_of(kiln_arena *arena, const char *text) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_graph_parse(kiln_str_from(text), arena, &graph));
    return graph;
}

kiln_str bytes_of_graph(kiln_arena *arena, const kiln_graph *graph) {
    kiln_graph_bytes bytes = kiln_graph_encode(graph, arena);
    char *whole = kiln_arena_alloc_aligned(arena, KILN_GRAPH_DATA_ALIGNMENT, bytes.size);
    size_t at = 0;
    for (uint32_t i = 0; i < bytes.part_count; i++) {
        memcpy(whole + at, bytes.part[i].data, bytes.part[i].size);
        at += bytes.part[i].size;
    }
    assert_int_equal(at, bytes.size);
    return (kiln_str){whole, at};
}

kiln_graph *sent_and_read(kiln_arena *arena, const kiln_graph *graph) {
    kiln_graph *again = NULL;
    kiln_strbuf text = {0}, text_again = {0};
    expect_ok(kiln_graph_decode(bytes_of_graph(arena, graph), arena, &again));
    kiln_graph_print(graph, &text);
    kiln_graph_print(again, &text_again);
    assert_string_equal(text.data, text_again.data);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
    return again;
}

static void print_tensor(const kiln_tensor *tensor, kiln_strbuf *out) {
    kiln_strbuf_text(out, kiln_dtype_name(tensor->dtype));
    kiln_shape_print(&tensor->shape, out);
    kiln_strbuf_char(out, ':');
    for (int64_t i = 0; i < kiln_shape_count(&tensor->shape); i++)
        kiln_strbuf_printf(out, " %.6g",
                           kiln_dtype_load_f64(tensor->dtype, tensor->data, (size_t)i));
}

kiln_tensor *inputs_of(kiln_arena *arena, const kiln_graph *graph) {
    kiln_tensor *input = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->input.count);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        for (int64_t k = 0; k < kiln_shape_count(&info->shape); k++)
            kiln_dtype_store_i64(info->dtype, input[i].data, (size_t)k, k + 1);
    }
    return input;
}

char *result_of(kiln_arena *arena, const kiln_graph *graph) {
    kiln_tensor *output = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->output.count);
    expect_ok(kiln_graph_eval(graph, inputs_of(arena, graph), arena, output));
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < graph->output.count; i++) {
        if (i) kiln_strbuf_text(&text, "; ");
        print_tensor(&output[i], &text);
    }
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static char *text_of(kiln_arena *arena, const char *inputs, const char *node) {
    return kiln_arena_printf(arena, "graph t\n%s\n%s\noutput y\n", inputs, node);
}

void expect_op(kiln_arena *arena, const char *inputs, const char *node, const char *result) {
    kiln_graph *graph = graph_of(arena, text_of(arena, inputs, node));
    assert_string_equal(result_of(arena, graph), result);
}

void expect_op_refused(kiln_arena *arena, const char *inputs, const char *node,
                       const char *needle) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_graph_parse(kiln_str_from(text_of(arena, inputs, node)), arena, &graph);
    if (!st) fail_msg("'%s' is accepted", node);
    expect_contains(kiln_status_text(st), needle);
    kiln_status_free(st);
}

kiln_tensor tensor_from(kiln_arena *arena, const kiln_shape *shape, const float *value) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F32, shape);
    memcpy(tensor.data, value, kiln_tensor_bytes(&tensor));
    return tensor;
}

void expect_tensor(const kiln_tensor *tensor, const kiln_shape *shape, const float *value) {
    assert_int_equal(tensor->dtype, KILN_F32);
    assert_int_equal(tensor->shape.rank, shape->rank);
    for (uint32_t d = 0; d < shape->rank; d++)
        assert_int_equal(tensor->shape.dim[d], shape->dim[d]);
    for (int64_t i = 0; i < kiln_shape_count(shape); i++)
        assert_float_equal(kiln_dtype_load_f64(KILN_F32, tensor->data, (size_t)i), value[i], 1e-6);
}
