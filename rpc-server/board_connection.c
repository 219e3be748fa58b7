#include "rpc-server/board_connection.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/trace.h"

struct kiln_board_connection {
    kiln_board_connection_options options;
    kiln_conn *conn;
    bool open;
    uint32_t logged_code; /* code of the last failure that was logged */
    kiln_blobs *blobs;    /* of conn; NULL while it is not open */
};

kiln_board_connection *kiln_board_connection_create(const kiln_board_connection_options *options) {
    kiln_board_connection *connection = kiln_alloc(sizeof *connection);
    *connection = (kiln_board_connection){.options = *options};
    return connection;
}

void kiln_board_connection_destroy(kiln_board_connection *connection) { kiln_free(connection); }

const char *kiln_board_software(void) { return "kiln-rpc-server " KILN_VERSION; }

/* ---- The connection ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello;
    kiln_trace_clock(welcome->boot, welcome->clock_ns, kiln_clock_ns());
    kiln_board_connection *connection = context;
    if (conn != connection->conn) return;
    connection->open = true;
    connection->logged_code = 0;
    connection->blobs = kiln_blobs_attach(conn, connection->options.store);
    kiln_log(KILN_LOG_INFO, "connected to the tracker as %s", connection->options.name);
    connection->options.handler->opened(connection->options.context);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_board_connection *connection = context;
    if (message->type == KILN_MSG_TRIAL) kiln_fail_pass(KILN_FAIL_SERVER_TRIAL);
    if (message->type == KILN_MSG_TRIAL_ACK) kiln_fail_pass(KILN_FAIL_SERVER_ACK);
    if (conn == connection->conn)
        connection->options.handler->message(connection->options.context, message);
}

/* After this a late callback of the connection is ignored. */
static void drop(kiln_board_connection *connection) {
    connection->conn = NULL;
    connection->blobs = NULL;
    connection->open = false;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_board_connection *connection = context;
    if (conn != connection->conn) return;
    kiln_log(kiln_log_level_of(&connection->logged_code, kiln_status_code(why)), "no tracker: %s",
             kiln_status_text(why));
    drop(connection);
    connection->options.handler->closed(connection->options.context);
}

static const kiln_conn_handler conn_handler = {on_opened, on_message, on_closed};

kiln_status kiln_board_connection_prepare(kiln_helper *helper, const kiln_addresses *addresses,
                                          const kiln_address *address,
                                          kiln_credentials *out_credentials, int *out_socket_fd) {
    const uint32_t index = (uint32_t)(address - addresses->item);
    if (!address->is_unix) return kiln_helper_credentials(helper, index, out_credentials);
    return kiln_helper_connect(helper, index, out_socket_fd);
}

/* Only the helper can read and write the key file. */
static kiln_status take_key(void *context, const kiln_key *next) {
    kiln_board_connection *connection = context;
    return kiln_helper_take_key(connection->options.helper, next);
}

void kiln_board_connection_dial(kiln_board_connection *connection) {
    kiln_board_connection_options *own = &connection->options;
    kiln_credentials credentials = {0};
    if (connection->conn) return;
    const kiln_address *address = kiln_addresses_next(&own->tracker);
    int socket_fd = 0;
    kiln_status st = kiln_board_connection_prepare(own->helper, &own->tracker, address,
                                                   &credentials, &socket_fd);
    if (st) kiln_log(KILN_LOG_DEBUG, "no credentials: %s", kiln_status_text(st));
    kiln_status_free(st); /* dialling or the tracker then fails with a message */
    const kiln_dial_options options = {
        .address = *address,
        .role = KILN_PEER_BOARD,
        .node = own->node,
        .boot = own->boot,
        .name = own->name,
        .software = kiln_board_software(),
        .credentials = &credentials,
        .socket_fd = socket_fd,
        .take_key = take_key,
        .handler = &conn_handler,
        .context = connection,
    };
    connection->conn = kiln_net_dial(own->loop, &options);
}

void kiln_board_connection_hang_up(kiln_board_connection *connection) {
    kiln_conn *conn = connection->conn;
    drop(connection);
    if (conn) kiln_conn_close(conn, NULL);
}

bool kiln_board_connection_is_open(const kiln_board_connection *connection) {
    return connection->open;
}

/* ---- Messages ---- */

/* Phases and results of trials go to the trace, too. */
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

void kiln_board_connection_send(kiln_board_connection *connection, const kiln_message *message) {
    trace_trial(message);
    if (!connection->open) return;
    const bool is_result = message->type == KILN_MSG_TRIAL_RESULT;
    kiln_message pong;
    if (message->type == KILN_MSG_PONG) { /* the wall clock at the time of sending */
        pong = *message;
        pong.pong.wall_ns = kiln_clock_wall_ns();
        message = &pong;
    }
    if (is_result) kiln_fail_pass(KILN_FAIL_SERVER_RESULT);
    kiln_status st = kiln_conn_send(connection->conn, message);
    if (is_result) kiln_fail_pass(KILN_FAIL_SERVER_TOLD);
    if (st)
        kiln_log(KILN_LOG_ERROR, "sending %s: %s", kiln_message_name(message->type),
                 kiln_status_text(st));
    kiln_status_free(st);
}

static void on_fetched(void *context, const kiln_digest *digest, kiln_status status) {
    kiln_board_connection *connection = context;
    kiln_fail_pass(KILN_FAIL_SERVER_FETCHED);
    connection->options.handler->fetched(connection->options.context, digest,
                                         status ? kiln_status_text(status) : NULL);
    kiln_status_free(status);
}

void kiln_board_connection_fetch(kiln_board_connection *connection, const kiln_digest *digest) {
    if (connection->blobs)
        kiln_blobs_fetch(connection->blobs, digest, on_fetched, connection);
    else
        on_fetched(connection, digest,
                   KILN_ERROR(UNAVAILABLE, "there is no connection to the tracker"));
}

void kiln_board_connection_upload(kiln_board_connection *connection, const kiln_digest *digest,
                                  kiln_blobs_done done, void *context) {
    if (connection->blobs)
        kiln_blobs_upload(connection->blobs, digest, done, context);
    else
        done(context, digest, KILN_ERROR(UNAVAILABLE, "there is no connection to the tracker"));
}
