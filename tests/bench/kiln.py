"""Runs the built kiln and reads what it prints."""
import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ["KILN_BIN"])
KILN = str(BUILD / "cli/kiln")


def lines(*argv, cores=None):
    """The JSON objects that a command prints; `cores` pins it."""
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    done = subprocess.run([KILN, *map(str, argv), "--json"], capture_output=True, text=True, preexec_fn=pin)
    if done.returncode:
        sys.exit(f"kiln {' '.join(map(str, argv))}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def event(events, name):
    return [e for e in events if e["event"] == name][-1]


def zoo(name, file):
    lines("zoo", name, "-o", file)
    return file


def named_convs():
    """C1.. and D1.. of the zoo: their 15 numbers."""
    text = event(lines("zoo", "list"), "zoo")["list"]
    rows = [line.split() for line in text.splitlines() if line.startswith("conv:") and " = " in line]
    return {row[0].removeprefix("conv:"): tuple(map(int, row[2].removeprefix("conv:").split(","))) for row in rows}


core = "native"  # what target() is of


def target(threads):
    return core if threads == 1 else f"{core},threads={threads}"


def compile_for(model, target_text, module, *words):
    """With no record and no measurement: an empty database."""
    lines("compile", model, "--target", target_text, "--db", "none", "-o", module, *words)
    return module


def compile_default(model, module, threads=1, *words):
    return compile_for(model, target(threads), module, *words)


def precision(name):
    """Words of tune and compile; int8 is a property of the model."""
    return ["--precision", name] if name == "bf16" else []


def quantize(model, file):
    lines("quantize", model, "--synthetic", 4, "--per-channel", "-o", file)
    return file


def speeds():
    """The multiply-add peak of a core and what it reads from memory, in words; "" for what cannot be measured here."""
    figures = {e["what"]: e["measured"] for e in lines("doctor", "--calibrate") if e["event"] == "figure"}
    peak, memory = figures.get("multiply-add peak"), figures.get("memory's bandwidth")
    return "; ".join(([f"a core's peak {peak / 1e9:.0f} GFLOP/s"] if peak else []) + ([f"from memory {memory / 1e9:.1f} GB/s"] if memory else []))


def tune(model, module, db, *budget, threads=1):
    """The closing event of a search within `budget` (words of the command line)."""
    return event(lines("tune", model, "--target", target(threads), "--db", db, "--out", module, *budget), "done")


def time(module, cores):
    """The closing event of a timed run on these cores."""
    return event(lines("run", module, "--bench", "--threads", len(cores), cores=cores), "bench")


def output(module, files, folder):
    """Path of the module's only output for the inputs in `files` (name -> .npy)."""
    lines("run", module, *[word for name, file in files.items() for word in ("--input", f"{name}={file}")], "--output", folder)
    return folder / "y.npy"
