"""The kinds of attributes: the values that construction converts, those that the wire carries, and their spelling in JSON.

Desc construction, `check`, the JSON format, `describe` and the tests' strategies use them.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anydml.exact.formats import FLOAT32, FORMATS, Format, nearest, significand
from anydml.schema.symbol import Symbol
from anydml.tensor import DataType, integer, limits, member

UINT_RANGE, INT_RANGE = range(2**32), range(-(2**31), 2**31)


class ScaleBias(NamedTuple):
    """DML_SCALE_BIAS: x * scale + bias, before the operator's function."""

    scale: float = 1.0
    bias: float = 0.0


class Size2D(NamedTuple):
    """DML_SIZE_2D."""

    width: int
    height: int


def rounded_to(value: Any, form: Format) -> float:
    """A number rounded half to even to a float format; on overflow, an infinity, or NaN in formats without it."""
    if isinstance(value, float) and (value - value != 0 or value == 0):
        return float(value)
    numerator, denominator = value.as_integer_ratio()
    if numerator == 0:
        return 0.0
    bits = nearest(numerator, denominator, form)
    if not form.is_finite(bits):
        if form.suffix:
            return math.nan
        return -math.inf if bits & form.sign else math.inf
    m, e = significand(bits, form)
    return math.copysign(math.ldexp(m, e), -1.0 if bits & form.sign else 1.0)


def stored_in(value: float, data_type: DataType) -> Any:
    """A float as a tensor stores it: rounded half to even; in an integer type truncated and saturated, with NaN as 0."""
    if (form := FORMATS.get(data_type)) is not None:
        return rounded_to(value, form)
    low, high = limits(data_type)
    if math.isfinite(value):
        return min(high, max(low, math.trunc(value)))
    return 0 if value != value else low if value < 0 else high


