/* The roofline: what sets the bound, and what the machine can do. */
#include "cli/common/roofline.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/opt.h"
#include "base/target.h"
#include "deploy/runtime/peak.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void the_lower_of_two_roofs_counts(void **state) {
    (void)state;
    const kiln_roofline m = {.peak_flops = 100e9, .memory_bytes = 10e9};
    kiln_bound bound;
    assert_true(kiln_roof(&m, 2, &bound) == 20e9 && bound == KILN_BOUND_MEMORY);
    assert_true(kiln_roof(&m, 10, &bound) == 100e9 && bound == KILN_BOUND_ARITHMETIC);
    assert_true(kiln_roof(&m, 1e6, &bound) == 100e9 && bound == KILN_BOUND_ARITHMETIC);
}

static void a_machine_not_known_sets_no_bound(void **state) {
    (void)state;
    const kiln_roofline m = {.peak_flops = 100e9};
    kiln_bound bound;
    assert_true(kiln_roof(&m, 0.001, &bound) == 100e9 && bound == KILN_BOUND_UNKNOWN);
}

static void arguments_count_once_and_temps_do_not(void **state) {
    kiln_program *te = NULL;
    static const char text[] =
        "program t\ninput x: f32[4,8]\nconstant w: f32[8]\ntemp m: f32[4,8]\n"
        "output y: f32[4,8]\n"
        "block a(i:4, j:8): m[i, j] = x[i, j] + w[j]\n"
        "block b(i:4, j:8): y[i, j] = m[i, j] * m[i, j]\n";
    expect_ok(kiln_program_parse(kiln_str_from(text), *state, &te));
    assert_true(kiln_program_argument_bytes(te) == 4.0 * (32 + 8 + 32));
}

static void caches_are_read_faster_than_memory(void **state) {
    kiln_roofline m;
    expect_ok(kiln_roofline_measure(*state, &m));
#if defined(__x86_64__)
    assert_true(m.peak_flops > 1e9 && m.memory_bytes > 1e8);
    if (m.cache_bytes > 0) assert_true(m.cache_bytes > m.memory_bytes);
#endif
    assert_true(kiln_peak_read(state, 0) == 0);
}

static kiln_program *copy_of(kiln_arena *arena, const char *dtype) {
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(
        kiln_str_from(kiln_arena_printf(
            arena, "program p\ninput x: %s[8]\noutput y: %s[8]\nblock c(i:8): y[i] = x[i]\n", dtype,
            dtype)),
        arena, &te));
    return te;
}

/* Times of the device in software are counted: no peak bounds them. */
static void nothing_is_known_of_devices_that_count(void **state) {
    kiln_roofline m;
    kiln_bound bound;
    kiln_target target = target_of(*state, "null");
    expect_ok(kiln_roofline_of(&target, NULL, *state, &m));
    assert_true(m.peak_flops == 0 && m.memory_bytes == 0);
    assert_true(kiln_roof(&m, 1, &bound) == 0 && bound == KILN_BOUND_UNKNOWN);
}

/* Nothing is measured: the machine that asks has no such device. */
static void the_roof_of_a_gpu_is_its_rows(void **state) {
    kiln_roofline m;
    kiln_target target = target_of(*state, "h200");
    expect_ok(kiln_roofline_of(&target, NULL, *state, &m));
    assert_true(m.peak_flops > 66e12 && m.peak_flops < 68e12); /* f32 without tensor cores */
    assert_true(m.memory_bytes == 4.8e12);
    assert_string_equal(m.memory_of, "the row h200");
    expect_ok(kiln_roofline_of(&target, copy_of(*state, "f16"), *state, &m));
    assert_true(m.peak_flops > 1.0e15 && m.peak_flops < 1.1e15); /* tensor cores multiply halves */
    expect_ok(kiln_roofline_of(&target, copy_of(*state, "f32"), *state, &m));
    assert_true(m.peak_flops < 68e12);
    target = target_of(*state, "opencl:x,units=32");
    expect_ok(kiln_roofline_of(&target, NULL, *state, &m));
    assert_true(m.peak_flops == 2 * 64 * 32 * 1e9);
}

/* Boards tell what no kernel beats, which are tensor cores. */
static void a_record_in_f32_is_a_share_of_the_vectors_peak(void **state) {
    const kiln_target h200 = target_of(*state, "h200"), opencl = target_of(*state, "opencl:x"),
                      cpu = target_of(*state, "x86-64-v3");
    kiln_db_record record = {.peak_flops = kiln_gpu_peak_flops(h200.gpu, KILN_F32),
                             .algorithm = KILN_STR("direct")};
    const kiln_program *f32 = copy_of(*state, "f32"), *f16 = copy_of(*state, "f16");
    const double told = record.peak_flops, vectors = 2 * 128.0 * 132 * 1.98e9;
    assert_true(kiln_roofline_peak_of(&record, &h200, f32) == vectors && told > 7 * vectors);
    assert_true(kiln_roofline_peak_of(&record, &h200, f16) == told);
    assert_true(kiln_roofline_peak_of(&record, &h200, NULL) == told);
    assert_true(kiln_roofline_peak_of(&record, &opencl, f32) == told); /* whose row knows no rate */
    assert_true(kiln_roofline_peak_of(&record, &cpu, f32) == told);
    record.algorithm = KILN_STR("of another version");
    assert_true(kiln_roofline_peak_of(&record, &h200, f32) == told);
    for (kiln_algorithm a = 0; a < KILN_ALGORITHM_COUNT; a++) {
        const bool rounds = kiln_algorithm_precision(a) != KILN_PRECISION_F32;
        record.algorithm = kiln_str_from(kiln_algorithm_name(a));
        assert_true(kiln_roofline_peak_of(&record, &h200, f32) == (rounds ? told : vectors));
    }
    record.peak_flops = 1e12; /* a board that knows better */
    record.algorithm = KILN_STR("direct");
    assert_true(kiln_roofline_peak_of(&record, &h200, f32) == 1e12);
}

/* A share of the peak of another level would say nothing of kernels that are held to theirs. */
static void the_peak_is_that_of_the_level(void **state) {
    double held = 0, wide = 0;
    const char *held_to = kiln_env(KILN_NATIVE_VARIABLE);
    char before[16];
    snprintf(before, sizeof before, "%s", held_to ? held_to : "");
    unsetenv(KILN_NATIVE_VARIABLE);
    kiln_target v3 = target_of(*state, "x86-64-v3");
    bool has_v3 = runs_here(&v3, *state);
    for (int round = 0; round < 5; round++) { /* the best of five: others run beside this */
        setenv(KILN_NATIVE_VARIABLE, "x86-64", 1);
        held = KILN_MAX(held, kiln_peak_flops());
        setenv(KILN_NATIVE_VARIABLE, "x86-64-v3", 1);
        wide = KILN_MAX(wide, kiln_peak_flops());
    }
    setenv(KILN_NATIVE_VARIABLE, before, 1); /* empty is unset */
    /* Twice the lanes, and one instruction in place of two. */
    if (has_v3) assert_true(wide > 1.4 * held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lower_of_two_roofs_counts),
        cmocka_unit_test(a_machine_not_known_sets_no_bound),
        test_with_arena(arguments_count_once_and_temps_do_not),
        test_with_arena(the_roof_of_a_gpu_is_its_rows),
        test_with_arena(nothing_is_known_of_devices_that_count),
        test_with_arena(caches_are_read_faster_than_memory),
        test_with_arena(a_record_in_f32_is_a_share_of_the_vectors_peak),
        test_with_arena(the_peak_is_that_of_the_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
