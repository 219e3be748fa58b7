#!/usr/bin/env python3
"""Counted figures of launches with and without measurements, PTX of a network as text, and its machine code, with scripts in place of the vendor's programs."""
import json
import os
import pathlib
import re
import sys

import harness

DIGITS = str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")
PTXAS = """#!/bin/sh
cat > "$5"
[ -z "$SPOILT" ] || { echo "line 7; error : $SPOILT" >&2; exit 255; }
printf "Compiling entry function 'run_0' for '%s'\\n 0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\\nUsed 40 registers\\n" "$3" >&2
"""
NVDISASM = """#!/bin/sh
printf 'FFMA of %s\\n' "$(grep -c '\\.entry' "$2")"
"""


def test_ptx_is_printed_for_each_architecture(world):
    for target, version in (("cuda:sm_80", "7.0"), ("cuda:sm_90", "8.0"), ("h200", "8.0")):
        text = world.run("explain", DIGITS, "--stage", "ptx", "--target", target).stdout
        assert f".version {version}\n" in text and ".visible .entry run_0(" in text, text[:2000]
        assert text.count("# task ") == text.count(".version"), text[:2000]


def test_stages_that_a_target_does_not_have_are_refused(world):
    for target, stage, says in (("x86-64", "ptx", "such as cuda:sm_90, not cpu"), ("x86-64", "opencl", "such as opencl, not cpu"),
                                ("opencl", "cuda", "such as cuda:sm_90, not opencl"), ("opencl", "sass", "such as cuda:sm_90, not opencl"),
                                ("h200", "opencl", "such as opencl, not cuda"),
                                ("h200", "c", "such as x86-64, not cuda"), ("x86-64", "tokens", "such as pynq-vta, not cpu")):
        world.refused("explain", DIGITS, "--stage", stage, "--target", target, says=f"the stage {stage} is of targets {says}")
    world.refused("explain", DIGITS, "--stage", "asm", "--target", "opencl", says="the back end makes C text, neither assembly nor")


def test_code_is_printed_without_what_all_kernels_have(world):
    for target, stage, entry in (("h200", "cuda", "__global__"), ("opencl", "opencl", "kernel __attribute__"), ("x86-64", "c", "run")):
        text = world.run("explain", DIGITS, "--stage", stage, "--target", target, "--task", "1").stdout
        assert "/* without types and helper functions; --helpers prints them */\n" in text.splitlines(True)[1:2], text[:2000]
        assert entry in text, text[:2000]
        whole = world.run("explain", DIGITS, "--stage", stage, "--target", target, "--task", "1", "--helpers").stdout
        assert whole.endswith(text.split("\n", 2)[2]) and len(whole.splitlines()) > len(text.splitlines()) + 50, whole[-2000:]


def test_missing_programs_of_the_vendor_are_named(world):
    world.env.update(PATH="/nowhere", KILN_PTXAS="", KILN_NVDISASM="/nowhere/nvdisasm")
    world.refused("explain", DIGITS, "--stage", "sass", "--target", "h200", says="missing: ptxas. Install them (pip: nvidia-cuda-nvcc-cu12")


def test_machine_code_is_printed_with_its_registers(world):
    for name, text in (("ptxas", PTXAS), ("nvdisasm", NVDISASM)):
        path = pathlib.Path(world.path(name))
        path.write_text(text)
        path.chmod(0o755)
        world.env[f"KILN_{name.upper()}"] = str(path)
    text = world.run("explain", DIGITS, "--stage", "sass", "--target", "h200", "--task", "1").stdout
    assert "# task 1 " in text and "# run_0: 40 registers, 12 bytes of spills, 0 of stack\nFFMA of " in text, text
    world.env["SPOILT"] = "no such instruction"
    world.refused("explain", DIGITS, "--stage", "sass", "--target", "h200", says="ptxas refuses it: line 7; error : no such instruction")
    assert not os.listdir(world.path("tmp")), "something is left"


def test_why_explains_unmeasured_launches(world):
    for target, units in (("h200", 132), ("a100", 108), ("opencl:x,units=24", 24)):
        text = world.run("explain", DIGITS, "--why", "0", "--target", target).stdout
        assert "Nothing was measured" in text and "counted from the loops and the target's row" in text, text
        assert re.search(r"^  \d+ blocks? of \d+ threads? \(\d+ warps?\), [\d.]+ KB shared, about \d+ registers", text, re.M), text
        assert f" on {units} units\n" in text and "bound by: " in text and "waves" in text, text
    [row] = world.json("explain", DIGITS, "--why", "0", "--target", "h200")
    assert row["measurements"] == 0 and "on 132 units" in row["launches"] and row["algorithm"] == "direct", row
    world.refused("explain", DIGITS, "--why", "0", "--target", "h200", "--db", world.path("none.db"), says="there is no such database")
    world.refused("explain", DIGITS, "--why", "0", says="there is no such database")


def test_why_explains_launches_of_records(world):
    """Of devices in software, of one behind a driver, and of a GPU elsewhere, whose records were imported."""
    model = world.zoo("gemm:64x64x64")
    world.json("tune", model, "--target", "null", "--trials", 24, "--db", world.path("t.db"))
    text = world.run("explain", model, "--why", "0", "--target", "null", "--db", world.path("t.db")).stdout
    assert "Winning schedule" in text and re.search(r"^  \d+ blocks? of \d+ threads?, [\d.]+ KB shared; \d+ barriers? a block$", text, re.M), text
    assert "of the peak" not in text and "what bounds it is not known" in text, text

    exported = world.run("db", "export", "--db", world.path("t.db")).stdout
    rows = [json.loads(line) for line in exported.splitlines()]
    for number, row in enumerate(rows):
        # An assembler was asked of every second one.
        row.update({"registers": 32 + 8 * (number % 8), "shared_bytes": 4096} if row["table"] == "record" and number % 2 else {})
        row.pop("signature", None), row.pop("signer", None)
        row.update({"target": "cuda:sm_90a,mcpu=h200"} if row.get("target") == "null" else {}, **({"peak_flops": 6e13} if row["table"] == "record" else {}))
    moved = world.path("moved.jsonl")
    pathlib.Path(moved).write_text("".join(json.dumps(row) + "\n" for row in rows))
    world.run("db", "import", "--own", moved, "--db", world.path("h200.db"))
    text = world.run("explain", model, "--why", "0", "--target", "h200", "--db", world.path("h200.db")).stdout
    assert [int(n) > 8 for n in world.sql("h200.db", "SELECT sum(registers > 0), sum(registers = 0) FROM record")[0]] == [True, True]
    assert re.search(r"learnt from \d\d trials of 1 task\n  it expects", text), text
    assert "Winning schedule" in text and re.search(r"^  \d+ blocks? of \d+ threads? \(\d+ warps?\), [\d.]+ KB shared, about \d+ registers", text, re.M), text
    assert " on 132 units\n" in text and " units are without a block: " in text and "bound by: " in text, text
    assert "% of the peak of 60000.0; bound by memory\n  memory of the row h200 brings 4800.0 GB/s" in text, text
    [row] = world.json("explain", model, "--why", "0", "--target", "h200", "--db", world.path("h200.db"))
    assert row["measurements"] >= 4 and "on 132 units" in row["launches"] and 0 < row["share_of_peak"] < 1, row
    page = world.path("page.svg")
    world.run("db", "plot", "--db", world.path("h200.db"), "-o", page)
    assert "GB/s" in pathlib.Path(page).read_text()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
