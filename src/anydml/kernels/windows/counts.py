"""The elements of a window that are within the input, along one dimension."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value

WORD = Kind("i64")


class Range(NamedTuple):
    """The elements of a window along a dimension.

    first: the position of the window's element 0, which may be negative. low, high: the half-open range of its elements that
    are within the input; terms: their number. counted: the divisor of a mean.
    """

    first: Value
    low: Value
    high: Value
    terms: Value
    counted: Value


def ranged(body: Body, d: int, o: Value, *, padded: bool, dense: bool) -> Range:
    """The window of output o along the d-th windowed dimension; dense: whether its dilation is 1."""
    names = {key: Value(body, f"%t{key}{d}", WORD) for key in "nskdpc"}
    return within(body, o, names["n"], names["s"], names["k"], names["d"], names["p"], names["c"], padded=padded, dense=dense)


def within(
    body: Body, o: Value, size: Value, stride: Value, window: Value, dilation: Value, start: Value, limit: Value, *,
    padded: bool, dense: bool,
) -> Range:  # fmt: skip
    """The window of output o, from the values of `match.windows.WindowAxis`."""
    first = o * stride - start
    dilation = dilation.lift(1) if dense else dilation
    low = body.chosen(first.compared("slt", 0), _steps(-first, dilation, dense), 0)
    high = _until(body, first, size, dilation, window, dense)
    count = body.chosen(high.compared("ugt", low), high - low, 0)
    counted = _until(body, first, limit, dilation, window, dense) if padded else count
    return Range(first, low, high, count, counted)


def _until(body: Body, first: Value, limit: Value, dilation: Value, window: Value, dense: bool) -> Value:
    """The number of a window's elements before position `limit`; first: the position of element 0."""
    found = body.chosen(first.compared("slt", limit), _steps(limit - first, dilation, dense), 0)
    return body.chosen(found.compared("ult", window), found, window)


def _steps(length: Value, dilation: Value, dense: bool) -> Value:
    """The number of steps of `dilation` that cover a length: the quotient, rounded up."""
    if dense:
        return length
    return length.body.value(f"udiv i64 {(length + dilation - 1).name}, {dilation.name}", WORD)
