#include "rpc-server/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/support/test.h"

#define MS KILN_NS_PER_MS
#define S KILN_NS_PER_S

/* A step under test: the last actions, and what a shell would remember. */
typedef struct bench {
    kiln_server *server;
    kiln_server_actions actions; /* of the last step */
    uint64_t now_ns;
    uint64_t run; /* of the last START */
} bench;

static void step(bench *b, const kiln_server_event *event) {
    kiln_server_actions_reset(&b->actions);
    kiln_server_step(b->server, b->now_ns, event, &b->actions);
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        if (b->actions.list.data[i].kind == KILN_SERVER_START) b->run = b->actions.list.data[i].run;
}

static void tick_after(bench *b, uint64_t ns) {
    b->now_ns += ns;
    step(b, &(kiln_server_event){.kind = KILN_SERVER_TICK});
}

/* The same while the tracker is there. */
static void tick_heard(bench *b, uint64_t ns) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE,
                                 .message = &(kiln_message){.type = KILN_MSG_PONG}});
    tick_after(b, ns);
}

static void say(bench *b, const kiln_message *message) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = message});
}

static const kiln_server_action *find(const bench *b, kiln_server_action_kind kind) {
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        if (b->actions.list.data[i].kind == kind) return &b->actions.list.data[i];
    return NULL;
}

static const kiln_message *find_sent(const bench *b, kiln_message_type type) {
    for (uint32_t i = 0; i < b->actions.list.count; i++) {
        const kiln_server_action *action = &b->actions.list.data[i];
        if (action->kind == KILN_SERVER_SEND && action->message.type == type)
            return &action->message;
    }
    return NULL;
}

static int set_up(void **state) {
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    bench *b = kiln_alloc(sizeof *b);
    b->now_ns = 50 * S;
    b->server = kiln_server_create(&(kiln_server_options){.board = &up, .seed = 1}, b->now_ns);
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    kiln_server_destroy(b->server);
    kiln_server_actions_deinit(&b->actions);
    kiln_free(b);
    return 0;
}

static void connect_to_tracker(bench *b) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_OPENED});
}

static kiln_digest digest(uint8_t first) { return (kiln_digest){{first}}; }

static kiln_message trial(const char *id, uint64_t lease, uint32_t slot) {
    return (kiln_message){
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(id),
                  .attempt = 1,
                  .lease = lease,
                  .slot = slot,
                  .job = KILN_STR("j"),
                  .artefact = {digest((uint8_t)id[0]), 10},
                  .reference = {digest(1), 10},
                  .deadlines_ms = {
                      .fetch = 1000, .load = 2000, .warm = 3000, .run = 4000, .check = 5000}}};
}

static void fetched(bench *b, uint8_t first, const char *failure) {
    step(b, &(kiln_server_event){
                .kind = KILN_SERVER_FETCHED, .digest = digest(first), .failure = failure});
}

/* A trial that has its blobs; the reference is 1, the artefact is named by the trial's first
 * letter. */
static void send_trial(bench *b, const char *id, uint64_t lease, uint32_t slot) {
    kiln_message message = trial(id, lease, slot);
    say(b, &message);
    fetched(b, (uint8_t)id[0], NULL);
    fetched(b, 1, NULL);
}

static void finish(bench *b, uint32_t slot) {
    uint64_t samples[] = {5, 6, 7};
    kiln_msg_trial_result result = {
        .outcome = KILN_OUTCOME_OK, .samples_ns = {samples, 3}, .checked = true};
    step(b, &(kiln_server_event){
                .kind = KILN_SERVER_FINISHED, .slot = slot, .run = b->run, .result = &result});
}

static void die(bench *b, uint32_t slot, const char *text) {
    step(b,
         &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = slot, .run = b->run, .text = text});
}

/* ---- Promises ---- */

static void it_dials_and_introduces_itself(void **state) {
    bench *b = *state;
    tick_after(b, 0);
    assert_non_null(find(b, KILN_SERVER_DIAL));
    connect_to_tracker(b);
    const kiln_message *up = find_sent(b, KILN_MSG_BOARD_UP);
    assert_non_null(up);
    assert_int_equal(up->board_up.slots, 2);
    assert_int_equal(up->board_up.running.count, 0);
}

