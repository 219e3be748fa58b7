#!/usr/bin/env python3
"""The real programs over real sockets: tuning, and what happens when one of them dies."""
import contextlib
import os
import pathlib
import re
import signal
import struct
import sys

import harness
from harness import until


def records(world, db="tuner.db"):
    """(trial, attempt, outcome) of every stored trial; none while there is no database yet. Finals are no trials."""
    done = world.run("db", "sql", "SELECT trial_id, attempt, outcome FROM record WHERE final = 0", "--db", world.path(db), ok=False)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()[1:]] if done.returncode == 0 else []


def test_private_fleet_tunes_stores_packs_and_leaves_nothing(world):
    model, db = world.zoo("conv:C3"), world.path("t.db")
    done = world.json("tune", model, "--trials", 6, "--db", db, "--out", world.path("c3.kiln"))[-1]
    assert done["event"] == "done" and done["measured"] == 6 and done["verified"] > 0, done
    assert done["tasks"][0]["best_ms"] > 0 and done["tasks"][0]["trace"], done
    world.left_nothing()
    assert world.json("run", world.path("c3.kiln"), "--bench")[-1]["median_ms"] > 0


def slow_handlers(child):
    """What took more than 5 ms of CPU time on the loop of a program that has ended: {handler: ms of the longest}; and
    the most bytes hashed, bytes compressed, rows walked and processes started there in one turn."""
    line = [line for line in child.log.read_text().splitlines() if " turns of the loop" in line][-1]
    slow = re.findall(r"([^,;()]+) \(\d+, longest ([\d.]+) ms\)", line.partition("; over in CPU: ")[2])
    return {name.strip(): float(ms) for name, ms in slow}, *map(int, re.search(r"hashed (\d+) bytes, compressed (\d+), walked (\d+) rows, started (\d+) processes", line).groups())


def test_no_handler_holds_a_loop(world):
    """What holds a loop does so in each of three tunes; what a neighbour on the core slowed down, in one."""
    held = []
    for layer in ("conv:C2", "conv:C3", "conv:C4"):
        tracker, address, board, tuner = world.fleet()
        world.ends(world.tune(world.zoo(layer), address, 8))
        held.append({})
        for child in (tuner, board, tracker):
            child.send_signal(signal.SIGTERM)
            world.ends(child)
            slow, hashed, compressed, rows, processes = slow_handlers(child)
            assert hashed <= 1 << 16, f"{child.log.name}: hashed {hashed} bytes on the loop"
            assert compressed <= 1 << 19, f"{child.log.name}: compressed {compressed} bytes on the loop"
            assert rows <= 100, f"{child.log.name}: walked {rows} rows on the loop"
            assert processes == 0, f"{child.log.name}: started {processes} processes on the loop"
            held[-1].update(slow)
    if not os.environ.get("KILN_SANITIZED"):
        assert not set.intersection(*map(set, held)), held


def floats(path):
    """The elements of a .npy of f32: behind its head, which ends a line."""
    content = path.read_bytes()
    data = content[10 + int.from_bytes(content[8:10], "little"):]
    return struct.unpack(f"<{len(data) // 4}f", data)


def test_the_null_device_is_tuned_packed_and_run(world):
    digits = str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")
    module, db = world.path("d.kiln"), world.path("t.db")
    events = world.json("tune", digits, "--target", "null", "--trials", 8, "--db", db, "--out", module)
    done, whole = events[-1], [event for event in events if event["event"] == "module"][0]
    assert done["event"] == "done" and done["verified"] == 8, done
    assert 0 < whole["tuned_ms"] <= whole["default_ms"] < 0.1, whole  # loops in order take 10 ms
    again = world.json("tune", digits, "--target", "null", "--trials", 8, "--db", db)[-1]
    assert again["measured"] == 0 and again["tasks"][0]["best_ms"] == done["tasks"][0]["best_ms"], again
    rows = world.sql("t.db", "SELECT DISTINCT target, artefact_kind, outcome FROM record")
    assert rows == [["null", "null", "ok"]], rows
    own = world.path("own.kiln")
    world.run("compile", digits, "-o", own, "--db", "none")
    left = []
    for name in (module, own):
        world.run("run", name, "--output", name + ".out")
        left.append([floats(path) for path in sorted(pathlib.Path(name + ".out").iterdir())])
    assert len(left[0]) == len(left[1]) == 1 and len(left[0][0]) == len(left[1][0]) > 0, left
    assert all(abs(a - b) <= 1e-4 * max(1, abs(b)) for a, b in zip(left[0][0], left[1][0])), left
    assert "MULTIPLY_ADD" in world.run("explain", digits, "--target", "null", "--stage", "asm", "--task", 0).stdout


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


def test_builders_run_at_a_lower_priority_than_measurements(world):
    _, address, _, tuner = world.fleet()
    world.tune(world.zoo("conv:C3"), address, 100000)

    def modest_builders():
        for children in pathlib.Path(f"/proc/{tuner.pid}/task").glob("*/children"):  # of each thread
            for process in children.read_text().split():
                with contextlib.suppress(ProcessLookupError):  # it may end meanwhile
                    if os.getpriority(os.PRIO_PROCESS, int(process)) == 19:
                        yield process

    until(lambda: list(modest_builders()), "a modest builder")


