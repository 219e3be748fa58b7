/* The real tracker and the real rpc-server, with this program as client and tuner. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/rpc-server/fleet.h"

static int set_up(void **state) {
    static fleet the_fleet;
    fleet_set_up(&the_fleet, NULL);
    *state = &the_fleet;
    return 0;
}

static int tear_down(void **state) {
    fleet_tear_down(*state);
    return 0;
}

static int set_up_two_slots(void **state) {
    static fleet the_fleet;
    fleet_set_up(&the_fleet, "2");
    *state = &the_fleet;
    return 0;
}

static void send_trial(fleet *f, const char *fault, uint32_t attempt, uint32_t warm_ms) {
    const kiln_msg_blob_ref artefact = fleet_upload_candidate(f, fault);
    const kiln_msg_blob_ref reference = fleet_upload_reference(f);
    kiln_msg_trial trial = fleet_trial(f, fault, attempt, &artefact, &reference);
    trial.deadlines_ms.warm = warm_ms;
    fleet_send_trial(f, &trial);
}

static const kiln_msg_trial_result *run_trial(fleet *f, const char *fault, uint32_t attempt) {
    /* Only what must end by its deadline gets a short one: the machine may be busy. */
    send_trial(f, fault, attempt, strncmp(fault, "loops_", 6) == 0 ? 100 : 60000);
    const kiln_msg_trial_result *result = fleet_await_result(f, fault, attempt);
    assert_non_null(result);
    return result;
}

static void expect(fleet *f, const char *fault, kiln_outcome outcome) {
    const kiln_msg_trial_result *result = run_trial(f, fault, 1);
    if ((kiln_outcome)result->outcome != outcome)
        fail_msg("%s: %s, %.*s", fault, kiln_outcome_name((kiln_outcome)result->outcome),
                 KILN_STR_ARG(result->text));
    fleet_acknowledge(f, result);
}

static void a_trial_is_measured_and_checked(void **state) {
    fleet *f = *state;
    fleet_open_job(f);
    fleet_lease(f, 64);
    const kiln_msg_trial_result *result = run_trial(f, "honest", 1);
    if (result->outcome != KILN_OUTCOME_OK) fail_msg("%.*s", KILN_STR_ARG(result->text));
    assert_true(result->checked && result->samples_ns.count >= 5);
    assert_true(result->peak_flops > 0 ||
                fleet_is_emulated()); /* what bounds no kernel is not said */
    const uint32_t all = 1U << KILN_PHASE_LOAD | 1U << KILN_PHASE_WARM | 1U << KILN_PHASE_RUN |
                         1U << KILN_PHASE_CHECK;
    assert_int_equal(f->phases & all, all);
}

/* On every processor; test_hostile.c has those that want what an emulator does not fence in. */
static void faults_get_their_outcome_and_the_board_goes_on(void **state) {
    static const struct {
        const char *fault;
        kiln_outcome outcome;
    } row[] = {
        {"honest", KILN_OUTCOME_OK},
        {"shares_its_work", KILN_OUTCOME_OK},
        {"reads_nothing", KILN_OUTCOME_CRASH},
        {"illegal_instruction", KILN_OUTCOME_CRASH},
        {"fills_the_stack", KILN_OUTCOME_CRASH},
        {"jumps_into_nothing", KILN_OUTCOME_CRASH},
        {"jumps_into_its_data", KILN_OUTCOME_CRASH},
        {"writes_after", KILN_OUTCOME_CRASH},
        {"writes_before", KILN_OUTCOME_CRASH},
        {"writes_its_input", KILN_OUTCOME_CRASH},
        {"says_it_failed", KILN_OUTCOME_CRASH},
        {"loops_for_ever", KILN_OUTCOME_TIMEOUT},
        {"loops_in_prepare", KILN_OUTCOME_TIMEOUT},
        {"loops_in_all_threads", KILN_OUTCOME_TIMEOUT},
        {"half_of_it", KILN_OUTCOME_WRONG_RESULT},
        {"right_once", KILN_OUTCOME_WRONG_RESULT},
        {"skips_when_done", KILN_OUTCOME_WRONG_RESULT},
        {"slightly_wrong", KILN_OUTCOME_WRONG_RESULT},
        {"honest", KILN_OUTCOME_OK},
    };
    fleet *f = *state;
    fleet_open_job(f);
    fleet_lease(f, 64);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) expect(f, row[i].fault, row[i].outcome);
}

static void a_lease_and_an_unacknowledged_result_outlive_the_tracker(void **state) {
    fleet *f = *state;
    fleet_open_job(f);
    fleet_lease(f, 64);
    run_trial(f, "honest", 1);
    kill(f->tracker.pid, SIGKILL);
    kiln_child_wait(&f->tracker);
    while (f->client || f->tuner) kiln_loop_run_once(f->loop);
    fleet_start_tracker(f);
    fleet_connect(f);
    fleet_open_job(f);
    /* The board came back by itself, and says again what nobody acknowledged. */
    fleet_acknowledge(f, fleet_await_result(f, "honest", 1));
    fleet_acknowledge(f, run_trial(f, "honest", 2)); /* under the same lease */
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = f->lease}};
    expect_ok(kiln_conn_send(f->tuner, &release));
    fleet_lease(f, 64); /* asserts that the number grew */
    expect(f, "honest", KILN_OUTCOME_OK);
}

