/* Fetches of a producer that are boxes of tensor maps: what is found to be one, with which map;
 * CUDA C run by the block emulator, and what that notices; PTX, and what NVIDIA's assembler says of
 * it where it is installed. */
#include <string.h>

#include "compiler-core/ir/eval.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
#include "tests/unit/compiler-core/codegen/group_products.h"
#include "tests/unit/compiler-core/codegen/products.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Columns in one piece of 64 and in four; both operands in both orders; edges of the grid. */
static const group_product products[] = {
    {"f16", 64, 64, 256, 1, 64, false, false, 2, 2, 0},
    {"f16", 128, 128, 192, 2, 128, false, true, 3, 2, 0},
    {"bf16", 192, 64, 128, 3, 64, true, false, 4, 2, 0},
    {"f16", 128, 256, 128, 2, 256, true, true, 2, 2, 0},
};
/* Two and four groups that read the same columns: in rows of steps, and in pieces of 64 columns. */
static const group_product clusters[] = {
    {"f16", 128, 64, 256, 1, 64, false, false, 2, 2, 2},
    {"f16", 256, 128, 128, 2, 128, false, true, 2, 2, 2},
    {"bf16", 256, 64, 128, 1, 64, true, false, 4, 2, 4},
};
/* What a device is to get. */
static const group_product large = {"f16", 256, 512, 512, 2, 256, false, false, 4, 2, 0};

static kiln_str text_of(const group_product *x, const char *backend, kiln_arena *arena,
                        kiln_lowered *lowered) {
    return group_text(group_scheduled(group_program(x, arena), group_schedule(x, arena)), backend,
                      arena, lowered);
}

static void emulated_products_equal_the_interpreter(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(products); i++)
        group_expect_product(&products[i], "cp_async_box2(");
}

static void emulated_clusters_equal_the_interpreter(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(clusters); i++)
        group_expect_product(&clusters[i], "cp_async_box2_all<");
}

/* Rows of w lie behind one another: 256 columns are four pieces of 64. */
static void maps_say_what_is_read(void **state) {
    kiln_arena *arena = *state;
    const group_product x = {"f16", 128, 512, 192, 2, 256, false, true, 3, 2, 0};
    kiln_lowered lowered;
    (void)text_of(&x, NULL, arena, &lowered);
    const kiln_launch *l = &lowered.run_launches.launch[0];
    assert_int_equal(l->box_count, 2);
    assert_int_equal(l->map_count, 2);
    assert_true(l->boxes_alone);
    const kiln_manifest_map *a = &l->map[0], *b = &l->map[1];
    assert_int_equal(a->arg, 0);
    assert_int_equal(b->arg, 1);
    const kiln_manifest_map want[] = {
        {.size = {192, 128}, .stride_bytes = {2, 384}, .box = {64, 128}},
        {.size = {512, 192}, .stride_bytes = {2, 1024}, .box = {64, 64}}};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(l->map[i].rank, 2);
        assert_int_equal(l->map[i].dtype, KILN_F16);
        assert_true(l->map[i].is_permuted);
        assert_memory_equal(l->map[i].size, want[i].size, sizeof want[i].size);
        assert_memory_equal(l->map[i].stride_bytes, want[i].stride_bytes,
                            sizeof want[i].stride_bytes);
        assert_memory_equal(l->map[i].box, want[i].box, sizeof want[i].box);
    }
    assert_int_equal(l->box[0].piece_count, 1);
    assert_int_equal(l->box[1].piece_count, 4);
    assert_int_equal(l->box[1].piece_bytes, 64 * 128);
}

/* ---- PTX ------------------------------------------------------------------------------------- */

