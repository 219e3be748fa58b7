#!/usr/bin/env python3
"""Peers that disconnect in the middle of each message that they send, or do not read the answers. Written against
the wire (wire.py); the tracker serves everybody else as if they were not there."""
import pathlib
import select
import sys

import harness
import wire
from harness import until

ASKED = 20000  # times that a peer asks which reads no answer, at most
MEMORY_KB = 64 << 10  # that all peers of a test together may cost


def sample(fields):
    """A value for each required field, that its limit allows."""
    def one(field):
        if field.record:
            return [sample(wire.RECORDS[field.record])] if field.many else sample(wire.RECORDS[field.record])
        return {"text": "x" * min(8, field.limit or 8), "u32": 1, "u64": 1, "f64": 1.0, "flag": True, "digest": bytes(32),
                "bytes": b"x", "u64s": [1]}.get(field.kind, 1)

    return {name: one(field) for name, field in fields.items() if field.required}


def sent_by(role):
    """The messages that the page lets `role` send, but those that begin a connection."""
    return [m for m in wire.MESSAGES.values() if role in m.roles and m.name not in ("HELLO", "PROOF")]


def connect(world, address, role, node):
    peer = wire.Peer(address)
    name, values = peer.hello(role, node, wire.token_of(world))
    assert name == "WELCOME", values
    return peer


def serves(peer):
    """Whether it answers a PING, and for how much memory the program holds."""
    peer.send("PING", t_ns=7)
    assert peer.expect("PONG")["t_ns"] == 7


def memory_kb(child):
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def test_the_page_is_read_whole(world):
    assert len(wire.MESSAGES) > 35 and wire.MESSAGES["TRIAL"].fields["artefact"].record == "blob_ref"
    text = {"key": "k", "value": "\u00e9"}
    assert wire.values_of(wire.RECORDS["label"], wire.body_of(wire.RECORDS["label"], text)) == text


def test_an_independent_peer_connects_with_a_key(world):
    key = world.path("ann.key")
    world.run("key", "new", "client/ann", "-o", key)
    _, address = world.tracker()
    ann = wire.Peer.secured(address, key)
    assert ann.hello("client", "ann")[0] == "WELCOME"
    assert ann.ask("QUERY", "ANSWER", topic=0)[1]["total"] == 0
    ann.close()
    eve = wire.Peer.secured(address, key, name="client/eve/1")
    try:
        assert eve.hello("client", "eve")[0] != "WELCOME"
    except wire.Closed:
        pass
    eve.close()


def test_every_message_is_cut_in_its_middle(world):
    tracker, address = world.tracker()
    watch = connect(world, address, "admin", "watch")
    before, count = memory_kb(tracker), 0
    for role in wire.ROLES:
        for message in sent_by(role):
            whole = wire.message(message.name, 1, **sample(message.fields))
            for cut in sorted({1, 15, 16, len(whole) // 2, len(whole) - 1}):
                peer = connect(world, address, role, f"{role}-{count}")
                peer.send_bytes(whole[:cut])
                if count % 2:  # half of them stay and say no more
                    peer.close()
                count += 1
        serves(watch)
    assert count > 300 and tracker.poll() is None
    assert memory_kb(tracker) - before < MEMORY_KB
    assert not world.json("jobs", "list", "--tracker", address), "half a message opened a job"


def test_peers_that_do_not_read_their_answers(world):
    """Each asks until the tracker hangs up or the sockets' buffers are full, having read half a header."""
    tracker, address = world.tracker()
    watch = connect(world, address, "admin", "watch")
    world.board(address)  # so that there is something to tell of
    before, stalled = memory_kb(tracker), []
    for role in wire.ROLES:
        for message in sent_by(role):
            peer = connect(world, address, role, f"{role}-{message.name}".replace("_", "-"))
            peer.socket.setblocking(False)
            request = wire.message(message.name, 1, **sample(message.fields))
            try:
                for _ in range(ASKED):
                    peer.socket.send(request)
            except OSError:  # full, or the tracker hung up
                pass
            if select.select([peer.socket], [], [], 0)[0]:
                try:
                    peer.socket.recv(8)
                except OSError:
                    pass
            stalled.append(peer)
        serves(watch)
    assert tracker.poll() is None
    assert memory_kb(tracker) - before < MEMORY_KB, memory_kb(tracker) - before
    until(lambda: [b["state"] for b in world.json("fleet", "list", "--tracker", address)].count("free") >= 1, "the board serving")
    for peer in stalled:
        peer.close()
    serves(watch)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
