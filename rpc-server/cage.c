#include "rpc-server/cage.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "rpc-server/account.h"
#include "rpc-server/board.h"
#include "rpc-server/drift.h"
#include "rpc-server/lot.h"
#include "rpc-server/sandbox.h"
#include "rpc-server/talk.h"
#include "rpc-server/ward.h"

/* Between two looks at a group that does not want to go. */
#define GROUP_RETRY_NS UINT64_C(10000000)

typedef struct cage {
    struct cage *next;
    kiln_cages *owner; /* NULL: nobody waits for the end any more */
    uint32_t slot;
    uint64_t run;
    kiln_arena arena;

    /* What was asked. */
    kiln_msg_policy policy;
    double race_ns;
    bool waits;
    kiln_lot lot;
    uint32_t core_count, core[KILN_EXECUTOR_CORES_MAX]; /* that it may use, the timed one first */
    const char *reference_path;
    kiln_blob_store_options blobs;

    kiln_ward ward;
    kiln_watch *exit_watch, *note_watch;
    kiln_timer *retry;

    /* What was seen. */
    kiln_account account;
    double peak_flops;     /* of one core, said before candidate code ran */
    double roofline_flops; /* best of this machine, all cores of the kernel */
    kiln_child_exit exit;
    kiln_ending ending;
    bool judging; /* on the pool: hands off */
    kiln_msg_trial_result result;
} cage;

struct kiln_cages {
    kiln_cage_options options;
    double peak_flops; /* best that was seen on this machine */
    kiln_drift drift[KILN_SERVER_SLOTS_MAX];
    uint64_t memory_max; /* of what a run leaves */
    kiln_wards wards;
    cage *first;
};

/* Everything that the child had goes; what it left in memory stays for the verdict. */
static void clear_child(cage *c) {
    kiln_watch_destroy(c->note_watch);
    kiln_watch_destroy(c->exit_watch);
    kiln_timer_destroy(c->retry);
    c->note_watch = c->exit_watch = NULL;
    c->retry = NULL;
    kiln_ward_release(&c->ward);
}

static uint32_t measuring_core(const cage *c) {
    return c->owner->options.slots->slot[c->slot].core[0];
}

static void free_cage(cage *c) {
    clear_child(c);
    kiln_lot_close(&c->lot);
    kiln_arena_deinit(&c->arena);
    kiln_free(c);
}

/* ---- The end of a run ---- */

static void decide(cage *c, kiln_outcome outcome, kiln_status status) {
    c->ending = (kiln_ending){KILN_ENDED_DECIDED, outcome, kiln_outcome_blame(outcome),
                              kiln_arena_printf(&c->arena, "%s", kiln_status_text(status))};
    kiln_status_free(status);
}

/* On a thread of the pool: nobody else touches this cage meanwhile. */
static void judge(void *context) {
    cage *c = context;
    if (c->ending.how == KILN_ENDED_MEASURED && c->lot.is_module) {
        kiln_status st = kiln_lot_keep(&c->lot, &c->blobs, &c->result.outputs);
        if (st) decide(c, KILN_OUTCOME_INFRA, st);
    } else if (c->ending.how == KILN_ENDED_MEASURED) {
        const kiln_evidence evidence = {
            .policy = &c->policy,
            .race_ns = c->race_ns,
            .elapsed_ns = c->account.since_ns - c->account.began_ns,
            .peak_flops = c->roofline_flops,
        };
        kiln_status st =
            kiln_lot_judge(&c->lot, c->reference_path, &evidence, &c->arena, &c->result);
        if (st) decide(c, KILN_OUTCOME_INFRA, st);
    }
    if (c->ending.how != KILN_ENDED_DECIDED) return;
    c->result.outcome = c->ending.outcome;
    c->result.blame = c->ending.blame;
    c->result.text = kiln_str_from(c->ending.text);
}

static void deliver(void *context) {
    cage *c = context;
    kiln_fail_pass(KILN_FAIL_CAGE_DELIVER);
    if (c->owner) {
        cage **at = &c->owner->first;
        while (*at != c) at = &(*at)->next;
        *at = c->next;
        const kiln_cage_options *options = &c->owner->options;
        if (c->ending.how == KILN_ENDED_DIED)
            options->handler->died(options->context, c->slot, c->run, c->ending.text);
        else
            options->handler->finished(options->context, c->slot, c->run, &c->result);
    }
    free_cage(c);
}

