/* The block emulator with clusters: blocks that fetch parts for each other, and what it has to
 * notice of them. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/test.h"

enum { PART = 16, STEPS = 5, CLUSTERS = 2, BLOCKS_MAX = 8, WARPS = 2 };

/* In each step each of N blocks fetches a part of PART floats, for all of them, and adds up all
 * parts, each with the step's number. Warp 0 fetches, warp 1 adds. The words in capitals are what
 * tests break. */
static const char share_text[] =
    "#ifndef BEGIN\n#define BEGIN cluster_sync()\n#endif\n"
    "#ifndef END\n#define END cluster_sync()\n#endif\n"
    "#ifndef EXPECTED\n#define EXPECTED N * 64\n#endif\n"
    "#ifndef RANKS\n#define RANKS N\n#endif\n"
    "#ifndef EARLY\n#define EARLY 0\n#endif\n"
    "#ifndef ARRIVALS\n#define ARRIVALS N\n#endif\n"
    "#ifndef EMPTY\n#define EMPTY empty + s * 8\n#endif\n"
    "#define STAGES 2\n"
    "static void give_back(const char *empty, unsigned s) {\n"
    "    for (unsigned r = 0; r < RANKS; r++) token_push_remote(EMPTY, r);\n"
    "}\n"
    "extern \"C\" __global__ void __cluster_dims__(N, 1, 1) share(const float *x, float *y) {\n"
    "    extern __shared__ __align__(16) char shared[];\n"
    "    const char *full = shared + STAGES * N * 64, *empty = full + STAGES * 8;\n"
    "    const unsigned rank = blockIdx.x % N, cluster = blockIdx.x / N;\n"
    "    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
    "    float sum[4] = {};\n"
    "    for (unsigned s = 0; s < STAGES && threadIdx.x == 0; s++) {\n"
    "        token_place(full + s * 8, 1); token_place(empty + s * 8, ARRIVALS);\n"
    "    }\n"
    "    BEGIN;\n"
    "    for (unsigned k = 0; k < 5; k++) {\n"
    "        const unsigned s = k % STAGES, phase = k / STAGES;\n"
    "        char *slot = shared + s * N * 64;\n"
    "        if (warp == 0) {\n"
    "            if (phase > 0) token_pop(empty + s * 8, phase - 1 & 1);\n"
    "            fence_async_shared();\n"
    "            if (lane == 0) {\n"
    "                token_expect(full + s * 8, EXPECTED);\n"
    "                cp_async_bulk_multicast(slot + rank * 64,\n"
    "                    x + ((cluster * 5 + k) * N + rank) * 16, 64, full + s * 8, (1 << N) - "
    "1);\n"
    "            }\n"
    "            token_push(full + s * 8);\n"
    "        } else {\n"
    "            token_pop(full + s * 8, phase & 1);\n"
    "            if (EARLY) give_back(empty, s);\n"
    "            for (unsigned i = lane, n = 0; i < N * 16; i += 32, n++)\n"
    "                sum[n] += ((const float *)slot)[i] * (k + 1);\n"
    "            if (!EARLY) give_back(empty, s);\n"
    "        }\n"
    "    }\n"
    "    for (unsigned i = lane, n = 0; warp == 1 && i < N * 16; i += 32, n++)\n"
    "        y[blockIdx.x * N * 16 + i] = sum[n];\n"
    "    END;\n"
    "}\n";

typedef struct shared_sums {
    float x[CLUSTERS * STEPS * BLOCKS_MAX * PART], y[CLUSTERS * BLOCKS_MAX * BLOCKS_MAX * PART];
} shared_sums;

static kiln_status run_share(uint32_t blocks, const char *definitions, shared_sums *sums,
                             kiln_arena *arena) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(sums->x); i++) sums->x[i] = (float)(i * 7 % 23);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(sums->y); i++) sums->y[i] = NAN;
    const emulate_block_launch launch = {.entry = "share",
                                         .grid = {CLUSTERS * blocks, 1, 1},
                                         .block = {WARPS * 32, 1, 1},
                                         .cluster = blocks,
                                         .shared_bytes = 2 * (blocks * 64 + 16),
                                         .arg = {sums->x, sums->y},
                                         .arg_count = 2};
    return emulate_text(
        kiln_arena_printf(arena, "#define N %u\n%s%s", (unsigned)blocks, definitions, share_text),
        &launch, arena);
}

static uint32_t count_wrong(const shared_sums *sums, uint32_t blocks) {
    const uint32_t width = blocks * PART;
    uint32_t wrong = 0;
    for (uint32_t block = 0; block < CLUSTERS * blocks; block++)
        for (uint32_t i = 0; i < width; i++) {
            float sum = 0;
            for (uint32_t k = 0; k < STEPS; k++)
                sum += sums->x[(block / blocks * STEPS + k) * width + i] * (float)(k + 1);
            wrong += sums->y[block * width + i] != sum;
        }
    return wrong;
}

