#!/usr/bin/env python3
"""What the web server asks a worker for: a recorded trial as text, and how good the cost model is."""
import sqlite3
import sys

import harness
import worker

STAGES = ["trace", "words", "loops", "asm"]
NOT_FOUND, INVALID_ARGUMENT = 5, 3


def tuned(world, trials):
    model, db = world.zoo("gemm:64x64x64"), world.path("t.db")
    world.json("tune", model, "--trials", trials, "--db", db, "--search", "random")
    return db


def test_a_trial_as_text(world):
    db = tuned(world, 12)
    [best] = world.json("db", "best", "--db", db)
    found, code, said = worker.ask(world, "EXPLAIN", best["trial_id"], db=db)
    assert code == 0, said
    assert [e["stage"] for e in found] == STAGES and {e["trial"] for e in found} == {best["trial_id"]}
    by_stage = {e["stage"]: e["text"] for e in found}
    assert "in registers" in by_stage["words"] or "over" in by_stage["words"], by_stage["words"]
    assert "split(" in by_stage["trace"] and "for " in by_stage["loops"] and "ret" in by_stage["asm"], by_stage
    one, code, said = worker.ask(world, "EXPLAIN", best["trial_id"], db=db, stage="loops")
    assert code == 0 and [e["text"] for e in one] == [by_stage["loops"]], said


def test_code_of_another_kind_of_target_is_text_too(world):
    model, db = world.zoo("gemm:16x16x16"), world.path("n.db")
    world.json("tune", model, "--target", "null", "--trials", 1, "--db", db)
    [[trial], *_] = world.sql("n.db", "SELECT trial_id FROM record WHERE outcome = 'ok'")
    [found], code, said = worker.ask(world, "EXPLAIN", trial, db=db, stage="asm")
    assert code == 0 and "registers" in found["text"], (said, found)


def test_a_trial_that_is_not_there(world):
    db = tuned(world, 2)
    for trial in ("0" * 32, "x' OR '1'='1", "../../etc/passwd"):
        found, code, said = worker.ask(world, "EXPLAIN", trial, db=db)
        assert (found, code) == ([], NOT_FOUND), said
    [best] = world.json("db", "best", "--db", db)
    found, code, said = worker.ask(world, "EXPLAIN", best["trial_id"], db=db, stage="trace,core")
    assert (found, code) == ([], INVALID_ARGUMENT) and "core" in said, said


def test_bytes_that_are_no_trace_are_refused(world):
    """A record of a stranger may hold anything."""
    db = tuned(world, 2)
    with sqlite3.connect(db) as file:
        file.executescript("DROP TRIGGER record_is_not_changed; UPDATE record SET trace = x'93ffff00ff'")
    [[trial], *_] = world.sql("t.db", "SELECT trial_id FROM record")
    found, code, said = worker.ask(world, "EXPLAIN", trial, db=db)
    assert not found and code not in (0, NOT_FOUND) and "the stored schedule of the trial" in said, said


def test_how_good_the_cost_model_is(world):
    db = tuned(world, 64)
    [best] = world.json("db", "best", "--db", db)
    found, code, said = worker.ask(world, "COST_MODEL", best["target"], db=db, task=best["task_key"])
    assert code == 0, said
    model, trials = found
    assert model["event"] == "cost model" and model["target"] == best["target"]
    [task] = model["by_task"]
    assert task["task"] == best["task_key"] and 10 <= task["held_out"] <= model["records"] / 3 and model["tasks"] == 1, task
    assert -1 <= task["rank_correlation"] <= 1 and 0 <= task["pairs_right"] <= 1 and 0 <= model["top_recall"] <= 1
    assert abs(model["rank_correlation"] - task["rank_correlation"]) < 1e-6, model
    points = model["points"]
    assert points["columns"] == ["measured", "predicted"] and len(points["rows"]) == task["held_out"] and all(
        measured <= 0 and predicted <= 0 for measured, predicted in points["rows"]), points
    gain = [f["gain"] for f in model["importance"]]
    assert gain and gain == sorted(gain, reverse=True) and gain[-1] > 0, model["importance"]
    assert len(trials["trials"]) == model["records"], len(trials["trials"])
    assert [f["feature"] for f in trials["features"]] == [f["feature"] for f in model["importance"][:len(trials["features"])]]
    assert all(len(t["values"]) == len(trials["features"]) for t in trials["trials"])
    assert sum(t["held_out"] for t in trials["trials"]) == model["records"] // 4


def test_a_target_without_trials(world):
    db = tuned(world, 2)
    found, code, said = worker.ask(world, "COST_MODEL", "rpi4", db=db)
    assert (found, code) == ([], NOT_FOUND), said
    found, code, said = worker.ask(world, "COST_MODEL", "abacus", db=db)
    assert not found and code == INVALID_ARGUMENT, said


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
