#!/usr/bin/env python3
"""kill -9 of the real programs at every point of base/failpoints.def: the job ends, nothing acknowledged is lost or
stored twice, nothing stays behind. tests/unit/rpc-server/test_failures.c tests the points of the rpc-server."""
import pathlib
import re
import signal
import sys

import harness
from harness import until
from test_durable import check_stopped, failing, stop
from test_fleet import records
from test_hosts import BUILDING as BUILDING_SERVER, needs_a_core_for_builders

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = "kiln-rpc-server"

# Where each program is killed, in the order in which a job passes the points; NAME:N is the N-th time. The last ones
# are at the end of a job.
TUNER = ["FILE_HALF", "DB_MIGRATE", "DB_PUT", "DB_COMMIT", "DB_DURABLE", "TUNER_ASSIGN", "TUNER_BUILT", "BLOB_WRITE:3", "BLOB_RENAME",
         "TUNER_UPLOADED", "TUNER_GRANT", "TUNER_TRIAL", "TUNER_RESULT", "TUNER_RECORD", "TUNER_RECORDED", "TUNER_ACK"]
TUNER_END = ["TUNER_FINAL", "TUNER_EXPORT", "TUNER_DONE"]
SHORT = 12  # trials of a job that comes to its end: enough that somebody stands against the default in a final
TRACKER_START = ["TRACKER_LEAD", "TRACKER_SERVE"]  # nobody has dialled yet
# Leases come first: once a job has some that are not used up, it asks for no more.
TRACKER = ["TRACKER_OPEN", "TRACKER_ASSIGNED", "BLOB_ASKED", "TRACKER_REQUEST", "TRACKER_KEPT", "TRACKER_GRANT", "TRACKER_GRANTED", "TRACKER_TRIAL",
           "TRACKER_RESULT", "TRACKER_BOARD", "TRACKER_ACK", "BLOB_KEPT"]
TRACKER_END = ["TRACKER_DONE"]
BUILDING = ["BOARD_BUILD", "BOARD_BUILT", "BOARD_BUILT:3"]
COMPILE = ["COMPILE_KERNEL"]  # kills a process of the command, not the command: tests/e2e/test_hostile.py
CLIENT = ["CLIENT_OPENED", "CLIENT_DONE", "CLIENT_KEPT"]
KEYS = ["TLS_HALF", "KEYS_RELOAD"]
FILES = ["FILE_HALF", "FILE_REPLACE"]


def name_of(moment):
    return re.match(r"\w+", moment)[0]


def walk(world, moments, start, tune=None):
    """Starts a program anew for each moment and waits until it is killed there; what was stored stays. Returns that.
    `tune`: the command whose job makes it go there."""
    kept = set()
    for moment in moments:
        child = failing(world, moment, start)
        until(lambda: child.poll() is not None or (tune and tune.poll() is not None), moment)
        assert child.poll() is not None, f"the job ended before {moment}"
        world.ends(child, -signal.SIGKILL)
        now = set(records(world))
        assert kept <= now, (moment, kept - now)
        kept = now
    return kept


def check_end(world, tune, trials):
    """A job that was not stopped has all its records, each once, here and there."""
    world.ends(tune)
    after = records(world)
    assert len({trial for trial, _, _ in after}) == len(after), "a trial has two records"
    home = records(world, "short.db")
    assert len(home) >= trials and set(home) <= set(after), (home, after)


def stop_all(world):
    for child in world.children:
        if child.poll() is None:
            child.terminate()
            child.wait(timeout=harness.DEADLINE_S)
    world.left_nothing()


