"""Compiles one changed file as the build does, links programs with it in the place of the sound one, and runs them."""
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading

WALL_S = 60  # beside the processor's time, for what waits without end


class Program:
    """A test of the build folder: how it is linked and run."""

    def __init__(self, path, name, arguments, folder, environment):
        self.path, self.name, self.arguments, self.folder, self.environment = path, name, arguments, folder, environment
        self.command, self.defines, self.cpu_s = None, None, None


class Build:
    def __init__(self, source, build):
        self.source, self.build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
        self.place = self.build / "mutate"
        self.place.mkdir(exist_ok=True)
        self.scratch = tempfile.TemporaryDirectory(dir=self.place, prefix="run-")  # another run may be under way
        linker, named = shutil.which("ld.lld-19"), self.place / "ld.lld"  # many times as fast as cc's own
        if linker and not named.exists():
            named.symlink_to(linker)
        self.link_options = ["-Wl,--strip-debug"] + (["-fuse-ld=lld", f"-B{self.place}"] if linker else [])
        self.ninja("build.ninja")  # a file may have been added
        self.compile = {}
        for row in json.loads((self.build / "compile_commands.json").read_text()):
            file = os.path.relpath(os.path.normpath(os.path.join(row["directory"], row["file"])), self.source)
            self.compile[file] = (shlex.split(row["command"]), row["output"])

    def make(self, argv):
        return subprocess.run(argv, cwd=self.build, capture_output=True, text=True)

    def ninja(self, *argv):
        done = self.make(["ninja", *argv])
        if done.returncode:
            raise SystemExit(f"ninja {' '.join(argv)} failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return done.stdout

    def files_of(self, archive):
        """The sources of a library of the build."""
        return sorted(file for file, (_, output) in self.compile.items() if output.startswith(f"{archive}.p/"))

    def programs(self):
        """Each test whose program is the build's own and needs no other, by the path of the program."""
        done = self.make(["meson", "introspect", "--tests", str(self.build)])
        for test in json.loads(done.stdout):
            path = os.path.relpath(test["cmd"][0], self.build)
            if not path.startswith("..") and len(test["cmd"]) == 1 and "slow" not in test["suite"]:
                yield Program(path, test["name"], [], test["workdir"] or str(self.build), test["env"])

    def link(self, programs):
        """Builds programs, and learns how they are linked and what they define."""
        self.ninja(*(p.path for p in programs))
        commands = self.ninja("-t", "commands", "-s", *(p.path for p in programs)).splitlines()
        for p in programs:
            p.command = shlex.split([line for line in commands if f"-o {p.path} " in line][-1])
            p.defines = globals_of(self.build / p.path)

    def time(self, program):
        """Runs a sound program, to know how long it takes."""
        failure, program.cpu_s = self.run(program, self.build / program.path, limit_s=300)
        if failure:
            raise SystemExit(f"{program.name} fails without a mutant: {failure}")

    def object(self, file, text, folder):
        """Compiles `text` in the place of `file`; the object, or None where that does not compile."""
        argv, old_output = self.compile[file]
        argv = list(argv)
        output, changed = folder / "object.o", folder / file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_bytes(text)
        while "-MF" in argv:
            del argv[argv.index("-MF"):argv.index("-MF") + 2]
        argv = [word for word in argv if word not in ("-MD", "-g", "-Werror") and word != old_output]
        argv.remove("-MQ")
        argv[argv.index("-c") + 1] = str(changed)
        argv[argv.index("-o")] = f"-o{output}"
        # A mutant may leave something unused. Checks print the file's name, which must not tell objects apart; ccache may make it relative.
        argv += ["-w", "-g0", f"-ffile-prefix-map={folder}/=../", f"-ffile-prefix-map={os.path.relpath(folder, self.build)}/=../"]
        return output if self.make(argv).returncode == 0 else None

    def link_with(self, program, file, changed, output):
        """Links a program with the object `changed` in the place of that of `file`."""
        argv = [word for word in program.command if word != self.compile[file][1]]
        at = argv.index("-o")
        # Before the archives, so that the linker takes nothing from them that it defines.
        argv[at + 1:at + 2] = [str(output), str(changed), *self.link_options]
        done = self.make(argv)
        if done.returncode:
            raise SystemExit(f"{program.name} with a changed object does not link:\n{done.stderr[-2000:]}")

    def run(self, program, executable, limit_s):
        """Runs a test: (how it failed or None, seconds of the processor)."""
        limits = f"ulimit -c 0 -v 8000000 -f 2000000 -t {int(limit_s)}; exec \"$@\""
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as scratch, open(f"{scratch}/output", "w+b") as output:
            environment = {**os.environ, **program.environment, "TMPDIR": scratch, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
            process = subprocess.Popen(["sh", "-c", limits, "sh", str(executable), *program.arguments], cwd=program.folder, stdout=output,
                                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
            hung = threading.Timer(WALL_S + 4 * limit_s, os.killpg, (process.pid, signal.SIGKILL))
            hung.start()
            _, status, usage = os.wait4(process.pid, 0)
            hung.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode(errors="replace")
        spent = usage.ru_utime + usage.ru_stime
        if process.returncode == 0:
            return None, spent
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "it does not end", spent
        failed = [line for line in text.splitlines() if line.startswith("not ok ") or "FAILED" in line]
        how = failed[0].removeprefix("not ok ").strip() if failed else f"exit {process.returncode}"
        return how, spent


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest()


def globals_of(path):
    names = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in names.splitlines() if " T " in line}
