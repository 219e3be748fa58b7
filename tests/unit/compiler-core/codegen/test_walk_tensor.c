/* Tensor intrinsics become their instructions, and compute what the loops that they replace do. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/sched/support.h"

#define SEEDS 40

/* "vpdpbusd" of "vpdpbusd.512.signed". USDOT with the one or the other factor broadcast is SUDOT.
 */
static const char *mnemonic(kiln_arena *arena, const kiln_intrinsic *in) {
    if (in->arch == KILN_ARCH_AARCH64 && in->rows == 1) return "dot\t";
    if (in->arch == KILN_ARCH_WASM32) return "i32x4.dot_i16x8_s";
    if (in->arch == KILN_ARCH_THUMB) return kiln_arena_printf(arena, "\t%s\t", in->name);
    return kiln_arena_printf(arena, "\t%.*s\t", (int)strcspn(in->name, "."), in->name);
}

static void every_intrinsic_is_one_instruction(void **state) {
    kiln_arena *arena = *state;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (kiln_intrinsic_in_tiles(in)) continue;      /* test_walk_tiles.c */
        if (kiln_intrinsic_of_threads(in)) continue;    /* test_gpu_warp.c */
        if (in->owner == KILN_INTRINSIC_CORE) continue; /* test_vta_emit.c */
        kiln_rand rand;
        kiln_rand_init(&rand, 1);
        kiln_target target = target_with(arena, in);
        kiln_program *te, *scheduled = draw_product(arena, in, &rand, true, &te);
        const char *text = assembly_of(scheduled, &target, arena);
        uint32_t wanted = 2 * 4 * in->rows; /* two rows or pairs of them, four unrolled steps */
        if (in->arch == KILN_ARCH_THUMB) wanted *= in->lanes; /* one by one */
        uint32_t found = occurrences(text, mnemonic(arena, in));
        if (found < wanted || found > wanted * (in->bias ? 2 : 1))
            fail_msg("%s: %u instructions instead of %u:\n%s", in->name, found, wanted, text);
    }
}

/* Seven rows in tiles of four: the second tile has three, and as many instructions. */
static void the_rest_of_a_tile_is_instructions(void **state) {
    kiln_arena *arena = *state;
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("vpdpbusd.512"));
    const kiln_target target = target_with(arena, in);
    kiln_program *te = product_program(arena, in, 7, 16, 16);
    kiln_program *scheduled = schedule(te, "cache_write(dot, \"register\")\n"
                                           "cache_read(dot, b, \"global\")\n"
                                           "transform_layout(b.read, \"d0/16,d1/4,d0%16,d1%4\")\n"
                                           "split(dot.m, -1, 4)\nsplit(dot.k, -1, 4)\n"
                                           "reorder(dot.m.0, dot.k.0, dot.m.1, dot.n, dot.k.1)\n"
                                           "reverse_compute_at(dot.write, dot.m.0)\n"
                                           "unroll(dot.write.m)\nvectorize(dot.write.n)\n"
                                           "unroll(dot.m.1)\n"
                                           "decompose_reduction(dot, dot.k.0)\n"
                                           "tensorize(dot.n, \"vpdpbusd.512\")\n"
                                           "vectorize(dot.init.n)\n");
    const char *text = assembly_of(scheduled, &target, arena);
    assert_int_equal(occurrences(text, "\tvpdpbusd\t"), 4 + 3);
    assert_null(strstr(text, "imul"));
    if (runs_here(&target, arena)) expect_ok(expect_compiled_equals(te, scheduled, &target, 2, 1));
}

