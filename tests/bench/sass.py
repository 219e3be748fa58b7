"""Machine code of NVIDIA's GPUs: what ptxas says of PTX, and what the hot loop of a function is made of."""
import os
import pathlib
import re
import subprocess

PTXAS = os.environ.get("KILN_PTXAS", "")
NVDISASM = os.environ.get("KILN_NVDISASM", "")
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
LABEL = re.compile(r"^(\.L_x?_?\d+):")
WAIT_SLOTS = 4  # of a loop that waits for a phase of a barrier, at most
TARGET = re.compile(r"`\((\.L_x?_?\d+)\)")


class Refused(Exception):
    """ptxas does not take the text; says why."""


def assemble(ptx, processor, cubin="/dev/null"):
    """What ptxas counts of each entry: {name: {registers, stack, spilled, shared}}, and its notes on lost performance."""
    done = subprocess.run([PTXAS, "-v", "-arch", processor, "-o", cubin, ptx], capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip().splitlines()[0] if done.stderr else f"ptxas ended with {done.returncode}")
    entries, name = {}, None
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            entries.setdefault(name, {}).update(stack=int(found[1]), spilled=int(found[2]) + int(found[3]))
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            entries.setdefault(name, {}).update(registers=int(found[1]), shared=int(shared[1]) if shared else 0)
    return entries, [line.strip() for line in done.stderr.splitlines() if "Performance Loss" in line]


def functions(cubin):
    """The instructions of each function: {name: [(label or None, opcode, operands), ...]}."""
    text = subprocess.run([NVDISASM, "-c", cubin], capture_output=True, text=True, check=True).stdout
    found, label = {}, None
    for line in text.splitlines():
        if start := re.match(r"^\.text\.(\w+):", line):
            code = found.setdefault(start[1], [])
        elif mark := LABEL.match(line):
            label = mark[1]
        elif instruction := INSTRUCTION.match(line):
            code.append((label, instruction[2], instruction[3]))
            label = None
    return found


def hot_loop(code, opcodes):
    """Of the innermost loop with most of `opcodes`: its opcodes, an issue slot each, and those of the loop around it, in which it is
    there once although it runs more often (its own where there is none); [], [] where no loop has one. Loops that only wait for a
    phase of a barrier count as the instructions that they are."""
    at = {label: i for i, (label, _, _) in enumerate(code) if label}
    loops = [(at[target[1]], i) for i, (_, opcode, operands) in enumerate(code)
             if opcode.startswith("BRA") and (target := TARGET.search(operands)) and at.get(target[1], len(code)) <= i]
    slots = lambda loop: [opcode for _, opcode, _ in code[loop[0]:loop[1] + 1] if opcode != "NOP"]  # noqa: E731
    waits = lambda loop: loop[1] - loop[0] < WAIT_SLOTS and any(opcode.startswith("SYNCS.PHASECHK") for opcode in slots(loop))  # noqa: E731
    loops = [loop for loop in loops if not waits(loop)]
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    best = max(inner, key=lambda loop: count(slots(loop), opcodes), default=None)
    if not best or not count(slots(best), opcodes):
        return [], []
    around = [a for a in loops if a != best and a[0] <= best[0] and best[1] <= a[1]]
    return slots(best), slots(min(around, key=lambda loop: loop[1] - loop[0], default=best))


def count(body, opcodes):
    return sum(opcode.split(".")[0] in opcodes for opcode in body)
