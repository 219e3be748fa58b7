/* Times one kernel in this process, of a convolution or of a task in text form (loop-text.md), from
 * a trace in text form:
 *
 *     bench-kernel HEIGHT,WIDTH,C_IN,C_OUT,KERNEL,STRIDE,PAD|TASK-FILE
 * TRACE-FILE|default|ALGORITHM[.K] [TARGET [trace|scheduled|loops|llvm|asm|object]]
 *
 * An algorithm's name takes what the rules prefer in its K-th sketch (default: 0, the first).
 * Prints the time from trace to object (median of several) and the share of the machine's FMA peak,
 * or the form asked for instead. Padding is a block of its own ("pad") and counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/peak.h"

typedef struct conv_shape {
    int64_t height, width, in, out, kernel, stride, pad;
} conv_shape;

static kiln_expr plus(kiln_program *p, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, KILN_EXPR_ADD, a, b);
}
static kiln_expr times(kiln_program *p, kiln_expr a, int64_t c) {
    return kiln_expr_binary(p, KILN_EXPR_MUL, a, kiln_expr_index(p, c));
}

static kiln_expr inside(kiln_program *p, kiln_expr v, int64_t low, int64_t end) {
    kiln_expr above = kiln_expr_binary(p, KILN_EXPR_LE, kiln_expr_index(p, low), v);
    return kiln_expr_binary(p, KILN_EXPR_AND, above,
                            kiln_expr_binary(p, KILN_EXPR_LT, v, kiln_expr_index(p, end)));
}

static kiln_buffer add_pad(kiln_program *p, kiln_buffer x, const conv_shape *s) {
    kiln_shape shape = {.rank = 4,
                        .dim = {1, s->in, s->height + 2 * s->pad, s->width + 2 * s->pad}};
    kiln_buffer padded = kiln_buffer_create(p, KILN_STR("x.pad"), KILN_F32, KILN_ROLE_TEMP, &shape);
    kiln_block b = kiln_block_create(p, KILN_STR("pad"));
    static const char *const name[4] = {"n", "c", "h", "w"};
    kiln_expr at[4], from[4];
    for (uint32_t i = 0; i < 4; i++)
        at[i] = from[i] = kiln_block_add_iter(p, b, name[i], shape.dim[i], false);
    from[2] = plus(p, at[2], kiln_expr_index(p, -s->pad));
    from[3] = plus(p, at[3], kiln_expr_index(p, -s->pad));
    kiln_expr in = kiln_expr_binary(p, KILN_EXPR_AND, inside(p, at[2], s->pad, s->pad + s->height),
                                    inside(p, at[3], s->pad, s->pad + s->width));
    kiln_expr value =
        kiln_expr_select(p, in, kiln_expr_load(p, x, from, 4), kiln_expr_zero(p, KILN_F32));
    kiln_block_set(p, b, padded, at, 4, KILN_COMBINE_NONE, value, 0);
    return padded;
}

static kiln_program *make_conv(kiln_arena *arena, const conv_shape *s) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("conv"));
    int64_t oh = (s->height + 2 * s->pad - s->kernel) / s->stride + 1,
            ow = (s->width + 2 * s->pad - s->kernel) / s->stride + 1;
    kiln_shape x_shape = {.rank = 4, .dim = {1, s->in, s->height, s->width}};
    kiln_shape w_shape = {.rank = 4, .dim = {s->out, s->in, s->kernel, s->kernel}};
    kiln_shape y_shape = {.rank = 4, .dim = {1, s->out, oh, ow}};
    kiln_buffer x = kiln_buffer_create(p, KILN_STR("x"), KILN_F32, KILN_ROLE_INPUT, &x_shape);
    kiln_buffer w = kiln_buffer_create(p, KILN_STR("w"), KILN_F32, KILN_ROLE_CONSTANT, &w_shape);
    kiln_buffer y = kiln_buffer_create(p, KILN_STR("y"), KILN_F32, KILN_ROLE_OUTPUT, &y_shape);
    kiln_buffer from = s->pad ? add_pad(p, x, s) : x;
    kiln_block b = kiln_block_create(p, KILN_STR("conv"));
    kiln_expr o[4] = {
        kiln_block_add_iter(p, b, "n", 1, false), kiln_block_add_iter(p, b, "oc", s->out, false),
        kiln_block_add_iter(p, b, "oh", oh, false), kiln_block_add_iter(p, b, "ow", ow, false)};
    kiln_expr ic = kiln_block_add_iter(p, b, "ic", s->in, true);
    kiln_expr kh = kiln_block_add_iter(p, b, "kh", s->kernel, true),
              kw = kiln_block_add_iter(p, b, "kw", s->kernel, true);
    kiln_expr x_at[4] = {o[0], ic, plus(p, times(p, o[2], s->stride), kh),
                         plus(p, times(p, o[3], s->stride), kw)};
    kiln_expr w_at[4] = {o[1], ic, kh, kw};
    kiln_expr product = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_load(p, from, x_at, 4),
                                         kiln_expr_load(p, w, w_at, 4));
    kiln_block_set(p, b, y, o, 4, KILN_COMBINE_SUM, product, 0);
    return p;
}

#define SWEEP_BYTES ((size_t)128 << 20) /* more than the last cache has */
#define RUNS 300
#define SWEPT_RUNS 30

