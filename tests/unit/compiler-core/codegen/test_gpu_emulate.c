/* The block emulator: each warp instruction against the vendor's description of its fragments, a
 * pipelined tile of tensor cores, and what it has to notice. Data are small integers, so that all
 * sums are exact. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/macros.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/test.h"

/* ---- instructions ---------------------------------------------------------------------------- */

#define M 16
#define N 8

/* Which element of a matrix of small integers. */
static int32_t number(uint32_t row, uint32_t col, uint32_t salt) {
    return (int32_t)((row * 7 + col * 5 + row * col * 3 + salt) % 15) - 7;
}

/* Puts a number into memory as an element of a type. */
static void put(kiln_dtype dtype, void *data, uint32_t at, int32_t value) {
    if (dtype == KILN_I8)
        ((int8_t *)data)[at] = (int8_t)value;
    else if (dtype == KILN_F32)
        ((float *)data)[at] = (float)value;
    else
        ((uint16_t *)data)[at] =
            dtype == KILN_F16 ? kiln_f32_to_f16((float)value) : kiln_f32_to_bf16((float)value);
}

/* Loads fragments as sections "Matrix Fragments for mma..." of the PTX ISA say, register by
 * register: with W elements in a word, register i of A is word tig + 4 * (i / 2) of row group + 8 *
 * (i % 2), that of B is word tig + 4 * i of column group, and c[i] is at row group + 8 * (i / 2),
 * column 2 * tig + i % 2. */
#define MMA_KERNEL(CALL, SUM, WORDS)                                                              \
    "typedef unsigned uint;\n"                                                                    \
    "extern \"C\" __global__ void k(const unsigned *a, const unsigned *b, const " SUM " *c, " SUM \
    " *d) {\n"                                                                                    \
    "    const unsigned group = threadIdx.x >> 2, tig = threadIdx.x % 4, row = " WORDS ";\n"      \
    "    const " SUM " *from = c + group * 8 + 2 * tig;\n"                                        \
    "    " SUM "4 x = " CALL "(a[group * row + tig], a[(group + 8) * row + tig],\n"               \
    "        a[group * row + tig + 4], a[(group + 8) * row + tig + 4],\n"                         \
    "        b[group * row + tig], b[group * row + tig + 4], from[0], from[1], from[64], "        \
    "from[65]);\n"                                                                                \
    "    " SUM " *to = d + group * 8 + 2 * tig;\n"                                                \
    "    to[0] = x.x; to[1] = x.y; to[64] = x.z; to[65] = x.w;\n"                                 \
    "}\n"

static void check_mma(kiln_arena *arena, const char *text, kiln_dtype dtype, uint32_t steps) {
    uint32_t a[M * 8], b[N * 8]; /* rows of steps; columns of steps */
    union {
        float f[M * N];
        int32_t i[M * N];
    } c, d;
    for (uint32_t k = 0; k < steps; k++) {
        for (uint32_t m = 0; m < M; m++) put(dtype, a, m * steps + k, number(m, k, 1));
        for (uint32_t n = 0; n < N; n++) put(dtype, b, n * steps + k, number(n, k, 4));
    }
    for (uint32_t i = 0; i < M * N; i++)
        if (dtype == KILN_I8)
            c.i[i] = number(i, 3, 0);
        else
            c.f[i] = (float)number(i, 3, 0);
    emulate_block_launch launch = {.entry = "k",
                                   .grid = {1, 1, 1},
                                   .block = {32, 1, 1},
                                   .arg = {a, b, &c, &d},
                                   .arg_count = 4};
    expect_ok(emulate_text(text, &launch, arena));
    for (uint32_t m = 0; m < M; m++)
        for (uint32_t n = 0; n < N; n++) {
            int32_t sum = number(m * N + n, 3, 0);
            for (uint32_t k = 0; k < steps; k++) sum += number(m, k, 1) * number(n, k, 4);
            if (dtype == KILN_I8)
                assert_int_equal(d.i[m * N + n], sum);
            else
                assert_true(d.f[m * N + n] == (float)sum);
        }
}

static void mma_multiplies_fragments_as_described(void **state) {
    check_mma(*state, MMA_KERNEL("mma_m16n8k16_f16", "float", "8"), KILN_F16, 16);
    check_mma(*state, MMA_KERNEL("mma_m16n8k16_bf16", "float", "8"), KILN_BF16, 16);
    check_mma(*state, MMA_KERNEL("mma_m16n8k8_tf32", "float", "8"), KILN_F32, 8);
    check_mma(*state, MMA_KERNEL("mma_m16n8k32_s8", "uint", "8"), KILN_I8, 32);
}

