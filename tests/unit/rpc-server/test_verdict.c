/* What a child left behind, honest and forged, and what is made of it. */
#include <math.h>
#include <string.h>

#include "base/kernel_abi.h"
#include "rpc-server/executor.h"
#include "rpc-server/verdict.h"
#include "tests/support/test.h"

#define CHANNELS 20 /* in blocks of 16: the last block is padded */
#define BLOCKED_BYTES (32 * 3 * sizeof(float))

typedef struct fixture {
    kiln_arena arena;
    kiln_manifest_arg arg[2];
    kiln_manifest manifest;
    kiln_msg_policy policy;
    kiln_timing timing;
    kiln_reference reference;
    float value[CHANNELS * 3], bound[CHANNELS * 3];
    float first[32 * 3], last[32 * 3];
    kiln_evidence evidence;
    kiln_msg_trial_result result;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    f->arg[0] =
        (kiln_manifest_arg){.name = KILN_STR("x"), .dtype = KILN_F32, .role = KILN_ROLE_INPUT};
    f->arg[1] = (kiln_manifest_arg){.name = KILN_STR("y"),
                                    .dtype = KILN_F32,
                                    .role = KILN_ROLE_OUTPUT,
                                    .shape = {.rank = 2, .dim = {CHANNELS, 3}}};
    assert_null(kiln_layout_parse(KILN_STR("d0/16,d1,d0%16"), 2, &f->arg[1].layout));
    f->manifest =
        (kiln_manifest){.executed_flops = 1e6, .error_factor = 1, .arg_count = 2, .arg = f->arg};
    f->policy = (kiln_msg_policy){.samples_min = 5, .samples_max = 20, .interval = 0.01};
    f->timing = (kiln_timing){.stop = KILN_STOP_CONVERGED, .runs = 10, .sample_count = 5};
    for (uint32_t i = 0; i < 5; i++) f->timing.sample_ns[i] = 1000000 + i;
    for (size_t i = 0; i < CHANNELS * 3; i++) {
        f->value[i] = (float)i;
        f->bound[i] = 0.25F;
    }
    f->reference = (kiln_reference){.output_count = 1,
                                    .output = {{KILN_F32, f->arg[1].shape, f->value, f->bound}}};
    memset(f->first, 0x11, sizeof f->first); /* padding differs, as poison does */
    memset(f->last, 0x22, sizeof f->last);
    kiln_layout_pack(&f->arg[1].layout, &f->arg[1].shape, KILN_F32, f->value, f->first);
    kiln_layout_pack(&f->arg[1].layout, &f->arg[1].shape, KILN_F32, f->value, f->last);
    f->evidence = (kiln_evidence){.manifest = &f->manifest,
                                  .policy = &f->policy,
                                  .reference = &f->reference,
                                  .first = (const char *)f->first,
                                  .last = (const char *)f->last,
                                  .timing = &f->timing,
                                  .elapsed_ns = 100000000,
                                  .peak_flops = 100e9};
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void expect(fixture *f, kiln_outcome outcome, const char *text) {
    f->result = (kiln_msg_trial_result){0};
    kiln_verdict_of(&f->evidence, &f->arena, &f->result);
    const char *said = kiln_str_dup(&f->arena, f->result.text);
    if ((kiln_outcome)f->result.outcome != outcome || !strstr(said, text))
        fail_msg("%s: %s", kiln_outcome_name((kiln_outcome)f->result.outcome), said);
}

static void right_outputs_and_plain_times_are_ok(void **state) {
    fixture *f = *state;
    expect(f, KILN_OUTCOME_OK, "");
    assert_true(f->result.checked && f->result.error == 0);
    assert_int_equal(f->result.samples_ns.count, 5);
    assert_int_equal(f->result.samples_ns.item[4], 1000004);
    assert_int_equal(f->result.runs, 10);
    assert_int_equal(f->result.blame, KILN_BLAME_NONE);
}

static float *element(float *blocked, size_t channel, size_t column) {
    return &blocked[channel / 16 * 48 + column * 16 + channel % 16];
}

static void an_error_within_the_bound_is_ok_and_told(void **state) {
    fixture *f = *state;
    *element(f->last, 17, 2) += 0.125F;
    expect(f, KILN_OUTCOME_OK, "");
    assert_true(f->result.max_abs_error == 0.125 && fabs(f->result.error - 0.5) < 0.001);
    assert_true(f->result.relative_error == 0.125 / (CHANNELS * 3 - 1));
}

/* Another algorithm rounds otherwise; its manifest says by how much. */
static void bounds_grow_by_the_factor_of_the_algorithm(void **state) {
    fixture *f = *state;
    *element(f->last, 17, 2) += 0.75F;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "bound 0.25");
    f->manifest.error_factor = 4;
    expect(f, KILN_OUTCOME_OK, "");
    assert_true(fabs(f->result.error - 0.75) < 0.001);
}

