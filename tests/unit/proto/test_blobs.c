#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "proto/net/compression.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

typedef struct blob_world {
    pair p;
    kiln_arena arena;
    char *folder;
    uint32_t done_count;
    kiln_code code[128];
} blob_world;

static void on_done(void *context, const kiln_digest *digest, kiln_status status) {
    blob_world *w = context;
    (void)digest;
    w->code[w->done_count++] = kiln_status_code(status);
    kiln_status_free(status);
}

static void world_init_with(blob_world *w, uint64_t server_bytes_max, uint64_t client_bytes_max) {
    *w = (blob_world){0};
    kiln_arena_init(&w->arena, 0);
    w->folder = make_folder(&w->arena);
    pair_init(&w->p);
    kiln_blob_store_options server = {.folder =
                                          kiln_arena_printf(&w->arena, "%s/server", w->folder),
                                      .bytes_max = server_bytes_max};
    kiln_blob_store_options client = {.folder =
                                          kiln_arena_printf(&w->arena, "%s/client", w->folder),
                                      .bytes_max = client_bytes_max};
    expect_ok(kiln_blob_store_open(&server, &w->p.server.store));
    expect_ok(kiln_blob_store_open(&client, &w->p.client.store));
    pair_open(&w->p);
}

static void world_init(blob_world *w, uint64_t server_bytes_max) {
    world_init_with(w, server_bytes_max, 0);
}

static void world_deinit(blob_world *w) {
    pair_deinit(&w->p);
    kiln_blob_store_close(w->p.server.store);
    kiln_blob_store_close(w->p.client.store);
    remove_folder(w->folder);
    kiln_arena_deinit(&w->arena);
}

static kiln_digest put_random(blob_world *w, kiln_blob_store *store, size_t size) {
    kiln_digest digest;
    uint8_t *bytes = kiln_arena_alloc(&w->arena, size + 1);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    expect_ok(kiln_blob_store_put(store, (kiln_str){(char *)bytes, size}, &digest));
    return digest;
}

static void blobs_of_every_size_go_up_and_down(void **state) {
    (void)state;
    static const size_t size[] = {0, 1, 65535, 65536, 65537, 300000, 5000000};
    blob_world w;
    world_init(&w, 0);
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        kiln_digest digest = put_random(&w, w.p.client.store, size[i]);
        kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
        pair_run_until_count(&w.p, &w.done_count, 2 * (uint32_t)i + 1);
        assert_int_equal(w.code[2 * i], KILN_OK);
        assert_true(kiln_blob_store_has(w.p.server.store, &digest));
        char *path = NULL;
        expect_ok(kiln_blob_store_path(w.p.client.store, &digest, &w.arena, &path));
        assert_int_equal(remove(path), 0);
        kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
        pair_run_until_count(&w.p, &w.done_count, 2 * (uint32_t)i + 2);
        assert_int_equal(w.code[2 * i + 1], KILN_OK);
        kiln_str content = {0};
        expect_ok(kiln_blob_store_get(w.p.client.store, &digest, &w.arena, &content));
        assert_int_equal(content.size, size[i]);
    }
    world_deinit(&w);
}

static void what_neither_side_has_is_not_found(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest digest = {{1, 2, 3}};
    kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
    kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
    assert_int_equal(w.done_count, 0); /* never from inside the call */
    pair_run_until_count(&w.p, &w.done_count, 2);
    assert_int_equal(w.code[0], KILN_NOT_FOUND);
    assert_int_equal(w.code[1], KILN_NOT_FOUND);
    world_deinit(&w);
}

static void two_fetches_of_one_blob_share_the_transfer(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest digest = put_random(&w, w.p.server.store, 200000);
    for (int i = 0; i < 5; i++) kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(w.code[i], KILN_OK);
    world_deinit(&w);
}

static void more_uploads_than_a_peer_takes_at_a_time_take_turns(void **state) {
    enum { MANY = 100 };
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        static char noise[40000]; /* which does not compress: few fit into the queue at once */
        kiln_digest digest;
        for (size_t k = 0; k < sizeof noise; k++) noise[k] = (char)kiln_rand_u64(&rand);
        expect_ok(kiln_blob_store_put(w.p.client.store, (kiln_str){noise, sizeof noise}, &digest));
        kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
    }
    pair_run_until_count(&w.p, &w.done_count, MANY);
    for (uint32_t i = 0; i < MANY; i++) assert_int_equal(w.code[i], KILN_OK);
    world_deinit(&w);
}