static void end_run(cage *c) {
    const kiln_cage_options *options = &c->owner->options;
    clear_child(c);
    c->result.phase = c->account.phase;
    c->result.times_ns = c->account.times_ns;
    c->result.peak_flops = c->peak_flops * c->core_count;
    c->result.after = kiln_board_read_env(measuring_core(c), &c->arena);
    const kiln_drift_ratio drift = kiln_lot_drift(&c->lot, &c->result.again);
    c->result.drift = drift.arithmetic;
    c->result.drift_memory = drift.memory;
    c->result.out_of_band = kiln_drift_is_out(&drift, &c->owner->drift[c->slot].norm,
                                              &c->result.before, &c->result.after);
    c->roofline_flops = c->owner->peak_flops * c->core_count;
    c->judging = true;
    kiln_loop_work(options->loop, judge, deliver, c);
}

/* The process has ended; the run has when its whole group has. */
static void verify_gone(void *context) {
    cage *c = context;
    if (!kiln_ward_is_gone(&c->ward)) {
        kiln_ward_kill(&c->ward);
        kiln_timer_start(c->retry, GROUP_RETRY_NS);
        return;
    }
    c->ending = kiln_account_ending(&c->account, &c->exit, &c->arena);
    kiln_wards_refill(&c->owner->wards); /* should the first attempt have been refused */
    end_run(c);
    /* The next one may start while this one is judged. */
    c->owner->options.handler->vacated(c->owner->options.context, c->slot, c->run);
}

/* ---- Notes ---- */

/* A child that makes numbers up is not believed. */
static bool is_whole(const kiln_pace_round *round) {
    for (uint32_t i = 0; i < KILN_PACE_STATE_COUNT; i++)
        if (!(round->reading[i].arithmetic_ns > 0) || !(round->reading[i].memory_ns > 0))
            return false;
    return true;
}

/* What the child says about its core before candidate code runs: the roofline, and how fast it is.
 */
static void take_core(cage *c, const kiln_inmate_note *note) {
    /* What an emulator does in a second bounds nothing. */
    c->peak_flops = c->owner->options.emulator ? 0 : note->round.peak_flops;
    c->owner->peak_flops = KILN_MAX(c->owner->peak_flops, c->peak_flops);
    if (is_whole(&note->round)) kiln_drift_take(&c->owner->drift[c->slot], &note->round);
}

static void take_note(cage *c, const kiln_inmate_note *note) {
    const kiln_cage_options *options = &c->owner->options;
    switch ((kiln_inmate_said)note->said) {
    case KILN_INMATE_LOADED: options->handler->loaded(options->context, c->slot, c->run); break;
    case KILN_INMATE_PHASE:
        if (note->phase == KILN_PHASE_WARM) take_core(c, note);
        options->handler->phase(options->context, c->slot, c->run, (kiln_phase)note->phase);
        break;
    case KILN_INMATE_MEASURED: c->lot.kernel[note->kernel].timing = note->timing; break;
    case KILN_INMATE_READY:
    case KILN_INMATE_REFUSED:
    case KILN_INMATE_FAILED: break;
    }
}

/* Reads what there is. False when no more can come. */
static bool read_notes(cage *c) {
    kiln_inmate_note note;
    for (;;) {
        kiln_inmate_got got = kiln_inmate_read_note(c->ward.socket, &note);
        if (got == KILN_INMATE_GOT_NOTHING) return true;
        if (got == KILN_INMATE_GOT_END) return false;
        if (got == KILN_INMATE_GOT_RUBBISH) c->account.broke_rules = true;
        if (!kiln_account_take(&c->account, &note, kiln_loop_now_ns(c->owner->options.loop))) break;
        take_note(c, &note);
    }
    kiln_ward_kill(&c->ward);
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
    if (!kiln_ward_ended(&c->ward, &c->exit)) return;
    kiln_fail_pass(KILN_FAIL_CAGE_ENDED);
    kiln_watch_set(c->exit_watch, 0);
    kiln_watch_set(c->note_watch, 0);
    read_notes(c);
    verify_gone(c);
}

/* ---- The beginning of a run ---- */

