/* ModelProto to graph. Private to this folder. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_IMPORT_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_IMPORT_H

#include "compiler-core/frontend/onnx/proto.h"

/* Errors are those of kiln_import_bytes. Nothing in the graph points into `model`. */
KILN_MUST_USE kiln_status kiln_import_model(const Onnx__ModelProto *model, const char *folder,
                                            const kiln_import_options *options, kiln_arena *arena,
                                            kiln_graph **out_graph);

/* The same, and frees the data of each initialiser once it is copied, so that a model of gigabytes
 * is not in memory twice. `model` can only be freed afterwards. */
KILN_MUST_USE kiln_status kiln_import_model_once(Onnx__ModelProto *model, const char *folder,
                                                 const kiln_import_options *options,
                                                 kiln_arena *arena, kiln_graph **out_graph);

#endif
