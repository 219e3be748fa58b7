/* Worker processes: each serves one request of libkiln (libkiln/tune/tune.h), which parses models,
 * replays traces, compiles and tunes, so that the server does none of it. A bounded number runs;
 * the others wait in the order in which they came. Everything here runs on the loop's thread; what
 * may block (starting a program, reading its events, waiting for its end) runs on the pool. */
#ifndef KILN_WEB_WORKERS_H
#define KILN_WEB_WORKERS_H

#include "base/status.h"
#include "base/str.h"
#include "libkiln/tune/tune.h"
#include "proto/loop.h"
#include "web/web.h"

#define KILN_WORKERS_QUEUED_MAX 1024u
#define KILN_WORKERS_EVENTS_BYTES_MAX ((size_t)64 << 20) /* of one worker, not handed over yet */

typedef struct kiln_worker kiln_worker;

/* Which ones take a place together. */
typedef enum kiln_worker_kind {
    KILN_WORKER_SHORT, /* computes here, for seconds */
    KILN_WORKER_TUNE,  /* waits for the fleet, for minutes or hours */
    KILN_WORKER_KINDS
} kiln_worker_kind;

typedef struct kiln_workers_options {
    uint32_t running_max[KILN_WORKER_KINDS];
    const char *programs; /* folder of the program kiln; NULL: as kiln_request_options has it */
} kiln_workers_options;

kiln_workers *kiln_workers_create(kiln_loop *loop, const kiln_workers_options *options);
/* Ends all of them at once; nobody is told any more. Before the loop is destroyed. NULL is fine. */
void kiln_workers_destroy(kiln_workers *workers);

/* Settings of an order while they are collected. */
#define KILN_WORKER_SETTINGS_MAX 48u
typedef struct kiln_worker_settings {
    kiln_request_setting item[KILN_WORKER_SETTINGS_MAX];
    uint32_t count;
} kiln_worker_settings;
/* Keeps the pointers. `value` NULL: it has none. */
void kiln_worker_set(kiln_worker_settings *settings, const char *name, const char *value);

typedef struct kiln_worker_order {
    kiln_worker_kind kind;
    uint32_t what; /* KILN_REQUEST_TUNE, ... */
    const char *subject;
    const kiln_request_setting *setting; /* copied, as the subject is */
    uint32_t setting_count;
    /* It is no longer in the queue. May be NULL. */
    void (*started)(void *context);
    /* An event, valid until it returns. May be NULL. */
    void (*heard)(void *context, uint32_t kind, kiln_str text);
    /* Called once, never from inside kiln_workers_start: how it ended. `st` is owned; CANCELLED
     * after kiln_worker_cancel; else the code and the text of the request. The worker is freed
     * next. Required. */
    void (*ended)(void *context, kiln_status st);
    void *context;
} kiln_worker_order;

/* RESOURCE_EXHAUSTED: too many wait already. */
KILN_MUST_USE kiln_status kiln_workers_start(kiln_workers *workers, const kiln_worker_order *order,
                                             kiln_worker **out_worker);
/* Texts of errors name files of this machine, which are no business of others: the same error with
 * `instead` in every place of `path`. */
KILN_MUST_USE kiln_status kiln_status_hide_path(kiln_status st, const char *path,
                                                const char *instead);
/* It ends soon, and `ended` is called. One that waits never starts. A second call ends it at once.
 */
void kiln_worker_cancel(kiln_worker *worker);
/* Those in front of it; 0: it runs, or is next. */
uint32_t kiln_worker_position(const kiln_worker *worker);
/* Identity of the job at the tracker, once it has one; "" before. */
const char *kiln_worker_job(const kiln_worker *worker);

#endif
