"""Rows in twice float64's precision, for the few undecided elements: their sums are computed again, then these elements.

Zeros, among others, stay undecided.
"""

from __future__ import annotations

from collections.abc import Iterable

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value, part
from anydml.kernels.elementwise import precise
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.lanes import Truth
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL
from anydml.kernels.reduce.key import ReductionKey, same_along
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE
from anydml.kernels.reduce.precise_sums import Differences, Plain, Sums
from anydml.kernels.reduce.stages import inner, stages
from anydml.kernels.reduce.undecided_rows import UndecidedRow


def finer_stage(target: Target, key: ReductionKey) -> tuple[str, list[str]]:
    """The text of an `UndecidedRow` for a formula of sums, and its declarations."""
    return _Finer(target, key).text()


class _Finer(UndecidedRow):
    def __init__(self, target: Target, key: ReductionKey) -> None:
        super().__init__(target, key._replace(formula=key.plain))
        self.formula = key.plain
        self.stages = stages(self.formula, same_along(key), mapped=key.mapped)
        self.items: dict[int, Precise | Truth] = {}
        # further results of a pass, by the reduction's place and the op of their node
        self.beside: dict[tuple[int, str], Precise] = {}
        self.additions = 2 * key.additions * key.lines * max(key.lanes // self.lanes, 1) + 2 * self.lanes

    def text(self) -> tuple[str, list[str]]:
        self.begin()
        for s in range(len(self.stages.passes)):
            self._fill_row(s)
            self._pass(s)
        self._fill_row(len(self.stages.passes))
        return self.ended(self.decided(self._element))

    def _fill(self, places: Iterable[int]) -> None:
        for p in sorted(places):
            if p not in self.items:
                op, args, data = self.formula[p]
                if op in (VARIANCE, OTHER_MEAN, TOTAL):
                    self.items[p] = self.beside[args[0], op]
                    continue
                self.items[p] = precise.item(self.body, op, [self.items[a] for a in args], data, self.read, self.lanes)

    def _fill_row(self, s: int) -> None:
        """Compute the nodes that are the same for the whole row and known after s passes."""
        within, after = self.stages.within, self.stages.after
        self._fill(
            p for p, node in enumerate(self.formula)
            if not within[p] and after[p] <= s and p not in self.items and not node.op.startswith("row_")
        )  # fmt: skip

    def _fill_within(self, targets: list[int]) -> None:
        self._fill(inner(self.formula, self.stages.within, targets, set(self.items)))

    def _forget(self) -> None:
        for p in [p for p in self.items if self.stages.within[p]]:
            del self.items[p]

    # --- sums ---

    def _pass(self, s: int) -> None:
        """Emit a pass along the row, and take the results of its sums."""
        lanes = self.lanes
        places = self.stages.passes[s]
        sums = [self._sums(p) for p in places]
        terms = [a for own in sums for a in own.args]

        def group(values: list[Value], active: Value) -> list[Value]:
            self._fill_within(terms)
            made: list[Value] = []
            for own in sums:
                made += own.step(values[len(made) : len(made) + len(own.starts)], self.items, active)
            self._forget()
            return made

        values = self.along([v for own in sums for v in own.starts], group)
        first = 0
        for own, p in zip(sums, places, strict=True):
            made = values[first : first + len(own.starts)]
            first += len(own.starts)
            width = lanes
            while width > 1:
                width //= 2
                made = own.merged(*([part(v, at, width) for v in made] for at in (0, width)))
            for name, x in own.results([part(v, 0, 1, lanes) for v in made]).items():
                self.beside[p, name] = x
            self.items[p] = self.beside[p, ""]

    def _sums(self, p: int) -> Sums:
        """The sums of a reduction."""
        op, args, data = self.formula[p]
        if op == "row_sum" and len(args) == 1:
            return Plain(self.body, self.lanes, args)
        if op not in (MOMENTS, JOINT):
            raise Uncompilable(f"{op} in twice float64's precision")
        self.put("0", self.streams.alone("0"))
        self._fill_within([args[0]])
        near = self.items[args[0]]
        assert isinstance(near, Precise)
        self._forget()
        return Differences(self.body, self.lanes, args, near.pair.head, data, self.additions)

    def _element(self) -> tuple[Value, Value | None]:
        last = len(self.formula) - 1
        self._fill_within([last])
        made = precise.finished(self.items[last], self.key.types[-1], integral=self.key.integral)
        self._forget()
        return made
