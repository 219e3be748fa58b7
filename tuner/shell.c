#include "tuner/shell.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/trace.h"
#include "db/trust.h"

#define BLOB_BYTES_MAX                                                         \
    ((uint64_t)8 << 30) /* of the tuner's store: models, references, artefacts \
                         */
#define SOFTWARE "kiln-tuner 0.1.0"

/* ---- events in, actions out ------------------------------------------------------------------ */

static void carry_out(kiln_shell *shell, const kiln_tuner_action *action);

static void keep_event(void *event, kiln_arena *arena) {
    kiln_tuner_event *e = event;
    e->text = kiln_event_keep_text(e->text, arena);
    e->failure = kiln_event_keep_text(e->failure, arena);
    e->message = kiln_event_keep_message(e->message, arena);
}

static void decide(void *context, const void *event) {
    kiln_shell *shell = context;
    kiln_loop_part(shell->loop, "a decision");
    kiln_tuner_actions_reset(&shell->actions);
    kiln_tuner_step(shell->tuner, kiln_loop_now_ns(shell->loop), event, &shell->actions);
    for (uint32_t i = 0; i < shell->actions.list.count; i++)
        carry_out(shell, &shell->actions.list.data[i]);
}

static uint64_t next_ns(void *context) {
    const kiln_shell *shell = context;
    return kiln_tuner_next_ns(shell->tuner);
}

static void on_tick(void *context) {
    kiln_shell *shell = context;
    kiln_shell_post(shell, &(kiln_tuner_event){.kind = KILN_TUNER_TICK});
}

/* ---- the connection -------------------------------------------------------------------------- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello;
    kiln_trace_clock(welcome->boot, welcome->clock_ns, kiln_clock_ns());
    kiln_shell *shell = context;
    if (conn != shell->conn) return;
    shell->open = true;
    shell->said = 0;
    shell->blobs = kiln_blobs_attach(conn, shell->store);
    kiln_log(KILN_LOG_INFO, "connected to the tracker");
    kiln_shell_post(shell, &(kiln_tuner_event){.kind = KILN_TUNER_OPENED});
    kiln_shell_claim_all(shell); /* it may be another's by now */
    kiln_shell_fetch_again(shell);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_shell *shell = context;
    if (conn != shell->conn) return;
    if (message->type == KILN_MSG_TRIAL_RESULT)
        kiln_trace_event(KILN_TRACE_END, KILN_TRACE_WAIT, message->trial_result.trial,
                         kiln_clock_ns(), NULL, 0);
    if (message->type == KILN_MSG_RECORDS_ASK) kiln_shell_answer_records(shell, message);
    if (message->type == KILN_MSG_JOB_ASSIGN) kiln_fail_pass(KILN_FAIL_TUNER_ASSIGN);
    if (message->type == KILN_MSG_LEASE_GRANT) kiln_fail_pass(KILN_FAIL_TUNER_GRANT);
    if (message->type == KILN_MSG_TRIAL_RESULT) kiln_fail_pass(KILN_FAIL_TUNER_RESULT);
    kiln_shell_post(shell, &(kiln_tuner_event){.kind = KILN_TUNER_MESSAGE, .message = message});
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_shell *shell = context;
    if (conn != shell->conn) return;
    kiln_log(kiln_log_level_of(&shell->said, kiln_status_code(why)), "no tracker: %s",
             kiln_status_text(why));
    shell->conn = NULL;
    shell->blobs = NULL;
    shell->open = false;
    kiln_shell_post(shell, &(kiln_tuner_event){.kind = KILN_TUNER_CLOSED});
}

static const kiln_conn_handler conn_handler = {on_opened, on_message, on_closed};

