"""Expressions: an operator's mathematics over the elements of its tensors, traced by calling a Python function on symbols.

A node is an operation, its arguments and its data; equal nodes are one object. Nodes are of three sorts: indices (integers
that say where), numbers (extended reals) and truths. Attribute branches resolve while tracing, data branches are `select`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from weakref import ref

from anydml.schema.symbol import Symbol
from anydml.tensor import DataType

if TYPE_CHECKING:
    from anydml.schema.statement import Nest

INDEX, NUMBER, TRUTH = "index", "number", "truth"
Operand: TypeAlias = "Expr | int | float | Fraction | Symbol"

_INDEX_ARITHMETIC = {"add", "sub", "mul", "neg", "max", "min", "floordiv", "mod", "select"}
_TRUTHS = {"less", "less_equal", "equal", "both", "either", "not", "is_nan", "bit"}


class Variable:
    """An index variable, 0 .. size - 1; two variables differ even if their names do not."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: Any) -> None:
        self.name, self.size = name, size


class Tensor:
    """A tensor to read from, by its field's name; `definition` says what its elements are if it is no input.

    data_type: of its elements. outside: see `or_else` and `skipped`.
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
        """The element at right-aligned indices, a dimension of size 1 being the same everywhere."""
        aligned = at[len(at) - len(self.sizes) :] if len(at) >= len(self.sizes) else at
        surplus = len(self.sizes) - len(aligned)  # leading sizes of 1
        return self[[0] * surplus + [0 if n == 1 else i for i, n in zip(aligned, self.sizes[surplus:], strict=True)]]


def _indices(at: Sequence[Operand]) -> tuple[Expr, ...]:
    indices = tuple(map(lift, at))
    for i in indices:
        if i.sort is not INDEX and not is_integer(i):
            raise TypeError(f"a tensor is read with indices; index() makes one of a number: {i!r}")
    return indices


class Expr:
    """A node: an operation, its arguments, and data that are no nodes."""

    __slots__ = ("__weakref__", "args", "data", "integral", "op", "rewritten", "sort")

    def __init__(self, op: str, args: tuple[Expr, ...], data: Any, sort: str) -> None:
        self.op, self.args, self.data, self.sort = op, args, data, sort
        self.rewritten: Expr | Literal[False] | None = None  # see `identities`; False: as it is, and no cycle of it
        self.integral: bool | None = None  # see `integral`

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args)) or self.data!r})"

    def __add__(self, other: Operand) -> Expr:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return make("div", (number(self), number(other)))

    def __rtruediv__(self, other: Operand) -> Expr:
        return make("div", (number(other), number(self)))

    def __floordiv__(self, other: int | Symbol) -> Expr:
        """Of indices: the quotient rounded down."""
        return self if type(other) is int and other == 1 else make("floordiv", (self, lift(other)))

    def __mod__(self, other: int | Symbol) -> Expr:
        """Of indices: the remainder, from 0 to other - 1."""
        return make("mod", (self, lift(other)))

    def __neg__(self) -> Expr:
        return make("neg", (self,))

    def __pow__(self, exponent: int) -> Expr:
        """A whole power: a product."""
        return make("power", (number(self),), exponent)

    def __lt__(self, other: Operand) -> Expr:
        return _comparison("less", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _comparison("less_equal", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _comparison("less", other, self)

    def __ge__(self, other: Operand) -> Expr:
        return _comparison("less_equal", other, self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while it is traced; use select(condition, a, b)")


class _Known(ref[Expr]):
    """A node that is found again by its key as long as it lives."""

    __slots__ = ("key",)
    key: Any


_nodes: dict[Any, _Known] = {}


def _forget(known: ref[Expr]) -> None:
    assert isinstance(known, _Known)
    if _nodes.get(known.key) is known:  # and not a node that was made since
        del _nodes[known.key]


def make(op: str, args: tuple[Expr, ...] = (), data: Any = None, sort: str | None = None) -> Expr:
    """The one node with this operation, these arguments and these data; sort: where it is known, else what follows."""
    # by identity: a key that held what a recurrence reads would hold the node itself
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


_ZERO, _ONE = _whole(0), _whole(1)  # that live on, so that no others are made


def is_integer(e: Expr) -> bool:
    """Whether a node is an integer constant, which may serve as an index."""
    return e.op == "constant" and e.data.integral


def number(x: Operand) -> Expr:
    """An operand as a number; an index becomes its value."""
    e = lift(x)
    return make("position", (e,), None, NUMBER) if e.sort is INDEX else e


def _arithmetic(op: str, a: Operand, b: Operand) -> Expr:
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


def _comparison(op: str, a: Operand, b: Operand) -> Expr:
    x, y = _alike(lift(a), lift(b))
    return make(op, (x, y), None, TRUTH)


def _alike(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Two operands as they are if both may be indices, or neither is one; otherwise both as numbers."""
    if (x.sort is INDEX or y.sort is INDEX) and not all(e.sort is INDEX or is_integer(e) for e in (x, y)):
        return number(x), number(y)
    return x, y


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
floor = _function("floor", "The largest integer that is not above.")
ceil = _function("ceil", "The smallest integer that is not below.")
truncate = _function("truncate", "The nearest integer toward zero.")
half_to_even = _function("half_to_even", "The nearest integer, the even one of two.")
half_away = _function("half_away", "The nearest integer, the one away from zero of two.")
fmod = _function("fmod", "The remainder of x / y rounded toward zero, as C's fmod: a zero has the sign of x.")
floor_mod = _function("floor_mod", "The remainder of x / y rounded down, as Python's %: a zero has the sign of y.")
is_nan = _function("is_nan", "Whether x is NaN.")


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger number or index; NaN if either is, and -0 < +0."""
    return _arithmetic("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller number or index; NaN if either is, and -0 < +0."""
    return _arithmetic("min", a, b)


