"""conv [LAYER...] [--trials N]: conv:C1..C12: share of peak, default against tuned, trials per second"""
import kiln

DENSE = [f"C{i}" for i in range(1, 13)]


def add_options(parser):
    parser.add_argument("layers", nargs="*", metavar="LAYER")
    parser.add_argument("--trials", type=int, default=32)


def run(options, work):
    verified = wall = 0
    print(f"{'layer':<6}{'default ms':>11}{'best ms':>10}{'of peak':>9}{'best/default':>13}{'trials/s':>10}")
    for layer in options.layers or DENSE:
        model = kiln.zoo(f"conv:{layer}", work / "m.onnx")
        done = kiln.tune(model, work / "m.kiln", work / "bench.db", "--trials", options.trials)
        task = done["tasks"][0]
        verified += done["verified"]
        wall += done["wall_s"]
        print(f"{layer:<6}{task['default_ms']:>11.4f}{task['best_ms']:>10.4f}{task['share_of_peak']:>9.3f}"
              f"{task['best_ms'] / task['default_ms']:>13.2f}{done['trials_per_s']:>10.1f}", flush=True)
    print(f"{verified} verified trials in {wall:.1f} s: {verified / wall:.1f} per second")