def test_a_named_tracker_returns_the_records(world):
    _, address, _, _ = world.fleet()
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 4, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert done["measured"] == 4, done
    assert sorted(records(world, "client.db")) == sorted(records(world, "tuner.db"))
    assert [b["key"] for b in world.json("fleet", "list", "--tracker", address)] == ["board"]
    assert [j["state"] for j in world.json("jobs", "list", "--tracker", address)] == ["done"]


def test_the_beginning_of_an_identity_names_it(world):
    _, address, _, _ = world.fleet()
    to = ("--tracker", address)
    for job, model in (("nightly-one", "gemm:16x32x24"), ("nightly-two", "gemm:16x32x48")):
        events = world.json("tune", world.zoo(model), "--trials", 1, "--job", job, "--on", "boar", *to, "--db", world.path("c.db"))
        assert events[-1]["measured"] == 1, events  # with what was said of records that were left out
    [board] = world.json("fleet", *to)
    assert world.json("fleet", "show", board["node"][:6], *to)[0]["node"] == board["node"]
    assert world.json("fleet", "drain", "boar", *to)[0]["state"] == "drained"
    world.refused("fleet", "drain", "boa", *to, says="there is no board boa, and none that begins so")
    assert world.json("jobs", "show", "nightly-o", *to)[0]["job"] == "nightly-one"
    done = world.refused("jobs", "show", "nightly", *to, says="may mean more than one job: nightly-")
    assert done.returncode == 2 and "nightly-one" in done.stderr and "nightly-two" in done.stderr, done.stderr
    assert world.refused("jobs", "cancel", "weekly", *to, says="no job weekly").returncode == 13
    trial = world.sql("c.db", "SELECT trial_id FROM record WHERE job_id = 'nightly-one' AND final = 0")[0][0]
    world.run("db", "quarantine", trial[:8], "--db", world.path("c.db"))
    assert "1 records restored" in world.run("db", "restore", trial[:8], "--db", world.path("c.db")).stdout
    world.refused("db", "forget", "nightly", "--db", world.path("c.db"), says="may mean more than one trial, job, signer or trace")


def test_a_kicked_peer_comes_back(world):
    _, address, _, _ = world.fleet()
    to = ("--tracker", address)
    [board] = until(lambda: world.json("fleet", *to), "the board")
    kicked = world.json("fleet", "kick", board["node"][:8], *to)
    assert [(k["role"], k["node"], k["connections"]) for k in kicked] == [("board", board["node"], 1)], kicked
    until(lambda: "lost" in [event["what"] for event in world.json("fleet", "show", "board", *to)[0]["history"]], "its loss")
    until(lambda: world.json("fleet", *to)[0]["state"] == "free", "its return")
    world.refused("fleet", "forget", "board", *to, says="is connected and would register again")
    done = world.json("tune", world.zoo("gemm:16x32x24"), "--trials", 1, *to, "--db", world.path("c.db"))
    assert done[-1]["event"] == "done"
    [job] = world.json("jobs", *to)
    assert job["tuner_name"] == os.uname().nodename and f"  by {job['tuner_name']}" in world.run("jobs", *to).stdout, job
    assert "tuner " + job["tuner_name"] in world.run("fleet", "kick", job["tuner"], *to).stdout
    world.refused("fleet", "kick", "nobody", *to, says="no peer nobody is connected")
    assert '"message":"KICK"' in pathlib.Path(world.path("home/tracker/audit.log")).read_text()


def test_jobs_watch_follows_a_job_to_its_end(world):
    _, address, _, _ = world.fleet()
    world.refused("jobs", "watch", "--tracker", address, says="JOB is missing")
    world.refused("jobs", "watch", "f00d", "--tracker", address, says="f00d")
    tune = world.tune(world.zoo("conv:C3"), address, 6)
    [job] = until(lambda: world.json("jobs", "list", "--tracker", address), "the job")
    lines = world.json("jobs", "watch", job["job"], "--tracker", address)
    assert lines[-1]["job"] == job["job"] and lines[-1]["state"] == "done" and lines[-1]["done"] >= 6, lines[-1]
    assert all(line["event"] == "progress" for line in lines[:-1]), lines
    world.ends(tune)


def test_boards_share_a_job_and_records_name_them(world):
    """Two boards of the same target, each on a core of its own where there are two: both are given trials."""
    _, address = world.tracker()
    cores = sorted(os.sched_getaffinity(0))
    for number in range(2):
        core = {cores[number % len(cores)]}
        world.board(address, key=f"board{number}", state=f"board{number}",
                    before=lambda core=core: os.sched_setaffinity(0, core))
    world.tuner(address)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)  # until both had some, however slow one of them is
    devices = "SELECT DISTINCT name FROM record JOIN device ON device.id = device_id WHERE final = 0 ORDER BY name"
    until(lambda: records(world) and len(world.sql("tuner.db", devices)) == 2, "records of both")
    tune.send_signal(signal.SIGINT)
    world.ends(tune, 10)
    assert world.sql("client.db", devices) == [["board0"], ["board1"]], world.sql("client.db", devices)


