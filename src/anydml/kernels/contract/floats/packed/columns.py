"""Columns that tiles read in place: vectors of single lines, every element or every second one, or gathered elements."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.emit import when
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.reads import Reader, single
from anydml.kernels.copy.text import prefetch
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits
from anydml.tensor import DataType

I64 = Kind("i64")
AHEAD = 8  # panels whose elements are fetched before they are read
MASKS = 8  # bytes of a term's masks: 16 bits for each vector of a panel, at most three


class Columns(NamedTuple):
    """The type of the columns' elements, and their distance in elements, 1 or 2; 0: elements are gathered.

    alternate: whether every second element of an output's line is written. kept: whether there are more tiles than one. cut:
    whether there is a single panel, which is partial.
    """

    data_type: DataType
    step: int
    alternate: bool
    kept: bool
    cut: bool


class ColumnReader:
    """Reads the vectors of a panel, a term at a time; names of the kernel's arguments are those of `in_place`.

    masks: the address of room for the masks of all terms. padded: whether some terms do not count. inside: the lanes of each
    vector that are columns; None for all. Make it where the kernel begins.
    """

    def __init__(self, body: Body, columns: Columns, masks: str, *, padded: bool, inside: list[Value] | None) -> None:
        self.body, self.masks, self.padded, self.inside = body, masks, padded, inside
        self.data_type, self.step, self.cut = columns.data_type, columns.step, columns.cut
        self.lanes = body.target.vector_bytes // 8
        self.size = self.data_type.dtype.itemsize
        self.reader = Reader(body, self.data_type, 2, self.lanes)
        self.full = body.op("alloca i64, align 8")  # whether all masks are full
        body.store("i64", "0", self.full)

    def begin(self, columns: list[str]) -> list[tuple[str, str]]:
        """Compute where the vectors of a panel begin, and the masks of their terms. columns: the first of each.

        -> the line of each vector and its place there, if vectors are read from single lines
        """
        body, lanes = self.body, self.lanes
        self.starts: list[str] = []
        self.offsets: list[Value] = []
        lines, places, numbers = [], [], []
        whole = "false" if self.cut or not self.step else "true"  # whether all terms count for all columns
        for column in columns:
            if self.step:
                y, x = body.op(f"udiv i64 {column}, %n2"), body.op(f"urem i64 {column}, %n2")
                offset = body.op(f"add i64 {body.op(f'mul i64 {y}, %b1')}, {body.op(f'mul i64 {x}, {self.step * self.size}')}")
                self.starts.append(body.at("%b", offset))
                numbers.append((y, x))
                for test in (f"sge i64 {y}, %from1", f"slt i64 {y}, %end1", f"sge i64 {x}, %from2"):
                    whole = body.op(f"and i1 {whole}, {body.op(f'icmp {test}')}")
                end = body.op(f"add i64 {x}, {lanes}")
                whole = body.op(f"and i1 {whole}, {body.op(f'icmp sle i64 {end}, %end2')}")
                lines.append(body.splat(Value(body, y, I64), lanes))
                places.append(body.splat(Value(body, x, I64), lanes) + body.constants("i64", range(lanes)))
            else:
                wide = Kind("double", lanes)
                number = body.splat(Value(body, column, I64), lanes) + body.constants("i64", range(lanes))
                width = body.splat(Value(body, "%n2", I64), lanes)
                # it is at least 0.5 / n2 away from an integer
                quotient = (number.converted("uitofp", wide) + 0.5) / width.converted("uitofp", wide)
                y_ = quotient.converted("fptoui", number.kind)
                x_ = number - y_ * width
                s1, s2 = (body.splat(Value(body, s, I64), lanes) for s in ("%b1", "%b2"))
                self.starts.append("%b")
                self.offsets.append(y_ * s1 + x_ * s2)
                lines.append(y_)
                places.append(x_)
        if self.padded or self.cut:
            # the masks of the panel before may serve
            full = body.load("i64", self.full)
            known = body.op(f"and i1 {whole}, {body.op(f'icmp ne i64 {full}, 0')}")
            when(body, body.op(f"xor i1 {known}, true"), lambda: self._masks(lines, places))
            body.store("i64", body.op(f"zext i1 {whole} to i64"), self.full)
        return numbers

    def _masks(self, lines: list[Value], places: list[Value]) -> None:
        """Write the masks of a panel's vectors for each term."""
        body, lanes = self.body, self.lanes

        def within(value: Value, low: str, high: str) -> Value:
            first, end = (body.splat(Value(body, x, I64), lanes) for x in (low, high))
            return value.compared("sge", first) & value.compared("slt", end)

        def position(p: str, _: list[Value]) -> list[Value]:
            entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
            ends = [body.load("i64", entry, 32 + 8 * k) for k in range(4)]
            word = "0"
            for n, (y, x) in enumerate(zip(lines, places, strict=True)):
                counts = within(x, ends[2], ends[3])
                if self.padded:
                    counts = within(y, ends[0], ends[1]) & counts
                if self.inside is not None:
                    counts = counts & self.inside[n]
                bits = lanes_as_bits(self.reader.to_read(counts) if self.step == 2 else counts)
                word = body.op(f"or i64 {word}, {body.op(f'shl i64 {bits}, {16 * n}')}")

            def channel(c: str, _: list[Value]) -> list[Value]:
                term = body.op(f"add i64 {body.op(f'mul i64 {c}, %positions')}, {p}")
                body.store("i64", word, body.at(self.masks, body.op(f"mul i64 {term}, {MASKS}")))
                return []

            body.loop("0", "%channels", 1, [], channel)
            return []

        body.loop("0", "%positions", 1, [], position)

    def _mask(self, k: str, n: int) -> Value | None:
        """The elements of a vector that are read for a term; None for all."""
        body, lanes = self.body, self.lanes * max(self.step, 1)
        if not (self.padded or self.cut):
            return None
        bits = body.load("i16", self.masks, body.op(f"add i64 {body.op(f'mul i64 {k}, {MASKS}')}, {2 * n}"))
        if "avx512bw" in body.target.features:
            return bits_as_lanes(body, body.op(f"zext i16 {bits} to i64"), lanes)
        each = body.constants("i32", [1 << lane for lane in range(lanes)])
        word = Value(body, body.op(f"zext i16 {bits} to i32"), Kind("i32"))
        return (body.splat(word, lanes) & each).compared("eq", each)

    def elements(self, n: int, k: str, offset: str) -> Value:
        """The elements of a vector of the panel for a term, as float32."""
        body, lanes, step = self.body, self.lanes, self.step
        from_, mask, kind = body.at(self.starts[n], offset), self._mask(k, n), Kind(f"i{8 * self.size}", lanes)
        if not step:
            mask = body.constant(kind.of("i1"), True) if mask is None else mask
            return single(body.masked(kind, from_, mask, self.offsets[n]), self.data_type)
        prefetch(body, 2, from_, AHEAD * len(self.starts) * lanes * step * self.size)
        if step == 1:
            bits = body.loaded(kind, from_) if mask is None else body.masked(kind, from_, mask)
            return single(bits, self.data_type)
        return single(self.reader.read(from_, "0", mask), self.data_type)
