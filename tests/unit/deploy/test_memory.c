/* Memory plans: nothing that is alive is overwritten, and little is wasted. */
#include "deploy/pack/memory.h"

#include "base/kernel_abi.h"
#include "base/rand.h"
#include "tests/support/test.h"

#define COUNT_MAX 64

static void expect_disjoint(const kiln_memory_value *value, uint32_t count, uint64_t arena_bytes) {
    for (uint32_t a = 0; a < count; a++) {
        assert_int_equal(value[a].offset % KILN_KERNEL_ALIGNMENT, 0);
        assert_true(value[a].offset + value[a].size_bytes <= arena_bytes);
        for (uint32_t b = 0; b < a; b++) {
            bool meet = value[a].first_step <= value[b].last_step &&
                        value[b].first_step <= value[a].last_step;
            bool overlap = value[a].offset < value[b].offset + value[b].size_bytes &&
                           value[b].offset < value[a].offset + value[a].size_bytes;
            if (meet && overlap)
                fail_msg("values %u and %u share bytes while both are alive", a, b);
        }
    }
}

static void random_lives_never_share_bytes(void **state) {
    double arena = 0, live = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_memory_value value[COUNT_MAX];
        uint32_t count = 1 + (uint32_t)kiln_rand_below(&rand, COUNT_MAX);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t first = (uint32_t)kiln_rand_below(&rand, 30);
            value[i] = (kiln_memory_value){1 + kiln_rand_below(&rand, 5000), first,
                                           first + (uint32_t)kiln_rand_below(&rand, 6), UINT64_MAX};
        }
        kiln_memory_peak peak = kiln_memory_plan(value, count, true, *state);
        expect_disjoint(value, count, peak.arena_bytes);
        assert_true(peak.live_bytes <= peak.arena_bytes && peak.arena_bytes <= peak.value_bytes);
        arena += (double)peak.arena_bytes;
        live += (double)peak.live_bytes;
    }
    assert_true(arena <= 1.15 * live);
}

/* Each is read by the next step: two at a time. */
static void a_chain_needs_two_neighbours(void **state) {
    kiln_memory_value value[] = {
        {640, 0, 1, 0}, {1280, 1, 2, 0}, {640, 2, 3, 0}, {1920, 3, 4, 0}, {64, 4, 5, 0}};
    kiln_memory_peak peak = kiln_memory_plan(value, 5, true, *state);
    assert_int_equal(peak.live_bytes, 2560);
    assert_int_equal(peak.arena_bytes, 2560);
    assert_int_equal(peak.value_bytes, 4544);
}

/* By decreasing size 3 values of 2 leave a gap of 1 twice; by order of time they fit. */
static void the_best_of_several_orders_is_taken(void **state) {
    kiln_memory_value value[] = {{64, 0, 2, 0}, {128, 2, 3, 0}, {128, 0, 1, 0}, {192, 3, 4, 0}};
    kiln_memory_peak peak = kiln_memory_plan(value, 4, true, *state);
    assert_int_equal(peak.arena_bytes, peak.live_bytes);
}

static void without_reuse_everybody_has_a_place(void **state) {
    kiln_memory_value value[] = {{10, 0, 0, 0}, {10, 1, 1, 0}, {10, 2, 2, 0}};
    kiln_memory_peak peak = kiln_memory_plan(value, 3, false, *state);
    assert_int_equal(peak.arena_bytes, 3 * KILN_KERNEL_ALIGNMENT);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(value[i].offset, i * KILN_KERNEL_ALIGNMENT);
}

static void no_values_need_no_memory(void **state) {
    assert_int_equal(kiln_memory_plan(NULL, 0, true, *state).arena_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(random_lives_never_share_bytes),
        test_with_arena(a_chain_needs_two_neighbours),
        test_with_arena(the_best_of_several_orders_is_taken),
        test_with_arena(without_reuse_everybody_has_a_place),
        test_with_arena(no_values_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
