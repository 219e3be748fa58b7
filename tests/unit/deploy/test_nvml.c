/* What a device's management library says of it, against a library that a test tells what to say
 * (tests/support/fake_nvml.h), beside a CUDA driver without a device. */
#include "deploy/runtime/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_nvml.h"
#include "tests/support/test.h"

static fake_cuda *cuda;
static fake_nvml *fake;
static fake_cuda fresh_cuda;
static fake_nvml fresh;
static const char *cuda_path, *nvml_path;

static int set_up(void **state) {
    *cuda = fresh_cuda;
    *fake = fresh;
    (void)setenv("KILN_NVML_LIBRARY", nvml_path, 1);
    return arena_set_up(state);
}

static int tear_down(void **state) {
    arena_tear_down(state);
    return fake->starts + fake->complaints + cuda->complaints + cuda->contexts ? -1 : 0;
}

static kiln_device *open_device(uint32_t index) {
    kiln_device *device = NULL;
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, &(kiln_device_setup){.index = index}, &device));
    return device;
}

static const kiln_device_facts *list(kiln_arena *arena) {
    kiln_device_facts *facts;
    uint32_t count;
    expect_ok(kiln_device_list(KILN_DEVICE_CUDA, arena, &facts, &count));
    return facts;
}

static void a_reading_is_of_the_device_at_its_place(void **state) {
    (void)state;
    kiln_device_reading r;
    cuda->device_count = 3;
    cuda->device[1] = cuda->device[2] = cuda->device[0];
    kiln_device *device = open_device(2);
    assert_true(kiln_device_read(device, &r));
    assert_int_equal(fake->asked, 2);
    assert_int_equal(r.clock_khz, 1830000);
    assert_int_equal(r.clock_max_khz, 1980000);
    assert_int_equal(r.memory_clock_khz, 3201000);
    assert_int_equal(r.memory_clock_max_khz, 3202000);
    assert_int_equal(r.temperature_mc, 41000);
    assert_int_equal(r.power_mw, 74500);
    assert_int_equal(r.memory_used_bytes, UINT64_C(512) << 20);
    assert_int_equal(r.memory_bytes, UINT64_C(143771) << 20);
    assert_int_equal(r.throttle_bits, 0);
    kiln_device_close(device);
}

/* Heat and supply are nobody's work; what the work draws is. */
static void reasons_that_the_work_is_not_are_throttling(void **state) {
    (void)state;
    static const struct {
        unsigned long long reasons;
        uint32_t bits;
    } row[] = {{0x1 | 0x2 | KILN_NVML_REASON_POWER_CAP, 0}, /* idle, set so, drawn by the work */
               {KILN_NVML_REASON_HARDWARE, 0x08},
               {KILN_NVML_REASON_THERMAL | KILN_NVML_REASON_POWER_CAP, 0x20},
               {KILN_NVML_REASON_HARDWARE_THERMAL, 0x40},
               {KILN_NVML_REASON_POWER_BRAKE, 0x80}};
    kiln_device *device = open_device(0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_device_reading r;
        fake->reasons = row[i].reasons;
        assert_true(kiln_device_read(device, &r));
        assert_int_equal(r.throttle_bits, row[i].bits);
    }
    kiln_device_close(device);
}

static void what_the_library_cannot_say_stays_unknown(void **state) {
    (void)state;
    kiln_device_reading r;
    kiln_device *device = open_device(0);
    fake->fail_symbol = "nvmlDeviceGetPowerUsage", fake->fail_code = 3;
    assert_true(kiln_device_read(device, &r));
    assert_int_equal(r.power_mw, 0);
    assert_int_equal(r.temperature_mc, 41000);
    fake->fail_symbol = "nvmlDeviceGetCurrentClocksThrottleReasons";
    fake->reasons = KILN_NVML_REASON_HARDWARE;
    assert_true(kiln_device_read(device, &r));
    assert_int_equal(r.throttle_bits, 0);
    assert_int_equal(r.power_mw, 74500);
    kiln_device_close(device);
}

