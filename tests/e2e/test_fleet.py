#!/usr/bin/env python3
"""The real programs over real sockets: tuning, and what happens when one of them dies."""
import os
import signal
import subprocess
import sys

import harness
from harness import processes_with, program, until


def start_tune(world, model, address, trials, db="client.db"):
    log = open(world.path("tune.log"), "w")
    child = subprocess.Popen([program("kiln"), "tune", model, "--trials", str(trials), "--tracker", address, "--db",
                              world.path(db), "--json"], env=world.env, cwd=world.folder, stdout=log, stderr=log,
                             start_new_session=True)
    world.children.append(child)
    return child


def records(world, db="tuner.db"):
    """(trial, attempt, outcome) of every stored trial; none while there is no database yet. Finals are no trials."""
    done = world.run("db", "sql", "SELECT trial_id, attempt, outcome FROM record WHERE final = 0", "--db", world.path(db), ok=False)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()] if done.returncode == 0 else []


def test_private_fleet_tunes_stores_packs_and_leaves_nothing(world):
    model, db = world.zoo("conv:C3"), world.path("t.db")
    done = world.json("tune", model, "--trials", 6, "--db", db, "--out", world.path("c3.kiln"))[-1]
    assert done["event"] == "done" and done["measured"] == 6 and done["verified"] > 0, done
    assert done["tasks"][0]["best_ms"] > 0 and done["tasks"][0]["trace"], done
    assert not processes_with(str(world.folder)), processes_with(str(world.folder))
    assert not os.listdir(world.env["TMPDIR"])
    assert world.json("run", world.path("c3.kiln"), "--bench")[-1]["median_ms"] > 0


def test_second_identical_tune_measures_nothing(world):
    model, db = world.zoo("conv:C3"), world.path("t.db")
    first = world.json("tune", model, "--trials", 4, "--db", db)[-1]
    second = world.json("tune", model, "--trials", 4, "--db", db)[-1]
    assert first["measured"] == 4 and second["measured"] == 0, (first, second)
    assert second["tasks"][0]["best_ms"] == first["tasks"][0]["best_ms"]


def test_two_threads_are_searched_kept_and_packed_apart_from_one(world):
    if len(os.sched_getaffinity(0)) < 2:
        raise harness.Skip("a second core")
    model, db = world.zoo("conv:C3"), world.path("t.db")
    for threads, target, new in ((1, "native", 6), (2, "native,threads=2", 6), (1, "native", 0), (2, "native,threads=2", 0)):
        module = world.path(f"c3.{threads}.kiln")
        done = world.json("tune", model, "--target", target, "--trials", 6, "--db", db, "--out", module)[-1]
        assert done["measured"] == new, done
        assert world.json("run", module, "--bench")[-1]["threads"] == threads
        loops = world.run("explain", model, "--stage", "loops", "--task", 0, "--target", target, "--db", db).stdout
        assert ("  parallel " in loops.split("# run")[-1]) == (threads > 1), loops
    rows = world.sql("t.db", "SELECT DISTINCT target, threads FROM record")
    assert len(rows) == 2 and all((",threads=2" in target) == (threads == "2") for target, threads in rows), rows


def test_builders_give_way_to_what_is_timed(world):
    _, address = world.tracker()
    world.board(address)
    tuner = world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C3"), address, 100000)
    workers = f"/proc/{tuner.pid}/task/{tuner.pid}/children"
    until(lambda: [p for p in open(workers).read().split() if os.getpriority(os.PRIO_PROCESS, int(p)) == 19], "a modest builder")
    os.killpg(tune.pid, signal.SIGINT)
    tune.wait(timeout=harness.DEADLINE_S)


def test_named_tracker_sends_records_home(world):
    _, address = world.tracker()
    world.board(address)
    world.tuner(address)
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 4, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert done["measured"] == 4, done
    assert sorted(records(world, "client.db")) == sorted(records(world, "tuner.db"))
    assert [b["key"] for b in world.json("fleet", "list", "--tracker", address)] == ["board"]
    assert [j["state"] for j in world.json("jobs", "list", "--tracker", address)] == ["done"]


def test_jobs_watch_follows_a_job_to_its_end(world):
    _, address = world.tracker()
    world.board(address)
    world.tuner(address)
    world.refused("jobs", "watch", "--tracker", address, says="ID is missing")
    world.refused("jobs", "watch", "f00d", "--tracker", address, says="f00d")
    tuning = start_tune(world, world.zoo("conv:C3"), address, 6)
    [job] = until(lambda: world.json("jobs", "list", "--tracker", address), "the job")
    lines = world.json("jobs", "watch", job["job"], "--tracker", address)
    assert lines[-1]["job"] == job["job"] and lines[-1]["state"] == "done" and lines[-1]["done"] >= 6, lines[-1]
    assert all(line["event"] == "progress" for line in lines[:-1]), lines
    assert tuning.wait() == 0


