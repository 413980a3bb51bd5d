"""The kernel that lists nonzero elements: rows of coordinates, and their count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments, Signature
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code import engine
from anydml.kernels.code.emit import along, fold, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.irregular.loops import OUTER, Loop, described
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.nonzeros import Nonzeros
from anydml.kernels.order import tuning
from anydml.tensor import DataType, TensorDesc

LISTING = Signature("*source *total *coordinates rows row_step column_step")


class ListingKey(NamedTuple):
    """The data types of elements, count and coordinates, and the number of coordinates of a row."""

    data_type: DataType
    total: DataType
    coordinates: DataType
    columns: int


def emitted(target: Target, kernel_key: ListingKey) -> str:
    """The kernel. Arguments: LISTING, and a loop over the source for each dimension."""
    body = Body(target)
    LISTING.load(body)
    base = body.at("%arguments", LISTING.end)
    loops = [(body.load("i64", base, 16 * k), body.load("i64", base, 16 * k + 8)) for k in range(OUTER + 1)]

    def nested(k: int, place: str, index: list[str], found: str) -> str:
        """Write the rows of a loop's elements. index: the coordinates of the loops around it. -> the number of rows so far"""
        count, stride = loops[k]
        if k == OUTER:
            return _Row(body, kernel_key, place, index, count, stride).listed(found)

        def turn(i: str, rows: list[str]) -> list[str]:
            return [nested(k + 1, along(body, place, stride, i), [*index, i], rows[0])]

        return fold(body, "0", count, 1, [("i64", found)], turn)[1][0]

    total = nested(0, "%source", [], "0")
    _put(body, kernel_key.total, total, "%total")

    def nothing(row: str, _: list[str]) -> list[str]:
        place = along(body, "%coordinates", "%row_step", row)
        for c in range(kernel_key.columns):
            _put(body, kernel_key.coordinates, "0", body.at(place, body.op(f"mul i64 %column_step, {c}")))
        return []

    fold(body, _cleared(body, kernel_key, total), "%rows", 1, [], nothing)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def _put(body: Body, data_type: DataType, value: str, place: str) -> None:
    """Store an integer modulo 2^bits of its type."""
    bits = data_type.element_bits
    body.store(f"i{bits}", value if bits == 64 else body.op(f"trunc i64 {value} to i{bits}"), place)


def _cleared(body: Body, kernel_key: ListingKey, first: str) -> str:
    """Set rows to 0, beginning with `first`, if they are contiguous. -> the first row that is not set"""
    size = kernel_key.coordinates.element_bits // 8
    row, lanes = size * kernel_key.columns, body.target.vector_bytes // size
    inner = body.op(f"icmp eq i64 %column_step, {size}")
    packed = body.op(f"and i1 {inner}, {body.op(f'icmp eq i64 %row_step, {row}')}")
    end = body.op(f"select i1 {packed}, i64 {body.op(f'mul i64 %rows, {kernel_key.columns}')}, i64 0")
    start = body.op(f"mul i64 {first}, {kernel_key.columns}")
    begin = body.op(f"select i1 {packed}, i64 {start}, i64 0")

    def cleared(kind: str, zero: str) -> Callable[[str, list[str]], list[str]]:
        def step(i: str, _: list[str]) -> list[str]:
            body.store(kind, zero, along(body, "%coordinates", str(size), i))
            return []

        return step

    done, _ = fold(body, begin, end, lanes, [], cleared(f"<{lanes} x i{8 * size}>", "zeroinitializer"))
    fold(body, done, end, 1, [], cleared(f"i{8 * size}", "0"))
    return body.op(f"select i1 {packed}, i64 %rows, i64 {first}")


class _Row:
    """The innermost loop. index: the other coordinates."""

    def __init__(self, body: Body, kernel_key: ListingKey, place: str, index: list[str], count: str, stride: str) -> None:
        self.body, self.kernel_key, self.place, self.index, self.count, self.stride = (
            body,
            kernel_key,
            place,
            index,
            count,
            stride,
        )
        self.bits = kernel_key.data_type.element_bits
        self.lanes = min(64, body.target.vector_bytes * 8 // self.bits)

    def listed(self, found: str) -> str:
        """Write the rows of this loop. -> the number of rows so far"""
        body = self.body
        dense = body.op(f"icmp eq i64 {self.stride}, {self.bits // 8}")
        end = body.op(f"select i1 {dense}, i64 {self.count}, i64 0")
        first = Value(body, found, Kind("i64"))
        done, rows = body.loop("0", end, self.lanes, [first], lambda i, rows: [self._some(i, rows[0], self.lanes)])
        _, (last,) = body.loop(done, self.count, 1, rows, lambda i, rows: [self._some(i, rows[0], 1)])
        return last.name

    def _some(self, i: str, rows: Value, lanes: int) -> Value:
        body, word = self.body, Kind("i64")
        bits = body.loaded(Kind(f"i{self.bits}", lanes), along(body, self.place, self.stride, i))
        if self.kernel_key.data_type.is_float:  # zeros of both signs are 0
            bits = bits << 1
        mask = Value(body, lanes_as_bits(bits.compared("ne", 0)), word)

        def one(_: str, values: list[Value]) -> list[Value]:
            left, row = values
            lane = body.call("llvm.cttz.i64", word, left, "i1 false")
            index = [*self.index, body.op(f"add i64 {i}, {lane.name}")]
            place = along(body, "%coordinates", "%row_step", row.name)
            for c, x in enumerate(index[len(index) - self.kernel_key.columns :]):
                _put(body, self.kernel_key.coordinates, x, body.at(place, body.op(f"mul i64 %column_step, {c}")))
            return [left & (left - 1), row + 1]

        return body.loop("0", body.intrinsic("ctpop", mask).name, 1, [mask, rows], one)[1][1]


def lowered(found: Nonzeros, target: Target, tensors: Mapping[str, TensorDesc]) -> Lowered:
    """The lowered operator: a single step."""
    source, total, coordinates = (tensors[name] for name in (found.source, found.total, found.coordinates))
    itemsize, size = source.data_type.dtype.itemsize, coordinates.data_type.dtype.itemsize
    kernel_key = ListingKey(source.data_type, total.data_type, coordinates.data_type, found.columns)
    code = engine.compiled(emitted, target, kernel_key)
    loops = [Loop(n, (stride * itemsize,)) for n, stride in zip(source.sizes, source.explicit_strides, strict=True)]
    row_step, column_step = (stride * size for stride in coordinates.explicit_strides[-2:])
    places = Arguments(source=At(found.source), total=At(found.total), coordinates=At(found.coordinates))
    steps = Arguments(row_step=row_step, column_step=column_step)
    step = LISTING.step(code, *described(loops, 1), **places, rows=coordinates.sizes[-2], **steps)
    return Lowered(target, [Rounds([[[step]]])], short=prod(source.sizes) < tuning.TUNING.short_listing)
