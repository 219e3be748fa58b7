/* NVIDIA's driver as Kiln calls it, against a driver without a device (tests/support/fake_cuda.h):
 * order, numbers and sizes of calls, what is left behind, and each error. PTX is not run: what
 * kernels write here is written by functions of this file. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/runtime/cuda.h"
#include "deploy/runtime/kernel.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/test.h"
#include "tests/support/text_artefact.h"

#define ENTRY(name, parameters) ".visible .entry " name "(" parameters ")\n{\n    ret;\n}\n"
#define POINTER(name) "    .param .u64 " name

static const char ptx[] = "//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n" ENTRY(
    "prepare_0", POINTER("w") ",\n" POINTER("p") "\n")
    ENTRY("run_1", POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t") "\n")
        ENTRY("run_2", POINTER("t") ",\n" POINTER("y") ",\n" POINTER("scratch") "\n");

/* The same; run_1 runs in clusters and has maps of x and p. */
#define MAP(name) "    .param .align 64 .b8 " name "[128]"
#define WP POINTER("w") ",\n" POINTER("p")
#define XPT POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t")
#define TYS POINTER("t") ",\n" POINTER("y") ",\n" POINTER("scratch")
#define MAPS MAP("mx") ",\n" MAP("mp")
#define BODY "\n{\n    ret;\n}\n"
static const char ptx_of_maps[] =
    "//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n"
    ".visible .entry prepare_0(" WP ")" BODY ".visible .entry run_1(" XPT ",\n" MAPS
    ")\n.reqnctapercluster 2, 1, 1" BODY ".visible .entry run_2(" TYS ")" BODY;
static const kiln_manifest_map maps[] = {{.arg = 0,
                                          .dtype = KILN_F32,
                                          .rank = 2,
                                          .size = {32, 32},
                                          .stride_bytes = {4, 128},
                                          .box = {32, 8},
                                          .is_permuted = true},
                                         {.arg = 1,
                                          .offset_bytes = 1024,
                                          .dtype = KILN_F32,
                                          .rank = 1,
                                          .size = {TEXT_ARTEFACT_COUNT - 256},
                                          .stride_bytes = {4},
                                          .box = {256}}};

static void *library;
static fake_cuda *fake;
static fake_cuda fresh; /* as it was at the beginning */

static const float *input_of(void **parameter, int index) {
    return *(const float *const *)parameter[index];
}

static void prepare_0(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *p = *(float **)parameter[1];
    for (uint32_t i = 0; i < grid[0] * group[0]; i++) p[i] = 2 * input_of(parameter, 0)[i];
}

static void run_1(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *t = *(float **)parameter[2];
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        t[i] = input_of(parameter, 0)[i] + input_of(parameter, 1)[i];
}

static void run_2(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *y = *(float **)parameter[1], *scratch = *(float **)parameter[2];
    for (uint32_t i = 0; i < grid[0] * group[0]; i++) {
        const uint32_t from = i - i % group[0] + group[0] - 1 - i % group[0];
        scratch[i] = input_of(parameter, 0)[from];
        y[i] = scratch[i];
    }
}

/* Each test begins with a driver as it came, and ends with nothing left of Kiln in it. */
static int set_up(void **state) {
    *fake = fresh;
    return arena_set_up(state);
}

static int tear_down(void **state) {
    const bool clean = fake->complaints == 0 && fake->contexts == 0 && fake->streams == 0 &&
                       fake->events == 0 && fake->modules == 0 && fake->allocations == 0;
    if (!clean)
        print_error("left in the driver: %d complaints (%s), %d contexts, %d streams, %d events, "
                    "%d modules, %d allocations\n",
                    fake->complaints, fake->complaint, fake->contexts, fake->streams, fake->events,
                    fake->modules, fake->allocations);
    arena_tear_down(state);
    return clean ? 0 : -1;
}

static void fail_next(const char *symbol, int at, int code) {
    fake->fail_symbol = symbol;
    fake->fail_at = at;
    fake->fail_code = code;
}

static kiln_str artefact(kiln_arena *arena) {
    return text_artefact_encode(
        &(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx}, arena);
}

