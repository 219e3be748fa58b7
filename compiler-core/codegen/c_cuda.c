/* CUDA C++: a kernel for each launch, for people to read and for tests; devices take PTX. All
 * numbers are named scalars; vectors are used only to read and write memory. */
#include "compiler-core/codegen/c_builder.h"

static kiln_ssa register_of(kiln_builder *b, kiln_ssa all, uint32_t number) {
    return b->ops->extract(b, all, number);
}

/* A row "mma.m16n8k16.f16" is the function mma_m16n8k16_f16. */
static void warp_product(kiln_builder *base, const kiln_intrinsic *row, const kiln_ssa *a,
                         const kiln_ssa *second, kiln_ssa *sum) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_ssa operand[3 * KILN_WARP_REGISTERS];
    uint32_t count = 0;
    kiln_strbuf call = {0};
    for (uint32_t i = 0; i < kiln_fragments[KILN_FRAGMENT_A].registers; i++)
        operand[count++] = a[i];
    for (uint32_t i = 0; i < kiln_fragments[KILN_FRAGMENT_B].registers; i++)
        operand[count++] = second[i];
    for (uint32_t i = 0; i < KILN_WARP_REGISTERS; i++) operand[count++] = sum[i];
    for (const char *at = row->name; *at; at++)
        kiln_strbuf_printf(&call, "%c", *at == '.' ? '_' : *at);
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&call, "%s%s", i ? ", " : "(", kiln_c_whole(b, operand[i]));
    kiln_strbuf_text(&call, ")");
    kiln_ssa all = kiln_c_define(b, kiln_type_vector(sum[0]->type.scalar, KILN_WARP_REGISTERS),
                                 false, kiln_strbuf_end(&call, b->arena).data, operand, count);
    for (uint32_t i = 0; i < KILN_WARP_REGISTERS; i++) sum[i] = register_of(base, all, i);
}

static void load_matrices(kiln_builder *base, kiln_ssa pointer, uint32_t count, bool transposed,
                          kiln_ssa *out) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const char *call = kiln_arena_printf(b->arena, "ldmatrix%s_x%u(%s)", transposed ? "_trans" : "",
                                         count, kiln_c_whole(b, pointer));
    kiln_ssa all =
        kiln_c_define(b, kiln_type_vector(KILN_SSA_I32, count), false, call, &pointer, 1);
    for (uint32_t i = 0; i < count; i++) out[i] = register_of(base, all, i);
}

static void copy(kiln_builder *base, kiln_ssa to, kiln_ssa from, uint32_t bytes) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const kiln_ssa operand[] = {to, from};
    kiln_c_effect(b,
                  kiln_arena_printf(b->arena, "cp_async<%u>((char *)%s, %s);", bytes,
                                    kiln_c_whole(b, to), kiln_c_whole(b, from)),
                  operand, 2);
}

static void copy_commit(kiln_builder *base) {
    kiln_c_effect((kiln_c_builder *)base, "cp_async_commit();", NULL, 0);
}

static void copy_wait(kiln_builder *base, uint32_t pending) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_c_effect(b, kiln_arena_printf(b->arena, "cp_async_wait<%u>();", pending), NULL, 0);
}

static kiln_ssa exchange(kiln_builder *base, kiln_ssa v, uint32_t lanes) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const char *call = kiln_arena_printf(b->arena, "__shfl_xor_sync(0xffffffffu, %s, %u)",
                                         kiln_c_whole(b, v), lanes);
    return kiln_c_define(b, v->type, false, call, &v, 1);
}

/* ---- instructions of groups of warps --------------------------------------------------------- */

/* Sums are separate variables while they are in flight, because instructions change them. */
static void group_begin(kiln_builder *base, kiln_ssa *sum, uint32_t count) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = kiln_c_name(b);
        sum[i] = kiln_c_define_as(
            b, sum[i]->type, name,
            kiln_arena_printf(b->arena, "f32 %s = %s;", name, kiln_c_whole(b, sum[i])), &sum[i], 1);
    }
    kiln_c_effect(b, "wgmma_fence();", NULL, 0);
}

