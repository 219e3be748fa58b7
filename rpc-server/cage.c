#include "rpc-server/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/child.h"
#include "base/file.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "rpc-server/board.h"
#include "rpc-server/drift.h"
#include "rpc-server/sandbox.h"
#include "rpc-server/talk.h"
#include "rpc-server/verdict.h"

/* Between two looks at a group that does not want to go. */
#define GROUP_RETRY_NS UINT64_C(10000000)

/* One of the kernels that are measured in turns. */
typedef struct kernel {
    const char *path;
    kiln_mapping file;
    kiln_artefact artefact;
    uint64_t output_bytes;
    kiln_timing timing; /* the child's word */
} kernel;

typedef struct cage {
    struct cage *next;
    kiln_cages *owner; /* NULL: nobody waits for the end any more */
    uint32_t slot;
    uint64_t run;
    kiln_arena arena;

    /* What was asked. */
    kiln_msg_policy policy;
    double race_ns;
    kernel *kernel; /* [kernel_count]; the trial's own first */
    uint32_t kernel_count;
    const kiln_executor *executor;
    uint32_t worker_count;
    const char *reference_path;

    /* The child and what it may touch. */
    kiln_child child;
    pid_t group; /* outlives child.pid, which is 0 once reaped */
    int pidfd, outputs_fd, folder_fd;
    char *folder;
    kiln_watch *exit_watch, *note_watch;
    kiln_timer *retry;

    /* What was seen. */
    uint64_t started_ns, entered_ns;
    kiln_phase phase;
    bool has_last_note, broke_rules;
    kiln_inmate_note note;   /* the last one */
    uint32_t measured_count; /* kernels whose timing was told */
    double peak_flops;       /* of one core, said before candidate code ran */
    double roofline_flops;   /* best of this machine, all cores of the kernel */
    bool judging;            /* on the pool: hands off */
    kiln_child_exit exit;
    const char *death; /* NULL: there is a result */
    bool decided;      /* the result is known without comparing */
    kiln_msg_trial_result result;
} cage;

struct kiln_cages {
    kiln_cage_options options;
    double peak_flops; /* best that was seen on this machine */
    kiln_drift drift;
    kiln_child spare;
    cage *first;
};

/* ---- Children ---- */

static kiln_status start_child(kiln_cages *cages, kiln_child *out_child) {
    const char *const argv[] = {cages->options.program, "--child", NULL};
    return kiln_child_start(&(kiln_child_options){.argv = argv, .socket_in = true}, out_child);
}

/* The waiting spare, or a new child. */
static kiln_status take_child(kiln_cages *cages, kiln_child *out_child) {
    kiln_child_exit ignored;
    kiln_status st = NULL;
    if (cages->spare.pid && kiln_child_ended(&cages->spare, &ignored))
        kiln_child_destroy(&cages->spare);
    if (cages->spare.pid)
        *out_child = cages->spare;
    else
        st = start_child(cages, out_child);
    cages->spare = (kiln_child){.in_fd = -1, .out_fd = -1};
    return st;
}

static bool group_is_gone(const cage *c) { return kill(-c->group, 0) != 0 && errno == ESRCH; }

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Everything that the child had goes; what it left in memory stays for the verdict. */
static void clear_child(cage *c) {
    kiln_watch_destroy(c->note_watch);
    kiln_watch_destroy(c->exit_watch);
    kiln_timer_destroy(c->retry);
    c->note_watch = c->exit_watch = NULL;
    c->retry = NULL;
    kiln_child_destroy(&c->child);
    close_fd(&c->pidfd);
    close_fd(&c->folder_fd);
    if (c->folder)
        kiln_status_free(
            kiln_folder_remove(c->folder)); /* the next start of the server tries again */
    c->folder = NULL;
}

static void free_cage(cage *c) {
    clear_child(c);
    close_fd(&c->outputs_fd);
    for (uint32_t i = 0; i < c->kernel_count; i++) kiln_file_unmap(&c->kernel[i].file);
    kiln_arena_deinit(&c->arena);
    kiln_free(c);
}

/* ---- The end of a run ---- */

