#include "tests/unit/compiler-core/codegen/vta_board.h"

#include <string.h>

#include "compiler-core/build.h"
#include "compiler-core/ir/eval.h"
#include "tests/unit/compiler-core/sched/support.h"
#include "vta/fsim.h"

static const kiln_tensor *tensor_of(const kiln_program *te, const kiln_tensor *args,
                                    kiln_str name) {
    const kiln_arg_buffers buffers = kiln_program_args(te);
    for (uint32_t i = 0; i < buffers.count; i++)
        if (kiln_str_equal(te->buffer.data[buffers.buffer[i]].name, name)) return &args[i];
    fail_msg("there is no argument %.*s", KILN_STR_ARG(name));
    return NULL;
}

static void run(const kiln_artefact *artefact, const kiln_program *te, const kiln_tensor *args,
                uint64_t order, kiln_arena *arena) {
    const kiln_manifest *m = &artefact->manifest;
    kiln_vta_program program;
    kiln_vta_counts counts;
    kiln_vta_fault fault;
    assert_int_equal(m->launch_count, 1);
    expect_ok(kiln_vta_program_decode(artefact->payload, arena, &program));
    assert_true(program.buffer_count >
                m->launch[0].arg_count); /* micro-ops, and constants behind */
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program.buffer_count);
    const uint64_t size = kiln_vta_program_place(&program, place);
    uint8_t *dram = kiln_arena_alloc(arena, size);
    kiln_vta_program_fill(&program, place, dram);
    for (uint32_t i = 0; i < m->launch[0].arg_count; i++) {
        const kiln_manifest_arg *arg = &m->arg[m->launch[0].arg[i]];
        if (arg->role != KILN_ROLE_OUTPUT)
            kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype,
                             tensor_of(te, args, arg->name)->data, dram + place[i + 1]);
    }
    if (!kiln_vta_fsim_run(&program, dram, size, order, &counts, &fault))
        fail_msg("instruction %u: %s", fault.instruction, fault.text);
    for (uint32_t i = 0; i < m->launch[0].arg_count; i++) {
        const kiln_manifest_arg *arg = &m->arg[m->launch[0].arg[i]];
        if (arg->role != KILN_ROLE_OUTPUT) continue;
        const kiln_tensor *wanted = tensor_of(te, args, arg->name);
        kiln_tensor got = kiln_tensor_create(arena, arg->dtype, &arg->shape);
        kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, dram + place[i + 1], got.data);
        if (memcmp(got.data, wanted->data,
                   (size_t)kiln_shape_count(&arg->shape) * kiln_dtype_size(arg->dtype)) != 0)
            fail_msg("output %.*s differs in order %llu", KILN_STR_ARG(arg->name),
                     (unsigned long long)order);
    }
}

kiln_status vta_builds_equal(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *target, uint64_t seed, kiln_arena *arena) {
    kiln_artefact artefact;
    kiln_status st =
        kiln_build_scheduled(te, KILN_STR("test"), scheduled, target, arena, &artefact);
    if (st) return st;
    const kiln_arg_buffers buffers = kiln_program_args(te);
    kiln_tensor *args = KILN_ARENA_ARRAY(arena, kiln_tensor, buffers.count);
    kiln_rand r;
    kiln_rand_init(&r, seed);
    for (uint32_t i = 0; i < buffers.count; i++) {
        const kiln_buffer_info *info = &te->buffer.data[buffers.buffer[i]];
        args[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        for (int64_t e = 0; e < kiln_shape_count(&info->shape); e++)
            kiln_dtype_store_i64(info->dtype, args[i].data, (size_t)e,
                                 (int64_t)kiln_rand_below(&r, 15) - 7);
    }
    expect_ok(kiln_te_eval(te, args, buffers.count));
    for (uint64_t order = 0; order < 3; order++) run(&artefact, te, args, order, arena);
    return KILN_OK;
}