/* Reads the artefacts; a bad one is the candidate's fault. */
static bool read_artefacts(cage *c, const kiln_msg_module_run *module,
                           const kiln_cage_blobs *blobs) {
    const kiln_cage_options *options = &c->owner->options;
    kiln_outcome outcome = KILN_OUTCOME_INFRA;
    kiln_status st =
        module->threads > 0
            ? kiln_lot_open_module(blobs->artefact[0], blobs->reference, module, &c->arena, &c->lot)
            : kiln_lot_open(blobs->artefact, blobs->artefact_count, options->executor,
                            options->slots->slot[c->slot].kind, &c->arena, &c->lot, &outcome);
    if (st)
        decide(c, outcome, st);
    else
        c->core_count = kiln_slots_cores(options->slots, c->slot, c->lot.threads, c->core);
    return c->core_count > 0;
}

static kiln_inmate_module module_of(const cage *c, const kiln_msg_module_run *how) {
    kiln_inmate_module module = {0};
    if (!c->lot.is_module) return module;
    module.is_asked = 1;
    module.bench = how->bench;
    module.input_bytes = c->lot.kernel[1].file.size;
    module.input_count = KILN_MIN(how->samples.count, KILN_INMATE_INPUTS_MAX);
    for (uint32_t i = 0; i < module.input_count; i++) module.samples[i] = how->samples.item[i];
    return module;
}

static kiln_inmate_order order_of(const cage *c, const kiln_msg_trial *trial) {
    const kiln_msg_phases *deadline = &trial->deadlines_ms;
    kiln_inmate_order order = {
        .magic = KILN_INMATE_MAGIC,
        .core_count = c->core_count,
        .waits = c->waits,
        .kernel_count = c->lot.count,
        .module = module_of(c, &trial->module),
        .seed = trial->seed,
        /* A second fence behind the deadlines, for a parent that is stopped or dead. */
        .cpu_seconds =
            (KILN_CAGE_CPU_S + (deadline->warm + deadline->run + deadline->check) / 1000) *
            c->core_count,
        .race_ns = c->race_ns,
        .policy = trial->policy,
        .norm = c->owner->drift[c->slot].norm,
    };
    while (c->lot.executor && kiln_executor_at(order.executor) != c->lot.executor) order.executor++;
    memcpy(order.core, c->core, c->core_count * sizeof order.core[0]);
    for (uint32_t i = 0; i < c->lot.count; i++)
        order.kernel[i] =
            (kiln_inmate_kernel){c->lot.kernel[i].file.size, c->lot.kernel[i].output_bytes};
    return order;
}

static kiln_status send_order(cage *c, const kiln_msg_trial *trial) {
    const kiln_inmate_order order = order_of(c, trial);
    int fd[KILN_INMATE_FDS_MAX];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fd); i++) fd[i] = -1;
    fd[KILN_INMATE_OUTPUTS] = c->lot.outputs_fd;
    /* A child with files of its own does not look at it. */
    fd[KILN_INMATE_FOLDER] = c->ward.folder_fd >= 0 ? c->ward.folder_fd : c->lot.outputs_fd;
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_ORDER);
    if (!st) st = kiln_lot_open_files(&c->lot, fd + KILN_INMATE_ARTEFACT);
    if (!st) st = kiln_inmate_send_order(c->ward.socket, &order, fd);
    for (uint32_t i = KILN_INMATE_ARTEFACT; i < KILN_ARRAY_COUNT(fd); i++)
        if (fd[i] >= 0) close(fd[i]);
    return st;
}

static kiln_status launch(cage *c, const kiln_msg_trial *trial) {
    kiln_loop *loop = c->owner->options.loop;
    kiln_status st = kiln_lot_create_outputs(&c->lot, c->owner->memory_max);
    if (!st) st = kiln_ward_take(&c->owner->wards, c->run, &c->arena, &c->ward);
    if (st) return st;
    kiln_ward_keep_to(&c->ward, c->core, c->core_count);
    kiln_account_open(&c->account, c->lot.count, c->waits, kiln_loop_now_ns(loop));
    st = send_order(c, trial);
    if (st) return st;
    kiln_fail_pass(KILN_FAIL_CAGE_STARTED);
    c->retry = kiln_timer_create(loop, verify_gone, c);
    c->note_watch = kiln_watch_create(loop, c->ward.socket, KILN_WATCH_READ, on_note, c);
    c->exit_watch = kiln_watch_create(loop, c->ward.child.pidfd, KILN_WATCH_READ, on_exit, c);
    kiln_wards_refill(&c->owner->wards); /* while this one works */
    return NULL;
}

