#!/usr/bin/env python3
"""A team's fleet: two trackers and two tuners of several machines (here: folders) share a PostgreSQL server."""
import contextlib
import pathlib
import signal
import sys

import harness
import postgres
from harness import Skip, until


@contextlib.contextmanager
def two_trackers(world):
    """A server, and two trackers that share it and their blobs: (server, its database, one that leads, one that stands by,
    their addresses)."""
    if not postgres.is_installed():
        raise Skip("Debian's package postgresql")
    with postgres.Server() as server:
        server.create("kiln")
        database = server.address("kiln")
        first, second = tracker(world, 0, database), tracker(world, 1, database)
        yield server, database, first, second, ",".join(address_of(world, number) for number in range(2))


def address_of(world, number):
    return f"unix:{world.path(f'tracker{number}.sock')}"


def tracker(world, number, database):
    """Starts one with a home of its own, as on another machine; the first one leads."""
    child = world.start("kiln-tracker", "--listen", address_of(world, number), "--db", database, "--blobs", "folder:" + world.path("blobs"),
                        home=f"tracker{number}")
    says(child, "standing by" if number else "listening")
    return child


def says(child, words):
    until(lambda: words in child.log.read_text(), f"{child.log.name[:-4]} {words}")


def trials(world, database):
    done = world.run("db", "sql", "SELECT trial_id, attempt, outcome FROM record WHERE final = 0", "--db", database, ok=False)
    return sorted(tuple(line.split("\t")) for line in done.stdout.splitlines()[1:]) if done.returncode == 0 else []


def test_a_killed_tracker_is_replaced_and_nothing_is_lost(world):
    with two_trackers(world) as (_, database, first, second, trackers):
        world.board(trackers)
        tuners = [world.tuner(trackers, db=database, home=f"tuner{number}") for number in range(2)]
        until(lambda: len(world.json("fleet", "list", "--tracker", trackers)) == 1, "the board")
        half = "5a" * 32
        world.run("project", "new", "vision", "--tracker", trackers)
        world.run("project", "trust", "vision", half, "--tracker", trackers)
        endless = world.tune(world.zoo("conv:C3"), trackers, 100000, db="C3.db")
        until(lambda: any(" job " in tuner.log.read_text() for tuner in tuners), "a tuner at work")
        short = world.tune(world.zoo("conv:C4"), trackers, 16, db="C4.db")
        for tuner in tuners:
            says(tuner, " job ")
        until(lambda: len(trials(world, database)) >= 6, "the first records")
        world.kill(first)
        kept = set(trials(world, database))
        world.ends(short)
        assert second.poll() is None and "listening" in second.log.read_text()
        [vision] = world.json("project", "show", "vision", "--tracker", trackers)
        assert [s["signer"] for s in vision["signers"]] == [half], vision
        until(lambda: set(trials(world, database)) - kept, "another record")
        endless.send_signal(signal.SIGINT)
        world.ends(endless, 10)
        after = trials(world, database)
        assert kept <= set(after), kept - set(after)
        assert len({trial for trial, _, _ in after}) == len(after), "a trial has two records"
        lost = [row for row in after if row[2] in ("board_lost", "infra")]
        assert not lost, lost
        home = [trials(world, world.path(db)) for db in ("C3.db", "C4.db")]
        assert all(home) and set(home[0] + home[1]) == set(after), "a job's records did not all come home"
        assert world.json("db", "best", "--db", database), "the team's database answers"


def test_a_killed_tuners_job_goes_to_the_other(world):
    """No job is run by two: who takes it over waits for the end of the other's claim, and repeats nothing."""
    with two_trackers(world) as (server, database, _, _, trackers):
        world.board(trackers)
        tuners = [world.tuner(trackers, db=database, home=f"tuner{number}") for number in range(2)]
        nodes = [pathlib.Path(world.path(f"tuner{number}/tuner/node")) for number in range(2)]
        until(lambda: all(node.exists() for node in nodes), "the tuners")
        nodes = [node.read_text().strip() for node in nodes]
        claims = lambda: server.psql("SELECT holder FROM kiln_records.claim", "kiln")
        job = world.tune(world.zoo("conv:C3"), trackers, 100000, db="C3.db")
        until(lambda: len(trials(world, database)) >= 3, "the first records")
        [holder] = claims()
        world.kill(tuners.pop(nodes.index(holder)))
        nodes.remove(holder)
        kept = set(trials(world, database))
        until(lambda: claims() == nodes, "the other's claim")
        until(lambda: set(trials(world, database)) - kept, "another record")
        job.send_signal(signal.SIGINT)
        world.ends(job, 10)
        after = trials(world, database)
        assert kept <= set(after) and len({trial for trial, _, _ in after}) == len(after), after
        until(lambda: not claims(), "no claim left")


def test_a_tuner_whose_job_another_claims_stops_and_goes_on_when_it_is_free(world):
    with two_trackers(world) as (server, database, _, _, trackers):
        world.board(trackers)
        tuner = world.tuner(trackers, db=database)
        job = world.tune(world.zoo("conv:C3"), trackers, 100000, db="C3.db")
        until(lambda: len(trials(world, database)) >= 3, "the first records")
        server.psql("UPDATE kiln_records.claim SET holder = 'another', until = now() + interval '1 hour'", "kiln")
        says(tuner, "another tuner claimed it")
        until(lambda: [row["state"] for row in world.json("fleet", "list", "--tracker", trackers)] == ["free"], "its board is free")
        kept = trials(world, database)
        assert job.poll() is None
        server.psql("DELETE FROM kiln_records.claim", "kiln")
        until(lambda: set(trials(world, database)) - set(kept), "another record")
        job.send_signal(signal.SIGINT)
        world.ends(job, 10)
        after = trials(world, database)
        assert set(kept) <= set(after) and len({trial for trial, _, _ in after}) == len(after), after


def test_a_tracker_that_loses_the_server_ends_and_another_takes_over(world):
    with two_trackers(world) as (server, database, first, second, _):
        server.psql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                    " WHERE locktype = 'advisory' AND objid = 1")
        world.ends(first, 18)
        assert "the lead" in first.log.read_text()
        says(second, "listening")
        assert world.json("fleet", "list", "--tracker", address_of(world, 1)) == []
        # The server itself dies by kill -9 and comes back: who stands by waits for it, who led ends.
        third = tracker(world, 2, database)
        server.kill()
        world.ends(second, 18)
        server.start()
        says(third, "listening")
        assert third.poll() is None


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