def test_boards_share_a_job_and_records_name_them(world):
    """Two boards of the same target, each on a core of its own: both are given trials, whoever is idle."""
    _, address = world.tracker()
    cores = sorted(os.sched_getaffinity(0))
    for number in range(2):
        core = {cores[number % len(cores)]}
        world.board(address, key=f"board{number}", state=f"board{number}",
                    before=lambda core=core: os.sched_setaffinity(0, core))
    world.tuner(address)
    until(lambda: len(world.json("fleet", "list", "--tracker", address)) == 2, "both boards")
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 24, "--target", "native", "--tracker", address,
                      "--db", world.path("client.db"))[-1]
    assert done["measured"] == 24, done
    boards = world.json("fleet", "list", "--tracker", address)
    assert len(boards) == 2 and all(board["trials"] > 0 for board in boards), boards
    by_device = world.sql("client.db", "SELECT name, count(*) FROM record JOIN device ON device.id = device_id"
                                       " WHERE final = 0 GROUP BY name ORDER BY name")
    assert [name for name, _ in by_device] == ["board0", "board1"], by_device
    # A final is one measurement on one board: its times were taken side by side.
    finals = world.sql("client.db", "SELECT count(DISTINCT device_id), count(*), min(gain_low) FROM record WHERE final = 1")
    assert finals[0][0] == "1" and int(finals[0][1]) >= 2, finals


def test_killed_tracker_ends_tune_with_unavailable_and_the_job(world):
    tracker, address = world.tracker()
    world.board(address)
    world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C2"), address, 4000)
    until(lambda: len(records(world)) >= 2, "the first records")
    os.killpg(tracker.pid, signal.SIGKILL)
    assert tune.wait(timeout=60) == 21, open(world.path("tune.log")).read()
    assert "job " in open(world.path("tune.log")).read().splitlines()[-1]


def test_killed_tuner_goes_on_without_repeating_a_trial(world):
    _, address = world.tracker()
    world.board(address)
    tuner = world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C2"), address, 24)
    until(lambda: len(records(world)) >= 4, "the first records")
    os.killpg(tuner.pid, signal.SIGKILL)
    tuner.wait()
    kept = set(records(world))
    world.tuner(address)
    assert tune.wait(timeout=harness.DEADLINE_S) == 0, open(world.path("tune.log")).read()
    after = records(world)
    assert kept <= set(after) and len(after) == 24, (len(kept), len(after))
    assert len({trial for trial, _, _ in after}) == 24, "a trial was recorded twice"


def test_killed_board_costs_one_trial_that_runs_again(world):
    _, address = world.tracker()
    board = world.board(address)
    world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C2"), address, 12)
    until(lambda: len(records(world)) >= 2, "the first records")
    os.killpg(board.pid, signal.SIGKILL)
    board.wait()
    world.board(address)
    assert tune.wait(timeout=harness.DEADLINE_S) == 0, open(world.path("tune.log")).read()
    after = records(world)
    assert len(after) == 12 and len({trial for trial, _, _ in after}) == 12, after
    assert not [r for r in after if r[2] in ("board_lost", "infra")], after


def test_boards_are_restarted_one_by_one_without_losing_a_trial(world):
    _, address = world.tracker()
    boards = [world.board(address, key=f"board{number}", state=f"board{number}") for number in range(2)]
    world.tuner(address)
    tune = start_tune(world, world.zoo("conv:C2"), address, 40)
    until(lambda: len(records(world)) >= 3, "the first records")
    for number, board in enumerate(boards):
        board.send_signal(signal.SIGTERM)
        assert board.wait(timeout=60) == 0
        world.board(address, key=f"board{number}", state=f"board{number}")
        before = len(records(world))
        until(lambda: len(records(world)) > before or tune.poll() is not None, "the next record")
    assert tune.wait(timeout=harness.DEADLINE_S) == 0, open(world.path("tune.log")).read()
    after = records(world)
    assert len(after) == 40 and not [r for r in after if r[2] in ("board_lost", "infra")], after
    assert not [board for board in world.json("fleet", "--tracker", address) if board.get("faults")]


def test_interrupt_stops_cleanly_and_goes_on(world):
    model, db = world.zoo("conv:C2"), world.path("t.db")
    log = open(world.path("tune.log"), "w")
    tune = subprocess.Popen([program("kiln"), "tune", model, "--trials", "4000", "--db", db], env=world.env,
                            cwd=world.folder, stdout=log, stderr=log, start_new_session=True)
    world.children.append(tune)
    until(lambda: len(records(world, "t.db")) >= 2, "the first records")
    tune.send_signal(signal.SIGINT)
    assert tune.wait(timeout=60) == 10, open(world.path("tune.log")).read()
    kept = len(records(world, "t.db"))
    assert "to go on" in open(world.path("tune.log")).read()
    assert not processes_with(str(world.folder))
    done = world.json("tune", model, "--trials", kept + 1, "--db", db)[-1]
    assert done["measured"] == 1, done


def test_job_without_board_names_what_is_missing(world):
    _, address = world.tracker()
    world.tuner(address)
    done = world.refused("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"), says="board")
    assert done.returncode == 21
    # Waiting is no silence: the tracker did not take the command for dead.
    assert open(world.path("kiln-tracker.0.log")).read().count("client kiln connected") == 1


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
