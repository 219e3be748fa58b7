#!/usr/bin/env python3
"""Clients beyond their rights, written against the wire (wire.py): every message, from persons of every role, about the job of
somebody else. What is refused changes nothing."""
import hashlib
import os
import sqlite3
import sys

import harness
import wire

from test_wire import sample

NOT_FOUND, EXISTS, DENIED, EXHAUSTED = 5, 6, 7, 8  # of kiln_code
TARGET = "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"
PERSONS = ("eve", "vic", "ann", "oli")  # a stranger to the project, a viewer, a member, an operator
BEGIN = ("HELLO", "PROOF")
MODEL = b"a model, as far as the tracker knows"


def spec(**more):
    return {"model": wire.blob_ref(MODEL)["digest"], "target": TARGET, "searcher": "random", "project": "p", "detach": True, **more}


# What each message of people is sent with, and the ERROR that each person gets; None: it may.
ABOUT = [
    ("PING", {}, None, None, None, None),
    ("PONG", {}, None, None, None, None),
    ("ERROR", {"code": 2, "text": "x"}, None, None, None, None),
    ("WINDOW", {"bytes": 1}, None, None, None, None),
    ("JOB_OPEN", {"job": "new-%s", "spec": spec()}, DENIED, DENIED, None, None),
    ("JOB_OPEN", {"job": "native-%s", "spec": spec(by_client=True)}, DENIED, DENIED, DENIED, DENIED),
    ("JOB_OPEN", {"job": "hidden-%s", "spec": spec(project="nowhere")}, DENIED, DENIED, DENIED, DENIED),
    ("JOB_OPEN", {"job": "theirs", "spec": spec()}, EXISTS, DENIED, DENIED, None),
    ("JOB_DONE", {"job": "theirs", "code": 0}, NOT_FOUND, DENIED, DENIED, DENIED),
    ("JOB_CLOSE", {"job": "theirs"}, None, None, None, None),
    ("LEASE_REQ", {"request": 1, "job": "theirs", "target": TARGET, "trials": 1, "ttl_ms": 1000}, NOT_FOUND, DENIED, DENIED, DENIED),
    ("LEASE_RENEW", {"lease": 1}, None, None, None, None),  # answered LEASE_LOST, whosever it is
    ("LEASE_RELEASE", {"lease": 1}, None, None, None, None),
    ("TRIAL", {"lease": 1}, None, None, None, None),
    ("TRIAL_ACK", {"lease": 1}, None, None, None, None),
    ("QUERY", {"topic": 3, "id": "theirs"}, NOT_FOUND, None, None, None),
    ("QUERY", {"topic": 2}, None, None, None, None),
    ("WATCH", {"topic": 3, "id": "theirs"}, NOT_FOUND, None, None, None),
    ("PROBE", {"wait_ms": 1}, None, None, None, None),
    ("PROJECT_QUERY", {"project": "p"}, NOT_FOUND, None, None, None),
    ("PROJECT_ORDER", {"project": "p", "act": 3, "person": "eve", "role": 4}, DENIED, DENIED, DENIED, DENIED),
    ("PROJECT_ORDER", {"project": "q", "act": 0}, DENIED, DENIED, DENIED, DENIED),
    ("PROJECT_ORDER", {"project": "p", "act": 1, "settings": [{"name": "boards", "value": 0}]}, DENIED, DENIED, DENIED, DENIED),
    ("PROJECT_ORDER", {"project": "default", "act": 3, "person": "eve", "role": 4}, DENIED, DENIED, DENIED, DENIED),
    ("PROJECT_ORDER", {"project": "p", "act": 5, "signer": "5a" * 32}, DENIED, DENIED, DENIED, DENIED),
    ("PROJECT_ORDER", {"project": "p", "act": 6, "signer": "a5" * 32}, DENIED, DENIED, DENIED, DENIED),
    ("JOB_ORDER", {"job": "theirs", "priority": 0}, NOT_FOUND, DENIED, DENIED, None),
    ("CANCEL", {"scope": 1, "id": "theirs"}, DENIED, DENIED, DENIED, DENIED),
    ("CANCEL", {"scope": 0, "id": "theirs"}, NOT_FOUND, DENIED, DENIED, None),
    ("RESERVE", {"board": "nowhere"}, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    ("MAINTENANCE_QUERY", {}, None, None, None, None),
    ("RECORDS_ASK", {"question": 0, "tuner": ""}, None, None, None, None),
    ("UPGRADE_QUERY", {}, DENIED, DENIED, DENIED, DENIED),
    ("GOAWAY", {"reason": "x"}, None, None, None, None),
    ("KEY_TAKEN", {"generation": 7}, None, None, None, None),  # of an offer that nobody made
]
BLOBS = ("BLOB_HAVE", "BLOB_PUT", "BLOB_GET")  # the service of blobs answers them


def named(values, person):
    return {k: v % person if isinstance(v, str) and "%s" in v else v for k, v in values.items()}


def outcome(peer, stream, name, values):
    """The code of the ERROR that the message gets before a PING that follows it is answered; None: there is none."""
    peer.send(name, stream, **{**sample(wire.MESSAGES[name].fields), **values})
    peer.send("PING", t_ns=stream)
    code = None
    while True:
        got, on, answer = peer.read()
        if got == "ERROR":
            code = answer["code"]
        if got == "PING":
            peer.send("PONG", on, **answer)
        if got == "PONG" and answer.get("t_ns") == stream:
            return code


def persons(world, address):
    """A connection of each, with a key of its own."""
    peers = {}
    for person in PERSONS:
        peers[person] = wire.Peer.secured(address, world.path(person + ".key"))
        name, values = peers[person].hello("client", person)
        assert name == "WELCOME", values
        if person in ("ann", "oli"):
            assert peers[person].put_blob(MODEL, 1)[0] == "BLOB_OK", person
    return peers


def begin(world, *options):
    for person in PERSONS:
        world.run("key", "new", f"client/{person}", "-o", world.path(person + ".key"))
    tracker, address = world.tracker(*options)
    run = lambda *argv: world.run("project", *argv, "--tracker", address)
    run("new", "p")
    for person, role in (("vic", "viewer"), ("ann", "member"), ("oli", "operator")):
        run("add", "p", person, "--role", role)
    run("trust", "p", "a5" * 32)
    return tracker, address


def open_theirs(world, address):
    """A job of the tracker's user."""
    owner = wire.Peer(address)
    assert owner.hello("client", "owner", wire.token_of(world))[0] == "WELCOME"
    assert owner.ask("JOB_OPEN", "JOB_STATE", 7, job="theirs", spec=spec())[0] == "JOB_STATE"
    return owner


def test_every_message_of_every_role_gets_what_the_table_says(world):
    _, address = begin(world)
    owner, peers = open_theirs(world, address), persons(world, address)
    wrong, stream = [], 1
    people = {name for name, m in wire.MESSAGES.items() if "client" in m.roles}
    missing = people - {row[0] for row in ABOUT} - set(BEGIN) - set(BLOBS)
    assert not missing, f"nothing is expected of {missing}"
    for name in sorted(set(wire.MESSAGES) - people):
        for person in PERSONS:
            stream += 2
            code = outcome(peers[person], stream, name, {})
            if code != DENIED:
                wrong.append((name, person, code))
    for name, values, *expected in ABOUT:
        for person, code in zip(PERSONS, expected):
            stream += 2
            got = outcome(peers[person], stream, name, named(values, person))
            if got != code:
                wrong.append((name, values, person, f"{got}, not {code}"))
    assert not wrong, "\n".join(map(str, wrong))
    # What was refused changed nothing, and the operator's order was carried out.
    rows = {row["job"]: row for row in world.json("jobs", "list", "--tracker", address)}
    assert set(rows) == {"theirs", "new-ann", "new-oli"}, rows
    assert rows["theirs"]["state"] == "cancelled" and rows["new-ann"]["user"] == "ann", rows
    [project] = world.json("project", "show", "p", "--tracker", address)
    assert [m["person"] for m in project["members"]] == ["vic", "ann", "oli"], project
    assert [s["signer"] for s in project["signers"]] == ["a5" * 32], project
    owner.close()


def test_a_digest_alone_is_no_right_to_a_blob(world):
    _, address = begin(world)
    owner, secret = open_theirs(world, address), b"the weights of another project"
    assert owner.put_blob(secret, 9)[0] == "BLOB_OK"
    ref = wire.blob_ref(secret)
    peers = persons(world, address)
    for stream, (person, peer) in enumerate(peers.items()):
        name, answer = peer.ask("BLOB_GET", "BLOB_PUT", 101 + 2 * stream, digest=ref["digest"])
        assert name == "ERROR" and answer["code"] == NOT_FOUND, (person, name, answer)
        # Not even that it is there is told; nor does a job that names it help.
        name, answer = peer.ask("BLOB_HAVE", "BLOB_MISSING", 201 + 2 * stream, blobs=[ref])
        assert name == "BLOB_MISSING" and answer["blobs"] == [ref], (person, answer)
        code = outcome(peer, 301 + 2 * stream, "JOB_OPEN", {"job": f"steal-{person}", "spec": spec(model=ref["digest"])})
        assert code == (NOT_FOUND if person in ("ann", "oli") else DENIED), (person, code)
        name, _ = peer.ask("BLOB_GET", "BLOB_PUT", 401 + 2 * stream, digest=ref["digest"])
        assert name == "ERROR", person
    # Who may open no job may hand in nothing.
    for person in ("eve", "vic"):
        world.run("project", "set", "default", "everyone=none", "--tracker", address)
        name, answer = peers[person].put_blob(b"x" * 10, 501)
        assert name == "ERROR" and answer["code"] == DENIED, (person, name, answer)
    # Whoever has the content itself loses nothing: it is put once more, and is then its own.
    assert peers["ann"].put_blob(secret, 601)[0] == "BLOB_OK"
    name, _ = peers["ann"].ask("BLOB_GET", "BLOB_PUT", 603, digest=ref["digest"])
    assert name == "BLOB_PUT"
    # What a job of the project has, a viewer reads.
    assert peers["oli"].ask("JOB_OPEN", "JOB_STATE", 701, job="j", spec=spec())[0] == "JOB_STATE"
    name, _ = peers["vic"].ask("BLOB_GET", "BLOB_PUT", 703, digest=wire.blob_ref(MODEL)["digest"])
    assert name == "BLOB_PUT"
    name, _ = peers["eve"].ask("BLOB_GET", "BLOB_PUT", 705, digest=wire.blob_ref(MODEL)["digest"])
    assert name == "ERROR"


def test_an_insecure_tracker_takes_nobody_for_its_user_without_proof(world):
    """Other users of its machine come as those of other machines do; its user's programs prove that they know the token."""
    _, address = world.tracker("--insecure")
    new = ["project", "new", "p", "--tracker", address]
    world.refused(*new, "--insecure", says="right")
    world.run(*new)


def test_claims_of_a_client_about_itself_are_ignored(world):
    _, address = begin(world)
    peers = persons(world, address)
    ann = peers["ann"]
    assert ann.ask("JOB_OPEN", "JOB_STATE", 3, job="j", spec=spec(user="root"))[0] == "JOB_STATE"
    [row] = world.json("jobs", "list", "--tracker", address)
    assert (row["user"], row["project"]) == ("ann", "p"), row
    # Another name than the key's, and another role.
    for role, node in (("client", "oli"), ("admin", "ann"), ("tuner", "ann"), ("board", "ann")):
        peer = wire.Peer.secured(address, world.path("ann.key"))
        name, _ = peer.hello(role, node)
        assert name == "ERROR", (role, node)


def test_one_client_asks_only_so_often_and_the_others_are_served(world):
    _, address = begin(world)
    peers = persons(world, address)
    for i in range(1500):
        peers["ann"].send("QUERY", 2 * i + 1, topic=2)
    peers["ann"].send("PING", t_ns=5)
    refused = 0
    while True:
        name, _, values = peers["ann"].read()
        refused += name == "ERROR" and values["code"] == EXHAUSTED
        if name == "PONG" and values.get("t_ns") == 5:
            break
    assert refused > 100, refused
    assert outcome(peers["oli"], 3, "QUERY", {"topic": 2}) is None


def test_projects_are_made_shown_changed_and_kept(world):
    tracker, address = begin(world, "--state", world.path("state"))
    at = ["--tracker", address]
    [p] = world.json("project", "quota", "p", "boards=4", "board-seconds=3600", "weight-max=10", *at)
    assert {s["name"]: s["value"] for s in p["settings"]} == {"boards": 4, "board-seconds": 3600, "weight-max": 10}, p
    world.refused("project", "set", "p", "weight=11", *at, says="at most 10")
    world.refused("project", "set", "p", "colour=1", *at, says="there is no setting 'colour'")
    world.refused("project", "new", "p", *at, says="there already")
    world.refused("project", "show", "q", *at, says="no project q")
    ann = ["--key-file", world.path("ann.key"), *at]
    world.refused("project", "add", "p", "eve", *ann, says='the right "manage" is missing')
    world.refused("project", "quota", "p", "boards=0", *ann, says="may not")
    world.run("project", "add", "p", "ann", "--role", "admin", *at)
    world.run("project", "add", "p", "eve", "--role", "viewer", *ann)
    world.refused("project", "add", "p", "eve", "--native", *ann, says="admin keys")
    world.run("project", "remove", "p", "vic", *ann)
    assert {row["project"] for row in world.json("project", "list", *ann)} == {"default", "p"}
    shown = world.run("project", "show", "p", *at).stdout
    assert "boards=4" in shown and "ann" in shown and "vic" not in shown, shown
    world.kill(tracker)
    _, address = world.tracker("--state", world.path("state"))
    [p] = world.json("project", "show", "p", "--tracker", address)
    assert sorted((m["person"], m["role"]) for m in p["members"]) == [("ann", 4), ("eve", 1), ("oli", 3)], p
    world.run("project", "drop", "p", "--tracker", address)
    world.refused("project", "show", "p", "--tracker", address, says="no project p")


def test_a_projects_admin_trusts_signers_while_their_keys_are_in_force(world):
    for name in ("tuner/bench", "client/ann", "client/bob"):
        world.run("key", "new", name, "-o", world.path(name.replace("/", "-") + ".key"))
    tracker, address = world.tracker()
    to = ("--tracker", address)
    as_person = lambda person: (*to, "--key-file", world.path(f"client-{person}.key"))
    for project, person in (("p", "ann"), ("q", "bob")):
        world.run("project", "new", project, *to)
        world.run("project", "add", project, person, "--role", "admin", *to)
    shown = lambda: world.json("project", "show", "p", *to)[0].get("signers", [])
    world.refused("project", "trust", "p", "bench", *as_person("bob"), says="bob may not add and remove members, trust signers")
    world.run("project", "trust", "p", "bench", *as_person("ann"))
    [signer] = shown()
    half = next(line for line in open(world.home / "keys") if line.startswith("tuner/bench/1 ")).split("public=")[1].split()[0]
    assert (signer["signer"], signer["node"], signer["by"]) == (half, "tuner/bench", "ann") and not signer.get("ended"), signer
    world.kill(tracker)
    _, address = world.tracker(address=address)
    assert shown() == [signer]
    world.run("key", "revoke", "tuner/bench")
    harness.until(lambda: shown()[0].get("ended"), "the end of the key")
    world.refused("project", "trust", "p", "tuner/bench/1", *as_person("ann"), says="nor a node with a key that signs")
    world.run("project", "trust", "p", "tuner/bench", "--remove", *as_person("ann"))
    assert shown() == [], shown()


def kept_blobs(state):
    db = sqlite3.connect(f"file:{state}/tracker.db?mode=ro", uri=True)
    try:
        return [row[0] for row in db.execute("SELECT id FROM tracker_blob")]
    finally:
        db.close()


def test_uploads_of_a_client_survive_a_killed_tracker(world):
    """Who put a blob is on disk soon: after a kill a client opens its job without handing in again, and nobody else can."""
    state, model = world.folder / "state", b"a model of ann's"
    theirs = spec(model=wire.blob_ref(model)["digest"])
    tracker, address = begin(world, "--state", state)
    ann = wire.Peer.secured(address, world.path("ann.key"))
    assert ann.hello("client", "ann")[0] == "WELCOME"
    assert ann.put_blob(model, 1)[0] == "BLOB_OK"
    harness.until(lambda: kept_blobs(state), "the blob's row")
    assert kept_blobs(state) == [hashlib.sha256(model).hexdigest() + "/ann"], kept_blobs(state)
    world.kill(tracker)
    _, address = world.tracker("--state", state)
    peers = persons(world, address)
    name, values = peers["oli"].ask("JOB_OPEN", "JOB_STATE", 3, job="of-oli", spec=theirs)
    assert name == "ERROR" and values["code"] == NOT_FOUND, (name, values)
    name, values = peers["ann"].ask("JOB_OPEN", "JOB_STATE", 3, job="of-ann", spec=theirs)
    assert name == "JOB_STATE", values


def test_unused_blobs_are_removed_and_a_row_keeps_its_blob(world):
    state = world.folder / "state"
    tracker, address = begin(world, "--state", state)
    ann = wire.Peer.secured(address, world.path("ann.key"))
    assert ann.hello("client", "ann")[0] == "WELCOME"
    assert ann.put_blob(MODEL, 1)[0] == "BLOB_OK"
    harness.until(lambda: kept_blobs(state), "the blob's row")
    world.kill(tracker)
    mine = state / "blobs" / hashlib.sha256(MODEL).hexdigest()
    stray = state / "blobs" / hashlib.sha256(b"stray").hexdigest()
    stray.write_bytes(b"stray")
    for path in (mine, stray):
        os.utime(path, (1000, 1000))
    (state / "blobs-collected").unlink(missing_ok=True)  # a day later
    world.tracker("--state", state)
    harness.until(lambda: not stray.exists(), "the old blob going")
    assert mine.exists()


def test_the_blobs_of_a_person_are_bounded(world):
    state = world.folder / "state"
    _, address = begin(world, "--state", state, "--person-blobs", 0.0001)  # 107,374 bytes
    ann = wire.Peer.secured(address, world.path("ann.key"))
    assert ann.hello("client", "ann")[0] == "WELCOME"
    blobs = [bytes([i]) * 40000 for i in range(3)]
    for i, blob in enumerate(blobs):
        assert ann.put_blob(blob, 2 * i + 1)[0] == "BLOB_OK"
    files = [state / "blobs" / hashlib.sha256(blob).hexdigest() for blob in blobs]
    harness.until(lambda: not files[0].exists(), "the oldest blob going")
    assert files[1].exists() and files[2].exists()
    name, values = ann.put_blob(b"x" * 107375, 99)
    assert name == "ERROR" and values["code"] == EXHAUSTED and "--person-blobs" in values["text"], (name, values)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
