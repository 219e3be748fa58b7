#!/usr/bin/env python3
"""The hardware of vta/rtl: lint, and verilated machines beside the cycle simulator on random programs: the same bytes and
cycles. `./dev test vta` sets KILN_VTA_RTL and has all machines, 2,000 programs, the full size and the proofs."""
import os
import re
import subprocess
import sys

import harness
import rtl

WHOLE = bool(os.environ.get("KILN_VTA_RTL"))
# Between them: every feature, tiles below and above a beat, several passes of the ALU and channels, one burst at a time.
MACHINES = [
    "b1i4o4,i8w8a32,uop10,inp10,wgt12,acc12,bus64,clk50,alu2,pipe8,chan2,v2",
    "b1i8o8,i8w8a32,uop10,inp11,wgt14,acc13,bus64,clk100,alu2,pipe11,aii2,v2-engine",
    "b2i8o8,i4w4a32,uop10,inp11,wgt13,acc14,bus128,clk50,alu2,pipe9,chan4,row0,lat9,v1+first+engine",
    "b1i2o2,i8w8a32,uop10,inp9,wgt10,acc11,bus256,clk50,alu1,pipe6,chan2,req1,v1+bytes",
    "b1i4o8,i8w4a32,uop10,inp10,wgt12,acc13,bus8,clk50,alu256,pipe30,aii3,chan3,v1+mul",
]
# Sums into one accumulator, pass behind pass, alone and in a chain: each needs the result of the one before it. A chain writes
# what the next one reads.
REDUCE = """config CONFIG
buffer acc argument 4096
buffer out argument 1024
uop dst=0 src=8
uop dst=1 src=9
uop dst=1 src=0
uop dst=2 src=1
load buffer=acc memory=acc y_size=1 x_size=48
load memory=uop y_size=1 x_size=4
alu op=add uop_end=1 iter_out=3 iter_in=5 src_out=5 src_in=1
alu op=add uop_end=4 iter_out=2 iter_in=1 src_out=1
alu op=max uop_bgn=2 uop_end=4 iter_out=1 iter_in=3 dst_in=1 src_in=1 CHAIN
alu op=add uop_bgn=2 uop_end=4 iter_out=1 iter_in=3 dst_in=1 src_in=1 CHAIN
alu op=shr use_imm imm=1 uop_bgn=2 uop_end=4 iter_out=1 iter_in=3 dst_in=1 src_in=1
alu op=add uop_end=1 iter_out=1 iter_in=9 src_in=1 CHAIN
alu op=min use_imm imm=-3 uop_end=1 iter_out=1 iter_in=9 src_in=1 push_next
store buffer=out pop_prev memory=out y_size=1 x_size=48 push_prev
finish pop_next
"""
PROGRAMS = 400 if WHOLE else 60
FULL, KCYCLES_LEAST = "pynq", 200


def tool(function, *words):
    try:
        return function(*words)
    except rtl.Missing as package:
        raise harness.Skip(f"the package {package}") from None
    except SystemExit as said:
        raise AssertionError(str(said)) from None


def only_when_named():
    if not WHOLE:
        raise harness.Skip("./dev test vta")


def compare(config, world, programs, *macros):
    """Runs programs on the machine and returns how many cycles a second it had, in thousands."""
    model = tool(rtl.model, config, world.folder, *macros)
    done = subprocess.run([rtl.BUILD / "tests/vta/rtl_bench", model, config.partition("@")[0], str(programs)], capture_output=True, text=True)
    assert done.returncode == 0, f"{config}: {done.stdout}{done.stderr}"
    return int(re.search(r"(\d+) kcycles/s", done.stdout)[1])


def test_verilog_has_no_warnings(world):
    for config in rtl.SHAPES if WHOLE else rtl.SHAPES[1:6:2]:
        tool(rtl.lint, config, world.folder)


def test_a_configuration_that_cannot_be_built_is_refused(world):
    for config, words in {"pynq,pipe4": "pipe4", "pynq,lat1,row0": "lat1,row0", "pynq,bus8,cmd0": "bus8,cmd0"}.items():
        done = subprocess.run([rtl.BUILD / "cli/kiln", "vta", "params", config], capture_output=True, text=True)
        assert done.returncode != 0 and words in done.stderr and not done.stdout, (config, done)


def test_a_small_machine_computes_what_the_simulator_does(world):
    compare(MACHINES[0] + "@2", world, PROGRAMS)


def test_passes_see_the_results_of_those_before(world):
    only_when_named()
    for config in MACHINES[1:2] + [MACHINES[4]]:
        text = REDUCE.replace("CONFIG", config).replace("CHAIN", "chain" if "v2" in config else "")
        program = world.folder / "reduce.vta"
        program.write_text(text)
        model = tool(rtl.model, config, world.folder)
        done = subprocess.run([rtl.BUILD / "tests/vta/rtl_bench", model, program], capture_output=True, text=True)
        assert "byte" not in done.stderr and "1 programs" in done.stdout, f"{config}: {done.stdout}{done.stderr}"


def test_machines_of_other_shapes_do(world):
    only_when_named()
    for config in MACHINES[1:]:
        compare(config, world, PROGRAMS)


def test_machines_without_queues_do(world):
    only_when_named()
    compare(rtl.SMALL, world, PROGRAMS, *rtl.ICE40)
    for config in (MACHINES[0], MACHINES[3]):
        compare(config.replace("clk50", "clk50,cmd0"), world, PROGRAMS)


def test_the_full_machine_does_and_is_fast_enough(world):
    only_when_named()
    kcycles = compare(FULL, world, PROGRAMS)
    assert kcycles >= KCYCLES_LEAST, f"{kcycles} kcycles/s"


def test_synthesis_counts_what_the_table_says(world):
    only_when_named()
    rows = re.findall(r'^X\("(.*)", (\d+), (\d+), (\d+), (\d+), (\d+), \w+\)$', (rtl.ROOT / "vta/search/synthesised.def").read_text(), re.M)
    config, columns, *counts = min(rows, key=lambda row: int(row[2]))
    assert list(tool(rtl.synth, f"{config}@{columns}", world.folder).values()) == list(map(int, counts)), config


def test_tokens_and_addresses_are_proved(world):
    only_when_named()
    for proof in rtl.PROOFS:
        tool(rtl.prove, proof, world.folder)


sys.exit(harness.main(sys.modules[__name__]))
