#include <string.h>

#include "tests/unit/tracker/fleet.h"

static const uint64_t everybody[] = {10, 20, 30, 0};

static kiln_message done_message(kiln_code code) {
    return (kiln_message){
        .type = KILN_MSG_JOB_DONE,
        .job_done = {
            .job = KILN_STR("j"), .code = (uint32_t)code, .trials = 8, .records = {{1, 2, 3}}}};
}

static void a_job_is_on_disk_before_it_is_answered(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_STATE));
    fleet_persist(f, NULL);
    const kiln_message *answer = fleet_take(f, 30, KILN_MSG_JOB_STATE);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 1);
    assert_int_equal(answer->job_state.state, KILN_JOB_WAITING);
}

static void a_job_with_a_name_that_is_no_line_is_refused(void **state) {
    fleet *f = *state;
    kiln_message open = fleet_job("j", false), odd[4];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(odd); i++) odd[i] = open;
    odd[0].job_open.job = KILN_STR("a\nforged");
    odd[1].job_open.spec.model_name = KILN_STR("a\x1b[2J.onnx");
    odd[2].job_open.spec.project = KILN_STR("a\tb");
    kiln_msg_label label = {KILN_STR("room"), KILN_STR("1\r")};
    odd[3].job_open.spec.labels.item = &label;
    odd[3].job_open.spec.labels.count = 1;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(odd); i++) {
        fleet_say(f, 30, &odd[i]);
        const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
        assert_non_null(error);
        assert_int_equal(error->error.code, KILN_INVALID_ARGUMENT);
        expect_contains(error->error.text.data, "one line of plain text");
        assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
    }
    fleet_say(f, 30, &open);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 1);
}

/* So that a job of before the rule can be ended. */
static void what_ends_a_job_may_name_any(void **state) {
    fleet *f = *state;
    const kiln_message cancel = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("a\nb")}};
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_say(f, 30, &cancel);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
}

static void a_job_needs_its_model_and_then_its_records(void **state) {
    fleet *f = *state;
    kiln_digest digest[KILN_TRACKER_JOB_BLOBS_MAX];
    kiln_message open = fleet_job("j", false), done = done_message(KILN_OK);
    open.job_open.spec.model.byte[0] = 9;
    open.job_open.spec.records.byte[0] = 7;
    open.job_open.spec.by_hand.byte[0] = 8;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    assert_int_equal(kiln_tracker_job_blobs(f->t, KILN_STR("j"), digest), 0);
    fleet_say(f, 30, &open);
    assert_int_equal(kiln_tracker_job_blobs(f->t, KILN_STR("j"), digest), 3);
    assert_true(kiln_digest_equal(&digest[0], &open.job_open.spec.model));
    assert_true(kiln_digest_equal(&digest[1], &open.job_open.spec.records));
    assert_true(kiln_digest_equal(&digest[2], &open.job_open.spec.by_hand));
    fleet_say(f, 20, &done);
    assert_int_equal(kiln_tracker_job_blobs(f->t, KILN_STR("j"), digest), 1);
    assert_true(kiln_digest_equal(&digest[0], &done.job_done.records));
}

static void a_job_that_cannot_be_kept_is_refused(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false);
    fleet_persist(f, "the disk is full");
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
}

static void a_tuner_hears_of_its_job_when_that_is_on_disk(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false);
    fleet_persist(f, NULL);
    fleet_tuner(f, 21, "tuner", "t");
    fleet_wait(f, FLEET_S, everybody);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    assert_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
    fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
    assert_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
}

static void a_job_whose_tuner_cannot_be_kept_waits_for_another_look(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false);
    fleet_persist(f, NULL);
    fleet_persist(f, "the disk is full");
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    assert_int_equal(kiln_tracker_job_find(f->t, KILN_STR("j"))->state, KILN_JOB_WAITING);
    f->hold_disk = false;
    fleet_wait(f, FLEET_S, everybody);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
}

static void a_job_that_is_cancelled_before_its_tuner_heard_of_it_comes_with_that(void **state) {
    fleet *f = *state;
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    f->hold_disk = true;
    fleet_open_job(f, 30, "j", false);
    fleet_persist(f, NULL);
    fleet_say(f, 30, &cancel);
    while (f->persists.count) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    assert_non_null(fleet_take(f, 20, KILN_MSG_CANCEL));
    assert_null(fleet_take(f, 20, KILN_MSG_CANCEL));
}

static void the_least_loaded_tuner_gets_it(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner-a", "a");
    fleet_tuner(f, 21, "tuner-b", "b");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 30, "j1", false);
    fleet_open_job(f, 30, "j2", false);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    assert_non_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
}

