/* kiln-rpc-server: offers this machine to a tracker and measures candidates in contained children.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/program/daemon.h"
#include "deploy/runtime/calibrate.h"
#include "deploy/runtime/calibrate_kept.h"
#include "rpc-server/board_builder.h"
#include "rpc-server/doctor.h"
#include "rpc-server/launched.h"
#include "rpc-server/launcher.h"
#include "rpc-server/privilege.h"
#include "rpc-server/shell.h"

#define ALL UINT64_MAX
#define DEVICE_FILE_BYTES_MAX ((size_t)4096)

typedef struct options {
    const char *tracker, *batch, *key, *labels, *state, *executor, *power_cycle, *key_file,
        *cluster;
    const char *require, *calibrate, *release_keys;
    uint64_t slots, builders;
    kiln_opt_list also, device;
    bool insecure, doctor;
    char **argv;   /* NULL-terminated, without the program */
    bool launched; /* by a launcher, whose socket is standard input */
    bool measures,
        again; /* from --calibrate and the environment: measure this machine's core, or again */
} options;

/* Called before the environment is cleaned. */
static kiln_status read_calibrate(options *o) {
    const kiln_str word = kiln_str_from(o->calibrate ? o->calibrate : "once");
    o->again = kiln_str_is(word, "again");
    o->measures = kiln_calibration_is_wanted() && !kiln_str_is(word, "never");
    if (o->again || kiln_str_is(word, "once") || kiln_str_is(word, "never")) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "--calibrate is once, again or never");
}

/* A file NAME.EXECUTOR holds a target's text, with or without "EXECUTOR:" before it. It is read
 * here because later this process has changed its folder and given up its rights. */
static kiln_status read_device(const options *o, const char *item, kiln_arena *process,
                               const char **out_device) {
    kiln_str text, name = kiln_str_from(item);
    const char *suffix = kiln_arena_printf(process, ".%s", o->executor);
    *out_device = item;
    if (!kiln_str_ends(name, suffix)) return NULL;
    kiln_status st = kiln_file_read(item, DEVICE_FILE_BYTES_MAX, process, &text);
    if (st) return kiln_status_note(st, "--device %s", item);
    *out_device = kiln_target_text_with_head(text, o->executor, process).data;
    return NULL;
}

static kiln_status no_executor(const char *name) {
    kiln_strbuf known = {0};
    for (uint32_t i = 0; i < kiln_executor_count(); i++)
        kiln_strbuf_printf(&known, " %s", kiln_executor_at(i)->name);
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "there is no executor \"%s\"; there are:%s", name, known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status read_devices(const options *o, kiln_arena *process,
                                kiln_server_shell_options *out) {
    kiln_status st = NULL;
    if (o->device.count > KILN_SERVER_SLOTS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "at most %u devices", KILN_SERVER_SLOTS_MAX);
    for (size_t i = 0; !st && i < o->device.count; i++)
        st = read_device(o, o->device.item[i], process, &out->device[out->device_count++]);
    if (st) return st;
    if (out->device_count && !out->board.executor->driver)
        return KILN_ERROR(INVALID_ARGUMENT, "--device: executor %s has just one device",
                          o->executor);
    return NULL;
}

static kiln_status fill(const options *o, kiln_arena *process, kiln_server_shell_options *out) {
    if (!o->tracker && !o->batch && !o->doctor)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "--tracker ADDR or --batch FOLDER is missing; see kiln-rpc-server --help");
    if (o->batch && (o->tracker || o->doctor))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--batch cannot be combined with --tracker or --doctor");
    char *home = NULL, *program = NULL;
    kiln_status st =
        o->tracker ? kiln_addresses_parse(kiln_str_from(o->tracker), &out->tracker) : NULL;
    if (!st) st = kiln_home(process, &home);
    if (!st) st = kiln_proc_self(process, &program);
    if (!st && o->require)
        st = kiln_status_note(kiln_fences_parse(kiln_str_from(o->require), &out->required),
                              "--require");
    if (st) return st;
    out->program = program;
    out->state_name = o->state ? o->state : kiln_arena_printf(process, "%s/rpc-server", home);
    out->state_folder = out->state_name;
    out->board = (kiln_board_options){.key = o->key,
                                      .labels = o->labels,
                                      .emulator = kiln_proc_emulator(process),
                                      .slots = (uint32_t)KILN_MIN(o->slots, UINT32_MAX),
                                      .also = o->also.item,
                                      .also_count = (uint32_t)o->also.count};
    out->builders =
        out->board.emulator ? 0 : o->builders; /* builders would be started without the emulator */
    if (o->builders != ALL && !kiln_board_builder_codegen())
        st = KILN_ERROR(INVALID_ARGUMENT, "--builders: this kiln-rpc-server has no compiler; "
                                          "configure it with -Dserver_build=enabled");
    if (!st && o->cluster) st = kiln_board_enter_cluster(o->cluster, process);
    if (!st && o->device.count && !o->executor)
        st = KILN_ERROR(INVALID_ARGUMENT, "--device needs --executor NAME");
    if (st || !o->executor) return st;
    out->board.executor = kiln_executor_find(kiln_str_from(o->executor));
    return out->board.executor ? read_devices(o, process, out) : no_executor(o->executor);
}

