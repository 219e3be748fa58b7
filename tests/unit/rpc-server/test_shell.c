/* The real tracker and the real rpc-server as processes, joined by a Unix socket. This program
 * plays client and tuner: it opens a job, leases the board, and sends trials of hand-made
 * artefacts. */
#include <signal.h>
#include <string.h>

#include "base/child.h"
#include "base/file.h"
#include "base/identity.h"
#include "proto/net.h"
#include "tests/unit/rpc-server/candidates.h"

static const char *the_object_folder, *the_tracker, *the_server;

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    char *folder, *address;
    kiln_child tracker, server;
    kiln_blob_store *store;
    char boot[KILN_HASH128_TEXT], node[KILN_HASH128_TEXT];
    kiln_conn *client, *tuner;
    kiln_blobs *blobs;
    kiln_timer *again;
    uint32_t opened, closed, uploads;
    bool assigned; /* the tuner has the job */
    /* The last message of a kind that somebody waits for. */
    kiln_message_type wanted;
    bool arrived;
    kiln_message message;
    uint64_t lease, request;
    uint32_t phases; /* bit per phase of TRIAL_EVENT */
} fixture;

/* ---- Connections ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello, (void)welcome;
    fixture *f = context;
    f->opened++;
    kiln_blobs *blobs = kiln_blobs_attach(conn, f->store);
    if (conn == f->tuner) f->blobs = blobs;
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    fixture *f = context;
    if (message->type == KILN_MSG_PING)
        expect_ok(kiln_conn_send(
            conn, &(kiln_message){.type = KILN_MSG_PONG, .stream = message->stream}));
    if (message->type == KILN_MSG_ERROR) fail_msg("ERROR: %.*s", KILN_STR_ARG(message->error.text));
    if (message->type == KILN_MSG_TRIAL_EVENT) f->phases |= 1U << message->trial_event.phase;
    if (message->type == KILN_MSG_JOB_ASSIGN) f->assigned = true;
    if (message->type != f->wanted) return;
    f->message = kiln_message_copy(message, &f->arena);
    f->arrived = true;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    (void)why;
    fixture *f = context;
    f->closed++;
    if (conn == f->client) f->client = NULL;
    if (conn == f->tuner) f->tuner = NULL, f->blobs = NULL;
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static kiln_conn *dial(fixture *f, kiln_peer_role role) {
    kiln_dial_options options = {.role = role,
                                 .node = f->node,
                                 .boot = f->boot,
                                 .name = "test",
                                 .handler = &handler,
                                 .context = f};
    expect_ok(kiln_address_parse(kiln_str_from(f->address), &options.address));
    return kiln_net_dial(f->loop, &options);
}

static void wake(void *context) {
    fixture *f = context;
    kiln_timer_start(f->again, 10000000);
}

/* Until both connections are open; the tracker may still be starting. */
static void connect_both(fixture *f) {
    f->opened = 0;
    f->assigned = false;
    while (f->opened < 2) {
        if (!f->client) f->client = dial(f, KILN_PEER_CLIENT);
        if (!f->tuner) f->tuner = dial(f, KILN_PEER_TUNER);
        uint32_t closed = f->closed;
        while (f->opened < 2 && f->closed == closed) kiln_loop_run_once(f->loop);
        kiln_loop_run_once(f->loop);
    }
}

static const kiln_message *wait_for(fixture *f, kiln_message_type type) {
    f->wanted = type;
    f->arrived = false;
    while (!f->arrived) {
        kiln_loop_run_once(f->loop);
        assert_true(f->client && f->tuner);
    }
    return &f->message;
}

static void on_uploaded(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    fixture *f = context;
    expect_ok(status);
    f->uploads++;
}

static kiln_msg_blob_ref upload(fixture *f, const kiln_strbuf *bytes) {
    kiln_msg_blob_ref blob = {.size = bytes->size};
    expect_ok(kiln_blob_store_put(f->store, kiln_strbuf_view(bytes), &blob.digest));
    uint32_t before = f->uploads;
    kiln_blobs_upload(f->blobs, &blob.digest, on_uploaded, f);
    while (f->uploads == before) kiln_loop_run_once(f->loop);
    return blob;
}

/* ---- The two programs ---- */

static void start_tracker(fixture *f) {
    const char *state = kiln_arena_printf(&f->arena, "%s/tracker", f->folder);
    const char *log = kiln_arena_printf(&f->arena, "%s/tracker.log", f->folder);
    const char *const argv[] = {the_tracker, "--listen",      f->address, "--state",
                                state,       "--with-parent", NULL};
    expect_ok(
        kiln_child_start(&(kiln_child_options){.argv = argv, .error_path = log}, &f->tracker));
}

