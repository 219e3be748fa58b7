/* Devices behind an OpenCL driver, with Debian's pocl-opencl-icd; what needs no driver runs without
 * one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/macros.h"
#include "deploy/module.h"
#include "deploy/pack/module_write.h"
#include "deploy/runtime/driver.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/opencl.h"
#include "tests/support/device_module.h"
#include "tests/support/test.h"
#include "tests/support/text_artefact.h"

static char *cache;            /* of the driver */
static bool there_is_a_driver; /* with a device */

static kiln_str artefact(kiln_arena *arena, const char *target, const char *text) {
    return text_artefact_encode(
        &(text_artefact){.kind = KILN_PAYLOAD_OPENCL, .target = target, .text = text}, arena);
}

static void skip_without_a_driver(void) {
    if (there_is_a_driver) return;
    skip_because("no OpenCL device: install pocl-opencl-icd");
}

static kiln_device *open_device(void) {
    kiln_device *device = NULL;
    skip_without_a_driver();
    expect_ok(kiln_device_open(KILN_DEVICE_OPENCL, NULL, &device));
    return device;
}

static void the_device_is_listed_and_found_by_its_name(void **state) {
    kiln_device *device = open_device(), *other = NULL;
    kiln_device_facts *facts;
    kiln_target wanted;
    kiln_strbuf text = {0};
    uint32_t count, counted;
    expect_ok(kiln_device_list(KILN_DEVICE_OPENCL, *state, &facts, &count));
    expect_ok(kiln_device_count(KILN_DEVICE_OPENCL, &counted));
    assert_int_equal(count, counted);
    assert_true(facts[0].name[0] && facts[0].driver[0] && facts[0].memory_bytes > 0);
    kiln_target_print(&facts[0].target, &text);
    expect_ok(kiln_target_parse(kiln_strbuf_view(&text), *state, &wanted));
    kiln_strbuf reason = {0};
    assert_true(kiln_target_runs_on(&wanted, kiln_device_target(device), &reason));
    kiln_device_close(device);
    expect_ok(
        kiln_device_open(KILN_DEVICE_OPENCL, &(kiln_device_setup){.wanted = &wanted}, &device));
    kiln_device_close(device);
    expect_error(kiln_device_open(KILN_DEVICE_OPENCL, &(kiln_device_setup){.index = 99}, &other),
                 NOT_FOUND, "there is no device 99");
    expect_ok(kiln_target_parse(KILN_STR("opencl:no-such-device,emulated"), *state, &wanted));
    expect_error(
        kiln_device_open(KILN_DEVICE_OPENCL, &(kiln_device_setup){.wanted = &wanted}, &other),
        NOT_FOUND, "none runs the code");
    kiln_strbuf_deinit(&text);
}

/* The driver looks at its variable once in a process. */
static void two_devices_body(void) {
    kiln_arena arena;
    kiln_target any, one;
    kiln_device_facts *facts;
    kiln_device *device = NULL;
    uint32_t count = 0;
    kiln_arena_init(&arena, 0);
    (void)setenv("POCL_DEVICES", "basic pthread", 1);
    expect_ok(kiln_device_list(KILN_DEVICE_OPENCL, &arena, &facts, &count));
    assert_int_equal(count, 2);
    expect_ok(kiln_target_parse(KILN_STR("opencl,emulated"), &arena, &any));
    expect_error(
        kiln_device_open(KILN_DEVICE_OPENCL, &(kiln_device_setup){.wanted = &any}, &device),
        FAILED_PRECONDITION, "2 devices run code for 'opencl'; name one");
    one = facts[1].target;
    expect_ok(kiln_device_open(KILN_DEVICE_OPENCL, &(kiln_device_setup){.wanted = &one}, &device));
    assert_true(kiln_str_equal(kiln_device_target(device)->triple, one.triple));
    kiln_device_close(device);
    kiln_arena_deinit(&arena);
    _Exit(0);
}

static void of_two_devices_one_is_named(void **state) {
    (void)state;
    skip_without_a_driver();
    assert_int_equal(run_in_child(two_devices_body), 0);
}

typedef struct tensors {
    float x[TEXT_ARTEFACT_COUNT], w[TEXT_ARTEFACT_COUNT], y[TEXT_ARTEFACT_COUNT],
        expected[TEXT_ARTEFACT_COUNT];
} tensors;

