#!/usr/bin/env python3
"""Rolling upgrades of real boards: canaries, a job that loses nothing, a tracker that is killed. Broken versions: test_upgrade_broken.py.

The new version is the same program with another version in its text. KILN_UPGRADE_BOARDS: how many boards (4)."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

import harness
from harness import Skip, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOARDS = int(os.environ.get("KILN_UPGRADE_BOARDS", 4))
OLD, NEW = "0.1.0", "0.1.9"
ARCH = {"x86_64": "x86_64", "aarch64": "aarch64", "riscv64": "riscv64"}.get(os.uname().machine)


def renamed(version):
    """The program's bytes, which say that they are of this version."""
    program = pathlib.Path(harness.program("kiln-rpc-server")).read_bytes()
    old = f"kiln-rpc-server {OLD}\0".encode()
    assert program.count(old) == 1, program.count(old)
    return program.replace(old, f"kiln-rpc-server {version}\0".encode())


def archive(world, version, program, arch=ARCH):
    """A signed release whose kiln-rpc-server is `program`; its path."""
    if not ARCH:
        raise Skip("there are no releases for this processor")
    if not shutil.which("zstd"):
        raise Skip("zstd is not installed")
    file, path = world.folder / f"program-{version}", world.path(f"kiln-board-{version}-{arch}.tar.zst")
    file.write_bytes(program)
    subprocess.run([sys.executable, ROOT / "deploy/install/archive.py", path, "kiln-board", version, arch, "0",
                    f"755:bin/kiln-rpc-server={file}"], check=True)
    sign(world, path)
    return path


def sign(world, path):
    done = world.run("key", "sign-release", path, ok=False)
    if "without OpenSSL" in done.stderr:
        raise Skip("this build cannot sign")
    assert done.returncode == 0, done.stderr
    statement = pathlib.Path(path + ".release").read_text()
    (world.folder / "release-keys").write_text(statement.partition("\nkey ")[2].partition("\n")[0] + " the test\n")


class Board:
    """A board with a copy of the program of its own."""

    def __init__(self, world, address, number, *options, keys="release-keys"):
        self.key, self.folder = f"b{number}", world.folder / f"b{number}"
        self.folder.mkdir()
        self.program = self.folder / "kiln-rpc-server"
        shutil.copy2(harness.program("kiln-rpc-server"), self.program)
        self.options = "--release-keys", world.path(keys), *options
        self.start(world, address)

    def start(self, world, address):
        self.child = world.board(address, *self.options, key=self.key, state=f"{self.key}/state", name=str(self.program))

    def version(self):
        """Of the file; a script is "?"."""
        return next((v for v in (OLD, NEW) if f"kiln-rpc-server {v}\0".encode() in self.program.read_bytes()), "?")

    def log(self):
        return self.child.log.read_text()


def fleet(world, boards, *options):
    archive(world, NEW, renamed(NEW))  # and the file of release keys
    tracker, address = world.tracker()
    return tracker, address, [Board(world, address, i, *options) for i in range(boards)]


def rows(world, address):
    return {b["key"]: b for b in world.json("fleet", "list", "--tracker", address)}


def runs(world, address, board, version):
    row = rows(world, address)[board.key]
    return row["state"] in ("free", "leased") and row["software"] == f"kiln-rpc-server {version}"


def new_archive(world):
    return world.path(f"kiln-board-{NEW}-{ARCH}.tar.zst")


