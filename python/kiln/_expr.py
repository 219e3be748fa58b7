"""Expressions: text of Kiln's programs under construction, with its type."""
from __future__ import annotations

import math
from typing import Callable, NamedTuple, Sequence, Union

from kiln._errors import InvalidArgument

# Element types as programs write them.
DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0", "float4_e2m1fn": "f4e2m1",
}  # fmt: skip
INDEX = "i64"
_COMPARISON, _SUM, _PRODUCT, _WHOLE = range(4)
_LEVEL = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "<": _COMPARISON, "<=": _COMPARISON, "==": _COMPARISON, "!=": _COMPARISON}

Value = Union["Expr", int, float, bool]


def dtype_of(name: object) -> str:
    """The name that programs use, from that of numpy, torch or the user."""
    word = name.__name__ if isinstance(name, type) else str(name).split(".")[-1]
    if word not in DTYPES:
        raise InvalidArgument(f"the element type is {word!r}: expected one of {', '.join(DTYPES)}")
    return DTYPES[word]


class Expr:
    """The value of an expression at one point of a tensor. Arithmetic of Python makes larger ones: + - * / // % **,
    comparisons, & | ^ ~ << >>; numbers take the other operand's type. Other operators are functions of `kiln.te`."""

    __slots__ = ("text", "dtype", "_level")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str, dtype: str, level: int = _WHOLE) -> None:
        self.text = text
        self.dtype = dtype
        self._level = level

    def within(self, level: int) -> str:
        """Its text, in brackets where it binds less than `level`."""
        return f"({self.text})" if self._level < level else self.text

    def __bool__(self) -> bool:
        raise InvalidArgument(f"whether {self.text} holds is not known yet: expected kiln.te.select, and & | ~ in place of and, or, not")

    def __repr__(self) -> str:
        return f"<{self.dtype} {self.text}>"

    def __add__(self, other: Value) -> Expr:
        return infix("+", self, other)

    def __radd__(self, other: Value) -> Expr:
        return infix("+", other, self)

    def __sub__(self, other: Value) -> Expr:
        return infix("-", self, other)

    def __rsub__(self, other: Value) -> Expr:
        return infix("-", other, self)

    def __mul__(self, other: Value) -> Expr:
        return infix("*", self, other)

    def __rmul__(self, other: Value) -> Expr:
        return infix("*", other, self)

    def __truediv__(self, other: Value) -> Expr:
        return infix("/", self, other)

    def __rtruediv__(self, other: Value) -> Expr:
        return infix("/", other, self)

    def __floordiv__(self, other: Value) -> Expr:
        return called("floordiv", self, other)

    def __mod__(self, other: Value) -> Expr:
        return called("floormod", self, other)

    def __pow__(self, other: Value) -> Expr:
        return called("pow", self, other)

    def __neg__(self) -> Expr:
        return called("neg", self)

    def __abs__(self) -> Expr:
        return called("abs", self)

    def __invert__(self) -> Expr:
        return called("not", self)

    def __and__(self, other: Value) -> Expr:
        return called("and", self, other)

    def __or__(self, other: Value) -> Expr:
        return called("or", self, other)

    def __xor__(self, other: Value) -> Expr:
        return called("xor", self, other)

    def __lshift__(self, other: Value) -> Expr:
        return called("shl", self, other)

    def __rshift__(self, other: Value) -> Expr:
        return called("shr", self, other)

    def __lt__(self, other: Value) -> Expr:
        return compared("<", self, other)

    def __le__(self, other: Value) -> Expr:
        return compared("<=", self, other)

    def __gt__(self, other: Value) -> Expr:
        return compared("<", other, self)

    def __ge__(self, other: Value) -> Expr:
        return compared("<=", other, self)

    def __eq__(self, other: Value) -> Expr:  # type: ignore[override]
        return compared("==", self, other)

    def __ne__(self, other: Value) -> Expr:  # type: ignore[override]
        return compared("!=", self, other)


class Axis(Expr):
    """An iterator that a reduction runs over."""

    __slots__ = ("extent",)

    def __init__(self, name: str, extent: int) -> None:
        super().__init__(name, INDEX)
        self.extent = extent


class Reduction(NamedTuple):
    """What `kiln.te.reduce` gives, and `compute` takes."""

    combine: Callable[[Value, Value], Expr]
    value: Expr
    axes: Sequence[Axis]
    init: Value | None


def literal(value: int | float | bool, dtype: str) -> Expr:
    """A number as an expression of that type."""
    if dtype == "bool":
        if not isinstance(value, bool):
            raise InvalidArgument(f"{value!r} meets a bool: expected True or False")
        return Expr("true" if value else "false", dtype)
    number = float(value)
    if not dtype.startswith(("f", "b")):
        if number != int(value):
            raise InvalidArgument(f"{value!r} meets {dtype}: expected a whole number, or kiln.te.cast of the other side")
        text = f"{int(value)}{'' if dtype == INDEX else dtype}"
    elif not math.isfinite(number):
        text = {True: "nan"}.get(math.isnan(number), "inf" if number > 0 else "-inf")
        return Expr(text if dtype == "f32" else f"{dtype}({text})", dtype)
    else:
        text = repr(number) + ("" if dtype == "f32" else dtype)
    return Expr(text, dtype, _SUM if value < 0 else _WHOLE)


def expressions(*values: Value) -> list[Expr]:
    """All of one type: that of those which have one."""
    known = [value for value in values if isinstance(value, Expr)]
    if not known:
        raise InvalidArgument("all are numbers: expected an expression among them (kiln.te.constant gives a number a type)")
    dtype = known[0].dtype
    for other in known:
        if other.dtype != dtype:
            raise InvalidArgument(f"{known[0].text} is {dtype} and {other.text} is {other.dtype}: expected one type (kiln.te.cast)")
    return [value if isinstance(value, Expr) else literal(value, dtype) for value in values]


def infix(word: str, a: Value, b: Value) -> Expr:
    """`a word b`."""
    left, right = expressions(a, b)
    level = _LEVEL[word]
    return Expr(f"{left.within(level)} {word} {right.within(level + 1)}", left.dtype, level)


def compared(word: str, a: Value, b: Value) -> Expr:
    """The same, a bool."""
    left, right = expressions(a, b)
    return Expr(f"{left.within(_SUM)} {word} {right.within(_SUM)}", "bool", _COMPARISON)


def called(word: str, *values: Value, gives_bool: bool = False) -> Expr:
    """`word(a, b)`."""
    given = expressions(*values)
    return Expr(f"{word}({', '.join(one.text for one in given)})", "bool" if gives_bool else given[0].dtype)
