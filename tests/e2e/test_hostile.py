#!/usr/bin/env python3
"""Small files that demand much work: each ends soon and in little memory, with one clear error or with the correct result."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import threading

import harness
import wire
from onnx_file import BOOL, DOUBLE, FLOAT, INT32, INT64, field, graph, ints, model, node, port, tensor, varint

SECONDS_MIN = 2  # of processor time that a command may always take; on slow machines three times what MobileNet v1 takes there
SECONDS_MAX = []  # that, once measured
BYTES_MAX = 512 << 20  # resident at most
ERROR_BYTES_MAX = 5000  # a list of findings is cut at this
BIG = 1 << 31


def measure(world, *argv):
    """Runs the command; returns its exit code, what it said on stderr, its processor time and its largest resident set."""
    log = world.path("stderr")
    with open(log, "w") as err:
        child = subprocess.Popen([harness.program("kiln"), *map(str, argv)], env=world.env, cwd=world.folder,
                                 stdout=subprocess.DEVNULL, stderr=err, stdin=subprocess.DEVNULL,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)))
        hung = threading.Timer(30, child.kill)
        hung.start()
        _, status, used = os.wait4(child.pid, 0)
        hung.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, pathlib.Path(log).read_text(), used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def run_bounded(world, *argv):
    """The same of a command that `check` judges."""
    if not SECONDS_MAX:
        honest = measure(world, "compile", world.zoo("mobilenet_v1"), "-o", world.path("honest.kiln"))
        assert honest[0] == 0, honest
        SECONDS_MAX.append(max(SECONDS_MIN, 3 * honest[2]))
    return measure(world, *argv)


def repeat(one, count):
    return [one(i) for i in range(count)]


def chain(op, count, **attributes):
    return [node(op, f"v{i}" if i else "x", f"v{i + 1}", **attributes) for i in range(count)]


def unary(op, dims=(4,), out=(4,), kind=FLOAT, to=None, constants=(), inputs="x", opset=17, **attributes):
    return model([node(op, inputs, "y", **attributes)], [port("x", dims, kind)], [port("y", out, to or kind)], constants, opset)


def branches(depth, name="c"):
    """If within If within If ..."""
    inner = graph([node("Identity", "x", f"y{depth}")], [], [port(f"y{depth}", [4])])
    for level in range(depth - 1, -1, -1):
        both = {"then_branch": ("graph", inner), "else_branch": ("graph", inner)}
        inner = graph([node("If", name, f"y{level}", **both)], [], [port(f"y{level}", [4])])
    return inner


def nested(depth, name):
    """`depth` branches, one within the other; their size does not double as that of `branches` does."""
    inner = graph([node("Identity", "x", f"y{depth}")], [], [port(f"y{depth}", [4])])
    leaf = graph([node("Identity", "x", "z")], [], [port("z", [4])])
    for level in range(depth - 1, -1, -1):
        both = {"then_branch": ("graph", inner), "else_branch": ("graph", leaf)}
        inner = graph([node("If", name, f"y{level}", **both)], [], [port(f"y{level}", [4])])
    return inner


def whole(inner, inputs, outputs, constants=()):
    """A model of one If around `inner`."""
    both = {"then_branch": ("graph", inner), "else_branch": ("graph", inner)}
    return model([node("If", "c", "y0", **both)], inputs, outputs, constants)


def loop(trips, body_nodes, carried="v"):
    body = graph([node("Identity", "cond", "cond_out"), *body_nodes], [port("i", [], INT64), port("cond", [], BOOL), port(carried, [4])],
                 [port("cond_out", [], BOOL), port("out", [4])])
    return model([node("Loop", "n t x", "y", body=("graph", body))], [port("x", [4])], [port("y", [4])],
                 [tensor("n", INT64, [], [trips]), tensor("t", BOOL, [], [1])])


def constant_of(shape, then=(), out=None, kind=FLOAT):
    nodes = [node("ConstantOfShape", "s", "c" if then else "y"), *then]
    return model(nodes, [port("x", [4])], [port("y", out if out is not None else shape, kind)], [ints("s", shape)])


# name -> the file, and what its one error says; None: it compiles
FILES = {
    "constant_of_2_31": (constant_of([BIG]), None),
    "constant_of_2_31_added": (model([node("ConstantOfShape", "s", "c"), node("Add", "c x", "y")], [port("x", [1])], [port("y", [BIG])],
                                     [ints("s", [BIG])]), None),
    "constant_of_2_31_summed": (constant_of([BIG], [node("ReduceSum", "c", "y", keepdims=0)], []), None),
    "constant_of_2_40": (constant_of([1 << 40]), "larger than"),
    "constant_of_overflow": (constant_of([1 << 62, 1 << 62, 4]), "larger than"),
    "constant_of_many": (model(repeat(lambda i: node("ConstantOfShape", "s", f"y{i}"), 200), [port("x", [4])],
                               repeat(lambda i: port(f"y{i}", [1 << 26]), 200), [ints("s", [1 << 26])]), None),
    "range_2_28": (model([node("Range", "a b c", "y")], [port("x", [4])], [port("y", [1 << 28], INT64)],
                         [tensor("a", INT64, [], [0]), tensor("b", INT64, [], [1 << 28]), tensor("c", INT64, [], [1])]), "make take more than"),
    "range_2_23": (model([node("Range", "a b c", "y")], [port("x", [4])], [port("y", [1 << 23], INT64)],
                         [tensor("a", INT64, [], [0]), tensor("b", INT64, [], [1 << 23]), tensor("c", INT64, [], [1])]), None),
    "range_2_62": (model([node("Range", "a b c", "y")], [port("x", [4])], [port("y", [1 << 28], INT64)],
                         [tensor("a", INT64, [], [0]), tensor("b", INT64, [], [1 << 62]), tensor("c", INT64, [], [1])]), "too many"),
    "range_by_zero": (model([node("Range", "a b c", "y")], [port("x", [4])], [port("y", [1], INT64)],
                            [tensor("a", INT64, [], [0]), tensor("b", INT64, [], [9]), tensor("c", INT64, [], [0])]), "too many"),
    "expand_constant": (model([node("Expand", "c s", "y")], [port("x", [4])], [port("y", [BIG])],
                              [tensor("c", FLOAT, [1], [1]), ints("s", [BIG])]), None),
    "expand_overflow": (unary("Expand", constants=[ints("s", [1 << 40, 1 << 40, 4])], inputs="x s", out=(4,)), "larger than"),
    "tile_constant": (model([node("Tile", "c r", "y")], [port("x", [4])], [port("y", [BIG])],
                            [tensor("c", FLOAT, [1], [1]), ints("r", [BIG])]), None),
    "tile_overflow": (unary("Tile", constants=[ints("r", [1 << 62])], inputs="x r"), "out of range"),
    "tile_negative": (unary("Tile", constants=[ints("r", [-1])], inputs="x r"), "repeats"),
    "one_hot_deep": (model([node("OneHot", "i d v", "y")], [port("i", [64], INT64)], [port("y", [64, 1 << 40])],
                           [tensor("d", INT64, [1], [1 << 40]), tensor("v", FLOAT, [2], [0, 1])]), "larger than"),
    "one_hot_constant": (model([node("OneHot", "i d v", "y")], [port("x", [4])], [port("y", [4096, 1 << 17])],
                               [ints("i", list(range(4096))), tensor("d", INT64, [1], [1 << 17]), tensor("v", FLOAT, [2], [0, 1])]), None),
    "pad_huge": (unary("Pad", constants=[ints("p", [1 << 40, 0])], inputs="x p"), "out of range"),
    "pad_overflow": (unary("Pad", constants=[ints("p", [(1 << 63) - 1, (1 << 63) - 1])], inputs="x p"), "pads"),
    "pad_constant": (model([node("Pad", "c p", "y")], [port("x", [4])], [port("y", [(1 << 28) + 1])],
                           [tensor("c", FLOAT, [1], [1]), ints("p", [1 << 28, 0])]), None),
    "resize_huge": (unary("Resize", (1, 1, 4, 4), (1, 1, 4, 4), constants=[ints("s", [1, 1, 1 << 30, 1 << 30]), tensor("e", FLOAT, [0], [])],
                          inputs="x e e s"), ""),
    "resize_by_huge_scale": (model([node("Upsample", "x s", "y")], [port("x", [1, 1, 4, 4])], [port("y", [1, 1, 4, 4])],
                                   [tensor("s", FLOAT, [4], [1, 1, 1e30, 1e30])], opset=9), "scales"),
    "eye_like_huge": (unary("EyeLike", (1 << 15, 1 << 15), (1 << 15, 1 << 15), opset=9), "make take more than"),
    "eye_like": (unary("EyeLike", (100, 200), (100, 200), opset=9, k=3), None),
    "eye_like_huger": (unary("EyeLike", (1 << 20, 1 << 20), (1 << 20, 1 << 20), opset=9), "larger than"),
    "dims_product_overflows": (unary("Relu", (1 << 32, 1 << 32, 1 << 32), (1,)), "larger than"),
    "dims_negative": (unary("Relu", (-5,), (1,)), "open"),
    "initialiser_lies_about_its_size": (model([node("Add", "x w", "y")], [port("x", [4])], [port("y", [4])],
                                              [tensor("w", FLOAT, [1 << 31], b"\0" * 16)]), "16 bytes"),
    "initialiser_of_no_data": (model([node("Add", "x w", "y")], [port("x", [4])], [port("y", [4])],
                                     [field(1, BIG) + field(2, FLOAT) + field(8, "w")]), "instead of"),
    "bodies_too_deep": (whole(nested(40, "c"), [port("x", [4]), port("c", [], BOOL)], [port("y0", [4])]), ""),
    "bodies_that_double": (whole(branches(5), [port("x", [4]), port("c", [], BOOL)], [port("y0", [4])]), None),
    "nesting_without_end": (field(1, 8) + b"\x3a" + varint(5000) + b"\x3a\x10" * 2500, ""),
    "shapes_that_are_computed": (model([node("Identity", "s", "s0"), *[n for i in range(10000) for n in (
        node("Identity", f"s{i}", f"s{i + 1}"), node("Reshape", f"v{i} s{i + 1}" if i else f"x s{i + 1}", f"v{i + 1}"))]],
        [port("x", [4])], [port("v10000", [4])], [ints("s", [4])]), None),
    "nodes_300000": (model(chain("Relu", 300000), [port("x", [4])], [port("v300000", [4])]), "so many nodes"),
    "nodes_5000": (model(chain("Relu", 5000), [port("x", [4])], [port("v5000", [4])]), None),
    "products_2000": (model([node("MatMul", f"v{i} w" if i else "x w", f"v{i + 1}") for i in range(2000)], [port("x", [4, 4])],
                            [port("v2000", [4, 4])], [tensor("w", FLOAT, [4, 4], [1] * 16)]), None),
    "inputs_20000": (model([node("Relu", "x0", "y")], repeat(lambda i: port(f"x{i}", [4]), 20000), [port("y", [4])]), "20000 inputs"),
    "initialisers_listed_as_inputs": (model([node("Add", "x w0", "y")], [port("x", [4]), *repeat(lambda i: port(f"w{i}", [1]), 20000)],
                                            [port("y", [4])], repeat(lambda i: tensor(f"w{i}", FLOAT, [1], [1]), 20000)), None),
    "sum_of_300": (model([node("Sum", " ".join(["x"] * 300), "y")], [port("x", [4])], [port("y", [4])]), "inputs"),
    "outputs_300": (model([node("Split", "x", " ".join(f"y{i}" for i in range(300)))], [port("x", [300])],
                    repeat(lambda i: port(f"y{i}", [1]), 300)), "outputs"),
    "opset_huge": (unary("Relu", opset=(1 << 62)), "newest known"),
    "opset_zero": (unary("Relu", opset=0), "opset 0"),
    "attribute_of_million_items": (unary("Transpose", perm=[0] * 1000000), "too many items"),
    "axes_100000": (unary("ReduceSum", axes=[0] * 60000, opset=11), "axes"),
    "rank_100": (unary("Relu", [1] * 100, [1] * 100), "dimensions"),
    "cycle": (model([node("Add", "x b", "a"), node("Add", "x a", "b")], [port("x", [4])], [port("b", [4])]), "no earlier node"),
    "reads_itself": (model([node("Add", "x y", "y")], [port("x", [4])], [port("y", [4])]), "no earlier node"),
    "two_inputs_of_a_name": (model([node("Relu", "x", "y")], [port("x", [4]), port("x", [8])], [port("y", [4])]), 'two inputs of the model are called "x"'),
    "two_outputs_of_a_name": (model([node("Relu", "x", "y")], [port("x", [4])], [port("y", [4]), port("y", [4])]), 'two outputs of the model are called "y"'),
    "two_nodes_write_a_name": (model([node("Relu", "x", "y"), node("Neg", "x", "y")], [port("x", [4])], [port("y", [4])]), "defined twice"),
    "loop_2_40": (loop(1 << 40, [node("Add", "v x", "out")]), "more than 4096 iterations"),
    "loop_without_end": (loop((1 << 63) - 1, [node("Add", "v x", "out")]), "more than 4096 iterations"),
    "top_k_of_million": (model([node("TopK", "x k", "y i")], [port("x", [1000000])], [port("y", [10]), port("i", [10], INT64)], [ints("k", [10])]), None),
    "folded_convolution": (model([node("ConstantOfShape", "a", "p"), node("ConstantOfShape", "b", "q"), node("Conv", "p q", "r"), node("Add", "x r", "y")],
                                 [port("x", [1])], [port("y", [1, 256, 222, 222])], [ints("a", [1, 256, 224, 224]), ints("b", [256, 256, 3, 3])]), None),
    "folded_product_as_shape": (model([node("ConstantOfShape", "a", "p"), node("MatMul", "p p", "m"), node("ReduceSum", "m", "s", keepdims=0),
                                       node("Cast", "s", "n", to=INT64), node("Reshape", "n one", "d"), node("Expand", "x d", "y")],
                                      [port("x", [1])], [port("y", [1])], [ints("a", [3000, 3000]), ints("one", [1])]), ""),
    "folded_chain_of_large": (model([node("ConstantOfShape", "a", "v0"), *[node("Relu", f"v{i}", f"v{i + 1}") for i in range(100)], node("Add", "x v100", "y")],
                                    [port("x", [1])], [port("y", [1 << 22])], [ints("a", [1 << 22])]), None),
    "window_huge": (unary("MaxPool", (1, 1, 64, 64), (1, 1, 1, 1), kernel_shape=[1 << 40, 1 << 40], pads=[1 << 40] * 4), ""),
    "pool_pads_huge": (unary("AveragePool", (1, 1, 8, 8), (1, 1, 1, 1), kernel_shape=[2, 2], pads=[1 << 34] * 4), ""),
    "strides_zero": (unary("MaxPool", (1, 1, 8, 8), (1, 1, 1, 1), kernel_shape=[2, 2], strides=[0, 0]), "strides"),
    "lstm_long": (model([node("LSTM", "x w r", "y", hidden_size=4)], [port("x", [100000, 1, 4])], [port("y", [100000, 1, 1, 4])],
                        [tensor("w", FLOAT, [1, 16, 4], [0] * 64), tensor("r", FLOAT, [1, 16, 4], [0] * 64)]), None),
    "einsum_of_many_letters": (unary("Einsum", equation="a" * 5000 + "->a"), ""),
    "name_of_megabyte": (model([node("Relu", "x", "y" * (1 << 20))], [port("x", [4])], [port("y" * (1 << 20), [4])]), "has 1048576 bytes"),
    "external_device": (model([node("Add", "x w", "y")], [port("x", [4])], [port("y", [4])],
                              [tensor("w", FLOAT, [4], external={"location": "/dev/zero"})]), "absolute path"),
}


def loose(name, kind=FLOAT):
    """A port without a shape."""
    return field(1, name) + field(2, field(1, field(1, kind)))


def made(name, dims, value=None, kind=FLOAT):
    """A constant that takes no room in the file: its node, and its initialiser."""
    how = {} if value is None else {"value": ("tensor", tensor("v", kind, [1], [value]))}
    return node("ConstantOfShape", name + ".s", name, **how), ints(name + ".s", dims)


def on_made(op, shapes, out="y", opset=17, kinds=None, constants=(), inputs="", **attributes):
    """One operator on such constants, a, b, c, ... and on `inputs`."""
    names = "abcdefgh"[:len(shapes)]
    pairs = [made(name, dims, 1, (kinds or {}).get(i, FLOAT)) for i, (name, dims) in enumerate(zip(names, shapes))]
    return model([*(one for one, _ in pairs), node(op, " ".join([*names, *inputs.split()]), out, **attributes)], [port("z", [1])],
                 [loose(out.split()[0])], [*(two for _, two in pairs), *constants], opset)


def nested_loops(depth, trips=32):
    body = [node("Add", "v v", "out")]
    for d in range(depth):
        inner = graph([node("Identity", f"cond{d}", f"cond_out{d}"), *body],
                      [port(f"i{d}", [], INT64), port(f"cond{d}", [], BOOL), port(f"v{d}" if d else "v", [4])],
                      [port(f"cond_out{d}", [], BOOL), port(f"o{d - 1}" if d else "out", [4])])
        body = [node("Loop", f"n t {'x' if d == depth - 1 else f'v{d + 1}'}", "y" if d == depth - 1 else f"o{d}", body=("graph", inner))]
    return model(body, [port("x", [4])], [port("y", [4])], [tensor("n", INT64, [], [trips]), tensor("t", BOOL, [], [1])])


def external(**data):
    return model([node("Add", "x w", "y")], [port("x", [4])], [port("y", [4])], [tensor("w", FLOAT, [4], external=data)])


def in_graph(content):
    """A model whose graph has these bytes."""
    return b"\x08\x08\x3a" + varint(len(content)) + content


def function(name, *nodes):
    return (field(1, name) + field(4, "a") + field(5, "c") + b"".join(field(7, n) for n in nodes)
            + field(9, field(1, "f") + field(2, 1)) + field(10, "f"))


def chained(nodes, constants, out, inputs=None):
    return model(nodes, inputs or [port("z", [1])], [loose(out)], constants)


X4 = [port("x", [4])], [port("y", [4])]
SCALE = [ints("s", [1, 1, 2000, 2000]), tensor("e", FLOAT, [0], [])]
AXIS = [tensor("q", INT64, [], [0])]

# The same, but each constant is made by a node, so that the file has some hundred bytes whatever it asks for.
MADE = {
    "resize_cubic": (on_made("Resize", [[1, 1, 500, 500]], constants=SCALE, inputs="e e s", mode="cubic", antialias=1), None),
    "lp_normalization": (on_made("LpNormalization", [[1 << 22]]), None),
    "softmax": (on_made("Softmax", [[1 << 11, 1 << 11]]), None),
    "top_k": (on_made("TopK", [[1 << 17]], out="y i", constants=[ints("k", [1 << 13])], inputs="k"), None),
    "scatter_elements": (on_made("ScatterElements", [[1 << 18], [1 << 16], [1 << 16]], kinds={1: INT64}), None),
    "scatter_nd": (on_made("ScatterND", [[1 << 14, 16], [1 << 14, 1], [1 << 14, 16]], kinds={1: INT64}), None),
    "gather": (on_made("Gather", [[1 << 16], [1 << 14, 1 << 10]], kinds={1: INT64}), None),
    "gather_elements": (on_made("GatherElements", [[1 << 22], [1 << 22]], kinds={1: INT64}), None),
    "gather_nd": (on_made("GatherND", [[1 << 20], [1 << 22, 1]], kinds={1: INT64}), None),
    "matmul_outer": (on_made("MatMul", [[1 << 20, 1], [1, 1 << 20]]), "larger than"),
    "matmul_inner": (on_made("MatMul", [[1, 1 << 24], [1 << 24, 1]]), None),
    "add_outer": (on_made("Add", [[1 << 16, 1], [1, 1 << 16]]), None),
    "where_outer": (on_made("Where", [[1 << 15, 1, 1], [1, 1 << 15, 1], [1, 1, 1 << 15]], kinds={0: BOOL}), "larger than"),
    "split": (on_made("Split", [[1 << 24]], out="y " + " ".join(f"q{i}" for i in range(15))), None),
    "depth_to_space": (on_made("DepthToSpace", [[1, 1 << 20, 2, 2]], blocksize=1024), None),
    "conv_transpose_strides": (on_made("ConvTranspose", [[1, 1, 64, 64], [1, 1, 3, 3]], strides=[1 << 16] * 2), "larger than"),
    "conv_transpose_strides_overflow": (on_made("ConvTranspose", [[1, 1, 64, 64], [1, 1, 3, 3]], strides=[1 << 40] * 2), "out of range"),
    "conv_dilations": (on_made("Conv", [[1, 1, 1 << 12, 1 << 12], [1, 1, 3, 3]], dilations=[1 << 30] * 2, pads=[1 << 30] * 4), "temps need"),
    "conv_groups": (on_made("Conv", [[1, 1 << 16, 8, 8], [1 << 16, 1, 3, 3]], group=1 << 16), None),
    "einsum_sum": (on_made("Einsum", [[8] * 8], equation="abcdefgh->"), None),
    "einsum_outer": (on_made("Einsum", [[1 << 11]] * 3, equation="a,b,c->abc"), "larger than"),
    "einsum_chain": (on_made("Einsum", [[512, 512]] * 3, equation="ab,bc,cd->ad"), None),
    "cumsum": (on_made("CumSum", [[1 << 16]], constants=AXIS, inputs="q"), None),
    "grid_sample": (on_made("GridSample", [[1, 1, 64, 64], [1, 2000, 2000, 2]], mode="bicubic"), None),
    "attention": (on_made("Attention", [[1, 8, 1 << 16, 64]] * 3, opset=23), "larger than"),
    "lstm_wide": (on_made("LSTM", [[8, 1, 4], [1, 1 << 18, 4], [1, 1 << 18, 1 << 16]], hidden_size=1 << 16), "larger than"),
    "rnn_wide": (on_made("RNN", [[31, 1, 4], [1, 4096, 4], [1, 4096, 4096]], hidden_size=4096), None),
    "gru_long": (on_made("GRU", [[1 << 20, 1, 4], [1, 12, 4], [1, 12, 4]], hidden_size=4), None),
    "lrn": (on_made("LRN", [[1, 1 << 10, 64, 64]], size=(1 << 31) - 1), "out of range"),
    "mean_variance": (on_made("MeanVarianceNormalization", [[1, 4, 1 << 9, 1 << 10]]), None),
    "pad_reflect": (on_made("Pad", [[1 << 24]], constants=[ints("p", [(1 << 24) - 1] * 2)], inputs="p", mode="reflect"), None),
    "cast": (on_made("Cast", [[1 << 13, 1 << 13]], to=DOUBLE), None),
    "nested_loops_2": (nested_loops(2), None),
    "nested_loops_3": (nested_loops(3), "more than 32768 nodes"),
    "nested_loops_8": (nested_loops(8), "unrolled, the bodies of loops and branches have more than 32768 nodes"),
    "nested_loops_14": (nested_loops(14, 2), "nesting too deep"),
    "loop_that_doubles": (loop(32, [node("Concat", "v v", "out", axis=0)]), "larger than"),
    "concat_that_doubles": (chained([node("Concat", f"v{i} v{i}" if i else "x x", f"v{i + 1}", axis=0) for i in range(40)], [], "v40", X4[0]), "larger than"),
    "folds_that_double": (chained([made("v0", [4])[0], *[node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(28)]],
                                  [made("v0", [4])[1]], "v28"), None),
    "folds_of_16_mib": (chained([made("a", [1 << 22])[0], *[node("Relu", "a", f"b{i}") for i in range(400)],
                                 node("Max", " ".join(f"b{i}" for i in range(30)), "y")], [made("a", [1 << 22])[1]], "y"), None),
    "folds_that_are_refused": (chained([made("a", [1 << 11] * 2)[0], *[node("MatMul", "a a", f"b{i}") for i in range(400)],
                                        node("Max", " ".join(f"b{i}" for i in range(30)), "y")], [made("a", [1 << 11] * 2)[1]], "y"), None),
    "shapes_by_sums": (chained([made("a", [1 << 21], 1, INT64)[0], *[n for i in range(60) for n in (
        node("ReduceSum", "a", f"s{i}", keepdims=1), node("Mul", f"s{i} zero", f"t{i}"), node("Add", f"t{i} four", f"d{i}"),
        node("Expand", f"v{i} d{i}" if i else f"x d{i}", f"v{i + 1}"))]], [made("a", [1 << 21])[1], ints("four", [4]), ints("zero", [0])], "v60", X4[0]),
        "too much work for the compiler"),
}

# Files that are strange rather than small.
STRANGE = {
    "empty_messages": (in_graph(b"\x0a\x00" * (2 << 20)), "no output"),
    "empty_attributes": (in_graph(field(1, field(4, "Relu") + b"\x2a\x00" * (1 << 20))), "no output"),
    "empty_strings": (in_graph(field(1, field(4, "Relu") + b"\x0a\x00" * (3 << 20))), "no output"),
    "groups": (b"\x3b" * 10000, "known kind"),
    "unknown_fields": (b"\x08\x08" + b"\xf8\x3f\x01" * (1 << 20), "no graph"),
    "long_number": (b"\x08" + b"\xff" * 64, "a bad number"),
    "length_that_lies": (b"\x3a" + varint((1 << 63) - 1) + bytes(32), "past the end"),
    "dimensions_4_million": (model([node("Relu", "x", "y")], *X4, [field(1, b"\x01" * (1 << 22)) + field(2, FLOAT) + field(8, "w") + field(9, bytes(4))]),
                             "at most 8 are supported"),
    "data_too_long": (model([node("Add", "x w", "y")], *X4, [field(1, 1) + field(2, FLOAT) + field(8, "w") + field(4, bytes(1 << 22))]), "instead of 1"),
    "text_of_8_mib": (model([node("Relu", "x", "y") + field(6, "d" * (8 << 20))], *X4), None),
    "operator_of_mib": (model([node("R" * (1 << 20), "x", "y")], *X4), "RRRR"),
    "domain_of_mib": (model([node("Relu", "x", "y", domain="d" * (1 << 20))], *X4), "operator of domain"),
    "attribute_of_mib": (model([node("Relu", "x", "y", **{"a" * (1 << 20): 1})], *X4), "attribute aaa"),
    "initialisers_100000": (model([node("Relu", "x", "y")], *X4, repeat(lambda i: tensor(f"w{i}", FLOAT, [1], [1]), 100000)), None),
    "outputs_100000": (model([node("Relu", "x", "y")], X4[0], X4[1] * 100000), "two outputs"),
    "unsupported_100000": (model(repeat(lambda i: node(f"Nothing{i}", "x", f"y{i}"), 100000), X4[0], [port("y1", [4])]), "100000 things"),
    "sparse_initialiser": (field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph([node("Add", "x w", "y")], *X4) + field(
        15, field(1, tensor("w", FLOAT, [1], [1])) + field(2, tensor("i", INT64, [1], [0])) + field(3, 1 << 40))), "no earlier node"),
    "sparse_constant": (model([field(2, "w") + field(4, "Constant") + field(5, field(1, "sparse_value") + field(
        22, field(1, tensor("", FLOAT, [1], [1])) + field(3, 1 << 40)) + field(20, 11)), node("Add", "x w", "y")], *X4), "sparse_value"),
    "function_that_calls_itself": (model([node("F", "x", "y", domain="f")], *X4, opsets=[("f", 1)], functions=[
        function("F", node("F", "a", "c", domain="f"))]), "bodies within bodies"),
    "functions_that_double": (model([node("F0", "x", "y", domain="f")], *X4, opsets=[("f", 1)], functions=[
        function(f"F{i}", node(f"F{i + 1}", "a", "b", domain="f"), node(f"F{i + 1}", "b", "c", domain="f")) for i in range(40)]), "bodies within bodies"),
    "functions_that_multiply": (model([node("F0", "x", "y", domain="f")], *X4, opsets=[("f", 1)], functions=[
        function(f"F{i}", *(node(f"F{i + 1}", f"b{k - 1}" if k else "a", f"b{k}" if k < 29 else "c", domain="f") for k in range(30)))
        for i in range(14)] + [function("F14", node("Relu", "a", "c"))]), "more than 32768 nodes"),
    "names_of_escapes": (model([node("Relu", "x", "z")], X4[0], [port("\u202ey\x1b[2J\nforged: ok", [4])]), "\\u{202e}y\\x1b[2J\\x0aforged: ok"),
    "external_negative_offset": (external(location="m.onnx", offset=-1), "no number"),
    "external_offset_2_63": (external(location="m.onnx", offset=(1 << 63) - 1), "out of range"),
    "external_length_2_63": (external(location="m.onnx", length=1 << 63), "its shape says 16"),
    "external_long_path": (external(location="a/" * 100000 + "b"), "a/a/a"),
    "external_long_name": (external(location="a" * 5000), "aaaa"),
    "external_escape": (external(location="x\x1b[2J\u202e.bin"), "x\\x1b[2J\\u{202e}.bin"),
    "external_parent": (external(location="../../../etc/passwd"), "leaves"),
    "external_nul": (external(location="a\0/etc/passwd"), "is not in"),
    "external_itself": (external(location="m.onnx", offset=0, length=16), None),
    "external_proc": (external(location="/proc/self/environ"), "absolute path"),
}


def check(name, says, command, outcome):
    """One clear error, or none; soon, and in little memory."""
    code, error, seconds, size = outcome
    told = f"{name}: exit {code}, {seconds:.2f} s, {size >> 20} MiB: {error[:300]!r}"
    assert seconds <= SECONDS_MAX[0] and size <= BYTES_MAX, told
    if says is None:
        assert code == 0 and not error, told
        return
    assert code > 0 and says in error, told
    lines = error.splitlines()
    assert lines[0].startswith(f"kiln {command}: ") and len(error) < ERROR_BYTES_MAX, told
    assert all(line.startswith("  ") for line in lines[1:]), told  # further lines are the findings that it counts


def compiles(world, name, says, content):
    path, module = pathlib.Path(world.path("m.onnx")), pathlib.Path(world.path("m.kiln"))
    path.write_bytes(content)
    check(name, says, "compile", run_bounded(world, "compile", path, "-o", module))
    assert module.exists() == (says is None), name
    module.unlink(missing_ok=True)


def compile_all(world, files):
    wrong = []
    for name, (content, says) in files.items():
        try:
            compiles(world, name, says, content)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_small_files_that_demand_much_work(world):
    assert len(FILES) >= 60
    compile_all(world, FILES)


def test_files_beside_a_model_are_added_up_before_they_are_read(world):
    with open(world.path("w.bin"), "wb") as sparse:
        sparse.truncate(3 << 30)
    weights = [tensor(f"w{i}", FLOAT, [384 << 20], external={"location": "w.bin"}) for i in range(3)]  # 1.5 GiB each
    content = model([node("Add", "x w0", "y")], [port("x", [1])], [port("y", [384 << 20])], weights)
    compiles(world, "4.5 GiB named", "--model-memory allows more", content)
    small = model([node("Add", "x w", "y")], [port("x", [1])], [port("y", [4])], [tensor("w", FLOAT, [4], external={"location": "w.bin"})])
    compiles(world, "16 bytes named", None, small)


# What a module cannot hold, or what is not printed of it: explain has no such bound.
MODULES_ONLY = {"inputs_20000", "outputs_300", "name_of_megabyte"}


def test_explain_of_small_files_that_demand_much_work(world):
    """As far as machine code, of every kernel."""
    kinds = [name for name in FILES if name not in MODULES_ONLY]
    assert len(kinds) >= 40
    path, wrong = pathlib.Path(world.path("m.onnx")), []
    for name in kinds:
        content, says = FILES[name]
        path.write_bytes(content)
        try:
            check(name, says, "explain", run_bounded(world, "explain", path, "--stage", "asm"))
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def compilers(world):
    """Commands that make machine code of a small model, and how their errors name it."""
    path = world.path("two.onnx")
    pathlib.Path(path).write_bytes(model([node("MatMul", "x w", "a"), node("Softmax", "a", "y")], [port("x", [8, 8])], [port("y", [8, 8])],
                                         [tensor("w", FLOAT, [8, 8], [1] * 64)]))
    world.run("zoo", "gemm:4x4x4", "-o", world.path("g.onnx"))
    db = world.path("empty.db")
    world.run("tune", world.path("g.onnx"), "--trials", 0, "--db", db)
    return path, [("compile", "-o", world.path("m.kiln")), ("compile", "--db", db, "-o", world.path("m.kiln")), ("compile", "--emit", "static-c", "-o", world.path("m.c")),
                  ("compile", "--emit", "asm"), ("explain", "--stage", "llvm"), ("explain", "--stage", "c"),
                  ("tune", "--trials", 0, "--db", db, "--out", world.path("m.kiln")), ("quantize", "--synthetic", 1, "-o", world.path("m.kiln"))]


def hooked(world, hook, command, path, *options, kernel=2):
    """The command's outcome when `hook` happens before its second kernel is built, or `kernel`."""
    world.env["KILN_FAIL"] = f"COMPILE_KERNEL:{kernel}={hook}"
    try:
        return run_bounded(world, command, path, *options)
    finally:
        del world.env["KILN_FAIL"]


