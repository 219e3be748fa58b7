#!/usr/bin/env python3
"""A team's fleet: two trackers and two tuners of several machines (here: folders) share a PostgreSQL server."""
import os
import signal
import subprocess
import sys

import harness
import postgres
from harness import Skip, program, until


def own_env(world, name):
    """Each machine has a home of its own."""
    return {**world.env, "KILN_HOME": world.path(name)}


def start(world, name, program_name, *argv):
    world.env, env = own_env(world, name), world.env
    child = world.start(program_name, *argv)
    world.env = env
    return child


def tracker(world, name, database):
    """One of the trackers that share `database`; returns it and its address."""
    child = start(world, name, "kiln-tracker", "--listen", f"unix:{world.path(name)}.sock", "--db", database,
                  "--blobs", world.path("blobs"))
    return child, f"unix:{world.path(name)}.sock"


def tune(world, model, trackers, trials):
    log = open(world.path(f"tune.{model[-9:-5]}.log"), "w")
    child = subprocess.Popen([program("kiln"), "tune", model, "--trials", str(trials), "--tracker", trackers, "--db",
                              world.path(f"{model[-9:-5]}.db"), "--json"], env=world.env, cwd=world.folder, stdout=log,
                             stderr=log, start_new_session=True)
    world.children.append(child)
    return child


def log_of(world, number):
    [file] = world.folder.glob(f"*.{number}.log")
    return file.read_text()


def trials(world, database):
    done = world.run("db", "sql", "SELECT trial_id, attempt, outcome FROM record WHERE final = 0", "--db", database, ok=False)
    return sorted(tuple(line.split("\t")) for line in done.stdout.splitlines()) if done.returncode == 0 else []


def test_a_killed_tracker_is_replaced_and_nothing_is_lost(world):
    if not postgres.is_installed():
        raise Skip("Debian's package postgresql")
    with postgres.Server() as server:
        server.create("kiln")
        database = server.address("kiln")
        first, at_first = tracker(world, "tracker0", database)
        until(lambda: "listening" in log_of(world, 0), "the first tracker")
        second, at_second = tracker(world, "tracker1", database)
        until(lambda: "standing by" in log_of(world, 1), "the standby")
        trackers = f"{at_first},{at_second}"
        world.board(trackers)
        for number in range(2):
            start(world, f"tuner{number}", "kiln-tuner", "--tracker", trackers, "--db", database, "--builders", 1)
        until(lambda: len(world.json("fleet", "list", "--tracker", trackers)) == 1, "the board")
        jobs = [tune(world, world.zoo(name), trackers, 16) for name in ("conv:C3", "conv:C4")]
        until(lambda: len(trials(world, database)) >= 6, "the first records")
        os.killpg(first.pid, signal.SIGKILL)
        kept = set(trials(world, database))
        for job in jobs:
            assert job.wait(timeout=harness.DEADLINE_S) == 0, [p.read_text() for p in world.folder.glob("tune.*.log")]
        assert second.poll() is None and "listening" in log_of(world, 1)
        after = trials(world, database)
        assert kept <= set(after), kept - set(after)
        assert len(after) == 32 and len({trial for trial, _, _ in after}) == 32, after
        assert not [row for row in after if row[2] in ("board_lost", "infra")], after
        home = trials(world, world.path("v_C3.db")) + trials(world, world.path("v_C4.db"))
        assert set(home) == set(after), "a job's records did not all come home"
        busy = [number for number in (3, 4) if " job " in log_of(world, number)]
        assert len(busy) == 2, f"only tuner {busy} worked"
        assert world.json("db", "best", "--db", database), "the team's database answers"


def test_a_tracker_that_loses_the_server_ends_and_another_takes_over(world):
    if not postgres.is_installed():
        raise Skip("Debian's package postgresql")
    with postgres.Server() as server:
        server.create("kiln")
        database = server.address("kiln")
        first, _ = tracker(world, "tracker0", database)
        until(lambda: "listening" in log_of(world, 0), "the first tracker")
        second, address = tracker(world, "tracker1", database)
        until(lambda: "standing by" in log_of(world, 1), "the standby")
        server.psql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                    " WHERE locktype = 'advisory' AND objid = 1")
        assert first.wait(timeout=harness.DEADLINE_S) == 18 and "the lead" in log_of(world, 0), log_of(world, 0)
        until(lambda: "listening" in log_of(world, 1), "the standby's turn")
        assert world.json("fleet", "list", "--tracker", address) == []
        # The server itself dies by kill -9 and comes back: who stands by waits for it, who led ends.
        third, _ = tracker(world, "tracker2", database)
        until(lambda: "standing by" in log_of(world, 2), "the standby")
        server.kill()
        assert second.wait(timeout=harness.DEADLINE_S) == 18, log_of(world, 1)
        server.start()
        until(lambda: "listening" in log_of(world, 2), "the standby's turn")
        assert third.poll() is None


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
