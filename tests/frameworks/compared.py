"""Models that Kiln's importers made, compiled and run beside the framework's own results. Runs where the framework and the package
kiln are."""
import os
import sys
import tempfile

import numpy as np

import kiln

ERROR_MAX = 1e-4  # largest error over the largest magnitude: sums of floats in another order


def runs(model, **options):
    """The compiled model: a function of its inputs, in order, that returns a list of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.kiln")
        kiln.compile(model, path, db="none", **options)
        module = kiln.load(path)

    def call(*inputs):
        outputs = module(*(np.ascontiguousarray(x) for x in inputs))
        return list(outputs) if isinstance(outputs, tuple) else [outputs]

    return call


def differs(name, got, want):
    """Says on stdout where results differ, or where they would not show it."""
    assert len(got) == len(want), f"{name}: {len(got)} outputs instead of {len(want)}"
    for one, expected in zip(got, want):
        one, expected = np.asarray(one), np.asarray(expected)
        if one.shape != expected.shape or one.dtype != expected.dtype:
            print(f"{name}: {one.dtype}{one.shape} instead of {expected.dtype}{expected.shape}")
            continue
        error = np.abs(one.astype("d") - expected.astype("d")).max() / np.abs(expected).max()
        print(f"{name}: largest error {error:.3g}", file=sys.stderr)
        if np.ptp(expected.astype("d")) < 0.01 * np.abs(expected).max():
            print(f"{name}: every element is about {expected.flat[0]}, which shows nothing")
        if not error <= ERROR_MAX:
            print(f"{name}: largest error {error:.3g}; allowed is {ERROR_MAX}")
