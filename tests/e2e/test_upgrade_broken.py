#!/usr/bin/env python3
"""Versions that do not start, crash, do not connect or compute wrongly: an upgrade stops at its canary, which goes back by itself."""
import sys

import harness
from harness import PROGRAMS, until
from test_upgrade import OLD, NEW, archive, fleet, new_archive, renamed, runs

LAUNCHED = '[ "$1" = --launched ] || exit 3\n'


def broken(world, program, says, *options):
    """A version that must fail at the canary, and leave everything as it was."""
    tracker, address, boards = fleet(world, 2)
    path = archive(world, "0.2.0", program)
    done = world.run("fleet", "upgrade", "--to", path, "--canary", 1, "--tracker", address, *options, ok=False)
    assert done.returncode != 0 and says in done.stderr, done.stderr + done.stdout
    status = world.json("fleet", "upgrade", "--status", "--tracker", address)
    assert [b.get("stage", 0) for b in status[:2]] == [5, 0], status  # failed, waiting
    for board in boards:
        until(lambda: runs(world, address, board, OLD), f"{board.key} back with the old version")
        assert board.version() == OLD
        assert sorted(p.name for p in board.folder.iterdir()) == ["kiln-rpc-server", "state"], list(board.folder.iterdir())
    return address, boards


def test_a_version_that_ends_at_once_stops_at_the_canary(world):
    address, boards = broken(world, b"#!/bin/sh\n" + LAUNCHED.encode() + b"exit 9\n", "ended with code 9")
    done = world.run("fleet", "upgrade", "--to", new_archive(world), "--one-by-one", "--tracker", address)  # a good one follows
    assert "2 of 2 boards done" in done.stdout, done.stdout


def test_a_version_that_crashes_stops_at_the_canary(world):
    broken(world, b"#!/bin/sh\nkill -SEGV $$\n", "was ended by signal 11")


def test_a_version_that_is_no_program_stops_at_the_canary(world):
    broken(world, b"\x7fELF this is none", "could not be started")


def test_a_version_that_never_connects_is_given_up(world):
    broken(world, b"#!/bin/sh\n" + LAUNCHED.encode() + b"exec sleep 1000\n", "did not connect and pass its self-check within 2 s", "--wait", 2)


def test_a_version_that_fails_the_golden_kernel_goes_back(world):
    golden = (PROGRAMS / "rpc-server/golden_kernel.o").read_bytes()
    program = renamed(NEW)
    assert program.count(golden) == 1
    broken(world, program.replace(golden, golden[:3] + b"X" + golden[4:]), "self-check")


def test_a_board_takes_no_release_of_a_stranger_and_none_that_was_changed(world):
    tracker, address, boards = fleet(world, 1)
    key = (world.folder / "release-keys").read_text()
    (world.home / "signing.key").unlink()
    path = archive(world, "0.3.0", renamed(NEW))  # by another key
    (world.folder / "release-keys").write_text(key)
    done = world.run("fleet", "upgrade", "--to", path, "--tracker", address, ok=False)
    assert "which is no release key here" in done.stderr, done.stderr
    with open(path, "ab") as file:
        file.write(b"more")
    world.refused("fleet", "upgrade", "--to", path, "--tracker", address, says="is not the archive that")
    assert boards[0].version() == OLD and runs(world, address, boards[0], OLD)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
