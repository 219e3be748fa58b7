/* Compares kernels that follow each other with the one kernel that does the work of them all, in
 * turns in this process:
 *
 *     bench-stack MODEL.onnx                          lists the model's kernels with their numbers
 *     bench-stack MODEL.onnx FIRST-LAST... [DRAWS [SEED]]
 *     bench-stack MODEL.onnx FIRST-LAST STAGE         STAGE: te, trace, space, scheduled, loops,
 * asm
 *     bench-stack --algorithm NAME MODEL.onnx ...     the one kernel by that algorithm, beside the
 * one kernel by the direct form
 *
 * Times are the least of many. Kernels have their default schedules; with DRAWS so many random ones
 * of the joined kernel are timed as well and the fastest is printed. The results' sums are
 * compared, which do not depend on layouts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "deploy/runtime/kernel.h"

enum { KERNELS_MAX = 16, VALUES_MAX = 64, ROUNDS = 200 };

/* A kernel that can be called. */
typedef struct loaded {
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_pages scratch;
    kiln_services services;
} loaded;

/* Memory of a graph's value, in whatever layout the kernels take it. */
typedef struct value_memory {
    kiln_value value;
    kiln_pages pages;
    size_t size;
} value_memory;

typedef struct bench {
    kiln_arena *arena;
    kiln_target target;
    const kiln_graph *graph;
    kiln_algorithm algorithm; /* of the one kernel; DIRECT: whichever it prefers */
    uint32_t count;
    value_memory memory[VALUES_MAX];
} bench;

/* ---- memory ---------------------------------------------------------------------------------- */

#define VALUE_BYTES_MAX ((size_t)64 << 20)