static void a_message_overtakes_a_large_upload(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest digest = put_random(&w, w.p.client.store, 30000000);
    kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
    for (int i = 0; i < 30; i++) { /* the transfer is well under way then */
        kiln_loop_run_once(w.p.loop);
        assert_true(kiln_conn_queued_bytes(w.p.client.conn) <=
                    KILN_NET_BLOB_WINDOW + 2 * KILN_FRAME_DATA_MAX);
    }
    expect_ok(kiln_conn_send(w.p.client.conn,
                             &(kiln_message){.type = KILN_MSG_PING, .ping = {.t_ns = 1}}));
    pair_run_until_count(&w.p, &w.p.server.message_count, 1);
    assert_int_equal(w.done_count, 0);
    pair_run_until_count(&w.p, &w.done_count, 1);
    assert_int_equal(w.code[0], KILN_OK);
    world_deinit(&w);
}

/* What the loop's thread, this one, compresses while it runs; and what it sends. */
static void blobs_are_compressed_off_the_loop(void **state) {
    enum { SIZE = 3 << 20 };
    (void)state;
    if (!kiln_compression_supported()) skip_because("this build has no zstd");
    blob_world w;
    world_init(&w, 0);
    char *text = kiln_arena_alloc(&w.arena, SIZE);
    for (size_t i = 0; i < SIZE; i++) text[i] = "kernel"[i % 6];
    kiln_digest digest;
    expect_ok(kiln_blob_store_put(w.p.client.store, (kiln_str){text, SIZE}, &digest));
    const kiln_thread_work before = *kiln_thread_work_here();
    kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 1);
    assert_int_equal(w.code[0], KILN_OK);
    assert_true(kiln_conn_wire_bytes(w.p.client.conn) < SIZE / 10);
    assert_int_equal(kiln_thread_work_since(&before).compressed_bytes, 0);
    world_deinit(&w);
}

static void a_full_store_refuses_and_the_connection_lives(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 1000);
    kiln_digest large = put_random(&w, w.p.client.store, 400000),
                small = put_random(&w, w.p.client.store, 500);
    kiln_blobs_upload(w.p.client.blobs, &large, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 1);
    assert_int_equal(w.code[0], KILN_RESOURCE_EXHAUSTED);
    kiln_blobs_upload(w.p.client.blobs, &small, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 2);
    assert_int_equal(w.code[1], KILN_OK);
    world_deinit(&w);
}

enum { REFUSALS = 70 }; /* more than a peer may have transfers at a time */

/* A blob that needs more credit than it gets once it is refused; then one that fits. */
static void expect_refusals(blob_world *w, kiln_blob_store *from,
                            void (*start)(kiln_blobs *, const kiln_digest *, kiln_blobs_done,
                                          void *)) {
    kiln_digest large = put_random(w, from, KILN_STREAM_CREDIT + 70000),
                small = put_random(w, from, 500);
    for (uint32_t i = 0; i < REFUSALS; i++) {
        start(w->p.client.blobs, &large, on_done, w);
        pair_run_until_count(&w->p, &w->done_count, i + 1);
        assert_int_equal(w->code[i], KILN_RESOURCE_EXHAUSTED);
    }
    start(w->p.client.blobs, &small, on_done, w);
    pair_run_until_count(&w->p, &w->done_count, REFUSALS + 1);
    assert_int_equal(w->code[REFUSALS], KILN_OK);
}

static void uploads_that_were_refused_leave_room_for_others(void **state) {
    (void)state;
    blob_world w;
    world_init_with(&w, 1000, 0);
    expect_refusals(&w, w.p.client.store, kiln_blobs_upload);
    world_deinit(&w);
}

static void and_so_do_fetches_that_failed_here(void **state) {
    (void)state;
    blob_world w;
    world_init_with(&w, 0, 1000);
    expect_refusals(&w, w.p.server.store, kiln_blobs_fetch);
    world_deinit(&w);
}

