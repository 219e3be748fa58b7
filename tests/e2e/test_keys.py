#!/usr/bin/env python3
"""Keys: a fleet whose programs connect with keys over TLS, and what happens without one."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import harness
import wire
from harness import until


def make_key(world, name):
    """The file that a node gets."""
    file = world.path(name.replace("/", "_") + ".key")
    world.run("key", "new", name, "-o", file)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600, file
    return file


def made_up_key(world, name):
    """A key file that no tracker knows."""
    file = pathlib.Path(world.path(name.replace("/", "_") + ".made-up"))
    file.write_text(f"kiln-keys 1\n{name} " + "0" * 64 + "\n")
    os.chmod(file, 0o600)
    return file


def audit(world):
    path = pathlib.Path(world.home) / "tracker" / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def names(world):
    return [row["key"] for row in world.json("key", "list")]


def test_keys_are_made_listed_replaced_and_revoked(world):
    world.refused("--listen", "127.0.0.1:0", "--keys", world.path("home/keys"), says="kiln key new", name="kiln-tracker")
    make_key(world, "board/rpi-1")
    make_key(world, "client/ann")
    ring = pathlib.Path(world.home) / "keys"
    assert stat.S_IMODE(ring.stat().st_mode) == 0o600
    world.refused("key", "new", "board/rpi-1", "-o", world.path("board_rpi-1.key"), says="exists already")
    world.run("key", "new", "board/rpi-1", "-o", world.path("second.key"))
    assert names(world) == ["board/rpi-1/1", "board/rpi-1/2", "client/ann/1"]
    secret = pathlib.Path(world.path("second.key")).read_text().split()[3]
    assert len(secret) == 64 and secret in ring.read_text() and secret not in world.run("key", "list").stdout
    world.run("key", "revoke", "board/rpi-1/1")
    assert names(world) == ["board/rpi-1/2", "client/ann/1"]
    world.refused("key", "revoke", "board/rpi-1/1", says="has no key")
    world.run("key", "revoke", "board/rpi-1")
    world.run("key", "new", "board/rpi-1", "-o", world.path("third.key"))  # numbers do not come back
    assert names(world) == ["board/rpi-1/3", "client/ann/1"]
    world.run("key", "new", "client/bob", "--expires", "2099-12-31", "-o", world.path("bob.key"))
    assert [row["expires"] for row in world.json("key", "list")] == ["", "", "2099-12-31"]
    world.refused("key", "new", "client/bob", "--expires", "2001-01-01", "-o", world.path("bob2.key"), says="that day is over")
    own, listed = pathlib.Path(world.path("bob.key")).read_text(), ring.read_text()
    assert ("seed=" in own) == ("public=" in listed) and "seed=" not in listed and " expires=2099-12-31" in own
    world.refused("key", "new", "pilot/x", says="ROLE/NODE")
    os.chmod(ring, 0o644)
    world.refused("key", "list", says="chmod 600")


def test_keys_that_are_made_at_once_are_all_kept(world):
    """Of several `kiln key new` that run at the same moment, none loses another's key."""
    wanted = [f"client/user-{number}" for number in range(6)] + ["board/twice"] * 2
    made = [subprocess.Popen([harness.program("kiln"), "key", "new", name, "-o", world.path(f"{number}.key")], env=world.env,
                             cwd=world.folder, stdout=subprocess.DEVNULL) for number, name in enumerate(wanted)]
    assert [child.wait(timeout=harness.DEADLINE_S) for child in made] == [0] * len(made)
    assert names(world) == ["board/twice/1", "board/twice/2"] + [f"{name}/1" for name in wanted[:6]]
    ring = (pathlib.Path(world.home) / "keys").read_text()
    assert all(pathlib.Path(world.path(f"{number}.key")).read_text().split()[3] in ring for number in range(len(wanted)))


