"""Assertions for the tests of another implementation, with exact results as the oracle."""

from __future__ import annotations

from typing import Any

from anydml.explain.compare import case_of, differences, explained


def assert_exact(actual: Any, function_or_desc: Any, /, *arguments: Any, **keywords: Any) -> None:
    """Assert that an output equals the exact one, in every bit.

    `assert_exact(actual, function, *arguments)` with an eager function and its arguments, or `assert_exact(actual, desc,
    inputs)`. AssertionError with the sentence of `compare`; whatever `compare` raises where the two cannot be compared.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    case = case_of(function_or_desc, *arguments, **keywords, actual=actual)
    comparison = differences(case)
    if not comparison.equal:
        raise AssertionError(str(explained(case, comparison)))


def assert_near(
    actual: Any, function_or_desc: Any, /, *arguments: Any, steps: int = 1, within: float = 1e-5, **keywords: Any
) -> None:
    """Assert that an output differs from the exact one by at most so many steps, and only next to ties.

    Takes what `assert_exact` does. steps: the greatest difference allowed, in steps of the output. within: how far from a
    tie an exact value that differs may lie, in steps, 0 to 0.5. Outputs whose exact value saturates, integers that are not
    rounded and copies have no tie to be near to: they are equal. AssertionError as of `assert_exact`.
    """
    __tracebackhide__ = True
    case = case_of(function_or_desc, *arguments, **keywords, actual=actual)
    comparison = differences(case)
    if comparison.equal:
        return
    farthest = comparison.within  # None where no output that differs has a tie
    if comparison.differing_clamped or farthest is None or (comparison.max_step or 0) > steps or farthest > within:
        allowed = f"The test allows steps of at most {steps}, within {within:g} of a tie"
        raise AssertionError(f"{explained(case, comparison)}. {allowed}")
