#!/usr/bin/env python3
"""Privilege separation of a server as users see it: which processes run with which rights, and what is refused without fences."""
import os
import pathlib
import sys

import harness
from harness import Skip, until

SECRET = "hunter2"  # in the environment of who starts the server


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except (PermissionError, ProcessLookupError):  # it may have ended since
        return b""


def board(world, *options, before=None):
    """Tracker and board, connected."""
    world.env["DB_PASSWORD"] = SECRET
    _, address = world.tracker()
    server = world.start("kiln-rpc-server", "--tracker", address, "--key", "board", "--state", world.path("state"), *options, before=before)
    until(lambda: world.json("fleet", "list", "--tracker", address), "the board")
    return address, server


def as_nobody():
    """In a child of root: another user without rights."""
    os.setgroups([])
    os.setresgid(65533, 65533, 65533)
    os.setresuid(65533, 65533, 65533)


def test_the_process_that_talks_to_the_tracker_has_no_rights(world):
    if os.geteuid() != 0:
        raise Skip("only root has rights to give up")
    _, server = board(world)
    status = status_of(server.pid)
    assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split(), (status["Uid"], status["Gid"])
    assert status["Groups"].strip() == "", status["Groups"]
    assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
    assert status["NoNewPrivs"] == "1"
    [helper] = children_of(server.pid)
    assert status_of(helper)["Uid"].split() == ["0"] * 4
    spare = [pid for pid in children_of(helper) if status_of(pid)["Uid"].split()[0] != "0"]
    uids = {status_of(pid)["Uid"].split()[0] for pid in spare}
    assert status["Uid"].split()[0] not in uids, "server and children are one user"
    owner = os.stat(world.path("state")).st_uid
    assert str(owner) == status["Uid"].split()[0] and os.stat(world.folder).st_uid == 0


def test_no_child_of_the_server_has_its_environment(world):
    _, server = board(world)
    [helper] = children_of(server.pid)
    assert SECRET.encode() not in environment_of(server.pid)
    for pid in [helper, *children_of(helper)]:
        assert environment_of(pid) == b"", f"{pid} has an environment"


def test_a_server_without_a_required_fence_does_not_start(world):
    world.refused("--tracker", "unix:nowhere", "--require", "walls", name="kiln-rpc-server", says='there is no fence "walls"; there are: all,uid,')
    world.folder.chmod(0o777)
    (world.folder / "tmp").chmod(0o777)
    world.home = world.folder / "other"
    world.env["KILN_HOME"] = str(world.home)
    done = world.start("kiln-rpc-server", "--tracker", "unix:nowhere", "--require", "split", before=as_nobody if os.geteuid() == 0 else None)
    world.ends(done, code=17)  # FAILED_PRECONDITION
    text = done.log.read_text()
    assert "--require asks for split, which this machine refuses" in text and "as root" in text, text


def test_a_tracker_gives_no_work_to_boards_without_fences(world):
    world.folder.chmod(0o777)
    _, address = world.tracker("--require-fences", "split,uid", address=f"unix:{world.path('socket')}")
    (world.folder / "socket").chmod(0o666)
    world.start("kiln-rpc-server", "--tracker", address, "--key", "board", "--state", world.path("state"),
                before=as_nobody if os.geteuid() == 0 else None)
    until(lambda: world.json("fleet", "list", "--tracker", address), "the board")
    [row] = world.json("fleet", "list", "--tracker", address)
    assert row["state"] == "unfenced" and "split" in row["text"] and "--require-fences" in row["text"], row


def test_a_server_whose_helper_is_killed_ends(world):
    _, server = board(world)
    [helper] = children_of(server.pid)
    os.kill(helper, 9)
    world.ends(server, code=21)
    assert "the helper has ended" in server.log.read_text()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
