"""Nodes of expressions: an operation, its arguments and its data; equal nodes are one object.

A node is of one of three sorts: index (an integer that says where), number (an extended real) or truth.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import ref

from anydml.schema.symbol import Symbol

INDEX, NUMBER, TRUTH = "index", "number", "truth"
Operand: TypeAlias = "Expr | int | float | Fraction | Symbol"

_INDEX_ARITHMETIC = {"add", "sub", "mul", "neg", "max", "min", "floordiv", "mod", "select"}
_TRUTHS = {"less", "less_equal", "equal", "both", "either", "not", "is_nan", "bit"}


class Variable:
    """An index variable, 0 .. size - 1; two variables differ even if their names do not."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: Any) -> None:
        self.name, self.size = name, size


class Expr:
    """A node: an operation, its arguments, and data that are not nodes."""

    __slots__ = ("__weakref__", "args", "below", "contents", "data", "depends", "integral", "op", "rewritten", "sort")

    def __init__(self, op: str, args: tuple[Expr, ...], data: Any, sort: str) -> None:
        self.op, self.args, self.data, self.sort = op, args, data, sort
        self.rewritten: Expr | Literal[False] | None = None  # see `identities`; False if unchanged, to avoid a cycle
        self.integral: bool | None = None  # see `integral`
        self.below: tuple[Expr, ...] | None = None  # see `walk`
        self.contents: tuple[tuple[Expr, ...], ...] | None = None  # see `loops_in`, `reads_in` and `divisions_in`
        self.depends: tuple[frozenset[Variable], ...] | None = None  # see `free`

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args)) or self.data!r})"

    def __add__(self, other: Operand) -> Expr:
        return arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return make("div", (number(self), number(other)))

    def __rtruediv__(self, other: Operand) -> Expr:
        return make("div", (number(other), number(self)))

    def __floordiv__(self, other: int | Symbol) -> Expr:
        """For indices, the quotient rounded down."""
        return self if type(other) is int and other == 1 else make("floordiv", (self, lift(other)))

    def __mod__(self, other: int | Symbol) -> Expr:
        """For indices, the remainder, from 0 to other - 1."""
        return make("mod", (self, lift(other)))

    def __neg__(self) -> Expr:
        return make("neg", (self,))

    def __pow__(self, exponent: int) -> Expr:
        """An integer power, as a product."""
        return make("power", (number(self),), exponent)

    def __lt__(self, other: Operand) -> Expr:
        return comparison("less", self, other)

    def __le__(self, other: Operand) -> Expr:
        return comparison("less_equal", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return comparison("less", other, self)

    def __ge__(self, other: Operand) -> Expr:
        return comparison("less_equal", other, self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while it is traced; use select(condition, a, b)")


class _Known(ref[Expr]):
    """A weak reference to a node, by which its key finds it as long as it is alive."""

    __slots__ = ("key",)
    key: Any


_nodes: dict[Any, _Known] = {}


def _forget(known: ref[Expr]) -> None:
    assert isinstance(known, _Known)
    if _nodes.get(known.key) is known:  # and not one to a node that was made since
        del _nodes[known.key]


def make(op: str, args: tuple[Expr, ...] = (), data: Any = None, sort: str | None = None) -> Expr:
    """The one node with this operation, these arguments and these data; sort: by default derived from the arguments."""
    # tensors by identity: a key that held the tensor that a recurrence reads would keep the node itself alive
    known_by = (id(data[0]), data[1]) if op == "read" else data
    key = (op, *map(id, args), type(data), known_by)
    known = _nodes.get(key)
    node = None if known is None else known()
    if node is None:
        node = Expr(op, args, data, sort or _sort(op, args))
        known = _nodes[key] = _Known(node, _forget)
        known.key = key
    return node


def _sort(op: str, args: tuple[Expr, ...]) -> str:
    if op in ("variable", "index", "rank") or op in ("first_largest", "first_smallest"):
        return INDEX
    if op in _TRUTHS:
        return TRUTH
    if op in _INDEX_ARITHMETIC:
        values = args[1:] if op == "select" else args
        if any(a.sort == INDEX for a in values) and all(a.sort == INDEX or is_integer(a) for a in values):
            return INDEX
    return NUMBER


class Constant(NamedTuple):
    """The data of a constant: its value, and whether it is an integer in kind (a Python int), not only in value."""

    value: Fraction | Symbol | float  # a float is -0.0, infinite or NaN
    integral: bool

    def __eq__(self, other: object) -> bool:  # 0.0 and -0.0 differ; NaN is NaN
        if self is other:
            return True
        if not isinstance(other, Constant) or self.integral != other.integral:
            return False
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return self.value == other.value
        return repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        x = self.value
        return hash((x.numerator, x.denominator, self.integral) if isinstance(x, Fraction) else (repr(x), self.integral))


def lift(x: Operand) -> Expr:
    """An operand as a node."""
    if isinstance(x, Expr):
        return x
    if type(x) is int:
        return _whole(x)
    if isinstance(x, float):
        special = x - x != 0 or (x == 0 and math.copysign(1, x) < 0)
        return make("constant", (), Constant(x if special else Fraction(x), False))
    if isinstance(x, Symbol):
        return make("constant", (), Constant(x, True))
    return make("constant", (), Constant(Fraction(x), isinstance(x, int)))


@lru_cache(maxsize=1024)
def _whole(n: int) -> Expr:
    return make("constant", (), Constant(Fraction(n), True))


_ZERO, _ONE = _whole(0), _whole(1)  # kept alive, so that they are made only once


def is_integer(e: Expr) -> bool:
    """Whether a node is an integer constant, which may serve as an index."""
    return e.op == "constant" and e.data.integral


def number(x: Operand) -> Expr:
    """An operand as a number; an index becomes its value."""
    e = lift(x)
    return make("position", (e,), None, NUMBER) if e.sort is INDEX else e


def arithmetic(op: str, a: Operand, b: Operand) -> Expr:
    """An operation on two numbers, or on two indices, which gives an index."""
    x, y = lift(a), lift(b)
    if x.sort is INDEX or y.sort is INDEX:
        if (x.sort is INDEX or is_integer(x)) and (y.sort is INDEX or is_integer(y)):
            return _index_arithmetic(op, x, y)
        x, y = number(x), number(y)
    return make(op, (x, y), None, NUMBER)


def _index_arithmetic(op: str, x: Expr, y: Expr) -> Expr:
    if op == "mul":
        if x is _ZERO or y is _ONE:
            return x
        if y is _ZERO or x is _ONE:
            return y
    elif y is _ZERO and op in ("add", "sub"):
        return x
    elif x is _ZERO and op == "add":
        return y
    return make(op, (x, y), None, INDEX)


def comparison(op: str, a: Operand, b: Operand) -> Expr:
    """A comparison of two numbers or two indices."""
    x, y = of_one_sort(lift(a), lift(b))
    return make(op, (x, y), None, TRUTH)


def of_one_sort(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Two operands: unchanged if both can be indices or neither is one; otherwise both as numbers."""
    if (x.sort is INDEX or y.sort is INDEX) and not all(e.sort is INDEX or is_integer(e) for e in (x, y)):
        return number(x), number(y)
    return x, y
