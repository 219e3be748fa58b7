#include "tests/unit/compiler-core/codegen/c_compile.h"

#include "base/child.h"
#include "base/file.h"
#include "tests/support/test.h"

const char *const c_compiler[C_COMPILERS] = {"gcc", "clang-19"};

kiln_str compile_c(kiln_str text, const char *compiler, const char *flag, const char *folder,
                   kiln_arena *arena) {
    const char *source = kiln_arena_printf(arena, "%s/kernel.c", folder),
               *object = kiln_arena_printf(arena, "%s/kernel.o", folder);
    /* What the loader of objects takes (docs/reference/object.md). */
    const char *const argv[] = {compiler,
                                "-std=c11",
                                "-O1",
                                "-Wall",
                                "-Werror",
                                "-Wno-psabi",
                                "-fPIC",
                                "-ffp-contract=off",
                                "-fno-asynchronous-unwind-tables",
                                "-fno-stack-protector",
                                "-fno-jump-tables",
                                "-c",
                                "-o",
                                object,
                                source,
                                flag,
                                NULL};
    const kiln_child_options options = {.argv = argv};
    kiln_child child;
    kiln_str bytes;
    expect_ok(kiln_file_write(source, text, 0600));
    expect_ok(kiln_child_start(&options, &child));
    kiln_child_exit end = kiln_child_wait(&child);
    kiln_child_destroy(&child);
    if (end.code != 0) fail_msg("%s made nothing of this:\n%.*s", compiler, KILN_STR_ARG(text));
    expect_ok(kiln_file_read(object, (size_t)64 << 20, arena, &bytes));
    return bytes;
}

/* What a toolkit's headers have, and clang alone has not. */
static const char cuda_words[] =
    "#define __global__ __attribute__((global))\n"
    "#define __device__ __attribute__((device))\n"
    "#define __shared__ __attribute__((shared))\n"
    "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n"
    "#define __align__(N) __attribute__((aligned(N)))\n"
    "#define __cluster_dims__(...)\n" /* clang 19 has no such attribute */
    "#define __grid_constant__\n"     /* clang 19 has none: parameters are copied, for no run */
    "#include <__clang_cuda_builtin_vars.h>\n"
    "#define VECTOR(T, N) struct __align__(2 * sizeof(T)) N##2 { T x, y; }; \\\n"
    "    struct __align__(4 * sizeof(T)) N##4 { T x, y, z, w; };\n"
    "VECTOR(unsigned char, uchar)\n"
    "VECTOR(unsigned short, ushort)\n"
    "VECTOR(unsigned, uint)\n"
    "VECTOR(float, float)\n"
    "VECTOR(unsigned long long, ulonglong)\n"
    "VECTOR(double, double)\n"
    "#define F(NAME) __device__ float NAME##f(float); __device__ double NAME(double);\n"
    "#define F2(NAME) __device__ float NAME##f(float, float); __device__ double NAME(double, "
    "double);\n"
    "extern \"C\" {\n"
    "F(fabs) F(floor) F(ceil) F(rint) F(sqrt) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan)\n"
    "F(sinh) F(cosh) F(asinh) F(acosh) F(atanh) F(log) F(exp) F(tanh) F(erf)\n"
    "F2(fmod) F2(pow) F2(copysign)\n"
    "}\n"
    "#define fmaf __builtin_fmaf\n"
    "#define fma __builtin_fma\n"
    "static __device__ float __shfl_xor_sync(unsigned mask, float v, int lanes) {\n"
    "    return __nvvm_shfl_sync_bfly_f32(mask, v, lanes, 31);\n"
    "}\n"
    "static __device__ unsigned __shfl_xor_sync(unsigned mask, unsigned v, int lanes) {\n"
    "    return __nvvm_shfl_sync_bfly_i32(mask, v, lanes, 31);\n"
    "}\n";

kiln_str compile_cuda(kiln_str text, const char *processor, const char *folder, kiln_arena *arena) {
    const char *source = kiln_arena_printf(arena, "%s/kernel.cu", folder),
               *ptx = kiln_arena_printf(arena, "%s/kernel.ptx", folder);
    const char *const argv[] = {"clang-19",
                                "-x",
                                "cuda",
                                "--cuda-device-only",
                                kiln_arena_printf(arena, "--cuda-gpu-arch=%s", processor),
                                "--cuda-path=/none", /* no toolkit, on any machine */
                                "-nocudainc",
                                "-nocudalib",
                                "-Xclang",
                                "-target-feature",
                                "-Xclang",
                                "+ptx80",
                                "-O2",
                                "-Wall",
                                "-Wno-unknown-cuda-version",
                                "-Wno-unused-function",
                                "-Wno-parentheses-equality",
                                "-Werror",
                                "-S",
                                "-o",
                                ptx,
                                source,
                                NULL};
    const kiln_child_options options = {.argv = argv};
    kiln_child child;
    kiln_strbuf all = {0};
    kiln_str bytes;
    kiln_strbuf_text(&all, cuda_words);
    kiln_strbuf_str(&all, text);
    expect_ok(kiln_file_write(source, kiln_strbuf_view(&all), 0600));
    kiln_strbuf_deinit(&all);
    expect_ok(kiln_child_start(&options, &child));
    kiln_child_exit end = kiln_child_wait(&child);
    kiln_child_destroy(&child);
    if (end.code != 0) fail_msg("clang made nothing of this:\n%.*s", KILN_STR_ARG(text));
    expect_ok(kiln_file_read(ptx, (size_t)64 << 20, arena, &bytes));
    return bytes;
}
