#!/usr/bin/env python3
"""The tolerance of `kiln verify`: expected outputs are changed by as much as it allows, and by more."""
import pathlib
import sys

import harness
from onnx_file import BOOL, FLOAT, INT32, INT64, UINT8, graph, model, node, port, tensor


def case(world, name, content, inputs, outputs):
    """A folder with one data set."""
    folder = pathlib.Path(world.path(name))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(content)
    for old in data.iterdir():
        old.unlink()
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for number, content in enumerate(tensors):
            (data / f"{kind}_{number}.pb").write_bytes(content)
    return folder


def passes(world, *what):
    line = world.json("verify", case(world, *what))[0]
    assert line["verdict"] == "passed", line


def fails(world, *what, says):
    done = world.refused("verify", case(world, *what), says="1 of 1 cases failed")
    assert "0 passed, 1 failed, 0 unsupported" in done.stdout and says in done.stdout, done.stdout


def test_booleans_are_exact(world):
    x = [-2, 3, -4, 5]
    less = model([node("Less", "x z", "y")], [port("x", [4])], [port("y", [4], BOOL)], [tensor("z", FLOAT, [1], [0])])
    both = model([node("Less", "x z", "l"), node("Not", "l", "y")], [port("x", [4])], [port("y", [4], BOOL)],
                 [tensor("z", FLOAT, [1], [0])])
    for content, right in ((less, [1, 0, 1, 0]), (both, [0, 1, 0, 1])):
        given = [tensor("x", FLOAT, [4], x)]
        passes(world, "bool", content, given, [tensor("y", BOOL, [4], right)])
        inverted = [1 - b for b in right]
        fails(world, "bool", content, given, [tensor("y", BOOL, [4], inverted)], says="output y: 4 elements differ")
        fails(world, "bool", content, given, [tensor("y", BOOL, [4], right[:3] + [1 - right[3]])], says="1 elements differ")


def test_integers_of_whole_models_are_exact(world):
    content = model([node("Add", "x x", "d"), node("Mul", "d x", "y")], [port("x", [3], INT32)], [port("y", [3], INT32)])
    given = [tensor("x", INT32, [3], [1, 2, 1 << 20])]
    right = [2, 8, 0]  # the last wraps around
    passes(world, "int", content, given, [tensor("y", INT32, [3], right)])
    fails(world, "int", content, given, [tensor("y", INT32, [3], [2, 9, 0])], says="1 elements differ, by at most 1, first at 1")


def test_floats_near_zero_are_held_against_the_largest(world):
    content = model([node("Neg", "x", "y")], [port("x", [3])], [port("y", [3])])
    given = [tensor("x", FLOAT, [3], [-64, 0, -1])]
    passes(world, "near", content, given, [tensor("y", FLOAT, [3], [64, 7e-6, 1])])  # one unit in the last place of 64
    fails(world, "near", content, given, [tensor("y", FLOAT, [3], [64, 9e-6, 1])], says="1 elements differ")
    fails(world, "near", content, given, [tensor("y", FLOAT, [3], [64, 0, 1.002])], says="1 elements differ")
    given = [tensor("x", FLOAT, [3], [-0.5, 0, -1])]
    fails(world, "near", content, given, [tensor("y", FLOAT, [3], [0.5, 2e-7, 1])], says="1 elements differ")


def quantised_model(*after):
    """u8 = quantize(x, 0.5, 10), then `after`."""
    constants = [tensor("s", FLOAT, [], [0.5]), tensor("z", UINT8, [], [10])]
    return lambda output: model([node("QuantizeLinear", "x s z", "q"), *after], [port("x", [4])], [output], constants)


def test_integers_behind_a_rounding_may_differ_by_one(world):
    given = [tensor("x", FLOAT, [4], [0, 1, 2, 30])]
    for content in (quantised_model(node("Identity", "q", "y"))(port("y", [4], UINT8)),
                    quantised_model(node("Max", "q q", "y"))(port("y", [4], UINT8))):
        passes(world, "q", content, given, [tensor("y", UINT8, [4], [10, 12, 14, 70])])
        passes(world, "q", content, given, [tensor("y", UINT8, [4], [10, 11, 15, 70])])
        fails(world, "q", content, given, [tensor("y", UINT8, [4], [10, 12, 14, 72])], says="1 elements differ, by at most 2")
    largest = quantised_model(node("ArgMax", "q", "y", axis=0, keepdims=1))(port("y", [1], INT64))
    passes(world, "q", largest, given, [tensor("y", INT64, [1], [3])])
    fails(world, "q", largest, given, [tensor("y", INT64, [1], [2])], says="by at most 1")