/* A row "wgmma.m64k16.f16" with 128 columns is the function wgmma_m64n128k16_f16. */
static const char *name_of_product(kiln_c_builder *b, const kiln_intrinsic *row, uint32_t columns) {
    return kiln_arena_printf(b->arena, "wgmma_m64n%uk16_%s", columns,
                             kiln_dtype_name(row->operand[0]));
}

static void define_product(kiln_c_builder *b, const kiln_intrinsic *row, uint32_t columns) {
    const uint32_t count = columns / KILN_WARP_COLUMNS;
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text,
                       "#ifndef KILN_EMULATED\n"
                       "template <u32 TRANS_A, u32 TRANS_B> HELPER void %s(u64 a, u64 b",
                       name_of_product(b, row, columns));
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&text, ", f32 &d%u", i);
    kiln_strbuf_text(&text, ") {\n"
                            "    asm volatile(\"{ .reg .pred adds; setp.eq.u32 adds, 0, 0;\"\n"
                            "        \" ");
    kiln_strbuf_printf(&text, row->instruction, columns);
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&text, "%s%%%u", i ? ", " : " {", i);
    kiln_strbuf_printf(&text, "}, %%%u, %%%u, adds, 1, 1, %%%u, %%%u; }\"\n        : ", count,
                       count + 1, count + 2, count + 3);
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&text, "%s\"+f\"(d%u)", i ? ", " : "", i);
    kiln_strbuf_text(&text, "\n        : \"l\"(a), \"l\"(b), \"n\"(TRANS_A), \"n\"(TRANS_B) : "
                            "\"memory\");\n}\n#endif\n");
    kiln_c_add_helper(b, kiln_strbuf_end(&text, b->arena).data);
}

static void group_product(kiln_builder *base, const kiln_intrinsic *row, uint32_t columns,
                          const kiln_group_operand operand[KILN_INTRINSIC_OPERANDS],
                          kiln_ssa *sum) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const uint32_t count = columns / KILN_WARP_COLUMNS;
    kiln_ssa *used = KILN_ARENA_ARRAY(b->arena, kiln_ssa, count + KILN_INTRINSIC_OPERANDS);
    kiln_strbuf call = {0};
    define_product(b, row, columns);
    kiln_strbuf_printf(&call, "%s<%d, %d>(", name_of_product(b, row, columns),
                       operand[0].is_transposed, operand[1].is_transposed);
    for (uint32_t i = 0; i < KILN_INTRINSIC_OPERANDS; i++) {
        used[count + i] = operand[i].pointer;
        kiln_strbuf_printf(&call, "%sshared_matrix(%s, 0x%llxull)", i ? ", " : "",
                           kiln_c_whole(b, operand[i].pointer),
                           (unsigned long long)kiln_group_descriptor(&operand[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        used[i] = sum[i];
        kiln_strbuf_printf(&call, ", %s", kiln_c_whole(b, sum[i]));
    }
    kiln_strbuf_text(&call, ");");
    kiln_c_effect(b, kiln_strbuf_end(&call, b->arena).data, used, count + KILN_INTRINSIC_OPERANDS);
}

static void group_wait(kiln_builder *base, kiln_ssa *sum, uint32_t count) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_strbuf call = {0};
    kiln_strbuf_text(&call, "wgmma_commit(); wgmma_wait<0>(");
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&call, "%s%s", i ? ", " : "", kiln_c_whole(b, sum[i]));
    kiln_strbuf_text(&call, ");");
    kiln_c_effect(b, kiln_strbuf_end(&call, b->arena).data, sum, count);
}

static void group_fence(kiln_builder *base) {
    kiln_c_effect((kiln_c_builder *)base, "fence_async_shared();", NULL, 0);
}

/* ---- tokens between units of threads --------------------------------------------------------- */

/* A function of a token and a number. */
static void call_token(kiln_builder *base, const char *function, kiln_ssa pointer,
                       uint32_t number) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_c_effect(
        b, kiln_arena_printf(b->arena, "%s(%s, %u);", function, kiln_c_whole(b, pointer), number),
        &pointer, 1);
}

static void token_place(kiln_builder *b, kiln_ssa pointer, uint32_t arrivals) {
    call_token(b, "token_place", pointer, arrivals);
}

