"""Means of dequantised tensors that are quantised again: regions of a graph, found by what their operators state."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.dequantised import EIGHT_BIT, Reading
from anydml.graphs.plan import Pooling, Work
from anydml.graphs.quantised_parts import Unmatched, clamped, one, quantised, read_at
from anydml.schema.traversal import bound_by, walk


def poolings(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """The works that would do for others: each quantises quotients of sums of one dequantised tensor.

    What is between is read by the next operator alone and is no output of the graph, but for the dequantised tensor.
    """
    reading = Reading(checked, works)
    found = []
    for work in works:
        try:
            found.append(_pooling(reading, work))
        except Unmatched:
            continue
    return tuple(found)


def _pooling(reading: Reading, work: Work) -> Work:
    outputs = [use for use in work.writes.values() if use.tensor.data_type in EIGHT_BIT]
    if len(outputs) != 1 or len(work.writes) != 1:
        raise Unmatched
    (output,) = outputs
    nest = reading.nest(work)
    inner, scale, zero = quantised(nest.body, output.tensor.data_type)
    rounding = float(one(reading.scale(work, scale, nest))), int(one(reading.integers(work, zero, nest)))
    nodes, (low, high) = [work.node], (-math.inf, math.inf)
    name = read_at(inner, nest)
    while True:
        work = reading.before(work.reads[name])
        nodes.append(work.node)
        nest = reading.nest(work)
        body, bounds = clamped(nest.body)
        if any(map(bound_by, walk(body))):
            break
        low, high = (min(high, max(low, bound)) for bound in bounds)  # which what follows clamps, too
        name = read_at(body, nest)
    if bounds != (-math.inf, math.inf) or body.op != "div" or len(work.reads) != 1:
        raise Unmatched
    ((name, use),), (written,) = work.reads.items(), work.writes
    of_x = reading.dequantised(use)
    x = float(one(of_x.scale)), int(one(of_x.zero))
    region = Pooling(nest, x, (low, high), rounding)
    return Work(tuple(reversed(nodes)), {name: of_x.source}, {written: output}, None, region, (use.buffer,))
