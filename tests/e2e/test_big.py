#!/usr/bin/env python3
"""Models as large as they may be, on every way that they go: compiled, tuned by a private fleet, submitted to a web server, with
weights in the file and beside it. `./dev test` runs it with matrices of 250 KB, `./dev test big` (KILN_BIG=1) with 250 MB: models
of 2.1 GB, which take 25 GB of disk and 6 GB of memory."""
import array
import os
import pathlib
import random
import re
import shutil
import struct
import sys
import time

import harness
import large_model
from large_model import Chain
from web_data import Server

IS_BIG = bool(os.environ.get("KILN_BIG"))
CHAIN = Chain(8192, 8000) if IS_BIG else Chain(256, 250)
INSIDE, BESIDE = 8, 10  # matrices: 2.10 GB, just below the limit of a file, and 2.62 GB, above that of a blob
FILE_MAX, SENT_MAX = 2 << 30, 2304 << 20
DISK_BYTES, MEMORY_BYTES = 25 << 30, 8 << 30
ERROR_MAX = 1e-4  # of the largest output: the default of --accuracy
SERVER_MIB = 200  # of memory that servers may take: a tenth of the model
MODEL_MIB = 2560  # of memory for those who read and compile the model: less than two copies of it
if IS_BIG:
    harness.DEADLINE_S = 3600


def needs_room(world):
    memory = int(re.search(r"MemAvailable: +(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) << 10
    if IS_BIG and (shutil.disk_usage(world.folder).free < DISK_BYTES or memory < MEMORY_BYTES):
        raise harness.Skip(f"it takes {DISK_BYTES >> 30} GiB of disk and {MEMORY_BYTES >> 30} GiB of memory")


def write_row(path, row):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, %d), }\n" % len(row)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + array.array("f", row).tobytes())


def read_row(path):
    data = path.read_bytes()
    return array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])


def peak_mib(child):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{child.pid}/status").read_text()).group(1)) >> 10


def timed(world, what, *argv):
    """Runs a command, and tells how long it took."""
    begin = time.monotonic()
    done = world.run(*argv, timeout=harness.DEADLINE_S)
    print(f"# {what}: {time.monotonic() - begin:.0f} s")
    return done


def run_right(world, module, matrices, *options):
    """Runs a module, and compares some columns of each product with what its inputs give."""
    draw = random.Random(matrices)
    x = [draw.randrange(-8, 8) for _ in range(CHAIN.wide)]
    write_row(world.folder / "x.npy", x)
    timed(world, "run", "run", module, "--input", "x=x.npy", "--output", "out", *options)
    CHAIN.check(x, [read_row(world.folder / f"out/y{i}.npy") for i in range(matrices)], ERROR_MAX)


def test_compiled_in_little_more_memory_than_its_weights_take(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", INSIDE)
    assert not IS_BIG or 0.97 * FILE_MAX < (world.folder / "m.onnx").stat().st_size <= FILE_MAX
    timed(world, "compile", "compile", "m.onnx", "-o", "m.kiln", "--model-memory", MODEL_MIB)
    run_right(world, "m.kiln", INSIDE)


def test_submitted_to_a_web_server(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", INSIDE)
    server = Server(world)
    for module in ("m.kiln", "again.kiln"):
        timed(world, "submit", "submit", "m.onnx", "--web", server.base, "-o", module)
    assert world.run("inspect", "m.kiln").stdout.replace("m.kiln", "") == world.run("inspect", "again.kiln").stdout.replace("again.kiln", "")
    (world.folder / "again.kiln").unlink()
    taken = {child.args[0].rsplit("/")[-1]: peak_mib(child) for child in (server.child, server.tracker)}
    print(f"# MiB of memory: {taken}")
    assert max(taken.values()) < SERVER_MIB, taken
    run_right(world, "m.kiln", INSIDE)


def test_submitted_with_a_budget(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", INSIDE)
    server = Server(world)
    board, tuner = world.board(server.address), world.tuner(server.address)
    timed(world, "submit with trials", "submit", "m.onnx", "--web", server.base, "-o", "m.kiln", "--trials", 4)
    taken = {child.args[0].rsplit("/")[-1]: peak_mib(child) for child in (server.child, server.tracker, board, tuner)}
    print(f"# MiB of memory: {taken}")
    assert max(taken.values()) < SERVER_MIB, taken
    run_right(world, "m.kiln", INSIDE)


def test_tuned_by_a_private_fleet(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", INSIDE)
    timed(world, "tune", "tune", "m.onnx", "--trials", 4, "--db", "t.db", "--out", "m.kiln", "--model-memory", MODEL_MIB)
    assert not list((world.folder / "tmp").iterdir())
    run_right(world, "m.kiln", INSIDE)


def test_run_on_a_board(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", INSIDE)
    world.run("compile", "m.onnx", "-o", "m.kiln")
    (world.folder / "m.onnx").unlink()
    tracker, address = world.tracker()
    board = world.board(address)
    run_right(world, "m.kiln", INSIDE, "--on", "board", "--tracker", address, "--limit", 600)
    taken = {child.args[0].rsplit("/")[-1]: peak_mib(child) for child in (tracker, board)}
    print(f"# MiB of memory: {taken}")
    assert max(taken.values()) < SERVER_MIB, taken


def test_weights_beside_a_model(world):
    needs_room(world)
    CHAIN.write(world.folder / "m.onnx", BESIDE, world.folder / "m.data")
    timed(world, "compile", "compile", "m.onnx", "-o", "m.kiln")
    run_right(world, "m.kiln", BESIDE)
    (world.folder / "m.kiln").unlink()
    server = Server(world)
    submit = ("submit", "m.onnx", "--web", server.base, "-o", "m.kiln")
    if IS_BIG:  # the graph, with its weights, is larger than what may be sent
        size = BESIDE * CHAIN.matrix_bytes
        refused = world.refused(*submit, says=f"a web server takes at most {FILE_MAX}").stderr
        assert size <= int(re.search(r"have (\d+) bytes", refused).group(1)) < size + (1 << 20), refused
        refused = world.refused("tune", "m.onnx", "--trials", 1, "--db", "t.db", says=f"a tracker takes at most {SENT_MAX}").stderr
        assert size <= int(re.search(r"(\d+) bytes, and", refused).group(1)) < size + (1 << 20), refused
    else:
        world.run(*submit)
        run_right(world, "m.kiln", BESIDE)


def test_a_file_above_the_limit_is_refused(world):
    model, web = world.folder / "m.onnx", world.folder / "home"
    web.mkdir()
    (web / "web-token").write_text("x")
    model.write_bytes(b"\x08\x08")
    os.truncate(model, FILE_MAX + 1)  # holes
    for command in (("compile", model, "-o", "m.kiln"), ("tune", model, "--db", "t.db"), ("explain", model), ("quantize", model, "-o", "q.onnx"),
                    ("submit", model, "--web", "http://127.0.0.1:1")):
        world.refused(*command, says=f"has {FILE_MAX + 1} bytes, and a model's file at most {FILE_MAX}")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
