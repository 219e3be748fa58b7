#!/usr/bin/env python3
"""kiln db --tracker: records of tuners, asked for over their tracker."""
import json
import pathlib
import sys

import harness
from harness import until


def tuned(world, address, model, trials, *options, db="client.db"):
    return world.json("tune", world.zoo(model), "--trials", trials, "--tracker", address, "--db", world.path(db), *options)[-1]


def test_a_tuner_answers_as_its_database_does(world):
    _, address, _, _ = world.fleet()
    assert tuned(world, address, "conv:C3", 6)["measured"] == 6
    assert tuned(world, address, "gemm:64x64x64", 5)["measured"] == 5
    here, there = ("--db", world.path("tuner.db")), ("--tracker", address)
    for action in "best", "top", "history", "stats":
        for form in ((), ("--json",), ("--csv",)) if action != "stats" else ((), ("--json",)):
            local = world.run("db", action, *here, *form).stdout
            assert local == world.run("db", action, *there, *form).stdout, (action, form)
            assert len(local.splitlines()) >= 2
    record = world.json("db", "history", *here)[3]
    for options in (("--task", record["task_key"]), ("--target", record["target"]), ("--limit", 2), ("--exact",)):
        for action in "best", "top", "history":
            assert world.run("db", action, *here, *options).stdout == world.run("db", action, *there, *options).stdout, (action, options)
    assert len(world.json("db", "history", *there, "--limit", 4)) == 4
    assert world.json("db", "top", *there, "--task", "v2:none") == []


def test_more_records_than_a_page_holds_come_in_pages(world):
    _, address, _, _ = world.fleet()
    assert tuned(world, address, "gemm:32x32x32", 90)["measured"] == 90
    local, remote = (world.json("db", "history", *where) for where in (("--db", world.path("tuner.db")), ("--tracker", address)))
    assert len(local) >= 90 and local == remote
    assert world.json("db", "top", "--tracker", address, "--limit", 45) == world.json("db", "top", "--db", world.path("tuner.db"), "--limit", 45)


def test_several_tuners_are_joined_and_one_can_be_named(world):
    tracker, address, board, first = world.fleet()
    assert tuned(world, address, "gemm:64x64x64", 4)["measured"] == 4
    first.terminate()
    world.ends(first)
    second = world.tuner(address, "--state", world.path("second"), db=world.path("second.db"))
    assert tuned(world, address, "gemm:64x64x64", 4, "--seed", 7, db="other.db")["measured"] >= 1
    first = world.tuner(address)
    both = world.json("db", "history", "--tracker", address)
    ids = [row["trial_id"] for row in both]
    local = [row for name in ("tuner.db", "second.db") for row in world.json("db", "history", "--db", world.path(name))]
    assert set(ids) == {row["trial_id"] for row in local}
    assert [row["stored_wall_ns"] for row in both] == sorted(row["stored_wall_ns"] for row in both)
    [best] = world.json("db", "best", "--tracker", address)
    finals = [row for row in local if row["final"]] or local
    assert best["median_ns"] in {row["median_ns"] for row in finals if row["outcome"] == "ok"}
    node = (pathlib.Path(world.path("second")) / "node").read_text().strip()
    one = world.json("db", "history", "--tracker", address, "--tuner", node)
    assert one == world.json("db", "history", "--db", world.path("second.db"))
    assert [row["records"] for row in world.json("db", "stats", "--tracker", address)] == [len(both) - sum(bool(row["final"]) for row in both)]
    world.refused("db", "best", "--tracker", address, "--tuner", "nobody", says="no tuner nobody is connected")


def test_what_cannot_be_asked_from_afar_says_so(world):
    _, address = world.tracker()
    world.refused("db", "best", "--tracker", address, says="no tuner that shows its records is connected")
    world.refused("db", "export", "--tracker", address, says="--tracker asks for best, top, history and stats; export needs a database here")
    world.refused("db", "best", "--tracker", address, "--db", world.path("x.db"), says="--tracker or --db, not both")
    world.refused("db", "best", "--tuner", "t", says="--tuner needs --tracker")


def test_a_person_gets_records_of_its_projects_only(world):
    def key(name):
        world.run("key", "new", name, "-o", world.path(name.replace("/", "_")))
        return world.path(name.replace("/", "_"))

    ann, bob = key("client/ann"), key("client/bob")
    _, address, _, _ = world.fleet()
    world.run("project", "new", "secret", "--tracker", address)
    world.run("project", "add", "secret", "ann", "--tracker", address)
    assert tuned(world, address, "gemm:64x64x64", 3, "--project", "secret", "--key-file", ann)["measured"] == 3
    assert tuned(world, address, "gemm:32x32x32", 3)["measured"] == 3
    rows = lambda *options: {row["project"] for row in world.json("db", "history", "--tracker", address, *options)}
    until(lambda: rows() == {"secret", "default"}, "the records of both")  # the tracker's own user
    assert rows("--key-file", ann) == {"secret", "default"} and rows("--key-file", bob) == {"default"}
    stats = lambda file: len(world.json("db", "stats", "--tracker", address, "--key-file", file))
    assert (stats(ann), stats(bob)) == (2, 1)
    best = world.json("db", "best", "--tracker", address, "--key-file", bob)
    assert {row["project"] for row in best} == {"default"} and "matmul" in json.dumps(best)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
