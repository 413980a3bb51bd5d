"""The exact reading of a statement: each element of an output as an extended real number, rounded once when it is stored.

A statement becomes the source of Python functions, one for the element and one for each reduction: straight lines of
`exact.reals` calls, in which equal nodes are computed once, and a branch that is not taken is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count, product
from types import CodeType
from typing import Any

import numpy as np
from flint import ctx, fmpq
from numpy.typing import NDArray

from anydml.exact import functions, reals
from anydml.exact.formats import FLOAT16, FLOAT32, FLOAT64, Format, wrapped
from anydml.exact.philox import philox
from anydml.exact.reals import NEGATIVE_ZERO, ONE, ZERO, Real, as_arb, decoded, encoded, refined, whole
from anydml.kernels.integers import summed
from anydml.schema.expression import Expr, Tensor, Variable, bound_by, free, integral, walk
from anydml.schema.identities import rewritten
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType, limits

FORMATS: Mapping[DataType, Format] = {DataType.FLOAT16: FLOAT16, DataType.FLOAT32: FLOAT32, DataType.FLOAT64: FLOAT64}
LONGEST = 200  # binary places of numbers that are added as integers: those of FLOAT32 and FLOAT16, and no more
KEPT = 1 << 16  # decoded elements, and values of a reduction, that are kept for the next element
NESTED = 12  # conditions inside one another before the rest becomes a function of its own; Python's limit is 100

_FUNCTIONS = (
    "exp log expm1 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc sqrt fmod floor_mod"
)
_OPERATIONS = "add less less_equal equal absolute floor ceil truncate half_to_even half_away is_nan"
_CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(functions, name) for name in _FUNCTIONS.split()},
    **{name: getattr(reals, name) for name in _OPERATIONS.split()},
    "sub": reals.subtract,
    "mul": reals.multiply,
    "div": reals.divide,
    "neg": reals.negative,
    "max": reals.maximum,
    "min": reals.minimum,
    "pow": functions.power,
}


class Elements(dict[int, Any]):
    """The numbers that the elements of a data type stand for, by their bits (floats) or by themselves (integers)."""

    def __init__(self, data_type: DataType) -> None:
        self._format = FORMATS.get(data_type)

    def __missing__(self, bits: int) -> Real:
        if len(self) >= KEPT:
            self.clear()
        self[bits] = found = fmpq(bits) if self._format is None else decoded(bits, self._format)
        return found


class NotFinite(Exception):
    """An element is no number that `Places` could show."""


class Places(dict[int, int]):
    """The finite numbers that a float type's bits stand for, as integers: in units of its smallest subnormal number."""

    def __init__(self, data_type: DataType) -> None:
        form = FORMATS[data_type]
        self._width, self._sign = form.precision - 1, form.sign
        self._hidden, self._exponents = 1 << self._width, form.infinity >> self._width

    def __missing__(self, bits: int) -> int:
        exponent = bits >> self._width & self._exponents
        if exponent == self._exponents:
            raise NotFinite
        if len(self) >= KEPT:
            self.clear()
        found = bits & self._hidden - 1
        if exponent:
            found = (found | self._hidden) << exponent - 1
        if bits & self._sign:
            found = -found
        self[bits] = found
        return found


def raw(array: NDArray[Any]) -> memoryview:
    """An array as integers: the bits of floats, the values of integers."""
    if not array.flags.aligned:  # a memoryview reads no such element
        array = array.copy()
    return (array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array).data


def stores(data_type: DataType, body: Expr) -> Callable[[Real], int]:
    """The one rounding: from a number to what `raw` shows of the element that stores it."""
    form = FORMATS.get(data_type)
    if form is not None:
        return lambda a: encoded(a, form)
    low, high = limits(data_type)
    if integral(body):
        return lambda a: wrapped(whole(a), data_type.element_bits, low < 0)

    def saturated(a: Real) -> int:
        if type(a) is float:
            return 0 if a == 0 or a != a else low if a < 0 else high
        if reals.less(a, fmpq(low)):
            return low
        return high if reals.less(fmpq(high), a) else whole(reals.truncate(a))

    return saturated


