#include "deploy/runtime/module_tensor.h"

#include <stdio.h>

#include "base/dtype.h"
#include "base/kernel_abi.h"

/* Callers pass DLPack's DLTensor by a cast; kernels take the same layout. */
#define SAME(field, of_kernel)                                                                     \
    _Static_assert(offsetof(kiln_module_tensor, field) == offsetof(kiln_kernel_tensor, of_kernel), \
                   "laid out as DLTensor")
SAME(data, data);
SAME(device_type, device_type);
SAME(device_id, device_id);
SAME(rank, ndim);
SAME(type_code, type_code);
SAME(type_bits, type_bits);
SAME(type_lanes, type_lanes);
SAME(shape, shape);
SAME(strides, strides);
SAME(byte_offset, byte_offset);
_Static_assert(sizeof(kiln_module_tensor) == sizeof(kiln_kernel_tensor), "laid out as DLTensor");

static bool has_type(const kiln_module_port *port, const kiln_module_tensor *t) {
    const kiln_dtype dtype = (kiln_dtype)port->dtype;
    return t->type_code == kiln_dtype_dlpack(dtype) && t->type_bits == 8 * kiln_dtype_size(dtype) &&
           t->type_lanes == 1;
}

/* The first dimension whose extent or stride differs; `rank` when all agree. Strides of
 * dimensions of one element, and of tensors without elements, mean nothing. */
static int32_t find_wrong_dimension(const kiln_module_port *port, const kiln_module_tensor *t,
                                    bool *out_is_stride) {
    int64_t stride = 1;
    *out_is_stride = false;
    for (int32_t d = 0; d < t->rank; d++)
        if (t->shape[d] != port->shape[d]) return d;
    *out_is_stride = true;
    for (int32_t d = t->rank; t->strides && port->size_bytes > 0 && d-- > 0;) {
        if (t->shape[d] != 1 && t->strides[d] != stride) return d;
        stride *= t->shape[d];
    }
    return t->rank;
}

bool kiln_module_tensor_fits(const kiln_module_port *port, const kiln_module_tensor *t, char *why,
                             size_t why_bytes) {
    bool is_stride;
    if (!has_type(port, t)) {
        (void)snprintf(why, why_bytes,
                       "its elements are of type code %u, %u bits and %u lanes; "
                       "the module takes %s, which is code %u",
                       t->type_code, t->type_bits, t->type_lanes,
                       kiln_dtype_name((kiln_dtype)port->dtype),
                       kiln_dtype_dlpack((kiln_dtype)port->dtype));
        return false;
    }
    if (t->rank < 0 || (uint32_t)t->rank != port->rank) {
        (void)snprintf(why, why_bytes, "it has %d dimensions; the module takes %u", t->rank,
                       port->rank);
        return false;
    }
    const int32_t d = find_wrong_dimension(port, t, &is_stride);
    if (d == t->rank) return true;
    if (is_stride)
        (void)snprintf(why, why_bytes,
                       "its stride in dimension %d is %lld; the module takes dense, row-major ones",
                       d, (long long)t->strides[d]);
    else
        (void)snprintf(why, why_bytes, "its extent in dimension %d is %lld; the module takes %lld",
                       d, (long long)t->shape[d], (long long)port->shape[d]);
    return false;
}

kiln_module_tensor kiln_module_tensor_at(const kiln_module_port *port, int32_t device_type,
                                         int32_t device_id, void *data) {
    const kiln_dtype dtype = (kiln_dtype)port->dtype;
    return (kiln_module_tensor){.data = data,
                                .device_type = device_type,
                                .device_id = device_id,
                                .rank = (int32_t)port->rank,
                                .type_code = kiln_dtype_dlpack(dtype),
                                .type_bits = (uint8_t)(8 * kiln_dtype_size(dtype)),
                                .type_lanes = 1,
                                .shape = (int64_t *)(uintptr_t)port->shape};
}
