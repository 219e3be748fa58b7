#include "rpc-server/shell.h"

#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/trace.h"
#include "base/vec.h"
#include "deploy/runtime/peak.h"
#include "rpc-server/cage.h"
#include "rpc-server/golden.h"
#include "rpc-server/power.h"
#include "rpc-server/server.h"

#define SOFTWARE "kiln-rpc-server 0.1.0"
#define DRAIN_NS (UINT64_C(10) * KILN_NS_PER_S) /* longest wait for what runs when asked to stop \
                                                 */

struct kiln_server_shell {
    kiln_loop *loop;
    kiln_server_shell_options options;
    kiln_arena arena; /* of the whole run */
    char node[KILN_HASH128_TEXT], boot[KILN_HASH128_TEXT];
    int lock_fd;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    kiln_msg_board_up board;

    kiln_server *server;
    kiln_server_actions actions;
    KILN_VEC(kiln_server_event)
    events; /* posted, not yet decided; what they point to is in event_arena */
    kiln_arena event_arena;
    kiln_timer *soon, *tick, *reading, *drain;
    bool leaving; /* asked to stop: it ends when nothing is left to hand in */

    kiln_conn *conn;
    bool open;
    kiln_blobs *blobs; /* of conn; NULL while it is not open */
    kiln_blob_store *store;
    kiln_cages *cages;
    kiln_golden golden;
    uint64_t check_run; /* the run that is the self-check; 0: none */
    kiln_power *power;
};

/* ---- Events in, actions out ---- */

static const char *keep_text(kiln_server_shell *shell, const char *text) {
    return text ? kiln_str_dup(&shell->event_arena, kiln_str_from(text)) : NULL;
}

static const kiln_message *keep_message(kiln_server_shell *shell, const kiln_message *message) {
    kiln_message copy = kiln_message_copy(message, &shell->event_arena);
    return kiln_arena_copy(&shell->event_arena, &copy, sizeof copy);
}

/* Queues an event; what it points to is copied. Decided soon, never from inside. */
static void post(kiln_server_shell *shell, const kiln_server_event *event) {
    if (!shell->soon) return; /* the loop closes what was open, and nobody decides any more */
    kiln_server_event copy = *event;
    copy.failure = keep_text(shell, event->failure);
    copy.text = keep_text(shell, event->text);
    if (event->message) copy.message = keep_message(shell, event->message);
    if (event->result)
        copy.result = &keep_message(shell, &(kiln_message){.type = KILN_MSG_TRIAL_RESULT,
                                                           .trial_result = *event->result})
                           ->trial_result;
    if (event->env)
        copy.env = &keep_message(shell, &(kiln_message){.type = KILN_MSG_BOARD_STATE,
                                                        .board_state.env = *event->env})
                        ->board_state.env;
    kiln_vec_push(&shell->events, copy);
    kiln_timer_start(shell->soon, 0);
}

static void carry_out(kiln_server_shell *shell, const kiln_server_action *action);

static void decide(kiln_server_shell *shell, const kiln_server_event *event) {
    kiln_server_actions_reset(&shell->actions);
    kiln_server_step(shell->server, kiln_loop_now_ns(shell->loop), event, &shell->actions);
    for (uint32_t i = 0; i < shell->actions.list.count; i++)
        carry_out(shell, &shell->actions.list.data[i]);
}

static bool is_idle(const kiln_server_shell *shell) {
    kiln_server_counts counts = kiln_server_counts_of(shell->server);
    return counts.waiting + counts.running + counts.kept == 0;
}

/* Decides everything that was posted, also what the actions post meanwhile. */
static void pump(void *context) {
    kiln_server_shell *shell = context;
    for (uint32_t i = 0; i < shell->events.count; i++) {
        kiln_server_event event = shell->events.data[i]; /* the vector may move */
        decide(shell, &event);
    }
    shell->events.count = 0;
    kiln_arena_reset(&shell->event_arena);
    uint64_t now_ns = kiln_loop_now_ns(shell->loop), next_ns = kiln_server_next_ns(shell->server);
    if (next_ns != UINT64_MAX)
        kiln_timer_start(shell->tick, next_ns > now_ns ? next_ns - now_ns : 0);
    if (shell->leaving && (!shell->open || is_idle(shell))) kiln_loop_stop(shell->loop);
}