static void products_equal_the_interpreter_where_they_run(void **state) {
    kiln_arena *arena = *state;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (kiln_intrinsic_of_threads(in) || in->owner == KILN_INTRINSIC_CORE) continue;
        kiln_target target = target_with(arena, in);
        if (kiln_intrinsic_in_tiles(in) || !runs_here(&target, arena)) continue;
        rows++;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            kiln_rand rand;
            kiln_rand_init(&rand, seed);
            kiln_program *te, *scheduled = draw_product(arena, in, &rand, seed == 1, &te);
            kiln_status st = expect_compiled_equals(te, scheduled, &target, seed % 3 ? 2 : 0, seed);
            if (st) fail_msg("%s, seed %u: %s", in->name, (unsigned)seed, kiln_status_text(st));
        }
    }
    if (rows == 0) skip_because("no row of intrinsics.def is of this processor");
}

static void a_target_without_the_instruction_is_told_so(void **state) {
    kiln_arena *arena = *state;
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("sdot"));
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_program *te, *scheduled = draw_product(arena, in, &rand, true, &te);
    kiln_target target = target_of(arena, "rpi4");
    kiln_lowered lowered;
    kiln_status st = kiln_lower(scheduled, &target, arena, &lowered);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    assert_non_null(strstr(kiln_status_text(st), "sdot, which needs dotprod; cortex-a72 lacks it"));
    kiln_status_free(st);
}

/* The longest run of lines without a label or a branch that has most such instructions. */
static const char *inner_loop(kiln_arena *arena, const char *text, const char *instruction) {
    const char *best = "";
    uint32_t most = 0;
    for (const char *line = text, *start = text; *line; line += strcspn(line, "\n") + 1) {
        const char *next = line + strcspn(line, "\n");
        const bool branch = strncmp(line, "\tb", 2) == 0 && strncmp(line, "\tbf", 3) != 0;
        bool ends = *line != '\t' || branch || strncmp(line, "\tj", 2) == 0 ||
                    strncmp(line, "\tcb", 3) == 0;
        if (!*next) break;
        if (!ends) continue;
        const char *block = kiln_str_dup(arena, (kiln_str){start, (size_t)(line - start)});
        if (occurrences(block, instruction) > most) {
            most = occurrences(block, instruction);
            best = block;
        }
        start = next + 1;
    }
    return best;
}

/* The inner loop has so many of them, and stores nothing on the stack. */
static void expect_in_registers(kiln_program *te, const kiln_target *target,
                                const char *instruction, uint32_t at_least, kiln_arena *arena) {
    const char *inner =
        inner_loop(arena, assembly_of(default_schedule(te, target), target, arena), instruction);
    if (occurrences(inner, instruction) < at_least || strstr(inner, "[sp") ||
        strstr(inner, "(%rsp)"))
        fail_msg("%s: %u instructions:\n%s", target->mcpu.data, occurrences(inner, instruction),
                 inner);
}

static void default_schedules_multiply_in_the_instruction_and_in_registers(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *target, *instruction;
        kiln_dtype data;
        uint32_t at_least, taps; /* of a window of each channel */
    } row[] = {
        {"rpi5", "\tsdot\t", KILN_I8, 32, 12},
        {"rpi5", "\tsdot\t", KILN_U8, 32, 12},
        {"android-arm64,features=+dotprod", "\tsdot\t", KILN_U8, 32, 12},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=cascadelake", "\tvpdpbusd\t", KILN_I8, 16, 24},
        {"x86-64-v3,features=+avxvnni", "\tvpdpbusd\t", KILN_U8, 16, 12},
        {"x86-64-v3", "\tvpmaddwd\t", KILN_U8, 16, 12},
        {"wasm", "i32x4.dot_i16x8_s", KILN_I8, 16, 12},
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_target target = target_of(arena, row[i].target);
        kiln_program *te = quantised_program(arena, row[i].data, 64, 14, 64);
        expect_in_registers(te, &target, row[i].instruction, row[i].at_least, arena);
        /* High tiles of VPMADDWD leave a few vectors on the stack and are faster than low ones. */
        te = depthwise_program(arena, row[i].data, 64, 16, 3, 1, 1);
        if (strcmp(row[i].target, "x86-64-v3") == 0)
            assert_true(occurrences(assembly_of(default_schedule(te, &target), &target, arena),
                                    row[i].instruction) >= row[i].taps);
        else
            expect_in_registers(te, &target, row[i].instruction, row[i].taps, arena);
    }
}

