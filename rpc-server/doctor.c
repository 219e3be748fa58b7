#include "rpc-server/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/macros.h"
#include "base/target.h"
#include "deploy/runtime/peak.h"
#include "rpc-server/board.h"
#include "rpc-server/board_connection.h"
#include "rpc-server/child_process.h"
#include "rpc-server/discover.h"
#include "rpc-server/doctor_drivers.h"
#include "rpc-server/drift.h"
#include "rpc-server/executor.h"

/* 2024-01-01: a board without a battery starts in 1970 until it receives the time. */
#define CLOCK_LEAST_S UINT64_C(1704067200)
#define CLOCK_ADDITIONS 80000u /* 25 us at 3.2 GHz */
#define CLOCK_ROUNDS 20u
#define TRACKER_NS (UINT64_C(20) * KILN_NS_PER_S)

typedef enum verdict { FINE, NOTE, BAD } verdict;

typedef struct doctor {
    const kiln_server_shell_options *options;
    kiln_arena *arena;
    kiln_machine machine;
    kiln_strbuf found; /* text of the current check */
} doctor;

/* Moves the status' text into `found`. */
static verdict from_status(doctor *d, kiln_status st) {
    if (!st) return FINE;
    kiln_strbuf_text(&d->found, kiln_status_text(st));
    kiln_status_free(st);
    return BAD;
}

static verdict check_processor(doctor *d) {
    kiln_target target;
    kiln_status st = kiln_target_native(d->arena, &target);
    if (st) return from_status(d, st);
    kiln_target_print(&target, &d->found);
    if (kiln_target_native_limit())
        kiln_strbuf_text(&d->found, ", held to that level by " KILN_NATIVE_VARIABLE);
    const char *tiles = kiln_target_native_tiles();
    if (tiles) kiln_strbuf_printf(&d->found, "; it %s", tiles);
    if (!d->options->board.emulator) return tiles ? NOTE : FINE;
    kiln_strbuf_printf(&d->found, ", emulated by %s: times say nothing",
                       d->options->board.emulator);
    return NOTE;
}

static verdict check_caches(doctor *d) {
    const kiln_machine *m = &d->machine;
    if (m->l1_bytes == 0) {
        kiln_strbuf_text(&d->found, "this system does not report it");
        return FINE;
    }
    kiln_strbuf_printf(&d->found, "%llu KiB, %llu KiB, %llu KiB; lines of %llu bytes",
                       (unsigned long long)m->l1_bytes / 1024,
                       (unsigned long long)m->l2_bytes / 1024,
                       (unsigned long long)m->l3_bytes / 1024, (unsigned long long)m->line_bytes);
    return FINE;
}

/* The core that a server with one slot would time on. */
static uint32_t measuring_core(void) {
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    return core[0];
}

/* Cycles per second, measured by dependent additions, which take one cycle each on every core. */
static double clock_hz(void) {
    uint64_t least_ns = UINT64_MAX;
    for (uint32_t round = 0; round < CLOCK_ROUNDS; round++) {
        uint64_t sum = round;
        const uint64_t begin_ns = kiln_clock_precise_ns();
        for (uint32_t i = 0; i < CLOCK_ADDITIONS / 8; i++)
            for (uint32_t k = 0; k < 8; k++) {
                sum += k + 1;
                __asm__ volatile("" : "+r"(sum)); /* else the compiler merges them */
            }
        least_ns = KILN_MIN(least_ns, kiln_clock_precise_ns() - begin_ns);
    }
    return (double)CLOCK_ADDITIONS / (double)KILN_MAX(least_ns, 1) * 1e9;
}

static verdict check_speed(doctor *d) {
    kiln_strbuf_printf(&d->found, "%.2f GHz, multiply-add peak %.1f GFLOP/s on one core",
                       clock_hz() / 1e9, kiln_peak_flops() / 1e9);
    return FINE;
}

static verdict check_measuring(doctor *d) {
    kiln_reference_kernel_round round[KILN_DRIFT_START];
    kiln_status st = kiln_reference_kernel_watch(measuring_core(), KILN_DRIFT_START, round);
    if (st) return from_status(d, st);
    const kiln_reference_kernel_norm norm = kiln_reference_kernel_norm_of(round, KILN_DRIFT_START);
    kiln_strbuf_text(&d->found, "arithmetic ");
    kiln_part_norm_print(&norm.arithmetic, &d->found);
    kiln_strbuf_text(&d->found, "; memory ");
    kiln_part_norm_print(&norm.memory, &d->found);
    if (norm.arithmetic.use == KILN_PART_USED || norm.memory.use == KILN_PART_USED) return FINE;
    kiln_strbuf_text(&d->found, ": a disturbed machine will not be noticed");
    return NOTE;
}

