#!/usr/bin/env python3
"""Models of other frameworks through the Python package, beside what the framework computes. `./dev test frameworks` installs the
frameworks into private environments; without them the tests are skipped."""
import os
import pathlib
import subprocess
import sys
import zipfile

import harness
from test_python import wheel

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS_MIN = 10


def models_of(world, framework):
    """Runs tests/frameworks/FRAMEWORK_models.py where the framework is."""
    python = ROOT / "build" / f"framework-{framework}" / "bin" / "python"
    if not python.exists():
        raise harness.Skip(f"what python/kiln/frameworks/{framework}.txt lists is not installed; `./dev test frameworks` does it")
    zipfile.ZipFile(wheel()).extractall(world.path("package"))
    env = {**world.env, "PYTHONPATH": world.path("package"), "PATH": f"{harness.PROGRAMS / 'cli'}:{os.environ['PATH']}"}
    done = subprocess.run([python, ROOT / "tests" / "frameworks" / f"{framework}_models.py", world.folder], env=env, capture_output=True, text=True,
                          timeout=harness.DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, count = done.stdout.splitlines()
    assert not wrong, wrong
    assert int(count.split()[0]) >= MODELS_MIN, count


def test_models_of_torch(world):
    models_of(world, "torch")


def test_models_of_keras(world):
    models_of(world, "keras")


def test_models_of_jax(world):
    models_of(world, "jax")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
