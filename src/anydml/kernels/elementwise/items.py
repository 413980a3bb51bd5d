"""The results of a formula's nodes, called items, and their conversions to real numbers, integers and bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from anydml.exact.formats import wrapped
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.sloped import SlopedLine
from anydml.kernels.elementwise.standardised import LineMoments
from anydml.kernels.match.constants import bits_of
from anydml.kernels.match.normal_form import Node
from anydml.kernels.numbers import singles, wholes
from anydml.kernels.numbers.floats import numbers, rounding
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import known_of
from anydml.kernels.numbers.lanes import Truth
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits


class LoadedElement(NamedTuple):
    """The bits of an element that was read."""

    bits: Value
    data_type: DataType


Item: TypeAlias = Number | WholeNumber | Truth | LoadedElement | Constant | LineMoments | SlopedLine


def value_of(c: Constant) -> Fraction | float:
    """The number that a constant stands for; symbols are never lowered."""
    assert isinstance(c.value, (Fraction, float)), c
    return c.value


# --- as a real number ---


def number_of(body: Body, item: Item, lanes: int) -> Number:
    """An item as a real number in `lanes` lanes."""
    return as_number(item, body.undefined(Kind("i8", lanes)))


def as_number(item: Item, like: Value) -> Number:
    """An item as a real number; like: a value that has as many lanes as a constant is to have."""
    if isinstance(item, LoadedElement):
        return _read(item)
    if isinstance(item, Constant):
        return numbers.constant(value_of(item), like)
    if isinstance(item, WholeNumber):
        return numbers.whole_number(item.exactly())
    assert isinstance(item, Number), item
    return item


def _read(item: LoadedElement) -> Number:
    bits, kind = item.bits, item.bits.kind
    if item.data_type in singles.SINGLES:
        return numbers.of_single(singles.widened(bits, item.data_type), known_of(item.data_type))
    if item.data_type == DataType.FLOAT64:
        x = bits.cast(kind.of("double"))
        return Number(bits.body, lambda: x, known_of(DataType.FLOAT64), exact=True)
    return numbers.whole_number(integer(item))


# --- as an integer, as bits ---


def integer(item: LoadedElement) -> WholeNumber:
    """An element of integers as an integer."""
    if item.data_type.is_float:
        raise Uncompilable("an element of floats is taken as an integer")
    return WholeNumber(item.bits, known_of(item.data_type))


def as_whole(item: Item, like: Value) -> WholeNumber | None:
    """An item as an integer, like `as_number`; None if it is not integral."""
    if isinstance(item, LoadedElement) and item.data_type.is_integer:
        return integer(item)
    if isinstance(item, Constant) and item.integral:
        return wholes.constant(int(value_of(item)), like)
    return item if isinstance(item, WholeNumber) else None


def as_bits(item: Item, data_type: DataType, like: Value) -> Item:
    """The bits of a constant that is stored beside elements whose bits are moved; any other item unchanged."""
    if not isinstance(item, Constant):
        return item
    low, high = limits(data_type) if data_type.is_integer else (-math.inf, math.inf)
    bits = bits_of(item, data_type) if low <= value_of(item) <= high else None
    if bits is None:
        raise Uncompilable("a constant that its type does not hold")
    width = data_type.element_bits
    return LoadedElement(like.body.constant(like.kind.of(f"i{width}"), wrapped(bits, width, True)), data_type)


# --- stored ---


def stored_item(body: Body, item: Item, data_type: DataType, lanes: int, *, integral: bool) -> tuple[Value, Value | None]:
    """The bits of an item in a tensor, and the lanes that have to be decided elsewhere; integral: see `rounding.stored`."""
    if isinstance(item, LoadedElement) and item.data_type.is_integer:
        item = integer(item)
    if isinstance(item, Constant) and item.integral and integral and data_type.is_integer:
        item = wholes.constant(int(value_of(item)) % (1 << data_type.element_bits), body.undefined(Kind("i8", lanes)))
    if isinstance(item, WholeNumber) and data_type.is_integer:
        low, high = limits(data_type)
        if integral or (low <= item.low and item.high <= high):
            return rounding.stored(item, data_type, integral=True)
    return rounding.stored(number_of(body, item, lanes), data_type, integral=integral)


def single_constant(node: Node) -> float | None:
    """The number that a node is, if it is constant and a float32."""
    if node.op != "constant" or not isinstance(node.data.value, Fraction) or abs(node.data.value) >= 2**128:
        return None
    made = float(np.float32(node.data.value))
    return made if Fraction(made) == node.data.value else None
