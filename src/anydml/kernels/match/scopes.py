"""The walk over nodes: the item of each is made once in its scope, which is a loop, a row, or a branch."""

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


class ScopedWalk(ABC, Generic[K, T]):
    """The items that are made of the nodes of a form, or of expressions that are computed only where a branch takes them."""

    items: Scopes[K, T]

    @abstractmethod
    def _made(self, node: K) -> T:
        """The item of a node. Those of its arguments are asked for by `item`, or are known."""

    def item(self, node: K) -> T:
        """The item of a node, which is made if no scope has it."""
        found = self.items.get(node)
        if found is None:
            found = self._made(node)
            self.put(node, found)
        return found

    def put(self, node: K, item: T) -> None:
        """Set a node's item, by default in the innermost scope."""
        self.items[node] = item


class FormWalk(ScopedWalk[int, T]):
    """The walk over a form, whose nodes are numbered: items are instructions, for most walks. Families say what they are."""

    nodes: NormalForm

    @abstractmethod
    def _item(self, place: int, op: str, args: tuple[int, ...], data: Any) -> T:
        """The item of the node at a place."""

    def _made(self, node: int) -> T:
        return self._item(node, *self.nodes[node])

    def fill(self, places: Iterable[int]) -> None:
        """Make the items of these nodes, in their order."""
        for place in places:
            self.item(place)

    def run(self) -> T:
        """Make all items, in order; the last one is returned."""
        self.fill(range(len(self.nodes)))
        return self.items[len(self.nodes) - 1]
