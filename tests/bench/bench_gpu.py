"""gpu [PART...]: figures of GPU kernels that need no GPU: machine code, registers, spills, builds

Machine code is NVIDIA's assembler's for what Kiln makes of each default schedule; a share is one of issue slots of the
innermost loop with most multiply-adds, a bound on the share of peak and nothing that was timed. `pocl` and `clblast` time kernels
in OpenCL C on this machine's processor. `heuristic` puts what the cost model predicts of default schedules beside what the vendor's
heuristic predicts of matrix products: two predictions. Parts: slots, tensor, heuristic, zoo, drawn, warps, time, pocl, clblast (with --peers); and, only
where it is named, fit: writes the trees of cost/registers_gpu_trees.def.
--device: kernels timed on a CUDA device in place of all that (device_times.py)."""
import collections
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import device_times
import kiln
import pocl
import register_trees
import sass

NETWORKS = ["resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "squeezenet1_1", "vgg11", "dqn", "dcgan", "lstm_lm", "bert_mini"]
BATCH = 32
SLOTS_WANTED = {"gemm": 0.90, "conv": 0.85}  # counted for sm_90
TENSOR_WANTED = 0.40  # counted for sm_80
OTHERS_WANTED = 30  # beside each instruction of a warp group, counted for sm_90a
TENSOR = {"HMMA", "IMMA", "HGMMA"}
DRAWN = 1000
LONG_NS = 25e6, 150e6  # a build, and with ptxas
LONG_ESTIMATE_NS = 60e3
APART = 1.5  # predictions: ours over the vendor's, or the reverse
LAUNCH_US = 2  # what base/gpus.def says of a launch
NEAR, NEAR_WANTED = 0.15, 0.90  # predicted registers, and of how many candidates
FIT_SEEDS, FIT_HELD_OUT = range(1001, 1009), (2001, 2002)
FIT_DRAWN = {"f32": 12, "f16": 6, "warps": 20}  # of each model and seed


def product(size, dtype="f32", by_rows=True):
    total = "i32" if dtype == "i8" else "f32"
    x, w = "x[m, k]", "w[k, n]" if by_rows else "w[n, k]"
    if dtype != "f32":
        x, w = f"{total}({x})", f"{total}({w})"
    return (f"program gemm\ninput x: {dtype}[{size},{size}]\ninput w: {dtype}[{size},{size}]\noutput y: {total}[{size},{size}]\n"
            f"block gemm(m:{size}, n:{size} | k:{size}): y[m, n] sum= {x}*{w} init {'0i32' if total == 'i32' else '0.0'}\n")


def convolution(batch, channels, height, width, filters, kh, kw, sh, sw, top, left, bottom, right, dh, dw, groups, dtype="f32"):
    assert groups == 1
    cast = "" if dtype == "f32" else "f32"
    zero = "0.0" if dtype == "f32" else f"{dtype}(0.0)"
    tall, wide = height + top + bottom, width + left + right
    oh, ow = (tall - (kh - 1) * dh - 1) // sh + 1, (wide - (kw - 1) * dw - 1) // sw + 1
    padded = (tall, wide) != (height, width)
    pad = (f"temp pad: {dtype}[{batch},{channels},{tall},{wide}]\n"
           f"block pad(n:{batch}, c:{channels}, h:{tall}, w:{wide}): pad[n, c, h, w] = select(and(and(and({top} <= h, h < {top + height}), {left} <= w), "
           f"w < {left + width}), x[n, c, h - {top}, w - {left}], {zero})\n") if padded else ""
    return (f"program conv\ninput x: {dtype}[{batch},{channels},{height},{width}]\nconstant w: {dtype}[{filters},{channels},{kh},{kw}]\n"
            f"output y: f32[{batch},{filters},{oh},{ow}]\n{pad}"
            f"block conv(n:{batch}, o:{filters}, h:{oh}, w:{ow} | c:{channels}, r:{kh}, q:{kw}): y[n, o, h, w] sum= "
            f"{cast}({'pad' if padded else 'x'}[n, c, h*{sh} + r*{dh}, w*{sw} + q*{dw}])*{cast}(w[o, c, r, q]) init 0.0\n")


def write(folder, models, target, *words):
    """What bench-gpu says of each candidate, whose payloads lie in `folder`."""
    folder.mkdir()
    done = subprocess.run([kiln.BUILD / "tests/bench/bench-gpu", *map(str, models), "--target", target, "--out", folder, *map(str, words)],
                          capture_output=True, text=True)
    if done.returncode:
        print(f"  {done.stderr.strip()}", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def processor(target):
    return {"h200": "sm_90a", "a100": "sm_80"}.get(target) or target.removeprefix("cuda:")


def assembled(candidates, target):
    """Each candidate with what ptxas says of it: `entries`, `notes`, or `ptxas` why not."""
    def one(candidate):
        try:
            candidate["entries"], candidate["notes"] = sass.assemble(candidate["path"], processor(target), candidate["path"] + ".cubin")
        except sass.Refused as refused:
            candidate["ptxas"] = str(refused)
        return candidate
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, [c for c in candidates if "path" in c]))


