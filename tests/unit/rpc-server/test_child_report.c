#include "rpc-server/child_report.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define MS KILN_NS_PER_MS

static kiln_child_note note(kiln_child_said said, uint32_t phase) {
    return (kiln_child_note){.magic = KILN_CHILD_MAGIC, .said = said, .phase = phase};
}

static bool say(kiln_child_report *report, kiln_child_said said, uint32_t phase, uint64_t now_ns) {
    const kiln_child_note words = note(said, phase);
    return kiln_child_report_take(report, &words, now_ns);
}

static bool say_measured(kiln_child_report *report, uint32_t kernel, uint64_t now_ns) {
    kiln_child_note words = note(KILN_CHILD_MEASURED, 0);
    words.kernel = kernel;
    return kiln_child_report_take(report, &words, now_ns);
}

/* An report up to `phase` of a child that keeps to the protocol. */
static kiln_child_report account_in(kiln_phase phase) {
    kiln_child_report report;
    kiln_child_report_open(&report, 2, true, 0);
    assert_true(say(&report, KILN_CHILD_READY, 0, 0));
    if (phase >= KILN_PHASE_LOAD) assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_LOAD, 0));
    if (phase <= KILN_PHASE_LOAD) return report;
    assert_true(say(&report, KILN_CHILD_LOADED, 0, 0));
    kiln_child_report_let_time(&report, 0);
    for (uint32_t next = KILN_PHASE_WARM; next <= (uint32_t)phase; next++)
        assert_true(say(&report, KILN_CHILD_PHASE, next, 0));
    return report;
}

static void phases_are_timed_and_waiting_is_not(void **state) {
    (void)state;
    kiln_child_report report;
    kiln_child_report_open(&report, 1, true, 10 * MS);
    assert_true(say(&report, KILN_CHILD_READY, 0, 11 * MS));
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_LOAD, 12 * MS));
    assert_true(say(&report, KILN_CHILD_LOADED, 0, 15 * MS));
    kiln_child_report_let_time(&report, 100 * MS);
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_WARM, 101 * MS));
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_RUN, 103 * MS));
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_CHECK, 107 * MS));
    assert_true(say_measured(&report, 0, 115 * MS));
    assert_true(report.is_told);
    assert_int_equal(report.times_ns.load, 4 * MS); /* linked in 3, and 1 when it was let */
    assert_int_equal(report.times_ns.warm, 2 * MS);
    assert_int_equal(report.times_ns.run, 4 * MS);
    assert_int_equal(report.times_ns.check, 8 * MS);
    /* What its samples may add up to. */
    assert_int_equal(report.since_ns - report.began_ns, 15 * MS);
}

static void nothing_is_said_out_of_turn(void **state) {
    (void)state;
    for (kiln_phase phase = KILN_PHASE_NONE; phase <= KILN_PHASE_CHECK; phase++) {
        if (phase == KILN_PHASE_FETCH) continue;
        for (uint32_t next = 0; next <= KILN_PHASE_CHECK + 2U; next++) {
            kiln_child_report report = account_in(phase);
            const uint32_t right = phase == KILN_PHASE_NONE ? KILN_PHASE_LOAD : phase + 1U;
            const bool may = next == right && next <= KILN_PHASE_CHECK && next != KILN_PHASE_WARM;
            assert_int_equal(say(&report, KILN_CHILD_PHASE, next, 0), may);
            assert_int_equal(report.broke_rules, !may);
        }
        static const kiln_child_said said[] = {KILN_CHILD_READY, KILN_CHILD_LOADED,
                                               KILN_CHILD_REFUSED, KILN_CHILD_MEASURED};
        const kiln_phase only[] = {KILN_PHASE_COUNT, KILN_PHASE_LOAD, KILN_PHASE_LOAD,
                                   KILN_PHASE_CHECK};
        for (uint32_t i = 0; i < KILN_ARRAY_COUNT(said); i++) {
            kiln_child_report report = account_in(phase);
            assert_int_equal(say(&report, said[i], 0, 0), phase == only[i]);
        }
        for (uint32_t code = 0; code <= KILN_RAN_STALE + 1U; code++) {
            kiln_child_report report = account_in(phase);
            kiln_child_note failed = note(KILN_CHILD_FAILED, 0);
            failed.code = code;
            assert_int_equal(kiln_child_report_take(&report, &failed, 0),
                             phase > KILN_PHASE_LOAD && code >= KILN_RAN_ERROR &&
                                 code <= KILN_RAN_STALE);
        }
    }
}