static void decide(cage *c, kiln_outcome outcome, kiln_blame blame, const char *text) {
    c->decided = true;
    c->result.outcome = outcome;
    c->result.blame = blame;
    c->result.text = kiln_str_from(text);
}

static void decide_status(cage *c, kiln_outcome outcome, kiln_blame blame, kiln_status status) {
    decide(c, outcome, blame, kiln_arena_printf(&c->arena, "%s", kiln_status_text(status)));
    kiln_status_free(status);
}

static uint64_t outputs_bytes(const cage *c) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->kernel_count; i++) total += 2 * c->kernel[i].output_bytes;
    return total;
}

/* A rival's share of a result. */
static kiln_msg_rival_result rival_of(const kiln_msg_trial_result *result) {
    return (kiln_msg_rival_result){
        .outcome = result->outcome,
        .samples_ns = result->samples_ns,
        .runs = result->runs,
        .stop = result->stop,
        .error = result->error,
        .max_abs_error = result->max_abs_error,
        .checked = result->checked,
        .text = kiln_str_slice(result->text, 0, KILN_MESSAGES_PROSE),
    };
}

/* Judges each kernel by what it left at `outputs`. */
static void judge_kernels(cage *c, const char *outputs, const kiln_reference *reference) {
    kiln_msg_rival_result *rival =
        KILN_ARENA_ARRAY(&c->arena, kiln_msg_rival_result, c->kernel_count - 1);
    for (uint32_t i = 0; i < c->kernel_count; i++) {
        const kernel *k = &c->kernel[i];
        kiln_evidence evidence = {
            .manifest = &k->artefact.manifest,
            .policy = &c->policy,
            .reference = reference,
            .first = outputs,
            .last = outputs + k->output_bytes,
            .timing = &k->timing,
            .race_ns = c->kernel_count == 1 ? c->race_ns : 0,
            .elapsed_ns = c->entered_ns - c->started_ns,
            .peak_flops = c->roofline_flops,
        };
        kiln_msg_trial_result verdict = {0};
        kiln_verdict_of(&evidence, &c->arena, i ? &verdict : &c->result);
        if (i) rival[i - 1] = rival_of(&verdict);
        outputs += 2 * k->output_bytes;
    }
    c->result.rivals.item = rival;
    c->result.rivals.count = c->kernel_count - 1;
}

static kiln_status judge_outputs(cage *c, const kiln_reference *reference) {
    size_t size = KILN_MAX((size_t)outputs_bytes(c), 1);
    char *outputs = mmap(NULL, size, PROT_READ, MAP_SHARED, c->outputs_fd, 0);
    if (outputs == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "mapping the outputs: %s", strerror(errno));
    judge_kernels(c, outputs, reference);
    munmap(outputs, size);
    return NULL;
}

/* On a thread of the pool: nobody else touches this cage meanwhile. */
static void judge(void *context) {
    cage *c = context;
    if (c->death || c->decided) return;
    kiln_mapping file = {0};
    kiln_reference reference;
    kiln_status st = NULL;
    if (c->executor->checked) {
        st = kiln_file_map(c->reference_path, &file);
        if (!st) st = kiln_reference_decode((kiln_str){file.data, file.size}, &reference);
    }
    if (!st) st = judge_outputs(c, c->executor->checked ? &reference : NULL);
    if (st)
        decide_status(c, KILN_OUTCOME_INFRA, KILN_BLAME_INFRA,
                      kiln_status_note(st, "judging the outputs"));
    kiln_file_unmap(&file);
}

static void deliver(void *context) {
    cage *c = context;
    if (c->owner) {
        cage **at = &c->owner->first;
        while (*at != c) at = &(*at)->next;
        *at = c->next;
        const kiln_cage_options *options = &c->owner->options;
        if (c->death)
            options->handler->died(options->context, c->slot, c->run, c->death);
        else
            options->handler->finished(options->context, c->slot, c->run, &c->result);
    }
    free_cage(c);
}

static void end_run(cage *c) {
    const kiln_cage_options *options = &c->owner->options;
    clear_child(c);
    c->result.phase = c->phase;
    c->result.peak_flops = c->peak_flops * c->worker_count;
    c->result.after = kiln_board_read_env(options->core[0], &c->arena);
    c->result.out_of_band = kiln_drift_is_out(c->result.drift, &c->result.before, &c->result.after);
    c->roofline_flops = c->owner->peak_flops * c->worker_count;
    c->judging = true;
    kiln_loop_work(options->loop, judge, deliver, c);
}

