#include "compiler-core/frontend/onnx/dtype.h"

#include "tests/support/test.h"

static void every_type_has_a_number_of_its_own(void **state) {
    (void)state;
    static const kiln_dtype all[] = {
#define X(name, text, size, kind, ctype, number) KILN_##name,
#include "base/dtype.def"
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        kiln_dtype found = KILN_DTYPE_NONE;
        assert_true(kiln_onnx_dtype_find(kiln_onnx_dtype_number(all[i]), &found));
        assert_int_equal(found, all[i]);
    }
}

static void other_numbers_are_not_found(void **state) {
    (void)state;
    static const int64_t other[] = {0,  8 /* STRING */, 14 /* COMPLEX64 */,
                                    -1, INT64_MAX,      INT64_MIN};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        kiln_dtype found = KILN_F32;
        assert_false(kiln_onnx_dtype_find(other[i], &found));
        assert_int_equal(found, KILN_F32);
    }
}

static void packed_integers_have_numbers_of_their_own(void **state) {
    (void)state;
    static const struct {
        int number;
        kiln_dtype dtype;
        uint32_t bits;
    } row[] = {{21, KILN_U8, 4},     {22, KILN_I8, 4},       {25, KILN_U8, 2},
               {26, KILN_I8, 2},     {1, KILN_F32, 0},       {3, KILN_I8, 0},
               {23, KILN_F4E2M1, 4}, {17, KILN_F8E4M3FN, 0}, {24, KILN_F8E8M0, 0}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        kiln_dtype dtype = KILN_DTYPE_NONE;
        uint32_t bits = 9;
        assert_true(kiln_onnx_type_find(row[i].number, &dtype, &bits));
        assert_int_equal(dtype, row[i].dtype);
        assert_int_equal(bits, row[i].bits);
        assert_int_equal(kiln_onnx_type_number(dtype, bits), row[i].number);
    }
    kiln_dtype dtype = KILN_DTYPE_NONE;
    uint32_t bits;
    assert_false(kiln_onnx_dtype_find(21, &dtype)); /* no byte each */
    assert_int_equal(kiln_onnx_type_number(KILN_F4E2M1, 0), 23);
    assert_int_equal(kiln_onnx_dtype_bits(KILN_F4E2M1), 4);
    assert_int_equal(kiln_onnx_dtype_bits(KILN_U8), 0);
    assert_false(kiln_onnx_type_find(27, &dtype, &bits));
    assert_int_equal(kiln_onnx_type_number(KILN_U8, 3), 0);
}

static void integers_are_packed_from_the_lowest_bits_on(void **state) {
    (void)state;
    static const int8_t two[] = {1, -2, 0, -1, -2}, four[] = {-8, 7, -1};
    static const uint8_t two_packed[] = {0xc9, 0x02}, four_packed[] = {0x78, 0x0f};
    uint8_t packed[2];
    int8_t back[5];
    assert_int_equal(kiln_onnx_packed_bytes(5, 2), 2);
    assert_int_equal(kiln_onnx_packed_bytes(4, 2), 1);
    assert_int_equal(kiln_onnx_packed_bytes(0, 4), 0);
    kiln_onnx_pack(two, 5, 2, packed);
    assert_memory_equal(packed, two_packed, 2);
    kiln_onnx_unpack(packed, 5, KILN_I8, 2, back);
    assert_memory_equal(back, two, 5);
    kiln_onnx_unpack(packed, 5, KILN_U8, 2, back);
    assert_memory_equal(back, "\1\2\0\3\2", 5);
    kiln_onnx_pack(four, 3, 4, packed);
    assert_memory_equal(packed, four_packed, 2);
    kiln_onnx_unpack(packed, 3, KILN_I8, 4, back);
    assert_memory_equal(back, four, 3);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_number_of_its_own),
        cmocka_unit_test(other_numbers_are_not_found),
        cmocka_unit_test(packed_integers_have_numbers_of_their_own),
        cmocka_unit_test(integers_are_packed_from_the_lowest_bits_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
