"""One test for all rows of a table, such as all operators: a pytest item for each would take longer to set up than to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import islice
from typing import Any

import pytest

from anydml import operators
from every_kernel import Ran

Rows = Mapping[str, tuple[Any, ...]]
WHOLE = 5  # failing rows with a whole traceback; others have the failing line and the message

OPERATORS: Rows = {operator.spec.name: (operator,) for operator in operators.every()}
EXAMPLES: Rows = {f"{o.spec.name}: {e.title}": (o, e) for o in operators.every() for e in o.spec.examples}
assert len(EXAMPLES) == sum(len(o.spec.examples) for o in operators.every()), "two examples of an operator have one title"


def for_each(rows: Rows, *, at_least: int, parts: int = 1) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Makes a test from a function that takes a row and fixtures, and returns the number of its cases.

    Every row is tried. The test fails with the names and messages of all rows that fail. parts: the number of tests that share
    the rows, so that none takes longer than a few seconds. at_least: the required number of cases of each part.
    """

    def over(test: Callable[..., int]) -> Callable[..., None]:
        parameters = list(inspect.signature(test).parameters.values())
        fixtures = parameters[len(next(iter(rows.values()))) :]

        @wraps(test)
        def walk(ran: Ran, part: int = 0, **fixtures: Any) -> None:
            cases = 0
            faults: dict[str, str] = {}
            chosen = dict(islice(rows.items(), part, None, parts))
            for name, row in chosen.items():
                try:
                    cases += test(*row, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # the exception of `pytest.raises` is not an Exception
                    found = pytest.ExceptionInfo.from_exception(error)
                    found.traceback = found.traceback[1:] or found.traceback
                    faults[name] = f"{name}:\n{found.getrepr(style='long' if len(faults) < WHOLE else 'short')}"
            if faults:
                every = "\n\n".join(faults.values())
                pytest.fail(f"{len(faults)} of {len(chosen)} fail: {', '.join(faults)}\n\n{every}", pytrace=False)
            ran(cases, at_least)

        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("ran", "part")[: 1 + (parts > 1)]]
        vars(walk)["__signature__"] = inspect.Signature([*(p.replace(kind=p.KEYWORD_ONLY) for p in fixtures), *added])
        names = [f"part {part + 1} of {parts}" for part in range(parts)]
        return pytest.mark.parametrize("part", range(parts), ids=names)(walk) if parts > 1 else walk

    return over
