#include "tests/unit/proto/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/challenge.h"
#include "proto/net/event_loop.h"
#include "tests/support/test.h"

/* The loop knows nothing of our sockets, and must not wait for them. */
static void turn(pair *p) {
    kiln_loop_hurry(p->loop);
    kiln_loop_run_once(p->loop);
}

void raw_take(raw_peer *r, pair *p, int fd) {
    memset(r, 0, sizeof *r);
    r->p = p;
    r->fd = fd;
    kiln_arena_init(&r->arena, 0);
}

void raw_dial(raw_peer *r, pair *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(p->dial.address.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    raw_take(r, p, fd);
}

int raw_bind(pair *p) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    p->dial.address.port = ntohs(address.sin_port);
    return fd;
}

int raw_listen(pair *p) {
    int fd = raw_bind(p);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

void raw_accept(raw_peer *r, pair *p, int listener) {
    int fd = -1;
    kiln_timer_start(p->deadline, PAIR_DEADLINE_NS);
    while (!p->late && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) turn(p);
    kiln_timer_stop(p->deadline);
    assert_true(fd >= 0);
    raw_take(r, p, fd);
}

void raw_close(raw_peer *r) {
    close(r->fd);
    kiln_frame_reader_deinit(&r->reader);
    kiln_arena_deinit(&r->arena);
}

void raw_send(raw_peer *r, kiln_str bytes) {
    kiln_timer_start(r->p->deadline, PAIR_DEADLINE_NS);
    while (bytes.size && !r->p->late) {
        ssize_t sent = send(r->fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) break; /* the other side has closed: reading shows it */
        if (sent > 0)
            bytes = kiln_str_slice(bytes, (size_t)sent, bytes.size);
        else
            turn(r->p);
    }
    kiln_timer_stop(r->p->deadline);
    assert_false(r->p->late);
}

void raw_say(raw_peer *r, const kiln_message *message) {
    kiln_strbuf bytes = {0};
    expect_ok(kiln_frame_write_message(&bytes, message));
    raw_send(r, kiln_strbuf_view(&bytes));
    kiln_strbuf_deinit(&bytes);
}

void raw_send_data(raw_peer *r, uint32_t stream, size_t size, bool end) {
    kiln_strbuf bytes = {0};
    char *zeros = kiln_arena_alloc(&r->arena, size);
    kiln_frame_write(&bytes, KILN_MSG_DATA, end ? KILN_FRAME_END : 0, stream,
                     (kiln_str){zeros, size});
    raw_send(r, kiln_strbuf_view(&bytes));
    kiln_strbuf_deinit(&bytes);
}

static const char nonce[KILN_NONCE_BYTES] = "fresh enough for a test";

void raw_say_hello(raw_peer *r, kiln_peer_role role, uint32_t version) {
    kiln_message hello = {
        .type = KILN_MSG_HELLO,
        .hello = {.version_min = 1,
                  .version_max = version,
                  .role = role,
                  .node = KILN_STR("raw"),
                  .boot = KILN_STR("raw-1")},
    };
    if (version < KILN_PROTO_PROVES_TOKEN)
        hello.hello.token = (kiln_str){(const char *)r->p->listen.token, KILN_TOKEN_BYTES};
    else
        hello.hello.nonce = (kiln_str){nonce, sizeof nonce};
    raw_say(r, &hello);
}

/* Answers CHALLENGE. */
static void prove(raw_peer *r, kiln_peer_role role) {
    char address[KILN_ENDPOINT_TEXT];
    kiln_message challenge = raw_expect(r, KILN_MSG_CHALLENGE), proof = {.type = KILN_MSG_PROOF};
    snprintf(address, sizeof address, "127.0.0.1:%u", r->p->dial.address.port);
    const kiln_proof_terms terms = {.peer_nonce = (const uint8_t *)nonce,
                                    .tracker_nonce =
                                        (const uint8_t *)challenge.challenge.nonce.data,
                                    .role = role,
                                    .node = KILN_STR("raw"),
                                    .address = address};
    kiln_prove(r->p->listen.token, KILN_PROVER_PEER, &terms, &proof.proof.proof);
    raw_say(r, &proof);
}

void raw_hello(raw_peer *r, kiln_peer_role role, uint32_t version) {
    raw_say_hello(r, role, version);
    if (version >= KILN_PROTO_PROVES_TOKEN && r->p->listen.token) prove(r, role);
    assert_int_equal(raw_expect(r, KILN_MSG_WELCOME).welcome.version, version);
}

void raw_wait(raw_peer *r) {
    char byte;
    kiln_timer_start(r->p->deadline, PAIR_DEADLINE_NS);
    while (!r->p->late && recv(r->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0) turn(r->p);
    kiln_timer_stop(r->p->deadline);
    assert_false(r->p->late);
}

bool raw_read(raw_peer *r, kiln_frame *out_frame) {
    bool ready = false;
    kiln_timer_start(r->p->deadline, PAIR_DEADLINE_NS);
    while (!ready && !r->closed && !r->p->late) {
        expect_ok(kiln_frame_read(&r->reader, &r->input, out_frame, &ready));
        if (ready) break;
        ssize_t size = recv(r->fd, r->buffer, sizeof r->buffer, MSG_DONTWAIT);
        if (size > 0)
            r->input = (kiln_str){r->buffer, (size_t)size};
        else if (size == 0 || errno != EAGAIN)
            r->closed = true;
        else
            turn(r->p);
    }
    kiln_timer_stop(r->p->deadline);
    assert_false(r->p->late);
    if (ready)
        out_frame->body.data =
            kiln_arena_copy(&r->arena, out_frame->body.data, out_frame->body.size);
    return ready;
}

kiln_message raw_expect(raw_peer *r, kiln_message_type type) {
    kiln_frame frame = {0};
    kiln_message message = {0};
    assert_true(raw_read(r, &frame));
    assert_string_equal(kiln_message_name(frame.type), kiln_message_name(type));
    expect_ok(kiln_message_decode(type, frame.stream, frame.body, &r->arena, &message));
    return message;
}

static void nothing(void *context) { (void)context; }

static void set_flag(void *context) { *(bool *)context = true; }

/* What comes before the answer to something that is refused in its turn. */
static size_t drain_once(raw_peer *r, uint32_t stream) {
    size_t size = 0;
    kiln_frame frame = {0};
    bool settled = false;
    kiln_loop_bulk(r->p->loop, nothing, set_flag, &settled); /* behind what the pool reads */
    pair_run_until(r->p, &settled);
    raw_say(r, &(kiln_message){.type = KILN_MSG_WELCOME, .stream = 999});
    while (raw_read(r, &frame) && frame.type == KILN_MSG_DATA) {
        assert_int_equal(frame.stream, stream);
        size += frame.body.size;
    }
    assert_int_equal(frame.type, KILN_MSG_ERROR);
    assert_int_equal(frame.stream, 999);
    return size;
}

void raw_expect_data(raw_peer *r, uint32_t stream, size_t size) {
    for (kiln_frame frame = {0}; size > 0; size -= frame.body.size) {
        assert_true(raw_read(r, &frame) && frame.type == KILN_MSG_DATA);
        assert_int_equal(frame.stream, stream);
        assert_true(frame.body.size <= size);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(drain_once(r, stream), 0);
}
