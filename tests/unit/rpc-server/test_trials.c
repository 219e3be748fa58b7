/* What a server decides about trials: their blobs, slots, turns and deadlines. */
#include "rpc-server/health.h"
#include "tests/unit/rpc-server/bench.h"

static void blobs_are_fetched_first_and_then_the_child_starts(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    bench_say(b, &message);
    uint32_t fetches = 0;
    for (uint32_t i = 0; i < b->actions.list.count; i++)
        fetches += b->actions.list.data[i].kind == KILN_SERVER_FETCH;
    assert_int_equal(fetches, 2);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_fetched(b, 'a', NULL);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_fetched(b, 1, NULL);
    const kiln_server_action *started = bench_find(b, KILN_SERVER_START);
    assert_non_null(started);
    expect_str(started->trial->trial, "a");
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_EVENT)->trial_event.phase, KILN_PHASE_LOAD);
}

static void a_module_that_is_larger_than_the_slots_share_of_memory_is_refused_unseen(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.module = (kiln_msg_module_run){.threads = 1, .output_bytes = 64};
    message.trial.artefact.size = BENCH_MEMORY_BYTES / 2; /* of two slots, and most is not all */
    bench_say(b, &message);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    const kiln_message *refused = bench_find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_non_null(refused);
    assert_int_equal(refused->trial_result.outcome, KILN_OUTCOME_INFRA);
    expect_contains(kiln_str_dup(&b->actions.arena, refused->trial_result.text), "more memory");
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_connect_to_tracker(b);
    assert_non_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_null(bench_find(b, KILN_SERVER_FETCH)); /* also not for a result that is said again */
    message = bench_trial("b", 7, 0);
    message.trial.reference.size = 10;
    message.trial.module = (kiln_msg_module_run){.threads = 1, .output_bytes = 64};
    message.trial.artefact.size = BENCH_MEMORY_BYTES / 8 * 3 - 74;
    bench_say(b, &message); /* all of the share */
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    message.trial.trial = KILN_STR("c");
    message.trial.artefact.size++;
    bench_say(b, &message);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    message.trial.trial = KILN_STR("d");
    message.trial.artefact.size = BENCH_MEMORY_BYTES;
    message.trial.module = (kiln_msg_module_run){0}; /* the bound is of modules only */
    bench_say(b, &message);
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
}

static void a_board_of_unknown_memory_refuses_no_module(void **state) {
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    bench *b = *state;
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(&(kiln_server_options){.board = &up, .seed = 1}, b->now_ns);
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.module = (kiln_msg_module_run){.threads = 1, .output_bytes = 64};
    bench_say(b, &message);
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
}

/* A trial of lease 7 that brings a recipe, whose program is 'p'. */
static kiln_message recipe_trial(const char *id) {
    kiln_message message = bench_trial(id, 7, 0);
    message.trial.artefact = (kiln_msg_blob_ref){0};
    message.trial.recipe = (kiln_msg_recipe){.program = {bench_digest('p'), 30},
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
    bench_say(b, &message);
    bench_fetched(b, 'p', NULL);
    bench_fetched(b, 1, NULL);
    const kiln_server_action *build = bench_find(b, KILN_SERVER_BUILD);
    assert_non_null(build);
    return build->run;
}

static void built(bench *b, uint64_t run, kiln_outcome outcome, const char *text) {
    const kiln_msg_built what = {.artefact = {bench_digest('o'), 40},
                                 .algorithm = KILN_STR("direct"),
                                 .layout_in = KILN_STR("I")};
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_BUILT,
                                       .run = run,
                                       .outcome = outcome,
                                       .text = text,
                                       .built = &what,
                                       .assembled = {.registers = 255, .spill_bytes = 160},
                                       .spent_ns = 9 * BENCH_MS});
}

static void a_recipe_is_built_from_its_blobs_and_then_measured(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = recipe_trial("a");
    bench_say(b, &message);
    bench_fetched(b, 1, NULL);
    assert_null(bench_find(b, KILN_SERVER_BUILD));
    bench_fetched(b, 'p', NULL);
    const kiln_server_action *build = bench_find(b, KILN_SERVER_BUILD);
    assert_non_null(build);
    expect_str(build->trial->recipe.trace, "trace");
    assert_int_equal(build->deadline_ns, 6000 * BENCH_MS);
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_EVENT)->trial_event.phase, KILN_PHASE_BUILD);
    assert_null(bench_find(b, KILN_SERVER_START));
    b->now_ns += 100 * BENCH_MS;
    built(b, build->run, KILN_OUTCOME_OK, NULL);
    const kiln_server_action *started = bench_find(b, KILN_SERVER_START);
    assert_non_null(started);
    assert_int_equal(started->trial->artefact.digest.byte[0], 'o');
    bench_finish(b, 0);
    const kiln_msg_trial_result *result = &bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
    assert_int_equal(result->built.artefact.digest.byte[0], 'o');
    expect_str(result->built.algorithm, "direct");
    expect_str(result->built.layout_in, "I");
    assert_int_equal(result->assembled.registers, 255);
    assert_int_equal(result->times_ns.build, 9 * BENCH_MS);
}

