/* Lowered programs to C-family text; and to C, as one translation unit that needs only a C11
 * compiler. */
#include <string.h>

#include "compiler-core/codegen/c_builder.h"
#include "compiler-core/codegen/walk.h"

/* The text behind this line belongs to one artefact. */
const char kiln_c_text_split[] = "/* ---- code ---- */\n";

const char kiln_c_helpers[] =
    "HELPER u32 bits_of_f32(f32 x) { union { f32 f; u32 u; } v = {x}; return v.u; }\n"
    "HELPER f32 f32_of_bits(u32 x) { union { u32 u; f32 f; } v = {x}; return v.f; }\n"
    "HELPER f32 f32_of_half(u16 h) {\n"
    "    const u32 sign = (u32)(h & 0x8000u) << 16, rest = h & 0x7fffu;\n"
    "    if (rest >= 0x7c00u) /* quiet NaN */\n"
    "        return f32_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | "
    "(rest > 0x7c00u ? 0x400000u : 0u));\n"
    "    if (rest >= 0x400u) return f32_of_bits(sign | ((rest << 13) + 0x38000000u));\n"
    "    return f32_of_bits(sign | bits_of_f32((f32)rest * 0x1p-24f));\n"
    "}\n"
    "HELPER u16 half_of_f32(f32 x) {\n"
    "    const u32 bits = bits_of_f32(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;\n"
    "    if (rest > 0x7f800000u) return (u16)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));\n"
    "    if (rest >= 0x477ff000u) return (u16)(sign | 0x7c00u);\n"
    "    if (rest >= 0x38800000u) /* normal: to nearest, ties to even */\n"
    "        return (u16)(sign | ((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13));\n"
    "    /* a sum whose lowest mantissa bit is worth 2^-24 rounds as it should */\n"
    "    return (u16)(sign | (bits_of_f32(f32_of_bits(rest) + 0.5f) - 0x3f000000u));\n"
    "}\n"
    "/* Towards zero, saturating; NaN gives 0. */\n"
    "#define SATURATE(F, X, S, U, BITS, MIN, MAX) \\\n"
    "    HELPER S S##_of_##F(F x) { \\\n"
    "        return x >= X ? MAX : x >= -X ? (S)x : x != x ? 0 : MIN; \\\n"
    "    } \\\n"
    "    HELPER U U##_of_##F(F x) { return x >= 2 * X ? (U)-1 : x > 0 ? (U)x : 0; }\n"
    "SATURATE(f32, 0x1p7f, s8, u8, 8, INT8_MIN, INT8_MAX)\n"
    "SATURATE(f32, 0x1p15f, s16, u16, 16, INT16_MIN, INT16_MAX)\n"
    "SATURATE(f32, 0x1p31f, s32, u32, 32, INT32_MIN, INT32_MAX)\n"
    "SATURATE(f32, 0x1p63f, s64, u64, 64, INT64_MIN, INT64_MAX)\n";

const char kiln_c_helpers_f64[] = "SATURATE(f64, 0x1p7, s8, u8, 8, INT8_MIN, INT8_MAX)\n"
                                  "SATURATE(f64, 0x1p15, s16, u16, 16, INT16_MIN, INT16_MAX)\n"
                                  "SATURATE(f64, 0x1p31, s32, u32, 32, INT32_MIN, INT32_MAX)\n"
                                  "SATURATE(f64, 0x1p63, s64, u64, 64, INT64_MIN, INT64_MAX)\n";

/* For compilers other than gcc and clang, vector extensions are not used, and strict aliasing is
 * assumed off. */
static const char c11_types[] =
    "#ifndef KILN_C_PREAMBLE\n"
    "#define KILN_C_PREAMBLE\n"
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "typedef uint8_t u8;\n"
    "typedef uint16_t u16;\n"
    "typedef uint32_t u32;\n"
    "typedef uint64_t u64;\n"
    "typedef int8_t s8;\n"
    "typedef int16_t s16;\n"
    "typedef int32_t s32;\n"
    "typedef int64_t s64;\n"
    "typedef float f32;\n"
    "typedef double f64;\n"
    "#define KILN_M __attribute__((may_alias))\n"
    "typedef u8 KILN_M u8_m;\n"
    "typedef u16 KILN_M u16_m;\n"
    "typedef u32 KILN_M u32_m;\n"
    "typedef u64 KILN_M u64_m;\n"
    "typedef f32 KILN_M f32_m;\n"
    "typedef f64 KILN_M f64_m;\n"
    "#define VECTOR(T, LANES, BYTES, NAME) \\\n"
    "    typedef T NAME __attribute__((vector_size(LANES * BYTES))); \\\n"
    "    typedef T NAME##_m __attribute__((vector_size(LANES * BYTES), aligned(BYTES), "
    "may_alias))\n"
    "#define HELPER static inline __attribute__((unused))\n"
    "#define EACH(LANES) for (unsigned l = 0; l < LANES; l++)\n"
    "#define INF32 __builtin_inff()\n"
    "#define INF64 __builtin_inf()\n"
    "#define NAN32 __builtin_nanf(\"\")\n"
    "#define NAN64 __builtin_nan(\"\")\n"
    "typedef int32_t (*kiln_body)(void *, int64_t, int64_t, int32_t);\n"
    "typedef struct {\n"
    "    uint32_t version, worker_count;\n"
    "    void *host;\n"
    "    int32_t (*parallel_for)(void *host, int64_t count, kiln_body body, void *context);\n"
    "    void *scratch;\n"
    "} kiln_kernel_services;\n";

/* The dot products of microcontrollers, and replacements for other processors. Those of whole
 * vectors are added to the sum of a lane, which also selects the place in both operands. */
