"""The walk over a normalised form: each node's item is made once in its scope, which is a loop, a row, or a branch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from anydml.kernels.match.normal_form import NormalForm

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Scopes(Generic[K, T]):
    """Values by key in nested scopes, the innermost last. New values are put in the innermost one, and end with it."""

    def __init__(self, *outer: Mapping[K, T]) -> None:
        self.nested: list[dict[K, T]] = [dict(scope) for scope in outer] or [{}]

    def get(self, key: K) -> T | None:
        for scope in reversed(self.nested):
            if key in scope:
                return scope[key]
        return None

    def __getitem__(self, key: K) -> T:
        for scope in reversed(self.nested):
            if key in scope:
                return scope[key]
        raise KeyError(key)

    def __setitem__(self, key: K, value: T) -> None:
        self.nested[-1][key] = value

    def __contains__(self, key: object) -> bool:
        return any(key in scope for scope in self.nested)

    def __iter__(self) -> Iterator[K]:
        for scope in self.nested:
            yield from scope

    @contextmanager
    def inner(self, known: Mapping[K, T] | None = None) -> Iterator[None]:
        """A scope within the others; known: its first values."""
        self.nested.append(dict(known or {}))
        try:
            yield
        finally:
            self.nested.pop()


class ScopedWalk(ABC, Generic[T]):
    """The items that are made of a form's nodes: instructions, for most walks. Families say what the item of a node is."""

    nodes: NormalForm
    items: Scopes[int, T]

    @abstractmethod
    def _item(self, place: int, op: str, args: tuple[int, ...], data: Any) -> T:
        """A node's item. Those of its arguments are asked for by `item`, or are known."""

    def item(self, place: int) -> T:
        """The item of a node, which is made if no scope has it."""
        found = self.items.get(place)
        if found is None:
            found = self._item(place, *self.nodes[place])
            self.put(place, found)
        return found

    def put(self, place: int, item: T) -> None:
        """Set a node's item, by default in the innermost scope."""
        self.items[place] = item

    def fill(self, places: Iterable[int]) -> None:
        """Make the items of these nodes, in their order."""
        for place in places:
            self.item(place)

    def run(self) -> T:
        """Make all items, in order; the last one is returned."""
        self.fill(range(len(self.nodes)))
        return self.items[len(self.nodes) - 1]
