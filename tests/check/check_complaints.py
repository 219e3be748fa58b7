#!/usr/bin/env python3
"""Checks that every test which docs/reference/complaints.md names is there, and that every complaint names one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def has_test(path, case):
    file = ROOT / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return f"\ndef test_{case}(" in text
    listed = re.search(rf"\b[A-Za-z_]*(?:TEST|test)[A-Za-z_]*\({case}\b", text)  # and not only written
    return bool(listed) and f"static void {case}(" in text


def main():
    faults = []
    numbers = []
    for line in (ROOT / "docs/reference/complaints.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| (\d+) \|", line)
        if not row:
            continue
        numbers.append(int(row[1]))
        names = re.findall(r"`(tests/[^:`]+):([a-z0-9_]+)`", line)
        if not names:
            faults.append(f"complaint {row[1]} names no test")
        faults += [f"complaint {row[1]}: there is no test {path}:{case}" for path, case in names if not has_test(path, case)]
    if numbers != list(range(1, len(numbers) + 1)) or not numbers:
        faults.append("complaints are not numbered from 1")
    for fault in faults:
        print(fault)
    return bool(faults)


sys.exit(main())
