#!/usr/bin/env python3
"""The compile service: the same question has the same answer, work is shared, cancelled and done as the person."""
import concurrent.futures
import hashlib
import http.server
import json
import pathlib
import socket
import sys
import threading

import harness
from web_data import Server

BOUNDARY = "----kiln-test"


def form(model=None, **fields):
    """(body, headers) of a form."""
    parts = []
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    if model is not None:
        parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="model"; filename="m.onnx"\r\n'
                     'Content-Type: application/octet-stream\r\n\r\n'.encode() + model + b"\r\n")
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def ask(server, model=None, wait=60, **fields):
    body, headers = form(model, **fields)
    status, headers, body = server.ask("POST", "/api/v1/compile", body, headers, query={"wait": wait})
    return status, json.loads(body)


def compiled(server, model=None, **fields):
    status, answer = ask(server, model, **fields)
    while status == 202:
        status, _, body = server.ask("GET", f"/api/v1/compile/{answer['id']}", query={"wait": 60})
        answer = json.loads(body)
    assert status == 200 and answer["state"] == "done", answer
    return answer


def refused(server, status, code, **fields):
    got, answer = ask(server, **fields)
    assert got == status and answer["error"]["code"] == code, answer
    return answer["error"]["message"]


def zoo(world, name="gemm:16x16x16"):
    return pathlib.Path(world.zoo(name)).read_bytes()


def test_the_same_question_has_the_same_answer(world):
    server, model = Server(world), zoo(world)
    first = compiled(server, model, target=["native", "x86-64"])
    assert [m["state"] for m in first["targets"]] == ["done", "done"]
    for module in first["targets"]:
        status, headers, body = server.ask("GET", f"/api/v1/modules/{module['module']}")
        assert status == 200 and hashlib.sha256(body).hexdigest() == module["module"] and len(body) == module["bytes"]
        (world.folder / "m.kiln").write_bytes(body)
        inspected = server.get(f"modules/{module['module']}/inspect")
        wanted = world.json("inspect", "m.kiln", "--steps")
        assert wanted[0].pop("file") and inspected == {"items": wanted}, inspected
    assert ask(server, model, wait=0, target=["native", "x86-64"]) == (200, first)
    digest = hashlib.sha256(model).hexdigest()
    body = json.dumps({"model": digest, "targets": ["native", "x86-64"]}).encode()
    status, _, again = server.ask("POST", "/api/v1/compile", body, {"Content-Type": "application/json"})
    assert status == 200 and json.loads(again) == first, again
    other = compiled(server, model, target="native", precision="bf16")
    assert other["id"] != first["id"]
    named = compiled(server, model, target="native", name="small gemm.onnx")["targets"][0]["module"]
    assert server.get(f"modules/{named}/inspect")["items"][0]["metadata"]["model"] == "small gemm.onnx"
    server.stop()
    server.start()  # what was compiled before is still known
    assert ask(server, model, wait=0, target=["native", "x86-64"]) == (200, first)


def test_a_hundred_clients_at_once(world):
    server, model = Server(world), zoo(world)
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: compiled(server, model, target="native"), range(100)))
    assert all(answer == answers[0] for answer in answers)
    # One module, and one note of it.
    assert sorted(p.suffix for p in (world.home / "web/modules").iterdir()) == [".json", ".kiln"]


def test_models_are_uploaded_in_pieces(world):
    server, model = Server(world), zoo(world)
    _, headers, body = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": str(len(model))})
    place, upload = headers["Location"], json.loads(body)["id"]
    message = refused(server, 409, "FAILED_PRECONDITION", upload=upload, target="native")
    assert f"0 of {len(model)} bytes" in message
    server.ask("PATCH", place, model, {"Upload-Offset": "0"})
    by_upload = compiled(server, upload=upload, target="native")
    assert by_upload == compiled(server, upload=hashlib.sha256(model).hexdigest(), target="native")
    refused(server, 404, "NOT_FOUND", upload="0" * 64, target="native")


