#include "rpc-server/shell.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fence.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/vec.h"
#include "deploy/runtime/peak.h"
#include "proto/event_queue.h"
#include "rpc-server/board_builder.h"
#include "rpc-server/board_connection.h"
#include "rpc-server/launched.h"
#include "rpc-server/log_tail.h"
#include "rpc-server/power.h"
#include "rpc-server/server.h"
#include "rpc-server/trial_runner.h"

/* Longest wait for running trials after SIGTERM. */
#define DRAIN_NS (UINT64_C(10) * KILN_NS_PER_S)

struct kiln_server_shell {
    kiln_loop *loop;
    kiln_server_shell_options options;
    kiln_arena arena; /* of the whole run */
    char node[KILN_HASH128_TEXT], boot[KILN_HASH128_TEXT];
    int lock_fd;
    kiln_slots slots;
    kiln_msg_board_up board;

    kiln_server *server;
    kiln_server_actions actions;
    kiln_event_queue *events; /* NULL: the shell is being destroyed, nothing is decided any more */
    kiln_timer *reading, *drain;
    bool leaving; /* asked to stop: ends once all results are acknowledged */

    kiln_blob_store *store;
    kiln_board_connection *connection; /* NULL: a batch replaces the tracker */
    kiln_trial_runner *runner;
    kiln_board_builder *builder; /* NULL: this server has no compiler */
    kiln_power *power;
    int helper_pidfd;
    kiln_watch *helper_watch;
    bool helper_ended;
    kiln_launched *launched; /* NULL: there is no launcher */
    bool launcher_ended;
    kiln_log_tail *tail; /* of the log */
};

/* ---- Events in, actions out ---- */

static const kiln_msg_trial_result *keep_result(const kiln_msg_trial_result *result,
                                                kiln_arena *arena) {
    return &kiln_event_keep_message(
                &(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result}, arena)
                ->trial_result;
}

/* A result, and parts of messages, are copied as the message that they travel in. */
static void keep_event(void *event, kiln_arena *arena) {
    kiln_server_event *e = event;
    e->failure = kiln_event_keep_text(e->failure, arena);
    e->text = kiln_event_keep_text(e->text, arena);
    e->message = kiln_event_keep_message(e->message, arena);
    if (e->result) e->result = keep_result(e->result, arena);
    if (e->built)
        e->built = &keep_result(&(kiln_msg_trial_result){.built = *e->built}, arena)->built;
    if (e->env)
        e->env =
            &kiln_event_keep_message(
                 &(kiln_message){.type = KILN_MSG_BOARD_STATE, .board_state.env = *e->env}, arena)
                 ->board_state.env;
}

static void post(void *context, const kiln_server_event *event) {
    kiln_event_queue_post(((kiln_server_shell *)context)->events, event);
}

/* ---- Outputs of modules ---- */

/* A finished run whose outputs are being uploaded to the tracker. FINISHED is posted after that. */
typedef struct upload {
    kiln_server_shell *shell;
    kiln_arena arena;
    kiln_server_event event;
} upload;

static void on_uploaded(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    upload *p = context;
    kiln_msg_trial_result result = *p->event.result;
    if (status) {
        result.outcome = KILN_OUTCOME_INFRA;
        result.outputs = (kiln_msg_blob_ref){0};
        result.text = kiln_str_from(kiln_status_text(status));
    }
    p->event.result = &result;
    post(p->shell, &p->event);
    kiln_status_free(status);
    kiln_arena_deinit(&p->arena);
    kiln_free(p);
}

/* Posts an event of a run. The outputs of a module are uploaded before its FINISHED is posted. */
static void on_run(void *context, const kiln_server_event *event) {
    if (event->kind != KILN_SERVER_FINISHED || event->result->outputs.size == 0) {
        post(context, event);
        return;
    }
    upload *p = kiln_alloc(sizeof *p);
    *p = (upload){.shell = context, .event = *event};
    kiln_arena_init(&p->arena, 0);
    p->event.result = keep_result(event->result, &p->arena);
    kiln_board_connection_upload(p->shell->connection, &p->event.result->outputs.digest,
                                 on_uploaded, p);
}

