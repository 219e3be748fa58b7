/* The rule "warp" of GPUs: products by instructions of warps and of warp groups. What it makes and
 * what is drawn from it equals the interpreter, before and behind lowering and as CUDA C in the
 * block emulator; NVIDIA's assembler takes it without spills, where it is installed. */
#include <string.h>

#include "base/rand.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ptxas.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/space.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

/* Extents that do not divide, operands that lie either way, windows, and what follows. */
static const char *const program[] = {
    "program plain\ninput x: f16[40,64]\ninput w: f16[64,24]\noutput y: f32[40,24]\n"
    "block mul(i:40, j:24 | k:64): y[i, j] sum= f32(x[i, k]) * f32(w[k, j]) init 0.0\n",
    "program epilogue\ninput x: bf16[17,96]\ninput w: bf16[24,96]\ninput b: f32[24]\n"
    "temp s: f32[17,24]\noutput y: bf16[17,24]\n"
    "block mul(i:17, j:24 | k:96): s[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n"
    "block act(i:17, j:24): y[i, j] = bf16(max(s[i, j] + b[j], 0.0))\n",
    "program turned\ninput x: f16[64,33]\ninput w: f16[64,16]\noutput y: f16[33,16]\n"
    "temp s: f32[33,16]\n"
    "block mul(i:33, j:16 | k:64): s[i, j] sum= f32(x[k, i]) * f32(w[k, j]) init 0.0\n"
    "block half(i:33, j:16): y[i, j] = f16(s[i, j])\n",
    "program scores\ninput q: f16[2,24,32]\ninput c: f16[2,40,32]\noutput y: f32[2,24,40]\n"
    "block mul(n:2, i:24, j:40 | k:32): y[n, i, j] sum= f32(q[n, i, k]) * f32(c[n, j, k]) init "
    "0.0\n",
    "program convolution\ninput x: f16[1,16,7,9]\ninput w: f16[24,16,3,3]\n"
    "temp p: f16[1,16,9,11]\noutput y: f32[1,24,7,9]\n"
    "block around(n:1, c:16, h:9, v:11): p[n, c, h, v] = select(and(and(1 <= h, h < 8), "
    "and(1 <= v, v < 10)), x[n, c, h - 1, v - 1], f16(0.0))\n"
    "block conv(n:1, o:24, h:7, v:9 | c:16, r:3, q:3): y[n, o, h, v] sum= "
    "f32(p[n, c, h + r, v + q]) * f32(w[o, c, r, q]) init 0.0\n",
    "program channels\ninput x: f16[1,19,7,32]\ninput w: f16[16,3,3,32]\noutput y: f32[1,9,3,16]\n"
    "block conv(n:1, h:9, v:3, o:16 | r:3, q:3, c:32): y[n, h, v, o] sum= "
    "f32(x[n, 2*h + r, 2*v + q, c]) * f32(w[o, r, q, c]) init 0.0\n",
    "program odd\ninput x: f16[20,100]\ninput w: f16[100,24]\noutput y: f32[20,24]\n"
    "block mul(i:20, j:24 | k:100): y[i, j] sum= f32(x[i, k]) * f32(w[k, j]) init 0.0\n",
    "program small\ninput x: bf16[1,9,9,24]\ninput w: bf16[12,3,3,24]\noutput y: f32[1,7,7,12]\n"
    "block conv(n:1, h:7, v:7, o:12 | r:3, q:3, c:24): y[n, h, v, o] sum= "
    "f32(x[n, h + r, v + q, c]) * f32(w[o, r, q, c]) init 0.0\n",
    "program four\ninput x: i8[4,45]\ninput w: i8[24,45]\noutput y: i32[4,24]\n"
    "block mul(i:4, j:24 | k:45): y[i, j] sum= i32(x[i, k]) * i32(w[j, k]) init 0i32\n",
    "program bytes\ninput x: i8[20,64]\ninput w: i8[24,64]\noutput y: i32[20,24]\n"
    "block mul(i:20, j:24 | k:64): y[i, j] sum= i32(x[i, k]) * i32(w[j, k]) init 0i32\n",
    "program rounded\ninput x: f32[20,44]\ninput w: f32[24,44]\ninput b: f32[24]\n"
    "temp s: f32[20,24]\noutput y: f32[20,24]\n"
    "block mul(i:20, j:24 | k:44): s[i, j] sum= tf32(x[i, k]) * tf32(w[j, k]) init 0.0\n"
    "block act(i:20, j:24): y[i, j] = max(s[i, j] + b[j], 0.0)\n",
    "program windows\ninput x: f32[1,8,7,9]\ninput w: f32[24,8,3,3]\n"
    "temp p: f32[1,8,9,11]\noutput y: f32[1,24,7,9]\n"
    "block around(n:1, c:8, h:9, v:11): p[n, c, h, v] = select(and(and(1 <= h, h < 8), "
    "and(1 <= v, v < 10)), x[n, c, h - 1, v - 1], 0.0)\n"
    "block conv(n:1, o:24, h:7, v:9 | c:8, r:3, q:3): y[n, o, h, v] sum= "
    "tf32(p[n, c, h + r, v + q]) * tf32(w[o, c, r, q]) init 0.0\n",
};

