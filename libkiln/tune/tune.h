/* INSTALLED. Tuning and compiling models, and the jobs of fleets.
 *
 * Each request is served by the program `kiln` in a process of its own, which the library starts
 * (never by a bare fork) and hears. Nothing of a compiler is loaded into this process, and nothing
 * of it is changed: no signal handler, no thread, no processor that it leaves. A request ends with
 * the process that started it. In use:
 *
 *     kiln_request_setting settings[] = {{"trials", "64"}, {"out", "m.kiln"}, {0}};
 *     kiln_request_options options = {sizeof options, KILN_REQUEST_TUNE, "m.onnx", settings};
 *     code = kiln_request_start(&options, &request, error, sizeof error);
 *     while (!code && !ended)
 *         code = kiln_request_wait(request, -1, &ended, error, sizeof error);
 *     kiln_request_free(request);
 *
 * Functions that can fail return 0 or a code and leave text in `error` when it is not NULL, as
 * those of modules do: a line, and perhaps further ones, which begin with two spaces. Where this
 * process has no memory, that is RESOURCE_EXHAUSTED (8). A handle is used by one thread at a time,
 * except for kiln_request_cancel; several of them by several threads at once. */
#ifndef KILN_LIBKILN_TUNE_TUNE_H
#define KILN_LIBKILN_TUNE_TUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_request kiln_request;

/* What is asked for, and of which subject. */
enum {
    KILN_REQUEST_TUNE = 1,    /* the path of a model; settings as `kiln tune --help` has them */
    KILN_REQUEST_COMPILE = 2, /* the path of a model; as `kiln compile --help` has them */
    /* Of the fleet that the setting `tracker` names; as `kiln jobs --help` has them. */
    KILN_REQUEST_JOBS = 3,   /* NULL: a result for each job */
    KILN_REQUEST_JOB = 4,    /* a job's identity: its result, with its tasks */
    KILN_REQUEST_CANCEL = 5, /* a job's identity: ends it */
    KILN_REQUEST_WATCH = 6,  /* a job's identity: its progress until it ends */
    KILN_REQUEST_ATTACH = 7  /* the same, and its records come into the database `db` */
};

/* An option of the command, without "--": {"trials", "64"}; of those without a value {"exact",
 * NULL}; again for each of several values. */
typedef struct kiln_request_setting {
    const char *name, *value;
} kiln_request_setting;

enum {
    KILN_REQUEST_PROGRESS = 1, /* tasks changed (kiln_request_task) */
    KILN_REQUEST_TEXT = 2,     /* a line for people */
    KILN_REQUEST_WAITING = 3,  /* what it waits for, again and again; "": it goes on */
    KILN_REQUEST_RESULT = 4    /* something that was asked for: a module, a row, the summary */
};

typedef struct kiln_request_event {
    uint32_t kind;
    const char *text; /* UTF-8; of PROGRESS and RESULT the object of JSON that the command prints
                         with --json */
} kiln_request_event;

typedef struct kiln_request_options {
    size_t struct_bytes; /* sizeof(kiln_request_options): later versions have more members behind */
    uint32_t what;
    const char *subject;
    const kiln_request_setting *settings; /* the last one has no name; NULL: none */
    /* Called by kiln_request_wait; an event lasts until it returns. It does not wait for or free
     * the request. May be NULL. */
    void (*heard)(void *context, kiln_request *request, const kiln_request_event *event);
    void *context;
    const char *programs; /* folder of `kiln`; NULL: $KILN_BIN, the library's own installation,
                             then $PATH */
    /* 1: what the program itself logs goes to this process's standard error; 0: the end of it, up
     * to 2 KB, becomes the text of an error, where it dies. */
    uint32_t shares_stderr;
} kiln_request_options;

/* Starts it. INVALID_ARGUMENT (3): no such request; NOT_FOUND (5): no program `kiln`, the text says
 * where it was looked for; RESOURCE_EXHAUSTED (8): no process can be had. */
int kiln_request_start(const kiln_request_options *options, kiln_request **out_request, char *error,
                       size_t error_bytes);
/* Hears what there is, waits for at most `timeout_ms` (below 0: for ever) where that is nothing.
 * `*out_ended` is 1 once it was served, or failed: then the result is that of the request, again
 * each time. CANCELLED (1): kiln_request_cancel; what was measured is stored. INTERNAL (2): the
 * program died; else the code and text that the command ends with. Has to be called every few
 * seconds, or the request stands still. */
int kiln_request_wait(kiln_request *request, int timeout_ms, int *out_ended, char *error,
                      size_t error_bytes);
/* Readable when there is something for kiln_request_wait; the library's own. */
int kiln_request_descriptor(const kiln_request *request);
/* Asks for the end; once more: at once, and what was measured may stay with the fleet. From any
 * thread, also while another one waits. */
void kiln_request_cancel(kiln_request *request);
/* Ends it at once if it goes on. Accepts NULL. */
void kiln_request_free(kiln_request *request);

/* ---- how far it is --------------------------------------------------------------------------- */

/* A kernel of the model that is tuned. Strings are never NULL; later versions have more members
 * behind. */
typedef struct kiln_request_task {
    const char *key;
    const char *label;              /* for people: operators, and the extents of the largest */
    const char *fault;              /* why nothing of it can be measured; "": it can */
    uint32_t weight;                /* calls per inference; 0: may stand in place of others */
    uint32_t planned, done, failed; /* measurements; `failed` of `done` */
    double best_ns, default_ns;     /* fastest so far, and of the default schedule; 0: none */
    double gain_low; /* lower end of the 95 % interval of the default's time over the best's, once
                        both ran in turns; 0: not yet */
    double flops;    /* floating operations of one run */
} kiln_request_task;

/* Identity of the job at its tracker, by which other requests name it; "" before it has one. Lives
 * until the next call of kiln_request_wait. */
const char *kiln_request_job(const kiln_request *request);
/* As of the last PROGRESS; pointers live until the next call of kiln_request_wait. */
uint32_t kiln_request_task_count(const kiln_request *request);
const kiln_request_task *kiln_request_task_at(const kiln_request *request, uint32_t index);
/* How many tasks of a weight above 0 the model has; 0: not known yet. */
uint32_t kiln_request_kernel_count(const kiln_request *request);
/* Since the measuring began. */
double kiln_request_elapsed_s(const kiln_request *request);

#ifdef __cplusplus
}
#endif

#endif