static void blobs_are_fetched_first_and_then_the_child_starts(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 0);
    say(b, &message);
    uint32_t fetches = 0;
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        fetches += b->actions.list.data[i].kind == KILN_SERVER_FETCH;
    assert_int_equal(fetches, 2);
    assert_null(find(b, KILN_SERVER_START));
    fetched(b, 'a', NULL);
    assert_null(find(b, KILN_SERVER_START));
    fetched(b, 1, NULL);
    const kiln_server_action *started = find(b, KILN_SERVER_START);
    assert_non_null(started);
    expect_str(started->trial->trial, "a");
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_EVENT)->trial_event.phase, KILN_PHASE_LOAD);
}

/* A trial of lease 7 that brings a recipe, whose program is 'p'. */
static kiln_message recipe_trial(const char *id) {
    kiln_message message = trial(id, 7, 0);
    message.trial.artefact = (kiln_msg_blob_ref){0};
    message.trial.recipe = (kiln_msg_recipe){.program = {digest('p'), 30},
                                             .task = KILN_STR("t"),
                                             .target = KILN_STR("cpu:x"),
                                             .trace = KILN_STR("trace"),
                                             .codegen = KILN_STR("1-llvm0")};
    message.trial.deadlines_ms.build = 6000;
    return message;
}

/* The number of its build. */
static uint64_t send_recipe(bench *b, const char *id) {
    kiln_message message = recipe_trial(id);
    say(b, &message);
    fetched(b, 'p', NULL);
    fetched(b, 1, NULL);
    const kiln_server_action *build = find(b, KILN_SERVER_BUILD);
    assert_non_null(build);
    return build->run;
}

static void built(bench *b, uint64_t run, kiln_outcome outcome, const char *text) {
    const kiln_msg_built what = {
        .artefact = {digest('o'), 40}, .algorithm = KILN_STR("direct"), .layout_in = KILN_STR("I")};
    step(b, &(kiln_server_event){.kind = KILN_SERVER_BUILT,
                                 .run = run,
                                 .outcome = outcome,
                                 .text = text,
                                 .built = &what,
                                 .spent_ns = 9 * MS});
}

static void a_recipe_is_built_from_its_blobs_and_then_measured(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = recipe_trial("a");
    say(b, &message);
    fetched(b, 1, NULL);
    assert_null(find(b, KILN_SERVER_BUILD));
    fetched(b, 'p', NULL);
    const kiln_server_action *build = find(b, KILN_SERVER_BUILD);
    assert_non_null(build);
    expect_str(build->trial->recipe.trace, "trace");
    assert_int_equal(build->deadline_ns, 6000 * MS);
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_EVENT)->trial_event.phase, KILN_PHASE_BUILD);
    assert_null(find(b, KILN_SERVER_START));
    b->now_ns += 100 * MS;
    built(b, build->run, KILN_OUTCOME_OK, NULL);
    const kiln_server_action *started = find(b, KILN_SERVER_START);
    assert_non_null(started);
    assert_int_equal(started->trial->artefact.digest.byte[0], 'o');
    finish(b, 0);
    const kiln_msg_trial_result *result = &find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
    assert_int_equal(result->built.artefact.digest.byte[0], 'o');
    expect_str(result->built.algorithm, "direct");
    expect_str(result->built.layout_in, "I");
    assert_int_equal(result->times_ns.build, 9 * MS);
}

static void the_next_is_built_while_one_is_measured(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    const uint64_t measured = b->run, build = send_recipe(b, "b");
    built(b, build, KILN_OUTCOME_OK, NULL);
    assert_null(find(b, KILN_SERVER_START));
    b->run = measured;
    finish(b, 0);
    expect_str(find(b, KILN_SERVER_START)->trial->trial, "b");
}

static void what_cannot_be_built_ends_with_its_name(void **state) {
    static const kiln_outcome how[] = {KILN_OUTCOME_BUILD_ERROR, KILN_OUTCOME_LINK_ERROR,
                                       KILN_OUTCOME_TIMEOUT, KILN_OUTCOME_INFRA};
    bench *b = *state;
    connect_to_tracker(b);
    for (uint32_t i = 0; i < 4; i++) {
        const char id[] = {(char)('a' + i), 0};
        built(b, send_recipe(b, id), how[i], "why not");
        const kiln_msg_trial_result *result = &find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
        assert_int_equal(result->outcome, how[i]);
        assert_int_equal(result->blame, kiln_outcome_blame(how[i]));
        assert_int_equal(result->phase, KILN_PHASE_BUILD);
        assert_int_equal(result->times_ns.build, 9 * MS);
        assert_int_equal(result->built.artefact.size, 0);
        expect_str(result->text, "why not");
        assert_null(find(b, KILN_SERVER_START));
    }
}

