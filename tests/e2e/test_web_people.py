#!/usr/bin/env python3
"""People who come by a web server: tokens, and connections of web servers that are treated as a person's."""
import json
import os
import pathlib
import pwd
import re
import stat
import sys

import harness
import wire
from harness import until


UNAUTHENTICATED = 15


def audit(world):
    path = pathlib.Path(world.home) / "tracker" / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_token(world, name, *options):
    """Its text, and the file that it is in."""
    file = pathlib.Path(world.path(name.replace("/", "_") + ".token"))
    world.run("key", "new", name, "--web", "-o", file, *options)
    return file.read_text().strip(), file


def make_key(world, name):
    file = world.path(name.replace("/", "_") + ".key")
    world.run("key", "new", name, "-o", file)
    return file


def secret_of(token):
    return bytes.fromhex(token.rsplit("-", 1)[1])


def web_peer(world, address, key_file, **hello):
    peer = wire.Peer.secured(address, key_file)
    name, values = peer.hello("web", "lab", versions=(1, 6), **hello)
    return peer, name, values


def sign_in(peer, person, secret, stream):
    return peer.ask("SIGN_IN", "SIGNED_IN", stream, person=person, secret=secret)


def test_tokens_are_made_listed_and_revoked(world):
    token, file = make_token(world, "client/ann")
    ring = pathlib.Path(world.home) / "keys"
    assert re.fullmatch(r"kiln-ann-[0-9a-f]{64}", token), token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.rsplit("-", 1)[1] not in ring.read_text() and "client/ann/web/1 " in ring.read_text()
    world.run("key", "new", "client/ann", "--web", "-o", world.path("second"), "--expires", "2099-12-31")
    world.run("key", "new", "admin/ann", "--web", "-o", world.path("third"))
    assert [(row["key"], row["expires"]) for row in world.json("key", "list")] == [
        ("client/ann/web/1", ""), ("client/ann/web/2", "2099-12-31"), ("admin/ann/web/1", "")]
    world.refused("key", "new", "client/ann", "--web", "-o", file, says="exists already")
    world.refused("key", "new", "board/x", "--web", says="only people sign in")
    world.refused("key", "rotate", "client/ann/web", says="make another with `kiln key new client/ann --web`")
    world.run("key", "revoke", "client/ann/web/1")
    assert [row["key"] for row in world.json("key", "list")] == ["client/ann/web/2", "admin/ann/web/1"]
    make_key(world, "client/ann")
    world.run("key", "revoke", "client/ann")  # all of them
    assert [row["key"] for row in world.json("key", "list")] == ["admin/ann/web/1"]


def test_a_web_server_asks_whose_token_it_is(world):
    key = make_key(world, "web/lab")
    token, _ = make_token(world, "client/ann")
    admin, _ = make_token(world, "admin/bob")
    _, address = world.tracker()
    peer, name, values = web_peer(world, address, key)
    assert name == "WELCOME" and values["version"] == 6, (name, values)
    assert sign_in(peer, "ann", secret_of(token), 1) == ("SIGNED_IN", {"person": "ann", "token": "client/ann/web/1"})
    assert sign_in(peer, "bob", secret_of(admin), 3) == ("SIGNED_IN", {"person": "bob", "admin": True, "token": "admin/bob/web/1"})
    for number, (person, secret) in enumerate([("ann", secret_of(admin)), ("eve", secret_of(token)), ("ann", bytes(32)), ("ann", b"")]):
        name, values = sign_in(peer, person, secret, 5 + 2 * number)
        assert (name, values["code"]) == ("ERROR", UNAUTHENTICATED), values
    name, values = peer.ask("QUERY", "ANSWER", 21, topic=0)  # a web server alone may do nothing
    assert name == "ERROR" and "a web may not send QUERY" in values["text"], values
    peer.close()
    events = [(e["event"], e["person"], e["by"]) for e in audit(world) if e["event"].startswith("sign")]
    assert events[:3] == [("signed_in", "ann", "web/lab/1"), ("signed_in", "bob", "web/lab/1"), ("sign_in_refused", "ann", "web/lab/1")], events
    assert token.rsplit("-", 1)[1] not in (pathlib.Path(world.home) / "tracker" / "audit.log").read_text()


