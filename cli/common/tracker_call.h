/* What commands and requests ask a tracker for: rows in pages, and what changes. In use:
 *
 *     kiln_tracker_call call = {.client_options = ..., .process = process, .id = id};
 *     st = kiln_tracker_call_open(&call);
 *     if (!st) st = kiln_tracker_ask_pages(&call, KILN_TOPIC_JOBS, take, context);
 *     kiln_tracker_call_close(&call); */
#ifndef KILN_CLI_COMMON_TRACKER_CALL_H
#define KILN_CLI_COMMON_TRACKER_CALL_H

#include "cli/common/client.h"

/* What is told to who watches; the rows last until it returns. */
typedef void (*kiln_tracker_change)(void *context, const kiln_msg_change *change);

typedef struct kiln_tracker_call {
    kiln_client_options client_options; /* `message` and its context are the call's own */
    kiln_client *client;
    kiln_arena *process;
    const char *id; /* of the job or board that is asked for; NULL: none */
    /* While something is watched. */
    kiln_topic topic;
    kiln_tracker_change change;
    void *context;
    /* Answers that come one by one on `stream`, and NULL after another connection was made. */
    void (*heard)(void *context, const kiln_message *message);
    uint32_t stream;
    kiln_status failure; /* why the tracker tells no more */
    bool stopped;        /* by SIGINT */
} kiln_tracker_call;

/* Connects. Errors of kiln_client_open. */
KILN_MUST_USE kiln_status kiln_tracker_call_open(kiln_tracker_call *call);
/* Also of one that is not open. */
void kiln_tracker_call_close(kiln_tracker_call *call);

/* Asks page after page, and hands on each; it lasts until `take` returns. */
typedef void (*kiln_page_taker)(void *context, const kiln_msg_answer *answer);
KILN_MUST_USE kiln_status kiln_tracker_ask_pages(kiln_tracker_call *call, kiln_topic topic,
                                                 kiln_page_taker take, void *context);

/* Asks about projects. UNIMPLEMENTED: the tracker does not know them; DATA_LOSS: another answer. */
KILN_MUST_USE kiln_status kiln_projects_ask(kiln_client *client, const kiln_message *question,
                                            kiln_arena *process, kiln_message *out_answer);
/* Lists those that this person may see, page after page; each lasts until `take` returns. */
typedef void (*kiln_projects_taker)(void *context, const kiln_msg_projects *page);
KILN_MUST_USE kiln_status kiln_projects_list(kiln_client *client, kiln_arena *process,
                                             kiln_projects_taker take, void *context);

/* Makes `id` whole, of which a person may have typed the beginning: that of a board
 * (KILN_TOPIC_BOARD) or of a job (KILN_TOPIC_JOB). Another board's name stays as it is. Errors of
 * kiln_identity_found. */
KILN_MUST_USE kiln_status kiln_tracker_complete_id(kiln_tracker_call *call, kiln_topic topic);

/* Has the tracker tell what changes, all rows first, from now on while kiln_tracker_watch_on waits;
 * also when it was away meanwhile. False: it speaks a version that does not know that. */
bool kiln_tracker_watch(kiln_tracker_call *call, kiln_topic topic, kiln_tracker_change change,
                        void *context);
/* Waits for at most `wait_ns`, or until a change or SIGINT (which sets `stopped`). */
KILN_MUST_USE kiln_status kiln_tracker_watch_on(kiln_tracker_call *call, uint64_t wait_ns);

/* The same for what is no watch: `stream` is a new one, `heard` is told. SIGINT sets `stopped`. */
void kiln_tracker_listen(kiln_tracker_call *call,
                         void (*heard)(void *context, const kiln_message *message), void *context);

#endif
