#!/usr/bin/env python3
"""Accuracy budgets: the search uses only allowed algorithms, and choices use only allowed records."""
import array
import random
import sys

import harness
import onnx_file

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
    for question in ("best", "top"):
        rows = world.json("db", question, "--db", db, "--exact")
        assert rows and {row["algorithm"] for row in rows} == {"direct"}, rows
    assert "winograd_2x2_3x3" in {row["algorithm"] for row in world.json("db", "top", "--limit", 100, "--db", db)}
    world.refused("db", "best", "--db", db, "--accuracy", "2", says="--accuracy is above 0 and below 1")
    loops = world.run("explain", model, "--stage", "loops", "--db", db, "--accuracy", "1e-9").stdout
    assert "winograd" not in loops
    before = world.sql("t.db", "SELECT count(*) FROM record WHERE algorithm <> 'direct'")
    tune(world, model, "--exact", trials=8)
    assert before == world.sql("t.db", "SELECT count(*) FROM record WHERE algorithm <> 'direct'")


def module_of(events):
    [module] = [event for event in events if event.get("event") == "module"]
    return module


def test_the_whole_network_is_compared_with_double_precision(world):
    events = tune(world, world.zoo("dqn"), "--out", world.path("m.kiln"), trials=8)
    checked = module_of(events)["accuracy"]
    assert checked["checked"] and 0 < checked["error"] < checked["error_max"] == 1e-4, checked
    assert checked["taken_back"] == [], checked
    done = events[-1]
    assert all(task["stated_error"] >= 0 and "measured_error" in task and task["precision"] for task in done["tasks"]), done


def differences(inner, outer):
    """Two products by constant weights whose difference is 16 times smaller than they are."""
    draw = random.Random(1)
    one = array.array("f", [draw.uniform(-1, 1) for _ in range(inner * outer)])
    other = array.array("f", [value + draw.uniform(-1, 1) / 16 for value in one])
    weights = [onnx_file.tensor(name, onnx_file.FLOAT, [inner, outer], data.tobytes()) for name, data in (("W", one), ("V", other))]
    nodes = [onnx_file.node("MatMul", "x W", "p"), onnx_file.node("MatMul", "x V", "q"), onnx_file.node("Sub", "p q", "y")]
    return onnx_file.model(nodes, [onnx_file.port("x", [1, inner])], [onnx_file.port("y", [1, outer])], weights)


def test_alternatives_are_taken_back_until_the_whole_is_within_the_budget(world):
    """Each kernel is within it by its weights of 16 bits; their difference is not."""
    model = world.path("differences.onnx")
    with open(model, "wb") as file:
        file.write(differences(2048, 2048))
    module = module_of(world.json("tune", model, "--trials", "0", "--db", world.path("t.db"), "--out", world.path("m.kiln")))
    checked = module["accuracy"]
    assert checked["before"] > 1e-4 > checked["error"] > 0, checked
    assert module["tuned"] and module["taken_back"] == [], module
    assert {part["algorithm"] for part in checked["taken_back"]} == {"fixed_weights"}, checked


def test_halves_between_kernels_stay_within_their_budget(world):
    """Where the machine multiplies them; elsewhere nothing is stored in halves."""
    [module] = [event for event in world.json("tune", world.zoo("dqn"), "--trials", "0", "--db", world.path("t.db"), "--precision", "bf16",
                                              "--out", world.path("m.kiln")) if event.get("event") == "module"]
    checked = module["accuracy"]
    assert checked["checked"] and 0 < checked["error"] < checked["error_max"] == 2e-2, checked


def test_halves_between_kernels_are_taken_back(world):
    """A difference of results that lie in halves between kernels, where the machine multiplies them; elsewhere nothing does."""
    model = world.path("differences.onnx")
    with open(model, "wb") as file:
        file.write(differences(256, 256))
    options = ["--precision", "bf16", "--accuracy", "7e-3"]
    tune = ["tune", model, "--trials", "0", "--db", world.path("t.db"), *options, "--out", world.path("m.kiln")]
    narrowed = "+cast" in world.run("explain", model, "--stage", "plan", *options).stdout
    module = module_of(world.json(*tune))
    accuracy = module["accuracy"]
    assert 0 < accuracy["error"] < 7e-3 and accuracy["unnarrowed"] == narrowed, module
    if narrowed:
        assert accuracy["before"] > 7e-3 and module["tuned"], module
        text = world.run(*tune).stdout
        assert "taken back for accuracy: halves between kernels" in text, text


def test_a_budget_that_no_algorithm_meets_is_an_error(world):
    """Direct sums are the most exact that there is: they ship, and the summary says so."""
    model = world.zoo("dqn")
    events = tune(world, model, "--out", world.path("m.kiln"), "--accuracy", "1e-9", trials=4)
    assert module_of(events)["accuracy"]["error"] > 1e-9
    text = world.run("tune", model, "--db", world.path("t.db"), "--trials", "0", "--out", world.path("m.kiln"),
                     "--accuracy", "1e-9").stdout
    assert "which no schedule brings to 1e-09" in text, text


def test_the_plan_names_algorithm_precision_and_errors(world):
    model = world.zoo(CONV)
    tune(world, model, trials=4)
    [plan] = world.json("explain", model, "--stage", "plan", "--db", world.path("t.db"))
    [why] = world.json("explain", model, "--why", "0", "--db", world.path("t.db"))
    assert plan["error_max"] == 1e-4 and not plan["exact"], plan
    [layer] = plan["layers"]
    assert layer["algorithm"] == why["algorithm"] and layer["precision"] == "f32" and layer["measured_error"] > 0, layer
    assert abs(layer["median_ms"] - why["best_ms"]) < 1e-9, (layer, why)
    [exact] = world.json("explain", model, "--stage", "plan", "--db", world.path("t.db"), "--exact")
    assert exact["layers"][0]["algorithm"] == "direct", exact
    text = world.run("explain", model, "--stage", "plan", "--db", world.path("t.db")).stdout
    assert text.startswith("f32, errors up to 0.0001\n") and "\n1 kernel" in text, text
    world.refused("explain", model, "--stage", "plan", "--task", "0", says="the stage plan is of the whole model")


def test_wrong_values_are_refused(world):
    model = world.zoo("gemm:8x8x8")
    for command in ("tune", "compile", "explain"):
        for value in ("0", "-1", "1", "nan", "much"):
            world.refused(command, model, f"--accuracy={value}", says="--accuracy is above 0 and below 1")
        world.refused(command, model, "--accuracy", "1e-3", "--exact", says="--exact allows direct sums only")
        world.refused(command, model, "--precision", "f8", says="--precision is f32, tf32, bf16, f16, int8 or auto")
        world.refused(command, model, "--precision", "int8", says="kiln quantize")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
