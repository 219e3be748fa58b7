/* Blobs over a connection. Each transfer has a stream of its own:
 *
 *     upload:  BLOB_HAVE -> BLOB_MISSING; when missing: BLOB_PUT, DATA..., END -> BLOB_OK
 *     fetch:   BLOB_GET -> BLOB_PUT, DATA..., END
 *
 * An interrupted transfer continues where it stopped: the receiver says how many bytes it has. A
 * receiver that cannot continue sends ERROR, and drops DATA until the sender's END.
 *
 * A transfer sends no more DATA than the receiver's credit: KILN_STREAM_CREDIT at first, then what
 * each WINDOW adds. At most KILN_NET_BLOB_WINDOW bytes of blobs are queued at a time, in turns
 * between the transfers, so that a message never waits behind more. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/vec.h"
#include "proto/net/blob_sink.h"
#include "proto/net/blob_source.h"
#include "proto/net/blob_store.h"
#include "proto/net/blobs.h"
#include "proto/net/conn.h"

#define TRANSFERS_MAX 64u                 /* that a peer may have open to us */
#define UNWRITTEN_MAX ((uint64_t)8 << 20) /* bytes of one peer that wait for our disk */
#define INCOMING_MAX 4096u                /* with those that have ended and wait for our disk */
#define QUESTIONS_MAX 4096u               /* BLOB_HAVE of a peer that are not answered yet */
#define REFUSED_MAX 1024u                 /* refused blobs of a peer without their END */

typedef struct waiter {
    kiln_blobs_done done;
    void *context;
} waiter;

/* An answer for a waiter: delivered from the loop, never from inside a call. */
typedef struct answer {
    waiter waiter;
    kiln_digest digest;
    kiln_status status;
} answer;

typedef struct outgoing {
    kiln_blobs *blobs;
    uint32_t stream;
    kiln_digest digest;
    kiln_blob_source *source;
    bool is_open; /* the source's size is known */
    uint64_t offset;
    uint64_t credit; /* bytes of DATA that the receiver will take now */
    bool wanted;     /* BLOB_PUT waits for its turn */
    bool sending;    /* between BLOB_PUT and END */
    bool sent;       /* END is out, BLOB_OK not in */
    bool is_reply;   /* to BLOB_GET: done with END, without a waiter */
    waiter waiter;
} outgoing;

typedef struct incoming {
    kiln_blobs *blobs;
    uint32_t stream;
    kiln_digest digest;
    uint64_t size;
    uint64_t credit, taken; /* what the peer may still send; taken since the last WINDOW */
    kiln_blob_sink *sink;   /* NULL before BLOB_PUT, and while skipping */
    uint64_t unwritten;     /* bytes that the sink has in memory */
    bool ended;             /* END came; the sink is not done yet */
    bool is_fetch;          /* we asked for it; else the peer uploads */
    bool skipping;          /* it was refused; further DATA is dropped */
    KILN_VEC(waiter) waiter;
} incoming;

/* A question to the store about some blobs, asked on the pool. */
typedef struct question {
    kiln_blobs *blobs; /* NULL: the connection is gone */
    kiln_blob_store *store;
    uint32_t stream, count;
    void (*answer)(kiln_blobs *blobs, const struct question *q);
    struct asked {
        kiln_msg_blob_ref ref;
        bool hidden; /* from this peer */
        bool has;
        uint64_t half;
    } blob[];
} question;

struct kiln_blobs {
    kiln_conn *conn;
    kiln_blob_store *store;
    const kiln_blob_guard *guard; /* NULL: everything is allowed */
    void *guard_context;
    KILN_VEC(outgoing *) out;
    KILN_VEC(incoming *) in;
    KILN_VEC(question *) asked;
    uint64_t unwritten; /* bytes that came in and are not written yet */
    uint32_t turn;      /* whose chunk is next */
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
    kiln_message message = kiln_message_from_status(status, stream);
    say(blobs, &message);
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
    kiln_vec_remove(&blobs->out, transfer);
    if (transfer->waiter.done)
        deliver(blobs, transfer->waiter, &transfer->digest, status);
    else
        kiln_status_free(status); /* a reply that the peer no longer wants */
    kiln_blob_source_drop(transfer->source);
    kiln_free(transfer);
}