def test_the_compiling_process_has_no_rights(world):
    path, commands = compilers(world)
    nothing = "files: no, network: no, processes: no, environment: no"
    for command, *options in commands:
        kernel = 4 if command == "tune" else 2  # its first two are of doubles, and a failure of theirs is no error of the command
        check(f"{command} {options}", nothing, command, hooked(world, "look", command, path, *options, kernel=kernel))
    world.env["KILN_NO_ISOLATION"] = "1"  # the hook sees what there is
    code, error, _, _ = hooked(world, "look", "compile", path, "-o", world.path("m.kiln"))
    assert code and "files: yes, network: yes" in error, error


def test_a_kernel_that_takes_the_compiler_down_is_named(world):
    path, commands = compilers(world)
    for command, *options in commands:
        kernel = f"compiling {path}: " + ("task 1 softmax" if "asm" in options or command == "explain" else "kernel ")
        for hook, says in (("kill", "its process died of signal 9"), ("grow", "takes more than 200 MiB of memory (--model-memory allows more)")):
            outcome = hooked(world, hook, command, path, *options, "--model-memory", 200)
            check(f"{command} {hook}", says, command, outcome)
            check(f"{command} {hook}", kernel, command, outcome)
        assert not pathlib.Path(world.path("m.kiln")).exists()


