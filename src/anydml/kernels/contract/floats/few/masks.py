"""Masks for each group of a line's columns and each term: shared by all lines for which every term counts somewhere."""

from __future__ import annotations

from anydml.kernels.code.emit import fold
from anydml.kernels.code.values import Body, Kind, Value

LANES = 16


class Masks:
    """A table on the stack. step: elements from one column to the next, 1 or 2; at_once: terms that are added at once.

    An entry has 16 bits, one for each column; if the step is 2, 8 bytes: 32 bits, one for each element, then these 16.
    """

    def __init__(self, body: Body, step: int, at_once: int) -> None:
        self.body, self.step, self.at_once = body, step, at_once
        self.entry, self.groups = (2, 32) if step == 1 else (8, 16)

    def begin(self) -> None:
        """Allocate the table on the stack."""
        self.table = self.body.op(f"alloca [{self.groups * self.at_once * self.entry} x i8], align 64")

    def fits(self, columns: str) -> str:
        """Whether lines with this many columns fit in the table."""
        return self.body.op(f"icmp ule i64 {columns}, {self.groups * LANES}")

    def write(self, t: str, low: str, high: str, columns: str) -> None:
        """Write the entries of a term that counts for the columns low .. high - 1 of a line."""
        body = self.body
        count = body.op(f"udiv i64 {body.op(f'add i64 {columns}, {LANES - 1}')}, {LANES}")
        count = body.op(f"select i1 {self.fits(columns)}, i64 {count}, i64 0")
        high = body.call("llvm.smin.i64", Kind("i64"), f"i64 {high}", f"i64 {columns}").name

        def group(g: str, _: list[str]) -> list[str]:
            place = body.at(self.table, self._offset(g, t))
            first = body.op(f"mul i64 {g}, {LANES}")
            start, end = (body.op(f"trunc i64 {body.op(f'sub i64 {x}, {first}')} to i32") for x in (low, high))
            bits = self._bits([*range(LANES)], start, end)
            if self.step == 1:
                body.store("i16", bits, place)
            else:
                dilated = self._bits([n // 2 if n % 2 == 0 else -1 for n in range(2 * LANES)], start, end)
                body.store("i32", dilated, place)
                body.store("i16", bits, place, 4)
            return []

        fold(body, "0", count, 1, [], group)

    def _bits(self, columns: list[int], start: str, end: str) -> str:
        """A bit for each lane, set if start <= its column < end, and never for column -1."""
        body = self.body
        at = body.constants("i32", [x if x >= 0 else -(1 << 20) for x in columns])
        low, high = (body.splat(Value(body, x, Kind("i32")), len(columns)) for x in (start, end))
        there = body.constants("i1", [x >= 0 for x in columns])
        mask = at.compared("sge", low) & at.compared("slt", high) & there
        return body.op(f"bitcast {mask.kind.text} {mask.name} to i{len(columns)}")

    def _offset(self, g: str, t: str) -> str:
        body = self.body
        row = body.op(f"mul i64 {g}, {self.at_once}")
        return body.op(f"mul i64 {body.op(f'add i64 {row}, {t}')}, {self.entry}")

    def of(self, g: str, t: int) -> tuple[Value, Value]:
        """The mask of the elements to read, and the mask of the columns."""
        body = self.body
        place = body.at(self.table, self._offset(g, str(t)))
        if self.step == 1:
            mask = body.loaded(Kind("i16"), place).cast(Kind("i1", LANES))
            return mask, mask
        return body.loaded(Kind("i32"), place).cast(Kind("i1", 2 * LANES)), body.loaded(Kind("i16"), place, 4).cast(
            Kind("i1", LANES)
        )