static void a_build_that_nobody_waits_for_any_more_comes_to_nothing(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    uint64_t run = send_recipe(b, "a");
    say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_int_equal(kiln_server_counts_of(b->server).waiting, 0);
    built(b, run, KILN_OUTCOME_OK, NULL);
    assert_null(find(b, KILN_SERVER_START));
    run = send_recipe(b, "b");
    say(b,
        &(kiln_message){.type = KILN_MSG_CANCEL,
                        .cancel = {.scope = KILN_CANCEL_TRIAL, .id = KILN_STR("b"), .lease = 7}});
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome, KILN_OUTCOME_INFRA);
    built(b, run, KILN_OUTCOME_OK, NULL);
    assert_null(find(b, KILN_SERVER_START));
}

static void blobs_of_rivals_are_fetched_as_well(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 0);
    kiln_msg_blob_ref rivals[] = {{digest('r'), 10}, {digest('s'), 10}};
    message.trial.rivals.item = rivals;
    message.trial.rivals.count = 2;
    say(b, &message);
    fetched(b, 'a', NULL);
    fetched(b, 1, NULL);
    fetched(b, 's', NULL);
    assert_null(find(b, KILN_SERVER_START));
    fetched(b, 'r', NULL);
    assert_int_equal(find(b, KILN_SERVER_START)->trial->rivals.count, 2);
}

static void vacate(bench *b, uint32_t slot) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = slot, .run = b->run});
}

static void the_next_starts_while_the_last_is_judged(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    uint64_t first = b->run;
    send_trial(b, "b", 7, 0);
    vacate(b, 0);
    expect_str(find(b, KILN_SERVER_START)->trial->trial, "b");
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_int_equal(kiln_server_counts_of(b->server).running, 2);
    uint64_t second = b->run;
    b->run = first;
    finish(b, 0);
    expect_str(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.trial, "a");
    b->run = second;
    vacate(b, 0);
    die(b, 0, "signal 11");
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome, KILN_OUTCOME_CRASH);
}

static void a_trial_that_is_void_while_it_is_judged_is_forgotten(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    vacate(b, 0);
    say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_int_equal(kiln_server_counts_of(b->server).running, 0);
    finish(b, 0);
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void one_trial_per_slot_and_slots_are_apart(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    uint64_t first = b->run;
    send_trial(b, "b", 7, 0);
    assert_int_equal(b->run, first);
    send_trial(b, "c", 8, 1);
    assert_true(b->run > first);
    assert_int_equal(kiln_server_counts_of(b->server).running, 2);
    b->run = first;
    finish(b, 0);
    expect_str(find(b, KILN_SERVER_START)->trial->trial, "b");
}

static void loaded(bench *b, uint32_t slot, uint64_t run) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_LOADED, .slot = slot, .run = run});
}

static void vacated(bench *b, uint32_t slot, uint64_t run) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = slot, .run = run});
}

static bool lets_time(const bench *b, uint32_t slot) {
    const kiln_server_action *time = find(b, KILN_SERVER_TIME);
    return time && time->slot == slot;
}

static void slots_link_side_by_side_and_time_in_turns(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    send_trial(b, "b", 8, 1); /* beside one that links */
    const uint64_t beside = b->run;
    assert_int_not_equal(a, beside);
    loaded(b, 0, a);
    assert_null(find(b, KILN_SERVER_TIME)); /* the other one links */
    loaded(b, 1, beside);
    assert_true(lets_time(b, 0)); /* who came first */
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
    send_trial(b, "c", 7, 0);
    assert_null(find(b, KILN_SERVER_START)); /* nothing is linked beside what times */
    vacated(b, 1, beside);
    assert_non_null(find(b, KILN_SERVER_START));
}

static void who_waits_for_its_turn_goes_before_what_has_not_begun(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 1, beside);
    send_trial(b, "c", 7, 0);
    step(b, &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = 0, .run = a, .text = "gone"});
    assert_true(lets_time(b, 1));
    assert_null(find(b, KILN_SERVER_START));
}

