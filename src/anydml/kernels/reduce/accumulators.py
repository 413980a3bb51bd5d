"""The choice of an accumulator by the kind of a reduction and of its terms."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.extremes import First, RowExtreme
from anydml.kernels.reduce.sums import CarefulProduct, Integers, RowProduct, RowSum


def accumulator(
    body: Body, lanes: int, kind: str, term: Item, number: Callable[[Item], Number], *,
    count: int, depth: int, counted: bool, last: bool, careful: bool, modulus: int | None,
) -> Accumulator:  # fmt: skip
    """The accumulator of a reduction of such terms; modulus: the bits of a sum of integers that are stored."""
    if kind in ("max", "min"):
        return RowExtreme(body, lanes, term if isinstance(term, WholeNumber) else number(term), kind)
    if kind in ("first_largest", "first_smallest"):
        return First(
            body, lanes, term if isinstance(term, WholeNumber) else number(term), kind.removeprefix("first_"), last=last
        )
    if isinstance(term, WholeNumber) and modulus is not None and not counted:
        return Integers(body, lanes, "add" if kind == "sum" else "mul", modulus, signed=term.low < 0)
    if kind == "sum":
        return RowSum(body, lanes, number(term), count, depth, counted=counted, careful=careful)
    if counted:
        raise Uncompilable("a product of some terms")
    factor = number(term)
    return (CarefulProduct if careful and factor.single is not None else RowProduct)(body, lanes, factor, count)