/* The state letter of a process; 0 when it is gone. */
static char state_of(fleet *f, uint64_t pid) {
    kiln_str text = {0};
    const char *path = kiln_arena_printf(&f->arena, "/proc/%llu/stat", (unsigned long long)pid);
    kiln_status st = kiln_file_read_system(path, &f->arena, &text);
    kiln_status_free(st); /* NOT_FOUND: then the text is empty */
    const char *after_name = text.size > 0 ? strrchr(text.data, ')') : NULL;
    return after_name ? after_name[2] : '\0';
}

#define PAIRS 8u

/* Both slots are leased, and get a trial each. */
static void both_slots_measure(fleet *f, const uint64_t lease[2], const kiln_msg_blob_ref *artefact,
                               const kiln_msg_blob_ref *reference, uint32_t pair) {
    char id[2][16];
    for (uint32_t slot = 0; slot < 2; slot++) {
        f->lease = lease[slot];
        f->slot = slot;
        snprintf(id[slot], sizeof id[slot], "%u/%u", pair, slot);
        const kiln_msg_trial trial = fleet_trial(f, id[slot], 1, artefact, reference);
        fleet_send_trial(f, &trial);
    }
    for (uint32_t results = 0; results < 2; results++) {
        const kiln_message *message = fleet_wait_for(f, KILN_MSG_TRIAL_RESULT);
        assert_non_null(message);
        assert_int_equal(message->trial_result.outcome, KILN_OUTCOME_OK);
        fleet_acknowledge(f, &message->trial_result);
    }
}

static void two_slots_measure_beside_each_other_and_time_in_turns(void **state) {
    fleet *f = *state;
    uint64_t lease[2];
    fleet_open_job(f);
    for (uint32_t i = 0; i < 2; i++) {
        fleet_lease(f, 64);
        assert_int_equal(f->slot, i); /* of the one board that there is */
        lease[i] = f->lease;
    }
    const kiln_msg_blob_ref artefact = fleet_upload_candidate(f, "honest");
    const kiln_msg_blob_ref reference = fleet_upload_reference(f);
    for (uint32_t pair = 0; pair < PAIRS; pair++)
        both_slots_measure(f, lease, &artefact, &reference, pair);

    /* Between the first timed call of one and its last, nothing is said of the other: it neither
     * links nor times. */
    const bool one_memory = !kiln_file_exists("/sys/devices/system/node/node1");
    const char *timing = NULL;
    uint32_t timed = 0;
    for (uint32_t i = 0; i < f->events.count; i++) {
        const fleet_event *event = &f->events.data[i];
        if (timing && one_memory) assert_string_equal(event->trial, timing);
        if (event->phase == KILN_PHASE_WARM) timing = event->trial;
        if (event->phase == KILN_PHASE_CHECK) timing = NULL;
        timed += event->phase == KILN_PHASE_CHECK;
    }
    assert_int_equal(timed, 2 * PAIRS);
}

static void a_killed_board_leaves_no_child(void **state) {
    fleet *f = *state;
    fleet_open_job(f);
    fleet_lease(f, 64);
    send_trial(f, "loops_for_ever", 1, 60000);
    while (!(f->phases & 1U << KILN_PHASE_WARM)) kiln_loop_run_once(f->loop);
    kiln_str children;
    const int helper = fleet_helper(f);
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", helper, helper), &f->arena,
        &children));
    kill(f->server.pid, SIGKILL);
    kiln_child_wait(&f->server);
    uint32_t count = 0;
    for (uint64_t pid = 0; kiln_str_to_u64(kiln_str_cut(&children, ' '), &pid); count++)
        while (state_of(f, pid) != '\0' && state_of(f, pid) != 'Z') {
        } /* it dies with its parent; who reaps it is not ours */
    /* The one that measured, the spare, and the zygote where there is one. */
    assert_in_range(count, 2, 3);
}

static void both_programs_stop_cleanly_when_asked(void **state) {
    fleet *f = *state;
    fleet_open_job(f);
    fleet_lease(f, 64); /* the board is up, and somebody holds it */
    kiln_child_stop(&f->server);
    kiln_child_exit server = kiln_child_wait(&f->server);
    kiln_child_stop(&f->tracker);
    while (f->client || f->tuner) kiln_loop_run_once(f->loop);
    kiln_child_exit tracker = kiln_child_wait(&f->tracker);
    assert_true(server.code == 0 && tracker.code == 0);
    assert_false(kiln_file_exists(kiln_arena_printf(&f->arena, "%s/socket", f->folder)));
    assert_false(kiln_file_is_folder(kiln_arena_printf(&f->arena, "%s/server/run", f->folder)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static uint32_t count_cores(void) {
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    return (uint32_t)CPU_COUNT(&set);
}

int main(int argc, char **argv) {
    if (!fleet_take_arguments(argc, argv)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        TEST(a_trial_is_measured_and_checked),
        TEST(faults_get_their_outcome_and_the_board_goes_on),
        TEST(a_lease_and_an_unacknowledged_result_outlive_the_tracker),
        TEST(a_killed_board_leaves_no_child),
        TEST(both_programs_stop_cleanly_when_asked),
    };
    /* Two slots need two cores; tests/unit/rpc-server/test_slots.c makes them up. */
    const struct CMUnitTest with_slots[] = {
        cmocka_unit_test_setup_teardown(two_slots_measure_beside_each_other_and_time_in_turns,
                                        set_up_two_slots, tear_down),
    };
    int failed = cmocka_run_group_tests_name("rpc-server/shell", tests, NULL, NULL);
    if (count_cores() >= 2)
        failed += cmocka_run_group_tests_name("rpc-server/slots", with_slots, NULL, NULL);
    return failed;
}
