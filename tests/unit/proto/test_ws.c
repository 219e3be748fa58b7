/* WebSocket: the request as text, frames as bytes, and pages on a listener. */
#include "proto/net/ws.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/net/challenge.h"
#include "proto/net/key_rotation.h"
#include "proto/net/ws_request.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"
#include "tests/unit/proto/raw.h"

#define ORIGIN "http://localhost:8000"
#define HOST "fleet.example"
/* The key and the answer to it are RFC 6455's (1.3). */
#define BEFORE_ORIGIN                                                 \
    "GET /fleet HTTP/1.1\r\nHost: " HOST "\r\nUpgrade: websocket\r\n" \
    "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define REQUEST BEFORE_ORIGIN "Origin: " ORIGIN "\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define ANSWER "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

static const kiln_origins origins = {.item = {"https://other.example", ORIGIN}, .count = 2};

/* ---- The request ---- */

/* REQUEST with `from` replaced by `to`. */
static kiln_str changed(kiln_arena *arena, const char *from, const char *to) {
    const char *at = strstr(REQUEST, from);
    assert_non_null(at);
    return kiln_str_printf(arena, "%.*s%s%s", (int)(at - REQUEST), REQUEST, to, at + strlen(from));
}

static void a_request_of_a_browser_is_read(void **state) {
    kiln_ws_request request;
    (void)state;
    expect_ok(kiln_ws_request_parse(KILN_STR(REQUEST), &request));
    assert_true(kiln_str_is(request.host, HOST));
    assert_true(kiln_str_is(request.origin, ORIGIN));
    assert_true(kiln_str_is(request.key, "dGhlIHNhbXBsZSBub25jZQ=="));
    assert_int_equal(kiln_ws_request_size(KILN_STR(REQUEST "more")), strlen(REQUEST));
    assert_int_equal(kiln_ws_request_size(KILN_STR("GET / HTTP/1.1\r\n\r")), 0);
}

static void names_and_words_are_read_in_any_case(void **state) {
    static const char *const row[][2] = {
        {"Upgrade: websocket", "uPGRADE: WebSocket"},
        {"Connection: keep-alive, Upgrade", "connection:upgrade"},
        {"Host: " HOST, "HOST:\t" HOST " "},
        {"Host: " HOST, "Host: " HOST "\r\nCookie: a=b\r\nCookie: c=\"d\""},
    };
    kiln_ws_request request;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        expect_ok(kiln_ws_request_parse(changed(*state, row[i][0], row[i][1]), &request));
        assert_true(kiln_str_is(request.host, HOST));
    }
}

static void hostile_requests_are_refused(void **state) {
    static const char *const row[][3] = {
        {"GET ", "POST ", "not GET"},
        {"GET /fleet", "GET http://" HOST "/", "not GET"},
        {"HTTP/1.1", "HTTP/1.0", "not GET"},
        {"HTTP/1.1\r\n", "HTTP/1.1\n", "CR LF"},
        {"Host: " HOST "\r\n", "", "Host is missing"},
        {"Host: " HOST, "Host: a\r\nhost: b", "twice"},
        {"Host: " HOST, "Host : " HOST, "no name"},
        {"Host: " HOST, "Host: " HOST "\r\n folded", "no name"},
        {"Host: " HOST, "Host: a\x01", "control characters"},
        {"Host: " HOST, "Host: a\rb", "control characters"},
        {"Upgrade: websocket", "Upgrade: h2c", "Upgrade"},
        {"keep-alive, Upgrade", "keep-alive", "Connection"},
        {"Version: 13", "Version: 8", "Version"},
        {"dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ==", "16 bytes"},
        {"dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZ,==", "16 bytes"},
        {"Origin: " ORIGIN, "Origin: " ORIGIN "\r\nOrigin: " ORIGIN, "twice"},
        {"Origin: " ORIGIN, "Origin: " ORIGIN "\r\nno colon", "no name"},
    };
    kiln_ws_request request;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error(kiln_ws_request_parse(changed(*state, row[i][0], row[i][1]), &request),
                     DATA_LOSS, row[i][2]);
    char host[300];
    memset(host, 'h', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    expect_error(kiln_ws_request_parse(changed(*state, HOST, host), &request), DATA_LOSS,
                 "Host is too long");
}

static void origins_are_written_as_browsers_write_them(void **state) {
    static const char *const good[] = {ORIGIN, "https://fleet.example", "http://[::1]:80"};
    static const char *const bad[] = {"",  "localhost:8000", "http://", "https://a/", "http://A",
                                      "*", "ftp://a"};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(good); i++)
        expect_ok(kiln_origin_check(kiln_str_from(good[i])));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(kiln_origin_check(kiln_str_from(bad[i])), INVALID_ARGUMENT, "no origin");
}