static void one_wrong_element_is_found_in_either_call(void **state) {
    fixture *f = *state;
    *element(f->last, 19, 1) = 1000;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "output y after the last timed call: 1 of 60");
    assert_true(f->result.checked);
    assert_int_equal(f->result.blame, KILN_BLAME_CANDIDATE);
    *element(f->first, 0, 0) = NAN;
    expect(f, KILN_OUTCOME_WRONG_RESULT,
           "after the first call: 1 of 60 elements are wrong; the worst is element 0");
    assert_true(isfinite(f->result.error) && isfinite(f->result.max_abs_error));
}

static void what_lies_in_padding_does_not_matter(void **state) {
    fixture *f = *state;
    *element(f->first, 20, 0) = INFINITY;
    expect(f, KILN_OUTCOME_OK, "");
}

static void an_impossible_report_is_a_crash(void **state) {
    fixture *f = *state;
    const kiln_timing honest = f->timing;
    f->timing.sample_count = 4;
    expect(f, KILN_OUTCOME_CRASH, "number of samples");
    f->timing.sample_count = 21;
    expect(f, KILN_OUTCOME_CRASH, "number of samples");
    f->timing.sample_count = UINT32_MAX;
    expect(f, KILN_OUTCOME_CRASH, "number of samples");
    assert_int_equal(f->result.samples_ns.count, 0);
    f->timing = honest;
    f->timing.runs = 0;
    expect(f, KILN_OUTCOME_CRASH, "no run");
    f->timing = honest;
    f->timing.sample_ns[3] = 0;
    expect(f, KILN_OUTCOME_CRASH, "no time");
    f->timing = honest; /* just as long as its life, with what clocks may differ by */
    for (uint32_t i = 0; i < 5; i++) f->timing.sample_ns[i] = 6000000;
    f->evidence.elapsed_ns = 5 * 6000000 - KILN_VERDICT_CLOCK_SLACK_NS;
    expect(f, KILN_OUTCOME_OK, "");
    f->evidence.elapsed_ns--;
    expect(f, KILN_OUTCOME_CRASH, "longer than its life");
    f->evidence.elapsed_ns = 100000000;
    f->timing.sample_ns[3] = UINT64_MAX;
    expect(f, KILN_OUTCOME_CRASH, "longer than its life");
    f->timing = honest;
    for (uint32_t i = 0; i < 5; i++) f->timing.sample_ns[i] = 30000000;
    expect(f, KILN_OUTCOME_CRASH, "longer than its life");
    f->timing = honest;
    f->timing.stop = (kiln_stop)99;
    expect(f, KILN_OUTCOME_CRASH, "reason");
}

/* A simulator may be faster than its machine. */
static void counted_time_may_exceed_the_childs_life(void **state) {
    fixture *f = *state;
    f->timing.sample_count = f->timing.runs = 1;
    f->timing.sample_ns[0] = 40 * f->evidence.elapsed_ns;
    f->evidence.exact = true;
    expect(f, KILN_OUTCOME_OK, "");
    assert_true((uint64_t)f->result.samples_ns.item[0] == 40 * f->evidence.elapsed_ns);
    f->timing.sample_ns[0] = 0;
    expect(f, KILN_OUTCOME_CRASH, "no time");
}

static void a_lost_race_is_believed_only_when_it_was_lost(void **state) {
    fixture *f = *state;
    f->timing.sample_count = 3;
    f->timing.stop = KILN_STOP_RACED;
    *element(f->last, 19, 1) = 1000; /* it was never written: the kernel was stopped before */
    f->evidence.race_ns = 99999;     /* its samples are 100000 ns per run */
    expect(f, KILN_OUTCOME_OK, "");
    assert_int_equal(f->result.stop, KILN_STOP_RACED);
    assert_true(f->result.checked);
    f->evidence.race_ns = 100001;
    expect(f, KILN_OUTCOME_CRASH, "race");
    f->evidence.race_ns = 0;
    expect(f, KILN_OUTCOME_CRASH, "race");
    f->evidence.race_ns = 99999;
    f->timing.sample_count = 2;
    expect(f, KILN_OUTCOME_CRASH, "race");
}

static void faster_than_the_machine_is_wrong(void **state) {
    fixture *f = *state;
    f->manifest.executed_flops =
        100e9 * 0.0001 * 1.1; /* 110 % of the peak: its clock may have risen */
    expect(f, KILN_OUTCOME_OK, "");
    f->manifest.executed_flops = 100e9 * 0.0001 * 1.3;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine");
    assert_int_equal(f->result.blame, KILN_BLAME_CANDIDATE);
    f->evidence.peak_flops = 0; /* unknown: no such check */
    expect(f, KILN_OUTCOME_OK, "");
}