static void a_list_says_what_the_library_says(void **state) {
    const kiln_device_facts *facts = list(*state);
    assert_string_equal(facts->driver, "CUDA 12.4, driver 550.54.15");
    assert_string_equal(facts->management,
                        "GPU-5a5a5a5a-0000-0000-0000-000000000000, 1830 of 1980 MHz, memory 3201 "
                        "of 3202 MHz, 41 degrees, 74 W, 0.5 of 140.4 GiB used");
    fake->reasons = KILN_NVML_REASON_THERMAL;
    assert_non_null(strstr(list(*state)->management, ", slowed down (0x20)"));
    fake->fail_symbol = "nvmlDeviceGetUUID", fake->fail_code = 3;
    assert_non_null(strstr(list(*state)->management, "its identity is not known, 1830 of"));
}

/* The device works all the same, and the list says why nothing more is known. */
static void expect_unmanaged(const char *why, kiln_arena *arena) {
    kiln_device_reading r;
    const kiln_device_facts *facts = list(arena);
    if (!kiln_str_starts(kiln_str_from(facts->management), "its state is not known: ") ||
        !strstr(facts->management, why))
        fail_msg("%s", facts->management);
    assert_non_null(strstr(facts->driver, "CUDA 12.4"));
    kiln_device *device = open_device(0);
    assert_false(kiln_device_read(device, &r));
    kiln_device_close(device);
    assert_int_equal(fake->starts, 0);
}

static void without_the_library_devices_work_and_it_is_said(void **state) {
    (void)setenv("KILN_NVML_LIBRARY", "libkiln-no-such-library.so", 1);
    expect_unmanaged("libkiln-no-such-library.so is not installed; it comes with NVIDIA's driver",
                     *state);
    (void)setenv("KILN_NVML_LIBRARY", cuda_path, 1); /* a library without its functions */
    expect_unmanaged("has no function nvmlInit_v2: it is too old", *state);
    (void)setenv("KILN_NVML_LIBRARY", nvml_path, 1);
    fake->fail_symbol = "nvmlInit_v2", fake->fail_code = 9;
    expect_unmanaged("the management library does not start: error 9", *state);
    fake->fail_symbol = "nvmlDeviceGetHandleByPciBusId_v2", fake->fail_code = 4;
    expect_unmanaged("the management library does not show 0000:01:00.0: error 4", *state);
}

static void devices_without_such_a_library_are_not_read(void **state) {
    (void)state;
    kiln_device *device = NULL;
    kiln_device_reading r;
    expect_ok(kiln_device_open(KILN_DEVICE_CPU, NULL, &device));
    assert_false(kiln_device_read(device, &r));
    kiln_device_close(device);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    cuda_path = argv[1], nvml_path = argv[2];
    (void)setenv("KILN_CUDA_LIBRARY", cuda_path, 1);
    void *driver = dlopen(cuda_path, RTLD_NOW | RTLD_LOCAL),
         *library = dlopen(nvml_path, RTLD_NOW | RTLD_LOCAL);
    cuda = driver ? dlsym(driver, "fake_cuda_state") : NULL;
    fake = library ? dlsym(library, "fake_nvml_state") : NULL;
    if (!cuda || !fake) return 2;
    fresh_cuda = *cuda;
    fresh = *fake;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_reading_is_of_the_device_at_its_place),
        TEST(reasons_that_the_work_is_not_are_throttling),
        TEST(what_the_library_cannot_say_stays_unknown),
        TEST(a_list_says_what_the_library_says),
        TEST(without_the_library_devices_work_and_it_is_said),
        TEST(devices_without_such_a_library_are_not_read),
    };
    return cmocka_run_group_tests_name("deploy/nvml", tests, NULL, NULL);
}
