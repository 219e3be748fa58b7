"""e2e [NETWORK...] --peers [--threads 1|2] [--seconds S] [--db PATH]: whole networks beside ONNX Runtime and OpenVINO

Each network is tuned for S seconds (0: default schedules), then all run in turn on the same cores, ROUNDS times, with the
same input; outputs are compared. A ratio is the fastest peer's time / Kiln's: above 1, Kiln is faster."""
import array
import os
import random
import struct

import kiln
import peers

ROUNDS = 3
SECONDS_EACH = 0.5
FIRST_SEVEN = ("resnet18", "resnet50", "squeezenet1_1", "mobilenet_v1", "mobilenet_v2", "dcgan", "dqn")
NETWORKS = {  # shape of the input; words to draw tokens from (0: real numbers)
    **{name: ((1, 3, 224, 224), 0) for name in (*FIRST_SEVEN[:5], "vgg11")},
    "dcgan": ((1, 100, 1, 1), 0), "dqn": ((1, 4, 84, 84), 0), "lstm_lm": ((20, 1), 10000), "bert_mini": ((1, 128), 30522),
}
TOLERANCE = 1e-3  # of the largest output: whole models in fp32


def add_options(parser):
    parser.add_argument("networks", nargs="*", metavar="NETWORK", choices=[[], *NETWORKS])
    parser.add_argument("--threads", type=int, choices=[1, 2], default=1)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--db", default=kiln.BUILD / "bench.db")
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


def make_input(name, file):
    shape, words = NETWORKS[name]
    count, draw = 1, random.Random(name)
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


class Compared:
    """A network beside its peers."""

    def __init__(self, name, options, work):
        self.name, self.work = name, work
        self.cores = set(sorted(os.sched_getaffinity(0))[:options.threads])
        model = kiln.zoo(name, work / "m.onnx")
        data = make_input(name, work / "x.npy")
        default = kiln.compile_default(model, work / "default.kiln", options.threads)
        self.modules = {"default": default}
        if options.seconds:
            self.modules = {"Kiln": work / "tuned.kiln", **self.modules}
            kiln.tune(model, self.modules["Kiln"], options.db, "--seconds", options.seconds, threads=options.threads)
        self.peers = [peers.Peer(peer, model, data, self.cores) for peer in peers.NETWORK_PEERS]
        self.main = next(iter(self.modules))
        self.check(data)

    def check(self, data):
        ours = read_npy(kiln.output(self.modules[self.main], {"x": data}, self.work / "out"))
        for peer in self.peers:
            theirs = self.work / "peer.npy"
            peer.ask("run", theirs)
            error = difference(ours, read_npy(theirs))
            if error > TOLERANCE:
                raise SystemExit(f"{self.name}: the output differs from {peer.name}'s by {error:.2e} of the largest")

    def measure(self):
        """Best and median ms by name, from alternating rounds, and the last event of the main module."""
        seen, last = {}, None
        for _ in range(ROUNDS):
            for peer in self.peers:
                seen.setdefault(peer.name, []).append(peer.ask("time", SECONDS_EACH))
            for name, module in self.modules.items():
                done = kiln.time(module, self.cores)
                seen.setdefault(name, []).append(done)
                last = done if name == self.main else last
        best = {name: (min(r["min_ms"] for r in rounds), min(r["median_ms"] for r in rounds)) for name, rounds in seen.items()}
        return best, last

    def close(self):
        for peer in self.peers:
            peer.close()


def run(options, work):
    columns = [*peers.NETWORK_PEERS, *(["Kiln", "default"] if options.seconds else ["default"])]
    print(f"{options.threads} thread(s), {options.seconds} s of tuning; ms: least / median; ratios of the least and of the medians")
    print(f"{'network':<14}" + "".join(f"{name:>20}" for name in columns) + f"{'ratio':>14}")
    ratios = {}
    for name in options.networks or [n for n in NETWORKS if n != "vgg11"]:
        compared = Compared(name, options, work)
        best, last = compared.measure()
        ratios[name] = [min(best[p][i] for p in peers.NETWORK_PEERS) / best[compared.main][i] for i in (0, 1)]
        print(f"{name:<14}" + "".join(f"{best[c][0]:>11.3f} /{best[c][1]:>7.2f}" for c in columns)
              + f"{ratios[name][0]:>7.2f}{ratios[name][1]:>7.2f}", flush=True)
        if options.kernels:
            print_kernels(last, compared.peers)
        compared.close()
    for title, names in (("image networks", FIRST_SEVEN), ("all", NETWORKS)):
        some = [ratios[n] for n in names if n in ratios]
        if some:
            print(f"geometric mean over {len(some)} {title}: {peers.geomean([r[0] for r in some]):.3f} by the least, "
                  f"{peers.geomean([r[1] for r in some]):.3f} by the medians")