/* The least of several runs; each after a pass over `sweep`, if there is one, that leaves caches
 * as other kernels do. */
static double run_seconds(kiln_call *call, const kiln_services *services, kiln_pages *sweep) {
    double best = 1e9;
    for (uint32_t i = 0; i < (sweep ? SWEPT_RUNS : RUNS); i++) {
        for (size_t at = 0; sweep && at < sweep->size_bytes; at += 64)
            ((volatile uint8_t *)sweep->data)[at]++;
        uint64_t begin = kiln_clock_precise_ns();
        if (kiln_call_run(call, services) != KILN_KERNEL_OK) return 0;
        double s = (double)(kiln_clock_precise_ns() - begin) * 1e-9;
        if (s < best) best = s;
    }
    return best;
}

static kiln_status time_kernel(const kiln_artefact *artefact) {
    kiln_kernel *kernel = NULL;
    kiln_call *call = NULL;
    kiln_pages pages[KILN_MANIFEST_ARGS_MAX] = {0}, scratch = {0}, sweep = {0};
    kiln_services services;
    kiln_strbuf bytes = {0};
    kiln_artefact_encode(artefact, &bytes);
    const kiln_manifest *m = &artefact->manifest;
    kiln_status st = kiln_kernel_load(kiln_strbuf_view(&bytes), NULL, &kernel);
    if (!st) st = kiln_call_create(kernel, KILN_GUARD_NONE, &call);
    for (uint32_t i = 0; !st && i < m->arg_count; i++) {
        if (kiln_role_is_owned(m->arg[i].role)) continue;
        size_t size = kiln_kernel_arg_bytes(kernel, i);
        st = kiln_pages_create(size, KILN_GUARD_NONE, &pages[i]);
        if (!st) kiln_manifest_arg_fill(&m->arg[i], i + 1, pages[i].data);
        if (!st) st = kiln_call_bind(call, i, pages[i].data, size);
    }
    if (!st) st = kiln_pages_create(SWEEP_BYTES, KILN_GUARD_NONE, &sweep);
    if (!st) st = kiln_pages_create(kiln_services_scratch_bytes(m, 1), KILN_GUARD_NONE, &scratch);
    if (!st) {
        kiln_services_init(&services, NULL, 1, scratch.data);
        st = kiln_call_prepare(call, &services);
    }
    if (!st) {
        double peak = kiln_peak_flops(), s = run_seconds(call, &services, NULL),
               swept = run_seconds(call, &services, &sweep);
        double again = kiln_peak_flops();
        size_t code_bytes;
        (void)kiln_kernel_code(kernel, &code_bytes);
        if (again > peak) peak = again;
        printf("kernel %.1f us, %.1f GFLOP/s of %.1f: %.3f of peak, with swept caches %.1f us, "
               "code %zu bytes\n",
               s * 1e6, m->flops / s * 1e-9, peak * 1e-9, m->flops / s / peak, swept * 1e6,
               code_bytes);
    }
    kiln_pages_destroy(&sweep);
    kiln_strbuf_deinit(&bytes);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    return st;
}

