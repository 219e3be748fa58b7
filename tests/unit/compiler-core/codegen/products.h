/* Products of bytes, tensorized, and the code that they become: what tests of tensor intrinsics
 * share. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_PRODUCTS_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_PRODUCTS_H

#include "base/rand.h"
#include "compiler-core/ir/intrinsic.h"
#include "tests/unit/compiler-core/codegen/support.h"

/* Replays trace text, which must be legal and keep the meaning; types of 16 bits, too. */
kiln_program *replayed(const kiln_program *te, const char *text);

/* c[m, n] = sum over k of f16 a[m, k] times constant f16 b[k, n], in f32. */
kiln_program *f16_product_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k);

/* "dot": c[m][n] = sum over k of a[m][k] * b[n][k], operands of the intrinsic's types. */
kiln_program *product_program(kiln_arena *arena, const kiln_intrinsic *intrinsic, int64_t m,
                              int64_t n, int64_t k);
/* A product of a drawn size in a drawn schedule whose two innermost loops are the intrinsic. With
 * `plain`, of one fixed size, and b packed as the instruction reads it. */
kiln_program *draw_product(kiln_arena *arena, const kiln_intrinsic *intrinsic, kiln_rand *rand,
                           bool plain, kiln_program **out_te);
/* A quantised convolution as import makes it, of bytes of type `data` (KILN_I8 or KILN_U8) with a
 * zero point: padding, signed bytes, sums, what the zero point takes off, scaling, bytes again. */
kiln_program *quantised_program(kiln_arena *arena, kiln_dtype data, int64_t channels, int64_t size,
                                int64_t results);
/* A convolution of each channel by itself, in windows of three rows and `taps` columns with the
 * stride and distance that are given, without padding: data of `size` pixels square. */
kiln_program *depthwise_program(kiln_arena *arena, kiln_dtype data, int64_t channels, int64_t size,
                                int64_t taps, int64_t stride, int64_t distance);
/* A convolution of bytes within these ranges, with a padding, scaled and cut to the range of the
 * data again. */
kiln_program *bits_program(kiln_arena *arena, kiln_range data, kiln_range weights, int64_t channels,
                           int64_t size, int64_t results);
/* A target of the intrinsic's architecture with its feature. */
kiln_target target_with(kiln_arena *arena, const kiln_intrinsic *intrinsic);
/* What the rules prefer. */
kiln_program *default_schedule(kiln_program *te, const kiln_target *target);
const char *assembly_of(const kiln_program *scheduled, const kiln_target *target,
                        kiln_arena *arena);
/* How often the text has the word. */
uint32_t occurrences(const char *text, const char *word);

#endif
