#!/usr/bin/env python3
"""Accelerators of the VTA class in the fleet: layers are tuned, packed with what their host does, and checked."""
import json
import pathlib
import sys

import harness
import onnx_file as o
from harness import until

LAYER = "conv:32,14,14,32,3,3,1,1,1,1,1,1,1,1,1_int8"


def expect_right(world, module):
    checked = world.json("run", module, "--check")[-1]
    assert checked["event"] == "checked" and checked["right"] and checked["different"] == 0, checked


def test_a_private_fleet_offers_the_machine(world):
    model, db, module = world.zoo(LAYER), world.path("t.db"), world.path("layer.kiln")
    done = world.json("tune", model, "--target", "pynq-vta", "--trials", 6, "--db", db, "--out", module)[-1]
    assert done["peak_gflops"] == 51.2 and 0 < done["tasks"][0]["share_of_peak"] < 1, done
    assert done["event"] == "done" and done["measured"] == 6 and done["verified"] > 0, done
    assert len(done["tasks"]) == 1, done  # conversions are the host's, and nothing measures them
    [layer] = world.json("explain", model, "--stage", "plan", "--target", "pynq-vta")[-1]["layers"]
    assert not layer["on_host"] and layer["layout"].endswith("%16"), layer
    [row] = world.sql("t.db", "SELECT DISTINCT target, artefact_kind FROM record WHERE outcome = 'ok'")
    assert row[0].startswith("vta:b1i16o16") and row[1] == "vta", row
    # Its clock counts cycles: a schedule takes the same time whenever it is measured.
    times = world.sql("t.db", "SELECT count(DISTINCT median_ns) FROM record WHERE outcome = 'ok' GROUP BY trace_hash")
    assert all(count == ["1"] for count in times), times
    metadata = world.json("inspect", module)[0]["metadata"]
    assert metadata["target"] == row[0] and metadata["host"].startswith("cpu:"), metadata
    expect_right(world, module)
    [program] = world.json("vta", "check", module)
    assert program["event"] == "checked" and program["instructions"] > 4, program
    assert json.loads(world.run("vta", "trace", module).stdout)["traceEvents"]
    assert "# conv" in world.run("vta", "disasm", module).stdout
    world.left_nothing()


def test_values_are_padded_between_kernels(world):
    """Convolutions of 3, 40 and 23 channels, the last to floats: two on the device, and what the host reads is padded."""
    weights = [o.tensor(f"w{i}", o.FLOAT, [out, made, 3, 3], [(7 * k % 11 - 5) / 8 for k in range(out * made * 9)])
               for i, (made, out) in enumerate(((3, 40), (40, 23), (23, 5)))]
    nodes = [o.node("Conv", f"v{i} w{i}", f"v{i + 1}", kernel_shape=[3, 3], pads=[1, 1, 1, 1]) for i in range(3)]
    floats, model, module = world.path("f.onnx"), world.path("m.onnx"), world.path("m.kiln")
    pathlib.Path(floats).write_bytes(o.model(nodes, [o.port("v0", [1, 3, 12, 12])], [o.port("v3", [1, 5, 12, 12])], weights))
    world.run("quantize", floats, "--shift", "-o", model)
    layers = world.json("explain", model, "--stage", "plan", "--target", "pynq-vta")[-1]["layers"]
    assert [layer["on_host"] for layer in layers] == [True, False, False, True], layers
    done = world.json("tune", model, "--target", "pynq-vta", "--trials", 4, "--db", world.path("t.db"), "--out", module)[-1]
    assert done["verified"] == 4 and len(done["tasks"]) == 2, done
    expect_right(world, module)


def test_a_module_is_timed_and_has_one_reference(world):
    model, module = world.zoo(LAYER), world.path("layer.kiln")
    world.run("compile", model, "--target", "pynq-vta", "--db", "none", "-o", module)
    expect_right(world, module)
    world.refused("run", module, "--check", "--model", world.zoo("gemm:4x4x4"), says="is not the model that the module was made from")
    world.refused("run", module, "--check", "--bench", says="leave out --bench")
    # Times are the machine's, cycles over its clock, not those of its simulator.
    [bench] = world.json("run", module, "--bench")
    [conv] = [kernel for kernel in bench["kernels"] if kernel["op"].startswith("conv_integer")]
    [counted] = world.json("vta", "run", module)
    assert conv["min_ms"] == conv["median_ms"] < bench["median_ms"], bench
    assert abs(conv["median_ms"] - counted["cycles"] / 1e5) < 1e-9, (conv, counted)
    pathlib.Path(model).unlink()
    world.refused("run", module, "--check", says="is neither beside the module nor here")


