#!/usr/bin/env python3
"""Kernels that may be merged: tuned beside the separate ones, chosen by measurement, and correct."""
import array
import contextlib
import pathlib
import sqlite3
import sys

import harness
import onnx_file

TUNE = ("--trials", 30, "--search", "random", "--seed", 3)


def scores(world):
    """Three kernels in a row: a product, a softmax, a product. Each two neighbours may be one kernel, and all three."""
    nodes = [onnx_file.node("MatMul", "q k", "s"), onnx_file.node("Softmax", "s", "p", axis=-1), onnx_file.node("MatMul", "p v", "y")]
    ports = [onnx_file.port("q", [64, 16]), onnx_file.port("k", [16, 64]), onnx_file.port("v", [64, 16])]
    file = world.path("scores.onnx")
    with open(file, "wb") as out:
        out.write(onnx_file.model(nodes, ports, [onnx_file.port("y", [64, 16])]))
    return file


def plan_of(world, model, *options):
    [plan] = world.json("explain", model, "--stage", "plan", *options)
    return plan


def floats(file):
    """The elements of a .npy file of float32."""
    data = pathlib.Path(file).read_bytes()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])


def expect_right(world, model, module):
    """The module computes what the interpreter does."""
    given, wanted, got = (pathlib.Path(world.path(name)) for name in ("in", "wanted", "got"))
    for folder in (given, wanted, got):
        folder.mkdir(exist_ok=True)
    world.run(model, given, wanted, name=harness.PROGRAMS / "tests/e2e/interpret")
    inputs = [word for file in given.iterdir() for word in ("--input", f"{file.stem}={file}")]
    world.run("run", module, *inputs, "--output", got)
    right, here = floats(wanted / "y.npy"), floats(got / "y.npy")
    assert len(right) == len(here) and max(abs(a - b) for a, b in zip(right, here)) < 1e-5 * max(map(abs, right))


def set_times(world, db, tasks):
    """What was measured of tasks: {operators: nanoseconds}, the products both by one name. Records cannot be changed otherwise."""
    with contextlib.closing(sqlite3.connect(db)) as records, records:
        for [trigger] in records.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%UPDATE%'").fetchall():
            records.execute(f"DROP TRIGGER {trigger}")
        for op, ns in tasks.items():
            records.execute("UPDATE record SET median_ns = ?, min_ns = ? WHERE outcome = 'ok' AND task_key IN "
                            "(SELECT key FROM task WHERE op = ?)", (ns, ns, op))


def kernels_of(world, module):
    return [kernel["op"] for kernel in world.json("run", module, "--bench")[-1]["kernels"]]


def test_merged_kernels_are_tuned_beside_the_separate_ones(world):
    model, db = scores(world), world.path("t.db")
    done = world.json("tune", model, "--db", db, *TUNE)[-1]
    joined = [task for task in done["tasks"] if "matmul" in task["op"] and "softmax" in task["op"]]
    assert len(joined) == 3 and all(task["trials"] >= 1 and task["best_ms"] > 0 for task in joined), done["tasks"]
    again = world.json("tune", model, "--db", db, *TUNE)[-1]
    assert again["measured"] == 0, again
    plan = plan_of(world, model, "--db", db)
    assert len(plan["joins"]) == 3, plan
    for join in plan["joins"]:
        assert join["joined_ms"] > 0 and join["apart_ms"] > 0, join
        assert not join["chosen"] or join["joined_ms"] < join["apart_ms"], join
    chosen = sum(join["kernels"].count(">") for join in plan["joins"] if join["chosen"])
    assert len(plan["layers"]) == 3 - chosen, plan


def test_the_faster_side_is_chosen(world):
    model, db, module = scores(world), world.path("t.db"), world.path("m.kiln")
    world.run("tune", model, "--db", db, *TUNE)
    apart = {"matmul": 1000, "softmax": 1000, "matmul+softmax": 2500, "softmax+matmul": 2500, "matmul+softmax+matmul": 3500}
    sides = [({}, 0, 3), ({"softmax+matmul": 1500}, 1, 2), ({"matmul+softmax+matmul": 2000}, 1, 1)]
    for faster, joined, kernels in sides:
        set_times(world, db, {**apart, **faster})
        plan = plan_of(world, model, "--db", db)
        assert len(plan["layers"]) == kernels and sum(join["chosen"] for join in plan["joins"]) == joined, plan
        text = world.run("explain", model, "--stage", "plan", "--db", db).stdout
        assert text.count("\njoined ") == joined and text.count("\nnot joined ") == 3 - joined, text
        world.run("compile", model, "--db", db, "-o", module)
        expect_right(world, model, module)
    world.run("compile", model, "--db", db, "--without", "joins", "-o", module)
    assert len(kernels_of(world, module)) == 3
    expect_right(world, model, module)


def test_a_merged_kernel_may_be_taken_back(world):
    """Whichever side turns out faster in whole modules: the module has it, and is right."""
    model, db, module = scores(world), world.path("t.db"), world.path("m.kiln")
    world.run("tune", model, "--db", db, *TUNE)
    set_times(world, db, {"matmul": 10**6, "softmax": 10**6, "matmul+softmax": 10**7, "softmax+matmul": 10**7, "matmul+softmax+matmul": 1000})
    [end] = [event for event in world.json("tune", model, "--db", db, "--trials", 0, "--out", module) if event["event"] == "module"]
    joined = "matmul+softmax+matmul" in kernels_of(world, module)
    assert joined == (end["tuned"] and not end["taken_back"]), end
    expect_right(world, model, module)


def test_without_measurements_no_kernels_are_merged(world):
    model, db = scores(world), world.path("t.db")
    assert len(plan_of(world, model)["layers"]) == 3
    world.run("tune", model, "--db", db, "--tasks", "softmax", *TUNE)  # all of them but the products alone
    plan = plan_of(world, model, "--db", db)
    assert len(plan["layers"]) == 3 and plan["joins"] == [], plan


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
