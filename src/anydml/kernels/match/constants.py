"""The bits of constants that are stored among moved elements."""

from __future__ import annotations

import math
from fractions import Fraction

from anydml.exact.formats import FORMATS, nearest, wrapped
from anydml.schema.node import Constant, Expr
from anydml.tensor import DataType


def stored_bits(e: Expr, data_type: DataType) -> int | None:
    """The bits of a constant in a data type; None if it is not a constant, or the integer type cannot hold it."""
    return bits_of(e.data, data_type) if e.op == "constant" else None


def bits_of(constant: Constant, data_type: DataType) -> int | None:
    """The bits of a constant in a data type; None if the integer type cannot hold it."""
    value, form = constant.value, FORMATS.get(data_type)
    if form is None:
        return wrapped(int(value), data_type.element_bits, False) if constant.integral else None
    if isinstance(value, Fraction):
        return nearest(value.numerator, value.denominator, form) if value else 0
    if not isinstance(value, float):
        return None
    if math.isnan(value):
        return form.quiet_nan
    negative = math.copysign(1, value) < 0
    return form.beyond(form.sign if negative else 0) if value else form.negative_zero if negative else 0
