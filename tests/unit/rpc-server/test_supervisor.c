/* Planted candidates through the real contained child: each ends with the right outcome and leaves
 * nothing. This program is its own helper and child. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/manifest.h"
#include "base/proc.h"
#include "rpc-server/board.h"
#include "rpc-server/golden.h"
#include "rpc-server/supervisor.h"
#include "rpc-server/timing.h"
#include "tests/unit/rpc-server/candidates.h"

#define ELEMENTS CANDIDATE_ELEMENTS

static const char *the_object_folder;

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_helper *helper;
    kiln_supervisor *supervisor;
    kiln_timer *deadline;
    char *folder, *program;
    kiln_slots slots;
    uint64_t run;
    uint32_t children, descriptors; /* when nothing runs: the spare, and what it is a copy of */
    /* Of the run that is under way. */
    bool vacated, ended, died;
    double race_ns;
    kiln_phase phase, deadline_phase; /* killed a while after it enters this one */
    kiln_msg_trial_result result;
    const char *text;
} fixture;

/* Children of the helper that are alive or not yet reaped. */
static kiln_str list_children(fixture *f) {
    kiln_str text = {0};
    const int pid = kiln_helper_pid(f->helper);
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", pid, pid), &f->arena, &text));
    return text;
}

static uint32_t count_children(fixture *f) {
    const kiln_str text = list_children(f);
    uint32_t count = 0;
    for (size_t i = 0; i < text.size; i++) count += text.data[i] == ' ';
    return count;
}

static uint32_t count_entries(const char *path) {
    DIR *folder = opendir(path);
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void on_deadline(void *context) {
    fixture *f = context;
    kiln_supervisor_kill(f->supervisor, 0, f->run);
}

static void on_loaded(void *context, uint32_t slot, uint64_t run) {
    fixture *f = context;
    assert_true(slot == 0 && run == f->run && f->phase == KILN_PHASE_LOAD);
    kiln_supervisor_time(f->supervisor, slot, run);
}

static void on_phase(void *context, uint32_t slot, uint64_t run, kiln_phase phase) {
    fixture *f = context;
    assert_true(slot == 0 && run == f->run && phase > f->phase);
    f->phase = phase;
    if (phase == f->deadline_phase) kiln_timer_start(f->deadline, UINT64_C(100000000));
}

static void on_vacated(void *context, uint32_t slot, uint64_t run) {
    fixture *f = context;
    assert_true(slot == 0 && run == f->run && !f->ended);
    assert_true(count_children(f) <= f->children);
    f->vacated = true;
}

static void on_finished(void *context, uint32_t slot, uint64_t run,
                        const kiln_msg_trial_result *result) {
    fixture *f = context;
    assert_true(slot == 0 && run == f->run);
    kiln_message copy = kiln_message_copy(
        &(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result}, &f->arena);
    f->result = copy.trial_result;
    f->text = kiln_str_dup(&f->arena, result->text);
    f->ended = true;
}

static void on_died(void *context, uint32_t slot, uint64_t run, const char *text) {
    fixture *f = context;
    assert_true(slot == 0 && run == f->run);
    f->text = kiln_str_dup(&f->arena, kiln_str_from(text));
    f->died = f->ended = true;
}

static const kiln_supervisor_handler handler = {on_loaded, on_phase, on_vacated, on_finished,
                                                on_died};

static void create_supervisor(fixture *f, const kiln_executor *executor) {
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    uint32_t core_count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    expect_ok(kiln_slots_share(core, core_count, 1, "/sys/devices/system", &f->slots));
    kiln_supervisor_options options = {.loop = f->loop,
                                       .helper = f->helper,
                                       .folder = kiln_arena_printf(&f->arena, "%s/run", f->folder),
                                       .executor = executor,
                                       .slots = &f->slots,
                                       .handler = &handler,
                                       .context = f};
    expect_ok(kiln_supervisor_create(&options, &f->supervisor));
    f->children = count_children(f);
    f->descriptors = count_entries("/proc/self/fd");
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-supervisor-test", &f->arena, &f->folder));
    expect_ok(kiln_proc_self(&f->arena, &f->program));
    expect_ok(kiln_loop_create(&f->loop));
    f->deadline = kiln_timer_create(f->loop, on_deadline, f);
    expect_ok(kiln_helper_open(&(kiln_helper_options){.program = f->program}, &f->helper));
    create_supervisor(f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_supervisor_destroy(f->supervisor);
    kiln_helper_close(f->helper);
    kiln_timer_destroy(f->deadline);
    kiln_loop_destroy(f->loop);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

/* Writes the artefact of a planted candidate; returns its path. */
static const char *write_artefact(fixture *f, const char *fault, double flops) {
    kiln_strbuf bytes = {0};
    candidate_artefact(the_object_folder, fault, flops, &bytes);
    const char *path = kiln_arena_printf(&f->arena, "%s/%s", f->folder, fault);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&bytes), 0600));
    kiln_strbuf_deinit(&bytes);
    return path;
}

