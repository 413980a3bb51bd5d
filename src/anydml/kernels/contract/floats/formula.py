"""The formula of a contraction over its sums, in lanes: what stores an element, once its sum is known with a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import precise
from anydml.kernels.elementwise.formula import FormulaWalk
from anydml.kernels.elementwise.items import Item, stored_item
from anydml.kernels.match.normal_form import Node, NormalForm, normal_form
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.floats.numbers import SINGLE, Number, U, odd_of, of_single
from anydml.kernels.numbers.known import Known
from anydml.tensor import DataType

KNOWN_SUM = Known(-(2.0**300), 2.0**300, -298, least=-298)  # of products of two float32, which are multiples of 2^-298
_KEEPING = {"stream", "constant", "max", "min", "same", "neg", "absolute"}  # operations whose result keeps KNOWN_SUM


class Stored(NamedTuple):
    """A formula, and the types of its streams and of the output, which is last. at: the stream that is the sum."""

    formula: NormalForm
    types: tuple[DataType, ...]
    at: int

    @property
    def others(self) -> tuple[int, ...]:
        """The streams that are read: all but the sum."""
        return tuple(k for k in range(len(self.types) - 1) if k != self.at)

    @property
    def linear(self) -> bool:
        """Whether the formula has only sums, differences, products, signs, minima and maxima."""
        return all(n.op in _KEEPING | {"add", "sub", "mul"} for n in self.formula)

    @property
    def of_sum(self) -> list[int]:
        """The nodes that depend on the sum."""
        varies = self.formula.varying(lambda node: node.op == "stream" and node.data[0] == self.at)
        return [place for place, differs in enumerate(varies) if differs]

    def rounded(self) -> int | None:
        """The node that rounds to float32, if all later nodes depend on the sum only through it, and there are later nodes."""
        found = self.of_sum
        for place in found[:-1]:
            node = self.formula[place]
            if node.op == "round" and node.data == DataType.FLOAT32:
                before = [p for p in found if p < place]
                return None if any(a in before for n in self.formula[place + 1 :] for a in n.args) else place
        return None

    def until(self, place: int) -> Stored:
        """The formula of the argument that a rounding node rounds; its output has the type that the node rounds to."""
        node = self.formula[place]
        return Stored(normal_form(self.formula[: node.args[0] + 1]), (*self.types[:-1], node.data), self.at)

    def limited(self) -> int | None:
        """The node to which only minima and maxima with float32 constants are applied afterwards.

        Rounding commutes with such a limit, unless the rounded number is -0, which may stand for a number below 0.
        """
        place, limits = len(self.formula) - 1, 0
        of_sum = self.of_sum
        while self.formula[place].op in ("max", "min", "same"):
            args = self.formula[place].args
            inner = [a for a in args if a in of_sum]
            if len(inner) != 1 or not all(_is_single(self.formula[a]) for a in args if a not in inner):
                return None
            limits += len(args) - 1
            (place,) = inner
        return place if limits and self.types[-1] == DataType.FLOAT32 else None

    def before(self, place: int) -> Stored:
        """The formula up to a node, with a float32 output."""
        return Stored(normal_form(self.formula[: place + 1]), (*self.types[:-1], DataType.FLOAT32), self.at)

    def added(self) -> tuple[int, int] | None:
        """The node that adds a stream to the sum, and that stream, if the sum has no other use."""
        sums = [p for p, n in enumerate(self.formula) if n.op == "stream" and n.data[0] == self.at]
        users = [user for p in sums for user in self.formula.users[p]]
        if len(users) != 1 or self.formula[users[0]].op != "add":
            return None
        (place,) = users
        others = [self.formula[a] for a in self.formula[place].args if a not in sums]
        if len(others) == 1 and others[0].op == "stream":
            return place, int(others[0].data[0])
        return None


def _is_single(node: Node) -> bool:
    """Whether a node is a constant that float32 represents, and not a signed zero."""
    if node.op != "constant" or not isinstance(node.data.value, Fraction):
        return False
    return bool(Fraction(float(np.float32(float(node.data.value)))) == node.data.value)


def _keeps_numbers(node: Node) -> bool:
    """Whether a node's result is no NaN if its arguments are none."""
    if node.op == "constant":
        return bool(node.data.value == node.data.value)
    return node.op in _KEEPING - {"stream"}


