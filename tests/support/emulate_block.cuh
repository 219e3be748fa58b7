// What CUDA's compiler and headers give a kernel, for the block emulator (emulate_block.h). Compiled by clang++ in
// front of the kernel's text; no headers of the system.
#include "tests/support/emulate_calls.h"
#define KILN_EMULATED 1 // kernels leave out their own definitions of warp instructions

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static __attribute__((section("kiln_shared")))
#define __align__(N) __attribute__((aligned(N)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)

extern "C" {
emulate_state kiln_emulated;
extern char __start_kiln_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_kiln_shared[] __attribute__((weak, visibility("hidden")));
char *kiln_emulated_static_begin() { return __start_kiln_shared; }
char *kiln_emulated_static_end() { return __stop_kiln_shared; }
float fmaf(float, float, float), fmodf(float, float), floorf(float), ceilf(float), rintf(float), sqrtf(float),
    fabsf(float), copysignf(float, float), expf(float);
double fma(double, double, double), fmod(double, double), floor(double), ceil(double), rint(double), sqrt(double),
    fabs(double), copysign(double, double);
}

#define threadIdx kiln_emulated.thread
#define blockIdx kiln_emulated.block
#define blockDim kiln_emulated.block_size
#define gridDim kiln_emulated.grid_size

#define KILN_VECTORS(T, NAME)                                \
    struct __align__(2 * sizeof(T)) NAME##2 { T x, y; };     \
    struct __align__(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) NAME##4 { T x, y, z, w; };
KILN_VECTORS(char, char)
KILN_VECTORS(unsigned char, uchar)
KILN_VECTORS(short, short)
KILN_VECTORS(unsigned short, ushort)
KILN_VECTORS(int, int)
KILN_VECTORS(unsigned, uint)
KILN_VECTORS(float, float)
KILN_VECTORS(long long, longlong)
KILN_VECTORS(unsigned long long, ulonglong)
KILN_VECTORS(double, double)

#define KILN_LINE unsigned line = __builtin_LINE()
#define KILN_ALL 0xffffffffu

static inline void __syncthreads(KILN_LINE) { kiln_emulated.barrier(kiln_emulated.emulator, line); }

// ---- warp instructions: names that kernels of Kiln give them ----
static inline unsigned kiln_emulated_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % EMULATE_WARP;
}
template <typename T>
static inline T kiln_emulated_shuffle(unsigned mask, T value, unsigned lane, unsigned line) {
    emulate_shuffle x;
    static_assert(sizeof(T) == 4, "values of four bytes");
    __builtin_memcpy(&x.value, &value, 4);
    x.lane = lane;
    kiln_emulated.warp(kiln_emulated.emulator, EMULATE_SHUFFLE, &x, mask, line);
    __builtin_memcpy(&value, &x.value, 4);
    return value;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int lane, KILN_LINE) {
    return kiln_emulated_shuffle(mask, value, (unsigned)lane % EMULATE_WARP, line);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, KILN_LINE) {
    return kiln_emulated_shuffle(mask, value, kiln_emulated_lane() ^ (unsigned)lanes, line);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, KILN_LINE) {
    return kiln_emulated_shuffle(mask, value, kiln_emulated_lane() + by, line);
}

#define KILN_MMA(NAME, ID, VECTOR, SCALAR, MEMBER)                                                             \
    static inline VECTOR NAME(unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1,   \
                              SCALAR c0, SCALAR c1, SCALAR c2, SCALAR c3, KILN_LINE) {                        \
        emulate_mma x = {{a0, a1, a2, a3}, {b0, b1}, {}};                                                     \
        x.sum.MEMBER[0] = c0, x.sum.MEMBER[1] = c1, x.sum.MEMBER[2] = c2, x.sum.MEMBER[3] = c3;               \
        kiln_emulated.warp(kiln_emulated.emulator, ID, &x, KILN_ALL, line);                                   \
        return VECTOR{x.sum.MEMBER[0], x.sum.MEMBER[1], x.sum.MEMBER[2], x.sum.MEMBER[3]};                    \
    }
KILN_MMA(mma_m16n8k16_f16, EMULATE_MMA_F16, float4, float, f)
KILN_MMA(mma_m16n8k16_bf16, EMULATE_MMA_BF16, float4, float, f)
KILN_MMA(mma_m16n8k8_tf32, EMULATE_MMA_TF32, float4, float, f)
KILN_MMA(mma_m16n8k32_s8, EMULATE_MMA_S8, uint4, unsigned, i)