static void the_next_is_built_while_one_is_measured(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t measured = b->run, build = send_recipe(b, "b");
    assert_int_equal(kiln_server_counts_of(b->server).waiting, 1);
    built(b, build, KILN_OUTCOME_OK, NULL);
    assert_null(bench_find(b, KILN_SERVER_START));
    b->run = measured;
    bench_finish(b, 0);
    expect_str(bench_find(b, KILN_SERVER_START)->trial->trial, "b");
}

static void what_cannot_be_built_ends_with_its_name(void **state) {
    static const kiln_outcome how[] = {KILN_OUTCOME_BUILD_ERROR, KILN_OUTCOME_LINK_ERROR,
                                       KILN_OUTCOME_TIMEOUT, KILN_OUTCOME_INFRA};
    bench *b = *state;
    bench_connect_to_tracker(b);
    for (uint32_t i = 0; i < 4; i++) {
        const char id[] = {(char)('a' + i), 0};
        built(b, send_recipe(b, id), how[i], "why not");
        const kiln_msg_trial_result *result =
            &bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
        assert_int_equal(result->outcome, how[i]);
        assert_int_equal(result->blame, kiln_outcome_blame(how[i]));
        assert_int_equal(result->phase, KILN_PHASE_BUILD);
        assert_int_equal(result->times_ns.build, 9 * BENCH_MS);
        assert_int_equal(result->built.artefact.size, 0);
        assert_int_equal(result->assembled.spill_bytes, 160);
        expect_str(result->text, "why not");
        assert_null(bench_find(b, KILN_SERVER_START));
    }
}

static void a_build_that_nobody_waits_for_any_more_comes_to_nothing(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    uint64_t run = send_recipe(b, "a");
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_int_equal(kiln_server_counts_of(b->server).waiting, 0);
    built(b, run, KILN_OUTCOME_OK, NULL);
    assert_null(bench_find(b, KILN_SERVER_START));
    run = send_recipe(b, "b");
    bench_say(b, &(kiln_message){
                     .type = KILN_MSG_CANCEL,
                     .cancel = {.scope = KILN_CANCEL_TRIAL, .id = KILN_STR("b"), .lease = 7}});
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome,
                     KILN_OUTCOME_INFRA);
    built(b, run, KILN_OUTCOME_OK, NULL);
    assert_null(bench_find(b, KILN_SERVER_START));
}

static void blobs_of_rivals_are_fetched_as_well(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    kiln_msg_blob_ref rivals[] = {{bench_digest('r'), 10}, {bench_digest('s'), 10}};
    message.trial.rivals.item = rivals;
    message.trial.rivals.count = 2;
    bench_say(b, &message);
    bench_fetched(b, 'a', NULL);
    bench_fetched(b, 1, NULL);
    bench_fetched(b, 's', NULL);
    assert_null(bench_find(b, KILN_SERVER_START));
    bench_fetched(b, 'r', NULL);
    assert_int_equal(bench_find(b, KILN_SERVER_START)->trial->rivals.count, 2);
}

static void vacate(bench *b, uint32_t slot) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = slot, .run = b->run});
}

static void the_next_starts_while_the_last_is_judged(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    uint64_t first = b->run;
    bench_send_trial(b, "b", 7, 0);
    vacate(b, 0);
    expect_str(bench_find(b, KILN_SERVER_START)->trial->trial, "b");
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    assert_int_equal(kiln_server_counts_of(b->server).running, 2);
    uint64_t second = b->run;
    b->run = first;
    bench_finish(b, 0);
    expect_str(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.trial, "a");
    b->run = second;
    vacate(b, 0);
    bench_die(b, 0, "signal 11");
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome,
                     KILN_OUTCOME_CRASH);
}

static void a_trial_that_is_void_while_it_is_judged_is_forgotten(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    vacate(b, 0);
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_int_equal(kiln_server_counts_of(b->server).running, 0);
    bench_finish(b, 0);
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
}

