"""The family of compiled recurrences: states that are computed step by step, each correctly rounded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.match.states import Recurrence, StateProduct
from anydml.kernels.match.stepped import SteppedElement
from anydml.kernels.matched import lowers
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.problem import Problem
from anydml.kernels.recurrence import tuning
from anydml.kernels.recurrence.key import MOST_STAGES
from anydml.kernels.recurrence.plan import Planner, fits
from anydml.kernels.recurrence.undecided import Deciding

MOST_TERMS = 1 << 20  # bounds of longer sums would be too wide to decide anything


@lowers(recurrence)
def lower(found: Recurrence, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for a recurrence: a piece for each direction, and for each share of the sequences if there are more threads."""
    if (reason := unfit(found, problem)) is not None:
        return Refused(reason)
    scratch = Scratch("scratch")
    with guard:
        parts = [(direction, part) for direction in range(len(found.directions)) for part in _parts(found, machine.threads)]
        pieces = [
            Planner(found, *part, problem.tensors, target, scratch, At("constants", 8 * MOST_STAGES * n)).piece()
            for n, part in enumerate(parts)
        ]
    codes = np.zeros((len(pieces), MOST_STAGES), np.int64)
    steps, _, sequences, units = found.sizes
    terms = sum(leaf.terms for d in found.directions for s in d.stages for leaf in s.leaves if isinstance(leaf, StateProduct))
    rounds = [Rounds([[[piece.step] for piece in pieces]])]
    if all(piece.packing for piece in pieces):
        rounds.insert(0, Rounds([[piece.packing for piece in pieces]]))
    return Lowered(
        target,
        rounds,
        scratch=scratch.size,
        constants=codes.reshape(-1).view(np.uint8),  # except those that are found
        short=steps * sequences * units * terms < tuning.TUNING.short,
        decide=Deciding(found.tensors, found.data_type, target, [piece.undecided for piece in pieces], codes).lists().decide,
    )


def _parts(found: Recurrence, threads: int) -> list[range]:
    """The sequences in as many parts as each direction has threads."""
    count = found.sizes[2]
    parts = max(1, min(threads // len(found.directions), count // tuning.TUNING.sequences))
    ends = [count * n // parts for n in range(parts + 1)]
    return [range(first, end) for first, end in pairwise(ends)]


def unfit(found: Recurrence, problem: Problem) -> str | None:
    """The reason why a recurrence, or the reading of an input, does not fit; None if all do."""
    if found.data_type not in SINGLES:
        return "the states are no floats of 32 or 16 bits"
    if not all(found.sizes):
        return "there are no steps, or nothing in them"
    places = [(start, 1) for d in found.directions for start in d.starts if start is not None]
    if found.lengths is not None:
        places.append((found.lengths, 1))
    for leaf in (leaf for d in found.directions for stage in d.stages for leaf in stage.leaves):
        if isinstance(leaf, SteppedElement):
            places.append((leaf, 1))
        if isinstance(leaf, StateProduct):
            if leaf.terms > MOST_TERMS:
                return f"sums have more than {MOST_TERMS} terms"
            places.append((leaf.weights, leaf.terms))
            if isinstance(leaf.source, SteppedElement):
                places.append((leaf.source, leaf.terms))
            elif leaf.terms != found.sizes[3]:
                return "sums over states are not over all units"
    if not all(fits(place, found, problem.tensors, terms) for place, terms in places):
        return "an element lies outside of an input"
    return None
