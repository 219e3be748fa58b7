#include "tests/unit/compiler-core/codegen/products.h"

#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/trace.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/sched/support.h"

kiln_program *replayed(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_status st = kiln_trace_parse(kiln_str_from(text), te->arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, te->arena, &scheduled, NULL);
    if (st) fail_msg("%s\n%s", kiln_status_text(st), text);
    assert_true(schedule_is_sound(te, scheduled, 1));
    return scheduled;
}

kiln_program *product_program(kiln_arena *arena, const kiln_intrinsic *in, int64_t m, int64_t n,
                              int64_t k) {
    const char *sum = kiln_dtype_name(kiln_intrinsic_sum(in));
    const char *text = kiln_arena_printf(
        arena,
        "program dot\ninput a: %s[%lld,%lld]\nconstant b: %s[%lld,%lld]\noutput c: %s[%lld,%lld]\n"
        "block dot(m:%lld, n:%lld | k:%lld): c[m, n] sum= %s(a[m, k])*%s(b[n, k]) init %s\n",
        kiln_dtype_name(in->operand[0]), (long long)m, (long long)k,
        kiln_dtype_name(in->operand[1]), (long long)n, (long long)k, sum, (long long)m,
        (long long)n, (long long)m, (long long)n, (long long)k, sum, sum,
        kiln_dtype_is_float(in->operand[0]) ? "0.0" : "0i32");
    return parsed(arena, text);
}

kiln_program *f16_product_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    const char *text = kiln_arena_printf(
        arena,
        "program p\ninput a: f16[%lld,%lld]\nconstant b: f16[%lld,%lld]\noutput c: f32[%lld,%lld]\n"
        "block p(m:%lld, n:%lld | k:%lld): c[m, n] sum= f32(a[m, k])*f32(b[k, n]) init 0.0\n",
        (long long)m, (long long)k, (long long)k, (long long)n, (long long)m, (long long)n,
        (long long)m, (long long)n, (long long)k);
    return parsed(arena, text);
}

/* Where the bytes lie: packed for the instruction, row-major, or blocked along one dimension. */
static const char *draw_layout(kiln_arena *arena, const kiln_intrinsic *in, kiln_rand *rand,
                               bool plain) {
    uint64_t kind = plain ? 0 : kiln_rand_below(rand, 4);
    unsigned lanes = in->lanes, steps = in->steps;
    if (kind == 1) return kiln_arena_printf(arena, "d1,d0");
    if (kind == 2) return kiln_arena_printf(arena, "d0/%u,d1,d0%%%u", lanes, lanes);
    if (kind == 3) return kiln_arena_printf(arena, "d0,d1");
    return kiln_arena_printf(arena, "d0/%u,d1/%u,d0%%%u,d1%%%u", lanes, steps, lanes, steps);
}

kiln_program *draw_product(kiln_arena *arena, const kiln_intrinsic *in, kiln_rand *rand, bool plain,
                           kiln_program **out_te) {
    const bool rows = in->rows > 1;
    int64_t tile = plain ? 2 : kiln_rand_range(rand, 1, 4);
    int64_t m = tile * in->rows * (plain ? 2 : kiln_rand_range(rand, 1, 3));
    int64_t n = in->lanes * (plain ? 2 : kiln_rand_range(rand, 1, 3));
    int64_t k = in->steps * (plain ? 8 : kiln_rand_range(rand, 1, 9));
    int64_t unrolled = plain ? 4 : kiln_rand_range(rand, 1, 4);
    bool in_registers = plain || kiln_rand_below(rand, 3) > 0;
    if (rows && !plain && in_registers) m -= (int64_t)kiln_rand_below(rand, 2); /* an odd number */
    *out_te = product_program(arena, in, m, n,
                              (k + unrolled * in->steps - 1) / unrolled / in->steps * unrolled *
                                  in->steps);
    const char *text = kiln_arena_printf(
        arena,
        "%scache_read(dot, b, \"global\")\ntransform_layout(b.read, \"%s\")\n"
        "split(dot.m, -1, %lld, %u)\nsplit(dot.n, -1, %u)\nsplit(dot.k, -1, %lld, %u)\n"
        "reorder(dot.m.0, dot.n.0, dot.k.0, dot.k.1, dot.m.1, dot.m.2, dot.n.1, dot.k.2)\n"
        "%sunroll(dot.m.1)\nunroll(dot.k.1)\n"
        "decompose_reduction(dot, dot.k.0)\n"
        "tensorize(dot.%s.%u, \"%s\")\nvectorize(dot.init.n.1)\n%s",
        in_registers ? "cache_write(dot, \"register\")\n" : "", draw_layout(arena, in, rand, plain),
        (long long)tile, in->rows, in->lanes, (long long)unrolled, in->steps,
        in_registers ? "reverse_compute_at(dot.write, dot.n.0)\nunroll(dot.write.m)\n"
                       "vectorize(dot.write.n)\n"
                     : "",
        rows ? "m" : "n", rows ? 2 : 1, in->name, rows ? "unroll(dot.init.m.2)\n" : "");
    return replayed(*out_te, text);
}

