#include "vta/uop_cache.h"

#include "base/rand.h"
#include "tests/support/test.h"

#define KERNELS 12u
#define PLACES 32u

/* The same by the book: who has each place, and when each kernel was used. */
typedef struct naive {
    uint32_t owner[PLACES]; /* kernel + 1 */
    uint32_t used[KERNELS];
    uint32_t hits, misses;
} naive;

static uint32_t naive_place(const naive *n, uint32_t kernel) {
    for (uint32_t i = 0; i < PLACES; i++)
        if (n->owner[i] == kernel + 1) return i;
    return KILN_VTA_NO_PLACE;
}

static uint32_t naive_gap(const naive *n, uint32_t uops) {
    for (uint32_t from = 0; from + uops <= PLACES; from++) {
        uint32_t free = 0;
        while (free < uops && n->owner[from + free] == 0) free++;
        if (free == uops) return from;
    }
    return KILN_VTA_NO_PLACE;
}

static bool naive_use(naive *n, uint32_t kernel, uint32_t uops, uint32_t now, const bool *fixed) {
    if (naive_place(n, kernel) != KILN_VTA_NO_PLACE) {
        n->hits++;
    } else {
        while (naive_gap(n, uops) == KILN_VTA_NO_PLACE) {
            uint32_t oldest = KERNELS;
            for (uint32_t k = 0; k < KERNELS; k++)
                if (!fixed[k] && naive_place(n, k) != KILN_VTA_NO_PLACE &&
                    (oldest == KERNELS || n->used[k] < n->used[oldest]))
                    oldest = k;
            if (oldest == KERNELS) return false;
            for (uint32_t i = 0; i < PLACES; i++)
                if (n->owner[i] == oldest + 1) n->owner[i] = 0;
        }
        const uint32_t at = naive_gap(n, uops);
        for (uint32_t i = 0; i < uops; i++) n->owner[at + i] = kernel + 1;
        n->misses++;
    }
    n->used[kernel] = now;
    return true;
}

static bool naive_follow(naive *n, uint32_t kernel, uint32_t uops, uint32_t next,
                         uint32_t next_uops, uint32_t now) {
    const uint32_t at = naive_place(n, kernel) + uops;
    bool is_free = at + next_uops <= PLACES;
    for (uint32_t i = at; is_free && i < at + next_uops; i++) is_free = n->owner[i] == 0;
    for (uint32_t i = at; is_free && i < at + next_uops; i++) n->owner[i] = next + 1;
    if (is_free) n->used[next] = now;
    return is_free;
}

static bool is_not_fixed(const void *context, uint32_t kernel) {
    return !((const bool *)context)[kernel];
}

static void kernels_lie_where_the_naive_model_has_them(void **state) {
    kiln_rand r;
    uint32_t full = 0, followed[2] = {0};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        kiln_rand_init(&r, seed);
        uint32_t uops[KERNELS];
        bool fixed[KERNELS] = {false};
        naive n = {0};
        kiln_vta_uop_cache cache;
        for (uint32_t k = 0; k < KERNELS; k++) uops[k] = 1 + (uint32_t)kiln_rand_below(&r, 14);
        kiln_vta_uop_cache_init(&cache, 5, 5 + PLACES, uops, KERNELS, *state);
        for (uint32_t step = 1; step <= 100; step++) {
            const uint32_t kernel = (uint32_t)kiln_rand_below(&r, KERNELS);
            fixed[kiln_rand_below(&r, KERNELS)] = kiln_rand_below(&r, 12) == 0;
            bool load, evicted;
            const bool had_gap = naive_gap(&n, uops[kernel]) != KILN_VTA_NO_PLACE;
            const bool ok =
                kiln_vta_uop_cache_use(&cache, kernel, is_not_fixed, fixed, &load, &evicted);
            assert_int_equal(ok, naive_use(&n, kernel, uops[kernel], 2 * step, fixed));
            full += !ok;
            if (!ok) break;
            assert_int_equal(evicted, load && !had_gap);
            const uint32_t next = (uint32_t)kiln_rand_below(&r, KERNELS);
            if (cache.place[next] == KILN_VTA_NO_PLACE) {
                const bool follows = kiln_vta_uop_cache_follow(&cache, kernel, next);
                assert_int_equal(follows, naive_follow(&n, kernel, uops[kernel], next, uops[next],
                                                       2 * step + 1));
                followed[follows]++;
            }
            for (uint32_t k = 0; k < KERNELS; k++) {
                const uint32_t place = naive_place(&n, k);
                assert_int_equal(cache.place[k],
                                 place == KILN_VTA_NO_PLACE ? place : place + cache.begin);
            }
            assert_int_equal(cache.hits, n.hits);
            assert_int_equal(cache.misses, n.misses);
        }
        kiln_arena_reset(*state);
    }
    assert_in_range(full, 1, 150); /* both ends of a run are seen */
    assert_true(followed[0] > 0 && followed[1] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(kernels_lie_where_the_naive_model_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