/* ---- Frames ---- */

/* A frame as a page sends it: `head` is FIN, reserved bits and opcode. */
static void put_frame(kiln_strbuf *out, uint8_t head, kiln_str payload) {
    static const uint8_t mask[4] = {0x11, 0x22, 0x33, 0x44};
    kiln_strbuf_char(out, (char)head);
    if (payload.size < 126) {
        kiln_strbuf_char(out, (char)(0x80 | payload.size));
    } else {
        kiln_strbuf_char(out, (char)(0x80 | 126));
        kiln_strbuf_char(out, (char)(payload.size >> 8));
        kiln_strbuf_char(out, (char)payload.size);
    }
    kiln_strbuf_append(out, (const char *)mask, sizeof mask);
    for (size_t i = 0; i < payload.size; i++)
        kiln_strbuf_char(out, (char)((uint8_t)payload.data[i] ^ mask[i % 4]));
}

typedef struct wires {
    kiln_ws *ws;
    kiln_strbuf in, plain, wire;
} wires;

static void set_up(wires *w) {
    if (!kiln_ws_supported()) skip_because("this build has no libwslay");
    *w = (wires){.ws = kiln_ws_accept(&origins)};
}

static void tear_down(wires *w) {
    kiln_ws_destroy(w->ws);
    kiln_strbuf_deinit(&w->in);
    kiln_strbuf_deinit(&w->plain);
    kiln_strbuf_deinit(&w->wire);
}

/* Takes all of `in`, in pieces of `step` bytes. */
static kiln_status receive(wires *w, size_t step) {
    kiln_status st = KILN_OK;
    for (size_t at = 0; !st && at < w->in.size; at += step)
        st = kiln_ws_receive(w->ws, kiln_str_slice(kiln_strbuf_view(&w->in), at, at + step),
                             &w->plain, &w->wire);
    kiln_strbuf_reset(&w->in);
    return st;
}

static void open_up(wires *w) {
    set_up(w);
    kiln_strbuf_text(&w->in, REQUEST);
    expect_ok(receive(w, w->in.size));
    kiln_strbuf_reset(&w->wire);
}

static void request_and_messages_come_in_any_pieces(void **state) {
    (void)state;
    for (size_t step = 1; step < 500; step += 7) {
        wires w;
        set_up(&w);
        kiln_strbuf_text(&w.in, REQUEST);
        put_frame(&w.in, 0x02, KILN_STR("hel")); /* a message of two frames, a ping between them */
        put_frame(&w.in, 0x89, KILN_STR("ping"));
        put_frame(&w.in, 0x80, KILN_STR("lo "));
        put_frame(&w.in, 0x82, KILN_STR("world"));
        expect_ok(receive(&w, step));
        assert_true(kiln_ws_ready(w.ws));
        assert_string_equal(kiln_ws_host(w.ws), HOST);
        assert_true(kiln_str_is(kiln_strbuf_view(&w.plain), "hello world"));
        assert_true(kiln_str_starts(kiln_strbuf_view(&w.wire), "HTTP/1.1 101 "));
        assert_true(kiln_str_ends(kiln_strbuf_view(&w.wire), ANSWER "\x8a\x04ping"));
        tear_down(&w);
    }
}

static void what_is_sent_is_one_binary_message(void **state) {
    wires w;
    (void)state;
    open_up(&w);
    kiln_ws_send(w.ws, KILN_STR("abc"), &w.wire);
    assert_true(kiln_str_is(kiln_strbuf_view(&w.wire), "\x82\x03"
                                                       "abc"));
    tear_down(&w);
}

static void expect_refused(kiln_str request, kiln_code code, const char *status, const char *why) {
    wires w;
    set_up(&w);
    kiln_strbuf_str(&w.in, request);
    kiln_status st = receive(&w, w.in.size);
    assert_int_equal(kiln_status_code(st), code);
    assert_true(kiln_str_starts(kiln_strbuf_view(&w.wire), status));
    expect_contains(w.wire.data, why);
    assert_false(kiln_ws_ready(w.ws));
    kiln_status_free(st);
    tear_down(&w);
}

