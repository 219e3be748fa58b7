"""One peer in a process of its own, in the private environment of peers.txt: loads a model, then answers lines on stdin.

    peer.py NAME MODEL INPUT.npy THREADS PRECISION

    run FILE      writes the output as .npy
    time SECONDS  prints {"median_ms", "min_ms", "runs"}
    kernels       prints {name: microseconds}, minimum of several runs, by the peer's own profiler; without conversions of layouts

PRECISION is what the peer may compute with: f32, bf16, or int8, of a model that is quantised. A model that the peer cannot
convert or load is its first answer, {"error": why}, and the end."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy


class OnnxRuntime:
    def __init__(self, model, data, threads, precision, profile=False):
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
    def __init__(self, model, data, threads, precision, profile=False):
        import openvino
        self.compiled = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            "ENABLE_CPU_PINNING": False, "PERF_COUNT": profile})
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


def convert(*argv):
    """A converter of the environment; what it says goes nowhere unless it fails."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{pathlib.Path(argv[0]).name}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


class Ncnn:
    def __init__(self, model, data, threads, precision):
        import importlib.util

        import ncnn
        model = pathlib.Path(model)
        pnnx = pathlib.Path(importlib.util.find_spec("pnnx").origin).parent / "pnnx"  # the package needs torch, its program does not
        shape = f"[{','.join(map(str, data.shape))}]" + ("i64" if data.dtype == numpy.int64 else "f32")
        convert(pnnx, model, f"inputshape={shape}", "fp16=0")
        self.net, option = ncnn.Net(), None
        option = self.net.opt
        option.num_threads, option.use_vulkan_compute = threads, False
        option.use_fp16_storage = option.use_fp16_packed = option.use_fp16_arithmetic = False
        option.use_bf16_storage = precision == "bf16"
        if self.net.load_param(str(model.with_suffix(".ncnn.param"))) or self.net.load_model(str(model.with_suffix(".ncnn.bin"))):
            raise RuntimeError("the converted model does not load")
        data = data.astype(numpy.int32) if data.dtype == numpy.int64 else data
        self.data = ncnn.Mat(numpy.ascontiguousarray(data[0] if data.shape[0] == 1 else data)).clone()  # without a batch of one

    def run(self):
        extractor = self.net.create_extractor()
        extractor.input(self.net.input_names()[0], self.data)
        return numpy.array(extractor.extract(self.net.output_names()[0])[1])


class Mnn:
    def __init__(self, model, data, threads, precision):
        import onnxruntime
        from MNN import expr, nn
        made = str(pathlib.Path(model).with_suffix(".mnn"))
        convert(pathlib.Path(sys.executable).parent / "mnnconvert", "-f", "ONNX", "--modelFile", model, "--MNNModel", made, "--bizCode", "bench", "--useOriginRNNImpl")
        names = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        manager = nn.create_runtime_manager(({"backend": "CPU", "numThread": threads, "precision": {"bf16": "low_bf16"}.get(precision, "high")},))
        self.net = nn.load_module_from_file(made, [names.get_inputs()[0].name], [names.get_outputs()[0].name], runtime_manager=manager)
        tokens = data.dtype == numpy.int64
        self.data = expr.placeholder(list(data.shape), expr.NCHW, expr.int if tokens else expr.float)
        self.data.write(data.astype(numpy.int32) if tokens else data)
        self.expr = expr

    def run(self):
        result = self.net.forward([self.data])[0]
        result.read()
        return self.expr.convert(result, self.expr.NCHW).read()


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "ncnn": Ncnn, "mnn": Mnn}


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


def main(name, model, data, threads, precision):
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what libraries print on stdout is no answer
    os.dup2(2, 1)
    data, threads = numpy.load(data), int(threads)
    try:
        peer = PEERS[name](model, data, threads, precision)
        peer.run()
    except Exception as error:  # of any library
        print(json.dumps({"error": str(error)}), file=answers)
        return
    print("{}", file=answers)
    for line in sys.stdin:
        word, *rest = line.split()
        answer = {}
        if word == "run":
            numpy.save(rest[0], peer.run())
        elif word == "time":
            answer = times(peer.run, float(rest[0]))
        elif word == "kernels":
            answer = kernel_times(PEERS[name](model, data, threads, precision, profile=True))
        print(json.dumps(answer), file=answers)


main(*sys.argv[1:])
