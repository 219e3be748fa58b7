"""big [MODEL...]: models of very many small nodes, imported, planned and packed

Prints seconds and the largest resident set of `kiln compile`, and seconds of `kiln run` of the module."""
import os
import pathlib
import subprocess
import sys
import time

import kiln

sys.path.append(str(pathlib.Path(__file__).parent.parent / "e2e"))
from big_models import PARTS, model_of

NODES = {"chain": 100000, "elements": 100000, "convolutions": 10000, "normalised": 10000, "star": 10000, "branches": 10000}


def add_options(parser):
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[[], *PARTS])
    parser.add_argument("--nodes", type=int, help="instead of those of the table")


def measure(*argv):
    begin = time.monotonic()
    child = subprocess.Popen([kiln.KILN, *map(str, argv)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"kiln {' '.join(map(str, argv))} failed")
    return time.monotonic() - begin, used.ru_maxrss / 1024


def run(options, work):
    print(f"{'model':<14}{'nodes':>8}{'compile':>10}{'memory':>10}{'run':>10}")
    for name in options.models or PARTS:
        nodes = options.nodes or NODES[name]
        (work / "m.onnx").write_bytes(model_of(PARTS[name](nodes)))
        seconds, megabytes = measure("compile", work / "m.onnx", "-o", work / "m.kiln")
        print(f"{name:<14}{nodes:>8}{seconds:>8.2f} s{megabytes:>7.0f} MB{measure('run', work / 'm.kiln')[0]:>8.2f} s", flush=True)
