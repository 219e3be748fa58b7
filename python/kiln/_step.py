"""Helpers that write the steps of schedules."""
from __future__ import annotations

import re
from typing import NamedTuple, Protocol, Sequence, Union

from kiln import _te

_BARE = re.compile(r"[A-Za-z0-9_.'~/+$]+")


class Made(NamedTuple):
    """Names that a step brought into the program, in its order: loops from the outermost."""

    loops: tuple[str, ...]
    blocks: tuple[str, ...]
    buffers: tuple[str, ...]


class Sample:
    """A decision of a sampler. `sample[k]` is element k of it: a number for later steps; of a `location`, the sample
    itself is a loop."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, element: int) -> Sample:
        return Sample(f"{self.text}[{element}]")

    def __mul__(self, other: int | Sample) -> Sample:
        return Sample(f"{self.text}*{other.text if isinstance(other, Sample) else other}")


class HasName(Protocol):
    """A tensor of the operator."""

    name: str


Name = Union[str, HasName, Sample]
Int = Union[int, Sample]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class StepsBase:
    """Writes a step as a line of a trace, and applies it."""

    def __init__(self, native: _te.Schedule) -> None:
        self._native = native

    def _operand(self, letter: str, value: object) -> str:
        if isinstance(value, Sample):
            return value.text
        if letter in "iI":
            return str(int(value))  # type: ignore[call-overload]
        text = str(getattr(value, "name", value))
        if letter == "u":
            text = self._native.tensor(text) or text
        return _quoted(text) if letter == "t" or not _BARE.fullmatch(text) else text

    def _line(self, primitive: str, letters: str, operands: Sequence[object]) -> str:
        each = letters + letters[-1:] * len(operands)  # the last one may be a list
        return f"{primitive}({', '.join(self._operand(letter, value) for letter, value in zip(each, operands))})"

    def _step(self, primitive: str, letters: str, operands: Sequence[object]) -> Made:
        return Made(*self._native.apply(self._line(primitive, letters, operands)))

    def _sample(self, primitive: str, letters: str, operands: Sequence[object], decision: int | Sequence[int]) -> Sample:
        letter = "t" if primitive == "perfect_tile" else primitive[0]
        name = f"{letter}{sum(' = ' in line for line in self._native.trace().splitlines())}"
        decided = decision if isinstance(decision, int) else list(decision)
        self._native.apply(f"{name} = {self._line(primitive, letters, operands)} = {decided}")
        return Sample(name)