static kiln_device *open_device(void) {
    kiln_device *device = NULL;
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, NULL, &device));
    return device;
}

static void expect_target(uint32_t index, const char *text, kiln_arena *arena) {
    kiln_device_facts *facts;
    uint32_t count;
    kiln_strbuf got = {0};
    expect_ok(kiln_device_list(KILN_DEVICE_CUDA, arena, &facts, &count));
    assert_true(index < count);
    kiln_target_print(&facts[index].target, &got);
    expect_str(kiln_strbuf_view(&got), text);
    kiln_strbuf_deinit(&got);
}

static void a_device_is_known_by_name_and_size(void **state) {
    expect_target(0, "cuda:sm_90a,mcpu=h200", *state);
    fake->device_count = 4;
    fake->device[1] =
        (fake_cuda_device){"NVIDIA A100-SXM4-80GB", 8, 0, 108, 1024, 166912, (size_t)81154 << 20};
    fake->device[2] =
        (fake_cuda_device){"NVIDIA H100 PCIe", 9, 0, 114, 1024, 232448, (size_t)81559 << 20};
    fake->device[3] =
        (fake_cuda_device){"NVIDIA GeForce RTX 3090", 8, 6, 82, 1024, 101376, (size_t)24268 << 20};
    expect_target(1, "cuda:sm_80,mcpu=a100", *state);
    expect_target(2, "cuda:sm_90a", *state);
    expect_target(3, "cuda:sm_80", *state);
    kiln_device *device;
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, &(kiln_device_setup){.index = 3}, &device));
    assert_int_equal(kiln_device_target(device)->shared_bytes, 101376); /* its own, not the row's */
    kiln_device_close(device);
    kiln_target wanted;
    expect_ok(kiln_target_parse(KILN_STR("cuda:sm_90a"), *state, &wanted));
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA,
                               &(kiln_device_setup){.wanted = &wanted, .index = 1}, &device));
    assert_int_equal(kiln_device_target(device)->cores, 114);
    kiln_device_close(device);
    expect_error(kiln_device_open(KILN_DEVICE_CUDA, &(kiln_device_setup){.index = 4}, &device),
                 NOT_FOUND, "there is no device 4: there are 4");
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    uint32_t count;
    kiln_device *device;
    fake->version = 10020;
    expect_error(kiln_device_count(KILN_DEVICE_CUDA, &count), FAILED_PRECONDITION,
                 "too old: it supports CUDA 10.2, Kiln needs 11.0");
    assert_int_equal(fake->inits, 0);
    fake->version = 12040;
    fake->device_count = 0;
    expect_error(kiln_device_count(KILN_DEVICE_CUDA, &count), NOT_FOUND, "/dev/nvidia*");
    fake->device_count = 1;
    static const char *const on_the_way[] = {"cuInit",          "cuDeviceGetCount",
                                             "cuDeviceGetName", "cuDevicePrimaryCtxRetain",
                                             "cuStreamCreate",  "cuEventCreate"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(on_the_way); i++) {
        fail_next(on_the_way[i], 1, 3);
        expect_error(kiln_device_open(KILN_DEVICE_CUDA, NULL, &device), INTERNAL, "an error of");
    }
}

typedef struct tensors {
    float x[TEXT_ARTEFACT_COUNT], w[TEXT_ARTEFACT_COUNT], y[TEXT_ARTEFACT_COUNT],
        expected[TEXT_ARTEFACT_COUNT];
} tensors;

static tensors *make_tensors(kiln_arena *arena) {
    tensors *t = KILN_ARENA_NEW(arena, tensors);
    for (uint32_t i = 0; i < TEXT_ARTEFACT_COUNT; i++) {
        t->x[i] = (float)i;
        t->w[i] = (float)(i % 5) / 4;
    }
    text_artefact_expected(t->x, t->w, t->expected);
    return t;
}

