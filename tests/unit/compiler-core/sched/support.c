#include "tests/unit/compiler-core/sched/support.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/fill.h"
#include "tests/support/interpreter.h"

const kiln_target avx2 = {.kind = KILN_TARGET_CPU,
                          .arch = KILN_ARCH_X86_64,
                          .vector_bytes = 32,
                          .vector_registers = 16,
                          .factor_lanes = 1,
                          .core = {.issue = 5,
                                   .vector = 2,
                                   .loads = 2,
                                   .stores = 1,
                                   .l2_rate = 49,
                                   .l3_rate = 36,
                                   .memory_rate = 64,
                                   .latency = 4,
                                   .forward = 8,
                                   .divide = 5,
                                   .gather = 1,
                                   .convert_f16 = 2,
                                   .convert_bf16 = 0.5,
                                   .convert_i8 = 0.5,
                                   .dot = 0.5,
                                   .fork = 6000},
                          .has_fma = true,
                          .l1_bytes = 32 << 10,
                          .l2_bytes = 512 << 10,
                          .l3_bytes = 8 << 20,
                          .line_bytes = 64,
                          .threads = 1,
                          .cores = 1};

kiln_target avx2_target(uint32_t threads) {
    kiln_target target = avx2;
    target.threads = target.cores = threads;
    return target;
}

static kiln_buffer buffer(kiln_program *p, const char *name, kiln_role role, uint32_t rank,
                          const int64_t *dim) {
    kiln_shape shape = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) shape.dim[d] = dim[d];
    return kiln_buffer_create(p, kiln_str_from(name), KILN_F32, role, &shape);
}

static kiln_expr index_plus(kiln_program *p, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, KILN_EXPR_ADD, a, b);
}

static kiln_expr within(kiln_program *p, kiln_expr e, int64_t low, int64_t high) {
    kiln_expr above = kiln_expr_binary(p, KILN_EXPR_LE, kiln_expr_index(p, low), e);
    kiln_expr below = kiln_expr_binary(p, KILN_EXPR_LT, e, kiln_expr_index(p, high));
    return kiln_expr_binary(p, KILN_EXPR_AND, above, below);
}

/* A block that visits every element of `to`; `index` gets its iterators. */
static kiln_block pointwise(kiln_program *p, const char *name, kiln_buffer to, kiln_expr *index) {
    static const char *const iter_name[] = {"n", "c", "h", "w"};
    kiln_block b = kiln_block_create(p, kiln_str_from(name));
    for (uint32_t d = 0; d < 4; d++)
        index[d] = kiln_block_add_iter(p, b, iter_name[d], p->buffer.data[to].shape.dim[d], false);
    return b;
}

static kiln_buffer add_padding(kiln_program *p, kiln_buffer x, const conv_shape *s) {
    kiln_buffer to = buffer(p, "xp", KILN_ROLE_TEMP, 4,
                            (int64_t[]){s->n, s->ic, s->h + 2 * s->padding, s->w + 2 * s->padding});
    kiln_expr i[4];
    kiln_block b = pointwise(p, "pad", to, i);
    kiln_expr h = index_plus(p, i[2], kiln_expr_index(p, -s->padding));
    kiln_expr w = index_plus(p, i[3], kiln_expr_index(p, -s->padding));
    kiln_expr inside =
        kiln_expr_binary(p, KILN_EXPR_AND, within(p, i[2], s->padding, s->h + s->padding),
                         within(p, i[3], s->padding, s->w + s->padding));
    kiln_expr load = kiln_expr_load(p, x, (kiln_expr[]){i[0], i[1], h, w}, 4);
    kiln_expr value = kiln_expr_select(p, inside, load, kiln_expr_zero(p, KILN_F32));
    kiln_block_set(p, b, to, i, 4, KILN_COMBINE_NONE, value, 0);
    return to;
}

