#!/usr/bin/env python3
"""What is said of a module: `kiln inspect`."""
import hashlib
import pathlib
import sys

import harness

TARGET = "x86-64-v3"  # modules are looked at on any machine


def digits():
    return str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")


def compiled(world, name="d.kiln", *options):
    module = world.path(name)
    world.run("compile", digits(), "--target", TARGET, "-o", module, *options)
    return module


def test_a_module_says_what_it_is(world):
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


def test_a_tuned_module_names_its_database(world):
    module = world.path("g.kiln")
    world.json("tune", world.zoo("gemm:16x16x16"), "--trials", 2, "--db", world.path("own.db"), "--out", module)
    metadata = world.json("inspect", module)[0]["metadata"]
    assert metadata["database"] == "own.db" and metadata["model"] == "gemm_16x16x16.onnx", metadata


def test_what_is_no_whole_module_is_refused(world):
    whole = pathlib.Path(compiled(world)).read_bytes()
    path = pathlib.Path(world.path("bad.kiln"))
    world.refused("inspect", path, says="No such file")
    for bad, says in ((whole[:-1], "does not fit"), (whole[:20], "not a module"), (whole[:9000] + b"?" + whole[9001:], "is damaged")):
        path.write_bytes(bad)
        world.refused("inspect", path, says=says)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