static void blocks_of_a_cluster_fetch_for_each_other(void **state) {
    static shared_sums sums;
    for (uint32_t blocks = 1; blocks <= BLOCKS_MAX; blocks *= 2) {
        expect_ok(run_share(blocks, "", &sums, *state));
        assert_int_equal(count_wrong(&sums, blocks), 0);
    }
}

static void faults_of_clusters_are_noticed(void **state) {
    static const struct {
        const char *definitions, *error; /* NULL: results are wrong */
    } row[] = {
        {"#define BEGIN __syncthreads()\n",
         "no barrier of the cluster stands behind the making of the token"},
        {"#define END\n", "others reached its group's memory since the last barrier"},
        {"#define END if (rank) cluster_sync()\n",
         "others reached its group's memory since the last barrier"},
        {"#define EXPECTED 64\n", "a copy into its group's memory is under way"},
        {"#define EXPECTED N * 64 + 16\n", "the wait for a token"},
        {"#define RANKS 1\n", "the wait for a token"},
        {"#define RANKS 3\n", "the cluster has no such group"},
        {"#define ARRIVALS N + 1\n", "the wait for a token"},
        {"#define EMPTY (const char *)&s\n", "mapa takes addresses of shared memory"},
        {"#define EMPTY empty + 4 * 8\n", "mapa takes addresses of shared memory"},
        {"#define EARLY 1\n", NULL},
    };
    static shared_sums sums;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_status st = run_share(2, row[i].definitions, &sums, *state);
        if (row[i].error) {
            expect_error(st, FAILED_PRECONDITION, row[i].error);
            continue;
        }
        expect_ok(st);
        assert_true(count_wrong(&sums, 2) > 0);
    }
}

/* Small kernels, of two blocks in a cluster. */
#define KERNEL(BODY)                                                               \
    "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) k(const float *x) {\n" \
    "    extern __shared__ __align__(16) char shared[];\n"                         \
    "    const char *token = shared + 64;\n"                                       \
    "    if (threadIdx.x == 0) token_place(token, 1);\n"                           \
    "    cluster_sync();\n" BODY "}\n"

static void blocks_that_leave_early_are_noticed(void **state) {
    static const struct {
        const char *text, *error;
    } row[] = {
        {KERNEL("if (blockIdx.x == 1) token_push_remote(token, 0);\n"),
         "that group of the cluster has left"},
        {KERNEL("if (blockIdx.x == 0) token_push_remote(token, 1);\n"),
         "others reached its group's memory since the last barrier of the cluster"},
        {KERNEL("if (blockIdx.x == 1 && threadIdx.x == 0)\n"
                "    cp_async_bulk_multicast(shared, x, 64, token, 1);\n"),
         "that group of the cluster has left"},
        {KERNEL("if (blockIdx.x == 1 && threadIdx.x == 0)\n"
                "    cp_async_bulk_multicast(shared, x, 64, token, 1);\n"
                "cluster_sync();\n"),
         "a copy into its group's memory is under way"},
        {KERNEL("if (blockIdx.x == 0) cluster_sync();\n"),
         "a group of the cluster does not come to it"},
        {KERNEL("if (blockIdx.x == 1) cluster_sync();\n"),
         "a group of the cluster does not come to it"},
        {KERNEL("if (threadIdx.x < 32) cluster_sync(); else __syncthreads();\n"), "the barrier"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        float x[PART] = {0};
        const emulate_block_launch launch = {.entry = "k",
                                             .grid = {2, 1, 1},
                                             .block = {64, 1, 1},
                                             .cluster = 2,
                                             .shared_bytes = 72,
                                             .arg = {x},
                                             .arg_count = 1};
        expect_error(emulate_text(row[i].text, &launch, *state), FAILED_PRECONDITION, row[i].error);
    }
}

static void clusters_that_no_device_runs_are_refused(void **state) {
    static const struct {
        uint32_t grid, cluster;
    } row[] = {{3, 2}, {16, 16}};
    float x[PART] = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const emulate_block_launch launch = {.entry = "k",
                                             .grid = {row[i].grid, 1, 1},
                                             .block = {32, 1, 1},
                                             .cluster = row[i].cluster,
                                             .shared_bytes = 72,
                                             .arg = {x},
                                             .arg_count = 1};
        expect_error(emulate_text(KERNEL(""), &launch, *state), INVALID_ARGUMENT,
                     "a cluster has up to 8");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(blocks_of_a_cluster_fetch_for_each_other),
        test_with_arena(faults_of_clusters_are_noticed),
        test_with_arena(blocks_that_leave_early_are_noticed),
        test_with_arena(clusters_that_no_device_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