static void ptx_has_maps_and_one_thread_that_fetches(void **state) {
    kiln_arena *arena = *state;
    kiln_ptxas_report report;
    for (uint32_t i = 0; i <= KILN_ARRAY_COUNT(products); i++) {
        const group_product *x = i < KILN_ARRAY_COUNT(products) ? &products[i] : &large;
        kiln_lowered lowered;
        kiln_str ptx = text_of(x, NULL, arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        const kiln_launch *l = &lowered.run_launches.launch[0];
        assert_int_equal(occurrences(text, ".param .align 64 .b8 run_0_param_"), 2);
        assert_int_equal(occurrences(text, "cvta.param.u64"), 2);
        assert_int_equal(occurrences(text, "cp.async.bulk.tensor.2d.shared::cluster.global.tile"),
                         l->box[0].piece_count + l->box[1].piece_count);
        assert_int_equal(occurrences(text, "mbarrier.expect_tx"), 2);
        assert_int_equal(occurrences(text, "cp.async.cg"), 0);
        (void)group_assembled(ptx, arena, &report);
    }
}

static void ptx_of_clusters_copies_for_all_groups(void **state) {
    kiln_arena *arena = *state;
    kiln_ptxas_report report;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(clusters); i++) {
        const group_product *x = &clusters[i];
        kiln_lowered lowered;
        kiln_str ptx = text_of(x, NULL, arena, &lowered);
        const char *text = kiln_str_dup(arena, ptx);
        const kiln_launch *l = &lowered.run_launches.launch[0];
        assert_true(l->has_shared_boxes);
        assert_false(l->box[0].is_shared);
        assert_true(l->box[1].is_shared);
        assert_int_equal(l->box[1].part_bytes * (uint64_t)x->cluster, l->box[1].piece_bytes);
        assert_int_equal(occurrences(text, ".multicast::cluster"), l->box[1].piece_count);
        assert_int_equal(occurrences(text, "mapa.shared::cluster"), 1 + l->token_slots);
        (void)group_assembled(ptx, arena, &report);
    }
}

/* The same of CUDA C, by clang: its assembly is what NVIDIA's assembler takes. */
static void cuda_text_has_maps(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const group_product *const product[] = {&large, &clusters[1]};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_lowered lowered;
        kiln_ptxas_report report;
        kiln_str ptx =
            compile_cuda(text_of(product[i], "cuda", arena, &lowered), "sm_90a", folder, arena);
        expect_contains(kiln_str_dup(arena, ptx),
                        "cp.async.bulk.tensor.2d.shared::cluster.global.tile");
        (void)group_assembled(ptx, arena, &report);
    }
    remove_folder(folder);
}

/* ---- faults ---------------------------------------------------------------------------------- */

typedef struct fault {
    const char *what, *instead, *error; /* NULL: results are wrong */
} fault;

static kiln_str spoil(kiln_str text, const void *what, kiln_arena *arena) {
    const fault *f = what;
    const char *all = kiln_str_dup(arena, text), *kernel = strstr(all, "extern \"C\"");
    kiln_str spoilt = replaced(kiln_str_from(kernel), f->what, f->instead, arena);
    return kiln_str_from(
        kiln_arena_printf(arena, "%.*s%.*s", (int)(kernel - all), all, KILN_STR_ARG(spoilt)));
}

static void the_emulator_notices_faults(void **state) {
    static const fault row[] = {
        {", 8192);", ", 8176);", "more bytes land than the token expects"},
        {", 8192);", ", 8208);", "the wait for a token"},
        {"token_expect(", "(void)(", "more bytes land than the token expects"},
        {", 2);\n", ", 256);\n", "the wait for a token"}, /* arrivals of one thread of a producer */
        {"fence_async_shared();", "", "no fence.proxy.async stands behind the token"},
        {", map0,", ", map1,", NULL},
        {"cp_async_box2((char *)", "cp_async_box2(64 + (char *)",
         "is not aligned in shared memory"},
    };
    static const fault of_cluster[] = {
        {"_all<3>(", "_all<1>(", "the wait for a token"},
        {"token_push_all(", "token_push(", "the wait for a token"},
        {"cluster_sync();", "", "no barrier of the cluster stands behind"},
    };
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        group_expect_fault(&products[0], spoil, &row[i], row[i].error);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(of_cluster); i++)
        group_expect_fault(&clusters[0], spoil, &of_cluster[i], of_cluster[i].error);
}

/* ---- what is no box -------------------------------------------------------------------------- */

/* The launch that lowering makes of the schedule with one of its parts replaced. */
static kiln_launch launch_with(const char *part, const char *instead, kiln_arena *arena) {
    const group_product *x = &products[0];
    kiln_lowered lowered;
    kiln_str text = replaced(kiln_str_from(group_schedule(x, arena)), part, instead, arena);
    kiln_program *p = group_scheduled(group_program(x, arena), kiln_str_dup(arena, text));
    kiln_target target = target_of(arena, "cuda:sm_90a");
    expect_ok(kiln_lower(p, &target, arena, &lowered));
    return lowered.run_launches.launch[0];
}

