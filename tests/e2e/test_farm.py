#!/usr/bin/env python3
"""A permanent fleet: detached jobs, boards out of service, programs that die at the worst moment."""
import json
import os
import pwd
import signal
import sys
import urllib.request

import harness
from harness import until


def fleet(world, boards=1):
    _, address = world.tracker()
    for number in range(boards):
        world.board(address, key=f"board{number}", state=f"board{number}")
    world.tuner(address)
    until(lambda: len(world.json("fleet", "--tracker", address)) == boards, "the boards")
    return address


def states(world, address):
    return {board["key"]: board["state"] for board in world.json("fleet", "--tracker", address)}


def job_of(world, address):
    [job] = world.json("jobs", "--tracker", address)
    return job


def test_a_detached_job_is_found_again_with_its_records(world):
    address = fleet(world)
    line = world.json("tune", world.zoo("conv:C3"), "--trials", 4, "--tracker", address, "--db", world.path("client.db"), "--detach")[-1]
    assert line["event"] == "detached" and not os.path.exists(world.path("other.db")), line
    assert job_of(world, address)["detach"]
    last = world.json("jobs", "attach", line["job"], "--tracker", address, "--db", world.path("other.db"))[-1]
    assert last["state"] == "done" and last["done"] >= 4, last
    [[count]] = world.sql("other.db", "SELECT count(*) FROM record WHERE final = 0")
    assert count == "4", count
    again = world.json("jobs", "attach", line["job"], "--tracker", address, "--db", world.path("other.db"))[-1]
    assert again["state"] == "done", again
    [[count]] = world.sql("other.db", "SELECT count(*) FROM record WHERE final = 0")
    assert count == "4", count


def test_a_detached_job_outlives_tracker_and_tuner(world):
    model, address = world.zoo("conv:C2"), f"unix:{world.path('socket')}"  # which nobody else takes meanwhile
    tracker, _ = world.tracker(address=address)
    world.board(address)
    tuner = world.tuner(address)
    job = world.json("tune", model, "--trials", 16, "--tracker", address, "--db", world.path("client.db"), "--detach")[-1]["job"]
    until(lambda: job_of(world, address).get("done", 0) >= 2, "the first results")
    for child in (tracker, tuner):
        world.kill(child)
    world.tracker(address=address)
    world.tuner(address)
    last = world.json("jobs", "attach", job, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert last["state"] == "done" and last["done"] == 16, last
    rows = world.sql("client.db", "SELECT count(*), count(DISTINCT trial_id) FROM record WHERE final = 0")
    assert rows == [["16", "16"]], rows


def test_the_same_job_twice_is_one(world):
    _, address = world.tracker()
    tune = ["--trials", 2, "--tracker", address, "--db", world.path("c.db"), "--detach", "--job", "nightly"]
    for _ in range(2):
        assert world.json("tune", world.zoo("conv:C3"), *tune)[-1]["job"] == "nightly"
    assert job_of(world, address)["state"] == "waiting"
    assert world.refused("tune", world.zoo("conv:C2"), *tune, says="asks for something else").returncode == 14
    assert world.refused("tune", world.zoo("conv:C3"), *tune, "--weight", 3, says="asks for something else").returncode == 14
    world.refused("tune", world.zoo("conv:C3"), *tune, "--weight", 0, says="--weight is 1 to")
    world.run("jobs", "cancel", "nightly", "--tracker", address)
    assert job_of(world, address)["state"] == "cancelled"
    assert world.refused("jobs", "attach", "nightly", "--tracker", address, "--db", world.path("c.db"), says="cancelled").returncode == 10


def test_detaching_needs_a_fleet_that_stays(world):
    assert world.refused("tune", world.zoo("conv:C3"), "--detach", "--db", world.path("c.db"), says="--tracker").returncode == 2


def test_a_board_reports_the_usual_time_of_its_reference_kernel(world):
    address = fleet(world)
    [row] = world.json("fleet", "show", "board0", "--tracker", address)
    facts = {fact["key"]: fact["value"] for fact in row["facts"]}
    for name in ("pace", "memory pace"):
        assert " within " in facts[name] or facts[name].startswith("off: "), facts


def test_boards_go_out_of_service_and_come_back(world):
    world.env["USER"] = "ann"
    address = fleet(world, boards=2)
    [row] = world.json("fleet", "drain", "board0", "--why", "new fan", "--tracker", address)
    assert row["state"] == "drained" and row["text"] == "new fan", row
    assert world.json("fleet", "quarantine", "board1", "--tracker", address)[0]["state"] == "quarantined"
    assert states(world, address) == {"board0": "drained", "board1": "quarantined"}
    [row] = world.json("fleet", "show", "board0", "--tracker", address)
    assert [e["what"] for e in row["history"]] == ["came", "drained"] and row["history"][1]["text"] == "by ann: new fan", row
    assert "drained      by ann: new fan" in world.run("fleet", "show", "board0", "--tracker", address).stdout
    assert "new fan" in world.run("fleet", "--tracker", address).stdout
    done = world.refused("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"), says="2 would fit")
    assert done.returncode == 21 and "0 trials  nothing was measured" in done.stdout, done.stdout
    released = world.run("fleet", "release", "board0", "--tracker", address).stdout
    assert released.startswith("board0 ") and released.count("\n") == 1, released  # nothing of missing tuners: there is one
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"))[-1]
    assert done["measured"] == 2, done
    rows = {board["key"]: board.get("trials", 0) for board in world.json("fleet", "--tracker", address)}
    assert rows["board0"] >= 2 and rows["board1"] == 0, rows
    assert world.refused("fleet", "drain", "board7", "--tracker", address, says="board7").returncode == 13