def test_the_lines_of_the_readme_about_keys_run_as_they_stand(world):
    text = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    lines = [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("    ")]
    begin = lines.index("$ kiln key new board/rpi-1")
    new, tracker, board = (line.removeprefix("board").removeprefix("$ ").removesuffix(" &") for line in lines[begin:begin + 3])
    world.run(*new.split()[1:])
    port = pathlib.Path(world.path("port"))
    # A port of its own, as others may test here at the same time.
    assert tracker == "kiln-tracker --listen 0.0.0.0:9477"
    world.start("kiln-tracker", *tracker.replace(":9477", ":0").split()[1:], "--port-file", port)
    until(port.exists, "the tracker listening")
    address = f"127.0.0.1:{port.read_text().strip()}"
    assert "HOST:9477" in board
    world.start("kiln-rpc-server", *board.replace("HOST:9477", address).split()[1:], "--state", world.path("board"))
    until(lambda: [b["node"] for b in world.json("fleet", "list", "--tracker", address)] == ["rpi-1"], "the board")


def test_a_fleet_with_keys_tunes_and_a_revoked_board_is_cut(world):
    key = {role: make_key(world, f"{role}/{role}-1") for role in ("board", "tuner", "client", "admin")}
    _, address = world.tracker()
    world.board(address, "--key-file", key["board"], key="shelf")
    world.tuner(address, "--key-file", key["tuner"])
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 3, "--tracker", address, "--key-file", key["client"], "--db",
                      world.path("client.db"))[-1]
    assert done["measured"] == 3, done
    boards = world.sql("client.db", "SELECT DISTINCT board FROM record WHERE device_id IS NOT NULL")
    assert boards == [["board/board-1"]], boards
    fleet = lambda: world.json("fleet", "list", "--tracker", address, "--key-file", key["client"])
    assert [(b["key"], b["node"]) for b in fleet()] == [("shelf", "board-1")]
    pinged = world.run("fleet", "ping", "--tracker", address, "--key-file", key["client"], ok=False).stdout
    assert f"\n{'shelf':<12} {'board-1':<8} " in pinged, pinged
    until(lambda: fleet()[0]["state"] == "free", "the board given back")
    # Programs that do not get in go on trying, and their logs say why, once.
    for name, file, reason in (("kiln-rpc-server", key["client"], "the key of a client does not let it speak as board"),
                               ("kiln-tuner", made_up_key(world, "tuner/eve/1"), "does not accept the key tuner/eve/1")):
        child = world.start(name, "--tracker", address, "--state", world.path(f"lost {name}"), "--key-file", file)
        until(lambda: "no tracker: " in child.log.read_text(), "the reason")
        assert reason in child.log.read_text(), child.log.read_text()
        tries = lambda: sum(e["event"] == "refused" and e.get("key") == "tuner/eve/1" for e in audit(world))
        if name == "kiln-tuner":
            before = tries()
            until(lambda: tries() > before + 1, "more tries")
        assert child.log.read_text().count("no tracker: ") == 1, child.log.read_text()
        world.kill(child)
    # With the wrong role, a revoked key, and no tracker of ours.
    world.refused("fleet", "list", "--tracker", address, "--key-file", key["board"], says="does not let it speak as client")
    world.run("key", "revoke", "board/board-1")
    until(lambda: fleet()[0]["state"] == "lost", "the revoked board cut")
    until(lambda: any(e["event"] == "refused" and e.get("key") == "board/board-1/1" for e in audit(world)), "it turned away")
    # An admin may do what a client may; what ends another's job is written down.
    job = world.json("jobs", "list", "--tracker", address, "--key-file", key["admin"])[0]["job"]
    world.run("jobs", "cancel", job, "--tracker", address, "--key-file", key["client"])
    acts = [e for e in audit(world) if e["event"] == "act"]
    assert [(e["key"], e["message"], e["body"]["id"]) for e in acts] == [("client/client-1/1", "CANCEL", job)], acts


