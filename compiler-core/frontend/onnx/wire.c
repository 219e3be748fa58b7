/* A walk over protobuf's wire format along the message descriptors. Allocates nothing. */
#include "compiler-core/frontend/onnx/wire.h"

#include "base/macros.h"
#include "compiler-core/frontend/onnx/proto.h"

typedef struct walk {
    const uint8_t *data; /* the whole input, for offsets in messages */
    uint64_t messages, items;
} walk;

static bool read_varint(kiln_str *rest, uint64_t *out_value) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && rest->size; shift += 7) {
        uint8_t byte = (uint8_t)*rest->data++;
        rest->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

static kiln_status damaged(const walk *w, kiln_str at, const char *what) {
    return KILN_ERROR(INVALID_ARGUMENT, "not an ONNX file: %s at byte %zu", what,
                      (size_t)((const uint8_t *)at.data - w->data));
}

static kiln_status check_message(walk *w, kiln_str body, const ProtobufCMessageDescriptor *type,
                                 uint32_t depth);

/* The payload of a length-delimited field. */
static kiln_status check_delimited(walk *w, kiln_str *rest, const ProtobufCFieldDescriptor *field,
                                   uint32_t depth) {
    kiln_str at = *rest;
    uint64_t size;
    if (!read_varint(rest, &size) || size > rest->size)
        return damaged(w, at, "a length that is past the end");
    kiln_str payload = kiln_str_slice(*rest, 0, size);
    rest->data += size;
    rest->size -= size;
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE) return KILN_OK;
    if (depth == 0) return damaged(w, at, "nesting too deep");
    if (++w->messages > KILN_ONNX_MESSAGES_MAX) return damaged(w, at, "too many parts");
    return check_message(w, payload, field->descriptor, depth - 1);
}

static kiln_status check_field(walk *w, kiln_str *rest, uint64_t tag,
                               const ProtobufCMessageDescriptor *type, uint32_t depth) {
    kiln_str at = *rest;
    uint64_t ignored;
    size_t fixed = 0;
    const ProtobufCFieldDescriptor *field =
        tag >> 3 <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3))
                               : NULL;
    if (++w->items > KILN_ONNX_ITEMS_MAX) return damaged(w, at, "too many items");
    switch (tag & 7) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return read_varint(rest, &ignored) ? KILN_OK : damaged(w, at, "a bad number");
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED: return check_delimited(w, rest, field, depth);
    case PROTOBUF_C_WIRE_TYPE_64BIT: fixed = 8; break;
    case PROTOBUF_C_WIRE_TYPE_32BIT: fixed = 4; break;
    default: return damaged(w, at, "a bad tag");
    }
    if (rest->size < fixed) return damaged(w, at, "the end of the data");
    rest->data += fixed;
    rest->size -= fixed;
    return KILN_OK;
}

static kiln_status check_message(walk *w, kiln_str body, const ProtobufCMessageDescriptor *type,
                                 uint32_t depth) {
    kiln_status st = KILN_OK;
    while (!st && body.size) {
        kiln_str at = body;
        uint64_t tag;
        if (!read_varint(&body, &tag) || tag >> 3 == 0) return damaged(w, at, "a bad tag");
        st = check_field(w, &body, tag, type, depth);
    }
    return st;
}

kiln_status kiln_onnx_wire_check(kiln_str bytes, const ProtobufCMessageDescriptor *type) {
    walk w = {.data = (const uint8_t *)bytes.data};
    return check_message(&w, bytes, type, KILN_ONNX_DEPTH_MAX);
}

/* Cuts a field off the front; `*out_value` of one that is no number is empty. False: no field. */
static bool cut_field(kiln_str *rest, uint64_t *out_tag, uint64_t *out_number,
                      kiln_str *out_value) {
    uint64_t size = 0;
    *out_number = 0;
    if (!read_varint(rest, out_tag)) return false;
    switch (*out_tag & 7) {
    case PROTOBUF_C_WIRE_TYPE_VARINT: return read_varint(rest, out_number);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!read_varint(rest, &size)) return false;
        break;
    case PROTOBUF_C_WIRE_TYPE_64BIT: size = 8; break;
    case PROTOBUF_C_WIRE_TYPE_32BIT: size = 4; break;
    default: return false;
    }
    if (size > rest->size) return false;
    *out_value = kiln_str_slice(*rest, 0, (size_t)size);
    *rest = kiln_str_slice(*rest, (size_t)size, rest->size);
    return true;
}

/* Whether a field at the end of `tag` [count], one in the other, is `number`. */
static bool has_field(kiln_str body, const uint64_t *tag, uint32_t count, uint64_t number) {
    uint64_t found, value;
    kiln_str inside = {0};
    while (cut_field(&body, &found, &value, &inside)) {
        if (found != *tag) continue;
        if (count == 1 ? value == number : has_field(inside, tag + 1, count - 1, number))
            return true;
    }
    return false;
}

bool kiln_onnx_wire_is_external(kiln_str model) {
    static const uint64_t tag[] = {7 << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, /* graph */
                                   5 << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, /* initializer */
                                   14 << 3 | PROTOBUF_C_WIRE_TYPE_VARINT}; /* data_location */
    return has_field(model, tag, KILN_ARRAY_COUNT(tag),
                     ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
}
