/* How peers in C are timed (onednn.c, openblas_gemm.c), which are no part of the build. */
#ifndef KILN_TESTS_BENCH_PEER_TIMES_H
#define KILN_TESTS_BENCH_PEER_TIMES_H

typedef struct peer_times {
    double median_us, min_us;
} peer_times;

/* Of at least 10 runs, in 0.3 s, after 5 that do not count. */
peer_times peer_time(void (*run)(void *context), void *context);

#endif
