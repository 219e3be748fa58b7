/* The table of rules for CPUs. */
#include <string.h>

#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/rules/support.h"

static void every_rule_has_a_name_and_its_options_have_one(void **state) {
    (void)state;
    assert_true(kiln_rules_cpu.count > 0);
    for (uint32_t i = 0; i < kiln_rules_cpu.count; i++) {
        const kiln_rule *rule = &kiln_rules_cpu.rule[i];
        assert_true(strlen(rule->name) > 0);
        assert_true(rule->option_count < 16); /* all combinations are tried */
        for (uint32_t k = 0; k < rule->option_count; k++) assert_true(strlen(rule->option[k]) > 0);
    }
}

/* Programs that no other rule takes: no reduction, no rows, no contiguous elements. */
static void the_last_rule_always_applies(void **state) {
    static const char *const text[] = {
        "program p\ninput x: f32[1]\noutput y: f32[1]\nblock b(i:1): y[i] = x[i]\n",
        "program p\ninput x: f32[4]\noutput y: f32[1]\n"
        "block b(i:1 | k:4): y[i] sum= x[k] init 0.0\n",
        "program p\ninput x: f32[8]\noutput y: f32[8,8]\n"
        "block b(i:8, j:8): y[j, i] = x[i]\n",
    };
    const kiln_rule *last = &kiln_rules_cpu.rule[kiln_rules_cpu.count - 1];
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        const kiln_program *te = parsed(*state, text[i]);
        kiln_sched s = kiln_sched_begin(te, &avx2, *state);
        assert_int_equal(last->make(&s, 0).end, KILN_SKETCH_MADE);
        expect_sound(&s, te);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_rule_has_a_name_and_its_options_have_one),
        test_with_arena(the_last_rule_always_applies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