static inline emulate_ldmatrix kiln_emulated_matrices(const void *row, unsigned count, unsigned transposed,
                                                      unsigned line) {
    emulate_ldmatrix x = {row, count, transposed, {}};
    kiln_emulated.warp(kiln_emulated.emulator, EMULATE_LDMATRIX, &x, KILN_ALL, line);
    return x;
}
#define KILN_LDMATRIX(NAME, TRANSPOSED)                                                        \
    static inline unsigned NAME##_x1(const void *row, KILN_LINE) {                             \
        return kiln_emulated_matrices(row, 1, TRANSPOSED, line).to[0];                         \
    }                                                                                          \
    static inline uint2 NAME##_x2(const void *row, KILN_LINE) {                                \
        emulate_ldmatrix x = kiln_emulated_matrices(row, 2, TRANSPOSED, line);                 \
        return uint2{x.to[0], x.to[1]};                                                        \
    }                                                                                          \
    static inline uint4 NAME##_x4(const void *row, KILN_LINE) {                                \
        emulate_ldmatrix x = kiln_emulated_matrices(row, 4, TRANSPOSED, line);                 \
        return uint4{x.to[0], x.to[1], x.to[2], x.to[3]};                                      \
    }
KILN_LDMATRIX(ldmatrix, 0)
KILN_LDMATRIX(ldmatrix_trans, 1)

// ---- instructions of warp groups ----
static unsigned kiln_emulated_line; // of the instruction in hand: its own parameters are a pack
static inline unsigned long long shared_matrix(const void *p, unsigned long long rest, KILN_LINE) {
    kiln_emulated_line = line;
    return rest | (unsigned long long)((const char *)p - kiln_emulated.kiln_memory) / 16;
}
static inline void wgmma_fence() { kiln_emulated.group_fence(kiln_emulated.emulator); }
static inline void wgmma_commit() { kiln_emulated.group_commit(kiln_emulated.emulator); }
static inline void fence_async_shared() { kiln_emulated.fence_async(kiln_emulated.emulator); }
#define wgmma_wait kiln_emulated_line = __LINE__, kiln_emulated_wgmma_wait
template <unsigned PENDING, typename... T> static inline void kiln_emulated_wgmma_wait(T &...) {
    kiln_emulated.group_wait(kiln_emulated.emulator, PENDING, kiln_emulated_line);
}
template <typename... T>
static inline void kiln_emulated_wgmma(unsigned columns, unsigned is_bf16, unsigned trans_a, unsigned trans_b,
                                       unsigned long long a, unsigned long long b, T &...sum) {
    float *sums[] = {&sum...};
    emulate_wgmma x = {columns, is_bf16, {trans_a, trans_b}, {a, b}, sums};
    kiln_emulated.group_begin(kiln_emulated.emulator, &x, kiln_emulated_line);
}
#define KILN_WGMMA(N)                                                                                         \
    template <unsigned A, unsigned B, typename... T>                                                          \
    static inline void wgmma_m64n##N##k16_f16(unsigned long long a, unsigned long long b, T &...sum) {        \
        static_assert(sizeof...(T) == N / 2, "two sums of each column");                                      \
        kiln_emulated_wgmma(N, 0, A, B, a, b, sum...);                                                        \
    }                                                                                                         \
    template <unsigned A, unsigned B, typename... T>                                                          \
    static inline void wgmma_m64n##N##k16_bf16(unsigned long long a, unsigned long long b, T &...sum) {       \
        kiln_emulated_wgmma(N, 1, A, B, a, b, sum...);                                                        \
    }
KILN_WGMMA(64) KILN_WGMMA(72) KILN_WGMMA(80) KILN_WGMMA(88) KILN_WGMMA(96) KILN_WGMMA(104) KILN_WGMMA(112)
KILN_WGMMA(120) KILN_WGMMA(128) KILN_WGMMA(136) KILN_WGMMA(144) KILN_WGMMA(152) KILN_WGMMA(160) KILN_WGMMA(168)
KILN_WGMMA(176) KILN_WGMMA(184) KILN_WGMMA(192) KILN_WGMMA(200) KILN_WGMMA(208) KILN_WGMMA(216) KILN_WGMMA(224)
KILN_WGMMA(232) KILN_WGMMA(240) KILN_WGMMA(248) KILN_WGMMA(256)

