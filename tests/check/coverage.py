#!/usr/bin/env python3
"""Branch coverage of a folder, by gcov: coverage.py BUILD FOLDER [MINIMUM].

BUILD was configured with -Db_coverage=true and its tests have run. A branch counts when it was taken; what
KILN_CHECK guards does not: those branches are bugs, and a test that took one would abort. Prints a line per
source file with its missed lines, and fails below MINIMUM per cent."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def branches_of(build, folder):
    """{source: {(line, index): taken}}, over all objects that were made from it."""
    found = {}
    for data in sorted(build.rglob("*.gcda")):
        if folder not in str(data.relative_to(build)):
            continue
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", str(data)], cwd=build,
                              capture_output=True, text=True, check=True)
        for document in done.stdout.splitlines():
            for file in json.loads(document)["files"]:
                path = (build / file["file"]).resolve()
                if not path.is_relative_to(ROOT / folder) or path.suffix != ".c":
                    continue
                lines = path.read_text(encoding="utf-8").splitlines()
                mine = found.setdefault(str(path.relative_to(ROOT)), {})
                for line in file["lines"]:
                    if "KILN_CHECK" in lines[line["line_number"] - 1]:
                        continue
                    for index, branch in enumerate(line["branches"]):
                        key = (line["line_number"], index)
                        mine[key] = mine.get(key, False) or branch["count"] > 0
    return found


def main(build, folder, minimum="0"):
    found = branches_of(pathlib.Path(build).resolve(), folder)
    taken = total = 0
    for path, branches in sorted(found.items()):
        hits = sum(branches.values())
        taken, total = taken + hits, total + len(branches)
        missed = sorted({line for (line, _), hit in branches.items() if not hit})
        print(f"{path:32} {hits:5} of {len(branches):5}  {100 * hits / max(1, len(branches)):5.1f} %  {' '.join(map(str, missed))}")
    share = 100 * taken / max(1, total)
    print(f"branches of {folder}: {taken} of {total}, {share:.1f} %")
    sys.exit(0 if total and share >= float(minimum) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
