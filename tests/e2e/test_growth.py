#!/usr/bin/env python3
"""The cost of importing, planning and packing grows with the number of nodes, and not with its square. Instructions are
counted, not time: by valgrind, which gives the same number each time."""
import pathlib
import re
import subprocess
import sys

import harness
from big_models import PARTS, model_of, star

TARGET = "x86-64-v3"  # by name: what is counted is the same on every machine
SMALL = 384  # of each part; whole kernels of 64 nodes, so that all three sizes have the same kernels
# Twice as many nodes more cost 2 times as much more; if all of it grew with the square of their number, 4 times.
GROWTH_MAX = 2.04


def instructions(world, count):
    source, module = world.path(f"{count}.onnx"), world.path("m.kiln")
    parts = [make(count // 4 if make is star else count) for make in PARTS.values()]  # planning compares what is alive together
    pathlib.Path(source).write_bytes(model_of(*parts))
    done = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                           harness.program("kiln"), "compile", source, "--target", TARGET, "-o", module],
                          env={**world.env, "KILN_NO_ISOLATION": "1"}, cwd=world.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"I +refs: +([\d,]+)", done.stderr).group(1).replace(",", ""))


def test_cost_of_compiling_grows_with_the_number_of_nodes(world):
    """Differences, so that what every compilation costs falls out. `./dev bench big` shows the parts one by one."""
    one, two, four = (instructions(world, SMALL << i) for i in range(3))
    growth = (four - two) / (two - one)
    assert growth < GROWTH_MAX, (f"{2 * SMALL} more nodes of each part cost {growth:.2f} times what {SMALL} more cost "
                                 f"({one}, {two}, {four} instructions)")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
