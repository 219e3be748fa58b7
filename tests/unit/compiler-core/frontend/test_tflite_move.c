#include <string.h>

#include "tests/unit/compiler-core/frontend/tflite_support.h"

typedef struct row {
    int number;
    const char *x, *extra, *y, *result;
} row;

static void elements_go_where_the_inputs_say(void **state) {
    static const row table[] = {
        {22, "x:2,3", "3,-1", "y:3,2", "f32[3,2]: 1 2 3 4 5 6"},    /* RESHAPE */
        {22, "x:2,3", "", "y:6", "f32[6]: 1 2 3 4 5 6"},            /* by the result's shape */
        {43, "x:1,2,1", "", "y:2", "f32[2]: 1 2"},                  /* SQUEEZE */
        {70, "x:2", "-1", "y:2,1", "f32[2,1]: 1 2"},                /* EXPAND_DIMS */
        {39, "x:2,3", "1,0", "y:3,2", "f32[3,2]: 1 4 2 5 3 6"},     /* TRANSPOSE */
        {69, "x:1,2", "2,2", "y:2,4", "f32[2,4]: 1 2 1 2 1 2 1 2"}, /* TILE */
        {130, "x:2", "2,2", "y:2,2", "f32[2,2]: 1 2 1 2"},          /* BROADCAST_TO */
        {34, "x:2", "1,2", "y:5", "f32[5]: 0 1 2 0 0"},             /* PAD */
        {100, "x:3", "1,1", "y:5", "f32[5]: 2 1 2 3 2"},            /* MIRROR_PAD */
        {65, "x:2,3", "0,1;2,-1", "y:2,2", "f32[2,2]: 2 3 5 6"},    /* SLICE */
        {65, "x:2,3", "1,0;1,2", "y:1,2", "f32[1,2]: 4 5"},
        {105, "x:2,3", "1", "y:2,3", "f32[2,3]: 3 2 1 6 5 4"}, /* REVERSE_V2 */
        {45, "x:5", "1;5;2", "y:2", "f32[2]: 2 4"},            /* STRIDED_SLICE */
        {45, "x:5", "-2;9;1", "y:2", "f32[2]: 4 5"},
        {45, "x:5", "3;0;-2", "y:2", "f32[2]: 4 2"},
        {107, "x:2,2", "1", "y:2", "f32[2]: 3 4"},                /* GATHER_ND */
        {36, "x:2,2", "1,0,1", "y:3,2", "f32[3,2]: 3 4 1 2 3 4"}, /* GATHER */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)

        expect_tflite(
            *state,
            one_operator(*state, table[i].number, table[i].x, table[i].y, table[i].extra, NULL),
            table[i].result);
}

static void masks_of_strided_slices_reach_to_the_edge(void **state) {
    flat_table *both = flat_int(flat_int(flat_table_of(*state), 0, 4, 1), 1, 4, 1),
               *shrink = flat_int(flat_table_of(*state), 4, 4, 1);
    expect_tflite(*state, one_operator(*state, 45, "x:3", "y:3", "1;2;-1", both), "f32[3]: 3 2 1");
    expect_tflite(*state, one_operator(*state, 45, "x:3,2", "y:2", "-1;0;1", shrink),
                  "f32[2]: 5 6");
    expect_tflite_refused(*state, one_operator(*state, 45, "x:3,2", "y:2", "3;4;1", shrink),
                          KILN_INVALID_ARGUMENT, "from 3 by 1 of 3");
    expect_tflite_refused(*state, one_operator(*state, 45, "x:3", "y:3", "0;3;0", NULL),
                          KILN_INVALID_ARGUMENT, "from 0 by 0 of 3");
    expect_tflite_refused(
        *state,
        one_operator(*state, 45, "x:3", "y:3", "0;3;1", flat_int(flat_table_of(*state), 3, 4, 1)),
        KILN_UNIMPLEMENTED, "ellipses, new dimensions or offsets");
}

