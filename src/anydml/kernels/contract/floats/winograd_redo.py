"""Listed elements of 3x3 windows from plain sums of their products, which are closer than sums that were transformed.

A vector holds a line of the window and nothing: lines that are partly outside of the tensor have these lanes left out.
"""

from __future__ import annotations

import math

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.epilogue import OWN, Shape, places
from anydml.kernels.contract.floats.formula import bounded, stored
from anydml.kernels.contract.floats.rows import NORM_SLACK
from anydml.kernels.contract.floats.winograd import FILTER
from anydml.kernels.contract.floats.winograd_kernels import masked, wide
from anydml.tensor import DataType

# a, b: the first elements of filters and windows; line, place: bytes from one to the next; low, high: what is inside of the
# tensor, in lines and places that windows reach; f1, f2: the sizes that streams are found by; tiles: for each column, 0 where
# all that its tile reads is 0
ARGUMENTS = (
    "a", "a_row", "a_term", "a_line", "a_place", "b", "b_image", "b_term", "b_line", "b_place", "n1", "n2", "channels", "low1",
    "high1", "low2", "high2", "list", "counter", "first", "f1", "f2", "factor", "norms",
    "tiles",
)  # fmt: skip
POINTERS = {"a", "b", "list", "counter", "norms", "tiles"}
FIRST = 4  # channels among which a zero is looked for that makes a sum of zeros positive
BLOCK = 16  # channels that are added up before they are added to others
SHORT = 12  # the last digits of a sum that are 0 where it is worth a look whether it is exact
LINE = 4  # lanes of a line
LANES = 2  # an element in all of them, where it is stored


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    return [*ARGUMENTS, *places(len(shape.lies))]


