"""Regions of a graph that dequantise, multiply, sum and quantise again, found by what their operators state.

Their float tensors are nobody's output: a kernel may sum integers instead, where it bounds what their roundings change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.dequantised import EIGHT_BIT, Reading
from anydml.graphs.lattice import integers_of
from anydml.graphs.plan import Region, Use, Work
from anydml.graphs.quantised_parts import (
    Unmatched,
    by_index,
    clamped,
    most_norms,
    norms,
    one,
    order_of,
    parts,
    quantised,
    read_at,
    regions_of,
    single,
    tensor,
    variables,
    view,
    zero_points,
)
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, lift, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, walk
from anydml.tensor import DataType, TensorDesc

# the tensors of a region's work, besides "output"; SUMS is in memory of the kernel's own
X, WEIGHTS, OTHER, X_ZERO, WEIGHTS_ZERO, SUMS = "x", "weights", "other", "x zero point", "weights zero point", "sums"


def regions(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """The works that would do for others: each quantises a sum of products of dequantised tensors, one of constants or owned.

    What is between is read by the next operator alone and is no output of the graph, but for the dequantised tensors.
    """
    return regions_of(works, _Finding(checked, works).region)


def with_regions(checked: CheckedGraph, works: Sequence[Work], taken: Sequence[Work]) -> tuple[Work, ...]:
    """The works with those regions instead of the works that they do for, and without what nobody reads any more."""
    inside = {node for region in taken for node in region.nodes}
    ends = {region.node: region for region in taken}
    rest = [ends.get(work.node, work) for work in works if work.node in ends or work.node not in inside]
    read = {bound.buffer for bound in checked.outputs} | {use.buffer for work in rest for use in work.reads.values()}
    floats: dict[int, Work] = {}  # by buffer, the first region that reads what it was dequantised of
    for region in taken:
        for buffer in region.floats:
            floats.setdefault(buffer, region)
    left_out: dict[int, list[int]] = {}
    found = []
    for work in rest:
        written = {use.buffer for use in work.writes.values()}
        if written <= floats.keys() and not written & read:
            left_out.setdefault(floats[written.pop()].node, []).append(work.node)
        else:
            found.append(work)
    return tuple(
        replace(work, nodes=(*left_out[work.node], *work.nodes)) if work.node in left_out and work.region else work
        for work in found
    )


class _Weights(NamedTuple):
    """Integers, scales and zero points, which are broadcast; known: whether the integers are constants, not owned inputs."""

    integers: NDArray[Any]
    scale: NDArray[np.float32]
    zero: NDArray[np.int64]
    known: bool = True

    def norms(
        self, scales: NDArray[np.float32], axis: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
        """For each channel, no less than the sums of |weight| and of |weight - scale * integer|.

        And the sum of these differences, where integers are known.
        """
        if self.known:
            centred = np.subtract(self.integers, self.zero, dtype=np.int16) if self.zero.any() else self.integers
            return norms(centred, scales, axis)
        zeros = np.broadcast_to(by_index(self.zero, axis), scales.shape)
        most = most_norms(DataType.of(self.integers.dtype), zeros, scales, self.integers.size // scales.size)
        return *most, None


class _Chain(NamedTuple):
    """The works from a sum to what quantises it. nodes: in order; added: what is dequantised and added to the rounded sum."""

    sums: Work
    nest: Nest
    body: Expr
    nodes: tuple[int, ...]
    bounds: tuple[float, float]
    rounding: tuple[float, int]
    added: Use | None


class _Finding(Reading):
    def region(self, work: Work) -> Work:
        """The region that ends with a work."""
        if len(work.writes) != 1 or next(iter(work.writes.values())).tensor.data_type not in EIGHT_BIT:
            raise Unmatched
        return self._summed(self._chain(work), next(iter(work.writes.values())))

    def _chain(self, work: Work) -> _Chain:
        """The works before one that quantises."""
        (output,) = work.writes.values()
        nest = self.nest(work)
        inner, scale, zero = quantised(nest.body, output.tensor.data_type)
        rounding = float(one(self.scale(work, scale, nest))), int(one(self.integers(work, zero, nest)))
        nodes, (low, high), added = [work.node], (-math.inf, math.inf), None
        use = work.reads[read_at(inner, nest)]
        while True:
            work = self.before(use)
            nodes.append(work.node)
            nest = self.nest(work)
            body, bounds = clamped(nest.body)
            if added is not None and bounds != (-math.inf, math.inf):
                raise Unmatched  # what is added to is not what was summed
            low, high = (min(high, max(low, bound)) for bound in bounds)  # which what follows clamps, too
            if any(map(bound_by, walk(body))):
                return _Chain(work, nest, body, tuple(reversed(nodes)), (low, high), rounding, added)
            if body.op == "add" and added is None:
                use, added = self._terms([work.reads[read_at(e, nest)] for e in body.args])
            else:
                use = work.reads[read_at(body, nest)]

    def _terms(self, uses: Sequence[Use]) -> tuple[Use, Use]:
        """Of two tensors that are added, the one that is no dequantised one, and the one that is."""
        dequantised = [use for use in uses if self._is_dequantised(use)]
        others = [use for use in uses if use not in dequantised]
        if len(dequantised) != 1 or len(others) != 1:
            raise Unmatched
        return others[0], dequantised[0]

    def _is_dequantised(self, use: Use) -> bool:
        try:
            self.dequantised(use)
        except Unmatched:
            return False
        return True

    def _summed(self, chain: _Chain, output: Use) -> Work:
        """The region of a chain."""
        work, nest = chain.sums, chain.nest
        total, added = parts(chain.body)
        if total.op != "reduce" or total.data[0] != "sum" or total.args[0].op != "mul":
            raise Unmatched
        for x, w in (total.args[0].args, total.args[0].args[::-1]):
            if x.op == w.op == "read" and w.data[1] == "inside" and self.fixed(work.reads[w.data[0].name]):
                break
        else:
            raise Unmatched
        along = [v for v in nest.variables if v.size > 1 and any(v in variables(a) for a in w.args)]
        if len(along) > 1 or x.data[0].name == w.data[0].name:
            raise Unmatched
        at = nest.variables.index(along[0]) if along else None
        count = int(along[0].size) if along else 1
        bias = np.zeros(count, np.float32)
        if added is not None:
            bias[...] = by_index(self.array(work, added, nest), at)
        uses: dict[str, Use] = {}
        of_x = self.dequantised(work.reads[x.data[0].name])
        uses[X] = of_x.source
        factor = make("read", x.args, (tensor(X, of_x.source), x.data[1]), x.sort)
        if one(of_x.zero):
            uses[X_ZERO] = single(of_x.zero_use)
            factor = factor - tensor(X_ZERO, uses[X_ZERO])[[0] * len(x.args)]
        # matrices of weights by term and column, filters as they are, whatever the order in memory
        order = order_of(w, nest.variables, total.data[1])
        axis = next((k for k, d in enumerate(order) if along and along[0] in variables(w.args[d])), None)
        of_w = self._weights(work.reads[w.data[0].name], order, axis, uses)
        weights = Tensor(WEIGHTS, of_w.integers.shape, DataType.of(of_w.integers.dtype))[[w.args[d] for d in order]]
        if WEIGHTS_ZERO in uses:
            index = [w.args[order[k]] if k == axis and n > 1 else lift(0) for k, n in enumerate(of_w.zero.shape)]
            weights = weights - tensor(WEIGHTS_ZERO, uses[WEIGHTS_ZERO])[index]
        scales = by_index(of_w.scale, axis, count)
        magnitudes, errors, lean = of_w.norms(scales, axis)
        other = None
        if chain.added is not None:
            of_other = self.dequantised(chain.added)
            uses[OTHER] = of_other.source
            other = float(one(of_other.scale)), int(one(of_other.zero))
        floats = [work.reads[e.data[0].name].buffer for e in (x, w, added) if e is not None]
        region = Region(
            Nest(nest.index, make("reduce", (factor * weights, *total.args[1:]), total.data)),
            TensorDesc(DataType.INT32, [int(v.size) for v in nest.variables]).spelled_out(),
            at,
            (float(one(of_x.scale)), int(one(of_x.zero))),
            (scales, by_index(of_w.zero, axis, count).astype(np.int32)),
            (magnitudes, errors),
            lean,
            bias,
            other,
            chain.bounds,
            chain.rounding,
            {} if WEIGHTS in uses else {WEIGHTS: np.ascontiguousarray(of_w.integers)},
        )
        others = [chain.added.buffer] if chain.added else []
        return Work(chain.nodes, uses, {"output": output}, None, region, (*dict.fromkeys([*floats, *others]),))

    def _weights(self, use: Use, order: Sequence[int], axis: int | None, uses: dict[str, Use]) -> _Weights:
        """Weights with their dimensions in an order, channels along an axis; `uses` gets what is in a buffer of them."""
        if self.checked.constant(use.buffer) is not None:
            floats = np.transpose(np.broadcast_to(self.data(use), use.tensor.sizes), order)
            sizes = [n if k == axis else 1 for k, n in enumerate(floats.shape)]
            rows = floats.reshape(1, -1) if axis is None else np.moveaxis(floats, axis, 0).reshape(sizes[axis], -1)
            if floats.dtype != np.float32 or (found := integers_of(rows)) is None:
                raise Unmatched
            integers, scales = found
            first = [floats.shape[axis or 0] if axis is not None else 1, *(n for k, n in enumerate(floats.shape) if k != axis)]
            back = integers.reshape(floats.shape if axis is None else first)
            back = back if axis is None else np.moveaxis(back, 0, axis)
            return _Weights(back, scales.reshape(sizes), np.zeros(sizes, np.int64))
        of_w = self.dequantised(use)
        uses[WEIGHTS] = of_w.source._replace(tensor=view(of_w.source.tensor, order))
        if of_w.zero.any():
            uses[WEIGHTS_ZERO] = zero_points(of_w.zero_use, order)
        t, known = of_w.source.tensor, self.checked.constant(of_w.source.buffer) is not None
        data = np.broadcast_to(self.data(of_w.source) if known else np.zeros((), t.data_type.dtype), t.sizes)
        integers, scale, zero = (np.transpose(values, order) for values in (data, of_w.scale, of_w.zero))
        return _Weights(integers, scale, zero, known)