static kiln_status memory_of(bench *b, kiln_value value, size_t size, void **out_data) {
    uint32_t i = 0;
    while (i < b->count && b->memory[i].value != value) i++;
    value_memory *m = &b->memory[i];
    kiln_status st = NULL;
    if (i == b->count) {
        *m = (value_memory){.value = value, .size = size};
        const kiln_value_info *info = &b->graph->value.data[value];
        st = kiln_pages_create(VALUE_BYTES_MAX, KILN_GUARD_NONE, &m->pages);
        if (st) return st;
        b->count++;
        if (info->data)
            memcpy(m->pages.data, info->data,
                   (size_t)kiln_shape_count(&info->shape) * kiln_dtype_size(info->dtype));
        else
            kiln_fill_data(m->pages.data, KILN_F32, size / 4, value, KILN_FILL_UNIFORM);
    }
    if (m->size < size) m->size = size;
    *out_data = m->pages.data;
    return NULL;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static kiln_status load(bench *b, const kiln_step *step, const kiln_task *task,
                        const kiln_trace *trace, loaded *out) {
    kiln_artefact artefact;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_build(task->te, task->key, trace, &b->target, b->arena, &artefact);
    if (st) return st;
    kiln_artefact_encode(&artefact, &bytes);
    st = kiln_kernel_load(kiln_strbuf_view(&bytes), NULL, &out->kernel);
    kiln_strbuf_deinit(&bytes);
    if (!st) st = kiln_call_create(out->kernel, KILN_GUARD_NONE, &out->call);
    for (uint32_t i = 0; !st && i < step->arg_count; i++) {
        void *data;
        st = memory_of(b, step->arg[i], kiln_kernel_arg_bytes(out->kernel, i), &data);
        if (!st) st = kiln_call_bind(out->call, i, data, kiln_kernel_arg_bytes(out->kernel, i));
    }
    const kiln_manifest *m = kiln_kernel_manifest(out->kernel);
    if (!st)
        st = kiln_pages_create(kiln_services_scratch_bytes(m, 1), KILN_GUARD_NONE, &out->scratch);
    if (st) return st;
    kiln_services_init(&out->services, NULL, 1, out->scratch.data);
    return kiln_call_prepare(out->call, &out->services);
}

static void unload(loaded *k) {
    kiln_call_destroy(k->call);
    kiln_kernel_unload(k->kernel);
    kiln_pages_destroy(&k->scratch);
    *k = (loaded){0};
}

static double run(const loaded *k, uint32_t count) {
    uint64_t begin = kiln_clock_precise_ns();
    for (uint32_t i = 0; i < count; i++)
        if (kiln_call_run(k[i].call, &k[i].services) != KILN_KERNEL_OK) return INFINITY;
    return (double)(kiln_clock_precise_ns() - begin) * 1e-3;
}

/* Sum of the squares of the last argument's elements: independent of where they lie. */
static double sum_of(bench *b, const kiln_step *step) {
    void *data;
    double sum = 0;
    if (memory_of(b, step->arg[step->arg_count - 1], 0, &data)) return 0;
    const kiln_value_info *info = &b->graph->value.data[step->arg[step->arg_count - 1]];
    for (int64_t i = 0; i < kiln_shape_count(&info->shape); i++)
        sum += (double)((float *)data)[i] * (double)((float *)data)[i];
    return sum;
}

/* ---- joined ---------------------------------------------------------------------------------- */

/* Gives all nodes of the steps' groups one group; `steps` are of the plan before. */
static void join(kiln_graph *g, const kiln_plan *plan, const uint32_t *kernel, uint32_t first,
                 uint32_t last) {
    uint32_t joined = 0;
    bool *in = calloc(g->value.count, 1);
    for (kiln_node n = 1; n < g->node.count; n++)
        if (g->node.data[n].group > joined) joined = g->node.data[n].group;
    joined++;
    for (uint32_t k = first; k <= last; k++) {
        const kiln_step *step = &plan->step[kernel[k]];
        for (kiln_node n = 1; n < g->node.count; n++) {
            if (!kiln_str_equal(g->node.data[n].name, step->name)) continue;
            const uint32_t group = g->node.data[n].group;
            for (kiln_node m = 1; m < g->node.count; m++)
                if (m == n || (group && g->node.data[m].group == group))
                    g->node.data[m].group = joined;
            break;
        }
    }
    free(in);
}

/* Leaves the space with the sketches of one algorithm. */
static kiln_status keep_algorithm(kiln_space *space, kiln_algorithm algorithm) {
    uint32_t first = 0, last;
    while (first < space->sketch_count &&
           kiln_trace_algorithm(&space->sketch[first].preferred) != algorithm)
        first++;
    for (last = first; last < space->sketch_count; last++)
        if (kiln_trace_algorithm(&space->sketch[last].preferred) != algorithm) break;
    if (first == last)
        return KILN_ERROR(NOT_FOUND, "%s makes no sketch", kiln_algorithm_name(algorithm));
    space->sketch += first;
    space->sketch_count = last - first;
    space->preferred = 0;
    return KILN_OK;
}

static kiln_status preferred(bench *b, const kiln_task *task, kiln_space *space,
                             kiln_trace *out_trace) {
    kiln_program *scheduled = NULL;
    kiln_space_options options = {.keeps_refused = true};
    kiln_status st = kiln_space_create_with(task->te, &b->target, &options, b->arena, space);
    return st ? st : kiln_space_default(space, b->arena, out_trace, &scheduled);
}

/* The same of the one kernel. */
static kiln_status preferred_of_joined(bench *b, const kiln_task *task, kiln_space *space,
                                       kiln_trace *out_trace) {
    kiln_program *scheduled = NULL;
    kiln_status st = preferred(b, task, space, out_trace);
    if (st || !b->algorithm) return st;
    st = keep_algorithm(space, b->algorithm);
    return st ? st : kiln_space_default(space, b->arena, out_trace, &scheduled);
}

static kiln_status show(bench *b, const kiln_task *task, const char *stage) {
    kiln_space space;
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_strbuf text = {0};
    kiln_status st = NULL;
    if (strcmp(stage, "te") == 0) {
        kiln_program_print(task->te, &text);
    } else {
        st = preferred_of_joined(b, task, &space, &trace);
        if (!st) st = kiln_trace_replay(&trace, task->te, NULL, b->arena, &scheduled, NULL);
        kiln_lowered lowered;
        kiln_codegen_options options = {.emit = KILN_EMIT_ASM, .optimise = 2};
        kiln_str bytes = {0};
        uint64_t scratch, worker;
        if (st) return st;
        if (strcmp(stage, "trace") == 0) {
            kiln_trace_print(&trace, &text);
        } else if (strcmp(stage, "space") == 0) {
            kiln_space_print(&space, &text);
            kiln_space_print_refused(&space, &text);
        } else if (strcmp(stage, "scheduled") == 0) {
            kiln_program_print(scheduled, &text);
        } else if (strcmp(stage, "loops") == 0) {
            st = kiln_lower_explain(scheduled, &b->target, KILN_STR("registers"), b->arena, &text);
        } else {
            st = kiln_lower(scheduled, &b->target, b->arena, &lowered);
            if (!st)
                st = kiln_codegen(&lowered, &b->target, &options, b->arena, &bytes, &scratch,
                                  &worker);
            kiln_strbuf_str(&text, bytes);
        }
    }
    fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

/* ---- the comparison -------------------------------------------------------------------------- */

static kiln_status draw(bench *b, const kiln_space *space, const kiln_step *step,
                        const kiln_task *task, uint32_t draws, uint64_t seed, double most) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t i = 0; i < draws; i++) {
        kiln_trace trace;
        loaded k = {0};
        kiln_status st = kiln_space_sample(space, &rand, b->arena, &trace, NULL);
        if (!st) st = load(b, step, task, &trace, &k);
        double us = INFINITY;
        for (uint32_t r = 0; !st && r < 20 && (r < 3 || us < 2 * most); r++)
            us = fmin(us, run(&k, 1));
        unload(&k);
        kiln_status_free(st); /* drawn again */
        if (us >= most) continue;
        most = us;
        kiln_strbuf text = {0};
        kiln_trace_print(&trace, &text);
        printf("draw %u: %.1f us\n%.*s\n", i, us, (int)text.size, text.data);
        kiln_strbuf_deinit(&text);
    }
    return NULL;
}

