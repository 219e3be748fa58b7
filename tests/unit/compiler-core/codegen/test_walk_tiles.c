/* Products in tiles: which instructions they become, and that they compute what their loops do.
 * Processors without AMX run them in an emulator (tiles.h). */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/codegen/tiles.h"

#define SEEDS 16
#define TARGET "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,features=+amx-tile+amx-int8+amx-bf16"

/* A product of m x n x k in blocks of `down` by `across` tiles. */
typedef struct form {
    int64_t m, n, k;
    int64_t rows, down, across, steps;
    const char *data_layout, *packed_layout; /* NULL: rows; what the instruction takes */
    bool parallel;
} form;

/* The trace of a product of that form: block `dot`, whose second factor is `b`. */
static const char *trace_of(kiln_arena *arena, const kiln_intrinsic *in, const form *f) {
    const unsigned word = kiln_intrinsic_word(in);
    const long long panel = 16 * f->across;
    const char *packed =
        f->packed_layout
            ? f->packed_layout
            : kiln_arena_printf(arena, "d0/%lld,d1/%u,d0%%%lld,d1%%%u", panel, word, panel, word);
    return kiln_arena_printf(
        arena,
        "cache_write(dot, \"tile\")\ncache_read(dot, b, \"global\")\n"
        "transform_layout(b.read, \"%s\")\n%s"
        "split(dot.m, -1, %lld, %lld)\nsplit(dot.n, -1, %lld, 16)\nsplit(dot.k, -1, %lld)\n"
        "reorder(dot.m.0, dot.n.0, dot.k.0, dot.m.1, dot.n.1, dot.m.2, dot.n.2, dot.k.1)\n"
        "reverse_compute_at(dot.write, dot.n.0)\n"
        "split(dot.write.m, -1, %lld)\nsplit(dot.write.n, -1, 16)\n"
        "reorder(dot.write.m.0, dot.write.n.0, dot.write.m.1, dot.write.n.1)\n"
        "unroll(dot.write.m.0)\nunroll(dot.write.n.0)\nvectorize(dot.write.n.1)\n"
        "unroll(dot.m.1)\nunroll(dot.n.1)\ndecompose_reduction(dot, dot.k.0)\n"
        "tensorize(dot.m.2, \"%s\")\nvectorize(dot.init.n.2)\n%s",
        packed,
        f->data_layout ? kiln_arena_printf(arena, "transform_layout(a, \"%s\")\n", f->data_layout)
                       : "",
        (long long)f->down, (long long)f->rows, (long long)f->across, (long long)f->steps,
        (long long)f->rows, in->name, f->parallel ? "parallel(dot.m.0)\n" : "");
}

static kiln_program *in_tiles(kiln_arena *arena, const kiln_intrinsic *in, const form *f,
                              kiln_program **out_te) {
    *out_te = product_program(arena, in, f->m, f->n, f->k);
    return replayed(*out_te, trace_of(arena, in, f));
}

static const char *assembly_in_tiles(const kiln_program *scheduled, kiln_arena *arena) {
    const kiln_target target = target_of(arena, TARGET);
    return assembly_of(scheduled, &target, arena);
}

static void expect_count(const char *text, const char *instruction, uint32_t wanted) {
    if (occurrences(text, instruction) != wanted)
        fail_msg("%s: %u instead of %u:\n%s", instruction, occurrences(text, instruction), wanted,
                 text);
}

/* Two by two tiles of sums, two and two of factors: four loads for four products. */
static void blocks_of_tiles_load_each_factor_once(void **state) {
    kiln_arena *arena = *state;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (!kiln_intrinsic_in_tiles(in)) continue;
        const form f = {64, 64, 4 * in->steps, 16, 2, 2, in->steps, NULL, NULL, false};
        kiln_program *te;
        const char *text = assembly_in_tiles(in_tiles(arena, in, &f, &te), arena);
        expect_count(text, kiln_arena_printf(arena, "\t%s\t", in->name), 4);
        expect_count(text, "\ttileloadd\t", 4);
        expect_count(text, "\ttilezero\t", 4);
        expect_count(text, "\ttilestored\t", 4);
        expect_count(text, "\tldtilecfg\t", 1);
        expect_count(text, "\ttilerelease", 1);
    }
}

static bool runs_tiles(kiln_arena *arena) {
    const kiln_target level = target_of(arena, "x86-64-v3");
    return runs_here(&level, arena) && emulate_tiles();
}

static void expect_equal(const kiln_program *te, const kiln_program *scheduled, uint32_t threads,
                         uint64_t seed) {
    kiln_target target =
        target_of(te->arena, kiln_arena_printf(te->arena, TARGET ",threads=%u", threads));
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, seed, run_in_tiles, NULL));
}