kiln_program *quantised_program(kiln_arena *arena, kiln_dtype data, int64_t channels, int64_t size,
                                int64_t results) {
    const char *type = kiln_dtype_name(data), *from = "pad[n, ic, y + ky, x + kx]", *shifted = "";
    long long c = (long long)channels, s = (long long)size, r = (long long)results;
    if (data == KILN_U8) {
        shifted = kiln_arena_printf(arena,
                                    "block signed(n:1, c:%lld, y:%lld, x:%lld): "
                                    "signed[n, c, y, x] = i8(i32(pad[n, c, y, x]) - 128i32)\n",
                                    c, s + 2, s + 2);
        from = "signed[n, ic, y + ky, x + kx]";
    }
    const char *text = kiln_arena_printf(
        arena,
        "program quantised\ninput x: %s[1,%lld,%lld,%lld]\nconstant w: i8[%lld,%lld,3,3]\n"
        "constant scale: f32[%lld]\noutput y: %s[1,%lld,%lld,%lld]\n"
        "temp pad: %s[1,%lld,%lld,%lld]\n%stemp sum: i32[1,%lld,%lld,%lld]\n"
        "temp weights: i32[%lld]\ntemp zero: i32[1,%lld,%lld,%lld]\n"
        "block pad(n:1, c:%lld, y:%lld, x:%lld): pad[n, c, y, x] = "
        "select(and(and(1 <= y, y < %lld), and(1 <= x, x < %lld)), x[n, c, y - 1, x - 1], 3%s)\n%s"
        "block weights(c:%lld | ic:%lld, ky:3, kx:3): weights[c] sum= i32(w[c, ic, ky, kx]) init "
        "0i32\n"
        "block conv(n:1, c:%lld, y:%lld, x:%lld | ic:%lld, ky:3, kx:3): "
        "sum[n, c, y, x] sum= i32(%s)*i32(w[c, ic, ky, kx]) init 0i32\n"
        "block zero(n:1, c:%lld, y:%lld, x:%lld): "
        "zero[n, c, y, x] = sum[n, c, y, x] - weights[c]*3i32\n"
        "block result(n:1, c:%lld, y:%lld, x:%lld): "
        "y[n, c, y, x] = %s(round(f32(zero[n, c, y, x])*scale[c]))\n",
        type, c, s, s, r, c, r, type, r, s, s, type, c, s + 2, s + 2,
        data == KILN_U8
            ? kiln_arena_printf(arena, "temp signed: i8[1,%lld,%lld,%lld]\n", c, s + 2, s + 2)
            : "",
        r, s, s, r, r, s, s, c, s + 2, s + 2, s + 1, s + 1, type, shifted, r, c, r, s, s, c, from,
        r, s, s, r, s, s, type);
    return parsed(arena, text);
}

kiln_program *depthwise_program(kiln_arena *arena, kiln_dtype data, int64_t channels, int64_t size,
                                int64_t taps, int64_t stride, int64_t distance) {
    const long long c = (long long)channels, t = (long long)taps,
                    h = (long long)((size - 2 * distance - 1) / stride + 1),
                    w = (long long)((size - (taps - 1) * distance - 1) / stride + 1);
    const char *text = kiln_arena_printf(
        arena,
        "program depthwise\ninput x: %s[1,%lld,%lld,%lld]\nconstant w: i8[%lld,1,3,%lld]\n"
        "constant scale: f32[%lld]\noutput y: u8[1,%lld,%lld,%lld]\ntemp sum: "
        "i32[1,%lld,%lld,%lld]\n"
        "block conv(n:1, c:%lld, y:%lld, x:%lld | ky:3, kx:%lld): sum[n, c, y, x] sum= "
        "i32(x[n, c, y*%lld + ky*%lld, x*%lld + kx*%lld])*i32(w[c, 0, ky, kx]) init 0i32\n"
        "block result(n:1, c:%lld, y:%lld, x:%lld): "
        "y[n, c, y, x] = u8(i32(round(min(max(f32(sum[n, c, y, x])*scale[c], 0.0), 255.0))))\n",
        kiln_dtype_name(data), c, (long long)size, (long long)size, c, t, c, c, h, w, c, h, w, c, h,
        w, t, (long long)stride, (long long)distance, (long long)stride, (long long)distance, c, h,
        w);
    return parsed(arena, text);
}

