/* The executor of the null device, called as child.c calls it: data goes to the device's memory
 * and back, and the time is the ticks of the code. */
#include <string.h>

#include "base/macros.h"
#include "base/reference.h"
#include "deploy/runtime/pages.h"
#include "rpc-server/executor.h"
#include "tests/support/null_artefact.h"
#include "tests/support/test.h"

#define ELEMENTS NULL_ARTEFACT_ELEMENTS
#define SEED 7

/* y[i] = x[i] + x[i] where `count` are written. */
static kiln_str artefact(kiln_arena *arena, int64_t count) {
    kiln_null_instruction twice[] = {
        {KILN_NULL_SET, 6, 0, 0, 0, 0},   {KILN_NULL_LOOP, 7, 0, 0, 0, 0},
        {KILN_NULL_LOAD, 8, 6, 7, 0, 1},  {KILN_NULL_ADD_FLOAT, 8, 8, 8, 0, 0},
        {KILN_NULL_STORE, 8, 6, 7, 1, 1}, {KILN_NULL_LOOP_END, 7, 0, 0, 0, count},
        {KILN_NULL_END, 0, 0, 0, 0, 0},
    };
    return null_artefact_encode(&(null_artefact){.target = "null",
                                                 .dtype = KILN_F32,
                                                 .count = ELEMENTS,
                                                 .instruction_count = KILN_ARRAY_COUNT(twice),
                                                 .instruction = twice},
                                arena);
}

/* What one checked run leaves and takes; code that writes all of its output is run again. */
static kiln_ran run(kiln_arena *arena, int64_t count, float out[ELEMENTS], uint64_t *out_ns) {
    const kiln_executor_vtable *v = kiln_executor_for(KILN_PAYLOAD_NULL_CODE)->vtable;
    const kiln_executor_setup setup = {.name = "null"};
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
    if (ran == KILN_RAN_OK && count == ELEMENTS) {
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
    assert_int_equal(ns, KILN_NULL_TICKS_LAUNCH +
                             ELEMENTS * (KILN_NULL_TICKS_STATEMENT + 2 * KILN_NULL_TICKS_ARGUMENT));
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