/* The model of such a job is a graph, which tuners read from version 4 of the protocol on. */
static void a_graph_goes_to_a_tuner_that_reads_graphs(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    kiln_message open = fleet_job("graph", false);
    open.job_open.spec.form = KILN_MODEL_FORM_GRAPH;
    fleet_board(f, 10, "board", 1);
    f->version = KILN_PROTO_TAKES_GRAPHS - 1;
    fleet_tuner(f, 20, "older", "a");
    f->version = 0;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_say(f, 30, &open);
    fleet_wait(f, FLEET_S, alive);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    fleet_open_job(f, 30, "onnx", false);
    expect_str(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.job, "onnx");
    fleet_tuner(f, 21, "newer", "b");
    fleet_wait(f, FLEET_S, alive);
    const kiln_msg_job_assign *assign = &fleet_take(f, 21, KILN_MSG_JOB_ASSIGN)->job_assign;
    expect_str(assign->job, "graph");
    assert_int_equal(assign->spec.form, KILN_MODEL_FORM_GRAPH);
}

static void without_a_tuner_that_reads_graphs_the_job_says_so(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    kiln_message open = fleet_job("j", false);
    open.job_open.spec.form = KILN_MODEL_FORM_GRAPH;
    fleet_board(f, 10, "board", 1);
    f->version = KILN_PROTO_TAKES_GRAPHS - 1;
    fleet_tuner(f, 20, "older", "a");
    f->version = 0;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_say(f, 30, &open);
    fleet_wait(f, 11 * FLEET_S, alive);
    const kiln_msg_job_done *done = &fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done;
    assert_int_equal(done->code, KILN_UNAVAILABLE);
    expect_str(done->text, "no kiln-tuner at the tracker reads graphs: they are older than the "
                           "command (bring them up to date)");
}

static void a_tuner_that_has_its_fill_gets_the_next_when_one_ends(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 30, "j", false);
    for (uint32_t i = 1; i < KILN_TRACKER_TUNER_JOBS; i++)
        fleet_open_job(f, 30, kiln_arena_printf(&f->arena, "j%u", i), false);
    fleet_open_job(f, 30, "last", false);
    for (uint32_t i = 0; i < KILN_TRACKER_TUNER_JOBS; i++)
        assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    fleet_wait(f, 60 * FLEET_S, alive);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
    kiln_message done = done_message(KILN_OK);
    fleet_say(f, 20, &done);
    fleet_wait(f, FLEET_S, alive);
    expect_str(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.job, "last");
}

static void a_job_waits_ten_seconds_and_then_names_what_is_missing(void **state) {
    fleet *f = *state;
    static const uint64_t client[] = {30, 0};
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 30, "j", false);
    fleet_wait(f, 9 * FLEET_S, client);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
    fleet_wait(f, 2 * FLEET_S, client);
    const kiln_message *done = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(done);
    assert_int_equal(done->job_done.code, KILN_UNAVAILABLE);
    expect_str(done->job_done.text,
               "no kiln-tuner is connected to the tracker, and no board that runs " FLEET_TARGET
               " is connected");
}

static void with_a_tuner_only_the_board_is_named(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {20, 30, 0};
    fleet_tuner(f, 20, "tuner", "t");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 30, "j", false);
    fleet_wait(f, 11 * FLEET_S, alive);
    expect_str(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.text,
               "no board that runs " FLEET_TARGET " is connected");
}

static void a_detached_job_waits_for_as_long_as_it_takes(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 30, "j", true);
    fleet_disconnect(f, 30);
    fleet_wait(f, 3600 * FLEET_S, NULL);
    fleet_tuner(f, 20, "tuner", "t");
    fleet_board(f, 10, "board", 1);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
}

static void a_bad_target_is_refused(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    kiln_message open = fleet_job("j", false);
    open.job_open.spec.target = KILN_STR("nonsense");
    fleet_say(f, 30, &open);
    const kiln_message *error = fleet_take(f, 30, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_INVALID_ARGUMENT);
    open = fleet_job("", false);
    fleet_say(f, 30, &open);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

static void opening_again_attaches_and_another_spec_is_refused(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "c2");
    fleet_open_job(f, 31, "j", false);
    assert_non_null(fleet_take(f, 31, KILN_MSG_JOB_STATE));
    kiln_message other = fleet_job("j", false);
    other.job_open.spec.trials = 9;
    fleet_say(f, 31, &other);
    assert_int_equal(fleet_take(f, 31, KILN_MSG_ERROR)->error.code, KILN_ALREADY_EXISTS);
}

static const char *opened(fleet *f, uint64_t client, const char *id) {
    fleet_forget_sent(f);
    fleet_open_job(f, client, id, true);
    const kiln_message *state = fleet_take(f, client, KILN_MSG_JOB_STATE);
    assert_non_null(state);
    return kiln_str_dup(&f->arena, state->job_state.job);
}

static void end_job(fleet *f, const char *id) {
    kiln_message done = {.type = KILN_MSG_JOB_DONE, .job_done = {.job = kiln_str_from(id)}};
    fleet_say(f, 20, &done);
    fleet_disconnect(f, 30);
}

