#!/usr/bin/env python3
"""kill -9 of the real programs at the worst moments of what they keep: before and after a commit."""
import os
import sys

import harness
from harness import until
from test_fleet import records, start_tune

# Killed in a migration, after a commit (four more of migrations come first) of which nobody heard, before one, and
# before a row; between them a commit that fails once.
MOMENTS = ["DB_MIGRATE:1=kill", "DB_DURABLE:8", "DB_COMMIT:3=error", "DB_COMMIT:3=kill", "DB_PUT:12=kill"]


def failing(world, moment, start):
    """start() with the program made to fail at `moment`."""
    world.env["KILN_FAIL"] = moment
    try:
        return start()
    finally:
        del world.env["KILN_FAIL"]


def check_job(world, tune, trials):
    assert tune.wait(timeout=harness.DEADLINE_S) == 0, open(world.path("tune.log")).read()
    after = records(world)
    assert len(after) == trials and len({trial for trial, _, _ in after}) == trials, after
    assert sorted(records(world, "client.db")) == sorted(after), "the client has other records than the tuner"


def test_a_tuner_killed_round_its_commits_loses_and_repeats_nothing(world):
    _, address = world.tracker()
    world.board(address)
    tune = start_tune(world, world.zoo("conv:C3"), address, 24)
    kept = set()
    for moment in MOMENTS:
        tuner = failing(world, moment, lambda: world.tuner(address))
        if moment.endswith("error"):
            until(lambda: len(records(world)) > len(kept), "a record in spite of a commit that failed")
            os.killpg(tuner.pid, 9)
        tuner.wait(timeout=harness.DEADLINE_S)
        now = set(records(world))
        assert kept <= now, (moment, kept - now)
        kept = now
    world.tuner(address)
    check_job(world, tune, 24)
    assert kept and kept <= set(records(world))


def test_a_tracker_killed_round_its_commits_forgets_no_job(world):
    address = f"unix:{world.path('tracker.sock')}"

    def tracker():
        return world.start("kiln-tracker", "--listen", address, "--state", world.path("state"))

    first = failing(world, "DB_COMMIT:2=kill", tracker)
    world.board(address)
    world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C3"), address, 8)
    first.wait(timeout=harness.DEADLINE_S)
    for moment in ("DB_DURABLE:2", "DB_PUT:3=kill"):
        failing(world, moment, tracker).wait(timeout=harness.DEADLINE_S)
    tracker()
    check_job(world, tune, 8)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
