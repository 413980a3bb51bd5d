"""Maps from bytes to bytes through real numbers, by a table: 256 elements are computed, and all others are looked up.

A dequantised activation that is quantised again reads one tensor of bytes; its scales and zero points are the same for all
elements. The table is made at each call, as its scales may be bound, and by the same kernel that would compute the elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from anydml.kernels.call.signature import Signature
from anydml.kernels.call.steps import At
from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import tuning
from anydml.kernels.elementwise.geometry import parts
from anydml.kernels.elementwise.runs import Run, TensorStart
from anydml.kernels.match.maps import Map, Stream
from anydml.tensor import DataType, TensorDesc

BYTES = (DataType.UINT8, DataType.INT8)
SIZE = 256
ALL, TABLE = np.arange(SIZE, dtype=np.uint8), "table of bytes"  # all bytes, as constants, and the base of the table's addresses
LOOKUP = Signature("*from *to *table n")
BLOCK = 64


def of_all_bytes(m: Map, places: Mapping[str, TensorStart]) -> tuple[Map, dict[str, TensorStart]] | None:
    """The map from all 256 bytes to the table, and its tensors, if only one stream of a map varies, and that has bytes.

    None also for few elements, where no number is a float, and where elements do not lie side by side.
    """
    if prod(m.sizes) < tuning.TUNING.tabled or m.moves or any(s.name is None for s in m.streams):
        return None
    output = places[str(m.target.name)].tensor
    varying = _varying(m, places)
    if len(varying) != 1 or output.data_type not in BYTES or not any(s.data_type.is_float for s in m.streams):
        return None
    (x,) = varying
    if m.streams[x].data_type not in BYTES or _in_one_row(m, places) is None:
        return None
    made = {
        **places,
        "all bytes": TensorStart(At("constants"), TensorDesc(m.streams[x].data_type, (SIZE,)).spelled_out()),
        TABLE: TensorStart(At(TABLE), TensorDesc(output.data_type, (SIZE,)).spelled_out()),
    }
    streams = [s._replace(steps=((0,) * len(s.start),)) for s in m.streams]
    streams[x] = Stream("all bytes", m.streams[x].data_type, (0,), ((1,),))
    target = m.target._replace(name=TABLE, start=(0,), steps=((1,),))
    return m._replace(target=target, sizes=(SIZE,), streams=tuple(streams)), made


def looked_up(m: Map, places: Mapping[str, TensorStart], target: Target, most_threads: int) -> Run:
    """The run that looks all elements up."""
    found = _in_one_row(m, places)
    assert found is not None
    n, source, to = found
    threads = max(1, min(most_threads, n // tuning.TUNING.alone))
    ends = [n // BLOCK * k // threads * BLOCK for k in range(threads)] + [n]
    code, table = engine.compiled(lookup, target), At(TABLE)
    steps = [
        LOOKUP.step(code, **{"from": source + first}, to=to + first, table=table, n=end - first)
        for first, end in pairwise(ends)
    ]
    return Run([[[step] for step in steps]])


def _varying(m: Map, places: Mapping[str, TensorStart]) -> list[int]:
    """The streams that are not the same for all elements."""
    steps = [places[str(s.name)].of(s)[1] for s in m.streams]
    return [k for k, some in enumerate(steps) if any(step for step, n in zip(some, m.sizes, strict=True) if n > 1)]


def _in_one_row(m: Map, places: Mapping[str, TensorStart]) -> tuple[int, At, At] | None:
    """The number of elements, and where the bytes begin, and the output; None if they do not lie side by side."""
    (x,) = _varying(m, places)
    (source, steps), (to, output) = (places[str(s.name)].of(s) for s in (m.streams[x], m.target))
    boxes = [*parts(m.sizes, (steps, output), (1, 1))]
    if len(boxes) > 1 or boxes[0].outer or boxes[0].row.strides != (1, 1):
        return None
    return boxes[0].row.size, source, to


def lookup(target: Target) -> str:
    """The kernel. Arguments: LOOKUP, the bytes, the output, the table and the number of elements."""
    body = Body(target)
    LOOKUP.load(body)
    at = "0"
    if "avx512bw" in target.features:
        table = [body.loaded(Kind("i16", 32), "%table", BLOCK * k) for k in range(4)]

        def several(i: str, _: Sequence[Value]) -> list[Value]:
            x = body.loaded(Kind("i16", 32), body.at("%from", i))
            even, odd = (_found(table, half) for half in (x & 255, x.shifted_right(8, signed=False)))
            body.stored((even & 255) | (odd << 8), body.at("%to", i))
            return []

        at, _ = body.loop("0", "%n", BLOCK, [], several)

    def one(i: str, _: Sequence[Value]) -> list[Value]:
        x = body.loaded(Kind("i8"), body.at("%from", i)).converted("zext", Kind("i64"))
        body.stored(body.loaded(Kind("i8"), body.at("%table", x.name)), body.at("%to", i))
        return []

    def eight(i: str, _: Sequence[Value]) -> list[Value]:
        for k in range(8):
            one(body.op(f"add i64 {i}, {k}"), [])
        return []

    at, _ = body.loop(at, "%n", 8, [], eight)
    body.loop(at, "%n", 1, [], one)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def _found(table: Sequence[Value], x: Value) -> Value:
    """The entries for bytes in words, in the low halves of words: two look-ups among 64 words each."""
    body, word = x.body, x.shifted_right(1, signed=False)
    low, high = (
        body.call("llvm.x86.avx512.vpermi2var.hi.512", x.kind, one, word, other) for one, other in (table[:2], table[2:])
    )
    both = body.chosen((x & 128).compared("eq", 0), low, high)
    return both.shifted_right((x & 1) << 3, signed=False)
