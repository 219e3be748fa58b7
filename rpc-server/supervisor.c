#include "rpc-server/supervisor.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "base/file.h"
#include "deploy/runtime/device.h"
#include "rpc-server/board.h"
#include "rpc-server/child_process.h"
#include "rpc-server/child_protocol.h"
#include "rpc-server/child_report.h"
#include "rpc-server/drift.h"
#include "rpc-server/kernel_set.h"
#include "rpc-server/sandbox.h"

/* Between two looks at a group that has not ended. */
#define GROUP_RETRY_NS UINT64_C(10000000)
/* The same for a killed child that was idle, which ends soon. */
#define FORMER_RETRY_NS UINT64_C(1000000)

typedef struct supervised_run {
    struct supervised_run *next;
    kiln_supervisor *owner; /* NULL: the supervisor was destroyed */
    uint32_t slot;
    uint64_t run;
    kiln_arena arena;

    /* The order. */
    kiln_msg_policy policy;
    double race_ns;
    bool waits;
    kiln_kernel_set set;
    uint32_t core_count, core[KILN_EXECUTOR_CORES_MAX]; /* that it may use, the timing core first */
    const char *reference_path;
    kiln_blob_store_options blobs;

    kiln_child_order order;
    kiln_child_process process;
    uint32_t served; /* trials that the child served before */
    kiln_watch *exit_watch, *note_watch;
    kiln_timer *retry;
    /* The slot's kept child, which must end before this run's child starts. */
    kiln_child_process former;

    /* The observations. */
    kiln_child_report report;
    double peak_flops;                  /* of one core, reported before candidate code ran */
    double roofline_flops;              /* best of this machine, all cores of the kernel */
    const kiln_gpu *gpu;                /* whose peak replaces roofline_flops */
    double gpu_flops[KILN_DTYPE_COUNT]; /* measured on it */
    kiln_child_exit exit;
    kiln_ending ending;
    bool is_served; /* its trial is unloaded; the child lives on */
    bool is_killed; /* killed before its child started */
    bool judging;   /* owned by a thread of the pool */
    kiln_msg_trial_result result;
} supervised_run;

/* A child that a slot keeps for the next trial. */
typedef struct kept_child {
    kiln_child_process process; /* number 0: none */
    const kiln_executor *executor;
    kiln_hash128 reference; /* hash of the reference's path */
    uint32_t served;
} kept_child;

struct kiln_supervisor {
    kiln_supervisor_options options;
    double peak_flops; /* the best seen on this machine */
    /* The same of the slot's device by operand type; 0: not measured. */
    double gpu_flops[KILN_SERVER_SLOTS_MAX][KILN_DTYPE_COUNT];
    kept_child kept[KILN_SERVER_SLOTS_MAX];
    /* State of the slot's device after its last trial, if it was read. */
    kiln_device_reading reading[KILN_SERVER_SLOTS_MAX];
    bool is_read[KILN_SERVER_SLOTS_MAX];
    kiln_drift drift[KILN_SERVER_SLOTS_MAX];
    uint64_t memory_max; /* of a run's outputs, and of a child */
    kiln_child_pool pool;
    supervised_run *first;
};

/* Frees what belongs to the child. Its outputs in memory stay for the verdict. */
static void clear_child(supervised_run *c) {
    kiln_watch_destroy(c->note_watch);
    kiln_watch_destroy(c->exit_watch);
    kiln_timer_destroy(c->retry);
    c->note_watch = c->exit_watch = NULL;
    c->retry = NULL;
    kiln_child_process_release(&c->process);
    kiln_child_process_release(&c->former);
}

static uint32_t measuring_core(const supervised_run *c) {
    return c->owner->options.slots->slot[c->slot].core[0];
}

static void free_run(supervised_run *c) {
    clear_child(c);
    kiln_kernel_set_close(&c->set);
    kiln_arena_deinit(&c->arena);
    kiln_free(c);
}

/* Identifies the reference by its path, which names its content. */
static kiln_hash128 reference_of(const supervised_run *c) {
    return kiln_hash128_of(c->reference_path, strlen(c->reference_path));
}

