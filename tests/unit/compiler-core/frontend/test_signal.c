/* Windows, weights and transforms: stated values, and sums written out. */
#include <math.h>
#include <string.h>

#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static const double pi = 3.14159265358979323846;

static double at(const kiln_tensor *t, int64_t index) {
    return (double)((const float *)t->data)[index];
}

static void expect_near(const kiln_tensor *t, const kiln_shape *shape, const double *wanted) {
    assert_true(kiln_shape_equal(&t->shape, shape));
    for (int64_t i = 0; i < kiln_shape_count(shape); i++)
        if (!(fabs(at(t, i) - wanted[i]) < 1e-5))
            fail_msg("element %d is %g, not %g", (int)i, at(t, i), wanted[i]);
}

/* One node over known numbers: what it is when the model is read. */
static kiln_tensor constant_of(kiln_arena *arena, message node, const int64_t *number,
                               uint32_t count) {
    static const char *const name[] = {"a", "b", "c", "d", "e"};
    model_parts parts = {.opset = 20,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node},
                         .initializer_count = count};
    for (uint32_t i = 0; i < count; i++)
        parts.initializer[i] = i64s_of(arena, name[i], &number[i], 1);
    const kiln_graph *graph = import_of(arena, &parts);
    const kiln_value value = graph->output.data[0];
    kiln_tensor input = {0}, output;
    if (kiln_value_is_constant(graph, value)) return kiln_value_tensor(graph, value);
    input = tensor_from(arena, SHAPE(1), FLOATS(0));
    expect_ok(kiln_graph_eval(graph, &input, arena, &output));
    return output;
}

static void windows_are_sums_of_cosines(void **state) {
    static const int64_t size[] = {4, 5};
    kiln_tensor y = constant_of(*state, node_of(*state, "HannWindow", "a", "y"), size, 1);
    expect_near(&y, SHAPE(4), (const double[]){0, 0.5, 1, 0.5});
    message even = with_attr_int(node_of(*state, "HannWindow", "a", "y"), "periodic", 0);
    y = constant_of(*state, even, &size[1], 1);
    expect_near(&y, SHAPE(5), (const double[]){0, 0.5, 1, 0.5, 0});
    y = constant_of(*state, node_of(*state, "HammingWindow", "a", "y"), size, 1);
    expect_near(&y, SHAPE(4), (const double[]){4 / 46.0, 25 / 46.0, 1, 25 / 46.0});
    y = constant_of(*state, node_of(*state, "BlackmanWindow", "a", "y"), size, 1);
    expect_near(&y, SHAPE(4), (const double[]){0, 0.34, 1, 0.34});
}

/* 0 to 4 kHz of a transform of 16 at 8 kHz in two bands: their edges are the bins 0, 1, 3 and 8. */
static void bands_are_triangles_on_the_mel_scale(void **state) {
    static const int64_t number[] = {2, 16, 8000, 0, 4000};
    const kiln_tensor y =
        constant_of(*state, node_of(*state, "MelWeightMatrix", "a b c d e", "y"), number, 5);
    const double step = 2595 * log10(1 + 4000.0 / 700) / 4;
    int64_t edge[4];
    for (int i = 0; i < 4; i++)
        edge[i] = (int64_t)floor(17 * 700 * (pow(10, step * i / 2595) - 1) / 8000);
    assert_true(kiln_shape_equal(&y.shape, SHAPE(9, 2)));
    for (int64_t band = 0; band < 2; band++)
        for (int64_t bin = 0; bin < 9; bin++) {
            const int64_t from = edge[band], peak = edge[band + 1], to = edge[band + 2];
            double wanted = 0;
            if (bin >= from && bin < peak) wanted = (double)(bin - from) / (double)(peak - from);
            if (bin > peak && bin < to) wanted = (double)(to - bin) / (double)(to - peak);
            if (bin == peak) wanted = 1;
            assert_float_equal(at(&y, bin * 2 + band), wanted, 1e-6);
        }
}

/* Part `q` of number `k` of the transform of `x` ([length] numbers of `parts`). */
static double part_of(const double *x, int64_t count, uint32_t parts, int64_t length, bool inverse,
                      int64_t k, uint32_t q) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double angle = (inverse ? 2 : -2) * pi * (double)(i * k) / (double)length;
        const double real = x[i * parts], imaginary = parts > 1 ? x[i * parts + 1] : 0;
        sum += q ? real * sin(angle) + imaginary * cos(angle)
                 : real * cos(angle) - imaginary * sin(angle);
    }
    return inverse ? sum / (double)length : sum;
}

static model_parts dft_of(kiln_arena *arena, const char *input, message node, int64_t axis) {
    return (model_parts){.opset = 20,
                         .input = input,
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node},
                         .initializer_count = 1,
                         .initializer = {i64s_of(arena, "a", &axis, 1)}};
}

