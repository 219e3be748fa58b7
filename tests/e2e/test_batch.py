#!/usr/bin/env python3
"""Candidates for a device without a network: kiln batch writes a folder, kiln-rpc-server --batch measures it, kiln db import
imports the results."""
import json
import pathlib
import shutil
import signal
import sys

import harness
from harness import until

MODEL = "gemm:64x64x64"


def server(world, folder, *options, **how):
    return world.run("--batch", folder, "--calibrate", "never", *options, name="kiln-rpc-server", **how)


def written(world, *options, name="folder"):
    """A folder of candidates: (path, what was said of it)."""
    folder = world.path(name)
    return folder, world.json("batch", world.zoo(MODEL), "-o", folder, *options)[-1]


def trials_of(folder):
    lines = map(json.loads, pathlib.Path(folder, "results.jsonl").read_text().splitlines())
    return [line for line in lines if line["table"] == "record"]


def test_candidates_are_measured_and_imported(world):
    folder, said = written(world, "--candidates", 4)
    assert said["trials"] == 4 and said["tasks"] == 1 and said["failed"] == 0, said
    server(world, folder)
    results = trials_of(folder)
    assert [line["outcome"] for line in results] == ["ok"] * 4 and all(line["checked"] for line in results), results
    assert results[0]["searcher"] == "default" and len({line["trace_hash"] for line in results}) == 4, results

    # Of strangers they are hints; a person who measured them says so, and what is there already stays as it is.
    done = world.run("db", "import", f"{folder}/results.jsonl", "--db", world.path("hints.db"))
    assert "4 records: 0 count, 4 are hints" in done.stdout, done.stdout
    for _ in range(2):
        done = world.run("db", "import", "--own", f"{folder}/results.jsonl", "--db", world.path("t.db"))
        assert "4 records: 4 count" in done.stdout, done.stdout
    assert world.sql("t.db", "SELECT count(*), sum(checked), count(DISTINCT device_id), min(fences <> '') FROM record") == [["4", "4", "1", "1"]]
    assert world.json("compile", world.zoo(MODEL), "--db", world.path("t.db"), "-o", world.path("m.kiln"))[-1]["tuned"] == 1

    # The next folder has others.
    second, _ = written(world, "--candidates", 4, "--search", "evolution", "--db", world.path("t.db"), name="second")
    known = {line["trace_hash"] for line in results}
    drawn = {json.loads(line)["trace_hash"] for line in pathlib.Path(second, "records.jsonl").read_text().splitlines()}
    assert len(drawn) == 4 and not drawn & known, (drawn, known)


def test_records_store_the_numbers_of_the_assembler(world):
    """A script stands for ptxas, and then there is none."""
    script = pathlib.Path(world.path("ptxas"))
    script.parent.chmod(0o755)  # the process that runs it is nobody where the worker was root
    script.write_text("#!/bin/sh\n"
                      "printf \"Compiling entry function 'run_0' for '$3'\\n8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\\n"
                      "Used 168 registers\\n\" >&2\n")
    script.chmod(0o755)
    rows = {}
    for name, path in (("known", script), ("unknown", "/nowhere/ptxas")):
        world.env["KILN_PTXAS"] = str(path)
        folder, _ = written(world, "--target", "h200", "--candidates", 2, name=name)
        rows[name] = [json.loads(line) for line in pathlib.Path(folder, "records.jsonl").read_text().splitlines()]
        assert len(rows[name]) == 2, rows[name]
    assert all((row["registers"], row["spill_bytes"], row["stack_bytes"]) == (168, 0, 8) for row in rows["known"]), rows["known"]
    assert all(row["shared_bytes"] > 0 for row in rows["known"]), rows["known"]
    assert all(row["registers"] == row["stack_bytes"] == row["shared_bytes"] == 0 for row in rows["unknown"]), rows["unknown"]


def test_a_stopped_run_is_continued(world):
    folder, said = written(world, "--candidates", 24)
    first = world.start("kiln-rpc-server", "--batch", folder, "--calibrate", "never")
    results = pathlib.Path(folder, "results.jsonl")
    until(lambda: first.poll() is not None or results.exists() and len(trials_of_text(results)) >= 2, "two results")
    first.send_signal(signal.SIGINT)
    code = first.wait()
    assert code in (0, 10), code  # 0: it was faster
    before = trials_of_text(results)
    with open(results, "a") as half:
        half.write('{"table":"record","trial_id":"')
    server(world, folder)
    after = trials_of(folder)
    assert len(after) == said["trials"] and len({line["trial_id"] for line in after}) == said["trials"], len(after)
    assert set(before) <= set(trials_of_text(results)), "results of the first run are gone"


def trials_of_text(results):
    return [line for line in results.read_text().splitlines(True) if line.startswith('{"table":"record"') and line.endswith("\n")]


def test_a_device_with_a_driver_measures_a_folder(world):
    done = world.run("--executor", "opencl", "--doctor", ok=False, name="kiln-rpc-server")
    [device] = [line for line in done.stdout.splitlines() if line[5:].startswith("device")]
    if not device.startswith("ok"):
        raise harness.Skip(f"no OpenCL device (pocl-opencl-icd): {device}")
    folder, said = written(world, "--target", "opencl,emulated", "--candidates", 3)
    server(world, folder, "--executor", "opencl")
    results = trials_of(folder)
    assert [line["outcome"] for line in results] == ["ok"] * said["trials"], results
    assert {line["artefact_kind"] for line in results} == {"opencl"}, results
    world.run("db", "import", f"{folder}/results.jsonl", "--db", world.path("t.db"))
    server(world, written(world, "--candidates", 1, name="other")[0], "--executor", "opencl", ok=False)


def test_invalid_folders_are_refused(world):
    refuse = lambda folder, says: world.refused("--batch", folder, says=says, name="kiln-rpc-server")
    refuse(world.path("nowhere"), "nowhere/trials")
    world.refused("batch", world.zoo(MODEL), says="-o FOLDER is missing")
    folder, _ = written(world, "--candidates", 2)
    world.refused("batch", world.zoo(MODEL), "-o", folder, says="exists already")
    world.refused("batch", world.zoo(MODEL), "-o", world.path("x"), "--candidates", 0, says="--candidates is 1 to")
    world.refused("batch", world.zoo(MODEL), "-o", world.path("x"), "--tasks", "no such", says="none of the model's 1 tasks")
    assert not list(pathlib.Path(world.folder).glob("x*")), "a folder was left"
    world.refused("--batch", folder, "--tracker", "127.0.0.1:1", says="cannot be combined with --tracker", name="kiln-rpc-server")
    for part, says in (("trials", "trials: the file ends"), ("records.jsonl", "lines for 2 trials"), ("rows.jsonl", "does not end")):
        copy = world.path(f"cut-{part}")
        shutil.copytree(folder, copy)
        whole = pathlib.Path(copy, part).read_bytes()
        pathlib.Path(copy, part).write_bytes(whole[:-20])
        refuse(copy, says)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
