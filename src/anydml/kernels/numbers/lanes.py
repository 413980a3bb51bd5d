"""Conditions and masks, and values that may be the same in all lanes."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Value


def in_lanes(a: Value, lanes: int) -> Value:
    return a if a.kind.lanes == lanes else a.body.splat(a, lanes)


def broadcast(a: Value, b: Value) -> tuple[Value, Value]:
    """Two values in as many lanes as either has."""
    lanes = max(a.kind.lanes, b.kind.lanes)
    return in_lanes(a, lanes), in_lanes(b, lanes)


def chosen(mask: Value, a: Value, b: Value) -> Value:
    """a where the mask holds, else b; values without lanes are broadcast."""
    a, b = broadcast(a, b)
    mask, a = broadcast(mask, a)
    return a.body.chosen(mask, a, in_lanes(b, a.kind.lanes))


def either(*masks: Value | None) -> Value | None:
    """The lanes of any of several masks; None is an empty mask."""
    found: Value | None = None
    for mask in masks:
        if mask is not None:
            if found is None:
                found = mask
            else:
                one, two = broadcast(found, mask)
                found = one | two
    return found


def every(a: Value, b: Value) -> Value:
    """The lanes of both masks."""
    a, b = broadcast(a, b)
    return a & b


class Truth(NamedTuple):
    """A condition. guard: the lanes where it is undecided. known: True if it holds in every lane, False if in none, else
    None."""

    mask: Value
    guard: Value | None = None
    known: bool | None = None

    def __invert__(self) -> Truth:
        return Truth(~self.mask, self.guard, None if self.known is None else not self.known)

    def joined(self, op: str, other: Truth) -> Truth:
        """ "both" or "either" of two conditions: undecided where one is and the other does not settle the result."""
        for x, y in ((self, other), (other, self)):
            if x.known is not None:
                return y if x.known == (op == "both") else x
        p, q = broadcast(self.mask, other.mask)
        mask = p & q if op == "both" else p | q
        guards = []
        for x, y in ((self, other), (other, self)):
            if x.guard is not None:
                unsettled = either(y.mask if op == "both" else ~y.mask, y.guard)
                assert unsettled is not None
                guards.append(every(x.guard, unsettled))
        return Truth(mask, either(*guards))

    def guards(self, a: Value | None, b: Value | None) -> Value | None:
        """The undecided lanes of a selection: a's where the condition holds, b's elsewhere, and the condition's own."""
        return either(self.guard, None if a is None else every(a, self.mask), None if b is None else every(b, ~self.mask))