static const char *describe_death(cage *c) {
    const char *phase = kiln_phase_name(c->phase);
    if (c->broke_rules)
        return kiln_arena_printf(&c->arena, "the child broke its protocol in phase %s", phase);
    if (c->exit.signal == SIGSYS)
        return kiln_arena_printf(
            &c->arena, "signal %d (%s) in phase %s: a system call that kernels may not make",
            c->exit.signal, strsignal(c->exit.signal), phase);
    if (c->exit.signal)
        return kiln_arena_printf(&c->arena, "signal %d (%s) in phase %s", c->exit.signal,
                                 strsignal(c->exit.signal), phase);
    return kiln_arena_printf(&c->arena, "exit code %d in phase %s", c->exit.code, phase);
}

/* What the child's last words mean. */
static void read_last_note(cage *c) {
    static const struct {
        kiln_outcome outcome;
        const char *text;
    } failure[] = {
        [KILN_RAN_ERROR] = {KILN_OUTCOME_CRASH, "the kernel returned an error"},
        [KILN_RAN_STRAY] = {KILN_OUTCOME_CRASH, "the kernel wrote outside of its arguments"},
        [KILN_RAN_STALE] = {KILN_OUTCOME_WRONG_RESULT,
                            "a timed call left an element of an output as it was before"},
    };
    switch ((kiln_inmate_said)c->note.said) {
    case KILN_INMATE_REFUSED:
        if (c->note.code == KILN_FAILED_PRECONDITION || c->note.code == KILN_RESOURCE_EXHAUSTED)
            decide(c, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, c->note.text);
        else
            decide(c, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE, c->note.text);
        break;
    case KILN_INMATE_FAILED:
        decide(c, failure[c->note.code].outcome, KILN_BLAME_CANDIDATE, failure[c->note.code].text);
        break;
    case KILN_INMATE_MEASURED:
    case KILN_INMATE_PHASE: break;
    }
}

/* The process has ended; the run has when its whole group has. */
static void verify_gone(void *context) {
    cage *c = context;
    if (!group_is_gone(c)) {
        kill(-c->group, SIGKILL);
        kiln_timer_start(c->retry, GROUP_RETRY_NS);
        return;
    }
    if (c->has_last_note && !c->broke_rules && c->exit.signal == 0 && c->exit.code == 0)
        read_last_note(c);
    else
        c->death = describe_death(c);
    end_run(c);
    /* The next one may start while this one is judged. */
    c->owner->options.handler->vacated(c->owner->options.context, c->slot, c->run);
}

/* ---- Notes ---- */

static uint64_t *phase_time(kiln_msg_phases *times, kiln_phase phase) {
    switch (phase) {
    case KILN_PHASE_FETCH: return &times->fetch;
    case KILN_PHASE_LOAD: return &times->load;
    case KILN_PHASE_WARM: return &times->warm;
    case KILN_PHASE_RUN: return &times->run;
    case KILN_PHASE_CHECK: return &times->check;
    case KILN_PHASE_NONE:
    case KILN_PHASE_COUNT: break;
    }
    return NULL;
}

static void leave_phase(cage *c) {
    uint64_t now = kiln_loop_now_ns(c->owner->options.loop);
    uint64_t *time = phase_time(&c->result.times_ns, c->phase);
    if (time) *time = now - c->entered_ns;
    c->entered_ns = now;
}

/* Whether a child that keeps to the protocol can say this now. */
static bool note_is_due(const cage *c, const kiln_inmate_note *note) {
    if (note->magic != KILN_INMATE_MAGIC || c->has_last_note ||
        !memchr(note->text, 0, sizeof note->text))
        return false;
    switch ((kiln_inmate_said)note->said) {
    case KILN_INMATE_PHASE:
        /* One after the other, from LOAD on. */
        return note->phase <= KILN_PHASE_CHECK &&
               note->phase == (c->phase == KILN_PHASE_NONE ? KILN_PHASE_LOAD : c->phase + 1U);
    case KILN_INMATE_REFUSED: return c->phase == KILN_PHASE_LOAD;
    case KILN_INMATE_FAILED:
        return c->phase > KILN_PHASE_LOAD && note->code >= KILN_RAN_ERROR &&
               note->code <= KILN_RAN_STALE;
    case KILN_INMATE_MEASURED:
        return c->phase == KILN_PHASE_CHECK && note->kernel == c->measured_count;
    }
    return false;
}