def test_outputs_and_databases_are_looked_at_before_the_model(world):
    path = world.path("none.onnx")
    for says, argv in (("there is no such database", ["compile", path, "--db", world.path("typo.db")]), ("there is no such database", ["explain", path, "--db", world.path("typo.db")]),
                       ("there is no such database", ["explain", path, "--why", 0, "--db", world.path("typo.db")]),
                       ("/nowhere", ["compile", path, "-o", "/nowhere/m.kiln"]), ("/nowhere", ["quantize", path, "--synthetic", 1, "-o", "/nowhere/q.onnx"]), ("/nowhere", ["compile", path, "--emit", "static-c", "-o", "/nowhere/m.c"])):
        check(argv[0], says, argv[0], run_bounded(world, *argv))


def test_constants_that_nodes_make(world):
    assert len(MADE) >= 40 and all(len(content) < 10000 for content, _ in MADE.values())
    compile_all(world, MADE)


def test_files_that_no_tool_would_write(world):
    compile_all(world, STRANGE)


def test_reading_takes_no_more_memory_than_allowed(world):
    big = model([node("Add", "x w", "y")], [port("x", [1])], [port("y", [24 << 20])], [tensor("w", FLOAT, [24 << 20], bytes(96 << 20))])
    path = pathlib.Path(world.path("big.onnx"))
    path.write_bytes(big)
    few, many = ["--model-memory", 64], ["--model-memory", 400]
    for argv in (["compile", path, "-o", world.path("m.kiln")], ["explain", path], ["tune", path, "--db", world.path("r.db")],
                 ["quantize", path, "--synthetic", 1, "-o", world.path("q.onnx")]):
        says = f"reading {path} takes more than 64 MiB of memory (--model-memory allows more)"
        check(f"{argv[0]} in little memory", says, argv[0], run_bounded(world, *argv, *few))
    world.run("explain", path, *many)


