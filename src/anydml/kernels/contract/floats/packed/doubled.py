"""The sums of a block again, each as a pair of float64, if many of its elements are undecided.

A sum begins with 1.5 times a power of two that exceeds all partial sums. So all partial sums lie between the same two powers
of two and have the same ULP s. One subtraction gives the rounding error of an addition: the difference of consecutive partial
sums is exact, and so is its difference from the product. These errors are added up beside the sum: the rest.

Each rounding error is at most s / 2, and s is at most 32 u |a| |b|, where u = 2^-53. So the rest of n terms is at most
16 n u |a| |b|, and its own rounding errors are at most 8 n^2 u^2 |a| |b|. The rest is exact if all terms are multiples of a
number that is at least 2^-53 times the rest's bound: then zeros and ties are decided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.magnitudes import DENSE
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.functions.pairs import two_sum

# most: with no more entries on the list than this, nothing is done; divided by 2^CHEAPER if sums are exact
ARGUMENTS = tile.SUMMED + Signature("*rests most *a_norms *b_norms *a_low *b_low")
CHEAPER = 4
EXPONENT = 0x7FF << 52
BIAS = 24.0  # norms are below twice their powers of two: sums are below 4 times the product of these, and 20 .. 28 has one ULP


def sums(target: Target, rows: int, across: int) -> str:
    """The kernel that computes pairs, whose heads replace the sums; arguments: ARGUMENTS.

    a_low, b_low: for each row and column, the kernel stores a power of two of which all elements are multiples.
    """
    return _Doubled(target, rows, across).text()


def lost(most: Value, factor: Value, low: Value) -> Value:
    """The bound of the error of a pair.

    most: factor |a| |b|, where the factor exceeds n u; low: a power of two of which all terms are multiples.
    """
    exact = (most * (16 * SLACK)).compared("ole", low * 2.0**53)
    return most.body.chosen(exact, 0.0, most * factor * (8 * SLACK))


class _Doubled:
    def __init__(self, target: Target, rows: int, across: int) -> None:
        self.body, self.rows, self.across = Body(target), rows, across
        self.lanes = target.vector_bytes // 8
        self.wide = Kind("double", self.lanes)
        # rows whose pairs the registers hold
        self.at_once = 4 if target.vector_bytes == 64 else 3 if target.architecture == "aarch64" else 2

    def text(self) -> str:
        body = self.body
        ARGUMENTS.load(body)
        bits = body.load("i64", "%counter", tile.BOUND)
        exact = body.op(f"icmp eq i64 {bits}, 0")
        most = body.op(f"select i1 {exact}, i64 {body.op(f'lshr i64 %most, {CHEAPER}')}, i64 %most")
        many = body.op(f"icmp ugt i64 {list_of(body).count()}, {most}")
        body.store("i64", body.op(f"zext i1 {many} to i64"), "%counter", DENSE)
        when(body, body.op(f"and i1 {many}, {exact}"), self._exact)
        when(body, body.op(f"and i1 {many}, {body.op(f'xor i1 {exact}, true')}"), self._pairs)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _exact(self) -> None:
        """The pairs of exact sums: their rests are 0, and exact."""
        body = self.body
        rows, columns = body.op(f"mul i64 %tiles, {self.rows}"), body.op("udiv i64 %sums_row, 8")
        for into, count, value in (
            ("%rests", body.op(f"mul i64 {rows}, {columns}"), 0.0),
            ("%a_low", rows, math.inf),
            ("%b_low", columns, math.inf),
        ):

            def one(i: str, _: list[Value], into: str = into, value: float = value) -> list[Value]:
                body.stored(body.constant(Kind("double"), value), into, body.op(f"mul i64 {i}, 8"))
                return []

            body.loop("0", count, 1, [], one)

    def _pairs(self) -> None:
        self._least("double", self.rows, "%a", "%a_tile", "%tiles", "%a_low")
        self._least("float", self.across * self.lanes, "%b", "%b_panel", "%panels", "%b_low")
        self.body.loop("0", "%panels", 1, [], self._panel)

    def _least(self, element: str, count: int, packed: str, step: str, times: str, into: str) -> None:
        """Store, for each packed row or column, a power of two of which its elements are multiples; infinity for zeros."""
        body, size = self.body, Kind(element).bits
        firsts = {first: Kind(f"i{size}", lanes) for first, lanes in _registers(count, self.lanes)}

        def one(t: str, _: list[Value]) -> list[Value]:
            at = body.at(packed, body.op(f"mul i64 {t}, {step}"))

            def term(k: str, least: list[Value]) -> list[Value]:
                line = body.at(at, body.op(f"mul i64 {k}, {count * size // 8}"))
                made = []
                for (first, kind), x in zip(firsts.items(), least, strict=True):
                    magnitude = body.loaded(kind, line, first * size // 8) & ((1 << (size - 1)) - 1)
                    made.append(body.intrinsic("umin", x, magnitude - 1))  # zeros become the largest
                return made

            starts = [body.constant(kind, -1) for kind in firsts.values()]
            found = body.loop("0", "%terms", 1, starts, term)[1]
            for first, x in zip(firsts, found, strict=True):
                power = _power((x + 1).cast(x.kind.of(element)).converted("fpext", x.kind.of("double"))) * 2.0**-23
                place = body.op(f"add i64 {body.op(f'mul i64 {t}, {8 * count}')}, {8 * first}")
                body.stored(body.chosen(x.compared("eq", -1), math.inf, power), into, place)
            return []

        body.loop("0", times, 1, [], one)

    def _panel(self, p: str, _: list[Value]) -> list[Value]:
        body, width = self.body, self.across * self.lanes
        b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
        first = body.op(f"mul i64 {p}, {8 * width}")
        norms = [_power(body.loaded(self.wide, "%b_norms", self._further(first, n))) for n in range(self.across)]

        def tile(t: str, _: list[Value]) -> list[Value]:
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))
            row = body.op(f"mul i64 {t}, {self.rows}")
            for m in range(0, self.rows, self.at_once):
                some = range(m, min(m + self.at_once, self.rows))
                self._tile(a, b, norms, body.op(f"add i64 {row}, {m}"), first, some)
            return []

        body.loop("0", "%tiles", 1, [], tile)
        return []

    def _further(self, first: str, n: int) -> str:
        return self.body.op(f"add i64 {first}, {8 * self.lanes * n}")

    def _tile(self, a: str, b: str, norms: list[Value], row: str, first: str, some: range) -> None:
        """The pairs of some rows of a tile, of which `row` is the first, and of a panel's columns."""
        body, lanes, across = self.body, self.lanes, self.across
        starts = []
        for m in range(len(some)):
            norm = body.loaded(Kind("double"), "%a_norms", body.op(f"mul i64 {body.op(f'add i64 {row}, {m}')}, 8"))
            starts += [body.splat(_power(norm) * BIAS, lanes) * power for power in norms]

        def step(k: str, carried: list[Value]) -> list[Value]:
            at = body.at(b, body.op(f"mul i64 {k}, {across * lanes * 4}"))
            single = Kind("float", lanes)
            right = [body.loaded(single, at, 4 * lanes * n).converted("fpext", self.wide) for n in range(across)]
            left = body.at(a, body.op(f"mul i64 {k}, {8 * self.rows}"))
            heads, rests = [], []
            for i, m in enumerate(some):
                x = body.splat(body.loaded(Kind("double"), left, 8 * m), lanes)
                for n, y in enumerate(right):
                    total, rest = (carried[j * len(starts) + i * across + n] for j in (0, 1))
                    head = body.fused(x, y, total)  # the product is exact
                    heads.append(head)
                    rests.append(rest + body.fused(x, y, total - head))
            return [*heads, *rests]

        zeros = [body.constant(self.wide, 0.0)] * len(starts)
        found = body.loop("0", "%terms", 1, [*starts, *zeros], step)[1]
        for i in range(len(some)):
            line = body.op(f"mul i64 {body.op(f'add i64 {row}, {i}')}, %sums_row")
            line = body.op(f"add i64 {line}, {first}")
            for n in range(across):
                j, place = i * across + n, self._further(line, n)
                head, rest = two_sum(found[j] - starts[j], found[j + len(starts)])
                plain = body.loaded(self.wide, "%sums", place)  # -0 if all terms are
                negative = plain.bits().compared("eq", -(1 << 63))
                body.stored(body.chosen(negative, -0.0, head), "%sums", place)
                body.stored(rest, "%rests", place)


def _registers(count: int, most: int) -> Iterator[tuple[int, int]]:
    """The first element and the lanes of each vector, in vectors of at most `most` lanes."""
    first = 0
    while first < count:
        lanes = min(most, 1 << ((count - first).bit_length() - 1))
        yield first, lanes
        first += lanes


def _power(x: Value) -> Value:
    """The largest power of two that does not exceed the magnitude of x."""
    return (x.bits() & EXPONENT).cast(x.kind)
