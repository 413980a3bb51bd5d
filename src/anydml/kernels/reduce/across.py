"""The kernel of rows that run across those of a tensor: neighbouring rows are lanes, so that no lanes are merged at the end.

A vector has one element of each of several rows, which are contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise.geometry import MapDimension
from anydml.kernels.elementwise.items import stored_item
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.streams import CONTIGUOUS, PLACE, POSITION
from anydml.kernels.reduce.key import ReductionKey, signature
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.listed import RowList
from anydml.kernels.reduce.pool import PoolingBody
from anydml.kernels.reduce.walk import RowWalk
from anydml.kernels.undecided.lists import each_bit

REDUCTIONS = {"row_sum", "row_product", "row_max", "row_min", "row_first_largest", "row_first_smallest"}
SUMS = {"stream", "constant", "absolute", "row_sum", "div"}  # operations of sums and means
FEWEST = 4  # neighbouring rows, at least
OFTEN, SOMETIMES = 8, 64  # terms: a tenth of the sums of 8 normal FLOAT32 are ties, a fiftieth of those of 32
MOST_AGAIN = 1.25  # rows that are computed, for each row
BLOCK = 64  # elements that are added up before their sum is added to others
WORD = Kind("i64")
LINE, WAYS = 64, 8  # the bytes of a line of a cache, and the lines that it keeps at a distance of pages
MANY = 8  # groups, of which one more costs less than steps that read parts of two lines of a cache


def key_across(key: ReductionKey, row: MapDimension, outer: Sequence[MapDimension]) -> ReductionKey | None:
    """The key for rows as lanes; None if their layout or their formula does not allow it."""
    if key.mapped or key.formula[-1].op == "several" or not outer or outer[-1].size < FEWEST:
        return None
    if any(node.op.startswith("row_") and node.op not in REDUCTIONS for node in key.formula):
        return None
    sizes = [t.dtype.itemsize for t in key.types]
    side_by_side = all(outer[-1].strides[k] == size for k, size in enumerate(sizes))
    apart = all(abs(row.strides[k]) > size for k, size in enumerate(sizes[:-1]))
    if not side_by_side or not apart or any(x in (POSITION, PLACE) for x in key.layouts):
        return None
    lanes = _lanes(key, outer[-1].size)
    return key._replace(
        layouts=(CONTIGUOUS,) * len(key.types), lanes=lanes, unroll=1, keeps=False, staged=(), together=1, ahead=0
    )


def _lanes(key: ReductionKey, count: int) -> int:
    """The rows of a group, a power of two, of `count` neighbouring rows.

    Each step goes on to another line of memory, often in another page; so it reads several lines of a cache, unless many of its
    rows would belong to the group before. Sums of floats need more registers than extremes and integers.
    """
    floats = any(node.op in ("row_sum", "row_product") for node in key.formula) and any(t.is_float for t in key.types)
    wider = 4 if not floats else 1 if key.most <= WAYS or _sums_of_floats(key, SOMETIMES) else 2
    lanes = min(key.lanes * wider, 1 << count.bit_length() - 1)
    while lanes > key.lanes and -(-count // lanes) * lanes > count * MOST_AGAIN:
        lanes //= 2
    return lanes


def emitted(target: Target, key: ReductionKey, depth: int) -> str:
    """The kernel; arguments: `signature`. It returns 1 where it stopped, or has something on its list.

    depth: the most additions that a term of a sum goes through.
    """
    return _AcrossKernel(target, key, depth).text()


def depth_of(most: int, lines: int) -> int:
    """The most additions of a term, in rows of at most this many elements and lines, both powers of two: those in its block, of
    blocks, and of the rest of a line."""
    return BLOCK + most // BLOCK + lines * (BLOCK + 1) + 4


def _sums_of_floats(key: ReductionKey, most: int) -> bool:
    """Whether rows are sums of so few floats that many are ties, which only careful sums decide. Roots of them are not."""
    ops = {node.op for node in key.formula}
    most = most // 4 if "absolute" in ops else most  # sums of magnitudes are larger
    return key.most <= most and "row_sum" in ops and ops <= SUMS and any(t.is_float for t in key.types)


class _AcrossKernel:
    def __init__(self, target: Target, key: ReductionKey, depth: int) -> None:
        self.body, self.key, self.depth = PoolingBody(target, key.lanes), key, depth
        self.row = Row(self.body, key)
        self.streams = self.row.streams
        self.list = RowList(self.body, self.row)

    def text(self) -> str:
        body, key = self.body, self.key
        signature(key).load(body)
        self.streams.begin()
        start = self.list.begun()
        until = self.list.until(start)
        begin, end = body.op(f"add i64 %first, {start}"), body.op(f"add i64 %first, {until}")
        size = f"%n{key.outer - 1}"
        up = body.op(f"add i64 {end}, {size}")
        runs = body.op(f"udiv i64 {body.op(f'sub i64 {up}, 1')}, {size}")
        last = body.op(f"sub i64 {size}, {key.lanes}")

        def run(q: str, _: list[Value]) -> list[Value]:
            done = body.op(f"mul i64 {q}, {size}")
            low = body.call("llvm.smax.i64", WORD, f"i64 {body.op(f'sub i64 {begin}, {done}')}", "i64 0").name
            high = body.call("llvm.smin.i64", WORD, f"i64 {body.op(f'sub i64 {end}, {done}')}", f"i64 {size}").name
            count = body.op(f"sub i64 {high}, {low}")
            earlier = self._earlier(body.op(f"add i64 {done}, {low}"), count)
            up = body.op(f"add i64 {body.op(f'add i64 {count}, {earlier}')}, {key.lanes - 1}")
            groups = body.op(f"udiv i64 {up}, {key.lanes}")

            def group(g: str, _: list[Value]) -> list[Value]:
                after = body.op(f"sub i64 {body.op(f'mul i64 {g}, {key.lanes}')}, {earlier}")
                at = body.op(f"add i64 {low}, {body.call('llvm.smax.i64', WORD, f'i64 {after}', 'i64 0').name}")
                self.list.stop_if_full(body.op(f"sub i64 {body.op(f'add i64 {done}, {at}')}, %first"))
                # the last rows of a line begin earlier, so that they fill all lanes
                at = body.call("llvm.umin.i64", WORD, f"i64 {at}", f"i64 {last}").name
                self._group(body.op(f"add i64 {done}, {at}"))
                return []

            body.loop("0", groups, 1, [], group)
            return []

        body.loop(body.op(f"udiv i64 {begin}, {size}"), runs, 1, [], run)
        self.list.pause(until)
        self.list.end(start)
        body.begin()
        return kernel(body, list(body.declared))

    def _earlier(self, number: str, count: str) -> str:
        """By how many rows all groups but the first begin earlier, so that their steps read whole lines of a cache.

        number: the first row. count: the rows.
        """
        body, size = self.body, self.key.types[0].dtype.itemsize
        bits = min(self.key.lanes * size, LINE) - 1
        self.row.line = None
        address = body.op(f"ptrtoint ptr {self.row.starts(body.op(f'sub i64 {number}, %first'))[0]} to i64")
        rows = body.op(f"udiv i64 {body.op(f'and i64 {address}, {bits}')}, {size}")
        aligned = body.op(f"icmp eq i64 {body.op(f'and i64 %s0, {bits}')}, 0")
        many = body.op(f"icmp uge i64 {count}, {MANY * self.key.lanes}")
        worth = body.op(f"and i1 {body.op(f'and i1 {aligned}, {many}')}, {body.op(f'icmp ugt i64 %n, {WAYS}')}")
        return body.op(f"select i1 {worth}, i64 {rows}, i64 0")

    def _group(self, number: str) -> None:
        """Compute as many rows as there are lanes, from row `number` on."""
        body = self.body
        self.row.line = None
        bases = self.row.starts(body.op(f"sub i64 {number}, %first"))
        target = body.target
        careful = _sums_of_floats(self.key, OFTEN) and not target.later and target.probe is None
        made, undecided, improves = self._reduced(bases, careful=careful)
        self.streams.store("0", made)
        if undecided is None:
            return
        bits = lanes_as_bits(left_by_first_stage(undecided))
        improves &= not careful

        def again() -> None:
            made, undecided, _ = self._reduced(bases, careful=True)
            self.streams.store("0", made)
            if undecided is not None:
                self._note(number, lanes_as_bits(left_by_second_stage(undecided)))

        when(body, body.op(f"icmp ne i64 {bits}, 0"), again if improves else lambda: self._note(number, bits))

    def _note(self, number: str, bits: str) -> None:
        """List the undecided rows."""

        def put(lane: str) -> None:
            self.row.number = self.body.op(f"add i64 {number}, {lane}")
            self.list.put("0")

        each_bit(self.body, bits, put)

    def _reduced(self, bases: list[str], *, careful: bool) -> tuple[Value, Value | None, bool]:
        """The bits that are stored, the undecided rows, and whether careful sums may decide more."""
        body, key = self.body, self.key
        walk = RowWalk(body, key, frozenset(), careful=careful)
        for s in range(len(walk.stages.passes)):
            walk.fill_row(s)
            self._pass(walk, s, bases)
        walk.fill_row(len(walk.stages.passes))
        self.streams.bases = bases
        made, undecided = stored_item(body, walk.root(), key.types[-1], key.lanes, integral=key.integral)
        return made, undecided, walk.improves

    def _pass(self, walk: RowWalk, s: int, bases: list[str]) -> None:
        body, key, row = self.body, self.key, self.row
        mark = len(body.lines)
        row.put(walk, "0", {k: body.undefined(row.kinds[k]) for k in self.streams.inside})
        accumulators = walk.accumulators(s, self.depth)
        del body.lines[mark:]  # this code only served to find the types of the accumulators
        walk.forget()
        starts = [v for a in accumulators for v in a.starts]

        def line(values: list[Value]) -> list[Value]:
            begun = self.streams.bases

            def step(i: str, values: list[Value]) -> list[Value]:
                moved = [body.at(p, body.op(f"mul i64 {i}, %s{k}")) for k, p in enumerate(begun[:-1])]
                self.streams.bases = [*moved, begun[-1]]
                row.put(walk, "0", self.streams.whole("0"))
                walk.fill_pass(s)
                at = body.splat(Value(body, row.in_row(i), WORD), key.lanes)
                made = walk.stepped(s, accumulators, values, None, at)
                walk.forget()
                return made

            def block(i: str, values: list[Value]) -> list[Value]:
                _, made = body.loop(i, body.op(f"add i64 {i}, {BLOCK}"), 1, starts, step)
                found: list[Value] = []
                for a in accumulators:
                    first, end = len(found), len(found) + len(a.starts)
                    found += a.merged(values[first:end], made[first:end])
                return found

            i, values = body.loop("0", "%n", BLOCK, values, block)
            _, values = body.loop(i, "%n", 1, values, step)
            self.streams.bases = begun
            return values

        self.streams.bases = bases
        walk.finish(s, accumulators, [row.lines(starts, line)], across=True)
