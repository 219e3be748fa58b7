/* What is usual on a board, and the board's speed against it, on made-up readings with fixed seeds.
 */
#include "rpc-server/drift.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "base/str.h"
#include "tests/support/test.h"

#define ARITHMETIC_NS 3000.0
#define MEMORY_NS 8000.0

/* A board: what its parts take in each state over what they take at best; how far readings scatter
 * by themselves; neighbours that slow both parts for a share of the rounds. */
typedef struct board {
    double arithmetic[KILN_REFERENCE_KERNEL_STATE_COUNT], memory[KILN_REFERENCE_KERNEL_STATE_COUNT];
    double scatter, neighbour, slowed;
} board;

static const board quiet = {{1, 1, 1, 1}, {1, 1, 1, 1}, 0.01, 0, 1};

static void fill(const board *b, uint64_t seed, uint32_t count, kiln_reference_kernel_round *out) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t r = 0; r < count; r++) {
        const double slower = kiln_rand_unit(&rand) < b->neighbour ? b->slowed : 1;
        for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
            out[r].reading[s] = (kiln_reference_kernel_times){
                ARITHMETIC_NS * b->arithmetic[s] * slower *
                    (1 + b->scatter * kiln_rand_unit(&rand)),
                MEMORY_NS * b->memory[s] * slower * (1 + b->scatter * kiln_rand_unit(&rand))};
    }
}

static kiln_reference_kernel_norm learn(const board *b, uint64_t seed) {
    kiln_reference_kernel_round round[KILN_DRIFT_START];
    fill(b, seed, KILN_DRIFT_START, round);
    return kiln_reference_kernel_norm_of(round, KILN_DRIFT_START);
}

/* Readings of the board that are out of the band of its parts: at most one in twenty of each. */
static void expect_in_band(const board *b, uint64_t seed) {
    const kiln_reference_kernel_norm norm = learn(b, seed);
    kiln_reference_kernel_round round[KILN_DRIFT_START];
    uint32_t arithmetic = 0, memory = 0;
    fill(b, seed, KILN_DRIFT_START, round);
    for (uint32_t i = 0; i < KILN_DRIFT_START * KILN_REFERENCE_KERNEL_STATE_COUNT; i++) {
        const kiln_reference_kernel_times *times =
            &round[i / KILN_REFERENCE_KERNEL_STATE_COUNT]
                 .reading[i % KILN_REFERENCE_KERNEL_STATE_COUNT];
        const kiln_drift_ratio ratio = kiln_drift_ratio_of(times, &norm);
        arithmetic += kiln_part_is_out(ratio.arithmetic, &norm.arithmetic);
        memory += kiln_part_is_out(ratio.memory, &norm.memory);
    }
    assert_in_range(arithmetic, 0, KILN_DRIFT_START * KILN_REFERENCE_KERNEL_STATE_COUNT / 20);
    assert_in_range(memory, 0, KILN_DRIFT_START * KILN_REFERENCE_KERNEL_STATE_COUNT / 20);
}

static void a_quiet_board_is_known_by_its_first_rounds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const kiln_reference_kernel_norm norm = learn(&quiet, seed);
        assert_int_equal(norm.arithmetic.use, KILN_PART_USED);
        assert_int_equal(norm.memory.use, KILN_PART_USED);
        assert_true(norm.arithmetic.usual_ns >= ARITHMETIC_NS);
        assert_true(norm.arithmetic.usual_ns <= 1.005 * ARITHMETIC_NS);
        assert_true(norm.arithmetic.band == KILN_DRIFT_BAND_LEAST);
        expect_in_band(&quiet, seed);
    }
}

/* A clock that follows what the core does: the band is as wide as that. */
static void a_band_holds_what_a_board_does_by_itself(void **state) {
    (void)state;
    const board b = {{1, 1.02, 1.14, 1}, {1, 1, 1.2, 1}, 0.02, 0, 1};
    const kiln_reference_kernel_norm norm = learn(&b, 1);
    assert_int_equal(norm.arithmetic.use, KILN_PART_USED);
    assert_true(norm.arithmetic.band > 0.13 && norm.arithmetic.band < 0.18);
    expect_in_band(&b, 1);
    assert_true(fabs(norm.arithmetic.state[KILN_REFERENCE_KERNEL_AFTER_MEMORY] - 1.13) < 0.02);
}

