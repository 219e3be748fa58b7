#include "tests/unit/compiler-core/frontend/support.h"

static message typed(kiln_arena *arena, int64_t type, int64_t count) {
    return with_int(with_int(message_of(arena), 1, count), 2, type);
}

static kiln_tensor decode(message m) {
    kiln_named_tensor tensor;
    expect_ok(kiln_onnx_tensor_decode(m.bytes, m.arena, &tensor));
    return tensor.tensor;
}

static void expect_bad(message m, kiln_code code, const char *needle) {
    kiln_named_tensor tensor;
    kiln_status st = kiln_onnx_tensor_decode(m.bytes, m.arena, &tensor);
    assert_non_null(st);
    expect_contains(kiln_status_text(st), needle);
    assert_int_equal(kiln_status_code(st), code);
    kiln_status_free(st);
}

static void data_may_be_raw_or_typed(void **state) {
    const float raw[] = {1, 2};
    kiln_tensor tensor = decode(floats_of(*state, "t", raw, 2));
    assert_memory_equal(tensor.data, raw, sizeof raw);
    tensor = decode(with_float(with_float(typed(*state, 1, 2), 4, 1), 4, 2));
    assert_memory_equal(tensor.data, raw, sizeof raw);
    tensor = decode(with_int(with_int(typed(*state, 3, 2), 5, -1), 5, 7));
    assert_int_equal(tensor.dtype, KILN_I8);
    assert_int_equal(((int8_t *)tensor.data)[0], -1);
    tensor = decode(with_int(typed(*state, 10, 1), 5, 0x3c00)); /* halves are bits in int32_data */
    assert_true(kiln_dtype_load_f64(tensor.dtype, tensor.data, 0) == 1);
    tensor = decode(with_int(typed(*state, 12, 1), 11, 4000000000));
    assert_true(((uint32_t *)tensor.data)[0] == 4000000000u);
}

static void bool_is_zero_or_one(void **state) {
    kiln_tensor tensor = decode(with_bytes(typed(*state, 9, 3), 9, "\x00\x02\xff", 3));
    assert_memory_equal(tensor.data, "\x00\x01\x01", 3);
}

/* 1 -2 0 -1 -2 of INT2 (26): raw, or a byte in each item of int32_data. */
static void integers_of_few_bits_come_one_per_byte(void **state) {
    kiln_tensor tensor = decode(with_bytes(typed(*state, 26, 5), 9, "\xc9\x02", 2));
    assert_int_equal(tensor.dtype, KILN_I8);
    assert_memory_equal(tensor.data, "\x01\xfe\x00\xff\xfe", 5);
    tensor = decode(with_int(with_int(typed(*state, 25, 5), 5, 0xc9), 5, 2));
    assert_int_equal(tensor.dtype, KILN_U8);
    assert_memory_equal(tensor.data, "\1\2\0\3\2", 5);
    tensor = decode(with_bytes(typed(*state, 22, 3), 9, "\x78\x0f", 2));
    assert_memory_equal(tensor.data, "\xf8\x07\xff", 3);
    tensor = decode(with_bytes(typed(*state, 21, 2), 9, "\xf1", 1));
    assert_memory_equal(tensor.data, "\x01\x0f", 2);
    expect_bad(with_bytes(typed(*state, 26, 5), 9, "12345", 5), KILN_INVALID_ARGUMENT,
               "5 bytes of data instead of 2");
    expect_bad(with_bytes(typed(*state, 21, 3), 9, "1", 1), KILN_INVALID_ARGUMENT,
               "1 bytes of data instead of 2");
    expect_bad(with_int(typed(*state, 25, 5), 5, 0xc9), KILN_INVALID_ARGUMENT,
               "1 elements of data instead of 2");
    expect_bad(with_int(typed(*state, 26, INT64_MAX), 1, INT64_MAX), KILN_OUT_OF_RANGE,
               "larger than");
}

static void sizes_must_agree(void **state) {
    expect_bad(with_bytes(typed(*state, 1, 2), 9, "1234", 4), KILN_INVALID_ARGUMENT,
               "4 bytes of data instead of 8");
    expect_bad(with_float(typed(*state, 1, 2), 4, 1), KILN_INVALID_ARGUMENT,
               "1 elements of data instead of 2");
    expect_bad(typed(*state, 1, -1), KILN_INVALID_ARGUMENT, "dimension 0 is negative");
    expect_bad(with_int(typed(*state, 1, INT64_MAX), 1, INT64_MAX), KILN_OUT_OF_RANGE,
               "larger than");
}

static void other_types_are_not_supported(void **state) {
    expect_bad(typed(*state, 8, 1), KILN_UNIMPLEMENTED, "elements of ONNX type 8");
    expect_bad(typed(*state, 14, 1), KILN_UNIMPLEMENTED, "elements of ONNX type 14");
    message m = typed(*state, 1, 1);
    for (int i = 0; i < 8; i++) m = with_int(m, 1, 1);
    expect_bad(m, KILN_UNIMPLEMENTED, "9 dimensions");
}

static void tensors_without_a_file_have_no_external_data(void **state) {
    expect_bad(with_int(typed(*state, 1, 1), 14, 1), KILN_INVALID_ARGUMENT, "external data");
}

static void missing_file_is_not_found(void **state) {
    kiln_named_tensor tensor;
    char *folder = make_folder(*state);
    expect_error(
        kiln_onnx_tensor_load(kiln_arena_printf(*state, "%s/t.pb", folder), *state, &tensor),
        NOT_FOUND, "t.pb");
    remove_folder(folder);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(data_may_be_raw_or_typed),
        test_with_arena(bool_is_zero_or_one),
        test_with_arena(integers_of_few_bits_come_one_per_byte),
        test_with_arena(sizes_must_agree),
        test_with_arena(other_types_are_not_supported),
        test_with_arena(tensors_without_a_file_have_no_external_data),
        test_with_arena(missing_file_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