static int compare_ns(const void *a, const void *b) {
    return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static kiln_status time_builds(const kiln_program *te, const kiln_trace *trace,
                               const kiln_target *target) {
    enum { ROUNDS = 31 };
    uint64_t ns[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        kiln_artefact artefact;
        uint64_t begin = kiln_clock_thread_ns();
        kiln_status st = kiln_build(te, KILN_STR("bench"), trace, target, &arena, &artefact);
        ns[i] = kiln_clock_thread_ns() - begin;
        kiln_arena_deinit(&arena);
        if (st) return st;
    }
    qsort(ns, ROUNDS, sizeof ns[0], compare_ns);
    printf("trace to object %.2f ms (median; lowest %.2f)\n", (double)ns[ROUNDS / 2] * 1e-6,
           (double)ns[0] * 1e-6);
    return KILN_OK;
}

static kiln_status show(const kiln_program *te, const kiln_trace *trace, const kiln_target *target,
                        const char *stage, kiln_arena *arena) {
    kiln_program *scheduled = NULL;
    kiln_strbuf text = {0};
    kiln_status st = kiln_trace_replay(trace, te, NULL, arena, &scheduled, NULL);
    if (!st && strcmp(stage, "trace") == 0) {
        kiln_trace_print(trace, &text);
    } else if (!st && strcmp(stage, "scheduled") == 0) {
        kiln_program_print(scheduled, &text);
    } else if (!st && strcmp(stage, "loops") == 0) {
        st = kiln_lower_explain(scheduled, target, KILN_STR("registers"), arena, &text);
    } else if (!st) {
        kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
        if (strcmp(stage, "llvm") == 0) options.emit = KILN_EMIT_LLVM;
        if (strcmp(stage, "asm") == 0) options.emit = KILN_EMIT_ASM;
        kiln_lowered lowered;
        kiln_str bytes = {0};
        uint64_t scratch, worker;
        st = kiln_lower(scheduled, target, arena, &lowered);
        if (!st) st = kiln_codegen(&lowered, target, &options, arena, &bytes, &scratch, &worker);
        kiln_strbuf_str(&text, bytes);
    }
    fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&text);
    return st;
}

/* The preferred trace of the algorithm's k-th sketch; false: there is none. */
static bool find_sketch(const kiln_space *space, kiln_algorithm algorithm, uint32_t k,
                        kiln_trace *out_trace) {
    for (uint32_t i = 0; i < space->sketch_count; i++) {
        if (kiln_trace_algorithm(&space->sketch[i].preferred) != algorithm || k-- > 0) continue;
        *out_trace = space->sketch[i].preferred;
        return true;
    }
    return false;
}

/* The trace in a file, or what the rules prefer. */
static kiln_status find_trace(const char *name, const kiln_program *te, const kiln_target *target,
                              kiln_arena *arena, kiln_trace *out_trace) {
    kiln_str text;
    kiln_program *scheduled;
    if (strcmp(name, "default") == 0) {
        kiln_space *space = KILN_ARENA_NEW(arena, kiln_space);
        kiln_status st = kiln_space_create(te, target, arena, space);
        return st ? st : kiln_space_default(space, arena, out_trace, &scheduled);
    }
    const char *dot = strchr(name, '.');
    const size_t length = dot ? (size_t)(dot - name) : strlen(name);
    const kiln_algorithm algorithm = kiln_algorithm_find((kiln_str){name, length});
    if (algorithm != KILN_ALGORITHM_COUNT) {
        kiln_space *space = KILN_ARENA_NEW(arena, kiln_space);
        kiln_status st = kiln_space_create(te, target, arena, space);
        const uint32_t k = dot ? (uint32_t)strtoul(dot + 1, NULL, 10) : 0;
        if (!st && !find_sketch(space, algorithm, k, out_trace))
            st = KILN_ERROR(NOT_FOUND, "no sketch %s", name);
        return st;
    }
    kiln_status st = kiln_file_read(name, 1 << 20, arena, &text);
    return st ? st : kiln_trace_parse(text, arena, out_trace);
}

/* The convolution of that shape, or the task in that file. */
static kiln_status find_task(const char *name, kiln_arena *arena, kiln_program **out_te) {
    long long v[7];
    if (sscanf(name, "%lld,%lld,%lld,%lld,%lld,%lld,%lld", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
               &v[6]) == 7) {
        const conv_shape s = {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
        *out_te = make_conv(arena, &s);
        return KILN_OK;
    }
    kiln_str text;
    kiln_status st = kiln_file_read(name, 1 << 20, arena, &text);
    return st ? st : kiln_program_parse(text, arena, out_te);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr,
                "usage: %s HEIGHT,WIDTH,C_IN,C_OUT,KERNEL,STRIDE,PAD|TASK-FILE "
                "TRACE-FILE|default|ALGORITHM[.K] [TARGET "
                "[trace|scheduled|loops|llvm|asm|object]]\n",
                argv[0]);
        return 2;
    }
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 20);
    kiln_target target;
    kiln_trace trace;
    kiln_artefact artefact;
    kiln_program *te = NULL;
    kiln_status st = argc > 3 ? kiln_target_parse(kiln_str_from(argv[3]), &arena, &target)
                              : kiln_target_native(&arena, &target);
    if (!st) st = find_task(argv[1], &arena, &te);
    if (!st) st = find_trace(argv[2], te, &target, &arena, &trace);
    if (!st && argc > 4) {
        st = show(te, &trace, &target, argv[4], &arena);
    } else if (!st) {
        st = time_builds(te, &trace, &target);
        if (!st) st = kiln_build(te, KILN_STR("bench"), &trace, &target, &arena, &artefact);
        if (!st) st = time_kernel(&artefact);
    }
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