/* Peers of version 1 know no credit. */
static uint64_t first_credit(const kiln_blobs *blobs) {
    return kiln_conn_version(blobs->conn) >= 2 ? KILN_STREAM_CREDIT : UINT64_MAX;
}

static uint64_t size_of(const outgoing *transfer) {
    return kiln_blob_source_size(transfer->source);
}

static bool is_at_end(const outgoing *transfer) { return transfer->offset == size_of(transfer); }

/* The next part to send; empty at the end, or while it is read. */
static kiln_blob_part next_part(const outgoing *transfer) {
    if (!transfer->sending || !transfer->credit || is_at_end(transfer)) return (kiln_blob_part){0};
    return kiln_blob_source_at(transfer->source, transfer->offset, transfer->credit);
}

/* Whether it sent something. The transfer may have ended then. */
static bool send_part(kiln_blobs *blobs, outgoing *transfer) {
    const kiln_blob_part part = next_part(transfer);
    if (!transfer->sending || (part.bytes.size == 0 && !is_at_end(transfer))) return false;
    transfer->offset += part.bytes.size;
    transfer->credit -= part.bytes.size;
    const bool end = is_at_end(transfer);
    kiln_conn_send_data(blobs->conn, transfer->stream, part.bytes, part.compressed, end);
    transfer->sending = !end;
    transfer->sent = end;
    if (end && transfer->is_reply) end_outgoing(blobs, transfer, KILN_OK);
    return true;
}

static void begin_sending(kiln_blobs *blobs, outgoing *transfer) {
    transfer->wanted = false;
    transfer->sending = true;
    send_ref(blobs, KILN_MSG_BLOB_PUT, transfer->stream, &transfer->digest, size_of(transfer),
             transfer->offset);
}

/* The peer would refuse more. */
static bool may_put(const kiln_blobs *blobs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < blobs->out.count; i++)
        count += (blobs->out.data[i]->sending || blobs->out.data[i]->sent) &&
                 !blobs->out.data[i]->is_reply;
    return count < TRANSFERS_MAX;
}

static void send_more(kiln_blobs *blobs) {
    uint32_t idle = 0; /* transfers in a row that had nothing to send */
    while (blobs->out.count && idle < blobs->out.count &&
           kiln_conn_queued_bytes(blobs->conn) < KILN_NET_BLOB_WINDOW) {
        blobs->turn = (blobs->turn + 1) % blobs->out.count;
        outgoing *transfer = blobs->out.data[blobs->turn];
        if (transfer->wanted && may_put(blobs)) begin_sending(blobs, transfer);
        idle = send_part(blobs, transfer) ? 0 : idle + 1;
    }
}

/* The source failed. A peer that waits for the rest sees a short blob. */
static void fail_outgoing(kiln_blobs *blobs, outgoing *transfer, kiln_status why) {
    if (transfer->sending)
        kiln_conn_send_data(blobs->conn, transfer->stream, (kiln_str){0}, (kiln_str){0}, true);
    else if (transfer->is_reply)
        send_error(blobs, transfer->stream, why);
    end_outgoing(blobs, transfer, why);
}

/* FAILED_PRECONDITION: the peer would end the connection, as its version knows no such blobs. */
static kiln_status check_size(const kiln_blobs *blobs, uint64_t size) {
    const uint32_t version = kiln_conn_version(blobs->conn);
    if (size <= kiln_blob_bytes_max(version)) return KILN_OK;
    return KILN_ERROR(
        FAILED_PRECONDITION,
        "a blob of %llu bytes is too large for the other program, whose version %u of "
        "the protocol takes at most %llu%s",
        (unsigned long long)size, version, (unsigned long long)kiln_blob_bytes_max(version),
        size <= KILN_BLOB_BYTES_MAX ? ": update it" : "");
}

