"""Elements from sums that are exact, or that are pairs, with the term that is added to them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from anydml.kernels.code.values import Body, Value
from anydml.kernels.contract.floats.formula import Stored, rounded, stored, stored_precisely
from anydml.kernels.contract.floats.second import compensated
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.functions.pairs import Pair, two_sum

Streams = Mapping[int, Value]


def added(s: Stored, number: Number, read: Streams, made: Value, undecided: Value | None) -> tuple[Value, Value | None]:
    """The stored bits, and the lanes that stay undecided: to an exact sum, a term is added exactly, as a pair."""
    term = _term(s, read)
    if term is None or undecided is None:
        return made, undecided
    body, total = number.body, number.wide()
    exact = number.error().compared("oeq", 0.0)
    head, remainder = two_sum(total, term)  # the remainder beside an infinity is NaN
    second, left = stored(body, s, read, rounded(head, remainder, number.guard), total.kind.lanes, added=True)
    undecided = undecided & ~exact
    return body.chosen(exact, second, made), undecided if left is None else undecided | left & exact


def signed(s: Stored, total: Value, read: Streams) -> Value:
    """The lanes in which the sign of a zero sum matters: not those in which a number other than zero is added."""
    zero, term = total.compared("oeq", 0.0), _term(s, read)
    return zero if term is None else zero & term.compared("oeq", 0.0)


def _term(s: Stored, read: Streams) -> Value | None:
    """The term that is added to the sum, in float64, if the sum has no other use; else None."""
    found = s.added()
    return None if found is None else compensated.wide(read[found[1]], s.types[found[1]])


def paired(body: Body, s: Stored, values: list[Value], read: Streams, guard: Value | None) -> tuple[Value, Value | None]:
    """The stored bits of a sum in several float64, and the lanes that stay undecided."""
    total, term = values[0], _term(s, read)
    lanes = total.kind.lanes
    if term is not None:
        values = compensated.plus(values, term)
    head, remainder, undecided, tail, lack = compensated.result(values)
    none = ~total.magnitude().compared("olt", math.inf)  # a factor is not finite: there is no pair
    none = none if guard is None else none | guard
    made, left = stored(body, s, read, rounded(head, remainder, undecided | none), lanes, added=term is not None)
    if left is None or not s.linear:
        return made, left
    exact = Precise(Pair(head, tail), lack, none)
    second = stored_precisely(body, s, read, exact, lanes, added=term is not None)
    if second is None:
        return made, left
    return body.chosen(left, second[0], made), left if second[1] is None else left & second[1]
