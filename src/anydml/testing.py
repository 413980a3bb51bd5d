"""Assertions that compare another implementation's results with the exact ones, and inputs and cases to try it on."""

from __future__ import annotations

from typing import Any

from anydml.cases.decorator import anydml_cases
from anydml.cases.drawn import Case as OperatorCase
from anydml.cases.drawn import cases
from anydml.cases.hard import hard_inputs
from anydml.explain.beyond import judged
from anydml.explain.bounded import Unbounded
from anydml.explain.case import Case
from anydml.explain.compare import case_of, differences, explained
from anydml.explain.precision import check_precision
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger

__all__ = ["OperatorCase", "anydml_cases", "assert_exact", "assert_near", "assert_rounding", "cases", "hard_inputs"]


def assert_exact(actual: Any, function_or_desc: Any, /, *arguments: Any, **keywords: Any) -> None:
    """Assert that an output equals the exact one, in every bit.

        `assert_exact(actual, function, *arguments)` takes an eager function and its arguments; `assert_exact(actual, desc,
    inputs)` takes a desc. AssertionError with the sentence of `compare`; if the two cannot be compared, what `compare` raises.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    case = _case(actual, function_or_desc, *arguments, **keywords)
    comparison = differences(case)
    if not comparison.equal:
        raise AssertionError(str(explained(case, comparison)))


def assert_near(
    actual: Any, function_or_desc: Any, /, *arguments: Any, steps: int = 1, within: float = 1e-5, **keywords: Any
) -> None:
    """Assert that an output differs from the exact one by at most `steps` steps, and only near ties.

    Takes what `assert_exact` does. steps: the greatest difference allowed, in steps of the output. within: how far from a
    tie the exact value may lie where an output differs, in steps, 0 to 0.5. Ties are known for products of quantised
    matrices. Outputs whose exact value saturates, integers that are not rounded and copies have no ties: they must be equal.
    Steps of computed floats are units in the last place, and may be anywhere. AssertionError as in `assert_exact`.
    """
    __tracebackhide__ = True
    case = _case(actual, function_or_desc, *arguments, **keywords)
    comparison = differences(case)
    if comparison.equal:
        return
    few = sum(comparison.steps.values()) == comparison.differing and (comparison.max_step or 0) <= steps
    farthest = comparison.within  # None where no output that differs has a tie
    if comparison.unit:
        near, allowed = few, f"The test allows {steps} ULP; assert_rounding allows what rounding explains"
    else:
        near = few and not comparison.differing_clamped and farthest is not None and farthest <= within
        allowed = f"The test allows steps of at most {steps}, within {within:g} of a tie"
        if few and comparison.worst[0].distance_to_tie is None and not isinstance(case.desc, MatrixMultiplyInteger):
            allowed += ", and no ties are known here; assert_rounding allows what rounding explains"
    if not near:
        raise AssertionError(f"{explained(case, comparison)}. {allowed}")


def assert_rounding(
    actual: Any,
    function_or_desc: Any,
    /,
    *arguments: Any,
    precision: str | None = None,
    sample: int | None = None,
    **keywords: Any,
) -> None:
    """Assert that an output differs from the exact one by no more than rounding at each step explains.

    Takes what `assert_exact` does. Each element may be any result of arithmetic in the operator's float type, where an
    operation errs by half a unit in the last place, a function by four units, and a sum is added up in any order; a quotient
    that is rounded to an integer may go to either side of a tie within that error. The same holds for other forms of a formula
    that runtimes use, such as a normalisation folded into scale and shift. precision: what rounds, if it is not the operator's
    float type: "float32"; "tf32", for float32 with the factors of products cut to 11 bits; "bfloat16" or "float16", for the
    inputs and every step, sums included. sample: how many elements are evaluated at most, of those that the formula alone does
    not decide: half of them are those farthest off. AssertionError as in `assert_exact`, with the element that is farthest off
    and the values it may have. ValueError for a float output for which no bound is known, and for another precision.
    """
    __tracebackhide__ = True
    check_precision(precision)
    if sample is not None and sample < 1:
        raise ValueError(f"sample is {sample}; it must be at least 1")
    case = _case(actual, function_or_desc, *arguments, **keywords)
    try:
        found, forms = judged(case, precision, sample)
    except Unbounded as reason:
        raise ValueError(f"no bound is known for {case.desc.spec.name} ({reason}); assert_near takes steps") from None
    if found is not None:
        sentence = explained(case, differences(case))
        which = "It lies" if sentence.differing == 1 else f"{found.elements} of them lie{'s' if found.elements == 1 else ''}"
        farthest = "" if found.elements == 1 else "the farthest "
        gives = found.low if found.low == found.high else f"{found.low} to {found.high}"
        raise AssertionError(
            f"{sentence}. {which} beyond rounding, {farthest}at {list(found.at)}: {case.actual[found.at]!s}, "
            f"and rounding gives {gives}{''.join(_explained_by(form, n) for form, n in forms.items())}"
        )


def _explained_by(form: str, count: int) -> str:
    return f". Of the others, {count} {'is' if count == 1 else 'are'} explained by {form}"


def _case(actual: Any, function_or_desc: Any, /, *arguments: Any, **keywords: Any) -> Case:
    if callable(actual):
        raise TypeError("the output at hand comes first: assert_exact(actual, function, *arguments)")
    return case_of(function_or_desc, *arguments, **keywords, actual=actual)