static void on_source(void *context, kiln_status status) {
    outgoing *transfer = context;
    kiln_blobs *blobs = transfer->blobs;
    const bool is_first = !transfer->is_open;
    transfer->is_open = true;
    if (!status) status = check_size(blobs, size_of(transfer));
    if (status) {
        fail_outgoing(blobs, transfer, status);
    } else if (is_first && !transfer->is_reply) {
        send_ref(blobs, KILN_MSG_BLOB_HAVE, transfer->stream, &transfer->digest, size_of(transfer),
                 0);
        return;
    } else if (is_first) {
        if (transfer->offset >= size_of(transfer)) transfer->offset = 0;
        begin_sending(blobs, transfer);
    }
    send_more(blobs);
}

static outgoing *add_outgoing(kiln_blobs *blobs, uint32_t stream, const kiln_digest *digest) {
    outgoing *transfer = kiln_alloc(sizeof *transfer);
    transfer->blobs = blobs;
    transfer->stream = stream;
    transfer->digest = *digest;
    transfer->credit = first_credit(blobs);
    transfer->source =
        kiln_blob_source_open(blobs->conn->loop, blobs->store, digest,
                              kiln_conn_takes_compressed(blobs->conn), on_source, transfer);
    kiln_vec_push(&blobs->out, transfer);
    return transfer;
}

void kiln_blobs_upload(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                       void *context) {
    outgoing *transfer = add_outgoing(blobs, kiln_conn_stream(blobs->conn), digest);
    transfer->waiter = (waiter){done, context};
}

/* ---- What the store has ---- */

static void look(void *context) {
    question *q = context;
    for (uint32_t i = 0; i < q->count; i++) {
        struct asked *asked = &q->blob[i];
        asked->has = !asked->hidden && kiln_blob_store_has(q->store, &asked->ref.digest);
        if (!asked->has) asked->half = kiln_blob_store_half(q->store, &asked->ref.digest);
    }
}

static void on_looked(void *context) {
    question *q = context;
    kiln_blobs *blobs = q->blobs;
    if (blobs) {
        uint32_t at = 0;
        while (blobs->asked.data[at] != q) at++;
        blobs->asked.data[at] = kiln_vec_pop(&blobs->asked);
        q->answer(blobs, q);
    }
    kiln_free(q);
}

static question *make_question(kiln_blobs *blobs, uint32_t stream, uint32_t count,
                               void (*reply)(kiln_blobs *blobs, const question *q)) {
    question *q = kiln_alloc(sizeof *q + sizeof q->blob[0] * count);
    q->blobs = blobs;
    q->store = blobs->store;
    q->stream = stream;
    q->count = count;
    q->answer = reply;
    kiln_vec_push(&blobs->asked, q);
    return q;
}

static void ask(question *q) { kiln_loop_bulk(q->blobs->conn->loop, look, on_looked, q); }

/* ---- Receiving ---- */

static incoming *add_incoming(kiln_blobs *blobs, uint32_t stream, const kiln_digest *digest,
                              bool is_fetch) {
    incoming *transfer = kiln_alloc(sizeof *transfer);
    transfer->blobs = blobs;
    transfer->stream = stream;
    transfer->digest = *digest;
    transfer->is_fetch = is_fetch;
    transfer->credit = first_credit(blobs);
    kiln_vec_push(&blobs->in, transfer);
    return transfer;
}

/* Answers all waiters; `status` is owned. */
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
    kiln_vec_remove(&blobs->in, transfer);
    tell_waiters(blobs, transfer, status);
    kiln_blob_sink_drop(transfer->sink, true); /* the rest may come over another connection */
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

static void answer_fetch(kiln_blobs *blobs, const question *q) {
    incoming *transfer = find_incoming(blobs, q->stream);
    if (q->blob[0].has)
        end_incoming(blobs, transfer, KILN_OK);
    else
        send_ref(blobs, KILN_MSG_BLOB_GET, q->stream, &transfer->digest, 0, q->blob[0].half);
}

