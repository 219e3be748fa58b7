/* Kernels with tensor maps and clusters from the expression to the launch: what the compiler builds
 * is loaded and launched by the CUDA device on a driver without a GPU (tests/support/fake_cuda.h),
 * which checks the maps that it is to make. PTX is not run: a function of this file computes the
 * kernel's result, and finds the operands only through the maps that the kernel got. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "compiler-core/build.h"
#include "compiler-core/ir/eval.h"
#include "deploy/runtime/cuda.h"
#include "deploy/runtime/device.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/device_board.h"
#include "tests/unit/compiler-core/codegen/group_products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Columns of a box in one piece and in four; operands in both orders; two and three groups. */
static const group_product products[] = {
    {"f16", 64, 64, 256, 1, 64, false, false, 2, 2, 0},
    {"f16", 128, 256, 192, 2, 128, false, true, 3, 2, 0},
    {"bf16", 192, 64, 128, 3, 64, true, false, 4, 2, 0},
    {"f16", 128, 256, 128, 2, 256, true, true, 2, 2, 0},
};

static fake_cuda *fake;
static fake_cuda fresh;               /* as it was at the beginning */
static const group_product *computed; /* what the kernel computes */

static fake_cuda_map map_of(void *parameter) {
    fake_cuda_map map;
    memcpy(&map, parameter, sizeof map);
    return map;
}

static float element(const fake_cuda_map *map, int64_t column, int64_t row) {
    uint16_t bits;
    assert_true(map->rank == 2 && column < map->size[0] && row < map->size[1]);
    memcpy(&bits,
           (const char *)(uintptr_t)map->address + 2 * column + (int64_t)map->stride_bytes[0] * row,
           sizeof bits);
    return computed->type[0] == 'b' ? kiln_bf16_to_f32(bits) : kiln_f16_to_f32(bits);
}

static void multiply_by_maps(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    const group_product *p = computed;
    const fake_cuda_map x = map_of(parameter[3]), w = map_of(parameter[4]);
    float *y = *(float **)parameter[2];
    assert_int_equal(grid[0] * grid[1], p->m / (64 * p->groups) * (p->n / p->columns));
    assert_int_equal(group[0] * group[1] * group[2], 128 * (p->groups + 1));
    assert_int_equal(x.swizzle, KILN_CU_MAP_SWIZZLE_128B);
    assert_int_equal(w.type, KILN_CU_MAP_UINT16);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += (p->by_columns ? element(&x, i, k) : element(&x, k, i)) *
                       (p->by_rows ? element(&w, j, k) : element(&w, k, j));
            y[i * p->n + j] = sum;
        }
}

/* Each test begins with a driver as it came, and ends with nothing left of Kiln in it. */
static int set_up(void **state) {
    *fake = fresh;
    return arena_set_up(state);
}

static int tear_down(void **state) {
    arena_tear_down(state);
    if (fake->complaints) print_error("%s\n", fake->complaint);
    return fake->complaints + fake->contexts + fake->modules + fake->allocations ? -1 : 0;
}

/* Builds, loads, runs once, and compares with the expression. Values are small integers, so sums
 * are exact in any order. */
static void expect_result(kiln_program *te, const char *schedule, kiln_arena *arena) {
    kiln_device *device = NULL;
    kiln_target target;
    kiln_artefact artefact;
    kiln_tensor want[3], got[3];
    group_tensors(te, arena, want);
    group_tensors(te, arena, got);
    expect_ok(kiln_te_eval(te, want, 3));
    expect_ok(kiln_target_parse(KILN_STR("h200"), arena, &target));
    expect_ok(kiln_build_scheduled(te, KILN_STR("test"), group_scheduled(te, schedule), &target,
                                   arena, &artefact));
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, NULL, &device));
    expect_ok(run_on_device(device, &artefact, te, got, 1));
    kiln_device_close(device);
    assert_memory_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
}

static void kernels_get_maps_of_their_operands(void **state) {
    kiln_arena *arena = *state;
    fake->kernel[0].entry = "run_0", fake->kernel[0].run = multiply_by_maps;
    fake->kernel[FAKE_CUDA_KERNELS_MAX - 1].entry = NULL; /* of the same name */
    for (size_t i = 0; i < KILN_ARRAY_COUNT(products); i++) {
        computed = &products[i];
        expect_result(group_program(computed, arena), group_schedule(computed, arena), arena);
        assert_int_equal(fake->maps, 2 * (int)(i + 1));
        assert_int_equal(fake->launches, (int)(i + 1));
    }
}

/* ---- clusters -------------------------------------------------------------------------------- */

enum { ROWS = 24, COLUMNS = 48, STEPS = 20 };
static const char product[] = "program p\ninput x: f32[24, 20]\ninput w: f32[20, 48]\n"
                              "output y: f32[24, 48]\nblock mm(m:24, n:48 | k:20): "
                              "y[m, n] sum= x[m, k]*w[k, n]\n";
static int cluster;

static void multiply_in_clusters(const uint32_t grid[3], const uint32_t group[3],
                                 void **parameter) {
    const float *x = *(const float **)parameter[0], *w = *(const float **)parameter[1];
    float *y = *(float **)parameter[2];
    assert_int_equal(fake->launch_cluster, cluster);
    assert_int_equal(grid[0], 3 * cluster);
    assert_int_equal(group[0], 8);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        y[i] = 0;
        for (int k = 0; k < STEPS; k++)
            y[i] += x[i / COLUMNS * STEPS + k] * w[k * COLUMNS + i % COLUMNS];
    }
}

static void launches_are_made_in_clusters(void **state) {
    kiln_arena *arena = *state;
    fake->kernel[0].entry = "run_0", fake->kernel[0].run = multiply_in_clusters;
    fake->kernel[FAKE_CUDA_KERNELS_MAX - 1].entry = NULL;
    for (cluster = 1; cluster <= KILN_LAUNCH_CLUSTER_MAX; cluster *= 2)
        expect_result(parsed(arena, product),
                      kiln_arena_printf(arena,
                                        "split(mm.m, 3, 8)\nsplit(mm.n, 3, %d, %d)\n"
                                        "reorder(mm.m.0, mm.n.0, mm.n.1, mm.m.1, mm.n.2, mm.k)\n"
                                        "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\n"
                                        "bind(mm.n.1, \"cluster\")\nbind(mm.m.1, \"thread.x\")\n",
                                        cluster, 16 / cluster),
                      arena);
    assert_int_equal(fake->launches, 4);
    assert_int_equal(fake->maps, 0);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
    fresh = *fake;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_get_maps_of_their_operands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(launches_are_made_in_clusters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