# ---- parts ------------------------------------------------------------------------------------------------------------------------


def slots_of(candidate, opcodes=frozenset({"FFMA"})):
    """Of the launch whose hot loop has most multiply-adds: (share, share with the loop around it, counter of its loop, launch)."""
    best, most = (0.0, 0.0, collections.Counter(), None), 0
    for name, code in sass.functions(candidate["path"] + ".cubin").items():
        body, around = sass.hot_loop(code, opcodes)
        found = sass.count(body, opcodes)
        if found > most:
            best, most = (found / len(body), sass.count(around, opcodes) / len(around), collections.Counter(op.split(".")[0] for op in body), name), found
    return best


def slots(options, work):
    convs = kiln.named_convs()
    texts = {"gemm 4096": product(4096), **{f"conv {name}": convolution(BATCH, *convs[name]) for name in (f"C{i}" for i in range(2, 13))}}
    print(f"slots: fp32 default schedules for h200, convolutions at batch {BATCH}; the innermost loop's other slots by opcode;\n"
          f"`around`: with the loop around it, where the innermost one is counted once although it runs more often\n{'':<10}{'FFMA':>7}{'around':>7}{'loop':>6}{'regs':>5}{'spill':>6}{'shared':>8}{'blocks':>8}{'threads':>8}  others")
    shares = {}
    for number, (name, text) in enumerate(texts.items()):
        file = work / f"{name.replace(' ', '_')}.te"
        file.write_text(text)
        for candidate in assembled(write(work / f"slots{number}", [file], "h200"), "h200"):
            if "ptxas" in candidate:
                print(f"{name:<10}ptxas: {candidate['ptxas']}")
                continue
            share, whole, body, entry = slots_of(candidate)
            if not entry:
                print(f"{name:<10}no loop with FFMA: its reduction is unrolled or none")
                continue
            launch = next(l for l in candidate["launches"] if l["entry"] == entry)
            counts = candidate["entries"][entry]
            shares[name] = share
            others = ", ".join(f"{n} {op}" for op, n in body.most_common(8) if op != "FFMA")
            print(f"{name:<10}{share:>7.3f}{whole:>7.3f}{sum(body.values()):>6}{counts['registers']:>5}{counts['spilled']:>6}{launch['shared']:>8}"
                  f"{math.prod(launch['grid']):>8}{math.prod(launch['group']):>8}  {others}", flush=True)
    of_convs = [share for name, share in shares.items() if name.startswith("conv")]
    if of_convs:
        print(f"convolutions: geometric mean {statistics.geometric_mean(of_convs):.3f} of {len(of_convs)} (wanted {SLOTS_WANTED['conv']}); "
              f"gemm {shares.get('gemm 4096', 0):.3f} (wanted {SLOTS_WANTED['gemm']})")