static tensors *make_tensors(kiln_arena *arena) {
    tensors *t = KILN_ARENA_NEW(arena, tensors);
    for (uint32_t i = 0; i < TEXT_ARTEFACT_COUNT; i++) {
        t->x[i] = (float)i;
        t->w[i] = (float)(i % 7) / 8;
        t->y[i] = -1;
    }
    text_artefact_expected(t->x, t->w, t->expected);
    return t;
}

/* Arguments one after the other in one buffer, as modules have them: most begin inside of it. */
static void bind(kiln_device *device, kiln_call *call, const kiln_device_memory *memory,
                 tensors *t) {
    for (uint32_t i = TEXT_X; i <= TEXT_Y; i++) {
        kiln_device_place place = kiln_device_place_at(device, memory, i * TEXT_ARTEFACT_BYTES);
        expect_ok(kiln_call_bind_place(call, i, place, TEXT_ARTEFACT_BYTES));
        if (i == TEXT_Y) continue;
        float *from = i == TEXT_X ? t->x : t->w;
        assert_int_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE, place, kiln_host_place(from),
                                          TEXT_ARTEFACT_BYTES),
                         0);
    }
}

static void run_and_compare(kiln_device *device, kiln_call *call, const kiln_device_memory *memory,
                            tensors *t) {
    assert_int_equal(kiln_device_record(device, 1), 0);
    assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
    assert_int_equal(kiln_device_record(device, 2), 0);
    memset(t->y, 0, sizeof t->y);
    kiln_device_place y = kiln_device_place_at(device, memory, TEXT_Y * TEXT_ARTEFACT_BYTES);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(t->y), y,
                                      TEXT_ARTEFACT_BYTES),
                     0);
    assert_int_equal(kiln_device_record(device, 3), 0);
    assert_int_equal(kiln_device_wait(device, 3), 0);
    assert_true(kiln_device_elapsed_ns(device, 1, 2) > 0);
    assert_memory_equal(t->y, t->expected, TEXT_ARTEFACT_BYTES);
}

static void an_artefact_runs_and_is_right(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory;
    tensors *t = make_tensors(*state);
    expect_ok(kiln_kernel_check(artefact(*state, "opencl", text_artefact_opencl)));
    expect_ok(kiln_kernel_load(artefact(*state, "opencl", text_artefact_opencl), device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &memory));
    bind(device, call, &memory, t);
    expect_ok(kiln_call_prepare(call, NULL));
    run_and_compare(device, call, &memory, t);
    const uint64_t allocations = kiln_alloc_count();
    run_and_compare(device, call, &memory, t);
    assert_int_equal(kiln_alloc_count(), allocations); /* only the first launch makes sub-buffers */
    kiln_device_memory next;
    expect_ok(kiln_device_allocate(device, 3 * TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &next));
    kiln_device_release(device, &memory);
    for (uint32_t i = 0; i < 8; i++) t->x[i] += 1; /* what the kernels knew of buffers is stale */
    text_artefact_expected(t->x, t->w, t->expected);
    bind(device, call, &next, t);
    run_and_compare(device, call, &next, t);
    kiln_device_release(device, &next);
    assert_false(kiln_device_is_lost(device));
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
}

static void memory_of_the_host_is_copied_as_any_other(void **state) {
    (void)state;
    kiln_device *device = open_device();
    kiln_device_memory memory;
    kiln_host_memory host, empty = {0};
    expect_ok(kiln_device_allocate_host(device, 1003, &host));
    expect_ok(kiln_device_allocate(device, 1003, KILN_GUARD_NONE, &memory));
    const kiln_device_place there = kiln_device_place_at(device, &memory, 0);
    uint8_t *data = host.data;
    for (int i = 0; i < 1003; i++) assert_int_equal(data[i], 0);
    for (int i = 0; i < 1003; i++) data[i] = (uint8_t)(i % 251);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_TO_DEVICE, there, kiln_host_place(data), 1003), 0);
    memset(data, 0, 1003);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(data), there, 1003), 0);
    assert_int_equal(kiln_device_record(device, 0), 0);
    assert_int_equal(kiln_device_wait(device, 0), 0);
    for (int i = 0; i < 1003; i++) assert_int_equal(data[i], i % 251);
    expect_error(kiln_device_allocate_host(device, (size_t)1 << 50, &empty), RESOURCE_EXHAUSTED,
                 "1125899906842624 bytes of the host");
    kiln_device_release_host(device, &host);
    kiln_device_release_host(device, &empty);
    assert_null(host.data);
    kiln_device_release(device, &memory);
    kiln_device_close(device);
}

