/* Writes payloads of a GPU's candidates for ./dev bench gpu: of each task of MODEL the default
 * schedule, and as many drawn ones as asked for. MODEL is a file, a name that `kiln zoo` knows, or
 * a tensor expression (NAME.te). A line of JSON for each: what was written where, its launches, and
 * what it took from the trace's bytes to the payload. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/opt.h"
#include "compiler-core/core.h"
#include "compiler-core/cost/estimate_gpu.h"
#include "compiler-core/cost/warp.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"

typedef struct bench {
    kiln_target target;
    const char *folder;
    uint64_t drawn, seed;
    kiln_codegen_context *context;
    kiln_arena scratch; /* of the model, one for all candidates as in a tuner */
    uint32_t written;
} bench;

typedef struct built {
    kiln_lowered lowered;
    kiln_str payload;
    uint64_t elapsed_ns;
    /* Of a thread of its widest launch, as the cost model expects them, and at least. */
    double registers, needed;
    double expected_ns;
    uint64_t estimated_ns;      /* what counting and the model took */
    kiln_gpu_estimate estimate; /* in the scratch arena, until the next one */
} built;

static void estimate(bench *b, const kiln_program *scheduled, built *out) {
    kiln_arena_reset(&b->scratch);
    const uint64_t begin_ns = kiln_clock_thread_ns();
    kiln_gpu_estimate_make(kiln_facts_create(scheduled, KILN_WARP_SECTOR_BYTES, &b->scratch),
                           &b->target, &b->scratch, &out->estimate);
    out->estimated_ns = kiln_clock_thread_ns() - begin_ns;
    const kiln_gpu_estimate e = out->estimate;
    out->expected_ns = e.ns;
    for (uint32_t i = 0; i < e.launch_count; i++) {
        if (!e.launch[i].used) continue;
        out->registers = KILN_MAX(out->registers, e.launch[i].registers);
        out->needed = KILN_MAX(out->needed, e.launch[i].needed_registers);
    }
}

/* From what a builder is sent. The model looks at the replayed program, as it does in a search. */
static kiln_status build(bench *b, kiln_str te_text, kiln_str trace_bytes, kiln_arena *arena,
                         built *out) {
    const uint64_t begin_ns = kiln_clock_thread_ns();
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .context = b->context};
    kiln_program *te = NULL, *scheduled = NULL;
    kiln_trace trace;
    uint64_t scratch, worker;
    kiln_status st = kiln_program_parse(te_text, arena, &te);
    if (!st) st = kiln_trace_decode(trace_bytes, arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, arena, &scheduled, NULL);
    if (!st) estimate(b, scheduled, out);
    if (!st) st = kiln_lower(scheduled, &b->target, arena, &out->lowered);
    if (!st)
        st = kiln_codegen(&out->lowered, &b->target, &options, arena, &out->payload, &scratch,
                          &worker);
    out->elapsed_ns = kiln_clock_thread_ns() - begin_ns - out->estimated_ns;
    return st;
}

/* What the trees of cost/registers_gpu.c look at, of each launch in turn. */
static void print_inputs(const kiln_gpu_estimate *e, const kiln_gpu *gpu) {
    static const char *const name[] = {
#define X(name) #name,
        KILN_GPU_REGISTER_INPUTS(X)
#undef X
    };
    uint32_t printed = 0;
    for (uint32_t i = 0; i < e->launch_count; i++) {
        double input[KILN_GPU_REGISTER_INPUT_COUNT];
        if (!e->launch[i].used) continue;
        kiln_gpu_register_inputs(&e->launch[i].held, gpu, e->launch[i].threads, input);
        for (uint32_t k = 0; k < KILN_GPU_REGISTER_INPUT_COUNT; k++)
            printf("%s\"%s\":%.9g", k ? "," : printed ? ",{" : "{", name[k], input[k]);
        printf("}");
        printed++;
    }
}

static void print_launches(const kiln_launches *launches) {
    for (uint32_t i = 0; i < launches->count; i++) {
        const kiln_launch *l = &launches->launch[i];
        printf("%s{\"entry\":\"%.*s\",\"grid\":[%u,%u,%u],\"group\":[%u,%u,%u],\"shared\":%llu}",
               i ? "," : "", KILN_STR_ARG(l->entry), l->grid_size[0], l->grid_size[1],
               l->grid_size[2], l->group_size[0], l->group_size[1], l->group_size[2],
               (unsigned long long)l->shared_bytes);
    }
}

static void print_refusal(kiln_status st) {
    printf(",\"refused\":\"");
    for (const char *at = kiln_status_text(st); *at; at++)
        putchar(*at == '"' || *at == '\\' || *at < ' ' ? ' ' : *at);
    printf("\"}\n");
    kiln_status_free(st);
}

