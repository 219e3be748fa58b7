/* Tensor data that lies in files beside a model. Private to onnx/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_EXTERNAL_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_EXTERNAL_H

#include "compiler-core/frontend/onnx/proto.h"

/* Whether the tensor's data lie in another file. */
bool kiln_onnx_is_external(const Onnx__TensorProto *tensor);
/* Reads `expected_bytes` of external data from one of `files`; `*out_data` in
 * `arena`, 64-byte aligned. INVALID_ARGUMENT: no location, an absolute path, "..", a link that
 * leaves the folder, not a regular file, or an offset or length that is no number or does not fit
 * (both have 64 bits; a tensor has KILN_TENSOR_BYTES_MAX at most). NOT_FOUND, PERMISSION_DENIED:
 * the file. OUT_OF_RANGE: the file is too short. */
KILN_MUST_USE kiln_status kiln_onnx_external_read(const kiln_onnx_files *files,
                                                  const Onnx__TensorProto *tensor,
                                                  size_t expected_bytes, kiln_arena *arena,
                                                  kiln_str *out_data);

#endif
