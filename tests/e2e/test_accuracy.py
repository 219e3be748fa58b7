#!/usr/bin/env python3
"""Budgets of accuracy: what they leave of the space is searched, and what they leave of the records is chosen."""
import sys

import harness

CONV = "conv:32,14,14,32,3,3,1,1,1,1,1,1,1,1,1"


def algorithms(world):
    return {name for [name] in world.sql("t.db", "SELECT DISTINCT algorithm FROM record WHERE outcome = 'ok'")}


def tune(world, model, *options, trials=24):
    return world.json("tune", model, "--trials", trials, "--tasks", "conv", "--db", world.path("t.db"), "--search", "random", *options)


def test_exact_tries_direct_sums_only(world):
    model = world.zoo(CONV)
    tune(world, model, "--exact")
    assert algorithms(world) == {"direct"}
    assert "winograd" in world.run("explain", model, "--stage", "space").stdout
    assert "winograd" not in world.run("explain", model, "--stage", "space", "--exact").stdout


def test_a_narrow_budget_leaves_the_direct_form(world):
    tune(world, world.zoo(CONV), "--accuracy", "1e-9")
    assert algorithms(world) == {"direct"}


def test_records_keep_their_measured_error(world):
    tune(world, world.zoo(CONV))
    assert "winograd_2x2_3x3" in algorithms(world)
    rows = world.sql("t.db", "SELECT algorithm, relative_error FROM record WHERE outcome = 'ok'")
    assert all(float(error) < 1e-5 and (name == "direct" or float(error) > 0) for name, error in rows), rows


def test_records_over_the_budget_are_not_chosen(world):
    model, db = world.zoo(CONV), world.path("t.db")
    tune(world, model)
    [why] = world.json("explain", model, "--why", "0", "--db", db)
    [exact] = world.json("explain", model, "--why", "0", "--db", db, "--exact")
    assert exact["algorithm"] == "direct" and why["best_ms"] <= exact["best_ms"], (why, exact)
    loops = world.run("explain", model, "--stage", "loops", "--db", db, "--accuracy", "1e-9").stdout
    assert "winograd" not in loops
    before = world.sql("t.db", "SELECT count(*) FROM record WHERE algorithm <> 'direct'")
    tune(world, model, "--exact", trials=8)
    assert before == world.sql("t.db", "SELECT count(*) FROM record WHERE algorithm <> 'direct'")


def test_wrong_values_are_refused(world):
    model = world.zoo("gemm:8x8x8")
    for command in ("tune", "compile", "explain"):
        for value in ("0", "-1", "1", "nan", "much"):
            world.refused(command, model, f"--accuracy={value}", says="--accuracy is above 0 and below 1")
        world.refused(command, model, "--accuracy", "1e-3", "--exact", says="--exact keeps to direct sums")
        world.refused(command, model, "--precision", "f8", says="--precision is f32, bf16, f16, int8 or auto")
        world.refused(command, model, "--precision", "int8", says="kiln quantize")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