def test_boards_upgrade_in_turns_behind_a_canary_while_a_job_runs(world):
    tracker, address, boards = fleet(world, BOARDS)
    world.tuner(address)
    job = world.tune(world.zoo("conv:C3"), address, 40 * BOARDS)
    until(lambda: any(b["state"] == "leased" for b in rows(world, address).values()), "the job's first lease")
    began = time.monotonic()
    done = world.run("fleet", "upgrade", "--to", new_archive(world), "--canary", 1, "--percent", 25, "--tracker", address, "--why", "a test")
    print(f"# {BOARDS} boards, a quarter of them at the same time: {time.monotonic() - began:.1f} s")
    assert f"{BOARDS} of {BOARDS} boards done, 0 failed, 0 skipped" in done.stdout, done.stdout
    for board in boards:
        assert runs(world, address, board, NEW), rows(world, address)[board.key]
        assert board.version() == NEW and not (board.folder / "kiln-rpc-server.next").exists()
        assert f"kiln-rpc-server {OLD}\0".encode() in (board.folder / "kiln-rpc-server.previous").read_bytes()
        row = rows(world, address)[board.key]
        assert row.get("faults", 0) == 0, row
    world.ends(job)
    trials = world.sql("tuner.db", "SELECT trial_id, outcome FROM record WHERE final = 0")
    assert len(trials) == len({trial for trial, outcome in trials}) == 40 * BOARDS, len(trials)
    again = world.run("fleet", "upgrade", "--to", new_archive(world), "--tracker", address)  # which they run already
    assert f"{BOARDS} of {BOARDS} boards done" in again.stdout, again.stdout
    status = world.json("fleet", "upgrade", "--status", "--tracker", address)
    assert status[-1]["state"] == 2 and status[-1]["number"] == 2, status


def test_boards_without_keys_and_of_other_processors_are_skipped(world):
    tracker, address, boards = fleet(world, 1)
    world.board(address, key="plain", state="plain")
    done = world.run("fleet", "upgrade", "--to", NEW, "--tracker", address)
    assert "1 of 2 boards done, 0 failed, 1 skipped" in done.stdout and "--release-keys" in done.stdout, done.stdout
    other = "aarch64" if ARCH != "aarch64" else "x86_64"
    done = world.run("fleet", "upgrade", "--to", archive(world, "0.4.0", renamed(NEW), other), boards[0].key, "--tracker", address)
    assert "0 of 1 boards done, 0 failed, 1 skipped" in done.stdout and f"no archive for {ARCH}" in done.stdout, done.stdout


def test_an_upgrade_goes_on_after_the_tracker_was_killed(world):
    archive(world, NEW, renamed(NEW))
    port = world.tracker()[1]
    world.children[-1].kill()
    world.children[-1].wait()
    tracker, address = world.tracker(address=port)
    boards = [Board(world, address, i) for i in range(2)]
    world.run("fleet", "upgrade", "--to", NEW, "--one-by-one", "--detach", "--tracker", address)
    world.kill(tracker)
    world.tracker(address=address)
    until(lambda: all(runs(world, address, board, NEW) for board in boards), "the end of the upgrade")
    until(lambda: world.json("fleet", "upgrade", "--status", "--tracker", address)[-1]["state"] == 2, "the tracker knowing that")


def test_stopping_or_killing_the_launcher_ends_the_board(world):
    tracker, address, boards = fleet(world, 2)
    boards[0].child.terminate()
    world.ends(boards[0].child)
    boards[1].child.kill()  # the server and its helper have other process groups
    for board in boards:
        until(lambda: not harness.processes_with(str(board.folder)), f"the end of the server of {board.key}")


def test_a_new_version_that_loss_of_power_left_is_not_started(world):
    """PROGRAM itself is untouched until its successor has confirmed, so the old version starts after any interruption."""
    tracker, address, boards = fleet(world, 1)
    board = boards[0]
    board.child.terminate()
    world.ends(board.child)
    next_program = board.folder / "kiln-rpc-server.next"
    next_program.write_bytes(b"half of a program")
    board.start(world, address)
    assert not next_program.exists() and runs(world, address, board, OLD)


def test_only_administrators_upgrade_and_every_order_is_in_the_audit_log(world):
    tracker, address, boards = fleet(world, 1)
    world.run("fleet", "upgrade", "--to", NEW, "--tracker", address, "--why", "audited")
    lines = [line for line in (world.home / "tracker/audit.log").read_text().splitlines() if "UPGRADE_ORDER" in line]
    assert len(lines) == 1 and "audited" in lines[0], lines
    world.refused("fleet", "upgrade", "--cancel", "--tracker", address, says="no upgrade is under way")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
