#include "compiler-core/frontend/isolated.h"
#include "tests/unit/compiler-core/frontend/tflite_support.h"

#include <string.h>

enum { RELU = 19, RNN = 24, CUSTOM = 32 };

/* y = relu(x), x being of that type. */
static tflite_model relu_of(kiln_arena *arena, int type) {
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, type, "x:2", NULL, 0);
    tflite_tensor(&m, type, "y:2", NULL, 0);
    tflite_operator(&m, RELU, "0", "1", NULL);
    return m;
}

static void ports_have_the_names_of_the_file(void **state) {
    tflite_model m = relu_of(*state, T_F32);
    const kiln_str bytes = tflite_bytes(&m, "0", "1,1");
    const kiln_graph *graph = import_tflite(*state, bytes);
    assert_true(kiln_str_is(graph->value.data[graph->input.data[0]].name, "x"));
    assert_true(kiln_str_is(graph->value.data[graph->output.data[0]].name, "y"));
    assert_int_equal(graph->output.count, 2);
}

/* An output that stands with channels first has another value of that name. */
static void outputs_keep_their_names_when_they_are_transposed(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,2,2,1", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,1,1,1", NULL, 0);
    flat_table *pool = flat_table_of(*state);
    for (uint32_t field = 1; field <= 4; field++) flat_int(pool, field, 4, 2);
    tflite_operator(&m, 17 /* MAX_POOL_2D */, "0", "1", pool);
    const kiln_graph *graph = import_tflite(*state, tflite_bytes(&m, "0", "1"));
    assert_true(kiln_str_is(graph->value.data[graph->output.data[0]].name, "y"));
}

static void outputs_may_be_inputs_or_constants(void **state) {
    const float c[] = {5, 6};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "c:2", c, sizeof c);
    expect_tflite(*state, tflite_bytes(&m, "0", "0,1"), "f32[2]: 1 2; f32[2]: 5 6");
}

static void tensors_without_a_name_or_with_the_same_one_are_told_apart(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, ":2", NULL, 0);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_operator(&m, RELU, "0", "1", NULL);
    tflite_operator(&m, RELU, "1", "2", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "1,2"), "f32[2]: 1 2; f32[2]: 1 2");
}

/* ---- all that is not supported, in one error ------------------------------------------------- */

static void everything_unsupported_is_listed_at_once(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", NULL, 0);
    tflite_tensor(&m, 5 /* STRING */, "s:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:2", NULL, 0);
    tflite_operator(&m, RNN, "0", "1", NULL);
    tflite_operator(&m, RNN, "1", "2", NULL);
    flat_text(tflite_operator(&m, CUSTOM, "2", "4", NULL), 1, "Mine");
    tflite_operator(&m, RELU, "3", "4", NULL);
    tflite_operator(&m, 4711, "0", "4", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "4"), KILN_UNIMPLEMENTED,
                          "4 things of this model are not supported:\n"
                          "  operator RNN\n"
                          "  custom operator \"Mine\"\n"
                          "  tensor \"s\": elements of a type that is not supported\n"
                          "  operator number 4711, which is not known");
}

static void tensors_of_other_kinds_are_refused(void **state) {
    tflite_model m = relu_of(*state, T_F32);
    flat_child(tflite_tensor(&m, T_F32, "v:2", NULL, 0), 6, flat_table_of(*state));
    tflite_operator(&m, RELU, "2", "1", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_UNIMPLEMENTED,
                          "tensor \"v\": sparse");
    m = relu_of(*state, T_F32);
    tflite_tensor(&m, T_F32, "v:1,1,1,1,1,1,1,1,1", NULL, 0);
    tflite_operator(&m, RELU, "2", "1", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_UNIMPLEMENTED,
                          "tensor \"v\": more dimensions");
}

static void other_versions_and_models_without_a_subgraph_are_refused(void **state) {
    flat_table *old = flat_int(flat_table_of(*state), 0, 4, 2);
    expect_tflite_refused(*state, flat_bytes(old, "TFL3"), KILN_UNIMPLEMENTED,
                          "version 2 of TFLite's schema; 3 is read");
    flat_table *none = flat_int(flat_table_of(*state), 0, 4, 3);
    expect_tflite_refused(*state, flat_bytes(none, "TFL3"), KILN_INVALID_ARGUMENT,
                          "the model has no subgraph");
}

/* ---- contradictions -------------------------------------------------------------------------- */

