/* What CUDA C's kernels begin with: types, and instructions that CUDA has no functions for. The
 * tests' emulator has its own. */
#include "compiler-core/codegen/c_builder.h"

const char kiln_cuda_types[] =
    "typedef unsigned char u8;\n"
    "typedef unsigned short u16;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
    "typedef signed char s8;\n"
    "typedef short s16;\n"
    "typedef int s32;\n"
    "typedef long long s64;\n"
    "typedef float f32;\n"
    "typedef double f64;\n"
    "typedef u8 u8_m;\n"
    "typedef u16 u16_m;\n"
    "typedef u32 u32_m;\n"
    "typedef u64 u64_m;\n"
    "typedef f32 f32_m;\n"
    "typedef f64 f64_m;\n"
    "#define PIECES(T, N) typedef T##2 N##x2; typedef T##2 N##x2_m; typedef T##4 N##x4; "
    "typedef T##4 N##x4_m;\n"
    "PIECES(uchar, u8)\n"
    "PIECES(ushort, u16)\n"
    "PIECES(uint, u32)\n"
    "PIECES(float, f32)\n"
    "typedef ulonglong2 u64x2; typedef ulonglong2 u64x2_m;\n"
    "typedef double2 f64x2; typedef double2 f64x2_m;\n"
    "#define INT8_MIN (-128)\n"
    "#define INT8_MAX 127\n"
    "#define INT16_MIN (-32768)\n"
    "#define INT16_MAX 32767\n"
    "#define INT32_MIN (-2147483647 - 1)\n"
    "#define INT32_MAX 2147483647\n"
    "#define INT64_MIN (-9223372036854775807ll - 1)\n"
    "#define INT64_MAX 9223372036854775807ll\n"
    "#define INF32 f32_of_bits(0x7f800000u)\n"
    "#define NAN32 f32_of_bits(0x7fc00000u)\n"
    "#define INF64 ((f64)INF32)\n"
    "#define NAN64 ((f64)NAN32)\n"
    "#define fma_32 fmaf\n"
    "#define fma_64 fma\n"
    "#define HELPER static inline __device__\n";

/* Instructions of a warp. The tests' emulator has its own functions. */
#define MMA(NAME, INSTRUCTION, VECTOR, SCALAR, LETTER)                                    \
    "HELPER " VECTOR " " NAME "(u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, " SCALAR  \
    " c0, " SCALAR " c1, " SCALAR " c2, " SCALAR " c3) {\n"                               \
    "    asm volatile(\"mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, \"\n"          \
    "        \"{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"                         \
    "        : \"+" LETTER "\"(c0), \"+" LETTER "\"(c1), \"+" LETTER "\"(c2), \"+" LETTER \
    "\"(c3)\n"                                                                            \
    "        : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), \"r\"(b1));\n"      \
    "    return " VECTOR "{c0, c1, c2, c3};\n"                                            \
    "}\n"
#define LDMATRIX(NAME, TRANS)                                                                  \
    "HELPER u32x2 " NAME "_x2(const void *row) {\n"                                            \
    "    u32x2 m;\n"                                                                           \
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];\"\n" \
    "        : \"=r\"(m.x), \"=r\"(m.y) : \"r\"(shared_address(row)) : \"memory\");\n"         \
    "    return m;\n"                                                                          \
    "}\n"                                                                                      \
    "HELPER u32x4 " NAME "_x4(const void *row) {\n"                                            \
    "    u32x4 m;\n"                                                                           \
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" TRANS                                   \
    ".shared.b16 {%0, %1, %2, %3}, [%4];\"\n"                                                  \
    "        : \"=r\"(m.x), \"=r\"(m.y), \"=r\"(m.z), \"=r\"(m.w)\n"                           \
    "        : \"r\"(shared_address(row)) : \"memory\");\n"                                    \
    "    return m;\n"                                                                          \
    "}\n"

