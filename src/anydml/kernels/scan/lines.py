"""The kernel of running sums and products of contiguous lines: prefixes within vectors, added to the sum before.

Sums of floats are exact while all elements so far are multiples of a power of two and no sum exceeds 2^53 times this power.
Each line has a least size of elements, which is lowered when smaller ones come, and from it a largest size of sums. A block of
elements is stored if it keeps both limits. If no least size fits, a group computes the rest of the line (group.py).
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.copy.text import short
from anydml.kernels.irregular.loops import walk
from anydml.kernels.numbers import singles
from anydml.kernels.scan.columns import NONE, bits_of_exact
from anydml.kernels.scan.doubled import further
from anydml.kernels.scan.emit import FIRST, Resumed
from anydml.kernels.scan.group import ScanKey, called, finished, group, lefts
from anydml.kernels.scan.sizes import Sizes, beyond, lower, of_block, size
from anydml.kernels.scan.vectors import LineVectors
from anydml.tensor import DataType

CONTIGUOUS = FIRST + Signature("*staged")
LEAST = 16  # elements of a line at least: shorter lines are faster side by side in lanes


def emitted(target: Target, key: ScanKey, backward: bool) -> str:
    """The kernel. Arguments: CONTIGUOUS, loops of (source, target) around the lines."""
    body = Body(target)
    CONTIGUOUS.load(body)
    items = Resumed(body)
    groups = [group(target, key, 1)] if key.floating else []
    least = body.op("alloca i32, align 4")

    def line(at: list[str], count: str, strides: list[str]) -> None:
        """The innermost loop, which has one turn."""
        items.turn()
        items.item(lambda: ScanLine(body, key, items, at, least, backward).compute())

    walk(body, body.at("%arguments", CONTIGUOUS.end), ["%source", "%target"], line)
    items.end()
    return finished(body, groups)


class ScanLine:
    """A line, beginning at its first element, or at its last. at: the addresses of that element in source and target."""

    def __init__(self, body: Body, key: ScanKey, items: Resumed, at: list[str], least: str, backward: bool) -> None:
        self.body, self.key, self.items, self.least, self.backward = body, key, items, least, backward
        self.source, self.target = at
        self.vectors = v = LineVectors(body, key, at, backward)
        self.lanes, self.block, self.element, self.sum, self.neutral = v.lanes, v.block, v.element, v.sum, v.neutral

    def compute(self) -> None:
        body = self.body
        before, head, inside, stores, inexact, latch, done, end = map(
            body.name, ("before", "block", "inside", "stores", "inexact", "latch", "done", "end")
        )
        i, following, sums = (f"%{body.name(x)}" for x in ("i", "j", "sums"))
        if self.key.floating:
            body.do(f"store i32 {NONE}, ptr {self.least}, align 4")
        body.jump(before)
        body.label(before)
        body.jump(head)
        body.label(head)
        first_sums = Value(body, sums, self.sum)
        after = f"%{body.name('after')}"
        body.do(f"{i} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        body.do(f"{sums} = phi {self.sum.text} [ {self.neutral.name}, %{before} ], [ {after}, %{latch} ]")
        body.branch(body.op(f"icmp ult i64 {i}, %n"), inside, done)
        body.label(inside)
        source, target, partial, rest = self._places(i)
        vectors = [self.vectors.loaded(source, k) for k in range(self.block // self.lanes)]
        made, last, sizes = self._summed(vectors, first_sums)
        if sizes is not None:
            body.branch(beyond(body, self.least, sizes), inexact, stores, seldom=True)
        else:
            body.jump(stores)
        body.label(stores)
        for k, value in enumerate(made):
            body.stored(self.vectors.in_direction(value), self.vectors.vector(target, k))
        when(body, partial, lambda: self._staged_out(i, rest))
        kept = body.name("kept")
        body.jump(kept)
        body.label(kept)
        further = body.op(f"add i64 {i}, {self.block}")
        body.jump(latch)
        ways = [(further, last.name, kept)]
        if sizes is not None:
            body.label(inexact)
            fits, lowered = lower(body, self.least, sizes)
            again, left = body.name("again"), body.name("left")
            body.branch(fits, again, left)
            body.label(left)
            self._go_on(i, first_sums)
            body.jump(end)
            body.label(again)
            body.do(f"store i32 {lowered}, ptr {self.least}, align 4")
            body.jump(latch)
            ways.append((i, sums, again))
        body.label(latch)
        body.do(f"{following} = phi i64 {', '.join(f'[ {x}, %{way} ]' for x, _, way in ways)}")
        body.do(f"{after} = phi {self.sum.text} {', '.join(f'[ {x}, %{way} ]' for _, x, way in ways)}")
        body.jump(head)
        body.label(done)
        body.jump(end)
        body.label(end)
        self._begin()

    def _begin(self) -> None:
        """Store the first element of an exclusive sum, +0, once all elements are read."""
        if self.key.exclusive and self.key.floating:
            self.body.stored(self.body.constant(Kind(self.element.element), 0), self.target)

    def _places(self, i: str) -> tuple[str, str, str, str]:
        """A block's addresses in source and target; whether it is incomplete, and its bytes then. An incomplete block is copied
        to and from scratch."""
        body, size, nbytes = self.body, self.key.size, self.block * self.key.size
        rest = body.op(f"sub i64 %n, {i}")
        partial = body.op(f"icmp ult i64 {rest}, {self.block}")
        rest = body.op(f"mul i64 {rest}, {size}")

        def stage() -> None:
            neutral = body.constant(self.element, self._neutral_bits())
            for k in range(self.block // self.lanes):
                body.stored(neutral, "%staged", k * self.lanes * size)
            real, staged = self._staged(self.source, i, rest, "%staged")
            short(body, real, staged, rest, nbytes, body.target.vector_bytes)

        when(body, partial, stage)
        first = body.op(f"add i64 {i}, {self.block - 1}") if self.backward else i
        found = []
        for side, staged in (("source", "%staged"), ("target", body.at("%staged", nbytes))):
            at = along(body, getattr(self, side), f"%{side}_step", first)
            found.append(body.op(f"select i1 {partial}, ptr {staged}, ptr {at}"))
        return found[0], found[1], partial, rest

    def _staged(self, line: str, i: str, rest: str, staged: str) -> tuple[str, str]:
        """The addresses of a line's last elements in memory, and in a block in scratch."""
        body, size = self.body, self.key.size
        if not self.backward:
            return body.at(line, body.op(f"mul i64 {i}, {size}")), staged
        last = body.op(f"mul i64 {body.op('sub i64 1, %n')}, {size}")
        return body.at(line, last), body.at(staged, body.op(f"sub i64 {self.block * size}, {rest}"))

    def _staged_out(self, i: str, rest: str) -> None:
        nbytes = self.block * self.key.size
        real, staged = self._staged(self.target, i, rest, self.body.at("%staged", nbytes))
        short(self.body, staged, real, rest, nbytes, self.body.target.vector_bytes)

    def _neutral_bits(self) -> int:
        return 1 << 8 * self.key.size - 1 if self.key.floating else int(self.key.product)

    def _summed(self, vectors: list[Value], sums: Value) -> tuple[list[Value], Value, Sizes | None]:
        """The elements to store, the sums after them, and the sizes of floats."""
        if not self.key.floating:
            made = []
            for x in vectors:
                value, after = self._prefixes(x, sums)
                made.append(self._exclusive(value, sums) if self.key.exclusive else self.vectors.joined(value, sums))
                sums = after
            return made, sums, None
        half = self.lanes // 2
        made, sizes, totals = [], [], []
        for bits in vectors:
            x = singles.widened(bits, self.key.data_type)
            sizes.append(size(x))
            through, stored = [], []
            for first in (0, half):
                part = self.vectors.half(x, first).converted("fpext", self.sum)
                value, after = self._prefixes(part, sums)
                through.append(value + sums)
                stored.append(self._exclusive(value, sums) if self.key.exclusive else through[-1])
                sums = after
            narrow = self.vectors.whole([t.converted("fptrunc", t.kind.of("float")) for t in through])
            totals.append(size(narrow))
            if bits.kind.bits == 16 or self.key.exclusive or self.body.target.probe is not None:
                made.append(self.vectors.whole([bits_of_exact(s, self.key.data_type) for s in stored]))
            else:
                made.append(narrow.bits())
        return made, sums, of_block(sizes, totals)

    def _prefixes(self, x: Value, sums: Value) -> tuple[Value, Value]:
        """The prefixes within a vector plus the sum before it, and the sum after the vector."""
        x = self.vectors.prefixes(x)
        return x, self.vectors.joined(self.vectors.last(x), sums)

    def _exclusive(self, prefixes: Value, sums: Value) -> Value:
        return self.vectors.joined(self.vectors.moved(prefixes, 1), sums)

    def _go_on(self, i: str, sums: Value) -> None:
        """The rest of a line, beginning with a block whose sums float64 does not hold."""
        left = sums.lift(0.0)
        if self.key.data_type != DataType.FLOAT16:  # which needs this only for sums that are infinite or nearly so
            i, sums, left = further(self.vectors, i, sums)
        self._left_to_group(i, sums, left)

    def _left_to_group(self, i: str, sums: Value, left: Value) -> None:
        body, size = self.body, self.key.size
        body.stored(sums.lane(0), "%begun")
        body.stored(left.lane(0), "%begun", lefts(body.target))
        places = [along(body, at, f"%{side}_step", i) for side, at in (("source", self.source), ("target", self.target))]
        rest = body.op(f"sub i64 %n, {i}")
        mask = called(body, 1, ("%begun", "%kept", *places), (size, i, rest, "%source_step", "%target_step", 0, 0))
        self._begin()  # the call may end here
        self.items.stop_if(mask, "1", "0", i)