static void start_server(fixture *f) {
    const char *state = kiln_arena_printf(&f->arena, "%s/server", f->folder);
    const char *log = kiln_arena_printf(&f->arena, "%s/server.log", f->folder);
    const char *const argv[] = {the_server, "--tracker", f->address,      "--state", state,
                                "--key",    "desk",      "--with-parent", NULL};
    expect_ok(kiln_child_start(&(kiln_child_options){.argv = argv, .error_path = log}, &f->server));
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-shell-test", &f->arena, &f->folder));
    f->address = kiln_arena_printf(&f->arena, "unix:%s/socket", f->folder);
    expect_ok(kiln_loop_create(&f->loop));
    f->again =
        kiln_timer_create(f->loop, wake, f); /* a loop that has nothing to wait for would end */
    kiln_timer_start(f->again, 0);
    expect_ok(kiln_identity_create(f->node));
    expect_ok(kiln_identity_create(f->boot));
    const char *blobs = kiln_arena_printf(&f->arena, "%s/blobs", f->folder);
    expect_ok(kiln_blob_store_open(&(kiln_blob_store_options){.folder = blobs}, &f->store));
    start_tracker(f);
    start_server(f);
    connect_both(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (f->client) kiln_conn_close(f->client, NULL);
    if (f->tuner) kiln_conn_close(f->tuner, NULL);
    kiln_child_destroy(&f->server);
    kiln_child_destroy(&f->tracker);
    kiln_timer_destroy(f->again);
    kiln_loop_destroy(f->loop);
    kiln_blob_store_close(f->store);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

/* ---- Trials ---- */

static void open_job(fixture *f) {
    kiln_message open = {.type = KILN_MSG_JOB_OPEN,
                         .stream = kiln_conn_stream(f->client),
                         .job_open = {.job = KILN_STR("job"),
                                      .spec = {.target = candidate_target(&f->arena),
                                               .searcher = KILN_STR("random")}}};
    memset(&open.job_open.spec.model, 1, sizeof open.job_open.spec.model);
    expect_ok(kiln_conn_send(f->client, &open));
    while (!f->assigned) kiln_loop_run_once(f->loop);
}

static void lease(fixture *f) {
    kiln_message request = {.type = KILN_MSG_LEASE_REQ,
                            .stream = kiln_conn_stream(f->tuner),
                            .lease_req = {.request = ++f->request,
                                          .job = KILN_STR("job"),
                                          .trials = 64,
                                          .ttl_ms = 60000,
                                          .target = candidate_target(&f->arena)}};
    expect_ok(kiln_conn_send(f->tuner, &request));
    const kiln_message *grant = wait_for(f, KILN_MSG_LEASE_GRANT);
    assert_true(kiln_str_is(grant->lease_grant.key, "desk"));
    assert_true(grant->lease_grant.lease > f->lease); /* the fence only grows */
    f->lease = grant->lease_grant.lease;
}

static const kiln_msg_trial_result *await_result(fixture *f, const char *fault, uint32_t attempt) {
    const kiln_msg_trial_result *result = &wait_for(f, KILN_MSG_TRIAL_RESULT)->trial_result;
    assert_true(kiln_str_is(result->trial, fault) && result->attempt == attempt &&
                result->lease == f->lease);
    return result;
}

static void send_trial(fixture *f, const char *fault, uint32_t attempt, uint32_t warm_ms) {
    kiln_strbuf artefact = {0}, reference = {0};
    candidate_artefact(the_object_folder, fault, CANDIDATE_FLOPS, &artefact);
    candidate_reference(CANDIDATE_ELEMENTS, &reference);
    kiln_message trial = {.type = KILN_MSG_TRIAL,
                          .stream = kiln_conn_stream(f->tuner),
                          .trial = {.trial = kiln_str_from(fault),
                                    .attempt = attempt,
                                    .lease = f->lease,
                                    .job = KILN_STR("job"),
                                    .artefact = upload(f, &artefact),
                                    .reference = upload(f, &reference),
                                    .seed = CANDIDATE_SEED,
                                    .policy = {.samples_min = 5,
                                               .samples_max = 20,
                                               .interval = 0.01,
                                               .sample_ns = 100000,
                                               .total_ns = 10000000},
                                    .deadlines_ms = {.warm = warm_ms}}};
    kiln_strbuf_deinit(&artefact);
    kiln_strbuf_deinit(&reference);
    f->phases = 0;
    expect_ok(kiln_conn_send(f->tuner, &trial));
}

static const kiln_msg_trial_result *run_trial(fixture *f, const char *fault, uint32_t attempt) {
    /* Only what must end by its deadline gets a short one: the machine may be busy. */
    send_trial(f, fault, attempt, strcmp(fault, "loops_for_ever") == 0 ? 100 : 10000);
    return await_result(f, fault, attempt);
}

static void acknowledge(fixture *f, const kiln_msg_trial_result *result) {
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {result->trial, result->attempt, result->lease}};
    expect_ok(kiln_conn_send(f->tuner, &ack));
}

static void expect(fixture *f, const char *fault, kiln_outcome outcome) {
    const kiln_msg_trial_result *result = run_trial(f, fault, 1);
    if ((kiln_outcome)result->outcome != outcome)
        fail_msg("%s: %s, %.*s", fault, kiln_outcome_name((kiln_outcome)result->outcome),
                 KILN_STR_ARG(result->text));
    acknowledge(f, result);
}

static void a_trial_is_measured_and_checked(void **state) {
    fixture *f = *state;
    open_job(f);
    lease(f);
    const kiln_msg_trial_result *result = run_trial(f, "honest", 1);
    if (result->outcome != KILN_OUTCOME_OK) fail_msg("%.*s", KILN_STR_ARG(result->text));
    assert_true(result->checked && result->samples_ns.count >= 5 && result->peak_flops > 0);
    const uint32_t all = 1U << KILN_PHASE_LOAD | 1U << KILN_PHASE_WARM | 1U << KILN_PHASE_RUN |
                         1U << KILN_PHASE_CHECK;
    assert_int_equal(f->phases & all, all);
}

static void faults_get_their_outcome_and_the_board_goes_on(void **state) {
    fixture *f = *state;
    open_job(f);
    lease(f);
    expect(f, "reads_nothing", KILN_OUTCOME_CRASH);
    expect(f, "loops_for_ever", KILN_OUTCOME_TIMEOUT);
    expect(f, "starts_a_process", KILN_OUTCOME_CRASH);
    expect(f, "right_once", KILN_OUTCOME_WRONG_RESULT);
    expect(f, "honest", KILN_OUTCOME_OK);
}

static void a_lease_and_an_unacknowledged_result_outlive_the_tracker(void **state) {
    fixture *f = *state;
    open_job(f);
    lease(f);
    run_trial(f, "honest", 1);
    kill(f->tracker.pid, SIGKILL);
    kiln_child_wait(&f->tracker);
    while (f->client || f->tuner) kiln_loop_run_once(f->loop);
    start_tracker(f);
    connect_both(f);
    open_job(f);
    /* The board came back by itself, and says again what nobody acknowledged. */
    acknowledge(f, await_result(f, "honest", 1));
    acknowledge(f, run_trial(f, "honest", 2)); /* under the same lease */
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = f->lease}};
    expect_ok(kiln_conn_send(f->tuner, &release));
    lease(f); /* asserts that the number grew */
    expect(f, "honest", KILN_OUTCOME_OK);
}