kiln_program *bits_program(kiln_arena *arena, kiln_range data, kiln_range weights, int64_t channels,
                           int64_t size, int64_t results) {
    const char *x = data.low < 0 ? "i8" : "u8", *w = weights.low < 0 ? "i8" : "u8";
    const long long c = (long long)channels, s = (long long)size, r = (long long)results;
    const char *text = kiln_arena_printf(
        arena,
        "program bits\ninput x: %s[1,%lld,%lld,%lld] range(%lld, %lld)\n"
        "constant w: %s[%lld,%lld,3,3] range(%lld, %lld, %lld)\nconstant scale: f32[%lld]\n"
        "output y: %s[1,%lld,%lld,%lld]\n"
        "temp pad: %s[1,%lld,%lld,%lld]\ntemp sum: i32[1,%lld,%lld,%lld]\n"
        "block pad(n:1, c:%lld, y:%lld, x:%lld): pad[n, c, y, x] = "
        "select(and(and(1 <= y, y < %lld), and(1 <= x, x < %lld)), x[n, c, y - 1, x - 1], 0%s)\n"
        "block conv(n:1, c:%lld, y:%lld, x:%lld | ic:%lld, ky:3, kx:3): sum[n, c, y, x] sum= "
        "i32(pad[n, ic, y + ky, x + kx])*i32(w[c, ic, ky, kx]) init 0i32\n"
        "block result(n:1, c:%lld, y:%lld, x:%lld): y[n, c, y, x] = "
        "%s(i32(round(min(max(f32(sum[n, c, y, x])*scale[c], %lld.0), %lld.0))))\n",
        x, c, s, s, (long long)data.low, (long long)data.high, w, r, c, (long long)weights.low,
        (long long)weights.high, (long long)weights.step, r, x, r, s, s, x, c, s + 2, s + 2, r, s,
        s, c, s + 2, s + 2, s + 1, s + 1, x, r, s, s, c, r, s, s, x, (long long)data.low,
        (long long)data.high);
    return parsed(arena, text);
}

kiln_target target_with(kiln_arena *arena, const kiln_intrinsic *in) {
    static const char *const base[] = {
        [KILN_ARCH_X86_64] = "x86_64-unknown-linux-gnu,mcpu=x86-64-v3",
        [KILN_ARCH_AARCH64] = "aarch64-unknown-linux-gnu",
        [KILN_ARCH_WASM32] = "wasm32-unknown-unknown",
        [KILN_ARCH_THUMB] = "thumbv7em-none-eabihf",
    };
    const char *processor = base[in->arch];
    if (strcmp(in->feature, "mve") == 0) processor = "thumbv8.1m.main-none-eabihf";
    if (in->lanes == 16) processor = "x86_64-unknown-linux-gnu,mcpu=x86-64-v4";
    return target_of(arena,
                     kiln_arena_printf(arena, "cpu:%s,features=+%s", processor, in->feature));
}

kiln_program *default_schedule(kiln_program *te, const kiln_target *target) {
    kiln_space *space = KILN_ARENA_NEW(te->arena, kiln_space);
    kiln_program *scheduled = NULL;
    kiln_trace trace;
    expect_ok(kiln_space_create(te, target, te->arena, space));
    expect_ok(kiln_space_default(space, te->arena, &trace, &scheduled));
    return scheduled;
}

const char *assembly_of(const kiln_program *scheduled, const kiln_target *target,
                        kiln_arena *arena) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_ASM, .optimise = 2};
    kiln_lowered lowered;
    kiln_str text = {0};
    uint64_t scratch = 0, worker = 0;
    expect_ok(kiln_lower(scheduled, target, arena, &lowered));
    expect_ok(kiln_codegen(&lowered, target, &options, arena, &text, &scratch, &worker));
    return kiln_str_dup(arena, text);
}

uint32_t occurrences(const char *text, const char *word) {
    uint32_t count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) count++;
    return count;
}
