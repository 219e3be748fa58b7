#include "tests/unit/proto/pair.h"

#include <string.h>

#include "base/check.h"
#include "tests/support/test.h"

static const uint8_t token[KILN_TOKEN_BYTES] = {1, 2, 3};

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    pair_end *end = context;
    KILN_CHECK((hello != NULL) != (welcome != NULL));
    end->conn = conn;
    end->opened = true;
    if (hello) memcpy(end->peer_node, hello->node.data, hello->node.size);
    if (end->store) end->blobs = kiln_blobs_attach(conn, end->store);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    pair_end *end = context;
    (void)conn;
    KILN_CHECK(end->message_count < PAIR_MESSAGES_MAX);
    if (message->type == KILN_MSG_PING) end->t_ns[end->message_count] = message->ping.t_ns;
    if (message->type == KILN_MSG_ERROR) end->last_error = (kiln_code)message->error.code;
    end->type[end->message_count++] = message->type;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    pair_end *end = context;
    (void)conn;
    KILN_CHECK(!end->closed);
    end->closed = true;
    end->conn = NULL;
    end->blobs = NULL;
    end->why = kiln_status_code(why);
    kiln_str text =
        kiln_str_slice(kiln_str_from(kiln_status_text(why)), 0, sizeof end->why_text - 1);
    memcpy(end->why_text, text.data, text.size);
}

static void on_refused(void *context, const kiln_peer *peer, kiln_status why) {
    pair *p = (pair *)(void *)((char *)context - offsetof(pair, server));
    p->refused = *peer;
    p->refused_count++;
    kiln_str text =
        kiln_str_slice(kiln_str_from(kiln_status_text(why)), 0, sizeof p->refused_why - 1);
    memset(p->refused_why, 0, sizeof p->refused_why);
    memcpy(p->refused_why, text.data, text.size);
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static void on_deadline(void *context) { ((pair *)context)->late = true; }

void pair_init(pair *p) {
    kiln_loop *loop = NULL;
    expect_ok(kiln_loop_create(&loop));
    pair_init_on(p, loop);
    p->has_own_loop = true;
}

void pair_init_on(pair *p, kiln_loop *loop) {
    *p = (pair){.loop = loop};
    p->deadline = kiln_timer_create(p->loop, on_deadline, p);
    p->listen = (kiln_listen_options){.boot = "tracker-boot",
                                      .token = token,
                                      .handler = &handler,
                                      .context = &p->server,
                                      .refused = on_refused};
    p->credentials.has_token = true;
    memcpy(p->credentials.token, token, sizeof token);
    p->dial = (kiln_dial_options){.role = KILN_PEER_TUNER,
                                  .node = "tuner-node",
                                  .boot = "tuner-boot",
                                  .credentials = &p->shown,
                                  .handler = &handler,
                                  .context = &p->client};
    pair_set_address(p, "127.0.0.1:0");
}

void pair_deinit(pair *p) {
    if (p->client.conn) kiln_conn_close(p->client.conn, KILN_OK);
    if (p->server.conn) kiln_conn_close(p->server.conn, KILN_OK);
    kiln_listener_close(p->listener);
    kiln_timer_destroy(p->deadline);
    if (p->has_own_loop) kiln_loop_destroy(p->loop);
}

void pair_set_address(pair *p, const char *text) {
    expect_ok(kiln_address_parse(kiln_str_from(text), &p->listen.address));
    p->dial.address = p->listen.address;
}

void pair_listen(pair *p) {
    expect_ok(kiln_net_listen(p->loop, &p->listen, &p->listener));
    p->dial.address = *kiln_listener_address(p->listener);
}

kiln_conn *pair_dial(pair *p) {
    p->shown = p->credentials;
    return kiln_net_dial(p->loop, &p->dial);
}

void pair_run_until(pair *p, const bool *flag) {
    kiln_timer_start(p->deadline, PAIR_DEADLINE_NS);
    while (!*flag && !p->late) kiln_loop_run_once(p->loop);
    kiln_timer_stop(p->deadline);
    assert_true(*flag);
}

void pair_run_until_count(pair *p, const uint32_t *count, uint32_t at_least) {
    kiln_timer_start(p->deadline, PAIR_DEADLINE_NS);
    while (*count < at_least && !p->late) kiln_loop_run_once(p->loop);
    kiln_timer_stop(p->deadline);
    assert_true(*count >= at_least);
}

void pair_open(pair *p) {
    pair_listen(p);
    pair_dial(p);
    pair_run_until(p, &p->client.opened);
    pair_run_until(p, &p->server.opened);
}
