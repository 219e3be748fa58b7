"""search [LAYER...] [--trials N] [--seconds S]: searchers on recorded logs, then live: the best within 100 trials of that within N"""
import math
import pathlib
import statistics
import subprocess

import kiln

LOGS = pathlib.Path(__file__).parents[2] / "tests/replay/logs"
LAYERS = [f"C{i}" for i in range(1, 13)]
MARKS = (16, 32, 64, 100)


def add_options(parser):
    parser.add_argument("layers", nargs="*", metavar="LAYER", help="C1.. and D1.. of the zoo (default: C1 to C12)")
    parser.add_argument("--trials", type=int, default=1000, help="live trials a layer; 0: logs only")
    parser.add_argument("--search", default="sa", help="live searcher")
    parser.add_argument("--seconds", type=int, default=60, help="of tuning resnet18's convolutions for trials per second; 0: not")


def replay(work):
    logs = []
    for packed in sorted(LOGS.glob("*.log.zst")):
        logs.append(work / packed.stem)
        subprocess.run(["zstd", "-q", "-d", "-f", str(packed), "-o", str(logs[-1])], check=True)
    subprocess.run([str(kiln.BUILD / "tests/bench/bench-search"), *map(str, logs)], check=True)


def medians(db):
    """Of the layer's trials in their order, without its conversions; raced-out ones are lower bounds and can be no best."""
    statement = ("select median_ns from record where outcome = 'ok' and raced = 0 and final = 0 and task_key = "
                 "(select task_key from record group by task_key order by count(*) desc limit 1) order by trial_index")
    return [float(row["median_ns"]) for row in kiln.lines("db", "sql", statement, "--db", db) if "median_ns" in row]


def live(options, work):
    print(f"\nlive, {options.search}: best within so many trials, as share of the best of {options.trials}")
    print(f"{'layer':<6}" + "".join(f"{mark:>8}" for mark in MARKS) + f"{'best ms':>10}{'of peak':>9}{'trials/s':>10}")
    shares = {mark: [] for mark in MARKS}
    for layer in options.layers or LAYERS:
        model, db = kiln.zoo(f"conv:{layer}", work / "m.onnx"), work / f"{layer}.db"
        done = kiln.tune(model, work / "m.kiln", db, "--trials", options.trials, "--search", options.search)
        times = medians(db)
        for mark in MARKS:
            shares[mark].append(min(times) / min(times[:mark]))
        task = done["tasks"][0]
        print(f"{layer:<6}" + "".join(f"{shares[mark][-1]:>8.3f}" for mark in MARKS)
              + f"{task['best_ms']:>10.4f}{task['share_of_peak']:>9.3f}{done['trials_per_s']:>10.1f}", flush=True)
    print(f"{'mean':<6}" + "".join(f"{math.exp(statistics.fmean(map(math.log, shares[mark]))):>8.3f}" for mark in MARKS)
          + "  (geometric)")


def throughput(options, work):
    model = kiln.zoo("resnet18", work / "resnet18.onnx")
    done = kiln.tune(model, work / "resnet18.kiln", work / "resnet18.db", "--seconds", options.seconds, "--tasks", "conv",
                     "--search", options.search)
    print(f"\nresnet18's convolutions, {options.search}: {done['verified']} verified trials in {done['wall_s']:.1f} s, "
          f"{done['trials_per_s']:.1f} per second, {done['measured'] - done['verified']} others")


def run(options, work):
    replay(work)
    if options.trials:
        live(options, work)
    if options.seconds:
        throughput(options, work)
