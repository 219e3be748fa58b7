/* Tensors of callers against what a module takes: types, extents and strides of every kind. */
#include "deploy/runtime/module_tensor.h"

#include <string.h>

#include "base/dtype.h"
#include "base/macros.h"
#include "tests/support/test.h"

static char why[200];

static const int64_t extents[] = {2, 1, 3};

static kiln_module_port port_of(uint32_t dtype) {
    return (kiln_module_port){
        .name = "x", .dtype = dtype, .rank = 3, .shape = extents, .size_bytes = 24};
}

static void every_type_is_taken_as_itself_alone(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        uint8_t code, bits;
    } row[] = {{KILN_MODULE_F32, 2, 32},        {KILN_MODULE_F64, 2, 64},
               {KILN_MODULE_F16, 2, 16},        {KILN_MODULE_BF16, 4, 16},
               {KILN_MODULE_I8, 0, 8},          {KILN_MODULE_I16, 0, 16},
               {KILN_MODULE_I32, 0, 32},        {KILN_MODULE_I64, 0, 64},
               {KILN_MODULE_U8, 1, 8},          {KILN_MODULE_U16, 1, 16},
               {KILN_MODULE_U32, 1, 32},        {KILN_MODULE_U64, 1, 64},
               {KILN_MODULE_BOOL, 6, 8},        {KILN_MODULE_F8E4M3FN, 10, 8},
               {KILN_MODULE_F8E4M3FNUZ, 11, 8}, {KILN_MODULE_F8E5M2, 12, 8},
               {KILN_MODULE_F8E5M2FNUZ, 13, 8}, {KILN_MODULE_F8E8M0, 14, 8},
               {KILN_MODULE_F4E2M1, 17, 8}};
    assert_int_equal(KILN_ARRAY_COUNT(row), KILN_DTYPE_COUNT - 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(row); k++) {
            const kiln_module_port port = port_of(row[i].dtype), other = port_of(row[k].dtype);
            kiln_module_tensor t = kiln_module_tensor_at(&other, 1, 0, &why);
            assert_int_equal(t.type_code, row[k].code);
            assert_int_equal(t.type_bits, row[k].bits);
            assert_int_equal(kiln_module_tensor_fits(&port, &t, why, sizeof why), i == k);
            t.type_lanes = 2;
            assert_false(kiln_module_tensor_fits(&port, &t, why, sizeof why));
        }
}

static bool fits_with(int64_t s0, int64_t s1, int64_t s2) {
    const kiln_module_port port = port_of(KILN_MODULE_F32);
    kiln_module_tensor t = kiln_module_tensor_at(&port, 1, 0, &why);
    int64_t strides[] = {s0, s1, s2};
    t.strides = strides;
    return kiln_module_tensor_fits(&port, &t, why, sizeof why);
}

/* What a dimension of one element says means nothing. */
static void strides_are_those_of_rows_one_after_the_other(void **state) {
    (void)state;
    assert_true(fits_with(3, 3, 1));
    assert_true(fits_with(3, 77, 1));
    assert_false(fits_with(4, 3, 1));
    assert_string_equal(why,
                        "its stride in dimension 0 is 4; the module takes dense, row-major ones");
    assert_false(fits_with(1, 1, 2));
    assert_false(fits_with(-3, 3, 1));
}

static void tensors_without_elements_have_no_strides(void **state) {
    (void)state;
    static const int64_t none[] = {2, 0};
    int64_t strides[] = {7, 7};
    const kiln_module_port port = {.dtype = KILN_MODULE_F32, .rank = 2, .shape = none};
    kiln_module_tensor t = kiln_module_tensor_at(&port, 1, 0, &why);
    t.strides = strides;
    assert_true(kiln_module_tensor_fits(&port, &t, why, sizeof why));
}

static void scalars_and_other_ranks(void **state) {
    (void)state;
    const kiln_module_port scalar = {.dtype = KILN_MODULE_I64, .rank = 0, .size_bytes = 8};
    kiln_module_tensor t = kiln_module_tensor_at(&scalar, 1, 0, &why);
    assert_true(kiln_module_tensor_fits(&scalar, &t, why, sizeof why));
    t.rank = 1;
    assert_false(kiln_module_tensor_fits(&scalar, &t, why, sizeof why));
    assert_string_equal(why, "it has 1 dimensions; the module takes 0");
    t.rank = -1;
    assert_false(kiln_module_tensor_fits(&scalar, &t, why, sizeof why));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_taken_as_itself_alone),
        cmocka_unit_test(strides_are_those_of_rows_one_after_the_other),
        cmocka_unit_test(tensors_without_elements_have_no_strides),
        cmocka_unit_test(scalars_and_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
