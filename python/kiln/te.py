"""Custom operators, as tensor expressions:

    op = te.Operator("maxplus")
    a = op.input("a", (64, 32))
    b = op.input("b", (32, 64))
    k = te.axis("k", 32)
    c = op.output("c", (64, 64), lambda i, j: te.reduce(te.max, a[i, k] + b[k, j], over=k))
    print(op)
    c = op(x, y)                         # by an interpreter: slow and exact
    m = kiln.tune(op, trials=64)         # a module, as of any model

Each call is checked at once; what is refused changes nothing. `op.schedule()` begins a schedule (`kiln.sched`).
"""
from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence

from kiln import _functions, _te
from kiln._errors import InvalidArgument
from kiln._expr import INDEX, Axis, Expr, Reduction, Value, called, dtype_of, expressions, literal
from kiln._functions import *  # noqa: F403
from kiln._module import Port
from kiln._tensor import Tensor as Memory
from kiln.sched import Schedule

__all__ = [
    *_functions.__all__, "Axis", "Expr", "Operator", "Reduction", "Tensor", "Value", "axis", "cast", "constant", "reduce", "select", "sum"
]  # fmt: skip

_INPUT, _CONSTANT, _OUTPUT = 1, 2, 3
# Combiners that blocks have without an operator.
_COMBINERS: dict[Callable[[Value, Value], Expr], str] = {_functions.add: "sum", _functions.mul: "prod", _functions.max: "max", _functions.min: "min"}


def axis(name: str, extent: int) -> Axis:
    """An iterator of `extent` values that reductions run over."""
    return Axis(name, extent)


def cast(value: Expr, dtype: object) -> Expr:
    """The value as another type: "int32", numpy.float32, torch.bool, ... Floats are cut towards zero."""
    word = dtype_of(dtype)
    return value if value.dtype == word else Expr(f"{word}({value.text})", word)


def constant(value: int | float | bool, dtype: object = "float32") -> Expr:
    """A number of that type."""
    return literal(value, dtype_of(dtype))


def select(condition: Expr, a: Value, b: Value) -> Expr:
    """`a` where the condition holds, else `b`; the other one is not computed."""
    left, right = expressions(a, b)
    return Expr(f"select({condition.text}, {left.text}, {right.text})", left.dtype)


def reduce(combine: Callable[[Value, Value], Expr], value: Expr, over: Axis | Sequence[Axis], init: Value | None = None) -> Reduction:
    """All values over the axes, combined by a function of two that is associative and commutative: te.add, te.mul, te.max,
    te.min, or one of your own. `init`: what it begins with; None: with the first value, or what changes nothing."""
    return Reduction(combine, value, [over] if isinstance(over, Axis) else list(over), init)


def sum(value: Expr, over: Axis | Sequence[Axis]) -> Reduction:
    """reduce(te.add, value, over)."""
    return reduce(_functions.add, value, over)


class Tensor:
    """A tensor of an operator: t[i, j] is its element, for indices that are expressions or numbers."""

    def __init__(self, name: str, shape: Sequence[int], dtype: str) -> None:
        self.name = name
        self.shape = tuple(int(extent) for extent in shape)
        self._dtype = dtype

    def __getitem__(self, index: Value | tuple[Value, ...]) -> Expr:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.shape):
            raise InvalidArgument(f"tensor '{self.name}' has {len(given)} indices: expected {len(self.shape)}")
        texts = [one.text if isinstance(one, Expr) else literal(one, INDEX).text for one in given]
        return Expr(f"{self.name}[{', '.join(texts)}]", self._dtype)

    def __iter__(self) -> Any:
        raise InvalidArgument(f"the elements of tensor '{self.name}' are not known yet: expected indices")

    def __repr__(self) -> str:
        return f"<tensor {self.name}: {self._dtype}{list(self.shape)}>"


