"""A kernel's arguments by name: one object has their order, for the emitter, which loads them, and for callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, TypeVar

from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import emit, engine

Arguments = dict[str, At | int]  # by name: all of a kernel's, or some
T = TypeVar("T")


class Signature:
    """Names in order, in one text: `*name` is a pointer, `name` an int64."""

    def __init__(self, text: str) -> None:
        words = text.split()
        self.names = tuple(word.lstrip("*") for word in words)
        self.pointers = frozenset(word[1:] for word in words if word.startswith("*"))
        self._text, self._all = text, frozenset(self.names)
        few = len(self.names) < 2
        self._in_order: Callable[[Mapping[str, Any]], tuple[Any, ...]] = (
            (lambda values: tuple(values[x] for x in self.names)) if few else itemgetter(*self.names)  # faster than a loop
        )

    def __add__(self, other: Signature) -> Signature:
        return Signature(f"{self._text} {other._text}")

    def load(self, text: emit.Text) -> None:
        """Load all arguments, as `%name`."""
        emit.arguments(text, self.names, self.pointers)

    def offset(self, name: str) -> int:
        """The bytes before an argument."""
        return 8 * self.names.index(name)

    @property
    def end(self) -> int:
        """The bytes of these arguments: others may come behind them, such as those of loops."""
        return 8 * len(self.names)

    def step(self, code: engine.Code, /, *behind: At | int, **values: At | int) -> Step:
        """The step of a kernel with these values; TypeError unless each argument has one. behind: arguments without names."""
        found = self.in_order(values)
        return Step(code, found + behind if behind else found)

    def step_from(self, code: engine.Code, values: Mapping[str, At | int]) -> Step:
        """The step of a kernel that takes its arguments from values for several kernels; TypeError if one has no value."""
        try:
            return Step(code, self._in_order(values))
        except KeyError:
            raise TypeError(f"a kernel's arguments: {sorted(self._all - values.keys())} have no value") from None

    def in_order(self, values: Mapping[str, T]) -> tuple[T, ...]:
        """The values of all arguments; TypeError unless each has one."""
        if len(values) == len(self.names):
            try:
                return self._in_order(values)
            except KeyError:
                pass
        missing, unknown = sorted(self._all - values.keys()), sorted(values.keys() - self._all)
        raise TypeError(f"a kernel's arguments: {missing} have no value, and {unknown} are none")


def stepped(name: str, at: At, step: int) -> Arguments:
    """The arguments `name` and `name_step`: where elements are, and the bytes from one to the next."""
    return {name: at, f"{name}_step": step}
