#include "cli/worker/private_fleet.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/common/names.h"
#include "deploy/runtime/device.h"

#define STOP_NS (UINT64_C(5) * KILN_NS_PER_S) /* before a program that does not stop is killed */
#define SOCKET_NAME "/tracker.sock"
#define LOG_BYTES_MAX ((size_t)1 << 20)

typedef enum member {
    RPC_SERVER,
    TUNER,
    TRACKER,
    MEMBER_COUNT
} member; /* in the order of stopping */

static const char *const member_name[] = {"kiln-rpc-server", "kiln-tuner", "kiln-tracker"};

struct kiln_private_fleet {
    kiln_arena *process;
    char *folder, *address;
    int folder_fd;
    kiln_child child[MEMBER_COUNT];
    cpu_set_t cores; /* of this process before it left one to measurements */
    bool moved;
};

static char *log_path(const kiln_private_fleet *f, member m) {
    return kiln_arena_printf(f->process, "%s/%s.log", f->folder, member_name[m]);
}

static kiln_status start(kiln_private_fleet *f, member m, const char *const *options) {
    const char *argv[20];
    size_t count = 0;
    char *program = NULL;
    kiln_status st = kiln_proc_sibling(member_name[m], f->process, &program);
    if (st) return st;
    argv[count++] = program;
    argv[count++] = "--with-parent";
    argv[count++] = "--config"; /* it is nobody's lasting fleet */
    argv[count++] = "none";
    while (*options) argv[count++] = *options++;
    argv[count] = NULL;
    kiln_child_options child = {.argv = argv, .error_path = log_path(f, m)};
    return kiln_child_start(&child, &f->child[m]);
}

/* Takes this process, and what it starts from now on, off the core that the rpc-server measures on,
 * which is the highest. Proposing and talking would otherwise land there whenever a builder is
 * busy. */
static void leave_the_measuring_core(kiln_private_fleet *f) {
    cpu_set_t rest;
    if (sched_getaffinity(0, sizeof f->cores, &f->cores) != 0 || CPU_COUNT(&f->cores) < 2) return;
    rest = f->cores;
    int highest = CPU_SETSIZE - 1;
    while (!CPU_ISSET((size_t)highest, &rest)) highest--;
    CPU_CLR((size_t)highest, &rest);
    f->moved = sched_setaffinity(0, sizeof rest, &rest) == 0;
}

#define OFFER_ARGS 4

/* What a server offers besides, or in place of the processor: options and their values;
 * NULL-terminated. Errors of kiln_device_find. */
static kiln_status choose_device(const kiln_target *target, kiln_arena *process,
                                 const char *out[OFFER_ARGS + 1]) {
    const kiln_device_row *row = kiln_device_row_for(kiln_payload_of(target->kind));
    const char *executor = kiln_target_kind_executor(target->kind);
    kiln_strbuf text = {0};
    uint32_t index = 0;
    if (kiln_str_is(kiln_str_from(executor), "cpu")) return KILN_OK;
    if (kiln_target_is_software(target)) {
        kiln_target_print(target, &text);
        out[0] = "--also";
        out[1] = kiln_str_dup(process, kiln_strbuf_view(&text));
        kiln_strbuf_deinit(&text);
        return KILN_OK;
    }
    kiln_status st = row ? kiln_device_find(row, target, &index) : KILN_OK;
    out[0] = "--executor";
    out[1] = executor;
    out[2] = "--device";
    out[3] = kiln_arena_printf(process, "%u", index);
    return st;
}

kiln_status kiln_private_fleet_start(const kiln_private_fleet_options *options, kiln_arena *process,
                                     kiln_private_fleet **out_fleet) {
    kiln_private_fleet *f = KILN_ARENA_NEW(process, kiln_private_fleet);
    f->process = process;
    const size_t path_max = sizeof((struct sockaddr_un *)0)->sun_path - sizeof SOCKET_NAME;
    kiln_status st =
        kiln_folder_hold_temp(KILN_COMMAND_FOLDER, path_max, process, &f->folder, &f->folder_fd);
    if (st) return st;
    f->address = kiln_arena_printf(process, "unix:%s" SOCKET_NAME, f->folder);
    const char *tracker[] = {"--listen", f->address, "--state",
                             kiln_arena_printf(process, "%s/tracker", f->folder), NULL};
    const char *tuner[] = {"--tracker", f->address,
                           "--db",      options->db_path,
                           "--state",   kiln_arena_printf(process, "%s/tuner", f->folder),
                           NULL};
    const char *device[OFFER_ARGS + 1] = {NULL};
    if (options->target) st = choose_device(options->target, process, device);
    const char *server[] = {"--tracker",   f->address,
                            "--key",       "this-machine",
                            "--state",     kiln_arena_printf(process, "%s/rpc-server", f->folder),
                            "--calibrate", options->calibrates ? "once" : "never",
                            device[0],     device[1],
                            device[2],     device[3],
                            NULL};
    /* First, while every core is there; it waits for the tracker. */
    if (!st) st = start(f, RPC_SERVER, server);
    if (!st) leave_the_measuring_core(f);
    if (!st) st = start(f, TRACKER, tracker);
    if (!st) st = start(f, TUNER, tuner);
    if (st) {
        kiln_private_fleet_stop(f);
        return kiln_status_note(st, "starting the private fleet");
    }
    *out_fleet = f;
    return KILN_OK;
}

const char *kiln_private_fleet_address(const kiln_private_fleet *fleet) { return fleet->address; }

/* The last non-empty line that a program logged. */
static kiln_str last_words(kiln_private_fleet *f, member m) {
    kiln_str content = {0}, last = KILN_STR("it left no message");
    kiln_status st = kiln_file_read(log_path(f, m), LOG_BYTES_MAX, f->process, &content);
    kiln_status_free(st); /* then there are no words */
    while (content.size) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&content, '\n'));
        if (line.size) last = line;
    }
    return last;
}

kiln_status kiln_private_fleet_check(kiln_private_fleet *fleet) {
    for (member m = 0; m < MEMBER_COUNT; m++) {
        kiln_child_exit how;
        if (!kiln_child_ended(&fleet->child[m], &how)) continue;
        return KILN_ERROR(UNAVAILABLE, "%s of the private fleet ended (%s %d): %.*s",
                          member_name[m], how.signal ? "signal" : "exit code",
                          how.signal ? how.signal : how.code, KILN_STR_ARG(last_words(fleet, m)));
    }
    return KILN_OK;
}

const char *kiln_private_fleet_stop(kiln_private_fleet *f) {
    const char *crashed = NULL;
    if (!f) return NULL;
    for (member m = 0; m < MEMBER_COUNT; m++) {
        kiln_child_exit how = {0};
        uint64_t end_ns = kiln_clock_ns() + STOP_NS;
        kiln_child_stop(&f->child[m]);
        while (f->child[m].pid && !kiln_child_ended(&f->child[m], &how) && kiln_clock_ns() < end_ns)
            kiln_clock_wait_until(kiln_clock_ns() + KILN_NS_PER_MS);
        if (how.signal) crashed = member_name[m];
        kiln_child_destroy(&f->child[m]);
    }
    if (f->moved) sched_setaffinity(0, sizeof f->cores, &f->cores);
    /* A temporary folder that stays harms nobody. */
    kiln_status_free(kiln_folder_remove(f->folder));
    close(f->folder_fd);
    return crashed;
}
