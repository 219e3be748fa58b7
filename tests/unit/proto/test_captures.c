/* Sessions that programs of each protocol version had (tests/support/capture.py), replayed against
 * this one's: what version N-1 says is understood, and its programs are answered as they expect. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vec.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

#define FOLDER "tests/golden/captures"

typedef struct captured_frame {
    bool from_tracker;
    kiln_str bytes; /* header and body */
    kiln_frame frame;
} captured_frame;

typedef struct capture {
    uint32_t version;
    kiln_peer_role role;
    KILN_VEC(captured_frame) frame;
    kiln_arena arena;
} capture;

static uint8_t hex_digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void read_line(capture *c, kiln_str line) {
    captured_frame f = {.from_tracker = line.data[0] == '<'};
    kiln_str hex = kiln_str_slice(line, 2, line.size);
    char *bytes = kiln_arena_alloc(&c->arena, hex.size / 2 + 1);
    for (size_t i = 0; i < hex.size / 2; i++)
        bytes[i] = (char)(hex_digit(hex.data[2 * i]) << 4 | hex_digit(hex.data[2 * i + 1]));
    f.bytes = (kiln_str){bytes, hex.size / 2};
    kiln_frame_reader reader = {0};
    kiln_str input = f.bytes;
    bool ready = false;
    expect_ok(kiln_frame_read(&reader, &input, &f.frame, &ready));
    assert_true(ready && input.size == 0);
    kiln_frame_reader_deinit(&reader);
    kiln_vec_push_in(&c->arena, &c->frame, f);
}

static void read_capture(const char *name, capture *c) {
    kiln_str text = {0}, rest = kiln_str_from(name);
    uint64_t version = 0;
    *c = (capture){0};
    kiln_arena_init(&c->arena, 0);
    assert_true(kiln_str_to_u64(kiln_str_cut(&rest, '-'), &version));
    assert_true(kiln_peer_role_find(kiln_str_cut(&rest, '.'), &c->role));
    c->version = (uint32_t)version;
    expect_ok(kiln_file_read(kiln_arena_printf(&c->arena, FOLDER "/%s", name), 1 << 20, &c->arena,
                             &text));
    while (text.size) read_line(c, kiln_str_cut(&text, '\n'));
    assert_true(c->frame.count > 10);
}

