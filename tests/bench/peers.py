"""The peers: programs in C against Debian's libraries, and networks in the private environment of peers.txt."""
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PYTHON = os.environ.get("KILN_PEERS", "")  # the private environment's interpreter
NETWORK_PEERS = ("onnxruntime", "openvino")


class Peer:
    """A peer that has a model loaded, pinned to `cores`; idle until asked."""

    def __init__(self, name, model, data, cores):
        if not PYTHON:
            sys.exit("without its peers this benchmark says nothing: add --peers")
        self.name = name
        self.process = subprocess.Popen([PYTHON, HERE / "peer.py", name, model, data, str(len(cores))], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended early")
        return json.loads(line)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def build(name, library, work):
    """A peer in C."""
    program = work / name
    done = subprocess.run(["cc", "-O2", HERE / f"{name}.c", "-o", program, f"-l{library}"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the peer {name} does not build; {library}'s development package is missing\n{done.stderr}")
    return program


def run(program, numbers, cores):
    done = subprocess.run([program, *map(str, numbers)], capture_output=True, text=True, check=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return json.loads(done.stdout)


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))