static void token_push(kiln_builder *base, kiln_ssa pointer, bool is_producer) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_c_effect(b,
                  kiln_arena_printf(b->arena, "token_push%s(%s);", is_producer ? "_copies" : "",
                                    kiln_c_whole(b, pointer)),
                  &pointer, 1);
}

static void token_pop(kiln_builder *base, kiln_ssa pointer, kiln_ssa parity, bool of_cluster) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const kiln_ssa operand[] = {pointer, parity};
    kiln_c_effect(b,
                  kiln_arena_printf(b->arena, "token_pop%s(%s, %s);",
                                    of_cluster ? "_of_cluster" : "", kiln_c_whole(b, pointer),
                                    kiln_c_whole(b, parity)),
                  operand, 2);
}

static void cluster_sync(kiln_builder *base) {
    kiln_c_effect((kiln_c_builder *)base, "cluster_sync();", NULL, 0);
}

static void token_push_all(kiln_builder *b, kiln_ssa pointer, uint32_t groups) {
    call_token(b, "token_push_all", pointer, groups);
}

static void unit_registers(kiln_builder *base, uint32_t count, bool more) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_c_effect(b,
                  kiln_arena_printf(b->arena, "registers_%s<%u>();", more ? "more" : "less", count),
                  NULL, 0);
}

static void token_expect(kiln_builder *b, kiln_ssa token, uint32_t bytes) {
    call_token(b, "token_expect", token, bytes);
}

static void bulk_copy(kiln_builder *base, kiln_ssa to, kiln_ssa from, uint32_t bytes,
                      kiln_ssa token) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    const kiln_ssa operand[] = {to, from, token};
    kiln_c_effect(b,
                  kiln_arena_printf(b->arena, "cp_async_bulk((char *)%s, %s, %u, %s);",
                                    kiln_c_whole(b, to), kiln_c_whole(b, from), bytes,
                                    kiln_c_whole(b, token)),
                  operand, 3);
}

/* Of a map of so many dimensions: cp_async_box2(to, map, token, x0, x1), and for all groups of a
 * cluster cp_async_box2_all<mask>(...). */
static void define_box_copy(kiln_c_builder *b, uint32_t rank, bool is_for_all) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(
        &text,
        "#ifndef KILN_EMULATED\n"
        "%sHELPER void cp_async_box%u%s(void *to, const tensor_map &map, const void *token",
        is_for_all ? "template <u16 GROUPS> " : "", rank, is_for_all ? "_all" : "");
    for (uint32_t i = 0; i < rank; i++) kiln_strbuf_printf(&text, ", s32 x%u", i);
    kiln_strbuf_printf(&text,
                       ") {\n"
                       "    asm volatile(\"cp.async.bulk.tensor.%ud.shared::cluster.global.tile\"\n"
                       "        \".mbarrier::complete_tx::bytes%s [%%0], [%%1, {",
                       rank, is_for_all ? ".multicast::cluster" : "");
    for (uint32_t i = 0; i < rank; i++) kiln_strbuf_printf(&text, "%s%%%u", i ? ", " : "", 3 + i);
    kiln_strbuf_text(&text, "}], [%2]");
    if (is_for_all) kiln_strbuf_printf(&text, ", %%%u", 3 + rank);
    kiln_strbuf_text(&text, ";\"\n"
                            "        : : \"r\"(shared_address(to)), \"l\"(&map), "
                            "\"r\"(shared_address(token))");
    for (uint32_t i = 0; i < rank; i++) kiln_strbuf_printf(&text, ", \"r\"(x%u)", i);
    kiln_strbuf_printf(&text, "%s : \"memory\");\n}\n#endif\n",
                       is_for_all ? ", \"h\"(GROUPS)" : "");
    kiln_c_add_helper(b, kiln_strbuf_end(&text, b->arena).data);
}

