"""Models of other frameworks as ONNX models, each by the converter that its own project maintains."""
from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from typing import Any

from kiln._errors import FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted, Unimplemented
from kiln._tune import Model

_BYTES_MAX = 2**31 - 1 - 2**24  # protobuf's own limit, less what stands beside the tensors


def requirements(framework: str) -> list[str]:
    """What the converter of "torch", "keras" or "jax" is made of, as pip spells it: the versions that Kiln's tests use."""
    lines = (pathlib.Path(__file__).parent / "frameworks" / f"{framework}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def imported(framework: str, *names: str) -> list[Any]:
    """Modules of a framework and its converter. Raises `kiln.FailedPrecondition`, which says what to install."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        wanted = " ".join(f"'{line}'" for line in requirements(framework))
        raise FailedPrecondition(f"models of {framework} cannot be converted ({error}): pip install {wanted}") from error


def fits_one_file(proto: Any) -> bool:
    """Whether an onnx.ModelProto can be bytes. Tensors are counted, as protobuf counts by writing what is too large."""
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) <= _BYTES_MAX


def onnx_bytes(proto: Any) -> bytes:
    """The bytes of an onnx.ModelProto. Raises `kiln.ResourceExhausted` where it is too large for one file."""
    if not fits_one_file(proto):
        raise ResourceExhausted(
            f"the tensors of the model have more than {_BYTES_MAX} bytes, which one ONNX file cannot hold: python -m kiln.convert puts them beside it"
        )
    return bytes(proto.SerializeToString())


def _sequence(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def from_torch(module: Any, example: Any, **options: Any) -> bytes:
    """A torch.nn.Module, or a torch.export.ExportedProgram, as the bytes of an ONNX model, for `kiln.tune` and `kiln.compile`.

    `example`: a tensor, or a tuple of them, of the inputs' types and shapes; their values do not matter. `options`
    are those of torch.onnx.export: input_names=["x"], dynamic_shapes=({0: "batch"},).

    Raises `kiln.FailedPrecondition` where torch or onnxscript is missing or the module is in training mode, and what
    torch.onnx raises for what it cannot convert.
    """
    return onnx_bytes(torch_proto(module, example, **options))


def torch_proto(module: Any, example: Any, **options: Any) -> Any:
    """The same as an onnx.ModelProto, of any size."""
    torch, _ = imported("torch", "torch", "onnxscript")
    if getattr(module, "training", False) and not isinstance(module, torch.export.ExportedProgram):
        raise FailedPrecondition("the module is in training mode, in which dropout and batch normalisation compute something else: call module.eval() first")
    with torch.no_grad():
        program = torch.onnx.export(module, _sequence(example), dynamo=True, verbose=False, **options)
    return program.model_proto


def from_keras(model: Any, batch: int | None = 1, **options: Any) -> bytes:
    """A Keras model as the bytes of an ONNX model, for `kiln.tune` and `kiln.compile`.

    `batch`: the first dimension of inputs where the model leaves it open; None: it stays open, for dim={"batch": 8} of `kiln.tune`.
    `options` are those of Keras' model.export.

    Raises `kiln.FailedPrecondition` where Keras or tf2onnx is missing, and `kiln.Unimplemented` for operators that tf2onnx does not
    convert.
    """
    return onnx_bytes(keras_proto(model, batch, **options))


def keras_proto(model: Any, batch: int | None = 1, **options: Any) -> Any:
    """The same as an onnx.ModelProto, of any size."""
    keras, onnx, _ = imported("keras", "keras", "onnx", "tf2onnx")
    inputs = [keras.InputSpec(shape=(x.shape[0] or batch, *x.shape[1:]), dtype=x.dtype, name=x.name) for x in model.inputs]
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = pathlib.Path(folder, "model.onnx")
        model.export(str(path), format="onnx", verbose=False, input_signature=inputs, **options)
        proto = onnx.load(path)
    _check_operators(onnx, proto)
    if batch is None:
        _name_batch(proto.graph)
    return proto


def _check_operators(onnx: Any, proto: Any) -> None:
    """tf2onnx leaves operators that it does not know in the model."""
    unknown = {node.op_type for node in proto.graph.node if not onnx.defs.has(node.op_type, node.domain)}
    if unknown:
        raise Unimplemented(f"tf2onnx does not convert {', '.join(sorted(unknown))}: expected a model without; the TFLite converter of TensorFlow may know more (kiln.from_tflite)")


def from_saved_model(path: str | os.PathLike[str], batch: int | None = 1, signature: str = "serving_default") -> bytes:
    """A SavedModel of TensorFlow, a folder, as the bytes of an ONNX model, for `kiln.tune` and `kiln.compile`: one of its signatures,
    whose inputs and outputs keep their names.

    `batch`: as of `kiln.from_keras`.

    Raises `kiln.NotFound` where the folder is none or has no such signature, `kiln.FailedPrecondition` where TensorFlow or tf2onnx is
    missing, and `kiln.Unimplemented` for operators that tf2onnx does not convert.
    """
    return onnx_bytes(saved_model_proto(path, batch, signature))


def saved_model_proto(path: str | os.PathLike[str], batch: int | None = 1, signature: str = "serving_default") -> Any:
    """The same as an onnx.ModelProto, of any size."""
    if not pathlib.Path(path, "saved_model.pb").exists():
        raise NotFound(f"{os.fspath(path)} is no SavedModel: it has no saved_model.pb")
    tensorflow, onnx, converter = imported("keras", "tensorflow", "onnx", "tf2onnx.convert")
    loaded = tensorflow.saved_model.load(os.fspath(path))  # it owns the variables: it must outlive the conversion
    if signature not in loaded.signatures:
        raise NotFound(f"the SavedModel has no signature {signature!r}: expected one of {', '.join(sorted(loaded.signatures))}")
    call = loaded.signatures[signature]
    given = sorted(call.structured_input_signature[1].items())
    specs = [tensorflow.TensorSpec((spec.shape[0] or batch, *spec.shape[1:]) if spec.shape.rank else (), spec.dtype, name=name) for name, spec in given]
    function = tensorflow.function(lambda *inputs: call(**{name: x for (name, _), x in zip(given, inputs)}))
    proto, _ = converter.from_function(function, input_signature=specs)
    _check_operators(onnx, proto)
    if batch is None:
        _name_batch(proto.graph)
    return proto


def _name_batch(graph: Any) -> None:
    """Calls the open first dimension of the inputs "batch", which tf2onnx numbers."""
    first = {value.type.tensor_type.shape.dim[0].dim_param for value in graph.input}
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param in first:
                dim.dim_param = "batch"


def from_jax(function: Any, example: Any, **options: Any) -> bytes:
    """A function of JAX arrays as the bytes of an ONNX model, for `kiln.tune` and `kiln.compile`. What it closes over, as its
    weights, becomes constants.

    `example`: an array, or a tuple of them, of the inputs' types and shapes; their values do not matter. `options` are
    those of jax2onnx.to_onnx.

    Raises `kiln.FailedPrecondition` where jax or jax2onnx is missing, and what jax2onnx raises for what it cannot convert.
    """
    jax, jax2onnx = imported("jax", "jax", "jax2onnx")
    inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in _sequence(example)]
    return onnx_bytes(jax2onnx.to_onnx(function, inputs, **options))


def _checked(model: Model, is_kind: Any, kind: str) -> Model:
    """The model as it is, if its content is of the kind."""
    if isinstance(model, (str, os.PathLike)):
        try:
            with open(model, "rb") as file:
                head = file.read(8)
        except OSError as error:
            raise NotFound(f"{os.fspath(model)}: {error.strerror}") from error
    elif isinstance(model, (bytes, bytearray, memoryview)):
        head = bytes(model[:8])
    elif hasattr(model, "SerializeToString"):
        head = b""
    else:
        raise InvalidArgument(f"the model is of type {type(model).__name__}: expected a path, or the bytes of {kind}")
    if not is_kind(head):
        raise InvalidArgument(f"{os.fspath(model) if isinstance(model, (str, os.PathLike)) else 'the model'} is not {kind}")
    return model


def from_tflite(model: Model) -> Model:
    """A TFLite model, as a path or bytes. Nothing is converted, as `kiln.tune` and `kiln.compile` take such models
    themselves; this says at once where it is something else."""
    return _checked(model, lambda head: head[4:8] == b"TFL3", "a TFLite model")


def from_onnx(model: Model) -> Model:
    """An ONNX model, as a path, bytes or an onnx.ModelProto. Nothing is converted, as `kiln.tune` and `kiln.compile` take such
    models themselves; this says at once where it is a TFLite model instead."""
    return _checked(model, lambda head: head[4:8] != b"TFL3", "an ONNX model")