def test_a_connection_for_a_person_has_that_persons_rights(world):
    key = make_key(world, "web/lab")
    make_token(world, "client/ann")
    make_token(world, "admin/bob")
    _, address = world.tracker()
    as_person = lambda person: ("--tracker", address, "--key-file", key, "--person", person)
    world.run("project", "new", "vision", "--tracker", address)
    world.run("project", "add", "vision", "cec", "--role", "viewer", "--tracker", address)
    sees = lambda person: "vision" in [p["project"] for p in world.json("project", "list", *as_person(person))]
    assert sees("cec") and sees("bob") and not sees("ann")  # cec needs no key
    world.refused("project", "set", "vision", "boards=3", *as_person("ann"), says="vision")
    world.run("project", "set", "vision", "boards=3", *as_person("bob"))
    world.refused("fleet", "list", *as_person("eve"), says="there is no person eve")
    acts = [e for e in audit(world) if e["event"] == "act" and e.get("by")]
    assert [(e["person"], e["by"], e["role"], e["message"]) for e in acts][-1] == ("bob", "web/lab/1", "admin", "PROJECT_ORDER"), acts


def test_the_trackers_own_user_speaks_for_others_and_itself(world):
    _, address = world.tracker()
    make_token(world, "client/ann")
    me = pwd.getpwuid(os.geteuid()).pw_name
    world.run("project", "new", "own", "--tracker", address, "--person", me)  # an administrator
    world.refused("project", "new", "other", "--tracker", address, "--person", "nobody-known", says="there is no person nobody-known")


def test_a_revoked_token_ends_the_connections_that_came_by_it(world):
    key = make_key(world, "web/lab")
    first, _ = make_token(world, "client/ann")
    make_token(world, "client/bob")
    make_key(world, "client/ann")
    _, address = world.tracker()
    mine, name, _ = web_peer(world, address, key, person="ann", signed_in="client/ann/web/1")
    assert name == "WELCOME"
    others, name, _ = web_peer(world, address, key, person="bob", signed_in="client/bob/web/1")
    assert name == "WELCOME"
    proxied, name, _ = web_peer(world, address, key, person="ann")  # signed in by a proxy: ann still has a key
    assert name == "WELCOME"
    world.run("key", "revoke", "client/ann/web/1")
    while True:
        name, stream, values = mine.read()
        if name == "ERROR" and stream == 0:
            break
    assert values["code"] == UNAUTHENTICATED and "client/ann/web/1 is revoked" in values["text"], values
    assert mine.is_closed()
    _, name, values = web_peer(world, address, key, person="ann", signed_in="client/ann/web/1")
    assert name == "ERROR" and "sign in again" in values["text"], values
    for peer in (others, proxied):
        name, values = peer.ask("PROJECT_QUERY", "PROJECTS", 1)
        assert name == "PROJECTS", values
    world.run("key", "revoke", "client/ann")
    assert proxied.is_closed()
    asking, _, _ = web_peer(world, address, key)
    name, values = sign_in(asking, "ann", secret_of(first), 1)
    assert (name, values["code"]) == ("ERROR", UNAUTHENTICATED), values
    for peer in (mine, others, proxied, asking):
        peer.close()


def test_a_job_that_a_web_server_opens_is_the_persons(world):
    key = make_key(world, "web/lab")
    make_token(world, "client/ann")
    _, address = world.tracker()
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "of-ann", "--tracker", address, "--key-file", key, "--person", "ann")
    row = world.json("jobs", "list", "--tracker", address)[0]
    assert (row["job"], row["user"], row["project"]) == ("of-ann", "ann", "default"), row
    changed = world.json("jobs", "priority", "of-a", 40, "--tracker", address, "--key-file", key, "--person", "ann")
    assert changed == [{"event": "priority", "job": "of-ann", "priority": 40}], changed
    assert world.json("jobs", "show", "of-ann", "--tracker", address)[0]["priority"] == 40
    world.refused("jobs", "priority", "of-ann", 101, "--tracker", address, says="a number up to 100")
    act = [e for e in audit(world) if e["event"] == "act"][-1]
    assert (act["person"], act["message"], act["body"]) == ("ann", "JOB_ORDER", {"job": "of-ann", "priority": 40}), act
    world.run("jobs", "cancel", "of-ann", "--tracker", address, "--key-file", key, "--person", "ann")
    until(lambda: world.json("jobs", "list", "--tracker", address)[0]["state"] == "cancelled", "the end of the job")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