def tensor(options, work):
    rows = [("a100", "f16", True), ("a100", "f16", False), ("a100", "bf16", True), ("a100", "i8", False), ("h200", "f16", True),
            ("h200", "f16", False), ("h200", "bf16", True), ("h200", "i8", False)]
    print(f"tensor: products of 4096 by instructions of warps, default schedules (fp16 of sm_80 wanted {TENSOR_WANTED}; of warp groups, HGMMA, at most "
          f"{OTHERS_WANTED} others each)\n{'':<22}{'share':>7}{'others':>7}{'loop':>6}{'regs':>5}{'spill':>6}{'shared':>8}{'blocks':>8}{'threads':>8}  all")
    for number, (target, dtype, by_rows) in enumerate(rows):
        file = work / f"tensor{number}.te"
        file.write_text(product(4096, dtype, by_rows))
        name = f"{target} {dtype} {'w[k, n]' if by_rows else 'w[n, k]'}"
        for candidate in assembled(write(work / f"tensor{number}", [file], target), target):
            if "ptxas" in candidate:
                print(f"{name:<22}ptxas: {candidate['ptxas']}")
                continue
            share, _, body, entry = slots_of(candidate, TENSOR)
            if not entry:
                print(f"{name:<22}no loop with products of warps")
                continue
            launch = next(l for l in candidate["launches"] if l["entry"] == entry)
            counts = candidate["entries"][entry]
            print(f"{name:<22}{share:>7.3f}{1 / share - 1:>7.1f}{sum(body.values()):>6}{counts['registers']:>5}{counts['spilled']:>6}{launch['shared']:>8}"
                  f"{math.prod(launch['grid']):>8}{math.prod(launch['group']):>8}  {', '.join(f'{n} {op}' for op, n in body.most_common(6))}"
                  f"{''.join(f'; {note}' for note in candidate['notes'])}", flush=True)


def triton(options, work):
    if not options.peers:
        print("triton: skipped without --peers")
        return
    made = subprocess.run([kiln.BUILD / "peers-triton/bin/python", pathlib.Path(__file__).with_name("triton_products.py"), work], capture_output=True, text=True,
                          env={**os.environ, "TRITON_CACHE_DIR": str(work / "triton"), "TRITON_DEFAULT_FP_FUSION": "1"})
    if made.returncode:
        print(f"triton: skipped: {(made.stderr.strip() or 'no message').splitlines()[-1]}")
        return
    print(f"triton: its machine code of a product of halves in such tiles, as `tensor` counts ours\n"
          f"{'':<22}{'share':>7}{'others':>7}{'loop':>6}{'shared':>8}{'threads':>8}  all")
    for row in map(json.loads, made.stdout.splitlines()):
        [code] = sass.functions(row["cubin"]).values()
        body, _ = sass.hot_loop(code, TENSOR)
        found = sass.count(body, TENSOR)
        if not found:
            print(f"{row['target']} {row['tile']:<15}no loop with products of warps")
            continue
        opcodes = collections.Counter(op.split(".")[0] for op in body)
        print(f"{row['target']} {row['tile']:<15}{found / len(body):>8.3f}{len(body) / found - 1:>7.1f}{len(body):>6}"
              f"{row['shared']:>8}{row['threads']:>8}  {', '.join(f'{n} {op}' for op, n in opcodes.most_common(6))}", flush=True)


def comparable(vendor, launches, read_once):
    """The vendor's us with our time of launches in place of its own: as it stands, and where the product reads no more of memory than `read_once` bytes."""
    us = {name: vendor[name] * 1e6 for name in ("launch", "compute", "load", "store")}
    load = us["load"] * min(read_once / vendor["loaded_bytes"], 1)
    return vendor["seconds"] * 1e6 - us["launch"] + launches, launches + max(us["compute"], load) + us["store"]


