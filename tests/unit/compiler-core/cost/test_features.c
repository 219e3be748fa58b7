/* Features by kinds of targets. */
#include "compiler-core/cost/features.h"

#include <string.h>

#include "base/macros.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void every_kind_of_targets_has_features(void **state) {
    static const char *const text[] = {"x86-64-v3",         "rpi4",    "null", "h200", "opencl:x",
                                       "opencl:x,emulated", "vta:pynq"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_target target = target_of(*state, text[i]);
        const kiln_feature_set *set = kiln_features_of(&target);
        assert_true(set->count > 0);
    }
}

static void every_feature_has_a_name_of_its_own_and_says_what_it_is(void **state) {
    static const struct {
        const char *target;
        uint32_t least;
    } row[] = {{"x86-64-v3", 96}, {"h200", 40}, {"vta:pynq", 32}};
    for (uint32_t r = 0; r < KILN_ARRAY_COUNT(row); r++) {
        kiln_target target = target_of(*state, row[r].target);
        const kiln_feature_set *set = kiln_features_of(&target);
        assert_in_range(set->count, row[r].least, 1024);
        for (uint32_t i = 0; i < set->count; i++) {
            assert_true(strlen(set->info[i].name) > 2);
            assert_true(strlen(set->info[i].doc) > 8);
            for (uint32_t k = 0; k < i; k++)
                assert_string_not_equal(set->info[i].name, set->info[k].name);
        }
        assert_true(set->predicted_ns < set->count);
        assert_true(set->first_term + set->term_count <= set->count);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(every_kind_of_targets_has_features),
        test_with_arena(every_feature_has_a_name_of_its_own_and_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
