/* Command lines of `kiln fleet` and `kiln jobs`: both are a table of actions on a tracker. */
#ifndef KILN_CLI_TRACKER_COMMAND_H
#define KILN_CLI_TRACKER_COMMAND_H

#include "cli/action.h"
#include "cli/common/tracker_call.h"

/* Options of `kiln fleet upgrade`. */
typedef struct kiln_upgrade_options {
    kiln_opt_list to, label;
    uint64_t canary, percent, wait_s;
    bool one_by_one, status, cancel, detach;
} kiln_upgrade_options;

typedef struct kiln_command_call {
    kiln_tracker_call tracker; /* `id`: NULL where the action wants none */
    const char *named;         /* what was given all the same, or by --key; NULL: nothing */
    const char *second;        /* the argument after that */
    const char **positional;   /* [count] arguments of the action */
    size_t count;
    kiln_upgrade_options upgrade;
    const char *why, *db;
    const char *duration; /* --for */
    uint64_t remove;      /* --remove; 0: not given */
    bool end;             /* --end */
    bool json, follow;
    kiln_opt_given_list given;
    bool waits; /* for kiln_waits_show */
} kiln_command_call;

typedef struct kiln_tracker_command {
    kiln_status (*run)(kiln_command_call *call); /* NULL: it is a request (cli/host.h) */
    bool admin;                                  /* changes what others use */
} kiln_tracker_command;

/* What `kiln fleet` or `kiln jobs` can do; the first row is what they do unasked. */
typedef struct kiln_tracker_commands {
    kiln_actions actions;
    const kiln_tracker_command *command; /* one for each action */
    bool takes_why, takes_db, takes_follow, takes_upgrade, takes_times;
} kiln_tracker_commands;

/* Parses the command line. `*out_command` is NULL where help was printed. */
KILN_MUST_USE kiln_status kiln_tracker_command_parse(const kiln_tracker_commands *commands,
                                                     kiln_arena *process, int argc, char **argv,
                                                     kiln_command_call *out_call,
                                                     const kiln_tracker_command **out_command);
/* Connects, and runs the command. */
KILN_MUST_USE kiln_status kiln_tracker_command_run(kiln_command_call *call,
                                                   const kiln_tracker_command *command);

/* Prints a row of the tracker's as an object of JSON. */
void kiln_print_record(kiln_record_type type, const void *row);

#endif
