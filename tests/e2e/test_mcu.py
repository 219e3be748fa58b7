#!/usr/bin/env python3
"""Microcontrollers: networks as libraries of C, and a Cortex-M under qemu-system-arm as a board of the fleet."""
import contextlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import zlib

import harness
from harness import until

DIGITS = pathlib.Path(__file__).parents[2] / "examples/digits/digits.onnx"
MACHINES = {  # target, memory for candidates, ticks a second (deploy/monitor/meson.build)
    "mps2-an386": ("cortex-m4", 0x21000000, 25000000),
    "mps2-an500": ("cortex-m7", 0x60000000, 25000000),
    "mps3-an547": ("cortex-m55", 0x60000000, 32000000),
}
HELLO, READ, WRITE, COPY, CALL, FIND, RESET = range(1, 8)  # deploy/monitor/frames.def
OK, REFUSED, FAULT, STOPPED = range(4)
ARDUINO = """#pragma once
#include <stdio.h>
#include <stdlib.h>
struct Line { void begin(long) {} void print(const char *t) { fputs(t, stdout); } void print(unsigned long n) { printf("%lu", n); }
              void println(const char *t) { puts(t); } };
static Line Serial;
static unsigned long micros() { static unsigned long n; return n += 7; }
static void delay(int) { exit(0); }
"""


def need(program):
    found = shutil.which(program)
    if not found:
        raise harness.Skip(program)
    return found


def done(world, *argv, cwd=None):
    return subprocess.run(list(map(str, argv)), cwd=cwd or world.folder, check=True, capture_output=True, text=True, timeout=harness.DEADLINE_S).stdout


class Microcontroller:
    """One under qemu, with the monitor in its flash, and a line that only one end at a time has."""

    def __init__(self, world, machine):
        self.line = world.path("line")
        image = harness.PROGRAMS / f"deploy/monitor/kiln-monitor-{machine}.elf"
        if not image.exists():
            raise harness.Skip("the monitor (clang-19, lld-19)")
        self.child = world.start(need("qemu-system-arm"), "-machine", machine, "-icount", "shift=0", "-display", "none", "-monitor", "none",
                                 "-chardev", f"socket,id=line,path={self.line},server=on,wait=off", "-serial", "chardev:line", "-kernel", image)
        until(lambda: os.path.exists(self.line), "the line")
        os.chmod(self.line, 0o666)
        for folder in (world.folder, world.folder.parent):
            os.chmod(folder, os.stat(folder).st_mode | 0o055)


