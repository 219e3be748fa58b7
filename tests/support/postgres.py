"""A throw-away PostgreSQL server: its data and its Unix socket in a private folder, no TCP port, run by an
unprivileged user (the server refuses root), stopped at the end."""
import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

import children  # the server ends with us

USER = "kiln"
DEADLINE_S = 300


def programs():
    """The folder of the newest server that is installed; None when there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    return pathlib.Path(found[-1]).parent if found else None


def is_installed():
    return programs() is not None


class Server:
    """`durable`: as a server stands; else without syncing, for tests that never crash it."""

    def __init__(self, durable=True):
        self.durable, self.server = durable, None

    def __enter__(self):
        self.bin = programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-pg-", dir="/tmp"))  # short: a socket's path is limited
        self.how = {"cwd": self.folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, "stdin": subprocess.DEVNULL}
        if os.geteuid() == 0:
            somebody = pwd.getpwnam("nobody")
            self.how |= {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": []}
            os.chown(self.folder, somebody.pw_uid, somebody.pw_gid)
        try:
            self.run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale", "--no-sync")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGQUIT)  # an immediate shutdown
            self.server.wait(DEADLINE_S)
        shutil.rmtree(self.folder)

    def run(self, name, *argv):
        done = subprocess.run([self.bin / name, "--pgdata", self.folder / "data", *argv], **self.how, capture_output=True)
        assert done.returncode == 0, f"{name}: {done.stderr}"

    def start(self):
        state, log = self.folder / "data/postmaster.pid", self.folder / "log"
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "on" if self.durable else "off"}
        with open(log, "ab") as out:
            self.server = subprocess.Popen([self.bin / "postgres", "-D", self.folder / "data", *(f"--{k}={v}" for k, v in settings.items())],
                                           **self.how, stdout=out, stderr=out)
        end = time.monotonic() + DEADLINE_S
        while not (state.exists() and state.read_text().rstrip().endswith("ready")):
            assert self.server.poll() is None and time.monotonic() < end, f"the server does not start: {log.read_text()[-2000:]}"
            time.sleep(0.01)

    def kill(self):
        """As if its machine lost power, but for the page cache: every process of it gets SIGKILL."""
        pid = self.server.pid
        os.kill(pid, signal.SIGSTOP)  # or it starts others for those that die
        while " T " not in pathlib.Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)
        all_of_it = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() + [str(pid)]
        for process in all_of_it:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        while any(pathlib.Path(f"/proc/{process}/fd/0").exists() for process in all_of_it):
            time.sleep(0.01)  # the next one refuses to start beside them
        for lock in [self.folder / "data/postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")]:
            lock.unlink()
        self.server.wait()

    def address(self, database):
        return f"postgres://{USER}@/{database}?host={urllib.parse.quote(str(self.folder), safe='')}"

    def psql(self, statement, database="postgres"):
        done = subprocess.run([self.bin / "psql", "--no-psqlrc", "-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement,
                               self.address(database)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def create(self, database):
        self.psql(f"CREATE DATABASE {database}")
