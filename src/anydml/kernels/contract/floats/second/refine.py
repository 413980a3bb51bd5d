"""The second stage: it decides listed elements with compensated sums in three float64.

It reads terms from panels, or from the tensors, where it skips terms that do not count. A stream that is added to the sum is
one more term. Zeros and ties are recognised. Each element that stays undecided is marked by a bit.
"""

from __future__ import annotations

import math

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.elements import split, streams
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import rounded, stored, stored_precisely
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.second.compensated import joined, plus, result, together, wide
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.undecided.lists import mark
from anydml.tensor import DataType

LANES = 2  # all hold the same element
# f1, f2: the columns' inner sizes for streams; bit: the number of the first row's first bit; columns: bits from row to row
ARGUMENTS = Signature(
    "*a a_row a_term *b n1 n2 b0 b1 b2 b_term channels positions *table *list *counter first f1 f2 *bits bit columns *open "
    "*sums sums_row *b_norms *rows_at tile height *panels_at panel width"
)


def refined(target: Target, key: EpilogueKey, factors: tuple[DataType, DataType]) -> str:
    """The kernel that decides listed elements; arguments: ARGUMENTS, and streams. open: counts elements left undecided."""
    return Refining(target, key, factors).text()


class Refining:
    """The kernel that decides listed elements, and the base of the one that decides zeros."""

    def __init__(self, target: Target, key: EpilogueKey, factors: tuple[DataType, DataType]) -> None:
        self.body, self.key, self.factors = Body(target), key, factors

    def text(self) -> str:
        body = self.body
        with_streams(ARGUMENTS, len(self.key.layouts)).load(body)
        self.list = list_of(body)
        body.loop("0", self.list.count(), 1, [], self._entry)
        self._ended()
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _ended(self) -> None:
        """Emit what follows the last entry."""

    def _entry(self, e: str, _: list[Value]) -> list[Value]:
        body = self.body
        entry = body.load("i64", self.list.slot(e))
        row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
        c = body.op(f"add i64 %first, {column}")
        if body.target.exact:
            self._mark(row, c)
            return []
        read, output = streams(body, self.key, LANES, row, c)
        values = self._known(row, column, c)
        added = self.key.stored.added()
        if added is not None:
            kind = self.key.stored.types[added[1]]
            values = plus(values, wide(read[added[1]].lane(0), kind))
        total, remainder, guard, tail, err = result(values)
        number = rounded(body.splat(total, LANES), body.splat(remainder, LANES), body.splat(guard, LANES))
        made, undecided = stored(body, self.key.stored, read, number, LANES, added=added is not None)
        assert undecided is not None
        pair = Pair(body.splat(total, LANES), body.splat(tail, LANES))
        exact = Precise(pair, body.splat(err, LANES), ~pair.head.magnitude().compared("olt", math.inf))
        second = stored_precisely(body, self.key.stored, read, exact, LANES, added=added is not None)
        if second is not None:
            made = body.chosen(undecided, second[0], made)
            undecided = undecided if second[1] is None else undecided & second[1]
        yes, no, after = (body.name(x) for x in ("open", "decided", "after"))
        body.branch(undecided.lane(0).name, yes, no)
        body.label(yes)
        self._mark(row, c)
        body.jump(after)
        body.label(no)
        body.stored(made.lane(0), output)
        body.jump(after)
        body.label(after)
        return []

    def _sum(self, row: str, c: str) -> list[Value]:
        """The compensated sum of the terms that count, from the tensors."""
        body = self.body
        z, y, x = split(body, c, "%n1", "%n2")
        a = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %b0')}, {body.op(f'mul i64 {y}, %b1')}")
        b = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %b2')}"))
        lanes = body.target.vector_bytes // 8
        wide_, one = (Kind("double", n) for n in (lanes, 0))
        starts = [body.constant(kind, x) for kind in (wide_, one) for x in (-0.0, 0.0, 0.0, 0.0)]

        def factors(left: str, right: str) -> list[Value]:
            """The elements at these addresses, as float64."""
            return [
                wide(body.loaded(Kind(f"i{t.element_bits}"), place), t)
                for place, t in zip((left, right), self.factors, strict=True)
            ]

        def position(p: str, carried: list[Value]) -> list[Value]:
            entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
            counts = body.constant(Kind("i1"), True)
            if self.key.padded:
                for k, value in enumerate((z, y, x)):
                    low, high = body.load("i64", entry, 16 + 16 * k), body.load("i64", entry, 24 + 16 * k)
                    at = Value(body, value, Kind("i64"))
                    counts = counts & at.compared("sge", Value(body, low, at.kind))
                    counts = counts & at.compared("slt", Value(body, high, at.kind))
            channels = body.op(f"select i1 {counts.name}, i64 %channels, i64 0")
            bases = [body.at(base, body.load("i64", entry, at)) for base, at in ((a, 8), (b, 0))]

            def places(n: str) -> list[str]:
                return [body.at(x, body.op(f"mul i64 {n}, %{s}_term")) for x, s in zip(bases, "ab", strict=True)]

            def several(n: str, inner: list[Value]) -> list[Value]:
                at, pair = places(n), [body.undefined(wide_)] * 2
                for lane in range(lanes):
                    pair = [v.replaced(lane, x) for v, x in zip(pair, factors(*at), strict=True)]
                    at = [body.at(x, f"%{s}_term") for x, s in zip(at, "ab", strict=True)]
                return plus(inner, pair[0] * pair[1])

            def single(n: str, inner: list[Value]) -> list[Value]:
                left, right = factors(*places(n))
                return plus(inner, left * right)

            first, many = body.loop("0", channels, lanes, carried[:4], several)
            _, few = body.loop(first, channels, 1, carried[4:8], single)
            return [*many, *few, carried[8] + Value(body, channels, Kind("i64"))]

        begin = [*starts, body.constant(Kind("i64"), 0)]
        _, (*values, count) = body.loop("0", "%positions", 1, begin, position)
        some = body.op(f"zext i1 {body.op(f'icmp uge i64 %channels, {lanes}')} to i64")
        _, values = body.loop("0", some, 1, values[4:], lambda _, few: joined(few, together(values[:4])))
        # a sum without terms is +0
        return [body.chosen(count.compared("eq", 0), 0.0, values[0]), *values[1:]]

    def _known(self, row: str, column: str, c: str) -> list[Value]:
        """The compensated sum, from panels or from tensors."""
        return self.body.either(self._is_packed(row, column), lambda: self._packed(row, column), lambda: self._sum(row, c))

    def _is_packed(self, row: str, column: str) -> str:
        """Whether the terms may be read from panels, which have zeros in place of terms that do not count."""
        body = self.body
        there = body.op("icmp ne i64 %height, 0")
        if not self.key.padded:
            return there
        # such a zero may determine a sum's sign, or make it NaN

        def plain() -> list[Value]:
            total, norm = self._first(row, column), body.loaded(Kind("double"), "%b_norms", body.op(f"mul i64 {column}, 8"))
            return [~(norm.bits().compared("slt", 0) & (total.compared("oeq", 0.0) | total.compared("uno", total)))]

        return body.either(there, plain, lambda: [body.constant(Kind("i1"), False)])[0].name

    def _first(self, row: str, column: str) -> Value:
        """The sum of the first stage."""
        body = self.body
        offset = body.op(f"add i64 {body.op(f'mul i64 {row}, %sums_row')}, {body.op(f'mul i64 {column}, 8')}")
        return body.loaded(Kind("double"), "%sums", offset)

    def _packed(self, row: str, column: str) -> list[Value]:
        body, double = self.body, Kind("double")
        lanes = body.target.vector_bytes // 8
        left = body.at("%rows_at", body.op(f"mul i64 {body.op(f'udiv i64 {row}, %height')}, %tile"))
        left = body.at(left, body.op(f"mul i64 {body.op(f'urem i64 {row}, %height')}, 8"))
        right = body.at("%panels_at", body.op(f"mul i64 {body.op(f'udiv i64 {column}, %width')}, %panel"))
        right = body.at(right, body.op(f"mul i64 {body.op(f'urem i64 {column}, %width')}, 4"))
        steps = body.op("mul i64 %height, 8"), body.op("mul i64 %width, 4")
        count = body.op("mul i64 %channels, %positions")

        def term(k: str, carried: list[Value]) -> list[Value]:
            x = body.loaded(double, left, body.op(f"mul i64 {k}, {steps[0]}"))
            y = body.loaded(Kind("float"), right, body.op(f"mul i64 {k}, {steps[1]}"))
            return plus(carried, x * y.converted("fpext", double))

        def several(k: str, carried: list[Value]) -> list[Value]:
            x, y = (body.undefined(Kind(element, lanes)) for element in ("double", "float"))
            from_, to = (body.at(base, body.op(f"mul i64 {k}, {s}")) for base, s in zip((left, right), steps, strict=True))
            for lane in range(lanes):
                x = x.replaced(lane, body.loaded(double, from_))
                y = y.replaced(lane, body.loaded(Kind("float"), to))
                from_, to = body.at(from_, steps[0]), body.at(to, steps[1])
            return plus(carried, x * y.converted("fpext", x.kind))

        starts = [body.constant(Kind("double", lanes), x) for x in (-0.0, 0.0, 0.0, 0.0)]
        first, found = body.loop("0", count, lanes, starts, several)
        return body.loop(first, count, 1, together(found), term)[1]

    def _mark(self, row: str, c: str) -> None:
        body = self.body
        index = body.op(f"add i64 {body.op(f'mul i64 {row}, %columns')}, {c}")
        index = body.op(f"add i64 {index}, %bit")
        mark(body, "%bits", index, "%open")
