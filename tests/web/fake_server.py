#!/usr/bin/env python3
"""A server with the routes of decision 146 over made-up data (made_up.py), for tests of the dashboard and to look at it without
a fleet: python3 tests/web/fake_server.py prints the link to open. It serves web/pages with the same headers as kiln-web.

usage: fake_server.py [--boards N] [--trials N] [--changes N] [--plain-names] [--port N]
"""
import argparse
import hashlib
import http.server
import json
import pathlib
import re
import signal
import sys
import threading
import urllib.parse

from made_up import HOSTILE, Lab

PAGES = pathlib.Path(__file__).resolve().parents[2] / "web/pages"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
CSP = "default-src 'self'; style-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
TOKEN, CSRF, COOKIE = "kiln-ana-0123456789abcdef", "csrf-of-ana", "kiln=session-of-ana"
EVENT_S = 0.25


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


def to_json(value):
    return json.dumps(value, separators=(",", ":")).encode()


def page(items, query):
    offset, limit = int(query.get("offset", 0)), min(int(query.get("limit", 100)), 1000)
    return {"total": len(items), "items": items[offset:offset + limit]}


def find(rows, member, value):
    for row in rows:
        if row[member] == value:
            return row
    raise Refused(404, "NOT_FOUND", f"nothing is called {value}")


