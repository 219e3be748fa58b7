#include "tests/unit/compiler-core/codegen/vta_board.h"

#include <string.h>

#include "base/rand.h"
#include "compiler-core/build.h"
#include "compiler-core/ir/eval.h"
#include "tests/support/test.h"
#include "vta/fsim.h"

#define POISON 0x5a /* what layouts pad with, but for constants */

/* Small numbers, or all that bytes have; those of words are sums of products of them. */
static void fill(kiln_tensor *t, bool is_small, kiln_rand *r) {
    const int64_t most = is_small ? 7 : 127, wide = t->dtype == KILN_I8 ? most : most * most * 4;
    for (int64_t i = 0; i < kiln_shape_count(&t->shape); i++)
        kiln_dtype_store_i64(t->dtype, t->data, (size_t)i, kiln_rand_range(r, -wide, wide));
}

kiln_status vta_judge_create(const kiln_program *te, uint64_t seed, kiln_arena *arena,
                             vta_judge *out_judge) {
    const kiln_arg_buffers buffers = kiln_program_args(te);
    kiln_tensor *arg = KILN_ARENA_ARRAY(arena, kiln_tensor, buffers.count);
    kiln_rand r;
    kiln_rand_init(&r, seed);
    for (uint32_t i = 0; i < buffers.count; i++) {
        const kiln_buffer_info *info = &te->buffer.data[buffers.buffer[i]];
        arg[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        fill(&arg[i], seed % 2, &r);
    }
    *out_judge = (vta_judge){te, arg};
    return kiln_te_eval(te, arg, buffers.count);
}

static const kiln_tensor *tensor_of(const vta_judge *judge, kiln_str name) {
    const kiln_arg_buffers buffers = kiln_program_args(judge->te);
    for (uint32_t i = 0; i < buffers.count; i++)
        if (kiln_str_equal(judge->te->buffer.data[buffers.buffer[i]].name, name))
            return &judge->arg[i];
    return NULL;
}

/* The buffer i + 1 of the program is the argument i of the launch. */
static const kiln_manifest_arg *argument(const kiln_manifest *m, uint32_t i) {
    return &m->arg[m->launch[0].arg[i]];
}

static const char *compare(const vta_judge *judge, const kiln_manifest *m, const uint8_t *dram,
                           const uint64_t *place, kiln_arena *arena) {
    for (uint32_t i = 0; i < m->launch[0].arg_count; i++) {
        const kiln_manifest_arg *arg = argument(m, i);
        if (arg->role != KILN_ROLE_OUTPUT) continue;
        kiln_tensor got = kiln_tensor_create(arena, arg->dtype, &arg->shape);
        kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, dram + place[i + 1], got.data);
        if (memcmp(got.data, tensor_of(judge, arg->name)->data,
                   (size_t)kiln_shape_count(&arg->shape) * kiln_dtype_size(arg->dtype)) != 0)
            return kiln_arena_printf(arena, "output %.*s differs", KILN_STR_ARG(arg->name));
    }
    return NULL;
}

const char *vta_judge_program(const vta_judge *judge, const kiln_manifest *manifest,
                              const kiln_vta_program *program, uint32_t orders, kiln_arena *arena) {
    kiln_vta_counts counts;
    kiln_vta_fault fault;
    if (manifest->launch_count != 1) return "it has more than a launch";
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count);
    const uint64_t size = kiln_vta_program_place(program, place);
    uint8_t *before = kiln_arena_alloc(arena, size), *dram = kiln_arena_alloc(arena, size);
    kiln_vta_program_fill(program, place, before);
    for (uint32_t i = 0; i < manifest->launch[0].arg_count; i++) {
        const kiln_manifest_arg *arg = argument(manifest, i);
        if (!tensor_of(judge, arg->name)) return "it has an argument that the expression has not";
        const kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
        memset(before + place[i + 1], arg->role == KILN_ROLE_CONSTANT ? 0 : POISON,
               (size_t)kiln_shape_count(&physical) * kiln_dtype_size(arg->dtype));
        if (arg->role != KILN_ROLE_OUTPUT)
            kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype,
                             tensor_of(judge, arg->name)->data, before + place[i + 1]);
    }
    for (uint32_t order = 0; order < orders; order++) {
        memcpy(dram, before, size);
        if (!kiln_vta_fsim_run(program, dram, size, order, &counts, &fault))
            return kiln_arena_printf(arena, "order %u: instruction %u: %s", order,
                                     fault.instruction, fault.text);
        const char *wrong = compare(judge, manifest, dram, place, arena);
        if (wrong) return kiln_arena_printf(arena, "order %u: %s", order, wrong);
    }
    return NULL;
}

kiln_status vta_builds_equal(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *target, uint64_t seed, kiln_arena *arena) {
    kiln_artefact artefact;
    kiln_vta_program program;
    vta_judge judge;
    kiln_status st =
        kiln_build_scheduled(te, KILN_STR("test"), scheduled, target, arena, &artefact);
    if (st) return st;
    expect_ok(kiln_vta_program_decode(artefact.payload, arena, &program));
    expect_ok(vta_judge_create(te, seed, arena, &judge));
    const char *wrong = vta_judge_program(&judge, &artefact.manifest, &program, 3, arena);
    if (wrong) fail_msg("%s", wrong);
    return KILN_OK;
}
