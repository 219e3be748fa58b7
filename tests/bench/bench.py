#!/usr/bin/env python3
"""./dev bench NAME: benchmarks of the built programs, each beside its peer in the same run.

    conv [LAYER...] [--trials N] [--peers]   conv:C1..C12: share of peak, default against tuned, trials per second
    random-conv [--count N] [--seed S]       random convolutions (odd sizes, groups, dilation, stride, asymmetric
                                             padding) against oneDNN; needs Debian's libdnnl-dev
Rounds alternate between Kiln and the peer; medians and minima are printed, never judged."""
import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["KILN_BIN"])
KILN = str(BUILD / "cli/kiln")
ROUNDS = 3
LAYERS = {  # IC H W OC KH KW SH SW PT PL PB PR DH DW G, as conv:C1..C12 of kiln zoo
    "C1": (3, 224, 224, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1), "C2": (64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "C3": (64, 56, 56, 64, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1), "C4": (64, 56, 56, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    "C5": (64, 56, 56, 128, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1), "C6": (128, 28, 28, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "C7": (128, 28, 28, 256, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1), "C8": (128, 28, 28, 256, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1),
    "C9": (256, 14, 14, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1), "C10": (256, 14, 14, 512, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1),
    "C11": (256, 14, 14, 512, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1), "C12": (512, 7, 7, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
}


def lines(*argv):
    done = subprocess.run([KILN, *map(str, argv), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"kiln {' '.join(map(str, argv))}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def event(events, name):
    return [e for e in events if e["event"] == name][-1]


def build_peer(work):
    peer = work / "onednn_conv"
    source = pathlib.Path(__file__).parent / "onednn_conv.c"
    done = subprocess.run(["cc", "-O2", str(source), "-o", str(peer), "-ldnnl"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the peer does not build; install libdnnl-dev\n{done.stderr}")
    return peer


def peer_time(peer, shape):
    done = subprocess.run([str(peer), *map(str, shape)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
                          check=True)
    return json.loads(done.stdout)["min_us"]


def kernel_time(module):
    """Minimum over the runs of the convolution's own step, and of the whole module, in us."""
    bench = event(lines("run", module, "--bench"), "bench")
    kernel = max(bench["kernels"], key=lambda k: k["gflops"])
    return kernel["median_ms"] * 1e3, bench["min_ms"] * 1e3, bench["peak_gflops"]


def tune(work, name, trials, seed=0):
    model, module = work / "m.onnx", work / "m.kiln"
    subprocess.run([KILN, "zoo", name, "-o", str(model)], check=True)
    events = lines("tune", model, "--trials", trials, "--db", work / "bench.db", "--out", module, "--seed", seed)
    return event(events, "done"), module


def compare(peer, shape, module):
    ours, whole, theirs = [], [], []
    for _ in range(ROUNDS):
        kernel_us, module_us, _ = kernel_time(module)
        ours.append(kernel_us)
        whole.append(module_us)
        theirs.append(peer_time(peer, shape))
    return statistics.median(ours), statistics.median(whole), statistics.median(theirs)


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def bench_conv(options, work):
    peer = build_peer(work) if options.peers else None
    verified = wall = 0
    print(f"{'layer':<6}{'default ms':>11}{'best ms':>10}{'of peak':>9}{'default/best':>13}{'trials/s':>10}"
          + (f"{'oneDNN us':>11}{'Kiln us':>9}{'ratio':>7}" if peer else ""))
    ratios = []
    for layer in options.layers or LAYERS:
        done, module = tune(work, f"conv:{layer}", options.trials)
        task = done["tasks"][0]
        verified += done["verified"]
        wall += done["wall_s"]
        row = (f"{layer:<6}{task['default_ms']:>11.4f}{task['best_ms']:>10.4f}{task['share_of_peak']:>9.3f}"
               f"{task['best_ms'] / task['default_ms']:>13.2f}{done['trials_per_s']:>10.1f}")
        if peer:
            ours, _, theirs = compare(peer, LAYERS[layer], module)
            ratios.append(theirs / ours)
            row += f"{theirs:>11.1f}{ours:>9.1f}{ratios[-1]:>7.2f}"
        print(row, flush=True)
    print(f"{verified} verified trials in {wall:.1f} s: {verified / wall:.1f} per second"
          + (f"; oneDNN / Kiln {geomean(ratios):.3f} in geometric mean" if peer else ""))


def random_shape(generator):
    while True:
        g = generator.choice([1, 1, 1, 1, 2, 4])
        ic, oc = g * generator.randint(3, 96 // g), g * generator.randint(3, 128 // g)
        kh, kw = generator.choice([1, 3, 3, 3, 5]), generator.choice([1, 3, 3, 3, 5])
        h, w = generator.randint(7, 57), generator.randint(7, 57)
        s, d = generator.choice([1, 1, 2]), generator.choice([1, 1, 1, 2])
        pads = [generator.randint(0, kh // 2 + 1), generator.randint(0, kw // 2 + 1),
                generator.randint(0, kh // 2 + 1), generator.randint(0, kw // 2 + 1)]
        oh = (h + pads[0] + pads[2] - (kh - 1) * d - 1) // s + 1
        ow = (w + pads[1] + pads[3] - (kw - 1) * d - 1) // s + 1
        mac = oc * ic // g * kh * kw * oh * ow
        if oh > 0 and ow > 0 and 2_000_000 < mac < 200_000_000:
            return (ic, h, w, oc, kh, kw, s, s, *pads, d, d, g)


def bench_random_conv(options, work):
    peer, generator, ratios = build_peer(work), random.Random(options.seed), []
    for number in range(options.count):
        shape = random_shape(generator)
        done, module = tune(work, "conv:" + ",".join(map(str, shape)), options.trials)
        ours, whole, theirs = compare(peer, shape, module)
        ratios.append(theirs / ours)
        print(f"{number:>3} {','.join(map(str, shape)):<42} share of peak {done['tasks'][0]['share_of_peak']:.2f}"
              f"  Kiln {ours:.1f} us  oneDNN {theirs:.1f} us  ratio {ratios[-1]:.2f}", flush=True)
    print(f"oneDNN / Kiln: geometric mean {geomean(ratios):.3f}, lowest {min(ratios):.3f}, over {len(ratios)} shapes")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("name", choices=["conv", "random-conv"])
    parser.add_argument("layers", nargs="*")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.trials = options.trials or (32 if options.name == "conv" else 100)
    with tempfile.TemporaryDirectory() as folder:
        {"conv": bench_conv, "random-conv": bench_random_conv}[options.name](options, pathlib.Path(folder))


main()
