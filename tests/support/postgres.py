"""A throw-away PostgreSQL server: its data and its Unix socket in a private folder, no TCP port, run by an
unprivileged user (the server refuses root), stopped at the end."""
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

USER = "kiln"


def programs():
    """The folder of the newest server that is installed; None when there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    return pathlib.Path(found[-1]).parent if found else None


def is_installed():
    return programs() is not None


class Server:
    def __enter__(self):
        self.bin = programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-pg-", dir="/tmp"))  # short: a socket's path is limited
        self.owner = {}
        if os.geteuid() == 0:
            somebody = pwd.getpwnam("nobody")
            self.owner = {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": []}
            os.chown(self.folder, somebody.pw_uid, somebody.pw_gid)
        try:
            self.run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale", "--no-sync")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if (self.folder / "data/postmaster.pid").exists():
            self.run("pg_ctl", "stop", "--mode=immediate", "--silent")
        shutil.rmtree(self.folder)

    def run(self, name, *argv):
        done = subprocess.run([self.bin / name, "--pgdata", self.folder / "data", *argv], **self.owner, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=name != "pg_ctl",
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
        assert done.returncode == 0, f"{name}: {done.stderr}"

    def start(self):
        self.run("pg_ctl", "start", "--silent", "--wait", "--log", self.folder / "log", "--options",
                 f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'")

    def kill(self):
        """As if its machine lost power, but for the page cache: every process of it gets SIGKILL."""
        for child in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self):
        return int((self.folder / "data/postmaster.pid").read_text().split()[0])

    def address(self, database):
        return f"postgres://{USER}@/{database}?host={urllib.parse.quote(str(self.folder), safe='')}"

    def psql(self, statement, database="postgres"):
        done = subprocess.run([self.bin / "psql", "--no-psqlrc", "-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement,
                               self.address(database)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def create(self, database):
        self.psql(f"CREATE DATABASE {database}")
