#include "base/null_code.h"

#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"

/* y[i] = x[i] * x[i] for 8 elements, under a condition that holds. */
static kiln_null_instruction square[] = {
    {KILN_NULL_SET, 6, 0, 0, 0, 0},       {KILN_NULL_LOOP, 7, 0, 0, 0, 0},
    {KILN_NULL_IF_NOT, 6, 0, 0, 0, 0},    {KILN_NULL_LOAD, 8, 6, 7, 0, 1},
    {KILN_NULL_MUL_FLOAT, 8, 8, 8, 0, 0}, {KILN_NULL_STORE, 8, 6, 7, 1, 1},
    {KILN_NULL_IF_END, 0, 0, 0, 0, 0},    {KILN_NULL_LOOP_END, 7, 0, 0, 0, 8},
    {KILN_NULL_END, 0, 0, 0, 0, 0},
};
static kiln_null_buffer buffers[] = {{KILN_NULL_ARGUMENT, KILN_F32, 0, 0, 8},
                                     {KILN_NULL_ARGUMENT, KILN_F32, 1, 0, 8}};

static kiln_null_function function(void) {
    return (kiln_null_function){.name = KILN_STR("run_0"),
                                .register_count = 9,
                                .buffer_count = KILN_ARRAY_COUNT(buffers),
                                .buffer = buffers,
                                .instruction_count = KILN_ARRAY_COUNT(square),
                                .instruction = square};
}

static void code_comes_back_from_its_bytes(void **state) {
    kiln_null_function f = function();
    kiln_null_code code = {1, &f}, again;
    kiln_strbuf bytes = {0}, twice = {0};
    kiln_null_code_encode(&code, &bytes);
    expect_ok(kiln_null_code_decode(kiln_strbuf_view(&bytes), *state, &again));
    assert_int_equal(again.function_count, 1);
    assert_int_equal(again.function[0].steps, 16); /* eight passes, each with a statement */
    assert_non_null(kiln_null_code_find(&again, KILN_STR("run_0")));
    assert_null(kiln_null_code_find(&again, KILN_STR("prepare_0")));
    kiln_null_code_encode(&again, &twice);
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&twice)));
    for (size_t size = 0; size < bytes.size; size++)
        expect_error(kiln_null_code_decode((kiln_str){bytes.data, size}, *state, &again), DATA_LOSS,
                     "");
    kiln_strbuf_char(&bytes, 0);
    expect_error(kiln_null_code_decode(kiln_strbuf_view(&bytes), *state, &again), DATA_LOSS,
                 "longer than it says");
    bytes.data[8] = 1;
    expect_error(kiln_null_code_decode(kiln_strbuf_view(&bytes), *state, &again), DATA_LOSS,
                 "of version 1; this is 2");
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&twice);
}

