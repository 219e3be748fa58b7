#!/usr/bin/env python3
"""Follows docs/how-to/target-kind.md: makes a second kind of targets, `twin`, from the rows and files that the page lists
for `null`, in a copy of the tree, and compiles what expands the tables; and looks that no other file asks for the kind."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["base", "compiler-core", "deploy", "rpc-server", "proto"]
# What of the kind's own names other files may not say.
NAMES = re.compile(r"\bKILN_(TARGET|DEVICE)_NULL\b|\bKILN_PAYLOAD_NULL_CODE\b|\bkiln_(target_form|rules|device|executor)_null\b|\bkiln_null_\w+")


def listed():
    """([(table, beginning of the row)], [file]) of the page."""
    page = (ROOT / "docs/how-to/target-kind.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/.\-]+)` \| `(.+?)` \|$", page, re.M)
    files = re.findall(r"^\| `([\w/.\-]+\.c)` \| .+ \|$", page, re.M)
    return rows, [name for name in files if (name, "") not in rows]


def twin(text):
    """The text with every name of the kind changed."""
    return text.replace("NULL_CODE", "TWIN_CODE").replace("_NULL_", "_TWIN_").replace("KILNNULL", "KILNTWIN") \
        .replace("KILN_TARGET_NULL", "KILN_TARGET_TWIN").replace("KILN_DEVICE_NULL", "KILN_DEVICE_TWIN") \
        .replace("null_", "twin_").replace("_null", "_twin")


def twin_row(line):
    number = re.compile(r"(?<=, )\d+(?=,)")
    return number.sub(lambda m: str(int(m.group(0)) + 90), twin(line), count=1).replace("X(NULL,", "X(TWIN,").replace(" NULL,", " TWIN,") \
        .replace(" null,", " twin,").replace("X(null,", "X(twin,").replace("DRIVER(null,", "DRIVER(twin,").replace('"null"', '"twin"')


def copy_kind(tree, rows, files):
    found = []
    for table, beginning in rows:
        path = tree / table
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        own = [line for line in lines if line.startswith(beginning)]
        if len(own) != 1:
            found.append(f"{table}: {len(own)} rows begin with {beginning}")
            continue
        path.write_text("".join(lines) + twin_row(own[0]), encoding="utf-8")
    made = []
    for name in files:
        for source in (tree / name, (tree / name).with_suffix(".h")):
            if not source.exists():
                if source.suffix == ".c":
                    found.append(f"{name} does not exist")
                continue
            target = source.with_name(source.name.replace("null", "twin"))
            target.write_text(twin(source.read_text(encoding="utf-8")), encoding="utf-8")
            if source.suffix == ".c":
                made.append(target)
    ops = tree / "base/null_ops.def"
    (tree / "base/twin_ops.def").write_text(ops.read_text(encoding="utf-8"), encoding="utf-8")
    return found, made


def expanders(tree, rows):
    """Sources that expand one of the tables, by themselves or through the headers beside them."""
    tables = [table for table, _ in rows]
    for path in sorted(tree.rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        if any(f'"{table}"' in text for table in tables):
            yield path


def compile_all(tree, sources):
    found = []
    for path in sources:
        done = subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                               "-I", str(tree), str(path)], capture_output=True, text=True)
        if done.returncode:
            found.append(f"{path.relative_to(tree)} with a twin of the kind:\n{done.stderr[:2000]}")
    return found


def strangers(rows, files):
    """Files that ask for the kind by its name and are not on the page."""
    own = {table for table, _ in rows} | set(files) | {str(pathlib.Path(name).with_suffix(".h")) for name in files}
    for folder in FOLDERS + ["tuner", "tracker", "cli", "db"]:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = str(path.relative_to(ROOT))
            if name not in own and NAMES.search(path.read_text(encoding="utf-8")):
                yield f"{name} asks for the kind null by its name, and is not in docs/how-to/target-kind.md"


def main():
    rows, files = listed()
    if not rows or not files:
        sys.exit("docs/how-to/target-kind.md: its tables are gone")
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, tree / name)
        found, made = copy_kind(tree, rows, files)
        sources = list(expanders(tree, rows))
        found += compile_all(tree, made + [path for path in sources if path not in made])
    found += strangers(rows, files)
    print("\n".join(found) or f"{len(rows)} rows and {len(files)} files make a kind; {len(sources)} sources expand them")
    return 1 if found else 0


sys.exit(main())
