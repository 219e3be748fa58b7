/* Timing whole modules in turns in this process, so that what disturbs one disturbs the others. */
#ifndef KILN_CLI_COMMON_BENCH_TURNS_H
#define KILN_CLI_COMMON_BENCH_TURNS_H

#include "base/stats.h"
#include "base/status.h"
#include "deploy/run/run.h"

#define KILN_BENCH_TURNS_MAX 3u   /* modules at once */
#define KILN_BENCH_ROUNDS_MIN 15u /* fewer pairs have no narrow interval */

/* Runs modules of the same model in turns on the same random inputs, in an order that changes. In
 * each turn a module runs twice: step by step, which also brings its weights where they will be,
 * and then as a whole. One thread stays on its core. */
typedef struct kiln_bench_turns {
    uint32_t rounds;
    double *whole[KILN_BENCH_TURNS_MAX];   /* [rounds] ns */
    double *step_ns[KILN_BENCH_TURNS_MAX]; /* [steps of that module] median */
} kiln_bench_turns;
/* Until `limit_ns` have passed, but at least KILN_BENCH_ROUNDS_MIN rounds. INTERNAL: a kernel
 * failed. */
KILN_MUST_USE kiln_status kiln_bench_in_turns(kiln_module *const *module, uint32_t count,
                                              uint64_t limit_ns, kiln_arena *arena,
                                              kiln_bench_turns *out_turns);

typedef struct kiln_bench_pair {
    kiln_stats a, b;         /* ns */
    double ratio, low, high; /* a / b with its 95 % interval */
} kiln_bench_pair;
/* Of modules `a` and `b` of the turns, by the faster half of the rounds. */
kiln_bench_pair kiln_bench_pair_of(const kiln_bench_turns *turns, uint32_t a, uint32_t b);
/* 1: b is faster than a; -1: slower; 0: equally fast, as far as noise lets see or by less than two
 * decimals of the ratio show. */
int kiln_bench_order(const kiln_bench_pair *pair);

#endif
