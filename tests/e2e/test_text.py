#!/usr/bin/env python3
"""Text of peers on terminals, in logs, JSON and pages: escape sequences, directions, hidden characters, bytes that are no UTF-8
and forged lines, in every text field of every message, against the wire (wire.py)."""
import json
import os
import pathlib
import socket
import sys
import threading
import unicodedata
import urllib.request

import harness
import wire
from harness import until

# An escape sequence, C1, a bidi override, a zero-width space, a line separator, no UTF-8, a forged line, a bell.
BAD = "\x1b[2J\x9b\u202e\u200b\u2028\udcff\udcc3\nforged: all is well\r\x7f\x07"
ESCAPED = "\\x1b[2J\\u{9b}\\u{202e}"


def check(text, where):
    """What people are shown: bytes, or text."""
    text = text.decode() if isinstance(text, bytes) else text  # UTF-8
    for line in text.split("\n"):
        hidden = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") and c != "\t"]
        assert not hidden, f"{where}: {hidden} in {line[:300]!r}"
        assert not line.startswith("forged"), f"{where}: a forged line"


def full(fields, depth=0):
    """A value for each field; texts are BAD, cut at their limit."""
    def one(field):
        if field.record:
            value = full(wire.RECORDS[field.record], depth + 1)
            return [value] if field.many else value
        if field.kind == "text":
            text = BAD.encode(errors="surrogateescape")[:field.limit]
            return text.decode(errors="surrogateescape")
        return {"u32": 1, "u64": 1, "f64": 1.0, "digest": bytes(32), "bytes": b"x", "bool": True, "[u64]": [1]}[field.kind]

    return {name: one(field) for name, field in fields.items()}


class Tracker:
    """One that says BAD wherever it may say something. `answer`: what it says to whatever is asked."""

    def __init__(self, world, answer):
        self.path, self.answer = world.path("evil.sock"), answer
        pathlib.Path(self.path).unlink(missing_ok=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            peer = wire.Peer.__new__(wire.Peer)
            peer.input, peer.child, peer.timeout, peer.socket, peer.address = b"", None, wire.DEADLINE_S, connection, ""
            threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer):
        try:
            while True:
                name, stream, values = peer.read()
                if name == "HELLO":
                    said = {**full(wire.MESSAGES["WELCOME"].fields), "version": values["version_max"], "heartbeat_ms": 2000, "features": 0}
                    peer.send("WELCOME", stream, **said)
                elif name == "PING":
                    peer.send("PONG", stream, **values)
                elif name != "PONG":
                    self.answer(peer, name, stream, values)
        except (wire.Closed, TimeoutError, OSError):
            pass
        finally:
            peer.close()

    def close(self):
        self.server.close()


def said(name, **values):
    return {**full(wire.MESSAGES[name].fields), **values}


def row_answers(peer, name, stream, values):
    if name == "QUERY":
        rows = said("ANSWER", topic=values["topic"], total=1)
        rows["boards"][0].update(state=BAD, env=full(wire.RECORDS["env"]))
        peer.send("ANSWER", stream, **{**rows, **({"boards": []} if values["topic"] else {"jobs": []})})
    elif name == "PROBE":
        peer.send("PROBED", stream, **said("PROBED"))
    elif name == "TAIL":
        peer.send("LINES", stream, **said("LINES", newest=1))
    else:
        peer.send("ERROR", stream, **said("ERROR", code=3))


def error_answers(peer, name, stream, values):
    peer.send("ERROR", stream, **said("ERROR", code=3, retry_after_ms=0))


def goes_away(peer, name, stream, values):
    peer.send("GOAWAY", 0, **said("GOAWAY"))
    raise wire.Closed


COMMANDS = (["fleet", "list"], ["fleet", "show", "x"], ["fleet", "log", "x"], ["fleet", "ping"], ["fleet", "drain", "x"], ["fleet", "doctor", "x"],
            ["jobs", "list"], ["jobs", "show", "x"], ["jobs", "cancel", "x"])


def test_text_of_a_tracker_is_made_printable(world):
    shown = ""
    for answer in (row_answers, error_answers):
        tracker = Tracker(world, answer)
        for command in COMMANDS:
            for more in ([], ["--json"]):
                done = world.run(*command, *more, "--tracker", f"unix:{tracker.path}", ok=False)
                where = " ".join([*command, *more, answer.__name__])
                check(done.stdout, where)
                check(done.stderr, where)
                for line in done.stdout.splitlines() if more else []:
                    json.loads(line, parse_constant=None)
                    check(json.dumps(json.loads(line), ensure_ascii=False), where)
                if answer is error_answers:
                    assert done.returncode != 0 and ESCAPED in done.stderr, f"{where}: {done.stderr!r}"
                shown += done.stdout
        tracker.close()
    assert shown.count(ESCAPED) > 30


def test_a_tracker_that_goes_away_cannot_write_to_the_terminal(world):
    tracker = Tracker(world, goes_away)
    done = world.run("jobs", "list", "--tracker", f"unix:{tracker.path}", ok=False)
    assert done.returncode != 0
    check(done.stderr, "goes away")
    tracker.close()


