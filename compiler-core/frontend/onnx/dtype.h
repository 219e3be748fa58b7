/* Element types by ONNX's numbers (TensorProto.DataType). Private to this folder, and to tests that
 * write models. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_DTYPE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* False: no such number, or a type that Kiln does not have. */
bool kiln_onnx_dtype_find(int64_t number, kiln_dtype *out_dtype);
/* The number of a type; 0: ONNX has none. */
int kiln_onnx_dtype_number(kiln_dtype dtype);

#endif
