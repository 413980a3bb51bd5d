"""Products of weights that are dequantised: both operators become one statement, so that the dequantised weights are not kept.

In the fused statement, the weights are replaced by their expression, rounded to their type, so that the result has the same
bits as that of the operators. Kernels decide which of these statements they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from anydml.graphs.between import Graph, Link, NotBetween, Region, reduces, with_regions
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusing import sums_products
from anydml.graphs.plan import Passed, Reason, Use, Work
from anydml.schema.expression import held
from anydml.schema.node import Expr, lift, make
from anydml.tensor import DataType

FEWEST = 1 << 12  # weights; fewer fit in the first cache in any form
INTEGERS = {DataType.INT4, DataType.UINT4, DataType.INT8, DataType.UINT8}


def products_of_weights(checked: CheckedGraph, operators: Sequence[Work]) -> Passed:
    """The sums of products that read constant weights of 4 or 8 bits, dequantised, as fused statements."""
    graph, found, reasons = Graph(checked, operators), list[Work](), list[Reason]()
    for work in operators:
        weights = [use for use in work.reads.values() if _dequantised(graph, use)]
        if work.nest is not None or len(weights) != 1 or len(work.reads) == 1:
            continue
        try:
            found.append(_Product(graph, work).work())
        except NotBetween as error:
            reasons.append(Reason(work.node, str(error)))
    return Passed(tuple(found), tuple(reasons))


def with_products(checked: CheckedGraph, operators: Sequence[Work], taken: Sequence[Work]) -> tuple[Work, ...]:
    """The calls with these products, and without dequantisations that are no longer read."""
    return with_regions(checked, operators, taken)


def _dequantised(graph: Graph, use: Use) -> bool:
    """Whether a tensor is dequantised from constants of 4 or 8 bits that share scales in blocks."""
    if use.tensor.data_type not in (DataType.FLOAT32, DataType.FLOAT16) or (link := graph.dequantised(use)) is None:
        return False
    uses = [*link.work.reads.values()]
    return (
        bool(uses)
        and all(graph.checked.constant(u.buffer) is not None for u in uses)
        and uses[0].tensor.data_type in INTEGERS
        and len(uses[0].tensor.sizes) > 1
        and prod(uses[0].tensor.sizes) >= FEWEST
    )


class _Product(Region):
    """One sum of products and the dequantisation of its weights."""

    def _chain(self, work: Work) -> list[Link]:
        link = self.graph.link(work)
        if not reduces(link.nest) or not sums_products(link.nest):
            raise NotBetween(f"{self._called(work)} is no sum of products")
        return [link]

    def _read(self, use: Use, args: tuple[Expr, ...], mode: str) -> Expr:
        if not _dequantised(self.graph, use):
            return make("read", args, (self._tensor(use), mode))
        link = self.graph.dequantised(use)
        assert link is not None
        if mode != "inside":
            raise NotBetween(f"{self._called(self.chain[0].work)} reads weights outside of their sizes")
        self.floats[use.buffer] = None
        index = self._as_written(args, use, link.written)

        def read(_: Expr, use: Use, at: tuple[Expr, ...]) -> Expr:
            return make("read", at, (self._tensor(use), mode))

        return held(self._replaced(link, index, read), link.written.tensor.data_type)

    def _as_written(self, args: Sequence[Expr], use: Use, written: Use) -> tuple[Expr, ...]:
        """The index of an element in the tensor that the dequantisation writes, whose dimensions may be in another order."""
        t, s = use.tensor, written.tensor
        free = {(n, stride): k for k, (n, stride) in enumerate(zip(t.sizes, t.explicit_strides, strict=True)) if n > 1}
        found = []
        for n, stride in zip(s.sizes, s.explicit_strides, strict=True):
            k = None if n == 1 else free.pop((n, stride), None)
            if k is None and n > 1:
                break
            found.append(lift(0) if k is None else args[k])
        if free or len(found) < len(s.sizes) or use.offset != written.offset or t.data_type is not s.data_type:
            raise NotBetween(f"{self._called(self.chain[0].work)} reads weights in another layout than they are dequantised")
        return tuple(found)