/* "Warp-level matrix load instruction: ldmatrix": thread 8 * i + r names row r of matrix i; each
 * thread gets elements 2 * (lane % 4) and the next one of row lane / 4 of each. */
static void ldmatrix_gives_rows_and_columns(void **state) {
    static const char text[] =
        "extern \"C\" __global__ void k(const unsigned short *m, unsigned *to) {\n"
        "    __shared__ __align__(16) unsigned short s[4 * 64];\n"
        "    const unsigned t = threadIdx.x;\n"
        "    for (unsigned i = t; i < 256; i += 32) s[i] = m[i];\n"
        "    __syncthreads();\n"
        "    const unsigned short *row = s + t * 8;\n"
        "    uint4 x = ldmatrix_x4(row), y = ldmatrix_trans_x4(row);\n"
        "    uint2 z = ldmatrix_x2(row), w = ldmatrix_trans_x2(row);\n"
        "    unsigned all[] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, w.x, w.y,\n"
        "                      ldmatrix_x1(row), ldmatrix_trans_x1(row)};\n"
        "    for (unsigned i = 0; i < 14; i++) to[i * 32 + t] = all[i];\n"
        "}\n";
    enum { ROWS = 14 };
    static const struct {
        uint8_t matrix, transposed;
    } want[ROWS] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {1, 1}, {2, 1},
                    {3, 1}, {0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}, {0, 1}};
    uint16_t m[4 * 64];
    uint32_t to[ROWS][32];
    for (uint32_t i = 0; i < 256; i++) m[i] = (uint16_t)(i * 3 + 1);
    emulate_block_launch launch = {
        .entry = "k", .grid = {1, 1, 1}, .block = {32, 1, 1}, .arg = {m, to}, .arg_count = 2};
    expect_ok(emulate_text(text, &launch, *state));
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t lane = 0; lane < 32; lane++) {
            const uint16_t *from = m + want[i].matrix * 64;
            const uint32_t r = lane / 4, c = lane % 4 * 2;
            const uint32_t low = want[i].transposed ? from[c * 8 + r] : from[r * 8 + c],
                           high = want[i].transposed ? from[(c + 1) * 8 + r] : from[r * 8 + c + 1];
            assert_int_equal(to[i][lane], high << 16 | low);
        }
}

static void shuffles_move_values_between_lanes(void **state) {
    static const char text[] = "extern \"C\" __global__ void k(float *to) {\n"
                               "    const unsigned t = threadIdx.x + 8 * threadIdx.y;\n"
                               "    to[t] = __shfl_xor_sync(0xffffffffu, (float)t, 5);\n"
                               "    to[64 + t] = __shfl_down_sync(0xffffffffu, (float)t, 16);\n"
                               "    to[128 + t] = __shfl_sync(0xffffffffu, (float)t, 3);\n"
                               "    float sum = 1;\n"
                               "    if (threadIdx.x < 4)\n"
                               "        sum += __shfl_xor_sync(0x0f0f0f0fu, (float)t, 1);\n"
                               "    to[192 + t] = sum;\n"
                               "}\n";
    float to[256];
    emulate_block_launch launch = {
        .entry = "k", .grid = {1, 1, 1}, .block = {8, 8, 1}, .arg = {to}, .arg_count = 1};
    expect_ok(emulate_text(text, &launch, *state));
    for (uint32_t t = 0; t < 64; t++) {
        assert_true(to[t] == (float)(t ^ 5));
        assert_true(to[64 + t] == (float)(t % 32 < 16 ? t + 16 : t));
        assert_true(to[128 + t] == (float)(t / 32 * 32 + 3));
        assert_true(to[192 + t] == (t % 8 < 4 ? 1 + (float)(t ^ 1) : 1));
    }
}

/* ---- a pipelined tile ------------------------------------------------------------------------ */

#define SIZE 128 /* of three square matrices */

/* Blocks of 64 x 64, four warps of 32 x 32, steps of 32 in STAGES buffers; rows of shared memory
 * are 40 halves apart, so that ldmatrix meets no bank twice. COMMIT and WAIT are what tests break.
 */
