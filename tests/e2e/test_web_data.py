#!/usr/bin/env python3
"""What the web server answers from the database of records."""
import hashlib
import json
import os
import pathlib
import socket
import struct
import sys
import urllib.error
import urllib.request

import harness
import worker
from web_data import Server, change, tuned

NASTY = ["x' OR '1'='1", "'; DROP TABLE record; --", "\"><script>alert(1)</script>", "../../../etc/passwd", "%00", "a" * 256, "☃", "\u202e"]


def rounded(value):
    """With nine digits, as the command prints numbers."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, (int, float)) else value


def rows_of(answer):
    return [dict(zip(answer["columns"], row)) for row in answer["rows"]]


def test_answers_are_those_of_the_command(world):
    db = tuned(world, 12)
    server = Server(world)
    best = server.get("records/best", full="true")
    wanted = world.json("db", "best", "--db", db)
    assert best["total"] == len(wanted) and not best["more"]
    assert rounded(best["items"]) == rounded(wanted), (best, wanted)
    wanted = world.json("db", "top", "--db", db)
    top = server.get("records/top", full="true")
    assert rounded(top["items"]) == rounded(wanted), (top, wanted)
    page = server.get("records/top", limit=2, offset=1, full="true")
    assert rounded(page["items"]) == rounded(wanted[1:3]) and page["more"], page
    assert rounded(server.get("records/history", limit=1000, full="true")["items"]) == rounded(world.json("db", "history", "--db", db))
    newest = server.get("records/history", limit=1, newest="true", full="true")["items"]
    assert rounded(newest) == rounded(world.json("db", "history", "--db", db)[-1:]), newest
    [stat] = server.get("records/stats")["items"]
    [told] = world.json("db", "stats", "--db", db)
    assert all(stat[name] == told[name] for name in ("task", "op", "target", "records", "ok", "outcomes", "origins")), (stat, told)


def test_rows_are_brief_unless_all_is_asked(world):
    tuned(world, 6)
    server = Server(world)
    for kind in ("best", "top", "history"):
        brief, full = (server.get(f"records/{kind}", full=full)["items"] for full in ("false", "true"))
        assert server.get(f"records/{kind}")["items"] == brief and brief
        for short, long in zip(brief, full):
            assert set(long) - set(short) == {"trace", "samples_ns", "signature"} and long["trace"] and long["samples_ns"], (short, long)
            assert all(long[name] == value for name, value in short.items())
    assert server.get(f"trials/{brief[0]['trial_id']}")["trace"] == full[0]["trace"]


def test_trials_come_in_pieces(world):
    tuned(world, 12)
    server = Server(world)
    [best] = server.get("records/best")["items"]
    history = server.get("records/history", limit=1000)["items"]
    for path in (f"jobs/{best['job_id']}/trials", f"tasks/{best['task_key']}/trials"):
        everything = server.get(path)
        rows = rows_of(everything)
        assert not everything["more"] and [r["trial"] for r in rows] == [r["trial_index"] for r in history]
        for row, record in zip(rows, history):
            assert abs(row["median_ns"] - record["median_ns"]) <= 1e-8 * record["median_ns"], (row, record)
            assert row["task"] == record["task_key"] and row["outcome"] == record["outcome"] and row["searcher"] == record["searcher"]
            assert abs(row["board_ns"] - record["board_ns"]) <= 1e-8 * record["board_ns"] and row["board_ns"] > 0, (row, record)
            assert row["final"] == record["final"] and row["time_ms"] == record["stored_wall_ns"] // 1000000
        since, seen = 0, []
        while True:
            piece = server.get(path, since=since, limit=5)
            seen += rows_of(piece)
            assert len(piece["rows"]) <= 5
            if not piece["rows"]:
                break
            since = piece["next"]
        assert seen == rows and piece["next"] == since
    assert [r["trial_id"] for r in rows] == [r["trial_id"] for r in history] and set(everything["features"]) <= set(everything["columns"])
    task = server.get(f"tasks/{best['task_key']}")
    assert task["program"].startswith("program") and len(task["targets"]) == 1 and task["label"] == "matmul 64x64 over 64", task
    assert task["bytes"] == 3 * 64 * 64 * 4 and task["flops"] == 2 * 64**3
    assert server.get(f"trials/{best['trial_id']}")["trial_id"] == best["trial_id"]
    assert server.get("records/best", job=best["job_id"])["items"] == [best] and not server.get("records/best", job="x")["items"]


def test_two_dates_are_compared(world):
    db = tuned(world, 8)
    change(db, "UPDATE record SET stored_wall_ns = 86400000000000 * (1 + (rowid > 4))")  # 1970-01-02 and -03
    server = Server(world)
    [pair] = server.get("records/compare", **{"from": "1970-01-03", "to": "1970-01-04"})["items"]
    assert pair["label"] == "matmul 64x64 over 64" and pair["b"]["median_ns"] > 0, pair
    assert abs(pair["ratio"] - pair["b"]["median_ns"] / pair["a"]["median_ns"]) < 1e-12
    [pair] = server.get("records/compare", **{"from": "1970-01-01T23:59:59Z", "to": str(2 * 86400000)})["items"]
    assert pair["a"] is None and pair["b"] and pair["ratio"] == 0, pair
    target = pair["b"]["target"]
    [pair] = server.get("records/compare", a=target, b="rpi4")["items"]
    assert pair["a"]["target"] == target and pair["b"] is None, pair
    for query in ({}, {"a": "rpi4"}, {"from": "1970-01-01", "to": "yesterday"}, {"from": "1970-13-01", "to": "1970-01-01"}, {"a": "a", "b": "b"},
                  {"from": "-5", "to": "9" * 25}):
        server.refused("records/compare", 400, "INVALID_ARGUMENT", **query)


def test_an_export_is_imported(world):
    db = tuned(world, 8)
    server = Server(world)
    status, headers, body = server.ask("GET", "/api/v1/records/export")
    assert status == 200 and headers["Content-Type"] == "application/jsonl", headers
    assert [json.loads(line) for line in body.splitlines()] == [json.loads(line) for line in world.run("db", "export", "--db", db).stdout.splitlines()]
    (world.folder / "copy.jsonl").write_bytes(body)
    world.run("db", "import", world.path("copy.jsonl"), "--db", world.path("copy.db"))
    copy, own = (world.sql(name, "SELECT trial_id, median_ns FROM record ORDER BY 1") for name in ("copy.db", "t.db"))
    assert copy == own and copy


def test_there_are_no_records_yet(world):
    server = Server(world)
    for path in ("best", "top", "history", "stats"):
        assert server.get(f"records/{path}")["items"] == []
    assert server.get("tasks")["total"] == 0 and server.get("jobs/none/trials")["rows"] == []
    assert server.ask("GET", "/api/v1/records/export")[2] == b""
    server.refused("tasks/v2:none", 404, "NOT_FOUND")
    server.refused("trials/none", 404, "NOT_FOUND")
    tuned(world, 2)  # they are seen without a restart
    assert len(server.get("records/best")["items"]) == 1


def test_hostile_names_find_nothing_and_change_nothing(world):
    db = tuned(world, 2)
    server = Server(world)
    before = world.sql("t.db", "SELECT count(*) FROM record")
    for text in NASTY:
        for path in ("best", "top", "history"):
            for name in ("task", "job"):
                assert server.get(f"records/{path}", **{name: text})["items"] == [], (path, name, text)
        assert server.get("records/stats", task=text)["total"] == 0 and server.get("tasks", q=text)["total"] == 0
        server.refused("records/best", 400, "INVALID_ARGUMENT", target=text)
    for wrong in ({"limit": "1001"}, {"limit": "-1"}, {"limit": "1e3"}, {"offset": "9" * 30}, {"limit": "0x10"}):
        server.refused("records/top", 400, "INVALID_ARGUMENT", **wrong)
    assert world.sql("t.db", "SELECT count(*) FROM record") == before
    change(db, "UPDATE record SET user = '</script><script>alert(1)</script>' || char(0x202e), searcher = char(27) || '[2J'")
    [row] = server.get("records/best")["items"]
    assert row["user"] == "</script><script>alert(1)</script>\u202e" and row["searcher"] == "\x1b[2J"


def test_a_trial_as_text(world):
    db = tuned(world, 4)
    server = Server(world)
    [best] = server.get("records/best")["items"]
    wanted = {e["stage"]: e["text"] for e in worker.ask(world, "EXPLAIN", best["trial_id"], db=db)[0]}
    for path, stage in (("trace", "trace"), ("words", "words"), ("loops", "loops"), ("assembly", "asm")):
        status, headers, body = server.ask("GET", f"/api/v1/trials/{best['trial_id']}/{path}")
        assert (status, body.decode()) == (200, wanted[stage]) and headers["Content-Type"].startswith("text/plain"), (path, body)
        server.refused(f"trials/{'0' * 32}/{path}", 404, "NOT_FOUND")
    change(db, "UPDATE record SET trace = x'93ffff00ff'")  # of a stranger
    assert "the stored schedule" in server.refused(f"trials/{best['trial_id']}/loops", 500, "DATA_LOSS")


def test_how_good_the_cost_model_is(world):
    tuned(world, 48)
    server = Server(world)
    [best] = server.get("records/best")["items"]
    answer = server.get("cost-model", target=best["target"], task=best["task_key"])
    [model], trials = answer["items"], answer["trials"]
    assert model["by_task"][0]["task"] == best["task_key"] and model["importance"] and len(trials["trials"]) == model["records"]
    assert server.get("cost-model") == {"items": [model], "trials": None}
    server.refused("cost-model", 400, "INVALID_ARGUMENT", target="abacus")
    server.refused("cost-model", 404, "NOT_FOUND", target="rpi4")


def test_an_upload_is_resumed(world):
    server, data = Server(world), os.urandom(3 << 20)
    status, headers, body = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": str(len(data))})
    assert status == 201, body
    place, upload = headers["Location"], json.loads(body)["id"]
    cut = 1234567
    status, headers, body = server.ask("PATCH", place, data[:cut], {"Upload-Offset": "0"})
    assert status == 200 and json.loads(body) == {"id": upload, "offset": cut, "size": len(data)}, body
    status, headers, body = server.ask("HEAD", place)
    assert (status, headers["Upload-Offset"], headers["Upload-Length"], body) == (200, str(cut), str(len(data)), b"")
    for offset in (0, cut - 1, cut + 1, len(data)):  # replayed, or with a gap
        status, headers, body = server.ask("PATCH", place, data[offset:offset + 9], {"Upload-Offset": str(offset)})
        assert status == 409 and json.loads(body)["error"]["code"] == "ABORTED" and headers["Upload-Offset"] == str(cut), body
    near = len(data) - 5  # little is left: a client that still sends a large body may not see why it was refused
    assert server.ask("PATCH", place, data[cut:near], {"Upload-Offset": str(cut)})[0] == 200
    status, _, body = server.ask("PATCH", place, data[near:] + b"x", {"Upload-Offset": str(near)})
    assert status == 413, body
    status, _, body = server.ask("PATCH", place, data[near:], {"Upload-Offset": str(near)})
    assert status == 200 and json.loads(body)["blob"] == hashlib.sha256(data).hexdigest(), body
    status, _, body = server.ask("PATCH", place, b"x", {"Upload-Offset": str(len(data))})
    assert status == 409, body
    assert server.ask("DELETE", place)[0] == 204 and server.ask("HEAD", place)[0] == 404
    assert [p.stat().st_size for p in (world.home / "web/models").glob("*/*")] == [len(data)]


def test_a_client_that_leaves_goes_on_later(world):
    server, data = Server(world), os.urandom(1 << 20)
    _, headers, _ = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": str(len(data))})
    place = headers["Location"]
    port = int(server.base.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nUpload-Offset: 0\r\n"
                       f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:300000])
        harness.until(lambda: int(server.ask("HEAD", place)[1]["Upload-Offset"]) == 300000, "the first bytes arriving")
        status, _, body = server.ask("PATCH", place, b"x", {"Upload-Offset": "300000"})
        assert status == 409 and b"another request" in body, body
    harness.until(lambda: server.ask("PATCH", place, data[300000:300010], {"Upload-Offset": "300000"})[0] == 200, "the server noticing")
    status, _, body = server.ask("PATCH", place, data[300010:], {"Upload-Offset": "300010"})
    assert status == 200 and json.loads(body)["blob"] == hashlib.sha256(data).hexdigest(), body


def test_uploads_are_bounded(world):
    server = Server(world)
    for size in ("", "-1", "x", str((2 << 30) + 1)):
        assert server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": size})[0] == 400
    for _ in range(8):
        assert server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": "10"})[0] == 201
    status, _, body = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": "10"})
    assert status == 429 and json.loads(body)["error"]["code"] == "RESOURCE_EXHAUSTED", body
    for name in ("x", "..%2f..%2fkeys", "0" * 32):
        for method in ("HEAD", "DELETE", "GET"):
            assert server.ask(method, f"/api/v1/uploads/{name}")[0] in (400, 404)


def test_a_member_sees_its_projects_alone(world):
    db = tuned(world, 6)
    change(db, "UPDATE record SET project = CASE WHEN rowid <= 3 THEN 'open' ELSE 'secret' END; UPDATE job SET project = 'secret';"
               "DELETE FROM record_stat; INSERT INTO record_stat SELECT task_key, target, outcome, raced, final, origin, project, count(*),"
               " 0.0, min(stored_wall_ns), max(stored_wall_ns), min(rowid) FROM record GROUP BY 1, 2, 3, 4, 5, 6, 7")
    for person in ("ann", "bob"):
        world.run("key", "new", f"client/{person}", "-o", world.path(person))
    server = Server(world, key="web/lab")
    world.run("project", "new", "open", "--tracker", server.address)
    world.run("project", "add", "open", "ann", "--role", "viewer", "--tracker", server.address)
    everything = [r["trial_id"] for r in server.get("records/history", limit=100)["items"]]
    seen = [r["trial_id"] for r in server.get("records/history", person="ann", limit=100)["items"]]
    assert seen == everything[:3] and len(everything) > 3, (seen, everything)
    assert server.get("records/history", person="bob")["items"] == []
    [stat] = server.get("records/stats", person="ann")["items"]
    assert stat["records"] == 3 and server.get("tasks", person="bob")["total"] == 0
    [trial] = server.get("records/best", person="ann")["items"]
    assert trial["project"] == "open"
    task = trial["task_key"]
    assert len(server.get(f"tasks/{task}/trials", person="ann")["rows"]) == 3 and not server.get(f"tasks/{task}/trials", person="bob")["rows"]
    assert len(server.get(f"jobs/{trial['job_id']}/trials", person="ann")["rows"]) == 3
    hidden = everything[3]
    for path in (f"trials/{hidden}", f"trials/{hidden}/trace", f"trials/{hidden}/assembly"):
        server.refused(path, 404, "NOT_FOUND", person="ann")
    server.refused(f"tasks/{task}", 404, "NOT_FOUND", person="bob")
    server.refused("cost-model", 404, "NOT_FOUND", person="bob", target=trial["target"])
    lines = [json.loads(line) for line in server.ask("GET", "/api/v1/records/export", person="ann")[2].splitlines()]
    assert [row["trial_id"] for row in lines if row["table"] == "record"] == everything[:3]
    assert not any(row["table"] == "job" for row in lines) and hidden not in json.dumps(lines)


def test_readings_of_a_board_are_of_ones_projects(world):
    db = tuned(world, 6)
    for person in ("ann", "bob"):
        world.run("key", "new", f"client/{person}", "-o", world.path(person))
    server = Server(world, key="web/lab")
    world.run("project", "new", "open", "--tracker", server.address)
    world.run("project", "add", "open", "ann", "--role", "viewer", "--tracker", server.address)
    world.board(server.address, "--key", "pi")
    [board] = server.get("boards")["items"]
    path = f"boards/{board['node']}/drift"
    assert server.get(path) == {"columns": ["time_ms", "drift", "drift_memory", "throttled"], "rows": []}  # its records are of another board
    change(db, f"UPDATE record SET device_id = '{board['node']}', drift = rowid, drift_memory = 0.5, throttled = rowid = 2, stored_wall_ns = 1000000 * rowid,"
               " project = CASE WHEN rowid <= 3 THEN 'open' ELSE 'secret' END")
    rows = server.get(path)["rows"]
    assert rows[:3] == [[1, 1, 0.5, 0], [2, 2, 0.5, 1], [3, 3, 0.5, 0]] and len(rows) > 4, rows
    assert server.get("boards/pi/drift", limit=2)["rows"] == rows[-2:]  # the newest
    assert server.get(path, person="ann")["rows"] == rows[:3] and server.get(path, person="bob")["rows"] == []
    server.refused(path, 400, "INVALID_ARGUMENT", limit=0)
    server.refused("boards/none/drift", 404, "NOT_FOUND")


def test_others_are_told_nothing(world):
    tuned(world, 2)
    server = Server(world)
    for path in ("records/best", "records/export", "tasks", "jobs/x/trials", "trials/x", "records/compare"):
        with urllib.request.urlopen(f"{server.base}/healthz") as health:
            assert health.status == 200
        try:
            urllib.request.urlopen(f"{server.base}/api/v1/{path}")
        except urllib.error.HTTPError as error:
            assert error.code == 401 and json.loads(error.read())["error"]["code"] == "UNAUTHENTICATED"
        else:
            raise AssertionError(path)


def plant(world, state, figures):
    """Leaves a calibration of this processor with these figures, by their numbers of base/figures.def, for a board with that state."""
    world.env.pop("KILN_CALIBRATION", None)
    if world.env.get("KILN_NATIVE"):
        raise harness.Skip("a machine that is its own level")
    world.run("doctor", "--calibrate")
    content = (world.home / "calibration").read_bytes()
    name = 2  # [version, name of the processor, figures]
    kind = content[name]
    assert content[:2] == b"\x93\x01" and (kind >> 5 == 5 or kind in (0xD9, 0xDA)), content[:8]
    size = {0xD9: 2, 0xDA: 3}.get(kind, 1)
    text = kind & 31 if kind >> 5 == 5 else int.from_bytes(content[name + 1:name + size], "big")
    folder = pathlib.Path(world.path(state))
    folder.mkdir()
    (folder / "calibration").write_bytes(content[:name + size + text] + bytes([0x80 | len(figures)]) + b"".join(bytes([number, 0xCB]) + struct.pack(">d", value) for number, value in sorted(figures.items())))


def test_what_memory_gives_is_measured_or_stated(world):
    """A roofline's other roof: by the figures of the board's processor, or the maker's of a GPU; nothing where neither is known."""
    clock, wide_clock, third, memory = 1, 2, 20, 21
    plant(world, "one", {clock: 2e9, wide_clock: 1.5e9, third: 8.0, memory: 4.0})
    server = Server(world)
    nothing = lambda target: server.get("roofline", target=target) == {"target": target, "of": None, "source": None, "levels": []}
    assert nothing("rpi4") and nothing("cuda:sm_90") and nothing("opencl")
    h200 = server.get("roofline", target="h200")
    assert h200["of"] == "device" and h200["levels"] == [{"name": "memory", "bytes_per_s": 4.8e12}] and "maker" in h200["source"], h200
    world.board(server.address, state="one")
    [board] = harness.until(lambda: server.get("boards")["items"], "the board")
    for target in (board["target"], board["target"].partition(",cores=")[0], board["target"].partition(",cores=")[0] + ",cores=64,threads=3"):
        found = server.get("roofline", target=target)
        assert found["of"] == "core" and found["target"] == target and "measured" in found["source"], found
        assert found["levels"] == [{"name": "memory", "bytes_per_s": 6e9}, {"name": "third cache", "bytes_per_s": 12e9}], found
    assert nothing("rpi4") and nothing(board["target"] + ",emulated")
    server.refused("roofline?target=abacus", 400, "INVALID_ARGUMENT")
    server.refused("roofline", 400, "INVALID_ARGUMENT")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
