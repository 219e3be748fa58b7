#!/usr/bin/python3
"""Trains the demo's network and writes digits.onnx, images.npy and labels.npy beside this file.

The data are the 1,797 handwritten digits (8x8, values 0..16) inside Debian's python3-sklearn; every
fifth image is kept for testing. The network: three 3x3 convolutions, each with batch normalization, the
last two in a residual block, max pooling, and a dense layer. Everything is plain numpy with fixed seeds.

    apt-get install python3-sklearn python3-numpy python3-onnx
    examples/digits/train.py
"""
import pathlib

import numpy as np
import onnx
import onnx.numpy_helper
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).parent
CHANNELS, EPOCHS, BATCH, RATE, MOMENTUM, EPS = 32, 30, 64, 0.05, 0.9, 1e-5


def columns(x):
    """[n, c, h, w] -> the 3x3 neighbourhoods of every pixel, [n, h, w, c * 9]; zero padding."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, axis=2).transpose(0, 3, 4, 1, 2).reshape(n, h, w, c * 9)


class Conv:
    def __init__(self, rng, c_in, c_out):
        self.weight = (rng.standard_normal((c_out, c_in, 3, 3)) * np.sqrt(2 / (9 * c_in))).astype(np.float32)
        self.params = ["weight"]

    def forward(self, x, training):
        self.shape, self.cols = x.shape, columns(x)
        return (self.cols @ self.weight.reshape(len(self.weight), -1).T).transpose(0, 3, 1, 2)

    def backward(self, g):
        n, c, h, w = self.shape
        flat = g.transpose(0, 2, 3, 1).reshape(-1, g.shape[1])
        self.grad = {"weight": (flat.T @ self.cols.reshape(len(flat), -1)).reshape(self.weight.shape)}
        taps = (flat @ self.weight.reshape(len(self.weight), -1)).reshape(n, h, w, c, 3, 3)
        out = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                out[:, :, i:i + h, j:j + w] += taps[..., i, j].transpose(0, 3, 1, 2)
        return out[:, :, 1:-1, 1:-1]


class BatchNorm:
    def __init__(self, channels):
        self.scale, self.bias = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        self.params = ["scale", "bias"]

    def forward(self, x, training):
        if training:
            mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            self.mean += 0.1 * (mean - self.mean)
            self.var += 0.1 * (var - self.var)
        else:
            mean, var = self.mean, self.var
        self.inverse = 1 / np.sqrt(var + EPS)
        self.normal = (x - mean[:, None, None]) * self.inverse[:, None, None]
        return self.normal * self.scale[:, None, None] + self.bias[:, None, None]

    def backward(self, g):
        axes, count = (0, 2, 3), g.size / g.shape[1]
        self.grad = {"scale": (g * self.normal).sum(axes), "bias": g.sum(axes)}
        inner = g - (self.grad["bias"] / count)[:, None, None] - self.normal * (self.grad["scale"] / count)[:, None, None]
        return inner * (self.scale * self.inverse)[:, None, None]


class Relu:
    params = []

    def forward(self, x, training):
        self.mask = x > 0
        return x * self.mask

    def backward(self, g):
        return g * self.mask


class MaxPool:
    params = []

    def forward(self, x, training):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max(axis=(3, 5))
        self.mask = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, g):
        return (self.mask * g[:, :, :, None, :, None]).reshape(g.shape[0], g.shape[1], g.shape[2] * 2, g.shape[3] * 2)


class Dense:
    def __init__(self, rng, n_in, n_out):
        self.weight = (rng.standard_normal((n_out, n_in)) * np.sqrt(1 / n_in)).astype(np.float32)
        self.bias = np.zeros(n_out, np.float32)
        self.params = ["weight", "bias"]

    def forward(self, x, training):
        self.shape, self.flat = x.shape, x.reshape(len(x), -1)
        return self.flat @ self.weight.T + self.bias

    def backward(self, g):
        self.grad = {"weight": g.T @ self.flat, "bias": g.sum(axis=0)}
        return (g @ self.weight).reshape(self.shape)


class Network:
    def __init__(self, rng):
        self.stem = [Conv(rng, 1, CHANNELS), BatchNorm(CHANNELS), Relu()]
        self.branch = [Conv(rng, CHANNELS, CHANNELS), BatchNorm(CHANNELS), Relu(),
                       Conv(rng, CHANNELS, CHANNELS), BatchNorm(CHANNELS)]
        self.head = [Relu(), MaxPool(), Dense(rng, CHANNELS * 16, 10)]
        self.layers = self.stem + self.branch + self.head

    def forward(self, x, training=False):
        for layer in self.stem:
            x = layer.forward(x, training)
        shortcut = x
        for layer in self.branch:
            x = layer.forward(x, training)
        x = x + shortcut
        for layer in self.head:
            x = layer.forward(x, training)
        return x

    def backward(self, g):
        for layer in reversed(self.head):
            g = layer.backward(g)
        shortcut = g
        for layer in reversed(self.branch):
            g = layer.backward(g)
        g = g + shortcut
        for layer in reversed(self.stem):
            g = layer.backward(g)


def train(x, y):
    rng = np.random.default_rng(7)
    net, velocity = Network(rng), {}
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for rows in np.array_split(rng.permutation(len(x)), len(x) // BATCH):
            logits = net.forward(x[rows], training=True)
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            net.backward(p / np.float32(len(rows)))
            for at, layer in enumerate(net.layers):
                for name in layer.params:
                    v = velocity.setdefault((at, name), np.zeros_like(getattr(layer, name)))
                    v *= MOMENTUM
                    v -= rate * layer.grad[name]
                    setattr(layer, name, getattr(layer, name) + v)
    return net


def export(net, path):
    nodes, constants = [], []

    def constant(name, array):
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(onnx.helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def conv_norm(x, conv, norm, name):
        x = node("Conv", [x, constant(name + ".weight", conv.weight)], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        scale = [constant(f"{name}.{key}", getattr(norm, key)) for key in ("scale", "bias", "mean", "var")]
        return node("BatchNormalization", [x] + scale, name + ".norm", epsilon=EPS)

    x = node("Relu", [conv_norm("image", net.stem[0], net.stem[1], "conv1")], "relu1")
    shortcut = x
    x = node("Relu", [conv_norm(x, net.branch[0], net.branch[1], "conv2")], "relu2")
    x = conv_norm(x, net.branch[3], net.branch[4], "conv3")
    x = node("Relu", [node("Add", [x, shortcut], "add")], "relu3")
    x = node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", [x], "flat", axis=1)
    dense = net.head[2]
    x = node("Gemm", [x, constant("dense.weight", dense.weight), constant("dense.bias", dense.bias)], "logits", transB=1)
    node("Softmax", [x], "probability", axis=1)

    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "digits", [value("image", onnx.TensorProto.FLOAT, [1, 1, 8, 8])],
                                   [value("probability", onnx.TensorProto.FLOAT, [1, 10])], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8,
                                   producer_name="kiln examples/digits/train.py")
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def main():
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)[:, None]
    y = digits.target.astype(np.int64)
    test = np.arange(len(x)) % 5 == 4
    net = train(x[~test], y[~test])
    export(net, HERE / "digits.onnx")
    np.save(HERE / "images.npy", x[test])
    np.save(HERE / "labels.npy", y[test])
    right = net.forward(x[test]).argmax(axis=1) == y[test]
    print(f"{right.sum()} of {len(right)} test images right ({100 * right.mean():.2f} %)")


main()
