/* The executor of the null device, called as inmate.c calls it: data goes to the device's memory
 * and back, and the time is the number of statements. */
#include <string.h>

#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/null_code.h"
#include "base/reference.h"
#include "deploy/runtime/pages.h"
#include "rpc-server/executor.h"
#include "tests/support/test.h"

#define ELEMENTS 16
#define SEED 7

/* y[i] = x[i] + x[i] where `count` are written. */
static kiln_str artefact(kiln_arena *arena, int64_t count) {
    kiln_null_instruction twice[] = {
        {KILN_NULL_SET, 6, 0, 0, 0, 0},   {KILN_NULL_LOOP, 7, 0, 0, 0, 0},
        {KILN_NULL_LOAD, 8, 6, 7, 0, 1},  {KILN_NULL_ADD_FLOAT, 8, 8, 8, 0, 0},
        {KILN_NULL_STORE, 8, 6, 7, 1, 1}, {KILN_NULL_LOOP_END, 7, 0, 0, 0, count},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    kiln_null_buffer buffer[] = {{KILN_NULL_ARGUMENT, KILN_F32, 0, 0, ELEMENTS},
                                 {KILN_NULL_ARGUMENT, KILN_F32, 1, 0, ELEMENTS}};
    kiln_null_function f = {.name = KILN_STR("kiln_run"),
                            .register_count = 9,
                            .buffer_count = 2,
                            .buffer = buffer,
                            .instruction_count = KILN_ARRAY_COUNT(twice),
                            .instruction = twice};
    kiln_strbuf code = {0}, bytes = {0};
    kiln_null_code_encode(&(kiln_null_code){1, &f}, &code);
    const kiln_shape shape = {.rank = 1, .dim = {ELEMENTS}};
    kiln_manifest_arg arg[] = {{.name = KILN_STR("x"),
                                .dtype = KILN_F32,
                                .role = KILN_ROLE_INPUT,
                                .shape = shape,
                                .fill = KILN_FILL_UNIFORM,
                                .read_by_run = true},
                               {.name = KILN_STR("y"),
                                .dtype = KILN_F32,
                                .role = KILN_ROLE_OUTPUT,
                                .shape = shape,
                                .fill = KILN_FILL_UNIFORM,
                                .read_by_run = true}};
    kiln_artefact a = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                    .payload_kind = KILN_PAYLOAD_NULL_CODE,
                                    .target = KILN_STR("null"),
                                    .codegen_version = KILN_STR("test"),
                                    .task_key = KILN_STR("test"),
                                    .algorithm = KILN_STR("direct"),
                                    .threads_max = 1,
                                    .arg_count = 2,
                                    .arg = arg},
                       .payload = kiln_strbuf_view(&code)};
    kiln_artefact_encode(&a, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&code);
    kiln_strbuf_deinit(&bytes);
    return copy;
}

/* What one checked run leaves and takes. */
static kiln_ran run(kiln_arena *arena, int64_t count, float out[ELEMENTS], uint64_t *out_ns) {
    const kiln_executor_vtable *v = kiln_executor_for(KILN_PAYLOAD_NULL_CODE)->vtable;
    const kiln_executor_setup setup = {0};
    kiln_str bytes = artefact(arena, count);
    kiln_artefact a;
    void *device = NULL, *program = NULL;
    expect_ok(kiln_artefact_decode(bytes, arena, &a));
    expect_ok(v->open(&setup, &device));
    expect_ok(v->load(device, bytes, &a.manifest, &program));
    v->fill(program, SEED);
    assert_int_equal(v->prepare(program), KILN_RAN_OK);
    kiln_ran ran = v->check(program, KILN_POISON_FIRST, out, out_ns);
    uint64_t again_ns = 0;
    if (ran == KILN_RAN_OK) {
        assert_int_equal(v->run(program, 3, &again_ns), KILN_RAN_OK);
        assert_int_equal(again_ns, 3 * *out_ns);
    }
    v->unload(program);
    v->unload(NULL);
    v->close(device);
    v->close(NULL);
    return ran;
}

static void data_goes_to_the_device_and_back_in_counted_time(void **state) {
    float x[ELEMENTS], y[ELEMENTS];
    uint64_t ns = 0;
    kiln_fill_data(x, KILN_F32, ELEMENTS, kiln_input_seed(SEED, 0), KILN_FILL_UNIFORM);
    assert_int_equal(run(*state, ELEMENTS, y, &ns), KILN_RAN_OK);
    assert_int_equal(ns, ELEMENTS);
    for (uint32_t i = 0; i < ELEMENTS; i++) assert_true(y[i] == x[i] + x[i]);
    assert_true(kiln_executor_for(KILN_PAYLOAD_NULL_CODE)->exact);
}

/* An output that is not written keeps its poison, which the parent finds. */
static void what_is_not_written_stays_poisoned(void **state) {
    float y[ELEMENTS];
    uint16_t last[2];
    uint64_t ns = 0;
    assert_int_equal(run(*state, ELEMENTS - 1, y, &ns), KILN_RAN_OK);
    memcpy(last, &y[ELEMENTS - 1], sizeof last);
    assert_int_equal(last[0], KILN_POISON_FIRST);
    assert_int_equal(last[1], KILN_POISON_FIRST);
}

static void code_that_strays_says_that_it_failed(void **state) {
    float y[ELEMENTS];
    uint64_t ns = 0;
    assert_int_equal(run(*state, ELEMENTS + 1, y, &ns), KILN_RAN_ERROR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(data_goes_to_the_device_and_back_in_counted_time),
        test_with_arena(what_is_not_written_stays_poisoned),
        test_with_arena(code_that_strays_says_that_it_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
