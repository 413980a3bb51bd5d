"""The tile of a convolution whose columns are filters: some places of the output by a panel of them, held in registers.

Four bytes of A are four channels at a place of an image, which all filters of the panel multiply. So windows of any shape are
read where they lie, a place of the output needs no neighbours, and no column is computed twice but for filters. The sums end
with a filter's in every lane, and are turned as they are stored: a filter's places side by side.
"""

from __future__ import annotations

from anydml.kernels.code.emit import Text, arguments, fold, kernel, shuffle, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import rounding, rule
from anydml.kernels.contract.epilogue.filters import BIAS, COLUMN, SCALE, ZERO_POINT
from anydml.kernels.contract.tile import Kind, panel_columns

MOST = 14  # places of a tile: with two vectors of filters each, and what they are multiplied with, they fill the registers
SLOTS = 16  # places that are turned together
ARGUMENTS = (
    *("image", "line", "terms", "terms_line", "offsets", "steps", "b", "b_panel", "panels", "last"),
    *("c", "c_row", "c_line", "line_tiles", "tiles", "row", "columns", "modes"),
)
POINTERS = {"image", "terms", "offsets", "b", "c", "row", "columns", "modes"}


def serves(target: Target) -> bool:
    """Whether there are masked stores, 32 registers, and dot products of four bytes."""
    dot = dot_of(target)
    return target.architecture == "x86" and target.vector_bytes == 64 and dot.group == dot.depth == 4