/* What warp groups multiply: rows of 64 steps, operands that lie either way, several of a tile's
 * rows and columns, batches, a second iterator of columns, and what follows. */
static const char *const grouped[] = {
    "program rows\ninput x: f16[70,64]\ninput w: f16[72,64]\noutput y: f32[70,72]\n"
    "block mul(i:70, j:72 | k:64): y[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n",
    "program columns\ninput x: bf16[192,40]\ninput w: bf16[192,64]\ninput b: f32[64]\n"
    "temp s: f32[40,64]\noutput y: bf16[40,64]\n"
    "block mul(i:40, j:64 | k:192): s[i, j] sum= f32(x[k, i]) * f32(w[k, j]) init 0.0\n"
    "block act(i:40, j:64): y[i, j] = bf16(max(s[i, j] + b[j], 0.0))\n",
    "program batch\ninput q: f16[2,24,128]\ninput c: f16[2,128,32]\noutput y: f16[2,24,32]\n"
    "temp s: f32[2,24,32]\n"
    "block mul(n:2, i:24, j:32 | k:128): s[n, i, j] sum= f32(q[n, i, k]) * f32(c[n, k, j]) init "
    "0.0\nblock half(n:2, i:24, j:32): y[n, i, j] = f16(s[n, i, j])\n",
    "program odd\ninput x: f16[24,100]\ninput w: f16[100,64]\noutput y: f32[24,64]\n"
    "block mul(i:24, j:64 | k:100): y[i, j] sum= f32(x[i, k]) * f32(w[k, j]) init 0.0\n",
    "program image\ninput x: f16[1,64,2,40]\nconstant w: f16[80,64]\noutput y: f32[1,80,2,40]\n"
    "block mul(n:1, o:80, h:2, v:40 | c:64): y[n, o, h, v] sum= f32(x[n, c, h, v]) * f32(w[o, c]) "
    "init 0.0\n",
};

/* Products whose sides have several iterators: windows that overlap, with and without a padding,
 * one after another, a stride, few channels, channels last; images, batches, what follows. */
