/* Blobs over a connection. Each transfer has a stream of its own:
 *
 *     upload:  BLOB_HAVE -> BLOB_MISSING; when missing: BLOB_PUT, DATA..., END -> BLOB_OK
 *     fetch:   BLOB_GET -> BLOB_PUT, DATA..., END
 *
 * A transfer that broke off is taken up where it was: the receiver says what it has left. One that
 * cannot go on says ERROR, and throws away what comes until the sender's END.
 *
 * A transfer sends no more DATA than the receiver has given it credit for: KILN_STREAM_CREDIT at
 * first, then what each WINDOW adds. And at most KILN_NET_BLOB_WINDOW bytes of blobs are queued at
 * a time, in turns between the transfers, so that a message never waits behind more than that. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/vec.h"
#include "proto/net/internal.h"

#define TRANSFERS_MAX 64u /* that a peer may have open towards us */
#define REFUSED_MAX 1024u /* blobs of a peer that were refused, and that it has not ended */

typedef struct waiter {
    kiln_blobs_done done;
    void *context;
} waiter;

/* An answer on its way to a waiter: delivered from the loop, never from inside a call. */
typedef struct answer {
    waiter waiter;
    kiln_digest digest;
    kiln_status status;
} answer;

typedef struct outgoing {
    uint32_t stream;
    kiln_digest digest;
    kiln_mapping mapping;
    uint64_t offset;
    uint64_t credit; /* bytes of DATA that the receiver will take now */
    bool wanted;     /* BLOB_PUT waits for its turn */
    bool sending;    /* between BLOB_PUT and END */
    bool is_reply;   /* to BLOB_GET: over with END, nobody waits */
    waiter waiter;
} outgoing;

typedef struct incoming {
    uint32_t stream;
    kiln_digest digest;
    uint64_t size;
    uint64_t credit, taken;   /* what the peer may send yet; what came since the last WINDOW */
    kiln_blob_writer *writer; /* NULL before BLOB_PUT, and when the rest is only skipped */
    bool is_fetch;            /* we asked; else the peer put */
    bool skipping;            /* it failed and was refused; DATA still under way is thrown away */
    KILN_VEC(waiter) waiter;
} incoming;

struct kiln_blobs {
    kiln_conn *conn;
    kiln_blob_store *store;
    const kiln_blob_guard *guard; /* NULL: everything is allowed */
    void *guard_context;
    KILN_VEC(outgoing *) out;
    KILN_VEC(incoming *) in;
    uint32_t turn; /* whose chunk is next */
    KILN_VEC(answer) ready;
    kiln_timer *timer; /* delivers `ready` */
};

static void deliver_ready(void *context) {
    kiln_blobs *blobs = context;
    for (uint32_t i = 0; i < blobs->ready.count; i++) { /* more may be added meanwhile */
        answer ready = blobs->ready.data[i];
        ready.waiter.done(ready.waiter.context, &ready.digest, ready.status);
    }
    blobs->ready.count = 0;
}

/* `status` is owned. */
static void deliver(kiln_blobs *blobs, waiter who, const kiln_digest *digest, kiln_status status) {
    answer ready = {.waiter = who, .digest = *digest, .status = status};
    kiln_vec_push(&blobs->ready, ready);
    kiln_timer_start(blobs->timer, 0);
}

/* ---- Sending ---- */

static void say(kiln_blobs *blobs, const kiln_message *message) {
    kiln_status st = kiln_conn_send(blobs->conn, message);
    KILN_CHECK(st == NULL); /* blob messages have fixed sizes */
}

static void send_error(kiln_blobs *blobs, uint32_t stream, kiln_status status) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 1024);
    kiln_message message = kiln_message_from_status(status, stream, &scratch);
    say(blobs, &message);
    kiln_arena_deinit(&scratch);
}

static void send_ref(kiln_blobs *blobs, kiln_message_type type, uint32_t stream,
                     const kiln_digest *digest, uint64_t size, uint64_t offset) {
    kiln_msg_blob_ref ref = {.digest = *digest, .size = size};
    kiln_message message = {.type = type, .stream = stream};
    if (type == KILN_MSG_BLOB_PUT) message.blob_put = (kiln_msg_blob_put){ref, offset};
    if (type == KILN_MSG_BLOB_OK) message.blob_ok.blob = ref;
    if (type == KILN_MSG_BLOB_GET) message.blob_get = (kiln_msg_blob_get){*digest, offset};
    if (type == KILN_MSG_BLOB_HAVE) {
        message.blob_have.blobs.item = &ref;
        message.blob_have.blobs.count = 1;
    }
    say(blobs, &message);
}