static void add_epilogue(kiln_program *p, kiln_buffer from, const conv_shape *s) {
    kiln_buffer b = buffer(p, "b", KILN_ROLE_CONSTANT, 1, &s->oc);
    kiln_buffer biased = kiln_buffer_create(p, KILN_STR("biased"), KILN_F32, KILN_ROLE_TEMP,
                                            &p->buffer.data[from].shape);
    kiln_buffer y = kiln_buffer_create(p, KILN_STR("y"), KILN_F32, KILN_ROLE_OUTPUT,
                                       &p->buffer.data[from].shape);
    kiln_expr i[4];
    kiln_block bias = pointwise(p, "bias", biased, i);
    kiln_expr sum = kiln_expr_binary(p, KILN_EXPR_ADD, kiln_expr_load(p, from, i, 4),
                                     kiln_expr_load(p, b, &i[1], 1));
    kiln_block_set(p, bias, biased, i, 4, KILN_COMBINE_NONE, sum, 0);
    kiln_block relu = pointwise(p, "relu", y, i);
    kiln_expr positive = kiln_expr_binary(p, KILN_EXPR_MAX, kiln_expr_load(p, biased, i, 4),
                                          kiln_expr_zero(p, KILN_F32));
    kiln_block_set(p, relu, y, i, 4, KILN_COMBINE_NONE, positive, 0);
}

conv_shape square_conv(int64_t size, int64_t channels) {
    return (conv_shape){.n = 1,
                        .ic = channels,
                        .h = size,
                        .w = size,
                        .oc = channels,
                        .kh = 3,
                        .kw = 3,
                        .stride = 1,
                        .padding = 1};
}

kiln_program *conv_program(kiln_arena *arena, const conv_shape *s) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("conv"));
    kiln_buffer x = buffer(p, "x", KILN_ROLE_INPUT, 4, (int64_t[]){s->n, s->ic, s->h, s->w});
    kiln_buffer w = buffer(p, "w", KILN_ROLE_CONSTANT, 4, (int64_t[]){s->oc, s->ic, s->kh, s->kw});
    int64_t oh = (s->h + 2 * s->padding - s->kh) / s->stride + 1;
    int64_t ow = (s->w + 2 * s->padding - s->kw) / s->stride + 1;
    kiln_buffer xp = s->padding > 0 ? add_padding(p, x, s) : x;
    kiln_buffer to =
        buffer(p, s->epilogue ? "sum" : "y", s->epilogue ? KILN_ROLE_TEMP : KILN_ROLE_OUTPUT, 4,
               (int64_t[]){s->n, s->oc, oh, ow});
    kiln_block b = kiln_block_create(p, KILN_STR("conv"));
    kiln_expr out[4], k[3];
    const int64_t extent[] = {s->n, s->oc, oh, ow, s->ic, s->kh, s->kw};
    static const char *const name[] = {"n", "oc", "oh", "ow", "ic", "kh", "kw"};
    for (uint32_t i = 0; i < 4; i++) out[i] = kiln_block_add_iter(p, b, name[i], extent[i], false);
    for (uint32_t i = 0; i < 3; i++)
        k[i] = kiln_block_add_iter(p, b, name[4 + i], extent[4 + i], true);
    kiln_expr stride = kiln_expr_index(p, s->stride);
    kiln_expr row = index_plus(p, kiln_expr_binary(p, KILN_EXPR_MUL, out[2], stride), k[1]);
    kiln_expr column = index_plus(p, kiln_expr_binary(p, KILN_EXPR_MUL, out[3], stride), k[2]);
    kiln_expr in = kiln_expr_load(p, xp, (kiln_expr[]){out[0], k[0], row, column}, 4);
    kiln_expr weight = kiln_expr_load(p, w, (kiln_expr[]){out[1], k[0], k[1], k[2]}, 4);
    kiln_block_set(p, b, to, out, 4, KILN_COMBINE_SUM,
                   kiln_expr_binary(p, KILN_EXPR_MUL, in, weight), 0);
    if (s->epilogue) add_epilogue(p, to, s);
    return p;
}

