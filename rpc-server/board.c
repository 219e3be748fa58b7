#include "rpc-server/board.h"

#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/target.h"
#include "base/vec.h"

/* Whole content, trimmed; empty when it cannot be read. */
static kiln_str read_text(const char *path, kiln_arena *arena) {
    kiln_str content = {0};
    kiln_status st = kiln_file_read_system(path, arena, &content);
    kiln_status_free(st); /* a file that this platform has not */
    return kiln_str_trim(content);
}

static bool read_number(const char *path, kiln_arena *arena, uint64_t *out_number) {
    return kiln_str_to_u64(read_text(path, arena), out_number);
}

/* The value after "name\t: " in /proc/cpuinfo and the like; empty when there is no such line. */
static kiln_str find_line(kiln_str text, const char *name) {
    while (text.size > 0) {
        kiln_str line = kiln_str_cut(&text, '\n');
        kiln_str key = kiln_str_trim(kiln_str_cut(&line, ':'));
        if (kiln_str_is(key, name)) return kiln_str_trim(line);
    }
    return (kiln_str){0};
}

static kiln_str device_model(kiln_arena *arena) {
    kiln_str model = read_text("/proc/device-tree/model", arena);
    if (model.size > 0 && model.data[model.size - 1] == '\0') model.size--;
    if (model.size == 0) model = find_line(read_text("/proc/cpuinfo", arena), "model name");
    return kiln_str_slice(model, 0, KILN_MESSAGES_NAME);
}

/* Files speak of the machine that emulates; its times must never be taken for those of a board. */
static kiln_str emulated_model(const struct utsname *system, kiln_arena *arena) {
    return kiln_str_from(kiln_arena_printf(arena, "emulated %s", system->machine));
}

static void read_clock(uint32_t core, kiln_arena *arena, kiln_msg_env *env) {
    const char *folder = kiln_arena_printf(arena, "/sys/devices/system/cpu/cpu%u/cpufreq", core);
    read_number(kiln_arena_printf(arena, "%s/scaling_cur_freq", folder), arena,
                &env->frequency_khz);
    env->governor =
        kiln_str_slice(read_text(kiln_arena_printf(arena, "%s/scaling_governor", folder), arena), 0,
                       KILN_MESSAGES_NAME);
}

static void read_temperature(kiln_arena *arena, kiln_msg_env *env) {
    uint64_t temperature = 0;
    for (uint32_t zone = 0; zone < 64; zone++) {
        const char *path = kiln_arena_printf(arena, "/sys/class/thermal/thermal_zone%u/temp", zone);
        if (!kiln_file_exists(path)) break; /* they are numbered without gaps */
        if (read_number(path, arena, &temperature))
            env->temperature_mc = KILN_MAX(env->temperature_mc, temperature);
    }
}

/* Bits of a Raspberry Pi's firmware that speak of now; the others remember what once was. */
#define THROTTLED_NOW 0xfu

static void read_throttling(uint32_t core, kiln_arena *arena, kiln_msg_env *env) {
    kiln_str bits = read_text("/sys/devices/platform/soc/soc:firmware/get_throttled", arena);
    uint64_t number = 0;
    if (bits.size > 0 &&
        kiln_str_to_u64(
            (kiln_str){kiln_arena_printf(arena, "0x%.*s", KILN_STR_ARG(bits)), bits.size + 2},
            &number))
        env->throttle_bits = (uint32_t)number & THROTTLED_NOW;
    read_number(
        kiln_arena_printf(
            arena, "/sys/devices/system/cpu/cpu%u/thermal_throttle/core_throttle_count", core),
        arena, &env->throttle_count);
}

kiln_msg_env kiln_board_read_env(uint32_t core, kiln_arena *arena) {
    kiln_msg_env env = {0};
    read_clock(core, arena, &env);
    read_temperature(arena, &env);
    read_throttling(core, arena, &env);
    kiln_str load = read_text("/proc/loadavg", arena);
    double average = 0;
    if (kiln_str_to_f64(kiln_str_cut(&load, ' '), &average))
        env.load_milli = (uint32_t)(average * 1000);
    return env;
}

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
        if (key.size == 0 || value.size == 0 || key.size > KILN_MESSAGES_NAME ||
            value.size > KILN_MESSAGES_NAME)
            return KILN_ERROR(INVALID_ARGUMENT, "label \"%.*s\" is not of the form name=value",
                              KILN_STR_ARG(item));
        if (labels->count == 32) return KILN_ERROR(INVALID_ARGUMENT, "more than 32 labels");
        add_label(arena, labels, kiln_str_dup(arena, key), kiln_str_dup(arena, value));
    }
    return NULL;
}

static kiln_str executor_names(const kiln_executor *only, kiln_arena *arena) {
    if (only) return kiln_str_from(only->name);
    const char *names = "";
    for (uint32_t i = 0; i < kiln_executor_count(); i++) {
        const kiln_executor *executor = kiln_executor_at(i);
        if (executor->payload == KILN_PAYLOAD_NONE) continue;
        names = kiln_arena_printf(arena, "%s%s%s", names, *names ? "," : "", executor->name);
    }
    return kiln_str_from(names);
}

/* This machine's target with all cores that may be used as threads: what a kernel for fewer fits
 * into. */
static kiln_status native_target(kiln_arena *arena, kiln_str *out_target) {
    kiln_target target;
    kiln_status st = kiln_target_native(arena, &target);
    if (st) return st;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    target.threads = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    /* The tracker shares cores out between slots by this number: those that we may not use are
     * none. */
    target.cores = KILN_MIN(target.cores, target.threads);
    kiln_strbuf text = {0};
    kiln_target_print(&target, &text);
    kiln_str view = kiln_strbuf_view(&text);
    *out_target = (kiln_str){kiln_str_dup(arena, view), view.size};
    kiln_strbuf_deinit(&text);
    return NULL;
}

kiln_status kiln_board_describe(const kiln_board_options *options, kiln_arena *arena,
                                kiln_msg_board_up *out_board) {
    struct utsname system;
    uname(&system);
    label_list labels = {0};
    kiln_str target;
    kiln_status st = native_target(arena, &target);
    if (!st && options->labels) st = parse_labels(options->labels, arena, &labels);
    if (st) return st;

    add_label(arena, &labels, "peak_gflops",
              kiln_arena_printf(arena, "%.1f", options->peak_flops / 1e9));
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    const char *key = options->key ? options->key : kiln_arena_printf(arena, "%s", system.nodename);
    *out_board = (kiln_msg_board_up){
        .key = kiln_str_slice(kiln_str_from(key), 0, KILN_MESSAGES_NAME),
        .target = target,
        .slots = KILN_MAX(options->slots, 1),
        .device = options->emulator ? emulated_model(&system, arena) : device_model(arena),
        .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
        .firmware =
            kiln_str_slice(kiln_str_from(kiln_arena_printf(arena, "%s %s %s", system.sysname,
                                                           system.release, system.machine)),
                           0, KILN_MESSAGES_NAME),
        .executors = executor_names(options->executor, arena),
        .labels = {labels.data, labels.count},
        .env = kiln_board_read_env(core[0], arena),
    };
    return NULL;
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