static void end_outgoing(kiln_blobs *blobs, outgoing *transfer, kiln_status status) {
    for (uint32_t i = 0; i < blobs->out.count; i++)
        if (blobs->out.data[i] == transfer) {
            memmove(&blobs->out.data[i], &blobs->out.data[i + 1],
                    (--blobs->out.count - i) * sizeof transfer);
            break;
        }
    if (transfer->waiter.done)
        deliver(blobs, transfer->waiter, &transfer->digest, status);
    else
        kiln_status_free(status); /* a reply that the peer no longer wants */
    kiln_file_unmap(&transfer->mapping);
    kiln_free(transfer);
}

/* Peers of version 1 know no credit. */
static uint64_t first_credit(const kiln_blobs *blobs) {
    return kiln_conn_version(blobs->conn) >= 2 ? KILN_STREAM_CREDIT : UINT64_MAX;
}

static bool can_send(const outgoing *transfer) {
    return transfer->sending && (transfer->credit || transfer->offset == transfer->mapping.size);
}

static void send_chunk(kiln_blobs *blobs, outgoing *transfer) {
    uint64_t left = transfer->mapping.size - transfer->offset;
    size_t size = (size_t)KILN_MIN(KILN_MIN(left, transfer->credit), (uint64_t)KILN_FRAME_DATA_MAX);
    const char *data = transfer->mapping.data;
    bool end = size == left;
    kiln_conn_send_data(blobs->conn, transfer->stream,
                        (kiln_str){size ? data + transfer->offset : "", size}, end);
    transfer->offset += size;
    transfer->credit -= size;
    transfer->sending = !end;
    if (end && transfer->is_reply) end_outgoing(blobs, transfer, KILN_OK);
}

static void begin_sending(kiln_blobs *blobs, outgoing *transfer) {
    transfer->wanted = false;
    transfer->sending = true;
    send_ref(blobs, KILN_MSG_BLOB_PUT, transfer->stream, &transfer->digest, transfer->mapping.size,
             transfer->offset);
}

/* The peer would refuse more. */
static bool may_put(const kiln_blobs *blobs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < blobs->out.count; i++)
        count += blobs->out.data[i]->sending && !blobs->out.data[i]->is_reply;
    return count < TRANSFERS_MAX;
}

bool kiln_blobs_is_sending(const kiln_blobs *blobs) { return blobs->out.count > 0; }

void kiln_blobs_drained(kiln_blobs *blobs) {
    uint32_t idle = 0; /* transfers in a row that had nothing to send */
    while (blobs->out.count && idle < blobs->out.count &&
           kiln_conn_queued_bytes(blobs->conn) < KILN_NET_BLOB_WINDOW) {
        blobs->turn = (blobs->turn + 1) % blobs->out.count;
        outgoing *transfer = blobs->out.data[blobs->turn];
        if (transfer->wanted && may_put(blobs)) begin_sending(blobs, transfer);
        bool ready = can_send(transfer);
        idle = ready ? 0 : idle + 1;
        if (ready) send_chunk(blobs, transfer);
    }
}

static kiln_status map_blob(kiln_blobs *blobs, outgoing *transfer) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 512);
    char *path = NULL;
    kiln_status st = kiln_blob_store_path(blobs->store, &transfer->digest, &scratch, &path);
    if (!st) st = kiln_file_map(path, &transfer->mapping);
    kiln_arena_deinit(&scratch);
    return st;
}

static outgoing *add_outgoing(kiln_blobs *blobs, uint32_t stream, const kiln_digest *digest) {
    outgoing *transfer = kiln_alloc(sizeof *transfer);
    transfer->stream = stream;
    transfer->digest = *digest;
    transfer->credit = first_credit(blobs);
    kiln_vec_push(&blobs->out, transfer);
    return transfer;
}

void kiln_blobs_upload(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                       void *context) {
    outgoing *transfer = add_outgoing(blobs, kiln_conn_stream(blobs->conn), digest);
    transfer->waiter = (waiter){done, context};
    kiln_status st = map_blob(blobs, transfer);
    if (st)
        end_outgoing(blobs, transfer, st);
    else
        send_ref(blobs, KILN_MSG_BLOB_HAVE, transfer->stream, digest, transfer->mapping.size, 0);
}

/* ---- Receiving ---- */

