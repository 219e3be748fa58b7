#include "compiler-core/frontend/onnx/dtype.h"

#include <string.h>

#include "base/macros.h"

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
    /* Of ONNX 1.20; older definitions lack these. */
    [KILN_F8E4M3FN] = 17,
    [KILN_F8E4M3FNUZ] = 18,
    [KILN_F8E5M2] = 19,
    [KILN_F8E5M2FNUZ] = 20,
    [KILN_F4E2M1] = 23,
    [KILN_F8E8M0] = 24,
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

/* TensorProto.DataType of ONNX 1.20; older definitions lack these. */
static const struct {
    int number;
    kiln_dtype dtype;
    uint32_t bits;
} narrow_table[] = {
    {21, KILN_U8, 4},                       /* UINT4 */
    {22, KILN_I8, 4},                       /* INT4 */
    {23, KILN_F4E2M1, 4}, {25, KILN_U8, 2}, /* UINT2 */
    {26, KILN_I8, 2},                       /* INT2 */
};

bool kiln_onnx_type_find(int64_t number, kiln_dtype *out_dtype, uint32_t *out_bits) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(narrow_table); i++) {
        if (narrow_table[i].number != number) continue;
        *out_dtype = narrow_table[i].dtype;
        *out_bits = narrow_table[i].bits;
        return true;
    }
    *out_bits = 0;
    return kiln_onnx_dtype_find(number, out_dtype);
}

int kiln_onnx_type_number(kiln_dtype dtype, uint32_t bits) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(narrow_table); i++)
        if (narrow_table[i].dtype == dtype && narrow_table[i].bits == bits)
            return narrow_table[i].number;
    return bits ? 0 : kiln_onnx_dtype_number(dtype);
}

uint32_t kiln_onnx_dtype_bits(kiln_dtype dtype) { return dtype == KILN_F4E2M1 ? 4 : 0; }

size_t kiln_onnx_packed_bytes(size_t count, uint32_t bits) {
    const size_t each = 8 / bits;
    return count / each + (count % each != 0);
}

void kiln_onnx_unpack(const uint8_t *packed, size_t count, kiln_dtype dtype, uint32_t bits,
                      void *out) {
    const uint32_t each = 8 / bits, mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    uint8_t *byte = out;
    for (size_t i = 0; i < count; i++) {
        const uint32_t code = (uint32_t)packed[i / each] >> (i % each * bits) & mask;
        byte[i] = (uint8_t)(dtype == KILN_I8 ? (code ^ sign) - sign : code);
    }
}

void kiln_onnx_pack(const void *data, size_t count, uint32_t bits, uint8_t *out_packed) {
    const uint32_t each = 8 / bits, mask = (1u << bits) - 1;
    const uint8_t *byte = data;
    memset(out_packed, 0, kiln_onnx_packed_bytes(count, bits));
    for (size_t i = 0; i < count; i++)
        out_packed[i / each] |= (uint8_t)((byte[i] & mask) << (i % each * bits));
}
