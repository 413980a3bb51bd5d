"""Emitters of strided copies: LLVM IR from plain functions.

The arguments of every kernel: source, target, n, source stride, target stride, DIMENSIONS triples (count, source stride,
target stride), innermost first, and the distance in the input at which to prefetch. n and the strides (bytes) before the
triples are those of the dimension that the kernel runs along by itself. No byte is read before the first or behind
the last element, and none is written that is no element: tails repeat a part of the last full block rather than step over
the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from anydml.kernels.cpu.jit.emit import Text, module, shuffle
from anydml.kernels.cpu.jit.targets import Target

DIMENSIONS = 7  # a tensor has eight, and one is the row
ARGUMENTS = 5 + 3 * DIMENSIONS + 1
LINE = 64  # bytes of a cache line
LANE = 16  # permutes of bytes work within lanes of 16
PREFETCHED = 4  # cache lines of a row to come: where that begins no processor foresees, the rest of it does
DECLARATIONS = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    "declare i64 @llvm.umin.i64(i64, i64)",
)
Body = Callable[[Text, str, str], None]


def _function(body: Body, *, first: int = 0, step: int = 0) -> str:
    """A kernel: `body(text, source, target)` for every combination of the outer dimensions from `first` on.

    `step`: bytes from group to group of the n in a row, where the rows to come are to be prefetched.
    """
    text = Text()
    for i, name in enumerate(("%n", "%source_stride", "%target_stride"), start=2):
        text.do(f"{name} = load i64, ptr {text.at('%arguments', 8 * i)}, align 8")
    for i, name in enumerate(("%source", "%target")):
        text.do(f"{name} = load ptr, ptr {text.at('%arguments', 8 * i)}, align 8")
    text.do("%outer = getelementptr i8, ptr %arguments, i64 40")
    levels = range(first, DIMENSIONS)
    bounds = {}
    for k in range(DIMENSIONS):
        bounds[k] = [text.load("i64", "%outer", 8 * (3 * k + j)) for j in range(3)]
    counters = text.op(f"alloca [{DIMENSIONS} x i64], align 8")
    for k in levels:
        text.do(f"store i64 0, ptr {text.at(counters, 8 * k)}, align 8")
    count, source_step, target_step = bounds[first]
    ahead = text.load("i64", "%outer", 24 * DIMENSIONS)
    extent = text.op(f"mul i64 {text.op('sub i64 %n, 1')}, {abs(step)}")
    text.jump("around")
    text.label("around")
    text.do("%S = phi ptr [ %source, %entry ], [ %S2, %again ]")
    text.do("%D = phi ptr [ %target, %entry ], [ %D2, %again ]")
    text.jump("row")
    text.label("row")
    text.do("%r = phi i64 [ 0, %around ], [ %r2, %rowdone ]")
    text.do("%s = phi ptr [ %S, %around ], [ %s2, %rowdone ]")
    text.do("%d = phi ptr [ %D, %around ], [ %d2, %rowdone ]")
    if step:
        soon = text.at("%s", ahead)
        for line in range(PREFETCHED):  # and none that the row does not reach
            near = text.op(f"call i64 @llvm.umin.i64(i64 {64 * line}, i64 {extent})")
            near = near if step > 0 else text.op(f"sub i64 0, {near}")
            text.do(f"call void @llvm.prefetch.p0(ptr {text.at(soon, near)}, i32 0, i32 3, i32 1)")
    body(text, "%s", "%d")  # falls through
    text.jump("rowdone")
    text.label("rowdone")
    text.do("%r2 = add i64 %r, 1")
    text.do(f"%s2 = getelementptr i8, ptr %s, i64 {source_step}")
    text.do(f"%d2 = getelementptr i8, ptr %d, i64 {target_step}")
    text.do(f"%more = icmp ult i64 %r2, {count}")
    text.branch("%more", "row", "carry0")
    # the odometer of the other dimensions: step the innermost that has a step left, rewind those within it
    source, target, resume = "%S", "%D", []
    text.label("carry0")
    for i, k in enumerate(list(levels)[1:]):
        count, source_step, target_step = bounds[k]
        counter = text.at(counters, 8 * k)
        now = text.op(f"add i64 {text.op(f'load i64, ptr {counter}, align 8')}, 1")
        source = text.op(f"getelementptr i8, ptr {source}, i64 {source_step}")
        target = text.op(f"getelementptr i8, ptr {target}, i64 {target_step}")
        text.branch(text.op(f"icmp ult i64 {now}, {count}"), f"step{i}", f"rewind{i}")
        text.label(f"step{i}")
        text.do(f"store i64 {now}, ptr {counter}, align 8")
        text.jump("again")
        resume.append((f"step{i}", source, target))
        text.label(f"rewind{i}")
        text.do(f"store i64 0, ptr {counter}, align 8")
        source_back = text.op(f"sub i64 0, {text.op(f'mul i64 {source_step}, {count}')}")
        target_back = text.op(f"sub i64 0, {text.op(f'mul i64 {target_step}, {count}')}")
        source = text.op(f"getelementptr i8, ptr {source}, i64 {source_back}")
        target = text.op(f"getelementptr i8, ptr {target}, i64 {target_back}")
    text.do("fence seq_cst")  # stores past the cache become visible before the call returns
    text.do("ret i64 0")
    text.label("again")
    text.do("%S2 = phi ptr " + ", ".join(f"[ {s}, %{label} ]" for label, s, _ in resume))
    text.do("%D2 = phi ptr " + ", ".join(f"[ {d}, %{label} ]" for label, _, d in resume))
    text.jump("around")
    return module([*DECLARATIONS, "define i64 @kernel(ptr noalias %arguments) {", "entry:", *text.lines, "}"])


def _if(text: Text, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    yes, no, end = text.name("then"), text.name("else"), text.name("end")
    text.branch(condition, yes, no if otherwise else end)
    text.label(yes)
    then()
    text.jump(end)
    if otherwise:
        text.label(no)
        otherwise()
        text.jump(end)
    text.label(end)


def _while(text: Text, start: str, step: int, condition: Callable[[str], str], body: Callable[[str], None]) -> str:
    """A counting loop from `start` while the condition holds; the value at which it ended."""
    before, head, inside, done = (text.name(stem) for stem in ("before", "while", "do", "done"))
    text.jump(before)
    text.label(before)
    text.jump(head)
    text.label(head)
    i, after, latch = "%" + text.name("i"), "%" + text.name("j"), text.name("latch")
    text.do(f"{i} = phi i64 [ {start}, %{before} ], [ {after}, %{latch} ]")
    text.branch(condition(i), inside, done)
    text.label(inside)
    body(i)
    text.jump(latch)
    text.label(latch)
    text.do(f"{after} = add i64 {i}, {step}")
    text.jump(head)
    text.label(done)
    return i


def _each(text: Text, single: Callable[[str], None]) -> None:
    """`single` for 0 .. n-1, four at a time."""

    def four(i: str) -> None:
        for j in range(4):
            single(text.op(f"add i64 {i}, {j}") if j else i)

    end = _while(text, "0", 4, lambda i: text.op(f"icmp ule i64 {text.op(f'add i64 {i}, 4')}, %n"), four)
    _while(text, end, 1, lambda i: text.op(f"icmp ult i64 {i}, %n"), single)


# --- contiguous rows ---


def rows(target: Target, stream: bool) -> str:
    """Rows of n contiguous bytes, n >= 1.

    With `stream`, whole cache lines of the output go past the cache, and no byte of them is stored any other way: a line that
    is written in both ways is fetched back from memory.
    """
    width = target.vector_bytes
    vector, block = f"<{width} x i8>", 4 * width

    def body(text: Text, s: str, d: str) -> None:
        def move(source: str, into: str, offsets: range, *, past_cache: bool = False) -> None:
            values = [text.load(vector, source, j) for j in offsets]
            for value, j in zip(values, offsets, strict=True):
                text.store(vector, value, into, j, stream=width if past_cache else 0)

        def blocks(start: str, size: int, *, past_cache: bool) -> str:
            def fits(i: str) -> str:
                return text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {size}')}, %n")

            def step(i: str) -> None:
                move(text.at(s, i), text.at(d, i), range(0, size, width), past_cache=past_cache)

            return _while(text, start, size, fits, step)

        def long() -> None:
            end = blocks("0", block, past_cache=False)
            back = text.op(f"sub i64 %n, {block}")
            rest = text.op(f"icmp ult i64 {end}, %n")
            _if(text, rest, lambda: move(text.at(s, back), text.at(d, back), range(0, block, width)))

        def long_past_cache() -> None:
            address = text.op(f"ptrtoint ptr {d} to i64")
            head = text.op(f"and i64 {text.op(f'sub i64 0, {address}')}, {LINE - 1}")
            _short(text, s, d, head, LINE, width)
            end = blocks(blocks(head, block, past_cache=True), LINE, past_cache=True)
            _short(text, text.at(s, end), text.at(d, end), text.op(f"sub i64 %n, {end}"), LINE, width)

        short = text.op(f"icmp ule i64 %n, {block}")
        _if(text, short, lambda: _short(text, s, d, "%n", block + 1, width), long_past_cache if stream else long)

    return _function(body)


def _short(text: Text, s: str, d: str, n: str, below: int, width: int) -> None:
    """Copy fewer than `below` contiguous bytes, perhaps none; each class of lengths is straight-line code.

    A class copies so many pieces from the front, and so many up to the end; in the middle they overlap.
    """
    classes = [(piece, count) for piece in (width, 16, 8, 4, 2, 1) for count in (2, 1) if piece <= width]
    classes = [c for c in dict.fromkeys(classes) if c[0] * c[1] < below and (c[1] == 1 or c[0] == width)]

    def emit(piece: int, count: int) -> None:
        kind = f"<{piece} x i8>" if piece > 8 else f"i{8 * piece}"
        back = text.op(f"sub i64 {n}, {piece * count}")
        places = [(s, d, piece * i) for i in range(count)]
        end = (text.at(s, back), text.at(d, back))
        places += [(*end, piece * i) for i in range(count)]
        values = [text.load(kind, at, offset) for at, _, offset in places]
        for value, (_, at, offset) in zip(values, places, strict=True):
            text.store(kind, value, at, offset)

    def descend(rungs: list[tuple[int, int]]) -> None:
        if rungs:
            (piece, count), *rest = rungs
            enough = text.op(f"icmp uge i64 {n}, {piece * count}")
            _if(text, enough, lambda: emit(piece, count), lambda: descend(rest))

    descend(classes)


# --- constant patterns ---


def groups(target: Target, pattern: tuple[int, ...], step: int, width: int, vectors: int, stream: bool) -> str:
    """Rows of n groups: byte b of group i comes from source + i * step + pattern[b]; groups are contiguous in the output.

    A block is as many groups as make a multiple of `vectors` whole vectors of `width` bytes.
    """
    group = len(pattern)
    per_block = groups_per_block(group, width, vectors)
    lanes = _chunks([i * step + offset for i in range(per_block) for offset in pattern])

    def body(text: Text, s: str, d: str) -> None:
        def single(i: str) -> None:
            source = text.at(s, text.op(f"mul i64 {i}, {step}"))
            into = text.at(d, text.op(f"mul i64 {i}, {group}"))
            pieces = _runs(pattern)
            values = [text.load(f"i{8 * size}", source, offset) for offset, _, size in pieces]
            for value, (_, at, size) in zip(values, pieces, strict=True):
                text.store(f"i{8 * size}", value, into, at)

        def block(i: str, *, past_cache: bool) -> None:
            assert lanes is not None
            source = text.at(s, text.op(f"mul i64 {i}, {step}"))
            into = text.at(d, text.op(f"mul i64 {i}, {group}"))
            for j, vector in enumerate(_vectors(text, source, lanes, width)):
                text.store(f"<{width} x i8>", vector, into, j * width, stream=width if past_cache else 0)

        def fits(i: str, count: int) -> str:
            return text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {count}')}, %n")

        def many() -> None:
            end = _while(text, "0", per_block, lambda i: fits(i, per_block), lambda i: block(i, past_cache=False))
            last = text.op(f"sub i64 %n, {per_block}")
            _if(text, text.op(f"icmp ult i64 {end}, %n"), lambda: block(last, past_cache=False))

        def many_past_cache() -> None:
            # a block is a cache line. Two at the front, up to the end of a line, and two at the end are stored plainly, so
            # that no line is stored in both ways; the caller promises that the output lies at multiples of the group
            address = text.op(f"ptrtoint ptr {d} to i64")
            to_line = text.op(f"and i64 {text.op(f'sub i64 0, {address}')}, {LINE - 1}")
            second = text.op(f"udiv i64 {to_line}, {group}")
            block("0", past_cache=False)
            block(second, past_cache=False)
            start = text.op(f"add i64 {second}, {per_block}")
            end = _while(text, start, per_block, lambda i: fits(i, 2 * per_block), lambda i: block(i, past_cache=True))
            block(end, past_cache=False)
            block(text.op(f"sub i64 %n, {per_block}"), past_cache=False)

        def one_by_one() -> None:
            _each(text, single)

        if lanes is None:
            one_by_one()
        else:
            least = text.op(f"icmp uge i64 %n, {4 * per_block if stream else per_block}")
            _if(text, least, many_past_cache if stream else many, one_by_one)

    return _function(body, step=step)


def groups_per_block(group: int, width: int, vectors: int) -> int:
    return math.lcm(group, width * vectors) // group


Lane = list[tuple[int, tuple[int, ...]]]


def _chunks(needed: list[int]) -> list[Lane] | None:
    """For each 16 output bytes: (input offset of 16 bytes to load, where each output byte is in them, or -1).

    No load leaves the bytes between the first and the last one needed. None where permutes do not pay: where the input
    spans less than a load, or moves of single runs would be fewer.
    """
    first, last = min(needed), max(needed)
    if last - first + 1 < LANE:
        return None
    lanes = []
    for at in range(0, len(needed), LANE):
        wanted = needed[at : at + LANE]
        lane: Lane = []
        left = sorted(set(wanted))
        while left:
            start = min(left[0], last - LANE + 1)
            lane.append((start, tuple(w - start if w in left and w < start + LANE else -1 for w in wanted)))
            left = [w for w in left if w >= start + LANE]
        lanes.append(lane)
    return lanes if sum(map(len, lanes)) <= len(_runs(tuple(needed))) else None


def _vectors(text: Text, source: str, lanes: list[Lane], width: int) -> list[str]:
    """The output vectors of a block: for each, the chunks of its lanes loaded side by side, permuted and united."""
    per_vector = width // LANE
    kind, lane_kind = f"<{width} x i8>", f"<{LANE} x i8>"
    vectors = []
    for at in range(0, len(lanes), per_vector):
        together = lanes[at : at + per_vector]
        united = ""
        for c in range(max(map(len, together))):
            # a lane with fewer chunks loads its last one again, and takes nothing of it
            chunks = [lane[c] if c < len(lane) else (lane[-1][0], (-1,) * LANE) for lane in together]
            loads = [text.load(lane_kind, source, start) for start, _ in chunks]
            if len(loads) == 1:
                joined = loads[0]
            else:
                joined = shuffle(text, loads[0], loads[1], lane_kind, range(2 * LANE))
            places = [p if p < 0 else p + LANE * i for i, (_, inside) in enumerate(chunks) for p in inside]
            mask = [width + j if p < 0 else p for j, p in enumerate(places)]  # from zero, where nothing is taken
            part = joined if mask == list(range(width)) else shuffle(text, joined, "zeroinitializer", kind, mask)
            united = text.op(f"or {kind} {united}, {part}") if united else part
        vectors.append(united)
    return vectors


def _runs(pattern: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """A group as moves of 8, 4, 2 or 1 bytes: (input offset, output offset, size)."""
    moves, at = [], 0
    while at < len(pattern):
        run = 1
        while at + run < len(pattern) and pattern[at + run] == pattern[at] + run:
            run += 1
        size = next(size for size in (8, 4, 2, 1) if size <= run)
        moves.append((pattern[at], at, size))
        at += size
    return moves


# --- single elements ---


def elements(target: Target, itemsize: int) -> str:
    """Rows of n elements, any stride on either side."""
    kind = f"i{8 * itemsize}"

    def body(text: Text, s: str, d: str) -> None:
        def single(i: str) -> None:
            source = text.at(s, text.op(f"mul i64 {i}, %source_stride"))
            into = text.at(d, text.op(f"mul i64 {i}, %target_stride"))
            text.store(kind, text.load(kind, source), into)

        _each(text, single)

    return _function(body)


# --- transpositions ---


def tiles(target: Target, itemsize: int) -> str:
    """Output rows of n elements that lie `source_stride` apart in the input; outer[0] walks contiguous input elements.

    A tile reads 16 bytes of each of `tall` input rows and writes `wide` output rows of a vector each. Tiles fill blocks of
    64 bytes along the output rows by 256 along the input rows: whole cache lines on both sides, and a few neighbouring lines
    of each input row, which memory gives together. The lines of the block to come are prefetched, because no processor
    foresees them. The last tiles are shifted back into the tensor.
    """
    width, lanes = target.vector_bytes, target.vector_bytes // LANE
    wide = LANE // itemsize
    tall, long, broad = wide * lanes, 64 // itemsize, 256 // itemsize
    kind = f"<{width} x i8>"

    def body(text: Text, s: str, d: str) -> None:
        across = text.load("i64", "%outer", 0)
        target_row = text.load("i64", "%outer", 16)

        def tile(i: str, j: str) -> None:
            source = text.at(s, text.op(f"mul i64 {j}, %source_stride"))
            source = text.at(source, text.op(f"mul i64 {i}, {itemsize}"))
            into = text.at(d, text.op(f"mul i64 {i}, {target_row}"))
            into = text.at(into, text.op(f"mul i64 {j}, {itemsize}"))
            loads = []
            for row in range(tall):
                loads.append(text.load(f"<{LANE} x i8>", source))
                if row + 1 < tall:
                    source = text.at(source, "%source_stride")
            if lanes == 2:  # the second half of the input rows goes to the upper lanes
                pairs = zip(loads[:wide], loads[wide:], strict=True)
                loads = [shuffle(text, low, high, f"<{LANE} x i8>", range(2 * LANE)) for low, high in pairs]
            for row, vector in enumerate(_transposed(text, loads, itemsize, width)):
                text.store(kind, vector, into)
                if row + 1 < wide:
                    into = text.at(into, target_row)

        def within(start: str, size: int, end: str, emit: Callable[[str], None], extent: int) -> None:
            """`emit` at start, start + size, .. below start + extent and end; the last one shifted back to end there."""
            stop = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'add i64 {start}, {extent}')}, i64 {end})")
            last = text.op(f"sub i64 {end}, {size}")

            def step(x: str) -> None:
                emit(text.op(f"call i64 @llvm.umin.i64(i64 {x}, i64 {last})"))

            _while(text, start, size, lambda x: text.op(f"icmp ult i64 {x}, {stop}"), step)

        def blocks(i0: str) -> None:
            def one(j0: str) -> None:
                soon = text.at(s, text.op(f"mul i64 {text.op(f'add i64 {j0}, {long}')}, %source_stride"))
                soon = text.at(soon, text.op(f"mul i64 {i0}, {itemsize}"))

                def prefetch(r: str) -> None:
                    line = text.at(soon, text.op(f"mul i64 {r}, %source_stride"))
                    for near in range(0, broad * itemsize, 64):
                        text.do(f"call void @llvm.prefetch.p0(ptr {text.at(line, near)}, i32 0, i32 3, i32 1)")

                _while(text, "0", 1, lambda r: text.op(f"icmp ult i64 {r}, {long}"), prefetch)
                within(i0, wide, across, lambda i: within(j0, tall, "%n", lambda j: tile(i, j), long), broad)

            _while(text, "0", long, lambda j0: text.op(f"icmp ult i64 {j0}, %n"), one)

        _while(text, "0", broad, lambda i0: text.op(f"icmp ult i64 {i0}, {across}"), blocks)

    return _function(body, first=1)


def _transposed(text: Text, rows: list[str], itemsize: int, width: int) -> list[str]:
    """The transposition of equally many rows and columns of elements, in every 16-byte lane: interleave, log2 times."""
    count = width // itemsize
    per_lane = LANE // itemsize
    element = f"<{count} x i{8 * itemsize}>"
    current = [text.op(f"bitcast <{width} x i8> {row} to {element}") for row in rows]
    half = len(current) // 2
    low = [lane + i // 2 + (count if i % 2 else 0) for lane in range(0, count, per_lane) for i in range(per_lane)]
    high = [x + per_lane // 2 for x in low]
    for _ in range(half.bit_length()):
        current = [shuffle(text, current[i // 2], current[i // 2 + half], element, (low, high)[i % 2]) for i in range(2 * half)]
    return [text.op(f"bitcast {element} {row} to <{width} x i8>") for row in current]