static void the_answer_says_why_a_page_is_refused(void **state) {
    expect_refused(changed(*state, ORIGIN, "http://evil.example"), KILN_PERMISSION_DENIED,
                   "HTTP/1.1 403 ", "--ws-origin http://evil.example");
    expect_refused(changed(*state, ORIGIN, "null"), KILN_PERMISSION_DENIED, "HTTP/1.1 403 ",
                   "null");
    expect_refused(changed(*state, "13", "8"), KILN_DATA_LOSS, "HTTP/1.1 400 ", "Version: 13");
    char *endless = kiln_arena_alloc(*state, KILN_WS_REQUEST_MAX + 1);
    memset(endless, 'a', KILN_WS_REQUEST_MAX + 1);
    expect_refused((kiln_str){endless, KILN_WS_REQUEST_MAX + 1}, KILN_DATA_LOSS, "HTTP/1.1 400 ",
                   "more than 8192 bytes");
}

static void a_program_tells_no_origin(void **state) {
    wires w;
    set_up(&w);
    kiln_strbuf_str(&w.in, changed(*state, "Origin: " ORIGIN "\r\n", ""));
    expect_ok(receive(&w, w.in.size));
    assert_true(kiln_ws_ready(w.ws));
    tear_down(&w);
}

/* Bytes after the request, the Close that answers them, and what is passed on of them: nothing. */
static void expect_broken(kiln_str bytes, const char *close) {
    wires w;
    open_up(&w);
    kiln_strbuf_str(&w.in, bytes);
    expect_error(receive(&w, w.in.size), DATA_LOSS, "no frame");
    assert_true(kiln_str_is(kiln_strbuf_view(&w.wire), close));
    assert_int_equal(w.plain.size, 0);
    tear_down(&w);
}

static void frames_that_no_page_sends_end_the_connection(void **state) {
    static const struct {
        uint8_t head;
        const char *payload, *close; /* 1002: protocol; 1003: not binary */
    } row[] = {
        {0x81, "text", "\x88\x02\x03\xeb"},     {0xc2, "reserved bit", "\x88\x02\x03\xea"},
        {0x83, "opcode", "\x88\x02\x03\xea"},   {0x80, "continues nothing", "\x88\x02\x03\xea"},
        {0x88, "\x03\xed", "\x88\x02\x03\xea"},
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_strbuf frame = {0};
        put_frame(&frame, row[i].head, kiln_str_from(row[i].payload));
        expect_broken(kiln_strbuf_view(&frame), row[i].close);
        kiln_strbuf_deinit(&frame);
    }
    expect_broken(KILN_STR("\x82\x03"
                           "abc"),
                  "\x88\x02\x03\xea"); /* not masked */
    /* 2^62 bytes are announced, and nothing is allocated: 1009. */
    expect_broken((kiln_str){"\x82\xff\x40\0\0\0\0\0\0\0mask.", 15}, "\x88\x02\x03\xf1");
}

static void a_page_that_closes_is_answered(void **state) {
    wires w;
    (void)state;
    open_up(&w);
    put_frame(&w.in, 0x88, KILN_STR("\x03\xe8"));
    expect_error(receive(&w, w.in.size), UNAVAILABLE, "closed");
    assert_true(kiln_str_is(kiln_strbuf_view(&w.wire), "\x88\x02\x03\xe8"));
    tear_down(&w);
}

/* ---- Pages on a listener ---- */

typedef struct page {
    locked l;
    raw_peer r;
    const kiln_key *key;
    char buffer[8192]; /* what came and is not yet used */
    size_t size;
} page;

static void page_open(page *g, kiln_arena *arena) {
    if (!kiln_ws_supported()) skip_because("this build has no libwslay");
    memset(g, 0, sizeof *g);
    locked_init(&g->l, arena);
    g->key = locked_add_key(&g->l, "board/page", 8);
    kiln_keyring_reload(g->l.ring);
    expect_ok(kiln_address_parse_listener(KILN_STR("ws:127.0.0.1:0"), &g->l.p.listen.address));
    g->l.p.listen.origins = &origins;
    pair_listen(&g->l.p);
    raw_dial(&g->r, &g->l.p);
    raw_send(&g->r, KILN_STR(REQUEST));
}

static void page_close(page *g) {
    raw_close(&g->r);
    locked_deinit(&g->l);
}

