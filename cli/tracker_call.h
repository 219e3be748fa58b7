/* A call of `kiln fleet`, or what serves `kiln jobs`: both are a table of actions on a tracker. */
#ifndef KILN_CLI_TRACKER_CALL_H
#define KILN_CLI_TRACKER_CALL_H

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/events.h"

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
    kiln_opt_given_list given;
    bool waits;          /* for kiln_waits_show */
    kiln_events *events; /* of a request; NULL: this is a command, which prints */
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

/* Parses the command line. `*out_action` is NULL where help was printed. */
KILN_MUST_USE kiln_status kiln_tracker_call_parse(const kiln_tracker_commands *actions,
                                                  kiln_arena *process, int argc, char **argv,
                                                  kiln_tracker_call *out_call,
                                                  const kiln_tracker_command **out_action);
/* Connects, and runs the action. */
KILN_MUST_USE kiln_status kiln_tracker_call_run(kiln_tracker_call *call,
                                                const kiln_tracker_command *action);

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

/* Asks page after page, and hands on each. */
typedef void (*kiln_page_taker)(kiln_tracker_call *call, const kiln_msg_answer *answer);
KILN_MUST_USE kiln_status kiln_tracker_ask_pages(kiln_tracker_call *call, kiln_topic topic,
                                                 kiln_page_taker take);
void kiln_print_record(kiln_record_type type, const void *row);

#endif
