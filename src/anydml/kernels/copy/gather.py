"""Short rows that are contiguous in the output: collected in scratch, and stored from there as whole cache lines."""

from __future__ import annotations

from anydml.kernels.code.emit import Text
from anydml.kernels.copy.text import LINE, loop, short, when

CHUNK = 4096  # bytes that are collected before they are stored
LONGEST = 4096  # bytes of a row at most


def scratch_bytes() -> int:
    return CHUNK + LONGEST + 3 * LINE


def settle(text: Text, scratch: str, d: str, out: str, width: int) -> tuple[str, str]:
    """Store what is collected up to d if it is a chunk. -> (the address in scratch to continue at, the address in the output of
    what is collected in scratch)"""
    filled = _between(text, scratch, d)
    before, full, moved, settled = (text.name(stem) for stem in ("gathered", "full", "moved", "settled"))
    text.jump(before)
    text.label(before)
    text.branch(text.op(f"icmp uge i64 {filled}, {CHUNK}"), full, settled)
    text.label(full)
    base, end = _lines(text, scratch, filled, out, width)
    rest = text.at(scratch, end)
    for at in range(0, LINE, width):
        text.store(f"<{width} x i8>", text.load(f"<{width} x i8>", rest, at), scratch, at)
    left = text.at(scratch, text.op(f"sub i64 {filled}, {end}"))
    begun = text.at(base, end)
    text.jump(moved)
    text.label(moved)
    text.jump(settled)
    text.label(settled)
    d = text.op(f"phi ptr [ {d}, %{before} ], [ {left}, %{moved} ]")
    return d, text.op(f"phi ptr [ {out}, %{before} ], [ {begun}, %{moved} ]")


def leave(text: Text, scratch: str, d: str, out: str, width: int) -> None:
    """Store everything that is collected up to d."""
    filled = _between(text, scratch, d)
    base, end = _lines(text, scratch, filled, out, width)

    def rest() -> None:
        short(text, text.at(scratch, end), text.at(base, end), text.op(f"sub i64 {filled}, {end}"), LINE, width)

    when(text, text.op(f"icmp ult i64 {end}, {filled}"), rest)


def _between(text: Text, low: str, high: str) -> str:
    return text.op(f"sub i64 {text.op(f'ptrtoint ptr {high} to i64')}, {text.op(f'ptrtoint ptr {low} to i64')}")


def _lines(text: Text, scratch: str, filled: str, out: str, width: int) -> tuple[str, str]:
    """Write whole lines with non-temporal stores, and the first one, if it is not whole, with ordinary ones.

    -> (the address in the output that corresponds to the beginning of scratch, the bytes of scratch that are stored)
    """
    start = text.op(f"and i64 {text.op(f'ptrtoint ptr {out} to i64')}, {LINE - 1}")
    base = text.at(out, text.op(f"sub i64 0, {start}"))
    broken = text.op(f"icmp ne i64 {start}, 0")

    def first() -> None:
        end = text.op(f"call i64 @llvm.umin.i64(i64 {LINE}, i64 {filled})")
        short(text, text.at(scratch, start), out, text.op(f"sub i64 {end}, {start}"), LINE, width)

    when(text, broken, first)

    def line(i: str) -> None:
        source, into = text.at(scratch, i), text.at(base, i)
        values = [text.load(f"<{width} x i8>", source, at) for at in range(0, LINE, width)]
        for at, value in zip(range(0, LINE, width), values, strict=True):
            text.store(f"<{width} x i8>", value, into, at, stream=width)

    begin = text.op(f"select i1 {broken}, i64 {LINE}, i64 0")
    whole = text.op(f"and i64 {filled}, -{LINE}")
    end = loop(text, begin, LINE, lambda i: text.op(f"icmp slt i64 {i}, {whole}"), line)
    return base, end
