"""The parametrisation of a test over an operator's support table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def anydml_cases(operator: str, n: int = 50, *, seed: int = 0, level: str = "6_4") -> Callable[[F], F]:
    """A decorator that runs a pytest test for up to n cases of an operator; the test takes them as `case`.

    `case.desc` is a valid desc at the feature level, of all data types and dimension counts that the operator's table has, and
    `case.inputs` are hard inputs for it, of each kind in turn. pytest finds the decorator by the plugin that anydml installs.
    ValueError, when tests are collected, for an operator that does not exist at the level.
    """

    def decorate(test: F) -> F:
        import pytest

        marked: F = pytest.mark.anydml_cases(operator, n=n, seed=seed, level=level)(test)
        return marked

    return decorate