static void transfers_end_with_the_connection(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest up = put_random(&w, w.p.client.store, 3000000), down = {{7}};
    kiln_blobs_upload(w.p.client.blobs, &up, on_done, &w);
    kiln_blobs_fetch(w.p.client.blobs, &down, on_done, &w);
    kiln_conn_close(w.p.client.conn, KILN_ERROR(ABORTED, "enough"));
    pair_run_until(&w.p, &w.p.client.closed);
    assert_int_equal(w.done_count, 2);
    assert_int_equal(w.code[0], KILN_UNAVAILABLE);
    assert_int_equal(w.code[1], KILN_UNAVAILABLE);
    pair_run_until(&w.p, &w.p.server.closed);
    assert_false(kiln_blob_store_has(w.p.server.store, &up));
    world_deinit(&w);
}

/* What a side has of a blob that is on its way. */
static size_t half_bytes(blob_world *w, const char *side, const kiln_digest *digest) {
    char name[KILN_DIGEST_TEXT];
    kiln_str content = {0};
    kiln_digest_print(digest, name);
    char *path = kiln_arena_printf(&w->arena, "%s/%s/half-%s", w->folder, side, name);
    if (!kiln_file_exists(path)) return 0;
    expect_ok(kiln_file_read(path, 1 << 28, &w->arena, &content));
    return content.size;
}

/* Breaks the connection when some of the blob has crossed, and opens another. */
static void break_and_reopen(blob_world *w, const char *side, const kiln_digest *digest) {
    pair *p = &w->p;
    while (half_bytes(w, side, digest) < 100000 && !w->done_count) kiln_loop_run_once(p->loop);
    kiln_conn_close(p->client.conn, KILN_ERROR(ABORTED, "the cable"));
    pair_run_until(p, &p->client.closed);
    pair_run_until(p, &p->server.closed);
    pair_run_until_count(p, &w->done_count, 1);
    assert_int_equal(w->code[0], KILN_UNAVAILABLE);
    p->client.opened = p->client.closed = p->server.opened = p->server.closed = false;
    pair_dial(p);
    pair_run_until(p, &p->client.opened);
    pair_run_until(p, &p->server.opened);
}

typedef void (*transfer_start)(kiln_blobs *, const kiln_digest *, kiln_blobs_done, void *);

static void expect_resumed(blob_world *w, transfer_start start, kiln_blob_store *from,
                           kiln_blob_store *to, const char *side) {
    kiln_digest digest = put_random(w, from, 20000000);
    start(w->p.client.blobs, &digest, on_done, w);
    break_and_reopen(w, side, &digest);
    size_t half = half_bytes(w, side, &digest);
    assert_in_range(half, 100000, 20000000 - 1);
    start(w->p.client.blobs, &digest, on_done, w);
    kiln_loop_run_once(w->p.loop);
    assert_true(half_bytes(w, side, &digest) >= half); /* nothing was thrown away */
    pair_run_until_count(&w->p, &w->done_count, 2);
    assert_int_equal(w->code[1], KILN_OK);
    assert_true(kiln_blob_store_has(to, &digest));
    assert_int_equal(half_bytes(w, side, &digest), 0);
}

static void an_upload_that_broke_off_goes_on_where_it_was(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    expect_resumed(&w, kiln_blobs_upload, w.p.client.store, w.p.server.store, "server");
    world_deinit(&w);
}

static void a_fetch_that_broke_off_goes_on_where_it_was(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    expect_resumed(&w, kiln_blobs_fetch, w.p.server.store, w.p.client.store, "client");
    world_deinit(&w);
}

static void a_half_that_is_wrong_is_found_out_and_starts_anew(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest digest = put_random(&w, w.p.server.store, 300000);
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(&digest, name);
    char *path = kiln_arena_printf(&w.arena, "%s/client/half-%s", w.folder, name);
    expect_ok(kiln_file_write(path, KILN_STR("not how it begins"), 0600));
    kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 1);
    assert_int_equal(w.code[0], KILN_DATA_LOSS);
    assert_false(kiln_blob_store_has(w.p.client.store, &digest));
    kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 2);
    assert_int_equal(w.code[1], KILN_OK);
    world_deinit(&w);
}

/* ---- Credit ---- */

/* A world in which a raw peer has the client's place. */
static void raw_open(blob_world *w, raw_peer *r, uint64_t server_bytes_max, uint32_t version) {
    world_init(w, server_bytes_max);
    kiln_conn_close(w->p.client.conn, KILN_OK);
    pair_run_until(&w->p, &w->p.server.closed);
    w->p.server.opened = w->p.server.closed = false;
    raw_dial(r, &w->p);
    raw_hello(r, KILN_PEER_CLIENT, version);
}

