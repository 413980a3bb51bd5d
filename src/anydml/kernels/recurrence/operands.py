"""The operands of a direction's formulas: sums by their sources and weights, and parameters, by numbers."""

from __future__ import annotations

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.match import states as match
from anydml.kernels.match.states import Direction
from anydml.kernels.match.stepped import SteppedElement
from anydml.kernels.recurrence.formulas import of_stage
from anydml.kernels.recurrence.key import MOST_STAGES, NEW, OLD, PARAMETER, SUM, Leaf, StepFormula


class Operands:
    """blocks: the weights of each source of sums. terms: of each source's sums. parameters: elements that all steps read."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.parameters: list[SteppedElement] = []
        self.blocks: dict[match.Source, list[SteppedElement]] = {}
        self.terms: dict[match.Source, int] = {}
        for leaf in (leaf for stage in direction.stages for leaf in stage.leaves):
            if isinstance(leaf, match.StateProduct):
                blocks = self.blocks.setdefault(leaf.source, [])
                self.terms[leaf.source] = leaf.terms
                if leaf.weights not in blocks:
                    blocks.append(leaf.weights)
            elif isinstance(leaf, SteppedElement) and leaf not in self.parameters:
                self.parameters.append(leaf)

    def stages(self) -> tuple[StepFormula, ...]:
        """The formulas of a step, in order. Uncompilable if there are more than kernels count."""
        made: list[StepFormula] = []
        ready: set[int] = set()
        for stage in self.direction.stages:
            leaves = tuple(map(self._leaf, stage.leaves))
            before = tuple(sorted({leaf.number for leaf in leaves if leaf.kind == SUM} - ready))
            ready |= set(before)
            made.append(StepFormula(stage.state, of_stage(stage.formula), leaves, before))
        assert ready == set(range(len(self.blocks)))
        if len(made) > MOST_STAGES:
            raise Uncompilable(f"a step has more than {MOST_STAGES} stages")
        return tuple(made)

    def _leaf(self, leaf: match.Leaf) -> Leaf:
        if isinstance(leaf, match.StateProduct):
            return Leaf(SUM, list(self.blocks).index(leaf.source), self.blocks[leaf.source].index(leaf.weights))
        if isinstance(leaf, SteppedElement):
            return Leaf(PARAMETER, self.parameters.index(leaf))
        return Leaf(OLD if isinstance(leaf, match.Old) else NEW, leaf.state)