static void memory_is_zeroed_and_too_much_is_refused_with_numbers(void **state) {
    (void)state;
    kiln_device *device = open_device();
    kiln_device_memory memory;
    uint8_t got[1003];
    memset(got, 1, sizeof got);
    expect_ok(kiln_device_allocate(device, sizeof got, KILN_GUARD_NONE, &memory));
    kiln_device_place from = kiln_device_place_at(device, &memory, 0);
    assert_int_equal(
        kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got), from, sizeof got), 0);
    assert_int_equal(kiln_device_record(device, 0), 0);
    assert_int_equal(kiln_device_wait(device, 0), 0);
    for (size_t i = 0; i < sizeof got; i++) assert_int_equal(got[i], 0);
    assert_int_not_equal(kiln_device_copy(device, KILN_COPY_WITHIN, from, from, (size_t)1 << 40),
                         0);
    expect_contains(kiln_device_error(device), "a copy");
    kiln_device_release(device, &memory);
    expect_error(kiln_device_allocate(device, (size_t)1 << 50, KILN_GUARD_NONE, &memory),
                 RESOURCE_EXHAUSTED, "1125899906842624 bytes on a device of ");
    kiln_device_close(device);
}

static void text_that_does_not_compile_is_refused_with_the_log(void **state) {
    kiln_device *device = open_device();
    kiln_kernel *kernel;
    expect_error(kiln_kernel_load(artefact(*state, "opencl",
                                           "__kernel void prepare_0(int no_such) { no such; }\n"
                                           "__kernel void run_1() {}\n__kernel void run_2() {}\n"),
                                  device, &kernel),
                 INVALID_ARGUMENT, "undeclared identifier 'no'");
    expect_error(kiln_kernel_load(artefact(*state, "opencl",
                                           "__kernel void prepare_0(__global float *p) {}\n"
                                           "__kernel void run_1() {}\n__kernel void run_2() {}\n"),
                                  device, &kernel),
                 DATA_LOSS, "the code has 1 arguments, the launch 2");
    kiln_device_close(device);
}

/* All of it without a driver. */
static void artefacts_are_checked_without_a_driver(void **state) {
    text_artefact a = {
        .kind = KILN_PAYLOAD_OPENCL, .target = "opencl", .text = text_artefact_opencl};
    const kiln_str whole = text_artefact_encode(&a, *state);
    for (size_t size = 0; size < whole.size; size += 3)
        expect_error(kiln_kernel_check((kiln_str){whole.data, size}), DATA_LOSS, "");
    a.group = 512;
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), FAILED_PRECONDITION,
                 "a group of 512 threads; the device runs 256");
    a.group = 0;
    a.shared_bytes = 40000;
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), FAILED_PRECONDITION,
                 "40000 bytes shared by a group; the device has 32768");
    a.shared_bytes = 0;
    a.text = "__kernel void prepare_0() {}\n__kernel void run_1() {}\n__kernel void run_22() {}\n";
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), NOT_FOUND,
                 "launch 2: there is no entry run_2");
    a.text = "__kernel void prepare_0() {}\n__kernel void run_1() {}\n\x01";
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), DATA_LOSS, "byte 54 is 1");
    a.kind = KILN_PAYLOAD_PTX;
    expect_error(kiln_kernel_check(text_artefact_encode(&a, *state)), DATA_LOSS,
                 "a payload ptx does not run on opencl");
}

static void a_machine_without_a_driver_says_what_to_install(void **state) {
    (void)state;
    uint32_t count;
    assert_int_equal(setenv("KILN_OPENCL_LIBRARY", "libno-such-library.so.1", 1), 0);
    expect_error(kiln_device_count(KILN_DEVICE_OPENCL, &count), NOT_FOUND,
                 "install ocl-icd-libopencl1");
    assert_int_equal(setenv("KILN_OPENCL_LIBRARY", "libc.so.6", 1), 0);
    expect_error(kiln_device_count(KILN_DEVICE_OPENCL, &count), FAILED_PRECONDITION,
                 "no function clGetPlatformIDs");
    assert_int_equal(unsetenv("KILN_OPENCL_LIBRARY"), 0);
}

/* The loader of drivers reads the folder once in a process. */
static int look_into_an_empty_folder(void **state) {
    uint32_t count = 0;
    (void)setenv("OCL_ICD_VENDORS", cache, 1);
    kiln_status st = kiln_device_count(KILN_DEVICE_OPENCL, &count);
    const bool right = kiln_status_code(st) == KILN_NOT_FOUND &&
                       (strstr(kiln_status_text(st), "knows no driver") ||
                        strstr(kiln_status_text(st), "libOpenCL.so.1"));
    kiln_status_free(st);
    (void)state;
    return right ? 0 : 1;
}