static void operands_that_are_not_there_are_refused(void **state) {
    static const struct {
        const char *inputs, *outputs, *graph_inputs, *graph_outputs, *needle;
    } table[] = {{"7", "1", "0", "1", "input 0 is tensor 7 of 2"},
                 {"0", "-2", "0", "1", "output 0 is tensor -2 of 2"},
                 {"0", "1", "9", "1", "an input of the model is tensor 9 of 2"},
                 {"0", "1", "0", "-1", "an output of the model is tensor -1 of 2"},
                 {"0", "1", "0,0", "1", "input \"x\" is listed twice"},
                 {"-1", "1", "0", "1", "input 0 is missing"},
                 {"1", "1", "0", "1", "tensor \"y\": it has no data and no earlier operator"},
                 {"0", "0", "0", "1", "its result \"x\" is there already"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_F32, "x:2", NULL, 0);
        tflite_tensor(&m, T_F32, "y:2", NULL, 0);
        tflite_operator(&m, RELU, table[i].inputs, table[i].outputs, NULL);
        expect_tflite_refused(*state,
                              tflite_bytes(&m, table[i].graph_inputs, table[i].graph_outputs),
                              KILN_INVALID_ARGUMENT, table[i].needle);
    }
}

static void results_must_have_the_shape_and_type_of_the_file(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:3", NULL, 0);
    tflite_operator(&m, RELU, "0", "1", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_INVALID_ARGUMENT,
                          "its result \"y\" has shape [2], the file says [3]");
    m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_I32, "y:2", NULL, 0);
    tflite_operator(&m, RELU, "0", "1", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_INVALID_ARGUMENT,
                          "operator 0 (RELU): its result \"y\" is f32 instead of i32");
}

static kiln_str with_constant(kiln_arena *arena, int type, const char *shape, const void *data,
                              size_t size) {
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, type, shape, data, size);
    return tflite_bytes(&m, "", "0");
}

static void constants_must_have_the_size_of_their_shape(void **state) {
    const float c[] = {1, 2, 3};
    const uint8_t packed[] = {0x7f, 0x08}, truth[] = {0, 7};
    expect_tflite(*state, with_constant(*state, T_F32, "c:3", c, sizeof c), "f32[3]: 1 2 3");
    expect_tflite_refused(*state, with_constant(*state, T_F32, "c:4", c, sizeof c),
                          KILN_INVALID_ARGUMENT, "12 bytes of data instead of 16");
    expect_tflite_refused(*state, with_constant(*state, T_F32, "c:2000000000,2000000000", c, 12),
                          KILN_OUT_OF_RANGE, "c");
    expect_tflite(*state, with_constant(*state, 17 /* INT4 */, "c:3", packed, sizeof packed),
                  "i8[3]: -1 7 -8");
    expect_tflite(*state, with_constant(*state, T_BOOL, "c:2", truth, sizeof truth),
                  "bool[2]: 0 1");
    expect_tflite_refused(*state, with_constant(*state, T_F32, "c:-1", c, 0), KILN_INVALID_ARGUMENT,
                          "tensor \"c\": dimension 0 is negative");
}

/* Data of large files stands behind the tables. */
static void constants_may_stand_behind_the_tables(void **state) {
    const float c[] = {1, 2};
    for (int beyond = 0; beyond <= 1; beyond++) {
        tflite_model m = tflite_model_of(*state);
        flat_int(tflite_tensor(&m, T_F32, "c:2", NULL, 0), 2, 4, 1);
        flat_table *buffer = flat_table_of(*state);
        flat_append(m.root, 4, buffer);
        flat_ints(flat_ints(m.graph, 1, ""), 2, "0");
        const size_t size = flat_bytes(m.root, "TFL3").size + 16; /* two more fields of 8 bytes */
        flat_int(flat_int(buffer, 1, 8, (int64_t)(size + 8)), 2, 8, beyond ? 1024 : sizeof c);
        kiln_str bytes = flat_bytes(m.root, "TFL3");
        char *file = kiln_arena_alloc(*state, bytes.size + 64);
        memcpy(file, bytes.data, bytes.size);
        memcpy(file + size + 8, c, sizeof c);
        const kiln_str whole = {file, bytes.size + 64};
        if (beyond)
            expect_tflite_refused(*state, whole, KILN_INVALID_ARGUMENT, "outside of the file");
        else
            expect_tflite(*state, whole, "f32[2]: 1 2");
    }
}

