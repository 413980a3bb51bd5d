"""The ends of loops that conditions narrow, found once per call for every index of a dimension of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anydml.kernels.code.emit import along, fold
from anydml.kernels.code.values import Value
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import WORD, Index
from anydml.kernels.nests.loops import widest
from anydml.kernels.numbers.lanes import in_lanes


class Ranges(Frame):
    """For each of `NestKey.narrowed`, two rows of words in the scratch: the begin and the end of its loop, by index."""

    def _padded(self, d: int) -> str:
        """The bytes of one word for each index of a dimension, rounded up to whole vectors."""
        size = self.body.op(f"add i64 %size{d}, {self.lanes - 1}")
        return self.body.op(f"mul i64 {self.body.op(f'and i64 {size}, {-self.lanes}')}, 8")

    def find(self, k: int) -> Value:
        """Store for every index of a dimension the half-open range of the loop's variable in which conditions may hold.

        Returns the largest number of turns for any index.
        """
        body, walk, found = self.body, self.walk, self.key.narrowed[k]
        end = f"%size{found.variable}"
        beyond = self._padded(found.dimension)

        def column(x: str, most: list[str]) -> list[str]:
            index = self.column(x, found.dimension)
            first = in_lanes(Value(body, end, WORD), self.lanes)

            def turn(i: str, ends: list[Value]) -> list[Value]:
                value = Value(body, i, WORD)
                with walk.scope({found.dimension: index, found.variable: self.index(found.variable, value)}):
                    walk.fill_known(*found.conditions)
                    may: Value | None = None
                    for c in found.conditions:
                        truth = walk.truth(c)
                        mask = in_lanes(truth.mask, self.lanes)
                        if truth.guard is not None:
                            mask = mask | in_lanes(truth.guard, self.lanes)
                        may = mask if may is None else may & mask
                    assert may is not None
                    here, behind = (in_lanes(word, self.lanes) for word in (value, value + 1))
                    low = body.chosen(may & here.compared("slt", ends[0]), here, ends[0])
                    return [low, body.chosen(may, behind, ends[1])]

            made = body.loop("0", end, 1, [first, first.lift(0)], turn)[1]
            at = body.at(f"%range{k}", body.op(f"mul i64 {x}, 8"))
            body.stored(made[0], at)
            body.stored(made[1], at, beyond)
            turns = widest(made[1] - made[0], "smax")
            return [body.intrinsic("smax", Value(body, most[0], WORD), turns).name]

        last = body.op(f"add i64 %size{found.dimension}, {self.lanes - 1}")
        _, (most,) = fold(body, "0", last, self.lanes, [("i64", "1")], column)
        return Value(body, most, WORD)

    def rows(self, turns: Sequence[Value]) -> None:
        """Set `%between`, the rows between pauses: the more turns the loops take at most, the fewer rows.

        If calls may end within a row, `%pace` is the number of columns between pauses.
        """
        body = self.body
        rows = Value(body, "%budget", WORD)
        for v in dict.fromkeys(narrowed.variable for narrowed in self.key.narrowed):
            least: Value | None = None
            for narrowed, most in zip(self.key.narrowed, turns, strict=True):
                if narrowed.variable == v:
                    least = most if least is None else body.intrinsic("smin", least, most)
            assert least is not None
            rows = body.value(f"udiv i64 {rows.name}, {least.name}", WORD)
        if self.key.paused:
            columns = body.intrinsic("umax", rows, body.constant(WORD, self.lanes))
            body.do(f"%pace = add i64 {columns.name}, 0")
            rows = body.value(f"udiv i64 {columns.name}, %size{self.key.lane}", WORD)
        body.do(f"%between = add i64 {body.intrinsic('umax', rows, body.constant(WORD, 1)).name}, 0")

    def load(self, variables: Mapping[int, Index]) -> None:
        """Load the ends of the loops that depend on the given variables."""
        body, walk = self.body, self.walk
        for k, narrowed in enumerate(self.key.narrowed):
            if narrowed.dimension not in variables:
                continue
            index = variables[narrowed.dimension].value
            base = f"%range{k}"
            ends: list[Value] = []
            for part in ("0", self._padded(narrowed.dimension)):
                if index.kind.lanes:
                    word = body.loaded(index.kind, body.at(body.at(base, part), body.op("mul i64 %x, 8")))
                    ends.append(word)
                else:
                    ends.append(body.loaded(WORD, body.at(along(body, base, "8", index.name), part)))
            walk.ranges.setdefault((narrowed.reduction, narrowed.variable), []).append((ends[0], ends[1]))