static void empty_folder_body(void) { _Exit(look_into_an_empty_folder(NULL)); }

static void a_machine_whose_loader_knows_no_driver_says_so(void **state) {
    (void)state;
    assert_int_equal(run_in_child(empty_folder_body), 0);
}

static void broken_driver_body(void) {
    static const char *const part[] = {"broken.icd does not load into this program",
                                       "libno-such-driver.so.1"};
    kiln_arena arena;
    uint32_t count = 0;
    kiln_arena_init(&arena, 0);
    const char *folder = make_folder(&arena);
    kiln_status st = kiln_file_write(kiln_arena_printf(&arena, "%s/broken.icd", folder),
                                     KILN_STR("libno-such-driver.so.1\n"), 0600);
    (void)setenv("OCL_ICD_VENDORS", folder, 1);
    bool right = !st;
    if (!st) st = kiln_device_count(KILN_DEVICE_OPENCL, &count);
    right = right && kiln_status_code(st) == KILN_NOT_FOUND;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(part); i++)
        right = right && strstr(kiln_status_text(st), part[i]);
    kiln_status_free(st);
    remove_folder(folder);
    kiln_arena_deinit(&arena);
    _Exit(right ? 0 : 1);
}

static void a_driver_that_does_not_load_is_named_with_the_reason(void **state) {
    (void)state;
    assert_int_equal(run_in_child(broken_driver_body), 0);
}

/* ---- memory of callers ----------------------------------------------------------------------- */

enum { ON_OPENCL = 4, DEVICES_OF_CONTEXT = 0x1081 };

/* What an application has: a queue and buffers in the module's context. */
typedef struct caller {
    kiln_cl cl;
    int32_t (*get_context_info)(kiln_cl_context, uint32_t, size_t, void *, size_t *);
    kiln_module *module;
    kiln_module_device_info info;
    kiln_cl_queue queue;
    kiln_cl_mem x, y;
} caller;

static void load_functions(caller *c) {
    static const kiln_driver_library library = {"libOpenCL.so.1", "KILN_OPENCL_LIBRARY", ""};
    const kiln_driver_function function[] = {
#define X(result, name, parameters) {"cl" #name, &c->cl.name},
        KILN_CL_FUNCTIONS(X)
#undef X
            {"clGetContextInfo", &c->get_context_info},
    };
    expect_ok(kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function)));
}

static kiln_cl_mem make_buffer(const caller *c, size_t bytes) {
    int32_t code;
    kiln_cl_mem made =
        c->cl.CreateBuffer(c->info.context, KILN_CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, 0);
    return made;
}

static void open_caller(caller *c, kiln_arena *arena) {
    kiln_device *device = open_device();
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_strbuf target = {0}, bytes = {0};
    kiln_cl_device of;
    int32_t code;
    kiln_target_print(kiln_device_target(device), &target);
    const kiln_module_plan plan = device_module_plan(KILN_DEVICE_OPENCL,
                                                     &(text_artefact){.kind = KILN_PAYLOAD_OPENCL,
                                                                      .target = target.data,
                                                                      .text = text_artefact_opencl},
                                                     arena);
    expect_ok(kiln_module_encode(&plan, &bytes));
    void *copy = kiln_arena_alloc_aligned(arena, 64, bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    if (kiln_module_open_memory(copy, bytes.size, NULL, &c->module, error, sizeof error))
        fail_msg("%s", error);
    load_functions(c);
    c->info = kiln_module_describe_device(c->module);
    assert_int_equal(c->info.device_type, ON_OPENCL);
    assert_int_equal(
        c->get_context_info(c->info.context, DEVICES_OF_CONTEXT, sizeof(void *), &of, NULL), 0);
    c->queue = c->cl.CreateCommandQueue(c->info.context, of, 0, &code);
    assert_int_equal(code, 0);
    c->x = make_buffer(c, TEXT_ARTEFACT_BYTES + 64);
    c->y = make_buffer(c, TEXT_ARTEFACT_BYTES);
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&target);
    kiln_device_close(device);
}

static void close_caller(caller *c) {
    (void)c->cl.ReleaseMemObject(c->x);
    (void)c->cl.ReleaseMemObject(c->y);
    (void)c->cl.ReleaseCommandQueue(c->queue);
    kiln_module_close(c->module);
}

