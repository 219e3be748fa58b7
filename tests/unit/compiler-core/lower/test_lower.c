/* Every pass keeps the meaning: what the interpreter computes after it is what the tensor
 * expression says. And each pass does what it is there for, on small programs. */
#include "compiler-core/lower/lower.h"

#include <string.h>

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/interpreter.h"
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/draw.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define SEEDS 300
#define ARGS_MAX 64
#define AVX2 "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"

enum {
    CPU = KILN_LOWER_CPU,
    GRID = KILN_LOWER_GRID,
    ITEMS = KILN_LOWER_ITEMS,
    CORE = KILN_LOWER_CORE
};

static const struct {
    const char *name;
    kiln_lower_pass run;
    uint32_t lists;
} pass_table[] = {
#define X(name, function, lists) {#name, function, lists},
#include "compiler-core/lower/lower.def"
#undef X
};

/* ---- meaning --------------------------------------------------------------------------------- */

/* Tensors by buffer name, shared by expression and lowered programs: packed ones are made on first
 * sight. */
typedef struct tensors {
    kiln_arena *arena;
    const kiln_program *te;
    kiln_tensor of_te[ARGS_MAX];
    kiln_tensor packed[ARGS_MAX];
    kiln_str packed_name[ARGS_MAX];
    uint32_t packed_count;
} tensors;

static kiln_tensor find_tensor(tensors *t, const kiln_buffer_info *b) {
    kiln_arg_buffers arg = kiln_program_args(t->te);
    for (uint32_t i = 0; i < arg.count; i++)
        if (kiln_str_equal(t->te->buffer.data[arg.buffer[i]].name, b->name)) return t->of_te[i];
    for (uint32_t i = 0; i < t->packed_count; i++)
        if (kiln_str_equal(t->packed_name[i], b->name)) return t->packed[i];
    assert_int_equal(b->role, KILN_ROLE_PACKED);
    t->packed_name[t->packed_count] = b->name;
    t->packed[t->packed_count] = kiln_tensor_create(t->arena, b->dtype, &b->shape);
    return t->packed[t->packed_count++];
}

static kiln_status evaluate(tensors *t, const kiln_program *p) {
    kiln_tensor tensor[ARGS_MAX];
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++)
        tensor[i] = find_tensor(t, &p->buffer.data[arg.buffer[i]]);
    return kiln_loop_eval(p, tensor, arg.count);
}

static void expect_meaning(const kiln_lowering *l, const kiln_program *te, const char *pass,
                           uint64_t seed) {
    tensors t = {.arena = te->arena, .te = te};
    kiln_tensor wanted[ARGS_MAX], bound[ARGS_MAX];
    uint32_t count = make_args(te, seed, wanted);
    make_args(te, seed, t.of_te);
    kiln_status st = kiln_te_eval_bounds(te, wanted, count, te->arena, bound);
    if (!st && l->prepare) st = evaluate(&t, l->prepare);
    if (!st) st = evaluate(&t, l->run);
    if (st) {
        kiln_strbuf text = {0};
        kiln_program_print(l->run, &text);
        print_error("%s\n", text.data);
        fail_msg("seed %llu after %s: %s", (unsigned long long)seed, pass, kiln_status_text(st));
    }
    expect_within_bounds(te, t.of_te, wanted, bound, count, seed);
}

static void every_pass_keeps_the_meaning(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kiln_arena_reset(&arena);
        const kiln_generate_options options = {
            .blocks_max = 4, .points_max = 300, .floats_only = seed % 2 == 0};
        kiln_target target = target_of(&arena, seed % 5 ? AVX2 : AVX2 ",cores=2,threads=2");
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled = draw_schedule(te, &rand, 30);
        kiln_lowering l = {.target = &target,
                           .arena = &arena,
                           .run = kiln_program_copy(scheduled, &arena),
                           .list = KILN_LOWER_CPU};
        tensors before = {.arena = &arena, .te = te};
        make_args(te, seed, before.of_te);
        kiln_status st = evaluate(&before, scheduled);
        for (uint32_t i = 0; !st && i < KILN_ARRAY_COUNT(pass_table); i++) {
            if (!(pass_table[i].lists & l.list)) continue;
            st = pass_table[i].run(&l);
            if (!st) expect_meaning(&l, te, pass_table[i].name, seed);
        }
        kiln_status_free(st); /* a schedule that is refused, by the interpreter or by a pass */
    }
    kiln_arena_deinit(&arena);
}

