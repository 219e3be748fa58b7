#!/usr/bin/env python3
"""Adds up what meson's test logs say, case by case, and tells how to run each failed test again.

usage: report.py LABEL=LOG.json...   LABEL is the ./dev command that runs such a test (test, asan, tsan, golden)

Cases that were skipped stand there with their reason; one that gives none has failed. The last line is "N passed, N failed, N skipped"; the exit code is 1 when anything failed or nothing ran.
"""
import json
import re
import sys

CASE = re.compile(r"^(not ok|ok)\b(.*)$", re.M)
OF_CMOCKA = re.compile(r"^(?:not )?ok \d+ # SKIP (\w+)$")
LINES, WIDTH = 40, 300  # shown of a failed case
SKIPPED_SHOWN = 4  # cases that were skipped for one reason


def skipped_cases(test):
    """(case, reason) of what a test program skipped, "" where it gives none. One without TAP lines says why on its last line, a case of cmocka on the line before its own, if at all."""
    before = ""
    for line in (test.get("stdout") or "").splitlines():
        case, of_cmocka = CASE.match(line), OF_CMOCKA.match(line)
        name, found, reason = (re.split(r"(# *skip\S*)", case[2], maxsplit=1, flags=re.I) + ["", ""])[:3] if case else ("", "", "")
        if of_cmocka:
            name, reason = of_cmocka[1], before
        if found:
            yield re.sub(r"^ *\d* *-? *", "", name).strip(), reason.strip()
        before = "" if case else re.sub(r"^# *(skipped: )?", "", line)
    if test["result"] == "SKIP" and not CASE.search(test.get("stdout") or ""):
        said = ((test.get("stdout") or "") + (test.get("stderr") or "")).strip().splitlines()
        yield "", said[-1].strip() if said else ""


def count(test):
    """Cases of one test program: (passed, failed, skipped). A program without TAP lines is one case."""
    passed = failed = skipped = 0
    for verdict, rest in CASE.findall(test.get("stdout") or ""):
        if re.search(r"# *skip", rest, re.I):
            skipped += 1
        elif verdict == "ok":
            passed += 1
        else:
            failed += 1
    good = test["result"] in ("OK", "EXPECTEDFAIL", "SKIP")
    if not good and failed == 0:
        failed = 1  # it crashed, timed out, or its sanitizer spoke
    if good and passed + failed + skipped == 0:
        passed, skipped = (0, 1) if test["result"] == "SKIP" else (1, 0)
    return passed, failed, skipped


def show(lines):
    for line in lines:
        print("    " + line[:WIDTH])


def failed_cases(stdout):
    """What failed cases say about themselves, each from its beginning; the end of a program without TAP."""
    kept, room = [], 0
    lines = stdout.rstrip().splitlines()
    for line in lines:
        if CASE.match(line):
            room = LINES if line.startswith("not ok") else 0
        if room:
            kept.append(line)
            room -= 1
    return kept or lines[-LINES:]


def main(arguments):
    total, skipped = [0, 0, 0], {}
    for argument in arguments:
        label, path = argument.split("=", 1)
        try:
            tests = [json.loads(line) for line in open(path, encoding="utf-8", errors="replace")]
        except FileNotFoundError:
            print(f"{label}: no test ran")
            total[1] += 1
            continue
        for test in tests:
            counts = count(test)
            total = [a + b for a, b in zip(total, counts)]
            name = test["name"].split(" / ")[-1]
            for case, reason in skipped_cases(test):
                if reason:
                    skipped.setdefault(reason, []).append(f"{name} {case}".strip())
                    continue
                total = [total[0], total[1] + 1, total[2] - 1]
                print(f"\n{name} {case}".rstrip() + ": skipped without a reason")
            if counts[1]:
                print(f"\n{name}: {test['result']}")
                show(failed_cases(test.get("stdout") or ""))
                show((test.get("stderr") or "").rstrip().splitlines()[-LINES:])
                print(f"  again: ./dev {label} {name}")
    for reason, cases in skipped.items():
        more = f" and {len(cases) - SKIPPED_SHOWN} more" if len(cases) > SKIPPED_SHOWN else ""
        print(f"skipped: {', '.join(cases[:SKIPPED_SHOWN])[:WIDTH]}{more}: {reason[:WIDTH]}")
    if total == [0, 0, 0]:
        total[1] = 1
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


sys.exit(main(sys.argv[1:]))