/* Waits for so many bytes. */
static void page_fill(page *g, size_t size) {
    while (g->size < size) {
        raw_wait(&g->r);
        const ssize_t got = recv(g->r.fd, g->buffer + g->size, sizeof g->buffer - g->size, 0);
        assert_true(got > 0);
        g->size += (size_t)got;
    }
}

static void page_drop(page *g, size_t size) {
    g->size -= size;
    memmove(g->buffer, g->buffer + size, g->size);
}

static void page_expect_upgrade(page *g) {
    char *end = NULL;
    for (size_t size = 1; !end; size = g->size + 1) {
        page_fill(g, size);
        end = memmem(g->buffer, g->size, ANSWER, strlen(ANSWER));
    }
    page_drop(g, (size_t)(end - g->buffer) + strlen(ANSWER));
}

static void page_say(page *g, const kiln_message *message) {
    kiln_strbuf frame = {0}, wire = {0};
    expect_ok(kiln_frame_write_message(&frame, message));
    put_frame(&wire, 0x82, kiln_strbuf_view(&frame));
    raw_send(&g->r, kiln_strbuf_view(&wire));
    kiln_strbuf_deinit(&frame);
    kiln_strbuf_deinit(&wire);
}

/* The next message, which is alone in its WebSocket message. */
static kiln_message page_expect(page *g, kiln_message_type type) {
    kiln_message message = {0};
    page_fill(g, 4);
    const uint8_t *head = (const uint8_t *)g->buffer;
    assert_int_equal(head[0], 0x82);
    const size_t begin = head[1] == 126 ? 4 : 2;
    const size_t size = head[1] == 126 ? (size_t)(head[2] << 8 | head[3]) : head[1];
    page_fill(g, begin + size);
    kiln_frame frame = kiln_frame_of((kiln_str){g->buffer + begin, size});
    frame.body.data = kiln_arena_copy(&g->r.arena, frame.body.data, frame.body.size);
    assert_string_equal(kiln_message_name(frame.type), kiln_message_name(type));
    expect_ok(kiln_message_decode(type, frame.stream, frame.body, &g->r.arena, &message));
    page_drop(g, begin + size);
    return message;
}

static const uint8_t nonce[KILN_NONCE_BYTES] = "drawn by a page";

static kiln_message hello_of(const char *key, kiln_peer_role role) {
    return (kiln_message){
        .type = KILN_MSG_HELLO,
        .hello = {.version_min = 1,
                  .version_max = KILN_PROTO_VERSION_MAX,
                  .role = role,
                  .node = KILN_STR("page"),
                  .boot = KILN_STR("page-1"),
                  .nonce = {(const char *)nonce, sizeof nonce},
                  .key = kiln_str_from(key)},
    };
}

static void prove(page *g, kiln_prover who, const kiln_msg_challenge *challenge,
                  const uint8_t *secret, const char *host, kiln_digest *out_proof) {
    const kiln_proof_terms terms = {.peer_nonce = nonce,
                                    .tracker_nonce = (const uint8_t *)challenge->nonce.data,
                                    .role = KILN_PEER_BOARD,
                                    .node = KILN_STR("page"),
                                    .address = host};
    (void)g;
    kiln_prove(secret, who, &terms, out_proof);
}

/* Says HELLO with that key, and answers the challenge by the secret of ours. */
static void page_prove(page *g, const char *key, const char *host) {
    kiln_digest expected;
    kiln_message proof = {.type = KILN_MSG_PROOF};
    const kiln_message hello = hello_of(key, KILN_PEER_BOARD);
    page_expect_upgrade(g);
    page_say(g, &hello);
    const kiln_message challenge = page_expect(g, KILN_MSG_CHALLENGE);
    prove(g, KILN_PROVER_TRACKER, &challenge.challenge, g->key->secret, HOST, &expected);
    assert_int_equal(kiln_digest_equal(&expected, &challenge.challenge.proof),
                     strcmp(key, "board/page/1") == 0);
    prove(g, KILN_PROVER_PEER, &challenge.challenge, g->key->secret, host, &proof.proof.proof);
    page_say(g, &proof);
}

