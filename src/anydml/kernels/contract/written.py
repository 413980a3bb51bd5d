"""The lines of a piece's output, fetched for writing before they are computed, since another core may have read them.

A store waits until its core owns the line, and one that crosses lines keeps the next ones from being fetched: with lines of 7
bytes, a core took 19 ns for each line that another core had read, and 74 ns where the cores share no cache. One byte of each
line written first takes 4 and 15 ns.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, fold, kernel
from anydml.kernels.code.targets import Target

LINE = 64  # bytes; where lines are longer, some are written twice
FETCH = Signature("*c bytes")


def fetch(target: Target) -> str:
    """The kernel that writes a byte of each line of `bytes` contiguous bytes, the value that it has. Arguments: FETCH."""
    text = Text()
    FETCH.load(text)

    def touch(place: str) -> None:
        value = text.op(f"load volatile i8, ptr {place}, align 1")
        text.do(f"store volatile i8 {value}, ptr {place}, align 1")

    def line(i: str, _: list[str]) -> list[str]:
        touch(text.at("%c", i))
        return []

    fold(text, "0", text.op(f"add i64 %bytes, {LINE - 1}"), LINE, [], line)
    touch(text.at("%c", text.op("sub i64 %bytes, 1")))
    text.do("ret i64 0")
    return kernel(text)


def fetched(target: Target, c: At, nbytes: int) -> Step:
    """The step that fetches contiguous bytes, at least one, which no other piece writes."""
    return FETCH.step(engine.compiled(fetch, target), c=c, bytes=nbytes)