/* Words and sums fill its 13 registers, of which addresses take a few: little lies on the stack.
 * Whole vectors where channels fill them. */
static void microcontrollers_multiply_pairs_or_whole_vectors(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *target, *instruction;
        int64_t channels;
    } row[] = {
        {"cortex-m7", "\tsmlad\t", 64},
        {"cortex-m55", "\tvmlava.s8\t", 64},
        {"cortex-m55", "\tvmlava.s16\t", 24},
        {"cortex-m55", "\tsmlad\t", 12},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_target target = target_of(arena, row[i].target);
        kiln_program *te = quantised_program(arena, KILN_U8, row[i].channels, 14, 64);
        const char *inner = inner_loop(
            arena, assembly_of(default_schedule(te, &target), &target, arena), row[i].instruction);
        const uint32_t products = occurrences(inner, row[i].instruction);
        if (products < 8 || occurrences(inner, "[sp") > products)
            fail_msg("%s, %u instructions:\n%s", row[i].instruction, products, inner);
    }
}

#define N2 "cpu:aarch64-unknown-linux-gnu,mcpu=neoverse-n2"

/* Two rows at a time, of even and odd numbers, and what holds them: nothing but words of rows that
 * lie apart is shuffled, two times a pair. */
static void default_schedules_multiply_two_rows_at_once(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, N2);
    static const int64_t size[] = {14, 7, 13};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(size); i++) {
        kiln_program *te = quantised_program(arena, KILN_I8, 64, size[i], 64);
        expect_in_registers(te, &target, "\tsmmla\t", 12, arena);
        te = depthwise_program(arena, KILN_U8, 64, 16, 3, 1, 1); /* one row: a dot product */
        expect_in_registers(te, &target, "usdot\t", 12, arena);
    }
    static const char *const name[] = {"smmla", "ummla", "usmmla", "bfmmla"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(name); i++)
        for (int64_t m = 48; m < 50; m++) {
            const kiln_intrinsic *in = kiln_intrinsic_find(kiln_str_from(name[i]));
            kiln_program *te = product_program(arena, in, m, 256, 256);
            const char *instruction = kiln_arena_printf(arena, "\t%s\t", name[i]);
            expect_in_registers(te, &target, instruction, 32, arena);
            const char *inner = inner_loop(
                arena, assembly_of(default_schedule(te, &target), &target, arena), instruction);
            const uint32_t moves = occurrences(inner, "zip") + occurrences(inner, "mov\t");
            if (moves * 4 > occurrences(inner, instruction) * 2) fail_msg("%s", inner);
        }
    kiln_program *te = product_program(arena, kiln_intrinsic_find(KILN_STR("smmla")), 1, 256, 256);
    expect_in_registers(te, &target, "\tsdot\t", 8, arena);
}

/* FMLAL, whose factors are not widened, on a core that has it. */
static void products_of_f16_are_one_instruction(void **state) {
    kiln_arena *arena = *state;
    const kiln_target with = target_of(arena, N2),
                      without = target_of(arena, "cpu:aarch64-unknown-linux-gnu,mcpu=cortex-a76");
    kiln_program *te = f16_product_program(arena, 48, 64, 64);
    expect_in_registers(te, &with, "\tfmlal\t", 32, arena);
    const char *inner =
        inner_loop(arena, assembly_of(default_schedule(te, &with), &with, arena), "\tfmlal\t");
    assert_int_equal(occurrences(inner, "\tfcvt"), 0);
    assert_int_equal(
        occurrences(assembly_of(default_schedule(te, &without), &without, arena), "fmlal"), 0);
}

