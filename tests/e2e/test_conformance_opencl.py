#!/usr/bin/env python3
"""ONNX's backend cases of Debian's libonnx-testdata on an OpenCL device that is a processor (PoCL): what passes as code of this machine's
processor passes there. Every 64th case, and some by name; KILN_CONFORMANCE=all (./dev test conformance_opencl): all."""
import concurrent.futures
import json
import os
import pathlib
import sys

import harness

CASES = pathlib.Path("/usr/share/libonnx-testdata/data")
STEP = 1 if os.environ.get("KILN_CONFORMANCE") == "all" else 64
BATCH = 8  # cases of one process
# Results whose number only the run knows: a loop whose condition, whose count the device computes.
NAMED = ("test_nonmaxsuppression_two_classes", "test_unique_sorted_without_axis")


def verdicts(world, target, cases):
    """(verdict, why) of each case by its name. A case that ends the process has none."""
    def of_batch(batch):
        done = world.run("verify", "--target", target, "--json", *batch, ok=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["name"]: (line["verdict"], line["why"]) for line in lines if line["event"] == "case"}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        batches = pool.map(of_batch, [cases[at:at + BATCH] for at in range(0, len(cases), BATCH)])
        return {name: verdict for batch in batches for name, verdict in batch.items()}


def what_passes_here_passes_on(world, target):
    found = next(line["found"] for line in world.json("doctor") if line.get("what") == "opencl")
    if ",emulated" not in found:
        raise harness.Skip(f"no OpenCL device that is a processor ({found}): install pocl-opencl-icd")
    cases = sorted(path.parent for path in CASES.rglob("model.onnx"))
    cases = [case for at, case in enumerate(cases) if at % STEP == 0 or case.name in NAMED]
    if not cases:
        raise harness.Skip("no cases: install libonnx-testdata")
    here = verdicts(world, "x86-64", cases)
    passing = [case for case in cases if here.get(case.name, ("none",))[0] == "passed"]
    assert len(passing) > len(cases) // 2, f"only {len(passing)} of {len(cases)} cases pass on this processor"
    there = verdicts(world, target, passing)
    others = {case.name: there.get(case.name, ("none", "the process ended")) for case in passing}
    others = {name: verdict for name, verdict in others.items() if verdict[0] != "passed"}
    print(f"# {target}: {len(passing) - len(others)} of {len(passing)} cases pass")
    assert not others, "\n".join(f"{name}: {verdict} {why[:200]}" for name, (verdict, why) in others.items())


def test_cases_pass_by_rules_for_processors(world):
    what_passes_here_passes_on(world, "opencl,emulated")


def test_cases_pass_with_schedules_for_gpus(world):
    what_passes_here_passes_on(world, "opencl")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
