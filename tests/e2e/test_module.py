#!/usr/bin/env python3
"""Inspection and signatures of modules: `kiln inspect`, `kiln key sign`, `kiln run --trust`."""
import ast
import ctypes
import hashlib
import math
import pathlib
import platform
import re
import struct
import subprocess
import sys

import harness
import onnx_file

TARGET = "x86-64-v3"  # modules are looked at on any machine


def digits():
    return str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")


def compiled(world, name="d.kiln", *options):
    module = world.path(name)
    world.run("compile", digits(), "--target", TARGET, "-o", module, *options)
    return module


def test_inspect_describes_a_module(world):
    lines = world.json("inspect", compiled(world), "--steps")
    [module], [x], [y] = ([line for line in lines if line["event"] == event] for event in ("module", "input", "output"))
    metadata = module["metadata"]
    assert metadata["model"] == "digits.onnx" and "x86-64-v3" in metadata["target"] and metadata["software"].startswith("kiln "), metadata
    assert metadata["model_sha256"] == hashlib.sha256(pathlib.Path(digits()).read_bytes()).hexdigest(), metadata
    assert metadata["tasks"] == "6" and metadata["tuned"] == "0" and "database" not in metadata, metadata
    assert (x["name"], x["dtype"], x["shape"], x["bytes"]) == ("image", "f32", [1, 1, 8, 8], 256), x
    assert (y["name"], y["shape"]) == ("probability", [1, 10]), y
    assert module["format"] == 1 and module["constant_bytes"] > 0 and module["arena_bytes"] > 0, module
    steps = [line for line in lines if line["event"] == "step"]
    assert len(steps) == module["steps"] and sum(step["task"] != "" for step in steps) == module["calls"], steps
    text = world.run("inspect", world.path("d.kiln")).stdout
    assert "image  f32[1,1,8,8], 256 bytes" in text and metadata["model_sha256"] in text, text


def split(lines):
    """The module's line, its steps, and its buffers by number."""
    return lines[0], [line for line in lines if line["event"] == "step"], {line["buffer"]: line for line in lines if line["event"] == "tensor"}


