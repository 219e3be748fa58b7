/* A call of `kiln fleet` or `kiln jobs`: what both do is a table of actions on a tracker. */
#ifndef KILN_CLI_TRACKER_CALL_H
#define KILN_CLI_TRACKER_CALL_H

#include "cli/cli.h"
#include "cli/client.h"

/* What is told to who watches; the rows last until it returns. */
typedef void (*kiln_tracker_change)(void *context, const kiln_msg_change *change);

typedef struct kiln_tracker_call {
    kiln_client_options client_options;
    kiln_client *client;
    kiln_arena *process;
    const char *id;    /* NULL: it wants none */
    const char *named; /* what was given all the same, or by --key; NULL: nothing */
    const char *why, *db;
    bool json, follow;
    /* While something is watched. */
    kiln_topic topic;
    kiln_tracker_change change;
    void *context;
    /* Answers that come one by one on `stream`, and NULL after another connection was made. */
    void (*heard)(struct kiln_tracker_call *call, const kiln_message *message);
    uint32_t stream;
    kiln_status failure; /* why the tracker tells no more */
    bool stopped;        /* by Ctrl-C */
} kiln_tracker_call;

typedef struct kiln_tracker_command {
    const char *name;
    bool wants_id;
    kiln_status (*run)(kiln_tracker_call *call);
    bool admin; /* changes what others use */
} kiln_tracker_command;

/* What `kiln fleet` or `kiln jobs` can do; the first row is what they do unasked. */
typedef struct kiln_tracker_commands {
    const char *command, *usage, *summary;
    const kiln_tracker_command *action;
    size_t count;
    bool takes_why, takes_db, takes_follow;
} kiln_tracker_commands;

/* Parses the command line, connects, runs the action. */
KILN_MUST_USE kiln_status kiln_tracker_call_run(const kiln_tracker_commands *actions,
                                                kiln_arena *process, int argc, char **argv);

/* Has the tracker tell what changes, all rows first, from now on while kiln_tracker_watch_on waits;
 * also when it was away meanwhile. False: it speaks a version that does not know that. */
bool kiln_tracker_watch(kiln_tracker_call *call, kiln_topic topic, kiln_tracker_change change,
                        void *context);
/* Waits for at most `wait_ns`, or until a change or Ctrl-C (which sets `stopped`). */
KILN_MUST_USE kiln_status kiln_tracker_watch_on(kiln_tracker_call *call, uint64_t wait_ns);

/* The same for what is no watch: `stream` is a new one, `heard` is told. Ctrl-C sets `stopped`. */
void kiln_tracker_listen(kiln_tracker_call *call,
                         void (*heard)(kiln_tracker_call *call, const kiln_message *message),
                         void *context);

/* Asks page after page; `page` prints one. */
typedef void (*kiln_page_printer)(const kiln_msg_answer *answer, bool json);
KILN_MUST_USE kiln_status kiln_tracker_ask_pages(kiln_tracker_call *call, kiln_topic topic,
                                                 kiln_page_printer page);
/* A page of which nothing is shown: whether there is an answer is all that is asked. */
void kiln_print_nothing(const kiln_msg_answer *answer, bool json);
void kiln_print_record(kiln_record_type type, const void *row);

#endif