/* Records that this tuner signs count in its database, unless a person refused its key. */
static kiln_status trust_own_key(kiln_shell *shell, const kiln_signing *own) {
    char half[KILN_SIGN_PUBLIC_TEXT];
    kiln_db_trust trust = KILN_DB_TRUST_UNKNOWN;
    kiln_sign_public_print(kiln_signer_public(own->signer), half);
    kiln_status st =
        kiln_db_trust_own(shell->db, kiln_signer_public(own->signer),
                          own->has_before ? &own->succession : NULL, (int64_t)kiln_clock_wall_ns());
    if (!st) st = kiln_db_commit(shell->db);
    if (!st) st = kiln_db_trust_of(shell->db, kiln_str_from(half), &trust);
    if (!st && trust == KILN_DB_TRUST_REFUSED)
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "this tuner's key is refused in its own database; kiln key trust %s", half);
    return st;
}

typedef struct change_of_signer {
    kiln_shell *shell;
    kiln_signing next;
    kiln_status status;
} change_of_signer;

static void change_signer(void *context) {
    change_of_signer *c = context;
    c->status = trust_own_key(c->shell, &c->next);
    kiln_signer_destroy(c->shell->signer);
    c->shell->signer = c->next.signer;
}

static void signer_changed(void *context) {
    change_of_signer *c = context;
    if (c->status)
        kiln_log(KILN_LOG_ERROR, "signing by a new key: %s", kiln_status_text(c->status));
    kiln_status_free(c->status);
    kiln_free(c);
}

/* The user may have rotated the key since the last connection. */
static void look_at_signer(kiln_shell *shell) {
    kiln_signing next;
    kiln_status st = kiln_signing_load(shell->options.home, shell->options.key_file, &next);
    if (st) kiln_log(KILN_LOG_WARN, "%s", kiln_status_text(st));
    const bool is_new =
        !st && next.signer &&
        memcmp(kiln_signer_public(next.signer), &shell->signs, sizeof shell->signs) != 0;
    kiln_status_free(st); /* it signs as before */
    if (!is_new) {
        kiln_signer_destroy(next.signer);
        return;
    }
    change_of_signer *c = kiln_alloc(sizeof *c);
    *c = (change_of_signer){.shell = shell, .next = next};
    shell->signs = *kiln_signer_public(next.signer);
    kiln_io_thread_submit(shell->io_thread, change_signer, signer_changed, c);
}

static void dial(kiln_shell *shell) {
    const kiln_shell_options *own = &shell->options;
    kiln_credentials credentials = {0};
    struct utsname host;
    if (shell->conn) return;
    uname(&host); /* cannot fail */
    if (kiln_sign_supported()) look_at_signer(shell);
    const kiln_address *address = kiln_addresses_next(&shell->options.tracker);
    kiln_status st =
        kiln_credentials_load(address, own->home, own->key_file, own->insecure, &credentials);
    if (st) kiln_log(KILN_LOG_WARN, "no credentials: %s", kiln_status_text(st));
    kiln_status_free(st); /* the tracker, or dialling, refuses then */
    kiln_dial_options options = {.address = *address,
                                 .signer = kiln_sign_supported() ? &shell->signs : NULL,
                                 .role = KILN_PEER_TUNER,
                                 .node = shell->node,
                                 .boot = shell->boot,
                                 .name = host.nodename,
                                 .software = SOFTWARE,
                                 .credentials = &credentials,
                                 .handler = &conn_handler,
                                 .context = shell};
    shell->conn = kiln_net_dial(shell->loop, &options);
}

static void hang_up(kiln_shell *shell) {
    kiln_conn *conn = shell->conn;
    shell->conn = NULL;
    shell->blobs = NULL;
    shell->open = false;
    if (conn) kiln_conn_close(conn, KILN_OK);
}

