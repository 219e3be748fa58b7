/* Element types by ONNX's numbers (TensorProto.DataType). Private to this folder, and to tests that
 * write models. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_DTYPE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

/* False: no such number, or a type that Kiln does not have. */
bool kiln_onnx_dtype_find(int64_t number, kiln_dtype *out_dtype);
/* The number of a type; 0: ONNX has none. */
int kiln_onnx_dtype_number(kiln_dtype dtype);

/* Also finds integers of 2 and 4 bits. Files pack several of them in a byte, the first in its
 * lowest bits; Kiln stores one per byte, as I8 or U8. `*out_bits`: bits of such an integer or of an
 * F4E2M1, which is packed as well, else 0. */
bool kiln_onnx_type_find(int64_t number, kiln_dtype *out_dtype, uint32_t *out_bits);
int kiln_onnx_type_number(kiln_dtype dtype, uint32_t bits);
/* Bits of each element where files pack all elements of that type; else 0. */
uint32_t kiln_onnx_dtype_bits(kiln_dtype dtype);
/* Bytes of `count` integers in a file, and the conversions between the two forms. */
size_t kiln_onnx_packed_bytes(size_t count, uint32_t bits);
void kiln_onnx_unpack(const uint8_t *packed, size_t count, kiln_dtype dtype, uint32_t bits,
                      void *out);
void kiln_onnx_pack(const void *data, size_t count, uint32_t bits, uint8_t *out_packed);

#endif