static const char tile_text[] =
    "#define STAGES 3\n"
    "#define PITCH 40\n"
    "typedef unsigned short half_bits;\n"
    "static __device__ void fetch(half_bits *to, const half_bits *from) {\n"
    "    for (unsigned i = threadIdx.x; i < 64 * 4; i += 128)\n"
    "        cp_async<16>(to + i / 4 * PITCH + i % 4 * 8, from + i / 4 * 128 + i % 4 * 8);\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(128)\n"
    "tile(const half_bits *__restrict__ a, const half_bits *__restrict__ b, float *__restrict__ c) "
    "{\n"
    "    extern __shared__ __align__(16) half_bits shared[];\n"
    "    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
    "    const unsigned row = blockIdx.y * 64, column = blockIdx.x * 64;\n"
    "    const unsigned wm = warp / 2 * 32, wn = warp % 2 * 32;\n"
    "    float4 sum[2][4] = {};\n"
    "    for (unsigned s = 0; s < STAGES - 1; s++) {\n"
    "        fetch(shared + s * 128 * PITCH, a + row * 128 + s * 32);\n"
    "        fetch(shared + (s * 128 + 64) * PITCH, b + column * 128 + s * 32);\n"
    "        cp_async_commit();\n"
    "    }\n"
    "    for (unsigned k = 0; k < 4; k++) {\n"
    "        cp_async_wait<WAIT>();\n"
    "        __syncthreads();\n"
    "        const unsigned next = k + STAGES - 1;\n"
    "        if (next < 4) {\n"
    "            half_bits *to = shared + next % STAGES * 128 * PITCH;\n"
    "            fetch(to, a + row * 128 + next * 32);\n"
    "            fetch(to + 64 * PITCH, b + column * 128 + next * 32);\n"
    "        }\n"
    "        COMMIT;\n"
    "        const half_bits *at = shared + k % STAGES * 128 * PITCH, *bt = at + 64 * PITCH;\n"
    "        for (unsigned kk = 0; kk < 32; kk += 16) {\n"
    "            uint4 fa[2], fb[2];\n"
    "            for (unsigned i = 0; i < 2; i++) {\n"
    "                fa[i] = ldmatrix_x4(at + (wm + i * 16 + lane % 16) * PITCH + kk + lane / 16 * "
    "8);\n"
    "                fb[i] = ldmatrix_x4(bt + (wn + i * 16 + lane / 16 * 8 + lane % 8) * PITCH + "
    "kk + "
    "lane / 8 % 2 * 8);\n"
    "            }\n"
    "            for (unsigned i = 0; i < 2; i++)\n"
    "                for (unsigned j = 0; j < 4; j++) {\n"
    "                    const uint4 x = fa[i], y = fb[j / 2];\n"
    "                    float4 &s = sum[i][j];\n"
    "                    s = mma_m16n8k16_f16(x.x, x.y, x.z, x.w, j % 2 ? y.z : y.x, j % 2 ? y.w : "
    "y.y,\n"
    "                                         s.x, s.y, s.z, s.w);\n"
    "                }\n"
    "        }\n"
    "    }\n"
    "    for (unsigned i = 0; i < 2; i++)\n"
    "        for (unsigned j = 0; j < 4; j++) {\n"
    "            float *to = c + (row + wm + i * 16 + lane / 4) * 128 + column + wn + j * 8 + lane "
    "% 4 * 2;\n"
    "            *(float2 *)to = float2{sum[i][j].x, sum[i][j].y};\n"
    "            *(float2 *)(to + 8 * 128) = float2{sum[i][j].z, sum[i][j].w};\n"
    "        }\n"
    "}\n";

/* How many of c's elements are not the product's. */
static uint32_t wrong_of_tile(kiln_arena *arena, const char *definitions) {
    static uint16_t a[SIZE * SIZE], b[SIZE * SIZE]; /* b: columns, each of all steps */
    static float c[SIZE * SIZE];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < SIZE * SIZE; i++) {
        a[i] = kiln_f32_to_f16((float)number(i / SIZE, i % SIZE, 2));
        b[i] = kiln_f32_to_f16((float)number(i / SIZE, i % SIZE, 9));
        c[i] = NAN;
    }
    emulate_block_launch launch = {.entry = "tile",
                                   .grid = {2, 2, 1},
                                   .block = {128, 1, 1},
                                   .shared_bytes = (size_t)3 * 128 * 40 * 2,
                                   .arg = {a, b, c},
                                   .arg_count = 3};
    expect_ok(
        emulate_text(kiln_arena_printf(arena, "%s%s", definitions, tile_text), &launch, arena));
    for (uint32_t m = 0; m < SIZE; m++)
        for (uint32_t n = 0; n < SIZE; n++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < SIZE; k++) sum += number(m, k, 2) * number(n, k, 9);
            wrong += c[m * SIZE + n] != (float)sum;
        }
    return wrong;
}

static void a_pipelined_tile_is_exact(void **state) {
    assert_int_equal(wrong_of_tile(*state, "#define WAIT 1\n#define COMMIT cp_async_commit()\n"),
                     0);
}