static const char *const merged[] = {
    "program windows\ninput x: f16[1,64,7,9]\ninput w: f16[24,64,3,3]\ninput b: f32[24]\n"
    "temp p: f16[1,64,9,11]\ntemp s: f32[1,24,7,9]\noutput y: f16[1,24,7,9]\n"
    "block around(n:1, c:64, h:9, v:11): p[n, c, h, v] = select(and(and(1 <= h, h < 8), "
    "and(1 <= v, v < 10)), x[n, c, h - 1, v - 1], f16(0.0))\n"
    "block conv(n:1, o:24, h:7, v:9 | c:64, r:3, q:3): s[n, o, h, v] sum= "
    "f32(p[n, c, h + r, v + q]) * f32(w[o, c, r, q]) init 0.0\n"
    "block act(n:1, o:24, h:7, v:9): y[n, o, h, v] = f16(max(s[n, o, h, v] + b[o], 0.0))\n",
    "program strides\ninput x: f16[2,32,11,9]\nconstant w: f16[40,32,3,3]\n"
    "output y: f32[2,40,5,4]\nblock conv(n:2, o:40, h:5, v:4 | c:32, r:3, q:3): "
    "y[n, o, h, v] sum= f32(x[n, c, 2*h + r, 2*v + q]) * f32(w[o, c, r, q]) init 0.0\n",
    "program first\ninput x: bf16[1,3,16,16]\nconstant w: bf16[24,3,7,7]\n"
    "temp p: bf16[1,3,22,22]\noutput y: f32[1,24,8,8]\n"
    "block around(n:1, c:3, h:22, v:22): p[n, c, h, v] = select(and(and(3 <= h, h < 19), "
    "and(3 <= v, v < 19)), x[n, c, h - 3, v - 3], bf16(0.0))\n"
    "block conv(n:1, o:24, h:8, v:8 | c:3, r:7, q:7): y[n, o, h, v] sum= "
    "f32(p[n, c, 2*h + r, 2*v + q]) * f32(w[o, c, r, q]) init 0.0\n",
    "program last\ninput x: bf16[2,7,7,64]\ninput w: bf16[32,3,3,64]\n"
    "temp p: bf16[2,9,9,64]\noutput y: f32[2,7,7,32]\n"
    "block around(n:2, h:9, v:9, c:64): p[n, h, v, c] = select(and(and(1 <= h, h < 8), "
    "and(1 <= v, v < 8)), x[n, h - 1, v - 1, c], bf16(0.0))\n"
    "block conv(n:2, h:7, v:7, o:32 | r:3, q:3, c:64): y[n, h, v, o] sum= "
    "f32(p[n, h + r, v + q, c]) * f32(w[o, r, q, c]) init 0.0\n",
    "program image\ninput x: f16[2,64,4,8]\ninput w: f16[80,64]\noutput y: f32[2,80,4,8]\n"
    "block mul(n:2, o:80, h:4, v:8 | c:64): y[n, o, h, v] sum= f32(x[n, c, h, v]) * f32(w[o, c]) "
    "init 0.0\n",
    "program sequence\ninput x: f16[2,20,64]\ninput w: f16[64,72]\noutput y: f32[2,20,72]\n"
    "block mul(n:2, t:20, o:72 | k:64): y[n, t, o] sum= f32(x[n, t, k]) * f32(w[k, o]) init 0.0\n",
};

static kiln_space space_of(kiln_arena *arena, const kiln_program *te, const char *target) {
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    kiln_space space;
    *t = target_of(arena, target);
    expect_ok(kiln_space_create(te, t, arena, &space));
    return space;
}

/* Of a factor in f32 numbers that tf32 does not hold, but whose rounded products have sums that f32
 * holds; of other types small integers. */
static double value_of(int64_t small, kiln_dtype dtype, bool large) {
    return dtype != KILN_F32 ? (double)small : (double)small * (large ? 2049 : 1 - 0x1p-13);
}

/* What both interpreters and the emulator make of it is equal bit by bit: sums of such data are
 * exact.
 * The text that was emulated. */
static const char *expect_equal_everywhere(const kiln_program *te, const kiln_program *scheduled,
                                           const kiln_target *target, kiln_arena *arena) {
    kiln_lowered lowered;
    kiln_tensor want[4] = {{0}}, low[4], got[4];
    const char *text = NULL;
    uint32_t args = 0;
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        const kiln_buffer_info *info = &te->buffer.data[b];
        if (info->role == KILN_ROLE_TEMP) continue;
        want[args] = kiln_tensor_create(arena, info->dtype, &info->shape);
        for (uint32_t i = 0; i < kiln_shape_count(&info->shape); i++)
            kiln_dtype_store_f64(
                info->dtype, want[args].data, i,
                value_of((int64_t)((i * 7 + i / 13 + b) % 11) - 5, info->dtype, b % 2));
        low[args] = kiln_tensor_create(arena, info->dtype, &info->shape);
        got[args] = kiln_tensor_create(arena, info->dtype, &info->shape);
        memcpy(low[args].data, want[args].data, kiln_tensor_bytes(&want[args]));
        memcpy(got[args].data, want[args].data, kiln_tensor_bytes(&want[args]));
        args++;
    }
    expect_ok(kiln_te_eval(te, want, args));
    expect_ok(kiln_lower(scheduled, target, arena, &lowered));
    if (!lowered.prepare) expect_ok(kiln_loop_eval(lowered.run, low, args));
    expect_ok(emulate_scheduled(scheduled, target, got, args, arena, &text));
    for (uint32_t i = 0; i < args; i++) {
        if (!lowered.prepare)
            assert_memory_equal(low[i].data, want[i].data, kiln_tensor_bytes(&want[i]));
        assert_memory_equal(got[i].data, want[i].data, kiln_tensor_bytes(&want[i]));
    }
    return text;
}