void kiln_cages_start(kiln_cages *cages, uint32_t slot, uint64_t run, const kiln_msg_trial *trial,
                      const kiln_cage_blobs *blobs) {
    KILN_CHECK(blobs->artefact_count >= 1);
    KILN_CHECK(blobs->artefact_count <= KILN_INMATE_KERNELS_MAX);
    KILN_CHECK(slot < cages->options.slots->count);
    cage *c = kiln_alloc(sizeof *c);
    *c = (cage){.next = cages->first,
                .owner = cages,
                .slot = slot,
                .run = run,
                .policy = trial->policy,
                .race_ns = trial->race_ns,
                .waits = blobs->waits,
                .lot = {.outputs_fd = -1},
                .ward = KILN_WARD_NONE};
    cages->first = c;
    kiln_arena_init(&c->arena, 0);
    c->reference_path = kiln_str_dup(&c->arena, kiln_str_from(blobs->reference));
    c->blobs = cages->options.blobs;
    c->blobs.folder = kiln_str_dup(&c->arena, kiln_str_from(c->blobs.folder));
    c->result.before = kiln_board_read_env(measuring_core(c), &c->arena);
    if (read_artefacts(c, &trial->module, blobs)) {
        kiln_status st = launch(c, trial);
        if (!st) return;
        decide(c, KILN_OUTCOME_INFRA, kiln_status_note(st, "starting a measurement"));
        c->ending.blame = KILN_BLAME_BOARD;
    }
    end_run(c);
}

/* NULL: no child of that run is there any more. */
static cage *find_cage(kiln_cages *cages, uint32_t slot, uint64_t run) {
    cage *c = cages->first;
    while (c && (c->slot != slot || c->run != run)) c = c->next;
    return c && !c->judging ? c : NULL;
}

void kiln_cages_time(kiln_cages *cages, uint32_t slot, uint64_t run) {
    cage *c = find_cage(cages, slot, run);
    if (!c || !c->account.is_loaded || c->account.may_time) return;
    kiln_account_let_time(&c->account, kiln_loop_now_ns(cages->options.loop));
    kiln_status_free(kiln_inmate_let_time(c->ward.socket)); /* it ends, and that is seen */
}

void kiln_cages_kill(kiln_cages *cages, uint32_t slot, uint64_t run) {
    cage *c = find_cage(cages, slot, run);
    if (c) kiln_ward_kill(&c->ward);
}

/* ---- All of them ---- */

/* What a child may have of this machine: most of it, shared between the slots. */
static uint64_t memory_share(uint32_t slots) {
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return all / 4 * 3 / slots;
}

/* What each slot's core usually does, before anything is asked of it. */
static kiln_status learn_pace(kiln_cages *cages) {
    const kiln_slots *slots = cages->options.slots;
    kiln_pace_round round[KILN_DRIFT_START];
    kiln_status st = NULL;
    for (uint32_t slot = 0; !st && slot < slots->count; slot++) {
        st = kiln_pace_watch(slots->slot[slot].core[0], KILN_DRIFT_START, round);
        for (uint32_t i = 0; !st && i < KILN_DRIFT_START; i++)
            kiln_drift_take(&cages->drift[slot], &round[i]);
    }
    return st;
}

kiln_status kiln_cages_create(const kiln_cage_options *options, kiln_cages **out_cages) {
    kiln_cages *cages = kiln_alloc(sizeof *cages);
    *cages = (kiln_cages){.options = *options,
                          .peak_flops = options->peak_flops,
                          .memory_max = memory_share(options->slots->count),
                          .wards = {.helper = options->helper, .folder = options->folder}};
    kiln_status st = kiln_wards_open(&cages->wards);
    if (!st) st = learn_pace(cages);
    if (st) {
        kiln_cages_destroy(cages);
        return st;
    }
    *out_cages = cages;
    return NULL;
}

const kiln_pace_norm *kiln_cages_norm(const kiln_cages *cages, uint32_t slot) {
    KILN_CHECK(slot < cages->options.slots->count);
    return &cages->drift[slot].norm;
}

uint32_t kiln_cages_fences(const kiln_cages *cages) { return cages->wards.fences; }

void kiln_cages_destroy(kiln_cages *cages) {
    if (!cages) return;
    for (cage *c = cages->first, *next; c; c = next) {
        next = c->next;
        c->owner = NULL;
        if (!c->judging) free_cage(c); /* else the pool's completion does */
    }
    kiln_wards_close(&cages->wards);
    kiln_free(cages);
}
