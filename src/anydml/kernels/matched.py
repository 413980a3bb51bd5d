"""The pattern that a family finds in a statement, and the instruction set that it compiles for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Machine, Refused
from anydml.kernels.problem import Problem
from anydml.schema.statement import Statement

T = TypeVar("T")


def matched(match: Callable[[Statement], T | str], problem: Problem, machine: Machine) -> tuple[T, Target] | Refused:
    """The match of a statement and the target of the machine, or a refusal with the reason."""
    found, target = match(problem.statement), wanted(machine.isa, machine.stage)
    if isinstance(found, str):
        return Refused(found)
    return Refused(target) if isinstance(target, str) else (found, target)
