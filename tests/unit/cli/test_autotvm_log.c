/* Lines of AutoTVM's logs: each template's workload and tile, and what is no such line. */
#include "cli/autotvm_log.h"

#include <string.h>

#include "tests/support/test.h"

#define LINE(template, arguments, entity, result)                                             \
    "{\"input\": [\"llvm\", \"" template "\", [" arguments "], {}], \"config\": "             \
                                         "{\"index\": 7, \"code_hash\": null, \"entity\": "   \
                                         "[" entity "]}, \"result\": [" result                \
                                         ", 0.4, 1.6e9], \"version\": 0.2, \"tvm_version\": " \
                                         "\"0.8.0\"}"
#define TENSOR(shape) "[\"TENSOR\", [" shape "], \"float32\"]"
#define CONV_KNOBS                                                                     \
    "[\"tile_ic\", \"sp\", [-1, 16]], [\"tile_oc\", \"sp\", [-1, 32]], [\"tile_ow\", " \
    "\"sp\", [-1, 7]], [\"unroll_kw\", \"ot\", true]"
#define CONV(data, kernel, rest)                                                                  \
    LINE("conv2d_NCHWc.x86", TENSOR(data) ", " TENSOR(kernel) ", " rest ", \"NCHW\"", CONV_KNOBS, \
         "[0.5e-3, 0.25e-3], 0")

static kiln_autotvm_line parsed_line(const char *text) {
    kiln_autotvm_line line;
    kiln_status st = kiln_autotvm_parse(kiln_str_from(text), &line);
    if (st) fail_msg("%s", kiln_status_text(st));
    return line;
}

static void expect_numbers(const int64_t *actual, uint32_t count, const int64_t *wanted,
                           uint32_t wanted_count) {
    assert_int_equal(count, wanted_count);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(actual[i], wanted[i]);
}
#define EXPECT_NUMBERS(actual, count, ...)                  \
    expect_numbers(actual, count, (int64_t[]){__VA_ARGS__}, \
                   KILN_ARRAY_COUNT(((int64_t[]){__VA_ARGS__})))

static void expect_conv(const kiln_autotvm_line *line) {
    assert_int_equal(line->use, KILN_AUTOTVM_TAKEN);
    EXPECT_NUMBERS(line->work.result, line->work.result_count, 2, 64, 14, 28);
    EXPECT_NUMBERS(line->work.reduce, line->work.reduce_count, 32, 3, 5);
    assert_int_equal(line->work.data_count, 4);
    assert_int_equal(line->work.data[1].extent, 32);
    assert_int_equal(line->work.data[2].extent, 29); /* 13 strides and a window of 3 */
    assert_int_equal(line->work.data[2].slack, 2);
    assert_int_equal(line->work.data[3].extent, 32);
    assert_int_equal(line->work.data[3].slack, 1);
}

static void a_convolution_in_every_layout_is_the_same(void **state) {
    (void)state;
    kiln_autotvm_line line =
        parsed_line(CONV("2, 32, 28, 28", "64, 32, 3, 5", "[2, 1], [1, 2, 1, 2], [1, 1]"));
    expect_conv(&line);
    assert_int_equal(line.tile.steps, 16);
    assert_int_equal(line.tile.lanes, 32);
    assert_int_equal(line.tile.columns, 7);
    assert_int_equal(line.tile.rows, 0);
    assert_int_equal(line.cost_count, 2);
    assert_true(line.cost_ns[0] == 0.5e6 && line.cost_ns[1] == 0.25e6);
    line = parsed_line(CONV("2, 4, 28, 28, 8", "4, 4, 3, 5, 8, 16", "[2, 1], [1, 2], 1"));
    expect_conv(&line);
    line =
        parsed_line(LINE("conv2d_nhwc_spatial_pack.arm_cpu",
                         TENSOR("2, 28, 28, 32") ", " TENSOR(
                             "3, 5, 32, 64") ", [2, 1], [1, 2, 1, 2], [1, 1], \"float32\"",
                         "[\"tile_co\", \"sp\", [-1, 8]], [\"tile_oh\", \"sp\", [-1, 2]], "
                         "[\"tile_ow\", \"sp\", [-1, 4]], [\"ann_reduce\", \"an\", [\"unroll\"]]",
                         "[1e-3], 0"));
    expect_conv(&line);
    assert_int_equal(line.tile.rows, 2);
    assert_int_equal(line.tile.columns, 4);
    assert_int_equal(line.tile.lanes, 8);
}

static void a_depthwise_convolution_sums_over_its_window_alone(void **state) {
    (void)state;
    const kiln_autotvm_line line = parsed_line(
        LINE("depthwise_conv2d_NCHWc.x86",
             TENSOR("1, 32, 28, 28") ", " TENSOR("32, 1, 3, 3") ", [1, 1], [1, 1, 1, 1], [1, 1]",
             CONV_KNOBS, "[1e-3], 0"));
    assert_int_equal(line.use, KILN_AUTOTVM_TAKEN);
    EXPECT_NUMBERS(line.work.result, line.work.result_count, 1, 32, 28, 28);
    EXPECT_NUMBERS(line.work.reduce, line.work.reduce_count, 1, 3, 3);
    assert_int_equal(line.tile.steps, 0);
}

