"""db [--rows N] [--group G] [--postgres]: durable results per second, best-k, opening; beside a log of JSON lines

Kiln's side is build/tests/bench/bench-db: rows like a tuner's over 200 tasks, committed in groups as the tuner does.
The other side is how TVM keeps its tuning logs: a line of JSON per result, here appended and synced in groups of the
same size, read again line by line as a program does that wants the best of a task."""
import json
import os
import random
import subprocess
import sys
import time

import kiln

sys.path.insert(0, str(kiln.BUILD.parent / "tests/support"))
import postgres


def add_options(parser):
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--group", type=int, default=0, help="rows per commit (default: what comes in 10 ms, as in the tuner)")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own, too")


def fill(path, options):
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-db"), str(path), str(options.rows), str(options.group)],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def line_of(chance, number):
    """What TVM writes of a measurement (its RPC tuner's format), as long as one of ours."""
    speed = 1e-4 * (1 + 9 * chance.random())
    return json.dumps({"input": ["llvm -mcpu=x86-64-v3", f"conv2d_{chance.randrange(200)}", [["TENSOR", [1, 64, 56, 56], "float32"]]],
                       "config": {"index": number, "code_hash": None, "entity": [["tile_oc", "sp", [-1, 16]]] * 7},
                       "result": [[speed] * 10, 0, 0.5, 1.6e9], "version": 0.2, "tvm_version": "0.8"}) + "\n"


def peer(path, rows, group):
    """(durable lines per second, seconds to read all and know the best of each task)"""
    chance = random.Random(1)
    lines = [line_of(chance, number) for number in range(min(rows, 20000))]
    begin = time.monotonic()
    with open(path, "w") as log:
        for first in range(0, rows, group):
            log.write("".join(lines[number % len(lines)] for number in range(first, min(first + group, rows))))
            log.flush()
            os.fsync(log.fileno())
    stored_s, begin = time.monotonic() - begin, time.monotonic()
    best = {}
    with open(path) as log:
        for line in log:
            row = json.loads(line)
            task, cost = row["input"][1], sum(row["result"][0]) / len(row["result"][0])
            best[task] = min(best.get(task, cost), cost)
    return rows / stored_s, time.monotonic() - begin


def show(name, result):
    print(f"{name}: {result['rows']} rows")
    print(f"  durable results   {result['stored_per_s']:.0f} /s, of the last tenth {result['last_tenth_per_s']:.0f} /s")
    units = {"commit_ms": "ms", "open_to_write_ms": "ms", "open_to_read_ms": "ms", "best_k_us": "us", "best_by_layout_us": "us",
             "best_of_all_ms": "ms", "stats_ms": "ms"}
    labels = {"commit_ms": "one commit", "open_to_write_ms": "open to write", "open_to_read_ms": "open to read",
              "best_k_us": "best 10 of a task", "best_by_layout_us": "best by layouts", "best_of_all_ms": "best of 200 tasks",
              "stats_ms": "counts of 200 tasks"}
    for key, unit in units.items():
        times = result[key]
        print(f"  {labels[key]:<20}median {times['median']:.3g} {unit}, p99 {times['p99']:.3g} {unit}, "
              f"max {times['max']:.3g} {unit} of {times['count']}")
        spent = result.get(key + "_of_processor")
        if spent:
            print(f"  {'  processor time':<20}median {spent['median']:.3g} {unit}, p99 {spent['p99']:.3g} {unit}")


def run(options, work):
    result = fill(work / "kiln.db", options)
    show("Kiln, a file", result)
    group = max(1, round(options.rows / result["commit_ms"]["count"]))
    stored, read_s = peer(work / "log.json", options.rows, group)
    print(f"JSON lines: {options.rows} rows in groups of {group}")
    print(f"  durable results   {stored:.0f} /s\n  open and best       {read_s * 1e3:.0f} ms (all lines are read)")
    if options.postgres:
        if not postgres.is_installed():
            raise SystemExit("--postgres needs Debian's package postgresql")
        with postgres.Server() as server:
            server.create("bench")
            show("Kiln, a PostgreSQL server", fill(server.address("bench"), options))
