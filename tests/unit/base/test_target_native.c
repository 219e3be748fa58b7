/* What this machine is, alone and held to a level. The machine itself is asked here and nowhere
 * else, so KILN_NATIVE is what each test makes it. */
#include "base/target.h"

#include <stdlib.h>

#include "base/macros.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void this_machine_knows_itself(void **state) {
    kiln_target target;
    unsetenv(KILN_NATIVE_VARIABLE);
    expect_ok(kiln_target_native(*state, &target));
    assert_int_equal(target.kind, KILN_TARGET_CPU);
    assert_int_equal(target.threads, 1);
    assert_true(target.cores >= 1 && target.l1_bytes >= 16384);
    assert_int_equal(kiln_target_native_limit(), 0);
#if defined(__x86_64__)
    assert_int_equal(target.has_fma, __builtin_cpu_supports("fma") != 0);
    assert_int_equal(target.vector_bytes == 64, __builtin_cpu_supports("avx512f") != 0);
#endif
}

static void its_text_is_read_as_itself(void **state) {
    kiln_target target, again;
    unsetenv(KILN_NATIVE_VARIABLE);
    expect_ok(kiln_target_native(*state, &target));
    kiln_str text = text_of_target(&target, *state);
    expect_ok(kiln_target_parse(text, *state, &again));
    expect_str(text_of_target(&again, *state), text.data);
    expect_ok(kiln_target_parse(KILN_STR("native"), *state, &again));
    expect_str(text_of_target(&again, *state), text.data);
}

#define SAPPHIRE "sapphirerapids,features=+avx512vnni,cores=2"
#define ZEN "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,features=+avxvnni,cores=8"

static void a_machine_can_be_held_to_a_level_that_it_has(void **state) {
    static const struct {
        const char *machine, *level, *held;
    } row[] = {
        {SAPPHIRE, "x86-64-v4", "x86-64-v4,cores=2"},
        {SAPPHIRE, "x86-64-v3", "x86-64-v3,cores=2"},
        {ZEN, "x86-64-v3", "x86-64-v3,cores=8"},
        {ZEN, "x86-64-v2", "x86-64-v2,cores=8"},
        {ZEN, "x86-64", "x86-64,cores=8"},
        {"rpi4", "x86-64-v3", "rpi4"}, /* levels are of x86-64 */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target machine = target_of(*state, row[i].machine), held,
                    wanted = target_of(*state, row[i].held);
        expect_ok(kiln_target_hold(&machine, kiln_str_from(row[i].level), *state, &held));
        expect_str(text_of_target(&held, *state), text_of_target(&wanted, *state).data);
        assert_int_equal(held.vector_bytes, wanted.vector_bytes);
    }
}

static void tiles_that_are_refused_are_named(void **state) {
    static const struct {
        bool processor, system, process;
        const char *words;
    } row[] = {
        {true, true, false, "Linux refuses this process the state of its tiles"},
        {true, false, false, "this system does not save its tiles"},
        {true, true, true, NULL},
        {false, true, false, NULL},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const char *said =
            kiln_target_tiles_missing(row[i].processor, row[i].system, row[i].process);
        if (row[i].words)
            expect_contains(said, row[i].words);
        else
            assert_null(said);
    }
    kiln_target machine;
    unsetenv(KILN_NATIVE_VARIABLE);
    expect_ok(kiln_target_native(*state, &machine));
    if (kiln_target_has(&machine, KILN_STR("amx-tile"))) assert_null(kiln_target_native_tiles());
}

static void other_levels_are_refused(void **state) {
    static const char *const unknown[] = {"x86-64-v5", "v3", "rpi4", "native", "x86-64-v3,cores=2"};
    kiln_target machine = target_of(*state, ZEN), held;
    expect_error(kiln_target_hold(&machine, KILN_STR("x86-64-v4"), *state, &held),
                 FAILED_PRECONDITION, "cannot be x86-64-v4: the device lacks avx512");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(unknown); i++)
        expect_error(kiln_target_hold(&machine, kiln_str_from(unknown[i]), *state, &held),
                     INVALID_ARGUMENT, "known: x86-64 x86-64-v2 x86-64-v3 x86-64-v4");
}

static void the_environment_holds_this_machine(void **state) {
    kiln_target machine, held, again;
    unsetenv(KILN_NATIVE_VARIABLE);
    expect_ok(kiln_target_native(*state, &machine));
    setenv(KILN_NATIVE_VARIABLE, "x86-64", 1);
    assert_int_equal(kiln_target_native_limit(), 1);
    expect_ok(kiln_target_native(*state, &held));
    expect_ok(kiln_target_hold(&machine, KILN_STR("x86-64"), *state, &again));
    expect_str(text_of_target(&held, *state), text_of_target(&again, *state).data);
    setenv(KILN_NATIVE_VARIABLE, "x86-64-v9", 1);
    assert_int_equal(kiln_target_native_limit(), 0);
    if (machine.arch == KILN_ARCH_X86_64)
        expect_error(kiln_target_native(*state, &held), INVALID_ARGUMENT, KILN_NATIVE_VARIABLE);
    unsetenv(KILN_NATIVE_VARIABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(this_machine_knows_itself),
        test_with_arena(its_text_is_read_as_itself),
        test_with_arena(a_machine_can_be_held_to_a_level_that_it_has),
        test_with_arena(tiles_that_are_refused_are_named),
        test_with_arena(other_levels_are_refused),
        test_with_arena(the_environment_holds_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
