"""Elements of a dequantised tensor that are selected, such as the largest of a window, and quantised with the same scale.

Let s > 0 be the scale, z the zero point, and d = byte - z. The byte is dequantised to fl(s d), which does not decrease if d
grows. The selected element is quantised to the integer nearest to fl(fl(s d) / s), plus z. The product and the quotient are
rounded once each, so the quotient is within 2^-22 |d| < 1/2 of d, and the result is d + z, unless fl(s d) is infinite. So the
bytes themselves may be selected. The least number, which an empty window gives, saturates to the least byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.dequantised import EIGHT_BIT, Reading
from anydml.graphs.plan import Selection, Work
from anydml.graphs.quantised_parts import REACH, Unmatched, one, quantised, read_at, regions_of


def selections(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """Each group of operators that dequantises a tensor, selects elements and quantises them, as one call on bytes."""
    return regions_of(works, partial(_selection, Reading(checked, works)))


def _selection(reading: Reading, work: Work) -> Work:
    outputs = [use for use in work.writes.values() if use.tensor.data_type in EIGHT_BIT]
    if len(outputs) != 1 or len(work.writes) != 1:
        raise Unmatched
    nest, (output,) = reading.nest(work), outputs
    inner, scale, zero = quantised(nest.body, output.tensor.data_type)
    rounding = one(reading.scale(work, scale, nest)), one(reading.integers(work, zero, nest))
    picking = reading.before(work.reads[read_at(inner, nest)])
    if len(picking.reads) != 1:
        raise Unmatched
    ((name, use),), (written,) = picking.reads.items(), picking.writes
    given = reading.dequantised(use)
    same = given.source.tensor.data_type is output.tensor.data_type and (one(given.scale), one(given.zero)) == rounding
    if not same or not 0 < rounding[0] * REACH <= float(np.finfo(np.float32).max):
        raise Unmatched
    nodes = picking.node, work.node
    return Work(nodes, {name: given.source}, {written: output}, None, Selection(picking.node), (use.buffer,))
