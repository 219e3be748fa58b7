"""Schedules written by hand:

    s = op.schedule()
    outer, inner = s.split("c.j", -1, 16).loops
    s.reorder("c.k", inner)
    s.vectorize(inner)
    s.parallel("c.i")
    print(s)                  # the program as it is now
    s(x, y)                   # what it computes; finds races
    kiln.compile(op, "op.kiln", schedule=s)

Each step is checked at once: `kiln.IllegalSchedule` names the loop or block and the reason, and the schedule stays as
it was. The primitives are described in docs/reference/trace-text.md.
"""
from __future__ import annotations

from typing import Any

from kiln._step import Made, Sample
from kiln._steps import Steps
from kiln._tensor import Tensor as Memory

__all__ = ["Made", "Sample", "Schedule"]

_LOOPS, _BLOCKS, _BUFFERS = 1, 2, 3


class Schedule(Steps):
    """A schedule of an operator, made by `kiln.te.Operator.schedule`. It begins with a serial loop "BLOCK.ITERATOR" for
    each iterator of each block. `print` shows its program."""

    @property
    def trace(self) -> str:
        """The steps so far, a line each, as `apply` takes them."""
        return self._native.trace()

    @property
    def task(self) -> str:
        """Key of the operator's task, by which databases know it."""
        return self._native.task()

    @property
    def loops(self) -> tuple[str, ...]:
        """Names of all loops, in the order of the program."""
        return self._native.names(_LOOPS)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of all blocks, likewise."""
        return self._native.names(_BLOCKS)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of all buffers: those of the operator are called x0, w1, y2, t3, ..."""
        return self._native.names(_BUFFERS)

    def loops_around(self, block: str) -> tuple[str, ...]:
        """Names of the loops around a block, outermost first."""
        return self._native.loops_around(block)

    def apply(self, lines: str) -> Made:
        """Applies lines of a trace, all or none."""
        return Made(*self._native.apply(lines))

    def __call__(self, *inputs: Memory) -> Any:
        """The outputs, computed by the scheduled program, loop by loop. Raises `kiln.FailedPrecondition` for a race,
        and for elements that are read before they are written. Inputs and outputs are as those of a module."""
        outputs = self._native.run(*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def __str__(self) -> str:
        return self._native.program()