static void products_of_matrices_take_their_rows_as_columns_of_the_tile(void **state) {
    (void)state;
    kiln_autotvm_line line = parsed_line(
        LINE("dense_pack.x86", TENSOR("24, 48") ", " TENSOR("32, 48") ", null, \"float32\"",
             "[\"tile_y\", \"sp\", [-1, 2, 6]], [\"tile_x\", \"sp\", [-1, 2, 16]], "
             "[\"tile_k\", \"sp\", [-1, 4]]",
             "[1e-3], 0"));
    EXPECT_NUMBERS(line.work.result, line.work.result_count, 24, 32);
    EXPECT_NUMBERS(line.work.reduce, line.work.reduce_count, 48);
    assert_int_equal(line.tile.columns, 6);
    assert_int_equal(line.tile.lanes, 16);
    assert_int_equal(line.tile.steps, 4);
    line = parsed_line(
        LINE("batch_matmul.x86",
             TENSOR("8, 24, 48") ", " TENSOR("8, 48, 32") ", null, \"float32\", false, false", "",
             "[1e-3], 0"));
    assert_int_equal(line.use, KILN_AUTOTVM_TAKEN);
    EXPECT_NUMBERS(line.work.result, line.work.result_count, 8, 24, 32);
}

static void lines_without_a_counterpart_are_named_so(void **state) {
    (void)state;
    const char *const bytes =
        LINE("dense_pack.x86", "[\"TENSOR\", [8, 8], \"int8\"], [\"TENSOR\", [8, 8], \"int8\"]", "",
             "[1e-3], 0");
    assert_int_equal(parsed_line(bytes).use, KILN_AUTOTVM_NO_WORKLOAD);
    assert_int_equal(
        parsed_line(CONV("1, 32, 8, 8", "32, 8, 3, 3", "1, 1, 1")).use, /* four groups */
        KILN_AUTOTVM_NO_WORKLOAD);
    assert_int_equal(parsed_line(LINE("conv2d_nchw.cuda", "", "", "[1e-3], 0")).use,
                     KILN_AUTOTVM_NO_TEMPLATE);
    assert_int_equal(parsed_line(LINE("conv2d_NCHWc.x86", "", "", "[1e9], 4")).use,
                     KILN_AUTOTVM_FAILED);
}

static void expect_refused(const char *text, const char *says) {
    kiln_autotvm_line line;
    kiln_status st = kiln_autotvm_parse(kiln_str_from(text), &line);
    if (!st) fail_msg("taken: %s", text);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    if (!strstr(kiln_status_text(st), says)) fail_msg("%s: %s", text, kiln_status_text(st));
    kiln_status_free(st);
}

static void hostile_lines_are_refused(void **state) {
    (void)state;
    expect_refused("", "no JSON object");
    expect_refused("{\"input\"", "no JSON object");
    expect_refused("[1, 2]", "no object");
    expect_refused("{}", "\"version\" is not 0.2");
    expect_refused("{\"i\": [], \"r\": [], \"v\": 0.1}", "\"version\" is not 0.2");
    expect_refused("{\"version\": 0.2, \"input\": [1, 2, 3]}", "\"input\" is not");
    expect_refused("{\"version\": 0.2, \"version\": 0.2}", "no JSON object");
    expect_refused(CONV("1, 32, 8, 8", "32, 32, 3, 3", "0, 1, 1"), "arguments");
    expect_refused(CONV("1, 32, 8, 8", "32, 32, 3, 3", "1, [1, 1, 1], 1"), "arguments");
    expect_refused(CONV("1, 32, 2, 2", "32, 32, 9, 9", "1, 1, 1"), "arguments");
    expect_refused(CONV("1, 32, 8, -8", "32, 32, 3, 3", "1, 1, 1"), "arguments");
    expect_refused(CONV("1, 32, 8, 9223372036854775807", "32, 32, 3, 3", "1, 1, 1"), "arguments");
    expect_refused(LINE("dense_pack.x86", TENSOR("8, 8") ", " TENSOR("8, 9"), "", "[1e-3], 0"),
                   "arguments");
#define DENSE(entity, result) \
    LINE("dense_pack.x86", TENSOR("8, 8") ", " TENSOR("8, 8"), entity, result)
    expect_refused(DENSE("[\"tile_y\", \"sp\", []]", "[1e-3], 0"), "knobs");
    expect_refused(DENSE("[\"tile_y\", \"sp\", [-1, 0]]", "[1e-3], 0"), "knobs");
    expect_refused(DENSE("7", "[1e-3], 0"), "knobs");
    expect_refused(DENSE("", "[], 0"), "times");
    expect_refused(DENSE("", "[-1.0], 0"), "times");
    expect_refused(DENSE("", "[1e300], 0"), "times");
    expect_refused(DENSE("", "[\"fast\"], 0"), "times");
    expect_refused(DENSE("", "[1e-3], \"0\""), "\"result\" is not");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_in_every_layout_is_the_same),
        cmocka_unit_test(a_depthwise_convolution_sums_over_its_window_alone),
        cmocka_unit_test(products_of_matrices_take_their_rows_as_columns_of_the_tile),
        cmocka_unit_test(lines_without_a_counterpart_are_named_so),
        cmocka_unit_test(hostile_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
