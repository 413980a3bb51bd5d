"""Probes: kernels that store the estimate and the error bound of each element in its place, so that tests can check the bound.

The record of an element is three float64, a head, a tail and a bound, and a mark. It claims that |t - (head + tail)| <= bound,
where t is the element before it is rounded. A bound of NaN claims nothing; a negative bound claims that t is next to the
estimate. An element has fewer bits than its record, so each call of a probe stores one part of the record, and reads the
number of this part from memory. All other code of a probe is that of the kernel, which decides by the same bound.
"""

from __future__ import annotations

import ctypes

from anydml.kernels.code.values import Value

WORDS = 3
MARK = 0x2A9B  # the last part: an element without it has no record
_PART = ctypes.c_int64()


def parts(element_bits: int) -> int:
    """The number of parts of a record, if each part has the bits of an element."""
    return WORDS * 64 // element_bits + 1


def choose(part: int) -> None:
    """Let all probes of this process store this part from now on."""
    _PART.value = part


def stage(name: str) -> str:
    """A stage for `Machine` whose kernels are probes: they store the estimates and bounds of the given stage.

    The name contains an address that differs in each process. It is a part of the key of code on disk, which no other
    process can therefore use.
    """
    return f"{name}+{ctypes.addressof(_PART)}"


def record(head: Value, tail: Value, bound: Value, element_bits: int) -> Value:
    """The bits that a probe stores for some lanes."""
    f, kind = head.body, head.kind.of("i64")
    part = f.value(f"load i64, ptr inttoptr (i64 {f.target.probe} to ptr), align 8", kind._replace(lanes=0))
    at = (f.splat(part, kind.lanes) if kind.lanes else part) * element_bits
    word = f.chosen(at.compared("ult", 64), head.bits(), f.chosen(at.compared("ult", 128), tail.bits(), bound.bits()))
    word = word.shifted_right(at & 63, signed=False)
    word = f.chosen(at.compared("ult", 64 * WORDS), word, MARK)
    return word.converted("trunc", kind.of(f"i{element_bits}"))


def record_of_ends(low: Value, high: Value, unclaimed: Value | None, element_bits: int) -> Value:
    """The record of numbers between two ends, given in either order. It claims nothing about `unclaimed` lanes."""
    half = (high - low) * 0.5
    bound = half.magnitude()
    bound = bound if unclaimed is None else half.body.chosen(unclaimed, float("nan"), bound)
    return record(low, half, bound, element_bits)