def test_the_token_works_beside_keys_and_strangers_get_an_error(world):
    make_key(world, "client/ann")
    _, address = world.tracker()
    assert world.json("fleet", "list", "--tracker", address) == []  # by the token, as ever
    world.refused("fleet", "list", "--tracker", address, "--key-file", made_up_key(world, "client/eve/1"), says="does not accept the key client/eve/1")
    until(lambda: audit(world), "an audit line")
    event = audit(world)[-1]
    assert (event["event"], event["key"], event["code"]) == ("refused", "client/eve/1", "UNAUTHENTICATED"), event
    world.refused("fleet", "list", "--tracker", "192.0.2.1:9", says="kiln key new")


def test_a_key_file_that_comes_later_is_noticed_and_one_that_goes_keeps_its_keys(world):
    tracker, address = world.tracker()
    assert "in force" not in tracker.log.read_text()
    key = make_key(world, "client/ann")
    until(lambda: "1 keys are in force" in tracker.log.read_text(), "the key file noticed")
    assert world.json("fleet", "list", "--tracker", address, "--key-file", key) == []
    make_key(world, "client/bob")
    tracker.send_signal(signal.SIGHUP)
    until(lambda: "2 keys are in force" in tracker.log.read_text(), "it read again")
    os.unlink(pathlib.Path(world.home) / "keys")
    until(lambda: "its 2 keys stay in force: " in tracker.log.read_text(), "the loss reported")
    assert world.json("fleet", "list", "--tracker", address, "--key-file", key) == []
    assert world.json("fleet", "list", "--tracker", address) == []  # by the token, as ever


def test_a_key_file_that_is_not_there_is_one_error_at_the_start(world):
    _, address = world.tracker()
    missing = world.path("none.key")
    for name in ("kiln-tuner", "kiln-rpc-server"):
        world.refused("--tracker", address, "--state", world.path(f"of {name}"), "--key-file", missing, says=f"opening {missing}: No such file", name=name)
    world.refused("jobs", "list", "--tracker", address, "--key-file", missing, says=f"opening {missing}: No such file")


def test_lines_of_the_audit_log_go_with_their_age(world):
    folder = pathlib.Path(world.home) / "tracker"
    folder.mkdir(parents=True)
    old, older = folder / "audit.log.1", folder / "audit.log.2"
    for file, days in (old, 1), (older, 5):
        file.write_text("{}\n")
        os.utime(file, (time.time() - days * 86400,) * 2)
    tracker, _ = world.tracker("--keep-audit", 3)
    until(lambda: not older.exists(), "the old file removed")
    assert old.exists()
    world.refused("--keep-audit", "-1", says="keep-audit", name="kiln-tracker")


def memory_of(pid):
    """All that the process may write to, heap and stacks among it."""
    kept = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split()
            begin, end = (int(address, 16) for address in words[0].split("-"))
            if not words[1].startswith("rw") or words[-1].startswith("[v"):
                continue
            try:
                memory.seek(begin)
                kept.append(memory.read(end - begin))
            except OSError:  # gone meanwhile, or a device's
                pass
    return kept


def processes_of(pid):
    below = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [process for child in below for process in processes_of(int(child))]


def copies(child, secret):
    """How often it is in the memory of the program and what it started, as bytes and as the digits that a key file has."""
    return [sum(part.count(form) for part in memory_of(pid) for form in (bytes.fromhex(secret), secret.encode()))
            for pid in processes_of(child.pid)]


