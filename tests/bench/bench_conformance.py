"""conformance [CASE...] [--only PROCESSOR]: ONNX's backend cases of Debian's libonnx-testdata, per processor

Each model is compiled with default schedules. On x86-64 its module runs here; modules for WebAssembly run under node; for the others
kernels run in the order of the module's plan under qemu-user, fed and read by tests/boards. As C text (c-gcc, c-clang) each module becomes
static C, compiled and run here. On OpenCL modules run on the first device of this machine's drivers: as what it is, and with
schedules for GPUs (opencl-gpu), which a processor runs slowly. Every case that passes on x86-64 must pass everywhere."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

import kiln

CASES = pathlib.Path("/usr/share/libonnx-testdata/data")
BATCH = 24  # cases of one process: a crash loses no more
HERE = pathlib.Path(__file__).resolve().parent
RUNNERS = kiln.BUILD / "tests/boards"
LINE = re.compile(r"^(passed|FAILED|unsupported) (\S+) ?(.*)$")
PROCESSORS = {  # name -> target, emulator, runner
    "x86-64": ("native", None, None),
    "aarch64": ("cpu:aarch64-unknown-linux-gnu", "qemu-aarch64", RUNNERS / "runner-aarch64"),
    "armv7": ("pynq", "qemu-arm", RUNNERS / "runner-arm"),
    "riscv64": ("riscv64", "qemu-riscv64", RUNNERS / "runner-riscv64"),
    "wasm": ("wasm", "node", HERE.parent / "unit/deploy/run_wasm.mjs"),
    "opencl": ("opencl,emulated", None, None),
    "opencl-gpu": ("opencl", None, None),
    "c-gcc": ("x86-64", "gcc", None),
    "c-clang": ("x86-64", "clang-19", None),
}


def add_options(parser):
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only cases whose name contains one of these")
    parser.add_argument("--only", choices=list(PROCESSORS), action="append", metavar="PROCESSOR", help=", ".join(PROCESSORS))


def run_batch(target, runner, batch):
    """Verdicts by case; cases behind one that ends the process are run in another."""
    command = [kiln.BUILD / "tests/bench/bench-conformance", target, *runner, "--"]
    verdicts = {}
    while batch:
        done = subprocess.run(list(map(str, [*command, *batch])), capture_output=True, text=True)
        found = {path: (verdict, why) for verdict, path, why in
                 (match.groups() for match in map(LINE.match, done.stdout.splitlines()) if match)}
        verdicts |= found
        batch = [case for case in batch if str(case) not in found]
        if batch:
            verdicts[str(batch.pop(0))] = ("FAILED", f"the compiler ended: {done.stderr[:200]}")
    return verdicts


def has_opencl():
    """Whether a driver has a device: the server's doctor lists it."""
    done = subprocess.run([kiln.BUILD / "rpc-server/kiln-rpc-server", "--doctor"], capture_output=True, text=True)
    return re.search(r"^ok +opencl +0: ", done.stdout, re.M)


def run_all(name, cases):
    target, emulator, runner = PROCESSORS[name]
    if target.startswith("opencl") and not has_opencl():
        return None
    found = emulator and shutil.which(emulator)
    if emulator and not (found and (runner is None or runner.exists())):
        return None
    words = [] if not found else [found, runner] if runner else ["c", found]
    if name == "wasm":
        words = ["file", *words, kiln.BUILD / "js"]
    batches = [cases[at:at + BATCH] for at in range(0, len(cases), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda batch: run_batch(target, words, batch), batches)
        return {case: verdict for run in runs for case, verdict in run.items()}


def run(options, work):
    os.environ["POCL_CACHE_DIR"] = str(work)  # of a driver; it would take the home folder
    if not CASES.is_dir():
        sys.exit("libonnx-testdata is not installed")
    cases = sorted(path.parent for path in CASES.rglob("model.onnx")
                   if not options.cases or any(word in path.parent.name for word in options.cases))
    print(f"{len(cases)} cases, default schedules: those that pass")
    print(f"{'processor':<10}{'passed':>8}{'failed':>8}{'unsupported':>13}")
    passed = {}
    for name in options.only or PROCESSORS:
        verdicts = run_all(name, cases)
        if verdicts is None:
            print(f"{name:<10} not run: its emulator, its compiler or its driver is not installed")
            continue
        count = [sum(verdict == word for verdict, _ in verdicts.values()) for word in ("passed", "FAILED", "unsupported")]
        passed[name] = {case for case, (verdict, _) in verdicts.items() if verdict == "passed"}
        print(f"{name:<10}{count[0]:>8}{count[1]:>8}{count[2]:>13}", flush=True)
        for case, (verdict, why) in sorted(verdicts.items()):
            if verdict == "FAILED":
                print(f"  {pathlib.Path(case).name}: {why[:200]}")
    for name in passed:
        for case in sorted(passed.get("x86-64", set()) - passed[name]):
            print(f"passes on x86-64, not on {name}: {pathlib.Path(case).name}")
