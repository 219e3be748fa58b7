#include "rpc-server/trial_runner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "rpc-server/golden.h"
#include "rpc-server/health.h"
#include "rpc-server/supervisor.h"

struct kiln_trial_runner {
    kiln_trial_runner_options options;
    kiln_arena arena; /* of all its life */
    kiln_supervisor *supervisor;
    kiln_golden golden;
    uint64_t check_run; /* number of the running self-check; 0: none */
};

/* ---- The self-check ---- */

void kiln_trial_runner_check(kiln_trial_runner *runner, const kiln_server_action *action) {
    const kiln_msg_trial trial = kiln_golden_trial();
    const kiln_supervisor_blobs blobs = {
        runner->golden.reference, 1, {runner->golden.artefact}, false};
    runner->check_run = action->run;
    kiln_supervisor_start(runner->supervisor, action->slot, action->run, &trial, &blobs);
}

/* Posts CHECKED if the run was the self-check; returns whether it was. */
static bool end_check(kiln_trial_runner *runner, uint64_t run,
                      const kiln_msg_trial_result *result) {
    if (run != runner->check_run) return false;
    runner->check_run = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const char *failure = kiln_golden_judge(&runner->golden, result, &scratch);
    if (failure) kiln_log(KILN_LOG_WARN, "%s", failure);
    runner->options.post(
        runner->options.context,
        &(kiln_server_event){.kind = KILN_SERVER_CHECKED, .run = run, .failure = failure});
    kiln_arena_deinit(&scratch);
    return true;
}

/* ---- Events of a child ---- */

static void post(kiln_trial_runner *runner, kiln_server_event_kind kind, uint32_t slot,
                 uint64_t run, kiln_server_event event) {
    event.kind = kind;
    event.slot = slot;
    event.run = run;
    runner->options.post(runner->options.context, &event);
}

static void on_loaded(void *context, uint32_t slot, uint64_t run) {
    post(context, KILN_SERVER_LOADED, slot, run, (kiln_server_event){0});
}

static void on_phase(void *context, uint32_t slot, uint64_t run, kiln_phase phase) {
    post(context, KILN_SERVER_PHASE, slot, run, (kiln_server_event){.phase = phase});
}

static void on_vacated(void *context, uint32_t slot, uint64_t run) {
    post(context, KILN_SERVER_VACATED, slot, run, (kiln_server_event){0});
}

static void on_finished(void *context, uint32_t slot, uint64_t run,
                        const kiln_msg_trial_result *result) {
    if (!end_check(context, run, result))
        post(context, KILN_SERVER_FINISHED, slot, run, (kiln_server_event){.result = result});
}

static void on_died(void *context, uint32_t slot, uint64_t run, const char *text) {
    const kiln_msg_trial_result crash = {.outcome = KILN_OUTCOME_CRASH,
                                         .text = kiln_str_from(text)};
    if (!end_check(context, run, &crash))
        post(context, KILN_SERVER_DIED, slot, run, (kiln_server_event){.text = text});
}

static const kiln_supervisor_handler supervisor_handler = {on_loaded, on_phase, on_vacated,
                                                           on_finished, on_died};

/* ---- Actions ---- */

/* Finds the paths of a trial's blobs, in `scratch`. */
static kiln_status find_blobs(kiln_trial_runner *runner, const kiln_msg_trial *trial,
                              kiln_arena *scratch, kiln_supervisor_blobs *out) {
    kiln_blob_store *store = runner->options.store;
    char *path = NULL;
    kiln_status st = kiln_blob_store_path(store, &trial->reference.digest, scratch, &path);
    out->reference = path;
    out->waits = false;
    out->artefact_count = 1 + trial->rivals.count;
    for (uint32_t i = 0; !st && i < out->artefact_count; i++) {
        const kiln_msg_blob_ref *blob = i ? &trial->rivals.item[i - 1] : &trial->artefact;
        st = kiln_blob_store_path(store, &blob->digest, scratch, &path);
        out->artefact[i] = path;
    }
    return st;
}

