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

/* The same; run_1 runs in clusters and has a map of x. */
#define MAP(name) "    .param .align 64 .b8 " name "[128]"
#define WP POINTER("w") ",\n" POINTER("p")
#define XPT POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t")
#define TYS POINTER("t") ",\n" POINTER("y") ",\n" POINTER("scratch")
#define MAPS MAP("mx")
#define BODY "\n{\n    ret;\n}\n"
static const char ptx_of_maps[] =
    "//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n"
    ".visible .entry prepare_0(" WP ")" BODY ".visible .entry run_1(" XPT ",\n" MAPS
    ")\n.reqnctapercluster 4, 1, 1" BODY ".visible .entry run_2(" TYS ")" BODY;
static const kiln_manifest_map map_of_x = {
    .dtype = KILN_F32, .rank = 1, .size = {COUNT}, .stride_bytes = {4}, .box = {256}};

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
    return fake->complaints + fake->contexts + fake->graphs + fake->allocations +
                   fake->host_allocations
               ? -1
               : 0;
}

static void fail_next(const char *symbol, int at, int code) {
    fake->fail_symbol = symbol, fake->fail_at = at, fake->fail_code = code;
}

static kiln_module *open_module_of(const text_artefact *artefact, kiln_arena *arena) {
    const kiln_module_plan plan = device_module_plan(KILN_DEVICE_CUDA, artefact, arena);
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

static kiln_module *open_module(kiln_arena *arena) {
    return open_module_of(&(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx},
                          arena);
}

static void run_1_by_map(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    fake_cuda_map map;
    memcpy(&map, parameter[3], sizeof map);
    float *in = (float *)(uintptr_t)map.address;
    void *by_map[] = {&in, parameter[1], parameter[2]};
    assert_ptr_equal(in, pointer(parameter, 0));
    run_1(grid, group, by_map);
}

static kiln_module *open_module_with_maps(kiln_arena *arena) {
    fake->kernel[1].run = run_1_by_map;
    return open_module_of(&(text_artefact){.kind = KILN_PAYLOAD_PTX,
                                           .target = "h200",
                                           .text = ptx_of_maps,
                                           .cluster = 4,
                                           .map_count = 1,
                                           .map = &map_of_x},
                          arena);
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

/* Two steps share the kernel, each with its own x. */
static void maps_are_recorded_with_the_launches(void **state) {
    kiln_module *module = open_module_with_maps(*state);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->maps, 2);
    const uint64_t before = kiln_alloc_count();
    for (int run = 0; run < 3; run++) expect_run(module, (float)run);
    assert_int_equal(kiln_alloc_count(), before);
    assert_int_equal(fake->graph_launches, 3);
    assert_int_equal(fake->maps, 2);
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

/* ---- memory for callers ---------------------------------------------------------------------- */

static void memory_of_the_module_is_copied_by_the_device_itself(void **state) {
    kiln_module *module = open_module(*state);
    float *in = kiln_module_input_memory(module, 0), *out = kiln_module_output_memory(module, 0);
    float expected[COUNT];
    assert_ptr_equal(kiln_module_input_memory(module, 0), in);
    assert_int_equal(fake->host_allocations, 2);
    for (int i = 0; i < COUNT; i++) assert_true(in[i] == 0 && out[i] == 0);
    for (int i = 0; i < COUNT; i++) in[i] = (float)(7 * i);
    device_module_expected(in, expected);
    const int copies = fake->copies, host_copies = fake->host_copies;
    assert_int_equal(kiln_module_run(module, (const void *[]){in}, (void *[]){out}), 0);
    assert_memory_equal(out, expected, sizeof expected);
    assert_int_equal(fake->copies - copies, 2);
    assert_int_equal(fake->host_copies - host_copies, 2);
    expect_run(module, 3); /* other memory may be given all the same */
    assert_int_equal(fake->host_copies - host_copies, 2);
    kiln_module_close(module);
}

static void a_module_without_such_memory_says_so(void **state) {
    kiln_module *module = open_module(*state);
    fail_next("cuMemHostAlloc", 1, 2); /* out of memory */
    assert_null(kiln_module_input_memory(module, 0));
    assert_non_null(kiln_module_input_memory(module, 0));
    expect_run(module, 1);
    kiln_module_close(module);
}

/* ---- memory of callers ----------------------------------------------------------------------- */

enum { ON_CUDA = 2 };

/* What an application has on the device: two inputs and an output, each with room before it. */
typedef struct caller {
    kiln_device *device;
    kiln_device_memory x[2], y;
    kiln_module *module;
} caller;

static void *address(const kiln_device_memory *memory) { return memory->data; }

static void put(const caller *c, const kiln_device_memory *memory, const float *values) {
    assert_int_equal(kiln_device_copy(c->device, KILN_COPY_TO_DEVICE,
                                      kiln_device_place_at(c->device, memory, 0),
                                      kiln_host_place((void *)(uintptr_t)values), sizeof x),
                     0);
}

static void open_caller(caller *c, kiln_arena *arena) {
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, NULL, &c->device));
    for (int i = 0; i < 3; i++)
        expect_ok(
            kiln_device_allocate(c->device, sizeof x, KILN_GUARD_NONE, i < 2 ? &c->x[i] : &c->y));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < COUNT; i++) x[i] = (float)(100 * k + i);
        put(c, &c->x[k], x);
    }
    c->module = open_module(arena);
}

