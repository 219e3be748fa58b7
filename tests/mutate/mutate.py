#!/usr/bin/env python3
"""Makes mutants of the code that decides, and asks the unit tests and the simulator to find each.

usage: mutate.py SOURCE-ROOT BUILD-ROOT [FOLDER...] [--all] [--quick] [--only TEXT] [--again] [--list] [--verbose]

Without options it takes the same sample of every folder each time. Mutants that no test finds and that no row of mutants.txt explains,
rows that match no mutant, and rows whose mutant is found fail the run. docs/how-to/mutate.md says how to read and answer it.

    --all        each mutant of the folders, not a sample
    --quick      twenty that tests find, from as many files (./dev test)
    --only TEXT  those whose line of the list contains the text
    --again      those that the last run left unexplained
    --list       prints them, and rows of no mutant, and runs nothing
    --verbose    prints the verdict of each"""
import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import os
import pathlib
import pickle
import queue
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import building  # noqa: E402
import operators  # noqa: E402

# Folder: libraries of pure steps without some files; more files that decide; the tests that may find their mutants (None: all of
# tests/unit/FOLDER that need no other program). What is left out prints, names or transports.
Folder = collections.namedtuple("Folder", "libraries without files tests", defaults=[None])
FOLDERS = {
    "tracker": Folder(["tracker/libkiln-tracker-step.a"], {"tracker/availability.c", "tracker/effects.c", "tracker/metrics.c"}, []),
    "rpc-server": Folder(["rpc-server/libkiln-server-step.a"], {"rpc-server/effects.c"},
                         [f"rpc-server/{name}.c" for name in ("batch_plan", "child_report", "drift", "executor", "slots", "timing", "verdict")]),
    "tuner": Folder(["tuner/libkiln-tuner-step.a"], {"tuner/effects.c"}, [f"tuner/{name}.c" for name in ("final_choice", "finish", "open_tasks", "plausible", "prepare", "target_similarity", "transfer")]),
    "proto/wire": Folder(["proto/libkiln-proto.a"], {"proto/wire/docs.c", "proto/wire/print.c"}, [],
                         {f"proto/{name}" for name in ("codec", "docs", "error", "frame", "keys", "link", "print", "schema", "text", "tokens")}),
    "db": Folder([], set(), [f"db/{name}.c" for name in ("canonical", "import", "plausible", "recorded", "rows", "trust")]),
}
TOPS = ["base", "proto", "db", "tracker", "rpc-server", "tuner", "tests/mutate"]  # folders of headers that they include
# Too slow for what they find: minutes, or programs that wait for others.
LEFT_OUT = {"db/powercut", "rpc-server/gpu_hostile", "rpc-server/gpu_served", "rpc-server/vta_served", "rpc-server/helper", "tracker/audit",
            "tuner/model", "tuner/searcher"}
SAMPLE = 0.0395  # of all mutants
SEEDS = 60
QUICK = 20
SIMULATOR = "tests/sim/kiln-sim"


def weight(mutant):
    """A number from 0 to 1 that chooses samples: it depends on the mutant alone, so that edits elsewhere change nothing."""
    return int.from_bytes(hashlib.sha256(mutant.stable().encode()).digest()[:8], "big") / 2**64


def read_rows(path):
    """Identity -> reason. A row is an identity, and indented below it why no test need find this mutant."""
    rows, identity = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            rows[identity] = f"{rows[identity]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            identity = line
            if identity in rows:
                raise SystemExit(f"{path}: twice: {identity}")
            rows[identity] = ""
    for identity, reason in rows.items():
        if not reason.startswith(("equivalent: ", "speed: ", "text: ", "contract: ", "memory: ")):
            raise SystemExit(f"{path}: no reason that begins with equivalent:, speed:, text:, contract: or memory: below\n{identity}")
    return rows


def hash_of(paths):
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def read_mutants(arguments):
    """The mutants of a file, kept until it changes, or a header, or what makes them."""
    source, file, build, place, headers = arguments
    kept = place / f"{hash_of([source / file])[:16]}-{headers[:16]}"
    if not kept.exists():
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(operators.mutants_of(source, file, build)))
        written.rename(kept)
    return pickle.loads(kept.read_bytes())


def read_all_mutants(build, files, jobs):
    place = build.place / "made"
    place.mkdir(exist_ok=True)
    headers = sorted(p for pattern in ("*.h", "*.def") for top in TOPS for p in (build.source / top).rglob(pattern))
    seen = hash_of([*headers, pathlib.Path(operators.__file__)])
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        return [m for found in pool.map(read_mutants, [(build.source, file, build.build, place, seen) for file in files]) for m in found]