class Fake:
    """The routes. Each gets the words of its path, the query and the body; it gives what is answered as JSON."""

    def __init__(self, lab, missing=()):
        self.lab, self.missing, self.uploads, self.asked, self.encoded = lab, missing, {}, [], {}
        self.refused_once = {}  # the next question of that method and path: (status, code, message)
        self.routes = [(method, re.compile(f"^{pattern}$"), getattr(self, name)) for method, pattern, name in ROUTES]

    def answer(self, method, path, query, body, headers):
        self.asked.append((method, path, query, body if isinstance(body, dict) else None))
        if path.split("/")[0] in self.missing or path in self.missing:
            raise Refused(404, "NOT_FOUND", f"there is no {path}")
        if (method, path) in self.refused_once:
            raise Refused(*self.refused_once.pop((method, path)))
        for wanted, pattern, run in self.routes:
            match = pattern.match(path)
            if match and wanted == method:
                return run(*map(urllib.parse.unquote, match.groups()), query=query, body=body, headers=headers)
        raise Refused(404, "NOT_FOUND", f"there is no {path}")

    def me(self, **_):
        return {"person": "ana", "admin": True, "csrf": CSRF, "projects": [{"project": "vision", "role": "admin"}, {"project": "students", "role": "viewer"}], "version": "0.1.0"}

    def boards(self, query, **_):
        return page(self.lab.boards, query)

    def board(self, node, **_):
        return self.lab.board_shown(find(self.lab.boards, "node", node))

    def drift(self, node, **_):
        return self.lab.drift(find(self.lab.boards, "node", node))

    def log(self, node, query, **_):
        find(self.lab.boards, "node", node)
        return self.lab.log(int(query.get("since", 0)))

    def order(self, node, action, body, **_):
        row = find(self.lab.boards, "node", node)
        row.update(state={"drain": "drained", "quarantine": "quarantined", "release": "free"}[action], text=body["reason"])
        return self.lab.board_shown(row)

    def jobs(self, query, **_):
        return page(self.lab.jobs, query)

    def job(self, job, **_):
        return self.lab.job_shown(find(self.lab.jobs, "job", job))

    def job_trials(self, job, query, **_):
        key = (job, int(query.get("since", 0)), int(query.get("limit", 1000)))
        if key not in self.encoded:  # 10^5 rows take this server longer than the page
            self.encoded[key] = to_json(self.lab.job_trials(find(self.lab.jobs, "job", job), *key[1:]))
        return self.encoded[key]

    def job_order(self, job, action, body, **_):
        row = find(self.lab.jobs, "job", job)
        row.update({"state": "cancelled", "text": body.get("reason")} if action == "cancel" else {"priority": body["priority"]})
        return row

    def queue(self, **_):
        return self.lab.queue()

    def records(self, kind, query, **_):
        rows = self.lab.records(query.get("target", ""))
        if kind == "stats":
            return page(self.lab.stats(), query)
        if kind == "compare":
            return {"items": self.lab.compare(query.get("a"), query.get("b"))}
        return page(sorted(rows, key=lambda row: row["median_ns"]), query)

    def task(self, key, **_):
        task = self.lab.task(key)
        if task is None:
            raise Refused(404, "NOT_FOUND", f"no task is called {key}")
        return task

    def task_trials(self, key, query, **_):
        return self.lab.task_trials(key, int(query.get("since", 0)))

    def trial(self, trial, **_):
        return self.lab.trial(trial)

    def program(self, trial, form, **_):
        return self.lab.program(trial, form)

    def cost_model(self, query, **_):
        return self.lab.cost_model(query.get("target"), query.get("task"))

    def roofline(self, query, **_):
        return self.lab.roofline(query["target"])

    def inspect(self, digest, **_):
        return {"items": self.lab.module()}

    def begin_upload(self, headers, **_):
        name = f"upload-{len(self.uploads)}"
        self.uploads[name] = (b"", int(headers["Upload-Length"]))
        return {"id": name, "offset": 0, "size": int(headers["Upload-Length"])}

    def put_upload(self, name, body, headers, **_):
        got, size = self.uploads[name]
        if int(headers["Upload-Offset"]) != len(got):
            raise Refused(409, "ABORTED", f"the upload has {len(got)} bytes")
        self.uploads[name] = (got + body, size)
        done = len(got + body)
        return {"id": name, "offset": done, "size": size, **({"blob": hashlib.sha256(got + body).hexdigest()} if done == size else {})}

    def show_upload(self, name, **_):
        got, size = self.uploads[name]
        return {"id": name, "offset": len(got), "size": size}

    def open_job(self, body, **_):
        if body["target"] == "abacus":
            raise Refused(400, "INVALID_ARGUMENT", "there is no target abacus")
        return {**self.lab.jobs[len([1 for method, path, *_ in self.asked if (method, path) == ("POST", "jobs")])], "model_name": body.get("name", "")}

    def compile(self, body, **_):
        return self.compiled("c1")

    def compiled(self, name, **_):
        module = [line for line in self.lab.module() if line["event"] == "module"][0]
        return {"id": name, "state": "running", "targets": [
            {"target": "native", "state": "done", "job": self.lab.jobs[3]["job"], "module": "0" * 64, "bytes": module["bytes"]}, {"target": self.lab.jobs[0]["target"], "state": "waiting", "job": self.lab.jobs[0]["job"], "position": 2}, {"target": "rpi4", "state": "failed", "job": "", "error": {"code": "UNIMPLEMENTED", "message": HOSTILE[0]}}]}