static void on_tick(void *context) {
    post(context, &(kiln_server_event){.kind = KILN_SERVER_TICK});
}

static void on_reading(void *context) {
    kiln_server_shell *shell = context;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 4096);
    kiln_msg_env env = kiln_board_read_env(shell->core[0], &scratch);
    post(shell, &(kiln_server_event){.kind = KILN_SERVER_READING, .env = &env});
    kiln_arena_deinit(&scratch);
    kiln_timer_start(shell->reading, KILN_SERVER_READING_NS);
}

/* ---- The connection ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello;
    kiln_trace_clock(welcome->boot, welcome->clock_ns, kiln_clock_ns());
    kiln_server_shell *shell = context;
    if (conn != shell->conn) return;
    shell->open = true;
    shell->blobs = kiln_blobs_attach(conn, shell->store);
    kiln_log(KILN_LOG_INFO, "connected to the tracker as %.*s", KILN_STR_ARG(shell->board.key));
    post(shell, &(kiln_server_event){.kind = KILN_SERVER_OPENED});
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_server_shell *shell = context;
    if (message->type == KILN_MSG_TRIAL) kiln_fail_pass(KILN_FAIL_SERVER_TRIAL);
    if (message->type == KILN_MSG_TRIAL_ACK) kiln_fail_pass(KILN_FAIL_SERVER_ACK);
    if (conn == shell->conn)
        post(shell, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = message});
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_server_shell *shell = context;
    if (conn != shell->conn) return;
    kiln_log(shell->open ? KILN_LOG_WARN : KILN_LOG_DEBUG, "no tracker: %s", kiln_status_text(why));
    shell->conn = NULL;
    shell->blobs = NULL;
    shell->open = false;
    post(shell, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
}

static const kiln_conn_handler conn_handler = {on_opened, on_message, on_closed};

/* Credentials are read at each dial: the first tracker of a user makes the token, and keys are
 * replaced. */
static void dial(kiln_server_shell *shell) {
    const kiln_server_shell_options *own = &shell->options;
    kiln_credentials credentials = {0};
    if (shell->conn) return;
    const kiln_address *address = kiln_addresses_next(&shell->options.tracker);
    kiln_status st =
        kiln_credentials_load(address, own->home, own->key_file, own->insecure, &credentials);
    if (st) kiln_log(KILN_LOG_DEBUG, "no credentials: %s", kiln_status_text(st));
    kiln_status_free(st); /* the tracker, or dialling, refuses then, and says so */
    kiln_dial_options options = {
        .address = *address,
        .role = KILN_PEER_BOARD,
        .node = shell->node,
        .boot = shell->boot,
        .name = kiln_str_dup(&shell->event_arena, shell->board.key),
        .software = SOFTWARE,
        .credentials = &credentials,
        .handler = &conn_handler,
        .context = shell,
    };
    shell->conn = kiln_net_dial(shell->loop, &options);
}

static void hang_up(kiln_server_shell *shell) {
    kiln_conn *conn = shell->conn;
    shell->conn = NULL;
    shell->blobs = NULL;
    shell->open = false;
    if (conn) kiln_conn_close(conn, NULL);
}

/* What a trial does is told to the tracker, and so to the trace. */
static void trace_trial(const kiln_message *message) {
    if (message->type == KILN_MSG_TRIAL_EVENT) {
        const kiln_log_field field = {
            "phase", kiln_str_from(kiln_phase_name((kiln_phase)message->trial_event.phase))};
        kiln_trace_event(KILN_TRACE_MARK, KILN_TRACE_PHASE, message->trial_event.trial,
                         kiln_clock_ns(), &field, 1);
    } else if (message->type == KILN_MSG_TRIAL_RESULT) {
        const kiln_log_field field = {"outcome", kiln_str_from(kiln_outcome_name(
                                                     (kiln_outcome)message->trial_result.outcome))};
        kiln_trace_event(KILN_TRACE_END, KILN_TRACE_RUN, message->trial_result.trial,
                         kiln_clock_ns(), &field, 1);
    }
}