static void raw_say_get(raw_peer *r, uint32_t stream, const kiln_digest *digest) {
    raw_say(r, &(kiln_message){
                   .type = KILN_MSG_BLOB_GET, .stream = stream, .blob_get = {.digest = *digest}});
}

/* Asks for a blob, which is announced. */
static void raw_get(raw_peer *r, uint32_t stream, const kiln_digest *digest) {
    raw_say_get(r, stream, digest);
    raw_expect(r, KILN_MSG_BLOB_PUT);
}

/* Announces a blob that goes by `first`, from `offset` on. */
static void raw_put(raw_peer *r, uint32_t stream, uint8_t first, uint64_t size, uint64_t offset) {
    raw_say(r, &(kiln_message){
                   .type = KILN_MSG_BLOB_PUT,
                   .stream = stream,
                   .blob_put = {.blob = {.digest = {{first, 1}}, .size = size}, .offset = offset}});
}

static void raw_window(raw_peer *r, uint32_t stream, uint32_t bytes) {
    raw_say(r,
            &(kiln_message){.type = KILN_MSG_WINDOW, .stream = stream, .window = {.bytes = bytes}});
}

static void expect_refusal(raw_peer *r, kiln_code code) {
    assert_int_equal(raw_expect(r, KILN_MSG_ERROR).error.code, code);
}

static void raw_done(blob_world *w, raw_peer *r) {
    raw_close(r);
    if (w->p.server.conn) pair_run_until(&w->p, &w->p.server.closed);
    world_deinit(w);
}

/* A file of the server's store, without a byte on the disk. */
static kiln_digest sparse_blob(blob_world *w, uint64_t size) {
    const kiln_digest digest = {{0xab, 3}};
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(&digest, name);
    char *path = kiln_arena_printf(&w->arena, "%s/server/%s", w->folder, name);
    expect_ok(kiln_file_write(path, KILN_STR(""), 0600));
    assert_int_equal(truncate(path, (off_t)size), 0);
    return digest;
}

static void peers_before_version_6_get_no_blob_above_one_gib(void **state) {
    static const struct {
        uint32_t version;
        uint64_t size;
        bool refused;
    } row[] = {{5, KILN_BLOB_BYTES_BEFORE, false},
               {5, KILN_BLOB_BYTES_BEFORE + 1, true},
               {6, KILN_BLOB_BYTES_BEFORE + 1, false},
               {6, KILN_BLOB_BYTES_MAX, false}};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        blob_world w;
        raw_peer r;
        raw_open(&w, &r, 0, row[i].version);
        const kiln_digest digest = sparse_blob(&w, row[i].size);
        raw_say_get(&r, 1, &digest);
        if (row[i].refused)
            expect_refusal(&r, KILN_FAILED_PRECONDITION);
        else
            assert_int_equal(raw_expect(&r, KILN_MSG_BLOB_PUT).blob_put.blob.size, row[i].size);
        raw_done(&w, &r);
    }
}

static void a_blob_of_two_gib_begins_and_continues_where_it_stopped(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    const uint64_t size = (uint64_t)2 << 30;
    raw_open(&w, &r, 0, KILN_PROTO_VERSION_MAX);
    raw_put(&r, 1, 9, size, 0);
    raw_send_data(&r, 1, 1000, true); /* too short */
    expect_refusal(&r, KILN_DATA_LOSS);
    raw_put(&r, 3, 9, size, size - 1); /* nothing is here to continue */
    expect_refusal(&r, KILN_ABORTED);
    raw_send_data(&r, 3, 1, true);
    raw_done(&w, &r);
}

static void a_blob_above_the_limit_ends_the_connection(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    kiln_strbuf frame = {0};
    kiln_message put = {.type = KILN_MSG_BLOB_PUT,
                        .stream = 1,
                        .blob_put = {.blob = {.digest = {{7, 1}}, .size = KILN_BLOB_BYTES_MAX}}};
    raw_open(&w, &r, 0, KILN_PROTO_VERSION_MAX);
    expect_ok(kiln_frame_write_message(&frame, &put));
    frame.data[frame.size - 1]++; /* the lowest byte of the size, which is last */
    raw_send(&r, kiln_strbuf_view(&frame));
    expect_refusal(&r, KILN_DATA_LOSS);
    kiln_strbuf_deinit(&frame);
    raw_done(&w, &r);
}

