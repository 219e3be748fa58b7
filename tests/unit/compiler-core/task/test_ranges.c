/* Which integers the arguments of tasks hold. */
#include "compiler-core/task/ranges.h"

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/graph/support.h"

static void expect_range(kiln_range range, int64_t low, int64_t high, int64_t step) {
    assert_int_equal(range.low, low);
    assert_int_equal(range.high, high);
    assert_int_equal(range.step, step);
}

/* Of the buffer `name` of the last task. */
static kiln_range range_of(kiln_arena *arena, const char *text, const char *name) {
    kiln_tasks tasks;
    expect_ok(kiln_tasks_extract(graph_of(arena, text), arena, &tasks));
    const kiln_program *te = tasks.task[tasks.count - 1].te;
    expect_ok(kiln_program_verify(te));
    const kiln_buffer buffer = kiln_program_find_buffer(te, kiln_str_from(name));
    assert_int_not_equal(buffer, 0);
    return te->buffer.data[buffer].range;
}

#define QUANTISED(dtype, attrs)                                                                  \
    "graph g\ninput x: f32[1,1,2,2]\nconstant s: f32[] = [0.5]\nconstant z: " dtype "[] = [0]\n" \
    "q: " dtype "[1,1,2,2] = quantize_linear(x, s, z)" attrs "\n"
#define CONV(weights, dtype, data)                     \
    "constant w: " dtype "[1,1,1,2] = [" weights "]\n" \
    "y: i32[1,1,2,1] = conv_integer(" data ", w)\noutput y\n"

static void bits_of_quantised_data_reach_those_that_read_them(void **state) {
    expect_range(range_of(*state, QUANTISED("u8", " bits=2") CONV("1, -1", "i8", "q"), "x0"), 0, 3,
                 1);
    expect_range(range_of(*state, QUANTISED("i8", " bits=1") CONV("1, -1", "i8", "q"), "x0"), -1, 0,
                 1);
    expect_range(
        range_of(*state,
                 QUANTISED("u8", " bits=2") "p: u8[1,1,2,2] = max_pool(q) kernel_shape=[1,1]\n"
                                            "t: u8[1,1,2,2] = transpose(p) perm=[0,1,3,2]\n" CONV(
                                                "1, -1", "i8", "t"),
                 "x0"),
        0, 3, 1);
    expect_range(
        range_of(*state,
                 QUANTISED("u8", " bits=2") "c: u8[2,1,2,2] = concat(q, q) axis=0\n"
                                            "constant w: i8[1,1,1,2] = [1, 1]\n"
                                            "y: i32[2,1,2,1] = conv_integer(c, w)\noutput y\n",
                 "x0"),
        0, 3, 1);
}

static void what_has_all_bits_or_was_computed_has_no_range(void **state) {
    expect_range(range_of(*state, QUANTISED("u8", "") CONV("1, -1", "i8", "q"), "x0"), 0, 0, 0);
    expect_range(range_of(*state, QUANTISED("u8", "") CONV("1, -1", "i8", "q"), "w1"), 0, 0, 0);
    expect_range(
        range_of(*state,
                 QUANTISED("u8", " bits=2") "a: u8[1,1,2,2] = add(q, q)\n" CONV("1, -1", "i8", "a"),
                 "x0"),
        0, 0, 0);
}

static void constants_beside_ranged_data_have_the_smallest_range(void **state) {
    static const struct {
        const char *text;
        int64_t low, high, step;
    } row[] = {
        {QUANTISED("u8", " bits=2") CONV("1, -1", "i8", "q"), -1, 1, 2},
        {QUANTISED("u8", " bits=2") CONV("1, 0", "i8", "q"), 0, 1, 1},
        {QUANTISED("u8", " bits=2") CONV("-1, 0", "i8", "q"), -1, 0, 1},
        {QUANTISED("u8", " bits=2") CONV("-3, 1", "i8", "q"), -3, 3, 2},
        {QUANTISED("u8", " bits=2") CONV("-2, 1", "i8", "q"), -2, 1, 1},
        {QUANTISED("u8", " bits=2") CONV("0, 15", "u8", "q"), 0, 15, 1},
        {QUANTISED("u8", " bits=2") CONV("0, 16", "u8", "q"), 0, 0, 0},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_range(range_of(*state, row[i].text, "w1"), row[i].low, row[i].high, row[i].step);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(bits_of_quantised_data_reach_those_that_read_them),
        test_with_arena(what_has_all_bits_or_was_computed_has_no_range),
        test_with_arena(constants_beside_ranged_data_have_the_smallest_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