static kiln_status compare(bench *b, kiln_graph *g, uint32_t first, uint32_t last, uint32_t draws,
                           uint64_t seed, const char *stage) {
    kiln_plan plan, after;
    kiln_status st = kiln_plan_create(g, b->arena, &plan);
    if (st) return st;
    uint32_t *kernel = KILN_ARENA_ARRAY(b->arena, uint32_t, plan.step_count), count = 0;
    for (uint32_t i = 0; i < plan.step_count; i++)
        if (plan.step[i].kind == KILN_STEP_KERNEL) kernel[count++] = i;
    if (last >= count || last - first >= KERNELS_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "there are %u kernels", count);
    uint32_t *group = KILN_ARENA_ARRAY(b->arena, uint32_t, g->node.count);
    for (kiln_node n = 1; n < g->node.count; n++) group[n] = g->node.data[n].group;
    join(g, &plan, kernel, first, last);
    st = kiln_plan_create(g, b->arena, &after);
    for (kiln_node n = 1; n < g->node.count; n++) g->node.data[n].group = group[n];
    if (st) return st;
    const kiln_step *step = NULL;
    for (uint32_t i = 0; i < after.step_count && !step; i++)
        if (kiln_str_equal(after.step[i].name, plan.step[kernel[first]].name))
            step = &after.step[i];
    const kiln_task *joined = &after.tasks.task[step->task];
    if (stage) return show(b, joined, stage);

    loaded apart[KERNELS_MAX] = {{0}}, one = {0};
    kiln_space space;
    kiln_trace trace;
    double best = INFINITY, best_one = INFINITY, sum = 0, sum_one = 0, flops = 0;
    const uint32_t kernels = b->algorithm ? 1 : last - first + 1;
    if (b->algorithm) {
        st = preferred(b, joined, &space, &trace);
        if (!st) st = keep_algorithm(&space, KILN_ALGORITHM_DIRECT);
        if (!st) st = kiln_space_default(&space, b->arena, &trace, NULL);
        if (!st) st = load(b, step, joined, &trace, &apart[0]);
        flops = joined->flops;
    }
    for (uint32_t k = 0; !st && k < kernels && !b->algorithm; k++) {
        const kiln_step *s = &plan.step[kernel[first + k]];
        const kiln_task *task = &plan.tasks.task[s->task];
        st = preferred(b, task, &space, &trace);
        if (!st) st = load(b, s, task, &trace, &apart[k]);
        flops += task->flops;
    }
    if (!st) st = preferred_of_joined(b, joined, &space, &trace);
    if (!st) st = load(b, step, joined, &trace, &one);
    for (uint32_t i = 0; !st && i < ROUNDS; i++) {
        for (uint32_t r = 0; r < 3; r++) best = fmin(best, run(apart, kernels));
        sum = i ? sum : sum_of(b, step);
        for (uint32_t r = 0; r < 3; r++) best_one = fmin(best_one, run(&one, 1));
        sum_one = i ? sum_one : sum_of(b, step);
    }
    if (!st) {
        printf("%u-%u %.*s: apart", first, last, KILN_STR_ARG(joined->op));
        for (uint32_t k = 0; k < kernels; k++) {
            double us = INFINITY;
            for (uint32_t r = 0; r < ROUNDS; r++) us = fmin(us, run(&apart[k], 1));
            printf(" %.1f", us);
        }
        printf(" together %.1f (%.0f GFLOP/s), joined by \"%s\" %.1f us: %.2f%s\n", best,
               flops / best * 1e-3, space.rule, best_one, best / best_one,
               fabs(sum - sum_one) > 1e-3 * fabs(sum) ? " WRONG" : "");
        if (fabs(sum - sum_one) > 1e-3 * fabs(sum)) printf("sums %g and %g\n", sum, sum_one);
    }
    if (!st && draws) st = draw(b, &space, step, joined, draws, seed, best_one);
    for (uint32_t k = 0; k < kernels; k++) unload(&apart[k]);
    unload(&one);
    for (uint32_t i = 0; i < b->count; i++) kiln_pages_destroy(&b->memory[i].pages);
    b->count = 0;
    return st;
}

