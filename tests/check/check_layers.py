#!/usr/bin/env python3
"""Checks that every include respects the layer table of docs/ARCHITECTURE.md, which it reads from that page."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which library a header belongs to: by its whole name or by the folder it is in.
LIBRARY_OF = {
    "sha256.h": "libmd", "xxhash.h": "xxHash", "msgpack": "msgpack-c", "msgpack.h": "msgpack-c", "uv.h": "libuv",
    "openssl": "OpenSSL", "curl": "libcurl", "zstd.h": "zstd", "wslay": "wslay", "sqlite3.h": "SQLite", "libpq-fe.h": "libpq", "llvm": "LLVM", "llvm-c": "LLVM", "protobuf-c": "protobuf-c",
    "seccomp.h": "libseccomp", "ini.h": "libinih", "microhttpd.h": "libmicrohttpd", "xgboost": "XGBoost", "jansson.h": "jansson", "cmocka.h": "cmocka",
    "dnnl.h": "oneDNN", "cblas.h": "OpenBLAS", "oneapi": "oneDNN", "clblast_c.h": "CLBlast", "jni.h": "JNI", "Python.h": "Python",
}
# Headers that a build step makes, and the library behind them.
GENERATED = {"onnx.pb-c.h": "protobuf-c"}
# What is installed, for programs of others.
INSTALLED = {"kiln/kiln.h"}
# Headers of ours that a build step makes.
BUILT = {"rpc-server/golden_object.h"}
# What C, POSIX, Linux and the compilers bring; used everywhere.
SYSTEM_FOLDERS = {"sys", "linux", "net", "netinet", "arpa", "asm", "bits", "sanitizer"}
SYSTEM = set("""assert ctype errno float inttypes limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib string strings tgmath time dirent fcntl fnmatch ftw getopt glob grp netdb poll pthread pwd
    nss sched spawn termios unistd ucontext dlfcn elf endian execinfo link malloc cpuid immintrin x86intrin""".split())


def read_table():
    """{folder: (allowed folders or None for everything, libraries)} in the order of the page."""
    text = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("\n## Layers\n", 1)[1].split("\n## ", 1)[0]
    table = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("folder", "---"):
            continue
        split = lambda cell: [word.strip() for word in cell.split(",") if word.strip()]
        table[cells[0]] = (None if cells[1] == "everything" else split(cells[1]), split(cells[2]))
    return table


def row_of(path, table):
    """The longest row that `path` lies in."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in table), None)


def check_own(path, include, table):
    mine, folder = row_of(path, table), str(pathlib.PurePosixPath(include).parent)
    allowed = table[mine][0]
    if allowed is None or row_of(include, table) == mine or folder in allowed:
        return None
    return f"{mine} may not use {folder} ({include})"


def check_library(path, include, table):
    mine, first = row_of(path, table), include.split("/")[0]
    library = GENERATED.get(include) or LIBRARY_OF.get(first)
    if library is None:
        known = include in INSTALLED or first in SYSTEM_FOLDERS or (include.endswith(".h") and include[:-2] in SYSTEM)
        return None if known else f"<{include}> belongs to no library in the layer table"
    if table[mine][0] is None or library in table[mine][1]:
        return None
    return f"{mine} may not use {library} (<{include}>)"


def circles_of(table):
    """Rows that use each other, directly or through others."""
    uses = {row: [other for other in allowed or [] if other in table and other != row]
            for row, (allowed, _) in table.items()}

    def reaches(row, goal, seen):
        return any(other == goal or (other in uses and other not in seen and reaches(other, goal, seen | {other}))
                   for other in uses[row])
    return [f"docs/ARCHITECTURE.md: row {row} uses itself through other rows: remove one of these dependencies" for row in uses if reaches(row, row, {row})]


def main():
    table = read_table()
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.def"], cwd=ROOT, check=True, capture_output=True, text=True)
    found, includes = circles_of(table), 0
    for path in files.stdout.split():
        if row_of(path, table) is None:
            found.append(f"{path}: its folder has no row in the layer table")
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if not match:
                continue
            includes += 1
            own, system = match.groups()
            if own in GENERATED or system:
                complaint = check_library(path, own or system, table)
            elif own in BUILT or (ROOT / own).is_file():
                complaint = check_own(path, own, table)
            else:
                complaint = f'"{own}" is not a path from the root of the tree'
            if complaint:
                found.append(f"{path}:{number}: {complaint}")
    for library in {library for _, libraries in table.values() for library in libraries} - set(LIBRARY_OF.values()):
        found.append(f"docs/ARCHITECTURE.md: {library} has no header in LIBRARY_OF of tests/check/check_layers.py")
    if includes == 0:
        found.append("no include was found, so this check is broken")
    print("\n".join(found) or f"{includes} includes respect {len(table)} layers")
    return 1 if found else 0


sys.exit(main())
