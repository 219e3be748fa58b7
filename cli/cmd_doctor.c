/* Says whether this machine can tune, and what to mend. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"
#include "base/proc.h"
#include "base/target.h"
#include "cli/cli.h"
#include "deploy/runtime/calibrate.h"
#include "deploy/runtime/calibrate_kept.h"
#include "deploy/runtime/peak.h"

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

/* ---- --calibrate ----------------------------------------------------------------------------- */

/* 0: not known. */
static void show_figure(const doctor *d, const char *what, const char *unit, double measured,
                        double table, const char *doubt) {
    if (d->json) {
        json_t *line =
            json_pack("{s:s, s:s, s:s, s:o, s:o}", "event", "figure", "what", what, "unit", unit,
                      "measured", measured > 0 ? json_real(measured) : json_null(), "table",
                      table > 0 ? json_real(table) : json_null());
        if (*doubt) json_object_set_new(line, "why", json_string(doubt));
        kiln_json_line(line);
        return;
    }
    char text[2][32] = {"-", "-"};
    const double value[] = {measured, table};
    for (int i = 0; i < 2; i++)
        if (value[i] > 0) snprintf(text[i], sizeof text[i], "%.6g", value[i]);
    printf("%-28s %10s %10s  %-18s %s\n", what, text[0], text[1], unit, doubt);
}

/* What follows from rates and the clock, for people who compare machines. */
static void show_derived(const doctor *d, const kiln_figures *c, const kiln_target *target) {
    static const struct {
        kiln_figure rate;
        const char *what;
    } level[] = {{KILN_FIGURE_L1_RATE, "first cache's bandwidth"},
                 {KILN_FIGURE_L2_RATE, "second cache's bandwidth"},
                 {KILN_FIGURE_L3_RATE, "third cache's bandwidth"},
                 {KILN_FIGURE_MEMORY_RATE, "memory's bandwidth"}};
    const double hz = c->figure[KILN_FIGURE_WIDE_CLOCK];
    show_figure(d, "multiply-add peak", "FLOP/s", kiln_peak_flops(),
                2.0 * target->core.vector * target->vector_bytes / 4 * hz, "");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(level); i++)
        show_figure(d, level[i].what, "bytes/s", kiln_figures_bytes_per_second(c, level[i].rate),
                    kiln_target_figure(target, level[i].rate) * hz, "");
}

/* Measures this machine, keeps the figures for commands and private fleets, and shows them beside
 * the table's row. */
static kiln_status calibrate(doctor *d) {
    kiln_target table;
    char *home = NULL;
    kiln_status st = kiln_target_native(d->process, &table);
    if (!st && kiln_target_native_limit())
        st = KILN_ERROR(FAILED_PRECONDITION,
                        KILN_NATIVE_VARIABLE " takes this machine for another: measure it without");
    if (!st) st = kiln_home(d->process, &home);
    if (st) return st;
    const kiln_calibrate_report report = kiln_calibrate_core();
    if (!d->json)
        printf("%-28s %10s %10s\n", "figure", "measured",
               kiln_str_dup(d->process, table.mcpu.size ? table.mcpu : KILN_STR("generic")));
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        const kiln_figure_info *info = kiln_figure_info_of((kiln_figure)i);
        show_figure(d, info->name, info->unit, report.calibration.figure[i],
                    kiln_target_figure(&table, (kiln_figure)i),
                    kiln_calibrate_doubt_text(report.doubt[i]));
    }
    show_derived(d, &report.calibration, &table);
    return kiln_calibration_keep(home, &report.calibration, d->process);
}

/* ---- this machine as a board ----------------------------------------------------------------- */

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
    bool calibrates = false;
    const kiln_opt option[] = {
        {"json", KILN_OPT_FLAG, &d.json, NULL, "print one object per check or figure"},
        {"calibrate", KILN_OPT_FLAG, &calibrates, NULL,
         "measure this machine's core and caches instead of checking; native targets use the "
         "figures from then on"},
        {"tracker", KILN_OPT_TEXT, &tracker, "ADDR", "also try to register with it as a board"},
        {"key-file", KILN_OPT_TEXT, &key_file, "F", "key file for that registration"}};
    const kiln_opt_table table = {
        "kiln doctor", "Checks this machine's set-up.", option, KILN_ARRAY_COUNT(option), 0, 0};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    if (calibrates) return calibrate(&d);
    check_programs(&d);
    check_home(&d);
    check_cores(&d);
    st = ask_board(&d, tracker, key_file);
    if (st) return st;
    return d.bad
               ? KILN_ERROR(FAILED_PRECONDITION, "%u check%s failed", d.bad, d.bad == 1 ? "" : "s")
               : KILN_OK;
}
