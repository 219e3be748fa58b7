"""Modules for WebAssembly in node: convolutions and networks against the peak of SIMD multiply-adds, and what a call costs.

The peak is measured in turns with the module, in the same process. Shares count the operations of the direct form, so
algorithms with fewer may be above 1. Times are medians over --rounds of what the processor works, in turns with the peak; load and first call are by
the clock. The overhead is that of a module of one tiny kernel."""
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(os.environ["KILN_BIN"])
EMPTY = "gemm:1x1x1"


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=30, help="calls of each module")
    parser.add_argument("--target", default="wasm", help="such as wasm,features=+relaxed-simd")
    parser.add_argument("--db", default="none", help="records to compile with")
    parser.add_argument("--exact", action="store_true", help="direct sums alone")
    parser.add_argument("names", nargs="*", default=["conv:C2", "conv:C6", "conv:C9", "resnet18"], help="of kiln zoo")


def run(options, folder):
    peak = folder / "peak.wasm"
    subprocess.run(["clang-19", "--target=wasm32", "-msimd128", "-O2", "-nostdlib", "-fuse-ld=lld", "-Wl,--no-entry", HERE / "wasm_peak.c", "-o", peak], check=True)
    modules = []
    for name in (EMPTY, *options.names):
        model, module = folder / "m.onnx", folder / f"{len(modules)}.wasm"
        subprocess.run([BIN / "cli/kiln", "zoo", name, "-o", model], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([BIN / "cli/kiln", "compile", model, "--target", options.target, "--db", options.db, *(["--exact"] if options.exact else []), "-o", module],
                       check=True, stdout=subprocess.DEVNULL)
        modules.append(f"{name}={module}")
    subprocess.run(["node", HERE / "bench_wasm.mjs", BIN / "js", peak, str(options.rounds), *modules], check=True)