static kiln_status list(bench *b) {
    kiln_plan plan;
    uint32_t kernel = 0;
    kiln_status st = kiln_plan_create(b->graph, b->arena, &plan);
    if (st) return st;
    for (uint32_t i = 0; i < plan.step_count; i++) {
        const kiln_step *step = &plan.step[i];
        if (step->kind != KILN_STEP_KERNEL) continue;
        const kiln_shape *to = &b->graph->value.data[step->arg[step->arg_count - 1]].shape;
        printf("%3u  %.*s  ->", kernel++, KILN_STR_ARG(step->op));
        for (uint32_t d = 0; d < to->rank; d++) printf(" %lld", (long long)to->dim[d]);
        printf("  %.1f MFLOP\n", plan.tasks.task[step->task].flops * 1e-6);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const bool given = argc > 2 && strcmp(argv[1], "--algorithm") == 0;
    const kiln_algorithm algorithm = given ? kiln_algorithm_find(kiln_str_from(argv[2])) : 0;
    if (given) {
        argc -= 2;
        argv += 2;
    }
    if (argc < 2 || algorithm == KILN_ALGORITHM_COUNT) {
        fprintf(stderr,
                "usage: %s [--algorithm NAME] MODEL.onnx [FIRST-LAST... [DRAWS [SEED]] | STAGE]\n",
                argv[0]);
        return 2;
    }
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 20);
    bench *b = KILN_ARENA_NEW(&arena, bench);
    kiln_graph *graph = NULL;
    uint32_t first[KERNELS_MAX * 8], last[KERNELS_MAX * 8], count = 0;
    int at = 2;
    for (; at < argc && count < KERNELS_MAX * 8; at++, count++)
        if (sscanf(argv[at], "%u-%u", &first[count], &last[count]) != 2) break;
    const char *stage = at < argc && (argv[at][0] < '0' || argv[at][0] > '9') ? argv[at] : NULL;
    const uint32_t draws = !stage && at < argc ? (uint32_t)atol(argv[at]) : 0;
    const uint64_t seed = at + 1 < argc ? (uint64_t)atol(argv[at + 1]) : 1;
    b->arena = &arena;
    b->algorithm = algorithm;
    kiln_status st = kiln_target_native(&arena, &b->target);
    if (!st) st = kiln_import_file(argv[1], NULL, &arena, &graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    b->graph = graph;
    if (!st && count == 0) st = list(b);
    for (uint32_t i = 0; i < count && !st; i++)
        st = compare(b, graph, first[i], last[i], draws, seed, stage);
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