/* ---- what each pass is for ------------------------------------------------------------------- */

static kiln_program *program_of(kiln_arena *arena, const char *text) {
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (st) fail_msg("%s", kiln_status_text(st));
    return p;
}

/* The statement tree after a pass, without declarations. */
static void expect_loops_on(kiln_arena *arena, const char *device, const char *program,
                            const char *after, const char *wanted) {
    kiln_target target = target_of(arena, device);
    kiln_strbuf text = {0};
    kiln_status st =
        kiln_lower_explain(program_of(arena, program), &target, kiln_str_from(after), arena, &text);
    if (st) fail_msg("%s", kiln_status_text(st));
    const char *loops = strstr(text.data, "loops:\n");
    assert_non_null(loops);
    assert_string_equal(loops + strlen("loops:\n"), wanted);
    kiln_strbuf_deinit(&text);
}

static void expect_loops(kiln_arena *arena, const char *program, const char *after,
                         const char *wanted) {
    expect_loops_on(arena, AVX2, program, after, wanted);
}

static void expect_refused(kiln_arena *arena, const char *program, kiln_code code,
                           const char *reason) {
    kiln_target target = target_of(arena, AVX2);
    kiln_lowered lowered;
    kiln_status st = kiln_lower(program_of(arena, program), &target, arena, &lowered);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), reason))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), reason);
    kiln_status_free(st);
}

#define HEAD "program test\ninput x: f32[64]\noutput y: f32[62]\n"

static void reductions_start_from_their_initial_value(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 "program test\ninput x: f32[4,8]\noutput y: f32[4]\nblock s(a:4 | b:8): y[a] sum= "
                 "x[a, b] init 0.0\n"
                 "loops:\n  for i in 4:\n    for j in 8:\n      block s(a=i, b=j)\n",
                 "registers",
                 "  for i in 4:\n    y[i] = 0.0\n    y[i] = y[i] + x[i, 0]\n    for j'3 in 1..8:\n "
                 "     y[i] = y[i] + x[i, j'3]\n");
}

static void full_tiles_carry_no_predicate(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 HEAD "block c(a:62): y[a] = x[a]\nloops:\n  for i in 8:\n    for j in 8:\n      "
                      "block c(a=i*8 + j) if i*8 + j < 62\n",
                 "registers",
                 "  for i'2 in 7:\n    for j'2 in 8:\n      y[i'2*8 + j'2] = x[i'2*8 + j'2]\n"
                 "  for j'4 in 6:\n    y[j'4 + 56] = x[j'4 + 56]\n");
}

static void padding_is_split_off(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 "program test\ninput x: f32[8]\noutput y: f32[10]\n"
                 "block p(a:10): y[a] = select(and(1 <= a, a < 9), x[a - 1], 0.0)\nloops:\n  for i "
                 "in 10:\n    block p(a=i)\n",
                 "registers",
                 "  y[0] = 0.0\n  for i'3 in 1..9:\n    y[i'3] = x[i'3 - 1]\n  y[9] = 0.0\n");
}