static void a_part_that_depends_on_what_ran_before_is_switched_off(void **state) {
    (void)state;
    const board b = {{1, 1, 1, 1}, {2.7, 2.6, 1, 1}, 0.05, 0, 1};
    const kiln_reference_kernel_norm norm = learn(&b, 1);
    assert_int_equal(norm.arithmetic.use, KILN_PART_USED);
    assert_int_equal(norm.memory.use, KILN_PART_DEPENDS);
    const kiln_drift_ratio ratio =
        kiln_drift_ratio_of(&(kiln_reference_kernel_times){3000, 99000}, &norm);
    assert_true(ratio.arithmetic > 0.9 && ratio.memory == 0);
    assert_false(kiln_drift_is_slow(&ratio, &norm));
    kiln_strbuf text = {0};
    kiln_part_norm_print(&norm.memory, &text);
    assert_non_null(strstr(text.data, "off: it takes 2."));
    assert_non_null(strstr(text.data, "times as long after a pause as after"));
    kiln_strbuf_deinit(&text);
}

static void each_state_counts_for_what_a_part_depends_on(void **state) {
    (void)state;
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
        board b = quiet;
        b.memory[s] = 2.6;
        assert_int_equal(learn(&b, 1).memory.use, KILN_PART_DEPENDS);
    }
}

static void a_part_that_scatters_by_itself_is_switched_off(void **state) {
    (void)state;
    const board b = {{1, 1, 1, 1}, {1, 1, 1, 1}, 1.5, 0, 1};
    const kiln_reference_kernel_norm norm = learn(&b, 1);
    assert_int_equal(norm.arithmetic.use, KILN_PART_SCATTERS);
    assert_int_equal(norm.memory.use, KILN_PART_SCATTERS);
}

static void neighbours_that_stay_for_longer_than_a_round_switch_nothing_off(void **state) {
    (void)state;
    board b = quiet;
    b.slowed = 1.5;
    for (b.neighbour = 0.1; b.neighbour < 0.8; b.neighbour += 0.1) {
        const kiln_reference_kernel_norm norm = learn(&b, 3);
        assert_int_equal(norm.arithmetic.use, KILN_PART_USED);
        assert_true(norm.arithmetic.usual_ns <= 1.01 * ARITHMETIC_NS);
        const kiln_drift_ratio beside = kiln_drift_ratio_of(
            &(kiln_reference_kernel_times){1.5 * ARITHMETIC_NS, MEMORY_NS}, &norm);
        assert_true(kiln_drift_is_slow(&beside, &norm));
    }
}

static void what_stays_becomes_usual(void **state) {
    (void)state;
    kiln_reference_kernel_round round[KILN_DRIFT_WINDOW];
    kiln_drift drift = {0};
    fill(&quiet, 1, KILN_DRIFT_START, round);
    for (uint32_t i = 0; i < KILN_DRIFT_START; i++) kiln_drift_take(&drift, &round[i]);
    board b = quiet;
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) b.arithmetic[s] = 2;
    fill(&b, 2, KILN_DRIFT_WINDOW, round);
    const kiln_reference_kernel_times slow = round[0].reading[0];
    for (uint32_t i = 0; i < KILN_DRIFT_WINDOW; i++) {
        const kiln_drift_ratio ratio = kiln_drift_ratio_of(&slow, &drift.norm);
        /* As long as one in sixteen remembered readings is of the time before. */
        if (i < KILN_DRIFT_WINDOW - KILN_DRIFT_WINDOW / KILN_DRIFT_FASTER)
            assert_true(kiln_drift_is_slow(&ratio, &drift.norm));
        kiln_drift_take(&drift, &round[i]);
    }
    const kiln_drift_ratio ratio = kiln_drift_ratio_of(&slow, &drift.norm);
    assert_false(kiln_drift_is_slow(&ratio, &drift.norm));
}