def evaluators(
    statement: Statement, data_types: Mapping[str, DataType], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Evaluator]:
    """One evaluator for each output; what several outputs depend on is computed once.

    arrays: what the statement reads, by field name, in tensor form.
    """
    source = _Source(arrays)
    return {name: Evaluator(nest, data_types[name], source) for name, nest in statement.items()}


class Evaluator:
    """One nest over arrays, ready to give its element at any index."""

    def __init__(self, nest: Nest, data_type: DataType, source: _Source) -> None:
        self.nest, self.data_type = nest, data_type
        self._element = source.function(nest, data_type)
        self._store = None if nest.moves else stores(data_type, nest.body)

    def number(self, *at: int) -> Real:
        """The element before it is rounded, at the precision in force; bits where elements are moved."""
        return self._element(*at)

    def stored(self, *at: int) -> int:
        """The element as `raw` shows it."""
        store = self._store
        if store is None:
            return int(self._element(*at))
        return refined(lambda: store(self._element(*at)))

    def digits(self, *at: int) -> str:
        """The element before it is rounded, in decimal; of an element that is moved, nothing."""
        if self._store is None:
            return ""
        self.stored(*at)  # leaves the precision at which the rounding is decided
        value = self.number(*at)
        return str(float(value)) if type(value) is float else as_arb(value).str(20, radius=False)

    def all(self, sizes: Sequence[int]) -> NDArray[Any]:
        """Every element, as an array of the tensor's type."""
        return self.at(product(*map(range, sizes)), math.prod(sizes)).reshape(tuple(sizes))

    def at(self, coordinates: Iterable[Sequence[int]], count: int) -> NDArray[Any]:
        """The elements at so many coordinates, one after another."""
        dtype = self.data_type.unpacked_dtype
        shown = f"u{dtype.itemsize}" if dtype.kind == "f" else dtype
        return np.fromiter((self.stored(*at) for at in coordinates), shown, count).view(dtype)


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    return compile(text, "<statement>", "exec")