static const char *write_reference(fixture *f, int64_t elements) {
    kiln_strbuf bytes = {0};
    candidate_reference(elements, &bytes);
    const char *path = kiln_arena_printf(&f->arena, "%s/reference", f->folder);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&bytes), 0600));
    kiln_strbuf_deinit(&bytes);
    return path;
}

static void run_trial(fixture *f, const kiln_msg_trial *trial, const kiln_supervisor_blobs *blobs,
                      kiln_phase deadline_phase) {
    f->run++;
    f->vacated = f->ended = f->died = false;
    f->phase = KILN_PHASE_NONE;
    f->deadline_phase = deadline_phase;
    f->result = (kiln_msg_trial_result){0};
    kiln_supervisor_start(f->supervisor, 0, f->run, trial, blobs);
    while (!f->ended && kiln_loop_run_once(f->loop)) {}
    assert_true(f->ended);
    kiln_timer_stop(f->deadline);
    /* Nothing is left but what was there before; a machine that refuses the next spare leaves less.
     */
    assert_true(count_entries("/proc/self/fd") <= f->descriptors);
    assert_true(count_children(f) <= f->children);
    assert_int_equal(count_entries(kiln_arena_printf(&f->arena, "%s/run", f->folder)), 2);
}

static void run_blobs(fixture *f, const kiln_supervisor_blobs *blobs, kiln_phase deadline_phase) {
    const kiln_msg_trial trial = {.seed = CANDIDATE_SEED,
                                  .race_ns = f->race_ns,
                                  .policy = {.samples_min = 5,
                                             .samples_max = 20,
                                             .interval = 0.01,
                                             .sample_ns = 100000,
                                             .total_ns = 10000000}};
    run_trial(f, &trial, blobs, deadline_phase);
}

static void run_paths(fixture *f, const char *artefact, const char *reference,
                      kiln_phase deadline_phase) {
    /* Children wait for their turn every other time. */
    run_blobs(f, &(kiln_supervisor_blobs){reference, 1, {artefact}, f->run % 2 == 1},
              deadline_phase);
}

static void run_candidate(fixture *f, const char *fault, kiln_phase deadline_phase) {
    run_paths(f, write_artefact(f, fault, CANDIDATE_FLOPS), write_reference(f, ELEMENTS),
              deadline_phase);
}

static void expect_outcome(fixture *f, kiln_outcome outcome, const char *text) {
    if (f->died) fail_msg("died: %s", f->text);
    if ((kiln_outcome)f->result.outcome != outcome || !strstr(f->text, text))
        fail_msg("%s expected, not %s: %s", kiln_outcome_name(outcome),
                 kiln_outcome_name((kiln_outcome)f->result.outcome), f->text);
}

static void expect_death(fixture *f, const char *text) {
    if (!f->died)
        fail_msg("not died, but %s: %s", kiln_outcome_name((kiln_outcome)f->result.outcome),
                 f->text);
    if (!strstr(f->text, text)) fail_msg("\"%s\" expected in: %s", text, f->text);
}