def lines_of(width: int) -> int:
    """Lines of so many places that a tile is made of."""
    return min(MOST // width, 4 if width <= 3 else 3 if width == 4 else 2) if width <= MOST // 2 else 1


def multiply(target: Target, kind: Kind, lines: int, height: int) -> str:
    """Tiles of `lines` lines by `height` places: for `line_tiles` tiles, and `tiles` of each next to one another, all panels.

    Arguments: ARGUMENTS. line, c_line, terms_line: bytes from line to line. offsets: for each of the steps of K, how far in the
    image four channels are from a window's place. terms: int32, of every place. last: the filter that the last panel begins
    with. c_row: bytes from filter to filter.
    """
    dot, width = dot_of(target), target.vector_bytes
    size = 4 if kind.output == "i32" else 1
    vector, columns = f"<{width // 4} x i32>", panel_columns(target)
    text = Text()
    arguments(text, ARGUMENTS, POINTERS)
    places = [(line, i) for line in range(lines) for i in range(height)]
    slots = rounding.slots(text, target, len(places)) if size == 1 else None

    def tile(image: str, terms: str, c: str) -> None:
        images, from_lines, into_lines = (
            [text.at(x, text.op(f"mul i64 %{of}, {n}")) if n else x for n in range(lines)]
            for x, of in ((image, "line"), (terms, "terms_line"), (c, "c_line"))
        )

        def panel(p: str, _: list[str]) -> list[str]:
            inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
            column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
            record = text.at("%columns", text.op(f"mul i64 {p}, {COLUMN * columns}"))
            across = text.op(f"mul i64 {column}, %c_row")
            start = [_start(text, kind, text.load("i32", from_lines[n], 4 * i), record, vector) for n, i in places]
            sums = _sums(text, target, kind, start, images, places, text.at("%b", text.op(f"mul i64 {p}, %b_panel")))
            into = [text.at(x, across) for x in into_lines]
            if slots is None:
                _stored(text, target, sums, places, into)
            else:
                _rounded(text, target, kind, sums, places, into, record, slots)
            return []

        fold(text, "0", "%panels", 1, [], panel)

    def each(of_line: str, _: list[str]) -> list[str]:
        first = text.op(f"mul i64 {of_line}, {lines}")
        starts = [text.at(f"%{x}", text.op(f"mul i64 {first}, %{by}")) for x, by in _BY_LINE]

        def across(t: str, _: list[str]) -> list[str]:
            place = text.op(f"mul i64 {t}, {height}")
            far = [text.op(f"mul i64 {place}, {n}") for n in (4, 4, size)]
            tile(*(text.at(x, by) for x, by in zip(starts, far, strict=True)))
            return []

        fold(text, "0", "%tiles", 1, [], across)
        return []

    fold(text, "0", "%line_tiles", 1, [], each)
    text.do("ret i64 0")
    others = [*dot.declarations, "declare void @llvm.masked.store.v16i8.p0(<16 x i8>, ptr, i32, <16 x i1>)"]
    others.append("declare void @llvm.masked.store.v16i32.p0(<16 x i32>, ptr, i32, <16 x i1>)")
    if slots is not None:
        bias = BIAS - SCALE if kind.biased else None
        others += [*rounding.declarations(target), *rule.functions(target, kind.output == "i8", bias_at=bias)]
    return kernel(text, others)


_BY_LINE = (("image", "line"), ("terms", "terms_line"), ("c", "c_line"))


def _start(text: Text, kind: Kind, term: str, record: str, vector: str) -> list[str]:
    """The terms of a place and of its filters, which the sums begin with."""
    of_place, found = splat(text, term, vector), []
    for n in range(2):
        value = of_place
        if kind.full:
            value = text.op(f"mul {vector} {value}, {text.load(vector, record, ZERO_POINT + 64 * n)}")
        found.append(text.op(f"add {vector} {value}, {text.load(vector, record, 64 * n)}"))
    return found


def _sums(
    text: Text,
    target: Target,
    kind: Kind,
    start: list[list[str]],
    images: list[str],
    places: list[tuple[int, int]],
    b: str,
) -> list[list[str]]:
    """The terms, and the sums of the tile's products."""
    dot, vector = dot_of(target), f"<{target.vector_bytes // 4} x i32>"
    origin, body, after = (text.name(x) for x in ("from", "body", "after"))
    old, new = ([[f"%{text.name(x)}" for _ in row] for row in start] for x in "cd")
    i, j, here, further = (f"%{text.name(x)}" for x in "ijpq")
    text.jump(origin)
    text.label(origin)
    text.jump(body)
    text.label(body)
    for row in zip(start, old, new, strict=True):
        for x, y, z in zip(*row, strict=True):
            text.do(f"{y} = phi {vector} [ {x}, %{origin} ], [ {z}, %{body} ]")
    text.do(f"{here} = phi ptr [ {b}, %{origin} ], [ {further}, %{body} ]")
    text.do(f"{i} = phi i64 [ 0, %{origin} ], [ {j}, %{body} ]")
    offset = text.load("i64", text.op(f"getelementptr i64, ptr %offsets, i64 {i}"))
    filters = [text.load(vector, here, 64 * n) for n in range(2)]
    windows = [text.at(image, offset) for image in images]
    for (line, at), sums, into in zip(places, old, new, strict=True):
        a = splat(text, text.load("i32", windows[line], 4 * at), vector)
        for x, y, b_ in zip(sums, into, filters, strict=True):
            value = dot.emit(text, x, a, b_, kind.a_signed, kind.b_signed)
            text.do(f"{y} = bitcast {vector} {value} to {vector}")
    text.do(f"{further} = getelementptr i8, ptr {here}, i64 128")
    text.do(f"{j} = add i64 {i}, 1")
    text.branch(text.op(f"icmp eq i64 {j}, %steps"), after, body)
    text.label(after)
    return new


def _slots(places: list[tuple[int, int]]) -> tuple[list[int | None], int]:
    """The place that is in each slot, a line's side by side, and the slots of a line."""
    lines = places[-1][0] + 1
    each = SLOTS // (4 if lines > 2 else lines)
    found: list[int | None] = [None] * SLOTS
    for at, (line, i) in enumerate(places):
        found[line * each + i] = at
    return found, each


def _masked(text: Text, value: str, kind: str, into: list[str], places: list[tuple[int, int]], each: int) -> None:
    """The places of every line, from the slots of a vector, and nothing beside them."""
    element = int(kind[7:-1]) // 8
    for line, there in enumerate(into):
        bits = (int((line, slot - line * each) in places) for slot in range(SLOTS))
        mask = ", ".join(f"i1 {bit}" for bit in bits)
        at = text.at(there, -line * each * element)
        suffix = f"v16{kind[6:-1]}"
        text.do(f"call void @llvm.masked.store.{suffix}.p0({kind} {value}, ptr {at}, i32 1, <16 x i1> <{mask}>)")


def _stored(text: Text, target: Target, sums: list[list[str]], places: list[tuple[int, int]], into: list[str]) -> None:
    """Sums as they are, int32: 16 places by 16 filters are turned at a time."""
    slots, each = _slots(places)
    kind, half = "<16 x i32>", SLOTS // 2
    for n in range(2):
        rows = ["poison" if at is None else sums[at][n] for at in slots]
        for _ in range(4):  # each takes the highest bit of {slot, lane} to the end
            rows = [
                shuffle(
                    text, rows[i], rows[i + half], kind, [x for lane in range(first, first + half) for x in (lane, lane + 16)]
                )
                for i in range(half)
                for first in (0, half)
            ]
        for value in rows:
            _masked(text, value, kind, into, places, each)
            into = [text.at(x, "%c_row") for x in into]


def _rounded(
    text: Text,
    target: Target,
    kind: Kind,
    sums: list[list[str]],
    places: list[tuple[int, int]],
    into: list[str],
    record: str,
    waiting: rounding.Slots,
) -> None:
    """The rounded bytes of a tile: places whose estimate is too near a tie are done again, by the rule."""
    width = target.vector_bytes
    ints, floats, bytes_ = f"<{width // 4} x i32>", f"<{width // 4} x float>", f"<{width} x i8>"
    slots, each = _slots(places)
    height = places[-1][1] + 1
    threshold = splat(text, text.load("float", "%modes"), floats)
    always = text.op(f"icmp ne i64 {text.op(f'load i64, ptr {waiting.always}, align 8')}, 0")
    factor = splat(text, text.load("float", "%row", rule.ESTIMATE[0]), floats)
    zero_point = text.op(f"trunc i32 {text.load('i32', '%row', rule.ZERO_POINT[0])} to i16")
    zero_points = splat(text, zero_point, f"<{width // 2} x i16>")
    scales = [text.op(f"fmul {floats} {text.load(floats, record, SCALE + 64 * n)}, {factor}") for n in range(2)]
    turned: list[list[str]] = [[], []]
    rounding.counted(text, waiting)
    count, before = "0", text.name("guess")
    text.jump(before)
    text.label(before)
    for group in range(0, SLOTS, 4):
        there = [at for at in slots[group : group + 4] if at is not None]
        if not there:
            for of in turned:
                of.append("poison")
            continue
        outputs: dict[int, list[str]] = {}
        for at in there:
            outputs[at], both = [], []
            for n in range(2):
                value, distance = rounding.estimated(text, target, sums[at][n], scales[n])
                outputs[at].append(value)
                both.append(distance)
            near = rounding.any_not_below(text, target, rounding.largest(text, target, both), threshold)
            wait, go, now = text.name("wait"), text.name("go"), f"%{text.name('waiting')}"
            text.branch(text.op(f"or i1 {near}, {always}"), wait, go, seldom=True)
            text.label(wait)
            slot = text.at(waiting.sums, text.op(f"mul i64 {count}, {2 * width}"))
            for n, value in enumerate(sums[at]):
                text.store(ints, value, slot, n * width)
            text.store("i64", str(at), text.at(waiting.rows, text.op(f"mul i64 {count}, 8")))
            more = text.op(f"add i64 {count}, 1")
            text.jump(go)
            text.label(go)
            text.do(f"{now} = phi i64 [ {count}, %{before} ], [ {more}, %{wait} ]")
            count, before = now, go
        chosen = [there[0] if at is None else at for at in slots[group : group + 4]]
        for n in range(2):
            packed = rounding.saturated(text, target, kind.output == "i8", [outputs[at][n] for at in chosen], zero_points)
            order = [16 * lane + 4 * place + f for lane in range(width // 16) for f in range(4) for place in range(4)]
            turned[n].append(text.op(f"bitcast {bytes_} {shuffle(text, packed, packed, bytes_, order)} to {ints}"))
    places_of = into
    for of in turned:
        # four places' bytes of a filter are a lane, and then sixteen are four
        pairs = [_unpacked(text, of[i], of[i + 1], high, 1) for i in (0, 2) for high in (0, 1)]
        fours = [_unpacked(text, pairs[i], pairs[i + 2], high, 2) for i in (0, 1) for high in (0, 1)]
        fours = [text.op(f"bitcast {ints} {x} to {bytes_}") for x in fours]
        for f in range(16):
            value = shuffle(text, fours[f % 4], fours[f % 4], bytes_, range(f // 4 * 16, f // 4 * 16 + 16))
            _masked(text, value, "<16 x i8>", into, places, each)
            into = [text.at(x, "%c_row") for x in into]

    def again() -> None:
        def place(i: str, _: list[str]) -> list[str]:
            at = text.load("i64", text.at(waiting.rows, text.op(f"mul i64 {i}, 8")))
            from_ = text.at(waiting.sums, text.op(f"mul i64 {i}, {2 * width}"))
            line, x = (text.op(f"{how} i64 {at}, {height}") for how in ("udiv", "urem"))
            far = text.op(f"add i64 {text.op(f'mul i64 {line}, %c_line')}, {x}")
            text.do(f"call void @rule(ptr {from_}, ptr %row, ptr {text.at(record, SCALE)}, ptr {waiting.rounded})")

            def one(f: str, state: list[str]) -> list[str]:
                text.store("i8", text.load("i8", text.at(waiting.rounded, f)), state[0])
                return [text.at(state[0], "%c_row")]

            fold(text, "0", str(2 * width // 4), 1, [("ptr", text.at(places_of[0], far))], one)
            return []

        fold(text, "0", count, 1, [], place)
        rounding.judged(text, waiting, count, len(places))

    when(text, text.op(f"icmp ne i64 {count}, 0"), again)


def _unpacked(text: Text, first: str, second: str, high: int, words: int) -> str:
    """Runs of so many words, alternately of two vectors, from the lower or upper halves of their lanes of 16 bytes."""
    halves = [range(lane + 2 * high, lane + 2 * high + 2) for lane in range(0, 16, 4)]
    order = []
    for half in halves:
        for i in range(0, 2, words):
            order += [*half[i : i + words], *(x + 16 for x in half[i : i + words])]
    return shuffle(text, first, second, "<16 x i32>", order)
