#!/usr/bin/env python3
"""Hostile peers that forge an identity: listeners in the tracker's place, many unauthenticated connections, guessers of keys.
They are written against the wire (wire.py) and share no code with the programs."""
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading
import urllib.request

import harness
import wire
from harness import until

DESCRIPTORS = 160
CROWD = 600


class Rogue:
    """Listens where a tracker might, notes all that it hears, and answers as `answer(connection, heard)` does."""

    def __init__(self, answer, port=0):
        self.heard, self.answer = [], answer
        self.listener = socket.create_server(("127.0.0.1", port))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        try:
            while data := connection.recv(65536):
                self.heard.append(data)
                self.answer(connection, data)
        except OSError:
            pass
        connection.close()

    def close(self):
        self.listener.close()


def all_heard(rogue):
    return b"".join(rogue.heard)


def once(data):
    """Answers the first that comes with these bytes."""
    def answer(connection, heard):
        if heard[4] == 1:  # HELLO
            connection.sendall(data)
    return answer


def welcome(version):
    return wire.message("WELCOME", version=version, boot="b" * 32, heartbeat_ms=2000)


def challenge():
    return wire.message("CHALLENGE", nonce=os.urandom(32), proof=os.urandom(32))


def test_a_rogue_listener_gets_no_secret_and_no_client(world):
    tracker, address = world.tracker()
    token = wire.token_of(world)
    world.kill(tracker)
    lies = {"an answer at once": (welcome(5), "has not proven"), "an old tracker": (welcome(4), "update the tracker"),
            "a made-up proof": (challenge(), "does not know the token"),
            "a refusal": (wire.message("ERROR", code=15, text="the token please"), "update the tracker")}
    for name, (data, says) in lies.items():
        rogue = Rogue(once(data))
        done = world.run("fleet", "list", "--tracker", rogue.address, ok=False)
        assert done.returncode != 0 and len(done.stderr.strip().splitlines()) == 1, (name, done.stderr)
        assert says is None or says in done.stderr, (name, done.stderr)
        heard = all_heard(rogue)
        assert heard and token not in heard and token.hex().encode() not in heard, name
        rogue.close()


def test_daemons_do_not_work_for_a_rogue_listener(world):
    tracker, _ = world.tracker()  # so that there is a token
    token = wire.token_of(world)
    for name in "kiln-rpc-server", "kiln-tuner":
        rogue = Rogue(once(welcome(5)))
        child = world.start(name, "--tracker", rogue.address, "--state" if name == "kiln-rpc-server" else "--db", world.path(name))
        until(lambda: "has not proven" in child.log.read_text(), "the reason")
        until(lambda: len(rogue.heard) > 2, "more tries")
        assert token not in all_heard(rogue)
        world.kill(child)
        rogue.close()


def test_a_relay_to_the_real_tracker_is_noticed(world):
    _, address = world.tracker()
    host, port = address.split(":")
    passed = []

    def pass_on(connection, heard):
        if heard[4] != 1:
            return
        with socket.create_connection((host, int(port))) as real:
            real.sendall(heard)
            answer = real.recv(65536)
            passed.append(answer[4])
            connection.sendall(answer)

    rogue = Rogue(pass_on)
    world.refused("fleet", "list", "--tracker", rogue.address, says="does not know the token")
    assert passed == [wire.MESSAGES["CHALLENGE"].number]
    assert bytes([wire.MESSAGES["PROOF"].number]) not in {data[4:5] for data in rogue.heard}
    assert world.json("fleet", "list", "--tracker", address) == []
    rogue.close()


def test_unauthenticated_peers_get_one_error(world):
    _, address = world.tracker()
    token = wire.token_of(world)
    told = set()
    for role in wire.ROLES:
        for more in {}, {"token": bytes(32)}, {"token": token}, {"nonce": bytes(31)}, {"nonce": bytes(32), "token": token}:
            peer = wire.Peer(address)
            peer.send("HELLO", version_min=1, version_max=5, role=wire.ROLES[role], node="eve", boot="b", **more)
            name, _, values = peer.read()
            if name == "CHALLENGE":
                peer.send("PROOF", proof=bytes(32))
                name, _, values = peer.read()
            assert name == "ERROR", (role, more, name)
            told.add((values["code"], values["text"]))
            assert peer.is_closed()
    assert len(told) == 1, told


