/* Instructions of NVIDIA's warps, groups of warps, tokens and copies over LLVM's C API: intrinsics
 * where LLVM has them, else inline assembly. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/codegen/llvm_builder.h"

static kiln_llvm_builder *of(kiln_builder *b) { return (kiln_llvm_builder *)b; }
static kiln_ssa out(LLVMValueRef v) { return (kiln_ssa)v; }

static LLVMTypeRef i32_type(const kiln_llvm_builder *b) {
    return LLVMInt32TypeInContext(b->context);
}

/* ---- instructions of warps, asynchronous copies ------------------------------------------- */

/* Registers are I32; for f16 LLVM takes pairs of halves. */
static void warp_product(kiln_builder *base, const kiln_intrinsic *row, const kiln_ssa *a,
                         const kiln_ssa *second, kiln_ssa *sum) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef arg[3 * KILN_WARP_REGISTERS];
    uint32_t count = 0;
    LLVMTypeRef type = row->operand[0] == KILN_F16
                           ? LLVMVectorType(LLVMHalfTypeInContext(b->context), 2)
                           : i32_type(b);
    for (uint32_t i = 0; i < kiln_fragments[KILN_FRAGMENT_A].registers; i++)
        arg[count++] = LLVMBuildBitCast(b->builder, (LLVMValueRef)a[i], type, "");
    for (uint32_t i = 0; i < kiln_fragments[KILN_FRAGMENT_B].registers; i++)
        arg[count++] = LLVMBuildBitCast(b->builder, (LLVMValueRef)second[i], type, "");
    for (uint32_t i = 0; i < KILN_WARP_REGISTERS; i++) arg[count++] = (LLVMValueRef)sum[i];
    LLVMValueRef all = kiln_llvm_intrinsic(b, row->instruction, NULL, 0, arg, count);
    for (uint32_t i = 0; i < KILN_WARP_REGISTERS; i++)
        sum[i] = out(LLVMBuildExtractValue(b->builder, all, i, ""));
}

static void load_matrices(kiln_builder *base, kiln_ssa pointer, uint32_t count, bool transposed,
                          kiln_ssa *result) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef from = (LLVMValueRef)pointer;
    LLVMTypeRef type = LLVMTypeOf(from);
    const char *name = kiln_arena_printf(b->arena, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%u%s.b16",
                                         count, transposed ? ".trans" : "");
    LLVMValueRef all = kiln_llvm_intrinsic(b, name, &type, 1, &from, 1);
    for (uint32_t i = 0; i < count; i++)
        result[i] = out(LLVMBuildExtractValue(b->builder, all, i, ""));
}

/* Copies of 16 bytes bypass the first cache, because only this group needs them. */
static void copy(kiln_builder *base, kiln_ssa to, kiln_ssa from, uint32_t bytes) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef arg[] = {(LLVMValueRef)to, (LLVMValueRef)from};
    kiln_llvm_intrinsic(b,
                        kiln_arena_printf(b->arena, "llvm.nvvm.cp.async.%s.shared.global.%u",
                                          bytes == 16 ? "cg" : "ca", bytes),
                        NULL, 0, arg, 2);
}

static void copy_commit(kiln_builder *b) {
    kiln_llvm_intrinsic(of(b), "llvm.nvvm.cp.async.commit.group", NULL, 0, NULL, 0);
}

static void copy_wait(kiln_builder *b, uint32_t pending) {
    LLVMValueRef arg = LLVMConstInt(i32_type(of(b)), pending, false);
    kiln_llvm_intrinsic(of(b), "llvm.nvvm.cp.async.wait.group", NULL, 0, &arg, 1);
}

static kiln_ssa exchange(kiln_builder *base, kiln_ssa v, uint32_t lanes) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef type = LLVMTypeOf((LLVMValueRef)v), word = i32_type(b);
    LLVMValueRef arg[] = {
        LLVMConstAllOnes(word), LLVMBuildBitCast(b->builder, (LLVMValueRef)v, word, ""),
        LLVMConstInt(word, lanes, false), LLVMConstInt(word, KILN_WARP_LANES - 1, false)};
    LLVMValueRef other =
        kiln_llvm_intrinsic(b, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, arg, KILN_ARRAY_COUNT(arg));
    return out(LLVMBuildBitCast(b->builder, other, type, ""));
}

/* ---- instructions of groups of warps --------------------------------------------------------- */

/* LLVM has no intrinsics for them: they are inline assembly that takes all sums and returns them,
 * so that no access to a sum moves across it. `more`: operands behind the sums. */