/* What the child says about its core before candidate code runs: the roofline, and the drift. */
static void take_peak(cage *c, double peak_flops) {
    c->peak_flops = peak_flops;
    if (!(peak_flops > 0)) return; /* a processor without that kernel */
    c->owner->peak_flops = KILN_MAX(c->owner->peak_flops, peak_flops);
    c->result.drift = kiln_drift_take(&c->owner->drift, peak_flops);
}

static void take_note(cage *c, const kiln_inmate_note *note) {
    c->note = *note;
    if (note->said == KILN_INMATE_MEASURED) {
        c->kernel[c->measured_count++].timing = note->timing;
        if (c->measured_count < c->kernel_count) return;
    }
    leave_phase(c);
    if (note->said != KILN_INMATE_PHASE) {
        c->has_last_note = true;
        return;
    }
    c->phase = (kiln_phase)note->phase;
    if (c->phase == KILN_PHASE_WARM) take_peak(c, note->peak_flops);
    c->owner->options.handler->phase(c->owner->options.context, c->slot, c->run, c->phase);
}

/* Reads what there is. False when no more can come. */
static bool read_notes(cage *c) {
    kiln_inmate_note note;
    while (!c->broke_rules) {
        kiln_inmate_got got = kiln_inmate_read_note(c->child.in_fd, &note);
        if (got == KILN_INMATE_GOT_NOTHING) return true;
        if (got == KILN_INMATE_GOT_END) return false;
        c->broke_rules = got == KILN_INMATE_GOT_RUBBISH || !note_is_due(c, &note);
        if (!c->broke_rules) take_note(c, &note);
    }
    kill(-c->group, SIGKILL);
    return false;
}

static void on_note(void *context, unsigned ready_for) {
    (void)ready_for;
    cage *c = context;
    /* The end of a socket is readable for ever; the exit watch takes over. */
    if (!read_notes(c)) kiln_watch_set(c->note_watch, 0);
}

static void on_exit(void *context, unsigned ready_for) {
    (void)ready_for;
    cage *c = context;
    if (!kiln_child_ended(&c->child, &c->exit)) return;
    kiln_watch_set(c->exit_watch, 0);
    kiln_watch_set(c->note_watch, 0);
    read_notes(c);
    verify_gone(c);
}

/* ---- The beginning of a run ---- */

/* Memory for the outputs that the child can fill but not resize under us. */
static kiln_status create_outputs(cage *c) {
    for (uint32_t i = 0; i < c->kernel_count; i++)
        c->kernel[i].output_bytes = kiln_executor_output_bytes(&c->kernel[i].artefact.manifest);
    c->outputs_fd = memfd_create("kiln-outputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (c->outputs_fd < 0 || ftruncate(c->outputs_fd, (off_t)outputs_bytes(c)) != 0 ||
        fcntl(c->outputs_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "memory for the outputs: %s", strerror(errno));
    return NULL;
}

static kiln_status create_folder(cage *c) {
    c->folder = kiln_arena_printf(&c->arena, "%s/run-%llu", c->owner->options.folder,
                                  (unsigned long long)c->run);
    kiln_status st = kiln_folder_create(c->folder, 0700);
    if (st) return st;
    c->folder_fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->folder_fd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: %s", c->folder, strerror(errno));
    /* Only root can and needs to give it to the child's user. */
    if (geteuid() == 0 && fchown(c->folder_fd, KILN_SANDBOX_USER, KILN_SANDBOX_USER) != 0)
        return KILN_ERROR(PERMISSION_DENIED, "%s: %s", c->folder, strerror(errno));
    return NULL;
}

/* Whether its sizes can be computed with. */
static kiln_status check_shapes(const kiln_manifest *manifest) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        kiln_shape physical =
            kiln_layout_physical(&manifest->arg[i].layout, &manifest->arg[i].shape);
        size_t bytes = 0;
        st = kiln_shape_bytes(&physical, manifest->arg[i].dtype, &bytes);
    }
    return st;
}