void kiln_blobs_fetch(kiln_blobs *blobs, const kiln_digest *digest, kiln_blobs_done done,
                      void *context) {
    waiter waiting = {done, context};
    incoming *transfer = NULL;
    for (uint32_t i = 0; i < blobs->in.count && !transfer; i++) {
        incoming *other = blobs->in.data[i];
        if (other->is_fetch && !other->skipping && kiln_digest_equal(&other->digest, digest))
            transfer = other;
    }
    bool asked = transfer != NULL;
    if (!asked) transfer = add_incoming(blobs, kiln_conn_stream(blobs->conn), digest, true);
    kiln_vec_push(&transfer->waiter, waiting);
    if (asked) return;
    question *q = make_question(blobs, transfer->stream, 1, answer_fetch);
    q->blob[0].ref.digest = *digest;
    ask(q);
}

/* The transfer failed on our side: tells the peer, and skips what it has sent meanwhile. */
static void fail_incoming(kiln_blobs *blobs, incoming *transfer, kiln_status why) {
    send_error(blobs, transfer->stream, why);
    tell_waiters(blobs, transfer, why);
    transfer->skipping = true;
}

/* All bytes came, and the store has checked them. */
static void finish_incoming(kiln_blobs *blobs, incoming *transfer, kiln_status st) {
    if (!transfer->is_fetch && st) send_error(blobs, transfer->stream, st);
    if (!transfer->is_fetch && !st) {
        if (blobs->guard)
            blobs->guard->was_put(blobs->guard_context, blobs->conn, &transfer->digest,
                                  transfer->size);
        send_ref(blobs, KILN_MSG_BLOB_OK, transfer->stream, &transfer->digest, transfer->size, 0);
    }
    end_incoming(blobs, transfer, st);
}

/* Renews credit for the bytes taken, in large pieces, so that WINDOW costs little. */
static void renew_credit(kiln_blobs *blobs, incoming *transfer, size_t taken) {
    if (kiln_conn_version(blobs->conn) < 2) return;
    transfer->taken += taken;
    if (transfer->taken < KILN_STREAM_CREDIT / 2 || transfer->ended) return;
    kiln_message window = {.type = KILN_MSG_WINDOW,
                           .stream = transfer->stream,
                           .window = {.bytes = (uint32_t)transfer->taken}};
    transfer->credit += transfer->taken;
    transfer->taken = 0;
    say(blobs, &window);
}

/* ---- Events of the store ---- */

static void forget_unwritten(kiln_blobs *blobs, uint64_t bytes) {
    blobs->unwritten -= bytes;
    if (blobs->unwritten <= UNWRITTEN_MAX / 2) kiln_conn_pause(blobs->conn, false);
}

static void on_sink_written(void *context, size_t bytes) {
    incoming *transfer = context;
    transfer->unwritten -= bytes;
    forget_unwritten(transfer->blobs, bytes);
    renew_credit(transfer->blobs, transfer, bytes);
}

static void on_sink_ended(void *context, kiln_status status) {
    incoming *transfer = context;
    transfer->sink = NULL;
    forget_unwritten(transfer->blobs, transfer->unwritten);
    transfer->unwritten = 0;
    if (transfer->ended)
        finish_incoming(transfer->blobs, transfer, status);
    else
        fail_incoming(transfer->blobs, transfer, status);
}

kiln_status kiln_blobs_data(kiln_blobs *blobs, uint32_t stream, kiln_str bytes, bool end) {
    incoming *transfer = find_incoming(blobs, stream);
    if (!transfer || transfer->ended || (!transfer->sink && !transfer->skipping))
        return KILN_ERROR(DATA_LOSS, "DATA on stream %u, where no blob was announced", stream);
    if (bytes.size > transfer->credit)
        return KILN_ERROR(DATA_LOSS, "more DATA on stream %u than it had credit for", stream);
    if (kiln_conn_version(blobs->conn) >= 2) transfer->credit -= bytes.size;
    if (transfer->skipping) { /* without new credit */
        if (end) end_incoming(blobs, transfer, KILN_OK);
        return KILN_OK;
    }
    transfer->ended = end;
    transfer->unwritten += bytes.size;
    blobs->unwritten += bytes.size;
    if (bytes.size > 0) kiln_blob_sink_add(transfer->sink, bytes);
    if (end) kiln_blob_sink_finish(transfer->sink);
    if (blobs->unwritten > UNWRITTEN_MAX) kiln_conn_pause(blobs->conn, true);
    return KILN_OK;
}

