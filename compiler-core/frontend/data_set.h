/* Tensors in files, and data sets of ONNX's backend tests: inputs and expected outputs of models.
 * For `kiln verify` and `kiln run`. Files are read in processes without rights (base/isolated).
 */
#ifndef KILN_COMPILER_CORE_FRONTEND_DATA_SET_H
#define KILN_COMPILER_CORE_FRONTEND_DATA_SET_H

#include "compiler-core/frontend/frontend.h"

/* One TensorProto (the .pb files of test data sets); its name may be empty. */
KILN_MUST_USE kiln_status kiln_onnx_tensor_load(const char *path, kiln_arena *arena,
                                                kiln_named_tensor *out_tensor);
/* The same from memory. */
KILN_MUST_USE kiln_status kiln_onnx_tensor_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_named_tensor *out_tensor);

/* Size, names and types of the model's outputs and non-initialised inputs, without importing it. */
typedef struct kiln_onnx_ports {
    uint32_t node_count, input_count, output_count;
    kiln_str *input, *output;
    kiln_dtype *input_dtype, *output_dtype; /* NONE: no tensor, or a type that Kiln does not have */
} kiln_onnx_ports;
/* Lists are in `arena`. Errors of reading a file; INVALID_ARGUMENT: the file is no model. */
KILN_MUST_USE kiln_status kiln_onnx_ports_read(const char *path, kiln_arena *arena,
                                               kiln_onnx_ports *out_ports);

/* Whether the model is ONNX with weights in a file beside it, so that its file alone is of no use
 * to another machine. Errors of kiln_model_file_map. */
KILN_MUST_USE kiln_status kiln_onnx_is_external_read(const char *path, bool *out_is_external);

/* One data set of ONNX's backend tests: FOLDER/model.onnx with
 * FOLDER/test_data_set_N/{input,output}_K.pb. Tensor K gets the name of the model's K-th input or
 * output. (Files hold bf16 as the bits in u16; such a tensor gets its port's type.) */
typedef struct kiln_data_set {
    uint32_t input_count, output_count;
    kiln_named_tensor *input, *output;
} kiln_data_set;
/* There may be fewer files than ports. NOT_FOUND: there is no data set of that number.
 * INVALID_ARGUMENT: a file holds something else than a tensor (a sequence, an optional value), or
 * there are more files than ports. */
KILN_MUST_USE kiln_status kiln_onnx_data_set_load(const char *folder, uint32_t number,
                                                  kiln_arena *arena, kiln_data_set *out_set);

#endif
