#!/usr/bin/env python3
"""kiln db import --autotvm: schedules of AutoTVM's logs are tried first, and measured before they count."""
import json
import pathlib
import sys

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def tensor(*shape):
    return ["TENSOR", list(shape), "float32"]


def line(template, arguments, seconds, error=0, **knobs):
    entity = [[name, "sp", [-1, size]] for name, size in knobs.items()]
    return json.dumps({"input": ["llvm -keys=cpu", template, arguments, {}], "config": {"index": 3, "code_hash": None, "entity": entity},
                       "result": [[seconds], error, 0.5, 1.7e9], "version": 0.2, "tvm_version": "0.8.0"})


def conv(channels, seconds, oc, ow, out=32, **more):
    arguments = [tensor(1, channels, 8, 8), tensor(out, channels, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], "NCHW", "NCHW", "float32"]
    return line("conv2d_NCHWc.x86", arguments, seconds, tile_ic=min(channels, 8), tile_oc=oc, tile_ow=ow, **more)


def log_of(world, *lines, name="tvm.log"):
    pathlib.Path(world.path(name)).write_text("".join(text + "\n" for text in lines))
    return world.path(name)


def test_a_log_becomes_hints_and_a_search_tries_them(world):
    log = log_of(world, conv(32, 40e-6, 8, 4), conv(32, 44e-6, 16, 2), conv(32, 39e-6, 8, 4), conv(1, 3e-6, 16, 4),
                 line("dense_pack.x86", [tensor(1, 512), tensor(10, 512), None, "float32"], 9e-6, tile_y=1, tile_x=10, tile_k=8))
    [said] = world.json("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db"))
    rows = world.json("db", "history", "--db", world.path("kiln.db"))
    assert said["lines"] == 5 and said["hints"] == len(rows) >= 4 and said["repeated"] >= 1, said
    assert {(row["origin"], row["standing"], row["checked"], row["searcher"]) for row in rows} == {("autotvm", 0, 0, "autotvm")}
    assert min(row["min_ns"] for row in rows if row["min_ns"] > 30000) == 39000  # of two with one schedule the faster
    assert world.json("db", "best", "--db", world.path("kiln.db")) == []
    [again] = world.json("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db"))
    assert again["hints"] == said["hints"] and len(world.json("db", "history", "--db", world.path("kiln.db"))) == len(rows)
    world.run("tune", DIGITS, "--trials", 24, "--db", world.path("kiln.db"))
    tried = [row for row in world.json("db", "history", "--db", world.path("kiln.db")) if row["searcher"] == "transfer" and row["origin"] == "measured"]
    assert {row["trace_hash"] for row in tried} & {row["trace_hash"] for row in rows}
    assert {row["task_key"] for row in tried} <= {row["task_key"] for row in rows}
    assert all(row["origin"] == "measured" for row in world.json("db", "best", "--db", world.path("kiln.db")))


def test_a_search_without_the_log_has_no_such_trial(world):
    world.run("tune", DIGITS, "--trials", 24, "--db", world.path("plain.db"))
    assert not [row for row in world.json("db", "history", "--db", world.path("plain.db")) if row["searcher"] == "transfer"]


def test_lines_that_cannot_be_used_are_counted(world):
    log = log_of(world, conv(32, 1e9, 8, 4, error=4), conv(64, 4e-5, 8, 4), line("conv2d_nchw.cuda", [], 1e-5),
                 line("dense_pack.x86", [["TENSOR", [1, 512], "int8"], ["TENSOR", [10, 512], "int8"]], 1e-5), conv(1, 1e-12, 8, 4))
    [said] = world.json("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db"))
    assert [said[name] for name in ("lines", "hints", "failed", "no_task", "no_template", "no_workload", "refused")] == [5, 0, 1, 1, 1, 1, 1], said
    text = world.run("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db")).stdout
    for part in ("5 lines: 0 hints for", "1 left out: failed there", "1 left out: of no task of the model", "1 cannot be true"):
        assert part in text, text


def test_targets_that_are_no_processors_get_no_hints(world):
    log = log_of(world, conv(32, 40e-6, 8, 4))
    [said] = world.json("db", "import", log, "--autotvm", "--model", DIGITS, "--target", "cuda:sm_90", "--db", world.path("kiln.db"))
    assert said["hints"] == 0 and said["no_tiles"] >= 2, said


def test_the_hints_stay_hints_in_other_databases(world):
    log = log_of(world, conv(32, 40e-6, 8, 4))
    world.run("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db"))
    exported = world.run("db", "export", "--db", world.path("kiln.db")).stdout
    pathlib.Path(world.path("rows.jsonl")).write_text(exported)
    world.run("db", "import", world.path("rows.jsonl"), "--own", "--db", world.path("other.db"))
    rows = world.json("db", "history", "--db", world.path("other.db"))
    assert rows and {(row["origin"], row["standing"]) for row in rows} == {("autotvm", 0)}


def test_hostile_lines_name_their_place_and_nothing_is_imported(world):
    good = conv(32, 40e-6, 8, 4)
    deep = "[" * 100000
    for bad in ("{", "[]", "{}", deep, '{"i": [], "r": [], "v": 0.1}', good.replace("[-1, 8]", "[-1, -8]"), good.replace("32, 8, 8", "32, 8, 1e99"), good.replace("4e-05", "-4e-05"),
                good.replace("float32", "float\\ud800")):
        assert bad != good
        log = log_of(world, good, "", bad)
        world.refused("db", "import", log, "--autotvm", "--model", DIGITS, "--db", world.path("kiln.db"), says="tvm.log:3")
    assert not pathlib.Path(world.path("kiln.db")).exists()


def test_the_command_says_what_it_needs(world):
    log = log_of(world, conv(32, 40e-6, 8, 4))
    world.refused("db", "import", log, "--autotvm", says="--model MODEL")
    world.refused("db", "best", "--autotvm", "--model", DIGITS, says="kiln db import FILE --autotvm")
    world.refused("db", "import", log, "--model", DIGITS, says="kiln db import FILE --autotvm")
    world.refused("db", "import", log, "--autotvm", "--own", "--model", DIGITS, says="--own or --autotvm")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
