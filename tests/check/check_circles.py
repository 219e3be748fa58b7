#!/usr/bin/env python3
"""No files of a folder call each other in a circle. Read from the built objects: a file calls another one of its folder where its
object lacks a symbol (a function, a table) that the other's object has. What a file hands downwards as a pointer is no call."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("proto/wire", "proto/net", "proto/depot", "rpc-server", "tracker", "tuner")


def symbols_of(objects):
    """Object -> the global symbols that it has, and those that it lacks."""
    done = subprocess.run(["nm", "-A", "-g", "-P", *objects], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    has, lacks = collections.defaultdict(set), collections.defaultdict(set)
    for line in done.stdout.splitlines():
        place, row = line.rsplit(": ", 1)
        symbol, kind = row.split()[:2]
        (lacks if kind in "Uvw" else has)[place].add(symbol)
    return has, lacks


def calls_of(objects):
    """File -> file of the same folder -> symbols that it needs of that one. `objects`: object -> file that it is made of."""
    has, lacks = symbols_of(objects)
    owner = {symbol: objects[place] for place, symbols in has.items() for symbol in symbols}
    calls = collections.defaultdict(lambda: collections.defaultdict(set))
    for place, symbols in lacks.items():
        for symbol in symbols & owner.keys():
            if owner[symbol] != objects[place]:
                calls[objects[place]][owner[symbol]].add(symbol)
    return calls


def way(calls, begin, end):
    """The files on a shortest way of calls from `begin` to `end`, with both; None."""
    before, queue = {begin: None}, [begin]
    for name in queue:
        for other in sorted(calls.get(name, ())):
            if other == end:
                queue = [end, name]
                while before[queue[-1]]:
                    queue.append(before[queue[-1]])
                return queue[::-1]
            if other not in before:
                before[other] = name
                queue.append(other)
    return None


def circles_of(calls):
    """A shortest circle in each knot of files that call each other, and how many files the knot has."""
    left, found = set(calls), []
    while left:
        circles = [c for c in (way(calls, name, name) for name in sorted(left)) if c]
        if not circles:
            break
        shortest = min(circles, key=len)
        knot = {name for name in left if way(calls, shortest[0], name) and way(calls, name, shortest[0])}
        found.append((shortest, len(knot)))
        left -= knot
    return found


def describe(folder, calls):
    for circle, size in circles_of(calls):
        steps = [f"{a} calls {', '.join(sorted(calls[a][b])[:3])} of {b}" for a, b in zip(circle, circle[1:])]
        yield f"{folder}: {size} files call each other in a circle; the shortest: {'; '.join(steps)}"


def objects_of(folder, build):
    """Built object -> name of the file of this folder. A file that several programs are made of counts once for each."""
    objects, unbuilt = {}, set()
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        place = pathlib.Path(command["directory"]) / command["output"]
        if path.parent == ROOT / folder and path.suffix == ".c":
            if place.exists():
                objects[str(place)] = path.name
            else:
                unbuilt.add(path.name)
    unbuilt -= set(objects.values())
    if unbuilt:
        sys.exit(f"{folder}: build these first: {' '.join(sorted(unbuilt))}")
    return objects


def test_this():
    """Circles in made-up calls are found; so is a planted circle of three built files, and none without its last call."""
    knots = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert [(len(circle) - 1, size) for circle, size in circles_of(knots)] == [(2, 2), (3, 3)], circles_of(knots)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for closed in (False, True):
            texts = {"low.c": "extern const int *const table[1]; int low(void) { return table[0] != 0; }" if closed else "int low(void) { return 0; }",
                     "middle.c": "int low(void); int middle(void) { return low(); }",
                     "high.c": "int middle(void); static const int one = 1; const int *const table[1] = {&one}; int high(void) { return middle(); }"}
            for file, text in texts.items():
                (folder / file).write_text(text)
                subprocess.run(["cc", "-c", "-o", folder / f"{file}.o", folder / file], check=True)
            found = list(describe("planted", calls_of({str(folder / f"{file}.o"): file for file in texts})))
            assert len(found) == closed and (not closed or "3 files" in found[0] and "low.c calls table of high.c" in found[0]), found


def main():
    test_this()
    build, errors, count = pathlib.Path(sys.argv[1]).resolve(), [], 0
    for folder in FOLDERS:
        objects = objects_of(folder, build)
        errors += describe(folder, calls_of(objects)) if objects else ()
        count += len(set(objects.values()))
    for error in errors:
        print(error)
    print(f"{count} files in {len(FOLDERS)} folders, {len(errors)} circles")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