static void carry_out(kiln_server_shell *shell, const kiln_server_action *action);

static void decide(void *context, const void *event) {
    kiln_server_shell *shell = context;
    kiln_server_actions_reset(&shell->actions);
    kiln_server_step(shell->server, kiln_loop_now_ns(shell->loop), event, &shell->actions);
    for (uint32_t i = 0; i < shell->actions.list.count; i++)
        carry_out(shell, &shell->actions.list.data[i]);
}

static bool is_idle(const kiln_server_shell *shell) {
    kiln_server_counts counts = kiln_server_counts_of(shell->server);
    return counts.waiting + counts.running + counts.kept == 0;
}

static uint64_t next_ns(void *context) {
    const kiln_server_shell *shell = context;
    return kiln_server_next_ns(shell->server);
}

static void end_turn(void *context, bool is_empty) {
    const kiln_server_shell *shell = context;
    if (is_empty && shell->leaving &&
        (!kiln_board_connection_is_open(shell->connection) || is_idle(shell)))
        kiln_loop_stop(shell->loop);
}

static void on_tick(void *context) {
    post(context, &(kiln_server_event){.kind = KILN_SERVER_TICK});
}

static void on_reading(void *context) {
    kiln_server_shell *shell = context;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 4096);
    kiln_msg_env env = kiln_board_read_env(shell->slots.slot[0].core[0], &scratch);
    kiln_trial_runner_put_reading(shell->runner, 0, &env);
    post(shell, &(kiln_server_event){.kind = KILN_SERVER_READING, .env = &env});
    kiln_arena_deinit(&scratch);
    kiln_timer_start(shell->reading, KILN_SERVER_READING_NS);
}

static void on_opened(void *context) {
    post(context, &(kiln_server_event){.kind = KILN_SERVER_OPENED});
}

static void on_message(void *context, const kiln_message *message) {
    kiln_server_shell *shell = context;
    if (message->type == KILN_MSG_TAIL) kiln_log_tail_ask(shell->tail, &message->tail);
    post(context, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = message});
}

static void on_closed(void *context) {
    kiln_log_tail_forget(((kiln_server_shell *)context)->tail);
    post(context, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
}

static void on_fetched(void *context, const kiln_digest *digest, const char *failure) {
    post(context,
         &(kiln_server_event){.kind = KILN_SERVER_FETCHED, .digest = *digest, .failure = failure});
}

static const kiln_board_connection_handler connection_handler = {on_opened, on_message, on_closed,
                                                                 on_fetched};

static void build(kiln_server_shell *shell, const kiln_server_action *action) {
    if (shell->builder)
        kiln_board_builder_build(shell->builder, action);
    else
        post(shell, &(kiln_server_event){.kind = KILN_SERVER_BUILT,
                                         .run = action->run,
                                         .outcome = KILN_OUTCOME_INFRA,
                                         .text = "this server builds no candidates"});
}

/* Carries out an action for the tracker, or for the batch that replaces it. */
static void carry_out_there(kiln_server_shell *shell, const kiln_server_action *action) {
    kiln_batch *batch = shell->options.batch;
    switch ((int)action->kind) {
    case KILN_SERVER_DIAL:
        if (batch)
            kiln_batch_dial(batch);
        else
            kiln_board_connection_dial(shell->connection);
        break;
    case KILN_SERVER_HANG_UP:
        if (batch)
            on_closed(shell);
        else
            kiln_board_connection_hang_up(shell->connection);
        break;
    case KILN_SERVER_SEND:
        if (batch)
            kiln_batch_take(batch, &action->message);
        else
            kiln_board_connection_send(shell->connection, &action->message);
        break;
    default:
        if (batch)
            kiln_batch_fetch(batch, &action->digest);
        else
            kiln_board_connection_fetch(shell->connection, &action->digest);
    }
}

static void restart(kiln_server_shell *shell, const kiln_server_action *action) {
    kiln_status st = kiln_launched_restart(shell->launched, action);
    if (st)
        post(shell,
             &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER, .failure = kiln_status_text(st)});
    else
        kiln_loop_stop(shell->loop);
    if (!st) kiln_log(KILN_LOG_INFO, "ends, so that the launcher starts another version");
    kiln_status_free(st); /* the step reports it */
}