static uint32_t rows_of(fleet *f, const char *id, const char **out_id) {
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .query = {.topic = KILN_TOPIC_JOB, .id = kiln_str_from(id)}};
    fleet_connect(f, 35, KILN_PEER_CLIENT, "asker", "asker");
    fleet_say(f, 35, &query);
    const kiln_message *answer = fleet_take(f, 35, KILN_MSG_ANSWER);
    fleet_disconnect(f, 35);
    if (!answer) return 0;
    *out_id = kiln_str_dup(&f->arena, answer->answer.jobs.item[0].job);
    return answer->answer.jobs.count;
}

/* As the command of every night, whose first run another restart of the tracker lies behind. */
static void a_detached_job_that_ended_runs_anew_when_its_command_comes_again(void **state) {
    fleet *f = *state;
    const char *id = NULL;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "11111111-client");
    assert_string_equal(opened(f, 30, "nightly"), "nightly");
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "22222222-client");
    kiln_message again = fleet_job("nightly", true);
    again.job_open.spec.records.byte[0] = 7; /* it knows more by now */
    fleet_say(f, 31, &again);
    expect_str(fleet_take(f, 31, KILN_MSG_JOB_STATE)->job_state.job, "nightly"); /* one job */
    end_job(f, "nightly");
    assert_string_equal(opened(f, 31, "nightly"), "nightly"); /* asked once more: no new run */
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "33333333-client");
    assert_string_equal(opened(f, 30, "nightly"), "nightly.33333333");
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "44444444-client");
    assert_string_equal(opened(f, 31, "nightly"), "nightly.33333333"); /* it still runs */
    end_job(f, "nightly.33333333");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "55555555-client");
    assert_string_equal(opened(f, 30, "nightly"), "nightly.55555555");
    assert_int_equal(rows_of(f, "nightly", &id), 1); /* people mean the newest */
    assert_string_equal(id, "nightly.55555555");
    assert_int_equal(rows_of(f, "nightly.33333333", &id), 1);
    assert_string_equal(id, "nightly.33333333");
    assert_int_equal(rows_of(f, "night", &id), 0);
}

static void a_new_run_has_a_name_of_as_many_letters_as_any(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    for (size_t more = 0; more < 2; more++) {
        char name[KILN_MESSAGES_TEXT + 1] = {0};
        memset(name, 'n', KILN_MESSAGES_TEXT - sizeof ".11111111" + 1 + more);
        fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "00000000-client");
        assert_string_equal(opened(f, 30, name), name);
        end_job(f, name);
        fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "11111111-client");
        fleet_forget_sent(f);
        fleet_open_job(f, 30, name, true);
        const kiln_message *told = fleet_take(f, 30, KILN_MSG_JOB_STATE);
        assert_true((told != NULL) == (more == 0));
        if (told) assert_int_equal(told->job_state.job.size, KILN_MESSAGES_TEXT);
        fleet_disconnect(f, 30);
    }
}

/* A tuner keeps what it measured under a name for longer than a tracker keeps ended jobs. */
static void a_detached_job_that_was_forgotten_is_another_run_for_its_tuner(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "11111111-client");
    assert_string_equal(opened(f, 30, "nightly"), "nightly");
    expect_str(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.run, "11111111");
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    expect_str(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.run, "11111111");
    end_job(f, "nightly");
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "22222222-client");
    for (uint32_t i = 0; i <= KILN_TRACKER_JOBS_KEPT; i++) {
        const char *id = kiln_arena_printf(&f->arena, "j%u", i);
        kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = kiln_str_from(id)}};
        fleet_open_job(f, 31, id, true);
        end_job(f, id);
        fleet_say(f, 31, &close);
    }
    assert_null(kiln_tracker_job_find(f->t, KILN_STR("nightly")));
    fleet_forget_sent(f);
    assert_string_equal(opened(f, 31, "nightly"), "nightly");
    expect_str(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.run, "22222222");
    /* A command that waits has a name of its own already. */
    fleet_open_job(f, 31, "once", false);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN)->job_assign.run.size, 0);
}

static void another_users_job_that_ended_does_not_run_anew(void **state) {
    fleet *f = *state;
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "11111111-client");
    opened(f, 30, "nightly");
    end_job(f, "nightly");
    f->who = (kiln_tracker_who){.is_proven = true, .person = "eve"};
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "22222222-client");
    kiln_message other = fleet_job("nightly", true);
    other.job_open.spec.user = KILN_STR("owner");
    fleet_say(f, 31, &other);
    assert_int_equal(fleet_take(f, 31, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
}

static void a_command_hears_that_another_follows_its_job(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "client-2");
    fleet_open_job(f, 31, "j", false);
    const kiln_message *over = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(over);
    assert_int_equal(over->job_done.code, KILN_ABORTED);
    fleet_disconnect(f, 30); /* the job does not go with it */
    fleet_connect(f, 32, KILN_PEER_CLIENT, "client", "client-2");
    fleet_open_job(f, 32, "j", false);
    assert_null(fleet_take(f, 31, KILN_MSG_JOB_DONE)); /* the same command on a new connection */
    kiln_message done = done_message(KILN_OK);
    fleet_say(f, 20, &done);
    assert_int_equal(fleet_take(f, 32, KILN_MSG_JOB_DONE)->job_done.code, KILN_OK);

    f->hold_disk = true;
    fleet_open_job(f, 32, "k", false);
    fleet_connect(f, 33, KILN_PEER_CLIENT, "client", "client-3");
    fleet_open_job(f, 33, "k", false);
    const kiln_message *answer = fleet_take(f, 32, KILN_MSG_ERROR);
    assert_non_null(answer);
    assert_int_equal(answer->stream, 1);
    assert_int_equal(answer->error.code, KILN_ABORTED);
    while (f->persists.count) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, 33, KILN_MSG_JOB_STATE));
}

