#!/usr/bin/env python3
"""Checks documents against the tree: every path that they name exists, and the map of
docs/ARCHITECTURE.md has exactly the folders of sources."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folders that the map need not name one by one: they mirror others, or hold data.
UNMAPPED = re.compile(r"^(\.ci|tests/(unit|fuzz/corpus|e2e|data|golden)/.*|tests/fuzz/corpus|.*/objects)$")


def tracked():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).exists()]


def folders_of(files):
    folders = set()
    for name in files:
        folders.update(str(parent) for parent in pathlib.PurePosixPath(name).parents)
    folders.discard(".")
    return folders


def named_paths(text, tops):
    """Words of a text that can only be paths of this tree."""
    for word in re.findall(r"[A-Za-z0-9_.\-/]+", text):
        word = word.rstrip(".").rstrip("/")
        placeholder = re.search(r"(?<![A-Za-z])(NAME|N+)(?![A-Za-z])|_NAME", word)
        if word.split("/")[0] in tops and "/" in word and "//" not in word and not placeholder:
            yield word


def exit_codes_differ():
    """What docs/reference/command-line.md says of exit codes, and base/status.def does not, or the other way round."""
    rows = re.findall(r'^X\((\w+), \d+, (\d+), "([^"]*)"\)$', (ROOT / "base/status.def").read_text(encoding="utf-8"), re.M)
    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8").split("## Exit codes", 1)[1]
    told = re.findall(r"^\| (\d+) \| (\w+) \| (.*) \|$", page, re.M)
    for row in sorted({(code, name, meaning) for name, code, meaning in rows} ^ set(told)):
        yield f"docs/reference/command-line.md: exit codes differ from base/status.def in {' '.join(row)}"


def errors_differ():
    """Codes and outcomes that docs/reference/errors.md does not have as the tables do."""
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    wanted = [f"### {name}\n\nExit code {code}, number {number} on the wire: {meaning}.\n\n"
              for name, number, code, meaning in re.findall(r'^X\((\w+), (\d+), (\d+), "([^"]*)"\)$', (ROOT / "base/status.def").read_text(encoding="utf-8"), re.M)]
    wanted += [f"### {text}\n\nBlame: {blame.lower()}. The cost model {'learns' if trains == 'true' else 'does not learn'} from it. Meaning: {meaning}.\n\n"
               for text, blame, trains, meaning in re.findall(r'^X\(\w+, \d+, "([^"]*)", (\w+), (\w+), "([^"]*)"\)$', (ROOT / "base/outcome.def").read_text(encoding="utf-8"), re.M)]
    for text in wanted:
        if not re.search(re.escape(text) + r"(?!###)\S", page):
            yield f"docs/reference/errors.md: lacks this, with what to do behind it: {text.strip()!r}"
    if page.count("\n### ") != len(wanted):
        yield "docs/reference/errors.md: has a heading that is neither a code nor an outcome"


def main():
    files = tracked()
    folders, found, missing, checked = folders_of(files), [], [], 0
    tops = {folder for folder in folders if "/" not in folder}
    for name in files:
        text_form = name.endswith((".md", ".c", ".h", ".def", ".py", ".build")) or name == "dev"
        if not text_form:
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        # In sources only documents are looked up: comments speak of many other things with slashes.
        paths = named_paths(text, tops) if name.endswith(".md") else re.findall(r"\bdocs/[a-z][A-Za-z0-9_/\-]*\.md", text)
        for path in paths:
            checked += 1
            if not (ROOT / path).exists():
                (found if name.endswith(".md") else missing).append(f"{name}: names {path}, which does not exist")
        if name.endswith(".md"):
            for link in re.findall(r"\]\(([^)#:]+)\)", text):
                checked += 1
                if not (ROOT / name).parent.joinpath(link).exists():
                    found.append(f"{name}: links to {link}, which does not exist")

    page = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z0-9/\-]+) \|", page.split("## Map of the folders", 1)[1], re.M)
    mapped = set(rows) - {"folder"}
    for folder in sorted(folders - mapped):
        if not UNMAPPED.match(folder):
            found.append(f"docs/ARCHITECTURE.md: the map lacks {folder}")
    for folder in sorted(mapped - folders):
        found.append(f"docs/ARCHITECTURE.md: the map has {folder}, which does not exist")
    found += exit_codes_differ()
    found += errors_differ()
    if checked == 0:
        found.append("no path was found: this check is broken")
    for line in missing:
        print(f"to be written: {line}")
    print("\n".join(found) or f"{checked} paths exist, {len(mapped)} folders are mapped")
    return 1 if found else 0


sys.exit(main())