def test_floats_of_quantised_models_may_differ_by_one_quantum(world):
    given = [tensor("x", FLOAT, [4], [0, 1, 2, 30])]
    content = quantised_model(node("DequantizeLinear", "q s z", "y"))(port("y", [4]))
    passes(world, "f", content, given, [tensor("y", FLOAT, [4], [0, 1, 2, 30])])
    passes(world, "f", content, given, [tensor("y", FLOAT, [4], [0, 1.5, 1.5, 30])])
    fails(world, "f", content, given, [tensor("y", FLOAT, [4], [0, 1, 3, 30])], says="max |a-r| 1 of max")
    enlarged = quantised_model(node("DequantizeLinear", "q s z", "d"), node("Add", "d d", "y"))(port("y", [4]))
    fails(world, "f", enlarged, given, [tensor("y", FLOAT, [4], [0, 2.5, 4, 60])], says="max |a-r| 0.5")


def test_nothing_to_compare_is_a_failure(world):
    content = model([node("Relu", "x", "y"), node("Neg", "x", "z")], [port("x", [2])], [port("y", [2]), port("z", [2])])
    given = [tensor("x", FLOAT, [2], [-1, 2])]
    y, z = tensor("y", FLOAT, [2], [0, 2]), tensor("z", FLOAT, [2], [1, -2])
    passes(world, "n", content, given, [y, z])
    fails(world, "n", content, given, [], says="has no expected output y (output_0.pb), output z (output_1.pb)")
    fails(world, "n", content, given, [y], says="has no expected output z (output_1.pb)")
    fails(world, "n", content, given, [y, z, z], says="output_2.pb is one too many: the model has 2 outputs")
    fails(world, "n", content, given * 2, [y, z], says="input_1.pb is one too many: the model has 1 input")
    fails(world, "n", content, given, [y, tensor("z", FLOAT, [1, 2], [1, -2])], says="output z: f32[2] where the data set has f32[1,2]")
    fails(world, "n", content, given, [y, tensor("z", INT32, [2], [1, -2])], says="output z: f32[2] where the data set has i32[2]")
    fails(world, "n", content, given, [y, b"\x07"], says="output_1.pb")
    folder = case(world, "n", content, [], [])
    (folder / "test_data_set_0").rmdir()
    done = world.refused("verify", folder, says="1 of 1 cases failed")
    assert "has no test_data_set_0" in done.stdout, done.stdout


def endless(condition, limit):
    """y = x with `step` taken while `condition`, and every value of it, z."""
    body = graph([node("Add", "a a" if condition == "a2" else "a one", "a2"), node("Less", condition + " limit", "more"),
                  node("Identity", "a2", "each")],
                 [port("i", [], INT64), port("go", [], BOOL), port("a", [])],
                 [port("more", [], BOOL), port("a2", []), port("each", [])])
    return model([node("Loop", "n go0 x", "y z", body=("graph", body))], [port("x", [])], [port("y", []), port("z", ["rows"])],
                 [limit, tensor("one", FLOAT, [], [1]), tensor("go0", BOOL, [], [1]), tensor("n", INT64, [], [(1 << 63) - 1])])


def test_outputs_may_have_as_many_rows_as_a_loop_ran(world):
    """5,000 iterations are not unrolled; how many there are, the run says."""
    content = endless("i", tensor("limit", INT64, [], [4999]))
    given, last = [tensor("x", FLOAT, [], [0])], tensor("y", FLOAT, [], [5000])
    rows = list(range(1, 5001))
    right = case(world, "g", content, given, [last, tensor("z", FLOAT, [5000], rows)])
    done = world.run("verify", right)
    assert "0 passed, 0 failed, 1 unsupported" in done.stdout and "--loop-max" in done.stdout, done.stdout
    world.run("verify", right, "--loop-max", 5000)
    world.run("verify", right, "--loop-max", 6000)
    done = world.refused("verify", right, "--loop-max", 4999, says="1 of 1 cases failed")
    assert "is to run 9223372036854775807 times; at most 4999 fit" in done.stdout, done.stdout
    wrong = case(world, "w", content, given, [last, tensor("z", FLOAT, [5001], rows + [0])])
    done = world.refused("verify", wrong, "--loop-max", 5001, says="1 of 1 cases failed")
    assert "output z: f32[5000] where the data set has f32[5001]" in done.stdout, done.stdout


def test_a_run_writes_as_many_rows_as_a_loop_ran(world):
    """x is doubled while it is below 100."""
    folder = case(world, "d", endless("a2", tensor("limit", FLOAT, [], [100])), [tensor("x", FLOAT, [], [30])], [])
    module = world.path("d.kiln")
    world.run("compile", folder / "model.onnx", "--loop-max", 8, "-o", module)
    lines = world.json("run", module, "--input", f"x={folder}/test_data_set_0/input_0.pb")
    assert [(line["name"], line["elements"]) for line in lines] == [("y", 1), ("z", 2)], lines
    assert lines[1]["min"] == 60 and lines[1]["max"] == 120, lines


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
