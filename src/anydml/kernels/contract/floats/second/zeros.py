"""Listed elements whose columns have only zeros, if some terms do not count: the sum is -0 if all terms are -0, else +0.

The zeros in place of terms that do not count may have determined the sum's sign. The kernel reads the signs of the terms that
count, usually only the first few, since one +0 is enough. Decided elements are removed from the list.
"""

from __future__ import annotations

import math

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.elements import split, streams
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import rounded, stored
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.second.compensated import wide
from anydml.kernels.contract.floats.second.refine import ARGUMENTS, LANES, Refining
from anydml.kernels.contract.floats.stores import list_of
from anydml.tensor import DataType

I64 = Kind("i64")


def decided(target: Target, key: EpilogueKey, factors: tuple[DataType, DataType]) -> str:
    """The kernel that decides elements with only zeros, and keeps the rest of the list; arguments: as of `refine`.

    sums: the rows' norms instead of the sums.
    """
    return _Zeros(target, key, factors).text()


class _Zeros(Refining):
    def text(self) -> str:
        body = self.body
        with_streams(ARGUMENTS, len(self.key.layouts)).load(body)
        self.list = list_of(body)
        self.list.counted(self.list.sift("0", self.list.count(), self._stays))
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _stays(self, slot: str) -> str:
        """Decide an entry of the list. Returns 1 if it stays undecided, else 0."""
        body = self.body
        entry = body.load("i64", slot)
        row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
        norm = body.loaded(Kind("double"), "%b_norms", body.op(f"mul i64 {column}, 8"))
        of_row = body.loaded(norm.kind, "%sums", body.op(f"mul i64 {row}, 8"))
        zeros = norm.compared("oeq", 0.0) & of_row.compared("olt", math.inf)
        c = body.op(f"add i64 %first, {column}")
        return body.either(zeros.name, lambda: [self._decided(row, c)], lambda: [body.constant(I64, 1)])[0].name

    def _decided(self, row: str, c: str) -> Value:
        """Store an element unless it stays undecided. -> 1 if it does"""
        body, s = self.body, self.key.stored
        total = body.chosen(self._negative(row, c), body.constant(Kind("double"), -0.0), 0.0)
        read, output = streams(body, self.key, LANES, row, c)
        added = s.added()
        if added is not None:
            total = total + wide(read[added[1]].lane(0), s.types[added[1]])
        nothing = body.constant(Kind("double", LANES), 0.0)
        guard = body.constant(Kind("i1", LANES), False)
        number = rounded(body.splat(total, LANES), nothing, guard)
        made, undecided = stored(body, s, read, number, LANES, added=added is not None)
        is_undecided = body.constant(Kind("i1"), False) if undecided is None else undecided.lane(0)
        when(body, (~is_undecided).name, lambda: body.stored(made.lane(0), output))
        return is_undecided.converted("zext", I64)

    def _negative(self, row: str, c: str) -> Value:
        """Whether at least one term counts, and all that count are negative."""
        body = self.body
        z, y, x = split(body, c, "%n1", "%n2")
        a = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %b0')}, {body.op(f'mul i64 {y}, %b1')}")
        b = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %b2')}"))
        before, position, inside, term, next_term, next_, end = (
            body.name(x) for x in ("before", "position", "inside", "term", "next_term", "next", "signs")
        )
        p, some, p_next, some_next, n, n_next = (f"%{body.name('v')}" for _ in range(6))
        body.jump(before)
        body.label(before)
        body.jump(position)
        body.label(position)
        body.do(f"{p} = phi i64 [ 0, %{before} ], [ {p_next}, %{next_} ]")
        body.do(f"{some} = phi i1 [ false, %{before} ], [ {some_next}, %{next_} ]")
        body.branch(body.op(f"icmp ult i64 {p}, %positions"), inside, end)
        body.label(inside)
        entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
        counts = body.constant(Kind("i1"), True)
        for k, value in enumerate((z, y, x)):
            low, high = body.load("i64", entry, 16 + 16 * k), body.load("i64", entry, 24 + 16 * k)
            at = Value(body, value, I64)
            counts = counts & at.compared("sge", Value(body, low, I64)) & at.compared("slt", Value(body, high, I64))
        bases = [body.at(base, body.load("i64", entry, at)) for base, at in ((a, 8), (b, 0))]
        body.branch(counts.name, term, next_)
        body.label(term)
        body.do(f"{n} = phi i64 [ 0, %{inside} ], [ {n_next}, %{next_term} ]")
        signs = [
            body.loaded(Kind(f"i{t.element_bits}"), body.at(base, body.op(f"mul i64 {n}, %{side}_term"))).compared("slt", 0)
            for t, base, side in zip(self.factors, bases, "ab", strict=True)
        ]
        body.branch((signs[0] ^ signs[1]).name, next_term, end)
        body.label(next_term)
        body.do(f"{n_next} = add i64 {n}, 1")
        body.branch(body.op(f"icmp ult i64 {n_next}, %channels"), term, next_)
        body.label(next_)
        body.do(f"{some_next} = phi i1 [ {some}, %{inside} ], [ true, %{next_term} ]")
        body.do(f"{p_next} = add i64 {p}, 1")
        body.jump(position)
        body.label(end)
        return body.value(f"phi i1 [ {some}, %{position} ], [ false, %{term} ]", Kind("i1"))