static void joined_tensors_stand_side_by_side(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2,1", NULL, 0);
    tflite_tensor(&m, T_F32, "c:2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "p:2,2,2", NULL, 0);
    tflite_operator(&m, 2 /* CONCATENATION */, "0,0", "1",
                    flat_int(flat_table_of(*state), 0, 4, -1));
    tflite_operator(&m, 83 /* PACK */, "1,1", "2", flat_int(flat_table_of(*state), 1, 4, 1));
    expect_tflite(*state, tflite_bytes(&m, "0", "2"), "f32[2,2,2]: 1 1 1 1 2 2 2 2");
}

/* More than a kernel has arguments. */
static void many_tensors_are_joined_in_steps(void **state) {
    kiln_strbuf inputs = {0};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:100", NULL, 0);
    for (int i = 0; i < 50; i++) kiln_strbuf_text(&inputs, i ? ",0" : "0");
    tflite_operator(&m, 2 /* CONCATENATION */, inputs.data, "1", NULL);
    kiln_strbuf_deinit(&inputs);
    const kiln_graph *graph = import_tflite(*state, tflite_bytes(&m, "0", "1"));
    for (kiln_node n = 1; n < graph->node.count; n++)
        assert_true(graph->node.data[n].input_count <= 32);
    assert_int_equal(graph->value.data[graph->output.data[0]].shape.dim[0], 100);
}

static kiln_str cut_in_two(kiln_arena *arena, int number, const char *inputs, const char *y) {
    const int32_t one[] = {1}, sizes[] = {-1, 1};
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, "x:2,2", NULL, 0);
    tflite_tensor(&m, T_I32, "a:", one, sizeof one);
    tflite_tensor(&m, T_I32, "s:2", sizes, sizeof sizes);
    tflite_tensor(&m, T_F32, kiln_arena_printf(arena, "y:%s", y), NULL, 0);
    tflite_tensor(&m, T_F32, kiln_arena_printf(arena, "z:%s", y), NULL, 0);
    tflite_operator(&m, number, inputs, "3,4", flat_int(flat_table_of(arena), 1, 4, 1));
    return tflite_bytes(&m, "0", "3,4");
}

static void cut_tensors_come_in_order(void **state) {
    expect_tflite(*state, cut_in_two(*state, 49 /* SPLIT */, "1,0", "2,1"),
                  "f32[2,1]: 1 3; f32[2,1]: 2 4");
    expect_tflite(*state, cut_in_two(*state, 102 /* SPLIT_V */, "0,2,1", "2,1"),
                  "f32[2,1]: 1 3; f32[2,1]: 2 4");
    expect_tflite(*state, cut_in_two(*state, 88 /* UNPACK */, "0", "2"),
                  "f32[2]: 1 3; f32[2]: 2 4");
}

/* SHAPE, a part of it, PACK and RESHAPE: how converters write what they could have known. */
static void shapes_that_operators_compute_are_known(void **state) {
    const int32_t zero[] = {0}, one[] = {1}, rest[] = {-1};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2,3,1", NULL, 0);
    tflite_tensor(&m, T_I32, "shape:3", NULL, 0);
    tflite_tensor(&m, T_I32, "from:1", zero, sizeof zero);
    tflite_tensor(&m, T_I32, "to:1", one, sizeof one);
    tflite_tensor(&m, T_I32, "first:", NULL, 0);
    tflite_tensor(&m, T_I32, "rest:", rest, sizeof rest);
    tflite_tensor(&m, T_I32, "wanted:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:2,3", NULL, 0);
    tflite_operator(&m, 77 /* SHAPE */, "0", "1", NULL);
    tflite_operator(&m, 45 /* STRIDED_SLICE */, "1,2,3,3", "4",
                    flat_int(flat_table_of(*state), 4, 4, 1));
    tflite_operator(&m, 83 /* PACK */, "4,5", "6", NULL);
    tflite_operator(&m, 22 /* RESHAPE */, "0,6", "7", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "7"), "f32[2,3]: 1 2 3 4 5 6");
}

/* Bytes whose scale stays are moved as they are, and padded with the zero point. */
static void quantised_bytes_are_padded_with_their_zero_point(void **state) {
    const float half[] = {0.5f};
    const int64_t zero[] = {7};
    const int32_t pads[] = {1, 1};
    tflite_model m = tflite_model_of(*state);
    tflite_quantise(tflite_tensor(&m, T_I8, "x:2", NULL, 0), half, zero, 1, 0);
    tflite_tensor(&m, T_I32, "p:1,2", pads, sizeof pads);
    tflite_quantise(tflite_tensor(&m, T_I8, "y:4", NULL, 0), half, zero, 1, 0);
    tflite_operator(&m, 34 /* PAD */, "0,1", "2", NULL);
    const kiln_str bytes = tflite_bytes(&m, "0", "2");
    expect_tflite(*state, bytes, "i8[4]: 7 1 2 7");
    assert_null(strstr(text_of_tflite(*state, bytes), "quantize_linear"));
}

