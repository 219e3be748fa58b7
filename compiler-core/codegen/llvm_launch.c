/* Functions of launches over LLVM's C API, for machines that launch grids: NVIDIA's, as PTX text,
 * and AMD's, as objects. */
#include <string.h>

#include "base/kernel_abi.h"
#include "base/macros.h"
#include "compiler-core/codegen/llvm_builder.h"

#define LOCAL_ALIGNMENT 16u /* scopes.def */
#define MAP_BYTES 128       /* of a CUtensorMap, */
#define MAP_ALIGNMENT 64
#define GRID_X_MAX UINT64_C(0x7fffffff)
#define GRID_YZ_MAX UINT64_C(0xffff)

struct kiln_llvm_launches {
    unsigned convention; /* LLVM's number of the calling convention of kernels */
    const char *grid[3], *group[3], *barrier; /* intrinsics */
    bool barrier_orders_memory;               /* else it needs fences around it */
    bool shared_is_dynamic;                   /* its size is the launch's, not the function's */
    void (*describe)(kiln_llvm_builder *b, const kiln_launch_head *head);
    bool has_warps; /* of NVIDIA's instructions */
};

static kiln_llvm_builder *of(kiln_builder *b) { return (kiln_llvm_builder *)b; }
static kiln_ssa out(LLVMValueRef v) { return (kiln_ssa)v; }

static LLVMTypeRef i32_type(const kiln_llvm_builder *b) {
    return LLVMInt32TypeInContext(b->context);
}

static LLVMTypeRef bytes_type(const kiln_llvm_builder *b, uint64_t count) {
    return LLVMArrayType2(LLVMInt8TypeInContext(b->context), count);
}

/* ---- properties of kernels, by machine ------------------------------------------------------- */

/* nvvm.annotations: {function, name, value}. */
static void annotate_with(kiln_llvm_builder *b, const char *name, LLVMMetadataRef value) {
    LLVMMetadataRef part[] = {
        LLVMValueAsMetadata(b->function),
        LLVMMDStringInContext2(b->context, name, strlen(name)),
        value,
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(b->context, part, KILN_ARRAY_COUNT(part));
    LLVMAddNamedMetadataOperand(b->module, "nvvm.annotations",
                                LLVMMetadataAsValue(b->context, node));
}

static void annotate(kiln_llvm_builder *b, const char *name, uint32_t value) {
    annotate_with(b, name, LLVMValueAsMetadata(LLVMConstInt(i32_type(b), value, false)));
}

static void describe_ptx(kiln_llvm_builder *b, const kiln_launch_head *head) {
    static const char *const size[] = {"reqntidx", "reqntidy", "reqntidz"};
    for (uint32_t d = 0; d < 3; d++) annotate(b, size[d], head->group_size[d]);
    if (head->resident) annotate(b, "minctasm", head->resident);
    if (head->cluster > 1) annotate(b, "maxclusterrank", head->cluster);
}

/* LLVM 19 can write the largest number of groups of a cluster, but not the number that it has. */
kiln_str kiln_llvm_name_clusters(kiln_str ptx, kiln_arena *arena) {
    static const char most[] = "\n.maxclusterrank ";
    const char *from = ptx.size ? kiln_str_dup(arena, ptx) : "";
    kiln_strbuf out = {0};
    if (!strstr(from, most)) return ptx;
    for (const char *at; (at = strstr(from, most));) {
        const char *number = at + strlen(most);
        const size_t digits = strspn(number, "0123456789");
        kiln_strbuf_printf(&out, "%.*s\n.explicitcluster\n.reqnctapercluster %.*s, 1, 1",
                           (int)(at - from), from, (int)digits, number);
        from = number + digits;
    }
    kiln_strbuf_text(&out, from);
    return kiln_strbuf_end(&out, arena);
}

static void describe_amdgpu(kiln_llvm_builder *b, const kiln_launch_head *head) {
    const uint32_t threads = head->group_size[0] * head->group_size[1] * head->group_size[2];
    kiln_llvm_add_text_attribute(b, b->function, "amdgpu-flat-work-group-size",
                                 kiln_arena_printf(b->arena, "%u,%u", threads, threads));
}

static const kiln_llvm_launches ptx_launches = {
    .convention = 71,
    .grid = {"llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.ctaid.y",
             "llvm.nvvm.read.ptx.sreg.ctaid.z"},
    .group = {"llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.tid.y",
              "llvm.nvvm.read.ptx.sreg.tid.z"},
    .barrier = "llvm.nvvm.barrier0",
    .barrier_orders_memory = true,
    .shared_is_dynamic = true,
    .describe = describe_ptx,
    .has_warps = true,
};

static const kiln_llvm_launches amdgpu_launches = {
    .convention = 91,
    .grid = {"llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workgroup.id.y",
             "llvm.amdgcn.workgroup.id.z"},
    .group = {"llvm.amdgcn.workitem.id.x", "llvm.amdgcn.workitem.id.y",
              "llvm.amdgcn.workitem.id.z"},
    .barrier = "llvm.amdgcn.s.barrier",
    .describe = describe_amdgpu,
};

/* The first PTX version with the processor (sm_90: with sm_90a), so that every driver for the
 * processor reads it: of CUDA 11.0 (450) and 12.0 (525). */
static const struct {
    const char *processor, *features;
} ptx_versions[] = {{"sm_80", "+ptx70"}, {"sm_90", "+ptx80"}, {"sm_90a", "+ptx80"}};

void kiln_llvm_spell_ptx(const kiln_target *target, const char *processor, kiln_arena *arena,
                         kiln_llvm_machine *machine) {
    (void)processor;
    machine->triple = "nvptx64-nvidia-cuda";
    machine->cpu = kiln_str_dup(arena, target->triple);
    machine->features = "";
    machine->launches = &ptx_launches;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(ptx_versions); i++)
        if (kiln_str_is(target->triple, ptx_versions[i].processor))
            machine->features = ptx_versions[i].features;
}

