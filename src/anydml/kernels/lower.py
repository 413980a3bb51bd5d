"""Which families take a statement: each is imported when it is asked, so that a process imports what it computes with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from anydml.forks import imported
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

Answer = Lowered | Built | Refused


@lru_cache(maxsize=64)
def _lower(module: str) -> Callable[[Statement, Checked[Any], Machine], Answer]:
    found: Callable[[Statement, Checked[Any], Machine], Answer] = imported(module).lower
    return found


def lowerings(
    families: Mapping[str, str], statement: Statement, checked: Checked[Any], machine: Machine
) -> Iterator[tuple[str, Answer]]:
    """The answer of each family, by its name and module, to the statement of a checked desc, one after the other."""
    for name, module in families.items():
        try:
            answer = _lower(module)(statement, checked, machine)
        except Uncompilable as error:
            answer = Refused(str(error))
        yield name, answer
