/* Byte code of scheduled programs, run by the null device, computes what the expression says. */
#include "compiler-core/codegen/codegen.h"

#include "base/null_code.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/program_generate.h"
#include "tests/support/schedule_fuzz.h"
#include "tests/unit/compiler-core/codegen/device_board.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/sched/support.h"

#define SEEDS 300

static void random_schedules_keep_the_meaning(void **state) {
    (void)state;
    kiln_arena arena;
    uint64_t refused = 0;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_arena_reset(&arena);
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_target target = target_of(&arena, "null");
        const kiln_generate_options options = {
            .blocks_max = 4, .points_max = 400, .floats_only = seed % 3 == 0};
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled =
            draw_schedule(te, &rand, 12 + (uint32_t)kiln_rand_below(&rand, 30));
        if (!schedule_is_sound(te, scheduled, seed)) continue;
        kiln_status st =
            expect_runs_equal(te, scheduled, &target, NULL, 2, seed, run_on_null, NULL);
        refused += st != NULL;
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(refused < SEEDS / 2); /* most schedules must get as far as running */
}

/* Operators and types that random programs seldom hold, on values around zero. */
static void every_operator_computes_what_the_expression_says(void **state) {
    static const char text[] =
        "program p\n"
        "input x: f32[64]\n"
        "input i: i32[64]\n"
        "input u: u8[64]\n"
        "output y: f32[64]\n"
        "output z: i32[64]\n"
        "output v: u8[64]\n"
        "output w: f16[64]\n"
        "output b: bool[64]\n"
        "block one(a:64): y[a] = select(i[a] < 2i32, x[63 - a] * 2.5, sigmoid(x[a]) + floor(x[a]) "
        "* "
        "f32(i[a]) - max(x[a], 0.5) / min(x[a], -0.25))\n"
        "block two(a:64): z[a] = floordiv(i[a], 3i32) * 7i32 + floormod(i[a], 5i32) - rem(i[a], "
        "4i32) + "
        "shl(i[a], 2i32) + shr(i[a], 1i32) + i32(u[a]) - abs(i[a]) + i[a] / 2i32 + i32(x[a] * "
        "100.0)\n"
        "block three(a:64): v[a] = u[a] * 3u8 + xor(u[a], 85u8) - not(u[a]) + shr(u[a], 3u8)\n"
        "block four(a:64): w[a] = f16(x[a] * x[a]) + f16(tanh(x[a]))\n"
        "block five(a:64): b[a] = or(and(x[a] < 0.5, not(i[a] == 3i32)), u[a] != 9u8)\n";
    kiln_target target = target_of(*state, "null");
    kiln_program *te = parsed(*state, text);
    kiln_program *loops = kiln_program_copy(te, *state);
    kiln_program_make_loops(loops);
    for (uint64_t seed = 1; seed <= 8; seed++)
        expect_ok(expect_runs_equal(te, loops, &target, NULL, 2, seed, run_on_null, NULL));
}

/* Bit by bit: bounds would let a missing rounding pass. */
static void tf32_is_rounded_as_the_expression_says(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_program *te = parsed(*state, "program p\ninput x: f32[64]\noutput y: f32[64]\n"
                                      "block y(a:64): y[a] = tf32(x[a])\n"),
                 *loops = kiln_program_copy(te, *state);
    kiln_tensor want[2], got[2];
    kiln_artefact artefact;
    kiln_program_make_loops(loops);
    make_args(te, 1, want);
    make_args(te, 1, got);
    for (uint32_t i = 0; i < 64; i++)
        ((float *)want[0].data)[i] = ((float *)got[0].data)[i] = (float)i * 0x1.003p0f - 32;
    expect_ok(kiln_te_eval(te, want, 2));
    expect_ok(compile_scheduled(loops, &target, 2, *state, &artefact));
    expect_ok(run_on_null(NULL, &artefact, te, got, 1));
    assert_memory_equal(got[1].data, want[1].data, 64 * sizeof(float));
    assert_memory_not_equal(got[1].data, got[0].data, 64 * sizeof(float));
}

static const char product[] =
    "program p\n"
    "input x: f32[8, 16]\n"
    "input w: f32[16, 4]\n"
    "output y: f32[8, 4]\n"
    "block mul(i:8, j:4 | k:16): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";

static void the_clock_counts_ticks_and_bytes_are_the_same(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_program *te = parsed(*state, product);
    kiln_program *loops = kiln_program_copy(te, *state);
    kiln_program_make_loops(loops);
    uint64_t elapsed_ns = 0;
    expect_ok(expect_runs_equal(te, loops, &target, NULL, 2, 1, run_on_null, &elapsed_ns));
    const uint32_t init = KILN_NULL_TICKS_STATEMENT + KILN_NULL_TICKS_ARGUMENT,
                   step = init + 3 * KILN_NULL_TICKS_ARGUMENT;
    assert_int_equal(elapsed_ns, KILN_NULL_TICKS_LAUNCH + 8 * 4 * (init + 16 * step));
    kiln_artefact first, second;
    expect_ok(compile_scheduled(loops, &target, 2, *state, &first));
    expect_ok(compile_scheduled(loops, &target, 2, *state, &second));
    assert_true(kiln_str_equal(first.payload, second.payload));
    assert_int_equal(first.manifest.payload_kind, KILN_PAYLOAD_NULL_CODE);
}