static verdict check_new_code(doctor *d) {
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool may = page != MAP_FAILED && mprotect(page, size, PROT_READ | PROT_EXEC) == 0;
    if (!may)
        kiln_strbuf_printf(&d->found,
                           "memory cannot become executable (%s): a policy of the system (SELinux, "
                           "MemoryDenyWriteExecute=) forbids it",
                           strerror(errno));
    if (page != MAP_FAILED) munmap(page, size);
    return may ? FINE : BAD;
}

static verdict check_state(doctor *d) {
    const char *folder = d->options->state_folder;
    const char *probe = kiln_arena_printf(d->arena, "%s/doctor-probe", folder);
    kiln_status st = kiln_folder_create(folder, 0700);
    if (!st) st = kiln_file_write(probe, KILN_STR("x"), 0600);
    unlink(probe);
    if (!st) kiln_strbuf_printf(&d->found, "%s can be written", d->options->state_name);
    return from_status(d, st);
}

static verdict check_device(doctor *d) {
    const kiln_executor *executor = d->options->board.executor;
    kiln_found_device found;
    if (!executor || !executor->driver) {
        kiln_strbuf_text(&d->found, "none was named; --executor NAME tries one with a driver");
        return FINE;
    }
    const kiln_str wanted = kiln_str_from(d->options->device_count ? d->options->device[0] : "0");
    kiln_status st = kiln_find_device_named(d->options->helper, executor, wanted, d->arena, &found);
    if (!st)
        kiln_strbuf_printf(&d->found, "%.*s: %.*s, %.*s", KILN_STR_ARG(found.target_text),
                           KILN_STR_ARG(found.name), KILN_STR_ARG(found.driver));
    if (!st && found.management.size)
        kiln_strbuf_printf(&d->found, "; %.*s", KILN_STR_ARG(found.management));
    return from_status(d, st);
}

static verdict check_fences(doctor *d) {
    kiln_child_pool pool = {.helper = d->options->helper,
                            .folder =
                                kiln_arena_printf(d->arena, "%s/doctor", d->options->state_folder)};
    kiln_strbuf missing = {0};
    const kiln_executor *executor = d->options->board.executor;
    const kiln_driver *driver = executor ? executor->driver : NULL;
    kiln_status st = kiln_child_pool_open(&pool, &driver, driver ? 1 : 0);
    kiln_child_pool_close(&pool);
    if (kiln_status_code(st) == KILN_PERMISSION_DENIED)
        st = kiln_status_note(st, "is %s on a file system mounted noexec?", d->options->program);
    if (st) return from_status(d, st);
    if (d->options->is_split) pool.fences |= 1U << KILN_FENCE_SPLIT;
    kiln_fences_print(KILN_FENCES_ALL & ~pool.fences, &missing);
    if (missing.size)
        kiln_strbuf_printf(&d->found,
                           "candidates are contained without %s, which this system refuses",
                           missing.data);
    verdict result = missing.size ? NOTE : FINE;
    kiln_strbuf_deinit(&missing);
    return result;
}

static verdict check_clock(doctor *d) {
    if (kiln_clock_wall_ns() / KILN_NS_PER_S >= CLOCK_LEAST_S) return FINE;
    kiln_strbuf_text(&d->found,
                     "the date is wrong, and records will have it: timedatectl set-ntp true");
    return NOTE;
}

static verdict check_governor(doctor *d) {
    kiln_str governor = d->machine.governor;
    kiln_strbuf_str(&d->found, governor);
    if (governor.size == 0 || kiln_str_is(governor, "performance")) return FINE;
    kiln_strbuf_text(&d->found,
                     ": the clock changes while kernels are timed; write performance into "
                     "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
    return NOTE;
}

static verdict check_throttling(doctor *d) {
    kiln_msg_label *facts = NULL;
    uint32_t count = kiln_machine_facts(&d->machine, d->arena, &facts);
    for (uint32_t i = 0; i < count; i++) {
        if (!kiln_str_is(facts[i].key, "throttled")) continue;
        kiln_strbuf_printf(&d->found,
                           "since the start there was %.*s: a stronger supply, a heat sink",
                           KILN_STR_ARG(facts[i].value));
        return NOTE;
    }
    return FINE;
}

/* ---- The tracker ----------------------------------------------------------------------------- */

typedef struct visit {
    kiln_loop *loop;
    kiln_conn *conn;
    bool open;
    kiln_status why; /* owned: how it ended */
} visit;

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)conn, (void)hello, (void)welcome;
    visit *v = context;
    v->open = true;
    kiln_loop_stop(v->loop);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)context, (void)conn, (void)message;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    visit *v = context;
    (void)conn;
    v->conn = NULL;
    if (v->open || v->why) return;
    v->why =
        kiln_status_make(kiln_status_code(why), __FILE__, __LINE__, "%s", kiln_status_text(why));
    kiln_loop_stop(v->loop);
}

