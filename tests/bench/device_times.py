"""Operators and a network on the first CUDA device, with all data there; with --peers beside PyTorch (cuBLAS, cuDNN) on the same device.

Operators: sums of their kernels by the device's clock, in us. Networks: from the call of a run to its end. Rows without a weight of their own (softmax, layer
normalisation) stand beside the time in which the device copies as many bytes as they read and write. `./dev bench gpu --device` runs it from the tree,
a bundle has it as bench-device."""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
COPIED_MIB = 1024
CONVOLUTIONS = [f"conv:C{i}" for i in range(1, 13)]
# (group, what is wanted: the peer's time over ours, at least; entries of the zoo)
GROUPS = [("products of halves", 0.85, ["gemm:4096x4096x4096_f16", "gemm:4096x4096x4096_bf16"]),
          ("products in f32", 0.9, ["gemm:4096x4096x4096"]),
          ("convolutions, 32 images", 0.9, [f"{c}_n32_f16" for c in CONVOLUTIONS]),
          ("convolutions, 1 image", 1.0, [f"{c}_f16" for c in CONVOLUTIONS]),
          ("bandwidth", 0.8, ["conv:D3_n32_f16", "softmax:8192x4096", "layernorm:8192x4096"]),
          ("networks", 1.0, ["resnet50_f16", "resnet50_n32_f16"])]


def program(name):
    built = os.environ.get("KILN_BIN")
    return str(pathlib.Path(built) / name) if built else shutil.which(pathlib.Path(name).name) or sys.exit(f"{name} is not on PATH")


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{pathlib.Path(words[0]).name} {' '.join(map(str, words[1:5]))}: {done.stderr.strip()[-300:]}")
    return done.stdout


def find_target():
    found = re.search(r"\bcuda\b.* as (cuda:[^ ;]*)", run(program("cli/kiln"), "doctor"))
    return found and found[1]


def convolution_numbers():
    text = run(program("cli/kiln"), "zoo", "list")
    return dict(re.findall(r"^(conv:[CD]\d+) *= conv:(\S+)$", text, re.M))


def make(name, target, seconds, folder):
    """The module; with `seconds` searched for so long."""
    kiln, file = program("cli/kiln"), folder / re.sub(r"\W", "-", name)
    run(kiln, "zoo", name, "-o", f"{file}.onnx")
    if seconds:
        run(kiln, "tune", f"{file}.onnx", "--target", target, "--seconds", seconds, "--db", f"{file}.db", "--out", f"{file}.kiln")
    else:
        run(kiln, "compile", f"{file}.onnx", "--target", target, "--db", "none", "-o", f"{file}.kiln")
    return f"{file}.kiln"


def moved_bytes(name, numbers):
    """What an operator reads and writes once, weights aside."""
    size, images = (2 if name.endswith("f16") else 4), re.search(r"_n(\d+)", name)
    plain = re.sub(r"_.*", "", name)
    if plain in numbers:
        n = [int(v) for v in numbers[plain].split(",")]
        sides = [(n[1 + i] + n[8 + i] + n[10 + i] - n[12 + i] * (n[4 + i] - 1) - 1) // n[6 + i] + 1 for i in (0, 1)]
        return (int(images[1]) if images else 1) * size * (n[0] * n[1] * n[2] + n[3] * sides[0] * sides[1])
    return 2 * size * math.prod(int(v) for v in plain.split(":")[1].split("x"))


def peer_times(names, numbers):
    """{name: us}"""
    words = [re.sub(r"^conv:[CD]\d+", lambda c: f"conv:{numbers[c[0]]}", name) for name in names]
    lines = run(sys.executable, HERE / "torch_times.py", *words).splitlines()
    return {name: json.loads(line)["us"] for name, line in zip(names, lines, strict=True)}


def beside_peers(options, work):
    target = options.target or find_target()
    if not target:
        print("no CUDA device here: skipped")
        return
    numbers = convolution_numbers()
    groups = [(title, wanted, [n for n in names if not options.name or any(part in n for part in options.name)]) for title, wanted, names in GROUPS]
    names = [name for _, _, group in groups for name in group]
    print(f"{target}; {'default schedules' if not options.seconds else f'{options.seconds} s of search each'}", flush=True)
    modules = {}
    with ThreadPoolExecutor(1 if options.seconds else os.cpu_count()) as pool:
        for name, made in [(name, pool.submit(make, name, target, options.seconds, work)) for name in names]:
            try:
                modules[name] = made.result()
            except RuntimeError as error:
                print(f"{name}: {error}")
    timed = [name for name in names if name in modules]
    others = peer_times([*timed, f"copy:{COPIED_MIB}"], numbers) if options.peers else {}
    ours = {name: json.loads(run(program("tests/bench/bench-device"), modules[name])) for name in timed}
    for title, wanted, group in groups:
        ratios = []
        for name in [n for n in group if n in ours]:
            us = ours[name]["run_us" if title == "networks" else "kernels_us"]
            other = others.get(name)
            line = f"  {name:<28}{us:>10.1f} us" + ("" if ours[name]["same"] else "  OTHER VALUES than with copies")
            if other and title == "bandwidth":
                copied = others[f"copy:{COPIED_MIB}"] * moved_bytes(name, numbers) / (2 * COPIED_MIB * 2**20)
                line += f"  PyTorch {other:8.1f}  as a copy {copied:8.1f}"
                ratios.append(copied / us)
            elif other:
                line += f"  PyTorch {other:8.1f}"
                ratios.append(other / us)
            print(line + (f"  {ratios[-1]:5.2f}" if ratios else ""), flush=True)
        if ratios:
            print(f"{title}: {statistics.geometric_mean(ratios):.2f} (wanted {wanted})", flush=True)


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=0, metavar="S", help="of search for each; 0: default schedules")
    parser.add_argument("--target", help="what to compile for (the device that doctor finds)")
    parser.add_argument("--name", action="append", metavar="TEXT", help="only entries with such a text in their name")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="bench-device", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peers", action="store_true", help="also PyTorch, where this Python has it")
    add_options(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        beside_peers(arguments.parse_args(), pathlib.Path(temporary))
