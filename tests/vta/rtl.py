#!/usr/bin/env python3
"""The hardware of vta/rtl through Debian's tools (docs/how-to/vta-hardware.md).

    rtl.py lint [CONFIG...]      verilator --lint-only -Wall
    rtl.py model CONFIG FOLDER   FOLDER/model.so, for build/tests/vta/rtl_bench
    rtl.py synth CONFIG[@N]...   what it takes of an FPGA of Xilinx' 7 series (yosys), with N columns multiplied in LUTs
    rtl.py fit                   columns LUT and FF of vta/search/resources.def, from vta/search/synthesised.def
    rtl.py pnr [CONFIG[@N]]      the machine placed and routed on an iCE40 (nextpnr-ice40), and the clock that it can have
    rtl.py prove                 queues of tokens and the generator of addresses, for a number of steps (z3)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
RTL = ROOT / "vta/rtl"
BUILD = pathlib.Path(os.environ.get("KILN_BIN", ROOT / "build"))
VERILATOR = pathlib.Path("/usr/share/verilator/include")
PACKAGES = {"yosys-smtbmc": "yosys"}  # of programs that have another name
# Every way of arranging memories, loops and channels.
SHAPES = [
    "pynq",
    "pynq,v2",
    "pynq,alu8,aii2,v2-engine",
    "b1i4o4,i8w8a32,uop10,inp10,wgt12,acc12,bus256,clk50,alu2,pipe7,chan2,v2",
    "pynq,bus256,v1+bytes",
    "pynq,bus8,chan3",
    "b1i4o4,i8w8a32,uop10,inp10,wgt12,acc12,bus16,clk50,alu1,pipe8,cmd0,v2",
    "b1i4o4,i8w8a32,uop9,inp10,wgt11,acc11,bus32,clk50,alu4,pipe6,v1",
    "b4i8o8,i4w4a32,uop10,inp12,wgt12,acc14,bus512,clk50,alu2,pipe9,chan4,v1+first+bytes",
    "b1i1o1,i8w8a32,uop9,inp9,wgt9,acc9,bus32,clk50,alu1,pipe5,chan2,v1",
    "b2i32o16,i8w4a32,uop10,inp12,wgt14,acc14,bus128,clk50,alu256,pipe30,aii3,v1",
]
# A machine that fits an iCE40 HX8K, with all four columns multiplied in LUTs, and how it is synthesised: with a MiB of main memory.
SMALL = "b1i4o4,i8w8a32,uop10,inp10,wgt12,acc12,bus32,clk25,alu1,aii2,pipe8,req1,cmd0,tok4,v1@4"
ICE40 = ["-DVTA_ADDRESS_BITS=20", "-DVTA_CHOOSE_SUMS=1", "-DVTA_SHARE_MULTIPLIERS=0"]
PROOF_SHAPE = "b1i4o4,i4w4a32,uop10,inp12,wgt15,acc12,bus64,clk50,alu1,aii2,pipe8,v1"
PROOFS = {"tokens": 14, "rows": 5}  # steps


class Missing(Exception):
    """A package is not there."""


def run(argv, folder):
    """What a tool says; its failure ends the program with it."""
    if not shutil.which(argv[0]):
        raise Missing(PACKAGES.get(argv[0], argv[0]))
    done = subprocess.run([str(word) for word in argv], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        text = (done.stdout + done.stderr).strip().splitlines()
        raise SystemExit("\n".join(text[-40:]) + f"\n{argv[0]} failed")
    return done.stdout + done.stderr


def params(config, folder):
    """Writes vta_params.vh and returns its macros that are numbers."""
    config, _, lut_columns = config.partition("@")
    text = run([BUILD / "cli/kiln", "vta", "params", config, "--lut-columns", lut_columns or 0], folder)
    (folder / "vta_params.vh").write_text(text)
    return dict(re.findall(r"^`define (VTA_\w+) (\d+)$", text, re.M))


def lint(config, folder):
    params(config, folder)
    run(["verilator", "--lint-only", "-Wall", f"-I{folder}", "-y", RTL, RTL / "vta.v"], folder)


def model(config, folder, *macros):
    """A library that has the machine, with main memory around it."""
    for old in folder.glob("Vvta*"):  # of another machine, which may have more files
        old.unlink()
    numbers = params(config, folder)
    run(["verilator", *macros, "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal", f"-I{folder}", "-y", RTL,
         "--Mdir", folder, RTL / "vta.v"], folder)
    sources = sorted(folder.glob("Vvta*.cpp")) + [ROOT / "tests/vta/rtl_model.cpp", VERILATOR / "verilated.cpp",
                                                  VERILATOR / "verilated_threads.cpp"]
    compiler = ["ccache", "g++"] if shutil.which("ccache") else ["g++"]
    flags = ["-O2", "-std=c++17", "-fPIC", "-w", f"-I{folder}", f"-I{ROOT}", f"-I{ROOT / 'tests/vta'}", f"-I{VERILATOR}", f"-I{VERILATOR / 'vltstd'}",
             f"-DVTA_BUS_BITS={numbers['VTA_BUS_BITS']}", f"-DVTA_CHANNELS={numbers['VTA_CHANNELS']}"]
    objects = []
    for source in sources:
        objects.append(folder / (source.stem + ".o"))
        run([*compiler, *flags, "-c", source, "-o", objects[-1]], folder)
    run(["g++", "-shared", *objects, "-o", folder / "model.so"], folder)
    return folder / "model.so"


def yosys(commands, config, folder, *macros):
    params(config, folder)
    sources = " ".join(str(path) for path in sorted(RTL.glob("*.v")))
    return run(["yosys", "-p", f"read_verilog {' '.join(macros)} -I{folder} {sources}; {commands}"], folder)


def synth(config, folder):
    """Counts of cells of the 7 series: {"LUT": n, "FF": n, "BRAM18": halves of RAMB36, "DSP": n}."""
    text = yosys("synth_xilinx -family xc7 -top vta -flatten; stat", config, folder)
    cells = {name: int(count) for name, count in re.findall(r"^ +([A-Z]\w+) +(\d+)$", text[text.rindex("Printing statistics"):], re.M)}
    def total(pattern, weight=lambda name: 1):
        return sum(count * weight(name) for name, count in cells.items() if re.fullmatch(pattern, name))
    # Memories in LUTs: a RAM32M or RAM64M is four, a RAM32X1D or RAM64X1D two.
    memory = total(r"RAM\d+M", lambda name: 4) + total(r"RAM\d+X1D", lambda name: 4 if "128" in name else 2)
    return {"LUT": total(r"LUT\d") + memory, "FF": total(r"FD\w+"),
            "BRAM18": total(r"RAMB18\w*") + total(r"RAMB36\w*", lambda name: 2), "DSP": total(r"DSP48E1")}


def fit(rows, what):
    """What each amount costs, nothing below 0: least squares of relative errors, one amount after the other until none changes."""
    names = [name for name in rows[0] if name not in ("LUT", "FF", "held_out")]
    scaled = [[row[name] / row[what] for name in names] for row in rows if not row["held_out"]]
    each = [0.0] * len(names)
    for _ in range(200000):
        change = 0
        for k in range(len(names)):
            square = sum(row[k] ** 2 for row in scaled)
            if not square:
                continue
            slope = sum(row[k] * (1 - sum(a * e for a, e in zip(row, each))) for row in scaled)
            new = max(0.0, each[k] + slope / square)
            change = max(change, abs(new - each[k]) * square ** 0.5)
            each[k] = new
        if change < 1e-9:
            break
    return dict(zip(names, each))


def resources():
    """Amounts and counts of each synthesised machine, and by how many per cent the model is off."""
    text = run([BUILD / "tests/bench/bench-vta", "resources"], ROOT)
    for line in text.splitlines():
        config, *fields = line.split("\t")
        values = {name: float(value) for name, value in (field.split("=") for field in fields)}
        yield config, values, values.pop("model_LUT"), values.pop("model_FF")


def pnr(config, folder):
    """Logic cells, block memories and the clock in MHz that the machine has on an iCE40 HX8K."""
    # There is no memory in LUTs. No result depends on what a memory's word is read as while it is written (vta_sram.v).
    yosys("hierarchy -top vta; proc; setattr -unset ram_style t:* m:*; synth_ice40 -no-rw-check -top vta -json vta.json", config, folder,
          *ICE40)
    text = run(["nextpnr-ice40", "--hx8k", "--package", "ct256", "--json", "vta.json", "--asc", "vta.asc", "--seed", "1", "--freq", "25",
                "--timing-allow-fail"],
               folder)
    used = dict(re.findall(r"(ICESTORM_LC|ICESTORM_RAM):\s+(\d+)/", text))
    clocks = re.findall(r"Max frequency for clock[^:]*: ([0-9.]+) MHz", text)
    return {"LC": int(used["ICESTORM_LC"]), "RAM": int(used["ICESTORM_RAM"]), "MHz": float(clocks[-1])}


def prove(name, folder):
    """Every assertion of prove_NAME.v holds in as many steps, from reset on."""
    params(PROOF_SHAPE, folder)
    sources = [ROOT / f"tests/vta/prove_{name}.v", RTL / "vta_tokens.v", RTL / "vta_control.v", RTL / "vta_rows.v"]
    run(["yosys", "-q", "-p", f"read_verilog -formal -I{folder} {' '.join(map(str, sources))}; prep -top prove_{name}; write_smt2 -wires {name}.smt2"],
        folder)
    if not shutil.which("z3"):
        raise Missing("z3")
    run(["yosys-smtbmc", "-s", "z3", "-t", PROOFS[name], f"{name}.smt2"], folder)


def main(command="", *words):
    with tempfile.TemporaryDirectory(prefix="kiln-rtl-") as name:
        folder = pathlib.Path(name)
        if command == "lint":
            for config in words or SHAPES:
                lint(config, folder)
                print(f"clean: {config}")
        elif command == "model" and len(words) == 2:
            target = pathlib.Path(words[1]).resolve()
            target.mkdir(parents=True, exist_ok=True)
            print(model(words[0], target))
        elif command == "synth" and words:
            for config in words:
                counts = synth(config, folder)
                print(f"{config}: " + ", ".join(f"{count} {what}" for what, count in counts.items()), flush=True)
        elif command == "fit" and not words:
            machines = list(resources())
            lut, ff = (fit([values for _, values, *_ in machines], what) for what in ("LUT", "FF"))
            for name in lut:
                print(f"{name}: {lut[name]:.4g} LUT, {ff[name]:.4g} FF")
            for config, values, off_lut, off_ff in machines:
                print(f"{config}: the model is off by {off_lut:+.1f} % LUT, {off_ff:+.1f} % FF" + (", held out" if values["held_out"] else ""))
        elif command == "pnr" and len(words) < 2:
            config = SMALL if words in ((), ("1x4x4",)) else words[0]
            counts = pnr(config, folder)
            print(f"{config}: {counts['LC']} logic cells, {counts['RAM']} block memories, {counts['MHz']} MHz")
        elif command == "prove" and not words:
            for proof in PROOFS:
                prove(proof, folder)
                print(f"holds in {PROOFS[proof]} steps: {proof}")
        else:
            raise SystemExit(__doc__.strip())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Missing as package:
        raise SystemExit(f"the package {package} is missing; ./dev test installs it")