/* The executor of the run's child; NULL: none. */
static const kiln_executor *executor_of(const supervised_run *c) {
    const kiln_supervisor_options *options = &c->owner->options;
    if (c->set.executor || options->executor) /* a module has none */
        return c->set.executor ? c->set.executor : options->executor;
    return kiln_executor_for(kiln_payload_of(options->slots->slot[c->slot].kind));
}

/* The GPU of a slot; NULL if its peak is that of the processor's cores. */
static const kiln_gpu *gpu_in(const kiln_slots *slots, uint32_t slot) {
    const kiln_target *target = slots->slot[slot].target;
    return target && !target->emulated ? target->gpu : NULL;
}

static const kiln_gpu *gpu_of(const supervised_run *c) {
    return gpu_in(c->owner->options.slots, c->slot);
}

/* ---- The end of a run ---- */

static void decide(supervised_run *c, kiln_outcome outcome, kiln_status status) {
    c->ending = (kiln_ending){KILN_ENDED_DECIDED, outcome, kiln_outcome_blame(outcome),
                              kiln_arena_printf(&c->arena, "%s", kiln_status_text(status))};
    kiln_status_free(status);
}

/* Runs on a thread of the pool, which owns the run meanwhile. */
static void judge(void *context) {
    supervised_run *c = context;
    if (c->ending.how == KILN_ENDED_MEASURED && c->set.is_module) {
        kiln_status st = kiln_kernel_set_keep(&c->set, &c->blobs, &c->result.outputs);
        if (st) decide(c, KILN_OUTCOME_INFRA, st);
    } else if (c->ending.how == KILN_ENDED_MEASURED) {
        const kiln_evidence evidence = {
            .policy = &c->policy,
            .race_ns = c->race_ns,
            .elapsed_ns = c->report.since_ns - c->report.began_ns,
            .peak_flops = c->roofline_flops,
            .gpu = c->gpu,
            .gpu_flops = c->gpu_flops,
        };
        kiln_status st =
            kiln_kernel_set_judge(&c->set, c->reference_path, &evidence, &c->arena, &c->result);
        if (st) decide(c, KILN_OUTCOME_INFRA, st);
    }
    if (c->ending.how != KILN_ENDED_DECIDED) return;
    c->result.outcome = c->ending.outcome;
    c->result.blame = c->ending.blame;
    c->result.text = kiln_str_from(c->ending.text);
}

static void deliver(void *context) {
    supervised_run *c = context;
    kiln_fail_pass(KILN_FAIL_CHILD_DELIVER);
    if (c->owner) {
        supervised_run **at = &c->owner->first;
        while (*at != c) at = &(*at)->next;
        *at = c->next;
        const kiln_supervisor_options *options = &c->owner->options;
        if (c->ending.how == KILN_ENDED_DIED)
            options->handler->died(options->context, c->slot, c->run, c->ending.text);
        else
            options->handler->finished(options->context, c->slot, c->run, &c->result);
    }
    free_run(c);
}

static double gpu_peak(const supervised_run *c) {
    return c->set.is_module || c->set.count == 0
               ? kiln_gpu_peak_flops(gpu_of(c), KILN_DTYPE_NONE)
               : kiln_verdict_gpu_peak(gpu_of(c), c->gpu_flops,
                                       &c->set.kernel[0].artefact.manifest);
}

/* Replaces the core's state by the device's. */
static void put_reading(const kiln_device_reading *r, kiln_msg_env *env) {
    env->frequency_khz = r->clock_khz;
    env->temperature_mc = r->temperature_mc;
    env->throttle_bits = r->throttle_bits;
    env->throttle_count = 0;
    env->memory_khz = r->memory_clock_khz;
    env->power_mw = r->power_mw;
    env->memory_used_bytes = r->memory_used_bytes;
}

/* The peak of a simulated device, which is that of the artefact's target. */
static double counted_peak(supervised_run *c) {
    kiln_target target;
    kiln_status st =
        kiln_target_parse(c->set.kernel[0].artefact.manifest.target, &c->arena, &target);
    const double peak = st ? 0 : target.peak_flops;
    kiln_status_free(st);
    return peak;
}

/* Peak of all cores or the device that the trial may use; 0: unknown. */
static double peak_of(supervised_run *c) {
    const kiln_device_row *device =
        c->set.is_module || c->set.count == 0
            ? NULL
            : kiln_device_row_for(c->set.kernel[0].artefact.manifest.payload_kind);
    if (device && device->counts) return counted_peak(c);
    return gpu_of(c) ? gpu_peak(c) : c->peak_flops * c->core_count;
}

