"""What NVIDIA's matmul heuristic predicts, without a GPU: python matmul_heuristic.py TARGET:DTYPE:MxNxK... prints a line of JSON for each.

Runs in the environment of peers_gpu.txt (the part `heuristic` of bench_gpu.py starts it). A prediction of the best of its configurations, by its own
timing model; operands of DTYPE, sums and results in f32."""
import json
import sys

import nvMatmulHeuristics as vendor

GPUS = {"a100": vendor.NvMatmulHeuristicsNvidiaGpu.A100_SXM_80GB, "h200": vendor.NvMatmulHeuristicsNvidiaGpu.H200_SXM}
PRECISIONS = {"f16": "HSS", "f32": "SSS"}
CONFIGURATIONS = 8


def predicted(target, dtype, m, n, k):
    interface = vendor.NvMatmulHeuristicsInterfaceEx(flags=vendor.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING, gpu=GPUS[target])
    problem = interface.makeNvMatmulHeuristicsProblem(m, n, k, vendor.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR)
    best = min(interface.get(problem, CONFIGURATIONS, precision=PRECISIONS[dtype]), key=lambda found: found["runtime"])
    return {"seconds": best["runtime"], "kernel": str(best["kernel"])}


for word in sys.argv[1:]:
    target, dtype, shape = word.split(":")
    print(json.dumps(predicted(target, dtype, *map(int, shape.split("x")))), flush=True)
