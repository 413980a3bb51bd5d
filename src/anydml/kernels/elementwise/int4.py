"""Tensors of 4-bit elements in machine code: unpacked to one byte per element in the scratch, and packed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.call.steps import At
from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel, shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import tuning
from anydml.kernels.elementwise.runs import Run, TensorStart
from anydml.kernels.match.maps import Map
from anydml.kernels.match.normal_form import Node, normal_form
from anydml.tensor import DataType, TensorDesc

BYTES = {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}
PACKED = Signature("*from *to first end count")


class InBytes(NamedTuple):
    """A map of tensors with one byte per element. before, after: the runs that unpack the inputs and that pack the output.

    inner: the size in bytes of each unpacked tensor, by name.
    """

    map: Map
    places: dict[str, TensorStart]
    before: list[Run]
    after: list[Run]
    inner: dict[str, int]


def in_bytes(m: Map, places: Mapping[str, TensorStart], target: Target, threads: int) -> InBytes | str:
    """The map with a byte for each 4-bit element, or the reason why it is refused."""
    made = dict(places)
    before: list[Run] = []
    after: list[Run] = []
    inner: dict[str, int] = {}
    output = str(m.target.name)
    for name in dict.fromkeys([*(s.name for s in m.streams if s.name is not None), output]):
        base, t = places[name]
        if t.data_type not in BYTES:
            continue
        there = prod(n for n, stride in zip(t.sizes, t.explicit_strides, strict=True) if stride)
        if t.span > tuning.TUNING.packed_apart * there + tuning.TUNING.packed_share:
            return "elements of four bits lie far from each other"
        if name == output and not m.integral:
            return "a real number is cut to four bits"
        own = f"{name} in bytes"
        inner[own] = 2 * t.element_bytes
        made[name] = TensorStart(At(own), TensorDesc(BYTES[t.data_type], t.sizes, strides=t.explicit_strides))
        if name == output:
            after.append(_run(packed, target, At(own), base, t.element_bytes, t.span, threads))
        else:
            unpack = unpacked_signed if t.data_type == DataType.INT4 else unpacked
            before.append(_run(unpack, target, base, At(own), t.element_bytes, t.span, threads))
    return InBytes(of_bytes(m), made, before, after, inner)


def of_bytes(m: Map) -> Map:
    """The map of tensors that have a byte for each 4-bit element."""
    streams = tuple(s._replace(data_type=BYTES.get(s.data_type, s.data_type)) for s in m.streams)
    return m._replace(streams=streams, formula=normal_form(tuple([_widened(node) for node in m.formula])))


def _widened(node: Node) -> Node:
    if node.op != "stream":
        return node
    number, data_type = node.data
    return node._replace(data=(number, BYTES.get(data_type, data_type)))


def _run(emitter: Callable[[Target], str], target: Target, source: At, to: At, nbytes: int, count: int, threads: int) -> Run:
    """The run of a kernel over `nbytes` packed bytes, which are divided among threads."""
    shares = max(1, min(threads, nbytes // tuning.TUNING.packed_share))
    code = engine.compiled(emitter, target)
    ends = [nbytes * k // shares for k in range(shares + 1)]
    return Run(
        [[[PACKED.step(code, **{"from": source}, to=to, first=first, end=end, count=count)] for first, end in pairwise(ends)]]
    )


# --- code; arguments: PACKED, two addresses, the range of packed bytes, and the number of elements in all of them ---


def unpacked(target: Target) -> str:
    """The kernel that unpacks each half of a byte to a byte, the low half first."""
    return _unpacked(target, signed=False)


def unpacked_signed(target: Target) -> str:
    """`unpacked` for signed elements."""
    return _unpacked(target, signed=True)


def _unpacked(target: Target, *, signed: bool) -> str:
    body = Body(target)
    PACKED.load(body)

    def group(kind: Kind) -> Callable[[str, Sequence[Value]], list[Value]]:
        def one(i: str, _: Sequence[Value]) -> list[Value]:
            both = body.loaded(kind, body.at("%from", i))
            low, high = (x.shifted_right(4, signed=signed) for x in (both << 4, both))
            to = body.at("%to", body.op(f"shl i64 {i}, 1"))
            if not kind.lanes:
                body.stored(low, to)
                body.stored(high, to, 1)
                return []
            order = [k // 2 + k % 2 * kind.lanes for k in range(2 * kind.lanes)]
            wide = Kind(kind.element, 2 * kind.lanes)
            body.stored(Value(body, shuffle(body, low.name, high.name, kind.text, order), wide), to)
            return []

        return one

    lanes = target.vector_bytes
    i, _ = body.loop("%first", "%end", lanes, [], group(Kind("i8", lanes)))
    body.loop(i, "%end", 1, [], group(Kind("i8")))
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def packed(target: Target) -> str:
    """The kernel that packs the low halves of two bytes into one byte; a half without an element is 0."""
    body = Body(target)
    PACKED.load(body)
    lanes = target.vector_bytes
    wide = Kind("i8", 2 * lanes)

    def several(i: str, _: Sequence[Value]) -> list[Value]:
        both = body.load(wide.text, body.at("%from", body.op(f"shl i64 {i}, 1")))
        halves = (shuffle(body, both, "poison", wide.text, range(k, 2 * lanes, 2)) for k in (0, 1))
        low, high = (Value(body, name, Kind("i8", lanes)) for name in halves)
        body.stored((low & 15) | (high << 4), body.at("%to", i))
        return []

    def one(i: str, _: Sequence[Value]) -> list[Value]:
        at = body.op(f"shl i64 {i}, 1")
        low = body.loaded(Kind("i8"), body.at("%from", at))
        next_ = body.op(f"or i64 {at}, 1")
        there = body.value(f"icmp ult i64 {next_}, %count", Kind("i1"))
        high = body.loaded(Kind("i8"), body.at("%from", next_))  # the scratch has two bytes for each packed one
        body.stored((low & 15) | body.chosen(there, high << 4, 0), body.at("%to", i))
        return []

    whole = body.op("lshr i64 %count, 1")
    less = body.op(f"icmp ult i64 {whole}, %end")
    i, _ = body.loop("%first", body.op(f"select i1 {less}, i64 {whole}, i64 %end"), lanes, [], several)
    body.loop(i, "%end", 1, [], one)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
