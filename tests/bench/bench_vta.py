"""vta [--sensitivity] [--search [CONFIG...]] [--rtl [CONFIG...]] [--host]: what accelerators of the VTA class reach on C2 to C12, by the cycle simulator, how near searches come to the best of all schedules, and beside it in Verilog"""
import concurrent.futures
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys

import kiln

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "vta"))
import rtl

BENCH = kiln.BUILD / "tests/bench/bench-vta"
SEARCH = kiln.BUILD / "tests/bench/bench-vta-search"
RUN_ARMHF = pathlib.Path(__file__).parents[2] / "build-armhf/deploy/run/kiln-run"
# How often ResNet-18 has each layer; C3 is none of its own.
BODY = {"C2": 4, "C4": 1, "C5": 1, "C6": 3, "C7": 1, "C8": 1, "C9": 3, "C10": 1, "C11": 1, "C12": 3}


def add_options(parser):
    parser.add_argument("--sensitivity", action="store_true", help="also over bytes a cycle and latency")
    parser.add_argument("--search", nargs="*", metavar="CONFIG", help="only searches of 48 trials, of 8 after the other layers, and by chance, "
                                                                      "beside all schedules (default: pynq)")
    parser.add_argument("--rtl", nargs="*", metavar="CONFIG", help="only cycles and data of the machine in Verilog beside the simulator's "
                                                                   "(default: pynq)")
    parser.add_argument("--host", action="store_true", help="only ResNet-18 on bytes: cycles of pynq's accelerator beside instructions of "
                                                            "the kernels for its processor, counted under qemu-arm; no times of an emulator")


def show_rtl(config, work):
    """Each layer and all of ResNet-18's body; data and cycles must be the simulator's."""
    model = rtl.model(config, work)
    subprocess.run([BENCH, "programs", config, work], check=True)
    files = [work / "C3.vta"] + [work / f"{name}.vta" for name, count in BODY.items() for _ in range(count)]
    done = subprocess.run([kiln.BUILD / "tests/vta/rtl_bench", model, *files], capture_output=True, text=True)
    runs = re.findall(r"(C\d+)\.vta: (\d+) cycles, ([\d.]+) s, (.*)", done.stdout)
    print(f"\n{config}, by the hardware")
    for name, cycles, seconds, verdict in dict((run[0], run) for run in runs).values():
        print(f"{name:<5} {int(cycles) / 1e3:9.1f} kcycles in {float(seconds):6.2f} s  {verdict}")
    print(f"body of ResNet-18: {sum(int(run[1]) for run in runs[1:]) / 1e3:.1f} kcycles in {sum(float(run[2]) for run in runs[1:]):.1f} s")
    print(done.stdout.splitlines()[-1])
    if done.returncode:
        raise SystemExit(done.stderr)


def write_inputs(module, samples, work):
    """--input NAME=FILE for each input of the module: so many samples of zeros, whose number does not change what is executed."""
    words = []
    for port in (line for line in kiln.lines("inspect", module) if line["event"] == "input"):
        file, shape = work / f"{port['name']}.npy", [samples * port["shape"][0], *port["shape"][1:]]
        dtype = {"i8": "|i1", "f32": "<f4"}[port["dtype"]]
        head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".ljust(117) + "\n"
        file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(int(dtype[2]) * math.prod(shape)))
        words += ["--input", f"{port['name']}={file}"]
    return words


def instructions_of(model, work):
    """Of one run on one thread of pynq's processor: two samples less one, so that neither loading nor packing weights counts."""
    module, counted = kiln.compile_for(model, "pynq", work / "arm.kiln"), []
    for samples in (1, 2):
        done = subprocess.run(["qemu-arm", "-plugin", kiln.BUILD / "tests/bench/qemu_insns.so", "-d", "plugin", RUN_ARMHF, module, "--threads", "1",
                               *write_inputs(module, samples, work)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"qemu-arm {RUN_ARMHF}: {done.stderr}")
        counted.append(int(re.search(r"^instructions: (\d+)$", done.stderr, re.M).group(1)))
    return counted[1] - counted[0]


def cycles_of(model, work):
    """(cycles, multiply-adds) of the kernels that pynq's accelerator has."""
    module, cycles, macs = kiln.compile_for(model, "pynq-vta,host=pynq", work / "vta.kiln"), 0, 0
    for program in range(1000):
        done = subprocess.run([kiln.KILN, "vta", "run", module, "--program", str(program), "--json"], capture_output=True, text=True)
        if done.returncode and cycles == 0:
            raise SystemExit(done.stderr)
        if done.returncode:  # there are no more
            break
        timed = json.loads(done.stdout.splitlines()[-1])
        cycles, macs = cycles + timed["cycles"], macs + timed["multiply_adds"]
    return cycles, macs


def print_host(name, cycles, executed):
    print(f"{name:<10}{cycles / 1e3:>10.1f}{cycles / 1e5:>8.2f}{executed / 1e6:>16.1f}{executed / cycles:>12.1f}", flush=True)


def show_host(work):
    """Default schedules on both sides. An instruction is no cycle, so nothing here says how much faster which one is."""
    print(f"{'':<10}{'kcycles':>10}{'ms':>8}{'M instructions':>16}{'of a cycle':>12}   pynq's accelerator at 100 MHz; one core of its processor")
    body = [0, 0]
    for name, count in BODY.items():
        kiln.lines("zoo", f"conv:{name}", "--int8", "-o", work / "layer.onnx")
        row = cycles_of(work / "layer.onnx", work)[0], instructions_of(work / "layer.onnx", work)
        body = [sum_ + count * one for sum_, one in zip(body, row)]
        print_host(name, *row)
    print_host("body", *body)
    kiln.zoo("resnet18", work / "r.onnx")
    kiln.lines("quantize", work / "r.onnx", "--shift", "--synthetic", 1, "-o", work / "r8.onnx")
    cycles, macs = cycles_of(work / "r8.onnx", work)
    print_host("ResNet-18", cycles, instructions_of(work / "r8.onnx", work))
    print(f"ResNet-18: cycles of the {macs / 1e6:.1f} million multiply-adds that the accelerator does, instructions of the whole network")


def write_log(config, layer, path):
    with path.open("wb") as out:
        subprocess.run([SEARCH, "log", config, layer], stdout=out, check=True)


def show_search(config, work):
    """All schedules of every layer on all cores, then searches among them."""
    logs = {f"C{i}": work / f"C{i}.log" for i in range(2, 13)}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda layer: write_log(config, layer, logs[layer]), logs))
    subprocess.run([SEARCH, "search", *logs.values()], check=True)


def run(options, work):
    if options.search is not None:
        for config in options.search or ["pynq"]:
            show_search(config, work)
        return
    if options.host:
        show_host(work)
        return
    if options.rtl is not None:
        for config in options.rtl or ["pynq"]:
            show_rtl(config, work)
        return
    subprocess.run([BENCH, "table"], check=True)
    subprocess.run([BENCH, "ablation"], check=True)
    if options.sensitivity:
        subprocess.run([BENCH, "sensitivity"], check=True)