static void end_run(supervised_run *c) {
    const kiln_supervisor_options *options = &c->owner->options;
    clear_child(c);
    memcpy(c->gpu_flops, c->owner->gpu_flops[c->slot], sizeof c->gpu_flops);
    c->result.phase = c->report.phase;
    c->result.times_ns = c->report.times_ns;
    c->result.peak_flops = peak_of(c);
    c->result.after = kiln_board_read_env(measuring_core(c), &c->arena);
    if (c->report.note.is_read) {
        c->owner->reading[c->slot] = c->report.note.reading;
        c->owner->is_read[c->slot] = true;
        put_reading(&c->report.note.reading, &c->result.after);
    }
    const kiln_drift_ratio drift = kiln_kernel_set_drift(&c->set, &c->result.again);
    c->result.drift = drift.arithmetic;
    c->result.drift_memory = drift.memory;
    c->result.out_of_band = kiln_drift_is_out(&drift, &c->owner->drift[c->slot].norm,
                                              &c->result.before, &c->result.after);
    c->gpu = gpu_of(c);
    c->roofline_flops = c->owner->peak_flops * c->core_count;
    c->judging = true;
    kiln_loop_work(options->loop, judge, deliver, c);
}

/* Keeps the child for the next trial. */
static void keep_child(supervised_run *c) {
    kept_child *k = &c->owner->kept[c->slot];
    *k = (kept_child){c->process, c->set.executor, reference_of(c), c->served + 1};
    c->process = KILN_CHILD_PROCESS_NONE;
    c->ending = kiln_child_report_ending(&c->report, &(kiln_child_exit){0}, &c->arena);
}

/* The child reported and unloaded its trial. After its last trial the run ends when the child does.
 */
static void end_served(supervised_run *c) {
    if (c->served + 1 >= KILN_SUPERVISOR_SERVES_MAX) {
        kiln_watch_set(c->note_watch, 0);
        kiln_child_process_kill(&c->process);
        return;
    }
    keep_child(c);
    end_run(c);
    c->owner->options.handler->vacated(c->owner->options.context, c->slot, c->run);
}

/* The child's process has ended. Waits for its whole group, then ends the run. */
static void verify_gone(void *context) {
    supervised_run *c = context;
    if (!kiln_child_process_is_gone(&c->process)) {
        kiln_child_process_kill(&c->process);
        kiln_timer_start(c->retry, GROUP_RETRY_NS);
        return;
    }
    if (c->is_served) c->exit = (kiln_child_exit){0}; /* it was killed after its last trial */
    c->ending = kiln_child_report_ending(&c->report, &c->exit, &c->arena);
    if (c->served > 0 && c->ending.how == KILN_ENDED_DIED && c->report.phase <= KILN_PHASE_LOAD) {
        /* No code of this candidate ran. */
        decide(c, KILN_OUTCOME_INFRA,
               KILN_ERROR(UNAVAILABLE, "the child had served %u trials: %s", c->served,
                          c->ending.text));
        c->ending.blame = KILN_BLAME_BOARD;
    }
    kiln_child_pool_refill(&c->owner->pool); /* if the first attempt failed */
    end_run(c);
    /* The next trial may start while this one is judged. */
    c->owner->options.handler->vacated(c->owner->options.context, c->slot, c->run);
}

/* ---- Notes ---- */

/* Whether a round is plausible. A child may report anything. */
static bool is_whole(const kiln_reference_kernel_round *round) {
    for (uint32_t i = 0; i < KILN_REFERENCE_KERNEL_STATE_COUNT; i++)
        if (!(round->reading[i].arithmetic_ns > 0) || !(round->reading[i].memory_ns > 0))
            return false;
    return true;
}

/* Takes the child's reading of its device. Peaks count only from a child's first trial, because
 * later ones come after candidate code. A module's child has read its core only. */
