/* Launches whose groups are in clusters: CUDA C run by the block emulator, PTX, and what NVIDIA's
 * assembler says of it where it is installed. */
#include <string.h>

#include "compiler-core/ir/eval.h"
#include "deploy/runtime/cuda_check.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/group_products.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static const char product[] = "program p\ninput x: f32[24, 20]\ninput w: f32[20, 48]\n"
                              "output y: f32[24, 48]\nblock mm(m:24, n:48 | k:20): "
                              "y[m, n] sum= x[m, k]*w[k, n]\n";

/* 3 x 3 clusters of `cluster` groups, which lie along n; each group has its own rows of x. */
static const char *schedule_of(int cluster, kiln_arena *arena) {
    return kiln_arena_printf(
        arena,
        "cache_read(mm, x, \"shared\")\ncache_write(mm, \"register\")\n"
        "split(mm.m, 3, 8)\nsplit(mm.n, 3, %d, %d)\n"
        "reorder(mm.m.0, mm.n.0, mm.n.1, mm.m.1, mm.k, mm.n.2)\n"
        "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\nbind(mm.n.1, \"cluster\")\n"
        "bind(mm.m.1, \"thread.x\")\nunroll(mm.n.2)\n"
        "decompose_reduction(mm, mm.k)\n"
        "compute_at(x.read, mm.n.1)\nbind(x.read.d0, \"thread.x\")\n"
        "reverse_compute_at(mm.write, mm.n.1)\nbind(mm.write.m, \"thread.x\")\n"
        "unroll(mm.write.n)\n",
        cluster, 16 / cluster);
}

/* The lowered program, and its CUDA C in the emulator, compute what the expression does. */
static const char *expect_meaning(kiln_program *te, const char *schedule, kiln_arena *arena,
                                  kiln_lowered *lowered) {
    kiln_tensor want[3], low[3], got[3];
    group_tensors(te, arena, want);
    group_tensors(te, arena, low);
    group_tensors(te, arena, got);
    kiln_str text = group_text(group_scheduled(te, schedule), "cuda", arena, lowered);
    expect_ok(kiln_te_eval(te, want, 3));
    expect_ok(kiln_loop_eval(lowered->run, low, 3));
    expect_ok(group_emulate(text, &lowered->run_launches.launch[0], got, arena));
    assert_memory_equal(low[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
    assert_memory_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
    return kiln_str_dup(arena, text);
}

static void emulated_clusters_equal_the_interpreter(void **state) {
    kiln_arena *arena = *state;
    for (int cluster = 1; cluster <= 8; cluster *= 2) {
        kiln_lowered lowered;
        const char *text =
            expect_meaning(parsed(arena, product), schedule_of(cluster, arena), arena, &lowered);
        const char *word = kiln_arena_printf(arena, "void __cluster_dims__(%d, 1, 1) ", cluster);
        assert_int_equal(lowered.run_launches.launch[0].grid_size[0], 3 * cluster);
        assert_int_equal(occurrences(text, word), cluster > 1);
        assert_int_equal(occurrences(text, "__cluster_dims__"), cluster > 1);
    }
}

/* Rows of blocks are block.x, and the two columns of each a cluster. */
static const group_product warp_groups = {"f16", 128, 128, 192, 1, 64, false, true, 3, 1, 0};

/* Its launch says how many groups are on a unit. */
static const group_product moves_registers = {"f16", 256, 512, 512, 2, 256, false, false, 4, 1, 0};

static const char *clustered(const group_product *x, kiln_arena *arena) {
    kiln_str text = kiln_str_from(group_schedule(x, arena));
    text = replaced(text, "\"block.x\"", "\"cluster\"", arena);
    return kiln_str_dup(arena, replaced(text, "\"block.y\"", "\"block.x\"", arena));
}

static void warp_groups_with_producers_run_in_clusters(void **state) {
    kiln_arena *arena = *state;
    kiln_lowered lowered;
    kiln_program *te = group_program(&warp_groups, arena);
    expect_meaning(te, clustered(&warp_groups, arena), arena, &lowered);
    assert_int_equal(lowered.run_launches.launch[0].grid_size[0], 4);
    assert_int_equal(lowered.run_launches.launch[0].cluster, 2);
}

static void ptx_names_the_cluster(void **state) {
    kiln_arena *arena = *state;
    kiln_lowered lowered;
    kiln_ptxas_report report;
    for (int cluster = 1; cluster <= 8; cluster *= 2) {
        kiln_str ptx =
            group_text(group_scheduled(parsed(arena, product), schedule_of(cluster, arena)), NULL,
                       arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        const char *word = kiln_arena_printf(arena, ".reqnctapercluster %d, 1, 1", cluster);
        assert_int_equal(occurrences(text, word), cluster > 1);
        assert_int_equal(occurrences(text, ".explicitcluster"), cluster > 1);
        (void)group_assembled(ptx, arena, &report);
    }
    static const group_product *const row[] = {&warp_groups, &moves_registers};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *te = group_program(row[i], arena);
        kiln_str ptx =
            group_text(group_scheduled(te, clustered(row[i], arena)), NULL, arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        expect_contains(text, ".reqnctapercluster 2, 1, 1");
        assert_int_equal(occurrences(text, ".minnctapersm 1"), row[i] == &moves_registers);
        (void)group_assembled(ptx, arena, &report);
    }
}

/* As a board reads it, which also compares it with what the PTX says. */
static void the_manifest_names_the_cluster(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, "cuda:sm_90a");
    for (int cluster = 1; cluster <= 2; cluster++) {
        kiln_artefact made, read;
        kiln_strbuf bytes = {0};
        expect_ok(
            compile_scheduled(group_scheduled(parsed(arena, product), schedule_of(cluster, arena)),
                              &target, 2, arena, &made));
        kiln_artefact_encode(&made, &bytes);
        expect_ok(kiln_artefact_decode(kiln_strbuf_view(&bytes), arena, &read));
        assert_int_equal(read.manifest.launch[0].grid[0], 3 * cluster);
        assert_int_equal(KILN_MAX(read.manifest.launch[0].cluster, 1), cluster);
        expect_ok(kiln_cuda_check(&read, &target));
        kiln_strbuf_deinit(&bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(emulated_clusters_equal_the_interpreter),
        test_with_arena(warp_groups_with_producers_run_in_clusters),
        test_with_arena(ptx_names_the_cluster),
        test_with_arena(the_manifest_names_the_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
