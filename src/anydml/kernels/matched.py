"""The entry of families that take one pattern: what it finds in a statement, and the instruction set to compile for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Machine, Refused
from anydml.kernels.problem import Problem
from anydml.schema.statement import Statement

T = TypeVar("T")
R = TypeVar("R")
OfMatch = Callable[[T, Target, Problem, Machine], R | Refused]


def lowers(match: Callable[[Statement], T | str]) -> Callable[[OfMatch[T, R]], Callable[[Problem, Machine], R | Refused]]:
    """A family whose function takes what a pattern finds. Other statements and targets are refused with the reason."""

    def family(lower: OfMatch[T, R]) -> Callable[[Problem, Machine], R | Refused]:
        @wraps(lower)
        def lowered(problem: Problem, machine: Machine) -> R | Refused:
            found = match(problem.statement)
            if isinstance(found, str):
                return Refused(found)
            target = wanted(machine.isa, machine.stage)
            return Refused(target) if isinstance(target, str) else lower(found, target, problem, machine)

        return lowered

    return family