const char kiln_cuda_warps[] =
    "#ifndef KILN_EMULATED\n"
    "HELPER u32 shared_address(const void *p) {\n"
    "    u32 address;\n"
    "    asm(\"{ .reg .u64 shared; cvta.to.shared.u64 shared, %1; cvt.u32.u64 %0, shared; }\"\n"
    "        : \"=r\"(address) : \"l\"(p));\n"
    "    return address;\n"
    "}\n" /* clang-format off */
    MMA("mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16.f32", "f32x4", "f32", "f")
    MMA("mma_m16n8k16_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "f32x4", "f32", "f")
    MMA("mma_m16n8k8_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "f32x4", "f32", "f")
    MMA("mma_m16n8k32_s8", "m16n8k32.row.col.s32.s8.s8.s32", "u32x4", "u32", "r")
    LDMATRIX("ldmatrix", "")
    LDMATRIX("ldmatrix_trans", ".trans")
    "#endif\n"; /* clang-format on */

/* Asynchronous copies, and instructions of warp groups. */
const char kiln_cuda_groups[] =
    "#ifndef KILN_EMULATED\n" /* clang-format off */
    "template <u32 BYTES> HELPER void cp_async(void *to, const void *from) {\n"
    "    if (BYTES == 16) /* past the first cache, which keeps nothing of it */\n"
    "        asm volatile(\"{ .reg .u64 global; cvta.to.global.u64 global, %1;\"\n"
    "            \" cp.async.cg.shared.global [%0], [global], 16; }\"\n"
    "            : : \"r\"(shared_address(to)), \"l\"(from) : \"memory\");\n"
    "    else\n"
    "        asm volatile(\"{ .reg .u64 global; cvta.to.global.u64 global, %1;\"\n"
    "            \" cp.async.ca.shared.global [%0], [global], %2; }\"\n"
    "            : : \"r\"(shared_address(to)), \"l\"(from), \"n\"(BYTES) : \"memory\");\n"
    "}\n"
    "HELPER void cp_async_commit() { asm volatile(\"cp.async.commit_group;\" : : : \"memory\"); }\n"
    "template <u32 PENDING> HELPER void cp_async_wait() {\n"
    "    asm volatile(\"cp.async.wait_group %0;\" : : \"n\"(PENDING) : \"memory\");\n"
    "}\n"
    "HELPER u64 shared_matrix(const void *p, u64 rest) {\n"
    "    return rest | (shared_address(p) >> 4 & 0x3fffu);\n"
    "}\n"
    "HELPER void wgmma_fence() { asm volatile(\"wgmma.fence.sync.aligned;\" : : : \"memory\"); }\n"
    "HELPER void wgmma_commit() {\n"
    "    asm volatile(\"wgmma.commit_group.sync.aligned;\" : : : \"memory\");\n"
    "}\n"
    "HELPER void in_register(f32 &sum) { asm volatile(\"\" : \"+f\"(sum) : : \"memory\"); }\n"
    "template <u32 PENDING, typename... T> HELPER void wgmma_wait(T &...sum) {\n"
    "    asm volatile(\"wgmma.wait_group.sync.aligned %0;\" : : \"n\"(PENDING) : \"memory\");\n"
    "    (in_register(sum), ...);\n"
    "}\n"
    "HELPER void fence_async_shared() {\n"
    "    asm volatile(\"fence.proxy.async.shared::cta;\" : : : \"memory\");\n"
    "}\n"
    "#endif\n"; /* clang-format on */

#define TOKEN_POP(NAME, ORDER)                                                   \
    "HELPER void " NAME "(const void *p, u32 parity) {\n"                        \
    "    asm volatile(\"{ .reg .pred done; WAIT: mbarrier.try_wait.parity" ORDER \
    ".shared::cta.b64 done, [%0], %1;\"\n"                                       \
    "        \" @done bra DONE; bra WAIT; DONE: }\"\n"                           \
    "        : : \"r\"(shared_address(p)), \"r\"(parity) : \"memory\");\n"       \
    "}\n"

/* Barriers with phases in shared memory, and transfer of registers between threads. */
const char kiln_cuda_tokens[] =
    "#ifndef KILN_EMULATED\n" /* clang-format off */
    "HELPER void token_place(const void *p, u32 arrivals) {\n"
    "    asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\"\n"
    "        : : \"r\"(shared_address(p)), \"r\"(arrivals) : \"memory\");\n"
    "}\n"
    "HELPER void token_push_copies(const void *p) {\n"
    "    asm volatile(\"{ .reg .b64 state; cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\"\n"
    "        \" mbarrier.arrive.shared.b64 state, [%0]; }\" : : \"r\"(shared_address(p)) : \"memory\");\n"
    "}\n"
    "HELPER void token_push(const void *p) { /* one thread of each warp, behind all of it */\n"
    "    asm volatile(\"{ .reg .b64 state; .reg .u32 lane; .reg .pred first;\"\n"
    "        \" mov.u32 lane, %%laneid; setp.eq.u32 first, lane, 0; bar.warp.sync 0xffffffff;\"\n"
    "        \" @first mbarrier.arrive.shared.b64 state, [%0]; }\"\n"
    "        : : \"r\"(shared_address(p)) : \"memory\");\n"
    "}\n"
    "HELPER void token_push_all(const void *p, u32 groups) { /* of the cluster, a lane for each */\n"
    "    asm volatile(\"{ .reg .u32 lane, remote; .reg .pred has;\"\n"
    "        \" mov.u32 lane, %%laneid; setp.lt.u32 has, lane, %1; bar.warp.sync 0xffffffff;\"\n"
    "        \" @has mapa.shared::cluster.u32 remote, %0, lane;\"\n"
    "        \" @has mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }\"\n"
    "        : : \"r\"(shared_address(p)), \"r\"(groups) : \"memory\");\n"
    "}\n"
    "HELPER void cluster_sync() { /* also behind token_place */\n"
    "    asm volatile(\"fence.mbarrier_init.release.cluster; barrier.cluster.arrive.release.aligned;\"\n"
    "        \" barrier.cluster.wait.acquire.aligned;\" : : : \"memory\");\n"
    "}\n"
    TOKEN_POP("token_pop", "")
    TOKEN_POP("token_pop_of_cluster", ".acquire.cluster")
    "HELPER void token_expect(const void *p, u32 bytes) {\n"
    "    asm volatile(\"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\"\n"
    "        : : \"r\"(shared_address(p)), \"r\"(bytes) : \"memory\");\n"
    "}\n"
    "HELPER void cp_async_bulk(void *to, const void *from, u32 bytes, const void *token) {\n"
    "    asm volatile(\"{ .reg .u64 global; cvta.to.global.u64 global, %1;\"\n"
    "        \" cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes\"\n"
    "        \" [%0], [global], %2, [%3]; }\" : : \"r\"(shared_address(to)), \"l\"(from), \"r\"(bytes),\n"
    "        \"r\"(shared_address(token)) : \"memory\");\n"
    "}\n"
    "template <u32 COUNT> HELPER void registers_more() {\n"
    "    asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" : : \"n\"(COUNT));\n"
    "}\n"
    "template <u32 COUNT> HELPER void registers_less() {\n"
    "    asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" : : \"n\"(COUNT));\n"
    "}\n"
    "#endif\n"; /* clang-format on */
