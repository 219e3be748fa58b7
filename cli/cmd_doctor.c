/* Says whether this machine can tune, and what to mend. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "deploy/runtime/peak.h"

#define BOARD_OUTPUT_MAX ((size_t)64 << 10)

typedef struct doctor {
    kiln_arena *process;
    bool json;
    uint32_t bad;
} doctor;

static void say(doctor *d, bool good, const char *what, const char *found) {
    d->bad += !good;
    if (d->json)
        kiln_json_line(json_pack("{s:s, s:s, s:b, s:s}", "event", "check", "what", what, "ok", good,
                                 "found", found));
    else
        printf("%-4s %-18s %s\n", good ? "ok" : "BAD", what, found);
}

static void check_programs(doctor *d) {
    static const char *const names[] = {"kiln-tracker", "kiln-tuner", "kiln-rpc-server"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(names); i++) {
        char *path = NULL;
        kiln_status st = kiln_proc_sibling(names[i], d->process, &path);
        say(d, !st, names[i], st ? kiln_status_text(st) : "found");
        kiln_status_free(st);
    }
}

static void check_home(doctor *d) {
    char *home = NULL, *probe = NULL;
    kiln_status st = kiln_home(d->process, &home);
    if (!st) {
        probe = kiln_arena_printf(d->process, "%s/doctor", home);
        st = kiln_file_write(probe, KILN_STR("x"), 0600);
        unlink(probe);
    }
    say(d, !st, "KILN_HOME", st ? kiln_status_text(st) : "writable");
    kiln_status_free(st);
}

static void check_machine(doctor *d) {
    kiln_target target;
    kiln_strbuf text = {0};
    kiln_status st = kiln_target_native(d->process, &target);
    if (!st) kiln_target_print(&target, &text);
    say(d, !st, "target", st ? kiln_status_text(st) : text.data);
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    say(d, true, "FMA peak",
        kiln_arena_printf(d->process, "%.1f GFLOP/s on one core", kiln_peak_flops() / 1e9));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    say(d, true, "cores",
        cores > 1 ? kiln_arena_printf(d->process, "%ld", cores)
                  : "1: builds and measurements share it, so timings are noisy");
}

/* The board's own program knows; it also says it where there is no other. */
static kiln_status ask_board(doctor *d, const char *tracker, const char *key_file) {
    char *server = NULL;
    kiln_proc_result result = {0};
    kiln_status st = kiln_proc_sibling("kiln-rpc-server", d->process, &server);
    if (st) return st;
    const char *argv[] = {
        server, "--doctor", "--tracker", tracker, key_file ? "--key-file" : NULL, key_file, NULL};
    st = kiln_proc_run(&(kiln_proc_options){.argv = argv, .output_max = BOARD_OUTPUT_MAX},
                       d->process, &result);
    if (st) return st;
    fputs(result.out.data, stdout);
    return result.exit_code == 0
               ? KILN_OK
               : KILN_ERROR(FAILED_PRECONDITION, "%.*s", KILN_STR_ARG(kiln_str_trim(result.err)));
}

kiln_status kiln_cmd_doctor(kiln_arena *process, int argc, char **argv) {
    doctor d = {.process = process};
    bool board = false;
    const char *tracker = NULL, *key_file = NULL;
    const kiln_opt option[] = {
        {"json", KILN_OPT_FLAG, &d.json, NULL, "print one object per check"},
        {"board", KILN_OPT_FLAG, &board, NULL, "check this machine as a board; wants --tracker"},
        {"tracker", KILN_OPT_TEXT, &tracker, "ADDR", "which the board would serve"},
        {"key-file", KILN_OPT_TEXT, &key_file, "F", "key that the board would show"}};
    const kiln_opt_table table = {
        "kiln doctor", "Checks this machine's set-up.", option, KILN_ARRAY_COUNT(option), 0, 0};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    if (board && !tracker)
        return KILN_ERROR(INVALID_ARGUMENT, "--board wants --tracker ADDR, which it would serve");
    if (board) return ask_board(&d, tracker, key_file);
    check_programs(&d);
    check_home(&d);
    check_machine(&d);
    return d.bad
               ? KILN_ERROR(FAILED_PRECONDITION, "%u check%s failed", d.bad, d.bad == 1 ? "" : "s")
               : KILN_OK;
}
