#include "rpc-server/board.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/target.h"
#include "base/vec.h"
#include "rpc-server/discover.h"

#define OWN_LABELS 2      /* peak_gflops, builds */
#define REFERENCE_FACTS 2 /* which the shell adds */

typedef KILN_VEC(kiln_msg_label) label_list;

static void add_label(kiln_arena *arena, label_list *labels, const char *key, const char *value) {
    kiln_msg_label label = {kiln_str_from(key), kiln_str_from(value)};
    kiln_vec_push_in(arena, labels, label);
}

static kiln_status parse_labels(const char *text, kiln_arena *arena, label_list *labels) {
    kiln_str rest = kiln_str_from(text);
    while (rest.size > 0) {
        kiln_str item = kiln_str_trim(kiln_str_cut(&rest, ','));
        kiln_str value = item, key = kiln_str_cut(&value, '=');
        if (key.size == 0 || value.size == 0 || key.size > KILN_MESSAGES_TEXT ||
            value.size > KILN_MESSAGES_KEY)
            return KILN_ERROR(INVALID_ARGUMENT, "label \"%.*s\" is not of the form name=value",
                              KILN_STR_ARG(item));
        if (labels->count == KILN_MESSAGES_LABELS - OWN_LABELS)
            return KILN_ERROR(INVALID_ARGUMENT, "more than %d labels",
                              KILN_MESSAGES_LABELS - OWN_LABELS);
        add_label(arena, labels, kiln_str_dup(arena, key), kiln_str_dup(arena, value));
    }
    return NULL;
}

static kiln_str executor_names(const kiln_executor *only, kiln_arena *arena) {
    if (only) return kiln_str_from(only->name);
    const char *names = "";
    for (uint32_t i = 0; i < kiln_executor_count(); i++) {
        const kiln_executor *executor = kiln_executor_at(i);
        /* Devices with drivers are offered by servers of their own (--executor). */
        if (!kiln_executor_is_of_kind(executor) ||
            (executor->driver && executor->driver->folder_bytes))
            continue;
        names = kiln_arena_printf(arena, "%s%s%s", names, *names ? "," : "", executor->name);
    }
    return kiln_str_from(names);
}

/* Describes the machine. Under an emulator the files in /proc describe the host, not the board, and
 * its times must never pass for those of a real board. */
static void describe_machine(const kiln_board_options *options, const struct utsname *system,
                             kiln_arena *arena, kiln_msg_board_up *board) {
    kiln_machine machine = {0};
    board->device = kiln_str_from(kiln_arena_printf(arena, "emulated %s", system->machine));
    board->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (options->emulator) return;
    kiln_msg_label *fact = NULL;
    kiln_machine_discover(options->root ? options->root : "", arena, &machine);
    board->facts.count = kiln_machine_facts(&machine, arena, &fact);
    board->facts.item = fact;
    board->device = kiln_str_slice(machine.model, 0, KILN_MESSAGES_NAME);
    if (machine.memory_bytes) board->memory_bytes = machine.memory_bytes;
}

/* This machine's target, with as many threads as usable cores, because it serves kernels with fewer
 * threads, too. */
static kiln_status native_target(bool emulated, kiln_arena *arena, kiln_str *out_target) {
    kiln_target target;
    kiln_status st = kiln_target_native(arena, &target);
    if (st) return st;
    target.emulated = emulated;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    target.threads = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    /* The tracker divides this number among slots, so cores that this process may not use do not
     * count. */
    target.cores = KILN_MIN(target.cores, target.threads);
    kiln_strbuf text = {0};
    kiln_target_print(&target, &text);
    kiln_str view = kiln_strbuf_view(&text);
    *out_target = (kiln_str){kiln_str_dup(arena, view), view.size};
    kiln_strbuf_deinit(&text);
    return NULL;
}