class _SumWalk(FormulaWalk):
    """known: the numbers of nodes that are already computed."""

    def __init__(self, body: Body, s: Stored, streams: list[Value], lanes: int, known: Mapping[int, Number]) -> None:
        super().__init__(body, s.formula, streams, s.types[-1], lanes, "wide", False)
        self.known = known

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        return self.known[place] if place in self.known else super()._item(place, op, args, data)


def stored(
    body: Body, s: Stored, streams: Mapping[int, Value], total: Number, lanes: int, *, added: bool = False
) -> tuple[Value, Value | None]:
    """The bits of elements, and the undecided lanes. added: the total already includes the stream that is added to the sum."""
    item = walked(body, s, streams, total, lanes, added=added)
    return stored_item(body, item, s.types[-1], lanes, integral=False)


def stored_rounded(
    body: Body, s: Stored, streams: Mapping[int, Value], place: int, bits: Value, lanes: int, *, number: bool = False
) -> tuple[Value, Value | None]:
    """As `stored`, from the bits of the float32 to which a node rounds. number: this is no NaN."""
    single = of_single(bits.cast(bits.kind.of("float")), replace(SINGLE, ordered=number))
    item = _walked(body, s, streams, {p: single for p in s.of_sum if p <= place}, lanes)
    if number and s.types[-1] == DataType.FLOAT32 and all(_keeps_numbers(n) for n in s.formula[place + 1 :]):
        assert isinstance(item, Number)
        if item.single is not None and item.guard is None:
            return item.single.bits(), None
    return stored_item(body, item, s.types[-1], lanes, integral=False)


def walked(body: Body, s: Stored, streams: Mapping[int, Value], total: Number, lanes: int, *, added: bool = False) -> Item:
    """The formula's value."""
    known = {p: total for p, n in enumerate(s.formula) if n.op == "stream" and n.data[0] == s.at}
    if added and (found := s.added()) is not None:
        known = {found[0]: total, **known}
    return _walked(body, s, streams, known, lanes)


def _walked(body: Body, s: Stored, streams: Mapping[int, Value], known: Mapping[int, Number], lanes: int) -> Item:
    values = [streams.get(k, body.undefined(Kind("i64", lanes))) for k in range(len(s.types) - 1)]
    return _SumWalk(body, s, values, lanes, known).run()


def stored_precisely(
    body: Body, s: Stored, streams: Mapping[int, Value], total: Precise, lanes: int, *, added: bool = False
) -> tuple[Value, Value | None] | None:
    """As `stored`, in twice float64's precision; None if that gains nothing, or if the formula cannot be computed so."""
    if all(n.op in _KEEPING or (added and n.op == "add") for n in s.formula):
        return None
    values = [streams.get(k, body.undefined(Kind("i64", lanes))) for k in range(len(s.types) - 1)]
    known = {p: total for p, n in enumerate(s.formula) if n.op == "stream" and n.data[0] == s.at}
    if added and (found := s.added()) is not None:
        known = {found[0]: total, **known}
    mark = len(body.lines)
    try:
        return precise.stored(body, s.formula, values, s.types[-1], lanes, integral=False, known=known)
    except Uncompilable:
        del body.lines[mark:]
        return None


def bounded(total: Value, error: Value, guard: Value | None) -> Number:
    """A sum in float64 with the bound of its error."""
    made = Number(total.body, lambda: total, KNOWN_SUM, guard=guard)
    return replace(made, err=lambda: error)


def rounded(total: Value, remainder: Value, guard: Value | None) -> Number:
    """A sum that is rounded to float64, with the remainder that the rounding took away."""
    odd = odd_of(total, remainder)
    made = Number(total.body, lambda: total, KNOWN_SUM, guard=guard)
    return replace(made, odd=lambda: odd, rel=U)
