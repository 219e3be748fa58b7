#!/usr/bin/env python3
"""What ONNX Runtime says of the graph fuzzer's graphs.

Reads a folder a line from stdin (model.onnx, test_data_set_0/input_K.pb, output_K.pb, tolerance_K.pb), runs the
model as it stands (no optimisation, one thread), compares its outputs with the expected ones, and answers with a
line: "agrees", "refuses REASON" (a type, opset or form that ONNX Runtime has no kernel for), "differs WHERE".
tests/fuzz/graph/peer.h starts it.
"""

import os
import sys

import numpy
import onnxruntime

# TensorProto.DataType; bfloat16 is not one of numpy's types.
TYPES = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def read_tensor(path):
    """The array of a TensorProto with raw data; None where numpy has no such type."""
    with open(path, "rb") as file:
        data = file.read()
    at, dims, dtype, raw = 0, [], 0, b""
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            if key >> 3 == 1:
                dims.append(value)
            elif key >> 3 == 2:
                dtype = value
        elif key & 7 == 2:
            size, at = varint(data, at)
            if key >> 3 == 9:
                raw = data[at:at + size]
            at += size
        else:
            raise ValueError(path)
    return numpy.frombuffer(raw, TYPES[dtype]).reshape(dims) if dtype in TYPES else None


def read_all(folder, kind):
    count = 0
    while os.path.exists(path := f"{folder}/test_data_set_0/{kind}_{count}.pb"):
        yield read_tensor(path)
        count += 1


def difference(name, actual, expected, tolerance):
    """Text of what differs; empty: nothing."""
    actual = numpy.asarray(actual)
    if tolerance.size and numpy.isinf(tolerance).all():
        return ""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{name}: {actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    with numpy.errstate(all="ignore"):
        if expected.dtype.kind == "f":
            off = numpy.abs(actual.astype("f8") - expected.astype("f8"))
            # ONNX Runtime may take another order of sums, and its functions (logistic, tanh, erf, exp of MLAS) are
            # right to about 1e-6 of 1, not of their own value.
            largest = numpy.max(numpy.abs(expected), initial=0)
            allowed = 4 * tolerance + 2e-6 * (tolerance > 0) * numpy.maximum(largest, 1)
            wrong = ~((off <= allowed) | numpy.isinf(tolerance) | (actual == expected) | (numpy.isnan(actual) & numpy.isnan(expected)))
        else:
            wrong = (actual != expected) & ~numpy.isinf(tolerance)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return (f"{name}: {int(wrong.sum())} of {wrong.size} elements differ, first {list(first)}: ONNX Runtime has "
            f"{actual[first]}, the interpreter {expected[first]} +- {tolerance[first]:.3g}")


def judge(folder):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    inputs = list(read_all(folder, "input"))
    expected = list(read_all(folder, "output"))
    tolerance = list(read_all(folder, "tolerance"))
    if any(x is None for x in inputs):
        return "refuses inputs of bfloat16"
    try:
        session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])
        names = [port.name for port in session.get_inputs()]
        ports = session.get_outputs()
        wanted = [i for i, x in enumerate(expected) if x is not None]
        outputs = session.run([ports[i].name for i in wanted], dict(zip(names, inputs)))
    except Exception as error:  # whatever it raises is its refusal
        return "refuses " + " ".join(str(error).split())[:300]
    for i, actual in zip(wanted, outputs):
        text = difference(ports[i].name, actual, expected[i], tolerance[i])
        if text:
            return "differs " + text
    return "agrees"


def main():
    for line in sys.stdin:
        print(judge(line.rstrip("\n")), flush=True)


if __name__ == "__main__":
    main()