def test_a_secret_lies_where_it_is_owned_and_nowhere_else(world):
    """Of each secret the tracker has its list's copy, a tuner the seed that it signs with, and nobody anything else: no stack, no buffer."""
    if os.geteuid() != 0:
        raise harness.Skip("root, who may read the memory of a server")
    if "asan" in str(harness.PROGRAMS):
        raise harness.Skip("a build without sanitizers, which keep what is freed")
    key = {role: make_key(world, f"{role}/{role}-1") for role in ("board", "tuner", "client")}
    words = {role: pathlib.Path(file).read_text().splitlines()[-1].split() for role, file in key.items()}
    secret = {role: line[1] for role, line in words.items()}
    seed = {role: [word[5:] for word in line if word.startswith("seed=")] for role, line in words.items()}
    tracker, address = world.tracker()
    programs = {"tracker": tracker, "board": world.board(address, "--key-file", key["board"], key="shelf"),
                "local board": world.board(address, key="desk", state="desk"), "tuner": world.tuner(address, "--key-file", key["tuner"]),
                "client": world.start("kiln", "fleet", "watch", "--tracker", address, "--key-file", key["client"])}
    until(lambda: "shelf" in programs["client"].log.read_text(), "the client connected")
    owned = {("tracker", name): 1 for name in ("board secret", "tuner secret", "client secret", "token")}
    owned["tuner", "tuner seed"] = 1
    sought = {f"{role} secret": secret[role] for role in secret} | {f"{role} seed": seed[role][0] for role in seed if seed[role]}
    sought["token"] = wire.token_of(world).hex()
    wrong = [f"{program} {name}: {found}" for program, child in programs.items() for name, text in sought.items()
             if sum(found := copies(child, text)) != owned.get((program, name), 0)]
    assert not wrong, "; ".join(wrong)


def test_keys_are_rotated_while_the_fleet_works(world):
    """Board and tuner get new keys in the middle of a job, which ends as if nothing had been."""
    key = {role: make_key(world, f"{role}/{role}-1") for role in ("board", "tuner", "client")}
    old = {role: pathlib.Path(file).read_text().splitlines()[-1].split() for role, file in key.items()}
    tracker, address = world.tracker()
    board = world.board(address, "--key-file", key["board"], key="shelf")
    world.tuner(address, "--key-file", key["tuner"])
    # Its output goes to a file: nobody would read a pipe while keys are rotated, and a job that cannot write loses its connection.
    job = world.start("kiln", "tune", world.zoo("conv:C3"), "--trials", 30, "--tracker", address, "--key-file", key["client"], "--db",
                      world.path("client.db"), "--json")
    fleet = lambda: world.json("fleet", "list", "--tracker", address, "--key-file", key["client"])
    until(lambda: [b["state"] for b in fleet()] == ["leased"], "the board at work")
    for role in "board", "tuner":
        done = world.run("key", "rotate", f"{role}/{role}-1", "--wait", 600)
        assert f"{role}/{role}-1/2 has replaced the previous key" in done.stdout, done.stdout
        new = pathlib.Path(key[role]).read_text().splitlines()[-1].split()
        assert new[0] == f"{role}/{role}-1/2" and new[1] != old[role][1] and stat.S_IMODE(os.stat(key[role]).st_mode) == 0o600
        of = lambda words, what: [word.split("=")[1] for word in words if word.startswith(what)][0]
        assert of(new, "seed=") != of(old[role], "seed=") and of(new, "before=").startswith(of(old[role], "public=") + "/")
    world.ends(job)
    events = [json.loads(line) for line in job.log.read_text().splitlines() if line.startswith("{")]
    assert events[-1]["measured"] == 30, [event for event in events if event["event"] != "progress"]
    assert names(world) == ["board/board-1/2", "tuner/tuner-1/2", "client/client-1/1"]
    # A person's key: taken by the next command, used by the one after.
    assert world.json("key", "rotate", "client/client-1", "--wait", 0.1)[-1]["event"] == "offered"
    # The tracker looks at its file twice a second.
    until(lambda: fleet() and "client/client-1/2" in pathlib.Path(key["client"]).read_text(), "the new key of the client")
    fleet()
    until(lambda: "client/client-1/1" not in names(world), "the end of the older key")
    world.refused("key", "rotate", "board/nobody", says="no key of board nobody")
    # A node that may not write: it keeps what it has, and the command says what to do.
    os.rename(key["board"], key["board"] + ".away")
    world.refused("key", "rotate", "board/board-1", "--wait", 600, says="kiln key new board/board-1 -o FILE")
    os.rename(key["board"] + ".away", key["board"])
    assert names(world)[0] == "board/board-1/2"
    until(lambda: fleet()[0]["state"] == "free", "the board as before")
    assert board.poll() is None and tracker.poll() is None


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
