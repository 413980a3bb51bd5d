"""The elements of a window that lie in the input, along one dimension."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value

WORD = Kind("i64")


class Range(NamedTuple):
    """first: the position of element 0, perhaps before the input. low, high: the elements in the input; terms: how many.
    counted: how many a mean divides by."""

    first: Value
    low: Value
    high: Value
    terms: Value
    counted: Value


def ranged(body: Body, d: int, o: Value, *, padded: bool, dense: bool) -> Range:
    """The window of an output o along the d-th dimension that has one; dense: its dilation is 1."""
    names = {key: Value(body, f"%t{key}{d}", WORD) for key in "nskdpc"}
    return within(body, o, names["n"], names["s"], names["k"], names["d"], names["p"], names["c"], padded=padded, dense=dense)


def within(
    body: Body, o: Value, size: Value, stride: Value, window: Value, dilation: Value, start: Value, limit: Value, *,
    padded: bool, dense: bool,
) -> Range:  # fmt: skip
    """The window of an output o, given as in `match.windows.Axis`."""
    first = o * stride - start
    dilation = dilation.lift(1) if dense else dilation
    low = body.chosen(first.compared("slt", 0), _steps(-first, dilation, dense), 0)
    high = _until(body, first, size, dilation, window, dense)
    count = body.chosen(high.compared("ugt", low), high - low, 0)
    counted = _until(body, first, limit, dilation, window, dense) if padded else count
    return Range(first, low, high, count, counted)


def _until(body: Body, first: Value, limit: Value, dilation: Value, window: Value, dense: bool) -> Value:
    """The number of elements from the first on that lie before a limit."""
    found = body.chosen(first.compared("slt", limit), _steps(limit - first, dilation, dense), 0)
    return body.chosen(found.compared("ult", window), found, window)


def _steps(length: Value, dilation: Value, dense: bool) -> Value:
    """Steps of so many elements that reach so far."""
    if dense:
        return length
    return length.body.value(f"udiv i64 {(length + dilation - 1).name}, {dilation.name}", WORD)
