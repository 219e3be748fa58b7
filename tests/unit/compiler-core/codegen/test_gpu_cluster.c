/* Launches whose groups are in clusters: CUDA C run by the block emulator, PTX, and what NVIDIA's
 * assembler says of it where it is installed. */
#include <llvm-c/TargetMachine.h>
#include <string.h>

#include "compiler-core/codegen/llvm_builder.h"
#include "compiler-core/ir/eval.h"
#include "deploy/runtime/cuda_check.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/c_compile.h"
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
static const group_product moves_registers = {"f16", 256, 512, 512, 2, 256, false, false, 4, true};

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

/* ---- instructions of clusters ---------------------------------------------------------------- */

static void expect_instructions(kiln_str ptx, kiln_arena *arena) {
    static const char *const word[] = {
        "fence.mbarrier_init.release.cluster;",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.wait.acquire.aligned;",
        "mapa.shared::cluster.u32 ",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, ",
    };
    kiln_ptxas_report report;
    const char *text = kiln_str_dup(arena, ptx);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(word); i++)
        assert_int_equal(occurrences(text, word[i]), 1);
    (void)group_assembled(ptx, arena, &report);
}

static kiln_str ptx_of_module(LLVMModuleRef module, const kiln_llvm_machine *m, kiln_arena *arena) {
    LLVMTargetRef target;
    LLVMMemoryBufferRef buffer;
    char *message = NULL;
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    assert_false(LLVMGetTargetFromTriple(m->triple, &target, &message));
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(target, m->triple, m->cpu, m->features, LLVMCodeGenLevelDefault,
                                LLVMRelocDefault, LLVMCodeModelDefault);
    LLVMSetTarget(module, m->triple);
    assert_false(
        LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &buffer));
    kiln_str all = {LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer)};
    const kiln_str text = {kiln_str_dup(arena, all), all.size};
    LLVMDisposeMemoryBuffer(buffer);
    LLVMDisposeTargetMachine(machine);
    return text;
}

static void llvm_builds_instructions_of_clusters(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = target_of(arena, "cuda:sm_90a");
    const kiln_launch_head head = {.name = "run_0",
                                   .arg_count = 1,
                                   .arg = {{.alignment = 64}},
                                   .shared_bytes = 8,
                                   .shared_alignment = 16,
                                   .group_size = {64, 1, 1},
                                   .cluster = 2};
    kiln_llvm_machine machine = {.is_text = true};
    kiln_llvm_builder b;
    kiln_launch_values values;
    kiln_llvm_spell_ptx(&target, NULL, arena, &machine);
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("cluster", context);
    kiln_llvm_builder_init(&b, &target, &machine, context, module, arena);
    b.ops.launch_begin(&b.base, &head, &values);
    b.ops.cluster_sync(&b.base);
    b.ops.token_push_remote(&b.base, values.shared,
                            b.ops.integer(&b.base, kiln_type_scalar(KILN_SSA_I32), 1));
    b.ops.launch_end(&b.base);
    kiln_llvm_builder_deinit(&b);
    kiln_str ptx = ptx_of_module(module, &machine, arena);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    expect_instructions(ptx, arena);
}

/* CUDA C's helpers, which kernels of this text call as the builder writes them. */
static void cuda_text_has_instructions_of_clusters(void **state) {
    kiln_arena *arena = *state;
    kiln_lowered lowered;
    char *folder = make_folder(arena);
    kiln_str text = group_text(group_scheduled(parsed(arena, product), schedule_of(2, arena)),
                               "cuda", arena, &lowered);
    text = replaced(text, "extern \"C\" __global__",
                    "extern \"C\" __global__ void other(u32 rank) {\n"
                    "    extern __shared__ __align__(16) char memory[];\n"
                    "    cluster_sync(); token_push_remote(memory, rank);\n"
                    "}\n"
                    "extern \"C\" __global__",
                    arena);
    expect_instructions(compile_cuda(text, "sm_90a", folder, arena), arena);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(emulated_clusters_equal_the_interpreter),
        test_with_arena(warp_groups_with_producers_run_in_clusters),
        test_with_arena(ptx_names_the_cluster),
        test_with_arena(the_manifest_names_the_cluster),
        test_with_arena(llvm_builds_instructions_of_clusters),
        test_with_arena(cuda_text_has_instructions_of_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
