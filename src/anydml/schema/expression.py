"""Expressions: an operator's mathematics over the elements of its tensors, traced by calling a Python function on symbols.

Branches on attributes are resolved while tracing; branches on data are `select`. Tracing makes nodes; see `schema/node.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anydml.schema.node import (
    INDEX,
    NUMBER,
    Expr,
    Operand,
    Variable,
    arithmetic,
    comparison,
    is_integer,
    lift,
    make,
    number,
    of_one_sort,
)
from anydml.tensor import DataType

if TYPE_CHECKING:
    from anydml.schema.statement import Nest


class Tensor:
    """A tensor to read from, by its field's name; `definition` defines its elements if it is not an input.

    Reads outside the tensor: see `or_else` and `skipped`.
    """

    def __init__(self, name: str, sizes: Sequence[Any], data_type: DataType) -> None:
        self.name, self.sizes, self.data_type = name, tuple(sizes), data_type
        self.definition: Nest | None = None

    def __getitem__(self, at: Sequence[Operand]) -> Expr:
        return make("read", _indices(at), (self, "inside"), NUMBER)

    def or_else(self, at: Sequence[Operand], otherwise: Operand) -> Expr:
        """The element, or another value where an index lies outside."""
        return make("read", (*_indices(at), lift(otherwise)), (self, "otherwise"), NUMBER)

    def skipped(self, at: Sequence[Operand]) -> Expr:
        """The element; where an index lies outside, the term of the reduction that reads it is left out."""
        return make("read", _indices(at), (self, "skipped"), NUMBER)

    def broadcast(self, at: Sequence[Operand]) -> Expr:
        """The element at right-aligned indices; a dimension of size 1 is broadcast."""
        aligned = at[len(at) - len(self.sizes) :] if len(at) >= len(self.sizes) else at
        surplus = len(self.sizes) - len(aligned)  # leading sizes of 1
        return self[[0] * surplus + [0 if n == 1 else i for i, n in zip(aligned, self.sizes[surplus:], strict=True)]]


def _indices(at: Sequence[Operand]) -> tuple[Expr, ...]:
    indices = tuple(map(lift, at))
    for i in indices:
        if i.sort is not INDEX and not is_integer(i):
            raise TypeError(f"a tensor is read with indices; index() makes a number an index: {i!r}")
    return indices


# --- functions and decisions ---


def _function(op: str, meaning: str) -> Callable[..., Expr]:
    def apply(*args: Operand) -> Expr:
        return make(op, tuple(map(number, args)))

    apply.__name__, apply.__doc__ = op, meaning
    return apply


exp = _function("exp", "e^x.")
log = _function("log", "The natural logarithm.")
expm1 = _function("expm1", "e^x - 1.")
log1p = _function("log1p", "ln(1 + x).")
sin = _function("sin", "The sine of an angle in radians.")
cos = _function("cos", "The cosine of an angle in radians.")
tan = _function("tan", "The tangent of an angle in radians.")
asin = _function("asin", "The arc sine in radians.")
acos = _function("acos", "The arc cosine in radians.")
atan = _function("atan", "The arc tangent in radians.")
atan2 = _function("atan2", "The angle of the point (x, y) in radians, from (y, x).")
sinh = _function("sinh", "The hyperbolic sine.")
cosh = _function("cosh", "The hyperbolic cosine.")
tanh = _function("tanh", "The hyperbolic tangent.")
asinh = _function("asinh", "The inverse hyperbolic sine.")
acosh = _function("acosh", "The inverse hyperbolic cosine.")
atanh = _function("atanh", "The inverse hyperbolic tangent.")
erf = _function("erf", "The error function.")
erfc = _function("erfc", "1 - erf(x).")
sqrt = _function("sqrt", "The square root.")
pow = _function("pow", "x^y as IEEE 754 defines it.")
absolute = _function("absolute", "The magnitude.")
floor = _function("floor", "The largest integer that is not above x.")
ceil = _function("ceil", "The smallest integer that is not below x.")
truncate = _function("truncate", "The nearest integer toward zero.")
half_to_even = _function("half_to_even", "The nearest integer; at a tie, the even one.")
half_away = _function("half_away", "The nearest integer; at a tie, the one away from zero.")
fmod = _function("fmod", "The remainder of x / y rounded toward zero, as C's fmod: a zero has the sign of x.")
floor_mod = _function("floor_mod", "The remainder of x / y rounded down, as Python's %: a zero has the sign of y.")
is_nan = _function("is_nan", "Whether x is NaN.")


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger number or index; NaN if either is, and -0 < +0."""
    return arithmetic("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller number or index; NaN if either is, and -0 < +0."""
    return arithmetic("min", a, b)


def clamp(x: Operand, low: Operand, high: Operand) -> Expr:
    """min(high, max(low, x)): `high` where low > high."""
    return minimum(high, maximum(low, x))


def equal(a: Operand, b: Operand) -> Expr:
    """Whether two numbers or indices are equal, as IEEE 754 compares."""
    return comparison("equal", a, b)


def both(a: Expr, b: Expr) -> Expr:
    """The conjunction of two truths."""
    return make("both", (a, b))


def either(a: Expr, b: Expr) -> Expr:
    """The disjunction of two truths."""
    return make("either", (a, b))


def negation(a: Expr) -> Expr:
    """The negation of a truth."""
    return make("not", (a,))


def is_true(x: Operand) -> Expr:
    """Whether a number is not 0: the truth value of an element. NaN is true."""
    return negation(equal(x, 0))


def as_number(a: Expr) -> Expr:
    """1 for a truth that holds, 0 for one that does not."""
    return select(a, 1, 0)


def select(condition: Expr, a: Operand, b: Operand) -> Expr:
    """One of two numbers or indices; the other one is not evaluated."""
    return make("select", (condition, *of_one_sort(lift(a), lift(b))))


def integer_power(x: Operand, y: Operand, bits: int) -> Expr:
    """x^y of integers modulo 2^bits. For y < 0, it is the reciprocal of x^-y rounded toward zero, and 0 at x = 0."""
    return make("integer_power", (number(x), number(y)), bits)


def rounded(x: Operand, data_type: DataType) -> Expr:
    """A number rounded to a float type, where the operator's definition itself rounds."""
    return make("round", (number(x),), data_type)


def held(x: Operand, data_type: DataType) -> Expr:
    """A number as a tensor of this type stores it.

    Floats round; in integer types, integers in kind wrap and other reals are truncated (see `statement.Nest`).
    """
    if data_type.is_float:
        return rounded(x, data_type)
    return make("held", (number(x),), data_type)


def at_limits(x: Operand, body: Expr, **values: float) -> Expr:
    """`body`, except at infinite x (`low` at -inf, `high` at +inf), where the formula does not give its limit."""
    if not values:
        return body
    return make("limits", (number(x), body), tuple(sorted((name, repr(value)) for name, value in values.items())))


def index(x: Expr) -> Expr:
    """An integer number as an index, as gathers need it."""
    return make("index", (x,))


def philox(counter: Expr, key: Expr, word: Operand) -> Expr:
    """Word 0 to 3 of Philox 4x32-10's output for a counter modulo 2^128 and a 64-bit key, all of them indices."""
    return make("philox", (counter, key, lift(word)))


# --- reductions ---


class Indices(tuple[Expr, ...]):
    """The indices of an element; bound: the variables that are new in them."""

    bound: tuple[Variable, ...]


def each(sizes: Iterable[Any], names: str = "ijklmnop") -> Indices:
    """One index for every dimension."""
    variables = tuple(map(Variable, names, sizes))
    made = Indices([_variable(v) for v in variables])
    made.bound = variables
    return made


def over(i: Sequence[Expr], sizes: Sequence[Any], axes: Iterable[int]) -> Indices:
    """The same indices with new variables along the axes, for a reduction to run over."""
    axes = set(axes)
    variables = {a: Variable(f"{_name(i[a])}'", sizes[a]) for a in sorted(axes)}
    made = Indices(_variable(variables[a]) if a in axes else x for a, x in enumerate(i))
    made.bound = tuple(variables.values())
    return made


def _variable(v: Variable) -> Expr:
    return Expr("variable", (), v, INDEX)  # every variable is new: no other node is equal to it


def row_major(i: Sequence[Expr], sizes: Sequence[Any]) -> Expr:
    """The position of an element in row-major order, as an index."""
    place = i[0]
    for x, n in zip(i[1:], sizes[1:], strict=True):
        place = place * n + x
    return place


def unraveled(place: Expr, sizes: Sequence[Any]) -> list[Expr]:
    """The indices of an element from its position in row-major order."""
    found = [place]
    for n in reversed(sizes[1:]):
        found[:1] = [found[0] // n, found[0] % n]
    return found


def pieces(i: Expr, starts: Sequence[Any], values: Sequence[Expr]) -> Expr:
    """The value of the piece that contains an index, where piece k goes from starts[k] to starts[k + 1] - 1.

    The conditions form a binary search: for a thousand pieces they are ten deep.
    """
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return select(i < starts[half], pieces(i, starts[:half], values[:half]), pieces(i, starts[half:], values[half:]))


def _name(i: Expr) -> str:
    return i.data.name if i.op == "variable" else "k"


def _reduction(kind: str, meaning: str) -> Callable[..., Expr]:
    def reduce(k: Indices, body: Operand, where: Expr | None = None) -> Expr:
        return make("reduce", (number(body), *(() if where is None else (where,))), (kind, k.bound))

    reduce.__name__, reduce.__doc__ = kind, meaning
    return reduce


Sum = _reduction("sum", "The sum over the new variables in k, where the condition holds; 0 if there are no terms.")
Product = _reduction("product", "The product over the new variables in k; 1 if there are no factors.")
Max = _reduction("max", "The largest value over the new variables in k; -inf if there is none, and NaN if one is NaN.")
Min = _reduction("min", "The smallest value over the new variables in k; +inf if there is none, and NaN if one is NaN.")


def Mean(k: Indices, body: Operand) -> Expr:
    """The sum over the new variables in k, divided by their number."""
    total, count = Sum(k, body), lift(math.prod(v.size for v in k.bound))
    return total / count


def first_largest(k: Indices, key: Operand, last: bool = False, where: Expr | None = None) -> Expr:
    """The row-major position, as an index, of the first (or last) NaN, or else of the largest key; 0 if there is none.

    where: the condition for a key to count.
    """
    return make("first_largest", (number(key), *(() if where is None else (where,))), (k.bound, last))


def first_smallest(k: Indices, key: Operand, last: bool = False) -> Expr:
    """The row-major position, as an index, of the first (or last) NaN, or else of the smallest key; 0 if there is none."""
    return make("first_smallest", (number(key),), (k.bound, last))


def rank(k: Indices, key: Operand, place: Operand, *, decreasing: bool) -> Expr:
    """The position, as an index, of the element at `place` in the sorted row; equal elements keep their order.

    k has one new variable; NaN sorts above +inf.
    """
    return make("rank", (number(key), lift(place)), (k.bound, decreasing))
