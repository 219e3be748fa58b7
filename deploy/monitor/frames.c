#include "deploy/monitor/frames.h"

#define MAGIC_0 'K'
#define MAGIC_1 'l'
#define CRC_POLYNOMIAL 0xedb88320u /* IEEE 802.3, bits reversed */

static uint32_t get_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u32(uint8_t *at, uint32_t value) {
    for (uint32_t i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t crc_of(uint32_t crc, const void *data, uint32_t size) {
    static const uint32_t by_nibble[16] = {
#define B(c) ((c) >> 1 ^ ((c) & 1 ? CRC_POLYNOMIAL : 0))
#define N(i) B(B(B(B((uint32_t)(i)))))
        N(0), N(1), N(2),  N(3),  N(4),  N(5),  N(6),  N(7),
        N(8), N(9), N(10), N(11), N(12), N(13), N(14), N(15),
#undef N
#undef B
    };
    const uint8_t *at = data;
    for (uint32_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ by_nibble[crc & 15];
        crc = crc >> 4 ^ by_nibble[crc & 15];
    }
    return crc;
}

kiln_frame_ends kiln_frame_seal(uint8_t kind, uint8_t number, const void *first,
                                uint32_t first_bytes, const void *rest, uint32_t rest_bytes) {
    kiln_frame_ends ends = {.head = {MAGIC_0, MAGIC_1, kind, number}};
    put_u32(ends.head + 4, first_bytes + rest_bytes);
    uint32_t crc = crc_of(UINT32_MAX, ends.head + 2, KILN_FRAME_HEAD_BYTES - 2);
    crc = crc_of(crc, first, first_bytes);
    put_u32(ends.crc, ~crc_of(crc, rest, rest_bytes));
    return ends;
}

/* The next byte begins a new frame. */
static kiln_frame_event end(kiln_frame *frame, kiln_frame_event event) {
    frame->received = 0;
    return event;
}

static kiln_frame_event take_head(kiln_frame *frame, uint8_t byte) {
    if (frame->received == 1 && byte != MAGIC_1) frame->received = 0; /* noise */
    if (frame->received == 0 && byte != MAGIC_0) return KILN_FRAME_MORE;
    frame->head[frame->received++] = byte;
    if (frame->received < KILN_FRAME_HEAD_BYTES) return KILN_FRAME_MORE;
    frame->kind = frame->head[2];
    frame->number = frame->head[3];
    frame->body_bytes = get_u32(frame->head + 4);
    return frame->body_bytes <= KILN_FRAME_BODY_MAX ? KILN_FRAME_MORE
                                                    : end(frame, KILN_FRAME_DAMAGED);
}

kiln_frame_event kiln_frame_take(kiln_frame *frame, uint8_t byte) {
    if (frame->received < KILN_FRAME_HEAD_BYTES) return take_head(frame, byte);
    const uint32_t at = frame->received++ - KILN_FRAME_HEAD_BYTES;
    if (at < frame->body_bytes) {
        ((uint8_t *)frame->body)[at] = byte;
        return KILN_FRAME_MORE;
    }
    frame->crc[at - frame->body_bytes] = byte;
    if (at + 1 < frame->body_bytes + KILN_FRAME_CRC_BYTES) return KILN_FRAME_MORE;
    uint32_t crc = crc_of(UINT32_MAX, frame->head + 2, KILN_FRAME_HEAD_BYTES - 2);
    crc = ~crc_of(crc, frame->body, frame->body_bytes);
    return end(frame, crc == get_u32(frame->crc) ? KILN_FRAME_WHOLE : KILN_FRAME_DAMAGED);
}