static void send_message(kiln_server_shell *shell, const kiln_message *message) {
    trace_trial(message);
    if (!shell->open) return;
    const bool is_result = message->type == KILN_MSG_TRIAL_RESULT;
    if (is_result) kiln_fail_pass(KILN_FAIL_SERVER_RESULT);
    kiln_status st = kiln_conn_send(shell->conn, message);
    if (is_result) kiln_fail_pass(KILN_FAIL_SERVER_TOLD);
    if (st)
        kiln_log(KILN_LOG_ERROR, "sending %s: %s", kiln_message_name(message->type),
                 kiln_status_text(st));
    kiln_status_free(st);
}

static void on_fetched(void *context, const kiln_digest *digest, kiln_status status) {
    kiln_fail_pass(KILN_FAIL_SERVER_FETCHED);
    post(context, &(kiln_server_event){.kind = KILN_SERVER_FETCHED,
                                       .digest = *digest,
                                       .failure = status ? kiln_status_text(status) : NULL});
    kiln_status_free(status);
}

static void fetch(kiln_server_shell *shell, const kiln_digest *digest) {
    if (shell->blobs)
        kiln_blobs_fetch(shell->blobs, digest, on_fetched, shell);
    else
        on_fetched(shell, digest, KILN_ERROR(UNAVAILABLE, "there is no connection to the tracker"));
}

/* ---- Measurements ---- */

static void begin_check(kiln_server_shell *shell, uint64_t run) {
    const kiln_msg_trial trial = kiln_golden_trial();
    const kiln_cage_blobs blobs = {shell->golden.reference, 1, {shell->golden.artefact}};
    shell->check_run = run;
    kiln_cages_start(shell->cages, 0, run, &trial, &blobs);
}

/* Whether that run was the self-check: then its end is decided here. */
static bool end_check(kiln_server_shell *shell, uint64_t run, const kiln_msg_trial_result *result) {
    if (run != shell->check_run) return false;
    shell->check_run = 0;
    const char *failure = kiln_golden_judge(&shell->golden, result, &shell->event_arena);
    if (failure) kiln_log(KILN_LOG_WARN, "%s", failure);
    post(shell, &(kiln_server_event){.kind = KILN_SERVER_CHECKED, .run = run, .failure = failure});
    return true;
}

static void on_phase(void *context, uint32_t slot, uint64_t run, kiln_phase phase) {
    post(context,
         &(kiln_server_event){.kind = KILN_SERVER_PHASE, .slot = slot, .run = run, .phase = phase});
}

static void on_vacated(void *context, uint32_t slot, uint64_t run) {
    post(context, &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = slot, .run = run});
}

static void on_finished(void *context, uint32_t slot, uint64_t run,
                        const kiln_msg_trial_result *result) {
    if (!end_check(context, run, result))
        post(context,
             &(kiln_server_event){
                 .kind = KILN_SERVER_FINISHED, .slot = slot, .run = run, .result = result});
}

static void on_died(void *context, uint32_t slot, uint64_t run, const char *text) {
    const kiln_msg_trial_result crash = {.outcome = KILN_OUTCOME_CRASH,
                                         .text = kiln_str_from(text)};
    if (end_check(context, run, &crash)) return;
    post(context,
         &(kiln_server_event){.kind = KILN_SERVER_DIED, .slot = slot, .run = run, .text = text});
}

static const kiln_cage_handler cage_handler = {on_phase, on_vacated, on_finished, on_died};