static void no_deadline_runs_while_a_child_waits(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 0, a);
    loaded(b, 1, beside); /* a times: 3 s for its first phase */
    for (int i = 0; i < 2; i++) tick_heard(b, 1400 * MS);
    step(b, &(kiln_server_event){
                .kind = KILN_SERVER_PHASE, .slot = 0, .run = a, .phase = KILN_PHASE_RUN});
    for (int i = 0; i < 2; i++) tick_heard(b, 1900 * MS);
    assert_null(find(b, KILN_SERVER_KILL)); /* b has been there for longer than any phase may */
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
    tick_heard(b, 2900 * MS);
    assert_null(find(b, KILN_SERVER_KILL));
    tick_heard(b, 200 * MS);
    assert_non_null(find(b, KILN_SERVER_KILL));
}

static void a_child_that_is_to_die_disturbs_until_it_is_gone(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 1, beside);
    tick_heard(b, 2100 * MS); /* a is over its deadline for linking */
    assert_non_null(find(b, KILN_SERVER_KILL));
    assert_null(find(b, KILN_SERVER_TIME));
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
}

static void slots_that_do_not_disturb_each_other_time_at_once(void **state) {
    bench *b = *state;
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    static const uint32_t disturbs[] = {0, 0};
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(
        &(kiln_server_options){.board = &up, .disturbs = disturbs, .seed = 1}, b->now_ns);
    connect_to_tracker(b);
    for (uint32_t slot = 0; slot < 2; slot++) {
        send_trial(b, slot ? "b" : "a", 7 + slot, slot);
        assert_false(find(b, KILN_SERVER_START)->waits); /* it goes on when it is linked */
        step(b,
             &(kiln_server_event){
                 .kind = KILN_SERVER_PHASE, .slot = slot, .run = b->run, .phase = KILN_PHASE_RUN});
    }
}

static void a_result_is_sent_again_until_it_is_acknowledged(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    finish(b, 0);
    const kiln_message *result = find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_non_null(result);
    expect_str(result->trial_result.trial, "a");
    assert_int_equal(result->trial_result.lease, 7);
    assert_int_equal(result->trial_result.samples_ns.count, 3);
    tick_after(b, KILN_SERVER_RESEND_NS - 1);
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    tick_after(b, 1);
    assert_non_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {.trial = KILN_STR("a"), .attempt = 1, .lease = 7}};
    say(b, &ack);
    assert_int_equal(kiln_server_counts_of(b->server).kept, 0);
    tick_after(b, KILN_SERVER_RESEND_NS);
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void after_a_reconnect_it_says_what_it_has_and_sends_results_at_once(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    finish(b, 0);
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    tick_after(b, S);
    assert_non_null(find(b, KILN_SERVER_DIAL));
    connect_to_tracker(b);
    const kiln_message *up = find_sent(b, KILN_MSG_BOARD_UP);
    assert_int_equal(up->board_up.running.count, 1);
    expect_str(up->board_up.running.item[0].trial, "a");
    assert_int_equal(up->board_up.running.item[0].lease, 7);
    assert_non_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void a_repeated_trial_does_not_run_again(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    finish(b, 0);
    kiln_message again = trial("a", 7, 0);
    say(b, &again);
    assert_null(find(b, KILN_SERVER_FETCH));
    assert_null(find(b, KILN_SERVER_START));
    assert_non_null(find_sent(b, KILN_MSG_TRIAL_RESULT)); /* but its answer is repeated */
}

static void an_older_lease_is_refused_and_a_newer_one_ends_it(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    send_trial(b, "b", 8, 0);
    kiln_message newer = trial("c", 9, 0);
    say(b, &newer);
    assert_int_equal(kiln_server_counts_of(b->server).running, 1); /* a, which dies */
    kiln_message older = trial("d", 7, 0);
    say(b, &older);
    const kiln_message *error = find_sent(b, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_ABORTED);
    assert_int_equal(error->error.lease, 7);
    kiln_message other_slot = trial("e", 7, 1); /* fences are per slot */
    say(b, &other_slot);
    assert_null(find_sent(b, KILN_MSG_ERROR));
}

static void a_lost_lease_kills_its_child_and_is_forgotten_silently(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    send_trial(b, "b", 7, 0);
    kiln_message lost = {.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}};
    say(b, &lost);
    assert_non_null(find(b, KILN_SERVER_KILL));
    assert_int_equal(find(b, KILN_SERVER_KILL)->run, b->run);
    die(b, 0, "signal 9");
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    kiln_server_counts counts = kiln_server_counts_of(b->server);
    assert_int_equal(counts.waiting + counts.running + counts.kept, 0);
}

