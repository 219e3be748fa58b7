"""What NVIDIA's matmul heuristic predicts, without a GPU: python matmul_heuristic.py TARGET:DTYPE:MxNxK... prints a line of JSON for each.

Runs in the environment of peers_gpu.txt (the part `heuristic` of bench_gpu.py starts it). A prediction of the best of its configurations, by its own
timing model; operands of DTYPE, sums and results in f32. Beside the seconds of the whole stand those of its terms: a launch and what waits there,
computing, loads and stores, and the bytes that it loads from memory. Its time is launch + the larger of computing and loads + stores."""
import ctypes
import json
import sys

import nvMatmulHeuristics as vendor
from nvMatmulHeuristics.nvMatmulHeuristics import NvMatmulHeuristicsSiliconMetric as Metric

GPUS = {"a100": vendor.NvMatmulHeuristicsNvidiaGpu.A100_SXM_80GB, "h200": vendor.NvMatmulHeuristicsNvidiaGpu.H200_SXM}
PRECISIONS = {"f16": "HSS", "f32": "SSS"}
CONFIGURATIONS = 8
TERMS = {"launch": Metric.STATIC_LATENCIES_S, "compute": Metric.COMPUTE_S, "load": Metric.LOAD_S, "store": Metric.STORE_S,
         "loaded_bytes": Metric.GMEM_LOAD_BYTES}


def predicted(target, dtype, m, n, k):
    interface = vendor.NvMatmulHeuristicsInterfaceEx(flags=vendor.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING, gpu=GPUS[target])
    problem = interface.makeNvMatmulHeuristicsProblem(m, n, k, vendor.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR)
    best = min(interface.get(problem, CONFIGURATIONS, precision=PRECISIONS[dtype]), key=lambda found: found["runtime"])
    backend = interface.createBackend(interface.target)  # the wrapper's own call passes the target in its place, which is no pointer

    def term(metric):
        return interface.nvMatmulHeuristicsEstimateSiliconMetricEx(
            interface.handle, PRECISIONS[dtype].encode(), backend, ctypes.byref(problem), ctypes.byref(best["nvmmhKernelConfiguration"]),
            ctypes.c_int(metric), interface.hardware_descriptor)

    terms = {name: term(metric) for name, metric in TERMS.items()}
    interface.destroyBackend(backend)
    return {"seconds": best["runtime"], **terms, "kernel": str(best["kernel"])}


for word in sys.argv[1:]:
    target, dtype, shape = word.split(":")
    print(json.dumps(predicted(target, dtype, *map(int, shape.split("x")))), flush=True)
