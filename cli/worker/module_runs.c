#include "cli/worker/module_runs.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/stats.h"
#include "deploy/runtime/module_open.h"

/* How many turns each module has on a board: several, so that drift between them is seen, but each
 * costs a lease. */
#define TURNS_MIN 3u
#define TURNS_MAX 8u

kiln_status kiln_module_runs_open(const kiln_module_runs *runs, kiln_str bytes,
                                  kiln_module **out_module) {
    if (runs->there) return kiln_module_inspect(bytes, 0, out_module);
    char error[KILN_MODULE_ERROR_BYTES] = "";
    int code =
        kiln_module_open_memory(bytes.data, bytes.size, NULL, out_module, error, sizeof error);
    return code ? KILN_ERROR(INTERNAL, "%s", error) : KILN_OK;
}

static kiln_status run_on(kiln_module_runs *runs, const kiln_shown_module *shown, bool bench,
                          kiln_run *run, kiln_arena *arena, kiln_run_times *out_times) {
    kiln_run_on_options options = runs->board;
    kiln_run_on_done done = {0};
    options.module = shown->bytes;
    options.bench = bench;
    kiln_status st = kiln_run_on(&options, run, arena, &done);
    if (st) return st;
    runs->board.on = kiln_str_dup(runs->arena, kiln_str_from(done.board));
    runs->emulated = done.emulated;
    *out_times = done.times;
    return KILN_OK;
}

kiln_status kiln_module_runs_once(kiln_module_runs *runs, const kiln_shown_module *shown,
                                  kiln_arena *arena, kiln_run *out_run) {
    kiln_run_times none;
    double ns = 0;
    kiln_status st = kiln_run_init(out_run, shown->module, &(kiln_opt_list){0}, NULL, arena);
    if (!st && runs->there) return run_on(runs, shown, false, out_run, arena, &none);
    return st ? st : kiln_run_once(shown->module, out_run->inputs, out_run->outputs, &ns);
}

/* One turn of each, in an order that changes. All add as many rounds as each other. */
static kiln_status take_turn(kiln_module_runs *runs, const kiln_shown_module *shown, uint32_t count,
                             uint32_t turn, kiln_arena *arena, kiln_bench_turns *turns,
                             double **step_ns) {
    kiln_run_times times[KILN_BENCH_TURNS_MAX];
    uint32_t rounds = KILN_RUN_TIMES_MAX / TURNS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t m = (i + turn) % count;
        kiln_run run;
        kiln_status st = kiln_run_init(&run, shown[m].module, &(kiln_opt_list){0}, NULL, arena);
        if (!st) st = run_on(runs, &shown[m], true, &run, arena, &times[m]);
        if (st) return st;
        rounds = KILN_MIN(rounds, times[m].runs);
        for (uint32_t s = 0; s < kiln_module_step_count(shown[m].module); s++)
            step_ns[m][s * TURNS_MAX + turn] = kiln_stats_median(times[m].step[s], times[m].runs);
    }
    for (uint32_t m = 0; m < count; m++)
        memcpy(&turns->whole[m][turns->rounds], times[m].whole, rounds * sizeof(double));
    turns->rounds += rounds;
    return KILN_OK;
}

static kiln_status in_turns_there(kiln_module_runs *runs, const kiln_shown_module *shown,
                                  uint32_t count, uint64_t limit_ns, kiln_arena *arena,
                                  kiln_bench_turns *out) {
    double *step_ns[KILN_BENCH_TURNS_MAX];
    const uint64_t end_ns = kiln_clock_ns() + limit_ns;
    uint32_t turn = 0;
    kiln_status st = KILN_OK;
    *out = (kiln_bench_turns){0};
    for (uint32_t m = 0; m < count; m++) {
        const size_t steps = kiln_module_step_count(shown[m].module);
        out->whole[m] = KILN_ARENA_ARRAY(arena, double, KILN_RUN_TIMES_MAX);
        out->step_ns[m] = KILN_ARENA_ARRAY(arena, double, steps);
        step_ns[m] = KILN_ARENA_ARRAY(arena, double, steps *TURNS_MAX);
    }
    for (; !st && turn < TURNS_MAX && (turn < TURNS_MIN || kiln_clock_ns() < end_ns); turn++) {
        kiln_arena scratch; /* inputs and outputs of a run */
        kiln_arena_init(&scratch, 0);
        st = take_turn(runs, shown, count, turn, &scratch, out, step_ns);
        kiln_arena_deinit(&scratch);
    }
    for (uint32_t m = 0; !st && m < count; m++)
        for (uint32_t s = 0; s < kiln_module_step_count(shown[m].module); s++)
            out->step_ns[m][s] = kiln_stats_median(&step_ns[m][s * TURNS_MAX], turn);
    return st;
}

kiln_status kiln_module_runs_in_turns(kiln_module_runs *runs, const kiln_shown_module *shown,
                                      uint32_t count, uint64_t limit_ns, kiln_arena *arena,
                                      kiln_bench_turns *out_turns) {
    kiln_module *module[KILN_BENCH_TURNS_MAX];
    KILN_CHECK(count <= KILN_BENCH_TURNS_MAX);
    if (runs->there) return in_turns_there(runs, shown, count, limit_ns, arena, out_turns);
    for (uint32_t m = 0; m < count; m++) module[m] = shown[m].module;
    return kiln_bench_in_turns(module, count, limit_ns, arena, out_turns);
}
