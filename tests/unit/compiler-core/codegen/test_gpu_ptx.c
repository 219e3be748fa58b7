/* PTX of launches: what holds of the text everywhere, and what NVIDIA's assembler says of it where
 * it is installed. AMD's objects, of which only the comments are looked at. */
#include <stdio.h>
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/ptxas.h"
#include "compiler-core/sched/trace.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_program *replayed(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static const char product[] =
    "program p\n"
    "input x: f32[1024, 1024]\n"
    "input w: f32[1024, 1024]\n"
    "output y: f32[1024, 1024]\n"
    "block mul(i:1024, j:1024 | k:1024): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";

/* Blocks of 128 x 128, 16 x 16 threads of 8 x 8 sums each in registers, both operands in shared
 * memory. */
static const char tiles[] =
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n"
    "cache_write(mul, \"register\")\n"
    "split(mul.i, 8, 16, 8)\nsplit(mul.j, 8, 16, 8)\nsplit(mul.k, 128, 8)\n"
    "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.j.1, mul.k.1, mul.i.2, mul.j.2)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.y\")\nbind(mul.j.1, \"thread.x\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
    "reverse_compute_at(mul.write, mul.j.0)\n"
    "split(mul.write.i, 16, 8)\nsplit(mul.write.j, 16, 2, 4)\n"
    "reorder(mul.write.i.0, mul.write.j.0, mul.write.i.1, mul.write.j.1, mul.write.j.2)\n"
    "bind(mul.write.i.0, \"thread.y\")\nbind(mul.write.j.0, \"thread.x\")\n"
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, 16, 16, 4)\n"
    "bind(x.read.d0.f.0, \"thread.y\")\nbind(x.read.d0.f.1, \"thread.x\")\n"
    "vectorize(x.read.d0.f.2)\n"
    "fuse(w.read.d0, w.read.d1)\nsplit(w.read.d0.f, 16, 16, 4)\n"
    "bind(w.read.d0.f.0, \"thread.y\")\nbind(w.read.d0.f.1, \"thread.x\")\n"
    "vectorize(w.read.d0.f.2)\n"
    "unroll(mul.init.i.2)\nunroll(mul.init.j.2)\n"
    "unroll(mul.k.1)\nunroll(mul.i.2)\nunroll(mul.j.2)\n"
    "unroll(mul.write.i.1)\nunroll(mul.write.j.1)\nvectorize(mul.write.j.2)\n";

/* Sums in the memory of each thread: loops over them stay. */
static const char rolled[] =
    "cache_write(mul, \"local\")\nsplit(mul.i, 8, 16, 8)\nsplit(mul.j, 8, 16, 8)\n"
    "reorder(mul.i.0, mul.j.0, mul.i.1, mul.j.1, mul.k, mul.i.2, mul.j.2)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.y\")\nbind(mul.j.1, \"thread.x\")\n"
    "reverse_compute_at(mul.write, mul.j.1)\n";

static const char operators[] =
    "program p\n"
    "input x: f32[64]\n"
    "input i: i32[64]\n"
    "input u: u8[64]\n"
    "input h: f16[64]\n"
    "input q: bf16[64]\n"
    "output y: f32[64]\n"
    "output z: i32[64]\n"
    "output v: u8[64]\n"
    "output w: f16[64]\n"
    "output b: bool[64]\n"
    "output c: bf16[64]\n"
    "block one(a:64): y[a] = select(i[a] < 2i32, x[63 - a] * 2.5, sigmoid(x[a]) + floor(x[a]) * "
    "f32(i[a]) - max(x[a], 0.5) / min(x[a], -0.25)) + sqrt(x[a]) + erf(x[a]) * exp(x[a]) + "
    "log(x[a])\n"
    "block two(a:64): z[a] = floordiv(i[a], 3i32) * 7i32 + floormod(i[a], 5i32) - rem(i[a], "
    "4i32) + shl(i[a], 2i32) + shr(i[a], 1i32) + i32(u[a]) - abs(i[a]) + i[a] / 2i32 + i32(x[a] * "
    "100.0)\n"
    "block three(a:64): v[a] = u[a] * 3u8 + xor(u[a], 85u8) - not(u[a]) + shr(u[a], 3u8)\n"
    "block four(a:64): w[a] = f16(x[a] * x[a]) + f16(tanh(x[a])) + h[a]\n"
    "block five(a:64): b[a] = or(and(x[a] < 0.5, not(i[a] == 3i32)), u[a] != 9u8)\n"
    "block six(a:64): c[a] = bf16(x[a] + f32(q[a]))\n";

