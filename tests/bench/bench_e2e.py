"""e2e [NETWORK...] --peers [--threads 1|2] [--seconds S] [--precision f32|bf16|int8|w1a2|w2a2] [--db PATH] [--save FILE]

Whole networks beside ONNX Runtime, OpenVINO, ncnn and MNN. Each is tuned for S seconds (0: default schedules), then all run in
turn on the same cores, ROUNDS times, with the same input; outputs are compared, and a peer that cannot run a network, or gives
another output, is left out of its row with the reason. For int8 the network is quantised by `kiln quantize`, and all run that
model; beside it Kiln's own f32 with direct sums is timed. A ratio is the fastest peer's time / Kiln's: above 1, Kiln is faster.
w1a2 (weights of 1 bit, activations of 2) and w2a2 have no peers that could be asked: the network of the zoo in these bits stands
beside Kiln's own f32 and int8, with the bytes of the modules and of the ONNX file of few bits."""
import array
import os
import random
import struct

import kiln
import peers
import table

ROUNDS = 3
SECONDS_EACH = 0.5
FIRST_SEVEN = ("resnet18", "resnet50", "squeezenet1_1", "mobilenet_v1", "mobilenet_v2", "dcgan", "dqn")
NETWORKS = {  # shape of the input; words to draw tokens from (0: real numbers)
    **{name: ((1, 3, 224, 224), 0) for name in (*FIRST_SEVEN[:5], "vgg11")},
    "dcgan": ((1, 100, 1, 1), 0), "dqn": ((1, 4, 84, 84), 0), "lstm_lm": ((20, 1), 10000), "bert_mini": ((1, 128), 30522),
}
TOLERANCE = {"f32": 1e-3, "bf16": 5e-2, "int8": 1e-1}  # of the largest output: peers round sums elsewhere
QUANTISED = ("resnet18", "resnet50", "mobilenet_v2")
FEW_BITS = {"w1a2": ("resnet18", "vgg11"), "w2a2": ("resnet18", "vgg11")}


def add_options(parser):
    parser.add_argument("networks", nargs="*", metavar="NETWORK", choices=[[], *NETWORKS])
    parser.add_argument("--threads", type=int, choices=[1, 2], default=1)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--precision", choices=[*peers.NETWORK_PEERS, *FEW_BITS], default="f32")
    parser.add_argument("--db", default=kiln.BUILD / "bench.db")
    parser.add_argument("--save", metavar="FILE", help="append the table to FILE, as Markdown")
    parser.add_argument("--kernels", action="store_true", help="also print each kernel's time")
    parser.add_argument("--peers", action="store_true")


