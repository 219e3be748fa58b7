#!/usr/bin/env python3
"""Reads the JSON lines that `kiln tune --json` left in a file.

show.py table FILE              default and tuned times per task and of the whole model
show.py get FILE EVENT PATH...  one value of the last object with that event: get f.json done tasks 0 best_ms"""
import json
import sys


def last(path, event):
    with open(path) as file:
        objects = [json.loads(line) for line in file]
    return [o for o in objects if o["event"] == event][-1]


def table(path):
    done, module = last(path, "done"), last(path, "module")
    print(f"{'task':<44} {'default':>11} {'tuned':>11} {'':>7} {'GFLOP/s':>8} {'of peak':>8}")
    for task in done["tasks"]:
        gain = task["default_ms"] / task["best_ms"] if task["best_ms"] and task["default_ms"] else 0
        print(f"{task['label'][:44]:<44} {task['default_ms']:>8.4f} ms {task['best_ms']:>8.4f} ms {gain:>6.2f}x"
              f" {task['gflops']:>8.1f} {task['share_of_peak']:>8.2f}")
    times = f"default {module['default_ms']:.4f} ms, tuned {module['tuned_ms']:.4f} ms"
    if "low" not in module:
        print(f"whole model, the sum of its kernels ({module['untimed']}): {times} ({module['ratio']:.2f}x)")
    else:
        if module["low"] <= 1 <= module["high"] or abs(module["ratio"] - 1) < 0.005:
            word = "equally fast"
        else:
            word = "faster" if module["ratio"] > 1 else "slower: the default is shipped"
        print(f"whole model, interleaved runs: {times}: {word}"
              f" ({module['ratio']:.2f}x, 95 % interval {module['low']:.2f} to {module['high']:.2f})")
    print(f"{done['verified']} verified trials, {done['trials_per_s']:.1f} per second;"
          f" FMA peak of a core {done['peak_gflops']:.1f} GFLOP/s")


def get(path, event, *keys):
    value = last(path, event)
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
    print(f"{value:.4f}" if isinstance(value, float) else value)


{"table": table, "get": get}[sys.argv[1]](*sys.argv[2:])
