#!/usr/bin/env python3
"""`kiln explain --why`: the winner is the database's best, its reasons are complete, and unknown figures are reported as unknown."""
import re
import sys

import harness


def tuned(world):
    model, db = world.zoo("gemm:64x64x64"), world.path("t.db")
    world.json("tune", model, "--trials", 24, "--db", db, "--search", "random")
    return model, db


def test_every_part_is_answered(world):
    model, db = tuned(world)
    text = world.run("explain", model, "--why", "0", "--db", db).stdout
    parts = re.findall(r"^[A-Z].*", text, re.M)
    assert parts[0] == "Winning schedule" and parts[1] == "Its loops" and parts[2] == "On the roofline", parts
    assert re.fullmatch(r"What a cost model learnt from \d+ trials of 1 task", parts[3]), parts
    [[count]] = world.sql("t.db", "SELECT count(*) FROM record")
    assert f"out of {count} measurements" in text and "as straight code" in text, (count, text)
    assert re.search(r"operations per byte", text) and re.search(r"% of the peak of", text) and "bound by" in text
    assert len(re.findall(r"^    .* \([+-]\d+\.\d %, [\w ,]+\): ", text, re.M)) >= 3, text


def test_winner_is_the_best_record(world):
    model, db = tuned(world)
    [why] = world.json("explain", model, "--why", "0", "--db", db)
    [best] = world.json("db", "best", "--db", db)
    assert why["trace"] == best["trace_hash"] and abs(why["best_ms"] - best["median_ns"] / 1e6) < 1e-9
    assert why["found_by"] == best["searcher"] and why["measurements"] >= 24
    assert abs(why["intensity"] - 2 * 64**3 / (3 * 64 * 64 * 4)) < 1e-6 and why["share_of_peak"] > 0
    assert why["samples"] >= 24 and all(a["feature"] for a in why["attributions"]), why
    distance = [abs(a["winner"] - a["average"]) for a in why["attributions"]]
    assert distance == sorted(distance, reverse=True), distance


def test_algorithms_are_tried_checked_and_named(world):
    model, db = world.zoo("conv:32,14,14,32,3,3,1,1,1,1,1,1,1,1,1"), world.path("t.db")
    world.json("tune", model, "--trials", 24, "--tasks", "conv", "--db", db, "--search", "random")
    tried = dict(world.sql("t.db", "SELECT algorithm, count(*) FROM record WHERE outcome = 'ok' GROUP BY 1"))
    assert set(tried) <= {"direct", "winograd_2x2_3x3", "winograd_4x4_3x3", "winograd_6x6_3x3"}, tried
    assert len(tried) >= 3, tried
    wrong = world.sql("t.db", "SELECT algorithm, detail FROM record WHERE outcome = 'wrong_result'")
    assert not wrong, wrong
    [why] = world.json("explain", model, "--why", "0", "--db", db)
    assert why["algorithm"] in tried and f"algorithm {why['algorithm']}" in world.run(
        "explain", model, "--why", "0", "--db", db).stdout


def test_strided_algorithms_are_tried_and_checked(world):
    db = world.path("t.db")
    world.json("tune", world.zoo("conv:32,27,30,24,3,3,2,2,1,1,1,1,1,1,1"), "--trials", 32, "--tasks", "conv", "--db", db, "--search", "random")
    tried = dict(world.sql("t.db", "SELECT algorithm, count(*) FROM record WHERE outcome = 'ok' GROUP BY 1"))
    assert set(tried) == {"direct", "winograd_2x2_3x3_stride2", "winograd_4x4_3x3_stride2"}, tried
    assert not world.sql("t.db", "SELECT algorithm, detail FROM record WHERE outcome = 'wrong_result'")


def test_phases_of_equally_many_taps_are_tried_and_checked(world):
    db = world.path("t.db")
    world.json("tune", world.zoo("conv:16,21,24,24,4,4,2,2,1,1,1,1,1,1,1"), "--trials", 32, "--tasks", "conv", "--db", db, "--search", "random")
    tried = dict(world.sql("t.db", "SELECT algorithm, count(*) FROM record WHERE outcome = 'ok' GROUP BY 1"))
    assert set(tried) <= {"direct", "winograd_2x2_2x2", "winograd_3x3_2x2", "winograd_4x4_2x2"} and len(tried) >= 3, tried
    assert not world.sql("t.db", "SELECT algorithm, detail FROM record WHERE outcome = 'wrong_result'")


def test_unknown_figures_are_reported_as_unknown(world):
    model, db = tuned(world)
    world.refused("explain", model, "--why", "7", "--db", db, says="tasks 0 to 0")
    world.refused("explain", world.zoo("gemm:8x8x8"), "--why", "0", "--db", db, says="tune it first")
    world.refused("explain", model, "--why", "0", "--db", world.path("none.db"), says="none.db")


def test_few_trials_train_no_model(world):
    model, db = world.zoo("gemm:16x16x16"), world.path("t.db")
    world.json("tune", model, "--trials", 1, "--db", db)
    text = world.run("explain", model, "--why", "0", "--db", db).stdout
    assert "learnt from 1 trial of 1 task" in text and "nothing that distinguishes them" in text, text


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
