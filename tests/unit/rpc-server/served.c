#include "tests/unit/rpc-server/served.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "rpc-server/board.h"

static kiln_str list_children(served *f) {
    kiln_str text = {0};
    const int pid = kiln_helper_pid(f->helper);
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", pid, pid), &f->arena, &text));
    return text;
}

uint32_t served_children(served *f) {
    const kiln_str text = list_children(f);
    uint32_t count = 0;
    for (size_t i = 0; i < text.size; i++) count += text.data[i] == ' ';
    return count;
}

uint64_t served_by(served *f) {
    kiln_str pids = list_children(f);
    uint64_t pid = 0, last = 0; /* the youngest stands last; numbers begin anew some time */
    while (kiln_str_to_u64(kiln_str_cut(&pids, ' '), &pid)) last = pid;
    return last;
}

void served_kill(uint64_t pid) {
    const int fd = pidfd_open((pid_t)pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    assert_true(fd >= 0);
    kill((pid_t)pid, SIGKILL);
    assert_int_equal(poll(&ended, 1, 60000), 1);
    close(fd);
}

static void on_deadline(void *context) {
    served *f = context;
    kiln_supervisor_kill(f->supervisor, 0, f->run);
}

static void on_loaded(void *context, uint32_t slot, uint64_t run) {
    served *f = context;
    if (f->is_killed_loaded)
        served_kill(served_by(f));
    else
        kiln_supervisor_time(f->supervisor, slot, run);
}

static void on_phase(void *context, uint32_t slot, uint64_t run, kiln_phase phase) {
    (void)slot, (void)run;
    served *f = context;
    if (f->is_hasty && phase == KILN_PHASE_WARM) kiln_timer_start(f->deadline, UINT64_C(50000000));
}

static void on_vacated(void *context, uint32_t slot, uint64_t run) {
    (void)context, (void)slot, (void)run;
}

static void on_finished(void *context, uint32_t slot, uint64_t run,
                        const kiln_msg_trial_result *result) {
    served *f = context;
    assert_true(slot == 0 && run == f->run);
    f->result =
        kiln_message_copy(&(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result},
                          &f->arena)
            .trial_result;
    f->text = kiln_str_dup(&f->arena, result->text);
    f->ended = true;
}

static void on_died(void *context, uint32_t slot, uint64_t run, const char *text) {
    served *f = context;
    assert_true(slot == 0 && run == f->run);
    f->text = kiln_str_dup(&f->arena, kiln_str_from(text));
    f->died = f->ended = true;
}

static const kiln_supervisor_handler handler = {on_loaded, on_phase, on_vacated, on_finished,
                                                on_died};

void served_open(served *f, kiln_target_kind kind, const kiln_target *target) {
    *f = (served){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-served-test", &f->arena, &f->folder));
    expect_ok(kiln_proc_self(&f->arena, &f->program));
    expect_ok(kiln_loop_create(&f->loop));
    f->deadline = kiln_timer_create(f->loop, on_deadline, f);
    expect_ok(kiln_helper_open(&(kiln_helper_options){.program = f->program, .drivers = true},
                               &f->helper));
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const uint32_t core_count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    expect_ok(kiln_slots_share(core, core_count, 1, "/sys/devices/system", &f->slots));
    f->slots.slot[0].kind = kind;
    f->slots.slot[0].target = target;
    const kiln_supervisor_options options = {.loop = f->loop,
                                             .helper = f->helper,
                                             .folder =
                                                 kiln_arena_printf(&f->arena, "%s/run", f->folder),
                                             .slots = &f->slots,
                                             .handler = &handler,
                                             .context = f};
    expect_ok(kiln_supervisor_create(&options, &f->supervisor));
    f->idle = served_children(f);
}

void served_close(served *f) {
    kiln_supervisor_destroy(f->supervisor);
    kiln_helper_close(f->helper);
    kiln_timer_destroy(f->deadline);
    kiln_loop_destroy(f->loop);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
}

void served_run(served *f, const kiln_msg_trial *trial, const char *artefact,
                const char *reference) {
    f->run++;
    f->ended = f->died = false;
    f->result = (kiln_msg_trial_result){0};
    /* Children wait for their turn every other time. */
    const bool waits = f->is_killed_loaded || f->run % 2 == 1;
    kiln_supervisor_start(f->supervisor, 0, f->run, trial,
                          &(kiln_supervisor_blobs){reference, 1, {artefact}, waits});
    while (!f->ended && kiln_loop_run_once(f->loop)) {}
    assert_true(f->ended);
    kiln_timer_stop(f->deadline);
    assert_true(served_children(f) <= f->idle + 1); /* the one that serves on */
}

void served_expect(served *f, kiln_outcome outcome, kiln_blame blame, const char *text) {
    if (f->died) fail_msg("died: %s", f->text);
    if ((kiln_outcome)f->result.outcome != outcome || !strstr(f->text, text))
        fail_msg("%s expected, not %s: %s", kiln_outcome_name(outcome),
                 kiln_outcome_name((kiln_outcome)f->result.outcome), f->text);
    assert_int_equal(f->result.blame, blame);
}

void served_run_golden(served *f, const char *target, kiln_golden *out_golden) {
    kiln_target parsed;
    expect_ok(kiln_target_parse(kiln_str_from(target), &f->arena, &parsed));
    expect_ok(kiln_golden_open(kiln_arena_printf(&f->arena, "%s/golden", f->folder), &parsed,
                               &f->arena, out_golden));
    const kiln_msg_trial trial = kiln_golden_trial();
    served_run(f, &trial, out_golden->artefact, out_golden->reference);
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_null(kiln_golden_judge(out_golden, &f->result, &f->arena));
}