class _Source:
    """The functions of a statement, made on demand; one namespace for all."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._names = count()
        self._space: dict[str, Any] = {
            **{f"f_{name}": f for name, f in _CALLS.items()},
            "fmpq": fmpq, "ctx": ctx, "whole": whole, "ZERO": ZERO, "ONE": ONE, "philox": philox, "settled": _settled_sum,
            "rounded": lambda a, form: decoded(encoded(a, form), form), "add": reals.add, "multiply": reals.multiply,
            "first": _first, "place": _place, "NotFinite": NotFinite, "NEGATIVE_ZERO": NEGATIVE_ZERO, "INFINITY": math.inf,
        }  # fmt: skip
        self._made: dict[Any, str] = {}

    def function(self, nest: Nest, data_type: DataType) -> Callable[..., Any]:
        body = nest.body if nest.moves else rewritten(nest.body)
        name = self._define(body, nest.variables, moves=data_type if nest.moves else None)
        return self._space[name]  # type: ignore[no-any-return]

    def keep(self, value: Any, key: Any = None) -> str:
        """A name for a value that the source refers to; equal keys are one name."""
        key = ("kept", id(value) if key is None else key)
        if key not in self._made:
            self._made[key] = name = f"c{next(self._names)}"
            self._space[name] = value
        return self._made[key]

    def _define(self, e: Expr, variables: Sequence[Variable], *, moves: DataType | None = None) -> str:
        name = f"e{next(self._names)}"
        block = Block(self, moves)
        arguments = [self.variable(v) for v in variables]
        block.lines.append(f"    return {block.value(e)}")
        self._execute([f"def {name}({', '.join(arguments)}):", *block.lines])
        return name

    def _execute(self, lines: Sequence[str]) -> None:
        exec(_code("\n".join(lines)), self._space)

    def variable(self, v: Variable) -> str:
        """The name of a variable, which is the same in every source of an equal statement."""
        key = ("variable", id(v))
        if key not in self._made:
            self._made[key] = f"{v.name.replace(chr(39), '_')}{next(self._names)}"
        return self._made[key]

    def outlined(self, e: Expr, moves: DataType | None) -> str:
        """A call of a function of its own for an expression, with the variables that it depends on."""
        variables = sorted(free(e)[e], key=lambda v: (v.name, id(v)))
        name = self._define(e, variables, moves=moves)
        return f"{name}({', '.join(map(self.variable, variables))})"

    # --- tensors ---

    def tensor(self, t: Tensor) -> str:
        if t.definition is not None:
            return self._stored(t)
        return self.keep(raw(self._arrays[t.name]), ("array", t.name))

    def _stored(self, t: Tensor) -> str:
        """A tensor that the operator keeps inside: computed slice by slice along its first index when first read."""
        key = ("stored", id(t))
        if key not in self._made:
            name = self._made[key] = f"t{next(self._names)}"
            self._space[name] = table = _Stored(t)
            assert t.definition is not None
            table.element = self.function(t.definition, t.data_type)
            table.store = stores(t.data_type, t.definition.body)
        return self._made[key]

    def elements(self, data_type: DataType) -> str:
        key = ("elements", data_type)
        if key not in self._made:
            name = self._made[key] = f"d_{data_type.name.lower()}"
            self._space[name] = Elements(data_type)
        return self._made[key]

    # --- reductions ---

    def places(self, data_type: DataType) -> str:
        return self.keep(Places(data_type), ("places", data_type))

    def reduction(self, e: Expr, places: Mapping[Expr, int] | None = None) -> str:
        """A call of the function that reduces; its results are kept by what it depends on.

        places: the sum is one in Python's integers (see `_places`).
        """
        variables = sorted(free(e)[e], key=lambda v: (v.name, id(v)))
        key = ("reduction", e, places is None)
        if key not in self._made:
            self._made[key] = name = f"r{next(self._names)}"
            if places is not None and integral(e) and (sums := summed(e, variables, self._arrays)) is not None:
                self._space[name] = sums
                return self.reduction(e, places)
            lines = self._reduces(name, e, variables) if places is None else self._adds(name, e, variables, places)
            self._execute(list(lines))
        return f"{self._made[key]}({', '.join(map(self.variable, variables))})"

    def _adds(self, name: str, e: Expr, variables: Sequence[Variable], places: Mapping[Expr, int]) -> Iterator[str]:
        """A sum of integers."""
        yield f"def {name}({', '.join(map(self.variable, variables))}):"
        yield "    total = 0"
        block = Block(self, places=places)
        yield from block.loops(e)
        value = block.integer(e.args[0])
        yield from block.taken()
        yield f"{'    ' * block.depth}total += {value}"
        yield "    return total"

    def _reduces(self, name: str, e: Expr, variables: Sequence[Variable]) -> Iterator[str]:
        arguments = ", ".join(map(self.variable, variables))
        if e.op == "rank":
            variables = sorted(free(e)[e.args[0]] - set(bound_by(e)), key=lambda v: (v.name, id(v)))
        kept = self.keep({})
        yield f"def {name}({arguments}):"
        yield f"    key = ({''.join(f'{self.variable(v)}, ' for v in variables)}ctx.prec)"
        yield f"    total = {kept}.get(key)"
        yield "    if total is None:"
        yield f"        if len({kept}) > {KEPT}: {kept}.clear()"
        kind = e.data[0] if e.op == "reduce" else e.op
        if kind == "sum" and (places := _places(e)) is not None:
            yield "        try:"
            yield f"            total = {self.reduction(e, places)}"
            yield "            if total:"  # the sign of a zero depends on those of its terms
            yield f"                {kept}[key] = total = fmpq(total, {self.keep(1 << places[e], ('unit', places[e]))})"
            yield "                return total"
            yield "        except NotFinite: pass"
        yield f"        total = {_START[kind]}"
        if kind == "sum":
            yield "        largest = 0"
        block = Block(self)
        block.depth = 2
        yield from block.loops(e)
        value = block.value(e.args[0])
        yield from block.taken()
        depth = block.depth
        yield from ("    " * depth + line for line in _STEP[kind].format(value=value).splitlines())
        for line in _END[kind].splitlines():
            yield "        " + line.format(last=e.data[1])
        yield f"        {kept}[key] = total"
        if e.op == "rank":
            place = Block(self)
            made = place.index(e.args[1])
            yield from place.lines
            yield f"    return total[{made}]"
        else:
            yield "    return total"


_START = {"sum": "None", "product": "ONE", "max": "-INFINITY", "min": "INFINITY",
          "first_largest": "[]", "first_smallest": "[]", "rank": "[]"}  # fmt: skip
_STEP = {
    "sum": "x = {value}\n"
    "if total is None: total = x\n"
    "elif type(x) is fmpq and type(total) is fmpq: total += x\n"
    "else: total, largest = settled(total, x, largest)",
    "product": "total = multiply(total, {value})",
    "max": "total = f_max(total, {value})",
    "min": "total = f_min(total, {value})",
    "first_largest": "total.append({value})",
    "first_smallest": "total.append({value})",
    "rank": "total.append({value})",
}
_END = {
    "sum": "if total is None: total = ZERO",
    "product": "",
    "max": "",
    "min": "",
    "first_largest": "total = first(total, False, {last})",
    "first_smallest": "total = first(total, True, {last})",
    "rank": "total = place(total, {last})",
}


def _settled_sum(total: Real, x: Real, largest: Any) -> tuple[Real, Any]:
    """A longer sum, and the largest magnitude among its terms where it is asked for."""
    if ctx.prec <= reals.NEAR or type(total) is float or type(x) is float:
        return reals.add(total, x), largest
    largest = max(largest or reals.magnitude(total), reals.magnitude(x))
    return reals.settled(total + x, largest), largest


def _first(keys: Sequence[Real], smallest: bool, last: bool) -> int:
    """The position of the first NaN, else of the extreme; of the last one where it is asked for."""
    best = None
    for at, key in enumerate(keys):
        if best is None or _goes_before(key, keys[best], smallest, last):
            best = at
    assert best is not None
    return best


def _goes_before(a: Real, b: Real, smallest: bool, last: bool) -> bool:
    if reals.is_nan(b):
        return last and reals.is_nan(a)
    if reals.is_nan(a):
        return True
    better = reals.less(a, b) if smallest else reals.less(b, a)
    return better or (last and reals.equal(a, b))


class _Key:
    """A number in the order of sorted rows: NaN above +inf."""

    __slots__ = ("number",)

    def __init__(self, number: Real) -> None:
        self.number = number

    def __lt__(self, other: _Key) -> bool:
        if reals.is_nan(self.number):
            return False
        return reals.is_nan(other.number) or reals.less(self.number, other.number)


def _place(keys: Sequence[Real], decreasing: bool) -> list[int]:
    """The positions of a row in sorted order; equal keys keep the order of positions."""
    # a stable sort in reverse keeps equal keys in their order
    return sorted(range(len(keys)), key=lambda at: _Key(keys[at]), reverse=decreasing)


class _Stored:
    """The elements of an inner tensor as `raw` shows them, by index, in slices along the first one."""

    def __init__(self, t: Tensor) -> None:
        self.sizes, self.known, self.slices = t.sizes, dict[tuple[int, ...], int](), 0
        self.element: Callable[..., Real] = lambda *at: None
        self.store: Callable[[Real], int] = lambda a: 0
        self.busy = False

    def __getitem__(self, at: tuple[int, ...]) -> int:
        while self.slices <= at[0] and not self.busy:
            self.busy, bits = True, ctx.prec
            try:
                for rest in product(*map(range, self.sizes[1:])):
                    where = (self.slices, *rest)
                    self.known[where] = refined(lambda where=where: self.store(self.element(*where)))  # type: ignore[misc]
            finally:
                self.busy, ctx.prec = False, bits
            self.slices += 1
        return self.known[at]


def _real(value: Any) -> Real:
    return value if isinstance(value, float) else fmpq(value.numerator, value.denominator)


def _places(e: Expr) -> dict[Expr, int] | None:
    """For a node made of sums and products of elements: how many binary places its and its arguments' values have.

    None for what is made of anything else. A value is then a Python integer in units of 2^-places, as long as all elements
    are finite; only the sign of a zero is not in it.
    """
    known: dict[Expr, int] = {}
    for node in walk(e):
        if node.op == "constant":
            value = node.data.value
            if isinstance(value, float) or value.denominator.bit_length() > LONGEST:
                return None
            if value.denominator & value.denominator - 1:
                return None
            known[node] = value.denominator.bit_length() - 1
        elif node.op == "read":
            form = FORMATS.get(node.data[0].data_type)
            if node.data[1] == "otherwise" or (form is not None and -form.lowest > LONGEST):
                return None
            known[node] = 0 if form is None else -form.lowest
        elif node.op == "reduce" and node.data[0] == "sum":
            known[node] = known[node.args[0]]
        elif node.op in ("add", "sub", "neg") and node.sort == "number":
            known[node] = max(known[a] for a in node.args)
        elif node.op == "mul" and node.sort == "number":
            known[node] = known[node.args[0]] + known[node.args[1]]
        elif node.sort == "number" and node.op != "position":
            return None
        else:
            known[node] = 0  # an index, its value, or a condition
    return known


def _is_plain(e: Expr) -> bool:
    """Whether a node is made of sums and products of integers and of nothing else: Python's integers are enough."""
    return integral(e) and _places(e) is not None


