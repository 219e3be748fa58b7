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

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_number_of_its_own),
        cmocka_unit_test(other_numbers_are_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
