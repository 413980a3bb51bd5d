"""The end of a block of sums: elements are stored, and what the bounds of their sums leave open goes on a list.

A sum of n float64 terms is at most (n + 8) u |a| |b| away from the real one, where |a| and |b| are the norms of its row and of
its column (Cauchy and Schwarz). It is exact where all of its terms are multiples of one number that |a| |b| is at most 2^53
times of: this is looked at where many elements are left open.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.direct import LEAST
from anydml.kernels.contract.floats.formula import Stored, bounded, stored
from anydml.kernels.contract.floats.lines import lines
from anydml.kernels.contract.floats.tile import DENSE
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.streams import CONSTANT, Streams
from anydml.tensor import DataType

MANY = 32  # elements that are left open are many if they are more than this part of a block
OWN = 2  # streams before those of the formula: the sums, and the columns' norms and least digits
# counter: entries on the list, then the factor of exact blocks; a_low, b_low: room for the least digits of rows and columns
ARGUMENTS = (
    "rows", "first", "count", "n1", "n2", "sums", "sums_row", "factor", "a_norms", "b_norms", "a_low", "b_low",
    "list", "counter", "a", "a_tile", "tiles", "b", "b_panel", "panels", "terms",
)  # fmt: skip
POINTERS = {"sums", "a_norms", "b_norms", "a_low", "b_low", "list", "counter", "a", "b"}


class Shape(NamedTuple):
    """lies: how each stream that is read lies along a run of columns, and the output, last. height: of the tiles; across:
    vectors of float64 of a panel. padded: some norms are negative, where terms do not count.
    measured: each sum has one of its terms' magnitudes, in rows as far apart, in the norms' place. mixed: sums are made of
    others, whose infinities they have, and whose zeros have lost their signs; there are no tiles and panels."""

    stored: Stored
    lies: tuple[str, ...]
    height: int
    across: int
    padded: bool
    measured: bool = False
    mixed: bool = False


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    return [*ARGUMENTS, *places(len(shape.lies))]


def places(count: int) -> list[str]:
    """The arguments of streams: where each begins, and bytes along rows and the columns' dimensions, the innermost last."""
    return [f"{x}{k}" for k in range(OWN, OWN + count) for x in "przys"]


def block(target: Target, shape: Shape) -> str:
    """A block of elements from their sums; arguments: `names`."""
    body = Body(target)
    arguments(body, ARGUMENTS, POINTERS)
    body.store("i64", "0", "%counter")
    body.store("double", "0.0", "%counter", 8)
    body.store("i64", "0", "%counter", DENSE)
    body.op("call i64 @block(ptr %arguments)")
    all_ = body.op("mul i64 %rows, %count")
    listed = body.load("i64", "%counter")
    if shape.measured or shape.mixed:
        body.do("ret i64 0")
        inner = _Block(target, shape)
        text = inner.text()
        return kernel(body, [*dict.fromkeys([*body.declared, *inner.body.declared]), text])
    many = body.op(f"icmp ugt i64 {body.op(f'mul i64 {listed}, {MANY}')}, {all_}")

    def exact() -> None:
        _least_digits(body, Kind("double", shape.height), "%a", "%a_tile", "%tiles", "%a_low")
        lanes = shape.across * target.vector_bytes // 8
        _least_digits(body, Kind("float", lanes), "%b", "%b_panel", "%panels", "%b_low")
        body.store("i64", "0", "%counter")
        body.store("double", "0x4340000000000000", "%counter", 8)  # 2^53
        body.op("call i64 @block(ptr %arguments)")

    when(body, many, exact)
    body.do("ret i64 0")
    inner = _Block(target, shape)
    text = inner.text()
    return kernel(body, [*dict.fromkeys([*body.declared, *inner.body.declared]), text])