/* The same in tiles: groups of 4 x 2 threads, both operands in shared memory. */
static const char tiles[] =
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\ncache_write(mul, \"local\")\n"
    "split(mul.i, 2, 4)\nsplit(mul.j, 2, 2)\nsplit(mul.k, 4, 4)\n"
    "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.j.1, mul.k.1)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.x\")\nbind(mul.j.1, \"thread.y\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
    "reverse_compute_at(mul.write, mul.j.0)\n"
    "bind(mul.write.i, \"thread.x\")\nbind(mul.write.j, \"thread.y\")\n"
    "bind(x.read.d0, \"thread.x\")\nbind(w.read.d0, \"thread.x\")\n";

static kiln_program *replayed(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

static void a_launch_runs_groups_of_threads_with_shared_memory(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_program *te = parsed(*state, product), *scheduled = replayed(te, tiles);
    kiln_artefact artefact;
    uint64_t serial_ns = 0, elapsed_ns = 0;
    kiln_program *loops = kiln_program_copy(te, *state);
    kiln_program_make_loops(loops);
    expect_ok(expect_runs_equal(te, loops, &target, NULL, 2, 1, run_on_null, &serial_ns));
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, 1, run_on_null, &elapsed_ns));
    assert_true(elapsed_ns * 8 < serial_ns);
    expect_ok(compile_scheduled(scheduled, &target, 2, *state, &artefact));
    assert_int_equal(artefact.manifest.launch_count, 1);
    const kiln_manifest_launch *launch = &artefact.manifest.launch[0];
    expect_str(launch->entry, "run_0");
    assert_int_equal(launch->phase, KILN_LAUNCH_RUN);
    assert_true(launch->grid[0] == 2 && launch->grid[1] == 2 && launch->grid[2] == 1);
    assert_true(launch->group[0] == 4 && launch->group[1] == 2 && launch->group[2] == 1);
    assert_int_equal(launch->scratch_bytes[KILN_MEMORY_SHARED], (4 * 4 + 4 * 2) * sizeof(float));
    assert_true(launch->scratch_bytes[KILN_MEMORY_PRIVATE] > 0);
    assert_int_equal(launch->arg_count, 3);
}

/* What the rules draw runs right, and is many times faster than loops in order. */
static void drawn_schedules_run_and_use_threads(void **state) {
    static const char *const text[] = {
        "program p\ninput x: f32[24, 40]\ninput w: f32[40, 20]\noutput y: f32[24, 20]\n"
        "block mul(i:24, j:20 | k:40): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
        "program c\ninput x: f32[6, 12, 12]\nconstant w: f32[5, 6, 3, 3]\ntemp s: f32[5, 10, 10]\n"
        "output y: f32[5, 10, 10]\n"
        "block conv(o:5, h:10, v:10 | i:6, r:3, q:3): s[o, h, v] sum= x[i, h + r, v + q] * "
        "w[o, i, r, q] init 0.0\n"
        "block relu(o:5, h:10, v:10): y[o, h, v] = max(s[o, h, v], 0.0)\n",
        "program m\ninput x: f32[6, 50]\ntemp s: f32[6]\noutput y: f32[6, 50]\n"
        "block s(i:6 | j:50): s[i] sum= x[i, j] init 0.0\n"
        "block y(i:6, j:50): y[i, j] = x[i, j] - s[i]\n",
    };
    kiln_target target = target_of(*state, "null");
    for (size_t k = 0; k < KILN_ARRAY_COUNT(text); k++) {
        kiln_program *te = parsed(*state, text[k]), *loops = kiln_program_copy(te, *state), *best;
        kiln_space space;
        kiln_trace trace;
        kiln_rand rand;
        uint64_t serial_ns = 0, default_ns = 0;
        uint32_t refused = 0;
        kiln_program_make_loops(loops);
        kiln_rand_init(&rand, k + 1);
        expect_ok(kiln_space_create(te, &target, *state, &space));
        expect_ok(kiln_space_default(&space, *state, &trace, &best));
        expect_ok(expect_runs_equal(te, loops, &target, NULL, 2, 1, run_on_null, &serial_ns));
        expect_ok(expect_runs_equal(te, best, &target, NULL, 2, 1, run_on_null, &default_ns));
        assert_true(default_ns * 8 < serial_ns);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            kiln_status st = expect_runs_equal(te, draw_sample(te, &target, &rand), &target, NULL,
                                               2, seed, run_on_null, NULL);
            refused += st != NULL; /* beyond what groups share */
            kiln_status_free(st);
        }
        assert_true(refused <= 5);
    }
}

