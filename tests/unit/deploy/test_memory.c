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

/* First fit, said plainly: each value in turn at the lowest place where it meets no placed one that
 * lives at the same time. Returns the bytes of all. */
static uint64_t first_fit(kiln_memory_value *value, uint32_t count, const uint32_t *order) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_memory_value *v = &value[order[i]];
        uint64_t size = (v->size_bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT *
                        KILN_KERNEL_ALIGNMENT;
        v->offset = 0;
        for (uint32_t k = 0; k < i;) {
            const kiln_memory_value *other = &value[order[k++]];
            uint64_t end = other->offset + (other->size_bytes + KILN_KERNEL_ALIGNMENT - 1) /
                                               KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
            if (v->first_step > other->last_step || other->first_step > v->last_step ||
                other->offset >= v->offset + size || end <= v->offset)
                continue;
            v->offset = end;
            k = 0;
        }
        peak = KILN_MAX(peak, v->offset + size);
    }
    return peak;
}

/* Sizes fall and values begin later from one to the next, lives are equally long: all orders are
 * the given one. */
static void a_plan_is_that_of_first_fit(void **state) {
    uint64_t looser = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_memory_value value[COUNT_MAX], plain[COUNT_MAX];
        uint32_t order[COUNT_MAX], life = (uint32_t)kiln_rand_below(&rand, 20), first = 0;
        uint64_t size = 100000;
        for (uint32_t i = 0; i < COUNT_MAX; i++) {
            value[i] = plain[i] = (kiln_memory_value){size, first, first + life, UINT64_MAX};
            size -= kiln_rand_below(&rand, 3000) * (seed % 2);
            size = size < 64 || size > 100000 ? 64 : size;
            first += (uint32_t)kiln_rand_below(&rand, 3);
            order[i] = i;
        }
        uint64_t bytes = first_fit(plain, COUNT_MAX, order);
        kiln_memory_peak peak = kiln_memory_plan(value, COUNT_MAX, true, *state);
        assert_true(peak.arena_bytes == KILN_MIN(bytes, peak.value_bytes));
        for (uint32_t i = 0; bytes < peak.value_bytes && i < COUNT_MAX; i++)
            assert_true(value[i].offset == plain[i].offset);
        looser += bytes > peak.live_bytes;
    }
    assert_true(looser > 50); /* the others are told by their first order */
}

/* A chain, a value that lives through all of it, and short ones beside each step: all that is alive
 * at one step is few. */
static uint64_t cost_of_a_chain(uint32_t count, kiln_arena *arena) {
    kiln_memory_value *value = KILN_ARENA_ARRAY(arena, kiln_memory_value, count);
    value[0] = (kiln_memory_value){1000, 0, count / 2, 0};
    for (uint32_t i = 1; i < count; i++)
        value[i] = (kiln_memory_value){64 + i * 7919 % 5000, i / 2, i / 2 + 1 + i % 3, 0};
    kiln_memory_peak peak = kiln_memory_plan(value, count, true, arena);
    assert_true(peak.arena_bytes > peak.live_bytes); /* so that every order was tried */
    return peak.looked_at;
}

static void cost_grows_with_the_number_of_values(void **state) {
    uint64_t one = cost_of_a_chain(5000, *state), two = cost_of_a_chain(10000, *state);
    assert_true(two > one);
    assert_true(two < 5 * one / 2);
}

/* All alive at once: every order but that of time is given up. */
static void values_that_all_live_at_once_are_placed(void **state) {
    uint32_t count = 50000;
    kiln_memory_value *value = KILN_ARENA_ARRAY((kiln_arena *)*state, kiln_memory_value, count);
    for (uint32_t i = 0; i < count; i++)
        value[i] = (kiln_memory_value){64 * (1 + i % 7), i, 2 * count - i * 7 % count, 0};
    kiln_memory_peak peak = kiln_memory_plan(value, count, true, *state);
    assert_true(peak.looked_at < 1000ull * count);
    assert_true(peak.arena_bytes >= peak.live_bytes);
    assert_true(peak.arena_bytes < 11 * peak.live_bytes / 10);
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
        test_with_arena(a_plan_is_that_of_first_fit),
        test_with_arena(cost_grows_with_the_number_of_values),
        test_with_arena(values_that_all_live_at_once_are_placed),
        test_with_arena(a_chain_needs_two_neighbours),
        test_with_arena(the_best_of_several_orders_is_taken),
        test_with_arena(without_reuse_everybody_has_a_place),
        test_with_arena(no_values_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
