"""A host of libkiln's requests in Python: starts `kiln --worker` and hears its events (libkiln/tune/frame.h)."""
import json
import pathlib
import re
import socket
import struct
import subprocess

import harness
import wire

HEADER = pathlib.Path(__file__).resolve().parents[2] / "libkiln/tune/tune.h"
NUMBERS = {name: int(number) for name, number in re.findall(r"KILN_REQUEST_(\w+) = (\d+)", HEADER.read_text())}
RESULT = 4


def text(value):
    return str(value) + "\0"


def read(end, size):
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            raise EOFError("the worker has gone")
        data += part
    return data


def ask(world, what, subject, **settings):
    """(results as objects, code, text of the error) of one request."""
    version = world.run("--version").stdout.split()[1]
    body = wire.pack([text(version), NUMBERS[what], text(subject),
                      [[text(name), True, text(value)] for name, value in settings.items()]])
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([harness.program("kiln"), "--worker"], stdin=theirs, env=world.env, cwd=world.folder, stderr=subprocess.DEVNULL)
    theirs.close()
    try:
        return hear(ours, body)
    finally:
        ours.close()
        child.wait()


def hear(end, body):
    results = []
    end.sendall(struct.pack("=I", len(body)) + body)
    while True:
        [size] = struct.unpack("=I", read(end, 4))
        event = wire.unpack(read(end, size))[0]
        kind, code, said = event[0], event[1], event[2].rstrip("\0")
        if kind == 0:
            return results, code, said
        if kind == RESULT:
            results.append(json.loads(said))
