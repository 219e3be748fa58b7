"""One peer in a process of its own, in the private environment of peers.txt: loads a model, then answers lines on stdin.

    peer.py NAME MODEL INPUT.npy THREADS

    run FILE      writes the output as .npy
    time SECONDS  prints {"median_ms", "min_ms", "runs"}
    kernels       prints {name: microseconds}, minimum of several runs, by the peer's own profiler; without conversions of layouts"""
import collections
import json
import sys
import time

import numpy


class OnnxRuntime:
    def __init__(self, model, data, threads, profile=False):
        import onnxruntime
        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.enable_profiling = profile
        options.profile_file_prefix = model
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.feed = {self.session.get_inputs()[0].name: data}

    def run(self):
        return self.session.run(None, self.feed)[0]

    def kernels(self):
        with open(self.session.end_profiling(), encoding="utf-8") as file:
            for e in json.load(file):
                if e["name"].endswith("_kernel_time") and not e["args"]["op_name"].startswith("Reorder"):
                    yield e["name"].removesuffix("_kernel_time"), e["dur"]


class OpenVino:
    def __init__(self, model, data, threads, profile=False):
        import openvino
        self.compiled = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False,
            "PERF_COUNT": profile})
        self.request = self.compiled.create_infer_request()
        self.request.set_tensor(self.compiled.inputs[0], openvino.Tensor(data))
        self.profile, self.seen = profile, []

    def run(self):
        self.request.infer()
        if self.profile:
            self.seen += [(p.node_name, p.real_time.total_seconds() * 1e6) for p in self.request.get_profiling_info()
                          if str(p.status).endswith("EXECUTED") and p.node_type != "Reorder"]
        return self.request.get_output_tensor(0).data

    def kernels(self):
        return self.seen


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


def times(run, seconds):
    for _ in range(3):
        run()
    taken, end = [], time.perf_counter() + seconds
    while len(taken) < 7 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append((time.perf_counter() - start) * 1e3)
    taken.sort()
    return {"median_ms": taken[len(taken) // 2], "min_ms": taken[0], "runs": len(taken)}


def kernel_times(peer):
    least = collections.OrderedDict()
    for _ in range(20):
        peer.run()
    for name, us in peer.kernels():
        least[name] = min(us, least.get(name, us))
    return least


def main(name, model, data, threads):
    data, threads = numpy.load(data), int(threads)
    peer = PEERS[name](model, data, threads)
    print("{}", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        answer = {}
        if word == "run":
            numpy.save(rest[0], peer.run())
        elif word == "time":
            answer = times(peer.run, float(rest[0]))
        elif word == "kernels":
            answer = kernel_times(PEERS[name](model, data, threads, profile=True))
        print(json.dumps(answer), flush=True)


main(*sys.argv[1:])