static void defaults_equal_the_interpreter(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        kiln_program *te = parsed(*state, program[i]), *scheduled;
        const kiln_space space = space_of(*state, te, "a100");
        kiln_trace trace;
        assert_string_equal(space.rule, "warp");
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        expect_ok(kiln_program_verify(scheduled));
        expect_computes(te, scheduled, i);
        expect_ok(grid_equals_on(te, scheduled, space.target, i, NULL));
        (void)expect_equal_everywhere(te, scheduled, space.target, *state);
    }
}

#define DRAWS 2 /* of each program */

static void what_is_drawn_equals_the_interpreter(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        kiln_program *te = parsed(*state, program[i]), *scheduled;
        const kiln_space space = space_of(*state, te, "a100");
        for (uint32_t k = 0; k < DRAWS; k++) {
            kiln_trace trace;
            expect_ok(
                kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &trace));
            (void)expect_equal_everywhere(te, scheduled, space.target, *state);
        }
    }
}

#define GROUP_DRAWS 1

/* sm_90a has both kinds of instructions: one sketch is of the one, one of the other. */
static void warp_groups_equal_the_interpreter(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 4);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(grouped); i++) {
        kiln_program *te = parsed(*state, grouped[i]), *scheduled;
        const kiln_space space = space_of(*state, te, "h200");
        const kiln_sketch *whole[2] = {NULL}; /* one launch each */
        uint32_t by_groups = 0, count = 0;
        assert_string_equal(space.rule, "warp");
        for (uint32_t k = 0; k < space.sketch_count; k++)
            if (count < 2 && !strstr(space.sketch[k].options, "split"))
                whole[count++] = &space.sketch[k];
        assert_int_equal(count, 2);
        for (uint32_t k = 0; k < 2 * (GROUP_DRAWS + 1); k++) {
            const kiln_sketch *sketch = whole[k % 2];
            kiln_trace trace;
            expect_ok(kiln_trace_replay(k < 2 ? &sketch->preferred : &sketch->open, te,
                                        k < 2 ? NULL : &rand, *state, &scheduled, &trace));
            by_groups += strstr(expect_equal_everywhere(te, scheduled, space.target, *state),
                                "wgmma_m64n") != NULL;
        }
        assert_int_equal(by_groups, GROUP_DRAWS + 1);
    }
}

#define MERGED_DRAWS 1

/* On both kinds of devices, by whatever instruction; on the one of warp groups, by these too. */
static void products_of_matrices_equal_the_interpreter(void **state) {
    static const char *const target[] = {"a100", "h200"};
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (size_t d = 0; d < KILN_ARRAY_COUNT(target); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(merged); i++) {
            kiln_program *te = parsed(*state, merged[i]), *scheduled;
            const kiln_space space = space_of(*state, te, target[d]);
            uint32_t made = 0, by_groups = 0;
            for (uint32_t k = 0; k < space.sketch_count; k++) {
                const kiln_sketch *sketch = &space.sketch[k];
                if (!strstr(sketch->options, "matrix") || strstr(sketch->options, "split"))
                    continue;
                made++;
                for (uint32_t n = 0; n <= MERGED_DRAWS; n++) {
                    kiln_trace trace;
                    expect_ok(kiln_trace_replay(n ? &sketch->open : &sketch->preferred, te,
                                                n ? &rand : NULL, *state, &scheduled, &trace));
                    expect_ok(kiln_program_verify(scheduled));
                    by_groups +=
                        strstr(expect_equal_everywhere(te, scheduled, space.target, *state),
                               "wgmma_m64n") != NULL;
                }
            }
            assert_true(made > 0);
            assert_int_equal(by_groups > 0, d == 1);
        }
}

/* Only devices with exactly that capability have instructions of warp groups. */
static void others_have_one_kind_of_instruction(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(grouped); i++) {
        const kiln_space space = space_of(*state, parsed(*state, grouped[i]), "cuda:sm_90");
        for (uint32_t k = 0; k < space.sketch_count; k++)
            assert_null(strstr(space.sketch[k].options, "other instruction"));
    }
}

