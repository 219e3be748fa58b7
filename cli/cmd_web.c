/* kiln web: starts kiln-web for this user, which prints a link to the dashboard. Where no tracker
 * is named and none of this user's listens here, it starts a fleet of this machine as well. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "cli/common/client.h"
#include "cli/worker/private_fleet.h"

#define ARGUMENTS_MAX 16

typedef struct web_options {
    const char *tracker, *key_file, *listen, *db;
    bool insecure;
} web_options;

typedef struct command_line {
    const char *word[ARGUMENTS_MAX];
    size_t count;
} command_line;

static void add(command_line *line, const char *name, const char *value) {
    if (!value) return;
    line->word[line->count++] = name;
    line->word[line->count++] = value;
}

/* What the server is started with; `tracker` NULL: it finds this user's. */
static kiln_status fill(const web_options *o, const char *tracker, kiln_arena *process,
                        command_line *out) {
    char *program = NULL;
    kiln_status st = kiln_proc_sibling("kiln-web", process, &program);
    if (st) return st;
    out->word[out->count++] = program;
    out->word[out->count++] = "--link";
    add(out, "--log-level", "warn");
    add(out, "--listen", o->listen);
    add(out, "--tracker", tracker);
    add(out, "--key-file", o->key_file);
    add(out, "--db", o->db);
    if (o->insecure) out->word[out->count++] = "--insecure";
    return KILN_OK;
}

/* This process becomes the server, so that Ctrl-C and the exit code are the server's. */
static kiln_status become(const char *const *argv) {
    execv(argv[0], (char *const *)(uintptr_t)argv);
    return KILN_SYSTEM_ERROR(errno, "starting", argv[0]);
}

/* How the server ended, which has said why itself unless a signal ended it. */
static kiln_status status_of(kiln_child_exit how) {
    if (how.signal) return KILN_ERROR(UNAVAILABLE, "kiln-web was ended by signal %d", how.signal);
    return how.code ? kiln_status_make((kiln_code)how.code, __FILE__, __LINE__,
                                       "the server ended, as it says above")
                    : KILN_OK;
}

/* Until the server ends, a program of the fleet ends, or SIGINT or SIGTERM asks for the end.
 * `signals`: these two and SIGCHLD, which are blocked. */
static kiln_status wait_for_end(kiln_child *server, kiln_private_fleet *fleet,
                                const sigset_t *signals) {
    kiln_child_exit how;
    while (sigwaitinfo(signals, NULL) == SIGCHLD) {
        if (kiln_child_ended(server, &how)) return status_of(how);
        kiln_status st = kiln_private_fleet_check(fleet);
        if (st) return st;
    }
    kiln_child_stop(server);
    return status_of(kiln_child_wait(server));
}

/* Serves with a fleet of this machine, which ends with the command. */
static kiln_status serve_fleet(const web_options *o, kiln_arena *process) {
    sigset_t signals, before;
    kiln_child server = {0};
    kiln_private_fleet *fleet = NULL;
    command_line line = {0};
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    kiln_status st = kiln_private_fleet_start(
        &(kiln_private_fleet_options){.db_path = o->db, .calibrates = true}, process, &fleet);
    if (!st) st = fill(o, kiln_private_fleet_address(fleet), process, &line);
    if (!st) line.word[line.count++] = "--with-parent";
    if (!st) st = kiln_child_start(&(kiln_child_options){.argv = line.word}, &server);
    if (!st) st = wait_for_end(&server, fleet, &signals);
    kiln_child_destroy(&server);
    const char *crashed = kiln_private_fleet_stop(fleet);
    if (crashed) fprintf(stderr, KILN_FLEET_CRASHED "\n", crashed);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}

/* Whether the server finds a tracker without being told. */
static bool has_tracker(const char *home, kiln_arena *process) {
    return access(kiln_arena_printf(process, "%s/" KILN_TRACKER_ADDRESS_FILE, home), R_OK) == 0;
}

kiln_status kiln_cmd_web(kiln_arena *process, int argc, char **argv) {
    web_options o = {.listen = "0"};
    const kiln_opt option[] = {
        {"tracker|$KILN_TRACKER", KILN_OPT_TEXT, &o.tracker, "ADDR", kiln_tracker_help},
        {"key-file", KILN_OPT_TEXT, &o.key_file, "F", kiln_key_file_help},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, kiln_insecure_help},
        {"listen", KILN_OPT_TEXT, &o.listen, "ADDR",
         "PORT (on this machine), IP:PORT or unix:PATH (default 0, which picks a port)"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH", "records database (default $KILN_HOME/kiln.db)"},
    };
    const kiln_opt_table table = {
        "kiln web [options]",
        "Serves the dashboard to this user until Ctrl-C, and prints a link to it that signs in. "
        "Without a tracker it starts a fleet of this machine, which ends with the command.",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        0};
    kiln_args args;
    char *home = NULL;
    command_line line = {0};
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = kiln_home(process, &home);
    if (st) return st;
    if (!o.tracker && !has_tracker(home, process)) {
        if (!o.db) o.db = kiln_arena_printf(process, "%s/kiln.db", home);
        fprintf(stderr,
                "no tracker of yours listens here: a tracker, a tuner and this machine as "
                "a board serve until this command ends; records stay in %s\n",
                o.db);
        return serve_fleet(&o, process);
    }
    st = fill(&o, o.tracker, process, &line);
    return st ? st : become(line.word);
}
