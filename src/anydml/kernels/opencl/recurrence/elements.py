"""Functions in OpenCL C of a stage: one element of a state, or one factor of sums, from the sums that its formula reads."""

from __future__ import annotations

from anydml.kernels.code import opencl
from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.contract.floats.second.compensated import wide
from anydml.kernels.elementwise import magnitudes, precise
from anydml.kernels.elementwise.items import stored_item
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.opencl.recurrence.plan import DirectionKey
from anydml.kernels.recurrence import finer, stages
from anydml.kernels.recurrence.gates import GateWalk
from anydml.kernels.recurrence.key import NUMBERS, SUM, Leaf
from anydml.tensor import DataType

DOUBLE, BIT, WORD = Kind("double"), Kind("i1"), Kind("i64")
UNDECIDED, WITHOUT_SIGN = 1, 2  # flags of a factor of sums


class StageFunctions:
    """The functions of a stage. Each takes, for every sum, its parts; then the addresses of other operands, and of the result.

    They return whether the result is undecided. helpers: functions that they call.
    """

    def __init__(self, target: Target, key: DirectionKey, number: int) -> None:
        self.target, self.key, self.number, self.stage = target, key, number, key.stages[number]
        self.element = Kind(f"i{key.data_type.element_bits}")
        self.helpers: dict[str, None] = {}

    def first(self) -> str:
        """From sums in float64, the bounds of their errors, and whether their factors have none."""
        body = Body(self.target)
        walk = self._walk(body)
        if self.stage.state is None:
            value, error, undecided = stages.as_factor(body, walk, 0)
            body.stored(value, "%out")
            body.stored(error, "%out", 8)
            return self._function("first", body, ("total", "error"), undecided)
        made, left = stored_item(body, walk.items[len(self.stage.formula) - 1], self.key.data_type, 0, integral=False)
        body.stored(made, "%out")
        left = body.constant(BIT, False) if left is None else left_by_first_stage(left)
        return self._function("first", body, ("total", "error"), left)

    def settled(self) -> str:
        """As `first`, for an element that may be known to be 0, infinite or NaN by signs and magnitudes."""
        body = Body(self.target)
        made, undecided = magnitudes.stored(body, self._walk(body), self.stage.formula, self.key.data_type)
        when(body, (~undecided).name, lambda: body.stored(made, "%out"))
        return self._function("settled", body, ("total", "error"), undecided)

    def finer(self) -> str:
        """From sums in three parts, in twice float64's precision; with flags of what is not known of their factors."""
        body = Body(self.target)
        streams, known = self._streams(body), dict[int, Precise]()
        for k, leaf in self._sums():
            head, tail, lost = (Value(body, f"%{part}{k}", DOUBLE) for part in ("head", "tail", "lost"))
            guard, signed = None, body.constant(BIT, True)
            if self._scaled(leaf):
                flags = Value(body, f"%open{k}", WORD)
                guard, signed = (flags & UNDECIDED).compared("ne", 0), (flags & WITHOUT_SIGN).compared("eq", 0)
            known[k] = Precise(Pair(head, tail), lost, guard, signed)
        formula = self.stage.formula
        places = {p: known[x.data[0]] for p, x in enumerate(formula) if x.op == "stream" and x.data[0] in known}
        if self.stage.state is None:
            found = precise.PreciseWalk(body, formula, streams, 0, places, extremes=True).run()
            assert isinstance(found, Precise)
            parts, undecided, without = finer.as_factor(found)
            for k, part in enumerate(parts):
                body.stored(part, "%out", 8 * k)
            flags = undecided.converted("zext", WORD) | without.converted("zext", WORD) << 1
            body.stored(flags, "%out", 24)
            return self._function("finer", body, ("head", "tail", "lost"), undecided, "i64")
        made, left = precise.stored(body, formula, streams, self.key.data_type, 0, integral=False, known=places, extremes=True)
        left = body.constant(BIT, False) if left is None else left
        when(body, (~left).name, lambda: body.stored(made, "%out"))
        return self._function("finer", body, ("head", "tail", "lost"), left, "i64")

    def _sums(self) -> list[tuple[int, Leaf]]:
        return [(k, leaf) for k, leaf in enumerate(self.stage.leaves) if leaf.kind == SUM]

    def _scaled(self, leaf: Leaf) -> bool:
        return self.key.sources[leaf.number].kind == NUMBERS

    def _streams(self, body: Body) -> list[Value]:
        """The bits of all operands but sums."""
        return [
            body.undefined(self.element) if leaf.kind == SUM else body.loaded(self.element, f"%p{k}")
            for k, leaf in enumerate(self.stage.leaves)
        ]

    def _walk(self, body: Body) -> GateWalk:
        formula, sums = self.stage.formula, dict[int, Number]()
        streams = self._streams(body)
        for k, leaf in self._sums():
            total, error = (Value(body, f"%{part}{k}", DOUBLE) for part in ("total", "error"))
            guard = Value(body, f"%open{k}", BIT) if self._scaled(leaf) else None
            sums[k] = stages.sum_of(formula, total, error, guard)
        stored_as = self.key.data_type if self.stage.state is not None else DataType.FLOAT32
        return stages.walked(body, formula, streams, sums, stored_as, 0)

    def _function(self, name: str, body: Body, parts: tuple[str, ...], undecided: Value, flags: str = "i1") -> str:
        arguments = []
        for k, leaf in self._sums():
            arguments += [opencl.Argument("double", f"{part}{k}") for part in parts]
            arguments += [opencl.Argument(flags, f"open{k}")] if self._scaled(leaf) else []
        arguments += [opencl.Argument("ptr", f"p{k}") for k, leaf in enumerate(self.stage.leaves) if leaf.kind != SUM]
        self.helpers |= dict.fromkeys(opencl.helpers(body))
        return opencl.function(f"{name}{self.number}", [*arguments, opencl.Argument("ptr", "out")], body, undecided)


def widening(target: Target, data_type: DataType) -> str:
    """`double wide(address)`: an element in float64."""
    body = Body(target)
    made = wide(body.loaded(Kind(f"i{data_type.element_bits}"), "%p"), data_type)
    return opencl.function("wide", [opencl.Argument("ptr", "p")], body, made)
