#!/usr/bin/env python3
"""The Python package: its wheel, built over this build's libraries and installed into an environment of its own, in which
tests/bindings/package.py looks at one promise after the other."""
import functools
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import harness
import onnx_file
from test_install import sized_module_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS, CLEAN = harness.PROGRAMS / "python-tools", harness.PROGRAMS / "python-clean"
RUN_WHEEL_BYTES_MAX = 2_000_000


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr[-1500:] or done.stdout[-1500:]}"
    return done.stdout


def environment(folder, *requirements):
    """An environment of Python with what pip finds; an error of the network is a reason to skip."""
    run(sys.executable, "-m", "venv", folder)
    done = subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *requirements], capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(folder)
        raise harness.Skip(f"PyPI does not give {' '.join(map(str, requirements))}")


@functools.cache
def tools():
    """As ./dev wheel has them."""
    if not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        raise harness.Skip("Python.h is missing: install python3-dev")
    listed, stamp = ROOT / "python/tools.txt", TOOLS / "versions.txt"
    if not stamp.exists() or stamp.read_bytes() != listed.read_bytes():
        shutil.rmtree(TOOLS, ignore_errors=True)
        environment(TOOLS, "--requirement", listed)
        shutil.copy(listed, stamp)
    return TOOLS / "bin"


@functools.cache
def wheel(name="kiln"):
    """The wheel, without what auditwheel adds."""
    place = harness.PROGRAMS / "python-wheel" / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "python", place / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("base", "compiler-core", "deploy", "libkiln"):
        (place / folder).symlink_to(ROOT / folder)
    env = {**os.environ, "PATH": f"{tools()}:{os.environ['PATH']}"}
    run(tools() / "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", place, place / "python",
        f"-Csetup-args=-Dlibkiln={harness.PROGRAMS / 'libkiln'}", f"-Csetup-args=-Dquery={'true' if name == 'kiln' else 'false'}", env=env)
    return next(place.glob("*.whl"))


@functools.cache
def python():
    """Python where the wheel and numpy are installed, and nothing else."""
    built = wheel()
    shutil.rmtree(CLEAN, ignore_errors=True)
    numpy = re.search(r"^numpy==.*$", (ROOT / "python/tools.txt").read_text(encoding="utf-8"), re.M)[0]
    environment(CLEAN, built, numpy)
    return CLEAN / "bin/python"


def module_of(world, *options, name="m.kiln"):
    world.run("compile", world.zoo("gemm:64x64x64"), "--db", "none", "-o", world.path(name), *options)
    return world.path(name)


