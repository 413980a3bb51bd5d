"""Vectors of words of 8 bytes, transposed so that the bytes of one place lie together."""

from __future__ import annotations

from anydml.kernels.code.values import Kind, Value

BYTES = Kind("i8", 64)


def shuffled(x: Value, y: Value, lanes: list[int]) -> Value:
    mask = ", ".join(f"i32 {k}" for k in lanes)
    return x.body.value(f"shufflevector {x!r}, {y!r}, <{len(lanes)} x i32> <{mask}>", Kind(x.kind.element, len(lanes)))


def _interleaved(x: Value, y: Value, size: int, *, high: bool) -> Value:
    """Elements of `size` bytes of two vectors in turn, from the lower or the upper halves of each 16 bytes."""
    kind = Kind(f"i{8 * size}", 64 // size)
    a, b, each = x.cast(kind), y.cast(kind), 16 // size
    lanes = [
        lane * each + (each // 2 if high else 0) + n + side * kind.lanes
        for lane in range(4)
        for n in range(each // 2)
        for side in (0, 1)
    ]
    return shuffled(a, b, lanes)


def _by_pairs(found: list[Value]) -> list[tuple[Value, Value]]:
    """Vectors of eight words of 8 bytes, interleaved two by two: those of even words, and those of odd ones."""
    return [
        (_interleaved(x, y, 1, high=False), _interleaved(x, y, 1, high=True))
        for x, y in zip(found[::2], found[1::2], strict=True)
    ]


def bytes_together(found: list[Value], count: int) -> list[Value]:
    """For eight vectors of eight words: the lowest `count` bytes, at most six, the highest of these first.

    Of each byte, there is a vector of those of all words, for each lane the eight of its words.
    """
    pairs = _by_pairs(found)
    of_parity = []
    for parity in range(2):
        a, b, c, d = (pair[parity] for pair in pairs)
        low = [_interleaved(x, y, 2, high=False) for x, y in ((a, b), (c, d))]
        high = [_interleaved(x, y, 2, high=True) for x, y in ((a, b), (c, d))]
        of_parity.append(
            [
                _interleaved(low[0], low[1], 4, high=False),
                _interleaved(low[0], low[1], 4, high=True),
                _interleaved(high[0], high[1], 4, high=False),
            ]
        )
    even, odd = of_parity
    planes = []
    for n in range(3):
        planes += [_interleaved(even[n], odd[n], 8, high=high) for high in (False, True)]
    return [planes[p].cast(BYTES) for p in range(count - 1, -1, -1)]


def words_together(found: list[Value]) -> list[Value]:
    """Eight vectors of eight words, transposed."""
    made = found
    for _ in range(3):
        made = [
            shuffled(x, y, [k + 8 * side for k in range(first, first + 4) for side in (0, 1)])
            for x, y in zip(made[:4], made[4:], strict=True)
            for first in (0, 4)
        ]
    return made


def fours_together(*halves: list[Value]) -> list[Value]:
    """For twice four vectors of eight words: their five lowest bytes, the highest of these first, as vectors.

    Each has four bytes of each of sixteen lanes: of the first half's, then of the second half's.
    """
    low, high = [], []
    for found in halves:
        (even, odd), (even2, odd2) = _by_pairs(found)
        lows = [_interleaved(x, y, 2, high=False) for x, y in ((even, even2), (odd, odd2))]
        highs = [_interleaved(x, y, 2, high=True) for x, y in ((even, even2), (odd, odd2))]
        low.append([_interleaved(lows[0], lows[1], 4, high=upper) for upper in (False, True)])
        high.append(_interleaved(highs[0], highs[1], 4, high=False))
    planes = []
    for n in range(3):
        x, y = ((half[n] if n < 2 else of_high).cast(Kind("i64", 8)) for half, of_high in zip(low, high, strict=True))
        planes += [shuffled(x, y, [2 * k + side for k in range(8)]) for side in (0, 1)]
    return planes[4::-1]