NODE = r"([^/]+)"
ROUTES = [
    ("GET", "me", "me"), ("GET", "boards", "boards"), ("GET", f"boards/{NODE}", "board"), ("GET", f"boards/{NODE}/drift", "drift"), ("GET", f"boards/{NODE}/log", "log"),
    ("POST", f"boards/{NODE}/(drain|quarantine|release)", "order"), ("GET", "jobs", "jobs"), ("GET", f"jobs/{NODE}", "job"), ("GET", f"jobs/{NODE}/trials", "job_trials"),
    ("POST", f"jobs/{NODE}/(cancel|priority)", "job_order"), ("GET", "queue", "queue"), ("GET", "records/(best|top|history|stats|compare)", "records"), ("GET", f"tasks/{NODE}", "task"),
    ("GET", f"tasks/{NODE}/trials", "task_trials"), ("GET", f"trials/{NODE}", "trial"), ("GET", f"trials/{NODE}/(trace|words|loops|assembly)", "program"), ("GET", "cost-model", "cost_model"), ("GET", "roofline", "roofline"),
    ("GET", f"modules/{NODE}/inspect", "inspect"), ("POST", "uploads", "begin_upload"), ("GET", f"uploads/{NODE}", "show_upload"), ("PATCH", f"uploads/{NODE}", "put_upload"), ("POST", "jobs", "open_job"), ("POST", "compile", "compile"), ("GET", f"compile/{NODE}", "compiled"),
    ("DELETE", f"compile/{NODE}", "compiled"),
]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, content, kind, headers=()):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(content))), ("Content-Security-Policy", CSP), ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-cache"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def send_json(self, status, value, headers=()):
        self.send(status, value if isinstance(value, bytes) else to_json(value), "application/json", headers)

    def handle_any(self):
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query))
        query.update({name: values for name, values in urllib.parse.parse_qs(split.query).items() if len(values) > 1})
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if not split.path.startswith("/api/v1/"):
                return self.file(split.path)
            return self.api(split.path.removeprefix("/api/v1/"), query, content)
        except Refused as refused:
            self.send_json(refused.status, {"error": {"code": refused.code, "message": str(refused)}})

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    def file(self, path):
        name = PAGES / ("index.html" if path == "/" else path.lstrip("/"))
        if PAGES not in name.resolve().parents or not name.is_file():
            raise Refused(404, "NOT_FOUND", f"there is no {path}")
        self.send(200, name.read_bytes(), TYPES.get(name.suffix, "application/octet-stream"))

    def api(self, path, query, content):
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        body = json.loads(content) if is_json and content else content
        if path == "session":
            return self.session(body)
        if COOKIE not in self.headers.get("Cookie", ""):
            raise Refused(401, "UNAUTHENTICATED", "sign in first")
        if self.command != "GET" and self.headers.get("X-Kiln-CSRF") != CSRF:
            raise Refused(403, "PERMISSION_DENIED", "the header X-Kiln-CSRF is missing or wrong")
        if path == "events":
            return self.events()
        answer = self.server.fake.answer(self.command, path, query, body, self.headers)
        return self.send(200, answer.encode(), "text/plain; charset=utf-8") if isinstance(answer, str) else self.send_json(200, answer)

    def session(self, body):
        if self.command == "DELETE":
            return self.send_json(200, {}, [("Set-Cookie", f"{COOKIE}; Max-Age=0; HttpOnly; SameSite=Strict; Path=/")])
        if body.get("token") != TOKEN:
            raise Refused(401, "UNAUTHENTICATED", "the token is wrong or has expired")
        return self.send_json(200, self.server.fake.me(), [("Set-Cookie", f"{COOKIE}; HttpOnly; SameSite=Strict; Path=/")])

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.close_connection = True
        self.write(f"event: boards\ndata: {json.dumps({'seq': 0, 'all': True, 'rows': self.server.fake.lab.boards[:20], 'gone': []})}\n\n")
        while not self.server.stopped.wait(EVENT_S):
            if self.server.changes:
                change = self.server.fake.lab.change(self.server.changes)
                if not self.write(f"id: {change['seq']}\nevent: boards\ndata: {json.dumps(change)}\n\n"):
                    return

    def write(self, text):
        try:
            self.wfile.write(text.encode())
            self.wfile.flush()
            return True
        except OSError:
            return False


class Server(http.server.ThreadingHTTPServer):
    """Serves until stop(). `changes`: boards that change per event; 0: none do."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, lab, port=0, changes=0, missing=()):
        super().__init__(("127.0.0.1", port), Handler)
        self.fake, self.changes, self.stopped = Fake(lab, missing), changes, threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        self.link = f"{self.url}#token={TOKEN}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that was left does not wait for its answers
            super().handle_error(request, client_address)

    def stop(self):
        self.stopped.set()
        self.shutdown()
        self.server_close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--changes", type=int, default=20, help="boards that change per event")
    parser.add_argument("--plain-names", action="store_true", help="no hostile names")
    options = parser.parse_args()
    server = Server(Lab(options.boards, trials=options.trials, hostile=not options.plain_names), options.port, options.changes)
    print(server.link, flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