def test_an_upload_goes_on_after_the_server_was_killed(world):
    server, model = Server(world), zoo(world) + b"\0" * (3 << 20)  # in several writes of the server; bytes behind the graph are no model
    _, headers, body = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": str(len(model))})
    place, half = headers["Location"], len(model) // 2
    name = place.removeprefix("/api/v1/")
    assert server.ask("PATCH", place, model[:half], {"Upload-Offset": "0"})[0] == 200
    server.kill_and_start()
    shown = server.get(name)
    assert (shown["offset"], shown["size"]) == (half, len(model)) and "blob" not in shown, shown
    assert server.ask("PATCH", place, model[half:half + 1], {"Upload-Offset": "0"})[0] == 409  # few bytes: the answer ends the connection
    # Killed in the middle of a request: what reached the file counts.
    [file] = (world.home / "web/uploads").glob("*/*")
    with socket.create_connection(("127.0.0.1", int(server.port_file.read_text()))) as client:
        client.sendall(f"PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nUpload-Offset: {half}\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(model) - half}\r\n\r\n".encode())
        client.sendall(model[half:half + (1 << 20)])
        harness.until(lambda: file.stat().st_size > half, "some of these bytes in the file")
        server.kill_and_start()
    half = server.get(name)["offset"]
    assert half > len(model) // 2 and half == file.stat().st_size, half
    status, _, body = server.ask("PATCH", place, model[half:-1], {"Upload-Offset": str(half)})
    assert status == 200 and json.loads(body)["offset"] == len(model) - 1, body
    server.kill_and_start()
    server.kill_and_start()
    status, _, body = server.ask("PATCH", place, model[-1:], {"Upload-Offset": str(len(model) - 1)})
    digest = hashlib.sha256(model).hexdigest()
    assert status == 200 and json.loads(body)["blob"] == digest, body
    server.kill_and_start()  # the client may not have got the answer
    assert server.get(name)["blob"] == digest
    [stored] = (world.home / "web/models").glob("*/*")
    assert stored.name == digest and stored.read_bytes() == model
    assert server.ask("DELETE", place)[0] == 204
    server.kill_and_start()
    server.get(name, status=404)
    assert not list((world.home / "web/uploads").iterdir()) and stored.exists()


def test_the_command_submits(world):
    server, file = Server(world), world.zoo("gemm:16x16x16")
    [module] = world.json("submit", file, "--web", server.base, "-o", world.path("one.kiln"))
    digest = hashlib.sha256(pathlib.Path(world.path("one.kiln")).read_bytes()).hexdigest()
    assert module["module"] == digest and module["file"] == world.path("one.kiln"), module
    assert world.json("inspect", "one.kiln")[0]["metadata"]["model"] == pathlib.Path(file).name
    world.run("submit", file, "--web", server.base, "--name", "small one", "-o", world.path("named.kiln"))
    assert world.json("inspect", "named.kiln")[0]["metadata"]["model"] == "small one"
    uploads = sorted((world.home / "web/models").glob("*/*"))
    world.run("submit", file, "--web", server.base + "/", "--target", "native", "--target", "x86-64", "-o", world.path("two.kiln"))
    assert pathlib.Path(world.path("two.1.kiln")).read_bytes() == pathlib.Path(world.path("one.kiln")).read_bytes()
    assert pathlib.Path(world.path("two.2.kiln")).exists() and sorted((world.home / "web/models").glob("*/*")) == uploads
    world.refused("submit", file, says="--web URL is missing")
    world.refused("submit", file, "--web", server.base, "--name", "a\nb", says='--name "a\\x0ab" has line ends')
    world.refused("submit", file, "--web", "http://127.0.0.1:1", says="127.0.0.1:1")
    world.refused("submit", file, "--web", server.base, "--target", "abacus", says="the server: ")
    pathlib.Path(world.path("wrong")).write_text("kiln-x-0\n")
    world.refused("submit", file, "--web", server.base, "--token-file", world.path("wrong"), says="the token is wrong")
    pathlib.Path(world.path("none.onnx")).write_bytes(b"\x08\x07\xff" * 100)
    world.refused("submit", world.path("none.onnx"), "--web", server.base, says="failed")
    assert not list(world.folder.glob("*.part"))


class Lossy(http.server.BaseHTTPRequestHandler):
    """Hands requests to the server behind it, but loses some: `lost` says of each PATCH whether it is lost before or after the server had it."""

    def log_message(self, *_):
        pass

    def hand_over(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        how = self.server.lost.pop(0) if self.command == "PATCH" and self.server.lost else None
        if how != "before":
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "authorization", "expect", "connection")}
            status, _, answer = self.server.behind.ask(self.command, self.path, body or None, headers)
        if how:
            self.server.seen.append(how)
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = hand_over


def test_the_command_goes_on_where_an_answer_was_lost(world):
    server, file = Server(world), world.zoo("gemm:16x16x16")
    lossy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
    lossy.behind, lossy.lost, lossy.seen = server, ["before", "before", "after"], []
    threading.Thread(target=lossy.serve_forever, daemon=True).start()
    try:
        world.run("submit", file, "--web", f"http://127.0.0.1:{lossy.server_port}", "-o", world.path("m.kiln"))
        assert lossy.seen == ["before", "before", "after"], lossy.seen
        world.run("inspect", "m.kiln")
    finally:
        lossy.shutdown()
        lossy.server_close()