def test_two_machines_share_a_fleet_and_one_dies(world):
    """The one in a file is another machine: its records are its own, and work for it waits until it is back."""
    wide = pathlib.Path(world.path("wide.vta"))
    wide.write_text("vta:pynq,bus128\n", encoding="utf-8")
    _, address = world.tracker()
    world.board(address, "--executor", "vta", "--device", "pynq", key="pynq")
    board = world.board(address, "--executor", "vta", "--device", str(wide), key="wide", state="wide")
    world.tuner(address)
    rows = until(lambda: (lambda r: r if len(r) == 2 else None)(world.json("fleet", "list", "--tracker", address)), "both machines in the fleet")
    assert sorted("bus128" in row["target"] for row in rows) == [False, True], rows
    model, times = world.zoo(LAYER), []
    for target in ("pynq-vta", "pynq-vta,bus128"):
        done = world.json("tune", model, "--target", target, "--tracker", address, "--trials", 4, "--db", world.path("t.db"))[-1]
        assert done["event"] == "done" and done["verified"] > 0, done
        times.append(done["tasks"][0]["best_ms"])
    assert times[1] < times[0], times
    world.kill(board)
    job = world.start("kiln", "tune", model, "--target", "pynq-vta,bus128", "--tracker", address, "--trials", 8, "--db", world.path("t.db"), "--json")
    world.board(address, "--executor", "vta", "--device", "vta:pynq,bus128", key="wide", state="wide")
    world.ends(job)
    rows = world.sql("t.db", "SELECT count(DISTINCT target), count(DISTINCT trial_id) = count(*) FROM record WHERE final = 0")
    assert rows == [["2", "1"]], rows


def test_invalid_machines_are_refused(world):
    text = pathlib.Path(world.path("bad.vta"))
    text.write_text("pynq,bus33\n", encoding="utf-8")
    server = lambda *argv, says: world.refused("--tracker", "127.0.0.1:1", "--executor", *argv, says=says, name="kiln-rpc-server")
    server("vta", "--device", str(text), says="bus33")
    server("vta", "--device", world.path("none.vta"), says="none.vta")
    server("vta", "--device", "vta:pynq,engines9", says="engines9")
    server("null", "--device", "vta:pynq", says="no device of --executor null is named")
    world.refused("compile", world.zoo(LAYER), "--target", "vta:pynq,bus33", "-o", world.path("x.kiln"), says="bus33")
    world.refused("compile", world.zoo(LAYER), "--target", "pynq-vta,host=nobody", "-o", world.path("x.kiln"), says="the host")
    # Floats are the host's: there is nothing for a device to tune.
    [layer] = world.json("explain", world.zoo("gemm:4x4x4"), "--stage", "plan", "--target", "pynq-vta")[-1]["layers"]
    assert layer["on_host"], layer
    small = world.zoo("gemm:4x4x4")
    for stage in ("space", "tasks", "loops", "tokens"):  # else a stage of no task would print nothing
        assert "# on the host: matmul 4x4 over 4: " in world.run("explain", small, "--stage", stage, "--target", "pynq-vta").stdout
    # Three channels in tiles of 16 pay for 32 results of 3x3, two do not for two results of one pixel.
    places = [world.json("explain", world.zoo(f"conv:{shape},1,1,1_int8"), "--stage", "plan", "--target", "pynq-vta")[-1]["layers"][0]["on_host"]
              for shape in ("3,56,56,32,3,3,1,1,1,1,1,1", "2,56,56,2,1,1,1,1,0,0,0,0")]
    assert places == [False, True], places
    done = world.json("tune", world.zoo("gemm:4x4x4"), "--target", "pynq-vta", "--trials", 2, "--db", world.path("t.db"))[-1]
    assert done["event"] == "done" and done["tasks"] == [] and done["measured"] == 0, done


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