def clamp(x: Operand, low: Operand, high: Operand) -> Expr:
    """min(high, max(low, x)): `high` where low > high."""
    return minimum(high, maximum(low, x))


def equal(a: Operand, b: Operand) -> Expr:
    """Whether two numbers or indices are equal, as IEEE 754 compares."""
    return _comparison("equal", a, b)


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
    """Whether a number is not 0: the truth that an element stands for. NaN is true."""
    return negation(equal(x, 0))


def as_number(a: Expr) -> Expr:
    """1 for a truth that holds, 0 for one that does not."""
    return select(a, 1, 0)


def select(condition: Expr, a: Operand, b: Operand) -> Expr:
    """One of two numbers or indices; the other one is not looked at."""
    return make("select", (condition, *_alike(lift(a), lift(b))))


def integer_power(x: Operand, y: Operand, bits: int) -> Expr:
    """x^y of integers modulo 2^bits. Where y < 0 it is the reciprocal of x^-y toward zero, and 0 at x = 0."""
    return make("integer_power", (number(x), number(y)), bits)


def rounded(x: Operand, data_type: DataType) -> Expr:
    """A number as a tensor of this float type would hold it: where the definition itself rounds."""
    return make("round", (number(x),), data_type)


def held(x: Operand, data_type: DataType) -> Expr:
    """The number that a tensor of this type holds of another: rounded; an integer in kind wraps, other reals are cut.

    As `statement.Nest` says it of what is stored.
    """
    if data_type.name.startswith("FLOAT"):
        return rounded(x, data_type)
    return make("held", (number(x),), data_type)


def at_limits(x: Operand, body: Expr, **values: float) -> Expr:
    """`body`, but other values where x is infinite (`low` at -inf, `high` at +inf): where formula and limit differ."""
    if not values:
        return body
    return make("limits", (number(x), body), tuple(sorted((name, repr(value)) for name, value in values.items())))


def index(x: Expr) -> Expr:
    """A number that is an integer as an index: what gathers read with."""
    return make("index", (x,))


def philox(counter: Expr, key: Expr, word: Operand) -> Expr:
    """A word, 0 to 3, of Philox 4x32-10's output for a counter modulo 2^128 and a key of 64 bits, all of them indices."""
    return make("philox", (counter, key, lift(word)))


# --- bits ---


def _bitwise(op: str, meaning: str) -> Callable[..., Expr]:
    def apply(*args: Expr) -> Expr:
        return make(op, args)

    apply.__name__, apply.__doc__ = op, f"{meaning} Of elements of one type, and of their encodings: only in `move`."
    return apply


bit_and = _bitwise("bit_and", "The bits that both have.")
bit_or = _bitwise("bit_or", "The bits that one has at least.")
bit_xor = _bitwise("bit_xor", "The bits that just one of two has.")
bit_not = _bitwise("bit_not", "The bits that x has not.")
shift_left = _bitwise("shift_left", "The bits of an unsigned x moved up by y places: x * 2^y modulo 2^bits.")
shift_right = _bitwise("shift_right", "The bits of an unsigned x moved down by y places: x / 2^y rounded down.")


def bit_count(x: Expr) -> Expr:
    """The number of ones in the encoding of a tensor's element."""
    if x.op != "read" or x.data[1] == "otherwise":
        raise TypeError(f"the bits of an element are counted, not those of a number: {x!r}")
    return make("bit_count", (x,))


# --- reductions ---


class Indices(tuple[Expr, ...]):
    """The indices of an element; bound: the variables that are new in it."""

    bound: tuple[Variable, ...]


def each(sizes: Iterable[Any], names: str = "ijklmnop") -> Indices:
    """One index for every dimension."""
    variables = tuple(map(Variable, names, sizes))
    made = Indices([_variable(v) for v in variables])
    made.bound = variables
    return made


def over(i: Sequence[Expr], sizes: Sequence[Any], axes: Iterable[int]) -> Indices:
    """The same indices, but new ones along the axes: what a reduction runs over."""
    axes = set(axes)
    variables = {a: Variable(f"{_name(i[a])}'", sizes[a]) for a in sorted(axes)}
    made = Indices(_variable(variables[a]) if a in axes else x for a, x in enumerate(i))
    made.bound = tuple(variables.values())
    return made


