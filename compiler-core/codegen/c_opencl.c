/* OpenCL C 1.2: a kernel for each launch. Numbers are scalars and the language's vectors of 2 to 16
 * lanes, which have nearly all operations; a CPU gets vectors, and a GPU's compiler splits them.
 * Halves are converted by helpers, because few devices have them. */
#include "compiler-core/codegen/c_builder.h"

#define TEXT(b, ...) kiln_arena_printf((b)->arena, __VA_ARGS__)

/* Unaligned vectors use functions; aligned ones use types (`_m`: types that may alias). */
static const char types[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#ifdef cl_khr_fp64\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "#ifdef __clang__\n"
    "#define KILN_M __attribute__((may_alias))\n"
    "#else\n"
    "#define KILN_M\n"
    "#endif\n"
    "#define TYPE(T, NAME) typedef T NAME; typedef T KILN_M NAME##_m;\n"
    "#define TYPES(T, NAME) TYPE(T, NAME) TYPE(T##2, NAME##x2) TYPE(T##4, NAME##x4) \\\n"
    "    TYPE(T##8, NAME##x8) TYPE(T##16, NAME##x16)\n"
    "TYPES(uchar, u8)\n"
    "TYPES(ushort, u16)\n"
    "TYPES(uint, u32)\n"
    "TYPES(ulong, u64)\n"
    "TYPES(float, f32)\n"
    "typedef char s8;\n"
    "typedef short s16;\n"
    "typedef int s32;\n"
    "typedef long s64;\n"
    "#define INT8_MIN SCHAR_MIN\n"
    "#define INT8_MAX SCHAR_MAX\n"
    "#define INT16_MIN SHRT_MIN\n"
    "#define INT16_MAX SHRT_MAX\n"
    "#define INT32_MIN INT_MIN\n"
    "#define INT32_MAX INT_MAX\n"
    "#define INT64_MIN LONG_MIN\n"
    "#define INT64_MAX LONG_MAX\n"
    "#define INF32 INFINITY\n"
    "#define NAN32 NAN\n"
    "#ifdef KILN_NO_FMA\n" /* set by the runtime for devices without a fast fma */
    "#define fma_32(X, Y, Z) ((X) * (Y) + (Z))\n"
    "#define fma_64 fma_32\n"
    "#else\n"
    "#define fma_32 fma\n"
    "#define fma_64 fma\n"
    "#endif\n"
    "#define HELPER static inline __attribute__((unused))\n";
static const char types_f64[] = "#ifdef cl_khr_fp64\n"
                                "TYPES(double, f64)\n"
                                "#define INF64 ((double)INFINITY)\n"
                                "#define NAN64 ((double)NAN)\n";

/* ---- vectors --------------------------------------------------------------------------------- */

static const char *const word[] = {"uchar", "uchar",  "ushort", "uint",
                                   "ulong", "ushort", "float",  "double"};
static const char *const signed_word[] = {"char", "char",  "short", "int",
                                          "long", "short", "int",   "long"};

/* `x`, a vector of integers, with a sign. */
static const char *with_sign(kiln_c_builder *b, kiln_ssa_type type, const char *x) {
    return TEXT(b, "as_%s%u(%s)", signed_word[type.scalar], type.lanes, x);
}

/* Converts results of comparisons, 0 and -1 of the operands' size. */
static const char *to_bool(kiln_c_builder *b, kiln_ssa_type type, const char *condition) {
    return TEXT(b, "convert_uchar%u(-(%s))", type.lanes, condition);
}

static const char *compute(kiln_c_builder *b, kiln_build_op what, kiln_ssa_type type, const char *x,
                           const char *y) {
    const char *c = kiln_c_spelling(what);
    switch (kiln_c_class(what)) {
    case KILN_BUILDS_NEGATE: return TEXT(b, "%s%s", c, x);
    case KILN_BUILDS_CALL1: return TEXT(b, "%s(%s)", c, x);
    case KILN_BUILDS_CALL2: return TEXT(b, "%s(%s, %s)", c, x, y);
    case KILN_BUILDS_FLOAT: /* fmod of vectors of doubles is wrong in PoCL 3.1 */
        return *c == 'f' ? NULL : TEXT(b, "%s %s %s", x, c, y);
    case KILN_BUILDS_FLOAT_COMPARE:
        if (*c == '!' && c[1] == '<') return to_bool(b, type, TEXT(b, "!(%s < %s)", x, y));
        return to_bool(b, type, TEXT(b, "%s %s %s", x, c, y));
    case KILN_BUILDS_INT_COMPARE:
        if (*c != 's') return to_bool(b, type, TEXT(b, "%s %s %s", x, c, y));
        return to_bool(b, type,
                       TEXT(b, "%s %s %s", with_sign(b, type, x), c + 1, with_sign(b, type, y)));
    case KILN_BUILDS_INT: break;
    }
    if (*c != 's') return TEXT(b, "%s %s %s", x, c, y);
    return TEXT(b, "as_%s%u(%s %s %s)", word[type.scalar], type.lanes, with_sign(b, type, x), c + 1,
                with_sign(b, type, y));
}

static const char *choose(kiln_c_builder *b, kiln_ssa_type type, const char *condition,
                          const char *yes, const char *no) {
    const char *with = signed_word[type.scalar];
    return TEXT(b, "(convert_%s%u(%s) != (%s)0) ? %s : %s", with, type.lanes, condition, with, yes,
                no);
}

static const char *convert(kiln_c_builder *b, kiln_conversion how, kiln_ssa_type type,
                           kiln_ssa_scalar to, const char *x) {
    const char *name = TEXT(b, "%s%u", word[to], type.lanes);
    if (type.scalar == KILN_SSA_F16 || to == KILN_SSA_F16) return NULL;
    switch (how) {
    case KILN_CONVERT_BITS: return TEXT(b, "as_%s(%s)", name, x);
    case KILN_CONVERT_SIGNED:
        if (type.scalar == KILN_SSA_BOOL) return TEXT(b, "-convert_%s(%s)", name, x);
        return TEXT(b, "as_%s(convert_%s%u(%s))", name, signed_word[to], type.lanes,
                    with_sign(b, type, x));
    case KILN_CONVERT_UNSIGNED: /* only the lower bits if it becomes narrower */
    case KILN_CONVERT_UNSIGNED_TO_FLOAT:
    case KILN_CONVERT_FLOAT: return TEXT(b, "convert_%s(%s)", name, x);
    case KILN_CONVERT_SIGNED_TO_FLOAT:
        return TEXT(b, "convert_%s(%s)", name, with_sign(b, type, x));
    case KILN_CONVERT_FLOAT_TO_SIGNED: /* drivers differ on NaN */
    case KILN_CONVERT_FLOAT_TO_UNSIGNED: break;
    }
    return NULL;
}

static const char *any(kiln_c_builder *b, kiln_ssa_type type, const char *mask) {
    return TEXT(b, "(u8)any(convert_char%u(%s) != (char)0)", type.lanes, mask);
}

static const kiln_c_vectors vectors = {compute, choose, convert, any};

/* ---- launches -------------------------------------------------------------------------------- */

static const char *head_of(kiln_c_builder *b, const kiln_launch_head *head) {
    const uint32_t *size = head->group_size;
    return TEXT(b, "kernel __attribute__((reqd_work_group_size(%u, %u, %u)))\nvoid %s(", size[0],
                size[1], size[2], head->name);
}

static const kiln_c_kernels kernels = {
    .head = head_of,
    .read_arg = "const global char *",
    .written_arg = "global char *",
    .alone = "restrict ",
    .shared = "local char %s[%llu] __attribute__((aligned(64)));",
    .local = "private char %s[%llu] __attribute__((aligned(64)));",
    .grid = {"get_group_id(0)", "get_group_id(1)", "get_group_id(2)"},
    .group = {"get_local_id(0)", "get_local_id(1)", "get_local_id(2)"},
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
};

static const char *const lane[] = {".s0", ".s1", ".s2", ".s3", ".s4", ".s5", ".s6", ".s7",
                                   ".s8", ".s9", ".sa", ".sb", ".sc", ".sd", ".se", ".sf"};

#define DIALECT                                                                              \
    .vector_lanes = 16, .vectors = &vectors, .piece_lanes = 16, .piece_bytes = 128,          \
    .load_apart = "vload%u", .store_apart = "vstore%u", .lane = lane, .literal = "(%s)(%s)", \
    .of_64 = "ul", .library = "", .multiply_add = "fma_%u", .difference = "ptrdiff_t",       \
    .pointer = {"const char *", "const global char *", "const local char *",                 \
                "const private char *"},                                                     \
    .space = {"", "global ", "local ", "private "}, .kernels = &kernels,                     \
    .preamble = {types,      kiln_c_helpers,   types_f64, kiln_c_helpers_f64,                \
                 "#endif\n", kiln_c_text_split}

static const kiln_c_dialect opencl = {DIALECT};

/* PoCL's compiler (LLVM 15) turns the loads of a vector's lanes into gathers, which take more than
 * twice as long here: 81 us instead of 37 for 56x56 images whose channels become blocks of 16. It
 * keeps volatile loads; GPUs would load them past their cache. */
static const kiln_c_dialect opencl_cpu = {DIALECT, .lane_load = "volatile "};

kiln_status kiln_opencl_emit(const kiln_lowered *lowered, const kiln_target *target,
                             const kiln_codegen_options *options, kiln_arena *arena,
                             kiln_codegen_output *out_output) {
    return kiln_c_write(&opencl, lowered, target, options, arena, out_output);
}

kiln_status kiln_opencl_cpu_emit(const kiln_lowered *lowered, const kiln_target *target,
                                 const kiln_codegen_options *options, kiln_arena *arena,
                                 kiln_codegen_output *out_output) {
    return kiln_c_write(&opencl_cpu, lowered, target, options, arena, out_output);
}
