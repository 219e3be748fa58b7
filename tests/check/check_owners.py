#!/usr/bin/env python3
"""Who writes what in folders whose state has owners, each with a header that one header (tracker/state.h) includes; or whose state stands
in one header (tuner/shell.h), where each struct's comment says "Written by":

* a file calls what its owner's header declares, and headers that this one includes, directly or not: there are no circles;
* a file writes fields of structs that its owner's header declares, and of those whose comment says "Written by" it.

Read from clang's syntax tree, as names alone do not tell a board's `text` from a project's."""
import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATES = ["tracker/state.h", "tuner/state.h", "tuner/shell.h"]  # headers that include those of owners, or hold their structs
CLANG = "clang-19"


def syntax_tree(path, build):
    commands = json.loads((build / "compile_commands.json").read_text())
    [command] = [c for c in commands if (pathlib.Path(c["directory"]) / c["file"]).resolve() == path][:1]
    options = [o for o in shlex.split(command["command"]) if o.startswith(("-I", "-D", "-std", "-isystem"))]
    done = subprocess.run([CLANG, *options, "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json", str(path)], cwd=command["directory"],
                          env={**os.environ, "CCACHE_DISABLE": "1"}, capture_output=True, text=True)  # which may say paths in another way
    assert done.returncode == 0, done.stderr[:2000]
    return json.loads(done.stdout)


def without_casts(node, stop="LValueToRValue"):
    """The expression below casts; None where a value is read, as what is written through that is not the field itself."""
    while node["kind"] in ("ImplicitCastExpr", "CStyleCastExpr", "ParenExpr"):
        if node.get("castKind") == stop:
            return None
        node = node["inner"][0]
    return node


class File:
    """What a file defines, calls and writes. `writes`: (struct, field) -> line of the first time."""

    def __init__(self, path, build, structs):
        self.structs = structs
        self.path, self.defines, self.calls, self.writes = path, set(), set(), {}
        self.fields, self.line, self.place = {}, 0, None
        tree = syntax_tree(path, build)
        for node in tree["inner"]:
            self.index(node, None)
            if node["kind"] == "FunctionDecl" and node["place"] == str(path) and any(n["kind"] == "CompoundStmt" for n in node.get("inner", ())):
                if node.get("storageClass") != "static":
                    self.defines.add(node["name"])
                self.walk(node)

    def find_place(self, location):
        """Clang says a file only where it differs from that of the location before."""
        for part in (location, location.get("spellingLoc", {}), location.get("expansionLoc", {})):
            self.place = part.get("file", self.place)

    def index(self, node, struct):
        self.find_place(node.get("loc", {}))
        node["place"] = self.place
        for end in ("begin", "end"):
            self.find_place(node.get("range", {}).get(end, {}))
        if node["kind"] == "RecordDecl":
            struct = node.get("name") or struct
        if node["kind"] == "FieldDecl":
            self.fields[node["id"]] = (struct, node.get("name"))
        for child in node.get("inner", ()):
            if child:
                self.index(child, struct)

    def write(self, node):
        """The places that an assignment to this expression changes: the field, and the fields that it lies in."""
        node = without_casts(node)
        if node is None:
            return
        if node["kind"] == "MemberExpr":
            field = self.fields.get(node.get("referencedMemberDecl"))
            if field:
                self.writes.setdefault(field, self.line)
            if not field or field[0] not in self.structs:  # a part of an owner's struct is its own
                self.write(node["inner"][0])
        elif node["kind"] == "ArraySubscriptExpr" or node["kind"] == "UnaryOperator" and node["opcode"] in "&*":
            self.write(node["inner"][0])

    def argument(self, node):
        """What a function may write through a pointer that is not const."""
        kind = node.get("type", {}).get("qualType", "")
        if "*" not in kind or kind.startswith("const ") or kind == "char *" and node.get("castKind") == "ArrayToPointerDecay":
            return  # texts for printf
        if kind == "kiln_arena *":
            return  # memory is taken from it
        if re.sub(r"(struct )?(\w+) \*$", r"\2", kind) in self.structs:
            return  # written where that function does it
        below = without_casts(node)
        if below is not None and (below["kind"] == "UnaryOperator" and below["opcode"] == "&" or "[" in below["type"]["qualType"]):
            self.write(below)

    def walk(self, node):
        begin = node.get("range", {}).get("begin", {})
        self.line = begin.get("expansionLoc", begin).get("line", self.line)
        kind = node["kind"]
        if kind == "CompoundAssignOperator" or kind == "BinaryOperator" and node["opcode"] == "=":
            self.write(node["inner"][0])
        elif kind == "UnaryOperator" and node["opcode"] in ("++", "--"):
            self.write(node["inner"][0])
        elif kind == "CallExpr":
            for argument in node["inner"][1:]:
                self.argument(argument)
        if kind == "DeclRefExpr" and node["referencedDecl"]["kind"] == "FunctionDecl":
            self.calls.add(node["referencedDecl"]["name"])
        for child in node.get("inner", ()):
            if child:
                self.walk(child)