/* Decodes an artefact and finds who runs it; a bad one is the candidate's fault. */
static bool read_artefact(cage *c, kernel *k) {
    kiln_status st = kiln_file_map(k->path, &k->file);
    if (st) {
        decide_status(c, KILN_OUTCOME_INFRA, KILN_BLAME_INFRA, st);
        return false;
    }
    st = kiln_artefact_decode((kiln_str){k->file.data, k->file.size}, &c->arena, &k->artefact);
    if (!st) st = check_shapes(&k->artefact.manifest);
    const kiln_executor *only = c->owner->options.executor;
    const kiln_executor *executor = only ? only
                                    : st ? NULL
                                         : kiln_executor_for(k->artefact.manifest.payload_kind);
    if (!st && !executor)
        st = KILN_ERROR(UNIMPLEMENTED, "this board has no executor for payloads of kind %d",
                        (int)k->artefact.manifest.payload_kind);
    if (!st && c->executor && c->executor != executor)
        st = KILN_ERROR(INVALID_ARGUMENT, "rivals that need different executors");
    if (st) decide_status(c, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE, st);
    c->executor = executor;
    return !st;
}

static bool read_artefacts(cage *c) {
    uint32_t threads = 1;
    for (uint32_t i = 0; i < c->kernel_count; i++) {
        if (!read_artefact(c, &c->kernel[i])) return false;
        threads = KILN_MAX(threads, c->kernel[i].artefact.manifest.threads_max);
    }
    c->worker_count = KILN_MAX(KILN_MIN(threads, c->owner->options.core_count), 1);
    return true;
}

static kiln_status open_artefacts(const cage *c, int *fd) {
    for (uint32_t i = 0; i < c->kernel_count; i++) {
        fd[i] = open(c->kernel[i].path, O_RDONLY | O_CLOEXEC);
        if (fd[i] < 0) return KILN_ERROR(NOT_FOUND, "%s: %s", c->kernel[i].path, strerror(errno));
    }
    return NULL;
}

static kiln_status send_order(cage *c, const kiln_msg_trial *trial) {
    const kiln_cage_options *options = &c->owner->options;
    const kiln_msg_phases *deadline = &trial->deadlines_ms;
    kiln_inmate_order order = {
        .magic = KILN_INMATE_MAGIC,
        .core_count = KILN_MIN(options->core_count, KILN_EXECUTOR_CORES_MAX),
        .kernel_count = c->kernel_count,
        .seed = trial->seed,
        /* A second fence behind the deadlines, for a parent that is stopped or dead. */
        .cpu_seconds =
            (KILN_CAGE_CPU_S + (deadline->warm + deadline->run + deadline->check) / 1000) *
            c->worker_count,
        .race_ns = c->race_ns,
        .policy = trial->policy,
    };
    while (kiln_executor_at(order.executor) != c->executor) order.executor++;
    memcpy(order.core, options->core, order.core_count * sizeof order.core[0]);
    for (uint32_t i = 0; i < c->kernel_count; i++)
        order.kernel[i] = (kiln_inmate_kernel){c->kernel[i].file.size, c->kernel[i].output_bytes};

    int fd[KILN_INMATE_FDS_MAX];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fd); i++) fd[i] = -1;
    fd[KILN_INMATE_OUTPUTS] = c->outputs_fd;
    fd[KILN_INMATE_FOLDER] = c->folder_fd;
    kiln_status st = open_artefacts(c, fd + KILN_INMATE_ARTEFACT);
    if (!st) st = kiln_inmate_send_order(c->child.in_fd, &order, fd);
    for (uint32_t i = KILN_INMATE_ARTEFACT; i < KILN_ARRAY_COUNT(fd); i++) close_fd(&fd[i]);
    return st;
}

