#!/usr/bin/env python3
"""Reserved boards and maintenance windows, by the commands that people type."""
import datetime
import json
import pathlib
import sys

import harness
from harness import until


def test_a_board_is_reserved_shown_and_given_back(world):
    for name in ("client/ann", "client/bob"):
        world.run("key", "new", name, "-o", world.path(name.replace("/", "_")))
    _, address = world.tracker()
    world.board(address, key="shelf")
    as_person = lambda person: ("--tracker", address, "--key-file", world.path("client_" + person))
    row = world.json("fleet", "reserve", "shelf", "--for", "1h", "--reason", "a paper", *as_person("ann"))[0]
    assert (row["state"], row["reserved_by"], row["reserved_why"]) == ("reserved", "ann", "a paper"), row
    assert 3_500_000 < row["reserved_ms"] <= 3_600_000, row
    shown = world.run("fleet", "list", "--tracker", address).stdout
    assert "reserved by ann for 60 min: a paper" in shown, shown
    world.refused("fleet", "reserve", "shelf", "--for", "1h", *as_person("bob"), says="board shelf is reserved by ann")
    world.refused("fleet", "reserve", "shelf", "--end", *as_person("bob"), says="board shelf is reserved by ann")
    world.refused("fleet", "reserve", "shelf", *as_person("bob"), says="--for TIME (1h, 30m), or --end")
    world.refused("fleet", "reserve", "shelf", "--for", "8d", *as_person("bob"), says="at most 7d")
    world.run("tune", world.zoo("gemm:8x8x8"), "--trials", 2, "--detach", "--job", "of-bob", *as_person("bob"))
    world.tuner(address)
    until(lambda: world.json("jobs", "list", "--tracker", address)[0]["state"] == "running", "bob's job running")
    done = world.json("tune", world.zoo("gemm:8x8x9"), "--trials", 2, "--db", world.path("ann.db"), *as_person("ann"))[-1]
    assert done["measured"] == 2, done  # only ann's job gets it
    of_bob = lambda: next(j for j in world.json("jobs", "list", "--tracker", address) if j["job"] == "of-bob")
    assert of_bob().get("done", 0) == 0, of_bob()
    until(lambda: "shelf is reserved by ann until 20" in of_bob().get("text", ""), "the job saying what holds it up")
    assert "UTC: a paper" in world.run("jobs", "show", "of-bob", "--tracker", address).stdout
    row = world.json("fleet", "reserve", "shelf", "--end", *as_person("ann"))[0]
    assert "reserved_by" not in row, row
    until(lambda: of_bob()["state"] == "done", "bob's job")
    history = [e["what"] for e in world.json("fleet", "show", "shelf", "--tracker", address)[0]["history"]]
    assert "reserved" in history and "returned" in history, history


def test_maintenance_windows_are_made_listed_kept_and_removed(world):
    tracker, address = world.tracker()
    world.board(address, "--labels", "room=lab", key="shelf")
    order = lambda *argv: world.json("fleet", "window", *argv, "--tracker", address)
    tomorrow = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).strftime("%a")
    made = order("shelf", f"{tomorrow} 02:00-06:00", "--why", "new fans")[0]
    assert (made["number"], made["board"], made["when"], made["text"]) == (1, "shelf", f"{tomorrow} 02:00-06:00", "new fans"), made
    made = order("--label", "room=lab", "daily 00:00-24:00")[0]
    assert (made["number"], made["labels"]) == (2, [{"key": "room", "value": "lab"}]), made
    board = lambda: world.json("fleet", "list", "--tracker", address)[0]
    assert board()["state"] == "maintenance" and board()["maintenance"] == "daily 00:00-24:00", board()
    world.refused("fleet", "window", "shelf", "whenever", "--tracker", address, says="Sat 02:00-06:00")
    world.refused("fleet", "window", "shelf", "--tracker", address, says="usage: kiln fleet window")
    world.refused("fleet", "window", "--remove", 9, "--tracker", address, says="no maintenance window 9")
    text = world.run("fleet", "windows", "--tracker", address).stdout
    assert f"   1  shelf  {tomorrow} 02:00-06:00  - new fans  next " in text and "   2  room=lab  daily 00:00-24:00  now, until " in text, text
    assert "maintenance now daily 00:00-24:00" in world.run("fleet", "list", "--tracker", address).stdout
    world.kill(tracker)
    _, again = world.tracker(address=address)
    assert [w["number"] for w in world.json("fleet", "windows", "--tracker", again)] == [1, 2]
    world.run("fleet", "window", "--remove", 2, "--tracker", again)
    assert [w["number"] for w in world.json("fleet", "windows", "--tracker", again)] == [1]
    until(lambda: world.json("fleet", "list", "--tracker", again)[0]["state"] == "free", "the board given back")
    acts = [json.loads(line) for line in (pathlib.Path(world.home) / "tracker" / "audit.log").read_text().splitlines()]
    assert [a["message"] for a in acts if a["event"] == "act"][:2] == ["MAINTENANCE_ORDER"] * 2, acts


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
