/* What a step does to the outside: the actions that it leaves for the shell, in their order. */
#include "tuner/state.h"

bool kiln_tuner_is_linked(const kiln_tuner *t) { return t->effects.link.state == KILN_LINK_UP; }

kiln_arena *kiln_tuner_step_arena(const kiln_tuner *t) { return &t->effects.actions->arena; }

kiln_tuner_action *kiln_tuner_act(kiln_tuner *t, kiln_tuner_action_kind kind) {
    kiln_tuner_action action = {.kind = kind};
    kiln_vec_push(&t->effects.actions->list, action);
    return &kiln_vec_last(&t->effects.actions->list);
}

kiln_tuner_action *kiln_tuner_act_on(kiln_tuner_job *job, kiln_tuner_action_kind kind,
                                     const kiln_tuner_trial *trial) {
    kiln_tuner_action *action = kiln_tuner_act(job->tuner, kind);
    action->job = job->handle;
    if (!trial) return action;
    action->task = trial->task;
    action->index = trial->index;
    action->attempt = trial->attempt;
    action->assembled = trial->result.assembled;
    action->trial = kiln_str_dup(kiln_tuner_step_arena(job->tuner), kiln_str_from(trial->id));
    return action;
}

void kiln_tuner_send(kiln_tuner *t, const kiln_message *message) {
    if (!kiln_tuner_is_linked(t)) return;
    kiln_message copy = kiln_message_copy(message, kiln_tuner_step_arena(t));
    kiln_tuner_act(t, KILN_TUNER_SEND)->message = copy;
}

void kiln_tuner_upload(kiln_tuner *t, const kiln_digest *digest) {
    kiln_tuner_act(t, KILN_TUNER_UPLOAD)->digest = *digest;
}

void kiln_tuner_acknowledge(kiln_tuner *t, kiln_str trial, uint32_t attempt, uint64_t lease) {
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {.trial = trial, .attempt = attempt, .lease = lease}};
    kiln_tuner_send(t, &ack);
}

void kiln_tuner_actions_reset(kiln_tuner_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_tuner_actions_deinit(kiln_tuner_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}
