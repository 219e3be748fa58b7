"""boards [--target rpi4|pynq] [--model NAME] [--seconds S]: a network tuned over an emulated board

The server that ./dev cross builds, under qemu-user, with a native tracker and tuner: what was measured of each task in the
time, the module's size beside its weights, and how far its outputs on that processor are from this machine's own. An
emulated core does some 78 million multiply-adds a second; its times are labelled as emulated and say nothing about a processor."""
import os
import pathlib
import sys

import kiln

ROOT = pathlib.Path(__file__).resolve().parents[2]

def add_options(parser):
    parser.add_argument("--target", choices=("rpi4", "pynq"), default="rpi4")
    parser.add_argument("--model", default="resnet18", metavar="NAME", help="of kiln zoo")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--trials", type=int, help="at most so many (default: as many as the time allows)")


def worst(wanted, got, floats):
    """Largest difference of two folders of outputs, over the largest value."""
    difference = largest = 0
    for file in wanted.iterdir():
        right, here = floats(file), floats(got / file.name)
        largest = max(largest, max(map(abs, right)))
        difference = max(difference, max(abs(a - b) for a, b in zip(here, right)))
    return difference / largest


def run_both(world, boards, options, module, model):
    """The module there and one for this machine here, on the same random inputs."""
    here = world.path("here.kiln")
    arch, qemu = boards.BOARDS[options.target]
    world.run("compile", model, "-o", here)
    world.run("run", here, "--output", world.path("wanted"))
    world.run(boards.board_program(arch, "deploy/run/kiln-run"), module, "--output", world.path("got"), name=boards.emulator(qemu))
    return worst(pathlib.Path(world.path("wanted")), pathlib.Path(world.path("got")), boards.floats)


def tune(world, boards, options, model, module):
    address, _ = boards.fleet_of(world, options.target)
    limit = ["--trials", options.trials] if options.trials else []
    return world.json("tune", model, "--target", options.target, "--seconds", options.seconds, *limit, "--tracker", address, "--db",
                      world.path("client.db"), "--out", module)


def print_tasks(events):
    print(f"{'task':<46}{'trials':>8}{'default':>12}{'best':>12}{'ratio':>8}")
    done = kiln.event(events, "done")
    for task in done["tasks"]:
        best, default = task["best_ms"], task["default_ms"]
        times = f"{default:>9.1f} ms{best:>9.1f} ms{default / best:>8.2f}" if best and default else f"{'not measured':>32}"
        print(f"{task['label']:<46}{task['trials']:>8}{times}")
    print(f"{done['measured']} trials, {done['wall_s']:.0f} s; times of an emulator, of two samples and more each")


def run(options, work):
    os.environ.setdefault("KILN_BOARDS", str(ROOT))
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    import harness
    import test_boards_tuned as boards
    world = harness.World()
    try:
        model, module = world.zoo(options.model), world.path("tuned.kiln")
        print(f"{options.model} for {options.target}, {options.seconds:.0f} s")
        print_tasks(tune(world, boards, options, model, module))
        weights, size = pathlib.Path(model).stat().st_size, pathlib.Path(module).stat().st_size
        print(f"module: {size / 1e6:.2f} MB, {(size - weights) / 1e6:+.2f} MB beside the model's file")
        print(f"outputs there differ from this machine's by {run_both(world, boards, options, module, model):.1e} of the largest")
    finally:
        world.close()
