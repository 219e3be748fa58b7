/* Random programs: every simulator computes the same, whatever the order; the checkers take them,
 * and notice every token that is taken away. */
#include <stdlib.h>
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
    print_message("seed %llu: %s\n%s", (unsigned long long)seed, why, text.data);
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

/* Pairs the pushes and pops of the queue to `side` of engine `from` in order; removes the n-th
 * pair; returns its push's instruction, or UINT32_MAX. */
static uint32_t remove_pair(kiln_vta_program *program, kiln_vta_engine from, bool behind,
                            uint32_t n) {
    kiln_vta_engine to;
    const kiln_vta_config *c = &program->config;
    if (!(behind ? kiln_vta_engine_behind(c, from, &to) : kiln_vta_engine_before(c, from, &to)))
        return UINT32_MAX;
    uint32_t pushed = UINT32_MAX, pushes = 0, pops = 0;
    uint32_t *push = NULL, *pop = NULL;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        kiln_vta_instruction *in = &program->instruction[i];
        const kiln_vta_engine engine = kiln_vta_engine_of(c, in);
        uint32_t *gives = behind ? &in->push_next : &in->push_prev;
        uint32_t *takes = behind ? &in->pop_prev : &in->pop_next;
        if (engine == from && *gives && pushes++ == n) push = gives, pushed = i;
        if (engine == to && *takes && pops++ == n) pop = takes;
    }
    if (!push || !pop) return UINT32_MAX;
    *push = *pop = 0;
    return pushed;
}

static bool is_listed(const uint32_t *list, uint32_t count, uint32_t instruction) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == instruction) return true;
    return false;
}

static void a_pair_of_tokens_is_needed_or_redundant(void **state) {
    uint32_t reported = 0, redundant_total = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS / 4; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        for (uint32_t from = 0; from < KILN_VTA_ENGINE_COUNT; from++)
            for (uint32_t behind = 0; behind < 2; behind++)
                for (uint32_t n = 0;; n++) {
                    uint32_t list[256];
                    kiln_vta_program program = vta_random_program(&config, seed, *state);
                    const uint32_t count = kiln_vta_redundant_tokens(&program, list, 256);
                    const uint32_t pushed = remove_pair(&program, (kiln_vta_engine)from, behind, n);
                    kiln_vta_fault fault = {0};
                    if (pushed == UINT32_MAX) break;
                    if (!kiln_vta_check(&program, &fault)) {
                        reported++;
                        continue;
                    }
                    /* Taken: then the order of everything is as before, or nothing that was
                     * ordered so used one place. */
                    redundant_total++;
                    if (is_listed(list, count, pushed)) continue;
                    for (uint64_t order = 0; order < ORDERS; order++) {
                        uint64_t bytes;
                        kiln_vta_counts counts;
                        kiln_vta_program whole = vta_random_program(&config, seed, *state);
                        uint8_t *a = vta_random_dram(&program, seed, *state, &bytes);
                        uint8_t *b = vta_random_dram(&whole, seed, *state, &bytes);
                        assert_true(kiln_vta_fsim_run(&program, a, bytes, order, &counts, &fault));
                        assert_true(kiln_vta_fsim_run(&whole, b, bytes, 0, &counts, &fault));
                        assert_memory_equal(a, b, bytes);
                    }
                }
        kiln_arena_reset(*state);
    }
    print_message("%u pairs needed, %u not\n", reported, redundant_total);
    assert_true(reported > redundant_total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(simulators_agree_in_every_order),
        test_with_arena(every_cycle_of_an_engine_is_accounted_for),
        test_with_arena(a_token_flag_that_is_missing_is_noticed),
        test_with_arena(a_pair_of_tokens_is_needed_or_redundant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
