#!/usr/bin/env python3
"""kill -9 of the real programs at the worst moments: before and after a commit."""
import pathlib
import signal
import sys

import harness
from harness import until
from test_fleet import records

RESOURCE_EXHAUSTED = 16  # base/status.def

# Each is a commit of a new file.
MIGRATIONS = len(list((pathlib.Path(__file__).resolve().parents[2] / "db/schema/sqlite/records").glob("*.sql")))

# Killed in a migration, after a commit of which nobody heard, before one, and before a row.
MOMENTS = ["DB_MIGRATE:1=kill", f"DB_DURABLE:{MIGRATIONS + 2}", "DB_COMMIT:3=kill", "DB_PUT:12=kill"]


def failing(world, moment, start):
    """start() with the program made to fail at `moment`."""
    world.env["KILN_FAIL"] = moment
    try:
        return start()
    finally:
        del world.env["KILN_FAIL"]


def stop(world, tune, kept):
    """Ends a job once it has gone on; what was stored is there, once, and the client has it too."""
    until(lambda: set(records(world)) - kept, "another record")
    tune.send_signal(signal.SIGINT)
    world.ends(tune, 10)
    check_stopped(world, kept)


def check_stopped(world, kept):
    after = records(world)
    assert len({trial for trial, _, _ in after}) == len(after), "a trial has two records"
    assert kept <= set(after), kept - set(after)
    assert sorted(records(world, "client.db")) == sorted(after), "the client has other records than the tuner"


def test_a_tuner_killed_round_its_commits_loses_and_repeats_nothing(world):
    _, address = world.tracker()
    world.board(address)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)
    kept = set()
    for moment in MOMENTS:
        tuner = failing(world, moment, lambda: world.tuner(address, wait=False))
        world.ends(tuner, -signal.SIGKILL)
        now = set(records(world))
        assert kept <= now, (moment, kept - now)
        kept = now
    assert kept
    world.tuner(address)
    stop(world, tune, kept)


def test_a_commit_that_fails_ends_its_job_and_nothing_else(world):
    """What cannot be stored is not measured further; what was stored stays, and the tuner takes the next job."""
    _, address = world.tracker()
    world.board(address)
    failing(world, f"DB_COMMIT:{MIGRATIONS + 2}=error", lambda: world.tuner(address))
    tune = world.tune(world.zoo("conv:C3"), address, 100000)
    world.ends(tune, RESOURCE_EXHAUSTED)
    kept = set(records(world))
    stop(world, world.tune(world.zoo("conv:C3"), address, 100000), kept)


def test_a_tracker_killed_round_its_commits_forgets_no_job(world):
    address = f"unix:{world.path('tracker.sock')}"

    def tracker():
        return world.start("kiln-tracker", "--listen", address, "--state", world.path("state"))

    first = failing(world, "DB_COMMIT:2=kill", tracker)
    world.board(address, wait=False)
    world.tuner(address, wait=False)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)
    world.ends(first, -signal.SIGKILL)
    for moment in ("DB_DURABLE:2", "DB_PUT:3=kill"):
        world.ends(failing(world, moment, tracker), -signal.SIGKILL)
    tracker()
    stop(world, tune, set(records(world)))


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