static const kiln_instruction *last_of(const kiln_trace *trace, kiln_prim prim) {
    for (uint32_t i = trace->count; i-- > 0;)
        if (trace->instruction[i].prim == prim) return &trace->instruction[i];
    fail_msg("the trace has no such instruction");
    return NULL;
}

/* What `producer` gets from the row of steps that is decided on. */
static int64_t producer_of(const kiln_trace *trace) {
    const kiln_operand *on = &last_of(trace, KILN_PRIM_PRODUCER)->operand[1];
    const kiln_instruction *steps = &trace->instruction[on->factor[0].sampler - 1];
    const int64_t width = steps->operand[0].factor[0].value;
    return steps->operand[1 + steps->decision[0] * width + on->factor[0].value].factor[0].value;
}

/* Tiles of a group: of its tilings the last one. */
static int64_t turns_of(const kiln_trace *trace) {
    return last_of(trace, KILN_PRIM_PERFECT_TILE)->decision[1];
}

/* Groups of a cluster: of its tilings the first one. */
static int64_t cluster_of(const kiln_trace *trace) {
    uint32_t i = 0;
    while (trace->instruction[i].prim != KILN_PRIM_PERFECT_TILE) i++;
    return trace->instruction[i].decision[1];
}

/* Draws schedules of a product for warp groups, of one launch, until one is wanted, and checks that
 * it equals the interpreter. Returns its CUDA C. */
static const char *first_drawn(bool (*wants)(const kiln_trace *trace), kiln_arena *arena) {
    kiln_program *te =
        parsed(arena, "program tiles\ninput x: f16[256,192]\ninput w: f16[192,128]\noutput y: "
                      "f32[256,128]\nblock mul(i:256, j:128 | k:192): y[i, j] sum= f32(x[i, k]) * "
                      "f32(w[k, j]) init 0.0\n");
    const kiln_space space = space_of(arena, te, "h200");
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (uint32_t k = 0; k < 400; k++) {
        const kiln_sketch *sketch = &space.sketch[k % space.sketch_count];
        kiln_program *scheduled;
        kiln_trace trace;
        if (strstr(sketch->options, "split")) continue; /* two launches */
        expect_ok(kiln_trace_replay(&sketch->open, te, &rand, arena, &scheduled, &trace));
        if (wants(&trace)) return expect_equal_everywhere(te, scheduled, space.target, arena);
    }
    fail_msg("none is drawn");
    return NULL;
}

/* Producers go on with the same tokens from one tile of a group to the next. */
static bool has_turns(const kiln_trace *trace) {
    return producer_of(trace) != 0 && turns_of(trace) > 1;
}

static void groups_of_several_tiles_equal_the_interpreter(void **state) {
    const char *text = first_drawn(has_turns, *state);
    expect_contains(text, "wgmma_m64n");
    expect_contains(text, "token_pop");
}

/* Rows of a cluster's groups are apart, their columns the same, which are copied once for both. */
static bool has_boxes_of_clusters(const kiln_trace *trace) {
    return producer_of(trace) == 2 && cluster_of(trace) == 2;
}

static void groups_of_a_cluster_copy_for_each_other(void **state) {
    expect_contains(first_drawn(has_boxes_of_clusters, *state), "cp_async_box2_all<3>(");
}

/* Threads write x across the rows of its copy, so vectors of these may be exchanged. */
static const char *const turned[] = {
    "program integers\ninput x: i32[72,48]\ninput w: i32[48,56]\noutput y: i32[72,56]\n"
    "block mul(i:72, j:56 | k:48): y[i, j] sum= x[i, k] * w[k, j] init 0i32\n",
    "program doubles\ninput x: f64[40,64]\ninput w: f64[64,64]\noutput y: f64[40,64]\n"
    "block mul(i:40, j:64 | k:64): y[i, j] sum= x[i, k] * w[k, j] init 0.0f64\n",
};

static bool exchanges(const kiln_program *p) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        for (uint32_t j = 0; j < p->buffer.data[b].layout.piece_count; j++)
            if (p->buffer.data[b].layout.piece[j].xor_modulus) return true;
    return false;
}

#define EXCHANGED_DRAWS 2 /* of each program */