static void each_phase_has_its_own_deadline(void **state) {
    bench *b = *state;
    static const uint64_t deadline_ms[] = {0, 0, 2000, 3000, 4000, 5000};
    connect_to_tracker(b);
    for (kiln_phase last = KILN_PHASE_LOAD; last <= KILN_PHASE_CHECK; last++) {
        char id[2] = {(char)('a' + last), 0};
        send_trial(b, id, 7, 0);
        for (kiln_phase phase = KILN_PHASE_WARM; phase <= last; phase++) {
            tick_heard(b, deadline_ms[phase - 1] * MS - 1);
            assert_null(find(b, KILN_SERVER_KILL));
            step(b, &(kiln_server_event){
                        .kind = KILN_SERVER_PHASE, .slot = 0, .run = b->run, .phase = phase});
        }
        tick_heard(b, deadline_ms[last] * MS - 1);
        assert_null(find(b, KILN_SERVER_KILL));
        tick_heard(b, 1);
        assert_non_null(find(b, KILN_SERVER_KILL));
        die(b, 0, "signal 9");
        const kiln_message *result = find_sent(b, KILN_MSG_TRIAL_RESULT);
        assert_non_null(result);
        assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_TIMEOUT);
        assert_int_equal(result->trial_result.phase, last);
        assert_int_equal(result->trial_result.blame, KILN_BLAME_CANDIDATE);
        expect_contains(kiln_str_dup(&b->actions.arena, result->trial_result.text),
                        kiln_phase_name(last));
    }
}

static void a_child_that_dies_by_itself_crashed(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    die(b, 0, "signal 11 in kiln_run");
    const kiln_message *result = find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_CRASH);
    expect_str(result->trial_result.text, "signal 11 in kiln_run");
}

static void events_of_an_earlier_run_are_ignored(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    finish(b, 0);
    uint64_t old = b->run;
    send_trial(b, "b", 7, 0);
    step(b, &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = 0, .run = old, .text = "late"});
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_int_equal(kiln_server_counts_of(b->server).running, 1);
}