def heuristic(options, work):
    c2 = kiln.named_convs()["C2"]
    channels, height, width, filters, kh, kw = c2[:6]  # its result keeps the image's size
    weights = filters * channels * kh * kw
    rows = {"gemm 4096": ((4096, 4096, 4096), math.inf, lambda dtype: product(4096, dtype)),
            **{f"conv C2 x{batch}": ((batch * height * width, filters, channels * kh * kw), batch * channels * height * width + weights,
                                     lambda dtype, batch=batch: convolution(batch, *c2, dtype=dtype)) for batch in (1, BATCH)}}
    cases = [(target, dtype, name) for target in ("a100", "h200") for dtype in ("f16", "f32") for name in rows]
    asked = [f"{target}:{dtype}:{'x'.join(map(str, rows[name][0]))}" for target, dtype, name in cases]
    done = subprocess.run([kiln.BUILD / "peers-gpu/bin/python", pathlib.Path(__file__).with_name("matmul_heuristic.py"), *asked],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the vendor's heuristic: {done.stderr.strip()}")
    print(f"heuristic: default schedules as the cost model predicts them, beside the vendor's prediction of the same matrix product (nothing\n"
          f"was timed; wanted within {APART}): microseconds. The vendor counts 10 us of each launch: `even` is its time with our {LAUNCH_US} us a launch. Of a\n"
          f"convolution its product reads a matrix of windows, which our kernels do not make: `image` is its time where that loads the image's\n"
          f"bytes alone. `between`: ours over the nearer of the two, 1 in between\n"
          f"{'':<22}{'Kiln':>9}{'vendor':>9}{'ratio':>7}{'even':>9}{'ratio':>7}{'image':>9}{'between':>9}  the vendor's tile")
    near = {"ratio": 0, "even": 0, "between": 0}
    for number, ((target, dtype, name), line) in enumerate(zip(cases, done.stdout.splitlines())):
        vendor, (_, elements, text) = json.loads(line), rows[name]
        file = work / f"heuristic{number}.te"
        file.write_text(text(dtype))
        found = [c for c in write(work / f"heuristic{number}", [file], target) if "path" in c]
        if not found:
            continue
        ours, theirs = found[0]["expected_ns"] * 1e-3, vendor["seconds"] * 1e6
        even, image = comparable(vendor, len(found[0]["launches"]) * LAUNCH_US, elements * (2 if dtype == "f16" else 4))
        ratios = {"ratio": ours / theirs, "even": ours / even, "between": ours / min(max(ours, image), even)}
        for kind, ratio in ratios.items():
            near[kind] += 1 / APART <= ratio <= APART
        print(f"{target} {dtype} {name:<12}{ours:>9.1f}{theirs:>9.1f}{ratios['ratio']:>7.2f}{even:>9.1f}{ratios['even']:>7.2f}{image:>9.1f}{ratios['between']:>9.2f}"
              f"  {vendor['kernel'].removeprefix('layout(NN_ROW) ')}", flush=True)
    print(f"{near['ratio']} of {len(cases)} within {APART}; {near['even']} with our time of launches; {near['between']} where convolutions need not read windows")


def zoo(options, work):
    print("zoo: every kernel of the ten networks' default schedules through ptxas")
    for target in ("cuda:sm_80", "cuda:sm_90a"):
        refused = spilled = notes = kernels = 0
        for name in NETWORKS:
            found = write(work / f"{name}-{processor(target)}", [name], target)
            for candidate in found:
                if "refused" in candidate:
                    print(f"  {target} {name} {candidate['op']}: {candidate['refused']}")
                refused += "refused" in candidate
            for candidate in assembled(found, target):
                kernels += len(candidate.get("entries", {}))
                refused += "ptxas" in candidate
                notes += len(candidate.get("notes", ()))
                for entry, counts in candidate.get("entries", {}).items():
                    spilled += counts["spilled"] > 0
                    if counts["spilled"]:
                        print(f"  {target} {name} {candidate['op']} {entry}: {counts['registers']} registers, {counts['spilled']} bytes spilled")
                if "ptxas" in candidate:
                    print(f"  {target} {name} {candidate['op']}: {candidate['ptxas']}")
        print(f"{target}: {kernels} kernels, {refused} refused, {spilled} spill, {notes} notes of lost performance", flush=True)


def drawn_models():
    return ["gemm:1024x1024x1024", *(f"conv:C{i}" for i in range(1, 13)), "softmax:512x1024", "layernorm:512x1024", "conv:D3"]


def drawn(options, work):
    models = drawn_models()
    found = write(work / "drawn", models, "h200", "--drawn", -(-options.drawn // len(models)), "--seed", options.seed)
    found = [c for c in found if c["kind"] == "drawn"][:options.drawn]
    done = assembled(found, "h200")
    taken = [c for c in done if "entries" in c]
    spilled = [c for c in taken if any(e["spilled"] for e in c["entries"].values())]
    registers = sorted(max(e["registers"] for e in c["entries"].values()) for c in taken)
    why = collections.Counter(c["refused"].split(":")[-1].strip()[:80] for c in found if "refused" in c)
    print(f"drawn: {len(found)} candidates of {len(models)} models for h200 (seed {options.seed})\n"
          f"  lowering and limits refuse {len(found) - len(done)}; ptxas refuses {len(done) - len(taken)} (wanted 0); "
          f"{len(spilled)} spill ({len(spilled) / max(1, len(taken)):.1%}, wanted at most 5 %)")
    for text, number in why.most_common(5):
        print(f"    {number} x {text}")
    if not taken:
        return
    off = over_counted(taken)
    near = sum(abs(x - 1) <= NEAR for x in off) / len(off)
    print(f"  registers of the widest kernel: median {statistics.median(registers):.0f}, p90 {registers[len(registers) * 9 // 10]}; predicted "
          f"within {NEAR:.0%} of ptxas's for {near:.0%} (wanted {NEAR_WANTED:.0%}), predicted over counted: "
          f"median {statistics.median(off):.2f}, p5 {sorted(off)[len(off) // 20]:.2f}, p95 {sorted(off)[len(off) * 19 // 20]:.2f}")
    of_ops = collections.defaultdict(list)
    for candidate, x in zip(taken, off):
        of_ops[candidate["op"]].append(abs(x - 1) <= NEAR)
    print("  by operator: " + ", ".join(f"{op} {sum(x) / len(x):.0%} of {len(x)}" for op, x in of_ops.items()))


def over_counted(candidates):
    """Predicted registers of each candidate over what ptxas gives its widest kernel."""
    return [c["registers"] / max(e["registers"] for e in c["entries"].values()) for c in candidates]


def warp_products():
    return {"f16 4096": product(4096, "f16"), "f16 4096 w[n, k]": product(4096, "f16", False), "f16 1024": product(1024, "f16"), "i8 4096": product(4096, "i8", False)}


def warps(options, work):
    texts = warp_products()
    print(f"warps: drawn products by instructions of warps (seed {options.seed}), predicted registers within {NEAR:.0%} of ptxas's (wanted {NEAR_WANTED:.0%})")
    for target in ("h200", "a100"):
        for number, (name, text) in enumerate(texts.items()):
            file = work / f"warps{number}.te"
            file.write_text(text)
            each = -(-options.drawn // (2 * len(texts)))
            taken = [c for c in assembled(write(work / f"warps-{target}{number}", [file], target, "--drawn", each, "--seed", options.seed), target) if "entries" in c]
            near = [abs(x - 1) <= NEAR for x in over_counted(taken)]
            print(f"  {target} {name}: {sum(near) / max(1, len(near)):.0%} of {len(near)}", flush=True)


def rows_to_fit(work, seeds):
    """Of each launch: (inputs of the trees by name, registers from ptxas, candidate)."""
    convs, models, rows = kiln.named_convs(), {"f32": drawn_models(), "f16": [], "warps": []}, []
    texts = {"f16": [convolution(BATCH if i % 2 else 1, *convs[f"C{i}"], dtype="f16") for i in range(1, 13)], "warps": warp_products().values()}
    for kind, of_kind in texts.items():
        for text in of_kind:
            file = work / f"fit_{kind}{len(models[kind])}.te"
            file.write_text(text)
            models[kind].append(file)
    for seed in seeds:
        for target in ("h200", "a100"):
            for kind, number in FIT_DRAWN.items():
                found = [c for c in write(work / f"fit-{target}-{kind}-{seed}", models[kind], target, "--drawn", number, "--seed", seed) if c["kind"] == "drawn"]
                for candidate in assembled(found, target):
                    if "entries" not in candidate or len(candidate["inputs"]) != len(candidate["launches"]):
                        continue
                    of = f"{kind} {target}", candidate["path"]
                    rows += [(inputs, candidate["entries"][launch["entry"]]["registers"], of) for inputs, launch in zip(candidate["inputs"], candidate["launches"])]
    return rows


def widest(rows, registers_of):
    """Of each candidate the most of registers_of(row)."""
    most = {}
    for row in rows:
        most[row[2]] = max(most.get(row[2], 0), registers_of(row))
    return most


def fit(options, work):
    rows = rows_to_fit(work, FIT_SEEDS)
    names, most = list(rows[0][0]), widest(rows, lambda row: row[1])
    trees = register_trees.grow([(list(inputs.values()), registers, 1 if registers == most[of] else register_trees.BESIDE) for inputs, registers, of in rows])
    held = rows_to_fit(work, FIT_HELD_OUT)
    given, said = widest(held, lambda row: row[1]), widest(held, lambda row: register_trees.says(trees, list(row[0].values())))
    print(f"fit: registers of the widest kernel within {NEAR:.0%} of ptxas's; fitted to {len(most)} candidates, these are {len(given)} of other seeds")
    for group in sorted({group for group, _ in given}):
        near = [abs(said[of] / registers - 1) <= NEAR for of, registers in given.items() if of[0] == group]
        print(f"  {group}: {sum(near) / len(near):.1%} of {len(near)}", flush=True)
    file = pathlib.Path(__file__).resolve().parents[2] / "compiler-core/cost/registers_gpu_trees.def"
    comment = file.read_text()[:file.read_text().index("*/\n") + 3]
    file.write_text(comment + "\n".join(register_trees.table(trees, names)) + "\n")


def time(options, work):
    models = ["gemm:1024x1024x1024", *(f"conv:C{i}" for i in range(1, 13))]
    found = [c for c in write(work / "time", models, "h200", "--drawn", 8, "--seed", options.seed) if "path" in c]
    builds = sorted(c["elapsed_ns"] for c in found)
    seconds = []
    for candidate in found:
        before = kiln_clock()
        try:
            sass.assemble(candidate["path"], "sm_90a")
        except sass.Refused:
            continue
        seconds.append(kiln_clock() - before + candidate["elapsed_ns"] * 1e-9)
    print(f"time: from trace to PTX median {statistics.median(builds) * 1e-6:.1f} ms, p90 {builds[len(builds) * 9 // 10] * 1e-6:.1f} (wanted {LONG_NS[0] * 1e-6:.0f}); "
          f"with ptxas median {statistics.median(seconds) * 1e3:.0f} ms (wanted {LONG_NS[1] * 1e-6:.0f}); {len(found)} candidates")
    counts = sorted(c["estimated_ns"] for c in found)
    print(f"  counting a program and the model's estimate: median {statistics.median(counts) * 1e-3:.1f} us, p90 {counts[len(counts) * 9 // 10] * 1e-3:.1f} "
          f"(wanted {LONG_ESTIMATE_NS * 1e-3:.0f})")


def kiln_clock():
    import time as clock
    return clock.perf_counter()


PARTS = {"slots": slots, "tensor": tensor, "triton": triton, "heuristic": heuristic, "zoo": zoo, "drawn": drawn, "warps": warps, "time": time, "fit": fit, "pocl": pocl.beside_own_code, "clblast": pocl.beside_clblast}
ASSEMBLED = {"slots", "tensor", "triton", "zoo", "drawn", "warps", "time", "fit"}  # parts that need ptxas
WRITING = {"fit"}  # parts that change a file of the project: only where they are named


def add_options(parser):
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--drawn", type=int, default=DRAWN, metavar="N", help=f"candidates drawn ({DRAWN})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload", action="append", metavar="NAME", help="of pocl, a name of the zoo (C1 to C12, gemm 256 to 1024)")
    parser.add_argument("--cores", type=int, metavar="N", help="of pocl, how many cores both take (all; on a machine that is busy, 1)")
    parser.add_argument("--rounds", type=int, default=3, help="of pocl and clblast (3)")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--device", action="store_true")
    device_times.add_options(parser)


def run(options, work):
    if options.device:
        device_times.beside_peers(options, work)
        return
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        sys.exit(f"there is no part {unknown[0]}; there are {' '.join(PARTS)}")
    parts = options.parts or [part for part in PARTS if part not in WRITING]
    if ASSEMBLED.intersection(parts) and not (pathlib.Path(sass.PTXAS).is_file() and pathlib.Path(sass.NVDISASM).is_file()):
        sys.exit("KILN_PTXAS and KILN_NVDISASM name no programs; ./dev bench gpu installs them")
    for part in parts:
        PARTS[part](options, work)
