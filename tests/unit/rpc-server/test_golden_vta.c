/* The self-check's program for machines of random shape is right in every order and computes what
 * plain C does. */
#include "rpc-server/golden_vta.h"

#include <string.h>

#include "base/dtype.h"
#include "base/reference.h"
#include "tests/support/test.h"
#include "tests/support/vta_random.h"
#include "vta/check.h"
#include "vta/csim.h"

#define MACHINES 200u

static void any_machine_computes_what_plain_c_does(void **state) {
    for (uint64_t seed = 1; seed <= MACHINES; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        kiln_golden_vta golden;
        kiln_vta_program program;
        kiln_vta_fault fault;
        kiln_vta_timing timing;
        expect_ok(kiln_golden_vta_make(&config, *state, &golden));
        expect_ok(kiln_vta_program_decode(golden.code, *state, &program));
        if (!kiln_vta_check(&program, &fault))
            fail_msg("seed %llu: %s", (unsigned long long)seed, fault.text);
        uint64_t *place = KILN_ARENA_ARRAY(*state, uint64_t, program.buffer_count);
        const uint64_t bytes = kiln_vta_program_place(&program, place);
        uint8_t *dram = kiln_arena_alloc(*state, bytes);
        uint8_t *expected = kiln_arena_alloc(*state, golden.y_bytes);
        kiln_vta_program_fill(&program, place, dram);
        kiln_fill_data(dram + place[1], KILN_I8, golden.x_bytes, seed, KILN_FILL_UNIFORM);
        kiln_fill_data(dram + place[2], KILN_I8, golden.w_bytes, seed + 1, KILN_FILL_UNIFORM);
        kiln_golden_vta_compute(&config, dram + place[1], dram + place[2], expected);
        if (!kiln_vta_csim_run(&program, dram, bytes, &(kiln_vta_csim_options){0}, *state, &timing,
                               &fault))
            fail_msg("seed %llu: %s", (unsigned long long)seed, fault.text);
        assert_memory_equal(dram + place[3], expected, golden.y_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(any_machine_computes_what_plain_c_does),
    };
    return cmocka_run_group_tests_name("rpc-server/golden_vta", tests, NULL, NULL);
}
