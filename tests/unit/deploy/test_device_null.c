/* The null device: memory of its own, artefacts that are checked before they run, a clock that
 * counts ticks. */
#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/runtime/kernel.h"
#include "tests/support/null_artefact.h"
#include "tests/support/test.h"

/* y[i] = x[i] + 1 */
static kiln_null_instruction add_one[] = {
    {KILN_NULL_SET, 6, 0, 0, 0, 0},       {KILN_NULL_SET, 8, 0, 0, 0, 1},
    {KILN_NULL_LOOP, 7, 0, 0, 0, 0},      {KILN_NULL_LOAD, 9, 6, 7, 0, 1},
    {KILN_NULL_ADD, 9, 9, 8, 0, 0},       {KILN_NULL_STORE, 9, 6, 7, 1, 1},
    {KILN_NULL_LOOP_END, 7, 0, 0, 0, 16}, {KILN_NULL_END, 0, 0, 0, 0, 0},
};

static kiln_str artefact(kiln_arena *arena, const char *target, uint64_t count, uint64_t shared) {
    return null_artefact_encode(&(null_artefact){.target = target,
                                                 .dtype = KILN_I32,
                                                 .count = count,
                                                 .shared_bytes = shared,
                                                 .instruction_count = KILN_ARRAY_COUNT(add_one),
                                                 .instruction = add_one},
                                arena);
}

static void a_kernel_runs_in_memory_of_the_device_and_takes_its_time(void **state) {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory x, y;
    int32_t sent[16], got[16] = {0};
    for (int32_t i = 0; i < 16; i++) sent[i] = i * i;
    expect_ok(kiln_kernel_check(artefact(*state, "null", 16, 0)));
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, NULL, &device));
    expect_ok(kiln_kernel_load(artefact(*state, "null", 16, 0), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_error(kiln_call_bind(call, 0, sent, sizeof sent), INVALID_ARGUMENT,
                 "memory of the host");
    expect_ok(kiln_device_allocate(device, sizeof sent, KILN_GUARD_NONE, &x));
    expect_ok(kiln_device_allocate(device, sizeof got, KILN_GUARD_NONE, &y));
    kiln_device_place from = kiln_device_place_at(device, &x, 0),
                      to = kiln_device_place_at(device, &y, 0);
    expect_ok(kiln_call_bind_place(call, 0, from, sizeof sent));
    expect_ok(kiln_call_bind_place(call, 1, to, sizeof got));
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_TO_DEVICE, from, kiln_host_place(sent), sizeof sent), 0);
    const uint64_t allocations = kiln_alloc_count();
    assert_int_equal(kiln_device_record(device, 0), 0);
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
    assert_int_equal(kiln_device_record(device, 1), 0);
    assert_int_equal(kiln_device_elapsed_ns(device, 0, 1),
                     KILN_NULL_TICKS_LAUNCH +
                         16 * (KILN_NULL_TICKS_STATEMENT + 2 * KILN_NULL_TICKS_ARGUMENT));
    assert_int_equal(kiln_alloc_count(), allocations);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got), to, sizeof got), 0);
    for (int32_t i = 0; i < 16; i++) assert_int_equal(got[i], i * i + 1);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_release(device, &x);
    kiln_device_release(device, &y);
    kiln_device_close(device);
}

/* Nothing of the host is reached through the device, and nothing beyond an allocation. */
static void places_outside_of_its_memory_are_refused(void **state) {
    (void)state;
    kiln_device *device;
    kiln_device_memory memory;
    char host[64] = {0};
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, NULL, &device));
    expect_ok(kiln_device_allocate(device, sizeof host, KILN_GUARD_NONE, &memory));
    const kiln_device_place own = kiln_device_place_at(device, &memory, 0);
    const kiln_device_place wrong[] = {{host, 0},
                                       {NULL, 0},
                                       {memory.data, 1},
                                       {memory.data, UINT64_MAX},
                                       {(void *)(uintptr_t)2, 0}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        assert_int_not_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE, wrong[i],
                                              kiln_host_place(host), sizeof host),
                             0);
        assert_int_not_equal(kiln_device_copy(device, KILN_COPY_WITHIN, own, wrong[i], sizeof host),
                             0);
        expect_contains(kiln_device_error(device), "beyond the memory");
    }
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

static void artefacts_that_break_a_limit_are_refused_before_they_run(void **state) {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_target target;
    expect_error(kiln_kernel_check(artefact(*state, "null,shared=64", 16, 65)), FAILED_PRECONDITION,
                 "65 bytes shared by a group; the device has 64");
    expect_ok(kiln_kernel_check(artefact(*state, "null,shared=64", 16, 64)));
    expect_ok(kiln_target_parse(KILN_STR("null,shared=64"), *state, &target));
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, &(kiln_device_setup){.target = &target}, &device));
    expect_error(kiln_kernel_load(artefact(*state, "null", 16, 0), device, &kernel),
                 FAILED_PRECONDITION, "16384 bytes shared by a group; the device has 64");
    kiln_device_close(device);
    kiln_str bytes = artefact(*state, "null", 16, 0);
    ((char *)(uintptr_t)bytes.data)[bytes.size - 1] ^= 1; /* of the last END */
    kiln_status_free(
        kiln_kernel_check(bytes)); /* an immediate that END does not have may be anything */
    ((char *)(uintptr_t)bytes.data)[bytes.size - 18] ^= 1; /* END itself */
    expect_error(kiln_kernel_check(bytes), DATA_LOSS, "byte code");
}

static void code_that_wants_more_than_its_arguments_hold_fails(void **state) {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory;
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, NULL, &device));
    expect_ok(kiln_kernel_load(artefact(*state, "null", 17, 0), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 64, KILN_GUARD_NONE, &memory));
    for (uint32_t i = 0; i < 2; i++)
        expect_ok(kiln_call_bind_place(call, i, kiln_device_place_at(device, &memory, 0), 64));
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_FAILED);
    expect_contains(kiln_device_error(device), "outside of its buffer");
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_kernel_runs_in_memory_of_the_device_and_takes_its_time),
        cmocka_unit_test(places_outside_of_its_memory_are_refused),
        test_with_arena(artefacts_that_break_a_limit_are_refused_before_they_run),
        test_with_arena(code_that_wants_more_than_its_arguments_hold_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
