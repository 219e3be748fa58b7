/* Programs that the compiler makes of drawn layers, schedules and machines are right in any order
 * of the engines, and none of their tokens' flags can be left out. */
#include "base/macros.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/codegen/vta_compiled.h"

#define LAYERS 64u
#define DRAWS 4u

static void drawn_programs_are_right_in_any_order(void **state) {
    vta_compiled_counts counts = {0};
    kiln_strbuf report = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= LAYERS; seed++)
        if (!vta_compiled_layer(seed, DRAWS, true, &counts, &report)) fail_msg("%s", report.data);
    assert_true(counts.unscheduled * 4 < LAYERS);
    assert_true(counts.refused * 8 < counts.programs);
    assert_true(counts.threads[2] * 4 > counts.programs && counts.threads[4] > 0);
    assert_true(counts.flags > 10 * counts.programs / DRAWS);
    kiln_strbuf_deinit(&report);
}

/* Layers of `./dev fuzz vta-compiled` that were wrong once. */
static void layers_that_were_wrong_are_right(void **state) {
    static const uint64_t seed[] = {
        UINT64_C(0x4709acdbfbe94ac9), /* what the compiler made took the place of what calls know */
    };
    vta_compiled_counts counts = {0};
    kiln_strbuf report = {0};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(seed); i++)
        if (!vta_compiled_layer(seed[i], 16, false, &counts, &report)) fail_msg("%s", report.data);
    assert_true(counts.programs > 0);
    kiln_strbuf_deinit(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_programs_are_right_in_any_order),
        cmocka_unit_test(layers_that_were_wrong_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
