/* ONNX models written field by field, as no tool would write them. Numbers of fields are those of
 * onnx.proto. Used by tests of the import and by the graph fuzzer. */
#ifndef KILN_TESTS_SUPPORT_ONNX_MESSAGE_H
#define KILN_TESTS_SUPPORT_ONNX_MESSAGE_H

#include "base/arena.h"
#include "base/str.h"
#include "base/tensor.h"

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
message with_attr_floats(message node, const char *name, const float *value, uint32_t count);
message with_attr_texts(message node, const char *name, const char *const *value, uint32_t count);
message with_attr_tensor(message node, const char *name, message tensor);
message with_attr_graph(message node, const char *name, message graph);
/* TensorProto with raw data. */
message floats_of(kiln_arena *arena, const char *name, const float *data, int64_t count);
message i64s_of(kiln_arena *arena, const char *name, const int64_t *data, int64_t count);
/* TensorProto of any tensor, with raw data. */
message tensor_message(kiln_arena *arena, const char *name, const kiln_tensor *tensor);

#endif
