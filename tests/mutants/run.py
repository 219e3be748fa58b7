#!/usr/bin/env python3
"""Plants the faults of faults.py and leaves out the rows of its tables, one at a time, and asks whether the program
that the row names notices. TAP: one line per fault. A fault that it does not notice is a hole in the tests.

usage: run.py SOURCE-ROOT BUILD-ROOT [NAME-PART...]

Only the file concerned is compiled again, with the flags of the build; its object stands before the archives when the
program is linked, so that the linker takes it in their place. A crash and a time-out count as noticed."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(__file__))
import faults  # noqa: E402

DEADLINE_S = 20  # the sound program takes a fraction of a second
ROW = re.compile(r"^X\((\w+),.*?\).*$", re.M)


class Build:
    """The build folder: how its objects are compiled and the program is linked."""

    def __init__(self, source, build):
        self.source, self.build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
        self.place = self.build / "tests" / "mutants" / "planted"
        self.compile = {}
        for row in json.loads((self.build / "compile_commands.json").read_text()):
            file = (pathlib.Path(row["directory"]) / row["file"]).resolve()
            self.compile[file] = shlex.split(row["command"])
        self.link = {program: self.link_of(program) for program in faults.PROGRAMS}

    def link_of(self, program):
        commands = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", program], capture_output=True, text=True,
                                  check=True).stdout
        link = shlex.split([line for line in commands.splitlines() if f"-o {program} " in line][-1])
        # Nothing that the programs take from the archives generates code, and looking through LLVM takes long.
        return [word for word in link if program in faults.GENERATES or not word.startswith("-lLLVM")]

    def make(self, argv, output, inserted):
        """Runs a command of the build with another output and more arguments before its inputs."""
        at = argv.index("-o")
        argv = argv[:at] + ["-o", str(output)] + list(map(str, inserted)) + argv[at + 2:]
        done = subprocess.run(argv, cwd=self.build, capture_output=True, text=True)
        assert done.returncode == 0, f"does not build:\n{done.stderr[-2000:]}"

    def object(self, source, changed, folder):
        """Compiles `source`; `changed`, the file with the fault, stands in `folder` where includes find it first."""
        argv = list(self.compile[self.source / source])
        while "-MF" in argv:  # nobody asks what these depend on
            del argv[argv.index("-MF"):argv.index("-MF") + 2]
        where = argv.index("-c") + 1
        if source == changed:
            argv[where] = str(folder / changed)
        first = next(i for i, word in enumerate(argv) if word.startswith("-I"))
        argv.insert(first, f"-I{folder}")
        output = folder / (pathlib.Path(source).stem + ".o")
        # A fault may leave something unused, which is no error here; and the compiler need not try hard.
        argv[argv.index("-c"):argv.index("-c")] = ["-w", "-Wno-error", "-O0", "-g0"]
        self.make(argv, output, [])
        return output


def noticed(build, number, file, text, sources, name):
    """Builds the program with `file` reading `text`; tells how it noticed, or None."""
    folder = build.place / str(number)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text)
    objects = [build.object(source, file, folder) for source in sources]
    program = folder / "program"
    build.make(build.link[name], program, objects)
    return run(program)


def run(program):
    """Runs it up to its first test that fails; tells how it noticed, or None."""
    with subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}) as process:
        deadline = threading.Timer(DEADLINE_S, process.kill)
        deadline.start()
        failed = next((line.split(" - ")[1].strip() for line in process.stdout if line.startswith("not ok ")), None)
        late = not deadline.is_alive()
        deadline.cancel()
        if failed:
            process.kill()
    if late:
        return "it does not end"
    if process.returncode < 0:
        return failed or f"signal {-process.returncode}"
    assert process.returncode == 0 or failed, f"ended with {process.returncode} and no failed test"
    return failed


def planted(root):
    """All faults: (name, file, text of the file with the fault, sources to compile, program that must notice)."""
    for name, file, old, new, *program in faults.FAULTS:
        text = (root / file).read_text()
        found = list(re.finditer(r"\s+".join(map(re.escape, old.split())), text))  # wherever lines break
        changed = text[:found[0].start()] + new + text[found[0].end():] if len(found) == 1 else None
        yield name, file, changed, [file], program[0] if program else faults.PROGRAM
    for file, sources, program in faults.TABLES:
        text = (root / file).read_text()
        for row in ROW.finditer(text):
            yield f"{pathlib.Path(file).name} without {row.group(1)}", file, text.replace(row.group(0), ""), sources, program


def main(source, build, *wanted):
    build = Build(source, build)
    rows = [row for row in planted(build.source) if not wanted or any(w in row[0] for w in wanted)]
    print(f"1..{len(rows)}", flush=True)
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = [text and pool.submit(noticed, build, number, file, text, sources, program)
                   for number, (_, file, text, sources, program) in enumerate(rows, 1)]
        for number, ((name, file, *_), future) in enumerate(zip(rows, running), 1):
            try:
                assert future, f"its text does not occur exactly once in {file}"
                how = future.result()
                assert how, "no test notices"
                print(f"ok {number} - {name} # {how}", flush=True)
            except AssertionError as error:
                failures += 1
                print(f"not ok {number} - {name}", flush=True)
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
