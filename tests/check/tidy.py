#!/usr/bin/env python3
"""Tidiness of the sources, in a few seconds.

usage: tidy.py BUILD [--sanitized]

Fails on: calls that are banned, FIXME, headers that do not compile alone, writable globals outside of main.c
(object files of BUILD; not of sanitizers, which bring their own). Only lists: sources without a test, long files, wide lines.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What is banned, where it is nevertheless right, and what to use instead. Tests obey the rows with True.
BANNED = [
    (r"strcpy|strcat|sprintf|vsprintf|gets|strtok", r"^$", "snprintf or base/str.h", True),
    (r"atoi|atol|atoll|atof|strtol|strtoul|strtoll|strtoull|strtod|strtof", r"^(base/str\.c$|tests/bench/)", "kiln_str_to_*", True),
    (r"rand|srand|random|srandom|drand48|rand_r", r"^$", "base/rand.h", True),
    (r"time|gettimeofday|clock|clock_gettime", r"^(base/clock|python/native/module)\.c$", "base/clock.h", False),
    (r"sleep|usleep|nanosleep", r"^$", "an event or a deadline", True),
    (r"getenv|secure_getenv", r"^base/opt\.c$", "kiln_env", False),
    (r"malloc|calloc|realloc|free|strdup|strndup|asprintf|vasprintf|posix_memalign|aligned_alloc", r"^base/alloc\.c$",
     "base/alloc.h or an arena", False),
    (r"system|popen|tmpnam|mktemp|alloca", r"^$", "base/proc.h, base/file.h", True),
    (r"skip", r"^$", "skip_because", True),
]
# Writable globals that are right, and why.
GLOBALS = {
    "base/alloc.c": "counts and fails allocations of the whole process, for tests",
    "base/fail.c": "what shall fail in this process, set once by main",
    "base/log.c": "set once by main before any thread starts",
    "base/trace.c": "opened once by main; written by the loop's thread only",
    "rpc-server/sandboxed_child.c": "the whole state of a contained child, which runs one measurement and ends",
}
SOURCE_FOLDERS = ("base/", "vta/", "proto/", "compiler-core/", "db/", "deploy/", "rpc-server/", "tracker/", "tuner/", "cli/", "web/")
FILE_LINES_MAX, LINE_COLUMNS_MAX = 500, 100


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in out.split("\n") if name and (ROOT / name).is_file()]


def code_of(text):
    """The text with comments, strings and characters blanked out, line by line in place."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def check_calls(name, code):
    is_test = name.startswith("tests/")
    for words, right_in, instead, also_tests in BANNED:
        if re.match(right_in, name) or (is_test and not also_tests):
            continue
        for match in re.finditer(rf"(?<![\w.>])({words})\s*\(", code):
            yield f"{name}:{code.count(chr(10), 0, match.start()) + 1}: {match.group(1)} is banned; use {instead}"


def check_marks(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(FIXME|XXX)\b", line):
            yield f"{name}:{number}: {line.strip()}"


def header_flags(build):
    flags = ["-I.", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"]
    llvm = subprocess.run(["llvm-config-19", "--includedir"], capture_output=True, text=True)
    flags += ["-isystem", llvm.stdout.strip(), "-isystem", sysconfig.get_paths()["include"], f"-I{build}", f"-I{build}/compiler-core/frontend/onnx"]
    return flags + [f"-I{path.parent}" for path in pathlib.Path(build).glob("compiler-core/**/*.pb-c.h")]


def check_header(name, flags):
    # Included, not compiled as the main file, so that `static inline` functions are not reported as unused.
    run = subprocess.run(["cc", *flags, "-"], cwd=ROOT, input=f'#include "{name}"\n', capture_output=True, text=True)
    return [] if run.returncode == 0 else [f"{name} does not compile alone:\n" + run.stderr.rstrip()[:600]]


def check_globals(build):
    """Symbols in writable sections. Tables of constant pointers lie in .data.rel.ro, which is fine."""
    objects = [str(path) for path in pathlib.Path(build).glob("**/*.c.o") if not str(path).startswith(f"{build}/tests/")]
    if not objects:
        return [f"no object files under {build}: build it first"]
    out = subprocess.run(["objdump", "-t", *objects], check=True, capture_output=True, text=True).stdout
    found, source = [], ""
    for line in out.splitlines():
        if line.endswith("file format elf64-x86-64"):
            path = pathlib.PurePath(line.split(":")[0]).relative_to(build)
            # build/base/libkiln_base.a.p/alloc.c.o -> base/alloc.c; meson writes sub-folders with underscores
            source = str(path.parent.parent / path.name.removesuffix(".o"))
        symbol = re.search(r"\bO (\.t?data|\.t?bss)(?:\.\S*)?\s+\S+\s+(?:\.hidden )?(\S+)$", line)
        if not symbol or symbol.group(2).startswith((".", "__")):
            continue
        if ".data.rel.ro" in line or source.endswith("main.c") or source in GLOBALS or "pb-c" in source:
            continue
        found.append(f"{source}: writable global {symbol.group(2)}")
    return found


def list_untested(sources):
    tests = {pathlib.PurePosixPath(name).stem.removeprefix("test_") for name in tracked("tests/unit/**/test_*.c")}
    return [name for name in sources if pathlib.PurePosixPath(name).stem not in tests and not name.endswith("main.c")]


def main(build, *options):
    build = os.path.relpath(build, ROOT)
    os.chdir(ROOT)
    files = tracked("*.c", "*.h")
    found, long_files, wide_lines = [], [], 0
    for name in files:
        text = (ROOT / name).read_text(encoding="utf-8")
        found += check_calls(name, code_of(text))
        found += check_marks(name, text)
        if text.count("\n") > FILE_LINES_MAX:
            long_files.append(f"{name} ({text.count(chr(10))})")
        wide_lines += sum(len(line) > LINE_COLUMNS_MAX for line in text.splitlines())
    flags = header_flags(build)
    has_python = (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists()  # only tests of the package need it
    headers = [name for name in files if name.endswith(".h") and (has_python or not name.startswith("python/"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for complaints in pool.map(lambda name: check_header(name, flags), [name for name in headers]):
            found += complaints
    if "--sanitized" not in options:
        found += check_globals(build)

    untested = list_untested([name for name in files if name.endswith(".c") and name.startswith(SOURCE_FOLDERS)])
    print(f"listed only: {len(untested)} sources without a test of their name: {' '.join(untested)}")
    print(f"listed only: {len(long_files)} files above {FILE_LINES_MAX} lines: {' '.join(long_files)}")
    print(f"listed only: {wide_lines} lines wider than {LINE_COLUMNS_MAX} columns; ./dev fmt fixes them")
    print("\n".join(found) or f"{len(files)} files are tidy")
    return 1 if found else 0


sys.exit(main(*sys.argv[1:]))
