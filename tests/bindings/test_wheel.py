#!/usr/bin/env python3
"""The wheels that `./dev wheel` wrote, on a machine that has nothing else of Kiln. `./dev test wheel` makes them first and
says where they are; without that these tests are skipped."""
import os
import pathlib
import subprocess
import sys

import harness

DIST = os.environ.get("KILN_DIST")
KILN_WHEEL_BYTES_MAX, RUN_WHEEL_BYTES_MAX = 60_000_000, 2_000_000
TUNES = "import kiln, numpy; m = kiln.tune('m.onnx', trials=32); print(m(numpy.zeros((1,3,32,32),'f')))"


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=harness.DEADLINE_S, **how)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr[-1500:] or done.stdout[-1500:]}"
    return done.stdout


def wheel(name):
    if not DIST:
        raise harness.Skip("`./dev test wheel` builds the wheels and runs this")
    return next(pathlib.Path(DIST).glob(f"{name}-[0-9]*.whl"))


def installed(world, *what):
    """Python of a new environment where `what` is installed, and an environment of variables that names nothing else."""
    run(sys.executable, "-m", "venv", world.path("v"))
    run(world.path("v/bin/pip"), "install", "--quiet", "--disable-pip-version-check", *what)
    return world.path("v/bin/python"), {"HOME": world.path("home"), "PATH": "/nowhere"}


def test_the_wheel_tunes_where_nothing_is_on_path(world):
    built = wheel("kiln")
    assert built.stat().st_size <= KILN_WHEEL_BYTES_MAX, built.stat().st_size
    python, env = installed(world, built, "numpy")
    world.run("zoo", "conv:3,32,32,16,3,3,1,1,1,1,1,1,1,1,1", "-o", world.path("m.onnx"))
    assert "[[[[" in run(python, "-c", TUNES, env=env, cwd=world.folder)
    for target in ("rpi4", "pynq", "riscv64"):
        run(python, "-m", "kiln", "compile", "m.onnx", "--target", target, "-o", "b.kiln", env=env, cwd=world.folder)
    world.left_nothing()


def test_the_wheel_of_modules_alone(world):
    built = wheel("kiln_run")
    assert built.stat().st_size <= RUN_WHEEL_BYTES_MAX, built.stat().st_size
    python, env = installed(world, built)
    world.run("compile", world.zoo("gemm:64x64x64"), "--db", "none", "-o", world.path("m.kiln"))
    script = "import kiln; y = kiln.load('m.kiln')(memoryview(bytes(16384)).cast('f', (64, 64))); print(y.shape, hasattr(kiln, 'tune'))"
    assert run(python, "-c", script, env=env, cwd=world.folder) == "(64, 64) False\n"


def test_wheels_are_what_their_names_say(world):
    tools = pathlib.Path(DIST or ".").parent / "build/python-tools/bin/auditwheel"
    for name in ("kiln", "kiln_run"):
        built = wheel(name)
        said = run(tools, "show", built)
        assert f'"{built.stem.rsplit("-", 1)[1].split(".")[0]}"' in said.replace("\n", " "), said


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
