/* Times what makes one space, and what a builder does for one candidate, over candidates drawn at
 * random:
 *
 *     bench-build MODEL.onnx [COUNT [SEED [TASK [TARGET]]]]
 *
 * Prints median, 90th percentile and lowest of each step in CPU time of this thread: the space with
 * all its sketches, then from the bytes that a builder is sent to the object. `lowered` is what
 * comes before code generation. Draws that legality refuses are drawn again, as in tuning. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"

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

typedef struct bench {
    kiln_arena *arena;
    kiln_space space;
    kiln_str te; /* text */
    kiln_target target;
    uint32_t count;
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
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
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

static void report(bench *b) {
    printf("%-10s%10s%10s%10s  ms, %u candidates\n", "", "median", "p90", "lowest", b->count);
    for (step s = 0; s < STEP_COUNT; s++) {
        qsort(b->ms[s], b->count, sizeof(double), compare);
        printf("%-10s%10.3f%10.3f%10.3f\n", step_name[s], b->ms[s][b->count / 2],
               b->ms[s][b->count * 9 / 10], b->ms[s][0]);
    }
}

static kiln_status open_task(bench *b, const char *path, uint32_t index, const char *target) {
    kiln_graph *graph = NULL;
    kiln_tasks tasks;
    kiln_strbuf text = {0};
    kiln_status st = kiln_import_file(path, NULL, b->arena, &graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_tasks_extract(graph, b->arena, &tasks);
    if (!st && index >= tasks.count)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s has %u tasks", path, tasks.count);
    if (!st) st = kiln_target_parse(kiln_str_from(target), b->arena, &b->target);
    if (!st) st = kiln_space_create(tasks.task[index].te, &b->target, b->arena, &b->space);
    if (st) return st;
    kiln_program_print(tasks.task[index].te, &text);
    b->te = kiln_str_from(kiln_str_dup(b->arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

static long number(int argc, char **argv, int at, long otherwise) {
    return argc > at ? strtol(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    long count = number(argc, argv, 2, 100);
    if (argc < 2 || count < 1 || count > CANDIDATES_MAX) {
        fprintf(stderr, "usage: %s MODEL.onnx [COUNT [SEED [TASK [TARGET]]]]\n", argv[0]);
        return 2;
    }
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    bench b = {.arena = &arena, .count = (uint32_t)count};
    for (step s = 0; s < STEP_COUNT; s++) b.ms[s] = KILN_ARENA_ARRAY(&arena, double, b.count);
    kiln_status st =
        open_task(&b, argv[1], (uint32_t)number(argc, argv, 4, 0), argc > 5 ? argv[5] : "native");
    if (!st) st = run(&b, (uint64_t)number(argc, argv, 3, 1));
    if (!st) report(&b);
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
