"""Regions of a graph that dequantise, multiply, sum and quantise again, found by what their operators state.

Their float tensors are nobody's output: a kernel may sum integers instead, where it bounds what their roundings change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32, round_to_odd
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.plan import Region, Use, Work, lie_alike
from anydml.schema.expression import Expr, Tensor, Variable, bound_by, is_integer, lift, make, walk
from anydml.schema.statement import Nest, stated
from anydml.tensor import DataType, TensorDesc, limits

EIGHT_BIT, FLOAT32 = (DataType.INT8, DataType.UINT8), DataType.FLOAT32
X, WEIGHTS, X_ZERO, WEIGHTS_ZERO, SUMS = "x", "weights", "x zero point", "weights zero point", "sums"
MARGIN = 1 + 2.0**-20  # by which sums in float64 are made larger, for what their roundings lose


def regions(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """The works that would do for others: each quantises a sum of products of dequantised tensors, one of them constant.

    What is between is read by the next operator alone and is no output of the graph, but for the dequantised tensors.
    """
    finding = _Finding(checked, works)
    return tuple(found for work in works if (found := finding.region(work)) is not None)


def with_regions(checked: CheckedGraph, works: Sequence[Work], taken: Sequence[Work]) -> tuple[Work, ...]:
    """The works with those regions instead of the works that they do for, and without what nobody reads any more."""
    inside = {node: region for region in taken for node in region.nodes}
    ends = {region.node: region for region in taken}
    rest = [ends.get(work.node, work) for work in works if work.node in ends or work.node not in inside]
    kept = {bound.buffer for bound in checked.outputs}
    made = {use.buffer: work for work in works for use in work.writes.values()}
    first: dict[int, int] = {}  # of the nodes that are left out, the first region that does for them
    while True:
        read = {use.buffer for work in rest for use in work.reads.values()} | kept
        dead = [work for work in rest if not any(use.buffer in read for use in work.writes.values())]
        dead = [work for work in dead if any(use.buffer in _dequantised(taken) for use in work.writes.values())]
        if not dead:
            break
        rest = [work for work in rest if work not in dead]
    left = {node for work in rest for node in work.nodes}
    for region in taken:
        for buffer in region.region.floats if region.region else ():
            if buffer in made and made[buffer].node not in left:
                first.setdefault(made[buffer].node, region.node)
    return tuple(
        work
        if work.region is None
        else replace(work, nodes=(*sorted(n for n, at in first.items() if at == work.node), *work.nodes))
        for work in rest
    )


def _dequantised(taken: Sequence[Work]) -> set[int]:
    return {buffer for work in taken if work.region for buffer in work.region.floats}


class _Unmatched(Exception):
    """A work that is not of the kind."""


class _Dequantised(NamedTuple):
    """A tensor (source - zero) * scale. scale, zero: arrays that are broadcast; zero_use: where the zero points are, if any."""

    source: Use
    scale: NDArray[np.float32]
    zero: NDArray[np.int64]
    zero_use: Use | None


class _Finding:
    def __init__(self, checked: CheckedGraph, works: Sequence[Work]) -> None:
        self.checked = checked
        self.writers = {use.buffer: work for work in works for use in work.writes.values()}
        self.kept = {bound.buffer for bound in checked.outputs}
        self.readers: dict[int, int] = {}
        for work in works:
            for buffer in {use.buffer for use in work.reads.values()}:
                self.readers[buffer] = self.readers.get(buffer, 0) + 1

    def region(self, work: Work) -> Work | None:
        """The region that ends with a work; None where there is none."""
        operator = self.checked.nodes[work.node]
        if operator is None or len(work.writes) != 1 or next(iter(work.writes.values())).tensor.data_type not in EIGHT_BIT:
            return None
        try:
            return self._region(work)
        except _Unmatched:
            return None

    def _nest(self, work: Work) -> Nest:
        operator = self.checked.nodes[work.node]
        assert operator is not None
        if operator.desc.spec.data_rules or len(work.writes) != 1:
            raise _Unmatched
        (nest,) = stated(operator.desc.as_newest()).values()
        if nest.moves or any(e.op == "read" and e.data[0].definition is not None for e in walk(nest.body)):
            raise _Unmatched
        return nest

    def _region(self, work: Work) -> Work:
        nodes, (output,) = [work.node], work.writes.values()
        quantising = self._nest(work)
        inner, scale, zero = _quantised(quantising.body, output.tensor.data_type)
        y_scale = self._one(self._array(work, scale, quantising))
        y_zero = 0 if zero is None else self._one(self._array(work, zero, quantising))
        low, high = -math.inf, math.inf
        name = _read_at(inner, quantising)
        while True:
            use = work.reads[name]
            work = self._before(use)
            nodes.append(work.node)
            nest = self._nest(work)
            body, bounds = _clamped(nest.body)
            # what was clamped before is clamped again by what follows
            low, high = (min(high, max(low, bound)) for bound in bounds)
            if any(map(bound_by, walk(body))):
                break
            name = _read_at(body, nest)
        return self._summed(work, nest, body, tuple(reversed(nodes)), output, (low, high), (y_scale, y_zero))

    def _before(self, use: Use) -> Work:
        """The work that writes a float tensor for one reader."""
        work = self.writers.get(use.buffer)
        if work is None or use.buffer in self.kept or self.readers[use.buffer] != 1 or len(work.writes) != 1:
            raise _Unmatched
        (written,) = work.writes.values()
        if written.tensor.data_type is not FLOAT32 or not lie_alike(use, written):
            raise _Unmatched
        return work

    def _summed(
        self,
        work: Work,
        nest: Nest,
        body: Expr,
        nodes: tuple[int, ...],
        output: Use,
        bounds: tuple[float, float],
        rounding: tuple[float, int],
    ) -> Work:
        total, added = _parts(body)
        if total.op != "reduce" or total.data[0] != "sum" or total.args[0].op != "mul":
            raise _Unmatched
        terms = total.data[1]
        for x, w in (total.args[0].args, total.args[0].args[::-1]):
            if x.op == w.op == "read" and w.data[1] == "inside" and self._constant(work.reads[w.data[0].name]):
                break
        else:
            raise _Unmatched
        along = [v for v in nest.variables if v.size > 1 and any(v in _variables(a) for a in w.args)]
        if len(along) > 1 or x.data[0].name == w.data[0].name:
            raise _Unmatched
        channel = along[0] if along else None
        of_x, of_w = (self._dequantised(work.reads[e.data[0].name]) for e in (x, w))
        if of_x.scale.size != 1 or of_x.zero.size != 1:
            raise _Unmatched
        sizes = tuple(int(v.size) for v in nest.variables)
        count = 1 if channel is None else int(channel.size)
        at = None if channel is None else nest.variables.index(channel)
        bias = np.zeros(count, np.float32)
        if added is not None:
            bias[...] = _along(self._array(work, added, nest), at)
        # the tensors as the sums read them: the weights in the order of their indices, each index one variable
        order = _order(w, nest.variables, terms)
        weights = of_w.source._replace(tensor=_view(of_w.source.tensor, order))
        scales, zeros = np.transpose(of_w.scale, order), np.transpose(of_w.zero, order)
        axis = None if channel is None else next(k for k, d in enumerate(order) if channel in _variables(w.args[d]))
        uses = {X: of_x.source, WEIGHTS: weights}
        read_x = make("read", x.args, (_tensor(X, of_x.source), x.data[1]), x.sort)
        read_w = _tensor(WEIGHTS, weights)[[w.args[d] for d in order]]
        if of_x.zero.any():
            uses[X_ZERO] = _single(of_x.zero_use)
            read_x = read_x - _tensor(X_ZERO, uses[X_ZERO])[[0] * len(x.args)]
        if of_w.zero.any():
            if of_w.zero_use is None:
                raise _Unmatched
            by_channel = axis is not None and zeros.shape[axis] > 1
            if zeros.size != (zeros.shape[axis] if axis is not None and by_channel else 1):
                raise _Unmatched
            uses[WEIGHTS_ZERO] = of_w.zero_use._replace(tensor=_view(of_w.zero_use.tensor, order, collapsed=True))
            index: list[Any] = [0] * len(order)
            if by_channel and axis is not None:
                index[axis] = w.args[order[axis]]
            read_w = read_w - _tensor(WEIGHTS_ZERO, uses[WEIGHTS_ZERO])[index]
        sums = make("reduce", (read_x * read_w, *total.args[1:]), total.data)
        data = np.broadcast_to(self._data(of_w.source), of_w.source.tensor.sizes)
        integers: NDArray[np.int64] = np.transpose(data, order).astype(np.int64) - zeros
        scale = _along(scales, axis, count)
        magnitudes, errors = _norms(integers, scale, axis)
        region = Region(
            Nest(nest.index, sums),
            TensorDesc(DataType.INT32, sizes).spelled_out(),
            at,
            (float(of_x.scale.flat[0]), int(of_x.zero.flat[0])),
            (scale, _along(zeros, axis, count).astype(np.int32)),
            magnitudes,
            errors,
            bias,
            bounds,
            rounding,
            tuple(dict.fromkeys(work.reads[e.data[0].name].buffer for e in (x, w, added) if e is not None)),
        )
        return Work(nodes, uses, {"output": output}, None, region)

    def _constant(self, use: Use) -> bool:
        """Whether a float tensor is dequantised of constants."""
        work = self.writers.get(use.buffer)
        return work is not None and all(self.checked.constant(u.buffer) is not None for u in work.reads.values())

    def _dequantised(self, use: Use) -> _Dequantised:
        """The tensor that a float tensor is dequantised of."""
        work = self.writers.get(use.buffer)
        if work is None:
            raise _Unmatched
        nest = self._nest(work)
        (written,) = work.writes.values()
        if nest.body.op != "mul" or written.tensor.data_type is not FLOAT32 or not lie_alike(use, written):
            raise _Unmatched
        centred, scale = nest.body.args
        element, taken = centred.args if centred.op == "sub" else (centred, None)
        source = work.reads[_read_at(element, nest)]
        if source.tensor.data_type not in EIGHT_BIT:
            raise _Unmatched
        zero = np.zeros((1,) * len(nest.index), np.int64)
        zero_use = None
        if taken is not None and taken.op == "constant":
            zero[...] = int(taken.data.value)
            if zero.any():  # nowhere in memory
                raise _Unmatched
        elif taken is not None:
            zero = self._array(work, taken, nest).astype(np.int64)
            zero_use = work.reads[taken.data[0].name]
        return _Dequantised(source, self._array(work, scale, nest).astype(np.float32), zero, zero_use)

    def _data(self, use: Use) -> NDArray[Any]:
        """The elements of a constant, in which a dimension of equal elements, of stride 0, has size 1."""
        constant = self.checked.constant(use.buffer)
        if constant is None:
            raise _Unmatched
        t = use.tensor
        sizes = [1 if stride == 0 else n for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]
        dtype = t.data_type.dtype
        strides = [stride * dtype.itemsize for stride in t.explicit_strides]
        elements: NDArray[Any] = np.ndarray(sizes, dtype, constant.data, strides=strides)
        return elements

    def _array(self, work: Work, e: Expr, nest: Nest) -> NDArray[Any]:
        """The numbers that an expression reads of a constant, or of one that is dequantised, for every index of a nest."""
        if e.op != "read" or e.data[1] != "inside" or len(e.args) != len(nest.index):
            raise _Unmatched
        use = work.reads[e.data[0].name]
        if self.checked.constant(use.buffer) is None and use.buffer in self.writers:
            data = self._made(use)
        else:
            data = self._data(use)
        places = []
        for a, i, size in zip(e.args, nest.index, data.shape, strict=True):
            places.append(np.zeros(1, np.intp) if size == 1 or i.data.size == 1 else _places(a, i))
        found: NDArray[Any] = data[np.ix_(*places)]
        return found

    def _made(self, use: Use) -> NDArray[np.float32]:
        """The elements of a float tensor that is dequantised of constants: a bias."""
        if not self._constant(use):
            raise _Unmatched
        work = self.writers[use.buffer]
        nest = self._nest(work)
        (written,) = work.writes.values()
        if nest.body.op != "mul" or written.tensor.data_type is not FLOAT32 or not lie_alike(use, written):
            raise _Unmatched
        centred, factor = nest.body.args
        element, taken = centred.args if centred.op == "sub" else (centred, lift(0))
        integers = self._array(work, element, nest).astype(np.int64)
        if integers.dtype.kind not in "iu":
            raise _Unmatched
        if taken.op == "constant":
            integers = integers - int(taken.data.value)
        else:
            integers = integers - self._array(work, taken, nest).astype(np.int64)
        scale = self._array(work, factor, nest)
        if scale.dtype != np.float32 or not np.isfinite(scale).all():
            raise _Unmatched
        q, s = np.broadcast_arrays(integers, scale)
        made = np.array([_product(int(n), float(x)) for n, x in zip(q.flat, s.flat, strict=True)])
        return round_to_float32(made).reshape(q.shape)

    def _one(self, values: NDArray[Any]) -> Any:
        if values.size != 1:
            raise _Unmatched
        return values.flat[0].item()


def _product(n: int, x: float) -> float:
    """An integer times a float32, in float64 such that rounding that to float32 rounds the product."""
    numerator, denominator = Fraction(x).as_integer_ratio()
    return math.ldexp(round_to_odd(n * numerator), 1 - denominator.bit_length())


def _quantised(e: Expr, data_type: DataType) -> tuple[Expr, Expr, Expr | None]:
    """What is divided, the divisor, and the zero point, where an element is quantised, the quotient rounded to FLOAT32."""
    low, high = limits(data_type)
    if e.op != "select" or e.args[0].op != "is_nan" or e.args[1] is not lift(low):
        raise _Unmatched
    quotient = e.args[0].args[0]
    total, bounds = _clamped(e.args[2])
    zero: Expr | None = None
    if total.op == "add" and total.args[0].op == "half_to_even":
        total, zero = total.args
    if bounds != (low, high) or total.op != "half_to_even" or total.args[0] is not quotient:
        raise _Unmatched
    if quotient.op != "round" or quotient.data is not FLOAT32 or quotient.args[0].op != "div":
        raise _Unmatched
    if zero is not None and zero.op == "constant":
        if zero.data.value != 0:
            raise _Unmatched
        zero = None
    divided, divisor = quotient.args[0].args
    return divided, divisor, zero


def _clamped(e: Expr) -> tuple[Expr, tuple[float, float]]:
    """An expression without the bounds that it is clamped to, which are numbers of float32."""
    steps = []
    while e.op in ("max", "min"):
        constants = [a for a in e.args if a.op == "constant"]
        others = [a for a in e.args if a.op != "constant"]
        if len(constants) != 1:
            raise _Unmatched
        bound = float(constants[0].data.value)
        if bound != bound or float(np.float32(bound)) != bound:
            raise _Unmatched
        steps.append((max if e.op == "max" else min, bound))
        e = others[0]
    low, high = -math.inf, math.inf
    for function, bound in reversed(steps):
        low, high = function(low, bound), function(high, bound)
    return e, (low, high)


def _parts(e: Expr) -> tuple[Expr, Expr | None]:
    """A sum of products, and what is added to it."""
    if e.op == "add":
        first, second = map(_once, e.args)
        return (first, second) if first.op == "reduce" else (second, first)
    return _once(e), None


def _once(e: Expr) -> Expr:
    """An expression without a factor of 1."""
    if e.op == "mul":
        for x, y in (e.args, e.args[::-1]):
            if x.op == "constant" and x.data.value == 1:
                return y
    return e


def _read_at(e: Expr, nest: Nest) -> str:
    """The tensor that is read at the index of a nest."""
    if e.op != "read" or e.data[1] != "inside" or e.args != tuple(nest.index):
        raise _Unmatched
    name: str = e.data[0].name
    return name


def _variables(e: Expr) -> set[Variable]:
    return {a.data for a in walk(e) if a.op == "variable"}


def _places(index: Expr, i: Expr) -> NDArray[np.intp]:
    """The values of an index of one variable, for each of that: the variable itself, or blocks of it."""
    count = int(i.data.size)
    if index is i:
        return np.arange(count)
    if index is lift(0):
        return np.zeros(1, np.intp)
    if index.op == "floordiv" and index.args[0] is i and is_integer(index.args[1]):
        return np.arange(count) // int(index.args[1].data.value)
    raise _Unmatched


def _order(w: Expr, i: Sequence[Variable], terms: Sequence[Variable]) -> tuple[int, ...]:
    """The dimensions of weights in the order in which sums read them: matrices by term and column, filters as they are."""
    if len(terms) != 1 or len(w.args) < 2:
        return tuple(range(len(w.args)))
    *rest, a, b = range(len(w.args))
    column = w.args[a].data is i[-1] and w.args[b].data is terms[0] and len(i) == len(w.args)
    return (*rest, b, a) if column else (*rest, a, b)


def _view(t: TensorDesc, order: Sequence[int], collapsed: bool = False) -> TensorDesc:
    """A tensor with its dimensions in another order. collapsed: those of equal elements, of stride 0, have size 1."""
    strides = [t.explicit_strides[d] for d in order]
    sizes = [t.sizes[d] for d in order]
    if collapsed:
        sizes = [1 if stride == 0 else n for n, stride in zip(sizes, strides, strict=True)]
    return TensorDesc(t.data_type, sizes, strides=strides).spelled_out()


def _single(use: Use | None) -> Use:
    if use is None:
        raise _Unmatched
    return use._replace(tensor=TensorDesc(use.tensor.data_type, (1,) * len(use.tensor.sizes)).spelled_out())


def _tensor(name: str, use: Use) -> Tensor:
    return Tensor(name, use.tensor.sizes, use.tensor.data_type)


def _along(values: NDArray[Any], axis: int | None, count: int | None = None) -> NDArray[Any]:
    """The values along one axis, in which alone they differ."""
    found = values.reshape(-1) if axis is None else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, :1].ravel()
    if found.size != values.size:
        raise _Unmatched
    return found if count is None else np.broadcast_to(found, (count,)).copy()


def _norms(integers: NDArray[np.int64], scale: NDArray[np.float32], axis: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each channel, no less than the sums of |weight| and of |weight - scale * integer|."""
    rows = integers.reshape(1, -1) if axis is None else np.moveaxis(integers, axis, 0).reshape(integers.shape[axis], -1)
    range_ = np.arange(-255, 256)
    exact = scale.astype(np.float64)[:, None] * range_  # 24 bits and 8
    rounded = round_to_float32(exact).astype(np.float64)
    at = rows + 255
    found = [np.take_along_axis(np.abs(table), at, 1).sum(1) * MARGIN for table in (rounded, rounded - exact)]
    return found[0], found[1]