static void exchanged_vectors_equal_the_interpreter(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 5);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(turned); i++) {
        kiln_program *te = parsed(*state, turned[i]), *scheduled;
        const kiln_space space = space_of(*state, te, "h200");
        uint32_t found = 0;
        assert_string_equal(space.rule, "tile");
        for (uint32_t k = 0; k < 100 && found < EXCHANGED_DRAWS; k++) {
            kiln_trace trace;
            expect_ok(
                kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &trace));
            if (!exchanges(scheduled)) continue;
            found++;
            (void)expect_equal_everywhere(te, scheduled, space.target, *state);
        }
        assert_int_equal(found, EXCHANGED_DRAWS);
        /* A pitch does as well, without an address for each load. */
        kiln_trace trace;
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        assert_false(exchanges(scheduled));
    }
}

/* ---- large ones ------------------------------------------------------------------------------ */

static const char *const large[] = {
    "program product\ninput x: f16[4096,4096]\ninput w: f16[4096,4096]\n"
    "output y: f32[4096,4096]\nblock mul(i:4096, j:4096 | k:4096): y[i, j] sum= f32(x[i, k]) * "
    "f32(w[k, j]) init 0.0\n",
    "program few\ninput x: bf16[128,1024]\ninput w: bf16[1000,1024]\ninput b: f32[1000]\n"
    "temp s: f32[128,1000]\noutput y: bf16[128,1000]\nblock mul(i:128, j:1000 | k:1024): "
    "s[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n"
    "block act(i:128, j:1000): y[i, j] = bf16(max(s[i, j] + b[j], 0.0))\n",
    "program values\ninput p: f16[8,512,512]\ninput v: f16[8,512,64]\noutput y: f32[8,512,64]\n"
    "block mul(n:8, i:512, j:64 | k:512): y[n, i, j] sum= f32(p[n, i, k]) * f32(v[n, k, j]) init "
    "0.0\n",
    "program convolution\ninput x: f16[32,64,56,56]\nconstant w: f16[64,64,3,3]\n"
    "temp p: f16[32,64,58,58]\noutput y: f32[32,64,56,56]\n"
    "block around(n:32, c:64, h:58, v:58): p[n, c, h, v] = select(and(and(1 <= h, h < 57), "
    "and(1 <= v, v < 57)), x[n, c, h - 1, v - 1], f16(0.0))\n"
    "block conv(n:32, o:64, h:56, v:56 | c:64, r:3, q:3): y[n, o, h, v] sum= "
    "f32(p[n, c, h + r, v + q]) * f32(w[o, c, r, q]) init 0.0\n",
    "program bytes\ninput x: i8[1024,1024]\ninput w: i8[1024,1024]\noutput y: i32[1024,1024]\n"
    "block mul(i:1024, j:1024 | k:1024): y[i, j] sum= i32(x[i, k]) * i32(w[j, k]) init 0i32\n",
    "program rounded\ninput x: f32[4096,4096]\nconstant w: f32[4096,4096]\n"
    "output y: f32[4096,4096]\nblock mul(i:4096, j:4096 | k:4096): y[i, j] sum= tf32(x[i, k]) * "
    "tf32(w[k, j]) init 0.0\n",
};

static const char *const device[][2] = {{"a100", "sm_80"}, {"h200", "sm_90a"}};

static void check_limits(const kiln_space *space, const kiln_launches *launches) {
    const kiln_gpu_limits l = kiln_gpu_limits_of(space->target);
    for (uint32_t i = 0; i < launches->count; i++) {
        const kiln_launch *at = &launches->launch[i];
        const int64_t threads = (int64_t)at->group_size[0] * at->group_size[1] * at->group_size[2];
        assert_true(threads <= l.threads);
        assert_true((int64_t)at->shared_bytes <= l.shared_bytes);
        assert_int_equal(at->local_bytes, 0);
    }
}

#define LARGE_DRAWS 12 /* of each program on each device */

static void nothing_is_drawn_that_a_limit_forbids(void **state) {
    kiln_rand rand;
    kiln_arena scratch;
    kiln_rand_init(&rand, 5);
    kiln_arena_init(&scratch, (size_t)1 << 20);
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(large); i++) {
            kiln_program *te = parsed(*state, large[i]), *scheduled;
            const kiln_space space = space_of(*state, te, device[d][0]);
            assert_string_equal(space.rule, "warp");
            const uint32_t both = space.sketch_count > 1 && *space.sketch[1].options ? 2 : 1;
            for (uint32_t k = 0; k < LARGE_DRAWS * both; k++) {
                kiln_trace trace;
                kiln_lowered lowered;
                expect_ok(kiln_trace_replay(&space.sketch[k % both].open, te, &rand, &scratch,
                                            &scheduled, &trace));
                expect_ok(kiln_lower(scheduled, space.target, &scratch, &lowered));
                check_limits(&space, &lowered.run_launches);
                kiln_arena_reset(&scratch);
            }
        }
    kiln_arena_deinit(&scratch);
}