/* ---- Messages of the peer ---- */

static bool may_get(const kiln_blobs *blobs, const kiln_digest *digest) {
    return !blobs->guard || blobs->guard->may_get(blobs->guard_context, blobs->conn, digest);
}

static void answer_have(kiln_blobs *blobs, const question *q) {
    kiln_message reply = {.type = KILN_MSG_BLOB_MISSING, .stream = q->stream};
    kiln_msg_blob_ref *missing = kiln_alloc(sizeof *missing * q->count);
    uint64_t *half = kiln_alloc(sizeof *half * q->count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        if (q->blob[i].has) continue;
        missing[count] = q->blob[i].ref;
        half[count++] = q->blob[i].half;
    }
    reply.blob_missing.blobs.item = missing;
    reply.blob_missing.blobs.count = count;
    reply.blob_missing.have_bytes = (kiln_u64s){half, count};
    say(blobs, &reply);
    kiln_free(missing);
    kiln_free(half);
}

static void on_have(kiln_blobs *blobs, const kiln_message *message) {
    const kiln_msg_blob_have *have = &message->blob_have;
    if (blobs->asked.count >= QUESTIONS_MAX) {
        kiln_conn_close(blobs->conn, KILN_ERROR(RESOURCE_EXHAUSTED,
                                                "more than %u BLOB_HAVE at once", QUESTIONS_MAX));
        return;
    }
    question *q = make_question(blobs, message->stream, have->blobs.count, answer_have);
    for (uint32_t i = 0; i < q->count; i++) {
        q->blob[i].ref = have->blobs.item[i];
        q->blob[i].hidden = !may_get(blobs, &q->blob[i].ref.digest);
    }
    ask(q);
}

static void on_missing(kiln_blobs *blobs, const kiln_message *message) {
    const kiln_msg_blob_missing *missing = &message->blob_missing;
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (!transfer || !transfer->is_open || transfer->wanted || transfer->sending || transfer->sent)
        return;
    if (missing->blobs.count == 0) {
        end_outgoing(blobs, transfer, KILN_OK);
        return;
    }
    /* An empty rest has no frame that could carry END: then all of the blob is sent again. */
    uint64_t half = missing->have_bytes.count ? missing->have_bytes.item[0] : 0;
    transfer->offset = half < size_of(transfer) ? half : 0;
    transfer->wanted = true;
    send_more(blobs);
}

/* The peer's uploads without END that are accepted, or that were refused. */
static uint32_t count_puts(const kiln_blobs *blobs, bool refused) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < blobs->in.count; i++)
        count += !blobs->in.data[i]->is_fetch && !blobs->in.data[i]->ended &&
                 blobs->in.data[i]->skipping == refused;
    return count;
}

