"""Look-ups in tables that fit into vector registers: one instruction for each register."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from anydml.kernels.code.values import Kind, Value


def picked(table: Sequence[int | float], element: str, index: Value) -> Value:
    """Entries of a table by the low bits of an index. The table has as many float32, int32 or float64 as a vector, or twice as
    many, or eight float64.

    The index has integers of the same width as the entries.
    """
    body, lanes = index.body, index.kind.lanes
    if element == "double" and "avx512f" not in body.target.features:
        return _by_halves(table, index)
    size = min(lanes, body.target.vector_bytes * 8 // index.kind.bits)
    suffix = {"float": "ps", "i32": "d", "double": "pd"}[element]
    if len(table) == 2 * size:
        name = f"avx512.vpermi2var.{suffix}.512"
    else:
        name = f"avx2.perm{suffix}" if size == 8 else f"avx512.permvar.s{'f' if element == 'float' else 'i'}.512"
        table = [*table] * (size // len(table))
    first, *second = (body.constants(element, table[k : k + size]) for k in range(0, len(table), size))
    parts = [body.call(f"llvm.x86.{name}", first.kind, first, _part(index, k, size), *second) for k in range(0, lanes, size)]
    return _whole(parts)


def _by_halves(table: Sequence[float], index: Value) -> Value:
    """Eight float64, of whose halves a vector has as many as float32."""
    lanes = index.kind.lanes
    words = Kind("i32", 2 * lanes)
    both = _shuffled(index.cast(words), index.cast(words), [k & -2 for k in range(2 * lanes)])
    bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in table]
    lower, upper = (picked([(x >> by & 0xFFFFFFFF ^ 1 << 31) - (1 << 31) for x in bits], "i32", both) for by in (0, 32))
    return _shuffled(lower, upper, [k + k % 2 * 2 * lanes for k in range(2 * lanes)]).cast(Kind("double", lanes))


def fine(x: Value) -> bool:
    """Whether an instruction looks up one of 32 entries."""
    return "avx512f" in x.body.target.features and x.kind.lanes >= 16


def _whole(parts: list[Value]) -> Value:
    while len(parts) > 1:
        parts = [_shuffled(a, b, range(2 * a.kind.lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _part(x: Value, first: int, count: int) -> Value:
    return _shuffled(x, x, range(first, first + count))


def _shuffled(a: Value, b: Value, places: Sequence[int]) -> Value:
    mask = ", ".join(f"i32 {k}" for k in places)
    kind = Kind(a.kind.element, len(places))
    return a.body.value(f"shufflevector {a.kind.text} {a.name}, {b.kind.text} {b.name}, <{len(places)} x i32> <{mask}>", kind)
