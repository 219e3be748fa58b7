"""What a call from Python costs above the module's own steps: a module of one tiny kernel, bound and with fresh arrays.

Needs `./dev wheel`: the wheel of dist/ is installed into build/python-bench. What is above is the median of a call less the least
sum of its steps, which a hook times."""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import statistics, sys, time
import numpy, kiln
m = kiln.load(sys.argv[1])
x = numpy.zeros(m.inputs[0].shape, m.inputs[0].dtype)
bound, count = m.bind(x), int(sys.argv[2])

def median_us(function):
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        for _ in range(100):
            function()
        times.append((time.perf_counter_ns() - began) / 100_000)
    return statistics.median(times)

median_us(bound)
inside = min(sum(t.total_ns for t in m.profile(x, runs=1000)) / 1e6 for _ in range(20))
print(f"{'call':24} {'us':>8} {'above its steps':>16}")
for name, function in (("bound", bound), ("fresh numpy arrays", lambda: m(x)), ("empty function", lambda: None)):
    us = median_us(function)
    above = f"{us - inside:16.2f}" if name != "empty function" else ""
    print(f"{name:24} {us:8.2f} {above}")
print(f"steps alone, with a clock around them: {inside:.2f} us")
"""


def add_options(parser):
    parser.add_argument("--count", type=int, default=200, help="medians are of so many hundreds of calls")


def environment():
    """A Python with the newest wheel of dist/ and the numpy of the tools."""
    wheels = sorted((ROOT / "dist").glob("kiln-*.whl"))
    if not wheels:
        sys.exit("bench python: there is no wheel in dist/; run ./dev wheel")
    place = ROOT / "build/python-bench"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", wheels[-1], "numpy"], check=True)
    return place / "bin/python"


def run(options, folder):
    python = environment()
    program = pathlib.Path(os.environ["KILN_BIN"]) / "cli/kiln"
    for name in ("gemm:1x1x1", "gemm:64x64x64"):
        subprocess.run([program, "zoo", name, "-o", folder / "m.onnx"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "compile", folder / "m.onnx", "--db", "none", "-o", folder / "m.kiln"], check=True, stdout=subprocess.DEVNULL)
        print(name)
        subprocess.run([python, "-c", SCRIPT, folder / "m.kiln", str(options.count)], check=True)