static void take_device(supervised_run *c, const kiln_child_note *note) {
    double *best = c->owner->gpu_flops[c->slot];
    if (c->set.is_module) return;
    for (uint32_t i = 0; c->served == 0 && i < KILN_DTYPE_COUNT; i++)
        if (isfinite(note->round.dtype_flops[i]))
            best[i] = KILN_MAX(best[i], note->round.dtype_flops[i]);
    if (is_whole(&note->round)) kiln_drift_take(&c->owner->drift[c->slot], &note->round);
}

/* Takes the child's reading of its core before candidate code runs: its peak and its reference
 * times. */
static void take_core(supervised_run *c, const kiln_child_note *note) {
    /* Under an emulator the measured peak is no bound. */
    c->peak_flops = c->owner->options.emulator ? 0 : note->round.peak_flops;
    c->owner->peak_flops = KILN_MAX(c->owner->peak_flops, c->peak_flops);
    if (is_whole(&note->round)) kiln_drift_take(&c->owner->drift[c->slot], &note->round);
}

static void take_note(supervised_run *c, const kiln_child_note *note) {
    const kiln_supervisor_options *options = &c->owner->options;
    switch ((kiln_child_said)note->said) {
    case KILN_CHILD_LOADED: options->handler->loaded(options->context, c->slot, c->run); break;
    case KILN_CHILD_PHASE:
        if (note->phase == KILN_PHASE_WARM) {
            (gpu_of(c) ? take_device : take_core)(c, note);
            if (note->is_read) put_reading(&note->reading, &c->result.before);
        }
        options->handler->phase(options->context, c->slot, c->run, (kiln_phase)note->phase);
        break;
    case KILN_CHILD_MEASURED: c->set.kernel[note->kernel].timing = note->timing; break;
    case KILN_CHILD_READY:
    case KILN_CHILD_DEVICE:
    case KILN_CHILD_REFUSED:
    case KILN_CHILD_FAILED: break;
    }
}

/* Whether a kept child reports that it has unloaded the trial. */
static bool is_ready_again(const supervised_run *c, const kiln_child_note *note) {
    return c->report.is_told && !c->report.broke_rules && !c->is_served && !c->set.is_module &&
           c->set.executor->lifetime == KILN_LIFETIME_FAULT && note->magic == KILN_CHILD_MAGIC &&
           note->said == KILN_CHILD_READY;
}

/* Reads all notes that have arrived. False if no more can come. */
static bool read_notes(supervised_run *c) {
    kiln_child_note note;
    for (;;) {
        kiln_child_got got = kiln_child_read_note(c->process.socket, &note);
        if (got == KILN_CHILD_GOT_NOTHING) return true;
        if (got == KILN_CHILD_GOT_END) return false;
        if (got == KILN_CHILD_GOT_NOTE && is_ready_again(c, &note)) {
            c->is_served = true;
            return true;
        }
        if (got == KILN_CHILD_GOT_RUBBISH) c->report.broke_rules = true;
        if (!kiln_child_report_take(&c->report, &note, kiln_loop_now_ns(c->owner->options.loop)))
            break;
        take_note(c, &note);
    }
    kiln_child_process_kill(&c->process);
    return false;
}

static void on_note(void *context, unsigned ready_for) {
    (void)ready_for;
    supervised_run *c = context;
    /* A closed socket stays readable, so stop watching it; the exit watch remains. */
    if (!read_notes(c))
        kiln_watch_set(c->note_watch, 0);
    else if (c->is_served)
        end_served(c);
}

static void on_exit(void *context, unsigned ready_for) {
    (void)ready_for;
    supervised_run *c = context;
    if (!kiln_child_process_ended(&c->process, &c->exit)) return;
    kiln_fail_pass(KILN_FAIL_CHILD_ENDED);
    kiln_watch_set(c->exit_watch, 0);
    kiln_watch_set(c->note_watch, 0);
    read_notes(c);
    verify_gone(c);
}

/* ---- The beginning of a run ---- */

/* Reads the artefacts; a bad one is the candidate's fault. */
static bool read_artefacts(supervised_run *c, const kiln_msg_module_run *module,
                           const kiln_supervisor_blobs *blobs) {
    const kiln_supervisor_options *options = &c->owner->options;
    kiln_outcome outcome = KILN_OUTCOME_INFRA;
    kiln_status st = module->threads > 0
                         ? kiln_kernel_set_open_module(blobs->artefact[0], blobs->reference, module,
                                                       &c->arena, &c->set)
                         : kiln_kernel_set_open(
                               blobs->artefact, blobs->artefact_count, options->executor,
                               options->slots->slot[c->slot].kind, &c->arena, &c->set, &outcome);
    if (st)
        decide(c, outcome, st);
    else
        c->core_count = kiln_slots_cores(options->slots, c->slot, c->set.threads, c->core);
    return c->core_count > 0;
}

