"""The kernel of running sums and products of neighbouring lines: blocks of rows, each over all lines.

Scratch has each line's sum so far and, for floats, the least exponent of its elements. float64 holds a sum exactly if it is at
most 2^53 units of the smallest binary place of the elements before it. A block of rows is stored if this is so for all of its
lines. Otherwise a group computes the rest of these lines (group.py).
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import probe
from anydml.kernels.code.emit import along, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.copy.text import short
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.irregular.loops import walk
from anydml.kernels.numbers import singles
from anydml.kernels.scan.emit import FIRST, Resumed, lanes_of
from anydml.kernels.scan.group import ScanKey, called, finished, group, lefts, picked, zero_of_none
from anydml.tensor import DataType

ROWS = 4  # rows of a block: with more, rows that are 4 KiB apart evict one another from the cache
STRIP = 1024  # lines whose sums stay in the cache
SIDE_BY_SIDE = FIRST + Signature("lines *columns *staged")
NONE, LEFT = 0x7FFFFFFF, -1  # instead of the bits of a least element: no element yet; a group has computed the rest
INFINITY = 0x7F800000
STEP = 1 << 23  # the unit of the exponent in the bits of a float32
PLACES = 29 * STEP  # the largest difference of exponents of a sum and an element: 53 places less the 24 of an element


def columns_bytes(target: Target, key: ScanKey, lines: int) -> tuple[int, int]:
    """The bytes of scratch: the lines' sums, and a block of the last few lines."""
    lanes = lanes_of(target)
    strip = min((-(-lines // lanes) + 1) * lanes, STRIP)
    return strip * 12 if key.floating else strip * key.size, 2 * ROWS * lanes * key.size


def emitted(target: Target, key: ScanKey) -> str:
    """The kernel. Arguments: SIDE_BY_SIDE, loops of (source, target) around the lines."""
    body = Body(target)
    SIDE_BY_SIDE.load(body)
    items, lanes = Resumed(body), lanes_of(target)
    groups = [group(target, key, n) for n in (lanes, 1)] if key.floating else []
    groups.append((_moved(target, lanes * key.size), []))

    def line(at: list[str], count: str, strides: list[str]) -> None:
        items.turn()
        missing = _missing(body, at[1], lanes, key.size)

        def strip(place: str, _: list[Value]) -> list[Value]:
            own = body.op(f"select i1 {body.op(f'icmp eq i64 {place}, 0')}, i64 {missing}, i64 0")
            end = body.op(f"sub i64 {body.op(f'add i64 {place}, {STRIP}')}, {missing}")
            first = body.op(f"add i64 {body.op(f'sub i64 {place}, {missing}')}, {own}")
            width = body.op(f"sub i64 {_least(body, end, '%lines')}, {first}")
            places = [body.at(place, body.op(f"mul i64 {first}, {key.size}")) for place in at]
            _ScanStrip(body, key, items, places, first, width, own).compute()
            return []

        # the last strip is narrower
        more = body.op(f"add i64 {body.op(f'add i64 %lines, {missing}')}, {STRIP - 1}")
        body.loop("0", body.op(f"and i64 {more}, {-STRIP}"), STRIP, [], strip)

    walk(body, body.at("%arguments", SIDE_BY_SIDE.end), ["%source", "%target"], line)
    items.end()
    return finished(body, groups)


def bits_of_exact(sums: Value, data_type: DataType) -> Value:
    """The bits of elements that store exact sums."""
    if sums.body.target.probe is not None:
        return probe.record(sums, sums.lift(0.0), sums.lift(0.0), data_type.element_bits)
    return singles.narrowed(sums, data_type)


def _least(body: Body, x: str, y: str) -> str:
    return body.op(f"select i1 {body.op(f'icmp ult i64 {x}, {y}')}, i64 {x}, i64 {y}")


def _missing(body: Body, target: str, lanes: int, size: int) -> str:
    """The number of lanes that the first vector leaves out, so that all others are aligned to their size."""
    width = lanes * size
    past = body.op(f"and i64 {body.op(f'ptrtoint ptr {target} to i64')}, {width - 1}")
    apart = body.op(f"or i64 {body.op(f'and i64 {past}, {size - 1}')}, {body.op(f'and i64 %target_step, {width - 1}')}")
    pays = body.op(f"and i1 {body.op(f'icmp eq i64 {apart}, 0')}, {body.op(f'icmp uge i64 %lines, {8 * lanes}')}")
    return body.op(f"select i1 {pays}, i64 {body.op(f'udiv i64 {past}, {size}')}, i64 0")


def _moved(target: Target, most: int) -> str:
    """`void @moved(ptr, i64, ptr, i64, i64 rows, i64 nbytes)`, which copies rows of fewer than `most` bytes between strides."""
    body = Body(target)

    def row(r: str, _: list[Value]) -> list[Value]:
        short(body, along(body, "%at", "%step", r), along(body, "%to", "%to_step", r), "%bytes", most, target.vector_bytes)
        return []

    body.loop("0", "%rows", 1, [], row)
    head = "define internal void @moved(ptr %at, i64 %step, ptr %to, i64 %to_step, i64 %rows, i64 %bytes) noinline {"
    return "\n".join([head, "entry:", *body.lines, "  ret void", "}"])


class _ScanStrip:
    """Lines that are computed together.

    at: the addresses of the first one, the line `first`, in source and target. missing: lanes that are left out before it.
    """

    def __init__(self, body: Body, key: ScanKey, items: Resumed, at: list[str], first: str, width: str, missing: str) -> None:
        self.body, self.key, self.items, self.at, self.first, self.width = body, key, items, at, first, width
        self.missing = missing
        self.lanes = lanes_of(body.target)
        self.element = Kind(f"i{8 * key.size}", self.lanes)
        self.sum = Kind("double", self.lanes) if key.floating else self.element
        up = body.op(f"add i64 {body.op(f'add i64 {width}, {missing}')}, {self.lanes - 1}")
        self.padded = body.op(f"and i64 {up}, {-self.lanes}")
        # the least elements are stored after the sums
        self.least = body.at("%columns", body.op(f"mul i64 {self.padded}, {self.sum.bits // 8}"))

    def compute(self) -> None:
        self.items.item(self._start)
        done, _ = self.body.loop("0", "%n", ROWS, [], lambda row, _: self._rows(row, ROWS))
        self.body.loop(done, "%n", 1, [], lambda row, _: self._rows(row, 1))

    def _start(self) -> None:
        body = self.body
        # the sum of zeros is -0 if all of them are
        first = body.constant(self.sum, -0.0 if self.key.floating else int(self.key.product))

        def step(c: str, _: list[Value]) -> list[Value]:
            body.stored(first, self._sums(c))
            if self.key.floating:
                body.stored(body.constant(Kind("i32", self.lanes), NONE), self._leasts(c))
            return []

        body.loop("0", self.padded, self.lanes, [], step)

    def _sums(self, c: str) -> str:
        return self.body.at("%columns", self.body.op(f"mul i64 {c}, {self.sum.bits // 8}"))

    def _leasts(self, c: str) -> str:
        return self.body.at(self.least, self.body.op(f"mul i64 {c}, 4"))

    def _rows(self, row: str, rows: int) -> list[Value]:
        body = self.body
        places = [along(body, place, f"%{side}_step", row) for side, place in zip(("source", "target"), self.at, strict=True)]

        def step(c: str, _: list[Value]) -> list[Value]:
            if not self.key.floating:
                self._block(row, rows, c, places)
                return []
            left = body.op(f"icmp eq i32 {body.load('i32', self._leasts(c))}, {LEFT}")
            when(body, body.op(f"xor i1 {left}, true"), lambda: self._block(row, rows, c, places))
            return []

        def lines(first: str) -> None:
            body.loop(first, self.padded, self.lanes, [], step)

        self.items.lines(lines)
        return []

    def _block(self, row: str, rows: int, c: str, places: list[str]) -> None:
        """A block of rows of as many lines as a vector has lanes; if there are fewer lines, through scratch."""
        body, size = self.body, self.key.size
        place = body.op(f"sub i64 {c}, {self.missing}")
        line = body.op(f"select i1 {body.op(f'icmp eq i64 {c}, 0')}, i64 0, i64 {place}")
        offset = body.op(f"mul i64 {line}, {size}")
        source, target = (body.at(place, offset) for place in places)
        left = body.op(f"sub i64 {_least(body, body.op(f'add i64 {place}, {self.lanes}'), self.width)}, {line}")
        partial, width = body.op(f"icmp ult i64 {left}, {self.lanes}"), self.lanes * size
        nbytes = body.op(f"mul i64 {left}, {size}")
        staged_target = body.at("%staged", ROWS * width)

        def moved(at: str, step: str | int, to: str, to_step: str | int) -> None:
            sides = f"ptr {at}, i64 {step}, ptr {to}, i64 {to_step}"
            body.do(f"call void @moved({sides}, i64 {rows}, i64 {nbytes})")

        def stage_in() -> None:
            moved(source, "%source_step", "%staged", width)

        def stage_out() -> None:
            moved(staged_target, width, target, "%target_step")

        when(body, partial, stage_in)
        ends = []
        for real, stage, side in ((source, "%staged", "source"), (target, staged_target, "target")):
            at = body.op(f"select i1 {partial}, ptr {stage}, ptr {real}")
            ends.append((at, body.op(f"select i1 {partial}, i64 {width}, i64 %{side}_step")))

        def stored() -> None:
            when(body, partial, stage_out)

        def otherwise() -> None:
            self._left_to_group(row, c, line, (source, target), left)

        # the other lanes are arbitrary
        beyond = body.op(f"shl i64 -1, {body.op(f'select i1 {partial}, i64 {left}, i64 {self.lanes}')}")
        self._computed(row, rows, c, ends, body.op(f"xor i64 {beyond}, -1"), stored, otherwise)

    def _computed(
        self,
        row: str,
        rows: int,
        c: str,
        ends: list[tuple[str, str]],
        lanes: str,
        stored: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Compute a block. lanes: a mask of the lanes that count. stored, otherwise: emit code for a block that is stored, and
        for one that is not."""
        body, key = self.body, self.key
        (source, source_step), (target, target_step) = ends
        read = [along(body, source, source_step, str(r)) for r in range(rows)]
        loaded = [body.loaded(self.element, place) for place in read]
        at = [along(body, target, target_step, str(r)) for r in range(rows)]
        if not key.floating:
            sums = body.loaded(self.sum, self._sums(c))
            made = []
            for x in loaded:
                after = sums * x if key.product else sums + x
                made.append(sums if key.exclusive else after)
                sums = after
            for value, place in zip(made, at, strict=True):
                body.stored(value, place)
            body.stored(sums, self._sums(c))
            stored()
            return
        word, half = Kind("i32", self.lanes), self.lanes // 2
        least = body.loaded(word, self._leasts(c))
        largest = body.constant(word, 0)
        elements = [singles.widened(bits, key.data_type) for bits in loaded]
        for x in elements:
            size = x.bits() & NONE
            largest = body.intrinsic("umax", largest, size)
            least = body.intrinsic("umin", least, size - 1)  # all ones for 0
        # the sums of one vector of floats take two registers
        stores: list[tuple[Value, str, int]] = []
        after_all, begins = list[tuple[Value, int]](), list[Value]()
        for first in (0, half):
            sums = body.loaded(Kind("double", half), self._sums(c), 8 * first)
            begins.append(sums.converted("fptrunc", Kind("float", half)))
            for r, x in enumerate(elements):
                if key.size == 4:
                    part = body.loaded(Kind("float", half), read[r], 4 * first)
                else:
                    part = picked(x, x, range(first, first + half))
                after = sums + part.converted("fpext", sums.kind)
                value = zero_of_none(body, sums, body.op(f"add i64 {row}, {r}")) if key.exclusive else after
                stores.append((bits_of_exact(value, key.data_type), at[r], key.size * first))
                sums = after
            after_all.append((sums, first))
        begun = picked(begins[0], begins[1], range(self.lanes)).bits() & NONE
        # the sum before, and four times the largest element, are each at most half of the limit; the differences have a sign
        lost = (begun - least).compared("sgt", PLACES - STEP) | (largest - least).compared("sgt", PLACES - 3 * STEP)
        lost = lost | body.intrinsic("umax", begun, largest).compared("uge", INFINITY)
        there = body.op(f"and i64 {lanes_as_bits(lost)}, {lanes}")
        some = body.op(f"icmp ne i64 {there}, 0")
        exactly, inexactly, done = (body.name(x) for x in ("exactly", "inexactly", "done"))
        body.branch(some, inexactly, exactly, seldom=True)
        body.label(exactly)
        for value, place, offset in stores:
            body.stored(value, place, offset)
        for value, first in after_all:
            body.stored(value, self._sums(c), 8 * first)
        body.stored(least, self._leasts(c))
        stored()
        body.jump(done)
        body.label(inexactly)
        otherwise()
        body.jump(done)
        body.label(done)

    def _left_to_group(self, row: str, c: str, line: str, real: tuple[str, str], left: str) -> None:
        """Let a group compute the rest of lines, from a row on."""
        body, lanes, size = self.body, self.lanes, self.key.size
        body.stored(body.constant(Kind("i32", lanes), LEFT), self._leasts(c))
        body.stored(body.loaded(self.sum, self._sums(c)), "%begun")
        body.stored(body.constant(self.sum, 0.0), "%begun", lefts(body.target))
        rest = body.op(f"sub i64 %n, {row}")
        numbers = (row, rest, "%source_step", "%target_step", size, size)
        whole = body.op(f"icmp uge i64 {left}, {lanes}")
        line, further = body.op(f"add i64 {self.first}, {line}"), body.op(f"add i64 {c}, {lanes}")

        def together() -> None:
            mask = called(body, lanes, ("%begun", "%kept", *real), (lanes * size, *numbers))
            self.items.stop_if(mask, str(lanes), line, row, further)

        def one_by_one() -> None:
            apart = body.op(f"mul i64 {left}, {size}")

            def step(i: str, masks: list[Value]) -> list[Value]:
                offset = body.op(f"mul i64 {i}, {size}")
                begun = body.at("%begun", body.op(f"mul i64 {i}, 8"))
                mask = called(body, 1, (begun, *(body.at(p, offset) for p in ("%kept", *real))), (apart, *numbers))
                return [masks[0] | Value(body, body.op(f"shl i64 {mask}, {i}"), Kind("i64"))]

            _, (mask,) = body.loop("0", left, 1, [body.constant(Kind("i64"), 0)], step)
            self.items.stop_if(mask.name, left, line, row, further)

        when(body, whole, together)
        when(body, body.op(f"xor i1 {whole}, true"), one_by_one)