static void send_message(kiln_shell *shell, const kiln_message *message) {
    if (!shell->open) return;
    if (message->type == KILN_MSG_TRIAL) {
        const kiln_log_field field = {"job", message->trial.job};
        kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_WAIT, message->trial.trial, kiln_clock_ns(),
                         &field, 1);
    }
    if (message->type == KILN_MSG_JOB_DONE) kiln_fail_pass(KILN_FAIL_TUNER_DONE);
    kiln_status st = kiln_conn_send(shell->conn, message);
    if (st)
        kiln_log(KILN_LOG_ERROR, "sending %s: %s", kiln_message_name(message->type),
                 kiln_status_text(st));
    if (message->type == KILN_MSG_TRIAL) kiln_fail_pass(KILN_FAIL_TUNER_TRIAL);
    if (message->type == KILN_MSG_TRIAL_ACK) kiln_fail_pass(KILN_FAIL_TUNER_ACK);
    kiln_status_free(st);
}

static void on_uploaded(void *context, const kiln_digest *digest, kiln_status status) {
    kiln_tuner_event event = {
        .kind = KILN_TUNER_UPLOADED, .digest = *digest, .code = kiln_status_code(status)};
    if (!status) kiln_fail_pass(KILN_FAIL_TUNER_UPLOADED);
    if (status) event.failure = kiln_status_text(status);
    kiln_shell_post(context, &event);
    kiln_status_free(status);
}

static void upload(kiln_shell *shell, const kiln_digest *digest) {
    if (shell->blobs) {
        kiln_blobs_upload(shell->blobs, digest, on_uploaded, shell);
        return;
    }
    kiln_shell_post(shell, &(kiln_tuner_event){.kind = KILN_TUNER_UPLOADED,
                                               .digest = *digest,
                                               .code = KILN_UNAVAILABLE,
                                               .failure = "there is no connection to the tracker"});
}

static const char *const action_name[] = {
    [KILN_TUNER_DIAL] = "DIAL",       [KILN_TUNER_HANG_UP] = "HANG_UP",
    [KILN_TUNER_SEND] = "SEND",       [KILN_TUNER_UPLOAD] = "UPLOAD",
    [KILN_TUNER_PREPARE] = "PREPARE", [KILN_TUNER_PROPOSE] = "PROPOSE",
    [KILN_TUNER_BUILD] = "BUILD",     [KILN_TUNER_REFERENCE] = "REFERENCE",
    [KILN_TUNER_RECORD] = "RECORD",   [KILN_TUNER_OBSERVE] = "OBSERVE",
    [KILN_TUNER_GATHER] = "GATHER",   [KILN_TUNER_EXPORT] = "EXPORT",
    [KILN_TUNER_FORGET] = "FORGET"};