class Run:
    def __init__(self, build, folders, jobs, use_simulator):
        self.build, self.folders, self.jobs = build, folders, jobs
        self.files = {}  # file -> its folder
        for name, folder in folders.items():
            for file in [f for library in folder.libraries for f in build.files_of(library)] + folder.files:
                if file not in folder.without:
                    self.files[file] = name
        missing = [file for file in self.files if file not in build.compile]
        if missing:
            raise SystemExit(f"the build compiles no {', '.join(missing)}")
        self.use_simulator = use_simulator
        self.tests, self.sound, self.found_by = {}, {}, collections.Counter()
        self.text = {file: (build.source / file).read_bytes() for file in self.files}  # somebody may edit it meanwhile
        self.lock = threading.Lock()

    def in_parallel(self, function, items):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(function, items))

    def prepare(self, files):
        """Tests of the folders of these files, and the sound objects to compare with."""
        defined = {}

        def compile_sound(file):
            sound = self.build.object(file, self.text[file], pathlib.Path(self.build.scratch.name) / "sound" / file)
            if not sound:
                raise SystemExit(f"{file} does not compile")
            self.sound[file], defined[file] = building.digest(sound), building.globals_of(sound)

        self.in_parallel(compile_sound, files)
        folders = {self.files[file] for file in files}
        programs = [p for p in self.build.programs() if p.name not in LEFT_OUT and any(self.is_of(p, folder) for folder in folders)]
        if self.use_simulator:
            programs.append(building.Program(SIMULATOR, "simulator", ["--stop", str(SEEDS)], str(self.build.build), {}))
        self.build.link(programs)
        for file in files:
            self.tests[file] = [p for p in programs if (p.path == SIMULATOR or self.is_of(p, self.files[file])) and defined[file] & p.defines]
            if not self.tests[file]:
                raise SystemExit(f"no test links {file}")
        self.in_parallel(self.build.time, {p.path: p for tests in self.tests.values() for p in tests}.values())

    def is_of(self, program, folder):
        tests = self.folders[folder].tests
        return program.name in tests if tests else program.path.startswith((f"tests/unit/{folder}/", f"{folder}/"))

    def order(self, file):
        """The test of the same name first, then what found most of this file, then the quickest; the simulator last."""
        stem = pathlib.Path(file).stem
        with self.lock:
            return sorted(self.tests[file], key=lambda p: (p.path == SIMULATOR, p.name.split("/")[-1] != stem, -self.found_by[file, p.name], p.cpu_s))

    def judge(self, mutant, folder):
        """(verdict, how): `invalid`, `same`, the name of the test that finds it, or `survives`."""
        changed = self.build.object(mutant.file, mutant.apply(self.text[mutant.file]), folder)
        if not changed:
            return "invalid", None
        if building.digest(changed) == self.sound[mutant.file]:
            return "same", None
        for program in self.order(mutant.file):
            executable = folder / "program"
            self.build.link_with(program, mutant.file, changed, executable)
            how, _ = self.build.run(program, executable, max(5, 10 * program.cpu_s))
            if how:
                with self.lock:
                    self.found_by[mutant.file, program.name] += 1
                return program.name, how
        return "survives", None

    def judge_all(self, mutants, report):
        places = queue.Queue()
        for number in range(self.jobs):
            place = pathlib.Path(self.build.scratch.name) / str(number)
            place.mkdir(exist_ok=True)
            places.put(place)

        def one(mutant):
            place = places.get()
            try:
                verdict = self.judge(mutant, place)
            finally:
                places.put(place)
            report(mutant, verdict)
            return verdict

        return self.in_parallel(one, mutants)


def choose(mutants, rows, options, build):
    if options.only:
        return [m for m in mutants if options.only in m.identity()]
    if options.again:
        last = set((build.place / "unexplained.txt").read_text().splitlines())
        return [m for m in mutants if m.identity() in last]
    if options.quick:
        best = {}
        for mutant in mutants:
            if mutant.identity() not in rows and weight(mutant) < SAMPLE:
                best[mutant.file] = min(best.get(mutant.file, mutant), mutant, key=weight)
        return sorted(best.values(), key=weight)[:QUICK]
    return [m for m in mutants if options.all or weight(m) < SAMPLE or m.identity() in rows]


