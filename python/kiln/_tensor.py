"""Types of what modules read and write."""
import array
import mmap
from typing import Any, Protocol, Sequence, Union


class SupportsDLPack(Protocol):
    """A tensor of numpy, torch, jax, cupy, or of anything else that speaks DLPack."""

    def __dlpack__(self) -> Any: ...


# Memory of the process, or of the module's device, that is dense and in rows.
Tensor = Union[SupportsDLPack, memoryview, bytearray, bytes, "array.array[Any]", mmap.mmap]
# For all inputs or all outputs: in order, by name, or the only one.
Tensors = Union[Tensor, Sequence[Tensor], dict[str, Tensor]]