/* Paths of a trial's blobs; they live in `scratch`. */
static kiln_status find_blobs(kiln_server_shell *shell, const kiln_msg_trial *trial,
                              kiln_arena *scratch, kiln_cage_blobs *out) {
    char *path = NULL;
    kiln_status st = kiln_blob_store_path(shell->store, &trial->reference.digest, scratch, &path);
    out->reference = path;
    out->artefact_count = 1 + trial->rivals.count;
    for (uint32_t i = 0; !st && i < out->artefact_count; i++) {
        const kiln_msg_blob_ref *blob = i ? &trial->rivals.item[i - 1] : &trial->artefact;
        st = kiln_blob_store_path(shell->store, &blob->digest, scratch, &path);
        out->artefact[i] = path;
    }
    return st;
}

static void start(kiln_server_shell *shell, const kiln_server_action *action) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_cage_blobs blobs;
    kiln_status st = find_blobs(shell, action->trial, &scratch, &blobs);
    if (!st) {
        kiln_cages_start(shell->cages, action->slot, action->run, action->trial, &blobs);
    } else { /* it was evicted between FETCHED and now */
        kiln_msg_trial_result result = {.outcome = KILN_OUTCOME_INFRA,
                                        .blame = KILN_BLAME_INFRA,
                                        .text = kiln_str_from(kiln_status_text(st))};
        on_finished(shell, action->slot, action->run, &result);
        kiln_status_free(st);
    }
    kiln_arena_deinit(&scratch);
}

static void carry_out(kiln_server_shell *shell, const kiln_server_action *action) {
    switch (action->kind) {
    case KILN_SERVER_DIAL: dial(shell); break;
    case KILN_SERVER_HANG_UP: hang_up(shell); break;
    case KILN_SERVER_SEND: send_message(shell, &action->message); break;
    case KILN_SERVER_FETCH: fetch(shell, &action->digest); break;
    case KILN_SERVER_START:
        kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_RUN, action->trial->trial, kiln_clock_ns(),
                         &(kiln_log_field){"job", action->trial->job}, 1);
        start(shell, action);
        break;
    case KILN_SERVER_KILL: kiln_cages_kill(shell->cages, action->slot, action->run); break;
    case KILN_SERVER_CHECK: begin_check(shell, action->run); break;
    case KILN_SERVER_POWER_CYCLE: kiln_power_cycle(shell->power, action->text); break;
    }
}

/* ---- An orderly end ---- */

/* The tracker sends no more; what is here is measured and handed in, then the program ends. */
static void on_stop_signal(void *context, int number) {
    (void)number;
    kiln_server_shell *shell = context;
    if (shell->leaving || !shell->open) { /* asked twice, or nobody to tell */
        kiln_loop_stop(shell->loop);
        return;
    }
    kiln_log(KILN_LOG_INFO, "stopping; what runs is handed in first (again: at once)");
    kiln_message goaway = {.type = KILN_MSG_GOAWAY,
                           .goaway = {.reason = KILN_STR("the board stops"),
                                      .drain_ms = (uint32_t)(DRAIN_NS / KILN_NS_PER_MS)}};
    shell->leaving = true;
    send_message(shell, &goaway);
    kiln_timer_start(shell->drain, DRAIN_NS);
    on_tick(shell); /* with nothing to wait for that is all */
}

static void on_drained(void *context) { kiln_loop_stop(((kiln_server_shell *)context)->loop); }

/* ---- Life ---- */

