"""Sizes of floats in contiguous lines, as bits of float32: the least and largest elements decide which sums are exact."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.scan.columns import INFINITY, NONE, PLACES, STEP

WORD = Kind("i32")


class Sizes(NamedTuple):
    """The sizes of a block, by lanes: the least size of elements, minus 1; the largest; and the largest size of sums."""

    smallest: Value
    largest: Value
    total: Value


def size(x: Value) -> Value:
    """The magnitudes of float32 as their bits."""
    return x.bits() & NONE


def folded(name: str, xs: list[Value]) -> Value:
    """The least or the largest of several values, lane by lane."""
    found = xs[0]
    for x in xs[1:]:
        found = x.body.intrinsic(name, found, x)
    return found


def of_block(elements: list[Value], sums: list[Value]) -> Sizes:
    """The sizes of elements and sums. For zeros, the least size is all ones."""
    return Sizes(folded("umin", [x - 1 for x in elements]), folded("umax", elements), folded("umax", sums))


def beyond(body: Body, least: str, found: Sizes) -> str:
    """Whether a block has an element or a sum that a line's least size in memory does not allow."""
    lanes = found.smallest.kind.lanes
    splat = body.splat(Value(body, body.op(f"load i32, ptr {least}, align 4"), WORD), lanes)
    element, most = _limits(splat, lanes)
    bad = found.smallest.compared("ult", splat) | found.largest.compared("ugt", element) | found.total.compared("ugt", most)
    return body.op(f"icmp ne i64 {lanes_as_bits(bad)}, 0")


def lower(body: Body, least: str, found: Sizes) -> tuple[str, str]:
    """Whether the block keeps the limits of a lower least size, and that size."""
    old = Value(body, body.op(f"load i32, ptr {least}, align 4"), WORD)
    new = body.intrinsic("umin", _reduced("umin", found.smallest), old)
    element, most = _limits(new, found.smallest.kind.lanes)
    good = _reduced("umax", found.largest).compared("ule", element) & _reduced("umax", found.total).compared("ule", most)
    return good.name, new.name


def may_be_inexact(elements: list[Value]) -> str:
    """Whether prefixes within the vectors of a block may be inexact, by the least size of the block's elements."""
    found = of_block(elements, elements)
    least = _reduced("umin", found.smallest)
    element, _ = _limits(least.body.intrinsic("umin", least, least.lift(NONE)), found.smallest.kind.lanes)
    return _reduced("umax", found.largest).compared("ugt", element).name


def _limits(least: Value, lanes: int) -> tuple[Value, Value]:
    """The largest element size and the largest sum size. lanes: the lanes of half a vector."""
    most = least.body.intrinsic("umin", least + PLACES, least.lift(INFINITY - 1))
    return most - ((lanes // 2).bit_length() - 1) * STEP, most


def _reduced(how: str, x: Value) -> Value:
    return x.body.call(f"llvm.vector.reduce.{how}.v{x.kind.lanes}i32", WORD, x)