void kiln_llvm_spell_amdgpu(const kiln_target *target, const char *processor, kiln_arena *arena,
                            kiln_llvm_machine *machine) {
    (void)target, (void)arena;
    machine->triple = "amdgcn-amd-amdhsa";
    machine->cpu = processor ? processor : "";
    machine->features = "";
    machine->launches = &amdgpu_launches;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The index of a group or thread, as an I64; LLVM gets its bound, so that arithmetic on it needs
 * only 32 bits. */
static kiln_ssa place(kiln_llvm_builder *b, const char *name, uint64_t end) {
    LLVMTypeRef i64 = LLVMInt64TypeInContext(b->context);
    if (end == 1) return out(LLVMConstNull(i64));
    LLVMValueRef id = kiln_llvm_intrinsic(b, name, NULL, 0, NULL, 0);
    LLVMMetadataRef bound[] = {LLVMValueAsMetadata(LLVMConstNull(i32_type(b))),
                               LLVMValueAsMetadata(LLVMConstInt(i32_type(b), end, false))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(b->context, bound, KILN_ARRAY_COUNT(bound));
    LLVMSetMetadata(id, LLVMGetMDKindIDInContext(b->context, "range", 5),
                    LLVMMetadataAsValue(b->context, node));
    return out(LLVMBuildZExt(b->builder, id, i64, ""));
}

static LLVMValueRef shared_memory(kiln_llvm_builder *b, const kiln_launch_head *head) {
    const bool is_dynamic = b->machine->launches->shared_is_dynamic;
    const char *name = is_dynamic ? "shared" : kiln_arena_printf(b->arena, "%s_shared", head->name);
    LLVMTypeRef type = bytes_type(b, is_dynamic ? 0 : head->shared_bytes);
    LLVMValueRef memory = LLVMGetNamedGlobal(b->module, name);
    if (memory) {
        LLVMSetAlignment(memory, KILN_MAX(LLVMGetAlignment(memory), head->shared_alignment));
        return memory;
    }
    memory = LLVMAddGlobalInAddressSpace(
        b->module, type, name, LLVMGetPointerAddressSpace(kiln_llvm_pointer(b, KILN_SPACE_SHARED)));
    LLVMSetAlignment(memory, head->shared_alignment);
    if (is_dynamic) return memory;
    LLVMSetLinkage(memory, LLVMInternalLinkage);
    LLVMSetInitializer(memory, LLVMGetPoison(type));
    return memory;
}

static LLVMValueRef local_memory(kiln_llvm_builder *b, uint64_t bytes) {
    LLVMValueRef memory = LLVMBuildAlloca(b->builder, bytes_type(b, bytes), "");
    LLVMSetAlignment(memory, LOCAL_ALIGNMENT);
    LLVMTypeRef type = kiln_llvm_pointer(b, KILN_SPACE_LOCAL);
    return LLVMTypeOf(memory) == type ? memory
                                      : LLVMBuildAddrSpaceCast(b->builder, memory, type, "");
}

/* Maps are passed by value, in constant memory that an address can be taken of. */
static void declare_maps(kiln_llvm_builder *b, uint32_t first, uint32_t count, kiln_ssa *map) {
    LLVMMetadataRef number[KILN_LAUNCH_MAPS_MAX];
    LLVMTypeRef type = bytes_type(b, MAP_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        const unsigned byval = LLVMGetEnumAttributeKindForName("byval", strlen("byval"));
        map[i] = out(LLVMGetParam(b->function, first + i));
        LLVMAddAttributeAtIndex(b->function, first + i + 1,
                                LLVMCreateTypeAttribute(b->context, byval, type));
        kiln_llvm_add_attribute(b, b->function, first + i + 1, "align", MAP_ALIGNMENT);
        number[i] = LLVMValueAsMetadata(LLVMConstInt(i32_type(b), first + i + 1, false));
    }
    if (count) annotate_with(b, "grid_constant", LLVMMDNodeInContext2(b->context, number, count));
}

/* void name(pointers, maps). Pointers may overlap: modules put results over inputs that are not
 * read any more. */
void kiln_llvm_launch_begin(kiln_builder *base, const kiln_launch_head *head,
                            kiln_launch_values *values) {
    kiln_llvm_builder *b = of(base);
    const kiln_llvm_launches *machine = b->machine->launches;
    const uint32_t count = head->arg_count + head->uses_scratch, all = count + head->map_count;
    LLVMTypeRef parameter[KILN_MANIFEST_ARGS_MAX + 1 + KILN_LAUNCH_MAPS_MAX];
    for (uint32_t i = 0; i < all; i++)
        parameter[i] = i < count ? kiln_llvm_pointer(b, KILN_SPACE_GLOBAL)
                                 : LLVMPointerTypeInContext(b->context, 0);
    LLVMTypeRef nothing = LLVMVoidTypeInContext(b->context);
    kiln_llvm_begin_function(b, head->name, LLVMFunctionType(nothing, parameter, all, false),
                             LLVMExternalLinkage);
    LLVMSetFunctionCallConv(b->function, machine->convention);
    machine->describe(b, head);
    *values = (kiln_launch_values){0};
    for (uint32_t i = 0; i < count; i++) {
        const bool is_scratch = i == head->arg_count;
        LLVMValueRef data = LLVMGetParam(b->function, i);
        kiln_llvm_add_attribute(b, b->function, i + 1, "align",
                                is_scratch ? KILN_KERNEL_ALIGNMENT : head->arg[i].alignment);
        if (!is_scratch && !head->arg[i].is_written)
            kiln_llvm_add_attribute(b, b->function, i + 1, "readonly", 0);
        *(is_scratch ? &values->scratch : &values->data[i]) = out(data);
    }
    declare_maps(b, count, head->map_count, values->map);
    if (head->shared_bytes) values->shared = out(shared_memory(b, head));
    if (head->local_bytes) values->local = out(local_memory(b, head->local_bytes));
    for (uint32_t d = 0; d < 3; d++) {
        values->grid[d] = place(b, machine->grid[d], d ? GRID_YZ_MAX : GRID_X_MAX);
        values->group[d] = place(b, machine->group[d], head->group_size[d]);
    }
}

void kiln_llvm_launch_end(kiln_builder *b) { LLVMBuildRetVoid(of(b)->builder); }

void kiln_llvm_barrier(kiln_builder *base) {
    kiln_llvm_builder *b = of(base);
    const kiln_llvm_launches *machine = b->machine->launches;
    if (!machine->barrier_orders_memory)
        LLVMBuildFence(b->builder, LLVMAtomicOrderingRelease, false, "");
    kiln_llvm_intrinsic(b, machine->barrier, NULL, 0, NULL, 0);
    if (!machine->barrier_orders_memory)
        LLVMBuildFence(b->builder, LLVMAtomicOrderingAcquire, false, "");
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

void kiln_llvm_add_warps(const kiln_llvm_launches *machine, kiln_builder_ops *ops) {
    if (!machine->has_warps) return;
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
