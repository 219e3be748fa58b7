#!/usr/bin/env python3
"""Checks the systemd units of deploy/systemd: each starts one of our programs with options that its --help knows, one
that has children is asked to stop without them, and systemd-analyze, where it is installed, finds nothing wrong.

usage: check_units.py BUILD_ROOT"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER_OF = {"kiln-tracker": "tracker", "kiln-tuner": "tuner", "kiln-rpc-server": "rpc-server"}
HAVE_CHILDREN = ["kiln-tuner", "kiln-rpc-server"]


def check(unit, build):
    text = unit.read_text(encoding="utf-8")
    [line] = re.findall(r"^ExecStart=(.*)$", text, re.M)
    path, *words = line.split()
    name = pathlib.Path(path).name
    if name not in FOLDER_OF or unit.stem != name:
        yield f"{unit.name} starts {name}"
        return
    program = build / FOLDER_OF[name] / name
    known = set(re.findall(r"--[a-z][a-z-]*", subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout))
    yield from (f"{unit.name}: {name} has no {word}" for word in words if word.startswith("--") and word not in known)
    if name in HAVE_CHILDREN and not re.search("^KillMode=mixed$", text, re.M):
        yield f"{unit.name}: the children of {name} are asked to stop as well"
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / unit.name
            copy.write_text(text.replace(path, str(program)).replace("EnvironmentFile=", "EnvironmentFile=-"), encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
            yield from (f"{unit.name}: {message}" for message in done.stderr.splitlines() if unit.name in message)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    units = sorted((ROOT / "deploy/systemd").glob("*.service"))
    faults = [fault for unit in units for fault in check(unit, build)]
    for fault in faults:
        print(fault)
    print(f"{len(units)} units, {len(faults)} faults")
    sys.exit(1 if faults or len(units) != len(FOLDER_OF) else 0)


main()
