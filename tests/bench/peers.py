"""The peers: programs in C against Debian's libraries and oneDNN 3, and networks in the private environment of peers.txt."""
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PYTHON = os.environ.get("KILN_PEERS", "")  # the private environment's interpreter
NETWORK_PEERS = {  # what each precision is compared with
    "f32": ("onnxruntime", "openvino", "ncnn", "mnn"), "int8": ("onnxruntime", "openvino"), "bf16": ("openvino", "ncnn", "mnn"),
}
OPERATOR_PEERS = ("onnxruntime", "openvino")  # with a profiler that tells kernels apart


class Absent(Exception):
    """A peer cannot run a model; says why."""


class Peer:
    """A peer that has a model loaded, pinned to `cores`; idle until asked. Raises Absent."""

    def __init__(self, name, model, data, cores, precision="f32"):
        if not PYTHON:
            sys.exit("without its peers this benchmark says nothing: add --peers")
        self.name = name
        self.process = subprocess.Popen([PYTHON, HERE / "peer.py", name, model, data, str(len(cores)), precision], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        try:
            self.read()
        except Absent:
            self.close()
            raise

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Absent(f"{self.name} ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Absent(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Library:
    """A peer in C: the program SOURCE.c and what they share, linked with one library."""

    def __init__(self, source, name, work, flags, variables=None):
        self.name, self.program, self.variables = name, work / f"{source}-{name}", variables or {}
        done = subprocess.run(["cc", "-O2", f"-I{HERE.parent.parent}", HERE / f"{source}.c", HERE / "peer_times.c", "-o", self.program, *flags], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"the peer {name} does not build; its development package is missing\n{done.stderr}")

    def time_us(self, words, cores):
        """Its least time; raises Absent where the library has nothing for that."""
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **self.variables},
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if done.returncode:
            raise Absent(f"{self.name}: {done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[-1])["min_us"]


def debian_onednn(work):
    return Library("onednn", "dnnl2", work, ["-ldnnl"])


def newest_onednn(work):
    """oneDNN 3 runs on SYCL's device for processors, which its run-time has to be told of."""
    root = pathlib.Path(PYTHON).parent.parent
    return Library("onednn", "dnnl3", work, [f"-I{root}/include", f"-L{root}/lib", "-ldnnl", f"-Wl,-rpath,{root}/lib", "-Wl,--disable-new-dtags",
                                             "-Wl,--allow-shlib-undefined"],
                   {"OCL_ICD_FILENAMES": f"{root}/lib/libintelocl.so", "DPCPP_CPU_NUM_CUS": "1", "TBB_NUM_THREADS": "1"})


def openblas(work):
    return Library("openblas_gemm", "openblas", work, ["-lopenblas"])


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))
