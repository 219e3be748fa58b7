#!/usr/bin/env python3
"""kiln-web with a real tracker, board and tuner: what it answers, who may do what, and hostile clients."""
import http.client
import json
import os
import pathlib
import queue
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import types
import urllib.error
import urllib.parse
import urllib.request

import harness
from harness import until
from web_data import PROGRAM, Server

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx"
HOSTILE = "<img src=x onerror=alert(1)>\"'`${7*7}"


def add_token(world, name):
    file = pathlib.Path(world.path(name.replace("/", "_") + ".token"))
    world.run("key", "new", name, "--web", "-o", file)
    return file.read_text().strip()


def ask(server, method, path, body=None, headers={}, token=None):
    """(status, headers, bytes)"""
    request = urllib.request.Request(server.base + path, method=method, data=body, headers={"Authorization": f"Bearer {token or server.token}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def post(server, path, body=None, token=None):
    """(status, object)"""
    status, _, answer = ask(server, "POST", f"/api/v1/{path}", json.dumps(body or {}).encode(), {"Content-Type": "application/json"}, token)
    return status, json.loads(answer)


def get(server, path, token=None):
    status, _, answer = ask(server, "GET", f"/api/v1/{path}", token=token)
    return status, json.loads(answer)


class Events:
    """Reads server-sent events on a thread."""

    def __init__(self, server, topics, last=None):
        headers = {"Authorization": f"Bearer {server.token}", **({"Last-Event-ID": last} if last else {})}
        self.answer = urllib.request.urlopen(urllib.request.Request(f"{server.base}/api/v1/events?topics={topics}", headers=headers), timeout=harness.DEADLINE_S)
        assert self.answer.headers["Content-Type"] == "text/event-stream"
        self.queue = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        event = {}
        try:
            for line in self.answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name in ("event", "id", "data"):
                    event[name] = value
                elif not name and event:
                    self.queue.put((event["event"], event["id"], json.loads(event["data"])))
                    event = {}
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # the server has ended, or the test is done
        self.queue.put(None)

    def next(self):
        return self.queue.get(timeout=harness.DEADLINE_S)

    def close(self):
        self.answer.close()


def raw(server, data, read=True):
    """Sends bytes as they are; what comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", int(server.base.rsplit(":", 1)[1])), timeout=harness.DEADLINE_S) as connection:
        connection.sendall(data)
        parts = []
        while read:
            part = connection.recv(65536)
            if not part:
                break
            parts.append(part)
        return b"".join(parts)


def test_boards_are_listed_and_taken_out_of_service(world):
    server = Server(world)
    world.board(server.address, "--labels", "room=lab,hostile=" + "".join(c for c in HOSTILE if c not in ",="), key="pi-1")
    until(lambda: get(server, "boards")[1]["total"] == 1, "the board in the list")
    [listed] = get(server, "boards")[1]["items"]
    [told] = world.json("fleet", "list", "--tracker", server.address)
    volatile = {"silent_ms", "env", "held_ms", "drift"}
    assert set(listed) - volatile == set(told) - volatile, (listed, told)
    assert all(listed[name] == told[name] for name in told if name not in volatile), (listed, told)
    for query, count in (("q=PI-1", 1), ("q=nothing", 0), ("label=room:lab", 1), ("label=room:lab&label=room:x", 0), ("state=free", 1), ("state=sick", 0),
                         ("target=cpu", 1), ("key=pi", 0), ("key=pi-1", 1), ("job=x", 0), ("project=x", 0), ("limit=0", 1), ("offset=5", 1)):
        answer = get(server, f"boards?{query}")[1]
        assert answer["total"] == count and len(answer["items"]) == (0 if query in ("limit=0", "offset=5") else count), (query, answer)
    status, shown = get(server, f"boards/{listed['node']}")
    assert status == 200 and shown["history"] and shown["facts"] and isinstance(shown["figures"], list), shown
    status, row = post(server, "boards/pi-1/drain", {"reason": HOSTILE})
    assert status == 200 and row["state"] == "drained", row
    assert world.json("fleet", "list", "--tracker", server.address)[0]["text"] == row["text"] == HOSTILE
    until(lambda: get(server, "boards?state=drained")[1]["total"] == 1, "the drained board in the copy")
    assert post(server, "boards/pi-1/release")[1]["state"] == "free"
    assert post(server, "boards/pi-1/quarantine")[1]["state"] == "quarantined"
    assert post(server, "boards/none/release")[0] == 404
    status, log = get(server, "boards/pi-1/log")
    assert status == 200 and any("connected to the tracker" in line["text"] for line in log["lines"]) and log["newest"] >= len(log["lines"]), log
    assert get(server, f"boards/pi-1/log?since={log['newest']}")[1]["lines"] == []
    audit = [json.loads(line) for line in (world.home / "tracker/audit.log").read_text().splitlines()]
    assert [e for e in audit if e["event"] == "act" and e["message"] == "BOARD_ORDER"], audit


def test_events_tell_the_newest_state_and_continue(world):
    server = Server(world)
    events = Events(server, "boards,jobs")
    first = {name: data for name, _, data in (events.next(), events.next())}
    assert first["boards"]["all"] and first["boards"]["rows"] == [] and first["jobs"]["all"], first
    world.board(server.address, key="pi-1")
    name, last, data = events.next()
    assert name == "boards" and data["rows"][0]["key"] == "pi-1" and "all" not in data, data
    events.close()
    post(server, "boards/pi-1/drain", {"reason": "later"})
    until(lambda: get(server, "boards?state=drained")[1]["total"] == 1, "the drained board in the copy")
    events = Events(server, "boards", last)
    name, _, data = events.next()
    assert "all" not in data and data["rows"][0]["text"] == "later", data
    events.close()
    events = Events(server, "boards", "1-2-3")  # of another server
    assert events.next()[2]["all"]
    server.child.kill()
    server.child.wait()
    while events.next():
        pass


def test_wrong_topics_are_refused(world):
    server = Server(world)
    for topics in ("x", "boards,x", "job:", ",".join(f"job:{i}" for i in range(9))):
        assert get(server, f"events?topics={topics}")[0] == 400, topics
    assert get(server, "events")[0] == 400


def test_a_job_is_followed_and_cancelled(world):
    server = Server(world)
    world.board(server.address)
    world.tuner(server.address)
    world.run("tune", world.zoo("gemm:32x32x32"), "--trials", 400, "--detach", "--job", "mine", "--tracker", server.address)
    until(lambda: get(server, "jobs")[1]["total"] == 1, "the job in the list")
    events = Events(server, "job:mine")
    row = None
    while not (row and row.get("tasks") and row["tasks"][0].get("done")):
        name, _, data = events.next()
        assert name == "job", name
        row = data["row"]
    status, shown = get(server, "jobs/mine")
    assert status == 200 and shown["job"] == "mine" and shown["tasks"][0]["key"] == row["tasks"][0]["key"], shown
    assert get(server, "jobs?state=running&q=GEMM")[1]["total"] == 1
    status, waiting = get(server, "queue")
    assert status == 200 and [p["project"] for p in waiting["projects"]] == ["default"] and waiting["projects"][0]["fair_share"] == 1, waiting
    status, row = post(server, "jobs/mine/cancel", {"reason": "no need"})
    assert status == 200 and row["job"] == "mine", row
    until(lambda: get(server, "jobs/mine")[1]["state"] == "cancelled", "the end of the job")
    until(lambda: get(server, "jobs?state=cancelled")[1]["total"] == 1, "its end in the copy")
    assert post(server, "jobs/none/cancel")[0] == 404
    events.close()


def test_a_waiting_job_says_why(world):
    server = Server(world)
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "first", "--tracker", server.address)
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "urgent", "--priority", 5, "--tracker", server.address)
    until(lambda: get(server, "jobs")[1]["total"] == 2, "the jobs in the list")
    jobs = get(server, "queue")[1]["jobs"]
    assert [(j["job"], j["position"]) for j in jobs] == [("urgent", 1), ("first", 2)] and all(j["why"] for j in jobs), jobs
    status, row = post(server, "jobs/first/priority", {"priority": 9})
    assert status == 200 and row["priority"] == 9, row
    until(lambda: [j["job"] for j in get(server, "queue")[1]["jobs"]] == ["first", "urgent"], "the new order")
    assert post(server, "jobs/first/priority", {"priority": 101})[0] == 400 and post(server, "jobs/none/priority", {"priority": 1})[0] == 404


def test_a_job_says_that_maintenance_holds_it_up(world):
    server = Server(world)
    world.board(server.address, key="shelf")
    world.tuner(server.address)
    world.run("fleet", "window", "shelf", "daily 00:00-24:00", "--why", "new fans", "--tracker", server.address)
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "held", "--tracker", server.address)
    says = "shelf is in maintenance until 2"
    until(lambda: get(server, "jobs/held")[1].get("text", "").startswith(says), "the job saying so")
    until(lambda: [j["why"][:len(says)] for j in get(server, "queue")[1]["jobs"]] == [says], "the queue saying so")
    world.run("fleet", "window", "--remove", 1, "--tracker", server.address)
    until(lambda: get(server, "jobs/held")[1]["state"] == "done" and not get(server, "jobs/held")[1].get("text"), "the job's end")


def test_rights_are_those_of_the_tracker(world):
    ann, bob = add_token(world, "client/ann"), add_token(world, "admin/bob")
    server = Server(world)
    world.board(server.address, key="pi-1")
    world.run("project", "new", "vision", "--tracker", server.address)
    world.run("project", "add", "vision", "ann", "--role", "viewer", "--tracker", server.address)
    me = lambda token: get(server, "me", token)[1]
    assert me(ann)["person"] == "ann" and not me(ann)["admin"] and {"project": "vision", "role": "viewer"} in me(ann)["projects"]
    assert me(bob)["admin"]
    assert get(server, "boards", ann)[1]["total"] == get(server, "boards", bob)[1]["total"] == 1
    assert post(server, "boards/pi-1/drain", {}, ann)[0] == 403
    assert get(server, "boards/pi-1/log", ann)[0] == 403
    assert post(server, "boards/pi-1/drain", {}, bob)[0] == 200
    world.run("project", "new", "hidden", "--tracker", server.address)
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "secret", "--project", "hidden", "--tracker", server.address)
    until(lambda: "secret" in [j["job"] for j in get(server, "jobs", bob)[1]["items"]], "the job in the admin's list")
    assert "secret" not in json.dumps(get(server, "jobs", ann)[1]) and get(server, "jobs/secret", ann)[0] == 404
    assert get(server, "projects/hidden", ann)[0] == 404 and get(server, "projects/hidden", bob)[0] == 200
    assert post(server, "jobs/secret/cancel", {}, ann)[0] in (403, 404)


def test_a_revoked_token_ends_its_sessions(world):
    ann = add_token(world, "client/ann")
    server = Server(world)
    status, headers, answer = ask(server, "POST", "/api/v1/session", json.dumps({"token": ann}).encode(), {"Content-Type": "application/json"})
    assert status == 200 and json.loads(answer)["person"] == "ann", answer
    cookie = headers["Set-Cookie"].split(";")[0]
    with_cookie = lambda: urllib_status(server, "/api/v1/boards", {"Cookie": cookie})
    assert with_cookie() == 200
    world.run("key", "revoke", "client/ann/web/1")
    until(lambda: with_cookie() == 401, "the end of the session")


def urllib_status(server, path, headers, method="GET", body=None):
    request = urllib.request.Request(server.base + path, method=method, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_everything_but_two_addresses_needs_a_person(world):
    server = Server(world)
    document = json.loads(ask(server, "GET", "/api/v1/openapi.json")[2])
    opened = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            concrete = path
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    concrete = concrete.replace("{%s}" % parameter["name"], "0" * 64 if "pattern" in parameter["schema"] else "x")
            for headers in ({}, {"Cookie": "kiln_session=AAAA"}, {"Authorization": "Bearer kiln-web-" + "0" * 64}):
                status = urllib_status(server, concrete, {"Content-Type": "application/json", **headers}, method.upper(), b"{}" if method == "post" else None)
                if status not in (401, 429):
                    opened.add((method, path))
    assert opened == {("get", "/healthz"), ("get", "/api/v1/openapi.json"), ("post", "/api/v1/session")}, opened


def test_pages_of_other_sites_change_nothing(world):
    server = Server(world)
    world.board(server.address, key="pi-1")
    _, headers, answer = ask(server, "POST", "/api/v1/session", json.dumps({"token": server.token}).encode(), {"Content-Type": "application/json"})
    cookie, csrf = headers["Set-Cookie"].split(";")[0], json.loads(answer)["csrf"]
    assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
    drain = lambda more, body=b"{}": urllib_status(server, "/api/v1/boards/pi-1/drain", {"Cookie": cookie, **more}, "POST", body)
    assert drain({"Content-Type": "application/json"}) == 403
    assert drain({"Content-Type": "application/json", "Origin": "http://evil.example"}) == 403
    assert drain({"Content-Type": "application/json", "X-Kiln-CSRF": "0" * 32}) == 403
    assert drain({"Content-Type": "application/json", "X-Kiln-CSRF": csrf, "Sec-Fetch-Site": "cross-site"}) == 403
    assert drain({"Content-Type": "text/plain", "X-Kiln-CSRF": csrf}) == 415
    assert get(server, "boards")[1]["items"][0]["state"] == "free"
    assert drain({"Content-Type": "application/json", "X-Kiln-CSRF": csrf}) == 200
    assert urllib_status(server, "/api/v1/session", {"Cookie": cookie, "X-Kiln-CSRF": csrf}, "DELETE") == 204
    assert urllib_status(server, "/api/v1/boards", {"Cookie": cookie}) == 401
    _, headers, _ = ask(server, "POST", "/api/v1/session", json.dumps({"token": server.token}).encode(), {"Content-Type": "application/json"})
    other = headers["Set-Cookie"].split(";")[0]
    server.kill_and_start()
    assert urllib_status(server, "/api/v1/boards", {"Cookie": cookie}) == 401, "a session that was signed out is back"
    assert urllib_status(server, "/api/v1/boards", {"Cookie": other}) == 200
    answer = raw(server, b"OPTIONS /api/v1/boards HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n")
    assert b" 405 " in answer and b"Access-Control" not in answer


def test_a_proxy_names_the_person(world):
    world.refused("--trust-header", "X-User", "--tracker", "127.0.0.1:1", "--listen", "0.0.0.0:0", "--insecure", says="--trust-header needs", name=str(PROGRAM))
    server = Server(world, "--trust-header", "X-User")
    world.run("project", "new", "vision", "--tracker", server.address)
    world.run("project", "add", "vision", "cec", "--role", "viewer", "--tracker", server.address)
    assert urllib_status(server, "/api/v1/boards", {}) == 401
    with urllib.request.urlopen(urllib.request.Request(server.base + "/api/v1/me", headers={"X-User": "cec"})) as answer:
        me = json.loads(answer.read())
    assert me["person"] == "cec" and {"project": "vision", "role": "viewer"} in me["projects"] and me["csrf"], me
    assert urllib_status(server, "/api/v1/me", {"X-User": "nobody"}) == 401


def test_hostile_requests_are_refused(world):
    server = Server(world)
    line = lambda target, method="GET": f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nConnection: close\r\n"
    for target in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/boards/..", "/api/v1/boards/%00", "/api/v1/boards/a%0d%0aX:y",
                   "/api/v1//boards", "/api/v1/boards?limit=1%00", "/index.html/../x", "/%c0%ae%c0%ae/x", "/x.js%00.html", "/api/v1/boards?q=%ff"):
        answer = raw(server, (line(target) + "\r\n").encode())
        assert answer.split(b" ")[1] in (b"400", b"404"), (target, answer[:200])
        assert b"root:" not in answer and b"\r\nX:y" not in answer
    for body, status in ((b"{", b"400"), (b"[]", b"400"), (b"\xff\xfe", b"400"), (b'{"reason":1}', b"400"), (b'{"reason":"a","reason":"b"}', b"400"), (b'{"x":1}', b"400"),
                         (b"[" * 5000, b"400"), (b'{"reason":"' + b"a" * 300000 + b'"}', b"413"), (b'{"reason":"\\ud800"}', b"400"), (b'{"reason":"a\\u0000b"}', b"400"),
                         (json.dumps({"reason": "a" * 257}).encode(), b"400")):
        answer = raw(server, (line("/api/v1/boards/x/drain", "POST") + f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        assert answer.split(b" ")[1] == status, (body[:40], answer[:300])
    for name in (HOSTILE, "'; DROP TABLE boards; --", "☃" * 20):
        status, answer = get(server, f"boards/{urllib.parse.quote(name, safe='')}")
        assert status == 404, answer
    for method, status in (("PUT", b"405"), ("TRACE", b"405"), ("CONNECT", None), ("X" * 200, b"405")):
        answer = raw(server, (line("/api/v1/boards", method) + "\r\n").encode())
        assert status is None or answer.split(b" ")[1] == status, (method, answer[:200])
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100000 + b"\r\n\r\n",
                    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        try:
            raw(server, garbage)
        except ConnectionError:
            pass
    assert get(server, "boards")[0] == 200 and server.child.poll() is None


def test_answers_carry_what_browsers_should_heed(world):
    server = Server(world)
    for path in ("/", "/api/v1/boards", "/healthz", "/nothing.js"):
        _, headers, _ = ask(server, "GET", path)
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer", (path, headers)
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy, policy
    status, headers, page = ask(server, "GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<script>" not in page and b" on" not in page.split(b"<body")[0]
    status, _, body = ask(server, "GET", "/", headers={"If-None-Match": headers["ETag"]})
    assert status == 304 and body == b""


def test_many_silent_and_slow_clients_keep_nobody_waiting(world):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 100)
    server = Server(world)
    port = int(server.base.rsplit(":", 1)[1])
    held = []
    try:
        for i in range(count):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            held.append(connection)
            if i % 7 == 0:  # slowloris: a head that never ends
                try:
                    connection.send(b"GET / HTTP/1.1\r\nX: ")
                except OSError:
                    pass
            if i % 500 == 499:
                assert get(server, "me")[0] == 200
        assert get(server, "boards")[0] == 200
        memory = int(next(line.split()[1] for line in open(f"/proc/{server.child.pid}/status") if line.startswith("VmRSS")))
        assert memory < 64 * 1024 or os.environ.get("KILN_SANITIZED"), f"{memory} KiB"
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert get(server, "boards")[0] == 200 and server.child.poll() is None


def test_it_serves_over_tls(world):
    cert, key = world.path("cert.pem"), world.path("key.pem")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost"], check=True, capture_output=True)
    except FileNotFoundError:
        raise harness.Skip("openssl is not installed")
    server = Server(world, "--cert", cert, "--cert-key", key)
    context = ssl.create_default_context(cafile=cert)
    context.check_hostname = False
    base = server.base.replace("http:", "https:")
    request = urllib.request.Request(f"{base}/api/v1/session", data=json.dumps({"token": server.token}).encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=context, timeout=harness.DEADLINE_S) as answer:
        assert "; Secure" in answer.headers["Set-Cookie"]
    world.refused("--tracker", "127.0.0.1:1", "--listen", "0", "--cert", key, "--cert-key", cert, says="cannot be used", name=str(PROGRAM))
    world.refused("--tracker", "127.0.0.1:1", "--listen", "0", "--cert", cert, says="belong together", name=str(PROGRAM))


def test_it_outlives_its_tracker_and_restarts(world):
    server = Server(world)
    world.board(server.address, key="pi-1", wait=False)
    until(lambda: get(server, "boards")[1].get("total") == 1, "the board in the list")
    world.kill(server.tracker)
    until(lambda: get(server, "me")[0] in (503, 504), "the server noticing")
    assert ask(server, "GET", "/healthz")[0] == 200
    world.tracker(address=server.address)
    until(lambda: get(server, "boards")[1].get("total") == 1, "the board in the list again")
    server.stop()
    server.start()
    assert get(server, "me")[0] == 200


def test_kiln_web_prints_a_link_that_signs_in(world):
    _, address = world.tracker()
    child = world.start("kiln", "web", "--tracker", address)
    until(lambda: "#token=" in child.log.read_text() or child.poll() is not None, "the link")
    base, _, token = child.log.read_text().strip().partition("/#token=")
    request = urllib.request.Request(f"{base}/api/v1/session", data=json.dumps({"token": token}).encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as answer:
        assert json.loads(answer.read())["admin"]
    assert os.stat(world.home / "web-token").st_mode & 0o77 == 0
    child.terminate()
    world.ends(child)


def test_kiln_web_without_a_tracker_brings_a_fleet(world):
    child = world.start("kiln", "web")
    until(lambda: "#token=" in child.log.read_text() or child.poll() is not None, "the link")
    link = next(line for line in child.log.read_text().splitlines() if "#token=" in line)
    server = types.SimpleNamespace(base=link.partition("/#")[0], token=link.partition("#token=")[2])
    until(lambda: get(server, "boards")[1]["total"] == 1, "this machine as a board")
    world.run("submit", DIGITS, "--web", server.base, "--trials", "4", "-o", world.path("digits.kiln"))
    assert (world.home / "kiln.db").exists()
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=harness.DEADLINE_S) == 0
    world.left_nothing()


def test_kiln_web_whose_server_fails_ends_its_fleet(world):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        world.refused("web", "--listen", str(taken.getsockname()[1]), says="it is in use")
    world.left_nothing()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
