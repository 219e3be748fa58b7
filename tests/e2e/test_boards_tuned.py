#!/usr/bin/env python3
"""The whole loop over boards of other processors, under emulation: the real tuner tunes over what ./dev cross built, the
module runs there, and its outputs are the interpreter's."""
import array
import json
import pathlib
import sys

import harness
from harness import until
from test_boards import board_program, emulated_board, emulator

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx"
CONV = "conv:32,14,14,32,3,3,1,1,1,1,1,1,1,1,1"
TOLERANCE = 1e-4  # of the largest value
BOARDS = {"rpi4": ("aarch64", "aarch64"), "pynq": ("armhf", "arm")}  # key and target -> build folder, emulator


def floats(file):
    """The elements of a .npy file of float32."""
    data = file.read_bytes()
    assert data[:6] == b"\x93NUMPY" and b"'<f4'" in data[:128], file
    values = array.array("f")
    values.frombytes(data[10 + int.from_bytes(data[8:10], "little"):])
    return values


def check_outputs(world, model, module, target):
    """The module, run on the board's processor, computes what the interpreter does."""
    places = [pathlib.Path(world.path(name)) for name in ("in", "wanted", "got")]
    for place in places:
        place.mkdir(exist_ok=True)
    given, wanted, got = places
    world.run(model, given, wanted, name=harness.PROGRAMS / "tests/e2e/interpret")
    arch, qemu = BOARDS[target]
    inputs = [word for file in given.iterdir() for word in ("--input", f"{file.stem}={file}")]
    world.run(board_program(arch, "deploy/run/kiln-run"), module, *inputs, "--output", got, name=emulator(qemu))
    outputs = list(wanted.iterdir())
    assert outputs
    for file in outputs:
        right, here = floats(file), floats(got / file.name)
        largest = max(map(abs, right))
        assert len(here) == len(right) and largest > 0
        worst = max(abs(a - b) for a, b in zip(here, right))
        assert worst <= TOLERANCE * largest, f"{file.name}: off by {worst} of {largest}"


def check_records(world, target, tasks):
    """Every time is labelled, for people and in its key; none of them is a processor's."""
    best = world.json("db", "best", "--db", world.path("client.db"))
    assert len(best) >= tasks and all(row["target"].endswith(",emulated") for row in best), best
    assert all(row["checked"] for row in best), best
    assert "emulated" in world.run("db", "best", "--db", world.path("client.db")).stdout
    real = world.sql("client.db", "SELECT count(*) FROM record WHERE target NOT LIKE '%,emulated'")
    assert real[-1] == ["0"], real


def fleet_of(world, target):
    """A tracker, an emulated board and a tuner: the tracker's address and the board."""
    _, address = world.tracker()
    row, board = emulated_board(world, *BOARDS[target], target, address)
    assert row["target"].endswith(",emulated"), row
    world.tuner(address)
    return address, board


def check_tuning(world, target, model, trials, tasks):
    address, _ = fleet_of(world, target)
    module = world.path("tuned.kiln")
    done = world.run("tune", model, "--target", target, "--trials", trials, "--tracker", address, "--db", world.path("client.db"),
                     "--out", module, "--json")
    assert "only emulated boards" in done.stderr, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["verified"] > 0, events
    [shipped] = [event for event in events if event["event"] == "module"]
    assert shipped["untimed"] == "the board is emulated" and shipped["accuracy"]["checked"], shipped
    assert 0 < shipped["accuracy"]["error"] < 1e-4, shipped
    check_records(world, target, tasks)
    check_outputs(world, model, module, target)


def test_digits_are_tuned_over_an_aarch64_board(world):
    check_tuning(world, "rpi4", DIGITS, 12, 6)


def test_digits_are_tuned_over_an_armv7_board(world):
    check_tuning(world, "pynq", DIGITS, 12, 6)


def test_a_convolution_is_tuned_over_an_aarch64_board(world):
    model, plain = world.zoo(CONV), world.path("plain.kiln")
    check_tuning(world, "rpi4", model, 6, 1)
    # What is made for the processor itself knows nothing of those times, and runs there as well.
    made = world.json("compile", model, "--target", "rpi4", "--db", world.path("client.db"), "-o", plain)
    assert made[-1]["tuned"] == 0, made
    assert "emulated board are not used" in world.run("compile", model, "--target", "rpi4", "--db", world.path("client.db"), "-o", plain).stderr
    check_outputs(world, model, plain, "rpi4")


def test_a_convolution_is_tuned_over_an_armv7_board(world):
    check_tuning(world, "pynq", world.zoo(CONV), 6, 1)


def test_a_board_that_is_killed_while_it_measures_loses_no_trial(world):
    address, board = fleet_of(world, "rpi4")
    fleet = lambda: world.json("fleet", "list", "--tracker", address)
    world.run("tune", world.zoo(CONV), "--target", "rpi4", "--trials", 4, "--tracker", address, "--db", world.path("client.db"), "--detach",
              "--job", "j")
    until(lambda: any(row.get("busy") or row.get("trials") for row in fleet()), "the board having work")
    world.kill(board)
    until(lambda: any(row["state"] == "lost" for row in fleet()), "the loss being seen")
    emulated_board(world, *BOARDS["rpi4"], "rpi4", address)
    world.run("jobs", "attach", "j", "--tracker", address, "--db", world.path("client.db"))
    check_records(world, "rpi4", 1)
    [trials] = world.sql("client.db", "SELECT count(DISTINCT trial_id) FROM record WHERE final = 0 AND outcome = 'ok'")[-1:]
    assert trials == ["4"], trials


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules["__main__"]))