static void progress_reaches_the_client_and_the_list(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_msg_task_state task = {
        .key = KILN_STR("k"), .op = KILN_STR("conv2d"), .planned = 8, .done = 3, .best_ns = 100};
    kiln_message event = {.type = KILN_MSG_JOB_EVENT, .job_event = {.job = KILN_STR("j")}};
    event.job_event.tasks.item = &task;
    event.job_event.tasks.count = 1;
    kiln_msg_task_fault fault = {KILN_STR("t"), KILN_STR("no memory for it")};
    event.job_event.faults.item = &fault;
    event.job_event.faults.count = 1;
    fleet_say(f, 20, &event);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_EVENT)->job_event.tasks.item[0].done, 3);
    task.done = 5;
    fleet_say(f, 20, &event);
    kiln_message query = {.type = KILN_MSG_QUERY,
                          .stream = 9,
                          .query = {.topic = KILN_TOPIC_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &query);
    const kiln_message *answer = fleet_take(f, 30, KILN_MSG_ANSWER);
    assert_int_equal(answer->answer.jobs.count, 1);
    assert_int_equal(answer->answer.jobs.item[0].done, 5);
    assert_int_equal(answer->answer.jobs.item[0].tasks.count, 1);
    assert_int_equal(answer->answer.jobs.item[0].faults.count, 1);
    expect_str(answer->answer.jobs.item[0].faults.item[0].text, "no memory for it");
}

static void the_end_is_written_then_told_to_both(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    f->hold_disk = true;
    kiln_message done = done_message(KILN_OK);
    fleet_say(f, 20, &done);
    assert_null(fleet_take(f, 20, KILN_MSG_JOB_CLOSE));
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
    fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_CLOSE));
    const kiln_message *told = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(told);
    assert_int_equal(told->job_done.trials, 8);
    assert_int_equal(told->job_done.records.byte[2], 3);
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_int_equal(lost->lease_lost.lease, lease);
    f->hold_disk = false;
    while (f->persists.count) fleet_persist(f, NULL);
    fleet_say(f, 20, &done); /* repeated: the tuner did not hear of JOB_CLOSE */
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_CLOSE));
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
}

static void a_client_that_comes_back_gets_the_end_it_missed(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 30);
    kiln_message done = done_message(KILN_OK);
    fleet_say(f, 20, &done);
    fleet_restart(f); /* the end survives the tracker too */
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "c2");
    fleet_open_job(f, 31, "j", false);
    const kiln_message *told = fleet_take(f, 31, KILN_MSG_JOB_DONE);
    assert_non_null(told);
    assert_int_equal(told->job_done.code, KILN_OK);
    assert_int_equal(told->job_done.records.byte[0], 1);
}

static void cancel_reaches_the_tuner_and_its_end_the_client(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .stream = 5,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &cancel);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_STATE)->stream, 5);
    const kiln_message *told = fleet_take(f, 20, KILN_MSG_CANCEL);
    assert_non_null(told);
    assert_int_equal(told->cancel.code, KILN_CANCELLED);
    kiln_message done = done_message(KILN_CANCELLED);
    fleet_say(f, 20, &done);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.code, KILN_CANCELLED);
}

static void a_tuner_that_does_not_stop_is_not_waited_for(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &cancel);
    fleet_wait(f, 11 * FLEET_S, everybody);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.code, KILN_CANCELLED);
}

static void a_job_that_was_told_to_stop_stops_also_after_a_restart(void **state) {
    fleet *f = *state;
    static const uint64_t others[] = {10, 20, 0};
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", true);
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &cancel);
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-2"); /* it knows nothing either */
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    const kiln_message *told = fleet_take(f, 20, KILN_MSG_CANCEL);
    assert_non_null(told);
    assert_int_equal(told->cancel.code, KILN_CANCELLED);
    expect_str(told->cancel.reason, "cancelled on request");
    fleet_wait(f, 11 * FLEET_S, others); /* not for ever */
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
    assert_int_equal(kiln_tracker_job_find(f->t, KILN_STR("j"))->state, KILN_JOB_CANCELLED);
}

