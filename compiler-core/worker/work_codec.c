/* Frames between a program and its workers. Both ends are the same program, so keys are private;
 * the reader still checks all bounds, because a crashing worker may write any bytes. */
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/mpack.h"
#include "compiler-core/worker/worker.h"

#define HEADER_BYTES 4u

typedef enum form { U64, STR, BIN, BOOL, U32, F64 } form;

/* A member of a message; U32: at most `limit`. */
typedef struct field {
    uint64_t key;
    form form;
    size_t offset;
    uint32_t limit;
} field;

#define FIELD(message, key, form, member) {key, form, offsetof(kiln_work_##message, member), 0}

static const field request_fields[] = {
    {20, U32, offsetof(kiln_work_request, work), KILN_WORK_REFERENCE},
    FIELD(request, 1, U64, id),
    FIELD(request, 2, STR, target),
    FIELD(request, 3, STR, model_path),
    FIELD(request, 4, STR, te),
    FIELD(request, 5, STR, task_key),
    FIELD(request, 6, BIN, trace),
    FIELD(request, 7, U64, seed),
    FIELD(request, 8, U64, model_form),
    FIELD(request, 9, BIN, figures),
    {10, U32, offsetof(kiln_work_request, accuracy.precision), KILN_PRECISION_COUNT - 1},
    FIELD(request, 11, BOOL, accuracy.exact),
    FIELD(request, 12, F64, accuracy.error_max),
};

static const field reply_fields[] = {
    {20, U32, offsetof(kiln_work_reply, code), 65535},
    FIELD(reply, 1, U64, id),
    FIELD(reply, 2, STR, text),
    FIELD(reply, 3, BOOL, link_error),
    FIELD(reply, 4, U64, elapsed_ns),
    FIELD(reply, 5, BIN, bytes),
    FIELD(reply, 6, STR, algorithm),
    FIELD(reply, 7, STR, layout_in),
    FIELD(reply, 8, STR, layout_out),
    FIELD(reply, 9, STR, codegen_version),
    {10, U32, offsetof(kiln_work_reply, assembled.registers), KILN_ASSEMBLED_MAX},
    {11, U32, offsetof(kiln_work_reply, assembled.spill_bytes), KILN_ASSEMBLED_MAX},
    {12, U32, offsetof(kiln_work_reply, assembled.stack_bytes), KILN_ASSEMBLED_MAX},
    {13, U32, offsetof(kiln_work_reply, assembled.shared_bytes), KILN_ASSEMBLED_MAX},
};

_Static_assert(sizeof(kiln_work) == sizeof(uint32_t), "the kind of work is a U32");
_Static_assert(sizeof(kiln_precision) == sizeof(uint32_t), "a precision is a U32");

static void code_u32(kiln_mpack_coder *c, uint32_t limit, uint32_t *value) {
    uint64_t wide = *value;
    kiln_mpack_code_u64(c, &wide);
    if (!c->st && wide > limit)
        c->st = KILN_ERROR(DATA_LOSS, "%llu is above %u", (unsigned long long)wide, limit);
    if (!c->st) *value = (uint32_t)wide;
}

static void code_field(kiln_mpack_coder *c, const field *f, void *message) {
    void *at = (char *)message + f->offset;
    switch (f->form) {
    case U64: kiln_mpack_code_u64(c, at); break;
    case STR: kiln_mpack_code_str(c, at); break;
    case BIN: kiln_mpack_code_bin(c, at); break;
    case BOOL: kiln_mpack_code_bool(c, at); break;
    case U32: code_u32(c, f->limit, at); break;
    case F64: kiln_mpack_code_f64(c, at); break;
    }
}

/* `message` is a copy. */
static void write_message(const field *table, uint32_t count, void *message, kiln_strbuf *out) {
    kiln_mpack_coder c = {.out = out};
    size_t at = out->size;
    kiln_strbuf_append(out, "\0\0\0\0", HEADER_BYTES);
    kiln_mpack_write_map(out, count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_mpack_write_u64(out, table[i].key);
        code_field(&c, &table[i], message);
    }
    size_t size = out->size - at - HEADER_BYTES;
    for (unsigned i = 0; i < HEADER_BYTES; i++) out->data[at + i] = (char)(size >> (8 * i));
}

/* Keys in any order; unknown ones are skipped. */
static kiln_status read_message(const field *table, uint32_t count, kiln_str frame, void *message) {
    kiln_mpack_coder c = {0};
    uint32_t fields = 0;
    kiln_mpack_reader_init(&c.in, frame.data + HEADER_BYTES, frame.size - HEADER_BYTES);
    c.st = kiln_mpack_read_map(&c.in, &fields);
    for (uint32_t i = 0; !c.st && i < fields; i++) {
        uint64_t key = 0;
        uint32_t f = 0;
        kiln_mpack_code_u64(&c, &key);
        while (f < count && table[f].key != key) f++;
        if (f < count)
            code_field(&c, &table[f], message);
        else if (!c.st)
            c.st = kiln_mpack_skip(&c.in);
    }
    return c.st;
}

void kiln_work_request_write(const kiln_work_request *request, kiln_strbuf *out) {
    kiln_work_request copy = *request;
    write_message(request_fields, KILN_ARRAY_COUNT(request_fields), &copy, out);
}

void kiln_work_reply_write(const kiln_work_reply *reply, kiln_strbuf *out) {
    kiln_work_reply copy = *reply;
    write_message(reply_fields, KILN_ARRAY_COUNT(reply_fields), &copy, out);
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

kiln_status kiln_work_request_read(kiln_str frame, kiln_work_request *out_request) {
    kiln_work_request message = {0};
    kiln_status st =
        read_message(request_fields, KILN_ARRAY_COUNT(request_fields), frame, &message);
    if (!st && message.work == 0) st = KILN_ERROR(DATA_LOSS, "a request names no work");
    if (st) return kiln_status_note(st, "reading a worker's request");
    *out_request = message;
    return KILN_OK;
}

kiln_status kiln_work_reply_read(kiln_str frame, kiln_work_reply *out_reply) {
    kiln_work_reply message = {0};
    kiln_status st = read_message(reply_fields, KILN_ARRAY_COUNT(reply_fields), frame, &message);
    if (st) return kiln_status_note(st, "reading a worker's reply");
    *out_reply = message;
    return KILN_OK;
}
