"""op [WORKLOAD...] --peers [--trials N] [--algorithm any|direct] [--precision f32|bf16|int8] [--isa avx2]
[--db PATH] [--save FILE]

Single operators beside oneDNN (Debian's 2 and PyPI's 3), OpenBLAS, ONNX Runtime and OpenVINO. Workloads are names of the zoo
(default: conv:C1..C12, conv:D1..D9, products, softmax, layer norm) or prefixes of them. One thread. Times are the least ones of
the kernel alone, without conversions of layouts, by each library's own profiler where it has one. "any" takes the fastest
algorithm of each, Winograd's included, and shows Kiln's direct form beside it; "direct" holds all of them to direct sums. With
--isa avx2 Kiln and the libraries are held to AVX2 on a processor that has more; runtimes, which cannot be, are left out. A ratio
is the fastest peer's time / Kiln's."""
import os
import re

import bench_e2e
import kiln
import peers
import table

ROUNDS = 3
AVX2_CORE = "x86-64-v3,mcpu=znver3"
AVX2_PEERS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
GEMMS = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
         (128, 768, 768), (128, 3072, 768), (128, 768, 3072))  # the last three: BERT
ROWS = {"softmax": (1536, 128), "layernorm": (128, 768)}


def add_options(parser):
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--algorithm", choices=["any", "direct"], default="any")
    parser.add_argument("--precision", choices=list(peers.NETWORK_PEERS), default="f32")
    parser.add_argument("--isa", choices=["avx2"])
    parser.add_argument("--db", default=kiln.BUILD / "bench.db")
    parser.add_argument("--save", metavar="FILE", help="append the table to FILE, as Markdown")
    parser.add_argument("--peers", action="store_true")


def all_workloads():
    """Name -> shape of the input, and the words that libraries in C take."""
    found = {f"conv:{name}": ((1, *v[:3]), ("conv", *v)) for name, v in kiln.named_convs().items()}
    found.update({f"gemm:{m}x{n}x{k}": ((m, k), ("gemm", m, n, k)) for m, n, k in GEMMS})
    found.update({f"{name}:{r}x{c}": ((r, c), (name, r, c)) for name, (r, c) in ROWS.items()})
    return found


class Rivals:
    """The peers of one workload; each is asked in turn, and left out once it has nothing for it."""

    def __init__(self, libraries, words, model, data, options):
        self.cores = {min(os.sched_getaffinity(0))}
        ask = {}
        for library in libraries:
            if library.name == "openblas":
                if words[0] == "gemm" and options.precision == "f32":
                    ask["openblas"] = lambda it=library: it.time_us(words[1:], self.cores)
                continue
            for algorithm in ("direct", "winograd") if options.algorithm == "any" and words[0] == "conv" else ("direct",):
                name = library.name + ("w" if algorithm == "winograd" else "")
                ask[name] = lambda it=library, a=algorithm: it.time_us((options.precision, a, *words), self.cores)
        self.runtimes, self.ask = {}, ask
        for name in () if options.isa else peers.OPERATOR_PEERS:
            if options.precision not in (p for p, who in peers.NETWORK_PEERS.items() if name in who):
                continue
            try:
                self.runtimes[name] = peers.Peer(name, model, data, self.cores, options.precision)
                ask[name] = lambda it=self.runtimes[name]: max(it.ask("kernels").values())
            except peers.Absent:
                pass

    def time_us(self):
        times = {}
        for name, ask in list(self.ask.items()):
            try:
                times[name] = ask()
            except peers.Absent:
                del self.ask[name]
        return times

    def close(self):
        for peer in self.runtimes.values():
            peer.close()


def compare(name, shape, words, libraries, options, work):
    model = kiln.zoo(("q" if options.precision == "int8" else "") + name, work / "m.onnx")
    data = bench_e2e.make_input(shape, 0, name, work / "x.npy")
    modules, done = {}, {}
    for form in ("Kiln", "direct") if options.algorithm == "any" and words[0] == "conv" and options.precision == "f32" else ("Kiln",):
        exact = ["--exact"] if "direct" in (form, options.algorithm) else []
        modules[form] = work / f"{form}.kiln"
        done[form] = kiln.tune(model, modules[form], options.db, "--trials", options.trials, *kiln.precision(options.precision), *exact)
    rivals, seen = Rivals(libraries, words, model, data, options), {}
    for _ in range(ROUNDS):
        for rival, us in rivals.time_us().items():
            seen.setdefault(rival, []).append(us)
        for form, module in modules.items():
            kernels = kiln.time(module, rivals.cores)["kernels"]
            seen.setdefault(form, []).append(max(k["min_ms"] for k in kernels if k["op"] != "convert") * 1e3)
    rivals.close()
    return {rival: min(times) for rival, times in seen.items()}, done["Kiln"]["tasks"][0]


def run(options, work):
    isa = "AVX2, " if options.isa else ""
    if isa:
        kiln.core = AVX2_CORE
        os.environ.update(AVX2_PEERS)
    workloads = all_workloads()
    names = [n for n in workloads if not options.workloads or any(n.startswith(w) for w in options.workloads)]
    libraries = [make(work) for make in (peers.debian_onednn, peers.newest_onednn, peers.openblas)]
    columns = ("dnnl2", "dnnl2w", "dnnl3", "dnnl3w", "openblas", *peers.OPERATOR_PEERS, "direct", "Kiln")
    out = table.Table(f"operators, {options.precision}, algorithm {options.algorithm}, {isa}us, 1 thread, {options.trials} trials",
                      ["workload", *columns, "of peak", "ratio"], options.save)
    groups = {}
    for name in names:
        shape, words = workloads[name]
        times, task = compare(name, shape, words, libraries, options, work)
        ratio = min(us for rival, us in times.items() if rival not in ("Kiln", "direct")) / times["Kiln"]
        groups.setdefault(re.match("[a-z]+(:[CD])?", name)[0], []).append(ratio)
        out.row([name, *(f"{times[c]:.1f}" if c in times else "-" for c in columns), f"{task['share_of_peak']:.2f}", f"{ratio:.2f}"])
    out.end([f"{group}: geometric mean {peers.geomean(r):.3f}, lowest {min(r):.3f}, over {len(r)}" for group, r in groups.items()])
