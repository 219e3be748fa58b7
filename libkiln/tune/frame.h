/* The protocol between a host of the library and the worker that serves its request, on a stream:
 * the host sends one request, then a byte for each kiln_request_cancel; the worker sends events,
 * the last of which is KILN_FRAME_END. A frame is the size of its body in four bytes of the
 * machine's order, then the body. */
#ifndef KILN_LIBKILN_TUNE_FRAME_H
#define KILN_LIBKILN_TUNE_FRAME_H

#include "base/status.h"
#include "base/str.h"
#include "libkiln/tune/tune.h"

/* Texts, settings and progress. Models and modules never go this way: a request names files. */
#define KILN_FRAME_BYTES_MAX ((size_t)1 << 30)
#define KILN_FRAME_TASKS_MAX 65536u
#define KILN_FRAME_SETTINGS_MAX 1024u
#define KILN_FRAME_HEAD sizeof(uint32_t)
#define KILN_WORKER_ARGUMENT "--worker" /* argument that makes `kiln` a worker */

typedef struct kiln_frame_request {
    const char *version; /* of the host; the worker must have the same */
    uint32_t what;
    const char *subject; /* "": none */
    uint32_t setting_count;
    kiln_request_setting *setting; /* values may be NULL */
} kiln_frame_request;

#define KILN_FRAME_END 0u /* a further kind of event */

typedef struct kiln_frame_fault {
    const char *key, *text;
} kiln_frame_fault;

typedef struct kiln_frame_event {
    uint32_t kind;
    uint32_t code; /* of KILN_FRAME_END: kiln_code */
    const char *text, *job;
    /* Of KILN_REQUEST_PROGRESS: the changes. `fault` of a task is not sent. */
    uint32_t kernel_count;
    double elapsed_s;
    uint32_t task_count, fault_count;
    kiln_request_task *task;
    kiln_frame_fault *fault;
} kiln_frame_event;

/* Append a frame. A NULL text is sent as an empty one; a setting's NULL value as none.
 * INVALID_ARGUMENT: the request is too long for a frame; RESOURCE_EXHAUSTED: not enough memory. An
 * event that is too long for a frame becomes a KILN_FRAME_END that says so (RESOURCE_EXHAUSTED). A
 * worker without memory for an event ends (docs/decisions/0002). */
KILN_MUST_USE kiln_status kiln_frame_write_request(const kiln_frame_request *request,
                                                   kiln_strbuf *out);
void kiln_frame_write_event(const kiln_frame_event *event, kiln_strbuf *out);

/* Size of the body from the head of a frame. DATA_LOSS: not a valid head. */
KILN_MUST_USE kiln_status kiln_frame_size(const void *head, size_t *out_size);
/* Read a body. Texts are views of it; arrays live until the deinit. DATA_LOSS: not a valid body;
 * RESOURCE_EXHAUSTED: not enough memory for the arrays. */
KILN_MUST_USE kiln_status kiln_frame_read_request(kiln_str body, kiln_frame_request *out_request);
KILN_MUST_USE kiln_status kiln_frame_read_event(kiln_str body, kiln_frame_event *out_event);
/* Accept zeroed ones. */
void kiln_frame_request_deinit(kiln_frame_request *request);
void kiln_frame_event_deinit(kiln_frame_event *event);

#endif
