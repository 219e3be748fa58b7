"""Modules: compiled models, ready to run."""
from __future__ import annotations

import os
from types import TracebackType
from typing import Any, NamedTuple

from kiln import _run
from kiln._errors import InvalidArgument
from kiln._tensor import Tensor, Tensors

_METADATA = ("model", "target", "codegen", "model_sha256", "dims", "software", "database", "tasks", "tuned")


class Port(NamedTuple):
    """An input or output: dense, in rows."""

    name: str
    dtype: str
    """Name of the element type, as numpy's: "float32", "int64", "bool"; "bfloat16" is torch's; "float8_e4m3fn" and other floats of at most 8 bits are those of ml_dtypes, one
        in each byte; without that package arrays of them are of uint8."""
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


class Step(NamedTuple):
    """One step of a run."""

    name: str
    """Of the graph's node or group of nodes."""
    op: str
    """As "conv2d+relu"."""
    task: str
    """Key of its task; "" where it is no kernel."""
    algorithm: str
    action: str
    """"kernel", "alias" (takes no time), "copy", "event", "loop" or "carry"."""
    flops: float
    """Operations of one run; inside a loop: of one iteration."""
    times: float
    """Executions in one run of the module; 0: known at run time only."""


class StepTime(NamedTuple):
    """The time of a step, summed over the runs of a profile."""

    step: Step
    calls: int
    total_ns: int
    """By the clock of this machine."""
    device_ns: int
    """By the clock of the step's device; 0 where it ran on the processor."""


class Device(NamedTuple):
    """As DLPack numbers devices: 1 the processor, 2 CUDA, 4 OpenCL."""

    type: int
    id: int


class Sizes(NamedTuple):
    """Sizes of one dimension that a module was compiled for."""

    dim: str
    """Name of the dimension in the model."""
    takes_all: bool
    """True: every size from 1 to the largest, padded or in parts; False: only those of `buckets`."""
    buckets: tuple[int, ...]
    """Sizes that it has kernels for, growing."""


class Module(_run.Module):
    """A compiled model, made by `kiln.load`. Call it with its inputs, in order or by name:

        y = m(x)
        y = m(x=x)

    An input is a numpy array, anything with the buffer protocol, or anything with `__dlpack__`,
    of exactly the type and shape that `inputs` says, in rows without gaps; nothing is copied (but
    by a run, where memory is not aligned to 64 bytes and a kernel wants that). Tensors on the
    module's own device are taken there; what was begun on them must be done (torch.cuda.synchronize).

    A module of several sizes (`sizes`) takes that of its inputs: the first one that has the dimension tells it.

    Returns the output, or a tuple of them in the order of `outputs`: new numpy arrays, or
    `kiln.Array`s where numpy is absent or lacks the type. Other threads run meanwhile. Calls
    of several threads on one module follow each other; load a module per thread to run at once.

    Raises `kiln.InvalidArgument` for inputs that are wrong, `kiln.OutOfRange` for a size that the module does
    not take, `kiln.FailedPrecondition` when the
    module is closed.
    """

    __slots__ = ("__weakref__",)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Name, type and shape of each input, in order; with several sizes, in the largest."""
        return tuple(Port(*port) for port in self._ports(False))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Name, type and shape of each output, in order; with several sizes, in the largest."""
        return tuple(Port(*port) for port in self._ports(True))

    @property
    def kept(self) -> dict[str, str]:
        """The inputs that are kept between runs (`keep`), with the outputs that they come from. They stay among `inputs`
        and `outputs`, but calls neither take nor return them."""
        return dict(self._kept())

    @property
    def sizes(self) -> Sizes | None:
        """The sizes that it takes; None: it has one."""
        sizes = self._numbers()["sizes"]
        return Sizes(*sizes) if sizes else None

    @property
    def output_rows(self) -> tuple[int, ...]:
        """Rows (of the first dimension) that the last run gave each output: fewer than the shape says where a
        loop's length is known at run time only; zeros stand behind them."""
        return self._rows()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of a run, in order."""
        return tuple(Step(*step) for step in self._steps())

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata: "model", "target", "codegen", and where it knows them "model_sha256",
        "dims", "software", "database", "tasks" and "tuned" (how many of the tasks have a measured schedule)."""
        pairs = ((key, self._metadata(key)) for key in _METADATA)
        return {key: value for key, value in pairs if value is not None}

    @property
    def threads(self) -> int:
        """Threads that a run uses."""
        return int(self._numbers()["threads"])

    @property
    def device(self) -> Device:
        """Where its kernels run; of a module with several devices, the first."""
        return Device(*self._numbers()["device"])

    @property
    def memory(self) -> dict[str, int]:
        """Bytes held: "arena" (activations), "packed" (weights, rearranged) and "constant" (in the file)."""
        numbers = self._numbers()
        return {key: int(numbers[f"{key}_bytes"]) for key in ("arena", "packed", "constant")}

    def run(self, inputs: Tensors, outputs: Tensors | None = None) -> Any:
        """Runs once on `inputs` into `outputs`, which must be writable, of the ports' types and shapes, and
        memory of their own; None: new ones. Each is a list or tuple in order, a dict by name, or the only
        tensor. Returns the outputs as a call does. Where memory stays the same, `bind` it once."""
        return self.bind(inputs, outputs)()

    def profile(self, *inputs: Tensor, runs: int = 10, **named: Tensor) -> list[StepTime]:
        """Runs `runs` times on the inputs (without any: on zeros) and returns the time of each step, in order. Steps
        inside of a loop are counted within the loop's time too."""
        if runs < 1 or runs >= 2**32:
            raise InvalidArgument(f"the number of runs is {runs}: expected 1 to {2**32 - 1}")
        given: Tensors | None = None
        if inputs or named:
            ports = [port for port in self.inputs if port.name not in self.kept]
            given = dict(named)
            for port, value in zip(ports, inputs):
                if port.name in given:
                    raise InvalidArgument(f"input '{port.name}' is given twice: expected it once")
                given[port.name] = value
            if len(inputs) > len(ports):
                raise InvalidArgument(f"{len(inputs)} inputs are given: expected {len(ports)}")
        times = self._profile(self.bind(given), runs)
        return [StepTime(step, *time) for step, time in zip(self.steps, times)]

    def __enter__(self) -> Module:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<kiln.Module {self.path!r}, closed>"
        inputs, outputs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<kiln.Module {self.path!r} ({inputs}) -> ({outputs})>"


def load(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], threads: int | None = None) -> Module:
    """Opens a module that `kiln.compile`, `kiln.tune` or the program `kiln` made. All that is slow happens here:
    kernels are linked and weights packed.

    `threads`: at most so many; None: as many as it was compiled for.

    Modules are native code: what is damaged is noticed (`kiln.DataLoss`), but a stranger's module is not made
    safe to run. Raises `kiln.NotFound` without a file, `kiln.FailedPrecondition` for a module of another
    target, and `kiln.Unimplemented` for one of a later version.
    """
    if threads is not None and not 1 <= threads < 2**32:
        raise InvalidArgument(f"threads is {threads}: expected 1 or more, or None")
    return _run.open(Module, path, threads or 0)