class Line:
    """A host's end of it, by hand."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(harness.DEADLINE_S)
        self.socket.connect(path)
        self.number = 0

    def send(self, kind, body=b""):
        self.number = self.number + 1 & 255
        covered = struct.pack("<BBI", kind, self.number, len(body)) + body
        self.socket.sendall(b"Kl" + covered + struct.pack("<I", zlib.crc32(covered)))

    def read(self, count):
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data)) or sys.exit("the line ended")
        return data

    def receive(self):
        head = self.read(8)
        kind, number, size = struct.unpack("<BBI", head[2:])
        body = self.read(size)
        assert zlib.crc32(head[2:] + body) == struct.unpack("<I", self.read(4))[0]
        assert number == self.number and kind & 0x80
        return body

    def ask(self, kind, body=b""):
        self.send(kind, body)
        return self.receive()

    def load(self, at, code):
        assert self.ask(WRITE, struct.pack("<I", at) + bytes.fromhex(code)) == struct.pack("<I", OK)

    def call(self, at, *arguments):
        """Status, result, ticks, fault status, fault address."""
        return struct.unpack("<IiQII", self.ask(CALL, struct.pack(f"<III{len(arguments)}I", at + 1, at + 0x1000, len(arguments), *arguments)))


def answers(line):
    try:
        return len(line.ask(HELLO)) == 20 + 2 * 96
    except TimeoutError:
        return False


# Code that leaves the processor as nobody else wants it and is refused, and code that returns 42 if nothing of it is left: rounding to zero;
# on a Cortex-M55, a loop over the last lanes of vectors (dlstp.32), and a vector whose last lane is read.
LEFT = {"": [("4ff44000" "e1ee100a" "00de", "f1ee100a" "20f48020" "2a30" "7047")],
        "cortex-m55": [("4ff0010e" "2ef001e0" "00de", "10b5" "2a20" "4ff0000e" "a0ee100b" "31ee100b" "10bd")]}


def check_monitor(world, machine):
    mcu = Microcontroller(world, machine)
    target, begin, tick_hz = MACHINES[machine]
    with contextlib.closing(Line(mcu.line).socket):  # who connects and goes leaves nothing behind
        pass
    line = Line(mcu.line)
    status, version, memory, size, hz = struct.unpack("<5I", line.ask(HELLO)[:20])
    assert (status, version, memory, hz) == (OK, 1, begin, tick_hz) and size > 15 << 20
    assert target.encode() + b",emulated\0" in line.ask(HELLO)
    # Memory: what is written is read and copied; nothing outside of it.
    line.load(begin, "00112233445566")
    assert line.ask(COPY, struct.pack("<III", begin + 0x100, begin + 1, 5)) == bytes(4)
    assert line.ask(READ, struct.pack("<II", begin + 0x100, 5)) == bytes(4) + bytes.fromhex("1122334455")
    for address, count in ((0, 4), (0x20000000, 4), (begin - 1, 4), (begin + size - 3, 4), (begin, 0xffffffff)):
        assert line.ask(READ, struct.pack("<II", address, count)) == struct.pack("<I", REFUSED), hex(address)
    assert line.ask(42) == struct.pack("<I", REFUSED)
    assert line.ask(FIND, b"memcpy")[4:] != bytes(4) and line.ask(FIND, b"memcp")[4:] == bytes(4) == line.ask(FIND, b"memcpyy")[4:]
    # Code: it returns (mov r0, #42; bx lr), and what it takes is counted: a loop of 0x30000 times two instructions.
    line.load(begin, "2a207047")
    assert line.call(begin)[:2] == (OK, 42)
    line.load(begin, "4ff44030" "0138" "fdd1" "7047")
    status, _, ticks, _, _ = line.call(begin)
    assert status == OK and abs(ticks * 1e9 / tick_hz - 2 * 0x30000) < 400, ticks
    # What the processor refuses ends it, with the address: the monitor's memory, the processor's control registers, an undefined
    # instruction, a stack that is none.
    for code, where in (("4ff00050" "0068" "7047", 4), ("4ff0e020" "c069" "7047", 4), ("00de" "7047", 0), ("0020" "8546" "01b4" "7047", None)):
        line.load(begin, code)
        status, _, _, fault, address = line.call(begin)
        assert status == FAULT and fault and (where is None or address == begin + where), (code, status, hex(address))
    for leaves, works in LEFT[""] + LEFT.get(target, []):
        line.load(begin, leaves)
        assert line.call(begin)[0] == FAULT
        line.load(begin, works)
        assert line.call(begin)[:2] == (OK, 42), works
    # One that never returns and masks interrupts is stopped by a byte.
    line.load(begin, "72b6" "fee7")
    line.send(CALL, struct.pack("<III", begin + 1, begin + 0x1000, 0))
    line.socket.sendall(b"x")
    assert struct.unpack("<I", line.receive()[:4])[0] == STOPPED
    assert line.ask(RESET) == bytes(4)
    line.socket.settimeout(0.2)
    until(lambda: answers(line), "the monitor's answer after a reset")  # which loses what comes meanwhile


def test_a_cortex_m7_contains_hostile_candidates(world):
    check_monitor(world, "mps2-an500")


def test_a_cortex_m4_contains_hostile_candidates(world):
    check_monitor(world, "mps2-an386")


def test_a_cortex_m55_contains_hostile_candidates(world):
    check_monitor(world, "mps3-an547")


def board_of(world, mcu, address, *options):
    world.env["KILN_LINE"] = mcu.line
    return world.board(address, "--executor", "line", *options, key="mcu")


def check_board(world, machine, instruction):
    """Tunes products of bytes, which the instruction multiplies; a record's whole output was compared with that of the unscheduled program on
    this machine. With more trials products of floats, too."""
    mcu = Microcontroller(world, machine)
    target, _, tick_hz = MACHINES[machine]
    _, address = world.tracker()
    board_of(world, mcu, address)
    world.tuner(address)
    [row] = world.json("fleet", "list", "--tracker", address)
    assert f",mcpu={target},emulated" in row["target"] and "counting instructions" in row["device"], row
    floats, quantised, more = world.zoo("gemm:4x8x16"), world.path("quantised.onnx"), "KILN_MCU" in os.environ
    world.run("quantize", floats, "--synthetic", 1, "-o", quantised)
    traces = ""
    for model in (quantised, floats) if more else (quantised,):
        end = world.json("tune", model, "--target", target, "--trials", 8 if more else 2, "--tracker", address, "--db", world.path("client.db"))[-1]
        assert end["event"] == "done" and all(task["best_ms"] > 0 for task in end["tasks"]), end
        traces += "".join(task["trace"] for task in end["tasks"])
    assert f'"{instruction}"' in traces, traces
    rows = world.sql("client.db", "select outcome, blame, checked, target, median_ns from record")
    assert rows and all(row[:3] == ["ok", "none", "1"] for row in rows), rows
    assert all(row[3].endswith(",emulated") and float(row[4]) >= 1e9 / tick_hz for row in rows), rows


def test_a_cortex_m7_is_a_board_and_multiplies_bytes_in_pairs(world):
    check_board(world, "mps2-an500", "smlad")


def test_a_cortex_m55_is_a_board_and_multiplies_bytes_in_whole_vectors(world):
    check_board(world, "mps3-an547", "vmlava.s8")


def test_a_line_without_a_monitor_is_refused_by_name(world):
    _, address = world.tracker()
    refused = lambda says: world.refused("--tracker", address, "--executor", "line", "--state", world.path("state"), name="kiln-rpc-server", says=says)
    refused("KILN_LINE does not name the serial line")
    world.env["KILN_LINE"] = "/nowhere"  # a child of another user looks for it, which may not look into this test's folder
    refused("/nowhere: No such file or directory")


def test_a_library_is_taken_by_arduino_and_cmake(world):
    out = pathlib.Path(world.path("net-1"))
    world.run("compile", DIGITS, "--emit", "library", "--target", "cortex-m4", "--db", "none", "-o", out)
    files = {str(f.relative_to(out)) for f in out.rglob("*") if f.is_file()}
    assert files == {"library.properties", "CMakeLists.txt", "zephyr/module.yml", "src/net_1.c", "src/net_1.h", "examples/net_1/net_1.ino"}, files
    properties = dict(line.split("=", 1) for line in (out / "library.properties").read_text().splitlines())
    assert properties["name"] == "net_1" and properties["includes"] == "net_1.h" and properties["version"] == "1.0.0"
    pathlib.Path(world.path("Arduino.h")).write_text(ARDUINO)
    done(world, "gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", out / "src/net_1.c", "-o", "net.o")
    done(world, "g++", "-std=c++11", "-Wall", "-Wextra", "-include", "Arduino.h", "-I", out / "src", "-x", "c++", "-c", out / "examples/net_1/net_1.ino", "-o", "sketch.o")
    pathlib.Path(world.path("main.cc")).write_text("void setup(); void loop(); int main() { setup(); for (;;) loop(); }\n")
    done(world, "g++", "main.cc", "sketch.o", "net.o", "-o", "sketch")
    assert done(world, "./sketch") == "done in 7 us\n"
    if shutil.which("cmake"):
        done(world, "cmake", "-S", out, "-B", "built")
        done(world, "cmake", "--build", "built")
        assert pathlib.Path(world.path("built/libnet_1.a")).exists()
    # Again, over what is there; but not over a file, and a model that cannot be read leaves nothing.
    world.run("compile", DIGITS, "--emit", "library", "--db", "none", "-o", out)
    pathlib.Path(world.path("file")).write_text("mine")
    world.refused("compile", DIGITS, "--emit", "library", "--db", "none", "-o", world.path("file"), says="file: File exists")
    world.refused("compile", world.path("no.onnx"), "--emit", "library", "--db", "none", "-o", world.path("none"), says="no.onnx")
    assert not os.path.exists(world.path("none"))


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