def test_every_point_has_a_test(world):
    table = re.findall(r'^X\((\w+), "([\w-]+)", (?:KILL|ERROR), "(?:before|after) ', (ROOT / "base/failpoints.def").read_text(), re.M)
    assert len(table) >= 40 and len(table) == len(re.findall(r"^X\(", (ROOT / "base/failpoints.def").read_text(), re.M))
    walked = {"kiln-tuner": TUNER + TUNER_END, "kiln-tracker": TRACKER_START + TRACKER + TRACKER_END + KEYS, "kiln": CLIENT + COMPILE,
              "kiln-building-server": BUILDING}
    everywhere = {name_of(m) for moments in (*walked.values(), FILES) for m in moments}
    for name, program in table:
        where = everywhere if program == "any" else {name_of(m) for m in walked.get(program, [])}
        assert program == SERVER or name in where, f"nobody is killed at {name}: give it a place in tests/e2e/test_failpoints.py"
    assert everywhere <= {name for name, _ in table}, everywhere


def test_a_tuner_killed_at_every_point_loses_and_repeats_nothing(world):
    _, address = world.tracker()
    world.board(address)
    start = lambda: world.tuner(address, wait=False)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)
    kept = walk(world, TUNER, start, tune)
    tuner = start()
    stop(world, tune, kept)
    world.kill(tuner)
    short = world.tune(world.zoo("conv:C4"), address, SHORT, db="short.db")
    walk(world, TUNER_END, start, short)
    start()
    check_end(world, short, SHORT)
    stop_all(world)


def test_a_board_that_builds_is_killed_at_every_point_and_loses_nothing(world):
    needs_a_core_for_builders()
    _, address = world.tracker()
    harness.connected(world.start("kiln-tuner", "--tracker", address, "--db", world.path("tuner.db"), "--builders", 0))
    # Another board each time: one that goes away three times while a trial runs is put out of service.
    start = lambda: world.board(address, name=BUILDING_SERVER, state=f"board{len(world.children)}", wait=False)
    tune = world.tune(world.zoo("conv:C3"), address, 100000)
    kept = walk(world, BUILDING, start)
    failing(world, "BOARD_BUILD=error", start)  # the candidate is built when it comes again
    stop(world, tune, kept)
    assert "infra" not in {outcome for _, _, outcome in records(world)}, records(world)
    stop_all(world)


def test_a_tracker_killed_at_every_point_forgets_nothing(world):
    address = f"unix:{world.path('tracker.sock')}"
    start = lambda: world.start("kiln-tracker", "--listen", address, "--state", world.path("state"))
    walk(world, TRACKER_START, start)
    world.board(address, wait=False)
    world.tuner(address, wait=False)
    # Detached: a tracker that is away for long, which a busy machine may make of it, ends other jobs.
    tune = world.start("kiln", "tune", world.zoo("conv:C3"), "--trials", 100000, "--tracker", address, "--db", world.path("client.db"),
                       "--detach", "--job", "walk")
    kept = walk(world, TRACKER, start)
    world.ends(tune)
    tracker = start()
    until(lambda: set(records(world)) - kept, "another record")
    world.run("jobs", "cancel", "walk", "--tracker", address)
    assert world.run("jobs", "attach", "walk", "--tracker", address, "--db", world.path("client.db"), ok=False).returncode == 10
    check_stopped(world, kept)
    world.kill(tracker)
    last = failing(world, *TRACKER_END, start)
    short = world.tune(world.zoo("conv:C4"), address, SHORT, db="short.db")
    world.ends(last, -signal.SIGKILL)
    start()
    check_end(world, short, SHORT)
    stop_all(world)


def test_a_tracker_killed_while_a_model_comes_gets_the_job_all_the_same(world):
    address = f"unix:{world.path('tracker.sock')}"
    start = lambda: world.start("kiln-tracker", "--listen", address, "--state", world.path("state"))
    first = failing(world, "BLOB_KEPT", start)
    tune = world.tune(world.zoo("conv:C4"), address, SHORT, db="short.db")
    world.ends(first, -signal.SIGKILL)
    start()
    world.board(address)
    world.tuner(address)
    check_end(world, tune, SHORT)
    stop_all(world)


