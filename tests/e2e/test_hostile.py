#!/usr/bin/env python3
"""Small files that ask for much: each ends soon and in little memory, with one clear error or with the right answer."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import threading

import harness
import wire
from onnx_file import BOOL, FLOAT, INT32, INT64, field, graph, ints, model, node, port, tensor, varint

SECONDS_MAX = 2  # of processor time
BYTES_MAX = 512 << 20  # resident at most
ERROR_BYTES_MAX = 5000  # a list of findings is cut at this
BIG = 1 << 31


def run_bounded(world, *argv):
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


def check(name, says, command, outcome):
    """One clear error, or none; soon, and in little memory."""
    code, error, seconds, size = outcome
    told = f"{name}: exit {code}, {seconds:.2f} s, {size >> 20} MiB: {error[:300]!r}"
    assert seconds <= SECONDS_MAX and size <= BYTES_MAX, told
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


def test_small_files_that_ask_for_much(world):
    assert len(FILES) >= 60
    wrong = []
    for name, (content, says) in FILES.items():
        try:
            compiles(world, name, says, content)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_reading_takes_no_more_memory_than_allowed(world):
    big = model([node("Add", "x w", "y")], [port("x", [1])], [port("y", [24 << 20])], [tensor("w", FLOAT, [24 << 20], bytes(96 << 20))])
    path = pathlib.Path(world.path("big.onnx"))
    path.write_bytes(big)
    few, many = ["--model-memory", 64], ["--model-memory", 400]
    for argv in (["compile", path, "-o", world.path("m.kiln")], ["explain", path], ["tune", path, "--db", world.path("r.db")]):
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


def test_what_is_no_file_is_refused_at_once(world):
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


def test_data_that_lies_about_its_size_is_refused(world):
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


def test_what_is_not_stored_is_computed_right(world):
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