static void quantisations_that_do_not_fit_are_refused(void **state) {
    static const struct {
        float scale[3];
        int64_t zero[3];
        uint32_t count;
        int axis;
        const char *needle;
    } table[] = {{{1, 1, 1}, {0}, 3, 0, "3 scales along dimension 0 do not fit its shape"},
                 {{1, 1}, {0}, 2, 1, "2 scales along dimension 1 do not fit"},
                 {{1, 1}, {0}, 2, -1, "2 scales along dimension -1 do not fit"},
                 {{-1}, {0}, 1, 0, "scale 0 is -1"},
                 {{1}, {200}, 1, 0, "zero point 200 is no i8"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        tflite_model m = tflite_model_of(*state);
        tflite_quantise(tflite_tensor(&m, T_I8, "x:2", NULL, 0), table[i].scale, table[i].zero,
                        table[i].count, table[i].axis);
        expect_tflite_refused(*state, tflite_bytes(&m, "0", "0"), KILN_INVALID_ARGUMENT,
                              table[i].needle);
    }
}

/* ---- options of the import ------------------------------------------------------------------- */

static kiln_status import_with_dim(kiln_arena *arena, const char *name, int64_t value,
                                   kiln_graph **out_graph) {
    const kiln_str names[] = {kiln_str_from(name)};
    const kiln_import_options options = {.dim_count = 1, .dim_name = names, .dim_value = &value};
    tflite_model m = tflite_model_of(arena);
    flat_ints(tflite_tensor(&m, T_F32, "x:1,2", NULL, 0), 7, "-1,2");
    flat_ints(tflite_tensor(&m, T_F32, "y:1,2", NULL, 0), 7, "-1,2");
    tflite_operator(&m, RELU, "0", "1", NULL);
    return kiln_import_bytes(tflite_bytes(&m, "0", "1"), NULL, &options, arena, out_graph);
}

static void open_dimensions_are_what_the_caller_says(void **state) {
    kiln_graph *graph = NULL;
    expect_ok(import_with_dim(*state, "x.0", 3, &graph));
    assert_string_equal(result_of(*state, graph), "f32[3,2]: 1 2 3 4 5 6");
    expect_error(import_with_dim(*state, "x.1", 3, &graph), INVALID_ARGUMENT,
                 "no open dimension \"x.1\"");
    expect_error(import_with_dim(*state, "x.0", -3, &graph), INVALID_ARGUMENT, "negative");
}

/* RESHAPE by an input of the model. */
static void inputs_that_operators_need_become_constants(void **state) {
    int32_t wanted[] = {3, 1};
    uint32_t bound = 0;
    kiln_graph *graph = NULL;
    const kiln_named_tensor known = {KILN_STR("s"), {KILN_I32, {1, {2}}, wanted}};
    kiln_import_options options = {.known_count = 1, .known = &known, .out_bound_count = &bound};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:3", NULL, 0);
    tflite_tensor(&m, T_I32, "s:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:3,1", NULL, 0);
    tflite_operator(&m, 22 /* RESHAPE */, "0,1", "2", NULL);
    const kiln_str bytes = tflite_bytes(&m, "0,1", "2");
    expect_ok(kiln_import_bytes(bytes, NULL, &options, *state, &graph));
    assert_int_equal(bound, 1);
    assert_int_equal(graph->input.count, 1);
    assert_string_equal(result_of(*state, graph), "f32[3,1]: 1 2 3");
    expect_tflite_refused(*state, bytes, KILN_UNIMPLEMENTED,
                          "input 1 must be known when compiling");
}

/* As commands read models. */
static void a_process_without_rights_reads_the_same(void **state) {
    kiln_graph *graph = NULL;
    kiln_mapping bytes = {0};
    const char *path = kiln_arena_printf(*state, "%s/m.tflite", make_folder(*state));
    tflite_model m = relu_of(*state, T_F32);
    expect_ok(kiln_file_write(path, tflite_bytes(&m, "0", "1"), 0600));
    expect_ok(kiln_import_isolated(path, NULL, *state, &graph, &bytes));
    assert_string_equal(result_of(*state, graph), "f32[2]: 1 2");
    kiln_file_unmap(&bytes);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(ports_have_the_names_of_the_file),
        test_with_arena(outputs_keep_their_names_when_they_are_transposed),
        test_with_arena(outputs_may_be_inputs_or_constants),
        test_with_arena(tensors_without_a_name_or_with_the_same_one_are_told_apart),
        test_with_arena(everything_unsupported_is_listed_at_once),
        test_with_arena(tensors_of_other_kinds_are_refused),
        test_with_arena(other_versions_and_models_without_a_subgraph_are_refused),
        test_with_arena(operands_that_are_not_there_are_refused),
        test_with_arena(results_must_have_the_shape_and_type_of_the_file),
        test_with_arena(constants_must_have_the_size_of_their_shape),
        test_with_arena(constants_may_stand_behind_the_tables),
        test_with_arena(quantisations_that_do_not_fit_are_refused),
        test_with_arena(open_dimensions_are_what_the_caller_says),
        test_with_arena(inputs_that_operators_need_become_constants),
        test_with_arena(a_process_without_rights_reads_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
