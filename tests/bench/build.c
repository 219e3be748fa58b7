/* Times what makes one space, and what a builder does for one candidate, over candidates drawn at
 * random from the spaces of models: files, or names that `kiln zoo` knows. Without a model those
 * are conv:C1 to C12.
 *
 * Prints median, 90th percentile and lowest of each step in CPU time of this thread: the space with
 * all its sketches, then from the bytes that a builder is sent to the object. `lowered` is what
 * comes before code generation. Draws that legality refuses are drawn again, as in tuning. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/opt.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"

#define CANDIDATES_MAX 10000u
#define STEPS(X)          \
    X(SPACE, "space")     \
    X(PARSE, "parse")     \
    X(REPLAY, "replay")   \
    X(LOWER, "lower")     \
    X(LOWERED, "lowered") \
    X(CODEGEN, "codegen") \
    X(ALL, "all")

typedef enum step {
#define X(id, name) STEP_##id,
    STEPS(X)
#undef X
        STEP_COUNT
} step;

static const char *const step_name[] = {
#define X(id, name) name,
    STEPS(X)
#undef X
};

static const char *const default_model[] = {"conv:C1", "conv:C2",  "conv:C3",  "conv:C4",
                                            "conv:C5", "conv:C6",  "conv:C7",  "conv:C8",
                                            "conv:C9", "conv:C10", "conv:C11", "conv:C12"};

typedef struct bench {
    kiln_arena *arena;
    kiln_space space;
    kiln_str te; /* text */
    kiln_target target;
    kiln_codegen_context *context;
    uint32_t count;         /* of candidates */
    double *ms[STEP_COUNT]; /* [count] */
} bench;

/* Milliseconds since the last call. */
static double lap(uint64_t *since) {
    uint64_t now = kiln_clock_thread_ns();
    double ms = (double)(now - *since) * 1e-6;
    *since = now;
    return ms;
}

static kiln_status build_one(bench *b, kiln_str bytes, uint32_t at, kiln_arena *arena) {
    kiln_program *te = NULL, *scheduled = NULL;
    kiln_trace trace;
    kiln_lowered lowered;
    kiln_str object;
    uint64_t scratch, worker, since = kiln_clock_thread_ns();
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .context = b->context};
    double ms[STEP_COUNT] = {0};
    kiln_status st = kiln_program_parse(b->te, arena, &te);
    if (!st) st = kiln_trace_decode(bytes, arena, &trace);
    ms[STEP_PARSE] = lap(&since);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, arena, &scheduled, NULL);
    ms[STEP_REPLAY] = lap(&since);
    if (!st) st = kiln_lower(scheduled, &b->target, arena, &lowered);
    ms[STEP_LOWER] = lap(&since);
    if (!st) st = kiln_codegen(&lowered, &b->target, &options, arena, &object, &scratch, &worker);
    ms[STEP_CODEGEN] = lap(&since);
    ms[STEP_LOWERED] = ms[STEP_PARSE] + ms[STEP_REPLAY] + ms[STEP_LOWER];
    ms[STEP_ALL] = ms[STEP_LOWERED] + ms[STEP_CODEGEN];
    if (!st)
        for (step s = STEP_PARSE; s < STEP_COUNT; s++) b->ms[s][at] = ms[s];
    return st;
}

