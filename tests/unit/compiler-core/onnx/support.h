/* What tests of ONNX share: models written field by field, as no tool would write them. Numbers of
 * fields are those of onnx.proto. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_ONNX_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_ONNX_SUPPORT_H

#include "compiler-core/graph/graph.h"
#include "compiler-core/onnx/onnx.h"
#include "tests/support/test.h"

/* A message as bytes in an arena; functions append a field and return the longer message. */
typedef struct message {
    kiln_arena *arena;
    kiln_str bytes;
} message;

message message_of(kiln_arena *arena);
message with_int(message m, uint32_t field, int64_t value);
message with_float(message m, uint32_t field, float value);
message with_text(message m, uint32_t field, const char *text);
message with_bytes(message m, uint32_t field, const void *data, size_t size);
message with_message(message m, uint32_t field, message part);

/* NodeProto: operands and results separated by spaces ("-": left out). */
message node_of(kiln_arena *arena, const char *op, const char *inputs, const char *outputs);
message with_attr_int(message node, const char *name, int64_t value);
message with_attr_float(message node, const char *name, float value);
message with_attr_text(message node, const char *name, const char *value);
message with_attr_ints(message node, const char *name, const int64_t *value, uint32_t count);
message with_attr_tensor(message node, const char *name, message tensor);
/* TensorProto with raw data. */
message floats_of(kiln_arena *arena, const char *name, const float *data, int64_t count);
message i64s_of(kiln_arena *arena, const char *name, const int64_t *data, int64_t count);

/* A model of that opset: `input` and `output` are ports like "x:2,3" or "x:n,4" of f32, separated
 * by spaces. */
typedef struct model_parts {
    int64_t opset;
    const char *input, *output;
    uint32_t node_count, initializer_count;
    message node[16], initializer[8];
} model_parts;
kiln_str model_of(kiln_arena *arena, const model_parts *parts);

/* Imports; fails the test when that is refused. */
kiln_graph *import_of(kiln_arena *arena, const model_parts *parts);
/* Text of the graph below "graph NAME". */
char *text_of_import(kiln_arena *arena, const model_parts *parts);
void expect_import_refused(kiln_arena *arena, const model_parts *parts, kiln_code code,
                           const char *needle);

#endif
