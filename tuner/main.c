/* kiln-tuner: takes jobs from the tracker, searches, builds candidates, keeps the records. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/proc.h"
#include "base/rand.h"
#include "tuner/measure/worker.h"
#include "tuner/shell.h"

typedef struct options {
    const char *tracker, *db, *state, *cores;
    uint64_t builders;
    bool insecure, worker, with_parent, verbose;
} options;

static void on_signal(void *context, int signal) {
    kiln_log(KILN_LOG_INFO, "stopping on signal %d", signal);
    kiln_loop_stop(context);
}

/* One builder per core but the one that measurements own. */
static uint32_t default_builders(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 2 ? (uint32_t)cores - 1 : 1;
}

static kiln_status fill_defaults(options *o, kiln_arena *process, kiln_shell_options *out) {
    char *home = NULL;
    kiln_status st = kiln_home(process, &home);
    if (!st) st = kiln_address_parse(kiln_str_from(o->tracker), &out->tracker);
    if (st) return st;
    out->insecure = o->insecure;
    out->db_path = o->db ? o->db : kiln_arena_printf(process, "%s/kiln.db", home);
    out->state_folder = o->state ? o->state : kiln_arena_printf(process, "%s/tuner", home);
    out->builder_cores = o->cores;
    out->builder_count = o->builders ? (uint32_t)KILN_MIN(o->builders, 256) : default_builders();
    if (!out->tracker.is_unix && !o->insecure) {
        uint8_t *token = kiln_arena_alloc(process, KILN_TOKEN_BYTES);
        st = kiln_token_read(home, false, token);
        out->token = token;
    }
    if (!st) st = kiln_rand_system(&out->seed, sizeof out->seed);
    char *program = NULL;
    if (!st) st = kiln_proc_self(process, &program);
    out->program = program;
    return st;
}

static kiln_status run(options *o) {
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_loop *loop = NULL;
    kiln_shell *shell = NULL;
    kiln_shell_options shell_options = {0};
    kiln_status st = fill_defaults(o, &process, &shell_options);
    if (!st) st = kiln_loop_create(&loop);
    if (!st) st = kiln_shell_create(loop, &shell_options, &shell);
    if (!st) {
        kiln_loop_on_signal(loop, SIGINT, on_signal, loop);
        kiln_loop_on_signal(loop, SIGTERM, on_signal, loop);
        kiln_loop_run(loop);
    }
    kiln_shell_destroy(shell);
    kiln_loop_destroy(loop);
    kiln_arena_deinit(&process);
    return st;
}

int main(int argc, char **argv) {
    options o = {0};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "where the tracker listens: HOST:PORT or unix:PATH"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR", "blobs and identity (default $KILN_HOME/tuner)"},
        {"builders", KILN_OPT_COUNT, &o.builders, "N",
         "worker processes that compile (default: cores - 1)"},
        {"cores", KILN_OPT_TEXT, &o.cores, "LIST",
         "cores for the workers, as in 1-3 (default: any)"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, "connect without a token"},
        {"with-parent", KILN_OPT_FLAG, &o.with_parent, NULL,
         "end when the program that started this one does"},
        {"verbose", KILN_OPT_FLAG, &o.verbose, NULL, "log more"},
        {"worker", KILN_OPT_FLAG, &o.worker, NULL, "be a worker of another kiln-tuner (internal)"},
    };
    const kiln_opt_table table = {
        "kiln-tuner --tracker ADDR [options]",
        "Takes tuning jobs from a tracker, searches schedules, builds candidates and keeps every "
        "record in a database.",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        0};
    kiln_arena arguments;
    kiln_arena_init(&arguments, 0);
    const char **positional = NULL;
    size_t count = 0;
    bool help = false;
    kiln_status st = kiln_opt_parse(&table, argc, argv, &arguments, &positional, &count, &help);
    if (!st && help) {
        kiln_strbuf text = {0};
        kiln_opt_print_help(&table, &text);
        fputs(text.data, stdout);
        kiln_strbuf_deinit(&text);
    } else if (!st && o.worker) {
        return kiln_worker_main(o.cores);
    } else if (!st) {
        kiln_log_init("kiln-tuner", o.verbose ? KILN_LOG_DEBUG : KILN_LOG_INFO);
        if (o.with_parent) kiln_child_die_with_parent();
        st = o.tracker
                 ? run(&o)
                 : KILN_ERROR(INVALID_ARGUMENT, "--tracker ADDR is missing; see kiln-tuner --help");
    }
    if (st) fprintf(stderr, "kiln-tuner: %s\n", kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arguments);
    return exit_code;
}