static void bind(kiln_device *device, kiln_call *call, const kiln_device_memory *memory,
                 tensors *t) {
    float *const from[] = {[TEXT_X] = t->x, [TEXT_W] = t->w, [TEXT_Y] = t->y};
    for (uint32_t i = TEXT_X; i <= TEXT_Y; i++) {
        kiln_device_place place = kiln_device_place_at(device, memory, i * TEXT_ARTEFACT_BYTES);
        expect_ok(kiln_call_bind_place(call, i, place, TEXT_ARTEFACT_BYTES));
        assert_int_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE, place,
                                          kiln_host_place(from[i]), TEXT_ARTEFACT_BYTES),
                         0);
    }
}

static void launches_get_their_arguments_in_order(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory;
    tensors *t = make_tensors(*state);
    fake->kernel[0].entry = "prepare_0", fake->kernel[0].run = prepare_0;
    fake->kernel[1].entry = "run_1", fake->kernel[1].run = run_1;
    fake->kernel[2].entry = "run_2", fake->kernel[2].run = run_2;
    expect_ok(kiln_kernel_check(artefact(*state)));
    expect_ok(kiln_kernel_load(artefact(*state), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &memory));
    bind(device, call, &memory, t);
    expect_ok(kiln_call_prepare(call, NULL));
    assert_int_equal(fake->launches, 1);
    assert_int_equal(kiln_device_elapsed_ns(device, 1, 2), 0); /* never recorded */
    assert_int_equal(kiln_device_record(device, 1), 0);
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
    assert_int_equal(kiln_device_record(device, 2), 0);
    assert_int_equal(fake->launches, 3);
    assert_int_equal(fake->launch_shared, 256);
    kiln_device_place y = kiln_device_place_at(device, &memory, TEXT_Y * TEXT_ARTEFACT_BYTES);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(t->y), y,
                                      TEXT_ARTEFACT_BYTES),
                     0);
    assert_int_equal(kiln_device_record(device, 3), 0);
    assert_int_equal(kiln_device_wait(device, 3), 0);
    assert_int_equal(kiln_device_wait(device, 60), 0); /* nothing to wait for */
    assert_in_range(kiln_device_elapsed_ns(device, 1, 2), 19900, 20100);
    assert_memory_equal(t->y, t->expected, TEXT_ARTEFACT_BYTES);
    kiln_device_release(device, &memory);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
}

static void memory_is_zeroed_and_what_is_left_is_said(void **state) {
    (void)state;
    kiln_device *device = open_device();
    kiln_device_memory memory;
    uint8_t got[1003];
    expect_ok(kiln_device_allocate(device, 0, KILN_GUARD_NONE, &memory));
    kiln_device_release(device, &memory);
    expect_ok(kiln_device_allocate(device, sizeof got, KILN_GUARD_NONE, &memory));
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got),
                                      kiln_device_place_at(device, &memory, 0), sizeof got),
                     0);
    for (size_t i = 0; i < sizeof got; i++) assert_int_equal(got[i], 0);
    kiln_device_memory more;
    fake->device[0].memory_bytes = 5000;
    expect_error(kiln_device_allocate(device, 4000, KILN_GUARD_NONE, &more), RESOURCE_EXHAUSTED,
                 "4000 bytes on a device with 3997 left of 5000");
    fail_next("cuMemsetD8Async", 1, 1);
    expect_error(kiln_device_allocate(device, 10, KILN_GUARD_NONE, &more), INTERNAL, "clearing");
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

static void more_shared_memory_is_asked_for(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    text_artefact a = {
        .kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx, .shared_bytes = 200000};
    expect_ok(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel));
    assert_int_equal(fake->dynamic_shared, 200000);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
    fake->device[0].group_shared = 101376; /* between two rows */
    device = open_device();
    a.target = "cuda:sm_90a";
    expect_error(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel),
                 FAILED_PRECONDITION, "the device has 101376");
    kiln_device_close(device);
}