/* Reads the keys while this process has its rights; the launcher reads them again. */
static kiln_status meet_launcher(const options *o, kiln_arena *process,
                                 kiln_server_shell_options *out) {
    kiln_release_keys *keys = KILN_ARENA_NEW(process, kiln_release_keys);
    out->launcher = -1;
    if (!o->launched) return NULL;
    if (!o->release_keys)
        return KILN_ERROR(INVALID_ARGUMENT, KILN_LAUNCHED " is for the launcher of --release-keys");
    kiln_status st = kiln_launcher_read_keys(o->release_keys, keys);
    if (!st) st = kiln_launched_begin(STDIN_FILENO, process, &out->launch);
    if (st) return st;
    out->release_keys = keys;
    out->launcher = STDIN_FILENO;
    /* A new version runs from another file until it has confirmed. */
    out->program = "/proc/self/exe";
    return NULL;
}

/* Runs the server under a launcher, and exits as it does. */
static kiln_status launch(const options *o, kiln_arena *process) {
    kiln_release_keys keys;
    char *program = NULL;
    if (kiln_proc_emulator(process))
        return KILN_ERROR(UNIMPLEMENTED, "--release-keys: not under an emulator");
    if (!kiln_sign_supported())
        return KILN_ERROR(UNIMPLEMENTED,
                          "--release-keys: this kiln-rpc-server was built without OpenSSL");
    kiln_status st = kiln_launcher_read_keys(o->release_keys, &keys);
    if (!st) st = kiln_proc_self(process, &program);
    if (st) return st;
    const kiln_launcher_options launcher = {program, o->argv, o->release_keys};
    exit(kiln_launcher_run(&launcher, process)); /* the server has said why */
}

