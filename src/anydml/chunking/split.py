"""Sums and extremes in parts: partial results of some terms each, and the exact last step on them.

It serves operators whose element is a formula of one reduction: products of matrices, and sums and extremes of rows. Partial
sums of integers are integers; those of floats are numbers that add up to them exactly (`expansions`). Extremes of parts have
the type of their elements, and positions of extremes come with their elements. So the last step rounds what it would have
rounded without parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.expansions import Sums, added, products_of, sums_of
from anydml.chunking.part import Stated, computed, parts_of, viewed
from anydml.chunking.shifting import Part, shifted
from anydml.chunking.windows import Needed, Window, nest_of, sizes_of
from anydml.devices.device import Device
from anydml.lazy import computed_once
from anydml.schema.desc import Desc
from anydml.schema.expression import Sum, Tensor, each
from anydml.schema.node import Expr, Variable, is_integer, number
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, free, integral, walk, with_nodes
from anydml.tensor import DataType

PARTS = "parts"  # the name of the tensor of partial results
INTEGERS, FLOATS, EXTREMES, POSITIONS = "integers", "floats", "extremes", "positions"
FLOAT_TYPES = (DataType.FLOAT32, DataType.FLOAT16)


class Form(NamedTuple):
    """The one reduction of a nest, and what its partial results are: INTEGERS, FLOATS, EXTREMES or POSITIONS.

    data_type: theirs. value: the node of the nest that they stand for.
    """

    reduction: Expr
    kind: str
    data_type: DataType
    value: Expr


def form_of(nest: Nest) -> Form | None:
    """The form in which a nest is computed in parts; None if it cannot be."""
    found = [node for node in walk(nest.body) if bound_by(node)]
    if nest.moves or len(found) != 1 or not free(nest.body)[found[0]] <= set(nest.variables):
        return None
    (reduction,) = found
    if reduction.op in ("first_largest", "first_smallest"):
        of = nest.body.op == "position" and nest.body.args[0] is reduction
        taken = of and len(reduction.args) == 1 and _is_plain(reduction.args[0])
        return Form(reduction, POSITIONS, DataType.INT64, nest.body) if taken else None
    if reduction.op != "reduce":
        return None
    kind, term = reduction.data[0], reduction.args[0]
    reads = [node for node in walk(term) if node.op == "read"]
    if kind in ("max", "min") and term.op == "read":
        return Form(reduction, EXTREMES, term.data[0].data_type, reduction)
    if kind == "sum" and reads and integral(term):
        most = _magnitude(term)
        for v in bound_by(reduction):
            most = None if most is None else most * v.size
        fits = most is not None and most < 1 << 63
        return Form(reduction, INTEGERS, DataType.INT64, reduction) if fits or nest.body is reduction else None
    if kind == "sum" and len(reduction.args) == 1 and _factors(term) is not None:
        return Form(reduction, FLOATS, DataType.FLOAT64, reduction)
    return None


def _magnitude(e: Expr) -> int | None:
    """A number that the magnitude of an integer does not exceed; None if it is of another kind."""
    if e.op == "constant":
        return abs(int(e.data.value))
    if e.op == "read":
        return 1 << int(e.data[0].data_type.element_bits)
    of = [_magnitude(a) for a in e.args] if e.op in ("add", "sub", "mul", "neg", "absolute") else [None]
    if any(m is None for m in of):
        return None
    known = [m for m in of if m is not None]
    found: int = math.prod(known) if e.op == "mul" else sum(known)
    return found


def _factors(term: Expr) -> tuple[Expr, ...] | None:
    """The reads whose product a term is, one or two; None if it is no such product, or is read at computed indices."""
    reads = term.args if term.op == "mul" else term.args if term.op == "absolute" else (term,)
    return reads if all(_is_plain(r) and r.data[0].data_type in FLOAT_TYPES for r in reads) else None


def _is_plain(e: Expr) -> bool:
    """Whether a node is an element that is read at constants and at variables, each of which occurs once."""
    if e.op != "read" or e.data[1] != "inside":
        return False
    moving = [i for i in e.args if not is_integer(i)]
    return all(i.op == "variable" for i in moving) and len(set(moving)) == len(moving)


@dataclass(frozen=True)
class Partial:
    """Partial results for a window of an output: those of some terms. terms: the values of the reduction's variables.

    reads: what is read of each input, by name. Calling it on these windows gives an array, or `Sums` of floats.
    """

    desc: Desc
    output: str
    window: Window
    terms: tuple[slice, ...]
    reads: Mapping[str, Needed]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("desc", "output", "window", "terms", "reads")}

    @computed_once
    def _form(self) -> Form:
        found = form_of(nest_of(self.desc, self.output))
        assert found is not None
        return found

    @computed_once
    def _stated(self) -> Stated:
        reduction = self._form.reduction
        nest = Nest(nest_of(self.desc, self.output).index, number(reduction))
        terms = dict(zip(bound_by(reduction), self.terms, strict=True))
        parts = parts_of(self.desc, self.reads)
        made = shifted(nest, [w.start for w in self.window], sizes_of(self.window), parts, terms)
        return Stated(type(self.desc).__name__, PARTS, made)

    def __call__(self, *, device: Device | None = None, **arrays: NDArray[Any]) -> NDArray[Any] | Sums | Positions:
        views = viewed(arrays, self.desc, self.reads)
        if self._form.kind != FLOATS:
            made = computed(self.desc, self._stated, views, self.reads, sizes_of(self.window), self._form.data_type, device)
            return made if self._form.kind != POSITIONS else self._found(made, views)
        return _floats(nest_of(self.desc, self.output), self._form.reduction, views, sizes_of(self.window))

    def _found(self, places: NDArray[np.int64], views: Mapping[str, NDArray[Any]]) -> Positions:
        """The positions among all terms, and the elements there. places: among these terms."""
        reduction, nest = self._form.reduction, nest_of(self.desc, self.output)
        bound = bound_by(reduction)
        at = np.unravel_index(places, [t.stop - t.start for t in self.terms])
        indices = dict(zip(bound, at, strict=True)) | dict(zip(nest.variables, np.indices(places.shape), strict=True))
        key = reduction.args[0]
        elements = views[key.data[0].name][tuple([0 if is_integer(e) else indices[e.data] for e in key.args])]
        whole = [i + t.start for i, t in zip(at, self.terms, strict=True)]
        return Positions(np.ravel_multi_index(whole, [v.size for v in bound]).astype(np.int64), elements)


class Positions:
    """Positions of extreme elements in row-major order among all terms, and these elements."""

    __slots__ = ("elements", "places")

    def __init__(self, places: NDArray[np.int64], elements: NDArray[Any]) -> None:
        self.places, self.elements = places, elements

    def or_other(self, other: Positions, smallest: bool, last: bool) -> Positions:
        """The positions of the more extreme elements: of NaN, else of the extreme; of equal ones the first or the last."""
        a, b = self.elements, other.elements
        better, equal = (b < a if smallest else b > a), a == b
        if a.dtype.kind == "f":
            p, q = np.isnan(a), np.isnan(b)
            better, equal = (better & ~p) | (q & ~p), equal | (p & q)
        later = other.places > self.places
        taken = better | (equal & (later if last else ~later))
        return Positions(np.where(taken, other.places, self.places), np.where(taken, b, a))


def _floats(nest: Nest, reduction: Expr, views: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Sums:
    term, bound = reduction.args[0], bound_by(reduction)
    reads = _factors(term)
    assert reads is not None
    if len(reads) == 1 or reads[0] is reads[1]:
        x, names = _plain(reads[0], views)
        x = x * x if len(reads) > 1 else np.abs(x) if term.op == "absolute" else x
        outer = [v for v in nest.variables if v in names]
        x = x.transpose([names.index(v) for v in (*outer, *bound)])
        made = sums_of(x.reshape(*x.shape[: len(outer)], -1))
        return _placed(made, outer, nest.variables, sizes)
    (a, of_a), (b, of_b) = (_plain(r, views) for r in reads)
    batch = [v for v in nest.variables if v in of_a and v in of_b]
    rows = [v for v in nest.variables if v in of_a and v not in of_b]
    columns = [v for v in nest.variables if v in of_b and v not in of_a]
    left = _matrices(a, of_a, batch, rows, bound)
    right = _matrices(b, of_b, batch, bound, columns)
    made = products_of(left, right)
    shape = [*(a.shape[of_a.index(v)] for v in (*batch, *rows)), *(b.shape[of_b.index(v)] for v in columns)]
    pieces, special, negative = made.pieces, made.special, made.negative
    again = Sums(
        pieces.reshape(*shape, pieces.shape[-1]),
        None if special is None else special.reshape(shape),
        None if negative is None else negative.reshape(shape),
    )
    return _placed(again, [*batch, *rows, *columns], nest.variables, sizes)


def _plain(read: Expr, views: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float64], list[Variable]]:
    """The elements that are read, in float64, and the variable of each dimension. Dimensions read at a constant are dropped."""
    x = views[read.data[0].name][tuple([0 if is_integer(e) else slice(None) for e in read.args])]
    return x.astype(np.float64), [e.data for e in read.args if not is_integer(e)]


def _matrices(
    x: NDArray[np.float64], names: list[Variable], batch: Sequence[Variable], *ends: Sequence[Variable]
) -> NDArray[np.float64]:
    """Matrices in the order of the variables of batches, rows and columns."""
    x = x.transpose([names.index(v) for v in (*batch, *ends[0], *ends[1])])
    last, at = [], len(batch)
    for vs in ends:
        last.append(int(np.prod(x.shape[at : at + len(vs)], dtype=np.int64)))
        at += len(vs)
    return x.reshape(*x.shape[: len(batch)], *last)


def _placed(made: Sums, of: Sequence[Variable], variables: Sequence[Variable], sizes: Sequence[int]) -> Sums:
    """Sums whose dimensions are those of some variables, with the dimensions of all."""
    order = [of.index(v) for v in variables if v in of]
    shape = [made.pieces.shape[of.index(v)] if v in of else 1 for v in variables]

    def put(x: NDArray[Any], *more: int) -> NDArray[Any]:
        x = x.transpose([*order, *range(len(order), x.ndim)]).reshape(*shape, *more)
        return np.broadcast_to(x, (*sizes, *more))

    return Sums(
        put(made.pieces, made.pieces.shape[-1]),
        None if made.special is None else put(made.special),
        None if made.negative is None else put(made.negative),
    )


def combined(parts: Sequence[Any], kind: str, of: tuple[str, bool]) -> Any:
    """One partial result in place of several. kind: of `Form`. of: what `spelled` says of the reduction."""
    reduction, last = of
    if kind == POSITIONS:
        return reduce(lambda a, b: a.or_other(b, reduction == "first_smallest", last), parts)
    if kind == FLOATS:
        return added(parts)
    if kind == INTEGERS:
        total: NDArray[Any] = np.add.reduce([x.view(np.uint64) for x in parts]).view(np.int64)
        return total
    return extreme_of(parts, reduction)


def spelled(reduction: Expr) -> tuple[str, bool]:
    """The kind of a reduction, and whether it finds the last one of equal elements."""
    return (reduction.data[0], False) if reduction.op == "reduce" else (reduction.op, bool(reduction.data[1]))


def extreme_of(parts: Sequence[NDArray[Any]], reduction: str) -> NDArray[Any]:
    """The largest or smallest of the parts' elements: NaN if one is, and -0 < +0."""
    stacked = np.stack(parts)
    made: NDArray[Any] = stacked.max(0) if reduction == "max" else stacked.min(0)
    if made.dtype.kind == "f" and (zero := made == 0).any():
        # NumPy does not order zeros: a largest one is -0 only if all zeros are, a smallest one if any is
        signs = np.signbit(stacked) | (stacked != 0) if reduction == "max" else np.signbit(stacked) & (stacked == 0)
        minus = signs.all(0) if reduction == "max" else signs.any(0)
        made = np.where(zero, np.where(minus, made.dtype.type(-0.0), made.dtype.type(0.0)), made)
    return made