def bytes_in_use(buffers, step, device):
    """Of the arena of a device, from the places and lives of its buffers: bytes that several share count once, in lines of 64."""
    used = set()
    for b in buffers.values():
        if b["offset"] is not None and b["device"] == device and b["first"] is not None and b["first"] <= step <= b["last"]:
            used.update(range(b["offset"] // 64, (b["offset"] + b["bytes"] + 63) // 64))
    return 64 * len(used)


def check_steps(lines):
    """What holds for the steps and buffers of every module."""
    module, steps, buffers = split(lines)
    assert [step["number"] for step in steps] == list(range(module["steps"])), "each step has its number"
    assert sorted(buffers) == list(range(len(buffers))), "each buffer has one line"
    for step in steps:
        assert all(source < step["number"] for source in step["sources"]), ("a source comes before what reads it", step)
        assert step["loop"] is None or step["loop"] < step["number"] and steps[step["loop"]]["action"] == "loop", step
        for number in step["inputs"] + step["outputs"]:
            assert buffers[number]["first"] <= step["number"] <= buffers[number]["last"], ("what a step uses is alive", step, buffers[number])
        for number in step["outputs"]:
            assert buffers[number]["kind"] in ("output", "workspace") or step["action"] == "alias", step
        assert step["in_use"] == bytes_in_use(buffers, step["number"], 0), step
    ends = [b["offset"] + -(-b["bytes"] // 64) * 64 for b in buffers.values() if b["offset"] is not None and b["device"] == 0]
    assert max(ends, default=0) == module["arena_bytes"], (max(ends, default=0), module)
    assert max((step["in_use"] for step in steps), default=0) == module["arena_bytes"], "the curve of memory reaches what the module reserves"
    for port in (line for line in lines if line["event"] in ("input", "output")):
        [own] = [b for b in buffers.values() if b["kind"] == port["event"] and b["name"] == port["name"]]
        assert own["bytes"] == port["bytes"] and own["offset"] is None, own
    assert all(b["name"] is None for b in buffers.values() if b["kind"] in ("constant", "workspace")), "the file has no names of these"
    return module, steps, buffers


def test_inspect_tells_edges_and_lives(world):
    lines = world.json("inspect", compiled(world), "--steps")
    _, steps, buffers = check_steps(lines)
    joined = next(step for step in steps if step["op"] == "conv+add+relu")
    assert joined["sources"] == [joined["number"] - 2, joined["number"] - 1], "the sum of a branch and what goes around it"
    flat = next(step for step in steps if step["action"] == "alias")
    [whole], [again] = flat["inputs"], flat["outputs"]
    assert buffers[again]["part_of"] == whole and buffers[again]["part_at"] == 0 and buffers[again]["offset"] is None, buffers[again]
    behind = next(step for step in steps if again in step["inputs"])
    assert behind["sources"] == [flat["number"]], behind
    kernels = [step for step in steps if step["action"] == "kernel"]
    assert all(step["layout_in"] and step["layout_out"] and step["algorithm"] for step in kernels) and flat["layout_in"] == flat["algorithm"] == "", kernels
    text = world.run("inspect", world.path("d.kiln"), "--steps").stdout
    assert f"kernel, after steps {joined['sources'][0]} {joined['sources'][1]}, reads buffers" in text, text
    assert re.search(r"^  0    input image, 256 bytes, steps 0 to 0$", text, re.M), text


def test_inspect_tells_edges_of_every_kind_of_module(world):
    """Skips of a network, windows of concatenations, a recurrence, a GPU and an accelerator with memory of their own."""
    checked = 0
    for name, options in (("resnet18", []), ("squeezenet1_1", []), ("lstm_lm", []), ("conv:32,8,8,32,3,3,1,1,1,1,1,1,1,1,1", ["--target", "opencl"]), ("conv:C12_int8", ["--target", "pynq-vta"])):
        module = world.path("any.kiln")
        world.run("compile", world.zoo(name), "--db", "none", "-o", module, *(options or ["--target", TARGET]))
        lines = world.json("inspect", module, "--steps")
        if options:
            found, steps, buffers = split(lines)
            assert found["device_bytes"] == max(step["device_in_use"] for step in steps) > 0, found
            assert {step["action"] for step in steps} >= {"copy", "event", "kernel"}, steps
            assert all(step["device_in_use"] == bytes_in_use(buffers, step["number"], 1) for step in steps), steps
            event = next(step for step in steps if step["action"] == "event")
            assert event["sources"] and steps[event["sources"][0]]["action"] == "copy", event
        else:
            _, steps, _ = check_steps(lines)
            assert sum(len(step["sources"]) > 1 for step in steps) >= 8, name
        checked += len(steps)
    print(f"# {checked} steps")


def test_a_tuned_module_names_its_database(world):
    module = world.path("g.kiln")
    world.json("tune", world.zoo("gemm:16x16x16"), "--trials", 2, "--db", world.path("own.db"), "--out", module)
    metadata = world.json("inspect", module)[0]["metadata"]
    assert metadata["database"] == "own.db" and metadata["model"] == "gemm_16x16x16.onnx", metadata


def native(world):
    """A module that runs on this machine."""
    module = world.path("g.kiln")
    world.run("compile", world.zoo("gemm:16x16x16"), "--db", "none", "-o", module)
    return module


def sign(world, module, *options):
    [line] = world.json("key", "sign", module, *options)
    assert line["event"] == "signed" and len(line["key"]) == 64, line
    return line["key"]


def signature(world, module):
    line = world.json("inspect", module)[0]
    return line["signature"], line["signer"]


def test_a_signed_module_runs_only_with_a_trusted_signer(world):
    module, names = native(world), pathlib.Path(world.path("signers"))
    assert signature(world, module) == ("none", "")
    world.refused("run", module, "--trust", "0" * 64, says="it has no signature")
    own = sign(world, module)
    assert signature(world, module) == ("right", own)
    outputs = world.json("run", module)
    assert world.json("run", module, "--trust", own) == outputs
    names.write_text(f"# ours\n{own} of the build host\n")
    assert world.json("run", module, "--trust", "0" * 64, "--trust", names) == outputs
    world.refused("run", module, "--trust", "0" * 64, says=f"it is signed by {own}, which --trust does not name")
    world.refused("inspect", module, "--trust", "0" * 64, says="which --trust does not name")
    names.write_text("nobody\n")
    world.refused("run", module, "--trust", names, says="has no public half")
    world.refused("run", module, "--trust", "ann", says="no file and no signer")


def test_a_persons_key_can_sign_instead_of_the_users_own(world):
    module, key = native(world), world.path("ann.key")
    own = sign(world, module)
    size = pathlib.Path(module).stat().st_size
    world.run("key", "new", "client/ann", "-o", key)
    hers = sign(world, module, "--key-file", key)
    assert hers != own and pathlib.Path(module).stat().st_size == size, "a second signature takes the place of the first"
    world.run("run", module, "--trust", world.home / "keys")  # the tracker's list has her public half
    world.refused("run", module, "--trust", own, says=f"signed by {hers}")


def test_a_signer_is_trusted_by_the_name_that_the_database_has(world):
    world.json("tune", world.zoo("gemm:8x8x8"), "--trials", 1)
    module = native(world)
    own = sign(world, module)
    [name] = [line["name"] for line in world.json("key", "trust") if line["public"] == own]
    world.run("run", module, "--trust", name)
    world.run("key", "trust", name, "--no")
    world.refused("run", module, "--trust", name, says="is not trusted here")


def test_a_byte_that_changes_after_signing_is_seen(world):
    """The program that changes it makes the checksums right again, as a forger would."""
    module = pathlib.Path(native(world))
    own = sign(world, module)
    whole = module.read_bytes()
    forged = bytearray(whole[:-112])
    forged[forged.index(b"gemm_16x16x16.onnx")] ^= 1
    sealed = subprocess.run([str(harness.PROGRAMS / "tests/support/seal")], input=bytes(forged), stdout=subprocess.PIPE, check=True).stdout
    module.write_bytes(sealed)
    assert signature(world, module) == ("none", "")
    module.write_bytes(sealed + whole[-112:])
    world.run("run", module)
    world.refused("run", module, "--trust", own, says=f"it is not what {own} signed")
    world.refused("inspect", module, says=f"it is not what {own} signed")
    module.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    world.refused("run", module, says="the signature block is damaged")
    world.refused("key", "sign", module, says="the signature block is damaged")


def test_others_can_check_a_signature(world):
    """As docs/reference/module.md describes it, by the program of OpenSSL."""
    module = native(world)
    key = bytes.fromhex(sign(world, module))
    whole = pathlib.Path(module).read_bytes()
    for name, content in (("key", bytes.fromhex("302a300506032b6570032100") + key),
                          ("text", b"kiln module signature 1\n" + hashlib.sha256(whole[:-112]).digest()), ("signature", whole[-72:-8])):
        pathlib.Path(world.path(name)).write_bytes(content)
    subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key", "-rawin", "-in", "text",
                    "-sigfile", "signature"], cwd=world.folder, check=True, stdout=subprocess.DEVNULL)


STORED = pathlib.Path(__file__).resolve().parents[1] / "golden/modules"  # each by the first program that wrote its format


def outputs(world, module, *options, **inputs):
    """What a run gives, as flat lists; inputs are pairs of shape and values."""
    given = []
    for name, (shape, values) in inputs.items():
        path = pathlib.Path(world.path(f"{name}.pb"))
        path.write_bytes(onnx_file.tensor(name, onnx_file.FLOAT, shape, values))
        given += ["--input", f"{name}={path}"]
    names = [line["name"] for line in world.json("run", module, *given, *options, "--output", world.path("out"))]
    return [npy(pathlib.Path(world.path(f"out/{name}.npy")).read_bytes()) for name in names]


def npy(content):
    """Shape and values of a file of floats."""
    size = 10 + int.from_bytes(content[8:10], "little")
    shape = ast.literal_eval(content[10:size].decode())["shape"]
    return list(shape), list(struct.unpack(f"<{(len(content) - size) // 4}f", content[size:]))


def product(x):
    return [sum(x[n * 8 + k] * ((k * 3 + j * 5) % 7 - 3) for k in range(8)) for n in range(len(x) // 8) for j in range(8)]


def layer(x):
    """What format-1.kiln (of 4 rows) and format-3.kiln (of up to 4) compute: relu(x [n, 8] * w + b), in integers."""
    return [max(0, v + j % 8 - 4) for j, v in enumerate(product(x))]


def iterated(x):
    """And format-2.kiln: a loop of 1,999 iterations of x * x - 1."""
    for _ in range(1999):
        x = [v * v - 1 for v in x]
    return x


def test_modules_of_every_format_are_read(world):
    """The files are of x86-64, the first level of it."""
    for number, x, shape, right in ((1, [(k * 7) % 5 - 2 for k in range(32)], [4, 8], layer), (2, [0, 1, -1, 0], [4], iterated),
                                    (3, [(k * 7) % 5 - 2 for k in range(24)], [3, 8], layer)):
        module = STORED / f"format-{number}.kiln"
        assert world.json("inspect", module)[0]["format"] == number
        _, steps, buffers = check_steps(world.json("inspect", module, "--steps"))
        if number == 2:
            carries = [step for step in steps if step["action"] == "carry"]
            assert len(carries) == 2 and all(step["loop"] == 2 for step in carries), steps
            assert steps[-1]["sources"] == [1, carries[0]["number"]], "what the loop begins with, or what it carried"
            assert buffers[8]["part_of"] == 4 and buffers[8]["last"] == buffers[4]["last"] == 7, buffers
        if platform.machine() == "x86_64":
            [(_, y)] = outputs(world, module, x=(shape, x))
            assert y == right(x), (number, y)


def test_a_module_of_the_future_is_refused_by_name(world):
    path = pathlib.Path(world.path("new.kiln"))
    new = bytearray((STORED / "format-1.kiln").read_bytes())
    new[8:12] = (99).to_bytes(4, "little")
    path.write_bytes(subprocess.run([str(harness.PROGRAMS / "tests/support/seal")], input=bytes(new), stdout=subprocess.PIPE, check=True).stdout)
    for command in ("run", "inspect"):
        world.refused(command, path, says="module has format 99, of a newer version of Kiln; this program reads 1 to 3")


def test_a_module_of_another_processor_is_refused(world):
    other = "aarch64" if platform.machine() == "x86_64" else "x86-64"
    module = world.path("other.kiln")
    world.run("compile", world.zoo("gemm:8x8x8"), "--target", "rpi4" if other == "aarch64" else other, "--db", "none", "-o", module)
    assert other.replace("-", "_") in world.json("inspect", module)[0]["metadata"]["target"]
    world.refused("run", module, says=other.replace("-", "_"))


def batch_model(world, node, extra=(), name="batch.onnx"):
    """y [batch, 8] = node(x [batch, 8], w [8, 8])."""
    path = pathlib.Path(world.path(name))
    weights = onnx_file.tensor("w", onnx_file.FLOAT, [8, 8], [(k * 3 + j * 5) % 7 - 3 for k in range(8) for j in range(8)])
    path.write_bytes(onnx_file.model([node, *extra], [onnx_file.port("x", ["batch", 8])], [onnx_file.port("y", ["batch", 8])], [weights]))
    return path


def test_one_module_takes_every_size_up_to_the_largest(world):
    module, one = world.path("all.kiln"), world.path("one.kiln")
    model = batch_model(world, onnx_file.node("MatMul", "x w", "y"))
    made = world.json("compile", model, "--dim", "batch=1,4,8", "--db", "none", "-o", module)[-1]
    assert made["dim"] == "batch" and made["sizes"] == [1, 4, 8] and made["takes_all"], made
    for size in range(1, 9):
        x = [(k * 7) % 5 - 2 + size for k in range(8 * size)]
        assert outputs(world, module, x=([size, 8], x)) == [([size, 8], product(x))], size
        [line] = world.json("run", module, "--dim", f"batch={size}")
        assert line["elements"] == 8 * size, line
    world.refused("run", module, "--dim", "batch=9", says="batch is 9; the module takes 1 to 8")
    world.refused("run", module, "--dim", "n=3", says="the module has several sizes of batch")
    world.refused("run", module, "--dim", "batch=x", says="--dim wants NAME=N")
    path = pathlib.Path(world.path("x.pb"))
    path.write_bytes(onnx_file.tensor("x", onnx_file.FLOAT, [9, 8], [0] * 72))
    world.refused("run", module, "--input", f"x={path}", says="batch is 9; the module takes 1 to 8")
    assert [line["size"] for line in world.json("inspect", module) if line["event"] == "bucket"] == [1, 4, 8]
    assert "sizes of batch, and all between them" in world.run("inspect", module).stdout
    world.run("compile", model, "--dim", "batch=4", "--db", "none", "-o", one)
    kept = [world.json("inspect", file)[0]["constant_bytes"] for file in (module, one)]
    assert kept[0] == kept[1], "weights are stored once"
    world.refused("run", one, "--dim", "batch=4", says="the module has one size only")
    for run, elements in ((module, 64), (module, 24), (one, 32)):  # the model as it is written, at the run's size
        size = ("--dim", "batch=3") if elements == 24 else ()
        output, checked = world.json("run", run, "--check", *size)
        assert output["elements"] == elements and checked["event"] == "checked" and checked["right"], (output, checked)
    path.write_bytes(onnx_file.tensor("x", onnx_file.FLOAT, [4, 8], [0] * 32))
    world.refused("run", module, "--check", "--input", f"x={path}", says="--dim says which one is checked")


def test_recurrent_layers_take_every_size(world):
    hidden, width, module, model = 6, 4, world.path("l.kiln"), pathlib.Path(world.path("l.onnx"))
    shapes = {"w": [1, 4 * hidden, width], "r": [1, 4 * hidden, hidden], "b": [1, 8 * hidden]}
    weights = [onnx_file.tensor(name, onnx_file.FLOAT, dims, [(k * 5 % 11 - 5) / 16 for k in range(math.prod(dims))]) for name, dims in shapes.items()]
    for steps in (5, 40):  # unrolled, and a loop
        model.write_bytes(onnx_file.model([onnx_file.node("LSTM", "x w r b", "y", hidden_size=hidden)], [onnx_file.port("x", [steps, "batch", width])],
                                          [onnx_file.port("y", [steps, 1, "batch", hidden])], weights))
        made = world.json("compile", model, "--dim", "batch=1,4", "--db", "none", "-o", module)[-1]
        assert made["takes_all"], made
        x = [[[(t * 3 + b * 5 + k) % 7 - 3 for k in range(width)] for b in range(3)] for t in range(steps)]
        flat = lambda rows: [v for step in rows for b in step for v in b]
        [(shape, padded)] = outputs(world, module, x=([steps, 3, width], flat(x)))
        assert shape == [steps, 1, 3, hidden], shape
        for b in range(3):
            [(_, alone)] = outputs(world, module, x=([steps, 1, width], flat([[step[b]] for step in x])))
            for t in range(steps):
                for k in range(hidden):
                    assert abs(padded[(t * 3 + b) * hidden + k] - alone[t * hidden + k]) < 1e-5, (steps, b, t)


def test_a_difference_that_begins_at_larger_sizes_is_found(world):
    """Rows from the fourth on are negated: rows of sizes 2 and 3 are all alike, and so is what is made of them."""
    module, model = world.path("f.kiln"), pathlib.Path(world.path("f.onnx"))
    scalars = [onnx_file.tensor(name, onnx_file.INT64, [], [value]) for name, value in (("zero", 0), ("one", 1), ("four", 4), ("axis", 0))]
    last = onnx_file.ints("last", [-1])
    nodes = [onnx_file.node("Shape", "x", "s"), onnx_file.node("Gather", "s axis", "n"), onnx_file.node("Range", "zero n one", "r"),
             onnx_file.node("Less", "r four", "l"), onnx_file.node("Unsqueeze", "l last", "c"), onnx_file.node("Neg", "x", "m"),
             onnx_file.node("Where", "c x m", "y")]
    model.write_bytes(onnx_file.model(nodes, [onnx_file.port("x", ["batch", 2])], [onnx_file.port("y", ["batch", 2])], [*scalars, last]))
    made = world.json("compile", model, "--dim", "batch=1,8", "--db", "none", "-o", module)[-1]
    assert not made["takes_all"], made
    made = world.json("compile", model, "--dim", "batch=1,4", "--db", "none", "-o", module)[-1]
    assert made["takes_all"], made
    assert outputs(world, module, x=([3, 2], [1, 2, 3, 4, 5, 6])) == [([3, 2], [1, 2, 3, 4, 5, 6])]


def test_rows_that_depend_on_each_other_are_not_padded(world):
    module = world.path("s.kiln")
    model = batch_model(world, onnx_file.node("MatMul", "x w", "p"), [onnx_file.node("Softmax", "p", "y", axis=0)])
    made = world.json("compile", model, "--dim", "batch=2..6", "--db", "none", "-o", module)[-1]
    assert made["sizes"] == [2, 4, 6] and not made["takes_all"], made
    for size in (2, 4, 6):
        [(shape, y)] = outputs(world, module, x=([size, 8], [0] * 8 * size))
        assert shape == [size, 8] and all(abs(v - 1 / size) < 1e-5 for v in y), y
    world.refused("run", module, "--dim", "batch=3", says="batch is 3; the module takes 2, 4, 6")
    path = pathlib.Path(world.path("x.pb"))
    path.write_bytes(onnx_file.tensor("x", onnx_file.FLOAT, [3, 8], [0] * 24))
    world.refused("run", module, "--input", f"x={path}", says="batch is 3; the module takes 2, 4, 6")


def test_static_c_takes_every_size_up_to_the_largest(world):
    model = batch_model(world, onnx_file.node("MatMul", "x w", "y"))
    run = c_function(world, model, "batch=1,4,8")
    for size in range(1, 9):
        x = [(k * 7) % 5 - 2 + size for k in range(8 * size)]
        assert run(size, x) == (0, product(x)), size
    assert [run(size, [0] * 8 * 9)[0] for size in (0, 9, -1)] == [2, 2, 2]
    listed = c_function(world, batch_model(world, onnx_file.node("MatMul", "x w", "p"), [onnx_file.node("Softmax", "p", "y", axis=0)]), "batch=2,4")
    status, y = listed(4, [0] * 32)
    assert status == 0 and all(abs(v - 1 / 4) < 1e-5 for v in y), y
    assert listed(3, [0] * 24)[0] == 2
    folder = pathlib.Path(world.path("library"))
    world.run("compile", model, "--dim", "batch=1,4", "--db", "none", "--emit", "library", "-o", folder)
    assert "library_run(4, inputs, outputs)" in "".join(file.read_text() for file in folder.rglob("*.ino"))


def c_function(world, model, dim):
    """What the model computes as static C: (status, y) of a size and x."""
    source, library = world.path("sizes.c"), world.path(f"sizes{dim}.so")
    world.run("compile", model, "--dim", dim, "--db", "none", "--emit", "static-c", "-o", source)
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    function = ctypes.CDLL(library).sizes_run

    def run(size, x):
        inputs, y = (ctypes.c_float * len(x))(*x), (ctypes.c_float * len(x))()
        pointers = [(ctypes.c_void_p * 1)(ctypes.addressof(array)) for array in (inputs, y)]
        return function(ctypes.c_long(size), *pointers), list(y)

    return run


def test_trials_are_divided_by_the_shares_of_calls(world):
    model, module, db = batch_model(world, onnx_file.node("MatMul", "x w", "y")), world.path("t.kiln"), world.path("t.db")
    lines = world.json("tune", model, "--dim", "batch=1,4,8", "--weights", "4:30,8:10", "--trials", 8, "--db", db, "--out", module)
    assert [(line["size"], line["trials"]) for line in lines if line["event"] == "size"] == [(1, 0), (4, 6), (8, 2)], lines
    assert [line["measured"] for line in lines if line["event"] == "size_done"] == [0, 6, 2], lines
    assert lines[-1]["event"] == "done" and lines[-1]["sizes"] == [1, 4, 8] and lines[-1]["takes_all"], lines[-1]
    metadata = world.json("inspect", module)[0]["metadata"]
    assert metadata["tasks"] == "3" and metadata["database"] == "t.db", metadata
    x = [k % 7 - 3 for k in range(8 * 6)]
    assert outputs(world, module, x=([6, 8], x)) == [([6, 8], product(x))]
    again = world.json("tune", model, "--dim", "batch=4,8", "--weights", "4:30,8:10", "--trials", 8, "--db", db)
    assert [line["measured"] for line in again if line["event"] == "size_done"] == [0, 0] and again[-1] == {"event": "done", "dim": "batch"}, again
    for options, says in ((["--dim", "batch=1,4", "--weights", "2:5"], "there is no size 2; there are 1, 4"), (["--weights", "1:5"], "no --dim lists several"),
                          (["--dim", "batch=1,4", "--weights", "1=5"], "sizes and shares"), (["--dim", "batch=1,4", "--job", "j"], "each size is a job of its own")):
        world.refused("tune", model, *options, "--db", db, says=says)


def test_a_stage_is_explained_for_each_size(world):
    model = batch_model(world, onnx_file.node("MatMul", "x w", "y"))
    text = world.run("explain", model, "--dim", "batch=1..3", "--stage", "graph").stdout
    assert [line for line in text.splitlines() if line.startswith("batch=")] == ["batch=1:", "batch=2:", "batch=3:"], text
    assert all(f"input x: f32[{size},8]" in text for size in (1, 2, 3)), text
    world.refused("explain", model, "--dim", "batch=1,2", "--stage", "plan", says="--stage plan is of one size of batch")


def test_invalid_lists_of_sizes_are_refused(world):
    model = batch_model(world, onnx_file.node("MatMul", "x w", "y"))
    for dims, says in ((["batch=4,1"], "sizes are 1 or more, grow"), (["batch=1,,4"], "sizes are 1 or more"), (["batch=4..2"], "sizes are 1 or more"),
                       (["batch=1,2", "n=1,2"], "batch has several sizes already"), (["n=1,2"], 'no open dimension "n"')):
        options = [word for dim in dims for word in ("--dim", dim)]
        world.refused("compile", model, *options, "--db", "none", "-o", world.path("x.kiln"), says=says)
        assert not pathlib.Path(world.path("x.kiln")).exists()
    world.refused("compile", model, "--dim", "batch=1,2", "--emit", "loops", says="--emit loops takes one size of batch")


def test_incomplete_modules_are_refused(world):
    whole = pathlib.Path(compiled(world)).read_bytes()
    path = pathlib.Path(world.path("bad.kiln"))
    world.refused("inspect", path, says="No such file")
    for bad, says in ((whole[:-1], "does not fit"), (whole[:20], "not a module"), (whole[:9000] + b"?" + whole[9001:], "is damaged")):
        path.write_bytes(bad)
        world.refused("inspect", path, says=says)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
