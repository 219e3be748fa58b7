#!/usr/bin/env python3
"""What `kiln tune` shows while it works, on a terminal and off it, and that Ctrl-C loses nothing."""
import pathlib
import re
import shlex
import signal
import struct
import sys

import harness


def test_terminal_shows_a_table(world):
    seen = world.terminal("tune", world.zoo("gemm:64x64x64"), "--trials", 8, "--db", world.path("t.db"), columns=120)
    seen.ends(0)
    last = seen.shown.split("\033[J")[-1].replace("\r", "").splitlines()
    assert last[0].split() == ["#", "task", "best", "so", "far", "trials", "GFLOP/s", "time", "gain", "left"], last
    assert re.search(r"matmul 64x64 over 64 +[ ▁▂▃▄▅▆▇█]{16} +8/8 ", last[1]), last
    assert "8 of 8 trials" in last[2] and "of the default" in last[2], last
    for frame in seen.shown.split("\033[J")[1:]:
        table = frame.replace("\r", "").split("\n")[:3]
        assert all(len(line) < 120 for line in table), table


def test_time_budget_shows_time_left(world):
    seen = world.terminal("tune", world.zoo("conv:C2"), "--seconds", 1200, "--db", world.path("t.db"))
    seen.until(lambda shown: re.search(r"\d+ s of 20 min 00 s, about \d+ min \d\d s left", shown), "time left")
    seen.type(b"\x03")
    seen.ends(10)
    assert "crashed" not in seen.shown, seen.shown


def test_plain_lines_off_a_terminal(world):
    done = world.run("tune", world.zoo("gemm:64x64x64"), "--trials", 4, "--db", world.path("t.db"))
    assert "\033" not in done.stdout + done.stderr
    assert "4 of 4 trials" in done.stderr and "4 trials  best" in done.stdout, done


def test_a_dumb_terminal_and_no_color_get_plain_lines(world):
    model = world.zoo("gemm:64x64x64")
    for setting in ({"term": "dumb"}, {"env": {"NO_COLOR": "1"}}):
        seen = world.terminal("tune", model, "--trials", 4, "--db", world.path("".join(setting) + ".db"), columns=120, **setting)
        seen.ends(0)
        assert "\033" not in seen.shown and "\r" not in seen.shown.replace("\r\n", ""), seen.shown
        assert "4 of 4 trials" in seen.shown, seen.shown


def kernels(module):
    """The part of a module's file that holds its code (deploy/format.h): the metadata beside it tells what was measured."""
    content = pathlib.Path(module).read_bytes()
    kind, _, offset, size = struct.unpack_from("<IIQQ", content, 64 + 2 * 48)
    assert kind == 3, kind
    return content[offset:offset + size]


def test_ctrl_c_keeps_everything_and_the_command_it_names_goes_on(world):
    model, module = world.zoo("gemm:96x96x96"), world.path("m'1.kiln")
    seen = world.terminal("tune", model, "--trials", 4000, "--db", world.path("t.db"), "--out", module)
    done_so_far = lambda shown: max([0, *map(int, re.findall(r" (\d+)/4000 ", shown))])
    seen.until(lambda shown: done_so_far(shown) >= 3, "three trials")
    seen.type(b"\x03")
    seen.ends(10)
    assert "stopping" in seen.shown and "crashed" not in seen.shown
    assert re.search(r"\033\[\d+A\033\[J", seen.shown), "no frame was drawn over another"
    world.left_nothing()
    world.run("run", module)
    pathlib.Path(world.path("none")).mkdir()  # the module says the file's name of its database
    world.run("tune", model, "--trials", 0, "--db", world.path("none/t.db"), "--out", world.path("base.kiln"))
    assert kernels(module) == kernels(world.path("base.kiln")), "no final has judged anything but the default"
    pathlib.Path(module).unlink()
    [[kept]] = world.sql("t.db", "SELECT count(*) FROM record WHERE final = 0")
    assert 3 <= int(kept) < 4000, kept

    command = shlex.split(re.search("to go on where it stopped: (.*)", seen.shown).group(1))
    assert command[0] == "kiln"
    trials = command.index("--trials") + 1
    assert command[trials] == "4000", command
    command[trials] = str(int(kept) + 3)  # the same, but with an end in sight
    world.run(*command[1:])
    world.run("run", module)
    [found] = world.sql("t.db", "SELECT count(*), count(DISTINCT trace_hash), count(DISTINCT job_id) FROM record WHERE final = 0")
    assert found == [command[trials], command[trials], "2"], (kept, found)


def test_second_ctrl_c_does_not_wait(world):
    tracker, address, _, _ = world.fleet()
    seen = world.terminal("tune", world.zoo("conv:C2"), "--trials", 100000, "--db", world.path("t.db"), "--tracker", address)
    harness.until(lambda: world.json("jobs", "list", "--tracker", address), "the job")
    tracker.send_signal(signal.SIGSTOP)  # it hears nothing of the first
    seen.type(b"\x03")
    seen.until(lambda shown: "stopping" in shown, "the first")
    seen.type(b"\x03")
    seen.ends(10)


def test_a_killed_command_takes_its_worker_and_fleet_along(world):
    tune = world.start("kiln", "tune", world.zoo("gemm:96x96x96"), "--trials", 100000, "--db", world.path("t.db"), "--json")
    harness.until(lambda: '"done"' in tune.log.read_text(), "a trial")
    assert len(harness.processes_with(str(world.folder))) >= 4
    tune.kill()
    harness.until(lambda: not harness.processes_with(str(world.folder)), "the end of all that it started")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
