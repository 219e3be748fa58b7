#!/usr/bin/env python3
"""Checks the systemd units of deploy/systemd: each starts one of our programs with options that its --help knows, one
that has children is asked to stop without them, each is held by the settings below, and systemd-analyze, where it is
installed, finds nothing wrong and calls none of them exposed.

usage: check_units.py BUILD_ROOT"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER_OF = {"kiln-tracker": "tracker", "kiln-tuner": "tuner", "kiln-rpc-server": "rpc-server", "kiln-web": "web"}
HAVE_CHILDREN = ["kiln-tuner", "kiln-rpc-server", "kiln-web"]
HOLDS = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "ProtectKernelModules": "yes",
         "ProtectKernelLogs": "yes", "ProtectKernelTunables": "yes", "ProtectClock": "yes", "ProtectHostname": "yes",
         "RestrictRealtime": "yes", "RestrictSUIDSGID": "yes", "LockPersonality": "yes", "SystemCallArchitectures": "native",
         "SystemCallErrorNumber": "EPERM", "UMask": "0077", "StateDirectoryMode": "0700",
         "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX"}
# What the helper of a server is root for; the others are a user's and have nothing.
RIGHTS = {"kiln-rpc-server": "CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_SYS_ADMIN CAP_SYS_CHROOT CAP_KILL CAP_CHOWN CAP_DAC_OVERRIDE"}
EXPOSURE_MAX = {"kiln-tracker": 2.0, "kiln-tuner": 3.0, "kiln-rpc-server": 5.0, "kiln-web": 3.0}  # systemd-analyze security, of 10


def settings(text):
    """Name to its values, in order."""
    found = {}
    for key, value in re.findall(r"^([A-Za-z]+)=(.*)$", text, re.M):
        found.setdefault(key, []).append(value.strip())
    return found


def check_holds(unit, name, text):
    found = settings(text)
    for key, value in HOLDS.items():
        if found.get(key) != [value]:
            yield f"{unit.name}: {key} is {found.get(key)}, not {value}"
    if found.get("CapabilityBoundingSet") != [RIGHTS.get(name, "")]:
        yield f"{unit.name}: CapabilityBoundingSet is {found.get('CapabilityBoundingSet')}"
    if not found.get("SystemCallFilter", [""])[0].startswith("@system-service"):
        yield f"{unit.name}: SystemCallFilter does not begin with @system-service"
    if (name in RIGHTS) == ("User" in found):
        yield f"{unit.name}: runs as {found.get('User', ['root'])[0]}"


def check_exposure(unit, name, copy):
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX[name] * 10:.0f}", copy],
                          capture_output=True, text=True)
    [*_, last] = done.stdout.strip().splitlines() or [""]
    if done.returncode != 0:
        yield f"{unit.name}: {last or done.stderr.strip()}"


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
    yield from check_holds(unit, name, text)
    if name in HAVE_CHILDREN and not re.search("^KillMode=mixed$", text, re.M):
        yield f"{unit.name}: the children of {name} are asked to stop as well"
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / unit.name
            copy.write_text(text.replace(path, str(program)).replace("EnvironmentFile=", "EnvironmentFile=-"), encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
            yield from (f"{unit.name}: {message}" for message in done.stderr.splitlines() if unit.name in message)
            yield from check_exposure(unit, name, copy)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    units = sorted((ROOT / "deploy/systemd").glob("*.service"))
    faults = [fault for unit in units for fault in check(unit, build)]
    for fault in faults:
        print(fault)
    print(f"{len(units)} units, {len(faults)} faults")
    sys.exit(1 if faults or len(units) != len(FOLDER_OF) else 0)


main()