def test_tuning_is_a_job_of_the_person(world):
    server, model = Server(world), zoo(world, "gemm:64x64x64")
    world.tuner(server.address)
    world.board(server.address)
    answer = compiled(server, model, target="native", trials="6")
    world.run("submit", world.zoo("gemm:64x64x64"), "--web", server.base, "--trials", "6", "--name", "nightly gemm", "-o", world.path("tuned.kiln"))
    assert {"nightly gemm"} < {row["model_name"] for row in world.json("jobs", "list", "--tracker", server.address)}
    [module] = answer["targets"]
    [job] = [row for row in server.get("jobs")["items"] if row["job"] == module["job"]]
    assert job["state"] == "done" and module["bytes"] > 0 and module["progress"]["tasks"], job
    status, long = ask(server, model, wait=0, target="native", trials="900000")
    assert status == 202 and long["state"] == "running", long
    show = lambda: server.get(f"compile/{long['id']}", status=202)
    harness.until(lambda: show()["targets"][0]["job"], "the job being open")
    job = show()["targets"][0]["job"]
    status, _, body = server.ask("DELETE", f"/api/v1/compile/{long['id']}")
    assert status == 200 and json.loads(body)["state"] == "cancelled", body
    harness.until(lambda: [r for r in server.get("jobs")["items"] if r["job"] == job and r["state"] == "cancelled"], "the job's end")


def open_job(server, status=200, person=None, **fields):
    got, _, body = server.ask("POST", "/api/v1/jobs", json.dumps(fields).encode(), {"Content-Type": "application/json"}, person=person)
    assert got == status, (got, body)
    return json.loads(body)


def upload(server, model, person=None):
    """The upload's identity, and the model's SHA-256."""
    _, headers, body = server.ask("POST", "/api/v1/uploads", headers={"Upload-Length": str(len(model))}, person=person)
    _, _, whole = server.ask("PATCH", headers["Location"], model, {"Upload-Offset": "0"}, person=person)
    return json.loads(body)["id"], json.loads(whole)["blob"]


def test_a_job_is_opened(world):
    server, model = Server(world), zoo(world, "gemm:64x64x64")
    world.tuner(server.address, "--db", world.path("tuner.db"))
    world.board(server.address)
    name, digest = upload(server, model)
    row = open_job(server, model=name, name="small gemm.onnx", target="native", trials=6, priority=7)
    assert row["model_name"] == "small gemm.onnx" and row["project"] == "default" and row["priority"] == 7 and row["trials"] == 6 and row["user"], row
    harness.until(lambda: server.get(f"jobs/{row['job']}")["state"] == "done", "the end of the job")
    assert server.get(f"jobs/{row['job']}")["done"] == 6
    named = {"model": digest, "target": "native", "seconds": 3600, "job": "mine"}
    first = open_job(server, **named)
    again = open_job(server, **named)  # it is open already
    assert first["job"] == again["job"] == "mine" and server.get("jobs")["total"] == 2, (first, again)
    status, _, body = server.ask("POST", "/api/v1/jobs/mine/cancel", b"{}", {"Content-Type": "application/json"})
    assert status == 200, body
    for wrong in ({"target": "abacus"}, {"target": None}, {"trials": 0}, {"trials": 1, "seconds": 1}, {"priority": 101}, {"job": "a\nb"},
                  {"model": None}, {"out": "/tmp/x"}, {"precision": "--out=/tmp/x"}, {"dims": ["batch"]}, {"dims": ["batch=1\n"]}):
        fields = {"model": digest, "target": "native", **wrong}
        answer = open_job(server, 400, **{key: value for key, value in fields.items() if value is not None})
        assert answer["error"]["code"] == "INVALID_ARGUMENT", (wrong, answer)
    open_job(server, 404, model="0" * 64, target="native")
    _, broken = upload(server, b"\x08\x07\xff" * 100)
    answer = open_job(server, 400, model=broken, target="native")
    assert str(world.home) not in answer["error"]["message"], answer  # nor where the server keeps it


def test_jobs_are_opened_with_a_persons_rights(world):
    for person in ("ann", "bob"):
        world.run("key", "new", f"client/{person}", "-o", world.path(person))
    server, model = Server(world, key="web/lab"), zoo(world)
    world.run("project", "new", "open", "--tracker", server.address)
    for person, role in (("ann", "member"), ("bob", "viewer")):
        world.run("project", "add", "open", person, "--role", role, "--tracker", server.address)
    name, digest = upload(server, model, "ann")
    row = open_job(server, person="ann", model=name, target="native", trials=4, project="open")
    assert row["user"] == "ann" and row["project"] == "open", row
    answer = open_job(server, 404, "bob", model=digest, target="native", project="open")  # it is ann's
    _, digest = upload(server, model, "bob")
    answer = open_job(server, 403, "bob", model=digest, target="native", project="open")
    assert answer["error"]["code"] == "PERMISSION_DENIED" and server.get("jobs")["total"] == 1, answer


