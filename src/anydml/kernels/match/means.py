"""Statements of means over whole dimensions of a tensor."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from anydml.schema.node import is_integer
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by


class Means(NamedTuple):
    """The mean over some dimensions of a tensor. kept: the other dimensions."""

    source: str
    kept: tuple[int, ...]
    reduced: tuple[int, ...]


def means(nest: Nest) -> Means | str:
    """The means that a statement computes, or why it is not of this kind."""
    body = nest.body
    if nest.moves or body.op != "div" or body.args[0].op != "reduce" or not is_integer(body.args[1]):
        return "the element is not a sum divided by a number"
    total, number = body.args
    (read, *conditions), bound = total.args, bound_by(total)
    if total.data[0] != "sum" or conditions or read.op != "read" or read.data[0].definition is not None:
        return "the sum is not of elements"
    t, variables = read.data[0], nest.variables
    if read.data[1] != "inside" or len(read.args) != len(variables) or any(e.op != "variable" for e in read.args):
        return "elements are not read at the indices of the sum and the output"
    kept = tuple(d for d, (e, v) in enumerate(zip(read.args, variables, strict=True)) if e.data is v and v.size == t.sizes[d])
    reduced = tuple(d for d in range(len(variables)) if d not in kept)
    over = [read.args[d].data for d in reduced]
    if sorted(map(id, over)) != sorted(map(id, bound)) or len(set(over)) != len(over):
        return "elements are not read at the indices of the sum and the output"
    if any(v.size != t.sizes[d] or variables[d].size != 1 for v, d in zip(over, reduced, strict=True)):
        return "the sum is not over whole dimensions"
    if not reduced or int(number.data.value) != prod(v.size for v in bound):
        return "the sum is not divided by the number of its terms"
    return Means(t.name, kept, reduced)