static void one_trial_per_slot_and_slots_are_apart(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    uint64_t first = b->run;
    bench_send_trial(b, "b", 7, 0);
    assert_int_equal(b->run, first);
    bench_send_trial(b, "c", 8, 1);
    assert_true(b->run > first);
    assert_int_equal(kiln_server_counts_of(b->server).running, 2);
    b->run = first;
    bench_finish(b, 0);
    expect_str(bench_find(b, KILN_SERVER_START)->trial->trial, "b");
}

static void loaded(bench *b, uint32_t slot, uint64_t run) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LOADED, .slot = slot, .run = run});
}

static void vacated(bench *b, uint32_t slot, uint64_t run) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = slot, .run = run});
}

static bool lets_time(const bench *b, uint32_t slot) {
    const kiln_server_action *time = bench_find(b, KILN_SERVER_TIME);
    return time && time->slot == slot;
}

static void slots_link_side_by_side_and_time_in_turns(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    bench_send_trial(b, "b", 8, 1); /* beside one that links */
    const uint64_t beside = b->run;
    assert_int_not_equal(a, beside);
    loaded(b, 0, a);
    assert_null(bench_find(b, KILN_SERVER_TIME)); /* the other one links */
    loaded(b, 1, beside);
    assert_true(lets_time(b, 0)); /* who came first */
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
    bench_send_trial(b, "c", 7, 0);
    assert_null(bench_find(b, KILN_SERVER_START)); /* nothing is linked beside what times */
    vacated(b, 1, beside);
    assert_non_null(bench_find(b, KILN_SERVER_START));
}

static void who_waits_for_its_turn_goes_before_what_has_not_begun(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    bench_send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 1, beside);
    bench_send_trial(b, "c", 7, 0);
    bench_step(b,
               &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = 0, .run = a, .text = "gone"});
    assert_true(lets_time(b, 1));
    assert_null(bench_find(b, KILN_SERVER_START));
}

static void no_deadline_runs_while_a_child_waits(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    bench_send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 0, a);
    loaded(b, 1, beside); /* a times: 3 s for its first phase */
    for (int i = 0; i < 2; i++) bench_tick_heard(b, 1400 * BENCH_MS);
    bench_step(b, &(kiln_server_event){
                      .kind = KILN_SERVER_PHASE, .slot = 0, .run = a, .phase = KILN_PHASE_RUN});
    for (int i = 0; i < 2; i++) bench_tick_heard(b, 1900 * BENCH_MS);
    assert_null(
        bench_find(b, KILN_SERVER_KILL)); /* b has been there for longer than any phase may */
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
    bench_tick_heard(b, 2900 * BENCH_MS);
    assert_null(bench_find(b, KILN_SERVER_KILL));
    bench_tick_heard(b, 200 * BENCH_MS);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
}

static void a_child_that_is_to_die_disturbs_until_it_is_gone(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    bench_send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 1, beside);
    bench_tick_heard(b, 2100 * BENCH_MS); /* a is over its deadline for linking */
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    assert_null(bench_find(b, KILN_SERVER_TIME));
    vacated(b, 0, a);
    assert_true(lets_time(b, 1));
}

/* It may be beyond linking before it hears of that. */
static void a_child_that_waited_and_is_to_die_disturbs_too(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    const uint64_t a = b->run;
    bench_send_trial(b, "b", 8, 1);
    const uint64_t beside = b->run;
    loaded(b, 1, beside);
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 8}});
    loaded(b, 0, a);
    assert_null(bench_find(b, KILN_SERVER_TIME));
    vacated(b, 1, beside);
    assert_true(lets_time(b, 0));
}

static void slots_that_do_not_disturb_each_other_time_at_once(void **state) {
    bench *b = *state;
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    static const uint32_t disturbs[] = {0, 0};
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(
        &(kiln_server_options){.board = &up, .disturbs = disturbs, .seed = 1}, b->now_ns);
    bench_connect_to_tracker(b);
    for (uint32_t slot = 0; slot < 2; slot++) {
        bench_send_trial(b, slot ? "b" : "a", 7 + slot, slot);
        assert_false(bench_find(b, KILN_SERVER_START)->waits); /* it goes on when it is linked */
        bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_PHASE,
                                           .slot = slot,
                                           .run = b->run,
                                           .phase = KILN_PHASE_RUN});
    }
}