static void open_caller_with_maps(caller *c, kiln_arena *arena) {
    open_caller(c, arena);
    kiln_module_close(c->module);
    c->module = open_module_with_maps(arena);
}

static void close_caller(caller *c) {
    kiln_module_close(c->module);
    kiln_device_release(c->device, &c->x[0]);
    kiln_device_release(c->device, &c->x[1]);
    kiln_device_release(c->device, &c->y);
    kiln_device_close(c->device);
}

/* Reads the device's result and looks that it is that of input `k`. */
static void expect_there(const caller *c, int k) {
    float expected[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)(100 * k + i);
    device_module_expected(x, expected);
    assert_int_equal(kiln_device_copy(c->device, KILN_COPY_FROM_DEVICE, kiln_host_place(y),
                                      kiln_device_place_at(c->device, &c->y, 0), sizeof y),
                     0);
    assert_memory_equal(y, expected, sizeof y);
}

static int run_tensors(const caller *c, const kiln_module_tensor *in,
                       const kiln_module_tensor *out) {
    return kiln_module_run_tensors(c->module, &in, &out);
}

static void run_there(const caller *c, int k) {
    const kiln_module_tensor in = kiln_module_tensor_at(kiln_module_input(c->module, 0), ON_CUDA, 0,
                                                        address(&c->x[k])),
                             out = kiln_module_tensor_at(kiln_module_output(c->module, 0), ON_CUDA,
                                                         0, address(&c->y));
    const int copies = fake->copies;
    if (run_tensors(c, &in, &out)) fail_msg("%s", kiln_module_error(c->module));
    assert_int_equal(fake->copies, copies);
    expect_there(c, k);
}

static void memory_of_the_device_is_used_where_it_is(void **state) {
    caller c;
    open_caller(&c, *state);
    const kiln_module_device_info info = kiln_module_describe_device(c.module);
    assert_int_equal(info.device_type, ON_CUDA);
    assert_int_equal(info.device_id, 0);
    assert_null(info.context);
    for (int run = 0; run < 2; run++)
        for (int k = 0; k < 2; k++) run_there(&c, k);
    close_caller(&c);
}

/* Other memory than in the run before: one by one, and recorded when it stays. */
static void other_memory_is_recorded_when_it_stays(void **state) {
    caller c;
    open_caller(&c, *state);
    static const struct {
        int k, captures, graph_launches;
    } row[] = {{0, 1, 0}, {0, 2, 1}, {0, 2, 2}, {1, 2, 2}, {0, 2, 2}, {0, 3, 3}};
    const uint64_t before = kiln_alloc_count();
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        run_there(&c, row[i].k);
        assert_int_equal(fake->captures, row[i].captures);
        assert_int_equal(fake->graph_launches, row[i].graph_launches);
    }
    assert_int_equal(kiln_alloc_count(), before);
    expect_run(c.module, 3); /* and back in memory of the process */
    expect_run(c.module, 4);
    expect_run(c.module, 5);
    assert_int_equal(fake->captures, 4);
    assert_int_equal(fake->graph_launches, 5);
    close_caller(&c);
}

/* One by one, then recorded anew, each time with the maps of the memory that is given. */
static void maps_follow_the_memory_of_callers(void **state) {
    caller c;
    open_caller_with_maps(&c, *state);
    const int maps = fake->maps, captures = fake->captures;
    static const int k[] = {0, 0, 0, 1, 1, 0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(k); i++) run_there(&c, k[i]);
    assert_true(fake->maps > maps && fake->captures > captures);
    close_caller(&c);
}

/* The state has one address, so that launches are repeated; a launch that fails leaves it. */
static void what_is_kept_stays_on_the_device(void **state) {
    static const void *const none[] = {NULL};
    kiln_module *module = open_module(*state);
    float right[COUNT] = {0}, seen[COUNT];
    assert_int_equal(kiln_module_keep(module, 0, 0), 0);
    for (int run = 0; run < 6; run++) {
        const bool fails = run == 4;
        const int copies = fake->copies;
        if (fails) fail_next("cuGraphLaunch", 1, 1);
        assert_int_equal(kiln_module_run(module, none, (void *[]){NULL}) != 0, fails);
        if (!fails) {
            memcpy(x, right, sizeof x);
            device_module_expected(x, right);
            assert_int_equal(fake->copies, copies + 1);
        }
        assert_int_equal(kiln_module_read_state(module, 0, seen), 0);
        assert_memory_equal(seen, right, sizeof seen);
    }
    assert_int_equal(fake->captures, 2); /* when it was opened, and when the memory had stayed */
    assert_int_equal(fake->graph_launches, 4);
    assert_int_equal(kiln_module_reset(module), 0);
    assert_int_equal(kiln_module_read_state(module, 0, seen), 0);
    assert_memory_equal(seen, (float[COUNT]){0}, sizeof seen);
    kiln_module_close(module);
}

