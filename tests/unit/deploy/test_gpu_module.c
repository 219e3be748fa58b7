/* A module on a CUDA driver without a device (tests/support/fake_cuda.h): its kernels are recorded
 * as a graph when it is opened, and repeated. Kernels are functions of this file. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/module.h"
#include "deploy/pack/module_write.h"
#include "deploy/runtime/device.h"
#include "tests/support/device_module.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/test.h"

#define COUNT TEXT_ARTEFACT_COUNT
#define LAUNCHES 4 /* of a run: two kernels of two */
#define ENTRY(name, parameters) ".visible .entry " name "(" parameters ")\n{\n    ret;\n}\n"
#define POINTER(name) "    .param .u64 " name

static const char ptx[] = "//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n" ENTRY(
    "prepare_0", POINTER("w") ",\n" POINTER("p") "\n")
    ENTRY("run_1", POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t") "\n")
        ENTRY("run_2", POINTER("t") ",\n" POINTER("y") ",\n" POINTER("scratch") "\n");

static fake_cuda *fake;
static fake_cuda fresh;
static float x[COUNT] __attribute__((aligned(64))), y[COUNT] __attribute__((aligned(64)));

static float *pointer(void **parameter, int index) { return *(float **)parameter[index]; }

static void prepare_0(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        pointer(parameter, 1)[i] = 2 * pointer(parameter, 0)[i];
}

static void run_1(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        pointer(parameter, 2)[i] = pointer(parameter, 0)[i] + pointer(parameter, 1)[i];
}

static void run_2(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        pointer(parameter, 1)[i] =
            pointer(parameter, 0)[i - i % group[0] + group[0] - 1 - i % group[0]];
}

static int set_up(void **state) {
    *fake = fresh;
    fake->kernel[0].entry = "prepare_0", fake->kernel[0].run = prepare_0;
    fake->kernel[1].entry = "run_1", fake->kernel[1].run = run_1;
    fake->kernel[2].entry = "run_2", fake->kernel[2].run = run_2;
    return arena_set_up(state);
}

static int tear_down(void **state) {
    arena_tear_down(state);
    if (fake->complaints) print_error("%s\n", fake->complaint);
    return fake->complaints + fake->contexts + fake->graphs + fake->allocations ? -1 : 0;
}

static void fail_next(const char *symbol, int at, int code) {
    fake->fail_symbol = symbol, fake->fail_at = at, fake->fail_code = code;
}

static kiln_module *open_module(kiln_arena *arena) {
    const kiln_module_plan plan = device_module_plan(
        KILN_DEVICE_CUDA, &(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx},
        arena);
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_strbuf bytes = {0};
    kiln_module *module = NULL;
    expect_ok(kiln_module_encode(&plan, &bytes));
    void *copy = kiln_arena_alloc_aligned(arena, 64, bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    if (kiln_module_open_memory(copy, bytes.size, NULL, &module, error, sizeof error))
        fail_msg("%s", error);
    kiln_strbuf_deinit(&bytes);
    return module;
}

static void expect_run(kiln_module *module, float first) {
    float expected[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = first + (float)i;
    memset(y, 0xff, sizeof y);
    if (kiln_module_run(module, (const void *[]){x}, (void *[]){y}))
        fail_msg("%s", kiln_module_error(module));
    device_module_expected(x, expected);
    assert_memory_equal(y, expected, sizeof y);
}

static void launches_are_recorded_once_and_repeated(void **state) {
    kiln_module *module = open_module(*state);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->launches, 1); /* what packs the constant */
    const uint64_t before = kiln_alloc_count();
    for (int run = 0; run < 3; run++) expect_run(module, (float)run);
    assert_int_equal(kiln_alloc_count(), before);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->graph_launches, 3);
    assert_int_equal(fake->launches, 1);
    kiln_module_close(module);
}

static void count_step(void *context, uint32_t step, int done) {
    (void)step;
    *(int *)context += done;
}

/* Each step is done and told of by itself. */
static void a_hook_sees_single_steps(void **state) {
    kiln_module *module = open_module(*state);
    int steps = 0;
    kiln_module_set_hook(module, count_step, &steps);
    expect_run(module, 1);
    assert_int_equal(steps, DEVICE_MODULE_STEPS);
    assert_int_equal(fake->launches, 1 + LAUNCHES);
    assert_int_equal(fake->graph_launches, 0);
    kiln_module_set_hook(module, NULL, NULL);
    expect_run(module, 2);
    assert_int_equal(fake->graph_launches, 1);
    kiln_module_close(module);
}

/* A driver that cannot, or fails anywhere on the way. */
static void without_a_recording_launches_are_made_one_by_one(void **state) {
    static const struct {
        const char *symbol;
        int at, code;
    } row[] = {{"cuStreamBeginCapture_v2", 1, 801},
               {"cuLaunchKernel", 2, 1}, /* the first is that of prepare */
               {"cuLaunchKernel", 5, 1},
               {"cuStreamEndCapture", 1, 901},
               {"cuGraphInstantiateWithFlags", 1, 2}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        fail_next(row[i].symbol, row[i].at, row[i].code);
        kiln_module *module = open_module(*state);
        const int launches = fake->launches;
        for (int run = 0; run < 2; run++) expect_run(module, (float)run);
        assert_int_equal(fake->launches, launches + 2 * LAUNCHES);
        assert_int_equal(fake->graph_launches + fake->graphs, 0);
        kiln_module_close(module);
    }
}

static void a_repetition_that_fails_is_an_error_of_the_run(void **state) {
    kiln_module *module = open_module(*state);
    fail_next("cuGraphLaunch", 1, 1);
    assert_int_equal(kiln_module_run(module, (const void *[]){x}, (void *[]){y}), KILN_INTERNAL);
    assert_non_null(strstr(kiln_module_error(module), "in step 1: repeating a recording: "));
    expect_run(module, 5);
    kiln_module_close(module);
}

/* What Kiln must not do is refused by the driver; here, that it is. */
static void a_capture_takes_launches_and_copies_alone(void **state) {
    (void)state;
    kiln_device *device = NULL;
    kiln_device_memory memory;
    void *recording = NULL;
    char byte = 0;
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, NULL, &device));
    expect_ok(kiln_device_allocate(device, 64, KILN_GUARD_NONE, &memory));
    const kiln_device_place place = kiln_device_place_at(device, &memory, 0);
    assert_int_equal(kiln_device_begin(device), 0);
    assert_int_not_equal(
        kiln_device_copy(device, KILN_COPY_TO_DEVICE, place, kiln_host_place(&byte), 1), 0);
    assert_int_not_equal(kiln_device_end(device, &recording), 0);
    assert_null(recording);
    assert_int_equal(kiln_device_begin(device), 0);
    assert_int_not_equal(kiln_device_record(device, 0), 0);
    assert_int_not_equal(kiln_device_end(device, &recording), 0);
    assert_false(kiln_device_is_lost(device));
    /* And a copy is not done before it is repeated. */
    byte = 7;
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_TO_DEVICE, place, kiln_host_place(&byte), 1), 0);
    const kiln_device_place behind = kiln_device_place_at(device, &memory, 1);
    assert_int_equal(kiln_device_begin(device), 0);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_WITHIN, behind, place, 1), 0);
    assert_int_equal(kiln_device_end(device, &recording), 0);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(&byte), behind, 1), 0);
    assert_int_equal(byte, 0);
    assert_int_equal(kiln_device_replay(device, recording), 0);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(&byte), behind, 1), 0);
    assert_int_equal(byte, 7);
    kiln_device_forget(device, recording);
    kiln_device_forget(device, NULL);
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

static void devices_that_record_nothing_say_so(void **state) {
    (void)state;
    kiln_device *device = NULL;
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, NULL, &device));
    assert_int_equal(kiln_device_begin(device), KILN_KERNEL_FAILED);
    kiln_device_close(device);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
    fresh = *fake;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(launches_are_recorded_once_and_repeated),
        TEST(a_hook_sees_single_steps),
        TEST(without_a_recording_launches_are_made_one_by_one),
        TEST(a_repetition_that_fails_is_an_error_of_the_run),
        TEST(a_capture_takes_launches_and_copies_alone),
        TEST(devices_that_record_nothing_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
