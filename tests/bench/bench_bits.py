"""Convolutions of few bits beside bytes and floats: kernels of this machine by what the rules prefer.

All kinds of a layer are timed in turns, and the least of all rounds counts."""
import os
import re
import subprocess

BENCH = os.path.join(os.environ.get("KILN_BIN", "build"), "tests/bench/bench-kernel")

# name: height and width, channels in and out, kernel
LAYERS = {"C2": (56, 64, 64, 3), "C6": (28, 128, 128, 3), "C9": (14, 256, 256, 3), "C12": (7, 512, 512, 3)}

# name: bits of data and of weights, the ranges of both
KINDS = {
    "int8": (8, 8, "", ""),
    "2 x 2 bits": (2, 2, " range(0, 3)", " range(-2, 1)"),
    "2 x 1 bits": (2, 1, " range(0, 3)", " range(-1, 1, 2)"),
    "1 x 1 bits": (1, 1, " range(0, 1)", " range(-1, 1, 2)"),
}


def task(layer, kind):
    """A convolution with padding, bias and requantisation in text form (docs/reference/loop-text.md)."""
    size, into, out, kernel = LAYERS[layer]
    bits, _, data, weights = KINDS[kind]
    pad = kernel // 2
    padded, end, top = size + 2 * pad, size + pad, 2**bits - 1
    return f"""program conv
input x: u8[1,{into},{size},{size}]{data}
constant w: i8[{out},{into},{kernel},{kernel}]{weights}
constant s: f32[{out}]
constant b: i32[{out}]
output y: u8[1,{out},{size},{size}]
temp p: u8[1,{into},{padded},{padded}]
temp t: i32[1,{out},{size},{size}]
block pad(n:1, c:{into}, h:{padded}, w:{padded}): p[n, c, h, w] = select(and(and({pad} <= h, h < {end}), and({pad} <= w, w < {end})), x[n, c, h - {pad}, w - {pad}], 0u8)
block conv(n:1, oc:{out}, oh:{size}, ow:{size} | ic:{into}, kh:{kernel}, kw:{kernel}): t[n, oc, oh, ow] sum= i32(p[n, ic, oh + kh, ow + kw])*i32(w[oc, ic, kh, kw]) init 0i32
block q(n:1, oc:{out}, oh:{size}, ow:{size}): y[n, oc, oh, ow] = u8(i32(round(min(max(f32(t[n, oc, oh, ow] + b[oc])*s[oc], 0.0), {top}.0))))
"""


def time_us(arguments):
    text = subprocess.run([BENCH, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout
    return float(re.search(r"kernel ([0-9.]+) us", text).group(1))


def add_options(parser):
    parser.add_argument("layer", nargs="*", help=" ".join(LAYERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--algorithm", default="default", help="of the kinds of few bits: default, bit_planes, direct")


def runs_of(layer, options, folder):
    size, into, out, kernel = LAYERS[layer]
    runs = {"fp32 direct": [f"{size},{size},{into},{out},{kernel},1,{kernel // 2}", "direct"]}
    for kind in KINDS:
        path = folder / f"{layer}-{kind.replace(' ', '')}"
        path.write_text(task(layer, kind))
        runs[kind] = [str(path), "default" if kind == "int8" else options.algorithm]
    return runs


def run(options, folder):
    print(f"{'layer':6} {'kind':12} {'us':>8} {'over int8':>10} {'over fp32':>10} {'weights KB':>11}")
    for layer in options.layer or LAYERS:
        _, into, out, kernel = LAYERS[layer]
        runs = runs_of(layer, options, folder)
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(options.rounds):
            for kind, arguments in runs.items():
                best[kind] = min(best[kind], time_us(arguments))
        for kind, us in best.items():
            kilobytes = into * out * kernel * kernel * (KINDS[kind][1] if kind in KINDS else 32) / 8192
            print(f"{layer:6} {kind:12} {us:8.1f} {best['int8'] / us:10.2f} {best['fp32 direct'] / us:10.2f} {kilobytes:11.1f}", flush=True)
