"""Kiln: compiled models in Python.

    m = kiln.tune("model.onnx", trials=64)    # or load("model.kiln")
    y = m(x)

    kiln.Database().best(target="native").frame()

Every error is a `kiln.Error`, of a class of its own for each code.
"""
from kiln import _errors
from kiln._errors import *  # noqa: F403
from kiln._module import Device, Module, Port, Sizes, Step, StepTime, load
from kiln._run import Array, Call, verify, version as __version__
from kiln._tensor import SupportsDLPack

__all__ = [
    *_errors.__all__,
    "Array",
    "Call",
    "Device",
    "Module",
    "Port",
    "Sizes",
    "Step",
    "StepTime",
    "SupportsDLPack",
    "__version__",
    "load",
    "verify",
]

try:
    from kiln._database import Database, Rows
    from kiln import sched, te
    from kiln._frameworks import from_jax, from_keras, from_onnx, from_saved_model, from_tflite, from_torch
    from kiln._tune import Fleet, Job, Progress, compile, submit, tune
except ModuleNotFoundError as missing:  # the wheel kiln-run
    if missing.name not in ("kiln._database", "kiln._query", "kiln._request"):
        raise
else:
    __all__ += ["Database", "Fleet", "Job", "Progress", "Rows", "compile", "sched", "submit", "te", "tune"]
    __all__ += ["from_jax", "from_keras", "from_onnx", "from_saved_model", "from_tflite", "from_torch"]