def real(value: Any, name: str) -> Any:
    """A number as a Python int or float; TypeError naming the field if it is not a number."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} takes a number, not {value!r}")
    if isinstance(value, int):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return float(value)


class Kind:
    """A kind of attribute. wire: its type in the header; python: its type in signatures. numeric: rules read it as a number."""

    wire: str
    python: str
    carried: str = ""  # the numbers that the wire type can carry, in words
    misfit: ClassVar[Any] = None  # a value that the wire type cannot carry, if there is one
    samples: Sequence[Any] = ()  # values at and near the limits of the kind, for tests and documentation

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        """The value that construction stores; TypeError or ValueError naming the field if it cannot be converted."""
        raise NotImplementedError

    def fits(self, value: Any) -> bool:
        """Whether the wire type can carry the value."""
        return True

    def key(self, value: Any) -> Any:
        """The value as descs compare it: floats by their bits."""
        return value

    def symbol(self, wire: str, value: Any) -> Any:
        """The symbol of the attribute in a formula; the value itself if formulas depend on it."""
        return value

    def parse(self, node: Any) -> Any:
        """The value that a JSON node spells; the node notes faults."""
        raise NotImplementedError

    def json(self, value: Any) -> Any:
        """The JSON value that `parse` reads back."""
        return value

    def show(self, value: Any) -> str:
        """The value as Python spells it in calls."""
        return repr(value)


class Integer(Kind):
    """UINT or INT."""

    python = "int"

    def __init__(self, wire: str, carries: range) -> None:
        self.wire, self._carries = wire, carries
        self.carried = f"{carries[0]} to {carries[-1]}"
        self.misfit = carries[-1] + 1  # type: ignore[misc]  # each of the two has its own
        self.samples = tuple(dict.fromkeys((carries[0], 0, 1, 2, 7, carries[-1])))

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        return value if type(value) is int or isinstance(value, Symbol) else integer(value, name)

    def fits(self, value: Any) -> bool:
        return value in self._carries

    def parse(self, node: Any) -> Any:
        return node.integer()


def _float_key(value: float) -> Any:
    return (value, math.copysign(1, value)) if value == value else "nan"


class Float(Kind):
    """FLOAT: rounded to float32 at construction."""

    wire, python = "FLOAT", "float"
    samples = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0**-149, rounded_to(0.1, FLOAT32), rounded_to(3.4e38, FLOAT32))

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        return value if isinstance(value, Symbol) else rounded_to(real(value, name), FLOAT32)

    def key(self, value: Any) -> Any:
        return _float_key(value)

    def symbol(self, wire: str, value: Any) -> Any:
        return Symbol(wire, value)

    def parse(self, node: Any) -> Any:
        return node.real()

    def json(self, value: Any) -> Any:
        return value if math.isfinite(value) else "nan" if value != value else "inf" if value > 0 else "-inf"

    def show(self, value: Any) -> str:
        return repr(value) if math.isfinite(value) else f"float({self.json(value)!r})"


class Boolean(Kind):
    """BOOL."""

    wire, python, samples = "BOOL", "bool", (False, True)

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        if isinstance(value, (bool, np.bool_)) or value in (0, 1):
            return bool(value)
        raise TypeError(f"{name} takes True or False, not {value!r}")

    def parse(self, node: Any) -> Any:
        return node.truth()


class Enumerated(Kind):
    """An enumeration: a member, its wire value, or its name with or without the prefix."""

    def __init__(self, enumeration: type[enum.IntEnum], wire: str) -> None:
        self.enumeration, self.wire, self.python = enumeration, wire, enumeration.__name__
        self.samples = tuple(enumeration)

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        try:
            return member(self.enumeration, value, f"{self.wire}_")
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None

    def parse(self, node: Any) -> Any:
        return node.choice(self.enumeration.__members__, f"{self.wire}_", self.samples[0])

    def json(self, value: Any) -> Any:
        return value.name

    def show(self, value: Any) -> str:
        return repr(value.name)


class Pair(Kind):
    """DML_SIZE_2D or DML_SCALE_BIAS: two numbers with names."""

    def __init__(self, wire: str, made: type[Any], kind: Kind) -> None:
        self.wire, self.python, self._made, self._kind = wire, made.__name__, made, kind
        self.carried = kind.carried and f"two numbers of {kind.carried}"
        self.misfit = None if kind.misfit is None else made(1, kind.misfit)  # type: ignore[misc]  # each has its own
        self.samples = tuple(made(a, b) for a, b in zip(kind.samples, reversed(kind.samples), strict=True))

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        try:
            pair = self._made(*value)
        except TypeError:
            raise TypeError(f"{name} takes {self._made.__name__}({', '.join(self._made._fields)}), not {value!r}") from None
        return self._made(*(self._kind.convert(v, f"{name}.{f}") for f, v in zip(self._made._fields, pair, strict=True)))

    def fits(self, value: Any) -> bool:
        return all(map(self._kind.fits, value))

    def key(self, value: Any) -> Any:
        return tuple(map(self._kind.key, value))

    def symbol(self, wire: str, value: Any) -> Any:
        return self._made(*(self._kind.symbol(f.capitalize(), v) for f, v in zip(self._made._fields, value, strict=True)))

    def parse(self, node: Any) -> Any:
        found = self._made(*(self._kind.parse(node.take(f.capitalize())) for f in self._made._fields))
        node.warn_of_rest()
        return found

    def json(self, value: Any) -> Any:
        return {f.capitalize(): self._kind.json(v) for f, v in zip(self._made._fields, value, strict=True)}

    def show(self, value: Any) -> str:
        return f"({', '.join(map(self._kind.show, value))})"


class Scalar(Kind):
    """DML_SCALAR_UNION: a number of the type that another field names. Integers stay integers; floats are rounded to it."""

    wire, python = "DML_SCALAR_UNION", "float"

    def __init__(self, typed_by: str) -> None:
        self.typed_by = typed_by

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        if isinstance(value, Symbol):
            return value
        number = real(value, name)
        form = None if data_type is None else FORMATS.get(data_type)
        if form is not None:
            return rounded_to(number, form)
        if isinstance(number, float):
            if not number.is_integer():
                raise TypeError(f"{name} takes an integer, as its data type is {data_type}, not {value!r}")
            return int(number)
        return number

    def fits_type(self, value: Any, data_type: DataType) -> bool:
        """Whether the union's member of a data type can carry the value."""
        if data_type in FORMATS:
            return True
        if data_type == DataType.UNKNOWN:
            return False
        bits, signed = data_type.element_bits, data_type.name.startswith("INT")
        return bool(-(1 << bits - 1) <= value < 1 << bits - 1 if signed else 0 <= value < 1 << bits)

    def key(self, value: Any) -> Any:
        return _float_key(value) if isinstance(value, float) else value

    def symbol(self, wire: str, value: Any) -> Any:
        return Symbol(wire, value)

    def parse(self, node: Any) -> Any:
        return node.scalar()

    def json(self, value: Any) -> Any:
        return Float().json(value) if isinstance(value, float) else value

    def show(self, value: Any) -> str:
        return Float().show(value) if isinstance(value, float) else repr(value)


class OperatorDesc(Kind):
    """DML_OPERATOR_DESC: an operator whose tensors are absent, such as a fused activation."""

    wire, python = "DML_OPERATOR_DESC", "Desc"

    def convert(self, value: Any, name: str, data_type: DataType | None = None) -> Any:
        if not hasattr(type(value), "spec"):
            raise TypeError(f"{name} takes an operator desc such as ActivationRelu(), not {value!r}")
        return value

    def json(self, value: Any) -> Any:
        return {"Type": value.spec.wire_name, **value.document()}


UINT, INT = Integer("UINT", UINT_RANGE), Integer("INT", INT_RANGE)
FLOAT, BOOL, OPERATOR = Float(), Boolean(), OperatorDesc()
DATA_TYPE = Enumerated(DataType, "DML_TENSOR_DATA_TYPE")
SIZE_2D, SCALE_BIAS = Pair("DML_SIZE_2D", Size2D, UINT), Pair("DML_SCALE_BIAS", ScaleBias, FLOAT)
