/* kiln-rpc-server: offers this machine to a tracker and measures candidates in contained children.
 */
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/proc.h"
#include "rpc-server/inmate.h"
#include "rpc-server/shell.h"

typedef struct options {
    const char *tracker, *key, *labels, *state, *executor;
    bool insecure, with_parent, verbose;
} options;

static kiln_status fill(const options *o, kiln_arena *process, kiln_server_shell_options *out) {
    if (!o->tracker)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--tracker ADDR is missing; see kiln-rpc-server --help");
    char *home = NULL, *program = NULL;
    kiln_status st = kiln_address_parse(kiln_str_from(o->tracker), &out->tracker);
    if (!st) st = kiln_home(process, &home);
    if (!st) st = kiln_proc_self(process, &program);
    if (st) return st;
    out->home = home;
    out->program = program;
    out->insecure = o->insecure;
    out->state_folder = o->state ? o->state : kiln_arena_printf(process, "%s/rpc-server", home);
    out->board = (kiln_board_options){.key = o->key, .labels = o->labels};
    if (!o->executor) return NULL;
    out->board.executor = kiln_executor_find(kiln_str_from(o->executor));
    return out->board.executor
               ? NULL
               : KILN_ERROR(INVALID_ARGUMENT, "there is no executor \"%s\"", o->executor);
}

static kiln_status run(const options *o) {
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_server_shell_options shell_options = {0};
    kiln_server_shell *shell = NULL;
    kiln_status st = fill(o, &process, &shell_options);
    if (!st) st = kiln_server_shell_create(&shell_options, &shell);
    if (!st) kiln_server_shell_run(shell);
    kiln_server_shell_destroy(shell);
    kiln_arena_deinit(&process);
    return st;
}

static kiln_status parse_and_run(int argc, char **argv, kiln_arena *arena) {
    options o = {0};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "where the tracker listens: HOST:PORT or unix:PATH"},
        {"key", KILN_OPT_TEXT, &o.key, "K",
         "name under which this board serves (default: the host's name)"},
        {"labels", KILN_OPT_TEXT, &o.labels, "K=V,...", "properties that jobs may ask for"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR",
         "cached blobs and identity (default $KILN_HOME/rpc-server)"},
        {"executor", KILN_OPT_TEXT, &o.executor, "NAME",
         "use only this one; null is a fake board (default: as artefacts ask)"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, "connect without a token"},
        {"with-parent", KILN_OPT_FLAG, &o.with_parent, NULL,
         "end when the program that started this one does"},
        {"verbose", KILN_OPT_FLAG, &o.verbose, NULL, "log more"},
    };
    const kiln_opt_table table = {
        "kiln-rpc-server --tracker ADDR [options]",
        "Offers this machine to a tracker: receives candidates, links, checks and times each in "
        "a contained process of its own.",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        0};
    const char **positional = NULL;
    size_t count = 0;
    bool help = false;
    kiln_status st = kiln_opt_parse(&table, argc, argv, arena, &positional, &count, &help);
    if (st) return st;
    if (help) {
        kiln_strbuf text = {0};
        kiln_opt_print_help(&table, &text);
        fputs(text.data, stdout);
        kiln_strbuf_deinit(&text);
        return NULL;
    }
    kiln_log_init("kiln-rpc-server", o.verbose ? KILN_LOG_DEBUG : KILN_LOG_INFO);
    if (o.with_parent) kiln_child_die_with_parent();
    return run(&o);
}

int main(int argc, char **argv) {
    /* A contained child is this program again; it takes no other option. */
    if (argc == 2 && strcmp(argv[1], "--child") == 0) kiln_inmate_main();
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = parse_and_run(argc, argv, &arena);
    if (st) fprintf(stderr, "kiln-rpc-server: %s\n", kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return exit_code;
}
