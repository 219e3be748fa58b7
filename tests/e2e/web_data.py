"""A web server beside a tracker, for tests of what it answers from records and of its compile service."""
import json
import pathlib
import sqlite3
import urllib.error
import urllib.parse
import urllib.request

import harness

PROGRAM = harness.PROGRAMS / "web/kiln-web"


class Server:
    """kiln-web of this user. `records`: path of the database. `key`: name of a key for the tracker, to serve others."""

    def __init__(self, world, *options, records=None, key=None):
        self.world = world
        self.admin = pathlib.Path(world.path("admin.token"))
        if key:
            world.run("key", "new", "admin/boss", "--web", "-o", self.admin)
            world.run("key", "new", key, "-o", world.path("web.key"))
            options += ("--key-file", world.path("web.key"), "--trust-header", "X-Person")
        self.tracker, self.address = world.tracker()
        self.port_file = pathlib.Path(world.path("web.port"))
        self.records = records or world.path("t.db")
        self.options = options
        self.start()

    def start(self):
        self.port_file.unlink(missing_ok=True)
        self.child = self.world.start(str(PROGRAM), "--tracker", self.address, "--listen", "0", "--port-file", self.port_file, "--db",
                                      self.records, *self.options)
        harness.until(lambda: self.port_file.exists() and self.port_file.read_text() or self.child.poll() is not None, "the web server listening")
        assert self.child.poll() is None, self.child.log.read_text()
        self.base = f"http://127.0.0.1:{self.port_file.read_text().strip()}"
        self.token = (self.admin if self.admin.exists() else self.world.home / "web-token").read_text().strip()

    def stop(self):
        self.child.terminate()
        assert self.child.wait() == 0, self.child.log.read_text()

    def kill_and_start(self):
        self.child.kill()
        self.child.wait()
        self.start()

    def ask(self, method, path, body=None, headers={}, person=None, query=()):
        """(status, headers, bytes). `person`: whom a proxy has signed in; else the owner's token, or an administrator's."""
        who = {"X-Person": person} if person else {"Authorization": f"Bearer {self.token}"}
        if person and method not in ("GET", "HEAD"):
            who["X-Kiln-CSRF"] = self.get("me", person=person)["csrf"]
        query = urllib.parse.urlencode(list(query.items() if isinstance(query, dict) else query))
        request = urllib.request.Request(f"{self.base}{path}{'?' + query if query else ''}", method=method, data=body, headers={**who, **headers})
        try:
            with urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path, status=200, person=None, **query):
        got, _, body = self.ask("GET", f"/api/v1/{path}", person=person, query={k: v for k, v in query.items() if v is not None})
        assert got == status, (got, body)
        return json.loads(body)

    def refused(self, path, status, code, **query):
        error = self.get(path, status, **query)["error"]
        assert error["code"] == code, error
        return error["message"]


def tuned(world, trials, model="gemm:64x64x64", db="t.db"):
    """A database with the records of a search."""
    world.json("tune", world.zoo(model), "--trials", trials, "--db", world.path(db), "--search", "random")
    return world.path(db)


def change(db, script):
    with sqlite3.connect(db) as file:
        file.executescript(f"DROP TRIGGER record_is_not_changed; {script}")