def test_a_final_is_one_measurement_on_one_board(world):
    _, address = world.tracker()
    for number in range(2):
        world.board(address, key=f"board{number}", state=f"board{number}")
    world.tuner(address)
    world.json("tune", world.zoo("conv:C3"), "--trials", 24, "--tracker", address, "--db", world.path("client.db"))
    finals = world.sql("client.db", "SELECT count(DISTINCT device_id), count(*) FROM record WHERE final = 1")
    assert finals[0][0] == "1" and int(finals[0][1]) >= 2, finals  # the times were taken side by side


def test_a_board_of_two_slots_shares_a_job_with_itself(world):
    """Each slot has a core of its own; where there is one core, two slots are refused."""
    _, address = world.tracker()
    if len(os.sched_getaffinity(0)) < 2:
        world.refused("--tracker", address, "--slots", 2, name="kiln-rpc-server", says="slots need as many cores")
        return
    world.board(address, "--slots", 2)
    world.tuner(address)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)  # until it is stopped
    boards = lambda: world.json("fleet", "list", "--tracker", address)
    board = until(lambda: [board for board in boards() if board.get("busy") == 2], "both slots leased")[0]
    assert board["slots"] == 2, board
    enough = board.get("trials", 0) + 16
    until(lambda: boards()[0].get("trials", 0) >= enough, "trials of both slots")
    assert not boards()[0].get("faults"), boards()
    tune.send_signal(signal.SIGINT)
    world.ends(tune, 10)


def test_killed_tracker_ends_tune_with_unavailable_and_the_job(world):
    tracker, address, _, _ = world.fleet()
    tune = world.tune(world.zoo("conv:C2"), address, 100000)
    until(lambda: len(records(world)) >= 2, "the first records")
    world.kill(tracker)
    world.ends(tune, 21)
    assert "job " in tune.log.read_text().splitlines()[-1]


def expect_each_once(world, trials):
    """Every trial has one record, and none blames the fleet."""
    after = records(world)
    assert len(after) == trials and len({trial for trial, _, _ in after}) == trials, f"{len(after)} records of {trials} trials"
    lost = [record for record in after if record[2] in ("board_lost", "infra")]
    assert not lost, lost


def test_a_killed_tuner_continues_without_repeating_a_trial(world):
    _, address, _, tuner = world.fleet()
    tune = world.tune(world.zoo("conv:C2"), address, 24)
    until(lambda: len(records(world)) >= 4, "the first records")
    world.kill(tuner)
    kept = set(records(world))
    world.tuner(address)
    world.ends(tune)
    assert kept <= set(records(world)), kept - set(records(world))
    expect_each_once(world, 24)


def test_killed_board_costs_one_trial_that_runs_again(world):
    _, address, board, _ = world.fleet()
    tune = world.tune(world.zoo("conv:C2"), address, 12)
    until(lambda: len(records(world)) >= 2, "the first records")
    world.kill(board)
    world.board(address)
    world.ends(tune)
    expect_each_once(world, 12)


def test_boards_are_restarted_one_by_one_without_losing_a_trial(world):
    _, address = world.tracker()
    boards = [world.board(address, key=f"board{number}", state=f"board{number}") for number in range(2)]
    world.tuner(address)
    tune = world.tune(world.zoo("conv:C2"), address, 40)
    until(lambda: len(records(world)) >= 3, "the first records")
    for number, board in enumerate(boards):
        board.send_signal(signal.SIGTERM)
        world.ends(board)
        world.board(address, key=f"board{number}", state=f"board{number}")
        before = len(records(world))
        until(lambda: len(records(world)) > before or tune.poll() is not None, "the next record")
    world.ends(tune)
    expect_each_once(world, 40)
    faulty = [board for board in world.json("fleet", "--tracker", address) if board.get("faults")]
    assert not faulty, faulty


def test_interrupt_stops_cleanly_and_goes_on(world):
    model, db = world.zoo("conv:C2"), world.path("t.db")
    tune = world.start("kiln", "tune", model, "--trials", 100000, "--db", db)
    until(lambda: len(records(world, "t.db")) >= 2, "the first records")
    tune.send_signal(signal.SIGINT)
    world.ends(tune, 10)
    kept = len(records(world, "t.db"))
    assert "to go on" in tune.log.read_text()
    world.left_nothing()
    done = world.json("tune", model, "--trials", kept + 1, "--db", db)[-1]
    assert done["measured"] == 1, done


def test_job_without_board_names_what_is_missing(world):
    _, address = world.tracker()
    world.tuner(address)
    done = world.refused("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"), says="board")
    assert done.returncode == 21
    # Waiting is no silence: the tracker did not take the command for dead. It connects to ask what was measured of boards, and to wait.
    assert len(re.findall("client .* connected", open(world.path("kiln-tracker.0.log")).read())) == 2


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