static void on_late(void *context) {
    visit *v = context;
    v->why = KILN_ERROR(UNAVAILABLE, "no answer in %u s: a firewall, or no tracker",
                        (unsigned)(TRACKER_NS / KILN_NS_PER_S));
    kiln_loop_stop(v->loop);
}

static kiln_status visit_tracker(doctor *d, const kiln_address *address,
                                 kiln_credentials *credentials, int socket_fd) {
    static const kiln_conn_handler handler = {on_opened, on_message, on_closed};
    char node[KILN_HASH128_TEXT], boot[KILN_HASH128_TEXT];
    visit v = {0};
    kiln_status st =
        kiln_identity_load(kiln_arena_printf(d->arena, "%s/node", d->options->state_folder), node);
    if (!st) st = kiln_identity_create(boot);
    if (!st) st = kiln_loop_create(&v.loop);
    if (st) return st;
    kiln_timer *late = kiln_timer_create(v.loop, on_late, &v);
    kiln_timer_start(late, TRACKER_NS);
    v.conn = kiln_net_dial(v.loop, &(kiln_dial_options){.address = *address,
                                                        .role = KILN_PEER_BOARD,
                                                        .node = node,
                                                        .boot = boot,
                                                        .name = "doctor",
                                                        .credentials = credentials,
                                                        .socket_fd = socket_fd,
                                                        .handler = &handler,
                                                        .context = &v});
    kiln_loop_run(v.loop);
    if (v.conn) kiln_conn_close(v.conn, NULL);
    kiln_timer_destroy(late);
    kiln_loop_destroy(v.loop);
    return v.why;
}

/* Registers as the board, so that its key and version are tested. Not while a server runs, because
 * the tracker would close that server's connection. */
static verdict check_tracker(doctor *d) {
    const kiln_server_shell_options *o = d->options;
    kiln_addresses addresses = o->tracker;
    int lock_fd = -1;
    if (addresses.count == 0) {
        kiln_strbuf_text(&d->found, "none was named; --tracker ADDR tries it");
        return FINE;
    }
    kiln_status st = kiln_folder_lock(o->state_folder, &lock_fd);
    if (st && kiln_status_code(st) != KILN_FAILED_PRECONDITION) return from_status(d, st);
    if (st) {
        kiln_status_free(st); /* a server that runs holds the lock */
        kiln_strbuf_text(&d->found, "a server already runs here: use kiln fleet doctor");
        return NOTE;
    }
    verdict result = FINE;
    for (uint32_t i = 0; i < addresses.count; i++) {
        const kiln_address *address = kiln_addresses_next(&addresses);
        kiln_credentials credentials = {0};
        int socket_fd = 0;
        st =
            kiln_board_connection_prepare(o->helper, &addresses, address, &credentials, &socket_fd);
        if (!st) st = visit_tracker(d, address, &credentials, socket_fd);
        if (d->found.size) kiln_strbuf_text(&d->found, "; ");
        if (!st) kiln_address_print(address, &d->found);
        if (!st) kiln_strbuf_text(&d->found, " lets this board in");
        if (st) result = from_status(d, st);
    }
    close(lock_fd);
    return result;
}

static verdict check_opencl(doctor *d) {
    return kiln_doctor_drivers(d->options->helper, "opencl", d->arena, &d->found) ? FINE : NOTE;
}

static verdict check_cuda(doctor *d) {
    return kiln_doctor_drivers(d->options->helper, "cuda", d->arena, &d->found) ? FINE : NOTE;
}

static const struct {
    const char *name;
    verdict (*check)(doctor *d);
} check_table[] = {
#define X(name, function, doc) {name, function},
#include "rpc-server/checks.def"
#undef X
};

kiln_status kiln_doctor_run(const kiln_server_shell_options *options, kiln_arena *arena,
                            kiln_strbuf *out) {
    static const char *const word[] = {[FINE] = "ok", [NOTE] = "note", [BAD] = "BAD"};
    doctor d = {.options = options, .arena = arena};
    uint32_t bad = 0;
    if (!options->board.emulator)
        kiln_machine_discover(options->board.root ? options->board.root : "", arena, &d.machine);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(check_table); i++) {
        kiln_strbuf_reset(&d.found);
        verdict result = check_table[i].check(&d);
        bad += result == BAD;
        if (d.found.size == 0) kiln_strbuf_text(&d.found, "fine");
        kiln_strbuf_printf(out, "%-4s %-10s %s\n", word[result], check_table[i].name, d.found.data);
    }
    kiln_strbuf_deinit(&d.found);
    return bad ? KILN_ERROR(FAILED_PRECONDITION, "%u check%s failed", bad, bad == 1 ? "" : "s")
               : KILN_OK;
}
