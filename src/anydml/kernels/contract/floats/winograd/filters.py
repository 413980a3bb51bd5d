"""The kernel that packs the filters of Winograd's algorithm, with their norms.

A vector has one element of as many filters as it has lanes. They are packed as float32 and transformed later: transformed
filters would take eight times the memory.
"""

from __future__ import annotations

import numpy as np

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.winograd.transform import SLACK, TRANSFORMS
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

PACK = Signature("*a row rows channels term line place *into *norms *plain part *squares")


def packed(target: Target, data_type: DataType, taps: int) -> str:
    """The kernel that packs filters of taps x taps; arguments: PACK.

    row, term, line, place: strides in bytes along filters, channels, lines and places of a filter. into: vector by vector of
    filters, channel by channel, element by element; the last vector is filled up with the last filter. plain: the root of the
    sum of squares of each filter, rounded up; norms: the filters' factors of the bounds; part: the share of the plain norm in
    these, the bits of a float64. squares: scratch, a vector of float64 for each position of the transform.
    """
    winograd, body = TRANSFORMS[taps], Body(target)
    PACK.load(body)
    lanes = target.vector_bytes // 8
    wide, i64 = Kind("double", lanes), Kind("i64")
    part = body.splat(Value(body, body.op("bitcast i64 %part to double"), Kind("double")), lanes)
    size = data_type.dtype.itemsize
    element = Kind(f"i{8 * size}")
    last = body.op("sub i64 %rows, 1")
    of_channel = 4 * lanes * winograd.elements

    def vector(t: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {t}, {lanes}")
        filters = []
        for r in range(lanes):
            row = body.call("llvm.umin.i64", i64, f"i64 {body.op(f'add i64 {first}, {r}')}", f"i64 {last}").name
            filters.append(body.at("%a", body.op(f"mul i64 {row}, %row")))
        to = body.at("%into", body.op(f"mul i64 {body.op(f'mul i64 {t}, %channels')}, {of_channel}"))
        for n in range(winograd.positions):
            body.stored(body.constant(wide, 0.0), "%squares", 8 * lanes * n)

        def channel(c: str, carried: list[Value]) -> list[Value]:
            offset = body.op(f"mul i64 {c}, %term")
            place = body.at(to, body.op(f"mul i64 {c}, {of_channel}"))
            (squares,) = carried
            read: list[Value] = []
            for p in range(taps):
                at = body.op(f"add i64 {offset}, {body.op(f'mul i64 %line, {p}')}")
                for q in range(taps):
                    here = body.op(f"add i64 {at}, {body.op(f'mul i64 %place, {q}')}")
                    bits = body.undefined(Kind(element.element, lanes))
                    for r, filter_ in enumerate(filters):
                        bits = bits.replaced(r, body.loaded(element, body.at(filter_, here)))
                    single = singles.widened(bits, data_type)
                    body.stored(single, place, 4 * lanes * len(read))
                    x = single.converted("fpext", wide)
                    squares = body.fused(x, x, squares)
                    read.append(x)
            for row in range(winograd.read):
                for j, x in enumerate(winograd.of_filter(read, row)):
                    before = body.loaded(wide, "%squares", 8 * lanes * (row * winograd.read + j))
                    body.stored(body.fused(x, x, before), "%squares", 8 * lanes * (row * winograd.read + j))
            return [squares]

        (squares,) = body.loop("0", "%channels", 1, [body.constant(wide, 0.0)], channel)[1]
        at = body.op(f"mul i64 {t}, {8 * lanes}")
        body.stored(squares.root() * NORM_SLACK, body.at("%plain", at))

        def square(i: int, j: int) -> Value:
            return body.loaded(wide, "%squares", 8 * lanes * (i * winograd.read + j))

        weights = winograd.input_norms / winograd.filter_norms
        found = winograd.weighted(square, squares, winograd.filter_norms, part, weights)
        largest = body.constant(wide, 0.0)
        for i, line in enumerate(found):
            for j, x in enumerate(line):
                x = x.root() * float(SLACK / np.sqrt(winograd.amplified[i] * winograd.amplified[j]))
                # a NaN is kept
                largest = body.chosen(x.compared("olt", largest) | largest.compared("uno", largest), largest, x)
        body.stored(largest, body.at("%norms", at))
        return []

    up = body.op(f"add i64 %rows, {lanes - 1}")
    body.loop("0", body.op(f"udiv i64 {up}, {lanes}"), 1, [], vector)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