static void a_page_proves_its_key_and_is_a_board(void **state) {
    page g;
    page_open(&g, *state);
    page_prove(&g, "board/page/1", HOST);
    page_expect(&g, KILN_MSG_WELCOME);
    pair_run_until(&g.l.p, &g.l.p.server.opened);
    const kiln_peer *peer = kiln_conn_peer(g.l.p.server.conn);
    assert_string_equal(peer->key, "board/page/1");
    assert_int_equal(peer->role, KILN_PEER_BOARD);
    assert_false(peer->is_owner);
    const kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = 42}};
    page_say(&g, &ping);
    pair_run_until_count(&g.l.p, &g.l.p.server.message_count, 1);
    assert_int_equal(g.l.p.server.t_ns[0], 42);
    expect_ok(kiln_conn_send(g.l.p.server.conn, &ping));
    assert_int_equal(page_expect(&g, KILN_MSG_PING).ping.t_ns, 42);
    page_close(&g);
}

static void expect_turned_away(page *g, const char *why) {
    const kiln_message error = page_expect(g, KILN_MSG_ERROR);
    assert_int_equal(error.error.code, KILN_UNAUTHENTICATED);
    pair_run_until_count(&g->l.p, &g->l.p.refused_count, 1);
    expect_contains(g->l.p.refused_why, why);
    assert_false(g->l.p.server.opened);
    page_close(g);
}

static void a_page_without_the_secret_is_turned_away(void **state) {
    page g;
    page_open(&g, *state);
    page_prove(&g, "board/nobody/1", HOST); /* which is challenged as if it were known */
    expect_turned_away(&g, "wrong proof of the key's secret");
    page_open(&g, *state);
    page_prove(&g, "board/page/1", "127.0.0.1:80"); /* who passes on what it said elsewhere */
    expect_turned_away(&g, "wrong proof of the key's secret");
    page_open(&g, *state);
    page_expect_upgrade(&g);
    kiln_message hello = hello_of("", KILN_PEER_BOARD);
    hello.hello.version_max = 4; /* the token opens nothing here */
    hello.hello.token = (kiln_str){(const char *)g.l.p.listen.token, KILN_TOKEN_BYTES};
    page_say(&g, &hello);
    expect_turned_away(&g, "a page without a key");
}

static void a_page_is_nothing_but_a_board(void **state) {
    page g;
    page_open(&g, *state);
    page_expect_upgrade(&g);
    const kiln_message hello = hello_of("board/page/1", KILN_PEER_ADMIN);
    page_say(&g, &hello);
    assert_int_equal(page_expect(&g, KILN_MSG_ERROR).error.code, KILN_PERMISSION_DENIED);
    page_close(&g);
}

static void a_page_whose_key_is_revoked_is_let_go(void **state) {
    page g;
    page_open(&g, *state);
    page_prove(&g, "board/page/1", HOST);
    page_expect(&g, KILN_MSG_WELCOME);
    pair_run_until(&g.l.p, &g.l.p.server.opened);
    assert_int_equal(kiln_keys_revoke(&g.l.keys, g.key), 1);
    expect_ok(kiln_keys_write(g.l.path, &g.l.keys));
    kiln_keyring_reload(g.l.ring);
    pair_run_until(&g.l.p, &g.l.p.server.closed);
    assert_int_equal(g.l.p.server.why, KILN_UNAUTHENTICATED);
    page_close(&g);
}

/* Masked, with a proof that only who knows the present key can make. */
static void a_page_is_handed_its_next_key(void **state) {
    page g;
    uint8_t present[KILN_KEY_BYTES], wanted[KILN_KEY_BYTES], found[KILN_KEY_BYTES];
    const kiln_key *added = NULL;
    kiln_digest proof;
    page_open(&g, *state);
    page_prove(&g, "board/page/1", HOST);
    page_expect(&g, KILN_MSG_WELCOME);
    pair_run_until(&g.l.p, &g.l.p.server.opened);
    kiln_key next = *g.key;
    memcpy(present, next.secret, sizeof present);
    memset(wanted, 77, sizeof wanted);
    next.state = KILN_KEY_OFFERED;
    next.last_day = 50000;
    memcpy(next.secret, wanted, sizeof wanted);
    expect_ok(kiln_keys_add(&g.l.keys, &next, &added));
    expect_ok(kiln_keys_write(g.l.path, &g.l.keys));
    kiln_keyring_reload(g.l.ring);
    const kiln_message message = page_expect(&g, KILN_MSG_KEY_OFFER);
    const kiln_msg_key_offer *offer = &message.key_offer;
    const kiln_offer_terms terms = {.secret = present,
                                    .peer_nonce = nonce,
                                    .tracker_nonce = g.l.p.server.conn->tracker_nonce,
                                    .generation = 2,
                                    .last_day = 50000};
    assert_int_equal(offer->generation, 2);
    assert_int_equal(offer->last_day, 50000);
    assert_int_equal(offer->secret.size, KILN_KEY_BYTES);
    assert_memory_not_equal(offer->secret.data, wanted, sizeof wanted);
    kiln_offer_mask(&terms, (const uint8_t *)offer->secret.data, found);
    assert_memory_equal(found, wanted, sizeof wanted);
    kiln_offer_prove(&terms, (const uint8_t *)offer->secret.data, &proof);
    assert_true(kiln_digest_equal(&proof, &offer->proof));
    page_say(&g, &(kiln_message){.type = KILN_MSG_KEY_TAKEN, .key_taken = {.generation = 2}});
    const kiln_message error = page_expect(&g, KILN_MSG_ERROR);
    assert_int_equal(error.error.code, KILN_UNAVAILABLE);
    assert_true(kiln_str_is(error.error.text, "connect again with the new key"));
    page_close(&g);
}

