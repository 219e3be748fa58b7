"""Types of modules' inputs and outputs."""
import array
import mmap
from typing import Any, Protocol, Sequence, Union


class SupportsDLPack(Protocol):
    """A tensor of numpy, torch, jax, cupy, or of any library that supports DLPack."""

    def __dlpack__(self) -> Any: ...


# Memory of the process, or of the module's device, that is dense and in rows.
Tensor = Union[SupportsDLPack, memoryview, bytearray, bytes, "array.array[Any]", mmap.mmap]
# For all inputs or all outputs: in order, by name, or the only one.
Tensors = Union[Tensor, Sequence[Tensor], dict[str, Tensor]]