static int run_tensors(const caller *c, kiln_cl_mem x, uint64_t offset, kiln_cl_mem y) {
    kiln_module_tensor in =
        kiln_module_tensor_at(kiln_module_input(c->module, 0), ON_OPENCL, c->info.device_id, x);
    const kiln_module_tensor out =
        kiln_module_tensor_at(kiln_module_output(c->module, 0), ON_OPENCL, c->info.device_id, y);
    in.byte_offset = offset;
    return kiln_module_run_tensors(c->module, (const kiln_module_tensor *[]){&in},
                                   (const kiln_module_tensor *[]){&out});
}

static void expect_run(const caller *c, float first, uint64_t offset) {
    float x[TEXT_ARTEFACT_COUNT], y[TEXT_ARTEFACT_COUNT], expected[TEXT_ARTEFACT_COUNT];
    for (int i = 0; i < TEXT_ARTEFACT_COUNT; i++) x[i] = first + (float)i;
    device_module_expected(x, expected);
    assert_int_equal(c->cl.EnqueueWriteBuffer(c->queue, c->x, KILN_CL_TRUE, (size_t)offset,
                                              sizeof x, x, 0, NULL, NULL),
                     0);
    if (run_tensors(c, c->x, offset, c->y)) fail_msg("%s", kiln_module_error(c->module));
    assert_int_equal(
        c->cl.EnqueueReadBuffer(c->queue, c->y, KILN_CL_TRUE, 0, sizeof y, y, 0, NULL, NULL), 0);
    assert_memory_equal(y, expected, sizeof y);
}

static void buffers_of_callers_are_used_where_they_are(void **state) {
    caller c;
    open_caller(&c, *state);
    expect_run(&c, 0, 0);
    expect_run(&c, 1, 64);
    /* Another buffer, maybe of the same handle. */
    (void)c.cl.ReleaseMemObject(c.y);
    c.y = make_buffer(&c, TEXT_ARTEFACT_BYTES);
    expect_run(&c, 2, 0);
    close_caller(&c);
}

static void buffers_that_the_module_cannot_use_are_refused(void **state) {
    caller c;
    open_caller(&c, *state);
    kiln_device *other = open_device();
    kiln_device_memory elsewhere;
    expect_ok(kiln_device_allocate(other, TEXT_ARTEFACT_BYTES, KILN_GUARD_NONE, &elsewhere));
    const struct {
        kiln_cl_mem x;
        uint64_t offset;
        const char *text;
    } row[] = {
        {elsewhere.data, 0, "input 0 (x): it is no buffer of the context that the module uses"},
        {c.x, 128, "input 0 (x): 4096 bytes from byte 128 on; the buffer has 4160"},
        {c.x, 4, "input 0 (x): its byte offset is not a multiple of 64"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        assert_int_equal(run_tensors(&c, row[i].x, row[i].offset, c.y), KILN_INVALID_ARGUMENT);
        assert_string_equal(kiln_module_error(c.module), row[i].text);
    }
    expect_run(&c, 5, 0);
    kiln_device_release(other, &elsewhere);
    kiln_device_close(other);
    close_caller(&c);
}

static void count_body(void) {
    uint32_t count;
    kiln_status st = kiln_device_count(KILN_DEVICE_OPENCL, &count);
    _Exit(st ? 1 : 0);
}

int main(void) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    cache = make_folder(&arena);
    (void)setenv("POCL_CACHE_DIR", cache, 1);
    const struct CMUnitTest before[] = {
        cmocka_unit_test(a_machine_whose_loader_knows_no_driver_says_so),
        cmocka_unit_test(a_driver_that_does_not_load_is_named_with_the_reason),
        test_with_arena(artefacts_are_checked_without_a_driver),
        cmocka_unit_test(a_machine_without_a_driver_says_what_to_install),
        cmocka_unit_test(of_two_devices_one_is_named),
    };
    const struct CMUnitTest tests[] = {
        test_with_arena(the_device_is_listed_and_found_by_its_name),
        test_with_arena(an_artefact_runs_and_is_right),
        cmocka_unit_test(memory_is_zeroed_and_too_much_is_refused_with_numbers),
        cmocka_unit_test(memory_of_the_host_is_copied_as_any_other),
        test_with_arena(text_that_does_not_compile_is_refused_with_the_log),
        test_with_arena(buffers_of_callers_are_used_where_they_are),
        test_with_arena(buffers_that_the_module_cannot_use_are_refused),
    };
    there_is_a_driver = run_in_child(count_body) == 0;
    int failed = cmocka_run_group_tests(before, NULL, NULL);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(cache);
    kiln_arena_deinit(&arena);
    return failed;
}
