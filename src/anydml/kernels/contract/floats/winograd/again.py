"""Direct sums of all windows of a block, if Winograd's algorithm leaves many of its elements undecided.

A tile is some filters at some outputs of a line, accumulated in registers. If the inexact flag is not set for a tile, its sums
are exact, as is usual for data with many zeros. Terms that do not count are skipped, so that zeros get their sign only from
terms that count.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.magnitudes import DENSE
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.reads import single
from anydml.kernels.contract.floats.winograd.kernels import masked, wide
from anydml.tensor import DataType

# as in `redo`; first, lines: the first column of the block, and its lines; factor: a sum's bound over the product of the norms;
# packed: memory for the filters of a tile; errors: rows of bounds, like those of sums
ARGUMENTS = Signature(
    "*a a_row a_term a_line a_place *b b_image b_term b_line b_place n1 n2 channels low1 high1 low2 high2 rows first lines "
    "factor *norms *packed *sums sums_row *errors *counter"
)
ACROSS = 2  # vectors of a tile


def packed_bytes(target: Target, channels: int, taps: int) -> int:
    """Memory for the filters of a tile."""
    return taps * taps * channels * tile.height(target) * 8


def factor(terms: int) -> float:
    """The bound of a sum over the product of its factors' norms: the roundings of a term's additions, and of the bound."""
    return (terms + 8) * 2.0**-53


def summed(target: Target, factors: tuple[DataType, DataType], contiguous: bool, taps: int) -> str:
    """The kernel that computes a block's sums and their bounds if the counter's DENSE is set; arguments: ARGUMENTS.

    contiguous: the windows' lines have no gaps. After each row of sums, there is room for a tile's outputs.
    """
    return _Again(target, factors, contiguous, taps).text()


class _Again:
    def __init__(self, target: Target, factors: tuple[DataType, DataType], contiguous: bool, taps: int) -> None:
        self.body, self.factors, self.taps = Body(target), factors, taps
        self.step = None if contiguous else "%b_place"
        self.lanes, self.height = target.vector_bytes // 8, tile.height(target)
        self.kind = Kind("double", self.lanes)

    def text(self) -> str:
        body = self.body
        ARGUMENTS.load(body)
        when(body, body.op(f"icmp eq i64 {body.load('i64', '%counter', DENSE)}, 0"), lambda: tile.leave(body))
        self.note = Note(body)
        line = body.op("udiv i64 %first, %n2")
        image = body.op(f"mul i64 {body.op(f'udiv i64 {line}, %n1')}, %b_image")
        self.image, self.line = body.at("%b", image), body.op(f"urem i64 {line}, %n1")
        groups = body.op(f"udiv i64 {body.op(f'add i64 %rows, {self.height - 1}')}, {self.height}")
        body.loop("0", groups, 1, [], self._group)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _group(self, g: str, _: list[Value]) -> list[Value]:
        """Compute all outputs of some filters."""
        body = self.body
        last, first = body.op("sub i64 %rows, 1"), body.op(f"mul i64 {g}, {self.height}")
        # the last filter is repeated for missing ones
        self.rows = [
            body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {first}, {m}')}", f"i64 {last}").name
            for m in range(self.height)
        ]
        body.loop("0", "%channels", 1, [], self._pack)
        self.norms = [
            body.splat(body.loaded(Kind("double"), "%norms", body.op(f"mul i64 {row}, 8")), self.lanes) for row in self.rows
        ]
        width = self.lanes * ACROSS
        up = body.op(f"udiv i64 {body.op(f'add i64 %n2, {width - 1}')}, {width}")

        def line(n: str, _: list[Value]) -> list[Value]:
            def outputs(k: str, _: list[Value]) -> list[Value]:
                x = body.op(f"mul i64 {k}, {width}")
                end = body.op(f"add i64 {x}, {width + self.taps - 1}")
                inside = body.op(f"and i1 {body.op(f'icmp sle i64 %low2, {x}')}, {body.op(f'icmp sge i64 %high2, {end}')}")
                when(body, inside, lambda: self._tile(n, x, []))
                when(body, body.op(f"xor i1 {inside}, true"), lambda: self._tile(n, x, self._masks(x)))
                return []

            body.loop("0", up, 1, [], outputs)
            return []

        body.loop("0", "%lines", 1, [], line)
        return []

    def _pack(self, c: str, _: list[Value]) -> list[Value]:
        """Pack a channel of some filters as float64, interleaved."""
        body = self.body
        channel = body.at("%a", body.op(f"mul i64 {c}, %a_term"))
        filters = [body.at(channel, body.op(f"mul i64 {row}, %a_row")) for row in self.rows]
        for p in range(self.taps):
            for q in range(self.taps):
                place = body.op(f"add i64 {body.op(f'mul i64 %a_line, {p}')}, {body.op(f'mul i64 %a_place, {q}')}")
                into = body.at(self._coefficients(str(p), c), 8 * self.height * q)
                for m, filter_ in enumerate(filters):
                    bits = body.loaded(Kind(f"i{self.factors[0].element_bits}"), body.at(filter_, place))
                    body.stored(single(bits, self.factors[0]).converted("fpext", Kind("double")), into, 8 * m)
        return []

    def _coefficients(self, p: str, c: str) -> str:
        """The address of the coefficients of a channel for line p of the filters."""
        body = self.body
        number = body.op(f"add i64 {body.op(f'mul i64 {p}, %channels')}, {c}")
        return body.at("%packed", body.op(f"mul i64 {number}, {8 * self.height * self.taps}"))

    def _masks(self, x: str) -> list[list[Value]]:
        """For each vector of a tile, the masks of the outputs for which each column of the filter counts."""
        body, lanes, i64 = self.body, self.lanes, Kind("i64")
        low, high = (body.splat(Value(body, name, i64), lanes) for name in ("%low2", "%high2"))
        masks = []
        for v in range(ACROSS):
            place = body.splat(Value(body, x, i64), lanes) + body.constants("i64", range(v * lanes, (v + 1) * lanes))
            masks.append([(place + q).compared("sge", low) & (place + q).compared("slt", high) for q in range(self.taps)])
        return masks

    def _tile(self, n: str, x: str, masks: list[list[Value]]) -> None:
        """Compute a tile: some filters at some outputs of a line, from x on. masks: empty if all of the filter counts."""
        body, lanes, i64 = self.body, self.lanes, Kind("i64")
        y = body.op(f"add i64 {self.line}, {n}")
        # the lines start .. end - 1 of the filter count
        start = body.call("llvm.smax.i64", i64, f"i64 {body.op(f'sub i64 %low1, {y}')}", "i64 0").name
        end = body.call("llvm.smin.i64", i64, f"i64 {body.op(f'sub i64 %high1, {y}')}", f"i64 {self.taps}").name
        end = body.call("llvm.smax.i64", i64, f"i64 {start}", f"i64 {end}").name
        window = body.at(self.image, body.op(f"mul i64 {y}, %b_line"))
        window = body.at(window, body.op(f"mul i64 {x}, %b_place"))
        bits = Kind(f"i{self.factors[1].element_bits}", lanes)
        count = self.height * ACROSS

        def line(p: str, carried: list[Value]) -> list[Value]:
            from_ = body.at(window, body.op(f"mul i64 {p}, %b_line"))

            def channel(c: str, carried: list[Value]) -> list[Value]:
                at, values = body.at(from_, body.op(f"mul i64 {c}, %b_term")), self._coefficients(p, c)
                totals, squares = carried[:count], carried[count:]
                for q in range(self.taps):
                    us = []
                    for v in range(ACROSS):
                        place = body.at(at, body.op(f"mul i64 %b_place, {v * lanes + q}"))
                        if masks or self.step:
                            active = masks[v][q] if masks else body.constant(bits.of("i1"), True)
                            u = masked(body, bits, place, self.step, active)
                        else:
                            u = body.loaded(bits, place)
                        us.append(wide(u, self.factors[1]))
                    squares = [body.fused(u, u, old) for u, old in zip(us, squares, strict=True)]
                    for m in range(self.height):
                        factor = body.splat(body.loaded(Kind("double"), values, 8 * (q * self.height + m)), lanes)
                        for v, u in enumerate(us):
                            k = m * ACROSS + v
                            more = body.fused(u, factor, totals[k])
                            totals[k] = body.chosen(masks[v][q], more, totals[k]) if masks else more
                return [*totals, *squares]

            return body.loop("0", "%channels", 1, carried, channel)[1]

        self.note.clear()
        # a sum is -0 if all of its terms are
        begun = [body.constant(self.kind, -0.0)] * count + [body.constant(self.kind, 0.0)] * ACROSS
        _, found = body.loop(start, end, 1, begun, line)
        some = body.splat(Value(body, body.op(f"icmp ult i64 {start}, {end}"), Kind("i1")), lanes)
        first = body.op(f"mul i64 {n}, %n2")
        offset = body.op(f"mul i64 {body.op(f'add i64 {first}, {x}')}, 8")
        places = [body.op(f"add i64 {body.op(f'mul i64 {row}, %sums_row')}, {offset}") for row in self.rows]
        for m, place in enumerate(places):
            for v in range(ACROSS):
                counts = some & reduce(or_, masks[v]) if masks else some
                total = body.chosen(counts, found[m * ACROSS + v], 0.0)  # a sum without terms is +0
                body.stored(total, body.at("%sums", place), 8 * lanes * v)
        # stored before the inexact flag is read, so that no addition is moved after this; roundings of bounds do not matter
        after = body.name("summed")
        body.jump(after)
        body.label(after)
        rounded = body.splat(self.note.rounded(), lanes)
        factor = body.splat(Value(body, body.op("bitcast i64 %factor to double"), Kind("double")), lanes)
        for v, square in enumerate(found[count:]):
            bound = square.root() * NORM_SLACK * factor
            for m, place in enumerate(places):
                error = body.chosen(rounded, bound * self.norms[m], 0.0)
                body.stored(error, body.at("%errors", place), 8 * lanes * v)
