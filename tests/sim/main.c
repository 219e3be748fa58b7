/* kiln-sim N (or --seeds N): runs seeds 1..N. kiln-sim --trials N: seeds from 1 on until boards
 * began that many trials. kiln-sim --seed S [--trace]: one. Each ends with seed S: ok|FAILED,
 * events E, hash H and all of them with their sums, and a hash over their hashes. */
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/opt.h"
#include "tests/sim/world.h"

static void print_options(const sim_options *o) {
    printf(
        "  trackers %u, boards %u, tuners %u%s, clients %u, builders %u, trials %u, tasks %u, "
        "latency %.3g ms, "
        "faults %g per minute%s%s%s, hang %u, "
        "crash %u, wrong %u, repeat %u, drift %u, lies %u, slow %u, deaf %u, late %u per mille\n",
        o->trackers, o->boards, o->tuners, o->share ? " that share records" : "", o->clients,
        o->builders, o->trials, o->tasks, (double)o->latency_ns / 1e6, o->faults_per_minute,
        o->rogue ? ", a rogue" : "", o->quotas ? ", quotas" : "",
        o->blob_rate ? ", large blobs" : "", o->hang_permille, o->crash_permille, o->wrong_permille,
        o->repeat_permille, o->drift_permille, o->lie_permille, o->slow_permille, o->deaf_permille,
        o->late_permille);
}

typedef struct totals {
    uint64_t seeds, failed, hash;
    uint64_t events, trials, built, records, lost, repeated, forged, jobs_ok, jobs_ended,
        longest_wait_ns, tries, upgraded;
    kiln_thread_work most;
} totals;

/* Whether the seed gives this history again: every tenth seed is played twice. */
static bool is_same_again(const sim_world *first) {
    if (first->options.seed % 10 != 1) return true;
    sim_world second;
    sim_world_init(&second, first->options.seed, first->options.upgrades, false);
    sim_world_run(&second);
    bool same = second.hash == first->hash && second.event_count == first->event_count;
    sim_world_deinit(&second);
    return same;
}

static bool run_seed(uint64_t seed, bool upgrades, bool trace, bool quiet, totals *sum) {
    sim_world world;
    sim_world_init(&world, seed, upgrades, trace);
    sim_world_run(&world);
    if (!world.failed && !is_same_again(&world))
        sim_fail(&world, "the same seed gave another history");
    bool ok = !world.failed;
    if (!ok) {
        print_options(&world.options);
        printf("  %s\n  again: ./dev sim --seed %llu%s\n", world.failure.data,
               (unsigned long long)seed, upgrades ? " --upgrades" : "");
    }
    if (!ok || !quiet)
        printf("seed %llu: %s, events %llu, hash %016llx\n", (unsigned long long)seed,
               ok ? "ok" : "FAILED", (unsigned long long)world.event_count,
               (unsigned long long)world.hash);
    sum->seeds++;
    sum->failed += !ok;
    sum->hash = kiln_hash64(&world.hash, sizeof world.hash, sum->hash);
    sum->events += world.event_count;
    sum->trials += world.trials;
    sum->built += world.built;
    sum->records += world.records;
    sum->tries += world.tries;
    sum->upgraded += world.upgraded;
    sum->lost += world.lost;
    sum->repeated += world.repeated;
    sum->forged += world.forged;
    sum->jobs_ok += world.jobs_ok;
    sum->jobs_ended += world.jobs_ended;
    sum->longest_wait_ns = KILN_MAX(sum->longest_wait_ns, world.longest_wait_ns);
    sum->most.hashed_bytes = KILN_MAX(sum->most.hashed_bytes, world.most.hashed_bytes);
    sum->most.rows = KILN_MAX(sum->most.rows, world.most.rows);
    sim_world_deinit(&world);
    return ok;
}

static void print_totals(const totals *sum) {
    printf("seeds %llu: %llu failed, events %llu, trials %llu, built by boards %llu, records %llu: "
           "%llu lost, %llu twice, %llu forged and best; "
           "jobs %llu ended, %llu of them ok, longest wait %.1f s, most of one step %llu bytes "
           "hashed and %llu rows, hash %016llx\n",
           (unsigned long long)sum->seeds, (unsigned long long)sum->failed,
           (unsigned long long)sum->events, (unsigned long long)sum->trials,
           (unsigned long long)sum->built, (unsigned long long)sum->records,
           (unsigned long long)sum->lost, (unsigned long long)sum->repeated,
           (unsigned long long)sum->forged, (unsigned long long)sum->jobs_ended,
           (unsigned long long)sum->jobs_ok, (double)sum->longest_wait_ns / 1e9,
           (unsigned long long)sum->most.hashed_bytes, (unsigned long long)sum->most.rows,
           (unsigned long long)sum->hash);
}

int main(int argc, char **argv) {
    uint64_t seeds = 0, seed = 0, trials = 0;
    bool upgrades = false, trace = false, stop = false;
    const kiln_opt option[] = {
        {"seeds", KILN_OPT_COUNT, &seeds, "N", "Run seeds 1 to N."},
        {"trials", KILN_OPT_COUNT, &trials, "N", "Run seeds until boards began N trials."},
        {"seed", KILN_OPT_COUNT, &seed, "S", "Run one seed."},
        {"upgrades", KILN_OPT_FLAG, &upgrades, NULL,
         "Upgrade the boards again and again, also to broken versions."},
        {"stop", KILN_OPT_FLAG, &stop, NULL, "End at the first seed that fails."},
        {"trace", KILN_OPT_FLAG, &trace, NULL, "Print every message and event of it."},
    };
    const kiln_opt_table table = {
        .usage = "kiln-sim N | --seeds N | --trials N | --seed S [--trace]",
        .summary = "Plays fleets with faults and checks what must hold.",
        .option = option,
        .option_count = KILN_ARRAY_COUNT(option),
        .positional_max = 1,
    };
    kiln_arena arena;
    kiln_args args;
    kiln_log_init("kiln-sim", KILN_LOG_INFO);
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_opt_parse(&table, argc, argv, &arena, &args);
    if (!st && args.count && !kiln_str_to_u64(kiln_str_from(args.positional[0]), &seeds))
        st = KILN_ERROR(INVALID_ARGUMENT, "'%s' is not a number of seeds", args.positional[0]);
    kiln_arena_deinit(&arena);
    if (st) {
        fprintf(stderr, "kiln-sim: %s\n", kiln_status_text(st));
        int code = kiln_code_exit(kiln_status_code(st));
        kiln_status_free(st);
        return code;
    }
    if (args.help) return 0;
    totals sum = {0};
    if (upgrades && !kiln_sign_supported()) {
        printf("kiln-sim: no upgrades in a build that cannot sign\n");
        return 77; /* skipped */
    }
    if (seed) return run_seed(seed, upgrades, trace, false, &sum) ? 0 : 1;
    if (!trials && !seeds) seeds = 200;
    while ((sum.seeds < seeds || sum.trials < trials) && !(stop && sum.failed))
        run_seed(sum.seeds + 1, upgrades, trace, trials || seeds > 20, &sum);
    print_totals(&sum);
    if (upgrades)
        printf("upgrades: %llu versions on trial, %llu put into their place\n",
               (unsigned long long)sum.tries, (unsigned long long)sum.upgraded);
    return sum.failed ? 1 : 0;
}
