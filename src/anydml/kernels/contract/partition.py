"""The partition of a problem's work: parts between which signals are handled, and a piece of each part for every thread."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from anydml.kernels.contract.geometry import OutputPart, cut
from anydml.kernels.contract.layout import IntegerLayout


def whole(at: IntegerLayout) -> OutputPart:
    """All the work."""
    outer, inner = at.problem.batches
    return OutputPart(range(outer), range(inner), range(at.rows), range(at.panels))


def grid(at: IntegerLayout) -> Iterator[tuple[OutputPart, list[tuple[int, OutputPart]]]]:
    """Parts of the work, each with its repetitions: for each direction, their number, and the first repetition.

    The last part in a direction is not a repetition, since it may be smaller.
    """
    everything = whole(at)
    ways = []
    for items, most in zip(everything, _lengths(at, everything), strict=True):
        times = (len(items) - 1) // most
        last = range(times * most, len(items))
        ways.append([(times, range(most)), (1, last)] if times else [(1, last)])
    for way in product(*ways):
        part = OutputPart(*(items for _, items in way))
        named = zip(OutputPart._fields, way, strict=True)
        yield part, [(n, part._replace(**{x: range(r.stop, r.stop + len(r))})) for x, (n, r) in named if n > 1]


def _lengths(at: IntegerLayout, everything: OutputPart) -> tuple[int, int, int, int]:
    """Batches, rows and panels of a part that takes about a tenth of a second."""
    k = at.row_products
    long = at.tuning.long * at.target.vector_bytes // 16 * at.dot.group // 2
    outer, inner, rows, panels = (len(x) for x in everything)
    rows = min(rows, at.tuning.most_rows)
    # even the smallest product takes as long as some thousands of products of elements in large ones
    while outer * inner * max(rows * (columns := panels * at.width) * k, long >> 20) > long:
        if outer > 1:
            outer = -(-outer // 2)
        elif inner > 1:
            inner = -(-inner // 2)
        elif panels > 1 and (columns >= rows or rows == 1):
            panels = -(-panels // 2)
        elif rows > 1:
            rows = -(-rows // 2)
        else:
            break
    parts = zip(everything, (outer, inner, rows, panels), strict=True)
    outer, inner, rows, panels = (-(-len(x) // -(-len(x) // most)) for x, most in parts)
    return outer, inner, rows, panels


def threads_for(at: IntegerLayout, most: int, by_channel: bool) -> int:
    """The number of threads that work on the problem. by_channel: each product's factor of A serves one channel alone."""
    p = at.problem
    fetched = math.prod(p.batches) * p.k * p.n * at.tuning.rows_of_fetching  # to read B takes as long as so many rows do
    work = p.products * at.tuning.products_by_channel if by_channel else max(p.products, fetched)
    return most if work * 256 >= at.tuning.alone * at.target.vector_bytes * at.dot.group else 1


def pieces(at: IntegerLayout, part: OutputPart, threads: int, packed: bool) -> list[OutputPart]:
    """A piece of a part for each thread; packed: B is packed already, so that pieces are rows, and each thread sums its own."""
    enough = len(part.rows) >= 2 * threads * at.dot.rows and math.prod(at.problem.batches) < threads
    return cut(part, threads, "rows" if packed and enough else "")
