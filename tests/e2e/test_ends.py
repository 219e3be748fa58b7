#!/usr/bin/env python3
"""A test program that is killed, for example at its timeout, leaves no process behind."""
import os
import signal
import subprocess
import sys

import harness

# A fleet, a tuning with a fleet of its own, one on a terminal, and one that is waited for: all go on for long.
LATE = """
import harness
world = harness.World()
model = world.zoo("gemm:64x64x64")
_, address, _, _ = world.fleet()
private, shared = ("tune", model, "--trials", 1000000), ("tune", model, "--trials", 1000000, "--tracker", address)
tuning, shown = world.start("kiln", *private), world.terminal(*shared, "--db", world.path("c.db"))
harness.until(lambda: len(harness.processes_of(str(world.folder), "kiln-tuner")) > 1, "the second tuner")
print(world.folder, flush=True)
world.run(*shared)
"""


def test_a_program_that_is_killed_leaves_nothing(world):
    env = {**world.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    late = subprocess.Popen([sys.executable, "-c", LATE], env=env, stdout=subprocess.PIPE, text=True)
    folder = late.stdout.readline().strip()
    assert folder, "the program ended"
    harness.until(lambda: len(harness.processes_of(folder, "kiln")) >= 12, "all of them")  # two fleets, three tunings and their workers
    os.kill(late.pid, signal.SIGKILL)
    late.wait()
    harness.until(lambda: not harness.processes_of(folder), "the end of what was started")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
