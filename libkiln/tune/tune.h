/* INSTALLED. Tuning and compiling models, and the jobs of fleets.
 *
 * Each request is served by the program `kiln` in its own process, which the library starts (never
 * by a bare fork) and listens to. No compiler is loaded into this process, and the process is not
 * changed: no signal handler, no thread, no change of its processors. A request ends with the
 * process that started it. Example:
 *
 *     kiln_request_setting settings[] = {{"trials", "64"}, {"out", "m.kiln"}, {0}};
 *     kiln_request_options options = {sizeof options, KILN_REQUEST_TUNE, "m.onnx", settings};
 *     code = kiln_request_start(&options, &request, error, sizeof error);
 *     while (!code && !ended)
 *         code = kiln_request_wait(request, -1, &ended, error, sizeof error);
 *     kiln_request_free(request);
 *
 * Functions that can fail return 0 or a code and leave text in `error` when it is not NULL, like
 * those of modules: a line, possibly followed by others that begin with two spaces.
 * RESOURCE_EXHAUSTED (8): this process has no memory. A handle is used by one thread at a time,
 * except for kiln_request_cancel; different handles may be used by different threads at once. */
#ifndef KILN_LIBKILN_TUNE_TUNE_H
#define KILN_LIBKILN_TUNE_TUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_request kiln_request;

/* Kinds of requests, and their subject. */
enum {
    KILN_REQUEST_TUNE = 1,    /* the path of a model; settings as in `kiln tune --help` */
    KILN_REQUEST_COMPILE = 2, /* the path of a model; as in `kiln compile --help` */
    /* On the fleet that the setting `tracker` names; settings as in `kiln jobs --help`. */
    KILN_REQUEST_JOBS = 3,   /* NULL: a result for each job */
    KILN_REQUEST_JOB = 4,    /* a job's identity: its result, with its tasks */
    KILN_REQUEST_CANCEL = 5, /* a job's identity: ends it */
    KILN_REQUEST_WATCH = 6,  /* a job's identity: its progress until it ends */
    KILN_REQUEST_ATTACH = 7, /* the same, and imports its records into the database `db` */
    /* On the database of records that the setting `db` names. */
    KILN_REQUEST_EXPLAIN = 8,   /* a trial's identity: a result {"event": "explain", "trial",
                                   "stage", "codegen_version", "text"} for each of `stage`, some of
                                   trace,words,loops,asm */
    KILN_REQUEST_COST_MODEL = 9 /* a target: a result {"event": "cost model", ...}, how a learned
                                   cost model ranks trials that it has not seen, and which features
                                   matter; with `task` also {"event": "trials", ...} over these */
};

/* An option of the command, without "--": {"trials", "64"}; {"exact", NULL} if it has no value;
 * repeated for each of several values. */
typedef struct kiln_request_setting {
    const char *name, *value;
} kiln_request_setting;

enum {
    KILN_REQUEST_PROGRESS = 1, /* tasks changed (kiln_request_task) */
    KILN_REQUEST_TEXT = 2,     /* a line for people */
    KILN_REQUEST_WAITING = 3,  /* what the request waits for, repeated; "": it continues */
    KILN_REQUEST_RESULT = 4    /* a result: a module, a row, the summary */
};

typedef struct kiln_request_event {
    uint32_t kind;
    const char *text; /* UTF-8; for PROGRESS and RESULT the JSON object that the command prints with
                       * --json */
} kiln_request_event;

typedef struct kiln_request_options {
    size_t struct_bytes; /* sizeof(kiln_request_options): later versions append members */
    uint32_t what;
    const char *subject;
    const kiln_request_setting *settings; /* the last one has no name; NULL: none */
    /* Called by kiln_request_wait; an event is valid until it returns. It must not wait for or free
     * the request. May be NULL. */
    void (*heard)(void *context, kiln_request *request, const kiln_request_event *event);
    void *context;
    const char *programs; /* folder of `kiln`; NULL: $KILN_BIN, the library's own installation,
                             then $PATH */
    /* 1: the program logs to this process's standard error; 0: the end of its log, up to 2 KB,
     * becomes the text of the error when it dies. */
    uint32_t shares_stderr;
} kiln_request_options;

/* Starts a request. INVALID_ARGUMENT (3): no such request; NOT_FOUND (5): no program `kiln`, the
 * text lists the places searched; RESOURCE_EXHAUSTED (8): no process can be started. */
int kiln_request_start(const kiln_request_options *options, kiln_request **out_request, char *error,
                       size_t error_bytes);
/* Handles pending events, or waits for one, for at most `timeout_ms` (below 0: for ever).
 * `*out_ended` is 1 once the request succeeded or failed: then this and each later call returns its
 * result. CANCELLED (1): kiln_request_cancel; measurements are stored. INTERNAL (2): the program
 * died; else the code and text of the command. Call it every few seconds, because the request
 * stalls otherwise. */
int kiln_request_wait(kiln_request *request, int timeout_ms, int *out_ended, char *error,
                      size_t error_bytes);
/* A descriptor that is readable when kiln_request_wait has events; it belongs to the library. */
int kiln_request_descriptor(const kiln_request *request);
/* Asks the request to end; a second call ends it at once, and measurements may stay with the fleet.
 * From any thread, also while another one waits. */
void kiln_request_cancel(kiln_request *request);
/* Ends the request at once if it is running. Accepts NULL. */
void kiln_request_free(kiln_request *request);

/* ---- progress --------------------------------------------------------------------------- */

/* A kernel of the tuned model. Strings are never NULL; later versions append members. */
typedef struct kiln_request_task {
    const char *key;
    const char *label;              /* for people: operators, and the extents of the largest */
    const char *fault;              /* why it cannot be measured; "": it can */
    uint32_t weight;                /* calls per inference; 0: may replace others */
    uint32_t planned, done, failed; /* measurements; `failed` of `done` */
    double best_ns, default_ns;     /* fastest so far, and of the default schedule; 0: none */
    double gain_low; /* lower end of the 95 % interval of the default's time over the best's, once
                      * both ran alternately; 0: not yet */
    double flops;    /* floating operations of one run */
} kiln_request_task;

/* Identity of the job at its tracker, for other requests; "" before it has one. Valid until the
 * next call of kiln_request_wait. */
const char *kiln_request_job(const kiln_request *request);
/* The state of the last PROGRESS; pointers are valid until the next call of kiln_request_wait. */
uint32_t kiln_request_task_count(const kiln_request *request);
const kiln_request_task *kiln_request_task_at(const kiln_request *request, uint32_t index);
/* Number of tasks with a weight above 0; 0: not known yet. */
uint32_t kiln_request_kernel_count(const kiln_request *request);
/* Time since the first measurement. */
double kiln_request_elapsed_s(const kiln_request *request);

#ifdef __cplusplus
}
#endif

#endif