static void a_clock_that_rose_is_believed_at_once(void **state) {
    (void)state;
    kiln_reference_kernel_round round[KILN_DRIFT_WINDOW];
    kiln_drift drift = {0};
    board b = quiet;
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) b.arithmetic[s] = 1.08;
    fill(&b, 1, KILN_DRIFT_WINDOW, round);
    for (uint32_t i = 0; i < KILN_DRIFT_WINDOW; i++) kiln_drift_take(&drift, &round[i]);
    fill(&quiet, 2, KILN_DRIFT_WINDOW, round);
    for (uint32_t i = 0; i <= KILN_DRIFT_WINDOW / KILN_DRIFT_FASTER; i++)
        kiln_drift_take(&drift, &round[i]);
    const kiln_drift_ratio ratio = kiln_drift_ratio_of(&round[0].reading[0], &drift.norm);
    assert_false(kiln_part_is_out(ratio.arithmetic, &drift.norm.arithmetic));
    /* The slower clock is still one of the two that this board has. */
    const kiln_drift_ratio before = kiln_drift_ratio_of(
        &(kiln_reference_kernel_times){1.08 * ARITHMETIC_NS, MEMORY_NS}, &drift.norm);
    assert_false(kiln_part_is_out(before.arithmetic, &drift.norm.arithmetic));
}

static void nothing_is_said_before_the_board_is_known(void **state) {
    (void)state;
    const kiln_reference_kernel_norm none = {0};
    const kiln_drift_ratio ratio =
        kiln_drift_ratio_of(&(kiln_reference_kernel_times){100, 10}, &none);
    assert_true(ratio.arithmetic == 0 && ratio.memory == 0);
    assert_false(kiln_drift_is_slow(&ratio, &none));
}

static void samples_are_out_of_band_by_drift_or_throttling(void **state) {
    (void)state;
    const kiln_msg_env cool = {0}, hot = {.throttle_bits = 4}, hotter = {.throttle_count = 1};
    const kiln_reference_kernel_norm norm = {{.use = KILN_PART_USED, .usual_ns = 100, .band = 0.05},
                                             {.use = KILN_PART_USED, .usual_ns = 10, .band = 0.25}};
    const kiln_drift_ratio unknown = {0}, same = {1, 1}, near = {1.04, 1.2}, slow = {1.06, 1},
                           fast = {0.94, 1}, crowded = {1, 1.3};
    assert_false(kiln_drift_is_out(&unknown, &norm, &cool, &cool));
    assert_false(kiln_drift_is_out(&near, &norm, &cool, &cool));
    assert_true(kiln_drift_is_out(&slow, &norm, &cool, &cool));
    assert_true(kiln_drift_is_out(&fast, &norm, &cool, &cool));
    assert_true(kiln_drift_is_out(&crowded, &norm, &cool, &cool));
    assert_true(kiln_drift_is_out(&same, &norm, &cool, &hot));
    assert_true(kiln_drift_is_out(&same, &norm, &hot, &cool));
    assert_true(kiln_drift_is_out(&same, &norm, &cool, &hotter));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_board_is_known_by_its_first_rounds),
        cmocka_unit_test(a_band_holds_what_a_board_does_by_itself),
        cmocka_unit_test(a_part_that_depends_on_what_ran_before_is_switched_off),
        cmocka_unit_test(each_state_counts_for_what_a_part_depends_on),
        cmocka_unit_test(a_part_that_scatters_by_itself_is_switched_off),
        cmocka_unit_test(neighbours_that_stay_for_longer_than_a_round_switch_nothing_off),
        cmocka_unit_test(what_stays_becomes_usual),
        cmocka_unit_test(a_clock_that_rose_is_believed_at_once),
        cmocka_unit_test(nothing_is_said_before_the_board_is_known),
        cmocka_unit_test(samples_are_out_of_band_by_drift_or_throttling),
    };
    return cmocka_run_group_tests_name("rpc-server/drift", tests, NULL, NULL);
}