def case(world, name, *arguments, of="package.py"):
    env = {**world.env, "PATH": f"{harness.PROGRAMS / 'cli'}:{harness.PROGRAMS / 'tracker'}:{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)
    return run(python(), "-X", "dev", "-W", "error", pathlib.Path(__file__).parent / of, name, *arguments, env=env)


def test_memory_is_taken_and_given_in_every_form(world):
    case(world, "calls", module_of(world))


def test_tensors_that_know_dlpack_alone(world):
    case(world, "dlpack", module_of(world))


def test_numpy_is_optional(world):
    case(world, "own_arrays", module_of(world))


def test_tensors_of_frameworks_that_are_installed(world):
    case(world, "frameworks", module_of(world))


def test_converters_that_are_missing_are_named(world):
    case(world, "converters", world.folder)


def test_a_module_says_what_it_is(world):
    case(world, "inspects", module_of(world))


def test_a_module_takes_the_size_of_its_inputs(world):
    case(world, "sizes", sized_module_of(world), sized_module_of(world, onnx_file.node("Softmax", "x", "y", axis=0), "mixed"))


def compiled(world, name, nodes, inputs, outputs, initializers=(), options=(), opset=17):
    pathlib.Path(world.path(name + ".onnx")).write_bytes(onnx_file.model(nodes, inputs, outputs, initializers, opset))
    world.run("compile", world.path(name + ".onnx"), "--db", "none", "-o", world.path(name + ".kiln"), *options)
    return world.path(name + ".kiln")


def test_state_stays_in_the_module(world):
    port, node = onnx_file.port, onnx_file.node
    cache = compiled(world, "cache", [node("TensorScatter", "past k at", "present"), node("Neg", "present", "y")],
                     [port("past", [1, 2, 6, 4]), port("k", [1, 2, 1, 4]), port("at", [1], onnx_file.INT64)],
                     [port("present", [1, 2, 6, 4]), port("y", [1, 2, 6, 4])], opset=24)
    weights = [onnx_file.tensor(name, onnx_file.FLOAT, shape, [((7 * i) % 11 - 5) / 8 for i in range(math.prod(shape))])
               for name, shape in (("W", [1, 12, 2]), ("R", [1, 12, 3]), ("B", [1, 24]))]
    cell = compiled(world, "cell", [node("LSTM", "x W R B n h c", "Y h.next c.next", hidden_size=3)],
                    [port("x", [1, 1, 2]), port("h", [1, 1, 3]), port("c", [1, 1, 3])],
                    [port("Y", [1, 1, 1, 3]), port("h.next", [1, 1, 3]), port("c.next", [1, 1, 3])],
                    [*weights, onnx_file.tensor("n", onnx_file.INT32, [1], [1])])
    sized = compiled(world, "rows", [node("Add", "s x", "t"), node("Add", "w v", "u")], [port(n, ["batch", 8]) for n in "sx"] + [port(n, [8]) for n in "wv"],
                     [port("t", ["batch", 8]), port("u", [8])], options=("--dim", "batch=1,4"))
    case(world, "keeps", cache, cell, sized)


def test_floats_of_eight_bits(world):
    port, node, e4m3fn = onnx_file.port, onnx_file.node, 17
    module = compiled(world, "small", [node("Cast", "x", "z", to=onnx_file.FLOAT), node("Cast", "z", "y", to=e4m3fn)],
                      [port("x", [4], e4m3fn)], [port("y", [4], e4m3fn), port("z", [4])], opset=19)
    case(world, "small_floats", module)
    packages = world.path("packages")
    done = subprocess.run([python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", packages, "ml_dtypes==0.6.0"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise harness.Skip("PyPI does not give ml_dtypes")
    case(world, "small_floats", module, packages)


def test_bad_input_is_one_clear_error(world):
    path = module_of(world)
    foreign = module_of(world, "--target", "rpi4", name="foreign.kiln")
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(world.path("damaged.kiln")).write_bytes(data[:-64] + b"damaged." + data[-56:-5])
    pathlib.Path(world.path("future.kiln")).write_bytes(data[:8] + b"\x63" + data[9:])
    case(world, "refuses", path, foreign, world.path("damaged.kiln"), world.path("future.kiln"))


def test_closing_waits_for_who_runs(world):
    case(world, "closes_meanwhile", module_of(world))


def test_threads_share_modules(world):
    case(world, "threads", module_of(world))


def test_other_threads_run_meanwhile(world):
    case(world, "gil", module_of(world))


def test_nothing_leaks(world):
    world.run("tune", world.zoo("gemm:64x64x64"), "--trials", 2, "--db", world.path("r.db"))
    case(world, "leaks", module_of(world), world.path("r.db"))


def test_a_database_answers(world):
    world.run("tune", world.zoo("gemm:64x64x64"), "--trials", 4, "--db", world.path("r.db"))
    case(world, "database", world.path("r.db"), len(world.json("db", "best", "--db", world.path("r.db"))))


def test_models_are_tuned_and_compiled(world):
    case(world, "tunes", world.zoo("gemm:64x64x64"), world.folder)
    world.left_nothing()


def test_a_program_that_dies_is_an_error_with_what_it_logged(world):
    case(world, "dies", world.folder)


def test_operators_are_written_and_interpreted(world):
    for name in ("compute", "repeat", "arithmetic", "refused", "leaks"):
        case(world, name, of="operators.py")


def test_schedules_are_written_by_hand(world):
    case(world, "schedule", of="operators.py")


def test_operators_become_modules(world):
    case(world, "tune", world.folder, of="operators.py")
    world.left_nothing()


def test_functions_and_steps_are_those_of_the_tables(world):
    said = run(python(), "-c", "from kiln import te, sched; print(*dir(te), *dir(sched.Schedule))").split()
    for table, taken in (("ir/exprs.def", "(BINARY|COMPARE|CALLED)"), ("sched/prims.def", "(APPLY|SAMPLE|BEGIN)")):
        rows = re.findall(rf"^X\((\w+),.*?\b{taken}\b", (ROOT / "compiler-core" / table).read_text(encoding="utf-8"), re.M)
        missing = [row for row, _ in rows if row.lower() not in said and row.lower() + "_" not in said]
        assert len(rows) > 20 and not missing, missing


def test_jobs_of_a_fleet_go_on_alone(world):
    _, address, _, _ = world.fleet()
    case(world, "fleet", address, world.zoo("gemm:64x64x64"), world.path("client.db"))


def test_classes_of_errors_are_those_of_the_table(world):
    rows = re.findall(r'^X\((\w+), (\d+)', (ROOT / "base/status.def").read_text(encoding="utf-8"), re.M)
    said = run(python(), "-c", "import kiln; print(*(f'{c.name} {n}' for n, c in kiln._errors.BY_NUMBER.items()), sep='\\n')")
    assert said.splitlines() == [f"{name} {number}" for name, number in rows if number != "0"], said


def test_types_are_whole(world):
    tools()
    python()
    package = next((CLEAN / "lib").glob("python3*/site-packages"))
    assert (package / "kiln/py.typed").exists()
    done = subprocess.run([tools() / "mypy", "--strict", "--cache-dir", world.path("mypy"), "--python-executable", python(), "-p", "kiln"],
                          capture_output=True, text=True, cwd=world.folder)
    assert done.returncode == 0, done.stdout
    pathlib.Path(world.path("user.py")).write_text("import kiln\nm = kiln.load(3)\nreveal_type(kiln.load('m'))\n", encoding="utf-8")
    done = subprocess.run([tools() / "mypy", "--strict", "--cache-dir", world.path("mypy"), "--python-executable", python(), "user.py"],
                          capture_output=True, text=True, cwd=world.folder)
    assert "[arg-type]" in done.stdout and 'Revealed type is "kiln._module.Module"' in done.stdout, done.stdout


def test_one_wheel_serves_later_pythons(world):
    names = zipfile.ZipFile(wheel()).namelist()
    assert "-abi3-" in wheel().name and {"kiln/_run.abi3.so", "kiln/_query.abi3.so", "kiln/_request.abi3.so", "kiln/py.typed", "kiln/_errors.py"} <= set(names), names
    zipfile.ZipFile(wheel()).extractall(world.path("wheel"))
    shown = run("nm", "-D", "--defined-only", world.path("wheel/kiln/_run.abi3.so")).split()[2::3]
    assert shown == ["PyInit__run"], shown
    needs = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", world.path("wheel/kiln/_run.abi3.so"))))
    assert needs <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needs


def test_modules_alone_are_a_small_wheel(world):
    built = wheel("kiln-run")
    names = zipfile.ZipFile(built).namelist()
    assert built.stat().st_size <= RUN_WHEEL_BYTES_MAX, built.stat().st_size
    assert "kiln/_run.abi3.so" in names and not [name for name in names if "_query" in name or "_request" in name or "_tune" in name], names
    zipfile.ZipFile(built).extractall(world.path("alone"))
    script = f"import kiln; m = kiln.load({module_of(world)!r}); y = m(memoryview(bytes(16384)).cast('f', (64, 64)));" \
             "print(memoryview(y).nbytes, hasattr(kiln, 'Database'))"
    assert run(sys.executable, "-S", "-c", script, env={**world.env, "PYTHONPATH": world.path("alone")}) == "16384 False\n"


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
