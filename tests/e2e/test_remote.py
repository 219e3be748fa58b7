#!/usr/bin/env python3
"""Runs on a remote board: modules give the same results as here, a failure is reported in one line, and the board is free
afterwards. Boards answer pings and show their logs."""
import os
import pathlib
import signal
import sys

import harness
import onnx_file
from harness import until

CANDIDATES = os.environ["KILN_CANDIDATES"]  # folder of the objects of planted candidates


def compiled(world, workload, *options):
    model, module = world.zoo(workload), world.path("module.kiln")
    world.run("compile", model, *options, "-o", module)
    return module


def board(world, address, key="board"):
    """A board that the tracker knows and may lease: a connection alone does not say what it is."""
    child = world.board(address, key=key, state=key)
    until(lambda: any(row["key"] == key and row["state"] == "free" for row in world.json("fleet", "list", "--tracker", address)), key)
    return child


def fleet(world):
    """A tracker and a board; their address."""
    _, address = world.tracker()
    return address, board(world, address)


def free_again(world, address):
    """Nobody holds a board any more, and the last job has ended."""
    until(lambda: all(row["state"] == "free" for row in world.json("fleet", "list", "--tracker", address)), "the board being free")
    until(lambda: all(row["state"] not in ("waiting", "running") for row in world.json("jobs", "list", "--tracker", address)),
          "the end of the job")


def contents(folder):
    return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def test_a_module_gives_the_same_results_on_a_board(world):
    address, child = fleet(world)
    module = compiled(world, "gemm:64x64x64")
    here = world.run("run", module, "--output", world.path("here"))
    there = world.run("run", module, "--on", "board", "--tracker", address, "--output", world.path("there"))
    assert here.stdout == there.stdout, (here.stdout, there.stdout)
    assert contents(world.path("here")) == contents(world.path("there"))
    free_again(world, address)


def test_times_of_each_kernel_come_back(world):
    address, _ = fleet(world)
    module = compiled(world, "gemm:32x32x32")
    [done] = world.json("run", module, "--on", "board", "--tracker", address, "--bench")
    [local] = world.json("run", module, "--bench")
    assert done["event"] == "bench" and done.keys() == local.keys(), done
    assert done["runs"] >= 20 and done["median_ms"] > 0 and done["peak_gflops"] > 0, done
    assert [k["name"] for k in done["kernels"]] == [k["name"] for k in local["kernels"]]
    shown = world.run("run", module, "--on", "board", "--tracker", address, "--bench").stdout
    assert "GFLOP/s" in shown and "median" in shown.splitlines()[-1], shown


def module_of(events):
    [module] = [event for event in events if event.get("event") == "module"]
    return module


def test_a_module_of_several_sizes_runs_there_at_the_size_of_its_inputs(world):
    address, _ = fleet(world)
    model, module, x = (world.path(name) for name in ("sizes.onnx", "sizes.kiln", "x.pb"))
    weights = onnx_file.tensor("w", onnx_file.FLOAT, [8, 8], [k % 7 - 3 for k in range(64)])
    pathlib.Path(model).write_bytes(onnx_file.model([onnx_file.node("MatMul", "x w", "y")], [onnx_file.port("x", ["batch", 8])],
                                                    [onnx_file.port("y", ["batch", 8])], [weights]))
    world.run("compile", model, "--dim", "batch=1,4", "-o", module)
    on = ["--on", "board", "--tracker", address]
    for size in (1, 3, 4):  # 3 is padded
        pathlib.Path(x).write_bytes(onnx_file.tensor("x", onnx_file.FLOAT, [size, 8], [k % 5 - 2 for k in range(8 * size)]))
        for folder, options in (("here", []), ("there", on)):
            world.run("run", module, "--input", f"x={x}", "--output", world.path(folder), *options)
        there = contents(world.path("there"))
        assert there == contents(world.path("here")) and f"({size}, 8)".encode() in there["y.npy"], (size, there)
    [done] = world.json("run", module, "--dim", "batch=3", "--bench", *on)
    assert done["runs"] >= 20, done
    world.refused("run", module, "--dim", "batch=5", *on, says="batch is 5; the module takes 1 to 4")
    free_again(world, address)