static void assemble(kiln_llvm_builder *b, const char *text, kiln_ssa *sum, uint32_t count,
                     LLVMValueRef *more, uint32_t more_count) {
    kiln_strbuf constraint = {0};
    LLVMValueRef *arg = KILN_ARENA_ARRAY(b->arena, LLVMValueRef, count + more_count);
    LLVMTypeRef *type = KILN_ARENA_ARRAY(b->arena, LLVMTypeRef, count + more_count);
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&constraint, "%s=f", i ? "," : "");
    for (uint32_t i = 0; i < count; i++) {
        arg[i] = (LLVMValueRef)sum[i];
        kiln_strbuf_printf(&constraint, ",%u", i);
    }
    for (uint32_t i = 0; i < more_count; i++) {
        arg[count + i] = more[i];
        kiln_strbuf_printf(&constraint, "%s%s", count + i ? "," : "",
                           LLVMTypeOf(more[i]) == i32_type(b) ? "r" : "l");
    }
    kiln_strbuf_printf(&constraint, "%s~{memory}", count + more_count ? "," : "");
    for (uint32_t i = 0; i < count + more_count; i++) type[i] = LLVMTypeOf(arg[i]);
    LLVMTypeRef result = count ? LLVMStructTypeInContext(b->context, type, count, false)
                               : LLVMVoidTypeInContext(b->context);
    if (count == 1) result = type[0];
    LLVMTypeRef function = LLVMFunctionType(result, type, count + more_count, false);
    const kiln_str place = kiln_strbuf_end(&constraint, b->arena);
    LLVMValueRef code = LLVMGetInlineAsm(function, text, strlen(text), place.data, place.size, true,
                                         false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef all = LLVMBuildCall2(b->builder, function, code, arg, count + more_count, "");
    for (uint32_t i = 0; i < count; i++)
        sum[i] = out(count == 1 ? all : LLVMBuildExtractValue(b->builder, all, i, ""));
}

static void group_begin(kiln_builder *b, kiln_ssa *sum, uint32_t count) {
    assemble(of(b), "wgmma.fence.sync.aligned;", sum, count, NULL, 0);
}

static LLVMValueRef descriptor(kiln_llvm_builder *b, const kiln_group_operand *operand) {
    LLVMTypeRef i64 = LLVMInt64TypeInContext(b->context);
    LLVMValueRef at = LLVMBuildPtrToInt(b->builder, (LLVMValueRef)operand->pointer,
                                        LLVMInt32TypeInContext(b->context), "");
    at = LLVMBuildLShr(b->builder, at, LLVMConstInt(i32_type(b), 4, false), "");
    at = LLVMBuildAnd(b->builder, at, LLVMConstInt(i32_type(b), 0x3fff, false), "");
    at = LLVMBuildZExt(b->builder, at, i64, "");
    return LLVMBuildOr(b->builder, at, LLVMConstInt(i64, kiln_group_descriptor(operand), false),
                       "");
}

static void group_product(kiln_builder *base, const kiln_intrinsic *row, uint32_t columns,
                          const kiln_group_operand operand[KILN_INTRINSIC_OPERANDS],
                          kiln_ssa *sum) {
    kiln_llvm_builder *b = of(base);
    const uint32_t count = columns / KILN_WARP_COLUMNS;
    LLVMValueRef matrix[] = {descriptor(b, &operand[0]), descriptor(b, &operand[1])};
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; ");
    kiln_strbuf_printf(&text, row->instruction, columns);
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&text, "%s$%u", i ? ", " : " {", i);
    /* Tied operands are numbered too. */
    kiln_strbuf_printf(&text, "}, $%u, $%u, adds, 1, 1, %d, %d; }", 2 * count, 2 * count + 1,
                       operand[0].is_transposed, operand[1].is_transposed);
    assemble(b, kiln_strbuf_end(&text, b->arena).data, sum, count, matrix, 2);
}

static void group_wait(kiln_builder *b, kiln_ssa *sum, uint32_t count) {
    assemble(of(b), "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;", sum, count,
             NULL, 0);
}

static void group_fence(kiln_builder *b) {
    assemble(of(b), "fence.proxy.async.shared::cta;", NULL, 0, NULL, 0);
}

/* ---- tokens between units of threads --------------------------------------------------------- */

static LLVMValueRef shared_address(kiln_llvm_builder *b, kiln_ssa pointer) {
    return LLVMBuildPtrToInt(b->builder, (LLVMValueRef)pointer, i32_type(b), "");
}

static void token_place(kiln_builder *base, kiln_ssa pointer, uint32_t arrivals) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef at = shared_address(b, pointer);
    assemble(b, kiln_arena_printf(b->arena, "mbarrier.init.shared.b64 [$0], %u;", arrivals), NULL,
             0, &at, 1);
}

/* Consumers: all threads of the warp are done, and see each other's writes, before one arrives. */
static void token_push(kiln_builder *base, kiln_ssa pointer, bool is_producer) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef at = shared_address(b, pointer);
    assemble(b,
             is_producer
                 ? "{ .reg .b64 state; cp.async.mbarrier.arrive.noinc.shared.b64 [$0]; "
                   "mbarrier.arrive.shared.b64 state, [$0]; }"
                 : "{ .reg .b64 state; .reg .u32 lane; .reg .pred first; mov.u32 lane, %laneid; "
                   "setp.eq.u32 first, lane, 0; bar.warp.sync 0xffffffff; "
                   "@first mbarrier.arrive.shared.b64 state, [$0]; }",
             NULL, 0, &at, 1);
}