static void conditions_on_rows_are_asked_once_a_row(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 "program test\ninput x: f32[7,8]\noutput y: f32[8,8]\n"
                 "block p(a:8, b:8): y[a, b] = select(1 <= a, x[a - 1, b], 0.0)\nloops:\n"
                 "  for i in 8:\n    for j in 8:\n      block p(a=i, b=j)\n",
                 "partition",
                 "  for i in 8:\n    if 1 <= i:\n      for j in 8:\n        y[i, j] = x[i - 1, j]\n"
                 "    if i < 1:\n      for j'2 in 8:\n        y[i, j'2] = 0.0\n");
}

/* In the copy of the loop where the temp is not written, no condition says that the read of it
 * never runs either. */
static void reads_that_never_run_read_nothing_unwritten(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_program *p = program_of(
        arena, "program test\ninput x: f32[7]\ntemp t: f32[8]\noutput y: f32[10]\n"
               "block c(a:8): t[a] = select(a < 7, x[a], 0.0)\n"
               "block d(a:10): y[a] = select(and(0 <= a - 1, a - 1 < 7), t[a - 1], 0.0)\n"
               "loops:\n  for i in 10:\n    for j in 8:\n"
               "      block c(a=i - 1) if and(1 <= i, i < 9)\n      for k in 8:\n"
               "        block d(a=i) if j*8 + k < 1\n");
    kiln_target target = target_of(arena, AVX2);
    kiln_lowered lowered;
    expect_ok(kiln_lower(p, &target, arena, &lowered));
    expect_ok(kiln_program_verify(lowered.run));
}

/* The loops of a program after unswitch, whose rows a of 8 columns have the value `value`. */
static uint32_t count_unswitched_loops(kiln_arena *arena, uint32_t rows, const char *value) {
    kiln_strbuf program = {0}, text = {0};
    kiln_target target = target_of(arena, AVX2);
    kiln_strbuf_printf(&program,
                       "program test\ninput x: f32[%u,8]\noutput y: f32[%u,8]\n"
                       "block p(a:%u, b:8): y[a, b] = %s\nloops:\n"
                       "  for i in %u:\n    for j in 8:\n      block p(a=i, b=j)\n",
                       rows, rows, rows, value, rows);
    expect_ok(kiln_lower_explain(program_of(arena, program.data), &target, KILN_STR("unswitch"),
                                 arena, &text));
    uint32_t count = 0;
    for (const char *at = text.data; (at = strstr(at, "for j")); at++) count++;
    kiln_strbuf_deinit(&program);
    kiln_strbuf_deinit(&text);
    return count;
}

/* As a concatenation asks: each answer leaves one part fewer to ask for. */
static void conditions_that_exclude_each_other_need_a_loop_each(void **state) {
    enum { PARTS = 40 };
    kiln_strbuf value = {0};
    for (uint32_t i = 0; i + 1 < PARTS; i++)
        kiln_strbuf_printf(&value, "select(a < %u, x[a, b]*%u.0, ", i + 1, i + 2);
    kiln_strbuf_text(&value, "x[a, b]");
    for (uint32_t i = 0; i + 1 < PARTS; i++) kiln_strbuf_char(&value, ')');
    assert_int_equal(count_unswitched_loops(((kiln_program *)*state)->arena, PARTS, value.data),
                     PARTS);
    kiln_strbuf_deinit(&value);
}

/* Four conditions make sixteen loops; the loops of sixteen would be 65536. */
static void conditions_of_their_own_do_not_double_the_loops_without_end(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    for (uint32_t conditions = 4; conditions <= 16; conditions *= 2) {
        kiln_strbuf value = {0};
        for (uint32_t i = 0; i < conditions; i++)
            kiln_strbuf_printf(&value, "%sselect(a < %u, x[a, b], 0.0)", i ? " + " : "", i + 1);
        assert_int_equal(count_unswitched_loops(arena, 32, value.data),
                         conditions == 4 ? 16 : 4 * conditions + 1);
        kiln_strbuf_deinit(&value);
    }
}

