#include "tests/bench/peer_times.h"

#include <stdlib.h>
#include <time.h>

#define RUNS_MAX 400
#define RUNS_MIN 10
#define WARM_RUNS 5
#define SECONDS 0.3

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

peer_times peer_time(void (*run)(void *context), void *context) {
    static double sample[RUNS_MAX];
    int runs = 0;
    for (int i = 0; i < WARM_RUNS; i++) run(context);
    const double end = now() + SECONDS;
    while (runs < RUNS_MAX && (runs < RUNS_MIN || now() < end)) {
        const double start = now();
        run(context);
        sample[runs++] = (now() - start) * 1e6;
    }
    qsort(sample, (size_t)runs, sizeof *sample, ascending);
    return (peer_times){sample[runs / 2], sample[0]};
}