static void each_phase_has_its_own_deadline(void **state) {
    bench *b = *state;
    static const uint64_t deadline_ms[] = {0, 0, 2000, 3000, 4000, 5000};
    bench_connect_to_tracker(b);
    for (kiln_phase last = KILN_PHASE_LOAD; last <= KILN_PHASE_CHECK; last++) {
        char id[2] = {(char)('a' + last), 0};
        bench_send_trial(b, id, 7, 0);
        for (kiln_phase phase = KILN_PHASE_WARM; phase <= last; phase++) {
            bench_tick_heard(b, deadline_ms[phase - 1] * BENCH_MS - 1);
            assert_null(bench_find(b, KILN_SERVER_KILL));
            bench_step(b, &(kiln_server_event){
                              .kind = KILN_SERVER_PHASE, .slot = 0, .run = b->run, .phase = phase});
        }
        bench_tick_heard(b, deadline_ms[last] * BENCH_MS - 1);
        assert_null(bench_find(b, KILN_SERVER_KILL));
        bench_tick_heard(b, 1);
        assert_non_null(bench_find(b, KILN_SERVER_KILL));
        bench_die(b, 0, "signal 9");
        const kiln_message *result = bench_find_sent(b, KILN_MSG_TRIAL_RESULT);
        assert_non_null(result);
        assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_TIMEOUT);
        assert_int_equal(result->trial_result.phase, last);
        assert_int_equal(result->trial_result.blame, KILN_BLAME_CANDIDATE);
        expect_contains(kiln_str_dup(&b->actions.arena, result->trial_result.text),
                        kiln_phase_name(last));
    }
}

static void a_phase_that_is_told_again_gets_no_new_deadline(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_tick_heard(b, 1500 * BENCH_MS);
    bench_step(b,
               &(kiln_server_event){
                   .kind = KILN_SERVER_PHASE, .slot = 0, .run = b->run, .phase = KILN_PHASE_LOAD});
    bench_tick_heard(b, 500 * BENCH_MS);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
}

static void no_phase_lasts_for_more_than_ten_minutes(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.deadlines_ms.load = 3600 * 1000;
    bench_say(b, &message);
    bench_fetched(b, 'a', NULL);
    bench_fetched(b, 1, NULL);
    bench_tick_heard(b, 600 * BENCH_S - 1);
    assert_null(bench_find(b, KILN_SERVER_KILL));
    bench_tick_heard(b, 1);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
}

static void a_result_that_was_there_before_the_kill_counts(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_tick_heard(b, 2 * BENCH_S);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    bench_finish(b, 0);
    const kiln_msg_trial_result *result = &bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result;
    assert_int_equal(result->outcome, KILN_OUTCOME_OK);
    assert_int_equal(result->samples_ns.count, 3);
}

static void it_wakes_for_a_child_that_is_to_die_and_rests_when_that_stays(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    assert_true(kiln_server_next_ns(b->server) <= b->now_ns + 2 * BENCH_S);
    bench_tick_heard(b, 1900 * BENCH_MS);
    bench_tick_heard(b, 100 * BENCH_MS);
    assert_non_null(bench_find(b, KILN_SERVER_KILL));
    bench_tick_heard(b, KILN_SERVER_KILL_NS);
    assert_true(kiln_server_counts_of(b->server).sick);
    assert_true(kiln_server_next_ns(b->server) > b->now_ns);
}

static void a_board_whose_candidates_crash_in_a_row_checks_itself(void **state) {
    bench *b = *state;
    bench_check_itself(b);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, NULL);
    for (uint32_t i = 0; i < KILN_HEALTH_FAULTS; i++) {
        assert_null(bench_find(b, KILN_SERVER_CHECK));
        bench_send_trial(b, (const char[]){(char)('a' + i), 0}, 7, 0);
        bench_die(b, 0, "signal 11");
    }
    assert_non_null(bench_find(b, KILN_SERVER_CHECK));
}

static void candidates_that_cannot_be_built_say_nothing_of_the_board(void **state) {
    bench *b = *state;
    bench_check_itself(b);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, NULL);
    for (uint32_t i = 0; i < KILN_HEALTH_FAULTS; i++) {
        built(b, send_recipe(b, (const char[]){(char)('a' + i), 0}), KILN_OUTCOME_TIMEOUT, "late");
        assert_null(bench_find(b, KILN_SERVER_CHECK));
    }
}

static void a_child_that_dies_by_itself_crashed(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    bench_send_trial(b, "a", 7, 0);
    bench_die(b, 0, "signal 11 in kiln_run");
    const kiln_message *result = bench_find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_CRASH);
    expect_str(result->trial_result.text, "signal 11 in kiln_run");
}

