"""Runs functions named test_* as TAP, with what they share: the built programs, a private home and folder per
test, children that are gone afterwards. No fixed ports, no network beyond loopback, no sleeps: waiting is
polling for a condition with a deadline that only a broken build reaches, however busy the machine is."""
import codecs
import fcntl
import json
import os
import pathlib
import pty
import re
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

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))  # for whoever imports this from elsewhere
from children import ends_with_us

PROGRAMS = pathlib.Path(os.environ["KILN_BIN"])  # the build folder
DEADLINE_S = 900
SHOWN, SHOWN_OF_LOG = 600, (6, 240)  # characters of an assertion's text that a failure shows; lines, characters of logs


def program(name):
    """Path of one of our programs; a path stays what it is."""
    if "/" in str(name):
        return str(name)
    folder = {"kiln": "cli", "kiln-tracker": "tracker", "kiln-tuner": "tuner", "kiln-rpc-server": "rpc-server", "kiln-web": "web"}[name]
    return str(PROGRAMS / folder / name)


def until(condition, what):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {DEADLINE_S} s")


class Terminal:
    """A program on a terminal of its own: what it shows, and keys typed."""

    def __init__(self, argv, env, cwd, columns=100, rows=20, term="xterm"):
        self.shown = ""
        prepare = ends_with_us()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            prepare()
            os.chdir(cwd)
            os.execve(argv[0], argv, {**env, "TERM": term, "LC_ALL": "C.UTF-8"})
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
        assert condition(self.shown), f"{what} did not happen: {self.shown[-SHOWN:]!r}"

    def type(self, keys):
        os.write(self.fd, keys)

    def ends(self, code):
        """Waits for the end of the program, which must be this one."""
        until(lambda: not self.read(), "the end")
        os.close(self.fd)
        got = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert got == code, f"it ended with {got}, not {code}: {self.shown[-SHOWN:]!r}"


class Skip(Exception):
    """What the test needs is not here; says what."""


class World:
    """A folder, a KILN_HOME in it, and the programs started in it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-e2e-"))
        self.home = self.folder / "home"
        (self.folder / "tmp").mkdir()
        (self.folder / "driver").mkdir()
        self.env = {**os.environ, "KILN_HOME": str(self.home), "KILN_CALIBRATION": "none", "KILN_CONFIG": "none", "NO_COLOR": "", "TMPDIR": str(self.folder / "tmp"),
                    "POCL_CACHE_DIR": str(self.folder / "driver")}
        self.children = []

    def path(self, name):
        return str(self.folder / name)

    def run(self, *argv, ok=True, name="kiln", timeout=DEADLINE_S):
        done = subprocess.run([program(name), *map(str, argv)], env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout, start_new_session=True)
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

    def terminal(self, *argv, env=None, **size):
        return Terminal([program("kiln"), *map(str, argv)], {**self.env, **(env or {})}, self.folder, **size)

    def left_nothing(self):
        until(lambda: not processes_with(str(self.folder)), "the end of what was started")  # the last ones die with their parents
        assert not list((self.folder / "tmp").iterdir()), f"left {list((self.folder / 'tmp').iterdir())}"

    def start(self, name, *argv, before=None, home=None):
        """Starts a program whose output goes to a file, child.log. `before` is called in its process first; `home`:
        a KILN_HOME of its own, as on another machine."""
        path = self.folder / f"{pathlib.Path(name).name}.{len(self.children)}.log"
        env = {**self.env, "KILN_HOME": self.path(home)} if home else self.env
        with open(path, "w") as log:
            child = subprocess.Popen([program(name), *map(str, argv)], env=env, cwd=self.folder, stdout=log, stderr=log,
                                     start_new_session=True, preexec_fn=before)
        child.log = path
        self.children.append(child)
        return child

    def tracker(self, *options, address="127.0.0.1:0", home=None):
        """Starts one, by default on a port of its choice; returns it and its address once it listens."""
        port = self.folder / f"port.{len(self.children)}"
        child = self.start("kiln-tracker", "--listen", address, "--port-file", port, *options, home=home)
        until(lambda: port.exists() or child.poll() is not None, "the tracker listening")
        assert child.poll() is None, "the tracker ended"
        return child, re.sub(":0$", f":{port.read_text().strip()}", address)

    def tuner(self, address, *options, db=None, home=None, wait=True):
        """Starts one, and waits until it is connected unless that may never happen."""
        child = self.start("kiln-tuner", "--tracker", address, "--db", db or self.path("tuner.db"), "--builders", 1, *options,
                           home=home)
        return connected(child) if wait else child

    def board(self, address, *options, key="board", state=None, before=None, wait=True, name="kiln-rpc-server"):
        """The same. `state`: a folder of its own, for a second board. `name`: another program that is a board."""
        own = ["--state", self.path(state)] if state else []
        child = self.start(name, "--tracker", address, "--key", key, *own, *options, before=before)
        return connected(child) if wait else child

    def fleet(self):
        """A tracker, a board and a tuner that have found each other: (tracker, address, board, tuner)."""
        tracker, address = self.tracker()
        return tracker, address, self.board(address), self.tuner(address)

    def tune(self, model, address, trials, db="client.db"):
        """Starts `kiln tune`."""
        return self.start("kiln", "tune", model, "--trials", trials, "--tracker", address, "--db", self.path(db), "--json")

    def ends(self, child, code=0):
        """Waits for the end of a program that must end so."""
        got = child.wait(timeout=DEADLINE_S)
        assert got == code, f"{child.log.name[:-4]} ended with {got}, not {code}"

    def kill(self, child):
        """kill -9 of the program and what it started."""
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def sql(self, db, statement):
        """Rows of a statement, without the names of the columns."""
        return [line.split("\t") for line in self.run("db", "sql", statement, "--db", self.path(db)).stdout.splitlines()[1:]]

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


def connected(child):
    until(lambda: "connected to the tracker" in child.log.read_text() or child.poll() is not None, f"{child.log.name[:-4]} connecting")
    assert child.poll() is None, f"{child.log.name[:-4]} ended"
    return child


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


def processes_of(folder, program=""):
    """Command lines of living programs of that name, or of any, whose environment has the folder of their world."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if folder.encode() in environment and program in pathlib.Path(os.fsdecode(command.split(b"\0")[0])).name:
                found.append(os.fsdecode(command.replace(b"\0", b" ")))
    return found


def explain(error, world):
    """What a reader needs of a failure, and no more: what failed, where in the test, and the programs' last words."""
    text = f"{type(error).__name__}: {error}"
    lines = [text[:SHOWN] + (f" ... and {len(text) - SHOWN} characters more" if len(text) > SHOWN else "")]
    lines += [f"  {pathlib.Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}"
              for frame in traceback.extract_tb(error.__traceback__)
              if pathlib.Path(frame.filename).resolve().is_relative_to(pathlib.Path(__file__).resolve().parent)]
    for log in sorted(world.folder.rglob("*.log")):  # those of private fleets as well
        count, width = SHOWN_OF_LOG
        lines += [f"{log.name}: {line[:width]}" for line in log.read_text(errors="replace").splitlines()[-count:]]
    print("\n".join("# " + line for line in "\n".join(lines).splitlines()))


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
        except Exception as error:
            failed += 1
            print(f"not ok {number} - {name[5:]}")
            explain(error, world)
        finally:
            world.close()
        sys.stdout.flush()
    return 1 if failed else 0
