#include "tests/unit/compiler-core/codegen/products.h"

#include "base/macros.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/trace.h"
#include "tests/unit/compiler-core/codegen/draw.h"

kiln_program *product_program(kiln_arena *arena, const kiln_intrinsic *in, int64_t m, int64_t n,
                              int64_t k) {
    const char *text = kiln_arena_printf(
        arena,
        "program dot\ninput a: %s[%lld,%lld]\nconstant b: %s[%lld,%lld]\noutput c: i32[%lld,%lld]\n"
        "block dot(m:%lld, n:%lld | k:%lld): c[m, n] sum= i32(a[m, k])*i32(b[n, k]) init 0i32\n",
        kiln_dtype_name(in->operand[0]), (long long)m, (long long)k,
        kiln_dtype_name(in->operand[1]), (long long)n, (long long)k, (long long)m, (long long)n,
        (long long)m, (long long)n, (long long)k);
    kiln_program *te = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &te);
    if (st) fail_msg("%s", kiln_status_text(st));
    return te;
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
    int64_t tile = plain ? 2 : kiln_rand_range(rand, 1, 4);
    int64_t m = tile * (plain ? 2 : kiln_rand_range(rand, 1, 3));
    int64_t n = in->lanes * (plain ? 2 : kiln_rand_range(rand, 1, 3));
    int64_t k = in->steps * (plain ? 8 : kiln_rand_range(rand, 1, 9));
    int64_t unrolled = plain ? 4 : kiln_rand_range(rand, 1, 4);
    bool in_registers = plain || kiln_rand_below(rand, 3) > 0;
    *out_te = product_program(arena, in, m, n,
                              (k + unrolled * in->steps - 1) / unrolled / in->steps * unrolled *
                                  in->steps);
    const char *text = kiln_arena_printf(
        arena,
        "%scache_read(dot, b, \"global\")\ntransform_layout(b.read, \"%s\")\n"
        "split(dot.m, -1, %lld)\nsplit(dot.n, -1, %u)\nsplit(dot.k, -1, %lld, %u)\n"
        "reorder(dot.m.0, dot.n.0, dot.k.0, dot.k.1, dot.m.1, dot.n.1, dot.k.2)\n"
        "%sunroll(dot.m.1)\nunroll(dot.k.1)\n"
        "decompose_reduction(dot, dot.k.0)\n"
        "tensorize(dot.n.1, \"%s\")\nvectorize(dot.init.n.1)\n",
        in_registers ? "cache_write(dot, \"register\")\n" : "", draw_layout(arena, in, rand, plain),
        (long long)tile, in->lanes, (long long)unrolled, in->steps,
        in_registers ? "reverse_compute_at(dot.write, dot.n.0)\nunroll(dot.write.m)\n"
                       "vectorize(dot.write.n)\n"
                     : "",
        in->name);
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_status st = kiln_trace_parse(kiln_str_from(text), arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, *out_te, NULL, arena, &scheduled, NULL);
    if (st) fail_msg("%s\n%s", kiln_status_text(st), text);
    assert_true(schedule_is_sound(*out_te, scheduled, 1));
    return scheduled;
}

kiln_target target_with(kiln_arena *arena, const kiln_intrinsic *in) {
    static const char *const base[] = {
        [KILN_ARCH_X86_64] = "x86_64-unknown-linux-gnu,mcpu=x86-64-v3",
        [KILN_ARCH_AARCH64] = "aarch64-unknown-linux-gnu",
    };
    const char *processor = base[in->arch];
    if (in->lanes == 16) processor = "x86_64-unknown-linux-gnu,mcpu=x86-64-v4";
    return target_of(arena,
                     kiln_arena_printf(arena, "cpu:%s,features=+%s", processor, in->feature));
}
