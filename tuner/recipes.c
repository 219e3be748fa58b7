/* Candidates that boards build: which boards get recipes instead of artefacts, and when. */
#include "tuner/state.h"

bool kiln_tuner_board_builds(const kiln_tuner *t, const kiln_tuner_lease *lease) {
    const char *codegen = t->options.codegen;
    return lease->lease && codegen && kiln_str_is(lease->grant.builds, codegen);
}

static bool any_board_builds(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->lease.count; i++)
        if (kiln_tuner_board_builds(job->tuner, job->lease.data[i])) return true;
    return false;
}

bool kiln_tuner_wants_recipes(const kiln_tuner_job *job, const kiln_tuner_lease *lease,
                              uint32_t in_flight) {
    const kiln_tuner *t = job->tuner;
    if (!kiln_tuner_board_builds(t, lease)) return false;
    if (t->options.builders == 0) return true;
    return in_flight < KILN_TUNER_BOARD_BUILDS && kiln_tuner_builds_busy(t) >= t->options.builders;
}

bool kiln_tuner_recipe_is_ready(const kiln_tuner_job *job, const kiln_tuner_trial *trial) {
    const kiln_tuner_job_task *task = &job->task[trial->task];
    return trial->state == KILN_TRIAL_TO_BUILD && trial->trace.size > 0 &&
           trial->trace.size <= KILN_MESSAGES_TRACE &&
           task->reference.state == KILN_TUNER_BLOB_UP && task->program.state == KILN_TUNER_BLOB_UP;
}

bool kiln_tuner_recipe_is_wanted(const kiln_tuner_job *job, const kiln_tuner_trial *trial) {
    return trial->state == KILN_TRIAL_TO_BUILD && any_board_builds(job);
}

kiln_msg_recipe kiln_tuner_recipe_of(const kiln_tuner_job *job, const kiln_tuner_trial *trial) {
    const kiln_tuner_job_task *task = &job->task[trial->task];
    return (kiln_msg_recipe){.program = task->program.ref,
                             .task = task->given.key,
                             .target = job->spec.target,
                             .trace = trial->trace,
                             .codegen = kiln_str_from(job->tuner->options.codegen)};
}

uint64_t kiln_tuner_no_builder_ns(const kiln_tuner_job *job) {
    const kiln_tuner *t = job->tuner;
    bool no_builder = t->options.builders == 0 && !any_board_builds(job) && job->lease.count > 0;
    if (!no_builder || job->told_no_builder || !kiln_tuner_is_linked(t)) return UINT64_MAX;
    return job->began_ns + KILN_TUNER_NO_BUILDER_NS;
}

bool kiln_tuner_tell_no_builder(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    if (t->effects.now_ns < kiln_tuner_no_builder_ns(job)) return false;
    const char *text = kiln_arena_printf(
        kiln_tuner_step_arena(t),
        "waiting for a board that builds candidates with codegen version %s, because the tuner has "
        "no builders: start a kiln-rpc-server made with -Dserver_build=enabled, or kiln-tuner with "
        "--builders",
        t->options.codegen);
    kiln_message event = {
        .type = KILN_MSG_JOB_EVENT,
        .job_event = {.job = kiln_str_from(job->id), .text = kiln_str_from(text)}};
    kiln_tuner_send(t, &event);
    return true;
}
