"""The exception of patterns: raised inside a pattern, whose entry returns its message as the reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from anydml.schema.statement import Nest, Statement

P = ParamSpec("P")
T = TypeVar("T")


class Unmatched(Exception):
    """Raised if a statement does not match a pattern; the message is the reason."""


def pattern(match: Callable[P, T]) -> Callable[P, T | str]:
    """The entry of a pattern: it returns what is found, or the reason why there is nothing."""

    @wraps(match)
    def found(*args: P.args, **kwargs: P.kwargs) -> T | str:
        try:
            return match(*args, **kwargs)
        except Unmatched as error:
            return str(error)

    return found


def need(holds: object, reason: str) -> None:
    """Raise Unmatched with a reason unless something holds."""
    if not holds:
        raise Unmatched(reason)


def only(statement: Statement) -> tuple[str, Nest]:
    """The output of a statement that has one."""
    need(len(statement) == 1, "there are several outputs")
    return next(iter(statement.items()))
