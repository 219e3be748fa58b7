#include "tests/unit/rpc-server/fleet.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/identity.h"
#include "base/proc.h"

static const char *the_objects, *the_tracker, *the_server, *the_emulator, *the_executor;

bool fleet_take_arguments(int argc, char **argv) {
    assert_true(argc >= 4);
    the_objects = argv[1];
    the_tracker = argv[2];
    the_server = argv[3];
    if (argc < 6) return true;
    the_emulator = argv[4];
    candidate_target_is(argv[5]);
    if (kiln_file_exists(the_server)) return true;
    printf("no %s: ./dev cross makes it\n", the_server);
    return false;
}

bool fleet_is_emulated(void) { return the_emulator != NULL; }

bool fleet_offers(const char *executor, kiln_arena *arena, char **out_target) {
    char *state;
    expect_ok(kiln_folder_create_temp("kiln-fleet-doctor", arena, &state));
    const char *const argv[] = {the_server, "--executor", executor, "--doctor",
                                "--state",  state,        NULL};
    const char *word = kiln_arena_printf(arena, "ok   device     %s:", executor);
    kiln_proc_result said;
    expect_ok(kiln_proc_run(&(kiln_proc_options){.argv = argv, .output_max = (size_t)64 << 10},
                            arena, &said));
    expect_ok(kiln_folder_remove(state));
    const char *line = strstr(said.out.data, word);
    if (!line) return false;
    const char *target = line + strlen(word) - strlen(executor) - 1, *end = strstr(target, ": ");
    assert_non_null(end);
    *out_target = kiln_str_dup(arena, (kiln_str){target, (size_t)(end - target)});
    candidate_target_is(*out_target);
    the_executor = executor;
    return true;
}

/* ---- Connections ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello, (void)welcome;
    fleet *f = context;
    f->opened++;
    kiln_blobs *blobs = kiln_blobs_attach(conn, f->store);
    if (conn != f->tuner) return;
    f->blobs = blobs;
    if (f->lease) fleet_renew(f); /* a tuner that is back says at once what it holds */
}

static void print_log(fleet *f, const char *program) {
    kiln_str log = {0};
    const char *path = kiln_arena_printf(&f->arena, "%s/%s.log", f->folder, program);
    kiln_status_free(kiln_file_read(path, (size_t)1 << 20, &f->arena, &log)); /* there is none */
    print_message("%.*s", KILN_STR_ARG(log));
}

