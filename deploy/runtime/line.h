/* A serial line to a microcontroller whose monitor answers frames (deploy/monitor/frames.h): a
 * terminal device, or a Unix socket of an emulator. Private to device_line.c. Only opening
 * allocates. */
#ifndef KILN_DEPLOY_LINE_H
#define KILN_DEPLOY_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "deploy/monitor/frames.h"

#define KILN_LINE_FOREVER UINT64_MAX

typedef struct kiln_line kiln_line;

/* `baud`: of terminals, in bits per second.
 *
 * UNAVAILABLE       the path cannot be opened
 * INVALID_ARGUMENT  the path is neither, or has no such rate */
KILN_MUST_USE kiln_status kiln_line_open(const char *path, uint64_t baud, kiln_line **out_line);
void kiln_line_close(kiln_line *line); /* accepts NULL */

typedef struct kiln_line_request {
    kiln_frame_kind kind;
    const void *first, *rest; /* the body, in two parts */
    uint32_t first_bytes, rest_bytes;
    uint64_t deadline_ns; /* of one attempt; KILN_LINE_FOREVER: wait for the first byte for ever */
} kiln_line_request;

/* Sends a request and waits for the answer, whose body of at least `least_bytes` is valid until the
 * next request. Repeats the request if the answer is cut off, damaged or late; skips noise. NULL:
 * no valid answer after several attempts, see kiln_line_error; the line must not be used any
 * more. */
const void *kiln_line_ask(kiln_line *line, const kiln_line_request *request, uint32_t least_bytes);
/* Bytes of the last answer's body. */
uint32_t kiln_line_answer_bytes(const kiln_line *line);
/* NULL: none yet. */
const char *kiln_line_error(const kiln_line *line);

#endif