static void on_put(kiln_blobs *blobs, const kiln_message *message) {
    const kiln_msg_blob_put *put = &message->blob_put;
    incoming *transfer = find_incoming(blobs, message->stream);
    if (!transfer && blobs->in.count >= INCOMING_MAX) {
        kiln_conn_close(blobs->conn,
                        KILN_ERROR(RESOURCE_EXHAUSTED, "%u blobs at a time", INCOMING_MAX));
        return;
    }
    if (!transfer && count_puts(blobs, true) + count_puts(blobs, false) >= REFUSED_MAX) {
        kiln_conn_close(
            blobs->conn,
            KILN_ERROR(RESOURCE_EXHAUSTED, "%u blobs were refused and not ended", REFUSED_MAX));
        return;
    }
    if (!transfer) {
        transfer = add_incoming(blobs, message->stream, &put->blob.digest, false);
    } else if (!transfer->is_fetch || transfer->sink || transfer->ended ||
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
    if (st)
        fail_incoming(blobs, transfer, st);
    else
        transfer->sink =
            kiln_blob_sink_open(blobs->conn->loop, blobs->store, put,
                                (kiln_blob_sink_events){on_sink_written, on_sink_ended}, transfer);
}

static void on_get(kiln_blobs *blobs, const kiln_message *message) {
    kiln_status st = KILN_OK;
    if (blobs->out.count >= TRANSFERS_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u blobs at a time", TRANSFERS_MAX);
    else if (!may_get(blobs, &message->blob_get.digest))
        st = KILN_ERROR(NOT_FOUND, "no such blob");
    if (st) {
        send_error(blobs, message->stream, st);
        kiln_status_free(st);
        return;
    }
    outgoing *transfer = add_outgoing(blobs, message->stream, &message->blob_get.digest);
    transfer->is_reply = true;
    transfer->offset = message->blob_get.offset;
}

/* WINDOW for a stream that has ended is ignored: it may cross END. */
static void on_window(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (!transfer) return;
    transfer->credit += message->window.bytes;
    if (transfer->credit > KILN_STREAM_CREDIT_MAX)
        kiln_conn_close(blobs->conn,
                        KILN_ERROR(DATA_LOSS, "more credit on stream %u than a stream may have",
                                   message->stream));
    else
        send_more(blobs);
}

static void on_ok(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *transfer = find_outgoing(blobs, message->stream);
    if (!transfer || transfer->is_reply) return;
    end_outgoing(blobs, transfer, KILN_OK);
    send_more(blobs); /* another transfer may have its turn */
}

/* An ERROR on the stream of a transfer ends it; others are not about blobs. */
static bool on_error(kiln_blobs *blobs, const kiln_message *message) {
    outgoing *sending = message->stream ? find_outgoing(blobs, message->stream) : NULL;
    incoming *receiving = message->stream ? find_incoming(blobs, message->stream) : NULL;
    if (sending && sending->sending)
        kiln_conn_send_data(blobs->conn, sending->stream, (kiln_str){0}, (kiln_str){0}, true);
    if (sending)
        end_outgoing(blobs, sending, kiln_status_from_error(&message->error));
    else if (receiving)
        end_incoming(blobs, receiving, kiln_status_from_error(&message->error));
    if (sending) send_more(blobs); /* another transfer may have its turn */
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

static bool is_sending(const kiln_blobs *blobs) { return blobs->out.count > 0; }

static void destroy(kiln_blobs *blobs) {
    for (uint32_t i = 0; i < blobs->asked.count; i++) blobs->asked.data[i]->blobs = NULL;
    while (blobs->out.count)
        end_outgoing(blobs, blobs->out.data[0], KILN_ERROR(UNAVAILABLE, "the connection closed"));
    while (blobs->in.count)
        end_incoming(blobs, blobs->in.data[0], KILN_ERROR(UNAVAILABLE, "the connection closed"));
    deliver_ready(blobs);
    kiln_timer_destroy(blobs->timer);
    kiln_vec_deinit(&blobs->ready);
    kiln_vec_deinit(&blobs->asked);
    kiln_vec_deinit(&blobs->out);
    kiln_vec_deinit(&blobs->in);
    kiln_free(blobs);
}

kiln_blobs *kiln_blobs_attach(kiln_conn *conn, kiln_blob_store *store) {
    static const kiln_blob_events events = {is_sending, send_more, destroy};
    kiln_blobs *blobs = kiln_alloc(sizeof *blobs);
    blobs->conn = conn;
    blobs->store = store;
    blobs->timer = kiln_timer_create(conn->loop, deliver_ready, blobs);
    kiln_conn_set_blobs(conn, blobs, &events);
    return blobs;
}

void kiln_blobs_set_guard(kiln_blobs *blobs, const kiln_blob_guard *guard, void *context) {
    blobs->guard = guard;
    blobs->guard_context = context;
}