def _guards(e: Expr) -> list[Expr]:
    """The reads in a reduction's body that leave a term out where they lie outside."""
    inner = {node for r in walk(e.args[0]) if bound_by(r) for node in walk(r.args[0])}
    return [n for n in walk(e.args[0]) if n.op == "read" and n.data[1] == "skipped" and n not in inner]


class Block:
    """Lines of source, and the names of the nodes that they have computed."""

    def __init__(self, source: _Source, moves: DataType | None = None, places: Mapping[Expr, int] | None = None) -> None:
        self.source, self.moves, self._places = source, moves, places
        self.lines: list[str] = []
        self.depth = 1
        self._known: dict[Any, str] = {}
        self._nested = 0

    def loops(self, e: Expr) -> Iterator[str]:
        """The loops of a reduction, and what leaves a term out of it; then the block is inside them."""
        for v in bound_by(e):
            yield f"{'    ' * self.depth}for {self.source.variable(v)} in range({v.size}):"
            self.depth += 1
        for guard in _guards(e):
            self._line(f"if not ({self.guard(guard)}): continue")
        if e.op == "reduce" and len(e.args) > 1:
            self._line(f"if not {self.value(e.args[1])}: continue")

    def taken(self) -> Iterator[str]:
        """The lines so far, which are then no longer the block's."""
        yield from self.lines
        self.lines = []

    def value(self, e: Expr) -> str:
        """The text of a node's value: a name, or an index written out."""
        if e not in self._known:
            self._known[e] = self._make(e)
        return self._known[e]

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _name(self, text: str) -> str:
        name = f"v{next(self.source._names)}"
        self._line(f"{name} = {text}")
        return name

    def _make(self, e: Expr) -> str:
        if e.op == "variable":
            return self.source.variable(e.data)
        if e.op == "constant":
            return self._constant(e)
        if e.op == "read":
            return self._read(e)
        if e.op == "select":
            return self._branch(e, self._condition(e.args[0]), e.args[1], e.args[2])
        if e.sort == "index" or (e.sort == "truth" and any(a.sort == "index" for a in e.args)):
            return self._of_indices(e)
        if e.op in ("both", "either"):
            return self._name(f"{self.value(e.args[0])} {'and' if e.op == 'both' else 'or'} {self.value(e.args[1])}")
        if e.op == "not":
            return f"(not {self.value(e.args[0])})"
        if e.op in _BITWISE:
            return self._bitwise(e)
        if self.moves is None and e.op in ("add", "sub", "mul", "neg", "reduce") and _is_plain(e):
            return self._name(f"fmpq({self.integer(e)})")
        if bound_by(e):
            return self._name(self.source.reduction(e))
        return self._name(self._number(e))

    def _constant(self, e: Expr) -> str:
        value = e.data.value
        if self.moves is not None:
            return str(stores(self.moves, e)(_real(value)))
        return self.source.keep(_real(value), e.data)

    def index(self, e: Expr) -> str:
        """An index as text; integer constants are written out."""
        if e.op == "constant":
            return str(int(e.data.value))
        return self.value(e)

    def _of_indices(self, e: Expr) -> str:
        if e.op == "index":
            return self._name(self._whole(e.args[0]))
        if bound_by(e):
            return self._name(self.source.reduction(e))
        texts = [self.index(a) for a in e.args]
        if e.op in _INFIX:
            return f"({texts[0]} {_INFIX[e.op]} {texts[1]})"
        if e.op == "neg":
            return f"(-{texts[0]})"
        if e.op in ("max", "min"):
            return f"{e.op}({texts[0]}, {texts[1]})"
        raise TypeError(f"{e.op} is no operation of indices")

    def _whole(self, e: Expr) -> str:
        """An integer number as a Python int."""
        if _is_plain(e):
            return self.integer(e)
        return f"whole({self.value(e) if self.moves is None else self._computed(e)})"

    def _condition(self, e: Expr) -> str:
        """The text of a select's condition."""
        if self.moves is None or all(node.sort != "number" for node in walk(e)):
            return self.value(e)
        return self._computed(e)

    def _computed(self, e: Expr) -> str:
        """The text of a number or a condition that is computed, also where elements are moved."""
        inner = Block(self.source)
        inner.depth = self.depth
        made = inner.value(e)
        self.lines += inner.lines
        return made

    def integer(self, e: Expr) -> str:
        """An integer expression in Python's integers: no rational numbers where none are needed."""
        key = ("integer", e)
        if key not in self._known:
            self._known[key] = self._integer(e)
        return self._known[key]

    def _integer(self, e: Expr) -> str:
        if e.op == "constant":
            return str(int(e.data.value * (1 << self._place(e))))
        if e.op == "read":
            data_type = e.data[0].data_type
            return self._name(f"{self.source.places(data_type)}[{self._raw(e)}]" if data_type in FORMATS else self._raw(e))
        if e.op == "position":
            return self.index(e.args[0])
        if e.op == "reduce":
            return self._name(self.source.reduction(e, self._places or {}))
        texts = [self.integer(a) for a in e.args]
        if e.op in ("add", "sub"):  # in the same units
            shifts = [self._place(e) - self._place(a) for a in e.args]
            texts = [f"({text} << {shift})" if shift else text for text, shift in zip(texts, shifts, strict=True)]
        if e.op in _INFIX:
            return self._name(f"{texts[0]} {_INFIX[e.op]} {texts[1]}")
        return self._name(f"-{texts[0]}")

    def _place(self, e: Expr) -> int:
        return self._places[e] if self._places else 0

    def guard(self, e: Expr) -> str:
        """The condition that every index of a read lies inside."""
        tensor = e.data[0]
        places = zip(e.args, tensor.sizes, strict=False)
        tests = (f"0 <= {self.index(a)} < {n}" for a, n in places if a.op != "variable" or a.data.size > n)
        return " and ".join(tests) or "True"

    def _bitwise(self, e: Expr) -> str:
        """Bits combined: Python's integers are in two's complement already, and `raw` shows floats as their encodings."""
        if self.moves is None:
            raise TypeError(f"{e.op} is of elements whose bits are moved, not of numbers")
        bits = self.moves.element_bits
        texts = [self.value(a) for a in e.args]
        if e.op == "bit_not":
            signed = self.moves.dtype.kind == "i"
            return self._name(f"~{texts[0]}" if signed else f"{texts[0]} ^ {(1 << bits) - 1:#x}")
        if e.op == "shift_left":
            return self._name(f"{texts[0]} << {texts[1]} & {(1 << bits) - 1:#x} if {texts[1]} < {bits} else 0")
        return self._name(f"{texts[0]} {_BITWISE[e.op]} {texts[1]}")

    def _read(self, e: Expr) -> str:
        tensor, mode = e.data
        if mode != "otherwise":
            return self._element(e)
        at = e.args[:-1]
        condition = " and ".join(f"0 <= {self.index(a)} < {n}" for a, n in zip(at, tensor.sizes, strict=True))
        return self._branch(e, condition, None, e.args[-1])

    def _element(self, e: Expr) -> str:
        tensor: Tensor = e.data[0]
        shown = self._raw(e)
        return self._name(shown if self.moves is not None else f"{self.source.elements(tensor.data_type)}[{shown}]")

    def _raw(self, e: Expr) -> str:
        tensor: Tensor = e.data[0]
        return f"{self.source.tensor(tensor)}[{', '.join(self.index(a) for a in e.args[: len(tensor.sizes)])},]"

    def _branch(self, e: Expr, condition: str, a: Expr | None, b: Expr) -> str:
        """`a if condition else b`, each computed in its own branch; None stands for the element that `e` reads."""
        name = f"v{next(self.source._names)}"
        text = self.index if e.sort == "index" else self.value
        known = self._known
        self._nested += 1
        for keyword, side in ((f"if {condition}:", a), ("else:", b)):
            self._line(keyword)
            self._known = dict(known)
            self.depth += 1
            if side is None:
                made = self._element(e)
            elif self._nested > NESTED and side.op in ("select", "read"):
                made = self.source.outlined(side, self.moves)
            else:
                made = text(side)
            self._line(f"{name} = {made}")
            self.depth -= 1
        self._nested -= 1
        self._known = known
        return name

    def _number(self, e: Expr) -> str:
        if e.op == "position":
            return f"fmpq({self.index(e.args[0])})"
        if e.op == "philox":
            counter, key, word = map(self.index, e.args)
            return f"fmpq(philox({counter}, {key})[{word}])"
        if e.op == "round":
            return f"rounded({self.value(e.args[0])}, {self.source.keep(FORMATS[e.data])})"
        if e.op == "held":
            store = self.source.keep(stores(e.data, e.args[0]), ("held", e.data, e.args[0]))
            return f"fmpq({store}({self.value(e.args[0])}))"
        if e.op == "power":
            return f"{self.source.keep(functions.whole_power(e.data))}({self.value(e.args[0])})"
        if e.op == "integer_power":
            power = self.source.keep(functions.integer_power(e.data), ("integer_power", e.data))
            return f"{power}({', '.join(self.value(a) for a in e.args)})"
        if e.op == "limits":
            return self._limits(e)
        if e.op == "bit_count":
            data_type = e.args[0].data[0].data_type
            return f"fmpq(({self._raw(e.args[0])} & {(1 << data_type.element_bits) - 1:#x}).bit_count())"
        return f"f_{e.op}({', '.join(self.value(a) for a in e.args)})"

    def _limits(self, e: Expr) -> str:
        x, body = e.args
        at, values = self.value(x), dict(e.data)
        name = f"v{next(self.source._names)}"
        keyword = "if"
        for side, test in (("low", "== -INFINITY"), ("high", "== INFINITY")):
            if side in values:
                self._line(f"{keyword} type({at}) is float and {at} {test}:")
                self._line(f"    {name} = {_special(values[side])}")
                keyword = "elif"
        self._line("else:")
        known, self._known = self._known, dict(self._known)
        self.depth += 1
        self._line(f"{name} = {self.value(body)}")
        self.depth -= 1
        self._known = known
        return name


def _special(text: str) -> str:
    value = float(text)
    return f"float('{text}')" if value - value != 0 or text == "-0.0" else f"fmpq({int(value)})"


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "less": "<", "less_equal": "<=", "equal": "=="}
_BITWISE = {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_right": ">>", "shift_left": "<<", "bit_not": "~"}