void kiln_trial_runner_start(kiln_trial_runner *runner, const kiln_server_action *action) {
    const kiln_msg_trial *trial = action->trial;
    kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_RUN, trial->trial, kiln_clock_ns(),
                     &(kiln_log_field){"job", trial->job}, 1);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_supervisor_blobs blobs;
    kiln_status st = find_blobs(runner, trial, &scratch, &blobs);
    if (!st) {
        blobs.waits = action->waits;
        kiln_supervisor_start(runner->supervisor, action->slot, action->run, trial, &blobs);
    } else { /* a blob was evicted after FETCHED */
        const kiln_msg_trial_result result = {.outcome = KILN_OUTCOME_INFRA,
                                              .blame = KILN_BLAME_INFRA,
                                              .text = kiln_str_from(kiln_status_text(st))};
        on_finished(runner, action->slot, action->run, &result);
        kiln_status_free(st);
    }
    kiln_arena_deinit(&scratch);
}

void kiln_trial_runner_time(kiln_trial_runner *runner, const kiln_server_action *action) {
    kiln_supervisor_time(runner->supervisor, action->slot, action->run);
}

void kiln_trial_runner_kill(kiln_trial_runner *runner, const kiln_server_action *action) {
    kiln_supervisor_kill(runner->supervisor, action->slot, action->run);
}

/* ---- Life ---- */

kiln_status kiln_trial_runner_create(const kiln_trial_runner_options *options,
                                     kiln_trial_runner **out_runner) {
    kiln_trial_runner *runner = kiln_alloc(sizeof *runner);
    *runner = (kiln_trial_runner){.options = *options};
    kiln_arena_init(&runner->arena, 0);
    const kiln_supervisor_options supervisor = {
        .loop = options->loop,
        .helper = options->helper,
        .emulator = options->emulator,
        .folder = kiln_arena_printf(&runner->arena, "%s/run", options->state_folder),
        .blobs = {.folder = kiln_arena_printf(&runner->arena, "%s/blobs", options->state_folder),
                  .bytes_max = KILN_SERVER_BLOB_BYTES_MAX},
        .executor = options->executor,
        .slots = options->slots,
        .peak_flops = options->peak_flops,
        .handler = &supervisor_handler,
        .context = runner};
    kiln_status st =
        kiln_golden_open(kiln_arena_printf(&runner->arena, "%s/golden", options->state_folder),
                         options->slots->slot[0].target, &runner->arena, &runner->golden);
    if (!st) st = kiln_supervisor_create(&supervisor, &runner->supervisor);
    if (st) {
        kiln_trial_runner_destroy(runner);
        return st;
    }
    *out_runner = runner;
    return NULL;
}

void kiln_trial_runner_destroy(kiln_trial_runner *runner) {
    if (!runner) return;
    kiln_supervisor_destroy(runner->supervisor);
    kiln_arena_deinit(&runner->arena);
    kiln_free(runner);
}

const kiln_reference_kernel_norm *kiln_trial_runner_norm(const kiln_trial_runner *runner,
                                                         uint32_t slot) {
    return kiln_supervisor_norm(runner->supervisor, slot);
}

uint64_t kiln_trial_runner_check_ns(const kiln_trial_runner *runner) {
    const kiln_executor *executor = runner->options.executor;
    if (!runner->golden.artefact) return 0;
    return executor && executor->driver ? KILN_HEALTH_DRIVER_CHECK_NS : KILN_HEALTH_CHECK_NS;
}

void kiln_trial_runner_put_reading(const kiln_trial_runner *runner, uint32_t slot,
                                   kiln_msg_env *env) {
    kiln_supervisor_put_reading(runner->supervisor, slot, env);
}

uint32_t kiln_trial_runner_fences(const kiln_trial_runner *runner) {
    return kiln_supervisor_fences(runner->supervisor);
}