// ---- asynchronous copies: of the thread that asks for them ----
template <unsigned BYTES> static inline void cp_async(void *to, const void *from, KILN_LINE) {
    kiln_emulated.copy(kiln_emulated.emulator, to, from, BYTES, line);
}
static inline void cp_async_commit() { kiln_emulated.commit(kiln_emulated.emulator); }
template <unsigned PENDING> static inline void cp_async_wait() {
    kiln_emulated.wait(kiln_emulated.emulator, PENDING);
}

// ---- tokens between threads: barriers with phases in shared memory ----
static inline void token_place(const void *p, unsigned arrivals, KILN_LINE) {
    kiln_emulated.token_place(kiln_emulated.emulator, p, arrivals, line);
}
static inline void token_push(const void *p, KILN_LINE) { kiln_emulated.token_push(kiln_emulated.emulator, p, 0, line); }
static inline void token_push_remote(const void *p, unsigned rank, KILN_LINE) {
    kiln_emulated.token_push_remote(kiln_emulated.emulator, p, rank, line);
}
static inline void token_push_all(const void *p, unsigned groups, KILN_LINE) {
    for (unsigned rank = 0; rank < groups; rank++) token_push_remote(p, rank, line);
}
static inline void cluster_sync(KILN_LINE) { kiln_emulated.cluster(kiln_emulated.emulator, line); }
static inline void token_push_copies(const void *p, KILN_LINE) {
    kiln_emulated.token_push(kiln_emulated.emulator, p, 1, line);
}
static inline void token_pop(const void *p, unsigned parity, KILN_LINE) {
    kiln_emulated.token_pop(kiln_emulated.emulator, p, parity, line);
}
static inline void token_pop_of_cluster(const void *p, unsigned parity, KILN_LINE) { token_pop(p, parity, line); }
static inline void token_expect(const void *p, unsigned bytes, KILN_LINE) {
    kiln_emulated.token_expect(kiln_emulated.emulator, p, bytes, line);
}
static inline void cp_async_bulk(void *to, const void *from, unsigned bytes, const void *token, KILN_LINE) {
    kiln_emulated.bulk_copy(kiln_emulated.emulator, to, from, bytes, token, line);
}
static inline void cp_async_bulk_multicast(void *to, const void *from, unsigned bytes, const void *token,
                                           unsigned mask, KILN_LINE) {
    kiln_emulated.multicast(kiln_emulated.emulator, to, from, bytes, token, mask, line);
}
typedef const emulate_map &tensor_map; // the host's calling convention passes pointers
#define __grid_constant__
template <unsigned RANK>
static inline void kiln_emulated_box(void *to, tensor_map map, const void *token, const int (&at)[RANK],
                                     unsigned mask, unsigned line) {
    if (map.rank != RANK) __builtin_trap();
    kiln_emulated.box_copy(kiln_emulated.emulator, to, &map, at, token, mask, line);
}
#define KILN_BOX(RANK, DECLARED, ...)                                                                        \
    static inline void cp_async_box##RANK(void *to, tensor_map map, const void *token, DECLARED, KILN_LINE) { \
        kiln_emulated_box<RANK>(to, map, token, {__VA_ARGS__}, 0, line);                                      \
    }                                                                                                        \
    template <unsigned MASK>                                                                                 \
    static inline void cp_async_box##RANK##_all(void *to, tensor_map map, const void *token, DECLARED,       \
                                                KILN_LINE) {                                                 \
        kiln_emulated_box<RANK>(to, map, token, {__VA_ARGS__}, MASK, line);                                   \
    }
#define KILN_AND ,
KILN_BOX(1, int x, x)
KILN_BOX(2, int x KILN_AND int y, x, y)
KILN_BOX(3, int x KILN_AND int y KILN_AND int z, x, y, z)
KILN_BOX(4, int x KILN_AND int y KILN_AND int z KILN_AND int u, x, y, z, u)
KILN_BOX(5, int x KILN_AND int y KILN_AND int z KILN_AND int u KILN_AND int v, x, y, z, u, v)
template <unsigned COUNT> static inline void registers_more(KILN_LINE) {
    kiln_emulated.registers(kiln_emulated.emulator, COUNT, line);
}
template <unsigned COUNT> static inline void registers_less(KILN_LINE) {
    kiln_emulated.registers(kiln_emulated.emulator, COUNT, line);
}