static kiln_status launch(cage *c, const kiln_msg_trial *trial) {
    kiln_loop *loop = c->owner->options.loop;
    kiln_status st = create_outputs(c);
    if (!st) st = create_folder(c);
    if (!st) st = take_child(c->owner, &c->child);
    if (st) return st;
    c->group = c->child.pid;
    c->pidfd = pidfd_open(c->child.pid, 0);
    if (c->pidfd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "watching the child: %s", strerror(errno));
    c->started_ns = c->entered_ns = kiln_loop_now_ns(loop);
    st = send_order(c, trial);
    if (st) return st;
    c->retry = kiln_timer_create(loop, verify_gone, c);
    c->note_watch = kiln_watch_create(loop, c->child.in_fd, KILN_WATCH_READ, on_note, c);
    c->exit_watch = kiln_watch_create(loop, c->pidfd, KILN_WATCH_READ, on_exit, c);
    /* The next spare, while this one works. When it fails the next trial starts its own, or says
     * why not. */
    kiln_status_free(start_child(c->owner, &c->owner->spare));
    return NULL;
}

static void copy_request(cage *c, const kiln_msg_trial *trial, const kiln_cage_blobs *blobs) {
    c->policy = trial->policy;
    c->race_ns = trial->race_ns;
    c->reference_path = kiln_str_dup(&c->arena, kiln_str_from(blobs->reference));
    c->kernel_count = blobs->artefact_count;
    c->kernel = KILN_ARENA_ARRAY(&c->arena, kernel, c->kernel_count);
    for (uint32_t i = 0; i < c->kernel_count; i++)
        c->kernel[i].path = kiln_str_dup(&c->arena, kiln_str_from(blobs->artefact[i]));
}

void kiln_cages_start(kiln_cages *cages, uint32_t slot, uint64_t run, const kiln_msg_trial *trial,
                      const kiln_cage_blobs *blobs) {
    KILN_CHECK(blobs->artefact_count >= 1);
    KILN_CHECK(blobs->artefact_count <= KILN_INMATE_KERNELS_MAX);
    cage *c = kiln_alloc(sizeof *c);
    *c = (cage){.next = cages->first,
                .owner = cages,
                .slot = slot,
                .run = run,
                .pidfd = -1,
                .outputs_fd = -1,
                .folder_fd = -1};
    cages->first = c;
    kiln_arena_init(&c->arena, 0);
    copy_request(c, trial, blobs);
    c->result.before = kiln_board_read_env(cages->options.core[0], &c->arena);
    if (read_artefacts(c)) {
        kiln_status st = launch(c, trial);
        if (!st) return;
        decide_status(c, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD,
                      kiln_status_note(st, "starting a measurement"));
    }
    end_run(c);
}

void kiln_cages_kill(kiln_cages *cages, uint32_t slot, uint64_t run) {
    for (cage *c = cages->first; c; c = c->next)
        if (c->slot == slot && c->run == run && !c->judging) kill(-c->group, SIGKILL);
}

/* ---- All of them ---- */

kiln_status kiln_cages_create(const kiln_cage_options *options, kiln_cages **out_cages) {
    KILN_CHECK(options->core_count >= 1);
    /* Folders of children of a server that was killed. */
    kiln_status st =
        kiln_file_is_folder(options->folder) ? kiln_folder_remove(options->folder) : NULL;
    if (!st) st = kiln_folder_create(options->folder, 0700);
    if (st) return kiln_status_note(st, "folder for measurements");
    kiln_cages *cages = kiln_alloc(sizeof *cages);
    *cages = (kiln_cages){.options = *options, .peak_flops = options->peak_flops};
    st = start_child(cages, &cages->spare);
    if (st) {
        kiln_cages_destroy(cages);
        return kiln_status_note(st, "starting the first contained child");
    }
    *out_cages = cages;
    return NULL;
}

void kiln_cages_destroy(kiln_cages *cages) {
    if (!cages) return;
    for (cage *c = cages->first, *next; c; c = next) {
        next = c->next;
        c->owner = NULL;
        if (!c->judging) free_cage(c); /* else the pool's completion does */
    }
    kiln_child_destroy(&cages->spare);
    kiln_status_free(kiln_folder_remove(cages->options.folder)); /* the next start tries again */
    kiln_free(cages);
}