static void no_more_is_sent_than_there_is_credit_for(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    kiln_digest digest = put_random(&w, w.p.server.store, 3 << 20);
    raw_get(&r, 1, &digest);
    raw_expect_data(&r, 1, KILN_STREAM_CREDIT);
    raw_window(&r, 1, 70001);
    raw_expect_data(&r, 1, 70001);
    raw_window(&r, 77, 9);
    raw_expect_data(&r, 1, 0); /* credit of a stream that is none */
    raw_done(&w, &r);
}

static void a_stream_without_credit_holds_no_other_up(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    kiln_frame frame;
    raw_open(&w, &r, 0, 2);
    kiln_digest large = put_random(&w, w.p.server.store, 3 << 20);
    kiln_digest small = put_random(&w, w.p.server.store, 1000);
    raw_get(&r, 1, &large);
    raw_expect_data(&r, 1, KILN_STREAM_CREDIT);
    raw_get(&r, 3, &small);
    assert_true(raw_read(&r, &frame));
    assert_int_equal(frame.stream, 3);
    assert_int_equal(frame.body.size, 1000);
    raw_done(&w, &r);
}

static void version_1_knows_no_credit_and_needs_none(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 1);
    kiln_digest digest = put_random(&w, w.p.server.store, 3 << 20);
    raw_get(&r, 1, &digest);
    size_t size = 0;
    for (kiln_frame frame = {0}; size < 3 << 20; size += frame.body.size)
        assert_true(raw_read(&r, &frame) && frame.type == KILN_MSG_DATA);
    raw_window(&r, 1, 9);
    expect_refusal(&r, KILN_UNIMPLEMENTED);
    raw_done(&w, &r);
}

static void credit_without_end_is_no_credit(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    kiln_frame frame;
    raw_open(&w, &r, 0, 2);
    kiln_digest digest = put_random(&w, w.p.server.store, 40 << 20);
    raw_say_get(&r, 1, &digest);
    for (int i = 0; i < 2; i++) raw_window(&r, 1, KILN_STREAM_CREDIT_MAX);
    while (raw_read(&r, &frame))
        if (frame.type == KILN_MSG_ERROR) break;
    assert_int_equal(frame.type, KILN_MSG_ERROR);
    raw_done(&w, &r);
    assert_int_equal(w.p.server.why, KILN_DATA_LOSS);
}

static void who_goes_on_sending_a_refused_blob_is_cut(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 100000, 2);
    raw_put(&r, 1, 9, 1 << 20, 0);
    expect_refusal(&r, KILN_RESOURCE_EXHAUSTED);
    for (size_t sent = 0; sent <= KILN_STREAM_CREDIT; sent += 50000)
        raw_send_data(&r, 1, 50000, false);
    kiln_message why = raw_expect(&r, KILN_MSG_ERROR);
    expect_str(kiln_str_slice(why.error.text, 0, 9), "more DATA");
    raw_done(&w, &r);
}

static void what_transfers_leave_behind_counts_for_the_quota(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 300000, 2);
    kiln_digest old = put_random(&w, w.p.server.store, 100000);
    for (uint32_t stream = 1; stream <= 5;
         stream += 2) { /* never finished: 240,000 bytes of them */
        raw_put(&r, stream, (uint8_t)stream, 200000, 0);
        raw_send_data(&r, stream, 60000, false);
        raw_send_data(&r, stream, 20000, false);
    }
    while (kiln_blob_store_has(w.p.server.store, &old)) /* makes place */
        raw_expect_data(&r, 0, 0);
    raw_send_data(&r, 5, 65000, false); /* and now nothing else can */
    expect_refusal(&r, KILN_RESOURCE_EXHAUSTED);
    raw_done(&w, &r);
}

static void answers_that_nobody_asked_for_are_ignored(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    w.p.server.message_count = 0;
    raw_say(&r, &(kiln_message){.type = KILN_MSG_BLOB_HAVE, .stream = 5});
    assert_int_equal(raw_expect(&r, KILN_MSG_BLOB_MISSING).blob_missing.blobs.count, 0);
    raw_say(&r,
            &(kiln_message){.type = KILN_MSG_ERROR, .stream = 5, .error = {.text = KILN_STR("x")}});
    pair_run_until_count(&w.p, &w.p.server.message_count, 1); /* of no transfer: the program's */
    raw_done(&w, &r);
}

