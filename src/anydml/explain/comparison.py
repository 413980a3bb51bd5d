"""The outcome of a comparison: numbers, a sentence, JSON and HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any

Value = int | float | str

NEAR = 2.0**-10  # steps from a tie; float32 arithmetic changes a value below 512 by less than 2^-12
MOST_UNITS = 1 << 16  # units in the last place that tell how large an error is
NAMED = 3  # equally good causes that the sentence names


@dataclass(frozen=True)
class Difference:
    """One output that differs.

    exact: the real value with the zero point, before it is rounded, wrapped or clamped; for a copy, the copied element.
    distance_to_tie: the distance of the exact value from the nearest tie, 0 to 0.5; None if nothing is rounded. absolute,
    relative, ulp: for computed floats, the distance from the exact value, its share of that value, and the distance in units in
    the last place; None if one of the values is not finite, or the exact one is 0.
    """

    coordinates: tuple[int, ...]
    expected: Value
    actual: Value
    exact: str
    distance_to_tie: float | None = None
    absolute: float | None = None
    relative: float | None = None
    ulp: float | None = None


@dataclass(frozen=True)
class Cause:
    """A deviation that equals the output in more places than the exact result, by more than half of the differing elements.

    name: the deviation, a function of `anydml.deviations` or a change of the inputs. sentence: the deviation in words.
    outputs: the number of elements examined; all of them unless the call is large. equal: how many of these have the
    deviation's value. exact: how many have the exact value. explained: how many have the deviation's value and not the exact
    one. rounding: whether the deviation concerns arithmetic or rounding after the accumulators. near: whether values count as
    equal that rounding at each step takes apart, as it does in floats.
    """

    name: str
    sentence: str
    outputs: int
    equal: int
    exact: int
    explained: int
    rounding: bool = False
    near: bool = False

    @property
    def equals(self) -> str:
        """The beginning of a sentence about it."""
        return f"{'Within rounding, it' if self.near else 'It'} equals {self.sentence}"


@dataclass(frozen=True)
class Comparison:
    """The differences of an output from the exact one; `str()` gives them in sentences, `to_dict()` as data for JSON.

    It has no truth value: use `.equal`. differing: how many elements differ. steps: actual - expected -> how many; empty for
    copies, whose elements are not compared by size. worst: the differences farthest off, for a copy the first. within: the
    largest distance of a difference from a tie, rounded up, without saturated outputs. saturated_low, saturated_high, ties,
    wrapped: how many of all elements, right or wrong. differing_clamped: how many of the differing ones saturate (or wrap).
    causes: deviations that explain the differences, the one that explains most first. unit: the unit of steps, " ULP" for
    floats. forms: of quantised products with differences that are not next to ties, what explains all of them.
    """

    total: int
    differing: int
    steps: Mapping[int, int] = field(default_factory=dict)
    worst: tuple[Difference, ...] = ()
    within: float | None = None
    saturated_low: int = 0
    saturated_high: int = 0
    ties: int = 0
    wrapped: int = 0
    differing_clamped: int = 0
    causes: tuple[Cause, ...] = ()
    unit: str = ""
    forms: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether no output differs."""
        return not self.differing

    @property
    def max_step(self) -> int | None:
        """The greatest difference in steps of the output, 0 if all are equal; None for copies that differ."""
        if self.equal:
            return 0
        return max(map(abs, self.steps)) if self.steps else None

    def __bool__(self) -> bool:
        raise TypeError("a Comparison is neither true nor false; use .equal, or assert_exact of anydml.testing")

    def to_dict(self) -> dict[str, Any]:
        """The comparison as data for JSON, with its sentence."""
        members = asdict(self)
        members["steps"] = {str(step): count for step, count in self.steps.items()}
        members["worst"] = [{**asdict(d), "coordinates": list(d.coordinates)} for d in self.worst]
        members["causes"] = [asdict(cause) for cause in self.causes]
        members["forms"] = list(self.forms)
        return {"equal": self.equal, "sentence": str(self), **members}

    def __str__(self) -> str:
        if self.equal:
            return f"all {self.total} are equal{self._census()}"
        one = self.differing == 1
        sentence = f"{self.differing} of {self.total} differ{'s' if one else ''}"
        if self.unit:
            sentence += self._by_size(one)
        elif self.steps:
            sentence += self._by_steps(one)
        else:
            first = self.worst[0]
            exact = f"{first.exact} = {first.expected}" if first.exact else str(first.expected)
            sentence += f", {'' if one else 'the first '}at {list(first.coordinates)}: {first.actual}, not {exact}"
        return sentence + self._by_cause()

    @property
    def strange(self) -> bool:
        """Whether outputs that are rounded differ otherwise than by a step next to a tie."""
        if self.unit or not self.steps or self.worst[0].distance_to_tie is None:
            return False
        return set(map(abs, self.steps)) != {1} or self.differing_clamped > 0 or self.within is None or self.within > NEAR

    def _by_size(self, one: bool) -> str:
        """Of floats: units in the last place where they tell the size of the error, and the farthest element."""
        farthest = self.worst[0]
        sizes = sorted(set(map(abs, self.steps)))
        absolute, relative = (None if x is None else f"{x:.3g}" for x in (farthest.absolute, farthest.relative))
        if sizes and sizes[-1] < MOST_UNITS:
            said = f" by {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "") + self.unit
        else:
            said = "" if absolute is None else f" by {absolute}" if one else f" by up to {absolute}"
        actual, expected = map(_nine_digits, (farthest.actual, farthest.expected))
        at = f"at {list(farthest.coordinates)} {actual}, not {expected}"
        ulp = None if farthest.ulp is None else f"{farthest.ulp:.3g}{self.unit}" if farthest.ulp < MOST_UNITS else None
        errors = [absolute and f"absolute error {absolute}", relative and f"relative {relative}", ulp]
        return f"{said}, {'' if one else 'the farthest '}{at} ({', '.join(filter(None, errors))})".replace(" ()", "")

    def _by_steps(self, one: bool) -> str:
        sizes = sorted(set(map(abs, self.steps)))
        sentence = f" by {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "") + self.unit
        if self.differing_clamped:
            some = self.differing > self.differing_clamped
            which = f"{self.differing_clamped} " if some else "" if one else "all "
            sentence += f", {which}where the exact {'sum wraps' if self.wrapped else 'result saturates'}"
        if self.worst[0].distance_to_tie is None:  # nothing is rounded
            return sentence
        if not self.differing_clamped and sizes == [1] and self.within is not None and self.within <= NEAR:
            near = f"within {_short(self.within)} of" if self.within else "at"
            return f"{sentence}, {'' if one else 'all '}{near} a tie"
        if sizes == [1] and self.causes and self.causes[0].rounding:
            return sentence  # the cause is another way of rounding
        if self.forms:
            return f"{sentence}; {' and '.join(self.forms)} explains {'it' if one else 'them'}"
        return f"{sentence}; this is not a rounding difference"

    def _by_cause(self) -> str:
        if not self.causes:
            return ""
        best = self.causes[0]
        names = [cause.sentence for cause in self.causes if cause.equal == best.equal][:NAMED]
        looked_at = " looked at" if best.outputs < self.total else ""
        if best.equal == best.outputs:
            where = f"all {best.outputs} outputs{looked_at}"
        else:
            differing = best.outputs - best.exact
            where = f"{best.equal} of {best.outputs} outputs{looked_at} ({best.explained} of the {differing} that differ)"
        others = f". Equally often it equals {' and '.join(names[1:])}" if names[1:] else ""
        return f". {best.equals} in {where}; the exact result in {best.exact}{others}"

    def _census(self) -> str:
        counts = (
            (self.ties, "tie", "ties"),
            (self.saturated_low, "saturates low", "saturate low"),
            (self.saturated_high, "saturates high", "saturate high"),
            (self.wrapped, "sum wraps", "sums wrap"),
        )
        parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
        return f" ({', '.join(parts)})" if parts else ""

    def _repr_html_(self) -> str:
        """The sentence, and a table of the worst differences, for notebooks."""
        sentence = f"<p>{html.escape(str(self))}</p>"
        if not self.worst:
            return sentence
        rows = [("coordinates", "actual", "expected", "exact", "distance to a tie")]
        for d in self.worst:
            tie = "" if d.distance_to_tie is None else f"{d.distance_to_tie:.2g}"
            rows.append((str(list(d.coordinates)), str(d.actual), str(d.expected), d.exact, tie))
        head, *body = (
            "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row)
            for cell, row in zip(["th"] + ["td"] * len(self.worst), rows, strict=True)
        )
        return f"{sentence}<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def _nine_digits(value: Value) -> str:
    """A float as it is told, with the digits that tell any two float32 apart."""
    return str(float(f"{value:.9g}")) if isinstance(value, float) else str(value)


def _short(x: float) -> str:
    """A number with two digits, rounded up: 6.1e-5."""
    two_digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(x))
    return f"{float(two_digits):.2g}".replace("e-0", "e-")