def workers_of(child):
    """Processes of a tuner's workers."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if folder.joinpath("cmdline").read_bytes().split(b"\0")[1:2] == [b"--worker"]:
                status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                if int(status["PPid"]) == child.pid:
                    found.append((folder, {k: v.strip() for k, v in status.items()}))
        except OSError:
            continue  # it ended meanwhile
    return found


class Client:
    """A hostile one: it sends models that `kiln` would not."""

    def __init__(self, world, address):
        token = wire.token_of(world)
        self.board, self.peer, self.count = wire.Peer(address), wire.Peer(address), 0
        assert self.board.hello("board", "b0a4d", token)[0] == self.peer.hello("client", "c11e47", token)[0] == "WELCOME"
        self.board.send("BOARD_UP", key="b", target=TARGET, slots=1)

    def job(self, content, form):
        """Opens one; returns the code with which it ended and why, or None when it has tasks."""
        self.count += 1
        self.board.send("PING")  # it is not lost meanwhile
        assert self.peer.put_blob(content, 2 * self.count + 1)[0] == "BLOB_OK"
        spec = {"model": wire.blob_ref(content)["digest"], "target": TARGET, "searcher": "random", "trials": 1, "form": form}
        self.peer.send("JOB_OPEN", 2 * self.count + 2, job=f"job{self.count}", spec=spec)
        while True:
            name, stream, values = self.peer.read()
            if name == "PING":
                self.peer.send("PONG", stream, **values)
            if name == "ERROR":
                raise AssertionError(values)
            if values.get("job") != f"job{self.count}":
                continue
            if name == "JOB_EVENT" and values.get("tasks"):
                self.peer.send("JOB_CLOSE", 0, job=values["job"])
                return None
            if name == "JOB_DONE":
                self.peer.send("JOB_CLOSE", 0, job=values["job"])
                return values["code"], values.get("text", "")


TARGET = "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"


def test_a_hostile_model_ends_its_job_and_the_tuner_lives(world):
    world.env["KILN_PTXAS"] = "no-ptxas"  # else a worker holds a socket to the process that asks it
    _, address = world.tracker()
    tuner = world.tuner(address, "--model-memory", 700)
    client = Client(world, address)
    weights = [tensor("w", FLOAT, [96 << 20], external={"location": "w.bin"})]
    twice = model([node("Add", "x w", "y")], [port("x", [1])], [port("y", [1])], [tensor("w", FLOAT, [1], [1])] * 2)
    graph = b"kilngrph" + (1).to_bytes(4, "little") + bytes(4)
    for content, form, says in (
            (b"no model", 0, "not a model file"), (FILES["loop_2_40"][0], 0, "4096 iterations"), (FILES["nodes_300000"][0], 0, "so many nodes"),
            (model([node("Add", "x w", "y")], [port("x", [1])], [port("y", [1])], weights), 0, "cannot have"),
            (twice, 0, "twice"), (FILES["nesting_without_end"][0], 0, ""), (b"no graph", 1, ""), (graph + (1 << 62).to_bytes(8, "little"), 1, "structure"),
            (graph + (5).to_bytes(8, "little") + b"\xdf\xff\xff\xff\xff", 1, ""), (graph + (9).to_bytes(8, "little") + b"\x81\x04\xdd\x7f\xff\xff\xff\x90\x90", 1, "")):
        ended = client.job(content, form)
        assert ended and ended[0] and says in ended[1], (content[:40], ended)
    assert client.job(unary("Relu"), 0) is None
    assert tuner.poll() is None
    workers = workers_of(tuner)
    assert workers
    for folder, status in workers:
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
        assert os.geteuid() or status["Uid"].split()[1] == "65534", status["Uid"]
        if not os.geteuid():
            assert not (folder / "environ").read_bytes().strip(b"\0")
            assert not [fd for fd in (folder / "fd").iterdir() if int(fd.name) > 3]
        limits = (folder / "limits").read_text() if not os.geteuid() else ""
        assert not limits or f"{700 << 20}" in limits, limits


def test_pipes_and_devices_are_refused_at_once(world):
    pipe, folder, link = world.path("pipe"), world.path("folder"), world.path("link")
    os.mkfifo(pipe)
    os.mkdir(folder)
    os.symlink("/dev/zero", link)
    world.run("compile", world.zoo("gemm:4x4x4"), "-o", world.path("g.kiln"))
    for path in (pipe, folder, link, "/dev/zero", "/dev/tty"):
        for argv in (["compile", path], ["tune", path], ["run", path], ["run", world.path("g.kiln"), "--input", f"x={path}"]):
            check(f"{argv[0]} {path}", path, argv[0], run_bounded(world, *argv))
    for what in ("pipe", "folder", "link"):
        content = model([node("Add", "x w", "y")], [port("x", [4])], [port("y", [4])], [tensor("w", FLOAT, [4], external={"location": what})])
        compiles(world, f"external {what}", f"external data of tensor w: {what}", content)
    case = pathlib.Path(world.path("case"))
    for damaged in ("model.onnx", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"):
        (case / "test_data_set_0").mkdir(parents=True)
        (case / "model.onnx").write_bytes(unary("Relu"))
        for name in ("input", "output"):
            (case / f"test_data_set_0/{name}_0.pb").write_bytes(tensor("t", FLOAT, [4], [1] * 4))
        world.run("verify", case)
        (case / damaged).unlink()
        os.mkfifo(case / damaged)
        check(f"verify {damaged}", "1 of 1 cases failed", "verify", run_bounded(world, "verify", case))
        shutil.rmtree(case)


def test_data_with_a_false_size_is_refused(world):
    case = pathlib.Path(world.path("case"))
    (case / "test_data_set_0").mkdir(parents=True)
    (case / "model.onnx").write_bytes(unary("Relu"))
    (case / "test_data_set_0/input_0.pb").write_bytes(tensor("t", FLOAT, [4], [1] * 4))
    for lie in (tensor("t", FLOAT, [BIG], b"\0" * 16), tensor("t", FLOAT, [1 << 62, 1 << 62], b""), tensor("t", FLOAT, [-1], b""), b"\x3a" * 99):
        (case / "test_data_set_0/output_0.pb").write_bytes(lie)
        check("a lie", "1 of 1 cases failed", "verify", run_bounded(world, "verify", case))


def verified(world, content, inputs, outputs):
    case = pathlib.Path(world.path("right"))
    (case / "test_data_set_0").mkdir(parents=True)
    (case / "model.onnx").write_bytes(content)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for number, value in enumerate(tensors):
            (case / f"test_data_set_0/{kind}_{number}.pb").write_bytes(value)
    world.run("verify", case)
    shutil.rmtree(case)


def test_values_that_are_not_stored_are_computed_correctly(world):
    x = tensor("x", FLOAT, [1], [0])
    two = ("tensor", tensor("v", FLOAT, [1], [2]))
    for count in (1 << 10, 1 << 23):  # stored, and broadcast at run time
        verified(world, model([node("ConstantOfShape", "s", "c", value=two), node("Add", "c x", "a"), node("ReduceSum", "a", "y", keepdims=0)],
                              [port("x", [1])], [port("y", [])], [ints("s", [count])]), [x], [tensor("y", FLOAT, [], [2.0 * count])])
    for k in (-2, 0, 3, 40, -(1 << 62)):
        eye = [1 if column - row == k else 0 for row in range(5) for column in range(7)]
        verified(world, unary("EyeLike", (5, 7), (5, 7), to=INT32, opset=9, k=k, dtype=INT32), [tensor("x", FLOAT, [5, 7], [0] * 35)],
                 [tensor("y", INT32, [5, 7], eye)])


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
