#include "tests/unit/tuner/shop.h"

#include "base/alloc.h"

int shop_set_up(void **state) {
    shop *s = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 0);
    s->now_ns = 10 * SHOP_S;
    shop_hire(s, 4);
    *state = s;
    return 0;
}

void shop_hire(shop *s, uint32_t builders) {
    kiln_tuner_destroy(s->t);
    s->t = kiln_tuner_create(
        &(kiln_tuner_options){.builders = builders, .codegen = SHOP_CODEGEN, .seed = 1}, s->now_ns);
}

int shop_tear_down(void **state) {
    shop *s = *state;
    kiln_tuner_destroy(s->t);
    kiln_vec_deinit(&s->done);
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
    return 0;
}

static kiln_tuner_action keep(shop *s, const kiln_tuner_action *action) {
    kiln_tuner_action copy = *action;
    if (action->kind == KILN_TUNER_SEND)
        copy.message = kiln_message_copy(&action->message, &s->arena);
    if (action->result) {
        kiln_message told = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = *action->result};
        kiln_msg_trial_result *result = KILN_ARENA_NEW(&s->arena, kiln_msg_trial_result);
        *result = kiln_message_copy(&told, &s->arena).trial_result;
        copy.result = result;
    }
    copy.text = action->text ? kiln_str_dup(&s->arena, kiln_str_from(action->text)) : NULL;
    copy.trial = action->trial ? kiln_str_dup(&s->arena, kiln_str_from(action->trial)) : NULL;
    return copy;
}

/* What a willing shell does at once. */
static void help(shop *s, const kiln_tuner_action *action) {
    kiln_tuner_event event = {.job = action->job, .task = action->task, .index = action->index};
    switch ((int)action->kind) {
    case KILN_TUNER_PROPOSE:
        event.kind = KILN_TUNER_PROPOSED;
        event.exhausted = s->exhausted >> action->task & 1;
        event.is_default = action->index == 0;
        event.trace = kiln_str_from(
            kiln_arena_printf(&s->arena, "trace %u of t%u", action->index, action->task));
        break;
    case KILN_TUNER_BUILD:
        if (s->builders_hang) return;
        event.kind = KILN_TUNER_BUILT;
        event.artefact =
            (kiln_msg_blob_ref){{{9, (uint8_t)action->task, (uint8_t)action->index}}, 100};
        break;
    case KILN_TUNER_REFERENCE:
        event.kind = KILN_TUNER_REFERENCED;
        event.failure = s->unreferenced >> action->task & 1 ? "no memory for it" : NULL;
        event.artefact = (kiln_msg_blob_ref){{{8, (uint8_t)action->task}}, 10};
        event.program = (kiln_msg_blob_ref){{{6, (uint8_t)action->task}}, 20};
        break;
    case KILN_TUNER_UPLOAD:
        event.kind = KILN_TUNER_UPLOADED;
        event.digest = action->digest;
        break;
    case KILN_TUNER_RECORD: event.kind = KILN_TUNER_RECORDED; break;
    case KILN_TUNER_GATHER:
        if (s->gather_hangs) return;
        event.kind = KILN_TUNER_GATHERED;
        event.finalist_count = s->finalists;
        kiln_msg_blob_ref *finalist = KILN_ARENA_ARRAY(&s->arena, kiln_msg_blob_ref, s->finalists);
        for (uint32_t i = 0; i < s->finalists; i++)
            finalist[i] = (kiln_msg_blob_ref){{{7, (uint8_t)action->task, (uint8_t)i}}, 100};
        event.finalist = finalist;
        break;
    case KILN_TUNER_EXPORT:
        event.kind = KILN_TUNER_EXPORTED;
        event.digest = (kiln_digest){{77}};
        break;
    default: return;
    }
    shop_step(s, &event);
}