static void a_cancellation_is_answered_when_it_is_on_disk(void **state) {
    fleet *f = *state;
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .stream = 5,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_running_job(f);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "second", "c2");
    f->hold_disk = true;
    fleet_say(f, 30, &cancel);
    fleet_say(f, 31, &cancel);
    assert_non_null(fleet_take(f, 20, KILN_MSG_CANCEL));
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_STATE));
    while (f->persists.count > 1) fleet_persist(f, NULL);
    assert_non_null(fleet_take(f, 30, KILN_MSG_JOB_STATE));
    fleet_persist(f, "the disk is full");
    assert_null(fleet_take(f, 31, KILN_MSG_JOB_STATE));
    assert_int_equal(fleet_take(f, 31, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
    /* One that nobody works on ends with that; who asks again hears the same. */
    f->hold_disk = false;
    fleet_open_job(f, 30, "k", true);
    fleet_disconnect(f, 20);
    fleet_wait(f, 6 * FLEET_S, (const uint64_t[]){10, 30, 31, 0});
    fleet_forget_sent(f);
    f->hold_disk = true;
    cancel.cancel.id = KILN_STR("k");
    fleet_say(f, 30, &cancel);
    fleet_say(f, 31, &cancel);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_STATE));
    assert_null(fleet_take(f, 31, KILN_MSG_JOB_STATE));
    while (f->persists.count) fleet_persist(f, NULL);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_STATE)->job_state.state, KILN_JOB_CANCELLED);
    assert_int_equal(fleet_take(f, 31, KILN_MSG_JOB_STATE)->job_state.state, KILN_JOB_CANCELLED);
}

/* A second person cancels a job that the tracker stopped because its client had gone, before or
 * after the tuner handed in its results. */
static void cancel_an_abandoned_job(fleet *f, bool after_its_end) {
    static const uint64_t others[] = {10, 20, 0};
    const kiln_message done = done_message(KILN_CANCELLED);
    const kiln_message cancel = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_running_job(f);
    fleet_disconnect(f, 30);
    fleet_wait(f, FLEET_S, others);
    if (after_its_end) fleet_say(f, 20, &done);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "second", "c2");
    fleet_say(f, 31, &cancel);
    assert_non_null(fleet_take(f, 31, KILN_MSG_JOB_STATE));
    if (!after_its_end) fleet_say(f, 20, &done);
    fleet_restart(f);
    fleet_forget_sent(f);
    fleet_connect(f, 32, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 32, "j", false);
    assert_int_equal(fleet_take(f, 32, KILN_MSG_JOB_DONE)->job_done.code, KILN_CANCELLED);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
}

static void a_job_cancelled_while_its_client_was_away_stays_cancelled(void **state) {
    cancel_an_abandoned_job(*state, false);
}

static void a_job_cancelled_after_its_client_was_given_up_stays_cancelled(void **state) {
    cancel_an_abandoned_job(*state, true);
}

static void a_cancelled_job_whose_tuner_fails_is_called_cancelled(void **state) {
    fleet *f = *state;
    const kiln_message cancel = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_running_job(f);
    fleet_say(f, 30, &cancel);
    const kiln_tracker_job *job = kiln_tracker_job_find(f->t, KILN_STR("j"));
    expect_str(kiln_tracker_job_row(f->t, job, false).text, "cancelled on request");
    kiln_message done = done_message(KILN_INTERNAL);
    done.job_done.text = KILN_STR("no export");
    fleet_say(f, 20, &done);
    const kiln_message *told = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_int_equal(told->job_done.code, KILN_CANCELLED);
    expect_str(told->job_done.text, "cancelled on request; while it stopped: no export");
    assert_int_equal(job->state, KILN_JOB_CANCELLED);
}

static void a_tuner_hears_how_its_job_ended(void **state) {
    fleet *f = *state;
    kiln_message event = {.type = KILN_MSG_JOB_EVENT, .job_event = {.job = KILN_STR("j")}};
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_running_job(f);
    fleet_disconnect(f, 20);
    fleet_say(f, 30, &cancel);
    fleet_tuner(f, 21, "tuner", "tuner-1");
    fleet_say(f, 21, &event);
    assert_int_equal(fleet_take(f, 21, KILN_MSG_JOB_CLOSE)->job_close.state, KILN_JOB_CANCELLED);
    event.job_event.job = KILN_STR("unknown");
    fleet_say(f, 21, &event);
    assert_int_equal(fleet_take(f, 21, KILN_MSG_JOB_CLOSE)->job_close.state, 0);
}

static void cancelling_nothing_says_so(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, 30, &cancel);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
}

static void work_of_a_client_that_is_gone_is_gone_within_a_second(void **state) {
    fleet *f = *state;
    static const uint64_t others[] = {10, 20, 0};
    fleet_running_job(f);
    fleet_trial(f, fleet_lease(f, 1), "t");
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    fleet_disconnect(f, 30);
    fleet_wait(f, 400 * FLEET_MS, others);
    assert_null(fleet_take(f, 20, KILN_MSG_CANCEL)); /* it may dial again */
    fleet_wait(f, 600 * FLEET_MS, others);
    assert_non_null(fleet_take(f, 20, KILN_MSG_CANCEL));
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST));
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    assert_int_equal(kiln_tracker_counts_of(f->t).requests, 0);
    ask = fleet_request("j", 3);
    fleet_say(f, 20, &ask); /* its tuner did not hear yet */
    assert_non_null(fleet_take(f, 20, KILN_MSG_ERROR));
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
}