static incoming *add_incoming(kiln_blobs *blobs, uint32_t stream, const kiln_digest *digest,
                              bool is_fetch) {
    incoming *transfer = kiln_alloc(sizeof *transfer);
    transfer->stream = stream;
    transfer->digest = *digest;
    transfer->is_fetch = is_fetch;
    transfer->credit = first_credit(blobs);
    kiln_vec_push(&blobs->in, transfer);
    return transfer;
}

/* Tells everybody who waits; `status` is owned. */
static void tell_waiters(kiln_blobs *blobs, incoming *transfer, kiln_status status) {
    for (uint32_t i = 0; i < transfer->waiter.count; i++) {
        kiln_status copy = KILN_OK;
        if (status)
            copy = kiln_status_make(kiln_status_code(status), __FILE__, __LINE__, "%s",
                                    kiln_status_text(status));
        deliver(blobs, transfer->waiter.data[i], &transfer->digest, copy);
    }
    transfer->waiter.count = 0;
    kiln_status_free(status);
}

static void end_incoming(kiln_blobs *blobs, incoming *transfer, kiln_status status) {
    for (uint32_t i = 0; i < blobs->in.count; i++)
        if (blobs->in.data[i] == transfer) {
            memmove(&blobs->in.data[i], &blobs->in.data[i + 1],
                    (--blobs->in.count - i) * sizeof transfer);
            break;
        }
    tell_waiters(blobs, transfer, status);
    kiln_blob_writer_abandon(transfer->writer,
                             true); /* the rest may come over another connection */
    kiln_vec_deinit(&transfer->waiter);
    kiln_free(transfer);
}

static incoming *find_incoming(kiln_blobs *blobs, uint32_t stream) {
    for (uint32_t i = 0; i < blobs->in.count; i++)
        if (blobs->in.data[i]->stream == stream) return blobs->in.data[i];
    return NULL;
}

static outgoing *find_outgoing(kiln_blobs *blobs, uint32_t stream) {
    for (uint32_t i = 0; i < blobs->out.count; i++)
        if (blobs->out.data[i]->stream == stream) return blobs->out.data[i];
    return NULL;
}

void kiln_blobs_fetch(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                      void *context) {
    waiter waiting = {done, context};
    if (kiln_blob_store_has(blobs->store, digest)) {
        deliver(blobs, waiting, digest, KILN_OK);
        return;
    }
    incoming *transfer = NULL;
    for (uint32_t i = 0; i < blobs->in.count && !transfer; i++) {
        incoming *other = blobs->in.data[i];
        if (other->is_fetch && !other->skipping && kiln_digest_equal(&other->digest, digest))
            transfer = other;
    }
    bool asked = transfer != NULL;
    if (!asked) transfer = add_incoming(blobs, kiln_conn_stream(blobs->conn), digest, true);
    kiln_vec_push(&transfer->waiter, waiting);
    if (!asked)
        send_ref(blobs, KILN_MSG_BLOB_GET, transfer->stream, digest, 0,
                 kiln_blob_store_half(blobs->store, digest));
}

/* The transfer failed on our side. The peer is told, and what it sent meanwhile is skipped. */
static void fail_incoming(kiln_blobs *blobs, incoming *transfer, kiln_status why) {
    send_error(blobs, transfer->stream, why);
    tell_waiters(blobs, transfer, why);
    kiln_blob_writer_abandon(transfer->writer, false);
    transfer->writer = NULL;
    transfer->skipping = true;
}

static void finish_incoming(kiln_blobs *blobs, incoming *transfer) {
    kiln_status st = KILN_OK;
    if (!transfer->skipping) {
        st = kiln_blob_writer_finish(transfer->writer);
        transfer->writer = NULL;
        if (!transfer->is_fetch && st) send_error(blobs, transfer->stream, st);
        if (!transfer->is_fetch && !st && blobs->guard)
            blobs->guard->was_put(blobs->guard_context, blobs->conn, &transfer->digest,
                                  transfer->size);
        if (!transfer->is_fetch && !st)
            send_ref(blobs, KILN_MSG_BLOB_OK, transfer->stream, &transfer->digest, transfer->size,
                     0);
    }
    end_incoming(blobs, transfer, st);
}

/* What was taken may be sent again: in a few large pieces, so that WINDOW costs little. Who was
 * told that its blob is refused gets none. */
static void renew_credit(kiln_blobs *blobs, incoming *transfer, size_t taken) {
    if (kiln_conn_version(blobs->conn) < 2) return;
    transfer->credit -= taken;
    transfer->taken += taken;
    if (transfer->taken < KILN_STREAM_CREDIT / 2 || transfer->skipping) return;
    kiln_message window = {.type = KILN_MSG_WINDOW,
                           .stream = transfer->stream,
                           .window = {.bytes = (uint32_t)transfer->taken}};
    transfer->credit += transfer->taken;
    transfer->taken = 0;
    say(blobs, &window);
}