/* Calls `body` for each capture; versions that this program no longer speaks are left out. */
static void for_each(void (*body)(capture *c)) {
    kiln_arena arena = {0};
    char **names = NULL;
    size_t count = 0;
    uint32_t versions = 0;
    expect_ok(kiln_folder_list(FOLDER, &arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        capture c;
        read_capture(names[i], &c);
        if (c.version >= KILN_PROTO_VERSION_MIN) body(&c);
        versions |= 1u << c.version;
        kiln_arena_deinit(&c.arena);
    }
    for (uint32_t v = KILN_PROTO_VERSION_MIN; v <= KILN_PROTO_VERSION_MAX; v++)
        assert_true(versions >> v & 1u); /* capture.py was run for each of them */
    kiln_arena_deinit(&arena);
}

static bool is_blob(kiln_message_type type) {
    return type == KILN_MSG_DATA || type == KILN_MSG_WINDOW ||
           (type >= KILN_MSG_BLOB_HAVE && type <= KILN_MSG_BLOB_GET);
}

static kiln_message decode(capture *c, const captured_frame *f) {
    kiln_message message = {0};
    expect_ok(
        kiln_message_decode(f->frame.type, f->frame.stream, f->frame.body, &c->arena, &message));
    return message;
}

/* ---- Frame by frame ---- */

static void understand(capture *c) {
    for (uint32_t i = 0; i < c->frame.count; i++) {
        const captured_frame *f = &c->frame.data[i];
        if (f->frame.type == KILN_MSG_DATA) continue;
        kiln_message message = decode(c, f);
        assert_true(kiln_message_since(message.type) <= c->version);
        assert_true(
            kiln_message_may_send(message.type, f->from_tracker ? KILN_PEER_TRACKER : c->role));
        kiln_strbuf again = {0};
        expect_ok(kiln_frame_write_message(&again, &message));
        assert_true(kiln_str_equal(kiln_strbuf_view(&again), f->bytes)); /* nothing was lost */
        kiln_strbuf_deinit(&again);
    }
}

static void every_captured_frame_is_understood_whole(void **state) {
    (void)state;
    for_each(understand);
}

/* ---- Diallers of other versions ---- */

/* What the tracker of the capture had: its blobs, put together from their DATA. */
static void fill_store(capture *c, kiln_blob_store *store) {
    kiln_strbuf content = {0};
    kiln_digest digest;
    for (uint32_t i = 0; i < c->frame.count; i++) {
        const kiln_frame *frame = &c->frame.data[i].frame;
        if (!c->frame.data[i].from_tracker || frame->type != KILN_MSG_DATA) continue;
        kiln_strbuf_str(&content, frame->body);
        if (!(frame->flags & KILN_FRAME_END)) continue;
        expect_ok(kiln_blob_store_put(store, kiln_strbuf_view(&content), &digest));
        kiln_strbuf_reset(&content);
    }
    kiln_strbuf_deinit(&content);
}

typedef struct tally {
    uint32_t messages, puts, gets;
} tally;

static tally count_said(capture *c) {
    tally t = {0};
    for (uint32_t i = 0; i < c->frame.count; i++) {
        const captured_frame *f = &c->frame.data[i];
        if (f->from_tracker) continue;
        t.messages += !is_blob(f->frame.type) && f->frame.type != KILN_MSG_HELLO;
        t.puts += f->frame.type == KILN_MSG_BLOB_PUT;
        t.gets += f->frame.type == KILN_MSG_BLOB_GET;
    }
    return t;
}

static void serve(capture *c) {
    pair p;
    raw_peer r;
    tally said = count_said(c), heard = {0};
    pair_init(&p);
    p.listen.insecure = true;
    char *folder = make_folder(&c->arena);
    expect_ok(kiln_blob_store_open(&(kiln_blob_store_options){.folder = folder}, &p.server.store));
    fill_store(c, p.server.store);
    pair_listen(&p);
    raw_dial(&r, &p);
    for (uint32_t i = 0; i < c->frame.count; i++)
        if (!c->frame.data[i].from_tracker) raw_send(&r, c->frame.data[i].bytes);
    assert_int_equal(raw_expect(&r, KILN_MSG_WELCOME).welcome.version, c->version);
    while (heard.puts < said.gets || heard.gets < said.puts) {
        kiln_frame frame;
        assert_true(raw_read(&r, &frame));
        assert_int_not_equal(frame.type, KILN_MSG_ERROR);
        heard.puts += frame.type == KILN_MSG_BLOB_PUT;
        heard.gets += frame.type == KILN_MSG_BLOB_OK;
    }
    pair_run_until_count(&p, &p.server.message_count, said.messages);
    assert_false(p.server.closed);
    raw_close(&r);
    pair_run_until(&p, &p.server.closed);
    pair_deinit(&p);
    kiln_blob_store_close(p.server.store);
    remove_folder(folder);
}

static void who_dials_with_another_version_is_served(void **state) {
    (void)state;
    for_each(serve);
}

/* ---- Trackers of other versions ---- */

static void dial_it(capture *c) {
    pair p;
    raw_peer r;
    uint32_t messages = 0;
    kiln_frame hello;
    pair_init(&p);
    p.dial.role = c->role;
    p.credentials = (kiln_credentials){.insecure = true};
    int listener = raw_listen(&p);
    pair_dial(&p);
    raw_accept(&r, &p, listener);
    assert_true(raw_read(&r, &hello) && hello.type == KILN_MSG_HELLO);
    for (uint32_t i = 0; i < c->frame.count; i++) {
        const captured_frame *f = &c->frame.data[i];
        if (!f->from_tracker || is_blob(f->frame.type)) continue;
        raw_send(&r, f->bytes);
        messages += f->frame.type != KILN_MSG_WELCOME;
    }
    pair_run_until_count(&p, &p.client.message_count, messages);
    assert_int_equal(kiln_conn_version(p.client.conn), c->version);
    raw_close(&r);
    close(listener);
    pair_run_until(&p, &p.client.closed);
    pair_deinit(&p);
}

static void a_tracker_of_another_version_is_understood(void **state) {
    (void)state;
    for_each(dial_it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_captured_frame_is_understood_whole),
        cmocka_unit_test(who_dials_with_another_version_is_served),
        cmocka_unit_test(a_tracker_of_another_version_is_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
