"""The program `kiln`: the wheel's own, or the one on PATH."""
from __future__ import annotations

import pathlib
import shutil

from kiln._errors import NotFound


def kiln_program() -> str:
    """Its path. The others (kiln-tracker, kiln-tuner, kiln-rpc-server) lie beside it, where it finds them itself."""
    beside = pathlib.Path(__file__).parent / "bin" / "kiln"
    found = str(beside) if beside.exists() else shutil.which("kiln")
    if not found:
        raise NotFound("the program kiln is not found: expected it in the package (./dev wheel) or on PATH (meson install, or eval \"$(./dev env)\")")
    return found
