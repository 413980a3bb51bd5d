"""The kernels of Winograd's algorithm between the transform of inputs and the epilogue: products, and sums of products.

All numbers are float64. Tiles of outputs are rows and filters are columns: there may be few tiles, but usually there are enough
filters to fill a vector.
"""

from __future__ import annotations

from functools import partial

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.winograd.transform import BLOCK, TILE, TRANSFORMS
from anydml.kernels.copy.text import prefetch
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

# panels, rest: of tiles; vector: bytes from one vector of packed filters to the next; done: the terms summed so far
PRODUCTS = Signature("*a a_position panel panels *rest rest_term *filters vector groups terms done *line *into position row")
SUMS = Signature("*from position row vectors tile_rows tiles width *sums sums_row")


def wide(bits: Value, data_type: DataType) -> Value:
    """Elements as float64."""
    single = singles.widened(bits, data_type)
    return single.converted("fpext", bits.kind.of("double"))


class WinogradProducts:
    """The kernel of products: at each position, tiles times filters, summed over at most BLOCK terms."""

    def __init__(self, target: Target, height: int, rest: int, across: int, taps: int) -> None:
        self.transform = TRANSFORMS[taps]
        self.body, self.height, self.rest, self.across = Body(target), height, rest, across
        self.lanes = target.vector_bytes // 8
        self.kind = Kind("double", self.lanes)
        self.of_term = 8 * self.lanes * across
        self.of_position = self.of_term * BLOCK + 64  # padded, so that positions are in different sets of the cache

    def text(self) -> str:
        body = self.body
        PRODUCTS.load(body)
        self.begun = body.op("icmp eq i64 %done, 0")

        def group(g: str, _: list[Value]) -> list[Value]:
            filters = body.at("%filters", body.op(f"mul i64 {body.op(f'mul i64 {g}, {self.across}')}, %vector"))
            columns = body.at("%into", body.op(f"mul i64 {g}, {self.of_term}"))

            def line(i: str, _: list[Value]) -> list[Value]:
                for n in range(self.transform.read):
                    when(body, body.op(f"icmp eq i64 {i}, {n}"), partial(self._transform, filters, n))
                first = body.op(f"mul i64 {i}, {self.transform.read}")

                def position(j: str, _: list[Value]) -> list[Value]:
                    n = body.op(f"add i64 {first}, {j}")
                    offset, to = body.op(f"mul i64 {n}, %a_position"), body.at(columns, body.op(f"mul i64 {n}, %position"))
                    self._position(body.at("%line", body.op(f"mul i64 {j}, {self.of_position}")), offset, to)
                    return []

                body.loop("0", str(self.transform.read), 1, [], position)
                return []

            body.loop("0", str(self.transform.read), 1, [], line)
            return []

        body.loop("0", "%groups", 1, [], group)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _transform(self, filters: str, row: int) -> None:
        """Transform some filters at a line of positions, and prefetch a part of the next filters with each term."""
        body, single = self.body, self.kind.of("float")
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        of_filter = 4 * self.lanes * self.transform.elements
        ahead = of_filter * BLOCK + of_filter // self.transform.read * row

        def term(k: str, _: list[Value]) -> list[Value]:
            from_ = body.at(filters, body.op(f"mul i64 {k}, {of_filter}"))
            to = body.at("%line", body.op(f"mul i64 {k}, {self.of_term}"))
            for n in range(self.across):
                read = [body.loaded(single, from_, 4 * self.lanes * m) for m in range(self.transform.elements)]
                read = [x.converted("fpext", self.kind) for x in read]
                for j, x in enumerate(self.transform.of_filter(read, row)):
                    body.stored(x, to, self.of_position * j + 8 * self.lanes * n)
                body.do(f"call void @llvm.prefetch.p0(ptr {body.at(from_, ahead)}, i32 0, i32 2, i32 1)")
                from_ = body.at(from_, "%vector")
            return []

        body.loop("0", "%terms", 1, [], term)

    def _position(self, line: str, offset: str, to: str) -> None:
        """Multiply all tiles with some filters at a position."""
        body, height = self.body, self.height
        panels, of_panel = body.at("%a", offset), body.op(f"mul i64 %row, {height}")

        def panel(t: str, _: list[Value]) -> list[Value]:
            self._tile(
                height,
                body.at(panels, body.op(f"mul i64 {t}, %panel")),
                str(8 * height),
                line,
                body.at(to, body.op(f"mul i64 {t}, {of_panel}")),
            )
            return []

        body.loop("0", "%panels", 1, [], panel)
        if self.rest:
            self._tile(
                self.rest, body.at("%rest", offset), "%rest_term", line, body.at(to, body.op(f"mul i64 %panels, {of_panel}"))
            )

    def _tile(self, rows: int, a: str, of_term: str, line: str, into: str) -> None:
        body, kind, across = self.body, self.kind, self.across

        def step(k: str, carried: list[Value]) -> list[Value]:
            here = body.at(line, body.op(f"mul i64 {k}, {self.of_term}"))
            right = [body.loaded(kind, here, 8 * self.lanes * n) for n in range(across)]
            left = body.at(a, body.op(f"mul i64 {k}, {of_term}"))
            prefetch(body, 1, left, "%panel")
            made = []
            for m in range(rows):
                x = body.splat(body.loaded(Kind("double"), left, 8 * m), self.lanes)
                made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
            return made

        zero = body.constant(kind, 0.0)
        found = body.loop("0", "%terms", 1, [zero] * (rows * across), step)[1]
        for m in range(rows):
            at = body.at(into, body.op(f"mul i64 %row, {m}"))
            for n in range(across):
                before = body.loaded(kind, at, 8 * self.lanes * n)
                before = body.value(f"select i1 {self.begun}, {zero!r}, {before!r}", kind)
                body.stored(found[m * across + n] + before, at, 8 * self.lanes * n)