@dataclass(frozen=True)
class Last:
    """The last step for a window of an output, from its partial results and windows of the inputs that it reads beside them."""

    desc: Desc
    output: str
    window: Window
    reads: Mapping[str, Needed]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("desc", "output", "window", "reads")}

    def __call__(self, parts: Sequence[Any], *, device: Device | None = None, **arrays: NDArray[Any]) -> NDArray[Any]:
        """The elements of the window. parts: the partial results, of which the terms of each are others."""
        nest = nest_of(self.desc, self.output)
        form = form_of(nest)
        assert form is not None
        found = combined(parts, form.kind, spelled(form.reduction))
        total: NDArray[Any] = (
            found.as_pieces() if isinstance(found, Sums) else found.places if isinstance(found, Positions) else found
        )
        views = viewed(arrays, self.desc, self.reads)
        data_type = next(found.desc.data_type for found in self.desc.tensors() if found.name == self.output)
        made = last_of(nest, form, total.shape[len(nest.index) :])
        window = parts_of(self.desc, self.reads)
        starts = [w.start for w in self.window]
        window[PARTS] = Part((*starts, *(0,) * (total.ndim - len(starts))), Tensor(PARTS, total.shape, form.data_type), True)
        stated = Stated(type(self.desc).__name__, self.output, shifted(made, starts, sizes_of(self.window), window))
        reads = {**self.reads, PARTS: Needed(tuple(map(slice, total.shape)), ())}
        return computed(self.desc, stated, {**views, PARTS: total}, reads, sizes_of(self.window), data_type, device)


def last_of(nest: Nest, form: Form, pieces: Sequence[int]) -> Nest:
    """A nest with the partial results in place of its reduction. pieces: the sizes of the dimension behind the output's."""
    tensor = Tensor(PARTS, (*nest.sizes, *pieces), form.data_type)
    instead: Expr
    if pieces:
        k = each(pieces, "p")
        instead = Sum(k, tensor[[*nest.index, *k]])
    else:
        instead = tensor[nest.index]
    return _replaced(nest, form, instead)


def without_parts(nest: Nest, form: Form) -> Nest:
    """A nest with a number in place of its reduction, which reads what the last step reads beside partial results."""
    return _replaced(nest, form, number(0))


def _replaced(nest: Nest, form: Form, instead: Expr) -> Nest:
    return Nest(nest.index, with_nodes(nest.body, {form.value: instead}))