static void a_peer_has_only_so_many_transfers_at_a_time(void **state) {
    enum { MANY = 70 };
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    kiln_digest large = put_random(&w, w.p.server.store, 3 << 20);
    for (uint32_t i = 0; i < MANY; i++) raw_put(&r, 2 * i + 1, (uint8_t)i, 100000, 0);
    for (uint32_t i = 64; i < MANY; i++) expect_refusal(&r, KILN_RESOURCE_EXHAUSTED);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < MANY; i++) raw_say_get(&r, 1001 + 2 * i, &large);
    for (kiln_frame frame = {0}; refused < MANY - 64 && raw_read(&r, &frame);)
        refused += frame.type == KILN_MSG_ERROR;
    assert_int_equal(refused, MANY - 64);
    raw_done(&w, &r);
}

static void who_is_refused_and_ends_nothing_is_cut(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    kiln_frame frame = {0};
    raw_open(&w, &r, 1000, 2);
    for (uint32_t i = 0; i < 1025; i++) raw_put(&r, 2 * i + 1, (uint8_t)i, 2000, 0);
    while (raw_read(&r, &frame) && frame.stream) assert_int_equal(frame.type, KILN_MSG_ERROR);
    pair_run_until(&w.p, &w.p.server.closed);
    assert_int_equal(w.p.server.why, KILN_RESOURCE_EXHAUSTED);
    expect_contains(w.p.server.why_text, "refused and not ended");
    raw_done(&w, &r);
}

static void a_stream_in_use_takes_no_second_blob(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    raw_put(&r, 1, 1, 10, 0);
    raw_put(&r, 1, 1, 10, 0);
    expect_str(kiln_str_slice(raw_expect(&r, KILN_MSG_ERROR).error.text, 0, 8), "BLOB_PUT");
    raw_done(&w, &r);
    assert_int_equal(w.p.server.why, KILN_DATA_LOSS);
}

static void data_for_no_blob_ends_the_connection(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    raw_send_data(&r, 7, 100, false);
    raw_expect(&r, KILN_MSG_ERROR);
    raw_done(&w, &r);
    expect_contains(w.p.server.why_text, "where no blob was announced");
}

static void what_is_there_already_is_not_moved(void **state) {
    (void)state;
    blob_world w;
    world_init(&w, 0);
    kiln_digest digest = put_random(&w, w.p.client.store, 1000);
    put_random(&w, w.p.server.store, 1000);
    kiln_blobs_upload(w.p.client.blobs, &digest, on_done, &w);
    kiln_blobs_fetch(w.p.client.blobs, &digest, on_done, &w);
    pair_run_until_count(&w.p, &w.done_count, 2);
    assert_int_equal(w.code[0], KILN_OK);
    assert_int_equal(w.code[1], KILN_OK);
    world_deinit(&w);
}

static void a_blob_of_another_content_is_refused_on_its_stream(void **state) {
    (void)state;
    blob_world w;
    raw_peer r;
    raw_open(&w, &r, 0, 2);
    raw_put(&r, 1, 1, 10, 0);
    raw_send_data(&r, 1, 10, true);
    expect_refusal(&r, KILN_DATA_LOSS);
    raw_put(&r, 3, 2, 10, 0);
    raw_send_data(&r, 3, 4, true); /* and shorter than announced */
    expect_refusal(&r, KILN_DATA_LOSS);
    raw_put(&r, 5, 2, 10, 11); /* behind its end */
    expect_refusal(&r, KILN_DATA_LOSS);
    raw_put(&r, 7, 2, 10, 5); /* where no transfer broke off */
    expect_refusal(&r, KILN_ABORTED);
    raw_done(&w, &r);
}

/* ---- Guards ---- */

typedef struct rules {
    bool may_get, may_put;
    uint32_t put_count;
} rules;

static bool may_get(void *context, kiln_conn *conn, const kiln_digest *digest) {
    (void)conn, (void)digest;
    return ((rules *)context)->may_get;
}

static kiln_status may_put(void *context, kiln_conn *conn, const kiln_digest *digest,
                           uint64_t size) {
    (void)conn, (void)digest;
    if (((rules *)context)->may_put) return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED, "no blobs of %u bytes", (unsigned)size);
}

