"""op [WORKLOAD...] --peers [--trials N] [--db PATH]: single operators beside oneDNN, OpenBLAS, ONNX Runtime and OpenVINO

Workloads are names of the zoo (default: conv:C1..C12, conv:D1..D9, products, softmax, layer norm) or prefixes of them. One
thread. Times are the least ones of the kernel alone, without conversions of layouts, by each library's own profiler where
it has one; libraries run their direct convolution. A ratio is the fastest peer's time / Kiln's."""
import os
import re

import bench_e2e
import kiln
import peers

ROUNDS = 3
GEMMS = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024),
         (128, 768, 768), (128, 3072, 768), (128, 768, 3072))  # the last three: BERT
ROWS = {"softmax": (1536, 128), "layernorm": (128, 768)}


def add_options(parser):
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--db", default=kiln.BUILD / "bench.db")
    parser.add_argument("--peers", action="store_true")


class Library:
    """A program in C that times one operator given as numbers."""

    def __init__(self, source, library, work, numbers, cores):
        self.program, self.numbers, self.cores = peers.build(source, library, work), numbers, cores

    def time_us(self):
        return peers.run(self.program, self.numbers, self.cores)["min_us"]

    def close(self):
        pass


class Runtime:
    """A runtime with a model of one operator; its largest kernel counts."""

    def __init__(self, name, model, data, cores):
        self.peer = peers.Peer(name, model, data, cores)

    def time_us(self):
        return max(self.peer.ask("kernels").values())

    def close(self):
        self.peer.close()


def all_workloads():
    """Name -> shape of the input, and the library in C that has it with its numbers."""
    table = {f"conv:{name}": ((1, *v[:3]), ("onednn_conv", "dnnl", v)) for name, v in kiln.named_convs().items()}
    table.update({f"gemm:{m}x{n}x{k}": ((m, k), ("openblas_gemm", "openblas", (m, n, k))) for m, n, k in GEMMS})
    table.update({f"{name}:{r}x{c}": ((r, c), None) for name, (r, c) in ROWS.items()})
    return table


def compare(name, shape, library, options, work):
    cores = {min(os.sched_getaffinity(0))}
    model = kiln.zoo(name, work / "m.onnx")
    bench_e2e.NETWORKS[name] = (shape, 0)
    data = bench_e2e.make_input(name, work / "x.npy")
    module = work / "m.kiln"
    done = kiln.tune(model, module, options.db, "--trials", options.trials)
    rivals = {peer: Runtime(peer, model, data, cores) for peer in peers.NETWORK_PEERS}
    if library:
        source, link, numbers = library
        rivals[link] = Library(source, link, work, numbers, cores)
    seen = {"Kiln": [], **{rival: [] for rival in rivals}}
    for _ in range(ROUNDS):
        for rival, peer in rivals.items():
            seen[rival].append(peer.time_us())
        kernels = kiln.time(module, cores)["kernels"]
        seen["Kiln"].append(max(k["min_ms"] for k in kernels if k["op"] != "convert") * 1e3)
    for peer in rivals.values():
        peer.close()
    return {rival: min(times) for rival, times in seen.items()}, done["tasks"][0]


def run(options, work):
    table = all_workloads()
    names = [n for n in table if not options.workloads or any(n.startswith(w) for w in options.workloads)]
    columns = ("dnnl", "openblas", *peers.NETWORK_PEERS, "Kiln")
    print(f"{'workload':<20}" + "".join(f"{c:>12}" for c in columns) + f"{'of peak':>9}{'ratio':>7}   (us, 1 thread, {options.trials} trials)")
    groups = {}
    for name in names:
        shape, library = table[name]
        times, task = compare(name, shape, library, options, work)
        ratio = min(us for rival, us in times.items() if rival != "Kiln") / times["Kiln"]
        groups.setdefault(re.match("[a-z]+(:[CD])?", name)[0], []).append(ratio)
        print(f"{name:<20}" + "".join(f"{times[c]:>12.1f}" if c in times else f"{'-':>12}" for c in columns)
              + f"{task['share_of_peak']:>9.2f}{ratio:>7.2f}", flush=True)
    for group, ratios in groups.items():
        print(f"{group}: geometric mean {peers.geomean(ratios):.3f}, lowest {min(ratios):.3f}, over {len(ratios)}")
