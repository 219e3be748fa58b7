/* Kernels in C-family text compute what the expression says: OpenCL C as the driver of Debian's
 * pocl-opencl-icd compiles and runs it, CUDA C as clang compiles it. */
#include <string.h>

#include "base/child.h"
#include "base/file.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "tests/support/program_generate.h"
#include "tests/support/schedule_fuzz.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/device_board.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Groups and shared memory as programs of the null device have them, on whatever device is there.
 */
#define GPU "opencl,group=1024,shared=1048576"

/* Skips, and says what is missing, where there is no driver. */
static kiln_device *device_or_skip(void) {
    kiln_device *device = NULL;
    kiln_status st = opencl_board_open(&device);
    if (!st) return device;
    kiln_status_free(st); /* no driver, or no device */
    skip_because("no OpenCL device: install pocl-opencl-icd");
    return NULL;
}

static void random_schedules_keep_the_meaning(void **state) {
    (void)state;
    kiln_device *device = device_or_skip();
    kiln_arena arena;
    uint64_t ran = 0;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= 30; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, GPU);
        const kiln_generate_options options = {
            .blocks_max = 4, .points_max = 400, .floats_only = seed % 2 == 0};
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled =
            draw_schedule(te, &rand, 12 + (uint32_t)kiln_rand_below(&rand, 30));
        if (!schedule_is_sound(te, scheduled, seed)) continue;
        kiln_status st =
            expect_runs_equal(te, scheduled, &target, NULL, 2, seed, run_on_device, device);
        ran += st == NULL;
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(ran > 15);
}

/* Loops bound to groups and threads, shared memory, barriers. */
static void random_launches_compute_what_the_expression_says(void **state) {
    (void)state, (void)device_or_skip();
    schedule_fuzz_counts counts = {0};
    kiln_strbuf report = {0};
    for (uint64_t seed = 1001; seed <= 1030; seed++)
        if (!schedule_fuzz_pair(seed, build_and_run_on_opencl, &counts, &report))
            fail_msg("%s", report.data);
    kiln_strbuf_deinit(&report);
    assert_true(counts.ran > 15);
    assert_true(counts.groups > 3);
}

/* ---- what the text looks like ---------------------------------------------------------------- */

static const char product[] =
    "program p\n"
    "input x: f32[64, 32]\n"
    "input w: f32[32, 64]\n"
    "output y: f32[64, 64]\n"
    "block mul(i:64, j:64 | k:32): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";

/* Groups of 8 x 8 threads, each of which sums 4 x 4 results in registers, out of shared memory. */
static const char tiles[] =
    "cache_write(mul, \"register\")\n"
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n"
    "split(mul.i, 2, 8, 4)\nsplit(mul.j, 2, 8, 4)\nsplit(mul.k, 4, 8)\n"
    "reorder(mul.i.0, mul.j.0, mul.i.1, mul.j.1, mul.k.0, mul.k.1, mul.i.2, mul.j.2)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.y\")\nbind(mul.j.1, \"thread.x\")\n"
    "reverse_compute_at(mul.write, mul.j.1)\n"
    "unroll(mul.write.i)\nvectorize(mul.write.j)\n"
    "vectorize(mul.j.2)\nunroll(mul.i.2)\nunroll(mul.k.1)\n"
    "compute_at(x.read, mul.j.0)\ncompute_at(w.read, mul.j.0)\n"
    "split(x.read.d0, 4, 8)\nbind(x.read.d0.1, \"thread.x\")\n"
    "split(w.read.d0, 4, 8)\nbind(w.read.d0.1, \"thread.x\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "set_scope(y.acc, \"register\")\n";

static kiln_program *replayed(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static kiln_str text_of(const kiln_program *scheduled, const char *target_text, const char *backend,
                        kiln_arena *arena) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .backend = backend};
    kiln_target target = target_of(arena, target_text);
    kiln_lowered lowered;
    kiln_str text;
    uint64_t scratch, worker;
    expect_ok(kiln_lower(scheduled, &target, arena, &lowered));
    expect_ok(kiln_codegen(&lowered, &target, &options, arena, &text, &scratch, &worker));
    return text;
}

/* What stands behind the line that ends what all texts share. */
static const char *code_of(kiln_str text) {
    const char *code = strstr(text.data, kiln_c_text_split);
    assert_non_null(code);
    return code;
}

static uint32_t count_of(const char *text, const char *what) {
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) count++;
    return count;
}