def test_a_board_shows_its_holder_and_only_known_facts(world):
    world.env["USER"] = "ann"  # what a command says of itself counts for nothing
    address = fleet(world)
    user = pwd.getpwuid(os.getuid()).pw_name
    show = lambda: world.run("fleet", "show", "board0", "--tracker", address).stdout
    assert "nothing was timed yet" in show() and " 0.0 degrees" not in show() and " 0.00 GHz" not in show(), show()
    world.run("tune", world.zoo("conv:C2"), "--trials", 1000, "--tracker", address, "--db", world.path("c.db"), "--detach", "--job", "n")
    until(lambda: f" {user}'s job n of default for " in world.run("fleet", "--tracker", address).stdout, "the board held")
    until(lambda: "times are known to" in show(), "the first result")
    world.run("jobs", "cancel", "n", "--tracker", address)


def test_a_watcher_of_the_fleet_gets_every_change(world):
    address = fleet(world)
    watcher = world.start("kiln", "fleet", "watch", "--tracker", address, "--json")
    told = lambda: [json.loads(line)["state"] for line in watcher.log.open() if line.endswith("\n")]
    until(lambda: told() == ["free"], "the board as it is")
    world.run("fleet", "drain", "board0", "--tracker", address)
    until(lambda: told()[-1] == "drained", "the board drained")
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(timeout=harness.DEADLINE_S) == 0


def test_a_watcher_of_the_fleet_sees_the_owner_of_a_boards_job(world):
    address = fleet(world)
    watcher = world.start("kiln", "fleet", "watch", "--tracker", address)
    world.run("tune", world.zoo("conv:C3"), "--trials", 100000, "--tracker", address, "--db", world.path("c.db"), "--detach",
              "--job", "night")
    until(lambda: "'s job night of default for " in watcher.log.read_text(errors="replace"), "the job's name")
    world.run("jobs", "cancel", "night", "--tracker", address)
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(timeout=harness.DEADLINE_S) == 0


def test_a_job_for_a_board_that_is_not_there_ends_at_once(world):
    address = fleet(world, boards=1)
    done = world.refused("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"), "--on", "rpi9",
                         says="no board called rpi9")
    assert done.returncode == 13 and "board0 (1 of 1 in service)" in done.stderr, done.stderr
    world.refused("tune", world.zoo("conv:C3"), "--tracker", address, "--db", world.path("c.db"), "--on", "a,b", says="--on")
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 2, "--tracker", address, "--db", world.path("c.db"), "--on", "board0")[-1]
    assert done["measured"] == 2, done