def test_modules_tuned_on_a_board_are_compared_there_as_a_whole(world):
    address, _ = fleet(world)
    world.tuner(address)
    model, module, db = world.zoo("dqn"), world.path("m.kiln"), world.path("c.db")
    judged = module_of(world.json("tune", model, "--trials", 12, "--tracker", address, "--db", db, "--out", module))
    assert judged["board"] == "board" and judged["default_ms"] > 0 and judged["low"] <= judged["ratio"] <= judged["high"], judged
    assert judged["accuracy"]["checked"] and 0 < judged["accuracy"]["error"] < 1e-4, judged
    assert judged["tuned"] == (judged["low"] > 1), judged
    world.run("run", module)
    text = world.run("tune", model, "--trials", 0, "--tracker", address, "--db", db, "--out", module).stdout
    assert "whole model, interleaved on board board" in text, text
    free_again(world, address)


def test_without_a_board_the_tuned_module_ships_with_a_notice(world):
    _, address = world.tracker()
    model, module, db = world.zoo("dqn"), world.path("m.kiln"), world.path("c.db")
    tune = ["tune", model, "--trials", 0, "--tracker", address, "--db", db, "--out", module]
    shipped = module_of(world.json(*tune))
    assert shipped["tuned"] and "board" in shipped["untimed"] and not shipped["accuracy"]["checked"], shipped
    text = world.run(*tune).stdout
    assert "not compared with the default schedules as a whole, nor with double precision: " in text, text
    world.run("run", module)


def test_the_tracker_of_this_user_needs_no_address(world):
    tracker, address = world.tracker()
    board(world, address)
    module = compiled(world, "gemm:8x8x8")
    world.run("run", "--on", "board", module)
    assert world.json("fleet", "list")[0]["key"] == "board"
    tracker.terminate()
    world.ends(tracker)
    world.refused("run", "--on", "board", module, says="--tracker HOST:PORT")
    world.env["KILN_TRACKER"] = "127.0.0.1:nowhere"
    world.refused("run", "--on", "board", module, says="nowhere")


def test_a_missing_board_is_an_error_that_lists_the_boards(world):
    address, _ = fleet(world)
    module = compiled(world, "gemm:8x8x8")
    world.refused("run", "--on", "shelf", "--tracker", address, module, says="there are board (1 of 1 in service")
    free_again(world, address)


def test_a_module_of_another_machine_is_refused_by_what_is_missing(world):
    address, _ = fleet(world)
    module = compiled(world, "gemm:8x8x8", "--target", "rpi4")
    world.refused("run", "--on", "board", "--tracker", address, module, says="not aarch64")
    free_again(world, address)


