#!/usr/bin/env python3
"""Writes down what the programs of a version say to each other: tests/golden/captures/VERSION-ROLE.txt.

    capture.py BUILD-FOLDER VERSION

A board, a tuner and a client work on one small job; each speaks to the tracker through a relay that notes every
frame as a line: `>` to the tracker or `<` from it, and the frame in hexadecimal. tests/unit/proto/test_captures.c
replays them. Run once per protocol version, with the programs of its release; captures are never written again."""
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROLES = {"board": 1, "tuner": 2, "client": 3}
HEADER = struct.Struct("<IBBHII")


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self):
        self.bytes = b""

    def take(self, more):
        self.bytes += more
        while len(self.bytes) >= HEADER.size:
            size = HEADER.size + HEADER.unpack_from(self.bytes)[5]
            if len(self.bytes) < size:
                return
            yield self.bytes[:size]
            self.bytes = self.bytes[size:]


def in_plain(hello):
    """HELLO without what its sender understands beyond the version: frames stay uncompressed, for builds that cannot do that."""
    at = hello.index(bytes([9, 1, 10, 0xcf]))  # the field before the clock
    magic, kind, flags, zero, stream, size = HEADER.unpack_from(hello)
    return HEADER.pack(magic, kind, flags, zero, stream, size - 2) + bytes([hello[HEADER.size] - 1]) + hello[HEADER.size + 1:at] + hello[at + 2:]


def relay(peer, tracker, lines):
    """Passes frames on until one side closes."""
    sides = {peer: (tracker, ">", Frames()), tracker: (peer, "<", Frames())}
    while True:
        for side in select.select(list(sides), [], [])[0]:
            other, mark, frames = sides[side]
            data = side.recv(65536)
            if not data:
                return other.close()
            for frame in frames.take(data):
                frame = in_plain(frame) if frame[4] == 1 else frame
                lines.append(f"{mark} {frame.hex()}")
                other.sendall(frame)


def serve(path, tracker_path, lines):
    """A relay for the first connection to `path`; a program that tries again gets a new one."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        peer, _ = listener.accept()
        tracker = socket.socket(socket.AF_UNIX)
        tracker.connect(tracker_path)
        relay(peer, tracker, lines)


def main(build, version):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-capture-"))
    env = {**os.environ, "KILN_HOME": str(folder / "home")}
    program = lambda name: {"kiln": f"{build}/cli/kiln"}.get(name, f"{build}/{name.removeprefix('kiln-')}/{name}")
    at = lambda name: str(folder / name)
    lines = {role: [] for role in ROLES}
    for role in ROLES:
        threading.Thread(target=serve, args=(at(role), at("tracker"), lines[role]), daemon=True).start()
    children = [subprocess.Popen([program("kiln-tracker"), "--listen", f"unix:{at('tracker')}", "--state", at("state")], env=env)]
    while not os.path.exists(at("tracker")):
        time.sleep(0.01)
    children.append(subprocess.Popen([program("kiln-rpc-server"), "--tracker", f"unix:{at('board')}", "--key", "shelf"], env=env))
    children.append(subprocess.Popen([program("kiln-tuner"), "--tracker", f"unix:{at('tuner')}", "--db", at("t.db"), "--builders", "1"],
                                     env=env))
    subprocess.run([program("kiln"), "zoo", "gemm:8x8x8", "-o", at("gemm.onnx")], env=env, check=True)
    subprocess.run([program("kiln"), "tune", at("gemm.onnx"), "--trials", "2", "--search", "random", "--tracker", f"unix:{at('client')}",
                    "--db", at("c.db")], env=env, check=True, stdout=subprocess.DEVNULL)
    for child in reversed(children):
        child.terminate()
        child.wait()
    out = pathlib.Path(__file__).resolve().parents[1] / "golden/captures"
    for role, said in lines.items():
        (out / f"{version}-{role}.txt").write_text("\n".join(said) + "\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
