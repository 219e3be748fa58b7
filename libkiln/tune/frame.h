/* What a host of the library and the worker that serves its request say to each other, on a stream:
 * the host one request, and from then on a byte for each kiln_request_cancel; the worker events, of
 * which the last is KILN_FRAME_END. A frame is the size of its body in four bytes of the machine's
 * order, then the body. */
#ifndef KILN_LIBKILN_TUNE_FRAME_H
#define KILN_LIBKILN_TUNE_FRAME_H

#include "base/status.h"
#include "base/str.h"
#include "libkiln/tune/tune.h"

#define KILN_FRAME_BYTES_MAX ((size_t)1 << 30) /* the text of a large model is hundreds of MB */
#define KILN_FRAME_TASKS_MAX 65536u
#define KILN_FRAME_SETTINGS_MAX 1024u
#define KILN_FRAME_HEAD sizeof(uint32_t)
#define KILN_WORKER_ARGUMENT "--worker" /* of `kiln`, which is then a worker */

typedef struct kiln_frame_request {
    const char *version; /* of the host: the worker's own must be the same */
    uint32_t what;
    const char *subject; /* "": none */
    uint32_t setting_count;
    kiln_request_setting *setting; /* values are NULL where there is none */
} kiln_frame_request;

#define KILN_FRAME_END 0u /* a further kind of event */

typedef struct kiln_frame_fault {
    const char *key, *text;
} kiln_frame_fault;

typedef struct kiln_frame_event {
    uint32_t kind;
    uint32_t code; /* of KILN_FRAME_END: kiln_code */
    const char *text, *job;
    /* Of KILN_REQUEST_PROGRESS: what changed. `fault` of a task is not said here. */
    uint32_t kernel_count;
    double elapsed_s;
    uint32_t task_count, fault_count;
    kiln_request_task *task;
    kiln_frame_fault *fault;
} kiln_frame_event;

/* Append a frame. Texts that are NULL are said as empty ones; a setting's value as none.
 * INVALID_ARGUMENT: the request is too long for one; RESOURCE_EXHAUSTED: there is no memory for it.
 * The worker, which says events, has it or ends (docs/decisions/0002). */
KILN_MUST_USE kiln_status kiln_frame_write_request(const kiln_frame_request *request,
                                                   kiln_strbuf *out);
void kiln_frame_write_event(const kiln_frame_event *event, kiln_strbuf *out);

/* Size of the body by the head of a frame. DATA_LOSS: no such frame is written. */
KILN_MUST_USE kiln_status kiln_frame_size(const void *head, size_t *out_size);
/* Read a body. Texts are its bytes and live as long; arrays until the deinit. DATA_LOSS: it is
 * none; RESOURCE_EXHAUSTED: there is no memory for the arrays. */
KILN_MUST_USE kiln_status kiln_frame_read_request(kiln_str body, kiln_frame_request *out_request);
KILN_MUST_USE kiln_status kiln_frame_read_event(kiln_str body, kiln_frame_event *out_event);
/* Accept zeroed ones. */
void kiln_frame_request_deinit(kiln_frame_request *request);
void kiln_frame_event_deinit(kiln_frame_event *event);

#endif