/* PTX of the candidate; where the assembler is installed it takes that without spills and without
 * notes on lost performance. */
static const char *assembled(const kiln_program *scheduled, const kiln_space *space,
                             const char *processor, kiln_arena *arena) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    const char *program_path = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    kiln_lowered lowered;
    kiln_str ptx, printed;
    kiln_ptxas_report report;
    uint64_t scratch, worker;
    expect_ok(kiln_lower(scheduled, space->target, arena, &lowered));
    check_limits(space, &lowered.run_launches);
    expect_ok(kiln_codegen(&lowered, space->target, &options, arena, &ptx, &scratch, &worker));
    if (program_path) {
        expect_ok(
            kiln_ptxas_run(program_path, kiln_str_from(processor), ptx, NULL, arena, &printed));
        expect_ok(kiln_ptxas_parse(printed, arena, &report));
        expect_ok(kiln_ptxas_check_spills(&report));
        if (report.note.size > 0) fail_msg("ptxas notes: %.*s", KILN_STR_ARG(report.note));
    }
    return kiln_str_dup(arena, ptx);
}

/* Instructions of warps or warp groups, and copies past registers where 4 bytes and more lie
 * together. */
static void defaults_do_not_spill(void **state) {
    if (!kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", *state))
        print_message("no ptxas on PATH or in " KILN_PTXAS_VARIABLE ": it is not asked\n");
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(large); i++) {
            kiln_program *te = parsed(*state, large[i]), *scheduled;
            const kiln_space space = space_of(*state, te, device[d][0]);
            kiln_trace trace;
            expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
            const char *text = assembled(scheduled, &space, device[d][1], *state);
            if (strstr(text, "wgmma.mma_async")) {
                expect_contains(text, "wgmma.wait_group.sync.aligned 0");
            } else {
                expect_contains(text, "mma.sync.aligned.m16n8k");
                expect_contains(text, "ldmatrix.sync");
            }
            if (!strstr(large[i], "convolution")) expect_contains(text, "cp.async.cg");
        }
}

#define LARGE_GROUP_DRAWS 8

/* A large product has the widest instruction by default, threads that fetch for it, and as many
 * groups as there are units, nearly; what is drawn of it does not spill. */
static void warp_groups_do_not_spill(void **state) {
    kiln_rand rand;
    kiln_program *te = parsed(*state, large[0]), *scheduled;
    const kiln_space space = space_of(*state, te, "h200");
    kiln_trace trace;
    kiln_rand_init(&rand, 6);
    expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
    const char *text = assembled(scheduled, &space, "sm_90a", *state);
    expect_contains(text, "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16");
    expect_contains(text, "setmaxnreg.inc.sync.aligned.u32");
    assert_int_equal(producer_of(&trace), 1);
    assert_int_equal(turns_of(&trace), 4); /* of 512 tiles, on 132 units */
    for (uint32_t k = 0; k < LARGE_GROUP_DRAWS; k++) {
        expect_ok(kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &trace));
        expect_contains(assembled(scheduled, &space, "sm_90a", *state), "wgmma.mma_async");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(defaults_equal_the_interpreter),
        test_with_arena(what_is_drawn_equals_the_interpreter),
        test_with_arena(warp_groups_equal_the_interpreter),
        test_with_arena(groups_of_several_tiles_equal_the_interpreter),
        test_with_arena(groups_of_a_cluster_copy_for_each_other),
        test_with_arena(exchanged_vectors_equal_the_interpreter),
        test_with_arena(products_of_matrices_equal_the_interpreter),
        test_with_arena(others_have_one_kind_of_instruction),
        test_with_arena(nothing_is_drawn_that_a_limit_forbids),
        test_with_arena(defaults_do_not_spill),
        test_with_arena(warp_groups_do_not_spill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