static void a_fetch_that_fails_twice_is_nobodys_candidates_fault(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.deadlines_ms.fetch = 0; /* the default */
    bench_say(b, &message);
    bench_fetched(b, 'a', "no such blob");
    assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
    bench_tick_after(b, 500 * BENCH_MS);
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    bench_fetched(b, 'a', "no such blob");
    const kiln_message *result = bench_find_sent(b, KILN_MSG_TRIAL_RESULT);
    assert_int_equal(result->trial_result.outcome, KILN_OUTCOME_INFRA);
    assert_int_equal(result->trial_result.blame, KILN_BLAME_INFRA);
    expect_str(result->trial_result.text, "no such blob");
}

static void a_fetch_that_the_connection_broke_is_repeated_on_the_next(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.deadlines_ms.fetch = 0;
    bench_say(b, &message);
    for (int i = 0; i < 4; i++) {
        bench_fetched(b, 'a', "the connection closed");
        bench_fetched(b, 1, "the connection closed"); /* all that was on its way */
        assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
        bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
        assert_null(bench_find_sent(b, KILN_MSG_TRIAL_RESULT));
        bench_tick_after(b, 5 * BENCH_S);
        bench_connect_to_tracker(b);
        assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    }
    bench_fetched(b, 'a', NULL);
    bench_fetched(b, 1, NULL);
    assert_non_null(bench_find(b, KILN_SERVER_START));
}

/* What was on its way fails after the connection, and that says nothing of the blob. */
static void a_fetch_that_failed_before_the_connection_broke_may_fail_with_it(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    message.trial.deadlines_ms.fetch = 0;
    bench_say(b, &message);
    bench_fetched(b, 'a', "no such blob");
    bench_tick_after(b, 500 * BENCH_MS);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_fetched(b, 'a', "the connection closed");
    assert_int_equal(kiln_server_counts_of(b->server).waiting, 1);
}

static void blobs_that_do_not_come_in_time_end_the_trial(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    kiln_message message = bench_trial("a", 7, 0);
    bench_say(b, &message);
    assert_true(kiln_server_next_ns(b->server) <= b->now_ns + BENCH_S);
    bench_tick_after(b, BENCH_S);
    assert_int_equal(bench_find_sent(b, KILN_MSG_TRIAL_RESULT)->trial_result.outcome,
                     KILN_OUTCOME_INFRA);
    bench_fetched(b, 'a', NULL); /* late */
    assert_null(bench_find(b, KILN_SERVER_START));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_bench(blobs_are_fetched_first_and_then_the_child_starts),
        test_with_bench(blobs_of_rivals_are_fetched_as_well),
        test_with_bench(a_module_that_is_larger_than_the_slots_share_of_memory_is_refused_unseen),
        test_with_bench(a_board_of_unknown_memory_refuses_no_module),
        test_with_bench(a_recipe_is_built_from_its_blobs_and_then_measured),
        test_with_bench(the_next_is_built_while_one_is_measured),
        test_with_bench(what_cannot_be_built_ends_with_its_name),
        test_with_bench(a_build_that_nobody_waits_for_any_more_comes_to_nothing),
        test_with_bench(the_next_starts_while_the_last_is_judged),
        test_with_bench(a_trial_that_is_void_while_it_is_judged_is_forgotten),
        test_with_bench(one_trial_per_slot_and_slots_are_apart),
        test_with_bench(slots_link_side_by_side_and_time_in_turns),
        test_with_bench(who_waits_for_its_turn_goes_before_what_has_not_begun),
        test_with_bench(no_deadline_runs_while_a_child_waits),
        test_with_bench(a_child_that_is_to_die_disturbs_until_it_is_gone),
        test_with_bench(a_child_that_waited_and_is_to_die_disturbs_too),
        test_with_bench(slots_that_do_not_disturb_each_other_time_at_once),
        test_with_bench(each_phase_has_its_own_deadline),
        test_with_bench(a_phase_that_is_told_again_gets_no_new_deadline),
        test_with_bench(no_phase_lasts_for_more_than_ten_minutes),
        test_with_bench(a_result_that_was_there_before_the_kill_counts),
        test_with_bench(it_wakes_for_a_child_that_is_to_die_and_rests_when_that_stays),
        test_with_bench(a_board_whose_candidates_crash_in_a_row_checks_itself),
        test_with_bench(candidates_that_cannot_be_built_say_nothing_of_the_board),
        test_with_bench(a_child_that_dies_by_itself_crashed),
        test_with_bench(a_fetch_that_fails_twice_is_nobodys_candidates_fault),
        test_with_bench(a_fetch_that_the_connection_broke_is_repeated_on_the_next),
        test_with_bench(a_fetch_that_failed_before_the_connection_broke_may_fail_with_it),
        test_with_bench(blobs_that_do_not_come_in_time_end_the_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
