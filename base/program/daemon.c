#include "base/program/daemon.h"

#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/fail.h"
#include "base/trace.h"

#define DAEMON_OPTIONS 4
#define TRACE_MIB 1024

static kiln_status parse_and_run(const kiln_daemon *daemon, int argc, char **argv,
                                 kiln_arena *process) {
    const char *trace = NULL;
    uint64_t trace_mib = TRACE_MIB;
    bool with_parent = false, json = false;
    const kiln_opt common[DAEMON_OPTIONS] = {
        {"with-parent", KILN_OPT_FLAG, &with_parent, NULL,
         "end when the program that started this one does"},
        {"log-json", KILN_OPT_FLAG, &json, NULL, "log one JSON object per line"},
        {"trace", KILN_OPT_TEXT, &trace, "F", "write a trace for kiln trace"},
        {"trace-size", KILN_OPT_COUNT, &trace_mib, "MIB",
         "keep the newest MIB of it, in F and F.1 (default 1024; 0: all)"},
    };
    kiln_opt_table table = daemon->table;
    kiln_opt *option = KILN_ARENA_ARRAY(process, kiln_opt, table.option_count + DAEMON_OPTIONS);
    memcpy(option, table.option, table.option_count * sizeof *option);
    memcpy(option + table.option_count, common, sizeof common);
    table.option = option;
    table.option_count += DAEMON_OPTIONS;

    kiln_args args;
    kiln_status st = kiln_command_line_parse(&daemon->program, &table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = kiln_fail_arm(kiln_env("KILN_FAIL"));
    if (st) return st;
    if (json) kiln_log_as_json();
    if (with_parent) kiln_child_die_with_parent();
    if (trace)
        st = kiln_trace_open(trace, daemon->program.name,
                             KILN_MIN(trace_mib, UINT64_MAX >> 20) << 20);
    if (!st) st = daemon->run(daemon->options, process);
    kiln_trace_close();
    return kiln_command_line_blame(&args, st, process);
}

int kiln_daemon_main(const kiln_daemon *daemon, int argc, char **argv) {
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_status st = parse_and_run(daemon, argc, argv, &process);
    if (st) fprintf(stderr, "%s: %s\n", daemon->program.name, kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&process);
    return exit_code;
}
