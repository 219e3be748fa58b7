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

bool kiln_llvm_has_warps(const kiln_llvm_launches *machine) { return machine->has_warps; }