static void carry_out(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_loop_part(shell->loop, action_name[action->kind]);
    switch (action->kind) {
    case KILN_TUNER_DIAL: dial(shell); break;
    case KILN_TUNER_HANG_UP: hang_up(shell); break;
    case KILN_TUNER_SEND: send_message(shell, &action->message); break;
    case KILN_TUNER_UPLOAD: upload(shell, &action->digest); break;
    case KILN_TUNER_PREPARE: kiln_shell_prepare(shell, action); break;
    case KILN_TUNER_PROPOSE: kiln_shell_propose(shell, action); break;
    case KILN_TUNER_BUILD: kiln_shell_build(shell, action); break;
    case KILN_TUNER_REFERENCE: kiln_shell_reference(shell, action); break;
    case KILN_TUNER_RECORD: kiln_shell_record(shell, action); break;
    case KILN_TUNER_OBSERVE: kiln_shell_observe(shell, action); break;
    case KILN_TUNER_GATHER: kiln_shell_gather(shell, action); break;
    case KILN_TUNER_EXPORT: kiln_shell_export(shell, action); break;
    case KILN_TUNER_FORGET: kiln_shell_forget(shell, action); break;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static kiln_status open_stores(kiln_shell *shell) {
    kiln_signing own = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_blob_store_options blobs = {
        .folder = kiln_arena_printf(&scratch, "%s/blobs", shell->options.state_folder),
        .bytes_max = BLOB_BYTES_MAX};
    kiln_status st = kiln_folder_create(shell->options.state_folder, 0700);
    if (!st) st = kiln_folder_lock(shell->options.state_folder, &shell->lock_fd);
    if (!st) st = kiln_identity_create(shell->boot);
    if (!st)
        st = kiln_identity_load(kiln_arena_printf(&scratch, "%s/node", shell->options.state_folder),
                                shell->node);
    if (!st) st = kiln_blob_store_open(&blobs, &shell->store);
    if (!st) st = kiln_db_open(shell->options.db_path, KILN_DB_RECORDS, KILN_DB_WRITE, &shell->db);
    if (!st) st = kiln_signing_load(shell->options.home, shell->options.key_file, &own);
    shell->signer = own.signer;
    if (own.signer) shell->signs = *kiln_signer_public(own.signer);
    if (!st && own.signer) st = trust_own_key(shell, &own);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_shell_create(const kiln_shell_options *options, kiln_shell **out_shell) {
    kiln_shell *shell = kiln_alloc(sizeof *shell);
    shell->options = *options;
    shell->lock_fd = -1;
    kiln_status st = kiln_loop_create_stoppable(&shell->loop);
    if (!st) st = open_stores(shell);
    if (st) {
        kiln_shell_destroy(shell);
        return st;
    }
    kiln_loop *loop = shell->loop;
    shell->io_thread = kiln_io_thread_create(loop);
    shell->events =
        kiln_event_queue_create(&(kiln_event_queue_options){.loop = loop,
                                                            .event_bytes = sizeof(kiln_tuner_event),
                                                            .keep = keep_event,
                                                            .decide = decide,
                                                            .next_ns = next_ns,
                                                            .tick = on_tick,
                                                            .context = shell});
    shell->commit = kiln_timer_create(loop, kiln_shell_commit, shell);
    shell->claims = kiln_timer_create(loop, kiln_shell_claim_all, shell);
    shell->builders = kiln_builders_create(
        loop, &(kiln_builders_options){.program = options->program,
                                       .worker_count = KILN_MAX(options->builder_count, 1),
                                       .cores = options->builder_cores,
                                       .memory_max = options->model_memory_bytes});
    shell->tuner = kiln_tuner_create(&(kiln_tuner_options){.builders = options->builder_count,
                                                           .codegen = kiln_codegen_version(),
                                                           .seed = options->seed},
                                     kiln_loop_now_ns(loop));
    on_tick(shell);
    *out_shell = shell;
    return KILN_OK;
}

void kiln_shell_run(kiln_shell *shell) { kiln_loop_run(shell->loop); }

/* Connections and transfers end with the loop, and their news still finds what it is about. */
void kiln_shell_destroy(kiln_shell *shell) {
    if (!shell) return;
    hang_up(shell);
    kiln_shell_search_wait(shell);
    if (shell->io_thread) {
        kiln_shell_commit(shell); /* what fails here is measured again */
        kiln_io_thread_wait(shell->io_thread);
    }
    kiln_builders_destroy(shell->builders);
    kiln_event_queue_destroy(shell->events);
    shell->events = NULL;
    kiln_timer_destroy(shell->commit);
    kiln_timer_destroy(shell->claims);
    while (shell->jobs) {
        kiln_shell_unclaim(shell->jobs);
        kiln_shell_job_destroy(shell->jobs);
    }
    if (shell->io_thread) kiln_io_thread_wait(shell->io_thread);
    kiln_io_thread_destroy(shell->io_thread);
    shell->io_thread = NULL;
    kiln_loop_destroy(shell->loop);
    if (shell->tuner) kiln_tuner_destroy(shell->tuner);
    kiln_tuner_actions_deinit(&shell->actions);
    kiln_blob_store_close(shell->store);
    kiln_db_close(shell->db);
    kiln_signer_destroy(shell->signer);
    if (shell->lock_fd >= 0) close(shell->lock_fd);
    kiln_free(shell);
}
