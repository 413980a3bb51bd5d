"""Rules: a named predicate and a sentence that says what must be. Messages are made from the sentence and the values read.

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
from anydml.rule_messages import LEVEL, paths
from anydml.spelling import snake_case

_BACKTICKED = re.compile(r"`([^`]+)`")
UNJUDGED = (IndexError, ValueError, ZeroDivisionError, AttributeError, TypeError)  # of a predicate, if other rules are broken
DIMENSION = "dimension"
ONCE = (None,)

Expected = Callable[..., Mapping[str, Any] | None]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A rule that a desc keeps or breaks.

    sentence: what must be. In backticks it names exactly the fields that the predicate reads, in wire spelling.
    `anydml.rule_messages` makes messages of it, best if it begins with the field to change: "`Axis` must be less than ..".
    each: with DIMENSION, the predicate takes (d, i) and is called for every dimension of the first tensor; with the wire name
    of an array field, for every entry of it; otherwise it takes (d).
    expected: a function of the same arguments: wire path -> what would fit (see Violation), or None.
    before: the rule holds only below this feature level.
    breaks: a function of the first example's desc: changes to its fields that break this rule and no other.
    extension: a desc that breaks the rule is not documented, but legal unless `strict`.
    carries: the rule is that a number fits its wire type; where it is broken, no other rule about that number is reported.
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
        """The violation of this rule by `d`; for tensor rules, `within` is the field whose tensor desc is `d`."""
        arguments = (d,) if at is None else (d, at)
        prefix = within and within + "."
        values = dict(read(d, path, at, self.each) for path in self.paths)
        try:
            expected = (self.expected(*arguments) if self.expected else None) or {}
        except UNJUDGED:  # other rules are broken too, and this one cannot say what would fit
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
    """A rule about the elements of input tensors, judged when they are known: `breaks` maps (desc, array) to a mask."""

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
    """A wire path as messages show it, with the index if the rule is judged for each entry, and the value there."""
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
    """The dimensions or entries for which a rule is judged; one None for a rule that is judged once."""
    if rule.each is None:
        return ONCE
    return range(dimensions if rule.each == DIMENSION else len(getattr(d, snake_case(rule.each))))


def judge(
    rules: Iterable[Constraint], d: Any, dimensions: int, *, failed: bool = False
) -> Iterator[tuple[Constraint, int | None]]:
    """Every rule that `d` breaks, in order, with the dimension or entry if the rule is judged for each.

    After another rule has failed, a predicate that raises is skipped. Without an earlier failure its error is a bug in anydml,
    and propagates.
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
