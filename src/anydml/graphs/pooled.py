"""Regions of a graph that compute means of a dequantised tensor and quantise them, found by their operators' statements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.dequantised import EIGHT_BIT, FLOAT32, Dequantised, Reading
from anydml.graphs.plan import Pooling, Use, Work, lie_alike
from anydml.graphs.quantised_parts import Unmatched, clamped, one, quantised, read_at, regions_of
from anydml.schema.node import Expr
from anydml.schema.traversal import bound_by, walk
from anydml.tensor import TensorDesc, packed_strides


def poolings(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """Each group of operators that dequantises a tensor, computes means of it and quantises them, as one call.

    A tensor between two of these operators has no other reader and is not an output of the graph. The dequantised tensor may
    have other readers.
    """
    return regions_of(works, partial(_pooling, Reading(checked, works)))


def _before(reading: Reading, use: Use, output: Use) -> tuple[Work, Use]:
    """The operator that writes a tensor, and the region's output with the sizes with which that operator writes.

    Packed tensors may be read with sizes other than those that were written.
    """
    work = reading.writers.get(use.buffer)
    if work is None or len(work.writes) != 1:
        raise Unmatched
    (written,) = work.writes.values()
    if lie_alike(use, written):
        return reading.before(use), output
    packed = all(map(is_packed, (use.tensor, written.tensor, output.tensor)))
    if not packed or use.offset != written.offset or use.tensor.span != written.tensor.span:
        raise Unmatched
    sizes = TensorDesc(output.tensor.data_type, written.tensor.sizes).spelled_out()
    return reading.before(written), output._replace(tensor=sizes)


def _dequantised(reading: Reading, use: Use) -> Dequantised:
    """The tensor of 8 bits from which a tensor was dequantised, with the layout in which the reader sees it."""
    work = reading.writers.get(use.buffer)
    if work is None or len(work.writes) != 1:
        raise Unmatched
    (written,) = work.writes.values()
    found = reading.dequantised(written)
    if lie_alike(use, written):
        return found
    first, rest = divmod(use.offset - written.offset, FLOAT32.element_bits // 8)
    inside = first >= 0 and not rest and first + use.tensor.span <= written.tensor.span
    if not inside or use.tensor.data_type is not FLOAT32 or not all(map(is_packed, (found.source.tensor, written.tensor))):
        raise Unmatched
    lying = TensorDesc(found.source.tensor.data_type, use.tensor.sizes, strides=use.tensor.explicit_strides).spelled_out()
    return found._replace(source=found.source._replace(tensor=lying, offset=found.source.offset + first))


def is_packed(t: TensorDesc) -> bool:
    """Whether a tensor is stored in row-major order without gaps."""
    return all(n == 1 or a == b for n, a, b in zip(t.sizes, t.explicit_strides, packed_strides(t.sizes), strict=True))


def _is_mean(e: Expr) -> bool:
    """Whether an expression is a sum of elements, divided by a number that depends on no element."""
    if e.op != "div" or e.args[0].op != "reduce" or e.args[0].data[0] != "sum":
        return False
    terms, number = e.args[0].args, e.args[1]
    return len(terms) == 1 and terms[0].op == "read" and all(node.op != "read" for node in walk(number))


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
        work, output = _before(reading, work.reads[name], output)
        nodes.append(work.node)
        nest = reading.nest(work)
        body, bounds = clamped(nest.body)
        if any(map(bound_by, walk(body))):
            break
        low, high = (min(high, max(low, bound)) for bound in bounds)  # the operators after this one clamp these bounds too
        name = read_at(body, nest)
    if bounds != (-math.inf, math.inf) or not _is_mean(body) or len(work.reads) != 1:
        raise Unmatched
    ((name, use),), (written,) = work.reads.items(), work.writes
    of_x = _dequantised(reading, use)
    x = float(one(of_x.scale)), int(one(of_x.zero))
    region = Pooling(nest, x, (low, high), rounding)
    return Work(tuple(reversed(nodes)), {name: of_x.source}, {written: output}, None, region, (use.buffer,))
