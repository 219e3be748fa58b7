/* Random programs for random machines, chosen by the bytes: the checkers take them, every simulator
 * computes the same in any order, and without one of its flags for tokens none is taken. */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/vta_random.h"
#include "vta/check.h"
#include "vta/csim.h"

#define ORDERS 3u

static uint32_t *flag_of(kiln_vta_instruction *in, uint32_t which) {
    uint32_t *flag[] = {&in->pop_prev, &in->pop_next, &in->push_prev, &in->push_next};
    return flag[which];
}

static void take_a_flag_away(kiln_vta_program *program, uint64_t seed) {
    kiln_vta_fault fault;
    kiln_vta_instruction *in = &program->instruction[seed % program->instruction_count];
    uint32_t *flag = flag_of(in, (uint32_t)(seed >> 32) % 4);
    if (!*flag) return;
    *flag = 0;
    KILN_CHECK(!kiln_vta_check(program, &fault));
    *flag = 1;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const uint64_t seed = kiln_hash64(data, size, 0);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const kiln_vta_config config = vta_random_config(seed);
    kiln_vta_program program = vta_random_program(&config, seed, &arena);
    kiln_vta_fault fault;
    kiln_vta_timing timing;
    uint64_t bytes;
    KILN_CHECK(kiln_vta_check(&program, &fault));
    uint8_t *timed = vta_random_dram(&program, seed, &arena, &bytes);
    KILN_CHECK(kiln_vta_csim_run(&program, timed, bytes, &(kiln_vta_csim_options){0}, &arena,
                                 &timing, &fault));
    for (uint64_t order = 0; order < ORDERS; order++) {
        kiln_vta_counts counts;
        uint8_t *dram = vta_random_dram(&program, seed, &arena, &bytes);
        KILN_CHECK(
            kiln_vta_fsim_run(&program, dram, bytes, order ? seed + order : 0, &counts, &fault));
        KILN_CHECK(memcmp(dram, timed, bytes) == 0);
    }
    take_a_flag_away(&program, kiln_hash64(data, size, 1));
    kiln_arena_deinit(&arena);
    return 0;
}