static void carry_out(kiln_server_shell *shell, const kiln_server_action *action) {
    switch (action->kind) {
    case KILN_SERVER_DIAL:
    case KILN_SERVER_HANG_UP:
    case KILN_SERVER_SEND:
    case KILN_SERVER_FETCH: carry_out_there(shell, action); break;
    case KILN_SERVER_BUILD: build(shell, action); break;
    case KILN_SERVER_START: kiln_trial_runner_start(shell->runner, action); break;
    case KILN_SERVER_TIME: kiln_trial_runner_time(shell->runner, action); break;
    case KILN_SERVER_KILL: kiln_trial_runner_kill(shell->runner, action); break;
    case KILN_SERVER_CHECK: kiln_trial_runner_check(shell->runner, action); break;
    case KILN_SERVER_POWER_CYCLE: kiln_power_cycle(shell->power, action->text); break;
    case KILN_SERVER_RESTART: restart(shell, action); break;
    case KILN_SERVER_CONFIRM: kiln_launched_confirm(shell->launched); break;
    case KILN_SERVER_GIVE_UP: kiln_launched_give_up(shell->launched, action->text); break;
    }
}

/* ---- An orderly end ---- */

/* After GOAWAY the tracker sends no more trials. The board measures the ones it has, hands in the
 * results, and ends. */
static void on_stop_signal(void *context, int number) {
    (void)number;
    kiln_server_shell *shell = context;
    if (shell->leaving || shell->options.batch ||
        !kiln_board_connection_is_open(
            shell->connection)) { /* asked twice, or no tracker to wait for */
        kiln_loop_stop(shell->loop);
        return;
    }
    kiln_log(KILN_LOG_INFO, "stopping; what runs is handed in first (again: at once)");
    kiln_message goaway = {.type = KILN_MSG_GOAWAY,
                           .goaway = {.reason = KILN_STR("the board stops"),
                                      .drain_ms = (uint32_t)(DRAIN_NS / KILN_NS_PER_MS)}};
    shell->leaving = true;
    kiln_board_connection_send(shell->connection, &goaway);
    kiln_timer_start(shell->drain, DRAIN_NS);
    on_tick(shell); /* ends at once if nothing is left to wait for */
}

/* The helper has rights that this process gave up, so another one cannot be started. */
static void on_helper_ended(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_server_shell *shell = context;
    shell->helper_ended = true;
    kiln_watch_set(shell->helper_watch, 0);
    kiln_loop_stop(shell->loop);
}

static void on_confirmed(void *context) {
    post(context, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER});
}

static void on_launcher_ended(void *context) {
    kiln_server_shell *shell = context;
    shell->launcher_ended = true;
    kiln_loop_stop(shell->loop);
}

static void on_drained(void *context) { kiln_loop_stop(((kiln_server_shell *)context)->loop); }

/* ---- Life ---- */

/* Locks the folder and loads this node's identity. */
static kiln_status open_state(kiln_server_shell *shell) {
    const char *state = shell->options.state_folder;
    const kiln_blob_store_options blobs = {.folder =
                                               kiln_arena_printf(&shell->arena, "%s/blobs", state),
                                           .bytes_max = KILN_SERVER_BLOB_BYTES_MAX};
    kiln_status st = kiln_folder_create(state, 0700);
    if (!st) st = kiln_folder_lock(state, &shell->lock_fd);
    if (!st)
        st = kiln_identity_load(kiln_arena_printf(&shell->arena, "%s/node", state), shell->node);
    if (!st) st = kiln_identity_create(shell->boot);
    return st ? st : kiln_blob_store_open(&blobs, &shell->store);
}

/* Builders are started before kiln_slots_leave, after which this process stays off the timing
 * cores. */