/* Without a library of the vendor's. */
static const char functions[] =
    "program p\n"
    "input x: f32[64]\n"
    "input i: f32[64]\n"
    "output y: f32[64]\n"
    "block one(a:64): y[a] = pow(x[a], i[a]) + rem(x[a], i[a]) + floormod(x[a], i[a]) + sin(x[a]) "
    "+ "
    "cos(x[a]) * tan(x[a]) + asin(x[a]) + acos(x[a]) * atan(x[a]) + sinh(x[a]) + cosh(x[a]) + "
    "asinh(x[a]) + acosh(x[a]) + atanh(x[a])\n";
static const char wide_functions[] =
    "program p\n"
    "input x: f64[64]\n"
    "input i: f64[64]\n"
    "output y: f64[64]\n"
    "block one(a:64): y[a] = pow(x[a], i[a]) + rem(x[a], i[a]) + floormod(x[a], i[a]) + sin(x[a]) "
    "+ cos(x[a]) * tan(x[a]) + asin(x[a]) + acos(x[a]) * atan(x[a]) + sinh(x[a]) + cosh(x[a]) + "
    "asinh(x[a]) + acosh(x[a]) + atanh(x[a]) + exp(x[a]) * log(x[a]) + tanh(x[a]) * erf(x[a]) + "
    "sigmoid(x[a])\n";
static const char threads_of_functions[] = "bind(one.a, \"thread.x\")\n";

static const char threads_of_operators[] =
    "bind(one.a, \"thread.x\")\nbind(two.a, \"thread.x\")\nbind(three.a, \"thread.x\")\n"
    "bind(four.a, \"thread.x\")\nbind(five.a, \"thread.x\")\nbind(six.a, \"thread.x\")\n";

static const char *text_as(kiln_arena *arena, const char *target_text, const char *te_text,
                           const char *trace, const kiln_codegen_options *options) {
    kiln_target target = target_of(arena, target_text);
    kiln_lowered lowered;
    kiln_str bytes;
    uint64_t scratch_bytes, worker_bytes;
    expect_ok(kiln_lower(replayed(parsed(arena, te_text), trace), &target, arena, &lowered));
    expect_ok(
        kiln_codegen(&lowered, &target, options, arena, &bytes, &scratch_bytes, &worker_bytes));
    return kiln_str_dup(arena, bytes);
}

static const char *ptx_of(kiln_arena *arena, const char *target, const char *te_text,
                          const char *trace) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    return text_as(arena, target, te_text, trace, &options);
}

static uint32_t count_of(const char *text, const char *needle) {
    uint32_t count = 0;
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) count++;
    return count;
}

static const struct {
    const char *target, *processor, *version;
} targets[] = {{"cuda:sm_80", "sm_80", ".version 7.0\n"},
               {"cuda:sm_90", "sm_90", ".version 8.0\n"},
               {"cuda:sm_90a", "sm_90a", ".version 8.0\n"}};

static void sums_are_values_and_tiles_are_fetched_sixteen_bytes_at_once(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(targets); i++) {
        const char *ptx = ptx_of(*state, targets[i].target, product, tiles);
        expect_contains(ptx, targets[i].version);
        expect_contains(ptx, kiln_arena_printf(*state, ".target %s\n", targets[i].processor));
        expect_contains(ptx, ".visible .entry run_0(");
        expect_contains(ptx, ".reqntid 16, 16, 1");
        expect_contains(ptx, ".minnctapersm 1"); /* 64 sums and more: all that a group may have */
        expect_contains(ptx, ".extern .shared .align 16 .b8 shared[];");
        assert_int_equal(count_of(ptx, "fma.rn.f32"), 8 * 8 * 8);
        assert_int_equal(count_of(ptx, "ld.global.v4.f32"), 2);
        assert_int_equal(count_of(ptx, "st.shared.v4.f32"), 2);
        assert_int_equal(count_of(ptx, "st.global.v4.f32"), 8 * 2);
        assert_true(count_of(ptx, "bar.sync") >= 2);
        assert_int_equal(count_of(ptx, ".local"), 0);
        assert_int_equal(count_of(ptx, ".func"), 0);
        assert_ptr_equal(strstr(ptx, ".loc "), NULL);
        assert_string_equal(ptx, ptx_of(*state, targets[i].target, product, tiles));
    }
}