static kiln_status make_spaces(bench *b, const kiln_program *te) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < b->count && !st; i++) {
        kiln_space space;
        uint64_t since = kiln_clock_thread_ns();
        st = kiln_space_create(te, &b->target, &arena, &space);
        b->ms[STEP_SPACE][i] = lap(&since);
        kiln_arena_reset(&arena);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static kiln_status run(bench *b, uint64_t seed) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    kiln_status st = make_spaces(b, b->space.te);
    uint32_t done = 0;
    while (!st && done < b->count) {
        kiln_arena arena;
        kiln_arena_init(&arena, (size_t)1 << 20);
        kiln_trace trace;
        kiln_program *scheduled = NULL;
        kiln_strbuf bytes = {0};
        st = kiln_space_sample(&b->space, &rand, &arena, &trace, &scheduled);
        if (!st) kiln_trace_encode(&trace, &bytes);
        if (!st) st = build_one(b, kiln_strbuf_view(&bytes), done, &arena);
        done += st == KILN_OK;
        kiln_code code = kiln_status_code(st);
        if (code == KILN_ILLEGAL_SCHEDULE || code == KILN_RESOURCE_EXHAUSTED) {
            kiln_status_free(st); /* drawn again */
            st = KILN_OK;
        }
        kiln_strbuf_deinit(&bytes);
        kiln_arena_deinit(&arena);
    }
    return st;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the `count` times of each step from `first` on. */
static void report(const char *what, double *const *ms, uint32_t first, uint32_t count) {
    printf("%-10s%10s%10s%10s  ms, %u candidates\n", what, "median", "p90", "lowest", count);
    for (step s = 0; s < STEP_COUNT; s++) {
        double *of = ms[s] + first;
        qsort(of, count, sizeof(double), compare);
        printf("%-10s%10.3f%10.3f%10.3f\n", step_name[s], of[count / 2], of[count * 9 / 10], of[0]);
    }
}

static kiln_status import(const char *name, kiln_arena *arena, kiln_graph **out_graph) {
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_import_file(name, NULL, arena, out_graph);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st;
    kiln_status_free(st); /* then it is a name */
    st = kiln_zoo_build(kiln_str_from(name), 0, &bytes);
    if (!st) st = kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, arena, out_graph);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status open_task(bench *b, const char *name, uint64_t index) {
    kiln_graph *graph = NULL;
    kiln_tasks tasks;
    kiln_strbuf text = {0};
    kiln_status st = import(name, b->arena, &graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_tasks_extract(graph, b->arena, &tasks);
    if (!st && index >= tasks.count)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s has %u tasks", name, tasks.count);
    if (!st) st = kiln_space_create(tasks.task[index].te, &b->target, b->arena, &b->space);
    if (st) return st;
    kiln_program_print(tasks.task[index].te, &text);
    b->te = kiln_str_from(kiln_str_dup(b->arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

typedef struct bench_options {
    uint64_t count, seed, task;
    const char *target;
} bench_options;

static kiln_status run_all(const bench_options *options, const char *const *model, uint32_t count,
                           kiln_arena *arena) {
    double *all[STEP_COUNT];
    bench b = {.arena = arena,
               .count = (uint32_t)options->count,
               .context = kiln_codegen_context_create()};
    for (step s = 0; s < STEP_COUNT; s++) all[s] = KILN_ARENA_ARRAY(arena, double, count *b.count);
    kiln_status st = kiln_target_parse(kiln_str_from(options->target), arena, &b.target);
    for (uint32_t i = 0; i < count && !st; i++) {
        for (step s = 0; s < STEP_COUNT; s++) b.ms[s] = all[s] + i * b.count;
        st = open_task(&b, model[i], options->task);
        if (!st) st = run(&b, options->seed);
        if (!st) report(model[i], all, i * b.count, b.count);
    }
    if (!st && count > 1) report("together", all, 0, count * b.count);
    kiln_codegen_context_destroy(b.context);
    return st;
}

int main(int argc, char **argv) {
    bench_options options = {.count = 40, .seed = 1, .target = "native"};
    const kiln_opt option[] = {
        {"count", KILN_OPT_COUNT, &options.count, "N", "Candidates of each model (default 40)."},
        {"seed", KILN_OPT_COUNT, &options.seed, "N", "Of the draws (default 1)."},
        {"task", KILN_OPT_COUNT, &options.task, "N", "Which task of the model (default 0)."},
        {"target", KILN_OPT_TEXT, &options.target, "TARGET", "Default native."},
    };
    const kiln_opt_table table = {
        .usage = "bench-build [MODEL...] [options]",
        .summary = "Times building candidates of MODEL, a file or a name of `kiln zoo`; without "
                   "one of conv:C1 to C12.",
        .option = option,
        .option_count = KILN_ARRAY_COUNT(option),
        .positional_max = 64,
    };
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_args args;
    kiln_status st = kiln_opt_parse(&table, argc, argv, &arena, &args);
    if (!st && (options.count < 1 || options.count > CANDIDATES_MAX))
        st = KILN_ERROR(INVALID_ARGUMENT, "--count is 1 to %u", CANDIDATES_MAX);
    if (!st && args.help) {
        kiln_strbuf text = {0};
        kiln_opt_print_help(&table, &text);
        fputs(text.data, stdout);
        kiln_strbuf_deinit(&text);
    } else if (!st) {
        st = run_all(&options, args.count ? args.positional : default_model,
                     args.count ? (uint32_t)args.count : (uint32_t)KILN_ARRAY_COUNT(default_model),
                     &arena);
    }
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
