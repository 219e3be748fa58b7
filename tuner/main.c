/* kiln-tuner: takes jobs from the tracker, searches, builds candidates, keeps the records. */
#include <unistd.h>

#include "base/proc.h"
#include "base/program/daemon.h"
#include "base/program/ready.h"
#include "base/rand.h"
#include "compiler-core/worker/worker.h"
#include "tuner/shell.h"

typedef struct options {
    const char *tracker, *db, *state, *cores, *key_file, *model;
    uint64_t builders, model_memory_mib;
    bool insecure;
} options;

/* One builder per core but the one that measurements own. */
static uint32_t default_builders(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 2 ? (uint32_t)cores - 1 : 1;
}

static kiln_status fill_defaults(const options *o, kiln_arena *process, kiln_shell_options *out) {
    if (!o->tracker)
        return KILN_ERROR(INVALID_ARGUMENT, "--tracker ADDR is missing; see kiln-tuner --help");
    char *home = NULL;
    kiln_status st = kiln_home(process, &home);
    if (!st) st = kiln_addresses_parse(kiln_str_from(o->tracker), &out->tracker);
    if (!st && o->model) st = kiln_model_find(kiln_str_from(o->model), &out->model);
    if (st) return st;
    out->home = home;
    out->key_file = o->key_file;
    out->insecure = o->insecure;
    out->db_path = o->db ? o->db : kiln_arena_printf(process, "%s/kiln.db", home);
    out->state_folder = o->state ? o->state : kiln_arena_printf(process, "%s/tuner", home);
    out->builder_cores = o->cores;
    if (o->model_memory_mib > UINT64_MAX >> 20)
        return KILN_ERROR(INVALID_ARGUMENT, "--model-memory exceeds 64 bits");
    out->model_memory_bytes = o->model_memory_mib << 20;
    out->builder_count =
        o->builders == UINT64_MAX ? default_builders() : (uint32_t)KILN_MIN(o->builders, 256);
    /* A wrong set-up shows now, not in the log. A token that is not there yet is no fault: the
     * first tracker, which may be starting beside this program, makes it. */
    st = kiln_credentials_check(&out->tracker, home, o->key_file, o->insecure);
    if (kiln_status_code(st) == KILN_NOT_FOUND && !o->key_file) {
        kiln_log(KILN_LOG_WARN, "%s", kiln_status_text(st));
        kiln_status_free(st);
        st = KILN_OK;
    }
    if (!st) st = kiln_rand_system(&out->seed, sizeof out->seed);
    char *program = NULL;
    if (!st) st = kiln_proc_self(process, &program);
    out->program = program;
    return st;
}

static kiln_status run(const void *given, kiln_arena *process) {
    kiln_shell *shell = NULL;
    kiln_shell_options shell_options = {0};
    kiln_status st = fill_defaults(given, process, &shell_options);
    if (!st) st = kiln_shell_create(&shell_options, &shell);
    if (!st) {
        kiln_ready_tell();
        kiln_shell_run(shell);
    }
    kiln_shell_destroy(shell);
    return st;
}

int main(int argc, char **argv) {
    /* Workers run this program with another argument. */
    if (kiln_worker_is_asked(argc, argv)) return kiln_worker_main(argc, argv);
    options o = {.builders = UINT64_MAX};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "address of the tracker: HOST:PORT or unix:PATH; ADDR,ADDR: also standby trackers"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR", "blobs and identity (default $KILN_HOME/tuner)"},
        {"builders", KILN_OPT_COUNT, &o.builders, "N",
         "worker processes that compile (default: cores - 1); 0: boards with a compiler build "
         "every candidate, and no others are used"},
        {"cores", KILN_OPT_TEXT, &o.cores, "LIST",
         "cores for the workers, as in 1-3 (default: any)"},
        {"model-memory", KILN_OPT_COUNT, &o.model_memory_mib, "MIB",
         "MiB of memory that a worker may take for a model or a kernel (default 4096)"},
        {"model", KILN_OPT_TEXT, &o.model, "NAME",
         "cost model that searches ask: xgboost (default), analytic, null"},
        {"key-file", KILN_OPT_TEXT, &o.key_file, "F",
         "key file for the tracker (default $KILN_HOME/key; not needed on the tracker's machine)"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, "connect in plain text, without a key"},
    };
    const kiln_daemon daemon = {
        .program = {.name = "kiln-tuner",
                    .level = KILN_LOG_INFO,
                    .protocol_min = KILN_PROTO_VERSION_MIN,
                    .protocol_max = KILN_PROTO_VERSION_MAX,
                    .codegen = kiln_codegen_version()},
        .table = {.usage = "kiln-tuner --tracker ADDR [options]",
                  .summary = "Takes tuning jobs from a tracker, searches schedules, builds "
                             "candidates and keeps every record in a database.",
                  .option = option,
                  .option_count = KILN_ARRAY_COUNT(option)},
        .run = run,
        .options = &o,
    };
    return kiln_daemon_main(&daemon, argc, argv);
}