/* mbarriers that the thread made must be visible to the cluster, which a barrier alone does not
 * promise. */
static void cluster_sync(kiln_builder *b) {
    assemble(of(b),
             "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.release.aligned; "
             "barrier.cluster.wait.acquire.aligned;",
             NULL, 0, NULL, 0);
}

/* A lane of the warp arrives for each group. */
static void token_push_all(kiln_builder *base, kiln_ssa pointer, uint32_t groups) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef at = shared_address(b, pointer);
    assemble(
        b,
        kiln_arena_printf(b->arena,
                          "{ .reg .u32 lane, remote; .reg .pred has; mov.u32 lane, %%laneid; "
                          "setp.lt.u32 has, lane, %u; bar.warp.sync 0xffffffff; "
                          "@has mapa.shared::cluster.u32 remote, $0, lane; "
                          "@has mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }",
                          groups),
        NULL, 0, &at, 1);
}

static void token_pop(kiln_builder *base, kiln_ssa pointer, kiln_ssa parity, bool of_cluster) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef more[] = {shared_address(b, pointer), (LLVMValueRef)parity};
    assemble(b,
             kiln_arena_printf(
                 b->arena,
                 "{ .reg .pred done; WAIT: mbarrier.try_wait.parity%s.shared::cta.b64 done, [$0], "
                 "$1; @done bra DONE; bra WAIT; DONE: }",
                 of_cluster ? ".acquire.cluster" : ""),
             NULL, 0, more, 2);
}

static void unit_registers(kiln_builder *base, uint32_t count, bool more) {
    kiln_llvm_builder *b = of(base);
    assemble(b,
             kiln_arena_printf(b->arena, "setmaxnreg.%s.sync.aligned.u32 %u;", more ? "inc" : "dec",
                               count),
             NULL, 0, NULL, 0);
}

static void token_expect(kiln_builder *base, kiln_ssa token, uint32_t bytes) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef at = shared_address(b, token);
    assemble(b,
             kiln_arena_printf(b->arena, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], %u;",
                               bytes),
             NULL, 0, &at, 1);
}

static LLVMValueRef address(kiln_llvm_builder *b, kiln_ssa pointer) {
    return LLVMBuildPtrToInt(b->builder, (LLVMValueRef)pointer, LLVMInt64TypeInContext(b->context),
                             "");
}

static void bulk_copy(kiln_builder *base, kiln_ssa to, kiln_ssa from, uint32_t bytes,
                      kiln_ssa token) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef more[] = {shared_address(b, to), address(b, from), shared_address(b, token)};
    assemble(b,
             kiln_arena_printf(
                 b->arena,
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], "
                 "%u, [$2];",
                 bytes),
             NULL, 0, more, 3);
}

static void box_copy(kiln_builder *base, const kiln_box_copy *copy) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef more[3 + KILN_MAP_RANK_MAX] = {shared_address(b, copy->to), address(b, copy->map),
                                                shared_address(b, copy->token)};
    const bool is_for_all = copy->groups > 1;
    kiln_strbuf text = {0};
    if (is_for_all)
        kiln_strbuf_printf(&text, "{ .reg .b16 all; mov.b16 all, %u; ", (1u << copy->groups) - 1);
    kiln_strbuf_printf(&text,
                       "cp.async.bulk.tensor.%ud.shared::cluster.global.tile"
                       ".mbarrier::complete_tx::bytes%s [$0], [$1, {",
                       copy->rank, is_for_all ? ".multicast::cluster" : "");
    for (uint32_t i = 0; i < copy->rank; i++) {
        more[3 + i] = (LLVMValueRef)copy->coordinate[i];
        kiln_strbuf_printf(&text, "%s$%u", i ? ", " : "", 3 + i);
    }
    kiln_strbuf_text(&text, is_for_all ? "}], [$2], all; }" : "}], [$2];");
    assemble(b, kiln_strbuf_end(&text, b->arena).data, NULL, 0, more, 3 + copy->rank);
}

void kiln_llvm_add_warps(kiln_builder_ops *ops) {
    ops->warp_product = warp_product;
    ops->load_matrices = load_matrices;
    ops->copy = copy;
    ops->copy_commit = copy_commit;
    ops->copy_wait = copy_wait;
    ops->exchange = exchange;
    ops->group_begin = group_begin;
    ops->group_product = group_product;
    ops->group_wait = group_wait;
    ops->group_fence = group_fence;
    ops->token_place = token_place;
    ops->token_push = token_push;
    ops->token_pop = token_pop;
    ops->unit_registers = unit_registers;
    ops->token_expect = token_expect;
    ops->bulk_copy = bulk_copy;
    ops->cluster_sync = cluster_sync;
    ops->token_push_all = token_push_all;
    ops->box_copy = box_copy;
}
