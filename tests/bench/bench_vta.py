"""vta [--sensitivity] [--rtl [CONFIG...]]: what accelerators of the VTA class reach on C2 to C12, by the cycle simulator, and beside it in Verilog"""
import pathlib
import re
import subprocess
import sys

import kiln

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "vta"))
import rtl

BENCH = kiln.BUILD / "tests/bench/bench-vta"
# How often ResNet-18 has each layer; C3 is none of its own.
BODY = {"C2": 4, "C4": 1, "C5": 1, "C6": 3, "C7": 1, "C8": 1, "C9": 3, "C10": 1, "C11": 1, "C12": 3}


def add_options(parser):
    parser.add_argument("--sensitivity", action="store_true", help="also over bytes a cycle and latency")
    parser.add_argument("--rtl", nargs="*", metavar="CONFIG", help="only cycles and data of the machine in Verilog beside the simulator's "
                                                                   "(default: pynq)")


def show_rtl(config, work):
    """Each layer and all of ResNet-18's body; data and cycles must be the simulator's."""
    model = rtl.model(config, work)
    subprocess.run([BENCH, "programs", config, work], check=True)
    files = [work / "C3.vta"] + [work / f"{name}.vta" for name, count in BODY.items() for _ in range(count)]
    done = subprocess.run([kiln.BUILD / "tests/vta/rtl_bench", model, *files], capture_output=True, text=True)
    runs = re.findall(r"(C\d+)\.vta: (\d+) cycles, ([\d.]+) s, (.*)", done.stdout)
    print(f"\n{config}, by the hardware")
    for name, cycles, seconds, verdict in dict((run[0], run) for run in runs).values():
        print(f"{name:<5} {int(cycles) / 1e3:9.1f} kcycles in {float(seconds):6.2f} s  {verdict}")
    print(f"body of ResNet-18: {sum(int(run[1]) for run in runs[1:]) / 1e3:.1f} kcycles in {sum(float(run[2]) for run in runs[1:]):.1f} s")
    print(done.stdout.splitlines()[-1])
    if done.returncode:
        raise SystemExit(done.stderr)


def run(options, work):
    if options.rtl is not None:
        for config in options.rtl or ["pynq"]:
            show_rtl(config, work)
        return
    subprocess.run([BENCH, "table"], check=True)
    subprocess.run([BENCH, "ablation"], check=True)
    if options.sensitivity:
        subprocess.run([BENCH, "sensitivity"], check=True)