def quick_files(files):
    """Twenty files in which the same ones are chosen as long as none is added."""
    return sorted(files, key=lambda file: hashlib.sha256(pathlib.Path(file).stem.encode()).digest())[:QUICK + 10]


def lost_rows(made, rows, folders):
    known = {m.identity() for m in made}
    return [row for row in rows if row not in known and row.startswith(tuple(f"{folder}/" for folder in folders))]


def show(mutant, source):
    lines = list(difflib.unified_diff(source.decode().splitlines(), mutant.apply(source).decode().splitlines(), n=0, lineterm=""))
    print(f"{mutant.file}:{mutant.line}: survives in {mutant.function}")
    for line in lines[3:]:
        if line not in ("+", "-") and not line.startswith("@@"):
            print(f"    {line}")
    print(f"  row: {mutant.identity()}", flush=True)


def run(build, folders, rows, options, use_simulator=True):
    """Prints survivors and what is wrong with the rows; returns the exit code."""
    began = time.monotonic()
    work = Run(build, folders, options.jobs, use_simulator)
    files = sorted(work.files)
    made = read_all_mutants(build, quick_files(files) if options.quick else files, options.jobs)
    chosen = choose(made, rows, options, build)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.line}: {mutant.identity()}")
        lost = lost_rows(made, rows, folders)
        print("".join(f"the row of no mutant: {row}\n" for row in lost) + f"{len(chosen)} of {len(made)} mutants")
        return 1 if lost else 0
    work.prepare(sorted({m.file for m in chosen}))
    done = 0

    def report(mutant, verdict):
        nonlocal done
        with work.lock:
            done += 1
            if options.verbose:
                print(f"{verdict[0]:20} {mutant.identity()}{'  # ' + verdict[1] if verdict[1] else ''}", flush=True)
            elif done % 50 == 0:
                print(f"{done} of {len(chosen)} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    verdicts = work.judge_all(chosen, report)
    count, unexplained, wrong = collections.Counter(), [], []
    for mutant, (verdict, _) in zip(chosen, verdicts):
        identity = mutant.identity()
        if verdict == "survives":
            if identity in rows:
                count["explained"] += 1
            else:
                unexplained.append(mutant)
        else:
            if identity in rows:
                wrong.append(f"the row of a mutant that {'is the same code' if verdict == 'same' else 'does not compile' if verdict == 'invalid' else f'{verdict} finds'}: {identity}")
            count["simulator" if verdict == "simulator" else verdict if verdict in ("same", "invalid") else "unit"] += 1
    if not options.quick:
        wrong += [f"the row of no mutant: {row}" for row in lost_rows(made, rows, folders)]
    if not options.only:
        (build.place / "unexplained.txt").write_text("".join(f"{m.identity()}\n" for m in unexplained))
    for mutant in unexplained:
        show(mutant, work.text[mutant.file])
    for line in wrong:
        print(line)
    judged = len(chosen) - count["same"] - count["invalid"]
    print(f"{judged} mutants ({count['same']} of the same code and {count['invalid']} that do not compile left out): {count['unit']} found by unit tests, "
          f"{count['simulator']} by the simulator, {count['explained']} explained, {len(unexplained)} unexplained"
          + (f", {len(wrong)} wrong rows" if wrong else "") + f"; {time.monotonic() - began:.0f} s")
    return 1 if unexplained or wrong or not judged else 0


def main():
    parser = argparse.ArgumentParser(description="Makes mutants of the code that decides and asks the tests to find each.")
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("folder", nargs="*", help=f"of {', '.join(FOLDERS)}; all where none is given")
    parser.add_argument("--all", action="store_true", help="each mutant of the folders, not a sample")
    parser.add_argument("--quick", action="store_true", help="twenty that tests find, from as many files")
    parser.add_argument("--only", metavar="TEXT", help="those whose line of the list contains TEXT")
    parser.add_argument("--again", action="store_true", help="those that the last run left unexplained")
    parser.add_argument("--list", action="store_true", help="print them and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print the verdict of each")
    parser.add_argument("--jobs", type=int, default=2, help="that many at a time (2)")
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.folder if name not in FOLDERS]
    if unknown:
        parser.error(f"folders: {', '.join(FOLDERS)}")
    folders = {name: folder for name, folder in FOLDERS.items() if not options.folder or name in options.folder}
    rows = read_rows(pathlib.Path(__file__).parent / "mutants.txt")
    sys.exit(run(building.Build(options.source, options.build), folders, rows, options))


if __name__ == "__main__":
    main()
