"""random-conv [--count N] [--seed S] [--trials N]: random convolutions beside oneDNN's direct one, both by direct sums

Odd sizes, groups, dilation, stride and asymmetric padding; needs Debian's libdnnl-dev."""
import os
import random
import statistics

import kiln
import peers

ROUNDS = 3


def add_options(parser):
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=100)


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


def run(options, work):
    library, generator, ratios = peers.debian_onednn(work), random.Random(options.seed), []
    cores = {min(os.sched_getaffinity(0))}
    for number in range(options.count):
        shape = random_shape(generator)
        name = ",".join(map(str, shape))
        model, module = kiln.zoo(f"conv:{name}", work / "m.onnx"), work / "m.kiln"
        done = kiln.tune(model, module, work / "bench.db", "--exact", "--trials", options.trials)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(max(kiln.time(module, cores)["kernels"], key=lambda k: k["gflops"])["median_ms"] * 1e3)
            theirs.append(library.time_us(("f32", "direct", "conv", *shape), cores))
        ratios.append(statistics.median(theirs) / statistics.median(ours))
        print(f"{number:>3} {name:<42} share of peak {done['tasks'][0]['share_of_peak']:.2f}  Kiln {statistics.median(ours):.1f} us"
              f"  oneDNN {statistics.median(theirs):.1f} us  ratio {ratios[-1]:.2f}", flush=True)
    print(f"oneDNN / Kiln: geometric mean {peers.geomean(ratios):.3f}, lowest {min(ratios):.3f}, over {len(ratios)} shapes")
