#!/usr/bin/env python3
"""Models and data that this project did not write: ONNX's backend cases as Debian packs them, and a folder that
KILN_DATA names (there is no default; without it those tests are skipped). Nothing in them may come out wrong."""
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys

import harness

PACKED = pathlib.Path("/usr/share/libonnx-testdata/data")
BATCH = 40  # cases of one process: a crash loses no more


def folders(root):
    return sorted(path.parent for path in root.rglob("model.onnx"))


def verify_batch(batch):
    run = subprocess.run([harness.program("kiln"), "verify", "--json", *map(str, batch)], capture_output=True, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    verdicts = {line["name"]: line for line in lines if line.get("event") == "case"}
    return [verdicts.get(path.name, {"name": path.name, "verdict": "FAILED", "why": f"crashed: {run.stderr[-300:]}"})
            for path in batch]


def verify(paths):
    batches = [paths[i : i + BATCH] for i in range(0, len(paths), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [case for batch in pool.map(verify_batch, batches) for case in batch]


def report(label, cases):
    """Counts of a set, as a comment of the TAP stream; wrong ones by name."""
    count = collections.Counter(case["verdict"] for case in cases)
    share = 100 * count["passed"] / max(1, len(cases))
    print(f"# {label}: {count['passed']} of {len(cases)} pass ({share:.1f} %), {count['FAILED']} wrong, "
          f"{count['unsupported']} unsupported", flush=True)
    for case in cases:
        if case["verdict"] == "FAILED":
            print(f"# wrong: {case['name']}: {case['why'][:200]}", flush=True)
    return count


def data_folder():
    named = os.environ.get("KILN_DATA")
    if not named:
        raise harness.Skip("KILN_DATA names no folder")
    inner = pathlib.Path(named) / "kiln-data"  # as the archive unpacks, or the folder itself
    return inner if inner.is_dir() else pathlib.Path(named)


def test_packed_backend_cases(world):
    if not PACKED.is_dir():
        raise harness.Skip("libonnx-testdata is not installed")
    count = report("libonnx-testdata", verify(folders(PACKED)))
    assert count["FAILED"] == 0 and count["passed"] >= 951, count


def test_backend_cases_of_the_data_folder(world):
    root = data_folder()
    with open(root / "INDEX.tsv", newline="") as file:
        tier = {row["name"]: row["tier"][:1] for row in csv.DictReader(file, delimiter="\t")}
    by_tier = collections.defaultdict(list)
    for case in verify(folders(root / "onnx-node")):
        by_tier[tier.get(case["name"], "?")].append(case)
    counts = {name: report(f"onnx-node, tier {name}", cases) for name, cases in sorted(by_tier.items())}
    assert sum(count["FAILED"] for count in counts.values()) == 0
    assert counts["1"]["passed"] >= 0.95 * len(by_tier["1"])


def test_models_of_the_data_folder(world):
    count = report("models", verify(folders(data_folder() / "models")))
    assert count["FAILED"] == 0 and count["unsupported"] == 0, count


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