static void a_client_that_comes_back_late_finds_its_job_going_on(void **state) {
    fleet *f = *state;
    static const uint64_t others[] = {10, 20, 0};
    for (int before_its_end = 0; before_its_end < 2; before_its_end++) {
        if (before_its_end == 0) fleet_running_job(f);
        fleet_disconnect(f, 30 + (uint64_t)before_its_end);
        fleet_wait(f, FLEET_S, others);
        kiln_message done = done_message(KILN_CANCELLED);
        fleet_forget_sent(f);
        if (!before_its_end) fleet_say(f, 20, &done);
        fleet_connect(f, 31 + (uint64_t)before_its_end, KILN_PEER_CLIENT, "client", "c");
        fleet_open_job(f, 31 + (uint64_t)before_its_end, "j", false);
        if (before_its_end) fleet_say(f, 20, &done);
        assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_CLOSE));
        assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
        assert_null(fleet_take(f, 31 + (uint64_t)before_its_end, KILN_MSG_JOB_DONE));
        assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 1);
    }
}

static void a_job_that_goes_on_after_its_tuner_went_waits_without_one(void **state) {
    fleet *f = *state;
    static const uint64_t others[] = {10, 20, 0};
    fleet_running_job(f);
    fleet_disconnect(f, 30);
    fleet_wait(f, FLEET_S, others);
    const kiln_message done = done_message(KILN_CANCELLED);
    fleet_say(f, 20, &done);
    fleet_disconnect(f, 20);
    fleet_connect(f, 31, KILN_PEER_CLIENT, "client", "c");
    fleet_open_job(f, 31, "j", false);
    const kiln_tracker_job *job = kiln_tracker_job_find(f->t, KILN_STR("j"));
    assert_int_equal(job->state, KILN_JOB_WAITING);
    assert_string_equal(job->tuner, "");
}

static void a_detached_job_does_not_notice_that_its_client_went(void **state) {
    fleet *f = *state;
    static const uint64_t others[] = {10, 20, 0};
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", true);
    fleet_lease(f, 1);
    fleet_disconnect(f, 30);
    fleet_wait(f, 10 * FLEET_S, others);
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_wait(f, 20 * FLEET_S, others);
    assert_null(fleet_take(f, 20, KILN_MSG_CANCEL));
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 1);
}

static kiln_message job_for(const char *id, const char *key, bool detach) {
    kiln_message open = fleet_job(id, detach);
    open.job_open.spec.key = kiln_str_from(key);
    return open;
}

static void a_job_for_an_unknown_board_hears_at_once_what_there_is(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "rpi3", 1);
    fleet_disconnect(f, 11);
    kiln_message open = job_for("k", "rpi9", false);
    fleet_say(f, 30, &open);
    const kiln_message *done = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(done);
    assert_int_equal(done->job_done.code, KILN_NOT_FOUND);
    expect_str(done->job_done.text, "no board called rpi9 that runs " FLEET_TARGET
                                    " is connected; there are board (1 of 1 in service), rpi3 (0 "
                                    "of 1 in service)");
    kiln_msg_label label = {KILN_STR("rack"), KILN_STR("7")};
    open = fleet_job("n", false);
    open.job_open.spec.labels.item = &label;
    open.job_open.spec.labels.count = 1;
    fleet_say(f, 30, &open);
    assert_int_equal(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.code, KILN_NOT_FOUND);
    open = job_for("l", "rpi9", true); /* detached, it waits for such a board */
    fleet_say(f, 30, &open);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
    open = job_for("m", "rpi3", false); /* known, and perhaps it comes back */
    fleet_say(f, 30, &open);
    assert_null(fleet_take(f, 30, KILN_MSG_JOB_DONE));
}

/* A name of `size` bytes that ends in `number`; in the arena. */
static const char *long_name(fleet *f, uint32_t number, int size) {
    return kiln_arena_printf(&f->arena, "%0*u", size, number);
}