/* 16 sums a thread in an array would be loaded and stored with every step. */
static void sums_in_registers_are_values_with_names(void **state) {
    kiln_program *te = parsed(*state, product), *scheduled = replayed(te, tiles);
    const char *opencl = code_of(text_of(scheduled, "opencl", NULL, *state)),
               *cuda = code_of(text_of(scheduled, "cuda:sm_80", "cuda", *state));
    assert_null(strstr(opencl, "thread_memory"));
    assert_null(strstr(cuda, "thread_memory"));
    assert_int_equal(count_of(opencl, "["), 1); /* shared memory */
    assert_int_equal(count_of(cuda, "["), 1);
    assert_int_equal(count_of(opencl, "fma_32("), 8 * 4);   /* vectors of 4 */
    assert_int_equal(count_of(cuda, "fma_32("), 8 * 4 * 4); /* scalars */
    assert_int_equal(count_of(opencl, "float4_m"), 0);      /* types have their own names */
    expect_contains(cuda, "= *(const f32x4_m *)");          /* a load of 16 bytes */
    expect_contains(cuda, "__launch_bounds__(64) run_0(const char *a0, ");
    expect_contains(opencl, "reqd_work_group_size(8, 8, 1)");
}

static void a_tiled_product_is_right(void **state) {
    kiln_device *device = device_or_skip();
    kiln_target target = target_of(*state, "opencl");
    kiln_program *te = parsed(*state, product), *scheduled = replayed(te, tiles);
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, 1, run_on_device, device));
}

/* ---- processors behind the driver ------------------------------------------------------------ */

#define ITEMS "opencl,vector=64,units=2,emulated"

/* What rules for processors draw runs as work items. */
static void samples_for_processors_run_as_work_items(void **state) {
    (void)state;
    static const char *const text[] = {
        "program c\ninput x: f32[6, 12, 12]\nconstant w: f32[20, 6, 3, 3]\ntemp s: f32[20, 10, "
        "10]\n"
        "output y: f32[20, 10, 10]\n"
        "block conv(o:20, h:10, v:10 | i:6, r:3, q:3): s[o, h, v] sum= x[i, h + r, v + q] * "
        "w[o, i, r, q] init 0.0\n"
        "block relu(o:20, h:10, v:10): y[o, h, v] = max(s[o, h, v], 0.0)\n",
        "program q\ninput x: u8[40, 30]\nconstant w: i8[30, 50]\noutput y: i32[40, 50]\n"
        "block mul(i:40, j:50 | k:30): y[i, j] sum= i32(x[i, k]) * i32(w[k, j]) init 0i32\n",
        "program m\ninput x: f16[33, 70]\ntemp s: f32[33]\noutput y: f16[33, 70]\n"
        "block s(i:33 | j:70): s[i] max= f32(x[i, j]) init -inf\n"
        "block y(i:33, j:70): y[i, j] = f16(exp(f32(x[i, j]) - s[i]))\n",
        "program r\ninput x: f64[24, 64]\ninput z: f64[24, 64]\noutput y: f64[24, 64]\n"
        "block y(i:24, j:64): y[i, j] = rem(x[i, j] * f64(1e9), z[i, j])\n",
    };
    kiln_device *device = device_or_skip();
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    uint32_t ran = 0, in_parallel = 0;
    for (uint64_t seed = 1; seed <= 6 * KILN_ARRAY_COUNT(text); seed++) {
        kiln_arena_reset(&arena);
        kiln_target target = target_of(&arena, ITEMS);
        kiln_program *te = parsed(&arena, text[seed % KILN_ARRAY_COUNT(text)]);
        kiln_rand rand;
        kiln_artefact artefact;
        kiln_rand_init(&rand, seed);
        kiln_program *scheduled = draw_sample(te, &target, &rand);
        kiln_status st =
            expect_runs_equal(te, scheduled, &target, NULL, 2, seed, run_on_device, device);
        ran += st == NULL;
        if (!st) expect_ok(compile_scheduled(scheduled, &target, 2, &arena, &artefact));
        for (uint32_t i = 0; !st && i < artefact.manifest.launch_count; i++) {
            const kiln_manifest_launch *launch = &artefact.manifest.launch[i];
            in_parallel += launch->grid[0] > 1;
            assert_true(launch->group[0] == 1 && launch->group[1] == 1 && launch->group[2] == 1);
        }
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(ran > 12);
    assert_true(in_parallel > 6);
}

/* A compiler of processors would make gathers of them; a GPU's would load them past its cache. */
static void lanes_that_lie_apart_are_volatile_on_processors(void **state) {
    static const char apart[] = "program a\ninput x: f32[16, 8]\ninput s: f32[16]\n"
                                "output y: f32[8, 16]\n"
                                "block y(i:8, j:16): y[i, j] = x[j, i] * s[0]\n";
    kiln_program *te = parsed(*state, apart), *scheduled = replayed(te, "vectorize(y.j)\n");
    const kiln_str here = text_of(scheduled, ITEMS, "opencl", *state),
                   there = text_of(scheduled, GPU, "opencl", *state);
    assert_int_equal(count_of(here.data, "*(const volatile global f32_m *)"), 16);
    assert_int_equal(count_of(here.data, "*(const global f32_m *)"),
                     1); /* the factor of all lanes */
    assert_int_equal(count_of(there.data, "volatile"), 0);
    kiln_device *device = device_or_skip();
    kiln_target target = target_of(*state, ITEMS);
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, 1, run_on_device, device));
}