static void nobody_times_before_it_is_let(void **state) {
    (void)state;
    kiln_child_report report = account_in(KILN_PHASE_LOAD);
    assert_true(say(&report, KILN_CHILD_LOADED, 0, 0));
    kiln_child_report hasty = report;
    assert_false(say(&hasty, KILN_CHILD_PHASE, KILN_PHASE_WARM, 0));
    kiln_child_report_let_time(&report, 0);
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_WARM, 0));
}

static void who_need_not_wait_goes_on_when_it_is_linked(void **state) {
    (void)state;
    kiln_child_report report;
    kiln_child_report_open(&report, 1, false, 0);
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_LOAD, 0));
    kiln_child_report talkative = report;
    assert_false(say(&talkative, KILN_CHILD_LOADED, 0, 0));
    assert_true(say(&report, KILN_CHILD_PHASE, KILN_PHASE_WARM, 0));
}

static void nothing_counts_after_the_last_word_or_a_broken_rule(void **state) {
    (void)state;
    kiln_child_report report = account_in(KILN_PHASE_CHECK);
    assert_true(say_measured(&report, 0, 0));
    assert_false(report.is_told); /* there are two kernels */
    kiln_child_report twice = report;
    assert_false(say_measured(&twice, 0, 0));
    assert_true(say_measured(&report, 1, 0));
    assert_true(report.is_told);
    assert_false(say_measured(&report, 2, 0));
    kiln_child_report broken = account_in(KILN_PHASE_LOAD);
    kiln_child_note rubbish = note(KILN_CHILD_LOADED, 0);
    rubbish.magic++;
    assert_false(kiln_child_report_take(&broken, &rubbish, 0));
    assert_false(say(&broken, KILN_CHILD_LOADED, 0, 0));
    kiln_child_report endless = account_in(KILN_PHASE_LOAD);
    kiln_child_note text = note(KILN_CHILD_REFUSED, 0);
    memset(text.text, 'x', sizeof text.text);
    assert_false(kiln_child_report_take(&endless, &text, 0));
}

/* ---- What an end means ---- */

static kiln_ending end_of(const kiln_child_report *report, int signal, int code,
                          kiln_arena *arena) {
    return kiln_child_report_ending(report, &(kiln_child_exit){code, signal}, arena);
}

static void ends_mean_what_was_said_before(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);

    kiln_child_report report = account_in(KILN_PHASE_CHECK);
    assert_int_equal(end_of(&report, 0, 0, &arena).how, KILN_ENDED_DIED); /* without a word */
    assert_true(say_measured(&report, 0, 0) && say_measured(&report, 1, 0));
    assert_int_equal(end_of(&report, 0, 0, &arena).how, KILN_ENDED_MEASURED);
    assert_int_equal(end_of(&report, 0, 1, &arena).how, KILN_ENDED_DIED);
    assert_int_equal(end_of(&report, SIGKILL, 0, &arena).how, KILN_ENDED_DIED);

    report = account_in(KILN_PHASE_RUN);
    kiln_ending ending = end_of(&report, SIGSYS, 0, &arena);
    assert_int_equal(ending.how, KILN_ENDED_DIED);
    assert_non_null(strstr(ending.text, "a system call that kernels may not make"));
    report.broke_rules = true;
    assert_non_null(strstr(end_of(&report, 0, 0, &arena).text, "broke its protocol in phase run"));
    kiln_arena_deinit(&arena);
}

