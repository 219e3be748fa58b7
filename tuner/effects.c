/* What a step does to the outside: the actions that it leaves for the shell, in their order. */
#include "tuner/state.h"

kiln_tuner_action *kiln_tuner_act(kiln_tuner *t, kiln_tuner_action_kind kind) {
    kiln_tuner_action action = {.kind = kind};
    kiln_vec_push(&t->actions->list, action);
    return &kiln_vec_last(&t->actions->list);
}

kiln_tuner_action *kiln_tuner_act_on(kiln_tuner_job *job, kiln_tuner_action_kind kind,
                                     const kiln_tuner_trial *trial) {
    kiln_tuner_action *action = kiln_tuner_act(job->tuner, kind);
    action->job = job->handle;
    if (!trial) return action;
    action->task = trial->task;
    action->index = trial->index;
    action->attempt = trial->attempt;
    action->assembled = trial->assembled;
    action->trial = kiln_str_dup(&job->tuner->actions->arena, kiln_str_from(trial->id));
    return action;
}

void kiln_tuner_send(kiln_tuner *t, const kiln_message *message) {
    if (t->link.state != KILN_LINK_UP) return;
    kiln_message copy = kiln_message_copy(message, &t->actions->arena);
    kiln_tuner_act(t, KILN_TUNER_SEND)->message = copy;
}

void kiln_tuner_upload(kiln_tuner *t, const kiln_digest *digest) {
    kiln_tuner_act(t, KILN_TUNER_UPLOAD)->digest = *digest;
}

void kiln_tuner_actions_reset(kiln_tuner_actions *actions) {
    kiln_arena_reset(&actions->arena);
    actions->list.count = 0;
}

void kiln_tuner_actions_deinit(kiln_tuner_actions *actions) {
    kiln_arena_deinit(&actions->arena);
    kiln_vec_deinit(&actions->list);
}

void kiln_trial_identity(kiln_str job, kiln_str task_key, uint32_t index,
                         char out_text[KILN_HASH128_TEXT]) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "trial 1\n%.*s\n%.*s\n%u\n", KILN_STR_ARG(job),
                       KILN_STR_ARG(task_key), index);
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), out_text);
    kiln_strbuf_deinit(&text);
}
