"""The kernel of the first k elements of sorted lines: keys, candidates if k is small, and their order.

To find candidates, the elements of a line are divided among more than k groups, and each group keeps its first key. The k-th
of these keys, sorted, is a bound: at least k elements are not behind it, so elements behind it are no candidates.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.irregular.loops import walk
from anydml.kernels.order.keys import keys
from anydml.kernels.order.sort import RADIX, sort
from anydml.tensor import DataType

# scratch: the keys, the groups' first keys, two arrays of items, and the counts of the sort
MEMORY = ("keys", "firsts", "items", "spare", "counts")
ORDER = Signature(
    "*keys *firsts *items *spare *counts *source *values *positions n k groups source_step values_step positions_step"
)
GROUPS = 32  # groups of a line at least
BLOCK = 8  # vectors after which the number of candidates equal to the bound is checked
PAIRS = 64  # groups are compared in pairs: with this many pairs per element, that costs as much as sorting the line


class OrderKey(NamedTuple):
    """The data types, None for an absent output. selects: candidates are searched. dense: a line's elements are contiguous."""

    data_type: DataType
    positions: DataType | None
    values: bool
    decreasing: bool
    selects: bool
    dense: bool

    @property
    def key(self) -> int:
        """The bits of a key."""
        return max(32, self.data_type.element_bits)