static void note_event(fleet *f, const kiln_msg_trial_event *event) {
    fleet_event noted = {.phase = (kiln_phase)event->phase};
    snprintf(noted.trial, sizeof noted.trial, "%.*s", KILN_STR_ARG(event->trial));
    kiln_vec_push(&f->events, noted);
    f->phases |= 1U << event->phase;
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    fleet *f = context;
    if (message->type == KILN_MSG_PING)
        expect_ok(kiln_conn_send(
            conn, &(kiln_message){.type = KILN_MSG_PONG, .stream = message->stream}));
    if (message->type == KILN_MSG_ERROR && f->revive) {
        f->lost = true; /* with the board */
    } else if (message->type == KILN_MSG_ERROR) {
        print_log(f, "tracker");
        print_log(f, "server");
        fail_msg("ERROR: %.*s", KILN_STR_ARG(message->error.text));
    }
    if (message->type == KILN_MSG_TRIAL_EVENT) note_event(f, &message->trial_event);
    f->results += message->type == KILN_MSG_TRIAL_RESULT;
    if (message->type == KILN_MSG_JOB_ASSIGN) f->assigned = true;
    if (message->type == KILN_MSG_LEASE_LOST && message->lease_lost.lease == f->lease)
        f->lost = true;
    if (message->type != f->wanted) return;
    f->message = kiln_message_copy(message, &f->arena);
    f->arrived = true;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    fleet *f = context;
    f->closed++;
    snprintf(f->why_closed, sizeof f->why_closed, "%s: %s", conn == f->client ? "client" : "tuner",
             kiln_status_text(why));
    if (conn == f->client) f->client = NULL;
    if (conn == f->tuner) f->tuner = NULL, f->blobs = NULL;
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static kiln_conn *dial(fleet *f, kiln_peer_role role) {
    kiln_dial_options options = {.role = role,
                                 .node = f->node,
                                 .boot = f->boot,
                                 .name = "test",
                                 .handler = &handler,
                                 .context = f};
    expect_ok(kiln_address_parse(kiln_str_from(f->address), &options.address));
    return kiln_net_dial(f->loop, &options);
}

static void ping(kiln_conn *conn) {
    if (conn) expect_ok(kiln_conn_send(conn, &(kiln_message){.type = KILN_MSG_PING}));
}

/* Peers say something now and then, else the tracker takes them for dead. By the clock: on a busy
 * machine turns are rare. */
static void wake(void *context) {
    fleet *f = context;
    const uint64_t now_ns = kiln_loop_now_ns(f->loop);
    if (f->opened == 2 && now_ns - f->pinged_ns >= KILN_LINK_HEARTBEAT_NS / 2) {
        f->pinged_ns = now_ns;
        ping(f->client);
        ping(f->tuner);
    }
    kiln_timer_start(f->again, 10000000);
}

/* Until both connections are open; the tracker may still be starting. */
void fleet_connect(fleet *f) {
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

static void revive(fleet *f) {
    if (!f->revive || !kiln_child_ended(&f->server, &f->death)) return;
    f->deaths++;
    fleet_start_server(f, NULL);
}

const kiln_message *fleet_wait_for(fleet *f, kiln_message_type type) {
    f->wanted = type;
    f->arrived = f->lost = false;
    while (!f->arrived && !f->lost) {
        kiln_loop_run_once(f->loop);
        revive(f);
        if (f->client && f->tuner) continue;
        print_log(f, "tracker");
        print_log(f, "server");
        fail_msg("the connection of the %s", f->why_closed);
    }
    return f->arrived ? &f->message : NULL;
}

static void on_uploaded(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    fleet *f = context;
    expect_ok(status);
    f->uploads++;
}

kiln_msg_blob_ref fleet_upload(fleet *f, kiln_str bytes) {
    kiln_msg_blob_ref blob = {.size = bytes.size};
    expect_ok(kiln_blob_store_put(f->store, bytes, &blob.digest));
    uint32_t before = f->uploads;
    kiln_blobs_upload(f->blobs, &blob.digest, on_uploaded, f);
    while (f->uploads == before) kiln_loop_run_once(f->loop);
    return blob;
}

void fleet_artefact(const char *candidate, kiln_strbuf *out) {
    candidate_artefact(the_objects, candidate, CANDIDATE_FLOPS, out);
}

/* Takes the bytes. */
static kiln_msg_blob_ref upload(fleet *f, kiln_strbuf *bytes) {
    kiln_msg_blob_ref blob = fleet_upload(f, kiln_strbuf_view(bytes));
    kiln_strbuf_deinit(bytes);
    return blob;
}

kiln_msg_blob_ref fleet_upload_candidate(fleet *f, const char *candidate) {
    kiln_strbuf bytes = {0};
    fleet_artefact(candidate, &bytes);
    return upload(f, &bytes);
}

kiln_msg_blob_ref fleet_upload_reference(fleet *f) {
    kiln_strbuf bytes = {0};
    candidate_reference(CANDIDATE_ELEMENTS, &bytes);
    return upload(f, &bytes);
}

void fleet_turn(fleet *f) { kiln_loop_run_once(f->loop); }

/* ---- The two programs ---- */

void fleet_start_tracker(fleet *f) {
    const char *state = kiln_arena_printf(&f->arena, "%s/tracker", f->folder);
    const char *log = kiln_arena_printf(&f->arena, "%s/tracker.log", f->folder);
    const char *const argv[] = {the_tracker, "--listen",      f->address, "--state",
                                state,       "--with-parent", NULL};
    expect_ok(
        kiln_child_start(&(kiln_child_options){.argv = argv, .error_path = log}, &f->tracker));
}

void fleet_start_server(fleet *f, const char *fail) {
    const char *state = kiln_arena_printf(&f->arena, "%s/server", f->folder);
    const char *log = kiln_arena_printf(&f->arena, "%s/server.log", f->folder);
    const char *const argv[] = {the_emulator ? the_emulator : the_server,
                                the_server,
                                "--tracker",
                                f->address,
                                "--state",
                                state,
                                "--key",
                                "desk",
                                "--with-parent",
                                the_executor ? "--executor"
                                : f->slots   ? "--slots"
                                             : NULL,
                                the_executor ? the_executor : f->slots,
                                NULL};
    /* What no candidate may see (objects/candidate.c looks for it). */
    const char *const env[] = {kiln_arena_printf(&f->arena, "KILN_FAIL=%s", fail ? fail : ""),
                               "DB_PASSWORD=hunter2", NULL};
    expect_ok(kiln_child_start(&(kiln_child_options){.argv = the_emulator ? argv : argv + 1,
                                                     .env_extra = env,
                                                     .error_path = log},
                               &f->server));
}

pid_t fleet_helper(fleet *f) {
    kiln_str children;
    uint64_t pid = 0;
    const int server = f->server.pid;
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", server, server), &f->arena,
        &children));
    assert_true(kiln_str_to_u64(kiln_str_cut(&children, ' '), &pid));
    return (pid_t)pid;
}