def hostile_board(address, token):
    board = wire.Peer(address)
    fields = wire.MESSAGES["HELLO"].fields
    hello = {k: v for k, v in full(fields).items() if k in ("name", "software")}
    name, values = board.hello("board", "b0a4d", token, **hello)
    assert name == "WELCOME", values
    up = {**full(wire.MESSAGES["BOARD_UP"].fields), "target": "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3", "targets": [], "running": []}
    board.send("BOARD_UP", **up)
    board.send("BOARD_STATE", **full(wire.MESSAGES["BOARD_STATE"].fields))
    return board


def test_text_of_peers_through_a_tracker_is_made_printable(world):
    http = world.folder / "http"
    tracker, address = world.tracker("--http", "0", "--http-port-file", http)
    token = wire.token_of(world)
    board = hostile_board(address, token)
    shown = ""

    def answer_tail():
        try:
            while True:
                name, stream, values = board.read()
                if name == "TAIL":
                    board.send("LINES", stream, **{**full(wire.MESSAGES["LINES"].fields), "newest": 1, "reader": values["reader"]})
                if name == "PING":
                    board.send("PONG", stream, **values)
        except (wire.Closed, TimeoutError, OSError, ValueError):
            pass

    threading.Thread(target=answer_tail, daemon=True).start()
    until(lambda: ESCAPED in world.run("fleet", "list", "--tracker", address).stdout, "the board's row")
    client = wire.Peer(address)
    name, values = client.hello("client", "c11e47", token, name=BAD)
    assert name == "WELCOME", values
    model = b"no model"
    client.put_blob(model, 1)
    spec = {**full(wire.RECORDS["job_spec"]), "model": wire.blob_ref(model)["digest"], "target": "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3",
            "searcher": "random", "trials": 1, "seconds": 0.0, "form": 0, "by_client": False, "detach": True, "labels": []}
    spec.pop("records")
    name, answer = client.ask("JOB_OPEN", "JOB_STATE", 3, job="j0b", spec=spec)
    assert name == "ERROR" and answer["code"] == 3 and "one line of plain text" in answer["text"], (name, answer)
    spec.update(model_name="m.onnx", user="u", project="default", key="", tasks="")
    name, answer = client.ask("JOB_OPEN", "JOB_STATE", 4, job="j0b", spec=spec)
    said = f"{name} {answer}"
    assert name == "JOB_STATE", said
    done = world.run("fleet", "drain", "b0a4d", "--why", "x\x1b[2Jy", "--tracker", address, ok=False)
    assert done.returncode != 0 and '--why "x\\x1b[2Jy" has line ends' in done.stderr, done.stderr
    for command in (["fleet", "list"], ["fleet", "show", "b0a4d"], ["fleet", "log", "b0a4d"], ["fleet", "drain", "b0a4d", "--why", "a new fan"],
                    ["fleet", "show", "b0a4d"], ["jobs", "list"], ["jobs", "show", "j0b"]):
        for more in ([], ["--json"]):
            done = world.run(*command, *more, "--tracker", address, ok=False)
            check(done.stdout, " ".join(command))
            check(done.stderr, " ".join(command))
            shown += done.stdout
    assert shown.count(ESCAPED) > 5, (said, shown)
    for page in ("/state", "/metrics"):
        body = urllib.request.urlopen(f"http://127.0.0.1:{http.read_text().strip()}{page}", timeout=harness.DEADLINE_S).read()
        check(body, page)
        assert ESCAPED.replace("\\", "\\\\").encode() in body, page
        if page == "/state":
            check(json.dumps(json.loads(body), ensure_ascii=False), page)
    check(tracker.log.read_bytes(), "the tracker's log")
    audit = list(pathlib.Path(world.home).rglob("audit.log"))
    assert audit
    check(audit[0].read_bytes(), "the audit log")
    board.close()
    client.close()


def test_text_of_a_tuner_is_made_printable(world):
    _, address = world.tracker()
    token = wire.token_of(world)
    tuner = wire.Peer(address)
    name, values = tuner.hello("tuner", "7e5e4", token, name=BAD, software=BAD)
    assert name == "WELCOME", values

    def work():
        try:
            while True:
                name, stream, values = tuner.read()
                if name == "JOB_ASSIGN":
                    event = said("JOB_EVENT", job=values["job"])
                    tuner.send("JOB_EVENT", **event)
                    tuner.send("JOB_DONE", **{**said("JOB_DONE", job=values["job"], code=3), "records": bytes(32)})
                if name == "PING":
                    tuner.send("PONG", stream, **values)
        except (wire.Closed, TimeoutError, OSError, ValueError):
            pass

    threading.Thread(target=work, daemon=True).start()
    board = hostile_board(address, token)
    for more in ([], ["--json"]):
        done = world.run("tune", world.zoo("gemm:4x4x4"), "--tracker", address, "--target", "x86-64-v3", "--trials", 1, *more, ok=False)
        check(done.stdout, "tune")
        check(done.stderr, "tune")
        assert done.returncode != 0 and ESCAPED in done.stderr + done.stdout, (done.stdout, done.stderr)
    board.close()
    tuner.close()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
