"""Rules: a named predicate and its sentence. The sentence is the error message; a test keeps the two together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.computed import computed_once
from anydml.errors import Violation
from anydml.names import snake_case

_BACKTICKED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Constraint:
    """A rule that a desc keeps or breaks.

    sentence: the rule in words, exactly the fields that the predicate reads in backticks, spelled as on the wire.
    each_dimension: the predicate takes (d, i) and is asked for every dimension; otherwise (d).
    expected: from the same arguments, wire path -> what would fit (see Violation); None where nothing follows.
    extension: what breaks it is beyond the documentation, but legal unless `strict`.
    carries: the rule is that the wire type can carry the number; where it is broken, no rule about that number is judged.
    """

    name: str
    sentence: str
    predicate: Callable[..., bool]
    each_dimension: bool = False
    expected: Callable[..., Mapping[str, Any] | None] | None = None
    extension: bool = False
    carries: bool = False

    @computed_once
    def paths(self) -> tuple[str, ...]:
        """The wire paths named in the sentence, each once."""
        return tuple(dict.fromkeys(_BACKTICKED.findall(self.sentence)))

    def violation(self, operator: str, d: Any, dimension: int | None = None, *, within: str = "") -> Violation:
        """The violation of this rule by `d`; `within` is the tensor field that `d` is the desc of, for tensor rules."""
        at = (d,) if dimension is None else (d, dimension)
        prefix = within and within + "."
        values = dict(read(d, path, dimension) for path in self.paths)
        try:
            expected = (self.expected(*at) if self.expected else None) or {}
        except (IndexError, ValueError, ZeroDivisionError):  # other rules are broken too, and nothing follows from this one
            expected = {}
        sentence = _BACKTICKED.sub(lambda m: f"`{prefix}{m[1]}`", self.sentence) if within else self.sentence
        fits = {prefix + path: value for path, value in expected.items() if not _is_empty(value)}
        return Violation(
            operator, self.name, sentence, dimension, {prefix + path: value for path, value in values.items()}, fits
        )


def constraint(
    sentence: str,
    *,
    each_dimension: bool = False,
    expected: Callable[..., Mapping[str, Any] | None] | None = None,
    carries: bool = False,
) -> Callable[[Callable[..., bool]], Constraint]:
    """Make the decorated predicate a rule whose name is the function's."""

    def declare(predicate: Callable[..., bool]) -> Constraint:
        return Constraint(predicate.__name__, sentence, predicate, each_dimension, expected, carries=carries)

    return declare


class DataRule(NamedTuple):
    """A rule about the elements of input tensors, judged when they are seen: `breaks` maps an array to a mask."""

    name: str
    sentence: str
    tensors: tuple[str, ...]
    breaks: Callable[[NDArray[Any]], NDArray[np.bool_]]


def data_rule(sentence: str, *tensors: str) -> Callable[[Callable[[NDArray[Any]], NDArray[np.bool_]]], DataRule]:
    """Make the decorated mask function a rule about the data of the named tensor fields."""

    def declare(breaks: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> DataRule:
        return DataRule(breaks.__name__, sentence, tensors, breaks)

    return declare


def read(d: Any, path: str, dimension: int | None) -> tuple[str, Any]:
    """The value at a wire path, and the path as messages show it: with the index where the rule is of a dimension."""
    value = d
    for name in path.split("."):
        value = getattr(value, snake_case(name))
        if value is None:
            return path, "absent"
    if dimension is not None and isinstance(value, tuple):
        return (f"{path}[{dimension}]", value[dimension]) if dimension < len(value) else (path, value)
    return path, value


def _is_empty(value: Any) -> bool:
    return isinstance(value, (range, list)) and not value


def judge(
    rules: Iterable[Constraint], d: Any, dimensions: int, *, failed: bool = False
) -> Iterator[tuple[Constraint, int | None]]:
    """Every rule that `d` breaks, in order, with the dimension where the rule is of one.

    A predicate that raises IndexError, ValueError or ZeroDivisionError once something has failed could not be judged and
    stays silent; without an earlier failure it is a bug of ours, and propagates.
    """
    for rule in rules:
        predicate = rule.predicate
        for at in range(dimensions) if rule.each_dimension else (None,):
            try:
                kept = predicate(d) if at is None else predicate(d, at)
            except (IndexError, ValueError, ZeroDivisionError):
                if not failed:
                    raise
                continue
            if not kept:
                failed = True
                yield rule, at
