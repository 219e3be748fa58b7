#include "compiler-core/frontend/onnx/compose.h"

#include "compiler-core/graph/graph_text.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

/* An importer as it stands before a node "n" whose inputs are those of `graph`. */
typedef struct fixture {
    kiln_importer im;
    kiln_import_options options;
    Onnx__NodeProto node;
    kiln_composer c;
} fixture;

static fixture *fixture_of(kiln_arena *arena, const char *text) {
    fixture *f = KILN_ARENA_NEW(arena, fixture);
    onnx__node_proto__init(&f->node);
    f->node.name = kiln_str_dup(arena, KILN_STR("n"));
    f->im = (kiln_importer){.graph = graph_of(arena, text),
                            .options = &f->options,
                            .node = &f->node,
                            .scope = "",
                            .budget_bytes = 1 << 20};
    kiln_map_init(&f->im.taken);
    f->c.im = &f->im;
    return f;
}

static void expect_result(kiln_arena *arena, fixture *f, kiln_value value, const char *wanted) {
    kiln_status_free(f->c.st); /* NULL, or the next line fails */
    assert_null(f->c.st);
    f->im.graph->output.data[0] = value;
    assert_string_equal(result_of(arena, f->im.graph), wanted);
    kiln_map_deinit(&f->im.taken);
}

#define TEXT(shape) "graph g\ninput x: f32[" shape "]\noutput x\n"

static void many_parts_are_cut_and_joined_in_steps(void **state) {
    fixture *f = fixture_of(*state, TEXT("100"));
    kiln_value part[100];
    kiln_compose_split(&f->c, f->im.graph->input.data[0], 0, 100, part);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(kiln_compose_shape(&f->c, part[i])->dim[0], 1);
    for (kiln_node n = 1; n < f->im.graph->node.count; n++)
        assert_true(f->im.graph->node.data[n].output_count <= KILN_COMPOSE_FAN);
    kiln_value joined = kiln_compose_concat(&f->c, part, 100, 0);
    kiln_value ends = kiln_compose_concat(
        &f->c, (kiln_value[]){kiln_compose_slice(&f->c, joined, 0, 31, 34), part[99]}, 2, 0);
    expect_result(*state, f, ends, "f32[4]: 32 33 34 100");
}

static void arithmetic_is_composed(void **state) {
    fixture *f = fixture_of(*state, TEXT("2,2"));
    kiln_value x = f->im.graph->input.data[0];
    kiln_value sum = kiln_compose_ints(&f->c, KILN_OP_REDUCE_SUM, x, "axes", (int64_t[]){1}, 1);
    kiln_value above =
        kiln_compose_binary(&f->c, KILN_OP_GREATER, sum, kiln_compose_scalar(&f->c, KILN_F32, 5));
    kiln_value chosen = kiln_compose_where(&f->c, above, kiln_compose_gemm(&f->c, x, x, 0, true),
                                           kiln_compose_filled(&f->c, KILN_F32, SHAPE(2, 2), -1));
    expect_result(*state, f, kiln_compose_cast(&f->c, chosen, KILN_I32), "i32[2,2]: -1 -1 11 25");
}

static void the_first_error_is_kept(void **state) {
    fixture *f = fixture_of(*state, TEXT("2,2"));
    kiln_value x = f->im.graph->input.data[0];
    kiln_value bad = kiln_compose_reshape(&f->c, x, SHAPE(3));
    uint32_t nodes = f->im.graph->node.count;
    assert_non_null(f->c.st);
    assert_int_equal(kiln_compose_unary(&f->c, KILN_OP_RELU, bad), 0);
    assert_int_equal(kiln_compose_scalar(&f->c, KILN_F32, 1), 0);
    assert_int_equal(f->im.graph->node.count, nodes);
    expect_contains(kiln_status_text(f->c.st), "instead of 4");
    kiln_status_free(f->c.st);
    kiln_map_deinit(&f->im.taken);
}

static void filled_tensors_are_stored_while_they_are_small(void **state) {
    fixture *f = fixture_of(*state, TEXT("1"));
    const kiln_graph *graph = f->im.graph;
    kiln_value large = kiln_compose_filled(&f->c, KILN_F32, SHAPE(5 << 20), 1);
    assert_false(kiln_value_is_constant(graph, large));
    assert_int_equal(kiln_compose_shape(&f->c, large)->dim[0], 5 << 20);
    assert_int_equal(f->im.made_bytes, 0);
    for (uint32_t i = 0; i < 8; i++) { /* 16 MiB each, as much as nodes may make */
        kiln_value stored = kiln_compose_filled(&f->c, KILN_F32, SHAPE(4 << 20), 0);
        assert_true(kiln_value_is_constant(graph, stored));
    }
    assert_false(
        kiln_value_is_constant(graph, kiln_compose_filled(&f->c, KILN_F32, SHAPE(1 << 10), 0)));
    expect_error(kiln_import_take_memory(&f->im, 1), OUT_OF_RANGE, "");
    assert_null(f->c.st);
    kiln_map_deinit(&f->im.taken);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(many_parts_are_cut_and_joined_in_steps),
        test_with_arena(arithmetic_is_composed),
        test_with_arena(the_first_error_is_kept),
        test_with_arena(filled_tensors_are_stored_while_they_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
