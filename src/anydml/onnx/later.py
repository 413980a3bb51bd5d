"""Eager functions that are looked up when they are called. A table that names fifty of them reads no operator's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.functional import functions


class _Later:
    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any, **keywords: Any) -> Any:
            return getattr(functions, name)(*arguments, **keywords)

        return function


if TYPE_CHECKING:
    later = functions
else:
    later = _Later()