static const char thumb_helpers[] =
    "#ifdef __ARM_FEATURE_SIMD32\n"
    "#include <arm_acle.h>\n"
    "#define SMLAD(A, B, SUM) (u32)__smlad((s32)(A), (s32)(B), (s32)(SUM))\n"
    "#else\n"
    "HELPER u32 smlad(u32 a, u32 b, u32 sum) {\n"
    "    return sum + (u32)((s16)a * (s16)b) + (u32)((s16)(a >> 16) * (s16)(b >> 16));\n"
    "}\n"
    "#define SMLAD(A, B, SUM) smlad(A, B, SUM)\n"
    "#endif\n"
    "#ifdef __ARM_FEATURE_MVE\n"
    "#include <arm_mve.h>\n"
    "#define VMLAVA(NAME, LANES, T, AS, SUM) \\\n"
    "    HELPER u32 NAME(const void *a, const void *b, unsigned lane, u32 sum) { \\\n"
    "        const u8 *x = (const u8 *)a + 16 * lane, *y = (const u8 *)b + 16 * lane; \\\n"
    "        return (u32)vmladavaq((SUM)sum, AS(vldrbq_u8(x)), AS(vldrbq_u8(y))); \\\n"
    "    }\n"
    "#else\n"
    "#define VMLAVA(NAME, LANES, T, AS, SUM) \\\n"
    "    HELPER u32 NAME(const void *a, const void *b, unsigned lane, u32 sum) { \\\n"
    "        T x[LANES], y[LANES]; \\\n"
    "        __builtin_memcpy(x, (const u8 *)a + 16 * lane, 16); \\\n"
    "        __builtin_memcpy(y, (const u8 *)b + 16 * lane, 16); \\\n"
    "        EACH(LANES) sum += (u32)(x[l] * y[l]); \\\n"
    "        return sum; \\\n"
    "    }\n"
    "#endif\n"
    "VMLAVA(vmlava_s8, 16, s8, vreinterpretq_s8_u8, s32)\n"
    "VMLAVA(vmlava_u8, 16, u8, , u32)\n"
    "VMLAVA(vmlava_s16, 8, s16, vreinterpretq_s16_u8, s32)\n";

static kiln_ssa thumb_intrinsic(kiln_builder *base, const kiln_intrinsic *row, kiln_ssa sum,
                                kiln_ssa a, kiln_ssa second) {
    kiln_c_builder *b = (kiln_c_builder *)base;
    kiln_ssa operand[] = {sum, a, second};
    if (kiln_intrinsic_words(row) == 1)
        return kiln_c_define(b, sum->type, true,
                             kiln_arena_printf(b->arena, "SMLAD(%s, %s, %s)", kiln_c_each(b, a),
                                               kiln_c_each(b, second), kiln_c_each(b, sum)),
                             operand, 3);
    const size_t dot = strcspn(row->name, ".");
    return kiln_c_define(b, sum->type, true,
                         kiln_arena_printf(b->arena, "%.*s_%s(&%s, &%s, l, %s)", (int)dot,
                                           row->name, row->name + dot + 1, kiln_c_whole(b, a),
                                           kiln_c_whole(b, second), kiln_c_each(b, sum)),
                         operand, 3);
}

#define C11                                                                                        \
    .vector_lanes = KILN_C_LANES_MAX, .lane_loops = true, .literal = "(%s){%s}", .of_64 = "ull",   \
    .library = "__builtin_", .has_suffix = true, .difference = "ptrdiff_t", .pointer = {"char *"}, \
    .space = {""}, .prefetch = "__builtin_prefetch"

static const kiln_c_dialect c11 = {
    C11,
    .preamble = {c11_types, kiln_c_helpers, kiln_c_helpers_f64, "#endif\n\n", kiln_c_text_split},
};
static const kiln_c_dialect c11_thumb = {
    C11,
    .intrinsic = thumb_intrinsic,
    .preamble = {c11_types, kiln_c_helpers, kiln_c_helpers_f64, thumb_helpers, "#endif\n\n",
                 kiln_c_text_split},
};

kiln_status kiln_c_write(const kiln_c_dialect *dialect, const kiln_lowered *lowered,
                         const kiln_target *target, const kiln_codegen_options *options,
                         kiln_arena *arena, kiln_codegen_output *out_output) {
    kiln_c_builder b;
    kiln_arena scratch;
    kiln_codegen_output output = {0};
    if (options->emit != KILN_EMIT_OBJECT)
        return KILN_ERROR(UNIMPLEMENTED,
                          "the back end makes C text, neither assembly nor LLVM's text");
    kiln_arena_init(&scratch, 256 << 10);
    kiln_c_builder_init(&b, dialect, &scratch);
    kiln_status st = kiln_walk_lowered(&b.base, lowered, target, &scratch, &output);
    if (!st) {
        kiln_strbuf text = {0};
        for (uint32_t i = 0; i < KILN_C_PREAMBLE_PARTS && dialect->preamble[i]; i++)
            kiln_strbuf_text(&text, dialect->preamble[i]);
        kiln_c_builder_print(&b, &text);
        output.bytes = (kiln_str){kiln_str_dup(arena, kiln_strbuf_view(&text)), text.size};
        kiln_strbuf_deinit(&text);
        *out_output = output;
    }
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_c_emit(const kiln_lowered *lowered, const kiln_target *target,
                        const kiln_codegen_options *options, kiln_arena *arena,
                        kiln_codegen_output *out_output) {
    const kiln_c_dialect *dialect = target->arch == KILN_ARCH_THUMB ? &c11_thumb : &c11;
    return kiln_c_write(dialect, lowered, target, options, arena, out_output);
}
