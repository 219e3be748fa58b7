#include "tests/support/onnx_message.h"

#include <string.h>

#include "compiler-core/frontend/onnx/dtype.h"

message message_of(kiln_arena *arena) { return (message){.arena = arena}; }

static message append(message m, const void *data, size_t size) {
    char *joined = kiln_arena_alloc(m.arena, m.bytes.size + size + 1);
    if (m.bytes.size) memcpy(joined, m.bytes.data, m.bytes.size);
    if (size) memcpy(joined + m.bytes.size, data, size);
    m.bytes = (kiln_str){joined, m.bytes.size + size};
    return m;
}

static message with_varint(message m, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        m = append(m, &byte, 1);
        value >>= 7;
    } while (value);
    return m;
}

message with_int(message m, uint32_t field, int64_t value) {
    return with_varint(with_varint(m, field << 3), (uint64_t)value);
}

message with_float(message m, uint32_t field, float value) {
    return append(with_varint(m, field << 3 | 5), &value, sizeof value);
}

message with_bytes(message m, uint32_t field, const void *data, size_t size) {
    return append(with_varint(with_varint(m, field << 3 | 2), size), data, size);
}

message with_text(message m, uint32_t field, const char *text) {
    return with_bytes(m, field, text, strlen(text));
}

message with_message(message m, uint32_t field, message part) {
    return with_bytes(m, field, part.bytes.data, part.bytes.size);
}

static message with_names(message m, uint32_t field, const char *names) {
    kiln_str rest = kiln_str_from(names);
    while (rest.size) {
        kiln_str name = kiln_str_cut(&rest, ' ');
        m = kiln_str_is(name, "-") ? with_text(m, field, "")
                                   : with_bytes(m, field, name.data, name.size);
    }
    return m;
}

message node_of(kiln_arena *arena, const char *op, const char *inputs, const char *outputs) {
    return with_text(with_names(with_names(message_of(arena), 1, inputs), 2, outputs), 4, op);
}

static message attr_of(message node, const char *name, int64_t type) {
    return with_int(with_text(message_of(node.arena), 1, name), 20, type);
}

message with_attr_int(message node, const char *name, int64_t value) {
    return with_message(node, 5, with_int(attr_of(node, name, 2), 3, value));
}

message with_attr_float(message node, const char *name, float value) {
    return with_message(node, 5, with_float(attr_of(node, name, 1), 2, value));
}

message with_attr_text(message node, const char *name, const char *value) {
    return with_message(node, 5, with_text(attr_of(node, name, 3), 4, value));
}

message with_attr_ints(message node, const char *name, const int64_t *value, uint32_t count) {
    message attr = attr_of(node, name, 7);
    for (uint32_t i = 0; i < count; i++) attr = with_int(attr, 8, value[i]);
    return with_message(node, 5, attr);
}

message with_attr_floats(message node, const char *name, const float *value, uint32_t count) {
    message attr = attr_of(node, name, 6);
    for (uint32_t i = 0; i < count; i++) attr = with_float(attr, 7, value[i]);
    return with_message(node, 5, attr);
}

message with_attr_texts(message node, const char *name, const char *const *value, uint32_t count) {
    message attr = attr_of(node, name, 8);
    for (uint32_t i = 0; i < count; i++) attr = with_text(attr, 9, value[i]);
    return with_message(node, 5, attr);
}

message with_attr_graph(message node, const char *name, message graph) {
    return with_message(node, 5, with_message(attr_of(node, name, 5), 6, graph));
}

message with_attr_tensor(message node, const char *name, message tensor) {
    return with_message(node, 5, with_message(attr_of(node, name, 4), 5, tensor));
}

static message tensor_of(kiln_arena *arena, const char *name, int64_t type, const void *data,
                         int64_t count, size_t each) {
    message m = with_int(with_int(message_of(arena), 1, count), 2, type);
    return with_bytes(with_text(m, 8, name), 9, data, (size_t)count * each);
}

message floats_of(kiln_arena *arena, const char *name, const float *data, int64_t count) {
    return tensor_of(arena, name, 1, data, count, sizeof *data);
}

message i64s_of(kiln_arena *arena, const char *name, const int64_t *data, int64_t count) {
    return tensor_of(arena, name, 7, data, count, sizeof *data);
}

message tensor_message(kiln_arena *arena, const char *name, const kiln_tensor *tensor) {
    message m = message_of(arena);
    for (uint32_t d = 0; d < tensor->shape.rank; d++) m = with_int(m, 1, tensor->shape.dim[d]);
    m = with_text(with_int(m, 2, kiln_onnx_dtype_number(tensor->dtype)), 8, name);
    return with_bytes(m, 9, tensor->data, kiln_tensor_bytes(tensor));
}