static void an_honest_candidate_is_measured_and_checked(void **state) {
    fixture *f = *state;
    run_candidate(f, "honest", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
    assert_true(f->result.checked);
    assert_in_range(f->result.samples_ns.count, 5, 20);
    assert_true(f->result.runs >= 1 && f->result.error <= 1 && f->result.stop != KILN_STOP_NONE);
    for (uint32_t i = 0; i < f->result.samples_ns.count; i++)
        assert_true(f->result.samples_ns.item[i] > 0);
    assert_true(f->result.peak_flops > 0);
    assert_int_equal(f->phase, KILN_PHASE_CHECK);
    assert_true(f->result.times_ns.run > 0 && f->result.times_ns.load > 0);
}

static void a_kernel_above_the_bound_is_stopped_after_its_first_samples(void **state) {
    fixture *f = *state;
    f->race_ns = 0.5; /* nothing is that fast */
    run_candidate(f, "honest", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
    assert_int_equal(f->result.stop, KILN_STOP_RACED);
    assert_int_equal(f->result.samples_ns.count, KILN_TIMING_RACE_SAMPLES);
    assert_true(f->result.checked);
    run_candidate(f, "slightly_wrong",
                  KILN_PHASE_NONE); /* what it wrote is looked at all the same */
    expect_outcome(f, KILN_OUTCOME_WRONG_RESULT, "after the first call");
    f->race_ns = 1e9;
    run_candidate(f, "honest", KILN_PHASE_NONE);
    assert_in_range(f->result.samples_ns.count, 5, 20);
}

static void rivals_are_measured_in_turns_and_judged_alone(void **state) {
    fixture *f = *state;
    const kiln_supervisor_blobs blobs = {write_reference(f, ELEMENTS),
                                         3,
                                         {write_artefact(f, "honest", CANDIDATE_FLOPS),
                                          write_artefact(f, "slightly_wrong", CANDIDATE_FLOPS),
                                          write_artefact(f, "honest", CANDIDATE_FLOPS)},
                                         false};
    run_blobs(f, &blobs, KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
    assert_int_equal(f->result.rivals.count, 2);
    const kiln_msg_rival_result *rival = f->result.rivals.item;
    assert_int_equal(rival[0].outcome, KILN_OUTCOME_WRONG_RESULT);
    assert_int_equal(rival[1].outcome, KILN_OUTCOME_OK);
    assert_true(rival[1].checked && rival[1].runs >= 1);
    /* The n-th samples of all were taken together, so that they can be compared in pairs. */
    assert_int_equal(rival[0].samples_ns.count, f->result.samples_ns.count);
    assert_int_equal(rival[1].samples_ns.count, f->result.samples_ns.count);
}

static void a_rival_that_does_not_link_ends_all(void **state) {
    fixture *f = *state;
    const char *broken = write_artefact(f, "half_of_it", 1);
    expect_ok(kiln_file_write(broken, KILN_STR("rubbish"), 0600));
    const kiln_supervisor_blobs blobs = {
        write_reference(f, ELEMENTS), 2, {write_artefact(f, "honest", 1), broken}, false};
    run_blobs(f, &blobs, KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_LINK_ERROR, "");
}

static void drift_is_told_once_the_board_is_known(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        /* On a busy machine readings may scatter, and the part is switched off. */
        const kiln_part_use use = kiln_supervisor_norm(f->supervisor, 0)->arithmetic.use;
        run_candidate(f, "honest", KILN_PHASE_NONE);
        expect_outcome(f, KILN_OUTCOME_OK, "");
        assert_int_equal(f->result.drift > 0, use == KILN_PART_USED);
        assert_true(f->vacated);
    }
}

static void threads_work_inside_the_sandbox(void **state) {
    fixture *f = *state;
    run_candidate(f, "shares_its_work", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
}

/* One test per planted fault: what it is refused as. */
#define DIES(fault, text)                               \
    static void fault(void **state) {                   \
        run_candidate(*state, #fault, KILN_PHASE_NONE); \
        expect_death(*state, text);                     \
    }
#define IS_KILLED(fault)                                \
    static void fault(void **state) {                   \
        run_candidate(*state, #fault, KILN_PHASE_WARM); \
        expect_death(*state, "signal 9");               \
    }
#define ENDS(fault, outcome, text)                            \
    static void fault(void **state) {                         \
        run_candidate(*state, #fault, KILN_PHASE_NONE);       \
        expect_outcome(*state, KILN_OUTCOME_##outcome, text); \
    }
IS_KILLED(loops_for_ever)
IS_KILLED(loops_in_prepare)
DIES(reads_nothing, "signal 11")
DIES(illegal_instruction, "signal 4")
DIES(starts_a_process, "signal 31")
DIES(fills_the_stack, "signal 11")
DIES(opens_a_file, "signal 31")
DIES(opens_a_socket, "signal 31")
DIES(executes_a_program, "signal 31")
DIES(kills_its_parent, "signal 31")
DIES(ends_early, "exit code 0")
DIES(writes_after, "signal 11")
DIES(writes_before, "signal 11")
DIES(writes_its_input, "signal 11")
DIES(forges_a_report, "broke its protocol")
DIES(floods_its_parent, "broke its protocol")
ENDS(writes_beside, CRASH, "outside of its arguments")
ENDS(says_it_failed, CRASH, "returned an error")
ENDS(half_of_it, WRONG_RESULT, "output")
ENDS(slightly_wrong, WRONG_RESULT, "1 of 4093 elements are wrong")
ENDS(right_once, WRONG_RESULT, "after the last timed call")
ENDS(skips_when_done, WRONG_RESULT, "left an element")

static void fills_memory(void **state) {
    if (KILN_SANITIZED) skip_because("sanitizers map memory of their own");
    run_candidate(*state, "fills_memory", KILN_PHASE_NONE);
    expect_death(*state, "signal 31");
}

static void is_impossibly_fast(void **state) {
    fixture *f = *state;
    run_paths(f, write_artefact(f, "is_impossibly_fast", 1e12), write_reference(f, ELEMENTS),
              KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_WRONG_RESULT, "faster than this machine can be");
}

static void what_does_not_link_is_a_link_error(void **state) {
    fixture *f = *state;
    const char *artefact = write_artefact(f, "honest", 1);
    kiln_str bytes;
    expect_ok(kiln_file_read(artefact, KILN_ARTEFACT_BYTES_MAX, &f->arena, &bytes));
    expect_ok(kiln_file_write(artefact, kiln_str_slice(bytes, 0, bytes.size / 2), 0600));
    run_paths(f, artefact, write_reference(f, ELEMENTS), KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_LINK_ERROR, "");
    assert_false(f->result.checked);
}

static void a_slot_runs_no_code_for_another_device(void **state) {
    fixture *f = *state;
    f->slots.slot[0].kind = KILN_TARGET_NULL;
    run_candidate(f, "honest", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_LINK_ERROR, "the slot is for null targets");
}

static void a_reference_of_another_task_is_not_the_candidates_fault(void **state) {
    fixture *f = *state;
    run_paths(f, write_artefact(f, "honest", 1), write_reference(f, ELEMENTS - 1), KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_INFRA, "reference");
    assert_int_equal(f->result.blame, KILN_BLAME_CLIENT);
    run_paths(f, write_artefact(f, "honest", 1), "/nowhere", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_INFRA, "/nowhere");
}

static void the_golden_kernel_passes(void **state) {
    fixture *f = *state;
    kiln_golden golden;
    const char *folder = kiln_arena_printf(&f->arena, "%s/golden", f->folder);
    expect_ok(kiln_golden_open(folder, NULL, &f->arena, &golden));
    const kiln_msg_trial trial = kiln_golden_trial();
    run_trial(f, &trial, &(kiln_supervisor_blobs){golden.reference, 1, {golden.artefact}, false},
              KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
    assert_true(f->result.checked);
    assert_null(kiln_golden_judge(&golden, &f->result, &f->arena));
    assert_true(golden.best_ns > 0);
}

/* Kills all children of the helper and waits until they have ended; whose they are is left to find
 * out. */
static void kill_children(fixture *f) {
    kiln_str pids = list_children(f);
    for (uint64_t pid = 0; kiln_str_to_u64(kiln_str_cut(&pids, ' '), &pid);) {
        const int fd = pidfd_open((pid_t)pid, 0);
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        assert_true(fd >= 0);
        kill((pid_t)pid, SIGKILL);
        assert_int_equal(poll(&ended, 1, 60000), 1);
        close(fd);
    }
}

static void children_that_are_killed_while_they_wait_are_replaced(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        kill_children(f);
        run_candidate(f, "honest", KILN_PHASE_NONE);
        expect_outcome(f, KILN_OUTCOME_OK, "");
    }
}

static uint64_t resident_bytes(fixture *f) {
    kiln_str text;
    uint64_t pages = 0;
    expect_ok(kiln_file_read_system("/proc/self/statm", &f->arena, &text));
    kiln_str_cut(&text, ' ');
    assert_true(kiln_str_to_u64(kiln_str_cut(&text, ' '), &pages));
    return pages * 4096;
}

static void many_faults_leave_no_memory_behind(void **state) {
    fixture *f = *state;
    if (KILN_SANITIZED)
        skip_because("sanitizers keep what is freed, and look for leaks themselves");
    static const char *const faults[] = {"honest", "reads_nothing", "starts_a_process",
                                         "half_of_it", "writes_beside"};
    const char *reference = write_reference(f, ELEMENTS);
    uint64_t before = 0;
    for (uint32_t i = 0; i < 100; i++) {
        run_paths(f, write_artefact(f, faults[i % KILN_ARRAY_COUNT(faults)], 1), reference,
                  KILN_PHASE_NONE);
        if (i == 20) before = resident_bytes(f); /* pools and caches are warm */
    }
    assert_true(resident_bytes(f) <
                before + ((uint64_t)4 << 20)); /* the test's own arena keeps 80 small objects */
    run_candidate(f, "honest", KILN_PHASE_NONE);
    expect_outcome(f, KILN_OUTCOME_OK, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    assert_int_equal(argc, 2);
    the_object_folder = argv[1];
    const struct CMUnitTest tests[] = {
        TEST(an_honest_candidate_is_measured_and_checked),
        TEST(a_kernel_above_the_bound_is_stopped_after_its_first_samples),
        TEST(rivals_are_measured_in_turns_and_judged_alone),
        TEST(a_rival_that_does_not_link_ends_all),
        TEST(drift_is_told_once_the_board_is_known),
        TEST(threads_work_inside_the_sandbox),
        TEST(loops_for_ever),
        TEST(loops_in_prepare),
        TEST(reads_nothing),
        TEST(illegal_instruction),
        TEST(starts_a_process),
        TEST(fills_memory),
        TEST(fills_the_stack),
        TEST(opens_a_file),
        TEST(opens_a_socket),
        TEST(executes_a_program),
        TEST(kills_its_parent),
        TEST(ends_early),
        TEST(writes_after),
        TEST(writes_before),
        TEST(writes_its_input),
        TEST(forges_a_report),
        TEST(floods_its_parent),
        TEST(writes_beside),
        TEST(says_it_failed),
        TEST(half_of_it),
        TEST(slightly_wrong),
        TEST(right_once),
        TEST(skips_when_done),
        TEST(is_impossibly_fast),
        TEST(what_does_not_link_is_a_link_error),
        TEST(a_slot_runs_no_code_for_another_device),
        TEST(a_reference_of_another_task_is_not_the_candidates_fault),
        TEST(the_golden_kernel_passes),
        TEST(children_that_are_killed_while_they_wait_are_replaced),
        TEST(many_faults_leave_no_memory_behind),
    };
    return cmocka_run_group_tests_name("rpc-server/supervisor", tests, NULL, NULL);
}
