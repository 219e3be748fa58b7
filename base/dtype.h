/* Element types of tensors. */
#ifndef KILN_BASE_DTYPE_H
#define KILN_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef enum kiln_dtype_kind {
    KILN_KIND_FLOAT,
    KILN_KIND_INT,
    KILN_KIND_UINT,
    KILN_KIND_BOOL
} kiln_dtype_kind;

typedef enum kiln_dtype {
    KILN_DTYPE_NONE = 0,
#define X(name, text, size, kind, ctype, number) KILN_##name = number,
#include "base/dtype.def"
#undef X
    KILN_DTYPE_COUNT
} kiln_dtype;

/* Bytes of one element; at least 1. */
size_t kiln_dtype_size(kiln_dtype type);
/* Column `kind` of dtype.def. */
kiln_dtype_kind kiln_dtype_kind_of(kiln_dtype type);
/* As tensors say it: DLPack's DLDataTypeCode. */
uint8_t kiln_dtype_dlpack(kiln_dtype type);
/* Halves and smaller floats included. */
bool kiln_dtype_is_float(kiln_dtype type);
/* The type that its elements are computed in: F32 of narrower floats, else the type itself. */
kiln_dtype kiln_dtype_computed(kiln_dtype type);
/* "f32"; static. */
const char *kiln_dtype_name(kiln_dtype type);
/* The type of that name; false: there is none. */
bool kiln_dtype_find(kiln_str name, kiln_dtype *out_type);

/* Half conversions (those of smaller floats: base/small_float.h), round to nearest even (IEEE 754).
 */
float kiln_f16_to_f32(uint16_t bits);
uint16_t kiln_f32_to_f16(float value);
float kiln_bf16_to_f32(uint16_t bits);
uint16_t kiln_f32_to_bf16(float value);
/* Rounded to tf32, an f32 with 10 bits of mantissa: to nearest, ties away from zero, as the PTX
 * ISA's cvt.rna.tf32.f32. NaN becomes a quiet NaN. */
float kiln_f32_to_tf32(float value);

/* One element as double or as int64, converted as C does; float to integer truncates and saturates;
 * to BOOL: value != 0. */
double kiln_dtype_load_f64(kiln_dtype type, const void *data, size_t index);
int64_t kiln_dtype_load_i64(kiln_dtype type, const void *data, size_t index);
void kiln_dtype_store_f64(kiln_dtype type, void *data, size_t index, double value);
void kiln_dtype_store_i64(kiln_dtype type, void *data, size_t index, int64_t value); /* wraps */

#endif