/* The counter has one register and is compared once; addresses advance by themselves. */
static void loops_count_in_32_bits(void **state) {
    const char *ptx = ptx_of(*state, "cuda:sm_80", product, tiles);
    assert_int_equal(count_of(ptx, "setp.ne.s64"), 0);
    assert_int_equal(count_of(ptx, "setp.ne.s32"), 1);
}

static void indices_are_divided_in_32_bits(void **state) {
    const char *ptx = ptx_of(*state, "cuda:sm_80",
                             "program p\ninput x: f32[300]\noutput y: f32[900]\n"
                             "block one(a:900): y[a] = x[floordiv(a, 7) + floormod(a, 11)]\n",
                             "bind(one.a, \"thread.x\")\n");
    assert_int_equal(count_of(ptx, ".u64 \t%rd") - count_of(ptx, "ld.param.u64 \t%rd") -
                         count_of(ptx, "cvt.u64.u32 \t%rd"),
                     0); /* no mul.hi, div or rem of them */
    assert_true(count_of(ptx, "mul.hi.u32") + count_of(ptx, "mul.wide.u32") > 0);
}

/* Where all conditions leave 0, so that the assembler runs the load by a predicate. */
static void a_load_under_several_conditions_has_one_branch(void **state) {
    const char *ptx =
        ptx_of(*state, "cuda:sm_80",
               "program p\ninput x: f32[8,8]\noutput y: f32[8,16]\n"
               "block one(a:8, b:16): y[a, b] = select(and(1 <= a, b < 9), select(and(a < 7, "
               "1 <= b), x[a - 1, b - 1], 0.0), 0.0)\n",
               "bind(one.a, \"thread.y\")\nbind(one.b, \"thread.x\")\n");
    assert_int_equal(count_of(ptx, "ld.global"), 1);
    assert_true(count_of(ptx, "bra") <= 3); /* to the load, around it, and on */
}

static void groups_that_are_to_fit_on_a_unit_are_said(void **state) {
    static const char text[] = "program p\ninput x: f32[8,64]\noutput y: f32[8,64]\n"
                               "block one(a:8, b:64): y[a, b] = x[a, b] + 1.0\n",
                      bound[] = "bind(one.a, \"block.x\")\nbind(one.b, \"thread.x\")\n";
    const char *capped = kiln_arena_printf(*state, "%sresident(one.a, 3)\n", bound);
    expect_contains(ptx_of(*state, "cuda:sm_80", text, capped), ".minnctapersm 3");
    assert_null(strstr(ptx_of(*state, "cuda:sm_80", text, bound), ".minnctapersm"));
}

static void memory_of_a_thread_is_local(void **state) {
    const char *ptx = ptx_of(*state, "cuda:sm_80", product, rolled);
    expect_contains(ptx, ".local .align 16 .b8");
    assert_true(count_of(ptx, "st.local") > 0);
    assert_int_equal(count_of(ptx, "st.u") + count_of(ptx, "st.f"), 0); /* no generic ones */
}

static void operators_round_as_everywhere_and_call_nothing(void **state) {
    const char *ptx = ptx_of(*state, "cuda:sm_90a", operators, threads_of_operators);
    expect_contains(ptx, "sqrt.rn.f32");
    expect_contains(ptx, "div.rn.f32");
    expect_contains(ptx, "cvt.rn.f16.f32");
    expect_contains(ptx, "cvt.rn.bf16.f32");
    static const char *const absent[] = {".ftz", ".approx", "call", ".func", "ld.local"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(absent); i++)
        assert_int_equal(count_of(ptx, absent[i]), 0);
}