static kiln_child_module module_of(const supervised_run *c, const kiln_msg_module_run *how) {
    kiln_child_module module = {0};
    if (!c->set.is_module) return module;
    module.is_asked = 1;
    module.bench = how->bench;
    module.size = (int64_t)how->size;
    module.input_bytes = c->set.kernel[1].file.size;
    module.input_count = KILN_MIN(how->samples.count, KILN_CHILD_INPUTS_MAX);
    for (uint32_t i = 0; i < module.input_count; i++) module.samples[i] = how->samples.item[i];
    return module;
}

static kiln_child_order order_of(const supervised_run *c, const kiln_msg_trial *trial) {
    const kiln_msg_phases *deadline = &trial->deadlines_ms;
    kiln_child_order order = {
        .magic = KILN_CHILD_MAGIC,
        .core_count = c->core_count,
        .waits = c->waits,
        .kernel_count = c->set.count,
        .module = module_of(c, &trial->module),
        .seed = trial->seed,
        .memory_bytes = c->owner->memory_max,
        .is_gpu = gpu_of(c) != NULL,
        .device = c->owner->options.slots->slot[c->slot].device,
        /* Also bounded here, in case the parent is stopped or dead at the deadline. */
        .cpu_seconds =
            (KILN_SUPERVISOR_CPU_S + (deadline->warm + deadline->run + deadline->check) / 1000) *
            c->core_count,
        .race_ns = c->race_ns,
        .policy = trial->policy,
        .norm = c->owner->drift[c->slot].norm,
    };
    while (c->set.executor && kiln_executor_at(order.executor) != c->set.executor) order.executor++;
    memcpy(order.core, c->core, c->core_count * sizeof order.core[0]);
    for (uint32_t i = 0; i < c->set.count; i++)
        order.kernel[i] =
            (kiln_child_kernel){c->set.kernel[i].file.size, c->set.kernel[i].output_bytes};
    return order;
}

static kiln_status send_order(supervised_run *c) {
    int fd[KILN_CHILD_FDS_MAX];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fd); i++) fd[i] = -1;
    fd[KILN_CHILD_OUTPUTS] = c->set.outputs_fd;
    /* Unused by a child with a file system of its own. */
    fd[KILN_CHILD_FOLDER] = c->process.folder_fd >= 0 ? c->process.folder_fd : c->set.outputs_fd;
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_ORDER);
    if (!st) st = kiln_kernel_set_open_files(&c->set, fd + KILN_CHILD_ARTEFACT);
    if (!st) st = kiln_child_send_order(c->process.socket, &c->order, fd);
    for (uint32_t i = KILN_CHILD_ARTEFACT; i < KILN_ARRAY_COUNT(fd); i++) kiln_fd_close(&fd[i]);
    return st;
}

/* Takes the slot's kept child, the spare, or a new one. */
static kiln_status take_child(supervised_run *c) {
    kept_child *k = &c->owner->kept[c->slot];
    if (k->process.child.number == 0)
        return kiln_child_process_take(&c->owner->pool, c->run, executor_of(c)->driver,
                                       &c->process);
    c->process = k->process;
    c->served = k->served;
    *k = (kept_child){.process = KILN_CHILD_PROCESS_NONE};
    return NULL;
}

static kiln_status launch(supervised_run *c) {
    kiln_loop *loop = c->owner->options.loop;
    kiln_status st = kiln_kernel_set_create_outputs(&c->set, c->owner->memory_max);
    if (!st) st = take_child(c);
    if (st) return st;
    kiln_child_process_keep_to(&c->process, c->core, c->core_count);
    kiln_child_report_open(&c->report, c->set.count, c->waits, kiln_loop_now_ns(loop));
    c->report.may_lose = gpu_of(c) != NULL;
    st = send_order(c);
    if (st) return st;
    kiln_fail_pass(KILN_FAIL_CHILD_STARTED);
    c->note_watch = kiln_watch_create(loop, c->process.socket, KILN_WATCH_READ, on_note, c);
    c->exit_watch = kiln_watch_create(loop, c->process.child.pidfd, KILN_WATCH_READ, on_exit, c);
    kiln_child_pool_refill(&c->owner->pool); /* while the child works */
    return NULL;
}

