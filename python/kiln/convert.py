"""Model files of other frameworks to ONNX: python -m kiln.convert FILE -o OUT.onnx"""
from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Callable

from kiln._errors import BY_EXIT, InvalidArgument, NotFound
from kiln._frameworks import from_keras, from_torch, imported, onnx_bytes


def _keras(path: pathlib.Path) -> bytes:
    (keras,) = imported("keras", "keras")
    return from_keras(keras.saving.load_model(path, compile=False))


def _tflite(path: pathlib.Path) -> bytes:
    (converter,) = imported("keras", "tf2onnx.convert")
    proto, _ = converter.from_tflite(str(path))
    return onnx_bytes(proto)


def _torch(path: pathlib.Path) -> bytes:
    (torch,) = imported("torch", "torch")
    return from_torch(torch.export.load(path), None)


# By how the name ends: the reader, and what such a file is.
KINDS: dict[str, tuple[Callable[[pathlib.Path], bytes], str]] = {
    ".keras": (_keras, "a Keras model"),
    ".h5": (_keras, "a Keras model of before version 3"),
    ".pt2": (_torch, "a program of torch.export.save"),
    ".tflite": (_tflite, "a TFLite model, which kiln also reads itself"),
}


def convert(path: str | os.PathLike[str]) -> bytes:
    """The model in a file as the bytes of an ONNX model. What the file is, the end of its name says (`KINDS`).

    Raises `kiln.NotFound` without a file, `kiln.InvalidArgument` for a kind that is not here, and what `kiln.from_torch` and
    the others raise.
    """
    file = pathlib.Path(path)
    if not file.exists():
        raise NotFound("there is no such file")
    kind = KINDS.get(file.suffix)
    if kind is None:
        known = "; ".join(f"{suffix}, {what}" for suffix, (_, what) in KINDS.items())
        raise InvalidArgument(
            f"the name is of no kind that can be converted: expected {known}. Weights alone (.pt, .safetensors) do not say what is "
            "computed, and functions of JAX have no file: use kiln.from_torch and kiln.from_jax in the program that has the model"
        )
    return kind[0](file)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kiln.convert", description="Converts a model of another framework to ONNX.")
    parser.add_argument("file", metavar="FILE", help="; ".join(f"{suffix}: {what}" for suffix, (_, what) in KINDS.items()))
    parser.add_argument("-o", "--output", metavar="OUT.onnx", required=True, help="where the ONNX model goes")
    options = parser.parse_args()
    part = pathlib.Path(options.output + ".part")
    try:
        part.write_bytes(convert(options.file))
        part.replace(options.output)
    except Exception as error:  # the converters' own among them
        part.unlink(missing_ok=True)
        print(f"kiln.convert: {options.file}: {str(error) or type(error).__name__}", file=sys.stderr)
        sys.exit(next((code for code, kind in BY_EXIT.items() if kind is type(error)), 1))


if __name__ == "__main__":
    main()