def write_npy(file, code, shape, values):
    data = array.array(code, values)
    header = repr({"descr": {"f": "<f4", "q": "<i8"}[code], "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data.tobytes())
    return file


def read_npy(file):
    raw = file.read_bytes()
    start = 10 + struct.unpack("<H", raw[8:10])[0]
    return array.array("f", raw[start:])


def make_input(shape, words, seed, file):
    count, draw = 1, random.Random(seed)
    for extent in shape:
        count *= extent
    if words:
        return write_npy(file, "q", shape, (draw.randrange(words) for _ in range(count)))
    return write_npy(file, "f", shape, (draw.gauss(0, 1) for _ in range(count)))


def difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) / max(abs(x) for x in b)


def print_kernels(done, all_peers):
    for kernel in sorted(done["kernels"], key=lambda k: -k["median_ms"]):
        print(f"    {kernel['median_ms'] * 1e3:>9.1f} us  {kernel['share_of_peak']:>5.2f}  {kernel['op']:<24} {kernel['name']}")
    for peer in all_peers:
        print(f"  {peer.name}")
        for name, us in sorted(peer.ask("kernels").items(), key=lambda item: -item[1])[:40]:
            print(f"    {us:>9.1f} us  {name}")


def make_module(model, module, options, *words):
    if options.seconds:
        kiln.tune(model, module, options.db, "--seconds", options.seconds, *words, threads=options.threads)
    else:
        kiln.compile_default(model, module, options.threads, *words)
    return module


class Compared:
    """A network beside its peers."""

    def __init__(self, name, options, work):
        self.name, self.work, self.precision = name, work, options.precision
        self.cores = set(sorted(os.sched_getaffinity(0))[:options.threads])
        plain = model = kiln.zoo(name, work / "m.onnx")
        data = make_input(*NETWORKS[name], name, work / "x.npy")
        self.modules = {}
        if options.precision == "int8":
            model = kiln.quantize(plain, work / "q.onnx")
            self.add("f32", plain, options, "--exact")
        self.add("Kiln", model, options, *kiln.precision(options.precision))
        if options.seconds:
            self.modules["default"] = kiln.compile_default(model, work / "default.kiln", options.threads, *kiln.precision(options.precision))
        self.peers, self.absent = [], []
        ours = read_npy(kiln.output(self.modules["Kiln"], {"x": data}, work / "out"))
        for peer in peers.NETWORK_PEERS[options.precision]:
            self.try_peer(peer, model, data, ours)

    def add(self, name, model, options, *words):
        self.modules[name] = make_module(model, self.work / f"{name}.kiln", options, *words)

    def try_peer(self, name, model, data, ours):
        try:
            peer = peers.Peer(name, model, data, self.cores, self.precision)
            theirs = self.work / "peer.npy"
            peer.ask("run", theirs)
            error = difference(ours, read_npy(theirs))
            if not error <= TOLERANCE[self.precision]:
                peer.close()
                raise peers.Absent(f"{name}'s output differs by {error:.2e} of the largest")
            self.peers.append(peer)
        except (peers.Absent, ValueError) as why:
            self.absent.append(f"{self.name}: {why}")

    def measure(self):
        """Best and median ms by name, from alternating rounds, and the last event of Kiln's module."""
        seen, last = {}, None
        for _ in range(ROUNDS):
            for peer in self.peers:
                seen.setdefault(peer.name, []).append(peer.ask("time", SECONDS_EACH))
            for name, module in self.modules.items():
                done = kiln.time(module, self.cores)
                seen.setdefault(name, []).append(done)
                last = done if name == "Kiln" else last
        best = {name: (min(r["min_ms"] for r in rounds), min(r["median_ms"] for r in rounds)) for name, rounds in seen.items()}
        return best, last

    def close(self):
        for peer in self.peers:
            peer.close()


def run_few_bits(options, work):
    """A row per network: ms and bytes in f32, int8 and few bits, and what the last gains over the others."""
    bits = options.precision
    kinds = ("f32", "int8", bits)
    out = table.Table(f"networks, {bits}, {options.threads} thread(s), {options.seconds} s of tuning; ms: least / median; MB: of modules, and of "
                      f"the ONNX file in {bits}", ["network", *(f"{k:>16}" for k in kinds), *(f"{k + ' MB':>9}" for k in kinds), " onnx MB",
                                                   "f32/" + bits, "int8/" + bits], options.save)
    cores = set(sorted(os.sched_getaffinity(0))[:options.threads])
    for name in options.networks or FEW_BITS[bits]:
        model = {"f32": kiln.zoo(name, work / "m.onnx"), bits: kiln.zoo(f"{name}_{bits}", work / "few.onnx")}
        model["int8"] = kiln.quantize(model["f32"], work / "q.onnx")
        modules = {kind: make_module(model[kind], work / f"{kind}.kiln", options) for kind in kinds}
        seen = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, module in modules.items():
                seen[kind].append(kiln.time(module, cores))
        best = {kind: (min(r["min_ms"] for r in rounds), min(r["median_ms"] for r in rounds)) for kind, rounds in seen.items()}
        size = {kind: module.stat().st_size / 1e6 for kind, module in modules.items()}
        out.row([name, *(f"{best[k][0]:.3f} / {best[k][1]:.2f}" for k in kinds), *(f"{size[k]:.1f}" for k in kinds),
                 f"{model[bits].stat().st_size / 1e6:.1f}", *(f"{best[k][0] / best[bits][0]:.2f}" for k in kinds[:2])])
    out.end([])


def run(options, work):
    if options.precision in FEW_BITS:
        return run_few_bits(options, work)
    others = peers.NETWORK_PEERS[options.precision]
    columns = [*others, *(["f32"] if options.precision == "int8" else []), "Kiln", *(["default"] if options.seconds else [])]
    out = table.Table(f"networks, {options.precision}, {options.threads} thread(s), {options.seconds} s of tuning; ms: least / median; "
                      "ratios of the least and of the medians", ["network", *(f"{c:>16}" for c in columns), "ratio", "medians"], options.save)
    ratios, absent = {}, []
    for name in options.networks or (QUANTISED if options.precision == "int8" else [n for n in NETWORKS if n != "vgg11"]):
        compared = Compared(name, options, work)
        best, last = compared.measure()
        absent += compared.absent
        rivals = [best[p] for p in others if p in best]
        if rivals:
            ratios[name] = [min(r[i] for r in rivals) / best["Kiln"][i] for i in (0, 1)]
        out.row([name, *(f"{best[c][0]:.3f} / {best[c][1]:.2f}" if c in best else "-" for c in columns),
                 *(f"{r:.2f}" for r in ratios.get(name, ()))] + ([] if rivals else ["-", "-"]))
        if options.kernels:
            print_kernels(last, [p for p in compared.peers if p.name in peers.OPERATOR_PEERS])
        compared.close()
    means = []
    for title, names in (("image networks", FIRST_SEVEN), ("all", NETWORKS)):
        some = [ratios[n] for n in names if n in ratios]
        if some:
            means.append(f"geometric mean over {len(some)} {title}: {peers.geomean([r[0] for r in some]):.3f} by the least, "
                         f"{peers.geomean([r[1] for r in some]):.3f} by the medians, lowest {min(r[0] for r in some):.3f}")
    out.end(means + absent)