def test_damage_and_wrong_inputs_are_found_before_anything_is_sent(world):
    address, _ = fleet(world)
    module = compiled(world, "gemm:8x8x8")
    damaged = pathlib.Path(world.path("damaged.kiln"))
    data = bytearray(pathlib.Path(module).read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    world.refused("run", "--on", "board", "--tracker", address, damaged, says="damaged.kiln")
    world.refused("run", "--on", "board", "--tracker", address, module, "--input", "nothing=a.npy", says="no input 'nothing'")
    assert world.json("jobs", "list", "--tracker", address) == []


def hostile(world, candidate):
    """A module of a planted candidate."""
    module = world.path(f"{candidate}.kiln")
    world.run(CANDIDATES, candidate, module, name=os.environ["KILN_WRITE_MODULE"])
    return module


def runs_for_ever(world, address):
    """`kiln run` of a module that never ends, when the board works on it."""
    run = world.start("kiln", "run", "--on", "board", "--tracker", address, "--limit", 600, hostile(world, "loops_for_ever"))
    until(lambda: world.json("fleet", "list", "--tracker", address)[0]["state"] == "leased", "the lease")
    return run


def test_hostile_modules_get_their_outcome_and_the_board_goes_on(world):
    address, child = fleet(world)
    on = ["run", "--on", "board", "--tracker", address]
    world.refused(*on, hostile(world, "reads_nothing"), says="crash: signal 11")
    world.refused(*on, hostile(world, "says_it_failed"), says="crash: the kernel returned an error")
    done = world.refused(*on, "--limit", 1, hostile(world, "loops_for_ever"), says="timeout: still in phase run")
    assert done.returncode == 12, done.returncode
    world.run(*on, hostile(world, "honest"))
    free_again(world, address)
    assert child.poll() is None


def test_modules_that_search_the_system_find_nothing(world):
    world.env["DB_PASSWORD"] = "hunter2"  # which the board has in its environment
    address, child = fleet(world)
    on = ["run", "--on", "board", "--tracker", address]
    for kind in ("reads_descriptors", "reads_proc", "reads_its_parents_memory", "traces_its_parent", "takes_a_descriptor", "asks_the_kernel"):
        world.refused(*on, hostile(world, kind), says="crash: ")
    outputs = {}
    for kind in ("honest", "reads_its_environment"):
        world.run(*on, hostile(world, kind), "--output", world.path(kind))
        outputs[kind] = [file.read_bytes() for file in sorted(pathlib.Path(world.path(kind)).iterdir())]
    assert outputs["honest"] and outputs["honest"] == outputs["reads_its_environment"]
    free_again(world, address)
    assert child.poll() is None


def test_a_board_that_is_lost_half_way_is_one_clear_error(world):
    address, child = fleet(world)
    run = runs_for_ever(world, address)
    world.kill(child)
    world.ends(run, code=21)
    lines = run.log.read_text().splitlines()
    assert len(lines) == 1 and "board board was lost" in lines[0], lines
    until(lambda: world.json("jobs", "list", "--tracker", address)[0]["state"] == "failed", "the end of the job")
    board(world, address)
    world.run("run", "--on", "board", "--tracker", address, hostile(world, "honest"))


def test_ctrl_c_frees_the_board(world):
    address, child = fleet(world)
    run = runs_for_ever(world, address)
    run.send_signal(signal.SIGINT)
    world.ends(run, code=10)
    assert "stopped; the board is free" in run.log.read_text(), run.log.read_text()
    free_again(world, address)
    world.run("run", "--on", "board", "--tracker", address, hostile(world, "honest"))
    assert child.poll() is None


def test_a_client_that_is_killed_leaves_the_board_free(world):
    address, _ = fleet(world)
    world.kill(runs_for_ever(world, address))
    free_again(world, address)
    world.run("run", "--on", "board", "--tracker", address, hostile(world, "honest"))


def test_boards_answer_pings_and_silent_ones_are_named(world):
    address, first = fleet(world)
    board(world, address, "shelf")
    until(lambda: world.run("fleet", "ping", "--tracker", address, ok=False).returncode == 0, "answers within their time")
    tracker, *rows = world.json("fleet", "ping", "--tracker", address)
    assert tracker["event"] == "ping" and tracker["tracker_ms"] > 0, tracker
    assert sorted(row["key"] for row in rows) == ["board", "shelf"], rows
    for row in rows:
        assert row["answered"] and row["round_trip_ns"] > 0 and row["clock"] and "kiln-rpc-server" in row["software"], row
    shown = world.run("fleet", "ping", "shelf", "--tracker", address).stdout
    assert "shelf" in shown and "board " not in shown.splitlines()[-1] and " ms " in shown, shown
    assert world.run("fleet", "ping", "--key", "shelf", "--tracker", address).stdout.count("shelf") == 1
    world.refused("fleet", "ping", "nobody", "--tracker", address, says="there is no board nobody")
    world.kill(first)
    until(lambda: world.run("fleet", "ping", "--tracker", address, ok=False).returncode == 21, "the loss being told")
    world.refused("fleet", "ping", "--tracker", address, says="1 of 2 boards did not answer: board")
    world.run("fleet", "ping", "shelf", "--tracker", address)


def test_the_log_of_a_board_is_read_remotely(world):
    address, child = fleet(world)
    lines = world.run("fleet", "log", "board", "--tracker", address).stdout.splitlines()
    assert any("connected to the tracker as board" in line for line in lines), lines
    assert [row["text"] for row in world.json("fleet", "log", "board", "--tracker", address)][:len(lines)] == lines
    reader = world.start("kiln", "fleet", "log", "board", "--follow", "--tracker", address)
    until(lambda: "connected to the tracker" in reader.log.read_text(), "the lines that there are")
    runs_for_ever(world, address)  # what a board that shall stop waits for
    child.terminate()  # which it says
    until(lambda: "stopping; what runs is handed in first" in reader.log.read_text(), "the line that comes")
    world.kill(child)
    world.ends(reader, code=21)
    assert "board board was lost" in reader.log.read_text()
    world.refused("fleet", "log", "board", "--tracker", address, says="not connected")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules["__main__"]))
