"""Rows of the input whose elements are interleaved in the output, as the pixels of DEPTH_TO_SPACE are."""

from __future__ import annotations

from anydml.kernels.code.emit import Text, shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.emit import kernel
from anydml.kernels.copy.text import loop, when


def interleaved(target: Target, itemsize: int, count: int) -> str:
    """`count` rows of n elements each, a source stride apart, whose elements are interleaved in the output."""
    kind, lanes = f"i{8 * itemsize}", target.vector_bytes // itemsize
    vector = f"<{lanes} x {kind}>"

    def places(text: Text, s: str) -> list[str]:
        return [text.at(s, text.op(f"mul i64 %source_stride, {j}")) for j in range(count)]

    def body(text: Text, s: str, d: str) -> None:
        rows = places(text, s)

        def block(i: str) -> None:
            at, into = text.op(f"mul i64 {i}, {itemsize}"), text.at(d, text.op(f"mul i64 {i}, {itemsize * count}"))
            values = [text.load(vector, row, at) for row in rows]
            for k, value in enumerate(woven(text, values, lanes, kind)):
                text.store(vector, value, into, target.vector_bytes * k)

        def single(i: str) -> None:
            at, into = text.op(f"mul i64 {i}, {itemsize}"), text.at(d, text.op(f"mul i64 {i}, {itemsize * count}"))
            for j, row in enumerate(rows):
                text.store(kind, text.load(kind, row, at), into, itemsize * j)

        def blocks() -> None:
            def fits(i: str) -> str:
                return text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {lanes}')}, %n")

            loop(text, "0", lanes, fits, block)
            block(text.op(f"sub i64 %n, {lanes}"))  # a part of the last block again

        def singles() -> None:
            loop(text, "0", 1, lambda i: text.op(f"icmp ult i64 {i}, %n"), single)

        when(text, text.op(f"icmp uge i64 %n, {lanes}"), blocks, singles)

    return kernel(body)


def woven(text: Text, values: list[str], lanes: int, kind: str) -> list[str]:
    """The same number of vectors, in the order of the output, in which the elements of the given ones are interleaved."""
    count, joined, width = len(values), list(values), lanes
    while len(joined) > 1:  # concatenated in pairs; missing elements may have any value
        if len(joined) % 2:
            joined.append("poison")
        pairs = zip(joined[::2], joined[1::2], strict=True)
        joined = [shuffle(text, a, b, f"<{width} x {kind}>", range(2 * width)) for a, b in pairs]
        width *= 2
    found = []
    for k in range(count):
        turns = [divmod(k * lanes + e, count) for e in range(lanes)]
        found.append(shuffle(text, joined[0], "poison", f"<{width} x {kind}>", [row * lanes + at for at, row in turns]))
    return found
