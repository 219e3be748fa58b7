#!/usr/bin/env python3
"""Tests that ./dev mutate reports what no test finds: in tests/mutate/self, one decision of two is checked.

usage: test_mutate.py SOURCE-ROOT BUILD-ROOT"""
import argparse
import contextlib
import io
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import building  # noqa: E402
import mutate  # noqa: E402

FOLDERS = {"tests/mutate/self": mutate.Folder(["tests/mutate/self/libdecided.a"], set(), [])}
BOUNDARY = "tests/mutate/self/decided.c: self_is_full: boundary `count >= most` -> `count > most` in `return count >= most;`"
NEGATED = "tests/mutate/self/decided.c: self_is_full: negate `count >= most` -> `count < most` in `return count >= most;`"
FOUND = "tests/mutate/self/decided.c: self_is_due: boundary `now_ns >= due_ns` -> `now_ns > due_ns` in `return now_ns >= due_ns;`"
NONE = "tests/mutate/self/decided.c: self_is_gone: remove `self_go();` -> `;`"


def outcome(build, rows):
    options = argparse.Namespace(all=True, quick=False, only=None, again=False, list=False, verbose=False, jobs=2)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = mutate.run(build, FOLDERS, rows, options, use_simulator=False)
    return code, said.getvalue()


def expect(condition, said):
    if not condition:
        raise SystemExit(f"the tool said:\n{said}")


def main():
    build = building.Build(sys.argv[1], sys.argv[2])
    # A decision that no test checks fails the run.
    code, said = outcome(build, {})
    expect(code == 1, said)
    expect(re.search(r"^4 mutants .*: 2 found by unit tests, 0 by the simulator, 0 explained, 2 unexplained;", said, re.M), said)
    expect(re.search(r"decided\.c:\d+: survives in self_is_full\n    -.* return count >= most; }\n    \+.* return count > most; }\n", said), said)
    expect(BOUNDARY in said and NEGATED in said, said)
    # Explained, it does not.
    code, said = outcome(build, {BOUNDARY: "speed: of the test", NEGATED: "speed: of the test"})
    expect(code == 0 and "2 explained, 0 unexplained;" in said, said)
    # A row of a mutant that a test finds does, and one of no mutant.
    code, said = outcome(build, {BOUNDARY: "speed: of the test", NEGATED: "speed: of the test", FOUND: "speed: of the test"})
    expect(code == 1 and f"decided finds: {FOUND}" in said, said)
    code, said = outcome(build, {BOUNDARY: "speed: of the test", NEGATED: "speed: of the test", NONE: "speed: of the test"})
    expect(code == 1 and f"the row of no mutant: {NONE}" in said, said)


main()