kiln_program *matmul_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("matmul"));
    kiln_buffer x = buffer(p, "x", KILN_ROLE_INPUT, 2, (int64_t[]){m, k});
    kiln_buffer w = buffer(p, "w", KILN_ROLE_CONSTANT, 2, (int64_t[]){k, n});
    kiln_buffer y = buffer(p, "y", KILN_ROLE_OUTPUT, 2, (int64_t[]){m, n});
    kiln_block b = kiln_block_create(p, KILN_STR("matmul"));
    kiln_expr i = kiln_block_add_iter(p, b, "m", m, false);
    kiln_expr j = kiln_block_add_iter(p, b, "n", n, false);
    kiln_expr l = kiln_block_add_iter(p, b, "k", k, true);
    kiln_expr product =
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_load(p, x, (kiln_expr[]){i, l}, 2),
                         kiln_expr_load(p, w, (kiln_expr[]){l, j}, 2));
    kiln_block_set(p, b, y, (kiln_expr[]){i, j}, 2, KILN_COMBINE_SUM, product, 0);
    return p;
}

kiln_program *bytes_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    const char *text =
        kiln_arena_printf(arena,
                          "program dot\ninput x: i8[%lld,%lld]\nconstant w: i8[%lld,%lld]\n"
                          "output y: i32[%lld,%lld]\nblock dot(m:%lld, n:%lld | k:%lld): "
                          "y[m, n] sum= i32(x[m, k])*i32(w[n, k]) init 0i32\n",
                          (long long)m, (long long)k, (long long)n, (long long)k, (long long)m,
                          (long long)n, (long long)m, (long long)n, (long long)k);
    return parsed(arena, text);
}

kiln_program *parsed(kiln_arena *arena, const char *text) {
    kiln_program *p = NULL;
    expect_ok(kiln_program_parse(kiln_str_from(text), arena, &p));
    return p;
}

const char *deep_split(kiln_arena *arena, const char *loop, int64_t extent, uint32_t loops) {
    const char *text = "";
    for (uint32_t made = 0; made < loops; made += 15) {
        text = kiln_arena_printf(arena, "%ssplit(%s, 1,1,1,1,1, 1,1,1,1,1, 1,1,1,1,1, %lld)\n",
                                 text, loop, (long long)extent);
        loop = kiln_arena_printf(arena, "%s.15", loop);
    }
    return text;
}

kiln_program *chain_program(kiln_arena *arena, int64_t rows, int64_t columns) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("chain"));
    const int64_t dim[] = {rows, columns};
    kiln_buffer x = buffer(p, "x", KILN_ROLE_INPUT, 2, dim);
    kiln_buffer t = buffer(p, "t", KILN_ROLE_TEMP, 2, dim);
    kiln_buffer y = buffer(p, "y", KILN_ROLE_OUTPUT, 2, dim);
    for (uint32_t step = 0; step < 2; step++) {
        kiln_block b = kiln_block_create(p, step ? KILN_STR("c") : KILN_STR("a"));
        kiln_expr i[] = {kiln_block_add_iter(p, b, "i", rows, false),
                         kiln_block_add_iter(p, b, "j", columns, false)};
        kiln_expr load = kiln_expr_load(p, step ? t : x, i, 2);
        kiln_expr value = kiln_expr_binary(p, step ? KILN_EXPR_ADD : KILN_EXPR_MUL, load,
                                           kiln_expr_float(p, KILN_F32, step ? 1 : 2));
        kiln_block_set(p, b, step ? y : t, i, 2, KILN_COMBINE_NONE, value, 0);
    }
    return p;
}

/* ---- comparing ---- */