def masked(body: Body, kind: Kind, place: str, step: str | None, active: Value) -> Value:
    """The elements of the active lanes, contiguous or `step` bytes apart, and zeros in the others."""
    if step is None:
        return body.masked(kind, place, active)
    offsets = body.constants("i64", range(kind.lanes)) * body.splat(Value(body, step, Kind("i64")), kind.lanes)
    return body.masked(kind, place, active, offsets)


def products(target: Target, height: int, rest: int, across: int, taps: int) -> str:
    """The kernel that computes, at each position, tiles times filters, summed over at most BLOCK terms; arguments: PRODUCTS.

    a: panels of `height` tiles, `panel` bytes apart, term by term; rest: the remaining tiles. filters: packed, in `groups` of
    `across` vectors. line: scratch of `line_bytes`. into: for each position, `position` bytes apart, a row of filters for each
    tile, `row` bytes apart; if `done` is not 0, the sums are added to it.
    """
    return WinogradProducts(target, height, rest, across, taps).text()


def line_bytes(target: Target, taps: int) -> int:
    """Scratch for the transforms of some filters at a line of positions."""
    return TRANSFORMS[taps].read * (target.vector_bytes * tile.vectors(target) * BLOCK + 64)


def sums(target: Target, taps: int) -> str:
    """The kernel that transforms products to sums of windows; arguments: SUMS.

    from: for each position, `position` bytes apart, a row of products for each tile, `row` bytes apart. tile_rows x tiles: the
    tiles of outputs, in lines of `width` columns. sums: a row of float64 for each filter, `sums_row` bytes apart, with room
    for a vector of outputs after it.
    """
    winograd, body = TRANSFORMS[taps], Body(target)
    lanes = target.vector_bytes // 8
    kind = Kind("double", lanes)
    SUMS.load(body)
    next_line = body.op(f"mul i64 %position, {winograd.read}")
    at_once = max(lanes // TILE, 1)  # tiles of which each line fills a vector, or several
    groups = body.op(f"udiv i64 {body.op(f'add i64 %tiles, {at_once - 1}')}, {at_once}")
    last, line = body.op(f"sub i64 {groups}, 1"), body.op("mul i64 %width, 8")

    def vector(v: str, _: list[Value]) -> list[Value]:
        from_ = body.at("%from", body.op(f"mul i64 {v}, {8 * lanes}"))
        row = body.op(f"mul i64 {v}, {lanes}")
        rows = [body.at("%sums", body.op(f"mul i64 {body.op(f'add i64 {row}, {r}')}, %sums_row")) for r in range(lanes)]

        def tile_row(y: str, _: list[Value]) -> list[Value]:
            first = body.op(f"mul i64 {y}, %tiles")
            lines = body.op(f"mul i64 {body.op(f'mul i64 {y}, {TILE}')}, {line}")

            def group(n: str, _: list[Value]) -> list[Value]:
                # from the last to the first: what a group writes beyond its end is overwritten later
                t = body.op(f"mul i64 {body.op(f'sub i64 {last}, {n}')}, {at_once}")
                made: list[list[Value]] = [[] for _ in range(TILE)]
                for k in range(at_once):
                    row = body.op(f"add i64 {body.op(f'add i64 {first}, {t}')}, {k}")
                    at = body.at(from_, body.op(f"mul i64 {row}, %row"))
                    down = []
                    for _j in range(winograd.read):
                        column, here = [], at
                        for _i in range(winograd.read):
                            column.append(body.loaded(kind, here))
                            here = body.at(here, next_line)
                        down.append(winograd.of_output(column))
                        at = body.at(at, "%position")
                    for i in range(TILE):
                        made[i] += winograd.of_output([line[i] for line in down])
                into = body.op(f"add i64 {lines}, {body.op(f'mul i64 {t}, {8 * TILE}')}")
                for columns in made:
                    for k in range(0, len(columns), lanes):
                        for to, x in zip(rows, transposed(columns[k : k + lanes]), strict=True):
                            body.stored(x, body.at(to, into), 8 * k)
                    into = body.op(f"add i64 {into}, {line}")
                return []

            body.loop("0", groups, 1, [], group)
            return []

        body.loop("0", "%tile_rows", 1, [], tile_row)
        return []

    body.loop("0", "%vectors", 1, [], vector)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def transposed(xs: list[Value]) -> list[Value]:
    """The transpose of as many vectors as they have lanes."""
    (count,), body = {x.kind.lanes for x in xs}, xs[0].body
    assert count == len(xs)
    step = 1
    while step < count:
        low = [lane if not lane & step else count + lane - step for lane in range(count)]
        high = [lane + step if not lane & step else count + lane for lane in range(count)]
        made = list(xs)
        for i in range(count):
            if not i & step:
                made[i], made[i + step] = (_shuffled(body, xs[i], xs[i + step], order) for order in (low, high))
        xs, step = made, 2 * step
    return xs


def interleaved(body: Body, xs: list[Value]) -> Value:
    """Four vectors interleaved: the first lane of each, then the second lanes, .."""
    one = xs[0].kind
    low, high = (_shuffled(body, xs[k], xs[k + 1], list(range(2 * one.lanes))) for k in (0, 2))
    return _shuffled(body, low, high, [n * one.lanes + lane for lane in range(one.lanes) for n in range(4)])


def _shuffled(body: Body, x: Value, y: Value, order: list[int]) -> Value:
    mask = ", ".join(f"i32 {n}" for n in order)
    return body.value(f"shufflevector {x!r}, {y!r}, <{len(order)} x i32> <{mask}>", Kind(x.kind.element, len(order)))