static void a_stranger_that_speaks_no_http_is_turned_away(void **state) {
    static const kiln_str said[] = {{"\x16\x03\x01", 3}, {"KILN", 4}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(said); i++) {
        page g;
        raw_peer stranger;
        page_open(&g, *state);
        raw_dial(&stranger, &g.l.p);
        raw_send(&stranger, said[i]);
        raw_send(&stranger, KILN_STR("\r\n\r\n"));
        pair_run_until_count(&g.l.p, &g.l.p.refused_count, 1);
        expect_contains(g.l.p.refused_why, "not a request");
        raw_close(&stranger);
        page_close(&g);
    }
}

/* Pings are answered before HELLO; a stranger that does not read the answers is let go. */
static void a_stranger_that_pings_and_does_not_read_is_turned_away(void **state) {
    page g;
    char payload[125] = "";
    kiln_strbuf pings = {0};
    page_open(&g, *state);
    page_expect_upgrade(&g);
    while (pings.size < (60u << 10)) put_frame(&pings, 0x89, (kiln_str){payload, sizeof payload});
    while (g.l.p.refused_count == 0) raw_send(&g.r, kiln_strbuf_view(&pings));
    expect_contains(g.l.p.refused_why, "reads too slowly");
    kiln_strbuf_deinit(&pings);
    page_close(&g);
}

static void expect_no_listener(pair *p, const char *address, const char *why) {
    expect_ok(kiln_address_parse_listener(kiln_str_from(address), &p->listen.address));
    expect_error(kiln_net_listen(p->loop, &p->listen, &p->listener), PERMISSION_DENIED, why);
}

static void listeners_for_pages_want_keys_and_stay_at_home(void **state) {
    locked l;
    kiln_address address;
    if (!kiln_ws_supported()) skip_because("this build has no libwslay");
    locked_init(&l, *state);
    expect_no_listener(&l.p, "ws:0.0.0.0:0", "proxy with TLS");
    l.p.listen.keyring = NULL;
    expect_no_listener(&l.p, "ws:127.0.0.1:0", "--keys");
    expect_error(kiln_address_parse_listener(KILN_STR("ws:unix:/s"), &address), INVALID_ARGUMENT,
                 "Unix socket");
    expect_error(kiln_address_parse(KILN_STR("ws:h:1"), &address), INVALID_ARGUMENT, "brackets");
    locked_deinit(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_request_of_a_browser_is_read),
        test_with_arena(names_and_words_are_read_in_any_case),
        test_with_arena(hostile_requests_are_refused),
        test_with_arena(origins_are_written_as_browsers_write_them),
        test_with_arena(request_and_messages_come_in_any_pieces),
        test_with_arena(what_is_sent_is_one_binary_message),
        test_with_arena(the_answer_says_why_a_page_is_refused),
        test_with_arena(a_program_tells_no_origin),
        test_with_arena(frames_that_no_page_sends_end_the_connection),
        test_with_arena(a_page_that_closes_is_answered),
        test_with_arena(a_page_proves_its_key_and_is_a_board),
        test_with_arena(a_page_without_the_secret_is_turned_away),
        test_with_arena(a_page_is_nothing_but_a_board),
        test_with_arena(a_page_whose_key_is_revoked_is_let_go),
        test_with_arena(a_page_is_handed_its_next_key),
        test_with_arena(a_stranger_that_speaks_no_http_is_turned_away),
        test_with_arena(a_stranger_that_pings_and_does_not_read_is_turned_away),
        test_with_arena(listeners_for_pages_want_keys_and_stay_at_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