static void a_part_that_several_conditions_share_is_asked_once(void **state) {
    assert_int_equal(count_unswitched_loops(((kiln_program *)*state)->arena, 8,
                                            "select(and(1 <= a, 1 <= b), x[a, b], 0.0) + "
                                            "select(and(1 <= a, 2 <= b), x[a, b], 0.0) + "
                                            "select(and(1 <= a, 3 <= b), x[a, b], 0.0)"),
                     2);
}

static void vector_tails_are_masked(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 HEAD
                 "block c(a:62): y[a] = x[a]\nloops:\n  vectorize i in 62:\n    block c(a=i)\n",
                 "registers",
                 "  for i'3 in 7:\n    vectorize i'2 in 8:\n      y[i'3*8 + i'2] = x[i'3*8 + i'2]\n"
                 "  vectorize i'4 in 8:\n    if i'4 < 6:\n      y[i'4 + 56] = x[i'4 + 56]\n");
}

static void temps_keep_what_one_execution_touches(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *program = "program test\ninput x: f32[64]\ntemp t: f32[64]\noutput y: f32[62]\n"
                          "block c(a:64): t[a] = x[a] + 1.0\nblock d(a:62): y[a] = t[a]*t[a + 2]\n"
                          "loops:\n  for i in 31:\n    for k in 4:\n      block c(a=i*2 + k)\n    "
                          "for j in 2:\n      block d(a=i*2 + j)\n";
    expect_loops(
        arena, program, "place",
        "  for i in 31:\n    alloc t:\n      for k in 4:\n        t[k] = x[i*2 + k] + 1.0\n"
        "      for j in 2:\n        y[i*2 + j] = t[j]*t[j + 2]\n");
}

/* The minimum is 3 whatever the sum is. */
static void temps_that_nothing_reads_any_more_are_not_written(void **state) {
    expect_loops(((kiln_program *)*state)->arena,
                 "program test\ninput x: u8[7]\ntemp t: u8[]\ninput z: i64[]\noutput y: i64[]\n"
                 "block s( | a:7): t[] sum= x[a] init 0u8\n"
                 "block m(): y[] = min(3, abs(i64(t[]) + 3))*z[]\n"
                 "loops:\n  for i in 7:\n    block s(a=i)\n  block m()\n",
                 "partition", "  y[] = z[]*3\n");
}

/* What every iteration of a parallel loop computes for itself is its own: no worker sees another's.
 */
static void temps_of_parallel_iterations_are_private(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *program =
        "program test\ninput x: f32[4,8]\ntemp t: f32[4]\noutput y: f32[16]\n"
        "block s(a:4 | b:8): t[a] sum= x[a, b] init 0.0\nblock d(a:16): y[a] = t[floormod(a, 4)]\n"
        "loops:\n  parallel i in 16:\n    for k in 4:\n      for l in 8:\n        block s(a=k, "
        "b=l)\n"
        "    block d(a=i)\n";
    kiln_target target = target_of(arena, AVX2 ",cores=2,threads=2");
    kiln_strbuf text = {0};
    assert_null(
        kiln_lower_explain(program_of(arena, program), &target, KILN_STR("place"), arena, &text));
    assert_non_null(strstr(text.data, "  parallel i in 16:\n    alloc t:\n"));
    kiln_strbuf_deinit(&text);
}

static void loops_are_parallel_only_where_there_are_threads(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *program =
        HEAD "block c(a:62): y[a] = x[a]\nloops:\n  parallel i in 62:\n    block c(a=i)\n";
    expect_loops(arena, program, "threads", "  for i in 62:\n    block c(a=i)\n");
}

