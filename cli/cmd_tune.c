/* kiln tune: starts the request and shows what becomes of it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/tune_options.h"
#include "cli/host.h"
#include "cli/tune_print.h"

/* The command line once more, quoted for a shell, for the person who stopped it. */
static const char *again(int argc, char **argv, kiln_arena *process) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./-_";
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "kiln");
    for (int i = 0; i < argc; i++) {
        bool needs_quotes = argv[i][0] == 0 || argv[i][strspn(argv[i], plain)] != 0;
        kiln_strbuf_text(&text, needs_quotes ? " '" : " ");
        for (const char *c = argv[i]; *c; c++)
            if (*c == '\'')
                kiln_strbuf_text(&text, "'\\''");
            else
                kiln_strbuf_char(&text, *c);
        if (needs_quotes) kiln_strbuf_char(&text, '\'');
    }
    const char *copy = kiln_str_dup(process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

kiln_status kiln_cmd_tune(kiln_arena *process, int argc, char **argv) {
    kiln_tune_options o;
    kiln_args args;
    const kiln_opt_table table = kiln_tune_options_init(&o, process);
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    const char *command = again(argc, argv, process);
    kiln_host host = {.json = o.json,
                      .seconds = o.seconds,
                      .print = kiln_tune_print,
                      .context = (void *)(uintptr_t)o.tracker,
                      .process = process};
    st = kiln_host_run(&host, KILN_REQUEST_TUNE, args.positional[0], &args.given);
    if (kiln_status_code(st) == KILN_CANCELLED && !ferror(stdout))
        fprintf(stderr, "to go on where it stopped: %s\n", command);
    if (kiln_status_code(st) == KILN_UNAVAILABLE && o.tracker && host.display.task.count) {
        kiln_display_table(&host.display);
        fprintf(stderr, "these are the tracker's last figures; to go on when it is back: %s%s%s\n",
                command, o.job ? "" : " --job ", o.job ? "" : kiln_request_job(host.request));
    }
    kiln_request_free(host.request);
    return st;
}
