/* Says whether this machine can tune, and what to mend. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"
#include "base/proc.h"
#include "cli/cli.h"

#define BOARD_OUTPUT_MAX ((size_t)64 << 10)
#define BOARD_NAME_AT 5u
#define BOARD_FOUND_AT 16u

typedef struct doctor {
    kiln_arena *process;
    bool json;
    uint32_t bad;
} doctor;

/* `word`: "ok", "note" or "BAD". */
static void report(doctor *d, const char *word, const char *what, const char *found) {
    const bool good = strcmp(word, "BAD") != 0;
    d->bad += !good;
    if (d->json)
        kiln_json_line(json_pack("{s:s, s:s, s:b, s:s}", "event", "check", "what", what, "ok", good,
                                 "found", found));
    else
        printf("%-4s %-18s %s\n", word, what, found);
}

static void say(doctor *d, bool good, const char *what, const char *found) {
    report(d, good ? "ok" : "BAD", what, found);
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

static void check_cores(doctor *d) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    say(d, true, "cores",
        cores > 1 ? kiln_arena_printf(d->process, "%ld", cores)
                  : "1: builds and measurements share it, so timings are noisy");
}

/* A line of kiln-rpc-server --doctor: verdict, name and finding in columns (rpc-server/doctor.c).
 */
static void relay(doctor *d, kiln_str line) {
    const kiln_str part[] = {kiln_str_slice(line, 0, BOARD_NAME_AT),
                             kiln_str_slice(line, BOARD_NAME_AT, BOARD_FOUND_AT),
                             kiln_str_slice(line, BOARD_FOUND_AT, line.size)};
    report(d, kiln_str_dup(d->process, kiln_str_trim(part[0])),
           kiln_str_dup(d->process, kiln_str_trim(part[1])),
           kiln_str_dup(d->process, kiln_str_trim(part[2])));
}

/* What this machine would be as a board. The board's own program knows; it also says it where there
 * is no other. */
static kiln_status ask_board(doctor *d, const char *tracker, const char *key_file) {
    char *server = NULL;
    kiln_proc_result result = {0};
    kiln_status st = kiln_proc_sibling("kiln-rpc-server", d->process, &server);
    if (st) return st;
    const char *argv[8] = {server, "--doctor"};
    uint32_t count = 2;
    if (tracker) argv[count++] = "--tracker", argv[count++] = tracker;
    if (key_file) argv[count++] = "--key-file", argv[count++] = key_file;
    st = kiln_proc_run(&(kiln_proc_options){.argv = argv, .output_max = BOARD_OUTPUT_MAX},
                       d->process, &result);
    if (st) return st;
    const uint32_t bad_before = d->bad;
    for (kiln_str rest = result.out; rest.size > 0;) {
        const kiln_str line = kiln_str_cut(&rest, '\n');
        if (line.size > BOARD_FOUND_AT) relay(d, line);
    }
    return result.exit_code == 0 || d->bad > bad_before
               ? KILN_OK
               : KILN_ERROR(FAILED_PRECONDITION, "%.*s", KILN_STR_ARG(kiln_str_trim(result.err)));
}

kiln_status kiln_cmd_doctor(kiln_arena *process, int argc, char **argv) {
    doctor d = {.process = process};
    const char *tracker = NULL, *key_file = NULL;
    const kiln_opt option[] = {
        {"json", KILN_OPT_FLAG, &d.json, NULL, "print one object per check"},
        {"tracker", KILN_OPT_TEXT, &tracker, "ADDR", "also try to register with it as a board"},
        {"key-file", KILN_OPT_TEXT, &key_file, "F", "key that the board would show"}};
    const kiln_opt_table table = {
        "kiln doctor", "Checks this machine's set-up.", option, KILN_ARRAY_COUNT(option), 0, 0};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    check_programs(&d);
    check_home(&d);
    check_cores(&d);
    st = ask_board(&d, tracker, key_file);
    if (st) return st;
    return d.bad
               ? KILN_ERROR(FAILED_PRECONDITION, "%u check%s failed", d.bad, d.bad == 1 ? "" : "s")
               : KILN_OK;
}
