"""Sums and products of finite elements as Python's integers, in units of a negative power of two."""

from __future__ import annotations

from anydml.exact.formats import FORMATS
from anydml.kernels.evaluate.elements import KEPT
from anydml.schema.node import Expr
from anydml.schema.traversal import integral, walk
from anydml.tensor import DataType

LONGEST = 200  # binary places of numbers that are added as integers: enough for FLOAT32 and FLOAT16


class NotFinite(Exception):
    """An element is infinite or NaN, which `Places` cannot represent."""


class Places(dict[int, int]):
    """The finite numbers that a float type's bits represent, as integers in units of its smallest subnormal number."""

    def __init__(self, data_type: DataType) -> None:
        self._form = form = FORMATS[data_type]
        self._width, self._sign = form.precision - 1, form.sign
        self._hidden, self._exponents = 1 << self._width, (1 << form.bits - form.precision) - 1

    def __missing__(self, bits: int) -> int:
        if not self._form.is_finite(bits):
            raise NotFinite
        exponent = bits >> self._width & self._exponents
        if len(self) >= KEPT:
            self.clear()
        found = bits & self._hidden - 1
        if exponent:
            found = (found | self._hidden) << exponent - 1
        if bits & self._sign:
            found = -found
        self[bits] = found
        return found


def places_of(e: Expr) -> dict[Expr, int] | None:
    """The binary places of a node made of sums and products of elements, and those of its arguments; None for other nodes.

    The node's value is then a Python integer in units of 2^-places, if all elements are finite. The integer lacks only the sign
    of a zero.
    """
    known: dict[Expr, int] = {}
    for node in walk(e):
        if node.op == "constant":
            value = node.data.value
            if isinstance(value, float) or value.denominator.bit_length() > LONGEST:
                return None
            if value.denominator & value.denominator - 1:
                return None
            known[node] = value.denominator.bit_length() - 1
        elif node.op == "read":
            form = FORMATS.get(node.data[0].data_type)
            if node.data[1] == "otherwise" or (form is not None and -form.lowest > LONGEST):
                return None
            known[node] = 0 if form is None else -form.lowest
        elif node.op == "reduce" and node.data[0] == "sum":
            known[node] = known[node.args[0]]
        elif node.op in ("add", "sub", "neg") and node.sort == "number":
            known[node] = max(known[a] for a in node.args)
        elif node.op == "mul" and node.sort == "number":
            known[node] = known[node.args[0]] + known[node.args[1]]
        elif node.sort == "number" and node.op != "position":
            return None
        else:
            known[node] = 0  # an index, the value of an index, or a condition
    return known


def is_plain(e: Expr) -> bool:
    """Whether a node is made only of sums and products of integers, for which Python's integers are enough."""
    return integral(e) and places_of(e) is not None
