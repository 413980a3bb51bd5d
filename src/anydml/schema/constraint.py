"""Rules: a named predicate and its sentence, which says what must be. Messages follow from the sentence and the values read.

A test compares the paths in the sentence with what the predicate reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.errors import Violation
from anydml.feature_level import FeatureLevel
from anydml.names import snake_case
from anydml.wording import LEVEL, paths

_BACKTICKED = re.compile(r"`([^`]+)`")
UNJUDGED = (IndexError, ValueError, ZeroDivisionError, AttributeError, TypeError)  # by a predicate, where other rules fail
DIMENSION = "dimension"
ONCE = (None,)

Expected = Callable[..., Mapping[str, Any] | None]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A rule that a desc keeps or breaks.

    sentence: what must be, exactly the fields that the predicate reads in backticks, spelled as on the wire; `anydml.wording`
    makes messages of it, best where it begins with what is wrong if the rule is broken: "`Axis` must be less than ..".
    each: the predicate takes (d, i) and is asked for every dimension of the first tensor (DIMENSION), or for every entry of
    an array field, by its wire name; otherwise it takes (d).
    expected: from the same arguments, wire path -> what would fit (see Violation); None where nothing follows.
    before: the rule holds below this feature level alone.
    breaks: from the desc of the first example, changes to its fields that break this rule and no other.
    extension: what breaks it is beyond the documentation, but legal unless `strict`.
    carries: the rule is that the wire type can carry the number; where it is broken, no rule about that number is judged.
    """

    name: str
    sentence: str
    predicate: Callable[..., bool]
    each: str | None = None
    expected: Expected | None = None
    before: FeatureLevel | None = None
    breaks: Callable[[Any], Mapping[str, Any]] | None = None
    extension: bool = False
    carries: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The wire paths named in the sentence, each once."""
        return paths(self.sentence)

    def violation(self, operator: str, d: Any, at: int | None = None, *, within: str = "") -> Violation:
        """The violation of this rule by `d`; `within` is the tensor field that `d` is the desc of, for tensor rules."""
        arguments = (d,) if at is None else (d, at)
        prefix = within and within + "."
        values = dict(read(d, path, at, self.each) for path in self.paths)
        try:
            expected = (self.expected(*arguments) if self.expected else None) or {}
        except UNJUDGED:  # other rules are broken too, and nothing follows from this one
            expected = {}
        if self.before is not None:
            expected = {**expected, LEVEL: self.before}
        sentence = _BACKTICKED.sub(lambda m: f"`{prefix}{m[1]}`", self.sentence) if within else self.sentence
        fits = {path if path == LEVEL else prefix + path: value for path, value in expected.items() if not _is_empty(value)}
        dimension = at if self.each == DIMENSION else None
        return Violation(
            operator, self.name, sentence, dimension, {prefix + path: value for path, value in values.items()}, fits
        )


def constraint(
    sentence: str,
    *,
    each: str | None = None,
    expected: Expected | None = None,
    before: FeatureLevel | None = None,
    breaks: Callable[[Any], Mapping[str, Any]] | None = None,
    carries: bool = False,
) -> Callable[[Callable[..., bool]], Constraint]:
    """Make the decorated predicate a rule whose name is the function's."""

    def declare(predicate: Callable[..., bool]) -> Constraint:
        return Constraint(predicate.__name__, sentence, predicate, each, expected, before, breaks, carries=carries)

    return declare


class DataRule(NamedTuple):
    """A rule about the elements of input tensors, judged when they are seen: `breaks` maps (desc, array) to a mask."""

    name: str
    sentence: str
    tensors: tuple[str, ...]
    breaks: Callable[[Any, NDArray[Any]], NDArray[np.bool_]]


def data_rule(sentence: str, *tensors: str) -> Callable[[Callable[[Any, NDArray[Any]], NDArray[np.bool_]]], DataRule]:
    """Make the decorated mask function a rule about the data of the named tensor fields."""

    def declare(breaks: Callable[[Any, NDArray[Any]], NDArray[np.bool_]]) -> DataRule:
        return DataRule(breaks.__name__, sentence, tensors, breaks)

    return declare


def read(d: Any, path: str, at: int | None, each: str | None = DIMENSION) -> tuple[str, Any]:
    """The value at a wire path, and the path as messages show it: with the index where the rule is asked for each entry."""
    value, shown, names = d, [], path.split(".")
    for name in names:
        value = getattr(value, snake_case(name))
        shown.append(name)
        if value is None:
            return path, "absent"
        if isinstance(value, tuple) and value and hasattr(value[0], "sizes"):  # an array of tensors
            if each == names[0] and at is not None:
                value, shown[-1] = value[at], f"{name}[{at}]"
            elif len(names) > 1:
                last = snake_case(names[-1])
                return path, tuple(getattr(t, last) for t in value)
    indexed = each in (DIMENSION, path)
    if at is not None and indexed and isinstance(value, tuple) and at < len(value):
        return f"{'.'.join(shown)}[{at}]", value[at]
    return ".".join(shown), value


def _is_empty(value: Any) -> bool:
    return isinstance(value, (range, list)) and not value


def places(rule: Constraint, d: Any, dimensions: int) -> Iterable[int | None]:
    """The dimensions or entries that a rule is judged for; None for a rule that is judged once."""
    if rule.each is None:
        return ONCE
    return range(dimensions if rule.each == DIMENSION else len(getattr(d, snake_case(rule.each))))


def judge(
    rules: Iterable[Constraint], d: Any, dimensions: int, *, failed: bool = False
) -> Iterator[tuple[Constraint, int | None]]:
    """Every rule that `d` breaks, in order, with the dimension or entry where the rule is of one.

    A predicate that cannot be evaluated once something has failed could not be judged and stays silent; without an earlier
    failure its error is a bug of ours, and propagates.
    """
    for rule in rules:
        predicate = rule.predicate
        for at in ONCE if rule.each is None else places(rule, d, dimensions):
            try:
                kept = predicate(d) if at is None else predicate(d, at)
            except UNJUDGED:
                if not failed:
                    raise
                continue
            if not kept:
                failed = True
                yield rule, at