static void sums_over_taps_equal_the_interpreter(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {"x86-64-v3", "x86-64-v3,features=+avxvnni",
                                       "x86-64-v4,features=+avx512vnni",
                                       "x86-64-v4,features=+avx512vbmi+avx512vnni"};
    uint32_t targets = 0;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_target target = target_of(arena, text[i]);
        if (!runs_here(&target, arena)) continue;
        targets++;
        for (uint64_t seed = 1; seed <= 8; seed++) {
            const int64_t taps = seed > 6 ? 5 : 3, stride = 1 + (seed & 1),
                          distance = 1 + (seed == 4);
            kiln_program *te =
                depthwise_program(arena, seed & 2 ? KILN_U8 : KILN_I8, seed == 5 ? 24 : 32,
                                  9 + (int64_t)seed, taps, stride, distance);
            kiln_program *scheduled = default_schedule(te, &target);
            expect_ok(expect_compiled_equals(te, scheduled, &target, 2, seed));
        }
    }
    if (targets == 0) skip_because("this processor does not run x86-64-v3");
}

static void targets_without_one_multiply_in_vectors(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {"rpi4", "pynq", "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64"};
    for (uint32_t i = 0; i < sizeof text / sizeof *text; i++) {
        kiln_target target = target_of(arena, text[i]);
        kiln_space *space = KILN_ARENA_NEW(arena, kiln_space);
        expect_ok(
            kiln_space_create(quantised_program(arena, KILN_U8, 16, 6, 16), &target, arena, space));
        kiln_strbuf printed = {0};
        kiln_space_print(space, &printed);
        assert_null(strstr(printed.data, "tensorize"));
        assert_non_null(strstr(printed.data, "rule tile"));
        kiln_strbuf_deinit(&printed);
    }
}

static void samples_of_spaces_equal_the_interpreter(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, "x86-64-v3");
    skip_unless_runs_here("x86-64-v3");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_dtype data = seed % 2 ? KILN_U8 : KILN_I8;
        kiln_program *te = quantised_program(
            arena, data, 4 + 4 * (int64_t)kiln_rand_below(&rand, 3),
            3 + (int64_t)kiln_rand_below(&rand, 4), 1 + (int64_t)kiln_rand_below(&rand, 20));
        expect_ok(expect_compiled_equals(te, draw_sample(te, &target, &rand), &target, 2, seed));
    }
}

/* Four floats at a time, rounded by one instruction. */
static void products_of_halves_are_stored_as_halves(void **state) {
    kiln_arena *arena = *state;
    const kiln_target target = target_of(arena, N2);
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(
        KILN_STR("program halves\ninput a: bf16[16,64]\nconstant b: bf16[32,64]\n"
                 "temp c: f32[16,32]\noutput y: bf16[16,32]\n"
                 "block dot(m:16, n:32 | k:64): c[m, n] sum= f32(a[m, k])*f32(b[n, k]) init 0.0\n"
                 "block narrow(m:16, n:32): y[m, n] = bf16(c[m, n])\n"),
        arena, &te));
    const char *text = assembly_of(default_schedule(te, &target), &target, arena);
    if (!strstr(text, "\tbfmmla\t") || !strstr(text, "\tbfcvtn\t") || strstr(text, "\tushr\t"))
        fail_msg("%s", text);
}

/* ---- bits ---- */

static const kiln_range two_bits = {0, 3, 1}, signs = {-1, 1, 2};

/* What the rules prefer, which counts ones. */
static kiln_program *counting(kiln_arena *arena, const kiln_program *te,
                              const kiln_target *target) {
    kiln_space *space = KILN_ARENA_NEW(arena, kiln_space);
    kiln_trace trace;
    kiln_program *scheduled;
    expect_ok(kiln_space_create(te, target, arena, space));
    expect_ok(kiln_space_default(space, arena, &trace, &scheduled));
    assert_int_equal(kiln_trace_algorithm(&trace), KILN_ALGORITHM_BIT_PLANES);
    return scheduled;
}

#define X86 "cpu:x86_64-unknown-linux-gnu,mcpu="