def factor(channels: int) -> float:
    """The bound of a sum over the norms of its factors: a term is rounded once, added up in a block and with other blocks,
    then with other lanes; the rest is for the bound itself."""
    return (1 + min(channels, BLOCK) + -(-channels // BLOCK) + FILTER * FILTER + 4) * 2.0**-53


def summed(target: Target, shape: Shape, factors: tuple[DataType, DataType], contiguous: tuple[bool, bool]) -> str:
    """Decide listed elements, or leave them on the list; arguments: `names`. contiguous: a factor's lines have no gaps."""
    return _Redoing(target, shape, factors, contiguous).text()


class _Redoing:
    def __init__(self, target: Target, shape: Shape, factors: tuple[DataType, DataType], contiguous: tuple[bool, bool]) -> None:
        self.body, self.shape, self.factors = Body(target), shape, factors
        self.steps = [None if x else f"%{name}_place" for x, name in zip(contiguous, "ab", strict=True)]

    def text(self) -> str:
        body = self.body
        arguments(body, names(self.shape), POINTERS | {f"p{k}" for k in range(OWN, OWN + len(self.shape.lies))})
        zero = body.constant(Kind("i64"), 0)
        count = body.load("i64", "%counter")
        _, (left,) = body.loop("0", count, 1, [zero], self._entry)
        body.store("i64", left.name, "%counter")
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _entry(self, e: str, carried: list[Value]) -> list[Value]:
        body, (left,) = self.body, carried
        entry = body.load("i64", "%list", body.op(f"mul i64 {e}, 8"))
        row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
        c = body.op(f"add i64 %first, {column}")
        tile = body.loaded(Kind("double"), "%tiles", body.op(f"mul i64 {column}, 8"))
        total, error = self._sum(row, c, tile.compared("oeq", 0.0))
        read, output = self._streams(row, c)
        # a norm is of the whole filter: what is no number there may be no factor of any term
        spoilt = ~error.compared("olt", math.inf) & total.magnitude().compared("olt", math.inf)
        number = bounded(body.splat(total, LANES), body.splat(error, LANES), body.splat(spoilt, LANES))
        made, undecided = stored(body, self.shape.stored, read, number, LANES)
        assert undecided is not None
        open_ = undecided.lane(0)
        # it stays where it is written over, if it is not the next one that does
        body.store("i64", entry, "%list", body.op(f"mul i64 {left.name}, 8"))
        when(body, body.op(f"xor i1 {open_.name}, true"), lambda: body.stored(made.lane(0), output))
        return [left + open_.converted("zext", left.kind)]

    def _split(self, c: str, n1: str, n2: str) -> tuple[str, str, str]:
        body = self.body
        x, line = body.op(f"urem i64 {c}, {n2}"), body.op(f"udiv i64 {c}, {n2}")
        return body.op(f"udiv i64 {line}, {n1}"), body.op(f"urem i64 {line}, {n1}"), x

    def _streams(self, row: str, c: str) -> tuple[dict[int, Value], str]:
        """The streams' elements of a row and a column, in every lane, and where the output's is."""
        body, s = self.body, self.shape.stored
        at = self._split(c, "%f1", "%f2")
        found = []
        for k in range(OWN, OWN + len(self.shape.lies)):
            offset = body.op(f"mul i64 {row}, %r{k}")
            for value, stride in zip(at, "zys", strict=True):
                offset = body.op(f"add i64 {offset}, {body.op(f'mul i64 {value}, %{stride}{k}')}")
            found.append(body.at(f"%p{k}", offset))
        read = {
            k: body.splat(body.loaded(Kind(f"i{s.types[k].element_bits}"), place), LANES)
            for k, place in zip(s.others, found, strict=False)
        }
        return read, found[-1]

    def _sum(self, row: str, c: str, blank: Value) -> tuple[Value, Value]:
        """The sum of the terms that count, and its bound. blank: what is read is 0."""
        body = self.body
        z, y, x = self._split(c, "%n1", "%n2")
        kind, i64 = Kind("double", LINE), Kind("i64")
        a = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %b_image')}, {body.op(f'mul i64 {y}, %b_line')}")
        b = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %b_place')}"))
        place = body.splat(Value(body, x, i64), LINE) + body.constants("i64", range(LINE))
        low, high = (body.splat(Value(body, f"%{n}", i64), LINE) for n in ("low2", "high2"))
        across = place.compared("sge", low) & place.compared("slt", high)
        across = across & body.constants("i1", [n < FILTER for n in range(LINE)])
        masks = []
        for p in range(FILTER):
            line = Value(body, y, i64) + p
            inside = line.compared("sge", Value(body, "%low1", i64)) & line.compared("slt", Value(body, "%high1", i64))
            masks.append(across & body.splat(inside, LINE))
        starts = [body.constant(kind, -0.0)] * FILTER + [body.constant(kind, 0.0)] * FILTER

        def factors(n: str) -> list[tuple[Value, Value]]:
            right, left = (body.op(f"mul i64 {n}, %{x}_term") for x in "ba")
            made = []
            for p in range(FILTER):
                line = body.op(f"add i64 {right}, {body.op(f'mul i64 %b_line, {p}')}")
                u = self._masked(body.at(b, line), 1, masks[p])
                line = body.op(f"add i64 {left}, {body.op(f'mul i64 %a_line, {p}')}")
                made.append((u, self._masked(body.at(a, line), 0, masks[p])))
            return made

        def channel(n: str, carried: list[Value]) -> list[Value]:
            pairs = factors(n)
            sums = [body.fused(u, v, old) for (u, v), old in zip(pairs, carried, strict=False)]
            return [*sums, *(body.fused(u, u, old) for (u, _), old in zip(pairs, carried[FILTER:], strict=True))]

        def digits(n: str, carried: list[Value]) -> list[Value]:
            for pair in factors(n):
                carried = [_least(old, x) for old, x in zip(carried, pair, strict=True)]
            return carried

        def block(first: str, carried: list[Value]) -> list[Value]:
            end = body.call("llvm.umin.i64", i64, f"i64 {body.op(f'add i64 {first}, {BLOCK}')}", "i64 %channels").name
            _, found = body.loop(first, end, 1, starts, channel)
            return [x + y for x, y in zip(carried, found, strict=True)]

        norm = body.loaded(Kind("double"), "%norms", body.op(f"mul i64 {row}, 8"))
        # a sum of zeros is +0 as soon as one of them is
        blank = blank & norm.compared("olt", math.inf)
        few = body.call("llvm.umin.i64", i64, f"i64 {FIRST}", "i64 %channels").name
        _, found = body.loop("0", body.op(f"select i1 {blank.name}, i64 {few}, i64 0"), 1, starts, channel)
        plus = body.constant(kind.of("i1"), False)
        for p in range(FILTER):
            plus = plus | (body.chosen(masks[p], found[p], -0.0).bits().compared("eq", 0))
        known = plus.lane(0) | plus.lane(1) | plus.lane(2)
        end = body.op(f"select i1 {known.name}, i64 0, i64 %channels")
        up = body.op(f"and i64 {body.op(f'add i64 {end}, {BLOCK - 1}')}, {-BLOCK}")
        _, found = body.loop("0", up, BLOCK, starts, block)
        total, square = body.constant(Kind("double"), -0.0), body.constant(Kind("double"), 0.0)
        for p in range(FILTER):
            # where no term counts, zeros were added up, which may be no -0
            sums = body.chosen(masks[p], found[p], -0.0)
            for lane in range(FILTER):
                total, square = total + sums.lane(lane), square + found[FILTER + p].lane(lane)
        some = masks[0] | masks[1] | masks[2]
        any_ = some.lane(0) | some.lane(1) | some.lane(2)
        total = body.chosen(any_ & ~known, total, 0.0)  # the sum of nothing is +0
        factor = Value(body, body.op("bitcast i64 %factor to double"), Kind("double"))
        bound = square.root() * NORM_SLACK * norm
        # a sum is exact where all of its terms are multiples of one number that it is at most 2^53 times of: it has few digits
        short = (total.bits() & ((1 << SHORT) - 1)).compared("eq", 0) & square.compared("one", 0.0)
        count = body.op(f"select i1 {short.name}, i64 %channels, i64 0")
        most = body.constant(Kind("double"), 2.0**53)
        for least in body.loop("0", count, 1, [body.constant(kind, math.inf)] * 2, digits)[1]:
            one = least.lane(0)
            for lane in range(1, FILTER):
                one = body.chosen(least.lane(lane).compared("olt", one), least.lane(lane), one)
            most = most * one
        exact = short & bound.compared("ole", most)
        return total, body.chosen(exact, 0.0, bound * factor)

    def _masked(self, place: str, factor: int, mask: Value) -> Value:
        kind = Kind(f"i{self.factors[factor].element_bits}", LINE)
        return wide(masked(self.body, kind, place, self.steps[factor], mask), self.factors[factor])


def _least(least: Value, x: Value) -> Value:
    """The lesser of a power of two and, of x, the largest that it is a multiple of; 0 is one of any."""
    body = x.body
    bits = x.bits()
    rest = (x - (bits & (bits - 1)).cast(x.kind)).magnitude()
    low = body.chosen((bits & ((1 << 52) - 1)).compared("eq", 0), x.magnitude(), rest)
    return body.chosen(low.compared("olt", least) & x.compared("one", 0.0), low, least)
