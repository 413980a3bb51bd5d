"""Copies with a contiguous output and a constant pattern of input offsets: loads of 16 bytes, permuted and combined."""

from __future__ import annotations

import math
from functools import partial

from anydml.kernels.code.emit import Text, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.emit import FETCHED, along, kernel, region
from anydml.kernels.copy.text import LINE, Prefetch, each, loop, prefetch, to_multiple, when

LANE = 16  # instructions that permute bytes do so within lanes of 16


def groups(
    target: Target,
    pattern: tuple[int, ...],
    step: int,
    width: int,
    vectors: int,
    stream: bool,
    dense: bool = False,
    ahead: Prefetch | None = None,
) -> str:
    """Rows of n groups: byte b of group i comes from source + i * step + pattern[b]; groups are contiguous in the output.

    A block is the fewest groups whose bytes are a multiple of `vectors` vectors of `width` bytes.
    """
    group = len(pattern)
    per_block = groups_per_block(group, width, vectors)
    lanes = _chunks([i * step + offset for i in range(per_block) for offset in pattern])
    single_constant = step == 0 and pattern in [tuple(range(n)) for n in (1, 2, 4, 8)]

    def body(text: Text, s: str, d: str) -> None:
        extent = text.op(f"mul i64 %n, {abs(step)}")

        def single(i: str) -> None:
            source = text.at(s, text.op(f"mul i64 {i}, {step}"))
            into = text.at(d, text.op(f"mul i64 {i}, {group}"))
            pieces = _runs(pattern)
            values = [text.load(f"i{8 * size}", source, offset) for offset, _, size in pieces]
            for value, (_, at, size) in zip(values, pieces, strict=True):
                text.store(f"i{8 * size}", value, into, at)

        same: list[str] = []  # the vectors of every block, where all blocks are the same constant

        def block(i: str, *, past_cache: bool) -> None:
            source = text.at(s, text.op(f"mul i64 {i}, {step}"))
            into = text.at(d, text.op(f"mul i64 {i}, {group}"))
            if ahead and 0 < abs(step) <= LINE:
                at = text.op(f"mul i64 {i}, {abs(step)}")
                along(text, ahead, s, at, extent, abs(step) * per_block, down=step < 0)
            for j, vector in enumerate(same or _vectors(text, source, lanes or [], width)):
                text.store(f"<{width} x i8>", vector, into, j * width, stream=width if past_cache else 0)

        def fits(i: str, count: int) -> str:
            return text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {count}')}, %n")

        def constant() -> None:
            if single_constant:
                element = f"i{8 * group}"
                found = splat(text, text.load(element, s), f"<{width // group} x {element}>")
                vector = text.op(f"bitcast <{width // group} x {element}> {found} to <{width} x i8>")
                same.extend([vector] * (per_block * group // width))
            elif step == 0:
                same.extend(_vectors(text, s, lanes or [], width))

        def many() -> None:
            constant()
            start = "0"
            if LINE % group == 0:  # in long rows, vectors of the output are aligned to their width
                head = text.op(f"udiv i64 {to_multiple(text, d, width)}, {group}")
                start = text.op(f"select i1 {text.op(f'icmp uge i64 %n, {4 * per_block}')}, i64 {head}, i64 0")
                when(text, text.op(f"icmp ne i64 {start}, 0"), lambda: block("0", past_cache=False))
            if step == 0:

                def four(i: str) -> None:
                    for j in range(4):
                        block(text.op(f"add i64 {i}, {j * per_block}"), past_cache=False)

                start = loop(text, start, 4 * per_block, lambda i: fits(i, 4 * per_block), four)
            end = loop(text, start, per_block, lambda i: fits(i, per_block), lambda i: block(i, past_cache=False))
            last = text.op(f"sub i64 %n, {per_block}")
            when(text, text.op(f"icmp ult i64 {end}, %n"), lambda: block(last, past_cache=False))

        def many_past_cache() -> None:
            # a block is a cache line. Two at the front, up to the end of a line, and two at the end have ordinary stores,
            # so that no line is written by both kinds; the caller promises that the output's address is a multiple of the group
            constant()
            second = text.op(f"udiv i64 {to_multiple(text, d, LINE)}, {group}")
            block("0", past_cache=False)
            block(second, past_cache=False)
            start = text.op(f"add i64 {second}, {per_block}")
            end = loop(text, start, per_block, lambda i: fits(i, 2 * per_block), lambda i: block(i, past_cache=True))
            block(end, past_cache=False)
            block(text.op(f"sub i64 %n, {per_block}"), past_cache=False)

        def one_by_one() -> None:
            each(text, single)

        if lanes is None and not single_constant:
            one_by_one()
        else:
            least = text.op(f"icmp uge i64 %n, {4 * per_block if stream else per_block}")
            when(text, least, many_past_cache if stream else many, one_by_one)

    fetch = partial(_fetch, pattern, step, ahead.cache) if ahead else None
    return kernel(body, fetch, dense=group if dense else 0, width=target.vector_bytes)


def _fetch(pattern: tuple[int, ...], step: int, cache: int, text: Text, source: str) -> None:
    """Prefetch the first groups of a row: everything from their first to their last byte, or only the lines that are read."""
    low, high = min(pattern), max(pattern) + 1
    between = text.op(f"mul i64 {text.op('sub i64 %n, 1')}, {abs(step)}")
    used = [low]
    for offset in sorted(set(pattern)):
        if offset >= used[-1] + LINE:
            used.append(offset)
    if len(used) * LINE >= high - low - LINE and abs(step) <= high - low + LINE:
        size = text.op(f"add i64 {between}, {high - low}")
        region(text, cache, text.at(source, text.op(f"sub i64 {high}, {size}") if step < 0 else low), size)
        return
    most = text.op(f"call i64 @llvm.umin.i64(i64 %n, i64 {max(1, FETCHED // LINE // len(used))})")

    def group(i: str) -> None:
        place = text.at(source, text.op(f"mul i64 {i}, {step}"))
        for offset in used:
            prefetch(text, cache, place, offset)

    loop(text, "0", 1, lambda i: text.op(f"icmp ult i64 {i}, {most}"), group)


def groups_per_block(group: int, width: int, vectors: int) -> int:
    return math.lcm(group, width * vectors) // group


Lane = list[tuple[int, tuple[int, ...]]]


def _chunks(needed: list[int]) -> list[Lane] | None:
    """For each 16 output bytes: (input offset of 16 bytes to load, where each output byte is in them, or -1).

    No load reads before the first or behind the last byte that is needed. None where permutes do not pay: where the input spans
    less than a load, or moves of contiguous runs would be fewer.
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


def _side_by_side(text: Text, source: str, starts: list[int]) -> str:
    """Pieces of 16 input bytes as one vector, in one load if they are contiguous."""
    if starts == list(range(starts[0], starts[0] + LANE * len(starts), LANE)):
        return text.load(f"<{LANE * len(starts)} x i8>", source, starts[0])
    half = len(starts) // 2
    low, high = _side_by_side(text, source, starts[:half]), _side_by_side(text, source, starts[half:])
    return shuffle(text, low, high, f"<{LANE * half} x i8>", range(2 * LANE * half))


def _vectors(text: Text, source: str, lanes: list[Lane], width: int) -> list[str]:
    """The output vectors of a block: the chunks of each vector's lanes are loaded side by side, permuted and combined."""
    per_vector = width // LANE
    kind = f"<{width} x i8>"
    vectors = []
    for at in range(0, len(lanes), per_vector):
        together = lanes[at : at + per_vector]
        united = ""
        for c in range(max(map(len, together))):
            # a lane with fewer chunks loads its last one again, and uses no byte of it
            chunks = [lane[c] if c < len(lane) else (lane[-1][0], (-1,) * LANE) for lane in together]
            joined = _side_by_side(text, source, [start for start, _ in chunks])
            places = [p if p < 0 else p + LANE * i for i, (_, inside) in enumerate(chunks) for p in inside]
            mask = [width + j if p < 0 else p for j, p in enumerate(places)]  # zero where the chunk has no byte
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
