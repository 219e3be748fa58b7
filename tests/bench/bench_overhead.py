"""overhead [--trials N]: what a trial costs beside its kernel, over real tracker and rpc-server"""
import json
import subprocess

import kiln


def add_options(parser):
    parser.add_argument("--trials", type=int, default=200, help="trials, one at a time")


def run(options, work):
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-overhead"), str(kiln.BUILD / "tests/unit/rpc-server/objects"),
                           str(kiln.BUILD / "tracker/kiln-tracker"), str(kiln.BUILD / "rpc-server/kiln-rpc-server"),
                           str(options.trials)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"one at a time: {result['median_ms']:.2f} ms median, {result['min_ms']:.2f} ms least (at most 10 ms is wanted)")
    print("of these:      " + ", ".join(f"{name} {result[name + '_ms']:.2f}" for name in ("load", "warm", "run", "check")) + " ms")
    print(f"queued:        {result['queued_ms']:.2f} ms a trial")
    print(f"on the wire:   one request, one stream of {result['messages']:.1f} messages back, {result['bytes']:.0f} bytes a trial "
          "both ways, counted at the tuner's socket (at most 2048 is wanted)")
