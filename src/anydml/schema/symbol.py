"""Symbols for numbers, such as `Input.Sizes[2]`, with which formulas in the documentation are traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Symbol:
    """A number with a text. Arithmetic makes longer texts; branches use the value, which is an example's."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: Any) -> None:
        self.text, self.value = text, value

    def __repr__(self) -> str:
        return self.text

    def __index__(self) -> int:
        """The value, for slices of lists, which are as long as in the example."""
        return operator.index(self.value)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Symbol) else bool(self.value == other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _value(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= _value(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _value(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= _value(other))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __add__(self, other: Any) -> Any:
        return self if _is(other, 0) else _joined(self, "+", other)

    def __radd__(self, other: Any) -> Any:
        return self if _is(other, 0) else _joined(other, "+", self)

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0) else _joined(self, "-", other)

    def __rsub__(self, other: Any) -> Any:
        return -self if _is(other, 0) else _joined(other, "-", self)

    def __mul__(self, other: Any) -> Any:
        return other if _is(other, 0) else self if _is(other, 1) else _joined(self, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return other if _is(other, 0) else self if _is(other, 1) else _joined(other, "*", self)

    def __floordiv__(self, other: Any) -> Any:
        return self if _is(other, 1) else _joined(self, "//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _joined(other, "//", self)

    def __mod__(self, other: Any) -> Any:
        return _joined(self, "mod", other)

    def __neg__(self) -> Symbol:
        return Symbol(f"-{_bracketed(self)}", -self.value)


def _is(x: Any, n: int) -> bool:
    """Whether an operand is the number itself, not a symbol with its value."""
    return type(x) is int and x == n


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Symbol) else x


def _bracketed(x: Any) -> str:
    return f"({x!r})" if isinstance(x, Symbol) and " " in x.text else repr(x)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "mod": operator.mod,
}  # fmt: skip


def _joined(a: Any, sign: str, b: Any) -> Any:
    if not all(isinstance(x, (int, float, Symbol)) for x in (a, b)):
        return NotImplemented
    left = repr(a) if sign in "+-" else _bracketed(a)
    right = repr(b) if sign == "+" else _bracketed(b)
    text = f"{left} {sign} {right}".replace("+ -", "- ")
    return Symbol(text, _OPERATORS[sign](_value(a), _value(b)))
