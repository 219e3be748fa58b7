#include "compiler-core/frontend/onnx/dtype.h"

#include "onnx.pb-c.h"

static const int number_of[KILN_DTYPE_COUNT] = {
    [KILN_F32] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    [KILN_F64] = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
    [KILN_F16] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
    [KILN_BF16] = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
    [KILN_I8] = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,
    [KILN_I16] = ONNX__TENSOR_PROTO__DATA_TYPE__INT16,
    [KILN_I32] = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
    [KILN_I64] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    [KILN_U8] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
    [KILN_U16] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT16,
    [KILN_U32] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT32,
    [KILN_U64] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT64,
    [KILN_BOOL] = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
};

bool kiln_onnx_dtype_find(int64_t number, kiln_dtype *out_dtype) {
    for (unsigned i = 1; i < KILN_DTYPE_COUNT; i++) {
        if (!number_of[i] || number_of[i] != number) continue;
        *out_dtype = (kiln_dtype)i;
        return true;
    }
    return false;
}

int kiln_onnx_dtype_number(kiln_dtype dtype) { return number_of[dtype]; }