def test_an_error_at_a_point_ends_the_job_with_it_and_the_next_has_all(world):
    _, address = world.tracker()
    world.board(address)
    model, trials = world.zoo("conv:C3"), SHORT
    for moment in ("TUNER_RECORD", "TUNER_FINAL", "TUNER_EXPORT"):
        tuner = failing(world, f"{moment}=error", lambda: world.tuner(address, wait=False))
        done = world.run("tune", model, "--trials", trials, "--tracker", address, "--db", world.path("client.db"), ok=False)
        assert done.returncode != 0 and f"KILN_FAIL: {moment}" in done.stderr, (moment, done.stderr)
        world.kill(tuner)
    world.tuner(address)
    world.run("tune", model, "--trials", trials, "--tracker", address, "--db", world.path("client.db"))
    stop_all(world)


def test_a_command_killed_at_every_point_is_run_again(world):
    _, address = world.tracker()
    world.board(address)
    world.tuner(address)
    model, module = world.zoo("conv:C3"), world.path("c3.kiln")
    for moment in CLIENT:
        done = failing(world, moment, lambda: world.run("tune", model, "--trials", 4, "--tracker", address, "--db", world.path("client.db"),
                                                        "--out", module, ok=False))
        assert done.returncode == 11 and "died of signal 9" in done.stderr and not pathlib.Path(module).exists(), (moment, done)
        until(lambda: all(job["state"] not in ("waiting", "running") for job in world.json("jobs", "list", "--tracker", address)), "its job over")
    again = world.json("tune", model, "--trials", 4, "--tracker", address, "--db", world.path("client.db"), "--out", module)[-1]
    assert again["event"] == "done", again
    assert len(records(world)) == len({trial for trial, _, _ in records(world)})
    assert set(records(world, "client.db")) <= set(records(world))
    world.run("run", module, "--bench")
    stop_all(world)


def test_a_file_is_the_old_or_the_new_one(world):
    model, other, module = world.zoo("conv:C3"), world.zoo("conv:C4"), world.path("c3.kiln")
    world.run("compile", model, "-o", module)
    old = pathlib.Path(module).read_bytes()
    for moment in FILES:
        done = failing(world, moment, lambda: world.run("compile", other, "-o", module, ok=False))
        assert done.returncode == 11 and "died of signal 9" in done.stderr, (moment, done)  # its worker
        assert pathlib.Path(module).read_bytes() == old, moment
    done = failing(world, "FILE_REPLACE=error", lambda: world.run("compile", other, "-o", module, ok=False))
    assert done.returncode != 0 and "KILN_FAIL: FILE_REPLACE" in done.stderr, done
    assert pathlib.Path(module).read_bytes() == old
    world.run("compile", other, "-o", module)
    assert pathlib.Path(module).read_bytes() != old


def test_keys_are_the_old_or_the_new_ones(world):
    def new_key(name):
        world.run("key", "new", f"client/{name}", "-o", world.path(f"{name}.key"))
        return world.path(f"{name}.key")

    def asks(key):
        return world.run("fleet", "list", "--tracker", address, "--key-file", key, ok=False).returncode == 0

    one = new_key("one")
    first, address = world.tracker()
    start = lambda: world.start("kiln-tracker", "--listen", address)
    assert asks(one)
    world.kill(first)
    half = failing(world, "TLS_HALF", start)
    until(lambda: not asks(one) and half.poll() is not None, "a handshake")
    world.ends(half, -signal.SIGKILL)
    unread = failing(world, "KEYS_RELOAD", start)
    until(lambda: asks(one), "the tracker again")
    two = new_key("two")
    world.ends(unread, -signal.SIGKILL)
    cautious = failing(world, "KEYS_RELOAD=error", start)
    until(lambda: asks(two), "the tracker with the second key")
    three = new_key("three")
    until(lambda: any("stay in force" in log.read_text() for log in world.folder.glob("kiln-tracker.*.log")), "a reading that failed")
    assert asks(one) and asks(two)
    cautious.send_signal(signal.SIGHUP)
    until(lambda: asks(three), "the third key after another look")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
