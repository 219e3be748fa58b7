#!/usr/bin/env python3
"""Makes the installed header, and the linker's list of names, from the headers of the library's parts.

api.py header VERSION STATUS.def OUT PART.h...   one header for all parts, with the codes of errors
api.py map VERSION OUT PART.h...                 which symbols of a shared library are public, and since when
"""
import pathlib
import re
import sys

INTRO = '''\
/* Kiln {version}: tunes and compiles models, runs them, reads databases of measurements, and
 * writes operators and schedules.
 *
 * Functions that can fail return 0 or an error number, and write one line of text to `error`, truncated to
 * `error_bytes`, unless that is NULL. The library installs no signal handler, does not change the process and
 * keeps no state outside of its handles. One handle is used by one thread at a time, different ones by several
 * threads at once. Where memory runs out the process ends with one line on standard error.
 *
 *     pkg-config --cflags --libs kiln        all of it
 *     pkg-config --cflags --libs kiln-run    modules alone: needs libc and threads
 *     pkg-config --cflags --libs kiln-query  databases alone
 *     pkg-config --cflags --libs kiln-te     custom operators and schedules alone
 *     pkg-config --cflags --libs kiln-tune   tuning and compiling alone, through the program kiln: needs libc */
'''


def body(path):
    """A part without its guard and what surrounds it."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    guard = re.search(r"#ifndef (\w+_H)\n#define \1\n", text)
    before, inside = text[:guard.start()], text[guard.end():text.rindex("#endif")]
    inside = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', "", inside)
    includes = re.findall(r"#include <\w+\.h>\n", inside)
    inside = re.sub(r"#include (<\w+\.h>|\"[\w/]+\.h\")\n", "", inside)  # other parts are above
    comment = before.replace("INSTALLED. ", "").strip()
    return includes, comment + "\n\n" + re.sub(r"\n{3,}", "\n\n", inside).strip() + "\n"


def codes(path):
    rows = re.findall(r'^X\((\w+), (\d+), \d+, "([^"]*)"\)$', pathlib.Path(path).read_text(encoding="utf-8"), re.M)
    lines = [f"    KILN_{name} = {number}{',' if number != rows[-1][1] else ' '} /* {meaning} */\n" for name, number, meaning in rows]
    return "/* The numbers of errors. New ones may come, at the end. */\nenum {\n" + "".join(lines) + "};\n"


def functions(paths):
    """Names of public functions, in order."""
    names = []
    for path in paths:
        text = re.sub(r"/\*.*?\*/", "", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.S)
        names += re.findall(r"^[a-z][\w \*]*?[ \*](kiln_\w+)\([^;{}]*\);", text, re.M)
    return names


def header(version, status, out, *parts):
    major, minor, patch = version.split(".")
    bodies = [body(part) for part in parts]
    includes = sorted({line for found, _ in bodies for line in found})
    pathlib.Path(out).write_text(
        INTRO.format(version=version) + "#ifndef KILN_KILN_H\n#define KILN_KILN_H\n\n" + "".join(includes)
        + f"\n#define KILN_VERSION_MAJOR {major}\n#define KILN_VERSION_MINOR {minor}\n#define KILN_VERSION_PATCH {patch}\n"
        + '\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n' + codes(status) + "\n" + "\n".join(text for _, text in bodies)
        + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n", encoding="utf-8")


def symbol_map(version, out, *parts):
    """All of one node while nothing was released: each release gets one."""
    node = "KILN_" + ".".join(version.split(".")[:2])
    lines = "".join(f"        {name};\n" for name in functions(parts))
    pathlib.Path(out).write_text(f"{node} {{\n    global:\n{lines}    local:\n        *;\n}};\n", encoding="utf-8")


if __name__ == "__main__":
    {"header": header, "map": symbol_map}[sys.argv[1]](*sys.argv[2:])