static kiln_status one(bench *b, const kiln_task *task, const kiln_trace *trace, const char *kind,
                       kiln_arena *arena) {
    kiln_strbuf te = {0}, bytes = {0};
    built made = {0};
    kiln_program_print(task->te, &te);
    kiln_trace_encode(trace, &bytes);
    kiln_status st = build(b, kiln_strbuf_view(&te), kiln_strbuf_view(&bytes), arena, &made);
    printf("{\"key\":\"%.*s\",\"op\":\"%.*s\",\"kind\":\"%s\"", KILN_STR_ARG(task->key),
           KILN_STR_ARG(task->op), kind);
    kiln_strbuf_deinit(&te);
    kiln_strbuf_deinit(&bytes);
    if (st) {
        print_refusal(st);
        return KILN_OK;
    }
    const char *path = kiln_arena_printf(arena, "%s/%u", b->folder, b->written++);
    printf(",\"path\":\"%s\",\"elapsed_ns\":%llu,\"estimated_ns\":%llu,\"expected_ns\":%.0f,"
           "\"registers\":%.0f,\"needed\":%.0f,\"launches\":[",
           path, (unsigned long long)made.elapsed_ns, (unsigned long long)made.estimated_ns,
           made.expected_ns, made.registers, made.needed);
    print_launches(&made.lowered.run_launches);
    printf("],\"inputs\":[");
    print_inputs(&made.estimate, b->target.gpu);
    printf("]}\n");
    return kiln_file_write(path, made.payload, 0600);
}

static kiln_status of_task(bench *b, const kiln_task *task) {
    kiln_arena arena;
    kiln_space space;
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_rand rand;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_rand_init(&rand, b->seed);
    kiln_status st = kiln_space_create(task->te, &b->target, &arena, &space);
    if (!st) st = kiln_space_default(&space, &arena, &trace, &program);
    if (!st) st = one(b, task, &trace, "default", &arena);
    for (uint64_t i = 0; !st && i < b->drawn; i++) {
        kiln_arena candidate;
        kiln_arena_init(&candidate, (size_t)1 << 20);
        kiln_status drawn = kiln_space_sample(&space, &rand, &candidate, &trace, &program);
        if (!drawn) st = one(b, task, &trace, "drawn", &candidate);
        kiln_status_free(drawn); /* what legality refuses is drawn again in tuning */
        kiln_arena_deinit(&candidate);
    }
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "task %.*s", KILN_STR_ARG(task->key));
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

static kiln_status of_expression(bench *b, const char *path, kiln_arena *arena) {
    kiln_task task = {.key = kiln_str_from(path), .op = KILN_STR("te")};
    kiln_str text;
    kiln_status st = kiln_file_read(path, 1 << 20, arena, &text);
    if (!st) st = kiln_program_parse(text, arena, &task.te);
    return st ? st : of_task(b, &task);
}

static kiln_status of_model(bench *b, const char *name, kiln_arena *arena) {
    kiln_graph *graph = NULL;
    kiln_compilation *compilation = NULL;
    const kiln_accuracy accuracy = {0};
    if (kiln_str_ends(kiln_str_from(name), ".te")) return of_expression(b, name, arena);
    kiln_status st = import(name, arena, &graph);
    if (!st) st = kiln_compilation_of_model(graph, &b->target, &accuracy, arena, &compilation);
    for (uint32_t i = 0; !st && i < compilation->searched.count; i++)
        st = of_task(b, &compilation->searched.task[i]);
    return st;
}

static kiln_status run(bench *b, const char *const *model, size_t count, kiln_arena *arena) {
    kiln_status st = KILN_OK;
    b->context = kiln_codegen_context_create();
    kiln_arena_init(&b->scratch, (size_t)1 << 20);
    for (size_t i = 0; !st && i < count; i++)
        st = kiln_status_note(of_model(b, model[i], arena), "%s", model[i]);
    kiln_arena_deinit(&b->scratch);
    kiln_codegen_context_destroy(b->context);
    return st;
}

int main(int argc, char **argv) {
    const char *target = "h200";
    bench b = {.seed = 1, .folder = "."};
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &target, "TARGET", "Default h200."},
        {"drawn", KILN_OPT_COUNT, &b.drawn, "N", "Candidates of each task beside the default."},
        {"seed", KILN_OPT_COUNT, &b.seed, "N", "Of the draws (default 1)."},
        {"out", KILN_OPT_TEXT, &b.folder, "FOLDER", "Where payloads go."},
    };
    const kiln_opt_table table = {
        .usage = "bench-gpu MODEL... [options]",
        .summary = "Writes payloads of candidates of MODEL, a file, a name of `kiln zoo` or a "
                   "tensor expression NAME.te.",
        .option = option,
        .option_count = KILN_ARRAY_COUNT(option),
        .positional_min = 1,
        .positional_max = 64,
    };
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_args args;
    kiln_status st = kiln_opt_parse(&table, argc, argv, &arena, &args);
    if (!st) st = kiln_target_parse(kiln_str_from(target), &arena, &b.target);
    if (!st) st = run(&b, args.positional, args.count, &arena);
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
