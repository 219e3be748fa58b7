/* Frames between a program and its workers. Both ends are the same program, so keys are private;
 * the reader is bounded all the same, because a worker that runs wild writes wild bytes. */
#include "base/mpack.h"
#include "compiler-core/worker/worker.h"

#define HEADER_BYTES 4u

/* X(key, type, member) */
#define REQUEST_FIELDS(X) \
    X(1, u64, id)         \
    X(2, str, target)     \
    X(3, str, model_path) \
    X(4, str, te)         \
    X(5, str, task_key)   \
    X(6, bin, trace)      \
    X(7, u64, seed)       \
    X(8, u64, model_form)

#define REPLY_FIELDS(X)    \
    X(1, u64, id)          \
    X(2, str, text)        \
    X(3, bool, link_error) \
    X(4, u64, elapsed_ns)  \
    X(5, bin, bytes)       \
    X(6, str, algorithm)   \
    X(7, str, layout_in)   \
    X(8, str, layout_out)  \
    X(9, str, codegen_version)

enum { KEY_WORK = 20, KEY_CODE = 20 };

static void write_u64(kiln_strbuf *out, uint64_t value) { kiln_mpack_write_u64(out, value); }
static void write_str(kiln_strbuf *out, kiln_str value) { kiln_mpack_write_str(out, value); }
static void write_bin(kiln_strbuf *out, kiln_str value) {
    kiln_mpack_write_bin(out, value.data, value.size);
}
static void write_bool(kiln_strbuf *out, bool value) { kiln_mpack_write_bool(out, value); }

#define ONE(...) +1
#define WRITE(key, type, member)    \
    kiln_mpack_write_u64(out, key); \
    write_##type(out, message->member);

static size_t frame_begin(kiln_strbuf *out) {
    size_t at = out->size;
    kiln_strbuf_append(out, "\0\0\0\0", HEADER_BYTES);
    return at;
}

static void frame_end(kiln_strbuf *out, size_t at) {
    size_t size = out->size - at - HEADER_BYTES;
    for (unsigned i = 0; i < HEADER_BYTES; i++) out->data[at + i] = (char)(size >> (8 * i));
}

void kiln_work_request_write(const kiln_work_request *message, kiln_strbuf *out) {
    size_t at = frame_begin(out);
    kiln_mpack_write_map(out, 1 REQUEST_FIELDS(ONE));
    kiln_mpack_write_u64(out, KEY_WORK);
    kiln_mpack_write_u64(out, message->work);
    REQUEST_FIELDS(WRITE)
    frame_end(out, at);
}

void kiln_work_reply_write(const kiln_work_reply *message, kiln_strbuf *out) {
    size_t at = frame_begin(out);
    kiln_mpack_write_map(out, 1 REPLY_FIELDS(ONE));
    kiln_mpack_write_u64(out, KEY_CODE);
    kiln_mpack_write_u64(out, message->code);
    REPLY_FIELDS(WRITE)
    frame_end(out, at);
}

kiln_status kiln_work_frame_size(kiln_str bytes, size_t *out_size) {
    *out_size = 0;
    if (bytes.size < HEADER_BYTES) return KILN_OK;
    size_t size = 0;
    for (unsigned i = 0; i < HEADER_BYTES; i++) size |= (size_t)(uint8_t)bytes.data[i] << (8 * i);
    if (size > KILN_WORK_BYTES_MAX)
        return KILN_ERROR(DATA_LOSS, "a frame of %zu bytes from or to a worker", size);
    if (bytes.size - HEADER_BYTES >= size) *out_size = HEADER_BYTES + size;
    return KILN_OK;
}

static kiln_status read_u64(kiln_mpack_reader *r, uint64_t *out) {
    return kiln_mpack_read_u64(r, out);
}
static kiln_status read_str(kiln_mpack_reader *r, kiln_str *out) {
    return kiln_mpack_read_str(r, out);
}
static kiln_status read_bin(kiln_mpack_reader *r, kiln_str *out) {
    return kiln_mpack_read_bin(r, out);
}
static kiln_status read_bool(kiln_mpack_reader *r, bool *out) {
    return kiln_mpack_read_bool(r, out);
}

static kiln_status read_small(kiln_mpack_reader *r, uint32_t limit, uint32_t *out) {
    uint64_t value = 0;
    kiln_status st = kiln_mpack_read_u64(r, &value);
    if (!st && value > limit)
        st = KILN_ERROR(DATA_LOSS, "%llu is above %u", (unsigned long long)value, limit);
    if (!st) *out = (uint32_t)value;
    return st;
}

#define READ(key, type, member) \
    case key: st = read_##type(&r, &message.member); break;

kiln_status kiln_work_request_read(kiln_str frame, kiln_work_request *out_request) {
    kiln_work_request message = {0};
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, frame.data + HEADER_BYTES, frame.size - HEADER_BYTES);
    uint32_t fields = 0, work = 0;
    kiln_status st = kiln_mpack_read_map(&r, &fields);
    for (uint32_t i = 0; !st && i < fields; i++) {
        uint64_t key = 0;
        st = kiln_mpack_read_u64(&r, &key);
        if (st) break;
        switch (key) {
            REQUEST_FIELDS(READ)
        case KEY_WORK: st = read_small(&r, KILN_WORK_REFERENCE, &work); break;
        default: st = kiln_mpack_skip(&r);
        }
    }
    if (!st && work == 0) st = KILN_ERROR(DATA_LOSS, "a request names no work");
    if (st) return kiln_status_note(st, "reading a worker's request");
    message.work = (kiln_work)work;
    *out_request = message;
    return KILN_OK;
}

kiln_status kiln_work_reply_read(kiln_str frame, kiln_work_reply *out_reply) {
    kiln_work_reply message = {0};
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, frame.data + HEADER_BYTES, frame.size - HEADER_BYTES);
    uint32_t fields = 0;
    kiln_status st = kiln_mpack_read_map(&r, &fields);
    for (uint32_t i = 0; !st && i < fields; i++) {
        uint64_t key = 0;
        st = kiln_mpack_read_u64(&r, &key);
        if (st) break;
        switch (key) {
            REPLY_FIELDS(READ)
        case KEY_CODE: st = read_small(&r, 65535, &message.code); break;
        default: st = kiln_mpack_skip(&r);
        }
    }
    if (st) return kiln_status_note(st, "reading a worker's reply");
    *out_reply = message;
    return KILN_OK;
}