static void add_fact(kiln_arena *arena, kiln_msg_board_up *board, const char *name,
                     kiln_str value) {
    kiln_msg_label *fact = KILN_ARENA_ARRAY(arena, kiln_msg_label, KILN_MESSAGES_FACTS);
    value = kiln_str_slice(value, 0, KILN_MESSAGES_KEY);
    if (value.size == 0 || board->facts.count + REFERENCE_FACTS >= KILN_MESSAGES_FACTS) return;
    memcpy(fact, board->facts.item, board->facts.count * sizeof *fact);
    fact[board->facts.count++] = (kiln_msg_label){kiln_str_from(name), value};
    board->facts.item = fact;
}

/* `system`: the operating system. Times depend on it and on the driver. */
static kiln_msg_board_target offer(const kiln_found_device *device, uint32_t slots, kiln_str system,
                                   kiln_arena *arena) {
    const char *firmware =
        kiln_arena_printf(arena, "%.*s, %.*s", KILN_STR_ARG(system), KILN_STR_ARG(device->driver));
    return (kiln_msg_board_target){
        .target = device->target_text,
        .slots = slots,
        .device = kiln_str_slice(device->name, 0, KILN_MESSAGES_KEY),
        .firmware = kiln_str_slice(kiln_str_from(firmware), 0, KILN_MESSAGES_KEY)};
}

/* The first device takes the processor's place in BOARD_UP, and its facts are added to the
 * machine's. */
static kiln_status describe_devices(const kiln_board_options *options, kiln_arena *arena,
                                    kiln_msg_board_up *board) {
    const kiln_found_device *first = &options->device[0];
    if (options->also_count > 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--also needs a server that offers the processor; this one offers only "
                          "devices of --executor %s",
                          options->executor->name);
    if (options->device_count > KILN_MESSAGES_TARGETS + 1)
        return KILN_ERROR(INVALID_ARGUMENT, "a board offers at most %d devices",
                          KILN_MESSAGES_TARGETS + 1);
    const kiln_str system = board->firmware;
    const kiln_msg_board_target own = offer(first, board->slots, system, arena);
    board->target = own.target;
    board->device = own.device;
    board->firmware = own.firmware;
    if (first->memory_bytes) board->memory_bytes = first->memory_bytes;
    add_fact(arena, board, "device", first->name);
    add_fact(arena, board, "driver", first->driver);
    add_fact(arena, board, "state", first->management);
    kiln_msg_board_target *other =
        KILN_ARENA_ARRAY(arena, kiln_msg_board_target, options->device_count);
    for (uint32_t i = 1; i < options->device_count; i++)
        other[i - 1] = offer(&options->device[i], board->slots, system, arena);
    board->targets.item = other;
    board->targets.count = options->device_count - 1;
    return NULL;
}

/* Describes a further target of this machine, with one slot. */
static kiln_status describe_also(const char *text, const kiln_target *own, kiln_arena *arena,
                                 kiln_msg_board_target *out) {
    kiln_target target;
    kiln_strbuf canonical = {0};
    kiln_status st = kiln_target_parse(kiln_str_from(text), arena, &target);
    if (st) return st;
    if (target.kind == own->kind)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: the server already offers a target of that kind",
                          text);
    const kiln_executor *executor = kiln_executor_for(kiln_payload_of(target.kind));
    if (executor && !kiln_target_is_software(&target))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "%s: a device with a driver has a server of its own: --executor %s", text,
                          executor->name);
    if (!executor)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: this server has no executor for %s targets", text,
                          kiln_target_kind_name(target.kind));
    kiln_target_print(&target, &canonical);
    *out = (kiln_msg_board_target){
        .target = {kiln_str_dup(arena, kiln_strbuf_view(&canonical)), canonical.size},
        .slots = 1,
        .device = kiln_str_from(kiln_target_kind_doc(target.kind))};
    kiln_strbuf_deinit(&canonical);
    return KILN_OK;
}

