#!/usr/bin/env python3
"""./dev bench NAME [OPTION...]: benchmarks of the built programs, each beside its peers in the same run.

Each lives in bench_NAME.py. Rounds alternate between Kiln and the peers; medians and minima are printed, never judged."""
import argparse
import importlib
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def modules():
    sys.path.insert(0, str(HERE))
    for file in sorted(HERE.glob("bench_*.py")):
        yield file.stem.removeprefix("bench_").replace("_", "-"), importlib.import_module(file.stem)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, module in modules():
        one = names.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__,
                               formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_options(one)
        one.set_defaults(run=module.run)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.run(options, pathlib.Path(folder))


main()
