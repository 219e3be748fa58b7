"""transfer [OPERATOR...] [--source T] [--trials N] [--seeds S]: how much records of another target help a search

Each operator of the zoo is tuned on the source target first (another level of this machine's instructions, so that both are
measured natively). Then it is searched on this machine's own target, S times from nothing and S times with these records, in
turns. Figures are the best within so many trials as share of the best of all runs, geometric means; the default schedule,
which is every search's first trial, is given alone."""
import math
import pathlib
import shutil
import statistics

import kiln

OPERATORS = ["conv:C2", "conv:C6", "conv:C9", "conv:D5"]
MARKS = (4, 8, 16, 32)
SOURCE_SEED = 1000  # tells the source's job from the searches


def add_options(parser):
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=f"of the zoo (default: {' '.join(OPERATORS)})")
    parser.add_argument("--source", default="x86-64", help="target whose records are known")
    parser.add_argument("--known", type=int, default=96, help="trials there")
    parser.add_argument("--trials", type=int, default=32, help="of each search")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=pathlib.Path, help="folder that keeps the records of the source from run to run")


def searched(db):
    """Key of the operator's task: conversions beside it have their default measured only."""
    statement = "select task_key from record where final = 0 group by task_key order by count(*) desc limit 1"
    return kiln.lines("db", "sql", statement, "--db", db)[0]["task_key"]


def medians(db, task):
    """Of the trials of this machine's target in their order, failures as infinity."""
    statement = ("select outcome, raced, median_ns from record join job on job_id = job.id where final = 0 and "
                 f"seed <> {SOURCE_SEED} and task_key = '{task}' order by trial_index")
    return [float(row["median_ns"]) if row["outcome"] == "ok" and row["raced"] == 0 else math.inf
            for row in kiln.lines("db", "sql", statement, "--db", db)]


def one(operator, options, work):
    """With and without transfer: per seed the times of the trials."""
    records = options.records or work
    records.mkdir(parents=True, exist_ok=True)
    name = operator.replace(":", "-").replace(",", "-")
    model, source = kiln.zoo(operator, work / f"{name}.onnx"), records / f"{name}.db"
    if not source.exists():
        kiln.lines("tune", model, "--target", options.source, "--db", source, "--trials", options.known, "--seed", SOURCE_SEED)
    task = searched(source)
    runs = {"from nothing": [], "with records": []}
    for seed in range(1, options.seeds + 1):
        for kind in runs:
            db = work / f"{name}-{seed}-{kind[:4]}.db"
            if kind == "with records":
                shutil.copy(source, db)  # closed: its log is empty
            kiln.lines("tune", model, "--db", db, "--trials", options.trials, "--seed", seed, "--tasks", task)
            runs[kind].append(medians(db, task))
    return runs


def run(options, work):
    marks = [mark for mark in MARKS if mark <= options.trials] or [options.trials]
    shares = {}
    print(f"{'operator':<10}{'':<14}{'default':>9}" + "".join(f"{mark:>8}" for mark in marks) + f"{'best us':>10}")
    for operator in options.operators or OPERATORS:
        runs = one(operator, options, work)
        best = min(min(times) for kind in runs.values() for times in kind)
        for kind, all_times in runs.items():
            row = [[best / min(times[:mark]) for times in all_times] for mark in (1, *marks)]
            shares.setdefault(kind, []).append(row)
            print(f"{operator:<10}{kind:<14}" + "".join(f"{statistics.geometric_mean(s):>{9 if i == 0 else 8}.3f}" for i, s in enumerate(row))
                  + f"{best / 1e3:>10.1f}", flush=True)
    for kind, rows in shares.items():
        means = [statistics.geometric_mean([share for row in rows for share in row[i]]) for i in range(len(marks) + 1)]
        print(f"{'mean':<10}{kind:<14}" + "".join(f"{m:>{9 if i == 0 else 8}.3f}" for i, m in enumerate(means)))
    pairs = list(zip(*(sum((row[1 + marks.index(min(16, marks[-1]))] for row in shares[kind]), []) for kind in shares)))
    print(f"better with records after {min(16, marks[-1])} trials: {sum(b > a for a, b in pairs)} of {len(pairs)} pairs")