/* One launch makes what the next one reads, and packs before any run what depends on constants. */
static void temps_between_launches_lie_in_scratch_of_the_device(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_program *te = parsed(*state, "program p\n"
                                      "input x: f32[4, 8]\n"
                                      "constant w: f32[8]\n"
                                      "temp u: f32[8]\n"
                                      "temp s: f32[4]\n"
                                      "temp t: f32[4, 8]\n"
                                      "output y: f32[4, 8]\n"
                                      "block pack(a:8): u[a] = w[7 - a]\n"
                                      "block sum(i:4 | a:8): s[i] sum= x[i, a] * u[a] init 0.0\n"
                                      "block scale(i:4, a:8): t[i, a] = x[i, a] * 2.0\n"
                                      "block add(i:4, a:8): y[i, a] = t[3 - i, a] + s[i]\n");
    kiln_program *scheduled = replayed(te, "bind(sum.i, \"block.x\")\nbind(scale.a, \"thread.x\")\n"
                                           "bind(add.i, \"block.x\")\nbind(add.a, \"thread.x\")\n");
    kiln_artefact artefact;
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 2, 1, run_on_null, NULL));
    expect_ok(compile_scheduled(scheduled, &target, 2, *state, &artefact));
    const kiln_manifest *m = &artefact.manifest;
    assert_int_equal(m->launch_count, 4);
    assert_true(m->has_prepare);
    expect_str(m->launch[0].entry, "prepare_0");
    const kiln_manifest_arg *scratch = &m->arg[m->arg_count - 1];
    assert_int_equal(scratch->role, KILN_ROLE_TEMP);
    assert_int_equal(scratch->shape.dim[0], 64 + 4 * 8 * sizeof(float)); /* s is aligned */
    assert_int_equal(m->launch[3].arg_count, 2);                         /* y and the scratch */
    assert_int_equal(m->launch[3].arg[1], m->arg_count - 1);
}

static void random_launches_compute_what_the_expression_says(void **state) {
    (void)state;
    schedule_fuzz_counts counts = {0};
    kiln_strbuf report = {0};
    for (uint64_t seed = 1001; seed <= 1300; seed++)
        if (!schedule_fuzz_pair(seed, build_and_run_on_null, &counts, &report))
            fail_msg("%s", report.data);
    kiln_strbuf_deinit(&report);
    assert_true(counts.ran > 200);
    assert_true(counts.groups > 60);
    assert_true(counts.barriers > 12);
}

static void what_an_outer_loop_decides_is_computed_there(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_lowered lowered;
    kiln_program *loops = parsed(*state, product);
    kiln_null_code code;
    kiln_str bytes;
    uint64_t scratch_bytes, worker_bytes;
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT};
    kiln_program_make_loops(loops);
    expect_ok(kiln_lower(loops, &target, *state, &lowered));
    expect_ok(
        kiln_codegen(&lowered, &target, &options, *state, &bytes, &scratch_bytes, &worker_bytes));
    expect_ok(kiln_null_code_decode(bytes, *state, &code));
    const kiln_null_function *f = kiln_null_code_find(&code, KILN_STR("run_0"));
    uint32_t last_loop = 0, last_address = 0, in_body = 0;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        if (f->instruction[i].op == KILN_NULL_LOOP) last_loop = i;
        if (f->instruction[i].op == KILN_NULL_ADDRESS) last_address = i;
    }
    for (uint32_t i = last_loop; f->instruction[i].op != KILN_NULL_LOOP_END; i++) in_body++;
    assert_true(last_address < last_loop);
    assert_int_equal(in_body, 6); /* the loop, three loads, a multiply-add, a store */
}

static void explaining_prints_the_code(void **state) {
    kiln_target target = target_of(*state, "null");
    kiln_lowered lowered;
    kiln_str text;
    uint64_t scratch_bytes, worker_bytes;
    const kiln_codegen_options options = {.emit = KILN_EMIT_ASM};
    kiln_program *loops = parsed(*state, product);
    kiln_program_make_loops(loops);
    expect_ok(kiln_lower(loops, &target, *state, &lowered));
    expect_ok(
        kiln_codegen(&lowered, &target, &options, *state, &text, &scratch_bytes, &worker_bytes));
    expect_contains(text.data, "run_0: ");
    expect_contains(text.data, "MULTIPLY_ADD r");
    expect_contains(text.data, "b0: f32 argument 0, 128 elements");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_keep_the_meaning),
        test_with_arena(every_operator_computes_what_the_expression_says),
        test_with_arena(tf32_is_rounded_as_the_expression_says),
        test_with_arena(the_clock_counts_ticks_and_bytes_are_the_same),
        test_with_arena(a_launch_runs_groups_of_threads_with_shared_memory),
        test_with_arena(drawn_schedules_run_and_use_threads),
        test_with_arena(temps_between_launches_lie_in_scratch_of_the_device),
        cmocka_unit_test(random_launches_compute_what_the_expression_says),
        test_with_arena(what_an_outer_loop_decides_is_computed_there),
        test_with_arena(explaining_prints_the_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
