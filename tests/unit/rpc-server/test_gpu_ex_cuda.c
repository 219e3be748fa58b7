/* The executor of devices with a GPU's target, over a CUDA driver without a device
 * (tests/support/fake_cuda.h): kernels are functions of this file, so they can stray. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/reference.h"
#include "deploy/runtime/pages.h"
#include "rpc-server/executor.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/test.h"
#include "tests/support/text_artefact.h"

#define SEED 7
#define ENTRY(name, parameters) ".visible .entry " name "(" parameters ")\n{\n    ret;\n}\n"
#define POINTER(name) "    .param .u64 " name

static const char ptx[] = "//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n" ENTRY(
    "prepare_0", POINTER("w") ",\n" POINTER("p") "\n")
    ENTRY("run_1", POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t") "\n")
        ENTRY("run_2", POINTER("t") ",\n" POINTER("y") ",\n" POINTER("scratch") "\n");

static fake_cuda *fake;
static fake_cuda fresh;
static const float *last_x;  /* that a kernel got */
static uint32_t x_count;     /* how often it was another one */
static const float *right_x; /* what it is to be; NULL: whatever it is */
static uint32_t wrong_count; /* how often it was not that */
static int64_t stray_at;     /* element of y that is none of it; 0: it writes none */
static bool is_lazy, writes_input;

static float *pointer(void **parameter, int index) { return *(float **)parameter[index]; }

static void prepare_0(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        pointer(parameter, 1)[i] = 2 * pointer(parameter, 0)[i];
}

static void run_1(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *x = pointer(parameter, 0);
    x_count += x != last_x;
    last_x = x;
    wrong_count += right_x && memcmp(x, right_x, TEXT_ARTEFACT_COUNT * sizeof *x) != 0;
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        pointer(parameter, 2)[i] = x[i] + pointer(parameter, 1)[i];
    if (writes_input) x[3] = 0;
}

static void run_2(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    float *y = pointer(parameter, 1);
    if (is_lazy) return;
    for (uint32_t i = 0; i < grid[0] * group[0]; i++)
        y[i] = pointer(parameter, 0)[i - i % group[0] + group[0] - 1 - i % group[0]];
    if (stray_at) y[stray_at] = 1;
}

typedef struct bench {
    const kiln_executor_vtable *v;
    void *device, *program;
    float y[TEXT_ARTEFACT_COUNT];
} bench;

static void load(bench *b, kiln_arena *arena) {
    const kiln_executor_setup setup = {.name = "cuda"};
    const kiln_str bytes = text_artefact_encode(
        &(text_artefact){.kind = KILN_PAYLOAD_PTX, .target = "h200", .text = ptx}, arena);
    kiln_artefact artefact;
    b->v = kiln_executor_find(KILN_STR("cuda"))->vtable;
    expect_ok(kiln_artefact_decode(bytes, arena, &artefact));
    expect_ok(b->v->open(&setup, &b->device));
    expect_ok(b->v->load(b->device, bytes, &artefact.manifest, &b->program));
    b->v->fill(b->program, SEED);
    assert_int_equal(b->v->prepare(b->program), KILN_RAN_OK);
}

static void unload(bench *b) {
    b->v->unload(b->program);
    b->v->close(b->device);
    assert_int_equal(fake->allocations, 0);
}

static kiln_ran check(bench *b) {
    uint64_t ns;
    return b->v->check(b->program, KILN_POISON_FIRST, b->y, &ns);
}

static void set_driver(void) {
    *fake = fresh;
    fake->kernel[0].entry = "prepare_0", fake->kernel[0].run = prepare_0;
    fake->kernel[1].entry = "run_1", fake->kernel[1].run = run_1;
    fake->kernel[2].entry = "run_2", fake->kernel[2].run = run_2;
    stray_at = 0, is_lazy = writes_input = false;
    right_x = NULL, wrong_count = 0;
}

static int set_up(void **state) {
    set_driver();
    return arena_set_up(state);
}

/* Data that fits the last cache of an H200 many times over: eight sets, and the last run is of the
 * one that is checked. */
static void runs_go_round_sets_of_arguments(void **state) {
    bench b = {0};
    static float x[TEXT_ARTEFACT_COUNT], w[TEXT_ARTEFACT_COUNT], y[TEXT_ARTEFACT_COUNT];
    uint64_t ns = 0;
    kiln_fill_data(x, KILN_F32, TEXT_ARTEFACT_COUNT, kiln_input_seed(SEED, TEXT_X),
                   KILN_FILL_UNIFORM);
    kiln_fill_data(w, KILN_F32, TEXT_ARTEFACT_COUNT, kiln_input_seed(SEED, TEXT_W),
                   KILN_FILL_UNIFORM);
    text_artefact_expected(x, w, y);
    right_x = x;
    load(&b, *state);
    assert_int_equal(check(&b), KILN_RAN_OK);
    assert_memory_equal(b.y, y, sizeof y);
    const float *checked = last_x;
    x_count = 0;
    assert_int_equal(b.v->run(b.program, 16, &ns), KILN_RAN_OK);
    assert_ptr_equal(last_x, checked);
    assert_in_range(x_count, 15, 16);
    assert_int_equal(wrong_count, 0);
    assert_int_equal(check(&b), KILN_RAN_OK);
    assert_memory_equal(b.y, y, sizeof y);
    unload(&b);
}

static void what_strays_is_seen(void **state) {
    static const int64_t place[] = {-1, TEXT_ARTEFACT_COUNT, -1024, TEXT_ARTEFACT_COUNT + 1023};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(place); i++) {
        bench b = {0};
        load(&b, *state);
        assert_int_equal(check(&b), KILN_RAN_OK);
        stray_at = place[i];
        assert_int_equal(check(&b), KILN_RAN_STRAY);
        stray_at = 0;
        unload(&b);
    }
}

static void inputs_are_only_read_and_outputs_written(void **state) {
    bench b = {0};
    uint64_t ns;
    load(&b, *state);
    assert_int_equal(check(&b), KILN_RAN_OK);
    is_lazy = true;
    assert_int_equal(b.v->run(b.program, 1, &ns), KILN_RAN_STALE);
    is_lazy = false, writes_input = true;
    assert_int_equal(check(&b), KILN_RAN_STRAY);
    unload(&b);
}

/* An illegal address is the candidate's; memory that fails is not. */
static void a_device_that_breaks_is_not_the_candidates_doing(void **state) {
    static const struct {
        int code;
        kiln_ran ran;
    } row[] = {{700, KILN_RAN_ERROR}, {719, KILN_RAN_ERROR}, {214, KILN_RAN_LOST}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        bench b = {0};
        load(&b, *state);
        fake->fail_symbol = "cuLaunchKernel", fake->fail_at = 1, fake->fail_code = row[i].code;
        assert_int_equal(check(&b), row[i].ran);
        assert_non_null(strstr(b.v->error(b.device), "the device is lost"));
        b.v->unload(b.program);
        b.v->close(b.device);
        set_driver();
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
    fresh = *fake;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, arena_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(runs_go_round_sets_of_arguments),
        TEST(what_strays_is_seen),
        TEST(inputs_are_only_read_and_outputs_written),
        TEST(a_device_that_breaks_is_not_the_candidates_doing),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_ex_cuda", tests, NULL, NULL);
}
