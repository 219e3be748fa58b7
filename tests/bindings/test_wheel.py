#!/usr/bin/env python3
"""The wheels that `./dev wheel` wrote, on a machine that has nothing else of Kiln. `./dev test wheel` makes them first and
passes their place; otherwise these tests are skipped."""
import os
import pathlib
import subprocess
import sys

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIST = os.environ.get("KILN_DIST")
KILN_WHEEL_BYTES_MAX, RUN_WHEEL_BYTES_MAX = 60_000_000, 2_000_000
TUNES = "import kiln, numpy; m = kiln.tune('m.onnx', trials=32); print(m(numpy.zeros((1,3,32,32),'f')))"


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=harness.DEADLINE_S, **how)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr[-1500:] or done.stdout[-1500:]}"
    return done.stdout


def wheel(name, folder="."):
    if not DIST:
        raise harness.Skip("`./dev test wheel` builds the wheels and runs this")
    return next(pathlib.Path(DIST, folder).glob(f"{name}-[0-9]*.whl"))


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


# A product with constant weights: of the unit matrix it is the weights, of ones their sums.
RUNS = """
import array, kiln
def product(element):
    x = array.array("f", (element(i, j) for i in range(64) for j in range(64)))
    return memoryview(m(memoryview(x).cast("B").cast("f", (64, 64)))).tolist()
m = kiln.load("m.kiln")
weights, sums = product(lambda i, j: i == j), product(lambda i, j: 1)
assert any(map(any, weights)) and all(abs(sum(column) - one) < 1e-4 for column, one in zip(zip(*weights), sums[5]))
print(hasattr(kiln, "tune"))
"""


def test_the_wheel_of_modules_alone(world):
    built = wheel("kiln_run")
    assert built.stat().st_size <= RUN_WHEEL_BYTES_MAX, built.stat().st_size
    python, env = installed(world, built)
    world.run("compile", world.zoo("gemm:64x64x64"), "--db", "none", "-o", world.path("m.kiln"))
    assert run(python, "-c", RUNS, env=env, cwd=world.folder) == "False\n"


def test_the_wheel_of_modules_alone_for_arm(world):
    """Debian's Python for 64-bit ARM under an emulator, with what pip installs for such a machine."""
    built = wheel("kiln_run", "aarch64")
    assert built.stat().st_size <= RUN_WHEEL_BYTES_MAX, built.stat().st_size
    libc = built.stem.rsplit("-", 1)[1].split(".")[0]
    run(ROOT / "build/python-tools/bin/pip", "install", "--quiet", "--target", world.path("arm"), "--only-binary=:all:", "--no-deps", "--platform", libc, built)
    world.run("compile", world.zoo("gemm:64x64x64"), "--db", "none", "--target", "rpi4", "-o", world.path("m.kiln"))
    debian = ROOT / "build-sysroot/aarch64-python"
    env = {"HOME": world.path("home"), "PYTHONPATH": world.path("arm"), "QEMU_CPU": "cortex-a72"}
    said = run("qemu-aarch64", "-L", debian, debian / "usr/bin/python3.11", "-c", RUNS, env={**env, "PATH": os.environ["PATH"]}, cwd=world.folder)
    assert said == "False\n", said


def test_wheels_are_what_their_names_say(world):
    tool = ROOT / "build/python-tools/bin/auditwheel"
    for built in (wheel("kiln"), wheel("kiln_run"), wheel("kiln_run", "aarch64")):
        tag = built.stem.rsplit("-", 1)[1].split(".")[0]
        said = run(tool, "show", built)
        assert f'"{tag}"' in said, said


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
