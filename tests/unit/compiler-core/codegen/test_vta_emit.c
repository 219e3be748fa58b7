/* Lowered programs become streams that compute what the loop interpreter says, on both simulators.
 */
#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/loop_eval.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/targets.h"
#include "tests/support/vta_conv_text.h"
#include "tests/unit/compiler-core/sched/support.h"
#include "vta/check.h"
#include "vta/csim.h"

static void fill(kiln_tensor *t, kiln_rand *r) {
    for (int64_t i = 0; i < kiln_shape_count(&t->shape); i++)
        kiln_dtype_store_i64(t->dtype, t->data, i,
                             t->dtype == KILN_I8 ? (int64_t)kiln_rand_below(r, 15) - 7
                                                 : (int64_t)kiln_rand_below(r, 4000) - 1000);
}

static uint64_t bytes_of(const kiln_tensor *t) {
    return (uint64_t)kiln_shape_count(&t->shape) * kiln_dtype_size(t->dtype);
}

/* What lowering leaves of a text with virtual threads and no allocations. */
static kiln_lowered lower_text(const char *text, const kiln_target *target, kiln_arena *arena) {
    kiln_lowering l = {
        .target = target, .arena = arena, .run = parsed(arena, text), .list = KILN_LOWER_CORE};
    kiln_lowered lowered = {.run = l.run};
    expect_ok(kiln_lower_vthread(&l));
    expect_ok(kiln_lower_place(&l));
    expect_ok(kiln_program_verify(l.run));
    expect_ok(
        kiln_launches_describe_whole(l.run, target, KILN_STR("run"), arena, &lowered.run_launches));
    return lowered;
}

/* Returns the cycles. */
static uint64_t expect_equal(const char *text, const char *machine, uint64_t seed,
                             kiln_arena *arena) {
    kiln_target target = target_of(arena, machine);
    kiln_lowered lowered = lower_text(text, &target, arena);
    kiln_str bytes;
    uint64_t scratch, worker;
    kiln_vta_program program;
    kiln_vta_fault fault;
    kiln_vta_counts counts;
    kiln_vta_timing timing;
    kiln_rand r;
    kiln_rand_init(&r, seed);
    const kiln_arg_buffers args = kiln_program_args(lowered.run);
    kiln_tensor *tensor = KILN_ARENA_ARRAY(arena, kiln_tensor, args.count);
    for (uint32_t i = 0; i < args.count; i++) {
        const kiln_buffer_info *info = &lowered.run->buffer.data[args.buffer[i]];
        tensor[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        fill(&tensor[i], &r);
    }
    expect_ok(kiln_codegen(&lowered, &target, &(kiln_codegen_options){.emit = KILN_EMIT_OBJECT},
                           arena, &bytes, &scratch, &worker));
    expect_ok(kiln_vta_program_decode(bytes, arena, &program));
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program.buffer_count);
    const uint64_t size = kiln_vta_program_place(&program, place);
    uint8_t *dram = kiln_arena_alloc(arena, size), *other = kiln_arena_alloc(arena, size);
    kiln_vta_program_fill(&program, place, dram);
    for (uint32_t i = 0; i < args.count; i++) /* arguments are the buffers behind the micro-ops */
        memcpy(dram + place[i + 1], tensor[i].data, bytes_of(&tensor[i]));
    memcpy(other, dram, size);
    expect_ok(kiln_loop_eval(lowered.run, tensor, args.count));
    if (!kiln_vta_fsim_run(&program, dram, size, seed, &counts, &fault))
        fail_msg("%s: instruction %u: %s", machine, fault.instruction, fault.text);
    if (!kiln_vta_csim_run(&program, other, size, &(kiln_vta_csim_options){0}, arena, &timing,
                           &fault))
        fail_msg("%s: instruction %u: %s", machine, fault.instruction, fault.text);
    for (uint32_t i = 0; i < args.count; i++) {
        assert_memory_equal(dram + place[i + 1], tensor[i].data, bytes_of(&tensor[i]));
        assert_memory_equal(other + place[i + 1], tensor[i].data, bytes_of(&tensor[i]));
    }
    return timing.cycles;
}

#define SMALL "b1i4o4,i8w8a32,uop12,inp11,wgt13,acc13,bus64,clk100,alu4,pipe4,"
static const char *const machine_table[] = {"vta:" SMALL "v1", "vta:" SMALL "v2",
                                            "vta:" SMALL "v1+engine", "vta:" SMALL "v1+first+chain",
                                            "vta:b2i4o8,i8w8a32,uop12,inp13,wgt14,acc15,bus64,"
                                            "clk100,alu4,pipe4,v2"};

static const struct {
    vta_conv conv;
    vta_conv_cut cut; /* threads aside */
} shape_table[] = {
    {{6, 4, 2, 4, 3, 1, 1}, {.rows = 3, .columns = 2, .out = 2, .in = 1}},
    {{6, 4, 2, 2, 3, 1, 1}, {.rows = 2, .columns = 4, .out = 1, .in = 2, .out_inside = true}},
    {{5, 5, 2, 2, 3, 2, 1}, {.rows = 3, .columns = 3, .out = 2, .in = 2}}, /* one part */
    {{6, 4, 2, 2, 1, 1, 0}, {.rows = 2, .columns = 4, .out = 1, .in = 1}},
    {{5, 5, 1, 2, 1, 2, 0}, {.rows = 3, .columns = 3, .out = 1, .in = 1, .out_inside = true}},
    {{1, 1, 8, 4, 1, 1, 0}, {.rows = 1, .columns = 1, .out = 4, .in = 2}}, /* dense */
};

static void convolutions_are_those_of_the_interpreter(void **state) {
    for (size_t m = 0; m < KILN_ARRAY_COUNT(machine_table); m++)
        for (size_t s = 0; s < KILN_ARRAY_COUNT(shape_table); s++)
            for (uint32_t threads = 1; threads <= 4; threads *= 2)
                for (uint32_t turn = 0; turn < 2; turn++) {
                    kiln_arena_reset(*state);
                    vta_conv_cut cut = shape_table[s].cut;
                    cut.threads = threads;
                    cut.in_turn = turn;
                    const kiln_target target = target_of(*state, machine_table[m]);
                    expect_equal(vta_conv_text(&target.vta, &shape_table[s].conv, &cut, *state),
                                 machine_table[m], 1 + s, *state);
                }
}

static void convolutions_fit_the_usual_machine(void **state) {
    static const vta_conv conv = {6, 4, 1, 2, 3, 1, 1};
    static const vta_conv_cut cut = {.rows = 3, .columns = 4, .out = 1, .in = 1, .threads = 2};
    for (uint32_t version = 1; version <= 2; version++) {
        const char *machine = kiln_arena_printf(*state, "vta:pynq,v%u", version);
        const kiln_target target = target_of(*state, machine);
        expect_equal(vta_conv_text(&target.vta, &conv, &cut, *state), machine, version, *state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_are_those_of_the_interpreter),
        test_with_arena(convolutions_fit_the_usual_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