def test_a_tracker_serves_its_counters_over_http(world):
    port = world.folder / "http"
    _, address = world.tracker("--http", "0", "--http-port-file", port, address=f"unix:{world.path('socket')}")
    until(port.exists, "HTTP listening")
    world.board(address)
    world.tuner(address)
    ask = lambda path: urllib.request.urlopen(f"http://127.0.0.1:{port.read_text().strip()}{path}", timeout=harness.DEADLINE_S)
    page = lambda path: ask(path).read().decode()
    until(lambda: "kiln_boards_connected 1\n" in page("/metrics"), "the board")
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 3, "--tracker", address, "--db", world.path("c.db"))[-1]
    assert done["measured"] == 3, done
    results = [line for line in page("/metrics").splitlines() if line.startswith("kiln_results_total ")]
    assert results and int(results[0].split()[1]) >= 3, results
    state = json.loads(page("/state"))
    assert state["boards"][0]["trials"] >= 3 and state["jobs"][0]["state"] == "done", state
    assert page("/healthz") == "serving\n"
    world.refused("--listen", "127.0.0.1:0", "--state", world.path("s2"), "--http", "0.0.0.0:0", says="--insecure", name="kiln-tracker")


def test_traces_of_the_programs_join_into_one(world):
    trace = lambda name: ["--trace", world.path(f"{name}.json")]
    tracker, address = world.tracker("--log-json", "--verbose", *trace("tracker"))
    world.board(address, *trace("board"))
    world.tuner(address, *trace("tuner"))
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 3, "--tracker", address, "--db", world.path("c.db"))[-1]
    assert done["measured"] == 3, done
    for child in world.children[::-1]:
        child.send_signal(signal.SIGTERM)
        world.ends(child)
    world.run("trace", *(world.path(f"{name}.json") for name in ("tracker", "board", "tuner")), "-o", world.path("all.json"))
    events = json.load(open(world.path("all.json")))["traceEvents"]
    names = [event["args"]["name"].split()[0] for event in events if event["ph"] == "M"]
    assert sorted(names) == ["kiln-rpc-server", "kiln-tracker", "kiln-tuner"], names
    span = {(event["name"], event["ph"], event["id"]): event["ts"] for event in events if "id" in event}
    trials = [key[2] for key in span if key[:2] == ("child", "b")]
    assert len(trials) >= 3, trials
    for trial in trials:  # all three programs speak of it, each in order (how clocks are joined: the next test)
        for name in ("sent", "on the board", "child"):
            assert span[name, "b", trial] <= span[name, "e", trial], (name, trial)
    log = [json.loads(line) for line in open(tracker.log)]
    results = [line for line in log if line["message"] == "trial's result"]
    assert len(results) >= 3 and all(line["job"] and line["trial"] and line["lease"] and line["board"] for line in results), results
    world.refused("trace", world.path("tuner.db"), says="no trace of Kiln")


def test_traces_are_joined_on_the_trackers_clock(world):
    def trace(name, own_ns, wall_ns, events):
        head = [{"ph": "M", "name": "process_name", "pid": 7, "args": {"name": f"kiln-{name} on host"}},
                {"ph": "i", "name": "kiln_origin", "pid": 7, "args": {"own_ns": own_ns, "wall_ns": wall_ns}}]
        with open(world.path(f"{name}.json"), "w") as file:
            file.write("[\n" + "".join(json.dumps(event) + ",\n" for event in head + events))
            file.write('{"ph": "i", "name": "half a li')  # a killed program ends like this
    event = lambda name, own_us: {"ph": "i", "name": name, "pid": 7, "ts": own_us}
    clock = lambda their_ns, own_ns: {"ph": "i", "name": "kiln_clock", "pid": 7,
                                      "args": {"boot": "one", "their_ns": their_ns, "own_ns": own_ns}}
    trace("tracker", 5_000_000, 900_000_000, [event("granted", 9_000)])
    trace("board", 70_000_000, 100_000_000, [clock(8_000_000, 71_000_000), event("began", 73_000)])  # its wall clock is wrong
    trace("tuner", 2_000_000, 300_000_000, [])  # never connected: it is no tracker for that
    world.run("trace", *(world.path(f"{name}.json") for name in ("tracker", "board", "tuner")), "-o", world.path("all.json"))
    ts = {event["name"]: event["ts"] for event in json.load(open(world.path("all.json")))["traceEvents"] if "ts" in event}
    assert ts["began"] - ts["granted"] == 1_000, ts  # 73 ms there is 10 ms here


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
