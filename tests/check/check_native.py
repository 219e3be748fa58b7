#!/usr/bin/env python3
"""Lists the tests that depend on the machine they run on, and fails for any without a reason: the result of a test must not
change with the machine. Tests name their processors instead (tests/support/targets.h)."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What asks: the native target by function or by name, and processors' features past it.
ASKS = re.compile(r"""\bkiln_target_native\s*\(|["']native[,"']|--target[= ]native|\bkiln_board_describe\s*\(
    |\bkiln_peak_flops\s*\(|__builtin_cpu_supports|\b__get_cpuid|\b__AVX|\b__SSE|\bgetauxval\s*\(""", re.X)

# The native target's own tests, and what stands for this machine; a name with a / at its end is a folder.
RIGHT = {
    "tests/bench/": "benchmarks measure this machine",
    "tests/check/check_native.py": "names what it looks for",
    "tests/check/check_units.py": "systemd means system calls by it",
    "tests/support/targets.c": "says which named targets this machine runs",
    "tests/support/levels.c": "lists the levels of this machine for ./dev",
    "tests/unit/base/test_target.c": "the name native is part of the syntax of targets",
    "tests/unit/base/test_target_native.c": "the test of the native target",
    "tests/unit/deploy/test_device_cpu.c": "the processor is the device that this machine is",
    "tests/unit/cli/common/test_roofline.c": "measures the peak as named levels",
    "tests/unit/rpc-server/test_board.c": "a board describes the machine that it is",
    "tests/unit/rpc-server/test_gpu_managed.c": "a board with a device describes the machine around it",
    "tests/e2e/test_cli.py": "records of this machine with other numbers of cores",
    "tests/e2e/test_web_compile.py": "modules for this machine and for a named target",
    "tests/web/fake_server.py": "the name that the dashboard shows by default",
    "tests/web/test_browser.py": "the name that the dashboard sends by default",
    "tests/e2e/test_fleet.py": "records of this machine with other numbers of threads",
}


def reason_of(name):
    return next((why for path, why in RIGHT.items() if name == path or path.endswith("/") and name.startswith(path)), None)


def main():
    names = subprocess.run(["git", "ls-files", "tests/*.c", "tests/*.h", "tests/*.py", "tests/*.sh"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    asking = {}
    for name in names:
        file = ROOT / name
        if not file.is_file():
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found = ASKS.search(line)
            if found:
                asking.setdefault(name, (number, found[0]))
    faults = [f"{name}:{number}: depends on this machine ({what.strip()}); name a target (tests/support/targets.h), or say in "
              "tests/check/check_native.py why not" for name, (number, what) in asking.items() if not reason_of(name)]
    faults += [f"tests/check/check_native.py: {path} no longer asks" for path in RIGHT
               if not any(name == path or path.endswith("/") and name.startswith(path) for name in asking)]
    for name, (number, _) in asking.items():
        if reason_of(name):
            print(f"{name}:{number}: {reason_of(name)}")
    for fault in faults:
        print(fault)
    return bool(faults)


sys.exit(main())
