/* ONNX models in and out. The wire format is protobuf, read by protobuf-c from the distribution's
 * onnx.proto; no other folder sees a generated type.
 *
 * Models are hostile input: every size, count and depth is checked before it is used. Everything
 * that is not supported is reported at once, one line per finding (node, operator, opset,
 * attribute, reason). */
#ifndef KILN_COMPILER_CORE_ONNX_ONNX_H
#define KILN_COMPILER_CORE_ONNX_ONNX_H

#include "base/status.h"
#include "base/tensor.h"
#include "compiler-core/graph/graph.h"

#define KILN_ONNX_FILE_BYTES_MAX ((size_t)2 << 30) /* protobuf's own limit */
#define KILN_ONNX_OPSET_MIN 1
#define KILN_ONNX_OPSET_MAX 27

typedef struct kiln_named_tensor {
    kiln_str name;
    kiln_tensor tensor;
} kiln_named_tensor;

typedef struct kiln_onnx_options {
    /* Values of graph inputs by name. An input that some operator needs as a value (shape, axes,
     * pads, ...) is taken from here and becomes a constant; the others stay inputs, and take only
     * dimensions from here that the model leaves open. */
    uint32_t known_count;
    const kiln_named_tensor *known;
    /* Values of open dimensions of inputs by name ("batch"; one that the model leaves unnamed is
     * called by its input and place, "x.0"): [dim_count]. One that is not listed is an error, and
     * so is a name that no input has. */
    uint32_t dim_count;
    const kiln_str *dim_name;
    const int64_t *dim_value;
    /* Set to the number of inputs that became constants; may be NULL. */
    uint32_t *out_bound_count;
} kiln_onnx_options;

/* Imports a file. External tensor data is read from the file's own folder only (no absolute path,
 * no "..", no symbolic link that leaves it). `options` may be NULL. Tensor data is copied into
 * `arena`. INVALID_ARGUMENT: not a model, or one that contradicts itself. UNIMPLEMENTED: the list
 * of what is not supported. NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE: the file or its external
 * data. */
KILN_MUST_USE kiln_status kiln_onnx_load(const char *path, const kiln_onnx_options *options,
                                         kiln_arena *arena, kiln_graph **out_graph);
/* The same from memory; `folder` is where external data may be (NULL: nowhere). */
KILN_MUST_USE kiln_status kiln_onnx_import(kiln_str bytes, const char *folder,
                                           const kiln_onnx_options *options, kiln_arena *arena,
                                           kiln_graph **out_graph);
/* Appends the model as one piece: the file's own bytes, or with external data folded into it and
 * the dimensions of `options` (NULL: none) filled in. Errors as kiln_onnx_load's; unsupported
 * operators and open dimensions are not looked at. */
KILN_MUST_USE kiln_status kiln_onnx_embed(const char *path, const kiln_onnx_options *options,
                                          kiln_strbuf *out);
/* One TensorProto (the .pb files of test data sets); its name may be empty. */
KILN_MUST_USE kiln_status kiln_onnx_tensor_load(const char *path, kiln_arena *arena,
                                                kiln_named_tensor *out_tensor);
KILN_MUST_USE kiln_status kiln_onnx_tensor_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_named_tensor *out_tensor);

/* Size, names and types of the model's outputs and non-initialised inputs, without importing it. */
typedef struct kiln_onnx_ports {
    uint32_t node_count, input_count, output_count;
    kiln_str *input, *output;
    kiln_dtype *input_dtype, *output_dtype; /* NONE: no tensor, or of a type that Kiln has not */
} kiln_onnx_ports;
KILN_MUST_USE kiln_status kiln_onnx_ports_read(const char *path, kiln_arena *arena,
                                               kiln_onnx_ports *out_ports);

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