def test_bad_questions(world):
    server, model = Server(world), zoo(world)
    refused(server, 400, "INVALID_ARGUMENT", target="native")
    refused(server, 400, "INVALID_ARGUMENT", model=model)
    for wrong in ({"target": "abacus"}, {"trials": "0"}, {"trials": "x"}, {"trials": "1", "seconds": "1"}, {"exact": "perhaps"},
                  {"dim": "batch"}, {"out": "/tmp/x"}, {"db": "/etc/passwd"}, {"target": ["native"] * 17}, {"precision": "a\nb"},
                  {"project": "x" * 2000}):
        refused(server, 400, "INVALID_ARGUMENT", **{"model": model, "target": "native", **wrong})
    for name in ("precision", "accuracy", "dim"):
        status, answer = ask(server, model, **{"target": "native", name: "--out=/tmp/x"})
        assert status == 200 and answer["targets"][0]["error"]["code"] == "INVALID_ARGUMENT", answer
    assert not pathlib.Path("/tmp/x").exists()


def test_models_that_are_none(world):
    server = Server(world)
    refused(server, 400, "INVALID_ARGUMENT", model=b"", target="native")
    for model in (b"\0" * 100, b"PK\x03\x04" + b"\0" * 1000, zoo(world)[:-40], b"\x08\x07\xff" * 5000):
        status, answer = ask(server, model, target="native")
        [module] = answer["targets"]
        assert status == 200 and module["state"] == "failed" and module["error"]["code"] != "OK", answer
        assert str(world.home) not in module["error"]["message"], module  # nor where the server keeps it
    assert [p.name for p in (world.home / "web/modules").iterdir()] == []
    assert ask(server, zoo(world), target="native")[1]["state"] == "done"  # the server is as it was


def test_modules_that_are_broken(world):
    server = Server(world)
    [module] = compiled(server, zoo(world), target="native")["targets"]
    path = f"modules/{module['module']}/inspect"
    [file] = (world.home / "web/modules").glob("*.kiln")
    whole = file.read_bytes()
    assert server.get(path)["items"]
    half = len(whole) // 2
    for broken in (b"", b"KILN", whole[:half], whole[:-1], b"\0" * len(whole), whole[:half] + b"\xff" * 64 + whole[half + 64:], b"\xff" * 16 + whole[16:]):
        file.write_bytes(broken)
        message = server.refused(path, 500, "DATA_LOSS")
        assert str(world.home) not in message, message
    file.unlink()
    server.refused(path, 500, "DATA_LOSS")
    file.write_bytes(whole)
    assert server.get(path)["items"]  # the server is as it was


def test_forms_that_are_broken(world):
    server, model = Server(world), zoo(world)
    whole, headers = form(model, target="native")
    bodies = [b"", b"--", whole[:-4], whole[:len(whole) // 2], whole.replace(b"name=", b"nume="), whole + b"more",
              form(model, **{f"target{i}": "x" for i in range(300)})[0], whole.replace(b"form-data", b"x" * 9000),
              whole.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1), form(model)[0][:-len(BOUNDARY) - 6] + whole]
    for number, body in enumerate(bodies):
        status, _, answer = server.ask("POST", "/api/v1/compile", body, headers)
        wanted = 202 if body == whole + b"more" else 400
        assert status == wanted, (number, status, answer)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a\nb\"", "text/plain",
                 "multipart/form-data; boundary=" + "x" * 71, "multipart/mixed; boundary=x"):
        if "\n" not in kind:
            assert server.ask("POST", "/api/v1/compile", whole, {"Content-Type": kind})[0] == 400, kind
    for text in (b"", b"{", b"[]", b'{"model": {}}', b'{"model": "x", "target": "native"}', b'{"target": [[[]]]}', b'{"a": 1, "a": 2}',
                 b'{"model": 1e400}', b"[" * 100000, b'{"dims": {"a": "b"}}'):
        status, _, answer = server.ask("POST", "/api/v1/compile", text, {"Content-Type": "application/json"})
        assert status in (400, 404) and "error" in json.loads(answer), (text[:50], answer)
    for name in ("0" * 64, "x", "..%2F..%2Fkeys"):
        for path in ("modules", "compile"):
            assert server.ask("GET", f"/api/v1/{path}/{name}")[0] in (400, 404)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
