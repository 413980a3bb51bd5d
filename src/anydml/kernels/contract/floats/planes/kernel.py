"""Planes: windows of few terms that slide over a plane, one filter for each plane, summed, tested and stored in one pass.

A strip is as many columns as a vector has float32 lanes. The kernel moves down the plane: it converts each line to float64 once
for each column of the filter, and adds it to the sums of all output lines that it contributes to, which stay in registers. The
error of a sum is bounded by the filter's norm and the largest element of a band of lines, so the bound is the same for all
elements of the band. Vectors with undecided elements are listed. Sums that may be 0 are checked first: there, all elements of a
window are 0. Other vectors are summed again (`careful`).
"""

from __future__ import annotations

from functools import lru_cache

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.largest import INFINITE, largest
from anydml.kernels.contract.floats.planes.careful import Careful
from anydml.kernels.contract.floats.planes.seen import NARROW, FilterKey
from anydml.kernels.contract.floats.planes.strips import Filter, Strips
from anydml.kernels.contract.floats.reads import single
from anydml.kernels.contract.floats.stores import list_of, listed, masked_store
from anydml.kernels.elementwise.levels import lanes_as_bits

I64, WIDE = Kind("i64"), Kind("double")
# b: line 0 of the input, at the first column; taps: the offset of each factor of the filter, then for each column of the filter
# the offset of its elements and the columns of the output that it counts for; low, high: the input lines that exist;
# from, until: the bytes of a line that are read; inner, outer: the columns for which all terms count; column: the first line's
# column on the list; column_line, column_plane: its strides along lines and planes
ARGUMENTS = Signature(
    "planes *a a_plane *b b_plane b_line *taps first lines low high from until columns inner outer band *noted *list "
    "*counter column column_line column_plane *to to_plane to_line"
)


@lru_cache(maxsize=256)
def signature(kinds: FilterKey) -> Signature:
    """The arguments of the kernel; for each stream, its address and its stride along planes."""
    return ARGUMENTS + Signature(" ".join(f"*p{k} r{k}" for k in kinds.stored.others))


def summed(target: Target, kinds: FilterKey) -> str:
    """The kernel that computes `lines` lines of each plane, beginning at `first`; arguments: `signature`."""
    return Planes(target, kinds).text()