static kiln_status run_doctor(const kiln_server_shell_options *shell_options, kiln_arena *process) {
    kiln_strbuf text = {0};
    kiln_status st = kiln_doctor_run(shell_options, process, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

/* Starts the helper while this process still has all its rights. */
static kiln_status open_helper(const options *o, kiln_arena *process,
                               kiln_server_shell_options *out) {
    char *home = NULL;
    kiln_status st = kiln_home(process, &home);
    if (st) return st;
    const kiln_helper_options helper = {
        .program = out->program,
        .emulator = out->board.emulator,
        .label = out->state_name,
        .slots = KILN_MIN(KILN_MAX(out->board.slots, 1), KILN_SERVER_SLOTS_MAX) *
                     KILN_MAX(out->device_count, 1) +
                 out->board.also_count,
        .tracker = out->tracker,
        .home = home,
        .key_file = o->key_file,
        .insecure = o->insecure,
        .drivers = o->doctor || (out->board.executor && out->board.executor->driver),
        .power = o->power_cycle,
        .board = kiln_board_name(o->key, process)};
    return kiln_helper_open(&helper, &out->helper);
}

/* Gives up root's rights. From then on this process works in the state folder, which it can reach
 * even if it may not enter the folders above. */
static kiln_status split(kiln_server_shell_options *out) {
    if (geteuid() != 0) return NULL;
    const kiln_privilege_user user = kiln_privilege_find_user("/etc/passwd");
    kiln_status st = kiln_privilege_take_folder(out->state_name, user);
    if (st) return st;
    if (chdir(out->state_name) != 0)
        return KILN_ERROR(PERMISSION_DENIED, "%s: %s", out->state_name, strerror(errno));
    out->state_folder = ".";
    st = kiln_privilege_leave_root(user);
    out->is_split = !st;
    if (kiln_status_code(st) != KILN_PERMISSION_DENIED) return st;
    kiln_log(KILN_LOG_WARN, "everything runs as root: %s", kiln_status_text(st));
    kiln_status_free(st); /* the fence "split" is missing */
    return NULL;
}

/* Loads the figures of this machine's core, or measures and stores them at the first start. Figures
 * that cannot be stored are measured again at the next start. */
static void measure_core(const options *o, const kiln_server_shell_options *shell_options,
                         kiln_arena *process, kiln_board_options *board) {
    const char *folder = shell_options->state_folder;
    kiln_figures *figures = KILN_ARENA_NEW(process, kiln_figures);
    if (!o->measures || board->emulator || (board->executor && board->executor->driver)) return;
    kiln_status st = kiln_folder_create(folder, 0700);
    if (!st && !o->again) *figures = kiln_calibration_kept(folder, process);
    if (!st && kiln_figures_is_empty(figures)) {
        kiln_log(KILN_LOG_INFO, "measuring the core and its caches, once");
        *figures = kiln_calibrate_core().calibration;
        board->remeasured = o->again;
        st = kiln_calibration_keep(folder, figures, process);
    }
    board->figures = figures;
    if (st) kiln_log(KILN_LOG_WARN, "figures of the core are not kept: %s", kiln_status_text(st));
    kiln_status_free(st); /* whatever else needs the folder reports it */
}

/* A key file that cannot be used shows now, not in the log. Without --key-file the key may come
 * later. */
static kiln_status check_key(const options *o, const kiln_server_shell_options *shell_options) {
    const kiln_addresses *tracker = &shell_options->tracker;
    kiln_credentials credentials = {0};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && o->key_file && i < tracker->count; i++)
        if (!tracker->item[i].is_unix)
            st = kiln_helper_credentials(shell_options->helper, i, &credentials);
    explicit_bzero(&credentials, sizeof credentials);
    return kiln_status_note(st, "--key-file");
}

static kiln_status serve(const options *o, kiln_server_shell_options *shell_options,
                         kiln_arena *process) {
    kiln_server_shell *shell = NULL;
    kiln_privilege_clean_environment();
    kiln_status st = split(shell_options);
    if (st && !o->doctor) return st;
    kiln_status_free(st); /* the doctor reports what is wrong with the folder */
    st = o->doctor ? KILN_OK : check_key(o, shell_options);
    if (st) return st;
    if (!o->doctor) measure_core(o, shell_options, process, &shell_options->board);
    kiln_privilege_shut(shell_options->builders > 0 && kiln_board_builder_codegen());
    if (shell_options->is_split)
        shell_options->program = "/proc/self/exe"; /* it may not reach the path */
    if (o->doctor) return run_doctor(shell_options, process);
    st = kiln_server_shell_create(shell_options, &shell);
    if (!st) st = kiln_server_shell_run(shell);
    kiln_server_shell_destroy(shell);
    return st;
}

static kiln_status run(const void *given, kiln_arena *process) {
    options read = *(const options *)given;
    const options *o = &read;
    kiln_server_shell_options shell_options = {0};
    kiln_status st = read_calibrate(&read);
    if (!st && o->release_keys && !o->launched && !o->doctor && !o->batch)
        return launch(o, process);
    if (!st) st = fill(o, process, &shell_options);
    if (!st) st = meet_launcher(o, process, &shell_options);
    if (!st && o->batch) st = kiln_batch_open(o->batch, &shell_options.batch);
    if (!st) st = open_helper(o, process, &shell_options);
    if (!st) st = serve(o, &shell_options, process);
    kiln_helper_close(shell_options.helper);
    kiln_batch_close(shell_options.batch);
    return st;
}

int main(int argc, char **argv) {
    /* The helper, contained children and builders are this program, too; they take no other option.
     */
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    if (kiln_board_builder_is_asked(argc, argv)) return kiln_board_builder_main(argc, argv);
    options o = {.builders = ALL};
    if (argc > 1 && strcmp(argv[1], KILN_LAUNCHED) == 0) {
        o.launched = true;
        argv[1] = argv[0];
        argv++;
        argc--;
    }
    o.argv = argv + 1;
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "address of the tracker, HOST:PORT or unix:PATH; ADDR,ADDR,... with standby trackers"},
        {"batch", KILN_OPT_TEXT, &o.batch, "FOLDER",
         "measure the candidates that kiln batch wrote there, without a tracker, and exit"},
        {"key", KILN_OPT_TEXT, &o.key, "K", "name of this board (default: the host's name)"},
        {"labels", KILN_OPT_TEXT, &o.labels, "K=V,...", "properties that jobs may require"},
        {"cluster", KILN_OPT_TEXT, &o.cluster, "NAME",
         "measure only on the cores of this cluster: cortex-a76, big, little, ..."},
        {"state", KILN_OPT_TEXT, &o.state, "DIR",
         "cached blobs and identity (default $KILN_HOME/rpc-server)"},
        {"executor", KILN_OPT_TEXT, &o.executor, "NAME",
         "use only this executor (default: the one that an artefact names)"},
        {"device", KILN_OPT_LIST, &o.device, "DEVICE",
         "device of --executor to offer: its number (default 0), a part of its name, or, if it is "
         "simulated, a configuration (vta:CONFIG, or a file NAME.vta with one); may be repeated"},
        {"slots", KILN_OPT_COUNT, &o.slots, "N",
         "trials at the same time, each on cores of its own (per device with --device); they time "
         "one after the other where they would disturb each other (default 1)"},
        {"also", KILN_OPT_LIST, &o.also, "TARGET",
         "also offer this target, with a slot of its own; may be repeated"},
        {"builders", KILN_OPT_COUNT, &o.builders, "N",
         "processes that build candidates, if this program has a compiler (default: one per core "
         "on which nothing is timed)"},
        {"power-cycle", KILN_OPT_TEXT, &o.power_cycle, "COMMAND",
         "command that switches this board off and on; run if self-checks keep failing"},
        {"require", KILN_OPT_TEXT, &o.require, "F,...",
         "do not start without these fences, or `all` (base/fences.def)"},
        {"calibrate", KILN_OPT_TEXT, &o.calibrate, "WHEN",
         "measure this machine's core for cost models: once (default), again (replaces what this "
         "board and the tracker stored), or never"},
        {"key-file", KILN_OPT_TEXT, &o.key_file, "F",
         "key for the tracker (default $KILN_HOME/key; on this machine none is needed)"},
        {"release-keys", KILN_OPT_TEXT, &o.release_keys, "F",
         "take releases signed with a key in this file (kiln fleet upgrade): a launcher then runs "
         "the server and replaces its program"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, "connect in plain text, without a key"},
        {"doctor", KILN_OPT_FLAG, &o.doctor, NULL,
         "print what keeps this machine from being a good board, and exit"},
    };
    const kiln_daemon daemon = {
        .program = {.name = "kiln-rpc-server",
                    .level = KILN_LOG_INFO,
                    .protocol_min = KILN_PROTO_VERSION_MIN,
                    .protocol_max = KILN_PROTO_VERSION_MAX,
                    .codegen = kiln_board_builder_codegen()},
        .table = {.usage = "kiln-rpc-server --tracker ADDR|--batch FOLDER [options]",
                  .summary = "Offers this machine to a tracker: receives candidates, and links, "
                             "checks and times each in a sandboxed process of its own.",
                  .option = option,
                  .option_count = KILN_ARRAY_COUNT(option)},
        .run = run,
        .options = &o,
    };
    return kiln_daemon_main(&daemon, argc, argv);
}