static void transforms_are_sums_written_out(void **state) {
    static const double x[] = {1, 2, -3, 0.5, 4, -1, 2, 2, 0, 3};
    for (uint32_t way = 0; way < 2; way++) {
        const message node = with_attr_int(node_of(*state, "DFT", "x - a", "y"), "inverse", way);
        model_parts parts = dft_of(*state, "x:1,5,2", node, 1);
        kiln_tensor output,
            input = tensor_from(*state, SHAPE(1, 5, 2), FLOATS(1, 2, -3, 0.5, 4, -1, 2, 2, 0, 3));
        double wanted[10];
        for (int64_t i = 0; i < 10; i++)
            wanted[i] = part_of(x, 5, 2, 5, way, i / 2, (uint32_t)(i % 2));
        expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
        expect_near(&output, SHAPE(1, 5, 2), wanted);
    }
}

/* Along the first dimension, with zeros behind its three numbers. */
static void other_dimensions_and_lengths_can_be_transformed(void **state) {
    static const int64_t length = 4;
    static const double first[] = {1, 2, 3}, second[] = {4, -5, 6};
    model_parts parts = dft_of(*state, "x:3,2,1", node_of(*state, "DFT", "x n a", "y"), -3);
    parts.initializer[parts.initializer_count++] = i64s_of(*state, "n", &length, 1);
    kiln_tensor output, input = tensor_from(*state, SHAPE(3, 2, 1), FLOATS(1, 4, 2, -5, 3, 6));
    double wanted[16];
    for (int64_t i = 0; i < 16; i++)
        wanted[i] = part_of(i / 2 % 2 ? second : first, 3, 1, 4, false, i / 4, (uint32_t)(i % 2));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
    expect_near(&output, SHAPE(4, 2, 2), wanted);
}

/* Half a spectrum has all of a real signal in it, of odd lengths as well. */
static void half_a_spectrum_is_enough(void **state) {
    for (int64_t length = 4; length <= 5; length++) {
        const message there = with_attr_int(node_of(*state, "DFT", "x - a", "s"), "onesided", 1);
        const message back = with_attr_int(
            with_attr_int(node_of(*state, "DFT", "s n a", "y"), "onesided", 1), "inverse", 1);
        model_parts parts = dft_of(*state, length == 4 ? "x:1,4,1" : "x:1,5,1", there, 1);
        parts.node[parts.node_count++] = back;
        parts.initializer[parts.initializer_count++] = i64s_of(*state, "n", &length, 1);
        kiln_tensor output,
            input = tensor_from(*state, length == 4 ? SHAPE(1, 4, 1) : SHAPE(1, 5, 1),
                                FLOATS(3, -1, 0.25, 7, 2));
        expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
        expect_near(&output, &input.shape, (const double[]){3, -1, 0.25, 7, 2});
    }
    model_parts parts = dft_of(
        *state, "x:1,4,2", with_attr_int(node_of(*state, "DFT", "x - a", "y"), "onesided", 1), 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its input must be real");
}

static void frames_are_transformed_under_a_window(void **state) {
    static const int64_t step = 2;
    static const float window[] = {1, 0.5f, 0.25f, 2};
    model_parts parts = {
        .opset = 17,
        .input = "x:1,7,1",
        .output = "y:1",
        .node_count = 1,
        .node = {node_of(*state, "STFT", "x s w", "y")},
        .initializer_count = 2,
        .initializer = {i64s_of(*state, "s", &step, 1), floats_of(*state, "w", window, 4)}};
    static const double x[] = {1, 2, -1, 0.5, 3, -2, 4};
    kiln_tensor output,
        input = tensor_from(*state, SHAPE(1, 7, 1), FLOATS(1, 2, -1, 0.5, 3, -2, 4));
    double wanted[12];
    for (int64_t frame = 0; frame < 2; frame++) {
        double seen[4];
        for (int64_t i = 0; i < 4; i++) seen[i] = x[frame * 2 + i] * (double)window[i];
        for (int64_t i = 0; i < 6; i++)
            wanted[frame * 6 + i] = part_of(seen, 4, 1, 4, false, i / 2, (uint32_t)(i % 2));
    }
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
    expect_near(&output, SHAPE(1, 2, 3, 2), wanted);
    parts.input = "x:1,3,1";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "frames of 4 do not fit");
}

static void sizes_are_bounded_and_known(void **state) {
    static const int64_t below = -1, far = (int64_t)1 << 40, axis = 2;
    model_parts parts = {.opset = 17,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "HannWindow", "n", "y")},
                         .initializer_count = 1,
                         .initializer = {i64s_of(*state, "n", &below, 1)}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "size: -1 is out of range");
    parts.initializer[0] = i64s_of(*state, "n", &far, 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "is out of range");
    parts = dft_of(*state, "x:1,8000,2", node_of(*state, "DFT", "x - a", "y"), 1);
    expect_import_refused(*state, &parts, KILN_OUT_OF_RANGE, "a transform of 8000 numbers");
    parts = dft_of(*state, "x:1,8,2", node_of(*state, "DFT", "x - a", "y"), axis);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "axis is out of range");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(windows_are_sums_of_cosines),
        test_with_arena(bands_are_triangles_on_the_mel_scale),
        test_with_arena(transforms_are_sums_written_out),
        test_with_arena(other_dimensions_and_lengths_can_be_transformed),
        test_with_arena(half_a_spectrum_is_enough),
        test_with_arena(frames_are_transformed_under_a_window),
        test_with_arena(sizes_are_bounded_and_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