def _least_digits(body: Body, kind: Kind, packed: str, step: str, count: str, into: str) -> None:
    """Of each row or column that is packed, the least power of two that its elements are multiples of; infinity of zeros."""
    wide = kind.of("double")

    def one(t: str, _: list[Value]) -> list[Value]:
        at = body.at(packed, body.op(f"mul i64 {t}, {step}"))

        def term(k: str, least: list[Value]) -> list[Value]:
            x = body.loaded(kind, at, body.op(f"mul i64 {k}, {kind.lanes * kind.bits // 8}")).converted("fpext", wide)
            bits = x.bits()
            rest = (x - (bits & (bits - 1)).cast(wide)).magnitude()
            power = (bits & ((1 << 52) - 1)).compared("eq", 0)
            low = body.chosen(power, x.magnitude(), rest)
            low = body.chosen(x.compared("oeq", 0.0), math.inf, low)
            return [body.chosen(low.compared("olt", least[0]), low, least[0])]

        (least,) = body.loop("0", "%terms", 1, [body.constant(wide, math.inf)], term)[1]
        body.stored(least, into, body.op(f"mul i64 {t}, {8 * kind.lanes}"))
        return []

    body.loop("0", count, 1, [], one)


class _Block:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.body, self.shape = Body(target), shape
        self.lanes = target.vector_bytes // 4
        s = shape.stored
        types = (
            [DataType.FLOAT64, DataType.FLOAT32 if shape.measured else DataType.FLOAT64]
            + [s.types[k] for k in s.others]
            + [s.types[-1]]
        )
        self.kinds = [Kind(f"i{t.element_bits}", self.lanes) for t in types]
        self.lies = ("contiguous",) * OWN + shape.lies
        self.streams = Streams(self.body, self.kinds, self.lies)

    def text(self) -> str:
        body = self.body
        arguments(body, names(self.shape), POINTERS | {f"p{k}" for k in range(OWN, len(self.lies))})
        self.streams.begin()
        self.exact = body.loaded(Kind("double"), "%counter", 8)
        body.loop("0", "%rows", 1, [], self._row)
        body.do("ret i64 0")
        return "\n".join(["define internal i64 @block(ptr %arguments) noinline {", "entry:", *body.lines, "}"])

    def _row(self, r: str, _: list[Value]) -> list[Value]:
        body, lanes = self.body, self.lanes
        self.r = r
        wide = Kind("double")
        factor = Value(body, body.op("bitcast i64 %factor to double"), wide)
        sums = body.at("%sums", body.op(f"mul i64 {r}, %sums_row"))
        sizes = "%b_norms"
        if self.shape.measured:
            self.factor = body.splat(factor * (1 + 2.0**-2), lanes)  # the magnitudes' own roundings
            self.least = body.splat(Value(body, "%terms", Kind("i64")).converted("uitofp", wide) * LEAST, lanes)
            sizes = body.at(sizes, body.op(f"mul i64 {r}, %sums_row"))
        else:
            norm = body.loaded(wide, "%a_norms", body.op(f"mul i64 {r}, 8"))
            self.norm = body.splat(norm, lanes)
            self.factor = body.splat(norm * factor, lanes)
            low = body.loaded(wide, "%a_low", body.op(f"mul i64 {r}, 8"))
            self.low = body.splat(low * self.exact, lanes)
        starts = [body.at(f"%p{k}", body.op(f"mul i64 {r}, %r{k}")) for k in range(OWN, len(self.lies))]

        def run(_: str, done: str, length: str, z: str, y: str, x: str) -> None:
            offset = body.op(f"mul i64 {done}, 8")
            of_sizes = body.op(f"mul i64 {done}, {self.kinds[1].bits // 8}")
            bases = [body.at(sums, offset), body.at(sizes, of_sizes)]
            self.b_low = body.at("%b_low", offset)
            for k, start in zip(range(OWN, len(self.lies)), starts, strict=True):
                offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %z{k}')}, {body.op(f'mul i64 {y}, %y{k}')}")
                bases.append(body.at(start, body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s{k}')}")))
            self.streams.bases = bases
            self._elements(done, length)

        lines(body, "%first", "%count", ("%n1", "%n2"), run)
        return []

    def _elements(self, done: str, length: str) -> None:
        body, lanes, streams = self.body, self.lanes, self.streams
        constants = streams.constants(k for k in range(len(self.lies) - 1) if self.lies[k] == CONSTANT)

        def group(i: str, loaded: dict[int, Value], take: str | None) -> None:
            made, undecided = self._group(i, {**loaded, **constants})
            if take is None:
                streams.store(i, made)
            else:
                streams.store_partial(i, take, made)
            if undecided is None:
                return
            bits = lanes_as_bits(undecided)
            if take is not None:
                inside = body.op(f"xor i64 {body.op(f'shl i64 -1, {take}')}, -1")
                bits = body.op(f"and i64 {bits}, {inside}")
            self._note(body.op(f"add i64 {done}, {i}"), bits)

        def whole(i: str, _: list[Value]) -> list[Value]:
            group(i, streams.whole(i), None)
            return []

        i, _ = body.loop("0", length, lanes, [], whole)
        left = body.op(f"sub i64 {length}, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: group(i, streams.partial(i, left), left))

    def _group(self, i: str, loaded: dict[int, Value]) -> tuple[Value, Value | None]:
        body, wide = self.body, Kind("double", self.lanes)
        total = loaded[0].cast(wide)
        guard = None
        read = {k: loaded[OWN + n] for n, k in enumerate(self.shape.stored.others)}
        if self.shape.measured:
            if self.shape.padded:  # the sum of nothing is +0
                guard = total.bits().compared("eq", -(1 << 63))
            size = loaded[1].cast(wide.of("float")).converted("fpext", wide) + self.least
            return stored(body, self.shape.stored, read, bounded(total, size * self.factor, guard), self.lanes)
        size = norm = loaded[1].cast(wide)
        if self.shape.padded:
            size = norm.magnitude()
            # zeros and infinities beside what does not count: the sum's sign, or NaN, may come from there
            odd = total.compared("oeq", 0.0) | total.compared("uno", total)
            guard = norm.bits().compared("slt", 0) & odd  # which -0 is, too
        if self.shape.mixed:
            error = self.factor * size
            guard = total.compared("oeq", 0.0) | ~((total.magnitude() + error).compared("olt", math.inf))
            return stored(body, self.shape.stored, read, bounded(total, error, guard), self.lanes)
        low = body.loaded(wide, self.b_low, body.op(f"mul i64 {i}, 8"))
        exact = (self.norm * size).compared("ole", self.low * low)
        error = body.chosen(exact, 0.0, self.factor * size)
        return stored(body, self.shape.stored, read, bounded(total, error, guard), self.lanes)

    def _note(self, column: str, bits: str) -> None:
        """Put the undecided lanes on the list: the row, and the column in 32 bits."""
        body = self.body
        before, head, after = (body.name(x) for x in ("before", "note", "after"))
        body.jump(before)
        body.label(before)
        body.branch(body.op(f"icmp ne i64 {bits}, 0"), head, after)
        body.label(head)
        left, rest, end = f"%{body.name('l')}", f"%{body.name('r')}", body.name("noted")
        body.do(f"{left} = phi i64 [ {bits}, %{before} ], [ {rest}, %{end} ]")
        count = body.load("i64", "%counter")
        lane = body.call("llvm.cttz.i64", Kind("i64"), f"i64 {left}", "i1 true").name
        entry = body.op(f"or i64 {body.op(f'shl i64 {self.r}, 32')}, {body.op(f'add i64 {column}, {lane}')}")
        body.store("i64", entry, "%list", body.op(f"mul i64 {count}, 8"))
        body.store("i64", body.op(f"add i64 {count}, 1"), "%counter")
        body.do(f"{rest} = and i64 {left}, {body.op(f'sub i64 {left}, 1')}")
        body.jump(end)
        body.label(end)
        body.branch(body.op(f"icmp ne i64 {rest}, 0"), head, after)
        body.label(after)