class Planes(Strips):
    """The kernel. a: the address of a plane's factors; n: its number; column: its first column on the list."""

    a: str
    n: str
    column: str

    def text(self) -> str:
        body, kinds = self.body, self.kinds
        self._signature().load(body)
        list_of(body).counted("0")
        taps = kinds.high * kinds.wide
        self.offsets = [body.load("i64", "%taps", 8 * k) for k in range(taps)]
        ways = ([body.load("i64", "%taps", 8 * (taps + 3 * v + k)) for k in range(3)] for v in range(kinds.wide))
        self.ways = [(offset, low, high) for offset, low, high in ways]
        self._planes()
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _signature(self) -> Signature:
        return signature(self.kinds)

    def _planes(self) -> None:
        """Compute all planes, band by band."""
        body = self.body
        up = body.op(f"add i64 %lines, {body.op('sub i64 %band, 1')}")
        bands, end = body.op(f"udiv i64 {up}, %band"), body.op("add i64 %first, %lines")

        def plane(n: str, _: list[Value]) -> list[Value]:
            self._place(n)
            body.loop("0", bands, 1, [], band)
            return []

        def band(k: str, _: list[Value]) -> list[Value]:
            begin = body.op(f"add i64 %first, {body.op(f'mul i64 {k}, %band')}")
            stop = body.intrinsic("umin", self._word(body.op(f"add i64 {begin}, %band")), self._word(end)).name
            self._bounded(*self._measure(begin, stop))
            self._again(self._summed())
            return []

        body.loop("0", "%planes", 1, [], plane)

    def _place(self, n: str) -> None:
        """Set the addresses of a plane, and its filter."""
        body = self.body
        self.a, self.b, self.to = (body.at(f"%{x}", body.op(f"mul i64 {n}, %{x}_plane")) for x in ("a", "b", "to"))
        self.column = body.op(f"add i64 %column, {body.op(f'mul i64 {n}, %column_plane')}")
        self.n, self.filter = n, self._filter(self.a, n)

    def _again(self, noted: str) -> None:
        """Sum noted vectors again, or decide that they are zeros, and list undecided elements."""
        body = self.body
        careful = Careful(body, self.kinds, self.ways, self.filter, self.lanes, self.a, self.b)

        def again(i: str, _: list[Value]) -> list[Value]:
            at = body.op(f"mul i64 {i}, 16")
            entry, some = body.load("i64", "%noted", at), body.load("i64", body.at("%noted", at), 8)
            y, x = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
            inside = self._inside(x, self.lanes)

            def zeros(_: str, __: list[Value]) -> list[Value]:
                made, zero = careful.zeros(y, x)
                wanted = body.value(f"trunc i64 {some} to i{self.lanes}", Kind(f"i{self.lanes}"))
                wanted = wanted.cast(inside.kind) & inside
                left = body.op(f"icmp ne i64 {lanes_as_bits(wanted & ~zero)}, 0")
                when(body, body.op(f"xor i1 {left}, true"), lambda: masked_store(body, made, self._out(y, x), wanted))
                return [Value(body, left, Kind("i1")).converted("zext", I64)]

            def sums(_: str, __: list[Value]) -> list[Value]:
                made, undecided = careful.vector(y, x)
                masked_store(body, made, self._out(y, x), inside)
                place = body.op(f"add i64 {self.column}, {body.op(f'mul i64 {y}, %column_line')}")
                listed(body, self.n, body.op(f"add i64 {place}, {x}"), lanes_as_bits(undecided & inside))
                return []

            maybe = body.op(f"zext i1 {body.op(f'icmp ne i64 {some}, 0')} to i64")
            left = body.loop("0", maybe, 1, [body.constant(I64, 1)], zeros)[1][0].name
            body.loop("0", left, 1, [], sums)
            return []

        body.loop("0", noted, 1, [], again)

    def _filter(self, a: str, n: str) -> Filter:
        body, kinds = self.body, self.kinds
        factors, norm = [], body.constant(WIDE, 0.0)
        for offset in self.offsets:
            bits = body.loaded(Kind(f"i{kinds.a.element_bits}"), body.at(a, offset))
            factor = single(bits, kinds.a).converted("fpext", WIDE)
            norm = norm + factor.magnitude()
            factors.append(body.splat(factor, self.half))
        streams: dict[int, Value] = {}
        self.of_half: dict[int, Value] = {}
        start = body.constant(WIDE, -0.0)
        for k in kinds.stored.others:
            data_type = kinds.stored.types[k]
            bits = body.loaded(Kind(f"i{data_type.element_bits}"), body.at(f"%p{k}", body.op(f"mul i64 {n}, %r{k}")))
            streams[k], self.of_half[k] = body.splat(bits, self.lanes), body.splat(bits, self.half)
            if k == self.added:
                start = single(bits, data_type).converted("fpext", WIDE)
        return Filter(factors, norm, start, streams)

    # --- a band of lines ---

    def _lines(self, begin: str, stop: str) -> None:
        """Set the band's lines of the output, and the lines of the input that exist and that these read."""
        body, kinds = self.body, self.kinds
        first = self._word(body.op(f"mul i64 {begin}, {kinds.down}"))
        last = self._word(body.op(f"add i64 {body.op(f'mul i64 {stop}, {kinds.down}')}, {kinds.high - kinds.down}"))
        low = body.intrinsic("smax", first, self._word("%low"))
        high = body.intrinsic("smin", last, self._word("%high"))
        self.low, self.high, self.begin, self.stop = low.name, high.name, begin, stop

    def _measure(self, begin: str, stop: str) -> tuple[Value, Value]:
        """Find the lines that the lines begin .. stop - 1 of the output read. -> the bound of all sums, and whether some
        elements are not finite"""
        body, kinds = self.body, self.kinds
        self._lines(begin, stop)
        most = largest(body, kinds.b, self.b, self.low, self.high)
        special = most.compared("uge", INFINITE)  # infinities and NaN are above all finite magnitudes
        again = special.converted("zext", I64).name
        _, (most,) = body.loop(
            "0", again, 1, [most], lambda *_: [largest(body, kinds.b, self.b, self.low, self.high, finite=True)]
        )
        size = most.cast(Kind("float")).converted("fpext", WIDE)
        return body.fused(self.filter.norm, size, self.filter.start.magnitude()) * kinds.error, special

    def _bounded(self, error: Value, special: Value) -> None:
        """Set the bound of all sums of a band, and what follows from it."""
        body = self.body
        # if all are 0, the zeros of masked elements may determine the sign
        usual = error.compared("olt", 2.0**200) & error.compared("ogt", 0.0)
        self.odd, self.special = body.op(f"xor i1 {usual.name}, true"), special.name
        self.blank = (error.compared("oeq", 0.0) & ~special).name
        self.error, self.twice = body.splat(error, self.half), body.splat(error * 2.0, self.half)

    def _summed(self) -> str:
        """Compute a band's strips. -> the number of noted vectors"""
        body, kinds = self.body, self.kinds

        def strip(x: str, carried: list[Value]) -> list[Value]:
            # unmasked reads go beyond the elements used: up to a whole vector, or the element after the last one
            over = (
                kinds.reach(self.half) * self.half - (kinds.wide - 1)
                if kinds.across == 1 and kinds.beside
                else self.lanes + kinds.across - 1
            )
            end = body.op(f"add i64 {x}, {max(over, self.lanes)}")
            inside = body.op(f"and i1 {body.op(f'icmp sge i64 {x}, %inner')}, {body.op(f'icmp sle i64 {end}, %outer')}")
            inner, outer, after = (body.name(w) for w in ("inner", "outer", "after"))
            body.branch(inside, inner, outer)
            made = []
            for label, masked in ((inner, False), (outer, True)):
                body.label(label)
                found = self._strip(x, carried[0], masked=masked)
                made.append((found.name, body.name("summed")))
                body.jump(made[-1][1])
                body.label(made[-1][1])
                body.jump(after)
            body.label(after)
            ways = ", ".join(f"[ {name}, %{label} ]" for name, label in made)
            return [body.value(f"phi i64 {ways}", I64)]

        # the last columns take half a strip if they fit into it
        halves = not kinds.narrow and self.half >= NARROW
        spare = self.half - 1 if halves else self.lanes - 1
        up = body.op(f"and i64 {body.op(f'add i64 %columns, {spare}')}, {-self.lanes}")
        x, noted = body.loop("0", up, self.lanes, [body.constant(I64, 0)], strip)
        if halves:
            rest = body.op(f"zext i1 {body.op(f'icmp ult i64 {x}, %columns')} to i64")
            noted = body.loop("0", rest, 1, noted, lambda _, given: [self._half_strip(x, given[0])])[1]
        return noted[0].name

    def _half_strip(self, x: str, noted: Value) -> Value:
        kinds, filter_ = self.kinds, self.filter
        self.take(kinds._replace(narrow=True))
        self.filter = filter_._replace(streams=self.of_half)
        made = self._strip(x, noted, masked=True)
        self.take(kinds)
        self.filter = filter_
        return made
