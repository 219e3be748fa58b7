#!/usr/bin/python3
"""Compares classifier outputs: accuracy.py LABELS.npy OUTPUT.npy [OTHER.npy]

Prints the share of rows of OUTPUT (f32 [n, classes]) whose largest element is the label (i64 [n]), and fails
when OTHER predicts another class for any row. Needs nothing but Python itself."""
import array
import ast
import sys


def read_npy(path):
    with open(path, "rb") as f:
        f.seek(8)
        header = ast.literal_eval(f.read(int.from_bytes(f.read(2), "little")).decode())
        values = array.array({"<f4": "f", "<i8": "q"}[header["descr"]])
        values.frombytes(f.read())
    return header["shape"], values


def classes(path):
    (rows, width), values = read_npy(path)
    return [max(range(width), key=lambda c: values[r * width + c]) for r in range(rows)]


labels = list(read_npy(sys.argv[1])[1])
predicted = classes(sys.argv[2])
if len(labels) != len(predicted):
    sys.exit(f"{sys.argv[2]} has {len(predicted)} rows, there are {len(labels)} labels")
print(f"{sum(p == t for p, t in zip(predicted, labels)) / len(labels):.4f}")
if len(sys.argv) > 3:
    changed = [r for r, (p, q) in enumerate(zip(predicted, classes(sys.argv[3]))) if p != q]
    if changed:
        sys.exit(f"{len(changed)} rows are predicted differently, first row {changed[0]}")
