"""Runs functions named test_* as TAP, with what they share: the built programs, a private home and folder per
test, children that are gone afterwards. No fixed ports, no network beyond loopback, no sleeps: waiting is
polling for a condition with a deadline that only a broken build reaches."""
import codecs
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

PROGRAMS = pathlib.Path(os.environ["KILN_BIN"])  # the build folder
DEADLINE_S = 120


def program(name):
    folder = {"kiln": "cli", "kiln-tracker": "tracker", "kiln-tuner": "tuner", "kiln-rpc-server": "rpc-server"}[name]
    return str(PROGRAMS / folder / name)


def until(condition, what):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen in {DEADLINE_S} s")


class Terminal:
    """A program on a terminal of its own: what it shows, and keys typed."""

    def __init__(self, argv, env, cwd, columns=100, rows=20):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], argv, {**env, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self):
        """Takes in what is there; False at the end."""
        if select.select([self.fd], [], [], 0.05)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # what Linux says when the other end is closed
                data = b""
            self.shown += self.decoder.decode(data)
            return bool(data)
        return True

    def until(self, condition, what):
        until(lambda: not self.read() or condition(self.shown), what)
        assert condition(self.shown), f"{what} did not happen: {self.shown!r}"

    def type(self, keys):
        os.write(self.fd, keys)

    def wait(self):
        until(lambda: not self.read(), "the end")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Skip(Exception):
    """What the test needs is not here; says what."""


class World:
    """A folder, a KILN_HOME in it, and the programs started in it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-e2e-"))
        self.home = self.folder / "home"
        (self.folder / "tmp").mkdir()
        self.env = {**os.environ, "KILN_HOME": str(self.home), "TMPDIR": str(self.folder / "tmp")}
        self.children = []

    def path(self, name):
        return str(self.folder / name)

    def run(self, *argv, ok=True, name="kiln", timeout=DEADLINE_S):
        done = subprocess.run([program(name), *map(str, argv)], env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout)
        if ok and done.returncode != 0:
            raise AssertionError(f"{name} {' '.join(map(str, argv))} ended with {done.returncode}: {done.stderr}")
        return done

    def json(self, *argv):
        """All JSON lines that a command prints."""
        return [json.loads(line) for line in self.run(*argv, "--json").stdout.splitlines()]

    def refused(self, *argv, says, name="kiln"):
        """The command must end with an error of one line that contains `says`."""
        done = self.run(*argv, ok=False, name=name)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        assert done.returncode not in (0, -signal.SIGABRT, -signal.SIGSEGV), f"{argv} ended with {done.returncode}"
        assert lines and any(says in line for line in lines), f"{argv}: '{says}' is not in {done.stderr!r}"
        assert not list((self.folder / "tmp").iterdir()), f"{argv} left {list((self.folder / 'tmp').iterdir())}"
        return done

    def terminal(self, *argv, **size):
        return Terminal([program("kiln"), *map(str, argv)], self.env, self.folder, **size)

    def left_nothing(self):
        assert not list((self.folder / "tmp").iterdir()), f"left {list((self.folder / 'tmp').iterdir())}"
        assert not processes_with(str(self.folder)), processes_with(str(self.folder))

    def start(self, name, *argv, before=None):
        log = open(self.path(f"{name}.{len(self.children)}.log"), "w")
        child = subprocess.Popen([program(name), *map(str, argv)], env=self.env, cwd=self.folder, stdout=log, stderr=log,
                                 start_new_session=True, preexec_fn=before)
        self.children.append(child)
        return child

    def tracker(self):
        """Starts one on a port of its choice; returns it and its address."""
        port = self.folder / f"port.{len(self.children)}"
        child = self.start("kiln-tracker", "--listen", "127.0.0.1:0", "--port-file", port)
        until(lambda: port.exists() or child.poll() is not None, "the tracker listening")
        assert child.poll() is None, "the tracker ended"
        return child, f"127.0.0.1:{port.read_text().strip()}"

    def tuner(self, address, db="tuner.db"):
        return self.start("kiln-tuner", "--tracker", address, "--db", self.path(db), "--builders", 1)

    def board(self, address, key="board", state=None, before=None):
        """`state`: a folder of its own, for a second board; `before` is called in its process first."""
        own = ["--state", self.path(state)] if state else []
        return self.start("kiln-rpc-server", "--tracker", address, "--key", key, *own, before=before)

    def sql(self, db, statement):
        return [line.split("\t") for line in self.run("db", "sql", statement, "--db", self.path(db)).stdout.splitlines()]

    def zoo(self, name):
        file = self.path(name.replace(":", "_") + ".onnx")
        self.run("zoo", name, "-o", file)
        return file

    def close(self):
        for child in self.children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def processes_with(text):
    """Command lines of living processes that contain `text`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


def main(module):
    tests = [(n, f) for n, f in vars(module).items() if n.startswith("test_")]
    wanted = sys.argv[1:]
    tests = [(n, f) for n, f in tests if not wanted or any(w in n for w in wanted)]
    print(f"1..{len(tests)}")
    failed = 0
    for number, (name, function) in enumerate(tests, 1):
        world = World()
        try:
            function(world)
            print(f"ok {number} - {name[5:]}")
        except Skip as reason:
            print(f"ok {number} - {name[5:]} # SKIP {reason}")
        except Exception:
            failed += 1
            print(f"not ok {number} - {name[5:]}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            for log in sorted(world.folder.glob("*.log")):
                for line in log.read_text(errors="replace").splitlines()[-5:]:
                    print(f"# {log.name}: {line}")
        finally:
            world.close()
        sys.stdout.flush()
    return 1 if failed else 0
