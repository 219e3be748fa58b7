/* ONNX models. The wire format is protobuf, read by protobuf-c from the distribution's onnx.proto;
 * no other folder sees a generated type. Private to the front end; tensors and data sets are in
 * frontend/data_set.h. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_ONNX_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_ONNX_H

#include "compiler-core/frontend/frontend.h"

#define KILN_ONNX_OPSET_MIN 1
#define KILN_ONNX_OPSET_MAX 27

/* The row of frontends.def. */
bool kiln_onnx_probe(kiln_str bytes);
KILN_MUST_USE kiln_status kiln_onnx_import(kiln_str bytes, const char *folder,
                                           const kiln_import_options *options, kiln_arena *arena,
                                           kiln_graph **out_graph);

#endif
