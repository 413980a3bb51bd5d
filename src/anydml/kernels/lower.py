"""The families that take a statement. Each is imported when it is tried, so that a process imports only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from anydml import optional
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Answer, Lower, Machine, Refused
from anydml.kernels.problem import Problem

T = TypeVar("T")
LAST = "reference"  # takes every statement, so its errors are not caught


def lowerings(families: Mapping[str, Callable[[], Lower]], problem: Problem, machine: Machine) -> Iterator[tuple[str, Answer]]:
    """The name and the answer of each family, in order, to a problem."""
    for name, family in families.items():
        answer = partial(_answer, family, problem, machine)
        yield name, answer() if name.rpartition("/")[2] == LAST else tried(name, answer)


def _answer(family: Callable[[], Lower], problem: Problem, machine: Machine) -> Answer:
    return family()(problem, machine)


def tried(name: str, work: Callable[[], T]) -> T | Refused:
    """The result of a stage of making a family's kernel; Refused if it fails."""

    def compilable() -> T | Refused:
        try:
            return work()
        except Uncompilable as error:
            return Refused(str(error))

    return optional.attempted(f"The kernels {name} are", compilable, Refused)
