/* The protocol between a host and a microcontroller over a serial line. Used on both sides: by the
 * monitor in the microcontroller's flash (monitor.c; freestanding C) and by the device `line` of
 * the host (deploy/runtime/device_line.c).
 *
 * The host sends requests, the monitor answers them and sends nothing else. A frame, all numbers
 * little-endian:
 *
 *     u8 'K', u8 'l', u8 kind, u8 number, u32 body bytes, body, u32 CRC
 *
 * `kind`: a row of frames.def, with KILN_FRAME_ANSWER added in answers. `number`: of the request,
 * and the same of its answer. CRC: CRC-32 (IEEE 802.3) of everything from `kind` to the end of the
 * body. A damaged frame is dropped without an answer, and the receiver searches for the next 'K';
 * the host repeats the request, because every request may be done twice.
 *
 * While a kernel runs, any byte from the host ends it, so that the host can stop a kernel that
 * never returns. Addresses are those of the microcontroller. */
#ifndef KILN_DEPLOY_MONITOR_FRAMES_H
#define KILN_DEPLOY_MONITOR_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#define KILN_FRAME_VERSION 1u
#define KILN_FRAME_ANSWER 0x80u
#define KILN_FRAME_BODY_MAX 4160u /* KILN_FRAME_DATA_MAX and the words before it */
#define KILN_FRAME_DATA_MAX 4096u /* of a READ or WRITE */
#define KILN_FRAME_ARGS_MAX 64u   /* of a CALL */
#define KILN_FRAME_HEAD_BYTES 8u
#define KILN_FRAME_CRC_BYTES 4u
#define KILN_FRAME_TEXT_BYTES 96u

typedef enum kiln_frame_kind {
#define X(NAME, number, doc) KILN_FRAME_##NAME = number,
#include "deploy/monitor/frames.def"
#undef X
} kiln_frame_kind;

/* The first word of every answer. */
typedef enum kiln_frame_status {
    KILN_FRAME_OK,
    KILN_FRAME_REFUSED, /* an address outside of the memory for candidates, or a malformed body */
    KILN_FRAME_FAULT,   /* of CALL: the processor refused an instruction or an access */
    KILN_FRAME_STOPPED, /* of CALL: a byte came from the host */
} kiln_frame_status;

/* Bodies, without padding. */
typedef struct kiln_frame_hello_answer {
    uint32_t status, version;
    uint32_t memory_begin, memory_bytes; /* for code and data of candidates */
    uint32_t tick_hz;                    /* of the counter of CALL */
    char target[KILN_FRAME_TEXT_BYTES];  /* base/target.h, NUL-terminated */
    char board[KILN_FRAME_TEXT_BYTES];   /* its name, NUL-terminated */
} kiln_frame_hello_answer;

typedef struct kiln_frame_read {
    uint32_t address, size_bytes; /* at most KILN_FRAME_DATA_MAX; the answer: a status, the bytes */
} kiln_frame_read;

typedef struct kiln_frame_write {
    uint32_t address; /* the bytes follow */
} kiln_frame_write;

typedef struct kiln_frame_copy {
    uint32_t to, from, size_bytes; /* which do not overlap */
} kiln_frame_copy;

/* A kiln_kernel_entry (base/kernel_abi.h) with tensors over these addresses, no other threads, and
 * the scratch. */
typedef struct kiln_frame_call {
    uint32_t entry, scratch, arg_count;
    uint32_t arg[KILN_FRAME_ARGS_MAX]; /* [arg_count] are sent */
} kiln_frame_call;

typedef struct kiln_frame_call_answer {
    uint32_t status;
    int32_t result;                       /* of the entry */
    uint64_t ticks;                       /* that it took */
    uint32_t fault_status, fault_address; /* FAULT: CFSR, and the instruction's address */
} kiln_frame_call_answer;

typedef struct kiln_frame_find_answer {
    uint32_t status, address; /* of a service (kernel_services.def) by its name; 0: there is none */
} kiln_frame_find_answer;

/* A frame that is being received, from the first byte on. Zeroed is empty. */
typedef struct kiln_frame {
    uint32_t received; /* bytes so far, of the whole frame */
    uint8_t head[KILN_FRAME_HEAD_BYTES];
    uint8_t crc[KILN_FRAME_CRC_BYTES];
    uint8_t kind, number;
    uint32_t body_bytes;
    uint32_t body[KILN_FRAME_BODY_MAX / 4];
} kiln_frame;

typedef enum kiln_frame_event {
    KILN_FRAME_MORE,    /* the frame is not whole yet */
    KILN_FRAME_WHOLE,   /* kind, number and body are valid; the next byte begins a new frame */
    KILN_FRAME_DAMAGED, /* the bytes are dropped; the next byte begins a new frame */
} kiln_frame_event;

kiln_frame_event kiln_frame_take(kiln_frame *frame, uint8_t byte);

/* The two ends of a frame; a caller sends head, body, crc. */
typedef struct kiln_frame_ends {
    uint8_t head[KILN_FRAME_HEAD_BYTES], crc[KILN_FRAME_CRC_BYTES];
} kiln_frame_ends;
kiln_frame_ends kiln_frame_seal(uint8_t kind, uint8_t number, const void *first,
                                uint32_t first_bytes, const void *rest, uint32_t rest_bytes);

#endif