static void nothing_is_measured_beside_a_child_that_does_not_die(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    tick_after(b, 2000 * MS);
    assert_non_null(find(b, KILN_SERVER_KILL));
    tick_after(b, KILN_SERVER_KILL_NS);
    assert_true(find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
    send_trial(b, "b", 8, 1);
    assert_null(find(b, KILN_SERVER_START));
    die(b, 0, "gone at last");
    assert_false(find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
    assert_non_null(find(b, KILN_SERVER_START));
}

static void a_sick_board_starts_nothing_until_it_is_well(void **state) {
    bench *b = *state;
    kiln_msg_env env = {.temperature_mc = 90000};
    connect_to_tracker(b);
    step(b, &(kiln_server_event){.kind = KILN_SERVER_READING, .failure = "too hot", .env = &env});
    const kiln_message *told = find_sent(b, KILN_MSG_BOARD_STATE);
    assert_true(told->board_state.sick);
    expect_str(told->board_state.text, "too hot");
    assert_int_equal(told->board_state.env.temperature_mc, 90000);
    send_trial(b, "a", 7, 0);
    assert_null(find(b, KILN_SERVER_START));
    step(b, &(kiln_server_event){.kind = KILN_SERVER_READING, .env = &env});
    assert_non_null(find(b, KILN_SERVER_START));
}

static kiln_server *create_checking(const bench *b) {
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    return kiln_server_create(&(kiln_server_options){.board = &up, .seed = 1, .checks = true},
                              b->now_ns);
}

static void checked(bench *b, uint64_t run, const char *failure) {
    step(b, &(kiln_server_event){.kind = KILN_SERVER_CHECKED, .run = run, .failure = failure});
}

static void it_checks_itself_alone_and_before_anything_else(void **state) {
    bench *b = *state;
    kiln_server_destroy(b->server);
    b->server = create_checking(b);
    connect_to_tracker(b);
    const kiln_server_action *check = find(b, KILN_SERVER_CHECK);
    assert_non_null(check);
    uint64_t run = check->run;
    send_trial(b, "a", 7, 0);
    assert_null(find(b, KILN_SERVER_START));
    checked(b, run + 1, NULL); /* of another */
    assert_null(find(b, KILN_SERVER_START));
    checked(b, run, NULL);
    assert_non_null(find(b, KILN_SERVER_START));
    /* A kill: the other slot's trial ends first, then it looks at itself, then the next begins. */
    send_trial(b, "c", 7, 1);
    uint64_t other = b->run;
    tick_heard(b, 2 * S);
    b->run = other - 1;
    die(b, 0, "signal 9");
    send_trial(b, "d", 7, 0);
    assert_null(find(b, KILN_SERVER_START));
    b->run = other;
    die(b, 1, "signal 9");
    assert_non_null(find(b, KILN_SERVER_CHECK));
    assert_null(find(b, KILN_SERVER_START));
    checked(b, find(b, KILN_SERVER_CHECK)->run, NULL);
    assert_non_null(find(b, KILN_SERVER_START));
}

static void a_board_that_fails_its_check_says_so_and_asks_for_help(void **state) {
    bench *b = *state;
    kiln_server_destroy(b->server);
    b->server = create_checking(b);
    connect_to_tracker(b);
    for (uint32_t i = 0; i < 4; i++) {
        const kiln_server_action *check = find(b, KILN_SERVER_CHECK);
        assert_non_null(check);
        assert_null(find(b, KILN_SERVER_POWER_CYCLE));
        checked(b, check->run, "one bit is wrong");
        const kiln_message *told = find_sent(b, KILN_MSG_BOARD_STATE);
        assert_true(i != 1 || (told && told->board_state.sick));
        if (i < 3) tick_heard(b, S / 2 << i);
    }
    const kiln_server_action *cycle = find(b, KILN_SERVER_POWER_CYCLE);
    assert_non_null(cycle);
    assert_string_equal(cycle->text, "one bit is wrong");
}

static void a_check_that_hangs_is_killed(void **state) {
    bench *b = *state;
    kiln_server_destroy(b->server);
    b->server = create_checking(b);
    connect_to_tracker(b);
    uint64_t run = find(b, KILN_SERVER_CHECK)->run;
    for (int i = 0; i < 10; i++) tick_heard(b, S);
    assert_non_null(find(b, KILN_SERVER_KILL));
    assert_int_equal(find(b, KILN_SERVER_KILL)->run, run);
    assert_true(find_sent(b, KILN_MSG_BOARD_STATE)->board_state.sick);
}

static void a_fetch_that_fails_twice_is_nobodys_candidates_fault(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 0);
    message.trial.deadlines_ms.fetch = 0; /* the default */
    say(b, &message);
    fetched(b, 'a', "no such blob");
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    tick_after(b, 500 * MS);
    assert_non_null(find(b, KILN_SERVER_FETCH));
    fetched(b, 'a', "no such blob");
    const kiln_message *result = find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_INFRA);
    assert_int_equal(result->trial_result.blame, KILN_BLAME_INFRA);
    expect_str(result->trial_result.text, "no such blob");
}

static void a_fetch_that_the_connection_broke_is_repeated_on_the_next(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 0);
    message.trial.deadlines_ms.fetch = 0;
    say(b, &message);
    for (int i = 0; i < 4; i++) {
        fetched(b, 'a', "the connection closed");
        step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
        assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
        tick_after(b, 5 * S);
        connect_to_tracker(b);
        assert_non_null(find(b, KILN_SERVER_FETCH));
    }
    fetched(b, 'a', NULL);
    fetched(b, 1, NULL);
    assert_non_null(find(b, KILN_SERVER_START));
}

static void blobs_that_do_not_come_in_time_end_the_trial(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 0);
    say(b, &message);
    assert_true(kiln_server_next_ns(b->server) <= b->now_ns + S);
    tick_after(b, S);
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome, KILN_OUTCOME_INFRA);
    fetched(b, 'a', NULL); /* late */
    assert_null(find(b, KILN_SERVER_START));
}

static void cancel_ends_a_waiting_and_a_running_trial(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    send_trial(b, "b", 7, 0);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_TRIAL, .id = KILN_STR("b"), .lease = 7}};
    say(b, &cancel);
    assert_int_equal(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome, KILN_OUTCOME_INFRA);
    cancel.cancel.id = KILN_STR("a");
    say(b, &cancel);
    assert_non_null(find(b, KILN_SERVER_KILL));
    say(b, &cancel); /* once more changes nothing */
    assert_null(find(b, KILN_SERVER_KILL));
    die(b, 0, "signal 9");
    expect_str(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.text, "cancelled");
}

