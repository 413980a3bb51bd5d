"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):
    """A property computed at its first use and kept in the instance's `__dict__`, without a lock.

    `functools.cached_property` of Python 3.10 and 3.11 holds a lock while it computes, which a child of a fork can inherit
    taken. Here two threads may both compute the value.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> computed_once[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)  # later uses find it there
        return value