static void a_wait_too_late_is_noticed(void **state) {
    assert_int_equal(wrong_of_tile(*state, "#define WAIT 2\n#define COMMIT cp_async_commit()\n"),
                     SIZE * SIZE);
}

static void a_missing_commit_is_noticed(void **state) {
    assert_int_equal(wrong_of_tile(*state, "#define WAIT 1\n#define COMMIT\n"), SIZE * SIZE);
}

/* ---- warp groups ----------------------------------------------------------------------------- */

/* A product of 64 x 64 in steps of 64, with a slot for each parity; rows of 128 bytes, whose units
 * are exchanged. FETCH_INTO and WAIT_BEFORE are what tests break. */
static const char group_text[] =
    "typedef unsigned short half_bits;\n"
    "static void fetch(char *to, const half_bits *from) {\n"
    "    for (unsigned i = threadIdx.x; i < 64 * 8; i += 128) {\n"
    "        const unsigned row = i / 8, unit = i % 8;\n"
    "        for (unsigned e = 0; e < 8; e++)\n"
    "            ((half_bits *)(to + row * 128 + (unit ^ row % 8) * 16))[e] = from[row * 256 + "
    "unit * "
    "8 + e];\n"
    "    }\n"
    "}\n"
    "#define SUMS(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7), X(8), X(9), X(10), X(11), "
    "X(12), X(13), X(14), \\\n"
    "    X(15), X(16), X(17), X(18), X(19), X(20), X(21), X(22), X(23), X(24), X(25), X(26), "
    "X(27), "
    "X(28), X(29), X(30), X(31)\n"
    "#define SUM(I) d[I]\n"
    "extern \"C\" __global__ void group(const half_bits *a, const half_bits *b, float *c) {\n"
    "    extern __shared__ __align__(1024) char shared[];\n"
    "    float d[32] = {};\n"
    "    fetch(shared, a); fetch(shared + 8192, b);\n"
    "    for (unsigned k = 0; k < 4; k++) {\n"
    "        const char *at = shared + k % 2 * 16384;\n"
    "        fence_async_shared(); __syncthreads();\n"
    "        wgmma_fence();\n"
    "        for (unsigned s = 0; s < 4; s++)\n"
    "            wgmma_m64n64k16_f16<0, 0>(shared_matrix(at + s * 32, 0x4000004000010000ull),\n"
    "                shared_matrix(at + 8192 + s * 32, 0x4000004000010000ull), SUMS(SUM));\n"
    "        wgmma_commit();\n"
    "        if (WAIT_BEFORE) wgmma_wait<0>();\n"
    "        if (k < 3) {\n"
    "            fetch(shared + FETCH_INTO * 16384, a + (k + 1) * 64);\n"
    "            fetch(shared + FETCH_INTO * 16384 + 8192, b + (k + 1) * 64);\n"
    "        }\n"
    "        if (!WAIT_BEFORE) wgmma_wait<0>();\n"
    "    }\n"
    "    for (unsigned i = 0; i < 32; i++)\n"
    "        c[(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 +\n"
    "          threadIdx.x % 4 * 2 + i % 2] = d[i];\n"
    "}\n";

static uint32_t wrong_of_group(kiln_arena *arena, const char *definitions) {
    enum { ROWS = 64, STEPS = 256 };
    static uint16_t a[ROWS * STEPS], b[ROWS * STEPS];
    static float c[ROWS * ROWS];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < ROWS * STEPS; i++) {
        a[i] = kiln_f32_to_f16((float)number(i / STEPS, i % STEPS, 2));
        b[i] = kiln_f32_to_f16((float)number(i / STEPS, i % STEPS, 9));
    }
    emulate_block_launch launch = {.entry = "group",
                                   .grid = {1, 1, 1},
                                   .block = {128, 1, 1},
                                   .shared_bytes = (size_t)4 * 8192,
                                   .arg = {a, b, c},
                                   .arg_count = 3};
    expect_ok(
        emulate_text(kiln_arena_printf(arena, "%s%s", definitions, group_text), &launch, arena));
    for (uint32_t m = 0; m < ROWS; m++)
        for (uint32_t n = 0; n < ROWS; n++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < STEPS; k++) sum += number(m, k, 2) * number(n, k, 9);
            wrong += c[m * ROWS + n] != (float)sum;
        }
    return wrong;
}

/* Operands are read when they are waited for: what is fetched into the other slot before that does
 * no harm, into the same one it does. */