static uint32_t make_args(const kiln_program *p, kiln_arena *arena, kiln_tensor *args) {
    kiln_arg_buffers list = kiln_program_args(p);
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (uint32_t i = 0; i < list.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[list.buffer[i]];
        args[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        if (b->role == KILN_ROLE_OUTPUT) continue;
        if (b->range.step) {
            fill_buffer(b, i, args[i].data);
            continue;
        }
        assert_true(kiln_dtype_is_float(b->dtype) || b->dtype == KILN_I8 || b->dtype == KILN_U8 ||
                    b->dtype == KILN_I32 || b->dtype == KILN_I64);
        const int64_t low = b->dtype == KILN_U8 ? 0 : -4, high = b->dtype == KILN_U8 ? 255 : 4;
        for (int64_t k = 0; k < kiln_shape_count(&b->shape); k++)
            if (b->dtype == KILN_I64)
                ((int64_t *)args[i].data)[k] = kiln_rand_range(&rand, low, high);
            else
                kiln_dtype_store_f64(b->dtype, args[i].data, (size_t)k,
                                     (double)kiln_rand_range(&rand, low, high));
    }
    return list.count;
}

static double element(const kiln_tensor *t, int64_t k) {
    return kiln_dtype_load_f64(t->dtype, t->data, (size_t)k);
}

/* Within `error` of the largest magnitude; 0: bit by bit. */
static bool is_near(const kiln_tensor *expected, const kiln_tensor *actual, double error) {
    double magnitude = 0;
    bool near = true;
    if (memcmp(expected->data, actual->data, kiln_tensor_bytes(expected)) == 0) return true;
    if (!kiln_dtype_is_float(expected->dtype)) return false;
    for (int64_t k = 0; k < kiln_shape_count(&expected->shape); k++)
        magnitude = fmax(magnitude, fabs(element(expected, k)));
    for (int64_t k = 0; k < kiln_shape_count(&expected->shape); k++)
        near &= fabs(element(expected, k) - element(actual, k)) <= error * magnitude;
    return near && error > 0;
}

kiln_status same_result_by(kiln_algorithm algorithm, const kiln_program *te,
                           const kiln_program *scheduled, kiln_arena *arena) {
    kiln_tensor expected[KILN_MANIFEST_ARGS_MAX], actual[KILN_MANIFEST_ARGS_MAX];
    uint32_t count = make_args(te, arena, expected);
    assert_int_equal(make_args(scheduled, arena, actual), count);
    kiln_status st = kiln_te_eval(te, expected, count);
    if (!st) st = kiln_loop_eval(scheduled, actual, count);
    for (uint32_t i = 0; i < count && !st; i++)
        if (!is_near(&expected[i], &actual[i], kiln_algorithm_relative_error(algorithm)))
            st = KILN_ERROR(INTERNAL, "argument %u differs", i);
    return st;
}

kiln_status same_result(const kiln_program *te, const kiln_program *scheduled, kiln_arena *arena) {
    return same_result_by(KILN_ALGORITHM_DIRECT, te, scheduled, arena);
}

static void fail_with(kiln_status st, const char *text) {
    print_error("%s\n%s\n", kiln_status_text(st), text);
    kiln_status_free(st);
    fail();
}

kiln_program *schedule(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    kiln_status st = kiln_trace_parse(kiln_str_from(text), te->arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL);
    if (!st) st = same_result(te, p, te->arena);
    if (st) {
        kiln_strbuf out = {0};
        if (p) kiln_program_print(p, &out);
        print_error("%s\n", out.data ? out.data : "");
        kiln_strbuf_deinit(&out);
        fail_with(st, text);
    }
    return p;
}

void expect_illegal(const kiln_program *te, const char *text, const char *reason) {
    kiln_trace trace;
    kiln_status st = kiln_trace_parse(kiln_str_from(text), te->arena, &trace);
    if (st) fail_with(st, text);
    st = kiln_trace_replay(&trace, te, NULL, te->arena, NULL, NULL);
    if (kiln_status_code(st) != KILN_ILLEGAL_SCHEDULE ||
        strstr(kiln_status_text(st), reason) == NULL) {
        print_error("expected: %s\n", reason);
        fail_with(st, text);
    }
    kiln_status_free(st);
}

static char *text_of(const kiln_program *p) {
    kiln_strbuf out = {0};
    kiln_program_print(p, &out);
    char *text = kiln_str_dup(p->arena, kiln_strbuf_view(&out));
    kiln_strbuf_deinit(&out);
    return text;
}

void expect_loops(const kiln_program *te, const char *text, const char *loops) {
    char *whole = text_of(schedule(te, text));
    char *tree = strstr(whole, "loops:\n");
    assert_non_null(tree);
    assert_string_equal(tree + strlen("loops:\n"), loops);
}

void expect_line(const kiln_program *te, const char *text, const char *line) {
    char *whole = text_of(schedule(te, text));
    char *with_ends = kiln_arena_printf(te->arena, "\n%s\n", line);
    if (!strstr(whole, with_ends)) fail_msg("there is no line '%s' in\n%s", line, whole);
}
