"""arm [CONV...] [--target rpi4]: the inner loops of default schedules for a core that is not here, then of quantised convolutions
on a core with integer dot products

Counted in the assembly: the loop with the most multiply-adds, their share of its instructions, operands on the stack. What
llvm-mca-19 makes of it for the same core: multiply-adds of a vector per cycle, caches not modelled. A proxy: nothing runs."""
import re
import subprocess
import sys

import kiln

CORES = {"rpi3": "cortex-a53", "rpi4": "cortex-a72", "rpi5": "cortex-a76"}
ITERATIONS = 100
MULTIPLY_ADD = re.compile(r"\t(fmla\t\S+\.4s|[su]+dot\t)")
QUANTISED = "rpi5"
STACK = re.compile(r"\[sp\b")
ENDS = re.compile(r"\t(b|b\.\w+|cbn?z|tbn?z|ret|br)\t")


def add_options(parser):
    parser.add_argument("convs", nargs="*", metavar="CONV", default=["C2", "C6", "C9"])
    parser.add_argument("--target", choices=list(CORES), default="rpi4")


def instructions(assembly):
    """The basic blocks, each a list of lines."""
    block = []
    for line in assembly.splitlines():
        if line and not line.startswith(("\t", "#", "//")):  # a label
            yield block
            block = []
        elif line.startswith("\t") and not line.startswith("\t."):
            block.append(line)
            if ENDS.match(line):
                yield block
                block = []
    yield block


def fused_in(block):
    return sum(bool(MULTIPLY_ADD.match(line)) for line in block)


def cycles(block, core):
    done = subprocess.run(["llvm-mca-19", "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={ITERATIONS}"],
                          input="\n".join(block), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"llvm-mca-19: {done.stderr}")
    return int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]) / ITERATIONS


def print_row(name, target, work):
    model = kiln.zoo(name, work / "m.onnx")
    assembly = subprocess.run([kiln.KILN, "explain", model, "--stage", "asm", "--task", "0", "--target", target],
                              capture_output=True, text=True, check=True).stdout
    block = max(instructions(assembly), key=fused_in)
    fused = fused_in(block)
    stack = sum(bool(STACK.search(line)) for line in block)
    print(f"{name:<10}{len(block):>14}{fused:>15}{fused / len(block):>8.3f}{stack:>14}{fused / cycles(block, CORES[target]):>15.3f}",
          flush=True)


def run(options, work):
    for kind, target in (("conv", options.target), ("qconv", QUANTISED)):
        print(f"default schedules for {target} ({CORES[target]}): the inner loop")
        print(f"{kind:<10}{'instructions':>14}{'multiply-adds':>15}{'share':>8}{'on the stack':>14}{'a cycle (mca)':>15}")
        for name in options.convs:
            print_row(f"{kind}:{name}", target, work)