static void launch_or_end(supervised_run *c) {
    kiln_status st = launch(c);
    if (!st) {
        kiln_timer_destroy(c->retry);
        c->retry = kiln_timer_create(c->owner->options.loop, verify_gone, c);
        return;
    }
    decide(c, KILN_OUTCOME_INFRA, kiln_status_note(st, "starting a measurement"));
    c->ending.blame = KILN_BLAME_BOARD;
    end_run(c);
}

/* Whether the slot's kept child can serve this trial. */
static bool fits(const supervised_run *c, const kept_child *k) {
    const kiln_hash128 reference = reference_of(c);
    return !c->set.is_module && k->executor == c->set.executor &&
           k->reference.high == reference.high && k->reference.low == reference.low &&
           !kiln_child_process_has_ended(&k->process);
}

static void await_former(void *context) {
    supervised_run *c = context;
    kiln_child_exit ignored;
    (void)kiln_child_process_ended(&c->former, &ignored);
    if (!kiln_child_process_is_gone(&c->former)) {
        kiln_child_process_kill(&c->former);
        kiln_timer_start(c->retry, FORMER_RETRY_NS);
        return;
    }
    kiln_child_process_release(&c->former);
    if (!c->is_killed) {
        launch_or_end(c);
        return;
    }
    c->ending = (kiln_ending){.how = KILN_ENDED_DIED, .text = "killed before it started"};
    end_run(c);
}

/* Starts the run. A kept child that cannot serve it is killed first. */
static void start(supervised_run *c) {
    kept_child *k = &c->owner->kept[c->slot];
    if (k->process.child.number == 0 || fits(c, k)) {
        launch_or_end(c);
        return;
    }
    c->former = k->process;
    *k = (kept_child){.process = KILN_CHILD_PROCESS_NONE};
    kiln_child_process_kill(&c->former);
    c->retry = kiln_timer_create(c->owner->options.loop, await_former, c);
    kiln_timer_start(c->retry, 0);
}

void kiln_supervisor_start(kiln_supervisor *supervisor, uint32_t slot, uint64_t run,
                           const kiln_msg_trial *trial, const kiln_supervisor_blobs *blobs) {
    KILN_CHECK(blobs->artefact_count >= 1);
    KILN_CHECK(blobs->artefact_count <= KILN_CHILD_KERNELS_MAX);
    KILN_CHECK(slot < supervisor->options.slots->count);
    supervised_run *c = kiln_alloc(sizeof *c);
    *c = (supervised_run){.next = supervisor->first,
                          .owner = supervisor,
                          .slot = slot,
                          .run = run,
                          .policy = trial->policy,
                          .race_ns = trial->race_ns,
                          .waits = blobs->waits,
                          .set = {.outputs_fd = -1},
                          .process = KILN_CHILD_PROCESS_NONE,
                          .former = KILN_CHILD_PROCESS_NONE};
    supervisor->first = c;
    kiln_arena_init(&c->arena, 0);
    c->reference_path = kiln_str_dup(&c->arena, kiln_str_from(blobs->reference));
    c->blobs = supervisor->options.blobs;
    c->blobs.folder = kiln_str_dup(&c->arena, kiln_str_from(c->blobs.folder));
    c->result.before = kiln_board_read_env(measuring_core(c), &c->arena);
    if (read_artefacts(c, &trial->module, blobs)) {
        c->order = order_of(c, trial);
        start(c);
    } else {
        end_run(c);
    }
}

/* NULL: the run has no child any more. */
static supervised_run *find_run(kiln_supervisor *supervisor, uint32_t slot, uint64_t run) {
    supervised_run *c = supervisor->first;
    while (c && (c->slot != slot || c->run != run)) c = c->next;
    return c && !c->judging ? c : NULL;
}