static void sums_of_bits_count_ones_in_registers(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *target, *instruction, *adds;
    } row[] = {
        {X86 "znver4", "vpopcnt", "vpdpbusd"},
        {X86 "x86-64-v3", "vpshufb", "vpmaddubsw"},
        {"rpi5", "cnt\t", "sdot\t"},
        {"rpi4", "cnt\t", "uaddlp"},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_target target = target_of(arena, row[i].target);
        const kiln_program *te = bits_program(arena, two_bits, signs, 64, 12, 64);
        const char *text = assembly_of(counting(arena, te, &target), &target, arena),
                   *inner = inner_loop(arena, text, row[i].adds);
        if (occurrences(inner, row[i].instruction) < 8 || occurrences(inner, row[i].adds) < 8 ||
            (target.vector_bytes == 64 && strstr(inner, "(%rsp)")))
            fail_msg("%s:\n%s", row[i].target, inner);
    }
}

/* 64 lanes of bytes are two words. */
static void masks_become_words_of_bits(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *target, *instruction;
    } row[] = {{X86 "znver4", "kmovd"}, {X86 "x86-64-v3", "vpmovmskb"}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_target target = target_of(arena, row[i].target);
        const kiln_program *te = bits_program(arena, two_bits, signs, 64, 12, 64);
        const char *text = assembly_of(counting(arena, te, &target), &target, arena);
        if (!strstr(text, row[i].instruction)) fail_msg("%s:\n%s", row[i].target, text);
    }
}

static void sums_of_bits_equal_the_interpreter_where_they_run(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {X86 "znver4", X86 "x86-64-v4", X86 "x86-64-v3",
                                       X86 "x86-64-v3,features=+avxvnni", X86 "x86-64"};
    static const kiln_range data[] = {{0, 3, 1}, {-2, 1, 1}, {0, 1, 1}},
                            weights[] = {{-1, 1, 2}, {-2, 1, 1}, {0, 1, 1}};
    uint32_t ran = 0;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        const kiln_target target = target_of(arena, text[i]);
        if (!runs_here(&target, arena)) continue;
        ran++;
        const kiln_program *te = bits_program(arena, two_bits, signs, 64, 5, 24);
        if (!kiln_target_has(&target, KILN_STR("avxvnni")))
            expect_ok(expect_compiled_equals(te, counting(arena, te, &target), &target, 2, i));
        for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
            kiln_rand rand;
            kiln_rand_init(&rand, seed);
            te = bits_program(arena, data[seed % 3], weights[seed / 3 % 3],
                              20 + (int64_t)kiln_rand_below(&rand, 60),
                              3 + (int64_t)kiln_rand_below(&rand, 4),
                              1 + (int64_t)kiln_rand_below(&rand, 40));
            kiln_status st =
                expect_compiled_equals(te, draw_sample(te, &target, &rand), &target, 2, seed);
            kiln_status_free(st); /* register buffers that do not fit */
        }
    }
    assert_true(ran > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_intrinsic_is_one_instruction),
        test_with_arena(the_rest_of_a_tile_is_instructions),
        test_with_arena(products_equal_the_interpreter_where_they_run),
        test_with_arena(a_target_without_the_instruction_is_told_so),
        test_with_arena(default_schedules_multiply_in_the_instruction_and_in_registers),
        test_with_arena(microcontrollers_multiply_pairs_or_whole_vectors),
        test_with_arena(default_schedules_multiply_two_rows_at_once),
        test_with_arena(products_of_f16_are_one_instruction),
        test_with_arena(sums_over_taps_equal_the_interpreter),
        test_with_arena(targets_without_one_multiply_in_vectors),
        test_with_arena(samples_of_spaces_equal_the_interpreter),
        test_with_arena(products_of_halves_are_stored_as_halves),
        test_with_arena(sums_of_bits_count_ones_in_registers),
        test_with_arena(masks_become_words_of_bits),
        test_with_arena(sums_of_bits_equal_the_interpreter_where_they_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
