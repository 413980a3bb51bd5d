"""Four rows of bytes interleaved for dot products of bytes: the four bytes of every column are contiguous."""

from __future__ import annotations

from anydml.kernels.code.emit import Text, shuffle
from anydml.kernels.code.targets import Target

FLIP = f"splat (i32 {0x80808080 - (1 << 32)})"  # the highest bit of every byte


def by_column(text: Text, rows: list[str], target: Target) -> list[str]:
    """Interleave four rows of two vectors' columns, a byte each: a column's four bytes become contiguous.

    Rows 0 and 2, and rows 1 and 3, share a register; bytes are interleaved within lanes of 16, then words across them.
    """
    width = target.vector_bytes
    half, lanes = width // 2, width // 4
    even, odd = (shuffle(text, rows[i], rows[i + 2], f"<{half} x i8>", range(width)) for i in (0, 1))
    pairs = []
    for low in (0, 8):
        order = [lane + low + i + which * width for lane in range(0, width, 16) for i in range(8) for which in range(2)]
        mixed = shuffle(text, even, odd, f"<{width} x i8>", order)
        pairs.append(text.op(f"bitcast <{width} x i8> {mixed} to <{half} x i16>"))
    vectors = []
    for n in range(2):
        order = []
        for column in range(n * lanes, (n + 1) * lanes):
            at = column // 16 * 8 + column % 8 + (half if column % 16 >= 8 else 0)
            order += [at, at + (half // 2 if width > 16 else half)]
        words = shuffle(text, pairs[0], pairs[1], f"<{half} x i16>", order)
        vectors.append(text.op(f"bitcast <{half} x i16> {words} to <{lanes} x i32>"))
    return vectors


def by_column_of_sixteen(text: Text, rows: list[str]) -> list[str]:
    """Interleave four rows of sixteen columns; each of the four vectors has four columns."""
    halves = range(8), range(8, 16)
    first, second = (
        [shuffle(text, x, y, "<16 x i8>", [i for c in half for i in (c, 16 + c)]) for half in halves]
        for x, y in (rows[:2], rows[2:])
    )
    found = []
    for x, y in zip(first, second, strict=True):
        left, right = (text.op(f"bitcast <16 x i8> {v} to <8 x i16>") for v in (x, y))
        for low in (0, 4):
            words = shuffle(text, left, right, "<8 x i16>", [i for c in range(low, low + 4) for i in (c, 8 + c)])
            found.append(text.op(f"bitcast <8 x i16> {words} to <4 x i32>"))
    return found