static void a_list_of_boards_longer_than_a_message_is_cut(void **state) {
    fleet *f = *state;
    static const uint64_t client[] = {30, 0};
    kiln_msg_label label[KILN_MESSAGES_LABELS];
    kiln_message open = job_for("k", long_name(f, 0, KILN_MESSAGES_NAME), false);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(label); i++)
        label[i] = (kiln_msg_label){kiln_str_from(long_name(f, i, KILN_MESSAGES_TEXT)),
                                    kiln_str_from(long_name(f, i, KILN_MESSAGES_KEY))};
    open.job_open.spec.labels.item = label;
    open.job_open.spec.labels.count = KILN_ARRAY_COUNT(label);
    for (uint32_t i = 1; i <= 8; i++) {
        kiln_strbuf node = {0};
        kiln_strbuf_printf(&node, "%u-%s", i, long_name(f, i, KILN_MESSAGES_NAME - 2));
        fleet_board(f, 10 + i, node.data, 1);
        kiln_strbuf_deinit(&node);
    }
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    fleet_say(f, 30, &open);
    const kiln_message *answer = fleet_take(f, 30, KILN_MSG_JOB_STATE);
    const kiln_message *done = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(answer);
    assert_non_null(done);
    assert_int_equal(answer->job_state.text.size, KILN_MESSAGES_PROSE);
    assert_int_equal(done->job_done.text.size, KILN_MESSAGES_PROSE);
    assert_int_equal(done->job_done.code, KILN_NOT_FOUND);
    fleet_restart(f); /* its row is whole */
    fleet_wait(f, FLEET_S, client);
    assert_int_equal(f->t->jobs.all.count, 1);
}

static void a_job_that_no_board_can_run_hears_which_feature_is_missing(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message open = job_for("k", "board", false);
    open.job_open.spec.target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4");
    fleet_say(f, 30, &open);
    const kiln_message *done = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(done);
    assert_int_equal(done->job_done.code, KILN_NOT_FOUND);
    const char *text = kiln_str_dup(&f->arena, done->job_done.text);
    expect_contains(text, "board (1 of 1 in service; the device lacks avx512f)");
    open = job_for("l", "board", false);
    open.job_open.spec.target = KILN_STR("cpu:aarch64-unknown-linux-gnu");
    fleet_say(f, 30, &open);
    done = fleet_take(f, 30, KILN_MSG_JOB_DONE);
    assert_non_null(done);
    text = kiln_str_dup(&f->arena, done->job_done.text);
    expect_contains(text, "the device is x86_64-unknown-linux-gnu");
}

static void a_job_hears_at_once_how_long_it_may_wait(void **state) {
    fleet *f = *state;
    static const uint64_t everybody_here[] = {10, 20, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_wait(f, 8 * FLEET_S, everybody_here);
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 20, &release);
    fleet_lease(f, 2);
    fleet_open_job(f, 30, "k", false);
    const kiln_message *answer = fleet_take(f, 30, KILN_MSG_JOB_STATE);
    assert_non_null(answer);
    expect_str(answer->job_state.text, "opened; 1 board fits, all busy; expected wait 8 s");
}

static void a_lost_tuners_job_goes_to_another_after_a_grace(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 21, 30, 0};
    fleet_running_job(f);
    fleet_tuner(f, 21, "second", "s");
    fleet_disconnect(f, 20);
    fleet_wait(f, 4 * FLEET_S, alive);
    assert_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
    fleet_wait(f, 2 * FLEET_S, alive);
    assert_non_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
    /* The first one comes back and hears that the job is no longer its own. */
    fleet_tuner(f, 22, "tuner", "tuner-1");
    assert_null(fleet_take(f, 22, KILN_MSG_JOB_ASSIGN));
    kiln_message event = {.type = KILN_MSG_JOB_EVENT, .job_event = {.job = KILN_STR("j")}};
    fleet_say(f, 22, &event);
    assert_non_null(fleet_take(f, 22, KILN_MSG_JOB_CLOSE));
}

static void a_tuner_that_comes_back_in_time_keeps_its_job(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 20);
    fleet_tuner(f, 21, "tuner", "tuner-2");
    assert_non_null(fleet_take(f, 21, KILN_MSG_JOB_ASSIGN));
}

static void jobs_survive_a_restart(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_restart(f);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    fleet_wait(f, 22 * FLEET_S, everybody); /* but its client did not come back */
    fleet_restart(f);
    assert_int_equal(kiln_tracker_counts_of(f->t).jobs_open, 0);
}

static void only_so_many_ended_jobs_are_kept(void **state) {
    fleet *f = *state;
    char id[16];
    fleet_running_job(f);
    for (uint32_t i = 0; i < KILN_TRACKER_JOBS_KEPT + 20; i++) {
        kiln_strbuf name = {0};
        kiln_strbuf_printf(&name, "job-%u", i);
        memcpy(id, name.data, name.size + 1);
        kiln_strbuf_deinit(&name);
        fleet_open_job(f, 30, id, false);
        kiln_message done = done_message(KILN_OK);
        done.job_done.job = kiln_str_from(id);
        fleet_say(f, 20, &done);
        kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = kiln_str_from(id)}};
        fleet_say(f, 30, &close);
        fleet_forget_sent(f);
    }
    assert_in_range(f->t->jobs.all.count, KILN_TRACKER_JOBS_KEPT, KILN_TRACKER_JOBS_KEPT + 2);
    assert_in_range(f->rows.count, KILN_TRACKER_JOBS_KEPT, KILN_TRACKER_JOBS_KEPT + 4);
}