/* Rows and tiles of 4 columns, fused: the tail of each row burdens no other tile. */
static void tails_of_fused_loops_that_threads_share_are_cut_off(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *program = "program test\ninput x: f32[3,10]\noutput y: f32[3,10]\n"
                          "block c(a:3, b:10): y[a, b] = x[a, b]\n"
                          "loops:\n  parallel f in 9:\n    for i in 4:\n"
                          "      block c(a=floordiv(f, 3), b=floormod(f, 3)*4 + i) "
                          "if floormod(f, 3)*4 + i < 10\n";
    expect_loops_on(arena, AVX2 ",cores=2,threads=2", program, "partition",
                    "  parallel f in 9:\n"
                    "    if floormod(f, 3) < 2:\n"
                    "      for i'2 in 4:\n"
                    "        y[floordiv(f, 3), floormod(f, 3)*4 + i'2] = "
                    "x[floordiv(f, 3), floormod(f, 3)*4 + i'2]\n"
                    "    if 2 <= floormod(f, 3):\n"
                    "      for i'4 in 2:\n"
                    "        y[floordiv(f, 3), i'4 + 8] = x[floordiv(f, 3), i'4 + 8]\n");
}

static void packing_of_constants_moves_to_prepare(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    const char *program =
        "program test\ninput x: f32[8]\nconstant w: f32[8]\ntemp t: f32[8]\noutput y: f32[8]\n"
        "block c(a:8): t[a] = w[a]*2.0\nblock d(a:8): y[a] = x[a]*t[a]\n"
        "loops:\n  for i in 8:\n    block c(a=i)\n  for j in 8:\n    block d(a=j)\n";
    kiln_target target = target_of(arena, AVX2);
    kiln_lowered lowered;
    kiln_status st = kiln_lower(program_of(arena, program), &target, arena, &lowered);
    assert_null(st);
    assert_non_null(lowered.prepare);
    static const char *const name[] = {"x", "w", "y", "t"};
    static const bool in_prepare[] = {false, true, false, true},
                      in_run[] = {true, false, true, true};
    assert_int_equal(lowered.arg_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(kiln_str_is(lowered.arg[i].name, name[i]));
        assert_int_equal(lowered.arg[i].in_prepare != 0, in_prepare[i]);
        assert_int_equal(lowered.arg[i].in_run != 0, in_run[i]);
    }
}

static void registers_chosen_by_a_serial_loop_are_refused(void **state) {
    expect_refused(
        ((kiln_program *)*state)->arena,
        "program test\ninput x: f32[8]\ntemp t: f32[8] scope(register)\noutput y: f32[8]\n"
        "block c(a:8): t[a] = x[a]\nblock d(a:8): y[a] = t[a]\n"
        "loops:\n  for i in 8:\n    block c(a=i)\n  unroll j in 8:\n    block d(a=j)\n",
        KILN_ILLEGAL_SCHEDULE, "chosen by loop i");
}

static void more_registers_than_the_target_has_are_refused(void **state) {
    expect_refused(
        ((kiln_program *)*state)->arena,
        "program test\ninput x: f32[128]\ntemp t: f32[128] scope(register)\noutput y: f32[128]\n"
        "block c(a:128): t[a] = x[a]\nblock d(a:128): y[a] = t[a]\n"
        "loops:\n  unroll i in 16:\n    vectorize k in 8:\n      block c(a=i*8 + k)\n"
        "  unroll j in 16:\n    vectorize l in 8:\n      block d(a=j*8 + l)\n",
        KILN_ILLEGAL_SCHEDULE, "needs 16 vector registers");
}

/* Nests that each stay within the limit of one nest, and do not together. */
static void code_without_end_is_refused(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "program test\ninput x: f32[1024]\n");
    for (uint32_t i = 0; i < 17; i++) kiln_strbuf_printf(&text, "output y%u: f32[1024]\n", i);
    for (uint32_t i = 0; i < 17; i++)
        kiln_strbuf_printf(&text, "block c%u(a:1024): y%u[a] = x[a]\n", i, i);
    kiln_strbuf_text(&text, "loops:\n");
    for (uint32_t i = 0; i < 17; i++)
        kiln_strbuf_printf(&text, "  unroll i%u in 1024:\n    block c%u(a=i%u)\n", i, i, i);
    expect_refused(arena, text.data, KILN_RESOURCE_EXHAUSTED, "17408 stores");
    kiln_strbuf_deinit(&text);
}

