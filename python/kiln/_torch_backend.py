"""torch.compile(model, backend="kiln"): graphs of PyTorch as modules of Kiln."""
from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, Callable

from kiln import _tune
from kiln._errors import InvalidArgument, Unimplemented
from kiln._frameworks import imported, onnx_bytes
from kiln._module import Module, load

# Options of `kiln.tune`, of which each makes the graph be tuned.
_TUNES = ("trials", "seconds", "tracker")


def _reason(error: BaseException) -> str:
    """The first line of the original cause, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class _Graph:
    """One graph that TorchDynamo traced, and a module of Kiln for each set of shapes it is called with.

    Weights are constants of a module, which is made anew once one of them was changed.
    """

    def __init__(self, torch: Any, graph: Any, options: dict[str, Any]) -> None:
        self._torch = torch
        self._graph = graph
        self._options = dict(options)
        self._fallback = self._options.pop("fallback", "eager")
        if self._fallback not in ("eager", "error"):
            raise InvalidArgument(f"option fallback is {self._fallback!r}: expected 'eager' or 'error'")
        self._runs: dict[Any, Callable[[list[Any]], tuple[Any, ...]]] = {}
        self._weights: list[tuple[Any, int]] = []  # and how often PyTorch has seen each written to

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        self._refuse_training(arguments)
        is_weight = [self._is_weight(x) for x in arguments]
        weights = [(x, 0 if x.is_inference() else x._version) for x, is_one in zip(arguments, is_weight) if is_one]
        if any(old is not new or before != now for (old, before), (new, now) in zip(self._weights, weights)):
            self._runs.clear()
        self._weights = weights
        key = tuple(x if not self._torch.is_tensor(x) else (x.shape, x.dtype, x.device) for x, is_one in zip(arguments, is_weight) if not is_one)
        if key not in self._runs:
            self._runs[key] = self._prepared(arguments, is_weight)
        return self._runs[key](list(arguments))

    def _refuse_training(self, arguments: tuple[Any, ...]) -> None:
        if self._torch.is_grad_enabled() and any(self._torch.is_tensor(x) and x.requires_grad for x in arguments):
            raise Unimplemented("kiln computes no gradients, and an input or weight of this graph wants them: call the model under torch.no_grad()")

    def _is_weight(self, argument: Any) -> bool:
        """Parameters and buffers of modules, which TorchDynamo passes as arguments."""
        return isinstance(argument, self._torch.nn.Parameter) or hasattr(argument, "_dynamo_static_input_type")

    def _prepared(self, arguments: tuple[Any, ...], is_weight: list[bool]) -> Callable[[list[Any]], tuple[Any, ...]]:
        try:
            return self._compiled(arguments, is_weight)
        except Unimplemented as error:
            if self._fallback == "error":
                raise
            warnings.warn(f"PyTorch itself runs a graph that kiln does not: {error}", stacklevel=3)
            graph: Callable[..., tuple[Any, ...]] = self._graph
            return lambda given: graph(*given)

    def _compiled(self, arguments: tuple[Any, ...], is_weight: list[bool]) -> Callable[[list[Any]], tuple[Any, ...]]:
        torch = self._torch
        varies = [i for i, x in enumerate(arguments) if not is_weight[i] and torch.is_tensor(x)]
        for i in varies:
            if arguments[i].device.type != "cpu" and "target" not in self._options:
                raise Unimplemented(f"an input is on {arguments[i].device}: expected it on the processor, or options={{'target': ...}}")
        module = self._module(self._exported(arguments, varies))
        outputs = [(port.shape, getattr(torch, port.dtype)) for port in module.outputs]

        def run(given: list[Any]) -> tuple[Any, ...]:
            inputs = [given[i].detach().contiguous() for i in varies]
            device = inputs[0].device if inputs else "cpu"
            results = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in outputs]
            module.run(inputs, results)
            return tuple(results)

        return run

    def _exported(self, arguments: tuple[Any, ...], varies: list[int]) -> bytes:
        """The graph as ONNX, with everything but `varies` as constants."""
        torch, graph = self._torch, self._graph

        class Frozen(torch.nn.Module):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()
                for i, x in enumerate(arguments):
                    if torch.is_tensor(x) and i not in varies:
                        self.register_buffer(f"constant{i}", x.detach())

            def forward(self, *inputs: Any) -> Any:
                own = dict(self.named_buffers())
                given = [own.get(f"constant{i}", x) for i, x in enumerate(arguments)]
                for i, value in zip(varies, inputs):
                    given[i] = value
                return graph(*given)

        try:
            with torch.no_grad():
                program = torch.export.export(Frozen().eval(), tuple(arguments[i] for i in varies), strict=False)
                program = program.run_decompositions({})  # tells what is written to; torch.onnx decomposes the rest
                proto = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
        except Exception as error:  # of many classes, as each part of PyTorch has its own
            raise Unimplemented(f"torch.onnx does not convert it: {_reason(error)}") from error
        signature = program.graph_signature
        if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
            raise Unimplemented("the graph writes into its inputs or buffers")
        if any(not isinstance(output.arg, torch.export.graph_signature.TensorArgument) for output in signature.output_specs):
            raise Unimplemented("the graph returns numbers or None beside tensors")
        return onnx_bytes(proto)

    def _module(self, model: bytes) -> Module:
        if any(self._options.get(name) is not None for name in _TUNES):
            return _tune.tune(model, **self._options)
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            path = os.path.join(folder, "graph.kiln")
            _tune.compile(model, path, **self._options)
            return load(path)


def backend(graph: Any, example: list[Any], options: dict[str, Any] | None = None, **_: Any) -> Callable[..., tuple[Any, ...]]:
    """What torch.compile calls with each graph (entry point torch_dynamo_backends). `options`: fallback="eager" (PyTorch
    itself runs a graph that Kiln does not support, after one warning) or "error", and those of `kiln.tune`, which tunes the
    graph where trials, seconds or tracker is given; else those of `kiln.compile`."""
    del example  # modules are made of what the graph is called with
    torch, _onnxscript = imported("torch", "torch", "onnxscript")
    return _Graph(torch, graph, options or {})