static void artefacts_are_checked_without_a_driver(void **state) {
    text_artefact a = {.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx};
    a.group = 2048;
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), FAILED_PRECONDITION,
                 "a group of 2048 threads; the device runs 1024");
    a.group = 0;
    a.shared_bytes = 232449;
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), FAILED_PRECONDITION,
                 "232449 bytes shared by a group; the device has 232448");
    a.shared_bytes = 0;
    a.text = ENTRY("prepare_0", POINTER("w")) ENTRY("run_1", "") ENTRY("run_2", "");
    expect_error(
        kiln_kernel_check(text_artefact_encode(&a, *state)), DATA_LOSS,
        "the code has 1 parameters: 1 pointers and 0 tensor maps; the launch passes 2 pointers");
    a.text =
        ENTRY("prepare_0", POINTER("w") ",.param .u32 n") ENTRY("run_1", "") ENTRY("run_2", "");
    expect_error(
        kiln_kernel_check(text_artefact_encode(&a, *state)), DATA_LOSS,
        "the code has 2 parameters: 1 pointers and 0 tensor maps; the launch passes 2 pointers");
    a.text = ENTRY("prepare_0", "") ENTRY("run_1", "");
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), NOT_FOUND,
                 "there is no entry run_2");
    assert_int_equal(fake->inits, 0);
}

static void code_that_the_driver_refuses_is_refused_with_its_log(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s nonsense", ptx);
    kiln_strbuf_char(&text, '\0');
    text_artefact a = {.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = text.data};
    expect_error(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel),
                 INVALID_ARGUMENT, "line 3; fatal : Parsing error near 'nonsense'");
    fail_next("cuModuleLoadDataEx", 1, 222);
    expect_error(kiln_kernel_load(artefact(*state), device, &kernel), FAILED_PRECONDITION,
                 "too old for this code: it supports CUDA 12.4");
    fake->function_threads = 32;
    expect_error(kiln_kernel_load(artefact(*state), device, &kernel), FAILED_PRECONDITION,
                 "a group of 64 threads; with these registers the device runs 32");
    kiln_strbuf_deinit(&text);
    kiln_device_close(device);
}

/* After an illegal access every call fails, and whoever asks learns that it is no use to go on. */
static void a_spoilt_context_is_a_lost_device(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory;
    tensors *t = make_tensors(*state);
    expect_ok(kiln_kernel_load(artefact(*state), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &memory));
    bind(device, call, &memory, t);
    fail_next("cuLaunchKernel", 1, 701); /* too many resources for a launch: nothing is spoilt */
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_FAILED);
    assert_false(kiln_device_is_lost(device));
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
    assert_int_equal(kiln_device_record(device, 0), 0);
    fail_next("cuEventSynchronize", 1, 700);
    assert_int_equal(kiln_device_wait(device, 0), KILN_KERNEL_FAILED);
    expect_contains(
        kiln_device_error(device),
        "waiting: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, "
        "700); the device is lost");
    assert_true(kiln_device_is_lost(device));
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_FAILED);
    kiln_device_release(device, &memory);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
    assert_int_equal(fake->spoilt, 0); /* with the context the fault is gone */
}

/* ---- tensor maps and clusters ---------------------------------------------------------------- */

/* run_1, which reads x and p where their maps say that they are. */
static void run_1_by_maps(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *t = *(float **)parameter[2];
    fake_cuda_map x, p;
    memcpy(&x, parameter[3], sizeof x);
    memcpy(&p, parameter[4], sizeof p);
    assert_true(x.mark == FAKE_CUDA_MAP_MARK && p.mark == FAKE_CUDA_MAP_MARK);
    assert_true(x.rank == 2 && x.size[0] == 32 && x.size[1] == 32 && x.stride_bytes[0] == 128);
    assert_true(x.box[0] == 32 && x.box[1] == 8 && x.swizzle == KILN_CU_MAP_SWIZZLE_128B);
    assert_true(p.rank == 1 && p.size[0] == TEXT_ARTEFACT_COUNT - 256 && p.box[0] == 256);
    assert_int_equal(p.swizzle, KILN_CU_MAP_SWIZZLE_NONE);
    assert_int_equal(p.type, KILN_CU_MAP_UINT32);
    assert_int_equal(fake->launch_cluster, 2);
    const float *from = (const float *)(uintptr_t)x.address,
                *packed = (const float *)(uintptr_t)(p.address - 1024);
    for (uint32_t i = 0; i < grid[0] * group[0]; i++) t[i] = from[i] + packed[i];
}