/* As DLPack hands over a slice: dense, from a byte on. */
static void each_tensor_lies_where_it_likes(void **state) {
    caller c;
    open_caller(&c, *state);
    const kiln_module_port *input = kiln_module_input(c.module, 0),
                           *output = kiln_module_output(c.module, 0);
    float expected[COUNT];
    int64_t strides[] = {1};
    for (int i = 0; i < COUNT; i++) x[i] = (float)i;
    device_module_expected(x, expected);
    kiln_module_tensor host_in = kiln_module_tensor_at(input, 1, 0, x),
                       host_out = kiln_module_tensor_at(output, 1, 0, y),
                       there_in = kiln_module_tensor_at(input, ON_CUDA, 0, address(&c.x[0])),
                       there_out = kiln_module_tensor_at(output, ON_CUDA, 0, address(&c.y));
    there_in.strides = strides;
    memset(y, 0xff, sizeof y);
    assert_int_equal(run_tensors(&c, &there_in, &host_out), 0);
    assert_memory_equal(y, expected, sizeof y);
    assert_int_equal(run_tensors(&c, &host_in, &there_out), 0);
    expect_there(&c, 0);
    memset(y, 0xff, sizeof y);
    assert_int_equal(run_tensors(&c, &host_in, &host_out), 0);
    assert_memory_equal(y, expected, sizeof y);
    there_in.data = (char *)there_in.data - 64;
    there_in.byte_offset = 64;
    assert_int_equal(run_tensors(&c, &there_in, &there_out), 0);
    expect_there(&c, 0);
    close_caller(&c);
}

static void what_is_no_input_of_the_module_is_refused(void **state) {
    caller c;
    kiln_device *other = NULL;
    kiln_device_memory elsewhere;
    fake->device_count = 2;
    fake->device[1] = fake->device[0];
    open_caller(&c, *state);
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, &(kiln_device_setup){.index = 1}, &other));
    expect_ok(kiln_device_allocate(other, sizeof x, KILN_GUARD_NONE, &elsewhere));
    const kiln_module_tensor right = kiln_module_tensor_at(kiln_module_input(c.module, 0), ON_CUDA,
                                                           0, address(&c.x[0])),
                             out = kiln_module_tensor_at(kiln_module_output(c.module, 0), ON_CUDA,
                                                         0, address(&c.y));
    int64_t extent[] = {COUNT - 1}, strides[] = {2};
    kiln_module_tensor bad[10];
    const char *const text[] = {
        "there is no memory for it",
        "it lies on device 4:0; the module works on 2:0 and in memory of the process, 1:0",
        "it lies on device 2:1; the module works on 2:0",
        "its elements are of type code 0, 32 bits and 1 lanes; the module takes f32, which is code "
        "2",
        "it has 2 dimensions; the module takes 1",
        "its extent in dimension 0 is 1023; the module takes 1024",
        "its stride in dimension 0 is 2; the module takes dense, row-major ones",
        "its address is not aligned to 64 bytes",
        "its address is not in the device's memory",
        "its address is not in the device's memory",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) bad[i] = right;
    bad[0].data = NULL;
    bad[1].device_type = 4;
    bad[2].device_id = 1;
    bad[3].type_code = 0;
    bad[4].rank = 2;
    bad[5].shape = extent;
    bad[6].strides = strides;
    bad[7].byte_offset = 16;
    bad[8].data = x;
    bad[9].data = address(&elsewhere);
    const int launches = fake->launches, graph_launches = fake->graph_launches;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(run_tensors(&c, &bad[i], &out), KILN_INVALID_ARGUMENT);
        if (!strstr(kiln_module_error(c.module), text[i]) ||
            strncmp(kiln_module_error(c.module), "input 0 (x): ", 13) != 0)
            fail_msg("%s", kiln_module_error(c.module));
        assert_int_equal(run_tensors(&c, &right, &bad[i]), KILN_INVALID_ARGUMENT);
        assert_non_null(strstr(kiln_module_error(c.module), "output 0 (y): "));
    }
    assert_int_equal(fake->launches, launches);
    assert_int_equal(fake->graph_launches, graph_launches);
    run_there(&c, 1);
    kiln_device_release(other, &elsewhere);
    kiln_device_close(other);
    close_caller(&c);
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
        TEST(maps_are_recorded_with_the_launches),
        TEST(maps_follow_the_memory_of_callers),
        TEST(a_hook_sees_single_steps),
        TEST(without_a_recording_launches_are_made_one_by_one),
        TEST(a_repetition_that_fails_is_an_error_of_the_run),
        TEST(a_capture_takes_launches_and_copies_alone),
        TEST(devices_that_record_nothing_say_so),
        TEST(memory_of_the_module_is_copied_by_the_device_itself),
        TEST(a_module_without_such_memory_says_so),
        TEST(memory_of_the_device_is_used_where_it_is),
        TEST(other_memory_is_recorded_when_it_stays),
        TEST(what_is_kept_stays_on_the_device),
        TEST(each_tensor_lies_where_it_likes),
        TEST(what_is_no_input_of_the_module_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
