#!/usr/bin/env python3
"""Small messages that expand to much: compressed frames whose size is too large or false, and records and traces that nest or
repeat without end. Written against the wire (wire.py); none may take more memory than its bytes justify, and other peers are served."""
import json
import pathlib
import struct
import sys

import harness
import wire

MEMORY_KB = 32 << 10  # that all bombs of a test together may cost
BLOCK = 128 << 10  # the most that four bytes of zstd stand for
ZSTD = 1  # feature of HELLO


def memory_kb(child):
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def zstd(real, declared=None):
    """A frame of zstd (RFC 8878) that is `real` zeros and says it is `declared`, by blocks that repeat a byte; None: it does not say."""
    out = struct.pack("<I", 0xFD2FB528)
    out += b"\xe0" + struct.pack("<Q", declared) if declared is not None else b"\x00\x88"  # size, or a window of 128 MiB
    while True:
        size = min(real, BLOCK)
        real -= size
        out += ((size << 3) | (1 << 1) | (real == 0)).to_bytes(3, "little") + b"\0"
        if not real:
            return out


def skippable(size):
    return struct.pack("<II", 0x184D2A50, size) + bytes(size)


BOMBS = {
    "2 GiB": zstd(1 << 31, 1 << 31),
    "2 GiB that say 100 bytes": zstd(1 << 31, 100),
    "2 GiB that say nothing": zstd(1 << 31),
    "2^63 bytes": zstd(1, (1 << 63) - 1),
    "2^64 - 1 bytes": zstd(1, (1 << 64) - 1),
    "64 KiB that are one": zstd(1, 64 << 10),
    "one after the other": zstd(100, 100) + zstd(1 << 31, 1 << 31),
    "behind one that is skipped": skippable(100) + zstd(1 << 31, 1 << 31),
    "only skipped": skippable(100),
    "cut off": zstd(1 << 20, 100)[:-1],
    "nothing": b"",
}


def peer_of(world, address, features=ZSTD):
    peer = wire.Peer(address)
    name, values = peer.hello("client", "b0b", wire.token_of(world), features=features)
    assert name == "WELCOME", values
    return peer, values


def test_compressed_frames_are_as_long_as_frames_may_be(world):
    tracker, address = world.tracker()
    honest, welcome = peer_of(world, address)
    if not welcome.get("features", 0) & ZSTD:
        raise harness.Skip("this build has no zstd")
    before = memory_kb(tracker)
    for name, body in BOMBS.items():
        assert len(body) <= 256 << 10, name
        for number in (wire.MESSAGES["QUERY"].number, wire.MESSAGES["JOB_OPEN"].number):
            peer, _ = peer_of(world, address)
            peer.send_bytes(wire.frame(number, body, 1, wire.ZSTD))
            assert peer.is_closed(), name
            peer.close()
        peer, _ = peer_of(world, address)
        peer.send("BLOB_PUT", 1, blob={"digest": bytes(32), "size": 1 << 31})
        try:
            peer.send_bytes(wire.frame(wire.DATA, body[:64 << 10], 1, wire.ZSTD))
            peer.send_bytes(wire.frame(wire.DATA, body[:64 << 10], 1, wire.ZSTD | wire.END))
            while peer.read()[0] not in ("ERROR", "GOAWAY"):
                pass
        except wire.Closed:
            pass
        peer.close()
    honest.send("PING", t_ns=7)
    assert honest.expect("PONG")["t_ns"] == 7
    assert memory_kb(tracker) - before < MEMORY_KB, (before, memory_kb(tracker))


def test_peers_without_compression_get_no_compressed_frames(world):
    _, address = world.tracker()
    peer, welcome = peer_of(world, address, features=0)
    assert not welcome.get("features", 0)
    peer.send_bytes(wire.frame(wire.MESSAGES["PING"].number, zstd(1, 1), 0, wire.ZSTD))
    assert peer.is_closed()


def test_maps_with_a_false_size_are_refused(world):
    tracker, address = world.tracker()
    honest, _ = peer_of(world, address)
    before = memory_kb(tracker)
    for body in (b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x81\x01\xdb\xff\xff\xff\xff", b"\x81" * 100000,
                 b"\x91" * 100000, b"\x81\x02" * 50000, b"\xdf\x00\x03\xff\xff" + b"\x01\x01" * 100000):
        for message in ("QUERY", "JOB_OPEN", "LEASE_REQ", "BLOB_HAVE"):
            peer, _ = peer_of(world, address)
            peer.send_bytes(wire.frame(wire.MESSAGES[message].number, body, 1))
            try:
                while peer.read()[0] not in ("ERROR", "GOAWAY"):
                    pass
            except wire.Closed:
                pass
            peer.close()
    honest.send("PING", t_ns=7)
    assert honest.expect("PONG")["t_ns"] == 7
    assert memory_kb(tracker) - before < MEMORY_KB


def test_records_and_traces_that_nest_without_end_are_refused(world):
    db, bundle = world.path("r.db"), pathlib.Path(world.path("bundle"))
    for line in ("[" * 1000000, '{"table":' * 1000000, '{"table":"record","trace":"' + "0" * (8 << 20) + '"}', '{"table":"record","samples_ns":[' + "1," * 4000000 + "1]}",
                 '{"table":"record","trial_id":"' + "\\u0000" * 100 + '"}', '{"table":"record","table":"task"}', '"' + "\\ud800" * 1000 + '"'):
        bundle.write_text(line + "\n")
        done = world.run("db", "import", bundle, "--db", db, ok=False)
        refused = done.returncode > 0 and done.stderr.startswith("kiln db: ")
        assert (refused or "cannot be true and were left out" in done.stdout) and len(done.stdout + done.stderr) < 5000, (line[:50], done)
    assert not pathlib.Path(db).exists() or world.sql("r.db", "SELECT count(*) FROM record") == [["0"]]
    trace = pathlib.Path(world.path("t.json"))
    for text in ("[" * 1000000, "[" + "{}," * 1000000 + "{}]", json.dumps([{"name": "x" * 1000000}])):
        trace.write_text(text)
        done = world.run("trace", trace, "-o", world.path("joined.json"), ok=False)
        assert done.returncode > 0 and done.stderr.startswith("kiln trace: ") and len(done.stderr) < 5000, (text[:50], done)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