void shop_step(shop *s, const kiln_tuner_event *event) {
    kiln_tuner_actions actions = {0};
    kiln_tuner_step(s->t, s->now_ns, event, &actions);
    kiln_tuner_check(s->t);
    uint32_t begin = s->done.count;
    for (uint32_t i = 0; i < actions.list.count; i++) {
        kiln_tuner_action kept = keep(s, &actions.list.data[i]);
        if (kept.kind == KILN_TUNER_PREPARE) s->job = kept.job;
        kiln_vec_push(&s->done, kept);
    }
    uint32_t end = s->done.count;
    kiln_tuner_actions_deinit(&actions);
    for (uint32_t i = begin; i < end; i++) {
        kiln_tuner_action action = s->done.data[i];
        if (!s->by_hand || action.kind == KILN_TUNER_REFERENCE) help(s, &action);
    }
}

void shop_tick(shop *s, uint64_t ns) {
    s->now_ns += ns;
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_TICK});
}

void shop_say(shop *s, const kiln_message *message) {
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_MESSAGE, .message = message});
}

void shop_open(shop *s) { shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_OPENED}); }

void shop_close(shop *s) { shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_CLOSED}); }

static bool is_sent(const kiln_tuner_action *action, kiln_message_type type) {
    return action->kind == KILN_TUNER_SEND && action->message.type == type;
}

const kiln_tuner_action *shop_take(shop *s, kiln_tuner_action_kind kind) {
    for (uint32_t i = s->seen; i < s->done.count; i++) {
        if (s->done.data[i].kind != kind) continue;
        s->seen = i + 1;
        return kiln_arena_copy(&s->arena, &s->done.data[i], sizeof s->done.data[i]);
    }
    return NULL;
}

const kiln_message *shop_take_sent(shop *s, kiln_message_type type) {
    for (uint32_t i = s->seen; i < s->done.count; i++) {
        if (!is_sent(&s->done.data[i], type)) continue;
        s->seen = i + 1;
        return kiln_arena_copy(&s->arena, &s->done.data[i].message, sizeof(kiln_message));
    }
    return NULL;
}

uint32_t shop_count(const shop *s, kiln_tuner_action_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = s->seen; i < s->done.count; i++) count += s->done.data[i].kind == kind;
    return count;
}

uint32_t shop_count_sent(const shop *s, kiln_message_type type) {
    uint32_t count = 0;
    for (uint32_t i = s->seen; i < s->done.count; i++) count += is_sent(&s->done.data[i], type);
    return count;
}

void shop_skip(shop *s) { s->seen = s->done.count; }

void shop_assign(shop *s, uint32_t trials) { shop_assign_for(s, 0, trials); }

void shop_assign_for(shop *s, double seconds, uint32_t trials) {
    kiln_message assign = {
        .type = KILN_MSG_JOB_ASSIGN,
        .job_assign = {.job = KILN_STR("j"),
                       .spec = {.target = kiln_str_from(s->target ? s->target : "cpu:x"),
                                .searcher = KILN_STR("random"),
                                .trials = trials,
                                .seconds = seconds}}};
    shop_say(s, &assign);
}

void shop_prepare(shop *s, uint32_t task_count, const kiln_tuner_result *stored,
                  uint32_t stored_count) {
    kiln_tuner_task *task = KILN_ARENA_ARRAY(&s->arena, kiln_tuner_task, task_count);
    for (uint32_t i = 0; i < task_count; i++) {
        task[i].key = kiln_str_from(kiln_arena_printf(&s->arena, "t%u", i));
        task[i].op = KILN_STR("conv2d");
        task[i].input_seed = 4;
    }
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PREPARED,
                                     .job = s->job,
                                     .task_list = task,
                                     .task_count = task_count,
                                     .stored = stored,
                                     .stored_count = stored_count});
}

void shop_begin(shop *s, uint32_t trials, uint32_t task_count) {
    shop_begin_for(s, 0, trials, task_count);
}

void shop_begin_for(shop *s, double seconds, uint32_t trials, uint32_t task_count) {
    shop_open(s);
    shop_assign_for(s, seconds, trials);
    shop_prepare(s, task_count, NULL, 0);
}