static void box_copy(kiln_builder *base, const kiln_box_copy *copy) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_ssa operand[3 + KILN_MAP_RANK_MAX] = {copy->to, copy->map, copy->token};
    const bool is_for_all = copy->groups > 1;
    kiln_strbuf call = {0};
    define_box_copy(b, copy->rank, is_for_all);
    kiln_strbuf_printf(&call, "cp_async_box%u", copy->rank);
    if (is_for_all) kiln_strbuf_printf(&call, "_all<%u>", (1u << copy->groups) - 1);
    kiln_strbuf_printf(&call, "((char *)%s, %s, %s", kiln_c_whole(b, copy->to),
                       kiln_c_whole(b, copy->map), kiln_c_whole(b, copy->token));
    for (uint32_t i = 0; i < copy->rank; i++) {
        operand[3 + i] = copy->coordinate[i];
        kiln_strbuf_printf(&call, ", (s32)%s", kiln_c_whole(b, copy->coordinate[i]));
    }
    kiln_strbuf_text(&call, ");");
    kiln_c_effect(b, kiln_strbuf_end(&call, b->arena).data, operand, 3 + copy->rank);
}

static const char *head_of(kiln_c_builder *b, const kiln_launch_head *head) {
    const uint32_t *size = head->group_size;
    const uint32_t threads = size[0] * size[1] * size[2];
    const char *resident = "", *cluster = "";
    if (head->resident) resident = kiln_arena_printf(b->arena, ", %u", head->resident);
    if (head->cluster > 1)
        cluster = kiln_arena_printf(b->arena, "__cluster_dims__(%u, 1, 1) ", head->cluster);
    return kiln_arena_printf(b->arena, "extern \"C\" __global__ void %s__launch_bounds__(%u%s) %s(",
                             cluster, threads, resident, head->name);
}

static const kiln_c_kernels kernels = {
    .head = head_of,
    .read_arg = "const char *",
    .written_arg = "char *",
    .map_arg = "const __grid_constant__ tensor_map ",
    .map_type =
        "#ifndef KILN_EMULATED\n"
        "struct __align__(64) tensor_map { char bytes[128]; }; // of cuTensorMapEncodeTiled\n"
        "#endif\n",
    .alone = "__restrict__ ",
    .shared = "extern __shared__ __align__(16) char %s[]; /* %llu bytes */",
    .shared_matrices = "extern __shared__ __align__(1024) char %s[]; /* %llu bytes */",
    .local = "__align__(16) char %s[%llu];",
    .grid = {"blockIdx.x", "blockIdx.y", "blockIdx.z"},
    .group = {"threadIdx.x", "threadIdx.y", "threadIdx.z"},
    .barrier = "__syncthreads();",
};

static const char *const lane[] = {".x", ".y", ".z", ".w"};

#define POINTER "const char *"

static const kiln_c_dialect cuda = {
    .piece_lanes = 4,
    .piece_bytes = 16,
    .lane = lane,
    .literal = "%s{%s}",
    .of_64 = "ull",
    .library = "",
    .has_suffix = true,
    .multiply_add = "fma_%u",
    .difference = "s64",
    .pointer = {POINTER, POINTER, POINTER, POINTER},
    .space = {"", "", "", ""},
    .kernels = &kernels,
    .warp_product = warp_product,
    .load_matrices = load_matrices,
    .copy = copy,
    .copy_commit = copy_commit,
    .copy_wait = copy_wait,
    .exchange = exchange,
    .group_begin = group_begin,
    .group_product = group_product,
    .group_wait = group_wait,
    .group_fence = group_fence,
    .token_place = token_place,
    .token_push = token_push,
    .token_pop = token_pop,
    .unit_registers = unit_registers,
    .token_expect = token_expect,
    .bulk_copy = bulk_copy,
    .cluster_sync = cluster_sync,
    .token_push_all = token_push_all,
    .box_copy = box_copy,
    .preamble = {kiln_cuda_types, kiln_c_helpers, kiln_c_helpers_f64, kiln_cuda_warps,
                 kiln_cuda_groups, kiln_cuda_tokens, kiln_c_text_split},
};

kiln_status kiln_cuda_emit(const kiln_lowered *lowered, const kiln_target *target,
                           const kiln_codegen_options *options, kiln_arena *arena,
                           kiln_codegen_output *out_output) {
    return kiln_c_write(&cuda, lowered, target, options, arena, out_output);
}
