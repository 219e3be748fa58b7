#!/usr/bin/env python3
"""Devices behind drivers as boards: what a server with --executor offers, reports and refuses, and a tune through one that keeps running."""
import os
import re
import sys

import harness
from harness import until
from test_gpu_run import FAKE_CUDA, checks


def pocl(world, *options):
    """The fleet of a tracker, a tuner and a board for this machine's OpenCL device: (address, row of the board)."""
    done = world.run("--executor", "opencl", "--doctor", ok=False, name="kiln-rpc-server")
    [device] = [line for line in done.stdout.splitlines() if line[5:].startswith("device")]
    if not device.startswith("ok"):
        raise harness.Skip(f"no OpenCL device (pocl-opencl-icd): {device}")
    _, address = world.tracker()
    board = world.board(address, "--executor", "opencl", *options, key="pocl")
    [row] = until(lambda: world.json("fleet", "list", "--tracker", address), "the board in the fleet")
    return address, board, row


def test_a_board_offers_its_device_and_nothing_else(world):
    address, board, row = pocl(world)
    assert row["target"].startswith("opencl:") and row["target"].endswith(",emulated") and row["slots"] == 1, row
    assert "targets" not in row and row["memory_bytes"] > 1 << 28, row
    shown = world.run("fleet", "show", "pocl", "--tracker", address).stdout
    assert "OpenCL" in shown and row["device"] in shown and "processes" in row["missing"], (shown, row)
    board.terminate()
    world.ends(board)


def test_a_device_is_tuned_by_a_private_fleet(world):
    """One child measures trial after trial, each checked; what is packed runs there."""
    _, board, row = pocl(world)
    board.terminate()
    world.ends(board)
    model, module = world.zoo("gemm:64x64x64"), world.path("gemm.kiln")
    *_, shipped, done = world.json("tune", model, "--target", row["target"], "--trials", 8, "--db", world.path("t.db"), "--out", module)
    assert done["event"] == "done" and done["measured"] == 8 and done["verified"] == 8, done
    assert shipped["event"] == "module" and shipped["untimed"] == "the board is emulated", shipped
    assert shipped["accuracy"]["checked"] and 0 < shipped["accuracy"]["error"] < 1e-5, shipped
    [(kinds, checked)] = world.sql("t.db", "SELECT count(DISTINCT artefact_kind), sum(checked) FROM record WHERE final = 0 AND artefact_kind = 'opencl'")
    assert kinds == "1" and int(checked) == 8, (kinds, checked)
    assert world.json("run", module, "--bench")[-1]["median_ms"] > 0


def test_a_device_with_two_slots_serves_one_job_with_two_children(world):
    """They build at once and time in turn; every trial is checked all the same."""
    address, board, _ = pocl(world, "--slots", "2")
    world.tuner(address)
    [row] = world.json("fleet", "list", "--tracker", address)
    assert row["slots"] == 2, row
    done = world.json("tune", world.zoo("gemm:64x64x64"), "--tracker", address, "--target", row["target"], "--trials", 8, "--db", world.path("t.db"))[-1]
    assert done["event"] == "done" and done["verified"] == 8, done
    board.terminate()
    world.ends(board)


def test_each_target_of_a_board_has_a_line(world):
    _, address = world.tracker()
    world.board(address, "--also", "null")
    rows = until(lambda: world.json("fleet", "list", "--tracker", address), "the board in the fleet")
    assert [row["target"].split(":")[0] for row in rows] == ["cpu", "null"], rows
    assert len({row["node"] for row in rows}) == 1 and rows[1]["slots"] == 1, rows


def test_a_server_uses_the_driver_that_its_environment_names(world):
    """Also where it may not open it itself: its contained children see that file and no other of the folder."""
    world.env |= {"KILN_CUDA_LIBRARY": str(FAKE_CUDA), "KILN_CUDA_FAKE_DEVICES": "2", "KILN_CUDA_FAKE_MEMORY_MIB": "4096"}
    _, address = world.tracker()
    world.board(address, "--executor", "cuda", "--device", "1", key="h200")
    [row] = until(lambda: world.json("fleet", "list", "--tracker", address), "the board in the fleet")
    assert row["target"] == "cuda:sm_90a" and row["device"] == "NVIDIA H200" and row["memory_bytes"] == 4 << 30, row
    shown = world.run("fleet", "show", "h200", "--tracker", address).stdout
    for fact in ("NVIDIA H200", "CUDA 12.4", "cuda:sm_90a"):
        assert fact in shown, (fact, shown)
    world.refused("--executor", "cuda", "--device", "2", "--tracker", address, "--state", world.path("other"), says="there is no cuda device 2; there are 2",
                  name="kiln-rpc-server")


def test_a_device_that_is_not_the_first_is_tuned(world):
    world.env["POCL_DEVICES"] = "pthread basic"
    found = re.search(r"; 1: .* as (opencl:[^ ;]*)", checks(world)["opencl"][1])
    if not found:
        raise harness.Skip("no driver that offers two devices: install pocl-opencl-icd")
    done = world.json("tune", world.zoo("gemm:32x32x32"), "--target", found[1], "--trials", 1, "--db", world.path("t.db"))[-1]
    assert done["event"] == "done" and done["verified"] == 1, done


def test_devices_that_cannot_be_offered_are_refused(world):
    server = ("--tracker", "127.0.0.1:1")
    refuse = lambda *argv, says: world.refused(*server, *argv, says=says, name="kiln-rpc-server")
    refuse("--device", "0", says="--executor NAME")
    refuse("--executor", "cpu", "--device", "0", says="has just one device")
    refuse("--executor", "vta", "--device", "first", says='no device of --executor vta is named "first"; there are: 0 "simulated pynq", 1')
    refuse("--executor", "abacus", says='there is no executor "abacus"; there are: cpu null')
    if not os.path.exists("/dev/nvidiactl"):
        refuse("--executor", "cuda", says="device 0 of --executor cuda")
    done = world.run("--executor", "opencl", "--doctor", ok=False, name="kiln-rpc-server")
    if any(line.startswith("ok   device") for line in done.stdout.splitlines()):
        refuse("--executor", "opencl", "--device", "77", says="there is no opencl device 77")
        refuse("--executor", "opencl", "--also", "null", says="--also needs a server that offers the processor")
        refuse("--executor", "opencl", "--slots", "17", says="at most 16 slots")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
