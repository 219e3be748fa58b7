"""Model files of other frameworks to ONNX: python -m kiln.convert FILE -o OUT.onnx"""
from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import sys
import tempfile
from typing import Any, Callable

from kiln._errors import BY_EXIT, InvalidArgument, NotFound
from kiln._frameworks import fits_one_file, imported, keras_proto, onnx_bytes, saved_model_proto, torch_proto


def _keras(path: pathlib.Path) -> Any:
    (keras,) = imported("keras", "keras")
    return keras_proto(keras.saving.load_model(path, compile=False))


def _tflite(path: pathlib.Path) -> Any:
    (converter,) = imported("keras", "tf2onnx.convert")
    proto, _ = converter.from_tflite(str(path))
    return proto


def _torch(path: pathlib.Path) -> Any:
    (torch,) = imported("torch", "torch")
    return torch_proto(torch.export.load(path), None)


# By how the name ends, "/": a folder: the reader, which gives an onnx.ModelProto, and what such a file is.
KINDS: dict[str, tuple[Callable[[pathlib.Path], Any], str]] = {
    "/": (saved_model_proto, "a folder that is a SavedModel"),
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
    return onnx_bytes(_read(path))


def _read(path: str | os.PathLike[str]) -> Any:
    file = pathlib.Path(path)
    if not file.exists():
        raise NotFound("there is no such file")
    kind = KINDS.get("/" if file.is_dir() else file.suffix)
    if kind is None:
        known = "; ".join(f"{suffix}, {what}" for suffix, (_, what) in KINDS.items())
        raise InvalidArgument(
            f"the name is of no kind that can be converted: expected {known}. Weights alone (.pt, .safetensors) do not say what is "
            "computed, and functions of JAX have no file: use kiln.from_torch and kiln.from_jax in the program that has the model"
        )
    return kind[0](file)


def write(proto: Any, path: str | os.PathLike[str]) -> None:
    """Writes an onnx.ModelProto, whole or not at all. One that is too large for a file leaves its tensors in PATH.data beside it, where
    `kiln` and other readers of ONNX look for them."""
    target = pathlib.Path(path)
    with tempfile.TemporaryDirectory(prefix=".kiln-", dir=target.parent) as folder:
        made, beside = pathlib.Path(folder, target.name), pathlib.Path(folder, target.name + ".data")
        if fits_one_file(proto):
            made.write_bytes(proto.SerializeToString())
        else:
            importlib.import_module("onnx").save_model(proto, made, save_as_external_data=True, location=beside.name)
            beside.replace(target.parent / beside.name)
        made.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kiln.convert", description="Converts a model of another framework to ONNX.")
    parser.add_argument("file", metavar="FILE", help="; ".join(f"{suffix}: {what}" for suffix, (_, what) in KINDS.items()))
    parser.add_argument("-o", "--output", metavar="OUT.onnx", required=True, help="where the ONNX model goes")
    options = parser.parse_args()
    try:
        write(_read(options.file), options.output)
    except Exception as error:  # the converters' own among them
        print(f"kiln.convert: {options.file}: {str(error) or type(error).__name__}", file=sys.stderr)
        sys.exit(next((code for code, kind in BY_EXIT.items() if kind is type(error)), 1))


if __name__ == "__main__":
    main()