def owners_of(folder, state):
    """Header -> those that it includes, directly or not; struct -> (its header, files that write it, whether its owner does as well)."""
    includes = lambda header: re.findall(rf'#include "{folder.name}/(\w+)\.h"', (folder / f"{header}.h").read_text())
    below, structs, stem = {}, {}, pathlib.Path(state).stem

    def follow(header, above):
        assert header not in above, f"{folder.name}: headers include each other: {' '.join([*above, header])}"
        if header not in below:
            below[header] = set().union(*({h} | follow(h, [*above, header]) for h in includes(header)))
        return below[header]

    for header in {*includes(stem), stem} - {folder.name}:  # without what the folder offers
        follow(header, [])
        text = (folder / f"{header}.h").read_text()
        for comment, name in re.findall(r"(?:(/\*(?:[^*]|\*(?!/))*\*/)\n)?typedef struct (\w+) \{", text):
            words = re.search(r"Written by ((?:[^.]|\.(?=c\b))*)\.", comment.replace("\n *", ""))
            if header == stem and not words:
                continue
            structs[name] = (header, set(re.findall(r"\w+\.c", words.group(1))) if words else set(), not words or "too" in words.group(1))
    return below, structs


def check(folder, state, build):
    below, structs = owners_of(folder, state)
    public = folder.name  # what the folder offers: above all owners
    declared = {name: header for header in below if header != public for name in re.findall(r"\b(kiln_\w+)\(", (folder / f"{header}.h").read_text())}
    paths = [p for p in sorted(folder.glob("*.c")) if f'"{folder.name}/{state}"' in p.read_text()]
    with ThreadPoolExecutor(2) as pool:
        files = list(pool.map(lambda p: File(p, build, structs), paths))
    owner = {}
    for f in files:
        homes = collections.Counter(declared[n] for n in f.defines if n in declared)
        owner[f.path.name] = homes.most_common(1)[0][0] if homes else None  # None: above all
    defined = {name: f.path.name for f in files for name in f.defines}
    unwritten = set(structs) - {struct for f in files for struct, _ in f.writes}
    if len(unwritten) * 4 > len(structs):
        sys.exit(f"{folder.name}: nobody writes {', '.join(sorted(unwritten))}: this reads the syntax tree wrongly")
    errors = []
    for f in files:
        name, home = f.path.name, owner[f.path.name]
        for call in sorted(f.calls):
            other = owner.get(defined.get(call), home)
            if home and other != home and other not in below[home]:
                errors.append(f"{folder.name}/{name} calls {call} of {defined[call]}, whose header is none of those that {home}.h includes")
        for (struct, field), line in f.writes.items():
            header, writers, owner_too = structs.get(struct, (None, None, None))
            if header and name not in writers and not (owner_too and header == home):
                errors.append(f"{folder.name}/{name}:{line} writes {field} of {struct}, which is {header}.h's")
    return errors, len(files)


def main():
    sys.setrecursionlimit(100000)
    errors, count = [], 0
    for header in STATES:
        folder, state = header.split("/")
        found, files = check(ROOT / folder, state, pathlib.Path(sys.argv[1]).resolve())
        errors += found
        count += files
    for error in errors:
        print(error)
    print(f"{count} files, {len(errors)} write or call what they may not")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