static void was_put(void *context, kiln_conn *conn, const kiln_digest *digest, uint64_t size) {
    (void)conn, (void)digest;
    assert_int_equal(size, 5000);
    ((rules *)context)->put_count++;
}

/* What a fetch, or else an upload, ends with. */
static kiln_code end_of(blob_world *w, transfer_start start, const kiln_digest *digest) {
    start(w->p.client.blobs, digest, on_done, w);
    pair_run_until_count(&w->p, &w->done_count, w->done_count + 1);
    return w->code[w->done_count - 1];
}

static void a_guard_decides_what_a_peer_gets_and_puts(void **state) {
    (void)state;
    static const kiln_blob_guard guard = {may_get, may_put, was_put};
    rules r = {0};
    blob_world w;
    world_init(&w, 0);
    kiln_blobs_set_guard(w.p.server.blobs, &guard, &r);
    kiln_digest theirs = put_random(&w, w.p.server.store, 4000);
    kiln_digest ours = put_random(&w, w.p.client.store, 5000);
    assert_int_equal(end_of(&w, kiln_blobs_fetch, &theirs), KILN_NOT_FOUND);
    assert_int_equal(end_of(&w, kiln_blobs_upload, &ours), KILN_PERMISSION_DENIED);
    assert_false(kiln_blob_store_has(w.p.server.store, &ours));
    r.may_put = true;
    assert_int_equal(end_of(&w, kiln_blobs_upload, &ours), KILN_OK);
    assert_int_equal(end_of(&w, kiln_blobs_upload, &ours), KILN_OK); /* it must show the content */
    assert_int_equal(r.put_count, 2);
    r.may_get = true;
    assert_int_equal(end_of(&w, kiln_blobs_upload, &ours), KILN_OK);
    assert_int_equal(r.put_count, 2);
    assert_int_equal(end_of(&w, kiln_blobs_fetch, &theirs), KILN_OK);
    world_deinit(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_of_every_size_go_up_and_down),
        cmocka_unit_test(what_neither_side_has_is_not_found),
        cmocka_unit_test(two_fetches_of_one_blob_share_the_transfer),
        cmocka_unit_test(more_uploads_than_a_peer_takes_at_a_time_take_turns),
        cmocka_unit_test(a_message_overtakes_a_large_upload),
        cmocka_unit_test(blobs_are_compressed_off_the_loop),
        cmocka_unit_test(a_full_store_refuses_and_the_connection_lives),
        cmocka_unit_test(uploads_that_were_refused_leave_room_for_others),
        cmocka_unit_test(and_so_do_fetches_that_failed_here),
        cmocka_unit_test(transfers_end_with_the_connection),
        cmocka_unit_test(an_upload_that_broke_off_goes_on_where_it_was),
        cmocka_unit_test(a_fetch_that_broke_off_goes_on_where_it_was),
        cmocka_unit_test(a_half_that_is_wrong_is_found_out_and_starts_anew),
        cmocka_unit_test(peers_before_version_6_get_no_blob_above_one_gib),
        cmocka_unit_test(a_blob_of_two_gib_begins_and_continues_where_it_stopped),
        cmocka_unit_test(a_blob_above_the_limit_ends_the_connection),
        cmocka_unit_test(no_more_is_sent_than_there_is_credit_for),
        cmocka_unit_test(a_stream_without_credit_holds_no_other_up),
        cmocka_unit_test(version_1_knows_no_credit_and_needs_none),
        cmocka_unit_test(credit_without_end_is_no_credit),
        cmocka_unit_test(who_goes_on_sending_a_refused_blob_is_cut),
        cmocka_unit_test(what_transfers_leave_behind_counts_for_the_quota),
        cmocka_unit_test(answers_that_nobody_asked_for_are_ignored),
        cmocka_unit_test(a_peer_has_only_so_many_transfers_at_a_time),
        cmocka_unit_test(who_is_refused_and_ends_nothing_is_cut),
        cmocka_unit_test(a_stream_in_use_takes_no_second_blob),
        cmocka_unit_test(data_for_no_blob_ends_the_connection),
        cmocka_unit_test(what_is_there_already_is_not_moved),
        cmocka_unit_test(a_blob_of_another_content_is_refused_on_its_stream),
        cmocka_unit_test(a_guard_decides_what_a_peer_gets_and_puts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