static void products_in_tiles_equal_the_interpreter(void **state) {
    kiln_arena *arena = *state;
    if (!runs_tiles(arena)) skip_because("this processor does not run x86-64-v3");
    const kiln_target target = target_of(arena, TARGET);
    const bool is_emulated = !runs_here(&target, arena);
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (!kiln_intrinsic_in_tiles(in)) continue;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            kiln_rand rand;
            kiln_rand_init(&rand, seed);
            static const int64_t shape[][2] = {{1, 1}, {2, 2}, {1, 4}, {4, 1}, {3, 2}, {2, 3}};
            const int64_t *tiles = shape[kiln_rand_below(&rand, 6)];
            form f = {.rows = kiln_rand_range(&rand, 2, 16), .down = tiles[0], .across = tiles[1]};
            f.steps = kiln_intrinsic_word(in) * kiln_rand_range(&rand, 1, 16);
            f.m = f.rows * f.down * kiln_rand_range(&rand, 1, 2);
            f.n = 16 * f.across * kiln_rand_range(&rand, 1, 2);
            f.k = f.steps * kiln_rand_range(&rand, 1, 3);
            f.parallel = seed % 3 == 0;
            if (kiln_rand_below(&rand, 2))
                f.data_layout = kiln_arena_printf(arena, "d1/%lld,d0,d1%%%lld", (long long)f.steps,
                                                  (long long)f.steps);
            kiln_program *te, *scheduled = in_tiles(arena, in, &f, &te);
            const tile_counts before = tiles_emulated();
            expect_equal(te, scheduled, f.parallel ? 2 : 1, seed);
            const tile_counts after = tiles_emulated();
            const uint64_t wanted = 2 * (uint64_t)(f.m / f.rows * f.n / 16 * f.k / f.steps);
            if (is_emulated) assert_int_equal(after.multiplied - before.multiplied, wanted);
            assert_int_equal(after.configured - before.configured,
                             after.released - before.released);
        }
    }
}

/* `text` with the product's block and its second factor called otherwise. */
static const char *renamed(kiln_arena *arena, const char *text, const char *block,
                           const char *factor) {
    kiln_strbuf out = {0};
    while (*text) {
        const bool is_block = strncmp(text, "dot", 3) == 0,
                   is_factor = strncmp(text, "b.read", 6) == 0 || strncmp(text, "b, ", 3) == 0;
        if (is_block || is_factor)
            kiln_strbuf_text(&out, is_block ? block : factor);
        else
            kiln_strbuf_printf(&out, "%c", *text);
        text += is_block ? 3 : 1;
    }
    const char *copy = kiln_str_dup(arena, kiln_str_from(out.data));
    kiln_strbuf_deinit(&out);
    return copy;
}

/* Two products of one factor: bodies of a parallel loop, which release their tiles, run before and
 * after the one in the function around them, which has its own. */
static void a_parallel_loop_leaves_its_callers_tiles(void **state) {
    kiln_arena *arena = *state;
    if (!runs_tiles(arena)) skip_because("this processor does not run x86-64-v3");
    const kiln_target target = target_of(arena, TARGET);
    const bool is_emulated = !runs_here(&target, arena);
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("tdpbusd"));
    const char *text =
        "program p\ninput a: u8[32,64]\nconstant b: i8[32,64]\nconstant e: i8[32,64]\n"
        "output c: i32[32,32]\noutput g: i32[32,32]\n"
        "block dot(m:32, n:32 | k:64): c[m, n] sum= i32(a[m, k])*i32(b[n, k]) init 0i32\n"
        "block tod(m:32, n:32 | k:64): g[m, n] sum= i32(a[m, k])*i32(e[n, k]) init 0i32\n";
    for (uint32_t parallel = 0; parallel < 2; parallel++) {
        const form first = {32, 32, 64, 16, 1, 2, 64, NULL, NULL, parallel == 0},
                   second = {32, 32, 64, 16, 1, 2, 64, NULL, NULL, parallel == 1};
        kiln_program *te = NULL;
        expect_ok(kiln_program_parse(kiln_str_from(text), arena, &te));
        kiln_program *scheduled = replayed(
            te, kiln_arena_printf(arena, "%s%s", trace_of(arena, in, &first),
                                  renamed(arena, trace_of(arena, in, &second), "tod", "e")));
        const uint64_t before = tiles_emulated().multiplied;
        expect_equal(te, scheduled, 2, parallel);
        if (is_emulated) assert_int_equal(tiles_emulated().multiplied - before, 2 * (4 + 4));
    }
}