static text_artefact artefact_of_maps(void) {
    fake->kernel[0].entry = "prepare_0", fake->kernel[0].run = prepare_0;
    fake->kernel[1].entry = "run_1", fake->kernel[1].run = run_1_by_maps;
    fake->kernel[2].entry = "run_2", fake->kernel[2].run = run_2;
    return (text_artefact){.kind = KILN_PAYLOAD_PTX,
                           .target = "h200",
                           .text = ptx_of_maps,
                           .cluster = 2,
                           .map_count = 2,
                           .map = maps};
}

static void run_and_compare(kiln_device *device, kiln_call *call, kiln_device_place y, tensors *t) {
    memset(t->y, 0xff, sizeof t->y);
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(t->y), y,
                                      TEXT_ARTEFACT_BYTES),
                     0);
    assert_memory_equal(t->y, t->expected, TEXT_ARTEFACT_BYTES);
}

static void maps_are_encoded_when_an_address_is_new(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory, other;
    tensors *t = make_tensors(*state);
    const text_artefact a = artefact_of_maps();
    expect_ok(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &memory));
    expect_ok(kiln_device_allocate(device, TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &other));
    bind(device, call, &memory, t);
    expect_ok(kiln_call_prepare(call, NULL));
    assert_int_equal(fake->maps, 0); /* the launch that packs has none */
    const kiln_device_place y = kiln_device_place_at(device, &memory, TEXT_Y * TEXT_ARTEFACT_BYTES),
                            x = kiln_device_place_at(device, &memory, TEXT_X * TEXT_ARTEFACT_BYTES),
                            elsewhere = kiln_device_place_at(device, &other, 0);
    const uint64_t before = kiln_alloc_count();
    for (int run = 0; run < 3; run++) run_and_compare(device, call, y, t);
    assert_int_equal(fake->maps, 2);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_WITHIN, elsewhere, x, TEXT_ARTEFACT_BYTES),
                     0);
    kiln_call_rebind(call, TEXT_X, elsewhere);
    for (int run = 0; run < 3; run++) run_and_compare(device, call, y, t);
    assert_int_equal(fake->maps, 3); /* that of p stayed */
    kiln_call_rebind(call, TEXT_X, x);
    run_and_compare(device, call, y, t);
    assert_int_equal(fake->maps, 3); /* the first one is still kept */
    assert_int_equal(kiln_alloc_count(), before);
    kiln_device_release(device, &memory);
    kiln_device_release(device, &other);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
}

static void a_map_that_the_driver_refuses_fails_its_launch_alone(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory;
    tensors *t = make_tensors(*state);
    const text_artefact a = artefact_of_maps();
    expect_ok(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &memory));
    bind(device, call, &memory, t);
    expect_ok(kiln_call_prepare(call, NULL));
    const int launches = fake->launches;
    fail_next("cuTensorMapEncodeTiled", 2, 1);
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_FAILED);
    expect_contains(kiln_device_error(device),
                    "encoding a tensor map: an error of the fake driver");
    assert_int_equal(fake->launches, launches);
    assert_false(kiln_device_is_lost(device));
    run_and_compare(device, call,
                    kiln_device_place_at(device, &memory, TEXT_Y * TEXT_ARTEFACT_BYTES), t);
    assert_int_equal(fake->maps, 2);
    kiln_device_release(device, &memory);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
}

static void a_driver_without_maps_is_named_when_the_code_is_loaded(void **state) {
    kiln_kernel *kernel;
    text_artefact a = artefact_of_maps();
    fake->version = 11080;
    kiln_device *device = open_device();
    expect_error(kiln_kernel_load(text_artefact_encode(&a, *state), device, &kernel),
                 FAILED_PRECONDITION,
                 "launch 1 has tensor maps, which drivers make since CUDA 12.0; this one supports "
                 "CUDA 11.8: install a newer driver");
    assert_int_equal(fake->modules, 0);
    expect_ok(kiln_kernel_load(artefact(*state), device, &kernel));
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
}

typedef int (*encode_function)(kiln_cu_map *, int, uint32_t, void *, const uint64_t *,
                               const uint64_t *, const uint32_t *, const uint32_t *, int, int, int,
                               int);

