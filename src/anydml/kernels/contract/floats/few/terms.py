"""Records of the terms of sums without packing, on the stack: offsets of elements, and the columns that a term counts for."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.few.masks import Masks
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.reads import Reader, single
from anydml.tensor import DataType

TERM = 32  # bytes of a record: offsets of the term's elements and of its factors, and the range of columns that it counts for


class TermsKey(NamedTuple):
    """The kernel's key: types of the factors; rows; the stride between columns, 0 for any; whether some terms do not count.

    at_once: the number of terms that are added before sums are stored; the loop is unrolled if all count for a group.
    """

    a: DataType
    b: DataType
    rows: int
    step: int
    padded: bool
    at_once: int


class Terms:
    """The part of the kernel that handles terms. values, all, line: memory for factors, for the records of all terms, and for
    those of a run; count: the number of terms that are added at once."""

    values: str
    all: str
    line: str
    count: str

    def __init__(self, target: Target, kinds: TermsKey) -> None:
        self.body, self.kinds = Body(target), kinds
        self.lanes = target.vector_bytes // 4
        self.iota = self.body.constants("i32", range(self.lanes))
        self.reader = Reader(self.body, kinds.b, kinds.step, self.lanes)
        masked = kinds.padded and kinds.step and "avx512bw" in target.features
        self.masks = Masks(self.body, kinds.step, kinds.at_once) if masked else None

    def _term(self, t: str, first: str) -> list[Value]:
        """Write the record and the factors of a term."""
        body = self.body
        n = body.op(f"add i64 {first}, {t}")
        c, p = body.op(f"udiv i64 {n}, %positions"), body.op(f"urem i64 {n}, %positions")
        entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {c}, %b_term')}, {body.load('i64', entry)}")
        record = body.at(self.all, body.op(f"mul i64 {t}, {TERM}"))
        body.store("i64", offset, record)
        body.store("i64", body.op(f"ptrtoint ptr {entry} to i64"), record, 8)
        a = body.at("%a", body.op(f"add i64 {body.op(f'mul i64 {c}, %a_term')}, {body.load('i64', entry, 8)}"))
        for m in range(self.kinds.rows):
            bits = body.loaded(Kind(f"i{self.kinds.a.element_bits}"), a, body.op(f"mul i64 %a_row, {m}"))
            into = body.at(self.values, body.op(f"mul i64 {t}, {8 * self.kinds.rows}"))
            body.stored(single(bits, self.kinds.a).converted("fpext", Kind("double")), into, 8 * m)
        if self.masks is not None:
            self.masks.write(t, body.load("i64", entry, 48), body.load("i64", entry, 56), "%n2")
        return []

    def _counting(self, z: str, y: str, x: str, length: str) -> tuple[str, str, str]:
        """Write the records of the terms that count for a run. -> their number, and the range of columns for which all count"""
        body = self.body

        def one(t: str, found: list[Value]) -> list[Value]:
            record = body.at(self.all, body.op(f"mul i64 {t}, {TERM}"))
            into = body.at(self.line, body.op(f"mul i64 {found[0].name}, {TERM}"))
            counts = body.constant(Kind("i64"), 1)
            body.store("i64", body.load("i64", record), into)
            body.store("i64", body.op(f"mul i64 {t}, {8 * self.kinds.rows}"), into, 8)
            body.store("i64", "0", into, 16)
            body.store("i64", length, into, 24)
            if self.kinds.padded:
                entry = body.load("ptr", record, 8)
                inside = body.constant(Kind("i1"), True)
                for k, value in ((0, z), (1, y)):
                    at = Value(body, value, Kind("i64"))
                    inside = inside & at.compared("sge", body.loaded(at.kind, entry, 16 + 16 * k))
                    inside = inside & at.compared("slt", body.loaded(at.kind, entry, 24 + 16 * k))
                edges = [body.op(f"sub i64 {body.load('i64', entry, at)}, {x}") for at in (48, 56)]
                edges[1] = body.call("llvm.smin.i64", Kind("i64"), f"i64 {edges[1]}", f"i64 {length}").name
                for k, edge in enumerate(edges):
                    body.store("i64", edge, into, 16 + 8 * k)
                counts = inside.converted("zext", Kind("i64"))
            low, high = (body.loaded(Kind("i64"), into, at) for at in (16, 24))
            low, high = body.intrinsic("smax", low, found[1]), body.intrinsic("smin", high, found[2])
            return [found[0] + counts, low, high]

        i64 = Kind("i64")
        starts = [body.constant(i64, 0), body.constant(i64, 0), Value(body, length, i64)]
        count, low, high = body.loop("0", self.count, 1, starts, one)[1]
        every = count.compared("eq", self.kinds.at_once)
        return count.name, low.name, body.chosen(every, high, 0).name
