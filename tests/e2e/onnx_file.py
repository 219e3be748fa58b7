"""ONNX files written field by field, as no tool would write them: numbers of fields are those of onnx.proto."""
import struct

FLOAT, UINT8, INT8, INT32, INT64, BOOL, FLOAT16, DOUBLE = 1, 2, 3, 6, 7, 9, 10, 11
FORMS = {FLOAT: "f", UINT8: "B", INT8: "b", INT32: "i", INT64: "q", BOOL: "B", DOUBLE: "d"}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """An int, a float (32 bits), or the bytes or text of a string or message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, kind, dims, data=None, external=None):
    """TensorProto: `data` as numbers or as raw bytes; `external`: pairs of key and value."""
    out = b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name)
    if external is not None:
        out += b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in external.items()) + field(14, 1)
    elif isinstance(data, bytes):
        out += field(9, data)
    else:
        out += field(9, struct.pack(f"<{len(data)}{FORMS[kind]}", *data))
    return out


def ints(name, values):
    return tensor(name, INT64, [len(values)], values)


def attribute(name, value):
    """AttributeProto by the type of `value`; ("tensor" | "graph", bytes) for messages, ("ref", NAME) for a reference."""
    out = field(1, name)
    if isinstance(value, tuple):
        what, value = value
        return out + {"tensor": lambda: field(5, value) + field(20, 4), "graph": lambda: field(6, value) + field(20, 5),
                      "ref": lambda: field(21, value)}[what]()
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return out + field(2, value) + field(20, 1)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    return out + b"".join(field(8, v) for v in value) + field(20, 7)


def node(op, inputs, outputs, domain="", **attributes):
    return (b"".join(field(1, n) for n in inputs.split()) + b"".join(field(2, n) for n in outputs.split()) + field(4, op)
            + b"".join(field(5, attribute(k, v)) for k, v in attributes.items()) + (field(7, domain) if domain else b""))


def port(name, dims, kind=FLOAT):
    """ValueInfoProto; a dimension may be a name."""
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def graph(nodes, inputs, outputs, initializers=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, i) for i in initializers)
            + b"".join(field(11, p) for p in inputs) + b"".join(field(12, p) for p in outputs))


def model(nodes, inputs, outputs, initializers=(), opset=17, opsets=(), functions=()):
    """ModelProto; `opsets`: further pairs of domain and version; `functions`: FunctionProtos."""
    return (field(1, 8) + field(8, field(1, "") + field(2, opset))
            + b"".join(field(8, field(1, d) + field(2, v)) for d, v in opsets)
            + field(7, graph(nodes, inputs, outputs, initializers)) + b"".join(field(25, f) for f in functions))
