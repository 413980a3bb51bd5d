"""The elements that an output element is computed from, and their weights, as the operator's statement tells them.

The value of each node is a sum of products of elements with constant factors, as far as the statement is one. A function
of such a sum keeps the weights inside of it: those of a convolution are drawn though an activation follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, free
from anydml.tensor import DataType

Factor = Fraction | float

MOST = 8_000  # nodes that are evaluated for one element; beyond it, only the ends of each reduction are
FACTORS = 4096  # products of one sum; sums that are multiplied have no more together
ENDS = 2  # terms at either end of a reduction that is too long


_WHOLE: Mapping[str, Callable[[Any], Any]] = {"floor": math.floor, "ceil": math.ceil, "truncate": math.trunc, "absolute": abs}


class Read(NamedTuple):
    """An element of a tensor; an index that depends on data that are not known is None."""

    tensor: str
    at: tuple[int | None, ...]


class Weighted(NamedTuple):
    """An element that is read. weight: its factor, None if it has none; label: the factor in words, if it is another element.

    inside: whether the element exists.
    """

    read: Read
    weight: Factor | None
    label: str
    inside: bool


class Reads(NamedTuple):
    """All that one output element reads. whole: whether these are all reads, and not only those at the ends of its sums."""

    at: tuple[int, ...]
    elements: tuple[Weighted, ...]
    whole: bool


class _TooMany(Exception):
    pass


Terms = dict[tuple[Read, ...], Factor]


class _Number(NamedTuple):
    """A sum of products. linear: whether it is that sum, and not a function of it."""

    terms: Terms
    linear: bool = True

    @property
    def constant(self) -> Factor | None:
        return self.terms.get((), Fraction(0)) if self.linear and not any(self.terms) else None


def reads_of(nest: Nest, at: Sequence[int], arrays: Mapping[str, NDArray[Any]]) -> Reads:
    """The elements that one output element reads. arrays: inputs by field name, as far as they are known."""
    for ends in (False, True):
        evaluation = _Evaluation(nest, arrays, ends)
        try:
            found = evaluation.of(at)
        except _TooMany:
            continue
        return Reads(tuple(at), tuple(evaluation.weighted(found)), not ends)
    return Reads(tuple(at), (), False)


class _Evaluation:
    def __init__(self, nest: Nest, arrays: Mapping[str, NDArray[Any]], ends: bool) -> None:
        self._nest, self._arrays, self._ends = nest, arrays, ends
        self._free = {e: tuple(sorted(vs, key=id)) for e, vs in free(nest.body).items()}
        self._at: dict[Variable, int] = {}
        self._known: dict[Any, Any] = {}
        self._met: dict[Read, bool] = {}
        self._left = MOST

    def of(self, at: Sequence[int]) -> _Number:
        self._at = dict(zip(self._nest.variables, at, strict=True))
        return self._number(self._nest.body)

    def weighted(self, found: _Number) -> Iterator[Weighted]:
        """Each element that was met, with its weight in the sum if it has one."""
        factors: dict[Read, list[tuple[Factor, tuple[Read, ...]]]] = {}
        for reads, factor in found.terms.items():
            for i, read in enumerate(reads):
                factors.setdefault(read, []).append((factor, reads[:i] + reads[i + 1 :]))
        for read, inside in self._met.items():
            weight, label = self._weight(factors.get(read, []))
            yield Weighted(read, weight, label, inside)

    def _weight(self, factors: list[tuple[Factor, tuple[Read, ...]]]) -> tuple[Factor | None, str]:
        if not factors or any(factor != factor for factor, _ in factors):
            return None, ""
        total: Factor = Fraction(0)
        for factor, others in factors:
            for other in others:
                value = self._element(other)
                if value is None:
                    alone = len(factors) == 1 and len(others) == 1 and factor == 1
                    return None, f"{other.tensor}{_place(other.at)}" if alone else ""
                factor = factor * value
            total = total + factor
        return total, ""

    def _element(self, read: Read) -> Factor | None:
        array = self._arrays.get(read.tensor)
        if array is None or None in read.at:
            return None
        return _factor(array[read.at].item())

    # --- numbers ---

    def _number(self, e: Expr) -> _Number:
        key = (e, *(self._at[v] for v in self._free[e]))
        if key not in self._known:
            self._left -= 1
            if self._left < 0:
                raise _TooMany
            self._known[key] = self._made(e)
        found: _Number = self._known[key]
        return found

    def _made(self, e: Expr) -> _Number:
        if e.op == "constant":
            return _Number({(): _factor(e.data.value)})
        if e.op == "position":
            at = self._index(e.args[0])
            return _Number({(): Fraction(at)}) if at is not None else _Number({}, False)
        if e.op == "read":
            return self._read(e)
        if e.op == "reduce":
            return self._reduced(e)
        if e.op == "select":
            truth = self._truth(e.args[0])
            if truth is not None:
                return self._number(e.args[1] if truth else e.args[2])
            return _together([self._number(a) for a in e.args[1:]])
        if e.op == "half_to_even" and (half := self._number(e.args[0]).constant) is not None and half - half == 0:
            return _Number({(): Fraction(round(half))})
        if e.op == "round" and (value := self._number(e.args[0]).constant) is not None:
            return _Number({(): _rounded(value, e.data)})
        if e.op in ("limits", "round", "held", "half_to_even", "half_away"):
            return self._number(e.args[-1])._replace(linear=False)
        args = [self._of_any(a) for a in e.args]
        if e.op in ("add", "sub"):
            signs = (1, 1 if e.op == "add" else -1)
            linear = all(a.linear for a in args)
            return _Number(_added((a.terms, sign) for a, sign in zip(args, signs, strict=True)), linear)
        if e.op == "neg":
            return _Number(_added([(args[0].terms, -1)]), args[0].linear)
        if e.op == "mul":
            return self._product(*args)
        if e.op == "div" and (by := args[1].constant):
            return _Number({reads: factor / by for reads, factor in args[0].terms.items()}, args[0].linear)
        if e.op in _WHOLE and (value := args[0].constant) is not None and value - value == 0:
            return _Number({(): Fraction(_WHOLE[e.op](value))})
        if e.op in ("max", "min") and (known := [c for a in args if (c := a.constant) is not None]) and len(known) == 2:
            return _Number({(): max(known) if e.op == "max" else min(known)})
        return _together(args)

    def _of_any(self, e: Expr) -> _Number:
        """The number of a node; indices and conditions among the arguments count for what they read."""
        if e.sort == "index":
            self._index(e)
            return _Number({}, False)
        if e.sort == "truth":
            self._truth(e)
            return _Number({}, False)
        return self._number(e)

    def _product(self, a: _Number, b: _Number) -> _Number:
        if (a.constant is None and not a.linear) or (b.constant is None and not b.linear):
            for one, other in ((a, b), (b, a)):
                if (by := one.constant) is not None:  # of a function of a sum: the weights inside stay in proportion
                    return _Number({reads: factor * by for reads, factor in other.terms.items()}, False)
            return _together([a, b])
        if len(a.terms) * len(b.terms) > FACTORS:
            return _together([a, b])
        made: Terms = {}
        for (reads, factor), (others, by) in product(a.terms.items(), b.terms.items()):
            key = tuple(sorted((*reads, *others), key=repr))
            made[key] = made.get(key, Fraction(0)) + factor * by
        return _Number(made)

    def _read(self, e: Expr) -> _Number:
        tensor: Tensor = e.data[0]
        at = tuple(self._index(a) for a in e.args[: len(tensor.sizes)])
        inside = all(i is None or 0 <= i < n for i, n in zip(at, tensor.sizes, strict=True))
        read = Read(tensor.name, at)
        self._met[read] = inside
        if inside:
            return _Number({(read,): Fraction(1)})
        return self._number(e.args[-1]) if e.data[1] == "otherwise" else _Number({})

    def _reduced(self, e: Expr) -> _Number:
        kind, bound = e.data
        found = []
        for _ in self._each(bound):
            if len(e.args) > 1 and self._truth(e.args[1]) is False:
                continue
            found.append(self._number(e.args[0]))
            if len(found) > FACTORS:
                raise _TooMany
        if kind == "sum" and all(n.linear for n in found):
            return _Number(_added((n.terms, 1) for n in found))
        return _together(found)

    def _each(self, bound: Sequence[Variable]) -> Iterator[None]:
        for at in product(*(self._range(v.size) for v in bound)):
            self._at.update(zip(bound, at, strict=True))
            yield
        for v in bound:
            self._at.pop(v, None)

    def _range(self, n: int) -> Sequence[int]:
        if not self._ends:
            if n > MOST:
                raise _TooMany
            return range(n)
        return sorted({*range(min(n, ENDS)), *range(max(0, n - ENDS), n)})

    # --- indices and conditions; None where they depend on data that are not known ---

    def _index(self, e: Expr) -> int | None:
        if e.op == "variable":
            return self._at[e.data]
        if e.op == "constant":
            return int(e.data.value)
        self._left -= 1
        if self._left < 0:
            raise _TooMany
        if e.op == "index":
            return self._whole(e.args[0])
        if e.op == "select":
            truth = self._truth(e.args[0])
            if truth is not None:
                return self._index(e.args[1] if truth else e.args[2])
            one, other = (self._index(a) for a in e.args[1:])
            return one if one == other else None
        if bound := bound_by(e):
            for _ in self._each(bound):
                self._of_any(e.args[0])
            return None
        args = [self._index(a) for a in e.args]
        if None in args:
            return None
        a = args[0] or 0
        if e.op == "neg":
            return -a
        b = args[1] if len(args) > 1 and args[1] is not None else 0
        if e.op in ("floordiv", "mod") and not b:
            return None
        apply = {"add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "min": min(a, b)}
        if e.op in apply:
            return apply[e.op]
        return a // b if e.op == "floordiv" else a % b if e.op == "mod" else None

    def _whole(self, e: Expr) -> int | None:
        value = self._value(self._number(e))
        return None if value is None or value - value != 0 else int(value)

    def _value(self, number: _Number) -> Factor | None:
        if not number.linear:
            return None
        total: Factor = Fraction(0)
        for reads, factor in number.terms.items():
            for read in reads:
                element = self._element(read)
                if element is None:
                    return None
                factor = factor * element
            total = total + factor
        return total

    def _truth(self, e: Expr) -> bool | None:
        if e.op in ("less", "less_equal", "equal"):
            a, b = (self._index(x) if x.sort == "index" else self._value(self._number(x)) for x in e.args)
            if a is None or b is None:
                return None
            return a < b if e.op == "less" else a <= b if e.op == "less_equal" else a == b
        if e.op == "not":
            truth = self._truth(e.args[0])
            return None if truth is None else not truth
        if e.op in ("both", "either"):
            truths = [self._truth(a) for a in e.args]
            decided = e.op == "either"
            return decided if decided in truths else None if None in truths else not decided
        for arg in e.args:
            self._of_any(arg)
        return None


def _factor(value: Any) -> Factor:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int):
        return Fraction(value)
    return Fraction(value) if value - value == 0 else float(value)


def _rounded(x: Factor, data_type: DataType) -> Factor:
    """A number that decides where an operator reads, rounded to a float type."""
    if data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        return x
    with np.errstate(over="ignore"):
        return _factor(data_type.dtype.type(float(x)).item())


def _added(terms: Any) -> Terms:
    made: Terms = {}
    for these, sign in terms:
        for reads, factor in these.items():
            made[reads] = made.get(reads, Fraction(0)) + sign * factor
    return made


def _together(numbers: Sequence[_Number]) -> _Number:
    """A function of several numbers. Only if all but one are constants, the weights in that one are kept."""
    varying = [n for n in numbers if n.constant is None]
    if len(varying) == 1:
        return varying[0]._replace(linear=False)
    return _Number({reads: float("nan") for n in varying for reads in n.terms if reads}, False)


def _place(at: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if i is None else str(i) for i in at)}]"
