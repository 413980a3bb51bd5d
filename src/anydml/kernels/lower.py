"""Which families take a statement: each is imported when it is asked, so that a process imports what it computes with."""

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
LAST = "reference"  # what takes every statement: nothing stands in for it


def lowerings(
    families: Mapping[str, Callable[[], Lower]], statement: Statement, checked: Checked[Any], machine: Machine
) -> Iterator[tuple[str, Answer]]:
    """The answer of each family, by its name, to the statement of a checked desc, one after the other."""
    for name, family in families.items():
        answer = partial(_answer, family, statement, checked, machine)
        yield name, answer() if name == LAST else tried(name, answer)


def _answer(family: Callable[[], Lower], statement: Statement, checked: Checked[Any], machine: Machine) -> Answer:
    return family()(statement, checked, machine)


def tried(name: str, work: Callable[[], T]) -> T | Refused:
    """A kernel, or a part of the way to it, of the family of a name; Refused where it cannot be had."""

    def compilable() -> T | Refused:
        try:
            return work()
        except Uncompilable as error:
            return Refused(str(error))

    return optional.attempted(f"The kernels {name} are", compilable, Refused)