/* One in another order in shared memory, so that all threads of the producer fetch; both so; one in
 * plain rows. */
static void other_fetches_are_copied_by_all_threads(void **state) {
    kiln_arena *arena = *state;
    const kiln_launch one = launch_with("swizzle(x.read, 0, 8, 8, 1)",
                                        "swizzle(x.read, 0, 4, 8, 1)", arena),
                      none = launch_with(", 8, 8, 1)", ", 4, 8, 1)", arena),
                      rows = launch_with("swizzle(x.read, 0, 8, 8, 1)\n", "", arena);
    assert_int_equal(one.box_count, 1);
    assert_int_equal(one.map[0].arg, 1);
    assert_false(one.boxes_alone);
    assert_int_equal(none.box_count, 0);
    assert_int_equal(rows.box_count, 2);
    assert_false(rows.map[0].is_permuted);
}

/* A product by threads alone, whose operands lie in rows as they are, and one of them is a temp
 * between two launches. */
#define ROWS                                                                                    \
    "split(h.m, 64, 1)\nbind(h.m.0, \"block.x\")\n"                                             \
    "cache_read(mm, h, \"shared\")\ncache_read(mm, w, \"shared\")\n"                            \
    "cache_write(mm, \"register\")\nsplit(mm.m, 2, 4, 8)\nsplit(mm.n, 32, 4)\n"                 \
    "split(mm.k, 4, 32)\n"                                                                      \
    "reorder(mm.m.0, mm.k.0, mm.m.1, mm.n.0, mm.k.1, mm.m.2, mm.n.1)\n"                         \
    "bind(mm.m.0, \"block.x\")\nbind(mm.m.1, \"thread.y\")\nbind(mm.n.0, \"thread.x\")\n"       \
    "decompose_reduction(mm, mm.k.0)\nunroll(mm.m.2)\nunroll(mm.n.1)\nunroll(mm.init.m.2)\n"    \
    "unroll(mm.init.n.1)\ncompute_at(h.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"             \
    "reverse_compute_at(mm.write, mm.m.0)\nsplit(mm.write.m, 4, 8)\nsplit(mm.write.n, 32, 4)\n" \
    "reorder(mm.write.m.0, mm.write.n.0, mm.write.m.1, mm.write.n.1)\n"                         \
    "bind(mm.write.m.0, \"thread.y\")\nbind(mm.write.n.0, \"thread.x\")\n"                      \
    "unroll(mm.write.m.1)\nvectorize(mm.write.n.1)\nbind(h.read.d0, \"thread.x\")\n"            \
    "vectorize(h.read.d1)\nbind(w.read.d0, \"thread.x\")\n"                                     \
    "pipeline(mm.k.0, 3)\nproducer(mm.k.0, 2)\n"

static void rows_and_temps_between_launches_are_boxes(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te =
        parsed(arena, "program p\ninput x: f32[64, 128]\ninput w: f32[128, 128]\n"
                      "output y: f32[64, 128]\ntemp h: f32[64, 128]\n"
                      "block h(m:64, k:128): h[m, k] = x[m, k] + 1.0\n"
                      "block mm(m:64, n:128 | k:128): y[m, n] sum= h[m, k]*w[k, n]\n");
    kiln_target target = target_of(arena, "cuda:sm_90");
    kiln_tensor want[3], got[3];
    kiln_program *p = group_scheduled(te, ROWS);
    const char *text;
    group_tensors(te, arena, want);
    group_tensors(te, arena, got);
    expect_ok(kiln_te_eval(te, want, 3));
    expect_ok(emulate_scheduled(p, &target, got, 3, arena, &text));
    assert_memory_equal(got[2].data, want[2].data, kiln_tensor_bytes(&want[2]));
    assert_int_equal(occurrences(text, "cp_async_box2((char *)"), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(maps_say_what_is_read),
        test_with_arena(ptx_has_maps_and_one_thread_that_fetches),
        test_with_arena(cuda_text_has_maps),
        test_with_arena(emulated_clusters_equal_the_interpreter),
        test_with_arena(emulated_products_equal_the_interpreter),
        test_with_arena(ptx_of_clusters_copies_for_all_groups),
        test_with_arena(the_emulator_notices_faults),
        test_with_arena(other_fetches_are_copied_by_all_threads),
        test_with_arena(rows_and_temps_between_launches_are_boxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