static kiln_status open_parts(kiln_server_shell *shell) {
    const char *state = shell->options.state_folder;
    kiln_blob_store_options blobs = {.folder = kiln_arena_printf(&shell->arena, "%s/blobs", state),
                                     .bytes_max = KILN_SERVER_BLOB_BYTES_MAX};
    kiln_cage_options cages = {.loop = shell->loop,
                               .program = shell->options.program,
                               .emulator = shell->options.board.emulator,
                               .core = shell->core,
                               .folder = kiln_arena_printf(&shell->arena, "%s/run", state),
                               .executor = shell->options.board.executor,
                               .handler = &cage_handler,
                               .context = shell};
    kiln_status st = kiln_folder_create(state, 0700);
    if (!st) st = kiln_folder_lock(state, &shell->lock_fd);
    if (!st)
        st = kiln_identity_load(kiln_arena_printf(&shell->arena, "%s/node", state), shell->node);
    if (!st) st = kiln_identity_create(shell->boot);
    if (!st) st = kiln_blob_store_open(&blobs, &shell->store);
    cages.peak_flops = shell->options.board.peak_flops = kiln_peak_flops();
    if (!st) st = kiln_board_describe(&shell->options.board, &shell->arena, &shell->board);
    cages.core_count = kiln_board_share_cores(shell->core, KILN_EXECUTOR_CORES_MAX);
    if (!st)
        st = kiln_golden_open(kiln_arena_printf(&shell->arena, "%s/golden", state), &shell->arena,
                              &shell->golden);
    if (!st) st = kiln_cages_create(&cages, &shell->cages);
    if (st) return st;
    shell->board.missing = kiln_str_from(kiln_cages_missing(shell->cages));
    if (shell->board.missing.size > 0)
        kiln_log(KILN_LOG_WARN, "candidates are contained without %s, which this machine refuses",
                 kiln_cages_missing(shell->cages));
    return NULL;
}

kiln_status kiln_server_shell_create(const kiln_server_shell_options *options,
                                     kiln_server_shell **out_shell) {
    kiln_server_shell *shell = kiln_alloc(sizeof *shell);
    shell->options = *options;
    shell->lock_fd = -1;
    kiln_arena_init(&shell->arena, 0);
    kiln_arena_init(&shell->event_arena, 0);
    uint64_t seed = 0;
    kiln_status st = kiln_rand_system(&seed, sizeof seed);
    if (!st) st = kiln_loop_create_stoppable(&shell->loop);
    if (!st) st = open_parts(shell);
    if (!st) st = kiln_fail_at(KILN_FAIL_SERVER_READY);
    if (st) {
        kiln_server_shell_destroy(shell);
        return st;
    }
    shell->soon = kiln_timer_create(shell->loop, pump, shell);
    shell->tick = kiln_timer_create(shell->loop, on_tick, shell);
    shell->reading = kiln_timer_create(shell->loop, on_reading, shell);
    shell->drain = kiln_timer_create(shell->loop, on_drained, shell);
    kiln_loop_on_signal(shell->loop, SIGTERM, on_stop_signal, shell);
    shell->power =
        kiln_power_create(shell->loop, shell->options.power_cycle,
                          kiln_str_dup(&shell->arena, shell->board.key), KILN_POWER_LIMIT_NS);
    shell->server = kiln_server_create(
        &(kiln_server_options){.board = &shell->board, .seed = seed, .checks = true},
        kiln_loop_now_ns(shell->loop));
    on_tick(shell);
    kiln_timer_start(shell->reading, KILN_SERVER_READING_NS);
    *out_shell = shell;
    return NULL;
}

void kiln_server_shell_run(kiln_server_shell *shell) { kiln_loop_run(shell->loop); }

void kiln_server_shell_destroy(kiln_server_shell *shell) {
    if (!shell) return;
    hang_up(shell);
    kiln_cages_destroy(shell->cages);
    kiln_power_destroy(shell->power);
    kiln_timer_destroy(shell->soon);
    kiln_timer_destroy(shell->tick);
    kiln_timer_destroy(shell->reading);
    kiln_timer_destroy(shell->drain);
    shell->soon = NULL;
    kiln_loop_destroy(shell->loop);
    if (shell->server) kiln_server_destroy(shell->server);
    kiln_server_actions_deinit(&shell->actions);
    kiln_blob_store_close(shell->store);
    if (shell->lock_fd >= 0) close(shell->lock_fd);
    kiln_vec_deinit(&shell->events);
    kiln_arena_deinit(&shell->event_arena);
    kiln_arena_deinit(&shell->arena);
    kiln_free(shell);
}