/* Layouts that no tile can be loaded from, and tails of rows: loops over memory. */
static void what_no_tile_holds_lies_in_memory(void **state) {
    kiln_arena *arena = *state;
    static const form row[] = {
        {32, 32, 128, 16, 1, 2, 64, NULL, "d1,d0", false},
        {32, 32, 128, 16, 1, 2, 64, NULL, "d0,d1", false},
        {32, 32, 128, 16, 1, 2, 64, "d1,d0", NULL, false},
        {32, 32, 128, 8, 4, 2, 64, NULL, NULL, false}, /* eight tiles of sums */
    };
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("tdpbusd"));
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *te, *scheduled = in_tiles(arena, in, &row[i], &te);
        expect_count(assembly_in_tiles(scheduled, arena), "\ttdpbusd\t", 0);
        if (runs_tiles(arena)) expect_equal(te, scheduled, 1, i);
    }
}

/* The last tile has fewer rows, and a configuration of its own. */
static void tails_of_rows_are_tiles(void **state) {
    kiln_arena *arena = *state;
    const form f = {28, 32, 128, 16, 1, 2, 64, NULL, NULL, false};
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("tdpbusd"));
    kiln_program *te, *scheduled = in_tiles(arena, in, &f, &te);
    const char *text = assembly_in_tiles(scheduled, arena);
    expect_count(text, "\ttdpbusd\t", 4);
    expect_count(text, "\tldtilecfg\t", 2);
    if (runs_tiles(arena)) expect_equal(te, scheduled, 1, 1);
}

/* ---- what rules make ---- */

static kiln_program *product_of_halves(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    return product_program(arena, kiln_intrinsic_find(KILN_STR("tdpbf16ps")), m, n, k);
}

/* Convolutions of bytes and products of halves, with tails of rows, columns and steps. */
static void default_schedules_multiply_in_tiles(void **state) {
    kiln_arena *arena = *state;
    const kiln_target target = target_of(arena, TARGET);
    const struct {
        kiln_program *te;
        const char *instruction;
    } row[] = {
        {quantised_program(arena, KILN_I8, 64, 14, 64), "\ttdpbssd\t"},
        {quantised_program(arena, KILN_I8, 32, 7, 40), "\ttdpbssd\t"},
        {quantised_program(arena, KILN_I8, 48, 17, 32), "\ttdpbssd\t"},
        {product_of_halves(arena, 32, 64, 128), "\ttdpbf16ps\t"},
        {product_of_halves(arena, 50, 20, 24), "\ttdpbf16ps\t"},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *scheduled = default_schedule(row[i].te, &target);
        const char *text = assembly_in_tiles(scheduled, arena);
        if (!strstr(text, row[i].instruction)) fail_msg("row %u:\n%s", i, text);
        if (runs_tiles(arena)) expect_equal(row[i].te, scheduled, 1, i);
    }
}

static void samples_of_spaces_equal_the_interpreter(void **state) {
    kiln_arena *arena = *state;
    if (!runs_tiles(arena)) skip_because("this processor does not run x86-64-v3");
    const kiln_target target = target_of(arena, TARGET);
    const uint64_t before = tiles_emulated().multiplied;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        const int64_t channels = 4 * kiln_rand_range(&rand, 4, 12),
                      size = kiln_rand_range(&rand, 4, 9), results = kiln_rand_range(&rand, 1, 40);
        kiln_program *te = seed % 3 == 0
                               ? product_of_halves(arena, 3 * size, results, channels)
                               : quantised_program(arena, KILN_I8, channels, size, results);
        expect_equal(te, draw_sample(te, &target, &rand), 1, seed);
    }
    assert_true(tiles_emulated().multiplied > before || runs_here(&target, arena));
}

/* Interpreters and other targets know no tiles. */
static void a_target_without_tiles_is_told_so(void **state) {
    kiln_arena *arena = *state;
    const kiln_intrinsic *in = kiln_intrinsic_find(KILN_STR("tdpbusd"));
    const form f = {32, 32, 128, 16, 1, 2, 64, NULL, NULL, false};
    kiln_program *te, *scheduled = in_tiles(arena, in, &f, &te);
    const kiln_target target = target_of(arena, "cpu:x86_64-unknown-linux-gnu,mcpu=cascadelake");
    kiln_lowered lowered;
    kiln_status st = kiln_lower(scheduled, &target, arena, &lowered);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    assert_non_null(
        strstr(kiln_status_text(st), "tdpbusd, which needs amx-int8; cascadelake lacks it"));
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(blocks_of_tiles_load_each_factor_once),
        test_with_arena(products_in_tiles_equal_the_interpreter),
        test_with_arena(tails_of_rows_are_tiles),
        test_with_arena(default_schedules_multiply_in_tiles),
        test_with_arena(samples_of_spaces_equal_the_interpreter),
        test_with_arena(what_no_tile_holds_lies_in_memory),
        test_with_arena(a_parallel_loop_leaves_its_callers_tiles),
        test_with_arena(a_target_without_tiles_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
