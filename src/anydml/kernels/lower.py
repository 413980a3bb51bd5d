"""Which families take a statement: each is imported when it is asked, so that a process imports what it computes with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Answer, Lower, Machine, Refused
from anydml.schema.check import Checked
from anydml.schema.statement import Statement


def lowerings(
    families: Mapping[str, Callable[[], Lower]], statement: Statement, checked: Checked[Any], machine: Machine
) -> Iterator[tuple[str, Answer]]:
    """The answer of each family, by its name, to the statement of a checked desc, one after the other."""
    for name, family in families.items():
        try:
            answer = family()(statement, checked, machine)
        except Uncompilable as error:
            answer = Refused(str(error))
        yield name, answer
