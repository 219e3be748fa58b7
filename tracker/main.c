/* kiln-tracker: the one place everybody dials. */
#include <stdio.h>

#include "base/child.h"
#include "base/log.h"
#include "base/opt.h"
#include "tracker/shell.h"

#define DEFAULT_LISTEN "127.0.0.1:9477"

typedef struct options {
    kiln_opt_list listen;
    const char *port_file, *state, *keys;
    bool insecure, with_parent, verbose;
} options;

static kiln_status parse_addresses(const options *o, kiln_address *out_address,
                                   uint32_t *out_count) {
    if (o->listen.count > KILN_TRACKER_ADDRESSES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--listen is given more than %u times",
                          KILN_TRACKER_ADDRESSES_MAX);
    *out_count = o->listen.count ? (uint32_t)o->listen.count : 1;
    for (uint32_t i = 0; i < *out_count; i++) {
        kiln_str text = kiln_str_from(o->listen.count ? o->listen.item[i] : DEFAULT_LISTEN);
        kiln_status st = kiln_address_parse(text, &out_address[i]);
        if (st) return kiln_status_note(st, "--listen");
    }
    return NULL;
}

static kiln_status run(const options *o) {
    if (o->keys)
        return KILN_ERROR(
            UNIMPLEMENTED,
            "--keys: encrypted connections are not there yet; listen on loopback (a token is "
            "made by itself), on unix:PATH, or with --insecure");
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_address address[KILN_TRACKER_ADDRESSES_MAX];
    kiln_tracker_shell_options shell_options = {
        .address = address, .insecure = o->insecure, .port_file = o->port_file};
    kiln_tracker_shell *shell = NULL;
    char *home = NULL;
    kiln_status st = parse_addresses(o, address, &shell_options.address_count);
    if (!st) st = kiln_home(&process, &home);
    if (!st) {
        shell_options.home = home;
        shell_options.state_folder =
            o->state ? o->state : kiln_arena_printf(&process, "%s/tracker", home);
        st = kiln_tracker_shell_create(&shell_options, &shell);
    }
    if (!st) kiln_tracker_shell_run(shell);
    kiln_tracker_shell_destroy(shell);
    kiln_arena_deinit(&process);
    return st;
}

static kiln_status parse_and_run(int argc, char **argv, kiln_arena *arena) {
    options o = {0};
    const kiln_opt option[] = {
        {"listen", KILN_OPT_LIST, &o.listen, "ADDR",
         "HOST:PORT (port 0 picks one) or unix:PATH; default " DEFAULT_LISTEN},
        {"port-file", KILN_OPT_TEXT, &o.port_file, "F", "gets the port once it listens"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR",
         "jobs, leases and blobs (default $KILN_HOME/tracker)"},
        {"keys", KILN_OPT_TEXT, &o.keys, "F", "keys of nodes, for encrypted connections"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL,
         "accept anybody, in plain text, also from other machines"},
        {"with-parent", KILN_OPT_FLAG, &o.with_parent, NULL,
         "end when the program that started this one does"},
        {"verbose", KILN_OPT_FLAG, &o.verbose, NULL, "log more"},
    };
    const kiln_opt_table table = {
        "kiln-tracker [options]",
        "The one place everybody dials: knows the boards, queues the jobs, grants leases, keeps "
        "the blobs.",
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
    kiln_log_init("kiln-tracker", o.verbose ? KILN_LOG_DEBUG : KILN_LOG_INFO);
    if (o.with_parent) kiln_child_die_with_parent();
    return run(&o);
}

int main(int argc, char **argv) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = parse_and_run(argc, argv, &arena);
    if (st) fprintf(stderr, "kiln-tracker: %s\n", kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return exit_code;
}
