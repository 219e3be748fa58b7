"""without [NETWORK...] [--switches NAME,...] [--threads 1|2]: the effect of each part of the compiler

Each network is compiled as always and once more without each of the switches of `kiln compile --without` (joined by + they
are left out together), all with default schedules. The modules run in turn on the same cores, ROUNDS times; outputs are
compared. A ratio is the time without / the time with: above 1, the part is worth it."""
import os

import bench_e2e
import kiln

ROUNDS = 5
TOLERANCE = 1e-3  # of the largest output: whole models in fp32


def add_options(parser):
    parser.add_argument("networks", nargs="*", metavar="NETWORK", choices=[[], *bench_e2e.NETWORKS])
    parser.add_argument("--switches", default="fuse,layout,windows")
    parser.add_argument("--threads", type=int, choices=[1, 2], default=1)


def check(modules, data, work):
    whole = None
    for name, module in modules.items():
        output = bench_e2e.read_npy(kiln.output(module, {"x": data}, work / "out"))
        whole = whole or output
        error = bench_e2e.difference(output, whole)
        if error > TOLERANCE:
            raise SystemExit(f"without {name} the output differs by {error:.2e} of the largest")


def measure(modules, cores):
    """Least and median ms by name, from alternating rounds."""
    rounds = {name: [] for name in modules}
    for _ in range(ROUNDS):
        for name, module in modules.items():
            rounds[name].append(kiln.time(module, cores))
    return {name: (min(r["min_ms"] for r in seen), min(r["median_ms"] for r in seen)) for name, seen in rounds.items()}


def run(options, work):
    cores = set(sorted(os.sched_getaffinity(0))[:options.threads])
    switches = options.switches.split(",")
    print(f"{options.threads} thread(s), default schedules; ms: least / median; ratios of the least and of the medians")
    print(f"{'network':<14}{'all':>17}" + "".join(f"{'without ' + name:>31}" for name in switches))
    for network in options.networks or [n for n in bench_e2e.NETWORKS if n != "vgg11"]:
        model = kiln.zoo(network, work / "m.onnx")
        data = bench_e2e.make_input(*bench_e2e.NETWORKS[network], network, work / "x.npy")
        modules = {name: kiln.compile_default(model, work / f"{i}.kiln", options.threads, *(["--without", name.replace("+", ",")] if name else []))
                   for i, name in enumerate(["", *switches])}
        check(modules, data, work)
        best = measure(modules, cores)
        least, median = best[""]
        print(f"{network:<14}{least:>9.3f} /{median:>6.2f}" + "".join(
            f"{best[s][0]:>11.3f} /{best[s][1]:>6.2f} {best[s][0] / least:>5.2f}{best[s][1] / median:>6.2f}"
            for s in switches), flush=True)