kiln_status kiln_blobs_data(kiln_blobs *blobs, uint32_t stream, kiln_str bytes, bool end) {
    incoming *transfer = find_incoming(blobs, stream);
    if (!transfer || (!transfer->writer && !transfer->skipping))
        return KILN_ERROR(DATA_LOSS, "DATA on stream %u, where no blob was announced", stream);
    if (bytes.size > transfer->credit)
        return KILN_ERROR(DATA_LOSS, "more DATA on stream %u than it had credit for", stream);
    if (!transfer->skipping) {
        kiln_status st = kiln_blob_writer_add(transfer->writer, bytes);
        if (st) fail_incoming(blobs, transfer, st);
    }
    if (end)
        finish_incoming(blobs, transfer);
    else
        renew_credit(blobs, transfer, bytes.size);
    return KILN_OK;
}

/* ---- What the peer says ---- */

static bool may_get(const kiln_blobs *blobs, const kiln_digest *digest) {
    return !blobs->guard || blobs->guard->may_get(blobs->guard_context, blobs->conn, digest);
}

static void on_have(kiln_blobs *blobs, const kiln_message *message) {
    kiln_message reply = {.type = KILN_MSG_BLOB_MISSING, .stream = message->stream};
    const kiln_msg_blob_have *have = &message->blob_have;
    kiln_msg_blob_ref *missing = kiln_alloc(sizeof *missing * have->blobs.count);
    uint64_t *half = kiln_alloc(sizeof *half * have->blobs.count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < have->blobs.count; i++) {
        const kiln_msg_blob_ref *ref = &have->blobs.item[i];
        if (may_get(blobs, &ref->digest) && kiln_blob_store_has(blobs->store, &ref->digest))
            continue;
        missing[count] = *ref;
        half[count++] = kiln_blob_store_half(blobs->store, &ref->digest);
    }
    reply.blob_missing.blobs.item = missing;
    reply.blob_missing.blobs.count = count;
    reply.blob_missing.have_bytes = (kiln_u64s){half, count};
    say(blobs, &reply);
    kiln_free(missing);
    kiln_free(half);
}

static void on_missing(kiln_blobs *blobs, const kiln_message *message) {
    const kiln_msg_blob_missing *missing = &message->blob_missing;
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (!transfer || transfer->wanted || transfer->sending) return;
    if (missing->blobs.count == 0) {
        end_outgoing(blobs, transfer, KILN_OK);
        return;
    }
    /* A tail that is empty has no frame that could carry END: then all of it goes again. */
    uint64_t half = missing->have_bytes.count ? missing->have_bytes.item[0] : 0;
    transfer->offset = half < transfer->mapping.size ? half : 0;
    transfer->wanted = true;
    kiln_blobs_drained(blobs);
}

/* Blobs that the peer puts: those that are taken, or those that were refused. */
static uint32_t count_puts(const kiln_blobs *blobs, bool refused) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < blobs->in.count; i++)
        count += !blobs->in.data[i]->is_fetch && blobs->in.data[i]->skipping == refused;
    return count;
}