static void who_never_closes_jobs_does_not_fill_the_tracker(void **state) {
    fleet *f = *state;
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "c");
    for (uint32_t i = 0; i < KILN_TRACKER_JOBS_MAX + 20; i++) {
        kiln_strbuf id = {0};
        kiln_strbuf_printf(&id, "job-%u", i);
        kiln_message open = job_for(id.data, "nobody", false); /* ends at once */
        fleet_say(f, 30, &open);
        kiln_strbuf_deinit(&id);
        fleet_forget_sent(f);
    }
    assert_int_equal(f->t->jobs.all.count, KILN_TRACKER_JOBS_MAX);
}

static void a_stored_job_that_does_not_decode_is_named(void **state) {
    (void)state;
    kiln_tracker *t = NULL;
    kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_JOB,
                            .id = KILN_STR("j9"),
                            .state = KILN_STR("running"),
                            .body = KILN_STR("x")};
    expect_error(kiln_tracker_create(&row, 1, 0, &t), DATA_LOSS, "j9");
    row.state = KILN_STR("dancing");
    expect_error(kiln_tracker_create(&row, 1, 0, &t), DATA_LOSS, "dancing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_job_is_on_disk_before_it_is_answered),
        test_with_fleet(a_job_with_a_name_that_is_no_line_is_refused),
        test_with_fleet(what_ends_a_job_may_name_any),
        test_with_fleet(a_job_needs_its_model_and_then_its_records),
        test_with_fleet(a_job_that_cannot_be_kept_is_refused),
        test_with_fleet(a_tuner_hears_of_its_job_when_that_is_on_disk),
        test_with_fleet(a_job_whose_tuner_cannot_be_kept_waits_for_another_look),
        test_with_fleet(a_job_that_is_cancelled_before_its_tuner_heard_of_it_comes_with_that),
        test_with_fleet(the_least_loaded_tuner_gets_it),
        test_with_fleet(a_graph_goes_to_a_tuner_that_reads_graphs),
        test_with_fleet(without_a_tuner_that_reads_graphs_the_job_says_so),
        test_with_fleet(a_tuner_that_has_its_fill_gets_the_next_when_one_ends),
        test_with_fleet(a_job_waits_ten_seconds_and_then_names_what_is_missing),
        test_with_fleet(with_a_tuner_only_the_board_is_named),
        test_with_fleet(a_detached_job_waits_for_as_long_as_it_takes),
        test_with_fleet(a_bad_target_is_refused),
        test_with_fleet(opening_again_attaches_and_another_spec_is_refused),
        test_with_fleet(a_detached_job_that_ended_runs_anew_when_its_command_comes_again),
        test_with_fleet(a_new_run_has_a_name_of_as_many_letters_as_any),
        test_with_fleet(a_detached_job_that_was_forgotten_is_another_run_for_its_tuner),
        test_with_fleet(another_users_job_that_ended_does_not_run_anew),
        test_with_fleet(a_command_hears_that_another_follows_its_job),
        test_with_fleet(progress_reaches_the_client_and_the_list),
        test_with_fleet(the_end_is_written_then_told_to_both),
        test_with_fleet(a_client_that_comes_back_gets_the_end_it_missed),
        test_with_fleet(cancel_reaches_the_tuner_and_its_end_the_client),
        test_with_fleet(a_tuner_that_does_not_stop_is_not_waited_for),
        test_with_fleet(a_job_that_was_told_to_stop_stops_also_after_a_restart),
        test_with_fleet(a_cancellation_is_answered_when_it_is_on_disk),
        test_with_fleet(a_job_cancelled_while_its_client_was_away_stays_cancelled),
        test_with_fleet(a_job_cancelled_after_its_client_was_given_up_stays_cancelled),
        test_with_fleet(a_cancelled_job_whose_tuner_fails_is_called_cancelled),
        test_with_fleet(a_tuner_hears_how_its_job_ended),
        test_with_fleet(cancelling_nothing_says_so),
        test_with_fleet(work_of_a_client_that_is_gone_is_gone_within_a_second),
        test_with_fleet(a_client_that_comes_back_late_finds_its_job_going_on),
        test_with_fleet(a_job_that_goes_on_after_its_tuner_went_waits_without_one),
        test_with_fleet(a_detached_job_does_not_notice_that_its_client_went),
        test_with_fleet(a_job_for_an_unknown_board_hears_at_once_what_there_is),
        test_with_fleet(a_list_of_boards_longer_than_a_message_is_cut),
        test_with_fleet(a_job_that_no_board_can_run_hears_which_feature_is_missing),
        test_with_fleet(a_job_hears_at_once_how_long_it_may_wait),
        test_with_fleet(a_lost_tuners_job_goes_to_another_after_a_grace),
        test_with_fleet(a_tuner_that_comes_back_in_time_keeps_its_job),
        test_with_fleet(jobs_survive_a_restart),
        test_with_fleet(only_so_many_ended_jobs_are_kept),
        test_with_fleet(who_never_closes_jobs_does_not_fill_the_tracker),
        cmocka_unit_test(a_stored_job_that_does_not_decode_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