/* Arguments of cuTensorMapEncodeTiled, of which a test spoils one. */
typedef struct encoding {
    char *map, *address;
    int type, interleave, swizzle, promotion, fill;
    uint32_t rank, box[2], step[2];
    uint64_t size[2], stride[1];
} encoding;

typedef void (*spoil)(encoding *e);
static void spoil_map(encoding *e) { e->map += 32; }
static void spoil_address(encoding *e) { e->address += 8; }
static void spoil_memory(encoding *e) { e->address += 16; }
static void spoil_host_address(encoding *e) { e->address = e->map; }
static void spoil_type(encoding *e) { e->type = 13; }
static void spoil_rank(encoding *e) { e->rank = 6; }
static void spoil_size(encoding *e) { e->size[0] = 0; }
static void spoil_stride(encoding *e) { e->stride[0] = 136; }
static void spoil_long_stride(encoding *e) { e->stride[0] = UINT64_C(1) << 40; }
static void spoil_box(encoding *e) { e->box[1] = 257; }
static void spoil_row(encoding *e) { e->box[0] = 6; }
static void spoil_wide_row(encoding *e) { e->box[0] = 36; }
static void spoil_step(encoding *e) { e->step[1] = 0; }
static void spoil_interleave(encoding *e) { e->interleave = 1; }
static void spoil_swizzle(encoding *e) { e->swizzle = 7; }
static void spoil_promotion(encoding *e) { e->promotion = 4; }
static void spoil_fill(encoding *e) { e->fill = 1; }

/* What the tests above rest on: that the fake driver refuses what CUDA's does. */
static void the_fake_driver_looks_at_maps(void **state) {
    (void)state;
    static const spoil row[] = {
        spoil_map,       spoil_address,  spoil_memory, spoil_host_address, spoil_type,
        spoil_rank,      spoil_size,     spoil_stride, spoil_long_stride,  spoil_box,
        spoil_row,       spoil_wide_row, spoil_step,   spoil_interleave,   spoil_swizzle,
        spoil_promotion, spoil_fill};
    kiln_device *device = open_device();
    kiln_device_memory memory;
    kiln_cu_map map[2];
    encode_function encode;
    *(void **)&encode = dlsym(library, "cuTensorMapEncodeTiled");
    expect_ok(kiln_device_allocate(device, 4096, KILN_GUARD_NONE, &memory));
    for (size_t i = 0; i <= KILN_ARRAY_COUNT(row); i++) {
        encoding e = {.map = (char *)map,
                      .address = memory.data,
                      .type = KILN_CU_MAP_UINT32,
                      .swizzle = KILN_CU_MAP_SWIZZLE_128B,
                      .rank = 2,
                      .box = {32, 8},
                      .step = {1, 1},
                      .size = {32, 32},
                      .stride = {128}};
        if (i > 0) row[i - 1](&e);
        const int code =
            encode((kiln_cu_map *)(void *)e.map, e.type, e.rank, e.address, e.size, e.stride, e.box,
                   e.step, e.interleave, e.swizzle, e.promotion, e.fill);
        if ((code != 0) != (i > 0) || fake->complaints != (int)i)
            fail_msg("row %zu: code %d, %d complaints", i, code, fake->complaints);
    }
    assert_int_equal(fake->maps, 1);
    fake->complaints = 0;
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
    fresh = *fake;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_device_is_known_by_name_and_size),
        TEST(what_is_missing_is_said),
        TEST(launches_get_their_arguments_in_order),
        TEST(memory_is_zeroed_and_what_is_left_is_said),
        TEST(more_shared_memory_is_asked_for),
        TEST(artefacts_are_checked_without_a_driver),
        TEST(code_that_the_driver_refuses_is_refused_with_its_log),
        TEST(a_spoilt_context_is_a_lost_device),
        TEST(maps_are_encoded_when_an_address_is_new),
        TEST(a_map_that_the_driver_refuses_fails_its_launch_alone),
        TEST(a_driver_without_maps_is_named_when_the_code_is_loaded),
        TEST(the_fake_driver_looks_at_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
