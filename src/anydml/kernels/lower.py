"""The families that take a statement. Each is imported when it is tried, so that a process imports only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from anydml import optional
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Answer, Lower, Machine, Refused
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

T = TypeVar("T")
LAST = "reference"  # takes every statement, so its errors are not caught


def lowerings(
    families: Mapping[str, Callable[[], Lower]], statement: Statement, checked: Checked[Any], machine: Machine
) -> Iterator[tuple[str, Answer]]:
    """The name and the answer of each family, in order, for the statement of a checked desc."""
    for name, family in families.items():
        answer = partial(_answer, family, statement, checked, machine)
        yield name, answer() if name == LAST else tried(name, answer)


def _answer(family: Callable[[], Lower], statement: Statement, checked: Checked[Any], machine: Machine) -> Answer:
    return family()(statement, checked, machine)


def tried(name: str, work: Callable[[], T]) -> T | Refused:
    """The result of a stage of making a family's kernel; Refused if it fails."""

    def compilable() -> T | Refused:
        try:
            return work()
        except Uncompilable as error:
            return Refused(str(error))

    return optional.attempted(f"The kernels {name} are", compilable, Refused)
