"""Kernels in OpenCL C on PoCL, a driver that runs them on this machine's processor: beside Kiln's own code for that processor, and
beside CLBlast. Schedules are the defaults, so nothing is searched; times are of a device that is emulated, so none is one of a GPU."""
import os
import re

import kiln
import peers

CONVOLUTIONS = [f"conv:C{i}" for i in range(1, 13)]
PRODUCTS = [f"gemm:{n}x{n}x{n}" for n in (256, 512, 1024)]
SIZES = (256, 512, 1024, 2048)  # of CLBlast
WANTED = 1.3  # times Kiln's own code, at most, in the geometric mean


def device():
    """The target of the first OpenCL device that is a processor; None, and a line why, where there is none."""
    found = next((e["found"] for e in kiln.lines("doctor") if e["event"] == "check" and e["what"] == "opencl"), "the doctor says nothing")
    target = re.search(r" as (opencl:[^ ;]*,emulated)", found)
    if not target:
        print(f"no device of OpenCL that is a processor ({found}): install pocl-opencl-icd", flush=True)
    return target and target[1]


def cores_of(target):
    units = re.search(r",units=(\d+)", target)
    return sorted(os.sched_getaffinity(0))[:int(units[1]) if units else 1]


def least(module, cores, threads=None):
    """(of the kernels of tasks together, of the whole), us; a device's driver takes cores itself, a module its threads."""
    words = ["--threads", threads] if threads else []
    event = kiln.event(kiln.lines("run", module, "--bench", *words, cores=cores), "bench")
    return sum(kernel["min_ms"] for kernel in event["kernels"]) * 1e3, event["min_ms"] * 1e3


def compiled(name, target, work, label):
    model = kiln.zoo(name, work / f"{name.replace(':', '_')}.onnx")
    module = work / f"{name.replace(':', '_')}-{label}.kiln"
    kiln.lines("compile", model, "--target", target, "--db", "none", "-o", module)
    return module


def beside_own_code(options, work):
    target = device()
    if not target:
        return
    if options.cores:
        os.environ["POCL_MAX_PTHREAD_COUNT"] = str(options.cores)
        target = re.sub(r",units=\d+", f",units={options.cores}", target)
    cores = cores_of(target)
    print(f"pocl: default schedules by the rules for processors, as OpenCL C on PoCL and as Kiln's own code, on the same {len(cores)} cores in turns,\n"
          f"least of {options.rounds} rounds, us; a ratio is PoCL's time over that of Kiln's own code;\n"
          f"its kernels by its own events, which have no part of the host's waiting; the whole by the host's clock, with copies in and out\n"
          f"{'':<20}{'PoCL':>10}{'own':>10}{'ratio':>7}{'whole':>10}{'own':>10}{'ratio':>7}")
    ratios, whole = [], []
    for name in options.workload or CONVOLUTIONS + PRODUCTS:
        there = compiled(name, target, work, "pocl")
        here = compiled(name, f"native,threads={len(cores)}", work, "own")
        rounds = [(least(there, cores), least(here, cores, len(cores))) for _ in range(options.rounds)]
        best = [min(r[side][what] for r in rounds) for what in (0, 1) for side in (0, 1)]
        ratios.append(best[0] / best[1])
        whole.append(best[2] / best[3])
        print(f"{name:<20}{best[0]:>10.1f}{best[1]:>10.1f}{ratios[-1]:>7.2f}{best[2]:>10.1f}{best[3]:>10.1f}{whole[-1]:>7.2f}", flush=True)
    for what, of in (("kernels", ratios), ("whole modules", whole)):
        print(f"{what}: geometric mean {peers.geomean(of):.2f} (wanted at most {WANTED}), highest {max(of):.2f}, lowest {min(of):.2f}, of {len(of)}")


def beside_clblast(options, work):
    if not options.peers:
        print("clblast: skipped without --peers")
        return
    target = device()
    if not target:
        return
    try:
        library = peers.Library("clblast", "clblast", work, ["-lclblast", "-lOpenCL"])
    except SystemExit as missing:
        print(f"clblast: skipped: {str(missing).splitlines()[0]} (libclblast-dev)")
        return
    cores = cores_of(target)
    print(f"clblast: fp32 products on PoCL, {len(cores)} cores, in turns, least of {options.rounds} rounds, us: CLBlast as packaged, Kiln's default schedules\n"
          f"{'':<20}{'CLBlast':>10}{'Kiln':>10}{'faster':>7}")
    for size in SIZES:
        module = compiled(f"gemm:{size}x{size}x{size}", target, work, "pocl")
        times = [(library.time_us([size, size, size], cores), least(module, cores)[1]) for _ in range(options.rounds)]
        theirs, ours = (min(t[side] for t in times) for side in (0, 1))
        print(f"{f'gemm {size}':<20}{theirs:>10.1f}{ours:>10.1f}{theirs / ours:>7.2f}", flush=True)