def groups(k: int, target: Target, kernel_key: OrderKey) -> int:
    """The number of groups into which a line is divided, a multiple of a vector's lanes."""
    lanes = target.vector_bytes * 8 // kernel_key.key
    return max(GROUPS, -(-2 * k // lanes) * lanes)


def selects(n: int, groups: int) -> bool:
    """Whether it is faster to search candidates than to sort the whole line."""
    return n >= 2 * groups and groups * groups <= PAIRS * n


def scratch(n: int, groups: int, kernel_key: OrderKey) -> list[int]:
    """The bytes of the first five of POINTERS."""
    key = kernel_key.key // 8
    sizes = [n * key * kernel_key.selects, groups * key, 2 * n * key, 2 * n * key, _digits(kernel_key) * RADIX * 4]
    return [-(-size // 64) * 64 for size in sizes]


def _digits(kernel_key: OrderKey) -> int:
    return kernel_key.data_type.element_bits // 8


def emitted(target: Target, kernel_key: OrderKey) -> str:
    """The kernel. Arguments: ORDER, loops of (source, values, positions) around the lines."""
    body = Body(target)
    ORDER.load(body)

    def line(at: list[str], count: str, strides: list[str]) -> None:
        def one(i: str, _: list[Value]) -> list[Value]:
            _Line(
                body, kernel_key, [along(body, place, stride, i) for place, stride in zip(at, strides, strict=True)]
            ).compute()
            return []

        body.loop("0", count, 1, [], one)

    walk(body, body.at("%arguments", ORDER.end), ["%source", "%values", "%positions"], line)
    body.do("ret i64 0")
    return kernel(body, [*body.declared, sort(target, 2 * kernel_key.key, _digits(kernel_key))])


class _Line:
    """A line. at: the addresses of its beginning in the source and in both outputs."""

    def __init__(self, body: Body, kernel_key: OrderKey, at: list[str]) -> None:
        self.body, self.kernel_key = body, kernel_key
        self.source, self.values, self.positions = at
        self.size = kernel_key.data_type.element_bits // 8
        self.lanes = body.target.vector_bytes * 8 // kernel_key.key
        self.key, self.item = Kind(f"i{kernel_key.key}"), Kind(f"i{2 * kernel_key.key}")

    def compute(self) -> None:
        body = self.body
        count = self._selected() if self.kernel_key.selects else self._all()
        found = body.op(f"call ptr @sort(ptr %items, ptr %spare, ptr %counts, i64 {count})")
        body.loop("0", "%k", 1, [], lambda i, _: self._output(found, i))

    def _keys(self, i: str, lanes: int) -> Value:
        """The keys of elements from the i-th on."""
        body, kind = self.body, Kind(f"i{8 * self.size}", lanes)
        place = along(body, self.source, "%source_step", i)
        if self.kernel_key.dense or lanes == 1:
            bits = body.loaded(kind, place)
        else:
            bits = body.undefined(kind)
            for lane in range(lanes):
                at = body.at(place, body.op(f"mul i64 %source_step, {lane}"))
                bits = bits.replaced(lane, body.loaded(Kind(kind.element), at))
        found = keys(bits, self.kernel_key.data_type, decreasing=self.kernel_key.decreasing)
        return found.converted("zext", Kind(self.key.element, lanes))

    def _put(self, key: Value, position: Value, at: Value) -> None:
        """The item of a key and a position."""
        wide = key.kind.of(self.item.element)
        made = (key.converted("zext", wide) << self.kernel_key.key) | position.converted("zext", wide)
        self.body.stored(made, along(self.body, "%items", str(self.item.bits // 8), at.name))

    def _all(self) -> str:
        """Write the items of all elements. -> their number"""
        body = self.body

        def some(lanes: int, i: str) -> list[Value]:
            first = Value(body, i, Kind("i64")).converted("trunc" if self.kernel_key.key < 64 else "bitcast", self.key)
            counting = body.constants(self.key.element, range(lanes))
            self._put(self._keys(i, lanes), body.splat(first, lanes) + counting, Value(body, i, Kind("i64")))
            return []

        done, _ = body.loop("0", "%n", self.lanes, [], lambda i, _: some(self.lanes, i))
        body.loop(done, "%n", 1, [], lambda i, _: some(1, i))
        return "%n"

    def _selected(self) -> str:
        """Write the items of candidates, in the order of positions. -> their number"""
        body, wide = self.body, Kind(self.key.element, self.lanes)
        nbytes = self.kernel_key.key // 8
        none = body.constant(wide, -1)
        word = Kind("i64")

        def cleared(g: str, _: list[Value]) -> list[Value]:
            body.stored(none, along(body, "%firsts", str(nbytes), g))
            return []

        body.loop("0", "%groups", self.lanes, [], cleared)

        def dealt(lanes: int, i: str, group: Value) -> list[Value]:
            found = self._keys(i, lanes)
            body.stored(found, along(body, "%keys", str(nbytes), i))
            place = along(body, "%firsts", str(nbytes), group.name)
            body.stored(body.intrinsic("umin", found, body.loaded(found.kind, place)), place)
            after = group + lanes
            return [body.chosen(after.compared("uge", Value(body, "%groups", word)), 0, after)]

        done, (group,) = body.loop("0", "%n", self.lanes, [body.constant(word, 0)], lambda i, g: dealt(self.lanes, i, *g))
        body.loop(done, "%n", 1, [group], lambda i, g: dealt(1, i, *g))
        bound = self._bound(none)
        k = Value(body, "%k", word)
        # of keys equal to the bound, the first k are enough, even if no key is before the bound
        less = body.intrinsic("umax", bound, bound.lift(1)) - 1

        def candidate(i: str, values: list[Value]) -> list[Value]:
            count, equals = values
            key = body.loaded(self.key, along(body, "%keys", str(nbytes), i))
            position = Value(body, i, word).converted("trunc" if self.kernel_key.key < 64 else "bitcast", self.key)
            self._put(key, position, count)
            return [count + 1, equals + key.compared("eq", bound).converted("zext", word)]

        def some(i: str, counts: list[Value], limits: Value) -> list[Value]:
            found = body.loaded(wide, along(body, "%keys", str(nbytes), i))
            mask = Value(body, lanes_as_bits(found.compared("ule", limits)), word)
            many = body.intrinsic("ctpop", mask)

            def one(_: str, values: list[Value]) -> list[Value]:
                left, *counts = values
                lane = body.call("llvm.cttz.i64", word, left, "i1 false")
                return [left & (left - 1), *candidate(body.op(f"add i64 {i}, {lane.name}"), counts)]

            return body.loop("0", many.name, 1, [mask, *counts], one)[1][1:]

        def limit(counts: list[Value]) -> Value:
            return body.chosen(counts[1].compared("uge", k), less, bound)

        whole = Value(body, "%n", word) & -self.lanes

        def block(b: str, counts: list[Value]) -> list[Value]:
            limits = body.splat(limit(counts), self.lanes)
            end = body.intrinsic("umin", Value(body, b, word) + BLOCK * self.lanes, whole).name
            return body.loop(b, end, self.lanes, counts, lambda i, counts: some(i, counts, limits))[1]

        blocks = body.op(f"add i64 {whole.name}, {(BLOCK - 1) * self.lanes}")
        counts = [body.constant(word, 0), body.constant(word, 0)]
        _, counts = body.loop("0", blocks, BLOCK * self.lanes, counts, block)
        last = limit(counts)

        def single(i: str, counts: list[Value]) -> list[Value]:
            found = body.loaded(self.key, along(body, "%keys", str(nbytes), i))
            # the next item overwrites one that is no candidate
            taken = found.compared("ule", last).converted("zext", word)
            more = candidate(i, counts)
            return [counts[0] + taken, more[1]]

        _, (count, _) = body.loop(whole.name, "%n", 1, counts, single)
        return count.name

    def _bound(self, none: Value) -> Value:
        """The k-th of the groups' first keys: the least key that k of them are not behind."""
        body, nbytes = self.body, self.kernel_key.key // 8
        k = Value(body, "%k", Kind("i64")).converted("trunc" if self.kernel_key.key < 64 else "bitcast", self.key)
        wanted = body.splat(k, self.lanes)

        def some(g: str, least: list[Value]) -> list[Value]:
            mine = body.loaded(none.kind, along(body, "%firsts", str(nbytes), g))

            def other(h: str, count: list[Value]) -> list[Value]:
                theirs = body.splat(body.loaded(self.key, along(body, "%firsts", str(nbytes), h)), self.lanes)
                return [count[0] - theirs.compared("ule", mine).converted("sext", mine.kind)]

            _, (count,) = body.loop("0", "%groups", 1, [body.constant(none.kind, 0)], other)
            return [body.intrinsic("umin", least[0], body.chosen(count.compared("uge", wanted), mine, none))]

        _, (least,) = body.loop("0", "%groups", self.lanes, [none], some)
        return body.call(f"llvm.vector.reduce.umin.v{self.lanes}i{self.kernel_key.key}", self.key, least)

    def _output(self, items: str, i: str) -> list[Value]:
        body, kernel_key = self.body, self.kernel_key
        item = body.loaded(self.item, along(body, items, str(self.item.bits // 8), i))
        low = item.converted("trunc", self.key)
        position = low.converted("zext", Kind("i64"))
        if kernel_key.values:
            element = body.loaded(Kind(f"i{8 * self.size}"), along(body, self.source, "%source_step", position.name))
            body.stored(element, along(body, self.values, "%values_step", i))
        if kernel_key.positions is not None:
            bits = kernel_key.positions.element_bits
            made = position if bits == 64 else position.converted("trunc", Kind(f"i{bits}"))
            body.stored(made, along(body, self.positions, "%positions_step", i))
        return []
