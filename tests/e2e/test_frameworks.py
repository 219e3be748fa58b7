#!/usr/bin/env python3
"""Models of other frameworks beside what the framework itself computes of them. `./dev test frameworks` installs these into
private environments; without them the tests are skipped."""
import json
import pathlib
import subprocess
import sys

import harness
from harness import Skip

ROOT = pathlib.Path(__file__).parents[2]


def in_environment(name, *words):
    """Runs tests/frameworks/NAME.py; returns what it prints."""
    python = ROOT / "build" / f"framework-{name}" / "bin" / "python"
    if not python.exists():
        raise Skip(f"what tests/frameworks/{name}.txt lists is not installed; `./dev test frameworks` does it")
    done = subprocess.run([python, ROOT / "tests" / "frameworks" / f"{name}.py", *words], capture_output=True, text=True,
                          timeout=harness.DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_tflite_models_give_the_results_of_litert(world):
    folder = pathlib.Path(world.path("tflite"))
    folder.mkdir()
    in_environment("tflite", "make", folder)
    ports = json.loads((folder / "ports.json").read_text())
    assert len({place.split(".")[0] for place in ports}) >= 10
    for place, port in ports.items():
        world.run("compile", folder / f"{place}.tflite", "--db", "none", "-o", folder / f"{place}.kiln")
        (folder / place).mkdir()
        inputs = [word for name, file in port["inputs"].items() for word in ("--input", f"{name}={folder / file}")]
        world.run("run", folder / f"{place}.kiln", *inputs, "--output", folder / place)
    done = world.json("quantize", folder / "images.f32.tflite", "--synthetic", 2, "-o", world.path("q.onnx"))[-1]
    assert done["event"] == "quantized" and done["layers"] == 10, done
    wrong = in_environment("tflite", "compare", folder)
    assert not wrong, wrong


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