static void cancelling_a_lease_ends_all_its_trials_and_no_other(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    send_trial(b, "a", 7, 0);
    send_trial(b, "b", 7, 0);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_LEASE, .lease = 6}};
    say(b, &cancel);
    assert_null(find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_null(find(b, KILN_SERVER_KILL));
    cancel.cancel.lease = 7;
    say(b, &cancel);
    expect_str(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.trial, "b"); /* it waited */
    assert_non_null(find(b, KILN_SERVER_KILL));
    die(b, 0, "signal 9");
    expect_str(find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.text, "cancelled");
}

static void a_slot_that_does_not_exist_is_refused(void **state) {
    bench *b = *state;
    connect_to_tracker(b);
    kiln_message message = trial("a", 7, 2);
    say(b, &message);
    assert_int_equal(find_sent(b, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

static void more_trials_than_it_can_hold_are_refused(void **state) {
    bench *b = *state;
    char id[8];
    connect_to_tracker(b);
    for (uint32_t i = 0; i <= KILN_SERVER_TRIALS_MAX; i++) {
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text, "t%u", i);
        for (size_t c = 0; c <= text.size; c++) id[c] = text.data[c];
        kiln_strbuf_deinit(&text);
        kiln_message message = trial(id, 7, 0);
        say(b, &message);
    }
    assert_int_equal(find_sent(b, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_server_counts_of(b->server).waiting, KILN_SERVER_TRIALS_MAX);
}

static void a_silent_tracker_is_hung_up_and_dialled_again(void **state) {
    bench *b = *state;
    tick_after(b, 0);
    connect_to_tracker(b);
    bool pinged = false, hung_up = false, dialled = false;
    for (int i = 0; i < 10 && !dialled; i++) {
        tick_after(b, kiln_server_next_ns(b->server) - b->now_ns);
        pinged |= find_sent(b, KILN_MSG_PING) != NULL;
        hung_up |= find(b, KILN_SERVER_HANG_UP) != NULL;
        dialled |= hung_up && find(b, KILN_SERVER_DIAL) != NULL;
    }
    assert_true(pinged);
    assert_true(dialled);
    assert_true(b->now_ns - 50 * S < 8 * S);
}

#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(it_dials_and_introduces_itself),
        test(blobs_are_fetched_first_and_then_the_child_starts),
        test(blobs_of_rivals_are_fetched_as_well),
        test(a_recipe_is_built_from_its_blobs_and_then_measured),
        test(the_next_is_built_while_one_is_measured),
        test(what_cannot_be_built_ends_with_its_name),
        test(a_build_that_nobody_waits_for_any_more_comes_to_nothing),
        test(the_next_starts_while_the_last_is_judged),
        test(a_trial_that_is_void_while_it_is_judged_is_forgotten),
        test(one_trial_per_slot_and_slots_are_apart),
        test(slots_link_side_by_side_and_time_in_turns),
        test(who_waits_for_its_turn_goes_before_what_has_not_begun),
        test(no_deadline_runs_while_a_child_waits),
        test(a_child_that_is_to_die_disturbs_until_it_is_gone),
        test(slots_that_do_not_disturb_each_other_time_at_once),
        test(a_result_is_sent_again_until_it_is_acknowledged),
        test(after_a_reconnect_it_says_what_it_has_and_sends_results_at_once),
        test(a_repeated_trial_does_not_run_again),
        test(an_older_lease_is_refused_and_a_newer_one_ends_it),
        test(a_lost_lease_kills_its_child_and_is_forgotten_silently),
        test(each_phase_has_its_own_deadline),
        test(a_child_that_dies_by_itself_crashed),
        test(events_of_an_earlier_run_are_ignored),
        test(nothing_is_measured_beside_a_child_that_does_not_die),
        test(a_sick_board_starts_nothing_until_it_is_well),
        test(it_checks_itself_alone_and_before_anything_else),
        test(a_board_that_fails_its_check_says_so_and_asks_for_help),
        test(a_check_that_hangs_is_killed),
        test(a_fetch_that_fails_twice_is_nobodys_candidates_fault),
        test(a_fetch_that_the_connection_broke_is_repeated_on_the_next),
        test(blobs_that_do_not_come_in_time_end_the_trial),
        test(cancel_ends_a_waiting_and_a_running_trial),
        test(cancelling_a_lease_ends_all_its_trials_and_no_other),
        test(a_slot_that_does_not_exist_is_refused),
        test(more_trials_than_it_can_hold_are_refused),
        test(a_silent_tracker_is_hung_up_and_dialled_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
