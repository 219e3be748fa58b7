"""aa [LAYER] [--kernels N] [--repeats N]: measures identical artefacts repeatedly and counts differences that cannot be real"""
import json
import subprocess

import kiln

SLOWER = (1.03, 1.1)  # as many input channels


def add_options(parser):
    parser.add_argument("layer", nargs="?", default="C9", help="of the zoo (default: C9)")
    parser.add_argument("--kernels", type=int, default=3, help="different artefacts of it, in turns of chance")
    parser.add_argument("--repeats", type=int, default=40, help="measurements of each")


def more_work(numbers, factor):
    """The layer with more input channels; its groups must divide them."""
    channels, group = round(numbers[0] * factor), numbers[-1]
    return (channels + -channels % group, *numbers[1:])


def run(options, work):
    numbers = kiln.named_convs()[options.layer]
    layers = [numbers] + [more_work(numbers, factor) for factor in SLOWER]
    models = [kiln.zoo("conv:" + ",".join(map(str, layer)), work / f"{i}.onnx") for i, layer in enumerate(layers)]
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-aa"), str(kiln.BUILD / "rpc-server/kiln-rpc-server"),
                           str(kiln.BUILD / "tuner/kiln-tuner"), str(options.kernels), str(options.repeats), *map(str, models)],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)
    print(f"alone:    {result['different']} of {result['pairs']} pairs of measurements of one artefact called different "
          f"({result['share']:.2%}; at most 5 % is wanted); {result['out_of_band']} of {result['measurements']} "
          f"measurements out of band, middle 80 % of times within {result['spread']:.2%}, half an interval {result['doubt']:.2%}")
    print(f"in turns: {result['faster']} of {result['finals']} finals call an artefact faster than itself "
          f"({result['finals_share']:.2%}; at most 5 % is wanted)")
    for power in result["power"]:
        print(f"power:    artefacts {power['slower']:.1%} apart are called different in {power['different']} of "
              f"{power['pairs']} pairs ({power['share']:.1%})")
