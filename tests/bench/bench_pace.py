"""pace [LAYER...] [--trials N]: whether measurements work on this machine: states and bands of the reference kernel, figures beside raw samples"""
import json
import sqlite3
import statistics
import struct
import subprocess

import kiln

def add_options(parser):
    parser.add_argument("layer", nargs="*", default=["C2", "C6", "C9"], help="of the zoo, searched at random (default: C2 C6 C9)")
    parser.add_argument("--trials", type=int, default=64, help="of each layer")
    parser.add_argument("--rounds", type=int, default=300, help="readings in each state")

def show_reference(rounds):
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-pace"), str(rounds)], capture_output=True, text=True, check=True)
    for part in json.loads(done.stdout)["parts"]:
        print(f"{part['part']}: {part['text']}")
        for state in part["states"]:
            print(f"    after {state['after']:<10} {state['p05_ns']:6.0f} to {state['p95_ns']:6.0f} ns, median {state['median_ns']:6.0f}; "
                  f"{state['out']:5.1%} out of band" + ("" if part["used"] else " (not used)"))

def records(db, task):
    """Right records of a task: figure, raw samples as times of one run, how many more were taken again, marked, of a final."""
    with sqlite3.connect(db) as file:
        rows = file.execute("SELECT median_ns, samples_ns, again, throttled, final FROM record WHERE outcome = 'ok' AND task_key = ?", [task]).fetchall()
    return [(figure, struct.unpack(f"<{len(samples) // 8}d", samples), again, marked, final) for figure, samples, again, marked, final in rows]


def show_search(name, options, work):
    db = work / f"{name}.db"
    model = kiln.zoo(f"conv:{name}", work / f"{name}.onnx")
    done = kiln.tune(model, work / f"{name}.kiln", db, "--search", "random", "--trials", str(options.trials))
    task = max(done["tasks"], key=lambda t: t["best_ms"])["key"]
    searched = [r for r in records(db, task) if not r[4]]
    finals = [r for r in records(db, task) if r[4]]
    taken = sum(len(raw) for _, raw, *_ in searched)
    again = sum(r[2] for r in searched)
    over_least = [figure / min(raw) for figure, raw, *_ in searched]
    over_median = [figure / statistics.median(raw) for figure, raw, *_ in searched]
    best, final = min(r[0] for r in searched), min((r[0] for r in finals), default=float("nan"))
    print(f"conv:{name}: {done['trials_per_s']:.1f} verified trials/s; {again / (taken + again):.1%} of samples taken again; "
          f"{sum(r[3] for r in searched)} of {len(searched)} records marked; {sum(x < 1 for x in over_least)} figures below their least sample "
          f"(figure over least sample {statistics.median(over_least):.3f} in the median, over the raw median {statistics.median(over_median):.3f}); "
          f"best of the search {best / 1e6:.4f} ms, in its final {final / 1e6:.4f} ms ({best / final - 1:+.1%})")

def run(options, work):
    show_reference(options.rounds)
    for name in options.layer:
        show_search(name, options, work)
