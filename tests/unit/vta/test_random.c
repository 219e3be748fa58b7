/* Random programs: every simulator computes the same, whatever the order; the checkers take them,
 * and notice every token that is taken away. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/vta_random.h"
#include "vta/check.h"
#include "vta/csim.h"

#define PROGRAMS 300u
#define ORDERS 16u

static void print_program(const kiln_vta_program *program, uint64_t seed, const char *why) {
    kiln_strbuf text = {0};
    kiln_vta_program_print(program, &text);
    fprintf(stderr, "seed %llu: %s\n%s", (unsigned long long)seed, why, text.data);
    kiln_strbuf_deinit(&text);
}

static void simulators_agree_in_every_order(void **state) {
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        const kiln_vta_program program = vta_random_program(&config, seed, *state);
        kiln_vta_fault fault = {0};
        uint64_t bytes;
        if (!kiln_vta_check(&program, &fault)) print_program(&program, seed, fault.text);
        assert_int_equal(fault.kind, KILN_VTA_FAULT_NONE);
        uint8_t *timed = vta_random_dram(&program, seed, *state, &bytes);
        kiln_vta_timing timing = {0};
        const kiln_vta_csim_options options = {0};
        if (!kiln_vta_csim_run(&program, timed, bytes, &options, *state, &timing, &fault))
            print_program(&program, seed, fault.text);
        assert_int_equal(fault.kind, KILN_VTA_FAULT_NONE);
        for (uint64_t order = 0; order < ORDERS; order++) {
            uint8_t *dram = vta_random_dram(&program, seed, *state, &bytes);
            kiln_vta_counts counts;
            if (!kiln_vta_fsim_run(&program, dram, bytes, order, &counts, &fault))
                print_program(&program, seed, fault.text);
            assert_int_equal(fault.kind, KILN_VTA_FAULT_NONE);
            assert_memory_equal(dram, timed, bytes);
            assert_memory_equal(&counts, &timing.counts, sizeof counts);
        }
        kiln_arena_reset(*state);
    }
}

static void every_cycle_of_an_engine_is_accounted_for(void **state) {
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        const kiln_vta_program program = vta_random_program(&config, seed, *state);
        kiln_vta_fault fault = {0};
        kiln_vta_timing timing, again;
        const kiln_vta_csim_options options = {.timing_only = true};
        uint64_t bytes;
        assert_true(kiln_vta_csim_run(&program, NULL, 0, &options, *state, &timing, &fault));
        for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
            uint64_t cycles = 0;
            for (uint32_t i = 0; i < KILN_VTA_ACTIVITY_COUNT; i++) cycles += timing.activity[e][i];
            assert_int_equal(cycles, timing.cycles);
        }
        /* Data takes no part in time. */
        uint8_t *dram = vta_random_dram(&program, seed, *state, &bytes);
        assert_true(kiln_vta_csim_run(&program, dram, bytes, &(kiln_vta_csim_options){0}, *state,
                                      &again, &fault));
        assert_int_equal(timing.cycles, again.cycles);
        assert_memory_equal(timing.activity, again.activity, sizeof timing.activity);
        assert_memory_equal(&timing.counts, &again.counts, sizeof timing.counts);
        kiln_arena_reset(*state);
    }
}

/* The n-th flag of the program that gives or takes a token; NULL: there are fewer. */
static uint32_t *token_flag(kiln_vta_program *program, uint32_t n) {
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        kiln_vta_instruction *in = &program->instruction[i];
        uint32_t *flag[] = {&in->pop_prev, &in->pop_next, &in->push_prev, &in->push_next};
        for (uint32_t k = 0; k < 4; k++)
            if (*flag[k] && n-- == 0) return flag[k];
    }
    return NULL;
}

static void a_token_flag_that_is_missing_is_noticed(void **state) {
    for (uint64_t seed = 1; seed <= PROGRAMS / 4; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        kiln_vta_program program = vta_random_program(&config, seed, *state);
        for (uint32_t n = 0;; n++) {
            uint32_t *flag = token_flag(&program, n);
            kiln_vta_fault fault = {0};
            if (!flag) break;
            *flag = 0;
            assert_false(kiln_vta_check(&program, &fault)); /* a push or a pop is left alone */
            *flag = 1;
        }
        kiln_arena_reset(*state);
    }
}

static void every_pair_of_tokens_is_needed(void **state) {
    uint32_t total = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS / 10; seed++) {
        uint32_t list[64];
        const kiln_vta_config config = vta_random_config(seed);
        const kiln_vta_program program = vta_random_program(&config, seed, *state);
        total += kiln_vta_redundant_tokens(&program, list, 64);
        kiln_arena_reset(*state);
    }
    assert_int_equal(total, 0); /* the generator gives no token that is not needed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(simulators_agree_in_every_order),
        test_with_arena(every_cycle_of_an_engine_is_accounted_for),
        test_with_arena(a_token_flag_that_is_missing_is_noticed),
        test_with_arena(every_pair_of_tokens_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