static void functions_are_kiln_s_own(void **state) {
    static const char *const text[] = {functions, wide_functions};
    static const char *const absent[] = {"call", ".func", ".approx"};
    for (size_t k = 0; k < KILN_ARRAY_COUNT(text); k++) {
        const char *ptx = ptx_of(*state, "cuda:sm_80", text[k], threads_of_functions);
        for (size_t i = 0; i < KILN_ARRAY_COUNT(absent); i++)
            assert_int_equal(count_of(ptx, absent[i]), 0);
    }
}

/* ---- NVIDIA's assembler ---------------------------------------------------------------------- */

static void the_assembler_takes_it_without_spills(void **state) {
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state);
    if (!program) {
        skip_because("no ptxas on PATH or in " KILN_PTXAS_VARIABLE);
    }
    const char *const text[][2] = {{product, tiles},
                                   {product, rolled},
                                   {operators, threads_of_operators},
                                   {functions, threads_of_functions},
                                   {wide_functions, threads_of_functions}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(targets); i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(text); k++) {
            kiln_str printed;
            kiln_ptxas_report report;
            const char *ptx = ptx_of(*state, targets[i].target, text[k][0], text[k][1]);
            expect_ok(kiln_ptxas_run(program, kiln_str_from(targets[i].processor),
                                     kiln_str_from(ptx), NULL, *state, &printed));
            expect_ok(kiln_ptxas_parse(printed, *state, &report));
            expect_ok(kiln_ptxas_check_spills(&report));
            assert_int_equal(report.note.size, 0);
            if (k == 0) assert_true(report.entry[0].registers <= 128); /* two blocks a unit */
            if (k == 0) assert_int_equal(report.entry[0].stack_bytes, 0);
        }
}

/* ---- AMD's objects --------------------------------------------------------------------------- */

static uint64_t number_behind(const char *text, const char *label) {
    uint64_t value = 0;
    const char *at = strstr(text, label);
    if (!at) fail_msg("no %s", label);
    kiln_str rest = kiln_str_from(at + strlen(label));
    assert_true(kiln_str_to_u64(kiln_str_trim(kiln_str_cut(&rest, '\n')), &value));
    return value;
}

static void the_same_walk_makes_objects_for_amd(void **state) {
    static const struct {
        const char *processor;
        uint64_t least_occupancy;
    } row[] = {{"gfx90a", 2}, {"gfx942", 2}, {"gfx1100", 4}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_codegen_options options = {.emit = KILN_EMIT_ASM,
                                        .optimise = 2,
                                        .backend = "amdgpu",
                                        .processor = row[i].processor};
        const char *text = text_as(*state, "cuda:sm_80", product, tiles, &options);
        expect_contains(text, ".amdhsa_kernel run_0");
        assert_int_equal(number_behind(text, "; ScratchSize: "), 0);
        assert_true(number_behind(text, "; NumVgprs: ") >= 64);
        assert_true(number_behind(text, "; Occupancy: ") >= row[i].least_occupancy);
        expect_contains(text, "; LDSByteSize: 8192 bytes/workgroup");
        assert_true(count_of(text, "s_barrier") >= 2);
        options.emit = KILN_EMIT_OBJECT;
        assert_memory_equal(text_as(*state, "cuda:sm_80", product, tiles, &options),
                            "\x7f"
                            "ELF",
                            4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(sums_are_values_and_tiles_are_fetched_sixteen_bytes_at_once),
        test_with_arena(loops_count_in_32_bits),
        test_with_arena(indices_are_divided_in_32_bits),
        test_with_arena(a_load_under_several_conditions_has_one_branch),
        test_with_arena(groups_that_are_to_fit_on_a_unit_are_said),
        test_with_arena(memory_of_a_thread_is_local),
        test_with_arena(operators_round_as_everywhere_and_call_nothing),
        test_with_arena(functions_are_kiln_s_own),
        test_with_arena(the_assembler_takes_it_without_spills),
        test_with_arena(the_same_walk_makes_objects_for_amd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