void fleet_set_up(fleet *f, const char *slots) {
    *f = (fleet){.slots = slots};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-fleet-test", &f->arena, &f->folder));
    f->address = kiln_arena_printf(&f->arena, "unix:%s/socket", f->folder);
    expect_ok(kiln_loop_create(&f->loop));
    /* A loop that has nothing to wait for would end. */
    f->again = kiln_timer_create(f->loop, wake, f);
    kiln_timer_start(f->again, 0);
    expect_ok(kiln_identity_create(f->node));
    expect_ok(kiln_identity_create(f->boot));
    const char *blobs = kiln_arena_printf(&f->arena, "%s/blobs", f->folder);
    expect_ok(kiln_blob_store_open(&(kiln_blob_store_options){.folder = blobs}, &f->store));
    fleet_start_tracker(f);
    fleet_start_server(f, NULL);
    fleet_connect(f);
}

void fleet_tear_down(fleet *f) {
    if (f->client) kiln_conn_close(f->client, NULL);
    if (f->tuner) kiln_conn_close(f->tuner, NULL);
    kiln_child_destroy(&f->server);
    kiln_child_destroy(&f->tracker);
    kiln_timer_destroy(f->again);
    kiln_loop_destroy(f->loop);
    kiln_blob_store_close(f->store);
    kiln_vec_deinit(&f->events);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
}

/* ---- Trials ---- */

void fleet_open_job(fleet *f) {
    kiln_message open = {.type = KILN_MSG_JOB_OPEN,
                         .stream = kiln_conn_stream(f->client),
                         .job_open = {.job = KILN_STR("job"),
                                      .spec = {.target = candidate_target(&f->arena),
                                               .searcher = KILN_STR("random")}}};
    memset(&open.job_open.spec.model, 1, sizeof open.job_open.spec.model);
    expect_ok(kiln_conn_send(f->client, &open));
    while (!f->assigned) kiln_loop_run_once(f->loop);
}

void fleet_lease(fleet *f, uint32_t trials) {
    const kiln_message *grant = NULL;
    while (!grant) {
        kiln_message request = {.type = KILN_MSG_LEASE_REQ,
                                .stream = kiln_conn_stream(f->tuner),
                                .lease_req = {.request = ++f->request,
                                              .job = KILN_STR("job"),
                                              .trials = trials,
                                              .ttl_ms = 60000,
                                              .target = candidate_target(&f->arena)}};
        expect_ok(kiln_conn_send(f->tuner, &request));
        grant = fleet_wait_for(f, KILN_MSG_LEASE_GRANT);
    }
    assert_true(kiln_str_is(grant->lease_grant.key, "desk"));
    assert_true(grant->lease_grant.lease > f->lease); /* the fence only grows */
    f->lease = grant->lease_grant.lease;
    f->lease_trials = grant->lease_grant.trials;
    f->slot = grant->lease_grant.slot;
}

void fleet_renew(fleet *f) {
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW,
                          .stream = kiln_conn_stream(f->tuner),
                          .lease_renew = {.lease = f->lease}};
    expect_ok(kiln_conn_send(f->tuner, &renew));
}

kiln_msg_trial fleet_trial(const fleet *f, const char *id, uint32_t attempt,
                           const kiln_msg_blob_ref *artefact, const kiln_msg_blob_ref *reference) {
    return (kiln_msg_trial){.trial = kiln_str_from(id),
                            .attempt = attempt,
                            .lease = f->lease,
                            .slot = f->slot,
                            .job = KILN_STR("job"),
                            .artefact = *artefact,
                            .reference = *reference,
                            .seed = CANDIDATE_SEED,
                            .policy = {.samples_min = 5,
                                       .samples_max = 20,
                                       .interval = 0.01,
                                       .sample_ns = 100000,
                                       .total_ns = 10000000}};
}

void fleet_send_trial(fleet *f, const kiln_msg_trial *trial) {
    f->phases = 0;
    expect_ok(kiln_conn_send(f->tuner, &(kiln_message){.type = KILN_MSG_TRIAL,
                                                       .stream = kiln_conn_stream(f->tuner),
                                                       .trial = *trial}));
}

const kiln_msg_trial_result *fleet_await_result(fleet *f, const char *id, uint32_t attempt) {
    const kiln_message *message = fleet_wait_for(f, KILN_MSG_TRIAL_RESULT);
    if (!message) return NULL;
    const kiln_msg_trial_result *result = &message->trial_result;
    assert_true(kiln_str_is(result->trial, id) && result->attempt == attempt &&
                result->lease == f->lease);
    return result;
}

void fleet_acknowledge(fleet *f, const kiln_msg_trial_result *result) {
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {result->trial, result->attempt, result->lease}};
    expect_ok(kiln_conn_send(f->tuner, &ack));
}