static void moves_out_of_a_tensor_are_refused(void **state) {
    static const struct {
        int number;
        const char *x, *extra, *needle;
    } table[] = {{22, "x:2,3", "4,2", "RESHAPE"},
                 {65, "x:3", "1;3", "3 elements from 1 of 3"},
                 {65, "x:3", "0,0;1,1", "2 begins and 2 sizes of 1 dimensions"},
                 {34, "x:3", "1,1,1", "3 paddings of 1 dimensions"},
                 {34, "x:3", "-1,1", "negative"},
                 {70, "x:3", "3", "axis 3 of 2 dimensions"},
                 {39, "x:2,3", "0,0", "TRANSPOSE"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        expect_tflite_refused(
            *state, one_operator(*state, table[i].number, table[i].x, "y:3", table[i].extra, NULL),
            KILN_INVALID_ARGUMENT, table[i].needle);
    expect_tflite_refused(
        *state,
        one_operator(*state, 100, "x:3", "y:5", "1,1", flat_int(flat_table_of(*state), 0, 1, 1)),
        KILN_UNIMPLEMENTED, "mirroring that repeats the edge");
}

/* ---- blocks (blocks.c) ----------------------------------------------------------------------- */

static void blocks_become_channels_and_channels_blocks(void **state) {
    flat_table *two = flat_int(flat_table_of(*state), 0, 4, 2);
    expect_tflite(*state, one_operator(*state, 26, "x:1,2,2,1", "y:1,1,1,4", "", two),
                  "f32[1,1,1,4]: 1 2 3 4");
    expect_tflite(*state, one_operator(*state, 5, "x:1,1,1,4", "y:1,2,2,1", "", two),
                  "f32[1,2,2,1]: 1 2 3 4");
}

static kiln_str batches(kiln_arena *arena, int number, const char *x, const char *y,
                        const int32_t *edge) {
    const int32_t two[] = {2, 2};
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, x, NULL, 0);
    tflite_tensor(&m, T_I32, "b:2", two, sizeof two);
    tflite_tensor(&m, T_I32, "e:2,2", edge, 4 * sizeof *edge);
    tflite_tensor(&m, T_F32, y, NULL, 0);
    tflite_operator(&m, number, "0,1,2", "3", NULL);
    return tflite_bytes(&m, "0", "3");
}

static void blocks_become_images_of_a_batch_and_back(void **state) {
    const int32_t none[4] = {0}, edge[] = {1, 0, 0, 1}, minus[] = {0, -1, 0, 0};
    expect_tflite(*state, batches(*state, 38, "x:1,2,4,1", "y:4,1,2,1", none),
                  "f32[4,1,2,1]: 1 3 2 4 5 7 6 8");
    expect_tflite(*state, batches(*state, 38, "x:1,1,3,1", "y:4,1,2,1", edge),
                  "f32[4,1,2,1]: 0 0 0 0 1 3 2 0");
    expect_tflite(*state, batches(*state, 37, "x:4,1,2,1", "y:1,2,4,1", none),
                  "f32[1,2,4,1]: 1 3 2 4 5 7 6 8");
    expect_tflite(*state, batches(*state, 37, "x:4,1,2,1", "y:1,1,3,1", edge),
                  "f32[1,1,3,1]: 5 7 6");
    expect_tflite_refused(*state, batches(*state, 38, "x:1,2,4,1", "y:4,1,2,1", minus),
                          KILN_INVALID_ARGUMENT, "its blocks do not fit");
    expect_tflite_refused(*state, batches(*state, 38, "x:1,2,3,1", "y:4,1,2,1", none),
                          KILN_INVALID_ARGUMENT, "SPACE_TO_BATCH_ND");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(elements_go_where_the_inputs_say),
        test_with_arena(masks_of_strided_slices_reach_to_the_edge),
        test_with_arena(joined_tensors_stand_side_by_side),
        test_with_arena(many_tensors_are_joined_in_steps),
        test_with_arena(cut_tensors_come_in_order),
        test_with_arena(shapes_that_operators_compute_are_known),
        test_with_arena(quantised_bytes_are_padded_with_their_zero_point),
        test_with_arena(moves_out_of_a_tensor_are_refused),
        test_with_arena(blocks_become_channels_and_channels_blocks),
        test_with_arena(blocks_become_images_of_a_batch_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