static void open_builder(kiln_server_shell *shell) {
    const kiln_server_shell_options *own = &shell->options;
    const uint64_t most =
        KILN_MIN(kiln_slots_spare_cores(&shell->slots), KILN_BOARD_BUILDER_BUILDERS_MAX);
    const kiln_board_builder_options options = {.loop = shell->loop,
                                                .program = own->program,
                                                .builders = (uint32_t)KILN_MIN(own->builders, most),
                                                .store = shell->store,
                                                .post = post,
                                                .context = shell};
    shell->builder = kiln_board_builder_create(&options);
    if (!shell->builder) return;
    shell->options.board.builds = kiln_board_builder_codegen();
    kiln_log(KILN_LOG_INFO, "builds candidates with codegen version %s",
             kiln_board_builder_codegen());
}

/* Makes slots of the devices that this server offers instead of the processor. */
static kiln_status find_devices(kiln_server_shell *shell, const uint32_t *core,
                                uint32_t core_count) {
    const kiln_server_shell_options *own = &shell->options;
    const uint32_t count = KILN_MAX(own->device_count, 1);
    kiln_found_device *found = KILN_ARENA_ARRAY(&shell->arena, kiln_found_device, count);
    kiln_target *target = KILN_ARENA_ARRAY(&shell->arena, kiln_target, count);
    uint32_t *index = KILN_ARENA_ARRAY(&shell->arena, uint32_t, count);
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < count; i++) {
        const kiln_str wanted = kiln_str_from(own->device_count ? own->device[i] : "0");
        st = kiln_find_device_named(own->helper, own->board.executor, wanted, &shell->arena,
                                    &found[i]);
        if (st) break;
        target[i] = found[i].target;
        index[i] = found[i].index;
    }
    if (st) return st;
    shell->options.board.device = found;
    shell->options.board.device_count = count;
    const kiln_slot_devices devices = {target, index, count, KILN_MAX(own->board.slots, 1)};
    return kiln_slots_of_devices(&devices, core, core_count, &shell->slots);
}

static kiln_status share_cores(kiln_server_shell *shell) {
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const kiln_executor *executor = shell->options.board.executor;
    const uint32_t count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    if (executor && executor->driver) {
        kiln_status found = find_devices(shell, core, count);
        if (!found) open_builder(shell);
        return found ? found
                     : kiln_board_describe(&shell->options.board, &shell->arena, &shell->board);
    }
    kiln_status st = kiln_slots_share(core, count, KILN_MAX(shell->options.board.slots, 1),
                                      "/sys/devices/system", &shell->slots);
    for (uint32_t i = 0; !st && i < shell->options.board.also_count; i++) {
        kiln_target target;
        st = kiln_target_parse(kiln_str_from(shell->options.board.also[i]), &shell->arena, &target);
        if (!st) st = kiln_slots_add(&shell->slots, target.kind, "/sys/devices/system");
    }
    if (!st) open_builder(shell);
    if (!st) st = kiln_board_describe(&shell->options.board, &shell->arena, &shell->board);
    if (!st) kiln_slots_leave(&shell->slots);
    return st;
}

static void on_batch_ended(void *context) { kiln_loop_stop(((kiln_server_shell *)context)->loop); }

static kiln_status open_batch(kiln_server_shell *shell) {
    const kiln_batch_options options = {.board = &shell->board,
                                        .node = shell->node,
                                        .store = shell->store,
                                        .handler = &connection_handler,
                                        .ended = on_batch_ended,
                                        .context = shell};
    return kiln_batch_begin(shell->options.batch, &options);
}

static void on_lines(void *context, const kiln_message *message) {
    kiln_board_connection_send(((kiln_server_shell *)context)->connection, message);
}

static void open_connection(kiln_server_shell *shell) {
    const kiln_server_shell_options *own = &shell->options;
    const kiln_board_connection_options options = {
        .loop = shell->loop,
        .tracker = own->tracker,
        .helper = own->helper,
        .node = shell->node,
        .boot = shell->boot,
        .name = kiln_str_dup(&shell->arena, shell->board.key),
        .store = shell->store,
        .handler = &connection_handler,
        .context = shell};
    shell->connection = kiln_board_connection_create(&options);
}

static void open_launched(kiln_server_shell *shell) {
    const kiln_launched_options options = {.loop = shell->loop,
                                           .socket = shell->options.launcher,
                                           .store = shell->store,
                                           .confirmed = on_confirmed,
                                           .gone = on_launcher_ended,
                                           .context = shell};
    if (shell->options.launcher >= 0) shell->launched = kiln_launched_create(&options);
}

