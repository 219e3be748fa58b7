#include "base/clock.h"

#include <errno.h>
#include <time.h>

#include "base/check.h"

static uint64_t read_ns(clockid_t id) {
    struct timespec now;
    KILN_CHECK(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * KILN_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t kiln_clock_ns(void) { return read_ns(CLOCK_BOOTTIME); }

uint64_t kiln_clock_precise_ns(void) { return read_ns(CLOCK_MONOTONIC_RAW); }

uint64_t kiln_clock_thread_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

uint64_t kiln_clock_process_ns(void) { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t kiln_clock_wall_ns(void) { return read_ns(CLOCK_REALTIME); }

void kiln_clock_wait_until(uint64_t deadline_ns) {
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / KILN_NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % KILN_NS_PER_S)};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}