/* Each row changes one instruction to what may not stand there. */
static void malformed_code_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t at;
        kiln_null_instruction in;
        const char *complaint;
    } row[] = {
        {3, {KILN_NULL_OP_COUNT, 0, 0, 0, 0, 0}, "no such instruction"},
        {3, {KILN_NULL_LOAD, 9, 6, 7, 0, 1}, "register or buffer that there is not"},
        {3, {KILN_NULL_LOAD, 8, 9, 7, 0, 1}, "register or buffer that there is not"},
        {3, {KILN_NULL_LOAD, 8, 6, 7, 2, 1}, "register or buffer that there is not"},
        {3, {KILN_NULL_LOAD, 7, 6, 7, 0, 1}, "register or buffer that there is not"},
        {4, {KILN_NULL_ADD, 7, 8, 8, 0, 0}, "counts a loop"},
        {4, {KILN_NULL_ADD, 8, 8, 9, 0, 0}, "register that there is not"},
        {4, {KILN_NULL_SET, 7, 0, 0, 0, 0}, "counts a loop"},
        {4, {KILN_NULL_WRAP, 8, 8, 0, 0, KILN_DTYPE_COUNT}, "no dtype"},
        {4, {KILN_NULL_SHIFT_LEFT, 8, 8, 8, 0, 65}, "width"},
        {4, {KILN_NULL_END, 0, 0, 0, 0, 0}, "END is not the end"},
        {2, {KILN_NULL_LOOP, 7, 0, 0, 0, 0}, "counts another loop"},
        {6, {KILN_NULL_LOOP_END, 7, 0, 0, 0, 8}, "closes what is not open"},
        {6, {KILN_NULL_BARRIER, 0, 0, 0, 0, 0}, "closes what is not open"},
        {7, {KILN_NULL_LOOP_END, 6, 0, 0, 0, 8}, "not the end of its loop"},
        {7, {KILN_NULL_LOOP_END, 7, 0, 0, 0, 0}, "not the end of its loop"},
        {7, {KILN_NULL_LOOP_END, 7, 0, 0, 0, INT64_MAX}, "run for ever"},
        {8, {KILN_NULL_BARRIER, 0, 0, 0, 0, 0}, "does not end"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_null_instruction copy[KILN_ARRAY_COUNT(square)];
        kiln_null_function f = function();
        memcpy(copy, square, sizeof square);
        copy[row[i].at] = row[i].in;
        f.instruction = copy;
        expect_error_at(kiln_null_code_check(&(kiln_null_code){1, &f}), KILN_DATA_LOSS,
                        row[i].complaint, row[i].complaint, (int)i);
    }
}

static void buffers_lie_in_the_memory_that_is_asked_for(void **state) {
    (void)state;
    static const kiln_null_buffer wrong[] = {
        {KILN_NULL_LOCAL, KILN_F32, 0, 0, 9},       {KILN_NULL_LOCAL, KILN_F32, 0, 8, 7},
        {KILN_NULL_LOCAL, KILN_F32, 0, 2, 1},       {KILN_NULL_SHARED, KILN_F32, 0, 0, 1},
        {KILN_NULL_LOCAL, KILN_F32, 0, 40, 0},      {KILN_NULL_LOCAL, KILN_F32, 0, 0, UINT64_MAX},
        {KILN_NULL_ARGUMENT, KILN_F32, 0, 2, 1},    {KILN_NULL_ARGUMENT, 0, 0, 0, 1},
        {KILN_NULL_PLACE_COUNT, KILN_F32, 0, 0, 1},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_null_function f = function();
        kiln_null_buffer two[2] = {buffers[0], wrong[i]};
        f.buffer = two;
        f.local_bytes = 32;
        expect_error_at(kiln_null_code_check(&(kiln_null_code){1, &f}), KILN_DATA_LOSS, "a buffer",
                        "buffer", (int)i);
    }
}

static void text_says_what_each_instruction_does(void **state) {
    (void)state;
    kiln_null_function f = function();
    kiln_strbuf text = {0};
    kiln_null_code_print(&(kiln_null_code){1, &f}, &text);
    expect_contains(text.data, "run_0: 9 registers, 0 bytes shared, 0 local\n");
    expect_contains(text.data, "  b1: f32 argument 1, 8 elements\n");
    expect_contains(text.data,
                    "\n  LOOP r7 from 0\n    IF_NOT r6\n      LOAD r8 = b0[r6 + r7 * 1]\n");
    expect_contains(text.data, "\n      MUL_FLOAT r8 = r8, r8\n");
    kiln_strbuf_deinit(&text);
    assert_null(kiln_null_op_name(KILN_NULL_OP_COUNT));
    assert_string_equal(kiln_null_op_name(KILN_NULL_END), "END");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(code_comes_back_from_its_bytes),
        cmocka_unit_test(malformed_code_is_refused),
        cmocka_unit_test(buffers_lie_in_the_memory_that_is_asked_for),
        cmocka_unit_test(text_says_what_each_instruction_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