static void add_fact(kiln_arena *arena, const char *name, const kiln_part_norm *norm,
                     kiln_msg_board_up *board) {
    kiln_strbuf text = {0};
    kiln_part_norm_print(norm, &text);
    const kiln_str value = kiln_str_slice(kiln_strbuf_view(&text), 0, KILN_MESSAGES_KEY);
    board->facts.item[board->facts.count++] =
        (kiln_msg_label){kiln_str_from(name), {kiln_str_dup(arena, value), value.size}};
    kiln_strbuf_deinit(&text);
}

/* Adds the usual times of the reference kernel on the first slot's core to the board's facts. */
static void describe_reference(kiln_server_shell *shell) {
    const kiln_reference_kernel_norm *norm = kiln_trial_runner_norm(shell->runner, 0);
    kiln_msg_board_up *board = &shell->board;
    if (shell->options.board.device_count) return; /* times on devices are not compared with it */
    kiln_msg_label *fact = KILN_ARENA_ARRAY(&shell->arena, kiln_msg_label, KILN_MESSAGES_FACTS);
    KILN_CHECK(board->facts.count + 2 <= KILN_MESSAGES_FACTS);
    if (board->facts.count) memcpy(fact, board->facts.item, board->facts.count * sizeof *fact);
    board->facts.item = fact;
    add_fact(&shell->arena, "pace", &norm->arithmetic, board);
    add_fact(&shell->arena, "memory pace", &norm->memory, board);
}

static kiln_str fence_names(kiln_server_shell *shell, uint32_t fences) {
    kiln_strbuf text = {0};
    kiln_fences_print(fences, &text);
    const kiln_str names = kiln_strbuf_view(&text);
    const kiln_str kept = {kiln_str_dup(&shell->arena, names), names.size};
    kiln_strbuf_deinit(&text);
    return kept;
}

static kiln_status describe_fences(kiln_server_shell *shell) {
    const uint32_t fences = kiln_trial_runner_fences(shell->runner) |
                            (shell->options.is_split ? 1U << KILN_FENCE_SPLIT : 0);
    const uint32_t lacking = shell->options.required & ~fences;
    shell->board.fences = fence_names(shell, fences);
    shell->board.missing = fence_names(shell, KILN_FENCES_ALL & ~fences);
    if (shell->board.missing.size > 0)
        kiln_log(KILN_LOG_WARN, "candidates are contained without %.*s, which this machine refuses",
                 KILN_STR_ARG(shell->board.missing));
    if (lacking == 0) return NULL;
    return KILN_ERROR(FAILED_PRECONDITION,
                      "--require asks for %s, which this machine refuses: start as root, or by "
                      "systemd with Delegate=yes (deploy/systemd); docs/how-to/fleet.md says what "
                      "each fence needs",
                      fence_names(shell, lacking).data);
}

static kiln_status open_parts(kiln_server_shell *shell) {
    const kiln_server_shell_options *own = &shell->options;
    if (!own->board.emulator) shell->options.board.peak_flops = kiln_peak_flops();
    const kiln_trial_runner_options runner = {.loop = shell->loop,
                                              .helper = own->helper,
                                              .emulator = own->board.emulator,
                                              .state_folder = own->state_folder,
                                              .executor = own->board.executor,
                                              .slots = &shell->slots,
                                              .peak_flops = own->board.peak_flops,
                                              .store = shell->store,
                                              .post = on_run,
                                              .context = shell};
    kiln_status st = share_cores(shell);
    if (!st) st = kiln_trial_runner_create(&runner, &shell->runner);
    if (st) return st;
    if (!own->batch) open_connection(shell);
    describe_reference(shell);
    st = describe_fences(shell);
    return st || !own->batch ? st : open_batch(shell);
}

