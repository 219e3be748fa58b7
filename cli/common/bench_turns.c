#include "cli/common/bench_turns.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "deploy/runtime/module_open.h"

#define RUNS_AGAIN_MAX 12u
#define DISTURBED_SHARE 0.05
#define STEP_ROUNDS_MAX 63u /* rounds whose steps are looked at: a module may have thousands */

typedef struct step_clock {
    const kiln_module *module;
    uint64_t started_ns;
    double *ns; /* [steps][STEP_ROUNDS_MAX] */
    uint32_t round;
} step_clock;

static void on_step(void *context, uint32_t step, int done) {
    step_clock *c = context;
    const uint64_t now_ns = kiln_clock_precise_ns();
    if (done && kiln_module_step_at(c->module, step)->action != KILN_MODULE_STEP_LOOP)
        c->ns[(size_t)step * STEP_ROUNDS_MAX + c->round] +=
            kiln_run_step_ns(c->module, now_ns - c->started_ns);
    c->started_ns = kiln_clock_precise_ns();
}

/* A run as a whole. One in which another program had the core for a twentieth of it is taken again,
 * as samples of kernels are (decision 11); the threads of a pool cannot be asked. */
static kiln_status run_undisturbed(kiln_module *module, const kiln_run *run, double *out_ns) {
    kiln_status st = KILN_OK;
    bool disturbed = true;
    for (uint32_t i = 0; !st && disturbed && i < RUNS_AGAIN_MAX; i++) {
        const uint64_t cpu_ns = kiln_clock_thread_ns();
        double ns = 0;
        st = kiln_run_timed(module, run->inputs, run->outputs, &ns);
        disturbed = kiln_module_threads(module) == 1 &&
                    (double)(kiln_clock_thread_ns() - cpu_ns) < ns * (1 - DISTURBED_SHARE);
        *out_ns = i == 0 ? ns : KILN_MIN(*out_ns, ns);
    }
    return st;
}

static kiln_status run_turn(kiln_module *module, const kiln_run *run, step_clock *steps,
                            double *out_ns) {
    double ignored;
    if (steps->round < STEP_ROUNDS_MAX) kiln_module_set_hook(module, on_step, steps);
    kiln_status st = kiln_run_once(module, run->inputs, run->outputs, &ignored);
    kiln_module_set_hook(module, NULL, NULL);
    return st ? st : run_undisturbed(module, run, out_ns);
}

static void take_step_medians(const step_clock *steps, uint32_t rounds, double *out_ns) {
    const uint32_t seen = KILN_MIN(rounds, STEP_ROUNDS_MAX);
    for (uint32_t i = 0; i < kiln_module_step_count(steps->module); i++)
        out_ns[i] = kiln_stats_median(&steps->ns[(size_t)i * STEP_ROUNDS_MAX], seen);
}

static kiln_status take_turns(kiln_module *const *module, uint32_t count, uint64_t limit_ns,
                              const kiln_run *run, step_clock *steps, kiln_bench_turns *turns) {
    kiln_status st = KILN_OK;
    for (uint32_t m = 0; !st && m < count; m++)
        st = kiln_run_warm_up(module[m], run[m].inputs, run[m].outputs);
    const uint64_t end_ns = kiln_clock_ns() + limit_ns;
    while (!st && turns->rounds < KILN_RUN_TIMES_MAX &&
           (turns->rounds < KILN_BENCH_ROUNDS_MIN || kiln_clock_ns() < end_ns)) {
        for (uint32_t i = 0; !st && i < count; i++) {
            const uint32_t m = (i + turns->rounds) % count; /* none always follows another */
            steps[m].round = turns->rounds;
            st = run_turn(module[m], &run[m], &steps[m], &turns->whole[m][turns->rounds]);
        }
        turns->rounds++;
    }
    return st;
}

kiln_status kiln_bench_in_turns(kiln_module *const *module, uint32_t count, uint64_t limit_ns,
                                kiln_arena *arena, kiln_bench_turns *out) {
    kiln_run first_run, run[KILN_BENCH_TURNS_MAX];
    step_clock steps[KILN_BENCH_TURNS_MAX] = {0};
    KILN_CHECK(count <= KILN_BENCH_TURNS_MAX);
    *out = (kiln_bench_turns){0};
    kiln_status st = kiln_run_init(&first_run, module[0], &(kiln_opt_list){0}, NULL, arena);
    if (st) return st;
    for (uint32_t m = 0; m < count; m++) {
        run[m] = kiln_run_near(&first_run, module[m], arena);
        const size_t step_count = kiln_module_step_count(module[m]);
        out->whole[m] = KILN_ARENA_ARRAY(arena, double, KILN_RUN_TIMES_MAX);
        out->step_ns[m] = KILN_ARENA_ARRAY(arena, double, step_count);
        steps[m] = (step_clock){.module = module[m],
                                .ns = KILN_ARENA_ARRAY(arena, double, step_count *STEP_ROUNDS_MAX)};
    }
    cpu_set_t before, first;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&first);
    CPU_SET((size_t)sched_getcpu(), &first);
    if (kiln_module_threads(module[0]) == 1) sched_setaffinity(0, sizeof first, &first);
    st = take_turns(module, count, limit_ns, run, steps, out);
    sched_setaffinity(0, sizeof before, &before);
    for (uint32_t m = 0; !st && m < count; m++)
        take_step_medians(&steps[m], out->rounds, out->step_ns[m]);
    return st;
}

typedef struct round_sum {
    double ns;
    uint32_t round;
} round_sum;

static int by_ns(const void *a, const void *b) {
    const round_sum *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return (x->round > y->round) - (x->round < y->round);
}

/* Other programs slow down some rounds, whichever module runs then: the half in which both together
 * took least counts. */
kiln_bench_pair kiln_bench_pair_of(const kiln_bench_turns *turns, uint32_t a, uint32_t b) {
    const uint32_t rounds = (turns->rounds + 1) / 2;
    round_sum *sum = kiln_alloc(turns->rounds * sizeof *sum);
    double *of_a = kiln_alloc(2 * (size_t)rounds * sizeof *of_a), *of_b = of_a + rounds;
    for (uint32_t i = 0; i < turns->rounds; i++)
        sum[i] = (round_sum){turns->whole[a][i] + turns->whole[b][i], i};
    qsort(sum, turns->rounds, sizeof *sum, by_ns);
    for (uint32_t i = 0; i < rounds; i++) {
        of_a[i] = turns->whole[a][sum[i].round];
        of_b[i] = turns->whole[b][sum[i].round];
    }
    kiln_bench_pair pair = {.a = kiln_stats_of(of_a, rounds), .b = kiln_stats_of(of_b, rounds)};
    kiln_stats_ratio(of_a, of_b, rounds, &pair.ratio, &pair.low, &pair.high);
    kiln_free(of_a);
    kiln_free(sum);
    return pair;
}

/* A ratio is printed with two decimals. */
#define RATIO_SEEN 0.005

int kiln_bench_order(const kiln_bench_pair *pair) {
    if (fabs(pair->ratio - 1) < RATIO_SEEN || (pair->low <= 1 && pair->high >= 1)) return 0;
    return pair->ratio > 1 ? 1 : -1;
}