static void unrolled_nests_that_are_too_long_become_serial(void **state) {
    expect_loops(
        ((kiln_program *)*state)->arena,
        "program test\ninput x: f32[4096]\noutput y: f32[4096]\nblock c(a:4096): y[a] = x[a]\n"
        "loops:\n  unroll i in 512:\n    unroll j in 8:\n      block c(a=i*8 + j)\n",
        "unroll", "  for i in 512:\n    unroll j in 8:\n      y[i*8 + j] = x[i*8 + j]\n");
}

/* What a target cannot do is refused by name before any pass meets it. */
static void what_a_target_lacks_is_refused(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, AVX2);
    static const struct {
        const char *buffers, *loops, *cpu, *grid;
    } row[] = {
        {"", "  bind(thread.x) i in 62:\n    block c(a=i)\n",
         "loop i is bound to thread.x, and the target has no launches", NULL},
        {"", "  vthread i in 62:\n    block c(a=i)\n",
         "loop i is over virtual threads, and the target has no launches", NULL},
        {"temp t: f32[1] scope(shared)\n", "  for i in 62:\n    block c(a=i)\n",
         "t has scope shared, which the target does not have", NULL},
        {"temp t: f32[1] scope(acc)\n", "  for i in 62:\n    block c(a=i)\n", "t has scope acc",
         "t has scope acc"},
        {"", "  for i in 62 @unit(load):\n    block c(a=i)\n", "tokens or units",
         "tokens or units"},
        {"", "  for i in 62:\n    block c(a=i)\n  barrier\n", "barriers", "barriers"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text,
                           "program p\ninput x: f32[62]\noutput y: f32[62]\n%s"
                           "block c(a:62): y[a] = x[a]\nloops:\n%s",
                           row[i].buffers, row[i].loops);
        kiln_program *p = program_of(arena, text.data);
        kiln_lowered lowered;
        expect_error(kiln_lower(p, &target, arena, &lowered), ILLEGAL_SCHEDULE, row[i].cpu);
        kiln_status st = kiln_lower_by(p, &target, KILN_LOWER_GRID, arena, &lowered);
        if (row[i].grid)
            expect_error(st, ILLEGAL_SCHEDULE, row[i].grid);
        else
            expect_ok(st);
        kiln_strbuf_deinit(&text);
    }
}

static void unknown_passes_are_named_with_those_that_exist(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, AVX2);
    kiln_strbuf text = {0};
    kiln_program *p = program_of(
        arena, HEAD "block c(a:62): y[a] = x[a]\nloops:\n  for i in 62:\n    block c(a=i)\n");
    kiln_status st = kiln_lower_explain(p, &target, KILN_STR("magic"), arena, &text);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    assert_non_null(strstr(kiln_status_text(st), "\"magic\""));
    assert_non_null(strstr(kiln_status_text(st), "partition"));
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
}

/* An index whose range nobody knows: the temp stays whole, instead of as long as 2^64 elements. */
static void temps_of_unknown_indices_stay_whole(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_target target = target_of(arena, AVX2);
    kiln_strbuf text = {0};
    expect_ok(kiln_lower_explain(
        program_of(arena, "program test\ninput x: f32[8,8]\ntemp t: f32[64]\noutput y: f32[8,8]\n"
                          "block a(i:8, j:8): t[i*8 + and(j, 7)] = x[i, j]\n"
                          "block c(i:8, j:8): y[i, j] = t[i*8 + and(j, 7)]\n"
                          "loops:\n  for i in 8:\n    for j in 8:\n      block a(i=i, j=j)\n"
                          "    for k in 8:\n      block c(i=i, j=k)\n"),
        &target, KILN_STR("place"), arena, &text));
    assert_non_null(strstr(text.data, "temp t: f32[64]"));
    kiln_strbuf_deinit(&text);
}