void kiln_supervisor_time(kiln_supervisor *supervisor, uint32_t slot, uint64_t run) {
    supervised_run *c = find_run(supervisor, slot, run);
    if (!c || !c->report.is_loaded || c->report.may_time) return;
    kiln_child_report_let_time(&c->report, kiln_loop_now_ns(supervisor->options.loop));
    kiln_status_free(kiln_child_let_time(
        c->process.socket)); /* a child that closed its socket ends, which on_exit sees */
}

void kiln_supervisor_kill(kiln_supervisor *supervisor, uint32_t slot, uint64_t run) {
    supervised_run *c = find_run(supervisor, slot, run);
    if (!c) return;
    c->is_killed = true;
    kiln_child_process_kill(&c->process);
}

/* ---- Life ---- */

/* Learns the usual times of each slot's core before the first trial. For a device the first trials
 * do that. */
static kiln_status learn_usual_times(kiln_supervisor *supervisor) {
    const kiln_slots *slots = supervisor->options.slots;
    kiln_reference_kernel_round round[KILN_DRIFT_START];
    kiln_status st = NULL;
    for (uint32_t slot = 0; !st && slot < slots->count; slot++) {
        if (gpu_in(slots, slot)) continue;
        st = kiln_reference_kernel_watch(slots->slot[slot].core[0], KILN_DRIFT_START, round);
        for (uint32_t i = 0; !st && i < KILN_DRIFT_START; i++)
            kiln_drift_take(&supervisor->drift[slot], &round[i]);
    }
    return st;
}

/* Opens the pool, which tries a child for each driver that a slot needs. */
static kiln_status open_pool(kiln_supervisor *supervisor) {
    const kiln_supervisor_options *options = &supervisor->options;
    const kiln_driver *driver[KILN_SERVER_SLOTS_MAX];
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < options->slots->count; slot++) {
        const kiln_executor *executor =
            options->executor ? options->executor
                              : kiln_executor_for(kiln_payload_of(options->slots->slot[slot].kind));
        if (executor && executor->driver) driver[count++] = executor->driver;
    }
    return kiln_child_pool_open(&supervisor->pool, driver, count);
}

kiln_status kiln_supervisor_create(const kiln_supervisor_options *options,
                                   kiln_supervisor **out_supervisor) {
    kiln_supervisor *supervisor = kiln_alloc(sizeof *supervisor);
    *supervisor = (kiln_supervisor){.options = *options,
                                    .peak_flops = options->peak_flops,
                                    .memory_max = kiln_slots_memory_share(options->slots->count),
                                    .pool = {.helper = options->helper, .folder = options->folder}};
    for (uint32_t slot = 0; slot < KILN_SERVER_SLOTS_MAX; slot++)
        supervisor->kept[slot].process = KILN_CHILD_PROCESS_NONE;
    kiln_status st = open_pool(supervisor);
    if (!st) st = learn_usual_times(supervisor);
    if (st) {
        kiln_supervisor_destroy(supervisor);
        return st;
    }
    *out_supervisor = supervisor;
    return NULL;
}

const kiln_reference_kernel_norm *kiln_supervisor_norm(const kiln_supervisor *supervisor,
                                                       uint32_t slot) {
    KILN_CHECK(slot < supervisor->options.slots->count);
    return &supervisor->drift[slot].norm;
}

void kiln_supervisor_put_reading(const kiln_supervisor *supervisor, uint32_t slot,
                                 kiln_msg_env *env) {
    KILN_CHECK(slot < supervisor->options.slots->count);
    if (supervisor->is_read[slot]) put_reading(&supervisor->reading[slot], env);
}

uint32_t kiln_supervisor_fences(const kiln_supervisor *supervisor) {
    return supervisor->pool.fences;
}

void kiln_supervisor_destroy(kiln_supervisor *supervisor) {
    if (!supervisor) return;
    for (supervised_run *c = supervisor->first, *next; c; c = next) {
        next = c->next;
        c->owner = NULL;
        if (!c->judging) free_run(c); /* else the pool's completion does */
    }
    for (uint32_t slot = 0; slot < KILN_SERVER_SLOTS_MAX; slot++)
        kiln_child_process_release(&supervisor->kept[slot].process);
    kiln_child_pool_close(&supervisor->pool);
    kiln_free(supervisor);
}