void shop_begin_tasks(shop *s, double seconds, uint32_t trials, const kiln_tuner_task *task,
                      uint32_t task_count) {
    shop_open(s);
    shop_assign_for(s, seconds, trials);
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_PREPARED,
                                     .job = s->job,
                                     .task_list = task,
                                     .task_count = task_count});
}

void shop_recorded(shop *s, const kiln_tuner_action *record, kiln_code code, const char *failure) {
    shop_step(s, &(kiln_tuner_event){.kind = KILN_TUNER_RECORDED,
                                     .job = s->job,
                                     .task = record->task,
                                     .index = record->index,
                                     .code = code,
                                     .failure = failure});
}

uint64_t shop_grant(shop *s) {
    const kiln_message *ask = shop_take_sent(s, KILN_MSG_LEASE_REQ);
    assert_non_null(ask);
    s->asked = s->seen;
    kiln_message grant = {.type = KILN_MSG_LEASE_GRANT,
                          .lease_grant = {.request = ask->lease_req.request,
                                          .lease = ++s->last_lease,
                                          .board = kiln_str_from(s->board ? s->board : "b"),
                                          .target = KILN_STR("cpu:x"),
                                          .builds = kiln_str_from(s->builds),
                                          .trials = ask->lease_req.trials,
                                          .ttl_ms = ask->lease_req.ttl_ms}};
    shop_say(s, &grant);
    return s->last_lease;
}

void shop_answer_with(shop *s, const kiln_msg_trial *trial, uint64_t run_ns,
                      const kiln_msg_trial_result *how) {
    uint64_t samples[5];
    for (uint32_t i = 0; i < 5; i++) samples[i] = run_ns + i;
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = *how};
    result.trial_result.trial = trial->trial;
    result.trial_result.attempt = trial->attempt;
    result.trial_result.lease = trial->lease;
    result.trial_result.runs = 1;
    result.trial_result.samples_ns = (kiln_u64s){samples, 5};
    shop_say(s, &result);
}

void shop_answer(shop *s, const kiln_msg_trial *trial, kiln_outcome outcome) {
    uint64_t samples[] = {2000, 2200, 2100};
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT,
                           .trial_result = {.trial = trial->trial,
                                            .attempt = trial->attempt,
                                            .lease = trial->lease,
                                            .outcome = outcome,
                                            .runs = 2}};
    if (outcome == KILN_OUTCOME_OK) result.trial_result.samples_ns = (kiln_u64s){samples, 3};
    kiln_msg_rival_result rival[KILN_MESSAGES_RIVALS];
    uint64_t faster[KILN_MESSAGES_RIVALS][3];
    for (uint32_t i = 0; i < trial->rivals.count; i++) {
        for (uint32_t k = 0; k < 3; k++) faster[i][k] = samples[k] * (100 - 3 * i) / 100;
        rival[i] = (kiln_msg_rival_result){
            .outcome = outcome, .runs = 2, .samples_ns = {faster[i], 3}, .checked = true};
    }
    result.trial_result.rivals.item = rival;
    result.trial_result.rivals.count = trial->rivals.count;
    shop_say(s, &result);
}

const kiln_msg_trial *shop_next_trial(shop *s) {
    while (!shop_count_sent(s, KILN_MSG_TRIAL)) {
        uint32_t end = s->done.count;
        s->seen = s->asked;
        shop_grant(s);
        s->seen = end;
    }
    const kiln_message *message = shop_take_sent(s, KILN_MSG_TRIAL);
    assert_non_null(message);
    return &message->trial;
}

const kiln_msg_job_done *shop_done(shop *s) {
    const kiln_message *message = shop_take_sent(s, KILN_MSG_JOB_DONE);
    assert_non_null(message);
    return &message->job_done;
}

void shop_run_dry(shop *s) {
    for (;;) {
        if (shop_count_sent(s, KILN_MSG_TRIAL))
            shop_answer(s, &shop_take_sent(s, KILN_MSG_TRIAL)->trial, KILN_OUTCOME_OK);
        else if (shop_count_sent(s, KILN_MSG_LEASE_REQ))
            shop_grant(s);
        else
            return;
    }
}
