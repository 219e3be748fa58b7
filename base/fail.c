#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "base/str.h"

#define GROW_BYTES ((size_t)16 << 20)

static const kiln_failpoint_info point_table[] = {
#define X(name, program, effect, doc) {#name, program, doc, KILN_FAIL_EFFECT_##effect},
#include "base/failpoints.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(point_table) == KILN_FAILPOINT_COUNT, "one row per point");

/* Process-wide on purpose, like the failing allocation of base/alloc.c. */
static atomic_int armed = -1; /* a kiln_failpoint; -1: none */
static atomic_uint_fast64_t passes_left;
static atomic_int armed_effect;
static atomic_uint_fast64_t operations, fail_operation; /* 0 = never */

const kiln_failpoint_info *kiln_failpoint_info_of(kiln_failpoint point) {
    KILN_CHECK(point < KILN_FAILPOINT_COUNT);
    return &point_table[point];
}

/* ---- The plan ---- */

static const char *const effect_name[KILN_FAIL_EFFECT_COUNT] = {"kill", "error", "look", "grow",
                                                                "hang"};

static kiln_status arm_point(kiln_str name, uint64_t nth, kiln_str effect) {
    int point = 0;
    while (point < KILN_FAILPOINT_COUNT && !kiln_str_is(name, point_table[point].name)) point++;
    if (point == KILN_FAILPOINT_COUNT)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "KILN_FAIL: there is no point \"%.*s\" (base/failpoints.def)",
                          KILN_STR_ARG(name));
    int number = effect.size ? 0 : KILN_FAIL_EFFECT_KILL;
    while (effect.size && number < KILN_FAIL_EFFECT_COUNT &&
           !kiln_str_is(effect, effect_name[number]))
        number++;
    if (number == KILN_FAIL_EFFECT_COUNT ||
        (number != KILN_FAIL_EFFECT_KILL && point_table[point].effect != KILN_FAIL_EFFECT_ERROR))
        return KILN_ERROR(INVALID_ARGUMENT, "KILN_FAIL: %.*s cannot end in \"%.*s\"",
                          KILN_STR_ARG(name), KILN_STR_ARG(effect));
    atomic_store(&passes_left, nth);
    atomic_store(&armed_effect, number);
    atomic_store(&armed, point);
    return NULL;
}

kiln_status kiln_fail_arm(const char *plan) {
    atomic_store(&armed, -1);
    if (!plan) return NULL;
    kiln_str effect = kiln_str_from(plan);
    kiln_str count = kiln_str_cut(&effect, '='), name = kiln_str_cut(&count, ':');
    uint64_t nth = 1;
    if (count.size > 0 && (!kiln_str_to_u64(count, &nth) || nth == 0))
        return KILN_ERROR(INVALID_ARGUMENT, "KILN_FAIL: \"%s\" is not NAME[:NTH][=kill|error]",
                          plan);
    if (kiln_str_is(name, "io"))
        kiln_fail_io_nth(nth);
    else if (kiln_str_is(name, "alloc"))
        kiln_alloc_fail_nth(nth);
    else
        return arm_point(name, nth, effect);
    return NULL;
}

/* ---- Points ---- */

/* Whether the armed effect happens now. */
static bool strikes(kiln_failpoint point) {
    if (atomic_load_explicit(&armed, memory_order_relaxed) != (int)point) return false;
    return atomic_fetch_sub(&passes_left, 1) == 1;
}

KILN_NORETURN static void end_at_once(void) {
    for (;;) raise(SIGKILL); /* allowed in sandboxed processes, too */
}

/* Tries what hostile code would try, to test processes that have given up their rights. */
static kiln_status look_around(void) {
    extern char **environ;
    const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    const int network = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    if (file >= 0) close(file);
    if (network >= 0) close(network);
    return KILN_ERROR(PERMISSION_DENIED,
                      "KILN_FAIL: files: %s, network: %s, processes: %s, environment: %s",
                      file >= 0 ? "yes" : "no", network >= 0 ? "yes" : "no",
                      child > 0 ? "yes" : "no", environ && *environ ? "yes" : "no");
}

kiln_status kiln_fail_at(kiln_failpoint point) {
    if (!strikes(point)) return NULL;
    switch ((kiln_fail_effect)atomic_load(&armed_effect)) {
    case KILN_FAIL_EFFECT_KILL: end_at_once();
    case KILN_FAIL_EFFECT_LOOK: return look_around();
    case KILN_FAIL_EFFECT_GROW:
        for (;;) memset(kiln_alloc(GROW_BYTES), 1, GROW_BYTES);
    case KILN_FAIL_EFFECT_HANG:
        for (volatile uint64_t i = 0;; i++) {}
    case KILN_FAIL_EFFECT_ERROR:
    case KILN_FAIL_EFFECT_COUNT: break;
    }
    return KILN_ERROR(RESOURCE_EXHAUSTED, "KILN_FAIL: %s", point_table[point].name);
}

void kiln_fail_pass(kiln_failpoint point) {
    if (strikes(point)) end_at_once();
}

/* ---- Operations on files ---- */

bool kiln_fail_io(void) {
    uint64_t number = atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed) + 1;
    if (number != atomic_load_explicit(&fail_operation, memory_order_relaxed)) return false;
    errno = ENOSPC;
    return true;
}

uint64_t kiln_fail_io_count(void) {
    return atomic_load_explicit(&operations, memory_order_relaxed);
}

void kiln_fail_io_nth(uint64_t nth) {
    atomic_store_explicit(&fail_operation, nth ? kiln_fail_io_count() + nth : 0,
                          memory_order_relaxed);
}