static void a_device_is_held_against_what_was_measured_on_it(void **state) {
    fixture *f = *state;
    double measured[KILN_DTYPE_COUNT] = {0};
    f->evidence.gpu = kiln_gpu_find(KILN_STR("opencl")); /* whose row knows no rates */
    f->evidence.gpu_flops = measured;
    f->manifest.executed_flops = 100e9 * 0.0001 * 1.3;
    expect(f, KILN_OUTCOME_OK, ""); /* nothing is known */
    measured[KILN_F32] = 100e9;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine");
    f->arg[0].dtype = KILN_F16;
    expect(f, KILN_OUTCOME_OK, "");
    assert_true(kiln_verdict_gpu_peak(f->evidence.gpu, measured, &f->manifest) == 200e9);
    measured[KILN_F16] = 150e9;
    assert_true(kiln_verdict_gpu_peak(f->evidence.gpu, measured, &f->manifest) == 150e9);
    /* One that is known may be faster than its row, and not slower. */
    const kiln_gpu *known = kiln_gpu_find(KILN_STR("h200"));
    const double stated = kiln_gpu_peak_flops(known, KILN_F16);
    assert_true(kiln_verdict_gpu_peak(known, measured, &f->manifest) == stated);
    measured[KILN_F16] = 1.1 * stated;
    assert_true(kiln_verdict_gpu_peak(known, measured, &f->manifest) == 1.1 * stated);
}

static void bytes_may_be_four_times_as_fast_as_floats(void **state) {
    fixture *f = *state;
    f->manifest.executed_flops = 100e9 * 0.0001 * 3.9;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine");
    f->arg[0].dtype = KILN_I8;
    expect(f, KILN_OUTCOME_OK, "");
    f->arg[0].dtype = KILN_F16;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine");
    f->arg[0].dtype = KILN_I8;
    f->manifest.executed_flops = 100e9 * 0.0001 * 5;
    expect(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine");
}

static void a_reference_that_does_not_fit_is_the_clients_fault(void **state) {
    fixture *f = *state;
    f->reference.output[0].shape.dim[1] = 4;
    expect(f, KILN_OUTCOME_INFRA, "reference");
    assert_int_equal(f->result.blame, KILN_BLAME_CLIENT);
    assert_false(f->result.checked);
    f->reference.output[0].shape.dim[1] = 3;
    f->reference.output_count = 0;
    expect(f, KILN_OUTCOME_INFRA, "reference");
}

static void outputs_that_are_not_real_are_not_checked(void **state) {
    fixture *f = *state;
    f->evidence.reference = NULL;
    f->evidence.first = f->evidence.last = NULL;
    expect(f, KILN_OUTCOME_OK, "");
    assert_false(f->result.checked);
}

static void the_output_area_is_as_large_as_the_blocks(void **state) {
    fixture *f = *state;
    assert_int_equal(kiln_executor_arg_bytes(&f->arg[1]), BLOCKED_BYTES);
    assert_int_equal(kiln_executor_output_bytes(&f->manifest), BLOCKED_BYTES);
    assert_int_equal(BLOCKED_BYTES % KILN_KERNEL_ALIGNMENT, 0);
    f->arg[1].shape = (kiln_shape){.rank = 2, .dim = {1, 1}};
    assert_null(kiln_layout_parse(KILN_STR("d0,d1"), 2, &f->arg[1].layout));
    assert_int_equal(kiln_executor_output_bytes(&f->manifest), KILN_KERNEL_ALIGNMENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(right_outputs_and_plain_times_are_ok),
        TEST(an_error_within_the_bound_is_ok_and_told),
        TEST(bounds_grow_by_the_factor_of_the_algorithm),
        TEST(one_wrong_element_is_found_in_either_call),
        TEST(what_lies_in_padding_does_not_matter),
        TEST(an_impossible_report_is_a_crash),
        TEST(counted_time_may_exceed_the_childs_life),
        TEST(a_lost_race_is_believed_only_when_it_was_lost),
        TEST(faster_than_the_machine_is_wrong),
        TEST(a_device_is_held_against_what_was_measured_on_it),
        TEST(bytes_may_be_four_times_as_fast_as_floats),
        TEST(a_reference_that_does_not_fit_is_the_clients_fault),
        TEST(outputs_that_are_not_real_are_not_checked),
        TEST(the_output_area_is_as_large_as_the_blocks),
    };
    return cmocka_run_group_tests_name("rpc-server/verdict", tests, NULL, NULL);
}
