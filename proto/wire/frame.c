/* The 16-byte header, and cutting a byte stream into frames. */
#include "base/check.h"
#include "proto/proto.h"

static void put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

size_t kiln_frame_body_max(kiln_message_type type) {
    return type == KILN_MSG_DATA ? KILN_FRAME_DATA_MAX : KILN_FRAME_CONTROL_MAX;
}

static void write_header(uint8_t *header, kiln_message_type type, uint8_t flags, uint32_t stream,
                         size_t size) {
    KILN_CHECK(size <= kiln_frame_body_max(type));
    put_u32(header, KILN_FRAME_MAGIC);
    header[4] = (uint8_t)type;
    header[5] = flags;
    header[6] = header[7] = 0;
    put_u32(header + 8, stream);
    put_u32(header + 12, (uint32_t)size);
}

void kiln_frame_write(kiln_strbuf *out, kiln_message_type type, uint8_t flags, uint32_t stream,
                      kiln_str body) {
    uint8_t header[KILN_FRAME_HEADER_BYTES];
    write_header(header, type, flags, stream, body.size);
    kiln_strbuf_append(out, header, sizeof header);
    kiln_strbuf_append(out, body.data, body.size);
}

kiln_status kiln_frame_write_message(kiln_strbuf *out, const kiln_message *message) {
    static const char room[KILN_FRAME_HEADER_BYTES];
    size_t at = out->size;
    kiln_strbuf_append(out, room, sizeof room);
    kiln_status st = kiln_message_encode(message, out);
    if (st) {
        out->size = at;
        return st;
    }
    write_header((uint8_t *)out->data + at, message->type, 0, message->stream,
                 out->size - at - sizeof room);
    return KILN_OK;
}

/* Checks a header completely, before a byte of the body is kept. */
static kiln_status check_header(const uint8_t *header, size_t *out_size) {
    if (get_u32(header) != KILN_FRAME_MAGIC)
        return KILN_ERROR(DATA_LOSS,
                          "this is not Kiln's protocol: a frame starts with %02x %02x %02x %02x",
                          header[0], header[1], header[2], header[3]);
    kiln_message_type type = (kiln_message_type)header[4];
    if (type == 0 || type > KILN_MSG_DATA)
        return KILN_ERROR(DATA_LOSS, "a frame of type %d", (int)type);
    unsigned flags_known = KILN_FRAME_ZSTD | (type == KILN_MSG_DATA ? KILN_FRAME_END : 0u);
    if ((header[5] & ~flags_known) || header[6] || header[7])
        return KILN_ERROR(DATA_LOSS, "a frame with flags %02x %02x %02x", header[5], header[6],
                          header[7]);
    size_t size = get_u32(header + 12);
    if (size > kiln_frame_body_max(type))
        return KILN_ERROR(DATA_LOSS, "a frame of %zu bytes; the limit is %zu", size,
                          kiln_frame_body_max(type));
    *out_size = KILN_FRAME_HEADER_BYTES + size;
    return KILN_OK;
}

static kiln_frame frame_at(const void *at, size_t size) {
    const uint8_t *bytes = at;
    return (kiln_frame){
        .type = (kiln_message_type)bytes[4],
        .flags = bytes[5],
        .stream = get_u32(bytes + 8),
        .body = {(const char *)bytes + KILN_FRAME_HEADER_BYTES, size - KILN_FRAME_HEADER_BYTES},
    };
}

kiln_frame kiln_frame_of(kiln_str bytes) {
    KILN_CHECK(bytes.size >= KILN_FRAME_HEADER_BYTES);
    return frame_at(bytes.data, bytes.size);
}

/* Moves input into the partial frame until it has `up_to` bytes. True when it does. */
static bool take(kiln_frame_reader *reader, kiln_str *input, size_t up_to) {
    size_t size = KILN_MIN(input->size, up_to - reader->partial.size);
    kiln_strbuf_append(&reader->partial, input->data, size);
    *input = kiln_str_slice(*input, size, input->size);
    return reader->partial.size == up_to;
}

/* The usual case: the input has the whole frame, which need not be copied. */
static kiln_status read_whole(kiln_str *input, kiln_frame *out_frame, bool *out_ready) {
    size_t size = 0;
    kiln_status st = check_header((const uint8_t *)input->data, &size);
    if (st || input->size < size) return st;
    *out_frame = frame_at(input->data, size);
    *input = kiln_str_slice(*input, size, input->size);
    *out_ready = true;
    return KILN_OK;
}

static kiln_status read_partial(kiln_frame_reader *reader, kiln_str *input, kiln_frame *out_frame,
                                bool *out_ready) {
    if (reader->need == 0) {
        if (!take(reader, input, KILN_FRAME_HEADER_BYTES)) return KILN_OK;
        kiln_status st = check_header((const uint8_t *)reader->partial.data, &reader->need);
        if (st) return st;
    }
    if (!take(reader, input, reader->need)) return KILN_OK;
    *out_frame = frame_at(reader->partial.data, reader->need);
    *out_ready = true;
    return KILN_OK;
}

kiln_status kiln_frame_read(kiln_frame_reader *reader, kiln_str *input, kiln_frame *out_frame,
                            bool *out_ready) {
    *out_ready = false;
    if (reader->broken) return KILN_ERROR(DATA_LOSS, "the stream of frames is broken");
    if (reader->need && reader->partial.size == reader->need) { /* delivered by the last call */
        kiln_strbuf_reset(&reader->partial);
        reader->need = 0;
    }
    kiln_status st = KILN_OK;
    if (reader->partial.size == 0 && input->size >= KILN_FRAME_HEADER_BYTES)
        st = read_whole(input, out_frame, out_ready);
    if (!st && !*out_ready) st = read_partial(reader, input, out_frame, out_ready);
    reader->broken = st != KILN_OK;
    return st;
}

void kiln_frame_reader_deinit(kiln_frame_reader *reader) {
    kiln_strbuf_deinit(&reader->partial);
    *reader = (kiln_frame_reader){0};
}