kiln_status kiln_server_shell_create(const kiln_server_shell_options *options,
                                     kiln_server_shell **out_shell) {
    kiln_server_shell *shell = kiln_alloc(sizeof *shell);
    shell->options = *options;
    shell->lock_fd = -1;
    shell->helper_pidfd = pidfd_open(kiln_helper_pid(options->helper), 0);
    kiln_arena_init(&shell->arena, 0);
    uint64_t seed = 0;
    kiln_status st = kiln_rand_system(&seed, sizeof seed);
    if (!st && shell->helper_pidfd < 0)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "watching the helper: %s", strerror(errno));
    if (!st) st = kiln_loop_create_stoppable(&shell->loop);
    if (!st) {
        shell->tail = kiln_log_tail_create(shell->loop, on_lines, shell);
        kiln_log_tap(kiln_log_tail_put, shell->tail);
    }
    if (!st) st = open_state(shell);
    if (!st) st = open_parts(shell);
    if (!st) st = kiln_fail_at(KILN_FAIL_SERVER_READY);
    if (st) {
        kiln_server_shell_destroy(shell);
        return st;
    }
    shell->events = kiln_event_queue_create(
        &(kiln_event_queue_options){.loop = shell->loop,
                                    .event_bytes = sizeof(kiln_server_event),
                                    .keep = keep_event,
                                    .decide = decide,
                                    .end_turn = end_turn,
                                    .next_ns = next_ns,
                                    .tick = on_tick,
                                    .context = shell});
    shell->reading = kiln_timer_create(shell->loop, on_reading, shell);
    shell->drain = kiln_timer_create(shell->loop, on_drained, shell);
    kiln_loop_on_signal(shell->loop, SIGTERM, on_stop_signal, shell);
    shell->power = kiln_power_create(shell->loop, shell->options.helper, KILN_POWER_LIMIT_NS);
    shell->helper_watch = kiln_watch_create(shell->loop, shell->helper_pidfd, KILN_WATCH_READ,
                                            on_helper_ended, shell);
    open_launched(shell);
    shell->server = kiln_server_create(
        &(kiln_server_options){.board = &shell->board,
                               .disturbs = shell->slots.disturbs,
                               .seed = seed,
                               .check_ns = kiln_trial_runner_check_ns(shell->runner),
                               .release_keys = shell->options.release_keys,
                               .version = strchr(kiln_board_software(), ' ') + 1,
                               .launch = shell->options.launch},
        kiln_loop_now_ns(shell->loop));
    on_tick(shell);
    kiln_timer_start(shell->reading, KILN_SERVER_READING_NS);
    *out_shell = shell;
    return NULL;
}

kiln_status kiln_server_shell_run(kiln_server_shell *shell) {
    kiln_loop_run(shell->loop);
    if (shell->helper_ended)
        return KILN_ERROR(UNAVAILABLE, "the helper has ended, and nothing can be measured: was it "
                                       "killed for memory? Start the server again");
    if (shell->launcher_ended)
        return KILN_ERROR(UNAVAILABLE, "the launcher of this server has ended");
    return shell->options.batch ? kiln_batch_end(shell->options.batch) : NULL;
}

void kiln_server_shell_destroy(kiln_server_shell *shell) {
    if (!shell) return;
    kiln_log_tap(NULL, NULL);
    if (shell->connection) kiln_board_connection_hang_up(shell->connection);
    kiln_trial_runner_destroy(shell->runner);
    kiln_board_builder_destroy(shell->builder);
    kiln_power_destroy(shell->power);
    kiln_watch_destroy(shell->helper_watch);
    kiln_launched_destroy(shell->launched);
    if (shell->helper_pidfd >= 0) close(shell->helper_pidfd);
    kiln_event_queue_destroy(shell->events);
    shell->events = NULL;
    kiln_timer_destroy(shell->reading);
    kiln_timer_destroy(shell->drain);
    kiln_loop_destroy(shell->loop);
    kiln_board_connection_destroy(shell->connection);
    kiln_log_tail_destroy(shell->tail);
    if (shell->server) kiln_server_destroy(shell->server);
    kiln_server_actions_deinit(&shell->actions);
    kiln_blob_store_close(shell->store);
    if (shell->lock_fd >= 0) close(shell->lock_fd);
    kiln_arena_deinit(&shell->arena);
    kiln_free(shell);
}
