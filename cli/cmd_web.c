/* kiln web: starts kiln-web for this user, which prints a link to the dashboard. */
#include <errno.h>
#include <unistd.h>

#include "base/proc.h"
#include "cli/cli.h"
#include "cli/common/client.h"

#define ARGUMENTS_MAX 16

typedef struct web_options {
    const char *tracker, *key_file, *listen, *db;
    bool insecure;
} web_options;

static void add(const char **argv, size_t *count, const char *name, const char *value) {
    if (!value) return;
    argv[(*count)++] = name;
    argv[(*count)++] = value;
}

/* This process becomes the server, so that Ctrl-C and the exit code are the server's. */
static kiln_status become(const char *program, const char *const *argv) {
    execv(program, (char *const *)(uintptr_t)argv);
    return KILN_SYSTEM_ERROR(errno, "starting", program);
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
        "Serves the dashboard to this user until Ctrl-C, and prints a link to it that signs in.",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        0};
    kiln_args args;
    char *program = NULL;
    const char *command[ARGUMENTS_MAX] = {0};
    size_t count = 0;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = kiln_proc_sibling("kiln-web", process, &program);
    if (st) return st;
    command[count++] = program;
    command[count++] = "--link";
    command[count++] = "--log-level";
    command[count++] = "warn";
    add(command, &count, "--listen", o.listen);
    add(command, &count, "--tracker", o.tracker);
    add(command, &count, "--key-file", o.key_file);
    add(command, &count, "--db", o.db);
    if (o.insecure) command[count++] = "--insecure";
    return become(program, command);
}