static kiln_status describe_others(const kiln_board_options *options, kiln_str own_text,
                                   kiln_arena *arena, kiln_msg_board_up *board) {
    kiln_target own;
    kiln_status st = kiln_target_parse(own_text, arena, &own);
    if (!st && options->also_count > KILN_MESSAGES_TARGETS)
        st = KILN_ERROR(INVALID_ARGUMENT, "a board offers at most %d targets beside its own",
                        KILN_MESSAGES_TARGETS);
    if (st) return st;
    kiln_msg_board_target *other =
        KILN_ARENA_ARRAY(arena, kiln_msg_board_target, options->also_count);
    for (uint32_t i = 0; !st && i < options->also_count; i++)
        st = describe_also(options->also[i], &own, arena, &other[i]);
    board->targets.item = other;
    board->targets.count = options->also_count;
    return st;
}

const char *kiln_board_name(const char *key, kiln_arena *arena) {
    struct utsname system;
    uname(&system); /* cannot fail */
    const kiln_str name = kiln_str_from(key ? key : system.nodename);
    return kiln_str_dup(arena, kiln_str_slice(name, 0, KILN_MESSAGES_NAME));
}

static void describe_figures(const kiln_board_options *options, kiln_arena *arena,
                             kiln_msg_board_up *board) {
    kiln_strbuf bytes = {0};
    if (!options->figures) return;
    kiln_figures_encode(options->figures, &bytes);
    board->figures = kiln_strbuf_end(&bytes, arena);
    board->remeasured = options->remeasured;
}

kiln_status kiln_board_describe(const kiln_board_options *options, kiln_arena *arena,
                                kiln_msg_board_up *out_board) {
    struct utsname system;
    uname(&system);
    label_list labels = {0};
    kiln_str target;
    kiln_status st = native_target(options->emulator != NULL, arena, &target);
    if (!st && options->labels) st = parse_labels(options->labels, arena, &labels);
    if (st) return st;

    add_label(arena, &labels, "peak_gflops",
              kiln_arena_printf(arena, "%.1f", options->peak_flops / 1e9));
    if (options->builds) add_label(arena, &labels, KILN_LABEL_BUILDS, options->builds);
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    *out_board = (kiln_msg_board_up){
        .key = kiln_str_from(kiln_board_name(options->key, arena)),
        .target = target,
        .slots = KILN_MAX(options->slots, 1),
        .firmware =
            kiln_str_slice(kiln_str_from(kiln_arena_printf(arena, "%s %s %s", system.sysname,
                                                           system.release, system.machine)),
                           0, KILN_MESSAGES_NAME),
        .executors = executor_names(options->executor, arena),
        .labels = {labels.data, labels.count},
        .env = kiln_machine_read_env(options->root ? options->root : "", core[0], arena),
    };
    describe_figures(options, arena, out_board);
    describe_machine(options, &system, arena, out_board);
    if (options->device_count > 0) return describe_devices(options, arena, out_board);
    return describe_others(options, target, arena, out_board);
}

kiln_status kiln_board_enter_cluster(const char *name, kiln_arena *arena) {
    kiln_machine machine;
    kiln_machine_discover("", arena, &machine);
    const kiln_cluster *cluster = kiln_machine_find_cluster(&machine, kiln_str_from(name));
    if (!cluster) {
        kiln_strbuf there = {0};
        kiln_machine_print_clusters(&machine, &there);
        kiln_status st =
            KILN_ERROR(INVALID_ARGUMENT, "no cluster is named %s; this machine has %s, big, little",
                       name, there.data ? there.data : "no");
        kiln_strbuf_deinit(&there);
        return st;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < cluster->core_count; i++) CPU_SET(cluster->core[i], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return KILN_ERROR(PERMISSION_DENIED, "this process may not use the cores of cluster %s: %s",
                          name, strerror(errno));
    return NULL;
}

kiln_msg_env kiln_board_read_env(uint32_t core, kiln_arena *arena) {
    return kiln_machine_read_env("", core, arena);
}

uint32_t kiln_board_cores(uint32_t *out_core, uint32_t limit) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
    uint32_t count = 0;
    for (int core = CPU_SETSIZE - 1; core >= 0 && count < limit; core--)
        if (CPU_ISSET(core, &set)) out_core[count++] = (uint32_t)core;
    return count;
}