static void what_is_not_the_candidates_fault_is_the_boards(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    /* Ours gave up before any code of the candidate ran. */
    kiln_child_report report = account_in(KILN_PHASE_LOAD);
    kiln_ending ending = end_of(&report, 0, 13, &arena);
    assert_int_equal(ending.how, KILN_ENDED_DECIDED);
    assert_int_equal(ending.blame, KILN_BLAME_BOARD);
    assert_int_equal(end_of(&report, SIGSEGV, 0, &arena).how, KILN_ENDED_DIED);

    const struct {
        uint32_t code;
        kiln_outcome outcome;
        kiln_blame blame;
    } refusal[] = {{KILN_FAILED_PRECONDITION, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD},
                   {KILN_RESOURCE_EXHAUSTED, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD},
                   {KILN_INVALID_ARGUMENT, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(refusal); i++) {
        report = account_in(KILN_PHASE_LOAD);
        kiln_child_note refused = note(KILN_CHILD_REFUSED, 0);
        refused.code = refusal[i].code;
        snprintf(refused.text, sizeof refused.text, "because");
        assert_true(kiln_child_report_take(&report, &refused, 0));
        ending = end_of(&report, 0, 0, &arena);
        assert_int_equal(ending.outcome, refusal[i].outcome);
        assert_int_equal(ending.blame, refusal[i].blame);
        assert_string_equal(ending.text, "because");
    }
    static const kiln_outcome failed[] = {[KILN_RAN_ERROR] = KILN_OUTCOME_CRASH,
                                          [KILN_RAN_STRAY] = KILN_OUTCOME_CRASH,
                                          [KILN_RAN_STALE] = KILN_OUTCOME_WRONG_RESULT};
    for (uint32_t ran = KILN_RAN_ERROR; ran <= KILN_RAN_STALE; ran++) {
        report = account_in(KILN_PHASE_RUN);
        kiln_child_note words = note(KILN_CHILD_FAILED, 0);
        words.code = ran;
        assert_true(kiln_child_report_take(&report, &words, 0));
        ending = end_of(&report, 0, 0, &arena);
        assert_int_equal(ending.outcome, failed[ran]);
        assert_int_equal(ending.blame, KILN_BLAME_CANDIDATE);
    }
    kiln_arena_deinit(&arena);
}

/* Code on a processor could say so of itself. */
static void only_a_device_of_its_own_can_be_lost(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_child_note words = note(KILN_CHILD_FAILED, 0);
    words.code = KILN_RAN_LOST;
    snprintf(words.text, sizeof words.text, "out of its bus");
    kiln_child_report report = account_in(KILN_PHASE_RUN);
    assert_false(kiln_child_report_take(&report, &words, 0));
    report = account_in(KILN_PHASE_RUN);
    report.may_lose = true;
    assert_true(kiln_child_report_take(&report, &words, 0));
    const kiln_ending ending = end_of(&report, 0, 0, &arena);
    assert_int_equal(ending.outcome, KILN_OUTCOME_INFRA);
    assert_int_equal(ending.blame, KILN_BLAME_BOARD);
    assert_string_equal(ending.text, "the device was lost: out of its bus");
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_timed_and_waiting_is_not),
        cmocka_unit_test(nothing_is_said_out_of_turn),
        cmocka_unit_test(nobody_times_before_it_is_let),
        cmocka_unit_test(who_need_not_wait_goes_on_when_it_is_linked),
        cmocka_unit_test(nothing_counts_after_the_last_word_or_a_broken_rule),
        cmocka_unit_test(ends_mean_what_was_said_before),
        cmocka_unit_test(what_is_not_the_candidates_fault_is_the_boards),
        cmocka_unit_test(only_a_device_of_its_own_can_be_lost),
    };
    return cmocka_run_group_tests_name("rpc-server/child_report", tests, NULL, NULL);
}
