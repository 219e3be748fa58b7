#include "base/daemon.h"

#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/trace.h"

#define COMMON_OPTIONS 4

static void print_help(const kiln_opt_table *table) {
    kiln_strbuf text = {0};
    kiln_opt_print_help(table, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
}

static kiln_status parse_and_run(const kiln_daemon *daemon, int argc, char **argv,
                                 kiln_arena *process) {
    const char *trace = NULL;
    bool with_parent = false, verbose = false, json = false, help = false;
    const kiln_opt common[COMMON_OPTIONS] = {
        {"with-parent", KILN_OPT_FLAG, &with_parent, NULL,
         "end when the program that started this one does"},
        {"verbose", KILN_OPT_FLAG, &verbose, NULL, "log more"},
        {"log-json", KILN_OPT_FLAG, &json, NULL, "log one JSON object per line"},
        {"trace", KILN_OPT_TEXT, &trace, "F", "write what is done and when, for kiln trace"},
    };
    kiln_opt_table table = daemon->table;
    kiln_opt *option = KILN_ARENA_ARRAY(process, kiln_opt, table.option_count + COMMON_OPTIONS);
    memcpy(option, table.option, table.option_count * sizeof *option);
    memcpy(option + table.option_count, common, sizeof common);
    table.option = option;
    table.option_count += COMMON_OPTIONS;

    const char **positional = NULL;
    size_t count = 0;
    kiln_status st = kiln_opt_parse(&table, argc, argv, process, &positional, &count, &help);
    if (st) return st;
    if (help) {
        print_help(&table);
        return KILN_OK;
    }
    st = kiln_fail_arm(kiln_env("KILN_FAIL"));
    if (st) return st;
    kiln_log_init(daemon->name, verbose ? KILN_LOG_DEBUG : KILN_LOG_INFO);
    if (json) kiln_log_as_json();
    if (with_parent) kiln_child_die_with_parent();
    if (trace) st = kiln_trace_open(trace, daemon->name);
    if (!st) st = daemon->run(daemon->options, process);
    kiln_trace_close();
    return st;
}

int kiln_daemon_main(const kiln_daemon *daemon, int argc, char **argv) {
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_status st = parse_and_run(daemon, argc, argv, &process);
    if (st) fprintf(stderr, "%s: %s\n", daemon->name, kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&process);
    return exit_code;
}