def _iterators(function: Callable[..., object], rank: int) -> list[str]:
    """Names of the function's parameters; of *names, i0, i1, ..."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return [f"i{d}" for d in range(rank)]
    names = [one.name for one in parameters]
    if len(names) != rank:
        raise InvalidArgument(f"the function takes {len(names)} indices: expected {rank}, one for each dimension")
    return names


class Operator:
    """An operator under construction, which computes its outputs from its inputs. `print` shows it."""

    def __init__(self, name: str) -> None:
        self._native = _te.operator(name)
        self.name = name

    def _ports(self, role: int) -> tuple[Port, ...]:
        return tuple(Port(*port) for port in self._native.tensors(role))

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Name, type and shape of each input, in order."""
        return self._ports(_INPUT)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The same of each output."""
        return self._ports(_OUTPUT)

    def input(self, name: str, shape: Sequence[int], dtype: object = "float32") -> Tensor:
        """A tensor that callers give."""
        return self._declare("input", name, shape, dtype_of(dtype))

    def constant(self, name: str, data: Any) -> Tensor:
        """A tensor of these elements, an array with `shape` and `dtype`: it is packed when the operator is compiled."""
        made = self._declare("constant", name, data.shape, dtype_of(data.dtype))
        self._native.set_constant(len(self._native.tensors(_CONSTANT)) - 1, data)
        return made

    def compute(self, name: str, shape: Sequence[int], function: Callable[..., Any], dtype: object = None) -> Tensor:
        """A tensor that is used inside. `function` gives the element for indices, an expression or a `reduce`; its
        parameters name the iterators. `dtype`: None: the expression's."""
        return self._compute("temp", name, tuple(shape), function, dtype)

    def output(self, name: str, shape: Sequence[int], function: Callable[..., Any], dtype: object = None) -> Tensor:
        """A tensor that callers get; else as `compute`."""
        return self._compute("output", name, tuple(shape), function, dtype)

    def scan(
        self, name: str, combine: Callable[[Value, Value], Expr], x: Tensor, along: int = -1, output: bool = True
    ) -> Tensor:
        """A tensor of the shape of `x` in which each element combines those of `x` up to its own, along one dimension
        (te.add: running sums). `combine` is associative; it is applied in steps of 1, 2, 4, ... elements."""
        moved = range(len(x.shape))[along]
        names = [f"i{d}" for d in range(len(x.shape))]
        index: list[Value] = [Expr(one, INDEX) for one in names]
        at = Expr(names[moved], INDEX)
        lines: list[str] = []
        distance, extent = 1, x.shape[moved]
        while True:
            last = 2 * distance >= extent
            before = list(index)
            before[moved] = called("max", at - distance, 0)
            own = x[tuple(index)]
            element = select(at >= distance, combine(x[tuple(before)], own), own) if extent > 1 else own
            made, text = _block("output" if output and last else "temp", name if last else f"{name}.{distance}", x.shape, names, element)
            lines.append(text)
            x, distance = made, 2 * distance
            if last:
                break
        self._native.add("\n".join(lines))
        return x

    def repeat(self, steps: int, states: int, rows: int = 0) -> None:
        """Makes what is written one step of a recurrence of `steps` steps, which run one after the other. The first
        `states` inputs are states: given by the caller for the first step, then what the step before stored in the
        outputs of the same places; the caller gets those of the last step. The next `rows` inputs and all other outputs
        have a row for each step, in one more dimension in front. Other inputs are the same in every step."""
        if steps < 0 or states < 0 or rows < 0:
            raise InvalidArgument(f"repeat({steps}, {states}, {rows}): expected numbers of at least 0")
        self._native.repeat(steps, states, rows)

    def schedule(self) -> Schedule:
        """A schedule of the operator as it is now, or of one step of it, to be written by hand."""
        return Schedule(self._native.schedule())

    def __call__(self, *inputs: Memory) -> Any:
        """The outputs, computed by an interpreter: floats in double, rounded where they are stored. Inputs and outputs
        are as those of a module."""
        outputs = self._native.run(*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def __bytes__(self) -> bytes:
        """The operator as a model: what `kiln.tune`, and every command of the program, takes."""
        return self._native.model()

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<kiln.te.Operator {self.name} ({inputs}) -> ({outputs})>"

    def _declare(self, role: str, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        self._native.add(_declaration(role, name, shape, dtype))
        return Tensor(name, shape, dtype)

    def _compute(self, role: str, name: str, shape: tuple[int, ...], function: Callable[..., Any], dtype: object) -> Tensor:
        names = _iterators(function, len(shape))
        value = function(*(Expr(one, INDEX) for one in names))
        if isinstance(value, Reduction):
            if dtype is not None:
                value = value._replace(value=cast(value.value, dtype))
            maker = _reduction if value.combine in _COMBINERS else _halves
            made, text = maker(role, name, shape, names, value)
        else:
            element = value if isinstance(value, Expr) else literal(value, dtype_of(dtype or "float32"))
            made, text = _block(role, name, shape, names, element if dtype is None else cast(element, dtype))
        self._native.add(text)
        return made


# ---- lines of programs: each gives the tensor and the text that computes it ----


def _iters(names: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{name}:{int(extent)}" for name, extent in zip(names, shape))


def _declaration(role: str, name: str, shape: Sequence[int], dtype: str) -> str:
    return f"{role} {name}: {dtype}[{','.join(str(int(extent)) for extent in shape)}]"


def _block(
    role: str, name: str, shape: Sequence[int], names: Sequence[str], element: Expr, reduced: str = "", word: str = "", init: str = ""
) -> tuple[Tensor, str]:
    head = f"block {name}({_iters(names, shape)}{reduced})"
    text = f"{_declaration(role, name, shape, element.dtype)}\n{head}: {name}[{', '.join(names)}] {word}= {element.text}{init}"
    return Tensor(name, shape, element.dtype), text


def _reduction(role: str, name: str, shape: Sequence[int], names: Sequence[str], value: Reduction) -> tuple[Tensor, str]:
    """By a combiner that blocks have."""
    reduced = " | " + _iters([one.text for one in value.axes], [one.extent for one in value.axes])
    init = "" if value.init is None else f" init {expressions(value.init, value.value)[0].text}"
    return _block(role, name, shape, names, value.value, reduced, _COMBINERS[value.combine], init)


def _halves(role: str, name: str, shape: Sequence[int], names: Sequence[str], value: Reduction) -> tuple[Tensor, str]:
    """By a function of the user's: all values, then each two neighbours, until one is left along each axis."""
    iterators = [*names, *(one.text for one in value.axes)]
    extents = [*shape, *(one.extent for one in value.axes)]
    if not value.axes or 0 in extents[len(shape) :]:
        raise InvalidArgument(f"'{name}' combines no values: expected axes of one value or more")
    made, text = _block("temp", f"{name}.values", extents, iterators, value.value)
    lines = [text]
    while len(extents) > len(shape):
        extent = extents[-1]
        index: list[Value] = [Expr(one, INDEX) for one in iterators[:-1]]
        at = Expr(iterators[-1], INDEX) * 2
        left = made[tuple([*index, at if extent > 2 else 0])]
        if extent > 1:
            both = value.combine(left, made[tuple([*index, called("min", at + 1, extent - 1) if extent > 2 else 1])])
            left = select(at + 1 < extent, both, left) if extent % 2 else both
        extents[-1] = (extent + 1) // 2
        if extents[-1] == 1:
            extents.pop()
            iterators.pop()
        last = len(extents) == len(shape)
        if last and value.init is not None:
            left = value.combine(value.init, left)
        made, text = _block(role if last else "temp", name if last else f"{name}.{len(lines)}", extents, iterators, left)
        lines.append(text)
    return made, "\n".join(lines)
