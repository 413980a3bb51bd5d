"""Rows in twice float64's precision, for the few undecided elements: their sums are computed again, then these elements.

Zeros, among others, stay undecided.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Value, part
from anydml.kernels.elementwise import precise
from anydml.kernels.elementwise.precise import PreciseWalk
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.scopes import Scopes
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.lanes import Truth
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL
from anydml.kernels.reduce.key import ReductionKey, same_along
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE
from anydml.kernels.reduce.precise_sums import Differences, Plain, Sums
from anydml.kernels.reduce.stages import StagedWalk, Stages, stages
from anydml.kernels.reduce.undecided_rows import UndecidedRow


def finer_stage(target: Target, key: ReductionKey) -> tuple[str, list[str]]:
    """The text of an `UndecidedRow` for a formula of sums, and its declarations."""
    return _Finer(target, key).text()


class _PreciseRowWalk(PreciseWalk, StagedWalk[Precise | Truth]):
    """beside: further results of a pass, by the reduction's place and the op of their node."""

    def __init__(self, body: Body, nodes: NormalForm, streams: Sequence[Value], lanes: int, stages: Stages) -> None:
        super().__init__(body, nodes, streams, lanes)
        self.stages, self.items = stages, Scopes({}, {})
        self.beside: dict[tuple[int, str], Precise] = {}

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Precise | Truth:
        if op in (VARIANCE, OTHER_MEAN, TOTAL):
            return self.beside[args[0], op]
        return super()._item(place, op, args, data)


class _Finer(UndecidedRow):
    def __init__(self, target: Target, key: ReductionKey) -> None:
        super().__init__(target, key._replace(formula=key.plain))
        self.stages = stages(key.plain, same_along(key), mapped=key.mapped)
        self.walk = _PreciseRowWalk(self.body, key.plain, self.read, self.lanes, self.stages)
        self.additions = 2 * key.additions * key.lines * max(key.lanes // self.lanes, 1) + 2 * self.lanes

    def text(self) -> tuple[str, list[str]]:
        self.begin()
        for s in range(len(self.stages.passes)):
            self.walk.fill(self.walk.of_row(s))
            self._pass(s)
        self.walk.fill(self.walk.of_row(len(self.stages.passes)))
        return self.ended(self.decided(self._element))

    # --- sums ---

    def _pass(self, s: int) -> None:
        """Emit a pass along the row, and take the results of its sums."""
        lanes = self.lanes
        places = self.stages.passes[s]
        sums = [self._sums(p) for p in places]
        terms = [a for own in sums for a in own.args]

        def group(values: list[Value], active: Value) -> list[Value]:
            self.walk.fill_within(terms)
            made: list[Value] = []
            for own in sums:
                made += own.step(values[len(made) : len(made) + len(own.starts)], self.walk.items, active)
            self.walk.forget()
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
                self.walk.beside[p, name] = x
            self.walk.put(p, self.walk.beside[p, ""])

    def _sums(self, p: int) -> Sums:
        """The sums of a reduction."""
        op, args, data = self.walk.nodes[p]
        if op == "row_sum" and len(args) == 1:
            return Plain(self.body, self.lanes, args)
        if op not in (MOMENTS, JOINT):
            raise Uncompilable(f"{op} in twice float64's precision")
        self.put("0", self.streams.alone("0"))
        self.walk.fill_within([args[0]])
        near = self.walk.items[args[0]]
        assert isinstance(near, Precise)
        self.walk.forget()
        return Differences(self.body, self.lanes, args, near.pair.head, data, self.additions)

    def _element(self) -> tuple[Value, Value | None]:
        last = len(self.walk.nodes) - 1
        self.walk.fill_within([last])
        made = precise.finished(self.walk.items[last], self.key.types[-1], integral=self.key.integral)
        self.walk.forget()
        return made