static void on_put(kiln_blobs *blobs, const kiln_message *message) {
    const kiln_msg_blob_put *put = &message->blob_put;
    incoming *transfer = find_incoming(blobs, message->stream);
    if (!transfer && count_puts(blobs, true) >= REFUSED_MAX) {
        kiln_conn_close(
            blobs->conn,
            KILN_ERROR(RESOURCE_EXHAUSTED, "%u blobs were refused and not ended", REFUSED_MAX));
        return;
    }
    if (!transfer) {
        transfer = add_incoming(blobs, message->stream, &put->blob.digest, false);
    } else if (!transfer->is_fetch || transfer->writer ||
               !kiln_digest_equal(&transfer->digest, &put->blob.digest)) {
        kiln_conn_close(blobs->conn, KILN_ERROR(DATA_LOSS, "BLOB_PUT on stream %u, which is in use",
                                                message->stream));
        return;
    }
    kiln_status st = KILN_OK;
    transfer->size = put->blob.size;
    if (!transfer->is_fetch && count_puts(blobs, false) > TRANSFERS_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u blobs at a time", TRANSFERS_MAX);
    if (!st && !transfer->is_fetch && blobs->guard)
        st = blobs->guard->may_put(blobs->guard_context, blobs->conn, &transfer->digest,
                                   transfer->size);
    if (!st)
        st = kiln_blob_writer_open(blobs->store, &transfer->digest, put->blob.size, put->offset,
                                   &transfer->writer);
    if (st) fail_incoming(blobs, transfer, st);
}

static void on_get(kiln_blobs *blobs, const kiln_message *message) {
    kiln_status st = KILN_OK;
    if (blobs->out.count >= TRANSFERS_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u blobs at a time", TRANSFERS_MAX);
    else if (!may_get(blobs, &message->blob_get.digest))
        st = KILN_ERROR(NOT_FOUND, "no such blob");
    outgoing *transfer =
        st ? NULL : add_outgoing(blobs, message->stream, &message->blob_get.digest);
    if (!st) st = map_blob(blobs, transfer);
    if (st) {
        send_error(blobs, message->stream, st);
        kiln_status_free(st);
        if (transfer) end_outgoing(blobs, transfer, KILN_OK);
        return;
    }
    transfer->is_reply = true;
    uint64_t half = message->blob_get.offset;
    transfer->offset = half < transfer->mapping.size ? half : 0;
    begin_sending(blobs, transfer);
    kiln_blobs_drained(blobs);
}

/* A stream that is gone needs no credit any more: WINDOW and END cross each other. */
static void on_window(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (!transfer) return;
    transfer->credit += message->window.bytes;
    if (transfer->credit > KILN_STREAM_CREDIT_MAX)
        kiln_conn_close(blobs->conn,
                        KILN_ERROR(DATA_LOSS, "more credit on stream %u than a stream may have",
                                   message->stream));
    else
        kiln_blobs_drained(blobs);
}

static void on_ok(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (transfer && !transfer->is_reply) end_outgoing(blobs, transfer, KILN_OK);
}

/* An ERROR on a stream of ours ends the transfer; any other is somebody else's. */
static bool on_error(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *sending = message->stream ? find_outgoing(blobs, message->stream) : NULL;
    incoming *receiving = message->stream ? find_incoming(blobs, message->stream) : NULL;
    if (sending && sending->sending)
        kiln_conn_send_data(blobs->conn, sending->stream, KILN_STR(""), true);
    if (sending)
        end_outgoing(blobs, sending, kiln_status_from_error(&message->error));
    else if (receiving)
        end_incoming(blobs, receiving, kiln_status_from_error(&message->error));
    if (sending) kiln_blobs_drained(blobs); /* its turn is another's */
    return sending || receiving;
}

bool kiln_blobs_message(kiln_blobs *blobs, const kiln_message *message) {
    switch ((int)message->type) {
    case KILN_MSG_BLOB_HAVE: on_have(blobs, message); return true;
    case KILN_MSG_BLOB_MISSING: on_missing(blobs, message); return true;
    case KILN_MSG_BLOB_PUT: on_put(blobs, message); return true;
    case KILN_MSG_BLOB_OK: on_ok(blobs, message); return true;
    case KILN_MSG_BLOB_GET:
        kiln_fail_pass(KILN_FAIL_BLOB_ASKED);
        on_get(blobs, message);
        return true;
    case KILN_MSG_WINDOW: on_window(blobs, message); return true;
    case KILN_MSG_ERROR: return on_error(blobs, message);
    default: return false;
    }
}

/* ---- Life ---- */

kiln_blobs *kiln_blobs_attach(kiln_conn *conn, kiln_blob_store *store) {
    kiln_blobs *blobs = kiln_alloc(sizeof *blobs);
    blobs->conn = conn;
    blobs->store = store;
    blobs->timer = kiln_timer_create(kiln_conn_loop(conn), deliver_ready, blobs);
    kiln_conn_set_blobs(conn, blobs);
    return blobs;
}

void kiln_blobs_set_guard(kiln_blobs *blobs, const kiln_blob_guard *guard, void *context) {
    blobs->guard = guard;
    blobs->guard_context = context;
}

void kiln_blobs_destroy(kiln_blobs *blobs) {
    while (blobs->out.count)
        end_outgoing(blobs, blobs->out.data[0], KILN_ERROR(UNAVAILABLE, "the connection closed"));
    while (blobs->in.count)
        end_incoming(blobs, blobs->in.data[0], KILN_ERROR(UNAVAILABLE, "the connection closed"));
    deliver_ready(blobs);
    kiln_timer_destroy(blobs->timer);
    kiln_vec_deinit(&blobs->ready);
    kiln_vec_deinit(&blobs->out);
    kiln_vec_deinit(&blobs->in);
    kiln_free(blobs);
}