def alert(address, name, secret):
    """What `openssl` is told when it shows that key: the lines about alerts."""
    done = subprocess.run(["openssl", "s_client", "-connect", address, "-tls1_3", "-psk_identity", name, "-psk", secret, "-ciphersuites",
                           "TLS_AES_128_GCM_SHA256"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.DEADLINE_S)
    lines = [line.split(":", 1)[1] for line in done.stderr.splitlines() if "alert" in line]
    assert lines, done.stderr
    return tuple(lines)


def test_guessing_keys_reveals_nothing(world):
    for name in "board/rpi", "admin/ann", "client/old":
        world.run("key", "new", name, "-o", world.path(name.replace("/", "_")))
    revoked = next(line.split()[1] for line in pathlib.Path(world.path("client_old")).read_text().splitlines() if line.startswith("client/"))
    world.run("key", "revoke", "client/old")
    _, address = world.tracker()
    told = {alert(address, *guess) for guess in (("board/rpi/1", "00" * 32), ("board/rpi/2", "00" * 32), ("admin/ann/1", "11" * 32),
                                                 ("admin/nobody/1", "00" * 32), ("client/old/1", revoked), ("no name at all", "00" * 32))}
    assert len(told) == 1, told


def test_an_impostor_board_is_refused_and_reported(world):
    """A holder of a board's key, and a program without one, call themselves by the name or the node of another board."""
    for name in "board/rpi-1", "board/eve":
        world.run("key", "new", name, "-o", world.path(name.replace("/", "_")))
    _, address = world.tracker()
    world.start("kiln-rpc-server", "--tracker", address, "--state", world.path("rpi"), "--key", "shelf", "--key-file", world.path("board_rpi-1"))
    fleet = lambda: world.json("fleet", "list", "--tracker", address)
    until(lambda: [b["state"] for b in fleet()] == ["free"], "the board")
    target = fleet()[0]["target"]

    def refused(peer, name):
        if name:
            peer.send("BOARD_UP", key=name, target=target, slots=1)
        while True:
            got, _, values = peer.read()
            if got == "ERROR":
                assert "is that of the board with node rpi-1" in values["text"], values
                return peer.is_closed()

    for name in "shelf", "rpi-1":
        eve = wire.Peer.secured(address, world.path("board_eve"))
        assert eve.hello("board", "eve")[0] == "WELCOME"
        assert refused(eve, name), name
        eve.close()
        local = wire.Peer(address)
        assert local.hello("board", "made-up-node", wire.token_of(world))[0] == "WELCOME"
        assert refused(local, name), name
        local.close()
    twin = wire.Peer(address)  # under the very node of the other, without its key
    assert twin.hello("board", "rpi-1", wire.token_of(world))[0] == "WELCOME"
    assert refused(twin, None)
    assert [(b["key"], b["node"], b["state"]) for b in fleet()] == [("shelf", "rpi-1", "free")]
    shown = world.run("fleet", "show", "shelf", "--tracker", address).stdout
    assert "impostor" in shown and "node eve called itself shelf" in shown and "node rpi-1" in shown, shown
    log = (pathlib.Path(world.home) / "tracker" / "audit.log").read_text()
    assert log.count("is that of the board with node rpi-1") == 5 and '"key":"board/eve/1"' in log, log


def metrics(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line and line[0] != "#" and len(line.split()) == 2}


def flood(world, sources):
    http = pathlib.Path(world.path(f"http-{len(sources)}"))
    port = pathlib.Path(world.path(f"port-{len(sources)}"))
    state = world.path(f"state-{len(sources)}")
    tracker = world.start("kiln-tracker", "--listen", "127.0.0.1:0", "--port-file", port, "--state", state, "--http", "0", "--http-port-file", http,
                          before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    until(lambda: port.exists() and http.exists(), "the tracker listening")
    address, token = f"127.0.0.1:{port.read_text().strip()}", wire.token_of(world)
    crowd = []
    for number in range(CROWD):
        crowd.append(wire.Peer(address, source=sources[number % len(sources)]))
        if number % 20 == 19:  # a known peer among them, from elsewhere
            known = wire.Peer(address, source="127.0.0.200")
            assert known.hello("client", f"known-{number}", token)[0] == "WELCOME"
            known.close()
    assert world.json("fleet", "list", "--tracker", address) == []
    seen = metrics(http.read_text().strip())
    assert seen["kiln_net_accepted_total"] >= CROWD
    assert seen["kiln_net_crowded_out_total"] > CROWD // 2
    assert seen["kiln_net_welcomed_total"] == CROWD // 20 + 1
    assert seen["kiln_net_strangers"] < DESCRIPTORS // 2 and seen["kiln_net_accept_errors_total"] == 0
    assert (seen["kiln_net_over_rate_total"] > 0) == (len(sources) == 1), seen
    log = tracker.log.read_text()
    assert log.count("too many connections") == 1, log
    assert len(log.splitlines()) < 120, "a line for each stranger"
    for peer in crowd:
        peer.close()
    world.kill(tracker)


def test_many_connections_from_one_address_block_no_known_peer(world):
    flood(world, ["127.0.0.2"])


def test_many_connections_from_many_addresses_block_no_known_peer(world):
    flood(world, [f"127.0.1.{i}" for i in range(1, 101)])


def test_half_a_handshake_ends_in_time(world):
    """Silence, half a HELLO, a challenge that is never answered: each is cut, without a byte more."""
    _, address = world.tracker()
    hello = wire.message("HELLO", version_min=1, version_max=5, role=3, node="eve", boot="b", nonce=bytes(32))
    peers = []
    for said in b"", hello[:1], hello[:20], hello:
        peers.append(wire.Peer(address))
        peers[-1].send_bytes(said)
    for peer in peers:
        assert peer.is_closed()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