static void a_slot_that_is_freed_early_is_noticed(void **state) {
    static const char other[] = "#define WAIT_BEFORE 0\n#define FETCH_INTO ((k + 1) % 2)\n",
                      same[] = "#define WAIT_BEFORE 0\n#define FETCH_INTO (k % 2)\n";
    assert_int_equal(wrong_of_group(*state, other), 0);
    assert_true(wrong_of_group(*state, same) > 3000);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void expect_fault(kiln_arena *arena, const char *body, uint32_t threads,
                         const char *needle) {
    float data[2048] = {0};
    emulate_block_launch launch = {.entry = "k",
                                   .grid = {2, 1, 1},
                                   .block = {threads, 1, 1},
                                   .shared_bytes = 256,
                                   .arg = {data},
                                   .arg_count = 1};
    const char *text = kiln_arena_printf(arena,
                                         "extern \"C\" __global__ void k(float *data) {\n"
                                         "extern __shared__ __align__(16) float shared[];\n"
                                         "%s\n}\n",
                                         body);
    expect_error(emulate_text(text, &launch, arena), FAILED_PRECONDITION, needle);
}

static void divergence_is_an_error(void **state) {
    expect_fault(*state, "if (threadIdx.x < 40) __syncthreads();", 64,
                 "block (0, 0, 0): thread (40, 0, 0) has ended: thread (0, 0, 0) is at the barrier "
                 "of line 3");
    expect_fault(*state, "if (threadIdx.x % 2) __syncthreads();\nelse __syncthreads();", 64,
                 "thread (1, 0, 0) is at the barrier of line 3: thread (0, 0, 0) is at the barrier "
                 "of line 4");
    expect_fault(*state, "if (threadIdx.x < 31) data[0] = __shfl_sync(0xffffffffu, 1.0f, 0);\n", 32,
                 "shfl.sync");
    expect_fault(*state, "if (blockIdx.x == 1 && threadIdx.x) __syncthreads();", 2,
                 "block (1, 0, 0)");
    expect_fault(*state, "data[0] = mma_m16n8k16_f16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0).x;", 16,
                 "it takes all 32 threads of a warp");
    expect_fault(*state, "if (threadIdx.x < 64) wgmma_wait<0>();", 128,
                 "thread (0, 0, 0) is at wgmma.wait_group of line 3");
    expect_fault(*state, "data[0] = __shfl_sync(0x3u << threadIdx.x / 2 * 2, 1.0f, 5);", 32,
                 "one that does not take part");
}

static void memory_is_checked(void **state) {
    expect_fault(*state, "shared[64 + threadIdx.x] = 1;", 2, "behind its shared memory");
    expect_fault(
        *state,
        "cp_async<16>(shared + 4, data + 1 + (unsigned)((unsigned long)data / 4 % 4 == 3));", 1,
        "cp.async copies 4, 8 or 16 bytes");
    expect_fault(*state, "data[0] = ldmatrix_x1((char *)shared + 2);", 32,
                 "not aligned to 16 bytes");
}

/* Of block and thread alike: it is NaN before it is written, also where the block before wrote it.
 */
static void shared_memory_begins_as_nan(void **state) {
    static const char text[] =
        "extern \"C\" __global__ void k(float *data) {\n"
        "    extern __shared__ __align__(16) float dynamic[];\n"
        "    __shared__ float fixed[4];\n"
        "    data[blockIdx.x * 2] = dynamic[0]; data[blockIdx.x * 2 + 1] = fixed[3];\n"
        "    dynamic[0] = 1; fixed[3] = 2;\n"
        "}\n";
    float data[4] = {0};
    emulate_block_launch launch = {.entry = "k",
                                   .grid = {2, 1, 1},
                                   .block = {1, 1, 1},
                                   .shared_bytes = 16,
                                   .arg = {data},
                                   .arg_count = 1};
    expect_ok(emulate_text(text, &launch, *state));
    for (uint32_t i = 0; i < 4; i++) assert_true(isnan(data[i]));
    launch.entry = "other";
    expect_error(emulate_text(text, &launch, *state), NOT_FOUND, "no kernel other");
    expect_error(emulate_text("no C++", &launch, *state), INVALID_ARGUMENT, "kernel.cc:1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(mma_multiplies_fragments_as_described),
        test_with_arena(ldmatrix_gives_rows_and_columns),
        test_with_arena(shuffles_move_values_between_lanes),
        test_with_arena(a_pipelined_tile_is_exact),
        test_with_arena(a_wait_too_late_is_noticed),
        test_with_arena(a_missing_commit_is_noticed),
        test_with_arena(a_slot_that_is_freed_early_is_noticed),
        test_with_arena(divergence_is_an_error),
        test_with_arena(memory_is_checked),
        test_with_arena(shared_memory_begins_as_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
