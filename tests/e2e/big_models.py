"""Models of very many small nodes: work that grows with the square of their number shows here."""
import random
import struct

from onnx_file import BOOL, FLOAT, graph, model, node, port, tensor

WIDTH = 8
ROW, IMAGE = [1, WIDTH], [1, WIDTH, 16, 16]


class Part:
    """Nodes between an input and an output of one shape, all names beginning with that of the part."""

    def __init__(self, name, dims):
        self.name, self.dims, self.nodes, self.weights = name, dims, [], []
        self.ports = [port(f"{name}.x", dims)]

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(node(op, " ".join(f"{self.name}.{one}" for one in inputs.split()), f"{self.name}.{output}", **attributes))

    def add_chain(self, op, count, constants="", **attributes):
        for i in range(count):
            self.add(op, f"{f'v{i - 1}' if i else 'x'} {constants}", f"v{i}" if i + 1 < count else "y", **attributes)

    def add_weights(self, name, dims, seed=1):
        draw, count = random.Random(seed), 1
        for extent in dims:
            count *= extent
        data = struct.pack(f"<{count}f", *(draw.uniform(0.1, 0.4) for _ in range(count)))
        self.weights.append(tensor(f"{self.name}.{name}", FLOAT, dims, data))


def chain(count):
    """Products by one matrix, one after the other: none joins another's kernel."""
    part = Part("chain", ROW)
    part.add_weights("w", [WIDTH, WIDTH])
    part.add_chain("MatMul", count, "w")
    return part


def elements(count):
    """Element by element: as many as a kernel may have join it."""
    part = Part("elements", ROW)
    part.add_chain("Sigmoid", count)
    return part


def convolutions(count):
    """3x3 convolutions of 8 channels that share weights."""
    part = Part("convolutions", IMAGE)
    part.add_weights("w", [WIDTH, WIDTH, 3, 3])
    part.add_chain("Conv", count, "w", pads=[1] * 4)
    return part


def normalised(count):
    """The same with a batch normalisation each, whose scales go into copies of the shared weights."""
    part = Part("normalised", IMAGE)
    part.add_weights("w", [WIDTH, WIDTH, 3, 3])
    part.add_weights("s", [WIDTH])
    for i in range(count):
        part.add("Conv", f"{f'v{i - 1}' if i else 'x'} w", f"c{i}", pads=[1] * 4)
        part.add("BatchNormalization", f"c{i} s s s s", f"v{i}" if i + 1 < count else "y")
    return part


def star(count):
    """As many values as nodes alive at once: products of one value by different matrices, then a tree of sums."""
    part, left = Part("star", ROW), [f"p{i}" for i in range(count)]
    for i in range(count):
        part.add_weights(f"w{i}", [WIDTH, WIDTH], i)
        part.add("MatMul", f"x w{i}", f"p{i}")
    while len(left) > 1:
        pairs = list(zip(left[::2], left[1::2]))
        for a, b in pairs:
            part.add("Softmax", a, f"{a}s")
            part.add("Add", f"{a}s {b}", f"{a}t")
        left = [f"{a}t" for a, _ in pairs] + left[2 * len(pairs):]
    part.add("Relu", left[0], "y")
    return part


def branches(count):
    """Each takes one of two sides by what the one before computed: known at run time only."""
    part = Part("branches", ROW)
    part.ports.append(port("branches.c0", [1], BOOL))
    for i in range(count):
        a, b = f"v{i - 1}" if i else "x", f"v{i}" if i + 1 < count else "y"
        sides = {f"{side}_branch": ("graph", graph([node(op, f"branches.{a}", f"{side}{i}")], [], [port(f"{side}{i}", ROW)]))
                 for side, op in (("then", "Relu"), ("else", "Neg"))}
        part.add("If", f"c{i}", b, **sides)
        part.add("Not", f"c{i}", f"c{i + 1}")
    return part


PARTS = {made.__name__: made for made in (chain, elements, convolutions, normalised, star, branches)}


def model_of(*parts):
    """One model in which the parts stand side by side."""
    return model([n for part in parts for n in part.nodes], [p for part in parts for p in part.ports],
                 [port(f"{part.name}.y", part.dims) for part in parts], [w for part in parts for w in part.weights])