/* The state letter of a process; 0 when it is gone. */
static char state_of(fixture *f, uint64_t pid) {
    kiln_str text = {0};
    const char *path = kiln_arena_printf(&f->arena, "/proc/%llu/stat", (unsigned long long)pid);
    kiln_status st = kiln_file_read_system(path, &f->arena, &text);
    kiln_status_free(st); /* NOT_FOUND: then the text is empty */
    const char *after_name = text.size > 0 ? strrchr(text.data, ')') : NULL;
    return after_name ? after_name[2] : '\0';
}

static void a_killed_board_leaves_no_child(void **state) {
    fixture *f = *state;
    open_job(f);
    lease(f);
    send_trial(f, "loops_for_ever", 1, 60000);
    while (!(f->phases & 1U << KILN_PHASE_WARM)) kiln_loop_run_once(f->loop);
    kiln_str children;
    const char *path =
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", f->server.pid, f->server.pid);
    expect_ok(kiln_file_read_system(path, &f->arena, &children));
    kill(f->server.pid, SIGKILL);
    kiln_child_wait(&f->server);
    uint32_t count = 0;
    for (uint64_t pid = 0; kiln_str_to_u64(kiln_str_cut(&children, ' '), &pid); count++)
        while (state_of(f, pid) != '\0' && state_of(f, pid) != 'Z') {
        } /* it dies with its parent; who reaps it is not ours */
    assert_int_equal(count, 2); /* the one that measured, and the spare */
}

static void both_programs_stop_cleanly_when_asked(void **state) {
    fixture *f = *state;
    open_job(f);
    lease(f); /* the board is up, and somebody holds it */
    kiln_child_stop(&f->server);
    kiln_child_exit server = kiln_child_wait(&f->server);
    kiln_child_stop(&f->tracker);
    while (f->client || f->tuner) kiln_loop_run_once(f->loop);
    kiln_child_exit tracker = kiln_child_wait(&f->tracker);
    assert_true(server.code == 0 && tracker.code == 0);
    assert_false(kiln_file_exists(kiln_arena_printf(&f->arena, "%s/socket", f->folder)));
    assert_false(kiln_file_is_folder(kiln_arena_printf(&f->arena, "%s/server/run", f->folder)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    assert_int_equal(argc, 4);
    the_object_folder = argv[1];
    the_tracker = argv[2];
    the_server = argv[3];
    const struct CMUnitTest tests[] = {
        TEST(a_trial_is_measured_and_checked),
        TEST(faults_get_their_outcome_and_the_board_goes_on),
        TEST(a_lease_and_an_unacknowledged_result_outlive_the_tracker),
        TEST(a_killed_board_leaves_no_child),
        TEST(both_programs_stop_cleanly_when_asked),
    };
    return cmocka_run_group_tests_name("rpc-server/shell", tests, NULL, NULL);
}