def _variable(v: Variable) -> Expr:
    return Expr("variable", (), v, INDEX)  # a variable is new: no other node is equal


def row_major(i: Sequence[Expr], sizes: Sequence[Any]) -> Expr:
    """The place of an element in row-major order, as an index."""
    place = i[0]
    for x, n in zip(i[1:], sizes[1:], strict=True):
        place = place * n + x
    return place


def unraveled(place: Expr, sizes: Sequence[Any]) -> list[Expr]:
    """The indices of an element by its place in row-major order."""
    found = [place]
    for n in reversed(sizes[1:]):
        found[:1] = [found[0] // n, found[0] % n]
    return found


def pieces(i: Expr, starts: Sequence[Any], values: Sequence[Expr]) -> Expr:
    """Of several values the one whose piece an index lies in, where piece k goes from starts[k] to starts[k + 1] - 1.

    It is found by halving, so that a thousand pieces are ten conditions deep.
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


Sum = _reduction("sum", "The sum over the variables that are new in k, where the condition holds; 0 of nothing.")
Product = _reduction("product", "The product over the variables that are new in k; 1 of nothing.")
Max = _reduction("max", "The largest over the variables that are new in k; -inf of nothing, and NaN if one is.")
Min = _reduction("min", "The smallest over the variables that are new in k; +inf of nothing, and NaN if one is.")


def Mean(k: Indices, body: Operand) -> Expr:
    """The sum over the new variables in k, divided by their number."""
    total, count = Sum(k, body), lift(math.prod(v.size for v in k.bound))
    return total / count


def first_largest(k: Indices, key: Operand, last: bool = False, where: Expr | None = None) -> Expr:
    """The row-major position, as an index, of the first (or last) NaN or else largest key; 0 of nothing.

    where: the condition of those that count.
    """
    return make("first_largest", (number(key), *(() if where is None else (where,))), (k.bound, last))


def first_smallest(k: Indices, key: Operand, last: bool = False) -> Expr:
    """The row-major position, as an index, of the first (or last) NaN or else smallest key; 0 of nothing."""
    return make("first_smallest", (number(key),), (k.bound, last))


def rank(k: Indices, key: Operand, place: Operand, *, decreasing: bool) -> Expr:
    """The position, as an index, of the element at a place of the sorted row; ties keep the order of positions.

    k has one new variable; NaN counts above +inf.
    """
    return make("rank", (number(key), lift(place)), (k.bound, decreasing))


# --- walking ---


def walk(e: Expr) -> Iterator[Expr]:
    """Every node below and including `e`, each once, arguments before what uses them."""
    seen: set[Expr] = set()
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            if not node.args:
                yield node
                continue
            stack.append((node, True))
            stack += [(a, False) for a in reversed(node.args)]


def bound_by(e: Expr) -> tuple[Variable, ...]:
    """The variables that a reduction binds; none for other nodes."""
    if e.op == "reduce":
        return tuple(e.data[1])
    if e.op in ("first_largest", "first_smallest", "rank"):
        return tuple(e.data[0])
    return ()


def free(e: Expr) -> dict[Expr, frozenset[Variable]]:
    """For every node below and including `e`, the index variables that its value depends on."""
    found: dict[Expr, frozenset[Variable]] = {}
    for node in walk(e):
        if node.op == "variable":
            found[node] = frozenset((node.data,))
        elif node.op == "rank":
            key, place = node.args
            found[node] = (found[key] - set(bound_by(node))) | found[place]
        else:
            found[node] = frozenset().union(*(found[a] for a in node.args)) - set(bound_by(node))
    return found


def most_terms(body: Expr) -> int:
    """The most terms that reductions within one another go through for an element."""
    found: dict[Expr, int] = {}
    for node in walk(body):
        most = max((found[a] for a in node.args), default=1)
        for v in bound_by(node):
            most *= v.size
        found[node] = most
    return found[body]


def integral(e: Expr) -> bool:
    """Whether a node is an integer in kind: of integer tensors, constants and indices, by operations that keep integers."""
    if e.integral is None:
        for node in walk(e):
            if node.integral is None:
                node.integral = _is_integral(node)
    return bool(e.integral)


def _is_integral(node: Expr) -> bool:
    if node.op == "constant":
        return bool(node.data.integral)
    if node.op == "read":
        otherwise = node.args[-1:] if node.data[1] == "otherwise" else ()
        return not node.data[0].data_type.name.startswith("FLOAT") and all(a.integral for a in otherwise)
    if node.op == "select":
        return bool(node.args[1].integral and node.args[2].integral)
    if node.op in _KEEPS_INTEGERS:
        return all(a.integral for a in node.args if a.sort != TRUTH)
    return node.sort == INDEX or node.op in _MAKES_INTEGERS


_KEEPS_INTEGERS = {"add", "sub", "mul", "neg", "max", "min", "absolute", "reduce", "power", "fmod", "floor_mod"}
_MAKES_INTEGERS = {
    "position",
    "philox",
    "floor",
    "ceil",
    "truncate",
    "half_to_even",
    "half_away",
    "bit_count",
    "integer_power",
    "held",
}
