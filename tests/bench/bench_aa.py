"""aa [LAYER] [--kernels N] [--repeats N]: identical artefacts measured again and again; differences seen where there are none"""
import json
import subprocess

import kiln


def add_options(parser):
    parser.add_argument("layer", nargs="?", default="C9", help="of the zoo (default: C9)")
    parser.add_argument("--kernels", type=int, default=4, help="different artefacts, in turns of chance")
    parser.add_argument("--repeats", type=int, default=40, help="measurements of each")


def run(options, work):
    model = kiln.zoo(f"conv:{options.layer}", work / "m.onnx")
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-aa"), str(model), str(kiln.BUILD / "rpc-server/kiln-rpc-server"),
                           str(kiln.BUILD / "tuner/kiln-tuner"), str(options.kernels), str(options.repeats)],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)
    print(f"alone:    {result['different']} of {result['pairs']} pairs called different ({result['share']:.2%}; "
          f"at most 5 % is wanted), {result['out_of_band']} measurements out of band, "
          f"middle 80 % of medians within {result['spread']:.2%}")
    print(f"in turns: {result['faster']} of {result['finals']} finals call an artefact faster than itself "
          f"({result['faster'] / result['finals']:.2%})")
