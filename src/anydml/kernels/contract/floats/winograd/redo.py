"""Listed elements, as direct sums of their products, which have smaller bounds than transformed sums.

A vector holds the sums of an element and of its successors in the line, which are often listed, too.
"""

from __future__ import annotations

import math

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.elements import split, streams
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import bounded, stored
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.contract.floats.packed.magnitudes import DENSE
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.packed.tile import leave
from anydml.kernels.contract.floats.second import exactly
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.contract.floats.winograd.kernels import masked, wide
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.tensor import DataType

# a, b: the first elements of filters and windows; line, place: strides in bytes; low, high: the half-open ranges of lines and
# places inside of the tensor, among those that windows read; f1, f2: the columns' inner sizes for streams; tiles: for each
# column, 0 if its tile reads only zeros; most: with more entries on the list, nothing is done
ARGUMENTS = Signature(
    "*a a_row a_term a_line a_place *b b_image b_term b_line b_place n1 n2 channels low1 high1 low2 high2 *list *counter "
    "first f1 f2 factor *norms *tiles most"
)
FIRST = 4  # channels that are first searched for a +0, which makes a sum of zeros +0
BLOCK = 16  # channels that are accumulated before they are added to others
LANES = 2  # all hold the same element when it is stored


def factor(channels: int, taps: int) -> float:
    """The bound of a sum over the product of its factors' norms: the roundings of a term, of the additions in its block, with
    other blocks and with other positions, and of the bound itself."""
    return (1 + min(channels, BLOCK) + -(-channels // BLOCK) + taps * taps + 4) * 2.0**-53


def summed(target: Target, key: EpilogueKey, factors: tuple[DataType, DataType], contiguous: bool, taps: int) -> str:
    """The kernel that decides listed elements, or leaves them on the list; arguments: ARGUMENTS, and streams.

    contiguous: the windows' lines have no gaps. If the list has more than `most` entries, the kernel only sets DENSE.
    """
    return _Redoing(target, key, factors, contiguous, taps).text()


class _Redoing:
    def __init__(
        self, target: Target, key: EpilogueKey, factors: tuple[DataType, DataType], contiguous: bool, taps: int
    ) -> None:
        self.body, self.key, self.factors, self.taps = Body(target), key, factors, taps
        self.step = None if contiguous else "%b_place"
        # gathers are slow; the sums of 25 terms, of a block and of all, take too much of the stack in wide vectors
        self.lanes = max(target.vector_bytes // (8 if taps == 3 else 16), 2) if contiguous else 2

    def text(self) -> str:
        body = self.body
        with_streams(ARGUMENTS, len(self.key.layouts)).load(body)
        # the elements whose sums are computed: their row, the first one's column, and a bit for each
        self.there = body.op("alloca [3 x i64], align 64")
        body.store("i64", "0", self.there, 16)
        self.note = Note(body)
        self.totals, self.errors = (body.op(f"alloca [{self.lanes} x double], align 64") for _ in range(2))
        list_ = list_of(body)
        count = list_.count()
        many = body.op(f"icmp ugt i64 {count}, %most")
        body.store("i64", body.op(f"zext i1 {many} to i64"), "%counter", DENSE)
        when(body, many, lambda: leave(body))
        list_.counted(list_.sift("0", count, self._stays))
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _stays(self, slot: str) -> str:
        """Decide an entry of the list. Returns 1 if it stays undecided, else 0."""
        body = self.body
        entry = body.load("i64", slot)
        row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
        c = body.op(f"add i64 %first, {column}")
        when(body, self._missing(row, column), lambda: self._sum(row, column, c))
        at = body.op(f"sub i64 {column}, {body.load('i64', self.there, 8)}")
        at = body.op(f"mul i64 {at}, 8")
        total, error = (body.loaded(Kind("double"), x, at) for x in (self.totals, self.errors))
        read, output = streams(body, self.key, LANES, row, c)
        # an infinity or NaN in the filter's norm may belong to no term
        spoilt = ~error.compared("olt", math.inf) & total.magnitude().compared("olt", math.inf)
        number = bounded(body.splat(total, LANES), body.splat(error, LANES), body.splat(spoilt, LANES))
        found = stored(body, self.key.stored, read, number, LANES)
        made, undecided = exactly.added(self.key.stored, number, read, *found)
        assert undecided is not None
        is_undecided = undecided.lane(0)
        when(body, body.op(f"xor i1 {is_undecided.name}, true"), lambda: body.stored(made.lane(0), output))
        return is_undecided.converted("zext", Kind("i64")).name

    def _missing(self, row: str, column: str) -> str:
        """Whether the sum of an element is not yet computed."""
        body = self.body
        same = body.op(f"icmp eq i64 {row}, {body.load('i64', self.there)}")
        n = body.op(f"sub i64 {column}, {body.load('i64', self.there, 8)}")
        bit = body.op(f"lshr i64 {body.load('i64', self.there, 16)}, {body.op(f'and i64 {n}, 63')}")
        near = body.op(f"and i1 {same}, {body.op(f'icmp ult i64 {n}, {self.lanes}')}")
        there = body.op(f"and i1 {near}, {body.op(f'trunc i64 {bit} to i1')}")
        return body.op(f"xor i1 {there}, true")

    def _sum(self, row: str, column: str, c: str) -> None:
        """Compute the sums of the terms that count, and their bounds, for an element and its successors."""
        body, lanes = self.body, self.lanes
        z, y, x = split(body, c, "%n1", "%n2")
        kind, one, i64 = Kind("double", lanes), Kind("double"), Kind("i64")
        a = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %b_image')}, {body.op(f'mul i64 {y}, %b_line')}")
        b = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %b_place')}"))
        lines, inside = self._lines(y)
        across = self._across(x)
        terms = [(p, q) for p in range(self.taps) for q in range(self.taps)]
        masks = [across[q] & inside[p] for p, q in terms]
        self.note.clear()
        starts = [body.constant(kind, -0.0)] * len(terms) + [body.constant(kind, 0.0)] * self.taps

        def factors(k: int, right: str, left: str) -> tuple[Value, Value]:
            p, q = terms[k]
            at = body.op(f"add i64 {lines[p]}, {body.op(f'mul i64 %b_place, {q}')}")
            u = masked(body, Kind(f"i{self.factors[1].element_bits}", lanes), self._at(b, right, at), self.step, across[q])
            at = body.op(f"add i64 {body.op(f'mul i64 %a_line, {p}')}, {body.op(f'mul i64 %a_place, {q}')}")
            v = body.loaded(Kind(f"i{self.factors[0].element_bits}"), self._at(a, left, at))
            single = self.factors[0] == DataType.FLOAT32  # there are no instructions to widen one FLOAT16
            v = body.splat(wide(v, self.factors[0]), lanes) if single else wide(body.splat(v, lanes), self.factors[0])
            return wide(u, self.factors[1]), v

        def channel(n: str, carried: list[Value]) -> list[Value]:
            sums, squares = carried[: len(terms)], carried[len(terms) :]
            right, left = (body.op(f"mul i64 {n}, %{x}_term") for x in "ba")
            for k, (p, _) in enumerate(terms):
                u, v = factors(k, right, left)
                squares[p], sums[k] = body.fused(u, u, squares[p]), body.fused(u, v, sums[k])
            return [*sums, *squares]

        def block(first: str, carried: list[Value]) -> list[Value]:
            end = body.call("llvm.umin.i64", i64, f"i64 {body.op(f'add i64 {first}, {BLOCK}')}", "i64 %channels").name
            _, found = body.loop(first, end, 1, starts, channel)
            return [x + y for x, y in zip(carried, found, strict=True)]

        norm = body.splat(body.loaded(one, "%norms", body.op(f"mul i64 {row}, 8")), lanes)
        # a sum of zeros is +0 if one term is; if this decides the first element, the other sums are not computed
        blank = body.loaded(kind, "%tiles", body.op(f"mul i64 {column}, 8")).compared("oeq", 0.0)
        blank = blank & norm.compared("olt", math.inf)
        few = body.call("llvm.umin.i64", i64, f"i64 {FIRST}", "i64 %channels").name
        _, found = body.loop("0", body.op(f"select i1 {blank.lane(0).name}, i64 {few}, i64 0"), 1, starts, channel)
        plus = body.constant(kind.of("i1"), False)
        for mask, sums in zip(masks, found, strict=False):
            plus = plus | body.chosen(mask, sums, -0.0).bits().compared("eq", 0)
        plus = plus & blank
        done = plus.lane(0).name
        up = body.op(f"and i64 {body.op(f'add i64 %channels, {BLOCK - 1}')}, {-BLOCK}")
        _, found = body.loop("0", body.op(f"select i1 {done}, i64 0, i64 {up}"), BLOCK, starts, block)
        total, some = body.constant(kind, -0.0), body.constant(kind.of("i1"), False)
        for mask, sums in zip(masks, found, strict=False):
            # terms that do not count were summed as zeros, which may be +0
            total, some = total + body.chosen(mask, sums, -0.0), some | mask
        total = body.chosen(some & ~plus, total, 0.0)  # a sum without terms is +0
        # stored before the inexact flag is read, so that no addition moves after this; roundings of the bound do not matter
        body.stored(total, self.totals)
        after = body.name("summed")
        body.jump(after)
        body.label(after)
        rounded = body.splat(self.note.rounded(), lanes)
        factor = body.splat(Value(body, body.op("bitcast i64 %factor to double"), one), lanes)
        square = body.constant(kind, 0.0)
        for p in range(self.taps):
            square = square + body.chosen(inside[p], found[len(terms) + p], 0.0)
        bound = square.root() * NORM_SLACK * norm
        body.stored(body.chosen(rounded, bound * factor, 0.0), self.errors)
        room = body.call("llvm.umin.i64", i64, f"i64 {body.op(f'sub i64 %n2, {x}')}", f"i64 {lanes}").name
        of_line = body.op(f"sub i64 {body.op(f'shl i64 1, {room}')}, 1")
        some_of = body.op(f"and i64 {lanes_as_bits(plus)}, {of_line}")
        for k, found_ in enumerate((row, column, body.op(f"select i1 {done}, i64 {some_of}, i64 {of_line}"))):
            body.store("i64", found_, self.there, 8 * k)

    def _at(self, base: str, *offsets: str) -> str:
        for offset in offsets:
            base = self.body.at(base, offset)
        return base

    def _lines(self, y: str) -> tuple[list[str], list[Value]]:
        """The offsets of the window's lines, and whether each is inside; one outside is replaced, and its terms are skipped."""
        body, i64 = self.body, Kind("i64")
        last = body.op("sub i64 %high1, 1")
        lines, inside = [], []
        for p in range(self.taps):
            line = body.op(f"add i64 {y}, {p}")
            near = body.call("llvm.smin.i64", i64, f"i64 {line}", f"i64 {last}").name
            near = body.call("llvm.smax.i64", i64, f"i64 {near}", "i64 %low1").name
            lines.append(body.op(f"mul i64 {body.op(f'sub i64 {near}, {y}')}, %b_line"))
            inside.append(body.splat(Value(body, body.op(f"icmp eq i64 {near}, {line}"), Kind("i1")), self.lanes))
        return lines, inside

    def _across(self, x: str) -> list[Value]:
        """The masks of the elements for which each place of the window is inside. Some lines of the tensor are always read."""
        body, lanes, i64 = self.body, self.lanes, Kind("i64")
        place = body.splat(Value(body, x, i64), lanes) + body.constants("i64", range(lanes))
        low, high = (body.splat(Value(body, n, i64), lanes) for n in ("%low2", "%high2"))
        return [(place + q).compared("sge", low) & (place + q).compared("slt", high) for q in range(self.taps)]