/* Each of 3 items fills 2 MiB of its own, in an order that needs all of it, and adds it up. */
static void what_is_too_much_for_a_stack_lies_in_scratch(void **state) {
    kiln_device *device = device_or_skip();
    kiln_target target = target_of(*state, ITEMS);
    kiln_artefact artefact;
    kiln_program *te = parsed(*state, "program p\ninput x: f32[3, 64]\ntemp t: f32[3, 8192, 64]\n"
                                      "output y: f32[3, 64]\n"
                                      "block t(i:3, a:8192, b:64): t[i, a, b] = x[i, b] * 0.5\n"
                                      "block y(i:3, b:64 | a:8192): y[i, b] sum= t[i, 8191 - a, b] "
                                      "init 0.0\n");
    kiln_program *scheduled = replayed(te, "compute_at(t, y.i)\nparallel(y.i)\n");
    expect_ok(compile_scheduled(scheduled, &target, 2, *state, &artefact));
    const kiln_manifest *m = &artefact.manifest;
    assert_int_equal(m->launch[0].scratch_bytes[KILN_MEMORY_PRIVATE], 0);
    assert_int_equal(m->arg[m->arg_count - 1].shape.dim[0], 3 * (2 << 20));
    assert_int_equal(m->launch[0].grid[0], 3);
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, 1, run_on_device, device));
}

/* ---- CUDA C ---------------------------------------------------------------------------------- */

static void cuda_text_compiles_to_multiply_adds(void **state) {
    char *folder = make_folder(*state);
    kiln_program *te = parsed(*state, product);
    kiln_str ptx = compile_cuda(text_of(replayed(te, tiles), "cuda:sm_80", "cuda", *state), "sm_80",
                                folder, *state);
    expect_contains(ptx.data, ".visible .entry run_0(");
    expect_contains(ptx.data, ".maxntid 64");
    expect_contains(ptx.data, "ld.shared.v4.f32");
    assert_true(count_of(ptx.data, "bar.sync") >= 1);
    assert_null(strstr(ptx.data, ".local"));
    remove_folder(folder);
}

static void random_launches_compile_as_cuda(void **state) {
    (void)state;
    kiln_arena arena, place;
    uint32_t compiled = 0;
    kiln_arena_init(&arena, 0);
    kiln_arena_init(&place, 0);
    char *folder = make_folder(&place);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_lowered lowered;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, "cuda:sm_80");
        const kiln_generate_options options = {.blocks_max = 4, .points_max = 400};
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled =
            draw_schedule(te, &rand, 12 + (uint32_t)kiln_rand_below(&rand, 30));
        kiln_status st = kiln_lower(scheduled, &target, &arena, &lowered);
        if (!st)
            compiled += compile_cuda(text_of(scheduled, "cuda:sm_80", "cuda", &arena), "sm_80",
                                     folder, &arena)
                            .size > 0;
        kiln_status_free(st);
    }
    remove_folder(folder);
    kiln_arena_deinit(&place);
    kiln_arena_deinit(&arena);
    assert_true(compiled > 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_keep_the_meaning),
        cmocka_unit_test(random_launches_compute_what_the_expression_says),
        test_with_arena(sums_in_registers_are_values_with_names),
        test_with_arena(a_tiled_product_is_right),
        cmocka_unit_test(samples_for_processors_run_as_work_items),
        test_with_arena(lanes_that_lie_apart_are_volatile_on_processors),
        test_with_arena(what_is_too_much_for_a_stack_lies_in_scratch),
        test_with_arena(cuda_text_compiles_to_multiply_adds),
        cmocka_unit_test(random_launches_compile_as_cuda),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    opencl_board_close();
    return failed;
}