/* 256^10 copies wrap to 0 in 64 bits. */
static void endless_unrolling_stays_loops(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    char *loops = kiln_str_dup(arena, KILN_STR("loops:\n")), *indent = "  ", *sum = "";
    for (uint32_t i = 0; i < 10; i++) {
        loops = kiln_arena_printf(arena, "%s%sunroll i%u in 256:\n", loops, indent, i);
        indent = kiln_arena_printf(arena, "%s  ", indent);
        sum = kiln_arena_printf(arena, "%s%si%u", sum, i ? " + " : "", i);
    }
    kiln_target target = target_of(arena, AVX2);
    kiln_lowered lowered;
    expect_ok(kiln_lower(
        program_of(arena,
                   kiln_arena_printf(arena,
                                     "program test\ninput x: f32[4]\noutput y: f32[4]\n"
                                     "block c(a:4): y[a] = x[a]\n%s%sblock c(a=%s) if %s < 4\n",
                                     loops, indent, sum, sum)),
        &target, arena, &lowered));
    assert_true(kiln_lower_size(lowered.run, lowered.run->root) <= KILN_LOWER_UNROLL_MAX);
}

static void nests_deeper_than_code_has_room_for_are_refused(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    char *loops = kiln_str_dup(arena, KILN_STR("loops:\n")), *indent = "  ";
    for (uint32_t i = 0; i < 62; i++) {
        loops = kiln_arena_printf(arena, "%s%sfor i%u in 2:\n", loops, indent, i);
        indent = kiln_arena_printf(arena, "%s  ", indent);
    }
    expect_refused(arena,
                   kiln_arena_printf(arena,
                                     "program test\ninput x: f32[2]\noutput y: f32[2]\n"
                                     "block c(a:2): y[a] = x[a]\n%s%sblock c(a=i61)\n",
                                     loops, indent),
                   KILN_RESOURCE_EXHAUSTED, "62 loops are nested");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_keeps_the_meaning),
        PROGRAM_TEST(what_a_target_lacks_is_refused),
        PROGRAM_TEST(reductions_start_from_their_initial_value),
        PROGRAM_TEST(full_tiles_carry_no_predicate),
        PROGRAM_TEST(padding_is_split_off),
        PROGRAM_TEST(conditions_on_rows_are_asked_once_a_row),
        PROGRAM_TEST(reads_that_never_run_read_nothing_unwritten),
        PROGRAM_TEST(conditions_that_exclude_each_other_need_a_loop_each),
        PROGRAM_TEST(conditions_of_their_own_do_not_double_the_loops_without_end),
        PROGRAM_TEST(a_part_that_several_conditions_share_is_asked_once),
        PROGRAM_TEST(vector_tails_are_masked),
        PROGRAM_TEST(temps_keep_what_one_execution_touches),
        PROGRAM_TEST(temps_that_nothing_reads_any_more_are_not_written),
        PROGRAM_TEST(temps_of_parallel_iterations_are_private),
        PROGRAM_TEST(loops_are_parallel_only_where_there_are_threads),
        PROGRAM_TEST(tails_of_fused_loops_that_threads_share_are_cut_off),
        PROGRAM_TEST(packing_of_constants_moves_to_prepare),
        PROGRAM_TEST(registers_chosen_by_a_serial_loop_are_refused),
        PROGRAM_TEST(more_registers_than_the_target_has_are_refused),
        PROGRAM_TEST(code_without_end_is_refused),
        PROGRAM_TEST(unrolled_nests_that_are_too_long_become_serial),
        PROGRAM_TEST(temps_of_unknown_indices_stay_whole),
        PROGRAM_TEST(endless_unrolling_stays_loops),
        PROGRAM_TEST(nests_deeper_than_code_has_room_for_are_refused),
        PROGRAM_TEST(unknown_passes_are_named_with_those_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
