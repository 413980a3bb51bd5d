"""Exact running sums and products of floats in Python, for the few lines in which machine code leaves an element undecided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from anydml.exact.formats import Format, nearest, significand


def sums(line: Sequence[int], form: Format, *, exclusive: bool, begun: Sequence[float] = ()) -> Iterator[int]:
    """The bits of the running sums of elements given by their bits. begun: numbers whose sum is that of the elements before."""
    unit = 1 << -form.lowest  # sums are multiples of the smallest subnormal number
    total, special, negative = 0, 0.0, True
    if begun:
        total = int(sum(map(Fraction, begun)) * unit)
        negative = not any(begun) and math.copysign(1, begun[0]) < 0

    def stored() -> int:
        if special - special != 0:
            return _special(special, form)
        return nearest(total, unit, form) if total else form.sign if negative else 0

    if exclusive:
        yield stored() if begun else 0
    for bits in line[: len(line) - exclusive]:
        if _is_finite(bits, form):
            m, exponent = significand(bits, form)
            total += m << exponent - form.lowest
            negative = negative and bits == form.sign
        else:
            special, negative = special + _float(bits, form), False
        yield stored()


def products(line: Sequence[int], form: Format, *, exclusive: bool, precision: int = 256) -> Iterator[int]:
    """The bits of the running products of elements given by their bits. precision: the bits to which products are computed."""
    one = nearest(1, 1, form)
    low, lost, exponent, sign, special = 1, 0, 0, 0, 0.0  # the product is between low and low + lost, times 2^exponent
    if exclusive:
        yield one
    for place, bits in enumerate(line[: len(line) - exclusive]):
        sign ^= bits & form.sign
        if not _is_finite(bits, form):
            value = abs(_float(bits, form))
            special = math.nan if low == 0 or special != special else value
        elif special:
            special = math.nan if not bits & ~form.sign else special
        else:
            m, e = significand(bits & ~form.sign, form)
            low, lost, exponent = low * m, lost * m, exponent + e
            surplus = max(0, low.bit_length() - precision)
            lost = (lost >> surplus) + 2 if lost or low & (1 << surplus) - 1 else 0
            low, exponent = low >> surplus, exponent + surplus
        if special:
            yield _special(special, form) if special != special else form.infinity | sign
            continue
        ends = {_rounded(end, exponent, form) | sign for end in (low, low + lost)}
        if len(ends) > 1:
            rest = products(line, form, exclusive=False, precision=2 * precision)
            yield from (x for at, x in enumerate(rest) if place <= at < len(line) - exclusive)
            return
        yield ends.pop()


def _rounded(m: int, exponent: int, form: Format) -> int:
    if m == 0:
        return 0
    bits = m.bit_length() + exponent
    if bits < form.lowest - 1:
        return 0
    if bits > form.highest:
        return form.infinity
    return nearest(m << exponent, 1, form) if exponent >= 0 else nearest(m, 1 << -exponent, form)


def _is_finite(bits: int, form: Format) -> bool:
    return bits & form.infinity != form.infinity


def _float(bits: int, form: Format) -> float:
    """An infinity or NaN."""
    if bits & ~form.sign != form.infinity:
        return math.nan
    return -math.inf if bits & form.sign else math.inf


def _special(x: float, form: Format) -> int:
    return form.quiet_nan if x != x else form.infinity | (form.sign if x < 0 else 0)
